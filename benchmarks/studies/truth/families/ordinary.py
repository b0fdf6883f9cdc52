"""Ordinary differential equations u' = f(t, u), index 0, for the methods that take no others."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.studies.truth.families.hessenberg import nonlinear
from benchmarks.studies.truth.generated import FAMILIES, Generated
from benchmarks.studies.truth.random_parts import damped, signals


@FAMILIES.register("ordinary")
def _ordinary(seed: int) -> Generated:
    rng = np.random.default_rng([seed, 0, 5])
    n = int(rng.integers(1, 5))
    J, f = damped(rng, n), nonlinear(rng, n, n)
    solution = signals(rng, n)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        return du - functions.matrix(J) @ u - f(u, functions)

    def constraints(u: Any, t: float) -> Any:
        return np.zeros(0, dtype=np.asarray(u).dtype)

    return Generated("ordinary", seed, terms, solution, n, 0, (1,) * n, n, constraints=constraints)
