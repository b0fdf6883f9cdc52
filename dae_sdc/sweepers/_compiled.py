"""Sweeps as one compiled call, for problems that give kernels. Importing this imports numba."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload, register_jitable

from dae_sdc.dae import iteration, machine, machine_newton
from dae_sdc.dae.counters import COUNTERS
from dae_sdc.dae.machine_newton import INNER, MachineNodes
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.dae.triangular import TriangularFactors, triangular_factors
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers.solvers import Place, PythonNodes
from dae_sdc.sweepers.sweep import Continuation, Rows, SweepArrays

_U, _DU, _P, _TAU = machine_newton.U, machine_newton.DU, machine_newton.P, machine_newton.TAU

MOST_ENTRIES = 30
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
        return machine_newton.doubles(matrix.place)[matrix.stride * i + j]

    return implementation


@overload(sweep.set_row, jit_options=INNER)
def _set_row(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
    def implementation(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
        target, source = machine_newton.doubles(to), machine_newton.doubles(values)
        for i in range(first, last):
            target[i] = factor * source[i]

    return implementation


@overload(sweep.add_to_row, jit_options=INNER)
def _add_to_row(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
    def implementation(to: Any, first: Any, last: Any, factor: Any, values: Any) -> Any:
        target, source = machine_newton.doubles(to), machine_newton.doubles(values)
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
        return machine_newton.doubles(numbers)

    return implementation


@overload(sweep.begin_sweep, jit_options=INNER)
def _begin_sweep(solver: Any, number: Any) -> Any:
    def implementation(solver: Any, number: Any) -> Any:
        places = machine_newton.integers(solver.places)
        places[machine_newton.GUIDE_KNOWN] = 0
        places[machine_newton.TRUST] = 1 if number > 0 else 0

    return implementation


@overload(sweep.solve_at, jit_options=INNER)
def _solve_at(solver: Any, m: Any) -> Any:
    def implementation(solver: Any, m: Any) -> Any:
        return machine_newton.solve_at_node(solver, m)

    return implementation


@overload(sweep.measure, jit_options=INNER)
def _measure(solver: Any, a: Any, low: Any, high: Any, norms: Any) -> Any:
    def implementation(solver: Any, a: Any, low: Any, high: Any, norms: Any) -> Any:
        places = machine_newton.integers(solver.places)
        value, out = machine_newton.doubles(places[machine_newton.VALUE]), machine_newton.doubles(norms)
        for m in range(low, high):
            u = sweep.row(a.mixed, m) if a.keeps else sweep.row(a.u, m)
            machine_newton.residual_of_node(places, m, u, sweep.row(a.du, m))
            out[m] = machine_newton.largest_of(value, 0, a.n)

    return implementation


for _function in (
    sweep.integrate,
    sweep.put_integrated,
    sweep.continue_polynomial,
    sweep.right_sides,
    sweep.guide_point,
    sweep.collect,
    sweep.finish,
    sweep.place_measured,
    sweep.residual_norms,
    sweep.residual,
    sweep.solve_nodes,
):
    register_jitable(**INNER)(_function)


def _entry_point(function: Any) -> Any:
    """A compiled function that Python calls; kept on disk under a name that changes with its sources."""
    digest = machine_newton.digest_of(iteration, machine, machine_newton, sweep, sys.modules[__name__])
    named = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    named.__qualname__ = f"{function.__qualname__}-{digest:08x}"
    compiled = njit(cache=True, error_model="numpy")(named)

    def first(*arguments: Any) -> Any:
        with machine_newton.lightly_optimized():
            return compiled(*arguments)

    return compiled, first


(_sweep_all, _first_sweep), (_solve_some, _first_solve) = map(_entry_point, (sweep.sweeps, sweep.solve_nodes))


def rows_of(array: Vector) -> Rows:
    """Where the rows of an array are; of one row if it is a vector."""
    return Rows(address(array), array.strides[0] // 8)


_NOWHERE = Rows(0, 0)
_NO_POLYNOMIAL = Continuation(False, 0, _NOWHERE, _NOWHERE, _NOWHERE)


class CompiledNodes(PythonNodes):
    """Solves at the nodes of one process, and sweeps, in compiled code.

    What goes wrong there is repeated in Python, which has the damped iteration and the words.

    Parameters
    ----------
    problem : ProblemDAE
        The equations, with kernels and a dense Jacobian.
    n_integrated, owned, diagonal
        As for :class:`PythonNodes`.
    num_nodes : int
        M.
    """

    compiled = True

    def __init__(
        self, problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool, num_nodes: int
    ) -> None:
        super().__init__(problem, n_integrated, owned, diagonal)
        kernels = problem.kernels
        assert kernels is not None
        n = problem.n
        self._sparse = problem.sparsity is not None and problem.linear_solver != "dense"
        if problem.sparsity is None and problem.linear_solver == "superlu":
            self._sparse = True
        kept = MOST_KEPT if self._sparse else max(num_nodes, min(MOST_KEPT, ROOM // (n * n)))
        self._slots: dict[Any, int] = {}
        self._slots_of: Vector | None = None
        self._kept: dict[str, Any] = {
            "KEPT": np.full((kept, 4), -1.0),
            "AGES": np.zeros(num_nodes),
            "NEWEST": np.full(num_nodes, -1),
        }
        small = np.array([n, 1, 0], dtype=np.int32)
        self._buffers: dict[str, Any] = {
            "VALUE": np.empty(n),
            "DELTA": np.empty(n),
            "SAVED": np.empty((2, n)),
            "SLOTS": np.zeros(num_nodes, dtype=np.int64),
            "LAPACK_N": small[0:],
            "LAPACK_ONE": small[1:],
            "LAPACK_INFO": small[2:],
            "LETTER": np.frombuffer(b"N", dtype=np.int8).copy(),
        }
        places = self._places = np.zeros(len(machine_newton.Places), dtype=np.int64)
        solve_at, factorize_at = machine_newton.solver_functions()
        places[machine_newton.SOLVE_AT] = solve_at.address
        # Sparse matrices are factorised in Python, and compiled code takes over what there is.
        self._exported: dict[int, tuple[Any, Any]] = {}
        if self._sparse:
            self._kept["TRIANGLES"] = np.zeros((kept, len(TriangularFactors._fields) - 1), dtype=np.int64)
            self._buffers["WORK"] = np.empty(n)
            places[machine_newton.SUBSTITUTE] = machine_newton.substitution().address
        else:
            self._kept |= {
                "FACTORS": np.empty((kept, n, n)),
                "PIVOTS": np.empty((kept, n), dtype=np.int32),
                "MASSES": np.empty((kept + 1, n, n)),
                "STIFFNESSES": np.empty((kept + 1, n, n)),
            }
            places[machine_newton.RENEW] = factorize_at.address
            places[machine_newton.GETRF] = machine_newton.lapack("dgetrf")
            places[machine_newton.GETRS] = machine_newton.lapack("dgetrs")
        for name, array in (self._kept | self._buffers).items():
            places[machine_newton.Places[name]] = address(array)
        places[machine_newton.RESIDUAL], places[machine_newton.JACOBIAN] = kernels.residual, kernels.jacobian
        places[machine_newton.N], places[machine_newton.N_INTEGRATED] = n, n_integrated
        places[machine_newton.CAPACITY], places[machine_newton.SPLIT] = kept, problem.n_diff
        places[machine_newton.GUIDED] = diagonal
        self._counts = places[machine_newton.RHS : machine_newton.SOLVES + 1]
        self._counters = [problem.work_counters[name] for name in COUNTERS]
        self._sizes = np.zeros(len(machine_newton.Sizes))
        self.nodes = MachineNodes(address(places), address(self._sizes))
        self._remembered: dict[str, Any] = {}
        self._remembered_exports: dict[int, tuple[Any, Any]] = {}
        self._p: Vector | None = None
        self._limits: tuple[float, float, int] | None = None
        self._times: Vector | None = None
        self._of_step_size: Vector | None = None
        self._matrix: Vector | None = None
        self._norms: Vector | None = None

    def solve_at(self, m: int) -> bool:
        """See :class:`PythonNodes`."""
        super().solve_at(m)
        if self._sparse:
            self._export(m)
        return True

    def _export(self, m: int) -> None:
        """Let compiled code solve with the sparse factors that node m has now."""
        self._places[machine_newton.SPLIT] = self.system.split
        matrix, slot = self.newtons[m].matrix_in_use, int(self._buffers["SLOTS"][m])
        known = self._exported.get(slot)
        if known is not None and known[0] is matrix.factors:
            return
        assert matrix.factors is not None
        kept = self._kept["KEPT"][slot]
        if matrix.factors.entries > MOST_ENTRIES * self.problem.n:
            kept[iteration.AGE] = -1.0
            return
        parts = triangular_factors(matrix.factors)
        self._exported[slot] = matrix.factors, parts
        self._kept["TRIANGLES"][slot] = [address(part) for part in parts[:-1]]
        # From now on both see what either finds out of the matrix.
        kept[:] = matrix.numbers
        matrix.numbers = kept

    def __reduce__(self) -> Any:
        # A copy has its arrays elsewhere.
        made = (self.problem, self.system.n_integrated, self.owned, self.diagonal, len(self._kept["AGES"]))
        # Sparse factors cannot be copied, and are made again.
        return type(self), made, None if self._sparse else (self._kept, self._slots, self._slots_of)

    def __setstate__(self, state: Any) -> None:
        kept, slots, slots_of = state
        for name, array in kept.items():
            self._kept[name][:] = array
        self._slots.update(slots)
        if slots_of is not None:
            self._assign(slots_of)

    def prepare(self, place: Place) -> None:
        """See :class:`PythonNodes`."""
        self.place = place
        a, places = place.arrays, self._places
        if a.dt_q is not self._of_step_size:
            self._of_step_size = a.dt_q
            fixed = (a.right_side, a.mixed, a.dt_q, a.dt_delta)
            self._fixed = tuple(rows_of(array) for array in fixed)
        first, stride = address(a.u), a.u.strides[0] // 8
        second = first + 8 * a.n
        self._a = SweepArrays(
            Rows(first, stride),
            Rows(second, stride),
            address(a.start),
            Rows(address(a.integral), a.n_integrated),
            *self._fixed,
            rows_of(a.tau) if a.has_tau else _NOWHERE,
            *a[9:],
        )
        places[_U], places[_DU] = first, second
        p = self.problem.packed_parameters
        if p is not self._p:
            self._p, places[_P] = p, address(p)
        if place.tau[0] is not None:
            self._tau = np.array(place.tau)
            places[machine_newton.TAU] = address(self._tau)
        else:
            places[_TAU] = 0
        if place.coefficients is not self._slots_of:
            self._assign(place.coefficients)
        if place.limits != self._limits or place.times is not self._times:
            self._limits, self._times = place.limits, place.times
            self._sizes[machine_newton.TOLERANCE] = place.limits[0]
            self._sizes[machine_newton.RESIDUAL_TOLERANCE] = place.limits[1]
            places[machine_newton.MAXITER] = place.limits[2]
            # These arrays are the same from step to step.
            places[machine_newton.STRIDE], places[machine_newton.FIRST] = a.u.strides[0] // 8, a.first
            places[machine_newton.TIMES], places[machine_newton.GUIDE] = (
                address(place.times),
                address(place.guide),
            )

    def _assign(self, coefficients: Vector) -> None:
        """Say where the matrices of the nodes are kept: by coefficient, and by node if each has its own."""
        keys = [(m if self.diagonal else -1, c) for m, c in enumerate(coefficients.tolist())]
        if len(self._slots.keys() | set(keys)) > len(self._kept["KEPT"]):
            self._slots.clear()
            self._kept["KEPT"][:] = -1.0
            self._kept["NEWEST"][:] = -1
            self._exported.clear()
            for newton in self.newtons.values():
                newton.forget()
        self._buffers["SLOTS"][:] = [self._slots.setdefault(key, len(self._slots)) for key in keys]
        self._places[machine_newton.COEFFICIENTS] = address(coefficients)
        self._slots_of = coefficients

    def begin_sweep(self, number: int) -> None:
        """See :class:`PythonNodes`."""
        super().begin_sweep(number)
        self._places[machine_newton.GUIDE_KNOWN] = 0
        self._places[machine_newton.TRUST] = number > 0

    def solve(self, low: int, high: int) -> None:
        """See :class:`PythonNodes`."""
        low = max(low, self._a.first)
        while low < high:
            run = _solve_some if _solve_some.signatures else _first_solve
            low = run(self._a, self.nodes, low, high)
            if low < high:
                self.solve_at(low)
                low += 1
        self._count()

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
        a, low, done = self._a, 0, 0
        polynomial = _NO_POLYNOMIAL
        if last.wanted:
            if last.matrix is not self._matrix:
                self._matrix, self._matrix_rows = last.matrix, rows_of(last.matrix)
            known = self._matrix_rows, rows_of(last.value), rows_of(last.derivative)
            polynomial = Continuation(True, last.nodes, *known)
        if norms is not self._norms:
            self._norms, self._norms_at = norms, address(norms)
            self._guide = rows_of(self.place.guide)
        try:
            while True:
                counted = (number + done, most - done, low, tolerance, only_last)
                run = _sweep_all if _sweep_all.signatures else _first_sweep
                more, low, value = run(a, self.nodes, polynomial, self._guide, self._norms_at, *counted)
                done += more
                if low == a.num_nodes:
                    return done, value
                super().begin_sweep(number + done)
                self.solve_at(low)
                low += 1
                polynomial = polynomial._replace(wanted=False)
        finally:
            self._count()

    def _count(self) -> None:
        """Add what was counted to the counters of the problem."""
        for counter, count in zip(self._counters, self._counts.tolist(), strict=True):
            counter.niter += count
        self._counts.fill(0)

    def remember(self) -> None:
        """See :class:`PythonNodes`."""
        super().remember()
        self._remembered = {name: array.copy() for name, array in self._kept.items()}
        self._remembered_exports = self._exported.copy()

    def recall(self) -> None:
        """See :class:`PythonNodes`."""
        super().recall()
        for name, array in self._remembered.items():
            self._kept[name][:] = array
        if not self._sparse:
            return
        self._exported = self._remembered_exports
        for newton in self.newtons.values():
            for matrix in newton.kept_matrices():
                for slot, (factors, _) in self._exported.items():
                    if matrix.factors is factors:
                        matrix.numbers = self._kept["KEPT"][slot]

    def magnitude(self, m: int) -> float:
        """See :class:`PythonNodes`."""
        if self._sparse:
            return super().magnitude(m)
        a, slot = self.place.arrays, self._buffers["SLOTS"][m]
        if self._kept["KEPT"][slot, iteration.AGE] < 0.0:
            return super().magnitude(m)
        mass, stiffness = self._kept["MASSES"][slot], self._kept["STIFFNESSES"][slot]
        scale = np.abs(mass) @ np.abs(a.du[m]) + np.abs(stiffness) @ np.abs(a.u[m])
        return float(scale.max())


def address(array: Any) -> int:
    """Where the numbers of an array begin."""
    place: int = array.__array_interface__["data"][0]
    return place
