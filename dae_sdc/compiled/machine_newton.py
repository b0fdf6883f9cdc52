"""Newton's method at the nodes of a step on memory: the operations of :mod:`dae_sdc.dae.iteration`, compiled.

Importing this imports numba. The places of everything are kept in one row of integers: arrays passed one by
one would take most of the time of compiling and of calling.
"""

from __future__ import annotations

import inspect
import sys
import zlib
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic, overload, register_jitable

from dae_sdc.compiled import triangular
from dae_sdc.compiled.triangular import RowPattern, TriangularFactors, refactorize, solve_triangular
from dae_sdc.dae import iteration, machine
from dae_sdc.dae.compiling import c_function, lightly_optimized
from dae_sdc.dae.iteration import BACKWARD_ERROR
from dae_sdc.dae.linear import EPS
from dae_sdc.dae.machine import (
    call_jacobian,
    call_residual,
    doubles as doubles,
    integers as integers,
    pointer_to as pointer_to,
    short_integers as short_integers,
)
from dae_sdc.sharing import once

INNER = {
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
    "no_rewrites": True,
    "_nrt": False,
    "error_model": "numpy",
}
"""Options of functions that only compiled code calls: without what Python would need, they compile faster."""

RARE = {**INNER, "_dbg_optnone": True}
"""Options of functions that only compiled code calls and that run seldom: they are not optimised either."""


class Places(IntEnum):
    """What the entries of :class:`MachineNodes`' ``places`` are; addresses unless said otherwise.

    Arrays are of doubles, row after row, S matrices can be kept, M is the number of nodes.
    """

    RESIDUAL = 0  # kernels, and functions of LAPACK
    JACOBIAN = 1
    GETRF = 2
    GETRS = 3
    P = 4  # parameters of the kernels
    U = 5  # the iterate: first node, the others follow STRIDE doubles apart
    DU = 6
    STRIDE = 7  # a number
    TIMES = 8  # of the nodes, (M,)
    COEFFICIENTS = 9  # c of the nodes, (M,)
    SLOTS = 10  # which of the kept matrices belongs to a node, integers, (M,)
    FACTORS = 11  # LU factors, column by column, (S, n, n)
    PIVOTS = 12  # row exchanges, integers of 32 bits, (S, n)
    MASSES = 13  # dF/du' of which the matrices are made, (S + 1, n, n); the last is the guide's
    STIFFNESSES = 14  # dF/du of which the matrices are made, (S + 1, n, n)
    KEPT = 15  # see dae_sdc.dae.iteration.AGE, (S, 4)
    AGES = 16  # number of the newest linearisation at every node, (M,); without a guide the first serves all
    NEWEST = 17  # in which slot that is, -1 for none, integers, (M,)
    VALUE = 18  # F, (n,)
    DELTA = 19  # the correction, (n,)
    SAVED = 20  # the iterate at which a solve began, (2, n)
    GUIDE = 21  # where the common Jacobian is evaluated, (2, n)
    TAU = 22  # right-hand sides of F, (M, n); 0 without
    LAPACK_N = 23  # what LAPACK reads and writes: n, 1, its answer, and the letter N
    LAPACK_ONE = 24
    LAPACK_INFO = 25
    LETTER = 26
    N = 27  # numbers from here on: of unknowns, of integrated ones, first node, S
    N_INTEGRATED = 28
    FIRST = 29
    CAPACITY = 30
    SPLIT = 31  # of leading unknowns whose u' is measured
    GUIDED = 32  # whether a common Jacobian guides the nodes, and whether it is known in this sweep
    GUIDE_KNOWN = 33
    TRUST = 34  # whether contractions of earlier solves are believed
    MAXITER = 35
    RHS = 36  # work counters, in the order of dae_sdc.dae.counters.COUNTERS
    NEWTON = 37
    JACOBIANS = 38
    FACTORIZATIONS = 39
    SOLVES = 40
    SOLVE_AT = 41  # addresses of the two functions of this module
    RENEW = 42  # 0 where compiled code cannot factorise
    SUBSTITUTE = 43  # how to solve with sparse factors; 0 with dense ones
    TRIANGLES = 44  # addresses of the parts of the sparse factors, integers, (S, 10); the first 0 without
    WORK = 45  # (3 n,)
    NODE_U = 46  # of the node that is solved for: its rows, slot, place of its age, number
    NODE_DU = 47
    SLOT = 48
    AGE_AT = 49
    NODE = 50
    ENTRIES = 51  # numbers in a matrix
    REFACTORIZE = 52  # how to factorise a sparse matrix
    PATTERNS = 53  # addresses of the parts of the row patterns, integers, (S, 3)
    ENTRY_DATA = 54  # a sparse matrix, (ENTRIES,)
    RENEWED = 55  # whether the factors are newer than those of Python, integers, (S,)
    WEIGHTS = 56  # of the unknowns in the size of a correction, (n,); 0 for those of two groups


class Sizes(IntEnum):
    """What the entries of :class:`MachineNodes`' ``sizes`` are."""

    TOLERANCE = 0  # of dae_sdc.dae.iteration.iterate
    RESIDUAL_TOLERANCE = 1
    DIFFERENTIAL = 2  # weights in the size of a correction
    ALGEBRAIC = 3
    FORCING = 4
    UNIT = 5  # of the weights of the unknowns


# numba takes numbers from the module, not from a class.
RESIDUAL, JACOBIAN, GETRF, GETRS, P, U, DU, STRIDE, TIMES, COEFFICIENTS, SLOTS, *_REST = map(int, Places)
FACTORS, PIVOTS, MASSES, STIFFNESSES, KEPT, AGES, NEWEST, VALUE, DELTA, SAVED, GUIDE, TAU, *_REST = _REST
LAPACK_N, LAPACK_ONE, LAPACK_INFO, LETTER, N, N_INTEGRATED, FIRST, CAPACITY, SPLIT, GUIDED, *_REST = _REST
GUIDE_KNOWN, TRUST, MAXITER, RHS, NEWTON, JACOBIANS, FACTORIZATIONS, SOLVES, SOLVE_AT, *_REST = _REST
RENEW, SUBSTITUTE, TRIANGLES, WORK, NODE_U, NODE_DU, SLOT, AGE_AT, NODE, ENTRIES, *_REST = _REST
REFACTORIZE, PATTERNS, ENTRY_DATA, RENEWED, WEIGHTS = _REST
TOLERANCE, RESIDUAL_TOLERANCE, DIFFERENTIAL, ALGEBRAIC, FORCING, UNIT = map(int, Sizes)

LARGEST_LOOPED_SOLVE = 32
"""Largest system whose triangular solves are loops here: LAPACK takes a microsecond to begin."""


class MachineNodes(NamedTuple):
    """Newton's method at the nodes of a step as two rows of numbers, of which the addresses are passed on.

    Arrays passed one by one would take most of the time of compiling and of calling.

    Parameters
    ----------
    places : int
        Address of the integers of :class:`Places`.
    sizes : int
        Address of the doubles of :class:`Sizes`.
    """

    places: int
    sizes: int


def lapack(name: str) -> int:
    """Address of a function of the LAPACK that SciPy uses."""
    address: int = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return address


def _pointers(count: int) -> Any:
    """An intrinsic that calls the function at an address with ``count`` addresses."""

    @intrinsic
    def call(context: Any, address: Any, places: Any) -> Any:
        signature = types.void(types.int64, types.UniTuple(types.int64, count))

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [pointer] * count)
            function = builder.inttoptr(arguments[0], kind.as_pointer())
            places = [builder.extract_value(arguments[1], i) for i in range(count)]
            builder.call(function, [builder.inttoptr(place, pointer) for place in places])
            return context.get_dummy_value()

        return signature, generate

    return call


_call_with_6, _call_with_9 = _pointers(6), _pointers(9)


def _answers(count: int) -> Any:
    """An intrinsic that calls the function at an address with ``count`` integers, for another."""

    @intrinsic
    def call(context: Any, address: Any, numbers: Any) -> Any:
        signature = types.int64(types.int64, types.UniTuple(types.int64, count))

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            integer = ir.IntType(64)
            function = builder.inttoptr(
                arguments[0], ir.FunctionType(integer, [integer] * count).as_pointer()
            )
            return builder.call(function, [builder.extract_value(arguments[1], i) for i in range(count)])

        return signature, generate

    return call


_answer_of_3 = _answers(3)


@register_jitable(**INNER)
def lu_factor(places: Any, matrix: Any, pivots: Any) -> Any:
    """LU factors of a matrix stored by columns, in place; False where LAPACK meets a zero pivot."""
    n = places[LAPACK_N]
    _call_with_6(places[GETRF], (n, n, matrix, n, pivots, places[LAPACK_INFO]))
    return short_integers(places[LAPACK_INFO])[0] == 0


@register_jitable(**INNER)
def lu_solve(places: Any, factors_at: Any, pivots_at: Any, x_at: Any) -> Any:
    """Solve with the factors, in place."""
    n = places[N]
    if n > LARGEST_LOOPED_SOLVE:
        size, one, info = places[LAPACK_N], places[LAPACK_ONE], places[LAPACK_INFO]
        _call_with_9(
            places[GETRS], (places[LETTER], size, one, factors_at, size, pivots_at, x_at, size, info)
        )
        return
    factors, pivots, x = doubles(factors_at), short_integers(pivots_at), doubles(x_at)
    for i in range(n):
        j = pivots[i] - 1
        if j != i:
            kept = x[i]
            x[i] = x[j]
            x[j] = kept
    for j in range(n):
        for i in range(j + 1, n):
            x[i] -= factors[j * n + i] * x[j]
    for j in range(n - 1, -1, -1):
        x[j] /= factors[j * n + j]
        for i in range(j):
            x[i] -= factors[j * n + i] * x[j]


@register_jitable(**INNER)
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


@register_jitable(**INNER)
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


@register_jitable(**INNER)
def residual_of_node(places: Any, m: Any, u_at: Any, du_at: Any) -> Any:
    """F - tau of node m into ``VALUE``."""
    places[RHS] += 1
    time = doubles(places[TIMES])[m]
    call_residual(places[RESIDUAL], time, u_at, du_at, places[P], places[VALUE])
    if places[TAU] != 0:
        n = places[N]
        value, tau = doubles(places[VALUE]), doubles(places[TAU])
        for i in range(n):
            value[i] -= tau[m * n + i]


@overload(iteration.correct, jit_options=INNER)
def _correct(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        places, sizes = integers(work.places), doubles(work.sizes)
        residual_of_node(places, places[NODE], places[NODE_U], places[NODE_DU])
        places[NEWTON] += 1
        places[SOLVES] += 1
        n, slot, split = places[N], places[SLOT], places[SPLIT]
        delta, value = doubles(places[DELTA]), doubles(places[VALUE])
        for i in range(n):
            delta[i] = value[i]
        if places[SUBSTITUTE] != 0:
            _answer_of_3(places[SUBSTITUTE], (work.places, work.sizes, slot))
        else:
            factors, pivots = places[FACTORS] + 8 * n * n * slot, places[PIVOTS] + 4 * n * slot
            lu_solve(places, factors, pivots, places[DELTA])
        if places[WEIGHTS] != 0:
            return sizes[DIFFERENTIAL] * largest_weighted(delta, doubles(places[WEIGHTS]), n)
        size = sizes[DIFFERENTIAL] * largest_of(delta, 0, split)
        if split < n and size < np.inf:
            algebraic = sizes[ALGEBRAIC] * largest_of(delta, split, n)
            if not algebraic <= size:
                size = algebraic
        return size

    return implementation


@overload(iteration.move, jit_options=INNER)
def _move(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        places = integers(work.places)
        n, k, c = places[N], places[N_INTEGRATED], doubles(places[COEFFICIENTS])[places[NODE]]
        u, du, delta = doubles(places[NODE_U]), doubles(places[NODE_DU]), doubles(places[DELTA])
        for i in range(k):
            du[i] -= delta[i]
        own = not c > 0.0 and k < n
        factor = 1.0 if own else c
        for i in range(k if own else 0, n):
            u[i] -= factor * delta[i]

    return implementation


@overload(iteration.largest_residual, jit_options=INNER)
def _largest_residual(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        return largest_of(doubles(integers(work.places)[VALUE]), 0, integers(work.places)[N])

    return implementation


@overload(iteration.at_round_off, jit_options=RARE)
def _at_round_off(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        places = integers(work.places)
        if places[SUBSTITUTE] != 0:  # left to Python, which then repeats the solve
            return False
        residual_of_node(places, places[NODE], places[NODE_U], places[NODE_DU])
        n, value, u, du = places[N], doubles(places[VALUE]), doubles(places[NODE_U]), doubles(places[NODE_DU])
        mass = doubles(places[MASSES] + 8 * n * n * places[SLOT])
        stiffness = doubles(places[STIFFNESSES] + 8 * n * n * places[SLOT])
        for i in range(n):
            scale = 0.0
            for j in range(n):
                scale += abs(mass[i * n + j] * du[j]) + abs(stiffness[i * n + j] * u[j])
            if not abs(value[i]) <= BACKWARD_ERROR * scale:
                return False
        return True

    return implementation


@overload(iteration.restore, jit_options=RARE)
def _restore(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        places = integers(work.places)
        n, saved = places[N], doubles(places[SAVED])
        u, du = doubles(places[NODE_U]), doubles(places[NODE_DU])
        for i in range(n):
            u[i] = saved[i]
            du[i] = saved[n + i]

    return implementation


@overload(iteration.kept_numbers, jit_options=INNER)
def _kept_numbers(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        places = integers(work.places)
        return doubles(places[KEPT] + 8 * 4 * places[SLOT])

    return implementation


@overload(iteration.newest_age, jit_options=INNER)
def _newest_age(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        places = integers(work.places)
        known = places[GUIDED] != 0 or integers(places[NEWEST])[0] >= 0
        return doubles(places[AGES])[places[AGE_AT]] if known else -1.0

    return implementation


@register_jitable(**INNER)
def linearize_at(places: Any, time: Any, u_at: Any, du_at: Any, slot: Any) -> Any:
    """Both halves of the Jacobian at a point into a slot."""
    places[JACOBIANS] += 1
    size = places[ENTRIES]
    mass_at, stiffness_at = places[MASSES] + 8 * size * slot, places[STIFFNESSES] + 8 * size * slot
    for c in range(2):
        out = mass_at if c == 0 else stiffness_at
        call_jacobian(places[JACOBIAN], time, u_at, du_at, float(c), places[P], out)
    mass, stiffness = doubles(mass_at), doubles(stiffness_at)
    for i in range(size):
        stiffness[i] -= mass[i]


@overload(iteration.linearize_here, jit_options=INNER)
def _linearize_here(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        places = integers(work.places)
        time = doubles(places[TIMES])[places[NODE]]
        linearize_at(places, time, places[NODE_U], places[NODE_DU], places[SLOT])
        integers(places[NEWEST])[places[AGE_AT]] = places[SLOT]
        doubles(places[AGES])[places[AGE_AT]] += 1.0

    return implementation


@overload(iteration.factor, jit_options=INNER)
def _factor(work: Any) -> Any:
    def implementation(work: Any) -> Any:
        places = integers(work.places)
        n, slot, newest = places[N], places[SLOT], integers(places[NEWEST])
        source = newest[places[AGE_AT]]
        if source < 0:
            source = places[CAPACITY]
            if places[GUIDE_KNOWN] == 0:
                time, guide = doubles(places[TIMES])[places[FIRST]], places[GUIDE]
                linearize_at(places, time, guide, guide + 8 * n, source)
                places[GUIDE_KNOWN] = 1
            newest[places[AGE_AT]] = source
        mass, stiffness, size = doubles(places[MASSES]), doubles(places[STIFFNESSES]), places[ENTRIES]
        to = size * slot
        if source != slot:
            for i in range(size):
                mass[to + i] = mass[size * source + i]
                stiffness[to + i] = stiffness[size * source + i]
        if places[REFACTORIZE] != 0:
            return _answer_of_3(places[REFACTORIZE], (work.places, work.sizes, slot)) != 0
        factors_at, c = places[FACTORS] + 8 * to, doubles(places[COEFFICIENTS])[places[NODE]]
        factors = doubles(factors_at)
        places[FACTORIZATIONS] += 1
        biggest = 0.0
        for i in range(n):
            for j in range(n):
                here = to + i * n + j
                entry = c * stiffness[here]
                if not c > 0.0 and j >= places[N_INTEGRATED]:
                    entry = stiffness[here]
                else:
                    entry += mass[here]
                if not abs(entry) <= biggest:
                    biggest = abs(entry)
                    if not biggest < np.inf:
                        return False
                factors[j * n + i] = entry
                if j >= places[SPLIT] and mass[here] != 0.0:
                    places[SPLIT] = n
        if not lu_factor(places, factors_at, places[PIVOTS] + 4 * n * slot):
            return False
        # What is doubtful here is looked at more closely in Python.
        for j in range(n):
            if not abs(factors[j * n + j]) > n * EPS * biggest:
                return False
        return True

    return implementation


@register_jitable(**INNER)
def begin_solve(work: Any, m: Any) -> Any:
    """Look at the iterate at which the solve at node m begins."""
    places, sizes = integers(work.places), doubles(work.sizes)
    n, split, saved, offset = places[N], places[SPLIT], doubles(places[SAVED]), 8 * places[STRIDE] * m
    places[NODE], places[NODE_U], places[NODE_DU] = m, places[U] + offset, places[DU] + offset
    places[SLOT] = integers(places[SLOTS])[m]
    u, du = doubles(places[NODE_U]), doubles(places[NODE_DU])
    for i in range(n):
        saved[i] = u[i]
        saved[n + i] = du[i]
    sizes[DIFFERENTIAL] = 1.0 / (1.0 + largest_of(du, 0, split))
    c = doubles(places[COEFFICIENTS])[m]
    if places[WEIGHTS] != 0:
        sizes[DIFFERENTIAL] = sizes[UNIT] * (c if c > 0.0 else 1.0)
    sizes[ALGEBRAIC] = (c if c > 0.0 else 1.0) / (1.0 + largest_of(u, split, n))
    # One age serves all nodes where no guide begins every solve.
    places[AGE_AT] = 0
    if places[GUIDED] != 0:
        places[AGE_AT] = m
        integers(places[NEWEST])[m] = -1
        doubles(places[AGES])[m] += 1.0


for _function in (iteration.factorize_anew, iteration.iterate, solve_triangular, refactorize):
    register_jitable(**INNER)(_function)


@overload(iteration.renew, jit_options=INNER)
def _renew(work: Any, which: Any) -> Any:
    def implementation(work: Any, which: Any) -> Any:
        if integers(work.places)[RENEW] == 0:
            return False
        return _answer_of_3(integers(work.places)[RENEW], (work.places, work.sizes, which)) != 0

    return implementation


@register_jitable(**INNER)
def solve_at_node(solver: Any, m: Any) -> Any:
    """Solve at node m from the iterate in place; False, with the iterate as it was, if that fails."""
    return _answer_of_3(integers(solver.places)[SOLVE_AT], (solver.places, solver.sizes, m)) != 0


def digest_of(*modules: Any) -> int:
    """A number that changes with the files of the modules.

    numba looks at one file to see whether what it keeps on disk is still right. A function that refers to
    this number is kept under it.
    """
    return zlib.crc32(b"".join(Path(inspect.getfile(module)).read_bytes() for module in modules))


AT = types.int64(types.int64, types.int64, types.int64)
"""Types of the C functions that compiled solvers call by address."""


def _compile_solver(digest: int) -> tuple[Any, Any]:
    """C functions of the two parts of a solve.

    The compiler optimises a function again wherever it is called; calls by address keep these apart.
    """

    def solve_at(places: Any, sizes: Any, m: Any) -> Any:
        if digest < 0:
            return 0
        work = MachineNodes(places, sizes)
        begin_solve(work, m)
        row, limits = integers(places), doubles(sizes)
        goals = (limits[TOLERANCE], limits[RESIDUAL_TOLERANCE], limits[FORCING])
        how = iteration.iterate(work, row[TRUST] != 0, *goals, row[MAXITER])
        if how != iteration.SOLVED:
            iteration.restore(work)
            return 0
        return 1

    def factorize_at(places: Any, sizes: Any, which: Any) -> Any:
        if digest < 0:
            return 0
        return 1 if iteration.factorize_anew(MachineNodes(places, sizes), which) else 0

    return c_function(solve_at, AT), c_function(factorize_at, AT)


@once
def solver_functions() -> tuple[Any, Any]:
    """What stands at ``SOLVE_AT`` and ``RENEW``, compiled when it is first asked for."""
    with lightly_optimized():
        return _compile_solver(digest_of(iteration, machine, sys.modules[__name__]))


@register_jitable(**INNER)
def sparse_factors(places: Any, slot: Any) -> Any:
    """The sparse factors in a slot."""
    parts = integers(places[TRIANGLES] + 8 * 10 * slot)
    return TriangularFactors(
        doubles(parts[0]),
        short_integers(parts[1]),
        short_integers(parts[2]),
        doubles(parts[3]),
        short_integers(parts[4]),
        short_integers(parts[5]),
        doubles(parts[6]),
        short_integers(parts[7]),
        short_integers(parts[8]),
        doubles(parts[9]),
        places[N],
    )


def _compile_sparse(digest: int) -> tuple[Any, Any]:
    """C functions that solve with sparse factors, in place of ``DELTA``, and that make them."""

    def substitute(places: Any, sizes: Any, slot: Any) -> Any:
        if digest < 0:
            return 0
        row = integers(places)
        delta = doubles(row[DELTA])
        solve_triangular(sparse_factors(row, slot), delta, delta, doubles(row[WORK]))
        return 1

    def refactorize_at(places: Any, sizes: Any, slot: Any) -> Any:
        if digest < 0:
            return 0
        row = integers(places)
        size, c = row[ENTRIES], doubles(row[COEFFICIENTS])[row[NODE]]
        if integers(row[TRIANGLES])[10 * slot] == 0 or (not c > 0.0 and row[N_INTEGRATED] < row[N]):
            return 0
        mass, stiffness = doubles(row[MASSES] + 8 * size * slot), doubles(row[STIFFNESSES] + 8 * size * slot)
        data = doubles(row[ENTRY_DATA])
        for i in range(size):
            data[i] = mass[i] + c * stiffness[i]
        parts = integers(row[PATTERNS] + 8 * 3 * slot)
        pattern = RowPattern(short_integers(parts[0]), short_integers(parts[1]), short_integers(parts[2]))
        row[FACTORIZATIONS] += 1
        integers(row[RENEWED])[slot] = 1
        return 1 if refactorize(pattern, sparse_factors(row, slot), data, doubles(row[WORK])) == 0 else 0

    return c_function(substitute, AT), c_function(refactorize_at, AT)


@once
def sparse_functions() -> tuple[Any, Any]:
    """What stands at ``SUBSTITUTE`` and ``REFACTORIZE``, compiled when it is first asked for."""
    return _compile_sparse(digest_of(triangular, machine, sys.modules[__name__]))
