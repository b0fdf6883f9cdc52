"""Whether sparse factors solve accurately, and with how many steps of iterative refinement."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from dae_sdc.dae.state import Vector

EPS = float(np.finfo(float).eps)

# When factors are taken. Growth of a sparse solution, in units of 1 / (n eps), above which the pivots are
# checked.
DOUBTFUL_GROWTH = 1e-4
# Largest number of steps of iterative refinement with factors whose pivots were not the largest.
MOST_REFINEMENTS = 2


@functools.lru_cache(maxsize=4)
def probe(n: int) -> Vector:
    """A right-hand side, shape (n,), with a part in every direction: random, but always the same."""
    return np.random.default_rng(n).standard_normal(n)


def grows(solution: Vector, columns: Vector) -> bool:
    """Whether a solution is so large that a pivot may have vanished; also if it is NaN."""
    # Shapes: solution (n,), columns (n,).
    with np.errstate(over="ignore", invalid="ignore"):
        growth = np.abs(solution * columns).max()
    return not growth * len(columns) * EPS < DOUBTFUL_GROWTH * columns.max()


def refinements_needed(matrix: Any, substitute: Callable[[Any], Any]) -> int | None:
    """How many steps of refinement bring the backward error of each equation to n eps, if any do."""
    # Shapes: matrix (n, n).
    n = matrix.shape[0]
    sizes = sparse.csc_matrix((np.abs(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
    rows = np.zeros(n)
    np.maximum.at(rows, matrix.indices, sizes.data)
    rhs = (rows * probe(n)).astype(matrix.dtype)
    # Columns as they are when the rows are scaled to 1.
    columns = np.maximum.reduceat(sizes.data / rows[matrix.indices], matrix.indptr[:-1])
    solution = substitute(rhs)
    if grows(solution, columns):
        return None
    for steps in range(MOST_REFINEMENTS + 1):
        residual = rhs - matrix @ solution
        bound = sizes @ np.abs(solution) + np.abs(rhs)
        if (np.abs(residual) <= n * EPS * bound).all():
            return steps
        solution += substitute(residual)
    return None
