"""Sweeps on memory: the operations of :mod:`dae_sdc.sweepers.sweep`, compiled. This imports numba."""

from __future__ import annotations

import functools
import sys
from typing import Any

from numba.extending import register_jitable

from dae_sdc.compiled import machine_newton as mn
from dae_sdc.compiled.machine_newton import INNER, MachineNodes
from dae_sdc.dae import iteration, machine
from dae_sdc.dae.compiling import compiled_lightly, kept
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers._overloads import compiled_as
from dae_sdc.sweepers.sweep import Continuation, Goal, Rows, SweepArrays


@compiled_as(sweep.row)
def _row(rows: Any, m: Any) -> Any:
    return rows.place + 8 * rows.stride * m


@compiled_as(sweep.entry)
def _entry(matrix: Any, i: Any, j: Any) -> Any:
    return mn.doubles(matrix.place)[matrix.stride * i + j]


@compiled_as(sweep.set_row)
def _set_row(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
    target, source = mn.doubles(to), mn.doubles(values)
    for i in range(first, last):
        target[i] = factor * source[i]


@compiled_as(sweep.add_to_row)
def _add_to_row(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
    target, source = mn.doubles(to), mn.doubles(values)
    for i in range(first, last):
        target[i] += factor * source[i]


@compiled_as(sweep.largest_difference)
def _largest_difference(first: Any, second: Any, count: Any) -> Any:
    one, other, result = mn.doubles(first), mn.doubles(second), 0.0
    for i in range(count):
        size = abs(one[i] - other[i])
        if not size <= result:
            result = size
    return result


@compiled_as(sweep.raise_norm)
def _raise_norm(norms: Any, m: Any, least: Any) -> Any:
    known = mn.doubles(norms)
    if known[m] < least:
        known[m] = least


@compiled_as(sweep.combine)
def _combine(matrix: Any, count: Any, rows: Any, to: Any, size: Any, first: Any, last: Any) -> Any:
    for m in range(size):
        sweep.set_row(sweep.row(to, m), first, last, sweep.entry(matrix, m, 0), sweep.row(rows, 0))
        for j in range(1, count):
            sweep.add_to_row(sweep.row(to, m), first, last, sweep.entry(matrix, m, j), sweep.row(rows, j))


@compiled_as(sweep.in_order)
def _in_order(numbers: Any) -> Any:
    return mn.doubles(numbers)


@compiled_as(sweep.begin_sweep)
def _begin_sweep(solver: Any, number: Any) -> Any:
    places = mn.integers(solver.places)
    places[mn.GUIDE_KNOWN] = 0
    places[mn.TRUST] = 1 if number > 0 else 0


@compiled_as(sweep.solve_at)
def _solve_at(solver: Any, m: Any) -> Any:
    return mn.solve_at_node(solver, m)


@compiled_as(sweep.measure)
def _measure(solver: Any, a: Any, low: Any, high: Any, norms: Any) -> Any:
    places = mn.integers(solver.places)
    value, out = mn.doubles(places[mn.VALUE]), mn.doubles(norms)
    for m in range(low, high):
        u = sweep.row(a.mixed, m) if a.keeps else sweep.row(a.u, m)
        mn.residual_of_node(places, m, u, sweep.row(a.du, m))
        out[m] = mn.largest_of(value, 0, a.n)


@compiled_as(sweep.numbers_of)
def _numbers_of(goal: Any) -> Any:
    return mn.doubles(goal.numbers)


@compiled_as(sweep.square_of_change)
def _square_of_change(old: Any, new: Any, weights: Any, n: Any) -> Any:
    before, after, weight = mn.doubles(old), mn.doubles(new), mn.doubles(weights)
    total = 0.0
    for i in range(n):
        change = (after[i] - before[i]) * weight[i]
        total += change * change
    return total / n


for _function in (
    sweep.integrate,
    sweep.put_integrated,
    sweep.continue_polynomial,
    sweep.right_sides,
    sweep.start_sweep,
    sweep.guide_point,
    sweep.collect,
    sweep.finish,
    sweep.place_measured,
    sweep.add_defects,
    sweep.residual_norms,
    sweep.residual,
    sweep.solve_nodes,
    sweep.sweeps,
    sweep.keep_old,
    sweep.look_at_change,
    sweep.sweeps_to_tolerance,
):
    register_jitable(**INNER)(_function)


U, DU, INTEGRAL, RIGHT_SIDE, MIXED, DT_Q, DT_DELTA, TAU, GUIDE, MATRIX, VALUE, DERIVATIVE = range(0, 24, 2)
"""Places in the row of integers that Python hands to compiled sweeps: of an array the address of its first
number, and after it how many numbers one row is from the next. One row instead of tuples, because numba takes
a microsecond for each tuple it is given."""

BEFORE_U, BEFORE_DU, BEFORE_INTEGRAL, OLD = range(24, 32, 2)
"""Arrays again: the values before a sweep, where they are not those it changes, and those of a goal."""

START, NORMS, PLACES, SIZES, WEIGHTS, NUMBERS = range(32, 38)
"""Addresses of single rows; of a solver there are two, and two of a goal."""

HAS_TAU, NUM_NODES, N, N_INTEGRATED, DIAGONAL, KEEPS, FIRST, WANTED, NODES, LENGTH = range(38, 48)
"""Numbers; the last is that of all entries."""


@register_jitable(**INNER)
def rows_at(where: Any, i: Any) -> Any:
    """The array that stands in two entries of a row of integers."""
    return Rows(where[i], where[i + 1])


@register_jitable(**INNER)
def arrays_at(where: Any) -> Any:
    """What a sweep works on."""
    return SweepArrays(
        rows_at(where, U),
        rows_at(where, DU),
        where[START],
        rows_at(where, INTEGRAL),
        rows_at(where, RIGHT_SIDE),
        rows_at(where, MIXED),
        rows_at(where, DT_Q),
        rows_at(where, DT_DELTA),
        rows_at(where, TAU),
        where[HAS_TAU] != 0,
        where[NUM_NODES],
        where[N],
        where[N_INTEGRATED],
        where[DIAGONAL] != 0,
        where[KEEPS] != 0,
        where[FIRST],
    )


@register_jitable(**INNER)
def polynomial_at(where: Any) -> Any:
    """Where the values come from."""
    known = rows_at(where, MATRIX), rows_at(where, VALUE), rows_at(where, DERIVATIVE)
    return Continuation(where[WANTED], where[NODES], known[0], known[1], known[2])


@register_jitable(**INNER)
def goal_at(where: Any) -> Any:
    """What sweeps to a tolerance measure."""
    return Goal(rows_at(where, OLD), where[WEIGHTS], where[NUMBERS])


def entry_point(function: Any) -> Any:
    """A compiled function that Python calls.

    It is kept on disk under a name that changes with its sources, and not optimised itself, so that what it
    calls is not compiled into it a second time.
    """
    digest = mn.digest_of(iteration, machine, mn, sweep, sys.modules[__name__])
    function.__qualname__ = f"{function.__name__}-{digest:08x}"
    compiled = kept(function, _dbg_optnone=True)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if not compiled.signatures:
            compiled_lightly(compiled, *arguments)
        return compiled(*arguments)

    return call


@entry_point
def sweeps(place: Any, number: Any, most: Any, low: Any, tolerance: Any, only_last: Any, value: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.sweeps`: 3 (done (M + 1) + reached); the residual to ``value``."""
    where = mn.integers(place)
    solver = MachineNodes(where[PLACES], where[SIZES])
    guide, last = rows_at(where, GUIDE), polynomial_at(where)
    counted = (number, most, low, tolerance, only_last)
    done, reached, residual = sweep.sweeps(arrays_at(where), solver, last, guide, where[NORMS], *counted)
    mn.doubles(value)[0] = residual
    return (done * where[NUM_NODES] + done + reached) * 3


@entry_point
def sweeps_to_tolerance(place: Any, number: Any, most: Any, low: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.sweeps_to_tolerance`: 3 (done (M + 1) + reached) + how."""
    where = mn.integers(place)
    solver = MachineNodes(where[PLACES], where[SIZES])
    guide, last, goal = rows_at(where, GUIDE), polynomial_at(where), goal_at(where)
    arrays = arrays_at(where)
    done, reached, how = sweep.sweeps_to_tolerance(arrays, solver, last, guide, goal, number, most, low)
    return (done * where[NUM_NODES] + done + reached) * 3 + how


@entry_point
def keep_old(place: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.keep_old`."""
    where = mn.integers(place)
    sweep.keep_old(arrays_at(where), goal_at(where))


@entry_point
def look_at_change(place: Any, count: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.look_at_change`."""
    where = mn.integers(place)
    return sweep.look_at_change(arrays_at(where), goal_at(where), count)


@entry_point
def solve_nodes(place: Any, low: Any, high: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.solve_nodes`."""
    where = mn.integers(place)
    return sweep.solve_nodes(arrays_at(where), MachineNodes(where[PLACES], where[SIZES]), low, high)


# The parts of a sweep that waits for other processes.


@entry_point
def integrate(place: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.integrate`."""
    sweep.integrate(arrays_at(mn.integers(place)))


@entry_point
def finish(place: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.finish`."""
    sweep.finish(arrays_at(mn.integers(place)))


@entry_point
def continue_polynomial(place: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.continue_polynomial`."""
    where = mn.integers(place)
    sweep.continue_polynomial(arrays_at(where), polynomial_at(where))


@entry_point
def start_sweep(place: Any, number: Any, low: Any, high: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.start_sweep`."""
    where = mn.integers(place)
    solver = MachineNodes(where[PLACES], where[SIZES])
    before = rows_at(where, BEFORE_U), rows_at(where, BEFORE_DU), rows_at(where, BEFORE_INTEGRAL)
    guide = rows_at(where, GUIDE)
    u, du, integral = before
    sweep.start_sweep(arrays_at(where), solver, u, du, integral, guide, number, low, high)


@entry_point
def residual_norms(place: Any, low: Any, high: Any) -> Any:
    """See :func:`dae_sdc.sweepers.sweep.residual_norms`."""
    where = mn.integers(place)
    solver = MachineNodes(where[PLACES], where[SIZES])
    sweep.residual_norms(arrays_at(where), solver, low, high, where[NORMS])
