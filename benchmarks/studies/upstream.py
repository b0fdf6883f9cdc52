"""The same work here and in pySDC.projects.DAE, taking turns; see :func:`upstream`."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
from numpy.typing import NDArray
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

from benchmarks.measuring.ranks import record_of, timed_run
from benchmarks.measuring.steps import distance
from benchmarks.study import Layout, Table, chosen, study
from dae_sdc.control.hooks import StepRecord
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
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
    problem: str
    module: str  # Module of pySDC.projects.DAE.problems; the classes have the same names
    dt: float  # In the time unit of the problem
    steps: int
    sweeper: str = "fully-implicit"
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
    "problem:<20|sweeper:<15|n:>3|time={time*1e3:.2f} / {time_upstream*1e3:.1f}:>17|ratio:>7.1f|"
    "sweeps={sweeps:.1f} / {sweeps_upstream:.1f}:>11|evaluations={rhs:.0f} / {rhs_upstream:.0f}:>15|"
    "difference:>10.1e|errors={error:.1e} / {error_upstream:.1e}:>17"
)


class _Run:
    """A controller for the work of a case, and the values of its states in the order of this package."""

    def __init__(
        self,
        case: Case,
        how: Mapping[str, Any],  # Classes of problem and sweeper, with parameters of their own
        nodes: int,
        qdelta: str,
        hooks: Sequence[type[Any]] = (),
        restol: float = RESTOL,
        newton_tol: float = NEWTON_TOL,
    ) -> None:
        sweeper = {"num_nodes": nodes, "quad_type": "RADAU-RIGHT", "QI": qdelta, **how.get("sweeping", {})}
        description = {
            **{"problem_class": how["problem"], "sweeper_class": how["sweeper"], "sweeper_params": sweeper},
            "problem_params": {"newton_tol": newton_tol, **how.get("params", {})},
            **{"level_params": {"dt": case.dt, "restol": restol}, "step_params": {"maxiter": MAXITER}},
        }
        quiet = {"logger_level": logging.ERROR, "hook_class": list(hooks)}
        self.controller = controller_nonMPI(1, controller_params=quiet, description=description)
        self.problem = self.controller.MS[0].levels[0].prob
        start = PROBLEMS[case.problem].interval[0]
        self.span = start, start + (case.steps - 0.5) * case.dt

    def __call__(self, u0: Any) -> tuple[float, Any, Mapping[Any, Any]]:
        timing, stats = timed_run(self.controller, u0, *self.span)
        return timing.wall, timing.end, stats


def _upstream_class(folder: str, module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(f"pySDC.projects.DAE.{folder}.{module}"), name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the installed pySDC has no {name} in pySDC.projects.DAE.{folder}.{module}; "
            f"install pySDC 5.9 ({error})"
        ) from error


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
    for case in rows.each(cases, "case"):
        _compare(rows, case, nodes, qdelta, adapted, repetitions)


def _compare(rows: Table, case: Case, nodes: int, qdelta: str, adapted: bool, repetitions: int) -> None:
    cls, own_sweeper = PROBLEMS[case.problem], SWEEPERS[case.sweeper]
    theirs_class = _upstream_class("problems", case.module, cls.__name__)
    there = {"problem": theirs_class, "sweeper": _upstream_class("sweepers", *SWEEPER_MODULES[case.sweeper])}
    # Here the sweeps of a step are in its prediction, as ``solve`` has them.
    here = {"sweeper": own_sweeper, "sweeping": {"initial_sweeps": INITIAL_SWEEPS}}
    plain = {"problem": cls, "params": case.params}
    here |= {"problem": theirs_class} if adapted else plain
    ours, theirs = _Run(case, here, nodes, qdelta), _Run(case, there, nodes, qdelta)
    n_diff, n = ours.problem.n_diff, ours.problem.n

    def packed(state: Any) -> NDArray[np.float64]:
        values = state.view(np.ndarray)
        return np.concatenate([values[0][:n_diff], values[1][: n - n_diff]]) if values.ndim == 2 else values

    theirs_u0 = theirs.problem.u_exact(theirs.span[0])
    u0 = ours.problem.state(packed(theirs_u0))
    counting = _Run(case, here, nodes, qdelta, [StepRecord])
    counting(u0)
    steps = record_of(counting.controller).rows
    ours(u0)
    # Seen from outside: not every problem upstream counts its own residual evaluations.
    with patch.object(theirs.problem, "eval_f", Mock(side_effect=theirs.problem.eval_f)) as counted:
        theirs(theirs_u0)
    times = []
    for _ in range(repetitions):
        time, end, _ = ours(u0)
        time_upstream, end_upstream, stats = theirs(theirs_u0)
        times.append((time / case.steps, time_upstream / case.steps))
    # What both iterate towards: the same discretisation, iterated until round-off.
    exact = _Run(case, plain | {"sweeper": own_sweeper}, nodes, qdelta, (), CONVERGED, CONVERGED)
    limit = packed(exact(u0)[1])
    ratios = [upstream / own for own, upstream in times]
    rows.put(
        **{"problem": case.problem, "sweeper": case.sweeper, "n": n, "dt": case.dt, "steps": case.steps},
        **dict(zip(("time", "time_upstream"), np.median(times, axis=0).tolist(), strict=True)),
        **{"ratio": median(ratios), "ratio_least": min(ratios)},
        rhs_upstream=counted.call_count / case.steps,
        **{name: sum(row[name] for row in steps) / len(steps) for name in ("sweeps", "rhs")},
        sweeps_upstream=float(np.mean([value for key, value in stats.items() if key.type == "niter"])),
        difference=distance(packed(end), packed(end_upstream)),
        **{"error": distance(packed(end), limit), "error_upstream": distance(packed(end_upstream), limit)},
    )


@upstream.reports
def report(result: Result) -> Iterator[str]:
    yield "ms, sweeps and residual evaluations a step, errors of the iteration: here / upstream"
    yield from TEXT.lines(result.data)
    yield f"geometric mean of the ratios: {np.exp(np.log(result.data['ratio']).mean()):.1f}"
