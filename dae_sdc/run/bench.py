"""Time the same work in several ways that take turns: other implementations, backends, sizes, ranks.

Example: dae-sdc bench upstream --out upstream.npy

``upstream`` compares with pySDC.projects.DAE. ``work`` times a step and a sweep by problem, sweeper, Q_Delta
and backend, ``profile`` the parts of a step. ``size`` measures time and memory against the number of
unknowns, and compares with IDA at equal accuracy. ``scaling`` measures how sweeps get faster on ranks of MPI,
which it starts itself, and predicts what more ranks bring. ``start`` times imports and the first solve in
a fresh process, before and after numba has compiled. ``peers`` solves test problems at a row of tolerances
here and with other packages, and compares times to the same error. ``testset`` solves the Test Set for IVP
Solvers with nothing given but tolerances, and holds digits and work against published runs. ``models`` takes
the library of models from their equations to solutions, which are checked.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from tqdm import tqdm

from dae_sdc.arguments import checked
from dae_sdc.control.hooks import StepRecord
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.options import listed
from dae_sdc.registry import unknown
from dae_sdc.run.model_bench import models, report as report_models
from dae_sdc.run.peers import peers, report as report_peers
from dae_sdc.run.polynomial_bench import polynomials, report as report_polynomials
from dae_sdc.run.profile import profile, report as report_profile
from dae_sdc.run.results import Result, check_target, command_line
from dae_sdc.run.scaling import report as report_scaling, scaling
from dae_sdc.run.sizes import report as report_size, size
from dae_sdc.run.solve import INITIAL_SWEEPS, QUIET
from dae_sdc.run.start_up import report as report_start, start
from dae_sdc.run.testset import report as report_testset, testset
from dae_sdc.run.work import report as report_work, work
from dae_sdc.sweepers.sdc import SWEEPERS

RESTOL = 1e-9
NEWTON_TOL = 1e-10
MAXITER = 100

CONVERGED = 1e-14
"""Tolerances that nothing meets: every step takes all the iterations."""

LEAST_REPETITIONS = 5

SWEEPER_MODULES = {
    "fully-implicit": ("fullyImplicitDAE", "FullyImplicitDAE"),
    "semi-implicit": ("semiImplicitDAE", "SemiImplicitDAE"),
}


@dataclass(frozen=True)
class Case:
    """One piece of work that both implementations do.

    Parameters
    ----------
    problem : str
        Name here.
    module : str
        Module of pySDC.projects.DAE.problems; the classes have the same names.
    dt : float
        Step size in the time unit of the problem.
    steps : int
        Number of steps.
    sweeper : str
        Name of the sweeper.
    params : mapping
        Parameters here, where defaults differ.
    """

    problem: str
    module: str
    dt: float
    steps: int
    sweeper: str = "fully-implicit"
    params: Mapping[str, Any] = field(default_factory=dict)


# The machine and the power system are stepped up to their disturbance at t = 0.05: pySDC.projects.DAE
# switches inside a step that ends there, which is another discretisation.
UPSTREAM = (
    Case("simple", "simpleDAE", 1e-2, 50),
    Case("simple", "simpleDAE", 1e-2, 50, "semi-implicit"),
    Case("problematic-f", "problematicF", 1e-2, 10),
    Case("pendulum", "pendulum2D", 1e-2, 50),
    Case("pendulum", "pendulum2D", 1e-2, 50, "semi-implicit"),
    Case("discontinuous", "discontinuousTestDAE", 1e-2, 100),
    Case("one-transistor", "transistorAmplifier", 1e-4, 100),
    Case("two-transistor", "transistorAmplifier", 1e-4, 100),
    Case("synchronous-machine", "synchronousMachine", 1e-2, 4),
    Case("wscc9", "wscc9BusSystem", 1e-2, 4, params={"data": "pysdc"}),
)

COLUMNS = [
    ("problem", "U32"),
    ("sweeper", "U32"),
    ("n", "i8"),
    ("dt", "f8"),
    ("steps", "i8"),
    ("time", "f8"),
    ("time_upstream", "f8"),
    ("ratio", "f8"),
    ("ratio_least", "f8"),
    ("sweeps", "f8"),
    ("sweeps_upstream", "f8"),
    ("rhs", "f8"),
    ("rhs_upstream", "f8"),
    ("difference", "f8"),
    ("error", "f8"),
    ("error_upstream", "f8"),
]


@dataclass
class _Run:
    controller: Any
    values: Callable[[Any], NDArray[np.float64]]

    @property
    def problem(self) -> Any:
        return self.controller.MS[0].levels[0].prob

    def __call__(self, u0: Any, t0: float, t_end: float) -> tuple[float, Any, Mapping[Any, Any]]:
        # As timeit does: a collection that one side's garbage sets off must not be paid by the other.
        gc.collect()
        gc.disable()
        try:
            tic = perf_counter()
            end, stats = self.controller.run(u0=u0, t0=t0, Tend=t_end)
            return perf_counter() - tic, end, stats
        finally:
            gc.enable()


def _controller(
    problem: Any,
    params: dict[str, Any],
    sweeper: Any,
    case: Case,
    nodes: int,
    qdelta: str,
    restol: float = RESTOL,
    newton_tol: float = NEWTON_TOL,
    own: Mapping[str, Any] | None = None,
    hooks: Sequence[type[Any]] = (),
) -> Any:
    description = {
        "problem_class": problem,
        "problem_params": {"newton_tol": newton_tol, **params},
        "sweeper_class": sweeper,
        "sweeper_params": {"num_nodes": nodes, "quad_type": "RADAU-RIGHT", "QI": qdelta, **(own or {})},
        "level_params": {"dt": case.dt, "restol": restol},
        "step_params": {"maxiter": MAXITER},
    }
    controller_params = {"logger_level": QUIET, "hook_class": list(hooks)}
    return controller_nonMPI(num_procs=1, controller_params=controller_params, description=description)


def _upstream_class(folder: str, module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(f"pySDC.projects.DAE.{folder}.{module}"), name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the installed pySDC has no {name} in pySDC.projects.DAE.{folder}.{module}; "
            f"install pySDC 5.9 ({error})"
        ) from error


def _ours(case: Case, nodes: int, qdelta: str, hooks: Sequence[type[Any]] = ()) -> Any:
    """A controller of this package, with the sweeps of a step in its prediction as ``solve`` has them."""
    cls, sweeper = PROBLEMS[case.problem], SWEEPERS[case.sweeper]
    own = {"initial_sweeps": INITIAL_SWEEPS}
    return _controller(cls, dict(case.params), sweeper, case, nodes, qdelta, own=own, hooks=hooks)


def _pair(case: Case, nodes: int, qdelta: str) -> tuple[_Run, _Run]:
    cls = PROBLEMS[case.problem]
    ours = _ours(case, nodes, qdelta)
    theirs = _controller(
        _upstream_class("problems", case.module, cls.__name__),
        {},
        _upstream_class("sweepers", *SWEEPER_MODULES[case.sweeper]),
        case,
        nodes,
        qdelta,
    )
    n_diff, n = ours.MS[0].levels[0].prob.n_diff, ours.MS[0].levels[0].prob.n

    def packed(state: Any) -> NDArray[np.float64]:
        plain = state.view(np.ndarray)
        return np.concatenate([plain[0][:n_diff], plain[1][: n - n_diff]]) if plain.ndim == 2 else plain

    return _Run(ours, packed), _Run(theirs, packed)


def _count_work(case: Case, nodes: int, qdelta: str, u0: Any, t0: float, t_end: float) -> tuple[float, float]:
    """Sweeps and residual evaluations a step of this package."""
    controller = _ours(case, nodes, qdelta, hooks=[StepRecord])
    controller.run(u0=u0, t0=t0, Tend=t_end)
    rows = next(hook for hook in controller.hooks if isinstance(hook, StepRecord)).rows
    return sum(row["sweeps"] for row in rows) / len(rows), sum(row["rhs"] for row in rows) / len(rows)


def _count_evaluations(run: _Run, u0: Any, t0: float, t_end: float) -> int:
    """Residual evaluations of a run, seen from outside: not every problem upstream counts its own."""
    problem, calls = run.problem, 0
    original = problem.eval_f

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*args)

    problem.eval_f = counted
    run(u0, t0, t_end)
    del problem.eval_f
    return calls


def _sweeps(stats: Mapping[Any, Any]) -> float:
    counts = [value for key, value in stats.items() if key.type == "niter"]
    return float(sum(counts) / len(counts))


@checked()
def bench(
    study: str = "upstream",
    *,
    out: str | Path | None = None,
    progress: bool = False,
    **given: Any,
) -> Result:
    """Time the same work in different ways that take turns.

    Parameters
    ----------
    study : str
        "upstream": here and in ``pySDC.projects.DAE``, see :func:`upstream`; "work": compiled and with NumPy,
        see :func:`dae_sdc.run.work.work`; "profile": the parts of a step, see
        :func:`dae_sdc.run.profile.profile`; "size": more and more unknowns, and against IDA, see
        :func:`dae_sdc.run.sizes.size`; "scaling": on one rank and on several, see
        :func:`dae_sdc.run.scaling.scaling`; "start": the first call in a fresh process, see
        :func:`dae_sdc.run.start_up.start`; "peers": tolerances from loose to tight, here and with solvers of
        other packages, see :func:`dae_sdc.run.peers.peers`; "testset": see
        :func:`dae_sdc.run.testset.testset`; "models": see :func:`dae_sdc.run.model_bench.models`;
        "polynomials": see :func:`dae_sdc.run.polynomial_bench.polynomials`.
    out : str or Path, optional
        File to save the result to.
    progress : bool
        Show a progress bar if standard error is a terminal.
    **given
        Arguments of the study, of which None stands for its own choice: repetitions, nodes, qdelta, problems,
        sizes, ranks, sweepers, linear_solvers, accuracies, rtols, time_limit, solutions.

    Returns
    -------
    Result
        Of kind "bench".

    Raises
    ------
    InputError
        For an unknown study or problem, and for what the study cannot use.
    """
    if study not in STUDIES:
        raise InputError(unknown("bench study", study, STUDIES))
    used = {name: value for name, value in given.items() if value is not None}
    taken = inspect.signature(STUDIES[study]).parameters
    idle = [name for name in used if name not in taken]
    for name in idle:
        if not any(name in inspect.signature(other).parameters for other in STUDIES.values()):
            raise InputError(unknown("option of bench", name, [name for name in taken if name != "progress"]))
    if idle:
        does = "have" if len(idle) > 1 else "has"
        away = "them" if len(idle) > 1 else "it"
        raise InputError(f"{' and '.join(idle)} {does} no effect on 'bench {study}'; leave {away} away")
    result: Result = STUDIES[study](**used, out=out, progress=progress)
    return result


@checked()
def upstream(
    *,
    repetitions: int = LEAST_REPETITIONS,
    nodes: int = 3,
    qdelta: str = "LU",
    problems: Sequence[str] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> Result:
    """Time the same work here and in ``pySDC.projects.DAE``, alternating, and compare the end values.

    Sweeper, nodes, Q_Delta, step size, residual tolerance (1e-9), Newton tolerance (1e-10) and initial value
    are the same; each side uses its own predictor and nonlinear solver. Only ``controller.run`` is timed.

    Parameters
    ----------
    repetitions : int
        Alternating runs of each side after one that is not counted.
    nodes, qdelta : int, str
        Number of nodes and Q_Delta.
    problems : sequence of str, optional
        Names of the problems; all if not given.
    out : str or Path, optional
        File to save the result to.
    progress : bool
        Show a progress bar if standard error is a terminal.

    Returns
    -------
    Result
        Of kind "bench": time of a step here and upstream (medians, s), their ``ratio`` (median of the ratios
        of neighbouring runs) and its least value, sweeps and residual evaluations a step, the largest
        ``difference`` of the end values, and the distance of each (``error``, ``error_upstream``) from the
        discretisation iterated to the end, all relative to 1 + abs(u).

    Raises
    ------
    InputError
        For an unknown problem, or a pySDC without the project.
    """
    if repetitions < 1:
        raise InputError(f"repetitions must be at least 1; got {repetitions}")
    names = sorted({case.problem for case in UPSTREAM})
    for name in problems or ():
        if name not in names:
            raise InputError(unknown("problem of this study", name, names))
    if out is not None:
        check_target(out)
    cases = [case for case in UPSTREAM if problems is None or case.problem in problems]
    rows = []
    total = len(cases) * repetitions
    with tqdm(total=total, unit="pair", disable=None if progress else True, leave=False) as bar:
        for case in cases:
            rows.append(_compare(case, nodes, qdelta, repetitions, bar))
    result = Result(
        "bench",
        np.array(rows, dtype=COLUMNS),
        {"time": "s", "time_upstream": "s", "dt": "s"},
        {
            "study": "upstream",
            "repetitions": repetitions,
            "nodes": nodes,
            "qdelta": qdelta,
            "restol": RESTOL,
            "newton_tol": NEWTON_TOL,
        },
        command_line(),
    )
    if out is not None:
        result.save(out)
    return result


def _compare(case: Case, nodes: int, qdelta: str, repetitions: int, bar: Any) -> tuple[Any, ...]:
    ours, theirs = _pair(case, nodes, qdelta)
    t0 = ours.problem.interval[0]
    t_end = t0 + (case.steps - 0.5) * case.dt
    theirs_u0 = theirs.problem.u_exact(t0)
    ours_u0 = ours.problem.state(theirs.values(theirs_u0))
    sweeps, rhs = _count_work(case, nodes, qdelta, ours_u0, t0, t_end)
    ours(ours_u0, t0, t_end)
    rhs_upstream = _count_evaluations(theirs, theirs_u0, t0, t_end) / case.steps
    times = []
    for _ in range(repetitions):
        time, end, _ = ours(ours_u0, t0, t_end)
        time_upstream, end_upstream, stats_upstream = theirs(theirs_u0, t0, t_end)
        times.append((time / case.steps, time_upstream / case.steps))
        bar.update(1)
    here, there = ours.values(end), theirs.values(end_upstream)
    # What both iterate towards: the same discretisation, iterated until round-off.
    settings = (dict(case.params), SWEEPERS[case.sweeper], case, nodes, qdelta)
    exact = _Run(_controller(PROBLEMS[case.problem], *settings, CONVERGED, CONVERGED), ours.values)
    limit = exact.values(exact(ours_u0, t0, t_end)[1])
    ratios = [upstream / own for own, upstream in times]
    return (
        case.problem,
        case.sweeper,
        len(here),
        case.dt,
        case.steps,
        median(own for own, _ in times),
        median(upstream for _, upstream in times),
        median(ratios),
        min(ratios),
        sweeps,
        _sweeps(stats_upstream),
        rhs,
        rhs_upstream,
        _distance(here, there),
        _distance(here, limit),
        _distance(there, limit),
    )


def _distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float((np.abs(first - second) / (1.0 + np.abs(second))).max())


STUDIES: Mapping[str, Callable[..., Result]] = {
    **{"upstream": upstream, "work": work, "profile": profile, "size": size, "scaling": scaling},
    **{"start": start, "peers": peers, "testset": testset, "models": models},
    "polynomials": polynomials,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc bench``; each study has its own choice for what is not given."""
    parser.add_argument(
        "study",
        nargs="?",
        default="upstream",
        help="upstream: against pySDC.projects.DAE; work: a step by problem, sweeper and backend; profile: "
        "its parts; size: many unknowns, and against IDA; scaling: on one and more ranks of MPI; start: the "
        "first call in a fresh process; peers: work and precision beside other packages; testset: digits and "
        "work of the Test Set for IVP Solvers; models: from equations to checked solutions; polynomials: "
        "systems whose solutions are known",
    )
    parser.add_argument("--problems", help="names of problems, separated by commas")
    parser.add_argument(
        "--repetitions",
        type=int,
        help="runs of each kind in turn (5, for profile 25, for start and peers 3, for polynomials 20)",
    )
    names, numbers, integers = listed(str, "names"), listed(float, "numbers"), listed(int, "integers")
    parser.add_argument("--nodes", type=int, help="number of collocation nodes (3)")
    parser.add_argument("--qdelta", help="preconditioner Q_Delta (LU); 'dae-sdc list qdelta' shows all")
    parser.add_argument("--sizes", type=integers, help="numbers of unknowns, separated by commas")
    parser.add_argument("--accuracies", type=numbers, help="errors at which to compare (1e-6,1e-9)")
    parser.add_argument("--ranks", type=int, help="ranks of MPI to start (2)")
    parser.add_argument("--rtols", type=numbers, help="relative tolerances (1e-3,1e-4,...,1e-12)")
    parser.add_argument("--time-limit", type=float, help="longest time of a run in seconds (20)")
    parser.add_argument("--solutions", metavar="DIR", help="directory for the solutions of models")
    parser.add_argument(
        "--sweeper", type=names, help="methods, separated by commas (all that take the problem)"
    )
    parser.add_argument("--linear-solver", type=names, help="linear solvers (all that are installed)")
    parser.add_argument("--out", metavar="FILE.npy", help="file for the result")


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc bench``."""
    names = (
        "repetitions",
        "nodes",
        "qdelta",
        "sizes",
        "ranks",
        "accuracies",
        "rtols",
        "time_limit",
        "solutions",
    )
    given = {name: getattr(args, name) for name in names}
    given |= {"problems": args.problems.split(",") if args.problems else None}
    given |= {"linear_solvers": args.linear_solver}
    if args.study == "work":
        given |= {"sweepers": args.sweeper, "qdelta": args.qdelta.split(",") if args.qdelta else None}
    elif args.study == "peers":
        given |= {"sweepers": args.sweeper}
    elif args.sweeper is not None:
        given |= {"sweeper": ",".join(args.sweeper)}
    result = bench(args.study, out=args.out, progress=True, **given)
    print_report(result)
    if args.out:
        print(f"written to {args.out}")
    return 0


def print_report(result: Result) -> None:
    """Print the table of a result of :func:`bench`."""
    reports = {"work": report_work, "profile": report_profile, "size": report_size, "scaling": report_scaling}
    reports |= {"start": report_start, "peers": report_peers, "testset": report_testset}
    reports |= {"models": report_models, "polynomials": report_polynomials}
    study = result.parameters["study"]
    if study in reports:
        print(reports[study](result))
    else:
        _print_upstream(result)


def _print_upstream(result: Result) -> None:
    print("ms, sweeps and residual evaluations a step, errors of the iteration: here / upstream")
    print(
        f"{'problem':<20} {'sweeper':<15} {'n':>3} {'time':>17} {'ratio':>7} "
        f"{'sweeps':>11} {'evaluations':>15} {'difference':>10} {'errors':>17}"
    )
    for row in result.data:
        time = f"{1e3 * row['time']:.2f} / {1e3 * row['time_upstream']:.1f}"
        sweeps = f"{row['sweeps']:.1f} / {row['sweeps_upstream']:.1f}"
        rhs = f"{row['rhs']:.0f} / {row['rhs_upstream']:.0f}"
        errors = f"{row['error']:.1e} / {row['error_upstream']:.1e}"
        print(
            f"{row['problem']:<20} {row['sweeper']:<15} {row['n']:>3} {time:>17} {row['ratio']:>7.1f} "
            f"{sweeps:>11} {rhs:>15} {row['difference']:>10.1e} {errors:>17}"
        )
    print(f"geometric mean of the ratios: {np.exp(np.log(result.data['ratio']).mean()):.1f}")
