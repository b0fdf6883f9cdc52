"""Published figures of the Test Set for IVP Solvers: work and digits of codes on its problems."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple


class PublishedRun(NamedTuple):
    """Work of one published run."""

    solver: str  # Name of the code
    # rtol, atol: its tolerances
    rtol: float
    atol: float
    # steps, failed: all steps, and those of them that were rejected
    steps: int
    failed: int
    # fev, jac: evaluations of residual and Jacobian
    fev: int
    jac: int
    lu: int | None  # Factorisations; None where not printed
    scd: float | None  # Significant correct digits at the end; None where not printed or without meaning
    reported_failure: bool = False  # Whether the code said that it failed on its way
    formulation: int | None = None  # Index of the formulation, where a problem has several


class Published(NamedTuple):
    """Published figures of a problem."""

    source: str  # Where the ladder was printed
    note: str  # What to know when its scores are compared with those of dae_sdc.problems._library.scd
    ladder: tuple[PublishedRun, ...]  # Runs of one code at a row of tolerances
    reference_runs: tuple[PublishedRun, ...]  # Runs that made the official reference value


@functools.cache
def _stored() -> dict[str, dict[str, Any]]:
    content = Path(__file__).with_name("testset_published.json").read_text(encoding="utf-8")
    stored: dict[str, dict[str, Any]] = json.loads(content)
    return stored


def published(name: str) -> Published:
    """Published figures of the problem registered as ``name``; without runs where none are known."""
    figures: dict[str, Any] = {"source": "", "note": "", **_stored().get(name, {})}
    for part in ("ladder", "reference_runs"):
        figures[part] = tuple(PublishedRun(**row) for row in figures.get(part, ()))
    return Published(**figures)
