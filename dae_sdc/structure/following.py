"""Determinants of blocks along a run, compiled. This imports numba.

All numbers that are kept from step to step stand in one array, whose parts begin at the places that the array
of integers gives, as every argument of a compiled function takes its time.
"""

from __future__ import annotations

import numpy as np

from dae_sdc.dae.compiling import inner, kept
from dae_sdc.dae.machine import call_residual
from dae_sdc.structure import parabola

ADDRESS, N, BLOCKS, EXPANDED, OUT, SQUARE, STATE, MIDDLE, VALUES, BETWEEN, SIGNS, UNITS, TIMES, HEADER = (
    range(14)
)
"""Integers: address of the program; number of unknowns, of determinants and of those that the program gives.
Then places of what it gives; of a matrix; of u and u' at the end of the last step and in the middle of this
one; of the determinants at the last three ends, a row each; of those in the middle; of their signs; of the
logarithms that count as 1; of the last three times. Behind the header, for each larger block, its size, the
number of its entries, and their places in the matrix."""

TURNED, INSIDE, BEFORE, BOUNCED = 1, 2, 4, 8
"""Marks of a step: a determinant has changed its sign; was perhaps 0 in the step; or near its start; or was
to change its sign and has not."""

LARGEST_POWER = 300.0


@inner
def from_pivots(matrix, size):  # type: ignore[no-untyped-def]
    """Sign of a determinant, and the logarithm of its size; the matrix is overwritten."""
    sign, power = 1.0, 0.0
    for k in range(size):
        at = k
        for i in range(k + 1, size):
            if abs(matrix[i, k]) > abs(matrix[at, k]):
                at = i
        pivot = matrix[at, k]
        if pivot == 0.0:
            return 0.0, 0.0
        if at != k:
            sign = -sign
            for j in range(k, size):
                matrix[k, j], matrix[at, j] = matrix[at, j], matrix[k, j]
        if pivot < 0.0:
            sign = -sign
        power += np.log(abs(pivot))
        for i in range(k + 1, size):
            if matrix[i, k] != 0.0:
                ratio = matrix[i, k] / pivot
                for j in range(k + 1, size):
                    matrix[i, j] -= ratio * matrix[k, j]
    return sign, power


@inner
def evaluate(ints, floats, p, t, u, du, at):  # type: ignore[no-untyped-def]
    """The determinants at a place, from ``at`` on; NaN where one has no value."""
    out = floats[ints[OUT] :]
    call_residual(ints[ADDRESS], t, u.ctypes.data, du.ctypes.data, p.ctypes.data, out.ctypes.data)
    count = ints[EXPANDED]
    for k in range(count):
        floats[at + k] = out[k]
    head, entry = HEADER, count
    for k in range(count, ints[BLOCKS]):
        size, entries = ints[head], ints[head + 1]
        matrix = floats[ints[SQUARE] : ints[SQUARE] + size * size].reshape(size, size)
        matrix[:] = 0.0
        for i in range(entries):
            place = ints[head + 2 + i]
            matrix[place // size, place % size] = out[entry + i]
        sign, power = from_pivots(matrix, size)
        if sign != 0.0:
            if np.isnan(floats[ints[UNITS] + k]) and np.isfinite(power):
                floats[ints[UNITS] + k] = power
            sign *= np.exp(min(power - floats[ints[UNITS] + k], LARGEST_POWER))
        floats[at + k] = sign
        head += 2 + entries
        entry += entries


foretold = inner(parabola.foretold)


@kept
def values(ints, floats, p, t, u, du):  # type: ignore[no-untyped-def]
    """The determinants at a place, into the row of those in the middle of a step."""
    evaluate(ints, floats, p, t, u, du, ints[BETWEEN])


@kept
def begin(ints, floats, p, t, u, du):  # type: ignore[no-untyped-def]
    """Begin at a place, and forget the steps before."""
    n, count, rows = ints[N], ints[BLOCKS], ints[VALUES]
    floats[rows : rows + 3 * count] = np.nan
    floats[ints[TIMES] : ints[TIMES] + 3] = np.nan
    last = rows + 2 * count
    evaluate(ints, floats, p, t, u, du, last)
    for k in range(count):
        value = floats[last + k]
        floats[ints[SIGNS] + k] = np.sign(value) if np.isfinite(value) else 0.0
    floats[ints[TIMES] + 2] = t
    state = ints[STATE]
    floats[state : state + n] = u
    floats[state + n : state + 2 * n] = du


@kept
def follow(ints, floats, p, t, u, du, deep):  # type: ignore[no-untyped-def]
    """Go on to the end of a step; returns the marks of the step."""
    n, count, rows = ints[N], ints[BLOCKS], ints[VALUES]
    times, state, middle, between = ints[TIMES], ints[STATE], ints[MIDDLE], ints[BETWEEN]
    for k in range(2 * count):
        floats[rows + k] = floats[rows + count + k]
    floats[times], floats[times + 1] = floats[times + 1], floats[times + 2]
    floats[times + 2] = t
    for i in range(n):
        floats[middle + i] = 0.5 * (floats[state + i] + u[i])
        floats[middle + n + i] = 0.5 * (floats[state + n + i] + du[i])
        floats[state + i] = u[i]
        floats[state + n + i] = du[i]
    halfway = 0.5 * (floats[times + 1] + t)
    evaluate(
        ints, floats, p, halfway, floats[middle : middle + n], floats[middle + n : middle + 2 * n], between
    )
    evaluate(ints, floats, p, t, u, du, rows + 2 * count)
    marks = 0
    a, b = floats[times + 1] - floats[times], floats[times + 2] - floats[times + 1]
    for k in range(count):
        first, second, third = floats[rows + k], floats[rows + count + k], floats[rows + 2 * count + k]
        sign = floats[ints[SIGNS] + k]
        if np.isfinite(third) and third != 0.0:
            if sign * third < 0.0:
                marks |= TURNED
            floats[ints[SIGNS] + k] = np.sign(third)
        inside = floats[between + k]
        if sign * inside < 0.0:
            marks |= TURNED
        h = 0.5 * b
        if second * third >= 0.0 and foretold(abs(second), abs(inside), abs(third), h, h) <= deep:
            marks |= INSIDE
        x, y, z = abs(first), abs(second), abs(third)
        if y <= x and y <= z and first * second >= 0.0 and second * third >= 0.0:
            if foretold(x, y, z, a, b) <= deep:
                marks |= BEFORE
        if second * third > 0.0 and second * (second + (second - first) * b / a) < 0.0:
            marks |= BOUNCED
    return marks
