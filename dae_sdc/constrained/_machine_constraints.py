"""Quasilinear equations whose parts are given as kernels, compiled. Importing this imports numba.

Derivatives of the constraints, and the residual with its Jacobian in all formulations, are made of the parts
at their addresses. The functions serve every problem, and have the signatures of kernels. They find their
:class:`~dae_sdc.constrained.parts.Workspace` by two numbers before the parameters p, as Jacobians by complex
steps do, see :mod:`dae_sdc.dae.complex_step`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dae_sdc.constrained.parts import BOTH, CONSTRAINT, DERIVATIVE, HIDDEN, PartsMemory
from dae_sdc.dae import compiling
from dae_sdc.dae.compiling import RecordView, address_of, call_residual, doubles, within_compiled
from dae_sdc.dae.complex_step import address_in
from dae_sdc.dae.jacobian import FIRST_DIFFERENCE, SECOND_DIFFERENCE
from dae_sdc.dae.memory import STEP
from dae_sdc.dae.workspaces import SIGN

parts_at = RecordView(PartsMemory).at


def _of_workspace(write: Callable[..., None]) -> Callable[..., None]:
    """A kernel that writes by its workspace; NaN where a copy of the parameters alone does not lead to it."""
    inner = within_compiled(write)

    def kernel(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
        if p[-2] != SIGN:
            out[0] = np.nan
        else:
            inner(parts_at(address_in(p[-1])), t, u, v, p, out)

    return kernel


AROUND = (-3, -2, -1, 1, 2, 3)  # Places of differences of order 6, in steps.


@within_compiled
def _difference_weight(k: Any, step: Any) -> Any:
    """Weight of the value k steps aside in a first derivative by central differences of order 6."""
    weight = 45.0 if abs(k) == 1 else -9.0 if abs(k) == 2 else 1.0
    return weight * ((1.0 if k > 0 else -1.0) / (60.0 * step))


@within_compiled
def _add_rates(own: Any, function: Any, t: Any, u: Any, v: Any, p: Any, out: Any) -> None:
    """Add the derivatives by t of a function of the constraints' size, by differences of order 6."""
    values, step = doubles(own.found), FIRST_DIFFERENCE * doubles(own.scales)[own.n]
    for k in AROUND:
        weight = _difference_weight(k, step)
        call_residual(function, t + k * step, u, v, address_of(p), own.found)
        for i in range(own.m):
            out[i] += weight * values[i]


def _dg(own: Any, t: Any, u: Any, v: Any, p: Any, out: Any) -> None:
    """The matrix dg/du, of nonholonomic constraints dg/dv, by complex steps."""
    n, m, turned = own.n, own.m, own.by_velocity != 0
    value, rate, found = doubles(own.stepped_u), doubles(own.stepped_v), doubles(own.found)
    for i in range(n):
        value[2 * i], value[2 * i + 1] = u[i], 0.0
        rate[2 * i], rate[2 * i + 1] = v[i] if turned else 0.0, 0.0
    varied = rate if turned else value
    for j in range(n):
        varied[2 * j + 1] = STEP
        call_residual(own.complex_g, t, own.stepped_u, own.stepped_v, address_of(p), own.found)
        varied[2 * j + 1] = 0.0
        for i in range(m):
            out[i * n + j] = found[2 * i + 1] / STEP


def _dg_dt(own: Any, t: Any, u: Any, v: Any, p: Any, out: Any) -> None:
    """g_t by differences of order 6; of nonholonomic constraints g_t + g_u v."""
    n, m = own.n, own.m
    for i in range(m):
        out[i] = 0.0
    _add_rates(own, own.g, t, address_of(u), address_of(v) if own.by_velocity != 0 else address_of(u), p, out)
    if own.by_velocity != 0:
        value, rate, found = doubles(own.stepped_u), doubles(own.stepped_v), doubles(own.found)
        for i in range(n):
            value[2 * i], value[2 * i + 1] = u[i], STEP * v[i]
            rate[2 * i], rate[2 * i + 1] = v[i], 0.0
        call_residual(own.complex_g, t, own.stepped_u, own.stepped_v, address_of(p), own.found)
        for i in range(m):
            out[i] += found[2 * i + 1] / STEP


def _zero(own: Any, t: Any, u: Any, v: Any, p: Any, out: Any) -> None:
    """g_t of constraints that do not depend on time."""
    for i in range(own.m):
        out[i] = 0.0


def _d2g(own: Any, t: Any, u: Any, v: Any, p: Any, out: Any) -> None:
    """g_tt + 2 g_tu v + g_uu(v, v): differences of order 6 of first derivatives that are exact."""
    # The first term is that of g alone, the others the slope at s = 0 of g_u(t + 2 s, u + s v) v.
    n, m, scales = own.n, own.m, doubles(own.scales)
    value, zero, found = doubles(own.stepped_u), doubles(own.stepped_v), doubles(own.found)
    length = 0.5 * scales[n]
    for i in range(n):
        zero[2 * i] = zero[2 * i + 1] = 0.0
        reach = scales[i] + abs(u[i])
        if length * abs(v[i]) > reach:
            length = reach / abs(v[i])
    step = FIRST_DIFFERENCE * length
    for i in range(m):
        out[i] = 0.0
    for k in AROUND:
        weight = _difference_weight(k, step)
        for i in range(n):
            value[2 * i], value[2 * i + 1] = u[i] + k * step * v[i], STEP * v[i]
        late = t + 2.0 * k * step
        call_residual(own.complex_g, late, own.stepped_u, own.stepped_v, address_of(p), own.found)
        for i in range(m):
            out[i] += weight * (found[2 * i + 1] / STEP)
    place, rates = address_of(u), own.stepped_v
    if own.dg_dt != 0:
        _add_rates(own, own.dg_dt, t, place, rates, p, out)
        return
    step = SECOND_DIFFERENCE * scales[n]
    sums, middle = doubles(own.sums), doubles(own.middle)
    call_residual(own.g, t, place, rates, address_of(p), own.found)
    for i in range(m):
        middle[i] = 2.0 * found[i]
    for k in range(1, 4):
        weight = (270.0 if k == 1 else -27.0 if k == 2 else 2.0) / (180.0 * step * step)
        call_residual(own.g, t - k * step, place, rates, address_of(p), own.found)
        for i in range(m):
            sums[i] = found[i]
        call_residual(own.g, t + k * step, place, rates, address_of(p), own.found)
        for i in range(m):
            out[i] += weight * (sums[i] + found[i] - middle[i])


def _selection(own: Any, t: Any, u: Any, v: Any, p: Any, out: Any) -> None:
    """A = [I 0 0] of implicit equations in x = (u, p, w)."""
    n, rows = own.n, own.n_u
    for i in range(rows):
        for j in range(n):
            out[i * n + j] = 1.0 if i == j else 0.0


def _derivative(own: Any, t: Any, u: Any, v: Any, p: Any, out: Any) -> None:
    """h = p of implicit equations in x = (u, p, w)."""
    rows = own.n_u
    for i in range(rows):
        out[i] = u[rows + i]


# --- residual and Jacobian ------------------------------------------------------------------------


def _residual(own: Any, t: Any, u: Any, du: Any, p: Any, out: Any) -> None:
    """F(t, x, x') of the formulation, x = (u, lambda) or (u, u', lambda, mu)."""
    n, m, form, multiplied, start, rows = own.n, own.m, own.form, own.multiplied != 0, own.start, own.rows
    here, rate, numbers = address_of(u), address_of(u) + 8 * start, address_of(p)
    a, b, h = doubles(own.A_value), doubles(own.B_value), doubles(own.h_value)
    g, rest = doubles(own.dg_value), doubles(own.rest_value)
    for i in range(start):
        out[i] = du[i] - u[n + i]
    call_residual(own.A, t, here, rate, numbers, own.A_value)
    call_residual(own.h, t, here, rate, numbers, own.h_value)
    for i in range(rows):
        total = -h[i]
        for j in range(n):
            total += a[i * n + j] * du[start + j]
        out[start + i] = total
    if form != CONSTRAINT or (multiplied and own.B == 0):
        call_residual(own.dg, t, here, rate, numbers, own.dg_value)
    first = start + n  # of the multipliers
    if multiplied and own.B != 0:
        call_residual(own.B, t, here, rate, numbers, own.B_value)
        for i in range(n):
            for k in range(m):
                out[start + i] += b[i * m + k] * u[first + k]
    elif multiplied:
        for k in range(m):
            for i in range(n):
                out[start + i] += g[k * n + i] * u[first + k]
    last = start + rows
    if form == CONSTRAINT or form == BOTH:
        call_residual(own.g, t, here, rate, numbers, address_of(out) + 8 * last)
    if form == BOTH:
        last += m
        for k in range(m):
            for i in range(n):
                out[i] += g[k * n + i] * u[first + m + k]
    if form == HIDDEN or form == BOTH:
        for k in range(m):
            rest[k] = 0.0
        if own.rates != 0:
            call_residual(own.rates, t, here, rate, numbers, own.rest_value)
        for k in range(m):
            for j in range(n):
                rest[k] += g[k * n + j] * u[n + j]
            out[last + k] = rest[k]
    elif form == DERIVATIVE:
        call_residual(own.rest, t, here, rate, numbers, own.rest_value)
        for k in range(m):
            for j in range(n):
                rest[k] += g[k * n + j] * du[start + j]
            out[last + k] = rest[k]


@within_compiled
def _slopes(own: Any, real: Any, stepped: Any, count: Any, t: Any, u: Any, v: Any, p: Any, j: Any) -> None:
    """Derivatives of the entries of a part by the j-th number of (u, u'), into ``slope``."""
    # They are exact where the part has a complex form, and by differences of order 6 elsewhere.
    n = own.n
    value, rate = doubles(own.varied_u), doubles(own.varied_v)
    found, slope = doubles(own.varied_part), doubles(own.slope)
    turned = j >= n
    moved, at = (rate, j - n) if turned else (value, j)
    if stepped != 0:
        for i in range(n):
            value[2 * i], value[2 * i + 1] = u[i], 0.0
            rate[2 * i], rate[2 * i + 1] = v[i], 0.0
        moved[2 * at + 1] = STEP
        call_residual(stepped, t, own.varied_u, own.varied_v, p, own.varied_part)
        for i in range(count):
            slope[i] = found[2 * i + 1] / STEP
        return
    for i in range(n):
        value[i], rate[i] = u[i], v[i]
    for i in range(count):
        slope[i] = 0.0
    middle = moved[at]
    step = FIRST_DIFFERENCE * (abs(middle) + (1.0 if turned else doubles(own.scales)[at]))
    for k in AROUND:
        weight = _difference_weight(k, step)
        moved[at] = middle + k * step
        call_residual(real, t, own.varied_u, own.varied_v, p, own.varied_part)
        for i in range(count):
            slope[i] += weight * found[i]


@within_compiled
def _linear_entries(own: Any, t: Any, u: Any, du: Any, c: Any, p: Any, out: Any, size: Any) -> None:
    """The entries of the Jacobian that do not need derivatives of A, B, h and dg, into a matrix of zeros."""
    n, m, form, multiplied, start, rows = own.n, own.m, own.form, own.multiplied != 0, own.start, own.rows
    first, last = start + n, start + rows
    here, rate, numbers = address_of(u), address_of(u) + 8 * start, address_of(p)
    a, b, g = doubles(own.A_value), doubles(own.B_value), doubles(own.dg_value)
    for i in range(start):
        out[i * size + i] = 1.0
        out[i * size + n + i] = -c
    call_residual(own.A, t, here, rate, numbers, own.A_value)
    for i in range(rows):
        for j in range(n):
            out[(start + i) * size + start + j] = a[i * n + j]
    if c != 0.0 or form == DERIVATIVE:
        call_residual(own.dg, t, here, rate, numbers, own.dg_value)
    if form == DERIVATIVE:
        for k in range(m):
            for j in range(n):
                out[(last + k) * size + start + j] = g[k * n + j]
    if c == 0.0:
        return
    transposed = multiplied and own.B == 0
    if multiplied and not transposed:
        call_residual(own.B, t, here, rate, numbers, own.B_value)
    for i in range(n if multiplied else 0):
        for k in range(m):
            out[(start + i) * size + first + k] = c * (g[k * n + i] if transposed else b[i * m + k])
    if form == CONSTRAINT or form == BOTH:
        bound = n if own.by_velocity != 0 else 0
        for k in range(m):
            for j in range(n):
                out[(last + k) * size + bound + j] = c * g[k * n + j]
    if form == BOTH:
        last += m
    if form == HIDDEN or form == BOTH:
        for k in range(m):
            for j in range(n):
                out[(last + k) * size + n + j] = c * g[k * n + j]
                if form == BOTH:
                    out[j * size + first + m + k] = c * g[k * n + j]


@within_compiled
def _add_slopes(
    own: Any, t: Any, u: Any, du: Any, v: Any, c: Any, p: Any, out: Any, size: Any, j: Any
) -> None:
    """Add what A, B, h and the constraints contribute to column j, which belongs to u or u'."""
    n, m, form, multiplied, start, rows = own.n, own.m, own.form, own.multiplied != 0, own.start, own.rows
    first, last = start + n, start + rows + (m if form == BOTH else 0)
    transposed = multiplied and own.B == 0
    slope = doubles(own.slope)
    _slopes(own, own.A, own.complex_A, rows * n, t, u, v, p, j)
    for i in range(rows):
        for k in range(n):
            out[(start + i) * size + j] += c * slope[i * n + k] * du[start + k]
    _slopes(own, own.h, own.complex_h, rows, t, u, v, p, j)
    for i in range(rows):
        out[(start + i) * size + j] -= c * slope[i]
    if multiplied and not transposed:
        _slopes(own, own.B, own.complex_B, n * m, t, u, v, p, j)
        for i in range(n):
            for k in range(m):
                out[(start + i) * size + j] += c * slope[i * m + k] * u[first + k]
    if (j < n or own.by_velocity != 0) and (transposed or form != CONSTRAINT):
        _slopes(own, own.dg, own.complex_dg, m * n, t, u, v, p, j)
        for k in range(m):
            for i in range(n):
                change = c * slope[k * n + i]
                if transposed:
                    out[(start + i) * size + j] += change * u[first + k]
                if form == BOTH:
                    out[i * size + j] += change * u[first + m + k]
                if form == HIDDEN or form == BOTH:
                    out[(last + k) * size + j] += change * u[n + i]
                elif form == DERIVATIVE:
                    out[(last + k) * size + j] += change * du[start + i]
    if j < n and form == CONSTRAINT and own.by_velocity != 0:
        _slopes(own, own.g, own.complex_g, m, t, u, v, p, j)
    elif j < n and (form == HIDDEN or form == BOTH) and own.rates != 0:
        _slopes(own, own.rates, own.complex_rates, m, t, u, v, p, j)
    elif form == DERIVATIVE:
        _slopes(own, own.rest, own.complex_rest, m, t, u, v, p, j)
    else:
        return
    for k in range(m):
        out[(last + k) * size + j] += c * slope[k]


def _jacobian(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
    """dF/du' + c dF/du of the formulation: F is linear in all but u and u' of second order."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    own = parts_at(address_in(p[-1]))
    start, rows = own.start, own.rows
    size = start + rows + (2 * own.m if own.form == BOTH else own.m)
    for i in range(size * size):
        out[i] = 0.0
    _linear_entries(own, t, u, du, c, p, out, size)
    if c == 0.0:
        return
    if own.n_u != 0:  # implicit equations: A is constant, h the second block of u
        for i in range(rows):
            out[i * size + rows + i] = -c
        return
    v, numbers = doubles(address_of(u) + 8 * start), address_of(p)
    for j in range(start + own.n):
        _add_slopes(own, t, u, du, v, c, numbers, out, size, j)


_KERNEL = compiling.SIGNATURES["residual"]
_WITH_WORKSPACE = (_dg, _dg_dt, _d2g, _zero, _selection, _derivative, _residual)
C_FUNCTIONS = compiling.c_functions(
    {write.__name__[1:]: (_of_workspace(write), _KERNEL) for write in _WITH_WORKSPACE}
    | {"jacobian": (_jacobian, compiling.SIGNATURES["jacobian"])}
)
"""What :mod:`dae_sdc.constrained.parts` calls, or has called at their addresses."""
