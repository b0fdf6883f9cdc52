"""The Test Set for IVP Solvers, solved to tolerances and held against published runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.measuring.published import Published, published
from benchmarks.study import Benchmark, check_names, register, table
from dae_sdc.arguments import checked
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError, require_number
from dae_sdc.problems._testset import scd, scd_differential
from dae_sdc.run.results import Result
from dae_sdc.run.solve import solve
from dae_sdc.run.study import Study

RTOLS = (1e-4, 1e-7, 1e-10)
TIME_LIMIT = 300.0

COLUMNS = [
    *(("problem", "U32"), ("n", "i8"), ("index", "i8"), ("rtol", "f8"), ("success", "i8"), ("method", "U24")),
    *((name, "i8") for name in ("steps", "rejected", "rhs", "jacobian", "factorization")),
    *(("time", "f8"), ("scd", "f8"), ("scd_differential", "f8"), ("required", "f8")),
    *(("steps_published", "f8"), ("rhs_published", "f8"), ("message", "U160")),
]

UNITS = {"time": "s", "rtol": "1", "scd": "1"}


@checked()
def testset(
    *,
    problems: Sequence[str] | None = None,
    rtols: Sequence[float] = RTOLS,
    time_limit: float = TIME_LIMIT,
    out: str | Path | None = None,
    progress: bool = False,
) -> Result:
    """Solve the problems of the test set with nothing given but a tolerance."""
    known = [name for name in PROBLEMS if hasattr(PROBLEMS[name], "reference_end")]
    names = known if problems is None else list(problems)
    check_names("problem with a reference at its end", names, known)
    if not len(rtols):
        raise InputError("need at least one tolerance")
    require_number("time_limit", time_limit)
    rows = table("testset", COLUMNS, UNITS, out)
    rows.parameters |= {
        "rtols": [require_number("a tolerance", rtol) for rtol in rtols],
        "time_limit": time_limit,
    }
    total = len(names) * len(rtols)
    with rows.running(total, "run", progress) as bar:
        for name in names:
            for rtol in rtols:
                _measure(rows, name, float(rtol), time_limit)
                bar.update(1)
    return rows.result()


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
    """Steps and residual evaluations in which the published ladder reaches a number of digits.

    Between two of its runs logarithms are interpolated. NaN for more digits than it reaches.
    """
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


def _measure(rows: Study, name: str, rtol: float, time_limit: float) -> None:
    make: Any = PROBLEMS[name]
    problem: ProblemDAE = make()
    tic = perf_counter()
    found = solve(name, rtol=rtol, time_limit=time_limit)
    time = perf_counter() - tic
    about = {"problem": name, "n": problem.n, "index": problem.index or 0, "rtol": rtol, "time": time}
    about |= {"success": int(found.success), "method": str(found.parameters["sweeper"])}
    about |= {key: found.stats[key] for key in ("steps", "rejected", "rhs", "jacobian", "factorization")}
    about |= {"required": required_digits(problem, rtol), "message": found.message}
    if found.success:
        digits = scd(problem, found.u[-1])
        steps, fev = published_work(published(name), digits)
        about |= {"scd": digits, "scd_differential": digits_reached(problem, found.u[-1])}
        about |= {"steps_published": steps, "rhs_published": fev}
    rows.put(**about)


def report(result: Result) -> str:
    """The table of a result of :func:`testset`, as text."""
    lines = [
        "scd: significant correct digits at the end, of all scored and of the scored differential unknowns;",
        "published: steps and residual evaluations in which MEBDFI (Cash 2000) reached the same scd",
        f"{'problem':<20} {'n':>4} {'index':>5} {'rtol':>6} {'steps':>7} {'rej.':>5} {'rhs':>8} {'jac.':>6} "
        f"{'fact.':>7} {'s':>8} {'scd':>5} {'diff.':>5} {'need':>5}  {'published':>15}",
    ]
    short = []
    for row in result.data:
        head = f"{row['problem']:<20} {row['n']:>4} {row['index']:>5} {row['rtol']:>6.0e}"
        if not row["success"]:
            lines.append(f"{head} {row['message']}")
            short.append(f"{row['problem']} at {row['rtol']:g}")
            continue
        told = (
            ""
            if np.isnan(row["steps_published"])
            else f"{row['steps_published']:.0f} {row['rhs_published']:.0f}"
        )
        lines.append(
            f"{head} {row['steps']:>7} {row['rejected']:>5} {row['rhs']:>8} {row['jacobian']:>6} "
            f"{row['factorization']:>7} {row['time']:>8.3f} {row['scd']:>5.1f} "
            f"{row['scd_differential']:>5.1f} {row['required']:>5.1f}  {told:>15}"
        )
        if row["scd_differential"] < row["required"]:
            short.append(f"{row['problem']} at {row['rtol']:g}")
    lines.append("published runs that made the reference values: steps, residual evaluations, Jacobians")
    for name in dict.fromkeys(result.data["problem"].tolist()):
        for run in published(name).reference_runs:
            lines.append(f"{name:<20} {run.solver} {run.rtol:.0e}: {run.steps}, {run.fev}, {run.jac}")
    lines.append(f"short of what is required: {', '.join(short) or 'none'}")
    more = [row["problem"] for row in result.data if row["steps"] >= row["steps_published"]]
    lines.append(f"at least as many steps as published for the same scd: {', '.join(more) or 'none'}")
    return "\n".join(lines)


register("testset", Benchmark(testset, report, "--problems hires --rtols 1e-4"))
