"""Controls of runs: their base, the time limit, the end of sweeps at round-off, and pySDC's controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pySDC.core.convergence_controller import ConvergenceController
from pySDC.core.hooks import Hooks

from dae_sdc.control.hooks import MarkProvisionalStarts, StepRecord, add_at_end, hook_of, unconverged
from dae_sdc.deadline import check_at
from dae_sdc.errors import InputError, SolveError
from dae_sdc.sweepers.parallel import raise_everywhere


class Control(ConvergenceController):  # type: ignore[misc]
    """A convergence controller with a place among the others."""

    order: ClassVar[int]
    defaults: ClassVar[Mapping[str, Any]] = {}

    def setup(
        self, controller: Any, params: dict[str, Any], description: dict[str, Any], **kwargs: Any
    ) -> Any:
        """The parameters, with the defaults for those that are not given."""
        given = super().setup(controller, params, description, **kwargs)
        return {"control_order": self.order, **self.defaults, **given}


class MarkingControl(Control):
    """A convergence controller with entries in the status of steps, by default that which repeats one."""

    marks: ClassVar[Mapping[str, Any]] = {"restart": False}  # Their values when a step begins.

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        for name, value in self.marks.items():
            self.add_status_variable_to_step(name, value)

    def reset_status_variables(self, controller: Any, **kwargs: Any) -> None:
        for name, value in self.marks.items():
            self.set_step_status_variable(name, value)


def require_single_steps(controller: Any, comm: Any, what: str, needed: bool = True) -> None:
    """Raise InputError unless a controller takes one step at a time on one level."""
    steps = len(controller.steps) if comm is None else comm.Get_size()
    levels = len(controller.steps[0].levels)
    if needed and (steps > 1 or levels > 1):
        raise InputError(
            f"{what} needs one step at a time on one level; got {steps} steps and {levels} levels; let ranks "
            f"share the nodes of a step instead"
        )


class KeepTimeLimit(Control):
    """Ends a run between two blocks of steps where the time of the call around it is over, on all ranks."""

    order = 1100  # behind what collects steps and gives them sizes
    defaults: ClassVar = {"comm": None}

    def prepare_next_block(
        self, controller: Any, S: Any, size: int, time: Any, Tend: float, **kwargs: Any
    ) -> None:
        ranks, active = self.params.comm, kwargs.get("comm")
        now = float(time if active is not None else time[0])
        # Ranks that have left, as there are fewer steps than ranks at the end, would not take part.
        if now >= Tend or (active is not None and active.Get_size() < controller.comm.Get_size()):
            return
        check_at(now, " or dt", None if ranks is None else lambda left: float(ranks.bcast(left, root=0)))


STAGNATION_WINDOW = 6  # Iterations over which the residual must fall.
LEAST_DECREASE = 0.5  # Part of its earlier value to which it must fall within these.
# Residual, relative to the terms of the equations, below which round-off can hold it up at index 1.
RESIDUAL_AT_ROUND_OFF = 1e3 * float(np.finfo(float).eps)


class StopAtRoundOff(MarkingControl):
    """Ends the iterations of a step when its residual no longer falls although it is at round-off already.

    A tolerance below what double precision allows would otherwise cost ``maxiter`` sweeps in every step. How
    low the residual can go depends on the index: to 1e3 eps / dt^(index - 1), relative to the terms of the
    equations. A step ended here is marked ``at_round_off`` in its status.

    Examples
    --------
    >>> ds.solve("simple", dt=0.1, convergence_controllers={ds.StopAtRoundOff: {}}).success
    True
    """

    order = 150  # before pySDC's own check of convergence
    marks: ClassVar = {"at_round_off": False, "residuals": ()}

    def __init__(self, controller: Any, params: dict[str, Any], description: dict[str, Any]) -> None:
        super().__init__(controller, params, description)
        self._maxiter = description["step_params"]["maxiter"]

    def reset_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Begin a step, with all its iterations."""
        super().reset_status_variables(controller, **kwargs)
        for step in controller.steps:
            step.params.maxiter = self._maxiter

    def post_iteration_processing(self, controller: Any, step: Any, **kwargs: Any) -> None:
        """End the iterations if the residuals of the last ones stand still at round-off."""
        L = step.levels[0]
        if step.status.iter == 0 or L.params.restol <= 0.0 or L.sweep.failure is not None:
            return
        step.status.residuals = residuals = (*(step.status.residuals or ()), L.status.residual)
        before, last = residuals[:-STAGNATION_WINDOW], residuals[-STAGNATION_WINDOW:]
        if not before or min(last) < LEAST_DECREASE * min(before):
            return
        # Each differentiation that a constraint hides divides the round-off of the solution by dt once
        # more. An index that is not known counts as 2, and 1e3 eps is the least.
        hidden = 1 if L.prob.index is None else max(L.prob.index, 1) - 1
        limit = RESIDUAL_AT_ROUND_OFF * max(1.0, L.dt**-hidden)
        if residuals[-1] <= limit * L.sweep.residual_scale():
            step.status.at_round_off = True
            # Not by force: a step on a rank of its own would no longer tell the next that it is done.
            step.params.maxiter = step.status.iter


LEAST_REMAINDER = 1e-3  # Least part of a step that gets a step of its own on the way back to the grid.
SAME_TIME = 1e-10  # Distance of two times, in steps, up to which they are equal.
TAG = 7001  # Tag of the messages from step to step; pySDC's are below that.


class StepRequests:
    """What events ask of the sizes of steps."""

    _given: float | None = None  # The size of the next step, where it is told.
    # What tells the run from others, what was counted before it, and what is kept for it from one like it.
    begins: tuple[Any, Any, Any] = None, None, None

    def repeat_step(self, dt: float) -> None:
        """Let the next step have this size: the repetition of one that has been accepted."""
        self._given = dt

    def restart(self) -> None:
        """Does nothing where the size of the next step does not depend on the last."""


class GridOfSteps(StepRequests):
    """Step sizes of runs that pySDC gives theirs: only what events change, and the way back to the grid."""

    def __init__(self, dt: float, problem: Any) -> None:
        self.dt, self._problem = dt, problem
        self.begin(None, 0.0, None)

    def begin(self, step: Any, t0: float, u0: Any) -> None:
        self._grid, self._off, self._given = t0, False, None

    def at_stop(self, time: float) -> bool:
        near = SAME_TIME * self.dt
        breakpoints = self._problem.breakpoints(time - 2 * near, time + 2 * near)
        return any(abs(stop - time) <= near for stop in breakpoints)

    @property
    def repeats(self) -> bool:
        """Whether a size is given for the next step."""
        return self._given is not None

    def next(self, now: float, t_end: float) -> float | None:
        """Size of the step from ``now``; None where pySDC's holds."""
        given, self._given = self._given, None
        if given is not None:
            self._grid, self._off = self._grid if self._off else now, True
            return given
        if not self._off:
            return None
        near = SAME_TIME * self.dt
        while self._grid - now < -near:
            self._grid += self.dt
        if abs(self._grid - now) <= near:
            self._off = False
            return self.dt
        meets = self._grid + (self.dt if self._grid - now < LEAST_REMAINDER * self.dt else 0.0)
        return last_step(now, max(meets, t_end)) if meets >= t_end - near else meets - now

    def get_state(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_problem"}

    def set_state(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def last_step(now: float, end: float) -> float:
    """The size of a step from ``now`` whose end, as it is rounded, is not before ``end``."""
    size = end - now
    while now + size < end:
        size = float(np.nextafter(size, np.inf))
    return size


class _Observe(Hooks):  # type: ignore[misc]
    """Tells a :class:`StepDriver` that a run begins and that steps end."""

    driver: StepDriver

    def pre_run(self, step: Any, level_number: int) -> None:
        self.driver.begin(step)

    def post_step(self, step: Any, level_number: int) -> None:
        super().post_step(step, level_number)
        self.driver.hand_on(step, self)


class StepDriver(Control):
    """Lets :class:`LocateEvents` and :class:`AdaptivityDAE` work in pySDC's own controllers."""

    # Steps are looked at in order when they are done. The first that is to be repeated, or that ends where
    # other equations begin to hold, ends the block: the next begins there, and steps behind it stop
    # computing.

    order = 1000  # after all others

    def __init__(self, controller: Any, params: dict[str, Any], description: dict[str, Any]) -> None:
        self.events: Any = None
        self.adaptivity: Any = None
        self.saving: Any = None
        self._controller = controller
        self._request: Any = None
        self._comm: Any = None
        self._news: list[tuple[str, float]] = []
        super().__init__(controller, params, description)
        controller.add_hook(_Observe)
        hook_of(controller, _Observe).driver = self

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Check what is to be driven, and let steps that iterate together know of each other."""
        comm = kwargs.get("comm")
        steps, count = controller.steps, len(controller.steps) if comm is None else comm.Get_size()
        level = steps[0].levels[0]
        if self.adaptivity is not None:
            require_single_steps(controller, comm, "AdaptivityDAE")
            self.adaptivity.prepare(steps[0])
        elif len(steps[0].levels) > 1:
            require_single_steps(controller, comm, "LocateEvents")
        self.sizes = self.adaptivity or GridOfSteps(level.params.dt, level.prob)
        if count > 1:
            controller.add_hook(MarkProvisionalStarts)
        for hook in list(controller.hooks):
            if hasattr(hook, "guide"):  # watches for singular points
                hook.guide(self.sizes)
            elif isinstance(hook, _Observe):  # behind all others, which look at the run as it was
                controller.hooks.remove(hook)
                controller.hooks.append(hook)

    def reset_status_variables(self, controller: Any, **kwargs: Any) -> None:
        self._comm = kwargs.get("comm")
        self._ended, self._told, self._heard = False, False, False
        self._hands_on: int | None = None
        self._judged: set[int] = set()
        self._repetitions: dict[int, int] = {}

    def begin(self, step: Any) -> None:
        """Begin a run on every rank, from the start of its first step."""
        L, comm = step.levels[0], self._comm
        if comm is None and not step.status.first:
            return
        t0 = L.time if comm is None else comm.bcast(L.time, root=0)
        self.sizes.begin(step, t0, L.u[0])
        self._repeating, self._news = False, []
        if self.events is not None:
            L.u[0] = self.events.begin(L, t0, L.u[0], self.sizes)
            self._hold_sides()
        if self.saving is not None:
            self.saving.begin(step)
            if self.events is not None:
                self._hold_sides()

    def _hold_sides(self) -> None:
        sides = tuple(watch.side for watch in self.events.switches)
        for step in self._controller.steps:
            step.levels[0].prob.hold_sides(sides)

    def post_spread_processing(self, controller: Any, S: Any, **kwargs: Any) -> None:
        """Let only the first step compute in a block that repeats a step up to an event."""
        if self._repeating and not S.status.first:
            _stop_computing(S)

    def communicate_convergence(self, controller: Any, S: Any, **kwargs: Any) -> None:
        """Judge a step that is done; pySDC calls this for steps in one process, one after the other."""
        self._follow(S)

    def post_iteration_processing_block(self, controller: Any, **kwargs: Any) -> None:
        """Judge the step of this rank if it is done, and hear of the one before, or tell the one behind."""
        if (comm := kwargs.get("comm")) is None:
            return
        S = controller.S
        if not S.status.first and not self._heard and (S.status.prev_done or S.status.done):
            self._heard = True
            self._take(comm.recv(source=S.status.slot - 1, tag=TAG))
        self._follow(S)
        if S.status.done and not self._told and not S.status.last:
            self._told = True
            self._request = comm.isend(self._state(), dest=S.status.slot + 1, tag=TAG)

    def _follow(self, S: Any) -> None:
        """Judge a step when it is done."""
        slot = S.status.slot
        if slot in self._judged:
            return
        if not S.status.done:
            if self._ended:
                _stop_computing(S)
            return
        self._judged.add(slot)
        self._repetitions[slot] = S.status.restarts_in_a_row + 1
        if self._ended:
            S.status.restart = True
            return
        events = self.events
        if S.status.restart:
            self._ended = True
            if events is not None:
                events.aim = None
            return
        L, adaptivity = S.levels[0], self.adaptivity
        self._come_to = float(L.time + L.dt if adaptivity is None else adaptivity.come_to)
        if events is None:
            return
        if (wanted := events.examine(S)) is not None:
            self._ended = S.status.restart = True
            self.sizes.repeat_step(wanted)
            return
        self._news = events.news()
        if events.interrupts(self._come_to):
            self._ended = True
            self._hands_on = slot + (0 if S.status.last else 1)

    def hand_on(self, step: Any, hook: Hooks) -> None:
        """Replace the state with which the next block begins by one for the equations that hold there."""
        if self.events is None or step.status.slot not in self._judged:
            return
        L = step.levels[0]
        for kind, time in self._news:
            add_at_end(hook, step, L, kind, time)
        self._news = []
        if step.status.slot == self._hands_on:
            self._hands_on = None
            if step.status.restart:
                L.u[0] = self.events.carry_on(L, float(L.time), L.u[0])
            else:
                L.uend = self.events.carry_on(L, self._come_to, L.uend)

    def prepare_next_block(
        self, controller: Any, S: Any, size: int, time: Any, Tend: float, **kwargs: Any
    ) -> None:
        """Give the steps of the next block their sizes, and the equations that hold there."""
        comm = kwargs.get("comm")
        if comm is None and S is not controller.steps[0]:
            return
        now = self._share(controller, S, time, comm, kwargs.get("MS"))
        if self.events is not None:
            self._hold_sides()
            if self.events.finished:
                vars(controller)["step_is_active"] = lambda *_: False
        if self.adaptivity is not None:
            end, L = self.adaptivity.t_end, S.levels[0]
            if abs(end - Tend) > SAME_TIME * abs(end):
                raise InputError(
                    f"AdaptivityDAE has t_end={end:g}, but the controller runs to Tend={Tend:g}; give it that"
                )
            if not S.status.restart:
                self.adaptivity.check_scales(L)
            if comm is not None and now + L.params.dt >= end - SAME_TIME * L.params.dt:
                L.params.dt = last_step(now, end)
            return
        chosen = [step.levels[0].status.dt_new for step in controller.steps]
        self._repeating, first = self.sizes.repeats, self.sizes.next(now, Tend)
        if first is None or (not self._repeating and any(dt is not None for dt in chosen)):
            return
        for number, step in enumerate(controller.steps, 0 if comm is None else S.status.slot):
            step.levels[0].params.dt = first if number == 0 else self.sizes.dt

    def _share(self, controller: Any, S: Any, time: Any, comm: Any, block: Sequence[Any] | None) -> float:
        """Give all ranks the state of the one whose step ended the block; returns the time come to."""
        if comm is None:
            again = next((step for step in block or () if step.status.restart), None)
            if again is not None:
                # pySDC forgets some of them, by which statistics tell repeated steps apart.
                S.status.restarts_in_a_row = self._repetitions[again.status.slot]
            if len(controller.steps) == 1:
                time[0] = S.time if S.status.restart else self._come_to
            return float(time[0])
        if self._request is not None:
            self._request.wait()
            self._request = None
        restarts = comm.allgather(bool(S.status.restart))
        last = restarts.index(True) if True in restarts else comm.Get_size() - 1
        state = comm.bcast(self._state(), root=last)
        if comm.Get_rank() != last:
            self._take(state)
        return float(time)

    def post_run_processing(self, controller: Any, S: Any, **kwargs: Any) -> None:
        """Let the controller run again, and give all ranks the events of the run."""
        vars(controller).pop("step_is_active", None)
        comm = kwargs.get("comm")
        if comm is not None and self.events is not None:
            # Ranks without a step at the end of the run have not seen all; rank 0 always has one.
            self._take(comm.bcast(self._state(), root=0))
        if self.adaptivity is not None and S is controller.steps[0]:
            self.adaptivity.check_scales(S.levels[0], ended=True)

    def _state(self) -> dict[str, Any]:
        """All that steps behind this one, and the next block, depend on."""
        events = None if self.events is None else self.events.pack()
        sizes = self.sizes.get_state() if self.adaptivity is None else None
        return {"ended": self._ended, "hands_on": self._hands_on, "events": events, "sizes": sizes}

    def _take(self, state: dict[str, Any]) -> None:
        self._ended, self._hands_on = state["ended"], state["hands_on"]
        if self.events is not None:
            self.events.unpack(state["events"])
        if state["sizes"] is not None:
            self.sizes.set_state(state["sizes"])


def _stop_computing(S: Any) -> None:
    """Let the sweeper of a step that will be repeated do nothing until then."""
    S.levels[0].sweep.failure = SolveError(f"the step from t={S.time:.6g} is not needed")


def driver_of(controller: Any, description: dict[str, Any]) -> StepDriver | None:
    """The driver of a controller of pySDC, added to it; None for controllers that need none."""
    if getattr(controller, "drives_itself", False):
        return None
    controller.add_convergence_controller(StepDriver, description)
    return next(one for one in controller.convergence_controllers if isinstance(one, StepDriver))


class ShareBlock(Control):
    """Brings the finished steps of a block to the first rank, and the error of one step to all ranks.

    Sweepers keep their errors until then, as a rank that leaves a block early leaves the others waiting. The
    steps before the first that failed are finished; those after it started from what it left, and are not
    recorded.

    Examples
    --------
    >>> description["convergence_controllers"] = {ds.ShareBlock: {}}  # doctest: +SKIP
    """

    order = -1000  # before the others that communicate at the end of a block

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Tell the sweepers to keep their errors."""
        for level in (level for step in controller.steps for level in step.levels):
            level.sweep.defers = True
        self._record: StepRecord = hook_of(controller, StepRecord)

    def prepare_next_block(
        self, controller: Any, S: Any, size: int, time: float, Tend: float, comm: Any, **kwargs: Any
    ) -> None:
        """Exchange errors and steps; raises that of the earliest step that failed, on all ranks."""
        failure = next(filter(None, (level.sweep.failure for level in S.levels)), None) or unconverged(S)
        failed = comm.allgather(failure is not None)
        first = failed.index(True) if any(failed) else len(failed)
        collected = comm.gather(self._record.take() if comm.Get_rank() < first else [], root=0)
        if collected is not None:
            self._record.keep([row for rows in collected for row in rows])
        if any(failed):
            raise_everywhere(comm, first, failure)
