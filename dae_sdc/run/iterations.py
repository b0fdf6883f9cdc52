"""Measure error and residual against the number of sweeps.

Example: dae-sdc iterations simple --sweeper fully-implicit,semi-implicit --qdelta LU,MIN-SR-S --out iter.npy
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.options import Parallel, Parameters, Solves, Sweeping, option, redeclared, takes
from dae_sdc.run.convergence import NEWTON_TOL, StudyOptions, combinations, errors, is_direct, several
from dae_sdc.run.processes import everyone
from dae_sdc.run.results import COLUMNS, Result, combinations_of
from dae_sdc.run.solve import solve
from dae_sdc.run.study import References, Study, sentences, verb
from dae_sdc.text import aligned

SWEEPS = 10  # Default of the largest number of sweeps.


@dataclass(frozen=True, kw_only=True)
class IterationsOptions(StudyOptions):
    """Options of :func:`iterations`."""

    dt: float | None = option(None, "step size in the time unit of the problem (that of the problem)")
    maxiter: int = redeclared(Sweeping, "maxiter", SWEEPS)
    initial_guess: str = redeclared(
        Sweeping, "initial_guess", "spread", "From 'spread' the error shows what the sweeps alone gain."
    )


@takes(IterationsOptions)
def iterations(options: IterationsOptions) -> Result:
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
        For invalid options, and for methods without sweeps such as Runge-Kutta methods.

    Examples
    --------
    >>> study = ds.iterations("simple", sweeper="fully-implicit", qdelta="LU", nodes=3)
    >>> errors = study.data["error"][study.data["group"] == "differential"]
    >>> bool(errors[-1] < errors[0])
    True
    """
    if direct := [str(sweeper) for sweeper in several(options.sweeper) if is_direct(sweeper)]:
        raise InputError(f"Runge-Kutta methods do not sweep: {', '.join(direct)}; name SDC sweepers")
    comm_of_all = everyone(options.parallel, options.comm)
    chosen = options.chosen(Sweeping, Solves, Parameters, without=("maxiter",))
    settings = {"newton_tol": NEWTON_TOL, **chosen, "restol": -1.0, "initial_guess": options.initial_guess}
    runs, setups = combinations(options, settings, settings)
    units = {"dt": setups[0].problem.time_unit, "error": "1", "residual": "1"}
    study = Study("iterations", COLUMNS["iterations"], units, options.out, comm_of_all)
    shared = {"t_end": options.t_end, **options.of(Parallel)}
    study.parameters.update(maxiter=options.maxiter, initial_guess=options.initial_guess)
    with study.running(options.maxiter * len(runs), "run", options.progress) as bar:
        references = References(study.parameters, options.reference, options.t_end, options.params)
        for (problem, sweeper, how), setup in zip(runs, setups, strict=True):
            reference = references.of(problem)
            size = setup.problem.dt if options.dt is None else options.dt
            for sweep in range(1, options.maxiter + 1):
                solution = solve(problem, sweeper=sweeper, dt=size, **how, **shared, maxiter=sweep)
                study.note(f"{setup.label['problem']}, {setup.label['qdelta']}, {sweep} sweeps", solution)
                residual = float(solution.per_step["residual"].max()) if solution.success else float("nan")
                by_group, label = errors(setup.problem, solution, reference), setup.label.values()
                if solution.success:
                    references.tell()
                rows = [(*label, group, size, sweep, error, residual) for group, error in by_group.items()]
                study.add(rows)
                bar.update(1)
    return study.result()


def summary(result: Result) -> str:
    """A line for every combination and number of sweeps."""
    keys = ("problem", "sweeper", "nodes", "qdelta", "sweep")
    lines = [("problem", "sweeper", "M", "Q_Delta", "sweep", "residual", " errors by group")]
    for key, rows in combinations_of(result.data, keys):
        values = " ".join(f" {row['group']} {row['error']:.1e}" for row in rows)
        lines.append((*key, f"{rows['residual'][0]:.1e}", values))
    table = aligned(lines, (20, 16, -2, 11, -5, -9, 0))
    return "\n".join([table, *sentences(result.parameters.get("reference"))])


def failed(result: Result) -> bool:
    """Whether a run with the most sweeps has failed; a failure with fewer is a result of the study."""
    data = result.data
    return not np.isfinite(data["error"][data["sweep"] == data["sweep"].max()]).all()


add_arguments, main = verb(iterations, summary, failed)
