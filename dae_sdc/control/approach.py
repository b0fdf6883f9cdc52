"""Steps that shrink with the time left to a point, which they never reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector


@dataclass(frozen=True)
class ApproachOptions:
    """Settings of :class:`Approach`."""

    fall: float = 10.0  # Factor between the step sizes at which times are remembered.
    # Least number of accepted steps between two such times: fewer are a drop into a fast transient.
    least_steps: int = 3
    # least_ratio, most_ratio: bounds of the ratio of successive intervals between them, which is ``1 /
    # fall`` for sizes in proportion to the time left.
    least_ratio: float = 0.02
    most_ratio: float = 0.5
    # Time left, relative to that since the steps began to fall, at which the run ends. A pole of any order
    # can be approached as near as one likes, layers of a finite width as near as they are thin.
    nearness: float = 3e-8
    # Relative time left at which the run ends where the round-off of the time, relative to what is left, is
    # larger than the tolerance.
    unresolved_nearness: float = 1e-5
    recovery: float = 3.0  # Growth from the smallest size, in units of ``fall``, that ends an approach.
    # Factor by which u' must have grown since the steps began to fall, to more than the tolerance in that
    # time: before a jump of the equations, which a step gets over in the end, it does not grow.
    growth: float = 30.0


class Approach:
    """Whether steps of a run approach a point in proportion to the time left to it."""

    # The sum of such steps converges, so that a run never gets there, unless a step passes the point by
    # chance: at a pole, or at a root of a solution under a fractional power.

    def __init__(self, rtol: float, options: ApproachOptions | None = None) -> None:
        self.rtol, self.options = rtol, options or ApproachOptions()
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
        """The time that accepted steps approach, or None."""
        options = self.options
        self._count += 1
        if dt > options.recovery * options.fall * self._least or not self._times:
            self._restart(time, dt, slope())
        self._least = min(self._least, dt)
        if dt > self._next:
            return None
        if self._count < options.least_steps:
            self._restart(time, dt, slope())
            return None
        self._next, self._count = dt / options.fall, 0
        self._times = [*self._times[-2:], time]
        if len(self._times) < 3:
            return None
        before, last = (later - earlier for earlier, later in pairwise(self._times))
        if not options.least_ratio * before <= last <= options.most_ratio * before:
            return None
        left = last * last / (before - last)
        unresolved = np.finfo(float).eps * abs(time) > self.rtol * left
        nearness = options.unresolved_nearness if unresolved else options.nearness
        elapsed = time - self._begin
        if left > nearness * elapsed:
            return None
        before_it = self.rtol / elapsed if np.isinf(self._slope) else max(self._slope, self.rtol / elapsed)
        return time + left if slope() > options.growth * before_it else None

    def _restart(self, time: float, dt: float, slope: float) -> None:
        self._times, self._begin, self._count, self._slope = [time], time, 0, slope
        self._least, self._next = dt, dt / self.options.fall
