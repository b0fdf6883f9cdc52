"""Patterns of sparse matrices, and their LU factors with pivots on the diagonal."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from scipy.sparse.linalg import SuperLU, spilu, splu

from dae_sdc.dae.state import Vector


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
