"""What DAEs are drawn from: functions of time with exact derivatives, regular matrices, bounded maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp

Exact = npt.NDArray[np.object_]  # Array of fractions, or of trigonometric polynomials
Vector = npt.NDArray[np.float64]
NOTHING = Fraction(0), Fraction(0)


@dataclass(frozen=True)
class Trig:
    """sum_w a_w cos(w t) + b_w sin(w t) with w >= 0."""

    terms: dict[Fraction, tuple[Fraction, Fraction]] = field(default_factory=dict)  # (a_w, b_w) for each w

    def __add__(self, other: Any) -> Trig:
        terms = dict(self.terms)
        for w, (a, b) in _trig(other).terms.items():
            c, d = terms.get(w, NOTHING)
            terms[w] = (a + c, b + d)
        return Trig({w: pair for w, pair in terms.items() if any(pair)})

    __radd__ = __add__

    def __neg__(self) -> Trig:
        return Trig({w: (-a, -b) for w, (a, b) in self.terms.items()})

    def __sub__(self, other: Any) -> Trig:
        return self + (-_trig(other))

    def __mul__(self, other: Any) -> Trig:
        total = Trig()
        for w, (a, b) in self.terms.items():
            for v, (c, d) in _trig(other).terms.items():
                # 2 cos x cos y = cos(x - y) + cos(x + y), and so on.
                less = wave(abs(w - v), (a * c + b * d) / 2, (b * c - a * d) / 2 * (1 if w >= v else -1))
                total = total + less + wave(w + v, (a * c - b * d) / 2, (a * d + b * c) / 2)
        return total

    __rmul__ = __mul__

    def derivative(self) -> Trig:
        return Trig({w: (w * b, -w * a) for w, (a, b) in self.terms.items() if w})

    def symbol(self, t: Any) -> Any:
        pairs = ((_rational(w) * t, _rational(a), _rational(b)) for w, (a, b) in self.terms.items())
        return sp.Add(*(a * sp.cos(angle) + b * sp.sin(angle) for angle, a, b in pairs))


def wave(w: Any, a: Any, b: Any = 0) -> Trig:
    """A cos(w t) + b sin(w t)."""
    pair = (Fraction(a), Fraction(b) if w else Fraction(0))
    return Trig({Fraction(w): pair} if any(pair) else {})


def _trig(value: Any) -> Trig:
    return value if isinstance(value, Trig) else wave(0, Fraction(value))


def _rational(value: Any) -> Any:
    value = Fraction(value)
    return sp.Rational(value.numerator, value.denominator)


def entrywise(function: Callable[[Any], Any]) -> Callable[[Any], Exact]:
    """A function of arrays of objects from one of an entry."""
    return np.vectorize(function, otypes=[object])


class Signals:
    """An array of trigonometric polynomials, evaluated together."""

    def __init__(self, entries: Any) -> None:
        self.entries: Exact = entrywise(_trig)(np.asarray(entries, dtype=object))
        flat = self.entries.ravel()
        frequencies = sorted({w for entry in flat for w in entry.terms})
        self.shape = self.entries.shape
        self._w = np.array([float(w) for w in frequencies])
        pairs = [[entry.terms.get(w, NOTHING) for w in frequencies] for entry in flat]
        parts = np.array(pairs, dtype=float).reshape(len(flat), len(frequencies), 2)
        self._cos, self._sin = parts[..., 0], parts[..., 1]

    @property
    def fastest(self) -> float:
        return float(self._w.max(initial=0.0))

    def __call__(self, t: Any) -> Vector:
        """Values at a time, in the shape of the array."""
        angle = self._w * t
        values: Vector = self._cos @ np.cos(angle) + self._sin @ np.sin(angle)
        return values.reshape(self.shape)

    def symbols(self, t: Any) -> Exact:
        return entrywise(lambda entry: entry.symbol(t))(self.entries)

    def derivative(self) -> Signals:
        return Signals(entrywise(Trig.derivative)(self.entries))

    def __getitem__(self, key: Any) -> Signals:
        return Signals(self.entries[key])

    def __matmul__(self, other: Signals | Exact) -> Signals:
        right = other.entries if isinstance(other, Signals) else other
        return Signals(product(self.entries, right))

    @classmethod
    def joined(cls, parts: Sequence[Signals]) -> Signals:
        return cls(np.concatenate([part.entries for part in parts]))


def product(left: Any, right: Any) -> Exact:
    """The product of two arrays of fractions or polynomials, matrices or a matrix and a vector."""
    return np.asarray(np.asarray(left, dtype=object) @ np.asarray(right, dtype=object), dtype=object)


class Numbers:
    """Functions that equations are written with, for arrays of numbers."""

    sin, cos, exp, tanh = np.sin, np.cos, np.exp, np.tanh

    def __init__(self) -> None:
        self._floats: dict[int, tuple[Any, Any]] = {}

    def matrix(self, exact: Exact) -> Any:
        if id(exact) not in self._floats:  # which the entry keeps from being that of another matrix
            self._floats[id(exact)] = exact, np.asarray(exact, dtype=float)
        return self._floats[id(exact)][1]

    def signal(self, signals: Signals, t: Any) -> Any:
        return signals(t)

    def stack(self, parts: Sequence[Any]) -> Any:
        return np.concatenate(parts)


class Symbols:
    sin, cos, exp, tanh = map(entrywise, (sp.sin, sp.cos, sp.exp, sp.tanh))
    matrix = staticmethod(entrywise(_rational))

    def signal(self, signals: Signals, t: Any) -> Any:
        return signals.symbols(t)

    def stack(self, parts: Sequence[Any]) -> Any:
        return np.concatenate([np.asarray(part, dtype=object) for part in parts])


def identity(n: int) -> Exact:
    return entrywise(Fraction)(np.eye(n))


Generator = np.random.Generator
# Pythagorean triples: rotations with rational entries
TRIPLES = ((3, 4, 5), (4, 3, 5), (5, 12, 13), (12, 5, 13), (8, 15, 17))


def decimal(rng: Generator, low: float, high: float, digits: int = 2) -> Fraction:
    """A random number with few digits, which is the same number in every arithmetic."""
    scale = 10**digits
    return Fraction(int(rng.integers(round(low * scale), round(high * scale) + 1)), scale)


def signal(rng: Generator, low: float = 0.5, high: float = 1.5) -> Trig:
    """A function of time of size about 1: a constant and a wave."""
    w = decimal(rng, low, high, 1)
    a, b = (decimal(rng, 0.2, 0.8) * int(rng.choice((-1, 1))) for _ in range(2))
    return wave(0, decimal(rng, -0.5, 0.5)) + wave(w, a, b)


def signals(rng: Generator, n: int) -> Signals:
    return Signals([signal(rng) for _ in range(n)])


def rotation(rng: Generator, n: int) -> Exact:
    """An orthogonal matrix with rational entries: a product of plane rotations and a permutation."""
    matrix = identity(n)[rng.permutation(n)]
    for _ in range(n if n > 1 else 0):
        i, j = rng.choice(n, 2, replace=False)
        a, b, c = TRIPLES[rng.integers(len(TRIPLES))]
        turn = identity(n)
        turn[i, i] = turn[j, j] = Fraction(a, c)
        turn[i, j], turn[j, i] = Fraction(b, c), Fraction(-b, c)
        matrix = product(turn, matrix)
    return matrix


def well_conditioned(rng: Generator, n: int) -> Exact:
    scales = rng.choice(np.array([Fraction(k, 2) for k in (1, 2, 3, 4)], dtype=object), n)
    return np.asarray(scales[:, None] * rotation(rng, n), dtype=object)


def turning(rng: Generator, n: int, planes: int = 2) -> Exact:
    """An orthogonal matrix that turns smoothly with time, as trigonometric polynomials."""
    matrix: Any = identity(n)
    for _ in range(planes if n > 1 else 0):
        i, j = rng.choice(n, 2, replace=False)
        w = decimal(rng, 0.3, 1.0, 1)
        turn = identity(n)
        turn[i, i] = turn[j, j] = wave(w, 1)
        turn[i, j], turn[j, i] = wave(w, 0, 1), wave(w, 0, -1)
        matrix = product(turn, matrix)
    return np.asarray(matrix, dtype=object)


def damped(rng: Generator, n: int) -> Exact:
    """A matrix A for which solutions of v' = A v do not grow: -D plus a skew part."""
    matrix = np.full((n, n), Fraction(0), dtype=object)
    for i in range(n):
        matrix[i, i] = -decimal(rng, 0.1, 2.0, 1)
        for j in range(i):
            matrix[i, j] = decimal(rng, -1.0, 1.0, 1)
            matrix[j, i] = -matrix[i, j]
    return matrix


def small(rng: Generator, rows: int, columns: int, size: float = 0.15) -> Exact:
    return np.array([[decimal(rng, -size, size) for _ in range(columns)] for _ in range(rows)], dtype=object)


def nonlinear(rng: Generator, rows: int, columns: int) -> Any:
    """A bounded nonlinear map, B sin(C v) or B tanh(C v) or B (products), with derivatives of at most 0.3."""
    B, C = small(rng, rows, columns), small(rng, columns, columns, 0.8)
    kind = int(rng.integers(3))

    def value(v: Any, functions: Any) -> Any:
        inner = functions.matrix(C) @ v
        bent = (functions.sin, functions.tanh, lambda a: functions.sin(a) * functions.cos(a))[kind](inner)
        return functions.matrix(B) @ bent

    return value
