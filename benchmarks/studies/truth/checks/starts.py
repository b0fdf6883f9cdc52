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
from benchmarks.measuring.outcomes import DONE, REFUSED, Finding
from benchmarks.studies.starts.chains import Chain
from benchmarks.studies.starts.generated import Given, outcome
from benchmarks.studies.truth.generated import KINDS, Kind, Vector
from benchmarks.studies.truth.solves import drawn, generate, model_of

VARIANTS = ("exact", "near", "fixed", "free", "impossible", "zero", "problem")
NEAR = 0.01  # Size of what is added to values of a consistent point
KEPT_BRANCH = 50.0 * NEAR  # Largest distance from guesses that are near a consistent point
PER_SEED = 2


def run(family: str, seed: int, variant: str) -> Finding:
    dae, chain = generate(family, seed), Chain(family, seed, mixed=False)
    rng = np.random.default_rng([seed, VARIANTS.index(variant), *family.encode()])
    near = chain.u + NEAR * rng.standard_normal(chain.n)

    def named(values: Vector) -> dict[str, float]:
        return dict(zip(chain.names, values.tolist(), strict=True))

    if variant == "problem":
        given = Given({}, named(near), branch=KEPT_BRANCH)
        return outcome(chain, given, lambda: ds.initial(dae.problem(True), u0=near))
    guesses, slopes = named(chain.u), chain.slopes(chain.u)
    given = Given({}, guesses, unique=True)
    if variant == "near":
        given = Given({}, named(near), branch=KEPT_BRANCH)
    elif variant == "zero":
        given = Given({}, named(np.zeros(chain.n)))
    elif variant == "fixed":
        j = int(rng.integers(chain.n))
        rest, name = np.delete(slopes, j, axis=1), chain.names[j]
        free = (np.linalg.matrix_rank(rest, tol=1e-6) if rest.size else 0) == len(slopes)
        given = Given({name: float(chain.u[j] + 5.0 * NEAR)}, guesses, against="" if free else name)
    elif variant == "free":
        given = Given({chain.names[j]: float(near[j]) for j in _independent(slopes, chain.dof, rng)}, guesses)
    elif variant == "impossible":
        if not len(slopes):
            return Finding(DONE, "no constraints")
        # All values are fixed, and one constraint or more is violated.
        wrong = named(chain.u + 5.0 * NEAR * slopes[int(rng.integers(len(slopes)))])
        given = Given(wrong, guesses, against=chain.names[0])
    given.guesses = {name: value for name, value in given.guesses.items() if name not in given.held}
    model = model_of(dae)
    start = outcome(chain, given, lambda: ds.initial(model, fixed=given.held or None, guesses=given.guesses))
    if start.outcome == REFUSED:
        return replace(start, outcome=DONE, message=f"told: {start.message}")
    return start


def _independent(slopes: Vector, count: int, rng: np.random.Generator) -> list[int]:
    """Unknowns whose values may be chosen together: without their columns the rank is still full."""
    chosen: list[int] = []
    for j in rng.permutation(slopes.shape[1]).tolist():
        rest = np.delete(slopes, [*chosen, j], axis=1)
        least = np.linalg.svd(rest, compute_uv=False).min(initial=np.inf) if len(slopes) else np.inf
        if len(chosen) < count and rest.shape[1] >= len(slopes) and least > 0.1:
            chosen.append(j)
    return chosen


def plan(families: list[str], seeds: range, quick: bool) -> Iterator[str]:
    for family, seed, given in drawn(families, seeds, quick, PER_SEED):
        variants: tuple[str, ...] = VARIANTS if not quick else ("near", "fixed", "impossible")
        variants = () if given.constraints is None else variants
        yield from (f"{family}:{seed}:initial:{variant}" for variant in variants)


KINDS.add("initial", Kind(run, plan))
