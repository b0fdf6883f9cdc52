"""The state of a DAE: one packed vector, differential unknowns first, algebraic ones after."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from pySDC.implementations.datatype_classes.mesh import mesh

from dae_sdc.dae.polynomial import Vector as Vector, unpack
from dae_sdc.errors import InputError, MissingPartError

# Parts that states of other kinds of problems have in pySDC.
PARTS_OF_OTHERS = ("impl", "expl", "comp1", "comp2", "pos", "vel", "elec", "magn")


class StateShape(NamedTuple):
    """What pySDC calls ``init``: all that makes a new state; the first three are those its datatypes read."""

    shape: int  # Number of unknowns n = n_diff + n_alg.
    comm: None  # Communicator of a distributed state; states of DAEs are not distributed.
    dtype: np.dtype[Any]  # Type of one unknown.
    n_diff: int  # Number of differential unknowns.


class _WithAdvice(type):
    """A class whose text says what to use where a part of pySDC refuses it, which puts it in its message."""

    def __str__(cls) -> str:
        return (
            f"{cls.__module__}.{cls.__qualname__} (for DAEs take AdaptivityDAE for estimates of errors, "
            f"SameUnknowns between levels, and a hook that assigns values for faults)"
        )


class MeshDAE(mesh, metaclass=_WithAdvice):  # type: ignore[misc]
    """State vector of a DAE for pySDC: n packed unknowns, the first ``n_diff`` of them differential.

    Parameters
    ----------
    init : StateShape, tuple or MeshDAE
        A shape makes a new state filled with ``val``, and a state a copy of it. A tuple as of pySDC's DAE
        project, (shape, communicator, dtype), gives the shape of each of the two parts.
    val : float
        Value to fill a new state with.

    Attributes
    ----------
    n_diff : int or None
        Number of differential unknowns; None on arrays that are no longer a whole state.
    polynomial : object or None
        What the last step knows beyond its end value (its collocation polynomial), carried from step to step
        by copies made through the constructor. It is what a predictor extrapolates and where an explicit
        first stage finds u'. Because it travels with the value, a rejected step that is repeated sees what it
        saw the first time.
    sides : tuple of int or None
        Signs of the switches of the problem, 1 or -1, that are in force from the end of a step on, for those
        whose values there do not tell.
    provisional : bool
        Whether the step that should end here is not solved yet, because its own start is not final. Such a
        value is passed between steps that are computed together, and never ends a run or a block of steps.

    Notes
    -----
    In-place operations work in place (``u += v`` writes into ``u``), as for any array; the mesh of pySDC
    allocates instead.

    Examples
    --------
    >>> u = ds.SimpleDAE().state([1.0, 2.0, 3.0])
    >>> u.diff, u.alg
    (MeshDAE([1., 2.]), MeshDAE([3.]))
    """

    n_diff: int | None = None
    polynomial: Any = None
    sides: tuple[int, ...] | None = None
    provisional: bool = False

    def __new__(cls, init: Any, val: float = 0.0, **kwargs: Any) -> MeshDAE:
        """A new state of the shape ``init``, or a copy of the state ``init``."""
        if isinstance(init, MeshDAE):
            obj = np.ndarray.__new__(cls, init.shape, dtype=init.dtype, **kwargs)
            obj[...] = init
            obj.n_diff = init.n_diff
            obj.polynomial, obj.sides = init.polynomial, init.sides
            if init.provisional:
                obj.provisional = True
            return obj
        if isinstance(init, tuple) and len(init) >= 3:
            shape = init[0] if isinstance(init[0], tuple) else (init[0],)
            if len(init) == 3:
                init = (*init, shape[0])
                shape = (2 * shape[0], *shape[1:])
            obj = np.ndarray.__new__(cls, shape, dtype=init[2], **kwargs)
            obj.fill(val)
            obj.n_diff = init[3]
            return obj
        raise InputError(
            f"a MeshDAE is made from a shape or another MeshDAE; got {type(init).__name__}; "
            f"make one with problem.state(values)"
        )

    def __array_finalize__(self, obj: Any) -> None:
        if isinstance(obj, MeshDAE) and obj.shape == self.shape:
            self.n_diff = obj.n_diff

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [x.view(np.ndarray) if isinstance(x, MeshDAE) else x for x in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(x.view(np.ndarray) if isinstance(x, MeshDAE) else x for x in out)
        if isinstance(kwargs.get("where"), MeshDAE):
            kwargs["where"] = kwargs["where"].view(np.ndarray)
        result = getattr(ufunc, method)(*plain, **kwargs)
        if out is not None:
            return out[0] if len(out) == 1 else out
        if not isinstance(result, np.ndarray) or result.shape != self.shape:
            return result
        return attach(result, self.n_diff)

    def _part(self, start: int | None, stop: int | None) -> MeshDAE:
        if self.n_diff is None:
            raise AttributeError  # Python then asks __getattr__, which tells why
        return attach(self.view(np.ndarray)[start:stop], None)

    @property
    def diff(self) -> MeshDAE:
        """View of the differential unknowns, shape (n_diff,)."""
        return self._part(None, self.n_diff)

    @diff.setter
    def diff(self, value: Any) -> None:
        self._part(None, self.n_diff)[:] = value

    @property
    def alg(self) -> MeshDAE:
        """View of the algebraic unknowns, shape (n_alg,)."""
        return self._part(self.n_diff, None)

    @alg.setter
    def alg(self, value: Any) -> None:
        self._part(self.n_diff, None)[:] = value

    def __getattr__(self, name: str) -> Any:
        if name in PARTS_OF_OTHERS:
            raise MissingPartError(
                f"the state of a DAE has the parts diff and alg, and no '{name}'; sweepers of pySDC that "
                f"split u' = f(u, t) do not solve DAEs, use those of dae_sdc ('dae-sdc list sweepers')"
            )
        if name in ("diff", "alg"):  # Python asks here again where the property has none
            raise AttributeError(
                f"an array of shape {self.shape} cut from a state has no differential and algebraic part"
            )
        raise AttributeError(f"a MeshDAE has no attribute '{name}'")

    def __abs__(self) -> float:
        """Largest absolute value, the norm pySDC uses; 0 for an empty part."""
        return float(np.abs(self.view(np.ndarray)).max(initial=0.0))

    def isend(self, dest: int | None = None, tag: int | None = None, comm: Any = None) -> Any:
        """Send the state and its polynomial forward in time; returns the request."""
        return comm.Issend(self._message(), dest=dest, tag=tag)

    def irecv(self, source: int | None = None, tag: int | None = None, comm: Any = None) -> Receipt:
        """Receive what :meth:`isend` sent into this state, when the request returned is waited for."""
        return Receipt(self, comm, source, tag)

    def _message(self) -> Vector:
        known = () if self.polynomial is None else self.polynomial.pack()
        return np.concatenate([self.view(np.ndarray), [self.provisional], known])

    def _take(self, message: Vector) -> None:
        """Become the state of which :meth:`_message` was received."""
        self[:] = message[: self.size]
        self.provisional = bool(message[self.size])
        # A polynomial of its own every time tells a sweeper that the value is new.
        self.polynomial = unpack(message[self.size + 1 :])

    def bcast(self, root: int | None = None, comm: Any = None) -> MeshDAE:
        """Give the state and its polynomial to all ranks; returns it, as a new state on those that receive.

        On ranks that receive, this state stays as it is: it may be the end of a step that somebody keeps.

        Raises
        ------
        InputError
            On all ranks, where the state is provisional.
        """
        if comm.Get_size() == 1:
            return self
        receives = comm.Get_rank() != root
        length = np.zeros(1, dtype=np.int64)
        message = np.empty(0)
        if not receives:
            message = self._message()
            length[0] = message.size
        comm.Bcast(length, root=root)
        if receives:
            message = np.empty(int(length[0]))
        comm.Bcast(message, root=root)
        state = self
        if receives:
            state = attach(np.empty(self.size), self.n_diff)
            state._take(message)
        if state.provisional:
            raise InputError(
                f"{comm.Get_size()} steps at once of a method that solves a step in one sweep have ended "
                f"before the last one knew its start; set controller_params mssdc_jac to False, or take one "
                f"step at a time"
            )
        return state

    def __reduce__(self) -> Any:
        base = super().__reduce__()
        return base[0], base[1], (base[2], self.n_diff, self.polynomial, self.provisional)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state[0])
        self.n_diff, self.polynomial, self.provisional = state[1:]


class Receipt:
    """A state on its way: the request of pySDC's time-parallel controller that fills in the state."""

    def __init__(self, state: MeshDAE, comm: Any, source: int | None, tag: int | None) -> None:
        self._state, self._comm, self._source, self._tag = state, comm, source, tag

    def Wait(self) -> None:
        """Block until the message is there and take it over."""
        # Its length depends on the sweeper that sends it.
        from mpi4py import MPI

        status = MPI.Status()
        pending = self._comm.Mprobe(source=self._source, tag=self._tag, status=status)
        message = np.empty(status.Get_count(MPI.DOUBLE))
        pending.Recv(message)
        self._state._take(message)


def attach(values: Vector, n_diff: int | None) -> MeshDAE:
    """View an array of n unknowns as a state without copying it."""
    state = values.view(type=MeshDAE)
    state.n_diff = n_diff
    return state
