"""A check whether values contradict equations or hidden constraints, by one pass through the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.linalg import lstsq, qr

from dae_sdc.dae.projection import DIAGONAL_SHIFT, MOST_DENSE_ENTRIES, LinearRows, dense
from dae_sdc.dae.scales import balanced
from dae_sdc.dae.state import Vector
from dae_sdc.errors import SingularMatrixError
from dae_sdc.initial.jets import JetSystem
from dae_sdc.initial.solver import Booleans
from dae_sdc.jets.graph import Integers

MOST_FOLLOWING_STEPS = 8  # Largest number of Gauss-Newton steps in a stage.
# Relative step at which the iteration has converged; residuals that remain are contradictions.
SETTLED_STEP = 1e-6
EQUAL_PASSES = 0.1  # Relative difference of two passes up to which their results count as equal.


@dataclass(frozen=True, eq=False)
class Followed:
    """Result of :func:`follow`: the values that follow from known ones, or a contradiction."""

    x: Vector  # Shape (jets,). All values; those of stages after the last one of the pass are guesses.
    stage: int | None = None  # Number of the stage whose equations cannot be satisfied; None if all hold.
    # Residuals of the equations of this stage, relative to the sizes of their terms.
    left: Vector | None = None
    # Whether it is certain that no values satisfy these equations; False if the iteration has not
    # converged, or equations have no value.
    certain: bool = True


def follow(system: JetSystem, x: Vector, known: Booleans, sizes: Vector, tolerance: float) -> Followed:
    """Compute, stage by stage, the values that follow from known ones, which are not changed."""
    # Shapes: x (jets,), known (jets,), sizes (jets,).
    x = x.copy()
    with np.errstate(all="ignore"):
        for number, stage in enumerate(system.stages):
            if stage.rows.size:
                found = _follow_stage(system, number, x, ~known[stage.jets], sizes, tolerance)
                if found.stage is not None:
                    return found
    return Followed(x)


def _follow_stage(
    system: JetSystem, number: int, x: Vector, free: Booleans, sizes: Vector, tolerance: float
) -> Followed:
    """Solve a stage for its free values, which are changed in x."""
    jets, columns = system.stages[number].jets[free], np.flatnonzero(free)
    scale: Vector | None = None
    units: tuple[Vector, Vector] | None = None
    left, settled = np.zeros(0), False
    for _ in range(MOST_FOLLOWING_STEPS):
        values = system.values(x, number)
        if not np.isfinite(values).all():
            break
        if scale is not None and (np.abs(values) <= tolerance * scale).all():
            return Followed(x)
        matrix, scale = system.linearized(x, number, sizes)
        left = np.divide(values, scale, out=np.zeros_like(values), where=values != 0.0)
        if (np.abs(left) <= tolerance).all():
            return Followed(x)
        if settled or not columns.size:
            return Followed(x, number, left)
        own = matrix[:, columns]
        if not np.isfinite(own.data if sparse.issparse(own) else own).all():
            break
        # The units are kept, since the least-squares solution of a contradiction depends on them.
        if units is None:
            units = _units(own, system, jets)
        step = _step(own, values, units, system.accuracy.dependent)
        if step is None:
            break
        x[jets] += step
        settled = bool((np.abs(step) <= SETTLED_STEP * (sizes[jets] + np.abs(x[jets]))).all())
    return Followed(x, number, left, certain=False)


def _units(matrix: Any, system: JetSystem, jets: Integers) -> tuple[Vector, Vector]:
    """Factors of rows and columns; divided by them, the entries of a matrix have similar sizes.

    They are those by typical values where fewer columns seem dependent in these: a matrix can have largest
    entries of 1 and still be far from the units in which it is well conditioned.
    """
    if np.prod(matrix.shape) > MOST_DENSE_ENTRIES:
        columns = np.asarray(abs(sparse.csc_matrix(matrix)).max(axis=0).toarray()).ravel()
        return np.ones(matrix.shape[0]), np.where(columns > 0.0, columns, 1.0)
    matrix, dependent = dense(matrix), system.accuracy.dependent
    units = balanced(matrix)
    balanced_rank = _rank(matrix / units[0][:, None] / units[1], dependent)
    if balanced_rank == matrix.shape[1] or system.near is None:
        return units
    typical = system.near().typical(system.jets)[jets]
    if not (np.isfinite(typical) & (typical > 0.0)).all():
        return units
    rows = np.abs(matrix * typical).max(axis=1, initial=0.0)
    rows[rows == 0.0] = 1.0
    fuller = _rank(matrix * typical / rows[:, None], dependent) > balanced_rank
    return (rows, 1.0 / typical) if fuller else units


def _rank(matrix: Vector, dependent: float) -> int:
    """The number of columns that are independent by a QR factorisation with pivots."""
    pivots = np.abs(np.diagonal(qr(matrix, mode="r", pivoting=True, check_finite=False)[0]))
    return int((pivots > dependent * pivots[:1]).sum())


def _step(matrix: Any, values: Vector, units: tuple[Vector, Vector], dependent: float) -> Vector | None:
    """The least-squares solution of the linearised equations; None if it is not finite."""
    factors, columns = units
    try:
        if np.prod(matrix.shape) > MOST_DENSE_ENTRIES:
            rows = sparse.csr_matrix(matrix)
            step = -LinearRows(rows, dependent, DIAGONAL_SHIFT, scales=1.0 / columns).solve(values)
        else:
            scaled = dense(matrix) / factors[:, None] / columns
            # A QR factorisation is cheaper than singular values.
            step = -lstsq(scaled, values / factors, cond=dependent, lapack_driver="gelsy")[0] / columns
    except (np.linalg.LinAlgError, SingularMatrixError, ValueError):
        return None
    return step if np.isfinite(step).all() else None


def alike(first: Vector | None, second: Vector | None) -> bool:
    """Whether the results of two passes, with different steps of differences, agree."""
    if first is None or second is None or first.shape != second.shape:
        return False
    return float(np.linalg.norm(second - first)) <= EQUAL_PASSES * float(np.linalg.norm(first))
