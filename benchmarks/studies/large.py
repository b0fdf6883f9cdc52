"""The default method with many unknowns: time, memory, growth, and IDA at equal error; see :func:`large`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.measuring import ida
from benchmarks.measuring.clock import stopwatch
from benchmarks.measuring.cold import in_a_new_process
from benchmarks.measuring.families import FAMILIES
from benchmarks.measuring.limits import TimeLimit, limited
from benchmarks.study import Layout, Option, Table, chosen, study
from dae_sdc.errors import InputError
from dae_sdc.run.results import Result
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


class Cost(NamedTuple):
    """What a run took."""

    n: int  # Number of unknowns
    time: float  # Seconds
    steps: int  # Number of steps

    def exponents_from(self, before: Cost | None) -> tuple[float, float]:
        """Powers of n by which times of the run and of one step grow since another; NaN without one."""
        if before is None or before.n == self.n:
            return math.nan, math.nan
        apart = math.log(self.n / before.n)
        grown = math.log(self.time / before.time) / apart
        return grown, grown - math.log(self.steps / before.steps) / apart


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
    before: Cost | None = None
    for problem, rtol, n in rows.each(list(itertools.product(problems, rtols, sizes)), "large"):
        before = None if n == sizes[0] else before
        how = {"compared": n <= compared, "repetitions": repetitions, "time_limit": time_limit}
        before = _measure(rows, problem, rtol, n, before, **how)


def _measure(rows: Table, problem: str, rtol: float, n: int, before: Cost | None, **how: Any) -> Cost | None:
    """One row; returns what our run took."""
    family = FAMILIES[problem]
    made: Any = make_problem(problem, family.params(n))
    asked = {"problem": problem, "params": family.params(n), "rtol": rtol, "t_end": made.interval[1]}
    where = f"{problem}, n={made.n}, rtol={rtol:g}"
    # IDA keeps nothing for values between the steps either.
    asked |= {"warm": family.params(WARM), "dense": False}
    first: dict[str, Any] = {}
    with rows.or_left_out(where):
        first = in_a_new_process(asked, LONGEST)
    if not first:
        return None
    other: ida.Ida | None = None
    tolerance = math.nan
    if how["compared"] and ida.installed():
        with rows.or_left_out(f"IDA, {where}", TimeLimit):
            other, tolerance = _as_accurate(made, rtol, first["error"], how["time_limit"])
    runs, theirs = [first], []
    for k in range(how["repetitions"]):
        if k:
            runs.append(in_a_new_process(asked, LONGEST))
        if other is not None:
            with stopwatch() as spent:
                error = other.error(tolerance)
            theirs.append((spent.processor, error))
    cost = Cost(made.n, median(run["processor"] for run in runs), first["steps"])
    grown, grown_step = cost.exponents_from(before)
    ratios = [run["processor"] / one[0] for run, one in zip(runs, theirs, strict=False)]
    rows.put(
        **{"problem": problem, "n": made.n, "rtol": rtol, "time": cost.time},
        **{"exponent": grown, "exponent_step": grown_step},
        memory=max(run["memory"] for run in runs),
        **{name: first[name] for name in ("steps", "factorization", "error")},
        ida_tolerance=tolerance,
        ida_time=median(one[0] for one in theirs) if theirs else math.nan,
        ida_error=theirs[0][1] if theirs else math.nan,
        ratio=median(ratios) if ratios else math.nan,
    )
    return cost


def _as_accurate(problem: Any, rtol: float, error: float, time_limit: float) -> tuple[ida.Ida, float]:
    """IDA and a tolerance with which its error is at most ``error``."""
    other, tolerance = ida.Ida(problem, *problem.interval), rtol

    def error_now() -> float:
        with limited(time_limit):
            return other.error(tolerance)

    while not error_now() <= error:
        tolerance *= TIGHTER
        if tolerance < 10.0**ida.TIGHTEST:
            raise InputError(f"no tolerance of IDA down to 1e{ida.TIGHTEST:g} has an error below {error:.1e}")
    return other, tolerance


@large.reports
def report(result: Result) -> list[str]:
    """The table of a result of :func:`large`."""
    return [
        *TEXT.lines(result.data),
        "s: on a processor, after a small run; exp.: power of n by which s has grown since the size before,",
        "a step: by which s / steps has; MB: largest memory of the process; error in units of nominal sizes;",
        "IDA: SuperLU_MT, exact Jacobian, rtol as tight as its error needs, atol = rtol times nominal sizes",
    ]
