"""Mechanisms whose starts are typed in a few digits: the solution is that from the projected start.

Mechanisms are point masses with bars between them. Constraints are g(q) = 0: the squared length of each bar,
and a coordinate of each slide. M q'' = f(q') - G^T lambda with weight and damping. References solve M q'' +
G^T lambda = f, G q'' = -gamma for q'' and lambda: an ordinary differential equation, from a start that is
projected on the constraints.

A variant is a mechanism, a formulation and the number of digits behind the point. What a start leaves open,
since there are several ways to project it, is measured: by the solutions from starts that are moved by as
much as the projection moves this one, in every direction in which the mechanism can move.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.studies.truth.draw import Generator, Vector
from benchmarks.studies.truth.written import WRITTEN, Written, WrittenFamily

GRAVITY = 9.81
TIGHT = 1e-13
# Constraints of places; of speeds; both, with a second multiplier that is 0
INDEX_3, INDEX_2, GGL = "index-3", "index-2", "ggl"
DIGITS = ("6", "8", "10")
MOVED = 1e-5  # By how much starts are moved to see what that makes of the solution
OPEN = 3.0  # How much more than a start that is moved by the distance of the projection is left open
MOST_SENSITIVE = 100.0  # Largest change of the solution by a change of the start


@dataclass(frozen=True, eq=False)
class Mechanism:
    places: Vector  # shape (p, d): points at the start, those last that are fixed; the second axis points up
    masses: tuple[float, ...]  # Those of the other points
    bars: tuple[tuple[int, int], ...]  # Pairs of points
    slides: tuple[tuple[int, int], ...] = ()  # (i, k): coordinate k of point i stays what it is
    damping: float = 0.0  # Force by speed

    @property
    def d(self) -> int:
        return int(self.places.shape[1])

    @property
    def n(self) -> int:
        return len(self.masses) * self.d

    @property
    def m(self) -> int:
        return len(self.bars) + len(self.slides)

    def function(self, formulation: str) -> Callable[[Any, Any, Any], list[Any]]:
        """F(t, u, u') of the unknowns q, v, lambda, and mu with GGL."""
        n, m, d, damping = self.n, self.m, self.d, self.damping
        fixed = self.places.ravel()[n:].tolist()
        masses = [mass for mass in self.masses for _ in range(d)]
        squares = [float(far @ far) for far in (self.places[i] - self.places[j] for i, j in self.bars)]
        slides = [(d * i + k, float(self.places[i, k])) for i, k in self.slides]

        def function(t: Any, u: Any, du: Any) -> list[Any]:
            q = [*(u[i] for i in range(n)), *fixed]
            v = [*(u[n + i] for i in range(n)), *(0.0 for _ in fixed)]
            force, second = u[2 * n : 2 * n + m], u[2 * n + m :]
            kinematic = [*(du[i] - v[i] for i in range(n)), *fixed]
            dynamic = [*(masses[i] * du[n + i] + damping * v[i] for i in range(n)), *fixed]
            for i in range(1, n, d):
                dynamic[i] = dynamic[i] + masses[i] * GRAVITY
            lengths, speeds = [], []
            for k, (first, last) in enumerate(self.bars):
                length: Any = -squares[k]
                speed: Any = 0.0
                for i, j in zip(range(d * first, d * first + d), range(d * last, d * last + d), strict=True):
                    far, fast = q[i] - q[j], v[i] - v[j]
                    length, speed = length + far * far, speed + 2.0 * far * fast
                    dynamic[i] = dynamic[i] + 2.0 * far * force[k]
                    dynamic[j] = dynamic[j] - 2.0 * far * force[k]
                    if formulation == GGL:
                        kinematic[i] = kinematic[i] + 2.0 * far * second[k]
                        kinematic[j] = kinematic[j] - 2.0 * far * second[k]
                lengths.append(length)
                speeds.append(speed)
            for k, (i, height) in enumerate(slides, len(self.bars)):
                lengths.append(q[i] - height)
                speeds.append(v[i])
                dynamic[i] = dynamic[i] + force[k]
                if formulation == GGL:
                    kinematic[i] = kinematic[i] + second[k]
            bound = {INDEX_3: lengths, INDEX_2: speeds, GGL: [*lengths, *speeds]}[formulation]
            return [*kinematic[:n], *dynamic[:n], *bound]

        return function

    def constraints(self, q: Vector) -> tuple[Vector, Vector]:
        """g and G at places."""
        places = np.concatenate([q, self.places.ravel()[self.n :]]).reshape(self.places.shape)
        g, G = np.zeros(self.m), np.zeros((self.m, *self.places.shape))
        for k, (i, j) in enumerate(self.bars):
            far, before = places[i] - places[j], self.places[i] - self.places[j]
            g[k], G[k, i], G[k, j] = far @ far - float(before @ before), 2.0 * far, -2.0 * far
        for k, at in enumerate(self.slides, len(self.bars)):
            g[k], G[(k, *at)] = places[at] - self.places[at], 1.0
        return g, G.reshape(self.m, -1)[:, : self.n]

    def forces(self, q: Vector, v: Vector) -> tuple[Vector, Vector]:
        """q'' and lambda at places and speeds."""
        _, G = self.constraints(q)
        speeds = np.concatenate([v, np.zeros(self.places.size - self.n)]).reshape(self.places.shape)
        gamma = np.zeros(self.m)
        for k, (i, j) in enumerate(self.bars):
            fast = speeds[i] - speeds[j]
            gamma[k] = 2.0 * fast @ fast
        mass = np.repeat(self.masses, self.d)
        pull = -self.damping * v
        pull[1 :: self.d] -= mass[1 :: self.d] * GRAVITY
        inner = G / mass
        force = np.linalg.solve(inner @ G.T, inner @ pull + gamma)
        return (pull - G.T @ force) / mass, force

    def projected(self, q: Vector, v: Vector, on_places: bool) -> tuple[Vector, Vector]:
        """The nearest places and speeds that the constraints allow."""
        for _ in range(20 if on_places else 0):
            g, G = self.constraints(q)
            q = q - np.linalg.lstsq(G, g, rcond=None)[0]
        G = self.constraints(q)[1]
        return q, v - np.linalg.lstsq(G, G @ v, rcond=None)[0]

    def free(self, q: Vector) -> Vector:
        """Directions in which it can move, orthonormal columns."""
        _, _, right = np.linalg.svd(self.constraints(q)[1])
        return right[self.m :].T

    def motion(self, q: Vector, v: Vector, end: float) -> Callable[[Vector], Vector]:
        n = self.n

        def rates(t: float, state: Vector) -> Vector:
            return np.concatenate([state[n:], self.forces(state[:n], state[n:])[0]])

        how = {"method": "DOP853", "rtol": TIGHT, "atol": TIGHT, "dense_output": True}
        run = solve_ivp(rates, (0.0, end), np.concatenate([q, v]), **how)

        def values(times: Vector) -> Vector:
            states = np.array([run.sol(t) for t in times])
            return np.array([[*state, *self.forces(state[:n], state[n:])[1]] for state in states])

        return values

    def sensitivity(self, q: Vector, v: Vector, end: float, on_places: bool) -> Callable[[Vector], Vector]:
        """Change of (q, v, lambda) by a change of the start of size 1 in every free direction, at times."""
        # Where constraints are of speeds alone, bars keep the lengths that they begin with.
        middle, free = self.motion(q, v, end), self.free(q).T
        starts = [(q + MOVED * place, v) for place in (free if on_places else np.eye(self.n))]
        starts += [(q, v + MOVED * speed) for speed in free]
        moved = [self.motion(*self.projected(*start, on_places), end) for start in starts]

        def values(times: Vector) -> Vector:
            base = middle(times)
            return np.asarray(sum(np.abs(path(times) - base) for path in moved) / MOVED)

        return values


def _turned(rng: Generator, low: float, high: float, spread: float = 1.5) -> Vector:
    """A vector of random length that points down, more or less."""
    angle = -0.5 * np.pi + rng.uniform(-spread, spread)
    return np.asarray(rng.uniform(low, high) * np.array([np.cos(angle), np.sin(angle)]))


def _masses(rng: Generator, count: int) -> tuple[float, ...]:
    return tuple(float(mass) for mass in rng.uniform(0.5, 2.0, count).round(1))


def _chain(count: int, rng: Generator) -> Mechanism:
    places = np.cumsum([_turned(rng, 0.5, 1.2) for _ in range(count)], axis=0)
    bars = ((0, count), *((i, i - 1) for i in range(1, count)))
    masses, damping = _masses(rng, count), float(rng.choice((0.0, 0.1)))
    return Mechanism(np.vstack([places, np.zeros(2)]), masses, bars, damping=damping)


def _spherical(rng: Generator) -> Mechanism:
    place = rng.standard_normal(3)
    place *= rng.uniform(0.5, 1.5) / np.linalg.norm(place)
    return Mechanism(np.array([place, np.zeros(3)]), _masses(rng, 1), ((0, 1),))


def _slider_crank(rng: Generator) -> Mechanism:
    crank = _turned(rng, 0.3, 0.6, 3.0)
    rod = rng.uniform(0.9, 1.5)
    slider = np.array([crank[0] + np.sqrt(rod**2 - crank[1] ** 2), 0.0])
    return Mechanism(np.array([crank, slider, np.zeros(2)]), _masses(rng, 2), ((0, 2), (1, 0)), ((1, 1),))


def _cart(rng: Generator) -> Mechanism:
    cart = np.array([rng.uniform(-0.5, 0.5), 0.0])
    return Mechanism(np.array([cart, cart + _turned(rng, 0.5, 1.2)]), _masses(rng, 2), ((1, 0),), ((0, 1),))


def _four_bar(rng: Generator) -> Mechanism:
    base = np.array([rng.uniform(1.0, 1.4), 0.0])
    places = [_turned(rng, 0.4, 0.7, 1.0), base + _turned(rng, 0.7, 1.0, 1.0), np.zeros(2), base]
    return Mechanism(np.array(places), _masses(rng, 2), ((0, 2), (1, 0), (1, 3)))


MECHANISMS: dict[str, Callable[[Generator], Mechanism]] = {
    **{"pendulum": partial(_chain, 1), "double-pendulum": partial(_chain, 2), "spherical": _spherical},
    **{"slider-crank": _slider_crank, "cart": _cart, "four-bar": _four_bar},
}

VARIANTS = tuple(map("/".join, itertools.product(MECHANISMS, (INDEX_3, INDEX_2, GGL), DIGITS)))


def _typed_start(seed: int, variant: str) -> Written:
    name, formulation, digits = variant.split("/")
    rng = np.random.default_rng([seed, 4, 9, *variant.encode()])
    on_places = formulation != INDEX_2
    for _ in itertools.repeat(None):
        mechanism = MECHANISMS[name](rng)
        n, m = mechanism.n, mechanism.m
        end = round(float(rng.uniform(0.6, 1.2)), 1)
        exact = mechanism.places.ravel()[:n]
        free = mechanism.free(exact)
        speed = free @ rng.uniform(-1.5, 1.5, free.shape[1])
        if np.linalg.cond(mechanism.constraints(exact)[1]) > 20.0:
            continue
        typed = np.concatenate([exact, speed, mechanism.forces(exact, speed)[1]]).round(int(digits))
        q, v = mechanism.projected(typed[:n], typed[n : 2 * n], on_places)
        sensitivity = mechanism.sensitivity(q, v, end, on_places)
        if np.isfinite(most := sensitivity(np.linspace(0.0, end, 21)).max()) and most < MOST_SENSITIVE:
            break
    motion = mechanism.motion(q, v, end)
    slack = OPEN * float(np.abs(np.concatenate([q, v]) - typed[: 2 * n]).max())
    further = m if formulation == GGL else 0

    def padded(values: Vector) -> Vector:
        return np.hstack([values, np.zeros((len(values), further))])

    points = [f"{axis}{i}" for i in range(len(mechanism.masses)) for axis in "xyz"[: mechanism.d]]
    names = [*points, *(f"v{point}" for point in points), *(f"lambda{k}" for k in range(m))]
    names += [f"mu{k}" for k in range(further)]
    start = dict(zip(names, [*typed.tolist(), *[0.0] * further], strict=True))

    solution, left_open = (lambda t: padded(motion(t))), (lambda t: padded(slack * sensitivity(t)))
    return Written(mechanism.function(formulation), start, end, solution, left_open)


WRITTEN.add("typed-starts", WrittenFamily(_typed_start, VARIANTS, tolerances=(1e-6, 1e-8, 1e-10)))
