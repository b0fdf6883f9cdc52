"""Mechanical systems with manufactured motions and multipliers, in three formulations.

M(q) q'' = f(q, q') - G(q)^T lambda + r(t), g(q) = h(q) - h(q_e(t)) = 0 with G = dh/dq. Index 3: as it stands.
Index 2: G v = d/dt h(q_e) in the place of the constraint. GGL: both, with q' = v - G^T mu; mu is 0.

M = M_0 + small diag(sin q) is positive definite, and the rows of G are near those of an orthogonal matrix.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.studies.truth import draw
from benchmarks.studies.truth.generated import Generated, constraints_of, family
from benchmarks.studies.truth.signals import Signals, Trig


def mechanics(formulation: str, rng: draw.Generator) -> Generated:
    m = int(rng.integers(1, 3))
    p = m + int(rng.integers(0 if m > 1 else 1, 3))
    U, D, S = draw.rotation(rng, p)[:m], draw.damped(rng, p), draw.damped(rng, p)
    B, C = draw.small(rng, m, p, 0.2), draw.small(rng, p, p, 0.5)
    masses = np.array([draw.decimal(rng, 0.8, 1.6, 1) for _ in range(p)], dtype=object)
    bend = np.array([draw.decimal(rng, 0.05, 0.2)], dtype=object)
    f = draw.nonlinear(rng, p, 2 * p)
    q, force = draw.signals(rng, p), draw.signals(rng, m)
    ggl = formulation == "ggl"
    solution = Signals.joined([q, q.derivative(), force, *[Signals([Trig()] * m)] * ggl])

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        place, speed, multiplier, other = u[:p], u[p : 2 * p], u[2 * p : 2 * p + m], u[2 * p + m :]
        matrix, inner = functions.matrix, functions.matrix(C) @ place
        G = matrix(U) + (matrix(B) * functions.cos(inner)) @ matrix(C)
        kinematic = du[:p] - speed + (G.T @ other if ggl else 0)
        pull = matrix(D) @ speed + matrix(S) @ place + f(u[: 2 * p], functions)
        inertia = matrix(masses) + matrix(bend) * functions.sin(place)
        rows = [kinematic, inertia * du[p : 2 * p] - pull + G.T @ multiplier]
        if formulation != "index-2":
            rows.append(matrix(U) @ place + matrix(B) @ functions.sin(inner))
        if formulation != "index-3":
            rows.append(G @ speed)
        return functions.stack(rows)

    every = constraints_of(terms, solution, 2 * p, 1)

    def of_ggl(u: Any, t: float) -> Any:
        """The derivative of the constraint says that mu is 0, and that of its derivative may rely on it."""
        u, other = np.array(u), np.array(u[2 * p + m :])
        u[2 * p + m :] = 0.0
        rows = every(u, t)
        return np.concatenate([rows[: 2 * m], rows[3 * m :], other])

    indices, dof = {
        "index-3": ((1,) * p + (2,) * p + (3,) * m, 2 * (p - m)),
        "index-2": ((1,) * (2 * p) + (2,) * m, 2 * p - m),
        "ggl": ((1,) * (2 * p) + (2,) * (2 * m), 2 * (p - m)),
    }[formulation]
    return Generated(terms, solution, 2 * p, indices, dof, constraints=of_ggl if ggl else None)


for _formulation in ("index-3", "index-2", "ggl"):
    family(f"mechanics-{_formulation}", 3, 6)(partial(mechanics, _formulation))
