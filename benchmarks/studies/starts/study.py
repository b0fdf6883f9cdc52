"""The study of consistent starts: its lines, what came of them, the table and the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.measuring.runs import BAD, FAILED, OUTCOMES, Finding, judged, lines_by_message, runs
from benchmarks.studies.starts import generated, plants
from benchmarks.study import Layout, Option, chosen as known_names
from dae_sdc.errors import require_count
from dae_sdc.run.results import Result

GENERATED = "generated"
KINDS = (GENERATED, "column", "diodes", "power")
SOLVERS = ("root", "ida")
PEERS = Layout(
    "start:<20|n:>4|held:>4|outcome:>8|left=error:>8.1e|ms=time*1e3:>9.1f|root ms=time_root*1e3:>9.1f|"
    "solved=root:>6|IDA ms=time_ida*1e3:>9.1f|solved=ida:>6",
    nan="-",
)


def repeat(line: str) -> Finding:
    return judged(lambda: (generated if ":" in line else plants).repeat(line))


@runs(
    "starts",
    "line:U64 kind:U12 n:i8 index:i8 held:i8 outcome:U8 error time time_root time_ida root:U4 ida:U4 "
    "seconds[s] message:U600 warned:U200",
    repeat=repeat,
    about=lambda line: {"kind": GENERATED if ":" in line else line.partition("-")[0]},
    bad=BAD,
    here=1,
    example="--quick",
    options={
        "quick": Option("a small part of all starts"),
        "count": Option("generated starts of each seed (400; 12 with --quick)", check=require_count),
        "seeds": Option("seeds", check=require_count),
        "kinds": Option(f"kinds of starts, of {', '.join(KINDS)}", flag="kind", metavar="NAMES"),
        "only": Option("one start", metavar="LINE"),
    },
)
def starts(
    lines: list[str],
    *,
    quick: bool = False,
    seed: int = 0,
    seeds: int = 1,
    count: int | None = None,
    kinds: Sequence[str] | None = None,
    only: str | None = None,
) -> dict[str, Any]:
    """Look for consistent starts whose truth is known, and compare with root of SciPy and IDA.

    Generated DAEs have some values held and the others guessed, in five ways to ask for a start; columns,
    circuits and power flows start from afar. Peers get the same equations where these are as many as what is
    not held, in turn with ours; times are those of a processor.
    """
    wanted, many = known_names("kind of start", kinds, KINDS), count or (12 if quick else 400)
    if only is not None:
        lines.append(only)
    else:
        if GENERATED in wanted:
            for one in range(seed, seed + seeds):
                lines += generated.plan(np.random.default_rng([one, 23]), many)
        those = [name for name in plants.PLANTS if name.partition("-")[0] in wanted]
        lines += [name for name in those if name in plants.FEW or not quick]
    return {"quick": quick, "seed": seed, "seeds": seeds, "count": many, "kinds": wanted}


@starts.reports
def report(result: Result) -> Iterator[str]:
    data, about = result.data, result.parameters
    yield f"{len(data)} starts in {about['elapsed']:.0f} s, {data['seconds'].sum():.0f} s on processors"
    own = data[data["kind"] == GENERATED]
    for title, place in (("held", 3), ("form", 2), ("guesses", 4), ("family", 0)) if len(own) else ():
        keys = np.array([str(line).split(":")[place].partition("*")[0] for line in own["line"]])
        yield ""
        yield f"{title:<20}" + "".join(f"{name:>8}" for name in OUTCOMES)
        for key in sorted(set(keys.tolist())):
            counts = Counter(own["outcome"][keys == key].tolist())
            yield f"{key:<20}" + "".join(f"{counts[name]:>8}" for name in OUTCOMES)
    for name in SOLVERS:
        both = own[(own[name] != "")]
        if len(both):
            won = both[(both[name] == "yes") & (both["outcome"] == "done")]
            ratio = np.median(won["time"] / won[f"time_{name}"]) if len(won) else np.nan
            solved = f"{(both[name] == 'yes').sum()} by {name}, {(both['outcome'] == 'done').sum()} here"
            yield f"{len(both)} square generated starts: {solved}; time here / {name} {ratio:.2g}, median"
    far = data[data["kind"] != GENERATED]
    if len(far):
        yield from ("", PEERS.head(), *(PEERS.line(row, start=row["line"]) for row in far))
    failed = data[data["outcome"] == FAILED]
    kinds = lines_by_message(failed)
    yield from ("", f"failed: {len(failed)} starts, {len(kinds)} classes of messages")
    for text, lines in kinds.items():
        yield from (f"{len(lines):6d}  {text}", f"        as {', '.join(lines[:3])}")
    yield from starts.bad_lines(result)
