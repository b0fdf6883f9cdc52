"""Unknowns that are to keep their signs along a run, which ends where the first of them comes to 0."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dae_sdc.control.events import END_SLACK, EPS, NO_EXTREMUM_ABOVE, ZERO_VALUE
from dae_sdc.dae.state import Vector
from dae_sdc.sweepers.steps_ahead import Taken

MOST_ATTEMPTS = 5  # Steps that are tried for one to end at a zero.
REAL_ROOT = 1e-9  # Imaginary part of a root, in units of a step, that is rounding.


class Borders:
    """What a controller asks on steps taken ahead where only signs of unknowns are looked at."""

    def __init__(self, columns: Sequence[int], signs: Sequence[int]) -> None:
        self._columns, self._signs = list(columns), np.array(signs, dtype=np.float64)
        self.aim, self._attempts = 0.0, 0  # The size of the step that is to end at the first zero.
        self.is_doubtful = False  # Whether a sign is wrong, and no zero of it was found.
        self.crossed: list[int] = []  # Numbers of the unknowns that the run has ended at.

    def look(self, taken: Taken) -> int:
        """The number of steps before the first in which an unknown loses its sign."""
        # Shapes: values (K M + 1, B) of B unknowns at the start and at the nodes of K steps.
        values, m = taken.u[:, self._columns] * self._signs, len(taken.nodes)
        if not len(taken.starts):
            self.is_doubtful = True
            return 0
        if self.aim:
            return self._ended(taken, values[-1])
        least = NO_EXTREMUM_ABOVE * values.max(axis=0)
        for k, dt in enumerate(taken.sizes.tolist() if (values.min(axis=0) <= least).any() else ()):
            rows = values[k * m : (k + 1) * m + 1].T
            first = min([self._zero(taken.nodes, row) for row in rows], default=np.inf)
            if self.is_doubtful or first < np.inf:
                self.aim = first * dt
                return k
        return len(taken.starts)

    def _zero(self, nodes: tuple[float, ...], values: Vector) -> float:
        """Where in a step an unknown first loses its sign; inf where it keeps it."""
        # Shapes: values (M + 1,).
        falls = np.diff(values) <= 0.0
        if values.min() > 0.0 and (falls.all() or not falls.any()):
            return np.inf
        points = (0.0, *nodes)
        if abs(values[0]) <= ZERO_VALUE * np.abs(values).max():  # it begins at a zero, which is left out
            points, values = nodes, values[1:] / nodes
        polynomial = _powers(points) @ values
        roots = np.roots(polynomial)
        within = (np.abs(roots.imag) < REAL_ROOT) & (roots.real > 0.0) & (roots.real <= 1.0)
        places = np.sort(roots.real[within])
        places = places[np.polyval(np.polyder(polynomial), places) < 0.0]
        self.is_doubtful |= bool(values[0] <= 0.0 or (values.min() < 0.0 and not len(places)))
        return float(places[0]) if len(places) else np.inf

    def _ended(self, taken: Taken, values: Vector) -> int:
        """1 where a step ends at the first zero, and 0 where it is to be repeated with another size."""
        time, dt, self._attempts = float(taken.starts[0]), float(taken.sizes[0]), self._attempts + 1
        slopes = np.minimum(taken.du[0, -1, self._columns] * self._signs, -1e-200)  # finite times
        beyond = -values / (slopes * dt)
        near = END_SLACK + 4.0 * EPS * max(abs(time), abs(time + dt)) / dt
        self.crossed = np.flatnonzero(np.abs(beyond) <= near).tolist()
        if beyond.min() < -near or not self.crossed:
            self.crossed, self.aim = [], dt * (1.0 + float(beyond.min()))
            self.is_doubtful = self._attempts > MOST_ATTEMPTS
        return int(bool(self.crossed))


@lru_cache(maxsize=64)
def _powers(points: tuple[float, ...]) -> Vector:
    """The matrix that takes values at points to the coefficients of their polynomial, the highest first."""
    return np.asarray(np.linalg.inv(np.vander(np.array(points))))
