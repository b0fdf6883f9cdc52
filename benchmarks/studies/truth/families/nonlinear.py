"""Nonlinear DAEs with manufactured solutions, and mechanical and quasilinear ones.

``ordinary``: u' = f(u). Hessenberg forms of index 1: y' = f(y, z), 0 = g(y, z); index 2: y' = f(y, z), 0 =
g(y); index 3: x' = f(x, y), y' = k(x, y, z), 0 = g(x). f, k and g are random linear maps with bounded
nonlinear terms small enough that solutions do not grow and g_z, g_y f_z, g_x f_y k_z stay far from singular.

``implicit-1``: w = Q u has parts v and z with D(v', v, z) = 0, nonlinear in v', and G(v, z) = 0; the rows
are mixed by a regular matrix P. dD/dv' = I + B diag(bounded) with small B, and dG/dz is near an orthogonal
matrix.

``mixed-rows``: P(u) (x' - z - f(x, y), y' + z y - g(x, y), x y - h(t)) = 0 with P(u) = (I + L(u)) (I + R(u)),
in which L(u) is strictly lower and R(u) strictly upper, so that P has determinant 1. Away from the solution
dF/du has P'(u) times the residual besides, which says nothing of the DAE.

``mechanics``: M(q) q'' = f(q, q') - G(q)^T lambda + r(t), h(q) = h(q_e(t)) with G = dh/dq. Index 3: as it
stands. Index 2: G v = d/dt h(q_e) in the place of the constraint. GGL: both, with q' = v - G^T mu; mu is 0.
M = M_0 + small diag(sin q) is positive definite, and the rows of G are near those of an orthogonal matrix.

``quasi``: the six quasilinear types, for the methods that keep to the manifold of their constraints; their
parts A, B, h and g are read off residuals that are linear in u' and multipliers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.studies.truth import draw
from benchmarks.studies.truth.draw import Signals, Trig, Vector, identity, product, wave
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


def _typed(dae: Generated, name: str, base: type[Any], *sizes: int, **parts: Callable[..., Any]) -> Generated:
    """The DAE as problems of a type, from numbers of unknowns and its parts, functions of time and state."""
    methods = {key: lambda self, *at, part=part: part(*at) for key, part in parts.items()}
    cls = type(name, (base,), methods)

    def make(given: Generated) -> ds.ProblemDAE:
        problem: ds.ProblemDAE = cls(*sizes)
        problem.interval, problem.names = given.interval, given.names
        return problem

    return replace(dae, problem_class=make)


def _rows(dae: Generated, t: float, *state: Vector) -> Vector:
    """The residual at rest, at a state without its last unknowns, which are 0."""
    u = np.concatenate(state)
    rows: Vector = dae.residual(np.concatenate([u, np.zeros(dae.n - u.size)]), np.zeros(dae.n), t)
    return rows


def _of_mechanics(formulation: str, base: type[Any], rng: draw.Generator) -> Generated:
    """Parts of A q'' + B lambda = h and the constraint, from rows p to 2 p and behind of a residual."""
    dae = mechanics(formulation, rng)
    p = dae.n_diff // 2
    m = dae.n - 2 * p
    still, free = np.zeros(p), np.zeros(m)

    def dynamic(t: float, q: Vector, v: Vector, a: Vector = still, multiplier: Vector = free) -> Vector:
        u, du = np.concatenate([q, v, multiplier]), np.concatenate([v, a, free])
        rows: Vector = dae.residual(u, du, t)[p : 2 * p]
        return rows

    def slopes(t: float, q: Vector, v: Vector, moved: str, size: int) -> Vector:
        rest = dynamic(t, q, v)
        return np.array([dynamic(t, q, v, **{moved: e}) - rest for e in np.eye(size)]).T

    parts: dict[str, Callable[..., Any]] = {
        "A": lambda t, q, v: slopes(t, q, v, "a", p),
        "h": lambda t, q, v: -dynamic(t, q, v),
        "g": lambda t, *state: _rows(dae, t, *state)[2 * p :],
    }
    if base is ds.NonholonomicProblem:
        return _typed(dae, "Nonholonomic", base, p, m, **parts)
    return _typed(dae, "SecondOrder", base, p, m, B=lambda t, q, v: slopes(t, q, v, "multiplier", m), **parts)


family("quasi-daeq3", 3, 6)(partial(_of_mechanics, "index-3", ds.QuasiSecondOrderProblem))
family("quasi-nohol", 3, 6)(partial(_of_mechanics, "index-2", ds.NonholonomicProblem))


@family("quasi-daeq1", 1, 3)
def _daeq1(rng: draw.Generator) -> Generated:
    dae = index_1(rng)
    p, n = dae.n_diff, dae.n
    return _typed(
        *(dae, "FirstOrder", ds.QuasiFirstOrderProblem, n, n - p),
        A=lambda t, u: np.eye(p, n),
        h=lambda t, u: -_rows(dae, t, u)[:p],
        g=lambda t, u: _rows(dae, t, u)[p:],
    )


@family("quasi-daeq2", 2, 7)
def _daeq2(rng: draw.Generator) -> Generated:
    dae, K = index_2(rng, 1, -1)
    p, m = dae.n_diff, dae.n - dae.n_diff
    return _typed(
        *(dae, "WithMultipliers", ds.QuasiFirstOrderProblem, p, m),
        A=lambda t, y: np.eye(p),
        B=lambda t, y: np.asarray(K, dtype=float),
        h=lambda t, y: -_rows(dae, t, y)[:p],
        g=lambda t, y: _rows(dae, t, y)[p:],
    )


@family("quasi-daen1", 1, 7)
def _daen1(rng: draw.Generator) -> Generated:
    p, m = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    J, K, G = draw.damped(rng, p), draw.small(rng, p, m, 0.5), draw.rotation(rng, m)
    bent, rest = draw.nonlinear(rng, p, p), draw.nonlinear(rng, p, p + m)
    bound = draw.nonlinear(rng, m, p + m)
    P = draw.rotation(rng, p + m)
    u, w = draw.signals(rng, p), draw.signals(rng, m)
    solution = Signals.joined([u, u.derivative(), w])

    def terms(state: Any, du: Any, t: Any, functions: Any) -> Any:
        v, slope, z = state[:p], state[p : 2 * p], state[2 * p :]
        both = functions.stack([v, z])
        motion = slope + bent(slope, functions) - functions.matrix(J) @ v - functions.matrix(K) @ z
        below = functions.matrix(G) @ z + bound(both, functions)
        rows = functions.matrix(P) @ functions.stack([motion - rest(both, functions), below])
        return functions.stack([du[:p] - slope, rows])

    dae = Generated(terms, solution, p, (1,) * (2 * p + m), p)
    return _typed(dae, "Implicit", ds.ImplicitDAE, p, m, F=lambda t, *state: _rows(dae, t, *state)[p:])


@family("quasi-eulag", 3, 8)
def _eulag(rng: draw.Generator) -> Generated:
    """A particle on the sphere that moves on a great circle, under a force that depends on q alone."""
    p = int(rng.integers(2, 4))
    U = draw.rotation(rng, p)
    w = draw.decimal(rng, 0.6, 1.5, 1)
    q = Signals(U) @ Signals([wave(w, 1), wave(w, 0, 1), *[wave(0, 0)] * (p - 2)])
    mass = identity(p) * draw.decimal(rng, 0.5, 1.5, 1)
    solution = Signals.joined([q, q.derivative(), draw.signals(rng, 1)])
    S = np.array([draw.decimal(rng, -0.5, 0.0, 1)], dtype=object)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        place, speed, multiplier = u[:p], u[p : 2 * p], u[2 * p :]
        dynamic = functions.matrix(mass) @ du[p : 2 * p] - functions.matrix(S) * functions.sin(place)
        dynamic = dynamic + place * multiplier
        bound = functions.stack([(place @ place - 1) * multiplier**0]) / 2
        return functions.stack([du[:p] - speed, dynamic, bound])

    dae = Generated(terms, solution, 2 * p, (1,) * p + (2,) * p + (3,), 2 * p - 2)
    return _typed(
        *(dae, "Lagrange", ds.QuasiLagrangeProblem, p, 1),
        A=lambda t, q, v: np.asarray(mass, dtype=float),
        h=lambda t, q, v: -_rows(dae, t, q, v)[p : 2 * p],
        g=lambda t, q: [0.5 * (q @ q - 1.0)],
    )
