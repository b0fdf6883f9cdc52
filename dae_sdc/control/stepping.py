"""Steps of one size in the controller of steps of different sizes, for runs that events interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from pySDC.core.check_convergence import CheckConvergence
from pySDC.core.convergence_controller import ConvergenceController
from pySDC.core.default_hook import DefaultHooks
from pySDC.core.hooks import Hooks
from pySDC.core.timings import CPUTimings
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from pySDC.implementations.convergence_controller_classes.basic_restarting import BasicRestarting
from pySDC.implementations.convergence_controller_classes.spread_step_sizes import SpreadStepSizesBlockwise
from pySDC.implementations.hooks.log_restarts import LogRestarts

from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.amplification import WatchAmplification
from dae_sdc.control.borders import Borders
from dae_sdc.control.checkpoint import Checkpoints
from dae_sdc.control.driver import LEAST_REMAINDER, Control, KeepTimeLimit, StepRequests, StopAtRoundOff
from dae_sdc.control.events import LocateEvents
from dae_sdc.control.hooks import CheckInitialValue, RequireConvergence, StepRecord, hook_of
from dae_sdc.control.singular import WatchSingularPoints
from dae_sdc.dae.consistency import key_of_start, known_start, remember
from dae_sdc.dae.memory import COUNTERS, counts_of
from dae_sdc.deadline import check_at
from dae_sdc.errors import StepSizeError
from dae_sdc.sweepers.steps_ahead import FULL, MOST_STEPS, REACHED, TIME_SLACK, UNFINISHED, Taken, time_slack

TIMES_AT_ONCE = 1_000_000  # Most times of a grid that are in memory at once.


class FixedSteps(StepRequests, Control):
    """Keeps the times of a grid: after a step that an event has cut short, the next ends on it again."""

    # There are ``count`` steps of size ``dt``; with ``meets`` they end at ``stops``, kinks of the equations.
    remark = ""
    order = 250  # where AdaptivityDAE runs
    defaults: ClassVar = {"stops": (), "meets": False}

    def begin(self, step: Any, t0: float, u0: Any) -> None:
        # Sums, one after the other, as pySDC's controllers have them: the time of a number, and the last one.
        self._number, self._here, self._last, self._given = 0, t0, t0, None
        self._slack = TIME_SLACK * self.params.dt
        for count in range(self.params.count, 0, -TIMES_AT_ONCE):
            self._last = float(self._times(self._last, min(count, TIMES_AT_ONCE))[-1])
        step.levels[0].params.dt = self._stopped(t0, self.params.dt)

    def _times(self, first: float, count: int) -> Any:
        """A time of the grid and so many that follow."""
        return np.cumsum(np.append(first, np.full(count, self.params.dt)))

    def _pass(self, now: float) -> None:
        """Go on to the last time of the grid up to now."""
        now += self._slack
        while self._number < self.params.count - 1 and self._here + self.params.dt <= now:
            self._number, self._here = self._number + 1, self._here + self.params.dt

    def _stopped(self, now: float, dt: float) -> float:
        """The size of a step from now that ends at the next stop, if that comes first."""
        if not self.params.meets:
            return dt
        to_stops = (stop - now for stop in self.params.stops)
        return min((size for size in to_stops if self._slack < size < dt - self._slack), default=dt)

    def go_ahead(
        self, L: Any, value: Any, time: float, most: int, hesitation: Any, look: Any
    ) -> Taken | None:
        """Steps that are taken one after the other from a time of the grid up to a stop, if any can."""
        free = self._given is None and (look is None or L.sweep.collocation or value.polynomial is not None)
        ahead = L.sweep.steps_ahead(value, time) if free else None
        self._pass(time)
        if ahead is None or self._here != time or L.params.dt != self.params.dt:
            return None
        later = [stop for stop in self.params.stops if stop > time + self._slack]
        stop = min(later, default=self.t_end) + self._slack
        times = self._times(time, min(most, self.params.count - self._number))
        room = int(np.searchsorted(times, stop, side="right")) - 1
        if room < 1:
            return None
        L.prob.start_step(value, time)
        taken: Taken | None = ahead.take(value, time, self.params.dt, room, look and partial(look, L))
        if taken is None or not len(taken.starts):
            return taken
        self._pass(taken.time)
        L.uend, L.status.time = taken.value, float(taken.starts[-1])
        end = self._at_stop(taken.time)
        reached = end >= self.t_end or self.at_stop(end)
        next_dt = self._stopped(end, self.params.dt)
        return taken._replace(time=end, next_dt=next_dt, status=REACHED if reached else taken.status)

    def check_limit(self, L: Any, reached: float) -> None:
        check_at(reached, " or dt")

    @property
    def t_end(self) -> float:
        """The last time of the grid."""
        return self._last

    def finds_wrong_scales(self, L: Any, value: Any, failed: bool = False) -> bool:
        """False: steps of a fixed size do not depend on the sizes of unknowns."""
        return False

    must_repeat_run = finds_wrong_scales

    def at_stop(self, time: float) -> bool:
        return self._at_stop(time) in self.params.stops

    def end_of_step(self, L: Any) -> float:
        end, grid = L.time + L.dt, self._here + self.params.dt
        return self._at_stop(grid if abs(end - grid) <= time_slack(L.dt, end) else end)

    def _at_stop(self, time: float) -> float:
        """The stop beside a time: sums of step sizes may end before it, where its side is another one."""
        return float(next((stop for stop in self.params.stops if abs(stop - time) <= self._slack), time))

    def get_state(self) -> dict[str, Any]:
        return {"number": self._number, "here": self._here, "given": self._given}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        self._number, self._here, self._given = kept["number"], kept["here"], kept["given"]

    def prepare_next_block(self, controller: Any, S: Any, size: int, time: Any, *_: Any, **__: Any) -> None:
        L, now, dt = S.levels[0], float(time[0]), self.params.dt
        given, self._given = self._given, None
        if given is not None:
            L.params.dt = given
            return
        self._pass(now)
        if now != self._here:
            # What is nearly nothing to the next time of the grid goes on to the one after it.
            if self._number < self.params.count - 1 and self._here + dt - now < LEAST_REMAINDER * dt:
                self._number, self._here = self._number + 1, self._here + dt
            dt = self._here + dt - now
        L.params.dt = self._stopped(now, dt)


# Entries of the status of a step, and of that of a level, before its prediction.
AT_START: dict[str, Any] = dict.fromkeys(("done", "prev_done", "force_done", "force_continue"), False)
AT_START |= {"iter": 0, "stage": "SPREAD"}
LEVEL_AT_START = {"residual": None, "unlocked": False, "updated": False, "dt_new": None, "sweep": 1}
# Methods of convergence controllers that are called besides their checks.
STAGES = (
    *("post_spread_processing", "post_iteration_processing", "pre_iteration_processing"),
    *("post_step_processing", "reset_status_variables", "prepare_next_block", "post_run_processing"),
)
# Methods of convergence controllers that ``convergence_control`` calls, in this order.
CHECKS = ("get_new_step_size", "determine_restart", "check_iteration_status")
# Methods of hooks that are called in every step.
OF_STEPS = (
    *("pre_step", "post_step", "pre_iteration", "post_iteration", "pre_sweep", "post_sweep", "pre_comm"),
    *("post_comm", "post_predict"),
)
# Parameters of the adaptivity on which its first step and the sizes depend that a run learns.
OF_RUN = ("t_end", "stops", "dt_max", "dt_first", "between", "read")
CALLED = ("pre_run", *OF_STEPS, "post_run")  # Methods of hooks that the controller calls.


def methods_of(parts: Sequence[Any], base: type[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """The methods by name that hooks or convergence controllers have in place of those of their base."""
    owners = {name: [x for x in parts if getattr(type(x), name) is not getattr(base, name)] for name in names}
    return {name: [getattr(x, name) for x in own] for name, own in owners.items()}


def asked(hooks: Iterable[Hooks], wanted: Sequence[type[Hooks]]) -> list[Hooks]:
    """Hooks without those by which pySDC times and logs every part of a step, unless these are wanted."""
    unasked = {DefaultHooks, CPUTimings, LogRestarts}.difference(wanted)
    return [hook for hook in hooks if type(hook) not in unasked]


class SteppingController(controller_nonMPI):  # type: ignore[misc]
    """A controller of one step at a time on one level, whose sizes AdaptivityDAE or FixedSteps chooses."""

    # It calls the sweeper, the hooks and the convergence controllers in the order in which pySDC does. Calls
    # that would do nothing are left out, and so are pySDC's own hooks, which time and log every part of a
    # step, unless they are among ``hook_class``: they would take most of the time of a step. Times are those
    # that the steps are to meet, not sums of step sizes. LocateEvents may end a step, or the run, before.

    drives_itself: ClassVar[bool] = True
    kind: Any = None  # What tells its method and who looks at its steps, where nobody else's code does.

    def __init__(self, controller_params: dict[str, Any], description: dict[str, Any]) -> None:
        super().__init__(1, controller_params, description)
        self.active_hooks = asked(self.hooks, controller_params.get("hook_class", []))
        self.checkpoints: Checkpoints | None = None
        # A method without iterations has ended with its prediction.
        self._direct = self.MS[0].params.maxiter == 0
        # Restarts and step sizes are the business of the adaptivity here.
        inactive = BasicRestarting | SpreadStepSizesBlockwise
        in_order = (self.convergence_controllers[number] for number in self.convergence_controller_order)
        controls = [control for control in in_order if not isinstance(control, inactive)]
        of_sizes = AdaptivityDAE | FixedSteps
        self.adaptivity: Any = next((one for one in controls if isinstance(one, of_sizes)), None)
        located = (one for one in controls if isinstance(one, LocateEvents))
        self.events: LocateEvents | None = next(located, None)
        self._controls = methods_of(controls, ConvergenceController, STAGES)
        self._checks: list[Callable[..., Any]] = []
        for control in controls:
            if not (self._direct and isinstance(control, CheckConvergence)):
                # It calls the others, of which those of the base class do nothing.
                (whole,) = methods_of([control], ConvergenceController, ("convergence_control",)).values()
                self._checks += whole or chain(*methods_of([control], ConvergenceController, CHECKS).values())
        self._calls = methods_of(self.active_hooks, Hooks, CALLED)
        # Of steps that have converged RequireConvergence sees nothing.
        watching = [hook for hook in self.active_hooks if not isinstance(hook, RequireConvergence)]
        looking = sum(any(methods_of([hook], Hooks, OF_STEPS).values()) for hook in watching)
        record: StepRecord | None = hook_of(self, StepRecord)
        self._watch: WatchSingularPoints | None = hook_of(self, WatchSingularPoints)
        self._growth: WatchAmplification | None = hook_of(self, WatchAmplification)
        judges = AdaptivityDAE | FixedSteps | CheckConvergence | LocateEvents | KeepTimeLimit | StopAtRoundOff
        plain = all(isinstance(each, judges) for each in controls)
        # Without a record, and with other hooks, no steps are taken ahead.
        plain = plain and record is not None and record.is_plain and not record.collects
        own = 1 + (self._watch is not None) + (self._growth is not None)
        self._record = record if plain and looking == own else None
        self._new_sweeper = dict(vars(self.MS[0].levels[0].sweep))

    def renew(self, problem: Any, adaptivity: Mapping[str, Any]) -> None:
        """Be as new, for a run of another problem of the same kind with the same method and tolerance."""
        level = self.MS[0].levels[0]
        level._Level__prob = problem
        level.sweep.__dict__ = {**self._new_sweeper, "_served": level.sweep._served}
        self.adaptivity.renew(adaptivity)
        for hook in self.active_hooks:
            hook.__init__()

    def show_stages(self, wanted: bool) -> None:
        """Switch the values of Runge-Kutta stages in the levels, which take time, on or off."""
        self.MS[0].levels[0].sweep.shows_stages = wanted

    def _call(self, name: str) -> None:
        """Call a method of the hooks that have one of their own."""
        for call in self._calls[name]:
            call(self.MS[0], 0)

    def _process(self, name: str, *arguments: Any) -> None:
        """Call a method of the convergence controllers that have one of their own."""
        for process in self._controls[name]:
            process(self, self.MS[0], *arguments, MS=self.MS)

    def run(self, u0: Any, t0: float, Tend: float) -> tuple[Any, dict[Any, Any]]:
        """Take steps from ``t0`` to ``Tend``, as ``controller_nonMPI.run`` does."""
        step, level = self.MS[0], self.MS[0].levels[0]
        steps, again = self.adaptivity, False
        while True:
            try:
                value = self._carry_out(step, *self.begin_run(t0, u0, again))
                if not steps.must_repeat_run(level, value):
                    break
            except StepSizeError:
                # Steps may have failed because an unknown was measured by a wrong size.
                if not steps.must_repeat_run(level, level.u[0], failed=True):
                    raise
            (key, before, _), again = steps.begins, True
            remember(level.prob, key, before, None)
            level.sweep.reset()
            level.prob.hold_sides(None)
            if self.checkpoints is not None:
                self.checkpoints.start = None
        self._call("post_run")
        self._process("post_run_processing")
        return value, self.return_stats()

    def follow(self, u0: Any, t0: float, t_end: float, borders: Borders) -> list[Taken] | None:
        """Steps from a state to an end or the first border; None where not all of them are plain."""
        # Sizes of unknowns go on to be those that were seen in the last run.
        level, value, time, steps, followed = self.MS[0].levels[0], u0, t0, self.adaptivity, list[Taken]()
        steps.begin(self.MS[0], time, value, t_end)
        if (events := self.events) is not None:
            events.begin(level, time, value, steps)
        while time < t_end and not borders.crossed:
            most = 1 if borders.aim else MOST_STEPS
            taken = steps.go_ahead(level, value, time, most, (0.0, 0.0), None) if self._record else None
            if taken is None or (count := borders.look(taken)) < 0:
                break
            if events is not None and count:
                seen = events.look_ahead(level, value, taken)
                if seen < len(taken.starts) or any(watch.times for watch in events.watches):
                    break
            if borders.aim and taken.status == UNFINISHED:  # beyond the border
                level.sweep.drop_step()
            if count:
                last = count == len(taken.starts)
                value = taken.value if last else taken.end(count - 1, level.prob.n_diff)
                time = taken.time if last else float(taken.starts[count - 1] + taken.sizes[count - 1])
                followed.append(taken if last else taken.first(count))
            steps.check_limit(level, time)
            level.params.dt = borders.aim or taken.next_dt
            steps.sizes.meets *= not borders.aim
            if steps.finds_wrong_scales(level, value):
                break
        else:
            if not steps.must_repeat_run(level, value):
                return followed
        level.sweep.reset()  # a step may have been begun
        return None

    def begin_run(self, time: float, value: Any, again: bool = False) -> tuple[float, Any]:
        """Begin a run, or its next attempt, at a state; returns what its first step begins with."""
        step, level, steps = self.MS[0], self.MS[0].levels[0], self.adaptivity
        key = None  # What the first step and its attempts depend on, where nothing else looks at it.
        if not again and self.kind is not None:
            about = (*vars(level.prob.run_scales).values(), *(vars(steps.params)[name] for name in OF_RUN))
            key = key_of_start(level.prob, value, time, self.kind, *about)
        steps.begins = (*steps.begins[:2], None) if again else (key, counts_of(level.prob), known_start(key))
        for hook in self.active_hooks:
            hook.reset_stats()
        step.reset_step()
        vars(step.status).update(slot=0, first=True, last=True, time_size=1)
        step.prev = step
        self._begin(time, value)
        for hook in self.active_hooks:
            hook.post_setup(step=None, level_number=None)
        # A start whose first step is kept was consistent.
        checked = again or (steps.begins[-1] or (None,))[0] is not None
        for call in self._calls["pre_run"]:
            if not (checked and isinstance(getattr(call, "__self__", None), CheckInitialValue)):
                call(step, 0)
        events = self.events
        if events is not None:
            value = events.begin(level, time, value, self.adaptivity)
        self.adaptivity.begin(step, time, value)
        return (time, value) if self.checkpoints is None else self.checkpoints.begin(self, time, value)

    def _carry_out(self, step: Any, time: float, value: Any) -> Any:
        """Take all steps of a run that has begun; returns the state at their end."""
        level, events, Tend = step.levels[0], self.events, self.adaptivity.t_end
        while time < Tend and not (events is not None and events.finished):
            taken = self._go_ahead(level, value, time)
            if taken is not None and len(taken.starts):
                value, time, step.status.restart = taken.value, taken.time, False
                if self.adaptivity.finds_wrong_scales(level, value):
                    break
                if events is not None and taken.status == REACHED:
                    value = level.uend = events.carry_on(level, time, value)
                    if events.finished:
                        break
                if taken.status == REACHED and time < Tend:
                    self.adaptivity.prepare_next_block(self, step, 1, [time], Tend, MS=self.MS)
                if self.checkpoints is not None and taken.status != UNFINISHED and time < Tend:
                    self.checkpoints.look(self, time, value)
                if taken.status in (FULL, REACHED):
                    continue
            self._begin(time, value)
            self._take(step, level, self.MS)
            if step.status.restart:
                value = level.u[0]
            else:
                value, time = level.uend, self.adaptivity.end_of_step(level)
                self._process("post_step_processing")
                if self.adaptivity.finds_wrong_scales(level, value):
                    break
            if events is not None:
                value = events.carry_on(level, time, value)
                if events.finished:
                    break
                if not step.status.restart:
                    level.uend = value
            if time < Tend or step.status.restart:
                self._process("prepare_next_block", 1, [time], Tend)
                if self.checkpoints is not None and not step.status.restart:
                    self.checkpoints.look(self, time, value)
        return value

    def _go_ahead(self, level: Any, value: Any, time: float) -> Taken | None:
        """Let steps be taken one after the other while nothing but the adaptivity looks at each of them."""
        if (record := self._record) is None:
            return None
        watch, growth, events = self._watch, self._growth, self.events
        looking = (part.steps_ahead for part in (watch, growth, events) if part is not None)
        most = min([MOST_STEPS, *looking])
        if self.checkpoints is not None:
            most = min(most, self.checkpoints.every - len(record.rows) % self.checkpoints.every)
        if most <= 0 or (watch is not None and watch.looks and value.polynomial is None):
            return None
        hesitation = (0.0, 0.0) if watch is None else watch.hesitation
        look = None if events is None else events.look_ahead
        taken: Taken | None = self.adaptivity.go_ahead(level, value, time, most, hesitation, look)
        if taken is None:
            return None
        record.rejected += taken.rejected
        count = len(taken.starts)
        if count and watch is not None and watch.looks:
            try:
                watch.see(level, taken, value)
            finally:  # what comes to a singular point ends before the step that does
                seen = watch.seen
                record.take_ahead(taken.first(seen))
                for name, work in zip(COUNTERS, taken.counts[seen + 1 :].sum(axis=0).tolist(), strict=True):
                    level.prob.work_counters[name].niter -= int(work)
                if events is not None and seen < count:
                    end_of_run = float(taken.starts[seen] + taken.sizes[seen])
                    for zeros in events.watches:
                        zeros.forget(float(np.nextafter(end_of_run, np.inf)))
        elif count:
            record.take_ahead(taken)
        if count and growth is not None:
            growth.take_ahead(level, taken, value)
        self.adaptivity.check_limit(level, taken.time)
        level.params.dt = taken.next_dt
        return taken

    def _begin(self, time: float, value: Any) -> None:
        """Set the step to what it is before its prediction."""
        level, count = self.MS[0].levels[0], len(self.MS[0].levels[0].u)
        # The entries are those that pySDC's own reset sets, one by one with a check of each name.
        vars(level).update(uend=None, u=[value] + [None] * (count - 1), f=[None] * count, u0_reference=None)
        vars(level.status).update(LEVEL_AT_START, time=time)
        vars(self.MS[0].status).update(AT_START)
        for reset in self._controls["reset_status_variables"]:
            reset(self, active_slots=[0])

    def _take(self, step: Any, level: Any, block: list[Any]) -> None:
        """Take one step: prediction, and iterations until the convergence controllers end them."""
        sweep, status = level.sweep, step.status
        self._call("pre_step")
        sweep.predict()
        self._process("post_spread_processing")
        while True:
            sweep.compute_end_point()
            sweep.compute_residual(stage="IT_CHECK")
            if status.iter > 0:
                self._call("post_iteration")
            self._process("post_iteration_processing")
            status.done = self._direct
            for check in self._checks:
                check(self, step, MS=block)
            if status.done:
                break
            status.iter += 1
            self._call("pre_iteration")
            self._process("pre_iteration_processing")
            for number in range(level.params.nsweeps):
                level.status.sweep = number + 1
                self._call("pre_sweep")
                sweep.updateVariableCoeffs(number + 1)
                sweep.update_nodes()
                sweep.compute_residual(stage="IT_FINE")
                self._call("post_sweep")
        status.stage = "DONE"
        self._call("post_step")
