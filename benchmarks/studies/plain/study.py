"""Time to equal error with plain Python functions, here and with other solvers; see :func:`plain`."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.measuring.clock import clocked, stopwatch
from benchmarks.measuring.races import Contender, Equal, Outcome, PeerFailure, Race, equal
from benchmarks.studies.plain.problems import PLAIN, PlainProblem, Posed, Vector
from benchmarks.study import Option, Table, chosen, require_below_one, study
from dae_sdc.plotting.plot import Picture
from dae_sdc.run.results import Result, combinations_of
from dae_sdc.run.solve import solve
from dae_sdc.run.sundials import MODULE, MOST_INNER_STEPS, installed

# Names of the solvers in tables
DEFAULT, UNTRACED, IDA, RADAU = "dae_sdc", "dae_sdc, trace=False", "ida", "scipy-radau"
# Absolute tolerances of peers, relative to rtol times the sizes of the unknowns; the best run counts
ATOLS = (1.0, 1e-3)
WANTED_RATIO = 0.5  # Part of the time of the best peer that the default may take


@study(
    "plain",
    "problem:U32 solver:U24 weights:U24 n:i8 index:i8 rtol[1] success:i8 time[s] runs:i8 error[1] steps rhs "
    "message:U120",
    example="--problems ladder-10 --rtols 1e-3,1e-5 --accuracies 1e-3 --repetitions 1",
    picture=Picture("bench", "benchmarks.pictures:peers", "time against error of plain functions"),
    options={
        "accuracies": Option(
            "errors at which to compare, separated by commas", check=require_below_one, what="accuracy"
        ),
    },
)
def plain(
    rows: Table,
    *,
    problems: Sequence[str] | None = None,
    rtols: Sequence[float] = tuple(10.0 ** (-0.5 * power) for power in range(4, 26)),
    accuracies: Sequence[float] = (1e-4, 1e-6, 1e-8),
    repetitions: int = 5,
    time_limit: float = 10.0,
) -> None:
    """Solve DAEs that are plain Python functions, here and with IDA and SciPy's Radau, to equal errors.

    Here the function F(t, u, du) is given with a start, an end and rtol, and nothing else: its equations are
    read, or it is called as it is (``trace=False``). IDA (scikit-sundae) is given the same function, SciPy an
    ordinary differential equation that was made of it by hand where there is one; the pendulum has its index
    lowered by hand for both. Peers take differences for Jacobians, dense and banded or sparse where these
    are, start with the true derivative, and have the absolute tolerance rtol times sizes of the unknowns, or
    a thousandth of it; of all these runs the best count.

    Times are those of the processor, which other processes on the machine disturb less; all solve on one
    thread. All that a call does belongs to its time, also reading the equations. The runs take turns after
    one of each that is not counted.
    """
    names = chosen("problem of this study", problems, PLAIN)
    rows.parameters |= {"accuracies": sorted(accuracies, reverse=True)}
    rows.parameters |= {"default": DEFAULT, "like": [IDA, RADAU], "unlike": []}
    rows.parameters |= {"versions": [f"scipy {importlib.metadata.version('scipy')}"]}
    if installed():
        rows.parameters["versions"] += [f"scikit-sundae {importlib.metadata.version('scikit-sundae')}"]
    else:
        rows.leave_out("IDA", "scikit-sundae is not installed: pip install 'dae_sdc[bench]'")
    tolerances = sorted({float(rtol) for rtol in rtols}, reverse=True)
    for name in rows.each(names, "problem"):
        race = _race(rows, name, min(accuracies), repetitions, time_limit)
        race.warm_up(tolerances[0], (DEFAULT, UNTRACED))
        for rtol in tolerances:
            race.measure(rtol)


def here(problem: PlainProblem, trace: bool | None, rtol: float, count: bool = False) -> Outcome:
    function: Any = problem.function
    how: dict[str, Any] = {"u0": problem.start, "t_end": problem.t_end, "rtol": rtol}
    spent, run = clocked(lambda: solve(function, trace=trace, **how))
    if not run.success:
        raise PeerFailure(run.message)
    return Outcome(spent.processor, run.u[-1], steps=run.stats["steps"], rhs=run.stats["rhs"])


def by_ida(problem: PlainProblem, posed: Posed, atol: Vector, rtol: float, count: bool = False) -> Outcome:
    """The run of IDA, which writes what the function returns into its array."""
    function = posed.function

    def residual(t: float, y: Vector, yp: Vector, res: Vector) -> None:
        res[:] = function(t, y, yp)

    with stopwatch() as spent:
        options = {"max_num_steps": MOST_INNER_STEPS, **posed.options, "rtol": rtol, "atol": rtol * atol}
        solver = importlib.import_module(MODULE).ida.IDA(residual, **options)
        run = solver.solve([0.0, problem.t_end], np.array(posed.start), np.array(posed.slope))
        if not run.success:
            raise PeerFailure(f"t={float(run.t[-1]):.4g}: {run.message}")
        end = np.asarray(posed.unknowns(problem.t_end, run.y[-1]))
    return Outcome(spent.processor, end, rhs=float(run.nfev))


def by_radau(problem: PlainProblem, posed: Posed, atol: Vector, rtol: float, count: bool = False) -> Outcome:
    with stopwatch() as spent:
        options = {**posed.options, "rtol": max(rtol, 100.0 * np.finfo(float).eps), "atol": rtol * atol}
        run = solve_ivp(posed.function, (0.0, problem.t_end), np.array(posed.start), "Radau", **options)
        if not run.success:
            raise PeerFailure(f"t={run.t[-1]:.4g}: {run.message}")
        end = np.asarray(posed.unknowns(problem.t_end, run.y[:, -1]))
    return Outcome(spent.processor, end, steps=float(len(run.t) - 1), rhs=float(run.nfev))


def _race(rows: Table, name: str, accuracy: float, repetitions: int, time_limit: float) -> Race:
    """All solvers on one problem, each in all ways to give it the equations."""
    problem = PLAIN[name]
    exact, sizes = problem.reference(), np.array(problem.sizes)
    ours = {DEFAULT: None, UNTRACED: False}
    contenders = [Contender(name, "", partial(here, problem, trace)) for name, trace in ours.items()]
    peers: list[tuple[str, Any, Mapping[str, Posed]]] = [(IDA, by_ida, problem.ida)] if installed() else []
    for solver, run, ways in [*peers, (RADAU, by_radau, problem.radau)]:
        for way, posed in ways.items():
            there = sizes[: len(posed.start)]  # unknowns that a peer does not have stand last
            for atol in ATOLS:
                carried = partial(run, problem, posed, atol * there)
                contenders.append(Contender(solver, f"{way}, atol {atol:g}", carried))
    if problem.without_radau:
        rows.leave_out(f"{name}, {RADAU}", problem.without_radau)

    def score(end: Vector) -> dict[str, float]:
        return {"error": float((np.abs(end - exact) / sizes).max())}

    about = {"problem": name, "n": len(problem.start), "index": problem.index}
    return Race(rows, about, contenders, score, repetitions, time_limit, accuracy)


def equal_errors(result: Result) -> list[Equal]:
    """The times to equal errors in a result of :func:`plain`, of each solver in its best way."""
    about = result.parameters
    parts = product(combinations_of(result.data, ["problem"]), about["accuracies"])
    return [equal(rows, error, DEFAULT, about["like"], [UNTRACED], apart=True) for (_, rows), error in parts]


@plain.reports
def report(result: Result) -> Iterator[str]:
    about = result.parameters
    solvers = [DEFAULT, UNTRACED, *about["like"]]
    yield (
        f"ms of the processor to an error at the end, relative to the sizes of the unknowns; medians of "
        f"{about['repetitions']} runs in turn; {', '.join(about['versions'])}"
    )
    yield f"{'problem':<12} {'error':>7} " + " ".join(f"{name:>20}" for name in solvers) + f" {'ratio':>6}"
    found = equal_errors(result)
    for one in found:
        times = [one.times[name] for name in solvers]
        shown = " ".join(f"{'-' if math.isnan(time) else f'{1e3 * time:.2f}':>20}" for time in times)
        yield f"{one.problem:<12} {one.error:>7.0e} {shown} {one.ratio:>6.2f}"
    ratios = [one.ratio for one in found if not math.isnan(one.ratio)]
    if ratios:
        fine = sum(ratio <= WANTED_RATIO for ratio in ratios)
        yield f"{DEFAULT} / best peer: at most {WANTED_RATIO:g} in {fine} of {len(ratios)}"
    yield "ratio: dae_sdc / best peer; 0: no peer gets there, inf: we do not"
