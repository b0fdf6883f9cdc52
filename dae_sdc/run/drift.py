"""How far solutions with constraints drift: errors of the constraint, of its derivative and of the energy.

Example: dae-sdc drift rigid-pendulum --case projected-dop853,radau-iia-9/ggl --t-end 20 --out drift.npy
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, require_number
from dae_sdc.options import MOST_TIMES, End, Output, Parameters, about, count, option, redeclared, takes
from dae_sdc.registry import require_name
from dae_sdc.run.convergence import several
from dae_sdc.run.description import Course, check_interval, describe, number_of_steps
from dae_sdc.run.method import SOLVERS
from dae_sdc.run.results import Result, combinations_of
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.run.study import Study, verb
from dae_sdc.run.sundials import installed
from dae_sdc.run.target import ProblemLike, make_problem, problem_name
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS
from dae_sdc.sweepers.tolerance import require_relative
from dae_sdc.text import aligned

PROBLEM = "rigid-pendulum"

LONG = {PROBLEM: 200.0}  # Default end times by problem, where they differ from those of the problems.
# Default cases: a sweeper, and after a slash the formulation.
CASES = (
    *("unprojected-dop853", "velocity-projected-dop853", "position-projected-dop853", "projected-dop853"),
    *("baumgarte-dop853", "chart-dop853", "rattle"),
    *("radau-iia-9/index-3", "radau-iia-9/index-2", "radau-iia-9/ggl"),
)

RTOL = 1e-8
DT = 0.01
POINTS = 100

NUMBERS = ("constraint", "velocity", "energy", "error")

COLUMNS: list[tuple[str, str]] = [
    *(("case", "U48"), ("sweeper", "U32"), ("formulation", "U16"), ("dt", "f8"), ("rtol", "f8")),
    *(("t", "f8"), ("steps", "i8")),
    *((name, "f8") for name in NUMBERS),
]


class Case(NamedTuple):
    """A method and a formulation of the equations."""

    label: str  # Name in tables and pictures.
    sweeper: str  # Name of a sweeper or of a solver of SUNDIALS.
    formulation: str  # Formulation of the problem; empty for its default.
    params: Mapping[str, Any]  # Arguments of the problem.
    settings: Mapping[str, Any]  # Arguments of :func:`dae_sdc.run.solve.solve`: a tolerance or a step size.


@dataclass(frozen=True, kw_only=True)
class DriftOptions(Output, Parameters, End):
    """Options of :func:`drift`."""

    problem: ProblemLike = field(
        default=PROBLEM,
        kw_only=False,
        metadata=about("problem with constraints (rigid-pendulum)", like="str, type or QuasilinearProblem"),
    )
    case: str | Sequence[str] | None = option(
        None,
        "one or several methods (all that keep or lose the constraints in a way of their own)",
        "Names of sweepers, 'radau-iia-9/ggl' with a formulation of the problem; 'ida' for SUNDIALS. If none "
        "is given, :data:`CASES`, those that take the problem.",
    )
    rtol: float = redeclared(Course, "rtol", RTOL, "Methods that choose their steps take it.")
    dt: float = redeclared(Course, "dt", DT, "Methods with steps of a fixed size take it, such as 'rattle'.")
    points: int = option(
        POINTS,
        f"number of equal parts of the interval for which the largest errors are kept ({POINTS})",
        check=count(MOST_TIMES),
    )


@takes(DriftOptions)
def drift(options: DriftOptions) -> Result:
    """Errors of constraint, velocity constraint and energy over time, for several methods.

    {options}

    Returns
    -------
    Result
        Of kind "drift", a row for each case and each part of the interval in which a step ends: ``t``, the
        end of the part, and the largest values over the ends of steps in it of abs(g) (``constraint``),
        abs(G v + g_t) (``velocity``), abs(energy - energy at the start) (``energy``) and of the ``error`` of
        a position. NaN where a problem has no velocities, no energy or no known solution. The parameter
        ``runs`` has the work of each case, and ``left_out`` the cases that cannot solve the problem.

    Raises
    ------
    InputError
        For invalid options.

    Examples
    --------
    >>> study = ds.drift("rigid-pendulum", case=["projected-dop853"], t_end=2.0)  # doctest: +SKIP
    >>> print(study.data["constraint"].max())  # doctest: +SKIP
    """
    params = dict(options.params or {})
    if "formulation" in params:
        raise InputError("the cases say in which formulation the problem is solved; leave it out")
    problem, cases, points = options.problem, options.case, options.points
    quasilinear, name = _quasilinear(problem, params), problem_name(problem)
    (start, usual), unit = map(float, quasilinear.interval), quasilinear.time_unit
    end = LONG.get(name, usual) if options.t_end is None else require_number("t_end", options.t_end)
    check_interval(start, end)
    chosen, left_out = _cases(options, start, end)
    rows = Study("drift", COLUMNS, {"t": unit, "dt": unit}, options.out)
    rows.parameters |= {"problem": name, "t0": start, "t_end": end, "rtol": options.rtol, "points": points}
    rows.parameters |= {"params": params, "left_out": left_out, "runs": [], "time_unit": unit}
    edges = np.linspace(start, end, points + 1)
    with rows.running(len(chosen), "run", options.progress) as bar:
        for case in chosen:
            settings = {**case.settings, "t_end": end, "dense": False, "params": case.params}
            tic = perf_counter()
            try:
                solution = solve(problem, sweeper=case.sweeper, **settings)
            except InputError as error:
                # Some methods find out only at the first step that they cannot solve the problem.
                if cases is not None:
                    raise
                left_out.append(f"{case.label}: {error}")
                continue
            took = perf_counter() - tic
            rows.note(case.label, solution)
            run = {"case": case.label, "time": took, "success": solution.success, **solution.stats}
            rows.parameters["runs"].append(run)
            rows.add(_rows(case, solution, _quasilinear(problem, case.params), edges))
            bar.update(1)
    return rows.result()


def _quasilinear(problem: ProblemLike, params: Mapping[str, Any]) -> QuasilinearProblem:
    quasilinear = make_problem(problem, params)
    if not isinstance(quasilinear, QuasilinearProblem):
        raise InputError(
            f"{type(quasilinear).__name__} does not say what its constraints are; drift needs a "
            f"QuasilinearProblem"
        )
    return quasilinear


def _cases(options: DriftOptions, start: float, end: float) -> tuple[list[Case], list[str]]:
    """The cases to run, and a line for each one left out; invalid options are refused here."""
    problem, params, rtol = options.problem, options.params or {}, require_relative(options.rtol)
    dt = require_number("dt", options.dt)
    names = None if options.case is None else several(options.case)
    if names == []:
        raise InputError("nothing to run: name at least one case")
    cases: list[Case] = []
    left_out: list[str] = []
    for name in CASES if names is None else names:
        sweeper, _, formulation = name.partition("/")
        require_name("sweeper", sweeper, [*SWEEPERS, *SOLVERS])
        if sweeper in SOLVERS and not installed():
            raise InputError(f"'{sweeper}' needs the package scikit-sundae: pip install 'dae_sdc[bench]'")
        settings: dict[str, Any] = {"rtol": rtol}
        if sweeper in SOLVERS:
            settings["global_error"] = False  # drift is that of the method at its tolerance
        elif issubclass(SWEEPERS[sweeper], DirectMethod):
            try:
                SWEEPERS[sweeper].check_adaptive()
            except InputError:  # it takes steps of a fixed size
                settings = {"dt": dt}
        of_case = {**params, "formulation": formulation} if formulation else dict(params)
        try:
            if sweeper in SOLVERS:
                make_problem(problem, of_case)
            else:
                describe(problem, sweeper=sweeper, params=of_case)
        except InputError as error:
            if names is not None:
                raise
            left_out.append(f"{name}: {error}")
            continue
        if "dt" in settings:
            number_of_steps(start, end, dt)
        cases.append(Case(name if formulation else sweeper, sweeper, formulation, of_case, settings))
    if not cases:
        raise InputError(f"no case takes the problem: {'; '.join(left_out)}")
    return cases, left_out


def _rows(case: Case, solution: Solution, problem: QuasilinearProblem, ends: Vector) -> list[tuple[Any, ...]]:
    """The largest errors in every part of the interval in which a step ends."""
    values = np.full((len(solution.t), len(NUMBERS)), np.nan)
    for row, t, u in zip(values, solution.t.tolist(), solution.u, strict=True):
        errors = problem.drift(t, u)
        row[:3] = [errors.get(name, np.nan) for name in NUMBERS[:3]]
        with suppress(InputError):  # its solution is not known
            exact = problem.state_parts(np.array(problem.u_exact(t), dtype=float))[0]
            row[3] = np.abs(problem.state_parts(u)[0] - exact).max()
    values[:, 2] = np.abs(values[:, 2] - values[0, 2])
    values, times = values[1:], solution.t[1:]
    part = np.clip(np.searchsorted(ends, times, side="left") - 1, 0, len(ends) - 2)
    largest = np.full((len(ends) - 1, len(NUMBERS)), -np.inf)
    np.maximum.at(largest, part, values)
    steps = np.bincount(part, minlength=len(ends) - 1)
    label = (*case[:3], case.settings.get("dt", np.nan), case.settings.get("rtol", np.nan))
    return [(*label, ends[i + 1], steps[i], *largest[i]) for i in np.flatnonzero(steps).tolist()]


def summary(result: Result) -> str:
    """The result as a table of text."""
    about = result.parameters
    runs = {run["case"]: run for run in about["runs"]}
    head = f"{about['problem']} to t={about['t_end']:g}; largest errors"
    work = ("steps", "rejected", "rhs")
    lines = [("case", "constraint", "velocity", "energy", "position", *work, "time")]
    for (case,), rows in combinations_of(result.data, ("case",)):
        largest = [float(rows[name].max()) for name in NUMBERS]
        shown = [f"{value:.1e}" if np.isfinite(value) else "-" for value in largest]
        run = runs[case]
        lines.append((case, *shown, *(run[name] for name in work), f"{run['time']:.2f}s"))
    table = aligned(lines, (28, -10, -9, -9, -9, -7, -8, -8, -8))
    return "\n".join([head, table, *(f"left out: {text}" for text in about["left_out"])])


add_arguments, main = verb(drift, summary)
