"""Kernels of Jacobians of the library's problems, written by hand to hold those by complex steps against."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float64]


def index_1_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    y1, y2, z = u[0], u[1], u[2]
    out[0], out[1], out[2] = 1.0 + 2.0 * c * y1, 0.0, -c
    out[3], out[4], out[5] = -c * z, 1.0 + c, -c * y1
    out[6], out[7], out[8] = -c * y2, -c * y1, c * (1.0 + z * z)


def index_2_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    y1, y2, z = u[0], u[1], u[2]
    out[0] = 1.0 - c * y2 * y2 * z * z
    out[1] = -2.0 * c * y1 * y2 * z * z
    out[2] = -2.0 * c * y1 * y2 * y2 * z
    out[3] = -2.0 * c * y1 * y2 * y2
    out[4] = 1.0 + c * (6.0 * y2 * z - 2.0 * y1 * y1 * y2)
    out[5] = 3.0 * c * y2 * y2
    out[6], out[7], out[8] = 2.0 * c * y1 * y2, c * y1 * y1, 0.0


def line_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`TransmissionLine`, column by column in the order of its pattern."""
    n, rate, drop, U_d = int(p[0]), p[1], p[4], p[5]
    at = 0
    for k in range(n):
        out[at], out[at + 1] = 1.0 + 2.0 * c * rate, -0.5 * c
        at += 2
        if k < n - 1:
            out[at] = -0.5 * c
            at += 1
    for k in range(n):
        if k > 0:
            out[at] = -c * rate
            at += 1
        out[at] = -c * rate if k < n - 1 else -2.0 * c * rate
        out[at + 1] = c * (1.0 + drop / U_d * math.exp(u[n + k] / U_d))
        at += 2


def flow_jacobian(t: float, u: Vector, du: Vector, c: float, p: Vector, out: Vector) -> None:
    """dF/du' + c dF/du of :class:`NavierStokes`, column by column in the order of its pattern."""
    m = int(p[0])
    half = m * (m - 1)
    viscous, weight, slope = c * p[1] * m * m, c * 0.25 * p[2] * m, c * m
    at = 0
    for i in range(m - 1):
        for j in range(m):
            r, s = i * m + j, half + i * (m - 1) + j
            own, low, high = u[r], j > 0, j < m - 1
            west, east = u[r - m] if i > 0 else 0.0, u[r + m] if i < m - 2 else 0.0
            below = weight * (u[s - 1] + u[s + m - 2]) if low else 0.0
            above = weight * (u[s] + u[s + m - 1]) if high else 0.0
            before, after = 2.0 * weight * (west + own), 2.0 * weight * (own + east)
            if i > 0:
                out[at] = before - viscous
                at += 1
            if low:
                out[at] = below - viscous
                at += 1
            sides = 4.0 + (0.0 if low else 1.0) + (0.0 if high else 1.0)
            out[at] = 1.0 + sides * viscous + after - before + above - below
            at += 1
            if high:
                out[at] = -above - viscous
                at += 1
            if i < m - 2:
                out[at] = -after - viscous
                at += 1
            for sign in (1.0, -1.0):
                if low:
                    out[at] = sign * below
                    at += 1
                if high:
                    out[at] = sign * above
                    at += 1
            out[at] = slope
            at += 1
            if r + m < m * m - 1:
                out[at] = -slope
                at += 1
    for i in range(m):
        for j in range(m - 1):
            r, s = half + i * (m - 1) + j, i * m + j
            own, low, high = u[r], i > 0, i < m - 1
            south, north = u[r - 1] if j > 0 else 0.0, u[r + 1] if j < m - 2 else 0.0
            left = weight * (u[s - m] + u[s - m + 1]) if low else 0.0
            right = weight * (u[s] + u[s + 1]) if high else 0.0
            before, after = 2.0 * weight * (south + own), 2.0 * weight * (own + north)
            if low:
                out[at], out[at + 1] = left, -left
                at += 2
            if high:
                out[at], out[at + 1] = right, -right
                at += 2
            if low:
                out[at] = left - viscous
                at += 1
            if j > 0:
                out[at] = before - viscous
                at += 1
            sides = 4.0 + (0.0 if low else 1.0) + (0.0 if high else 1.0)
            out[at] = 1.0 + sides * viscous + after - before + right - left
            at += 1
            if j < m - 2:
                out[at] = -after - viscous
                at += 1
            if high:
                out[at] = -right - viscous
                at += 1
            out[at] = slope
            at += 1
            if s + 1 < m * m - 1:
                out[at] = -slope
                at += 1
    for k in range(m * m - 1):
        i, j = k // m, k % m
        for sign, inside in ((1.0, i > 0), (-1.0, i < m - 1), (1.0, j > 0), (-1.0, j < m - 1)):
            if inside:
                out[at] = sign * slope
                at += 1


JACOBIANS = {
    "hessenberg-1": index_1_jacobian,
    "hessenberg-2": index_2_jacobian,
    "navier-stokes": flow_jacobian,
    "transmission-line": line_jacobian,
}
