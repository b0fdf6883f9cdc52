"""What compiled code asks Python for: equations and Jacobians, and the pivots of sparse matrices."""

from __future__ import annotations

import copy
import ctypes
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from scipy import sparse

from dae_sdc.compiled import triangular
from dae_sdc.compiled.triangular import PARTS, ROW_PARTS, RowPattern, TriangularFactors, copy_for
from dae_sdc.dae.linear import KLU, factorize
from dae_sdc.dae.memory import COUNTERS, Callback, CallbackFailure, address, counts_of
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import EvaluationError, SingularMatrixError
from dae_sdc.sharing import Recent
from dae_sdc.sweepers.teams import T, Team

PAYING_FACTORIZATIONS = 4  # Factorisations with one pivot order from which on its reuse saves time.
# Number of pivot orders in succession that served fewer factorisations, after which SuperLU is used.
MOST_SHORT_LIVED = 4

# MOST_KEPT, LARGEST_KEPT: factors that are kept for runs with the same matrices, and most rows of these.
MOST_KEPT, LARGEST_KEPT = 16, 1000
_PIVOTS: Recent[tuple[Any, ...], tuple[TriangularFactors, RowPattern, int]] = Recent(MOST_KEPT)

ANSWER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def everywhere(team: Team | None, do: Callable[[], T]) -> T:
    """Call a function; on ranks that share the stages, see :meth:`Team.everywhere`."""
    return do() if team is None else team.everywhere(do)


def numbers_at(place: int, count: int, kind: Any = np.float64) -> Vector:
    """So many numbers at an address, which are not copied."""
    memory: Any = (ctypes.c_byte * (count * np.dtype(kind).itemsize)).from_address(place)
    return np.frombuffer(memory, dtype=kind)


class Answers:
    """Methods that compiled code calls by address; what they raise is kept until it is left."""

    def __init__(self) -> None:
        self._failure = CallbackFailure()
        self._answers: dict[str, Any] = {}

    def _ask_equations(self, memory: Any, problem: ProblemDAE, kernels: Any, team: Team | None) -> None:
        """Tell compiled code the addresses of kernels, or of the equations and the Jacobian in Python."""
        if kernels is not None:
            self._owners = kernels  # they live as long as their addresses are used
            memory.residual, memory.jacobian, memory.linearize = kernels.residual, kernels.jacobian, 0
            return

        def residual(t: float, u: Vector, du: Vector) -> Vector:
            """F, counted by compiled code: NaN where it is not defined, and after anything was raised."""
            counter, value = problem.work_counters["rhs"], np.full(problem.n, np.nan)
            before = counter.niter
            if failure.error is None:
                with suppress(EvaluationError), np.errstate(all="ignore"):  # iterates may overflow
                    value = everywhere(team, lambda: problem.evaluate(u, du, t))
            counter.niter = before
            return value

        failure = self._failure
        self._owners = Callback(residual, problem.n, (problem.n,), True, failure)
        memory.residual, memory.linearize = self._owners.address, self._answer("_linearize")

    @contextmanager
    def _counted(self, problem: ProblemDAE, counts: Any) -> Iterator[None]:
        """Count what is done in Python as compiled code does."""
        before = counts_of(problem)
        with suppress(EvaluationError), np.errstate(all="ignore"):
            yield
        for name, count in zip(COUNTERS, before, strict=True):
            counter = problem.work_counters[name]
            setattr(counts, name, getattr(counts, name) + counter.niter - count)
            counter.niter = count

    def _forget_failure(self) -> None:
        """Forget what a step has raised that is not taken, but for interrupts."""
        if isinstance(self._failure.error, Exception):
            self._failure.error = None
        self._failure.check()

    def _answer(self, name: str) -> int:
        """Address of the C function that calls a method with two integers."""
        known = weakref.ref(self)

        def call(_: int, k: int, argument: int) -> int:
            own = known()
            assert own is not None, "it is called by its own compiled code alone"
            try:
                return 0 if own._failure.error is not None else int(getattr(own, name)(k, argument))
            except BaseException as error:
                own._failure.keep(error)
                return 0

        if name not in self._answers:
            self._answers[name] = ANSWER(call)
        return ctypes.cast(self._answers[name], ctypes.c_void_p).value or 0


class Factors(Answers):
    """LU factors of matrices of one kind at numbered places, in compiled code or by a linear solver."""

    # SuperLU or KLU chooses the pivots of the first sparse matrix. With these the others are factorised too
    # if pivots are shared, in compiled code, which may be complex, and again when they change; one whose
    # pivots get too small gets its own. Nodes share none: which of them a process has must not change their
    # digits. Arrays, and factors that are rather full, stay with the solver, as SuperLU works on blocks, and
    # so does a matrix that needs new pivots all the time. The owner's ``matrix_of`` gives the one of a place,
    # ``refactorize`` has it factorised with the pivots at hand, if any were taken over, and a place
    # ``copied`` to has the pivots of the first one as well.

    def __init__(
        self,
        owner: Any,
        count: int,
        refactorize: Callable[[int], int],
        factorize: Callable[[Any], Any],
        copied: int | None = None,
        shares: bool = True,
        takes_over: bool = True,
    ) -> None:
        super().__init__()
        self._owner, self._failure = weakref.proxy(owner), owner._failure
        self._refactorize, self._factorize = refactorize, factorize
        self._copied, self._shares, self._takes_over = copied, shares, takes_over
        self.arrays: dict[str, Any] = {
            "triangles": np.zeros((count, PARTS), dtype=np.int64),
            "patterns": np.zeros((count, ROW_PARTS), dtype=np.int64),
            "lasted": np.zeros(count, dtype=np.int64),
        }
        self.solve_outside = self._answer("_solve_outside")
        self.forget()

    def forget(self) -> None:
        """Be without factors and pivots, as at first."""
        self.kept: dict[int, tuple[TriangularFactors, RowPattern]] = {}
        self.outside: dict[int, tuple[Any, Any]] = {}  # The solver's factors, and their matrices.
        self.vain = [0] * len(self.arrays["lasted"])
        self.arrays["triangles"][:] = self.arrays["lasted"][:] = 0

    def __contains__(self, k: int) -> bool:
        return k in self.kept or k in self.outside

    def repivot(self, k: int) -> int:
        """Factorise matrix k with pivots of its own; the number of entries of the factors, 0 if singular."""
        lasted, matrix = self.arrays["lasted"], self._owner.matrix_of(k)
        if not np.isfinite(entries_of(matrix)).all():
            return 0
        if k in self.kept:
            self.vain[k] = self.vain[k] + 1 if lasted[k] < PAYING_FACTORIZATIONS else 0
            lasted[k] = 0
        elif self._shares and k not in self.outside and 0 in self.kept:
            factors, pattern = self.kept[0]
            self._put(k, copy_for(factors, matrix.dtype), pattern)
            if self._refactorize(k):
                return 1
        n, (last, _) = matrix.shape[0], self.outside.get(k, (None, None))
        key: Any = None
        if self._takes_over and last is None and n <= LARGEST_KEPT and sparse.issparse(matrix):
            key = self._factorize, *(x.tobytes() for x in (matrix.data, matrix.indices, matrix.indptr))
        short_lived, kept = self.vain[k] >= MOST_SHORT_LIVED, _PIVOTS.get(key)
        if kept is not None and not short_lived:
            self._put(k, copy_for(kept[0]), kept[1])
            return kept[2]
        try:
            lu: Any = factorize(matrix, "klu", last) if isinstance(last, KLU) else self._factorize(matrix)
            count = int(lu.nnz) if self._takes_over else n**2
            stays = count > triangular.LARGEST_ROW_FILL * n or short_lived or not self._takes_over
            if not stays:
                self._put(k, *triangular.superlu_factors(lu, matrix))
                if key is not None and not isinstance(lu, KLU):
                    _PIVOTS.keep(key, (copy_for(self.kept[k][0]), self.kept[k][1], count))
                # What stands beside blocks on the diagonal is not in the factors of KLU.
                stays = isinstance(lu, KLU) and not self._refactorize(k)
            if stays:
                self.outside[k] = lu, matrix
                self.kept.pop(k, None)
                self.arrays["triangles"][[k, self._copied] if k == 0 and self._copied else k] = 0
        except SingularMatrixError:
            return 0
        return count

    def _put(self, k: int, factors: TriangularFactors, pattern: RowPattern) -> None:
        self.kept[k] = factors, pattern
        placed = {k: factors}
        if k == 0 and self._copied is not None:
            placed[self._copied] = self._copy = copy_for(factors)
        for place, parts in placed.items():
            self.arrays["triangles"][place] = [address(part) for part in parts[:-1]]
            self.arrays["patterns"][place] = [address(part) for part in pattern]

    def _solve_outside(self, k: int, x_at: int) -> int:
        """Solve with the solver's factors of matrix k in place, for a complex row where that is complex."""
        lu, matrix = self.outside[k]
        x = numbers_at(x_at, matrix.shape[0], matrix.dtype)
        x[:] = lu.solve(x)
        return 1

    def get_state(self) -> dict[str, Any]:
        """The state that later factorisations and solves depend on, as numbers and arrays."""
        items = self.kept.items()
        kept = [(k, list(copy_for(factors)[:-1]), list(pattern)) for k, (factors, pattern) in items]
        outside = [(k, entries_of(matrix)) for k, (_, matrix) in self.outside.items()]
        lasted = self.arrays["lasted"].copy()
        return {"kept": kept, "outside": outside, "vain": list(self.vain), "lasted": lasted}

    def set_state(self, state: Mapping[str, Any], pattern: Any) -> None:
        """Take what :meth:`get_state` gave for matrices of a CSC pattern, or arrays, to the last bit."""
        known = self.outside
        self.forget()
        for k, factors, places in state["kept"]:
            self._put(k, TriangularFactors(*(*factors, pattern.shape[0])), RowPattern(*places))
        for k, data in state["outside"]:
            matrix = sparse_matrix(data, pattern)
            same = k in known and entries_of(known[k][1]) is data
            self.outside[k] = known[k] if same else (self._factorize(matrix), matrix)
        self.vain, self.arrays["lasted"][:] = list(state["vain"]), state["lasted"]


def sparse_matrix(data: Any, pattern: Any) -> Any:
    """The matrix with these entries in the places of a CSC pattern; without one an array is what it is."""
    if pattern is None:
        return data
    matrix = copy.copy(pattern)  # which is many times as fast as the constructor
    matrix.data = data
    return matrix


def entries_of(matrix: Any) -> Any:
    """The entries of which :func:`sparse_matrix` makes a matrix."""
    return matrix.data if sparse.issparse(matrix) else matrix
