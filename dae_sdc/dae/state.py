"""The state of a DAE, one vector with differential unknowns first, and the polynomial of the step before."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray
from pySDC.implementations.datatype_classes.mesh import mesh
from qmat.lagrange import LagrangeApproximation

from dae_sdc.errors import InputError, MissingPartError

Vector: TypeAlias = NDArray[np.float64]

TINY = float(np.finfo(float).tiny)

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

    def derivative(self) -> Vector:
        """u' as the step knows it that has ended here, shape (n,), a new array; 0 where none has."""
        known: Vector | None = None if self.polynomial is None else self.polynomial.derivative_at_end()
        return np.zeros(self.size) if known is None else known

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


@lru_cache(maxsize=256)
def interpolation_matrix(nodes: tuple[float, ...], targets: tuple[float, ...]) -> Vector:
    """Matrix that takes values at ``nodes`` to values at ``targets``, both in units of the step."""
    matrix: Vector = LagrangeApproximation(np.array(nodes)).getInterpolationMatrix(np.array(targets))
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=256)
def continuation_matrix(
    nodes: tuple[float, ...], targets: tuple[float, ...], start: float, ratio: float
) -> Vector:
    """Matrix that takes values at the nodes of a step to values at the nodes of a later one."""
    # Steps of changing sizes need a new one each: Newton's products take a sixth of the time of Lagrange's.
    without_last, divided_differences = _newton(nodes)
    distances = (start + ratio * np.array(targets))[:, None] - without_last
    products = np.ones((len(targets), len(nodes)))
    np.multiply.accumulate(distances, axis=1, out=products[:, 1:])
    matrix: Vector = products @ divided_differences
    matrix.setflags(write=False)
    return matrix


def lagrange_weights(nodes: Vector) -> Vector:
    """Factors 1 / prod_{j != k} (c_k - c_j) of the Lagrange polynomials of distinct nodes, shape (M,)."""
    distances = np.subtract.outer(nodes, nodes)
    np.fill_diagonal(distances, 1.0)
    return np.asarray(1.0 / distances.prod(axis=1))


@lru_cache(maxsize=64)
def _newton(nodes: tuple[float, ...]) -> tuple[Vector, Vector]:
    """All nodes but the last, and the matrix that takes values at the nodes to their divided differences."""
    points = np.array(nodes)
    products = np.cumprod(np.subtract.outer(points, points[:-1]), axis=1)
    return points[:-1], np.linalg.inv(np.column_stack([np.ones(len(nodes)), products]))


@lru_cache(maxsize=64)
def differentiation_row(nodes: tuple[float, ...], target: float) -> Vector:
    """Weights of the values at ``nodes`` in the derivative of their polynomial at ``target``."""
    approximation = LagrangeApproximation(np.array(nodes))
    at_nodes = approximation.getDerivativeMatrix()
    row: Vector = (interpolation_matrix(nodes, (target,)) @ at_nodes)[0]
    row.setflags(write=False)
    return row


def unresolved(nodes: tuple[float, ...], rows: Vector) -> Vector:
    """The part of u that its values at start and M nodes of a step, the rows, do not show; 0 for M < 3."""
    # It is the first coefficient in Legendre polynomials that they do not show, as far as the last three that
    # they show tell how the coefficients go down, or by the nodes alone, where that is less: a start that
    # does not fit the nodes is an error of the step before.
    # Shapes: rows (M + 1, n) -> (n,).
    if len(nodes) < 3:
        return np.zeros(rows.shape[1])
    parts = []
    for coefficients, ahead in (
        (_last_coefficients((0.0, *nodes)) @ rows, 0.5),
        (_last_coefficients(nodes) @ rows[1:], 1.0),
    ):
        last, *before = np.abs(coefficients)
        parts.append(last * (last / np.maximum(np.max(before, axis=0), np.maximum(last, TINY))) ** ahead)
    return np.asarray(np.minimum(*parts))


@lru_cache(maxsize=64)
def _last_coefficients(nodes: tuple[float, ...]) -> Vector:
    """Matrix from values at ``nodes`` to the last three Legendre coefficients, the last first."""
    return np.asarray(np.linalg.inv(legvander(2.0 * np.array(nodes) - 1.0, len(nodes) - 1))[:-4:-1])


@lru_cache(maxsize=64)
def coefficients_of_last(nodes: tuple[float, ...]) -> Vector:
    """The matrices of :func:`unresolved` on start and nodes, with and without the start, (2, 3, M + 1)."""
    matrices = np.zeros((2, 3, len(nodes) + 1))
    if len(nodes) > 2:
        matrices[0], matrices[1, :, 1:] = _last_coefficients((0.0, *nodes)), _last_coefficients(nodes)
    return matrices


@dataclass(frozen=True)
class EndDerivative:
    """What a step without a polynomial leaves behind: u' at its end."""

    value: Vector  # Shape (n,). u' at the end of the step.

    def derivative_at_end(self) -> Vector:
        """u' at the end of the step, shape (n,), a copy."""
        return self.value.copy()

    def pack(self, whole: bool = False) -> Vector:
        """All of it as one vector of numbers; :func:`unpack` is the inverse."""
        return np.concatenate([[0.0], self.value])


@dataclass(frozen=True)
class EndWithInterior(EndDerivative):
    """u' at the end of a step, and values within it, left out of messages, for a polynomial with its ends."""

    theta: tuple[float, ...] = ()  # Where they are, in (0, 1).
    inner: Vector | None = None  # Shape (P, n). u there, if it was kept.


class StepPolynomial(NamedTuple):
    """What a step leaves behind: the polynomials of u' and of the unknowns that are not integrated."""

    # time, dt: start and size of the step, in the unit of time of the problem.
    time: float
    dt: float
    nodes: tuple[float, ...]  # The M nodes in [0, 1].
    value: Vector  # Shape (M, n). u at the nodes.
    derivative: Vector  # Shape (M, n). u' at the nodes; meaningful in the first ``n_integrated`` columns.
    n_integrated: int  # Number of leading unknowns whose u' is interpolated; of the others u itself is.
    settled: bool = True  # Whether it is more than the first guess of a step that still iterates.

    def derivative_at_end(self) -> Vector:
        """u' at the end of the step, shape (n,), a copy."""
        k = self.n_integrated
        end = np.empty(self.value.shape[1])
        if self.nodes[-1] == 1.0:
            end[:k] = self.derivative[-1, :k]
        else:
            end[:k] = interpolation_matrix(self.nodes, (1.0,))[0] @ self.derivative[:, :k]
        if k < end.size:
            # Row by row: a product of matrices may round differently where the rows lie elsewhere.
            terms = differentiation_row(self.nodes, 1.0)[:, None] * self.value[:, k:]
            end[k:] = np.add.reduce(terms, axis=0) / self.dt
        return end

    def left_behind(self, settled: bool, apart: bool) -> StepPolynomial:
        """The polynomial that goes with the value at the end of the step."""
        if apart:
            return self._replace(value=self.value.copy(), derivative=self.derivative.copy(), settled=settled)
        return self if settled == self.settled else self._replace(settled=settled)

    def pack(self, whole: bool = False) -> Vector:
        """What a step may continue of it, or the whole, as one vector of numbers; see :func:`unpack`."""
        k, (m, n) = self.n_integrated, self.value.shape
        # Products of matrices may round differently where rows lie elsewhere.
        stride = self.value.strides[0] // 8 if whole else 0
        about = [m, self.time, self.dt, k, n, self.settled, stride, *self.nodes]
        # Unknowns that are not integrated have no u' here; where all are, a method may continue any u.
        value = self.value[:, k:] if k < n and not whole else self.value
        return np.concatenate([about, value.ravel(), self.derivative[:, : n if whole else k].ravel()])

    def continuation(self, time: float, dt: float, nodes: tuple[float, ...]) -> Vector:
        """Matrix from the nodes of this step to those of a step at ``time`` of size ``dt``."""
        # Rounded, so that equal steps find their matrix made although their times are sums.
        start, ratio = round((time - self.time) / self.dt, 9), round(dt / self.dt, 9)
        return continuation_matrix(self.nodes, nodes, start, ratio)

    def extrapolate(
        self, time: float, dt: float, nodes: tuple[float, ...], value: Vector, derivative: Vector
    ) -> None:
        """Continue the polynomials to the nodes of another step: z into ``value``, U into ``derivative``."""
        k = self.n_integrated
        matrix = self.continuation(time, dt, nodes)
        np.matmul(matrix, self.derivative[:, :k], out=derivative[:, :k])
        if k < self.value.shape[1]:
            np.matmul(matrix, self.value[:, k:], out=value[:, k:])


# End of the new step, in units of the last one from its start, beyond which its polynomial is not used.
FARTHEST_EXTRAPOLATION = 3.5


def reaches(polynomial: Any, end: float, n_integrated: int) -> bool:
    """Whether the polynomial of a step can be continued to a later time."""
    if not isinstance(polynomial, StepPolynomial) or polynomial.n_integrated != n_integrated:
        return False
    return (end - polynomial.time) / polynomial.dt <= FARTHEST_EXTRAPOLATION


def unpack(numbers: Vector) -> EndDerivative | StepPolynomial | None:
    """The object that ``pack`` wrote as a vector; None for an empty one."""
    if not numbers.size:
        return None
    m = int(numbers[0])
    if m == 0:
        return EndDerivative(numbers[1:])
    (time, dt), (k, n, settled, stride) = numbers[1:3].tolist(), map(int, numbers[3:7])
    nodes, rest = tuple(numbers[7 : 7 + m].tolist()), numbers[7 + m :]
    rows = np.full((m, max(stride, n)), np.nan)
    value = rows[:, :n]
    known = value[:, k:] if k < n and not stride else value
    known[:] = rest[: known.size].reshape(known.shape)
    derivative = rest[known.size :].reshape(m, -1)
    if stride >= 2 * n:
        rows[:, n : 2 * n] = derivative
        derivative = rows[:, n : 2 * n]
    return StepPolynomial(time, dt, nodes, value, derivative, k, bool(settled))
