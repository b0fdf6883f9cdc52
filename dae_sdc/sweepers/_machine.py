"""Sweeps on memory: the operations of :mod:`dae_sdc.sweepers.sweep`, compiled. This imports numba."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from dae_sdc.compiled import machine_newton as mn
from dae_sdc.dae.compiling import compiled_lightly, kept
from dae_sdc.dae.machine import RecordView, compiled_as, doubles, within_compiled
from dae_sdc.dae.memory import fields
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers.sweep import GoalNumbers


class RowsMemory(ctypes.Structure):
    """A two-dimensional array: the address of its first number, and the distance of its rows in numbers."""

    _fields_ = fields(ctypes.c_int64, "place stride")


class ArraysMemory(ctypes.Structure):
    """The arrays of a sweep; the fields are those of :class:`~dae_sdc.sweepers.sweep.SweepArrays`."""

    _fields_ = [
        *fields(RowsMemory, "u du integral right_side mixed dt_q dt_delta tau guide"),
        *fields(ctypes.c_int64, "start has_tau num_nodes n n_integrated diagonal keeps first"),
    ]


class BeforeMemory(ctypes.Structure):
    """The values before a sweep."""

    _fields_ = fields(RowsMemory, "u du integral")


class ContinuationMemory(ctypes.Structure):
    """The polynomial of the last step; the fields of :class:`~dae_sdc.sweepers.sweep.Continuation`."""

    _fields_ = [*fields(RowsMemory, "matrix value derivative"), *fields(ctypes.c_int64, "wanted nodes")]


class GoalMemory(ctypes.Structure):
    """What sweeps to a tolerance measure; the fields of :class:`~dae_sdc.sweepers.sweep.Goal`."""

    _fields_ = [*fields(RowsMemory, "old"), *fields(ctypes.c_int64, "weights numbers")]


class SweepMemory(ctypes.Structure):
    """What sweeps work on, for Python and for compiled code, with the address of a NodesMemory."""

    _fields_ = [
        ("arrays", ArraysMemory),
        ("before", BeforeMemory),
        ("last", ContinuationMemory),
        ("goal", GoalMemory),
        *fields(ctypes.c_int64, "norms nodes"),
    ]


_view, _goal_numbers = RecordView(SweepMemory), RecordView(GoalNumbers)
sweep_at, goal_numbers_at = _view.at, _goal_numbers.at


@compiled_as(sweep.memory)
def _memory(s: Any) -> Any:
    return sweep_at(s)


@compiled_as(sweep.row)
def _row(rows: Any, m: Any) -> Any:
    return rows.place + 8 * rows.stride * m


@compiled_as(sweep.entry)
def _entry(matrix: Any, i: Any, j: Any) -> Any:
    return doubles(matrix.place)[matrix.stride * i + j]


@compiled_as(sweep.set_row)
def _set_row(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
    target, source = doubles(to), doubles(values)
    for i in range(first, last):
        target[i] = factor * source[i]


@compiled_as(sweep.add_to_row)
def _add_to_row(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
    target, source = doubles(to), doubles(values)
    for i in range(first, last):
        target[i] += factor * source[i]


@compiled_as(sweep.largest_difference)
def _largest_difference(first: Any, second: Any, count: Any) -> Any:
    one, other, result = doubles(first), doubles(second), 0.0
    for i in range(count):
        size = abs(one[i] - other[i])
        if not size <= result:
            result = size
    return result


@compiled_as(sweep.raise_norm)
def _raise_norm(norms: Any, m: Any, least: Any) -> Any:
    known = doubles(norms)
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
    return doubles(numbers)


@compiled_as(sweep.numbers_of)
def _numbers_of(goal: Any) -> Any:
    return goal_numbers_at(goal.numbers)


@compiled_as(sweep.square_of_change)
def _square_of_change(old: Any, new: Any, weights: Any, n: Any) -> Any:
    before, after, weight = doubles(old), doubles(new), doubles(weights)
    total = 0.0
    for i in range(n):
        change = (after[i] - before[i]) * weight[i]
        total += change * change
    return total / n


@_view.method()
def _begin_sweep(w: Any, number: Any) -> Any:
    nodes = mn.nodes_at(w.nodes)
    nodes.guide_known = 0
    nodes.trust = 1 if number > 0 else 0


@_view.method()
def _solve_at(w: Any, m: Any) -> Any:
    return mn.solve_at_node(w.nodes, m)


@_view.method()
def _measure(w: Any, low: Any, high: Any) -> Any:
    nodes, a, out = mn.nodes_at(w.nodes), w.arrays, doubles(w.norms)
    value = doubles(nodes.value)
    for m in range(low, high):
        u = sweep.row(a.mixed, m) if a.keeps else sweep.row(a.u, m)
        mn.residual_of_node(nodes, m, u, sweep.row(a.du, m))
        out[m] = mn.largest_of(value, 0, a.n)


for _function in (
    *(sweep.integrate, sweep.put_integrated, sweep.continue_polynomial, sweep.right_sides),
    *(sweep.guide_point, sweep.start_from, sweep.collect, sweep.solve_nodes, sweep.finish),
    *(sweep.place_measured, sweep.add_defects, sweep.residual_norms, sweep.residual),
    *(sweep.keep_old, sweep.look_at_change),
):
    within_compiled(_function)


@functools.cache
def entry_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled form of a function of :mod:`dae_sdc.sweepers.sweep`, for a :class:`SweepMemory`."""
    # It is not optimised itself, so that what it calls is not compiled into it a second time.
    compiled = kept(function, _dbg_optnone=True)

    def call(*arguments: Any) -> Any:
        if not compiled.signatures:
            compiled_lightly(compiled, *arguments)
        return compiled(*arguments)

    return call
