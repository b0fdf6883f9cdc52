"""One sweep of spectral deferred corrections, for Python objects and for compiled code alike.

With u_y the integrated unknowns, U their derivatives at the M nodes, Q and Q_Delta times the step size, a
sweep is, node after node,

    r_m  = u_0 + sum_j q_mj U_j - sum_{j <= m} delta_mj U_j              (old values)
    u_y  = r_m + sum_{j < m} delta_mj U_j (new) + delta_mm U_m,   F(t_m, u, U_m) = 0

What is written here keeps to the part of Python that numba compiles; the few operations on rows at its
beginning are NumPy's in Python and loops in compiled code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from dae_sdc.dae.state import Vector


class SweepArrays(NamedTuple):
    """What a sweep works on.

    Parameters
    ----------
    u, du : ndarray, shape (M, n)
        Values and derivatives at the nodes.
    start : ndarray, shape (n,)
        Value at the start of the step.
    integral : ndarray, shape (M, k)
        dt Q U of the derivatives before the sweep, with ``tau``.
    right_side : ndarray, shape (M, k)
        r.
    mixed : ndarray, shape (M, n)
        Where a residual is measured if the nodes keep other values.
    dt_q, dt_delta : ndarray, shape (M, M)
        Matrices times the step size.
    tau : ndarray, shape (M, k)
        What a finer level adds to the integral.
    has_tau : bool
        Whether it does.
    n_integrated : int
        k.
    diagonal : bool
        Whether Q_Delta is.
    keeps : bool
        Whether the nodes keep the value their solve ended with.
    first : int
        First node that is solved for.
    """

    u: Vector
    du: Vector
    start: Vector
    integral: Vector
    right_side: Vector
    mixed: Vector
    dt_q: Vector
    dt_delta: Vector
    tau: Vector
    has_tau: bool
    n_integrated: int
    diagonal: bool
    keeps: bool
    first: int


def multiply(matrix: Vector, rows: Vector, out: Vector) -> None:
    """``out`` = matrix times rows."""
    np.matmul(matrix, rows, out=out)


def add_multiple(factor: float, row: Vector, out: Vector) -> None:
    """``out`` += factor times row."""
    # In place, at a third of the time of NumPy's product and sum.
    daxpy(row, out, a=factor)


def in_order(numbers: Vector) -> Any:
    """The numbers one by one."""
    return numbers.tolist()


def copy_row(row: Vector, out: Vector) -> None:
    """``out`` = row."""
    out[:] = row


def begin_sweep(solver: Any, number: int) -> None:
    """Called before sweep ``number`` of a step, counted from 0."""
    solver.begin_sweep(number)


def solve_at(solver: Any, m: int) -> bool:
    """Solve for node m, whose value holds r_m and what the nodes before add; False if that fails."""
    solved: bool = solver.solve_at(m)
    return solved


def measure(solver: Any, a: SweepArrays, low: int, high: int, norms: Vector) -> None:
    """Largest abs(F - tau) at nodes ``low`` to ``high`` - 1, at ``mixed`` or ``u``, into ``norms``."""
    solver.measure(low, high, norms)


def integrate(a: SweepArrays) -> None:
    """Make ``integral`` current."""
    multiply(a.dt_q, a.du[:, : a.n_integrated], a.integral)
    if a.has_tau:
        for m in range(len(a.tau)):
            add_multiple(1.0, a.tau[m], a.integral[m])


class Continuation(NamedTuple):
    """The polynomial of the last step, continued to the nodes.

    Parameters
    ----------
    wanted : bool
        Whether it is to be taken; the rest is then of meaning.
    matrix : ndarray, shape (M, M')
        From the nodes of the last step to those of this.
    value, derivative : ndarray, shape (M', n)
        u and u' at the nodes of the last step.
    """

    wanted: bool
    matrix: Vector
    value: Vector
    derivative: Vector


def continue_polynomial(a: SweepArrays, last: Continuation) -> None:
    """Take the polynomial of the last step for the first guess."""
    k = a.n_integrated
    multiply(last.matrix, last.derivative[:, :k], a.du[:, :k])
    if k < a.u.shape[1]:
        multiply(last.matrix, last.value[:, k:], a.u[:, k:])
    integrate(a)
    for m in range(len(a.u)):
        copy_row(a.start[:k], a.u[m, :k])
        add_multiple(1.0, a.integral[m], a.u[m, :k])


def right_sides(a: SweepArrays, du: Vector, integral: Vector, low: int, high: int) -> None:
    """r at nodes ``low`` to ``high`` - 1 from the derivatives before the sweep and their integral."""
    k = a.n_integrated
    for m in range(low, high):
        row = a.right_side[m]
        copy_row(integral[m], row)
        add_multiple(1.0, a.start[:k], row)
        for j in range(m if a.diagonal else 0, m + 1):
            add_multiple(-a.dt_delta[m, j], du[j, :k], row)


def guide_point(a: SweepArrays, u: Vector, du: Vector, integral: Vector, out: Vector) -> None:
    """Where all nodes of a diagonal sweep may take a Jacobian: the first node as the last sweep left it."""
    k = a.n_integrated
    copy_row(u[a.first], out[0])
    copy_row(du[a.first], out[1])
    copy_row(a.start[:k], out[0, :k])
    add_multiple(1.0, integral[a.first], out[0, :k])


def collect(a: SweepArrays, m: int) -> None:
    """The value of node m from r_m and the derivatives there are."""
    k = a.n_integrated
    row = a.u[m, :k]
    copy_row(a.right_side[m], row)
    for j in range(m if a.diagonal else 0, m + 1):
        add_multiple(a.dt_delta[m, j], a.du[j, :k], row)


def solve_nodes(a: SweepArrays, solver: Any, low: int, high: int) -> int:
    """Solve at nodes ``low`` to ``high`` - 1 in turn; the first that cannot be solved, or ``high``."""
    for m in range(max(low, a.first), high):
        collect(a, m)
        if not solve_at(solver, m):
            return m
    return high


def finish(a: SweepArrays) -> None:
    """Integrate the derivatives of a sweep, and keep at the nodes what the variant keeps."""
    k = a.n_integrated
    integrate(a)
    if a.keeps and not a.diagonal:
        return
    for m in range(len(a.u)):
        if a.keeps:
            # The same arithmetic for the nodes of this process and for those of others.
            collect(a, m)
        else:
            copy_row(a.start[:k], a.u[m, :k])
            add_multiple(1.0, a.integral[m], a.u[m, :k])


def residual_norms(a: SweepArrays, solver: Any, low: int, high: int, norms: Vector) -> None:
    """Residuals of nodes ``low`` to ``high`` - 1, with ``integral`` current, into ``norms``."""
    place_measured(a, low, high)
    measure(solver, a, low, high, norms)


def place_measured(a: SweepArrays, low: int, high: int) -> None:
    """Put u_0 + dt sum_j q_mj U_j where residuals are measured."""
    k = a.n_integrated
    for m in range(low, high):
        row = (a.mixed if a.keeps else a.u)[m]
        if a.keeps:
            copy_row(a.u[m, k:], row[k:])
        copy_row(a.start[:k], row[:k])
        add_multiple(1.0, a.integral[m], row[:k])


def residual(norms: Any, only_last: bool) -> float:
    """The residual of a step from those of its nodes; infinite where one is not finite."""
    value = 0.0
    for norm in norms:
        if not norm < np.inf:
            return np.inf
        value = norm if only_last else max(value, norm)
    return value


def sweeps(
    a: SweepArrays,
    solver: Any,
    last: Continuation,
    guide: Vector,
    norms: Vector,
    number: int,
    most: int,
    low: int,
    tolerance: float,
    only_last: bool,
) -> tuple[int, int, float]:
    """Sweep until the residual meets a tolerance, at most ``most`` times; all nodes belong to this process.

    Parameters
    ----------
    a : SweepArrays
        Values before and after, with ``integral`` current.
    last : Continuation
        Where the values before come from, unless they are in place.
    solver : object
        Solves at the nodes.
    guide : ndarray, shape (2, n)
        For :func:`guide_point`.
    norms : ndarray, shape (M,)
        Receives the residuals of the nodes.
    number : int
        Sweeps that the step has had.
    most : int
        Largest number of sweeps now.
    low : int
        Node at which the first of them goes on; 0 begins it.
    tolerance : float
        Residual at which to stop.
    only_last : bool
        Whether that is the residual of the last node.

    Returns
    -------
    done, reached : int
        Number of sweeps done, and M, or the node that could not be solved in the one after them.
    value : float
        Residual after the last; infinite before the first.
    """
    end = len(a.u)
    done = 0
    value = np.inf
    if last.wanted:
        continue_polynomial(a, last)
    while done < most:
        if low == 0:
            begin_sweep(solver, number + done)
            if a.diagonal:
                guide_point(a, a.u, a.du, a.integral, guide)
            right_sides(a, a.du, a.integral, 0, end)
        reached = solve_nodes(a, solver, low, end)
        if reached < end:
            return done, reached, value
        low = 0
        finish(a)
        residual_norms(a, solver, 0, end, norms)
        done += 1
        value = residual(in_order(norms), only_last)
        if value <= tolerance or not value < np.inf:
            break
    return done, end, value
