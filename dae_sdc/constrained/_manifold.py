"""Steps on the manifold of the constraints, compiled. This imports numba.

The algorithm is written once for four forms of equations, to which the six types of
:mod:`dae_sdc.constrained.quasilinear` come down; functions of the equations are called at their addresses.

A state is a pair of u and v; first-order equations have no v. Local coordinates z are

- in a chart: eta = U^T (u - base), and for second order nu = U^T v as well; for nonholonomic constraints u
  itself and nu = U^T (v - base), as only velocities are bound;
- without a chart: u and v themselves.

What a step works on stands in one :class:`ManifoldMemory`, which functions take as ``s``. Vectors, and
matrices row by row, are passed as pointers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from dae_sdc.constrained import manifold as own
from dae_sdc.constrained.manifold import (
    DEPENDENT,
    FIRST,
    NONHOLONOMIC,
    SECOND,
    SINGULAR,
    SLOW,
    SOLVED,
    UNDEFINED,
    ManifoldMemory,
)
from dae_sdc.dae.compiling import (
    RecordView,
    address_of,
    c_functions,
    call_residual,
    doubles,
    integers,
    within_compiled,
)
from dae_sdc.sweepers import _simultaneous, steps_ahead
from dae_sdc.sweepers.tolerance import TINY

CORRECTOR_ITERATIONS = 12  # Largest number of Newton iterations that find a point on the manifold.
# Newton iterations from which on a chart counts as a poor one, and a new one is made for the next step.
ITERATIONS_IN_GOOD_CHART = 6
# Last relative change of Newton's method for a point on the manifold; it then leaves the square of that.
CORRECTOR_TOLERANCE = 1e-8
# Ways of Newton's method: with coordinates eta in the chart, along A^-1 B, and along that of the start.
WITHIN_CHART, ALONG_B, ALONG_KEPT_B = range(3)
TINY_PIVOT = 1e-13  # Pivot, relative to the largest entry of its row, that counts as zero.

_view = RecordView(ManifoldMemory)
memory_at = _view.at


@within_compiled
def entries_from(values: Any, first: Any) -> Any:
    """The numbers at a pointer from entry ``first`` on."""
    return doubles(address_of(values) + 8 * first)


@within_compiled
def copy(values: Any, count: Any, out: Any) -> None:
    """The first numbers at a pointer, to another."""
    for i in range(count):
        out[i] = values[i]


@within_compiled
def negate(values: Any, count: Any, out: Any) -> None:
    """The first numbers at a pointer with the other sign, to another or in place."""
    for i in range(count):
        out[i] = -values[i]


@within_compiled
def clear(out: Any, count: Any) -> None:
    """Set the first numbers at a pointer to 0."""
    for i in range(count):
        out[i] = 0.0


@within_compiled
def evaluate(s: Any, function: Any, t: Any, u: Any, v: Any, out: Any) -> None:
    """Evaluate a part of the equations."""
    call_residual(function, t, address_of(u), address_of(v), s.p, address_of(out))


@within_compiled
def factor(s: Any, matrix: Any, pivots: Any, size: Any) -> Any:
    """LU factors in place, by scaled row pivoting; returns the column without a pivot, or -1."""
    sign, scale = 1, doubles(s.scale)
    for i in range(size):
        largest = 0.0
        for j in range(size):
            largest = max(largest, abs(matrix[i * size + j]))
        if not (largest > 0.0 and largest < np.inf):
            return i
        scale[i] = 1.0 / largest
    for k in range(size):
        best, at = -1.0, k
        for i in range(k, size):
            candidate = abs(matrix[i * size + k]) * scale[i]
            if candidate > best:
                best, at = candidate, i
        if not best > TINY_PIVOT:
            return k
        pivots[k] = at
        upper, other = k * size, at * size
        if at != k:
            for j in range(size):
                matrix[upper + j], matrix[other + j] = matrix[other + j], matrix[upper + j]
            scale[k], scale[at] = scale[at], scale[k]
            sign = -sign
        inverse = 1.0 / matrix[upper + k]
        if inverse < 0.0:
            sign = -sign
        for i in range(k + 1, size):
            row = i * size
            if matrix[row + k] != 0.0:
                ratio = matrix[row + k] * inverse
                matrix[row + k] = ratio
                for j in range(k + 1, size):
                    matrix[row + j] -= ratio * matrix[upper + j]
    s.marks.sign = sign
    return -1


@within_compiled
def substitute(matrix: Any, pivots: Any, x: Any, size: Any) -> None:
    """Solve with factors, in place."""
    for k in range(size):
        at = pivots[k]
        if at != k:
            x[k], x[at] = x[at], x[k]
    for i in range(1, size):
        total = x[i]
        for j in range(i):
            total -= matrix[i * size + j] * x[j]
        x[i] = total
    for i in range(size - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, size):
            total -= matrix[i * size + j] * x[j]
        x[i] = total / matrix[i * size + i]


@within_compiled
def solve_chart(s: Any, x: Any) -> None:
    """Solve with the factors of [G; U^T], or of A in their place, in place."""
    substitute(doubles(s.chart_matrix), integers(s.chart_pivots), x, s.n)


@within_compiled
def solve_saddle(s: Any, x: Any, size: Any) -> None:
    """Solve with the factors of the saddle-point matrix, in place."""
    substitute(doubles(s.saddle), integers(s.saddle_pivots), x, size)


@within_compiled
def evaluate_constraint_jacobian(s: Any, t: Any, u: Any, v: Any) -> None:
    """The Jacobian G of the constraints, by v where they are nonholonomic."""
    if s.m > 0:
        evaluate(s, s.dg, t, u, v, doubles(s.dg_value))
        s.marks.counts.jacobian += 1


@within_compiled
def factor_chart(s: Any) -> Any:
    """Factors of [G; U^T] at the point where G was evaluated."""
    n, m = s.n, s.m
    d, matrix, G, basis = n - m, doubles(s.chart_matrix), doubles(s.dg_value), doubles(s.basis)
    copy(G, m * n, matrix)
    for j in range(n):
        for i in range(m, n):
            matrix[i * n + j] = basis[j * d + i - m]
    s.marks.counts.factorization += 1
    regular = factor(s, matrix, integers(s.chart_pivots), n) < 0
    s.marks.chart_sign = s.marks.sign
    return regular


@within_compiled
def make_chart(s: Any, t: Any, u: Any, v: Any) -> Any:
    """A new chart at a point: an orthonormal basis U of the kernel of G, by reflections of G^T."""
    n, m = s.n, s.m
    evaluate_constraint_jacobian(s, t, u, v)
    G, W, width = doubles(s.dg_value), doubles(s.saddle), m + n  # [G^T I], in rows of n + m
    clear(W, n * width)
    for k in range(m):
        size = 0.0
        for j in range(n):
            size += G[k * n + j] ** 2
        size = np.sqrt(size)
        if not (size > 0.0 and size < np.inf):
            s.marks.where = k
            return DEPENDENT if size == 0.0 else UNDEFINED
        for j in range(n):
            W[j * width + k] = G[k * n + j] / size
    for i in range(n):
        W[i * width + m + i] = 1.0
    for k in range(m):
        norm = 0.0
        for i in range(k, n):
            norm += W[i * width + k] ** 2
        norm = np.sqrt(norm)
        if not norm > TINY_PIVOT:
            s.marks.where = k
            return DEPENDENT
        if W[k * width + k] > 0.0:
            norm = -norm
        # The reflection I - beta w w^T with w = column - norm e_k.
        W[k * width + k] -= norm
        beta = -1.0 / (norm * W[k * width + k])
        for j in range(k + 1, width):
            total = 0.0
            for i in range(k, n):
                total += W[i * width + k] * W[i * width + j]
            total *= beta
            for i in range(k, n):
                W[i * width + j] -= total * W[i * width + k]
    bound = v if s.form == NONHOLONOMIC else u
    basis = doubles(s.basis)
    copy(bound, n, doubles(s.base))
    for i in range(n):
        for j in range(n - m):
            basis[i * (n - m) + j] = W[(m + j) * width + m + i]
    s.marks.valid = s.marks.fresh = 1
    s.marks.made += 1
    return SOLVED if factor_chart(s) else SINGULAR


@within_compiled
def project_on_chart(s: Any, x: Any, relative: Any, out: Any) -> None:
    """U^T x, or U^T (x - base), into ``out``."""
    n, d, base, basis = s.n, s.n - s.m, doubles(s.base), doubles(s.basis)
    for j in range(d):
        total = 0.0
        for i in range(n):
            total += basis[i * d + j] * (x[i] - base[i] if relative else x[i])
        out[j] = total


@within_compiled
def turn(s: Any) -> Any:
    """Cosine of the largest angle between a column of U and the tangent space, by factors of [G; U^T]."""
    n, m, rhs = s.n, s.m, doubles(s.rhs)
    longest = 1.0
    for j in range(n - m):
        clear(rhs, n)
        rhs[m + j] = 1.0
        solve_chart(s, rhs)
        total = 0.0
        for i in range(n):
            total += rhs[i] ** 2
        longest = max(longest, np.sqrt(total))
    return 1.0 / longest


@within_compiled
def correct(s: Any, t: Any, u: Any, v: Any, x: Any, way: Any, eta: Any) -> Any:
    """Newton's method for g = 0 from ``x``, which is ``u`` or, nonholonomic, ``v``, on one of the ways."""
    n, m, rhs, value, before = s.n, s.m, doubles(s.rhs), doubles(s.g_value), np.inf
    at = n - m if s.form == FIRST else n
    for iteration in range(CORRECTOR_ITERATIONS):
        evaluate(s, s.g, t, u, v, value)
        evaluate_constraint_jacobian(s, t, u, v)
        if way == WITHIN_CHART:
            if not factor_chart(s):
                return SINGULAR
            project_on_chart(s, x, True, entries_from(rhs, m))
            negate(value, m, rhs)
            for i in range(n - m):
                rhs[m + i] = eta[i] - rhs[m + i]
            solve_chart(s, rhs)
        else:
            if not (factor_saddle(s, t, u, v) if way == ALONG_B else factor_filled(s, True)):
                return SINGULAR
            clear(rhs, at)
            negate(value, m, entries_from(rhs, at))
            solve_saddle(s, rhs, at + m)
        s.marks.counts.newton += 1
        change = size = 0.0
        for i in range(n):
            x[i] += rhs[i]
            change, size = max(change, abs(rhs[i])), max(size, abs(x[i]))
        if not change < np.inf:
            return UNDEFINED
        if change <= CORRECTOR_TOLERANCE * size or change <= 1e-300:
            if way == WITHIN_CHART and iteration >= ITERATIONS_IN_GOOD_CHART:
                s.marks.valid = 0
            return SOLVED
        if change > 2.0 * before:
            return SLOW
        before = change
    return SLOW


@within_compiled
def lift(s: Any, t: Any, z: Any, u: Any, v: Any) -> Any:
    """From local coordinates to u and v, which hold guesses; G and the factors of [G; U^T] are left there."""
    n, m, d, form = s.n, s.m, s.n - s.m, s.form
    if not s.chart or form == NONHOLONOMIC:
        copy(z, n, u)
        z = entries_from(z, n)
    status = SOLVED
    if s.chart:
        status = correct(s, t, u, v, v if form == NONHOLONOMIC else u, WITHIN_CHART, z)
    elif form >= SECOND:
        copy(z, n, v)
    if status != SOLVED:
        return status
    evaluate_constraint_jacobian(s, t, u, v)
    if not s.chart:
        return SOLVED
    if not factor_chart(s):
        return SINGULAR
    if form == SECOND:
        rhs = doubles(s.rhs)
        moving(s, t, u, v, rhs)
        copy(entries_from(z, d), d, entries_from(rhs, m))
        solve_chart(s, rhs)
        copy(rhs, n, v)
    return SOLVED


@within_compiled
def moving(s: Any, t: Any, u: Any, v: Any, out: Any) -> None:
    """-g_t, with the part g_u v of nonholonomic constraints, into ``out``; 0 where g is free of time."""
    if s.dg_dt == 0 or s.m == 0:
        clear(out, s.m)
        return
    rest = doubles(s.rest_value)
    evaluate(s, s.dg_dt, t, u, v, rest)
    negate(rest, s.m, out)


@within_compiled
def factor_saddle(s: Any, t: Any, u: Any, v: Any) -> Any:
    """Factors of [A B; G 0], or of [A; G], with G as it was evaluated last."""
    evaluate(s, s.A, t, u, v, doubles(s.A_value))
    if s.B != 0:
        evaluate(s, s.B, t, u, v, doubles(s.B_value))
    return factor_filled(s, s.B != 0)


@within_compiled
def factor_filled(s: Any, has_B: Any) -> Any:
    """Factors of that matrix as it was evaluated last, with G^T for B where there is none."""
    n, m, pivots = s.n, s.m, integers(s.saddle_pivots)
    A, B, G, saddle = doubles(s.A_value), doubles(s.B_value), doubles(s.dg_value), doubles(s.saddle)
    size = n + m
    s.marks.counts.factorization += 1
    if s.form == FIRST:
        copy(A, (n - m) * n, saddle)
        copy(G, m * n, entries_from(saddle, (n - m) * n))
        return factor(s, saddle, pivots, n) < 0
    clear(saddle, size * size)
    for i in range(n):
        for j in range(n):
            saddle[i * size + j] = A[i * n + j]
        for j in range(m):
            saddle[i * size + n + j] = B[i * m + j] if has_B else G[j * n + i]
            saddle[(n + j) * size + i] = G[j * n + i]
    return factor(s, saddle, pivots, size) < 0


@within_compiled
def accelerate(s: Any, t: Any, u: Any, v: Any, a: Any, multipliers: Any) -> Any:
    """u' or u'' and the multipliers by the saddle-point equations, with G as it was evaluated last."""
    n, m, form, alpha, beta = s.n, s.m, s.form, s.alpha, s.beta
    s.marks.counts.rhs += 1
    if not factor_saddle(s, t, u, v):
        return SINGULAR
    rhs, value, rest, G = doubles(s.rhs), doubles(s.g_value), doubles(s.rest_value), doubles(s.dg_value)
    evaluate(s, s.h, t, u, v, rhs)
    at = n - m if form == FIRST else n
    if form == SECOND:
        evaluate(s, s.d2g, t, u, v, rest)
        negate(rest, m, entries_from(rhs, at))
    else:
        moving(s, t, u, v, entries_from(rhs, at))
    if alpha != 0.0 or beta != 0.0:
        evaluate(s, s.g, t, u, v, value)
        if form == SECOND:
            moving(s, t, u, v, rest)
            for i in range(m):
                speed = -rest[i]
                for j in range(n):
                    speed += G[i * n + j] * v[j]
                rhs[at + i] -= 2.0 * alpha * speed + beta * beta * value[i]
        else:
            for i in range(m):
                rhs[at + i] -= alpha * value[i]
    size = n if form == FIRST else n + m
    s.log_determinant = 0.0
    for k in range(size):
        s.log_determinant += np.log(abs(doubles(s.saddle)[k * size + k]))
    s.least_log_determinant = min(s.least_log_determinant, s.log_determinant)
    solve_saddle(s, rhs, size)
    s.marks.counts.solve += 1
    defined = True
    for i in range(n):
        a[i] = rhs[i]
        defined = defined and abs(rhs[i]) < np.inf
    copy(entries_from(rhs, n), size - n, multipliers)
    return SOLVED if defined else UNDEFINED


@within_compiled
def local(s: Any, first: Any, second: Any, of_state: Any, out: Any) -> None:
    """Local coordinates of a state (u, v), or their rates from (u', v'); the second is not read without v."""
    n, form = s.n, s.form
    whole = not s.chart or form == NONHOLONOMIC
    if whole:
        copy(first, n, out)
    else:
        project_on_chart(s, first, of_state, out)
    if form >= SECOND:
        rest = entries_from(out, n if whole else n - s.m)
        if s.chart:
            project_on_chart(s, second, of_state and whole, rest)
        else:
            copy(second, n, rest)


@within_compiled
def place(s: Any, t: Any, after: Any, u: Any, v: Any) -> Any:
    """u and v where the local coordinates are those at z, from guesses by the start of the step."""
    form, u0, v0, a0 = s.form, doubles(s.u0), doubles(s.v0), doubles(s.a0)
    for i in range(s.n):
        if form >= SECOND:
            u[i] = u0[i] + after * (v0[i] + 0.5 * after * a0[i])
            v[i] = v0[i] + after * a0[i]
        else:
            u[i] = u0[i] + after * a0[i]
    return lift(s, t + after, doubles(s.z), u, v)


@within_compiled
def stage(s: Any, t: Any, after: Any, u: Any, v: Any, a: Any, multipliers: Any, slope: Any) -> Any:
    """State and slope where the local coordinates are those at z."""
    status = place(s, t, after, u, v)
    if status == SOLVED:
        status = accelerate(s, t + after, u, v, a, multipliers)
    if status == SOLVED:
        local(s, v if s.form >= SECOND else a, a, False, slope)
    return status


@within_compiled
def combine(s: Any, h: Any, weights: Any, count: Any, out: Any) -> None:
    """z0 + h sum_j weights[j] K[j] into ``out``."""
    K, z0, size = doubles(s.K), doubles(s.z0), s.coordinates
    for i in range(size):
        total = 0.0
        for j in range(count):
            total += weights[j] * K[j * size + i]
        out[i] = z0[i] + h * total


@within_compiled
def chart_at_start(s: Any, t: Any) -> Any:
    """The chart in which a step is taken: the last one while it is near the tangent space, or a new one."""
    s.marks.fresh = 0
    u, v = doubles(s.u0), doubles(s.v0)
    if s.marks.valid:
        evaluate_constraint_jacobian(s, t, u, v)
        if factor_chart(s) and turn(s) >= s.turned:
            return SOLVED
    return make_chart(s, t, u, v)


@within_compiled
def stages(s: Any, t: Any, h: Any) -> Any:
    """All stages, and the end of the step before any projection."""
    sign, K, size = s.marks.chart_sign, doubles(s.K), s.coordinates
    times, weights, z, z1 = doubles(s.stage_times), doubles(s.stage_weights), doubles(s.z), doubles(s.z1)
    local(s, doubles(s.u0), doubles(s.v0), True, doubles(s.z0))
    local(s, doubles(s.v0 if s.form >= SECOND else s.a0), doubles(s.a0), False, K)
    u, v, a, multipliers = doubles(s.u), doubles(s.v), doubles(s.a), doubles(s.multipliers)
    for i in range(1, s.stages):
        combine(s, h, entries_from(weights, i * s.slopes), i, z)
        status = stage(s, t, times[i] * h, u, v, a, multipliers, entries_from(K, i * size))
        if status != SOLVED:
            return status
    combine(s, h, doubles(s.end_weights), s.stages, z1)
    copy(z1, size, z)
    ends = doubles(s.u1), doubles(s.v1), doubles(s.a1), doubles(s.end_multipliers)
    status = stage(s, t, h, *ends, entries_from(K, s.stages * size))
    s.marks.end_sign = s.marks.sign
    s.marks.crossed = 1 if s.chart and s.marks.chart_sign != sign else 0
    return status


@within_compiled
def error_norm(s: Any, h: Any, row: Any) -> Any:
    """Weighted sum of squares of the error h sum_j row[j] K[j], as one of u and v at the end of the step."""
    n, m, form, k = s.n, s.m, s.form, s.coordinates
    K, error, rhs, weights = doubles(s.K), doubles(s.local_error), doubles(s.rhs), doubles(s.weights)
    d, total, largest = n - m, 0.0, -1.0
    for i in range(k):
        value = 0.0
        for j in range(s.stages + 1):
            value += row[j] * K[j * k + i]
        error[i] = h * value
    at = 0
    for which in range(2 if form >= SECOND else 1):
        if not s.chart or (form == NONHOLONOMIC and which == 0):
            copy(entries_from(error, at), n, rhs)
            at += n
        else:
            clear(rhs, m)
            copy(entries_from(error, at), d, entries_from(rhs, m))
            solve_chart(s, rhs)
            at += d
        for i in range(n):
            square = (weights[which * n + i] * rhs[i]) ** 2
            total += square
            if square > largest:
                largest, s.marks.where = square, which * n + i
    return total


@within_compiled
def estimate(s: Any, h: Any) -> Any:
    """Norm of the error of the step; with two estimates as Dormand and Prince combine them."""
    weights = doubles(s.error_weights)
    first = error_norm(s, h, weights)
    size = s.n * (2 if s.form >= SECOND else 1)
    if s.error_estimates == 1 or first == 0.0:
        return np.sqrt(first / size)
    return first / np.sqrt((first + 0.01 * error_norm(s, h, entries_from(weights, s.slopes))) * size)


@within_compiled
def project_velocity(s: Any, t: Any, u: Any, v: Any) -> Any:
    """Move v along A^-1 B to where G v + g_t = 0; G is evaluated at u."""
    n, m, rhs, G = s.n, s.m, doubles(s.rhs), doubles(s.dg_value)
    evaluate_constraint_jacobian(s, t, u, v)
    if not factor_saddle(s, t, u, v):
        return SINGULAR
    clear(rhs, n)
    moving(s, t, u, v, entries_from(rhs, n))
    for i in range(m):
        for j in range(n):
            rhs[n + i] -= G[i * n + j] * v[j]
    solve_saddle(s, rhs, n + m)
    for i in range(n):
        v[i] += rhs[i]
    return SOLVED


@within_compiled
def project_state(s: Any, t: Any, u: Any, v: Any, a: Any, multipliers: Any) -> Any:
    """The projections of the method for a state, and the derivative there."""
    form, status = s.form, SOLVED
    if s.positions and form != NONHOLONOMIC:
        status = correct(s, t, u, v, u, ALONG_B, u)
    if status == SOLVED and s.velocities:
        if form == SECOND:
            status = project_velocity(s, t, u, v)
        elif form == NONHOLONOMIC:
            status = correct(s, t, u, v, v, ALONG_B, v)
    if status != SOLVED:
        return status
    evaluate_constraint_jacobian(s, t, u, v)
    return accelerate(s, t, u, v, a, multipliers)


@within_compiled
def differentiate(s: Any, t: Any) -> Any:
    """u' or u'' and the multipliers at the start of the step."""
    u, v = doubles(s.u0), doubles(s.v0)
    evaluate_constraint_jacobian(s, t, u, v)
    status = accelerate(s, t, u, v, doubles(s.a0), doubles(s.multipliers))
    s.marks.start_sign, s.start_log_determinant = s.marks.sign, s.log_determinant
    return status


@within_compiled
def explicit_step(s: Any, t: Any, h: Any) -> Any:
    """A step of an explicit Runge-Kutta method; how it ended."""
    s.numbers.error, s.least_log_determinant = 0.0, np.inf
    status = chart_at_start(s, t) if s.chart else SOLVED
    if status == SOLVED:
        status = stages(s, t, h)
        if status != SOLVED and s.chart and not s.marks.fresh:
            status = make_chart(s, t, doubles(s.u0), doubles(s.v0))
            if status == SOLVED:
                status = stages(s, t, h)
    if status != SOLVED:
        return status
    if s.adaptive:
        s.numbers.error = estimate(s, h)
        if not s.numbers.error <= 1.0:
            return SOLVED
    if not s.chart and (s.positions or s.velocities):
        ends = doubles(s.u1), doubles(s.v1), doubles(s.a1), doubles(s.end_multipliers)
        status = project_state(s, t + h, *ends)
    s.end_log_determinant = s.log_determinant
    return status


@within_compiled
def write_state(s: Any, u: Any, v: Any, multipliers: Any, out: Any) -> None:
    """Write a state in the order of the unknowns, of which others than these are 0."""
    n = s.n
    copy(u, n, out)
    if s.form >= SECOND:
        copy(v, n, entries_from(out, n))
    if s.form != FIRST:
        copy(multipliers, s.m, entries_from(out, 2 * n if s.form >= SECOND else n))


@within_compiled
def interior(s: Any, t: Any, h: Any) -> Any:
    """States within a finished step, on the manifold if its end is."""
    form, known = s.form, s.stages + 1
    u, v, a, multipliers = doubles(s.u), doubles(s.v), doubles(s.a), doubles(s.multipliers)
    projects = not s.chart and (s.positions or s.velocities)
    z, slope, times, weights = doubles(s.z), doubles(s.K), doubles(s.extra_times), doubles(s.extra_weights)
    for i in range(s.extra):
        combine(s, h, entries_from(weights, i * s.slopes), known, z)
        status = stage(s, t, times[i] * h, u, v, a, multipliers, entries_from(slope, known * s.coordinates))
        if status != SOLVED:
            return status
        known += 1
    times, weights, values = doubles(s.point_times), doubles(s.point_weights), doubles(s.end_rows)
    for k in range(s.points):
        combine(s, h, entries_from(weights, k * s.slopes), known, z)
        after = times[k] * h
        status = place(s, t, after, u, v)
        if status == SOLVED:
            if projects:
                status = project_state(s, t + after, u, v, a, multipliers)
            elif form != FIRST:
                status = accelerate(s, t + after, u, v, a, multipliers)
        if status != SOLVED:
            return status
        write_state(s, u, v, multipliers, entries_from(values, k * s.size))
    return SOLVED


@within_compiled
def rattle(s: Any, t: Any, h: Any) -> Any:
    """A step of RATTLE for A u'' + B lambda = h(t, u), g(t, u) = 0 with a constant A."""
    n, m = s.n, s.m
    u0, v0, u1, v1, a = doubles(s.u0), doubles(s.v0), doubles(s.u1), doubles(s.v1), doubles(s.a)
    evaluate_constraint_jacobian(s, t, u0, v0)
    if not factor_saddle(s, t, u0, v0):
        return SINGULAR
    if not free_acceleration(s, t, u0, v0, a):
        return SINGULAR
    B, G, has_B = doubles(s.B_value), doubles(s.dg_value), s.B != 0
    for i in range(n):
        u1[i] = u0[i] + h * (v0[i] + 0.5 * h * a[i])
        for j in range(m):
            B[i * m + j] = B[i * m + j] if has_B else G[j * n + i]
    s.least_log_determinant = np.inf
    status = correct(s, t + h, u1, v0, u1, ALONG_KEPT_B, u1)
    if status != SOLVED:
        return status
    for i in range(n):
        v1[i] = (u1[i] - u0[i]) / h
    if not free_acceleration(s, t + h, u1, v1, a):
        return SINGULAR
    for i in range(n):
        v1[i] += 0.5 * h * a[i]
    status = project_velocity(s, t + h, u1, v1)
    if status != SOLVED:
        return status
    status = accelerate(s, t + h, u1, v1, doubles(s.a1), doubles(s.end_multipliers))
    s.marks.end_sign, s.end_log_determinant = s.marks.sign, s.log_determinant
    return status


@within_compiled
def free_acceleration(s: Any, t: Any, u: Any, v: Any, out: Any) -> Any:
    """A^-1 h into ``out``, with A as it was evaluated last."""
    matrix = doubles(s.chart_matrix)
    evaluate(s, s.h, t, u, v, out)
    copy(doubles(s.A_value), s.n * s.n, matrix)
    s.marks.counts.factorization += 1
    if factor(s, matrix, integers(s.chart_pivots), s.n) >= 0:
        return False
    solve_chart(s, out)
    return True


@within_compiled
def follow_determinant(s: Any) -> None:
    """Tell whether the determinant is far less within the last steps than before and after them."""
    recent, least, s.dipped = doubles(s.recent), np.inf, 0
    copy(entries_from(recent, 2), 2 * own.STEPS_WATCHED - 2, recent)
    last = entries_from(recent, 2 * own.STEPS_WATCHED - 2)
    last[0], last[1] = s.start_log_determinant, s.least_log_determinant
    for k in range(own.STEPS_WATCHED - 1, -1, -1):
        least = min(least, recent[2 * k + 1])
        if least < min(recent[2 * k], s.end_log_determinant) - own.LEAST_DIP:
            s.dipped = 1


@within_compiled
def take_step(s: Any, t: Any, h: Any) -> Any:
    """Take a step by the method, with the states within that are wanted; how it ended."""
    s.inside = s.dipped = 0
    if s.rattles:
        status = rattle(s, t, h)
    else:
        if s.adaptive:
            weigh(s)
        status = explicit_step(s, t, h)
    if status == SOLVED and s.numbers.error <= 1.0:
        n, u1, v1, a1, slope = s.n, doubles(s.u1), doubles(s.v1), doubles(s.a1), doubles(s.end_slope_row)
        write_state(s, u1, v1, doubles(s.end_multipliers), doubles(s.end_rows + 8 * s.points * s.size))
        copy(v1 if s.form >= SECOND else a1, n, slope)
        if s.form >= SECOND:
            copy(a1, n, entries_from(slope, n))
        if s.rows > 1 and interior(s, t, h) == SOLVED:
            s.inside = 1
        follow_determinant(s)
    return status


@within_compiled
def weigh(s: Any) -> None:
    """Write the weights of errors at the start of the step."""
    n, out, sizes, seen = s.n, doubles(s.weights), doubles(s.sizes), doubles(s.seen)
    for j in range(2 * n if s.form >= SECOND else n):
        size = abs(doubles(s.u0)[j] if j < n else doubles(s.v0)[j - n])
        if s.watched:
            seen[j] = max(seen[j], size)
        if s.follows:
            sizes[j] = max(sizes[j], size)
        allowed = (size + sizes[j]) * s.rtol if s.atol == 0 else size * s.rtol + doubles(s.atol)[j]
        out[j] = 1.0 / max(allowed, TINY) * doubles(s.counted)[j]


# Steps that are taken ahead. What happens to none but few of them is left to the controller: steps that are
# not solved, and those in which a determinant changes its sign or comes near zero.


@_view.method()
def _solved_ahead(s: Any, time: Any, h: Any) -> Any:
    _simultaneous.begin_row(s, s.marks)
    s.run.status = take_step(s, time, h)
    if s.run.status != SOLVED or not s.numbers.error <= 1.0:
        return not np.isnan(s.numbers.error)
    turned = s.marks.crossed != 0 or s.marks.start_sign != s.marks.end_sign
    return not turned and s.dipped == 0 and (s.rows == 1 or s.inside != 0)


@_view.method()
def _end_step(s: Any, time: Any, h: Any) -> None:
    n, size, row, block = s.n, s.size, doubles(s.work_rows + 72 * s.taken), s.rows * s.size
    row[0], row[1] = time, h
    _simultaneous.put_counts(s.marks, row, 1.0)
    first = (s.points + 1) * size - block
    copy(entries_from(doubles(s.end_rows), first), block, doubles(s.run_u + 8 * block * s.taken))
    copy(doubles(s.end_slope_row), size, doubles(s.run_du + 8 * (block * (s.taken + 1) - size)))
    copy(doubles(s.u1), n, doubles(s.u0))
    copy(doubles(s.v1), n, doubles(s.v0))
    copy(doubles(s.a1), n, doubles(s.a0))
    s.marks.start_sign, s.start_log_determinant = s.marks.end_sign, s.end_log_determinant
    s.taken += 1


@_view.method()
def _end_slope(s: Any) -> Any:
    largest = 0.0
    for j in range(s.n_diff):
        largest = max(largest, abs(doubles(s.end_slope_row)[j] / max(doubles(s.sizes)[j], TINY)))
    return largest


for _name in ("late_error", "error_between", "beyond_rounding", "forget_contraction", "forget"):

    def _nothing(s: Any) -> Any:
        return 0.0

    _nothing.__name__ = _name
    _view.method()(_nothing)
_view.method()(_simultaneous._restore_sizes)


def _act(place: Any, what: Any, t: Any, h: Any) -> Any:
    s = memory_at(place)
    if what == own.STEP:
        return take_step(s, t, h)
    if what == own.STEPS:
        return steps_ahead.take_steps(s, _simultaneous.sizes_of_steps_at(s.step_sizes))
    if what == own.WEIGH:
        weigh(s)
        return SOLVED
    return differentiate(s, t)


C_FUNCTIONS = c_functions(
    {"act": (_act, types.int64(types.int64, types.int64, types.float64, types.float64))}
)
"""What :mod:`dae_sdc.constrained.manifold` calls."""
