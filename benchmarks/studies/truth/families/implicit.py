"""Fully implicit nonlinear DAEs of index 1: F(t, u, u') with a singular dF/du' in scrambled unknowns.

w = Q u has parts v and z with D(v', v, z) = 0, nonlinear in v', and G(v, z) = 0; the rows are mixed by a
regular matrix P. dD/dv' = I + B diag(bounded) with small B, and dG/dz is near an orthogonal matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.studies.truth.families.hessenberg import nonlinear, small
from benchmarks.studies.truth.generated import FAMILIES, NUMBERS, Generated
from benchmarks.studies.truth.random_parts import damped, identity, rotation, signals, well_conditioned


@FAMILIES.register("implicit-1")
def _implicit(seed: int) -> Generated:
    rng = np.random.default_rng([seed, 1, 4])
    p, m = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    n = p + m
    P = well_conditioned(rng, n)
    full = bool(rng.random() < 0.7)
    Q = well_conditioned(rng, n) if full else identity(n)
    J, K, G = damped(rng, p), small(rng, p, m, 0.5), rotation(rng, m)
    own, rest, bound = nonlinear(rng, p, p), nonlinear(rng, p, n), nonlinear(rng, m, n)
    solution = signals(rng, n)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        w, slope = functions.matrix(Q) @ u, (functions.matrix(Q) @ du)[:p]
        v, z = w[:p], w[p:]
        motion = slope + own(slope, functions) - functions.matrix(J) @ v - functions.matrix(K) @ z
        motion = motion - rest(w, functions)
        below = functions.matrix(G) @ z + bound(w, functions)
        return functions.matrix(P) @ functions.stack([motion, below])

    inverse = np.linalg.inv(np.asarray(P, dtype=float))

    def constraints(u: Any, t: float) -> Any:
        nothing = np.zeros(n)
        rows = terms(np.asarray(u), nothing, t, NUMBERS) - terms(solution(t), nothing, t, NUMBERS)
        return (inverse @ rows)[p:]

    n_diff = n if full else p
    return Generated(
        "implicit-1", seed, terms, solution, n_diff, 1, (1,) * n, p, constraints=constraints, orders="one"
    )
