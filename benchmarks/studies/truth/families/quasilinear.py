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


def _second_order(given: Generated, p: int, m: int, base: type[Any]) -> Callable[..., ds.ProblemDAE]:
    """Parts of A q'' + B lambda = h and the constraint, from rows p to 2 p and behind of a residual."""

    def dynamic(t: float, q: Vector, v: Vector, a: Vector, multiplier: Vector) -> Vector:
        u, du = np.concatenate([q, v, multiplier]), np.concatenate([v, a, np.zeros(m)])
        rows: Vector = given.residual(u, du, t)[p : 2 * p]
        return rows

    class Parts(base):  # type: ignore[misc]
        def __init__(self, **settings: Any) -> None:
            super().__init__(p, m, **settings)

        def A(self, t: float, q: Vector, v: Vector) -> Any:
            still = dynamic(t, q, v, np.zeros(p), np.zeros(m))
            return np.array([dynamic(t, q, v, e, np.zeros(m)) - still for e in np.eye(p)]).T

        def h(self, t: float, q: Vector, v: Vector) -> Any:
            return -dynamic(t, q, v, np.zeros(p), np.zeros(m))

    if base is ds.QuasiSecondOrderProblem:

        def B(self: Any, t: float, q: Vector, v: Vector) -> Any:
            still = dynamic(t, q, v, np.zeros(p), np.zeros(m))
            return np.array([dynamic(t, q, v, np.zeros(p), e) - still for e in np.eye(m)]).T

        def g(self: Any, t: float, q: Vector) -> Any:
            u = np.concatenate([q, np.zeros(p + m)])
            return given.residual(u, np.zeros(2 * p + m), t)[2 * p :]

        return type("SecondOrder", (Parts,), {"B": B, "g": g})

    def of_speeds(self: Any, t: float, q: Vector, v: Vector) -> Any:
        u = np.concatenate([q, v, np.zeros(m)])
        return given.residual(u, np.zeros(2 * p + m), t)[2 * p :]

    return type("Nonholonomic", (Parts,), {"g": of_speeds})


def _made(cls: Callable[..., Any]) -> Callable[..., ds.ProblemDAE]:
    def make(given: Generated, declared: bool) -> ds.ProblemDAE:
        made: ds.ProblemDAE = cls()
        made.interval, made.names = given.interval, given.names
        return made

    return make


def _of_mechanics(name: str, of: str, base: type[Any], seed: int) -> Generated:
    given = FAMILIES[of](seed)
    p = given.n_diff // 2
    cls = _second_order(given, p, given.n - 2 * p, base)
    return replace(given, family=name, problem_class=_made(cls))


for _args in (
    ("quasi-daeq3", "mechanics-index-3", ds.QuasiSecondOrderProblem),
    ("quasi-nohol", "mechanics-index-2", ds.NonholonomicProblem),
):
    FAMILIES.add(_args[0], partial(_of_mechanics, *_args))


@FAMILIES.register("quasi-daeq1")
def _daeq1(seed: int) -> Generated:
    given = FAMILIES["hessenberg-1"](seed)
    p, n = given.n_diff, given.n

    class FirstOrder(ds.QuasiFirstOrderProblem):
        def __init__(self, **settings: Any) -> None:
            super().__init__(n, n - p, **settings)

        def A(self, t: float, u: Vector) -> Any:
            return np.eye(p, n)

        def h(self, t: float, u: Vector) -> Any:
            return -given.residual(u, np.zeros(n), t)[:p]

        def g(self, t: float, u: Vector) -> Any:
            return given.residual(u, np.zeros(n), t)[p:]

    return replace(given, family="quasi-daeq1", problem_class=_made(FirstOrder))


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

    class WithMultipliers(ds.QuasiFirstOrderProblem):
        def __init__(self, **settings: Any) -> None:
            super().__init__(p, m, **settings)

        def A(self, t: float, u: Vector) -> Any:
            return np.eye(p)

        def B(self, t: float, u: Vector) -> Any:
            return np.asarray(K, dtype=float)

        def h(self, t: float, u: Vector) -> Any:
            return -given.residual(np.concatenate([u, np.zeros(m)]), np.zeros(p + m), t)[:p]

        def g(self, t: float, u: Vector) -> Any:
            return given.residual(np.concatenate([u, np.zeros(m)]), np.zeros(p + m), t)[p:]

    return replace(given, problem_class=_made(WithMultipliers))


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

    class Implicit(ds.ImplicitDAE):
        def __init__(self, **settings: Any) -> None:
            super().__init__(p, m, **settings)

        def F(self, t: float, u: Vector, p_: Vector, w: Vector) -> Any:
            state = np.concatenate([u, p_, w])
            return given.residual(state, np.zeros(given.n), t)[p:]

    return replace(given, problem_class=_made(Implicit))


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

    class Lagrange(ds.QuasiLagrangeProblem):
        def __init__(self, **settings: Any) -> None:
            super().__init__(p, 1, **settings)

        def A(self, t: float, q: Vector, v: Vector) -> Any:
            return np.asarray(mass, dtype=float)

        def h(self, t: float, q: Vector, v: Vector) -> Any:
            u = np.concatenate([q, v, np.zeros(1)])
            return -given.residual(u, np.zeros(2 * p + 1), t)[p : 2 * p]

        def g(self, t: float, q: Vector) -> Any:
            return [0.5 * (q @ q - 1.0)]

    return replace(given, problem_class=_made(Lagrange))
