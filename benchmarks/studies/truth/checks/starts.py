"""Consistent starts: fixed values kept, hidden constraints met, the branch kept, the impossible refused.

Families know all constraints c(u, t) = 0, hidden ones too. Whether a fixed value can be had is known from the
rank of dc/du: it can where the other columns alone have full row rank, and it cannot, near the solution,
where the unknown is bound by constraints alone. Starts are judged as those of the study ``starts`` are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import DONE, REFUSED, Finding
from benchmarks.studies.starts.generated import Chain, Given, outcome
from benchmarks.studies.truth.draw import Generator, Vector
from benchmarks.studies.truth.generated import KINDS, Kind
from benchmarks.studies.truth.solves import drawn, generate, model_of

VARIANTS = ("exact", "near", "fixed", "free", "impossible", "zero", "problem")
NEAR = 0.01  # Size of what is added to values of a consistent point
KEPT_BRANCH = 50.0 * NEAR  # Largest distance from guesses that are near a consistent point
PER_SEED = 2


def run(family: str, seed: int, variant: str) -> Finding:
    dae, chain = generate(family, seed), Chain(family, seed, mixed=False)
    rng = np.random.default_rng([seed, VARIANTS.index(variant), *family.encode()])
    near = chain.u + NEAR * rng.standard_normal(chain.n)
    if variant in ("near", "problem"):
        given = Given({}, chain.by_name(near), branch=KEPT_BRANCH)
    elif variant == "zero":
        given = Given({}, chain.by_name(np.zeros(chain.n)))
    else:
        given = _held(chain, variant, near, rng)
    if variant == "impossible" and not given.held:
        return Finding(DONE, "no constraints")

    def ask() -> ds.Initial:
        if variant == "problem":
            return ds.initial(dae.problem(True), u0=near)
        return ds.initial(model_of(dae), fixed=given.held or None, guesses=given.guesses)

    start = outcome(chain, given, ask)
    if start.outcome == REFUSED:
        return replace(start, outcome=DONE, message=f"told: {start.message}")
    return start


def _held(chain: Chain, variant: str, near: Vector, rng: Generator) -> Given:
    """The solution, with values that are held besides those that are guessed."""
    held, against, slopes = {}, "", chain.slopes(chain.u)
    if variant == "fixed":
        j = int(rng.integers(chain.n))
        rest, name = np.delete(slopes, j, axis=1), chain.names[j]
        free = (np.linalg.matrix_rank(rest, tol=1e-6) if rest.size else 0) == len(slopes)
        held, against = {name: float(chain.u[j] + 5.0 * NEAR)}, "" if free else name
    elif variant == "free":
        # Their values may be chosen together: without their columns the rank is still full.
        for j in rng.permutation(chain.n).tolist():
            rest = np.delete(slopes, [*map(chain.names.index, held), j], axis=1)
            least = np.linalg.svd(rest, compute_uv=False).min(initial=np.inf) if len(slopes) else np.inf
            if len(held) < chain.dof and rest.shape[1] >= len(slopes) and least > 0.1:
                held[chain.names[j]] = float(near[j])
    elif variant == "impossible" and len(slopes):
        # All values are fixed, and one constraint or more is violated.
        held = chain.by_name(chain.u + 5.0 * NEAR * slopes[int(rng.integers(len(slopes)))])
        against = chain.names[0]
    guesses = {name: value for name, value in chain.by_name(chain.u).items() if name not in held}
    return Given(held, guesses, unique=variant == "exact", against=against)


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    for family, seed, _ in drawn(families, seeds, quick, PER_SEED):
        variants = ("near", "fixed", "impossible") if quick else VARIANTS
        yield from (f"{family}:{seed}:initial:{variant}" for variant in variants)


KINDS.add("initial", Kind(run, plan))
