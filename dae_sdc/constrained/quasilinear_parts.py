"""The parts of quasilinear equations, real, complex and as C functions, and derivatives of constraints."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.callbacks import Callback, CallbackFailure
from dae_sdc.dae.differences import FIRST, SECOND, STEP, complex_slope, curvature, slope, takes_complex
from dae_sdc.dae.guard import guard_methods
from dae_sdc.dae.kernels import compile_kernel, complex_step, machine
from dae_sdc.dae.problem import ProblemDAE, _real
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError

PARTS = ("A", "B", "h", "g", "dg", "dg_dt", "d2g")
"""Parts of the equations, in the order of the addresses of :class:`Pointers`."""


class Pointers(NamedTuple):
    """The parts of quasilinear equations as C functions ``part(t, u*, v*, p*, out*)``.

    Parameters
    ----------
    kind : str
        "daeq1", "daeq2", "daeq3", "nohol" or "eulag"; an :class:`ImplicitDAE` is a "daeq1" in (u, u', w).
    n, m : int
        Numbers of functions u and of constraints.
    addresses : ndarray of int64, shape (8,)
        Of A, B, h, g, dg, dg_dt and d2g, and 0; 0 for a part that the kind does not have. First-order
        equations do not read v. For "nohol", dg is dg/dv, dg_dt is g_t + g_u v, and d2g is the same.
    p : ndarray
        Parameters, to be passed as they are; numbers that the functions need stand before the first.
    failure : CallbackFailure
        Where functions in Python leave an exception; to be checked when compiled code has returned.
    owners : tuple
        What must live as long as the addresses are used.
    """

    kind: str
    n: int
    m: int
    addresses: npt.NDArray[np.int64]
    p: Vector
    failure: CallbackFailure
    owners: tuple[Any, ...]


class _Compiled:
    """Pointers of one problem and the numbers they were made with; a copy of a problem makes its own."""

    def __init__(self, source: Vector, pointers: Pointers) -> None:
        self.source, self.pointers = source, pointers

    def __reduce__(self) -> Any:
        return _forgotten, ()


def _forgotten() -> None:
    """What a copy of pointers is."""


@functools.cache
def _machine() -> Any:
    """The module that calls kernels, found once: each call of a kernel asks for it."""
    return machine()


@functools.cache
def _constraint_machine() -> Any:
    """The module of compiled equations and derivatives, imported when one is wanted."""
    return importlib.import_module("dae_sdc.constrained.machine_constraints")


def supplied(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method that stands in for one that a user's class may give."""
    method.supplied = True  # type: ignore[attr-defined]
    return method


class QuasilinearParts(ProblemDAE):
    """Base of :class:`~dae_sdc.constrained.quasilinear_base.QuasilinearProblem`: what evaluates the parts.

    Attributes
    ----------
    kind : str
        Which of the six types.
    n_constraints : int
        Number of constraints.
    """

    kind: str = ""
    n_constraints: int
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
        # What the class above derived from the parts that are new here is no longer right.
        if new & {"g", "F"}:
            for name in cls._derivatives & cls._arguments.keys() - new:
                setattr(cls, f"{name}_kernel", None)
                setattr(cls, name, _supplier(cls, name))
        if new and not own.keys() & {"eval_f", "residual_kernel"}:
            cls._forget_equations(own, new)

    @classmethod
    def _forget_equations(cls, own: Mapping[str, Any], new: set[str]) -> None:
        """Take away equations that classes above made of other parts than those that are new in this one."""

    def _begin_parts(self) -> None:
        """Set up what the parts are evaluated with."""
        self._shapes = self._part_shapes()
        self._sources = {name: self._given(name) for name in PARTS}
        self._complex: dict[str, bool] = {}
        self._steps = 1j * STEP * np.eye(self._size)
        self._failure = CallbackFailure()
        self._compiled: _Compiled | None = None
        self._equations_compile: bool | None = None
        self._workspace_of_parts: Any = None

    def _part_shapes(self) -> dict[str, tuple[int, ...]]:
        n, m = self._size, self.n_constraints
        rows = n - m if self.kind in ("daen1", "daeq1") else n
        shapes = {"A": (rows, n), "B": (n, m), "h": (rows,), "g": (m,), "dg": (m, n), "dg_dt": (m,)}
        return {**shapes, "d2g": (m,)}

    # --- the parts of the equations -------------------------------------------------------------------

    def _given(self, name: str) -> str:
        """How a class gives a part: as a "method", a "kernel", or not at all."""
        known: str | None = self._sources.get(name)
        return _gives(type(self), self._user_names.get(name, name)) if known is None else known

    def _at(self, name: str, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """A part as a real array of its shape."""
        method: Callable[..., Any] = getattr(self, name)
        value = method(t, q, v) if name in self._with_velocity else method(t, q)
        if type(value) is np.ndarray and value.dtype == np.float64 and value.shape == self._shapes[name]:
            return value
        return self._checked(name, value)

    def _checked(self, name: str, value: Any) -> Vector:
        shape, label = self._shapes[name], self._user_names.get(name, name)
        try:
            array = _real(value)
        except TypeError as error:
            reason = "is its return statement missing?" if value is None else str(error)
            raise InputError(
                f"{label} of {type(self).__name__} must return real numbers of shape {shape} ({reason})"
            ) from None
        if array.shape != shape:
            raise InputError(f"{label} of {type(self).__name__} must return shape {shape}; got {array.shape}")
        return array

    def _supply(self, name: str, t: float, q: Any, v: Any = None) -> Vector:
        """A part that the class gives as a kernel or leaves to be derived."""
        label = self._user_names.get(name, name)
        if self._given(name) == "kernel":
            kernel: Any = getattr(type(self), f"{label}_kernel")
            return self._run(
                compile_kernel(kernel, "residual").address, name, t, q, v, self.packed_parameters
            )
        if name not in ("dg", "dg_dt", "d2g"):
            arguments = ", ".join(self._arguments[label])
            raise InputError(f"{type(self).__name__} defines no {label}({arguments})")
        if self._compiles_derivatives:
            pointers = self.pointers()
            return self._run(int(pointers.addresses[PARTS.index(name)]), name, t, q, v, pointers.p)
        q = np.asarray(q, dtype=float)
        if v is not None:
            v = np.asarray(v, dtype=float)
        derive: Callable[..., Vector] = getattr(self, f"_derived_{name}")
        return derive(t, q, v)

    def _run(self, address: int, name: str, t: float, q: Any, v: Any, p: Vector) -> Vector:
        out = np.empty(self._shapes[name])
        place = np.array(q, dtype=np.float64)
        rate = place if v is None else np.array(v, dtype=np.float64)
        for array in (place, rate):
            if array.shape != (self._size,):
                raise InputError(
                    f"{type(self).__name__} has {self._size} functions; got an array of shape {array.shape}"
                )
        _machine().residual_at(address, float(t), place, rate, p, out.reshape(-1))
        return out

    # --- derivatives ----------------------------------------------------------------------------------

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
        """Whether a part takes complex u (and u'), or a complex t; found out once, near a given point."""
        key = f"{name}(t)" if time else name
        known = self._complex.get(key)
        if known is not None:
            return known
        given = self._given(name)
        if given == "kernel":
            found = not time and self._complex_kernel(name) is not None
        elif given == "method":
            scales, length = self._scales(q)
            # Directions in which no symmetry hides a derivative.
            first = scales * np.cos(1.0 + 2.0 * np.arange(self._size))
            second = (1.0 + (np.abs(v) if v is not None else 0.0)) * np.sin(1.0 + 3.0 * np.arange(self._size))
            place = q + 0.01 * first
            rate = second if v is None else v + 0.01 * second
            method: Callable[..., Any] = getattr(self, name)

            def along(s: Any) -> Any:
                moment = t + s * length if time else t
                u, w = (place, rate) if time else (place + s * first, rate + s * second)
                return np.asarray(method(moment, u, w) if name in self._with_velocity else method(moment, u))

            found = takes_complex(along)
        else:
            found = True  # derived from others, which are asked themselves
        self._complex[key] = found
        return found

    def _complex_kernel(self, name: str) -> Any:
        kernel: Any = getattr(type(self), f"{self._user_names.get(name, name)}_kernel")
        try:
            return compile_kernel(kernel, "complex")
        except InputError:
            return None

    @property
    def _compiles_derivatives(self) -> bool:
        """Whether derivatives of constraints that are not given come from compiled functions."""
        known = self._complex.get("compiled")
        if known is None:
            sources = [self._given(name) for name in ("dg", "dg_dt", "d2g") if name in self._has()]
            known = self._given("g") == "kernel" and "method" not in sources[:2]
            if known and "" in sources:
                known = self._complex_kernel("g") is not None
            self._complex["compiled"] = known
        return known

    def _g(self, t: Any, q: Any, v: Any) -> Any:
        """The constraints for arguments of any type."""
        if self._given("g") == "kernel":
            complex_given = np.iscomplexobj(q) or np.iscomplexobj(v)
            return self._at_complex("g", t, q, v) if complex_given else self._at("g", t, q, v)
        method: Callable[..., Any] = getattr(self, "g")  # noqa: B009
        return np.asarray(method(t, q, v) if "g" in self._with_velocity else method(t, q))

    def _columns(self, g: Callable[..., Any], t: float, q: Any, v: Any) -> list[tuple[Any, float]]:
        """For each column of dg the constraints along its unknown, and the scale of that."""
        unit, at_rest = np.eye(self._size), "g" not in self._with_velocity
        scales = self._scales(np.real(q))[0] if at_rest else 1.0 + np.abs(np.real(v))

        def along(e: Vector) -> Callable[[Any], Any]:
            return (lambda s: g(t, q + s * e, v)) if at_rest else (lambda s: g(t, q, v + s * e))

        return [(along(e), float(scale)) for e, scale in zip(unit, scales, strict=True)]

    def _derived_dg(self, t: float, q: Vector, v: Vector | None) -> Vector:
        if "g" not in self._complex:
            self._at("g", t, q, v)  # its shape is looked at
        if not self._takes_complex("g", t, q, v):
            columns = self._columns(self._g, t, q, v)
            return np.ascontiguousarray(
                np.transpose([slope(along, FIRST * scale) for along, scale in columns])
            )
        if v is not None and "g" in self._with_velocity:
            rows = [self._g(t, q, w) for w in v + self._steps]
        else:
            rows = [self._g(t, z, v) for z in q + self._steps]
        return np.ascontiguousarray(np.array(rows, dtype=np.complex128).imag.T) / STEP

    def _derived_dg_dt(self, t: float, q: Vector, v: Vector | None) -> Vector:
        if self.kind == "eulag":
            return np.zeros(self.n_constraints)
        if self._takes_complex("g", t, q, v, time=True):
            rate = complex_slope(lambda s: self._g(t + s, q, v))
        else:
            rate = np.asarray(slope(lambda s: self._g(t + s, q, v), FIRST * self._scales(q)[1]))
        if v is None or "g" not in self._with_velocity:
            return rate
        if self._takes_complex("g", t, q, v):
            return rate + complex_slope(lambda s: self._g(t, q + s * v, v))
        return np.asarray(rate + slope(lambda s: self._g(t, q + s * v, v), FIRST * self._reach(q, v)))

    def _derived_d2g(self, t: float, q: Vector, v: Vector) -> Vector:
        """g_tt + 2 g_tq v + g_qq(v, v); the last two are the slope at 0 of g_q(t + 2 s, q + s v) v."""
        time, reach = self._scales(q)[1], self._reach(q, v)
        if self._given("dg"):
            if self._takes_complex("dg", t, q, v):
                changes = complex_slope(lambda s: self._at_complex("dg", t, q + s * v, v) @ v)
                changes = changes + 2.0 * slope(lambda s: self._at("dg", t + s, q) @ v, FIRST * time)
            else:
                changes = slope(lambda s: self._at("dg", t + 2.0 * s, q + s * v) @ v, FIRST * reach)
        elif self._takes_complex("g", t, q, v):

            def along(s: float) -> Vector:
                return complex_slope(lambda h: self._g(t + 2.0 * s, q + (s + h) * v, v))

            changes = slope(along, FIRST * reach)
        else:
            return np.asarray(curvature(lambda s: self._g(t + s, q + s * v, v), SECOND * reach))
        if self.kind == "eulag":
            return np.asarray(changes)
        if self._given("dg_dt"):
            return np.asarray(changes + slope(lambda s: self._at("dg_dt", t + s, q), FIRST * time))
        if self._takes_complex("g", t, q, v, time=True):
            explicit = slope(lambda s: complex_slope(lambda h: self._g(t + s + h, q, v)), FIRST * time)
        else:
            explicit = curvature(lambda s: self._g(t + s, q, v), SECOND * time)
        return np.asarray(changes + explicit)

    def _at_complex(self, name: str, t: float, q: Any, v: Any = None) -> Any:
        """A part for complex u and u'; derivatives that are not given by differences of order 6."""
        given, shape = self._given(name), self._shapes[name]
        if given == "kernel":
            out = np.empty(shape, dtype=np.complex128)
            place = np.array(q, dtype=np.complex128).view(np.float64)
            rate = place if v is None else np.array(v, dtype=np.complex128).view(np.float64)
            address = self._complex_kernel(name).address
            parts = (place, rate, self.packed_parameters, out.reshape(-1).view(np.float64))
            _machine().residual_at(address, float(t), *parts)
            return out
        if given == "method":
            method: Callable[..., Any] = getattr(self, name)
            return np.asarray(method(t, q, v) if name in self._with_velocity else method(t, q))
        if name == "B":
            return self._at_complex("dg", t, q, v).T
        if name == "dg":
            g = functools.partial(self._at_complex, "g")
            return np.transpose([slope(along, FIRST * scale) for along, scale in self._columns(g, t, q, v)])
        if name == "dg_dt":
            rate = slope(lambda s: self._at_complex("g", t + s, q, v), FIRST * self._scales(np.real(q))[1])
            if "g" in self._with_velocity:
                reach = self._reach(np.real(q), np.real(v))
                rate = rate + slope(lambda s: self._at_complex("g", t, q + s * v, v), FIRST * reach)
            return rate
        reach = self._reach(np.real(q), np.real(v))
        return curvature(lambda s: self._at_complex("g", t + s, q + s * v, v), SECOND * reach)

    # --- pointers -------------------------------------------------------------------------------------

    @property
    def callback_failure(self) -> BaseException | None:
        """The first exception of a part called from compiled code, until it is raised or set to None."""
        return self._failure.error

    @callback_failure.setter
    def callback_failure(self, error: BaseException | None) -> None:
        self._failure.error = error

    def pointers(self) -> Pointers:
        """The parts of the equations as C functions, for solvers that use the quasilinear form."""
        source, known = self.packed_parameters, self._compiled
        if known is None or known.source is not source:
            known = self._compiled = _Compiled(source, self._make_pointers(source))
        return known.pointers

    def _make_pointers(self, source: Vector) -> Pointers:
        addresses = np.zeros(8, dtype=np.int64)
        p, owner = source, None
        if self._compiles_equations:
            functions = self._workspace().functions
        else:
            functions = self._functions()
            if self._compiles_derivatives:
                owner = complex_step().Parameters(self._make_workspace(functions), self.kernel_parameters())
                p = owner.array
        for name in self._has():
            addresses[PARTS.index(name)] = functions[name].address
        if self.kind == "nohol":
            addresses[PARTS.index("d2g")] = addresses[PARTS.index("dg_dt")]
        kind = "daeq1" if self.kind == "daen1" else self.kind
        owners = (*functions.values(), owner)
        return Pointers(kind, self._size, self.n_constraints, addresses, p, self._failure, owners)

    def _functions(self) -> dict[str, Any]:
        """The parts as C functions with their ``address``, by name."""
        structure = self._generic() if self._compiles_derivatives else {}
        functions: dict[str, Any] = {}
        for name in self._has():
            if self._given(name) == "kernel":
                kernel: Any = getattr(type(self), f"{self._user_names.get(name, name)}_kernel")
                functions[name] = compile_kernel(kernel, "residual")
            elif name in structure:
                functions[name] = _constraint_machine().function(structure[name])
            else:
                method = functools.partial(self._at, name)
                velocities = name in self._with_velocity
                functions[name] = Callback(method, self._size, self._shapes[name], velocities, self._failure)
        return functions

    def _make_workspace(self, functions: dict[str, Any]) -> Any:
        """What compiled derivatives of constraints work with."""
        own = _constraint_machine()
        first = (self._size - self.n_constraints) if self.kind == "daen1" else 0
        places = {own.N: self._size, own.M: self.n_constraints, own.N_U: first}
        places |= {own.BY_VELOCITY: int("g" in self._with_velocity)}
        places |= {own.G: functions["g"].address, own.DG: functions["dg"].address}
        if self._given("dg_dt"):
            places[own.DG_DT] = functions["dg_dt"].address
        if self._generic().keys() & {"dg", "dg_dt", "d2g"}:
            stepped = functions["complex g"] = self._complex_kernel("g")
            places[own.G_COMPLEX] = stepped.address
        scales, time = self._scales(np.zeros(self._size))
        return own.Workspace(places, np.append(scales, time), functions)

    # --- compiled equations ---------------------------------------------------------------------------

    @property
    def _compiles_equations(self) -> bool:
        """Whether the residual of the formulation is made of compiled parts alone."""
        known = self._equations_compile
        if known is None:
            needed = ["B"] if self.kind == "daeq2" else []
            known = not self._gives_equations() and self._compiles_derivatives
            known = known and all(self._given(name) == "kernel" for name in (*self._needed, *needed))
            if self._last_rows() == "derivative" and self._given("d2g") == "method":
                known = False
            self._equations_compile = known
        return known and self.sparsity is None

    def _gives_equations(self) -> bool:
        """Whether a class says what its residual is, beside the parts."""
        raise NotImplementedError

    def _last_rows(self) -> str:
        """Which equations of the formulation stand last: "constraint", "hidden", "both" or "derivative"."""
        raise NotImplementedError

    def _workspace(self) -> Any:
        """See :class:`ProblemDAE`; of compiled equations that of their parts."""
        if not self._compiles_equations:
            return super()._workspace()
        known = self._workspace_of_parts
        if known is not None:
            scales, time = self._scales(np.zeros(self._size))  # settings may have changed
            known.scales[:] = np.append(scales, time)
            return known
        own, functions = _constraint_machine(), self._functions()
        made = self._make_workspace(functions)
        last, second = self._last_rows(), "A" in self._with_velocity
        places = {own.A: functions["A"].address, own.H: functions["h"].address, own.SECOND_ORDER: int(second)}
        places |= {own.MULTIPLIED: int("B" in functions), own.FORM: getattr(own, last.upper())}
        if self._given("B"):
            places[own.B] = functions["B"].address
        if self.kind != "eulag":
            places[own.RATES] = functions["dg_dt"].address
        places[own.REST] = functions["d2g" if "d2g" in functions else "dg_dt"].address
        made.enter(places)
        self._workspace_of_parts = made
        return made

    def _enter_complex_parts(self) -> None:
        """Compile what the Jacobian differentiates by complex steps, where that is possible."""
        if self._workspace_of_parts is not None and self._workspace_of_parts.stepped:
            return
        made, own, last = self._workspace(), _constraint_machine(), self._last_rows()
        names = {"A": own.A_COMPLEX, "h": own.H_COMPLEX, "B": own.B_COMPLEX}
        if last != "constraint" or ("B" in made.functions and not self._given("B")):
            names["dg"] = own.DG_COMPLEX
        if last == "constraint" and "g" in self._with_velocity:
            names["g"] = own.G_COMPLEX
        if last in ("hidden", "both"):
            names["dg_dt"] = own.RATES_COMPLEX
        if last == "derivative":
            names["d2g" if "d2g" in self._has() else "dg_dt"] = own.REST_COMPLEX
        for name, place in names.items():
            key = f"complex {name}"
            if self._given(name) == "kernel" and key not in made.functions:
                made.functions[key] = function = self._complex_kernel(name)
                made.enter({place: 0 if function is None else function.address})
        made.stepped = True

    def _has(self) -> tuple[str, ...]:
        """The parts that this kind has."""
        absent = {"daen1": ("B", "d2g"), "daeq1": ("B", "d2g"), "daeq2": ("d2g",), "nohol": ("d2g",)}
        return tuple(name for name in PARTS if name not in absent.get(self.kind, ()))

    def _generic(self) -> dict[str, str]:
        """Parts that compiled functions of :mod:`dae_sdc.constrained.machine_constraints` give, and which."""
        return {name: name for name in ("dg", "dg_dt", "d2g") if not self._given(name)}


def _gives(cls: type[Any], name: str) -> str:
    """How a class gives a part, by the name that it has there."""
    if getattr(cls, f"{name}_kernel", None) is not None:
        return "kernel"
    method = getattr(cls, name, None)
    return "" if method is None or hasattr(method, "supplied") else "method"


def _own(cls: type[Any]) -> dict[str, Any]:
    """What a class gives itself or takes from classes that are no problems and stand before its base."""
    own: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is not cls and issubclass(base, ProblemDAE):
            break
        own = {**vars(base), **own}
    return own


def _supplier(cls: type[Any], name: str) -> Any:
    """The method that stands in for one that a class does not give."""
    found = (base.__dict__.get(name) for base in cls.__mro__)
    return next(method for method in found if hasattr(method, "supplied"))


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
