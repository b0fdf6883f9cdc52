"""DAEs as engineers write them, a function and a start, held to the tolerance in every unknown.

A family makes a function F(t, u, u'), a start and a reference for its solution; the function is solved with
defaults, read as equations or called as it is, and by other methods.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import BAD, DONE, REFUSED, WRONG, Finding, done_of
from benchmarks.studies.truth.draw import Vector
from benchmarks.studies.truth.generated import KINDS, Kind
from benchmarks.studies.truth.solves import MARGIN, PATIENCE, right_or_wrong, rtol_of, unfinished
from dae_sdc.errors import DAEWarning, InputError
from dae_sdc.registry import Registry

Reference = Callable[[Vector], Vector]  # Values of all unknowns, shape (K, n), at times of shape (K,)
TOLD = "told"  # With which messages begin of wrong numbers whose unknowns the run named as less accurate
# What a remark has that names unknowns as less accurate; others name those whose starts were moved
LESS_ACCURATE = "errors up to"
OUTPUTS = 131  # Times of output between steps
QUICK = 4  # Variants of each family in the small part of all runs


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


@dataclass(frozen=True)
class WrittenFamily:
    make: Callable[[int, str], Written]  # make(seed, variant) -> Written
    variants: tuple[str, ...]  # What each seed makes one DAE of
    per_seed: int = 1  # Seeds of the family for each of the study's
    tolerances: tuple[float, ...] = (1e-4, 1e-6, 1e-8)  # Tolerances that each DAE is solved to
    ways: tuple[str, ...] = ("traced", "untraced", "between")  # Ways in which each DAE is solved


# Every family of written DAEs by its name
WRITTEN: Registry[WrittenFamily] = Registry("family", "benchmarks.studies.truth.families")


def held(
    solution: Any, exact: Vector, rtol: float, *, scale: Vector | float = 1.0, slack: Vector | float = 0.0
) -> tuple[Finding, Any]:
    """Hold a solution against 100 rtol (1 + |u|) in every unknown at every time; which unknowns are off."""
    # Shapes: exact (K, n), scale (n,), slack (K, n).
    error = solution.u - exact
    ratio = np.abs(error) / (MARGIN * rtol * (scale + np.abs(exact)) + slack)
    return right_or_wrong(solution, solution.names, error, ratio, ".3g"), ~(ratio <= 1.0).all(axis=0)


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
    finding, off = held(solution, reference(solution.t), rtol, scale=scale, slack=allowance)
    if finding.outcome != WRONG:
        return finding
    remarks = "; ".join(filter(None, [*doubts, solution.message])).split("; ")
    said = "; ".join(remark for remark in remarks if LESS_ACCURATE in remark)
    names = (re.escape(solution.names[j]) for j in np.flatnonzero(off))
    if all(re.search(rf"(?<![\w.]){name}(?!\w)", said) for name in names):
        return replace(finding, outcome=REFUSED, message=f"{TOLD}, {finding.message}; {'; '.join(doubts)}")
    return replace(finding, message="; ".join([finding.message, *doubts]))


@lru_cache(maxsize=4)
def written(family: str, seed: int, variant: str) -> Written:
    variants = WRITTEN[family].variants
    if variant not in variants:
        raise InputError(f"unknown variant '{variant}' of '{family}'; there are {', '.join(variants)}")
    return WRITTEN[family].make(seed, variant)


def run(family: str, seed: int, variant: str, way: str, size: str) -> Finding:
    if way not in WAYS:
        raise InputError(f"unknown way '{way}' of '{family}'; there are {', '.join(WAYS)}")
    dae = written(family, seed, variant)
    options: dict[str, Any] = {"rtol": rtol_of(size), "slack": dae.slack, **WAYS[way](dae)}
    return solved(dae.function, dae.reference, end=dae.end, u0=dae.start, **options)


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    for name in families:
        family = WRITTEN[name]
        times, ways, tolerances = family.per_seed, family.ways, family.tolerances
        if quick:
            times, ways, tolerances = 1, ways[:2], tolerances[1:2]
        for seed in range(seeds.start * times, seeds.stop * times):
            rng = np.random.default_rng([seed, 19, *name.encode()])
            some = rng.choice(family.variants, QUICK, replace=False) if quick else family.variants
            for variant, way, rtol in product(some, ways, tolerances):
                yield f"{name}:{seed}:written:{variant}:{way}:rtol={rtol:g}"


def summary(rows: Any) -> list[str]:
    lines = []
    for family, way in product(sorted(set(rows["family"].tolist())), WAYS):
        part = [row for row in rows[rows["family"] == family] if f":{way}:" in str(row["line"])]
        if not part:
            continue
        bad = sum(row["outcome"] in BAD for row in part)
        lost = Counter(str(row["line"]).split(":")[3] for row in part if row["outcome"] != DONE)
        most = ", ".join(f"{name} {number}" for name, number in lost.most_common(8))
        told = f"; not done: {most}" if lost else ""
        lines.append(f"{family}, {way}: {done_of(part)}, {bad} bad{told}")
    return ["", *lines] if lines else []


KINDS.add("written", Kind(run, plan, summary, WRITTEN))
