"""Stages of a step that are solved by :mod:`dae_sdc.sweepers._simultaneous`, on a record in memory."""

# Equations in Python are called back, and sparse matrices are factorised by C functions of their own.

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from dae_sdc.dae import newton_checks, state as polynomials
from dae_sdc.dae.jacobian import NOISE_LIMIT, improve_differences, linearize, may_improve_differences
from dae_sdc.dae.linear import factorize, sparse_factors
from dae_sdc.dae.machine_code import entry
from dae_sdc.dae.memory import Counts, address, fields, lapack, tell_addresses
from dae_sdc.dae.newton import ModifiedNewton, NodeSystem
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import EndDerivative, MeshDAE, StepPolynomial, Vector, attach, reaches
from dae_sdc.errors import EvaluationError, SolveError
from dae_sdc.sweepers import simultaneous as own, steps_ahead
from dae_sdc.sweepers._answers import ANSWER, Answers, Factors, everywhere, numbers_at, sparse_matrix
from dae_sdc.sweepers.simultaneous import NOT_JUDGED, RunNumbers, StepNumbers, coefficients_of
from dae_sdc.sweepers.teams import CALL, EVALUATE, FACTORIZE, FILTER, SOLVE, Team
from dae_sdc.sweepers.tolerance import Weights, multipliers, operators_at, rounding_noise

COMPILED = "dae_sdc.sweepers._simultaneous"  # Home of the C functions.


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
        *fields(
            ctypes.c_double, "called_time called_step answered"
        ),  # for ``working``, and a number it gives
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
            # (2, 3, L + 1), for the last L stages of a step
            "last_coefficients between_counted between_atol spread",
            "late_counted late_atol",  # likewise of errors at the end of unknowns of index 2
            "share",  # in Python: does the parts of a piece of work, see dae_sdc.sweepers.teams; 0 without
            # Where stages are swept, see ``sweep_nodes``: the address of a SweepMemory, or 0, of the function
            # that sweeps; weights of the stages in u' at the end.
            "swept sweep end_row",
            # Of the matrix of a node that judges stages, -1 for that of their own, and -2 in Python.
            "nodes_of slot by_node n_integrated",
            "checks",  # whether errors of the last stage are checked
            "between",  # number of places between the nodes at which F is checked
            # Function and number K of arguments of steep functions, see ``add_residual_at_peaks``, and (4, K)
            "peaks peak_count peak_values",
            "several chunks",  # 1 where each matrix has scratch memory of its own; parts of SPREAD
            "residual jacobian p",  # kernels, and their parameters
            # In Python, where there are no kernels: F at all stages, and both halves of the Jacobian, which
            # may be missing alone; and (n,), what noise F has, or 0.
            "evaluate linearize noise",
            "noise_at_end",  # in Python: writes the error by rounding of F at the last stage
            "term_sizes tell_term_sizes",  # function for sizes of equations, 0 without; in Python: tells it
            "by_differences",  # likewise both halves of a Jacobian whose kernel gives NaN
            "of_end",  # whether the Jacobian is that of the last stage, in one matrix
            "dgetrf dgetrs zgetrf zgetrs",  # functions of LAPACK
            "small",  # see machine_newton.NodesMemory, (1 or P + 1, 4)
            # numbers: of stages solved together, of unknowns, of those that are differential, of complex
            # pairs, of entries, and of stages of a step
            "m n n_diff pairs entries rows",
            # Whether stages are solved in turn, see :class:`StageOperations`; the current one; (S, n), those
            # of the step; (n,), what its h a_ij U_j are added to; (S,), weights of an error estimate, and c.
            "in_turn stage step_u step_du base differences nodes",
            "u_before du_before",  # (M, n), the stages of the step before
            "explicit",  # whether u at the only stage depends on the past alone
            # Number P of past values that a multistep method continues, 0 without; (3, P), their weights and
            # those of their u' in the formula, and their weights in the guess.
            "past of_past",
            "u0 du0 weights error estimated checked",  # (n,)
            "amplifies others rounding",  # whether it counts in some unknowns, 0 for these, and theirs, (n,)
            "sizes expected seen atol counted exponents",  # (n,), see Weights and Scales; the last integers
            "follows watched highest slowest",  # whether sizes and seen follow u; extreme exponents
            "guess du u value transformed change",  # (M, n)
            # (P + 1,), (P + 1, M + 1) and (P + 1, M): between the nodes, the last for any place
            "places value_between slope_between",
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
            "refactorize substitute refine",
            "repivot solve_outside",  # in Python: new pivots, and solves with factors of SuperLU
            "indices starts",  # of the CSC pattern, integers of 32 bits
            "data scratch",  # complex, (1 or P + 1, entries), the matrix, and (1 or P + 1, 4 n)
            "triangles",  # addresses of the parts of the factors, integers, (P + 2, 10); the first 0 without
            "patterns",  # addresses of the parts of the row patterns, integers, (P + 2, 4)
            "lasted",  # factorisations with the same pivots, integers, (P + 1,)
        ),
    ]


def keys_of(pattern: Any) -> npt.NDArray[np.int64]:
    """A number for each entry of a CSC matrix, or of None, column by column."""
    if pattern is None:
        return np.empty(0, dtype=np.int64)
    n = pattern.shape[0]
    return np.asarray(pattern.indices + n * np.repeat(np.arange(n), np.diff(pattern.indptr)), dtype=np.int64)


# Arrays of the matrices that are kept, where they are dense.
FACTORS = ("mass", "stiffness", "real_lu", "real_pivots", "pair_lu", "pair_pivots", "rounding")
# Arrays that the next step may depend on, besides the factors, where they are sparse.
REMEMBERED = ("mass", "stiffness", "coefficients", "indices", "starts", "rounding")

# Entries of factors a row from which on a factorisation is costly: each of n rows takes the product of a row
# of L and one of U, a quarter of the entries squared and divided by n at least, in multiplications.
COSTLY_ROW_FILL = 40


class StageEquations(Answers):
    """The stages of a method on memory, with their matrices, and equations by kernels or in Python."""

    # Shapes: A (S, S), c and differences (S,). M stages are solved together, ``at`` these rows of all S: they
    # are all, or 1 with ``differences``, the weights of a pair less its embedded ones, where A is triangular.

    def __init__(
        self,
        problem: ProblemDAE,
        A: Vector,
        c: Vector,
        team: Team | None = None,
        differences: Vector | None = None,
    ) -> None:
        self.problem, self.team = problem, team
        self.A, self.c = np.ascontiguousarray(A), np.ascontiguousarray(c)
        self.nodes, self.in_turn = tuple(self.c.tolist()), differences is not None
        self.differences = np.zeros(len(c)) if differences is None else differences
        explicit = not self.A.any()
        together = (self.A[-1:, -1:] + explicit, (1.0,)) if self.in_turn else (self.A, self.nodes)
        self._eigenvalue, known = coefficients_of(together[0].tobytes(), together[1])
        m, n = self.m, self.n = len(together[1]), problem.n
        self.rows = len(c)
        # Stages that are solved in turn are checked by their residuals alone.
        self.multipliers = multipliers(problem) & (not self.in_turn)
        # 1 for unknowns whose error at the end is checked: rounding hides it in those of index 2 and higher.
        index = np.array(problem.variable_index)
        self.checked = np.where((index < 2) & (index.max(initial=0) < 3 and not self.in_turn), 1.0, 0.0)
        self.inverse, self.u0, self.du0, self.weights = known["inverse"], np.zeros(n), np.zeros(n), np.ones(n)
        # What h a_ij U_j of the rows solved together are added to: the start, and parts of stages before.
        self.base = np.zeros(n) if self.in_turn else self.u0
        self.h_a, self.guess, self.value = np.empty((m, m)), np.zeros((m, n)), np.zeros((m, n))
        change = np.zeros((m + 1, n))  # with F at the last stage behind the change
        self.change, self.error, self.estimated = change[:m], np.empty(n), np.empty(n)
        memory: Any = StagesMemory()
        self.numbers, self.counts, self.run = memory.numbers, memory.counts, memory.run
        memory.own, memory.working = ctypes.addressof(memory), entry(f"{COMPILED}:working").address
        memory.m, memory.n, memory.n_diff, memory.pairs = m, n, problem.n_diff, len(known["eigenvalues"])
        memory.rows, memory.in_turn, memory.jacobian_at = self.rows, int(self.in_turn), 0.5
        memory.slot, memory.n_integrated, memory.explicit = -1, n, int(explicit)
        self.n_integrated, self.swept_by, self.interior = n, cast(Any, None), False
        memory.chunks = 1 if team is None else team.at_once
        memory.several, memory.checks = int(memory.chunks > 1), int(self.checked.any())
        memory.between, memory.amplifies = len(known["places"]) - 1, int(self.multipliers.any())
        places = self.nodes[1:] if self.in_turn else self.nodes[-m:]
        memory.spread = self.spread = len(places) if len({0.0, *places}) > len(places) else 0
        names = "A c differences u0 du0 weights base h_a guess value error estimated checked"
        arrays: dict[str, Any] = {name: array.copy() for name, array in known.items()}
        arrays |= {name: getattr(self, name) for name in names.split()} | {
            "change": change,
            "transformed": np.zeros((m, n)),
            "work": np.empty((2, n)),
            "others": np.where(self.multipliers, 0.0, 1.0),
            "rounding": np.zeros(n),
            "exponents": index.astype(np.int64) - 1,
            "counted": np.ones(n),
            "directions": newton_checks.directions(n),
            "continuation": np.empty((m, m)),
            "lagrange": polynomials.lagrange_weights(self.c[-m:]),
            "last_coefficients": polynomials.coefficients_of_last(places[: self.spread]),
            "nodes": self.c,
            "coefficients": np.zeros(memory.pairs + 1, dtype=np.complex128),
        }
        super().__init__()
        self._arrays, self._memory, self._first = arrays, memory, threading.Lock()
        self._copies = memory.pairs + 1 if memory.several else 1
        # The pattern of sparse matrices; of equations in Python the first Jacobian tells whether they are.
        self._pattern: Any = None
        self._has_matrices = self._real_is_done = False
        arrays["row"] = np.empty((self._copies, n), dtype=np.complex128)
        tell_addresses(memory, arrays)
        self._before: tuple[Vector, Vector] | None = None  # the stages of the step before
        self.past: Mapping[int, Vector] = {}
        self.du, self.u = np.empty((self.rows, n)), np.empty((self.rows, n))
        self._tell_problem()

    def _tell_problem(self) -> None:
        """Tell compiled code of the problem and of sizes of its unknowns."""
        memory, scales, problem = self._memory, self.problem.run_scales, self.problem
        self.numbers.gamma, self.numbers.implicit = self._eigenvalue, 1.0 - self._memory.explicit
        self.numbers.most = own.MOST_NEWTON_ITERATIONS
        self.numbers.allowed_at_end = np.inf
        self.set_tolerance(1e-3, 1e-6)
        self.forget()
        kernels, pattern = problem.kernels, problem.sparsity
        self.by_kernels = bool(kernels and kernels.jacobian and getattr(pattern, "format", "csc") == "csc")
        memory.noise_at_end, memory.term_sizes = self._answer("_noise_at_end"), 0
        memory.tell_term_sizes = self._answer("_tell_term_sizes") if hasattr(problem, "form") else 0
        memory.by_differences = self._answer("_linearize")
        self._ask_equations(memory, problem, kernels if self.by_kernels else None, self.team)
        if not self.by_kernels:
            memory.evaluate = self._answer("_evaluate")
        elif not self._has_matrices:
            self._make_matrices(pattern)
        steep = self.by_kernels and not self.in_turn
        memory.peaks, memory.peak_count = getattr(problem, "peaks", (0, 0)) if steep else (0, 0)
        arrays = {"sizes": scales.unknowns, "expected": scales.expected, "seen": scales.seen}
        arrays["peak_values"] = np.empty((4, memory.peak_count))
        self._arrays |= arrays
        tell_addresses(memory, arrays)
        self._parameters: Any = None
        # Weights that compiled code knows, by the beginning of its fields.
        self._told: dict[str, Weights] = {}
        self._advanced: int | None = None  # how Newton's method has ended in a step that was begun ahead

    def set_tolerance(self, share: float, rtol: float) -> None:
        """Set the part of the tolerance that the error of Newton's method may take, and the tolerance."""
        self.numbers.kappa, self.numbers.relative = share, share * rtol

    def solve_plainly(self, past: Mapping[int, Vector] | None = None, most: int = 0) -> None:
        """Let stages be solved to the tolerance of Newton's method, by the norm of :class:`NodeSystem`."""
        # With a number of iterations they are those of a matrix without dF/du.
        # The error of each value that a multistep method continues enters u' as that of the new one does.
        x, self.past, self.checked[:] = self.numbers, past or {}, 0.0
        terms = 1.0 + max((float(np.abs(weights[0]).sum()) for weights in self.past.values()), default=0.0)
        x.plain, x.relative = 1.0, self.problem.newton_tol
        if most:
            x.implicit, x.most = 0.0, most
        x.kappa = x.relative / (terms * np.sqrt(self.n))
        self._memory.checks = 0

    def integrate_first(self, count: int) -> None:
        """Take steps of so many leading integrated unknowns, whose stages are swept and not solved here."""
        self._memory.n_integrated = self.n_integrated = count
        self._arrays["end_row"] = np.array(polynomials.differentiation_row(self.nodes, 1.0))
        tell_addresses(self._memory, {"end_row": self._arrays["end_row"]})

    def forget(self) -> None:
        """Drop the kept matrices."""
        x = self.numbers
        x.linearized, x.factored, x.eta, x.rate, x.at = 0.0, 0.0, 1.0, 1.0, np.nan

    @property
    def real(self) -> float:
        """The real eigenvalue, or the entry on the diagonal of the current one of stages solved in turn."""
        return float(self.numbers.gamma)

    @property
    def at(self) -> slice:
        """The rows of the stages that are solved together."""
        stage = int(self._memory.stage)
        return slice(stage, stage + 1) if self.in_turn else slice(None)

    # --- matrices, dense or of a CSC pattern, and their factors ---------------------------------------------

    def _make_matrices(self, pattern: Any) -> None:
        """Allocate matrices and their factors, and set the functions that use them."""
        n, pairs, memory = self.problem.n, int(self._memory.pairs), self._memory
        self._pattern, self._has_matrices, arrays = pattern, True, self._arrays
        memory.entries = entries = n * n if pattern is None else len(pattern.indices)
        shape = (n, n) if pattern is None else (entries,)
        arrays |= {name: np.zeros(shape) for name in ("mass", "stiffness", "end_matrix")}
        if pattern is None:
            for name in ("dgetrf", "dgetrs", "zgetrf", "zgetrs"):
                setattr(memory, name, lapack(name))
            arrays |= {
                "end_lu": np.empty((n, n)),
                "end_pivots": np.empty(n, dtype=np.int32),
                "real_lu": np.empty((n, n)),
                "real_pivots": np.empty(n, dtype=np.int32),
                "pair_lu": np.empty((pairs, n, n), dtype=np.complex128),
                "pair_pivots": np.empty((pairs, n), dtype=np.int32),
                "small": np.tile(np.array([n, 1, 0, ord("N")], dtype=np.int32), (self._copies, 1)),
            }
        else:
            # The pivots may differ from rank to rank, and with them the rounding of the last stage.
            at_end = memory.checks and not (self.team is not None and self.team.separate)
            refactorize = functools.partial(answer_of("refactorize"), memory.own)
            klu = functools.partial(factorize, solver="klu")
            chosen = klu if self.problem.linear_solver == "klu" else sparse_factors
            about = pairs + 2, lambda k: refactorize(k, 0), chosen, pairs + 1 if at_end else None
            self._factors = Factors(self, *about)
            self._checked = not self.by_kernels
            memory.repivot, memory.solve_outside = self._answer("_repivot"), self._factors.solve_outside
            for name in ("refactorize", "substitute", "refine"):
                setattr(memory, name, entry(f"{COMPILED}:{name}").address)
            arrays |= self._factors.arrays | {
                "indices": pattern.indices.astype(np.int32),
                "starts": pattern.indptr.astype(np.int32),
                "data": np.empty((self._copies, entries), dtype=np.complex128),
                "scratch": np.empty((self._copies, 4 * n), dtype=np.complex128),
            }
        tell_addresses(memory, arrays)

    def _keep(self, mass: Any, stiffness: Any) -> None:
        """Take both halves of a Jacobian that was evaluated in Python, whose entries the pattern gets."""
        halves = {"mass": mass, "stiffness": stiffness}
        if not sparse.issparse(mass):
            if not self._has_matrices:
                self._make_matrices(None)
            for name, half in halves.items():
                self._arrays[name][:] = half
            return
        n, known = self.problem.n, keys_of(self._pattern)
        keys = {name: keys_of(half) for name, half in halves.items()}
        if not all(np.isin(some, known).all() for some in keys.values()):
            known = functools.reduce(np.union1d, keys.values(), known)
            places = known % n, np.searchsorted(known, n * np.arange(n + 1))
            self._make_matrices(sparse.csc_matrix((np.ones(len(known)), *places), shape=(n, n)))
        order = np.argsort(known)
        for name, half in halves.items():
            entries = np.zeros(len(known))
            entries[order[np.searchsorted(known, keys[name], sorter=order)]] = half.data
            self._arrays[name][:] = entries

    def get_state(self) -> dict[str, Any]:
        """The state that the next step depends on, as numbers, texts and arrays, for a checkpoint."""
        if self._pattern is None:
            return self._kept_arrays(FACTORS if self.numbers.linearized > 0.0 else FACTORS[-1:])
        return self._kept_arrays(REMEMBERED) | {
            "factors": self._factors.get_state(),
            "checked": self._checked,
        }

    def _kept_arrays(self, names: Sequence[str]) -> dict[str, Any]:
        """Copies of arrays, and of the numbers, for a checkpoint."""
        arrays = {"numbers": np.frombuffer(self.numbers)} | {name: self._arrays[name] for name in names}
        return {name.upper(): array.copy() for name, array in arrays.items()}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        if not self.by_kernels and "MASS" in kept:
            places, n = [kept[name] for name in ("INDICES", "STARTS") if name in kept], self.problem.n
            parts = (np.ones(len(kept["MASS"])), *places)
            self._make_matrices(sparse.csc_matrix(parts, shape=(n, n)) if places else None)
        arrays = {"numbers": np.frombuffer(self.numbers)} | self._arrays
        for name in filter(str.isupper, kept):
            arrays[name.lower()][:] = kept[name]
        if "factors" in kept:
            self._factors.set_state(kept["factors"], self._pattern)
            self._checked = kept["checked"]

    # --- parts of work that a team shares -------------------------------------------------------------------

    def _do_part(self, kind: int, part: int) -> int:
        if kind != FACTORIZE or self._pattern is None or (part and part in self._factors):
            return self._do_compiled(kind, part)
        # The complex matrices begin with the pivots of the real one, in whichever order they come. A rank
        # that has no share in that needs it too, at this step size: pivots may depend on the size.
        with self._first:
            if not self._real_is_done:
                self._real_is_done = self._do_compiled(kind, 0) != 0
            found = int(self._real_is_done)
        return self._do_compiled(kind, part) if part else found

    def _do_compiled(self, kind: int, part: int) -> int:
        done: int = answer_of("part")(self._memory.own, kind, part)
        self._failure.check()
        return done

    def _share_parts(self, kind: int, count: int) -> int:
        """Let the team do a piece of work, for compiled code."""
        assert self.team is not None
        self._real_is_done = False
        if kind == FACTORIZE and self._pattern is not None and 0 not in self._factors and self.team.separate:
            # The pivots that all matrices begin with are those of the first one, on every rank.
            self.team.everywhere(lambda: self._do_part(kind, 0))
        arrays, m = self._arrays, int(self._memory.m)
        rows, ends = {
            EVALUATE: (arrays["value"], range(m + 1)),
            SOLVE: (arrays["transformed"], [0, *range(m % 2, m + 1, 2)]),  # the rows of each matrix
            FILTER: (arrays["error"][None], (0, 1)),
        }.get(kind, (None, None))
        return int(self.team.share(kind, functools.partial(self._do_part, kind), count, rows, ends))

    # --- called by compiled code ----------------------------------------------------------------------------

    def _repivot(self, k: int, _: int) -> int:
        """Factorise matrix k with pivots of its own; 0 where it is singular."""
        if not self._checked:  # The method of the problem itself compares its sparsity pattern.
            n_diff, (du, u), memory = self.problem.n_diff, self._arrays["work"], self._memory
            jacobian: Any = self.problem.jacobian
            jacobian(attach(u, n_diff), attach(du, n_diff), memory.time, 1.0)
            self._checked = True
        entries = self._factors.repivot(k)
        if k == 0 and entries:
            self.numbers.costly = float(entries > COSTLY_ROW_FILL * self.problem.n)
        return entries

    def matrix_of(self, k: int) -> Any:
        """Matrix k, of which the first is real."""
        c = self._arrays["coefficients"][k]
        data = self._arrays["mass"] + (c if k else c.real) * self._arrays["stiffness"]
        return sparse_matrix(data, self._pattern)

    # --- equations in Python --------------------------------------------------------------------------------

    def _evaluate(self, _: int, __: int) -> int:
        """F at the stages that are solved together; 0 where it is not finite."""
        memory, team, counter = self._memory, self.team, self.problem.work_counters["rhs"]
        size, before = self.m * self.n, counter.niter
        u, du = (numbers_at(place, size).reshape(-1, self.n) for place in (memory.u, memory.du))
        times = memory.time + memory.step * self.c[self.at]

        def evaluate(rows: slice) -> bool:
            with suppress(EvaluationError), np.errstate(all="ignore"):  # a smaller step may be defined
                self.value[rows] = self.problem.evaluate_nodes(u[rows], du[rows], times[rows])
                return bool(np.isfinite(self.value[rows]).all())
            return False

        if team is None or team.idle or not team.separate:  # threads would wait for each other in Python
            done = evaluate(slice(None))
        else:
            ends = range(self.m + 1)
            done = team.share(CALL, lambda i: evaluate(slice(i, i + 1)), self.m, self.value, ends)
        counter.niter = before  # compiled code has counted them
        return int(done)

    def _linearize(self, u_at: int, du_at: int) -> int:
        """Both halves of the Jacobian at a point, that by u times the coefficient; 0 where it has none."""
        memory, problem, done = self._memory, self.problem, 0
        u, du = (numbers_at(place, self.n).copy() for place in (u_at, du_at))
        with self._counted(problem, self.counts):
            halves = everywhere(self.team, lambda: linearize(problem, u, du, float(memory.time)))
            parts = halves.mass, (memory.step * self.real) * halves.stiffness
            done = int(not (memory.of_end and sparse.issparse(halves.mass)))
            if not memory.of_end:
                self._keep(*parts)
            elif done:
                self._arrays["end_matrix"][:] = parts[0] + parts[1]
        return done

    def act(self, what: int, t0: float, h: float, judging: tuple[int, bool, bool] = NOT_JUDGED) -> float:
        """Let compiled code do a piece of its work, from :data:`~simultaneous.ADVANCE` on, for a step."""
        memory, problem, idle = self._memory, self.problem, self.team is None or self.team.idle
        memory.share = 0 if idle else self._answer("_share_parts")
        if self.by_kernels:
            pattern, p = problem.sparsity, problem.packed_parameters
            known = pattern is self._pattern and (pattern is None or len(pattern.indices) == memory.entries)
            if not known:
                self._make_matrices(pattern)
                self.forget()
            if p is not self._parameters:
                self._parameters = p
                memory.p = address(p)
        result: float = act()(memory.own, what, t0, h, *judging)
        # With steps that were taken it is raised by the one in which it has happened.
        if what != own.STEPS or result != steps_ahead.UNFINISHED:
            self._failure.check()
        return result


class MachineStages(StageEquations):
    """The M stages of a collocation step, solved together, or those of an embedded pair, in turn."""

    # They solve F(t_0 + c_i h, u_0 + h sum_j a_ij U_j, U_i) = 0. A simplified Newton iteration has the matrix
    # I x M + h A x J (Kronecker products) with M = dF/du' and J = dF/du at one point, which falls apart into
    # one real and (M - 1) / 2 complex matrices of size n in the eigenbasis of A. Stages of a pair, whose A is
    # triangular, share the real matrix, which is factorised again where entries on the diagonal differ.
    # Compiled code calls kernels, or equations in Python. E. Hairer, G. Wanner, Solving Ordinary Differential
    # Equations II, Springer (1996), sec. IV.8; J. de Swart, G. Soderlind, On the construction of error
    # estimators for implicit Runge-Kutta methods, J. Comput. Appl. Math. 86 (1997) 347.

    def begin(self, u0: MeshDAE, t0: float, h: float) -> bool:
        """Begin a step: allocate its stages, and guess their derivatives; whether nothing is known before."""
        before, memory, problem = u0.polynomial, self._memory, self.problem
        if self._advanced is not None:
            self._failure.check()
            return before is None
        self.u0[:] = u0
        # The polynomial of the last step keeps the arrays of its own.
        self.du, self.u = np.empty((self.rows, self.n)), np.empty((self.rows, self.n))
        memory.du = memory.step_du = address(self.du)
        memory.u = memory.step_u = address(self.u)
        if problem.noise is not None:
            self._arrays["noise"] = NOISE_LIMIT * problem.noise.absolute
        memory.noise = 0 if problem.noise is None else address(self._arrays["noise"])
        if before is None:  # of a pair u' at the start is known
            np.multiply(self.A, h, out=self.h_a)
            self.du0.fill(0.0)
            self.guess.fill(0.0)
            return True
        self._take_step_before(before)
        act()(memory.own, own.CONTINUE, t0, h, 0, False, False)
        if not self.continues(before) and reaches(before, t0 + h, self.n):  # a polynomial of other nodes
            k, matrix = self.problem.n_diff, before.continuation(t0, h, self.nodes)
            self.guess[:] = matrix @ before.derivative
            change = matrix @ before.value[:, k:] - self.u0[k:]
            self.guess[:, k:] = (self.inverse / h) @ change
        return False

    def continues(self, before: Any) -> bool:
        """Whether compiled code continues the polynomial of the step before."""
        if self.in_turn:
            return True
        alike = type(before) is StepPolynomial and before.nodes == self.nodes and self.nodes[-1] == 1.0
        return bool(alike and before.n_integrated == self.n_integrated)

    def _take_step_before(self, before: Any) -> None:
        memory = self._memory
        if not self.past and (self.in_turn or not self.continues(before)):
            # Of the stages before, the last alone is looked at.
            slopes = np.empty((self.m, self.n))
            slopes[-1] = before.derivative_at_end()
            self._before, memory.du_before, memory.step_before = (slopes, slopes), address(slopes), 0.0
            return
        self._before = u, du = np.ascontiguousarray(before.value), np.ascontiguousarray(before.derivative)
        if self.past:
            memory.past, memory.of_past, u, du = len(u), address(self.past[len(u)]), u[-1], du[-1]
        memory.u_before, memory.du_before = address(u), address(du)
        memory.time_before, memory.step_before = before.time, before.dt

    def continuation_from(self, last: Any, time: float, dt: float) -> tuple[Vector, Vector]:
        """The matrix from the nodes of the last step to those of the one begun, and the inverse of h A."""
        known = self.continues(last)
        matrix = self._arrays["continuation"] if known else last.continuation(time, dt, self.nodes)
        return matrix, self.inverse / dt

    def solve(self, t0: float, h: float, first: int = 1, looks: bool = False) -> int:
        """Solve the stages from ``guess``; one of :data:`SOLVED` to :data:`UNRESOLVED`."""
        numbers = self.numbers
        if self.team is not None and self.team.next_step():
            numbers.factored = 0.0
        status, self._advanced = self._advanced, None
        if status is None:
            status = int(self.act(own.ADVANCE, t0, h, (first, False, looks)))
        if status != own.SOLVED and improve_differences(self.problem):
            self.forget()
            status = int(self.act(own.ADVANCE, t0, h, (first, False, looks)))
        return status

    def starting_step(self, u0: MeshDAE, weights: Weights, t0: float, span: float) -> float:
        """A size for the first step of an interval, see :func:`~dae_sdc.sweepers.steps_ahead.first_step`."""
        self.u0[:] = u0
        self._begin_weights(weights)
        step = self.act(own.FIRST, t0, span)
        weights.scales.rate, weights.least_factor = self._memory.rate, 0.0
        self.count()
        return step

    def solve_alone(self, system: NodeSystem, newton: ModifiedNewton, t0: float, h: float) -> None:
        """Solve the current stage with its own Jacobian and damping; raises as Newton's method does."""
        i = self.at.start
        u, du = self.u[i], self.du[i]
        du[:] = self.guess[0]
        c = 0.0 if self._memory.explicit else float(self.h_a[0, 0])
        u[:] = c * du + self.base
        system.place(u, du, float(t0 + h * self.c[i]), c, (t0, h), i + 1)
        newton.check_finite(system, system.residual())
        newton.solve(system)

    def judge_by_matrix(self, solver: Any, node: int) -> bool:
        """Let the matrix of a node judge stages that were solved node by node; whether there is one."""
        # It stands for that of the real eigenvalue, whose coefficient is about as large.
        memory, place = self._memory, solver.matrix_at(node)
        memory.nodes_of, memory.slot = place or (0, -2)
        if place is None:
            memory.by_node = self._answer("_by_node")
            try:
                self._operators = solver.operators(node)
            except SolveError:  # without a kept matrix one is made there, which may be singular
                return False
        return True

    def _by_node(self, product: int, x_at: int) -> int:
        """Multiply a row by dF/du' at the node that judges, or solve with its matrix, in place."""
        x = numbers_at(x_at, self.n)
        x[:] = (self._operators.mass if product else self._operators.solve)(np.array(x))
        return 1

    def _noise_at_end(self, certain: int, by_sizes: int) -> int:
        """Write the error by rounding of F at the last stage; 0 where differences may be improved instead."""
        memory, last = self._memory, 8 * (self.m - 1) * self.n
        if certain and may_improve_differences(self.problem):
            return 0
        noise = None
        with self._counted(self.problem, self.counts):
            u, du = (numbers_at(place + last, self.n).copy() for place in (memory.u, memory.du))
            at_end = u, du, memory.time, memory.step
            noise = rounding_noise(self.problem, *at_end, self.multipliers, bool(by_sizes))
        if noise is not None:
            self._arrays["work"][0] = noise
        return int(noise is not None)

    def _tell_term_sizes(self, *_: int) -> int:
        """Tell the function for sizes of the equations, which few runs need."""
        problem: Any = self.problem
        self._sizes = problem.form.compiled_sizes  # which lives as long as its address is known
        self._memory.term_sizes = self._sizes.address
        return 1

    def is_rounding(self, t0: float, h: float, most: float, error: Vector | None = None) -> bool:
        """Whether the weighted error of the checked unknowns, at the end, is small or by rounding there."""
        error, at_end = self.error if error is None else error, (self.u[-1], self.du[-1], t0 + h)
        noise = rounding_noise(self.problem, *at_end, h * self.real, self.multipliers)
        return noise is None or not ((np.abs(error) - noise) * self.checked * self.weights > most).any()

    def end_is_solved(self, t0: float, h: float, most: float) -> bool:
        """Whether a Newton correction of the last stage, with its own Jacobian, is small or by rounding."""
        # Where dF/du is far smaller there than where the kept Jacobian was evaluated, as that of a diode
        # which no longer conducts, corrections with that one are small however large the error is.
        u, du, t, c = self.u[-1], self.du[-1], t0 + h, h * self.real
        counted = self.checked * self.weights
        try:
            made = everywhere(self.team, lambda: operators_at(self.problem, u, du, t, c))
        except SolveError:  # where it has none, as at the edge of a domain, nothing is known of the error
            return True
        with np.errstate(all="ignore"):
            self.error[:] = c * made.solve(np.array(self.value[-1]))
            if not (np.abs(self.error) * counted > most).any():
                return True
        return self.is_rounding(t0, h, most)

    def count(self) -> None:
        """Add the work done since the last call to the counters of the problem."""
        self.counts.add_to(self.problem)

    # --- weights --------------------------------------------------------------------------------------------

    def weigh(self, weights: Weights, h: float, first: bool, floor: bool = True) -> None:
        """Write the weights of errors at the start of a step that has begun."""
        if self._advanced is not None:
            return
        self._begin_weights(weights)
        act()(self._memory.own, own.WEIGH, 0.0, h, 0, not first, floor)
        weights.scales.rate, weights.least_factor = self._memory.rate, weights.rtol

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

    # --- steps taken ahead ----------------------------------------------------------------------------------

    def goes_ahead(self, value: Any) -> bool:
        """Whether steps can be taken ahead from a state."""
        idle, before = self.team is None and self._advanced is None, value.polynomial
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
        if self.spread < 3 or not self.judge_by("between_", weights, judged):
            return 0.0
        return float(act()(self._memory.own, own.BETWEEN, 0.0, 0.0, *NOT_JUDGED))

    def take_steps(
        self, value: MeshDAE, weights: Any, arrays: dict[str, Any], numbers: dict[str, int], room: int
    ) -> tuple[int, int]:
        """Take at most so many steps ahead from a state; how they have ended, and how many they are."""
        memory = self._memory
        self.u0[:] = value
        memory.step_before = 0.0
        if value.polynomial is not None:
            self._take_step_before(value.polynomial)
        if weights is not None:
            self._begin_weights(weights)
        tell_addresses(memory, arrays)
        for name, number in (numbers | {"room": room, "taken": 0}).items():
            setattr(memory, name, number)
        if self.past:  # of the steps that follow, too
            memory.u_before, memory.du_before = memory.run_u - 8 * self.n, memory.run_du - 8 * self.n
        status = int(self.act(own.STEPS, 0.0, 0.0))
        if weights is not None:
            weights.scales.rate, weights.least_factor = memory.rate, weights.rtol
        if status == steps_ahead.UNFINISHED:
            self._advanced = int(self.run.status)
        return status, int(memory.taken)

    def sweep_by(self, solver: Any, place: int, matrix: Vector | None = None) -> None:
        """Let the steps that are taken ahead be swept by a solver with its memory at a place."""
        # A matrix continues their polynomials where they are all of one size.
        if matrix is not None:
            self._arrays["continuation"][:] = matrix
        self.swept_by, self._memory.swept = solver, place
        if not self._memory.sweep:
            self._memory.sweep = entry("dae_sdc.sweepers._compiled:sweep_step").address

    def take_advanced(self) -> int | None:
        """How the sweeps of the step that was begun ahead have ended, once; None where none was."""
        status, self._advanced = self._advanced, None
        return status

    def get_run(self) -> tuple[Any, ...]:
        """All that steps taken ahead change, but for sizes of unknowns and steps."""
        solver = self.swept_by
        swept = None if solver is None else (solver.get_matrices(), bytes(solver.goal_numbers))
        return bytes(self.counts), bytes(self.run), self.get_state(), swept

    def set_run(self, kept: tuple[Any, ...]) -> None:
        """Restore what :meth:`get_run` gave, as if no step had been taken since."""
        counts, run, state, swept = kept
        if swept is not None:
            self.swept_by.set_matrices(swept[0])
            ctypes.memmove(ctypes.addressof(self.swept_by.goal_numbers), swept[1], len(swept[1]))
        ctypes.memmove(ctypes.addressof(self.counts), counts, len(counts))
        ctypes.memmove(ctypes.addressof(self.run), run, len(run))
        self.set_state(state)
        self._advanced = None
        self._forget_failure()

    # --- checkpoints ----------------------------------------------------------------------------------------

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` is all that the next step depends on besides its start."""
        return self.team is None or not self.team.separate

    def __deepcopy__(self, memo: Any) -> MachineStages:
        # Addresses belong to the arrays of one object; a copy begins with matrices of its own.
        return type(self)(self.problem, self.A, self.c, self.team, self.differences if self.in_turn else None)
