"""What users give: values as real numbers, and functions whose arguments they cannot change."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np

from dae_sdc.arguments import shown
from dae_sdc.dae.state import Vector
from dae_sdc.errors import EvaluationError, InputError, text_of

_MASKED = type(np.ma.masked)
_ROWS = (list, tuple)
_NOT_REAL = (str, bytes, complex, np.complexfloating, np.ndarray)

# What the standard library and NumPy say where a function has no value; Python 3.14 has words for each.
_UNDEFINED = re.compile(
    r"math (domain|range) error"
    r"|expected (a (nonnegative|positive|finite) input|a number (in range|between)|a noninteger)"
    r"|expected argument value"
    r"|cannot convert float NaN to integer"
)
_UNSOLVABLE = re.compile(r"singular|converge|positive definite|infs or nans", re.IGNORECASE)


def undefined(error: Exception) -> bool:
    """Whether what an equation raised means that it has no value there, rather than a mistake in it."""
    if isinstance(error, np.linalg.LinAlgError):
        return _UNSOLVABLE.search(text_of(error)) is not None
    # A subclass of ValueError is something else than a function that refuses its argument.
    return isinstance(error, ArithmeticError) or (
        type(error) is ValueError and _UNDEFINED.match(str(error)) is not None
    )


def real_numbers(values: Any) -> Vector:
    """``values`` as an array of doubles; raises TypeError with the reason where they are no real numbers."""
    masked = isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values)
    if masked or (isinstance(values, _ROWS) and _MASKED in map(type, values)):
        raise TypeError("masked entries have no value; fill them first")
    try:
        array = np.asarray(values)
    except ValueError:
        raise TypeError("entries of different shapes") from None
    if array.dtype == np.float64:
        return array
    if array.dtype.kind not in "biufO":
        raise TypeError(f"entries of type {array.dtype}")
    if array.dtype.kind == "O":
        # NumPy would read text as numbers, None as NaN, and drop imaginary parts.
        for entry in array.ravel():
            if isinstance(entry, _NOT_REAL) or not hasattr(entry, "__float__"):
                raise TypeError(f"entries of type {type(entry).__name__}")
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(str(error).partition("\n")[0]) from None


def is_sequence(value: Any) -> bool:
    """Whether a value is a list, a tuple or an array with entries."""
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def is_number(value: Any) -> bool:
    """Whether a value is a real number and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


S = TypeVar("S", bound=Callable[..., Any])

# Methods that return a number for each of several things.
ROWS = ("switches", "sides", "breakpoints", "invariants")
# Methods of time alone; in problems of the library, undefined values are an EvaluationError.
OF_TIME = ("u_exact", "du_exact")
TIMES = ("t", "time", "tau")  # Names that tell an argument to be the time.


def needed_arguments(function: Callable[..., Any]) -> list[str] | None:
    """Names of the arguments that a function needs; None where its signature does not tell."""
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in arguments):
        return None
    return [one.name for one in arguments if one.default is one.empty and one.kind < one.VAR_POSITIONAL]


def uncached(function: Any) -> Any:
    """A function without a cache of functools around it, which takes no arrays; other things as they are."""
    return getattr(function, "__wrapped__", function) if hasattr(function, "cache_info") else function


def read_only(function: S, name: str) -> S:
    """A function whose arrays are read-only until it returns, and whose results are checked by its name."""
    function = uncached(function)
    method = name.rpartition(".")[2]
    returns_row = method in ROWS
    bundled = method in OF_TIME and str(function.__module__).startswith("dae_sdc.")

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if named:
            bound = inspect.signature(function).bind(*arguments, **named)
            arguments, named = bound.args, bound.kwargs
        locked = [x for x in arguments if isinstance(x, np.ndarray) and x.flags.writeable]
        for array in locked:
            array.setflags(write=False)
        try:
            value = function(*arguments, **named)
        except NotImplementedError:
            if method not in OF_TIME:
                raise
            raise InputError(f"{name} is not implemented; pass an initial value u0") from None
        except (ArithmeticError, ValueError) as error:
            if bundled and undefined(error):
                where = f"{type(arguments[0]).__name__}.{method} has no value at t={arguments[-1]!r}"
                raise EvaluationError(f"{where}: {error}") from error
            if isinstance(error, InputError) or "read-only" not in text_of(error):
                raise
            raise InputError(
                f"{name} writes to one of its arguments or to a view of it; let it work on a copy"
            ) from error
        finally:
            for array in locked:
                array.setflags(write=True)
        if returns_row and not _is_row(value):
            raise InputError(f"{name} must return a number for each, as a list or array; got {shown(value)}")
        if method == "invariants_jacobian" and not (
            getattr(value, "ndim", 0) == 2
            and value.shape[1] == np.size(arguments[-2])
            and value.dtype.kind in "biuf"
        ):
            raise InputError(
                f"{name} must return a matrix with a column for each unknown, an array or a sparse matrix; "
                f"got {shown(value)}"
            )
        return value

    vars(call)["unguarded"] = True
    return cast(S, call)


def _is_row(value: Any) -> bool:
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.ndim == 1 and value.dtype.kind in "biuf"
    row = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)
    # Asking an abstract base class costs twenty times as much as asking for a float.
    return row and (
        set(map(type, value)) <= {float}
        or all(isinstance(entry, Real) or getattr(entry, "size", 0) == 1 for entry in value)
    )


def unguarded(method: S) -> S:
    """Mark a method of the library that only reads, so that its arguments need no guard."""
    vars(method)["unguarded"] = True
    return method


def guard_methods(cls: type[Any], names: tuple[str, ...]) -> None:
    """Give the named methods that a class defines itself read-only arguments."""
    for name in names:
        method = vars(cls).get(name)
        if callable(method):
            setattr(cls, name, guarded(method, f"{cls.__name__}.{name}"))


def guarded(function: S, name: str) -> S:
    """A function with read-only arguments, or itself if it is of the library; see :func:`read_only`."""
    # Functions of compiled code, and those that the library derives, do not write.
    of_library = hasattr(function, "unguarded") or hasattr(function, "supplied")
    return function if of_library else read_only(function, name)
