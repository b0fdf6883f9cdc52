"""The sizes of steps from the errors of the last ones, and steps one after the other in one call."""

# The functions are Python in the part that numba compiles, on numbers in memory that both of them know. Steps
# ahead are the plain ones: solved without doubt, accepted, between two times that are to be met. The step
# with which something else happens is left to the controller, from its begin or from where its stages are
# solved.

from __future__ import annotations

import ctypes
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np

from dae_sdc.dae.memory import COUNTERS, fields
from dae_sdc.dae.state import EndDerivative, EndWithInterior, MeshDAE, StepPolynomial, Vector, attach
from dae_sdc.sweepers.simultaneous import (
    HELD_PART,
    KEPT_FACTORS_CONTRACTION,
    LEFT_TO_PYTHON,
    MOST_NEWTON_ITERATIONS,
    SINGULAR,
    SOLVED,
    UNDEFINED,
)
from dae_sdc.sweepers.tolerance import Outcome

SAFETY = 0.9  # Part taken of the step size at which an estimate would just meet its tolerance.
# LARGEST_FACTOR, SMALLEST_FACTOR: bounds of the next step size in units of the last.
LARGEST_FACTOR = 8.0
SMALLEST_FACTOR = 0.2
# Growth up to which a step size is kept, and with it the factors of the iteration matrices.
KEPT_GROWTH = 1.2
# Likewise where the factors would be kept for another step, and new ones are costly: QUOT2 of RADAU5 for
# large systems, E. Hairer, G. Wanner, Solving Ordinary Differential Equations II (1996), sec. IV.8.
KEPT_GROWTH_OF_COSTLY = 2.0
# Part of a longer step that is taken there once the error of a step has been too large.
GROWTH_AFTER_OVERSHOOT = 0.7
# Contraction of the iterations that a step size is chosen for where the error would allow more.
WANTED_CONTRACTION = 0.3
# Factor per step by which the limit that failed iterations have set grows, and this growth itself.
LIMIT_GROWTH = 1.15
# Ratio of an error to its forecast from the last step above which the solution has a kink.
KINK_RATIO = 10.0
# Error of a step below which a rejection of the next one shows that the solution is not smooth.
SMOOTH_ERROR = 0.05
# Steps after a kink that have to meet the tolerance of the user, not that of a smooth solution.
WARY_STEPS = 8.0
# Least error that a forecast starts from: smaller ones are not the leading term.
LEAST_FORETOLD_ERROR = 1e-6
# Ratio of the error of a shorter step to that of the same step before above which it does not go with the
# step: it comes from the start of the step, or from rounding.
NOT_REDUCED = 0.97
# Repetitions of a step in which an error between its nodes may rise before it counts as rounding.
UNEVEN_REPETITIONS = 3.0
LEAST_STEP_ERROR = 1e-2  # Least error that the PI controller takes for that of the last step.

FIRST_STEP_TRIALS = 8  # Largest number of trials of a first step size.
# Least relative change in a first step, to the power k - 1 by which it divides rounding in unknowns of a
# higher index k, in units of eps / rtol.
FIRST_STEP_CHANGE = 100.0
# Relative change in a first step, in units of eps, above which it is not by round-off alone.
VISIBLE_CHANGE = 10.0
# How many times a solution is assumed to change by its size in the interval before a step is known.
CHANGES_IN_INTERVAL = 16.0
# Distance from a time to be met, in steps, by which the last step may be stretched.
TIME_SLACK = 1e-10
# Distance between two times, relative to them, up to which they count as equal.
TIME_ROUNDING = 8.0 * float(np.finfo(float).eps)
MOST_REJECTIONS = 60  # Rejections in a row after which a run is given up.
STEP_ROUNDING = 16.0 * float(np.finfo(float).eps)  # Size of a step, relative to the time, that changes it.

FALL = 10.0  # Factor between the step sizes at which times of an approach are remembered.
# Least number of accepted steps between two such times: fewer are a drop into a fast transient.
LEAST_FALLING_STEPS = 3.0
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
EPS = float(np.finfo(float).eps)


class StepSizes(ctypes.Structure):
    """What the size of the next step depends on: a PI controller with limits, and times to be met."""

    # K. Gustafsson, Control-theoretic techniques for stepsize selection in implicit Runge-Kutta methods, ACM
    # Trans. Math. Softw. 20 (1994) 496; E. Hairer, G. Wanner, Solving Ordinary Differential Equations II
    # (1996), eq. (IV.8.25); K. Gustafsson, G. Soderlind, Control strategies for the iterative solution of
    # nonlinear equations in ODE solvers, SIAM J. Sci. Comput. 18 (1997) 23.

    _fields_ = fields(
        ctypes.c_double,
        # Of the last accepted step; errors at the end and between the nodes of one that was rejected.
        "last_dt last_error plain_error error_before between_before",
        "limit relief rejections rough",  # of the size after failed iterations, and steps that are wary
        "wanted most target meets halved missed",  # the next size, its bound, and the time to be met
        "costly overshot",  # 1 where new factors are costly, and where the error has been too large there
        # Steps that shrink with the time left to a point: see :func:`approached`.
        "rtol next least falling begin slope times first second third",
    )

    def __init__(self, rtol: float = 1e-6) -> None:
        super().__init__()
        self.rtol, self.most, self.target = rtol, np.inf, np.inf
        self.restart()

    def restart(self) -> None:
        """Begin as at the start of a run."""
        self.plain_error, self.relief, self.rejections, self.rough = np.inf, LIMIT_GROWTH, 0.0, 0.0
        self.error_before, self.between_before, self.costly, self.overshot = np.inf, np.inf, 0.0, 0.0
        self.forget()
        self.forget_approach()

    def forget(self) -> None:
        """Forget the sizes and errors of the steps so far."""
        self.limit, self.last_dt, self.last_error = np.inf, 0.0, 0.0

    def forget_approach(self) -> None:
        """Forget the times by which steps may approach a point."""
        self.next = self.least = np.inf
        self.falling, self.begin, self.slope, self.times = 0.0, np.nan, 0.0, 0.0

    def take(self, outcome: Outcome, dt: float) -> tuple[bool, float]:
        """Accept or reject a step, and choose the size of the next or of its repetition."""
        about = float(outcome.order), outcome.slack, outcome.effort, outcome.rate, outcome.between
        self.costly = outcome.costly
        return next_size(self, outcome, outcome.solved, outcome.error, *about, dt), self.wanted

    def get_state(self) -> Vector:
        """State on which later calls depend, for a checkpoint, shape (any,)."""
        memory: Any = self
        return np.frombuffer(memory, dtype=np.float64).copy()

    def set_state(self, kept: Any) -> None:
        """Restore what :meth:`get_state` gave."""
        memory: Any = self
        np.frombuffer(memory, dtype=np.float64)[:] = kept

    def __deepcopy__(self, memo: Any) -> Self:
        return type(self).from_buffer_copy(self)


def next_size(x: Any, w: Any, solved: Any, error: Any, *about: Any) -> Any:
    """Whether a step is accepted; the size of the next or of its repetition is ``wanted`` then."""
    order, slack, effort, rate, between, dt = about
    if not solved:
        x.rejections += 1.0
        # The contraction of simplified Newton iterations grows with the step.
        slower = WANTED_CONTRACTION / rate if rate > 0.0 else 0.5
        x.wanted = dt * (min(0.7, max(0.1, slower)) if x.last_dt > 0.0 else 0.1)
        x.limit, x.relief, x.rough = x.wanted, LIMIT_GROWTH, WARY_STEPS
        return False
    plain = error
    error = max(error, 1e-10)
    expected = x.plain_error * (dt / x.last_dt) ** order if x.last_dt > 0.0 else np.inf
    if error > KINK_RATIO * expected or (error > 1.0 and x.plain_error < SMOOTH_ERROR):
        x.rough = WARY_STEPS
    if x.rough > 0.0 and plain <= NOT_REDUCED * x.error_before:
        # Rounding does not fall with the step: it is no kink, and need not meet the tolerance of the user.
        in_doubt = slack > 1.0 and LEAST_STEP_ERROR < slack * error and error <= 1.0
        error = max(error, slack * (min(error, w.beyond_rounding()) if in_doubt else error))
    if between <= NOT_REDUCED * x.between_before or x.rejections < UNEVEN_REPETITIONS:
        error = max(error, between)
    if not error <= 1.0:
        x.rejections += 1.0
        x.overshot = max(x.overshot, x.costly)
        x.error_before = plain
        if between > 0.0:
            x.between_before = between
        if not error < np.inf or (x.last_dt == 0.0 and x.rejections <= 1.0):
            x.wanted = dt * 0.1
        else:
            x.wanted = dt * min(SAFETY, max(SMALLEST_FACTOR, SAFETY * error ** (-1.0 / order)))
        return False
    safety = SAFETY * min(1.0, 2.1 / (2.0 + effort))
    factor = safety * error ** (-1.0 / order)
    if x.last_dt > 0.0:
        factor = min(factor, safety * (dt / x.last_dt) * (x.last_error / (error * error)) ** (1.0 / order))
    if rate > 0.0:
        factor = min(factor, max(1.0, WANTED_CONTRACTION / rate))
    factor = min(LARGEST_FACTOR, max(SMALLEST_FACTOR, factor))
    if x.rejections > 0.0:
        factor = min(factor, 1.0)
    x.rejections, x.error_before, x.between_before = 0.0, np.inf, np.inf
    x.rough = max(0.0, x.rough - 1.0)
    x.last_dt, x.last_error = dt, max(LEAST_STEP_ERROR, error)
    x.plain_error = max(LEAST_FORETOLD_ERROR, plain)
    x.limit *= x.relief
    x.relief *= LIMIT_GROWTH
    x.wanted = min(dt * factor, x.limit)
    kept = KEPT_GROWTH_OF_COSTLY if x.costly > 0.0 and rate <= KEPT_FACTORS_CONTRACTION else KEPT_GROWTH
    if x.overshot > 0.0 and x.wanted > kept * dt:
        x.wanted *= GROWTH_AFTER_OVERSHOOT
    if dt <= x.wanted and x.wanted <= kept * dt:
        x.wanted = dt
    return True


def clipped(x: Any, time: Any) -> Any:
    """The step wanted, or the one that leads to the next time to be met in one or two steps."""
    wanted, left = min(x.wanted, x.most), x.target - time
    # The second of two equal steps is as good as the first; halves of halves would never get there.
    meets = wanted >= left * (1.0 - TIME_SLACK) or (x.halved > 0.0 and wanted > 0.5 * left)
    halved = not meets and wanted > 0.5 * left
    x.meets, x.halved = 1.0 if meets else 0.0, 1.0 if halved else 0.0
    if meets and x.missed > 0.0:
        # A function of time may have changed its value at the very time that is to be met.
        left -= 0.5 * TIME_ROUNDING * abs(x.target)
    return left if meets else 0.5 * left if halved else wanted


def time_slack(dt: Any, time: Any) -> Any:
    """Distance up to which the end of a step of size ``dt`` and another time count as equal."""
    return TIME_SLACK * dt + TIME_ROUNDING * abs(time)


def end_of_step(x: Any, time: Any, dt: Any) -> Any:
    """The time that an accepted step has come to: where it meets one, that."""
    end = time + dt
    # An event may have ended the step just there.
    meets = x.meets > 0.0 or abs(end - x.target) <= time_slack(dt, end)
    return x.target if meets else end


def approached(x: Any, w: Any, time: Any, dt: Any) -> Any:
    """The time that accepted steps approach in proportion to the time left to it, or NaN."""
    # The sum of such steps converges, so that a run never gets there, unless a step passes the point by
    # chance: at a pole, or at a root of a solution under a fractional power. The largest u' of a differential
    # unknown at the end of the step, relative to its size, is w.end_slope().
    x.falling += 1.0
    if dt > RECOVERY_OF_STEPS * FALL * x.least or x.times == 0.0:
        begin_approach(x, time, dt, w.end_slope())
    x.least = min(x.least, dt)
    if dt > x.next:
        return np.nan
    if x.falling < LEAST_FALLING_STEPS:
        begin_approach(x, time, dt, w.end_slope())
        return np.nan
    x.next, x.falling, x.times = dt / FALL, 0.0, x.times + 1.0
    x.first, x.second, x.third = x.second, x.third, time
    if x.times < 3.0:
        return np.nan
    before, last = x.second - x.first, x.third - x.second
    if not (LEAST_RATIO * before < last <= MOST_RATIO * before):
        return np.nan
    left = last * last / (before - last)
    elapsed, rounding = time - x.begin, EPS * abs(time)
    unresolved = rounding > x.rtol * left and rounding * w.end_slope() > x.rtol
    if left > (UNRESOLVED_NEARNESS if unresolved else NEARNESS) * elapsed:
        return np.nan
    least = x.rtol / elapsed
    if x.slope < np.inf:
        least = max(x.slope, least)
    return time + left if w.end_slope() > GROWTH_OF_SLOPE * least else np.nan


def begin_approach(x: Any, time: Any, dt: Any, slope: Any) -> Any:
    """Remember the time at which steps may begin to fall."""
    x.times, x.third, x.begin, x.falling, x.slope = 1.0, time, time, 0.0, slope
    x.least, x.next = dt, dt / FALL


FULL, BEGINNING, UNFINISHED, REACHED = range(4)
"""How steps end: without memory for more; with one to be begun, or to be judged; at a time to be met."""

FIRST_AHEAD = 500  # Steps, times unknowns, of the first call, whose time is not known yet.
LONGEST_CALL = 0.05  # Seconds that a call may take.
POOL_BYTES = 1 << 21  # Largest memory of the stages of steps, with the next step's at least.
# Contraction of Newton's method above which it, and not the error alone, limits the step size.
CRAWLING_CONTRACTION = 0.3
MOST_STEPS = 256  # Largest number of steps in one memory.
# Repetitions of a step after which all stages are solved with a Jacobian of their own.
REPETITIONS = 3
# Steps that Newton's method could not solve, less ``RECOVERY`` for each that it could, from which on fewer
# nodes are tried.
FAILURES_OF_ALL_NODES = 3.0
# Failures that are forgotten with every solved step of the full number of nodes: with one, those that a
# shorter step cures each time, as in front of a jump, do not add up.
RECOVERY = 1.0


def first_step(w: Any, t0: Any, span: Any) -> Any:
    """A size for the first step of an interval, with the rate at which the solution changes there."""
    # u may change in it by half the geometric mean of its size and of its tolerance. In a smaller step
    # multipliers of index 3 would be lost in round-off.
    w.begin_start()
    longest, change, rate = 0.01 * span, 0.5 / np.sqrt(w.rtol), 0.0
    step = longest
    for _ in range(FIRST_STEP_TRIALS):
        tried, seen = step, slope_at_start(w, t0, step)
        if seen < np.inf:
            rate = 2.0 * w.rtol * seen  # weights are those of u itself and of its size so far
        step = 0.01 * tried if seen == np.inf else min(longest, change / max(seen, change / longest))
        # u' by an implicit step depends on the step size, because a large step damps fast transients.
        if step > 0.1 * tried:
            break
    if w.highest > 0:
        # Unknowns of a higher index, whose u' does not enter the equations, follow from changes of the
        # others, and are lost in round-off if these change too little: the step is enlarged as long as
        # changes grow with it.
        change, smallest = 2.0 * w.rtol * slope_at_start(w, t0, step) * step, VISIBLE_CHANGE * EPS
        wanted = (FIRST_STEP_CHANGE * EPS / w.rtol) ** (1.0 / w.highest)
        while step < 0.25 * span and smallest < change < wanted:
            longer = min(4.0 * step, 0.25 * span)
            before, change = change, 2.0 * w.rtol * slope_at_start(w, t0, longer) * longer
            if change < 2.0 * before:
                break  # the change does not come from u'
            step = longer
    # Where constraints change with time, an implicit step does not show u', and the rate is too small.
    w.rate = max(rate, CHANGES_IN_INTERVAL / span)
    return step


def slope_at_start(w: Any, t0: Any, h: Any) -> Any:
    """Weighted norm of u' at the start by an implicit step of size h, whose matrices are not kept."""
    w.forget()
    seen = w.slope(t0, h)
    w.forget()
    return seen


def take_steps(w: Any, x: Any) -> Any:
    """Take steps with stages ``w`` and sizes ``x`` until one is not plain; how they have ended."""
    run = w.run
    while w.taken < w.room:
        if run.dt <= shortest(run, run.dt):
            return BEGINNING
        certain = w.solved_ahead(run.time, run.dt)
        if run.status != SOLVED:
            if not failed_ahead(w, x, run.dt):
                w.restore_sizes()
                return UNFINISHED
        elif not certain:
            return UNFINISHED
        elif w.numbers.error <= 1.0:
            if not accepted_ahead(w, x, run.time, run.dt):
                w.restore_sizes()
                return UNFINISHED
            if run.time >= x.target:
                return REACHED
        elif not rejected_ahead(w, x, run.time, run.dt):
            w.restore_sizes()
            return UNFINISHED
        run.dt = clipped(x, run.time)
    return FULL


def take_plain_steps(w: Any) -> Any:
    """Take steps of one size with stages ``w`` until one is not solved; how they have ended."""
    run = w.run
    while w.taken < w.room:
        w.begin_step()
        w.continue_stages(run.time, run.dt)
        run.status = w.solve_and_judge(run.time, run.dt, 1, False, False)
        if run.status != SOLVED:
            return UNFINISHED
        w.end_step(run.time, run.dt)
        run.time += run.dt
    return FULL


def shortest(run: Any, h: Any) -> Any:
    """The size of a step up to which it hardly changes the time."""
    return max(STEP_ROUNDING * max(abs(run.time), abs(run.time + h)), run.shortest)


def accepted_ahead(w: Any, x: Any, time: Any, h: Any) -> Any:
    """Accept a step whose error is small enough at its nodes; False where it is not, or one has to look."""
    run, numbers = w.run, w.numbers
    error = numbers.error
    if numbers.at_end > numbers.allowed_at_end or not numbers.defect <= numbers.allowed_defect:
        return False
    if run.late > 0.0 and numbers.at_end > 0.0 and run.repeated == 0.0:
        error = max(error, min(1.0, HELD_PART * h * w.rate) * w.late_error())
        if not error <= 1.0:
            return False
    between = w.error_between() if run.between > 0.0 else 0.0
    if between > 1.0 or not decided(w, x, True, error, between, h):
        return False
    if not np.isnan(approached(x, w, time, h)):
        return False
    count_solved(w)
    w.end_step(time, x.target - time if x.meets > 0.0 and x.missed > 0.0 else h)
    run.time, run.longest = end_of_step(x, time, h), max(run.longest, h)
    run.repeated, run.first = 0.0, 0.0
    return True


def rejected_ahead(w: Any, x: Any, time: Any, h: Any) -> Any:
    """Reject a step whose error is too large; False where no smaller one is left."""
    run = w.run
    if h < run.hesitant * run.longest:
        return False
    w.forget_contraction()
    decided(w, x, True, w.numbers.error, 0.0, h)
    if not repeats(x, run, h):
        return False
    count_solved(w)
    return True


def failed_ahead(w: Any, x: Any, h: Any) -> Any:
    """Reject a step that Newton's method has not solved; False where that is to be looked at."""
    run, undefined = w.run, w.run.status == UNDEFINED
    if w.in_turn or run.status == LEFT_TO_PYTHON or (undefined and w.numbers.linearized == 0.0):
        return False
    if w.linearize != 0 and w.swept == 0:  # differences may be improved
        return False
    if not (undefined or run.status == SINGULAR) and run.repeated >= REPETITIONS:
        return False
    if h < run.hesitant * run.longest or run.in_a_row >= run.most_in_a_row:
        return False
    if run.failures + 1.0 >= FAILURES_OF_ALL_NODES:
        return False
    if run.first > 0.0 and run.forgets > 0.0:
        w.forget()
    decided(w, x, False, np.inf, 0.0, h)
    if not repeats(x, run, h):
        return False
    run.failures += 1.0
    run.in_a_row += 1.0
    run.failed += 1.0
    return True


def repeats(x: Any, run: Any, h: Any) -> Any:
    """Let a step be repeated; False where no smaller one is left."""
    if x.wanted <= shortest(run, h) or x.rejections > MOST_REJECTIONS:
        return False
    x.halved, x.missed = 0.0, max(x.missed, x.meets)
    run.repeated += 1.0
    run.rejected += 1.0
    return True


def decided(w: Any, x: Any, solved: Any, error: Any, between: Any, h: Any) -> Any:
    """Whether a step is accepted by its errors, with the next size in ``x``."""
    run, x.costly = w.run, w.numbers.costly
    effort = run.told * w.numbers.iterations / MOST_NEWTON_ITERATIONS
    about = run.order, run.slack, effort, run.told * w.numbers.rate, between, h
    return next_size(x, w, solved, error, *about)


def count_solved(w: Any) -> None:
    """Count a step that was accepted or rejected here: the controller counts what is left to it."""
    w.run.solved += 1.0
    w.run.failures, w.run.in_a_row = max(0.0, w.run.failures - RECOVERY), 0.0
    if w.numbers.rate > CRAWLING_CONTRACTION:
        w.run.crawled += 1.0


OF_STEPS = "starts", "sizes", "counts", "du", "sweeps", "residuals"  # What there is for each of some steps.


class Taken(NamedTuple):
    """Steps that were taken ahead: how they have ended, and what is kept of each of the K steps."""

    status: int
    time: float  # The time that they have come to.
    value: MeshDAE  # The state there.
    next_dt: float  # The size of the step that follows.
    starts: Vector  # Shape (K,). Their starts.
    sizes: Vector  # Shape (K,).
    rejected: int  # Number of steps that were rejected.
    counts: Vector  # Shape (K, 5). Work by :data:`~dae_sdc.dae.memory.COUNTERS`.
    u: Vector  # Shape (K M + 1, n). The start, and the stages of all steps in order.
    du: Vector  # Shape (K, M, n).
    nodes: tuple[float, ...]
    collocation: bool  # Whether a step leaves the polynomial of its stages behind.
    slope: Vector | None  # Shape (n,). u' at the start, None where it is not known.
    sweeps: Vector  # Shape (K,). Sweeps of each.
    residuals: Vector  # Shape (K,). What is left of the equations of each, 0 where it is not known.
    n_integrated: int  # Number of leading unknowns whose u' the stages have.
    past: StepPolynomial | None  # The values up to the start that a multistep method continues.
    interior: bool  # Whether a step leaves the values at its nodes behind, with u' at its end alone.

    def first(self, count: int) -> Taken:
        """The first of the steps, without how they have ended."""
        rows = {name: getattr(self, name)[:count] for name in OF_STEPS}
        return self._replace(u=self.u[: count * len(self.nodes) + 1], **rows)

    def _polynomial(self, k: int) -> StepPolynomial:
        m, (time, dt) = len(self.nodes), (float(self.starts[k]), float(self.sizes[k]))
        u = self.u[k * m + 1 : (k + 1) * m + 1]
        if self.past is not None:
            count = len(self.past.nodes)
            u = np.vstack([self.past.value[k + 1 :], self.u[max(1, k + 2 - count) : k + 2]])
            du = np.vstack([self.past.derivative[k + 1 :], self.du[max(0, k + 1 - count) : k + 1, 0]])
            return self.past._replace(time=time, value=u, derivative=du)
        return StepPolynomial(time, dt, self.nodes, u, self.du[k], self.n_integrated)

    def end(self, k: int, n_diff: int) -> MeshDAE:
        """The state at the end of a step, with its polynomial."""
        whole = self._polynomial(k)
        state = attach(whole.value[-1].copy(), n_diff)
        if self.interior:
            state.polynomial = EndWithInterior(whole.derivative[-1], self.nodes[:-1], whole.value[:-1])
            return state
        keeps = self.collocation or self.past is not None
        state.polynomial = whole if keeps else EndDerivative(whole.derivative[-1])
        return state

    def slopes_at_end(self) -> Vector:
        """u' at the ends of the steps, shape (K, n), new rows."""
        if self.n_integrated == self.u.shape[1]:
            return self.du[:, -1].copy()
        return np.array([self._polynomial(k).derivative_at_end() for k in range(len(self.starts))])


Look = Callable[[MeshDAE, Taken], int]  # From a state and steps that were taken from it those to be kept.


class StepsAhead:
    """Takes steps ahead with the compiled stages of a method, into memory of their own."""

    def __init__(self, together: Any, watch: Any, problem: Any) -> None:
        self.together, self._watch, self._problem = together, watch, problem
        self._method: Any = None
        # Interrupts and limits of time wait for the end of a call, which has a number of steps therefore.
        self._before, self._most = StepSizes(), max(1, FIRST_AHEAD // problem.n)

    def __reduce__(self) -> Any:
        return type(self), (self.together, self._watch, self._problem)

    @property
    def method(self) -> Any:
        """The method whose steps can be taken ahead; None where it is not the one in use."""
        return getattr(self.together, "plain", self.together)

    def starts_from(self, value: MeshDAE) -> bool:
        """Whether steps can be taken ahead from a state."""
        method = self.method
        goes = None if method is None else getattr(method.stages, "goes_ahead", None)
        if goes is None or not goes(value):
            return False
        if method is not self._method:
            self._method, m, n = method, method.stages.rows, method.stages.n
            self._capacity = max(1, min(MOST_STEPS, POOL_BYTES // (16 * m * n)))
            # Of each step start and size, what was counted, its sweeps, and what is left of the equations.
            self._rows = np.empty((self._capacity, 4 + len(COUNTERS)))
            graded = method.weights is not None and bool(method.weights.exponents.any())
            self._estimates = np.empty((self._capacity if graded else 0, n))
            self._u, self._du = np.empty((0, n)), np.empty((0, m, n))
            self._used = self._row = 0
        return True

    def _place(self, value: MeshDAE, m: int) -> tuple[int, int]:
        """Where the next step is kept, and the row with its start, which may be the end of the last one."""
        u, du, past = value.view(np.ndarray)[None], self._du[:0], value.polynomial
        if self._method.stages.past:
            u, du = past.value, past.derivative[:, None]
        before, slopes = self._u[: self._row + 1][-len(u) :], self._du[: self._used][self._used - len(du) :]
        if not (np.array_equal(before, u) and np.array_equal(slopes, du)):
            self._row, self._used = self._row + len(u), self._used + len(du)
        if self._used >= len(self._du) or self._row + m >= len(self._u):
            self._u = np.empty((self._capacity * m + len(u), len(value)))
            self._du = np.empty((self._capacity + len(du), m, len(value)))
            self._used, self._row = len(du), len(u) - 1
        self._u[self._row + 1 - len(u) : self._row + 1] = u
        self._du[self._used - len(du) : self._used] = du
        return self._used, self._row

    def take(
        self, value: MeshDAE, time: float, dt: float, most: int, look: Look | None, *judged: Any
    ) -> Taken:
        """Take at most so many steps from a state: of one size, or of sizes by which they are ``judged``."""
        # These are of ``judged`` the :class:`StepSizes`; the others are those of ``_judge``. Where only the
        # first steps are to be kept, as ``look`` says of steps that were taken, the others are as if they had
        # not been.
        method, began = self._method, perf_counter()
        stages, weights, m = method.stages, method.weights, method.stages.rows
        first, row = self._place(value, m)
        stages.run.time, stages.run.dt, stages.run.rejected = time, dt, 0.0
        sizes = judged[0] if judged else self._before
        if judged:
            self._judge(time, value.polynomial is not None, *judged[1:])
            known = weights.scales.unknowns.copy()
        arrays = {"run_u": self._u[row + 1 :], "run_du": self._du[first:], "work_rows": self._rows}
        numbers = {"step_sizes": ctypes.addressof(sizes), "sizes_before": ctypes.addressof(self._before)}
        room = min(self._most, most, len(self._du) - first, (len(self._u) - 1 - row) // m)
        about = arrays | {"estimates": self._estimates}, numbers | {"graded": int(len(self._estimates) > 0)}
        swept = not judged and stages.swept_by is not None
        states = (weights.scales, sizes) if judged and look is not None else ()
        kept = None
        if look is not None or swept:
            kept = stages.get_run(), *(one.get_state() for one in states)
        status, k = stages.take_steps(value, weights, *about, room)
        taken = self._taken(value, status, k, first, row)
        plain = k if look is None or not k else look(value, taken)
        # A step that is not swept to its tolerance is left to the controller as if it had not been begun.
        if kept is not None and (plain < k or (swept and status == UNFINISHED)):
            stages.set_run(kept[0])
            for one, state in zip(states, kept[1:], strict=True):
                one.set_state(state)
            status, k = stages.take_steps(value, weights, *about, plain)
            taken = self._taken(value, status, k, first, row)
        self._used, self._row = first + k, row + k * m
        if judged:
            self._see(value, taken, known)
        if status == UNFINISHED:
            stages.u, stages.du = self._u[self._row + 1 :][:m], self._du[self._used]
            self._used, self._row = self._used + 1, self._row + m
        self._count(stages.counts, self._rows[k, 2:-2] if status == UNFINISHED else None)
        wanted = LONGEST_CALL * max(k, 1) / max(perf_counter() - began, 1e-9)
        self._most = max(1, min(4 * max(1, k, self._most), int(wanted)))
        return taken

    def _count(self, counts: Any, step: Vector | None) -> None:
        """Add the work that is not of the step that has begun, whose row has it with the other sign."""
        if step is None:
            counts.add_to(self._problem)
            return
        now: Any = np.frombuffer(counts, dtype=np.int64)
        all_of_it = now.copy()
        now[:] = -step
        counts.add_to(self._problem)
        now[:] = all_of_it + step.astype(np.int64)

    def _judge(self, time: float, continued: bool, shortest: float, between: Any, hesitation: Any) -> None:
        """Tell how steps from a time are judged; errors ``between`` nodes count by weights, for a mask."""
        method, stages = self._method, self._method.stages
        run: Any = stages.run
        run.shortest, run.slack, run.order, run.told = shortest, method.slack, method.order, method.told
        run.solved, run.crawled, run.failed = 0.0, 0.0, 0.0
        run.failures, run.in_a_row = self.together.failures, self._watch.in_a_row
        run.most_in_a_row = self._watch.most_in_a_row
        run.repeated = self.together.repetition(time)
        run.first, run.forgets = 0 if continued else method.first, method.forgets_first
        run.hesitant, run.longest = hesitation
        run.noisy = method.noisy * method.weights.scales.time
        method.forget_errors(time)
        run.between = float(stages.judge_by("between_", *between) and stages.spread > 2)
        run.late = float(stages.judge_by("late_", method.late, stages.multipliers))

    def _see(self, value: MeshDAE, taken: Taken, known: Vector) -> None:
        """Take note of judged steps: errors that are let go, by the sizes ``known`` before, and attempts."""
        method, stages = self._method, self._method.stages
        scales, rows, u, m = method.weights.scales, self._rows[: len(taken.starts)], taken.u, stages.rows
        some = slice(int(value.polynomial is None), len(rows))  # the error of a first step is not told
        if len(rows[some]) and len(self._estimates) and stages.in_turn:
            method.weights.see(self._estimates[some])
        elif len(rows[some]) and len(self._estimates):
            before = np.array([getattr(value.polynomial, "dt", rows[0, 1]), *rows[:-1, 1]])
            growth = rows[some, 1:2] / before[some, None]
            if scales.running and method.weights.lets_go:  # with the values at the starts of the steps so far
                known = np.maximum.accumulate(np.vstack([known, np.abs(u[:-1:m])]))[1:][some]
            method.weights.see(self._estimates[some], u[m::m][some], m, growth, known)
        run = stages.run
        self._watch.went_ahead(int(run.solved), int(run.crawled), int(run.failed), int(run.in_a_row))
        looks = int(run.solved), int(run.repeated), float(run.failures)
        self.together.went_ahead(float(run.time), *looks)

    def _taken(self, value: MeshDAE, status: int, k: int, first: int, row: int) -> Taken:
        """The k steps in memory from a place on, from a state."""
        stages = self._method.stages
        run, rows = stages.run, self._rows[:k].copy()
        taken = Taken(
            status=status,
            time=float(run.time),
            value=value,
            next_dt=float(run.dt),
            starts=rows[:, 0],
            sizes=rows[:, 1],
            rejected=int(run.rejected),
            counts=rows[:, 2:-2],
            u=self._u[row : row + k * stages.rows + 1],
            du=self._du[first : first + k],
            nodes=stages.nodes,
            collocation=not stages.in_turn,
            slope=None if value.polynomial is None else value.polynomial.derivative_at_end(),
            sweeps=rows[:, -2],
            residuals=rows[:, -1],
            n_integrated=stages.n_integrated,
            past=value.polynomial if stages.past else None,
            interior=stages.interior,
        )
        return taken._replace(value=taken.end(k - 1, self._problem.n_diff)) if k else taken
