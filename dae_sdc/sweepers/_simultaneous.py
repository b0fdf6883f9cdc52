"""The operations of :mod:`dae_sdc.sweepers.simultaneous` on a record in memory, compiled. Imports numba.

Sparse matrices are factorised and solved with by C functions of their own, see :class:`SparseStages`.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numba import types
from scipy import sparse

from dae_sdc.compiled import machine_newton as mn
from dae_sdc.compiled.triangular import (
    LARGEST_ROW_FILL,
    RowPattern,
    TriangularFactors,
    copy_for,
    superlu_factors,
)
from dae_sdc.dae import newton_checks
from dae_sdc.dae.compiling import (
    RecordView,
    c_function,
    call_at,
    call_jacobian,
    call_residual,
    doubles,
    integers,
    kept,
    pointer_to,
    short_integers,
    within_compiled,
)
from dae_sdc.dae.linear import sparse_factors
from dae_sdc.dae.memory import CallbackFailure, Counts, address, fields, tell_addresses
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import KEPT_RATE
from dae_sdc.dae.state import (
    FARTHEST_EXTRAPOLATION,
    MeshDAE,
    StepPolynomial,
    Vector,
    attach,
    coefficients_of_last,
    lagrange_weights,
)
from dae_sdc.errors import SingularMatrixError
from dae_sdc.sharing import once
from dae_sdc.sweepers import simultaneous as own, steps_ahead, tolerance
from dae_sdc.sweepers.simultaneous import (
    NOT_JUDGED,
    RELATIVE_ROUND_OFF,
    RunNumbers,
    Simultaneous,
    StepNumbers,
)
from dae_sdc.sweepers.step_error import ROUNDING_SHARE
from dae_sdc.sweepers.teams import EVALUATE, FACTORIZE, FILTER, SOLVE, SPREAD
from dae_sdc.sweepers.tolerance import Weights

TIME_PART_AT_INDEX_4 = tolerance.SETTINGS.time_part_at_index_4

# Error of the last stage, in units of that allowed to Newton's method, behind which no doubt remains.
CERTAIN = 1e-3


class StagesMemory(ctypes.Structure):
    """What stages are solved on, for Python and for compiled code: addresses of doubles unless said."""

    _fields_ = [
        ("numbers", StepNumbers),
        ("counts", Counts),
        ("run", RunNumbers),
        *fields(ctypes.c_double, "called_time called_step"),  # of the step that ``working`` is called for
        *fields(ctypes.c_double, "time step"),  # where F is evaluated in parts
        *fields(ctypes.c_double, "time_before step_before"),  # start and size of the step before
        *fields(ctypes.c_double, "jacobian_at"),  # where in the step the Jacobian is evaluated
        *fields(
            ctypes.c_double, "rtol rate least_rate part high between_rtol late_rtol"
        ),  # see dae_sdc.sweepers.tolerance.Weights and Scales
        *fields(
            ctypes.c_int64,
            "own working",  # addresses of this structure, and of :data:`working`
            # Of steps that are taken one after the other: their number and the most; the sizes of steps, as
            # numbers and as they were when a step began; rows of numbers, see ``begin_step``; their stages;
            # and the estimates of errors, where they are kept.
            "taken room step_sizes sizes_before work_rows run_u run_du graded estimates",
            # Of errors between nodes, see ``error_between``; 0 without an absolute tolerance.
            "last_coefficients between_counted between_atol",
            "late_counted late_atol",  # likewise of errors at the end of unknowns of index 2
            "share",  # in Python: does the parts of a piece of work, see dae_sdc.sweepers.teams; 0 without
            "checks",  # whether errors of the last stage are checked
            "between",  # number of places between the nodes at which F is checked
            "several chunks",  # 1 where each matrix has scratch memory of its own; parts of SPREAD
            "residual jacobian p",  # kernels, and their parameters
            "dgetrf dgetrs zgetrf zgetrs",  # functions of LAPACK
            "small",  # see machine_newton.NodesMemory, (1 or P + 1, 4)
            # numbers: of stages solved together, of unknowns, of those that are differential, of complex
            # pairs, of entries, and of stages of a step
            "m n n_diff pairs entries rows",
            # Whether stages are solved in turn, see :class:`StageOperations`; the current one; (S, n), those
            # of the step; (n,), what its h a_ij U_j are added to; (S,), weights of an error estimate, and c.
            "in_turn stage step_u step_du base differences nodes",
            "u_before du_before",  # (M, n), the stages of the step before
            "u0 du0 weights error estimated checked",  # (n,)
            "amplifies others",  # whether rounding counts in some unknowns, and 0 for these, (n,)
            "sizes expected seen atol counted exponents",  # (n,), see Weights and Scales; the last integers
            "follows watched highest slowest",  # whether sizes and seen follow u; extreme exponents
            "guess du u value transformed change",  # (M, n)
            "places value_between slope_between",  # (P,), (P, M + 1) and (P, M): between the nodes
            "h_a to back",  # (M, M)
            # (S, S), (M, M) and (M, M); the last takes stages of the step before to those of this one
            "A inverse continuation",
            "at_start middle at_end to_middle c lagrange",  # (M,); the last are 1 / prod_{j != k} (c_k - c_j)
            "work directions",  # (2, n), (DIRECTIONS, n)
            "mass",  # dF/du', row by row or the entries of the pattern
            "stiffness",  # dF/du times the coefficient at which it was evaluated
            "end_matrix end_lu end_pivots",  # the matrix of the last stage, and its factors where it is dense
            "real_lu real_pivots",  # LU factors, column by column, and integers of 32 bits
            "pair_lu pair_pivots",  # the factors of the pairs are complex, (P, n, n)
            "eigenvalues row",  # complex, (P,) and (1 or P + 1, n)
            "coefficients",  # of the stiffness in each matrix, the real one first; complex, (P + 1,)
            # Functions for sparse matrices, see SparseStages; 0 with dense ones.
            "refactorize substitute multiply",
            "repivot solve_outside",  # in Python: new pivots, and solves with factors of SuperLU
            "indices starts",  # of the CSC pattern, integers of 32 bits
            "data scratch",  # complex, (1 or P + 1, entries), the matrix, and (1 or P + 1, 3 n)
            "triangles",  # addresses of the parts of the factors, integers, (P + 2, 10); the first 0 without
            "patterns",  # addresses of the parts of the row patterns, integers, (P + 2, 3)
            "lasted",  # factorisations with the same pivots, integers, (P + 1,)
        ),
    ]


_view, _sizes_view = RecordView(StagesMemory), RecordView(steps_ahead.StepSizes)
stages_at, sizes_of_steps_at = _view.at, _sizes_view.at

SIZES = ctypes.sizeof(steps_ahead.StepSizes) // 8  # Numbers of the sizes of steps.

TINY = float(np.finfo(float).tiny)

complexes = pointer_to(types.complex128)


@within_compiled
def finite(values: Any, count: Any) -> Any:
    """Whether all numbers are finite."""
    for i in range(count):
        if not abs(values[i]) < np.inf:
            return False
    return True


@within_compiled
def combine(a: Any, chosen: Any, columns: Any, matrix_at: Any, rows_at: Any, out_at: Any) -> Any:
    """Rows of the product of a matrix of shape (m, m) and m rows of n numbers, written to ``out_at``."""
    size, n, start, end = a.m, a.n, columns[0], columns[1]
    matrix, rows, out = doubles(matrix_at), doubles(rows_at), doubles(out_at)
    for i in range(chosen[0], chosen[1]):
        for j in range(start, end):
            out[i * n + j] = matrix[i * size] * rows[j]
        for k in range(1, size):
            factor = matrix[i * size + k]
            for j in range(start, end):
                out[i * n + j] += factor * rows[k * n + j]


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
    for i in range(rows * a.n):
        doubles(target)[i] = doubles(source)[i]


@_view.method()
def _take_guess(a: Any) -> Any:
    a.copy(a.du, a.guess, a.m)
    put(a, 0, a.n)


@within_compiled
def go_to_stage(a: Any, i: Any, h: Any) -> None:
    """Go to stage i: u' is guessed by that of the stage before, and algebraic unknowns stay."""
    n, A, row = a.n, doubles(a.A + 8 * a.rows * i), 8 * a.n * i
    a.stage, a.u, a.du, a.c = i, a.step_u + row, a.step_du + row, a.nodes + 8 * i
    a.jacobian_at = doubles(a.c)[0]
    if a.numbers.gamma != A[i]:
        a.numbers.gamma, a.numbers.factored = A[i], 0.0
    factor = h * A[i]
    doubles(a.to_middle)[0], doubles(a.h_a)[0] = A[i], factor
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
    first = 1 if doubles(a.A)[0] == 0.0 else 0
    for i in range(a.rows):
        for j in range(n):
            u[i * n + j] = doubles(a.u0)[j]
            du[i * n + j] = doubles(a.du0)[j] if i < first else 0.0
    go_to_stage(a, first, h)


@_view.method()
def _next_stage(a: Any, h: Any) -> Any:
    if a.in_turn == 0 or a.stage + 1 == a.rows:
        return False
    go_to_stage(a, a.stage + 1, h)
    return True


@_view.method()
def _residuals(a: Any, t0: Any, h: Any) -> Any:
    a.counts.rhs += a.m
    a.time, a.step = t0, h
    return do_parts(a, EVALUATE, a.m)


@within_compiled
def solve_real(a: Any, x_at: Any) -> Any:
    """Solve with the matrix of the real eigenvalue, in place."""
    if a.substitute != 0:
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
        mn.loop_solve(n, complexes(lu), short_integers(pivots), row)
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
    start, end = n * part // count, n * (part + 1) // count
    combine(a, (0, m), (start, end), a.back, a.transformed, a.value)
    du, value = doubles(a.du), doubles(a.value)
    for i in range(m):
        for j in range(start, end):
            du[i * n + j] -= value[i * n + j]
    combine(a, (0, m), (start, end), a.h_a, a.value, a.change)
    put(a, start, end)


@_view.method()
def _correct(a: Any) -> Any:
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
            work[j], work[n + j] = u[j] + step, du[j] + step / (h * x.gamma)
        a.counts.rhs += 1
        call_residual(a.residual, time, a.work, a.work + 8 * n, a.p, a.transformed)
        if finite(found, n):
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
    if not a.residuals(t0, h):
        return False
    m, n = a.m, a.n
    value, left, allowed = doubles(a.value), doubles(a.change), doubles(a.error)
    for j in range(n):
        left[j], allowed[j] = 0.0, 0.0
        for i in range(m):
            left[j] = max(left[j], abs(value[i * n + j]))
        left[n + j] = value[(m - 1) * n + j]
    relative, time = a.numbers.relative, t0 + h * doubles(a.c)[m - 1]
    enlarged = max(1.0, newton_checks.LEAST_RELATIVE_STEP / relative)
    for which in range(newton_checks.DIRECTIONS):
        if not changed_residual(a, time, h, enlarged, which):
            return True
        if within(a, newton_checks.RESIDUAL_FACTOR / enlarged):
            return True
    for which in range(newton_checks.DIRECTIONS):
        if changed_residual(a, time, h, newton_checks.RESIDUAL_ROUNDING / relative, which) and within(
            a, newton_checks.RESIDUAL_NOISE
        ):
            return True
    return False


@within_compiled
def fits_at_end(a: Any, h: Any) -> Any:
    """Whether the kept Jacobian explains the last change of F at the last stage."""
    n, factor = a.n, h * a.numbers.gamma
    most = own.DOUBTED_DEVIATION if a.refactorize != 0 else own.CHEAPLY_DOUBTED_DEVIATION
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
def solved_at_end(a: Any) -> Any:
    """Factorise the matrix of the last stage, and solve with it for the error; False where that fails."""
    n, rows, lu = a.n, doubles(a.end_matrix), doubles(a.end_lu)
    if a.refactorize != 0:
        k, at = a.pairs + 1, a.error
        a.counts.jacobian += 1
        a.counts.factorization += 1
        return call_at(a.refactorize, (a.own, k, 0)) != 0 and call_at(a.substitute, (a.own, k, at)) != 0
    for i in range(n):
        for j in range(n):
            lu[j * n + i] = rows[i * n + j]
    if not mn.lapack_factor(a.dgetrf, a.small, a.end_lu, a.end_pivots):
        return False
    mn.dense_solve(n, mn.LARGEST_LOOP, a.dgetrs, a.small, a.end_lu, a.end_pivots, a.error)
    return True


@_view.method()
def _end_error(a: Any, t0: Any, h: Any) -> Any:
    if a.checks == 0:
        return 0.0
    # Where the last step was in doubt this one is, too; that is cheap to see where matrices are sparse.
    doubted = a.refactorize == 0 and 0.0 < a.numbers.end_error < np.inf
    if not doubted and fits_at_end(a, h):
        return 0.0
    if a.refactorize != 0 and integers(a.triangles + 8 * mn.PARTS * (a.pairs + 1))[0] == 0:
        return np.inf
    n, last, c, largest = a.n, 8 * (a.m - 1) * a.n, h * a.numbers.gamma, 0.0
    call_jacobian(a.jacobian, t0 + h, a.u + last, a.du + last, c, a.p, a.end_matrix)
    error, weights, checked = doubles(a.error), doubles(a.weights), doubles(a.checked)
    for j in range(n):
        error[j] = c * doubles(a.value + last)[j]
    if not solved_at_end(a):
        return np.inf
    for j in range(n):
        largest = max(largest, checked[j] * weights[j] * abs(error[j]))
    return largest if largest > CERTAIN * a.numbers.kappa else 0.0


@_view.method()
def _may_be_rounding(a: Any) -> Any:
    n, change, weights, others = a.n, doubles(a.change), doubles(a.weights), doubles(a.others)
    if a.amplifies == 0 or not finite(change, a.m * n):
        return False
    largest = n * max(a.numbers.kappa, ROUNDING_SHARE) ** 2
    for i in range(a.m):
        total = 0.0
        for j in range(n):
            size = others[j] * change[i * n + j] * weights[j]
            total += size * size
        if not total <= largest:
            return False
    return True


@_view.method()
def _at_round_off(a: Any) -> Any:
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


@within_compiled
def linearize_at(a: Any, time: Any, u_at: Any, du_at: Any, h: Any) -> Any:
    """dF/du' and dF/du at a point; False where they are not finite."""
    a.counts.jacobian += 1
    # dF/du from a Jacobian at the coefficient of its first use, so that no digits are lost there.
    c = h * a.numbers.gamma
    mn.halves_at(a.jacobian, time, u_at, du_at, c, a.p, a.mass, a.stiffness, a.entries)
    return finite(doubles(a.stiffness), a.entries)


@_view.method()
def _linearize_step(a: Any, t0: Any, h: Any) -> Any:
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
    mass, stiffness, rows = doubles(a.mass), doubles(a.stiffness), short_integers(a.indices)
    for i in range(n):
        out[i] = 0.0
    for entry in range(a.entries):
        i = rows[entry] if is_sparse else entry // n
        out[i] = max(out[i], abs(mass[entry]), factor * abs(stiffness[entry]))


@_view.method()
def _keep_row_sizes(a: Any, factor: Any) -> Any:
    row_sizes(a, factor, a.error)


@_view.method()
def _row_growth(a: Any) -> Any:
    row_sizes(a, 1.0, a.work)
    now, before, growth = doubles(a.work), doubles(a.error), 0.0
    for i in range(a.n):
        if before[i] > 0.0 and now[i] > growth * before[i]:
            growth = now[i] / before[i]
    return growth


@within_compiled
def factorize_complex(n: Any, function: Any, small: Any, matrix_at: Any, pivots: Any) -> Any:
    """LU factors of a complex matrix stored by columns, in place; False where a pivot is zero."""
    regular, matrix = mn.lapack_factor(function, small, matrix_at, pivots), complexes(matrix_at)
    for j in range(n):  # LAPACK does not tell those of columns below the smallest normal number
        regular = regular and matrix[j * n + j] != 0.0
    return regular


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
    return factorize_complex(n, a.zgetrf, small, matrix_at, a.pair_pivots + 4 * n * (k - 1))


@within_compiled
def do_part(a: Any, kind: Any, part: Any) -> Any:
    """Do one part of a piece of work; False where F is not finite or a matrix is singular."""
    if kind == EVALUATE:
        row, time = 8 * part * a.n, a.time + a.step * doubles(a.c)[part]
        call_residual(a.residual, time, a.u + row, a.du + row, a.p, a.value + row)
        return finite(doubles(a.value + row), a.n)
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
    x, coefficients = a.numbers, complexes(a.coefficients)
    ratio = h / x.linearized
    x.factored = 0.0
    a.counts.factorization += 1 + a.pairs
    coefficients[0] = ratio * x.gamma
    for k in range(a.pairs):
        coefficients[k + 1] = ratio * complexes(a.eigenvalues)[k]
    if not do_parts(a, FACTORIZE, a.pairs + 1):
        return False
    x.factored = h
    return True


@_view.method()
def _factorize_real(a: Any, h: Any) -> Any:
    if a.refactorize == 0:
        return a.factorize(h)
    x = a.numbers
    x.factored = 0.0
    a.counts.factorization += 1
    complexes(a.coefficients)[0] = h / x.linearized * x.gamma
    return do_parts(a, FACTORIZE, 1)


@within_compiled
def mass_times(a: Any, x_at: Any, out_at: Any) -> Any:
    """The product of dF/du' and a row."""
    if a.multiply != 0:
        call_at(a.multiply, (a.own, x_at, out_at))
        return
    n, x, out, mass = a.n, doubles(x_at), doubles(out_at), doubles(a.mass)
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += mass[i * n + j] * x[j]
        out[i] = total


@_view.method()
def _rate_defect(a: Any, h: Any, at_end: Any) -> Any:
    m, n = a.m, a.n
    error = doubles(a.error)
    if h == 0.0:
        for j in range(n):
            error[j] = 0.0
        return
    combined_row(m, n, a.at_end if at_end else a.at_start, a.du, a.work)
    work, du0, factor = doubles(a.work), doubles(a.du0), h * a.numbers.gamma
    for j in range(n):
        work[j] = factor * (work[j] if at_end else du0[j] - work[j])
    mass_times(a, a.work, a.error)


@_view.method()
def _difference(a: Any, h: Any) -> Any:
    combined_row(a.rows, a.n, a.differences, a.step_du, a.work)
    for j in range(a.n):
        doubles(a.work)[j] *= h
    mass_times(a, a.work, a.error)


@_view.method()
def _restore_higher(a: Any) -> Any:
    for j in range(a.n):
        if integers(a.exponents)[j] > 0:
            doubles(a.error)[j] = doubles(a.estimated)[j]
    return norm_of(a, a.error, 1)


@_view.method()
def _stiff_part(a: Any) -> Any:
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
    a.counts.rhs += 1
    slope = a.du0
    if solved:
        slope = a.work + 8 * a.n
        combined_row(a.m, a.n, a.at_start, a.du, slope)
    call_residual(a.residual, t0, a.u0, slope, a.p, a.work)
    error, value = doubles(a.error), doubles(a.work)
    for j in range(a.n):
        error[j] += factor * value[j]
    return finite(error, a.n)


@_view.method()
def _times_mass(a: Any) -> Any:
    a.copy(a.work, a.error, 1)
    mass_times(a, a.work, a.error)


@_view.method()
def _filtered(a: Any) -> Any:
    a.counts.solve += 1
    do_parts(a, FILTER, 1)
    return norm_of(a, a.error, 1)


@_view.method()
def _add_residual_between(a: Any, k: Any, t0: Any, h: Any, factor: Any) -> Any:
    m, n, u_at, du_at = a.m, a.n, a.work, a.work + 8 * a.n
    combined_row(m, n, a.slope_between + 8 * k * m, a.du, du_at)
    combined_row(m, n, a.value_between + 8 * (k * (m + 1) + 1), a.u, u_at)
    u, u0, start = doubles(u_at), doubles(a.u0), doubles(a.value_between)[k * (m + 1)]
    for j in range(n):
        u[j] += start * u0[j]
    a.counts.rhs += 1
    call_residual(a.residual, t0 + h * doubles(a.places)[k], u_at, du_at, a.p, a.transformed)
    value, error = doubles(a.transformed), doubles(a.error)
    for j in range(n):
        if np.isnan(value[j]):
            return True
    for j in range(n):
        error[j] += factor * value[j]
    return finite(error, n)


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


@_view.method()
def _begin_stages(a: Any, h: Any) -> None:
    for j in range(a.n):
        doubles(a.du0)[j] = 0.0
    begin_tableau(a, h)
    for j in range(a.m * a.n):
        doubles(a.guess)[j] = 0.0


@_view.method()
def _forget(a: Any) -> None:
    x = a.numbers
    x.linearized, x.factored, x.eta, x.rate, x.at = 0.0, 0.0, 1.0, 1.0, np.nan


@_view.method()
def _continue_stages(a: Any, t0: Any, h: Any) -> Any:
    m, n, n_diff, last = a.m, a.n, a.n_diff, (a.m - 1) * a.n
    du0, before = doubles(a.du0), doubles(a.du_before)
    for j in range(n):
        du0[j] = before[last + j]
    begin_tableau(a, h)
    if a.in_turn != 0:
        return
    if (t0 + h - a.time_before) / a.step_before > FARTHEST_EXTRAPOLATION:
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


@_view.method()
def _weigh_within(a: Any, h: Any) -> Any:
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
def put_counts(a: Any, row_at: Any, sign: Any) -> None:
    """Add what was counted, times a sign, to the last numbers of a row of a step."""
    row, counts = doubles(row_at), a.counts
    row[2] += sign * counts.rhs
    row[3] += sign * counts.newton
    row[4] += sign * counts.jacobian
    row[5] += sign * counts.factorization
    row[6] += sign * counts.solve


@_view.method()
def _begin_step(a: Any) -> None:
    block, row_at, now, before = 8 * a.rows * a.n, a.work_rows + 56 * a.taken, a.step_sizes, a.sizes_before
    a.step_u, a.step_du = a.run_u + block * a.taken, a.run_du + block * a.taken
    a.u, a.du = a.step_u, a.step_du
    for i in range(SIZES):
        doubles(before)[i] = doubles(now)[i]
    for i in range(7):
        doubles(row_at)[i] = 0.0
    put_counts(a, row_at, -1.0)


@_view.method()
def _restore_sizes(a: Any) -> None:
    for i in range(SIZES):
        doubles(a.step_sizes)[i] = doubles(a.sizes_before)[i]


@_view.method()
def _end_step(a: Any, time: Any, h: Any) -> None:
    row_at, n, u0, u = a.work_rows + 56 * a.taken, a.n, doubles(a.u0), doubles(a.u + 8 * (a.m - 1) * a.n)
    row = doubles(row_at)
    row[0], row[1] = time, h
    put_counts(a, row_at, 1.0)
    for j in range(n):
        u0[j] = u[j]
    if a.graded != 0:
        a.copy(a.estimates + 8 * n * a.taken, a.estimated, 1)
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
def last_coefficient(a: Any, which: Any, j: Any) -> Any:
    """The last Legendre coefficient of an unknown, less where those before tell that they fall."""
    m, n, u0, u, last, before = a.m, a.n, doubles(a.u0), doubles(a.u), 0.0, 0.0
    for row in range(3):
        weights = doubles(a.last_coefficients + 8 * (3 * which + row) * (m + 1))
        total = weights[0] * u0[j]
        for i in range(m):
            total += weights[i + 1] * u[i * n + j]
        if row == 0:
            last = abs(total)
        else:
            before = max(before, abs(total))
    ratio = last / max(before, last, TINY)
    return last * (np.sqrt(ratio) if which == 0 else ratio)


@_view.method()
def _error_between(a: Any) -> Any:
    m, n, u, sizes, largest = a.m, a.n, doubles(a.u), doubles(a.sizes), 0.0
    for j in range(n):
        counted = doubles(a.between_counted)[j]
        if counted > 0.0:
            size = 0.0
            for i in range(m):
                size = max(size, abs(u[i * n + j]))
            allowed = allowed_error(a.between_rtol, a.between_atol, size, sizes[j], j)
            part = min(last_coefficient(a, 0, j), last_coefficient(a, 1, j))
            largest = max(largest, part * (counted / max(allowed, TINY)))
    return largest


@within_compiled
def call_with(a: Any, what: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    """Call :data:`working` for a step."""
    a.called_time, a.called_step = t0, h
    return call_at(a.working, (a.own, what, first + (4 if again else 0) + (8 if looks else 0)))


@_view.method()
def _judge(a: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    call_with(a, own.JUDGE, t0, h, first, again, looks)
    return a.numbers.error


@_view.method()
def _solve_and_judge(a: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    return call_with(a, own.ADVANCE, t0, h, first, again, looks)


for _function in (
    *(steps_ahead.begin_approach, steps_ahead.approached, steps_ahead.next_size, steps_ahead.time_slack),
    *(steps_ahead.end_of_step, steps_ahead.clipped, steps_ahead.take_steps, steps_ahead.decided),
    *(steps_ahead.count_solved, steps_ahead.solved_ahead, steps_ahead.accepted_ahead),
    *(steps_ahead.rejected_ahead, steps_ahead.failed_ahead, steps_ahead.repeats, steps_ahead.shortest),
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
    own.judge(a, *step)
    return 0


def _act(address: Any, what: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    a = stages_at(address)
    if what == own.ADVANCE:
        return float(a.solve_and_judge(t0, h, first, again, looks))
    if what == own.JUDGE:
        return a.judge(t0, h, first, again, looks)
    if what == own.RENEW:
        return 1.0 if own.renew(a, t0, h) else 0.0
    if what == own.NEXT:
        return 1.0 if a.next_stage(h) else 0.0
    if what == own.SLOPE:
        return float(own.slope(a, t0, h))
    if what == own.CONTINUE:
        a.continue_stages(t0, h)
    elif what == own.WEIGH:
        a.weigh(h, again, looks)
    elif what == own.WITHIN:
        return 1.0 if a.weigh_within(h) else 0.0
    elif what == own.BETWEEN:
        return a.error_between()
    elif what == own.STEPS:
        return float(steps_ahead.take_steps(a, sizes_of_steps_at(a.step_sizes)))
    return 0.0


# Called by address from several places: the compiler would optimise a copy of it at each.
working = c_function(_work_at, CALLED)
act = kept(
    _act, types.float64(*(types.int64,) * 2, *(types.float64,) * 2, types.int64, *(types.boolean,) * 2)
)
"""Call :func:`act` of the stages whose memory is at an address, guess their derivatives by those of the step
before, or write the weights of errors."""

ANSWER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def _part_at(address: Any, kind: Any, part: Any) -> Any:
    return int(do_part(stages_at(address), kind, part))


@once
def part_function() -> Any:
    """The C function that does one part of a piece of work, compiled when work is first shared."""
    return c_function(_part_at, CALLED)


class MachineStages(Simultaneous):
    """:class:`Simultaneous` in compiled code, for a problem with kernels of dense Jacobians."""

    def __init__(self, problem: ProblemDAE, *method: Any) -> None:
        super().__init__(problem, *method)
        n, m, team = problem.n, self.m, self.team
        memory: Any = StagesMemory(self.numbers)
        self._memory = memory
        self.numbers, self.counts, memory.own = memory.numbers, memory.counts, ctypes.addressof(memory)
        self.run = memory.run
        memory.working = working.address
        memory.m, memory.n, memory.n_diff, memory.pairs = m, n, problem.n_diff, len(self.pairs)
        memory.rows, memory.in_turn, memory.jacobian_at = self.rows, int(self.in_turn), self.jacobian_at
        memory.chunks = 1 if team is None else team.at_once
        memory.several, memory.checks = int(memory.chunks > 1), int(self.checked.any())
        memory.between, memory.amplifies = len(self.places), int(self.multipliers.any())
        self._copies = len(self.pairs) + 1 if memory.several else 1
        self._failure = CallbackFailure()
        self._shared = None if team is None else python_answer(self, type(self)._share_parts)
        self._arrays: dict[str, Any] = {
            **{name: getattr(self, name) for name in KNOWN},
            "work": np.empty((2, n)),
            "others": np.where(self.multipliers, 0.0, 1.0),
            "directions": newton_checks.directions(n),
            "continuation": np.empty((m, m)),
            "lagrange": lagrange_weights(self.c[-m:]),
            "last_coefficients": coefficients_of_last(self.nodes[-m:]),
            "nodes": self.c,
            "eigenvalues": np.ascontiguousarray(self.pairs),
            "coefficients": np.zeros(len(self.pairs) + 1, dtype=np.complex128),
            "row": np.empty((self._copies, n), dtype=np.complex128),
        }
        self._before: tuple[Vector, Vector] | None = None  # the stages of the step before
        self._begin_problem()
        self._make_matrices()

    def _begin_problem(self) -> None:
        """Tell compiled code of the problem and of the sizes of its unknowns."""
        memory, scales = self._memory, self.problem.run_scales
        kernels: Any = self.problem.kernels
        self._owners, memory.residual, memory.jacobian = kernels, kernels.residual, kernels.jacobian
        sizes = {"sizes": scales.unknowns, "expected": scales.expected, "seen": scales.seen}
        self._arrays |= sizes
        tell_addresses(memory, sizes)
        self._parameters: Any = None
        self._by_numpy = False  # whether NumPy made the matrices, which compiled code does not have
        # Weights that compiled code knows, by the beginning of its fields.
        self._told: dict[str, Weights] = {}
        self._advanced: int | None = None  # how Newton's method has ended in a step that was begun ahead

    def serve(self, problem: ProblemDAE) -> bool:
        last = self.problem
        dense = self.team is None and problem.solver_kernels is not None and problem.sparsity is None
        same = (problem.n_diff, problem.n, problem.index) == (last.n_diff, last.n, last.index)
        if not (type(self) is MachineStages and dense and same):
            return False
        if problem.variable_index != last.variable_index:
            return False
        self.problem = problem
        for numbers in (self.numbers, self.counts, self.run):
            ctypes.memset(ctypes.addressof(numbers), 0, ctypes.sizeof(numbers))
        self.begin_run()
        self._begin_problem()
        return True

    def _make_matrices(self) -> None:
        """Allocate matrices and their factors, and set the functions that use them."""
        n, pairs, memory = self.problem.n, len(self.pairs), self._memory
        for name in ("dgetrf", "dgetrs", "zgetrf", "zgetrs"):
            setattr(memory, name, mn.lapack(name))
        memory.entries = n * n
        self._arrays |= {
            "mass": np.zeros((n, n)),
            "stiffness": np.zeros((n, n)),
            "end_matrix": np.empty((n, n)),
            "end_lu": np.empty((n, n)),
            "end_pivots": np.empty(n, dtype=np.int32),
            "real_lu": np.empty((n, n)),
            "real_pivots": np.empty(n, dtype=np.int32),
            "pair_lu": np.empty((pairs, n, n), dtype=np.complex128),
            "pair_pivots": np.empty((pairs, n), dtype=np.int32),
            "small": np.tile(np.array([n, 1, 0, ord("N")], dtype=np.int32), (self._copies, 1)),
        }
        tell_addresses(memory, self._arrays)

    def _act(self, what: int, t0: float, h: float, judging: tuple[int, bool, bool] = NOT_JUDGED) -> float:
        if self._by_numpy:
            return super()._act(what, t0, h, judging)
        p = self.problem.packed_parameters
        if p is not self._parameters:
            self._parameters = p
            self._memory.p = address(p)
        shared = None if self.team is None or self.team.idle else self._shared
        self._memory.share = 0 if shared is None else ctypes.cast(shared, ctypes.c_void_p).value
        result: float = act(self._memory.own, what, t0, h, *judging)
        self._failure.check()
        if self.in_turn:
            stage = int(self._memory.stage)
            self.at, self.real = slice(stage, stage + 1), float(self.A[stage, stage])
        return result

    def _share_parts(self, kind: int, count: int) -> int:
        """Let the team do a piece of work, for compiled code."""
        assert self.team is not None
        m = len(self.c)
        rows, ends = {
            EVALUATE: (self.value, range(m + 1)),
            SOLVE: (self.transformed, self._ends),
            FILTER: (self.error[None], (0, 1)),
        }.get(kind, (None, None))
        return int(self.team.share(kind, functools.partial(self._do_part, kind), count, rows, ends))

    def _do_part(self, kind: int, part: int) -> int:
        done: int = part_function().ctypes(self._memory.own, kind, part)
        self._failure.check()
        return done

    def _allocate(self) -> None:
        super()._allocate()
        memory = self._memory
        memory.du = memory.step_du = address(self.du)
        memory.u = memory.step_u = address(self.u)

    def begin(self, u0: MeshDAE, t0: float, h: float) -> bool:
        return u0.polynomial is None if self._advanced is not None else super().begin(u0, t0, h)

    def continues(self, before: Any) -> bool:
        """Whether compiled code continues the polynomial of the step before."""
        if self.in_turn:
            return True
        alike = type(before) is StepPolynomial and before.nodes == self.nodes and self.nodes[-1] == 1.0
        return bool(alike and before.n_integrated == self.problem.n)

    def _continue(self, before: Any, t0: float, h: float) -> None:
        if not self.continues(before):
            super()._continue(before, t0, h)
            return
        self._take_step_before(before)
        act(self._memory.own, own.CONTINUE, t0, h, 0, False, False)

    def _take_step_before(self, before: Any) -> None:
        memory = self._memory
        if self.in_turn:
            slope = before.derivative_at_end()
            self._before, memory.du_before = (slope, slope), address(slope)
            return
        self._before = u, du = np.ascontiguousarray(before.value), np.ascontiguousarray(before.derivative)
        memory.u_before, memory.du_before = address(u), address(du)
        memory.time_before, memory.step_before = before.time, before.dt

    def weigh(self, weights: Weights, h: float, first: bool, floor: bool = True) -> None:
        if self._advanced is not None:
            return
        self._begin_weights(weights)
        act(self._memory.own, own.WEIGH, 0.0, h, 0, not first, floor)
        self._end_weights(weights)

    def weigh_within(self, weights: Weights, h: float) -> bool:
        return bool(act(self._memory.own, own.WITHIN, 0.0, h, *NOT_JUDGED))

    def _begin_weights(self, weights: Weights) -> None:
        """Tell compiled code how errors are weighted, and with which rate of change."""
        memory, scales = self._memory, weights.scales
        if weights is not self._told.get(""):
            exponents = np.ascontiguousarray(weights.exponents, dtype=np.int64)
            memory.part, memory.high = weights.part, weights.high
            memory.slowest, memory.highest = int(exponents.min()), int(exponents.max())
            self._arrays["exponents"], memory.exponents = exponents, address(exponents)
            self.judge_by("", weights)
        memory.follows, memory.watched = scales.running, scales.running and scales.watched
        memory.rate, memory.least_rate = scales.rate, scales.least_rate

    def _end_weights(self, weights: Weights) -> None:
        weights.scales.rate, weights.least_factor = self._memory.rate, weights.rtol

    # --- steps taken ahead ----------------------------------------------------------------------------------

    def goes_ahead(self, value: Any) -> bool:
        """Whether steps can be taken ahead from a state."""
        idle = self.team is None and not self._by_numpy and self._advanced is None
        if value.polynomial is None:  # an explicit stage needs u' there
            return idle and self.A[0].any()
        return idle and self.continues(value.polynomial)

    def judge_by(self, prefix: str, weights: Weights | None, mask: Any = 1.0) -> bool:
        """Tell compiled code by which weights errors of some unknowns, 1 in the mask, count, if by any."""
        if weights is None or weights is self._told.get(prefix):
            return weights is not None
        self._told[prefix] = weights
        memory, arrays = self._memory, {f"{prefix}counted": np.ascontiguousarray(mask * weights.counted)}
        if weights.atol is not None:
            arrays[f"{prefix}atol"] = np.ascontiguousarray(weights.atol, dtype=np.float64)
        setattr(memory, f"{prefix}atol", 0)
        setattr(memory, f"{prefix}rtol", weights.rtol)
        self._arrays |= arrays
        tell_addresses(memory, arrays)
        return True

    def error_between(self, weights: Weights, judged: Vector) -> float:
        """The largest error between the nodes of a solved step, in units of what is allowed."""
        if self.m < 3 or not self.judge_by("between_", weights, judged):
            return 0.0
        return float(act(self._memory.own, own.BETWEEN, 0.0, 0.0, *NOT_JUDGED))

    def take_steps(
        self, value: MeshDAE, weights: Weights, arrays: Mapping[str, Vector], numbers: Mapping[str, int]
    ) -> tuple[int, int]:
        """Take steps ahead from a state; how they have ended, and how many they are."""
        memory = self._memory
        self.u0[:] = value
        if value.polynomial is None:
            memory.step_before = 0.0
        else:
            self._take_step_before(value.polynomial)
        self._begin_weights(weights)
        tell_addresses(memory, arrays)
        for name, number in numbers.items():
            setattr(memory, name, number)
        memory.taken = 0
        status = int(self._act(own.STEPS, 0.0, 0.0))
        self._end_weights(weights)
        if status == steps_ahead.UNFINISHED:
            self._advanced = int(self.run.status)
        return status, int(memory.taken)

    def count_before(self, step: Vector | None) -> None:
        """Add the work that is not of the step that has begun, whose row has it with the other sign."""
        counts: Any = np.frombuffer(self.counts, dtype=np.int64)
        if step is None:
            self.count()
            return
        all_of_it = counts.copy()
        counts[:] = -step
        self.count()
        counts[:] = all_of_it + step.astype(np.int64)

    def _advance(self, t0: float, h: float, first: int, looks: bool) -> int:
        if self._by_numpy:
            self.forget()
            self._by_numpy = False
        status, self._advanced = self._advanced, None
        if status is None:
            status = int(self._act(own.ADVANCE, t0, h, (first, False, looks)))
        if status != own.UNDEFINED or self.numbers.linearized > 0.0:
            return status
        # Where the kernel of the Jacobian gives NaN, differences may still give a matrix.
        self.forget()
        self._by_numpy = True
        if self.in_turn:
            self.begin_in_turn(h)
        return super()._advance(t0, h, first, looks)

    def _slope(self, t0: float, h: float) -> float:
        found = self._act(own.SLOPE, t0, h)
        if np.isfinite(found):
            return found
        self.forget()
        return super()._act(own.SLOPE, t0, h)

    def get_state(self) -> dict[str, Any]:
        if self._by_numpy:
            self.forget()
        return self._kept_arrays(FACTORS if self.numbers.linearized > 0.0 else ())

    def _kept_arrays(self, names: Sequence[str]) -> dict[str, Any]:
        """Copies of arrays, and of the numbers, for a checkpoint."""
        arrays = {"numbers": np.frombuffer(self.numbers)} | {name: self._arrays[name] for name in names}
        return {name.upper(): array.copy() for name, array in arrays.items()}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        arrays = {"numbers": np.frombuffer(self.numbers)} | self._arrays
        for name, array in kept.items():
            arrays[name.lower()][:] = array

    def __deepcopy__(self, memo: Any) -> MachineStages:
        # Addresses belong to the arrays of one object; a copy begins with matrices of its own.
        return type(self)(self.problem, self.A, self.c, self.team, self.differences if self.in_turn else None)


def python_answer(stages: Any, method: Callable[[Any, int, int], int]) -> Any:
    """A C function that calls a method, and keeps what it raises until compiled code is left."""
    known = weakref.ref(stages)

    def call(_: int, k: int, argument: int) -> int:
        own = known()
        assert own is not None, "it is called by its own compiled code alone"
        try:
            return method(own, k, argument)
        except BaseException as error:
            own._failure.keep(error)
            return 0

    return ANSWER(call)


# Arrays of the matrices that are kept, where they are dense.
FACTORS = ("mass", "stiffness", "real_lu", "real_pivots", "pair_lu", "pair_pivots")
# Arrays of :class:`Simultaneous` that are allocated once, not anew for every step.
KNOWN = (
    *("u0", "du0", "guess", "value", "transformed", "change", "h_a", "to", "back", "at_start", "middle"),
    *("at_end", "to_middle", "weights", "error", "estimated", "c", "A", "inverse", "checked"),
    *("places", "value_between", "slope_between", "base", "differences"),
)

# --- sparse matrices ----------------------------------------------------------------------------------------

PAYING_FACTORIZATIONS = 4  # Factorisations with one pivot order from which on its reuse saves time.
# Number of pivot orders in succession that served fewer factorisations, after which SuperLU is used.
MOST_SHORT_LIVED = 4

# Arrays that the next step may depend on, besides the factors.
REMEMBERED = ("mass", "stiffness", "coefficients", "lasted")

refactor_complex, substitute_complex = mn.sparse_work(complexes)


def _refactorize_at(address: Any, k: Any, _: Any) -> Any:
    a = stages_at(address)
    n, size, own_part = a.n, a.entries, 16 * a.several * k
    parts, pattern = a.triangles + 8 * mn.PARTS * k, a.patterns + 8 * mn.ROW_PARTS * k
    if integers(parts)[0] == 0:
        return 0
    if k > a.pairs:
        return int(mn.refactor_real(parts, pattern, n, a.end_matrix, a.scratch))
    data_at, scratch = a.data + own_part * size, a.scratch + 3 * own_part * n
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
    parts, n = a.triangles + 8 * mn.PARTS * k, a.n
    if integers(parts)[0] == 0:
        return call_at(a.solve_outside, (address, k, x_at))
    if k == 0 or k > a.pairs:
        mn.substitute_real(parts, n, x_at, a.scratch)
    else:
        substitute_complex(parts, n, x_at, a.scratch + 48 * n * a.several * k)
    return 1


def _multiply_at(address: Any, x_at: Any, out_at: Any) -> Any:
    a = stages_at(address)
    x, out, mass = doubles(x_at), doubles(out_at), doubles(a.mass)
    indices, starts = short_integers(a.indices), short_integers(a.starts)
    for i in range(a.n):
        out[i] = 0.0
    for j in range(a.n):
        for entry in range(starts[j], starts[j + 1]):
            out[indices[entry]] += mass[entry] * x[j]
    return 1


@once
def functions() -> tuple[Any, Any, Any]:
    """The C functions to factorise matrix k, solve with it, and multiply with dF/du', compiled when used."""
    made: Any = (c_function(function, CALLED) for function in (_refactorize_at, _substitute_at, _multiply_at))
    return tuple(made)


class SparseStages(MachineStages):
    """:class:`~dae_sdc.sweepers._simultaneous.MachineStages` with kernels of a CSC pattern."""

    # SuperLU chooses the pivots of the real matrix. With these the complex matrices are factorised too, and
    # those of the next steps, in compiled code; one whose pivots get too small gets its own. Factors that are
    # rather full stay with SuperLU, which works on blocks, and so does a matrix that needs new pivots all the
    # time.

    def _make_matrices(self) -> None:
        problem, memory, count = self.problem, self._memory, len(self.pairs) + 1
        pattern = self._pattern = problem.sparsity
        entries = self._entries = len(pattern.indices)
        self._arrays |= {
            "mass": np.zeros(entries),
            "stiffness": np.zeros(entries),
            "end_matrix": np.empty(entries),
            "indices": pattern.indices.astype(np.int32),
            "starts": pattern.indptr.astype(np.int32),
            "data": np.empty((self._copies, entries), dtype=np.complex128),
            "scratch": np.empty((self._copies, 3 * problem.n), dtype=np.complex128),
            "triangles": np.zeros((count + 1, mn.PARTS), dtype=np.int64),
            "patterns": np.zeros((count + 1, mn.ROW_PARTS), dtype=np.int64),
            "lasted": np.zeros(count, dtype=np.int64),
        }
        self._kept: dict[int, tuple[TriangularFactors, RowPattern]] = {}
        self._outside: dict[int, Any] = {}
        self._vain = [0] * count
        self._checked = False
        self._real_is_done = False
        self._first = threading.Lock()
        self._called = tuple(
            python_answer(self, method) for method in (SparseStages._repivot, SparseStages._solve_outside)
        )
        memory.repivot, memory.solve_outside = (
            ctypes.cast(function, ctypes.c_void_p).value for function in self._called
        )
        memory.refactorize, memory.substitute, memory.multiply = (made.address for made in functions())
        memory.entries = entries
        tell_addresses(memory, self._arrays)

    def _act(self, what: int, t0: float, h: float, judging: tuple[int, bool, bool] = NOT_JUDGED) -> float:
        pattern = self.problem.sparsity
        if pattern is not self._pattern or len(pattern.indices) != self._entries:
            self._make_matrices()
            self.forget()
        self._time = t0 + 0.5 * h
        return super()._act(what, t0, h, judging)

    def get_state(self) -> dict[str, Any]:
        kept = [(k, list(factors[:-1]), list(pattern)) for k, (factors, pattern) in self._kept.items()]
        about = {"kept": kept, "outside": list(self._outside), "vain": self._vain, "checked": self._checked}
        return self._kept_arrays(REMEMBERED) | about

    def set_state(self, kept: Mapping[str, Any]) -> None:
        super().set_state({name: kept[name] for name in map(str.upper, ("numbers", *REMEMBERED))})
        for k, factors, pattern in kept["kept"]:
            self._put(k, TriangularFactors(*(*factors, self.problem.n)), RowPattern(*pattern))
        for k in kept["outside"]:
            self._outside[k] = sparse_factors(self._matrix(k))
        self._vain, self._checked = kept["vain"], kept["checked"]

    def _known(self, k: int) -> bool:
        return k in self._kept or k in self._outside

    def _do_part(self, kind: int, part: int) -> int:
        if kind != FACTORIZE or (part and self._known(part)):
            return super()._do_part(kind, part)
        # The complex matrices begin with the pivots of the real one, in whichever order they come. A rank
        # that has no share in that needs it too, at this step size: pivots may depend on the size.
        with self._first:
            if not self._real_is_done:
                self._real_is_done = super()._do_part(kind, 0) != 0
            found = int(self._real_is_done)
        return super()._do_part(kind, part) if part else found

    def _share_parts(self, kind: int, count: int) -> int:
        self._real_is_done = False
        if kind == FACTORIZE and not self._known(0) and self.team is not None and self.team.separate:
            # The pivots that all matrices begin with are those of the first one, on every rank.
            self.team.everywhere(lambda: self._do_part(kind, 0))
        return super()._share_parts(kind, count)

    # --- called by compiled code ----------------------------------------------------------------------------

    def _repivot(self, k: int, _: int) -> int:
        """Factorise matrix k with pivots of its own; 0 where it is singular."""
        if not self._checked:  # The method of the problem itself compares its sparsity pattern.
            n_diff, (du, u) = self.problem.n_diff, self._arrays["work"]
            jacobian: Any = self.problem.jacobian
            jacobian(attach(u, n_diff), attach(du, n_diff), self._time, 1.0)
            self._checked = True
        known = k in self._kept
        if not known and k not in self._outside and 0 in self._kept:
            factors, pattern = self._kept[0]
            self._put(k, copy_for(factors, np.complex128), pattern)
            if functions()[0].ctypes(self._memory.own, k, 0):
                return 1
        elif known:
            lasted = self._arrays["lasted"]
            self._vain[k] = self._vain[k] + 1 if lasted[k] < PAYING_FACTORIZATIONS else 0
            lasted[k] = 0
        matrix = self._matrix(k)
        if not np.isfinite(matrix.data).all():
            return 0
        try:
            lu = sparse_factors(matrix)
            if lu.nnz > LARGEST_ROW_FILL * self.problem.n or self._vain[k] >= MOST_SHORT_LIVED:
                self._outside[k] = lu
                self._kept.pop(k, None)
                self._arrays["triangles"][k :: len(self.pairs) + 1] = 0
            else:
                self._put(k, *superlu_factors(lu, matrix))
        except SingularMatrixError:
            return 0
        return 1

    def _matrix(self, k: int) -> Any:
        c = self._arrays["coefficients"][k]
        data = self._arrays["mass"] + (c if k else c.real) * self._arrays["stiffness"]
        parts = (data, self._arrays["indices"], self._arrays["starts"])
        return sparse.csc_matrix(parts, shape=self._pattern.shape)

    def _put(self, k: int, factors: TriangularFactors, pattern: RowPattern) -> None:
        self._kept[k] = factors, pattern
        placed = {k: factors}
        # The pivots may differ from rank to rank, and with them the rounding of the last stage.
        if k == 0 and self._memory.checks and not (self.team is not None and self.team.separate):
            placed[len(self.pairs) + 1] = self._of_end = copy_for(factors)
        for place, parts in placed.items():
            self._arrays["triangles"][place] = [address(part) for part in parts[:-1]]
            self._arrays["patterns"][place] = [address(part) for part in pattern]

    def _solve_outside(self, k: int, x_at: int) -> int:
        """Solve with SuperLU's factors of matrix k in place: for a complex row, but for the first matrix."""
        memory: Any = (ctypes.c_double * (self.problem.n * (2 if k else 1))).from_address(x_at)
        x = np.frombuffer(memory, dtype=np.complex128 if k else np.float64)
        x[:] = self._outside[k].solve(x)
        return 1
