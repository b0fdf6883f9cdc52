"""Sparse factors as plain loops, for compiled code that must not call Python: solves and refactorisations."""

# A solve by SuperLU takes at least 3 us, as it goes through SciPy. Loops called by compiled code are more
# than ten times faster for n = 20, and twice as fast for chains of any length. They are slower where the
# factors are so full that SuperLU works on blocks, on grids from n = 500. Matrices of one pattern need pivots
# chosen once: the next is factorised with the orderings and the pivots of an earlier one, which leaves the
# arithmetic alone, and whether those pivots are still good enough is watched while it is done.

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae import machine_code
from dae_sdc.dae.linear import KLU, SparseLU
from dae_sdc.dae.memory import address
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SingularMatrixError
from dae_sdc.sharing import once

Indices = npt.NDArray[np.int32]

# Entries of sparse factors a row up to which loops are faster than SuperLU, which works on blocks.
LARGEST_ROW_FILL = 100
LARGEST_PLAIN_PATTERN = 1000  # Entries of a matrix and its factors up to which nothing is compiled for them.


class TriangularFactors(NamedTuple):
    """A factorised real or complex matrix A: diag(scale) A = P L U Q, both factors stored by rows."""

    # Rows and not columns, because a row is summed up in a register where a column is spread over memory; the
    # diagonal of U by its reciprocals, for a division takes longer than all else in a short row.

    # lower_data, lower_indices, lower_indptr: L without its diagonal of ones, in CSR form with columns in
    # ascending order; shapes (entries,), (entries,), (n + 1,).
    lower_data: Vector
    lower_indices: Indices
    lower_indptr: Indices
    # upper_data, upper_indices, upper_indptr: U without its diagonal, in the same form.
    upper_data: Vector
    upper_indices: Indices
    upper_indptr: Indices
    inverse: Vector  # Shape (n,). 1 / U[i, i].
    rows: Indices  # Shape (n,). Row i of LU is row ``rows[i]`` of A.
    columns: Indices  # Shape (n,). Column i of LU is column ``columns[i]`` of A.
    scale: Vector  # Shape (n,). Factor of row ``rows[i]`` of A, at index i.
    size: int  # n.


class RowPattern(NamedTuple):
    """Where the entries of a matrix go in its factors LU, row by row; all matrices of a pattern share it."""

    source: Indices  # Shape (entries,). Places in the values of the matrix in CSC form.
    # Shape (entries,). Columns of LU to which those values belong, in ascending order in every row.
    position: Indices
    indptr: Indices  # Shape (n + 1,). Row i of LU is made of ``source[indptr[i]:indptr[i + 1]]``.
    # Shape (n,). The last row of the supernode that a row of U belongs to: rows one after the other, of which
    # each has the columns of the one before but for its diagonal.
    supernode: Indices


# How many arrays factors and row patterns have.
PARTS, ROW_PARTS = len(TriangularFactors._fields) - 1, len(RowPattern._fields)

REFACTORIZED, WEAK_PIVOT, GROWTH, NOT_FINITE = range(4)  # Return values of :func:`refactorize`.

# Smallest pivot relative to the largest term met in its row, with columns scaled: the square root of eps.
# A pivot is as uncertain as the round-off of those terms, so half of its digits are left at least.
# SuperLU_DIST, which does not exchange rows while it eliminates either, replaces smaller ones: X. S. Li,
# J. W. Demmel, SuperLU_DIST: a scalable distributed-memory sparse direct solver for unsymmetric linear
# systems, ACM Trans. Math. Softw. 29 (2003) 110.
SMALLEST_PIVOT = 2.0**-26
# Largest term of a row relative to the row of the matrix, with columns scaled: 1 / the square root of eps.
# Elimination without exchanges solves a system that differs by n eps |L| |U| (N. J. Higham, Accuracy and
# Stability of Numerical Algorithms, SIAM (2002), theorem 9.3), of which these terms are the parts. Up to this
# bound Newton's method still gains half of the digits with every correction.
LARGEST_GROWTH = 2.0**26

_FINITE = float(np.finfo(float).max)
_NORMAL = float(np.finfo(float).tiny)


def superlu_factors(lu: Any, matrix: Any) -> tuple[TriangularFactors, RowPattern]:
    """The factors of a real or complex matrix by SuperLU, and where the entries of others go in them."""
    # T. A. Davis, Direct Methods for Sparse Linear Systems, SIAM (2006), ch. 6, for the patterns of factors.
    # SciPy leaves out entries that are zero in SuperLU's factors, by chance or because the matrix stores
    # zeros, and need not be in the next one: those that can be filled follow from the pattern and the pivots.
    # Shapes: matrix (n, n).
    parts = lu.parts() if isinstance(lu, SparseLU | KLU) else (lu.L, lu.U, lu.perm_r, lu.perm_c, None)
    lower, upper, row_rank, column_rank, scale = parts
    rows, columns = _inverse_permutation(row_rank), _inverse_permutation(column_rank)
    # This conversion orders the entries of every row by their columns.
    lower, upper = lower.tocsr(), upper.tocsr()
    diagonal = upper.data[upper.indptr[:-1]]
    with np.errstate(divide="ignore", over="ignore"):
        inverse = 1.0 / diagonal
    if not np.isfinite(inverse).all():
        raise SingularMatrixError("")
    # The diagonal is the last entry of a row of L and the first of one of U.
    below, above = _without(lower, lower.indptr[1:] - 1), _without(upper, upper.indptr[:-1])
    scale = np.ones(len(rows)) if scale is None else scale[rows]
    factors = TriangularFactors(*below, *above, inverse, rows, columns, scale, len(rows))
    pattern = _rows_of(factors, matrix)
    factors = _filled(factors, pattern)
    return factors, pattern._replace(supernode=_supernodes(factors))


def _inverse_permutation(rank: npt.NDArray[Any]) -> Indices:
    return np.argsort(rank).astype(np.int32)


def _without(matrix: Any, places: npt.NDArray[Any]) -> tuple[Vector, Indices, Indices]:
    """Values, columns and starts of the rows of a CSR matrix, less one entry of every row."""
    kept = np.ones(len(matrix.data), dtype=bool)
    kept[places] = False
    starts = matrix.indptr - np.arange(len(matrix.indptr), dtype=matrix.indptr.dtype)
    return matrix.data[kept], matrix.indices[kept].astype(np.int32), starts.astype(np.int32)


def _rows_of(factors: TriangularFactors, matrix: Any) -> RowPattern:
    if getattr(matrix, "format", None) != "csc" or matrix.shape != (factors.size, factors.size):
        raise InputError(
            f"the matrix of factors with n={factors.size} must be one in CSC form of that size; "
            f"got {type(matrix).__name__} of shape {getattr(matrix, 'shape', None)}"
        )
    row_rank = _inverse_permutation(factors.rows)
    lengths = np.diff(matrix.indptr)[factors.columns]
    starts = np.zeros_like(matrix.indptr)
    np.cumsum(lengths, out=starts[1:])
    source = np.repeat(matrix.indptr[:-1][factors.columns] - starts[:-1], lengths)
    source += np.arange(len(source), dtype=source.dtype)
    # Columns in order, rows renamed: the conversion puts the numbers of the entries into ascending rows.
    ordered = sparse.csc_array((source, row_rank[matrix.indices[source]], starts), shape=matrix.shape)
    rows = ordered.tocsr()
    source, position, starts = (part.astype(np.int32) for part in (rows.data, rows.indices, rows.indptr))
    return RowPattern(source, position, starts, np.arange(factors.size, dtype=np.int32))


def _supernodes(factors: TriangularFactors) -> Indices:
    """The last row of the supernode of each row of U."""
    rows = np.arange(factors.size, dtype=np.int32)
    lower, upper = factors.lower_indices, factors.upper_indices
    starts, ends = factors.upper_indptr[:-1], factors.lower_indptr[1:]
    lengths = np.diff(factors.upper_indptr)
    # Where L[i + 1, i] is filled, row i + 1 of U has all columns of row i beyond its own.
    goes_on = np.zeros(factors.size, dtype=bool)
    before = np.flatnonzero((lengths[:-1] == lengths[1:] + 1) & (np.diff(factors.lower_indptr)[1:] > 0))
    goes_on[before] = (upper[starts[before]] == before + 1) & (lower[ends[before + 1] - 1] == before)
    last = np.where(goes_on, np.int32(factors.size), rows)
    return np.minimum.accumulate(last[::-1])[::-1].astype(np.int32)


def _filled(factors: TriangularFactors, pattern: RowPattern) -> TriangularFactors:
    """Factors with an entry wherever matrices of this pattern can have one, zero where these have none."""
    n = factors.size
    lower_starts, upper_starts, link, ends = (np.empty(n + 1, dtype=np.int32) for _ in range(4))
    room = len(pattern.source) + len(factors.lower_data) + len(factors.upper_data)
    is_small = room <= LARGEST_PLAIN_PATTERN
    fill: Callable[..., int] = fill_in if is_small else compiled_fill_in()
    entries = -1
    while entries < 0:
        lower, upper = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
        arrays = pattern.position, pattern.indptr, link, ends, lower, lower_starts, upper, upper_starts
        entries = fill(*(arrays if is_small else map(address, arrays)), n, room)
        room *= 2
    lower, upper = lower[: lower_starts[n]].copy(), upper[: upper_starts[n]].copy()
    below = _spread(lower, lower_starts, *factors[:3]), lower, lower_starts
    above = _spread(upper, upper_starts, *factors[3:6]), upper, upper_starts
    return TriangularFactors(*below, *above, *cast(Any, factors[6:]))


def _spread(
    indices: Indices, starts: Indices, data: Vector, own_indices: Indices, own_starts: Indices
) -> Vector:
    """Values of a pattern within another, with zeros between."""
    n = len(starts) - 1
    rows = np.arange(n, dtype=np.int64)
    everywhere = np.repeat(rows * n, np.diff(starts)) + indices
    own = np.repeat(rows * n, np.diff(own_starts)) + own_indices
    at = np.searchsorted(everywhere, own)
    if len(own) and (at[-1] == len(everywhere) or (everywhere[at] != own).any()):
        raise InputError("the factors are not those of the matrix: they have entries that it cannot fill")
    spread = np.zeros(len(everywhere), dtype=data.dtype)
    spread[at] = data
    return spread


@once
def compiled_fill_in() -> Callable[..., int]:
    """The compiled form of :func:`fill_in`, which takes the addresses of its arrays."""
    function = machine_code.entry("dae_sdc.compiled.machine_newton:fill_in")
    return ctypes.CFUNCTYPE(*(ctypes.c_int64,) * 11)(function.address)


def fill_in(
    positions: Indices,
    starts: Indices,
    link: Indices,
    ends: Indices,
    lower: Indices,
    lower_starts: Indices,
    upper: Indices,
    upper_starts: Indices,
    n: int,
    room: int,
) -> int:
    """The patterns of L and U without exchanges of rows, as if no number ever became zero."""
    # S. C. Eisenstat, J. W. H. Liu, Exploiting structural symmetry in unsymmetric sparse symbolic
    # factorization, SIAM J. Matrix Anal. Appl. 13 (1992) 202.
    # A row is kept as a chain in ascending order, into which the rows of U that are subtracted from it are
    # merged. Where L[j, k] and U[k, j] are both filled, row j has taken over what row k of U has beyond
    # column j, so that later rows look through row k up to j only.
    # Shapes: link (n + 1,), ends (n,), lower and upper (room,), lower_starts and upper_starts (n + 1,);
    # positions and starts are those of a :class:`RowPattern`.
    below, above = 0, 0
    lower_starts[0], upper_starts[0] = 0, 0
    for i in range(n):
        # The chain starts after place n, and ends with n. Parts of one entry stand side by side: one link.
        last = n
        for entry in range(starts[i], starts[i + 1]):
            link[last] = positions[entry]
            last = positions[entry]
        link[last] = n
        k = link[n]
        while k < i:
            last = k
            end = ends[k]
            for entry in range(upper_starts[k], end):
                j = upper[entry]
                if j == i:
                    ends[k] = entry + 1
                while link[last] < j:
                    last = link[last]
                if link[last] != j:
                    link[j] = link[last]
                    link[last] = j
                last = j
            if below == room:
                return -1
            lower[below] = k
            below += 1
            k = link[k]
        if k == i:
            k = link[k]
        while k < n:
            if above == room:
                return -1
            upper[above] = k
            above += 1
            k = link[k]
        lower_starts[i + 1] = below
        upper_starts[i + 1] = above
        ends[i] = above
    return below + above


def copy_for(factors: TriangularFactors, kind: Any = None) -> TriangularFactors:
    """Factors for another matrix of the same pattern, to be filled by :func:`refactorize`."""
    kind = factors.inverse.dtype if kind is None else kind
    own = {name: getattr(factors, name).astype(kind) for name in ("lower_data", "upper_data", "inverse")}
    return factors._replace(**own)


def refactorize(pattern: RowPattern, factors: TriangularFactors, data: Vector, work: Vector) -> int:
    """Factorise a matrix of the same pattern with the pivots of an earlier one; allocates nothing."""
    # Row by row the terms are compared with the row of the matrix, every column in units of the sum of its
    # absolute values. The answer does not depend on the units of unknowns and equations. Of complex numbers
    # the parts are added up in place of their absolute value, which would take a square root.
    # T. A. Davis, E. Palamadai Natarajan, Algorithm 907: KLU, a direct sparse solver for circuit simulation
    # problems, ACM Trans. Math. Softw. 37 (2010) 36, for refactorisation and the growth by columns.
    # J. W. Demmel, S. C. Eisenstat, J. R. Gilbert, X. S. Li, J. W. H. Liu, A supernodal approach to sparse
    # partial pivoting, SIAM J. Matrix Anal. Appl. 20 (1999) 720, for rows of one pattern that are subtracted
    # as a dense block.
    # Shapes: data (entries,), work (4 n,).
    sources, positions, starts = pattern.source, pattern.position, pattern.indptr
    supernode = pattern.supernode
    lower, lower_indices, lower_starts = factors.lower_data, factors.lower_indices, factors.lower_indptr
    upper, upper_indices, upper_starts = factors.upper_data, factors.upper_indices, factors.upper_indptr
    inverse, scale, n = factors.inverse, factors.scale, factors.size
    # work[:n] is the row at hand, work[n:2 n] the weights of the columns, work[2 n:3 n] the sizes of U's
    # rows, and work[3 n:] what the row at hand has in the columns that all rows of a supernode share.
    for i in range(n):
        work[n + i] = 0.0
    for i in range(n):
        for entry in range(starts[i], starts[i + 1]):
            value = data[sources[entry]] * scale[i]
            work[n + positions[entry]] += abs(value.real) + abs(value.imag)
    # Sums and not maxima: a NaN stays in them.
    for j in range(n):
        total = work[n + j].real
        if not total <= _FINITE:
            return NOT_FINITE
        if total < _NORMAL:
            return WEAK_PIVOT
        work[n + j] = 1.0 / total
    for i in range(n):
        for entry in range(lower_starts[i], lower_starts[i + 1]):
            work[lower_indices[entry]] = 0.0
        work[i] = 0.0
        for entry in range(upper_starts[i], upper_starts[i + 1]):
            work[upper_indices[entry]] = 0.0
        own = 0.0
        for entry in range(starts[i], starts[i + 1]):
            j = positions[entry]
            value = data[sources[entry]] * scale[i]
            work[j] += value
            own += (abs(value.real) + abs(value.imag)) * work[n + j].real
        largest = own
        entry, end = lower_starts[i], lower_starts[i + 1]
        while entry < end:
            first = lower_indices[entry]
            last = supernode[first]
            if last == first:
                multiplier = work[first] * inverse[first]
                lower[entry] = multiplier
                term = (abs(multiplier.real) + abs(multiplier.imag)) * work[2 * n + first].real
                for other in range(upper_starts[first], upper_starts[first + 1]):
                    work[upper_indices[other]] -= multiplier * upper[other]
            else:
                # Where the row has one of a supernode, it has all that follow, up to itself.
                last = min(last, i - 1)
                term = subtract_supernode(factors, first, last, entry, work)
            if not term <= LARGEST_GROWTH * own:
                return GROWTH
            if term > largest:
                largest = term
            entry += last - first + 1
        pivot = work[i]
        own = abs(pivot.real) + abs(pivot.imag)
        size = own * work[n + i].real
        if own < _NORMAL or not size > SMALLEST_PIVOT * largest:
            return WEAK_PIVOT
        inverse[i] = 1.0 / pivot
        for entry in range(upper_starts[i], upper_starts[i + 1]):
            value = work[upper_indices[entry]]
            upper[entry] = value
            size += (abs(value.real) + abs(value.imag)) * work[n + upper_indices[entry]].real
        if not size <= _FINITE:
            return NOT_FINITE
        work[2 * n + i] = size
    return REFACTORIZED


def subtract_supernode(factors: TriangularFactors, first: int, last: int, entry: int, work: Vector) -> float:
    """Subtract rows of a supernode from the row at hand as a dense block; returns the size of the largest."""
    lower, inverse, n, largest = factors.lower_data, factors.inverse, factors.size, 0.0
    upper, upper_indices, upper_starts = factors.upper_data, factors.upper_indices, factors.upper_indptr
    for k in range(first, last + 1):
        multiplier = work[k] * inverse[k]
        lower[entry + k - first] = multiplier
        term = (abs(multiplier.real) + abs(multiplier.imag)) * work[2 * n + k].real
        if not term <= largest:  # a NaN stays, as it goes into all multipliers that follow
            largest = term
        for j in range(last - k):
            work[k + 1 + j] -= multiplier * upper[upper_starts[k] + j]
    shared, count = upper_starts[last], upper_starts[last + 1] - upper_starts[last]
    for j in range(count):
        work[3 * n + j] = work[upper_indices[shared + j]]
    for k in range(first, last + 1):
        multiplier, other = lower[entry + k - first], upper_starts[k] + last - k
        for j in range(count):
            work[3 * n + j] -= multiplier * upper[other + j]
    for j in range(count):
        work[upper_indices[shared + j]] = work[3 * n + j]
    return largest


def solve_triangular(factors: TriangularFactors, rhs: Vector, out: Vector, work: Vector) -> None:
    """Solve A x = b with the factors of A; allocates nothing, and is the same compiled, to the last digit."""
    # Shapes: rhs (n,), out (n,), work (n,).
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
