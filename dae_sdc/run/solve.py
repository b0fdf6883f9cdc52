"""Solve one DAE over an interval.

Example: dae-sdc solve pendulum --sweeper semi-implicit --nodes 3 --dt 0.05 --t-end 1 --out pendulum.npy
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from pySDC.core.controller import _Pars as ControllerParameters
from pySDC.core.hooks import Hooks

from dae_sdc.arguments import MOST_SHOWN
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.control.events import Event, as_events
from dae_sdc.control.invariants import Invariants, require_invariants
from dae_sdc.control.singular_determinants import require_way
from dae_sdc.dae.state import MeshDAE
from dae_sdc.deadline import limited, limits_call, unchecked
from dae_sdc.errors import InputError, MisreadError, NotReducibleError, TimeLimitError, require_number
from dae_sdc.launch import launched
from dae_sdc.options import (
    ConsistentStart,
    Method,
    Multistep,
    Parallel,
    Preparation,
    Sweeps,
    add_options,
    given_options,
    names_of_options,
    takes,
)
from dae_sdc.progress import TimeBar, bar_of
from dae_sdc.registry import unknown
from dae_sdc.run.adaptive import (
    DEFAULT_RTOL,
    adapt,
    default_nodes,
    default_sweeper,
    explicit_method,
    locate,
    stops_of,
)
from dae_sdc.run.description import (
    Setup,
    SolveOptions,
    SweeperLike,
    initial_state,
    interval_of,
    number_of_steps,
    poor_choice,
    setup_of,
)
from dae_sdc.run.event_expressions import events_of
from dae_sdc.run.execution import CONTROLLER as CONTROLLER, QUIET as QUIET, Execution, number_of_slopes
from dae_sdc.run.files import partial_name
from dae_sdc.run.preparation import Prepared, prepare
from dae_sdc.run.processes import everyone, join, on_root, ranks
from dae_sdc.run.results import check_target, put_down
from dae_sdc.run.resume import Saving, one_at_a_time
from dae_sdc.run.solution import DENSE_LIMIT, Solution, output_times
from dae_sdc.run.target import resolve
from dae_sdc.sharing import tell
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.parallel import raise_everywhere
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.teams import AUTO
from dae_sdc.sweepers.tolerance import Tolerance

INITIAL_SWEEPS = 20
"""Sweeps that a step may do before the controller's first iteration, where nothing looks at iterations."""

PER_ITERATION = ("pre_iteration", "post_iteration", "pre_sweep", "post_sweep")
"""Methods of hooks that look at iterations."""

MOST_TAGGED = 99
"""Iterations whose messages pySDC tells apart from those of another level: tags are 100 level + iteration."""


@takes(SolveOptions)
@limits_call
def solve(given: SolveOptions) -> Solution:
    """Solve a DAE inside pySDC's controller, to a tolerance or with a fixed step size.

    {options}

    Returns
    -------
    Solution
        With ``success`` False, a ``message`` and the steps computed so far if the run failed numerically.

    Raises
    ------
    InputError
        If something given cannot be used.

    Examples
    --------
    >>> solution = ds.solve("pendulum", rtol=1e-8)
    >>> solution.success, solution.names
    (True, ('x', 'y', 'der(x)', 'der(y)', 'lambda'))
    >>> def decay(t, u, du):
    ...     return [du[0] + u[0], u[1] - 2.0 * u[0]]
    ...
    >>> ds.solve(decay, u0={"x": 1.0, "y": 2.0}, t_end=1.0).u[-1].round(5)
    array([0.36788, 0.73576])
    """
    return _with_other_ways(given)


def _with_other_ways(given: SolveOptions) -> Solution:
    """The solution; in another way where a run shows that its equations were read or reduced wrongly."""
    try:
        return _solved(given)
    except MisreadError as error:
        if given.trace is not None:
            raise
        other, how, why = replace(given, trace=False), "with the function called", str(error)
    except NotReducibleError as error:
        if given.reduce is not None:
            raise
        other, how, why = replace(given, reduce=False), "without reduction of the index", str(error)
    solution = _with_other_ways(other)
    said = f"solved {how}: {why.partition(';')[0]}"
    return replace(solution, message="; ".join(filter(None, (solution.message, said))))


def _solved(given: SolveOptions) -> Solution:
    """The solution by one run."""
    measured = given.parallel == AUTO
    if measured:
        several = given.comm is not None or launched() > 1
        given = replace(given, parallel="nodes" if several else None)
    # What is wrong on one rank alone must end the others too.
    comm = everyone(given.parallel, given.comm)
    made = _prepare_everywhere(given, comm)
    several_ranks = comm is not None and comm.Get_size() > 1
    with unchecked(several_ranks):  # from here on ranks end together
        solution = _run(made, measured)
        if solution.success or made.otherwise is None or several_ranks:
            return solution
        index, options = made.otherwise.index_before, replace(made.options, problem=made.otherwise)
        said = f"index {index} reduced to 1, as the run without that failed"
        remark = "; ".join(filter(None, (made.remark, said)))
        return _run(replace(made, options=options, remark=remark, otherwise=None), measured)


def _run(made: Prepared, measured: bool) -> Solution:
    """The solution of what is prepared."""
    given = made.options
    if isinstance(given.sweeper, str) and given.sweeper not in SWEEPERS:
        from dae_sdc.run.sundials import SOLVERS

        if given.sweeper in SOLVERS:
            return _by_sundials(given, made)
        raise InputError(unknown("sweeper", given.sweeper, (*SWEEPERS, *SOLVERS)))
    for name in ("max_order", "global_error"):
        if getattr(given, name) is not None:
            raise InputError(f"{name} belongs to the sweepers 'ida' and 'cvode'; leave it out")
    unnamed = given.sweeper is None and given.nodes is None
    given, chosen = _with_method(given, measured)
    setup = setup_of(given)
    _share_stages(given, setup, measured, unnamed)
    poor = poor_choice(setup)
    if poor:
        tell(poor)
    _check(given, setup)
    problem = setup.problem
    start, end = interval_of(problem, given.t0, given.t_end)
    times = output_times(given.t_eval, given.points, start, end)
    first, count, fixed = _steps(given, setup, start, end)
    watched = as_events(events_of(given.events, problem, made.unknowns))
    locates = locate(setup, watched, end - start, number_of_slopes(setup), fixed, given.steps)
    if given.maxiter is None and given.nsweeps is None and not setup.adaptive and given.steps in (None, 1):
        sweep_at_once(setup, given.hooks)
    if given.project is not None:
        _watch_invariants(setup, given.project, given.steps)
    saving = _saving(given, setup, watched, fixed, (start, end), first)
    with ranks(setup.parallel, given.comm, setup.label["nodes"], given.steps) as team:
        _limit_iterations(given, setup, team)
        out = given.out
        if out is not None:
            on_root(team.comm, lambda: check_target(out))
        if saving is not None:
            on_root(team.comm, saving.prepare)
        progress = given.progress if team.root else False
        with TimeBar(start, end, progress) if count is None else bar_of(count, "step", progress) as bar:
            run = Execution(given, setup, first, start, end, count, team, times, locates, saving)
            run.unknowns, run.started, run.chosen = made.unknowns, made.remark, chosen
            run.equations, run.automatic = made.equations, measured or given.threads == AUTO
            return run.carry_out(bar)


def _prepare_everywhere(given: SolveOptions, comm: Any) -> Prepared:
    """What is solved, the same on all ranks; where they read different equations, they use the functions."""
    if comm is None or comm.Get_size() == 1:
        return prepare(given)
    join(comm)
    made, failure, digest = None, None, ""
    try:
        with limited():
            made = prepare(given)
        digest = made.digest()
    except (Exception, SystemExit) as error:  # sys.exit in a function of one rank must end the others too
        failure = error
    ends = isinstance(failure, TimeLimitError) or not isinstance(failure, Exception | None)
    found = comm.allgather((failure is not None, digest, ends, _asked(given)))
    failed = [one for one, *_ in found]
    # Where the time ran out on all, each was at something else, of which one is told.
    if all(failed) and failure is not None and not any(ends for *_, ends, _ in found):
        raise failure
    _require_same_options([asked for *_, asked in found])
    if made is not None and len({one[:2] for one in found}) == 1:
        return made
    if given.trace is None and not any(ends for *_, ends, _ in found):
        return _prepare_everywhere(replace(given, trace=False), comm)
    if any(failed):
        raise_everywhere(comm, failed.index(True), failure)
    raise InputError("the ranks were given different equations or starts; give all of them the same")


_OF_PROBLEM = ("problem", "u0", "guesses", "fixed")
"""Options that ranks compare by the problem and the start that are made of them."""


def _asked(given: SolveOptions) -> dict[str, str]:
    """A text of each chosen option on which the numbers of a run depend."""
    silent = (
        "comm",
        "progress",
        "hooks",
        "out",
        "checkpoint",
        "every",
        "resume",
        "problem",
        "u0",
        "guesses",
        "fixed",
    )
    return {name: _text(value) for name, value in given.chosen(without=silent).items()}


def _text(value: Any) -> str:
    """A text of an option that is the same in all processes."""
    if value is None or isinstance(value, str | bool | int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, np.ndarray):
        return f"array of {sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]}"
    if isinstance(value, Event):
        return _text([value.function, value.terminal, value.direction, value.name])
    name = value if callable(value) else type(value)
    from dae_sdc.run.code import code_digest

    return f"{getattr(name, '__qualname__', '')} {code_digest(value)}".strip()


def _require_same_options(asked: Sequence[dict[str, str]]) -> None:
    """Refuse options that are not the same on all ranks, naming the first that differs."""
    for name in sorted(set().union(*asked)):
        first = asked[0].get(name)
        for rank, options in enumerate(asked):
            if options.get(name) != first:
                here, there = (str(text or "nothing")[:MOST_SHOWN] for text in (first, options.get(name)))
                raise InputError(
                    f"{name} is {here} on rank 0 and {there} on rank {rank}; give all ranks the same options"
                )


def _by_sundials(given: SolveOptions, made: Prepared) -> Solution:
    """The solution by a solver of SUNDIALS, which knows fewer options."""
    from dae_sdc.run.sundials import SundialsOptions, integrate

    used = ("sweeper", *names_of_options(Preparation), *names_of_options(ConsistentStart))
    useless = given.chosen(without=(*used, *names_of_options(SundialsOptions)))
    if useless:
        raise InputError(f"these options have no effect on '{given.sweeper}': {', '.join(useless)}")
    if given.rtol is None:
        raise InputError(f"'{given.sweeper}' chooses its steps by a tolerance; give rtol")
    own = {name: getattr(given, name) for name in names_of_options(SundialsOptions) if name != "solver"}
    solution = integrate(SundialsOptions(solver=str(given.sweeper), **own))
    if made.unknowns is None and not made.remark:
        return solution
    remarks = (solution.message, made.remark if solution.success else "")
    solution = replace(solution, unknowns=made.unknowns, message="; ".join(filter(None, remarks)))
    if given.out is not None:
        put_down(solution, given.out, solution.success)
    return solution


def _with_method(given: SolveOptions, measured: bool) -> tuple[SolveOptions, str]:
    """The options with a sweeper and a number of nodes, and what the sweeper was chosen for."""
    chosen = ""
    if given.sweeper is None:
        of_steps = given.chosen().keys() & {"rtol", "dt", "hooks", "convergence_controllers"}
        shared = ("threads", *(("parallel", "comm") if measured else ()))
        if not of_steps and not given.chosen(Method, Sweeps, Multistep, Parallel, without=shared):
            given = replace(given, rtol=DEFAULT_RTOL)
        sweeper, chosen = _by_type(given)
        given = given if sweeper is None else replace(given, sweeper=sweeper)
    if given.rtol is None:
        bounds = [name for name in ("atol", "leave_out", "dt_max") if name in given.chosen()]
        if bounds:
            raise InputError(f"without rtol, with a fixed step size, no effect have: {', '.join(bounds)}")
        return given, chosen
    rtol = require_number("rtol", given.rtol)
    if given.sweeper is None:
        return replace(given, sweeper=default_sweeper(rtol, given.nodes), nodes=None), chosen
    if sweeps_nodes(given.sweeper):
        unused = [name for name in ("restol", "residual_type") if getattr(given, name) is not None]
        if unused:
            raise InputError(f"{', '.join(unused)} have no effect with rtol, which tells when sweeps end")
        if given.nodes is None:
            given = replace(given, nodes=default_nodes(rtol))
    return given, chosen


def _by_type(given: SolveOptions) -> tuple[str | None, str]:
    """The method for the type of the equations, and why; None for equations or options that want another."""
    target = resolve(given.problem)
    cls = target.problem if isinstance(target.problem, type) else type(target.problem)
    asked = given.chosen(Method, Sweeps, Multistep)
    if not issubclass(cls, QuasilinearProblem) or asked or given.convergence_controllers:
        return None, ""
    problem: Any = target.make_problem(given.params or {})
    sweeper, reason = explicit_method(problem)
    return sweeper or None, reason


def _share_stages(given: SolveOptions, setup: Setup, measured: bool, unnamed: bool) -> None:
    """Let threads or ranks share the stages of a step, or steps have fewer of them, where the method can."""
    cls, name, threads = setup.sweeper_class, setup.label["sweeper"], given.threads
    able = issubclass(cls, DirectMethod) and cls.shares_stages() and given.rtol is not None
    if able:
        shared = {"threads": threads, "measured": measured or None, "fewer_nodes": unnamed or None}
        setup.description["sweeper_params"].update(
            {key: value for key, value in shared.items() if value is not None}
        )
    elif threads not in (None, 1, AUTO):
        raise InputError(
            f"'{name}' has nothing that threads could share; they share the stages of Radau IIA, with rtol"
        )
    elif setup.parallel == "nodes" and (measured or issubclass(cls, DirectMethod)):
        raise InputError(
            f"ranks share the stages of Radau IIA with rtol, and the nodes of SDC sweepers with "
            f"parallel='nodes'; got '{name}'{'' if given.rtol is None else ' with rtol'}"
        )
    if setup.parallel is not None and threads not in (None, 1, AUTO):
        raise InputError("ranks share the work already; leave threads out, or start without MPI")


def _check(given: SolveOptions, setup: Setup) -> None:
    """Refuse what does not go together, and names that pySDC's controllers do not look at."""
    if given.singular is not None:
        require_way(given.singular, setup.problem)
        if not setup.iterates_alone(given.steps):
            raise InputError(
                "singular points are looked for in runs of one step at a time on one level; leave steps, "
                "coarse_nodes, parallel='steps' and singular out"
            )
    known = {*vars(ControllerParameters({})), *ControllerParameters.attrs, "hook_class"}
    known = {name for name in known if name[0] != "_"}
    for name in given.controller_params or {}:
        if name not in known:
            raise InputError(unknown("parameter of the controller", name, known))


def _steps(
    given: SolveOptions, setup: Setup, start: float, end: float
) -> tuple[MeshDAE, int | None, dict[str, Any] | None]:
    """The first state; the number of fixed steps and what tells of them, None where errors choose steps."""
    problem = setup.problem
    if given.rtol is None:
        size = problem.dt if given.dt is None else require_number("dt", given.dt)
        count = number_of_steps(start, end, size)
        stops = stops_of(problem, start, end)
        fixed = {"dt": (end - start) / count, "count": count, "t_end": end, "stops": stops}
        return initial_state(problem, given.u0, start), count, fixed
    if given.steps not in (None, 1):
        raise InputError("with rtol steps are taken one at a time; leave steps out, or give dt instead")
    tolerance = Tolerance.checked(problem, given.rtol, given.atol, given.leave_out or ())
    adapt(setup, tolerance, given, end, stops_of(problem, start, end))
    first = initial_state(problem, given.u0, start)
    tolerance.check_start(problem, first)
    return first, None, None


def _watch_invariants(setup: Setup, project: bool, steps: int | None) -> None:
    """Let a run look at the invariants of its problem, and project on them if that is wanted."""
    require_invariants(setup.problem)
    if not setup.iterates_alone(steps):
        raise InputError(
            "invariants are looked at in runs of one step at a time on one level; leave steps, coarse_nodes, "
            "parallel='steps' and project out"
        )
    setup.description["convergence_controllers"][Invariants] = {"project": project}


def _saving(
    given: SolveOptions,
    setup: Setup,
    events: tuple[Event, ...],
    fixed: dict[str, Any] | None,
    interval: tuple[float, float],
    first: MeshDAE,
) -> Saving | None:
    """The checkpoints that are asked for, with what tells the run from others."""
    saving = Saving.checked(given)
    if saving is None:
        return None
    one_at_a_time(setup, fixed, given.steps)
    size = setup.problem.dt if given.dt is None else float(given.dt)
    between = setup.problem.n <= DENSE_LIMIT if given.dense is None else given.dense
    about = {
        **{"rtol": given.rtol, "atol": given.atol, "leave_out": tuple(given.leave_out or ())},
        **{"t0": interval[0], "t_end": interval[1]},
        **{"dt": given.dt if fixed is None else size, "dt_max": given.dt_max, "u0": np.array(first)},
        "dense output": between or given.t_eval is not None or given.points is not None,
        "project": given.project,
    }
    saving.describe(setup, about, events)
    return saving


def _limit_iterations(given: SolveOptions, setup: Setup, team: Any) -> None:
    """Let steps that iterate together do as many iterations as they need, where the user names no limit."""
    allowed, limited = setup.description["step_params"], given.maxiter is not None
    if not limited:
        # A step waits for those before it while it iterates.
        allowed["maxiter"] *= max(given.steps or 1, team.steps_at_once)
    if team.steps is not None and setup.has_coarse_level:
        if limited and allowed["maxiter"] > MOST_TAGGED:
            raise InputError(
                f"with a coarse level and steps on ranks of their own, pySDC tells apart the messages of "
                f"at most {MOST_TAGGED} iterations; got maxiter={allowed['maxiter']}"
            )
        allowed["maxiter"] = min(allowed["maxiter"], MOST_TAGGED)


def sweeps_nodes(sweeper: SweeperLike) -> bool:
    """Whether a sweeper, by its name or class, is one of spectral deferred corrections."""
    cls = SWEEPERS[sweeper] if isinstance(sweeper, str) else sweeper
    return isinstance(cls, type) and issubclass(cls, SpectralDeferredCorrectionDAE)


def sweep_at_once(setup: Setup, hooks: Sequence[type[Any]] = ()) -> None:
    """Let the sweeps of a step belong to its prediction, which costs no iterations of the controller."""
    watched = any(getattr(hook, name) is not getattr(Hooks, name) for hook in hooks for name in PER_ITERATION)
    single = setup.parallel is None and not setup.has_coarse_level
    sweeps = issubclass(setup.sweeper_class, SpectralDeferredCorrectionDAE)
    if single and sweeps and not watched and setup.description["level_params"]["restol"] > 0.0:
        setup.description["sweeper_params"]["initial_sweeps"] = INITIAL_SWEEPS
        setup.description["step_params"]["maxiter"] -= INITIAL_SWEEPS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc solve``."""
    add_options(parser, SolveOptions)
    parser.add_argument(
        "--consistent", dest="start", action="store_const", const="consistent", help="as --start consistent"
    )


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc solve``."""
    solution = solve(**{"progress": None, **given_options(args, SolveOptions)})
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
    width = max(12, *map(len, solution.names))
    for name, unit, value in zip(solution.names, solution.units, solution.u[-1], strict=True):
        print(f"  {name:<{width}} {value: .15e}  {unit}".rstrip())
    removed = len(solution.unknowns.removed) if solution.unknowns is not None else 0
    if removed:
        print(f"  and {removed} eliminated unknown{'s' if removed > 1 else ''}, computed from the ones above")
    if args.out:
        target = check_target(args.out)
        print(f"written to {target if solution.success else partial_name(target)}")
    if solution.success and solution.message:
        print(f"  {solution.message}")
    elif not solution.success:
        print(f"dae-sdc: {solution.message}", file=sys.stderr)
    return 0 if solution.success else 1
