"""Points along a run at which equations do not determine their solution: where they are, the rank there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from pySDC.core.hooks import Hooks
from scipy.optimize import brentq, minimize_scalar

from dae_sdc.constrained.manifold import LOOKED_BACK
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.events import Curve
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SingularMatrixError
from dae_sdc.model.problem import ModelProblem
from dae_sdc.registry import unknown
from dae_sdc.structure.determinants import (
    DETERMINANTS,
    Deficiency,
    Determinants,
    null_rows,
    rounded,
)
from dae_sdc.structure.parabola import foretold

FIRST_ORDER = ("daen1", "daeq1", "daeq2")
"""Types at whose singular points solutions branch: a method may follow any, and its error is small."""

WAYS = ("stop", "pass")
"""What a run may do at a singular point: end before it, or go on along the branch that the method takes."""

CLOSE_TO_ZERO = 1e-6
"""Determinant, relative to those at the ends of the step, that it must fall to where it changes its sign."""

TOUCHING, AROUND = 1e-2, 0.05
"""Determinant without a change of sign that counts as zero, relative to those at a small part of the step on
both sides: beside a zero it grows with a power of the distance, while one that is small by an exponential
function does not."""

TOUCHED = 1e-3
"""Relative size of singular values that count as zero there: two may vanish at once."""

SAMPLES = 33
"""Places within a step at which a determinant is looked at for two changes of its sign."""

AHEAD = 13
"""Places ahead of a failed step at which determinants are looked at."""

MOST_AHEAD = 50
"""Determinants up to which one looks ahead."""

RECENT = 30
"""Steps that tell how far one looks ahead."""

CREDIBLE = 0.3
"""Relative error of a determinant behind, from which on nothing is said of one as far ahead."""

COLLAPSED = 1e-3
"""Size of a step, relative to recent ones or to the way to a singular point, that shows that steps creep."""

HESITANT = 0.1
"""Size of a step, relative to recent ones, at which one over the singular point ahead is tried."""

MOST_LEAPS = 4
"""Tries of such steps."""

AGAIN = 0.1
"""Distance, relative to that of the last try which failed, from which on one tries again."""

LEAP = 0.5
"""Least size of such a step, relative to those before."""

SAME = 1e-2
"""Distance of two singular points, relative to the last steps, up to which they are one."""

FADED, FEW = 1e-2, 4
"""Determinant relative to what it was before the last steps, or singular value, that explains a failure, and
how many steps it takes to say so."""

CORNER = 0.1
"""Relative distance of a determinant from the opposite of what it was to be, up to which it is that."""

EXACT, ASIDE = 1e-9, 1e-3
"""Determinant and singular values that count as zero at the start of a run, relative to those at a state that
differs by this part of 1 + the sizes of the unknowns."""

MOST_PLACES = 5
"""Singular points that a message names."""

_DETERMINANTS: WeakKeyDictionary[Any, dict[Any, Determinants]] = WeakKeyDictionary()


class SingularPointError(SingularMatrixError):
    """A run has come to a point at which the equations do not determine how their solution goes on."""


class Place(NamedTuple):
    """A time, the state there, and its derivative, of NaN where nobody needs it."""

    t: float
    u: Vector
    du: Vector


class Watched(Protocol):
    """Determinants whose zeros are singular points of a problem, and what is known of them along a run."""

    needs_derivatives: bool

    def __len__(self) -> int:
        """Number of determinants."""

    def values(self, place: Place) -> Vector:
        """The determinants, NaN where one has no value."""

    def begin(self, place: Place) -> None:
        """Begin a run."""

    def follow(self, place: Place) -> int:
        """Go on to the end of a step; see :meth:`dae_sdc.structure.determinants.Follower.follow`."""

    def deficiency(self, at: int, place: Place, others: list[Place], least: float) -> Deficiency | None:
        """How a rank falls at a place; None where it does not."""


class _OfModel:
    """The determinants of the system Jacobian of a model."""

    def __init__(self, problem: ModelProblem) -> None:
        model, states = problem.origin.model, problem.form.states
        known, key = _DETERMINANTS.setdefault(model, {}), (len(model.roots), states)
        if key not in known:
            known[key] = Determinants(model, states)
        self._problem, self._determinants = problem, known[key]
        self._follower = self._determinants.follower() if len(self._determinants) else None
        self.needs_derivatives = self._determinants.needs_derivatives

    def __len__(self) -> int:
        return len(self._determinants)

    def values(self, place: Place) -> Vector:
        assert self._follower is not None
        return self._follower.values(*place, self._problem.packed_parameters)

    def begin(self, place: Place) -> None:
        assert self._follower is not None
        self._follower.begin(*place, self._problem.packed_parameters)

    def follow(self, place: Place) -> int:
        assert self._follower is not None
        return self._follower.follow(*place, self._problem.packed_parameters)

    def deficiency(self, at: int, place: Place, others: list[Place], least: float) -> Deficiency | None:
        return self._determinants.deficiency(at, place, others, self._problem.packed_parameters, least)


class _OfSaddle:
    """The determinant of the matrix of the derivatives and multipliers of quasilinear equations."""

    needs_derivatives = False

    def __init__(self, problem: QuasilinearProblem) -> None:
        self._problem = problem
        self._last: tuple[Place, float] | None = None

    def __len__(self) -> int:
        return 1

    def _matrix(self, place: Place) -> Vector:
        q, v, _ = self._problem.state_parts(place.u)
        return self._problem.saddle_matrix(place.t, q, v)

    def values(self, place: Place) -> Vector:
        matrix = self._matrix(place)
        return np.array([np.linalg.det(matrix) if np.isfinite(matrix).all() else np.nan])

    def begin(self, place: Place) -> None:
        self._last = place, float(self.values(place)[0])

    def follow(self, place: Place) -> int:
        assert self._last is not None
        before, value = self._last
        middle = Place(0.5 * (before.t + place.t), 0.5 * (before.u + place.u), place.du)
        self._last = place, float(self.values(place)[0])
        between, end = float(self.values(middle)[0]), self._last[1]
        if value * end < 0.0 or value * between < 0.0:
            return 1
        half = 0.5 * (place.t - before.t)
        return 2 if foretold(abs(value), abs(between), abs(end), half, half) <= DETERMINANTS.suspicious else 0

    def deficiency(self, at: int, place: Place, others: list[Place], least: float) -> Deficiency | None:
        matrix = self._matrix(place)
        usual = sum((np.abs(self._matrix(other)) for other in others), np.abs(matrix))
        null = null_rows(matrix, usual, least) if np.isfinite(usual).all() else None
        if null is None:
            return None
        names, size, nullity = self._problem.constraint_names, len(matrix), null.shape[1]
        first = size - len(names)
        share = np.abs(null).max(axis=1)
        rows = np.flatnonzero(share > DETERMINANTS.involved * share.max()).tolist()
        what = "the matrix of the derivatives"
        if first and rows[0] >= first:
            what, size = "the Jacobian of the constraints", len(names)
        q, *usual_q = (self._problem.state_parts(at.u)[0].tolist() for at in (place, *others))
        values = (rounded(value, column) for value, *column in zip(q, *usual_q, strict=True))
        return Deficiency(
            what,
            size - nullity,
            size,
            tuple(f"equation {i}" if i < first else names[i - first] for i in rows),
            tuple(zip(self._problem.names, values, strict=False)),
        )


def watched(problem: Any) -> Watched | None:
    """What to look at along a run of a problem; None where nothing can be singular, or is known.

    Parameters
    ----------
    problem : ProblemDAE
        Of a model, reduced or not, or quasilinear.
    """
    found: Watched | None = None
    if isinstance(problem, ModelProblem) and problem.origin.model is not None:
        found = _OfModel(problem)
    elif isinstance(problem, QuasilinearProblem):
        found = _OfSaddle(problem)
    return found if found is not None and len(found) else None


def require_way(way: Any, problem: Any) -> None:
    """Raise InputError for a way that is none, or a problem of which nothing can be looked at."""
    if way not in WAYS:
        raise InputError(unknown("way at singular points", way, WAYS))
    if not isinstance(problem, ModelProblem | QuasilinearProblem):
        raise InputError(
            f"singular points are looked for in models and quasilinear equations; {type(problem).__name__} "
            f"is neither, leave singular out"
        )


def default_way(problem: Any) -> str | None:
    """What is done at singular points where the user does not say: "stop", "pass", or None to not look.

    Parameters
    ----------
    problem : ProblemDAE
        Quasilinear equations go on along the branch that the method takes; models end before such a point.
    """
    if isinstance(problem, QuasilinearProblem):
        return "pass"
    return "stop" if isinstance(problem, ModelProblem) else None


@dataclass(frozen=True)
class Passage:
    """A singular point: when, and how the rank falls there; None where only the step is known."""

    t: float
    deficiency: Deficiency | None

    def __str__(self) -> str:
        return f"near t={self.t:.6g}{f': {self.deficiency}' if self.deficiency else ''}"


class _Step:
    """An accepted step, and the states along it."""

    def __init__(self, made: _Made, found: Watched, straight: bool) -> None:
        self.start, self.end = _end(made.start, made.time, found), _end(made.end, made.time + made.dt, found)
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


class _Made(NamedTuple):
    """What there was when a step had been accepted."""

    level: Any
    time: float
    dt: float
    start: Any
    end: Any
    slope: Any
    n_slopes: int


def _end(u: Any, t: float, found: Watched) -> Place:
    """A state at the end of a step, with u' where it is needed."""
    values = u.view(np.ndarray)
    if not found.needs_derivatives:
        return Place(t, values, values)
    known = u.polynomial is not None
    return Place(t, values, u.polynomial.derivative_at_end() if known else np.full(values.shape, np.nan))


@dataclass
class _Leap:
    """A step that is to lead over a singular point.

    Parameters
    ----------
    over : float
        Time of the point.
    at : int
        Number of the determinant that vanishes there.
    back : float
        Size of the next step if this fails.
    tries : int
        How often it has failed.
    """

    over: float
    at: int
    back: float
    tries: int = 0


class WatchSingularPoints(Hooks):  # type: ignore[misc]
    """Looks for singular points on every accepted step; ends the run at one, or remembers it.

    Determinants are calculated at the ends of steps and in the middle of the straight line between them. One
    that changes its sign, or that seems to touch zero, is followed along the dense output of the step. It is
    the zero of a continuous function that counts: a pole or a jump of the equations is no singular point.

    Attributes
    ----------
    way : str
        One of :data:`WAYS`.
    n_slopes : int
        Number of unknowns whose u' is as good as u.
    refuses : bool
        Whether quasilinear equations that are singular at the very end of a step end the run in any case, as
        solutions may branch there and the method may be on the wrong one.
    trusts : bool
        Whether the method notices singular points itself, so that nothing else is looked at.
    straight : bool
        Whether dense output is not to be used, as ranks that share the nodes of a step do not all have it.
    passed : list of Passage
        What was passed.
    """

    way: ClassVar[str]
    n_slopes: ClassVar[int]
    refuses: ClassVar[bool]
    trusts: ClassVar[bool]
    straight: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[Passage] = []
        self._problem: Any = None
        self._watched: Watched | None = None
        self._recent: deque[_Made] = deque(maxlen=RECENT)
        self._history: list[_Made] = []
        self._seen = 0
        self._leap: _Leap | None = None
        self._tried = np.inf

    def _take(self, problem: Any) -> Watched | None:
        if self._problem is not problem:
            self._problem, self._watched = problem, watched(problem)
        return self._watched

    def pre_run(self, step: Any, level_number: int) -> None:
        """Look at the start.

        Raises
        ------
        SingularMatrixError
            If the equations are singular there.
        """
        super().pre_run(step, level_number)
        L = step.levels[0]
        if not step.status.first or L.status.time is None:
            return
        found = self._take(L.prob)
        if found is None or isinstance(found, _OfSaddle) or found.needs_derivatives:
            return  # quasilinear problems check their starts themselves
        start = _end(L.u[0], L.time, found)
        probe = Place(start.t, start.u + _aside(start.u), start.du)
        small = np.abs(found.values(start)) <= EXACT * np.abs(found.values(probe))
        for at in np.flatnonzero(small).tolist():
            deficiency = found.deficiency(at, start, [probe], EXACT)
            if deficiency is not None:
                self._report(Passage(start.t, deficiency), "begins at")

    def post_step(self, step: Any, level_number: int) -> None:
        """Look at an accepted step.

        Raises
        ------
        SingularMatrixError
            If there is a singular point on it, and the run is to stop there.
        """
        # This runs after every step: pySDC's own part, which counts restarts for statistics, is left out.
        L = step.levels[0]
        if step.status.get("restart") or getattr(L.sweep, "failure", None) is not None:
            return
        problem = L.prob
        found = self._watched if problem is self._problem else self._take(problem)
        if found is None:
            return
        time, dt, start, last = L.time, L.dt, L.u[0], L.uend
        made = _Made(L, time, dt, start, last, L.f[0], self.n_slopes)
        if self.trusts:
            self._trust(made, found)
            return
        recent = self._recent
        if not recent or not (start is recent[-1].end or np.array_equal(start, recent[-1].end)):
            recent.clear()
            self._history.clear()
            found.begin(_end(start, time, found))
        end = _end(last, time + dt, found)
        if self.refuses and isinstance(found, _OfSaddle):
            problem.saddle_point(end.t, problem.state_parts(end.u)[0])
        marks = found.follow(end)
        if marks:
            self._look(found, made, marks)
        recent.append(made)
        self._remember(made)
        if len(recent) >= FEW and dt < recent[-FEW].dt and dt < COLLAPSED * _longest(self._history):
            self._creep(self._recent if dt < COLLAPSED * self._longest() else self._history)

    def _remember(self, made: _Made) -> None:
        """Add a step to those that tell how far a run has slowed down, spaced by the logarithm of their age.

        Before a singular point steps may shrink by a small part each, and hundreds of them come to it.
        """
        history = self._history
        history.append(made)
        if len(history) > RECENT:
            ages = made.time + made.dt - np.array([one.time for one in history])
            spacing = ages[:-2] / ages[2:]
            del history[1 + int(np.argmin(spacing[: len(history) - FEW]))]

    # Zeros of determinants

    def _crossings(self, found: Watched, part: _Step, at: int) -> Iterator[Passage]:
        """Singular points on a step where a determinant changes its sign."""

        def value(theta: float) -> float:
            return float(found.values(part.at(theta))[at])

        thetas = np.linspace(0.0, 1.0, SAMPLES).tolist()
        ends = value(0.0), value(1.0)
        if ends[0] * ends[1] < 0.0:
            thetas, values = [0.0, 1.0], list(ends)
        else:
            values = [value(theta) for theta in thetas]
        for i, (one, other) in enumerate(pairwise(values)):
            if one * other < 0.0:
                theta = float(brentq(value, thetas[i], thetas[i + 1], xtol=1e-15, rtol=1e-14, maxiter=200))
                size = max(map(abs, values))
                if abs(value(theta)) > CLOSE_TO_ZERO * size:
                    continue
                place = part.at(theta)
                deficiency = found.deficiency(at, place, [part.start, part.end], DETERMINANTS.vanishing)
                if deficiency is not None:
                    yield Passage(place.t, deficiency)

    def _look(self, found: Watched, made: _Made, marks: int) -> None:
        """Look at a step on which a determinant changes its sign, or may be zero there or near its start."""
        part = _Step(made, found, self.straight)
        if marks & 1:
            values = [found.values(part.at(theta)) for theta in (0.0, 0.5, 1.0)]
            values.append(found.values(_Step(made, found, True).at(0.5)))
            for at in np.flatnonzero(np.ptp(np.sign(values), axis=0) > 1.0).tolist():
                for point in self._crossings(found, part, at):
                    self._report(point)
        if marks & 6:
            steps = [part]
            if marks & 4:
                steps.insert(0, _Step(self._recent[-1], found, self.straight))
            for at in range(len(found)):
                for point in self._touches(found, steps, at):
                    self._report(point)
        if marks & 8:
            for at in range(len(found)):
                self._bounce(found, part, at)

    def _touches(self, found: Watched, steps: list[_Step], at: int) -> Iterator[Passage]:
        """The first singular point on steps in a row where a determinant does not change its sign."""
        for one in steps:

            def value(theta: float, one: _Step = one) -> float:
                return float(found.values(one.at(theta))[at])

            if value(0.0) * value(1.0) < 0.0:
                continue
            bottom = _touched(value, 0.0, 1.0)
            if bottom is not None:
                place = one.at(bottom)
                deficiency = found.deficiency(at, place, [steps[0].start, steps[-1].end], TOUCHED)
                if deficiency is not None:
                    yield Passage(place.t, deficiency)
                    return

    def _bounce(self, found: Watched, part: _Step, at: int) -> None:
        """Look for a step on which a determinant was to change its sign, but has taken the opposite value.

        It has opposite values on two branches of solutions that meet where it is zero.
        """
        last = self._tip()
        if last is None or len(self._recent) < FEW:
            return
        ahead, h = self._parabola(last), part.end.t - part.start.t

        def value(s: float) -> float:
            return float(found.values(ahead(s))[at])

        expected, there = value(h), float(found.values(part.end)[at])
        if not value(0.0) * expected < 0.0 or abs(there + expected) > CORNER * abs(expected):
            return
        s = float(brentq(value, 0.0, h, xtol=1e-15 * h, rtol=1e-14, maxiter=200))
        deficiency = found.deficiency(at, ahead(s), [part.start], DETERMINANTS.vanishing)
        if deficiency is not None and self._is_credible(last, ahead, s, at):
            self._report(Passage(last.t + s, deficiency))

    def _creep(self, steps: Sequence[_Made]) -> None:
        """Look ahead where accepted steps become ever smaller: a solution turns aside before such a point."""
        sizes = [made.dt for made in self._recent][-FEW:]
        last = self._tip()
        if last is None or not all(one >= other for one, other in pairwise(sizes)):
            return
        near = self._ahead(last, steps)
        point = None if near is None else self._passage(last, *near)
        if point is not None and point.t - last.t < _longest(steps):
            self._report(point)

    # What is said

    def _trust(self, made: _Made, found: Watched) -> None:
        """Tell where the singular points are that a method has noticed itself."""
        self._recent.append(made)
        sweep = made.level.sweep
        if sweep.dipped:
            steps = [_Step(one, found, self.straight) for one in [*self._recent][-LOOKED_BACK:]]
            for point in self._touches(found, steps, 0):
                self._report(point)
        passed = sweep.passed
        new, self._seen = passed[self._seen :], len(passed)
        if not new:
            return
        part = _Step(made, found, self.straight)
        points = [*self._crossings(found, part, 0), *self._touches(found, [part], 0)]
        for point in points or [Passage(0.5 * (part.start.t + part.end.t), None)]:
            self._report(point)

    def _report(self, point: Passage, verb: str = "comes to") -> None:
        if self.way == "stop":
            raise SingularPointError(
                f"the run {verb} a singular point of the equations {point}; go on along the branch that the "
                f"method takes with singular='pass', or end before"
            )
        if not (self.passed and abs(point.t - self.passed[-1].t) <= SAME * self._longest()):
            self.passed.append(point)

    def message(self) -> str:
        """What to say of the points that were passed; nothing where there are none."""
        if not self.passed:
            return ""
        places = "; ".join(str(point) for point in self.passed[:MOST_PLACES])
        more = f"; and {len(self.passed) - MOST_PLACES} more" if len(self.passed) > MOST_PLACES else ""
        return f"passed singular points of the equations {places}{more}"

    def diagnosis(self) -> str:
        """Why a run has failed: the singular point it was near; nothing where there is none."""
        last = self._tip()
        near = None if last is None else self._ahead(last)
        point = None if near is None or last is None else self._passage(last, *near)
        point = point or self._faded()
        if point is not None:
            return f"; the equations are singular {point}"
        return f"; the run has {self.message()}" if self.passed else ""

    def _faded(self) -> Passage | None:
        """The end of a run at which a determinant has become much smaller than it was, step by step."""
        found = self._watched
        if found is None or len(self._recent) < FEW:
            return None
        places = [_end(made.end, made.time + made.dt, found) for made in self._recent]
        sizes = np.abs([found.values(place) for place in places])
        for at in np.flatnonzero(
            (sizes[-1] <= FADED * sizes[0]) & (np.diff(sizes, axis=0) < 0.0).all(axis=0)
        ):
            deficiency = found.deficiency(int(at), places[-1], [places[0]], FADED)
            if deficiency is not None:
                return Passage(places[-1].t, deficiency)
        return None

    def guide(self, control: Any) -> None:
        """Take part in the choice of step sizes, where there is one."""
        if isinstance(control, AdaptivityDAE):
            control.second_opinion = self.judge

    def judge(self, control: AdaptivityDAE, L: Any, solved: bool) -> bool:
        """Look at a step that is to be rejected; whether it is to be accepted all the same.

        Before a singular point error estimates of multipliers make steps small that would be good enough for
        everything else. A run that passes steps over such a point with a step that is not judged by them.

        Raises
        ------
        SingularPointError
            If steps become too small to reach the singular point ahead, and the run is to stop there.
        """
        unasked = self.refuses and self.way == "pass"
        if self._watched is None or not self._recent or unasked or self.straight:
            return False
        if self._leap is not None:
            return self._landed(self._leap, control, L, solved)
        largest = self._longest()
        hesitant = L.dt < (HESITANT if self.way == "pass" else 2.0 * COLLAPSED) * largest
        last = self._tip() if hesitant and L.u[0] is self._recent[-1].end else None
        near = None if last is None else self._ahead(last)
        if near is None or last is None:
            return False
        distance = near[0].t - last.t
        if self.way == "stop" and L.dt < COLLAPSED * max(distance, largest):
            point = self._passage(last, *near)
            if point is not None:
                self._report(point)
        if self.way == "pass" and distance < AGAIN * self._tried:
            self._leap, self._tried = _Leap(near[0].t, near[1], 0.3 * L.dt), distance
            control.want(max(2.0 * distance, LEAP * largest))
        return False

    def _landed(self, leap: _Leap, control: AdaptivityDAE, L: Any, solved: bool) -> bool:
        """Whether a step over a singular point has come to the smooth continuation behind it."""
        last, found = self._tip(), self._watched
        assert last is not None and found is not None
        if solved and L.time + L.dt > leap.over:
            there = _end(L.uend, L.time + L.dt, found)
            expected = float(found.values(self._parabola(last)(L.dt))[leap.at])
            if abs(float(found.values(there)[leap.at]) - expected) <= CREDIBLE * abs(expected):
                self._leap, self._tried = None, np.inf
                control.sizes.forget()
                control.sizes.rejections = 0
                control.want(L.dt)
                return True
        leap.tries += 1
        if leap.tries < MOST_LEAPS:
            control.want(1.5 * L.dt)
        else:
            control.want(leap.back)
            self._leap = None
        return False

    def _tip(self) -> Place | None:
        """The end of the last accepted step, with u'; None where nothing is watched."""
        if self._watched is None or not self._recent or self.straight:
            return None
        made = self._recent[-1]
        if made.end.polynomial is None:  # the equations have changed there
            return None
        slopes = np.nan_to_num(made.end.polynomial.derivative_at_end())
        return Place(made.time + made.dt, np.array(made.end), slopes)

    def _passage(self, last: Place, place: Place, at: int, least: float) -> Passage | None:
        assert self._watched is not None
        deficiency = self._watched.deficiency(at, place, [last], least)
        return None if deficiency is None else Passage(place.t, deficiency)

    def _longest(self) -> float:
        """Size of the longest of the last steps."""
        return _longest(self._recent)

    def _parabola(self, last: Place, steps: Sequence[_Made] | None = None) -> Callable[[float], Place]:
        """The places ahead of the last one, and behind, if the solution were a parabola."""
        steps = self._recent if steps is None else steps
        began = last.t - 0.25 * _longest(steps)
        known = [made for made in steps if made.end.polynomial is not None]
        early = next((made for made in reversed(known) if made.time < began), known[0])
        slopes, since = np.nan_to_num(early.end.polynomial.derivative_at_end()), early.time + early.dt
        if since >= last.t:
            slopes, since = last.du, last.t - 1.0
        change = (last.du - slopes) / (last.t - since)

        def place(s: float) -> Place:
            return Place(last.t + s, last.u + s * (last.du + 0.5 * s * change), last.du + s * change)

        return place

    def _is_credible(
        self,
        last: Place,
        path: Callable[[float], Place],
        s: float,
        at: int,
        steps: Sequence[_Made] | None = None,
    ) -> bool:
        """Whether a path ahead passes through what was as far behind."""
        found = self._watched
        assert found is not None
        for made in reversed(self._recent if steps is None else steps):
            if made.time <= last.t - s:
                theta = min(1.0, (last.t - s - made.time) / made.dt)
                known = float(found.values(_Step(made, found, self.straight).at(theta))[at])
                return abs(float(found.values(path(-s))[at]) - known) <= CREDIBLE * abs(known)
        return False

    def _ahead(self, last: Place, steps: Sequence[_Made] | None = None) -> tuple[Place, int, float] | None:
        """Where a determinant vanishes a little ahead, on the parabola that the last steps lie on."""
        steps = self._recent if steps is None else steps
        found, longest = self._watched, _longest(steps)
        assert found is not None
        if len(found) > MOST_AHEAD:
            return None
        reach, place = 2.0 * longest, self._parabola(last, steps)

        def value(s: float, at: int) -> float:
            return float(found.values(place(s))[at])

        distances = np.concatenate([[0.0], reach * 4.0 ** np.arange(2.0 - AHEAD, 2.0)])
        values = np.array([found.values(place(s)) for s in distances.tolist()])
        for k in range(1, len(distances) - 1):
            before, here, behind = values[k - 1 : k + 2]
            a, b, c = distances[k - 1 : k + 2].tolist()
            for at in np.flatnonzero(before * here < 0.0).tolist():
                root = float(brentq(value, a, b, args=(at,), xtol=1e-15 * b, rtol=1e-14, maxiter=200))
                if self._is_credible(last, place, root, at, steps):
                    return place(root), at, DETERMINANTS.vanishing
            size = np.abs(here)
            low = (size <= np.abs(before)) & (size <= np.abs(behind)) & (here * behind > 0.0)
            for at in np.flatnonzero(low).tolist():
                bottom = _touched(partial(value, at=at), a, c)
                if bottom is not None and self._is_credible(last, place, bottom, at, steps):
                    return place(bottom), at, TOUCHED
        return None


def _longest(steps: Sequence[_Made]) -> float:
    return max((made.dt for made in steps), default=0.0)


def _aside(u: Vector) -> Vector:
    """A small change of a state in no special direction."""
    directions = 0.75 + 0.25 * np.cos(1.0 + np.arange(u.size) ** 2)
    return np.asarray(ASIDE * (1.0 + np.abs(u)) * directions)


def _touched(value: Callable[[float], float], a: float, b: float) -> float | None:
    """Where between a and b a function touches zero, or goes a little beyond; None where it does not."""
    sign = np.sign(value(a)) or np.sign(value(b))
    found = minimize_scalar(
        lambda x: sign * value(x), bounds=(a, b), method="bounded", options={"xatol": 1e-9 * (b - a)}
    )
    aside = AROUND * (b - a)
    around = min(sign * value(found.x - aside), sign * value(found.x + aside))
    return float(found.x) if abs(found.fun) <= TOUCHING * around else None
