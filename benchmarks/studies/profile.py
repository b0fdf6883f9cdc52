"""Where the time of a step goes: pySDC, the sweeper, the equations and their linear algebra.

See :func:`profile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from timeit import Timer
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from benchmarks.measuring import steps
from benchmarks.measuring.clock import Clock
from benchmarks.measuring.ranks import Work
from benchmarks.measuring.steps import COMPILED, SWEEPER_METHODS, Steps
from benchmarks.study import Table, chosen, study
from dae_sdc.compiled import machine_newton, triangular
from dae_sdc.dae import linear, newton
from dae_sdc.dae.kernels import machine
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.plotting.plot import Picture
from dae_sdc.run.results import Result

RESTOL = 1e-9
STEP, CALLS, LEFT = "step", "compiled sweeps", "left over"
# Parts that are inside of a compiled sweep, where there is one
INSIDE = (EQUATIONS, JACOBIANS, FACTORING, SOLVING) = (
    *("equations", "Jacobians", "factorisations", "solves with the factors"),
)
OUTSIDE = (CONTROLLER, HOOKS, CONVERGENCE, KEEPING, SWEEPER_PART) = (
    *("controller", "hooks", "convergence controllers", "keeping the step", "sweeper, Python"),
)
PARTS = (*OUTSIDE, CALLS, *INSIDE, LEFT)  # Parts of a step that add up to it

# By which pySDC's controllers use convergence controllers
CONVERGENCE_METHODS = (
    *("reset_buffers_nonMPI", "reset_status_variables", "post_spread_processing", "pre_iteration_processing"),
    *("post_iteration_processing", "post_iteration_processing_block", "convergence_control"),
    *("communicate_convergence", "post_step_processing", "prepare_next_block", "post_run_processing"),
)

HOOK_METHODS = (
    *("post_setup", "pre_run", "post_run", "pre_step", "post_step", "pre_iteration", "post_iteration"),
    *("pre_sweep", "post_sweep", "pre_comm", "post_comm"),
)

LONG = 1e-3  # Seconds that a call is repeated for when it is timed by itself


@study(
    "profile",
    "problem:U32 backend:U16 n:i8 dt steps:i8 part:U32 inside:U32 time[s] share[1] calls",
    example="--problems simple --repetitions 1",
    picture=Picture("bench", "benchmarks.pictures:profile", "the parts of a step"),
)
def profile(
    rows: Table,
    *,
    problems: Sequence[str] = ("simple", "one-transistor", "transmission-line"),
    sizes: Sequence[int] = (1000,),
    sweeper: str = "semi-implicit",
    nodes: int = 3,
    qdelta: str = "LU",
    repetitions: int = 25,
) -> None:
    """Time the parts of a warm step, compiled and with NumPy.

    Timers around the methods that pySDC calls see the same steps again, in turn with runs without timers.
    What a timer costs is measured by runs with timers around the hooks alone, which have most calls, and
    taken off. Of all repetitions the least counts, for the step and for each part. What is inside a compiled
    sweep cannot be timed there: its kernels and solves are timed alone, at the numbers of calls that were
    counted.
    """
    rows.parameters |= {"restol": RESTOL, "timers": {}}
    cases = [
        (steps.steps_of(name, params, sweeper, RESTOL), backend)
        for name in chosen("problem", problems, PROBLEMS)
        for params in steps.several_sizes(name, sizes)
        for backend in steps.backends(name, params)
    ]
    for work, backend in rows.each(cases, "case"):
        _measure(rows, work, backend, nodes, qdelta, repetitions)


def _measure(rows: Table, what: Work, backend: str, nodes: int, qdelta: str, repetitions: int) -> None:
    run = steps.measured(rows, what, nodes, qdelta, backend)
    if run is None:
        return
    plain, around_hooks, clocks = [], [], []
    for _ in range(repetitions):
        plain.append(run().wall)
        with Clock() as hooks_only:
            _put_timers_around_hooks(hooks_only, run)
            around_hooks.append(run().wall)
        with Clock() as clock:
            _put_timers_around_hooks(clock, run)
            _put_timers(clock, run)
            run()
        clocks.append(clock)
    # Other processes make every part longer and none shorter.
    a_call = max(min(around_hooks) - min(plain), 0.0) / hooks_only.number
    found = [one.times(a_call) for one in clocks]
    whole = min(plain) / what.steps
    parts = {name: min(times.get(name, 0.0) for times in found) / what.steps for name in PARTS}
    calls = {name: clock.calls.get(name, 0) / what.steps for name in PARTS}
    # Python still evaluates and factorises outside of the compiled calls.
    alone: dict[str, list[float]] = {}
    if parts[CALLS] > 0.0:
        counts = run.work_of_a_step()
        counted = (counts[name] for name in ("rhs", "jacobian", "factorization", "solve"))
        t = run.t0 + 0.5 * what.dt
        u, du = np.array(run.level.prob.u_exact(t)), np.array(run.level.prob.du_exact(t))
        seconds = time_kernels(run.level.prob, u, du, t, what.dt)
        alone = {name: both for name, *both in zip(INSIDE, seconds, counted, strict=True)}
    parts[LEFT] = whole - sum(parts[name] for name in PARTS if name != LEFT)
    common = {"problem": what.problem, "backend": backend, "n": run.problem.n, "dt": what.dt}
    common["steps"] = what.steps
    rows.put(**common, part=STEP, time=whole, share=1.0, calls=1.0)
    for name in PARTS:
        if calls[name] or name == LEFT:
            rows.put(**common, part=name, time=parts[name], share=parts[name] / whole, calls=calls[name])
    for name, (each, count) in alone.items():
        inner = max(count - calls[name], 0.0)
        time = each * inner
        rows.put(**common, part=name, inside=CALLS, time=time, share=time / whole, calls=inner)
    key = f"{what.problem}, n={run.problem.n}, {backend}"
    rows.parameters["timers"][key] = a_call * clock.number / what.steps


def _put_timers_around_hooks(clock: Clock, run: Steps) -> None:
    for hook in run.controller.hooks:
        for name in HOOK_METHODS:
            kept = hook is run.record and name == "post_step"
            clock.time(hook, name, KEEPING if kept else HOOKS)


def _put_timers(clock: Clock, run: Steps) -> None:
    controller, sweep, problem = run.controller, run.level.sweep, run.level.prob
    clock.time(controller, "run", CONTROLLER)
    for convergence in controller.convergence_controllers:
        for name in CONVERGENCE_METHODS:
            if hasattr(convergence, name):
                clock.time(convergence, name, CONVERGENCE)
    for name in SWEEPER_METHODS:
        clock.time(sweep, name, SWEEPER_PART)
    solver = getattr(sweep, "solver", None)  # what carries out sweeps, perhaps in compiled code
    if getattr(solver, "compiled", False) is True:
        for name in ("solve", "norms", "sweeps"):
            clock.time(solver, name, CALLS)
    for name in ("evaluate", "evaluate_nodes"):
        clock.time(problem, name, EQUATIONS)
    if hasattr(problem, "jacobian"):
        clock.time(problem, "jacobian", JACOBIANS)
    clock.time(newton, "factorize", FACTORING)
    for factors in (linear.DenseLU, linear.SparseLU):
        clock.time(factors, "solve", SOLVING)


def time_kernels(problem: ProblemDAE, u: Any, du: Any, t: float, c: float) -> list[float]:
    """Seconds of a residual, a Jacobian, a factorisation and a solve by themselves."""
    # What a call from Python costs is measured with no residuals and a matrix of one row, and taken off.
    kernels, jacobian = problem.kernels, getattr(problem, "jacobian", None)
    assert kernels is not None
    rows = max(1, min(1000, 20000 // problem.n))
    many, many_du = np.tile(u, (rows, 1)), np.tile(du, (rows, 1))
    times, out, p = np.full(rows, t), np.empty((rows, problem.n)), problem.packed_parameters
    residuals = machine("residuals_at")
    residual = repeated(lambda: residuals(kernels.residual, times, many, many_du, p, out)) / rows
    if jacobian is None:
        return [residual, 0.0, 0.0, 0.0]
    call = repeated(lambda: residuals(kernels.residual, times[:0], many, many_du, p, out))
    state, slope = problem.state(u), problem.state(du)
    evaluation = repeated(lambda: jacobian(state, slope, t, c)) - call
    matrix = jacobian(state, slope, t, c)
    factors = linear.factorize(matrix)
    if sparse.issparse(matrix):
        parts, pattern = triangular.superlu_factors(factors, matrix)
        compiled = njit(error_model="numpy")
        again, solve = compiled(machine_newton.refactorized), compiled(machine_newton.solved)
        right, result, room = np.ones(parts.size), np.empty(parts.size), np.empty(4 * parts.size)
        factoring = repeated(lambda: again(pattern, parts, matrix.data, room))
        solving = repeated(lambda: solve(parts, right, result, room[: parts.size]))
    else:
        right, small, least = np.ones(problem.n), np.ones((1, 1)), linear.factorize(np.ones((1, 1)))
        factoring = repeated(lambda: linear.factorize(matrix)) - repeated(lambda: linear.factorize(small))
        solving = repeated(lambda: factors.solve(right)) - repeated(lambda: least.solve(small[0]))
    return [residual, *(max(seconds, 0.0) for seconds in (evaluation, factoring, solving))]


def repeated(call: Any) -> float:
    """Seconds of a call: the least of several loops."""
    call()
    timer = Timer(call)
    number = max(1, int(LONG / max(timer.timeit(1), 1e-9)))
    return min(timer.repeat(5, number)) / number


@profile.reports
def report(result: Result) -> Iterator[str]:
    data, about = result.data, result.parameters
    keys = list(dict.fromkeys((str(r["problem"]), int(r["n"]), str(r["backend"])) for r in data))
    names = ("problem", "n", "backend", "part", "inside")
    cells = {tuple(row[name].item() for name in names): row for row in data}
    yield (
        f"us a step, {about['sweeper']}, M={about['nodes']}, {about['qdelta']}; least of "
        f"{about['repetitions']} runs with and without timers in turn; in parentheses calls a step"
    )
    yield f"{'':<35}" + "".join(f"{name:>22}" for name, _, _ in keys)
    yield f"{'':<35}" + "".join(f"{f'n={n}, {backend}':>22}" for _, n, backend in keys)
    for part, inside in [(part, "") for part in (STEP, *PARTS)] + [(part, CALLS) for part in INSIDE]:
        text, texts = f"{'  of these, ' if inside else ''}{part}", []
        for key in keys:
            row = cells.get((*key, part, inside))
            count = "" if row is None or part in (STEP, LEFT) else f"({row['calls']:.1f})"
            cell = "" if row is None else f"{1e6 * row['time']:.1f}{100 * row['share']:>4.0f} %{count:>8}"
            texts.append(cell or "-")
        if set(texts) != {"-"}:
            yield f"{text:<35}" + "".join(f"{each:>22}" for each in texts)
    timers = ", ".join(f"{1e6 * about['timers'][f'{p}, n={n}, {b}']:.0f}" for p, n, b in keys)
    yield f"the timers themselves, taken off: {timers} us a step"
    if any(cell[2] == COMPILED for cell in cells):
        yield (
            "'of these': parts of the compiled sweeps, timed alone at the numbers of calls counted; "
            "factorising and\nsolving from Python, less what a call from there costs: 0 where it is no more"
        )
