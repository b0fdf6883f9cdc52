"""Values that users and their functions give: taken as real numbers, shown in messages, or missing."""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import Any

import numpy as np

from dae_sdc.dae.polynomial import Vector

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
        return _UNSOLVABLE.search(str(error)) is not None
    # A subclass of ValueError is something else than a function that refuses its argument.
    return isinstance(error, ArithmeticError) or (
        type(error) is ValueError and _UNDEFINED.match(str(error)) is not None
    )


def real_numbers(values: Any) -> Vector:
    """``values`` as an array of doubles; raises TypeError with the reason where they are no real numbers."""
    if isinstance(values, np.ma.MaskedArray) or (isinstance(values, _ROWS) and _MASKED in map(type, values)):
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


def shortened(value: Any, length: int = 80) -> str:
    """``value`` in one line of at most ``length`` characters."""
    try:
        text = " ".join(str(value).split())
    except Exception:  # a message must come about, whatever a value says of itself
        text = f"a {type(value).__name__}"
    return text if len(text) <= length else f"{text[: length - 4]} ..."


def is_sequence(value: Any) -> bool:
    """Whether a value is a list, a tuple or an array with entries."""
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def is_integer(value: Any) -> bool:
    """Whether a value is an integer and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a real number and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)
