"""Solves with the factors of a sparse matrix as plain loops, for compiled code that must not call Python.

SuperLU needs 3 us for a solve of any size, by the way through SciPy. Loops do without: called by compiled
code they are more than ten times faster for n = 20, and twice as fast for chains of any length. They are
slower where the factors are so full that SuperLU works on blocks, on grids from n = 500.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.linear import Factorization, SparseLU
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SingularMatrixError

Indices = npt.NDArray[np.int32]


class TriangularFactors(NamedTuple):
    """A factorised matrix A as arrays: diag(scale) A = P L U Q, both factors stored by rows.

    Rows and not columns, because a row is summed up in a register where a column is spread over memory; the
    diagonal of U is stored by its reciprocals, for a division takes longer than all else in a short row.

    Parameters
    ----------
    lower_data, lower_indices, lower_indptr : ndarray
        L without its diagonal of ones, in CSR form; shapes (entries,), (entries,), (n + 1,).
    upper_data, upper_indices, upper_indptr : ndarray
        U without its diagonal, in CSR form.
    inverse : ndarray, shape (n,)
        1 / U[i, i].
    rows : ndarray of int, shape (n,)
        Row i of LU is row ``rows[i]`` of A.
    columns : ndarray of int, shape (n,)
        Column i of LU is column ``columns[i]`` of A.
    scale : ndarray, shape (n,)
        What row ``rows[i]`` of A is multiplied with, at index i.
    size : int
        n.
    """

    lower_data: Vector
    lower_indices: Indices
    lower_indptr: Indices
    upper_data: Vector
    upper_indices: Indices
    upper_indptr: Indices
    inverse: Vector
    rows: Indices
    columns: Indices
    scale: Vector
    size: int


def triangular_factors(factorization: Factorization) -> TriangularFactors:
    """The factors of a sparse matrix as arrays.

    SuperLU copies its factors for that, and keeps the copies: drop ``factorization`` where memory counts.

    Parameters
    ----------
    factorization : SparseLU
        What :func:`dae_sdc.dae.linear.factorize` returns for a sparse matrix and the solver "superlu".

    Returns
    -------
    TriangularFactors
        12 bytes for each entry off the diagonals, and 32 n for the rest.

    Raises
    ------
    InputError
        If the factors are not those of SuperLU.
    SingularMatrixError
        If a pivot is so small that it has no reciprocal.
    """
    if not isinstance(factorization, SparseLU):
        raise InputError(
            f"triangular factors are those of solver 'superlu'; got {type(factorization).__name__}"
        )
    lower, upper, row_rank, column_rank, scale = factorization.parts()
    with np.errstate(divide="ignore", over="ignore"):
        inverse = 1.0 / upper.diagonal()
    if not np.isfinite(inverse).all():
        raise SingularMatrixError("")
    rows = np.argsort(row_rank).astype(np.int32)
    ordered = np.ones(len(rows)) if scale is None else scale[rows]
    below, above = sparse.tril(lower, -1, format="csr"), sparse.triu(upper, 1, format="csr")
    return TriangularFactors(
        *_csr_parts(below),
        *_csr_parts(above),
        inverse,
        rows,
        np.argsort(column_rank).astype(np.int32),
        ordered,
        len(rows),
    )


def _csr_parts(matrix: Any) -> tuple[Vector, Indices, Indices]:
    return matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)


def solve_triangular(factors: TriangularFactors, rhs: Vector, out: Vector, work: Vector) -> None:
    """Solve A x = b with the factors of A; allocates nothing.

    In the part of Python that numba compiles: compiled code calls ``register_jitable(solve_triangular)`` or
    what :func:`compiled` returns. The arithmetic is the same everywhere, to the last digit.

    Parameters
    ----------
    factors : TriangularFactors
        Of A.
    rhs : ndarray, shape (n,)
        The right-hand side b.
    out : ndarray, shape (n,)
        Receives x; may be ``rhs``.
    work : ndarray, shape (n,)
        Overwritten; neither ``rhs`` nor ``out``.
    """
    data, indices, starts = factors.lower_data, factors.lower_indices, factors.lower_indptr
    rows, columns, scale, inverse = factors.rows, factors.columns, factors.scale, factors.inverse
    n = factors.size
    for i in range(n):
        total = rhs[rows[i]] * scale[i]
        for entry in range(starts[i], starts[i + 1]):
            total -= data[entry] * work[indices[entry]]
        work[i] = total
    data, indices, starts = factors.upper_data, factors.upper_indices, factors.upper_indptr
    for i in range(n - 1, -1, -1):
        total = work[i]
        for entry in range(starts[i], starts[i + 1]):
            total -= data[entry] * work[indices[entry]]
        total *= inverse[i]
        work[i] = total
        out[columns[i]] = total


@functools.cache
def compiled() -> Callable[[TriangularFactors, Vector, Vector, Vector], None]:
    """:func:`solve_triangular` compiled, from the disk where it was before; numba is imported only now.

    Raises
    ------
    InputError
        If numba is not installed.
    """
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        raise InputError("compiled solves need the package numba: pip install numba") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", numba.NumbaWarning)
        try:
            made = numba.njit(cache=True, error_model="numpy")(solve_triangular)
        except RuntimeError:  # there is no place to keep the result
            made = numba.njit(error_model="numpy")(solve_triangular)
    solver: Callable[[TriangularFactors, Vector, Vector, Vector], None] = made
    return solver
