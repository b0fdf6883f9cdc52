"""Square waves in all spellings: x' + a x = w(s), y = x^2 + 1, with w of time, or of a state s' = 1.

w is 1 in intervals that are known and 0 elsewhere, so that x is a sum of exponentials. Each spelling is
one idiom by which engineers write a pulse, a clock or a duty cycle; those of integers take pulse k of length
p, those of a duty cycle d p of each p.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
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


def matched(q: Pulses, s: Any) -> Any:
    match math.floor(s / q.p):
        case 1 | 3:
            return 1.0
        case _:
            return 0.0


def listed(q: Pulses, s: Any) -> Any:
    k, value = np.floor(s / q.p), 0.0
    for i in (0, 2):
        if k == i:
            value = 1.0
    return value


def sawtooth(q: Pulses, s: Any) -> Any:
    phase = s / q.p
    phase = phase - np.floor(phase)
    return 1.0 if phase < q.d else 0.0


def larger(q: Pulses, s: Any) -> Any:
    w = np.pi / q.p
    return np.where(np.maximum(np.sin(w * s), np.cos(w * s)) == np.sin(w * s), 1.0, 0.0)


def _of(texts: list[str]) -> Idiom:
    codes = (compile(text, __file__, "eval") for text in (f"lambda q, s: {texts[0]}", texts[1]))
    return Idiom(*(eval(code, globals()) for code in codes))


_TABLE = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
IDIOMS = {name: _of(texts) for name, texts in tomllib.loads(_TABLE).items()}


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
