"""Measure errors and orders over step sizes.

Example: dae-sdc convergence simple --sweeper fully-implicit --nodes 3 --qdelta LU --out conv.npy
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, require_number
from dae_sdc.options import (
    ComputedReference,
    End,
    Methods,
    Multistep,
    Output,
    Parallel,
    Parameters,
    Solves,
    Sweeping,
    Sweeps,
    about,
    option,
    takes,
)
from dae_sdc.run.description import Setup, SweeperLike, describe
from dae_sdc.run.processes import everyone
from dae_sdc.run.results import COLUMNS, Result, combinations_of
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.run.study import Reference, References, Study, sentences, verb
from dae_sdc.run.target import ProblemLike
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.text import aligned

HALVINGS = 5  # Default number of step sizes.

RESIDUAL_BELOW_ERRORS = NEWTON_TOL = 1e-13  # Default tolerances, below any error that a study shows.

# Error, relative to the size of the solution, up to which a point is left out of the fit.
ROUND_OFF = 200.0 * float(np.finfo(float).eps)
NEAR_FLOOR = 1e3  # Error, in units of the floor, up to which a drop of the order indicates round-off.
STAGNATED = 0.9  # Ratio of successive errors above which round-off is reached, which ends the fit.


@dataclass(frozen=True)
class StudyOptions(Parallel, Solves, Sweeping, Parameters, Output, ComputedReference, End, Methods):
    """Options of studies of several methods."""

    problem: ProblemLike | Sequence[ProblemLike] = field(
        metadata=about("one or several problems by name", like="ProblemLike or sequence of these")
    )


@dataclass(frozen=True, kw_only=True)
class ConvergenceOptions(Multistep, Sweeps, StudyOptions):
    """Options of :func:`convergence`."""

    dt: float | Sequence[float] | None = option(
        None,
        "one or several step sizes (five halvings from that of the problem)",
        "Each divides the interval.",
    )


@takes(ConvergenceOptions)
def convergence(options: ConvergenceOptions) -> Result:
    """Errors against step sizes for every combination of problem, sweeper, M and Q_Delta, with fitted orders.

    The error is the largest over the ends of the steps in the second half of the run and over the components
    of a group. The order is the slope of a straight line through log(error) against log(dt). Step sizes at
    which errors are round-off are left out, see :func:`fitted_points`, and listed in the parameter
    ``at_round_off`` of the result.

    {options}

    Returns
    -------
    Result
        Of kind "convergence", a row for each combination, component group and step size: ``error``, ``slope``
        (fitted order), ``fit`` (rms deviation of log10(error) from the line), ``expected`` (order by theory,
        NaN where there is none), ``sweeps`` (number per step) and the work counters.

    Raises
    ------
    InputError
        For invalid options, or a problem without an exact solution.

    Examples
    --------
    >>> study = ds.convergence("simple", sweeper="radau-iia-5", dt=[0.1, 0.05, 0.025])
    >>> rows = study.data[study.data["group"] == "differential"]
    >>> round(float(rows["slope"][0])), float(rows["expected"][0])
    (5, 5.0)
    """
    comm_of_all = everyone(options.parallel, options.comm)
    settings = {"newton_tol": NEWTON_TOL, **options.chosen(Multistep, Sweeps, Solves, Parameters)}
    runs, setups = combinations(options, settings, {"restol": RESIDUAL_BELOW_ERRORS, **settings})
    t_end = options.t_end
    sizes_of = [step_sizes(setup.problem, options.dt, t_end) for setup in setups]
    units = {"dt": setups[0].problem.time_unit, "error": "1"}
    study = Study("convergence", COLUMNS["convergence"], units, options.out, comm_of_all)
    team = options.of(Parallel)
    study.parameters["t_end"] = [setup.problem.interval[1] if t_end is None else t_end for setup in setups]
    study.parameters.update({name: value for name, value in settings.items() if np.isscalar(value)})
    with study.running(sum(map(len, sizes_of)), "run", options.progress) as bar:
        references = References(study.parameters, options.reference, options.t_end, options.params)
        for (problem, sweeper, how), setup, sizes in zip(runs, setups, sizes_of, strict=True):
            reference = references.of(problem)
            runs_done: list[tuple[float, Solution, dict[str, float]]] = []
            at_round_off = study.parameters.get("at_round_off", [])
            for dt in sizes:
                solution = solve(problem, sweeper=sweeper, dt=dt, t_end=t_end, **team, **how)
                study.note(f"{setup.label['problem']} with dt={dt:g}", solution)
                runs_done.append((dt, solution, errors(setup.problem, solution, reference)))
                references.tell()
                bar.update(1)
                rows, left_out = _rows(setup, runs_done, reference)
                study.parameters["at_round_off"] = at_round_off + left_out
                study.add(rows, last=len(runs_done) == len(sizes))
    return study.result()


Run = tuple[ProblemLike, SweeperLike, dict[str, Any]]  # Problem, sweeper and settings.


def combinations(
    options: StudyOptions, direct: Mapping[str, Any], sweeps: Mapping[str, Any]
) -> tuple[list[Run], list[Setup]]:
    """Every combination of problem, sweeper, nodes and Q_Delta of a study; invalid ones are refused here."""
    runs: list[Run] = []
    for problem, sweeper in product(several(options.problem), several(options.sweeper)):
        if is_direct(sweeper):
            runs.append((problem, sweeper, dict(direct)))
            continue
        for number, qdelta in product(several(options.nodes), several(options.qdelta)):
            runs.append((problem, sweeper, {**sweeps, "nodes": number, "qdelta": qdelta}))
    if not runs:
        raise InputError("nothing to run: give at least one problem, sweeper, number of nodes and Q_Delta")
    parallel = options.parallel
    return runs, [describe(problem, sweeper=cls, parallel=parallel, **how) for problem, cls, how in runs]


def several(values: Any) -> list[Any]:
    """A value or a sequence of values as a list; a text counts as one value."""
    alone = isinstance(values, str | type) or getattr(values, "ndim", 1) == 0
    return list(values) if isinstance(values, Iterable) and not alone else [values]


def is_direct(sweeper: SweeperLike) -> bool:
    """Whether a method, given by name or class, has no sweeps."""
    cls = SWEEPERS[sweeper] if isinstance(sweeper, str) else sweeper
    return isinstance(cls, type) and issubclass(cls, DirectMethod)


def step_sizes(problem: ProblemDAE, dt: float | Sequence[float] | None, t_end: float | None) -> list[float]:
    """The given step sizes, or halvings of the problem's own, adjusted to divide the interval."""
    if dt is not None:
        if not several(dt):
            raise InputError("a convergence study needs at least one step size in dt")
        return [require_number("dt", size) for size in several(dt)]
    length = (problem.interval[1] if t_end is None else t_end) - problem.interval[0]
    return [length / (max(1, round(length / problem.dt)) * 2**k) for k in range(HALVINGS)]


def errors(problem: ProblemDAE, solution: Solution, reference: Reference | None = None) -> dict[str, float]:
    """Largest error of every group at the ends of the steps in the second half; NaN of a run that failed."""
    if not solution.success:
        return dict.fromkeys(problem.groups, float("nan"))
    # Multipliers of index 3 reach their order after some steps, and an error of one time may cross zero.
    late = solution.t >= solution.t[0] + (0.5 - 1e-9) * (solution.t[-1] - solution.t[0])
    if reference is not None:
        exact = reference.states(solution.t[late], solution.names, problem.groups)
    else:
        try:
            exact = np.array([problem.state(problem.u_exact(float(t))) for t in solution.t[late]])
        except InputError as error:
            raise InputError(
                f"there is no exact solution to compare with ({error}); reference=1e-12 computes one"
            ) from error
    difference = np.abs(solution.u[late] - exact)
    return {name: float(difference[:, part].max()) for name, part in problem.groups.items()}


def fitted_points(dts: Vector, errors: Vector, floor: float = 0.0) -> NDArray[np.intp]:
    """Indices of the points to which an order is fitted, from the largest step size down to round-off."""
    # That is where the error is at or below ``floor``, where it does not decrease, and, within NEAR_FLOOR of
    # the floor, where the local order drops below half of an earlier one: truncation is mixed with round-off.
    # Shapes: dts and errors (K,).
    order = np.argsort(dts)[::-1]
    order = order[np.isfinite(errors[order])]
    h, e = dts[order], errors[order]
    if not len(e) or e[0] <= floor:
        return order[:0]
    best = 0.0
    for k in range(1, len(e)):
        if not floor < e[k] < STAGNATED * e[k - 1]:
            return order[:k]
        local = float(np.log(e[k - 1] / e[k]) / np.log(h[k - 1] / h[k]))
        if e[k] <= NEAR_FLOOR * floor and local < 0.5 * best:
            return order[:k]
        best = max(best, local)
    return order


def fit_order(dts: Vector, errors: Vector, floor: float = 0.0) -> tuple[float, float]:
    """Order of convergence and quality of the fit."""
    # Shapes: dts and errors (K,).
    used = fitted_points(dts, errors, floor)
    if len(used) < 2:
        return float("nan"), float("nan")
    x, y = np.log10(dts[used]), np.log10(errors[used])
    line = np.polyfit(x, y, 1)
    return float(line[0]), float(np.sqrt(np.mean((np.polyval(line, x) - y) ** 2)))


def _rows(
    setup: Setup, runs: list[tuple[float, Solution, dict[str, float]]], reference: Reference | None
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Rows of one combination, from step sizes, solutions and errors, and the sizes left out of its fits."""
    expected = setup.expected()
    sizes, solutions, by_group = zip(*runs, strict=True)
    rows: list[tuple[Any, ...]] = []
    left_out: list[str] = []
    for group in setup.problem.groups:
        of_group = np.array([largest[group] for largest in by_group])
        size = max(float(np.abs(solution.u[:, setup.problem.groups[group]]).max()) for solution in solutions)
        floor = max(ROUND_OFF * size, 0.0 if reference is None else reference.floor(group))
        slope, fit = fit_order(np.array(sizes), of_group, floor)
        used = fitted_points(np.array(sizes), of_group, floor).tolist()
        unused = [f"{dt:g}" for k, dt in enumerate(sizes) if k not in used and np.isfinite(of_group[k])]
        if unused:
            names = [str(setup.label[name]) for name in ("problem", "sweeper", "nodes", "qdelta")]
            left_out.append(f"{' '.join(filter(None, names))}, {group}: dt={', '.join(unused)}")
        for dt, error, solution in zip(sizes, of_group, solutions, strict=True):
            stats = solution.stats
            work = (stats["sweeps"] / max(1, stats["steps"]), *(stats[name] for name in COUNTERS))
            rows.append((*setup.label.values(), group, dt, error, slope, fit, expected[group], *work))
    return rows, left_out


def summary(result: Result) -> str:
    """A line for every combination and group: errors from the largest dt to the smallest, and order."""
    keys = ("problem", "sweeper", "quad", "nodes", "qdelta", "group")
    lines = [("problem", "sweeper", "M", "Q_Delta", "group", "order", "theory", " errors")]
    for (problem, sweeper, _, number, qdelta, group), rows in combinations_of(result.data, keys):
        theory = f"{rows['expected'][0]:.0f}" if np.isfinite(rows["expected"][0]) else "-"
        values = "".join(f" {error:.1e}" for error in rows["error"])
        lines.append((problem, sweeper, number, qdelta, group, f"{rows['slope'][0]:.2f}", theory, values))
    about = result.parameters
    least = "the accuracy of the reference" if about.get("reference") else "round-off"
    notes = (f"at {least}, left out of the order of {text}" for text in about.get("at_round_off", []))
    table = aligned(lines, (20, 16, -2, 11, 12, -6, -6, 0))
    return "\n".join([table, *notes, *sentences(about.get("reference"))])


add_arguments, main = verb(convergence, summary)
