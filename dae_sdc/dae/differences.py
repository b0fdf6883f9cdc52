"""Derivatives of functions in Python: complex steps where they take them, else central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.sharing import filtering

# Imaginary part of a complex step: its square is negligible, and as a power of two it divides exactly.
STEP: Final = 2.0**-400
# Step of first differences of order 6 relative to the scale of the argument: round-off 3e-13.
FIRST_DIFFERENCE: Final = 1e-3
# Step of second differences of order 6 relative to the scale of the argument: round-off 2e-12.
SECOND_DIFFERENCE: Final = 2e-2
# Relative difference up to which a derivative by complex steps and one by differences are the same.
LARGEST_DISAGREEMENT: Final = 1e-6


def slope(function: Callable[[float], Any], step: float) -> Any:
    """f'(0) by central differences of order 6."""
    one, two, three = (function(k * step) - function(-k * step) for k in (1, 2, 3))
    return (45.0 * one - 9.0 * two + three) / (60.0 * step)


def curvature(function: Callable[[float], Any], step: float) -> Any:
    """f''(0) by central differences of order 6, see :func:`slope`."""
    middle = 2.0 * function(0.0)
    # By pairs, so that a constant function has exactly zero for derivative.
    one, two, three = (function(k * step) + function(-k * step) - middle for k in (1, 2, 3))
    return (270.0 * one - 27.0 * two + 2.0 * three) / (180.0 * step * step)


def most_accurate(slopes: Vector) -> tuple[Vector, Vector]:
    """The best of derivatives by differences with growing steps, and its error, for each entry."""
    # Small steps leave round-off and large ones what the formula neglects, so that a derivative is as far
    # from those by the next smaller and the next larger step as it is wrong, or farther. The smallest steps
    # may be lost in rounding, and give exactly 0; if others give something else, these do not count.
    # Shapes: slopes (k, ...).
    lost = ~np.logical_or.accumulate(slopes != 0.0, axis=0)
    changes = np.nan_to_num(np.abs(np.diff(np.where(lost, np.nan, slopes), axis=0)), nan=np.inf)
    errors = np.maximum(changes[:-1], changes[1:])
    at = errors.argmin(axis=0)[None]
    best, error = np.take_along_axis(slopes, at + 1, axis=0)[0], np.take_along_axis(errors, at, axis=0)[0]
    return best, np.where(lost[0] & (error >= np.abs(best)), np.inf, error)


def complex_slope(function: Callable[[complex], Any]) -> Vector:
    """f'(0) by a complex step, exact to round-off where f is analytic."""
    derivative: Vector = np.imag(function(1j * STEP)) / STEP
    return derivative


def takes_complex(function: Callable[[Any], Any]) -> bool:
    """Whether f of one number gives its derivative by a complex step."""
    try:
        with filtering("ignore"):
            real = np.asarray(function(0.0))
            expected = np.asarray(slope(function, FIRST_DIFFERENCE))
            with filtering("error", np.exceptions.ComplexWarning):
                stepped = np.asarray(function(1j * STEP))
    except Exception:  # whatever a function says to numbers it was not made for
        return False
    if stepped.shape != real.shape or stepped.dtype.kind not in "cfiu" or not np.isfinite(expected).all():
        return False
    size = float(np.abs(real).max(initial=0.0))
    derivative = np.imag(stepped) / STEP
    same_value = np.abs(np.real(stepped) - real).max(initial=0.0) <= 1e-12 * size
    tolerance = LARGEST_DISAGREEMENT * (np.abs(expected).max(initial=0.0) + 1e-6 * size)
    return bool(same_value and np.abs(derivative - expected).max(initial=0.0) <= tolerance)
