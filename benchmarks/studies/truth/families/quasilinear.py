"""Equations in the six quasilinear types, for the methods that keep to the manifold of their constraints.

Their parts A, B, h and g are read off the residuals of other families, which are linear in u' and
multipliers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.studies.truth import draw
from benchmarks.studies.truth.draw import Signals, Vector, identity, wave
from benchmarks.studies.truth.families.nonlinear import index_1, index_2, mechanics
from benchmarks.studies.truth.generated import Generated, family


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
