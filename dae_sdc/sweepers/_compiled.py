"""Sweeps in compiled code, on memory. Importing this imports numba."""

from __future__ import annotations

from typing import Any

from numba import types

from dae_sdc.compiled import machine_newton as mn
from dae_sdc.dae import compiling
from dae_sdc.dae.compiling import RecordView, call_at, compiled_as, doubles, integers, within_compiled
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers._machine_nodes import SweepMemory
from dae_sdc.sweepers.sweep import GoalNumbers

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


@compiled_as(sweep.add_defects)
def _add_defects(a: Any, low: Any, high: Any, norms: Any) -> Any:
    largest = doubles(norms)
    for m in range(low, high):
        u, mixed = doubles(sweep.row(a.u, m)), doubles(sweep.row(a.mixed, m))
        for i in range(a.n_integrated):
            if largest[m] < abs(u[i] - mixed[i]):
                largest[m] = abs(u[i] - mixed[i])


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
    return call_at(mn.nodes_at(w.nodes).solve_at, (w.nodes, m)) != 0


@_view.method()
def _measure(w: Any, low: Any, high: Any) -> Any:
    nodes, a, out = mn.nodes_at(w.nodes), w.arrays, doubles(w.norms)
    value = doubles(nodes.value)
    for m in range(low, high):
        u = sweep.row(a.mixed, m) if a.keeps else sweep.row(a.u, m)
        mn.residual_of_node(nodes, m, u, sweep.row(a.du, m))
        out[m] = mn.largest_of(value, 0, a.n)


@within_compiled
def forget_matrices(s: Any) -> None:
    """Drop all matrices."""
    w = sweep_at(s)
    nodes = mn.nodes_at(w.nodes)
    mn.fill(nodes.kept, 4 * nodes.capacity, -1.0)
    for m in range(w.arrays.num_nodes):
        integers(nodes.newest)[m] = -1
    nodes.used, nodes.forgotten, w.step.scaled = 0, 1, 0.0


@within_compiled
def slot_of(w: Any, m: Any, end: Any) -> Any:
    """The slot of the matrix of node m among the first ones, or ``end``."""
    nodes = mn.nodes_at(w.nodes)
    node, c = m if w.arrays.diagonal != 0 else -1, doubles(nodes.coefficients)[m]
    for slot in range(end):
        same = doubles(nodes.slot_coefficients)[slot] == c or nodes.krylov != 0
        if integers(nodes.slot_nodes)[slot] == node and same:
            return slot
    return end


@within_compiled
def take_slots(s: Any) -> None:
    """Find slots for the matrices of all nodes; all are dropped where there are none left."""
    w = sweep_at(s)
    nodes, M, scaled = mn.nodes_at(w.nodes), w.arrays.num_nodes, w.step.scaled
    coefficients, wanted = doubles(nodes.coefficients), 0
    for m in range(M):
        wanted += 1 if slot_of(w, m, nodes.used) == nodes.used else 0
        for k in range(m if w.arrays.diagonal == 0 else 0):
            if coefficients[k] == coefficients[m] and slot_of(w, m, nodes.used) == nodes.used:
                wanted -= 1
                break
    if nodes.used + wanted > nodes.capacity:
        forget_matrices(s)
        w.step.scaled = scaled
    for m in range(M):
        slot = slot_of(w, m, nodes.used)
        if slot == nodes.used:
            integers(nodes.slot_nodes)[slot] = m if w.arrays.diagonal != 0 else -1
            doubles(nodes.slot_coefficients)[slot] = coefficients[m]
            nodes.used += 1
        integers(nodes.slots)[m] = slot


@within_compiled
def scale_step(s: Any) -> None:
    """Compute the matrices, coefficients and times of a step."""
    w = sweep_at(s)
    x, a, M = w.step, w.arrays, w.arrays.num_nodes
    if x.scaled != x.dt:
        x.scaled = x.dt
        for i in range(M * M):
            doubles(x.dt_q)[i] = x.dt * doubles(x.q)[i]
            doubles(x.dt_delta)[i] = x.dt * doubles(x.delta)[i]
            doubles(x.dt_inverse)[i] = doubles(x.inverse)[i] / x.dt
        for m in range(M):
            doubles(x.coefficients)[m] = doubles(x.dt_delta)[m * M + m]
        take_slots(s)
    for m in range(M):
        doubles(x.times)[m] = x.dt * doubles(x.places)[m] + x.time
        mn.fill(sweep.row(a.du, m) + 8 * a.n_integrated, a.n - a.n_integrated, 0.0)


@within_compiled
def sweeps(s: Any, number: Any, low: Any) -> None:
    """Sweep as the memory of the step says, from a sweep and a node on, and write there how it ends."""
    x = sweep_at(s).step
    how = x.most, low, x.tolerance, x.only_last != 0, x.to_goal != 0
    x.done, x.reached, x.how, x.value = sweep.sweeps(s, number, *how)


def sweep_step(s: Any, fails: Any) -> Any:
    """Sweep a step from the polynomial of the last one to its tolerance, or forget one that ``fails``."""
    w = sweep_at(s)
    x, numbers = w.step, goal_numbers_at(w.goal.numbers)
    if fails != 0:
        forget_matrices(s)
        numbers.eta = 1.0
        return 0
    scale_step(s)
    if x.to_goal != 0:
        sweep.begin_goal(numbers)
    sweeps(s, 0, 0)
    return 1


for _function in (
    *(sweep.integrate, sweep.put_integrated, sweep.continue_values, sweep.continue_polynomial),
    *(sweep.right_sides, sweep.guide_point, sweep.start_from, sweep.collect, sweep.solve_nodes, sweep.finish),
    *(sweep.place_measured, sweep.residual_norms, sweep.residual),
    *(sweep.begin_goal, sweep.keep_old, sweep.look_at_change, sweep.sweeps),
):
    within_compiled(_function)


_WHOLE, _NOTHING = types.int64, types.void
_OF_A_KIND: dict[Any, tuple[Any, ...]] = {
    _NOTHING(_WHOLE): (
        *(sweep.integrate, sweep.finish, sweep.continue_polynomial, sweep.keep_old),
        *(take_slots, forget_matrices),
    ),
    _NOTHING(_WHOLE, _WHOLE, _WHOLE): (sweep.start_sweep, sweep.residual_norms, sweeps),
    _WHOLE(_WHOLE, _WHOLE, _WHOLE): (sweep.solve_nodes,),
    _WHOLE(_WHOLE, _WHOLE): (sweep.look_at_change, sweep_step),
}
C_FUNCTIONS = compiling.c_functions(
    {each.__name__: (each, kind) for kind, several in _OF_A_KIND.items() for each in several},
    # They are not optimised themselves, so that what they call is not compiled into them a second time.
    _dbg_optnone=True,
)
"""Functions of :mod:`dae_sdc.sweepers.sweep` for a :class:`SweepMemory`."""
