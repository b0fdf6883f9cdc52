"""What DAEs are drawn from: functions of time, matrices far from singular, bounded nonlinear maps."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.studies.truth.signals import Exact, Signals, Trig, identity, product, wave

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
    """An orthogonal matrix with rows scaled by 1/2 to 2: condition at most 4."""
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
