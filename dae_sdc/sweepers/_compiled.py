"""Sweeps as one compiled call, for problems that give kernels. Importing this imports numba."""

from __future__ import annotations

import functools
import sys
from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload, register_jitable

from dae_sdc.dae import iteration, machine, machine_newton as mn
from dae_sdc.dae.counters import COUNTERS
from dae_sdc.dae.machine_newton import INNER, MachineNodes
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.dae.triangular import RowPattern, TriangularFactors, copy_for, row_pattern, triangular_factors
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers.nodes import Stages
from dae_sdc.sweepers.solvers import Place, PythonNodes
from dae_sdc.sweepers.sweep import Continuation, Rows, SweepArrays

_U, _DU, _P, _TAU = mn.U, mn.DU, mn.P, mn.TAU

MOST_ENTRIES = 100
"""Entries of sparse factors a row up to which loops are faster than SuperLU, which works on blocks."""

MOST_KEPT, ROOM = 64, 2_000_000
"""Largest number of matrices kept at a time, and entries they may have beyond one matrix a node."""


@overload(sweep.row, jit_options=INNER)
def _row(rows: Any, m: Any) -> Any:
    def implementation(rows: Any, m: Any) -> Any:
        return rows.place + 8 * rows.stride * m

    return implementation


@overload(sweep.entry, jit_options=INNER)
def _entry(matrix: Any, i: Any, j: Any) -> Any:
    def implementation(matrix: Any, i: Any, j: Any) -> Any:
        return mn.doubles(matrix.place)[matrix.stride * i + j]

    return implementation


@overload(sweep.set_row, jit_options=INNER)
def _set_row(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
    def implementation(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
        target, source = mn.doubles(to), mn.doubles(values)
        for i in range(first, last):
            target[i] = factor * source[i]

    return implementation


@overload(sweep.add_to_row, jit_options=INNER)
def _add_to_row(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
    def implementation(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
        target, source = mn.doubles(to), mn.doubles(values)
        for i in range(first, last):
            target[i] += factor * source[i]

    return implementation


@overload(sweep.combine, jit_options=INNER)
def _combine(matrix: Any, count: Any, rows: Any, to: Any, size: Any, first: Any, last: Any) -> Any:
    def implementation(matrix: Any, count: Any, rows: Any, to: Any, size: Any, first: Any, last: Any) -> Any:
        for m in range(size):
            sweep.set_row(sweep.row(to, m), first, last, sweep.entry(matrix, m, 0), sweep.row(rows, 0))
            for j in range(1, count):
                sweep.add_to_row(sweep.row(to, m), first, last, sweep.entry(matrix, m, j), sweep.row(rows, j))

    return implementation


@overload(sweep.in_order, jit_options=INNER)
def _in_order(numbers: Any) -> Any:
    def implementation(numbers: Any) -> Any:
        return mn.doubles(numbers)

    return implementation


@overload(sweep.begin_sweep, jit_options=INNER)
def _begin_sweep(solver: Any, number: Any) -> Any:
    def implementation(solver: Any, number: Any) -> Any:
        places = mn.integers(solver.places)
        places[mn.GUIDE_KNOWN] = 0
        places[mn.TRUST] = 1 if number > 0 else 0

    return implementation


@overload(sweep.solve_at, jit_options=INNER)
def _solve_at(solver: Any, m: Any) -> Any:
    def implementation(solver: Any, m: Any) -> Any:
        return mn.solve_at_node(solver, m)

    return implementation


@overload(sweep.measure, jit_options=INNER)
def _measure(solver: Any, a: Any, low: Any, high: Any, norms: Any) -> Any:
    def implementation(solver: Any, a: Any, low: Any, high: Any, norms: Any) -> Any:
        places = mn.integers(solver.places)
        value, out = mn.doubles(places[mn.VALUE]), mn.doubles(norms)
        for m in range(low, high):
            u = sweep.row(a.mixed, m) if a.keeps else sweep.row(a.u, m)
            mn.residual_of_node(places, m, u, sweep.row(a.du, m))
            out[m] = mn.largest_of(value, 0, a.n)

    return implementation


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
    sweep.residual_norms,
    sweep.residual,
    sweep.solve_nodes,
    sweep.sweeps,
):
    register_jitable(**INNER)(_function)


class Where(IntEnum):
    """What the entries of the row of integers are that Python hands to compiled sweeps.

    Of an array the address of its first number stands here, and after it the numbers from one row to the
    next. One row instead of tuples, because numba takes a microsecond for each tuple it is given.
    """

    U = 0
    DU = 2
    INTEGRAL = 4
    RIGHT_SIDE = 6
    MIXED = 8
    DT_Q = 10
    DT_DELTA = 12
    TAU = 14
    GUIDE = 16
    MATRIX = 18
    VALUE = 20
    DERIVATIVE = 22
    START = 24  # of one row
    NORMS = 25
    PLACES = 26
    SIZES = 27
    HAS_TAU = 28  # numbers from here on
    NUM_NODES = 29
    N = 30
    N_INTEGRATED = 31
    DIAGONAL = 32
    KEEPS = 33
    FIRST = 34
    WANTED = 35
    NODES = 36
    BEFORE_U = 37  # arrays again: the values before a sweep, where they are not those it changes
    BEFORE_DU = 39
    BEFORE_INTEGRAL = 41
    LENGTH = 43


# numba takes numbers from the module, not from a class.
_INTEGRAL, _RIGHT_SIDE, _MIXED, _DT_Q = (
    Where.INTEGRAL.value,
    Where.RIGHT_SIDE.value,
    Where.MIXED.value,
    Where.DT_Q.value,
)
_DT_DELTA, _TAU_AT, _GUIDE_AT, _MATRIX = (
    Where.DT_DELTA.value,
    Where.TAU.value,
    Where.GUIDE.value,
    Where.MATRIX.value,
)
_VALUE, _DERIVATIVE, _START, _NORMS = (
    Where.VALUE.value,
    Where.DERIVATIVE.value,
    Where.START.value,
    Where.NORMS.value,
)
_PLACES, _SIZES, _HAS_TAU, _NODES = (
    Where.PLACES.value,
    Where.SIZES.value,
    Where.HAS_TAU.value,
    Where.NODES.value,
)
_NUM_NODES, _N, _K, _DIAGONAL = (
    Where.NUM_NODES.value,
    Where.N.value,
    Where.N_INTEGRATED.value,
    Where.DIAGONAL.value,
)
_KEEPS, _FIRST, _WANTED, _BEFORE = (
    Where.KEEPS.value,
    Where.FIRST.value,
    Where.WANTED.value,
    Where.BEFORE_U.value,
)


@register_jitable(**INNER)
def rows_at(where: Any, i: Any) -> Any:
    """The array that stands in two entries of a row of integers."""
    return Rows(where[i], where[i + 1])


@register_jitable(**INNER)
def arrays_at(where: Any) -> Any:
    """What a sweep works on."""
    return SweepArrays(
        rows_at(where, 0),
        rows_at(where, 2),
        where[_START],
        rows_at(where, _INTEGRAL),
        rows_at(where, _RIGHT_SIDE),
        rows_at(where, _MIXED),
        rows_at(where, _DT_Q),
        rows_at(where, _DT_DELTA),
        rows_at(where, _TAU_AT),
        where[_HAS_TAU] != 0,
        where[_NUM_NODES],
        where[_N],
        where[_K],
        where[_DIAGONAL] != 0,
        where[_KEEPS] != 0,
        where[_FIRST],
    )


@register_jitable(**INNER)
def polynomial_at(where: Any) -> Any:
    """Where the values come from."""
    known = rows_at(where, _MATRIX), rows_at(where, _VALUE), rows_at(where, _DERIVATIVE)
    return Continuation(where[_WANTED], where[_NODES], known[0], known[1], known[2])


def _entry(function: Any) -> Any:
    """A compiled function that Python calls.

    It is kept on disk under a name that changes with its sources, and not optimised itself, so that what it
    calls is not compiled into it a second time.
    """
    digest = mn.digest_of(iteration, machine, mn, sweep, sys.modules[__name__])
    function.__qualname__ = f"{function.__name__}-{digest:08x}"
    compiled = njit(cache=True, error_model="numpy", _dbg_optnone=True)(function)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if compiled.signatures:
            return compiled(*arguments)
        with mn.lightly_optimized():
            return compiled(*arguments)

    return call


@_entry
def _sweeps(place: Any, number: Any, most: Any, low: Any, tolerance: Any, only_last: Any, value: Any) -> Any:
    where = mn.integers(place)
    solver = MachineNodes(where[_PLACES], where[_SIZES])
    guide, last = rows_at(where, _GUIDE_AT), polynomial_at(where)
    counted = (number, most, low, tolerance, only_last)
    done, reached, residual = sweep.sweeps(arrays_at(where), solver, last, guide, where[_NORMS], *counted)
    mn.doubles(value)[0] = residual
    return done * where[_NUM_NODES] + done + reached


@_entry
def _solve_nodes(place: Any, low: Any, high: Any) -> Any:
    where = mn.integers(place)
    return sweep.solve_nodes(arrays_at(where), MachineNodes(where[_PLACES], where[_SIZES]), low, high)


# The parts of a sweep that waits for other processes.


@_entry
def _integrate(place: Any) -> Any:
    sweep.integrate(arrays_at(mn.integers(place)))


@_entry
def _finish(place: Any) -> Any:
    sweep.finish(arrays_at(mn.integers(place)))


@_entry
def _continue_polynomial(place: Any) -> Any:
    where = mn.integers(place)
    sweep.continue_polynomial(arrays_at(where), polynomial_at(where))


@_entry
def _start_sweep(place: Any, number: Any, low: Any, high: Any) -> Any:
    where = mn.integers(place)
    solver = MachineNodes(where[_PLACES], where[_SIZES])
    u, du, integral = rows_at(where, _BEFORE), rows_at(where, _BEFORE + 2), rows_at(where, _BEFORE + 4)
    guide = rows_at(where, _GUIDE_AT)
    sweep.start_sweep(arrays_at(where), solver, u, du, integral, guide, number, low, high)


@_entry
def _residual_norms(place: Any, low: Any, high: Any) -> Any:
    where = mn.integers(place)
    solver = MachineNodes(where[_PLACES], where[_SIZES])
    sweep.residual_norms(arrays_at(where), solver, low, high, where[_NORMS])


class CompiledNodes(PythonNodes):
    """Solves at the nodes of one process, and sweeps, in compiled code.

    What goes wrong there is repeated in Python, which has the damped iteration and the words.

    Parameters
    ----------
    problem : ProblemDAE
        The equations, with kernels.
    n_integrated, owned, diagonal
        As for :class:`PythonNodes`.
    num_nodes : int
        M.
    entries : int
        Numbers in a matrix as the kernel of the Jacobian writes it.
    """

    compiled = True

    def __init__(
        self,
        problem: ProblemDAE,
        n_integrated: int,
        owned: range,
        diagonal: bool,
        num_nodes: int,
        entries: int,
    ) -> None:
        super().__init__(problem, n_integrated, owned, diagonal)
        kernels = problem.kernels
        assert kernels is not None
        n = problem.n
        self._capacity = kept = max(num_nodes, min(MOST_KEPT, ROOM // entries))
        self._slots: dict[Any, int] = {}
        self._slots_of: Vector | None = None
        # With a row for each slot; those of the Jacobians have one for the guide besides.
        self._kept: dict[str, Any] = {
            "KEPT": np.full((kept, 4), -1.0),
            "MASSES": np.empty((kept + 1, entries)),
            "STIFFNESSES": np.empty((kept + 1, entries)),
        }
        self._ages: dict[str, Any] = {"AGES": np.zeros(num_nodes), "NEWEST": np.full(num_nodes, -1)}
        self._buffers: dict[str, Any] = {
            "VALUE": np.empty(n),
            "DELTA": np.empty(n),
            "SAVED": np.empty((2, n)),
            "SLOTS": np.zeros(num_nodes, dtype=np.int64),
        }
        places = self._places = np.zeros(len(mn.Places), dtype=np.int64)
        solve_at, factorize_at = mn.solver_functions()
        places[mn.SOLVE_AT], places[mn.RENEW] = solve_at.address, factorize_at.address
        places[mn.RESIDUAL], places[mn.JACOBIAN] = kernels.residual, kernels.jacobian
        places[mn.N], places[mn.N_INTEGRATED], places[mn.ENTRIES] = n, n_integrated, entries
        places[mn.CAPACITY], places[mn.SPLIT], places[mn.GUIDED] = kept, problem.n_diff, diagonal
        self._counts = places[mn.RHS : mn.SOLVES + 1]
        self._counters = [problem.work_counters[name] for name in COUNTERS]
        self._sizes = np.zeros(len(mn.Sizes))
        self._where, self._value = np.zeros(Where.LENGTH, dtype=np.int64), np.empty(1)
        self._where_at, self._value_at = address(self._where), address(self._value)
        self._where[_PLACES], self._where[_SIZES] = address(places), address(self._sizes)
        self._u: Vector | None = None
        self._last_u: Vector | None = None
        self._start: Vector | None = None
        self._last_first = 0
        self._remembered: list[tuple[Any, Any]] = []
        self._p: Vector | None = None
        self._limits: tuple[float, float, int] | None = None
        self._times: Vector | None = None
        self._of_step_size: Vector | None = None
        self._matrix: Vector | None = None
        self._norms: Vector | None = None

    def _tell_places(self) -> None:
        """Let compiled code know where the arrays are."""
        for name, array in (self._kept | self._ages | self._buffers).items():
            self._places[mn.Places[name]] = address(array)

    def __reduce__(self) -> Any:
        # A copy has its arrays elsewhere.
        made = (self.problem, self.system.n_integrated, self.owned, self.diagonal, len(self._ages["AGES"]))
        return type(self), made, (self._slots, self._memory(), self.newtons, int(self._places[mn.SPLIT]))

    def __setstate__(self, state: Any) -> None:
        self._slots, memory, self.newtons, self._places[mn.SPLIT] = state
        for array, values in zip(self._memory(), memory, strict=True):
            array[:] = values

    def prepare(self, place: Place) -> None:
        """See :class:`PythonNodes`."""
        self.place = place
        a, places, where = place.arrays, self._places, self._where
        if a.dt_q is not self._of_step_size:
            self._of_step_size = a.dt_q
            for name in ("right_side", "mixed", "dt_q", "dt_delta"):
                self._tell(Where[name.upper()], getattr(a, name))
            self._tell(Where.GUIDE, place.guide)
            where[_NUM_NODES], where[_N], where[_K] = a.num_nodes, a.n, a.n_integrated
            where[_DIAGONAL], where[_FIRST] = a.diagonal, a.first
            where[1] = where[3] = a.u.strides[0] // 8
            where[_INTEGRAL + 1] = a.n_integrated
        if a.u is not self._u:
            self._last_u, self._last_first = self._u, int(where[0])
            self._u = a.u
            first = address(a.u)
            where[0], where[2] = first, first + 8 * a.n
            where[_INTEGRAL] = address(a.integral)
            places[_U], places[_DU] = first, first + 8 * a.n
        if a.start is not self._start:
            self._start, where[_START] = a.start, address(a.start)
        where[_KEEPS], where[_HAS_TAU] = a.keeps, a.has_tau
        if a.has_tau:
            self._tell(Where.TAU, a.tau)
        p = self.problem.packed_parameters
        if p is not self._p:
            self._p, places[_P] = p, address(p)
        if place.tau[0] is not None:
            self._tau = np.array(place.tau)
            places[mn.TAU] = address(self._tau)
        else:
            places[_TAU] = 0
        if place.coefficients is not self._slots_of:
            self._assign(place.coefficients)
        if place.limits != self._limits or place.times is not self._times:
            self._limits, self._times = place.limits, place.times
            self._sizes[mn.TOLERANCE] = place.limits[0]
            self._sizes[mn.RESIDUAL_TOLERANCE] = place.limits[1]
            places[mn.MAXITER] = place.limits[2]
            # These arrays are the same from step to step.
            places[mn.STRIDE], places[mn.FIRST] = a.u.strides[0] // 8, a.first
            places[mn.TIMES], places[mn.GUIDE] = (
                address(place.times),
                address(place.guide),
            )

    def _assign(self, coefficients: Vector) -> None:
        """Say where the matrices of the nodes are kept: by coefficient, and by node if each has its own."""
        keys = [(m if self.diagonal else -1, c) for m, c in enumerate(coefficients.tolist())]
        if len(self._slots.keys() | set(keys)) > self._capacity:
            self.forget()
        self._buffers["SLOTS"][:] = [self._slots.setdefault(key, len(self._slots)) for key in keys]
        self._places[mn.COEFFICIENTS] = address(coefficients)
        self._slots_of = coefficients

    def forget(self) -> None:
        """Keep no matrices."""
        self._slots.clear()
        self._kept["KEPT"][:] = -1.0
        self._ages["NEWEST"][:] = -1

    def begin_sweep(self, number: int) -> None:
        """See :class:`PythonNodes`."""
        super().begin_sweep(number)
        self._places[mn.GUIDE_KNOWN] = 0
        self._places[mn.TRUST] = number > 0

    def integrate(self) -> None:
        """See :class:`PythonNodes`."""
        _integrate(self._where_at)

    def continue_polynomial(self, last: Continuation) -> None:
        """See :class:`PythonNodes`."""
        self._locate(last)
        _continue_polynomial(self._where_at)

    def start_sweep(self, before: Stages, number: int, low: int, high: int) -> None:
        """See :class:`PythonNodes`."""
        super().begin_sweep(number)
        self._tell(Where.BEFORE_U, before.u)
        self._tell(Where.BEFORE_DU, before.du)
        self._tell(Where.BEFORE_INTEGRAL, before.integral)
        _start_sweep(self._where_at, number, low, high)

    def finish(self) -> None:
        """See :class:`PythonNodes`."""
        _finish(self._where_at)

    def norms(self, low: int, high: int, norms: Vector) -> None:
        """See :class:`PythonNodes`."""
        self._take_norms(norms)
        _residual_norms(self._where_at, low, high)
        self._count()

    def solve(self, low: int, high: int) -> None:
        """See :class:`PythonNodes`."""
        low = max(low, self.place.arrays.first)
        while low < high:
            low = _solve_nodes(self._where_at, low, high)
            if low < high:
                self.solve_at(low)
                low += 1
        self._count()

    def _tell(self, entry: int, array: Any) -> None:
        """Let compiled sweeps know where the rows of an array are."""
        self._where[entry], self._where[entry + 1] = address(array), array.strides[0] // 8

    def _take_norms(self, norms: Vector) -> None:
        if norms is not self._norms:
            self._norms, self._where[_NORMS] = norms, address(norms)

    def _locate(self, last: Continuation) -> None:
        where = self._where
        where[_WANTED] = last.wanted
        if last.wanted != sweep.CONTINUE:
            return
        where[_NODES] = last.nodes
        if last.matrix is not self._matrix:
            self._matrix = last.matrix
            self._tell(Where.MATRIX, last.matrix)
        if last.value is self._last_u:
            where[_VALUE], where[_DERIVATIVE] = self._last_first, self._last_first + 8 * where[_N]
            where[_VALUE + 1] = where[_DERIVATIVE + 1] = where[1]
        else:
            self._tell(Where.VALUE, last.value)
            self._tell(Where.DERIVATIVE, last.derivative)

    def sweeps(
        self,
        last: Continuation,
        norms: Vector,
        number: int,
        most: int,
        tolerance: float,
        only_last: bool,
    ) -> tuple[int, float]:
        """See :class:`PythonNodes`."""
        low, done, M = 0, 0, self.place.arrays.num_nodes
        self._locate(last)
        self._take_norms(norms)
        try:
            while True:
                counted = (number + done, most - done, low, tolerance, only_last)
                more, low = divmod(_sweeps(self._where_at, *counted, self._value_at), M + 1)
                done += more
                if low == M:
                    return done, float(self._value[0])
                super().begin_sweep(number + done)
                self.solve_at(low)
                low += 1
                self._where[_WANTED] = sweep.NOTHING
        finally:
            self._count()

    def _count(self) -> None:
        """Add what was counted to the counters of the problem."""
        for counter, count in zip(self._counters, self._counts.tolist(), strict=True):
            counter.niter += count
        self._counts.fill(0)

    def _memory(self) -> list[Any]:
        """The arrays that hold what is known of matrices, as far as they are in use."""
        used = len(self._slots)
        return [*(array[:used] for array in self._kept.values()), *self._ages.values()]

    def remember(self) -> None:
        """See :class:`PythonNodes`."""
        super().remember()
        self._remembered_slots = self._slots.copy()
        self._remembered = [(array, array.copy()) for array in self._memory()]

    def recall(self) -> None:
        """See :class:`PythonNodes`."""
        super().recall()
        self._kept["KEPT"][len(self._remembered_slots) :] = -1.0
        self._slots, self._slots_of = self._remembered_slots.copy(), None
        for array, values in self._remembered:
            array[:] = values


class DenseNodes(CompiledNodes):
    """With LU factors by LAPACK; see :class:`CompiledNodes`."""

    def __init__(
        self, problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool, num_nodes: int
    ) -> None:
        n = problem.n
        super().__init__(problem, n_integrated, owned, diagonal, num_nodes, n * n)
        self._kept["FACTORS"] = np.empty((self._capacity, n, n))
        self._kept["PIVOTS"] = np.empty((self._capacity, n), dtype=np.int32)
        small = np.array([n, 1, 0], dtype=np.int32)
        self._buffers |= {
            "LAPACK_N": small[0:],
            "LAPACK_ONE": small[1:],
            "LAPACK_INFO": small[2:],
            "LETTER": np.frombuffer(b"N", dtype=np.int8).copy(),
        }
        self._places[mn.GETRF], self._places[mn.GETRS] = mn.lapack("dgetrf"), mn.lapack("dgetrs")
        self._tell_places()

    def magnitude(self, m: int) -> float:
        """See :class:`PythonNodes`."""
        a, slot, n = self.place.arrays, self._buffers["SLOTS"][m], self.problem.n
        if self._kept["KEPT"][slot, iteration.AGE] < 0.0:
            return super().magnitude(m)
        mass, stiffness = (np.abs(self._kept[name][slot]) for name in ("MASSES", "STIFFNESSES"))
        scale = mass.reshape(n, n) @ np.abs(a.du[m]) + stiffness.reshape(n, n) @ np.abs(a.u[m])
        return float(scale.max())


class SparseNodes(CompiledNodes):
    """With LU factors of sparse matrices; see :class:`CompiledNodes`.

    SuperLU chooses the pivots, in Python. From then on compiled code factorises and solves with the same
    order of rows and columns, until a pivot gets too small. Factors that are rather full stay with SuperLU,
    which works on blocks.
    """

    def __init__(
        self, problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool, num_nodes: int
    ) -> None:
        entries = int(problem.sparsity.nnz)
        super().__init__(problem, n_integrated, owned, diagonal, num_nodes, entries)
        kept = self._capacity
        self._kept["TRIANGLES"] = np.zeros((kept, len(TriangularFactors._fields) - 1), dtype=np.int64)
        self._kept["PATTERNS"] = np.zeros((kept, len(RowPattern._fields)), dtype=np.int64)
        self._kept["RENEWED"] = np.zeros(kept, dtype=np.int64)
        self._buffers["WORK"] = np.empty(3 * problem.n)
        self._buffers["ENTRY_DATA"] = np.empty(entries)
        substitute, refactorize_at = mn.sparse_functions()
        self._places[mn.SUBSTITUTE] = substitute.address
        self._places[mn.REFACTORIZE] = refactorize_at.address
        # What stands in a slot, and the factors of Python it was made of.
        self._factors: dict[int, tuple[TriangularFactors, RowPattern, Any]] = {}
        self._tell_places()

    def solve_at(self, m: int) -> bool:
        """See :class:`PythonNodes`."""
        slot = int(self._buffers["SLOTS"][m])
        newton = self.newtons[m]
        if self._kept["RENEWED"][slot]:
            newton.forget(self._places_key(m))
        super().solve_at(m)
        self._places[mn.SPLIT] = self.system.split
        self._take_over(slot, newton.matrix_in_use)
        return True

    def _places_key(self, m: int) -> float:
        """Under which key Python keeps the matrix of node m."""
        return float(self.place.coefficients[m])

    def _take_over(self, slot: int, matrix: Any) -> None:
        """Let compiled code solve with the factors that Python has now."""
        known = self._factors.get(slot)
        if known is None or known[2] is not matrix.factors or self._kept["RENEWED"][slot]:
            if matrix.factors.entries > MOST_ENTRIES * self.problem.n:
                self._kept["KEPT"][slot, iteration.AGE] = -1.0
                return
            made = matrix.linearization.iteration_matrix(1.0, self.problem.n)
            factors = triangular_factors(matrix.factors, made)
            self._put(slot, factors, row_pattern(factors, made), matrix.factors)
        # From now on both see what either finds out of the matrix.
        self._kept["KEPT"][slot] = matrix.numbers
        matrix.numbers = self._kept["KEPT"][slot]
        # Where the nodes are solved in turn; others depend on their own past alone.
        for other in () if self.diagonal else self._slots.values():
            if other not in self._factors:
                factors, pattern, _ = self._factors[slot]
                self._put(other, copy_for(factors), pattern, None)

    def _put(self, slot: int, factors: TriangularFactors, pattern: RowPattern, origin: Any) -> None:
        self._factors[slot] = factors, pattern, origin
        self._kept["TRIANGLES"][slot] = [address(part) for part in factors[:-1]]
        self._kept["PATTERNS"][slot] = [address(part) for part in pattern]
        self._kept["RENEWED"][slot] = 0

    def __reduce__(self) -> Any:
        # Factors of SuperLU cannot be copied; the matrices are made again.
        return super().__reduce__()[:2]

    def forget(self) -> None:
        """See :class:`CompiledNodes`."""
        super().forget()
        self._kept["TRIANGLES"][:] = 0
        self._factors.clear()
        for newton in self.newtons.values():
            newton.forget()

    def remember(self) -> None:
        """See :class:`CompiledNodes`."""
        super().remember()
        self._remembered_factors = self._factors.copy()
        for factors, _, _ in self._factors.values():
            numbers = (factors.lower_data, factors.upper_data, factors.inverse)
            self._remembered += [(array, array.copy()) for array in numbers]

    def recall(self) -> None:
        """See :class:`CompiledNodes`."""
        super().recall()
        self._factors = self._remembered_factors
        for newton in self.newtons.values():
            for matrix in newton.kept_matrices():
                for slot, (_, _, origin) in self._factors.items():
                    if matrix.factors is origin:
                        matrix.numbers = self._kept["KEPT"][slot]


def compiled_nodes(
    problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool, num_nodes: int
) -> CompiledNodes:
    """The compiled solves that suit the Jacobian of a problem."""
    kind = DenseNodes if problem.sparsity is None else SparseNodes
    return kind(problem, n_integrated, owned, diagonal, num_nodes)


def address(array: Any) -> int:
    """Where the numbers of an array begin."""
    place: int = array.__array_interface__["data"][0]
    return place
