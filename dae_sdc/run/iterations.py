"""Measure error and residual against the number of sweeps.

Example: dae-sdc iterations simple --sweeper fully-implicit,semi-implicit --qdelta LU,MIN-SR-S --out iter.npy
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.options import (
    Parallel,
    Parameters,
    Solves,
    Sweeping,
    add_options,
    given_options,
    option,
    redeclared,
    takes,
)
from dae_sdc.run.convergence import NEWTON_TOL, StudyOptions, errors, is_direct, several
from dae_sdc.run.description import describe
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


@dataclass(frozen=True, kw_only=True)
class IterationsOptions(StudyOptions):
    """What :func:`iterations` takes."""

    dt: float | None = option(None, "step size in the time unit of the problem (that of the problem)")
    maxiter: int = redeclared(Sweeping, "maxiter", SWEEPS)
    initial_guess: str = redeclared(
        Sweeping, "initial_guess", "spread", "From 'spread' the error shows what the sweeps alone gain."
    )


@takes(IterationsOptions)
def iterations(given: IterationsOptions) -> Result:
    """Error and residual of runs with 1, 2, ..., ``maxiter`` sweeps in every step.

    {options}

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
    maxiter, parallel = given.maxiter, given.parallel
    direct = [str(sweeper) for sweeper in several(given.sweeper) if is_direct(sweeper)]
    if direct:
        raise InputError(f"Runge-Kutta methods do not sweep: {', '.join(direct)}; name SDC sweepers")
    comm_of_all = everyone(parallel, given.comm)
    settings = {"newton_tol": NEWTON_TOL, **given.chosen(Sweeping, Solves, Parameters, without=("maxiter",))}
    settings |= {"restol": -1.0, "initial_guess": given.initial_guess}
    runs = [
        (problem, sweeper, {**settings, "nodes": number, "qdelta": qdelta})
        for problem, sweeper, number, qdelta in product(
            several(given.problem), several(given.sweeper), several(given.nodes), several(given.qdelta)
        )
    ]
    if not runs:
        raise InputError("nothing to run: give at least one problem, sweeper, number of nodes and Q_Delta")
    setups = [describe(problem, sweeper=sweeper, parallel=parallel, **own) for problem, sweeper, own in runs]
    units = {"dt": setups[0].problem.time_unit, "error": "1", "residual": "1"}
    study = Study("iterations", COLUMNS, units, given.out, comm_of_all)
    team = given.of(Parallel)
    study.parameters.update(maxiter=maxiter, initial_guess=given.initial_guess)
    total = maxiter * len(runs)
    with study.running(total, "run", given.progress) as bar:
        for (problem, sweeper, own), setup in zip(runs, setups, strict=True):
            size = setup.problem.dt if given.dt is None else given.dt
            for sweep in range(1, maxiter + 1):
                solution = solve(
                    problem, sweeper=sweeper, dt=size, t_end=given.t_end, **own, **team, maxiter=sweep
                )
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
    add_options(parser, IterationsOptions)


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc iterations``."""
    result = iterations(**given_options(args, IterationsOptions), progress=True)
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
