"""Solve one DAE over an interval.

Example: dae-sdc solve pendulum --sweeper semi-implicit --nodes 3 --dt 0.05 --t-end 1 --out pendulum.npy
"""

from __future__ import annotations

import argparse
import inspect
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from tqdm import tqdm

from dae_sdc.control.hooks import CheckInitialValue, RequireConvergence, StepRecord
from dae_sdc.dae.counters import COUNTERS
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import DAEWarning, InputError, SolveError, require_count
from dae_sdc.registry import unknown
from dae_sdc.run import options
from dae_sdc.run.description import ProblemLike, Setup, SweeperLike, describe, initial_state, number_of_steps
from dae_sdc.run.results import check_target
from dae_sdc.run.solution import Solution

QUIET = logging.ERROR

CONTROLLER = {"logger_level": QUIET, "mssdc_jac": False}
"""Steps that iterate together take the newest value of the step before.

From index 2 on they need it: Jacobi iterations pass on values that no consistent u' belongs to. Adaptive
steps need it too."""


def solve(
    problem: ProblemLike,
    *,
    sweeper: SweeperLike = "fully-implicit",
    dt: float | None = None,
    t_end: float | None = None,
    t0: float | None = None,
    u0: Any = None,
    steps: int = 1,
    hooks: Sequence[type[Any]] = (),
    controller_params: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    **settings: Any,
) -> Solution:
    """Solve a DAE with a fixed step size inside pySDC's controller.

    Parameters
    ----------
    problem : str, type or ProblemDAE
        Name in the library, class or instance.
    sweeper : str or type
        Name or class of the sweeper.
    dt, t0, t_end : float, optional
        Step size, start and end; those of the problem where not given. ``dt`` must divide the interval.
    u0 : array_like, shape (n,), optional
        Initial value, consistent with the equations; the problem's own if not given.
    steps : int
        Number of time steps that iterate together (multi-step SDC).
    hooks : sequence of type
        pySDC hooks to run besides those that record the solution.
    controller_params : mapping, optional
        Parameters of pySDC's controller, for instance ``mssdc_jac``.
    out : str or Path, optional
        File to save the solution to, also when the run fails on its way.
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
    known = [name for name in inspect.signature(describe).parameters if name not in ("problem", "sweeper")]
    for name in settings:
        if name not in known:
            raise InputError(unknown("option", name, known))
    if out is not None:
        check_target(out)
    setup = describe(problem, sweeper=sweeper, **settings)
    own = setup.problem
    start = own.interval[0] if t0 is None else float(t0)
    end = own.interval[1] if t_end is None else float(t_end)
    size = own.dt if dt is None else float(dt)
    count = number_of_steps(start, end, size)
    require_count("the number of steps that iterate together", steps)
    first = initial_state(own, u0, start)
    with tqdm(total=count, unit="step", disable=None if progress else True, leave=False) as bar:
        return _run(setup, first, start, end, count, steps, hooks, controller_params or {}, out, bar)


def _run(
    setup: Setup,
    u0: MeshDAE,
    t0: float,
    t_end: float,
    count: int,
    steps: int,
    hooks: Sequence[type[Any]],
    controller_params: Mapping[str, Any],
    out: str | Path | None,
    bar: Any,
) -> Solution:
    class Record(StepRecord):
        def show_progress(self, time: float) -> None:
            bar.update(1)

    dt = (t_end - t0) / count
    own_hooks = [CheckInitialValue, RequireConvergence, Record, *hooks]
    message, log = "", {}
    with _logging_kept():
        with warnings.catch_warnings():
            # The setup has made the problem once and warned of its parameters.
            warnings.simplefilter("ignore", DAEWarning)
            controller = controller_nonMPI(
                num_procs=steps,
                controller_params={**CONTROLLER, **controller_params, "hook_class": own_hooks},
                description=setup.with_step(dt),
            )
        record = next(hook for hook in controller.hooks if isinstance(hook, Record))
        try:
            # pySDC adds up the times of the steps; half a step less makes the number of steps certain.
            controller.run(u0=u0, t0=t0, Tend=t_end if setup.adaptive else t_end - 0.5 * dt)
        except SolveError as error:
            message = str(error)
        except BaseException as error:
            # Whatever ends the run, an interrupt or an exception of the problem, its steps are kept.
            if out is not None and record.rows:
                why = f"ended by {type(error).__name__}"
                _solution(setup, controller, record, u0, t0, t_end, dt, why, {}).save(out)
            raise
        log = controller.return_stats()
    solution = _solution(setup, controller, record, u0, t0, t_end, dt, message, log)
    if out is not None:
        solution.save(out)
    return solution


@contextmanager
def _logging_kept() -> Iterator[None]:
    """Put the root logger back as it was: a pySDC controller replaces its handlers and level."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _solution(
    setup: Setup,
    controller: Any,
    record: StepRecord,
    u0: MeshDAE,
    t0: float,
    t_end: float,
    dt: float,
    message: str,
    log: Mapping[Any, Any],
) -> Solution:
    rows = sorted(record.rows, key=lambda row: float(row["t"]))
    problem = setup.problem
    per_step = {
        name: np.array([0, *(row[name] for row in rows)]) for name in ("residual", "sweeps", *COUNTERS)
    }
    problems = [S.levels[0].prob for S in controller.MS]
    total = {name: sum(P.work_counters[name].niter for P in problems) for name in COUNTERS}
    start = _derivative_at_start(problem, u0, t0)
    return Solution(
        t=np.array([t0, *(row["t"] for row in rows)]),
        u=np.array([u0.view(np.ndarray), *(row["u"] for row in rows)]),
        du=np.array([start, *(row["du"] for row in rows)]),
        names=problem.names,
        units=problem.units,
        success=not message,
        message=message,
        stats={
            "steps": len(rows),
            "rejected": record.rejected,
            "sweeps": int(per_step["sweeps"].sum()),
            **total,
        },
        per_step=per_step,
        parameters={
            **setup.label,
            "dt": dt,
            "t0": t0,
            "t_end": t_end,
            "n_diff": problem.n_diff,
            "names": list(problem.names),
            "units": list(problem.units),
            "time_unit": problem.time_unit,
            "restol": setup.description["level_params"]["restol"],
            "maxiter": setup.description["step_params"]["maxiter"],
            "problem_params": {name: _plain(value) for name, value in problem.params.items()},
        },
        log=log,
    )


def _plain(value: Any) -> Any:
    """A parameter as it can stand in a result file."""
    return str(value) if isinstance(value, complex) else value


def _derivative_at_start(problem: ProblemDAE, u0: MeshDAE, t0: float) -> Vector:
    try:
        known = np.allclose(problem.u_exact(t0), u0, rtol=1e-9, atol=1e-12)
        return np.asarray(problem.du_exact(t0)) if known else np.full(problem.n, np.nan)
    except InputError:
        return np.full(problem.n, np.nan)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc solve``."""
    parser.add_argument("problem", help="name of the problem; 'dae-sdc list' shows all")
    options.add(
        parser,
        "sweeper nodes quad qdelta dt t-end restol newton-tol maxiter nsweeps initial-guess residual-type",
        "steps param seed out",
    )


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc solve``."""
    solution = solve(
        args.problem,
        dt=args.dt,
        t_end=args.t_end,
        steps=args.steps,
        out=args.out,
        progress=True,
        **options.settings(args),
    )
    stats = solution.stats
    print(
        f"{args.problem}: t = {solution.t[-1]:g} after {stats['steps']} steps, {stats['sweeps']} sweeps, "
        f"{stats['newton']} Newton iterations, {stats['rhs']} residual evaluations"
    )
    for name, unit, value in zip(solution.names, solution.units, solution.u[-1], strict=True):
        print(f"  {name:<12} {value: .15e}  {unit}")
    if args.out:
        print(f"written to {args.out}")
    if not solution.success:
        print(f"dae-sdc: {solution.message}", file=sys.stderr)
    return 0 if solution.success else 1
