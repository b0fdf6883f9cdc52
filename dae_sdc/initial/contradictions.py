"""A check whether values contradict equations or hidden constraints, by one pass through the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.linalg import qr

from dae_sdc.dae.scales import balanced
from dae_sdc.dae.state import Vector
from dae_sdc.errors import SingularMatrixError
from dae_sdc.initial.jets import Integers, JetSystem
from dae_sdc.initial.neighbourhood import dense
from dae_sdc.initial.solver import Booleans
from dae_sdc.structure.rank import LinearRows

MOST_STAGE_STEPS = 8  # Largest number of Gauss-Newton steps in a stage.
# Relative step at which the iteration has converged; residuals that remain are contradictions.
SETTLED_STEP = 1e-6
# Largest number of entries of a matrix whose rank is looked at.
MOST_DENSE_ENTRIES = 400_000
# Subtracted from zeros on the diagonal of sparse systems, so that dependent rows can be factorised.
DIAGONAL_SHIFT = 1e-13
AGREEMENT_OF_PASSES = 0.1  # Relative difference of two passes up to which their results count as equal.


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
    units: Vector | None = None
    left, settled = np.zeros(0), False
    for _ in range(MOST_STAGE_STEPS):
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
        try:
            step = LinearRows(own, system.accuracy.dependent, DIAGONAL_SHIFT, scales=units).solve(-values)
        except (np.linalg.LinAlgError, SingularMatrixError):
            break
        if not np.isfinite(step).all():
            break
        x[jets] += step
        settled = bool((np.abs(step) <= SETTLED_STEP * (sizes[jets] + np.abs(x[jets]))).all())
    return Followed(x, number, left, certain=False)


def _units(matrix: Any, system: JetSystem, jets: Integers) -> Vector:
    """Units of values in which the entries of a matrix have similar sizes.

    They are typical values where fewer columns seem dependent in these: a matrix can have largest entries of
    1 and still be far from the units in which it is well conditioned.
    """
    if matrix.shape[0] * matrix.shape[1] > MOST_DENSE_ENTRIES:
        columns = np.asarray(abs(sparse.csc_matrix(matrix)).max(axis=0).toarray()).ravel()
        return 1.0 / np.where(columns > 0.0, columns, 1.0)
    matrix, dependent = dense(matrix), system.accuracy.dependent
    rows, columns = balanced(matrix)
    balanced_rank = _rank(matrix / rows[:, None] / columns, dependent)
    if balanced_rank == matrix.shape[1] or system.typical is None:
        return np.asarray(1.0 / columns)
    typical = system.typical[jets]
    if not (np.isfinite(typical) & (typical > 0.0)).all():
        return np.asarray(1.0 / columns)
    rows = np.abs(matrix * typical).max(axis=1, initial=0.0)
    rows[rows == 0.0] = 1.0
    fuller = _rank(matrix * typical / rows[:, None], dependent) > balanced_rank
    return typical if fuller else np.asarray(1.0 / columns)


def _rank(matrix: Vector, dependent: float) -> int:
    """The number of columns that are independent by a QR factorisation with pivots."""
    pivots = np.abs(np.diagonal(qr(matrix, mode="r", pivoting=True, check_finite=False)[0]))
    return int((pivots > dependent * pivots[:1]).sum())


def alike(first: Vector | None, second: Vector | None) -> bool:
    """Whether the results of two passes, with different steps of differences, agree."""
    if first is None or second is None or first.shape != second.shape:
        return False
    return float(np.linalg.norm(second - first)) <= AGREEMENT_OF_PASSES * float(np.linalg.norm(first))
