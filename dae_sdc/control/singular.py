"""Singular points along a run, from its last accepted steps: it ends before one, or passes it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from pySDC.core.hooks import Hooks
from scipy.optimize import brentq, minimize_scalar

from dae_sdc.constrained.manifold import STEPS_WATCHED
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.events import AcceptedStep, Curve, accurate_slopes
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import InputError, SingularMatrixError
from dae_sdc.registry import require_name
from dae_sdc.structure import determinants
from dae_sdc.structure.determinants import Deficiency, Determinants, Follower
from dae_sdc.structure.parabola import foretold
from dae_sdc.sweepers.steps_ahead import MOST_STEPS, Taken

if TYPE_CHECKING:
    from dae_sdc.model.problem import ModelProblem

FIRST_ORDER = ("daen1", "daeq1", "daeq2")  # Types whose branches a method may mix up with a small error.
WAYS = ("stop", "pass")  # To end before a singular point, or to go on along the branch of the method.

_DETERMINANTS: WeakKeyDictionary[Any, dict[Any, Determinants]] = WeakKeyDictionary()


class Place(NamedTuple):
    """A time, the state there, and its derivative: NaN where not known, anything where not needed."""

    t: float
    u: Vector
    du: Vector


class _SaddleDeterminant:
    """The determinant of the matrix of the derivatives and multipliers of quasilinear equations."""

    needs_derivatives = False

    def __init__(self, problem: QuasilinearProblem) -> None:
        self._problem = problem

    def __len__(self) -> int:
        return 1

    def _matrix(self, place: Place) -> Vector:
        q, v, _ = self._problem.state_parts(place.u)
        return self._problem.saddle_matrix(place.t, q, v)

    def values(self, place: Place) -> Vector:
        matrix = self._matrix(place)
        return np.array([np.linalg.det(matrix) if np.isfinite(matrix).all() else np.nan])

    def begin(self, place: Place) -> None:
        self._last, self._value = place, float(self.values(place)[0])

    def follow(self, place: Place) -> int:
        before, value = self._last, self._value
        middle = Place(0.5 * (before.t + place.t), 0.5 * (before.u + place.u), place.du)
        self.begin(place)
        between, end = float(self.values(middle)[0]), self._value
        if value * end < 0.0 or value * between < 0.0:
            return 1
        half = 0.5 * (place.t - before.t)
        return 2 if foretold(abs(value), abs(between), abs(end), half, half) <= determinants.DEEP else 0

    def deficiency(self, at: int, place: Place, others: list[Place], least: float) -> Deficiency | None:
        matrix = self._matrix(place)
        usual = sum((np.abs(self._matrix(other)) for other in others), np.abs(matrix))
        null = determinants.null_rows(matrix, usual, least) if np.isfinite(usual).all() else None
        if null is None:
            return None
        names, size, nullity = self._problem.constraint_names, len(matrix), null.shape[1]
        first, share = size - len(names), np.abs(null).max(axis=1)
        rows = np.flatnonzero(share > determinants.INVOLVED * share.max()).tolist()
        what = "the matrix of the derivatives"
        if first and rows[0] >= first:
            what, size = "the Jacobian of the constraints", len(names)
        q, *usual_q = (self._problem.state_parts(at.u)[0].tolist() for at in (place, *others))
        values = (determinants.rounded(value, column) for value, *column in zip(q, *usual_q, strict=True))
        state = tuple(zip(self._problem.names, values, strict=False))
        labels = tuple(f"equation {i}" if i < first else names[i - first] for i in rows)
        return Deficiency(what, size - nullity, size, labels, state)


Watched = Follower | _SaddleDeterminant


def _is_of_a_model(problem: Any) -> TypeGuard[ModelProblem]:
    """Whether a problem was made from a model; without importing SymPy, which takes long."""
    models = sys.modules.get("dae_sdc.model.problem")  # if it was never imported, it made nothing
    return models is not None and isinstance(problem, models.ModelProblem)


def watched(problem: Any) -> Watched | None:
    """The determinants to watch along a run of a problem; None where there are none."""
    if _is_of_a_model(problem) and problem.origin.model is not None:
        model, states = problem.origin.model, problem.form.states
        of_model, key = _DETERMINANTS.setdefault(model, {}), (len(model.roots), states)
        if key not in of_model:
            of_model[key] = Determinants(model, states)
        return Follower(of_model[key], problem) if len(of_model[key]) else None
    return _SaddleDeterminant(problem) if isinstance(problem, QuasilinearProblem) else None


def require_way(way: Any, problem: Any) -> None:
    """Raise InputError for an unknown way, or a problem that is neither of a model nor quasilinear."""
    require_name("way at singular points", way, WAYS)
    if default_way(problem) is None:
        raise InputError(
            f"singular points are looked for in models and quasilinear equations; {problem.name} "
            f"is neither, leave singular out"
        )


def default_way(problem: Any) -> str | None:
    """What is done at singular points where the user does not say: "stop", "pass", or None to not look."""
    if isinstance(problem, QuasilinearProblem):
        return "pass"
    return "stop" if _is_of_a_model(problem) else None


# Sizes of determinants are relative to those nearby, mostly at the ends of a step; sizes of steps in units
# of recent ones.

ZERO_AT_CROSSING = 1e-6  # Determinant that counts as zero where it changes its sign.
# TOUCHING_VALUE, TOUCHING_DISTANCE: determinant that counts as zero without a change of sign, relative to
# those at this distance, in steps, on both sides: beside a zero it grows with a power of the distance, unlike
# one that is small as an exponential function.
TOUCHING_VALUE = 1e-2
TOUCHING_DISTANCE = 0.05
TOUCHING_SINGULAR_VALUE = 1e-3  # Relative singular value that counts as zero there: two may vanish at once.
SAMPLES_WITHIN = 33  # Places within a step at which two changes of sign of a determinant are looked for.
PLACES_AHEAD = 13  # Places ahead of a failed step at which determinants are evaluated.
MOST_AHEAD = 50  # Number of determinants up to which they are evaluated ahead.
STEPS_REMEMBERED = 30  # Number of steps whose sizes determine how far ahead.
CREDIBLE_ERROR = 0.3  # Relative error of a determinant extrapolated as far behind as one ahead that counts.
CREEPING_STEP = 1e-3  # Size of a step, relative also to the distance of a point, below which steps creep.
HESITANT_STEP = 0.1  # Size of a step below which a leap, a step over the point ahead, is tried.
MOST_LEAPS = 4  # Largest number of tries of a leap.
NEARER_BY = 0.1  # Distance below which another leap is tried, relative to that of the one that failed.
LEAST_LEAP = 0.5  # Least size of a leap.
SAME_POINT = 1e-2  # Distance of two singular points, in steps, up to which they are one.
FADED_VALUE = 1e-2  # Determinant, relative to earlier ones, or singular value that explains a failure.
LEAST_STEPS = 4  # Least number of steps that can fade or creep.
MIRRORED_ERROR = 0.1  # Relative error up to which a determinant is the negative of its forecast.
# ZERO_AT_START, PROBE_DISTANCE: determinant and singular values that count as zero at the start of a run,
# relative to those at states that differ by this part of 1 + the sizes of the unknowns, and of these sizes
# alone where they are above LEAST_PROBED.
ZERO_AT_START = 1e-9
PROBE_DISTANCE = 1e-3
LEAST_PROBED = 1e-10
MOST_POINTS_NAMED = 5  # Singular points that a message names.


@dataclass(frozen=True)
class Passage:
    """A singular point: when, and how the rank falls there; None where only the step is known."""

    t: float
    deficiency: Deficiency | None

    def __str__(self) -> str:
        return f"near t={self.t:.6g}{f': {self.deficiency}' if self.deficiency else ''}"


def passage(watched: Watched, at: int, place: Place, others: list[Place], least: float) -> Passage | None:
    """The singular point at a place, by values at others; None where no rank falls."""
    deficiency = watched.deficiency(at, place, others, least)
    return None if deficiency is None else Passage(place.t, deficiency)


StepsInARow = Sequence[AcceptedStep]
Path = Callable[[float], Place]  # The place at a distance.


class WatchedStep:
    """An accepted step, and the states along it."""

    def __init__(self, step: AcceptedStep, watched: Watched, straight: bool) -> None:
        self.start = end_of(step.start, step.time, watched)
        self.end = end_of(step.end, step.time + step.dt, watched)
        self._made, self._straight = step, straight
        self._curve: Curve | None = None

    def at(self, theta: float) -> Place:
        """A place along the step, theta from 0 to 1."""
        (t0, u0, du0), (t1, u1, du1) = self.start, self.end
        t, du = t0 + theta * (t1 - t0), du0 + theta * (du1 - du0)
        if self._straight or theta in (0.0, 1.0):
            return Place(t, u0 + theta * (u1 - u0), du)
        if self._curve is None:
            self._curve = Curve(self._made)
        return Place(t, self._curve.state(theta).view(np.ndarray), du)


def end_of(u: Any, t: float, watched: Watched) -> Place:
    """A state at the end of a step, with u' where it is needed."""
    values = u.view(np.ndarray)
    if not watched.needs_derivatives:
        return Place(t, values, values)
    du = np.full(values.shape, np.nan) if u.polynomial is None else u.polynomial.derivative_at_end()
    return Place(t, values, du)


class RecentSteps:
    """The last accepted steps of a run with what is watched along it."""

    def __init__(self) -> None:
        self.straight = False
        self.watched: Watched | None = None
        self.last: deque[AcceptedStep] = deque(maxlen=STEPS_REMEMBERED)
        self.history: list[AcceptedStep] = []

    def remember(self, steps: range, starts: Any, sizes: Any, step: Callable[[int], AcceptedStep]) -> None:
        """Add steps to the last ones, and to ``history``, where they are spaced by the logarithm of age."""
        # Before a singular point steps may shrink by a small part each, and hundreds of them come to it.
        times, kept = [known.time for known in self.history], [*self.history, *steps]
        for k in steps:
            times.append(starts[k])
            if len(times) > STEPS_REMEMBERED:
                ages = starts[k] + sizes[k] - np.array(times)
                spacing = ages[:-2] / ages[2:]
                gone = 1 + int(spacing[: len(times) - LEAST_STEPS].argmin())
                del times[gone], kept[gone]
        self.history = [step(known) if isinstance(known, int) else known for known in kept]
        self.last.extend(map(step, steps[-STEPS_REMEMBERED:]))

    def tip(self) -> Place | None:
        """The end of the last accepted step, with u'; None where nothing is watched or equations change."""
        step = None if self.watched is None or not self.last or self.straight else self.last[-1]
        if step is None or step.end.polynomial is None:
            return None
        slopes = np.nan_to_num(step.end.polynomial.derivative_at_end())
        return Place(step.time + step.dt, np.array(step.end), slopes)

    def parabola(self, last: Place, steps: StepsInARow) -> Path:
        """The place at a distance from the last one, ahead or behind, if the solution were a parabola."""
        began = last.t - 0.25 * longest_of(steps)
        known = [step for step in steps if step.end.polynomial is not None]
        early = next((step for step in reversed(known) if step.time < began), known[0])
        slopes, since = np.nan_to_num(early.end.polynomial.derivative_at_end()), early.time + early.dt
        if since >= last.t:
            slopes, since = last.du, last.t - 1.0
        change = (last.du - slopes) / (last.t - since)

        def place(s: float) -> Place:
            return Place(last.t + s, last.u + s * (last.du + 0.5 * s * change), last.du + s * change)

        return place

    def is_credible(self, last: Place, path: Path, s: float, at: int, steps: StepsInARow) -> bool:
        """Whether a path gives the determinant that there was as far behind as it leads ahead."""
        watched = self.watched
        step = next((step for step in reversed(steps) if step.time <= last.t - s), None)
        if watched is None or step is None:
            return False
        theta = min(1.0, (last.t - s - step.time) / step.dt)
        there = determinant(watched, WatchedStep(step, watched, self.straight).at, at)(theta)
        return abs(determinant(watched, path, at)(-s) - there) <= CREDIBLE_ERROR * abs(there)

    def point_ahead(self, last: Place, steps: StepsInARow) -> Passage | None:
        """The singular point where a determinant vanishes :meth:`ahead`."""
        near = self.ahead(last, steps)
        if near is None or self.watched is None:
            return None
        place, at, least = near
        return passage(self.watched, at, place, [last], least)

    def ahead(self, last: Place, steps: StepsInARow) -> tuple[Place, int, float] | None:
        """Where a determinant vanishes ahead on the :meth:`parabola` through steps."""
        watched = self.watched
        if watched is None or len(watched) > MOST_AHEAD:
            return None
        reach, place = 2.0 * longest_of(steps), self.parabola(last, steps)
        distances = np.concatenate([[0.0], reach * 4.0 ** np.arange(2.0 - PLACES_AHEAD, 2.0)])
        values = np.array([watched.values(place(s)) for s in distances.tolist()])
        for k in range(1, len(distances) - 1):
            before, here, behind = values[k - 1 : k + 2]
            a, b, c = distances[k - 1 : k + 2].tolist()
            size = np.abs(here)
            low = (size <= np.abs(before)) & (size <= np.abs(behind)) & (here * behind > 0.0)
            for crosses, which in ((True, before * here < 0.0), (False, low)):
                for at in np.flatnonzero(which).tolist():
                    value = determinant(watched, place, at)
                    s = zero_between(value, a, b, b) if crosses else touching_point(value, a, c)
                    if s is not None and self.is_credible(last, place, s, at, steps):
                        return place(s), at, determinants.LEAST if crosses else TOUCHING_SINGULAR_VALUE
        return None

    def faded(self) -> Passage | None:
        """The end of a run at which a determinant has become much smaller than it was, step by step."""
        watched = self.watched
        if watched is None or len(self.last) < LEAST_STEPS:
            return None
        places = [end_of(step.end, step.time + step.dt, watched) for step in self.last]
        sizes = np.abs([watched.values(place) for place in places])
        fades = (sizes[-1] <= FADED_VALUE * sizes[0]) & (np.diff(sizes, axis=0) < 0.0).all(axis=0)
        ends, numbers = (places[-1], places[:1]), np.flatnonzero(fades).tolist()
        return next(filter(None, (passage(watched, at, *ends, FADED_VALUE) for at in numbers)), None)


def determinant(watched: Watched, path: Path, at: int) -> Callable[[float], float]:
    """A determinant along a path."""
    return lambda s: float(watched.values(path(s))[at])


def zero_between(value: Callable[[float], float], a: float, b: float, size: float = 1.0) -> float:
    """A zero between two places at which a function has different signs, to rounding of a size."""
    return float(brentq(value, a, b, xtol=1e-15 * size, rtol=1e-14, maxiter=200))


def longest_of(steps: StepsInARow) -> float:
    """Size of the longest of some steps, 0 of none."""
    return max((step.dt for step in steps), default=0.0)


def touching_point(value: Callable[[float], float], a: float, b: float) -> float | None:
    """Where between a and b a function touches zero, or goes a little beyond; None where it does not."""
    sign = np.sign(value(a)) or np.sign(value(b))
    aside = TOUCHING_DISTANCE * (b - a)
    for exactness, most in ((1e-4, 10.0 * TOUCHING_VALUE), (1e-9, TOUCHING_VALUE)):  # most are far from zero
        about: Any = {"bounds": (a, b), "method": "bounded", "options": {"xatol": exactness * (b - a)}}
        minimum = minimize_scalar(lambda x: sign * value(x), **about)
        around = min(sign * value(minimum.x - aside), sign * value(minimum.x + aside))
        if not abs(minimum.fun) <= most * around:
            return None
    return float(minimum.x)


class SingularPointError(SingularMatrixError):
    """A run has come to a point at which the equations do not determine how their solution goes on."""


@dataclass
class _Leap:
    """A step that is to lead over a singular point."""

    over: float  # Time of the point.
    at: int  # Number of the determinant that vanishes there.
    back: float  # Size of the next step if this fails.
    tries: int = 0  # How often it has failed.


class WatchSingularPoints(Hooks):  # type: ignore[misc]
    """Looks for singular points on every accepted step; ends the run at one, or remembers it."""

    # Determinants are calculated at the ends of steps and in the middle of the straight line between them.
    # One that changes its sign, or seems to touch zero, is followed along the dense output of the step. It is
    # the zero of a continuous function that counts: a pole or a jump of the equations is no singular point.

    asked: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[Passage] = []
        self._problem: Any = None
        self._steps, self._known = RecentSteps(), 0
        self._leap: _Leap | None = None
        self._tried = np.inf
        self.seen = 0  # Of steps that were taken ahead.

    def _take(self, problem: Any) -> Watched | None:
        if self._problem is not problem:
            self._problem, self._steps.watched = problem, watched(problem)
        return self._steps.watched

    def pre_run(self, step: Any, level_number: int) -> None:
        """Choose by sweeper and problem how to watch, and check the start."""
        L = step.levels[0]
        if step.status.time_size > 1 or len(step.levels) > 1:
            raise InputError(
                "WatchSingularPoints needs one step at a time on one level; got "
                f"{step.status.time_size} steps and {len(step.levels)} levels; leave it out"
            )
        if not step.status.first or L.status.time is None:
            return
        sweeper, problem = type(L.sweep), L.prob
        keeps = hasattr(sweeper, "on_manifold")
        self.way = self.asked or ("pass" if keeps else default_way(problem)) or "stop"
        require_way(self.way, problem)
        self._hesitant = HESITANT_STEP if self.way == "pass" else 2.0 * CREEPING_STEP
        self.n_slopes = accurate_slopes(sweeper, problem)
        # Solutions may branch at the very end of a step, and the method may be on the wrong one.
        self.refuses = not (keeps or self.asked == "pass") and getattr(problem, "kind", "") in FIRST_ORDER
        # The method notices singular points itself.
        self.trusts = keeps and self.asked is None
        # Ranks that share the nodes of a step do not all have its dense output.
        self._steps.straight = bool(getattr(getattr(L.sweep, "nodes", None), "shared", False))
        watched = self._take(problem)
        if watched is None or isinstance(watched, _SaddleDeterminant) or watched.needs_derivatives:
            return  # quasilinear problems check their starts themselves
        start = end_of(L.u[0], L.time, watched)
        # Small changes in no special direction: of numbers of usual size, and of those that the state has.
        own, direction = np.abs(start.u), 0.75 + 0.25 * np.cos(1.0 + np.arange(start.u.size) ** 2)
        sizes = 1.0 + own, np.where(own > LEAST_PROBED, own, 1.0)
        probes = [Place(start.t, start.u + PROBE_DISTANCE * size * direction, start.du) for size in sizes]
        usual = np.min([np.abs(watched.values(probe)) for probe in probes], axis=0)
        for at in np.flatnonzero(np.abs(watched.values(start)) <= ZERO_AT_START * usual).tolist():
            self._report(passage(watched, at, start, probes[1:], ZERO_AT_START), "begins at")

    @property
    def steps_ahead(self) -> int:
        """Number of steps that may be taken before they are looked at; 0 where each changes the next."""
        if self._problem is None or self._leap is not None:
            return 0
        # What the method notices itself it leaves to the controller.
        one_by_one = self.refuses and not self.trusts and isinstance(self._steps.watched, _SaddleDeterminant)
        return 0 if one_by_one else MOST_STEPS

    @property
    def hesitation(self) -> tuple[float, float]:
        """What :meth:`judge` acts below: a size relative to the longest of the last steps, and that."""
        if self._steps.watched is None or not self._steps.last:
            return 0.0, 0.0
        return self._hesitant, longest_of(self._steps.last)

    @property
    def looks(self) -> bool:
        """Whether something is watched."""
        return self._steps.watched is not None

    def see(self, L: Any, taken: Taken, start: MeshDAE) -> None:
        """Look for singular points on steps that were taken ahead; ``seen`` of them were looked at."""
        self.seen = 0  # Not that of the steps before, whatever ends this.
        watched, recent, count, n_diff = self._steps.watched, self._steps, len(taken.starts), L.prob.n_diff
        assert watched is not None
        slopes, starts, sizes = taken.slopes_at_end(), taken.starts.tolist(), taken.sizes.tolist()

        @cache
        def state(k: int) -> MeshDAE:
            return start if k < 0 else taken.value if k == count - 1 else taken.end(k, n_diff)

        @cache
        def step(k: int) -> AcceptedStep:
            slope = slopes[k - 1] if k else taken.slope
            return AcceptedStep(L, starts[k], sizes[k], state(k - 1), state(k), slope, self.n_slopes)

        while (k := self.seen) < count:
            marks = None
            goes_on = bool(recent.last) and recent.last[-1].end is state(k - 1) and not self.trusts
            if goes_on and isinstance(watched, Follower):
                # Where steps creep, they are looked at one by one.
                longest = np.maximum.accumulate([longest_of(recent.history), *sizes[k:]])[:-1]
                creeping = np.flatnonzero(taken.sizes[k:] < CREEPING_STEP * longest)
                some = slice(k, k + int(creeping[0]) if creeping.size else count)
                ends = taken.u[len(taken.nodes) :: len(taken.nodes)][some]
                times = taken.starts[some] + taken.sizes[some]
                followed, marks = watched.follow_all(times, ends, slopes[some])
                k += followed - (marks > 0)
                marks = marks or None
                recent.remember(range(self.seen, k), starts, sizes, step)
                self.seen = k
            if k < count:
                self._see(step(k), watched, marks)
                self.seen = k + 1

    def post_step(self, step: Any, level_number: int) -> None:
        """Look for singular points on an accepted step."""
        # pySDC's own part of the methods, which counts restarts for statistics, is left out.
        L = step.levels[0]
        if step.status.get("restart") or getattr(L.sweep, "failure", None) is not None:
            return
        if (watched := self._take(L.prob)) is not None:
            self._see(AcceptedStep.of(L, self.n_slopes), watched)

    def _see(self, step: AcceptedStep, watched: Watched, marks: int | None = None) -> None:
        """Look for singular points on an accepted step, which may have been followed to its marks."""
        if self.trusts:
            self._trust(step, watched)
            return
        recent, problem = self._steps.last, step.level.prob
        if not recent or not (step.start is recent[-1].end or np.array_equal(step.start, recent[-1].end)):
            recent.clear()
            self._steps.history.clear()
            watched.begin(end_of(step.start, step.time, watched))
        end = end_of(step.end, step.time + step.dt, watched)
        if self.refuses and isinstance(watched, _SaddleDeterminant):
            problem.saddle_point(end.t, problem.state_parts(end.u)[0])
        marks = watched.follow(end) if marks is None else marks
        if marks:
            self._look(watched, step, marks)
        self._steps.remember(range(1), [step.time], [step.dt], lambda _: step)
        few, creeping, dt, history = LEAST_STEPS, CREEPING_STEP, step.dt, self._steps.history
        if len(recent) >= few and dt < recent[-few].dt and dt < creeping * longest_of(history):
            self._creep(recent if dt < creeping * longest_of(self._steps.last) else history)

    # Zeros of determinants

    def _crossings(self, watched: Watched, part: WatchedStep, at: int) -> Iterator[Passage | None]:
        """Singular points on a step where a determinant changes its sign."""
        value = determinant(watched, part.at, at)
        thetas = np.linspace(0.0, 1.0, 2 if value(0.0) * value(1.0) < 0.0 else SAMPLES_WITHIN).tolist()
        values = list(map(value, thetas))
        for i, (here, there) in enumerate(pairwise(values)):
            if here * there < 0.0:
                theta = zero_between(value, thetas[i], thetas[i + 1])
                if abs(value(theta)) <= ZERO_AT_CROSSING * max(map(abs, values)):
                    yield passage(watched, at, part.at(theta), [part.start, part.end], determinants.LEAST)

    def _look(self, watched: Watched, step: AcceptedStep, marks: int) -> None:
        """Look for zeros of determinants on a step by ``marks`` of :meth:`Watched.follow`."""
        part = WatchedStep(step, watched, self._steps.straight)
        if marks & 1:
            values = [watched.values(part.at(theta)) for theta in (0.0, 0.5, 1.0)]
            values.append(watched.values(WatchedStep(step, watched, True).at(0.5)))
            for at in np.flatnonzero(np.ptp(np.sign(values), axis=0) > 1.0).tolist():
                for point in self._crossings(watched, part, at):
                    self._report(point)
        if marks & 6:
            before = [WatchedStep(self._steps.last[-1], watched, self._steps.straight)] if marks & 4 else []
            for at in range(len(watched)):
                self._report(self._touched(watched, [*before, part], at))
        for at in range(len(watched)) if marks & 8 else ():
            self._bounce(watched, part, at)

    def _touched(self, watched: Watched, steps: list[WatchedStep], at: int) -> Passage | None:
        """The first singular point on steps in a row where a determinant does not change its sign."""
        ends = [steps[0].start, steps[-1].end]
        for step in steps:
            value = determinant(watched, step.at, at)
            bottom = None if value(0.0) * value(1.0) < 0.0 else touching_point(value, 0.0, 1.0)
            place = None if bottom is None else step.at(bottom)
            if place and (point := passage(watched, at, place, ends, TOUCHING_SINGULAR_VALUE)):
                return point
        return None

    def _bounce(self, watched: Watched, part: WatchedStep, at: int) -> None:
        """Look for a determinant with the opposite of its forecast value, as on another branch."""
        last, steps = self._steps.tip(), self._steps.last
        if last is None or len(steps) < LEAST_STEPS:
            return
        ahead, h = self._steps.parabola(last, steps), part.end.t - part.start.t
        value = determinant(watched, ahead, at)
        expected, there = value(h), float(watched.values(part.end)[at])
        if not value(0.0) * expected < 0.0 or abs(there + expected) > MIRRORED_ERROR * abs(expected):
            return
        s = zero_between(value, 0.0, h, h)
        point = passage(watched, at, ahead(s), [part.start], determinants.LEAST)
        if point is not None and self._steps.is_credible(last, ahead, s, at, steps):
            self._report(point)

    def _creep(self, steps: StepsInARow) -> None:
        """Look ahead where accepted steps become ever smaller: a solution turns aside before such a point."""
        sizes = [step.dt for step in self._steps.last][-LEAST_STEPS:]
        last = self._steps.tip()
        if last is None or not all(one >= other for one, other in pairwise(sizes)):
            return
        point = self._steps.point_ahead(last, steps)
        if point is not None and point.t - last.t < longest_of(steps):
            self._report(point)

    # Reports, and step sizes

    def _trust(self, step: AcceptedStep, watched: Watched) -> None:
        """Report the singular points that the method has noticed itself."""
        self._steps.last.append(step)
        sweep = step.level.sweep
        if sweep.dipped:
            steps = [*self._steps.last][-STEPS_WATCHED:]
            parts = [WatchedStep(earlier, watched, self._steps.straight) for earlier in steps]
            self._report(self._touched(watched, parts, 0))
        new, self._known = sweep.passed[self._known :], len(sweep.passed)
        if not new:
            return
        part = WatchedStep(step, watched, self._steps.straight)
        points = [*self._crossings(watched, part, 0), self._touched(watched, [part], 0)]
        for point in [*filter(None, points)] or [Passage(0.5 * (part.start.t + part.end.t), None)]:
            self._report(point)

    def _report(self, point: Passage | None, verb: str = "comes to") -> None:
        """End the run at a singular point or remember it, if there is one."""
        if point is None:
            return
        if self.way == "stop":
            raise SingularPointError(
                f"the run {verb} a singular point of the equations {point}; go on along the branch that the "
                f"method takes with singular='pass', or end before"
            )
        apart = SAME_POINT * longest_of(self._steps.last)
        if not (self.passed and abs(point.t - self.passed[-1].t) <= apart):
            self.passed.append(point)

    def message(self) -> str:
        """Message on the points that were passed; empty where there are none."""
        if not self.passed:
            return ""
        left = len(self.passed) - MOST_POINTS_NAMED
        more = [f"and {left} more"] if left > 0 else []
        places = "; ".join([*map(str, self.passed[:MOST_POINTS_NAMED]), *more])
        return f"passed singular points of the equations {places}"

    def diagnosis(self) -> str:
        """Why a run has failed: the singular point it was near; an empty text where there is none."""
        last, recent = self._steps.tip(), self._steps.last
        point = (None if last is None else self._steps.point_ahead(last, recent)) or self._steps.faded()
        if point is not None:
            return f"; the equations are singular {point}"
        return f"; the run has {self.message()}" if self.passed else ""

    def guide(self, control: Any) -> None:
        """Take part in the choice of step sizes, where there is one."""
        if isinstance(control, AdaptivityDAE):
            control.second_opinion = self.judge

    def judge(self, control: AdaptivityDAE, L: Any, solved: bool) -> bool:
        """Whether a step that is to be rejected is accepted all the same, to pass a singular point."""
        # Before one, error estimates of multipliers make steps small that would be good enough for all else.
        unasked = self.refuses and self.way == "pass"
        if self._steps.watched is None or not self._steps.last or unasked or self._steps.straight:
            return False
        if self._leap is not None:
            return self._landed(self._leap, control, L, solved)
        largest = longest_of(self._steps.last)
        goes_on = L.dt < self._hesitant * largest and L.u[0] is self._steps.last[-1].end
        last = self._steps.tip() if goes_on else None
        near = None if last is None else self._steps.ahead(last, self._steps.last)
        if near is None or last is None:
            return False
        distance = near[0].t - last.t
        if self.way == "stop" and L.dt < CREEPING_STEP * max(distance, largest):
            self._report(self._steps.point_ahead(last, self._steps.last))
        if self.way == "pass" and distance < NEARER_BY * self._tried:
            self._leap, self._tried = _Leap(near[0].t, near[1], 0.3 * L.dt), distance
            control.sizes.wanted = max(2.0 * distance, LEAST_LEAP * largest)
        return False

    def _landed(self, leap: _Leap, control: AdaptivityDAE, L: Any, solved: bool) -> bool:
        """Whether a step over a singular point has come to the smooth continuation behind it."""
        last, watched = self._steps.tip(), self._steps.watched
        assert last is not None and watched is not None
        if solved and L.time + L.dt > leap.over:
            there = float(watched.values(end_of(L.uend, L.time + L.dt, watched))[leap.at])
            expected = determinant(watched, self._steps.parabola(last, self._steps.last), leap.at)(L.dt)
            if abs(there - expected) <= CREDIBLE_ERROR * abs(expected):
                self._leap, self._tried = None, np.inf
                control.sizes.forget()
                control.sizes.rejections, control.sizes.wanted = 0, L.dt
                return True
        leap.tries += 1
        fails = leap.tries >= MOST_LEAPS
        control.sizes.wanted, self._leap = (leap.back, None) if fails else (1.5 * L.dt, leap)
        return False


LOOKS_ALONG_RUN = 6  # Number of steps along the run that are looked at besides the last.
# Smallest singular value at the end, relative to the largest at these steps, below which the algebraic part
# counts as singular. At a fold it falls with the square root of the time left, and steps end at round-off of
# the time.
SINGULAR_DROP = 4e-3
# Singular value, of rows of largest entry 1, from which on the algebraic part was regular before; at a higher
# index it never is.
REGULAR_BEFORE = 1e-9
RANK_OF_MASS = 1e-12  # Relative singular value of dF/du' that counts as 0.
MOST_IMPASSE_UNKNOWNS = 500  # Unknowns up to which singular values are computed.
NAMED_PART = 0.3  # Entry of the singular vector, relative to the largest, of an unknown that is named.
MOST_NAMED_AT_IMPASSE = 4  # Largest number of unknowns that are named.


def impasse(problem: ProblemDAE, t: Vector, u: Vector, du: Vector) -> str:
    """What to say of a run whose steps end where its algebraic unknowns are no longer determined."""
    # Where W^T F_u V, with bases V and W of the null spaces of F_u' and its transpose, becomes singular,
    # algebraic unknowns change infinitely fast, and a solution goes on at most by a jump: P. J. Rabier,
    # W. C. Rheinboldt, On impasse points of quasilinear DAEs, J. Math. Anal. Appl. 181 (1994).
    # Shapes: t (K,), u and du (K, n).
    if len(t) < 3 or problem.n > MOST_IMPASSE_UNKNOWNS:
        return ""
    sizes = np.maximum(np.abs(u).max(axis=0), np.finfo(float).tiny)
    marks = np.unique(np.linspace(1, len(t) - 2, LOOKS_ALONG_RUN).astype(int))
    with uncounted(problem):
        value, direction = _weakest(problem, t[-1], u[-1], du[-1], sizes)
        before = max(_weakest(problem, t[k], u[k], du[k], sizes)[0] for k in marks.tolist())
    if not (REGULAR_BEFORE <= before < np.inf and value <= SINGULAR_DROP * before):
        return ""
    size = np.abs(direction)  # of the changes of unknowns in units of their sizes
    order = np.argsort(-size, kind="stable")[:MOST_NAMED_AT_IMPASSE]
    names = ", ".join(f"'{problem.names[j]}'" for j in order if size[j] >= NAMED_PART * size.max())
    return (
        f"; near t={t[-1]:.6g} the equations no longer determine {names}: the "
        f"smallest singular value of their algebraic part has fallen from {before:.1g} to {value:.1g}; a "
        f"solution ends, folds back or has an infinite slope there; nodes between closed diodes want a gmin"
    )


def _weakest(problem: ProblemDAE, t: float, u: Vector, du: Vector, sizes: Vector) -> tuple[float, Vector]:
    """Smallest singular value of the scaled algebraic part, infinite without one, and its direction."""
    none, first = (np.inf, np.zeros(problem.n)), problem.n_diff
    if not np.isfinite(du).all():
        return none
    parts = linearize(problem, attach(u.copy(), first), attach(du.copy(), first), float(t), accurate=True)
    mass, stiffness = parts.dense
    stiffness, mass = stiffness * sizes, mass * sizes
    rows = np.abs(stiffness).max(axis=1) + np.abs(mass).max(axis=1)
    rows[rows == 0.0] = 1.0
    left, values, right = np.linalg.svd(mass / rows[:, None])
    rank = int((values > RANK_OF_MASS * values.max(initial=0.0)).sum())
    if rank == problem.n:
        return none
    algebraic = left[:, rank:].T @ (stiffness / rows[:, None]) @ right[rank:].T
    _, values, directions = np.linalg.svd(algebraic)
    return float(values[-1]), np.asarray(directions[-1] @ right[rank:])
