"""Matrices of polynomials, and the factors of one of their minors: where it vanishes, the rank may drop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from dae_sdc.dae.linear import maximum_matching
from dae_sdc.polynomials.homotopy import added
from dae_sdc.polynomials.polynomials import Complexes, Integers, PolynomialSystem, magnitudes, norms

NEGLIGIBLE = 1e-10  # Coefficient of equations of size 1 up to which it is round-off.
MOST_DERIVATIVES = 1000  # Largest number of derivatives by which multiplicities are told.
DEPENDENT_IN_MINORS = 1e-8  # Singular value of rows of norm 1 up to which they depend on each other.


def substituted(system: PolynomialSystem, chart: Complexes) -> PolynomialSystem:
    """The polynomials of y with x = C [1; y], the product with a matrix of shape (n, m + 1)."""
    m = chart.shape[1] - 1
    lines = [PolynomialSystem(row[None], np.eye(m + 1, dtype=np.int64)[:, 1:]) for row in chart]
    products = {(0,) * len(lines): PolynomialSystem([[1.0]], np.zeros((1, m), dtype=np.int64))}

    def product(powers: tuple[int, ...]) -> PolynomialSystem:
        if powers not in products:
            j = next(j for j, power in enumerate(powers) if power)
            line, rest = lines[j], product((*powers[:j], powers[j] - 1, *powers[j + 1 :]))
            exponents = (line.exponents[:, None] + rest.exponents).reshape(-1, m)
            products[powers] = PolynomialSystem(np.kron(line.coefficients, rest.coefficients), exponents)
        return products[powers]

    terms = [product(tuple(powers)) for powers in system.exponents.tolist()]
    parts = zip(system.coefficients.T, terms, strict=True)
    blocks = [(column[:, None] * term.coefficients, term.exponents) for column, term in parts]
    whole = PolynomialSystem(*added(blocks))
    whole.coefficients[np.abs(whole.coefficients) <= NEGLIGIBLE] = 0.0
    return PolynomialSystem(whole.coefficients, whole.exponents)


def local_multiplicity(system: PolynomialSystem, chart: Complexes) -> int:
    """Multiplicity of an isolated solution y = 0 of the polynomials of x = C [1; y]; 0 if it is too large."""
    # Derivatives up to an order that vanish on all multiples of the polynomials: as many as are independent,
    # once a higher order brings no more. Dayton and Zeng, Proc. ISSAC 2005, 116.
    local = substituted(system, chart)
    multiplicity, order, unknowns = 1, 1, range(local.variables + 1)
    while math.comb(local.variables + order, order) <= MOST_DERIVATIVES:
        chosen = combinations_with_replacement(unknowns, order)
        powers = np.array([np.bincount(one, minlength=len(unknowns))[1:] for one in chosen])
        column = {tuple(one): k for k, one in enumerate(powers.tolist())}
        rows = list[Complexes]()
        for factor in powers[powers.sum(axis=1) < order]:
            products = local.exponents + factor
            low = products.sum(axis=1) <= order
            rows.append(np.zeros((local.equations, len(powers)), dtype=np.complex128))
            rows[-1][:, [column[tuple(one)] for one in products[low].tolist()]] = local.coefficients[:, low]
        sizes = np.linalg.svd(np.concatenate(rows), compute_uv=False)
        independent = len(powers) - int((sizes > DEPENDENT_IN_MINORS * sizes.max(initial=0.0)).sum())
        if independent == multiplicity:
            return multiplicity
        multiplicity, order = independent, order + 1
    return 0


class PolynomialMatrix(NamedTuple):
    """A matrix of polynomials in the same variables."""

    exponents: Integers  # Shape (M, m). Exponents of the variables in each monomial.
    entries: Complexes  # Shape (M, k, n). Coefficients of each monomial.

    @classmethod
    def of_columns(cls, columns: Sequence[PolynomialSystem]) -> PolynomialMatrix:
        """The matrix with these columns, each of which is a system of k polynomials."""
        coefficients = block_diag(*(column.coefficients for column in columns))
        whole = PolynomialSystem(coefficients, np.concatenate([column.exponents for column in columns]))
        entries = whole.coefficients.T.reshape(len(whole.exponents), len(columns), -1)
        return cls(whole.exponents, entries.transpose(0, 2, 1))

    @property
    def columns(self) -> list[PolynomialSystem]:
        """The columns as systems."""
        return [PolynomialSystem(part.T, self.exponents) for part in np.moveaxis(self.entries, 2, 0)]

    @property
    def transposed(self) -> PolynomialMatrix:
        """The transpose."""
        return PolynomialMatrix(self.exponents, self.entries.transpose(0, 2, 1))

    def at(self, points: Complexes) -> Complexes:
        """The matrices at points of shape (p, m), with rows of norm 1, or 0 where all terms cancel."""
        flat = self.entries.reshape(len(self.entries), -1).T
        values = PolynomialSystem(flat, self.exponents).values(points)
        lengths = norms(homogeneous := np.insert(points, 0, 1.0, axis=1))[:, None]
        sizes = magnitudes(homogeneous / lengths)[:, 1:] * lengths
        terms = PolynomialSystem(np.abs(flat), self.exponents).values(sizes).real
        values = np.where(np.abs(values) > NEGLIGIBLE * terms, values, 0.0)
        matrices = values.reshape(len(points), *self.entries.shape[1:])
        lengths = np.linalg.norm(matrices, axis=2, keepdims=True)
        return np.asarray(matrices / np.where(lengths > 0.0, lengths, 1.0))

    def eliminated(self) -> PolynomialMatrix:
        """What is left behind the elimination of constant rows and columns, each of which has a pivot."""
        entries, constant = self.entries, self.exponents.sum(axis=1) == 0
        while entries.size:
            values = entries[constant].sum(axis=0)
            varying = (entries[~constant] != 0.0).any(axis=0)
            still = ~varying.any(axis=1)[:, None] | ~varying.any(axis=0)
            p, q = np.unravel_index(np.argmax(np.where(still, np.abs(values), -1.0)), still.shape)
            if not still[p, q] or abs(values[p, q]) <= NEGLIGIBLE:
                break
            row, column = (values[p], entries[:, :, q]), (entries[:, p], values[:, q])
            first, second = column if varying[p].any() else row
            if varying[p].any():
                taken = second[:, None] * first[:, None, :] / values[p, q]
            else:
                taken = second[:, :, None] * first / values[p, q]
            entries = np.delete(np.delete(entries - taken, p, 1), q, 2)
            entries = np.where(np.abs(entries) > NEGLIGIBLE, entries, 0.0)
        return PolynomialMatrix(self.exponents, entries)

    def minor(self, point: Complexes, rank: int) -> PolynomialMatrix:
        """A square part of full rank at a point, of rows and columns of low degree and few terms."""
        return self._independent(point, rank).transposed._independent(point, rank)

    def _independent(self, point: Complexes, rank: int) -> PolynomialMatrix:
        """Rows that are independent at a point, those of low degree and few terms first."""
        values = self.at(point[None])[0]
        used = self.entries != 0.0
        degrees = np.where(used.any(axis=2), self.exponents.sum(axis=1)[:, None], 0).max(axis=0)
        rows: list[int] = []
        for row in np.lexsort((used.sum(axis=(0, 2)), degrees)).tolist():
            sizes = np.linalg.svd(values[[*rows, row]], compute_uv=False)
            if len(rows) < rank and sizes.size > len(rows) and sizes[-1] > DEPENDENT_IN_MINORS:
                rows.append(row)
        return PolynomialMatrix(self.exponents, self.entries[:, rows])

    def factors(self) -> Iterator[PolynomialMatrix]:
        """Square matrices whose determinants have together the zeros of that of this square matrix."""
        left, size = self, -1
        while left.entries.size and left.entries.shape[1] != size:
            size = left.entries.shape[1]
            for _ in range(2):
                # Exponents of the largest monomial that divides all entries of a row, by rows.
                used = (left.entries != 0.0).any(axis=2).T[:, :, None]
                powers = np.where(used, left.exponents, np.iinfo(np.int64).max).min(axis=1)
                for j in np.flatnonzero(powers.any(axis=0)).tolist():
                    yield PolynomialMatrix(
                        np.eye(1, powers.shape[1], j, dtype=np.int64), np.ones((1, 1, 1), np.complex128)
                    )
                columns = left.transposed.columns
                lowered = [
                    PolynomialSystem(column.coefficients[:, kept], column.exponents[kept] - power)
                    for column, power in zip(columns, powers, strict=True)
                    for kept in [(column.coefficients != 0.0).any(axis=0)]
                ]
                left = PolynomialMatrix.of_columns(lowered)
            left = left.eliminated()
        if left.entries.size:
            yield from left._blocks()

    def _blocks(self) -> Iterator[PolynomialMatrix]:
        """The irreducible diagonal blocks, or their own factors where there are several."""
        pattern = (self.entries != 0.0).any(axis=0)
        match = maximum_matching(pattern)
        count, label = connected_components(csr_matrix(pattern[:, match]), connection="strong")
        for number in range(count):
            rows = np.flatnonzero(label == number)
            block = PolynomialMatrix(self.exponents, self.entries[:, rows][:, :, match[rows]])
            yield from [block] if count == 1 else block.factors()
