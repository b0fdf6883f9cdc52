"""The same work here and in pySDC.projects.DAE, taking turns; see :func:`upstream`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

from benchmarks.measuring.clock import stopwatch, undisturbed
from benchmarks.measuring.steps import distance
from benchmarks.study import Layout, Table, chosen, study
from dae_sdc.control.hooks import StepRecord
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.run.execution import QUIET
from dae_sdc.run.method import INITIAL_SWEEPS
from dae_sdc.run.results import Result
from dae_sdc.sweepers.sdc import SWEEPERS

RESTOL = 1e-9
NEWTON_TOL = 1e-10
MAXITER = 100
CONVERGED = 1e-14  # Tolerances that nothing meets: every step takes all the iterations

SWEEPER_MODULES = {
    "fully-implicit": ("fullyImplicitDAE", "FullyImplicitDAE"),
    "semi-implicit": ("semiImplicitDAE", "SemiImplicitDAE"),
}


@dataclass(frozen=True)
class Case:
    """One piece of work that both implementations do."""

    problem: str  # Name here
    module: str  # Module of pySDC.projects.DAE.problems; the classes have the same names
    dt: float  # Step size in the time unit of the problem
    steps: int  # Number of steps
    sweeper: str = "fully-implicit"  # Name of the sweeper
    params: Mapping[str, Any] = field(default_factory=dict)  # Parameters here, where defaults differ


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

TEXT = Layout(
    "problem:<20|sweeper:<15|n:>3|time:>17|ratio:>7.1f|sweeps:>11|evaluations:>15|difference:>10.1e|errors:>17"
)


@dataclass
class _Run:
    controller: Any
    values: Callable[[Any], NDArray[np.float64]]

    @property
    def problem(self) -> Any:
        return self.controller.MS[0].levels[0].prob

    def __call__(self, u0: Any, t0: float, t_end: float) -> tuple[float, Any, Mapping[Any, Any]]:
        with undisturbed(), stopwatch() as spent:
            end, stats = self.controller.run(u0=u0, t0=t0, Tend=t_end)
        return spent.wall, end, stats


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


def _ours(case: Case, nodes: int, qdelta: str, adapted: bool, hooks: Sequence[type[Any]] = ()) -> Any:
    """A controller of this package, with the sweeps of a step in its prediction as ``solve`` has them."""
    cls, sweeper = PROBLEMS[case.problem], SWEEPERS[case.sweeper]
    own, params = {"initial_sweeps": INITIAL_SWEEPS}, dict(case.params)
    problem: Any = cls
    if adapted:
        problem, params = _upstream_class("problems", case.module, cls.__name__), {}
    return _controller(problem, params, sweeper, case, nodes, qdelta, own=own, hooks=hooks)


def _pair(case: Case, nodes: int, qdelta: str, adapted: bool) -> tuple[_Run, _Run]:
    cls = PROBLEMS[case.problem]
    ours = _ours(case, nodes, qdelta, adapted)
    classes = "problems", case.module, cls.__name__
    sweeper = _upstream_class("sweepers", *SWEEPER_MODULES[case.sweeper])
    theirs = _controller(_upstream_class(*classes), {}, sweeper, case, nodes, qdelta)
    n_diff, n = ours.MS[0].levels[0].prob.n_diff, ours.MS[0].levels[0].prob.n

    def packed(state: Any) -> NDArray[np.float64]:
        plain = state.view(np.ndarray)
        return np.concatenate([plain[0][:n_diff], plain[1][: n - n_diff]]) if plain.ndim == 2 else plain

    return _Run(ours, packed), _Run(theirs, packed)


def _count_work(
    case: Case, nodes: int, qdelta: str, adapted: bool, u0: Any, t0: float, t_end: float
) -> tuple[float, float]:
    """Sweeps and residual evaluations a step of this package."""
    controller = _ours(case, nodes, qdelta, adapted, hooks=[StepRecord])
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


@study(
    "upstream",
    "problem:U32 sweeper:U32 n:i8 dt[s] steps:i8 time[s] time_upstream[s] ratio ratio_least sweeps "
    "sweeps_upstream rhs rhs_upstream difference error error_upstream",
    example="--problems simple --repetitions 1",
)
def upstream(
    rows: Table,
    *,
    repetitions: int = 5,
    nodes: int = 3,
    qdelta: str = "LU",
    problems: Sequence[str] | None = None,
    adapted: bool = False,
) -> None:
    """Time the same work here and in ``pySDC.projects.DAE``, alternating, and compare the end values.

    Sweeper, nodes, Q_Delta, step size, residual tolerance (1e-9), Newton tolerance (1e-10) and initial value
    are the same; each side uses its own predictor and nonlinear solver. Only ``controller.run`` is timed.
    """
    names = chosen("problem of this study", problems, sorted({case.problem for case in UPSTREAM}))
    cases = [case for case in UPSTREAM if case.problem in names]
    rows.parameters |= {"restol": RESTOL, "newton_tol": NEWTON_TOL}
    with rows.bar(len(cases) * repetitions, "pair") as bar:
        for case in cases:
            rows.add([_compare(case, nodes, qdelta, adapted, repetitions, bar)])


def _compare(
    case: Case, nodes: int, qdelta: str, adapted: bool, repetitions: int, bar: Any
) -> tuple[Any, ...]:
    ours, theirs = _pair(case, nodes, qdelta, adapted)
    t0 = PROBLEMS[case.problem].interval[0]
    t_end = t0 + (case.steps - 0.5) * case.dt
    theirs_u0 = theirs.problem.u_exact(t0)
    ours_u0 = ours.problem.state(theirs.values(theirs_u0))
    sweeps, rhs = _count_work(case, nodes, qdelta, adapted, ours_u0, t0, t_end)
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
    counts = [value for key, value in stats_upstream.items() if key.type == "niter"]
    return (
        *(case.problem, case.sweeper, len(here), case.dt, case.steps),
        *(median(own for own, _ in times), median(upstream for _, upstream in times)),
        *(median(ratios), min(ratios), sweeps, float(np.mean(counts)), rhs, rhs_upstream),
        *(distance(here, there), distance(here, limit), distance(there, limit)),
    )


@upstream.reports
def report(result: Result) -> Iterator[str]:
    """The table of a result of :func:`upstream`."""
    yield "ms, sweeps and residual evaluations a step, errors of the iteration: here / upstream"
    yield TEXT.head()
    for row in result.data:
        both = {
            "time": f"{1e3 * row['time']:.2f} / {1e3 * row['time_upstream']:.1f}",
            "sweeps": f"{row['sweeps']:.1f} / {row['sweeps_upstream']:.1f}",
            "evaluations": f"{row['rhs']:.0f} / {row['rhs_upstream']:.0f}",
            "errors": f"{row['error']:.1e} / {row['error_upstream']:.1e}",
        }
        yield TEXT.line(row, **both)
    yield f"geometric mean of the ratios: {np.exp(np.log(result.data['ratio']).mean()):.1f}"
