"""Mechanisms whose starts are typed in a few digits: the solution is that from the projected start.

A variant is a mechanism, a formulation and the number of digits behind the point. What a start leaves open,
since there are several ways to project it, is measured: by the solutions from starts that are moved by as
much as the projection moves this one, in every direction in which the mechanism can move.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from benchmarks.studies.truth.generated import Vector
from benchmarks.studies.truth.mechanisms import GGL, INDEX_2, INDEX_3, Mechanism
from benchmarks.studies.truth.random_parts import Generator
from benchmarks.studies.truth.written import WRITTEN, Written, WrittenFamily

DIGITS = ("6", "8", "10")
MOVED = 1e-5  # By how much starts are moved to see what that makes of the solution
OPEN = 3.0  # How much more than a start that is moved by the distance of the projection is left open
MOST_SENSITIVE = 100.0  # Largest change of the solution by a change of the start


def _turned(rng: Generator, low: float, high: float, spread: float = 1.5) -> Vector:
    """A vector of random length that points down, more or less."""
    angle = -0.5 * np.pi + rng.uniform(-spread, spread)
    return np.asarray(rng.uniform(low, high) * np.array([np.cos(angle), np.sin(angle)]))


def _masses(rng: Generator, count: int) -> tuple[float, ...]:
    return tuple(float(mass) for mass in rng.uniform(0.5, 2.0, count).round(1))


def _chain(rng: Generator, count: int) -> Mechanism:
    places = np.cumsum([_turned(rng, 0.5, 1.2) for _ in range(count)], axis=0)
    bars = ((0, (0.0, 0.0)), *((i, i - 1) for i in range(1, count)))
    return Mechanism(places, _masses(rng, count), bars, damping=float(rng.choice((0.0, 0.1))))


def _spherical(rng: Generator) -> Mechanism:
    place = rng.standard_normal(3)
    place *= rng.uniform(0.5, 1.5) / np.linalg.norm(place)
    return Mechanism(place[None], _masses(rng, 1), ((0, (0.0, 0.0, 0.0)),))


def _slider_crank(rng: Generator) -> Mechanism:
    crank = _turned(rng, 0.3, 0.6, 3.0)
    rod = rng.uniform(0.9, 1.5)
    slider = np.array([crank[0] + np.sqrt(rod**2 - crank[1] ** 2), 0.0])
    return Mechanism(np.array([crank, slider]), _masses(rng, 2), ((0, (0.0, 0.0)), (1, 0)), ((1, 1),))


def _cart(rng: Generator) -> Mechanism:
    cart = np.array([rng.uniform(-0.5, 0.5), 0.0])
    return Mechanism(np.array([cart, cart + _turned(rng, 0.5, 1.2)]), _masses(rng, 2), ((1, 0),), ((0, 1),))


def _four_bar(rng: Generator) -> Mechanism:
    base = (float(rng.uniform(1.0, 1.4)), 0.0)
    places = np.array([_turned(rng, 0.4, 0.7, 1.0), np.array(base) + _turned(rng, 0.7, 1.0, 1.0)])
    return Mechanism(places, _masses(rng, 2), ((0, (0.0, 0.0)), (1, 0), (1, base)))


MECHANISMS: dict[str, Callable[[Generator], Mechanism]] = {
    **{"pendulum": lambda rng: _chain(rng, 1), "double-pendulum": lambda rng: _chain(rng, 2)},
    **{"spherical": _spherical, "slider-crank": _slider_crank, "cart": _cart, "four-bar": _four_bar},
}

VARIANTS = tuple(map("/".join, itertools.product(MECHANISMS, (INDEX_3, INDEX_2, GGL), DIGITS)))


def _sensitivity(
    mechanism: Mechanism, q: Vector, v: Vector, end: float, on_places: bool
) -> Callable[[Vector], Vector]:
    """Change of (q, v, lambda) by a change of the start of size 1 in every free direction, at times."""
    # Where constraints are of speeds alone, bars keep the lengths that they begin with.
    middle, free = mechanism.motion(q, v, end), mechanism.free(q).T
    starts = [(q + MOVED * place, v) for place in (free if on_places else np.eye(mechanism.n))]
    starts += [(q, v + MOVED * speed) for speed in free]
    moved = [mechanism.motion(*mechanism.projected(*start, on_places), end) for start in starts]

    def values(times: Vector) -> Vector:
        base = middle(times)
        return np.asarray(sum(np.abs(path(times) - base) for path in moved) / MOVED)

    return values


def _typed_start(seed: int, variant: str) -> Written:
    name, formulation, digits = variant.split("/")
    rng = np.random.default_rng([seed, 4, 9, *variant.encode()])
    on_places = formulation != INDEX_2
    for _ in itertools.repeat(None):
        mechanism = MECHANISMS[name](rng)
        end = round(float(rng.uniform(0.6, 1.2)), 1)
        exact = mechanism.places.ravel()
        free = mechanism.free(exact)
        speed = free @ rng.uniform(-1.5, 1.5, free.shape[1])
        if np.linalg.cond(mechanism.constraints(exact)[1]) > 20.0:
            continue
        typed = np.concatenate([exact, speed, mechanism.forces(exact, speed)[1]]).round(int(digits))
        n, m = mechanism.n, mechanism.m
        q, v = mechanism.projected(typed[:n], typed[n : 2 * n], on_places)
        sensitivity = _sensitivity(mechanism, q, v, end, on_places)
        if np.isfinite(most := sensitivity(np.linspace(0.0, end, 21)).max()) and most < MOST_SENSITIVE:
            break
    motion = mechanism.motion(q, v, end)
    distance = float(np.abs(np.concatenate([q, v]) - typed[: 2 * n]).max())
    further = m if formulation == GGL else 0

    def padded(values: Vector) -> Vector:
        return np.hstack([values, np.zeros((len(values), further))])

    axes = "xyz"[: mechanism.places.shape[1]]
    points = [f"{axis}{i}" for i in range(len(mechanism.places)) for axis in axes]
    names = [*points, *(f"v{point}" for point in points), *(f"lambda{k}" for k in range(m))]
    names += [f"mu{k}" for k in range(further)]
    start = dict(zip(names, [*typed.tolist(), *[0.0] * further], strict=True))
    function, slack = mechanism.function(formulation), OPEN * distance
    return Written(
        function, start, end, lambda t: padded(motion(t)), lambda t: padded(slack * sensitivity(t))
    )


WRITTEN.add("typed-starts", WrittenFamily(_typed_start, VARIANTS, tolerances=(1e-6, 1e-8, 1e-10)))
