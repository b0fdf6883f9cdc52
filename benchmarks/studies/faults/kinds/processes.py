"""Pools that what a user has goes to and comes back from, and ranks that do not ask for the same."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from shutil import which

from benchmarks.measuring.runs import Finding
from benchmarks.studies.faults import cases
from benchmarks.studies.faults.cases import DONE, HANG, NONSENSE, RAW, TOLD, Case, Random, choice, kind

# How an error of a rank begins, in a line of what all ranks wrote
TOLD_BY_RANKS = re.compile(r"Error: |SystemExit: |has ended, and rank")
SOURCES, THINGS, WAYS = (cases.tables()[name] for name in ("sources", "pooled", "pools"))
# Values of options with an effect: of all ranks, and of the last one in their place
ASKED, OTHERS = (cases.tables()["ranks"][name] for name in ("asked", "others"))


def program(name: str, *words: str, ranks: int = 0) -> tuple[int, str] | None:
    """Exit code and standard error of a source of the table, by itself or on ranks."""
    for source in (name, "own", "things"):
        Path(f"{source}.py").write_text(SOURCES[source], encoding="utf-8")
    launched = ["mpirun", "-n", str(ranks)] if ranks else []
    return cases.process([*launched, sys.executable, f"{name}.py", *words])


@kind("pool", 2.0, most=150)
def pool(rng: Random) -> Case:
    """A result or equations, made in one process and used in another: there it is the same, or it is told."""
    thing, way = choice(rng, THINGS), choice(rng, WAYS)

    def run() -> Finding:
        done = program("pools", THINGS[thing], WAYS[way])
        if done is None:
            return Finding(HANG, "no end")
        code, said = done
        last = (said.strip().splitlines() or [""])[-1]
        # Python says itself what its pickle does not take; all that has a name in a file crosses.
        if code and "without a name" in thing and ("pickle" in last or "define" in last):
            return Finding(TOLD, last[:300])
        return cases.command_ended(code, last) if code != 3 else Finding(NONSENSE, last)

    return Case(f"{thing} by {way}", run)


@kind("rank", 2.0, most=100)
def rank(rng: Random) -> Case:
    """Ranks of which one has another option, other equations or another start, or leaves: all are told."""
    name = choice(rng, [*OTHERS, "nothing"]) if which("mpirun") else ""
    ranks = int(rng.integers(2, 4))
    other = choice(rng, OTHERS[name]) if name in OTHERS else ""

    def run() -> Finding:
        done = program("ranks", json.dumps(ASKED), json.dumps({name: other} if other else {}), ranks=ranks)
        if done is None:
            return Finding(HANG, "no end")
        code, said = done
        if code:
            why = next((line for line in said.splitlines() if TOLD_BY_RANKS.search(line)), "")
            return (
                cases.told(why, of_the_user=True) if why else Finding(RAW, f"exit code {code}: {said[-300:]}")
            )
        answers = [path.read_text(encoding="utf-8") for path in sorted(Path().glob("rank.*.json"))]
        if len(answers) < ranks or len(set(answers)) > 1:
            return Finding(NONSENSE, f"ranks disagree: {answers}"[:300])
        return Finding(NONSENSE, "success with different options") if other else Finding(DONE)

    return Case(f"{ranks} ranks, the last with {name} = {other}" if name else "no mpirun", run)
