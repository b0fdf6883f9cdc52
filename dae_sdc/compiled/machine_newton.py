"""Newton's method at the nodes of a step on memory: the operations of :mod:`dae_sdc.dae.newton`, compiled.

Importing this imports numba. All that it works on is found in one structure, whose address is passed on:
arrays passed one by one would take most of the time of compiling and of calling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from dae_sdc.compiled import triangular
from dae_sdc.compiled.nodes import NodesMemory
from dae_sdc.compiled.triangular import PARTS, ROW_PARTS, RowPattern, TriangularFactors
from dae_sdc.dae import compiling, newton
from dae_sdc.dae.compiling import RecordView, call_at, doubles, integers, short_integers, within_compiled
from dae_sdc.dae.linear import EPS
from dae_sdc.dae.newton import BACKWARD_ERROR, KeptNumbers

RARE = {"_dbg_optnone": True}  # Options of functions that run seldom: they are not optimised.

_view, _kept = RecordView(NodesMemory), RecordView(KeptNumbers)
nodes_at, kept_at = _view.at, _kept.at

# LARGEST_NODE_LOOP, LARGEST_LOOP: largest system of a node, and of stages and pairs at single times, whose
# triangular solves are loops here: LAPACK takes a microsecond to begin.
LARGEST_NODE_LOOP = 32
LARGEST_LOOP = 24


@within_compiled
def fill(to: Any, count: Any, value: Any) -> None:
    """Set so many numbers at an address to a value."""
    numbers = doubles(to)
    for i in range(count):
        numbers[i] = value


@within_compiled
def copy(to: Any, source: Any, count: Any) -> None:
    """Copy so many numbers from one address to another."""
    numbers, others = doubles(to), doubles(source)
    for i in range(count):
        numbers[i] = others[i]


@within_compiled
def largest_of(values: Any, low: Any, high: Any) -> Any:
    """Largest absolute value; NaN if one is."""
    result = 0.0
    for i in range(low, high):
        size = abs(values[i])
        if not size <= result:
            result = size
            if not size == size:
                break
    return result


@within_compiled
def largest_weighted(values: Any, weights: Any, count: Any) -> Any:
    """Largest absolute value in units of weights; NaN if one is."""
    result = 0.0
    for i in range(count):
        size = abs(values[i]) * weights[i]
        if not size <= result:
            result = size
            if not size == size:
                break
    return result


@within_compiled
def lapack_factor(function: Any, small: Any, matrix: Any, pivots: Any) -> Any:
    """LU factors of a matrix stored by columns, in place; False where LAPACK meets a zero pivot."""
    call_at(function, (small, small, matrix, small, pivots, small + 8))
    return short_integers(small)[2] == 0


REGULAR, SINGULAR, HARDLY_REGULAR = range(3)  # Results of :func:`factorize_rows`.


@within_compiled
def factorize_rows(n: Any, function: Any, small: Any, matrix_at: Any, lu_at: Any, pivots: Any) -> Any:
    """LU factors, by LAPACK, of a matrix stored by rows; its pivots may be rounding of their columns."""
    matrix, lu, largest = doubles(matrix_at), doubles(lu_at), largest_of(doubles(matrix_at), 0, n * n)
    if not largest < np.inf:
        return SINGULAR
    for i in range(n):
        for j in range(n):
            lu[j * n + i] = matrix[i * n + j]
    if not lapack_factor(function, small, lu_at, pivots):
        return SINGULAR
    for j in range(n):
        if not abs(lu[j * n + j]) > n * EPS * largest:
            column = 0.0
            for i in range(n):
                column = max(column, abs(matrix[i * n + j]))
            if not abs(lu[j * n + j]) > n * EPS * column:
                return HARDLY_REGULAR
    return REGULAR


@within_compiled
def lapack_solve(function: Any, small: Any, factors: Any, pivots: Any, x: Any) -> Any:
    """Solve with LU factors by LAPACK, in place, from addresses."""
    call_at(function, (small + 12, small, small + 4, factors, small, pivots, x, small, small + 8))


@within_compiled
def loop_solve(n: Any, factors: Any, pivots: Any, x: Any) -> Any:
    """Solve with LU factors, stored by columns, in place."""
    for i in range(n):
        j = pivots[i] - 1
        if j != i:
            kept = x[i]
            x[i] = x[j]
            x[j] = kept
    for j in range(n):
        known = x[j]
        for i in range(j + 1, n):
            x[i] -= factors[j * n + i] * known
    for j in range(n - 1, -1, -1):
        x[j] /= factors[j * n + j]
        known = x[j]
        for i in range(j):
            x[i] -= factors[j * n + i] * known


@within_compiled
def dense_solve(n: Any, most: Any, function: Any, small: Any, factors: Any, pivots: Any, x: Any) -> Any:
    """Solve with real LU factors in place, from addresses: by loops up to ``most`` unknowns."""
    if n <= most:
        loop_solve(n, doubles(factors), short_integers(pivots), doubles(x))
    else:
        lapack_solve(function, small, factors, pivots, x)


@within_compiled
def residual_of_node(nodes: Any, m: Any, u: Any, du: Any) -> Any:
    """F - tau of node m into ``value``."""
    nodes.counts.rhs += 1
    compiling.call_residual(nodes.residual, doubles(nodes.times)[m], u, du, nodes.p, nodes.value)
    if nodes.tau != 0:
        n, value, tau = nodes.n, doubles(nodes.value), doubles(nodes.tau)
        for i in range(n):
            value[i] -= tau[m * n + i]


@within_compiled
def solve_in_slot(nodes: Any, slot: Any, x_at: Any) -> None:
    """Solve with the factors in a slot, in place."""
    if nodes.substitute != 0:
        call_at(nodes.substitute, (nodes.own, slot, x_at))
    else:
        n = nodes.n
        factors, pivots = nodes.factors + 8 * n * n * slot, nodes.pivots + 4 * n * slot
        dense_solve(n, LARGEST_NODE_LOOP, nodes.getrs, nodes.small, factors, pivots, x_at)


@_view.method()
def _correct(nodes: Any) -> Any:
    residual_of_node(nodes, nodes.node, nodes.node_u, nodes.node_du)
    nodes.counts.newton += 1
    nodes.counts.solve += 1
    n, split, delta = nodes.n, nodes.split, doubles(nodes.delta)
    copy(nodes.delta, nodes.value, n)
    if nodes.krylov != 0:
        call_at(nodes.krylov, (nodes.own, nodes.slot, 0))
    else:
        solve_in_slot(nodes, nodes.slot, nodes.delta)
    if nodes.weights != 0:
        return nodes.differential * largest_weighted(delta, doubles(nodes.weights), n)
    size = nodes.differential * largest_of(delta, 0, split)
    if split < n and size < np.inf:
        algebraic = nodes.algebraic * largest_of(delta, split, n)
        if not algebraic <= size:
            size = algebraic
    return size


@_view.method()
def _move(nodes: Any) -> Any:
    n, k, c = nodes.n, nodes.n_integrated, doubles(nodes.coefficients)[nodes.node]
    u, du, delta = doubles(nodes.node_u), doubles(nodes.node_du), doubles(nodes.delta)
    for i in range(k):
        du[i] -= delta[i]
    own = not c > 0.0 and k < n
    factor = 1.0 if own else c
    for i in range(k if own else 0, n):
        u[i] -= factor * delta[i]


@_view.method()
def _largest_residual(nodes: Any) -> Any:
    return largest_of(doubles(nodes.value), 0, nodes.n)


@within_compiled
def put_terms(about: Any, mass_at: Any, stiffness_at: Any, factor: Any, point: Any, out_at: Any) -> None:
    """Write the sizes of the terms of equations at a point, whose dF/du is ``factor`` times a matrix."""
    n, indices, starts_at = about
    rows, starts, out = short_integers(indices), short_integers(starts_at), doubles(out_at)
    u, du, mass, stiffness = doubles(point[0]), doubles(point[1]), doubles(mass_at), doubles(stiffness_at)
    is_sparse = starts_at != 0
    fill(out_at, n, 0.0)
    for j in range(n):
        for k in range(starts[j] if is_sparse else 0, starts[j + 1] if is_sparse else n):
            entry, i = (k, rows[k]) if is_sparse else (n * k + j, k)
            out[i] += abs(mass[entry] * du[j]) + factor * abs(stiffness[entry] * u[j])


@_view.method(**RARE)
def _at_round_off(nodes: Any) -> Any:
    residual_of_node(nodes, nodes.node, nodes.node_u, nodes.node_du)
    n, offset = nodes.n, 8 * nodes.entries * nodes.slot
    value, scale = doubles(nodes.value), doubles(nodes.delta)
    halves, point = (nodes.masses + offset, nodes.stiffnesses + offset), (nodes.node_u, nodes.node_du)
    put_terms((n, nodes.indices, nodes.starts), *halves, 1.0, point, nodes.delta)
    least = nodes.residual_tolerance if nodes.residual_tolerance < np.inf else 0.0
    for i in range(n):
        if not abs(value[i]) <= max(BACKWARD_ERROR * scale[i], least):
            return False
    return True


@_view.method(**RARE)
def _restore(nodes: Any) -> Any:
    copy(nodes.node_u, nodes.saved, nodes.n)
    copy(nodes.node_du, nodes.saved + 8 * nodes.n, nodes.n)


@_view.method()
def _kept_numbers(nodes: Any) -> Any:
    return kept_at(nodes.kept + 8 * 4 * nodes.slot)


@_view.method()
def _newest_age(nodes: Any) -> Any:
    known = nodes.guided != 0 or integers(nodes.newest)[0] >= 0
    return doubles(nodes.ages)[nodes.age_at] if known else -1.0


@within_compiled
def halves_at(
    kernel: Any, time: Any, u: Any, du: Any, c: Any, p: Any, mass_at: Any, at: Any, size: Any
) -> Any:
    """Both halves of a Jacobian at a point, with so many entries, the one by u times c; from addresses."""
    compiling.call_jacobian(kernel, time, u, du, 0.0, p, mass_at)
    compiling.call_jacobian(kernel, time, u, du, c, p, at)
    mass, stiffness = doubles(mass_at), doubles(at)
    for i in range(size):
        stiffness[i] -= mass[i]


@within_compiled
def linearize_at(nodes: Any, time: Any, u: Any, slot: Any) -> None:
    """Both halves of the Jacobian at a point, whose u' lies behind u, into a slot."""
    if nodes.linearize != 0:
        nodes.time = time
        call_at(nodes.linearize, (nodes.own, slot, u))
        return
    nodes.counts.jacobian += 1
    size, offset = nodes.entries, 8 * nodes.entries * slot
    places = nodes.masses + offset, nodes.stiffnesses + offset
    halves_at(nodes.jacobian, time, u, u + 8 * nodes.n, 1.0, nodes.p, *places, size)


@_view.method()
def _linearize_here(nodes: Any) -> Any:
    time = doubles(nodes.times)[nodes.node]
    linearize_at(nodes, time, nodes.node_u, nodes.slot)
    integers(nodes.newest)[nodes.age_at] = nodes.slot
    doubles(nodes.ages)[nodes.age_at] += 1.0


@_view.method()
def _factor(nodes: Any) -> Any:
    n, slot, newest = nodes.n, nodes.slot, integers(nodes.newest)
    source = newest[nodes.age_at]
    if source < 0:
        source = nodes.capacity
        if nodes.guide_known == 0:
            linearize_at(nodes, doubles(nodes.times)[nodes.first], nodes.guide, source)
            nodes.guide_known = 1
        newest[nodes.age_at] = source
    mass, stiffness, size = doubles(nodes.masses), doubles(nodes.stiffnesses), nodes.entries
    to = size * slot
    if source != slot:
        for half in (nodes.masses, nodes.stiffnesses):
            copy(half + 8 * to, half + 8 * size * source, size)
    nodes.counts.factorization += 1
    c, data, is_sparse = doubles(nodes.coefficients)[nodes.node], doubles(nodes.data), nodes.starts != 0
    starts = short_integers(nodes.starts)
    for j in range(n):
        alone = not c > 0.0 and j >= nodes.n_integrated  # dF/du is, in columns of unknowns with c = 0
        for k in range(starts[j] if is_sparse else 0, starts[j + 1] if is_sparse else n):
            place = k if is_sparse else k * n + j
            here = stiffness[to + place]
            data[place] = here if alone else c * here + mass[to + place]
            if j >= nodes.split and mass[to + place] != 0.0:
                nodes.split = n
    if nodes.refactorize != 0:
        known = call_at(nodes.refactorize, (nodes.own, slot, 0)) != 0
        return known or call_at(nodes.repivot, (nodes.own, slot, 0)) != 0
    # Pivots that are weak in their columns are left to Python, which looks more closely.
    factors, pivots = nodes.factors + 8 * to, nodes.pivots + 4 * n * slot
    return factorize_rows(n, nodes.getrf, nodes.small, nodes.data, factors, pivots) == REGULAR


@_view.method()
def _renew(nodes: Any, which: Any) -> Any:
    if nodes.factorize_at == 0:
        return False
    return call_at(nodes.factorize_at, (nodes.own, which)) != 0


@within_compiled
def begin_solve(nodes: Any, m: Any) -> Any:
    """Point the memory at node m, save its iterate, and measure corrections by it."""
    n, split, offset = nodes.n, nodes.split, 8 * nodes.stride * m
    nodes.node, nodes.node_u, nodes.node_du = m, nodes.u + offset, nodes.du + offset
    nodes.slot = integers(nodes.slots)[m]
    u, du = doubles(nodes.node_u), doubles(nodes.node_du)
    copy(nodes.saved, nodes.node_u, n)
    copy(nodes.saved + 8 * n, nodes.node_du, n)
    nodes.differential = 1.0 / (1.0 + largest_of(du, 0, split))
    c = doubles(nodes.coefficients)[m]
    if nodes.weights != 0:
        nodes.differential = nodes.unit * (c if c > 0.0 else 1.0)
    nodes.algebraic = (c if c > 0.0 else 1.0) / (1.0 + largest_of(u, split, n))
    # One age serves all nodes where no guide begins every solve.
    nodes.age_at = 0
    if nodes.guided != 0:
        nodes.age_at = m
        integers(nodes.newest)[m] = -1
        doubles(nodes.ages)[m] += 1.0


for _function in (newton.factorize_anew, newton.iterate, triangular.subtract_supernode):
    within_compiled(_function)


# Types of C functions of an integer that take the address of their memory first.
AT, _SHORT = types.int64(types.int64, types.int64), types.CPointer(types.int32)


def _solve_at(address: Any, m: Any) -> Any:
    """Solve at node m from the iterate in place; 0, with the iterate as it was, if that fails."""
    nodes = nodes_at(address)
    begin_solve(nodes, m)
    goals = (nodes.tolerance, nodes.residual_tolerance, nodes.forcing)
    how = newton.iterate(nodes, nodes.trust != 0, *goals, nodes.maxiter)
    if how != newton.SOLVED:
        nodes.restore()
        return 0
    return 1


def _factorize_at(address: Any, which: Any) -> Any:
    return 1 if newton.factorize_anew(nodes_at(address), which) else 0


refactorized, solved = within_compiled(triangular.refactorize), within_compiled(triangular.solve_triangular)


def sparse_work(view: Any) -> tuple[Any, Any]:
    """Compiled functions that factorise and solve in place, from addresses; ``view`` is that of numbers."""

    @within_compiled
    def factors(parts: Any, n: Any) -> Any:
        lower = view(parts[0]), short_integers(parts[1]), short_integers(parts[2])
        upper = view(parts[3]), short_integers(parts[4]), short_integers(parts[5])
        order = short_integers(parts[7]), short_integers(parts[8])
        return TriangularFactors(*lower, *upper, view(parts[6]), *order, doubles(parts[9]), n)

    @within_compiled
    def refactor(parts_at: Any, pattern_at: Any, n: Any, data_at: Any, work_at: Any) -> Any:
        places = integers(pattern_at)
        source, position = short_integers(places[0]), short_integers(places[1])
        pattern = RowPattern(source, position, short_integers(places[2]), short_integers(places[3]))
        made = factors(integers(parts_at), n)
        return refactorized(pattern, made, view(data_at), view(work_at)) == triangular.REFACTORIZED

    @within_compiled
    def substitute(parts_at: Any, n: Any, x_at: Any, work_at: Any) -> None:
        solved(factors(integers(parts_at), n), view(x_at), view(x_at), view(work_at))

    return refactor, substitute


refactor_real, substitute_real = sparse_work(doubles)


def _substitute(address: Any, slot: Any, x_at: Any) -> Any:
    nodes = nodes_at(address)
    parts = nodes.triangles + 8 * PARTS * slot
    if integers(parts)[0] == 0:
        return call_at(nodes.solve_outside, (address, slot, x_at))
    substitute_real(parts, nodes.n, x_at, nodes.work)
    return 1


def _refactorize_at(address: Any, slot: Any, _: Any) -> Any:
    nodes = nodes_at(address)
    parts, pattern = nodes.triangles + 8 * PARTS * slot, nodes.patterns + 8 * ROW_PARTS * slot
    if integers(parts)[0] == 0 or not refactor_real(parts, pattern, nodes.n, nodes.data, nodes.work):
        return 0
    integers(nodes.lasted)[slot] += 1
    return 1


C_FUNCTIONS = compiling.c_functions(
    {
        "fill_in": (triangular.fill_in, types.int64(*(_SHORT,) * 8, *(types.int64,) * 2)),
        "solve": (_solve_at, AT),
        "factorize": (_factorize_at, AT),  # by address: it would be optimised again within each caller
        "substitute": (_substitute, types.int64(*(types.int64,) * 3)),
        "refactorize": (_refactorize_at, types.int64(*(types.int64,) * 3)),
    }
)
"""Solves at a node, new factors, the same with sparse ones, and their pattern."""
