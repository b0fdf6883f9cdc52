"""Kinds of runs besides solves: structure, initialisation, events, units, plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.measuring.outcomes import Finding
from benchmarks.studies.truth.generated import FAMILIES
from dae_sdc.registry import Registry


def nothing(rows: Any) -> list[str]:
    """No summary but the tables."""
    return []


@dataclass(frozen=True)
class Kind:
    """A kind of runs.

    Parameters
    ----------
    run : callable
        run(family, seed, *rest of the line) -> Finding.
    plan : callable
        plan(families, seeds, quick) -> lines.
    summary : callable
        summary(rows) -> lines of the report.
    families : Registry
        The families that it takes.
    """

    run: Callable[..., Finding]
    plan: Callable[[list[str], range, bool], Iterable[str]]
    summary: Callable[[Any], list[str]] = nothing
    families: Registry[Any] = FAMILIES


KINDS: Registry[Kind] = Registry("kind", "benchmarks.studies.truth.checks")
"""Every kind by its name, which stands third in its lines."""
