"""Consistent starts of one DAE: fixed values kept, hidden constraints met, the impossible refused.

They are those of the study ``starts``, under the names of this kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measuring.outcomes import Finding
from benchmarks.studies.starts import generated
from benchmarks.studies.truth.kinds import KINDS, Kind
from benchmarks.studies.truth.solves import drawn

# Form, what is held, and guesses
VARIANTS = {
    **{"exact": ("model", generated.NOTHING, "true"), "near": ("model", generated.NOTHING, "near")},
    **{"fixed": ("model", generated.LEAVES, "true"), "free": ("model", generated.DETERMINES, "near")},
    "impossible": ("model", generated.CONTRADICTS, "true"),
    **{"zero": ("model", generated.NOTHING, "none"), "problem": ("class", generated.NOTHING, "near")},
}
PER_SEED = 2


def run(family: str, seed: int, variant: str) -> Finding:
    """One start."""
    return generated.run(family, seed, *VARIANTS[variant], False)


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    """Lines of all runs."""
    for family, seed, given in drawn(families, seeds, quick, PER_SEED):
        if given.constraints is not None:
            variants = VARIANTS if not quick else ("near", "fixed", "impossible")
            yield from (f"{family}:{seed}:initial:{variant}" for variant in variants)


KINDS.add("initial", Kind(run, plan))
