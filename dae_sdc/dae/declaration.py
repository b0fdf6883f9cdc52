"""What a class of problems declares and its user sets: the checks of attributes, methods and kernels."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dae_sdc.arguments import is_integer, shown
from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.linear import SOLVERS
from dae_sdc.dae.scales import Noise
from dae_sdc.dae.values import guarded, is_number, is_sequence
from dae_sdc.errors import InputError, require_count, require_tolerance
from dae_sdc.registry import unknown

# Attributes that hold one text for every unknown or equation.
PER_UNKNOWN = ("names", "units", "equation_names")
# Attributes that every problem has, and whose values are checked.
WITH_DEFAULTS = ("index", "interval", "dt", "nominal", "sparsity", "noise")
TEXTS = ("title", "reference", "time_unit")  # Attributes of a class that hold one text.
SIZES = ("n_diff", "n_alg", "n", "init")  # Attributes that cannot change once a problem is made.
# Methods that a class may define, and how many arguments they are called with.
METHODS: Mapping[str, int] = {
    "eval_f": 3,
    "jacobian": 4,
    "residual_nodes": 3,
    "switches": 2,
    "sides": 2,
    "breakpoints": 2,
    "start_step": 2,
    "u_exact": 1,
    "du_exact": 1,
    "invariants": 2,
    "invariants_jacobian": 2,
    "kernel_parameters": 0,
}
OPTIONAL = ("jacobian", "residual_nodes", "invariants", "invariants_jacobian")  # Methods that may be None.
GUARDED = tuple(name for name, count in METHODS.items() if count)  # Methods whose arguments are read-only.
# Kernels that a class may give, and how many arguments they are called with.
KERNELS = {"residual_kernel": 5, "jacobian_kernel": 6}
LINEAR_SOLVERS = (*SOLVERS, "gmres")  # How the linear systems of Newton iterations may be solved.
LARGEST_NEWTON_MAXITER = 10_000  # Largest number of Newton iterations that may be allowed in a solve.


class WhenAsked(functools.cached_property[Any]):
    """An attribute of :func:`when_asked`."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        # Before the number of unknowns is known there are none.
        known = instance is not None and "n" in vars(instance)
        return super().__get__(instance, owner) if known else ()


def when_asked(make: Callable[[Any], tuple[str, ...]]) -> Any:
    """One text for every unknown or equation of a problem, made when first asked for: many need time."""
    return WhenAsked(make)


def check_class(cls: type[Any]) -> None:
    """Refuse a class of problems that itself defines an attribute, method or kernel that cannot be used."""
    own: Any = cls.__dict__
    for name in TEXTS:
        if name in own and not isinstance(own[name], str | property):
            raise InputError(f"{cls.__qualname__}.{name} must be a text; got {shown(own[name])}")
    if "parameter_units" in own:
        _require_units(f"{cls.__qualname__}.parameter_units", own["parameter_units"])
    for name in SIZES:
        if isinstance(own.get(name), property):
            raise InputError(f"{cls.__qualname__}.{name} is set by ProblemDAE; name the property otherwise")
    for name, count in METHODS.items():
        # eval_f as a plain function is checked by with_controller_call, whose message names the arguments.
        elsewhere = name == "eval_f" and inspect.isfunction(own.get(name))
        if name in own and not elsewhere and not isinstance(own[name], staticmethod | classmethod):
            may_lack = name in OPTIONAL and (own[name] is None or isinstance(own[name], property))
            if not may_lack:
                _require_method(f"{cls.__qualname__}.{name}", own[name], count + 1)
    for name, count in KERNELS.items():
        if name in own and own[name] is not COMPLEX_STEP:
            _require_kernel(f"{cls.__qualname__}.{name}", own[name], count)


def checked_attribute(problem: Any, name: str, value: Any) -> Any:
    """The value of an attribute of a problem in the form in which it is kept."""
    which = f"{problem.name}.{name}"
    if name in PER_UNKNOWN:
        return _texts(which, name, _of_each(which, value, problem.n, "one text for"))
    if name == "variable_index":
        indices = _of_each(which, value, problem.n, "the index of")
        for i, entry in enumerate(indices):
            if not (is_integer(entry) and entry >= 1):
                raise InputError(f"{which} must hold integers from 1 on; entry {i} is {entry!r}")
        return tuple(map(int, indices))
    if name in SIZES:
        raise InputError(f"{which} cannot be set once the problem is made; make another one")
    if name in TEXTS and not isinstance(value, str):
        raise InputError(f"{which} must be a text; got {shown(value)}")
    if name == "parameter_units":
        _require_units(which, value)
    if name in WITH_DEFAULTS:
        _check_value(which, name, value, problem.n)
    if name in METHODS and not (value is None and name in OPTIONAL):
        _require_method(which, value, METHODS[name])
        return guarded(value, which)
    return value


def check_newton(newton_tol: float, newton_maxiter: int, linear_solver: str) -> None:
    """Refuse settings with which no Newton iteration can end well."""
    if linear_solver not in LINEAR_SOLVERS:
        raise InputError(unknown("linear_solver", linear_solver, LINEAR_SOLVERS))
    if not is_number(newton_tol):
        raise InputError(f"newton_tol must be a positive number; got {newton_tol!r}")
    if not newton_tol > 0.0:
        raise InputError(f"newton_tol must be positive; got {newton_tol}")
    require_tolerance("newton_tol", newton_tol)
    require_count("newton_maxiter", newton_maxiter, LARGEST_NEWTON_MAXITER)


def _require_units(which: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"{which} must map names of parameters to units; got {shown(value)}")


def _of_each(which: str, value: Any, n: int, what: str) -> tuple[Any, ...]:
    """A sequence with an entry for each unknown as a tuple."""
    if not is_sequence(value):
        raise InputError(f"{which} must be a tuple with {what} each unknown; got {value!r}")
    if len(value) != n:
        raise InputError(f"{which} has {len(value)} entries for {n} unknowns")
    return tuple(value)


def _texts(which: str, attribute: str, texts: tuple[Any, ...]) -> tuple[str, ...]:
    """Texts, one for each unknown; names differ."""
    twice = attribute == "names" and len(set(map(str, texts))) < len(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"{which} must be a tuple of texts; entry {i} is {text!r}")
        if twice and text in texts[:i]:
            raise InputError(
                f"{which} has '{text}' twice, in places {texts.index(text)} and {i}; give every unknown "
                f"a name of its own"
            )
    return tuple(map(str, texts))


def names_given(problem: Any, attribute: str) -> tuple[str, ...]:
    """Names that a problem gives to several of its things, such as ``switch_names``; none if it does not."""
    given = getattr(problem, attribute, ())
    if not is_sequence(given) or not all(isinstance(name, str) for name in given):
        raise InputError(f"{problem.name}.{attribute} must be a tuple of texts; got {shown(given)}")
    return tuple(given)


def _check_value(which: str, name: str, value: Any, n: int) -> None:
    """Refuse a wrong value of one of :data:`WITH_DEFAULTS`."""
    if name == "index":
        fine, wanted = value is None or (is_integer(value) and value >= 0), "an integer or None"
    elif name == "dt":
        fine, wanted = is_number(value), "a number"
    elif name == "nominal":
        fine, wanted = _shape(value) in ((), (n,)), f"a number or {n} of them, one an unknown"
        fine = fine and np.asarray(value).dtype.kind in "fiu"
    elif name == "sparsity":
        fine = value is None or _shape(value) == (n, n)
        fine = fine and (value is None or np.dtype(getattr(value, "dtype", float)).kind in "biuf")
        wanted = f"None or a matrix of shape ({n}, {n}), the pattern of the Jacobian"
    elif name == "noise":
        fine, wanted = value is None or isinstance(value, Noise), "None or a Noise of dae_sdc.dae.scales"
    else:
        fine = is_sequence(value) and len(value) == 2
        fine, wanted = fine and all(map(is_number, value)), "a pair of numbers, start and end time"
    if not fine:
        raise InputError(f"{which} must be {wanted}; got {value!r}")


def _require_method(where: str, value: Any, count: int) -> None:
    """Refuse anything but a function that takes ``count`` arguments."""
    if not callable(value) or isinstance(value, type):
        raise InputError(f"{where} must be a function of {count} arguments; got {shown(value)}")
    try:
        signature = inspect.signature(value)
    except ValueError:  # functions in machine code may have none
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise InputError(
            f"{where} is called with {count} arguments, but takes {signature} ({error}); define it so"
        ) from None


def _require_kernel(where: str, value: Any, count: int) -> None:
    """Refuse anything but a plain function of ``count`` arguments, which numba can compile."""
    plain = value.__func__ if isinstance(value, staticmethod) else value
    function = getattr(plain, "py_func", plain)
    if not inspect.isfunction(function):
        other = " or COMPLEX_STEP of dae_sdc.dae.kernels" if where.endswith("jacobian_kernel") else ""
        raise InputError(f"{where} must be a function{other}, which numba compiles; got {shown(value)}")
    parameters = inspect.signature(function).parameters.values()
    if len(parameters) != count or any(one.kind is not one.POSITIONAL_OR_KEYWORD for one in parameters):
        raise InputError(
            f"{where} must take {count} arguments, see dae_sdc.dae.kernels; it takes "
            f"{inspect.signature(function)}"
        )


def _shape(value: Any) -> Any:
    """Shape of a matrix of any kind; None for a ragged one."""
    try:
        return getattr(value, "shape", None) or np.shape(value)
    except ValueError:
        return None
