"""The study of faults: its plan, its table and its file.

Example: python -m benchmarks faults --seed 1 --cases 500
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
from tqdm import tqdm

from benchmarks.faults.cases import BAD, HANG, KINDS, OUTCOMES, PACKAGE, RAW, case_of, repeat
from benchmarks.truth.outcomes import CRASHED, FAILED, Finding
from benchmarks.truth.workers import carry_out
from dae_sdc.errors import InputError
from dae_sdc.run.results import Result, check_target, command_line

COLUMNS = [("line", "U48"), ("kind", "U16"), ("outcome", "U8"), ("seconds", "f8"), ("message", "U800")]

TIME_LIMIT = 60.0
"""Seconds that a case may take on a processor."""

SLOWER = 5.0
"""How much longer than that it may take on a busy machine, or asleep."""

CASES, WORKERS = 200, 2

NUMBERS_OF_A_SEED = 10**6


def planned(seed: int, cases: int, kinds: Sequence[str] | None = None) -> list[str]:
    """The lines of all cases, mixed, in as many of each kind as its share and its bound allow."""
    chosen = {name: KINDS[name] for name in kinds or KINDS}
    total = sum(one.share for one in chosen.values())
    lines = []
    for name, one in chosen.items():
        count = min(one.most, max(1, round(cases * one.share / total)), NUMBERS_OF_A_SEED)
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
    time_limit: float = TIME_LIMIT,
    out: str | Path | None = None,
    progress: bool = False,
) -> Result:
    """Do cases of every kind, and count what came of them.

    Parameters
    ----------
    seed : int
        What the cases are made from.
    cases : int
        Number of all.
    kinds : sequence of str, optional
        Of these alone.
    only : sequence of str, optional
        The cases with these lines.
    workers : int
        Number of processes; 0 for this one, in which nothing limits the time.
    time_limit : float
        Seconds that a case may take on a processor.
    out : str or Path, optional
        File to save the result to.
    progress : bool
        Show a progress bar on standard error, and what is bad when it is found.

    Returns
    -------
    Result
        Of kind "bench", a row for each case.

    Raises
    ------
    InputError
        For names and lines that do not exist, or a place that cannot be written to.
    """
    if out is not None:
        check_target(out)
    lines = list(only) if only is not None else planned(seed, cases, kinds)
    for line in only or ():
        case_of(line)
    os.environ.setdefault("MPLBACKEND", "Agg")
    rows, began = [], perf_counter()
    runs = carry_out(repeat, lines, min(workers, len(lines)), time_limit, SLOWER)
    with suppress(KeyboardInterrupt), tqdm(total=len(lines), unit="case", disable=not progress) as bar:
        for line, ended in runs:
            found = named(line, ended)
            message = found.message.encode("unicode_escape").decode()[:800]
            rows.append((line, line.partition(":")[0], found.outcome, found.seconds, message))
            if progress and found.outcome in BAD:
                bar.write(f"{found.outcome:8s} {line}\n         {message}", file=sys.stderr)
            bar.update()
    runs.close()
    about = {
        "study": "faults",
        "seed": seed,
        "cases": len(lines),
        "workers": workers,
        "time_limit": time_limit,
        "elapsed": perf_counter() - began,
        "package": str(PACKAGE / "dae_sdc"),
        "complete": len(rows) == len(lines),
    }
    result = Result("bench", np.array(sorted(rows), dtype=COLUMNS), {"seconds": "s"}, about, command_line())
    if out is not None:
        result.save(out)
    return result


def named(line: str, found: Finding) -> Finding:
    """What came of a case whose process may have ended before it could say so."""
    other = {FAILED: HANG, CRASHED: RAW}.get(found.outcome)
    if other is None:
        return found
    return replace(found, outcome=other, message=f"{case_of(line).text[:300]} -> {found.message}")


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
    bad = data[np.isin(data["outcome"], BAD)]
    lines += [
        "",
        f"{len(bad)} bad" + (", each repeated by python -m benchmarks faults --only LINE" * bool(len(bad))),
    ]
    for row in bad:
        lines += [f"{row['outcome']:8s} {row['line']}", f"         {row['message']}"]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m benchmarks faults``; exit code 1 where something is bad."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="what the cases are made from (0)")
    parser.add_argument("--cases", type=int, default=CASES, help=f"number of cases ({CASES})")
    parser.add_argument(
        "--only", metavar="LINE", action="append", help="the case with this line; may be repeated"
    )
    parser.add_argument("--kind", metavar="NAMES", help=f"kinds, separated by commas: {', '.join(KINDS)}")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"processes ({WORKERS}); 0: this one")
    parser.add_argument(
        "--time-limit", type=float, default=TIME_LIMIT, help=f"seconds of a case ({TIME_LIMIT:g})"
    )
    parser.add_argument("--out", type=Path, help=".npy file, with a .json beside it")
    args = parser.parse_args(arguments)
    try:
        result = faults(
            seed=args.seed,
            cases=args.cases,
            kinds=args.kind.split(",") if args.kind else None,
            only=args.only,
            workers=args.workers,
            time_limit=args.time_limit,
            out=args.out,
            progress=True,
        )
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(report(result))
    return int(np.isin(result.data["outcome"], BAD).any())
