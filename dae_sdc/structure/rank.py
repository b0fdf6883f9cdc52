"""Ranks and pivots of sparse matrices, and free initial values by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dae_sdc.deadline import check
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import PRIME
from dae_sdc.structure.blocks import Block
from dae_sdc.structure.signature import Integers

LARGEST_DENSE = 2000  # Largest number of rows of a matrix that is decomposed by singular values.
RANK_TOLERANCE = 1e-9  # Singular value, relative to the largest of an equilibrated matrix, that counts as 0.


class WorkLimitError(Exception):
    """An elimination exceeds its limit of operations."""


class Echelon:
    """Rows over a finite field in echelon form; the leading column of a row is its largest one."""

    def __init__(self, limit: int | None = None) -> None:
        self.rows: dict[int, dict[int, int]] = {}
        self._limit, self._work = limit, 0

    def reduce(self, row: dict[int, int], down_to: int = 0) -> int | None:
        """Eliminate leading columns of the kept rows from a row, in place, until its leading column is new.

        The new one is returned; None if the row depends on the kept rows. Columns below ``down_to`` are
        carried along, but are never leading.
        """
        while row:
            lead = max(row)
            if lead < down_to:
                return None
            known = self.rows.get(lead)
            if known is None:
                return lead
            self._work += len(known)
            if self._limit is not None and self._work > self._limit:
                raise WorkLimitError
            factor = row[lead]
            for at, value in known.items():
                left = (row.get(at, 0) - factor * value) % PRIME
                if left:
                    row[at] = left
                else:
                    row.pop(at, None)
        return None

    def add(self, row: dict[int, int], down_to: int = 0) -> int | None:
        """Reduce a row and keep it; returns its leading column, or None for a dependent row."""
        check()
        lead = self.reduce(row, down_to)
        if lead is not None:
            scale = pow(row[lead], -1, PRIME)
            self.rows[lead] = {at: value * scale % PRIME for at, value in row.items()}
        return lead


def independent_rows(rows: Iterable[Mapping[int, int]]) -> list[int]:
    """Numbers of the rows over the finite field that are no combinations of those before them."""
    echelon = Echelon()
    reduced = ({j: value for j, value in row.items() if value} for row in rows)
    return [i for i, row in enumerate(reduced) if echelon.add(row) is not None]


class ReducedRows:
    """Sparse rows of numbers, each without the columns of pivots before it, and with 1 at its own pivot.

    ``less`` is the difference of two numbers, 0 where that counts as 0.
    """

    def __init__(self, less: Callable[[Any, Any], Any]) -> None:
        self._less = less
        self.pivots: list[int] = []
        self._number: dict[int, int] = {}  # number of the pivot in a column
        self._rows: list[dict[int, Any]] = []

    def reduce(self, row: dict[int, Any]) -> None:
        """Eliminate the pivots from a row, in place."""
        ahead = [self._number[j] for j in row if j in self._number]
        heapify(ahead)
        while ahead:
            at = heappop(ahead)
            factor = row.get(self.pivots[at])
            if not factor:
                continue
            for j, value in self._rows[at].items():
                if j in self._number and j not in row:
                    heappush(ahead, self._number[j])
                left = self._less(row.get(j, 0), factor * value)
                if left:
                    row[j] = left
                else:
                    row.pop(j, None)

    def keep(self, row: dict[int, Any], pivot: int) -> None:
        """Add a reduced row, which is 1 at its pivot."""
        self._number[pivot] = len(self._rows)
        self.pivots.append(pivot)
        self._rows.append(row)


@dataclass(frozen=True, eq=False)
class RankTest:
    """Rank of a square matrix."""

    rank: int  # The rank.
    # rows, cols: rows and columns that take part in a linear dependence; empty for a regular matrix.
    rows: Integers
    cols: Integers


NO_ROWS: Integers = np.empty(0, dtype=np.int64)


def exact_rank(n: int, values: Mapping[tuple[int, int], int], blocks: Sequence[Block]) -> RankTest:
    """Rank of a matrix over the finite field."""
    row_place, col_place = _places(n, values, blocks)
    by_row: list[dict[int, int]] = [{} for _ in range(n)]
    by_col: list[dict[int, int]] = [{} for _ in range(n)]
    for (i, j), value in values.items():
        if value:
            by_row[row_place[i]][n + int(col_place[j])] = value
            by_col[n - 1 - col_place[j]][2 * n - 1 - int(row_place[i])] = value
    rank = len(independent_rows(by_row))
    if rank == n:
        return RankTest(n, NO_ROWS, NO_ROWS)
    rows, cols = _dependent(by_row), n - 1 - _dependent(by_col)
    return RankTest(rank, np.sort(np.argsort(row_place)[rows]), np.sort(np.argsort(col_place)[cols]))


def _dependent(rows: list[dict[int, int]]) -> Integers:
    """Rows that take part in a linear dependence."""
    n = len(rows)
    echelon = Echelon()
    involved: set[int] = set()
    for at, row in enumerate(rows):
        row[at] = 1  # columns below n record which rows were combined
        if echelon.add(row, down_to=n) is None:
            involved.update(row)
    return np.array(sorted(involved), dtype=np.int64)


def _places(
    n: int, values: Mapping[tuple[int, int], int], blocks: Sequence[Block]
) -> tuple[Integers, Integers]:
    """Positions of rows and columns such that blocks stay together and long blocks are narrow bands."""
    rows = np.concatenate([block.rows for block in blocks])
    cols = np.concatenate([block.cols for block in blocks])
    row_place, col_place = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    row_place[rows] = np.arange(n)
    col_place[cols] = np.arange(n)
    if max(block.size for block in blocks) > 20:
        keys = np.array(list(values), dtype=np.int64).reshape(-1, 2)
        block_of = np.repeat(np.arange(len(blocks)), [block.size for block in blocks])
        source, goal = row_place[keys[:, 0]], col_place[keys[:, 1]]
        inside = block_of[source] == block_of[goal]
        ones = np.ones(int(inside.sum()), dtype=np.int8)
        graph = coo_matrix((ones, (source[inside], goal[inside])), shape=(n, n)).tocsr()
        order = np.argsort(reverse_cuthill_mckee(csr_matrix(graph + graph.T), symmetric_mode=True))
        place = np.empty(n, dtype=np.int64)
        place[np.lexsort((order, block_of))] = np.arange(n)
        row_place, col_place = place[row_place], place[col_place]
    return row_place, col_place


def floating_rank(matrix: Any, blocks: Sequence[Block]) -> RankTest:
    """Rank of a sparse matrix of doubles, by singular values."""
    # Shapes: matrix (n, n).
    matrix = csr_matrix(matrix)
    n = matrix.shape[0]
    if not np.isfinite(matrix.data).all():
        raise InputError("the system Jacobian is not finite at this point; give another one")
    largest = max(block.size for block in blocks)
    if largest > LARGEST_DENSE:
        raise InputError(
            f"a block of {largest} equations is too large for singular values (at most {LARGEST_DENSE}); "
            f"leave the point out, and ranks are found exactly at a random one"
        )
    if all(_null_spaces(matrix[block.rows][:, block.cols].toarray())[0] == block.size for block in blocks):
        return RankTest(n, NO_ROWS, NO_ROWS)
    if n > LARGEST_DENSE:
        raise InputError(f"a singular block in more than {LARGEST_DENSE} equations; leave the point out")
    rank, *null = _null_spaces(matrix.toarray())
    rows, cols = (np.flatnonzero(np.abs(part).max(axis=1, initial=0.0) > 1e-6) for part in null)
    return RankTest(rank, rows, cols)


def _null_spaces(dense: npt.NDArray[np.float64]) -> tuple[int, npt.NDArray[Any], npt.NDArray[Any]]:
    """Rank, and left and right null vectors as columns, of a matrix after equilibration."""
    rows, cols = equilibration(np.abs(dense))
    u, values, vt = np.linalg.svd(dense * rows[:, None] * cols)
    rank = int(np.sum(values > RANK_TOLERANCE * values[0])) if values[0] > 0 else 0
    return rank, u[:, rank:], vt[rank:].T


def equilibration(sizes: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Factors of rows and columns that bring their largest entries near 1, from the sizes of the entries."""
    rows, cols = np.ones(sizes.shape[0]), np.ones(sizes.shape[1])
    for _ in range(3):
        size = sizes * rows[:, None] * cols
        rows /= np.sqrt(np.where(size.max(axis=1) > 0, size.max(axis=1), 1.0))
        cols /= np.sqrt(np.where(size.max(axis=0) > 0, size.max(axis=0), 1.0))
    return rows, cols


def equilibrated_singular_values(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Singular values of a matrix in units of rows and columns that bring its entries near 1."""
    rows, cols = equilibration(np.abs(matrix))
    return np.asarray(np.linalg.svd(matrix * rows[:, None] * cols, compute_uv=False))


def is_singular(matrix: npt.NDArray[np.float64], least: float) -> bool:
    """Whether singular values in these units have a ratio of at most ``least``; False for NaN or infinity."""
    if not np.isfinite(matrix).all():
        return False
    values = equilibrated_singular_values(matrix)
    return bool(values[-1] <= least * values[0])


class Span:
    """The span of vectors that are added one by one, as an orthonormal basis."""

    def __init__(self, n: int) -> None:
        self._basis = np.zeros((0, n))

    def add(self, vector: npt.NDArray[np.float64], least: float) -> bool:
        """Add a vector if its part orthogonal to the span is longer than ``least``; whether it was added."""
        rest = vector - self._basis.T @ (self._basis @ vector)
        rest -= self._basis.T @ (self._basis @ rest)
        length = float(np.linalg.norm(rest))
        if length > least:
            self._basis = np.vstack([self._basis, rest / length])
        return length > least


Floats = npt.NDArray[np.float64]


def choose_states(
    values: Mapping[tuple[int, int], int], blocks: Sequence[Block], c: Integers, d: Integers
) -> Integers:
    """Number of free initial values of each unknown, such that every stage can be solved."""
    # Equations that are differentiated more often take part in earlier stages. In their order each is matched
    # with an unknown, that of the transversal where possible, such that the rest of the matrix stays regular.
    # Shapes: c and d (n,) -> (n,).
    states = np.zeros(d.size, dtype=np.int64)
    rows: dict[int, dict[int, int]] = {}
    for (i, j), value in values.items():
        if value:
            rows.setdefault(i, {})[j] = value
    for block in blocks:
        own = set(block.cols.tolist())
        inner = {i: {j: v for j, v in rows.get(i, {}).items() if j in own} for i in block.rows.tolist()}
        if block.size == 1 or any(i not in rows for i in inner):
            states[block.cols] = d[block.cols] - c[block.rows]
            continue
        wanted = dict(zip(block.rows.tolist(), block.cols.tolist(), strict=True))
        order = sorted(wanted, key=lambda i: -int(c[i]))
        # Pivots of an elimination in this order, in the wanted columns where possible.
        reduced = ReducedRows(lambda a, b: (a - b) % PRIME)
        for i in order:
            row = inner[i]
            reduced.reduce(row)
            nested = (wanted[k] for k in (i, *order) if c[k] >= c[i] and wanted[k] in row)
            pivot = next(nested, min(row))
            scale = pow(row[pivot], -1, PRIME)
            reduced.keep({j: value * scale % PRIME for j, value in row.items()}, pivot)
        states[reduced.pivots] = d[reduced.pivots] - c[order]
    return states
