"""Kinds of runs besides solves: structure, initialisation, events, units, plain functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.measuring.outcomes import DONE, Finding
from benchmarks.studies.truth.generated import FAMILIES
from dae_sdc.registry import Registry


def done_of(rows: Collection[Any]) -> str:
    """How many runs of some are done."""
    done = sum(row["outcome"] == DONE for row in rows)
    return f"{done} of {len(rows)} done ({done / len(rows):.1%})"


def nothing(rows: Any) -> list[str]:
    return []


@dataclass(frozen=True)
class Kind:
    run: Callable[..., Finding]  # run(family, seed, *rest of the line) -> Finding
    plan: Callable[[list[str], range, bool], Iterable[str]]  # plan(families, seeds, quick) -> lines
    summary: Callable[[Any], list[str]] = nothing  # summary(rows) -> lines of the report
    families: Registry[Any] = FAMILIES  # The families that it takes


# Every kind by its name, which stands third in its lines
KINDS: Registry[Kind] = Registry("kind", "benchmarks.studies.truth.checks")
