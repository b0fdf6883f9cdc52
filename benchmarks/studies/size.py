"""Time and memory against the number of unknowns, and against IDA at equal accuracy; see :func:`size`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

from benchmarks.measuring import ida
from benchmarks.measuring.clock import in_turn
from benchmarks.measuring.processes import in_a_new_process
from benchmarks.measuring.ranks import Work, record_of, timed_run
from benchmarks.measuring.steps import FAMILIES, HOOKS, STEPS, WARM, Steps
from benchmarks.study import Layout, Table, chosen, require_positive, study
from dae_sdc.control.hooks import CheckInitialValue
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.errors import DAEError, InputError
from dae_sdc.plotting.plot import Picture
from dae_sdc.run.description import Setup, describe
from dae_sdc.run.execution import CONTROLLER
from dae_sdc.run.method import swept_at_once
from dae_sdc.run.results import Result, combinations_of
from dae_sdc.run.sundials import installed

PROBLEM = "transmission-line"
SWEEPER = "semi-implicit"
QDELTA = "LU"
# Number of nodes with which the comparison with IDA is done too: high accuracies suit high orders
NODES_COMPARED = 5
RESTOL = 1e-9
LINEAR_SOLVERS = ("superlu", "klu", "gmres", "dense")
AUTOMATIC = "auto"
# Module that a linear solver needs, and the extra of this package that brings it
NEEDS = {"klu": ("kvxopt", "klu")}
# Largest number of unknowns for dense matrices, which take less than two minutes up to there: with n = 1e4
# one factorisation takes 13 s on one core and 0.8 GB, and ten steps do thirty of them
DENSE_MOST = 2000
COMPARED_MOST = 10_000  # Largest number of unknowns for the comparison with IDA
MOST_STEPS = 4096  # Largest number of steps that is tried for an accuracy
OURS, IDA = "dae_sdc", "ida"
STEP, ACCURACY = "step", "accuracy"
GROWTH = Layout(
    "solver:<8|n:>7|ms/step=time*1e3:>9.2f|exponent:>8.2f|ms cold=time_cold*1e3:>9.1f|MB=memory*1e-6:>8.0f|"
    "MB before=memory_before*1e-6:>9.0f|sweeps:>6.1f|newton:>6.1f|fact.=factorization:>5.1f|error:>8.1e",
    nan="-",
)
COMPARED = Layout(
    "n:>7|accuracy:>8.0e|M=nodes:>2| =solver:<8|steps:>6|tolerance:>9.1e|error:>8.1e|rhs:>6.0f|"
    "jac.=jacobian:>5.0f|ms=time_run*1e3:>9.1f|ida/ours=ratio:>8.2f",
    nan="",
)


@study(
    "size",
    "source:U16 solver:U16 n:i8 nodes:i8 dt[ms] steps:i8 time[s] time_cold[s] time_run[s] memory[B] "
    "memory_before[B] exponent[1] accuracy[V] tolerance error[V] ratio[1] sweeps " + " ".join(COUNTERS),
    example="--sizes 10,20 --repetitions 1",
    picture=Picture("bench", "benchmarks.pictures:size", "time and memory against unknowns"),
)
def size(
    rows: Table,
    *,
    sizes: Sequence[int] = (100, 1000, 10_000, 100_000),
    nodes: int = 3,
    linear_solvers: Sequence[str] | None = None,
    accuracies: Sequence[float] = (1e-6, 1e-9),
    repetitions: int = 5,
) -> None:
    """Measure steps of the transmission line with more and more unknowns, and compare with IDA.

    The time of a step is that of ten warm steps, repeated from the same state; the linear solvers take turns.
    Time from a cold start and memory are those of ten steps by :func:`dae_sdc.run.solve.solve` in a new
    process, in which what it needs is imported when it is needed: nothing is taken off its largest memory,
    and what it was before the solve stands beside it.

    Against IDA both sides integrate over the interval of the problem and reach the same accuracy at its end.
    Here the number of steps is the smallest of those tried whose error is at most the accuracy, with the
    residual tolerance equal to it and a Newton tolerance of a tenth; IDA gets the loosest tolerance at which
    its error is at most ours. Each run begins with a new controller or integrator, which are made before the
    clock starts, without any matrix; compiled code is loaded.
    """
    given = available() if linear_solvers is None else linear_solvers
    solvers = chosen("linear solver", given, [*LINEAR_SOLVERS, AUTOMATIC])
    for name in solvers:
        if name in NEEDS and find_spec(NEEDS[name][0]) is None:
            module, extra = NEEDS[name]
            raise InputError(f"linear solver '{name}' needs {module}: pip install 'dae_sdc[{extra}]'")
    for accuracy in accuracies:
        require_positive("an accuracy", accuracy)
    rows.parameters |= {"problem": PROBLEM, "sweeper": SWEEPER, "qdelta": QDELTA, "restol": RESTOL}
    rows.parameters |= {"steps": STEPS, "exponents": {}, "ida": {**ida.SETTINGS, "jacfn": "exact"}}
    compared = [number for number in sizes if number <= COMPARED_MOST] if accuracies else []
    if compared and not installed():
        rows.leave_out("comparison with IDA", "scikit-sundae is not installed: pip install 'dae_sdc[bench]'")
        compared = []
    for number in rows.each(sizes, "size"):
        _grow(rows, number, nodes, solvers, repetitions)
    rows.parameters["exponents"] = exponents(rows.data)
    every = product(compared, dict.fromkeys((nodes, NODES_COMPARED)), accuracies)
    for number, m, accuracy in rows.each(list(every), "comparison"):
        _compare(rows, number, m, accuracy, repetitions)


def available() -> list[str]:
    return [name for name in LINEAR_SOLVERS if name not in NEEDS or find_spec(NEEDS[name][0])]


def _grow(rows: Table, n: int, nodes: int, solvers: Sequence[str], repetitions: int) -> None:
    family = FAMILIES[PROBLEM]
    runs: dict[str, Steps] = {}
    for solver in solvers:
        if solver == "dense" and n > DENSE_MOST:
            rows.leave_out(f"dense, n={n}", f"dense matrices are measured up to n={DENSE_MOST}")
            continue
        params = family.params(n) | ({} if solver == AUTOMATIC else {"linear_solver": solver})
        work = Work(PROBLEM, params, SWEEPER, family.dt, RESTOL, WARM, STEPS)
        with rows.or_left_out(f"{solver}, n={n}"):
            runs[solver] = Steps(work, nodes, QDELTA)
    timings = in_turn(runs, repetitions)
    how = {"problem": PROBLEM, "sweeper": SWEEPER, "nodes": nodes, "qdelta": QDELTA, "restol": RESTOL}
    how |= {"dt": family.dt, "t_end": STEPS * family.dt}
    cold: dict[str, list[dict[str, Any]]] = {solver: [] for solver in runs}
    for _ in range(repetitions):
        for solver in list(cold):
            try:
                cold[solver].append(in_a_new_process({**how, "params": runs[solver].work.params}))
            except DAEError as error:
                rows.leave_out(f"a cold start of {solver}, n={n}", error)
                del cold[solver]
    for solver, run in runs.items():
        time, counts = median(timing.wall for timing in timings[solver]) / STEPS, run.work_of_a_step()
        earlier = rows.data[(rows.data["source"] == STEP) & (rows.data["solver"] == solver)]
        earlier = earlier[earlier["n"] != run.problem.n]
        row = {"source": STEP, "solver": solver, "n": run.problem.n, "nodes": nodes, "dt": family.dt}
        row |= {"steps": STEPS, "time": time} | {name: counts[name] for name in ("sweeps", *COUNTERS)}
        if len(earlier):
            grown = math.log(time / earlier["time"][-1]) / math.log(run.problem.n / earlier["n"][-1])
            row["exponent"] = grown
        if starts := cold.get(solver):
            row |= {"time_cold": median(start["time"] for start in starts), "error": starts[0]["error"]}
            row["memory"] = max(start["memory"] for start in starts)
            row["memory_before"] = median(start["memory_before"] for start in starts)
        rows.put(**row)


def exponents(data: NDArray[np.void]) -> dict[str, float]:
    """Exponent of the time of a step in n for each solver, by least squares of logarithms over all sizes."""
    powers = {}
    for (source, solver), steps in combinations_of(data, ("source", "solver")):
        if source == STEP and len(np.unique(steps["n"])) > 1:
            powers[str(solver)] = float(np.polyfit(np.log(steps["n"]), np.log(steps["time"]), 1)[0])
    return powers


def numbers_of_steps(most: int = MOST_STEPS) -> Iterator[int]:
    """Numbers of steps that are tried: about a quarter more each time."""
    yield from (2, 3, 4, 5, 6)
    base = 8
    while base <= most:
        yield from (number for k in (4, 5, 6, 7) if (number := k * base // 4) <= most)
        base *= 2


def run_here(setup: Setup, steps: int) -> tuple[float, NDArray[np.float64], dict[str, float]]:
    """Seconds, the value at the end and the work, of a run of so many steps with a new controller."""
    problem = setup.problem
    t0, t_end = problem.interval
    dt = float((t_end - t0) / steps)
    params = {**CONTROLLER, "hook_class": [CheckInitialValue, *HOOKS]}
    controller = controller_nonMPI(1, params, setup.with_step(dt))
    timing, _ = timed_run(controller, problem.state(problem.u_exact(t0)), t0, t_end - 0.5 * dt)
    counters = controller.MS[0].levels[0].prob.work_counters
    counts = {name: float(counters[name].niter) for name in COUNTERS}
    counts["sweeps"] = float(sum(row["sweeps"] for row in record_of(controller).rows))
    return timing.wall, timing.end, counts


def fewest_steps(setup: Setup, accuracy: float) -> tuple[int, float]:
    """The fewest steps that are accurate enough, and the error; raises InputError without any."""
    exact = np.array(setup.problem.u_exact(setup.problem.interval[1]))
    for steps in numbers_of_steps():
        with suppress(DAEError):
            error = float(np.abs(run_here(setup, steps)[1] - exact).max())
            if error <= accuracy:
                return steps, error
    raise InputError(f"no step size down to 1/{MOST_STEPS} of the interval has an error below {accuracy:g}")


def _compare(rows: Table, n: int, nodes: int, accuracy: float, repetitions: int) -> None:
    how: dict[str, Any] = {"sweeper": SWEEPER, "nodes": nodes, "qdelta": QDELTA}
    how |= {"params": FAMILIES[PROBLEM].params(n), "restol": accuracy, "newton_tol": 0.1 * accuracy}
    setup = swept_at_once(describe(PROBLEM, **how))
    problem = setup.problem
    try:
        steps, error = fewest_steps(setup, accuracy)
        other = ida.Ida(problem, *problem.interval)
    except InputError as reason:
        rows.leave_out(f"comparison with IDA at {accuracy:g}, n={problem.n}, M={nodes}", reason)
        return
    tolerance = ida.loosest(other.error, error)
    runs: dict[str, Callable[[], Any]] = {OURS: lambda: run_here(setup, steps)}
    if not math.isnan(tolerance):
        runs[IDA] = lambda: other.run(tolerance)
    outcomes = in_turn(runs, repetitions)
    times = [time for time, _, _ in outcomes[OURS]]
    common = {"source": ACCURACY, "n": problem.n, "accuracy": accuracy, "nodes": nodes}
    ours = {"solver": OURS, "steps": steps, "dt": float(np.ptp(problem.interval) / steps), "error": error}
    rows.put(**common, **ours, tolerance=accuracy, time_run=median(times), **outcomes[OURS][-1][2])
    if IDA not in outcomes:
        what = f"IDA at {error:.1e}, n={problem.n}"
        rows.leave_out(what, f"no tolerance down to 1e{ida.TIGHTEST:g} has such an error")
        return
    last = outcomes[IDA][-1]
    rows.put(
        **{**common, "solver": IDA, "steps": other.run(tolerance, each=True).steps, "tolerance": tolerance},
        **{"rhs": float(last.rhs), "jacobian": float(last.jacobian)},
        time_run=median(run.time for run in outcomes[IDA]),
        error=float(np.abs(last.end - other.exact).max()),
        ratio=median(run.time / time for run, time in zip(outcomes[IDA], times, strict=True)),
    )


@size.reports
def report(result: Result) -> Iterator[str]:
    data, about = result.data, result.parameters
    yield (
        f"{about['problem']}, {about['sweeper']}, M={about['nodes']}, {about['qdelta']}, residual "
        f"{about['restol']:g}; medians of {about['repetitions']} runs in turn"
    )
    yield from GROWTH.lines(data[data["source"] == STEP])
    fitted = ", ".join(f"{name} {value:.2f}" for name, value in about["exponents"].items())
    steps = f"{about['steps']} steps"
    yield f"ms/step: warm, {steps}; ms cold: solve() of {steps} in a new process, imports"
    yield "apart; MB: largest memory of that process, nothing taken off (before: at the call of solve)"
    yield "exponent: of the time of a step since the row above" + (f"; of all: {fitted}" if fitted else "")
    rows = data[data["source"] == ACCURACY]
    if not len(rows):
        return
    yield ""
    yield "to the end of the interval at equal accuracy, here and with IDA of SUNDIALS in turn"
    yield from COMPARED.lines(rows)
    yield "tolerance: of residuals here (Newton: a tenth); rtol = atol of IDA, the loosest accurate enough"
    options = ", ".join(f"{name}={value}" for name, value in about["ida"].items())
    yield f"IDA: {options}, sparsity, algebraic_idx, consistent start"
