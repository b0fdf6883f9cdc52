"""Solve one DAE over an interval.

Example: dae-sdc solve pendulum --sweeper semi-implicit --nodes 3 --dt 0.05 --t-end 1 --out pendulum.npy
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from pySDC.core.controller import _Pars as ControllerParameters
from pySDC.core.default_hook import DefaultHooks
from pySDC.core.hooks import Hooks
from pySDC.core.timings import CPUTimings
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from pySDC.implementations.hooks.log_restarts import LogRestarts
from tqdm import tqdm

from dae_sdc.arguments import checked
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.control.amplification import WatchAmplification
from dae_sdc.control.blocks import ShareBlock
from dae_sdc.control.events import LocateEvents, as_events
from dae_sdc.control.hooks import (
    CheckInitialValue,
    MarkProvisionalStarts,
    RequireConvergence,
    StepRecord,
)
from dae_sdc.control.invariants import Invariants, require_invariants
from dae_sdc.control.singular import SingularPointError, WatchSingularPoints
from dae_sdc.control.singular_determinants import FIRST_ORDER, default_way, require_way
from dae_sdc.control.stepping import SteppingController
from dae_sdc.control.steps import COUNTS
from dae_sdc.dae.consistency import check_consistent
from dae_sdc.dae.counters import COUNTERS
from dae_sdc.dae.interpolant import DenseOutput, StepData
from dae_sdc.dae.pointwise import ManifoldValues, Pointwise, PointwiseEquations
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InputError, SolveError, require_count, require_number
from dae_sdc.registry import unknown
from dae_sdc.run import options
from dae_sdc.run.adaptive import (
    DEFAULT_RTOL,
    Limits,
    adapt,
    default_nodes,
    default_sweeper,
    explicit_method,
    locate,
    stops_of,
)
from dae_sdc.run.description import (
    ProblemLike,
    Setup,
    SweeperLike,
    check_interval,
    check_mapping,
    describe,
    initial_state,
    make_problem,
    named,
    number_of_steps,
    parameters_of,
    poor_choice,
)
from dae_sdc.run.files import partial_name
from dae_sdc.run.models import is_file, make_model
from dae_sdc.run.preparation import prepare
from dae_sdc.run.processes import GRACE, RUN_ENDED, Ranks, everyone, meet, on_root, ranks
from dae_sdc.run.results import check_target, put_down
from dae_sdc.run.resume import Saving, one_at_a_time
from dae_sdc.run.sampling import WINDOW, Samples
from dae_sdc.run.solution import DENSE_LIMIT, Solution, derivative_at_start, output_times, plain
from dae_sdc.run.unknowns import Unknowns
from dae_sdc.sharing import Lock, tell, told_before
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.tolerance import Tolerance

QUIET = logging.ERROR

INITIAL_SWEEPS = 20
"""Sweeps that a step may do before the controller's first iteration, where nothing looks at iterations."""

PER_ITERATION = ("pre_iteration", "post_iteration", "pre_sweep", "post_sweep")
"""Methods of hooks that look at iterations."""

MOST_TOGETHER = 10_000
"""Steps that may iterate together: each has a level of its own in memory."""

MOST_TIMES = 10_000_000
"""Times at which a solution may be asked for."""

MOST_TAGGED = 99
"""Iterations whose messages pySDC tells apart from those of another level: tags are 100 level + iteration."""

SETTINGS_OF_PROBLEMS = {"problem_params", "newton_tol", "linear_solver"}
"""Settings that say nothing about the method."""

PAUSE = 0.5
"""Least time in seconds between two savings of a run that goes on."""

CONTROLLER = {"logger_level": QUIET, "mssdc_jac": False}
"""Steps that iterate together take the newest value of the step before.

From index 2 on they need it: Jacobi iterations pass on values that no consistent u' belongs to. Adaptive
steps need it too."""


@checked("dae_sdc.run.description:describe", without=("problem", "sweeper", "parallel"))
def solve(
    problem: ProblemLike,
    *,
    sweeper: SweeperLike | None = None,
    rtol: float | None = None,
    atol: Any = None,
    leave_out: Sequence[str] = (),
    dt: float | None = None,
    dt_max: float | None = None,
    time_limit: float | None = None,
    max_order: int | None = None,
    t_end: float | None = None,
    t0: float | None = None,
    u0: Any = None,
    simplify: bool | None = None,
    reduce: bool | None = None,
    t_eval: Any = None,
    dense: bool | None = None,
    events: Any = (),
    project: bool | None = None,
    singular: str | None = None,
    steps: int | None = None,
    parallel: str | None = None,
    comm: Any = None,
    hooks: Sequence[type[Any]] = (),
    controller_params: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    checkpoint: str | Path | None = None,
    every: int | None = None,
    resume: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Solution:
    """Solve a DAE inside pySDC's controller, to a tolerance or with a fixed step size.

    Parameters
    ----------
    problem : str, type, ProblemDAE or Model
        Name in the library, class or instance; a model, its name, ``file.mo`` or ``file.py:name``.
    sweeper : str or type, optional
        Name or class of the sweeper. If not given, "fully-implicit" with a fixed step size, and with ``rtol``
        a Radau IIA method of as many nodes as pay at the tolerance, see
        :func:`dae_sdc.run.adaptive.default_sweeper`. Quasilinear equations that are not stiff get an explicit
        method that keeps their constraints, see :func:`dae_sdc.run.adaptive.explicit_method`, with ``rtol``
        1e-6 if neither ``rtol`` nor ``dt`` is given; ``parameters["chosen_for"]`` says why. With "ida" or
        "cvode" SUNDIALS does the run, see :func:`dae_sdc.run.sundials.sundials`.
    rtol : float, optional
        Relative tolerance: step sizes are chosen by error estimates. A fixed step size if not given. Sweepers
        of spectral deferred corrections end their sweeps by it, and take as many nodes as pay unless told.
    atol : float or array_like, shape (n,), optional
        Absolute tolerance; ``rtol`` times the ``nominal`` values of the problem if not given, and times the
        largest value so far of each unknown where there are none.
    leave_out : sequence of str
        Names of unknowns whose error does not count. That of an unknown of index k counts
        min(1, h / tau)^(k - 1) times, see :class:`dae_sdc.sweepers.tolerance.Tolerance`.
    dt, t0, t_end : float, optional
        Step size, start and end; those of the problem where not given. A fixed ``dt`` must divide the
        interval; with ``rtol`` it is the first step.
    dt_max, time_limit : float, optional
        With ``rtol``: largest step, and seconds after which the run is given up.
    max_order : int, optional
        With "ida" and "cvode": highest order of their formulas.
    u0 : array_like, shape (n,), or mapping of str to float, optional
        Initial value, consistent with the equations, of a model also by names; the problem's own if not
        given. Of models it is found from their start values, see :func:`dae_sdc.run.initial.initial`; the
        message says what was changed, and where other starts were found. What contradicts hidden constraints
        is refused: a ``u0``, and start values of all states that satisfy the equations as they are written.
    simplify : bool, optional
        Whether trivial equations of a model are removed first, see :func:`dae_sdc.run.simplify.simplify`;
        those of Modelica files if not given. The state has the unknowns that are left;
        :meth:`Solution.values` gives all of the original ones, by their names.
    reduce : bool, optional
        Whether the index of a model is reduced, see :func:`dae_sdc.run.reduce.reduce`; if not given, where it
        is above 3, which no method takes, and the message says so.
    t_eval : array_like, shape (K,), optional
        Increasing times within the interval at which the solution is given instead of at the ends of the
        steps, which stay as they are.
    dense : bool, optional
        Whether to keep what the solution between the steps needs, ``solution(t)``; up to 10000 unknowns if
        not given. True writes it to a file beside ``out`` too.
    events : callable, Event, or a sequence of these
        Functions f(u, t) whose zeros are wanted, with the attributes ``terminal``, ``direction`` and ``name``
        where needed, see :class:`dae_sdc.control.events.Event`.
    project : bool, optional
        True: move the end of each step to the nearest state at which the invariants of the problem vanish,
        ``invariants(u, t)`` with ``invariants_jacobian(u, t)`` and ``invariant_names``; quasilinear problems
        have their constraints for them. ``stats`` then has ``drift``, the largest invariant at the ends of
        steps, ``drift_before_projection``, ``projections`` and ``projection_iterations``, and ``log`` the
        first two for every step. False: ``drift`` alone. Not even that if not given.
    singular : {"stop", "pass"}, optional
        What is done where the equations no longer determine their solution, see
        :class:`dae_sdc.control.singular.WatchSingularPoints`: the run ends before such a point, or goes on
        along the branch that the method takes; the message has time, place and rank. If not given, "stop" for
        models and "pass" for quasilinear equations of first order and methods on manifolds; others are not
        looked at.
    steps : int, optional
        Number of time steps that iterate together (multi-step SDC, PFASST with ``coarse_nodes``): 1, and in
        parallel as many as the ranks allow.
    parallel : str, optional
        What the ranks of MPI share: the "nodes" of a step, the "steps" of a block, or "both". All ranks call,
        all return the same solution; rank 0 alone writes and shows progress.
    comm : mpi4py.MPI.Intracomm, optional
        The ranks; COMM_WORLD if not given.
    hooks : sequence of type
        pySDC hooks to run besides those that record the solution.
    controller_params : mapping, optional
        Parameters of pySDC's controller, for instance ``mssdc_jac``.
    out : str or Path, optional
        File to save the solution to, whose name gets ``.npy`` where that is missing. Until the run has come
        to its end, and when it fails, what it has computed lies in ``<out>.partial.npy`` beside.
    checkpoint : str or Path, optional
        File, ending in .npz, to which the complete state of the run is written now and then, for runs of one
        step at a time on one level. It is replaced as a whole, and stays when the run fails or is killed.
    every : int, optional
        Accepted steps between two checkpoints; if not given, 10, and a tenth of the time is spent at most.
    resume : bool
        Go on from ``checkpoint``, with the same arguments as before; begin at the start if there is no file.
        The solution is that of the whole run, with ``parameters["resumed_at"]``, None at the start.
    progress : bool
        Show a progress bar if standard error is a terminal.
    **settings
        See :func:`dae_sdc.run.description.describe`: nodes, quad, qdelta, restol, newton_tol, maxiter, ...

    Returns
    -------
    Solution
        With ``success`` False, a ``message`` and the steps computed so far if the run failed numerically.

    Raises
    ------
    InputError
        If something given cannot be used.
    """
    made = prepare(problem, simplify, reduce, u0, t0, settings)
    problem, u0, settings = made.problem, made.u0, made.settings
    if isinstance(sweeper, str) and sweeper not in SWEEPERS:
        from dae_sdc.run.sundials import SOLVERS, sundials

        if sweeper in SOLVERS:
            others = {"events": events, "steps": steps, "parallel": parallel, "comm": comm, "hooks": hooks}
            others |= {"controller_params": controller_params, "checkpoint": checkpoint, "every": every}
            others |= {
                "resume": resume,
                "project": True if project is not None else None,
                "singular": singular,
            }
            others |= settings
            params = others.pop("problem_params", None)
            unset = [name for name, value in others.items() if value is None or value is False or value == ()]
            useless = [name for name in others if name not in unset]
            if useless:
                raise InputError(f"these options have no effect on '{sweeper}': {', '.join(useless)}")
            if rtol is None:
                raise InputError(f"'{sweeper}' chooses its steps by a tolerance; give rtol")
            solution = sundials(
                problem,
                sweeper,
                rtol=rtol,
                atol=atol,
                leave_out=leave_out or None,
                max_order=max_order,
                dt=dt,
                dt_max=dt_max,
                time_limit=time_limit,
                t0=t0,
                t_end=t_end,
                u0=u0,
                t_eval=t_eval,
                dense=dense,
                problem_params=params,
                out=out,
                progress=progress,
            )
            if made.unknowns is None:
                return solution
            solution = replace(solution, unknowns=made.unknowns, message=solution.message or made.remark)
            if out is not None:
                put_down(solution, out, solution.success)
            return solution
    if max_order is not None:
        raise InputError("max_order belongs to the sweepers 'ida' and 'cvode'; leave it out")
    everyone(parallel, comm)  # what is wrong on one rank alone must end the others too
    known = [name for name in parameters_of(describe) if name not in ("problem", "sweeper")]
    for name in settings:
        if name not in known:
            raise InputError(unknown("option", name, known))
    if steps is not None:
        require_count("the number of steps that iterate together", steps, MOST_TOGETHER)
    chosen = ""
    if sweeper is None:
        sweeper, chosen = _by_type(problem, settings)
        if sweeper is not None and rtol is None and dt is None:
            rtol = DEFAULT_RTOL
    if rtol is None:
        bounds = {"atol": atol, "leave_out": leave_out or None, "dt_max": dt_max, "time_limit": time_limit}
        useless = [name for name, value in bounds.items() if value is not None]
        if useless:
            raise InputError(f"without rtol, with a fixed step size, no effect have: {', '.join(useless)}")
        sweeper = "fully-implicit" if sweeper is None else sweeper
    elif sweeper is None:
        sweeper = default_sweeper(require_number("rtol", rtol), settings.pop("nodes", None))
    elif sweeps_nodes(sweeper):
        unused = [name for name in ("restol", "residual_type") if settings.get(name) is not None]
        if unused:
            raise InputError(f"{', '.join(unused)} have no effect with rtol, which tells when sweeps end")
        if settings.get("nodes") is None:
            settings["nodes"] = default_nodes(require_number("rtol", rtol))
    setup = describe(problem, sweeper=sweeper, parallel=parallel, **settings)
    poor = poor_choice(setup)
    if poor:
        tell(poor)
    limited = settings.get("maxiter") is not None
    own = setup.problem
    start = own.interval[0] if t0 is None else require_number("t0", t0)
    end = own.interval[1] if t_end is None else require_number("t_end", t_end)
    limits = Limits.checked(dt=dt if rtol is not None else None, dt_max=dt_max, time_limit=time_limit)
    size = own.dt if dt is None else require_number("dt", dt)
    times = None if t_eval is None else output_times(t_eval, start, end)
    if singular is not None:
        require_way(singular, own)
        several = steps not in (None, 1) or isinstance(setup.description["sweeper_class"], list)
        if several or setup.parallel in ("steps", "both"):
            raise InputError(
                "singular points are looked for in runs of one step at a time on one level; leave steps, "
                "coarse_nodes, parallel='steps' and singular out"
            )
    if dense not in (None, True, False):
        raise InputError(f"dense must be True, False or None; got {dense!r}")
    if not isinstance(hooks, Sequence) or not all(isinstance(hook, type) for hook in hooks):
        raise InputError(f"hooks must be a sequence of pySDC hook classes; got {hooks!r}")
    check_mapping("controller_params", controller_params)
    _check_controller_params(controller_params or {})
    if rtol is None:
        count = number_of_steps(start, end, size)
    else:
        count = None
        check_interval(start, end)
        if steps not in (None, 1):
            raise InputError("with rtol steps are taken one at a time; leave steps out, or give dt instead")
        tolerance = Tolerance.checked(own, rtol, atol, leave_out)
        adapt(setup, tolerance, limits, start, end, stops_of(own, start, end))
    fixed: dict[str, Any] | None = None
    if count is not None:
        fixed = {
            "dt": (end - start) / count,
            "count": count,
            "t_end": end,
            "stops": stops_of(own, start, end),
        }
    slopes, together = _number_of_slopes(setup), steps not in (None, 1)
    watched = as_events(events)
    locates = locate(setup, watched, end - start, slopes, fixed, together)
    first = initial_state(own, u0, start)
    if rtol is not None:
        tolerance.check_start(own, first)
    if not limited and settings.get("nsweeps") is None and not setup.adaptive and steps in (None, 1):
        sweep_at_once(setup, hooks)
    if project is not None:
        _watch_invariants(setup, project, together)
    saving = Saving.checked(checkpoint, every, resume)
    if saving is not None:
        one_at_a_time(setup, fixed, together)
        about = {"rtol": rtol, "atol": atol, "leave_out": tuple(leave_out), "t0": start, "t_end": end}
        about |= {"dt": dt if count is None else size, "dt_max": dt_max, "u0": np.array(first)}
        between = own.n <= DENSE_LIMIT if dense is None else dense
        about["dense output"] = between or times is not None
        about["project"] = project
        saving.describe(setup, about, watched)
    with ranks(setup.parallel, comm, setup.label["nodes"], steps) as team:
        allowed = setup.description["step_params"]
        if not limited:
            # A step waits for those before it while it iterates.
            allowed["maxiter"] *= max(steps or 1, team.steps_at_once)
        if team.steps is not None and isinstance(setup.description["sweeper_class"], list):
            if limited and allowed["maxiter"] > MOST_TAGGED:
                raise InputError(
                    f"with a coarse level and steps on ranks of their own, pySDC tells apart the messages of "
                    f"at most {MOST_TAGGED} iterations; got maxiter={allowed['maxiter']}"
                )
            allowed["maxiter"] = min(allowed["maxiter"], MOST_TAGGED)
        if out is not None:
            on_root(team.comm, lambda: check_target(out))
        if saving is not None:
            on_root(team.comm, saving.prepare)
        show = progress and team.root
        with tqdm(total=count, unit="step", disable=None if show else True, leave=False) as bar:
            run = _Run(setup, first, start, end, count, team, out if team.root else None, times, dense)
            run.chosen, run.rtol = chosen, rtol
            run.unknowns, run.started = made.unknowns, made.remark
            run.locates, run.saving, run.singular = locates, saving, singular
            return run.carry_out(steps or 1, hooks, controller_params or {}, bar)


def _check_controller_params(given: Mapping[str, Any]) -> None:
    """Refuse names that pySDC's controllers do not look at."""
    known = {*vars(ControllerParameters({})), *ControllerParameters.attrs, "hook_class"}
    known = {name for name in known if name[0] != "_"}
    for name in given:
        if name not in known:
            raise InputError(unknown("parameter of the controller", name, known))


def _watch_invariants(setup: Setup, project: bool, together: bool) -> None:
    """Let a run look at the invariants of its problem, and project on them if that is wanted."""
    if project not in (True, False):
        raise InputError(f"project must be True, False or None; got {project!r}")
    require_invariants(setup.problem)
    several = together or isinstance(setup.description["sweeper_class"], list)
    if several or setup.parallel in ("steps", "both"):
        raise InputError(
            "invariants are looked at in runs of one step at a time on one level; leave steps, coarse_nodes, "
            "parallel='steps' and project out"
        )
    setup.description["convergence_controllers"][Invariants] = {"project": project}


def _by_type(problem: ProblemLike, settings: Mapping[str, Any]) -> tuple[str | None, str]:
    """The method for the type of the equations, and why; None for equations or settings that want another."""
    found = named(problem)
    given = PROBLEMS[found] if isinstance(found, str) else found
    cls = given if isinstance(given, type) else type(given)
    asked = {name for name, value in settings.items() if value is not None and value is not False}
    if not issubclass(cls, QuasilinearProblem) or asked - SETTINGS_OF_PROBLEMS:
        return None, ""
    own = make_problem(problem, settings.get("problem_params"))
    assert isinstance(own, QuasilinearProblem)
    sweeper, reason = explicit_method(own)
    return sweeper or None, reason


def sweeps_nodes(sweeper: SweeperLike) -> bool:
    """Whether a sweeper, by its name or class, is one of spectral deferred corrections."""
    cls = SWEEPERS[sweeper] if isinstance(sweeper, str) else sweeper
    return isinstance(cls, type) and issubclass(cls, SpectralDeferredCorrectionDAE)


def sweep_at_once(setup: Setup, hooks: Sequence[type[Any]] = ()) -> None:
    """Let the sweeps of a step belong to its prediction, which costs no iterations of the controller.

    Parameters
    ----------
    setup : Setup
        Is changed, unless ranks, levels, hooks or a tolerance that is switched off need iterations.
    hooks : sequence of type
        pySDC hooks that will look on.
    """
    watched = any(getattr(hook, name) is not getattr(Hooks, name) for hook in hooks for name in PER_ITERATION)
    single = setup.parallel is None and not isinstance(setup.description["sweeper_class"], list)
    sweeps = issubclass(setup.sweeper_class, SpectralDeferredCorrectionDAE)
    if single and sweeps and not watched and setup.description["level_params"]["restol"] > 0.0:
        setup.description["sweeper_params"]["initial_sweeps"] = INITIAL_SWEEPS
        setup.description["step_params"]["maxiter"] -= INITIAL_SWEEPS


@dataclass
class _Run:
    """One run of a controller, with what is kept of it whatever ends it."""

    setup: Setup
    u0: MeshDAE
    t0: float
    t_end: float
    count: int | None
    team: Ranks
    out: str | Path | None
    t_eval: Vector | None = None
    dense: bool | None = None
    locates: bool = False
    saving: Saving | None = None
    saved: float = field(default_factory=perf_counter)
    pause: float = PAUSE
    chosen: str = ""
    rtol: float | None = None
    singular: str | None = None
    remark: str = ""
    sizes: str = ""
    unknowns: Unknowns | None = None
    started: str = ""
    drift: dict[str, float] = field(default_factory=dict)
    samples: Samples | None = None

    @property
    def dt(self) -> float:
        """The step size, the whole interval where it is not fixed."""
        return (self.t_end - self.t0) / (self.count or 1)

    @property
    def keeps(self) -> bool:
        """Whether the solution between the steps is wanted after the run."""
        return self.setup.problem.n <= DENSE_LIMIT if self.dense is None else self.dense

    def carry_out(
        self, steps: int, hooks: Sequence[type[Any]], controller_params: Mapping[str, Any], bar: Any
    ) -> Solution:
        run, team, setup = self, self.team, self.setup

        class Record(StepRecord):
            interval = None if run.count is None else (run.t0, run.t_end, run.count)
            collects = team.steps is not None
            dense = run.keeps or run.t_eval is not None
            n_slopes = _number_of_slopes(setup)

            def pre_run(self, step: Any, level_number: int) -> None:
                super().pre_run(step, level_number)
                run.samples = run.sampling(self.n_slopes) if max(steps, team.steps_at_once) == 1 else None

            def show_progress(self, time: float) -> None:
                bar.update(1)
                if run.samples is not None and len(self.rows) == WINDOW:
                    run.samples.advance(self.rows)
                run.save_now_and_then(self)

        message, log = "", {}
        description = setup.with_step(self.dt)
        if team.nodes is not None:
            description["sweeper_params"]["comm"] = team.nodes
        own_hooks: list[type[Any]] = [Record, *hooks]
        if self.count is None:
            own_hooks = [CheckInitialValue, *own_hooks]
        elif team.steps is None:
            own_hooks = [CheckInitialValue, RequireConvergence, *own_hooks]
        else:
            # The hooks would raise on one rank alone.
            check_consistent(setup.problem, self.u0, self.t0)
            description["convergence_controllers"][ShareBlock] = {}
        if max(steps, team.steps_at_once) > 1:
            own_hooks.append(MarkProvisionalStarts)
        else:
            own_hooks[:0] = self.watching()
            if setup.problem.index not in (0, 1) and not isinstance(description["sweeper_class"], list):
                own_hooks.append(WatchAmplification)
        params = {**CONTROLLER, **controller_params, "hook_class": own_hooks}
        with _ROOT.kept():
            with told_before():  # the setup has made the problem once and warned of its parameters
                if self.count is None or self.locates or self.saving is not None:
                    controller = SteppingController(params, description)
                    controller.show_stages(bool(hooks))
                elif team.steps is None:
                    controller = controller_nonMPI(steps, params, description)
                else:
                    from pySDC.implementations.controller_classes.controller_MPI import controller_MPI

                    controller = controller_MPI(params, description, team.steps)
            unasked = {DefaultHooks, CPUTimings, LogRestarts} - set(hooks)
            controller.hooks[:] = [hook for hook in controller.hooks if type(hook) not in unasked]
            record = next(hook for hook in controller.hooks if isinstance(hook, Record))
            watch = next((hook for hook in controller.hooks if isinstance(hook, WatchSingularPoints)), None)
            if watch is not None and isinstance(controller, SteppingController):
                watch.guide(controller.adaptivity)
            sweepers = [level.sweep for step in controller.steps for level in step.levels]
            for one in sweepers:
                one.keeps_interior = Record.dense
            if self.saving is not None:
                controller.checkpoints = self.saving.attach(controller, record, team)
                bar.update(self.saving.steps)
            try:
                # pySDC adds up the times of the steps; half a step less makes the number of steps certain.
                end = self.t_end if setup.adaptive or self.count is None else self.t_end - 0.5 * self.dt
                controller.run(u0=self.u0, t0=self.t0, Tend=end)
                self.check_in()
            except SolveError as error:
                # A hook may raise such an error on one rank alone.
                if not self.check_in(GRACE):
                    raise
                message = str(error)
                if watch is not None and not isinstance(error, SingularPointError):
                    message += watch.diagnosis()
            except BaseException as error:
                # Whatever ends the run, an interrupt or an exception of the problem, its steps are kept.
                if self.out is not None and len(record.rows):
                    put_down(self.solution(record, f"ended by {type(error).__name__}"), self.out, False)
                raise
            log = controller.return_stats()
        self.bring_together(record)
        problems = [level.prob for step in controller.steps for level in step.levels]
        work = np.array([sum(P.work_counters[name].niter for P in problems) for name in COUNTERS], float)
        total = dict(zip(COUNTERS, map(int, team.total(work, team.comm)), strict=True))
        if hasattr(sweepers[0], "charts"):
            total["charts"] = sweepers[0].charts
        if watch is not None:
            self.remark = watch.message()
        if isinstance(controller, SteppingController):
            self.sizes = controller.adaptivity.remark
        for one in controller.convergence_controllers:
            if isinstance(one, Invariants):
                self.drift = one.summary()
        located = getattr(controller, "events", None)
        solution = self.solution(record, message, total, log, located)
        if self.out is not None:
            put_down(solution, self.out, solution.success)
        return solution

    def watching(self) -> list[type[Any]]:
        """The hook that looks for singular points, where one is wanted."""
        setup = self.setup
        if isinstance(setup.description["sweeper_class"], list):
            return []
        keeps = hasattr(setup.sweeper_class, "on_manifold")
        found = self.singular or ("pass" if keeps else default_way(setup.problem))
        if found is None:
            return []
        chosen: str = found
        asked = self.singular

        class Watch(WatchSingularPoints):
            way: ClassVar[str] = chosen
            n_slopes = _number_of_slopes(setup)
            refuses = not (keeps or asked == "pass") and getattr(setup.problem, "kind", "") in FIRST_ORDER
            trusts = keeps and asked is None
            straight = self.team.nodes is not None

        return [Watch]

    def check_in(self, patience: float = float("inf")) -> bool:
        """Whether all ranks have come to the end of the run."""
        comm = self.team.comm
        return comm is None or comm.Get_size() == 1 or meet(comm, RUN_ENDED, patience)

    def save_now_and_then(self, record: StepRecord) -> None:
        """Save what is finished, so that a killed run leaves it; it may take a twentieth of the time."""
        began = perf_counter()
        if self.out is None or began - self.saved < self.pause:
            return
        put_down(self.solution(record, "the run had not ended when this was written"), self.out, False)
        self.saved = perf_counter()
        self.pause = max(PAUSE, 20.0 * (self.saved - began))

    def bring_together(self, record: StepRecord) -> None:
        """Give all ranks all steps, and to every step the work of all ranks that shared its nodes."""
        team = self.team
        if team.steps is not None:
            record.rows = team.steps.bcast(record.rows, root=0)
        if team.nodes is not None and len(record.rows):
            columns = record.rows.columns()
            work = np.column_stack([columns[name] for name in COUNTERS]).astype(float)
            columns |= dict(zip(COUNTERS, team.total(work, team.nodes).T, strict=True))
            record.rows.fill(columns, record.rows.dense)

    def solution(
        self,
        record: StepRecord,
        message: str,
        total: Mapping[str, int] | None = None,
        log: Mapping[Any, Any] | None = None,
        located: LocateEvents | None = None,
    ) -> Solution:
        """What is known so far as a solution; the work of the finished steps unless ``total`` is given."""
        setup, t0 = self.setup, self.t0
        problem = setup.problem
        between, found = None, None if self.samples is None else self.samples.ended(record.rows)
        if found is not None:
            t, u, du, per_step = found.times, found.u, found.du, found.per_step
            taken, work = found.steps, found.total
        else:
            t, u, du, per_step, data = self.at_steps(record)
            taken, work = len(t) - 1, {name: int(per_step[name].sum()) for name in COUNTS}
            if self.keeps or self.t_eval is not None:
                between = DenseOutput(t0, u[0], t[1:], u[1:], data, du[0], du[1:], record.n_slopes)
        sizes = None if between is None else between.largest()
        sizes = sizes if found is None else found.largest
        if located is not None:
            located.settle(between)
        remarks = "" if located is None else located.message, self.remark, self.sizes, self.started
        solution = Solution(
            equations=None if sizes is None else self.pointwise(sizes),
            t=t,
            u=u,
            du=du,
            names=problem.names,
            units=problem.units,
            success=not message,
            message=message or "; ".join(part for part in remarks if part),
            stats={
                "steps": taken,
                "rejected": record.rejected,
                **work,
                **(total or {}),
                **self.drift,
            },
            per_step=per_step,
            parameters={
                **setup.label,
                **({"chosen_for": self.chosen} if self.chosen else {}),
                "dt": self.dt,
                **({} if self.rtol is None else {"rtol": self.rtol}),
                "t0": t0,
                "t_end": self.t_end,
                "n_diff": problem.n_diff,
                "names": list(problem.names),
                "units": list(problem.units),
                "time_unit": problem.time_unit,
                "restol": setup.description["level_params"]["restol"],
                "maxiter": setup.most_sweeps,
                "problem_params": {name: plain(value) for name, value in problem.params.items()},
                "parallel": setup.parallel or "",
                "ranks": self.team.size,
                **({} if self.saving is None else self.saving.parameters),
            },
            log=log or {},
            events=() if located is None else located.records(located.events),
            switches=() if located is None else located.records(located.switches),
            dense=between,
            saves_dense=bool(self.dense),
            unknowns=self.unknowns,
        )
        solution = solution.with_corrected_events()
        if found is not None:
            solution = solution.reached(found.done, found.sizes)
        elif self.t_eval is not None:
            solution = solution.at(self.t_eval)
        return solution if self.keeps else replace(solution, dense=None)

    def at_steps(self, record: StepRecord) -> tuple[Vector, Vector, Vector, dict[str, Any], list[StepData]]:
        """Times, u, u', the work, and data for dense output, of the start and of all steps in their order."""
        first = {"t": self.t0, "residual": 0.0, "u": self.u0.view(np.ndarray), **dict.fromkeys(COUNTS, 0)}
        first["du"] = derivative_at_start(self.setup.problem, self.u0, self.t0)
        dense = record.rows.dense
        if not len(record.rows):
            columns = {name: np.array([value]) for name, value in first.items()}
        else:
            columns = record.rows.columns(start=first)
        order = np.argsort(columns["t"], kind="stable")
        if (np.diff(order) < 0).any():
            columns = {name: values[order] for name, values in columns.items()}
            dense = [dense[number - 1] for number in order[1:].tolist()] if dense else dense
        per_step = {name: columns[name] for name in ("residual", *COUNTS)}
        return columns["t"], columns["u"], columns["du"], per_step, dense

    def sampling(self, n_slopes: int) -> Samples | None:
        """What takes the values at the times asked for as the run goes on; None where steps must be kept.

        Events within steps and checkpoints look at all steps, ranks count each other's work at the end.
        """
        kept = self.keeps or self.locates or self.saving is not None or self.team.size > 1
        if self.t_eval is None or kept:
            return None
        start = derivative_at_start(self.setup.problem, self.u0, self.t0)
        return Samples(self.t_eval, self.t0, np.array(self.u0), start, n_slopes)

    def pointwise(self, sizes: Vector) -> Pointwise:
        """What makes values between the steps satisfy the equations, from the sizes of the unknowns."""
        problem = self.setup.problem
        if getattr(self.setup.sweeper_class, "on_manifold", False):
            return ManifoldValues(problem)
        return PointwiseEquations(problem, sizes)


class _RootLogger:
    """The root logger as it was before the first and is after the last of the runs that go on."""

    def __init__(self) -> None:
        self._lock, self._runs = Lock(), 0
        self._handlers: list[logging.Handler] = []
        self._level = logging.WARNING

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Put it back after a run: a pySDC controller replaces its handlers and level."""
        root = logging.getLogger()
        with self._lock:
            if not self._runs:
                self._handlers, self._level = root.handlers[:], root.level
            self._runs += 1
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                if not self._runs:
                    root.handlers[:] = self._handlers
                    root.setLevel(self._level)


_ROOT = _RootLogger()


def _number_of_slopes(setup: Setup) -> int:
    """Number of unknowns whose u' at the ends of steps is as good as u.

    A constraint on an unknown leaves its derivative no better than the stages, and from index 2 on that of
    the unknowns which the multipliers drive, too.
    """
    method, problem = getattr(setup.sweeper_class, "method", None), setup.problem
    if problem.index not in (0, 1) or not (method is None or method.stiffly_accurate):
        return 0
    if problem.index == 0:
        return problem.n
    return problem.n_diff if problem.n_diff < problem.n else 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc solve``."""
    parser.add_argument(
        "problem", help="name of a problem or model, FILE.mo or FILE.py:NAME; 'dae-sdc list' shows all"
    )
    parser.add_argument(
        "--reduce",
        action=argparse.BooleanOptionalAction,
        help="reduce the index of a model first (where it is above 3)",
    )
    options.add(parser, "simplify")
    options.add(
        parser,
        "sweeper-of-run nodes quad qdelta dt t-end rtol atol dt-max longest-run max-order restol newton-tol",
        "maxiter",
        "nsweeps initial-guess residual-type backend linear-solver points",
        "steps coarse-nodes coarse-qdelta coarsen match-sweep corrector start project singular parallel",
        "param seed",
        "out checkpoint every resume",
    )


def _points(args: argparse.Namespace) -> Vector | None:
    """The times that ``--points`` asks for."""
    if args.points is None:
        return None
    require_count("--points", max(args.points, 1), MOST_TIMES)
    if args.points < 2:
        raise InputError(f"--points must be at least 2, the start and the end; got {args.points}")
    if is_file(args.problem):
        start, end = make_model(args.problem, options.parameters(args.param)).interval
    else:
        start, end = make_problem(args.problem, options.parameters(args.param)).interval
    return np.linspace(start, end if args.t_end is None else args.t_end, args.points)


def _told(stats: Mapping[str, Any]) -> str:
    """What to say of the invariants of a run."""
    if "projections" not in stats:
        return f"  largest invariant at the ends of steps {stats['drift']:.1e}"
    return (
        f"  largest invariant at the ends of steps {stats['drift_before_projection']:.1e}, after "
        f"{stats['projections']} projections {stats['drift']:.1e}"
    )


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc solve``."""
    given = options.settings(args)
    solution = solve(
        args.problem,
        simplify=args.simplify,
        reduce=args.reduce,
        rtol=args.rtol,
        atol=args.atol,
        dt=args.dt,
        dt_max=args.dt_max,
        time_limit=args.time_limit,
        max_order=args.max_order,
        t_end=args.t_end,
        t_eval=_points(args),
        project=args.project,
        singular=args.singular,
        steps=args.steps,
        parallel=args.parallel,
        out=args.out,
        checkpoint=args.checkpoint,
        every=args.every,
        resume=args.resume,
        progress=True,
        **given,
    )
    stats = solution.stats
    if args.resume:
        resumed_at = solution.parameters["resumed_at"]
        print(
            f"no checkpoint {args.checkpoint}, begun at the start"
            if resumed_at is None
            else f"resumed at t = {resumed_at:g} from {args.checkpoint}"
        )
    print(
        f"{args.problem}: t = {solution.t[-1]:g} after {stats['steps']} steps, {stats['sweeps']} sweeps, "
        f"{stats['newton']} Newton iterations, {stats['rhs']} residual evaluations"
    )
    if "chosen_for" in solution.parameters:
        print(f"  by {solution.parameters['sweeper']}, for {solution.parameters['chosen_for']}")
    for name, unit, value in zip(solution.names, solution.units, solution.u[-1], strict=True):
        print(f"  {name:<12} {value: .15e}  {unit}")
    removed = len(solution.unknowns.removed) if solution.unknowns is not None else 0
    if removed:
        print(f"  and {removed} unknown{'s' if removed > 1 else ''} that they tell")
    if args.out:
        target = check_target(args.out)
        print(f"written to {target if solution.success else partial_name(target)}")
    if solution.success and solution.message:
        print(f"  {solution.message}")
    elif not solution.success:
        print(f"dae-sdc: {solution.message}", file=sys.stderr)
    return 0 if solution.success else 1
