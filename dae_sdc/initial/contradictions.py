"""Whether values contradict equations or what is hidden in them, by one pass through the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.linalg import lstsq

from dae_sdc.dae.scales import balanced
from dae_sdc.dae.state import Vector
from dae_sdc.initial.jets import JetSystem
from dae_sdc.initial.solver import Booleans
from dae_sdc.structure.linear_rows import LinearRows


@dataclass(frozen=True)
class FollowingOptions:
    """Settings of :func:`follow` and :func:`alike`.

    Parameters
    ----------
    most_iterations : int
        Most steps of the Gauss-Newton method in a stage.
    settled : float
        Step, in units of the sizes of the values, after which equations that are left are contradicted.
    most_dense_entries : int
        Entries of a matrix above which it is factorised as a sparse one.
    diagonal_shift : float
        Taken from zeros on the diagonal of sparse systems, so that dependent rows have factors.
    agreement : float
        Difference of what two passes find, relative to its size, up to which it is no error of differences.
    """

    most_iterations: int = 8
    settled: float = 1e-6
    most_dense_entries: int = 400_000
    diagonal_shift: float = 1e-13
    agreement: float = 0.1


FOLLOWING = FollowingOptions()


@dataclass(frozen=True, eq=False)
class Followed:
    """What follows from known values.

    Parameters
    ----------
    x : ndarray, shape (jets,)
        All values, up to the stage at which the pass has ended.
    stage : int or None
        The stage whose equations cannot be met; None where all hold.
    left : ndarray
        What is left of its equations, in units of the sizes of their terms.
    certain : bool
        Whether no values meet these equations; False where none were found, or equations have no values.
    """

    x: Vector
    stage: int | None = None
    left: Vector | None = None
    certain: bool = True


def follow(system: JetSystem, x: Vector, known: Booleans, sizes: Vector, tolerance: float) -> Followed:
    """Find, stage by stage, the values that follow from known ones, which are not changed.

    Parameters
    ----------
    system : JetSystem
        The equations.
    x : ndarray, shape (jets,)
        Known values, and guesses of the others.
    known : ndarray of bool, shape (jets,)
        Which are known.
    sizes : ndarray, shape (jets,)
        Typical sizes of all values.
    tolerance : float
        Largest part of an equation, in units of its terms, that may be left of it.
    """
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
    for _ in range(FOLLOWING.most_iterations):
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
        # Other units would give another compromise between equations that contradict each other.
        units = _units(own) if units is None else units
        step = _step(own, values, units, system.accuracy.dependent)
        if step is None:
            break
        x[jets] += step
        settled = bool((np.abs(step) <= FOLLOWING.settled * (sizes[jets] + np.abs(x[jets]))).all())
    return Followed(x, number, left, certain=False)


def _is_large(matrix: Any) -> bool:
    return bool(matrix.shape[0] * matrix.shape[1] > FOLLOWING.most_dense_entries)


def _dense(matrix: Any) -> Vector:
    found: Vector = matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)
    return found


def _units(matrix: Any) -> tuple[Vector, Vector]:
    """Factors of rows and columns without which entries are of one size."""
    if not _is_large(matrix):
        return balanced(_dense(matrix))
    columns = np.asarray(abs(sparse.csc_matrix(matrix)).max(axis=0).toarray()).ravel()
    return np.ones(matrix.shape[0]), np.where(columns > 0.0, columns, 1.0)


def _step(matrix: Any, values: Vector, units: tuple[Vector, Vector], dependent: float) -> Vector | None:
    """The step that meets linearised equations as well as possible; None where it has no numbers."""
    factors, columns = units
    try:
        if _is_large(matrix):
            rows = sparse.csr_matrix(matrix)
            step = -LinearRows(rows, dependent, FOLLOWING.diagonal_shift, scales=1.0 / columns).solve(values)
        else:
            scaled = _dense(matrix) / factors[:, None] / columns
            # By orthogonal factors, which are cheaper than singular values.
            found = lstsq(scaled, values / factors, cond=dependent, lapack_driver="gelsy")[0]
            step = -found / columns
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return None
    return step if np.isfinite(step).all() else None


def alike(first: Vector | None, second: Vector | None) -> bool:
    """Whether two passes, by differences of different steps, have found the same."""
    if first is None or second is None or first.shape != second.shape:
        return False
    return float(np.linalg.norm(second - first)) <= FOLLOWING.agreement * float(np.linalg.norm(first))
