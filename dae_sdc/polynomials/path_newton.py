"""Compiled evaluation of homotopies and Newton's method on their paths. This imports numba.

Points have n + 1 homogeneous coordinates on an affine patch v . x = 1. Where doubles are not precise enough,
a point is the sum of two arrays, and equations are evaluated in double-double arithmetic (32 digits). Linear
systems are always solved in doubles, because Newton's method corrects their errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.compiling import inner


class Point(NamedTuple):
    """A point on a path: coordinates, their low parts in double-double arithmetic, and the patch v."""

    x: Any
    low: Any
    patch: Any


class Work(NamedTuple):
    """Memory of the continuation of one path."""

    registers: Any
    wide: Any
    matrix: Any
    pivots: Any
    right: Any
    slope: Any
    stages: Any
    trial: Any
    trial_low: Any


# --- equations ------------------------------------------------------------------------------------------


@inner
def _sum(a, a_low, b, b_low):  # type: ignore[no-untyped-def]
    """Sum of two double-double numbers."""
    s = a + b
    part = s - a
    e = (a - (s - part)) + (b - part) + (a_low + b_low)
    high = s + e
    return high, e - (high - s)


@inner
def _product(a, a_low, b, b_low):  # type: ignore[no-untyped-def]
    """Product of two double-double numbers."""
    p = a * b
    c = 134217729.0 * a
    a1 = c - (c - a)
    a2 = a - a1
    c = 134217729.0 * b
    b1 = c - (c - b)
    b2 = b - b1
    e = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2 + (a * b_low + a_low * b)
    high = p + e
    return high, e - (high - p)


@inner
def _run_exactly(w, code):  # type: ignore[no-untyped-def]
    """Execute instructions (a, b, c, d), register d = a b + c, in complex double-double numbers."""
    # The columns of the registers are the high and low part of the real part, and of the imaginary part.
    for k in range(code.shape[0]):
        a, b, c, d = code[k, 0], code[k, 1], code[k, 2], code[k, 3]
        for part in range(2):
            p, p_low = _product(w[a, 0], w[a, 1], w[b, 2 * part], w[b, 2 * part + 1])
            q, q_low = _product(w[a, 2], w[a, 3], w[b, 2 - 2 * part], w[b, 3 - 2 * part])
            sign = 2.0 * part - 1.0
            p, p_low = _sum(p, p_low, sign * q, sign * q_low)
            if c > 0:
                p, p_low = _sum(p, p_low, w[c, 2 * part], w[c, 2 * part + 1])
            w[d, 2 * part], w[d, 2 * part + 1] = p, p_low


@inner
def evaluate(eq, work, point, t, extended):  # type: ignore[no-untyped-def]
    """Compute values, Jacobian and derivatives with respect to t, in the registers of ``work``."""
    r, w, size = work.registers, work.wide, point.x.size
    x, low, code = point.x, point.low, eq.code
    for j in range(size):
        r[2 + j] = x[j]
    r[2 + size] = 1.0 - t
    r[3 + size] = t
    if not extended:
        for k in range(code.shape[0]):
            r[code[k, 3]] = r[code[k, 0]] * r[code[k, 1]] + r[code[k, 2]]
        return
    for j in range(size):
        w[2 + j, 0], w[2 + j, 1], w[2 + j, 2], w[2 + j, 3] = x[j].real, low[j].real, x[j].imag, low[j].imag
    now, rest = _sum(1.0, 0.0, -t.real, 0.0)
    w[2 + size, 0], w[2 + size, 1], w[2 + size, 2], w[2 + size, 3] = now, rest, -t.imag, 0.0
    w[3 + size, 0], w[3 + size, 1], w[3 + size, 2], w[3 + size, 3] = t.real, 0.0, t.imag, 0.0
    _run_exactly(w, code)
    for k in range(code.shape[0]):
        d = code[k, 3]
        r[d] = complex(w[d, 0], w[d, 2])


# --- linear algebra ------------------------------------------------------------------------------------


@inner
def _factorise(matrix, pivots):  # type: ignore[no-untyped-def]
    """LU factors in place, with reciprocals of the pivots; False if a pivot is 0 or not finite."""
    size = matrix.shape[0]
    for k in range(size):
        at, largest = k, -1.0
        for i in range(k, size):
            length = abs(matrix[i, k].real) + abs(matrix[i, k].imag)
            if length > largest:
                at, largest = i, length
        if not 0.0 < largest < np.inf:
            return False
        pivots[k] = at
        if at != k:
            for j in range(size):
                matrix[k, j], matrix[at, j] = matrix[at, j], matrix[k, j]
        pivot = matrix[k, k]
        square = pivot.real * pivot.real + pivot.imag * pivot.imag
        if not 0.0 < square < np.inf:
            return False
        inverse = complex(pivot.real / square, -pivot.imag / square)
        matrix[k, k] = inverse
        for i in range(k + 1, size):
            ratio = matrix[i, k] * inverse
            matrix[i, k] = ratio
            if ratio != 0j:
                for j in range(k + 1, size):
                    matrix[i, j] -= ratio * matrix[k, j]
    return True


@inner
def _substitute(matrix, pivots, right):  # type: ignore[no-untyped-def]
    """Replace the right-hand side by the solution."""
    size = matrix.shape[0]
    for k in range(size):
        at = pivots[k]
        if at != k:
            right[k], right[at] = right[at], right[k]
    for i in range(1, size):
        value = right[i]
        for j in range(i):
            value -= matrix[i, j] * right[j]
        right[i] = value
    for i in range(size - 1, -1, -1):
        value = right[i]
        for j in range(i + 1, size):
            value -= matrix[i, j] * right[j]
        right[i] = value * matrix[i, i]


@inner
def norm(x):  # type: ignore[no-untyped-def]
    """Euclidean norm."""
    total = 0.0
    for value in x:
        total += value.real * value.real + value.imag * value.imag
    return np.sqrt(total)


@inner
def distance(x, y):  # type: ignore[no-untyped-def]
    """Euclidean distance."""
    total = 0.0
    for j in range(x.size):
        d = x[j] - y[j]
        total += d.real * d.real + d.imag * d.imag
    return np.sqrt(total)


# --- Newton's method -----------------------------------------------------------------------------------


@inner
def set_patch(x, patch):  # type: ignore[no-untyped-def]
    """Set v to the conjugate of x divided by the squared norm of x, so that v . x = 1."""
    square = norm(x) ** 2
    for j in range(x.size):
        patch[j] = x[j].conjugate() / square


@inner
def prepare(eq, work, point, t, extended):  # type: ignore[no-untyped-def]
    """Evaluate the equations, and factorise the Jacobian with the patch below it; False if that fails."""
    evaluate(eq, work, point, t, extended)
    size = point.x.size
    for i in range(size - 1):
        for j in range(size):
            work.matrix[i, j] = work.registers[eq.jacobian[i, j]]
    for j in range(size):
        work.matrix[size - 1, j] = point.patch[j]
    return _factorise(work.matrix, work.pivots)


@inner
def set_tangent(eq, work, t, logarithmic, out):  # type: ignore[no-untyped-def]
    """Write the derivative of the path with respect to t, or to log t, to ``out``, with the kept factors."""
    size = out.size
    for i in range(size - 1):
        out[i] = -work.registers[eq.changes[i]]
    out[size - 1] = 0j
    _substitute(work.matrix, work.pivots, out)
    if logarithmic:
        for j in range(size):
            out[j] *= t


@inner
def _missed(point):  # type: ignore[no-untyped-def]
    """1 - patch . x in double-double arithmetic, rounded at the end."""
    x, low, patch = point.x, point.low, point.patch
    gap, gap_low = 1.0, 0.0
    other, other_low = 0.0, 0.0
    for j in range(x.size):
        for part in range(4):
            v = patch[j].imag if part % 2 else patch[j].real
            u, u_low = (x[j].real, low[j].real) if part in (0, 3) else (x[j].imag, low[j].imag)
            v = -v if part in (0, 2) or part == 3 else v
            p, p_low = _product(v, 0.0, u, u_low)
            if part < 2:
                gap, gap_low = _sum(gap, gap_low, p, p_low)
            else:
                other, other_low = _sum(other, other_low, p, p_low)
    return complex(gap, other)


@inner
def correct(eq, work, point, t, extended):  # type: ignore[no-untyped-def]
    """Take a Newton step; returns its length, infinite if the Jacobian is singular."""
    if not prepare(eq, work, point, t, extended):
        return np.inf
    x, low, right = point.x, point.low, work.right
    size = x.size
    for i in range(size - 1):
        right[i] = -work.registers[eq.values[i]]
    if extended:
        right[size - 1] = _missed(point)
    else:
        miss = 1.0 + 0j
        for j in range(size):
            miss -= point.patch[j] * x[j]
        right[size - 1] = miss
    _substitute(work.matrix, work.pivots, right)
    for j in range(size):
        if extended:
            a, a_low = _sum(x[j].real, low[j].real, right[j].real, 0.0)
            b, b_low = _sum(x[j].imag, low[j].imag, right[j].imag, 0.0)
            x[j], low[j] = complex(a, b), complex(a_low, b_low)
        else:
            x[j] += right[j]
    length = norm(right)
    return length if np.isfinite(length) else np.inf
