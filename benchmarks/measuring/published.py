"""Published figures of the Test Set for IVP Solvers: work and digits of codes on its problems."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple


class PublishedRun(NamedTuple):
    """Work of one published run.

    Parameters
    ----------
    solver : str
        Name of the code.
    rtol, atol : float
        Its tolerances.
    steps, failed : int
        All steps, and those of them that were rejected.
    fev, jac : int
        Evaluations of residual and Jacobian.
    lu : int or None
        Factorisations; None where not printed.
    scd : float or None
        Significant correct digits at the end; None where not printed or without meaning.
    reported_failure : bool
        Whether the code said that it failed on its way.
    formulation : int or None
        Index of the formulation, where a problem has several.
    """

    solver: str
    rtol: float
    atol: float
    steps: int
    failed: int
    fev: int
    jac: int
    lu: int | None
    scd: float | None
    reported_failure: bool = False
    formulation: int | None = None


class Published(NamedTuple):
    """Published figures of a problem.

    Parameters
    ----------
    source : str
        Where the ladder was printed.
    note : str
        What to know when its scores are compared with those of :func:`~dae_sdc.problems._testset.scd`.
    ladder : tuple of PublishedRun
        Runs of one code at a row of tolerances.
    reference_runs : tuple of PublishedRun
        Runs that made the official reference value.
    """

    source: str
    note: str
    ladder: tuple[PublishedRun, ...]
    reference_runs: tuple[PublishedRun, ...]


@functools.cache
def _stored() -> dict[str, dict[str, Any]]:
    content = Path(__file__).with_name("testset_published.json").read_text(encoding="utf-8")
    stored: dict[str, dict[str, Any]] = json.loads(content)
    return stored


def published(name: str) -> Published:
    """Published figures of the problem registered as ``name``; without runs where none are known."""
    stored = _stored().get(name)
    if stored is None:
        return Published("", "", (), ())
    return Published(
        stored["source"],
        stored["note"],
        tuple(PublishedRun(**row) for row in stored["ladder"]),
        tuple(PublishedRun(**row) for row in stored["reference_runs"]),
    )
