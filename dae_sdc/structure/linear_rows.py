"""Minimum-norm solutions of linear equations that may depend on one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.linear import superlu
from dae_sdc.deadline import check

Floats = npt.NDArray[np.float64]


class LinearRows:
    """Linear equations with rows of norm 1, solved by singular values or, if sparse, by LU factors."""

    # Shapes: matrix (k, n), scales (n,), sizes (k,), rows (k, n).

    def __init__(
        self,
        matrix: Any,
        dependent: float,
        diagonal_shift: float,
        empty: float = 0.0,
        scales: Floats | None = None,
    ) -> None:
        self._sparse = sparse.issparse(matrix)
        self._scales = scales
        if scales is not None:
            matrix = matrix @ sparse.diags(scales) if self._sparse else matrix * scales
        squares = matrix.multiply(matrix) if self._sparse else matrix * matrix
        sizes = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        self.sizes: Floats = np.where(sizes > empty * sizes.max(initial=0.0), sizes, 1.0)
        if self._sparse:
            self.rows: Any = sparse.csr_matrix(sparse.diags(1.0 / self.sizes) @ matrix)
            k, n = self.rows.shape
            # The augmented system, because the normal equations would square the condition number.
            blocks = [[sparse.identity(n), self.rows.T], [self.rows, -diagonal_shift * sparse.identity(k)]]
            self._factors = superlu(sparse.csc_matrix(sparse.bmat(blocks)))
        else:
            self.rows = matrix / self.sizes[:, None]
            check()
            left, values, right = np.linalg.svd(self.rows, full_matrices=False)
            rank = int((values > dependent * values.max(initial=0.0)).sum())
            self._left, self._values, self._right = left[:, :rank], values[:rank], right[:rank]

    def solve(self, rhs: Floats, damping: float = 0.0) -> Floats:
        """The least-squares solution of minimum norm, or with damping that of Tikhonov's regularisation.

        Parameters
        ----------
        rhs : ndarray, shape (k,)
            Right-hand side of the equations as they were given.
        damping : float
            Weight of the squared norm of the solution, in units of the unknowns.
        """
        scaled, scales = rhs / self.sizes, 1.0 if self._scales is None else self._scales
        if self._sparse:
            found: Floats = scales * self.least(scaled)
            return found / (1.0 + damping) if damping else found
        parts = (self._left.T @ scaled) * self._values / (self._values**2 + damping)
        found = scales * (self._right.T @ parts)
        return found

    def norm(self, values: Floats) -> float:
        """Norm of values of the equations, each divided by the norm of its row."""
        with np.errstate(over="ignore"):
            return float(np.linalg.norm(values / self.sizes))

    def least(self, rhs: Floats) -> Floats:
        """The least-squares solution of minimum norm for the scaled rows."""
        if not self._sparse:
            found: Floats = self._right.T @ ((self._left.T @ rhs) / self._values)
            return found
        n = self.rows.shape[1]
        shortest, left = np.zeros(n), rhs
        for _ in range(3):
            shortest = shortest + self._factors.solve(np.concatenate([np.zeros(n), left]))[:n]
            left = rhs - self.rows @ shortest
        return shortest

    def multipliers(self, gradient: Floats) -> Floats:
        """Weights of the scaled rows whose sum is closest to a gradient, shape (k,)."""
        if self._sparse:
            k, n = self.rows.shape
            found: Floats = self._factors.solve(np.concatenate([gradient, np.zeros(k)]))[n:]
        else:
            found = self._left @ ((self._right @ gradient) / self._values)
        return found

    def unreachable(self, values: Floats) -> Floats:
        """The part of values of the scaled equations that no change of the unknowns can remove."""
        scaled = values / self.sizes
        left: Floats = scaled - self.rows @ self.least(scaled)
        return left
