"""Steps that shrink with the time left to a point, which they never reach."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector

FALL = 10.0  # Factor between the step sizes at which times are remembered.
# Least number of accepted steps between two such times: fewer are a drop into a fast transient.
LEAST_FALLING_STEPS = 3
# LEAST_RATIO, MOST_RATIO: bounds of the ratio of successive intervals between them, which is ``1 / FALL`` for
# sizes in proportion to the time left.
LEAST_RATIO = 0.02
MOST_RATIO = 0.5
# Time left, relative to that since the steps began to fall, at which the run ends. A pole of any order can be
# approached as near as one likes, layers of a finite width as near as they are thin.
NEARNESS = 3e-8
# Relative time left at which the run ends where the round-off of the time, relative to what is left, is
# larger than the tolerance, and so is what it changes of the solution.
UNRESOLVED_NEARNESS = 1e-5
RECOVERY_OF_STEPS = 3.0  # Growth from the smallest size, in units of ``FALL``, that ends an approach.
# Factor by which u' must have grown since the steps began to fall, to more than the tolerance in that time:
# before a jump of the equations, which a step gets over in the end, it does not grow.
GROWTH_OF_SLOPE = 30.0


class Approach:
    """Whether steps of a run approach a point in proportion to the time left to it."""

    # The sum of such steps converges, so that a run never gets there, unless a step passes the point by
    # chance: at a pole, or at a root of a solution under a fractional power.

    def __init__(self, rtol: float) -> None:
        self.rtol = rtol
        self.forget()

    def forget(self) -> None:
        """Forget the steps so far."""
        self._next = self._least = np.inf
        self._count, self._begin, self._slope = 0, np.nan, 0.0
        self._times: list[float] = []

    def get_state(self) -> Vector:
        """State on which later calls depend, for a checkpoint, shape (any,)."""
        return np.array([self._next, self._least, self._count, self._begin, self._slope, *self._times])

    def set_state(self, kept: Any) -> None:
        """Restore what :meth:`get_state` gave."""
        numbers = np.asarray(kept).tolist()
        self._next, self._least, self._count, self._begin, self._slope, *self._times = numbers

    def point(self, time: float, dt: float, slope: Callable[[], float] = lambda: np.inf) -> float | None:
        """The time that accepted steps approach, or None; ``slope()`` is u' relative to the sizes of u."""
        self._count += 1
        if dt > RECOVERY_OF_STEPS * FALL * self._least or not self._times:
            self._restart(time, dt, slope())
        self._least = min(self._least, dt)
        if dt > self._next:
            return None
        if self._count < LEAST_FALLING_STEPS:
            self._restart(time, dt, slope())
            return None
        self._next, self._count = dt / FALL, 0
        self._times = [*self._times[-2:], time]
        if len(self._times) < 3:
            return None
        before, last = (later - earlier for earlier, later in pairwise(self._times))
        if not LEAST_RATIO * before <= last <= MOST_RATIO * before:
            return None
        left = last * last / (before - last)
        rounding = float(np.finfo(float).eps) * abs(time)
        unresolved = rounding > self.rtol * left and rounding * slope() > self.rtol
        elapsed = time - self._begin
        if left > (UNRESOLVED_NEARNESS if unresolved else NEARNESS) * elapsed:
            return None
        before_it = self.rtol / elapsed if np.isinf(self._slope) else max(self._slope, self.rtol / elapsed)
        return time + left if slope() > GROWTH_OF_SLOPE * before_it else None

    def _restart(self, time: float, dt: float, slope: float) -> None:
        self._times, self._begin, self._count, self._slope = [time], time, 0, slope
        self._least, self._next = dt, dt / FALL
