"""Steps of a given accuracy in pySDC's controllers: sizes, rejections, ends, and what cannot be done."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from dae_sdc.control.driver import MarkingControl, StepRequests, driver_of
from dae_sdc.control.events import unknowns_looked_at
from dae_sdc.dae.consistency import begin_scales, remember, restore
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.newton import undetermined
from dae_sdc.dae.scales import Scales, measured_noise
from dae_sdc.dae.state import StepPolynomial, attach, unresolved
from dae_sdc.deadline import TimeLimit, current
from dae_sdc.errors import InputError, SolveError, StepSizeError
from dae_sdc.sharing import tell
from dae_sdc.sweepers import steps_ahead
from dae_sdc.sweepers.direct import DirectMethod, require_problem
from dae_sdc.sweepers.restart import jump_behind
from dae_sdc.sweepers.steps_ahead import StepSizes, Taken
from dae_sdc.sweepers.tolerance import TINY, Outcome, Tolerance, multipliers, rounding_noise
from dae_sdc.text import brief

FIRST_LOOK = 64  # Accepted steps after which the scales of a run are checked for the first time.
LOOKS_APART = 8  # Factor between the numbers of steps at two checks.
MOST_NAMED_UNKNOWNS = 3  # Largest number of unknowns that a message names.
# Shortest first step in units of the rounding of the time, so that it may still be rejected.
FIRST_STEP_ROUNDINGS = 100.0
# Shortest step in units of the interval: where time begins at 0 its rounding sets no limit.
SHORTEST_STEP = 1e-28
JUMP_RESTART_STEP = 1e-4  # First step, in units of the time left, after a jump of algebraic unknowns.
# Distance, in units of a step that failed, within which the equations have changed.
FAILED_STEPS = 10.0
# Violation of an equation by the state, relative to its terms, that is a jump of the equations and not what
# remains of a solution that ends or folds back.
LEAST_JUMP = 1e-4
LARGEST_MOVE = 1e-6  # Largest relative change of the state before such a jump is looked for.
LEAST_PROGRESS_OF_JUMPS = 1e-9  # Part of the interval between two such jumps that counts as progress.
# Error between the nodes of a step, in units of the tolerance, where values there are asked for: currents
# that follow from it by steep laws multiply it.
ALLOWED_BETWEEN = 1.0
# AT_INDEX_2, FINEST_BETWEEN: part of an error between the nodes that counts for unknowns of index 2, and the
# least rtol with which it does, as below that it is rounding divided by short steps.
AT_INDEX_2 = 0.1
FINEST_BETWEEN = 1e-8
SEEN = 1e-3  # Error between the nodes, relative to the size of an unknown, with which its course is seen.
# A run of so many steps whose pace, the time that a step has led on, is not twice what it was when they were
# half as many, and that needs more steps than MOST_STEPS_LEFT at this pace, does not come to its end.
STEPS_OF_PACE, FASTER, MOST_STEPS_LEFT = 20_000, 2.0, 1e10
# What is looked at between the nodes: functions, which are located without other steps, or values.
FUNCTIONS, VALUES = 1, 2

# Attributes of :class:`AdaptivityDAE` that change from step to step.
SAVED = tuple("_next _given _restarts _steps _look_at jumps _last_jump _pace".split())


class AdaptivityDAE(StepRequests, MarkingControl):
    """Accepts or repeats every step by the error that its sweeper estimates, and sets the next step size.

    In pySDC's own controllers it takes one step at a time on one level, and refuses the rest. There the
    sweeper gets its tolerance from ``rtol``, ``atol`` and ``leave_out``, and ``stops`` are the breakpoints of
    the problem if they are not given. Every parameter may stand in ``controller_params``, too.
    """

    order = 250  # behind pySDC's own check of convergence
    defaults: ClassVar = {
        "t_end": None,  # End of the run, which the last step meets.
        **{"rtol": None, "atol": None, "leave_out": ()},  # See dae_sdc.sweepers.tolerance.Tolerance.
        "stops": None,  # Times before the end at which steps must end: the equations have a kink or a jump.
        **{"dt_max": np.inf, "dt_first": None},  # Largest and first step.
        "between": 0,  # Whether functions or values are looked at between the nodes of steps.
        "read": False,  # Unknowns on which such functions depend, shape (n,).
        "time_limit": np.inf,  # Seconds after which the run is given up, besides those of the call.
    }

    def __init__(self, controller: Any, params: dict[str, Any], description: dict[str, Any]) -> None:
        super().__init__(controller, params, description)
        self._driver = driver_of(controller, description)
        self._leader = self._driver or controller
        if self._driver is not None:
            self._driver.adaptivity = self
        self.renew({})

    def renew(self, params: Mapping[str, Any]) -> None:
        """Be as new, with other parameters: for the next run of a controller."""
        for name, value in params.items():
            setattr(self.params, name, value)
        self.sizes: StepSizes
        self._targets = [*(self.params.stops or ()), self.params.t_end]
        self.remark, self.come_to = "", -np.inf
        self.jumps, self._last_jump = 0, -np.inf
        self._between: tuple[Any, Any] = None, None
        self.second_opinion: Callable[[AdaptivityDAE, Any, bool], bool] | None = None

    def setup(
        self, controller: Any, params: dict[str, Any], description: dict[str, Any], **kwargs: Any
    ) -> Any:
        """The parameters; those that are not given are taken from ``controller_params``."""
        given = description.get("convergence_controllers", {}).get(type(self), {})
        common = {name: value for name, value in vars(controller.params).items() if name in self.defaults}
        return {**super().setup(controller, params, description, **kwargs), **common, **given}

    def prepare(self, step: Any) -> None:
        """Let the sweeper of a step in a controller of pySDC work to the tolerance."""
        L, sweep, given = step.levels[0], step.levels[0].sweep, self.params
        for name in ("t_end", "rtol"):
            has_tolerance = name == "rtol" and getattr(sweep, "tolerance", None) is not None
            if getattr(given, name) is None and not has_tolerance:
                raise InputError(
                    f"AdaptivityDAE needs {name}: give it in its parameters, or in controller_params"
                )
        if given.rtol is not None:
            require_problem(sweep, L.prob)
            require_estimate(type(sweep), L.prob, sweep.coll.num_nodes)
            sweep.reset()
            sweep.tolerance = Tolerance.checked(L.prob, given.rtol, given.atol, given.leave_out)
        if isinstance(sweep, DirectMethod):
            step.params.maxiter = 0
        else:
            L.params.restol = 1.0  # in units of the tolerance

    def determine_restart(self, controller: Any, S: Any, **kwargs: Any) -> None:
        """Accept or reject a finished step."""
        if not S.status.done:
            return
        L = S.levels[0]
        nodes, outcome = getattr(L.sweep, "nodes", None), L.sweep.judge()
        if self._between[0] is not None and outcome.error <= 1.0:
            between = self._error_between(L)
            outcome = outcome._replace(between=between if nodes is None else nodes.from_last(between))
        sizes = self.sizes
        accepted, _ = sizes.take(outcome, L.dt)
        if not accepted and self.second_opinion is not None:
            accepted = self.second_opinion(self, L, outcome.solved)
        S.status.restart = not accepted or self._check_approach(L, outcome)
        if not accepted:
            sizes.halved, sizes.missed = 0.0, max(sizes.missed, sizes.meets)
        elif not S.status.restart:
            if sizes.meets and sizes.missed:
                L.params.dt = sizes.target - float(L.time)
                if isinstance(L.uend.polynomial, StepPolynomial):
                    L.uend.polynomial = L.uend.polynomial._replace(dt=L.params.dt)
            self.come_to = self.end_of_step(L)
        if not accepted or (not S.status.restart and self._leader.events is None):
            # An accepted step may have been shortened by a switch, with events.
            self._check_progress(S, L, outcome)
        self.check_limit(L, L.time)

    def _error_between(self, L: Any) -> float:
        """The largest error between the nodes of a step, in units of what is allowed; 0 if not known."""
        by_stages = getattr(L.sweep, "error_between", None)
        largest = None if by_stages is None else by_stages(*self._between)
        after, (weights, judged) = L.uend.polynomial, self._between
        small = largest is not None and largest <= 1.0
        if small or not isinstance(after, StepPolynomial) or after.nodes[0] == 0.0:
            return float(largest or 0.0)
        k = after.n_integrated if not judged[after.n_integrated :].any() else L.prob.n
        parts = unresolved(after.nodes, np.vstack([L.u[0], after.value])[:, :k])
        if (higher := multipliers(L.prob) & (judged > 0.0)).any():
            # What rounding of the equations makes of these unknowns grows with the inverse of the step.
            at_end = after.value[-1], after.derivative[-1], L.time + L.dt, L.dt / len(after.nodes)
            if (noise := rounding_noise(L.prob, *at_end, higher)) is not None:
                parts = np.maximum(parts - noise[:k], 0.0)
        parts *= weights.of_stages(after.value, L.dt)[:k]
        return float((judged[:k] * parts).max(initial=0.0))

    def _check_progress(self, S: Any, L: Any, outcome: Outcome) -> None:
        least = steps_ahead.shortest(SimpleNamespace(time=L.time, shortest=self._shortest), L.dt)
        # An accepted step of this size would leave the time where it is.
        size = self.sizes.wanted if S.status.restart else L.dt
        if size > least and self.sizes.rejections <= steps_ahead.MOST_REJECTIONS:
            return
        has_jumped, failure = self._jump(L, 0.0)
        if has_jumped:
            S.status.restart = True
            return
        name = L.prob.names[outcome.worst]
        why, tried = f"the error is largest in '{name}'", ""
        if failure:
            tried = f"the algebraic unknowns behind it were not found: {failure}; "
        if not outcome.solved:
            slope, singular = L.u[0].derivative(), "singular" in outcome.reason
            open_ = undetermined(L.prob, L.u[0], slope, L.time, L.dt) if singular else ""
            why = outcome.reason + (f": {open_}" if open_ else f" (largest change in '{name}')")
            if text := getattr(L.sweep, "tried", ""):
                tried += f"{text}; "
        raise StepSizeError(
            f"no step from t={L.time:.10g} succeeds, down to dt={L.dt:.2g}: {why}; "
            f"{tried}check the equations and the state there for a jump, a singularity or a hidden "
            f"constraint that is violated"
        )

    def _jump(self, L: Any, near: float) -> tuple[bool, str]:
        """Whether algebraic unknowns have jumped, ``near`` or sooner, and are found there; or why not."""
        if L.time - self._last_jump <= LEAST_PROGRESS_OF_JUMPS * self._span:
            return False, ""
        # The change may lie anywhere in the steps that have failed, and may be one of the state.
        reach = max(near, FAILED_STEPS * L.dt)
        ahead = max(reach, FIRST_STEP_ROUNDINGS * steps_ahead.TIME_ROUNDING * abs(L.time))
        u, before = type(L.u[0])(L.u[0]), L.u[0].polynomial
        if before is not None:
            slope = attach(before.derivative_at_end(), L.prob.n_diff)
            try:
                mass = linearize(L.prob, u, slope, L.time).mass
            except SolveError:  # towards where the equations are not defined
                return False, ""
            # Unknowns without a derivative may have moved already in the steps that came near.
            integrated = np.ravel(abs(mass).sum(axis=0)) > 0.0
            move = np.where(integrated, ahead * slope.view(np.ndarray), 0.0)
            sizes = np.maximum(np.abs(u), L.prob.run_scales.unknowns)
            if (np.abs(move) > LARGEST_MOVE * sizes).any():  # towards a pole, or along a fold
                return False, ""
            u += move
        h = JUMP_RESTART_STEP * (self.sizes.target - L.time)
        has_jumped, failure = jump_behind(L.prob, u, L.time + ahead, h, LEAST_JUMP)
        if has_jumped:
            L.u[0] = u
            self.jumps, self._last_jump = self.jumps + 1, float(L.time)
            # A step whose first node may lie before the change would fail again.
            self.sizes.restart()
            self._given = min(h, self.params.dt_max)
        return has_jumped, failure

    def _check_approach(self, L: Any, outcome: Outcome) -> bool:
        """Whether a step is to be repeated behind a jump that the steps approach but do not reach."""
        k, sizes = L.prob.n_diff, np.maximum(L.prob.run_scales.unknowns, TINY)
        slopes = L.uend.polynomial.derivative_at_end()[:k] / sizes[:k]
        end = SimpleNamespace(end_slope=lambda: float(np.abs(slopes).max(initial=0.0)))
        point = steps_ahead.approached(self.sizes, end, float(L.time), float(L.dt))
        if np.isnan(point):
            return False
        if self._jump(L, point - L.time)[0]:
            return True
        raise StepSizeError(
            f"the steps shrink in proportion to the time left to t={point:.10g}, down to dt={L.dt:.2g} at "
            f"t={L.time:.10g}, and do not get there: the error is largest in "
            f"'{L.prob.names[outcome.worst]}'; look there for a singularity of the solution or of the "
            f"equations, and end the run before it"
        )

    def begin(self, step: Any, t0: float, u0: Any, t_end: float | None = None) -> None:
        """Choose the first step of a run; with an end, of one whose unknowns have the sizes of the last."""
        L = step.levels[0]
        if t_end is not None:
            self.params.t_end, self._targets = t_end, [t_end]
        tolerance = L.sweep.tolerance
        if self._driver is not None:
            tolerance.check_start(L.prob, u0)
            if self.params.stops is None:
                events = () if self._driver.events is None else self._driver.events.params.events
                self._targets = [*stops_of(L.prob, t0, self.params.t_end, events), self.params.t_end]
        self.sizes = StepSizes(tolerance.rtol)
        self.sizes.most = self.params.dt_max
        self._given, self._restarts = None, False
        self._again, self._steps, self._look_at = False, 0, FIRST_LOOK
        self._pace = 0, t0, np.inf
        limit = self.params.time_limit
        self._limit: TimeLimit | None = TimeLimit.from_now(limit) if limit < np.inf else current()
        span = self._span = self.params.t_end - t0
        self.jumps, self._last_jump = 0, -np.inf
        # An absolute tolerance of the user may ask for any step.
        self._shortest = SHORTEST_STEP * span if tolerance.atol is None else 0.0
        self._next = bisect_right(self._targets, t0)
        self.sizes.target = self._targets[min(self._next, len(self._targets) - 1)]
        anew = t_end is None or not L.prob.run_scales.begun
        # A run with the same numbers has kept its sizes, and of dense equations its first step, else 0.
        key, before, kept = self.begins
        first = None if kept is None or t_end is not None else restore(L.prob, kept)
        if anew and first is None:
            self._begin_scales(L, t0, u0)
            if t_end is None and L.prob.sparsity is not None:  # which begin with the pivots of a first look
                remember(L.prob, key, before, 0.0)
        if anew:
            self._begin_between(L)
        if first:
            L.sweep.make_ready(u0, t0)
        else:
            first = self.params.dt_first
            first = self._first_step(L, u0, t0) if first is None else first
            if t_end is None and L.prob.sparsity is None:
                remember(L.prob, key, before, first)
        self.sizes.wanted = first
        L.params.dt = steps_ahead.clipped(self.sizes, t0)

    def _begin_scales(self, L: Any, t0: float, u0: Any) -> None:
        """Estimate the sizes of unknowns, and the noise of the equations."""
        tolerance, span = L.sweep.tolerance, self._span
        L.prob.noise = None
        begin_scales(L.prob, u0, t0, span, tolerance.rtol, tolerance.atol)
        if L.prob.kernels is None:  # compiled equations are taken to have no noise
            L.prob.start_step(u0, t0)
            L.prob.noise = measured_noise(L.prob, u0.view(np.ndarray), u0.derivative(), t0)
        if L.prob.noise is not None:
            tolerance = L.sweep.tolerance = tolerance.above_noise(L.prob)
            begin_scales(L.prob, u0, t0, span, tolerance.rtol, tolerance.atol)
        located = None if self._driver is None else self._driver.events
        if located is not None:
            self.params.read = unknowns_looked_at(L.prob, located.params.events, u0, t0)
            self.params.between = max(FUNCTIONS * int(self.params.read.any()), self.params.between)

    def _begin_between(self, L: Any) -> None:
        """Tell by what weights errors between the nodes count, where they do."""
        tolerance, peaks = L.sweep.tolerance, getattr(L.prob, "peaks_read", ())
        if not (self.params.between or len(peaks)):
            return
        steep = np.isin(np.arange(L.prob.n), peaks) & L.prob.is_algebraic
        if self.params.between or steep.any():
            # Errors of algebraic unknowns of index 1 do not follow from their polynomials: the equations give
            # them. Those of index 2 have u' of others between the nodes.
            index, read = np.array(L.prob.variable_index), np.array(self.params.read, dtype=bool)
            # Those that are not integrated are off by what the sweeps leave, whatever the step.
            smooth = ~L.prob.is_algebraic | getattr(L.sweep, "integrates_algebraic", True)
            held = smooth & (read | (self.params.between == VALUES)) & (tolerance.rtol >= FINEST_BETWEEN)
            counts = (index < 2) & (read | ~L.prob.is_algebraic) & (self.params.between > 0)
            if not getattr(L.sweep, "collocation", True):  # the end of a step is better than its stages
                counts, held = counts & L.prob.is_algebraic, held & L.prob.is_algebraic
            # Those that steep functions are taken of have to be seen where these are largest.
            seen = steep * min(1.0, tolerance.rtol / SEEN)
            judged = np.maximum(np.where(index == 2, held * AT_INDEX_2, 1.0 * counts), seen)
            self._between = tolerance.weights_of(L.prob, ALLOWED_BETWEEN, plain=True), judged

    def _first_step(self, L: Any, u0: Any, time: float) -> float:
        """The size that the sweeper wants to begin with, but not below the rounding of the time."""
        left = self.sizes.target - time
        wanted = float(L.sweep.starting_step(u0, time, left))
        return float(min(left, max(wanted, FIRST_STEP_ROUNDINGS * steps_ahead.TIME_ROUNDING * abs(time))))

    def go_ahead(
        self, L: Any, value: Any, time: float, most: int, hesitation: Any, look: Any
    ) -> Taken | None:
        """Steps that are taken one after the other from a state, as they would be one by one, if any can."""
        # What is looked at afterwards has a polynomial, or u' at both ends.
        looks = look is None or L.sweep.collocation or value.polynomial is not None
        free = self._given is None and not self._restarts and looks
        ahead = L.sweep.steps_ahead(value, time) if free and L.prob.noise is None else None
        if ahead is None:
            return None
        most = min(most, self._next_pace - self._steps)
        if L.prob.run_scales.watched:
            most = min(most, self._look_at - self._steps)
        judged = self.sizes, self._shortest, self._between, hesitation
        taken: Taken = ahead.take(value, time, L.params.dt, most, look and partial(look, L), *judged)
        count = len(taken.starts)
        L.uend, self.come_to = taken.value, taken.time
        if count:
            L.params.dt = float(taken.sizes[-1])
            self._steps += count - 1
            L.status.time = float(taken.starts[-1])
        return taken

    def check_limit(self, L: Any, reached: float) -> None:
        """End the run, which has come to a time, where that of its call is over."""
        nodes = getattr(L.sweep, "nodes", None)
        if self._limit is not None:
            self._limit.check_at(reached, " or rtol", None if nodes is None else nodes.from_last)

    def finds_wrong_scales(self, L: Any, value: Any) -> bool:
        """Whether an accepted step shows that the run must be repeated, as a size of an unknown is wrong."""
        self._steps += 1
        if self._steps == self._next_pace:
            self._check_pace()
        if self._steps < self._look_at or not L.prob.run_scales.watched:
            return False
        self._look_at *= LOOKS_APART
        self._again = self._looks_back(L, value, False)
        return self._again

    def _check_pace(self) -> None:
        """End a run that would take steps without end, unless an event may end it."""
        since, before, earlier = self._pace
        pace, events = (self.come_to - before) / (self._steps - since), self._leader.events
        self._pace = self._steps, self.come_to, pace
        may_end = events is not None and any(event.last for event in events.params.events)
        slow = pace <= FASTER * earlier < np.inf and self.t_end - self.come_to > MOST_STEPS_LEFT * pace
        if slow and not may_end:
            raise StepSizeError(
                f"{self._steps - since} steps have led from t={before:.10g} to t={self.come_to:.10g} only, "
                f"and more than {MOST_STEPS_LEFT:.0e} like them are left: look there for a jump that is not "
                f"located, noise, or equations stiff for the method; give another rtol or sweeper"
            )

    def must_repeat_run(self, L: Any, value: Any, failed: bool = False) -> bool:
        """Whether a run must be repeated with other sizes; if not, ``remark`` names those below tolerance."""
        return self._again or self._looks_back(L, value, True) or (failed and self._has_small_floors(L))

    def _has_small_floors(self, L: Any) -> bool:
        """Whether a run that has failed must be repeated, as an unknown begins to count only there."""
        # The terms with which it is in balance may be far larger there than at the start of the run.
        scales, tolerance = L.prob.run_scales, L.sweep.tolerance
        if tolerance.atol is not None or not scales.watched:
            return False
        before, u = scales.get_state(), L.u[0]
        for _ in range(2):  # Then without what rounding of these terms hides.
            begin_scales(L.prob, u, L.time, self._span, tolerance.rtol)
            there = scales.twin()
            scales.set_state(before)
            u = scales.without_hidden(u, there)
        return bool(scales.raise_floors(there, tolerance.rtol))

    def check_scales(self, L: Any, ended: bool = False) -> None:
        """Look at the sizes of the unknowns after an accepted step, or a run, in a controller of pySDC."""
        if (self.must_repeat_run if ended else self.finds_wrong_scales)(L, L.uend):
            raise SolveError(
                f"rtol alone could not tell the sizes of all unknowns before the run, and at t={L.time:.6g} "
                f"they have shown to be smaller; give atol, or use ds.solve, which begins such a run again"
            )
        if ended and self.remark:
            tell(self.remark)

    def _looks_back(self, L: Any, value: Any, ended: bool) -> bool:
        tolerance, names = L.sweep.tolerance, L.prob.names
        if tolerance.atol is not None:
            return False
        scales: Scales = L.prob.run_scales
        again, lost = scales.look_back(value.view(np.ndarray), tolerance.rtol, ended)
        counted = [names[i] for i in lost if names[i] not in tolerance.left_out]
        self.remark = ""
        if counted:
            shown = brief([f"'{name}'" for name in counted], MOST_NAMED_UNKNOWNS)
            rise = "rises above its tolerance" if len(counted) == 1 else "rise above their tolerances"
            self.remark = f"{shown} never {rise}; give atol or nominal if smaller values count"
        return again

    @property
    def _next_pace(self) -> int:
        return int(max(2 * self._pace[0], STEPS_OF_PACE // 2))

    @property
    def t_end(self) -> float:
        """The end of the run."""
        return float(self.params.t_end)

    def at_stop(self, time: float) -> bool:
        """Whether the equations have a kink or a jump at the time that an accepted step has come to."""
        return time >= self.sizes.target and self._next + 1 < len(self._targets)

    def restart(self) -> None:
        """Let the next step begin like the first: other equations hold from here on."""
        self._restarts = True

    def end_of_step(self, L: Any) -> float:
        """The time that an accepted step has come to."""
        return float(steps_ahead.end_of_step(self.sizes, float(L.time), float(L.dt)))

    def get_state(self) -> dict[str, Any]:
        """State on which later steps depend, for a checkpoint between two steps."""
        return {name: getattr(self, name) for name in SAVED} | {"sizes": self.sizes.get_state()}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Restore what :meth:`get_state` gave."""
        self.sizes.set_state(kept["sizes"])
        for name in SAVED:
            setattr(self, name, kept[name])

    def prepare_next_block(self, controller: Any, S: Any, *_: Any, **kwargs: Any) -> None:
        """Give the next step its size, and let it meet the times that are to be met."""
        L = S.levels[0]
        now = float(L.time) if S.status.restart else self.come_to
        given, self._given, sizes = self._given, None, self.sizes
        stops, restarts, self._restarts = self.at_stop(now), self._restarts, False
        if stops:
            self._next += 1
            sizes.target, sizes.missed = self._targets[self._next], 0.0
        if given is not None and not restarts:
            L.params.dt, sizes.meets = given, 0.0
            return
        if stops or restarts:
            sizes.forget_approach()
            # The equations change here: what the last steps were like says nothing of the next.
            if not restarts:
                L.uend.polynomial = None
                # Where it fails, so do the next steps, and tell.
                jump_behind(L.prob, L.uend, now, JUMP_RESTART_STEP * (sizes.target - now))
            sizes.forget()
            sizes.wanted = min(sizes.wanted, self._first_step(L, L.uend, now))
        L.params.dt = steps_ahead.clipped(sizes, now)


def require_estimate(cls: type[Any], problem: Any, nodes: int, name: str = "") -> None:
    """Raise InputError if the error estimate of a method does not hold for a problem, or there is none."""
    if issubclass(cls, DirectMethod):
        cls.check_adaptive()
    limit = getattr(cls, "estimate_index", None)
    index = max(problem.index or 0, *problem.variable_index)
    if limit is not None and index > limit(nodes):
        raise InputError(
            f"the error estimate of '{name or cls.__name__}' with {nodes} stages holds up to index "
            f"{limit(nodes)}, and {problem.name} has index {index}; use Radau IIA with at "
            f"least {index - 1} nodes, or reduce the index"
        )


def stops_of(problem: Any, t0: float, t_end: float, events: Iterable[Any] = ()) -> tuple[float, ...]:
    """Times between ``t0`` and ``t_end`` at which equations have a kink or a jump, or events may happen."""
    known = [event.times(t0, t_end) for event in events if event.times is not None]
    points = np.asarray(problem.breakpoints(t0, t_end), dtype=np.float64)
    if not (known or points.size):
        return ()
    times = np.unique(np.concatenate([points, *known]))
    if np.isnan(times).any():
        raise InputError(f"{problem.name}.breakpoints returned nan among its times; check it")
    tiny = 1e-12 * max(abs(t0), abs(t_end), t_end - t0)
    return tuple(times[(times > t0 + tiny) & (times < t_end - tiny)].tolist())
