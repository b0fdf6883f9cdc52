"""DAEs as engineers write them, a function and a start, with a reference for its solution, and its judge."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.outcomes import REFUSED, WRONG, Finding
from benchmarks.studies.truth.generated import Vector
from benchmarks.studies.truth.solves import MARGIN, PATIENCE, right_or_wrong, unfinished
from dae_sdc.errors import DAEWarning
from dae_sdc.registry import Registry

Reference = Callable[[Vector], Vector]  # Values of all unknowns, shape (K, n), at times of shape (K,)
TOLD = "told"  # With which messages begin of wrong numbers whose unknowns the run named as less accurate
# What a remark has that names unknowns as less accurate; others name those whose starts were moved
LESS_ACCURATE = "errors up to"
OUTPUTS = 131  # Times of output between steps


@dataclass(frozen=True, eq=False)
class Written:
    """Equations F(t, u, u') = 0 of a function, and the solution that they have."""

    function: Callable[[Any, Any, Any], Any]  # F(t, u, du)
    start: dict[str, float]  # Values of all unknowns by name, as they are given to ds.solve
    end: float  # Time at which the run ends; it starts at 0
    reference: Reference  # The solution, exact or of a second method
    # What the start leaves open of the solution, shape (K, n) at times of shape (K,): added to what the
    # tolerance allows
    slack: Reference | None = None


# What ds.solve is told besides: nothing, so that it reads it; to call it; times of output; a method
WAYS: Mapping[str, Callable[[Written], Mapping[str, Any]]] = {
    "traced": lambda dae: {},
    "untraced": lambda dae: {"trace": False},
    "between": lambda dae: {"t_eval": np.linspace(0.0, dae.end, OUTPUTS)},
    "nodes-3": lambda dae: {"nodes": 3},
    "ida": lambda dae: {"sweeper": "ida"},
}

BY_DEFAULT = ("traced", "untraced", "between")  # The ways by the default method


@dataclass(frozen=True)
class WrittenFamily:
    """A family of written DAEs."""

    make: Callable[[int, str], Written]  # make(seed, variant) -> Written
    variants: tuple[str, ...]  # What each seed makes one DAE of
    per_seed: int = 1  # Seeds of the family for each of the study's
    tolerances: tuple[float, ...] = (1e-4, 1e-6, 1e-8)  # Tolerances that each DAE is solved to
    ways: tuple[str, ...] = BY_DEFAULT  # Ways in which each DAE is solved


# Every family of written DAEs by its name
WRITTEN: Registry[WrittenFamily] = Registry("family", "benchmarks.studies.truth.families")


def held(
    solution: Any, exact: Vector, rtol: float, *, scale: Vector | float = 1.0, slack: Vector | float = 0.0
) -> Finding:
    """Hold a solution against 100 rtol (1 + |u|) in every unknown at every time, whatever its index."""
    # Shapes: exact (K, n), scale (n,), slack (K, n).
    ratio = ratios(solution, exact, rtol, scale, slack)
    return right_or_wrong(solution, solution.names, solution.u - exact, ratio, ".3g")


def ratios(solution: Any, exact: Vector, rtol: float, scale: Vector | float, slack: Vector | float) -> Vector:
    """Errors of all unknowns at all times in units of what is allowed, infinite where they are no numbers."""
    allowed = MARGIN * rtol * (scale + np.abs(exact)) + slack
    ratio = np.abs(solution.u - exact) / allowed
    return np.where(np.isfinite(ratio), ratio, np.inf)


def solved(
    equations: Any,
    reference: Reference,
    *,
    end: float,
    rtol: float,
    scale: Vector | float = 1.0,
    slack: Reference | None = None,
    **options: Any,
) -> Finding:
    """What comes of a run to a tolerance."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = ds.solve(equations, t_end=end, rtol=rtol, time_limit=PATIENCE, **options)
    doubts = [str(warning.message) for warning in caught if issubclass(warning.category, DAEWarning)]
    for warning in caught:
        if not issubclass(warning.category, DAEWarning):
            warnings.warn(warning.message, stacklevel=2)
    if lost := unfinished(solution, end, 1e-12 * abs(end)):
        return lost
    allowance = 0.0 if slack is None else slack(solution.t)
    exact = reference(solution.t)
    finding = held(solution, exact, rtol, scale=scale, slack=allowance)
    if finding.outcome != WRONG:
        return finding
    remarks = "; ".join(filter(None, [*doubts, solution.message])).split("; ")
    said = "; ".join(remark for remark in remarks if LESS_ACCURATE in remark)
    wrong = (ratios(solution, exact, rtol, scale, allowance) > 1.0).any(axis=0)
    if all(names_unknown(said, solution.names[j]) for j in np.flatnonzero(wrong)):
        return replace(finding, outcome=REFUSED, message=f"{TOLD}, {finding.message}; {'; '.join(doubts)}")
    return replace(finding, message="; ".join([finding.message, *doubts]))


def names_unknown(said: str, name: str) -> bool:
    """Whether a text has the name of an unknown as a word."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", said) is not None
