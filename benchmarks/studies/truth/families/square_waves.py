"""Square waves in all spellings: x' + a x = w(s), y = x^2 + 1, with w of time, or of a state s' = 1.

w is 1 in intervals that are known and 0 elsewhere, so that x is a sum of exponentials. Each spelling is
one idiom by which engineers write a pulse, a clock or a duty cycle; those of integers take pulse k of length
p, those of a duty cycle d p of each p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.studies.truth.draw import Vector
from benchmarks.studies.truth.written import WRITTEN, Written, WrittenFamily

Intervals = list[tuple[float, float]]
EVER = math.inf


@dataclass(frozen=True, eq=False)
class Pulses:
    p: float  # Length of a pulse or a period
    d: float  # Duty cycle
    k: int  # Number of a pulse
    table: Vector  # Times at which a wave changes that is not periodic
    end: float

    def pulse(self, first: float, last: float) -> Intervals:
        return [(first * self.p, last * self.p)]

    def arcs(self, first: float, last: float) -> Intervals:
        """From ``first`` to ``last`` pulses in each two."""
        return [((2 * j + first) * self.p, (2 * j + last) * self.p) for j in range(-1, 40)]


def every_other(q: Pulses) -> Intervals:
    """Pulses 0, 2, 4, ..."""
    return [(2 * j * q.p, (2 * j + 1) * q.p) for j in range(int(q.end / q.p) + 1)]


def duty(q: Pulses) -> Intervals:
    """The first part of every period."""
    return [(j * q.p, (j + q.d) * q.p) for j in range(int(q.end / q.p) + 1)]


def at(first: float, last: float) -> Callable[[Pulses], Intervals]:
    """From so many pulses after pulse k to so many after it."""
    return lambda q: q.pulse(q.k + first, q.k + last)


def until(last: float) -> Callable[[Pulses], Intervals]:
    """From the start to so many pulses after pulse k."""
    return lambda q: q.pulse(0, q.k + last)


@dataclass(frozen=True)
class Idiom:
    wave: Callable[[Pulses, Any], Any]  # w(pulses, s)
    on: Callable[[Pulses], Intervals]  # on(pulses) gives the intervals in which it is 1


def _matched(q: Pulses, s: Any) -> Any:
    match math.floor(s / q.p):
        case 1 | 3:
            return 1.0
        case _:
            return 0.0


def _listed(q: Pulses, s: Any) -> Any:
    k, value = np.floor(s / q.p), 0.0
    for i in (0, 2):
        if k == i:
            value = 1.0
    return value


def _sawtooth(q: Pulses, s: Any) -> Any:
    phase = s / q.p
    phase = phase - np.floor(phase)
    return 1.0 if phase < q.d else 0.0


def _larger(q: Pulses, s: Any) -> Any:
    w = np.pi / q.p
    return np.where(np.maximum(np.sin(w * s), np.cos(w * s)) == np.sin(w * s), 1.0, 0.0)


IDIOMS: dict[str, Idiom] = {
    "floor-equal": Idiom(lambda q, s: 1.0 if np.floor(s / q.p) == q.k else 0.0, at(0, 1)),
    "floor-unequal": Idiom(lambda q, s: 0.0 if np.floor(s / q.p) != q.k else 1.0, at(0, 1)),
    "floor-above": Idiom(lambda q, s: np.where(np.floor(s / q.p) > q.k, 1.0, 0.0), at(1, EVER)),
    "floor-from": Idiom(lambda q, s: np.where(np.floor(s / q.p) >= q.k, 1.0, 0.0), at(0, EVER)),
    "floor-below": Idiom(lambda q, s: np.where(np.floor(s / q.p) < q.k, 1.0, 0.0), until(0)),
    "floor-to": Idiom(lambda q, s: np.where(np.floor(s / q.p) <= q.k, 1.0, 0.0), until(1)),
    "ceil-equal": Idiom(lambda q, s: np.where(np.ceil(s / q.p) == q.k, 1.0, 0.0), at(-1, 0)),
    "ceil-unequal": Idiom(lambda q, s: 0.0 if np.ceil(s / q.p) != q.k else 1.0, at(-1, 0)),
    "ceil-above": Idiom(lambda q, s: np.where(np.ceil(s / q.p) > q.k, 1.0, 0.0), at(0, EVER)),
    "ceil-from": Idiom(lambda q, s: np.where(np.ceil(s / q.p) >= q.k, 1.0, 0.0), at(-1, EVER)),
    "ceil-below": Idiom(lambda q, s: 1.0 if np.ceil(s / q.p) < q.k else 0.0, until(-1)),
    "ceil-to": Idiom(lambda q, s: np.where(np.ceil(s / q.p) <= q.k, 1.0, 0.0), until(0)),
    "round-equal": Idiom(lambda q, s: np.where(np.round(s / q.p) == q.k, 1.0, 0.0), at(-0.5, 0.5)),
    "floor-in": Idiom(
        lambda q, s: 1.0 if np.floor(s / q.p) in (1.0, 3.0) else 0.0,
        lambda q: q.pulse(1, 2) + q.pulse(3, 4),
    ),
    "match": Idiom(_matched, lambda q: q.pulse(1, 2) + q.pulse(3, 4)),
    "loop-equal": Idiom(_listed, lambda q: q.pulse(0, 1) + q.pulse(2, 3)),
    "parity-equal": Idiom(lambda q, s: 1.0 if np.floor(s / q.p) % 2 == 0 else 0.0, every_other),
    "parity-below": Idiom(lambda q, s: np.where(np.floor(s / q.p) % 2 < 0.5, 1.0, 0.0), every_other),
    "power": Idiom(lambda q, s: 0.5 + 0.5 * (-1.0) ** np.floor(s / q.p), every_other),
    "modulo": Idiom(lambda q, s: np.where(s % (2 * q.p) < q.p, 1.0, 0.0), every_other),
    "floordiv": Idiom(lambda q, s: np.where((s // q.p) % 2 == 0, 1.0, 0.0), every_other),
    "int": Idiom(lambda q, s: 1.0 if int(s / q.p) % 2 == 0 else 0.0, every_other),
    "duty-modulo": Idiom(lambda q, s: np.where(s % q.p < q.d * q.p, 1.0, 0.0), duty),
    "duty-remainder": Idiom(lambda q, s: 1.0 if np.remainder(s, q.p) <= q.d * q.p else 0.0, duty),
    "duty-sawtooth": Idiom(_sawtooth, duty),
    "searchsorted": Idiom(
        lambda q, s: np.searchsorted(q.table, s) % 2 * 1.0,
        lambda q: list(zip(q.table[::2].tolist(), q.table[1::2].tolist(), strict=True)),
    ),
    "where-sine": Idiom(lambda q, s: np.where(np.sin(np.pi * s / q.p) > 0, 1.0, 0.0), every_other),
    "sign-sine": Idiom(lambda q, s: 0.5 + 0.5 * np.sign(np.sin(np.pi * s / q.p)), every_other),
    "heaviside": Idiom(
        lambda q, s: np.heaviside(s - q.k * q.p, 0.5) - np.heaviside(s - (q.k + 1) * q.p, 0.5),
        at(0, 1),
    ),
    "max-equal": Idiom(lambda q, s: np.where(np.maximum(s, q.k * q.p) == s, 1.0, 0.0), at(0, EVER)),
    "min-equal": Idiom(lambda q, s: np.where(np.minimum(s, q.k * q.p) == s, 1.0, 0.0), until(0)),
    "max-of-waves": Idiom(_larger, lambda q: q.arcs(0.25, 1.25)),
    "clip-equal": Idiom(
        lambda q, s: np.where(np.clip(s, 0.0, q.k * q.p) == q.k * q.p, 1.0, 0.0), at(0, EVER)
    ),
    "clip-sine": Idiom(
        lambda q, s: np.where(np.clip(np.sin(np.pi * s / q.p), -0.5, 0.5) == 0.5, 1.0, 0.0),
        lambda q: q.arcs(1 / 6, 5 / 6),
    ),
    "sign-max": Idiom(lambda q, s: np.sign(np.maximum(s - q.k * q.p, 0.0)), at(0, EVER)),
    "select": Idiom(
        lambda q, s: np.select([s < q.k * q.p, s < (q.k + 1) * q.p], [0.0 * s, 1.0 + 0.0 * s], 0.0),
        at(0, 1),
    ),
    "logical-and": Idiom(
        lambda q, s: np.where(np.logical_and(s >= q.k * q.p, s < (q.k + 1) * q.p), 1.0, 0.0), at(0, 1)
    ),
    "absolute": Idiom(lambda q, s: np.where(abs(s - (q.k + 0.5) * q.p) < 0.5 * q.p, 1.0, 0.0), at(0, 1)),
    "nested-where": Idiom(
        lambda q, s: np.where(s < q.k * q.p, 0.0, np.where(s > (q.k + 1) * q.p, 0.0, 1.0)), at(0, 1)
    ),
}


def response(on: Intervals, a: float, x0: float, times: Vector) -> Vector:
    x = x0 * np.exp(-a * times)
    for first, last in on:
        begin, end = (np.clip(times, max(first, 0.0), max(border, 0.0)) for border in (first, last))
        x = x + (np.exp(-a * (times - end)) - np.exp(-a * (times - begin))) / a
    return np.asarray(x)


def _square_wave(of_state: bool, seed: int, variant: str) -> Written:
    rng = np.random.default_rng([seed, 1, 9])
    p, d, k = float(rng.uniform(0.4, 1.3)), float(rng.uniform(0.2, 0.8)), int(rng.choice((1, 2, 3)))
    pulses = Pulses(p, d, k, np.cumsum(rng.uniform(0.3, 0.9, 16)), float(rng.uniform(4.2, 5.8)))
    a, x0 = float(rng.uniform(0.3, 3.0)), float(rng.uniform(-0.5, 1.5))
    wave, on = partial(IDIOMS[variant].wave, pulses), IDIOMS[variant].on(pulses)
    start = {"x": x0, "y": x0**2 + 1.0, "s": 0.0}
    if not of_state:
        del start["s"]

    def function(t: Any, u: Any, du: Any) -> Any:
        clock = [du[2] - 1.0] if of_state else []
        return [du[0] + a * u[0] - wave(u[2] if of_state else t), u[1] - u[0] ** 2 - 1.0, *clock]

    def reference(times: Vector) -> Vector:
        x = response(on, a, x0, times)
        return np.array([x, x**2 + 1.0, times][: len(start)]).T

    return Written(function, start, pulses.end, reference)


for _name, _of_state in (("square-waves-time", False), ("square-waves-state", True)):
    _make = partial(_square_wave, _of_state)
    WRITTEN.add(_name, WrittenFamily(_make, tuple(IDIOMS), 2, (1e-4, 1e-6, 1e-9)))
