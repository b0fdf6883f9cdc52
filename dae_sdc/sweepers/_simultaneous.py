"""The operations of :mod:`dae_sdc.sweepers.simultaneous` on memory, compiled. This imports numba.

The addresses of everything are kept in one record, which compiles and is called fastest.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numba.extending import intrinsic, register_jitable

from dae_sdc.compiled import machine_newton as mn
from dae_sdc.compiled.machine_newton import INNER, doubles, integers, short_integers
from dae_sdc.dae import machine, residual_check
from dae_sdc.dae.compiling import kept, lightly_optimized
from dae_sdc.dae.machine import call_jacobian, call_residual
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.sweepers import simultaneous as own
from dae_sdc.sweepers._overloads import compiled_as
from dae_sdc.sweepers.simultaneous import (
    FACTORED,
    FACTORIZATIONS,
    GAMMA,
    JACOBIANS,
    KAPPA,
    LINEARIZED,
    NEWTON,
    RELATIVE,
    RELATIVE_ROUND_OFF,
    RHS,
    SOLVES,
    WORST,
    Simultaneous,
)

LARGEST_LOOP_SOLVE = 24
"""Largest system whose triangular solves are loops here: LAPACK takes a microsecond to begin."""

FACTOR, LEAST_STEP, NOISE, ROUNDING = (
    residual_check.SETTINGS.factor,
    residual_check.SETTINGS.least_step,
    residual_check.SETTINGS.noise,
    residual_check.SETTINGS.rounding,
)
COUNT = residual_check.DIRECTIONS

ADVANCE, ESTIMATE, SLOPE = range(3)
"""What :func:`act` may be asked for."""


PLACES = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("RESIDUAL", "JACOBIAN"),  # kernels
            *("DGETRF", "DGETRS", "ZGETRF", "ZGETRS"),  # functions of LAPACK
            "P",  # parameters of the kernels
            *("M", "N", "PAIRS"),  # numbers: of nodes, of unknowns, of complex pairs
            *("U0", "DU0"),  # (n,)
            *("GUESS", "DU", "U", "VALUE", "TRANSFORMED", "CHANGE"),  # (M, n)
            *("H_A", "TO", "BACK"),  # (M, M)
            *("AT_START", "MIDDLE", "TO_MIDDLE", "C"),  # (M,)
            *("WEIGHTS", "ERROR", "SIZES"),  # (n,); the last are those of the unknowns in the run
            *("WORK", "DIRECTIONS"),  # (2, n), (DIRECTIONS, n)
            *("NUMBERS", "COUNTS"),  # see dae_sdc.sweepers.simultaneous; counts are integers
            "MASS",  # dF/du', row by row or the entries of the pattern
            "STIFFNESS",  # dF/du times the coefficient at which it was evaluated
            *("REAL_LU", "REAL_PIVOTS"),  # LU factors, column by column, and integers of 32 bits
            *("PAIR_LU", "PAIR_PIVOTS"),  # the factors of the pairs are complex, (P, n, n)
            *("EIGENVALUES", "ROW"),  # complex, (P,) and (n,)
            *("LAPACK_N", "LAPACK_ONE", "LAPACK_INFO", "LETTER"),  # LAPACK's n, 1, its answer, the letter N
            "ENTRIES",  # numbers in a matrix
            "OWN",  # the address of this record
            "COEFFICIENTS",  # of the stiffness in each matrix, the real one first; complex, (P + 1,)
            # Functions for sparse matrices, 0 with dense ones: see dae_sdc.sweepers._sparse_stages.
            *("REFACTORIZE", "SUBSTITUTE", "MULTIPLY"),
            *("REPIVOT", "SOLVE_OUTSIDE"),  # in Python: new pivots, and solves with factors of SuperLU
            *("INDICES", "STARTS"),  # of the CSC pattern, integers of 32 bits
            *("DATA", "SCRATCH"),  # a matrix, complex, (ENTRIES,), and complex numbers, (3 n,)
            "TRIANGLES",  # addresses of the parts of the factors, integers, (P + 1, 10); the first 0 without
            "PATTERNS",  # addresses of the parts of the row patterns, integers, (P + 1, 3)
            "LASTED",  # factorisations with the same pivots, integers, (P + 1,)
        )
    ]
)
"""The record that compiled code works on: addresses of arrays of doubles unless said otherwise."""


@intrinsic
def places_at(context: Any, address: Any) -> Any:
    """The record of :data:`PLACES` that stands at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return from_dtype(PLACES)(types.int64), generate


TINY = float(np.finfo(float).tiny)

complexes = mn.pointer_to(types.complex128)


class Memory(NamedTuple):
    """What the operations work on: the address of a record of :data:`PLACES`."""

    places: int


@register_jitable(**INNER)
def finite(values: Any, count: Any) -> Any:
    """Whether all numbers are finite."""
    for i in range(count):
        if not abs(values[i]) < np.inf:
            return False
    return True


@register_jitable(**INNER)
def combine(size: Any, n: Any, matrix_at: Any, rows_at: Any, out_at: Any) -> Any:
    """A matrix of shape (size, M) times M rows of n numbers; M is the larger of ``size`` and ``size`` 1."""
    matrix, rows, out = doubles(matrix_at), doubles(rows_at), doubles(out_at)
    for i in range(size):
        for j in range(n):
            out[i * n + j] = matrix[i * size] * rows[j]
        for k in range(1, size):
            factor = matrix[i * size + k]
            for j in range(n):
                out[i * n + j] += factor * rows[k * n + j]


@register_jitable(**INNER)
def combined_row(m: Any, n: Any, weights_at: Any, rows_at: Any, out_at: Any) -> Any:
    """A combination of M rows of n numbers."""
    weights, rows, out = doubles(weights_at), doubles(rows_at), doubles(out_at)
    for j in range(n):
        total = 0.0
        for k in range(m):
            total += weights[k] * rows[k * n + j]
        out[j] = total


@register_jitable(**INNER)
def put(a: Any) -> Any:
    """Compute the values at the stages, u = u_0 + h A U."""
    m, n = a.M, a.N
    combine(m, n, a.H_A, a.DU, a.U)
    u0, u = doubles(a.U0), doubles(a.U)
    for i in range(m):
        for j in range(n):
            u[i * n + j] += u0[j]


@register_jitable(**INNER)
def norm_of(a: Any, rows_at: Any, count: Any) -> Any:
    """Root mean square of the rows in units of the weights; the largest row counts."""
    n, rows, weights, x = a.N, doubles(rows_at), doubles(a.WEIGHTS), doubles(a.NUMBERS)
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
    x[WORST] = worst
    return result


@compiled_as(own.numbers)
def _numbers(w: Any) -> Any:
    return doubles(places_at(w.places).NUMBERS)


@compiled_as(own.take_guess)
def _take_guess(w: Any) -> Any:
    a = places_at(w.places)
    guess, du = doubles(a.GUESS), doubles(a.DU)
    for i in range(a.M * a.N):
        du[i] = guess[i]
    put(a)


@compiled_as(own.keep_iterate)
def _keep_iterate(w: Any) -> Any:
    a = places_at(w.places)
    guess, du = doubles(a.GUESS), doubles(a.DU)
    for i in range(a.M * a.N):
        guess[i] = du[i]


@compiled_as(own.residuals)
def _residuals(w: Any, t0: Any, h: Any) -> Any:
    a = places_at(w.places)
    m, row, c = a.M, 8 * a.N, doubles(a.C)
    integers(a.COUNTS)[RHS] += m
    for i in range(m):
        u, du, out = a.U + i * row, a.DU + i * row, a.VALUE + i * row
        call_residual(a.RESIDUAL, t0 + h * c[i], u, du, a.P, out)
    return finite(doubles(a.VALUE), m * a.N)


@register_jitable(**INNER)
def substitute(n: Any, lu: Any, pivots: Any, x: Any) -> Any:
    """Solve with LU factors, stored by columns, in place."""
    for i in range(n):
        j = pivots[i] - 1
        if j != i:
            kept = x[i]
            x[i] = x[j]
            x[j] = kept
    for j in range(n):
        known = x[j]
        for i in range(j + 1, n):
            x[i] -= lu[j * n + i] * known
    for j in range(n - 1, -1, -1):
        x[j] /= lu[j * n + j]
        known = x[j]
        for i in range(j):
            x[i] -= lu[j * n + i] * known


@register_jitable(**INNER)
def lapack_solve(a: Any, function: Any, lu: Any, pivots: Any, x: Any) -> Any:
    """Solve with LU factors by LAPACK, in place, from addresses."""
    size, one, info = a.LAPACK_N, a.LAPACK_ONE, a.LAPACK_INFO
    mn._call_with_9(function, (a.LETTER, size, one, lu, size, pivots, x, size, info))


@register_jitable(**INNER)
def solve_real(a: Any, x_at: Any) -> Any:
    """Solve with the matrix of the real eigenvalue, in place."""
    integers(a.COUNTS)[SOLVES] += 1
    if a.SUBSTITUTE != 0:
        mn._answer_of_3(a.SUBSTITUTE, (a.OWN, 0, x_at))
    elif a.N <= LARGEST_LOOP_SOLVE:
        substitute(a.N, doubles(a.REAL_LU), short_integers(a.REAL_PIVOTS), doubles(x_at))
    else:
        lapack_solve(a, a.DGETRS, a.REAL_LU, a.REAL_PIVOTS, x_at)


@register_jitable(**INNER)
def solve_pair(a: Any, k: Any, x_at: Any) -> Any:
    """Solve with the matrix of a complex eigenvalue for a row of real and one of imaginary parts."""
    integers(a.COUNTS)[SOLVES] += 1
    if a.SUBSTITUTE != 0:
        mn._answer_of_3(a.SUBSTITUTE, (a.OWN, k + 1, x_at))
        return
    n, x, row = a.N, doubles(x_at), complexes(a.ROW)
    for j in range(n):
        row[j] = complex(x[j], x[n + j])
    lu, pivots = a.PAIR_LU + 16 * n * n * k, a.PAIR_PIVOTS + 4 * n * k
    if n <= LARGEST_LOOP_SOLVE:
        substitute(n, complexes(lu), short_integers(pivots), row)
    else:
        lapack_solve(a, a.ZGETRS, lu, pivots, a.ROW)
    for j in range(n):
        x[j], x[n + j] = row[j].real, row[j].imag


@compiled_as(own.correct)
def _correct(w: Any) -> Any:
    a = places_at(w.places)
    m, n = a.M, a.N
    combine(m, n, a.TO, a.VALUE, a.TRANSFORMED)
    first = m % 2
    if first == 1:
        solve_real(a, a.TRANSFORMED)
    for k in range(a.PAIRS):
        solve_pair(a, k, a.TRANSFORMED + 8 * n * (first + 2 * k))
    combine(m, n, a.BACK, a.TRANSFORMED, a.VALUE)
    du, value = doubles(a.DU), doubles(a.VALUE)
    for i in range(m * n):
        du[i] -= value[i]
    combine(m, n, a.H_A, a.VALUE, a.CHANGE)
    put(a)
    integers(a.COUNTS)[NEWTON] += 1
    return norm_of(a, a.CHANGE, m)


@register_jitable(**INNER)
def changed_residual(a: Any, time: Any, h: Any, factor: Any, which: Any) -> Any:
    """By how much F at the last stage changes with the unknowns there, into the transformed rows.

    False where F is defined neither there nor on the other side.
    """
    n, x, last = a.N, doubles(a.NUMBERS), 8 * (a.M - 1) * a.N
    u, du, value = doubles(a.U + last), doubles(a.DU + last), doubles(a.CHANGE + 8 * n)
    weights, direction = doubles(a.WEIGHTS), doubles(a.DIRECTIONS + 8 * n * which)
    sizes = doubles(a.SIZES)
    work, found = doubles(a.WORK), doubles(a.TRANSFORMED)
    sign = 1.0
    for _ in range(2):
        for j in range(n):
            step = x[KAPPA] / max(weights[j], x[KAPPA] / max(sizes[j] + abs(u[j]), TINY))
            step *= sign * factor * direction[j]
            work[j], work[n + j] = u[j] + step, du[j] + step / (h * x[GAMMA])
        integers(a.COUNTS)[RHS] += 1
        call_residual(a.RESIDUAL, time, a.WORK, a.WORK + 8 * n, a.P, a.TRANSFORMED)
        if finite(found, n):
            for j in range(n):
                found[j] = abs(found[j] - value[j])
            return True
        sign = -1.0
    return False


@register_jitable(**INNER)
def within(a: Any, multiple: Any) -> Any:
    """Raise what is allowed of each equation to a multiple of the last change; whether all meet it."""
    left, found, allowed = doubles(a.CHANGE), doubles(a.TRANSFORMED), doubles(a.ERROR)
    met = True
    for j in range(a.N):
        allowed[j] = max(allowed[j], multiple * found[j])
        met = met and left[j] <= allowed[j]
    return met


@compiled_as(own.residual_is_small)
def _residual_is_small(w: Any, t0: Any, h: Any) -> Any:
    if not own.residuals(w, t0, h):
        return False
    a = places_at(w.places)
    m, n = a.M, a.N
    value, left, allowed = doubles(a.VALUE), doubles(a.CHANGE), doubles(a.ERROR)
    for j in range(n):
        left[j], allowed[j] = 0.0, 0.0
        for i in range(m):
            left[j] = max(left[j], abs(value[i * n + j]))
        left[n + j] = value[(m - 1) * n + j]
    relative, time = doubles(a.NUMBERS)[RELATIVE], t0 + h * doubles(a.C)[m - 1]
    enlarged = max(1.0, LEAST_STEP / relative)
    for which in range(COUNT):
        if not changed_residual(a, time, h, enlarged, which):
            return True
        if within(a, FACTOR / enlarged):
            return True
    for which in range(COUNT):
        if changed_residual(a, time, h, ROUNDING / relative, which) and within(a, NOISE):
            return True
    return False


@compiled_as(own.at_round_off)
def _at_round_off(w: Any) -> Any:
    a = places_at(w.places)
    m, n = a.M, a.N
    u, du, change, h_a = doubles(a.U), doubles(a.DU), doubles(a.CHANGE), doubles(a.H_A)
    for i in range(m):
        for j in range(n):
            scale = abs(u[i * n + j])
            for k in range(m):
                scale += abs(h_a[i * m + k] * du[k * n + j])
            if not abs(change[i * n + j]) <= RELATIVE_ROUND_OFF * scale:
                return False
    return True


@register_jitable(**INNER)
def linearize_at(a: Any, time: Any, u_at: Any, du_at: Any, h: Any) -> Any:
    """dF/du' and dF/du at a point; False where they are not finite."""
    integers(a.COUNTS)[JACOBIANS] += 1
    # At the coefficient at which it is used first, so that no digits are lost.
    c = h * doubles(a.NUMBERS)[GAMMA]
    call_jacobian(a.JACOBIAN, time, u_at, du_at, 0.0, a.P, a.MASS)
    call_jacobian(a.JACOBIAN, time, u_at, du_at, c, a.P, a.STIFFNESS)
    mass, stiffness = doubles(a.MASS), doubles(a.STIFFNESS)
    for i in range(a.ENTRIES):
        stiffness[i] -= mass[i]
    return finite(stiffness, a.ENTRIES)


@compiled_as(own.linearize_step)
def _linearize_step(w: Any, t0: Any, h: Any) -> Any:
    a = places_at(w.places)
    m, n = a.M, a.N
    du_at, u_at = a.WORK, a.WORK + 8 * n
    combined_row(m, n, a.MIDDLE, a.GUESS, du_at)
    combined_row(m, n, a.TO_MIDDLE, a.GUESS, u_at)
    u, u0 = doubles(u_at), doubles(a.U0)
    for j in range(n):
        u[j] = u0[j] + h * u[j]
    return linearize_at(a, t0 + 0.5 * h, u_at, du_at, h)


@compiled_as(own.linearize_start)
def _linearize_start(w: Any, t0: Any, h: Any) -> Any:
    a = places_at(w.places)
    return linearize_at(a, t0, a.U0, a.DU0, h)


@register_jitable(**INNER)
def row_sizes(a: Any, factor: Any, out_at: Any) -> Any:
    """The largest size of an entry of each row of dF/du' and of ``factor`` times the stiffness."""
    n, out, is_sparse = a.N, doubles(out_at), a.REFACTORIZE != 0
    mass, stiffness, rows = doubles(a.MASS), doubles(a.STIFFNESS), short_integers(a.INDICES)
    for i in range(n):
        out[i] = 0.0
    for entry in range(a.ENTRIES):
        i = rows[entry] if is_sparse else entry // n
        out[i] = max(out[i], abs(mass[entry]), factor * abs(stiffness[entry]))


@compiled_as(own.keep_row_sizes)
def _keep_row_sizes(w: Any, factor: Any) -> Any:
    a = places_at(w.places)
    row_sizes(a, factor, a.ERROR)


@compiled_as(own.row_growth)
def _row_growth(w: Any) -> Any:
    a = places_at(w.places)
    row_sizes(a, 1.0, a.WORK)
    now, before, growth = doubles(a.WORK), doubles(a.ERROR), 0.0
    for i in range(a.N):
        if before[i] > 0.0 and now[i] > growth * before[i]:
            growth = now[i] / before[i]
    return growth


@compiled_as(own.factorize)
def _factorize(w: Any, h: Any) -> Any:
    a = places_at(w.places)
    n, x = a.N, doubles(a.NUMBERS)
    mass, stiffness = doubles(a.MASS), doubles(a.STIFFNESS)
    ratio, size, info = h / x[LINEARIZED], a.LAPACK_N, a.LAPACK_INFO
    x[FACTORED] = 0.0
    integers(a.COUNTS)[FACTORIZATIONS] += 1 + a.PAIRS
    if a.REFACTORIZE != 0:
        coefficients = complexes(a.COEFFICIENTS)
        coefficients[0] = ratio * x[GAMMA]
        for k in range(a.PAIRS):
            coefficients[k + 1] = ratio * complexes(a.EIGENVALUES)[k]
        for k in range(a.PAIRS + 1):
            which = (w.places, k, 0)
            if mn._answer_of_3(a.REFACTORIZE, which) == 0 and mn._answer_of_3(a.REPIVOT, which) == 0:
                return False
        x[FACTORED] = h
        return True
    lu, factor = doubles(a.REAL_LU), ratio * x[GAMMA]
    for i in range(n):
        for j in range(n):
            lu[j * n + i] = mass[i * n + j] + factor * stiffness[i * n + j]
    mn._call_with_6(a.DGETRF, (size, size, a.REAL_LU, size, a.REAL_PIVOTS, info))
    if short_integers(info)[0] != 0:
        return False
    for k in range(a.PAIRS):
        matrix_at, scale = a.PAIR_LU + 16 * n * n * k, ratio * complexes(a.EIGENVALUES)[k]
        matrix = complexes(matrix_at)
        for i in range(n):
            for j in range(n):
                matrix[j * n + i] = mass[i * n + j] + scale * stiffness[i * n + j]
        pivots = a.PAIR_PIVOTS + 4 * n * k
        mn._call_with_6(a.ZGETRF, (size, size, matrix_at, size, pivots, info))
        if short_integers(info)[0] != 0:
            return False
    x[FACTORED] = h
    return True


@register_jitable(**INNER)
def mass_times(a: Any, x_at: Any, out_at: Any) -> Any:
    """The product of dF/du' and a row."""
    if a.MULTIPLY != 0:
        mn._answer_of_3(a.MULTIPLY, (a.OWN, x_at, out_at))
        return
    n, x, out, mass = a.N, doubles(x_at), doubles(out_at), doubles(a.MASS)
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += mass[i * n + j] * x[j]
        out[i] = total


@compiled_as(own.start_defect)
def _start_defect(w: Any, h: Any) -> Any:
    a = places_at(w.places)
    m, n = a.M, a.N
    error = doubles(a.ERROR)
    if h == 0.0:
        for j in range(n):
            error[j] = 0.0
        return
    combined_row(m, n, a.AT_START, a.DU, a.WORK)
    work, du0, factor = doubles(a.WORK), doubles(a.DU0), h * doubles(a.NUMBERS)[GAMMA]
    for j in range(n):
        work[j] = factor * (du0[j] - work[j])
    mass_times(a, a.WORK, a.ERROR)


@compiled_as(own.add_start_residual)
def _add_start_residual(w: Any, t0: Any, factor: Any) -> Any:
    a = places_at(w.places)
    integers(a.COUNTS)[RHS] += 1
    call_residual(a.RESIDUAL, t0, a.U0, a.DU0, a.P, a.WORK)
    error, value = doubles(a.ERROR), doubles(a.WORK)
    for j in range(a.N):
        error[j] += factor * value[j]
    return finite(error, a.N)


@compiled_as(own.times_mass)
def _times_mass(w: Any) -> Any:
    a = places_at(w.places)
    error, work = doubles(a.ERROR), doubles(a.WORK)
    for j in range(a.N):
        work[j] = error[j]
    mass_times(a, a.WORK, a.ERROR)


@compiled_as(own.filtered)
def _filtered(w: Any) -> Any:
    a = places_at(w.places)
    solve_real(a, a.ERROR)
    return norm_of(a, a.ERROR, 1)


for _function in (own.corrections, own.iterate, own.linearize_near, own.advance, own.estimate, own.slope):
    register_jitable(**INNER)(_function)


def _compile_act(digest: int) -> Any:
    kinds = types.float64(
        types.int64, types.int64, types.float64, types.float64, types.boolean, types.boolean
    )

    def act(places: Any, what: Any, t0: Any, h: Any, first: Any, again: Any) -> Any:
        if digest < 0:
            return 0.0
        w = Memory(places)
        if what == ADVANCE:
            return float(own.advance(w, t0, h))
        if what == ESTIMATE:
            return float(own.estimate(w, t0, h, first, again))
        return float(own.slope(w, t0, h))

    with lightly_optimized():
        return kept(act, kinds)


act = _compile_act(mn.digest_of(own, machine, mn, residual_check, sys.modules[__name__]))
"""Call :func:`advance`, :func:`estimate` or :func:`slope` of the stages whose record is at an address."""


def address(array: Any) -> int:
    """Address of the first number of an array."""
    place: int = array.ctypes.data
    return place


class MachineStages(Simultaneous):
    """:class:`Simultaneous` on memory, for a problem with dense kernels."""

    def __init__(self, problem: ProblemDAE, A: Vector, c: Vector) -> None:
        super().__init__(problem, A, c)
        n = problem.n
        kernels: Any = problem.kernels
        self._owners = kernels
        self._places = places = np.zeros(1, dtype=PLACES)
        self._at = address(places)
        places["OWN"] = self._at
        places["RESIDUAL"], places["JACOBIAN"] = kernels.residual, kernels.jacobian
        places["M"], places["N"], places["PAIRS"] = len(c), n, len(self.pairs)
        self._arrays: dict[str, Any] = {
            **{name: getattr(self, name.lower()) for name in KNOWN},
            "WORK": np.empty((2, n)),
            "DIRECTIONS": residual_check.directions(n),
            "SIZES": problem.run_scales.unknowns,
            "EIGENVALUES": np.ascontiguousarray(self.pairs),
            "ROW": np.empty(n, dtype=np.complex128),
        }
        self._parameters: Any = None
        self._by_numpy = False  # whether NumPy made the matrices, which compiled code does not have
        self._make_matrices()

    def _make_matrices(self) -> None:
        """Memory for matrices and their factors, and the functions that work with them."""
        n, pairs, places = self.problem.n, len(self.pairs), self._places
        small = np.array([n, 1, 0, ord("N")], dtype=np.int32)
        for name in ("DGETRF", "DGETRS", "ZGETRF", "ZGETRS"):
            places[name] = mn.lapack(name.lower())
        places["ENTRIES"] = n * n
        self._arrays |= {
            "MASS": np.zeros((n, n)),
            "STIFFNESS": np.zeros((n, n)),
            "REAL_LU": np.empty((n, n)),
            "REAL_PIVOTS": np.empty(n, dtype=np.int32),
            "PAIR_LU": np.empty((pairs, n, n), dtype=np.complex128),
            "PAIR_PIVOTS": np.empty((pairs, n), dtype=np.int32),
            "LAPACK_N": small[0:],
            "LAPACK_ONE": small[1:],
            "LAPACK_INFO": small[2:],
            "LETTER": small[3:],
        }
        self._tell_places()

    def _tell_places(self) -> None:
        """Write the addresses of the arrays into the record that compiled code reads."""
        for name, array in self._arrays.items():
            self._places[name] = address(array)

    def _act(self, what: int, t0: float, h: float, first: bool = False, again: bool = False) -> float:
        p = self.problem.packed_parameters
        if p is not self._parameters:
            self._parameters = p
            self._places["P"] = address(p)
        result: float = act(self._at, what, t0, h, first, again)
        return result

    def begin(self, u0: Any, t0: float, h: float) -> bool:
        """See :class:`Simultaneous`."""
        first = super().begin(u0, t0, h)
        self._places["DU"], self._places["U"] = address(self.du), address(self.u)
        return first

    def _advance(self, t0: float, h: float) -> int:
        if self._by_numpy:
            self.forget()
            self._by_numpy = False
        status = int(self._act(ADVANCE, t0, h))
        if status != own.UNDEFINED or self.numbers[LINEARIZED] > 0.0:
            return status
        # Where the kernel of the Jacobian gives NaN, differences may still give a matrix.
        self.forget()
        self._by_numpy = True
        return super()._advance(t0, h)

    def _estimate(self, t0: float, h: float, first: bool, again: bool) -> float:
        if self._by_numpy:
            return super()._estimate(t0, h, first, again)
        return self._act(ESTIMATE, t0, h, first, again)

    def _slope(self, t0: float, h: float) -> float:
        found = self._act(SLOPE, t0, h)
        if np.isfinite(found):
            return found
        self.forget()
        return super()._slope(t0, h)

    def get_state(self) -> dict[str, Any]:
        """See :class:`Simultaneous`."""
        if self._by_numpy:
            self.forget()
        names = ("NUMBERS", *(FACTORS if self.numbers[LINEARIZED] > 0.0 else ()))
        return {name: self._arrays[name].copy() for name in names}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """See :class:`Simultaneous`."""
        for name, array in kept.items():
            self._arrays[name][:] = array

    def __deepcopy__(self, memo: Any) -> MachineStages:
        # Addresses belong to the arrays of one object; a copy begins with matrices of its own.
        return type(self)(self.problem, self.A, self.c)


FACTORS = ("MASS", "STIFFNESS", "REAL_LU", "REAL_PIVOTS", "PAIR_LU", "PAIR_PIVOTS")
"""Arrays of the matrices that are kept, where they are dense."""

KNOWN = (
    *("U0", "DU0", "GUESS", "VALUE", "TRANSFORMED", "CHANGE", "H_A", "TO", "BACK", "AT_START", "MIDDLE"),
    *("TO_MIDDLE", "WEIGHTS", "ERROR", "C", "NUMBERS", "COUNTS"),
)
"""Arrays of :class:`Simultaneous` that stay the same from step to step."""
