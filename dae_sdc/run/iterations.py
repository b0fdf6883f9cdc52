"""Measure error and residual against the number of sweeps.

Example: dae-sdc iterations simple --sweeper fully-implicit,semi-implicit --qdelta LU,MIN-SR-S --out iter.npy
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError
from dae_sdc.run import options
from dae_sdc.run.convergence import NEWTON_TOL, combinations, errors, is_direct, several
from dae_sdc.run.description import ProblemLike, SweeperLike, describe
from dae_sdc.run.processes import everyone
from dae_sdc.run.results import Result, combinations_of
from dae_sdc.run.solve import solve
from dae_sdc.run.study import Study

COLUMNS = [
    ("problem", "U32"),
    ("sweeper", "U32"),
    ("quad", "U16"),
    ("nodes", "i8"),
    ("qdelta", "U16"),
    ("group", "U16"),
    ("dt", "f8"),
    ("sweep", "i8"),
    ("error", "f8"),
    ("residual", "f8"),
]

SWEEPS = 10
"""Largest number of sweeps where none is given."""


@checked("dae_sdc.run.description:describe", without=("problem", "sweeper", "qdelta", "restol"))
def iterations(
    problems: ProblemLike | Sequence[ProblemLike],
    *,
    sweepers: SweeperLike | Sequence[SweeperLike] = "fully-implicit",
    nodes: int | Sequence[int] | None = None,
    qdeltas: str | Sequence[str] | None = None,
    dt: float | None = None,
    t_end: float | None = None,
    maxiter: int = SWEEPS,
    initial_guess: str = "spread",
    parallel: str | None = None,
    steps: int | None = None,
    comm: Any = None,
    out: str | Path | None = None,
    progress: bool = False,
    **settings: Any,
) -> Result:
    """Error and residual of runs with 1, 2, ..., ``maxiter`` sweeps in every step.

    Parameters
    ----------
    problems, sweepers, nodes, qdeltas : one or a sequence
        Names (or classes), numbers of nodes and Q_Delta.
    dt, t_end : float, optional
        Step size and end time; the problem's own if not given.
    maxiter : int
        Largest number of sweeps.
    initial_guess : str
        Predictor; "spread" shows what the sweeps alone gain.
    parallel, steps, comm : optional
        What ranks share, steps at once, and the ranks, as in :func:`dae_sdc.run.solve.solve`.
    out : str or Path, optional
        File to save the result to; it is saved after every finished run.
    progress : bool
        Show a progress bar if standard error is a terminal.
    **settings
        See :func:`dae_sdc.run.description.describe`.

    Returns
    -------
    Result
        Of kind "iterations", a row for each combination, component group and number of sweeps: the largest
        ``error`` and the largest ``residual`` over the steps.

    Raises
    ------
    InputError
        If something given cannot be used; Runge-Kutta methods do not sweep.
    """
    if maxiter < 1:
        raise InputError(f"maxiter must be at least 1; got {maxiter}")
    direct = [str(sweeper) for sweeper in several(sweepers) if is_direct(sweeper)]
    if direct:
        raise InputError(f"Runge-Kutta methods do not sweep: {', '.join(direct)}; name SDC sweepers")
    comm_of_all = everyone(parallel, comm)
    settings = {"newton_tol": NEWTON_TOL, **settings, "restol": -1.0, "initial_guess": initial_guess}
    runs = [
        (problem, sweeper, {**settings, "nodes": number, "qdelta": qdelta})
        for problem, sweeper, number, qdelta in product(
            several(problems), several(sweepers), several(nodes), several(qdeltas)
        )
    ]
    if not runs:
        raise InputError("nothing to run: give at least one problem, sweeper, number of nodes and Q_Delta")
    setups = [describe(problem, sweeper=sweeper, parallel=parallel, **own) for problem, sweeper, own in runs]
    units = {"dt": setups[0].problem.time_unit, "error": "1", "residual": "1"}
    study = Study("iterations", COLUMNS, units, out, comm_of_all)
    team: dict[str, Any] = {"parallel": parallel, "steps": steps, "comm": comm}
    study.parameters.update(maxiter=maxiter, initial_guess=initial_guess)
    total = maxiter * len(runs)
    with study.running(total, "run", progress) as bar:
        for (problem, sweeper, own), setup in zip(runs, setups, strict=True):
            size = setup.problem.dt if dt is None else dt
            for sweep in range(1, maxiter + 1):
                solution = solve(problem, sweeper=sweeper, dt=size, t_end=t_end, **own, **team, maxiter=sweep)
                what = f"{setup.label['problem']}, {setup.label['qdelta']}, {sweep} sweeps"
                study.note(what, solution)
                residual, by_group = float("nan"), dict.fromkeys(setup.problem.groups, float("nan"))
                if solution.success:
                    residual = float(solution.per_step["residual"].max())
                    by_group = errors(setup.problem, solution)
                label = setup.label.values()
                rows = [(*label, group, size, sweep, error, residual) for group, error in by_group.items()]
                study.add(rows, last=True)
                bar.update(1)
    return study.result()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc iterations``."""
    parser.add_argument("problems", help="names of problems, separated by commas")
    options.add(
        parser,
        "sweepers nodes-list quad qdeltas dt t-end newton-tol maxiter initial-guess residual-type",
        "backend linear-solver",
        "steps coarse-nodes coarse-qdelta coarsen match-sweep parallel param seed out",
    )


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc iterations``."""
    result = iterations(**combinations(args), dt=args.dt)
    print(
        f"{'problem':<20} {'sweeper':<16} {'M':>2} {'Q_Delta':<11} "
        f"{'sweep':>5} {'residual':>9}  errors by group"
    )
    data = result.data
    keys = ("problem", "sweeper", "nodes", "qdelta", "sweep")
    for (problem, sweeper, number, qdelta, sweep), rows in combinations_of(data, keys):
        values = "  ".join(f"{row['group']} {row['error']:.1e}" for row in rows)
        print(
            f"{problem:<20} {sweeper:<16} {number:>2} {qdelta:<11} "
            f"{sweep:>5} {rows['residual'][0]:>9.1e}  {values}"
        )
    if args.out:
        print(f"written to {args.out}")
    # Too few sweeps in a step may well fail; that is a finding of the study and no failure of it.
    return 0 if np.isfinite(data["error"][data["sweep"] == data["sweep"].max()]).all() else 1
