"""A circuit of many equal components from a text of Modelica to its solution; see :func:`ladder`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from benchmarks.measuring.processes import ask, environment
from benchmarks.study import Layout, Option, Table, study
from dae_sdc.run.results import Result

MEASURING = ("-W", "ignore", "-m", "benchmarks.measuring.ladder")
TEXT = Layout(
    "reader:<8|n:>6|unknowns:>8|s=time:>8.2f|read:>8.2f|rumoca=front_end:>8.2f|exponent:>8.2f|"
    "MB=memory*1e-6:>6.0f|error:>8.1e",
    nan="",
)


@study(
    "ladder",
    "reader:U8 n:i8 unknowns:i8 time[s] read[s] front_end[s] exponent[1] memory[B] error[V]",
    example="--sizes 20,40 --reader own",
    options={"readers": Option("what reads the texts, own or rumoca", flag="reader")},
)
def ladder(
    rows: Table,
    *,
    sizes: Sequence[int] = (1000, 4000),
    readers: Sequence[str] = ("own", "rumoca"),
    time_limit: float = 1800.0,
) -> None:
    """Measure the time from a text of Modelica with n resistors and capacitors to its solution.

    The own reader gets a flat text, rumoca arrays of components; the time of rumoca itself is measured once
    more by itself. Each run has a process of its own, in which a small one has loaded compiled code before.
    Times are those of the processor; errors those of the voltage of the first capacitor at the end.
    """
    before: dict[str, tuple[int, float]] = {}
    for by, n in rows.each(list(product(readers, sizes)), "ladder"):
        with rows.or_left_out(f"{by}, n={n}"):
            row = ask(MEASURING, {"reader": by, "n": n}, f"a ladder of {n}", time_limit, environment())
            if by in before and before[by][0] != n:
                smaller, time = before[by]
                row["exponent"] = math.log(row["time"] / time) / math.log(n / smaller)
            before[by] = n, row["time"]
            rows.put(reader=by, n=n, **row)


@ladder.reports
def report(result: Result) -> list[str]:
    return [
        *TEXT.lines(result.data),
        "s: from the text to the solution, of which read is the reading, with rumoca's own time in it;",
        "exponent: power of n by which s has grown since the size before; MB: largest memory of the process",
    ]
