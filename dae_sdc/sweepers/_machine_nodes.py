"""Solves at the nodes and sweeps by :mod:`dae_sdc.sweepers._compiled`, for problems that give kernels."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from ctypes import addressof
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.linalg.lapack import dgetrs

from dae_sdc.compiled.nodes import NodesMemory
from dae_sdc.compiled.triangular import (
    LARGEST_ROW_FILL,
    PARTS,
    ROW_PARTS,
    RowPattern,
    TriangularFactors,
    copy_for,
    superlu_factors,
)
from dae_sdc.dae.machine_code import entry
from dae_sdc.dae.memory import address, fields, lapack, tell_addresses
from dae_sdc.dae.newton import KeptNumbers
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers.solvers import Place, PythonNodes
from dae_sdc.sweepers.step_error import Operators
from dae_sdc.sweepers.sweep import CONTINUE, Continuation, Goal


class RowsMemory(ctypes.Structure):
    """A two-dimensional array: the address of its first number, and the distance of its rows in numbers."""

    _fields_ = fields(ctypes.c_int64, "place stride")


def _memory_of(record: str, rows: str, integers: str = "") -> type[ctypes.Structure]:
    """The memory of a record of :mod:`dae_sdc.sweepers.sweep`: its arrays, and its numbers and addresses."""
    members = [*fields(RowsMemory, rows), *fields(ctypes.c_int64, integers)]
    return type(f"{record}Memory", (ctypes.Structure,), {"_fields_": members})


class StepMemory(ctypes.Structure):
    """A step that is swept to a tolerance in compiled code alone, for that and for Python."""

    _fields_ = [
        *fields(
            ctypes.c_int64,
            "q delta inverse places",  # Q, Q_Delta, the inverse of Q and the nodes, for a step of size 1
            "dt_q dt_delta dt_inverse coefficients times",  # likewise for this step
            "slot_nodes slot_coefficients used",  # of the matrices, (S,), the first integers; number of them
            "forgotten",  # whether all matrices were dropped
            "done reached how",  # number of sweeps, the first node that was not solved, and how they ended
            "most only_last to_goal",  # as :func:`dae_sdc.sweepers.sweep.sweeps` takes them
        ),
        # Start and size of the step, and that of the matrices; the residual that is allowed, and that left.
        *fields(ctypes.c_double, "time dt scaled tolerance value"),
    ]


class SweepMemory(ctypes.Structure):
    """What sweeps work on, for Python and for compiled code, with the address of a NodesMemory."""

    _fields_ = [
        (
            "arrays",
            _memory_of(
                "SweepArrays",
                "u du integral right_side mixed dt_q dt_delta tau guide",
                "start has_tau num_nodes n n_integrated diagonal keeps first",
            ),
        ),
        ("before", _memory_of("Values", "u du integral")),  # a sweep
        ("last", _memory_of("Continuation", "matrix value derivative inverse", "wanted nodes split")),
        ("goal", _memory_of("Goal", "old", "weights numbers")),
        ("step", StepMemory),
        *fields(ctypes.c_int64, "norms nodes"),
    ]


_HOME = "dae_sdc.sweepers._compiled"


def _address_of(name: str) -> int:
    """The address of a function of Newton's method."""
    return entry(f"dae_sdc.compiled.machine_newton:{name}").address


@functools.cache
def _compiled(name: str, count: int) -> Any:
    """The compiled form of a function of :mod:`dae_sdc.sweepers.sweep` that takes so many integers."""
    result = ctypes.c_int64 if name in ("solve_nodes", "look_at_change") else None
    return ctypes.PYFUNCTYPE(result, *(1 + count) * [ctypes.c_int64])(entry(f"{_HOME}:{name}").address)


@functools.cache
def _sweeps() -> Any:
    """The compiled form of :func:`dae_sdc.sweepers.sweep.sweeps`, whose results are written to an address."""
    kinds: Any = *4 * [ctypes.c_int64], ctypes.c_double, *3 * [ctypes.c_int64]
    return ctypes.PYFUNCTYPE(None, *kinds)(entry(f"{_HOME}:sweeps").address)


_SUBSTITUTE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
# There is always room for one factored matrix of each node.
MOST_COMPILED_MATRICES = 64  # Largest number of matrices that are kept at a time.
MOST_MATRIX_ENTRIES = 2_000_000  # Largest number of entries of all matrices together.


class CompiledNodes(PythonNodes):
    """Newton solves at the nodes, and sweeps, in compiled code; :class:`PythonNodes` repeats failed ones."""

    compiled = True

    def __init__(
        self, problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool, num_nodes: int
    ) -> None:
        super().__init__(problem, n_integrated, owned, diagonal)
        kernels: Any = problem.kernels
        self._kernels = kernels  # they live as long as their addresses are used
        n, pattern = problem.n, problem.sparsity
        entries = n * n if pattern is None else int(pattern.nnz)
        self._capacity = kept = max(num_nodes, min(MOST_COMPILED_MATRICES, MOST_MATRIX_ENTRIES // entries))
        self._slots: dict[Any, int] = {}
        self._slots_of: Vector | None = None
        # One row for each matrix; the arrays of Jacobians have one more, for the guide point of the sweep.
        self._kept: dict[str, Any] = {
            "kept": np.full((kept, 4), -1.0),
            "masses": np.empty((kept + 1, entries)),
            "stiffnesses": np.empty((kept + 1, entries)),
        }
        self._ages: dict[str, Any] = {"ages": np.zeros(num_nodes), "newest": np.full(num_nodes, -1)}
        self._buffers: dict[str, Any] = {
            "value": np.empty(n),
            "delta": np.empty(n),
            "saved": np.empty((2, n)),
            "slots": np.zeros(num_nodes, dtype=np.int64),
        }
        self._norms = np.empty(num_nodes)
        nodes: Any = NodesMemory()
        memory: Any = SweepMemory()
        self._nodes, self._memory = nodes, memory
        nodes.own = memory.nodes = addressof(nodes)
        self._own = addressof(memory)
        nodes.solve_at, nodes.factorize_at = map(_address_of, ("solve", "factorize"))
        nodes.residual, nodes.jacobian = kernels.residual, kernels.jacobian
        nodes.n, nodes.n_integrated, nodes.entries = n, n_integrated, entries
        nodes.capacity, nodes.split, nodes.guided = kept, problem.n_diff, diagonal
        self._remembered: list[tuple[Any, Any]] = []
        self._scaled: Any = None  # Q times the step size of the arrays whose addresses stand in memory.
        self._steps: dict[str, Any] = {}  # the arrays of steps of any size
        self._make_matrices()
        tell_addresses(nodes, self._kept | self._ages | self._buffers)

    def _make_matrices(self) -> None:
        """Allocate factors of matrices, and set the functions that use them."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        # A copy has its arrays elsewhere.
        made = (self.problem, self.system.n_integrated, self.owned, self.diagonal, len(self._ages["ages"]))
        return type(self), made, (self._slots, self._used(), self.newtons, self._nodes.split)

    def __setstate__(self, state: Any) -> None:
        self._slots, memory, self.newtons, split = state
        self._nodes.split = int(split)
        for array, values in zip(self._used(), memory, strict=True):
            array[:] = values

    def measure_by(self, weights: Vector, unit: float) -> None:
        super().measure_by(weights, unit)
        self._nodes.weights, self._nodes.unit = address(weights), unit

    def prepare(self, place: Place) -> None:
        super().prepare(place)
        a, nodes, memory = place.arrays, self._nodes, self._memory.arrays
        if a.dt_q is not self._scaled:
            self._scaled = a.dt_q
            for name in ("right_side", "mixed", "dt_q", "dt_delta", "guide"):
                tell_rows(getattr(memory, name), getattr(a, name))
            memory.num_nodes, memory.n, memory.n_integrated = a.num_nodes, a.n, a.n_integrated
            memory.diagonal, memory.first = a.diagonal, a.first
            memory.u.stride = memory.du.stride = nodes.stride = a.u.strides[0] // 8
            memory.integral.stride = a.n_integrated
            nodes.first, nodes.guide = a.first, memory.guide.place
        memory.u.place = nodes.u = first = address(a.u)
        memory.du.place = nodes.du = first + 8 * a.n
        memory.integral.place, memory.start = address(a.integral), address(a.start)
        memory.keeps, memory.has_tau = a.keeps, a.has_tau
        if a.has_tau:
            tell_rows(memory.tau, a.tau)
        nodes.p, nodes.times = address(self.problem.packed_parameters), address(place.times)
        nodes.tau = 0
        if place.tau[0] is not None:
            self._tau = np.array(place.tau)
            nodes.tau = address(self._tau)
        if place.coefficients is not self._slots_of:
            # Slots of the matrices: by coefficient, and in diagonal sweeps by node too.
            numbers = enumerate(place.coefficients.tolist())
            keys = [(m if self.diagonal else -1, c) for m, c in numbers]
            if len(self._slots.keys() | set(keys)) > self._capacity:
                self.forget()
            self._buffers["slots"][:] = [self._slots.setdefault(key, len(self._slots)) for key in keys]
            nodes.coefficients = address(place.coefficients)
            self._slots_of = place.coefficients
        nodes.tolerance, nodes.residual_tolerance, most, nodes.forcing = place.limits
        nodes.maxiter = int(most)

    def _numbers(self, slot: int) -> Any:
        """What is known of the matrix in a slot."""
        return KeptNumbers.from_buffer(self._kept["kept"][slot])

    def forget(self) -> None:
        super().forget()
        self._slots_of = None
        self._slots.clear()
        self._kept["kept"][:] = -1.0
        self._ages["newest"][:] = -1

    def begin_sweep(self, number: int) -> None:
        super().begin_sweep(number)
        self._nodes.guide_known, self._nodes.trust = 0, number > 0

    def run(self, function: Callable[..., Any], *numbers: Any, **given: Any) -> Any:
        memory = self._memory
        for name, value in given.items():
            if name == "last":
                self._locate(value)
            elif name == "before":
                for part in ("u", "du", "integral"):
                    tell_rows(getattr(memory.before, part), getattr(value, part))
            elif name == "norms":
                memory.norms = address(value)
            else:
                self.tell_goal(value)
        try:
            if function is not sweep.sweeps:
                return _compiled(function.__name__, len(numbers))(self._own, *numbers)
            found = np.empty(4)
            _sweeps()(self._own, *numbers, address(found))
            return *map(int, found[:3]), float(found[3])
        finally:
            self._nodes.counts.add_to(self.problem)

    def tell_goal(self, goal: Goal) -> None:
        """Tell compiled code what sweeps have to reach."""
        memory, self._goal_numbers = self._memory.goal, goal.numbers
        tell_rows(memory.old, goal.old)
        memory.weights, memory.numbers = address(goal.weights), addressof(goal.numbers)

    def _locate(self, last: Continuation) -> None:
        memory = self._memory.last
        memory.wanted = last.wanted
        if last.wanted == CONTINUE:
            memory.nodes, memory.split = last.nodes, last.split
            for part in ("matrix", "value", "derivative", "inverse"):
                tell_rows(getattr(memory, part), getattr(last, part))

    def _used(self, count: int | None = None) -> list[Any]:
        """The arrays that hold the state of the matrices, as far as they, or ``count`` ones, are in use."""
        count = len(self._slots) if count is None else count
        return [*(array[:count] for array in self._kept.values()), *self._ages.values()]

    def remember(self) -> None:
        super().remember()
        self._remembered_slots = self._slots.copy()
        self._remembered = [(array, array.copy()) for array in self._used()]

    def recall(self) -> None:
        super().recall()
        self._kept["kept"][len(self._remembered_slots) :] = -1.0
        self._slots, self._slots_of = self._remembered_slots.copy(), None
        for array, values in self._remembered:
            array[:] = values

    def begin_steps(self, matrices: Any, inverse: Vector, split: int, how: tuple[float, ...]) -> int:
        """Let compiled code sweep steps of any size from the place that was prepared; where its memory is."""
        # ``how`` are the most sweeps, the tolerance of the residual, whether that at the last node alone
        # counts, and whether the sweeps go on to a goal instead.
        # Shapes: inverse (M, M), of Q.
        memory, step, M = self._memory, self._memory.step, len(inverse)
        step.most, step.tolerance, step.only_last, step.to_goal = how
        memory.norms = address(self._norms)
        if not self._steps:
            self._steps = {f"dt_{name}": np.empty((M, M)) for name in ("q", "delta", "inverse")} | {
                **{"coefficients": np.empty(M), "times": np.empty(M)},
                "slot_nodes": np.empty(self._capacity, dtype=np.int64),
                "slot_coefficients": np.empty(self._capacity),
            }
        self._steps |= {"q": np.ascontiguousarray(matrices.collocation.Qmat[1:, 1:]), "delta": matrices.delta}
        self._steps |= {"inverse": inverse, "places": np.array(matrices.nodes)}
        tell_addresses(step, self._steps)
        for slot, (node, coefficient) in enumerate(self._slots):
            self._steps["slot_nodes"][slot], self._steps["slot_coefficients"][slot] = node, coefficient
        step.used, step.forgotten, step.scaled = len(self._slots), 0, 0.0
        for name in ("q", "delta"):
            tell_rows(getattr(memory.arrays, f"dt_{name}"), self._steps[f"dt_{name}"])
        tell_rows(memory.last.inverse, self._steps["dt_inverse"])
        memory.last.nodes, memory.last.split = M, split
        self._nodes.times, self._nodes.coefficients = step.times, step.coefficients
        self._nodes.counts.add_to(self.problem)
        return addressof(memory)

    def end_steps(self) -> tuple[bool, int, int, int]:
        """Take note of steps: whether the last was extrapolated, its sweeps, nodes solved, how it ended."""
        step = self._memory.step
        if step.forgotten:
            PythonNodes.forget(self)
        keys = (self._steps[name][: step.used].tolist() for name in ("slot_nodes", "slot_coefficients"))
        self._slots = {key: slot for slot, key in enumerate(zip(*keys, strict=True))}
        self._slots_of = self._scaled = None
        return self._memory.last.wanted == CONTINUE, step.done, step.reached, step.how

    def _of_steps(self, used: int) -> list[Any]:
        """The arrays of so many matrices that steps change, with the nodes and coefficients of these."""
        names = "slot_nodes", "slot_coefficients"
        return [*self._used(used), *(self._steps[name][:used] for name in names)]

    def get_steps(self) -> tuple[Any, ...]:
        """What steps that compiled code sweeps change, but for their results."""
        used = int(self._memory.step.used)
        arrays = [array.copy() for array in self._of_steps(used)]
        goal = bytes(self._goal_numbers) if self._memory.step.to_goal else b""
        return used, arrays, goal, self._nodes.split

    def set_steps(self, state: tuple[Any, ...]) -> None:
        """Restore what :meth:`get_steps` gave, as if no step had been swept since."""
        used, arrays, numbers, self._nodes.split = state
        step = self._memory.step
        step.used, step.forgotten, step.scaled = used, 0, 0.0
        self._kept["kept"][used:] = -1.0
        for array, known in zip(self._of_steps(used), arrays, strict=True):
            array[:] = known
        if numbers:
            ctypes.memmove(addressof(self._goal_numbers), numbers, len(numbers))

    def operators(self, m: int) -> Operators:
        slot = int(self._buffers["slots"][m])
        known = self._factors_in(slot) if self._numbers(slot).age >= 0.0 else None
        return super().operators(m) if known is None else known

    def matrix_at(self, m: int) -> tuple[int, int] | None:
        slot = int(self._buffers["slots"][m])
        known = self._numbers(slot).age >= 0.0 and self._factors_in(slot) is not None
        return (self._nodes.own, slot) if known else None

    def _factors_in(self, slot: int) -> Operators | None:
        """The matrix in a slot; None where its factors are not in the memory of compiled code."""
        raise NotImplementedError


class DenseNodes(CompiledNodes):
    """Compiled solves at the nodes with dense LU factors by LAPACK; see :class:`CompiledNodes`."""

    def _make_matrices(self) -> None:
        n = self.problem.n
        self._kept["factors"] = np.empty((self._capacity, n, n))
        self._kept["pivots"] = np.empty((self._capacity, n), dtype=np.int32)
        self._buffers["small"] = np.array([n, 1, 0, ord("N")], dtype=np.int32)
        self._nodes.getrf, self._nodes.getrs = lapack("dgetrf"), lapack("dgetrs")

    def magnitude(self, m: int) -> float:
        a, slot, n = self.arrays, int(self._buffers["slots"][m]), self.problem.n
        if self._numbers(slot).age < 0.0:
            return super().magnitude(m)
        mass, stiffness = (np.abs(self._kept[name][slot]) for name in ("masses", "stiffnesses"))
        scale = mass.reshape(n, n) @ np.abs(a.du[m]) + stiffness.reshape(n, n) @ np.abs(a.u[m])
        return float(scale.max())

    def _factors_in(self, slot: int) -> Operators:
        n, kept = self.problem.n, self._kept
        mass = kept["masses"][slot].reshape(n, n)
        factors, pivots = kept["factors"][slot].T, kept["pivots"][slot] - 1
        return Operators(mass.__matmul__, lambda v: np.asarray(dgetrs(factors, pivots, v)[0]))

    def get_state(self) -> dict[str, Any]:
        slots = [(m, c, slot) for (m, c), slot in self._slots.items()]
        arrays = [array.copy() for array in self._used()]
        return super().get_state() | {"slots": slots, "arrays": arrays, "split of kernels": self._nodes.split}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        super().set_state(kept)
        slots = {(int(m), float(c)): int(slot) for m, c, slot in kept["slots"]}
        self.__setstate__((slots, kept["arrays"], self.newtons, kept["split of kernels"]))
        self._slots_of = None


class SparseNodes(CompiledNodes):
    """Compiled solves at the nodes with LU factors of sparse matrices; see :class:`CompiledNodes`."""

    # SuperLU chooses the pivots; compiled code goes on with them until one gets too small. Factors that are
    # rather full stay with SuperLU, which works on blocks.

    def _make_matrices(self) -> None:
        kept = self._capacity
        self._kept["triangles"] = np.zeros((kept, PARTS), dtype=np.int64)
        self._kept["patterns"] = np.zeros((kept, ROW_PARTS), dtype=np.int64)
        self._kept["renewed"] = np.zeros(kept, dtype=np.int64)
        self._buffers |= {"work": np.empty(4 * self.problem.n), "data": np.empty(self._nodes.entries)}
        self._nodes.substitute, self._nodes.refactorize = map(_address_of, ("substitute", "refactorize"))
        # Factors and row pattern in a slot, and the SuperLU factors that they were made of.
        self._factors: dict[int, tuple[TriangularFactors, RowPattern, Any]] = {}

    def solve_at(self, m: int) -> bool:
        slot = int(self._buffers["slots"][m])
        newton = self.newtons[m]
        if self._kept["renewed"][slot]:
            newton.forget(float(self.place.coefficients[m]))
        super().solve_at(m)
        self._nodes.split = self.system.split
        self._take_over(slot, newton.matrix)
        return True

    def _factors_in(self, slot: int) -> Operators | None:
        kept, sparsity = self._kept, self.problem.sparsity
        if slot not in self._factors or not kept["renewed"][slot]:
            return None
        parts = (kept["masses"][slot], sparsity.indices, sparsity.indptr)
        mass = sparse.csc_matrix(parts, shape=sparsity.shape)
        delta, substitute, own = self._buffers["delta"], _SUBSTITUTE(self._nodes.substitute), self._nodes.own

        def solve(v: Vector) -> Vector:
            delta[:] = v
            substitute(own, slot)
            return np.array(delta)

        return Operators(mass.__matmul__, solve)

    @property
    def keeps_state(self) -> bool:
        return False  # factors of SuperLU cannot be taken apart without loss

    def _take_over(self, slot: int, matrix: Any) -> None:
        """Give compiled code the factors that Python has made."""
        known = self._factors.get(slot)
        if known is None or known[2] is not matrix.factors or self._kept["renewed"][slot]:
            if matrix.factors.entries > LARGEST_ROW_FILL * self.problem.n:
                self._numbers(slot).age = -1.0
                return
            made = matrix.linearization.iteration_matrix(1.0, self.problem.n)
            self._put(slot, *superlu_factors(matrix.factors, made), matrix.factors)
        # Measured contractions are shared between Python and compiled code from now on.
        self._kept["kept"][slot] = np.frombuffer(matrix.numbers)
        matrix.numbers = self._numbers(slot)
        # Nodes of a diagonal sweep keep matrices of their own.
        for other in () if self.diagonal else self._slots.values():
            if other not in self._factors:
                factors, pattern, _ = self._factors[slot]
                self._put(other, copy_for(factors), pattern, None)

    def _put(self, slot: int, factors: TriangularFactors, pattern: RowPattern, origin: Any) -> None:
        self._factors[slot] = factors, pattern, origin
        self._kept["triangles"][slot] = [address(part) for part in factors[:-1]]
        self._kept["patterns"][slot] = [address(part) for part in pattern]
        self._kept["renewed"][slot] = 0

    def __reduce__(self) -> Any:
        # Factors of SuperLU cannot be copied; the matrices are made again.
        return super().__reduce__()[:2]

    def forget(self) -> None:
        super().forget()
        self._kept["triangles"][:] = 0
        self._factors.clear()

    def remember(self) -> None:
        super().remember()
        self._remembered_factors = self._factors.copy()
        for factors, _, _ in self._factors.values():
            numbers = (factors.lower_data, factors.upper_data, factors.inverse)
            self._remembered += [(array, array.copy()) for array in numbers]

    def recall(self) -> None:
        super().recall()
        # Slots assigned after ``remember`` point to factors that are dropped here.
        self._kept["triangles"][len(self._remembered_slots) :] = 0
        self._factors = self._remembered_factors
        for newton in self.newtons.values():
            for matrix in newton.kept.values():
                for slot, (_, _, origin) in self._factors.items():
                    if matrix.factors is origin:
                        matrix.numbers = self._numbers(slot)


def tell_rows(memory: Any, array: Any) -> None:
    """Write the address and the row distance of an array into memory of compiled sweeps."""
    memory.place, memory.stride = address(array), array.strides[0] // 8
