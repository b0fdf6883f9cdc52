"""Determinants of blocks along a run, compiled. This imports numba."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from dae_sdc.dae.compiling import RecordView, call_residual, doubles, integers, kept, within_compiled
from dae_sdc.dae.memory import fields
from dae_sdc.structure import parabola


class FollowerMemory(ctypes.Structure):
    """Record kept from step to step by Python and compiled code; entries are addresses unless noted."""

    _fields_ = fields(
        ctypes.c_int64,
        "program",  # address of the function that computes small determinants and entries of larger blocks
        "n count expanded",  # numbers: of unknowns, of determinants, and of those that the program computes
        "blocks",  # integers: for each larger block its size, number of entries, and their places in it
        "out",  # output of the program
        "matrix",  # workspace for a larger block
        "last middle",  # u and u' at the end of the last step and in the middle of this one, (2, n) each
        "ends",  # determinants at the last three ends of steps, (3, count)
        "between",  # determinants in the middle of the step, (count,)
        "signs",  # last signs of the determinants, 0 where none is known, (count,)
        "units",  # logarithms of the units of the determinants, (count,)
        "times",  # last three ends of steps, (3,)
    )


follower_at = RecordView(FollowerMemory).at

TURNED, INSIDE, BEFORE, BOUNCED = 1, 2, 4, 8
"""Marks of a step: a determinant has changed its sign; may have touched 0 in the step; or near its start; or
was extrapolated to change its sign but did not."""

LARGEST_POWER = 300.0

within_compiled(parabola.foretold)


@within_compiled
def from_pivots(matrix: Any, size: Any) -> Any:
    """Sign of a determinant, and the logarithm of its absolute value; the matrix is overwritten."""
    sign, power = 1.0, 0.0
    for k in range(size):
        at = k
        for i in range(k + 1, size):
            if abs(matrix[i * size + k]) > abs(matrix[at * size + k]):
                at = i
        pivot = matrix[at * size + k]
        if pivot == 0.0:
            return 0.0, 0.0
        if at != k:
            sign = -sign
            for j in range(k, size):
                upper = matrix[k * size + j]
                matrix[k * size + j] = matrix[at * size + j]
                matrix[at * size + j] = upper
        if pivot < 0.0:
            sign = -sign
        power += np.log(abs(pivot))
        for i in range(k + 1, size):
            if matrix[i * size + k] != 0.0:
                ratio = matrix[i * size + k] / pivot
                for j in range(k + 1, size):
                    matrix[i * size + j] -= ratio * matrix[k * size + j]
    return sign, power


@within_compiled
def evaluate(own: Any, p: Any, t: Any, u: Any, du: Any, to: Any) -> Any:
    """Write the determinants at a time and state to the row at address ``to``; NaN where one has no value."""
    call_residual(own.program, t, u, du, p, own.out)
    out, row, units = doubles(own.out), doubles(to), doubles(own.units)
    for k in range(own.expanded):
        row[k] = out[k]
    blocks, matrix = integers(own.blocks), doubles(own.matrix)
    head, entry = 0, own.expanded
    for k in range(own.expanded, own.count):
        size, entries = blocks[head], blocks[head + 1]
        for i in range(size * size):
            matrix[i] = 0.0
        for i in range(entries):
            matrix[blocks[head + 2 + i]] = out[entry + i]
        sign, power = from_pivots(matrix, size)
        if sign != 0.0:
            if np.isnan(units[k]) and np.isfinite(power):
                units[k] = power
            sign *= np.exp(min(power - units[k], LARGEST_POWER))
        row[k] = sign
        head += 2 + entries
        entry += entries


@kept
def values(address: Any, p: Any, t: Any, u: Any, du: Any) -> Any:
    """Write the determinants at a time and state to the row for the middle of a step."""
    own = follower_at(address)
    evaluate(own, p.ctypes.data, t, u.ctypes.data, du.ctypes.data, own.between)


@within_compiled
def advance(own: Any, p: Any, t: Any, u_at: Any, du_at: Any, deep: Any) -> Any:
    """Advance to the end of a step; the sum of its marks."""
    n, count, ends, times = own.n, own.count, doubles(own.ends), doubles(own.times)
    last, middle, u, du = doubles(own.last), doubles(own.middle), doubles(u_at), doubles(du_at)
    for k in range(2 * count):
        ends[k] = ends[count + k]
    times[0], times[1], times[2] = times[1], times[2], t
    for i in range(n):
        middle[i] = 0.5 * (last[i] + u[i])
        middle[n + i] = 0.5 * (last[n + i] + du[i])
        last[i], last[n + i] = u[i], du[i]
    evaluate(own, p, 0.5 * (times[1] + t), own.middle, own.middle + 8 * n, own.between)
    evaluate(own, p, t, u_at, du_at, own.ends + 16 * count)
    marks, between, signs = 0, doubles(own.between), doubles(own.signs)
    a, b = times[1] - times[0], times[2] - times[1]
    for k in range(count):
        first, second, third = ends[k], ends[count + k], ends[2 * count + k]
        sign, inside = signs[k], between[k]
        if np.isfinite(third) and third != 0.0:
            if sign * third < 0.0:
                marks |= TURNED
            signs[k] = np.sign(third)
        if sign * inside < 0.0:
            marks |= TURNED
        h = 0.5 * b
        if second * third >= 0.0:
            if parabola.foretold(abs(second), abs(inside), abs(third), h, h) <= deep:
                marks |= INSIDE
        x, y, z = abs(first), abs(second), abs(third)
        if y <= x and y <= z and first * second >= 0.0 and second * third >= 0.0:
            if parabola.foretold(x, y, z, a, b) <= deep:
                marks |= BEFORE
        if second * third > 0.0 and second * (second + (second - first) * b / a) < 0.0:
            marks |= BOUNCED
    return marks


@kept
def follow(address: Any, p: Any, times: Any, u: Any, du: Any, deep: Any) -> Any:
    """Advance along steps until one has marks; the number of these steps, and the sum of its marks."""
    own, size = follower_at(address), 8 * u.shape[1]
    for k in range(len(times)):
        state = u.ctypes.data + size * k, du.ctypes.data + size * k
        marks = advance(own, p.ctypes.data, times[k], *state, deep)
        if marks != 0:
            return k + 1, marks
    return len(times), 0
