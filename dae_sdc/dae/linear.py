"""LU factorisations of iteration matrices, dense by LAPACK and sparse by SuperLU, behind one call."""

from __future__ import annotations

import functools
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.linalg.blas import dasum, idamax
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.sparse.linalg import splu

from dae_sdc.dae.state import Vector
from dae_sdc.errors import SingularMatrixError

Matrix: TypeAlias = npt.NDArray[np.float64] | sparse.csc_matrix | sparse.csc_array

EPS = float(np.finfo(float).eps)

DIAGNOSIS_LIMIT = 2000
"""Largest sparse matrix that is made dense to name the unknown behind a singularity."""

DOUBTFUL = 1e-4
"""Part of 1 / (n eps) up to which a sparse solution may grow before the pivots are looked at."""


def largest(values: Vector) -> float:
    """Largest absolute value of a contiguous vector; NaN if one is.

    Two BLAS calls are several times faster than NumPy here, for the vectors of one node. Their search skips
    NaN, their sum does not.
    """
    if not values.size:
        return 0.0
    total = dasum(values)
    return abs(values.item(idamax(values))) if total < np.inf else float(total)


class Factorization(Protocol):
    """A factorised matrix."""

    def solve(self, rhs: Vector) -> Vector:
        """The solution x of (matrix) x = rhs as a new array of shape (n,)."""
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

    def solve(self, rhs: Vector) -> Vector:
        """See :class:`Factorization`."""
        if self._scale is not None:
            rhs = rhs * self._scale
        solution: Vector = dgetrs(self._lu, self._pivots, rhs)[0]
        return solution


class SparseLU:
    """LU factors of a sparse matrix, columns ordered by COLAMD.

    Orderings of the pattern of A + A^T suit nearly symmetric matrices with a full diagonal. The constraints
    of index 2 have none: for flow on a grid with n = 1e4 the factors fill 25 times the memory.
    """

    def __init__(self, matrix: Any) -> None:
        matrix = sparse.csc_matrix(matrix)
        self._scale: Vector | None = None
        try:
            self._lu = splu(matrix)
            if self._is_weak(matrix):
                self._scale = 1.0 / abs(matrix).max(axis=1).toarray().ravel()
                matrix = sparse.csc_matrix(sparse.diags_array(self._scale) @ matrix)
                self._lu = splu(matrix)
                if self._is_weak(matrix):
                    raise RuntimeError("singular to round-off")
        except RuntimeError:
            small = matrix.shape[0] <= DIAGNOSIS_LIMIT
            raise SingularMatrixError(_name_null_space(matrix.toarray()) if small else "") from None

    def _is_weak(self, matrix: Any) -> bool:
        columns = _column_maxima(matrix)
        # A pivot at round-off makes a solution that grows as much. Only then U is taken out: SuperLU copies
        # both factors for that and keeps the copies.
        n = matrix.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            growth = largest(self._lu.solve(_probe(n)) * columns)
        if growth * n * EPS < DOUBTFUL * largest(columns):
            return False
        # Column k of the matrix is column perm_c[k] of U.
        return _weak(self._lu.U.diagonal()[self._lu.perm_c], columns)

    def solve(self, rhs: Vector) -> Vector:
        """See :class:`Factorization`."""
        solution: Vector = self._lu.solve(rhs if self._scale is None else rhs * self._scale)
        return solution


def _column_maxima(matrix: Any) -> Vector:
    """Largest absolute value in every column of a CSC matrix."""
    maxima = np.zeros(matrix.shape[1])
    filled = np.flatnonzero(np.diff(matrix.indptr))
    maxima[filled] = np.maximum.reduceat(np.abs(matrix.data), matrix.indptr[filled])
    return maxima


@functools.lru_cache(maxsize=4)
def _probe(n: int) -> Vector:
    """A right-hand side with a part in every direction: random, but always the same."""
    return np.random.default_rng(n).standard_normal(n)


def _weak(pivots: Vector, columns: Vector) -> bool:
    """Whether a pivot is at the round-off of its column, which then depends on those before it."""
    return bool((np.abs(pivots) <= len(pivots) * EPS * columns).any())


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
