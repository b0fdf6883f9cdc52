"""The operations of :mod:`dae_sdc.sweepers.simultaneous` on a record in memory, compiled. Imports numba."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba import types

from dae_sdc.compiled import machine_newton as mn
from dae_sdc.compiled.triangular import PARTS, ROW_PARTS
from dae_sdc.dae import compiling, newton_checks
from dae_sdc.dae.compiling import RecordView, call_at, call_residual, doubles, integers, within_compiled
from dae_sdc.dae.newton import BACKWARD_ERROR
from dae_sdc.dae.newton_checks import DIRECTIONS
from dae_sdc.dae.scales import KEPT_RATE
from dae_sdc.dae.state import FARTHEST_EXTRAPOLATION
from dae_sdc.sweepers import simultaneous as own, steps_ahead
from dae_sdc.sweepers._machine_nodes import SweepMemory
from dae_sdc.sweepers._machine_stages import StagesMemory
from dae_sdc.sweepers.simultaneous import RELATIVE_ROUND_OFF
from dae_sdc.sweepers.sweep import CONTINUE, CONVERGED, INTEGRATE, MOST_SWEEPS, GoalNumbers
from dae_sdc.sweepers.teams import EVALUATE, FACTORIZE, FILTER, SOLVE, SPREAD
from dae_sdc.sweepers.tolerance import (
    AMPLIFICATION_OF_OTHERS,
    MULTIPLIER_AMPLIFICATION,
    ROUNDING_SHARE,
    TIME_PART_AT_INDEX_4,
)

KEPT_ROUNDING = 0.9  # Part of the rounding of multipliers that the next step of the same size expects.
# Error of the last stage, in units of that allowed to Newton's method, behind which no doubt remains.
CERTAIN = 1e-3

_view, _sizes_view = RecordView(StagesMemory), RecordView(steps_ahead.StepSizes)
stages_at, sizes_of_steps_at = _view.at, _sizes_view.at
sweep_memory_at, goal_numbers_at = RecordView(SweepMemory).at, RecordView(GoalNumbers).at

SIZES = ctypes.sizeof(steps_ahead.StepSizes) // 8  # Numbers of the sizes of steps.

# PEAK_PLACES, PEAK_HALVINGS: places in a step at which arguments of steep functions are compared, and
# halvings of the distance between them by which their largest value is found. UNSEEN_GROWTH: part of it by
# which it has to be larger than at all nodes.
PEAK_PLACES, PEAK_HALVINGS = 24, 6
UNSEEN_GROWTH = 0.5

BLOCK = 256  # Columns of stages that are transformed one block after the other: it stays in the cache.

TINY, EPS = float(np.finfo(float).tiny), float(np.finfo(float).eps)

complexes = compiling.pointer_to(types.complex128)


@within_compiled
def combine(a: Any, chosen: Any, columns: Any, matrix_at: Any, rows_at: Any, out_at: Any) -> Any:
    """Rows of the product of a matrix of shape (m, m) and m rows of n numbers, written to ``out_at``."""
    size, n, start, end = a.m, a.n, columns[0], columns[1]
    matrix, rows, out = doubles(matrix_at), doubles(rows_at), doubles(out_at)
    for i in range(chosen[0], chosen[1]):
        for j in range(start, end):
            out[i * n + j] = matrix[i * size] * rows[j]
        # Two rows at a time: what is written is read again half as often.
        for k in range(1, size - 1, 2):
            factor, next_factor = matrix[i * size + k], matrix[i * size + k + 1]
            for j in range(start, end):
                out[i * n + j] = out[i * n + j] + factor * rows[k * n + j] + next_factor * rows[k * n + n + j]
        if size % 2 == 0:
            for j in range(start, end):
                out[i * n + j] += matrix[i * size + size - 1] * rows[(size - 1) * n + j]


@within_compiled
def combined_row(m: Any, n: Any, weights_at: Any, rows_at: Any, out_at: Any) -> Any:
    """The sum of m rows of n numbers times their weights, written to ``out_at``."""
    weights, rows, out = doubles(weights_at), doubles(rows_at), doubles(out_at)
    for j in range(n):
        total = 0.0
        for k in range(m):
            total += weights[k] * rows[k * n + j]
        out[j] = total


@within_compiled
def put(a: Any, start: Any, end: Any) -> Any:
    """Compute the values at the stages, u = u_0 + h A U, of some unknowns."""
    m, n = a.m, a.n
    if a.explicit != 0:
        a.copy(a.u, a.base, 1)
        return
    combine(a, (0, m), (start, end), a.h_a, a.du, a.u)
    base, u = doubles(a.base), doubles(a.u)
    for i in range(m):
        for j in range(start, end):
            u[i * n + j] += base[j]


@within_compiled
def norm_of(a: Any, rows_at: Any, count: Any) -> Any:
    """Largest weighted root mean square of ``count`` rows of n numbers."""
    n, rows, weights, x = a.n, doubles(rows_at), doubles(a.weights), a.numbers
    result, worst = 0.0, 0
    for i in range(count):
        total, largest, place = 0.0, -1.0, 0
        for j in range(n):
            size = rows[i * n + j] * weights[j]
            size *= size
            total += size
            if size > largest:
                largest, place = size, j
        total = np.sqrt(total / n)
        if not total <= result:
            result, worst = total, place
            if not total == total:
                break
    x.worst = worst
    return result


@_view.method()
def _copy(a: Any, target: Any, source: Any, rows: Any) -> Any:
    mn.copy(target, source, rows * a.n)


@_view.method()
def _take_guess(a: Any) -> Any:
    """Begin the iteration with the guess for the derivatives of the stages."""
    a.copy(a.du, a.guess, a.m)
    put(a, 0, a.n)


@within_compiled
def continue_past(a: Any, h: Any, factor: Any) -> None:
    """Guess the only stage by extrapolation of the values before, and set what the formula takes of them."""
    n, count = a.n, a.past
    u, du = a.u_before - 8 * n * (count - 1), a.du_before - 8 * n * (count - 1)
    combined_row(count, n, a.of_past, u, a.base)
    combined_row(count, n, a.of_past + 8 * count, du, a.change)
    combined_row(count, n, a.of_past + 16 * count, u, a.guess)
    base, slopes, guess = doubles(a.base), doubles(a.change), doubles(a.guess)
    for j in range(n):
        base[j] += h * slopes[j]
        guess[j] = (guess[j] - base[j]) / factor if a.explicit == 0 else doubles(a.du_before)[j]


@within_compiled
def go_to_stage(a: Any, i: Any, h: Any) -> None:
    """Go to stage i: u' is guessed by that of the stage before, and algebraic unknowns stay."""
    n, A, row = a.n, doubles(a.A + 8 * a.rows * i), 8 * a.n * i
    a.stage, a.u, a.du, a.c = i, a.step_u + row, a.step_du + row, a.nodes + 8 * i
    a.jacobian_at = doubles(a.c)[0]
    if a.explicit == 0 and a.numbers.gamma != A[i]:
        a.numbers.gamma, a.numbers.factored = A[i], 0.0
    factor = h * a.numbers.gamma
    doubles(a.to_middle)[0], doubles(a.h_a)[0] = A[i], factor
    if a.past > 0:
        continue_past(a, h, factor)
        return
    u0, du, base, guess = doubles(a.u0), doubles(a.step_du), doubles(a.base), doubles(a.guess)
    u_before, du_before = doubles(a.u - 8 * n if i > 0 else a.u0), doubles(a.du - 8 * n if i > 0 else a.du0)
    for j in range(n):
        total = 0.0
        for k in range(i):
            total += A[k] * du[k * n + j]
        base[j] = u0[j] + h * total
        guess[j] = du_before[j] if j < a.n_diff else (u_before[j] - base[j]) / factor


@within_compiled
def begin_in_turn(a: Any, h: Any) -> None:
    """Go to the first stage that is to be solved; an explicit one has u' at the start."""
    n, u, du = a.n, doubles(a.step_u), doubles(a.step_du)
    first = 1 if doubles(a.A)[0] == 0.0 and a.explicit == 0 else 0
    for i in range(a.rows):
        for j in range(n):
            u[i * n + j] = doubles(a.u0)[j]
            du[i * n + j] = doubles(a.du0)[j] if i < first else 0.0
    go_to_stage(a, first, h)


@_view.method()
def _next_stage(a: Any, h: Any) -> Any:
    """Go on to the next stage of those that are solved in turn; False where there is none."""
    if a.in_turn == 0 or a.stage + 1 == a.rows:
        return False
    go_to_stage(a, a.stage + 1, h)
    return True


@_view.method()
def _residuals(a: Any, t0: Any, h: Any) -> Any:
    """F at the M stages; False where it is not finite."""
    a.counts.rhs += a.m
    a.time, a.step = t0, h
    if a.evaluate != 0:
        return call_at(a.evaluate, (a.own, 0, 0)) != 0
    return do_parts(a, EVALUATE, a.m)


@within_compiled
def solve_real(a: Any, x_at: Any) -> Any:
    """Solve with the matrix of the real eigenvalue, or that of a node, in place."""
    if a.slot >= 0:
        mn.solve_in_slot(mn.nodes_at(a.nodes_of), a.slot, x_at)
    elif a.slot == -2:
        call_at(a.by_node, (a.own, 0, x_at))
    elif a.substitute != 0:
        call_at(a.substitute, (a.own, 0, x_at))
    else:
        mn.dense_solve(a.n, mn.LARGEST_LOOP, a.dgetrs, a.small, a.real_lu, a.real_pivots, x_at)


@within_compiled
def solve_pair(a: Any, k: Any, x_at: Any) -> Any:
    """Solve with the matrix of complex eigenvalue k, in place: a row of real and a row of imaginary parts."""
    own_part = a.several * (k + 1)
    row_at, small = a.row + 16 * a.n * own_part, a.small + 16 * own_part
    n, x, row = a.n, doubles(x_at), complexes(row_at)
    for j in range(n):
        row[j] = complex(x[j], x[n + j])
    lu, pivots = a.pair_lu + 16 * n * n * k, a.pair_pivots + 4 * n * k
    if a.substitute != 0:
        call_at(a.substitute, (a.own, k + 1, row_at))
    elif n <= mn.LARGEST_LOOP:
        mn.loop_solve(n, complexes(lu), compiling.short_integers(pivots), row)
    else:
        mn.lapack_solve(a.zgetrs, small, lu, pivots, row_at)
    for j in range(n):
        x[j], x[n + j] = row[j].real, row[j].imag


@within_compiled
def solve_part(a: Any, k: Any) -> Any:
    """Transform F into the rows of matrix k, and solve with it."""
    n, first = a.n, a.m % 2
    if k == 0:
        if first == 1:
            combine(a, (0, 1), (0, n), a.to, a.value, a.transformed)
            solve_real(a, a.transformed)
        return
    row = first + 2 * (k - 1)
    combine(a, (row, row + 2), (0, n), a.to, a.value, a.transformed)
    solve_pair(a, k - 1, a.transformed + 8 * n * row)


@within_compiled
def spread_part(a: Any, part: Any, count: Any) -> Any:
    """Transform one of ``count`` parts of the unknowns back to the stages, and correct these."""
    m, n = a.m, a.n
    du, value = doubles(a.du), doubles(a.value)
    first, end = n * part // count, n * (part + 1) // count
    while first < end:
        start, first = first, min(first + BLOCK, end)
        combine(a, (0, m), (start, first), a.back, a.transformed, a.value)
        for i in range(m):
            for j in range(start, first):
                du[i * n + j] -= value[i * n + j]
        combine(a, (0, m), (start, first), a.h_a, a.value, a.change)
        put(a, start, first)


@_view.method()
def _correct(a: Any) -> Any:
    """Apply one Newton correction to the derivatives of the stages; returns its weighted norm."""
    do_parts(a, SOLVE, a.pairs + 1)
    do_parts(a, SPREAD, a.chunks)
    a.counts.newton += 1
    a.counts.solve += a.m % 2 + a.pairs
    return norm_of(a, a.change, a.m)


@within_compiled
def changed_residual(a: Any, time: Any, h: Any, factor: Any, which: Any) -> Any:
    """Write the change of F at the last stage along a direction; False where F is finite on neither side."""
    n, x, last = a.n, a.numbers, 8 * (a.m - 1) * a.n
    u, du, value = doubles(a.u + last), doubles(a.du + last), doubles(a.change + 8 * n)
    weights, direction = doubles(a.weights), doubles(a.directions + 8 * n * which)
    sizes = doubles(a.sizes)
    work, found = doubles(a.work), doubles(a.transformed)
    sign = 1.0
    for _ in range(2):
        for j in range(n):
            step = x.kappa / max(weights[j], x.kappa / max(sizes[j] + abs(u[j]), TINY))
            step *= sign * factor * direction[j]
            work[j], work[n + j] = u[j] if a.explicit else u[j] + step, du[j] + step / (h * x.gamma)
        a.counts.rhs += 1
        call_residual(a.residual, time, a.work, a.work + 8 * n, a.p, a.transformed)
        if mn.largest_of(found, 0, n) < np.inf:
            for j in range(n):
                found[j] -= value[j]
            return True
        sign = -1.0
    return False


@within_compiled
def within(a: Any, multiple: Any) -> Any:
    """Raise the allowed residuals to a multiple of the last change of F; whether all equations meet them."""
    left, found, allowed = doubles(a.change), doubles(a.transformed), doubles(a.error)
    met = True
    for j in range(a.n):
        allowed[j] = max(allowed[j], multiple * abs(found[j]))
        met = met and left[j] <= allowed[j]
    return met


@_view.method()
def _residual_is_small(a: Any, t0: Any, h: Any) -> Any:
    """Whether F at the stages is as small as the corrections say, see :mod:`dae_sdc.dae.newton_checks`."""
    if not a.residuals(t0, h):
        return False
    m, n = a.m, a.n
    value, left, allowed = doubles(a.value), doubles(a.change), doubles(a.error)
    for j in range(n):
        left[j], allowed[j] = 0.0, 0.0
        for i in range(m):
            left[j] = max(left[j], abs(value[i * n + j]))
        left[n + j] = value[(m - 1) * n + j]
        if a.noise != 0:
            left[j] = max(left[j] - doubles(a.noise)[j], 0.0)
    relative, time = a.numbers.relative, t0 + h * doubles(a.c)[m - 1]
    enlarged = max(1.0, newton_checks.LEAST_RELATIVE_STEP / relative)
    for which in range(DIRECTIONS):
        if not changed_residual(a, time, h, enlarged, which):
            return True
        if within(a, newton_checks.RESIDUAL_FACTOR / enlarged):
            return True
    for which in range(DIRECTIONS):
        if changed_residual(a, time, h, newton_checks.RESIDUAL_ROUNDING / relative, which) and within(
            a, newton_checks.RESIDUAL_NOISE
        ):
            return True
    return False


@within_compiled
def fits_at_end(a: Any, h: Any) -> Any:
    """Whether the kept Jacobian explains the last change of F at the last stage."""
    n, factor = a.n, h * a.numbers.gamma
    costly = a.refactorize != 0 or a.linearize != 0
    most = own.DOUBTED_DEVIATION if costly else own.CHEAPLY_DOUBTED_DEVIATION
    u, changed = doubles(a.u + 8 * (a.m - 1) * n), doubles(a.work)
    found, error, checked = doubles(a.transformed), doubles(a.error), doubles(a.checked)
    for j in range(n):
        error[j] = factor * found[j]
    a.filtered()
    for j in range(n):
        step = changed[j] - u[j]
        if checked[j] * step != 0.0 and abs(error[j] / step - 1.0) > most:
            return False
    return True


@within_compiled
def factorize_at_end(a: Any) -> Any:
    """Factorise the matrix of the last stage; how regular it is."""
    if a.refactorize == 0:
        return mn.factorize_rows(a.n, a.dgetrf, a.small, a.end_matrix, a.end_lu, a.end_pivots)
    a.counts.jacobian += 1
    a.counts.factorization += 1
    return mn.REGULAR if call_at(a.refactorize, (a.own, a.pairs + 1, 0)) != 0 else mn.SINGULAR


@within_compiled
def solve_at_end(a: Any) -> None:
    """Solve with the factors of the last stage for the error."""
    if a.refactorize != 0:
        call_at(a.substitute, (a.own, a.pairs + 1, a.error))
    else:
        mn.dense_solve(a.n, mn.LARGEST_LOOP, a.dgetrs, a.small, a.end_lu, a.end_pivots, a.error)


@_view.method()
def _end_error(a: Any, t0: Any, h: Any) -> Any:
    """Weighted correction of the last stage by its own Jacobian, 0 without doubt, infinite where unknown."""
    if a.checks == 0:
        return 0.0
    # Where the last step was in doubt this one is, too; that is seen first where a Jacobian takes more time.
    doubted = a.refactorize == 0 and a.linearize == 0 and 0.0 < a.numbers.end_error < np.inf
    if not doubted and fits_at_end(a, h):
        return 0.0
    if a.linearize != 0 and a.refactorize != 0:  # left to Python
        return np.inf
    factorizes = a.refactorize == 0 or integers(a.triangles + 8 * PARTS * (a.pairs + 1))[0] != 0
    refines = a.refine != 0 and a.numbers.costly > 0.0
    if not (factorizes or refines):
        return np.inf
    n, last, c, largest = a.n, 8 * (a.m - 1) * a.n, h * a.numbers.gamma, 0.0
    if a.linearize != 0:
        a.time, a.step, a.of_end = t0 + h, h, 1
        known = call_at(a.linearize, (a.own, a.u + last, a.du + last))
        a.of_end = 0
        if known == 0:
            return np.inf
    else:
        compiling.call_jacobian(a.jacobian, t0 + h, a.u + last, a.du + last, c, a.p, a.end_matrix)
    error, weights, checked = doubles(a.error), doubles(a.weights), doubles(a.checked)
    for j in range(n):
        error[j] = c * doubles(a.value + last)[j]
    if not (refines and call_at(a.refine, (a.own, 0, 0)) != 0):
        if not factorizes or factorize_at_end(a) == mn.SINGULAR:
            return np.inf
        solve_at_end(a)
    for j in range(n):
        largest = max(largest, checked[j] * weights[j] * abs(error[j]))
    return largest if largest > CERTAIN * a.numbers.kappa else 0.0


@within_compiled
def size_of_others(a: Any, above: Any) -> Any:
    """Largest square of weighted changes at a stage, without multipliers, of those ``above`` some sizes."""
    n, change, weights, others = a.n, doubles(a.change), doubles(a.weights), doubles(a.others)
    largest = 0.0
    for i in range(a.m):
        total = 0.0
        for j in range(n):
            size = abs(change[i * n + j])
            if above == 0 or size > doubles(above)[j]:
                total += (others[j] * size * weights[j]) ** 2
        if not total <= largest:
            largest = total
    return largest


@within_compiled
def put_noise(a: Any, time: Any, c: Any, certain: Any, by_sizes: Any) -> Any:
    """Write the error of unknowns by rounding of F at the last stage into ``work``, see rounding_noise."""
    n, last, spare = a.n, 8 * (a.m - 1) * a.n, a.data if a.refactorize != 0 else a.end_lu
    outside = a.refactorize != 0 and integers(a.triangles + 8 * PARTS * (a.pairs + 1))[0] == 0
    noise, terms, error = doubles(a.work), doubles(a.transformed), doubles(a.error)
    status = mn.HARDLY_REGULAR
    if not (outside or a.linearize != 0):
        mn.halves_at(a.jacobian, time, a.u + last, a.du + last, c, a.p, spare, a.end_matrix, a.entries)
        point = a.u + last, a.du + last
        mn.put_terms((n, a.indices, a.starts), spare, a.end_matrix, 1.0 / c, point, a.transformed)
        if by_sizes != 0:
            call_residual(a.term_sizes, time, a.u + last, a.du + last, a.p, a.error)
            for j in range(n):
                terms[j] = max(terms[j], error[j])
        for i in range(a.entries):
            doubles(a.end_matrix)[i] += doubles(spare)[i]
        status = factorize_at_end(a)
    if status != mn.REGULAR:
        a.time, a.step = time, c
        return status == mn.HARDLY_REGULAR and call_at(a.noise_at_end, (a.own, certain, by_sizes)) != 0
    mn.fill(a.work, n, TINY)
    for which in range(DIRECTIONS):
        for j in range(n):
            error[j] = c * EPS * terms[j] * doubles(a.directions + 8 * n * which)[j]
        solve_at_end(a)
        for j in range(n):
            noise[j] = max(noise[j], abs(error[j]))
    for j in range(n):
        multiplier = doubles(a.others)[j] == 0.0
        noise[j] *= MULTIPLIER_AMPLIFICATION if multiplier else AMPLIFICATION_OF_OTHERS
    return True


@within_compiled
def below_noise(a: Any) -> Any:
    """Whether changes of multipliers are below the error in ``work``, and those of others but for a part."""
    for i in range(a.m * a.n):
        if doubles(a.others)[i % a.n] == 0.0 and abs(doubles(a.change)[i]) > doubles(a.work)[i % a.n]:
            return False
    return size_of_others(a, a.work) <= a.n * a.numbers.kappa**2


@_view.method(**mn.RARE)
def _changes_by_rounding(a: Any, t0: Any, h: Any) -> Any:
    """Whether unknowns still change only by what rounding of F explains, beside a share of the tolerance."""
    # The weights of multipliers are then lowered to the accuracy that can be reached: their rounding grows
    # like 1 / h or faster. That of other unknowns has to stay far below the tolerance.
    n, x, change, weights, noise = a.n, a.numbers, doubles(a.change), doubles(a.weights), doubles(a.work)
    if a.amplifies == 0 or not mn.largest_of(change, 0, a.m * n) < np.inf:
        return False
    if not size_of_others(a, 0) <= n * max(x.kappa, ROUNDING_SHARE) ** 2:
        return False
    time, c = t0 + h, h * x.gamma
    if not (put_noise(a, time, c, 1, 0) and below_noise(a)):
        # Terms with unknowns near 0 are small beside constants, which the sizes of equations have too.
        if a.term_sizes == 0 and (a.tell_term_sizes == 0 or call_at(a.tell_term_sizes, (a.own, 0, 0)) == 0):
            return False
        if not (put_noise(a, time, c, 1, 1) and below_noise(a)):
            return False
    for j in range(n):
        if doubles(a.others)[j] == 0.0:
            doubles(a.rounding)[j] = noise[j]
            weights[j] = min(weights[j], 1.0 / noise[j])
    return a.residual_is_small(t0, h)


@within_compiled
def beyond_rounding(a: Any) -> Any:
    """Weighted norm of the estimated error without what rounding at the end explains of it."""
    if a.amplifies == 0:
        return np.inf
    # It is asked once or twice for a step, before or after work is counted, and counts none.
    rhs, jacobian, factorization, total = a.counts.rhs, a.counts.jacobian, a.counts.factorization, 0.0
    known = put_noise(a, a.called_time + a.called_step, a.called_step * a.numbers.gamma, 0, 0)
    a.counts.rhs, a.counts.jacobian, a.counts.factorization = rhs, jacobian, factorization
    if not known:
        return np.inf
    for j in range(a.n):
        part = max(0.0, abs(doubles(a.estimated)[j]) - doubles(a.work)[j])
        total += (part * doubles(a.weights)[j]) ** 2
    return np.sqrt(total / a.n)


@_view.method()
def _at_round_off(a: Any) -> Any:
    """Whether the last correction is as small as rounding lets it be."""
    m, n = a.m, a.n
    u, du, change, h_a = doubles(a.u), doubles(a.du), doubles(a.change), doubles(a.h_a)
    for i in range(m):
        for j in range(n):
            scale = abs(u[i * n + j])
            for k in range(m):
                scale += abs(h_a[i * m + k] * du[k * n + j])
            if not abs(change[i * n + j]) <= RELATIVE_ROUND_OFF * scale:
                return False
    return True


@_view.method(**mn.RARE)
def _residual_is_rounding(a: Any, t0: Any, h: Any) -> Any:
    if not a.residuals(t0, h):
        return False
    n, factor, terms = a.n, 1.0 / a.numbers.linearized, doubles(a.error)
    for i in range(a.m):
        value = doubles(a.value + 8 * n * i)
        point = a.u + 8 * n * i, a.du + 8 * n * i
        mn.put_terms((n, a.indices, a.starts), a.mass, a.stiffness, factor, point, a.error)
        for j in range(n):
            if not abs(value[j]) <= BACKWARD_ERROR * terms[j]:
                return False
    return True


@within_compiled
def linearize_at(a: Any, time: Any, u_at: Any, du_at: Any, h: Any) -> Any:
    """dF/du' and dF/du at a point; False where they are not finite."""
    a.time, a.step = time, h
    if a.linearize != 0:
        return call_at(a.linearize, (a.own, u_at, du_at)) != 0
    a.counts.jacobian += 1
    # dF/du from a Jacobian at the coefficient of its first use, so that no digits are lost there.
    c = h * a.numbers.gamma
    mn.halves_at(a.jacobian, time, u_at, du_at, c, a.p, a.mass, a.stiffness, a.entries)
    if mn.largest_of(doubles(a.stiffness), 0, a.entries) < np.inf:
        return True
    # Where the kernel of the Jacobian gives NaN, differences may still give a matrix.
    return a.numbers.plain == 0.0 and call_at(a.by_differences, (a.own, u_at, du_at)) != 0


@_view.method()
def _linearize_step(a: Any, t0: Any, h: Any) -> Any:
    """Evaluate the Jacobian at the guess in the middle of the step, or at that of the current stage."""
    m, n = a.m, a.n
    du_at, u_at = a.work, a.work + 8 * n
    combined_row(m, n, a.middle, a.guess, du_at)
    combined_row(m, n, a.to_middle, a.guess, u_at)
    u, base = doubles(u_at), doubles(a.base)
    for j in range(n):
        u[j] = base[j] + h * u[j]
    return linearize_at(a, t0 + a.jacobian_at * h, u_at, du_at, h)


@_view.method()
def _linearize_start(a: Any, t0: Any, h: Any) -> Any:
    return linearize_at(a, t0, a.u0, a.du0, h)


@within_compiled
def row_sizes(a: Any, factor: Any, out_at: Any) -> Any:
    """The largest size of an entry of each row of dF/du' and of ``factor`` times the stiffness."""
    n, out, is_sparse = a.n, doubles(out_at), a.refactorize != 0
    mass, stiffness, rows = doubles(a.mass), doubles(a.stiffness), compiling.short_integers(a.indices)
    mn.fill(out_at, n, 0.0)
    for entry in range(a.entries):
        i = rows[entry] if is_sparse else entry // n
        out[i] = max(out[i], abs(mass[entry]), factor * abs(stiffness[entry]))


@_view.method()
def _keep_row_sizes(a: Any, factor: Any) -> Any:
    """Remember the sizes of the rows of dF/du' and of ``factor`` times the kept dF/du."""
    row_sizes(a, factor, a.error)


@_view.method()
def _row_growth(a: Any) -> Any:
    """Largest ratio of the current size of a row of the matrix to its remembered size."""
    row_sizes(a, 1.0, a.work)
    now, before, growth = doubles(a.work), doubles(a.error), 0.0
    for i in range(a.n):
        if before[i] > 0.0 and now[i] > growth * before[i]:
            growth = now[i] / before[i]
    return growth


@within_compiled
def factorize_dense(a: Any, k: Any) -> Any:
    """LU factors of matrix k, of which the first is real; False where it is singular."""
    n, small, scale = a.n, a.small + 16 * a.several * k, complexes(a.coefficients)[k]
    mass, stiffness = doubles(a.mass), doubles(a.stiffness)
    if k == 0:
        lu, factor = doubles(a.real_lu), scale.real
        for i in range(n):
            for j in range(n):
                lu[j * n + i] = mass[i * n + j] + factor * stiffness[i * n + j]
        return mn.lapack_factor(a.dgetrf, small, a.real_lu, a.real_pivots)
    matrix_at = a.pair_lu + 16 * n * n * (k - 1)
    matrix = complexes(matrix_at)
    for i in range(n):
        for j in range(n):
            matrix[j * n + i] = mass[i * n + j] + scale * stiffness[i * n + j]
    regular = mn.lapack_factor(a.zgetrf, small, matrix_at, a.pair_pivots + 4 * n * (k - 1))
    for j in range(n):  # LAPACK does not tell those of columns below the smallest normal number
        regular = regular and matrix[j * n + j] != 0.0
    return regular


@within_compiled
def do_part(a: Any, kind: Any, part: Any) -> Any:
    """Do one part of a piece of work; False where F is not finite or a matrix is singular."""
    if kind == EVALUATE:
        row, time = 8 * part * a.n, a.time + a.step * doubles(a.c)[part]
        call_residual(a.residual, time, a.u + row, a.du + row, a.p, a.value + row)
        return mn.largest_of(doubles(a.value + row), 0, a.n) < np.inf
    if kind == FACTORIZE:
        if a.refactorize == 0:
            return factorize_dense(a, part)
        return call_at(a.refactorize, (a.own, part, 0)) != 0 or call_at(a.repivot, (a.own, part, 0)) != 0
    if kind == SOLVE:
        solve_part(a, part)
    elif kind == SPREAD:
        spread_part(a, part, a.chunks)
    else:
        solve_real(a, a.error)
    return True


@within_compiled
def do_parts(a: Any, kind: Any, count: Any) -> Any:
    """Do a piece of work, which a team shares where there is one, until a part fails; whether none did."""
    if a.share != 0:
        return call_at(a.share, (a.own, kind, count)) != 0
    for part in range(count):
        if not do_part(a, kind, part):
            return False
    return True


@_view.method()
def _factorize(a: Any, h: Any) -> Any:
    """Factorise dF/du' + h lambda dF/du for all eigenvalues lambda; False where one is singular."""
    x, coefficients = a.numbers, complexes(a.coefficients)
    ratio = h / x.linearized
    x.factored = 0.0
    a.counts.factorization += 1 + a.pairs
    coefficients[0] = ratio * x.gamma * x.implicit
    for k in range(a.pairs):
        coefficients[k + 1] = ratio * complexes(a.eigenvalues)[k]
    if not do_parts(a, FACTORIZE, a.pairs + 1):
        return False
    x.factored = h
    return True


@_view.method()
def _factorize_real(a: Any, h: Any) -> Any:
    """Factorise the matrix of the real eigenvalue, alone where it is sparse; False if it is singular."""
    if a.refactorize == 0:
        return a.factorize(h)
    x = a.numbers
    x.factored = 0.0
    a.counts.factorization += 1
    complexes(a.coefficients)[0] = h / x.linearized * x.gamma
    return do_parts(a, FACTORIZE, 1)


@within_compiled
def product(a: Any, matrix_at: Any, x_at: Any, out_at: Any) -> None:
    """The product of a matrix, row by row or of the pattern, and a row."""
    n, x, out, matrix = a.n, doubles(x_at), doubles(out_at), doubles(matrix_at)
    for i in range(n):
        total = 0.0
        for j in range(n if a.refactorize == 0 else 0):
            total += matrix[i * n + j] * x[j]
        out[i] = total
    rows, starts = compiling.short_integers(a.indices), compiling.short_integers(a.starts)
    for j in range(n if a.refactorize != 0 else 0):
        for k in range(starts[j], starts[j + 1]):
            out[rows[k]] += matrix[k] * x[j]


@within_compiled
def mass_times(a: Any, x_at: Any, out_at: Any) -> None:
    """The product of dF/du', which may be that of a node, and a row."""
    if a.slot == -2:
        a.copy(out_at, x_at, 1)
        call_at(a.by_node, (a.own, 1, out_at))
    else:
        own_mass = a.slot < 0
        mass = a.mass if own_mass else mn.nodes_at(a.nodes_of).masses + 8 * a.entries * a.slot
        product(a, mass, x_at, out_at)


@_view.method()
def _rate_defect(a: Any, h: Any, at_end: Any) -> Any:
    """Set the error to h gamma dF/du' (u'(t_0) - p'(t_0)), or a part of p' at the end; 0 if h is 0."""
    m, n = a.m, a.n
    if h == 0.0:
        mn.fill(a.error, n, 0.0)
        return
    combined_row(m, n, a.at_end if at_end else a.at_start, a.du, a.work)
    work, du0, factor = doubles(a.work), doubles(a.du0), h * a.numbers.gamma
    for j in range(n):
        work[j] = factor * (work[j] if at_end else du0[j] - work[j])
    mass_times(a, a.work, a.error)


@_view.method()
def _difference(a: Any, h: Any) -> Any:
    """Set the error to dF/du' times the difference of the two solutions of a pair."""
    combined_row(a.rows, a.n, a.differences, a.step_du, a.work)
    for j in range(a.n):
        doubles(a.work)[j] *= h
    mass_times(a, a.work, a.error)


@_view.method()
def _restore_higher(a: Any) -> Any:
    """Take the estimate before the last filter for unknowns of index 2 and higher; its weighted norm."""
    # k filters remove the error of an unknown of index k altogether.
    for j in range(a.n):
        if integers(a.exponents)[j] > 0:
            doubles(a.error)[j] = doubles(a.estimated)[j]
    return norm_of(a, a.error, 1)


@_view.method()
def _stiff_part(a: Any) -> Any:
    """Take from the error what one more filter leaves; its largest weighted entry of those checked."""
    whole, error, largest = doubles(a.transformed), doubles(a.error), 0.0
    u, near = doubles(a.u + 8 * (a.m - 1) * a.n), own.ERROR_NEAR_SIZE * a.numbers.relative / a.numbers.kappa
    a.copy(a.transformed, a.error, 1)
    a.times_mass()
    a.filtered()
    for j in range(a.n):
        error[j] = whole[j] - error[j]
        counted = doubles(a.weights)[j] * doubles(a.checked)[j]
        largest = max(largest, abs(error[j]) * counted / max(1.0, near * counted * abs(u[j])))
    return largest


@_view.method()
def _add_start_residual(a: Any, t0: Any, factor: Any, solved: Any) -> Any:
    """Add ``factor`` times F there, with u' of a ``solved`` step, to the error; False if not finite."""
    a.counts.rhs += 1
    slope = a.du0
    if solved:
        slope = a.work + 8 * a.n
        combined_row(a.m, a.n, a.at_start, a.du, slope)
    call_residual(a.residual, t0, a.u0, slope, a.p, a.work)
    error, value = doubles(a.error), doubles(a.work)
    for j in range(a.n):
        error[j] += factor * value[j]
    return mn.largest_of(error, 0, a.n) < np.inf


@_view.method()
def _times_mass(a: Any) -> Any:
    a.copy(a.work, a.error, 1)
    mass_times(a, a.work, a.error)


@_view.method()
def _filtered(a: Any) -> Any:
    """Solve with the matrix of the real eigenvalue for the error, in place; returns its weighted norm."""
    a.counts.solve += 1
    do_parts(a, FILTER, 1)
    return norm_of(a, a.error, 1)


@within_compiled
def put_state(a: Any, k: Any) -> Any:
    """Compute u at a place between the nodes."""
    weights_at = a.value_between + 8 * k * (a.m + 1)
    combined_row(a.m, a.n, weights_at + 8, a.u, a.work)
    u, u0, start = doubles(a.work), doubles(a.u0), doubles(weights_at)[0]
    for j in range(a.n):
        u[j] += start * u0[j]


@_view.method()
def _add_residual_between(a: Any, k: Any, t0: Any, h: Any, factor: Any) -> Any:
    """Add ``factor`` times F at a place between the nodes to the error; False where it is infinite."""
    n, du_at = a.n, a.work + 8 * a.n
    put_state(a, k)
    combined_row(a.m, n, a.slope_between + 8 * k * a.m, a.du, du_at)
    a.counts.rhs += 1
    call_residual(a.residual, t0 + h * doubles(a.places)[k], a.work, du_at, a.p, a.transformed)
    value, error = doubles(a.transformed), doubles(a.error)
    for j in range(n):
        if np.isnan(value[j]):
            return True
    for j in range(n):
        error[j] += factor * value[j]
    return mn.largest_of(error, 0, n) < np.inf


@within_compiled
def put_place(a: Any, theta: Any) -> Any:
    """Write the weights of the polynomials at a place behind those at the places between the nodes."""
    m, nodes = a.m, doubles(a.c)
    values = doubles(a.value_between + 8 * a.between * (m + 1))
    slopes = doubles(a.slope_between + 8 * a.between * m)
    doubles(a.places)[a.between], values[0] = theta, 1.0
    for i in range(m):
        product = 1.0
        for j in range(m):
            if j != i:
                product *= (theta - nodes[j]) / (nodes[i] - nodes[j])
        slopes[i], values[i + 1] = product, product * (theta / nodes[i])
        values[0] *= 1.0 - theta / nodes[i]


@within_compiled
def put_arguments(a: Any, t0: Any, h: Any, theta: Any) -> Any:
    """Compute the arguments of steep functions at a place in a step."""
    put_place(a, theta)
    put_state(a, a.between)
    call_residual(a.peaks, t0 + h * theta, a.work, a.work + 8 * a.n, a.p, a.peak_values)


@_view.method()
def _add_residual_at_peaks(a: Any, t0: Any, h: Any, factor: Any) -> Any:
    """Add ``factor`` times F where steep functions are far larger than at all nodes, if anywhere."""
    count, arguments, seen = a.peak_count, doubles(a.peak_values), doubles(a.peak_values + 8 * a.peak_count)
    best, at = doubles(a.peak_values + 16 * count), doubles(a.peak_values + 24 * count)
    for i in range(count):
        seen[i], best[i], at[i] = -np.inf, -np.inf, 0.0
    for k in range(a.m + 1):
        theta = 0.0 if k == 0 else doubles(a.c)[k - 1]
        u_at = a.u0 if k == 0 else a.u + 8 * (k - 1) * a.n
        call_residual(a.peaks, t0 + h * theta, u_at, a.work, a.p, a.peak_values)
        for i in range(count):
            seen[i] = max(seen[i], arguments[i])
    for k in range(1, PEAK_PLACES):
        put_arguments(a, t0, h, k / PEAK_PLACES)
        for i in range(count):
            if arguments[i] > best[i]:
                best[i], at[i] = arguments[i], k / PEAK_PLACES
    for i in range(count):
        # Beside the largest of the places lies a maximum.
        width = 1.0 / PEAK_PLACES
        for _ in range(PEAK_HALVINGS):
            width *= 0.5
            middle = at[i]
            for side in (-1.0, 1.0):
                put_arguments(a, t0, h, middle + side * width)
                if arguments[i] > best[i]:
                    best[i], at[i] = arguments[i], middle + side * width
        if best[i] > seen[i] + UNSEEN_GROWTH:
            put_place(a, at[i])
            if not a.add_residual_between(a.between, t0, h, factor / (1.0 + 0.2 * i)):
                return False
    return True


@within_compiled
def put_continuation(a: Any, start: Any, ratio: Any) -> None:
    """Compute the matrix from the nodes of a step to those of one that begins at ``start`` in its units."""
    m, nodes, factors, matrix = a.m, doubles(a.c), doubles(a.lagrange), doubles(a.continuation)
    for i in range(m):
        place = start + ratio * nodes[i]
        for k in range(m):
            product = factors[k]
            for j in range(m):
                if j != k:
                    product *= place - nodes[j]
            matrix[i * m + k] = product


@within_compiled
def begin_tableau(a: Any, h: Any) -> None:
    """Compute h times the matrix of the method, or go to the first of stages that are solved in turn."""
    if a.in_turn != 0:
        begin_in_turn(a, h)
        return
    matrix, scaled = doubles(a.A), doubles(a.h_a)
    for i in range(a.m * a.m):
        scaled[i] = h * matrix[i]


@within_compiled
def guess_by_slope(a: Any, s: Any, h: Any) -> None:
    """Guess the nodes by u' at the start: the last step was too short for its polynomial to be of use."""
    n, stride, du0 = a.n, s.arrays.u.stride, doubles(a.du0)
    u, du = doubles(s.arrays.u.place), doubles(s.arrays.du.place)
    for i in range(a.m):
        for j in range(n):
            slope = du0[j] if j < a.n_diff else 0.0
            du[i * stride + j] = slope
            u[i * stride + j] = doubles(a.u0)[j]
            if j < a.n_integrated:
                u[i * stride + j] += h * doubles(a.c)[i] * slope


@within_compiled
def take_swept(a: Any, s: Any) -> None:
    """Copy what was swept to the stages, and count the work."""
    n, stride, nodes, counts = a.n, s.arrays.u.stride, mn.nodes_at(s.nodes), a.counts
    u, du, rows, slopes = doubles(a.u), doubles(a.du), doubles(s.arrays.u.place), doubles(s.arrays.du.place)
    for i in range(a.m):
        for j in range(n):
            u[i * n + j], du[i * n + j] = rows[i * stride + j], slopes[i * stride + j]
    counts.rhs += nodes.counts.rhs
    counts.newton += nodes.counts.newton
    counts.jacobian += nodes.counts.jacobian
    counts.factorization += nodes.counts.factorization
    counts.solve += nodes.counts.solve
    nodes.counts.rhs, nodes.counts.newton, nodes.counts.jacobian = 0, 0, 0
    nodes.counts.factorization, nodes.counts.solve = 0, 0


@within_compiled
def swept_residual_is_small(a: Any, s: Any, t0: Any, h: Any) -> Any:
    """Whether the residual is small at u_0 + h sum_j a_ij U_j, which nodes may not have kept."""
    if s.arrays.keeps == 0:
        return a.residual_is_small(t0, h)
    n, kept, u, integral, u0 = a.n, a.u, doubles(a.guess), doubles(s.arrays.integral.place), doubles(a.u0)
    for i in range(a.m):
        for j in range(n):
            u[i * n + j] = doubles(kept)[i * n + j]
            if j < a.n_integrated:
                u[i * n + j] = u0[j] + integral[i * a.n_integrated + j]
    a.u = a.guess
    small = a.residual_is_small(t0, h)
    a.u = kept
    return small


@_view.method()
def _sweep_nodes(a: Any, t0: Any, h: Any) -> Any:
    s, x, n, m = sweep_memory_at(a.swept), a.numbers, a.n, a.m
    step, last, slots = s.step, s.last, integers(mn.nodes_at(s.nodes).slots)
    step.time, step.dt, s.arrays.start = t0, h, a.u0
    last.matrix.place, last.value.place, last.derivative.place = a.continuation, a.u_before, a.du_before
    last.matrix.stride, last.value.stride, last.derivative.stride = m, n, n
    last.wanted = CONTINUE
    if x.plain == 0.0 and (t0 + h - a.time_before) / a.step_before > FARTHEST_EXTRAPOLATION:
        last.wanted = INTEGRATE
        guess_by_slope(a, s, h)
    call_at(a.sweep, (a.swept, 0))
    take_swept(a, s)
    x.iterations = step.done * own.MOST_NEWTON_ITERATIONS / MOST_SWEEPS
    x.rate, x.end_error = 0.0, 0.0
    if step.reached < m:
        return own.LEFT_TO_PYTHON
    if x.plain > 0.0:
        return own.SOLVED if step.value <= step.tolerance else own.SLOW
    if step.how != CONVERGED:
        u, change, old = doubles(a.u), doubles(a.change), doubles(s.goal.old.place)
        for i in range(m):
            for j in range(n):
                change[i * n + j] = u[i * n + j] - old[i * s.goal.old.stride + j]
        if not a.changes_by_rounding(t0, h):
            x.rate = goal_numbers_at(s.goal.numbers).contraction
            call_at(a.sweep, (a.swept, 1))
            return own.SLOW
    if not swept_residual_is_small(a, s, t0, h):
        call_at(a.sweep, (a.swept, 1))
        return own.UNRESOLVED
    a.nodes_of, a.slot = s.nodes, slots[m - 1]
    return own.SOLVED


@_view.method()
def _forget_contraction(a: Any) -> None:
    if a.swept != 0:
        goal_numbers_at(sweep_memory_at(a.swept).goal.numbers).eta = 1.0


@_view.method()
def _forget(a: Any) -> None:
    x = a.numbers
    x.linearized, x.factored, x.eta, x.rate, x.at = 0.0, 0.0, 1.0, 1.0, np.nan


@_view.method()
def _continue_stages(a: Any, t0: Any, h: Any) -> Any:
    """Set u' at the start, and the guess, from what the last step has left behind."""
    m, n, n_diff, du0, values = a.m, a.n, a.n_diff, doubles(a.du0), doubles(a.u_before)
    mn.copy(a.du0, a.du_before + 8 * (m - 1) * n, n)
    for j in range(a.n_integrated if a.step_before > 0.0 else n, n):
        du0[j] = 0.0
        for i in range(m):
            du0[j] += doubles(a.end_row)[i] * values[i * n + j] / a.step_before
    begin_tableau(a, h)
    if a.in_turn != 0:
        return
    if a.end_row != 0:  # the stages are swept, and guessed there
        if a.numbers.plain == 0.0 and a.step_before > 0.0:  # steps of one size have one matrix
            put_continuation(a, (t0 - a.time_before) / a.step_before, h / a.step_before)
        return
    if a.step_before == 0.0 or (t0 + h - a.time_before) / a.step_before > FARTHEST_EXTRAPOLATION:
        guess = doubles(a.guess)
        for i in range(m):
            for j in range(n):
                guess[i * n + j] = du0[j] if j < n_diff else 0.0
        return
    put_continuation(a, (t0 - a.time_before) / a.step_before, h / a.step_before)
    combine(a, (0, m), (0, n), a.continuation, a.du_before, a.guess)
    if n_diff == n:
        return
    combine(a, (0, m), (n_diff, n), a.continuation, a.u_before, a.change)
    change, u0 = doubles(a.change), doubles(a.u0)
    for i in range(m):
        for j in range(n_diff, n):
            change[i * n + j] = (change[i * n + j] - u0[j]) / h
    # From index 2 on the derivative of algebraic unknowns is too rough to be extrapolated.
    combine(a, (0, m), (n_diff, n), a.inverse, a.change, a.guess)


@within_compiled
def allowed_error(rtol: Any, atol_at: Any, value: Any, size: Any, j: Any) -> Any:
    """The error that is allowed to unknown j, of a value and with its size in the run."""
    return rtol * value + doubles(atol_at)[j] if atol_at != 0 else rtol * (value + size)


@within_compiled
def write_weights(a: Any, h: Any, sizes_at: Any, least: Any) -> None:
    """Turn absolute values into weights by sizes of the unknowns; a higher index has a ``least`` factor."""
    n, out, sizes, exponents = a.n, doubles(a.weights), doubles(sizes_at), integers(a.exponents)
    for j in range(n):
        allowed = allowed_error(a.rtol, a.atol, out[j], sizes[j], j)
        factor, k = doubles(a.counted)[j], exponents[j]
        if k > 0:
            part = TIME_PART_AT_INDEX_4 if k > 2 else a.part
            factor *= a.high * max(min(1.0, part * h * a.rate) ** k, least)
            if k > 2:
                factor *= TIME_PART_AT_INDEX_4 ** (2 - k)
        out[j] = factor / max(allowed, TINY)


@_view.method()
def _weigh(a: Any, h: Any, known: Any, floor: Any) -> Any:
    """Write the weights of errors, with u' at the start where it is known."""
    n, u0, out, sizes = a.n, doubles(a.u0), doubles(a.weights), doubles(a.sizes)
    exponents = integers(a.exponents)
    for j in range(n):
        out[j] = abs(u0[j])
        if a.watched != 0:
            doubles(a.seen)[j] = max(doubles(a.seen)[j], out[j])
        if a.follows != 0:
            sizes[j] = max(sizes[j], out[j])
    if known and a.highest > 0:
        du0, expected, total, count = doubles(a.du0), doubles(a.expected), 0.0, 0
        for j in range(n):
            if exponents[j] == a.slowest:
                change = du0[j] / max(sizes[j], expected[j], out[j], TINY)
                total += change * change
                count += 1
        a.rate = max(np.sqrt(total / count), KEPT_RATE * a.rate, a.least_rate)
    write_weights(a, h, a.sizes, a.rtol if floor else 0.0)
    if a.amplifies != 0:  # of the steps before: iterations of this one would come to their rounding in vain
        for j in range(n):
            doubles(a.rounding)[j] *= KEPT_ROUNDING * min(1.0, a.step_before / h) ** exponents[j]
            out[j] = min(out[j], 1.0 / max(doubles(a.rounding)[j], TINY))


@_view.method()
def _begin_start(a: Any) -> None:
    """Begin with u' = 0, and write weights by sizes that unknowns are to have, too."""
    n, known = a.n, doubles(a.work)
    a.slot = -1
    mn.fill(a.du0, n, 0.0)
    mn.fill(a.guess, a.m * n, 0.0)
    a.weigh(0.0, False, False)
    for j in range(n):
        doubles(a.weights)[j] = abs(doubles(a.u0)[j])
        known[j] = max(doubles(a.sizes)[j], doubles(a.expected)[j])
    write_weights(a, 0.0, a.work, 0.0)


@_view.method()
def _weigh_plainly(a: Any, h: Any) -> None:
    n, k, out = a.n, a.n_diff, doubles(a.weights)
    of_rates = 1.0 / (h * (1.0 + mn.largest_of(doubles(a.du0), 0, k)))
    of_values = 1.0 / (1.0 + mn.largest_of(doubles(a.u0), k, n))
    for j in range(n):
        out[j] = of_rates if j < k else of_values


@_view.method()
def _weigh_within(a: Any, h: Any) -> Any:
    """Write the weights by the values at the solved stages where these are larger than known sizes."""
    n, u, out, sizes, largest = a.n, doubles(a.step_u), doubles(a.weights), doubles(a.sizes), doubles(a.work)
    if a.atol != 0:
        return False
    grown = False
    for j in range(n):
        largest[j] = abs(u[j])
        for i in range(1, a.rows):
            largest[j] = max(largest[j], abs(u[i * n + j]))
        grown = grown or largest[j] > 2.0 * sizes[j]
    if grown:
        for j in range(n):
            out[j], largest[j] = abs(u[j]), max(largest[j], sizes[j])
        write_weights(a, h, a.work, a.rtol)
    return grown


@within_compiled
def put_counts(work: Any, row: Any, sign: Any) -> None:
    """Add what was counted, times a sign, to the row of a step."""
    counts = work.counts
    row[2] += sign * counts.rhs
    row[3] += sign * counts.newton
    row[4] += sign * counts.jacobian
    row[5] += sign * counts.factorization
    row[6] += sign * counts.solve


@within_compiled
def begin_row(a: Any, work: Any) -> None:
    """Begin the row of a step, and remember the sizes of steps as they are before it."""
    row_at = a.work_rows + 72 * a.taken
    mn.copy(a.sizes_before, a.step_sizes, SIZES)
    mn.fill(row_at, 9, 0.0)
    put_counts(work, doubles(row_at), -1.0)


@_view.method()
def _begin_step(a: Any) -> None:
    block = 8 * a.rows * a.n
    a.step_u, a.step_du = a.run_u + block * a.taken, a.run_du + block * a.taken
    a.u, a.du = a.step_u, a.step_du
    begin_row(a, a)


@_view.method()
def _solved_ahead(a: Any, time: Any, h: Any) -> Any:
    """Solve and judge a step; False where there is doubt."""
    run, numbers = a.run, a.numbers
    a.begin_step()
    first, again = int(run.first), run.first + run.repeated > 0.0
    if first > 0:
        mn.fill(a.du0, a.n, 0.0)
        begin_tableau(a, h)
        mn.fill(a.guess, a.m * a.n, 0.0)
    else:
        a.continue_stages(time, h)
    a.weigh(h, first == 0, True)
    looks = again or h > own.GROWN_STEP * a.step_before
    run.status = a.solve_and_judge(time, h, first, False, looks)
    if run.status != own.SOLVED or not numbers.end_error <= own.END_SHARE * numbers.kappa:
        return False
    if first > 0:
        a.weigh(h, False, False)
        a.judge(time, h, first, False, looks)
        numbers.judged = 1.0
    if numbers.error >= 1.0 and (a.weigh_within(h) or again):
        a.judge(time, h, first, again, looks)
        numbers.judged = 2.0
    if first == 0 and own.SMALL_STEP_ERROR < numbers.error and h < min(a.step_before, run.noisy):
        return False
    if first > 0 and run.forgets > 0.0:
        a.forget()
    return not np.isnan(numbers.error)


@_view.method()
def _restore_sizes(a: Any) -> None:
    mn.copy(a.step_sizes, a.sizes_before, SIZES)


@_view.method()
def _end_step(a: Any, time: Any, h: Any) -> None:
    n, row = a.n, doubles(a.work_rows + 72 * a.taken)
    row[0], row[1], row[7] = time, h, a.numbers.plain
    put_counts(a, row, 1.0)
    mn.copy(a.u0, a.u + 8 * (a.m - 1) * n, n)
    if a.graded != 0:
        a.copy(a.estimates + 8 * n * a.taken, a.estimated, 1)
    if a.swept != 0:
        step = sweep_memory_at(a.swept).step
        row[7], row[8] = step.done, 0.0 if step.to_goal != 0 else step.value
    a.u_before, a.du_before, a.time_before, a.step_before = a.u, a.du, time, h
    a.taken += 1


@_view.method()
def _end_slope(a: Any) -> Any:
    du, largest = doubles(a.du + 8 * (a.m - 1) * a.n), 0.0
    for j in range(a.n_diff):
        largest = max(largest, abs(du[j] / max(doubles(a.sizes)[j], TINY)))
    return largest


@_view.method()
def _late_error(a: Any) -> Any:
    u, error, largest = doubles(a.u + 8 * (a.m - 1) * a.n), doubles(a.error), 0.0
    for j in range(a.n):
        counted = doubles(a.late_counted)[j]
        if counted > 0.0:
            allowed = allowed_error(a.late_rtol, a.late_atol, abs(u[j]), doubles(a.sizes)[j], j)
            largest = max(largest, abs(error[j]) * (counted / max(allowed, TINY)))
    return largest


@within_compiled
def last_stages(a: Any) -> Any:
    """The address of the stages of a step that tell of errors between its nodes."""
    return a.step_u + 8 * (a.rows - a.spread) * a.n if a.in_turn else a.u


@within_compiled
def last_coefficient(a: Any, which: Any, j: Any) -> Any:
    """The last Legendre coefficient of an unknown, less where those before tell that they fall."""
    count, n, u0, u, last, before = a.spread, a.n, doubles(a.u0), doubles(last_stages(a)), 0.0, 0.0
    for row in range(3):
        weights = doubles(a.last_coefficients + 8 * (3 * which + row) * (count + 1))
        total = weights[0] * u0[j]
        for i in range(count):
            total += weights[i + 1] * u[i * n + j]
        if row == 0:
            last = abs(total)
        else:
            before = max(before, abs(total))
    ratio = last / max(before, last, TINY)
    return last * (np.sqrt(ratio) if which == 0 else ratio)


@_view.method()
def _error_between(a: Any) -> Any:
    count, n, u, sizes, largest = a.spread, a.n, doubles(last_stages(a)), doubles(a.sizes), 0.0
    for j in range(n):
        counted = doubles(a.between_counted)[j]
        if counted > 0.0:
            size = 0.0
            for i in range(count):
                size = max(size, abs(u[i * n + j]))
            allowed = allowed_error(a.between_rtol, a.between_atol, size, sizes[j], j)
            part = min(last_coefficient(a, 0, j), last_coefficient(a, 1, j))
            largest = max(largest, part * (counted / max(allowed, TINY)))
    return largest


@within_compiled
def call_with(a: Any, what: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    """Call :func:`_work_at` for a step."""
    a.called_time, a.called_step = t0, h
    return call_at(a.working, (a.own, what, first + (4 if again else 0) + (8 if looks else 0)))


@_view.method()
def _judge(a: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    call_with(a, own.JUDGE, t0, h, first, again, looks)
    return a.numbers.error


@_view.method()
def _beyond_rounding(a: Any) -> Any:
    call_with(a, own.BEYOND, a.called_time, a.called_step, 1, False, False)
    return a.answered


@_view.method()
def _slope(a: Any, t0: Any, h: Any) -> Any:
    call_with(a, own.SLOPE, t0, h, 1, False, False)
    return a.answered


@_view.method()
def _solve_and_judge(a: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    if a.numbers.plain > 0.0 and a.swept == 0:
        a.weigh_plainly(h)
    return call_with(a, own.ADVANCE, t0, h, first, again, looks)


for _function in (
    *(steps_ahead.begin_approach, steps_ahead.approached, steps_ahead.next_size, steps_ahead.time_slack),
    *(steps_ahead.end_of_step, steps_ahead.clipped, steps_ahead.take_steps, steps_ahead.decided),
    *(steps_ahead.count_solved, steps_ahead.accepted_ahead),
    *(steps_ahead.rejected_ahead, steps_ahead.failed_ahead, steps_ahead.repeats, steps_ahead.shortest),
    *(steps_ahead.take_plain_steps, steps_ahead.first_step, steps_ahead.slope_at_start),
    *(own.solved_and_judged, own.corrections, own.iterate, own.linearize_near, own.solve_together),
    *(own.advance, own.estimate, own.error_at_end, own.defect, own.judge, own.renew, own.slope),
):
    within_compiled(_function)


CALLED = types.int64(*(types.int64,) * 3)  # Signature of C functions, which get the address of stages first.


def _work_at(address: Any, what: Any, flags: Any) -> Any:
    a = stages_at(address)
    step = a.called_time, a.called_step, flags & 3, flags & 4 != 0, flags & 8 != 0
    if what == own.ADVANCE:
        return own.solved_and_judged(a, *step)
    if what == own.RENEW:
        return int(own.renew(a, *step[:2]))
    if what == own.ROUNDING:
        return int(a.changes_by_rounding(*step[:2]))
    if what == own.SMALL:
        return int(a.residual_is_small(*step[:2]))
    if what == own.BEYOND:
        a.answered = beyond_rounding(a)
    elif what == own.SLOPE:
        a.answered = own.slope(a, *step[:2])
    else:
        own.judge(a, *step)
    return 0


def _act(address: Any, what: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    a, step = stages_at(address), (t0, h, first, again != 0, looks != 0)
    if what == own.ADVANCE:
        return float(a.solve_and_judge(*step))
    if what == own.JUDGE:
        return a.judge(*step)
    if what == own.RENEW or what == own.ROUNDING or what == own.SMALL:
        return float(call_with(a, what, *step))
    if what == own.NEXT:
        return 1.0 if a.next_stage(h) else 0.0
    if what == own.FIRST:
        return float(steps_ahead.first_step(a, t0, h))
    if what == own.WITHIN:
        return 1.0 if a.weigh_within(h) else 0.0
    if what == own.BETWEEN:
        return a.error_between()
    if what == own.BEYOND:
        return a.beyond_rounding()
    if what == own.STEPS:
        plain, sizes = a.numbers.plain > 0.0, sizes_of_steps_at(a.step_sizes)
        return float(steps_ahead.take_plain_steps(a) if plain else steps_ahead.take_steps(a, sizes))
    if what == own.AGAIN:
        go_to_stage(a, a.stage, h)
    elif what == own.CONTINUE:
        a.continue_stages(t0, h)
    elif what == own.WEIGH:
        a.weigh(h, again != 0, looks != 0)
    return 0.0


def _part_at(address: Any, kind: Any, part: Any) -> Any:
    return int(do_part(stages_at(address), kind, part))


refactor_complex, substitute_complex = mn.sparse_work(complexes)


def _refactorize_at(address: Any, k: Any, _: Any) -> Any:
    a = stages_at(address)
    n, size, own_part = a.n, a.entries, 16 * a.several * k
    parts, pattern = a.triangles + 8 * PARTS * k, a.patterns + 8 * ROW_PARTS * k
    if integers(parts)[0] == 0:
        return 0
    if k > a.pairs:
        return int(mn.refactor_real(parts, pattern, n, a.end_matrix, a.scratch))
    data_at, scratch = a.data + own_part * size, a.scratch + 4 * own_part * n
    mass, stiffness, coefficient = doubles(a.mass), doubles(a.stiffness), complexes(a.coefficients)[k]
    if k == 0:
        data, factor = doubles(data_at), coefficient.real
        for i in range(size):
            data[i] = mass[i] + factor * stiffness[i]
        regular = mn.refactor_real(parts, pattern, n, data_at, scratch)
    else:
        values = complexes(data_at)
        for i in range(size):
            values[i] = mass[i] + coefficient * stiffness[i]
        regular = refactor_complex(parts, pattern, n, data_at, scratch)
    if regular:
        integers(a.lasted)[k] += 1
    return int(regular)


def _substitute_at(address: Any, k: Any, x_at: Any) -> Any:
    a = stages_at(address)
    parts, n = a.triangles + 8 * PARTS * k, a.n
    if integers(parts)[0] == 0:
        return call_at(a.solve_outside, (address, k, x_at))
    if k == 0 or k > a.pairs:
        mn.substitute_real(parts, n, x_at, a.scratch)
    else:
        substitute_complex(parts, n, x_at, a.scratch + 64 * n * a.several * k)
    return 1


LONGEST_REFINEMENT = 10  # Most iterations in place of a factorisation of the matrix of the last stage.
SLOWEST_REFINEMENT = 0.5  # Contraction from which on they are given up.


def _refine_at(address: Any, _: Any, __: Any) -> Any:
    """Solve with the matrix of the last stage for the error by refinement with the factors at hand."""
    # What they leave of an equation whose dF/du has become far smaller falls slowly, and is small only where
    # the error is: the last correction has to be as small as what leaves no doubt.
    a = stages_at(address)
    n, rhs, solution, error = a.n, doubles(a.transformed), doubles(a.work), doubles(a.error)
    weights, checked, before = doubles(a.weights), doubles(a.checked), np.inf
    mn.copy(a.transformed, a.error, n)
    mn.fill(a.work, n, 0.0)
    for _ in range(LONGEST_REFINEMENT):
        a.counts.solve += 1
        if a.share != 0:  # the pivots may differ from rank to rank
            call_at(a.share, (address, FILTER, 1))
        else:
            call_at(a.substitute, (address, 0, a.error))
        largest = 0.0
        for j in range(n):
            solution[j] += error[j]
            largest = max(largest, checked[j] * weights[j] * abs(error[j]))
        if largest <= CERTAIN * a.numbers.kappa:
            a.counts.jacobian += 1
            a.copy(a.error, a.work, 1)
            return 1
        if not largest <= SLOWEST_REFINEMENT * before:
            break
        before = largest
        product(a, a.end_matrix, a.work, a.error)
        for j in range(n):
            error[j] = rhs[j] - error[j]
    a.copy(a.error, a.transformed, 1)
    return 0


_STEP = types.int64, types.int64, types.float64, types.float64

C_FUNCTIONS = compiling.c_functions(
    {
        "act": (_act, types.float64(*_STEP, *(types.int64,) * 3)),
        # By address, from several places: each would be compiled with a copy of it.
        "working": (_work_at, CALLED),
        "part": (_part_at, CALLED),
        "refactorize": (_refactorize_at, CALLED),
        "substitute": (_substitute_at, CALLED),
        "refine": (_refine_at, CALLED),
    }
)
"""What :mod:`dae_sdc.sweepers._machine_stages` calls."""
