"""The parts of quasilinear equations as their classes give them: methods, kernels, or nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.guard import guard_methods
from dae_sdc.dae.kernels import compile_kernel
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.dae.values import real_numbers
from dae_sdc.errors import InputError

Kernel: TypeAlias = Callable[..., None] | None

PARTS = ("A", "B", "h", "g", "dg", "dg_dt", "d2g")
"""Parts of the equations, in the order in which compiled code has their addresses."""


def supplied(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method that stands in for one that a user's class may give."""
    method.supplied = True  # type: ignore[attr-defined]
    return method


def part(name: str, meaning: str, velocity: bool = False) -> Callable[..., npt.ArrayLike]:
    """The method of a part that a class gives as a kernel or leaves to be derived."""

    def moving(self: Any, t: float, q: Vector, v: Vector, /) -> npt.ArrayLike:
        value: npt.ArrayLike = self._supply(name, t, q, v)
        return value

    def resting(self: Any, t: float, u: Vector, /) -> npt.ArrayLike:
        value: npt.ArrayLike = self._supply(name, t, u)
        return value

    method = supplied(moving if velocity else resting)
    method.__name__, method.__doc__ = name, meaning
    return method


class GivenPart(NamedTuple):
    """How a class gives a part, "method", "kernel" or "", with its name there and the shape of the part."""

    source: str
    name: str
    shape: tuple[int, ...]


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
        """The parts that this kind has."""
        absent = {"daen1": ("B", "d2g"), "daeq1": ("B", "d2g"), "daeq2": ("d2g",), "nohol": ("d2g",)}
        return tuple(name for name in PARTS if name not in absent.get(self.kind, ()))

    def given_part(self, name: str) -> GivenPart:
        """How the class gives one of :data:`PARTS`."""
        return GivenPart(self._source_of(name), self._user_names.get(name, name), self._shapes[name])

    def part_arguments(self, name: str, q: Vector, v: Vector | None) -> tuple[Vector, ...]:
        """What the method of a part takes behind the time, from positions and velocities."""
        return (q, v) if v is not None and name in self._with_velocity else (q,)

    def _source_of(self, name: str) -> str:
        """How a class gives a part: as a "method", a "kernel", or not at all."""
        known: str | None = self._sources.get(name)
        return how_given(type(self), self._user_names.get(name, name)) if known is None else known

    def _part(self, name: str, t: float, q: Vector, v: Vector | None = None) -> Vector:
        """A part as a real array of its shape."""
        method: Callable[..., Any] = getattr(self, name)
        value = method(t, q, v) if name in self._with_velocity else method(t, q)
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

    def _complex_kernel(self, name: str) -> Any:
        kernel: Any = getattr(type(self), f"{self._user_names.get(name, name)}_kernel")
        try:
            return compile_kernel(kernel, "complex")
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
