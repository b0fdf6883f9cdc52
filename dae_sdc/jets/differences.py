"""Taylor coefficients along t of what a function says at some points, and derivative arrays of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector


def taylor_weights(points: Sequence[int], highest: int) -> Vector:
    """Weights, shape (highest + 1, K), of values at whole numbers in their Taylor coefficients at 0."""
    weights = np.zeros((highest + 1, len(points)))
    for j, here in enumerate(points):
        # Whole numbers, and so exact, where a Vandermonde matrix is not well conditioned.
        others = [point for point in points if point != here]
        lagrange = np.polynomial.polynomial.polyfromroots(others) / prod(here - k for k in others)
        weights[:, j] = lagrange[: highest + 1]
    return weights


def along(function: Any, coefficients: Vector, places: Vector, times: Vector) -> Iterator[Any]:
    """What a function of u, u' and t says on a curve of Taylor coefficients, at places and their times."""
    powers, at = np.arange(len(coefficients)), np.asarray(places, dtype=np.float64)[:, None]
    halves = at**powers @ coefficients, (powers * at ** np.maximum(powers - 1, 0)) @ coefficients
    return map(function, *halves, times.tolist())


@dataclass(frozen=True)
class Stencil:
    """Points of differences in units of their distance, for Taylor coefficients up to an order."""

    first: int  # The first point.
    highest: int  # The order.
    pairs: int  # Half the number of the points beside the first one.

    @cached_property
    def points(self) -> tuple[int, ...]:
        """The points, shape (K,)."""
        return tuple(range(self.first, self.first + 2 * self.pairs + 1))

    @cached_property
    def weights(self) -> Vector:
        """Weights of the values in the Taylor coefficients, shape (highest + 1, K)."""
        return taylor_weights(self.points, self.highest)

    @cached_property
    def _lost(self) -> Vector:
        """The weights less those without the last two points."""
        return self.weights - np.pad(taylor_weights(self.points[:-2], self.highest), ((0, 0), (0, 2)))

    def taylor(self, values: Any, distance: float = 1.0) -> Vector:
        """Taylor coefficients from the values at points with a distance."""
        # Shapes: values (K, ...) -> (highest + 1, ...).
        weights = self.weights / distance ** np.arange(self.highest + 1)[:, None]
        return np.tensordot(weights, np.asarray(values), 1)

    def doubts(self, values: Any) -> Vector:
        """What two points fewer change of the Taylor coefficients."""
        return np.tensordot(self._lost, np.asarray(values), 1)


def derivative_array(mass: Vector, stiffness: Vector) -> Vector:
    """The derivatives of F by those of u', from the Taylor coefficients of dF/du' and dF/du along a curve.

    Row k is the Taylor coefficient k of F, column l that of u'.
    """
    # Shapes: mass and stiffness (K, n, n) -> (K n, K n).
    count, n = mass.shape[:2]
    array = np.zeros((count, n, count, n))
    for k in range(count):
        for power in range(k + 1):
            array[k, :, power] = mass[k - power]
            if power < k:
                array[k, :, power] += stiffness[k - power - 1] / (power + 1)
    return array.reshape(count * n, count * n)
