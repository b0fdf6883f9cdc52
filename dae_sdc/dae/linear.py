"""LU factorisations of iteration matrices, dense by LAPACK and sparse by SuperLU, behind one call."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.sparse.linalg import splu

from dae_sdc.dae.state import Vector
from dae_sdc.errors import SingularMatrixError

Matrix = npt.NDArray[np.float64] | sparse.csc_matrix | sparse.csc_array

DIAGNOSIS_LIMIT = 2000
"""Largest sparse matrix that is made dense to name the unknown behind a singularity."""


class Factorization(Protocol):
    """A factorised matrix."""

    def solve(self, rhs: Vector) -> Vector:
        """The solution x of (matrix) x = rhs as a new array of shape (n,)."""
        ...


class DenseLU:
    """LU factors of a dense matrix with partial pivoting."""

    def __init__(self, matrix: npt.NDArray[np.float64]) -> None:
        lu, self._pivots, _ = dgetrf(matrix)
        self._lu = lu
        # A pivot at the round-off of its own column carries no digit: the column depends on those before it.
        floor = len(lu) * np.finfo(float).eps * np.abs(matrix).max(axis=0)
        weak = np.abs(np.diagonal(lu)) <= floor
        if weak.any():
            raise SingularMatrixError(_name_null_space(matrix))

    def solve(self, rhs: Vector) -> Vector:
        """See :class:`Factorization`."""
        solution: Vector = dgetrs(self._lu, self._pivots, rhs)[0]
        return solution


class SparseLU:
    """LU factors of a sparse matrix, columns ordered by COLAMD."""

    def __init__(self, matrix: Any) -> None:
        try:
            self._lu = splu(sparse.csc_matrix(matrix))
        except RuntimeError:
            small = matrix.shape[0] <= DIAGNOSIS_LIMIT
            raise SingularMatrixError(_name_null_space(matrix.toarray()) if small else "") from None

    def solve(self, rhs: Vector) -> Vector:
        """See :class:`Factorization`."""
        solution: Vector = self._lu.solve(rhs)
        return solution


def factorize(matrix: Matrix) -> Factorization:
    """Factorise a dense or sparse square matrix.

    Parameters
    ----------
    matrix : ndarray or CSC matrix, shape (n, n)
        Finite entries.

    Returns
    -------
    Factorization
        Its ``solve`` takes a right-hand side of shape (n,).

    Raises
    ------
    SingularMatrixError
        If a pivot vanishes to round-off. The message is "i,j" with the index i of the equation and j of the
        unknown that weigh most in the null vectors, or empty where that is too dear to find.
    """
    return SparseLU(matrix) if sparse.issparse(matrix) else DenseLU(matrix)


def _name_null_space(matrix: npt.NDArray[np.float64]) -> str:
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0.0] = 1.0
    left, _, right = np.linalg.svd(matrix / scale)
    return f"{int(np.abs(left[:, -1]).argmax())},{int(np.abs(right[-1]).argmax())}"
