"""Mechanical systems with manufactured motions and multipliers, in three formulations.

M(q) q'' = f(q, q') - G(q)^T lambda + r(t), g(q) = h(q) - h(q_e(t)) = 0 with G = dh/dq. Index 3: as it stands.
Index 2: G v = d/dt h(q_e) in the place of the constraint. GGL: both, with q' = v - G^T mu; mu is 0.

M = M_0 + small diag(sin q) is positive definite, and the rows of G are near those of an orthogonal matrix.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.studies.truth.families.hessenberg import derivative, nonlinear, small
from benchmarks.studies.truth.generated import FAMILIES, NUMBERS, Generated
from benchmarks.studies.truth.random_parts import damped, decimal, rotation, signals
from benchmarks.studies.truth.signals import Signals, Trig


def _mechanics(formulation: str, seed: int) -> Generated:
    rng = np.random.default_rng([seed, 3, 6])
    m = int(rng.integers(1, 3))
    p = m + int(rng.integers(0 if m > 1 else 1, 3))
    U, D, S = rotation(rng, p)[:m], damped(rng, p), damped(rng, p)
    B, C = small(rng, m, p, 0.2), small(rng, p, p, 0.5)
    masses = np.array([decimal(rng, 0.8, 1.6, 1) for _ in range(p)], dtype=object)
    bend = np.array([decimal(rng, 0.05, 0.2)], dtype=object)
    f = nonlinear(rng, p, 2 * p)
    q, force = signals(rng, p), signals(rng, m)
    motion = q.derivative()
    second = [Signals([Trig()] * m)] if formulation == "ggl" else []
    solution = Signals.joined([q, motion, force, *second])

    def split(u: Any) -> Any:
        return u[:p], u[p : 2 * p], u[2 * p : 2 * p + m], u[2 * p + m :]

    def length(place: Any, functions: Any) -> Any:
        return functions.matrix(U) @ place + functions.matrix(B) @ functions.sin(functions.matrix(C) @ place)

    def gradient(place: Any, functions: Any) -> Any:
        inner = functions.cos(functions.matrix(C) @ place)
        return functions.matrix(U) + (functions.matrix(B) * inner) @ functions.matrix(C)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        place, speed, multiplier, other = split(u)
        G = gradient(place, functions)
        inertia = functions.matrix(masses) + functions.matrix(bend) * functions.sin(place)
        kinematic = du[:p] - speed + (G.T @ other if formulation == "ggl" else 0)
        pull = functions.matrix(D) @ speed + functions.matrix(S) @ place + f(u[: 2 * p], functions)
        dynamic = inertia * du[p : 2 * p] - pull + G.T @ multiplier
        rows = [kinematic, dynamic]
        if formulation != "index-2":
            rows.append(length(place, functions))
        if formulation != "index-3":
            rows.append(G @ speed)
        return functions.stack(rows)

    def constraints(u: Any, t: float) -> Any:
        u = np.asarray(u)
        exact, slope = solution(t), solution.derivative()(t)

        def acceleration(state: Any) -> Any:
            place, speed, multiplier, _ = split(state)
            G = gradient(place, NUMBERS)
            inertia = np.asarray(masses, dtype=float) + float(bend[0]) * np.sin(place)
            pull = np.asarray(D, dtype=float) @ speed + np.asarray(S, dtype=float) @ place
            own = pull + f(state[: 2 * p], NUMBERS) - G.T @ multiplier
            return own, inertia

        of_exact, heavy = acceleration(exact)
        rest = heavy * slope[p : 2 * p] - of_exact
        own, inertia = acceleration(u)

        def rate(state: Any) -> Any:
            return gradient(state[:p], NUMBERS) @ state[p : 2 * p]

        def second_rate(state: Any, moves: Any) -> Any:
            both = np.concatenate([state[:p], state[p : 2 * p]])
            return derivative(rate, both) @ moves

        place, speed, _, other = split(u)
        moves = np.concatenate([speed, (own + rest) / inertia])
        hidden = second_rate(u, moves) - second_rate(exact, slope[: 2 * p])
        rows = [rate(u) - rate(exact), hidden]
        if formulation != "index-2":
            rows.insert(0, length(place, NUMBERS) - length(exact[:p], NUMBERS))
        if formulation == "ggl":
            rows.append(other)
        return np.concatenate(rows)

    index = 3 if formulation == "index-3" else 2
    indices = (1,) * p + ((2,) * p + (3,) * m if index == 3 else (1,) * p + (2,) * m + (2,) * m * len(second))
    dof = 2 * p - m if formulation == "index-2" else 2 * (p - m)
    return Generated(
        f"mechanics-{formulation}", seed, terms, solution, 2 * p, index, indices, dof, constraints=constraints
    )


for _formulation in ("index-3", "index-2", "ggl"):
    FAMILIES.add(f"mechanics-{_formulation}", partial(_mechanics, _formulation))
