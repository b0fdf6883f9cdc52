"""DAEs as engineers write them: square waves, circuits, mechanisms, held to the tolerance in every unknown.

A family makes a function F(t, u, u'), a start and a reference; the function is solved with defaults, read as
equations or called as it is, and by other methods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.measuring.outcomes import BAD, DONE, Finding, done_of
from benchmarks.studies.truth.generated import KINDS, Kind
from benchmarks.studies.truth.written import WAYS, WRITTEN, Written, solved
from dae_sdc.errors import InputError

QUICK = 4  # Variants of each family in the small part of all runs


@lru_cache(maxsize=4)
def written(family: str, seed: int, variant: str) -> Written:
    known = WRITTEN[family]
    if variant not in known.variants:
        raise InputError(f"unknown variant '{variant}' of '{family}'; there are {', '.join(known.variants)}")
    return known.make(seed, variant)


def run(family: str, seed: int, variant: str, way: str, size: str) -> Finding:
    if way not in WAYS:
        raise InputError(f"unknown way '{way}' of '{family}'; there are {', '.join(WAYS)}")
    dae, rtol = written(family, seed, variant), float(size.removeprefix("rtol="))
    options: dict[str, Any] = {"rtol": rtol, "slack": dae.slack, **WAYS[way](dae)}
    return solved(dae.function, dae.reference, end=dae.end, u0=dae.start, **options)


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    for family in families:
        known = WRITTEN[family]
        times = 1 if quick else known.per_seed
        for seed in range(seeds.start * times, seeds.stop * times):
            rng = np.random.default_rng([seed, 19, *family.encode()])
            some = rng.choice(known.variants, QUICK, replace=False) if quick else known.variants
            for variant in some:
                for way in known.ways[:2] if quick else known.ways:
                    for rtol in known.tolerances[1:2] if quick else known.tolerances:
                        yield f"{family}:{seed}:written:{variant}:{way}:rtol={rtol:g}"


def summary(rows: Any) -> list[str]:
    """What was done of each family, and in which variants something was not."""
    lines = []
    for family in sorted(set(rows["family"].tolist())):
        own = rows[rows["family"] == family]
        for way in WAYS:
            part = [row for row in own if f":{way}:" in str(row["line"])]
            if not part:
                continue
            bad = sum(row["outcome"] in BAD for row in part)
            lost = Counter(str(row["line"]).split(":")[3] for row in part if row["outcome"] != DONE)
            most = ", ".join(f"{name} {number}" for name, number in lost.most_common(8))
            told = f"; not done: {most}" if lost else ""
            lines.append(f"{family}, {way}: {done_of(part)}, {bad} bad{told}")
    return ["", *lines] if lines else []


KINDS.add("written", Kind(run, plan, summary, WRITTEN))
