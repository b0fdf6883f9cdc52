"""Steps that shrink with the time that is left to a point, which they never reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector


@dataclass(frozen=True)
class ApproachOptions:
    """When steps count as an approach to a point.

    Parameters
    ----------
    fall : float
        Factor between the step sizes at which times are remembered.
    least_ratio, most_ratio : float
        Bounds of the ratio of successive times between them: ``1 / fall`` for sizes in proportion to the time
        that is left. The drop into a fast transient has no such times between, or shorter ones.
    falls : int
        Number of falls after which the run ends. A pole of any order gives as many as one likes, layers of a
        finite width as many as they are thin.
    unresolved_falls : int
        The same where the round-off of the time, relative to what is left, is larger than the tolerance.
    recovery : float
        Growth from the smallest size, in units of ``fall``, that ends an approach.
    """

    fall: float = 10.0
    least_ratio: float = 0.02
    most_ratio: float = 0.5
    falls: int = 6
    unresolved_falls: int = 4
    recovery: float = 3.0


class Approach:
    """Whether the accepted steps of a run approach a point with steps in proportion to the time left to it.

    The sum of such steps converges, so that a run never gets there, or over it by the chance of one step that
    sees nothing of the point: at a pole, at a root of a solution under a fractional power.

    Parameters
    ----------
    rtol : float
        Relative tolerance of the run.
    options : ApproachOptions
        What counts as an approach.
    """

    def __init__(self, rtol: float, options: ApproachOptions | None = None) -> None:
        self.rtol, self.options = rtol, options or ApproachOptions()
        self.forget()

    def forget(self) -> None:
        """Begin with the next step."""
        self._next = self._least = np.inf
        self._times: list[float] = []

    def memory(self) -> Vector:
        """What the steps so far leave, for a checkpoint, shape (any,)."""
        return np.array([self._next, self._least, *self._times])

    def take_up(self, kept: Any) -> None:
        """Take what :meth:`memory` gave."""
        self._next, self._least, *self._times = np.asarray(kept).tolist()

    def point(self, time: float, dt: float) -> float | None:
        """The time that accepted steps approach, seen from a step from ``time`` of size ``dt``, or None."""
        options = self.options
        if dt > options.recovery * options.fall * self._least or not self._times:
            self._times, self._least, self._next = [time], dt, dt / options.fall
            return None
        self._least = min(self._least, dt)
        if dt > self._next:
            return None
        self._next = dt / options.fall
        times = self._times
        times.append(time)
        if len(times) < 3:
            return None
        before, last = times[-2] - times[-3], times[-1] - times[-2]
        if not options.least_ratio * before <= last <= options.most_ratio * before:
            del times[:-2]
            return None
        left = last * last / (before - last)
        falls = len(times) - 1
        unresolved = np.finfo(float).eps * abs(time) > self.rtol * left
        if falls >= options.falls or (unresolved and falls >= options.unresolved_falls):
            return time + left
        return None
