"""Trains of trapezoidal pulses, and problems whose inputs are such trains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from dae_sdc.dae.state import MeshDAE
from dae_sdc.problems._testset import TestSetProblem


class Line(NamedTuple):
    """A linear piece of a signal: value + slope (t - start).

    Parameters
    ----------
    start : float
        Time at which the piece begins.
    value : float
        Signal at ``start``.
    slope : float
        Derivative of the signal on the piece.
    """

    start: float
    value: float
    slope: float

    def at(self, t: float) -> float:
        """The signal at time ``t``."""
        return self.value + self.slope * (t - self.start)


class Pulse(NamedTuple):
    """A periodic trapezoid: zero, a rise, a plateau, a fall, and zero again.

    Parameters
    ----------
    delay : float
        Time from the start of a period to the rise.
    rise, high, fall : float
        Durations of rise, plateau and fall; rise and fall are positive.
    period : float
        Duration of a period, at least the sum of delay, rise, high and fall.
    level : float
        Height of the plateau.
    """

    delay: float
    rise: float
    high: float
    fall: float
    period: float
    level: float

    def _cycle(self, number: int) -> tuple[Line, Line, Line, Line]:
        """The four pieces that begin in period ``number``; the last one reaches into the next period."""
        rise = number * self.period + self.delay
        high = number * self.period + (self.delay + self.rise)
        fall = number * self.period + (self.delay + self.rise + self.high)
        low = number * self.period + (self.delay + self.rise + self.high + self.fall)
        return (
            Line(rise, 0.0, self.level / self.rise),
            Line(high, self.level, 0.0),
            Line(fall, self.level, -self.level / self.fall),
            Line(low, 0.0, 0.0),
        )

    def line(self, t: float) -> Line:
        """The piece that contains ``t``; from 1e-12 max(abs(t), period) before a corner on, the next one."""
        slack = self._slack(t)
        return max(line for line in self._lines_near(t) if line.start <= t + slack)

    def lasts_until(self, t: float) -> float:
        """A time just before the first corner after ``t``, until which :meth:`line` stays the same."""
        slack = self._slack(t)
        corner = min(line.start for line in self._lines_near(t) if line.start > t + slack)
        return corner - 2.0 * self._slack(corner)

    def _slack(self, t: float) -> float:
        """Distance before a corner from which on the next piece counts."""
        return 1e-12 * max(abs(t), self.period)

    def _lines_near(self, t: float) -> Iterator[Line]:
        """The pieces of the period that contains ``t`` and of those before and after it."""
        cycle = math.floor(t / self.period)
        return (line for number in (cycle - 1, cycle, cycle + 1) for line in self._cycle(number))

    def corners(self, t0: float, t_end: float) -> set[float]:
        """Times strictly between ``t0`` and ``t_end`` at which the slope jumps."""
        cycles = range(math.floor(t0 / self.period) - 1, math.floor(t_end / self.period) + 1)
        slack = max(self._slack(t0), self._slack(t_end))
        starts = (line.start for number in cycles for line in self._cycle(number))
        return {start for start in starts if t0 + slack < start < t_end - slack}


class PulsedProblem(TestSetProblem):
    """A problem driven by trains of pulses; the linear pieces are chosen anew at the start of each step.

    Attributes
    ----------
    lines : tuple of Line
        Piece of every train in the current step, chosen by :meth:`start_step`.
    """

    pulses: ClassVar[tuple[Pulse, ...]] = ()
    lines: tuple[Line, ...]

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        self.lines = tuple(pulse.line(self.interval[0]) for pulse in self.pulses)
        self._lasting = (0.0, 0.0)  # the times at which the pieces are those that were chosen last

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """The corners of all trains strictly between ``t0`` and ``t_end``, in order."""
        return tuple(sorted(set().union(*(pulse.corners(t0, t_end) for pulse in self.pulses))))

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Choose the pieces that contain ``t``; at a corner, those that begin there."""
        if self._lasting[0] <= t < self._lasting[1]:
            return
        lines = tuple(pulse.line(t) for pulse in self.pulses)
        self._lasting = t, min((pulse.lasts_until(t) for pulse in self.pulses), default=math.inf)
        # An assignment makes the problem pack the parameters of its kernels anew.
        if lines != self.lines:
            self.lines = lines
