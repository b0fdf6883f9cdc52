"""Problems written for pySDC's DAE project, ``pySDC.projects.DAE``, as problems of this package."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pySDC.core.level import Level
from pySDC.core.problem import Problem

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import InputError

# Times at which the entries that a residual reads and writes are looked for: terms may vanish at one.
PROBES = (0.0, 0.381, 1.618)


class AdaptedProblem(ProblemDAE):
    """A problem of pySDC's DAE project with its unknowns in one vector; all else is the original's."""

    # Shapes: places and rows (n,).

    original_class: ClassVar[type[Any]]
    original: Any
    places: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    def __init__(self, **params: Any) -> None:
        self._adapt(self.original_class(**params))

    def _adapt(self, original: Any) -> None:
        shape = np.shape(original.dtype_u(original.init))
        places, rows = _unknowns_and_equations(original)
        if places.size != rows.size:
            raise InputError(
                f"{type(original).__name__}.eval_f reads {places.size} entries of its mesh and writes "
                f"{rows.size}; a DAE has as many equations as unknowns"
            )
        n_diff = int((places < shape[1]).sum()) if len(shape) == 2 else places.size
        super().__init__(n_diff, places.size - n_diff, newton_tol=getattr(original, "newton_tol", 1e-10))
        if len(shape) == 2:
            self.names = tuple(
                f"{'diff' if place < shape[1] else 'alg'}[{place % shape[1]}]" for place in places.tolist()
            )
        own = self.__dict__
        own["places"], own["rows"] = places, rows
        own["_meshes"] = original.dtype_u(original.init), original.dtype_f(original.init)
        own["original"] = original

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__.get("original")
        if original is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        return getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        original = self.__dict__.get("original")
        theirs = original is not None and name not in self.__dict__ and not hasattr(type(self), name)
        if theirs and hasattr(original, name):
            setattr(original, name, value)
            self.__dict__["_parameters"] = None  # those of equations that were read are packed anew
        else:
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        return _remade, (self.original_class,), self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> npt.ArrayLike:
        """The residual F(t, u, u') of the original, shape (n,)."""
        place, slope = self._meshes
        place.view(np.ndarray).reshape(-1)[self.places] = u
        slope.view(np.ndarray).reshape(-1)[self.places] = du
        return np.asarray(self.original.eval_f(place, slope, t)).reshape(-1)[self.rows]

    def u_exact(self, t: float) -> npt.ArrayLike:
        """The solution at time ``t`` that the original gives, shape (n,)."""
        return self._given("u_exact", t)

    def du_exact(self, t: float) -> npt.ArrayLike:
        """The derivative of the solution at time ``t`` that the original gives, shape (n,)."""
        return self._given("du_exact", t)

    def get_switching_info(self, u: Sequence[MeshDAE], t: float) -> tuple[bool, int, list[float]]:
        """What pySDC's ``SwitchEstimator`` asks for, from the original where it answers."""
        own = getattr(self.original, "get_switching_info", super().get_switching_info)
        return own(u, t)

    def count_switches(self) -> None:
        """Count an event in the original where it counts them."""
        getattr(self.original, "count_switches", super().count_switches)()

    def _given(self, method: str, t: float) -> MeshDAE:
        name = f"{type(self).__name__}.{method}"
        try:
            values = getattr(self.original, method)(t)
        except (AssertionError, NotImplementedError, AttributeError) as error:
            raise InputError(f"{name}({t:g}) has no value ({error}); pass an initial value u0") from None
        return self.state(values)

    def state(self, values: npt.ArrayLike) -> MeshDAE:
        """A new state with the given n values, or with those of a mesh of the original."""
        array = values.view(np.ndarray) if isinstance(values, np.ndarray) else values
        if np.shape(array) == self._meshes[0].shape != (self.n,):
            return attach(np.asarray(array, dtype=np.float64).reshape(-1)[self.places], self.n_diff)
        return super().state(array)


def _remade(cls: Any) -> AdaptedProblem:
    ours = adapted_class(cls)
    return ours.__new__(ours)


@cache
def adapted_class(cls: type[Any]) -> type[AdaptedProblem]:
    """The class of problems of this package for one of pySDC's DAE project, with its name and parameters."""
    own = {
        "original_class": cls,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__signature__": inspect.signature(cls),
        "title": (inspect.getdoc(cls) or "").partition("\n")[0],
    }
    return type(cls.__name__, (AdaptedProblem,), own)


def adapted(problem: Any) -> Any:
    """A problem or a class of pySDC's DAE project as one of this package; anything else as it is."""
    cls: Any = problem if isinstance(problem, type) else type(problem)
    if not issubclass(cls, Problem) or issubclass(cls, ProblemDAE):
        return problem
    try:
        inspect.signature(cls.eval_f).bind(None, "u", "du", "t")
    except TypeError:  # no F(t, u, u')
        return problem
    if cls is problem:
        return adapted_class(cls)
    ours = _remade(cls)
    ours._adapt(problem)
    return ours


def _unknowns_and_equations(original: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Entries of the flattened mesh that a residual reads, and those that it writes."""
    # A mesh with the parts ``diff`` and ``alg`` has ``nvars`` entries in each of them, of which a problem
    # uses some. An entry is read if NaN in its place, or in that of its derivative, is seen in the residual.
    size = original.dtype_u(original.init).size
    if np.ndim(original.dtype_u(original.init)) == 1:
        every = np.arange(size)
        return every, every
    read, written = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    source = np.random.default_rng(0)
    for t in PROBES:
        start = source.uniform(0.5, 1.5, (2, size))
        # Residuals may change what they compute for good when they are called at a late time.
        probed = copy.deepcopy(original)
        value = _residual(probed, start, t)
        if value is None or not np.isfinite(value).all():
            continue
        written |= value != 0.0
        for k in range(size):
            poisoned = start.copy()
            poisoned[:, k] = np.nan
            changed = _residual(probed, poisoned, t)
            differs = changed != value if changed is not None else np.zeros(size, dtype=bool)
            read[k] |= changed is None or bool(differs.any())
            written |= differs
    if not read.any():
        raise InputError(
            f"{type(original).__name__}.eval_f cannot be evaluated beside its solution, which shows the "
            f"entries of its mesh that are unknowns; write it as a ProblemDAE of dae_sdc"
        )
    return np.flatnonzero(read), np.flatnonzero(written)


def _residual(original: Any, values: Vector, t: float) -> Vector | None:
    """The flattened residual at flattened values of u and u'; None where it cannot be evaluated."""
    place, slope = original.dtype_u(original.init), original.dtype_f(original.init)
    place.view(np.ndarray).reshape(-1)[:], slope.view(np.ndarray).reshape(-1)[:] = values
    try:
        with np.errstate(all="ignore"):
            return np.array(original.eval_f(place, slope, t), dtype=np.float64).reshape(-1)
    except Exception:  # it is not made for values beside its solution
        return None


class _Level(Level):  # type: ignore[misc]
    """A level of pySDC until it is first asked for its problem, which it then has as one of this package."""

    @property
    def prob(self) -> Any:
        """The problem of the level."""
        self._Level__prob = ours = adapted(super().prob)
        self.__class__ = Level
        return ours


_Level.attrs = Level.attrs  # names that parts of pySDC add to levels


def adapt_level(level: Any) -> None:
    """Let a level whose sweeper is being made, before its problem, have a problem of this package."""
    if type(level) is Level:
        level.__class__ = _Level
