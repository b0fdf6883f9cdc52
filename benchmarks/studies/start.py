"""How long the first call takes in a fresh process, before and after numba compiled; see :func:`start`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measuring.processes import in_a_fresh_process
from benchmarks.study import Layout, Option, Table, chosen, require_below_one, study
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import RemoteError
from dae_sdc.run.results import Result

COLD, WARM = "cold", "warm"  # Numba's cache is empty, or holds what the process before compiled
NOT_COUNTED = "the process that is not counted"
FUNCTION = "function"  # A plain function of two unknowns in place of a problem
# As a fresh process tells them
TIMES = ("import_scipy", "import_pysdc", "import_dae_sdc", "first", "second")
TEXT = Layout(
    "problem:<19|cache:<5|import scipy=import_scipy:>12.3f|import pySDC=import_pysdc:>12.3f|"
    "import dae_sdc=import_dae_sdc:>14.4f|first solve=first:>11.3f|least=first_least:>8.3f|"
    "second:>8.4f|ratio:>6.2f"
)


@study(
    "start",
    "problem:U32 cache:U16 import_scipy[s] import_pysdc[s] import_dae_sdc[s] first[s] second[s] "
    "first_least[s] ratio",
    example="--problems simple --repetitions 1",
    options={
        "rtol": Option("relative tolerance (steps of the size of the problem)", check=require_below_one)
    },
)
def start(
    rows: Table,
    *,
    problems: Sequence[str] = ("simple", "wscc9", "transmission-line"),
    repetitions: int = 3,
    rtol: float | None = None,
) -> None:
    """Measure what a fresh process takes for its imports, its first solve and a second one.

    Processes come in pairs. The first of a pair has an empty directory for numba's cache and compiles what it
    needs; the second finds there what the first has compiled. A process that is not counted runs before all
    others, so that the byte code of Python lies on disk and files have been read. The time in which the
    interpreter itself starts is not included. The problem "function" is a plain function of two unknowns;
    with ``rtol`` all are solved to this tolerance. The ratio is that of imports and first solve to the import
    of NumPy and SciPy alone, as far as pySDC needs it.
    """
    names = chosen("problem", problems, [*PROBLEMS, FUNCTION])
    with TemporaryDirectory(prefix="dae_sdc-start-") as folder, rows.or_left_out(NOT_COUNTED):
        in_a_fresh_process(names, folder, rtol=rtol)
    for name in rows.each(names, "problem"):
        _measure(rows, name, repetitions, rtol)


def _measure(rows: Table, problem: str, repetitions: int, rtol: float | None) -> None:
    caches: dict[str, list[list[float]]] = {COLD: [], WARM: []}
    for _ in range(repetitions):
        with TemporaryDirectory(prefix="dae_sdc-start-") as folder:
            for cache, times in caches.items():
                try:
                    times += in_a_fresh_process([problem], folder, rtol=rtol)
                except RemoteError as error:
                    rows.leave_out(f"{problem}, {cache}", error)
                    return
    for cache, times in caches.items():
        columns = dict(zip(TIMES, zip(*times, strict=True), strict=True))
        medians = {name: median(column) for name, column in columns.items()}
        ratio = median(sum(row[:-1]) / row[0] for row in times)
        rows.put(problem=problem, cache=cache, first_least=min(columns["first"]), ratio=ratio, **medians)


@start.reports
def report(result: Result) -> Iterator[str]:
    pairs = f"{result.parameters['repetitions']} pairs of processes"
    yield f"s in a fresh process; medians of {pairs}, cold and warm in turn"
    yield from TEXT.lines(result.data)
    yield "cold: numba compiles; warm: it loads what the process before compiled; least: of the first solve,"
    yield "which also imports the parts of the package that it uses; ratio: of imports and first solve to the"
    yield "import of NumPy and SciPy"
