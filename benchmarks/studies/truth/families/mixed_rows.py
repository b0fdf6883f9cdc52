"""Equations of index 2 whose rows are mixed by a matrix that depends on the unknowns.

P(u) (x' - z - f(x, y), y' + z y - g(x, y), x y - h(t)) = 0 with P(u) = (I + L(u)) (I + R(u)), in which L(u)
is strictly lower and R(u) strictly upper, so that P has determinant 1. Away from the solution dF/du has P'(u)
times the residual besides, which says nothing of the DAE.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.studies.truth.families.hessenberg import nonlinear, small
from benchmarks.studies.truth.generated import FAMILIES, NUMBERS, Generated
from benchmarks.studies.truth.random_parts import identity, signal
from benchmarks.studies.truth.signals import Signals, wave


@FAMILIES.register("mixed-rows")
def _mixed_rows(seed: int) -> Generated:
    rng = np.random.default_rng([seed, 2, 10])
    f, g = nonlinear(rng, 1, 2), nonlinear(rng, 1, 2)
    # The hidden constraint determines z by y (1 - x), which stays away from 0.
    x, y = (wave(0, middle) + signal(rng) * wave(0, Fraction(1, 2)) for middle in (3, 2))
    solution = Signals([x, y, signal(rng)])
    slope = solution.derivative()
    unit, below, above = identity(3), small(rng, 3, 3, 0.8), small(rng, 3, 3, 0.8)
    lower, upper = np.tril(below, -1), np.triu(above, 1)
    constant = bool(rng.random() < 0.2)

    def motion(u: Any, functions: Any) -> Any:
        force = functions.stack([f(u[:2], functions), g(u[:2], functions)])
        return functions.stack([u[2:], -u[2:] * u[1:2]]) + force

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        return functions.stack([du[:2] - motion(u, functions), u[:1] * u[1:2]])

    def mix(rows: Any, u: Any, t: Any, functions: Any) -> Any:
        left, right = functions.matrix(lower), functions.matrix(upper)
        if not constant:
            left, right = left * functions.sin(u), right * functions.cos(u)
        half = (functions.matrix(unit) + right) @ rows
        return (functions.matrix(unit) + left) @ half

    def constraints(u: Any, t: float) -> Any:
        u, exact, rate = np.asarray(u), solution(t), slope(t)
        moves = motion(u, NUMBERS) - motion(exact, NUMBERS) + rate[:2]
        hidden = u[1] * moves[0] + u[0] * moves[1] - exact[1] * rate[0] - exact[0] * rate[1]
        return np.array([u[0] * u[1] - exact[0] * exact[1], hidden])

    return Generated(
        "mixed-rows", seed, terms, solution, 2, 2, (1, 1, 2), 1, mix=mix, constraints=constraints
    )
