"""The study of generated DAEs: plan of all runs, their outcomes, the table and the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.runs import BAD, OUTCOMES, REFUSED, Finding, judged, lines_by_message, runs
from benchmarks.studies.truth import solves
from benchmarks.studies.truth.generated import FAMILIES, KINDS, Kind
from benchmarks.studies.truth.written import WRITTEN
from benchmarks.study import Option, chosen as known_names
from dae_sdc.errors import InputError
from dae_sdc.registry import unknown
from dae_sdc.run.results import Result

# Classes of methods by how their names begin; what is left is on manifolds
GROUPS = (
    ("Radau IIA", ("default", "radau-")),
    ("SDC", ("fully-implicit", "semi-implicit", "constrained")),
    ("ESDIRK", ("esdirk",)),
    ("other RK", ("backward-", "trapezoidal", "dirk", "edirk", "gauss", "lobatto")),
    ("multistep", ("bdf", "adams", "explicit-euler")),
)


def kind_of(line: str) -> str:
    """What a line asks for: a solve, or one of the other kinds of runs."""
    way = (line.split(":") + [""] * 3)[2]
    return way if way in KINDS else "solve"


def repeat(line: str) -> Finding:
    parts, kind = line.split(":"), kind_of(line)
    if len(parts) < 3 or not parts[1].isdigit() or (kind == "solve" and len(parts) != 5):
        raise InputError(f"a run is FAMILY:SEED:WAY:METHOD:SIZE or FAMILY:SEED:KIND:...; got '{line}'")
    family, seed, way, *rest = parts
    if kind != "solve":
        return judged(lambda: KINDS[kind].run(family, int(seed), *rest))
    if way not in solves.WAYS:
        raise InputError(f"unknown way '{way}' in '{line}'; there are {', '.join(sorted(solves.WAYS))}")
    return judged(lambda: solves.run(family, int(seed), way, *rest))


def planned(families: Sequence[str], seeds: range, kinds: Sequence[str], quick: bool) -> list[str]:
    """The lines of all runs, those about one DAE together."""
    lines: list[str] = []
    for name, kind in (("solve", Kind(solves.run, solves.plan)), *KINDS.items()):
        if name in kinds:
            lines += kind.plan([family for family in families if family in kind.families], seeds, quick)
    return lines


def about_line(line: str) -> dict[str, str]:
    (family, _, *rest), kind = line.split(":"), kind_of(line)
    way, method = rest[:2] if kind == "solve" else (":".join(rest[1:]), "")
    return {"family": family, "kind": kind, "way": way, "method": method}


@runs(
    "truth",
    "line:U96 family:U24 kind:U12 way:U64 method:U32 outcome:U8 error steps:i8 solves:i8 seconds[s] "
    "message:U400 warned:U200",
    repeat=repeat,
    about=about_line,
    bad=BAD,
    here=1,
    example="--quick",
    options={
        "quick": Option("a small part of all runs"),
        "seeds": Option("DAEs of each family (2; 1 with --quick)"),
        "families": Option("families, separated by commas", flag="family", metavar="NAMES"),
        "only": Option("one run, or those whose lines begin so", metavar="LINE"),
        "chosen": Option(
            "the runs whose lines are in a file",
            flag="lines",
            metavar="FILE",
            read=lambda path: Path(path).read_text(encoding="utf-8").split(),
        ),
    },
)
def truth(
    lines: list[str],
    *,
    quick: bool = False,
    seed: int = 0,
    seeds: int | None = None,
    families: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    only: str | None = None,
    chosen: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Solve generated DAEs whose solutions are known, and count what comes back."""
    every = [*FAMILIES, *WRITTEN]
    for name in families or ():
        if name not in every:
            raise InputError(unknown("family", name, every))
    kinds = known_names("kind of run", kinds, ["solve", *KINDS])
    if only is not None and families is None and only.count(":") >= 2:
        head = only.split(":")
        families = [head[0]] if head[0] in every else None
        if head[1].isdigit():
            seed, seeds = int(head[1]), 1
    count = seeds if seeds is not None else 1 if quick else 2
    if chosen is None:
        chosen = planned(families or every, range(seed, seed + count), kinds, quick)
    if only is not None:
        chosen = [line for line in chosen if line == only or line.startswith(f"{only}:")] or [only]
    lines += chosen
    about = {"seed": seed, "seeds": count, "quick": quick}
    return about | {"families": list(families or every), "kinds": kinds}


@truth.reports
def report(result: Result) -> list[str]:
    data, about = result.data, result.parameters
    if len(data) == 1:
        message = data[0]["message"] or f"error {data[0]['error']:.2g} of what is allowed"
        return [f"{data[0]['outcome']} {data[0]['line']}", str(message)]
    totals = Counter(data["kind"].tolist())
    lines = [
        f"{len(data)} runs with {data['solves'].sum()} integrations in {about['elapsed']:.0f} s, "
        f"{data['seconds'].sum():.0f} s on processors, with {about['package']}: "
        + ", ".join(f"{number} {name}" for name, number in totals.items())
    ]
    solved, others = data[data["kind"] == "solve"], data[data["kind"] != "solve"]
    methods = [line.split(":")[3] for line in solved["line"].tolist()]
    classes = [next((name for name, heads in GROUPS if m.startswith(heads)), "manifold") for m in methods]
    lines += _table("solves", solved, np.array(classes))
    lines += _table("others", others, others["kind"])
    lines.append("")
    for outcome in OUTCOMES[1:]:
        rows = data[data["outcome"] == outcome]
        classes_of_messages = lines_by_message(rows)
        if classes_of_messages:
            lines.append(f"{outcome}: {len(rows)} runs, {len(classes_of_messages)} classes of messages")
        for text, those in list(classes_of_messages.items())[: 12 if outcome == REFUSED else None]:
            lines += [f"{len(those):6d}  {text}", f"        as {those[0]}"]
    noisy = data[data["warned"] != ""]
    if len(noisy):
        lines += ["", f"{len(noisy)} runs let a warning through that is none of dae_sdc, as"]
        shown = list(lines_by_message(noisy, "warned").items())[:8]
        lines += [f"{len(those):6d}  {text}" for text, those in shown]
    for kind in KINDS:
        lines += KINDS[kind].summary(data[data["kind"] == kind])
    return [*lines, *truth.bad_lines(result)]


def _table(title: str, part: NDArray[Any], keys: NDArray[Any]) -> Iterator[str]:
    if not len(part):
        return
    groups, present = [group for group, _ in GROUPS], sorted(set(keys.tolist()))
    names = ["all", *(name for name in groups if name in present)]
    names += [name for name in present if name not in groups]
    yield ""
    yield f"{title:20s}" + "".join(f"{name:>30s}" for name in names)
    yield f"{'':20s}" + f"{'done ref fail WRONG CRASH':>30s}" * len(names)
    for family in [*sorted(set(part["family"].tolist())), "all"]:
        of_family = (part["family"] == family) | (family == "all")
        cells = []
        for name in names:
            counts = Counter(part["outcome"][of_family & ((keys == name) | (name == "all"))].tolist())
            cells.append(" ".join(f"{counts[outcome]:5d}" for outcome in OUTCOMES).rjust(30))
        yield f"{family:20s}" + "".join(cells)
