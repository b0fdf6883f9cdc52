"""Patterns of sparse matrices, by which what was found for one matrix is known to hold for the next."""

from __future__ import annotations

from typing import Any

import numpy as np


class Pattern:
    """Where the entries of a sparse matrix are: a copy, so that it stays true when the matrix is altered."""

    def __init__(self, matrix: Any) -> None:
        self._indptr, self._indices = matrix.indptr.copy(), matrix.indices.copy()

    def fits(self, matrix: Any) -> bool:
        """Whether a matrix has this pattern; costs a comparison of the indices."""
        return np.array_equal(self._indptr, matrix.indptr) and np.array_equal(self._indices, matrix.indices)
