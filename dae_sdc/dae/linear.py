"""Linear systems with iteration matrices: LU by LAPACK, SuperLU or KLU, and GMRES with kept factors."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.linalg.blas import dasum, daxpy, ddot, dnrm2, dscal, idamax
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.sparse.linalg import SuperLU, splu

from dae_sdc.dae.pattern import (
    EPS,
    DiagonalPivotLU,
    Pattern,
    Refined,
    Reordering,
    grows,
    maximum_matching,
    probe,
    with_diagonal_pivots,
)
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SingularMatrixError, SolveError
from dae_sdc.registry import unknown

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
