"""Nonlinear DAEs with manufactured solutions: ordinary, in Hessenberg form, fully implicit, with mixed rows.

``ordinary``: u' = f(u). Hessenberg forms of index 1: y' = f(y, z), 0 = g(y, z); index 2: y' = f(y, z), 0 =
g(y); index 3: x' = f(x, y), y' = k(x, y, z), 0 = g(x). f, k and g are random linear maps with bounded
nonlinear terms small enough that solutions do not grow and g_z, g_y f_z, g_x f_y k_z stay far from singular.

``implicit-1``: w = Q u has parts v and z with D(v', v, z) = 0, nonlinear in v', and G(v, z) = 0; the rows
are mixed by a regular matrix P. dD/dv' = I + B diag(bounded) with small B, and dG/dz is near an orthogonal
matrix.

``mixed-rows``: P(u) (x' - z - f(x, y), y' + z y - g(x, y), x y - h(t)) = 0 with P(u) = (I + L(u)) (I + R(u)),
in which L(u) is strictly lower and R(u) strictly upper, so that P has determinant 1. Away from the solution
dF/du has P'(u) times the residual besides, which says nothing of the DAE.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.studies.truth import draw
from benchmarks.studies.truth.draw import Signals, Trig, identity, product, wave
from benchmarks.studies.truth.generated import Generated, constraints_of, family


@family("ordinary", 0, 5)
def _ordinary(rng: draw.Generator) -> Generated:
    n = int(rng.integers(1, 5))
    J, f = draw.damped(rng, n), draw.nonlinear(rng, n, n)
    solution = draw.signals(rng, n)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        return du - functions.matrix(J) @ u - f(u, functions)

    return Generated(terms, solution, n, (1,) * n, n)


@family("hessenberg-1", 1, 3)
def index_1(rng: draw.Generator) -> Generated:
    p, m = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    J, K = draw.damped(rng, p), draw.small(rng, p, m, 0.5)
    G, L = draw.rotation(rng, m), draw.small(rng, m, p, 1.0)
    f, g = draw.nonlinear(rng, p, p + m), draw.nonlinear(rng, m, p + m)
    solution = draw.signals(rng, p + m)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        y, z = u[:p], u[p:]
        motion = du[:p] - functions.matrix(J) @ y - functions.matrix(K) @ z - f(u, functions)
        bound = functions.matrix(G) @ z + functions.matrix(L) @ y + g(u, functions)
        return functions.stack([motion, bound])

    return Generated(terms, solution, p, (1,) * (p + m), p)


def index_2(rng: draw.Generator, least: int, sign: int) -> tuple[Generated, Any]:
    """One with so many free values at least, and K; with the sign -1 f depends on y alone."""
    m = int(rng.integers(1, 3))
    p = m + int(rng.integers(least, 3))
    J, U = draw.damped(rng, p), draw.rotation(rng, p)
    inputs = p + m if sign > 0 else p
    f, g = draw.nonlinear(rng, p, inputs), draw.nonlinear(rng, m, p)
    G, K = U[:m], U[:m].T * Fraction(3, 2)  # g_y f_z is near 3/2 I
    solution = draw.signals(rng, p + m)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        y = u[:p]
        speed = functions.matrix(J) @ y + sign * (functions.matrix(K) @ u[p:]) + f(u[:inputs], functions)
        return functions.stack([du[:p] - speed, functions.matrix(G) @ y + g(y, functions)])

    return Generated(terms, solution, p, (1,) * p + (2,) * m, p - m), K


family("hessenberg-2", 2, 3)(lambda rng: index_2(rng, 0, 1)[0])


@family("hessenberg-3", 3, 3)
def _index_3(rng: draw.Generator) -> Generated:
    m = int(rng.integers(1, 3))
    p = m + int(rng.integers(0, 2))
    U, V = draw.rotation(rng, p), draw.rotation(rng, p)
    J, L = draw.damped(rng, p), draw.damped(rng, p)
    f, k, g = draw.nonlinear(rng, p, p), draw.nonlinear(rng, p, 2 * p), draw.nonlinear(rng, m, p)
    G, K = U[:m], product(V.T, U[:m].T) * Fraction(3, 2)  # g_x f_y k_z is near 3/2 I
    solution = draw.signals(rng, 2 * p + m)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        x, y, z = u[:p], u[p : 2 * p], u[2 * p :]
        matrix = functions.matrix
        first = du[:p] - matrix(J) @ x - matrix(V) @ y - f(x, functions)
        second = du[p : 2 * p] - matrix(L) @ y - matrix(K) @ z - k(u[: 2 * p], functions)
        return functions.stack([first, second, matrix(G) @ x + g(x, functions)])

    return Generated(terms, solution, 2 * p, (1,) * p + (2,) * p + (3,) * m, 2 * (p - m))


@family("implicit-1", 1, 4)
def _implicit(rng: draw.Generator) -> Generated:
    p, m = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    n = p + m
    P = draw.well_conditioned(rng, n)
    full = bool(rng.random() < 0.7)
    Q = draw.well_conditioned(rng, n) if full else identity(n)
    J, K, G = draw.damped(rng, p), draw.small(rng, p, m, 0.5), draw.rotation(rng, m)
    bent, rest, bound = draw.nonlinear(rng, p, p), draw.nonlinear(rng, p, n), draw.nonlinear(rng, m, n)
    solution = draw.signals(rng, n)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        w, slope = functions.matrix(Q) @ u, (functions.matrix(Q) @ du)[:p]
        v, z = w[:p], w[p:]
        motion = slope + bent(slope, functions) - functions.matrix(J) @ v - functions.matrix(K) @ z
        motion = motion - rest(w, functions)
        below = functions.matrix(G) @ z + bound(w, functions)
        return functions.matrix(P) @ functions.stack([motion, below])

    inverse = np.linalg.inv(np.asarray(P, dtype=float))

    def unmixed(*at: Any) -> Any:
        return inverse @ terms(*at)

    constraints = constraints_of(unmixed, solution, p, 0)
    return Generated(terms, solution, n if full else p, (1,) * n, p, constraints=constraints, orders="one")


@family("mixed-rows", 2, 10)
def _mixed_rows(rng: draw.Generator) -> Generated:
    f, g = draw.nonlinear(rng, 1, 2), draw.nonlinear(rng, 1, 2)
    # The hidden constraint determines z by y (1 - x), which stays away from 0.
    x, y = (wave(0, middle) + draw.signal(rng) * wave(0, Fraction(1, 2)) for middle in (3, 2))
    solution = Signals([x, y, draw.signal(rng)])
    below, above = draw.small(rng, 3, 3, 0.8), draw.small(rng, 3, 3, 0.8)
    unit, lower, upper = identity(3), np.tril(below, -1), np.triu(above, 1)
    constant = bool(rng.random() < 0.2)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        force = functions.stack([f(u[:2], functions), g(u[:2], functions)])
        motion = functions.stack([u[2:], -u[2:] * u[1:2]]) + force
        return functions.stack([du[:2] - motion, u[:1] * u[1:2]])

    def mix(rows: Any, u: Any, t: Any, functions: Any) -> Any:
        left, right = functions.matrix(lower), functions.matrix(upper)
        if not constant:
            left, right = left * functions.sin(u), right * functions.cos(u)
        half = (functions.matrix(unit) + right) @ rows
        return (functions.matrix(unit) + left) @ half

    return Generated(terms, solution, 2, (1, 1, 2), 1, mix=mix)


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
