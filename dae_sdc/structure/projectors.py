"""The tractability index of a DAE, by its sequence of matrix functions and admissible projectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from dae_sdc.deadline import check
from dae_sdc.expressions.dag import PRIME
from dae_sdc.jets.graph import residues

if TYPE_CHECKING:
    from dae_sdc.expressions.graph import Graph

Series = Any  # Matrices that are truncated series of time: numbers of the finite field, shape (terms, m, n).


@dataclass(frozen=True)
class Tractability:
    """Tractability index of a linear DAE, or of one linearised along a curve, in its form of first order."""

    index: int | None  # None where no projectors are admissible: the DAE is not regular.
    ranks: tuple[int, ...]  # Ranks of the matrix functions up to the first regular one.
    size: int  # Number of unknowns of the form of first order.

    @property
    def dof(self) -> int | None:
        """Number of free initial values; None where the DAE is not regular."""
        return None if self.index is None else self.size - sum(self.size - rank for rank in self.ranks)


def tractability(graph: Graph, roots: Sequence[int], highest: Sequence[int], terms: int) -> Tractability:
    r"""The tractability index of equations in unknowns of these highest orders of derivative, at least 1.

    In the form of first order, :math:`E x' + F x = q`, with a projector :math:`Q_i` onto the kernel of
    :math:`G_i` along the kernels before it, :math:`P_i = I - Q_i` and :math:`\Pi_i = P_0 \cdots P_i`, the
    matrix functions are :math:`G_0 = E` and

    .. math::
        G_{i+1} = G_i + B_i Q_i, \quad B_0 = F - E P_0', \quad
        B_{i+1} = B_i P_i - G_{i+1} P_0 \Pi_{i+1}' \Pi_i .

    Ranks are exact, at a random time, for nonlinear equations along a random curve. Series begin with so many
    ``terms``, of which each derivative takes one, and have twice as many where these are too few.

    References
    ----------
    R. Lamour, R. März, C. Tischendorf: Differential-Algebraic Equations: A Projector Based Analysis (2013).
    """
    while (found := _sequence(*_first_order(graph, roots, highest, terms))) is None:
        terms *= 2
    return found


def _first_order(
    graph: Graph, roots: Sequence[int], highest: Sequence[int], terms: int
) -> tuple[Series, Series]:
    """E and F for the unknowns and their derivatives below the highest ones."""
    first, size = np.cumsum([0, *highest]), sum(highest)
    leading, other = (np.zeros((terms, size, size), dtype=object) for _ in range(2))
    parts = [pow(factorial(k), -1, PRIME) for k in range(terms)]
    for at, slopes in enumerate(residues(graph, [(root, k) for k in range(terms) for root in roots])):
        k, i = divmod(at, len(roots))
        for j, m in ((j, m) for j, most in enumerate(highest) for m in range(most + 1)):
            # By Leibniz' rule this slope has slopes by lower derivatives among its terms.
            lower = sum(parts[r] * other[k - r, i, first[j] + m - r] for r in range(1, min(k, m) + 1))
            matrix, column = (leading, m - 1) if m == highest[j] else (other, m)
            matrix[k, i, first[j] + column] = (slopes.get((j, m), 0) * parts[k] - lower) % PRIME
    chains = [first[j] + m for j, most in enumerate(highest) for m in range(most - 1)]
    for row, column in enumerate(chains, start=len(roots)):
        leading[0, row, column], other[0, row, column + 1] = 1, PRIME - 1
    return leading, other


def _sequence(leading: Series, other: Series) -> Tractability | None:
    """The index by the matrix functions to the first regular one; None where the series are too short."""
    size, unit = leading.shape[1], _units(leading)
    matrix, kernels, ranks = leading, np.zeros((len(leading), size, 0), dtype=object), list[int]()
    coefficient, first, along, product = other, unit, unit, unit
    while True:
        check()
        kernel, rank = _kernel(matrix)
        ranks.append(rank)
        onto = _projector(kernels[: len(matrix)], kernel)
        if rank == size or onto is None:
            return Tractability(len(ranks) - 1 if rank == size else None, tuple(ranks), size)
        if len(matrix) < 2:
            return None
        before, beside, along = product, along, (unit[: len(matrix)] - onto) % PRIME
        product = _product(product, along)
        first = first if len(ranks) > 1 else along
        change = product[1:] * np.arange(1, len(product), dtype=object)[:, None, None]
        turned = _product(_product(matrix, first), _product(change, before))
        coefficient = (_product(coefficient, beside)[: len(change)] - turned) % PRIME
        matrix = (matrix[: len(change)] + _product(coefficient, onto)) % PRIME
        kernels = np.concatenate([kernels[: len(change)], kernel[: len(change)]], axis=2)


def _units(matrix: Series) -> Series:
    """The identity as a series with as many terms and columns as a matrix has."""
    unit = np.zeros((len(matrix), matrix.shape[1], matrix.shape[1]), dtype=object)
    unit[0] = np.eye(matrix.shape[1], dtype=np.int64)
    return unit


def _product(a: Series, b: Series) -> Series:
    """The product of two series of matrices, as long as the shorter one."""
    terms = range(min(len(a), len(b)))
    return np.array([sum(a[r] @ b[k - r] for r in range(k + 1)) % PRIME for k in terms], dtype=object)


def _reduced(matrix: Series) -> tuple[Series, dict[int, int]]:
    """The rows in reduced echelon form, and the row of each column that has a pivot, the first ones first."""
    matrix, rows = matrix.copy(), dict[int, int]()
    for column in range(matrix.shape[2]):
        free = (i for i in range(matrix.shape[1]) if i not in rows.values() and matrix[0, i, column])
        row = next(free, None)
        if row is None:
            continue
        rows[column] = row
        pivot, inverse = matrix[:, row, column], [pow(int(matrix[0, row, column]), -1, PRIME)]
        for k in range(1, len(matrix)):
            inverse.append(-inverse[0] * sum(pivot[r] * inverse[k - r] for r in range(1, k + 1)) % PRIME)
        scaled = _product(np.array(inverse, dtype=object)[:, None, None], matrix[:, row : row + 1])
        factors = matrix[:, :, column : column + 1].copy()
        factors[:, row] = 0
        matrix = (matrix - _product(factors, scaled)) % PRIME
        matrix[:, row] = scaled[:, 0]
    return matrix, rows


def _kernel(matrix: Series) -> tuple[Series, int]:
    """A basis of the kernel of square matrices of constant rank, as columns, and that rank."""
    reduced, rows = _reduced(matrix)
    free = [j for j in range(matrix.shape[2]) if j not in rows]
    basis = _units(matrix)[:, :, free]
    basis[:, list(rows)] = -reduced[:, list(rows.values())][:, :, free] % PRIME
    return basis, len(rows)


def _projector(kernels: Series, kernel: Series) -> Series | None:
    """The projector onto a kernel along those before it and unit vectors; None where they intersect."""
    reduced, rows = _reduced(np.concatenate([kernels, kernel, _units(kernel)], axis=2))
    first, end = kernels.shape[2], kernels.shape[2] + kernel.shape[2]
    if not rows.keys() >= {*range(end)}:
        return None
    return _product(kernel, reduced[:, [rows[column] for column in range(first, end)], end:])
