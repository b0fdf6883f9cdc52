"""Linear systems with iteration matrices: patterns, LU by LAPACK, SuperLU or KLU, GMRES with kept factors."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg.blas import dasum, daxpy, ddot, dnrm2, dscal, idamax
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.sparse.csgraph import maximum_flow
from scipy.sparse.linalg import SuperLU, spilu, splu

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SingularMatrixError, SolveError
from dae_sdc.registry import unknown

# --- patterns of sparse matrices ----------------------------------------------------------------------------


class Pattern:
    """Where the entries of a sparse matrix are: a copy, so that it stays true when the matrix is altered."""

    def __init__(self, matrix: Any) -> None:
        self._indptr, self._indices = matrix.indptr.copy(), matrix.indices.copy()

    def fits(self, matrix: Any) -> bool:
        """Whether a matrix has this pattern; costs a comparison of the indices."""
        return np.array_equal(self._indptr, matrix.indptr) and np.array_equal(self._indices, matrix.indices)


class Reordering(Pattern):
    """A pattern with its columns in another order, and its rows too where it ``turns_rows``."""

    # Shapes: order and rank (n,).

    turns_rows: ClassVar[bool] = False

    def __init__(self, matrix: Any, order: npt.NDArray[np.intp]) -> None:
        super().__init__(matrix)
        self.order, self.rank = order, np.argsort(order)

    @functools.cached_property
    def _moved(self) -> tuple[Any, Any, Any]:
        """Where each entry of the ordered matrix is found, its row indices and its columns' starts."""
        n = len(self.order)
        numbers = np.arange(len(self._indices))
        moved = sparse.csc_matrix((numbers, self._indices, self._indptr), shape=(n, n))[:, self.order]
        if self.turns_rows:
            moved.indices = self.rank[moved.indices].astype(self._indices.dtype)
            moved.has_sorted_indices = False
            moved.sort_indices()
        return moved.data, moved.indices, moved.indptr

    def ordered(self, matrix: Any) -> Any:
        """The matrix of this pattern in order."""
        source, indices, indptr = self._moved
        moved = sparse.csc_matrix((matrix.data[source], indices, indptr), shape=matrix.shape)
        # So that SciPy need not look.
        moved.has_sorted_indices = moved.has_canonical_format = True
        return moved


def column_groups(pattern: Any) -> list[npt.NDArray[np.intp]]:
    """Columns that share no row, greedily grouped so that one difference serves all columns of a group."""
    # A. R. Curtis, M. J. D. Powell, J. K. Reid, On the estimation of sparse Jacobian matrices, IMA J. Appl.
    # Math. 13 (1974) 117.
    # Shapes: pattern (n, n).
    # One integer for every row, with bit k set when a column of group k has an entry there: the first group
    # without one is the lowest zero bit of what the rows of a column have together. The groups are those that
    # comparing with all columns of all rows would give, at the cost of the entries alone.
    taken = [0] * pattern.shape[0]
    rows, starts = pattern.indices.tolist(), pattern.indptr.tolist()
    group_of = np.empty(pattern.shape[1], dtype=np.intp)
    for j in range(pattern.shape[1]):
        mine = rows[starts[j] : starts[j + 1]]
        together = 0
        for row in mine:
            together |= taken[row]
        bit = ~together & (together + 1)
        for row in mine:
            taken[row] |= bit
        group_of[j] = bit.bit_length() - 1
    order = np.argsort(group_of, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group_of))[:-1])


def maximum_matching(matrix: Any) -> npt.NDArray[np.intp]:
    """The column that each row is matched with, where as many rows as possible have one of their own."""
    # J. E. Hopcroft, R. M. Karp, An n^(5/2) algorithm for maximum matchings in bipartite graphs, SIAM J.
    # Comput. 2 (1973) 225; E. A. Dinic, Soviet Math. Dokl. 11 (1970) 1277.
    # SciPy's ``maximum_bipartite_matching`` took 14 s for 2795 rows where its largest flow takes 0.02 s.
    # Shapes: matrix (R, C) -> (R,).
    by_row = sparse.csr_matrix(matrix)
    rows, columns = by_row.shape
    count = by_row.nnz
    # The source, the rows, the columns, the sink.
    sinks = np.full(columns, rows + columns + 1)
    ends = np.concatenate((np.arange(1, rows + 1), rows + 1 + by_row.indices, sinks))
    last = rows + count + np.arange(1, columns + 1)
    starts = np.concatenate(([0], rows + by_row.indptr, last, last[-1:] if columns else [rows + count]))
    size = rows + columns + 2
    parts = (np.ones(len(ends), dtype=np.int32), ends.astype(np.int32), starts.astype(np.int32))
    flow = maximum_flow(sparse.csr_matrix(parts, shape=(size, size)), 0, size - 1).flow.tocoo()
    used = (flow.data > 0) & (flow.row > 0) & (flow.row <= rows)
    found = np.full(rows, -1, dtype=np.intp)
    found[flow.row[used] - 1] = flow.col[used] - rows - 1
    return found


EPS = float(np.finfo(float).eps)

# Growth of a sparse solution, in units of 1 / (n eps), above which the pivots are checked.
DOUBTFUL_GROWTH = 1e-4
# Largest number of steps of iterative refinement with factors whose pivots were not the largest.
MOST_REFINEMENTS = 2


@functools.lru_cache(maxsize=4)
def probe(n: int) -> Vector:
    """A right-hand side, shape (n,), with a part in every direction: random, but always the same."""
    return np.random.default_rng(n).standard_normal(n)


def grows(solution: Vector, columns: Vector) -> bool:
    """Whether a solution is so large that a pivot may have vanished; also if it is NaN."""
    # Shapes: solution (n,), columns (n,).
    with np.errstate(over="ignore", invalid="ignore"):
        growth = np.abs(solution * columns).max()
    return not growth * len(columns) * EPS < DOUBTFUL_GROWTH * columns.max()


def refinements_needed(matrix: Any, substitute: Callable[[Any], Any]) -> int | None:
    """How many steps of refinement bring the backward error of each equation to n eps, if any do."""
    # Shapes: matrix (n, n).
    n = matrix.shape[0]
    sizes = sparse.csc_matrix((np.abs(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
    rows = np.zeros(n)
    np.maximum.at(rows, matrix.indices, sizes.data)
    rhs = (rows * probe(n)).astype(matrix.dtype)
    # Columns as they are when the rows are scaled to 1.
    columns = np.maximum.reduceat(sizes.data / rows[matrix.indices], matrix.indptr[:-1])
    solution = substitute(rhs)
    if grows(solution, columns):
        return None
    for steps in range(MOST_REFINEMENTS + 1):
        residual = rhs - matrix @ solution
        bound = sizes @ np.abs(solution) + np.abs(rhs)
        if (np.abs(residual) <= n * EPS * bound).all():
            return steps
        solution += substitute(residual)
    return None


class Refined:
    """Solves with factors whose pivots were not the largest, refined where that is needed."""

    accurate: bool

    def _substitute(self, rhs: Any) -> Any:
        raise NotImplementedError

    def _judge(self, matrix: Any) -> None:
        """See whether solves with the factors of a matrix are accurate, and after how many refinements."""
        needed = refinements_needed(matrix, self._substitute)
        self.accurate, self._refinements = needed is not None, needed or 0
        self._matrix = matrix.copy() if needed else None

    def solve(self, rhs: Any) -> Any:
        """The solution for one or several right-hand sides, shape (n,) or (n, k)."""
        solution = self._substitute(rhs)
        for _ in range(self._refinements):
            solution += self._substitute(rhs - self._matrix @ solution)
        return solution


Places = npt.NDArray[np.int32]

# Smallest matrix for which they are tried: smaller ones are ordered for longer than that saves.
SMALLEST_WITH_DIAGONAL_PIVOTS = 500
LEAST_SYMMETRY = 0.9  # Smallest part of the entries (i, j) whose (j, i) is an entry, too.
REMEMBERED_ORDERS = 8  # Number of patterns whose order is remembered.
# Number of matrices of a pattern with useless pivots, after which its next ones are not tried.
MOST_PIVOT_FAILURES = 2

# Settings of SuperLU: the elimination tree of A + A^T, and the pivot on the diagonal unless that is zero.
SYMMETRIC = {"options": {"SymmetricMode": True}, "diag_pivot_thresh": 0.0, "permc_spec": "NATURAL"}


class _Order(Reordering):
    """An order of rows and columns with little fill while pivots stay on the diagonal."""

    # An unknown without an entry on the diagonal, as the pressure of a flow or the multiplier of a
    # constraint, gets one when an unknown of its equation is eliminated. It is matched with such a partner
    # and follows that in the order, which is the minimum degree order of the graph whose nodes are the pairs
    # and the rest.
    # J. W. H. Liu, Modification of the minimum-degree algorithm by multiple elimination, ACM Trans. Math.
    # Softw. 11 (1985) 141; O. Schenk, K. Gartner, On fast factorization pivoting methods for sparse symmetric
    # indefinite systems, Electron. Trans. Numer. Anal. 23 (2006) 158, for matched pairs.
    # Shapes: matrix (n, n).

    turns_rows = True

    def __init__(self, matrix: Any) -> None:
        self._empty, self.failures = matrix.diagonal() == 0.0, 0
        order = _order_of(matrix, self._empty)
        self.exists = order is not None
        super().__init__(matrix, np.arange(0) if order is None else order)

    def fits(self, matrix: Any) -> bool:
        """Whether a matrix has this pattern, and no zeros on the diagonal but those that have partners."""
        if not super().fits(matrix):
            return False
        return not self.exists or not ((matrix.diagonal() == 0.0) & ~self._empty).any()


def _order_of(matrix: Any, empty: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp] | None:
    """The order; None where the pattern is not symmetric enough or an unknown has no partner."""
    n = matrix.shape[0]
    entries = sparse.csc_matrix((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    both = sparse.csc_matrix(entries + entries.T)
    if (both.data == 2.0).sum() < LEAST_SYMMETRY * matrix.nnz:
        return None
    without, others = np.flatnonzero(empty), np.flatnonzero(~empty)
    node = np.cumsum(~empty) - 1
    if len(without):
        # Each stands in the equation of the other: no singular pattern has such partners for all.
        mutual = sparse.csr_matrix(matrix.multiply(matrix.T))[without][:, others]
        mutual.eliminate_zeros()
        partners = maximum_matching(mutual)
        if (partners < 0).any():
            return None
        node[without] = partners
    merge = sparse.csc_matrix((np.ones(n), (node, np.arange(n))), shape=(len(others), n))
    graph = sparse.csc_matrix(merge @ both @ merge.T)
    graph.data[:] = -1.0
    graph.setdiag(np.diff(graph.indptr) + 1.0)
    # SciPy returns minimum degree orders with factors alone: incomplete ones without fill are the cheapest.
    place: Places = spilu(graph, drop_tol=1e10, fill_factor=1, permc_spec="MMD_AT_PLUS_A").perm_c
    return np.lexsort((empty, place[node]))


_known: tuple[_Order, ...] = ()  # Orders of the patterns that came last.


class DiagonalPivotLU(Refined):
    """LU factors with rows and columns in one order, with the attributes of SciPy's ``SuperLU``."""

    # Shapes: matrix (n, n).

    def __init__(self, matrix: Any, pattern: _Order, settings: dict[str, Any]) -> None:
        self._order, self._rank = pattern.order, pattern.rank
        self._lu: SuperLU = splu(pattern.ordered(matrix), **SYMMETRIC, **settings)
        # Row i of the matrix is row ``perm_r[i]`` of LU, column j is column ``perm_c[j]``.
        self.perm_r: Places = self._lu.perm_r[self._rank]
        self.perm_c: Places = self._lu.perm_c[self._rank]
        self._judge(matrix)

    def __getattr__(self, name: str) -> Any:
        # L and U, of which SuperLU makes copies when they are asked for, and the number of entries ``nnz``.
        return getattr(self._lu, name)

    def _substitute(self, rhs: Any) -> Any:
        return self._lu.solve(rhs[self._order])[self._rank]


def with_diagonal_pivots(matrix: Any, **settings: Any) -> DiagonalPivotLU | None:
    """LU factors with pivots on the diagonal, in an order that is remembered for the next of its pattern."""
    # Grids with constraints, as incompressible flow, have 0.4 to 0.6 of the fill that an order of the columns
    # for any exchange of rows leaves, and factorise in a quarter to a half of the time.
    # Shapes: matrix (n, n).
    if matrix.shape[0] < SMALLEST_WITH_DIAGONAL_PIVOTS:
        return None
    global _known
    pattern = next((order for order in _known if order.fits(matrix)), None)
    if pattern is None:
        pattern = _Order(matrix)
        _known = (pattern, *_known[: REMEMBERED_ORDERS - 1])
    if not pattern.exists or pattern.failures >= MOST_PIVOT_FAILURES:
        return None
    try:
        factors = DiagonalPivotLU(matrix, pattern, settings)
    except (RuntimeError, MemoryError):
        return None
    if not factors.accurate:
        pattern.failures += 1
        return None
    return factors


# --- factors with pivots of their own, and GMRES ------------------------------------------------------------

Matrix: TypeAlias = npt.NDArray[np.float64] | sparse.csc_matrix | sparse.csc_array

SOLVERS = ("auto", "dense", "superlu", "klu")  # Linear solvers that :func:`factorize` takes by name.

LARGEST_DENSE_BYTES = 4 * 2**30  # Largest dense array, in bytes, that is made of a sparse matrix: n = 23170.
# Largest matrix whose null vectors are computed, in seconds, to name the unknown behind a singularity.
LARGEST_DIAGNOSED = 2000
# Smallest sparse matrix whose ordering is reused; permuting a smaller one costs what it saves.
LEAST_REUSED_ORDER = 500
# REMEMBERED_PATTERNS, REMEMBERED_ENTRIES: how many patterns of sparse matrices are remembered to be regular,
# each of at most so many entries.
REMEMBERED_PATTERNS = 8
REMEMBERED_ENTRIES = 2**20

# Supernodes of SuperLU without padding, in narrow panels: chains factorise in 0.72 to 0.97 of the time that
# SciPy's defaults take, grids in 0.95 to 1.01.
SUPERNODES = {"relax": 1, "panel_size": 4}


def largest(values: Vector) -> float:
    """Largest absolute value of a contiguous vector; NaN if one is."""
    # Two BLAS calls are several times faster than NumPy here, for the vectors of one node. Their search skips
    # NaN, their sum does not.
    if not values.size:
        return 0.0
    total = dasum(values)
    return abs(values.item(idamax(values))) if total < np.inf else float(total)


class Factorization(Protocol):
    """A factorised matrix."""

    def solve(self, rhs: Vector) -> Vector:
        """The solution for one or several right-hand sides, shape (n,) or (n, k), as a new array."""
        ...


class DenseLU:
    """LU factors of a dense matrix with partial pivoting."""

    def __init__(self, matrix: npt.NDArray[np.float64]) -> None:
        self._lu, self._pivots, _ = dgetrf(matrix)
        self._scale: Vector | None = None
        pivots = np.diagonal(self._lu)
        if np.abs(pivots).min() > len(pivots) * EPS * largest(matrix.ravel()):
            return
        if _weak(pivots, np.abs(matrix).max(axis=0)):
            # Small units of an equation look the same; with every row scaled to 1 only a dependence is left.
            rows = np.abs(matrix).max(axis=1)
            if not rows.all():
                raise SingularMatrixError(_name_null_space(matrix))
            self._scale = 1.0 / rows
            scaled = matrix * self._scale[:, None]
            self._lu, self._pivots, _ = dgetrf(scaled)
            if _weak(np.diagonal(self._lu), np.abs(scaled).max(axis=0)):
                raise SingularMatrixError(_name_null_space(scaled))

    def parts(self) -> tuple[Vector, npt.NDArray[np.int32], Vector | None]:
        """L and U in one matrix, row exchanges, and the factors by which rows are scaled first."""
        return self._lu, self._pivots, self._scale

    @classmethod
    def of_parts(cls, lu: Vector, pivots: npt.NDArray[np.int32], scale: Vector | None) -> DenseLU:
        """Factors from what :meth:`parts` returned."""
        factors = cls.__new__(cls)
        factors._lu, factors._pivots, factors._scale = np.asfortranarray(lu), pivots, scale
        return factors

    def solve(self, rhs: Vector) -> Vector:
        """See :class:`Factorization`."""
        if self._scale is not None:
            rhs = _scaled(rhs, self._scale)
        return np.asarray(dgetrs(self._lu, self._pivots, rhs)[0])


_regular_patterns: tuple[Pattern, ...] = ()  # The last patterns that were found to admit regular matrices.


def is_structurally_singular(matrix: Any) -> bool:
    """Whether a square CSC matrix is singular whatever its entries are; regular patterns are remembered."""
    global _regular_patterns
    if any(known.fits(matrix) for known in _regular_patterns):
        return False
    if (matrix.diagonal() != 0.0).all():
        return False
    if (maximum_matching(matrix) < 0).any():
        return True
    if matrix.nnz <= REMEMBERED_ENTRIES:
        _regular_patterns = (Pattern(matrix), *_regular_patterns[: REMEMBERED_PATTERNS - 1])
    return False


def superlu(matrix: Any, **settings: Any) -> SuperLU:
    """LU factors of a square CSC matrix by SuperLU."""
    # SuperLU reads and writes beyond its memory where no entry is left that could be a pivot. Matrices that
    # the places of their entries make singular are therefore recognised before.
    # Shapes: matrix (n, n).
    if is_structurally_singular(matrix):
        raise SingularMatrixError("the places of the entries make the matrix singular")
    try:
        return splu(matrix, **settings)
    except RuntimeError as error:
        raise SingularMatrixError(str(error)) from None
    except MemoryError:
        raise SolveError(
            f"the factors of a matrix with {matrix.shape[0]} rows and {matrix.nnz} entries do not fit into "
            f"memory; with rtol the matrices of a step have no more rows than there are unknowns, and "
            f"linear_solver='gmres' factorises fewer of them"
        ) from None


def sparse_factors(matrix: Any) -> DiagonalPivotLU | SuperLU:
    """LU factors of a sparse matrix, with pivots on the diagonal where they are accurate."""
    # Shapes: matrix (n, n).
    matrix = _canonical(matrix)
    return with_diagonal_pivots(matrix, **SUPERNODES) or superlu(matrix, **SUPERNODES)


class SparseLU:
    """LU factors of a sparse matrix by SuperLU, with pivots on the diagonal where these are accurate."""

    # J. W. Demmel, S. C. Eisenstat, J. R. Gilbert, X. S. Li, J. W. H. Liu, A supernodal approach to sparse
    # partial pivoting, SIAM J. Matrix Anal. Appl. 20 (1999) 720.
    # Shapes: matrix (n, n).

    def __init__(self, matrix: Any, like: Factorization | None = None) -> None:
        matrix = _canonical(matrix)
        self._scale: Vector | None = None
        self._rank: npt.NDArray[np.intp] | None = None
        self._ordering: Reordering | None = None
        on_diagonal = with_diagonal_pivots(matrix, **SUPERNODES)
        self._lu: Any = on_diagonal
        if on_diagonal is None:
            self._exchange_rows(matrix, like)

    def _exchange_rows(self, matrix: Any, like: Factorization | None) -> None:
        ordering: Reordering | None = like._ordering if isinstance(like, SparseLU) else None
        if ordering is not None and not ordering.fits(matrix):
            ordering = None
        self._rank = None if ordering is None else ordering.rank
        settings = SUPERNODES if ordering is None else {**SUPERNODES, "permc_spec": "NATURAL"}
        moved = matrix if ordering is None else ordering.ordered(matrix)
        try:
            self._lu = superlu(moved, **settings)
            if self._is_weak(moved):
                self._scale = 1.0 / abs(moved).max(axis=1).toarray().ravel()
                moved = sparse.csc_matrix(sparse.diags_array(self._scale) @ moved)
                self._lu = superlu(moved, **settings)
                if self._is_weak(moved):
                    raise SingularMatrixError("singular to round-off")
        except SingularMatrixError:
            raise _singular(matrix, self._scale) from None
        if ordering is None and matrix.shape[0] >= LEAST_REUSED_ORDER:
            ordering = Reordering(matrix, np.argsort(self._lu.perm_c))
        self._ordering = ordering

    def _is_weak(self, matrix: Any) -> bool:
        # A pivot at round-off makes a solution that grows as much. Only then U is taken out: SuperLU copies
        # both factors for that and keeps the copies. ``columns`` are the largest entries of these.
        columns = np.zeros(matrix.shape[1])
        filled = np.flatnonzero(np.diff(matrix.indptr))
        columns[filled] = np.maximum.reduceat(np.abs(matrix.data), matrix.indptr[filled])
        if not grows(self._lu.solve(probe(len(columns))), columns):
            return False
        # Column k of the matrix is column perm_c[k] of U.
        return _weak(self._lu.U.diagonal()[self._lu.perm_c], columns)

    def solve(self, rhs: Vector) -> Vector:
        """See :class:`Factorization`."""
        solution: Vector = self._lu.solve(rhs if self._scale is None else _scaled(rhs, self._scale))
        return solution if self._rank is None else solution[self._rank]

    @property
    def nnz(self) -> int:
        """Number of entries of both factors."""
        return int(self._lu.nnz)

    def parts(self) -> tuple[Any, Any, npt.NDArray[np.int32], npt.NDArray[np.intp], Vector | None]:
        """L, U, permutations of rows and columns and scale of the rows; SuperLU keeps copies of L and U."""
        # Shape of the result: lower, upper (n, n), rows, columns (n,), scale (n,).
        columns = self._lu.perm_c.astype(np.intp)
        if self._rank is not None:
            columns = columns[self._rank]
        return self._lu.L, self._lu.U, self._lu.perm_r, columns, self._scale


class _Analysis(Pattern):
    """KLU's symbolic analysis of a pattern, and a kvxopt matrix of that pattern, whose values change."""

    def __init__(self, kvxopt: Any, klu: Any, matrix: Any) -> None:
        super().__init__(matrix)
        columns = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
        rows = matrix.indices.astype(np.int64)
        parts = (kvxopt.matrix(part) for part in (matrix.data, rows, columns))
        self.matrix = kvxopt.spmatrix(*parts, matrix.shape)
        self.symbolic = klu.symbolic(self.matrix)


class KLU(Refined):
    """LU factors of a sparse matrix by KLU, which splits it into blocks and orders each by AMD."""

    # T. A. Davis, E. Palamadai Natarajan, Algorithm 907: KLU, a direct sparse solver for circuit simulation
    # problems, ACM Trans. Math. Softw. 37 (2010) 36.
    # On chains twice as fast as SuperLU once the pattern has been analysed. On grids with constraints the
    # factors lose digits, which iterative refinement brings back, or SuperLU's are taken in their place.
    # Shapes: matrix (n, n).

    def __init__(self, matrix: Any, like: Factorization | None = None) -> None:
        self._kvxopt, self._klu = _kvxopt()
        matrix = _canonical(matrix)
        analysis: _Analysis | None = like._analysis if isinstance(like, KLU) else None
        try:
            if analysis is not None and analysis.fits(matrix):
                # Factors do not point to the matrix they were made of: its values may be written over.
                analysis.matrix.V = self._kvxopt.matrix(matrix.data)
            else:
                analysis = _Analysis(self._kvxopt, self._klu, matrix)
            self._analysis: _Analysis = analysis
            self._numeric = self._klu.numeric(analysis.matrix, analysis.symbolic)
        except ArithmeticError:
            raise _singular(matrix) from None
        self._type = matrix.dtype
        self._judge(matrix)

    @property
    def nnz(self) -> int:
        """Number of entries of both factors of the blocks."""
        return sum(part.nnz for part in self.parts()[:2])

    def parts(self) -> tuple[Any, Any, npt.NDArray[np.int32], npt.NDArray[np.intp], Vector | None]:
        """See :meth:`SparseLU.parts`; L and U are those of blocks on the diagonal, without what is beside."""
        known = self._klu.get_numeric(self._analysis.matrix, self._analysis.symbolic, self._numeric)[:5]
        arrays = [tuple(np.ravel(numbers) for numbers in (part.V, part.I, part.CCS[0])) for part in known]
        lower, upper, rows, columns, scale = (sparse.csc_matrix(part, shape=known[0].size) for part in arrays)
        return lower, upper, rows.indices, np.argsort(columns.indices), scale.diagonal()[rows.indices].real

    def _substitute(self, rhs: Vector) -> Vector:
        # kvxopt takes the type of the numbers of a plain array as it is.
        block = self._kvxopt.matrix(np.asarray(rhs, dtype=self._type))
        self._klu.solve(self._analysis.matrix, self._analysis.symbolic, self._numeric, block)
        # The array owns the block.
        solution: Vector = np.asarray(block)
        return solution[:, 0] if rhs.ndim == 1 else solution


def _kvxopt() -> tuple[Any, Any]:
    try:
        return importlib.import_module("kvxopt"), importlib.import_module("kvxopt.klu")
    except ImportError:
        raise InputError("solver 'klu' needs the package kvxopt (GPL): pip install 'dae_sdc[klu]'") from None


def _canonical(matrix: Any) -> Any:
    """A CSC matrix with its indices in order; a copy where they are not, for solvers sort them in place."""
    matrix = sparse.csc_matrix(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _scaled(rhs: Vector, scale: Vector) -> Vector:
    """``rhs``, shape (n,) or (n, k), with its rows multiplied; in the order of memory it has."""
    return (rhs.T * scale).T


def _weak(pivots: Vector, columns: Vector) -> bool:
    """Whether a pivot is at the round-off of its column, which then depends on those before it."""
    return bool((np.abs(pivots) <= len(pivots) * EPS * columns).any())


def factorize(matrix: Matrix, solver: str = "auto", like: Factorization | None = None) -> Factorization:
    """Factorise a dense or sparse square matrix."""
    # Shapes: matrix (n, n).
    if solver == "auto":
        solver = "superlu" if sparse.issparse(matrix) else "dense"
    if solver == "superlu":
        return SparseLU(matrix, like)
    if solver == "klu":
        factors = KLU(matrix, like)
        return factors if factors.accurate else SparseLU(matrix)
    if solver != "dense":
        raise InputError(unknown("linear solver", solver, SOLVERS))
    if isinstance(matrix, np.ndarray):
        return DenseLU(matrix)
    n = matrix.shape[0]
    if 8 * n * n > LARGEST_DENSE_BYTES:
        raise InputError(
            f"solver 'dense' cannot take a sparse matrix with n={n}: as an array it needs "
            f"{8 * n * n / 2**30:.3g} GiB, more than {LARGEST_DENSE_BYTES / 2**30:.3g} GiB; take 'superlu'"
        )
    # dgetrf works by columns and would copy rows.
    return DenseLU(matrix.toarray(order="F"))


def _singular(matrix: Any, scale: Vector | None = None) -> SingularMatrixError:
    """The error, with row and column of what the matrix leaves open in its text, if that is known."""
    if matrix.shape[0] > LARGEST_DIAGNOSED:  # too large to be made dense, besides
        columns = maximum_matching(matrix)
        rows, left = np.flatnonzero(columns < 0), np.setdiff1d(np.arange(matrix.shape[0]), columns)
        return SingularMatrixError(f"{rows[0]},{left[0]}" if rows.size else "")
    array = matrix.toarray()
    if scale is not None and np.isfinite(scale).all():
        array *= scale[:, None]
    return SingularMatrixError(_name_null_space(array))


def _name_null_space(matrix: npt.NDArray[np.float64]) -> str:
    if len(matrix) > LARGEST_DIAGNOSED:
        return ""
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0.0] = 1.0
    left, _, right = np.linalg.svd(matrix / scale)
    return f"{int(np.abs(left[:, -1]).argmax())},{int(np.abs(right[-1]).argmax())}"


def krylov(
    apply: Callable[[Vector], Vector],
    rhs: Vector,
    preconditioner: Factorization,
    tolerance: float = 1e-10,
    most: int = 30,
) -> tuple[Vector, int]:
    """The best solution of A x = b in a Krylov space, by GMRES without restarts, and the products with A."""
    # Factors of another matrix M precondition it from the left, which makes M^{-1} (b - A x) small, nearly
    # the error in x. Like the corrections by which a Newton iteration is judged it does not depend on the
    # units of the equations, as b - A x does.
    # Y. Saad, M. H. Schultz, GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear
    # systems, SIAM J. Sci. Stat. Comput. 7 (1986) 856. D. A. Knoll, D. E. Keyes, Jacobian-free Newton-Krylov
    # methods: a survey of approaches and applications, J. Comput. Phys. 193 (2004) 357. C. C. Paige,
    # M. Rozloznik, Z. Strakos, Modified Gram-Schmidt (MGS), least squares, and backward stability of
    # MGS-GMRES, SIAM J. Matrix Anal. Appl. 28 (2006) 264, for orthogonalising once.
    # Shapes: rhs (n,).
    residual = preconditioner.solve(rhs)
    x, whole, products = np.zeros(residual.size), float(dnrm2(residual)), 0
    if not 0.0 < whole < np.inf:
        return x, 0
    # An orthonormal basis of arrays that solves return, and its Hessenberg matrix, made triangular.
    basis, target = [dscal(1.0 / whole, residual)], [whole]
    triangle: list[list[float]] = []
    rotations: list[tuple[float, float]] = []
    while products < most and abs(target[-1]) > tolerance * whole:
        vector = preconditioner.solve(apply(basis[-1]))
        products += 1
        before, column = float(dnrm2(vector)), []
        for other in basis:
            column.append(float(ddot(other, vector)))
            daxpy(other, vector, a=-column[-1])
        norm = float(dnrm2(vector))
        column.append(norm)
        if not math.isfinite(sum(column)):
            break
        for k, (cosine, sine) in enumerate(rotations):
            column[k], column[k + 1] = (
                cosine * column[k] + sine * column[k + 1],
                cosine * column[k + 1] - sine * column[k],
            )
        length = math.hypot(column[-2], column[-1])
        if length <= EPS * before:
            # The product adds nothing: the matrix is singular on this space.
            break
        cosine, sine = column[-2] / length, column[-1] / length
        rotations.append((cosine, sine))
        triangle.append([*column[:-2], length])
        target[-1:] = [cosine * target[-1], -sine * target[-1]]
        if norm <= EPS * before:
            break
        basis.append(dscal(1.0 / norm, vector))
    weights = [0.0] * len(triangle)
    for k in reversed(range(len(triangle))):
        value = target[k] - sum(triangle[j][k] * weights[j] for j in range(k + 1, len(triangle)))
        weights[k] = value / triangle[k][k]
    for k, weight in enumerate(weights):
        daxpy(basis[k], x, a=weight)
    return x, products
