"""Nonlinear DAEs in Hessenberg form of index 1 to 3 with manufactured solutions.

Index 1: y' = f(y, z), 0 = g(y, z). Index 2: y' = f(y, z), 0 = g(y). Index 3: x' = f(x, y), y' = k(x, y, z), 0
= g(x). f, k and g are random linear maps with bounded nonlinear terms small enough that solutions do not grow
and g_z, g_y f_z, g_x f_y k_z stay far from singular.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.studies.truth.generated import FAMILIES, NUMBERS, Generated
from benchmarks.studies.truth.random_parts import Generator, damped, decimal, rotation, signals
from benchmarks.studies.truth.signals import Exact, Signals, product


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


def derivative(function: Any, v: Any) -> Any:
    """Jacobian of a function of an array by complex steps."""
    v = np.asarray(v, dtype=complex)
    columns = []
    for j in range(v.size):
        moved = v.copy()
        moved[j] += 1e-30j
        columns.append(np.imag(function(moved)) / 1e-30)
    return np.array(columns).T


def differences(function: Any, v: Any) -> Any:
    """Jacobian of a function of an array by central differences of order 6."""
    step, columns = 5e-3, []
    for direction in np.eye(len(v)):
        odd = [function(v + k * step * direction) - function(v - k * step * direction) for k in (1, 2, 3)]
        columns.append((45.0 * odd[0] - 9.0 * odd[1] + odd[2]) / (60.0 * step))
    return np.array(columns).T


def _index_1(seed: int) -> Generated:
    rng = np.random.default_rng([seed, 1, 3])
    p, m = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    J, K = damped(rng, p), small(rng, p, m, 0.5)
    G, L = rotation(rng, m), small(rng, m, p, 1.0)
    f, g = nonlinear(rng, p, p + m), nonlinear(rng, m, p + m)
    solution = signals(rng, p + m)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        y, z = u[:p], u[p:]
        motion = du[:p] - functions.matrix(J) @ y - functions.matrix(K) @ z - f(u, functions)
        bound = functions.matrix(G) @ z + functions.matrix(L) @ y + g(u, functions)
        return functions.stack([motion, bound])

    def constraints(u: Any, t: float) -> Any:
        return _rows(terms, solution, u, t, p)

    return Generated("hessenberg-1", seed, terms, solution, p, 1, (1,) * (p + m), p, constraints=constraints)


def _rows(terms: Any, solution: Signals, u: Any, t: float, first: int) -> Any:
    """The rows from ``first`` on, in which no derivatives are."""
    nothing = np.zeros(len(solution.entries))
    u = np.asarray(u)
    return (terms(u, nothing, t, NUMBERS) - terms(solution(t), nothing, t, NUMBERS))[first:]


def _index_2(seed: int) -> Generated:
    rng = np.random.default_rng([seed, 2, 3])
    m = int(rng.integers(1, 3))
    p = m + int(rng.integers(0, 3))
    J, U = damped(rng, p), rotation(rng, p)
    f, g = nonlinear(rng, p, p + m), nonlinear(rng, m, p)
    G, K = U[:m], np.asarray(U[:m].T * Fraction(3, 2), dtype=object)  # g_y f_z is near 3/2 I
    solution = signals(rng, p + m)
    slope = solution.derivative()

    def speed(u: Any, functions: Any) -> Any:
        return functions.matrix(J) @ u[:p] + functions.matrix(K) @ u[p:] + f(u, functions)

    def bound(y: Any, functions: Any) -> Any:
        return functions.matrix(G) @ y + g(y, functions)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        return functions.stack([du[:p] - speed(u, functions), bound(u[:p], functions)])

    def constraints(u: Any, t: float) -> Any:
        u, exact = np.asarray(u), solution(t)
        y, of_exact = u[:p], exact[:p]
        motion = speed(u, NUMBERS) - speed(exact, NUMBERS) + slope(t)[:p]
        hidden = derivative(lambda v: bound(v, NUMBERS), y) @ motion
        hidden = hidden - derivative(lambda v: bound(v, NUMBERS), of_exact) @ slope(t)[:p]
        return np.concatenate([bound(y, NUMBERS) - bound(of_exact, NUMBERS), hidden])

    indices = (1,) * p + (2,) * m
    return Generated("hessenberg-2", seed, terms, solution, p, 2, indices, p - m, constraints=constraints)


def _index_3(seed: int) -> Generated:
    rng = np.random.default_rng([seed, 3, 3])
    m = int(rng.integers(1, 3))
    p = m + int(rng.integers(0, 2))
    U, V = rotation(rng, p), rotation(rng, p)
    J, L = damped(rng, p), damped(rng, p)
    f, k, g = nonlinear(rng, p, p), nonlinear(rng, p, 2 * p), nonlinear(rng, m, p)
    G = U[:m]
    K = np.asarray(product(V.T, U[:m].T) * Fraction(3, 2), dtype=object)  # g_x f_y k_z is near 3/2 I
    solution = signals(rng, 2 * p + m)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        x, y, z = u[:p], u[p : 2 * p], u[2 * p :]
        matrix = functions.matrix
        return functions.stack(
            [
                du[:p] - matrix(J) @ x - matrix(V) @ y - f(x, functions),
                du[p : 2 * p] - matrix(L) @ y - matrix(K) @ z - k(u[: 2 * p], functions),
                matrix(G) @ x + g(x, functions),
            ]
        )

    slope = solution.derivative()

    def bound(x: Any) -> Any:
        return np.asarray(G, dtype=float) @ x + g(x, NUMBERS)

    def motion(u: Any, t: float) -> Any:
        """(x', y') at a point."""
        nothing = np.zeros(u.size)
        own = terms(u, nothing, t, NUMBERS) - terms(solution(t), slope(t), t, NUMBERS)
        return -own[: 2 * p]

    def rate(point: Any) -> Any:
        """d/dt of the constraint at (x, y, t)."""
        x, t = point[:p], float(point[-1])
        u = np.concatenate([point[:-1], np.zeros(m)])
        return derivative(bound, x) @ motion(u, t)[:p] - derivative(bound, solution(t)[:p]) @ slope(t)[:p]

    def constraints(u: Any, t: float) -> Any:
        u = np.asarray(u)
        point = np.append(u[: 2 * p], t)
        hidden = differences(rate, point) @ np.append(motion(u, t), 1.0)
        return np.concatenate([bound(u[:p]) - bound(solution(t)[:p]), rate(point), hidden])

    indices = (1,) * p + (2,) * p + (3,) * m
    return Generated(
        "hessenberg-3", seed, terms, solution, 2 * p, 3, indices, 2 * (p - m), constraints=constraints
    )


FAMILIES.add("hessenberg-1", _index_1)
FAMILIES.add("hessenberg-2", _index_2)
FAMILIES.add("hessenberg-3", _index_3)
