"""Steps on the manifold of the constraints, compiled. This imports numba.

The algorithm is written once for four forms of equations, to which the six types of
:mod:`dae_sdc.constrained.quasilinear` come down; functions of the equations are called at their addresses.

A state is a pair of u and v; first-order equations have no v. Local coordinates z are

- in a chart: eta = U^T (u - base), and for second order nu = U^T v as well; for nonholonomic constraints u
  itself and nu = U^T (v - base), as only velocities are bound;
- without a chart: u and v themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types

from dae_sdc.dae.compiling import inner, kept, lightly_optimized
from dae_sdc.dae.machine import call_residual

FIRST, MULTIPLIED, SECOND, NONHOLONOMIC = range(4)
"""Forms: A u' = h with g(u) = 0; A u' + B lambda = h with g(u) = 0; A u'' + B lambda = h with g(u) = 0; and
A u'' + B lambda = h with g(u, u') = 0."""

A, B, H, G, DG, DG_DT, D2G = range(7)
"""Parts of the equations, in the order of their addresses."""

FORM, CHART, N, M, STAGES, POSITIONS, VELOCITIES, ERRORS, EXTRA, POINTS, ADDRESSES = range(11)
"""Entries of ``integers``: numbers, and from the last on the addresses of the parts."""

VALID, MADE, FRESH, EVALUATIONS, JACOBIANS, ITERATIONS, FACTORIZATIONS, SOLVES, WHERE = range(9)
"""Entries of ``marks``. Of the chart: whether there is one, how many there have been, whether the step began
with a new one. Then what is counted; and the place of an unknown or a constraint."""

SIGN, CHART_SIGN, START_SIGN, END_SIGN, CROSSED, MARKS = range(9, 15)
"""More ``marks``. Signs of determinants: of the last matrix, of the last one of a chart, of the saddle-point
matrix at the start and at the end of the step. Whether that of the chart has changed in the step. How many
there are."""

SOLVED, UNDEFINED, SLOW, DEPENDENT, SINGULAR, GOING = range(6)
"""How a step has ended, or that an iteration goes on. At WHERE stands the unknown with the largest error of a
solved step, or the constraint that depends on those before it."""

ALPHA, BETA, TURNED, ERROR, LAST_CHANGE, SIZE, START_SIZE, LEAST_SIZE, END_SIZE, NUMBERS = range(10)
"""``numbers``: Baumgarte's coefficients; cosine below which a new chart is made; norm of the error of a step;
last change of an iteration; logarithm of the determinant of the saddle-point matrix, the last one, that at
the start of the step, the least within the step and that at its end. How many there are."""

BASE, PLACE, SPEED, CHANGE, START, END, WEIGHTS, VECTORS = 0, 1, 2, 3, 4, 7, 10, 12
"""Rows of ``vectors``: base of the chart; u, v and their last derivative at a stage; the three at the start
and at the end of the step; weights of u and v; how many there are."""

Z0, Z1, Z, LOCAL_ERROR = range(4)
"""Rows of ``local``: local coordinates at the start and end of the step and at a stage, and the error."""

MULTIPLIERS, END_MULTIPLIERS, VALUE, REST = range(4)
"""Rows of ``sides``, a number for each constraint."""

SCALE, RHS = range(2)
"""Rows of ``long``: row scales of a matrix, and right-hand side or solution."""

MASS, J, REFLECTIONS = range(3)
"""Matrices of ``square``: A, [G; U^T], and reflections."""

CORRECTOR_ITERATIONS = 12
"""Largest number of Newton iterations that find a point on the manifold."""

ITERATIONS_IN_GOOD_CHART = 6
"""Newton iterations from which on a chart counts as a poor one, and a new one is made for the next step."""

CORRECTOR_TOLERANCE = 1e-8
"""Last relative change of Newton's method for a point on the manifold; it then leaves the square of that."""

TINY_PIVOT = 1e-13
"""Pivot, relative to the largest entry of its row, that counts as zero."""


class Memory(NamedTuple):
    """Memory of compiled steps: method and problem, the chart, and work space.

    With n unknowns u, m constraints, d = n - m, k local coordinates, and S stages of which some serve the
    interpolant alone. The fields are few, as each adds to the time of compilation.
    """

    integers: Any
    numbers: Any
    p: Any
    table: Any  # (rows, S): A, b, two rows of errors, A of the extra stages, weights of the interpolant
    times: Any  # c, c of the extra stages, points of the interpolant
    vectors: Any  # (VECTORS, n)
    local: Any  # (4, k)
    slopes: Any  # (S, k)
    sides: Any  # (4, m)
    long: Any  # (2, n + m)
    pivots: Any  # integers (2, n + m)
    basis: Any  # U, (n, d)
    square: Any  # (3, n, n)
    coupling: Any  # (n, m)
    G: Any  # (m, n)
    saddle: Any  # (n + m, n + m)
    points: Any  # (POINTS, 2 n + m)
    marks: Any  # integers (MARKS,)


@inner
def part(s, which, t, u, v, out):  # type: ignore[no-untyped-def]
    """Evaluate a part of the equations."""
    address = s.integers[ADDRESSES + which]
    call_residual(address, t, u.ctypes.data, v.ctypes.data, s.p.ctypes.data, out.ctypes.data)


@inner
def factor(matrix, pivots, scale, size, marks):  # type: ignore[no-untyped-def]
    """LU factors in place, by scaled row pivoting; returns the column without a pivot, or -1."""
    sign = 1
    for i in range(size):
        largest = 0.0
        for j in range(size):
            largest = max(largest, abs(matrix[i, j]))
        if not (largest > 0.0 and largest < np.inf):
            return i
        scale[i] = 1.0 / largest
    for k in range(size):
        best, at = -1.0, k
        for i in range(k, size):
            candidate = abs(matrix[i, k]) * scale[i]
            if candidate > best:
                best, at = candidate, i
        if not best > TINY_PIVOT:
            return k
        pivots[k] = at
        if at != k:
            for j in range(size):
                matrix[k, j], matrix[at, j] = matrix[at, j], matrix[k, j]
            scale[k], scale[at] = scale[at], scale[k]
            sign = -sign
        inverse = 1.0 / matrix[k, k]
        if inverse < 0.0:
            sign = -sign
        for i in range(k + 1, size):
            if matrix[i, k] != 0.0:
                ratio = matrix[i, k] * inverse
                matrix[i, k] = ratio
                for j in range(k + 1, size):
                    matrix[i, j] -= ratio * matrix[k, j]
    marks[SIGN] = sign
    return -1


@inner
def measure(s, size):  # type: ignore[no-untyped-def]
    """Set the logarithm of the determinant of the saddle-point matrix from its factors."""
    total = 0.0
    for k in range(size):
        total += np.log(abs(s.saddle[k, k]))
    s.numbers[SIZE] = total
    s.numbers[LEAST_SIZE] = min(s.numbers[LEAST_SIZE], total)


@inner
def substitute(matrix, pivots, x, size):  # type: ignore[no-untyped-def]
    """Solve with factors, in place."""
    for k in range(size):
        at = pivots[k]
        if at != k:
            x[k], x[at] = x[at], x[k]
    for i in range(1, size):
        total = x[i]
        for j in range(i):
            total -= matrix[i, j] * x[j]
        x[i] = total
    for i in range(size - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, size):
            total -= matrix[i, j] * x[j]
        x[i] = total / matrix[i, i]


@inner
def evaluate_constraint_jacobian(s, t, u, v):  # type: ignore[no-untyped-def]
    """The Jacobian G of the constraints, by v where they are nonholonomic."""
    if s.integers[M] > 0:
        part(s, DG, t, u, v, s.G)
        s.marks[JACOBIANS] += 1


@inner
def factor_chart(s):  # type: ignore[no-untyped-def]
    """Factors of [G; U^T] at the point where G was evaluated."""
    n, m = s.integers[N], s.integers[M]
    for j in range(n):
        for i in range(m):
            s.square[J, i, j] = s.G[i, j]
        for i in range(m, n):
            s.square[J, i, j] = s.basis[j, i - m]
    s.marks[FACTORIZATIONS] += 1
    regular = factor(s.square[J], s.pivots[0], s.long[SCALE], n, s.marks) < 0
    s.marks[CHART_SIGN] = s.marks[SIGN]
    return regular


@inner
def make_chart(s, t, u, v):  # type: ignore[no-untyped-def]
    """A new chart at a point: an orthonormal basis U of the kernel of G, by reflections of G^T."""
    n, m = s.integers[N], s.integers[M]
    evaluate_constraint_jacobian(s, t, u, v)
    Q, R = s.square[REFLECTIONS], s.square[J]
    for i in range(n):
        for j in range(n):
            Q[i, j] = 1.0 if i == j else 0.0
    for k in range(m):
        size = 0.0
        for j in range(n):
            size += s.G[k, j] ** 2
        size = np.sqrt(size)
        if not (size > 0.0 and size < np.inf):
            s.marks[WHERE] = k
            return DEPENDENT if size == 0.0 else UNDEFINED
        for j in range(n):
            R[j, k] = s.G[k, j] / size
    for k in range(m):
        norm = 0.0
        for i in range(k, n):
            norm += R[i, k] ** 2
        norm = np.sqrt(norm)
        if not norm > TINY_PIVOT:
            s.marks[WHERE] = k
            return DEPENDENT
        if R[k, k] > 0.0:
            norm = -norm
        # The reflection I - beta w w^T with w = column - norm e_k.
        R[k, k] -= norm
        beta = -1.0 / (norm * R[k, k])
        for j in range(k + 1, m):
            total = 0.0
            for i in range(k, n):
                total += R[i, k] * R[i, j]
            total *= beta
            for i in range(k, n):
                R[i, j] -= total * R[i, k]
        for i in range(n):
            total = 0.0
            for j in range(k, n):
                total += Q[i, j] * R[j, k]
            total *= beta
            for j in range(k, n):
                Q[i, j] -= total * R[j, k]
    bound = v if s.integers[FORM] == NONHOLONOMIC else u
    for i in range(n):
        s.vectors[BASE, i] = bound[i]
        for j in range(n - m):
            s.basis[i, j] = Q[i, m + j]
    s.marks[VALID], s.marks[FRESH] = 1, 1
    s.marks[MADE] += 1
    return SOLVED


@inner
def project_on_chart(s, x, relative, out):  # type: ignore[no-untyped-def]
    """U^T x, or U^T (x - base), into ``out``."""
    n, m = s.integers[N], s.integers[M]
    for j in range(n - m):
        total = 0.0
        for i in range(n):
            total += s.basis[i, j] * (x[i] - s.vectors[BASE, i] if relative else x[i])
        out[j] = total


@inner
def turn(s):  # type: ignore[no-untyped-def]
    """Cosine of the largest angle between a column of U and the tangent space, by factors of [G; U^T]."""
    n, m = s.integers[N], s.integers[M]
    longest = 1.0
    for j in range(n - m):
        for i in range(n):
            s.long[RHS, i] = 0.0
        s.long[RHS, m + j] = 1.0
        substitute(s.square[J], s.pivots[0], s.long[RHS], n)
        total = 0.0
        for i in range(n):
            total += s.long[RHS, i] ** 2
        longest = max(longest, np.sqrt(total))
    return 1.0 / longest


@inner
def improve(s, x):  # type: ignore[no-untyped-def]
    """Add the correction at RHS to ``x``; returns whether Newton's method is done, fails or goes on."""
    s.marks[ITERATIONS] += 1
    change = size = 0.0
    for i in range(len(x)):
        x[i] += s.long[RHS, i]
        change, size = max(change, abs(s.long[RHS, i])), max(size, abs(x[i]))
    before, s.numbers[LAST_CHANGE] = s.numbers[LAST_CHANGE], change
    if not change < np.inf:
        return UNDEFINED
    if change <= CORRECTOR_TOLERANCE * size or change <= 1e-300:
        return SOLVED
    return SLOW if change > 2.0 * before else GOING


@inner
def correct(s, t, eta, u, v, x):  # type: ignore[no-untyped-def]
    """Newton's method for [g; U^T (x - base) - eta] = 0 from ``x``: ``u`` or, nonholonomic, ``v``."""
    n, m = s.integers[N], s.integers[M]
    s.numbers[LAST_CHANGE] = np.inf
    for iteration in range(CORRECTOR_ITERATIONS):
        part(s, G, t, u, v, s.sides[VALUE])
        evaluate_constraint_jacobian(s, t, u, v)
        if not factor_chart(s):
            return SINGULAR
        project_on_chart(s, x, True, s.long[RHS, m:])
        for i in range(m):
            s.long[RHS, i] = -s.sides[VALUE, i]
        for i in range(n - m):
            s.long[RHS, m + i] = eta[i] - s.long[RHS, m + i]
        substitute(s.square[J], s.pivots[0], s.long[RHS], n)
        status = improve(s, x)
        if status != GOING:
            if status == SOLVED and iteration >= ITERATIONS_IN_GOOD_CHART:
                s.marks[VALID] = 0
            return status
    return SLOW


@inner
def lift(s, t, z, u, v):  # type: ignore[no-untyped-def]
    """From local coordinates to u and v, which hold guesses; G and the factors of [G; U^T] are left there."""
    n, m = s.integers[N], s.integers[M]
    form, d = s.integers[FORM], n - m
    if not s.integers[CHART]:
        for i in range(n):
            u[i] = z[i]
        if form >= SECOND:
            for i in range(n):
                v[i] = z[n + i]
        evaluate_constraint_jacobian(s, t, u, v)
        return SOLVED
    if form == NONHOLONOMIC:
        for i in range(n):
            u[i] = z[i]
        status = correct(s, t, z[n:], u, v, v)
    else:
        status = correct(s, t, z, u, v, u)
    if status != SOLVED:
        return status
    evaluate_constraint_jacobian(s, t, u, v)
    if not factor_chart(s):
        return SINGULAR
    if form == SECOND:
        moving(s, t, u, v, s.long[RHS])
        for i in range(d):
            s.long[RHS, m + i] = z[d + i]
        substitute(s.square[J], s.pivots[0], s.long[RHS], n)
        for i in range(n):
            v[i] = s.long[RHS, i]
    return SOLVED


@inner
def moving(s, t, u, v, out):  # type: ignore[no-untyped-def]
    """-g_t, with the part g_u v of nonholonomic constraints, into ``out``; 0 where g is free of time."""
    m = s.integers[M]
    if s.integers[ADDRESSES + DG_DT] == 0 or m == 0:
        for i in range(m):
            out[i] = 0.0
        return
    part(s, DG_DT, t, u, v, s.sides[REST])
    for i in range(m):
        out[i] = -s.sides[REST, i]


@inner
def factor_saddle(s, t, u, v):  # type: ignore[no-untyped-def]
    """Factors of [A B; G 0], or of [A; G], with G as it was evaluated last."""
    n, m, form = s.integers[N], s.integers[M], s.integers[FORM]
    part(s, A, t, u, v, s.square[MASS])
    saddle = s.saddle
    if form == FIRST:
        for i in range(n - m):
            for j in range(n):
                saddle[i, j] = s.square[MASS, i, j]
        for i in range(m):
            for j in range(n):
                saddle[n - m + i, j] = s.G[i, j]
        size = n
    else:
        own = s.integers[ADDRESSES + B] != 0
        if own:
            part(s, B, t, u, v, s.coupling)
        for i in range(n):
            for j in range(n):
                saddle[i, j] = s.square[MASS, i, j]
            for j in range(m):
                saddle[i, n + j] = s.coupling[i, j] if own else s.G[j, i]
                saddle[n + j, i] = s.G[j, i]
        for i in range(m):
            for j in range(m):
                saddle[n + i, n + j] = 0.0
        size = n + m
    s.marks[FACTORIZATIONS] += 1
    return factor(saddle, s.pivots[1], s.long[SCALE], size, s.marks) < 0


@inner
def accelerate(s, t, u, v, a, multipliers):  # type: ignore[no-untyped-def]
    """u' or u'' and the multipliers by the saddle-point equations, with G as it was evaluated last."""
    n, m, form = s.integers[N], s.integers[M], s.integers[FORM]
    alpha, beta = s.numbers[ALPHA], s.numbers[BETA]
    s.marks[EVALUATIONS] += 1
    if not factor_saddle(s, t, u, v):
        return SINGULAR
    rhs = s.long[RHS]
    part(s, H, t, u, v, rhs)
    at = n - m if form == FIRST else n
    if form == SECOND:
        part(s, D2G, t, u, v, s.sides[REST])
        for i in range(m):
            rhs[at + i] = -s.sides[REST, i]
    else:
        moving(s, t, u, v, rhs[at:])
    if alpha != 0.0 or beta != 0.0:
        part(s, G, t, u, v, s.sides[VALUE])
        if form == SECOND:
            moving(s, t, u, v, s.sides[REST])
            for i in range(m):
                speed = -s.sides[REST, i]
                for j in range(n):
                    speed += s.G[i, j] * v[j]
                rhs[at + i] -= 2.0 * alpha * speed + beta * beta * s.sides[VALUE, i]
        else:
            for i in range(m):
                rhs[at + i] -= alpha * s.sides[VALUE, i]
    size = n if form == FIRST else n + m
    measure(s, size)
    substitute(s.saddle, s.pivots[1], rhs, size)
    s.marks[SOLVES] += 1
    defined = True
    for i in range(n):
        a[i] = rhs[i]
        defined = defined and abs(rhs[i]) < np.inf
    for i in range(size - n):
        multipliers[i] = rhs[n + i]
    return SOLVED if defined else UNDEFINED


@inner
def local_slope(s, v, a, out):  # type: ignore[no-untyped-def]
    """z' from the derivatives: v and a, or u' alone in ``a``."""
    n, m, form = s.integers[N], s.integers[M], s.integers[FORM]
    d = n - m
    if not s.integers[CHART]:
        if form >= SECOND:
            for i in range(n):
                out[i], out[n + i] = v[i], a[i]
        else:
            for i in range(n):
                out[i] = a[i]
    elif form == SECOND:
        project_on_chart(s, v, False, out)
        project_on_chart(s, a, False, out[d:])
    elif form == NONHOLONOMIC:
        for i in range(n):
            out[i] = v[i]
        project_on_chart(s, a, False, out[n:])
    else:
        project_on_chart(s, a, False, out)


@inner
def localize(s, u, v, out):  # type: ignore[no-untyped-def]
    """Local coordinates of a state."""
    n, m, form = s.integers[N], s.integers[M], s.integers[FORM]
    if not s.integers[CHART] or form == NONHOLONOMIC:
        for i in range(n):
            out[i] = u[i]
        if s.integers[CHART]:
            project_on_chart(s, v, True, out[n:])
        elif form >= SECOND:
            for i in range(n):
                out[n + i] = v[i]
    else:
        project_on_chart(s, u, True, out)
        if form == SECOND:
            project_on_chart(s, v, False, out[n - m :])


@inner
def guess(s, after, u, v):  # type: ignore[no-untyped-def]
    """Extrapolate the state from the start of the step over a time ``after``."""
    form = s.integers[FORM]
    u0, v0, a0 = s.vectors[START], s.vectors[START + 1], s.vectors[START + 2]
    for i in range(s.integers[N]):
        if form >= SECOND:
            u[i] = u0[i] + after * (v0[i] + 0.5 * after * a0[i])
            v[i] = v0[i] + after * a0[i]
        else:
            u[i] = u0[i] + after * a0[i]


@inner
def stage(s, t, after, at, multipliers, slope):  # type: ignore[no-untyped-def]
    """State, in three vectors from ``at`` on, and slope where the local coordinates are those at Z."""
    u, v, a = s.vectors[at], s.vectors[at + 1], s.vectors[at + 2]
    guess(s, after, u, v)
    status = lift(s, t + after, s.local[Z], u, v)
    if status == SOLVED:
        status = accelerate(s, t + after, u, v, a, multipliers)
    if status == SOLVED:
        local_slope(s, v, a, slope)
    return status


@inner
def combine(s, h, row, count, out):  # type: ignore[no-untyped-def]
    """z0 + h sum_j row[j] K[j] into ``out``."""
    for i in range(len(out)):
        total = 0.0
        for j in range(count):
            total += row[j] * s.slopes[j, i]
        out[i] = s.local[Z0, i] + h * total


@inner
def chart_at_start(s, t, anew):  # type: ignore[no-untyped-def]
    """The chart in which a step is taken: the last one while it is near the tangent space, or a new one."""
    s.marks[FRESH] = 0
    u, v = s.vectors[START], s.vectors[START + 1]
    if s.marks[VALID] and not anew:
        evaluate_constraint_jacobian(s, t, u, v)
        if factor_chart(s) and turn(s) >= s.numbers[TURNED]:
            return SOLVED
    status = make_chart(s, t, u, v)
    if status == SOLVED and not factor_chart(s):
        return SINGULAR
    return status


@inner
def stages(s, t, h):  # type: ignore[no-untyped-def]
    """All stages, and the end of the step before any projection."""
    count, sign = s.integers[STAGES], s.marks[CHART_SIGN]
    localize(s, s.vectors[START], s.vectors[START + 1], s.local[Z0])
    local_slope(s, s.vectors[START + 1], s.vectors[START + 2], s.slopes[0])
    for i in range(1, count):
        combine(s, h, s.table[i], i, s.local[Z])
        status = stage(s, t, s.times[i] * h, PLACE, s.sides[MULTIPLIERS], s.slopes[i])
        if status != SOLVED:
            return status
    combine(s, h, s.table[count], count, s.local[Z1])
    for i in range(s.local.shape[1]):
        s.local[Z, i] = s.local[Z1, i]
    status = stage(s, t, h, END, s.sides[END_MULTIPLIERS], s.slopes[count])
    s.marks[END_SIGN] = s.marks[SIGN]
    s.marks[CROSSED] = s.integers[CHART] and s.marks[CHART_SIGN] != sign
    return status


@inner
def error_norm(s, h, row):  # type: ignore[no-untyped-def]
    """Weighted sum of squares of the error h sum_j row[j] K[j], as one of u and v at the end of the step."""
    n, m, form = s.integers[N], s.integers[M], s.integers[FORM]
    d, total, largest = n - m, 0.0, -1.0
    for i in range(s.local.shape[1]):
        value = 0.0
        for j in range(s.integers[STAGES] + 1):
            value += row[j] * s.slopes[j, i]
        s.local[LOCAL_ERROR, i] = h * value
    free = not s.integers[CHART]
    at = 0
    for which in range(2 if form >= SECOND else 1):
        if free or (form == NONHOLONOMIC and which == 0):
            for i in range(n):
                s.long[RHS, i] = s.local[LOCAL_ERROR, at + i]
            at += n
        else:
            for i in range(m):
                s.long[RHS, i] = 0.0
            for i in range(d):
                s.long[RHS, m + i] = s.local[LOCAL_ERROR, at + i]
            substitute(s.square[J], s.pivots[0], s.long[RHS], n)
            at += d
        for i in range(n):
            square = (s.vectors[WEIGHTS + which, i] * s.long[RHS, i]) ** 2
            total += square
            if square > largest:
                largest, s.marks[WHERE] = square, which * n + i
    return total


@inner
def estimate(s, h):  # type: ignore[no-untyped-def]
    """Norm of the error of the step; with two estimates as Dormand and Prince combine them."""
    first = error_norm(s, h, s.table[s.integers[STAGES] + 1])
    size = s.integers[N] * (2 if s.integers[FORM] >= SECOND else 1)
    if s.integers[ERRORS] == 1 or first == 0.0:
        return np.sqrt(first / size)
    return first / np.sqrt((first + 0.01 * error_norm(s, h, s.table[s.integers[STAGES] + 2])) * size)


@inner
def project(s, t, u, v, x):  # type: ignore[no-untyped-def]
    """Move ``x``, which is ``u`` or, nonholonomic, ``v``, along A^-1 B to where g = 0."""
    n, m = s.integers[N], s.integers[M]
    first = s.integers[FORM] == FIRST
    size, at = (n, n - m) if first else (n + m, n)
    s.numbers[LAST_CHANGE] = np.inf
    for _ in range(CORRECTOR_ITERATIONS):
        part(s, G, t, u, v, s.sides[VALUE])
        evaluate_constraint_jacobian(s, t, u, v)
        if not factor_saddle(s, t, u, v):
            return SINGULAR
        for i in range(size):
            s.long[RHS, i] = -s.sides[VALUE, i - at] if i >= at else 0.0
        substitute(s.saddle, s.pivots[1], s.long[RHS], size)
        status = improve(s, x)
        if status != GOING:
            return status
    return SLOW


@inner
def project_velocity(s, t, u, v):  # type: ignore[no-untyped-def]
    """Move v along A^-1 B to where G v + g_t = 0; G is evaluated at u."""
    n, m = s.integers[N], s.integers[M]
    evaluate_constraint_jacobian(s, t, u, v)
    if not factor_saddle(s, t, u, v):
        return SINGULAR
    for i in range(n):
        s.long[RHS, i] = 0.0
    moving(s, t, u, v, s.long[RHS, n:])
    for i in range(m):
        for j in range(n):
            s.long[RHS, n + i] -= s.G[i, j] * v[j]
    substitute(s.saddle, s.pivots[1], s.long[RHS], n + m)
    for i in range(n):
        v[i] += s.long[RHS, i]
    return SOLVED


@inner
def project_state(s, t, at, multipliers):  # type: ignore[no-untyped-def]
    """The projections of the method for the vectors from ``at`` on, and the derivative there."""
    u, v, a = s.vectors[at], s.vectors[at + 1], s.vectors[at + 2]
    form, status = s.integers[FORM], SOLVED
    if s.integers[POSITIONS] and form != NONHOLONOMIC:
        status = project(s, t, u, v, u)
    if status == SOLVED and s.integers[VELOCITIES]:
        if form == SECOND:
            status = project_velocity(s, t, u, v)
        elif form == NONHOLONOMIC:
            status = project(s, t, u, v, v)
    if status != SOLVED:
        return status
    evaluate_constraint_jacobian(s, t, u, v)
    return accelerate(s, t, u, v, a, multipliers)


@kept
def derivative(s, t):  # type: ignore[no-untyped-def]
    """u' or u'' and the multipliers at the start of the step."""
    u, v, a = s.vectors[START], s.vectors[START + 1], s.vectors[START + 2]
    evaluate_constraint_jacobian(s, t, u, v)
    status = accelerate(s, t, u, v, a, s.sides[MULTIPLIERS])
    s.marks[START_SIGN], s.numbers[START_SIZE] = s.marks[SIGN], s.numbers[SIZE]
    return status


@kept
def step(s, t, h, estimates):  # type: ignore[no-untyped-def]
    """A step of an explicit Runge-Kutta method; how it ended."""
    s.numbers[ERROR], s.numbers[LEAST_SIZE] = 0.0, np.inf
    if s.integers[CHART]:
        status = chart_at_start(s, t, False)
        if status == SOLVED:
            status = stages(s, t, h)
            if status != SOLVED and not s.marks[FRESH]:
                status = chart_at_start(s, t, True)
                if status == SOLVED:
                    status = stages(s, t, h)
    else:
        status = stages(s, t, h)
    if status != SOLVED:
        return status
    if estimates:
        s.numbers[ERROR] = estimate(s, h)
        if not s.numbers[ERROR] <= 1.0:
            return SOLVED
    if not s.integers[CHART] and (s.integers[POSITIONS] or s.integers[VELOCITIES]):
        status = project_state(s, t + h, END, s.sides[END_MULTIPLIERS])
    s.numbers[END_SIZE] = s.numbers[SIZE]
    return status


@kept
def interior(s, t, h):  # type: ignore[no-untyped-def]
    """States within a finished step, on the manifold if its end is."""
    count, n, m = s.integers[STAGES], s.integers[N], s.integers[M]
    form = s.integers[FORM]
    u, v, multipliers = s.vectors[PLACE], s.vectors[SPEED], s.sides[MULTIPLIERS]
    projects = not s.integers[CHART] and (s.integers[POSITIONS] or s.integers[VELOCITIES])
    known, extra = count + 1, s.integers[EXTRA]
    for i in range(extra):
        combine(s, h, s.table[count + 3 + i], known, s.local[Z])
        status = stage(s, t, s.times[count + i] * h, PLACE, multipliers, s.slopes[known])
        if status != SOLVED:
            return status
        known += 1
    for k in range(s.integers[POINTS]):
        combine(s, h, s.table[count + 3 + extra + k], known, s.local[Z])
        after = s.times[count + extra + k] * h
        guess(s, after, u, v)
        status = lift(s, t + after, s.local[Z], u, v)
        if status == SOLVED:
            if projects:
                status = project_state(s, t + after, PLACE, multipliers)
            elif form != FIRST:
                status = accelerate(s, t + after, u, v, s.vectors[CHANGE], multipliers)
        if status != SOLVED:
            return status
        row = s.points[k]
        at = 0
        for i in range(n):
            row[at] = u[i]
            at += 1
        if form >= SECOND:
            for i in range(n):
                row[at] = v[i]
                at += 1
        if form != FIRST:
            for i in range(m):
                row[at] = multipliers[i]
                at += 1
    return SOLVED


@kept
def rattle(s, t, h):  # type: ignore[no-untyped-def]
    """A step of RATTLE for A u'' + B lambda = h(t, u), g(t, u) = 0 with a constant A."""
    n, m = s.integers[N], s.integers[M]
    u0, v0, u1, v1 = s.vectors[START], s.vectors[START + 1], s.vectors[END], s.vectors[END + 1]
    evaluate_constraint_jacobian(s, t, u0, v0)
    if not factor_saddle(s, t, u0, v0):
        return SINGULAR
    part(s, H, t, u0, v0, s.vectors[CHANGE])
    if not free_acceleration(s, s.vectors[CHANGE]):
        return SINGULAR
    own = s.integers[ADDRESSES + B] != 0
    for i in range(n):
        u1[i] = u0[i] + h * (v0[i] + 0.5 * h * s.vectors[CHANGE, i])
        for j in range(m):
            s.coupling[i, j] = s.coupling[i, j] if own else s.G[j, i]
    status = SLOW
    s.numbers[LAST_CHANGE] = s.numbers[LEAST_SIZE] = np.inf
    for _ in range(CORRECTOR_ITERATIONS):
        part(s, G, t + h, u1, v0, s.sides[VALUE])
        evaluate_constraint_jacobian(s, t + h, u1, v0)
        for i in range(n):
            for j in range(n):
                s.saddle[i, j] = s.square[MASS, i, j]
            for j in range(m):
                s.saddle[i, n + j] = s.coupling[i, j]
                s.saddle[n + j, i] = s.G[j, i]
            s.long[RHS, i] = 0.0
        for i in range(m):
            for j in range(m):
                s.saddle[n + i, n + j] = 0.0
            s.long[RHS, n + i] = -s.sides[VALUE, i]
        s.marks[FACTORIZATIONS] += 1
        if factor(s.saddle, s.pivots[1], s.long[SCALE], n + m, s.marks) >= 0:
            return SINGULAR
        substitute(s.saddle, s.pivots[1], s.long[RHS], n + m)
        status = improve(s, u1)
        if status != GOING:
            break
    if status != SOLVED:
        return SLOW if status == GOING else status
    for i in range(n):
        v1[i] = (u1[i] - u0[i]) / h
    part(s, H, t + h, u1, v1, s.vectors[CHANGE])
    if not free_acceleration(s, s.vectors[CHANGE]):
        return SINGULAR
    for i in range(n):
        v1[i] += 0.5 * h * s.vectors[CHANGE, i]
    status = project_velocity(s, t + h, u1, v1)
    if status != SOLVED:
        return status
    status = accelerate(s, t + h, u1, v1, s.vectors[END + 2], s.sides[END_MULTIPLIERS])
    s.marks[END_SIGN], s.numbers[END_SIZE] = s.marks[SIGN], s.numbers[SIZE]
    return status


@inner
def free_acceleration(s, force):  # type: ignore[no-untyped-def]
    """A^-1 times a force, in place, with A as it was evaluated last."""
    n = s.integers[N]
    for i in range(n):
        for j in range(n):
            s.square[J, i, j] = s.square[MASS, i, j]
    s.marks[FACTORIZATIONS] += 1
    if factor(s.square[J], s.pivots[0], s.long[SCALE], n, s.marks) >= 0:
        return False
    substitute(s.square[J], s.pivots[0], force, n)
    return True


ENTRIES = {
    derivative: (types.float64,),
    step: (types.float64, types.float64, types.boolean),
    interior: (types.float64, types.float64),
    rattle: (types.float64, types.float64),
}
"""Functions that are called from Python, with the types of their arguments besides the memory."""


def ready(memory: Memory) -> None:
    """Compile what is not compiled yet, lightly, as optimisation would take most of the time."""
    if not all(function.signatures for function in ENTRIES):
        kind = typeof(memory)
        with lightly_optimized():
            for function, kinds in ENTRIES.items():
                function.compile((kind, *kinds))
