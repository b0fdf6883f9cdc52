"""Parts of quasilinear equations: those of classes, derivatives that these do not give, and C functions."""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FunctionType
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.jacobian import (
    FIRST_DIFFERENCE,
    SECOND_DIFFERENCE,
    complex_slope,
    curvature,
    most_accurate,
    slope,
    takes_complex,
)
from dae_sdc.dae.kernels import compile_kernel, machine
from dae_sdc.dae.machine_code import CFunction, entry
from dae_sdc.dae.memory import Callback, CallbackFailure, fields, no_copy, tell_addresses
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.dae.values import guard_methods, real_numbers, undefined
from dae_sdc.dae.workspaces import Parameters
from dae_sdc.errors import InputError
from dae_sdc.sharing import filtering

Kernel: TypeAlias = Callable[..., None] | None

# Parts of the equations, in the order in which compiled code has their addresses.
PARTS = ("A", "B", "h", "g", "dg", "dg_dt", "d2g")


def supplied(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method that stands in for one that a user's class may give."""
    method.supplied = True  # type: ignore[attr-defined]
    return method


def part(name: str, meaning: str, velocity: bool = False, implicit: str = "") -> Callable[..., npt.ArrayLike]:
    """The method of a part, or of its ``implicit`` form, which a class gives as a kernel or leaves out."""

    def moving(self: Any, t: float, q: Vector, v: Vector, /) -> Any:
        return self._supply(name, t, q, v)

    def resting(self: Any, t: float, u: Vector, /) -> Any:
        return self._supply(name, t, u)

    def of_blocks(self: Any, t: float, u: Vector, p: Vector, w: Vector, /) -> Any:
        return self._supply(name, t, np.concatenate([u, p, w]))

    method = supplied(of_blocks if implicit else moving if velocity else resting)
    method.__name__, method.__doc__ = implicit or name, meaning
    return method


class QuasilinearParts(ProblemDAE):
    """The parts of a :class:`~dae_sdc.constrained.quasilinear.QuasilinearProblem` and their evaluation."""

    kind: str = ""
    n_constraints: int
    constraint_names: tuple[str, ...] = ()
    fixed_constraints: ClassVar[bool] = False
    A_kernel: ClassVar[Kernel] = None
    B_kernel: ClassVar[Kernel] = None
    h_kernel: ClassVar[Kernel] = None
    g_kernel: ClassVar[Kernel] = None
    dg_kernel: ClassVar[Kernel] = None
    dg_dt_kernel: ClassVar[Kernel] = None
    d2g_kernel: ClassVar[Kernel] = None
    _size: int  # number of u in the quasilinear form

    _arguments: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # of what a class gives, by its name
    _needed: ClassVar[tuple[str, ...]] = ()
    _with_velocity: ClassVar[frozenset[str]] = frozenset()
    _user_names: ClassVar[Mapping[str, str]] = {}  # of parts that a class gives under other names
    _derivatives: ClassVar[frozenset[str]] = frozenset(("dg", "dg_dt", "d2g", "dF", "dF_dt"))
    _sources: Mapping[str, str] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = _own(cls)
        new = set()
        for name, arguments in cls._arguments.items():
            method, kernel = own.get(name), own.get(f"{name}_kernel")
            given = method is not None and not hasattr(method, "supplied")
            if given and kernel is not None:
                raise InputError(f"{cls.__qualname__} gives {name} twice, as a method and as {name}_kernel")
            if given:
                _check_signature(cls, name, method, arguments)
                setattr(cls, f"{name}_kernel", None)
                guard_methods(cls, (name,))
            elif kernel is not None:
                setattr(cls, name, _supplier(cls, name))
            if given or kernel is not None:
                new.add(name)
        # Derivatives that a class above has of parts that are new here are no longer right.
        if new & {"g", "F"}:
            for name in cls._derivatives & cls._arguments.keys() - new:
                setattr(cls, f"{name}_kernel", None)
                setattr(cls, name, _supplier(cls, name))
        if new and not own.keys() & {"eval_f", "residual_kernel"}:
            cls._forget_equations(own, new)

    @classmethod
    def _forget_equations(cls, own: Mapping[str, Any], new: set[str]) -> None:
        """Drop a residual and Jacobian of base classes that are made of parts which this class replaces."""

    def _begin_parts(self) -> None:
        """Prepare the evaluation of the parts."""
        n, m = self._size, self.n_constraints
        rows = n - m if self.kind in ("daen1", "daeq1") else n
        shapes = {"A": (rows, n), "B": (n, m), "h": (rows,), "g": (m,), "dg": (m, n), "dg_dt": (m,)}
        self._shapes: dict[str, tuple[int, ...]] = {**shapes, "d2g": (m,)}
        self._sources = {name: self._source_of(name) for name in PARTS}

    @property
    def _rates_vanish(self) -> bool:
        return self.fixed_constraints and "g" not in self._with_velocity

    def _parts_of_kind(self) -> tuple[str, ...]:
        """The parts that this kind has; B is none where it is the transpose of dg."""
        absent: tuple[str, ...] = () if self.kind == "daeq3" else ("B", "d2g")
        absent = {"daeq2": ("d2g",), "eulag": ("B",)}.get(self.kind, absent)
        return tuple(name for name in PARTS if name not in absent)

    @property
    def _has_multipliers(self) -> bool:
        return self.kind not in ("daen1", "daeq1")

    def given_part(self, name: str) -> tuple[str, str, tuple[int, ...]]:
        """How the class gives one of :data:`PARTS`: "method", "kernel" or "", its name and its shape."""
        return self._source_of(name), self._user_names.get(name, name), self._shapes[name]

    def part_arguments(self, name: str, q: Vector, v: Vector | None) -> tuple[Vector, ...]:
        """What the method of a part takes behind the time, from positions and velocities."""
        return (q, v) if v is not None and name in self._with_velocity else (q,)

    def _source_of(self, name: str) -> str:
        """How a class gives a part: as a "method", a "kernel", or not at all."""
        known: str | None = self._sources.get(name)
        return how_given(type(self), self._user_names.get(name, name)) if known is None else known

    def _call(self, name: str, t: Any, q: Any, v: Any) -> Any:
        """What the method of a part returns for numbers of any type."""
        method: Callable[..., Any] = getattr(self, self._user_names.get(name, name))
        return method(t, *self.part_arguments(name, q, v))

    def _part(self, name: str, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """A part as a real array of its shape."""
        value = self._call(name, t, q, v)
        if type(value) is np.ndarray and value.dtype == np.float64 and value.shape == self._shapes[name]:
            return value
        return self._checked(name, value)

    def _checked(self, name: str, value: Any) -> Vector:
        shape, label = self._shapes[name], self._user_names.get(name, name)
        try:
            array = real_numbers(value)
        except TypeError as error:
            reason = "is its return statement missing?" if value is None else str(error)
            raise InputError(
                f"{label} of {type(self).__name__} must return real numbers of shape {shape} ({reason})"
            ) from None
        if array.shape != shape:
            raise InputError(f"{label} of {type(self).__name__} must return shape {shape}; got {array.shape}")
        return array

    def _run(
        self, address: int, name: str, t: float, q: Any, v: Any, p: Vector, kind: Any = np.float64
    ) -> Vector:
        """A part by the C function at an address, for numbers of a kind."""
        out, place = np.empty(self._shapes[name], dtype=kind), np.array(q, dtype=kind)
        rate = place if v is None else np.array(v, dtype=kind)
        for array in (place, rate):
            if array.shape != (self._size,):
                raise InputError(
                    f"{type(self).__name__} has {self._size} functions; got an array of shape {array.shape}"
                )
        arrays = place.view(np.float64), rate.view(np.float64), p, out.reshape(-1).view(np.float64)
        machine("residual_at")(address, float(t), *arrays)
        return out

    def _compiled_kernel(self, name: str, form: str = "residual") -> Any:
        kernel: Any = getattr(type(self), f"{self._user_names.get(name, name)}_kernel")
        return compile_kernel(kernel, form)

    def _complex_kernel(self, name: str) -> Any:
        try:
            return self._compiled_kernel(name, "complex")
        except InputError:
            return None


def how_given(cls: type[Any], name: str) -> str:
    """How a class gives a part of this name: as a "method", a "kernel", or not at all ("")."""
    if getattr(cls, f"{name}_kernel", None) is not None:
        return "kernel"
    method = getattr(cls, name, None)
    return "" if method is None or hasattr(method, "supplied") else "method"


def _own(cls: type[Any]) -> dict[str, Any]:
    """Attributes of a class, and of the mixins before its first base that is a problem."""
    own: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is not cls and issubclass(base, ProblemDAE):
            break
        own = {**vars(base), **own}
    return own


def _supplier(cls: type[Any], name: str) -> Any:
    """The method that stands in for one that a class does not give."""
    entries = (base.__dict__.get(name) for base in cls.__mro__)
    return next(method for method in entries if hasattr(method, "supplied"))


def _check_signature(cls: type[Any], name: str, method: Any, arguments: tuple[str, ...]) -> None:
    if not isinstance(method, FunctionType):  # a static method, say, whose arguments are its own affair
        return
    try:
        inspect.signature(method).bind("self", *arguments)
    except TypeError:
        raise InputError(
            f"{cls.__qualname__}.{name} must take (self, {', '.join(arguments)}); it takes "
            f"{inspect.signature(method)}"
        ) from None


# POSITION_SHIFT, VELOCITY_SHIFT: distance of the place of comparison from the start, relative to the scales
# of u and to 1 + abs(u').
POSITION_SHIFT: Final = 0.01
VELOCITY_SHIFT: Final = 0.3
LARGEST_ERROR: Final = 1e-5  # Relative difference beyond which a given derivative is refused.
LEAST_SIZE: Final = 1e-4  # Number added to the size of a row of a derivative in relative differences.
# Factors of the usual steps with which an automatic derivative is computed again, if a given one differs from
# it, to estimate its error.
STEP_FACTORS: Final[tuple[float, ...]] = tuple(4.0**k for k in range(-3, 7))
# A given derivative may differ from an automatic one by this factor times that error besides.
ERROR_FACTOR: Final = 10.0


class PartDerivatives(QuasilinearParts):
    """Derivatives of constraints: by complex steps where parts take complex numbers, else by differences."""

    def _begin_parts(self) -> None:
        super()._begin_parts()
        self._complex: dict[str, bool] = {}
        self._derivatives_checked = False

    def _scales(self, q: Vector) -> tuple[Vector, float]:
        """Distances over which the parts change little, in u and in t."""
        nominal = np.asarray(self.nominal, dtype=float)
        own = nominal[: self._size] if nominal.ndim == 1 else np.full(self._size, float(nominal))
        return own + np.abs(q), 10.0 * float(self.dt)

    def _reach(self, q: Vector, v: Vector) -> float:
        """A time over which the parts change little along a motion."""
        scales, time = self._scales(q)
        moving = v != 0.0
        return float(min(0.5 * time, *(scales[moving] / np.abs(v[moving])), np.inf))

    def _takes_complex(self, name: str, t: float, q: Vector, v: Vector | None, time: bool = False) -> bool:
        """Whether a part takes complex u (and u'), or a complex t; tried once, near a given real point."""
        if _are_complex(q, v):
            return False
        key = f"{name}(t)" if time else name
        known = self._complex.get(key)
        if known is not None:
            return known
        given = self._source_of(name)
        if given == "kernel":
            takes = not time and self._complex_kernel(name) is not None
        elif given == "method":
            scales, length = self._scales(q)
            # Directions in which no symmetry hides a derivative.
            first = scales * np.cos(1.0 + 2.0 * np.arange(self._size))
            second = (1.0 + (np.abs(v) if v is not None else 0.0)) * np.sin(1.0 + 3.0 * np.arange(self._size))
            place = q + 0.01 * first
            rate = second if v is None else v + 0.01 * second

            def along(s: Any) -> Any:
                moment = t + s * length if time else t
                u, w = (place, rate) if time else (place + s * first, rate + s * second)
                return np.asarray(self._call(name, moment, u, w))

            takes = takes_complex(along)
        else:
            takes = True  # derived from others, which are tried themselves
        self._complex[key] = takes
        return takes

    @functools.cached_property
    def _compiles_derivatives(self) -> bool:
        """Whether derivatives of constraints that are not given come from compiled functions."""
        derived = set(self._parts_of_kind()) & {"dg", "dg_dt", "d2g"}
        sources = {name: self._source_of(name) for name in derived}
        if self._source_of("g") != "kernel" or "method" in (sources["dg"], sources["dg_dt"]):
            return False
        if self._rates_vanish:
            del sources["dg_dt"]
        return "" not in sources.values() or self._complex_kernel("g") is not None

    def _derived_dg(self, t: float, q: Any, v: Any, factor: float = 1.0) -> Any:
        """The matrix dg; differences are taken with the usual steps times a factor."""
        if "g" not in self._complex:
            self._part("g", t, q, v)  # checks its shape
        at_rest = "g" not in self._with_velocity
        exact, scales = self._takes_complex("g", t, q, v), self._scales(q)[0] if at_rest else 1.0 + np.abs(v)

        def along(e: Vector) -> Callable[[Any], Any]:
            if at_rest:
                return lambda s: self._at("g", t, q + s * e, v)
            return lambda s: self._at("g", t, q, v + s * e)

        unit, lengths = np.eye(self._size), (factor * scales).tolist()
        columns = [slope_along(along(e), exact, length) for e, length in zip(unit, lengths, strict=True)]
        return np.ascontiguousarray(np.transpose(columns))

    def _derived_dg_dt(self, t: float, q: Any, v: Any, factor: float = 1.0) -> Any:
        if self._rates_vanish:
            return np.zeros(self.n_constraints)
        exact = self._takes_complex("g", t, q, v, time=True)
        rate = slope_along(lambda s: self._at("g", t + s, q, v), exact, factor * self._scales(q)[1])
        if v is None or "g" not in self._with_velocity:
            return rate
        exact = self._takes_complex("g", t, q, v)
        return rate + slope_along(lambda s: self._at("g", t, q + s * v, v), exact, factor * self._reach(q, v))

    def _derived_d2g(self, t: float, q: Any, v: Any, factor: float = 1.0) -> Any:
        """g_tt + 2 g_tq v + g_qq(v, v); the last two are the slope at 0 of g_q(t + 2 s, q + s v) v."""
        time, reach = factor * self._scales(q)[1], factor * self._reach(q, v)
        if self._source_of("dg") and not _are_complex(q, v):
            if self._takes_complex("dg", t, q, v):
                changes = complex_slope(lambda s: self._at("dg", t, q + s * v, v) @ v)
                changes = changes + 2.0 * slope_along(lambda s: self._part("dg", t + s, q) @ v, False, time)
            else:
                changes = slope_along(lambda s: self._part("dg", t + 2.0 * s, q + s * v) @ v, False, reach)
        elif self._takes_complex("g", t, q, v):

            def along(s: float) -> Vector:
                return complex_slope(lambda h: self._at("g", t + 2.0 * s, q + (s + h) * v, v))

            changes = slope_along(along, False, reach)
        else:
            return np.asarray(
                curvature(lambda s: self._at("g", t + s, q + s * v, v), SECOND_DIFFERENCE * reach)
            )
        if self._rates_vanish:
            return changes
        if self._source_of("dg_dt") or self._takes_complex("g", t, q, v, time=True):
            explicit = slope_along(lambda s: self._at("dg_dt", t + s, q), False, time)
        else:
            explicit = curvature(lambda s: self._at("g", t + s, q, v), SECOND_DIFFERENCE * time)
        return np.asarray(changes + explicit)

    def _at(self, name: str, t: Any, q: Any, v: Any = None) -> Any:
        """A part for real or complex numbers; what no class gives is differenced where they are complex."""
        given = self._source_of(name)
        if given == "kernel" and _are_complex(q, v):
            address = self._complex_kernel(name).address
            return self._run(address, name, t, q, v, self.packed_parameters, np.complex128)
        if given:
            return np.asarray(self._call(name, t, q, v))
        if name == "B":
            return self._at("dg", t, q, v).T
        return getattr(self, f"_derived_{name}")(t, q, v)

    def _check_derivatives(self, t: float, q: Vector, v: Vector | None) -> None:
        """Compare derivatives that the class gives with automatic ones, once."""
        if self._derivatives_checked:
            return
        # At a place beside the start, where nothing vanishes by symmetry or because the system is at rest; at
        # the start itself where the parts are not defined beside it.
        turn = np.cos(1.0 + 2.0 * np.arange(self._size))
        place = q + POSITION_SHIFT * self._scales(q)[0] * turn
        rate = None if v is None else v + (1.0 + np.abs(v)) * VELOCITY_SHIFT * turn[::-1]
        if self._rates_vanish and self._changes(t, q):
            raise InputError(
                f"g of {type(self).__name__} depends on t; a QuasiLagrangeProblem has fixed constraints, "
                f"use a QuasiSecondOrderProblem"
                if self.kind == "eulag"
                else f"g of {type(self).__name__} depends on t, but it says fixed_constraints = True"
            )
        known = self._complex
        if self._source_of("g") == "kernel":
            # Differences will do; compiling for complex numbers takes longer than all the rest.
            self._complex = {"g": False, "g(t)": False, "dg": False}
        try:
            for name in ("dg", "dg_dt", "d2g"):
                if name in self._parts_of_kind() and self._source_of(name):
                    for at in ((t, place, rate), (t, q, v)):
                        if self._compare(name, *at):
                            break
        finally:
            self._complex = known
        self._derivatives_checked = True

    def _changes(self, t: float, q: Vector) -> bool:
        """Whether constraints depend on time."""
        time, now = self._scales(q)[1], self._part("g", t, q)
        try:
            return any((self._part("g", t + k * time, q) != now).any() for k in (-1, 1))
        except (ArithmeticError, ValueError) as error:
            if not undefined(error):
                raise
            return False

    def _compare(self, name: str, t: float, q: Vector, v: Vector | None) -> bool:
        """Refuse a wrong derivative; False where there is none to compare with."""
        derive: Callable[..., Vector] = getattr(self, f"_derived_{name}")
        try:
            given, expected = self._part(name, t, q, v), derive(t, q, v)
        except (ArithmeticError, ValueError) as error:
            if not undefined(error):
                raise
            return False
        if not (np.isfinite(expected).all() and np.isfinite(given).all()):
            return False
        relative = _relative_difference(given, expected)
        if relative.max() > LARGEST_ERROR:
            expected, uncertainty = _with_error(lambda factor: derive(t, q, v, factor), expected)
            margin = ERROR_FACTOR * uncertainty
            relative = _relative_difference(given, np.clip(given, expected - margin, expected + margin))
        worst = np.unravel_index(int(relative.argmax()), relative.shape)
        if relative[worst] > LARGEST_ERROR:
            label = self._user_names.get(name, name)
            entry = ", ".join(str(int(i)) for i in worst)
            raise InputError(
                f"{label} of {type(self).__name__} is wrong in entry ({entry}), constraint "
                f"'{self.constraint_names[int(worst[0])]}': it gives {given[worst]:.6g} near t={t:.6g}, "
                f"differentiation {expected[worst]:.6g}; correct it, or leave it out"
            )
        return True


def _are_complex(q: Any, v: Any) -> bool:
    return np.iscomplexobj(q) or np.iscomplexobj(v)


def slope_along(function: Callable[[Any], Any], exact: bool, length: float) -> Vector:
    """f'(0) by a complex step, which is ``exact``, or by differences over a part of a length."""
    return complex_slope(function) if exact else np.asarray(slope(function, FIRST_DIFFERENCE * length))


def _relative_difference(given: Vector, expected: Vector) -> Vector:
    """Differences of two derivatives of constraints in units of the sizes of their rows."""
    size = np.maximum(np.abs(given), np.abs(expected)).reshape(len(given), -1).max(axis=1)
    scale: Vector = (size + LEAST_SIZE).reshape((-1,) + (1,) * (given.ndim - 1))
    return np.abs(given - expected) / scale


def _with_error(derive: Callable[[float], Vector], usual: Vector) -> tuple[Vector, Vector]:
    """The best derivative by differences with other steps than the usual ones, and its error."""
    derivatives = np.full((len(STEP_FACTORS), *usual.shape), np.nan)
    with filtering("ignore"):
        for k, factor in enumerate(STEP_FACTORS):
            with suppress(Exception):  # whatever a function says to numbers beyond those it was made for
                derivatives[k] = derive(factor)
    best, error = most_accurate(derivatives)
    known = np.isfinite(error)
    return np.where(known, best, usual), np.where(known, error, 0.0)


class Pointers(NamedTuple):
    """The parts of quasilinear equations as C functions ``part(t, u*, v*, p*, out*)``."""

    # "daeq1", "daeq2", "daeq3", "nohol" or "eulag"; an :class:`ImplicitDAE` is a "daeq1" in (u, u', w).
    kind: str
    # n, m: numbers of functions u and of constraints.
    n: int
    m: int
    # Shape (8,). Of A, B, h, g, dg, dg_dt and d2g, and 0; 0 for a part that the kind does not have, as B of
    # "eulag" and "nohol". First-order equations do not read v. For "nohol", dg is dg/dv, dg_dt g_t + g_u v.
    addresses: npt.NDArray[np.int64]
    # Parameters, to be passed without a copy: numbers that the functions need stand before them in memory.
    p: Vector
    # Where functions in Python leave an exception; to be checked when compiled code has returned.
    failure: CallbackFailure
    owners: tuple[Any, ...]  # What must live as long as the addresses are used.
    source: Vector  # The parameters of the problem that they were made with.

    def __reduce__(self) -> Any:
        return no_copy, ()  # A copy of a problem makes its own.


# Forms: g = 0; g_u u' + g_t = 0; both, with multipliers mu that stabilise; g_u u'' + the rest = 0.
LAST_ROWS = ("constraint", "hidden", "both", "derivative")
CONSTRAINT, HIDDEN, BOTH, DERIVATIVE = range(4)


class PartsMemory(ctypes.Structure):
    """What compiled equations and derivatives work on: addresses of functions and arrays, unless said."""

    _fields_ = fields(
        ctypes.c_int64,
        "n m",  # numbers: of functions u and of constraints
        "n_u",  # number of u in implicit equations, which are equations in (u, u', w); 0 for others
        "by_velocity",  # whether constraints bind u', so that dg is their derivative by u'
        "start rows",  # numbers: of unknowns before the highest derivative in x', and of rows of A
        "multiplied",  # whether the equations have multipliers
        "form",  # which equations stand last, one of the four above
        "g dg A h",
        "B",  # 0 where it is the transpose of dg
        "dg_dt",  # of d2g; 0 where it is differenced there
        "rates",  # dg_dt of the residual; 0 where it is zero
        "rest",  # what the constraints add when they are differentiated
        # Parts for complex numbers; those that the Jacobian takes are 0 where differences are taken.
        "complex_g complex_dg complex_A complex_h complex_B complex_rates complex_rest",
        "scales",  # (n + 1,)
        "stepped_u stepped_v found",  # complex, (n,), (n,) and (m,): of derivatives of constraints
        "sums middle",  # (m,)
        "A_value B_value h_value dg_value rest_value",  # of the residual and its Jacobian, as those below
        "varied_u varied_v varied_part",  # with room for complex numbers, (n,), (n,) and (n, n)
        "slope",  # (n, n)
    )


class Workspace:
    """Memory of compiled equations and derivatives."""

    # Shapes: scales (n + 1,).

    stepped = False

    def __init__(self, memory: Any, scales: Vector, functions: dict[str, Any]) -> None:
        n, m = memory.n, memory.m
        self.memory, self.functions, self.address = memory, functions, ctypes.addressof(memory)
        self.scales = np.array(scales, dtype=np.float64)
        sizes = {
            **{"stepped_u": 2 * n, "stepped_v": 2 * n, "found": 2 * m, "sums": m, "middle": m},
            **{"A_value": n * n, "B_value": n * m, "h_value": n, "dg_value": m * n, "rest_value": m},
            **{"varied_u": 2 * n, "varied_v": 2 * n, "varied_part": 2 * n * n, "slope": n * n},
        }
        self._arrays = {name: np.zeros(size) for name, size in sizes.items()}
        tell_addresses(memory, self._arrays | {"scales": self.scales})

    def serves(self, pattern: Any) -> bool:
        """Whether Jacobians of a pattern are written; only dense ones are, of pattern None."""
        return pattern is None

    def __reduce__(self) -> Any:
        return no_copy, ()


def machine_function(name: str) -> CFunction:
    """A function of :mod:`dae_sdc.constrained._machine_constraints`, compiled where it is not on disk."""
    return entry(f"dae_sdc.constrained._machine_constraints:{name}")


class CompiledParts(PartDerivatives):
    """Parts as C functions: kernels, compiled derivatives of constraints, and callbacks of methods."""

    def _begin_parts(self) -> None:
        super()._begin_parts()
        self._failure = CallbackFailure()
        self._pointers: Pointers | None = None
        self._equations_compile: bool | None = None
        self._workspace_of_parts: Any = None

    def pointers(self) -> Pointers:
        """The parts of the equations as C functions, for solvers that use the quasilinear form."""
        source, known = self.packed_parameters, self._pointers
        if known is None or known.source is not source:
            known = self._pointers = self._make_pointers(source)
        return known

    def _make_pointers(self, source: Vector) -> Pointers:
        addresses = np.zeros(8, dtype=np.int64)
        p, owner = source, None
        if self._compiles_equations:
            functions = self.kernel_workspace().functions
        else:
            functions = self._functions()
            if self._compiles_derivatives:
                owner = Parameters(self._make_workspace(functions), self.kernel_parameters())
                p = owner.array
        for name in self._parts_of_kind():
            addresses[PARTS.index(name)] = functions[name].address
        kind = "daeq1" if self.kind == "daen1" else self.kind
        owners = (*functions.values(), owner)
        return Pointers(kind, self._size, self.n_constraints, addresses, p, self._failure, owners, source)

    def _functions(self) -> dict[str, Any]:
        """The parts as C functions with their ``address``, by name."""
        structure = self._substitutes() if self._compiles_derivatives else {}
        functions: dict[str, Any] = {}
        for name in self._parts_of_kind():
            if self._source_of(name) == "kernel":
                functions[name] = self._compiled_kernel(name)
            elif name in structure:
                functions[name] = machine_function(structure[name])
            else:
                method = functools.partial(self._part, name)
                velocities = name in self._with_velocity
                functions[name] = Callback(method, self._size, self._shapes[name], velocities, self._failure)
        return functions

    def _substitutes(self) -> dict[str, str]:
        """Names of the parts that :mod:`dae_sdc.constrained._machine_constraints` computes from others."""
        derived = {name: name for name in ("dg", "dg_dt", "d2g") if not self._source_of(name)}
        return derived | ({"dg_dt": "zero"} if "dg_dt" in derived and self._rates_vanish else {})

    def _supply(self, name: str, t: float, q: Any, v: Any = None) -> Vector:
        """A part that the class gives as a kernel or leaves to be derived."""
        if self._source_of(name) == "method":  # under another name
            return self._part(name, t, q, v)
        if self._source_of(name) == "kernel":
            return self._run(self._compiled_kernel(name).address, name, t, q, v, self.packed_parameters)
        if name not in ("dg", "dg_dt", "d2g"):
            label = self._user_names.get(name, name)
            arguments = ", ".join(self._arguments[label])
            raise InputError(f"{type(self).__name__} defines no {label}({arguments})")
        if self._compiles_derivatives:
            pointers = self.pointers()
            return self._run(int(pointers.addresses[PARTS.index(name)]), name, t, q, v, pointers.p)
        derive: Callable[..., Vector] = getattr(self, f"_derived_{name}")
        return derive(t, np.asarray(q, dtype=float), None if v is None else np.asarray(v, dtype=float))

    def _make_workspace(self, functions: dict[str, Any]) -> Any:
        """The workspace of compiled derivatives of constraints."""
        first = (self._size - self.n_constraints) if self.kind == "daen1" else 0
        memory = PartsMemory(n=self._size, m=self.n_constraints, n_u=first)
        memory.by_velocity = "g" in self._with_velocity
        memory.g, memory.dg = functions["g"].address, functions["dg"].address
        if self._source_of("dg_dt") or self._rates_vanish:
            memory.dg_dt = functions["dg_dt"].address
        if set(self._substitutes().values()) & {"dg", "dg_dt", "d2g"}:
            stepped = functions["complex g"] = self._complex_kernel("g")
            memory.complex_g = stepped.address
        scales, time = self._scales(np.zeros(self._size))
        return Workspace(memory, np.append(scales, time), functions)

    @property
    def _compiles_equations(self) -> bool:
        """Whether the residual of the formulation is made of compiled parts alone."""
        known = self._equations_compile
        if known is None:
            needed = ["B"] if self.kind == "daeq2" else []
            known = not self._gives_equations() and self._compiles_derivatives
            known = known and all(self._source_of(name) == "kernel" for name in (*self._needed, *needed))
            if self._last_rows() == "derivative" and self._source_of("d2g") == "method":
                known = False
            self._equations_compile = known
        return known and self.sparsity is None

    def _gives_equations(self) -> bool:
        """Whether a class gives a residual of its own besides the parts."""
        raise NotImplementedError

    def _last_rows(self) -> str:
        """Which equations of the formulation stand last: "constraint", "hidden", "both" or "derivative"."""
        raise NotImplementedError

    def kernel_workspace(self) -> Any:
        """The workspace of compiled parts; without these as in any :class:`ProblemDAE`."""
        if not self._compiles_equations:
            return super().kernel_workspace()
        known = self._workspace_of_parts
        if known is not None:
            scales, time = self._scales(np.zeros(self._size))  # settings may have changed
            known.scales[:] = np.append(scales, time)
            return known
        functions = self._functions()
        workspace = self._make_workspace(functions)
        memory = workspace.memory
        memory.start, memory.rows = self._size if "A" in self._with_velocity else 0, self._shapes["A"][0]
        memory.multiplied = self._has_multipliers
        memory.form = LAST_ROWS.index(self._last_rows())
        memory.A, memory.h = functions["A"].address, functions["h"].address
        if self._source_of("B"):
            memory.B = functions["B"].address
        if not self._rates_vanish:
            memory.rates = functions["dg_dt"].address
        memory.rest = functions["d2g" if "d2g" in functions else "dg_dt"].address
        self._workspace_of_parts = workspace
        return workspace

    def _enter_complex_parts(self) -> None:
        """Compile the parts that the Jacobian differentiates for complex steps, where that is possible."""
        if self._workspace_of_parts is not None and self._workspace_of_parts.stepped:
            return
        workspace, last = self.kernel_workspace(), self._last_rows()
        fields = {"A": "complex_A", "h": "complex_h", "B": "complex_B"}
        if last != "constraint" or self.kind in ("eulag", "nohol"):
            fields["dg"] = "complex_dg"
        if last == "constraint" and "g" in self._with_velocity:
            fields["g"] = "complex_g"
        if last in ("hidden", "both"):
            fields["dg_dt"] = "complex_rates"
        if last == "derivative":
            fields["d2g" if "d2g" in self._parts_of_kind() else "dg_dt"] = "complex_rest"
        for name, field in fields.items():
            key = f"complex {name}"
            if self._source_of(name) == "kernel" and key not in workspace.functions:
                workspace.functions[key] = function = self._complex_kernel(name)
                setattr(workspace.memory, field, 0 if function is None else function.address)
        workspace.stepped = True
