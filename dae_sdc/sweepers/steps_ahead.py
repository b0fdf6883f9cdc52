"""Steps that are taken one after the other in one call, with the decisions of the controller.

They are the plain ones: solved without doubt, accepted, between two times that are to be met. The step with
which something else happens is left to the controller, from its begin or from where its stages are solved.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.state import MeshDAE, StepPolynomial, Vector, attach
from dae_sdc.sweepers.simultaneous import (
    GROWN_STEP,
    HELD_PART,
    MOST_NEWTON_ITERATIONS,
    SMALL_STEP_ERROR,
    SOLVED,
)
from dae_sdc.sweepers.step_sizes import (
    MOST_REJECTIONS,
    STEP_ROUNDING,
    StepSizes,
    approached,
    clipped,
    end_of_step,
    next_size,
)

FULL, BEGINNING, UNFINISHED, REACHED = range(4)
"""How steps end: without memory for more; with one to be begun, or to be judged; at a time to be met."""

POOL_BYTES = 1 << 21  # Largest memory of the stages of steps, with the next step's at least.
# Contraction of Newton's method above which it, and not the error alone, limits the step size.
CRAWLING_CONTRACTION = 0.3
MOST_STEPS = 256  # Largest number of steps in one memory.


def take_steps(w: Any, x: Any) -> Any:
    """Take steps with stages ``w`` and sizes ``x`` until one is not plain; how they have ended."""
    run = w.run
    while w.taken < w.room:
        if run.dt <= shortest(run, run.dt):
            return BEGINNING
        if not solved_ahead(w, run.time, run.dt):
            return UNFINISHED
        if w.numbers.error <= 1.0:
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


def shortest(run: Any, h: Any) -> Any:
    """The size of a step up to which it hardly changes the time."""
    return max(STEP_ROUNDING * max(abs(run.time), abs(run.time + h)), run.shortest)


def solved_ahead(w: Any, time: Any, h: Any) -> Any:
    """Solve and judge a step; False where there is doubt."""
    run, numbers = w.run, w.numbers
    w.begin_step()
    w.continue_stages(time, h)
    w.weigh(h, True)
    again = run.repeated > 0.0
    looks = again or h > GROWN_STEP * w.step_before
    run.status = w.solve_and_judge(time, h, 0, False, looks)
    if run.status != SOLVED or numbers.judged == 0.0:
        return False
    if numbers.error >= 1.0 and (w.weigh_within(h) or again):
        w.judge(time, h, 0, again, looks)
    error = numbers.error
    if SMALL_STEP_ERROR < error and h < min(w.step_before, run.noisy):
        return False
    return not np.isnan(error)


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
    if not decided(w, x, error, between, h) or not np.isnan(approached(x, w, time, h)):
        return False
    count_solved(w)
    w.end_step(time, x.target - time if x.meets > 0.0 and x.missed > 0.0 else h)
    run.time, run.repeated, run.longest = end_of_step(x, time, h), 0.0, max(run.longest, h)
    return True


def rejected_ahead(w: Any, x: Any, time: Any, h: Any) -> Any:
    """Reject a step whose error is too large; False where no smaller one is left."""
    run = w.run
    if h < run.hesitant * run.longest:
        return False
    decided(w, x, w.numbers.error, 0.0, h)
    if x.wanted <= shortest(run, h) or x.rejections > MOST_REJECTIONS:
        return False
    count_solved(w)
    x.halved, x.missed = 0.0, max(x.missed, x.meets)
    run.repeated += 1.0
    run.rejected += 1.0
    return True


def decided(w: Any, x: Any, error: Any, between: Any, h: Any) -> Any:
    """Whether a solved step is accepted by its errors, with the next size in ``x``."""
    effort = w.numbers.iterations / MOST_NEWTON_ITERATIONS
    return next_size(x, True, error, w.m + 1.0, w.run.slack, effort, w.numbers.rate, between, h)


def count_solved(w: Any) -> None:
    """Count a step that was accepted or rejected here: the controller counts what is left to it."""
    w.run.solved += 1.0
    if w.numbers.rate > CRAWLING_CONTRACTION:
        w.run.crawled += 1.0


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

    def first(self, count: int) -> Taken:
        """The first of the steps, without how they have ended."""
        rows = {name: getattr(self, name)[:count] for name in ("starts", "sizes", "counts", "du")}
        return self._replace(u=self.u[: count * len(self.nodes) + 1], **rows)

    def end(self, k: int, n_diff: int) -> MeshDAE:
        """The state at the end of a step, with its polynomial."""
        m, (time, dt) = len(self.nodes), (float(self.starts[k]), float(self.sizes[k]))
        u, du = self.u[k * m + 1 : (k + 1) * m + 1], self.du[k]
        state = attach(u[-1].copy(), n_diff)
        state.polynomial = StepPolynomial(time, dt, self.nodes, u, du, u.shape[1])
        return state


class StepsAhead:
    """Takes steps ahead with the compiled stages of a method, into memory of their own."""

    def __init__(self, together: Any, watch: Any, problem: Any) -> None:
        self._together, self._watch, self._problem = together, watch, problem
        self._method: Any = None
        self._before = StepSizes()

    def starts_from(self, value: MeshDAE) -> bool:
        """Whether steps can be taken ahead from a state."""
        method = self._together.plain
        goes = None if method is None else getattr(method.stages, "goes_ahead", None)
        if goes is None or not goes(value):
            return False
        if method is not self._method:
            self._method, m, n = method, method.stages.m, method.stages.n
            self._capacity = max(1, min(MOST_STEPS, POOL_BYTES // (16 * m * n)))
            self._rows = np.empty((self._capacity, 2 + len(COUNTERS)))
            graded = bool(method.weights.exponents.any())
            self._estimates = np.empty((self._capacity if graded else 0, n))
            self._u, self._du = np.empty((0, n)), np.empty((0, m, n))
            self._used = self._row = 0
        return True

    def _place(self, value: MeshDAE, m: int) -> tuple[int, int]:
        """Where the next step is kept, and the row with its start, which may be the end of the last one."""
        if self._row and not np.array_equal(self._u[self._row], value):
            self._row += 1
        if self._used == len(self._du) or self._row + m >= len(self._u):
            self._u = np.empty((self._capacity * m + 1, len(value)))
            self._du = np.empty((self._capacity, m, len(value)))
            self._used = self._row = 0
        self._u[self._row] = value
        return self._used, self._row

    def take(
        self,
        value: MeshDAE,
        time: float,
        dt: float,
        most: int,
        sizes: StepSizes,
        shortest: float,
        between: tuple[Any, Any],
        hesitation: tuple[float, float],
    ) -> Taken:
        """Take at most so many steps from a state; errors ``between`` nodes count by weights, for a mask."""
        method = self._method
        stages = method.stages
        m, before = stages.m, value.polynomial.dt
        first, row = self._place(value, m)
        run: Any = stages.run
        run.time, run.dt, run.shortest, run.slack = time, dt, shortest, method.slack
        run.rejected, run.solved, run.crawled = 0.0, 0.0, 0.0
        run.repeated = self._together.repetition(time)
        run.hesitant, run.longest = hesitation
        run.noisy = method.noisy * method.weights.scales.time
        method.forget_errors(time)
        run.between = float(stages.judge_by("between_", *between) and m > 2)
        run.late = float(stages.judge_by("late_", method.late, stages.multipliers))
        arrays = {"run_u": self._u[row + 1 :], "run_du": self._du[first:], "rows": self._rows}
        arrays["estimates"] = self._estimates
        numbers = {"step_sizes": ctypes.addressof(sizes), "sizes_before": ctypes.addressof(self._before)}
        room = min(most, len(self._du) - first, (len(self._u) - 1 - row) // m)
        numbers |= {"graded": int(len(self._estimates) > 0), "room": room}
        status, k = stages.take_steps(value, method.weights, arrays, numbers)
        self._used, self._row = first + k, row + k * m
        rows, u = self._rows[:k].copy(), self._u[row : self._row + 1]
        if k and len(self._estimates):
            growth = rows[:, 1] / np.array([before, *rows[:-1, 1]])
            method.weights.see(self._estimates[:k], u[m::m], m, growth[:, None])
        if status == UNFINISHED:
            stages.u, stages.du = self._u[self._row + 1 :][:m], self._du[self._used]
            self._used, self._row = self._used + 1, self._row + m
        stages.count_before(self._rows[k, 2:] if status == UNFINISHED else None)
        if run.solved:
            self._watch.succeeded(int(run.crawled))
        self._together.went_ahead(float(run.time), int(run.solved), int(run.repeated))
        taken = Taken(
            status=status,
            time=float(run.time),
            value=value,
            next_dt=float(run.dt),
            starts=rows[:, 0],
            sizes=rows[:, 1],
            rejected=int(run.rejected),
            counts=rows[:, 2:],
            u=u,
            du=self._du[first : first + k],
            nodes=stages.nodes,
        )
        return taken._replace(value=taken.end(k - 1, self._problem.n_diff)) if k else taken
