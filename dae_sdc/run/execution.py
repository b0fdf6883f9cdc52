"""One run of a pySDC controller, whose steps are kept whatever ends it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

from dae_sdc.compiled.pointwise import equations_at_points
from dae_sdc.control.adaptivity import AdaptivityDAE, stops_of
from dae_sdc.control.amplification import WatchAmplification
from dae_sdc.control.driver import KeepTimeLimit, ShareBlock
from dae_sdc.control.events import LocateEvents, accurate_slopes
from dae_sdc.control.hooks import (
    COUNTS,
    WINDOW,
    CheckInitialValue,
    MarkProvisionalStarts,
    RequireConvergence,
    Samples,
    StepRecord,
    Steps,
    hook_of,
)
from dae_sdc.control.invariants import Invariants
from dae_sdc.control.singular import SingularPointError, WatchSingularPoints, default_way, impasse
from dae_sdc.control.stepping import FixedSteps, SteppingController, asked
from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.interpolant import DenseOutput
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.memory import COUNTERS, counts_of, uncounted
from dae_sdc.dae.pointwise import ManifoldValues, Pointwise
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import current, limited, unchecked, under_way
from dae_sdc.errors import (
    ConvergenceError,
    DAEError,
    InputError,
    NewtonError,
    SingularMatrixError,
    SolveError,
    StepSizeError,
    UnresolvedError,
    words_of,
)
from dae_sdc.initial.consistent import listed
from dae_sdc.options import places_of
from dae_sdc.run.equations import NOT_REDUCED, Equations, index_near_end, read
from dae_sdc.run.plan import Plan
from dae_sdc.run.processes import GRACE, RUN_ENDED, Ranks, end_job, meet, on_root, ranks
from dae_sdc.run.results import check_target, put_down
from dae_sdc.run.solution import MOST_INACCURATE, Solution, about_problem, in_transients, put_down_of
from dae_sdc.run.start import Start
from dae_sdc.run.tracing import check_at_states
from dae_sdc.sharing import Lock, Recent, TimeBar, told_before
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.runge_kutta import RungeKuttaDAE
from dae_sdc.sweepers.tolerance import less_accurate
from dae_sdc.text import brief

if TYPE_CHECKING:
    from dae_sdc.initial.hidden import HiddenConstraints

# Ratio of the largest value of an algebraic unknown to those outside a part of the run, from which on the
# run tells that errors are relative to that value; and their largest size there, in units of rtol.
PEAK, PART_OF_PEAKS, ERROR_OF_PEAKS = 10.0, 0.01, 10.0
# Residual of an equation, relative to its terms and to the tolerance, above which a run without ``restol`` is
# repeated with one; the numbers of steps of which the residuals, and the terms by differences or not, are.
LARGEST_PART_LEFT, STATES_CHECKED, MATRICES = 1e-6, 1000, (2, 16)
SMALLEST_UNKNOWN = 1e-13  # Relative to the largest: below it may be rounding.
RESOLVED = 100.0  # Size of an unknown, in units of the tolerance of Newton's method, that this resolves.
PAUSE = 0.5  # Smallest time in seconds between two intermediate savings of a run.

# Parameters of the controller. Steps that iterate together take the newest value of the step before, which
# they need from index 2 on, as Jacobi iterations pass on values without a consistent u', and with adaptivity.
CONTROLLER = {"logger_level": logging.ERROR, "mssdc_jac": False}

MOST_IDLE = 16  # Controllers that are kept for the next runs of their kind.
MOST_UNKNOWNS = 200  # Largest number of unknowns of their problems.

_IDLE: Final[Recent[Any, list[Any]]] = Recent(MOST_IDLE, len)


class Carried(NamedTuple):
    """What a run has given."""

    solution: Solution
    located: LocateEvents | None  # The zeros of events and switches.
    sizes: Vector | None  # Of the unknowns, in a run to a tolerance.


def carried_out(plan: Plan) -> Carried:
    """What a plan gives, by the ranks that share it."""
    setup, request = plan.setup, plan.request
    with ranks(setup.parallel, request.comm, setup.label["nodes"], request.steps) as team:
        plan = plan.on(team)
        if (out := request.out) is not None:
            on_root(team.comm, lambda: check_target(out))
        if plan.saving is not None:
            on_root(team.comm, plan.saving.prepare)
        watched = places_of(request.watch, setup.problem.names)
        with TimeBar(plan.start.t0, plan.t_end, request.progress if team.root else False, watched) as bar:
            return Execution(plan, team).carry_out(bar)


def _too_small(problem: ProblemDAE, u: Vector, direct: bool) -> str:
    """Which unknowns are so small that Newton's method may end far from them, by its usual tolerance."""
    if problem.kernels is not None and not direct:  # whose residuals are looked at
        return ""
    sizes = np.abs(u).max(axis=0)
    small = (sizes > SMALLEST_UNKNOWN * sizes.max()) & (sizes < RESOLVED * problem.newton_tol)
    names = listed([problem.names[i] for i in np.flatnonzero(small)])
    least = f"newton_tol={problem.newton_tol:g} does not resolve"
    return f"{names} of sizes that {least}; give rtol in place of dt" if names else ""


def _check_residuals(problem: ProblemDAE, solution: Solution, restol: float) -> None:
    """Raise UnresolvedError if sweeps to a tolerance have left a part of the terms of an equation."""
    if restol <= 0.0 or len(solution.t) < 2:
        return
    terms, left, has_own = np.zeros(problem.n), np.zeros(problem.n), hasattr(problem, "jacobian")
    rows = np.unique(np.linspace(1, len(solution.t) - 1, STATES_CHECKED).astype(int))
    with uncounted(problem), np.errstate(all="ignore"), suppress(SolveError):
        for place, k in enumerate(rows):
            u, t = solution.u[k], float(solution.t[k])
            state, slope = problem.state(u), problem.state(np.nan_to_num(solution.du[k]))
            residual = np.abs(problem.evaluate(state, slope, t))
            # Beyond the tolerance it is that of equations which change at this time.
            left = np.fmax(left, residual * (residual <= restol))
            if place % max(1, len(rows) // MATRICES[has_own]) == 0:
                sizes = np.maximum(np.abs(u), SMALLEST_UNKNOWN * np.abs(u).max())
                terms = np.fmax(terms, linearize(problem, state, slope, t).terms(sizes, slope))
    coarse = np.flatnonzero((left > LARGEST_PART_LEFT * np.maximum(terms, restol)) & (terms > 0.0))
    if coarse.size:
        i = int(coarse[terms[coarse].argmin()])
        part, wanted = restol / terms[i], float(10.0 ** np.floor(np.log10(restol * terms[i])))
        error = UnresolvedError(
            f"restol={restol:g} is {part:.1g} times the terms of '{problem.equation_names[i]}'; "
            f"give restol={wanted:.0e}"
        )
        error.restol = wanted
        raise error


class RunRecord(StepRecord):
    """The steps of a run, which tells how far it has come."""

    run: Execution
    bar: TimeBar
    counted: int  # Steps that the bar has counted.

    def begin(self, run: Execution, bar: Any) -> None:
        """Record the steps of a run, which has yet to begin."""
        plan, self.run, self.bar = run.plan, run, bar
        self.interval = None if plan.count is None else (plan.start.t0, plan.t_end, plan.count)
        self.collects = run.team.steps is not None
        self.dense = plan.keeps or plan.t_eval is not None
        self.n_slopes = accurate_slopes(plan.setup.sweeper_class, run.problem)

    def end(self) -> None:
        """Let go of the run."""
        self.rows = Steps()
        del self.run, self.bar

    def pre_run(self, step: Any, level_number: int) -> None:
        """Forget the last run."""
        super().pre_run(step, level_number)
        self.counted = 0
        self.run.samples = self.run.sampling(self.n_slopes) if self.run.together == 1 else None

    def show_progress(self, time: float) -> None:
        """See :class:`StepRecord`."""
        if self.bar.shown:
            self.bar.reach(time, len(self.rows) - self.counted, self.rows.arrays()[2][-1])
        if self.run.samples is not None and len(self.rows) >= WINDOW:
            self.run.samples.advance(self)
        self.counted = len(self.rows)
        self.run.save_now_and_then(self)


class Execution:
    """One run of a controller, by the processes of a team."""

    def __init__(self, plan: Plan, team: Ranks) -> None:
        self.plan, self.team, self.problem = plan, team, plan.setup.problem
        self._forget()
        # The file of the result, None on ranks but the first; and the number of steps that iterate together.
        self.out = plan.request.out if team.root else None
        self.together = max(plan.request.steps or 1, team.steps_at_once)
        setup, cls = plan.setup, plan.setup.sweeper_class
        # The ranks that count work of their own; where they share stages, each counts all of it.
        self._counting = None if issubclass(cls, DirectMethod) else team.comm
        looks = plan.request.singular or hasattr(cls, "on_manifold") or default_way(setup.problem)
        self._watches = not setup.has_coarse_level and bool(looks)  # Whether singular points are looked for.
        self.is_new, self._told = True, plan.request.told()  # Whether the start may be that of a run before.
        self._likeness = setup.problem.likeness()
        self._stops = setup.description["convergence_controllers"].get(AdaptivityDAE, {}).get("stops")
        self.kind = self._kind()

    def _forget(self) -> None:
        """Forget all that a run tells of itself."""
        self.saved, self.pause = perf_counter(), PAUSE
        self.message = self.singular = self.sizes = self.errors = self.sharing = ""
        self.least_sizes: Vector | float = 0.0
        self.typical: Vector | None = None
        self.time: float | None = None
        self.drift: dict[str, float] = {}
        self.samples: Samples | None = None

    def again(self, equations: Equations, start: Start) -> Execution | None:
        """A run like this one, with other numbers in its equations and another start; None for other runs."""
        plan, problem, before = self.plan, equations.problem, self.plan.equations
        told = equations.told, equations.remark, equations.unknowns, equations.otherwise
        if (
            self._likeness is None
            or type(problem) is not type(before.problem)
            or problem.likeness() != self._likeness
            or told != (before.told, before.remark, None, None)
            or (start.t0, start.t_end) != (plan.start.t0, plan.t_end)
            or stops_of(problem, start.t0, start.t_end) != self._stops
            or len(equations.own_events) > 0
        ):
            return None
        run = copy.copy(self)
        run._forget()
        run.is_new = False
        run.plan = replace(plan, equations=equations, start=start, setup=replace(plan.setup, problem=problem))
        run.problem = problem
        plan.setup.description["sweeper_params"]["tolerance"].check_start(problem, start.u)
        return run

    def carry_out(self, bar: Any = None) -> Carried:
        """Run the controller; returns the solution up to the last step if the run fails numerically."""
        with root_logger_kept():
            self.open(bar).take()
        return self.close()

    def open(self, bar: Any = None) -> Execution:
        """Make controller and record ready for the run."""
        if self.plan.request.hidden_constraints:  # raises before the run if they are not known
            self.hidden_constraints(np.ones(self.problem.n))
        self.controller = controller = self._controller(self.kind)
        self.record = record = hook_of(controller, RunRecord)
        controller.kind = self.kind if self.is_new else None
        record.begin(self, TimeBar(self.plan.start.t0, self.plan.t_end, False) if bar is None else bar)
        self.watch = watch = hook_of(controller, WatchSingularPoints)
        if watch is not None:
            watch.asked = self.plan.request.singular or watch.asked
            if isinstance(controller, SteppingController):
                watch.guide(controller.adaptivity)
        self.growing = growing = hook_of(controller, WatchAmplification)
        if growing is not None:
            growing.t_end = self.plan.t_end
        self.levels = [level for step in controller.steps for level in step.levels]
        for level in self.levels:
            level.sweep.keeps_interior = record.dense
        if self.plan.saving is not None:
            controller.checkpoints = self.plan.saving.attach(controller, record, self.team)
        return self

    def close(self) -> Carried:
        """What the run has given."""
        controller, record, watch, levels = self.controller, self.record, self.watch, self.levels
        message, sweeper, log = self.message, levels[0].sweep, controller.return_stats()
        self.bring_together(record)
        if watch is not None:
            self.singular = watch.message()
        self.sharing = getattr(sweeper, "sharing", "")
        if self.plan.automatic and not self.sharing:
            self.sharing = f"serial: '{self.plan.setup.label['sweeper']}' on one rank has nothing to share"
        if isinstance(controller, SteppingController):
            self.sizes = controller.adaptivity.remark
            if self.plan.count is None and self.plan.request.rtol is not None:
                problem = sweeper.level.prob
                self.errors, scales = less_accurate(problem, sweeper.tolerance), problem.run_scales
                self.least_sizes, self.time, self.typical = scales.hidden, scales.time, scales.unknowns
        for control in controller.convergence_controllers:
            if isinstance(control, Invariants):
                self.drift = control.summary()
        located = getattr(controller, "events", None)
        if located is not None and located.functions.failed:
            message = message or located.message
        record.rows.fit()
        with unchecked():  # what has been computed is kept
            solution = self.solution(record, message, self._work(controller, levels), log, located)
            check_at_states(self.problem, solution.t, solution.u, solution.du)
            if self.plan.request.restol is None and self.plan.count is not None:
                restol = self.plan.setup.description["level_params"]["restol"]
                _check_residuals(self.problem, solution, restol)
        if self.kind is not None and not message:
            record.end()
            _IDLE.keep(self.kind, [*_IDLE.get(self.kind, ()), controller])
        if solution.success and self.typical is not None:
            solution = solution.with_remark(self._in_transients(solution, located))
        if self.plan.count is not None:
            direct = issubclass(self.plan.setup.sweeper_class, DirectMethod)
            solution = solution.with_remark(_too_small(self.problem, solution.u, direct))
        told, last = self.plan.equations.told, (float(solution.t[-1]), solution.u[-1])
        solution = solution.with_remark(index_near_end(self.problem, told, *last))
        if located is None or located.sliding is None:
            solution = put_down_of(solution, self.out)
        return Carried(solution, located, self.typical)

    def _kind(self) -> tuple[Any, ...] | None:
        """What runs have in common that one controller can serve one after the other; None without one."""
        plan, problem, request = self.plan, self.problem, self.plan.request
        description = plan.setup.description
        cls, controllers = description["sweeper_class"], description["convergence_controllers"]
        if (
            not (isinstance(cls, type) and (issubclass(cls, RungeKuttaDAE) or hasattr(cls, "on_manifold")))
            or not cls.__module__.startswith("dae_sdc.")
            or controllers.keys() != {AdaptivityDAE}
            or len(request.hooks) > 0
            or request.controller_params
            or plan.saving is not None
            or self.team.size > 1
            or problem.n > MOST_UNKNOWNS
        ):
            return None
        settings = dict(description["sweeper_params"])
        tolerance = settings.pop("tolerance")
        atol = None if tolerance.atol is None else tolerance.atol.tobytes()
        asked = tolerance.rtol, atol, tolerance.left_out, *settings.items()
        return cls, type(problem), problem.index in (0, 1), self._watches, self._likeness, *asked

    def _controller(self, kind: tuple[Any, ...] | None) -> Any:
        """The controller with its hooks, which may be that of an earlier run of this kind."""
        team, setup, hooks = self.team, self.plan.setup, self.plan.request.hooks
        description = setup.with_step(self.plan.dt)
        *others, idle = _IDLE.pop(kind, None) or [None]
        if idle is not None:
            if others:
                _IDLE.keep(kind, others)
            problem = idle.MS[0].levels[0].prob
            if self._likeness is not None:  # nothing else of it changes in steps
                problem.take_numbers(self.problem)
            else:
                with told_before():
                    problem = description["problem_class"](**description["problem_params"])
            idle.renew(problem, description["convergence_controllers"][AdaptivityDAE])
            idle.show_stages(False)
            return idle
        if team.nodes is not None:
            description["sweeper_params"]["comm"] = team.nodes
        own_hooks: list[type[Any]] = [RunRecord, *hooks]
        if self.plan.count is None:
            own_hooks = [CheckInitialValue, *own_hooks]
        elif team.steps is None:
            own_hooks = [CheckInitialValue, RequireConvergence, *own_hooks]
        else:
            # Checked on all ranks here, because hooks would raise on one rank alone.
            check_consistent(setup.problem, self.plan.start.u, self.plan.start.t0)
            description["convergence_controllers"][ShareBlock] = {}
        if self.together > 1:
            own_hooks.append(MarkProvisionalStarts)
        else:
            own_hooks[:0] = [WatchSingularPoints] * self._watches
        if team.steps is None and setup.problem.index not in (0, 1):
            own_hooks.append(WatchAmplification)
        if self.plan.count is not None and current() is not None:
            description["convergence_controllers"][KeepTimeLimit] = {"comm": team.comm}
        params = {**CONTROLLER, **(self.plan.request.controller_params or {}), "hook_class": own_hooks}
        params.setdefault("dump_setup", params["logger_level"] <= logging.INFO)
        with told_before():  # the setup has made the problem before, and warned of its parameters
            if self.plan.count is None or FixedSteps in description["convergence_controllers"]:
                controller = SteppingController(params, description)
                controller.show_stages(len(hooks) > 0)
            elif team.steps is None:
                controller = controller_nonMPI(self.plan.request.steps or 1, params, description)
            else:
                from pySDC.implementations.controller_classes.controller_MPI import controller_MPI

                controller = controller_MPI(params, description, team.steps)
        controller.hooks[:] = asked(controller.hooks, hooks)
        return controller

    def take(self) -> Execution:
        """Take all steps of a run; ``message`` says why it failed numerically."""
        controller, record, watch = self.controller, self.record, self.watch
        try:
            # pySDC adds up step sizes; an end half a step earlier makes the number of steps certain.
            adapts = self.plan.setup.adaptive or self.plan.count is None
            end = self.plan.t_end if adapts else self.plan.t_end - 0.5 * self.plan.dt
            with limited() if self.team.size == 1 else unchecked(), under_way("a step was taken"):
                controller.run(u0=self.plan.start.u, t0=self.plan.start.t0, Tend=end)
            self.check_in()
        except SolveError as error:
            # A hook may raise such an error on one rank alone.
            if not self.check_in(GRACE):
                raise
            self.message = str(error)
            if isinstance(error, SingularPointError):
                return self
            diagnosis = "" if watch is None else watch.diagnosis()
            if self.growing is not None:
                diagnosis += self.growing.remark()
            unsolved = isinstance(error, ConvergenceError | NewtonError | SingularMatrixError | StepSizeError)
            if unsolved and self.problem.index in (None, 0, 1) and not diagnosis and self.team.size == 1:
                with suppress(DAEError), limited(), under_way("the cause of a failure was looked for"):
                    diagnosis = impasse(self.problem, *self.at_steps(record)[:3])
            self.message += f"{diagnosis}{told_index(self.plan) if unsolved else ''}"
        except BaseException as error:
            # The steps are kept even if an interrupt or an exception of the problem ends the run.
            if self.out is not None and len(record.rows):
                put_down(self.solution(record, f"ended by {type(error).__name__}"), self.out, False)
            together = self.check_in(GRACE)
            if isinstance(error, SystemExit) and not together:  # others wait for what this rank will not send
                end_job(words_of(error))
            raise
        return self

    def _work(self, controller: Any, levels: Sequence[Any]) -> dict[str, int]:
        """Sum of the work counters over all ranks."""
        work = np.array([counts_of(level.prob) for level in levels], dtype=np.float64).sum(axis=0)
        total = dict(zip(COUNTERS, map(int, self.team.total(work, self._counting)), strict=True))
        sweeper, adaptivity = levels[0].sweep, getattr(controller, "adaptivity", None)
        if hasattr(sweeper, "charts"):
            total["charts"] = sweeper.charts
        more = {"fewer_nodes": getattr(sweeper, "fewer_nodes", 0), "jumps": getattr(adaptivity, "jumps", 0)}
        return total | {name: count for name, count in more.items() if count}

    def check_in(self, patience: float = float("inf")) -> bool:
        """Whether all ranks reach the end of the run within ``patience`` seconds."""
        comm = self.team.comm
        return comm is None or comm.Get_size() == 1 or meet(comm, RUN_ENDED, patience)

    def save_now_and_then(self, record: StepRecord) -> None:
        """Save the finished steps now and then, in at most a twentieth of the time, in case of a kill."""
        began = perf_counter()
        if self.out is None or began - self.saved < self.pause:
            return
        put_down(self.solution(record, "the run had not ended when this was written"), self.out, False)
        self.saved = perf_counter()
        self.pause = max(PAUSE, 20.0 * (self.saved - began))

    def bring_together(self, record: StepRecord) -> None:
        """Collect all steps on all ranks, with the work of all ranks that shared the nodes of a step."""
        team = self.team
        if team.steps is not None:
            record.rows = team.steps.bcast(record.rows, root=0)
        if team.nodes is not None and len(record.rows):
            columns = record.rows.columns()
            work = np.column_stack([columns[name] for name in COUNTERS]).astype(float)
            columns |= dict(zip(COUNTERS, team.total(work, self._counting and team.nodes).T, strict=True))
            record.rows.fill(columns, record.rows.dense)

    def solution(
        self,
        record: StepRecord,
        message: str,
        total: Mapping[str, int] | None = None,
        log: Mapping[Any, Any] | None = None,
        located: LocateEvents | None = None,
    ) -> Solution:
        """The solution up to the last step, with the work of the finished steps unless ``total`` is given."""
        setup, t0, problem = self.plan.setup, self.plan.start.t0, self.problem
        description, solved, between = setup.description, True, None
        found = None if self.samples is None else self.samples.ended(record.rows, total is not None)
        if found is not None:
            t, u, du, taken = found.times, found.u, found.du, found.steps
            per_step = {"residual": found.residuals, **dict(zip(COUNTS, found.counts.T.copy(), strict=True))}
            work = dict(zip(COUNTS, found.total.tolist(), strict=True))
        else:
            t, u, du, per_step, data = self.at_steps(record)
            taken, work = len(t) - 1, {name: int(per_step[name].sum()) for name in COUNTS}
            if (hidden := self.hidden_constraints(np.abs(u).max(axis=0))) is not None:
                solved = bool(hidden.correct(t[1:], u[1:], du[1:], -np.diff(t)).all())
            if self.plan.keeps or self.plan.t_eval is not None:
                between = DenseOutput(t0, u[0], t[1:], u[1:], data, du[0], du[1:], record.n_slopes)
            if located is not None and located.behind and located.behind[0] >= t[-1] and not message:
                u, du, behind = u.copy(), du.copy(), located.behind[1]
                u[-1], du[-1] = behind
                between = None if between is None else replace(between, behind=behind)
        sizes = None if between is None else between.largest()
        sizes = sizes if found is None else found.largest
        corrects = found is None or bool((found.sizes[: found.done] > 0.0).any())
        if located is not None:
            located.settle(between)
        of_events = () if located is None else (located.message, located.functions.remark)
        largest = np.abs(u).max(axis=0) if sizes is None else sizes
        corrected = self.hidden_constraints(largest) if self.errors else None
        if solved and corrected is not None and corrected.determines(problem.index or 0):
            self.errors = ""  # values that follow from hidden constraints are exact
        remarks = (*of_events, self.singular, self.sizes, self.plan.remark, self.errors)
        told = {"chosen_for": self.plan.chosen_for, "equations": self.plan.equations.told}
        told |= {"sharing": self.sharing}
        watches = ([], []) if located is None else (located.events, [*located.switches, *located.timed])
        records = [tuple(watch.record(problem.n) for watch in each) for each in watches]
        solution = Solution(
            equations=self.pointwise(sizes, located) if sizes is not None and corrects else None,
            t=t,
            u=u,
            du=du,
            names=problem.names,
            units=problem.units,
            success=not message,
            message=message or "; ".join(part for part in remarks if part),
            stats={"steps": taken, "rejected": record.rejected, **work, **(total or {}), **self.drift},
            per_step=per_step,
            parameters={
                **self._told,
                **setup.label,
                **{name: text for name, text in told.items() if text},
                "dt": self.plan.dt,
                "t0": t0,
                "t_end": self.plan.t_end,
                **about_problem(problem),
                "restol": description["level_params"]["restol"],
                "maxiter": description["step_params"]["maxiter"]
                + description["sweeper_params"].get("initial_sweeps", 0),
                "parallel": setup.parallel or "",
                "ranks": self.team.size,
                **({} if self.plan.saving is None else self.plan.saving.parameters),
            },
            log=log or {},
            events=records[0],
            switches=records[1],
            dense=between,
            saves_dense=self.plan.request.dense,
            unknowns=self.plan.equations.unknowns,
        )
        solution = solution.with_corrected_events()
        if found is not None:
            solution = solution.reached(found.done, found.sizes)
        elif self.plan.t_eval is not None:
            solution = solution.at(self.plan.t_eval)
        if solution.dense is not None and not self.plan.keeps:
            solution = replace(solution, dense=None)
        if len(solution.t):
            return solution
        # It stays at its start where the run has reached none of the times asked for.
        start = self.plan.start
        u, du = (np.array(values)[None] for values in (start.u, start.du))
        per_step = {name: np.zeros(1, values.dtype) for name, values in solution.per_step.items()}
        return replace(solution, t=np.array([start.t0]), u=u, du=du, per_step=per_step)

    def _in_transients(self, solution: Solution, located: LocateEvents | None) -> str:
        """A remark on unknowns that change too fast at some times for the tolerance of a run."""
        begins = [self.plan.start.t0, *stops_of(self.problem, self.plan.start.t0, self.plan.t_end)]
        for watch in () if located is None else located.watches:
            begins += watch.times if watch.changes else []
        about: Any = {"sizes": self.typical, "rtol": self.plan.request.rtol, "begins": np.sort(begins)}
        late = in_transients(self.problem.names, solution.t, solution.u, solution.du, **about)
        return "; ".join(filter(None, [late, _beside_peaks(self.plan, solution, self.typical)]))

    def at_steps(self, record: StepRecord) -> tuple[Vector, Vector, Vector, dict[str, Any], Any]:
        """Times, u, u', work, and data for dense output, of the start and of all steps in order."""
        start, dense = self.plan.start, record.rows.dense
        first = {"t": start.t0, "residual": 0.0, "u": start.u.view(np.ndarray), "du": start.du}
        columns = record.rows.columns(first)
        if (columns["t"][1:] < columns["t"][:-1]).any():
            order = np.argsort(columns["t"], kind="stable")
            columns = {name: values[order] for name, values in columns.items()}
            dense = [dense[number - 1] for number in order[1:].tolist()] if dense else dense
        per_step = {name: columns[name] for name in ("residual", *COUNTS)}
        return columns["t"], columns["u"], columns["du"], per_step, dense

    def sampling(self, n_slopes: int) -> Samples | None:
        """The samples at the output times, taken during the run; None if all steps must be kept."""
        # Events within steps and checkpoints need all steps, and ranks add up each other's work at the end.
        kept = self.plan.keeps or self.plan.locates or self.plan.saving is not None or self.team.size > 1
        if self.plan.t_eval is None or kept:
            return None
        start = self.plan.start
        return Samples(self.plan.t_eval, start.t0, np.array(start.u), start.du, n_slopes)

    def pointwise(self, sizes: Vector, located: LocateEvents | None) -> Pointwise:
        """The correction of values between steps by the equations, for given sizes of the unknowns."""
        problem = self.problem
        if getattr(self.plan.setup.sweeper_class, "on_manifold", False):
            return ManifoldValues(problem)
        return self.hidden_constraints(sizes) or equations_at_points(
            problem, np.maximum(sizes, self.least_sizes), () if located is None else located.course
        )

    def hidden_constraints(self, sizes: Vector) -> HiddenConstraints | None:
        """What makes values satisfy hidden constraints, where that is wanted."""
        wanted, problem = self.plan.request.hidden_constraints, self.problem
        unasked = self.plan.count is not None or problem.index in (None, 0, 1)
        if wanted is False or (wanted is None and unasked):
            return None
        sizes, found = np.maximum(sizes, self.least_sizes), None
        if wanted and not hasattr(problem, "form") and self.plan.request.trace is not False:
            problem = read(copy.copy(problem), self.plan.start.u, True).problem
        if hasattr(problem, "form"):
            from dae_sdc.initial.hidden import hidden_constraints

            found = hidden_constraints(problem, self.plan.start.t0, sizes, wanted is True, self.time)
        if found is None and wanted:
            raise InputError(
                "the hidden constraints of this problem are not known, or it jumps; give a model, or leave "
                "trace=False or hidden_constraints out"
            )
        return found


def _beside_peaks(plan: Plan, solution: Solution, typical: Vector | None) -> str:
    """A remark on algebraic unknowns whose tolerance is that of rare peaks."""
    problem, rtol = plan.setup.problem, plan.request.rtol
    told = plan.request.atol is not None or problem.given_nominal is not None
    if told or rtol is None or len(solution.t) < 2:
        return ""
    t, u, sizes = solution.t, solution.u, np.abs(solution.u).max(axis=0)
    in_peaks = (t[1:] - t[:-1]) / (t[-1] - t[0]) @ (PEAK * np.abs(u[1:]) > sizes)
    # Values up to the tolerance are no peaks.
    is_large = sizes > (0.0 if typical is None else rtol * typical)
    rare = np.flatnonzero(is_large & (in_peaks < PART_OF_PEAKS)).tolist()
    if not rare:
        return ""
    with suppress(DAEError), uncounted(problem), np.errstate(all="ignore"):
        slope = np.nan_to_num(solution.du[-1], posinf=0.0, neginf=0.0)
        mass = linearize(problem, problem.state(u[-1]), problem.state(slope), float(t[-1])).mass
        rare = [j for j in rare if not abs(mass[:, [j]]).max() > 0.0]
        if rare:
            shown, largest = brief([problem.names[j] for j in rare], MOST_INACCURATE), sizes[rare].max()
            return (
                f"{shown}: errors up to {ERROR_OF_PEAKS * rtol * largest:.1g}, as rtol={rtol:g} is relative "
                f"to {largest:.3g}, reached in less than {PART_OF_PEAKS:.0%} of the run; give atol for more "
                f"accuracy"
            )
    return ""


def told_index(plan: Plan) -> str:
    """Text on the index for the message of a run whose steps fail; empty below index 2."""
    problem, equations, started = plan.setup.problem, plan.equations.told, plan.remark
    if problem.index is None:
        return "; the index of the equations is not known"
    if problem.index < 2:
        return f"; {started}" if "reduce=False" in started else ""
    how = "found" if equations or hasattr(problem, "form") else "declared"
    names: dict[int, list[str]] = {}
    for name, index in zip(problem.names, problem.variable_index, strict=True):
        names.setdefault(index, []).append(name)
    parts = [f"{listed(names[k])} of index {k}" for k in sorted(names, reverse=True) if k > 1]
    tried = equations[equations.find(NOT_REDUCED) :] if NOT_REDUCED in equations else ""
    return "; ".join(filter(None, (f"; index {problem.index} is {how}, with {', '.join(parts)}", tried)))


_LOCK = Lock()
_RUNS: Final[list[tuple[list[logging.Handler], int]]] = []  # What the root logger was before runs under way.


@contextmanager
def root_logger_kept() -> Iterator[None]:
    """Restore the root logger after runs, also concurrent ones: pySDC replaces its handlers and level."""
    root = logging.getLogger()
    with _LOCK:
        _RUNS.append(_RUNS[0] if _RUNS else (root.handlers[:], root.level))
    try:
        yield
    finally:
        with _LOCK:
            handlers, level = _RUNS.pop()
            if not _RUNS and (root.handlers, root.level) != (handlers, level):
                root.handlers[:] = handlers
                root.setLevel(level)
