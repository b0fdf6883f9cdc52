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


class SweepArrays(NamedTuple):
    """What a sweep works on; compiled code gets a :class:`Rows` in place of every array.

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
        Values at which the residual is measured if the nodes keep others.
    dt_q, dt_delta : ndarray, shape (M, M)
        Matrices times the step size.
    tau : ndarray, shape (M, k)
        What a finer level adds to the integral.
    has_tau : bool
        Whether it does.
    num_nodes, n, n_integrated : int
        M, n and k.
    diagonal : bool
        Whether Q_Delta is.
    keeps : bool
        Whether the nodes keep the value their solve ended with.
    first : int
        First node that is solved for.
    """

    u: Any
    du: Any
    start: Any
    integral: Any
    right_side: Any
    mixed: Any
    dt_q: Any
    dt_delta: Any
    tau: Any
    has_tau: bool
    num_nodes: int
    n: int
    n_integrated: int
    diagonal: bool
    keeps: bool
    first: int


class Rows(NamedTuple):
    """An array as compiled code finds its rows.

    Parameters
    ----------
    place : int
        Address of the first number.
    stride : int
        Numbers from one row to the next.
    """

    place: int
    stride: int


NOTHING, INTEGRATE, CONTINUE = 0, 1, 2
"""Preparations before a sweep: none, because values and integral are in place; to integrate; to continue the
polynomial of the last step."""


class Continuation(NamedTuple):
    """The polynomial of the last step, to be continued to the nodes.

    Parameters
    ----------
    wanted : int
        :data:`NOTHING`, :data:`INTEGRATE` or :data:`CONTINUE`; the rest is of meaning for the last.
    nodes : int
        Number M' of the nodes of the last step.
    matrix : ndarray, shape (M, M')
        From the nodes of the last step to those of this.
    value, derivative : ndarray, shape (M', n)
        u and u' at the nodes of the last step.
    """

    wanted: int
    nodes: int
    matrix: Any
    value: Any
    derivative: Any


def row(rows: Any, m: int) -> Any:
    """Row m."""
    return rows[m]


def entry(matrix: Any, i: int, j: int) -> float:
    """Entry i, j of a matrix."""
    value: float = matrix[i, j]
    return value


def set_row(to: Any, first: int, last: int, factor: float, values: Any) -> None:
    """Entries ``first`` to ``last`` - 1 of a row = factor times those of another."""
    np.multiply(values[first:last], factor, out=to[first:last])


def add_to_row(to: Any, first: int, last: int, factor: float, values: Any) -> None:
    """Entries ``first`` to ``last`` - 1 of a row += factor times those of another."""
    # In place, at a third of the time of NumPy's product and sum; it refuses empty rows.
    if last > first:
        daxpy(values[first:last], to[first:last], a=factor)


def largest_difference(first: Any, second: Any, count: int) -> float:
    """Largest difference of the first ``count`` entries of two rows; NaN if one is."""
    return float(np.abs(first[:count] - second[:count]).max(initial=0.0))


def raise_norm(norms: Any, m: int, least: float) -> None:
    """Raise the norm of node m to at least ``least``."""
    norms[m] = max(norms[m], least)


def combine(matrix: Any, count: int, rows: Any, to: Any, size: int, first: int, last: int) -> None:
    """Entries ``first`` to ``last`` - 1 of ``size`` rows = matrix times those of ``count`` rows."""
    np.matmul(matrix, rows[:, first:last], out=to[:, first:last])


def begin_sweep(solver: Any, number: int) -> None:
    """Called before sweep ``number`` of a step, counted from 0."""
    solver.begin_sweep(number)


def solve_at(solver: Any, m: int) -> bool:
    """Solve for node m, whose value holds r_m and what the nodes before add; False if that fails."""
    solved: bool = solver.solve_at(m)
    return solved


def measure(solver: Any, a: SweepArrays, low: int, high: int, norms: Any) -> None:
    """Largest abs(F - tau) at nodes ``low`` to ``high`` - 1, at ``mixed`` or ``u``, into ``norms``."""
    solver.measure(low, high, norms)


def integrate(a: SweepArrays) -> None:
    """Make ``integral`` current."""
    k = a.n_integrated
    combine(a.dt_q, a.num_nodes, a.du, a.integral, a.num_nodes, 0, k)
    if a.has_tau:
        for m in range(a.num_nodes):
            add_to_row(row(a.integral, m), 0, k, 1.0, row(a.tau, m))


def put_integrated(a: SweepArrays, m: int, to: Any) -> None:
    """u_0 + dt sum_j q_mj U_j."""
    set_row(to, 0, a.n_integrated, 1.0, a.start)
    add_to_row(to, 0, a.n_integrated, 1.0, row(a.integral, m))


def continue_polynomial(a: SweepArrays, last: Continuation) -> None:
    """Take the polynomial of the last step for the first guess."""
    combine(last.matrix, last.nodes, last.derivative, a.du, a.num_nodes, 0, a.n_integrated)
    if a.n_integrated < a.n:
        combine(last.matrix, last.nodes, last.value, a.u, a.num_nodes, a.n_integrated, a.n)
    integrate(a)
    for m in range(a.num_nodes):
        put_integrated(a, m, row(a.u, m))


def right_sides(a: SweepArrays, du: Any, integral: Any, low: int, high: int) -> None:
    """r at nodes ``low`` to ``high`` - 1 from the derivatives before the sweep and their integral."""
    k = a.n_integrated
    for m in range(low, high):
        to = row(a.right_side, m)
        set_row(to, 0, k, 1.0, row(integral, m))
        add_to_row(to, 0, k, 1.0, a.start)
        for j in range(m if a.diagonal else 0, m + 1):
            add_to_row(to, 0, k, -entry(a.dt_delta, m, j), row(du, j))


def guide_point(a: SweepArrays, u: Any, du: Any, integral: Any, out: Any) -> None:
    """The point of the Jacobian that nodes of a diagonal sweep share: the first node before the sweep."""
    k = a.n_integrated
    set_row(row(out, 0), k, a.n, 1.0, row(u, a.first))
    set_row(row(out, 1), 0, a.n, 1.0, row(du, a.first))
    set_row(row(out, 0), 0, k, 1.0, a.start)
    add_to_row(row(out, 0), 0, k, 1.0, row(integral, a.first))


def start_sweep(
    a: SweepArrays,
    solver: Any,
    u: Any,
    du: Any,
    integral: Any,
    guide: Any,
    number: int,
    low: int,
    high: int,
) -> None:
    """Prepare sweep ``number`` at nodes ``low`` to ``high`` - 1 from the values before it."""
    begin_sweep(solver, number)
    if a.diagonal:
        guide_point(a, u, du, integral, guide)
    right_sides(a, du, integral, low, high)


def collect(a: SweepArrays, m: int) -> None:
    """The value of node m from r_m and the derivatives there are."""
    to = row(a.u, m)
    set_row(to, 0, a.n_integrated, 1.0, row(a.right_side, m))
    for j in range(m if a.diagonal else 0, m + 1):
        add_to_row(to, 0, a.n_integrated, entry(a.dt_delta, m, j), row(a.du, j))


def solve_nodes(a: SweepArrays, solver: Any, low: int, high: int) -> int:
    """Solve at nodes ``low`` to ``high`` - 1 in turn; the first that cannot be solved, or ``high``."""
    for m in range(max(low, a.first), high):
        collect(a, m)
        if not solve_at(solver, m):
            return m
    return high


def finish(a: SweepArrays) -> None:
    """Integrate the derivatives of a sweep, and keep at the nodes what the variant keeps."""
    integrate(a)
    if a.keeps and not a.diagonal:
        return
    for m in range(a.num_nodes):
        if a.keeps:
            # The same arithmetic for the nodes of this process and for those of others.
            collect(a, m)
        else:
            put_integrated(a, m, row(a.u, m))


def place_measured(a: SweepArrays, low: int, high: int) -> None:
    """Put u_0 + dt sum_j q_mj U_j where residuals are measured."""
    for m in range(low, high):
        if a.keeps:
            set_row(row(a.mixed, m), a.n_integrated, a.n, 1.0, row(a.u, m))
            put_integrated(a, m, row(a.mixed, m))
        else:
            put_integrated(a, m, row(a.u, m))


def residual_norms(a: SweepArrays, solver: Any, low: int, high: int, norms: Any) -> None:
    """Residuals of nodes ``low`` to ``high`` - 1, with ``integral`` current, into ``norms``."""
    place_measured(a, low, high)
    measure(solver, a, low, high, norms)
    if a.keeps:
        add_defects(a, low, high, norms)


def add_defects(a: SweepArrays, low: int, high: int, norms: Any) -> None:
    """Count the distance of kept values from u_0 + dt sum_j q_mj U_j, on which F need not depend."""
    for m in range(low, high):
        raise_norm(norms, m, largest_difference(row(a.u, m), row(a.mixed, m), a.n_integrated))


def residual(norms: Any, count: int, only_last: bool) -> float:
    """The residual of a step from those of its nodes; infinite where one is not finite."""
    value = 0.0
    for m in range(count):
        norm = norms[m]
        if not norm < np.inf:
            return np.inf
        if only_last or norm > value:
            value = norm
    return value


CHANGE, CONTRACTION, REMAINDER, ETA, SHARE, PATIENCE, ROUND_OFF_CHANGE, GOAL_NUMBERS = range(8)
"""Places in the row of numbers of a :class:`Goal`: weighted size of the last change of u, its ratio to the
one before, what is left of the iteration in units of what may be left, contraction / (1 - contraction), what
may be left in units of the tolerance, the number of sweeps from which on slow ones are given up, and the
weighted size of a change by round-off."""

LEAST_CONTRACTION_RATIO = 0.02
"""Least contraction / (1 - contraction) that counts: first sweeps may contract better than later ones."""

MOST_SWEEPS = 25
"""Most sweeps of a step to a tolerance; it is given up earlier if the contraction is too slow for them."""

CONVERGED, GOING_ON, TOO_SLOW = 0, 1, 2
"""Results of :func:`look_at_change`."""


class Goal(NamedTuple):
    """What sweeps to a tolerance measure; compiled code gets addresses.

    Parameters
    ----------
    old : ndarray, shape (M, n)
        u at the nodes before the sweep.
    weights : ndarray, shape (n,)
        Weights of a change.
    numbers : ndarray, shape (7,)
        See :data:`CHANGE`.
    """

    old: Any
    weights: Any
    numbers: Any


def numbers_of(goal: Goal) -> Any:
    """The row of numbers."""
    return goal.numbers


def square_of_change(old: Any, new: Any, weights: Any, n: int) -> float:
    """Mean square of the weighted difference of two rows."""
    with np.errstate(all="ignore"):
        change = (new - old) * weights
        return float(change @ change) / n


def keep_old(a: SweepArrays, goal: Goal) -> None:
    """Remember u before a sweep."""
    for m in range(a.num_nodes):
        set_row(row(goal.old, m), 0, a.n, 1.0, row(a.u, m))


def look_at_change(a: SweepArrays, goal: Goal, count: int) -> int:
    """Measure the change of u by sweep ``count`` of a step, counted from 1; see :data:`CONVERGED`."""
    x = numbers_of(goal)
    largest = 0.0
    for m in range(a.num_nodes):
        square = square_of_change(row(goal.old, m), row(a.u, m), goal.weights, a.n)
        if not square <= largest:
            largest = square
            if not square < np.inf:
                x[REMAINDER] = np.inf
                return TOO_SLOW
    norm = np.sqrt(largest)
    rate = 0.0
    if count > 1:
        rate = norm / x[CHANGE] if x[CHANGE] > 0.0 else 0.0
        # The slower of the last and the mean of the last two: the first sweeps need not contract evenly.
        mean = np.sqrt(rate * x[CONTRACTION]) if count > 2 else rate
        x[CONTRACTION] = rate
        rate = max(rate, mean)
        x[ETA] = max(LEAST_CONTRACTION_RATIO, rate / (1.0 - rate)) if rate < 0.99 else np.inf
    x[CHANGE] = norm
    x[REMAINDER] = x[ETA] * norm / x[SHARE] if norm > 0.0 else 0.0
    if norm <= x[ROUND_OFF_CHANGE] and x[REMAINDER] > 1.0:
        x[REMAINDER] = 1.0
    if x[REMAINDER] <= 1.0:
        return CONVERGED
    if count >= MOST_SWEEPS:
        return TOO_SLOW
    if count >= x[PATIENCE] and (rate >= 0.99 or x[REMAINDER] * rate ** (MOST_SWEEPS - count) > 1.0):
        return TOO_SLOW
    return GOING_ON


def in_order(numbers: Any) -> Any:
    """The numbers of a row, to be read one by one."""
    return numbers.tolist()


def sweeps(
    a: SweepArrays,
    solver: Any,
    last: Continuation,
    guide: Any,
    norms: Any,
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
        Values before and after.
    last : Continuation
        Where the values before come from, unless they are in place with ``integral`` current.
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
    end = a.num_nodes
    done = 0
    value = np.inf
    if last.wanted == CONTINUE:
        continue_polynomial(a, last)
    elif last.wanted == INTEGRATE:
        integrate(a)
    while done < most:
        if low == 0:
            start_sweep(a, solver, a.u, a.du, a.integral, guide, number + done, 0, end)
        reached = solve_nodes(a, solver, low, end)
        if reached < end:
            return done, reached, value
        low = 0
        finish(a)
        residual_norms(a, solver, 0, end, norms)
        done += 1
        value = residual(in_order(norms), end, only_last)
        if value <= tolerance or not value < np.inf:
            break
    return done, end, value


def sweeps_to_tolerance(
    a: SweepArrays,
    solver: Any,
    last: Continuation,
    guide: Any,
    goal: Goal,
    number: int,
    most: int,
    low: int,
) -> tuple[int, int, int]:
    """Sweep until u at the nodes changes no more, at most ``most`` times; all nodes belong to this process.

    Parameters
    ----------
    a, solver, last, guide, number, most, low
        As for :func:`sweeps`.
    goal : Goal
        How changes are measured; ``old`` is in place where ``low`` is not 0.

    Returns
    -------
    done, reached : int
        As for :func:`sweeps`.
    how : int
        :data:`CONVERGED`, :data:`GOING_ON` or :data:`TOO_SLOW`.
    """
    end = a.num_nodes
    done = 0
    how = GOING_ON
    if last.wanted == CONTINUE:
        continue_polynomial(a, last)
    elif last.wanted == INTEGRATE:
        integrate(a)
    while done < most and how == GOING_ON:
        if low == 0:
            keep_old(a, goal)
            start_sweep(a, solver, a.u, a.du, a.integral, guide, number + done, 0, end)
        reached = solve_nodes(a, solver, low, end)
        if reached < end:
            return done, reached, how
        low = 0
        finish(a)
        done += 1
        how = look_at_change(a, goal, number + done)
    return done, end, how
