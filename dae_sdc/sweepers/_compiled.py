"""Solves and sweeps in compiled code, for problems that give kernels. Importing this imports numba."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.linalg.lapack import dgetrs

from dae_sdc.compiled import machine_newton as mn
from dae_sdc.compiled.triangular import (
    LARGEST_ROW_FILL,
    RowPattern,
    TriangularFactors,
    copy_for,
    row_pattern,
    triangular_factors,
)
from dae_sdc.dae import iteration
from dae_sdc.dae.counters import COUNTERS
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.sweepers import _machine as compiled, sweep
from dae_sdc.sweepers.nodes import Stages
from dae_sdc.sweepers.solvers import Place, PythonNodes
from dae_sdc.sweepers.step_error import Operators
from dae_sdc.sweepers.sweep import Continuation, Goal


@dataclass(frozen=True)
class StorageSettings:
    """How many matrices are kept at a time; one a node always is.

    Parameters
    ----------
    most_matrices : int
        Largest number of matrices.
    most_entries : int
        Largest number of entries of all.
    """

    most_matrices: int = 64
    most_entries: int = 2_000_000


SETTINGS = StorageSettings()


class CompiledNodes(PythonNodes):
    """Solves at the nodes of one process, and sweeps, in compiled code.

    A solve that fails here is repeated by :class:`PythonNodes`, which damps the iteration and composes the
    error message.

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
        kernels = self._kernels = problem.kernels  # they live as long as their addresses are used
        assert kernels is not None
        n = problem.n
        self._capacity = kept = max(num_nodes, min(SETTINGS.most_matrices, SETTINGS.most_entries // entries))
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
        self._where, self._value = np.zeros(compiled.LENGTH, dtype=np.int64), np.empty(1)
        self._where_at, self._value_at = address(self._where), address(self._value)
        self._where[compiled.PLACES], self._where[compiled.SIZES] = address(places), address(self._sizes)
        self._u: Vector | None = None
        self._last_u: Vector | None = None
        self._start: Vector | None = None
        self._last_first = 0
        self._remembered: list[tuple[Any, Any]] = []
        self._p: Vector | None = None
        self._limits: tuple[float, float, int, float] | None = None
        self._times: Vector | None = None
        self._of_step_size: Vector | None = None
        self._matrix: Vector | None = None
        self._norms: Vector | None = None
        self._goal: Goal | None = None

    def _tell_places(self) -> None:
        """Write the addresses of the arrays into the row that compiled code reads."""
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

    def measure_by(self, weights: Vector, unit: float) -> None:
        """See :class:`PythonNodes`."""
        super().measure_by(weights, unit)
        self._weights, self._places[mn.WEIGHTS], self._sizes[mn.UNIT] = weights, address(weights), unit

    def prepare(self, place: Place) -> None:
        """See :class:`PythonNodes`."""
        self.place = place
        a, places, where = place.arrays, self._places, self._where
        if a.dt_q is not self._of_step_size:
            self._of_step_size = a.dt_q
            self._tell(compiled.RIGHT_SIDE, a.right_side)
            self._tell(compiled.MIXED, a.mixed)
            self._tell(compiled.DT_Q, a.dt_q)
            self._tell(compiled.DT_DELTA, a.dt_delta)
            self._tell(compiled.GUIDE, place.guide)
            where[compiled.NUM_NODES] = a.num_nodes
            where[compiled.N], where[compiled.N_INTEGRATED] = a.n, a.n_integrated
            where[compiled.DIAGONAL], where[compiled.FIRST] = a.diagonal, a.first
            where[compiled.U + 1] = where[compiled.DU + 1] = a.u.strides[0] // 8
            where[compiled.INTEGRAL + 1] = a.n_integrated
        if a.u is not self._u:
            self._last_u, self._last_first = self._u, int(where[compiled.U])
            self._u = a.u
            first = address(a.u)
            where[compiled.U], where[compiled.DU] = first, first + 8 * a.n
            where[compiled.INTEGRAL] = address(a.integral)
            places[mn.U], places[mn.DU] = first, first + 8 * a.n
        if a.start is not self._start:
            self._start, where[compiled.START] = a.start, address(a.start)
        where[compiled.KEEPS], where[compiled.HAS_TAU] = a.keeps, a.has_tau
        if a.has_tau:
            self._tell(compiled.TAU, a.tau)
        p = self.problem.packed_parameters
        if p is not self._p:
            self._p, places[mn.P] = p, address(p)
        if place.tau[0] is not None:
            self._tau = np.array(place.tau)
            places[mn.TAU] = address(self._tau)
        else:
            places[mn.TAU] = 0
        if place.coefficients is not self._slots_of:
            self._assign(place.coefficients)
        if place.limits != self._limits or place.times is not self._times:
            self._limits, self._times = place.limits, place.times
            self._sizes[mn.TOLERANCE] = place.limits[0]
            self._sizes[mn.RESIDUAL_TOLERANCE] = place.limits[1]
            places[mn.MAXITER] = place.limits[2]
            self._sizes[mn.FORCING] = place.limits[3]
            # These arrays are the same from step to step.
            places[mn.STRIDE], places[mn.FIRST] = a.u.strides[0] // 8, a.first
            places[mn.TIMES], places[mn.GUIDE] = address(place.times), address(place.guide)

    def _assign(self, coefficients: Vector) -> None:
        """Choose slots of the matrices: by coefficient, and in diagonal sweeps by node too."""
        keys = [(m if self.diagonal else -1, c) for m, c in enumerate(coefficients.tolist())]
        if len(self._slots.keys() | set(keys)) > self._capacity:
            self.forget()
        self._buffers["SLOTS"][:] = [self._slots.setdefault(key, len(self._slots)) for key in keys]
        self._places[mn.COEFFICIENTS] = address(coefficients)
        self._slots_of = coefficients

    def forget(self) -> None:
        """Keep no matrices."""
        super().forget()
        self._slots_of = None
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
        compiled.integrate(self._where_at)

    def continue_polynomial(self, last: Continuation) -> None:
        """See :class:`PythonNodes`."""
        self._locate(last)
        compiled.continue_polynomial(self._where_at)

    def start_sweep(self, before: Stages, number: int, low: int, high: int) -> None:
        """See :class:`PythonNodes`."""
        super().begin_sweep(number)
        self._tell(compiled.BEFORE_U, before.u)
        self._tell(compiled.BEFORE_DU, before.du)
        self._tell(compiled.BEFORE_INTEGRAL, before.integral)
        compiled.start_sweep(self._where_at, number, low, high)

    def finish(self) -> None:
        """See :class:`PythonNodes`."""
        compiled.finish(self._where_at)

    def norms(self, low: int, high: int, norms: Vector) -> None:
        """See :class:`PythonNodes`."""
        self._take_norms(norms)
        compiled.residual_norms(self._where_at, low, high)
        self._count()

    def solve(self, low: int, high: int) -> None:
        """See :class:`PythonNodes`."""
        low = max(low, self.place.arrays.first)
        while low < high:
            low = compiled.solve_nodes(self._where_at, low, high)
            if low < high:
                self.solve_at(low)
                low += 1
        self._count()

    def _tell(self, entry: int, array: Any) -> None:
        """Write address and row distance of an array into the row that compiled sweeps read."""
        self._where[entry], self._where[entry + 1] = address(array), array.strides[0] // 8

    def _take_norms(self, norms: Vector) -> None:
        if norms is not self._norms:
            self._norms, self._where[compiled.NORMS] = norms, address(norms)

    def _locate(self, last: Continuation) -> None:
        where = self._where
        where[compiled.WANTED] = last.wanted
        if last.wanted != sweep.CONTINUE:
            return
        where[compiled.NODES] = last.nodes
        if last.matrix is not self._matrix:
            self._matrix = last.matrix
            self._tell(compiled.MATRIX, last.matrix)
        if last.value is self._last_u:
            where[compiled.VALUE], where[compiled.DERIVATIVE] = (
                self._last_first,
                self._last_first + 8 * where[compiled.N],
            )
            where[compiled.VALUE + 1] = where[compiled.DERIVATIVE + 1] = where[compiled.U + 1]
        else:
            self._tell(compiled.VALUE, last.value)
            self._tell(compiled.DERIVATIVE, last.derivative)

    def _sweep(
        self, last: Continuation, number: int, most: int, sweeps: Callable[..., int]
    ) -> tuple[int, int]:
        """Call compiled sweeps until they end; nodes that they cannot solve are solved in Python.

        Parameters
        ----------
        last, number, most
            As for :func:`dae_sdc.sweepers.sweep.sweeps`.
        sweeps : callable
            Takes the numbers of sweeps before and of sweeps wanted and the node to go on at, and gives
            3 (done (M + 1) + reached) + status.
        """
        low, done, M = 0, 0, self.place.arrays.num_nodes
        self._locate(last)
        try:
            while True:
                found, status = divmod(sweeps(number + done, most - done, low), 3)
                more, low = divmod(found, M + 1)
                done += more
                if low == M:
                    return done, status
                super().begin_sweep(number + done)
                self.solve_at(low)
                low += 1
                self._where[compiled.WANTED] = sweep.NOTHING
        finally:
            self._count()

    def sweeps(
        self, last: Continuation, norms: Vector, number: int, most: int, tolerance: float, only_last: bool
    ) -> tuple[int, float]:
        """See :class:`PythonNodes`."""
        self._take_norms(norms)
        asked = tolerance, only_last, self._value_at
        done, _ = self._sweep(last, number, most, lambda *now: compiled.sweeps(self._where_at, *now, *asked))
        return done, float(self._value[0])

    def sweeps_to_tolerance(self, last: Continuation, goal: Goal, number: int, most: int) -> tuple[int, int]:
        """See :class:`PythonNodes`."""
        self._take_goal(goal)
        return self._sweep(last, number, most, partial(compiled.sweeps_to_tolerance, self._where_at))

    def _take_goal(self, goal: Goal) -> None:
        if goal is not self._goal:
            self._goal = goal
            self._tell(compiled.OLD, goal.old)
            self._where[compiled.WEIGHTS] = address(goal.weights)
            self._where[compiled.NUMBERS] = address(goal.numbers)

    def keep_old(self, goal: Goal) -> None:
        """See :class:`PythonNodes`."""
        self._take_goal(goal)
        compiled.keep_old(self._where_at)

    def look_at_change(self, goal: Goal, count: int) -> int:
        """See :class:`PythonNodes`."""
        self._take_goal(goal)
        how: int = compiled.look_at_change(self._where_at, count)
        return how

    def _count(self) -> None:
        """Add what was counted to the counters of the problem."""
        for counter, count in zip(self._counters, self._counts.tolist(), strict=True):
            counter.niter += count
        self._counts.fill(0)

    def _memory(self) -> list[Any]:
        """The arrays that hold the state of the matrices, as far as they are in use."""
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

    def operators(self, m: int) -> Operators:
        """See :class:`PythonNodes`."""
        slot, n, kept = self._buffers["SLOTS"][m], self.problem.n, self._kept
        if kept["KEPT"][slot, iteration.AGE] < 0.0:
            return super().operators(m)
        mass = kept["MASSES"][slot].reshape(n, n)
        factors, pivots = kept["FACTORS"][slot].T, kept["PIVOTS"][slot] - 1
        return Operators(mass.__matmul__, lambda v: np.asarray(dgetrs(factors, pivots, v)[0]))

    def get_state(self) -> dict[str, Any]:
        """See :class:`PythonNodes`."""
        slots = [(m, c, slot) for (m, c), slot in self._slots.items()]
        arrays = [array.copy() for array in self._memory()]
        more = {"slots": slots, "arrays": arrays, "split of kernels": int(self._places[mn.SPLIT])}
        return super().get_state() | more

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """See :class:`PythonNodes`."""
        super().set_state(kept)
        slots = {(int(m), float(c)): int(slot) for m, c, slot in kept["slots"]}
        self.__setstate__((slots, kept["arrays"], self.newtons, kept["split of kernels"]))
        self._slots_of = None


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
        # Factors and row pattern in a slot, and the SuperLU factors that they were made of.
        self._factors: dict[int, tuple[TriangularFactors, RowPattern, Any]] = {}
        self._tell_places()

    def solve_at(self, m: int) -> bool:
        """See :class:`PythonNodes`."""
        slot = int(self._buffers["SLOTS"][m])
        newton = self.newtons[m]
        if self._kept["RENEWED"][slot]:
            newton.forget(float(self.place.coefficients[m]))
        super().solve_at(m)
        self._places[mn.SPLIT] = self.system.split
        self._take_over(slot, newton.matrix_in_use)
        return True

    def operators(self, m: int) -> Operators:
        """See :class:`PythonNodes`."""
        slot, kept, sparsity = int(self._buffers["SLOTS"][m]), self._kept, self.problem.sparsity
        if slot not in self._factors or not kept["RENEWED"][slot] or kept["KEPT"][slot, iteration.AGE] < 0.0:
            return super().operators(m)
        parts = (kept["MASSES"][slot], sparsity.indices, sparsity.indptr)
        mass = sparse.csc_matrix(parts, shape=sparsity.shape)
        delta, substitute = self._buffers["DELTA"], mn.sparse_functions()[0].ctypes
        places, sizes = address(self._places), address(self._sizes)

        def solve(v: Vector) -> Vector:
            delta[:] = v
            substitute(places, sizes, slot)
            return np.array(delta)

        return Operators(mass.__matmul__, solve)

    @property
    def keeps_state(self) -> bool:
        """See :class:`PythonNodes`: factors of SuperLU cannot be taken apart without loss."""
        return False

    def _take_over(self, slot: int, matrix: Any) -> None:
        """Give compiled code the factors that Python has made."""
        known = self._factors.get(slot)
        if known is None or known[2] is not matrix.factors or self._kept["RENEWED"][slot]:
            if matrix.factors.entries > LARGEST_ROW_FILL * self.problem.n:
                self._kept["KEPT"][slot, iteration.AGE] = -1.0
                return
            made = matrix.linearization.iteration_matrix(1.0, self.problem.n)
            factors = triangular_factors(matrix.factors, made)
            self._put(slot, factors, row_pattern(factors, made), matrix.factors)
        # Measured contractions are shared between Python and compiled code from now on.
        self._kept["KEPT"][slot] = matrix.numbers
        matrix.numbers = self._kept["KEPT"][slot]
        # Nodes of a diagonal sweep keep matrices of their own.
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
        # Slots that were taken since point to factors which are given up now.
        self._kept["TRIANGLES"][len(self._remembered_slots) :] = 0
        self._factors = self._remembered_factors
        for newton in self.newtons.values():
            for matrix in newton.kept_matrices():
                for slot, (_, _, origin) in self._factors.items():
                    if matrix.factors is origin:
                        matrix.numbers = self._kept["KEPT"][slot]


def compiled_nodes(
    problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool, num_nodes: int
) -> CompiledNodes:
    """The compiled solver for the kind of Jacobian that a problem has, dense or sparse."""
    kind = DenseNodes if problem.sparsity is None else SparseNodes
    return kind(problem, n_integrated, owned, diagonal, num_nodes)


def address(array: Any) -> int:
    """Address of the first number of an array."""
    place: int = array.__array_interface__["data"][0]
    return place
