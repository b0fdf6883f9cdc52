"""The default method with many unknowns: time, memory, growth, and IDA at equal error; see :func:`large`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.measuring import ida
from benchmarks.measuring.clock import TimeLimit, clocked
from benchmarks.measuring.processes import in_a_new_process
from benchmarks.measuring.steps import FAMILIES
from benchmarks.study import Layout, Option, Table, chosen, study
from dae_sdc.errors import InputError
from dae_sdc.run.results import Result
from dae_sdc.run.sundials import installed
from dae_sdc.run.target import make_problem

SIZES = (10_000, 100_000)
WARM = 100  # Unknowns of a solve before the one that is measured, which loads compiled code
LONGEST = 3600.0  # Seconds that one process may take
TIGHTER = math.sqrt(0.1)  # Factor between tolerances that IDA is given until its error is as small

TEXT = Layout(
    "problem:<18|n:>8|rtol:>6.0e|s=time:>8.2f|exp.=exponent:>5.2f|a step=exponent_step:>6.2f|"
    "MB=memory*1e-6:>6.0f|steps:>5|fact.=factorization:>5|error:>8.1e|IDA: tol.=ida_tolerance:>9.1e|"
    "s=ida_time:>8.2f|error=ida_error:>8.1e|ours/ida=ratio:>8.2f",
    nan="",
)


@study(
    "large",
    "problem:U32 n:i8 rtol time[s] memory[B] exponent[1] exponent_step[1] steps:i8 factorization:i8 error "
    "ida_tolerance ida_time[s] ida_error ratio[1]",
    example="--problems transmission-line --sizes 20,40 --rtols 1e-4 --repetitions 1",
    options={"compared": Option("largest number of unknowns for the comparison with IDA")},
)
def large(
    rows: Table,
    *,
    problems: Sequence[str] = tuple(FAMILIES),
    sizes: Sequence[int] = SIZES,
    rtols: Sequence[float] = (1e-4, 1e-6, 1e-9),
    compared: int = SIZES[0],
    repetitions: int = 3,
    time_limit: float = 60.0,  # Seconds that one run of IDA may take, unless the command says another number
) -> None:
    """Measure runs of the default method with many unknowns, and runs of IDA that are as accurate.

    Each run of this package has a process of its own, in which a small one has loaded compiled code before;
    its memory is the largest of that process, with nothing taken off. Both sides integrate over the interval
    of the problem. IDA gets the tolerance of this package, and tighter ones until its error at the end is as
    small; errors and absolute tolerances are in units of the ``nominal`` values of a problem. Times are those
    of processors; runs take turns.
    """
    chosen("problem", problems, FAMILIES)
    rows.parameters["ida"] = {**ida.SETTINGS, "jacfn": "exact"}
    before: dict[str, Any] = {}
    for problem, rtol, n in rows.each(list(itertools.product(problems, rtols, sizes)), "large"):
        how = {"compared": n <= compared, "repetitions": repetitions, "time_limit": time_limit}
        before = _measure(rows, problem, rtol, n, {} if n == sizes[0] else before, **how)


def _measure(rows: Table, problem: str, rtol: float, n: int, before: Any, **how: Any) -> dict[str, Any]:
    """Put a row with the growth since that of the size before, and return it; nothing where a run fails."""
    family = FAMILIES[problem]
    made: Any = make_problem(problem, family.params(n))
    asked = {"problem": problem, "params": family.params(n), "rtol": rtol, "t_end": made.interval[1]}
    where = f"{problem}, n={made.n}, rtol={rtol:g}"
    # IDA keeps nothing for values between the steps either.
    asked |= {"warm": family.params(WARM), "dense": False}
    runs: list[dict[str, Any]] = []
    with rows.or_left_out(where):
        runs.append(in_a_new_process(asked, LONGEST))
    if not runs:
        return {}
    other, tolerance = None, rtol
    if how["compared"] and installed():
        with rows.or_left_out(f"IDA, {where}", TimeLimit):
            candidate = ida.Ida(made, *made.interval)
            while not candidate.error(tolerance, how["time_limit"]) <= runs[0]["error"]:
                tolerance *= TIGHTER
                if tolerance < 10.0**ida.TIGHTEST:
                    least = f"1e{ida.TIGHTEST:g} has an error below {runs[0]['error']:.1e}"
                    raise InputError(f"no tolerance of IDA down to {least}")
            other = candidate
    theirs = []
    for k in range(how["repetitions"]):
        if k:
            runs.append(in_a_new_process(asked, LONGEST))
        if other is not None:
            spent, error = clocked(lambda: other.error(tolerance))
            theirs.append((spent.processor, error))
    time, steps = median(run["processor"] for run in runs), runs[0]["steps"]
    row = {"problem": problem, "n": made.n, "rtol": rtol, "time": time, "steps": steps}
    row |= {name: runs[0][name] for name in ("factorization", "error")}
    row["memory"] = max(run["memory"] for run in runs)
    if before and before["n"] != made.n:
        apart = math.log(made.n / before["n"])
        row["exponent"] = math.log(time / before["time"]) / apart
        row["exponent_step"] = row["exponent"] - math.log(steps / before["steps"]) / apart
    if theirs:
        ratios = [run["processor"] / ida_time for run, (ida_time, _) in zip(runs, theirs, strict=False)]
        row |= {"ida_tolerance": tolerance, "ida_error": theirs[0][1], "ratio": median(ratios)}
        row["ida_time"] = median(ida_time for ida_time, _ in theirs)
    rows.put(**row)
    return row


@large.reports
def report(result: Result) -> list[str]:
    return [
        *TEXT.lines(result.data),
        "s: on a processor, after a small run; exp.: power of n by which s has grown since the size before,",
        "a step: by which s / steps has; MB: largest memory of the process; error in units of nominal sizes;",
        "IDA: SuperLU_MT, exact Jacobian, rtol as tight as its error needs, atol = rtol times nominal sizes",
    ]
