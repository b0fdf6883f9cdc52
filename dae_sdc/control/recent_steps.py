"""The last accepted steps of a run, and the singular points that they lead to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from dae_sdc.control.events import Curve
from dae_sdc.control.singular_determinants import Place, Watched
from dae_sdc.structure.determinants import DETERMINANTS, Deficiency

# Sizes of determinants are relative to those nearby, mostly at the ends of a step; sizes of steps in units
# of recent ones.

ZERO_AT_CROSSING = 1e-6  # Determinant that counts as zero where it changes its sign.
# TOUCHING_VALUE, TOUCHING_DISTANCE: determinant that counts as zero without a change of sign, relative to
# those at this distance, in steps, on both sides: beside a zero it grows with a power of the distance, unlike
# one that is small as an exponential function.
TOUCHING_VALUE = 1e-2
TOUCHING_DISTANCE = 0.05
# Relative size of singular values that count as zero there: two may vanish at once.
TOUCHING_SINGULAR_VALUE = 1e-3
# Places within a step at which a determinant is evaluated to find two changes of its sign.
SAMPLES_WITHIN = 33
PLACES_AHEAD = 13  # Places ahead of a failed step at which determinants are evaluated.
MOST_AHEAD = 50  # Number of determinants up to which they are evaluated ahead.
STEPS_REMEMBERED = 30  # Number of steps whose sizes determine how far ahead.
# Relative error of an extrapolated determinant as far behind, above which one ahead is not used.
CREDIBLE_ERROR = 0.3
# Size of a step, relative also to the distance of a singular point, below which steps creep.
CREEPING_STEP = 1e-3
# Size of a step below which a leap, a step over the singular point ahead, is tried.
HESITANT_STEP = 0.1
MOST_LEAPS = 4  # Largest number of tries of a leap.
# Distance, relative to that of the last leap that failed, below which another is tried.
NEARER_BY = 0.1
LEAST_LEAP = 0.5  # Least size of a leap.
SAME_POINT = 1e-2  # Distance of two singular points, in steps, up to which they are one.
# Determinant relative to what it was before the last steps, or singular value, that explains a failure.
FADED_VALUE = 1e-2
LEAST_STEPS = 4  # Least number of steps that can fade or creep.
# Relative distance of a determinant from the negative of its forecast up to which they are equal.
MIRRORED_ERROR = 0.1
# ZERO_AT_START, PROBE_DISTANCE: determinant and singular values that count as zero at the start of a run,
# relative to those at a state that differs by this part of 1 + the sizes of the unknowns.
ZERO_AT_START = 1e-9
PROBE_DISTANCE = 1e-3
MOST_POINTS_NAMED = 5  # Singular points that a message names.


@dataclass(frozen=True)
class Passage:
    """A singular point: when, and how the rank falls there; None where only the step is known."""

    t: float
    deficiency: Deficiency | None

    def __str__(self) -> str:
        return f"near t={self.t:.6g}{f': {self.deficiency}' if self.deficiency else ''}"


class AcceptedStep(NamedTuple):
    """An accepted step: its level, start and size, the states at both ends, and u' at the start."""

    level: Any
    time: float
    dt: float
    start: Any
    end: Any
    slope: Any
    n_slopes: int


class WatchedStep:
    """An accepted step, and the states along it."""

    def __init__(self, made: AcceptedStep, found: Watched, straight: bool) -> None:
        self.start = end_of(made.start, made.time, found)
        self.end = end_of(made.end, made.time + made.dt, found)
        self._made, self._straight = made, straight
        self._curve: Curve | None = None

    def at(self, theta: float) -> Place:
        """A place along the step, theta from 0 to 1."""
        t0, u0, du0 = self.start
        t1, u1, du1 = self.end
        t, du = t0 + theta * (t1 - t0), du0 + theta * (du1 - du0)
        if self._straight or theta in (0.0, 1.0):
            return Place(t, u0 + theta * (u1 - u0), du)
        if self._curve is None:
            made = self._made
            parts = {"time": made.time, "dt": made.dt, "prob": made.level.prob, "sweep": made.level.sweep}
            level = SimpleNamespace(**parts, u=[made.start], uend=made.end, f=[made.slope])
            self._curve = Curve(level, made.n_slopes)
        return Place(t, self._curve.state(theta).view(np.ndarray), du)


def end_of(u: Any, t: float, found: Watched) -> Place:
    """A state at the end of a step, with u' where it is needed."""
    values = u.view(np.ndarray)
    if not found.needs_derivatives:
        return Place(t, values, values)
    known = u.polynomial is not None
    return Place(t, values, u.polynomial.derivative_at_end() if known else np.full(values.shape, np.nan))


class RecentSteps:
    """The last accepted steps of a run with what is watched along it."""

    def __init__(self) -> None:
        self.straight = False
        self.watched: Watched | None = None
        self.last: deque[AcceptedStep] = deque(maxlen=STEPS_REMEMBERED)
        self.history: list[AcceptedStep] = []

    def clear(self) -> None:
        """Forget all steps."""
        self.last.clear()
        self.history.clear()

    def remember(self, made: AcceptedStep) -> None:
        """Add a step to ``history``, whose steps are spaced by the logarithm of their age."""
        # Before a singular point steps may shrink by a small part each, and hundreds of them come to it.
        history = self.history
        history.append(made)
        if len(history) > STEPS_REMEMBERED:
            ages = made.time + made.dt - np.array([one.time for one in history])
            spacing = ages[:-2] / ages[2:]
            del history[1 + int(np.argmin(spacing[: len(history) - LEAST_STEPS]))]

    def tip(self) -> Place | None:
        """The end of the last accepted step, with u'; None where nothing is watched."""
        if self.watched is None or not self.last or self.straight:
            return None
        made = self.last[-1]
        if made.end.polynomial is None:  # the equations have changed there
            return None
        slopes = np.nan_to_num(made.end.polynomial.derivative_at_end())
        return Place(made.time + made.dt, np.array(made.end), slopes)

    def longest(self) -> float:
        """Size of the longest of the last steps."""
        return longest_of(self.last)

    def passage(self, last: Place, place: Place, at: int, least: float) -> Passage | None:
        """The singular point at a place after ``last``; None where no rank falls."""
        assert self.watched is not None
        deficiency = self.watched.deficiency(at, place, [last], least)
        return None if deficiency is None else Passage(place.t, deficiency)

    def parabola(self, last: Place, steps: Sequence[AcceptedStep] | None = None) -> Callable[[float], Place]:
        """The place at a distance from the last one, ahead or behind, if the solution were a parabola."""
        steps = self.last if steps is None else steps
        began = last.t - 0.25 * longest_of(steps)
        known = [made for made in steps if made.end.polynomial is not None]
        early = next((made for made in reversed(known) if made.time < began), known[0])
        slopes, since = np.nan_to_num(early.end.polynomial.derivative_at_end()), early.time + early.dt
        if since >= last.t:
            slopes, since = last.du, last.t - 1.0
        change = (last.du - slopes) / (last.t - since)

        def place(s: float) -> Place:
            return Place(last.t + s, last.u + s * (last.du + 0.5 * s * change), last.du + s * change)

        return place

    def is_credible(
        self,
        last: Place,
        path: Callable[[float], Place],
        s: float,
        at: int,
        steps: Sequence[AcceptedStep] | None = None,
    ) -> bool:
        """Whether a path gives the determinant that there was as far behind as it leads ahead."""
        found = self.watched
        assert found is not None
        for made in reversed(self.last if steps is None else steps):
            if made.time <= last.t - s:
                theta = min(1.0, (last.t - s - made.time) / made.dt)
                known = float(found.values(WatchedStep(made, found, self.straight).at(theta))[at])
                return abs(float(found.values(path(-s))[at]) - known) <= CREDIBLE_ERROR * abs(known)
        return False

    def ahead(
        self, last: Place, steps: Sequence[AcceptedStep] | None = None
    ) -> tuple[Place, int, float] | None:
        """Where a determinant vanishes ahead on the :meth:`parabola` through the last steps."""
        steps = self.last if steps is None else steps
        found, longest = self.watched, longest_of(steps)
        assert found is not None
        if len(found) > MOST_AHEAD:
            return None
        reach, place = 2.0 * longest, self.parabola(last, steps)

        def value(s: float, at: int) -> float:
            return float(found.values(place(s))[at])

        distances = np.concatenate([[0.0], reach * 4.0 ** np.arange(2.0 - PLACES_AHEAD, 2.0)])
        values = np.array([found.values(place(s)) for s in distances.tolist()])
        for k in range(1, len(distances) - 1):
            before, here, behind = values[k - 1 : k + 2]
            a, b, c = distances[k - 1 : k + 2].tolist()
            for at in np.flatnonzero(before * here < 0.0).tolist():
                root = float(brentq(value, a, b, args=(at,), xtol=1e-15 * b, rtol=1e-14, maxiter=200))
                if self.is_credible(last, place, root, at, steps):
                    return place(root), at, DETERMINANTS.vanishing
            size = np.abs(here)
            low = (size <= np.abs(before)) & (size <= np.abs(behind)) & (here * behind > 0.0)
            for at in np.flatnonzero(low).tolist():
                bottom = touching_point(partial(value, at=at), a, c)
                if bottom is not None and self.is_credible(last, place, bottom, at, steps):
                    return place(bottom), at, TOUCHING_SINGULAR_VALUE
        return None

    def faded(self) -> Passage | None:
        """The end of a run at which a determinant has become much smaller than it was, step by step."""
        found = self.watched
        if found is None or len(self.last) < LEAST_STEPS:
            return None
        places = [end_of(made.end, made.time + made.dt, found) for made in self.last]
        sizes = np.abs([found.values(place) for place in places])
        for at in np.flatnonzero(
            (sizes[-1] <= FADED_VALUE * sizes[0]) & (np.diff(sizes, axis=0) < 0.0).all(axis=0)
        ):
            deficiency = found.deficiency(int(at), places[-1], [places[0]], FADED_VALUE)
            if deficiency is not None:
                return Passage(places[-1].t, deficiency)
        return None


def longest_of(steps: Sequence[AcceptedStep]) -> float:
    """Size of the longest of some steps, 0 of none."""
    return max((made.dt for made in steps), default=0.0)


def touching_point(value: Callable[[float], float], a: float, b: float) -> float | None:
    """Where between a and b a function touches zero, or goes a little beyond; None where it does not."""
    sign = np.sign(value(a)) or np.sign(value(b))
    found = minimize_scalar(
        lambda x: sign * value(x), bounds=(a, b), method="bounded", options={"xatol": 1e-9 * (b - a)}
    )
    aside = TOUCHING_DISTANCE * (b - a)
    around = min(sign * value(found.x - aside), sign * value(found.x + aside))
    return float(found.x) if abs(found.fun) <= TOUCHING_VALUE * around else None
