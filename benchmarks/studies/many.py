"""Many runs of one problem over its parameters, here and by IDA; see :func:`many`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import ida
from benchmarks.measuring.clock import in_turn
from benchmarks.measuring.processes import ask, environment, largest_error, nominal_of
from benchmarks.studies.peers.solvers import Case
from benchmarks.study import Layout, Option, Table, chosen, study
from dae_sdc.errors import require_count
from dae_sdc.problems.chemistry import Robertson
from dae_sdc.problems.mechanics import Pendulum2D
from dae_sdc.run.results import Result, combinations_of
from dae_sdc.run.solve import solve
from dae_sdc.run.sundials import Equations, installed
from dae_sdc.run.sweep import sweep
from dae_sdc.run.target import make_problem

# What is drawn for each run, by problem
SWEPT: Mapping[str, Mapping[str, str]] = {
    "robertson": {"k1": "uniform(0.03,0.02)"},
    "pendulum": {"m": "uniform(0.5,1)", "l": "uniform(0.8,0.4)", "g": "uniform(9,1)"},
}
RTOL = 1e-6
REFERENCE = 1e-11  # Tolerance of the runs that errors are measured against
COMPARED = 4  # Number of the first runs that are
FEW = 50  # Runs of a sweep whose memory is subtracted from that of many
QUICK = 40
SWEEP, SHARED, LOOP, PEER, PEERS = "sweep", "sweep, 2 workers", "loop of solve", "ida", "ida, 2 processes"
TEXT = Layout(
    "problem:<10|way:<17|runs:>6|ms/run=wall*1e3:>8.3f|on processors=processor*1e3:>13.3f|rtol:>8.1e|"
    "error:>8.1e|/sweep=ratio:>6.2f|equal:>6"
)
MEMORY = """
import json, sys
from benchmarks.measuring.processes import peak_memory
from dae_sdc.run.sweep import sweep
asked, peaks = json.load(sys.stdin), []
for samples in asked.pop("samples"):
    sweep(samples=samples, **asked)
    peaks.append(peak_memory())
print(json.dumps(peaks))
"""


def _force_kernel(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    m, length, g = p[0], p[1], p[2]
    out[0] = du[0] - u[2]
    out[1] = du[1] - u[3]
    out[2] = m * du[2] + u[4] * u[0]
    out[3] = m * du[3] + u[4] * u[1] + m * g
    out[4] = m * (u[2] ** 2 + u[3] ** 2) - m * g * u[1] - u[4] * length**2


class PendulumOfIndex1(Pendulum2D):
    """The pendulum with its constraint differentiated twice, as IDA integrates no index 3."""

    index, variable_index = 1, (1, 1, 1, 1, 1)
    equation_names = ("velocity x", "velocity y", "force x", "force y", "acceleration along the rod")
    residual_kernel = _force_kernel


# Problems that IDA is given
OF_PEER: Mapping[str, Any] = {"robertson": Robertson, "pendulum": PendulumOfIndex1}


@study(
    "many",
    "problem:U16 way:U24 runs:i8 wall[s] processor[s] rtol error ratio equal:?",
    example="--problems robertson --runs 6 --repetitions 1",
    options={
        "runs": Option("runs of each problem", check=require_count),
        "quick": Option("fewer runs and repetitions"),
    },
    bad=lambda result: not result.data["equal"].all(),
)
def many(
    rows: Table,
    *,
    problems: Sequence[str] = tuple(SWEPT),
    runs: int = 1000,
    repetitions: int = 3,
    quick: bool = False,
) -> None:
    """Measure runs of a problem over draws of its parameters, to a tolerance of 1e-6, values at the end kept.

    A sweep, one with two workers, and a loop of :func:`dae_sdc.run.solve.solve` take turns with loops of IDA
    in this process and in two others. Its tolerance is the loosest one whose errors at the end are at most
    ours, measured against a few runs to 1e-11; the pendulum has index 1 there, by hand. Each run of IDA has a
    new problem with compiled residual and Jacobian, and a new integrator. The time in which processes start
    is included. "equal" says whether the values at the end are those of single runs, to the last bit. What
    a sweep takes in memory is measured in a process of its own, above that of a short sweep.
    """
    count, repetitions = (min(runs, QUICK), 1) if quick else (runs, repetitions)
    for name in rows.each(chosen("problem", problems, SWEPT), "problem"):
        _measure(rows, name, count, repetitions)


def _measure(rows: Table, name: str, count: int, repetitions: int) -> None:
    how: dict[str, Any] = {"problem": name, "params": dict(SWEPT[name]), "rtol": RTOL, "points": 2}
    swept = partial(sweep, **how, samples=count, reduce="end")
    first = swept()
    values = [
        dict(zip(SWEPT[name], row, strict=True)) for row in zip(*first.parameters.values(), strict=True)
    ]
    ends, few = _ends(first), values[:COMPARED]
    exact = [_solved(name, REFERENCE, params) for params in few]
    ways: dict[str, tuple[float, Callable[[], NDArray[np.float64]]]] = {
        SWEEP: (RTOL, lambda: _ends(swept())),
        SHARED: (RTOL, lambda: _ends(swept(workers=2))),
        LOOP: (RTOL, lambda: np.array([_solved(name, RTOL, params) for params in values])),
    }
    if installed():
        target = _error(name, values, ends, exact)
        rtol = ida.loosest(lambda rtol: _error(name, values, _by_ida(name, rtol, few), exact), target)
        ways[PEER] = rtol, lambda: _by_ida(name, rtol, values)
        ways[PEERS] = rtol, lambda: _by_two(name, rtol, values)
    else:
        rows.leave_out("ida", "scikit-sundae is not installed: pip install 'dae_sdc[bench]'")
    answers = in_turn({way: partial(_timed, run) for way, (_, run) in ways.items()}, repetitions)
    for way, (rtol, _) in ways.items():
        several = answers[way]
        rows.put(
            **{"problem": name, "way": way, "runs": count, "rtol": rtol},
            wall=median(wall for wall, *_ in several) / count,
            processor=median(busy for _, busy, _ in several) / count,
            ratio=median(one[0] / other[0] for one, other in zip(several, answers[SWEEP], strict=True)),
            error=_error(name, values, several[0][2], exact),
            equal=way in (PEER, PEERS) or all(found.tobytes() == ends.tobytes() for *_, found in several),
        )
    asked = {**how, "reduce": "mean,std,quantile(0.05,0.95),end", "points": 201, "samples": [FEW, count]}
    before, after = ask(("-c", MEMORY), asked, "a sweep in a process of its own", 900.0, environment())
    rows.parameters[f"memory of {name}"] = after - before


def _timed(run: Callable[[], NDArray[np.float64]]) -> tuple[float, float, NDArray[np.float64]]:
    """Seconds by the clock, seconds of this process and of those that it began, and what a run gives."""
    began, busy = perf_counter(), sum(os.times()[:4])
    found = run()
    return perf_counter() - began, sum(os.times()[:4]) - busy, found


def _ends(runs: Any) -> NDArray[np.float64]:
    return np.stack([runs.quantity(unknown) for unknown in runs.names], axis=1)


def _solved(name: str, rtol: float, params: Mapping[str, float]) -> NDArray[np.float64]:
    return np.array(solve(name, params=params, rtol=rtol, points=2, dense=False).u[-1])


def _error(name: str, values: Any, found: Any, exact: Any) -> float:
    """Largest error of the first runs at their ends, in units of nominal values."""
    problems = (make_problem(name, params) for params in values)
    return max(largest_error(*case) for case in zip(problems, found, exact, strict=False))


def _by_ida(name: str, rtol: float, values: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
    ends = []
    for params in values:
        case = Case(OF_PEER[name](**params))
        case.equations = Equations(case.problem, case.switches)
        solver = ida.integrator(case.equations, False, rtol, rtol * nominal_of(case.problem))
        ends.append(ida.integrate(solver, case, False).end)
    return np.array(ends)


def _by_two(name: str, rtol: float, values: Sequence[Mapping[str, float]]) -> NDArray[np.float64]:
    middle = (len(values) + 1) // 2
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        parts = pool.map(partial(_by_ida, name, rtol), (values[:middle], values[middle:]))
        return np.concatenate([part for part in parts if len(part)])


@many.reports
def report(result: Result) -> Iterator[str]:
    yield f"runs to rtol={RTOL:g}; medians, all ways in turn; times by the clock, in units of the sweep"
    yield from TEXT.lines(result.data)
    for (name,), rows in combinations_of(result.data, ("problem",)):
        grown = result.parameters[f"memory of {name}"]
        yield f"{name}: {rows['runs'][0]} runs that are reduced take {grown * 1e-6:.1f} MB more than {FEW}"
