"""Equations in the six quasilinear types, for the methods that keep to the manifold of their constraints.

Their parts A, B, h and g are read off the residuals of other families, which are linear in u' and
multipliers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

import dae_sdc as ds
from benchmarks.studies.truth.families.hessenberg import nonlinear, small
from benchmarks.studies.truth.generated import FAMILIES, Generated, Vector
from benchmarks.studies.truth.random_parts import damped, decimal, identity, rotation, signals
from benchmarks.studies.truth.signals import Signals, wave

Part = Callable[..., Any]  # A part of the equations, a function of time and state


def _problem(name: str, base: type[Any], *sizes: int, **parts: Part) -> Callable[..., ds.ProblemDAE]:
    """What makes problems of a type from numbers of unknowns and its parts."""
    methods = {key: lambda self, *at, part=part: part(*at) for key, part in parts.items()}
    cls = type(name, (base,), methods)

    def make(given: Generated, declared: bool) -> ds.ProblemDAE:
        problem: ds.ProblemDAE = cls(*sizes)
        problem.interval, problem.names = given.interval, given.names
        return problem

    return make


def _of_mechanics(name: str, of: str, base: type[Any], seed: int) -> Generated:
    """Parts of A q'' + B lambda = h and the constraint, from rows p to 2 p and behind of a residual."""
    given = FAMILIES[of](seed)
    p = given.n_diff // 2
    m = given.n - 2 * p
    still, free = np.zeros(p), np.zeros(m)

    def dynamic(t: float, q: Vector, v: Vector, a: Vector = still, multiplier: Vector = free) -> Vector:
        u, du = np.concatenate([q, v, multiplier]), np.concatenate([v, a, free])
        rows: Vector = given.residual(u, du, t)[p : 2 * p]
        return rows

    def slopes(t: float, q: Vector, v: Vector, moved: str, size: int) -> Vector:
        rest = dynamic(t, q, v)
        return np.array([dynamic(t, q, v, **{moved: e}) - rest for e in np.eye(size)]).T

    def bound(t: float, q: Vector, v: Vector = still) -> Vector:
        rows: Vector = given.residual(np.concatenate([q, v, free]), np.zeros(2 * p + m), t)[2 * p :]
        return rows

    parts: dict[str, Part] = {
        "A": lambda t, q, v: slopes(t, q, v, "a", p),
        "h": lambda t, q, v: -dynamic(t, q, v),
        "g": bound,
    }
    cls = "Nonholonomic"
    if base is ds.QuasiSecondOrderProblem:
        cls = "SecondOrder"
        parts["B"] = lambda t, q, v: slopes(t, q, v, "multiplier", m)
    return replace(given, family=name, problem_class=_problem(cls, base, p, m, **parts))


for _args in (
    ("quasi-daeq3", "mechanics-index-3", ds.QuasiSecondOrderProblem),
    ("quasi-nohol", "mechanics-index-2", ds.NonholonomicProblem),
):
    FAMILIES.add(_args[0], partial(_of_mechanics, *_args))


@FAMILIES.register("quasi-daeq1")
def _daeq1(seed: int) -> Generated:
    given = FAMILIES["hessenberg-1"](seed)
    p, n = given.n_diff, given.n
    parts: dict[str, Part] = {
        "A": lambda t, u: np.eye(p, n),
        "h": lambda t, u: -given.residual(u, np.zeros(n), t)[:p],
        "g": lambda t, u: given.residual(u, np.zeros(n), t)[p:],
    }
    make = _problem("FirstOrder", ds.QuasiFirstOrderProblem, n, n - p, **parts)
    return replace(given, family="quasi-daeq1", problem_class=make)


@FAMILIES.register("quasi-daeq2")
def _daeq2(seed: int) -> Generated:
    rng = np.random.default_rng([seed, 2, 7])
    m = int(rng.integers(1, 3))
    p = m + int(rng.integers(1, 3))
    J, U = damped(rng, p), rotation(rng, p)
    f, bound = nonlinear(rng, p, p), nonlinear(rng, m, p)
    G, K = U[:m], np.asarray(U[:m].T * Fraction(3, 2), dtype=object)
    solution = signals(rng, p + m)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        y = u[:p]
        motion = du[:p] - functions.matrix(J) @ y + functions.matrix(K) @ u[p:] - f(y, functions)
        return functions.stack([motion, functions.matrix(G) @ y + bound(y, functions)])

    given = Generated("quasi-daeq2", seed, terms, solution, p, 2, (1,) * p + (2,) * m, p - m)

    def rest(t: float, y: Vector) -> Vector:
        rows: Vector = given.residual(np.concatenate([y, np.zeros(m)]), np.zeros(p + m), t)
        return rows

    parts: dict[str, Part] = {
        "A": lambda t, y: np.eye(p),
        "B": lambda t, y: np.asarray(K, dtype=float),
        "h": lambda t, y: -rest(t, y)[:p],
        "g": lambda t, y: rest(t, y)[p:],
    }
    return replace(given, problem_class=_problem("WithMultipliers", ds.QuasiFirstOrderProblem, p, m, **parts))


@FAMILIES.register("quasi-daen1")
def _daen1(seed: int) -> Generated:
    rng = np.random.default_rng([seed, 1, 7])
    p, m = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    J, K, G = damped(rng, p), small(rng, p, m, 0.5), rotation(rng, m)
    own, rest, bound = nonlinear(rng, p, p), nonlinear(rng, p, p + m), nonlinear(rng, m, p + m)
    P = rotation(rng, p + m)
    u, w = signals(rng, p), signals(rng, m)
    solution = Signals.joined([u, u.derivative(), w])

    def terms(state: Any, du: Any, t: Any, functions: Any) -> Any:
        v, slope, z = state[:p], state[p : 2 * p], state[2 * p :]
        both = functions.stack([v, z])
        motion = slope + own(slope, functions) - functions.matrix(J) @ v - functions.matrix(K) @ z
        below = functions.matrix(G) @ z + bound(both, functions)
        rows = functions.matrix(P) @ functions.stack([motion - rest(both, functions), below])
        return functions.stack([du[:p] - slope, rows])

    given = Generated("quasi-daen1", seed, terms, solution, p, 1, (1,) * (2 * p + m), p)

    def rows(t: float, u: Vector, slope: Vector, w: Vector) -> Any:
        return given.residual(np.concatenate([u, slope, w]), np.zeros(given.n), t)[p:]

    return replace(given, problem_class=_problem("Implicit", ds.ImplicitDAE, p, m, F=rows))


@FAMILIES.register("quasi-eulag")
def _eulag(seed: int) -> Generated:
    """A particle on the sphere that moves on a great circle, under a force that depends on q alone."""
    rng = np.random.default_rng([seed, 3, 8])
    p = int(rng.integers(2, 4))
    U, mass = rotation(rng, p), identity(p)
    w = decimal(rng, 0.6, 1.5, 1)
    circle = Signals([wave(w, 1), wave(w, 0, 1), *[wave(0, 0)] * (p - 2)])
    q = Signals(U) @ circle
    pull = decimal(rng, 0.5, 1.5, 1)
    solution = Signals.joined([q, q.derivative(), signals(rng, 1)])
    S = np.array([decimal(rng, -0.5, 0.0, 1)], dtype=object)
    mass = np.asarray(mass * pull, dtype=object)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        place, speed, multiplier = u[:p], u[p : 2 * p], u[2 * p :]
        dynamic = functions.matrix(mass) @ du[p : 2 * p] - functions.matrix(S) * functions.sin(place)
        dynamic = dynamic + place * multiplier
        bound = functions.stack([(place @ place - 1) * multiplier**0]) / 2
        return functions.stack([du[:p] - speed, dynamic, bound])

    indices = (1,) * p + (2,) * p + (3,)
    given = Generated("quasi-eulag", seed, terms, solution, 2 * p, 3, indices, 2 * p - 2)

    def pulled(t: float, q: Vector, v: Vector) -> Any:
        return -given.residual(np.concatenate([q, v, np.zeros(1)]), np.zeros(2 * p + 1), t)[p : 2 * p]

    parts: dict[str, Part] = {
        "A": lambda t, q, v: np.asarray(mass, dtype=float),
        "h": pulled,
        "g": lambda t, q: [0.5 * (q @ q - 1.0)],
    }
    return replace(given, problem_class=_problem("Lagrange", ds.QuasiLagrangeProblem, p, 1, **parts))
