"""Trigonometric polynomials with rational coefficients: functions of time whose derivatives are exact."""

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
    """The same functions, for arrays of expressions of SymPy."""

    sin, cos, exp, tanh = map(entrywise, (sp.sin, sp.cos, sp.exp, sp.tanh))
    matrix = staticmethod(entrywise(_rational))

    def signal(self, signals: Signals, t: Any) -> Any:
        return signals.symbols(t)

    def stack(self, parts: Sequence[Any]) -> Any:
        return np.concatenate([np.asarray(part, dtype=object) for part in parts])


def identity(n: int) -> Exact:
    return entrywise(Fraction)(np.eye(n))
