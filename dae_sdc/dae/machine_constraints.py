"""Derivatives of constraints that are given as kernels, compiled. Importing this imports numba.

All functions have the signature of residual kernels. What they work on they find in two numbers before the
parameters p, as Jacobians by complex steps do, see :mod:`dae_sdc.dae.complex_step`.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

import numpy as np
from numba import cfunc

from dae_sdc.dae import machine
from dae_sdc.dae.complex_step import OPTIONS, SIGN, _address, _doubles, _integers_of
from dae_sdc.dae.differences import FIRST, SECOND, STEP
from dae_sdc.dae.machine import call_residual
from dae_sdc.dae.state import Vector


class Place(enum.IntEnum):
    """Entries of the places of a workspace: numbers, and addresses of functions and arrays."""

    N = 0
    M = 1
    N_U = 2
    BY_VELOCITY = 3
    G = 4
    G_COMPLEX = 5
    DG = 6
    DG_DT = 7
    WORK = 8
    SCALES = 9


N, M, N_U, BY_VELOCITY, G, G_COMPLEX, DG, DG_DT, WORK, SCALES = map(int, Place)


class Workspace:
    """Arrays of the functions of this module.

    Parameters
    ----------
    places : dict of int to int
        Numbers and addresses by their :class:`Place`; 0 for ``DG_DT`` where it is not given.
    scales : ndarray, shape (n + 1,)
        Distances over which u and t change little.
    """

    def __init__(self, places: dict[int, int], scales: Vector) -> None:
        n, m = places[N], places[M]
        self.scales = np.ascontiguousarray(scales, dtype=np.float64)
        self._work = np.zeros(2 * (2 * n + m) + n + m * n + m)
        self._places = np.zeros(len(Place), dtype=np.int64)
        for place, value in places.items():
            self._places[place] = value
        self._places[WORK], self._places[SCALES] = self._work.ctypes.data, self.scales.ctypes.data

    @property
    def address(self) -> int:
        """Where its places are."""
        return int(self._places.ctypes.data)


def _dg(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """The matrix dg/du, of nonholonomic constraints dg/dv, by complex steps."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = _integers_of(p[-1])
    n, m, work, turned = places[N], places[M], places[WORK], places[BY_VELOCITY] != 0
    value, rate, found = _doubles(work), _doubles(work + 16 * n), _doubles(work + 32 * n)
    for i in range(n):
        value[2 * i], value[2 * i + 1] = u[i], 0.0
        rate[2 * i], rate[2 * i + 1] = v[i] if turned else 0.0, 0.0
    varied = rate if turned else value
    for j in range(n):
        varied[2 * j + 1] = STEP
        call_residual(places[G_COMPLEX], t, work, work + 16 * n, _address(p), work + 32 * n)
        varied[2 * j + 1] = 0.0
        for i in range(m):
            out[i * n + j] = found[2 * i + 1] / STEP


def _dg_dt(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """g_t by differences of order 6; of nonholonomic constraints g_t + g_u v."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = _integers_of(p[-1])
    n, m, work = places[N], places[M], places[WORK]
    rates = _address(v) if places[BY_VELOCITY] != 0 else _address(u)
    values = _doubles(work)
    step = FIRST * _doubles(places[SCALES])[n]
    for i in range(m):
        out[i] = 0.0
    for k in range(-3, 4):
        if k == 0:
            continue
        weight = 45.0 if abs(k) == 1 else -9.0 if abs(k) == 2 else 1.0
        weight *= (1.0 if k > 0 else -1.0) / (60.0 * step)
        call_residual(places[G], t + k * step, _address(u), rates, _address(p), work)
        for i in range(m):
            out[i] += weight * values[i]
    if places[BY_VELOCITY] != 0:
        value, rate, found = _doubles(work), _doubles(work + 16 * n), _doubles(work + 32 * n)
        for i in range(n):
            value[2 * i], value[2 * i + 1] = u[i], STEP * v[i]
            rate[2 * i], rate[2 * i + 1] = v[i], 0.0
        call_residual(places[G_COMPLEX], t, work, work + 16 * n, _address(p), work + 32 * n)
        for i in range(m):
            out[i] += found[2 * i + 1] / STEP


def _d2g(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """g_tt + 2 g_tu v + g_uu(v, v): differences of order 6 of first derivatives that are exact.

    The first term is that of g alone, the others the slope at s = 0 of g_u(t + 2 s, u + s v) v.
    """
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = _integers_of(p[-1])
    n, m, work = places[N], places[M], places[WORK]
    scales = _doubles(places[SCALES])
    value, found = _doubles(work), _doubles(work + 32 * n)
    zero, values = _doubles(work + 16 * n), _doubles(work + 32 * n)
    length = 0.5 * scales[n]
    for i in range(n):
        zero[2 * i] = zero[2 * i + 1] = 0.0
        reach = scales[i] + abs(u[i])
        if length * abs(v[i]) > reach:
            length = reach / abs(v[i])
    step = FIRST * length
    for i in range(m):
        out[i] = 0.0
    for k in range(-3, 4):
        if k == 0:
            continue
        weight = 45.0 if abs(k) == 1 else -9.0 if abs(k) == 2 else 1.0
        weight *= (1.0 if k > 0 else -1.0) / (60.0 * step)
        for i in range(n):
            value[2 * i], value[2 * i + 1] = u[i] + k * step * v[i], STEP * v[i]
        late = t + 2.0 * k * step
        call_residual(places[G_COMPLEX], late, work, work + 16 * n, _address(p), work + 32 * n)
        for i in range(m):
            out[i] += weight * (found[2 * i + 1] / STEP)
    place, rates = _address(u), work + 16 * n
    if places[DG_DT] != 0:
        step = FIRST * scales[n]
        for k in range(-3, 4):
            if k == 0:
                continue
            weight = 45.0 if abs(k) == 1 else -9.0 if abs(k) == 2 else 1.0
            weight *= (1.0 if k > 0 else -1.0) / (60.0 * step)
            call_residual(places[DG_DT], t + k * step, place, rates, _address(p), work + 32 * n)
            for i in range(m):
                out[i] += weight * values[i]
        return
    step = SECOND * scales[n]
    sums = _doubles(work + 32 * n + 16 * m)
    middle = _doubles(work + 32 * n + 16 * m + 8 * m)
    call_residual(places[G], t, place, rates, _address(p), work + 32 * n)
    for i in range(m):
        middle[i] = 2.0 * values[i]
    for k in range(1, 4):
        weight = (270.0 if k == 1 else -27.0 if k == 2 else 2.0) / (180.0 * step * step)
        call_residual(places[G], t - k * step, place, rates, _address(p), work + 32 * n)
        for i in range(m):
            sums[i] = values[i]
        call_residual(places[G], t + k * step, place, rates, _address(p), work + 32 * n)
        for i in range(m):
            out[i] += weight * (sums[i] + values[i] - middle[i])


def _transposed(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """The matrix B that is the transposed of dg."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = _integers_of(p[-1])
    n, m, work = places[N], places[M], places[WORK]
    rates = _address(v) if places[BY_VELOCITY] != 0 else _address(u)
    own = work + 8 * (2 * (2 * n + m) + n)
    matrix = _doubles(own)
    call_residual(places[DG], t, _address(u), rates, _address(p), own)
    for i in range(m):
        for j in range(n):
            out[j * m + i] = matrix[i * n + j]


def _selection(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """A = [I 0 0] of implicit equations in x = (u, p, w)."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    places = _integers_of(p[-1])
    n, rows = places[N], places[N_U]
    for i in range(rows):
        for j in range(n):
            out[i * n + j] = 1.0 if i == j else 0.0


def _derivative(t: float, u: Any, v: Any, p: Any, out: Any) -> None:
    """h = p of implicit equations in x = (u, p, w)."""
    if p[-2] != SIGN:
        out[0] = np.nan
        return
    rows = _integers_of(p[-1])[N_U]
    for i in range(rows):
        out[i] = u[rows + i]


FUNCTIONS = {
    "dg": _dg,
    "dg_dt": _dg_dt,
    "d2g": _d2g,
    "transposed": _transposed,
    "selection": _selection,
    "derivative": _derivative,
}


@functools.cache
def function(name: str) -> Any:
    """One of the functions of this module as a C function with its ``address``."""
    signature = machine.SIGNATURES["residual"]
    try:
        return cfunc(signature, cache=True, **OPTIONS)(FUNCTIONS[name])
    except RuntimeError:  # there is no place to keep it in
        return cfunc(signature, **OPTIONS)(FUNCTIONS[name])
