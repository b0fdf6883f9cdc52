"""Solves at the nodes and sweeps by :mod:`dae_sdc.sweepers._compiled`, for problems that give kernels."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from ctypes import addressof
from typing import Any, cast

import numpy as np

from dae_sdc.compiled.nodes import NodesMemory
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.linear import factorize
from dae_sdc.dae.machine_code import entry
from dae_sdc.dae.memory import address, fields, lapack, tell_addresses
from dae_sdc.dae.newton import KeptNumbers, krylov_correction
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers._answers import ANSWER, Answers, Factors, numbers_at, sparse_matrix
from dae_sdc.sweepers.solvers import PythonNodes
from dae_sdc.sweepers.sweep import CONTINUE, Goal, SweepArrays


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


# There is always room for one factored matrix of each node.
MOST_COMPILED_MATRICES = 64  # Largest number of matrices that are kept at a time.
MOST_MATRIX_ENTRIES = 2_000_000  # Largest number of entries of all matrices together.


class CompiledNodes(PythonNodes, Answers):
    """Newton solves at the nodes, and sweeps, in compiled code; :class:`PythonNodes` repeats failed ones."""

    compiled = True

    def __init__(
        self, problem: ProblemDAE, n_integrated: int, owned: range, diagonal: bool, num_nodes: int
    ) -> None:
        PythonNodes.__init__(self, problem, n_integrated, owned, diagonal)
        Answers.__init__(self)
        n, pattern = problem.n, problem.sparsity
        entries = n * n if pattern is None else int(pattern.nnz)
        self._capacity = kept = max(num_nodes, min(MOST_COMPILED_MATRICES, MOST_MATRIX_ENTRIES // entries))
        self._slots_of: Vector | None = None
        # One row for each matrix; the arrays of Jacobians have one more, for the guide point of the sweep.
        self._kept: dict[str, Any] = {
            "kept": np.full((kept, 4), -1.0),
            "masses": np.empty((kept + 1, entries)),
            "stiffnesses": np.empty((kept + 1, entries)),
            "slot_nodes": np.zeros(kept, dtype=np.int64),
            "slot_coefficients": np.zeros(kept),
        }
        self._ages: dict[str, Any] = {"ages": np.zeros(num_nodes), "newest": np.full(num_nodes, -1)}
        self._buffers: dict[str, Any] = {
            "value": np.empty(n),
            "delta": np.empty(n),
            "data": np.empty(entries),
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
        self._ask_equations(nodes, problem, problem.solver_kernels, None)
        nodes.n, nodes.n_integrated, nodes.entries = n, n_integrated, entries
        nodes.capacity, nodes.split, nodes.guided = kept, problem.n_diff, diagonal
        memory.arrays.num_nodes, memory.arrays.diagonal = num_nodes, diagonal
        self.goal_numbers = sweep.GoalNumbers()
        self._remembered: Mapping[str, Any] = {}
        self._scaled: Any = None  # Q times the step size of the arrays whose addresses stand in memory.
        self._steps: dict[str, Any] = {}  # the arrays of steps of any size
        self._factors: Factors | None = None
        solver = problem.linear_solver
        if pattern is None and solver in problem.compiled_solvers:
            self._kept["factors"] = np.empty((kept, n, n))
            self._kept["pivots"] = np.empty((kept, n), dtype=np.int32)
            self._buffers["small"] = np.array([n, 1, 0, ord("N")], dtype=np.int32)
            nodes.getrf, nodes.getrs = lapack("dgetrf"), lapack("dgetrs")
        else:
            nodes.substitute, nodes.refactorize = map(_address_of, ("substitute", "refactorize"))
            refactorize, self._checked = ANSWER(nodes.refactorize), pattern is None
            factors = functools.partial(factorize, solver="auto" if solver == "gmres" else solver)
            about = kept, lambda k: refactorize(nodes.own, k, 0), factors
            taken = pattern is not None and solver in problem.compiled_solvers
            self._factors = Factors(self, *about, shares=False, takes_over=taken)
            nodes.repivot, nodes.solve_outside = self._answer("_repivot"), self._factors.solve_outside
            nodes.krylov = self._answer("_krylov") if solver == "gmres" else 0
            self._buffers |= self._factors.arrays | {"work": np.empty(4 * n)}
        if pattern is not None:
            self._buffers["indices"] = pattern.indices.astype(np.int32)
            self._buffers["starts"] = pattern.indptr.astype(np.int32)
        tell_addresses(nodes, self._kept | self._ages | self._buffers)

    def __reduce__(self) -> Any:
        # A copy has its arrays elsewhere.
        made = (self.problem, self.system.n_integrated, self.owned, self.diagonal, len(self._norms))
        return type(self), made, self.get_state() if self.keeps_state else None

    def _linearize(self, slot: int, u_at: int) -> int:
        """Write both halves of the Jacobian at a point to a slot, NaN where it has none."""
        problem, (u, du) = self.problem, numbers_at(u_at, 2 * self.problem.n).reshape(2, -1).copy()
        mass, stiffness = (self._kept[name][slot] for name in ("masses", "stiffnesses"))
        mass[:] = stiffness[:] = np.nan
        with self._counted(problem, self._nodes.counts):
            mass[:], stiffness[:] = map(np.ravel, linearize(problem, u, du, self._nodes.time).dense)
        return 1

    def _repivot(self, slot: int, _: int) -> int:
        """Factorise the matrix of a slot with pivots of its own; 0 where it is singular."""
        assert self._factors is not None
        if not self._checked:  # The method of the problem itself compares its sparsity pattern.
            (a, m), jacobian = (self.arrays, self._nodes.node), cast(Any, self.problem).jacobian
            point = (attach(rows[m], self.problem.n_diff) for rows in (a.u, a.du))
            jacobian(*point, float(a.times[m]), 1.0)
            self._checked = True
        return self._factors.repivot(slot)

    def matrix_of(self, _: int) -> Any:
        """The matrix that is to be factorised."""
        data, pattern = self._buffers["data"].copy(), self.problem.sparsity
        return data.reshape(self.problem.n, -1) if pattern is None else sparse_matrix(data, pattern)

    def _krylov(self, slot: int, _: int) -> int:
        """Replace a residual by the correction that GMRES finds with the factors of a slot."""
        nodes, problem, system, a = self._nodes, self.problem, self.system, self.arrays
        places = nodes.node_u, nodes.node_du, nodes.value, nodes.delta
        (u, du, value, delta), m = (numbers_at(at, problem.n) for at in places), int(nodes.node)
        time, c = (float(numbers_at(at, m + 1)[m]) for at in (nodes.times, nodes.coefficients))
        system.place(u, du, time, c, (a.time, a.dt), m + 1)
        system.tau, delta[:] = a.right_hand[m], np.nan
        assert self._factors is not None
        with self._counted(problem, nodes.counts):
            delta[:], products = krylov_correction(system, self._factors.outside[slot][0], np.array(value))
            nodes.counts.solve += products
        return 1

    def measure_by(self, weights: Vector, unit: float) -> None:
        super().measure_by(weights, unit)
        self._nodes.weights, self._nodes.unit = address(weights), unit

    def prepare(self, arrays: SweepArrays) -> None:
        super().prepare(arrays)
        a, nodes, memory = arrays, self._nodes, self._memory.arrays
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
        nodes.p, nodes.times = address(self.problem.packed_parameters), address(a.times)
        nodes.tau = 0
        if a.right_hand[0] is not None:
            self._tau = np.array(a.right_hand)
            nodes.tau = address(self._tau)
        if a.coefficients is not self._slots_of:
            nodes.coefficients, self._slots_of = address(a.coefficients), a.coefficients
            _compiled("take_slots", 0)(self._own)
            self._forget_too()
        nodes.tolerance, nodes.residual_tolerance, most, nodes.forcing = a.limits
        nodes.maxiter = int(most)

    def forget(self) -> None:
        _compiled("forget_matrices", 0)(self._own)
        self._slots_of = None
        self._forget_too()

    def _forget_too(self) -> None:
        """Drop the matrices of Python where compiled code has dropped its own."""
        if self._nodes.forgotten:
            super().forget()
            self._nodes.forgotten = 0

    def begin_sweep(self, number: int) -> None:
        super().begin_sweep(number)
        self._nodes.guide_known, self._nodes.trust = 0, number > 0

    def run(self, function: Callable[..., Any], *numbers: Any, **given: Any) -> Any:
        if self.problem.noise is not None:
            return super().run(function, *numbers, **given)
        memory = self._memory
        for name, value in given.items():
            if name == "last":
                memory.last.wanted = value.wanted
                if value.wanted == CONTINUE:
                    memory.last.nodes, memory.last.split = value.nodes, value.split
                    for part in ("matrix", "value", "derivative", "inverse"):
                        tell_rows(getattr(memory.last, part), getattr(value, part))
            elif name == "before":
                for part in ("u", "du", "integral"):
                    tell_rows(getattr(memory.before, part), getattr(value, part))
            elif name == "norms":
                memory.norms = address(value)
            else:
                self.tell_goal(value)
        step, sweeps = memory.step, function is sweep.sweeps
        if sweeps:
            number, step.most, low, step.tolerance, step.only_last, step.to_goal = numbers
            numbers = number, low
        result = _compiled(function.__name__, len(numbers))(self._own, *numbers)
        self._nodes.counts.add_to(self.problem)
        self._failure.check()
        return (step.done, step.reached, step.how, step.value) if sweeps else result

    def tell_goal(self, goal: Goal) -> None:
        """Tell compiled code what sweeps have to reach."""
        memory, self.goal_numbers = self._memory.goal, goal.numbers
        tell_rows(memory.old, goal.old)
        memory.weights, memory.numbers = address(goal.weights), addressof(goal.numbers)

    # --- the state of the matrices --------------------------------------------------------------------------

    def _arrays_of(self, used: int) -> list[Any]:
        """The arrays that hold the state of so many matrices."""
        return [*(array[:used] for array in self._kept.values()), *self._ages.values()]

    def get_matrices(self) -> dict[str, Any]:
        """The state of the matrices in compiled code, on which later solves depend."""
        used = int(self._nodes.used)
        arrays = [array.copy() for array in self._arrays_of(used)]
        factors = None if self._factors is None else self._factors.get_state()
        return {"used": used, "arrays": arrays, "split": self._nodes.split, "factors": factors}

    def set_matrices(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`get_matrices` gave, as if nothing had been solved since."""
        used = self._nodes.used = int(state["used"])
        self._kept["kept"][used:] = -1.0
        for array, known in zip(self._arrays_of(used), state["arrays"], strict=True):
            array[:] = known
        if self._factors is not None:
            self._factors.set_state(state["factors"], self.problem.sparsity)
        self._nodes.split, self._nodes.forgotten, self._memory.step.scaled = state["split"], 0, 0.0
        self._slots_of = None
        self._forget_failure()

    def get_state(self) -> dict[str, Any]:
        return super().get_state() | {"compiled": self.get_matrices()}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        super().set_state(kept)
        self.set_matrices(kept["compiled"])

    __setstate__ = set_state

    def remember(self) -> None:
        super().remember()
        self._remembered = self.get_matrices()

    def recall(self) -> None:
        super().recall()
        self.set_matrices(self._remembered)

    # --- steps that are swept in compiled code --------------------------------------------------------------

    def begin_steps(self, matrices: Any, inverse: Vector, split: int, how: tuple[float, ...]) -> int:
        """Let compiled code sweep steps of any size from the place that was prepared; where its memory is."""
        # ``how`` are the most sweeps, the tolerance of the residual, whether that at the last node alone
        # counts, and whether the sweeps go on to a goal instead.
        # Shapes: inverse (M, M), of Q.
        memory, step, M = self._memory, self._memory.step, len(inverse)
        step.most, step.tolerance, step.only_last, step.to_goal = how
        memory.norms = address(self._norms)
        if not self._steps:
            self._steps = {f"dt_{name}": np.empty((M, M)) for name in ("q", "delta", "inverse")}
            self._steps |= {"coefficients": np.empty(M), "times": np.empty(M)}
        self._steps |= {"q": np.ascontiguousarray(matrices.collocation.Qmat[1:, 1:]), "delta": matrices.delta}
        self._steps |= {"inverse": inverse, "places": np.array(matrices.nodes)}
        tell_addresses(step, self._steps)
        step.scaled = 0.0
        for name in ("q", "delta"):
            tell_rows(getattr(memory.arrays, f"dt_{name}"), self._steps[f"dt_{name}"])
        tell_rows(memory.last.inverse, self._steps["dt_inverse"])
        memory.last.nodes, memory.last.split = M, split
        self._nodes.times, self._nodes.coefficients = step.times, step.coefficients
        self._nodes.counts.add_to(self.problem)
        return addressof(memory)

    def end_steps(self) -> tuple[bool, int, int]:
        """Take note of steps: whether the last was extrapolated, its sweeps, and the nodes it has solved."""
        step = self._memory.step
        self._forget_too()
        self._slots_of = self._scaled = None
        return self._memory.last.wanted == CONTINUE, step.done, step.reached

    # --- single matrices ------------------------------------------------------------------------------------

    def magnitude(self, m: int) -> float:
        place = self.matrix_at(m)
        if place is None:
            return super().magnitude(m)
        n, pattern, terms = self.problem.n, self.problem.sparsity, np.zeros(self.problem.n)
        for name, row in (("masses", self.arrays.du[m]), ("stiffnesses", self.arrays.u[m])):
            values = np.abs(self._kept[name][place[1]])
            matrix = values.reshape(n, n) if pattern is None else sparse_matrix(values, pattern)
            terms += matrix @ np.abs(row)
        return float(terms.max())

    def matrix_at(self, m: int) -> tuple[int, int] | None:
        slot = int(self._buffers["slots"][m])
        known = KeptNumbers.from_buffer(self._kept["kept"][slot]).age >= 0.0
        return (self._nodes.own, slot) if known else None


def tell_rows(memory: Any, array: Any) -> None:
    """Write the address and the row distance of an array into memory of compiled sweeps."""
    memory.place, memory.stride = address(array), array.strides[0] // 8
