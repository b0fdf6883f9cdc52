"""Threads and ranks that share the steps of the default method, beside serial runs; see :func:`parallel`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring.families import FAMILIES
from benchmarks.measuring.shares import LEVELS, RANKS, STEPS, SWEEPS
from benchmarks.studies.scaling.study import rows_of
from benchmarks.study import Benchmark, Option, check_names, left_out, register, table
from dae_sdc.arguments import checked
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import DAEError, InputError, require_count, require_number
from dae_sdc.run.results import Result

# Problems, their relative tolerance, and the part of their interval that is integrated
SPANS: Mapping[str, tuple[float, float]] = {
    "transmission-line": (1e-6, 1.0),
    "navier-stokes": (1e-5, 0.1),
    "pipe-network": (1e-6, 0.2),
    "two-bit-adder": (1e-6, 0.1),
}

SIZES = (10_000,)
WORKERS = (2, 4)
REPETITIONS = 5
PATIENCE = 550.0  # Seconds without a line from the measuring processes after which they are ended
WAYS = (RANKS, SWEEPS)
TIMES = ("computing", "ratio", "ratio_least", "communication", "wall", "wall_low", "wall_ratio", "wall_high")

COLUMNS = [
    *(("problem", "U32"), ("n", "i8"), ("rtol", "f8"), ("way", "U8"), ("workers", "i8"), ("pinned", "?")),
    *(("steps", "i8"), ("factorizations", "i8"), ("error", "f8"), ("equal", "?")),
    *((name, "f8") for name in TIMES),
]

UNITS = {"computing": "s", "wall": "s", **dict.fromkeys(TIMES[1:4] + TIMES[5:], "1"), "error": "1"}


@checked()
def parallel(
    *,
    problems: Sequence[str] = tuple(SPANS),
    sizes: Sequence[int] = SIZES,
    workers: Sequence[int] = WORKERS,
    ways: Sequence[str] = WAYS,
    repetitions: int = REPETITIONS,
    out: str | Path | None = None,
    progress: bool = False,
) -> Result:
    """Measure threads and ranks that share the stages of Radau IIA, beside the serial run and IDA.

    Runs to a tolerance take turns with serial ones: left to the operating system, and with all threads or
    ranks tied to one core, where computing time is disturbed least. Each begins with a new controller, whose
    making is not timed; compiled code is loaded. Runs with ranks that share steps of a fixed size ("mssdc",
    "pfasst") are timed with what sets them up.
    """
    check_names("problem of this study", list(problems), list(SPANS))
    check_names("way to run", list(ways), [*WAYS, STEPS, LEVELS])
    require_count("repetitions", repetitions)
    for what, numbers in (("the number of unknowns", sizes), ("the number of workers", workers)):
        if not len(numbers):
            raise InputError(f"need at least one value of {what}")
        for number in numbers:
            require_count(what, number)
    cases = list(_cases(problems, sizes))
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    asked = {"repetitions": repetitions, "core": core, "threads": list(workers), "ways": list(ways)}
    rows = table("parallel", COLUMNS, UNITS, out)
    rows.parameters |= {"repetitions": repetitions, "workers": list(workers), "ways": list(ways)}
    with rows.running(len(cases) * (1 + len(workers)), "job", progress) as bar:
        for case in cases:
            for ranks in (1, *workers):
                request = json.dumps({"cases": [case], **asked})
                try:
                    with closing(rows_of("benchmarks.measuring.shares", request, ranks, PATIENCE)) as news:
                        for row in news:
                            rows.put(**row)
                except InputError:
                    raise
                except DAEError as error:
                    rows.leave_out(f"{case['problem']} on {ranks} ranks", error)
                bar.update(1)
    return rows.result()


def _cases(problems: Sequence[str], sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    for name in problems:
        rtol, part = SPANS[name]
        known = PROBLEMS[name]
        start, end = require_number("start", known.interval[0]), require_number("end", known.interval[1])
        about = {"problem": name, "rtol": rtol, "t_end": start + part * (end - start)}
        for params in [FAMILIES[name].params(size) for size in sizes] if name in FAMILIES else [{}]:
            yield {**about, "params": params}


def report(result: Result) -> str:
    """The table of a result of :func:`parallel`, as text."""
    lines = [
        f"medians of {result.parameters['repetitions']} runs in turn with serial ones; times of the busiest",
        f"{'problem':<18} {'n':>7} {'rtol':>6} {'way':<8} {'by':>2} {'pinned':>6} {'steps':>5} {'fact.':>5} "
        f"{'error':>8} {'equal':>5} {'comp. s':>8} {'ratio':>6} {'least':>6} {'comm.':>6} {'wall s':>8} "
        f"{'wall ratio':>16}",
    ]
    for row in result.data:
        walls = f"{row['wall_low']:.2f} {row['wall_ratio']:.2f} {row['wall_high']:.2f}"
        lines.append(
            f"{row['problem']:<18} {row['n']:>7} {row['rtol']:>6.0e} {row['way']:<8} {row['workers']:>2} "
            f"{'yes' if row['pinned'] else 'no':>6} {row['steps']:>5} {row['factorizations']:>5} "
            f"{row['error']:>8.1e} {'yes' if row['equal'] else 'no':>5} {row['computing']:>8.3f} "
            f"{row['ratio']:>6.2f} {row['ratio_least']:>6.2f} {row['communication']:>6.1%} "
            f"{row['wall']:>8.3f} {walls:>16}"
        )
    if np.isnan(result.data["wall"]).any():
        lines.append("nan: took more than a minute")
    lines.append("comm.: messages in units of comp.; wall ratio: quartiles of the relation to serial runs")
    return "\n".join([*lines, *left_out(result)])


register(
    "parallel",
    Benchmark(
        parallel,
        report,
        "--problems transmission-line --sizes 40 --workers 2 --ways ranks --repetitions 1",
        options={
            "workers": Option("numbers of threads and of ranks, separated by commas"),
            "ways": Option("what ranks do, separated by commas: ranks, sdc, mssdc, pfasst"),
        },
    ),
)
