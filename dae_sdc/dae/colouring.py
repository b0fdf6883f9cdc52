"""Groups of columns of a sparse Jacobian that are found together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


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
