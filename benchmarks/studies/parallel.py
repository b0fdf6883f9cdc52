"""Threads and ranks that share the steps of the default method, beside serial runs; see :func:`parallel`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import product
from typing import Any

import numpy as np

from benchmarks.measuring.processes import rows_of
from benchmarks.measuring.ranks import LEVELS, RANKS, STEPS, SWEEPS
from benchmarks.measuring.steps import FAMILIES
from benchmarks.study import Layout, Option, Table, chosen, study
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

PATIENCE = 550.0  # Seconds without a line from the measuring processes after which they are ended
WAYS = (RANKS, SWEEPS)
TEXT = Layout(
    "problem:<18|n:>7|rtol:>6.0e|way:<8|by=workers:>2|pinned:>6|steps:>5|fact.=factorizations:>5|error:>8.1e|"
    "equal:>5|comp. s=computing:>8.3f|ratio:>6.2f|least=ratio_least:>6.2f|comm.=communication:>6.1%|"
    "wall s=wall:>8.3f|"
    "wall ratio={wall_low:.2f} {wall_ratio:.2f} {wall_high:.2f}:>16"
)


@study(
    "parallel",
    "problem:U32 n:i8 rtol way:U8 workers:i8 pinned:? steps:i8 factorizations:i8 error[1] equal:? "
    "computing[s] ratio[1] ratio_least[1] communication[1] wall[s] wall_low[1] wall_ratio[1] wall_high[1]",
    example="--problems transmission-line --sizes 40 --workers 2 --ways ranks --repetitions 1",
    options={
        "workers": Option(
            "numbers of threads and of ranks, separated by commas",
            check=require_count,
            what="number of workers",
        ),
        "ways": Option("what ranks do, separated by commas: ranks, sdc, mssdc, pfasst"),
    },
)
def parallel(
    rows: Table,
    *,
    problems: Sequence[str] = tuple(SPANS),
    sizes: Sequence[int] = (10_000,),
    workers: Sequence[int] = (2, 4),
    ways: Sequence[str] = WAYS,
    repetitions: int = 5,
) -> None:
    """Measure threads and ranks that share the stages of Radau IIA, beside the serial run and IDA.

    Runs to a tolerance take turns with serial ones: left to the operating system, and with all threads or
    ranks tied to one core, where computing time is disturbed least. Each begins with a new controller, whose
    making is not timed; compiled code is loaded. Runs with ranks that share steps of a fixed size ("mssdc",
    "pfasst") are timed with what sets them up.
    """
    chosen("problem of this study", problems, SPANS)
    chosen("way to run", ways, [*WAYS, STEPS, LEVELS])
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    asked = {"repetitions": repetitions, "core": core, "threads": list(workers), "ways": list(ways)}
    for case, ranks in rows.each(list(product(_cases(problems, sizes), (1, *workers))), "job"):
        try:
            with closing(rows_of({"case": case, **asked}, ranks, PATIENCE)) as news:
                for row in news:
                    rows.put(**row)
        except InputError:
            raise
        except DAEError as error:
            rows.leave_out(f"{case['problem']} on {ranks} ranks", error)


def _cases(problems: Sequence[str], sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    for name in problems:
        rtol, part = SPANS[name]
        known = PROBLEMS[name]
        start, end = require_number("start", known.interval[0]), require_number("end", known.interval[1])
        about = {"problem": name, "rtol": rtol, "t_end": start + part * (end - start)}
        for params in [FAMILIES[name].params(size) for size in sizes] if name in FAMILIES else [{}]:
            yield {**about, "params": params}


@parallel.reports
def report(result: Result) -> Iterator[str]:
    yield f"medians of {result.parameters['repetitions']} runs in turn with serial ones; times of the busiest"
    yield from TEXT.lines(result.data)
    if np.isnan(result.data["wall"]).any():
        yield "nan: took more than a minute"
    yield "comm.: messages in units of comp.; wall ratio: quartiles of the relation to serial runs"
