"""Quasilinear equations whose parts are given as kernels, compiled. Importing this imports numba.

Derivatives of the constraints, and the residual with its Jacobian in all formulations, are made of the parts
at their addresses. The functions serve every problem, and have the signatures of kernels. They find their
:class:`Workspace` by two numbers before the parameters p, as Jacobians by complex steps do, see
:mod:`dae_sdc.dae.complex_step`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from dae_sdc.dae import machine
from dae_sdc.dae.callbacks import no_copy
from dae_sdc.dae.compiling import c_function
from dae_sdc.dae.complex_step import OPTIONS, SIGN, integers_of
from dae_sdc.dae.differences import FIRST_DIFFERENCE, SECOND_DIFFERENCE, STEP
from dae_sdc.dae.machine import address_of, call_residual, doubles
from dae_sdc.dae.state import Vector
from dae_sdc.sharing import once

(
    N,
    M,
    N_U,
    BY_VELOCITY,
    G,
    G_COMPLEX,
    DG,
    DG_DT,
    WORK,
    SCALES,
    A,  # this one and those below are read by the residual and its Jacobian alone
    B,  # 0 where it is the transpose of dg
    H,
    RATES,  # of g_t; 0 where it is zero
    REST,  # what the constraints add when they are differentiated
    A_COMPLEX,  # 0, as all complex forms, where differences are taken
    B_COMPLEX,
    H_COMPLEX,
    DG_COMPLEX,
    RATES_COMPLEX,
    REST_COMPLEX,
    SECOND_ORDER,  # whether the equations are of second order
    MULTIPLIED,  # whether they have multipliers
    FORM,  # which equations stand last, one of the four below
    AREA,
    PLACES,
) = range(26)
"""Entries of the row of integers of a :class:`Workspace`: numbers, and addresses of functions and arrays; how
many there are."""

CONSTRAINT, HIDDEN, BOTH, DERIVATIVE = range(4)
"""Forms: g = 0; g_u u' + g_t = 0; both, with multipliers mu that stabilise; g_u u'' + the rest = 0."""


class Workspace:
    """Arrays of the functions of this module.

    Parameters
    ----------
    places : dict of int to int
        Numbers and addresses by their entries in the row; 0 for what is not given.
    scales : ndarray, shape (n + 1,)
        Distances over which u and t change little.
    functions : dict
        The parts of the equations by name, which live as long as this.

    Attributes
    ----------
    stepped : bool
        Whether the complex forms that the Jacobian takes have been entered.
    """

    stepped = False

    def __init__(self, places: dict[int, int], scales: Vector, functions: dict[str, Any]) -> None:
        n, m = places[N], places[M]
        self.functions = functions
        self.scales = np.array(scales, dtype=np.float64)
        self._work = np.zeros(2 * (2 * n + m) + n + m * n + m)
        self._area = np.zeros(4 * n * n + 2 * n * m + 5 * n + m)
        self._places = np.zeros(PLACES, dtype=np.int64)
        self.enter(places)
        self._places[WORK], self._places[SCALES] = self._work.ctypes.data, self.scales.ctypes.data
        self._places[AREA] = self._area.ctypes.data

    def enter(self, places: dict[int, int]) -> None:
        """Set numbers and addresses."""
        for place, value in places.items():
            self._places[place] = value

    @property
    def address(self) -> int:
        """Address of the row of integers."""
        return int(self._places.ctypes.data)

    def serves(self, pattern: Any) -> bool:
        """Whether Jacobians of a pattern are written; only dense ones are, of pattern None."""
        return pattern is None

    def __reduce__(self) -> Any:
        return no_copy, ()


@register_jitable(**OPTIONS)
def _difference_weight(k: Any, step: Any) -> Any:
    """Weight of the value k steps aside in a first derivative by central differences of order 6."""
    weight = 45.0 if abs(k) == 1 else -9.0 if abs(k) == 2 else 1.0
    return weight * ((1.0 if k > 0 else -1.0) / (60.0 * step))


def _dg(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """The matrix dg/du, of nonholonomic constraints dg/dv, by complex steps."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = integers_of(p[-1])
    n, m, work, turned = places[N], places[M], places[WORK], places[BY_VELOCITY] != 0
    value, rate, found = doubles(work), doubles(work + 16 * n), doubles(work + 32 * n)
    for i in range(n):
        value[2 * i], value[2 * i + 1] = u[i], 0.0
        rate[2 * i], rate[2 * i + 1] = v[i] if turned else 0.0, 0.0
    varied = rate if turned else value
    for j in range(n):
        varied[2 * j + 1] = STEP
        call_residual(places[G_COMPLEX], t, work, work + 16 * n, address_of(p), work + 32 * n)
        varied[2 * j + 1] = 0.0
        for i in range(m):
            out[i * n + j] = found[2 * i + 1] / STEP


def _dg_dt(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """g_t by differences of order 6; of nonholonomic constraints g_t + g_u v."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = integers_of(p[-1])
    n, m, work = places[N], places[M], places[WORK]
    rates = address_of(v) if places[BY_VELOCITY] != 0 else address_of(u)
    values = doubles(work)
    step = FIRST_DIFFERENCE * doubles(places[SCALES])[n]
    for i in range(m):
        out[i] = 0.0
    for k in range(-3, 4):
        if k == 0:
            continue
        weight = _difference_weight(k, step)
        call_residual(places[G], t + k * step, address_of(u), rates, address_of(p), work)
        for i in range(m):
            out[i] += weight * values[i]
    if places[BY_VELOCITY] != 0:
        value, rate, found = doubles(work), doubles(work + 16 * n), doubles(work + 32 * n)
        for i in range(n):
            value[2 * i], value[2 * i + 1] = u[i], STEP * v[i]
            rate[2 * i], rate[2 * i + 1] = v[i], 0.0
        call_residual(places[G_COMPLEX], t, work, work + 16 * n, address_of(p), work + 32 * n)
        for i in range(m):
            out[i] += found[2 * i + 1] / STEP


def _zero(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """g_t of constraints that do not depend on time."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    for i in range(integers_of(p[-1])[M]):
        out[i] = 0.0


def _d2g(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """g_tt + 2 g_tu v + g_uu(v, v): differences of order 6 of first derivatives that are exact.

    The first term is that of g alone, the others the slope at s = 0 of g_u(t + 2 s, u + s v) v.
    """
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = integers_of(p[-1])
    n, m, work = places[N], places[M], places[WORK]
    scales = doubles(places[SCALES])
    value, found = doubles(work), doubles(work + 32 * n)
    zero, values = doubles(work + 16 * n), doubles(work + 32 * n)
    length = 0.5 * scales[n]
    for i in range(n):
        zero[2 * i] = zero[2 * i + 1] = 0.0
        reach = scales[i] + abs(u[i])
        if length * abs(v[i]) > reach:
            length = reach / abs(v[i])
    step = FIRST_DIFFERENCE * length
    for i in range(m):
        out[i] = 0.0
    for k in range(-3, 4):
        if k == 0:
            continue
        weight = _difference_weight(k, step)
        for i in range(n):
            value[2 * i], value[2 * i + 1] = u[i] + k * step * v[i], STEP * v[i]
        late = t + 2.0 * k * step
        call_residual(places[G_COMPLEX], late, work, work + 16 * n, address_of(p), work + 32 * n)
        for i in range(m):
            out[i] += weight * (found[2 * i + 1] / STEP)
    place, rates = address_of(u), work + 16 * n
    if places[DG_DT] != 0:
        step = FIRST_DIFFERENCE * scales[n]
        for k in range(-3, 4):
            if k == 0:
                continue
            weight = _difference_weight(k, step)
            call_residual(places[DG_DT], t + k * step, place, rates, address_of(p), work + 32 * n)
            for i in range(m):
                out[i] += weight * values[i]
        return
    step = SECOND_DIFFERENCE * scales[n]
    sums = doubles(work + 32 * n + 16 * m)
    middle = doubles(work + 32 * n + 16 * m + 8 * m)
    call_residual(places[G], t, place, rates, address_of(p), work + 32 * n)
    for i in range(m):
        middle[i] = 2.0 * values[i]
    for k in range(1, 4):
        weight = (270.0 if k == 1 else -27.0 if k == 2 else 2.0) / (180.0 * step * step)
        call_residual(places[G], t - k * step, place, rates, address_of(p), work + 32 * n)
        for i in range(m):
            sums[i] = values[i]
        call_residual(places[G], t + k * step, place, rates, address_of(p), work + 32 * n)
        for i in range(m):
            out[i] += weight * (sums[i] + values[i] - middle[i])


def _transposed(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """The matrix B that is the transpose of dg."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = integers_of(p[-1])
    n, m, work = places[N], places[M], places[WORK]
    rates = address_of(v) if places[BY_VELOCITY] != 0 else address_of(u)
    own = work + 8 * (2 * (2 * n + m) + n)
    matrix = doubles(own)
    call_residual(places[DG], t, address_of(u), rates, address_of(p), own)
    for i in range(m):
        for j in range(n):
            out[j * m + i] = matrix[i * n + j]


def _selection(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """A = [I 0 0] of implicit equations in x = (u, p, w)."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = integers_of(p[-1])
    n, rows = places[N], places[N_U]
    for i in range(rows):
        for j in range(n):
            out[i * n + j] = 1.0 if i == j else 0.0


def _derivative(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """h = p of implicit equations in x = (u, p, w)."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    rows = integers_of(p[-1])[N_U]
    for i in range(rows):
        out[i] = u[rows + i]


# --- residual and Jacobian ------------------------------------------------------------------------


@register_jitable(**OPTIONS)
def _areas(places: Any) -> tuple[int, ...]:
    """Addresses of A, B, h, G, the rest, copies of u and u', what a part writes, and derivatives."""
    n, m, a = places[N], places[M], places[AREA]
    b = a + 8 * n * n
    h = b + 8 * n * m
    g = h + 8 * n
    rest = g + 8 * n * m
    value = rest + 8 * m
    rate = value + 16 * n
    slope = rate + 16 * n
    return a, b, h, g, rest, value, rate, slope + 8 * n * n, slope


def _residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    """F(t, x, x') of the formulation, x = (u, lambda) or (u, u', lambda, mu)."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = integers_of(p[-1])
    n, m, form, multiplied = places[N], places[M], places[FORM], places[MULTIPLIED] != 0
    start = n if places[SECOND_ORDER] != 0 else 0  # of the highest derivative in x'
    rows = n if multiplied else n - m
    here, rate, numbers = address_of(u), address_of(u) + 8 * start, address_of(p)
    a_at, b_at, h_at, g_at, rest_at, _, _, _, _ = _areas(places)
    a, b, h, g, rest = doubles(a_at), doubles(b_at), doubles(h_at), doubles(g_at), doubles(rest_at)
    for i in range(start):
        out[i] = du[i] - u[n + i]
    call_residual(places[A], t, here, rate, numbers, a_at)
    call_residual(places[H], t, here, rate, numbers, h_at)
    for i in range(rows):
        total = -h[i]
        for j in range(n):
            total += a[i * n + j] * du[start + j]
        out[start + i] = total
    if form != CONSTRAINT or (multiplied and places[B] == 0):
        call_residual(places[DG], t, here, rate, numbers, g_at)
    first = start + n  # of the multipliers
    if multiplied and places[B] != 0:
        call_residual(places[B], t, here, rate, numbers, b_at)
        for i in range(n):
            for k in range(m):
                out[start + i] += b[i * m + k] * u[first + k]
    elif multiplied:
        for k in range(m):
            for i in range(n):
                out[start + i] += g[k * n + i] * u[first + k]
    last = start + rows
    if form == CONSTRAINT or form == BOTH:
        call_residual(places[G], t, here, rate, numbers, address_of(out) + 8 * last)
    if form == BOTH:
        last += m
        for k in range(m):
            for i in range(n):
                out[i] += g[k * n + i] * u[first + m + k]
    if form == HIDDEN or form == BOTH:
        for k in range(m):
            rest[k] = 0.0
        if places[RATES] != 0:
            call_residual(places[RATES], t, here, rate, numbers, rest_at)
        for k in range(m):
            for j in range(n):
                rest[k] += g[k * n + j] * u[n + j]
            out[last + k] = rest[k]
    elif form == DERIVATIVE:
        call_residual(places[REST], t, here, rate, numbers, rest_at)
        for k in range(m):
            for j in range(n):
                rest[k] += g[k * n + j] * du[start + j]
            out[last + k] = rest[k]


@register_jitable(**OPTIONS)
def _slopes(places: Any, real: Any, stepped: Any, count: Any, t: Any, u: Any, v: Any, p: Any, j: Any) -> None:
    """Derivatives of the entries of a part by the j-th number of (u, u'), which are put in their area.

    They are exact where the part has a complex form, and by differences of order 6 elsewhere.
    """
    n = places[N]
    _, _, _, _, _, value_at, rate_at, found_at, slope_at = _areas(places)
    value, rate, found, slope = doubles(value_at), doubles(rate_at), doubles(found_at), doubles(slope_at)
    turned = j >= n
    moved, at = (rate, j - n) if turned else (value, j)
    if stepped != 0:
        for i in range(n):
            value[2 * i], value[2 * i + 1] = u[i], 0.0
            rate[2 * i], rate[2 * i + 1] = v[i], 0.0
        moved[2 * at + 1] = STEP
        call_residual(stepped, t, value_at, rate_at, p, found_at)
        for i in range(count):
            slope[i] = found[2 * i + 1] / STEP
        return
    for i in range(n):
        value[i], rate[i] = u[i], v[i]
    for i in range(count):
        slope[i] = 0.0
    middle = moved[at]
    step = FIRST_DIFFERENCE * (abs(middle) + (1.0 if turned else doubles(places[SCALES])[at]))
    for k in range(-3, 4):
        if k == 0:
            continue
        weight = _difference_weight(k, step)
        moved[at] = middle + k * step
        call_residual(real, t, value_at, rate_at, p, found_at)
        for i in range(count):
            slope[i] += weight * found[i]


@register_jitable(**OPTIONS)
def _linear_entries(places: Any, t: Any, u: Any, du: Any, c: Any, p: Any, out: Any, size: Any) -> None:
    """The entries of the Jacobian that do not need derivatives of A, B, h and dg, into a matrix of zeros."""
    n, m, form, multiplied = places[N], places[M], places[FORM], places[MULTIPLIED] != 0
    start = n if places[SECOND_ORDER] != 0 else 0
    rows = n if multiplied else n - m
    first, last = start + n, start + rows
    here, rate, numbers = address_of(u), address_of(u) + 8 * start, address_of(p)
    a_at, b_at, _, g_at, _, _, _, _, _ = _areas(places)
    a, b, g = doubles(a_at), doubles(b_at), doubles(g_at)
    for i in range(start):
        out[i * size + i] = 1.0
        out[i * size + n + i] = -c
    call_residual(places[A], t, here, rate, numbers, a_at)
    for i in range(rows):
        for j in range(n):
            out[(start + i) * size + start + j] = a[i * n + j]
    if c != 0.0 or form == DERIVATIVE:
        call_residual(places[DG], t, here, rate, numbers, g_at)
    if form == DERIVATIVE:
        for k in range(m):
            for j in range(n):
                out[(last + k) * size + start + j] = g[k * n + j]
    if c == 0.0:
        return
    transposed = multiplied and places[B] == 0
    if multiplied and not transposed:
        call_residual(places[B], t, here, rate, numbers, b_at)
    for i in range(n if multiplied else 0):
        for k in range(m):
            out[(start + i) * size + first + k] = c * (g[k * n + i] if transposed else b[i * m + k])
    if form == CONSTRAINT or form == BOTH:
        bound = n if places[BY_VELOCITY] != 0 else 0
        for k in range(m):
            for j in range(n):
                out[(last + k) * size + bound + j] = c * g[k * n + j]
    if form == BOTH:
        last += m
        for k in range(m):
            for i in range(n):
                out[i * size + first + m + k] = c * g[k * n + i]
    if form == HIDDEN or form == BOTH:
        for k in range(m):
            for j in range(n):
                out[(last + k) * size + n + j] = c * g[k * n + j]


@register_jitable(**OPTIONS)
def _add_slopes(
    places: Any, t: Any, u: Any, du: Any, v: Any, c: Any, p: Any, out: Any, size: Any, j: Any
) -> None:
    """Add what A, B, h and the constraints contribute to column j, which belongs to u or u'."""
    n, m, form, multiplied = places[N], places[M], places[FORM], places[MULTIPLIED] != 0
    start = n if places[SECOND_ORDER] != 0 else 0
    rows = n if multiplied else n - m
    first, last = start + n, start + rows + (m if form == BOTH else 0)
    transposed = multiplied and places[B] == 0
    slope = doubles(_areas(places)[8])
    _slopes(places, places[A], places[A_COMPLEX], rows * n, t, u, v, p, j)
    for i in range(rows):
        for k in range(n):
            out[(start + i) * size + j] += c * slope[i * n + k] * du[start + k]
    _slopes(places, places[H], places[H_COMPLEX], rows, t, u, v, p, j)
    for i in range(rows):
        out[(start + i) * size + j] -= c * slope[i]
    if multiplied and not transposed:
        _slopes(places, places[B], places[B_COMPLEX], n * m, t, u, v, p, j)
        for i in range(n):
            for k in range(m):
                out[(start + i) * size + j] += c * slope[i * m + k] * u[first + k]
    if (j < n or places[BY_VELOCITY] != 0) and (transposed or form != CONSTRAINT):
        _slopes(places, places[DG], places[DG_COMPLEX], m * n, t, u, v, p, j)
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
    if j < n and form == CONSTRAINT and places[BY_VELOCITY] != 0:
        _slopes(places, places[G], places[G_COMPLEX], m, t, u, v, p, j)
    elif j < n and (form == HIDDEN or form == BOTH) and places[RATES] != 0:
        _slopes(places, places[RATES], places[RATES_COMPLEX], m, t, u, v, p, j)
    elif form == DERIVATIVE:
        _slopes(places, places[REST], places[REST_COMPLEX], m, t, u, v, p, j)
    else:
        return
    for k in range(m):
        out[(last + k) * size + j] += c * slope[k]


def _jacobian(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
    """dF/du' + c dF/du of the formulation: F is linear in all but u and u' of second order."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = integers_of(p[-1])
    n, m = places[N], places[M]
    start = n if places[SECOND_ORDER] != 0 else 0
    rows = n if places[MULTIPLIED] != 0 else n - m
    size = start + rows + (2 * m if places[FORM] == BOTH else m)
    for i in range(size * size):
        out[i] = 0.0
    _linear_entries(places, t, u, du, c, p, out, size)
    if c == 0.0:
        return
    if places[N_U] != 0:  # implicit equations: A is constant, h the second block of u
        for i in range(rows):
            out[i * size + rows + i] = -c
        return
    v, numbers = doubles(address_of(u) + 8 * start), address_of(p)
    for j in range(start + n):
        _add_slopes(places, t, u, du, v, c, numbers, out, size, j)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "dg": _dg,
    "dg_dt": _dg_dt,
    "d2g": _d2g,
    "zero": _zero,
    "transposed": _transposed,
    "selection": _selection,
    "derivative": _derivative,
    "residual": _residual,
    "jacobian": _jacobian,
}


@once
def function(name: str) -> Any:
    """One of the functions of this module as a C function with its ``address``."""
    return c_function(FUNCTIONS[name], machine.SIGNATURES["jacobian" if name == "jacobian" else "residual"])
