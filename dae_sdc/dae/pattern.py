"""Patterns of sparse matrices: what follows from the places of the entries alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow


class Pattern:
    """Where the entries of a sparse matrix are: a copy, so that it stays true when the matrix is altered."""

    def __init__(self, matrix: Any) -> None:
        self._indptr, self._indices = matrix.indptr.copy(), matrix.indices.copy()

    def fits(self, matrix: Any) -> bool:
        """Whether a matrix has this pattern; costs a comparison of the indices."""
        return np.array_equal(self._indptr, matrix.indptr) and np.array_equal(self._indices, matrix.indices)


def column_groups(pattern: Any) -> list[npt.NDArray[np.intp]]:
    """Columns that share no row, greedily grouped so that one difference serves all columns of a group.

    References
    ----------
    A. R. Curtis, M. J. D. Powell, J. K. Reid, On the estimation of sparse Jacobian matrices,
    IMA J. Appl. Math. 13 (1974) 117.
    """
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
    """The column that each row is matched with, where as many rows as possible have one of their own.

    It is the largest flow from the rows to the columns by Dinic's method, whose time is bounded by the number
    of entries times the root of that of rows. SciPy's ``maximum_bipartite_matching`` and ``structural_rank``
    took 14 s for 2795 rows of a flow's stages where this takes 0.02 s.

    References
    ----------
    J. E. Hopcroft, R. M. Karp, An n^(5/2) algorithm for maximum matchings in bipartite graphs, SIAM J.
    Comput. 2 (1973) 225; E. A. Dinic, Soviet Math. Dokl. 11 (1970) 1277.
    """
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
