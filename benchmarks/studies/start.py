"""How long the first call takes in a fresh process, before and after numba compiled; see :func:`start`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measuring.processes import in_a_fresh_process
from benchmarks.study import Layout, Table, chosen, study
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import RemoteError
from dae_sdc.run.results import Result

COLD, WARM = "cold", "warm"  # Numba's cache is empty, or holds what the process before compiled
NOT_COUNTED = "the process that is not counted"
TIMES = ("import_pysdc", "import_dae_sdc", "first", "second")  # As a fresh process tells them
TEXT = Layout(
    "problem:<19|cache:<5|import pySDC=import_pysdc:>12.3f|import dae_sdc=import_dae_sdc:>14.4f|"
    "first solve=first:>11.3f|least=first_least:>8.3f|second:>8.4f"
)


@study(
    "start",
    "problem:U32 cache:U16 import_pysdc[s] import_dae_sdc[s] first[s] second[s] first_least[s]",
    example="--problems simple --repetitions 1",
)
def start(
    rows: Table,
    *,
    problems: Sequence[str] = ("simple", "wscc9", "transmission-line"),
    repetitions: int = 3,
) -> None:
    """Measure what a fresh process takes for its imports, its first solve and a second one.

    Processes come in pairs. The first of a pair has an empty directory for numba's cache and compiles what it
    needs; the second finds there what the first has compiled. A process that is not counted runs before all
    others, so that the byte code of Python lies on disk and files have been read. The time in which the
    interpreter itself starts is not included.
    """
    names = chosen("problem", problems, PROBLEMS)
    with TemporaryDirectory(prefix="dae_sdc-start-") as folder, rows.or_left_out(NOT_COUNTED):
        in_a_fresh_process(names, folder)
    for name in rows.each(names, "problem"):
        _measure(rows, name, repetitions)


def _measure(rows: Table, problem: str, repetitions: int) -> None:
    caches: dict[str, list[list[float]]] = {COLD: [], WARM: []}
    for _ in range(repetitions):
        with TemporaryDirectory(prefix="dae_sdc-start-") as folder:
            for cache, times in caches.items():
                try:
                    times += in_a_fresh_process([problem], folder)
                except RemoteError as error:
                    rows.leave_out(f"{problem}, {cache}", error)
                    return
    for cache, times in caches.items():
        columns = dict(zip(TIMES, zip(*times, strict=True), strict=True))
        medians = {name: median(column) for name, column in columns.items()}
        rows.put(problem=problem, cache=cache, first_least=min(columns["first"]), **medians)


@start.reports
def report(result: Result) -> Iterator[str]:
    pairs = f"{result.parameters['repetitions']} pairs of processes"
    yield f"s in a fresh process; medians of {pairs}, cold and warm in turn"
    yield from TEXT.lines(result.data)
    yield "cold: numba compiles; warm: it loads what the process before compiled; least: of the first solve,"
    yield "which also imports the parts of the package that it uses"
