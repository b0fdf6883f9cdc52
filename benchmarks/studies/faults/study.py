"""The study of faults: its plan, its table and its file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measuring.runs import CRASHED, FAILED, Finding, runs
from benchmarks.studies.faults.cases import BAD, HANG, KINDS, OUTCOMES, RAW, case_of, repeat
from benchmarks.study import Option
from dae_sdc.run.results import Result

NUMBERS_OF_A_SEED = 10**6


def planned(seed: int, cases: int, kinds: Sequence[str]) -> list[str]:
    """The lines of all cases, mixed, in as many of each kind as its share and its bound allow."""
    chosen = {name: KINDS[name] for name in kinds}
    left, shares = cases, sum(kind.share for kind in chosen.values())
    lines = []
    # What kinds with a bound leave of their shares goes to the others.
    for name, kind in sorted(chosen.items(), key=lambda entry: entry[1].most / entry[1].share):
        count = min(kind.most, max(1, round(left * kind.share / shares)), NUMBERS_OF_A_SEED)
        left, shares = max(left - count, 0), shares - kind.share
        lines += [f"{name}:{seed * NUMBERS_OF_A_SEED + i}" for i in range(count)]
    np.random.default_rng(seed).shuffle(lines)
    return lines


def named(line: str, finding: Finding) -> Finding:
    """What came of a case whose process may have ended before it could say so."""
    outcome, said = finding.outcome, finding.message
    if outcome in (FAILED, CRASHED):
        outcome, said = HANG if outcome == FAILED else RAW, f"{case_of(line).text[:300]} -> {said}"
    return replace(finding, outcome=outcome, message=said.encode("unicode_escape").decode())


@runs(
    "faults",
    "line:U48 kind:U16 outcome:U8 seconds[s] message:U800",
    repeat=repeat,
    about=lambda line: {"kind": line.partition(":")[0]},
    bad=BAD,
    judged=named,
    order=sorted,
    example="--seed 1 --cases 100",
    options={
        "cases": Option("number of cases"),
        "kinds": Option(f"kinds, separated by commas: {', '.join(KINDS)}", flag="kind", metavar="NAMES"),
        "only": Option("the case with this line; may be repeated", metavar="LINE", repeated=True),
    },
)
def faults(
    lines: list[str],
    *,
    seed: int = 0,
    cases: int = 200,
    kinds: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Hand the package faults of every kind, and count what comes of them."""
    for line in only or ():
        case_of(line)
    lines += planned(seed, cases, list(kinds or KINDS)) if only is None else only
    os.environ.setdefault("MPLBACKEND", "Agg")
    return {"seed": seed, "cases": len(lines)}


@faults.reports
def report(result: Result) -> list[str]:
    data, about = result.data, result.parameters
    lines = [
        f"{len(data)} cases of seed {about['seed']} in {about['elapsed']:.0f} s, with {about['package']}",
        "",
        f"{'kind':14s}{'cases':>8s}" + "".join(f"{name:>9s}" for name in OUTCOMES),
    ]
    for name in [*dict.fromkeys(data["kind"].tolist()), "all"]:
        outcomes = data["outcome"][(data["kind"] == name) | (name == "all")].tolist()
        counts = Counter(outcomes)
        lines.append(f"{name:14s}{len(outcomes):8d}" + "".join(f"{counts[key]:9d}" for key in OUTCOMES))
    return [*lines, *faults.bad_lines(result)]
