"""Values at single times that satisfy hidden constraints stage by stage, compiled. Imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from dae_sdc.compiled import machine_newton as mn
from dae_sdc.compiled.pointwise import (
    ACCEPTED_CHANGE,
    LARGEST_SHIFT,
    MOST_HIDDEN_ITERATIONS,
    MOVES,
    ROUND_OFF,
    ROUNDING,
    STAGE_BYTES,
    HiddenMemory,
    StageMemory,
)
from dae_sdc.dae.compiling import RecordView, c_functions, call_residual, doubles, integers, within_compiled
from dae_sdc.dae.pointwise import FOLLOWS, SPARED, UNLIKELY_RATE

hidden_at, stage_at = RecordView(HiddenMemory).at, RecordView(StageMemory).at
TINY = float(np.finfo(float).tiny)


@within_compiled
def change_least(a: Any, s: Any, x: Any, time: Any, share: Any) -> Any:
    """The least change of the values of a stage by its linearised equations; False where there is none."""
    # Columns are in units of the weights, rows of norm 1.
    m, n, out, matrix, system = s.rows, s.columns, doubles(a.out), doubles(a.matrix), doubles(a.system)
    right, step, weights, jets = doubles(a.right), doubles(a.step), doubles(a.weights), integers(s.jets)
    call_residual(s.program, time, x, x, a.p, a.out)
    for k in range(m * n):
        matrix[k] = 0.0
    for e in range(s.entries):
        i, j, k = integers(s.row)[e], integers(s.column)[e], integers(s.followed)[e]
        if j >= 0:
            matrix[i * n + j] += out[m + e]
        if k >= 0 and share > 0.0:
            matrix[i * n + k] += share * out[m + e]
    for i in range(m):
        total = 0.0
        for j in range(n):
            matrix[i * n + j] *= weights[jets[j]]
            total += matrix[i * n + j] ** 2
        if not (0.0 < total < np.inf and abs(out[i]) < np.inf):
            return False
        norm = np.sqrt(total)
        right[i] = -out[i] / norm
        for j in range(n):
            matrix[i * n + j] /= norm
    for i in range(m):
        for j in range(m):
            if m == n:
                system[j * m + i] = matrix[i * n + j]
            else:
                total = 0.0
                for k in range(n):
                    total += matrix[i * n + k] * matrix[j * n + k]
                system[j * m + i] = total
    if not mn.lapack_factor(a.dgetrf, s.small, a.system, a.pivots):
        return False
    mn.dense_solve(m, mn.LARGEST_LOOP, a.dgetrs, s.small, a.system, a.pivots, a.right)
    for j in range(n):
        step[j] = right[j] if m == n else 0.0
        if m != n:
            for i in range(m):
                step[j] += matrix[i * n + j] * right[i]
        step[j] *= weights[jets[j]]
    return True


@within_compiled
def is_left_by_rounding(a: Any, s: Any, x: Any, j: Any) -> Any:
    """Whether the rounding of the terms of some equation explains the last change of a value."""
    # A value that is a sum of terms that cancel has no size of its own to compare its changes with.
    n, matrix, weights, jets, least = s.columns, doubles(a.matrix), doubles(a.weights), integers(s.jets), 0.0
    for i in range(s.rows):
        if matrix[i * n + j] != 0.0:
            terms = 0.0
            for k in range(n):
                terms += abs(matrix[i * n + k]) * abs(x[jets[k]]) / weights[jets[k]]
            least = max(least, terms / abs(matrix[i * n + j]))
    return abs(doubles(a.step)[j]) <= ROUNDING * least * weights[jets[j]]


@within_compiled
def solve_stage(a: Any, s: Any, at: Any, time: Any, share: Any) -> Any:
    """Solve the equations of a stage for its values in place; False where that fails."""
    # Unknowns that only the rates in it bind change by ``share`` times the changes of these.
    x, n, jets, step, start = doubles(at), s.columns, integers(s.jets), doubles(a.step), doubles(a.start)
    linear, change, shift = s.linear_following if share > 0.0 else s.linear, np.inf, 0.0
    for j in range(n):
        start[j] = x[jets[j]]
    for _ in range(MOST_HIDDEN_ITERATIONS):
        if not change_least(a, s, at, time, share):
            x[jets[0]] = np.nan
            return False
        for j in range(n):
            x[jets[j]] += step[j]
            if share > 0.0 and integers(s.follower)[j] >= 0:
                x[integers(s.follower)[j]] += share * step[j]
        change = 0.0
        for j in range(n):
            size = max(doubles(a.largest)[jets[j]], abs(x[jets[j]])) + TINY
            relative = abs(step[j]) / size
            if not relative < np.inf:
                return False
            if relative > max(ROUND_OFF, change) and linear == 0 and not is_left_by_rounding(a, s, x, j):
                change = relative
        if change <= ROUND_OFF:
            break
    if s.rows != n:
        for j in range(n):
            if doubles(a.is_state)[jets[j]] > 0.0:
                shift = max(shift, abs(x[jets[j]] - start[j]) / doubles(a.weights)[jets[j]])
    return change <= ACCEPTED_CHANGE and shift <= LARGEST_SHIFT


@within_compiled
def solve_stages(a: Any, at: Any, time: Any, share: Any) -> Any:
    """Solve all stages at a time; False where that fails."""
    # What follows leaves the constraints before it by as much as these are open at first; the last pass
    # leaves it where it is.
    done, x = False, doubles(at)
    for number in range(3 if share > 0.0 else 1):
        done = True
        for k in range(a.count):
            s = stage_at(a.stages + STAGE_BYTES * k)
            if s.rows > 0 and not solve_stage(a, s, at, time, share if number < 2 else 0.0):
                done = False
    for j in range(a.values):
        done = done and abs(x[j]) < np.inf
    return done


@within_compiled
def largest_change(a: Any, x: Any, before: Any, numbers: Any, count: Any) -> Any:
    """The largest change of some values or rates, relative to the sizes of their unknowns."""
    largest, places, of = 0.0, integers(numbers), integers(numbers + 8 * count)
    for k in range(count):
        size = abs(doubles(x)[places[k]] - doubles(before)[places[k]]) / doubles(a.sizes)[of[k]]
        if not size < np.inf:
            return size
        largest = max(largest, size)
    return largest


def _correct(where: Any, x: Any, times: Any, steps: Any, done: Any, count: Any) -> int:
    a = hidden_at(where)
    width = 8 * (a.values + 1)
    for number in range(count):
        at, time, h = x + width * number, doubles(times)[number], abs(doubles(steps)[number])
        for j in range(a.values + 1):
            doubles(a.before)[j] = doubles(a.other)[j] = doubles(at)[j]
        integers(done)[number] = solve_stages(a, at, time, 0.0)
        rate = h * largest_change(a, at, a.before, a.rates, a.rated)
        if not UNLIKELY_RATE < rate or not solve_stages(a, a.other, time, FOLLOWS * h):
            continue
        # At the start of a run the values are better than the derivative of the polynomial.
        moves = MOVES * largest_change(a, at, a.before, a.states, a.n)
        spared = h * largest_change(a, a.other, a.before, a.rates, a.rated) <= SPARED * rate
        if spared and largest_change(a, a.other, a.before, a.states, a.n) <= moves:
            integers(done)[number] = 1
            for j in range(a.values):
                doubles(at)[j] = doubles(a.other)[j]
    return 0


C_FUNCTIONS = c_functions({"correct": (_correct, types.int64(*6 * [types.int64]))})
"""What :class:`~dae_sdc.initial.hidden.HiddenConstraints` calls."""
