"""One sweep of spectral deferred corrections, for Python objects and for compiled code alike.

With u_y the integrated unknowns, U their derivatives at the M nodes, Q and Q_Delta times the step size, a
sweep is, node after node,

    r_m  = u_0 + sum_j q_mj U_j - sum_{j <= m} delta_mj U_j              (old values)
    u_y  = r_m + sum_{j < m} delta_mj U_j (new) + delta_mm U_m,   F(t_m, u, U_m) = 0

This file keeps to the part of Python that numba compiles; the operations on rows at its beginning call NumPy
in Python and are loops in compiled code. The solver ``s`` solves at the nodes and holds the arrays: in Python
it is a :class:`dae_sdc.sweepers.solvers.PythonNodes`, in compiled code the address of a
:class:`dae_sdc.sweepers._machine_nodes.SweepMemory` with the same names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from dae_sdc.dae.memory import fields


class SweepArrays(NamedTuple):
    """A step that is swept, and how: for M nodes, n unknowns and k integrated unknowns."""

    # u, du: shape (M, n). Values and derivatives at the nodes.
    u: Any
    du: Any
    start: Any  # Shape (n,). Value at the start of the step.
    integral: Any  # Shape (M, k). dt Q U of the derivatives before the sweep, with ``tau``.
    right_side: Any  # Shape (M, k). r_m at the nodes, see the equations above.
    # Shape (M, n). Values u_0 + dt sum_j q_mj U_j at which the residual is measured where ``keeps``.
    mixed: Any
    # dt_q, dt_delta: shape (M, M). Matrices times the step size.
    dt_q: Any
    dt_delta: Any
    tau: Any  # Shape (M, k). The correction tau^u of a finer level, added to the integral.
    has_tau: bool  # Whether there is such a correction.
    # num_nodes, n, n_integrated: M, n and k.
    num_nodes: int
    n: int
    n_integrated: int
    diagonal: bool  # Whether Q_Delta is diagonal.
    keeps: bool  # Whether the nodes keep the value their solve ended with.
    first: int  # First node that is solved for.
    guide: Any  # Shape (2, n). See :func:`guide_point`.
    # time, dt: start and size of the step.
    time: float
    dt: float
    # times, coefficients: shape (M,). Times of the nodes, and the diagonal of dt Q_Delta.
    times: Any
    coefficients: Any
    # Right-hand sides of F at the nodes, shape (n,) each, where a finer level asks for them.
    right_hand: Sequence[Any]
    # Tolerance of a solve, largest abs(F) allowed after it, its largest number of iterations, and the
    # fraction of its first correction at which it may stop.
    limits: tuple[float, float, int, float]


# Preparations before a sweep: none, because values and integral are in place; to integrate; to continue the
# polynomial of the last step.
NOTHING, INTEGRATE, CONTINUE = 0, 1, 2


class Continuation(NamedTuple):
    """The polynomial of the last step, to be continued to the nodes: of u', but of u from ``split`` on."""

    # :data:`NOTHING`, :data:`INTEGRATE` or :data:`CONTINUE`; only the last one uses the other fields.
    wanted: int
    nodes: int = 0  # Number M' of the nodes of the last step.
    # Shape (M, M'). Extrapolation from the nodes of the last step to those of this one.
    matrix: Any = None
    # value, derivative: shape (M', n). u and u' at the nodes of the last step.
    value: Any = None
    derivative: Any = None
    # Shape (M, M). The inverse of dt Q, for the u' of integrated unknowns from ``split`` on.
    inverse: Any = None
    split: int = 0


def row(rows: Any, m: int) -> Any:
    """Row m of an array; an address in compiled code."""
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


def add_defects(a: SweepArrays, low: int, high: int, norms: Any) -> None:
    """Include the distance of kept values from u_0 + dt sum_j q_mj U_j in ``norms``; F may not show it."""
    k = a.n_integrated
    for m in range(low, high):
        norms[m] = max(norms[m], float(np.abs(a.u[m, :k] - a.mixed[m, :k]).max(initial=0.0)))


def combine(matrix: Any, count: int, rows: Any, to: Any, size: int, first: int, last: int) -> None:
    """Entries ``first`` to ``last`` - 1 of ``size`` rows = matrix times those of ``count`` rows."""
    np.matmul(matrix, rows[:, first:last], out=to[:, first:last])


def memory(s: Any) -> Any:
    """The record with ``arrays``, ``before``, ``last``, ``goal``, ``norms`` and operations of a solver."""
    return s


def integrate(s: Any) -> None:
    """Compute ``integral`` from the derivatives at the nodes."""
    a = memory(s).arrays
    k = a.n_integrated
    combine(a.dt_q, a.num_nodes, a.du, a.integral, a.num_nodes, 0, k)
    if a.has_tau:
        for m in range(a.num_nodes):
            add_to_row(row(a.integral, m), 0, k, 1.0, row(a.tau, m))


def put_integrated(a: SweepArrays, m: int, to: Any) -> None:
    """Write u_0 + dt sum_j q_mj U_j at node m to the integrated part of a row."""
    set_row(to, 0, a.n_integrated, 1.0, a.start)
    add_to_row(to, 0, a.n_integrated, 1.0, row(a.integral, m))


def continue_polynomial(s: Any) -> None:
    """Extrapolate the polynomial of the last step for the first guess."""
    a, last = memory(s).arrays, memory(s).last
    combine(last.matrix, last.nodes, last.derivative, a.du, a.num_nodes, 0, a.n_integrated)
    if a.n_integrated < a.n:
        combine(last.matrix, last.nodes, last.value, a.u, a.num_nodes, a.n_integrated, a.n)
    integrate(s)
    for m in range(a.num_nodes):
        put_integrated(a, m, row(a.u, m))
    if last.split < a.n_integrated:
        continue_values(s)


def continue_values(s: Any) -> None:
    """Extrapolate the values of integrated unknowns whose u' is too rough, and give them their u'."""
    a, last = memory(s).arrays, memory(s).last
    low, high = last.split, a.n_integrated
    combine(last.matrix, last.nodes, last.value, a.u, a.num_nodes, low, high)
    for m in range(a.num_nodes):
        set_row(row(a.integral, m), low, high, 1.0, row(a.u, m))
        add_to_row(row(a.integral, m), low, high, -1.0, a.start)
    combine(last.inverse, a.num_nodes, a.integral, a.du, a.num_nodes, low, high)


def right_sides(a: SweepArrays, du: Any, integral: Any, low: int, high: int) -> None:
    """r_m at nodes ``low`` to ``high`` - 1 from the derivatives before the sweep and their integral."""
    k = a.n_integrated
    for m in range(low, high):
        to = row(a.right_side, m)
        set_row(to, 0, k, 1.0, row(integral, m))
        add_to_row(to, 0, k, 1.0, a.start)
        for j in range(m if a.diagonal else 0, m + 1):
            add_to_row(to, 0, k, -entry(a.dt_delta, m, j), row(du, j))


def guide_point(a: SweepArrays, before: Any) -> None:
    """Set the point of the Jacobian that all nodes of a diagonal sweep share: the first node before it."""
    k, out = a.n_integrated, a.guide
    set_row(row(out, 0), k, a.n, 1.0, row(before.u, a.first))
    set_row(row(out, 1), 0, a.n, 1.0, row(before.du, a.first))
    set_row(row(out, 0), 0, k, 1.0, a.start)
    add_to_row(row(out, 0), 0, k, 1.0, row(before.integral, a.first))


def start_from(a: SweepArrays, before: Any, low: int, high: int) -> None:
    """Prepare a sweep at nodes ``low`` to ``high`` - 1 from u, du and integral before it."""
    if a.diagonal:
        guide_point(a, before)
    right_sides(a, before.du, before.integral, low, high)


def start_sweep(s: Any, low: int, high: int) -> None:
    """Prepare a sweep at nodes ``low`` to ``high`` - 1 from the values ``before`` it."""
    start_from(memory(s).arrays, memory(s).before, low, high)


def collect(a: SweepArrays, m: int) -> None:
    """Compute the value of node m from r_m and the current derivatives."""
    to = row(a.u, m)
    set_row(to, 0, a.n_integrated, 1.0, row(a.right_side, m))
    for j in range(m if a.diagonal else 0, m + 1):
        add_to_row(to, 0, a.n_integrated, entry(a.dt_delta, m, j), row(a.du, j))


def solve_nodes(s: Any, low: int, high: int) -> int:
    """Solve at nodes ``low`` to ``high`` - 1 in turn; the first that cannot be solved, or ``high``."""
    w = memory(s)
    for m in range(max(low, w.arrays.first), high):
        collect(w.arrays, m)
        if not w.solve_at(m):
            return m
    return high


def finish(s: Any) -> None:
    """Integrate the derivatives of a sweep, and keep at the nodes what the variant keeps."""
    integrate(s)
    a = memory(s).arrays
    if a.keeps and not a.diagonal:
        return
    for m in range(a.num_nodes):
        if a.keeps:
            # The nodes of other processes are computed here with the arithmetic that their owners use.
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


def residual_norms(s: Any, low: int, high: int) -> None:
    """Write the residuals of nodes ``low`` to ``high`` - 1 into ``norms``; ``integral`` must be current."""
    w = memory(s)
    place_measured(w.arrays, low, high)
    w.measure(low, high)
    if w.arrays.keeps:
        add_defects(w.arrays, low, high, w.norms)


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


class GoalNumbers(ctypes.Structure):
    """Convergence of the sweeps of a step to a tolerance, for Python and for compiled code."""

    _fields_ = fields(ctypes.c_double, "change contraction remainder eta share patience round_off_change")


# Lower bound of contraction / (1 - contraction): first sweeps may contract better than later ones.
LEAST_CONTRACTION_RATIO = 0.02
# After the first sweep of a step, which shows no contraction yet, contraction / (1 - contraction) is taken to
# be this power of its value in the last step.
CONTRACTION_RATIO_EXPONENT = 0.8
# Lower bound of contraction / (1 - contraction) of the last step in that power.
SMALLEST_CONTRACTION_RATIO = 1e-16
# Most sweeps of a step to a tolerance; it is given up earlier if the contraction is too slow for them.
MOST_SWEEPS = 25
CONVERGED, GOING_ON, TOO_SLOW = 0, 1, 2  # Results of :func:`look_at_change`.


class Goal(NamedTuple):
    """What sweeps to a tolerance measure; compiled code gets addresses."""

    old: Any  # Shape (M, n). u at the nodes before the sweep.
    weights: Any  # Shape (n,). Weights of a change.
    numbers: Any  # Convergence of the sweeps so far.


def numbers_of(goal: Goal) -> Any:
    """The ``numbers`` of a goal."""
    return goal.numbers


def square_of_change(old: Any, new: Any, weights: Any, n: int) -> float:
    """Mean square of the weighted difference of two rows."""
    with np.errstate(all="ignore"):
        change = (new - old) * weights
        return float(change @ change) / n


def begin_goal(x: Any) -> None:
    """Begin a step: its contraction is estimated from that of the last one."""
    x.eta = max(x.eta, SMALLEST_CONTRACTION_RATIO) ** CONTRACTION_RATIO_EXPONENT
    x.change, x.contraction, x.remainder = 0.0, 0.0, np.inf


def keep_old(s: Any) -> None:
    """Remember u before a sweep."""
    a, goal = memory(s).arrays, memory(s).goal
    for m in range(a.num_nodes):
        set_row(row(goal.old, m), 0, a.n, 1.0, row(a.u, m))


def look_at_change(s: Any, count: int) -> int:
    """Measure the change of u by sweep ``count`` of a step, counted from 1; see :data:`CONVERGED`."""
    a, goal = memory(s).arrays, memory(s).goal
    x = numbers_of(goal)
    largest = 0.0
    for m in range(a.num_nodes):
        square = square_of_change(row(goal.old, m), row(a.u, m), goal.weights, a.n)
        if not square <= largest:
            largest = square
            if not square < np.inf:
                x.remainder = np.inf
                return TOO_SLOW
    norm = np.sqrt(largest)
    rate = 0.0
    if count > 1:
        rate = norm / x.change if x.change > 0.0 else 0.0
        # The larger of the last contraction and the mean of the last two: first sweeps contract unevenly.
        mean = np.sqrt(rate * x.contraction) if count > 2 else rate
        x.contraction = rate
        rate = max(rate, mean)
        x.eta = max(LEAST_CONTRACTION_RATIO, rate / (1.0 - rate)) if rate < 0.99 else np.inf
    x.change = norm
    x.remainder = x.eta * norm / x.share if norm > 0.0 else 0.0
    if norm <= x.round_off_change and x.remainder > 1.0:
        x.remainder = 1.0
    if x.remainder <= 1.0:
        return CONVERGED
    if count >= MOST_SWEEPS:
        return TOO_SLOW
    if count >= x.patience and (rate >= 0.99 or x.remainder * rate ** (MOST_SWEEPS - count) > 1.0):
        return TOO_SLOW
    return GOING_ON


def in_order(numbers: Any) -> Any:
    """The numbers of a row, to be read one by one."""
    return numbers.tolist()


def sweeps(
    s: Any, number: int, most: int, low: int, tolerance: float, only_last: bool, to_goal: bool
) -> tuple[int, int, int, float]:
    """Sweep until the residual meets a tolerance or u has converged; all nodes belong to this process."""
    w = memory(s)
    a, end = w.arrays, w.arrays.num_nodes
    done, how, value = 0, GOING_ON, np.inf
    if w.last.wanted == CONTINUE:
        continue_polynomial(s)
    elif w.last.wanted == INTEGRATE:
        integrate(s)
    while done < most and how == GOING_ON:
        if low == 0:
            if to_goal:
                keep_old(s)
            w.begin_sweep(number + done)
            start_from(a, a, 0, end)
        reached = solve_nodes(s, low, end)
        if reached < end:
            return done, reached, how, value
        low = 0
        finish(s)
        done += 1
        if to_goal:
            how = look_at_change(s, number + done)
        else:
            residual_norms(s, 0, end)
            value = residual(in_order(w.norms), end, only_last)
            if value <= tolerance or not value < np.inf:
                how = CONVERGED
    return done, end, how, value
