"""Solve one DAE over an interval.

Example: dae-sdc solve pendulum --sweeper semi-implicit --nodes 3 --dt 0.05 --t-end 1 --out pendulum.npy
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

# Until these two are imported, all imports of the process pass through dae_sdc.imports.
import pySDC.helpers.fieldsIO
import pySDC.implementations.datatype_classes.mesh  # noqa: F401

from dae_sdc.arguments import MOST_SHOWN
from dae_sdc.control.events import Event
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE, attach
from dae_sdc.deadline import limited, unchecked
from dae_sdc.errors import (
    DAEError,
    InputError,
    MisreadError,
    NotReducibleError,
    ResultFileError,
    TimeLimitError,
    UnresolvedError,
)
from dae_sdc.imports import launched
from dae_sdc.options import ConsistentStart, Preparation, add_options, given_options, names_of_options, takes
from dae_sdc.registry import unknown
from dae_sdc.run.arcs import NotSimplifiedError, in_arcs
from dae_sdc.run.description import SolveOptions
from dae_sdc.run.equations import Equations, equations_of, with_known_values
from dae_sdc.run.execution import Execution
from dae_sdc.run.method import SOLVERS
from dae_sdc.run.modes import StructureChangesError, require_one_structure, through_modes
from dae_sdc.run.plan import plan_of
from dae_sdc.run.processes import Ranks, everyone, join
from dae_sdc.run.results import say_written
from dae_sdc.run.solution import Solution, put_down_of
from dae_sdc.run.start import Start, start_of, with_given_start
from dae_sdc.run.target import resolve, twin_of
from dae_sdc.run.tracing import is_as_read
from dae_sdc.sharing import Recent
from dae_sdc.structure.signature import StructureError
from dae_sdc.sweepers.parallel import raise_everywhere
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.teams import AUTO

if TYPE_CHECKING:
    from dae_sdc.model.problem import Form

MOST_PREPARED = 16  # Runs whose equations and start are kept for those like them.
OF_LIBRARY = "dae_sdc.problems."  # Where the classes stand that no user changes.
_PREPARED: Final[Recent[Any, tuple[SolveOptions, Equations, Start]]] = Recent(MOST_PREPARED)


# Options on which no numbers depend; equations and starts are compared themselves.
SILENT: Final = "comm progress hooks out checkpoint every resume problem u0 guesses fixed".split()
WITHOUT: Final = {  # The option that is False in another attempt after an error, and how that is told.
    MisreadError: ("trace", "with the function called"),
    NotReducibleError: ("reduce", "without reduction of the index"),
    NotSimplifiedError: ("simplify", "without simplification"),
}

# Options with which runs may share a plan.
PLAIN = (
    *("problem", "params", "u0", "guesses", "fixed", "bounds", "start", "t0", "t_end", "t_eval", "points"),
    *("dense", "rtol", "atol", "leave_out", "dt_max", "newton_tol", "linear_solver", "trace", "time_limit"),
)


@takes(SolveOptions)
def solve(request: SolveOptions) -> Solution:
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
    return solution_of(request)


class Repeated:
    """Runs one after the other, which share the plan of one before where they differ in numbers alone."""

    def __init__(self) -> None:
        self._last: Execution | None = None

    def solution(self, request: SolveOptions) -> Solution:
        """The solution of a run, as :func:`solve` gives it."""
        with limited(request.time_limit):
            solution = None
            if not request.chosen(without=PLAIN):
                with suppress(Exception):  # which is raised again
                    solution = self._by_one_run(*prepared(request, keeps=False))
            return solution_of(request) if solution is None else solution

    def _by_one_run(self, request: SolveOptions, equations: Equations, start: Start) -> Solution | None:
        """The solution by one controller from start to end; None for other runs, and those that fail."""
        run = None if self._last is None else self._last.again(equations, start)
        if run is None and equations.otherwise is None:
            run = Execution(plan_of(request, equations, start, False), Ranks())
        if run is None or run.kind is None:
            return None
        solution = run.carry_out().solution
        self._last = run if solution.success else None
        return solution if solution.success else None


def solution_of(request: SolveOptions) -> Solution:
    """The solution; in another way where a run shows that its equations were read or reduced wrongly."""
    try:
        return _solved(request)
    except StructureChangesError as error:
        try:
            with unchecked(launched() > 1):
                return through_modes(error, prepared)
        except DAEError as failure:
            if not isinstance(failure, TimeLimitError | ResultFileError):
                with suppress(Exception):  # of a model that cannot be solved as it is either
                    if (solution := _solved(request, as_it_is=True)).success:
                        return solution
            raise failure from None
    except UnresolvedError as error:
        option, value, how, why = "restol", error.restol, f"to restol={error.restol:.0e}", str(error)
    except tuple(WITHOUT) as error:
        option, how = WITHOUT[type(error)]
        if getattr(request, option) is not None and option != "simplify":
            raise
        value, why = False, str(error)
        if option == "simplify" and (given := resolve(request.problem).simplified) is not None:
            request = request.changed(problem=given.original)
    other = solution_of(request.changed(**{option: value}))
    return other.with_remark(f"solved {how}: {why.partition(';')[0]}")


def _solved(request: SolveOptions, as_it_is: bool = False) -> Solution:
    """The solution by one run."""
    measured = request.parallel == AUTO
    if measured:
        request = request.changed(parallel="nodes" if request.comm is not None or launched() > 1 else None)
    # What is wrong on one rank alone must end the others too.
    comm = everyone(request.parallel, request.comm)
    several_ranks = comm is not None and comm.Get_size() > 1
    stages = _prepared_everywhere(request, comm) if several_ranks else prepared(request, as_it_is)
    request, equations, start = stages
    with unchecked(several_ranks):  # from here on ranks end together
        solution = _run(request, equations, start, measured)
        other = equations.otherwise
        if not (solution.success or as_it_is):
            require_one_structure(equations, request, solution)
        if solution.success or other is None or several_ranks:
            return solution
        said = f"index {other.index_before} reduced to 1, as the run without that failed"
        remark = "; ".join(filter(None, (start.remark, said)))
        start = Start.at(other, start.u, (start.t0, start.t_end), remark)
        return _run(request, replace(equations, problem=other, otherwise=None), start, measured)


def _run(request: SolveOptions, equations: Equations, start: Start, measured: bool) -> Solution:
    """The solution of equations from their start."""
    sweeper = request.sweeper
    if isinstance(sweeper, str) and sweeper not in SWEEPERS:
        if sweeper in SOLVERS:
            return _by_sundials(request, equations, start)
        raise InputError(unknown("sweeper", sweeper, (*SWEEPERS, *SOLVERS)))
    return in_arcs(request, equations, start, measured)


def prepared(
    request: SolveOptions, as_it_is: bool = False, keeps: bool = True
) -> tuple[SolveOptions, Equations, Start]:
    """What was asked, with a start that was read from a file; the equations; and where they start."""
    key = _content_of(request) if keeps and not as_it_is else None
    if (kept := _PREPARED.get(key)) is not None and _stays(kept[1].problem):
        return kept[0], *_apart(*kept[1:])
    target = resolve(request.problem, as_model=bool(request.simplify or request.reduce))
    asked, request = request, with_given_start(request)
    of_file = request is not asked
    target, request = with_known_values(target, request)
    equations = equations_of(target, request)
    if not as_it_is:
        require_one_structure(equations, request)
    try:
        start = start_of(equations, request)
    except StructureError as error:
        require_one_structure(equations, request, error)
        raise
    if key is not None and not of_file and _stays(equations.problem):
        _PREPARED.keep(key, (request, *_apart(equations, start)))
    return request, equations, start


def _apart(equations: Equations, start: Start) -> tuple[Equations, Start]:
    """Equations and their start for one more run, which changes those of no other."""
    start = replace(start, u=MeshDAE(start.u), du=start.du.copy())
    other: Any = equations.otherwise and twin_of(equations.otherwise)
    return replace(equations, problem=twin_of(equations.problem), otherwise=other), start


def _stays(problem: ProblemDAE) -> bool:
    """Whether a problem is what it would be if it was made again: runs change nothing of it."""
    if type(problem).__module__.startswith(OF_LIBRARY):
        return problem.starts_alike and problem.kernels is not None
    return is_as_read(problem)


def _content_of(request: SolveOptions) -> Any:
    """The options of a run of a function or class of the library by their contents; None for others."""
    thing: Any = request.problem
    thing = PROBLEMS[thing] if isinstance(thing, str) and thing in PROBLEMS else thing
    of_library = isinstance(thing, type) and thing.__module__.startswith(OF_LIBRARY) and not request.params
    of_file = isinstance(request.u0, str) or isinstance(request.guesses, str)  # which may change
    if of_file or not (of_library or type(thing) is FunctionType):
        return None
    chosen = request.chosen(without=("problem",))
    if of_library:
        code: Any = tuple(map(id, vars(thing).values()))
    else:  # what it reads besides is looked at
        code, chosen[""], chosen[" "] = thing.__code__, thing.__defaults__, thing.__kwdefaults__
    try:
        contents = [(name, _contents(value)) for name, value in chosen.items()]
    except (TypeError, ValueError):
        return None
    return type(request.problem), thing, code, *contents


def _contents(value: Any) -> Any:
    """What numbers or texts in an array or collection are; TypeError for anything else."""
    if isinstance(value, Mapping):
        return *value, _contents(list(value.values()))
    array = np.asarray(() if value is None else value)
    if array.dtype.kind not in "biufU":
        raise TypeError
    return type(value), array.dtype.str, array.shape, array.tobytes()


def _prepared_everywhere(request: SolveOptions, comm: Any) -> tuple[SolveOptions, Equations, Start]:
    """What is solved, the same on all ranks; where they read different equations, they use the functions."""
    join(comm)
    stages, failure, digest = None, None, ""
    try:
        with limited():
            read = prepared(request)
            _, equations, start = read
            form: Form | None = getattr(equations.problem, "form", None)
            programs = () if form is None else (form.residual.digest(), form.jumps and form.jumps.names)
            remarks, numbers = (equations.told, equations.remark, start.remark), start.u.tobytes()
            problem = equations.problem
            # Other slopes, in which all that the equations read has its part, suit some of them not.
            slopes = attach(np.linspace(1.0, 2.0, problem.n), problem.n_diff)
            with suppress(Exception), np.errstate(all="ignore"), uncounted(problem):
                numbers += problem.evaluate(start.u.copy(), slopes, start.t0).tobytes()
        digest, stages = repr((remarks, equations.problem.index, programs, numbers)), read
    except (Exception, SystemExit) as error:  # sys.exit in a function of one rank must end the others too
        failure = error
    ends = isinstance(failure, TimeLimitError) or not isinstance(failure, Exception | None)
    asked = {name: portable_text(each) for name, each in request.chosen(without=SILENT).items()}
    found = comm.allgather((failure is not None, digest, ends, asked))
    failed = [one for one, *_ in found]
    # Where the time ran out on all, each was at something else, of which one is told.
    if all(failed) and failure is not None and not any(ends for *_, ends, _ in found):
        raise failure
    _require_same_options([asked for *_, asked in found])
    if stages is not None and len({one[:2] for one in found}) == 1:
        return stages
    if request.trace is None and not any(ends for *_, ends, _ in found):
        return _prepared_everywhere(request.changed(trace=False), comm)
    if any(failed):
        raise_everywhere(comm, failed.index(True), failure)
    raise InputError("the ranks were given different equations or starts; give all of them the same")


def portable_text(value: Any) -> str:
    """A text of an option that is the same in all processes."""
    if value is None or isinstance(value, str | bool | int | float):
        return repr(value)
    if isinstance(value, Mapping):
        value = sorted(value.items(), key=str)
    elif hasattr(value, "tocoo"):  # a sparse matrix
        value = value.shape, *vars(value.tocoo()).values()
    if isinstance(value, list | tuple | range):
        return f"[{', '.join(map(portable_text, value))}]"
    if isinstance(value, np.ndarray | np.generic):
        return f"array of {sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]}"
    if isinstance(value, Event):
        return portable_text([value.function, value.terminal, value.direction, value.name])
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


def _by_sundials(request: SolveOptions, equations: Equations, start: Start) -> Solution:
    """The solution by a solver of SUNDIALS, which knows fewer options."""
    from dae_sdc.run.sundials import SundialsOptions, integrate

    used = ("sweeper", *names_of_options(Preparation), *names_of_options(ConsistentStart))
    used = used if equations.given is not None else ("params", "newton_tol", "linear_solver", *used)
    if useless := request.chosen(without=(*used, *names_of_options(SundialsOptions))):
        raise InputError(f"these options have no effect on '{request.sweeper}': {', '.join(useless)}")
    if request.rtol is None:
        raise InputError(f"'{request.sweeper}' chooses its steps by a tolerance; give rtol")
    if equations.own_events:
        raise InputError(
            f"the equations have events, which '{request.sweeper}' does not locate; leave it out"
        )
    own = {name: getattr(request, name) for name in names_of_options(SundialsOptions) if name != "solver"}
    by_name = equations.given is not None and isinstance(request.problem, str)
    options = SundialsOptions(solver=str(request.sweeper), **own)
    solution = integrate(options, equations.problem, str(request.problem) if by_name else "", start)
    remark = "; ".join(filter(None, (equations.remark, start.remark)))
    if equations.unknowns is not None or remark:
        told = replace(solution, unknowns=equations.unknowns).with_remark(remark if solution.success else "")
        solution = put_down_of(told, request.out)
    return solution


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
        begun = f"no checkpoint {args.checkpoint}, begun at the start"
        print(begun if resumed_at is None else f"resumed at t = {resumed_at:g} from {args.checkpoint}")
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
    say_written(args.out, solution.success)
    if solution.success and solution.message:
        print(f"  {solution.message}")
    elif not solution.success:
        print(f"dae-sdc: {solution.message}", file=sys.stderr)
    return 0 if solution.success else 1
