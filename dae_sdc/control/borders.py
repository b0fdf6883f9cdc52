"""Unknowns that are to keep their signs along a run, which ends where the first of them comes to 0."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq
from scipy.special import comb

from dae_sdc.control.events import END_SLACK, EPS, ZERO_VALUE
from dae_sdc.dae.state import Vector
from dae_sdc.sweepers.steps_ahead import Taken

MOST_ATTEMPTS = 5  # Steps that are tried for one to end at a zero.
MOST_PARTINGS = 20  # Of a step, until a half has at most one zero.


class Borders:
    """What a controller asks on steps taken ahead where only signs of unknowns are looked at."""

    def __init__(self, columns: Sequence[int], signs: Sequence[int]) -> None:
        self._columns, self._signs = list(columns), np.array(signs, dtype=np.float64)
        self.aim, self._attempts = 0.0, 0  # The size of the step that is to end at the first zero.
        self.crossed: list[int] = []  # Numbers of the unknowns that the run has ended at.

    def look(self, taken: Taken) -> int:
        """The number of steps before the first in which an unknown loses its sign, or -1 in doubt."""
        # Shapes: values (K M + 1, B) of B unknowns at the start and at the nodes of K steps.
        values, m, count = taken.u[:, self._columns] * self._signs, len(taken.nodes), len(taken.starts)
        if self.aim and count:
            return self._ended(taken, values[-1])
        rows = m * np.arange(count)[:, None] + np.arange(m + 1)
        # A polynomial is not below the smallest of its coefficients in Bernstein's basis.
        polynomials = _bernstein((0.0, *taken.nodes)) @ values[rows]
        for k in np.flatnonzero(polynomials.min(axis=(1, 2), initial=1.0) <= 0.0).tolist():
            first = min(first_zero(coefficients) for coefficients in polynomials[k].T.tolist())
            if first < np.inf:
                self.aim = first * float(taken.sizes[k])
                return k if first > 0.0 else -1
        return count or -1

    def _ended(self, taken: Taken, values: Vector) -> int:
        """1 where a step ends at the first zero, 0 where it is to be repeated, and -1 in doubt."""
        time, dt, self._attempts = float(taken.starts[0]), float(taken.sizes[0]), self._attempts + 1
        slopes = np.minimum(taken.du[0, -1, self._columns] * self._signs, -1e-200)  # finite times
        beyond = -values / (slopes * dt)
        near, first = END_SLACK + 4.0 * EPS * max(abs(time), abs(time + dt)) / dt, float(beyond.min())
        self.crossed = np.flatnonzero(np.abs(beyond) <= near).tolist() if first >= -near else []
        self.aim = dt * (1.0 + first)
        doubtful = self._attempts > MOST_ATTEMPTS or not -1.0 < first < 1.0
        return 1 if self.crossed else -int(doubtful)


def first_zero(b: list[float], halvings: int = MOST_PARTINGS) -> float:
    """The first zero in (0, 1] of a polynomial by Bernstein's coefficients, inf without, -inf in doubt."""
    # It has no more zeros within than its coefficients have changes of sign.
    while len(b) > 1 and abs(b[0]) <= ZERO_VALUE * max(map(abs, b)):  # one at its start is left out
        b = [(len(b) - 1) / i * b[i] for i in range(1, len(b))]
    changes = sum((here > 0.0) is not (there > 0.0) for here, there in pairwise(b))
    if b[0] <= 0.0 or (changes > 1 and not halvings):
        return -np.inf
    if changes < 2:
        return float(brentq(lambda x: parted(b, x)[1][0], 0.0, 1.0, xtol=EPS)) if changes else np.inf
    left, right = parted(b, 0.5)
    first = first_zero(left, halvings - 1)
    return 0.5 * first if first < np.inf else 0.5 + 0.5 * first_zero(right, halvings - 1)


def parted(b: list[float], x: float) -> tuple[list[float], list[float]]:
    """Bernstein's coefficients of a polynomial before and behind a place, by de Casteljau's algorithm."""
    left, right = [b[0]], b[-1:]
    while len(b) > 1:
        b = [here + x * (there - here) for here, there in pairwise(b)]
        left, right = [*left, b[0]], [b[-1], *right]
    return left, right


@lru_cache(maxsize=64)
def _bernstein(points: tuple[float, ...]) -> Vector:
    """The matrix that takes values at points to the coefficients of their polynomial in Bernstein's basis."""
    x, k, degree = np.array(points)[:, None], np.arange(len(points)), len(points) - 1
    return np.asarray(np.linalg.inv(comb(degree, k) * x**k * (1.0 - x) ** (degree - k)))
