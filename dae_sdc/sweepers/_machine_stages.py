"""Stages of a step that are solved by :mod:`dae_sdc.sweepers._simultaneous`, on a record in memory.

Sparse matrices are factorised and solved with by C functions of their own, see :class:`SparseStages`.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from dae_sdc.compiled.triangular import (
    LARGEST_ROW_FILL,
    PARTS,
    ROW_PARTS,
    RowPattern,
    TriangularFactors,
    copy_for,
    superlu_factors,
)
from dae_sdc.dae import newton_checks
from dae_sdc.dae.linear import sparse_factors
from dae_sdc.dae.machine_code import entry
from dae_sdc.dae.memory import CallbackFailure, Counts, address, fields, lapack, tell_addresses
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import (
    EndDerivative,
    MeshDAE,
    StepPolynomial,
    Vector,
    attach,
    coefficients_of_last,
    lagrange_weights,
)
from dae_sdc.errors import SingularMatrixError
from dae_sdc.sweepers import simultaneous as own, steps_ahead
from dae_sdc.sweepers.simultaneous import NOT_JUDGED, RunNumbers, Simultaneous, StepNumbers
from dae_sdc.sweepers.teams import EVALUATE, FACTORIZE, FILTER, SOLVE
from dae_sdc.sweepers.tolerance import Weights

COMPILED = "dae_sdc.sweepers._simultaneous"  # Home of the C functions.

ANSWER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@functools.cache
def act() -> Any:
    """The function that solves a step of the stages at an address, or does another piece of its work."""
    kinds = ctypes.c_int64, ctypes.c_int64, ctypes.c_double, ctypes.c_double, *3 * (ctypes.c_int64,)
    return ctypes.PYFUNCTYPE(ctypes.c_double, *kinds)(entry(f"{COMPILED}:act").address)


@functools.cache
def answer_of(name: str) -> Any:
    """The C function of a name that does a part of the work."""
    return ANSWER(entry(f"{COMPILED}:{name}").address)


class StagesMemory(ctypes.Structure):
    """What stages are solved on, for Python and for compiled code: addresses of doubles unless said."""

    _fields_ = [
        ("numbers", StepNumbers),
        ("counts", Counts),
        ("run", RunNumbers),
        *fields(ctypes.c_double, "called_time called_step"),  # of the step that ``working`` is called for
        *fields(ctypes.c_double, "time step"),  # where F is evaluated in parts
        *fields(ctypes.c_double, "time_before step_before"),  # start and size of the step before
        *fields(ctypes.c_double, "jacobian_at"),  # where in the step the Jacobian is evaluated
        *fields(
            ctypes.c_double, "rtol rate least_rate part high between_rtol late_rtol"
        ),  # see dae_sdc.sweepers.tolerance.Weights and Scales
        *fields(
            ctypes.c_int64,
            "own working",  # addresses of this structure, and of ``_work_at``
            # Of steps that are taken one after the other: their number and the most; the sizes of steps, as
            # numbers and as they were when a step began; rows of numbers, see ``begin_step``; their stages;
            # and the estimates of errors, where they are kept.
            "taken room step_sizes sizes_before work_rows run_u run_du graded estimates",
            # Of errors between nodes, see ``error_between``; 0 without an absolute tolerance.
            "last_coefficients between_counted between_atol",
            "late_counted late_atol",  # likewise of errors at the end of unknowns of index 2
            "share",  # in Python: does the parts of a piece of work, see dae_sdc.sweepers.teams; 0 without
            "checks",  # whether errors of the last stage are checked
            "between",  # number of places between the nodes at which F is checked
            "several chunks",  # 1 where each matrix has scratch memory of its own; parts of SPREAD
            "residual jacobian p",  # kernels, and their parameters
            "dgetrf dgetrs zgetrf zgetrs",  # functions of LAPACK
            "small",  # see machine_newton.NodesMemory, (1 or P + 1, 4)
            # numbers: of stages solved together, of unknowns, of those that are differential, of complex
            # pairs, of entries, and of stages of a step
            "m n n_diff pairs entries rows",
            # Whether stages are solved in turn, see :class:`StageOperations`; the current one; (S, n), those
            # of the step; (n,), what its h a_ij U_j are added to; (S,), weights of an error estimate, and c.
            "in_turn stage step_u step_du base differences nodes",
            "u_before du_before",  # (M, n), the stages of the step before
            "u0 du0 weights error estimated checked",  # (n,)
            "amplifies others",  # whether rounding counts in some unknowns, and 0 for these, (n,)
            "sizes expected seen atol counted exponents",  # (n,), see Weights and Scales; the last integers
            "follows watched highest slowest",  # whether sizes and seen follow u; extreme exponents
            "guess du u value transformed change",  # (M, n)
            "places value_between slope_between",  # (P,), (P, M + 1) and (P, M): between the nodes
            "h_a to back",  # (M, M)
            # (S, S), (M, M) and (M, M); the last takes stages of the step before to those of this one
            "A inverse continuation",
            "at_start middle at_end to_middle c lagrange",  # (M,); the last are 1 / prod_{j != k} (c_k - c_j)
            "work directions",  # (2, n), (DIRECTIONS, n)
            "mass",  # dF/du', row by row or the entries of the pattern
            "stiffness",  # dF/du times the coefficient at which it was evaluated
            "end_matrix end_lu end_pivots",  # the matrix of the last stage, and its factors where it is dense
            "real_lu real_pivots",  # LU factors, column by column, and integers of 32 bits
            "pair_lu pair_pivots",  # the factors of the pairs are complex, (P, n, n)
            "eigenvalues row",  # complex, (P,) and (1 or P + 1, n)
            "coefficients",  # of the stiffness in each matrix, the real one first; complex, (P + 1,)
            # Functions for sparse matrices, see SparseStages; 0 with dense ones.
            "refactorize substitute multiply refine",
            "repivot solve_outside",  # in Python: new pivots, and solves with factors of SuperLU
            "indices starts",  # of the CSC pattern, integers of 32 bits
            "data scratch",  # complex, (1 or P + 1, entries), the matrix, and (1 or P + 1, 4 n)
            "triangles",  # addresses of the parts of the factors, integers, (P + 2, 10); the first 0 without
            "patterns",  # addresses of the parts of the row patterns, integers, (P + 2, 4)
            "lasted",  # factorisations with the same pivots, integers, (P + 1,)
        ),
    ]


class MachineStages(Simultaneous):
    """:class:`Simultaneous` in compiled code, for a problem with kernels of dense Jacobians."""

    def __init__(self, problem: ProblemDAE, *method: Any) -> None:
        super().__init__(problem, *method)
        n, m, team = problem.n, self.m, self.team
        memory: Any = StagesMemory(self.numbers)
        self._memory = memory
        self.numbers, self.counts, memory.own = memory.numbers, memory.counts, ctypes.addressof(memory)
        self.run = memory.run
        memory.working = entry(f"{COMPILED}:working").address
        memory.m, memory.n, memory.n_diff, memory.pairs = m, n, problem.n_diff, len(self.pairs)
        memory.rows, memory.in_turn, memory.jacobian_at = self.rows, int(self.in_turn), self.jacobian_at
        memory.chunks = 1 if team is None else team.at_once
        memory.several, memory.checks = int(memory.chunks > 1), int(self.checked.any())
        memory.between, memory.amplifies = len(self.places), int(self.multipliers.any())
        self._copies = len(self.pairs) + 1 if memory.several else 1
        self._failure = CallbackFailure()
        self._shared = None if team is None else python_answer(self, type(self)._share_parts)
        self._arrays: dict[str, Any] = {
            **{name: getattr(self, name) for name in KNOWN},
            "work": np.empty((2, n)),
            "others": np.where(self.multipliers, 0.0, 1.0),
            "directions": newton_checks.directions(n),
            "continuation": np.empty((m, m)),
            "lagrange": lagrange_weights(self.c[-m:]),
            "last_coefficients": coefficients_of_last(self.nodes[-m:]),
            "nodes": self.c,
            "eigenvalues": np.ascontiguousarray(self.pairs),
            "coefficients": np.zeros(len(self.pairs) + 1, dtype=np.complex128),
            "row": np.empty((self._copies, n), dtype=np.complex128),
        }
        self._before: tuple[Vector, Vector] | None = None  # the stages of the step before
        self._begin_problem()
        self._make_matrices()

    def solve_plainly(self) -> None:
        super().solve_plainly()
        self._memory.checks = 0

    def _begin_problem(self) -> None:
        """Tell compiled code of the problem and of the sizes of its unknowns."""
        memory, scales = self._memory, self.problem.run_scales
        kernels: Any = self.problem.kernels
        self._owners = kernels
        memory.residual, memory.jacobian = kernels.residual, kernels.jacobian
        sizes = {"sizes": scales.unknowns, "expected": scales.expected, "seen": scales.seen}
        self._arrays |= sizes
        tell_addresses(memory, sizes)
        self._parameters: Any = None
        self._by_numpy = False  # whether NumPy made the matrices, which compiled code does not have
        # Weights that compiled code knows, by the beginning of its fields.
        self._told: dict[str, Weights] = {}
        self._advanced: int | None = None  # how Newton's method has ended in a step that was begun ahead

    def serve(self, problem: ProblemDAE) -> bool:
        last = self.problem
        dense = self.team is None and problem.solver_kernels is not None and problem.sparsity is None
        same = (problem.n_diff, problem.n, problem.index) == (last.n_diff, last.n, last.index)
        if not (type(self) is MachineStages and dense and same):
            return False
        if problem.variable_index != last.variable_index:
            return False
        self.problem = problem
        for numbers in (self.numbers, self.counts, self.run):
            ctypes.memset(ctypes.addressof(numbers), 0, ctypes.sizeof(numbers))
        self.begin_run()
        self._begin_problem()
        return True

    def _make_matrices(self) -> None:
        """Allocate matrices and their factors, and set the functions that use them."""
        n, pairs, memory = self.problem.n, len(self.pairs), self._memory
        for name in ("dgetrf", "dgetrs", "zgetrf", "zgetrs"):
            setattr(memory, name, lapack(name))
        memory.entries = n * n
        self._arrays |= {
            "mass": np.zeros((n, n)),
            "stiffness": np.zeros((n, n)),
            "end_matrix": np.empty((n, n)),
            "end_lu": np.empty((n, n)),
            "end_pivots": np.empty(n, dtype=np.int32),
            "real_lu": np.empty((n, n)),
            "real_pivots": np.empty(n, dtype=np.int32),
            "pair_lu": np.empty((pairs, n, n), dtype=np.complex128),
            "pair_pivots": np.empty((pairs, n), dtype=np.int32),
            "small": np.tile(np.array([n, 1, 0, ord("N")], dtype=np.int32), (self._copies, 1)),
        }
        tell_addresses(memory, self._arrays)

    def _act(self, what: int, t0: float, h: float, judging: tuple[int, bool, bool] = NOT_JUDGED) -> float:
        if self._by_numpy:
            return super()._act(what, t0, h, judging)
        p = self.problem.packed_parameters
        if p is not self._parameters:
            self._parameters = p
            self._memory.p = address(p)
        shared = None if self.team is None or self.team.idle else self._shared
        self._memory.share = 0 if shared is None else ctypes.cast(shared, ctypes.c_void_p).value
        result: float = act()(self._memory.own, what, t0, h, *judging)
        self._failure.check()
        if self.in_turn:
            stage = int(self._memory.stage)
            self.at, self.real = slice(stage, stage + 1), float(self.A[stage, stage])
        return result

    def _share_parts(self, kind: int, count: int) -> int:
        """Let the team do a piece of work, for compiled code."""
        assert self.team is not None
        m = len(self.c)
        rows, ends = {
            EVALUATE: (self.value, range(m + 1)),
            SOLVE: (self.transformed, self._ends),
            FILTER: (self.error[None], (0, 1)),
        }.get(kind, (None, None))
        return int(self.team.share(kind, functools.partial(self._do_part, kind), count, rows, ends))

    def _do_part(self, kind: int, part: int) -> int:
        done: int = answer_of("part")(self._memory.own, kind, part)
        self._failure.check()
        return done

    def _allocate(self) -> None:
        super()._allocate()
        memory = self._memory
        memory.du = memory.step_du = address(self.du)
        memory.u = memory.step_u = address(self.u)

    def begin(self, u0: MeshDAE, t0: float, h: float) -> bool:
        return u0.polynomial is None if self._advanced is not None else super().begin(u0, t0, h)

    def continues(self, before: Any) -> bool:
        """Whether compiled code continues the polynomial of the step before."""
        if self.in_turn:
            return True
        alike = type(before) is StepPolynomial and before.nodes == self.nodes and self.nodes[-1] == 1.0
        return bool(alike and before.n_integrated == self.problem.n)

    def _continue(self, before: Any, t0: float, h: float) -> None:
        if not self.continues(before):
            super()._continue(before, t0, h)
            return
        self._take_step_before(before)
        act()(self._memory.own, own.CONTINUE, t0, h, 0, False, False)

    def _take_step_before(self, before: Any) -> None:
        memory = self._memory
        if self.in_turn:
            slope = before.derivative_at_end()
            self._before, memory.du_before = (slope, slope), address(slope)
            return
        self._before = u, du = np.ascontiguousarray(before.value), np.ascontiguousarray(before.derivative)
        memory.u_before, memory.du_before = address(u), address(du)
        memory.time_before, memory.step_before = before.time, before.dt

    def weigh(self, weights: Weights, h: float, first: bool, floor: bool = True) -> None:
        if self._advanced is not None:
            return
        self._begin_weights(weights)
        act()(self._memory.own, own.WEIGH, 0.0, h, 0, not first, floor)
        self._end_weights(weights)

    def weigh_within(self, weights: Weights, h: float) -> bool:
        return bool(act()(self._memory.own, own.WITHIN, 0.0, h, *NOT_JUDGED))

    def _begin_weights(self, weights: Weights) -> None:
        """Tell compiled code how errors are weighted, and with which rate of change."""
        memory, scales = self._memory, weights.scales
        if weights is not self._told.get(""):
            exponents = np.ascontiguousarray(weights.exponents, dtype=np.int64)
            memory.part, memory.high = weights.part, weights.high
            memory.slowest, memory.highest = int(exponents.min()), int(exponents.max())
            self._arrays["exponents"], memory.exponents = exponents, address(exponents)
            self.judge_by("", weights)
        memory.follows, memory.watched = scales.running, scales.running and scales.watched
        memory.rate, memory.least_rate = scales.rate, scales.least_rate

    def _end_weights(self, weights: Weights) -> None:
        weights.scales.rate, weights.least_factor = self._memory.rate, weights.rtol

    # --- steps taken ahead ----------------------------------------------------------------------------------

    def goes_ahead(self, value: Any) -> bool:
        """Whether steps can be taken ahead from a state."""
        idle = self.team is None and not self._by_numpy and self._advanced is None
        before = value.polynomial
        if self.numbers.plain and not self.in_turn:  # the first step has no guess
            return idle and self.continues(before)
        if self.in_turn:  # an explicit stage needs u' at the start
            return idle and (before is not None or bool(self.A[0].any()))
        return idle and (before is None or type(before) is EndDerivative or self.continues(before))

    def judge_by(self, prefix: str, weights: Weights | None, mask: Any = 1.0) -> bool:
        """Tell compiled code by which weights errors of some unknowns, 1 in the mask, count, if by any."""
        if weights is None or weights is self._told.get(prefix):
            return weights is not None
        self._told[prefix] = weights
        memory, arrays = self._memory, {f"{prefix}counted": np.ascontiguousarray(mask * weights.counted)}
        if weights.atol is not None:
            arrays[f"{prefix}atol"] = np.ascontiguousarray(weights.atol, dtype=np.float64)
        setattr(memory, f"{prefix}atol", 0)
        setattr(memory, f"{prefix}rtol", weights.rtol)
        self._arrays |= arrays
        tell_addresses(memory, arrays)
        return True

    def error_between(self, weights: Weights, judged: Vector) -> float:
        """The largest error between the nodes of a solved step, in units of what is allowed."""
        if self.m < 3 or not self.judge_by("between_", weights, judged):
            return 0.0
        return float(act()(self._memory.own, own.BETWEEN, 0.0, 0.0, *NOT_JUDGED))

    def take_steps(
        self, value: MeshDAE, weights: Any, arrays: Mapping[str, Vector], numbers: Mapping[str, int]
    ) -> tuple[int, int]:
        """Take steps ahead from a state; how they have ended, and how many they are."""
        memory = self._memory
        self.u0[:] = value
        if isinstance(value.polynomial, StepPolynomial) or (self.in_turn and value.polynomial is not None):
            self._take_step_before(value.polynomial)
        else:
            memory.step_before = 0.0
        if isinstance(value.polynomial, EndDerivative) and not self.in_turn:
            # Of the stages before, the last alone is looked at.
            slopes = np.empty((len(self.c), len(value)))
            slopes[-1] = value.polynomial.value
            self._before, memory.du_before = (slopes, slopes), address(slopes)
        if weights is not None:
            self._begin_weights(weights)
        tell_addresses(memory, arrays)
        for name, number in numbers.items():
            setattr(memory, name, number)
        memory.taken = 0
        status = int(self._act(own.STEPS, 0.0, 0.0))
        if weights is not None:
            self._end_weights(weights)
        if status == steps_ahead.UNFINISHED:
            self._advanced = int(self.run.status)
        return status, int(memory.taken)

    def get_run(self) -> tuple[bytes, bytes, dict[str, Any]]:
        """All that steps taken ahead change, but for sizes of unknowns and steps."""
        return bytes(self.counts), bytes(self.run), self.get_state()

    def set_run(self, kept: tuple[bytes, bytes, dict[str, Any]]) -> None:
        """Restore what :meth:`get_run` gave, as if no step had been taken since."""
        counts, run, state = kept
        ctypes.memmove(ctypes.addressof(self.counts), counts, len(counts))
        ctypes.memmove(ctypes.addressof(self.run), run, len(run))
        self.set_state(state)
        self._advanced = None

    def drop_step(self) -> None:
        """Forget the step that was begun ahead."""
        self._advanced = None

    def count_before(self, step: Vector | None) -> None:
        """Add the work that is not of the step that has begun, whose row has it with the other sign."""
        counts: Any = np.frombuffer(self.counts, dtype=np.int64)
        if step is None:
            self.count()
            return
        all_of_it = counts.copy()
        counts[:] = -step
        self.count()
        counts[:] = all_of_it + step.astype(np.int64)

    def solve(self, t0: float, h: float, first: int = 1, looks: bool = False) -> int:
        status = super().solve(t0, h, first, looks)
        numbers = self.numbers
        if status in (own.DIVERGED, own.SLOW, own.UNRESOLVED) and numbers.doubtful:
            if Simultaneous.changes_by_rounding(self, t0, h):
                numbers.eta, numbers.rate, status = 1.0, 0.0, own.SOLVED
        return status

    def _advance(self, t0: float, h: float, first: int, looks: bool) -> int:
        if self._by_numpy:
            self.forget()
            self._by_numpy = False
        status, self._advanced = self._advanced, None
        if status is None:
            status = int(self._act(own.ADVANCE, t0, h, (first, False, looks)))
        if status != own.UNDEFINED or self.numbers.linearized > 0.0 or self.numbers.plain:
            return status
        # Where the kernel of the Jacobian gives NaN, differences may still give a matrix.
        self.forget()
        self._by_numpy = True
        if self.in_turn:
            self.begin_in_turn(h)
        return super()._advance(t0, h, first, looks)

    def _slope(self, t0: float, h: float) -> float:
        found = self._act(own.SLOPE, t0, h)
        if np.isfinite(found):
            return found
        self.forget()
        return super()._act(own.SLOPE, t0, h)

    def get_state(self) -> dict[str, Any]:
        if self._by_numpy:
            self.forget()
        return self._kept_arrays(FACTORS if self.numbers.linearized > 0.0 else ())

    def _kept_arrays(self, names: Sequence[str]) -> dict[str, Any]:
        """Copies of arrays, and of the numbers, for a checkpoint."""
        arrays = {"numbers": np.frombuffer(self.numbers)} | {name: self._arrays[name] for name in names}
        return {name.upper(): array.copy() for name, array in arrays.items()}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        arrays = {"numbers": np.frombuffer(self.numbers)} | self._arrays
        for name, array in kept.items():
            arrays[name.lower()][:] = array

    def __deepcopy__(self, memo: Any) -> MachineStages:
        # Addresses belong to the arrays of one object; a copy begins with matrices of its own.
        return type(self)(self.problem, self.A, self.c, self.team, self.differences if self.in_turn else None)


def python_answer(stages: Any, method: Callable[[Any, int, int], int]) -> Any:
    """A C function that calls a method, and keeps what it raises until compiled code is left."""
    known = weakref.ref(stages)

    def call(_: int, k: int, argument: int) -> int:
        own = known()
        assert own is not None, "it is called by its own compiled code alone"
        try:
            return method(own, k, argument)
        except BaseException as error:
            own._failure.keep(error)
            return 0

    return ANSWER(call)


# Arrays of the matrices that are kept, where they are dense.
FACTORS = ("mass", "stiffness", "real_lu", "real_pivots", "pair_lu", "pair_pivots")
# Arrays of :class:`Simultaneous` that are allocated once, not anew for every step.
KNOWN = (
    *("u0", "du0", "guess", "value", "transformed", "change", "h_a", "to", "back", "at_start", "middle"),
    *("at_end", "to_middle", "weights", "error", "estimated", "c", "A", "inverse", "checked"),
    *("places", "value_between", "slope_between", "base", "differences"),
)

# --- sparse matrices ----------------------------------------------------------------------------------------

# Entries of factors a row from which on a factorisation is costly: each of n rows takes the product of a row
# of L and one of U, a quarter of the entries squared and divided by n at least, in multiplications.
COSTLY_ROW_FILL = 40
PAYING_FACTORIZATIONS = 4  # Factorisations with one pivot order from which on its reuse saves time.
# Number of pivot orders in succession that served fewer factorisations, after which SuperLU is used.
MOST_SHORT_LIVED = 4

# Arrays that the next step may depend on, besides the factors.
REMEMBERED = ("mass", "stiffness", "coefficients", "lasted")


class SparseStages(MachineStages):
    """:class:`MachineStages` with kernels of a CSC pattern."""

    # SuperLU chooses the pivots of the real matrix. With these the complex matrices are factorised too, and
    # those of the next steps, in compiled code; one whose pivots get too small gets its own. Factors that are
    # rather full stay with SuperLU, which works on blocks, and so does a matrix that needs new pivots all the
    # time.

    def _make_matrices(self) -> None:
        problem, memory, count = self.problem, self._memory, len(self.pairs) + 1
        pattern = self._pattern = problem.sparsity
        entries = self._entries = len(pattern.indices)
        self._arrays |= {
            "mass": np.zeros(entries),
            "stiffness": np.zeros(entries),
            "end_matrix": np.empty(entries),
            "indices": pattern.indices.astype(np.int32),
            "starts": pattern.indptr.astype(np.int32),
            "data": np.empty((self._copies, entries), dtype=np.complex128),
            "scratch": np.empty((self._copies, 4 * problem.n), dtype=np.complex128),
            "triangles": np.zeros((count + 1, PARTS), dtype=np.int64),
            "patterns": np.zeros((count + 1, ROW_PARTS), dtype=np.int64),
            "lasted": np.zeros(count, dtype=np.int64),
        }
        self._kept: dict[int, tuple[TriangularFactors, RowPattern]] = {}
        self._outside: dict[int, Any] = {}
        self._vain = [0] * count
        self._checked = False
        self._real_is_done = False
        self._first = threading.Lock()
        self._called = tuple(
            python_answer(self, method) for method in (SparseStages._repivot, SparseStages._solve_outside)
        )
        memory.repivot, memory.solve_outside = (
            ctypes.cast(function, ctypes.c_void_p).value for function in self._called
        )
        for name in ("refactorize", "substitute", "multiply", "refine"):
            setattr(memory, name, entry(f"{COMPILED}:{name}").address)
        memory.entries = entries
        tell_addresses(memory, self._arrays)

    def _act(self, what: int, t0: float, h: float, judging: tuple[int, bool, bool] = NOT_JUDGED) -> float:
        pattern = self.problem.sparsity
        if pattern is not self._pattern or len(pattern.indices) != self._entries:
            self._make_matrices()
            self.forget()
        self._time = t0 + 0.5 * h
        return super()._act(what, t0, h, judging)

    def get_state(self) -> dict[str, Any]:
        kept = [(k, list(factors[:-1]), list(pattern)) for k, (factors, pattern) in self._kept.items()]
        about = {"kept": kept, "outside": list(self._outside), "vain": self._vain, "checked": self._checked}
        return self._kept_arrays(REMEMBERED) | about

    def set_state(self, kept: Mapping[str, Any]) -> None:
        super().set_state({name: kept[name] for name in map(str.upper, ("numbers", *REMEMBERED))})
        for k, factors, pattern in kept["kept"]:
            self._put(k, TriangularFactors(*(*factors, self.problem.n)), RowPattern(*pattern))
        for k in kept["outside"]:
            self._outside[k] = sparse_factors(self._matrix(k))
        self._vain, self._checked = kept["vain"], kept["checked"]

    def _known(self, k: int) -> bool:
        return k in self._kept or k in self._outside

    def _do_part(self, kind: int, part: int) -> int:
        if kind != FACTORIZE or (part and self._known(part)):
            return super()._do_part(kind, part)
        # The complex matrices begin with the pivots of the real one, in whichever order they come. A rank
        # that has no share in that needs it too, at this step size: pivots may depend on the size.
        with self._first:
            if not self._real_is_done:
                self._real_is_done = super()._do_part(kind, 0) != 0
            found = int(self._real_is_done)
        return super()._do_part(kind, part) if part else found

    def _share_parts(self, kind: int, count: int) -> int:
        self._real_is_done = False
        if kind == FACTORIZE and not self._known(0) and self.team is not None and self.team.separate:
            # The pivots that all matrices begin with are those of the first one, on every rank.
            self.team.everywhere(lambda: self._do_part(kind, 0))
        return super()._share_parts(kind, count)

    # --- called by compiled code ----------------------------------------------------------------------------

    def _repivot(self, k: int, _: int) -> int:
        """Factorise matrix k with pivots of its own; 0 where it is singular."""
        if not self._checked:  # The method of the problem itself compares its sparsity pattern.
            n_diff, (du, u) = self.problem.n_diff, self._arrays["work"]
            jacobian: Any = self.problem.jacobian
            jacobian(attach(u, n_diff), attach(du, n_diff), self._time, 1.0)
            self._checked = True
        known = k in self._kept
        if not known and k not in self._outside and 0 in self._kept:
            factors, pattern = self._kept[0]
            self._put(k, copy_for(factors, np.complex128), pattern)
            if answer_of("refactorize")(self._memory.own, k, 0):
                return 1
        elif known:
            lasted = self._arrays["lasted"]
            self._vain[k] = self._vain[k] + 1 if lasted[k] < PAYING_FACTORIZATIONS else 0
            lasted[k] = 0
        matrix = self._matrix(k)
        if not np.isfinite(matrix.data).all():
            return 0
        try:
            lu = sparse_factors(matrix)
            if k == 0:
                self.numbers.costly = float(lu.nnz > COSTLY_ROW_FILL * self.problem.n)
            if lu.nnz > LARGEST_ROW_FILL * self.problem.n or self._vain[k] >= MOST_SHORT_LIVED:
                self._outside[k] = lu
                self._kept.pop(k, None)
                self._arrays["triangles"][k :: len(self.pairs) + 1] = 0
            else:
                self._put(k, *superlu_factors(lu, matrix))
        except SingularMatrixError:
            return 0
        return 1

    def _matrix(self, k: int) -> Any:
        c = self._arrays["coefficients"][k]
        data = self._arrays["mass"] + (c if k else c.real) * self._arrays["stiffness"]
        parts = (data, self._arrays["indices"], self._arrays["starts"])
        return sparse.csc_matrix(parts, shape=self._pattern.shape)

    def _put(self, k: int, factors: TriangularFactors, pattern: RowPattern) -> None:
        self._kept[k] = factors, pattern
        placed = {k: factors}
        # The pivots may differ from rank to rank, and with them the rounding of the last stage.
        if k == 0 and self._memory.checks and not (self.team is not None and self.team.separate):
            placed[len(self.pairs) + 1] = self._of_end = copy_for(factors)
        for place, parts in placed.items():
            self._arrays["triangles"][place] = [address(part) for part in parts[:-1]]
            self._arrays["patterns"][place] = [address(part) for part in pattern]

    def _solve_outside(self, k: int, x_at: int) -> int:
        """Solve with SuperLU's factors of matrix k in place: for a complex row, but for the first matrix."""
        memory: Any = (ctypes.c_double * (self.problem.n * (2 if k else 1))).from_address(x_at)
        x = np.frombuffer(memory, dtype=np.complex128 if k else np.float64)
        x[:] = self._outside[k].solve(x)
        return 1
