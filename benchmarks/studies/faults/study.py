"""The study of faults: its plan, its table and its file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring.outcomes import CRASHED, FAILED, Finding
from benchmarks.measuring.runs import Runs
from benchmarks.studies.faults.cases import BAD, HANG, KINDS, OUTCOMES, RAW, case_of, repeat
from benchmarks.study import Option, register
from dae_sdc.run.results import Result

COLUMNS = [("line", "U48"), ("kind", "U16"), ("outcome", "U8"), ("seconds", "f8"), ("message", "U800")]
SLOWER = 5.0  # How much longer than that it may take on a busy machine, or asleep
CASES, WORKERS = 200, 2
NUMBERS_OF_A_SEED = 10**6


def planned(
    seed: int = 0, cases: int = CASES, kinds: Sequence[str] | None = None, only: Sequence[str] | None = None
) -> list[str]:
    """The lines of all cases, mixed, in as many of each kind as its share and its bound allow."""
    if only is not None:
        for line in only:
            case_of(line)
        return list(only)
    chosen = {name: KINDS[name] for name in kinds or KINDS}
    left, shares = cases, sum(one.share for one in chosen.values())
    lines = []
    # What kinds with a bound leave of their shares goes to the others.
    for name, one in sorted(chosen.items(), key=lambda entry: entry[1].most / entry[1].share):
        count = min(one.most, max(1, round(left * one.share / shares)), NUMBERS_OF_A_SEED)
        left, shares = max(left - count, 0), shares - one.share
        lines += [f"{name}:{seed * NUMBERS_OF_A_SEED + i}" for i in range(count)]
    np.random.default_rng(seed).shuffle(lines)
    return lines


def faults(
    *,
    seed: int = 0,
    cases: int = CASES,
    kinds: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    workers: int = WORKERS,
    time_limit: float = 60.0,  # Seconds that a case may take on a processor
    out: str | Path | None = None,
    progress: bool = False,
) -> Result:
    """Hand the package faults of every kind, and count what comes of them."""
    lines = planned(seed, cases, kinds, only)
    os.environ.setdefault("MPLBACKEND", "Agg")
    about = {"seed": seed, "cases": len(lines)}
    how: dict[str, Any] = {"workers": workers, "time_limit": time_limit, "out": out, "progress": progress}
    return RUNS.carry_out(lines, about, order=sorted(lines), **how)


def named(line: str, found: Finding) -> Finding:
    """What came of a case whose process may have ended before it could say so."""
    other = {FAILED: HANG, CRASHED: RAW}.get(found.outcome)
    if other is None:
        return found
    return replace(found, outcome=other, message=f"{case_of(line).text[:300]} -> {found.message}")


def _row(line: str, found: Finding) -> tuple[Any, ...]:
    message = found.message.encode("unicode_escape").decode()[:800]
    return line, line.partition(":")[0], found.outcome, found.seconds, message


RUNS = Runs("faults", COLUMNS, repeat, _row, BAD, named, SLOWER)


def report(result: Result) -> str:
    """The table of a study, and the line of each case that is bad."""
    data, about = result.data, result.parameters
    lines = [
        f"{len(data)} cases of seed {about['seed']} in {about['elapsed']:.0f} s, with {about['package']}",
        "",
        f"{'kind':14s}{'cases':>8s}" + "".join(f"{name:>9s}" for name in OUTCOMES),
    ]
    for name in [*dict.fromkeys(data["kind"].tolist()), "all"]:
        own = data if name == "all" else data[data["kind"] == name]
        counts = Counter(own["outcome"].tolist())
        lines.append(f"{name:14s}{len(own):8d}" + "".join(f"{counts[one]:9d}" for one in OUTCOMES))
    return "\n".join([*lines, *RUNS.bad_lines(result)])


register(
    "faults",
    faults,
    report,
    "--seed 1 --cases 100",
    options={
        "cases": Option("number of cases"),
        "kinds": Option(f"kinds, separated by commas: {', '.join(KINDS)}", flag="kind", metavar="NAMES"),
        "only": Option("the case with this line; may be repeated", metavar="LINE", repeated=True),
    },
    plan=planned,
    bad=RUNS.any_bad,
)
