"""Values at single times, compiled: by all equations, or by hidden constraints in stages. Imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from dae_sdc.compiled import machine_newton as mn, pointwise as own
from dae_sdc.dae import pointwise
from dae_sdc.dae.compiling import RecordView, c_functions, call_residual, doubles, integers, within_compiled
from dae_sdc.dae.pointwise import FOLLOWS, SPARED, TRUSTED, UNLIKELY_RATE, WEIGHT

# --- the operations of :func:`dae_sdc.dae.pointwise.solve_point` on memory ----------------------------------

_view = RecordView(own.PointMemory)
point_at = _view.at


@_view.method()
def _evaluate(a: Any) -> None:
    call_residual(a.residual, a.time, a.here, a.here + 8 * a.n, a.p, a.value)


@_view.method()
def _is_determined(a: Any) -> Any:
    return a.determined != 0


@within_compiled
def factorize_square(a: Any, follows: Any) -> Any:
    """Factorise the matrix of y' and z, where y changes by ``follows`` times y'; False if it is singular."""
    n, mass, stiffness = a.n, doubles(a.mass), doubles(a.stiffness)
    matrix, algebraic = doubles(a.matrix), doubles(a.algebraic)
    for i in range(n):
        for j in range(n):
            k = i * n + j
            matrix[k] = stiffness[k] if algebraic[j] > 0.0 else mass[k] + follows * stiffness[k]
    status = mn.factorize_rows(n, a.dgetrf, a.small, a.matrix, a.lu, a.pivots)
    if status == mn.HARDLY_REGULAR:  # whether it is singular, or an equation has small units, Python tells
        a.doubtful = 1
    return status == mn.REGULAR


@within_compiled
def solve_square(a: Any) -> Any:
    """Solve for F with the factors of y' and z."""
    mn.copy(a.right, a.value, a.n)
    mn.dense_solve(a.n, mn.LARGEST_LOOP, a.dgetrs, a.small, a.lu, a.pivots, a.right)
    return doubles(a.right)


@within_compiled
def rate_of_square(a: Any) -> Any:
    """The largest change of a derivative over the step, relative to the size, by these factors."""
    right, largest = solve_square(a), 0.0
    for j in range(a.n):
        if doubles(a.algebraic)[j] == 0.0:
            size = abs(right[j]) / doubles(a.sizes)[j]
            if not size <= largest:
                largest = size
    return a.h * largest


@within_compiled
def make_square(a: Any) -> Any:
    """Make factors of y' and z; False where F does not determine these."""
    n, mass, matrix, left = a.n, doubles(a.mass), doubles(a.matrix), 0.0
    for j in range(n):
        if doubles(a.algebraic)[j] > 0.0:
            for i in range(n):
                if mass[i * n + j] != 0.0:
                    return False
    if not factorize_square(a, 0.0):
        return False
    a.follows = 0
    rate = rate_of_square(a)
    right, value = doubles(a.right), doubles(a.value)
    for i in range(n):
        total = -value[i]
        for j in range(n):
            total += matrix[i * n + j] * right[j]
        left = max(left, abs(total))
    if not left <= TRUSTED * mn.largest_of(value, 0, n):
        return False
    if UNLIKELY_RATE < rate and rate < np.inf:
        if factorize_square(a, FOLLOWS * a.h) and rate_of_square(a) <= SPARED * rate:
            a.follows = 1
        else:
            factorize_square(a, 0.0)
    return True


@within_compiled
def norm_of_row(values: Any, n: Any) -> Any:
    """1 over the root of the sum of the squares of n numbers, 0 where these are 0."""
    total = 0.0
    for j in range(n):
        total += values[j] * values[j]
    return 1.0 / np.sqrt(total) if total > 0.0 else 0.0


@within_compiled
def make_nearest(a: Any) -> Any:
    """Make factors of the equations of the change of the least norm; False where they are singular."""
    n, m, mass, stiffness = a.n, 3 * a.n, doubles(a.mass), doubles(a.stiffness)
    sizes, lu, scale = doubles(a.sizes), doubles(a.lu), doubles(a.row_scale)
    mn.fill(a.lu, m * m, 0.0)
    for i in range(n):
        row = doubles(a.other)
        for j in range(n):
            row[j] = mass[i * n + j] * sizes[j]
        factor = norm_of_row(row, n)
        for j in range(n):
            if row[j] != 0.0:
                for k in range(n):
                    lu[(n + j) * m + n + k] += WEIGHT * WEIGHT * factor * row[j] * factor * row[k]
        for j in range(n):
            row[j], row[n + j] = row[j] / a.h, stiffness[i * n + j] * sizes[j]
        scale[i] = norm_of_row(row, 2 * n)
        for j in range(2 * n):
            lu[j * m + 2 * n + i] = lu[(2 * n + i) * m + j] = row[j] * scale[i]
    for j in range(n):
        lu[j * m + j] += 1.0
        lu[(n + j) * m + n + j] += WEIGHT
    return mn.lapack_factor(a.dgetrf, a.small + 16, a.lu, a.pivots)


@_view.method()
def _refactor(a: Any) -> Any:
    n, stiffness, point = a.n, doubles(a.stiffness), (a.time, a.here, a.here + 8 * a.n)
    mn.halves_at(a.jacobian, *point, a.scale, a.p, a.mass, a.stiffness, n * n)
    for k in range(n * n):
        stiffness[k] /= a.scale
        if not abs(stiffness[k]) < np.inf:
            return False
    a.doubtful = 0
    a.determined = 1 if a.square != 0 and make_square(a) else 0
    return a.doubtful == 0 and (a.determined != 0 or make_nearest(a))


@_view.method()
def _find_change(a: Any) -> Any:
    n, value, sizes, step, right = a.n, doubles(a.value), doubles(a.sizes), doubles(a.step), doubles(a.right)
    if a.determined != 0:
        solve_square(a)
        follows = FOLLOWS * a.h if a.follows != 0 else 0.0
        for j in range(n):
            algebraic = doubles(a.algebraic)[j] > 0.0
            step[j] = -right[j] if algebraic else -follows * right[j]
            step[n + j] = 0.0 if algebraic else -right[j]
    else:
        for j in range(n):
            right[j] = right[n + j] = 0.0
            right[2 * n + j] = -doubles(a.row_scale)[j] * value[j]
        mn.lapack_solve(a.dgetrs, a.small + 16, a.lu, a.pivots, a.right)
        for j in range(n):
            step[j], step[n + j] = sizes[j] * right[n + j], sizes[j] * right[j] / a.h
    change, rate = 0.0, 0.0
    for j in range(n):
        size, speed = abs(step[j]) / sizes[j], abs(step[n + j]) / sizes[j]
        if not (size < np.inf and speed < np.inf):
            return np.inf
        change, rate = max(change, size), max(rate, speed)
    return change if change + a.h * rate < np.inf else np.inf


@_view.method()
def _move(a: Any) -> Any:
    n, share = a.n, 1.0
    here, there, step, value = doubles(a.here), doubles(a.there), doubles(a.step), doubles(a.value)
    mn.copy(a.there, a.here, 2 * n)
    while True:
        for j in range(2 * n):
            here[j] = there[j] + share * step[j]
        a.evaluate()
        if mn.largest_of(value, 0, n) < np.inf:
            return share
        if share < pointwise.SMALLEST_SHARE:
            return 0.0
        share *= 0.5


within_compiled(pointwise.solve_point)


@within_compiled
def solve_at(a: Any, k: Any) -> Any:
    """Solve the pair at one of the times; False where that is left to Python."""
    n, size = a.n, doubles(a.steps)[k]
    u, du = a.u + 8 * n * k, a.du + 8 * n * k
    tries = 2 if a.borrows != 0 and size == a.h else 1
    a.time, a.h, a.borrows = doubles(a.times)[k], size, 0
    for attempt in range(tries):
        mn.copy(a.here, u, n)
        mn.copy(a.here + 8 * n, du, n)
        if pointwise.solve_point(a, attempt < tries - 1):
            mn.copy(u, a.here, n)
            if a.determined != 0:
                mn.copy(du, a.here + 8 * n, n)
            a.borrows = 1
            return True
    return False


def _solve_points(where: Any, first: Any, count: Any) -> Any:
    a = point_at(where)
    order = integers(a.order)
    for number in range(first, count):
        if not solve_at(a, order[number]):
            return number
    return count


# --- hidden constraints, stage by stage ---------------------------------------------------------------------

hidden_at, stage_at = RecordView(own.HiddenMemory).at, RecordView(own.StageMemory).at
TINY = float(np.finfo(float).tiny)


@within_compiled
def change_least(a: Any, s: Any, x: Any, time: Any, share: Any) -> Any:
    """The least change of the values of a stage by its linearised equations; False where there is none."""
    # Columns are in units of the weights, rows of norm 1.
    m, n, out, matrix, system = s.rows, s.columns, doubles(a.out), doubles(a.matrix), doubles(a.system)
    right, step, weights, jets = doubles(a.right), doubles(a.step), doubles(a.weights), integers(s.jets)
    call_residual(s.program, time, x, x, a.p, a.out)
    mn.fill(a.matrix, m * n, 0.0)
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
    return abs(doubles(a.step)[j]) <= own.ROUNDING * least * weights[jets[j]]


@within_compiled
def solve_stage(a: Any, s: Any, at: Any, time: Any, share: Any) -> Any:
    """Solve the equations of a stage for its values in place; False where that fails."""
    # Unknowns that only the rates in it bind change by ``share`` times the changes of these.
    x, n, jets, step, start = doubles(at), s.columns, integers(s.jets), doubles(a.step), doubles(a.start)
    linear, change, shift = s.linear_following if share > 0.0 else s.linear, np.inf, 0.0
    for j in range(n):
        start[j] = x[jets[j]]
    for _ in range(own.MOST_HIDDEN_ITERATIONS):
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
            if relative > max(own.ROUND_OFF, change) and linear == 0 and not is_left_by_rounding(a, s, x, j):
                change = relative
        if change <= own.ROUND_OFF:
            break
    if s.rows != n:
        for j in range(n):
            if doubles(a.is_state)[jets[j]] > 0.0:
                shift = max(shift, abs(x[jets[j]] - start[j]) / doubles(a.weights)[jets[j]])
    return change <= own.ACCEPTED_CHANGE and shift <= own.LARGEST_SHIFT


@within_compiled
def solve_stages(a: Any, at: Any, time: Any, share: Any) -> Any:
    """Solve all stages at a time; False where that fails."""
    # What follows leaves the constraints before it by as much as these are open at first; the last pass
    # leaves it where it is.
    done, x = False, doubles(at)
    for number in range(3 if share > 0.0 else 1):
        done = True
        for k in range(a.count):
            s = stage_at(a.stages + own.STAGE_BYTES * k)
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
        mn.copy(a.before, at, a.values + 1)
        mn.copy(a.other, at, a.values + 1)
        integers(done)[number] = solve_stages(a, at, time, 0.0)
        rate = h * largest_change(a, at, a.before, a.rates, a.rated)
        if not UNLIKELY_RATE < rate or not solve_stages(a, a.other, time, FOLLOWS * h):
            continue
        # At the start of a run the values are better than the derivative of the polynomial.
        moves = own.MOVES * largest_change(a, at, a.before, a.states, a.n)
        spared = h * largest_change(a, a.other, a.before, a.rates, a.rated) <= SPARED * rate
        if spared and largest_change(a, a.other, a.before, a.states, a.n) <= moves:
            integers(done)[number] = 1
            mn.copy(at, a.other, a.values)
    return 0


C_FUNCTIONS = c_functions(
    {
        "solve": (_solve_points, types.int64(types.int64, types.int64, types.int64)),
        "correct": (_correct, types.int64(*6 * [types.int64])),
    }
)
"""What :class:`~dae_sdc.compiled.pointwise.MachinePoints` and :class:`HiddenConstraints` call."""
