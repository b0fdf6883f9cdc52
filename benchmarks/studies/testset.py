"""The Test Set for IVP Solvers, solved to tolerances and held against published runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring.clock import clocked
from benchmarks.measuring.scores import scd, scd_differential
from benchmarks.study import Layout, Table, chosen, study
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.run.results import Result
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_problem


class PublishedRun(NamedTuple):
    solver: str
    rtol: float
    atol: float
    steps: int  # Also rejected ones
    failed: int
    fev: int  # Evaluations of the residual
    jac: int
    lu: int | None  # Factorisations; None where not printed
    scd: float | None  # Significant correct digits at the end; None where not printed or without meaning
    reported_failure: bool = False  # Whether the code said that it failed on its way
    formulation: int | None = None  # Index of the formulation, where a problem has several


class Published(NamedTuple):
    source: str  # Where the ladder was printed
    note: str  # What to know when its scores are compared with those of benchmarks.measuring.scores.scd
    ladder: tuple[PublishedRun, ...]  # Runs of one code at a row of tolerances
    reference_runs: tuple[PublishedRun, ...]  # Runs that made the official reference value


def published(name: str) -> Published:
    """Published figures of the problem registered as ``name``; without runs where none are known."""
    stored = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    figures: dict[str, Any] = {"source": "", "note": "", **stored.get(name, {})}
    for part in ("ladder", "reference_runs"):
        figures[part] = tuple(PublishedRun(**row) for row in figures.get(part, ()))
    return Published(**figures)


HEAD = Layout("problem:<20|n:>4|index:>5|rtol:>6.0e")
WORK = Layout(
    "steps:>7|rej.=rejected:>5|rhs:>8|jac.=jacobian:>6|fact.=factorization:>7|s=time:>8.3f|scd:>5.1f|"
    "diff.=scd_differential:>5.1f|need=required:>5.1f"
)


@study(
    "testset",
    "problem:U32 n:i8 index:i8 rtol[1] success:i8 method:U24 steps:i8 rejected:i8 rhs:i8 jacobian:i8 "
    "factorization:i8 time[s] scd[1] scd_differential required steps_published rhs_published message:U160",
    example="--problems hires --rtols 1e-4",
)
def testset(
    rows: Table,
    *,
    problems: Sequence[str] | None = None,
    rtols: Sequence[float] = (1e-4, 1e-7, 1e-10),
    time_limit: float = 300.0,
) -> None:
    """Solve the problems of the test set with nothing given but a tolerance."""
    known = [name for name in PROBLEMS if hasattr(PROBLEMS[name], "reference_end")]
    names = chosen("problem with a reference at its end", problems, known)
    for name, rtol in rows.each(list(product(names, rtols)), "run"):
        _measure(rows, name, float(rtol), time_limit)


def required_digits(problem: Any, rtol: float) -> float:
    """-log10(rtol) - 1, at most the digits to which all scored differential unknowns are known."""
    end, index = problem.reference_end, problem.variable_index
    counted = [i for i in end.scored if i < problem.n_diff and index[i] == 1 and end.digits[i] > 0.0]
    return float(min(-math.log10(rtol) - 1.0, *(end.digits[i] for i in counted or end.scored)))


def digits_reached(problem: ProblemDAE, u: np.ndarray) -> float:
    """scd of the differential unknowns, of all that are scored where none of them is differential."""
    try:
        return scd_differential(problem, u)
    except InputError:
        return scd(problem, u)


def published_work(about: Published, digits: float) -> tuple[float, float]:
    """Steps and residual evaluations for digits of the published ladder; NaN for more than it reaches."""
    runs = [run for run in about.ladder if run.scd is not None and not run.reported_failure]
    best: list[tuple[float, int, int]] = []
    for run in sorted(runs, key=lambda run: run.steps):
        assert run.scd is not None
        if not best or run.scd > best[-1][0]:
            best.append((run.scd, run.steps, run.fev))
    if not best or digits > best[-1][0]:
        return math.nan, math.nan
    reached = [row[0] for row in best]
    steps, fev = (float(np.exp(np.interp(digits, reached, np.log([row[k] for row in best])))) for k in (1, 2))
    return steps, fev


def _measure(rows: Table, name: str, rtol: float, time_limit: float) -> None:
    problem = make_problem(name)
    spent, solution = clocked(lambda: solve(name, rtol=rtol, time_limit=time_limit))
    about = {"problem": name, "n": problem.n, "index": problem.index or 0, "rtol": rtol, "time": spent.wall}
    about |= {"success": int(solution.success), "method": str(solution.parameters["sweeper"])}
    about |= {key: solution.stats[key] for key in ("steps", "rejected", "rhs", "jacobian", "factorization")}
    about |= {"required": required_digits(problem, rtol), "message": solution.message}
    if solution.success:
        digits = scd(problem, solution.u[-1])
        steps, fev = published_work(published(name), digits)
        about |= {"scd": digits, "scd_differential": digits_reached(problem, solution.u[-1])}
        about |= {"steps_published": steps, "rhs_published": fev}
    rows.put(**about)


@testset.reports
def report(result: Result) -> Iterator[str]:
    yield "scd: significant correct digits at the end, of all scored and of the scored differential unknowns;"
    yield "published: steps and residual evaluations in which MEBDFI (Cash 2000) reached the same scd"
    yield f"{HEAD.head()} {WORK.head()}  {'published':>15}"
    short = []
    for row in result.data:
        if not row["success"]:
            yield f"{HEAD.line(row)} {row['message']}"
        else:
            known = f"{row['steps_published']:.0f} {row['rhs_published']:.0f}"
            known = "" if np.isnan(row["steps_published"]) else known
            yield f"{HEAD.line(row)} {WORK.line(row)}  {known:>15}"
        if not row["success"] or row["scd_differential"] < row["required"]:
            short.append(f"{row['problem']} at {row['rtol']:g}")
    yield "published runs that made the reference values: steps, residual evaluations, Jacobians"
    for name in dict.fromkeys(result.data["problem"].tolist()):
        for run in published(name).reference_runs:
            yield f"{name:<20} {run.solver} {run.rtol:.0e}: {run.steps}, {run.fev}, {run.jac}"
    yield f"short of what is required: {', '.join(short) or 'none'}"
    more = [row["problem"] for row in result.data if row["steps"] >= row["steps_published"]]
    yield f"at least as many steps as published for the same scd: {', '.join(more) or 'none'}"
