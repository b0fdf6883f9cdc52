"""The differentiation index by its definition: how often the equations must be differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.deadline import check
from dae_sdc.expressions.dag import UNKNOWN
from dae_sdc.jets.graph import residues
from dae_sdc.jets.scalars import NoValueError
from dae_sdc.structure.consistent import RealEchelon, Start, find_points, prolonged
from dae_sdc.structure.prolongation import Point, Prolongation
from dae_sdc.structure.rank import Echelon, WorkLimitError, equilibrated_singular_values
from dae_sdc.structure.signature import Integers, Signature

if TYPE_CHECKING:
    from dae_sdc.expressions.graph import Graph


@dataclass(frozen=True)
class Differentiation:
    """Differentiation index and degrees of freedom of a DAE by its derivative array."""

    # Differentiation index; None if the equations do not determine the unknowns up to the highest number of
    # derivatives that was tried.
    index: int | None
    dof: int | None  # Number of free initial values; None if the index is.
    # Whether ranks are those at points that satisfy the constraints, and not just at random points.
    consistent: bool = True


def differentiate(
    graph: Graph, roots: list[int], signature: Signature, most: int, limit: int | None = None
) -> Differentiation | None:
    r"""Differentiation index and degrees of freedom of a DAE at a generic point.

    With s_j the highest order of x_j in the equations, at least 1, the index is the smallest k such that
    F = 0, F' = 0, ..., F^(k) = 0 determine all :math:`x_j^{(s_j)}`: such that the Jacobian of this array by
    the derivatives of these and higher orders is 1-full in :math:`x^{(s)}`. Ranks are exact, at a random
    point; where they may differ at consistent points, see :func:`differentiate_at_points`.

    References
    ----------
    S. L. Campbell, C. W. Gear: The index of general nonlinear DAEs, Numer. Math. 72 (1995).
    """
    order = min(3, most)
    while True:
        try:
            differentiation = _search(graph, roots, signature, order, Echelon(limit))
        except WorkLimitError:
            return None
        if differentiation.index is not None or order >= most:
            return differentiation
        order = min(2 * order, most)


def _search(
    graph: Graph, roots: list[int], signature: Signature, most: int, echelon: Echelon
) -> Differentiation:
    n, highest = signature.shape[1], highest_orders(signature)
    shift = max(highest)
    try:
        partials = residues(graph, [(root, k) for k in range(most + 1) for root in roots])
    except NoValueError:
        return Differentiation(None, None)
    rows = [
        {(q - highest[j] + shift) * n + j: value for (j, q), value in slopes.items() if value}
        for slopes in partials
    ]
    times = np.repeat(np.arange(most + 1), len(roots))
    return _by_elimination(rows, times, echelon.add, lambda lead: lead // n - shift, highest)


def _by_elimination(
    rows: Sequence[dict[int, Any]],
    times: Integers,
    add: Callable[[dict[int, Any]], int | None],
    level: Callable[[int], int],
    highest: Sequence[int],
) -> Differentiation:
    """The result by the rows of the derivative array, added one by one, and the levels of their leads."""
    levels: list[int] = []
    for k in range(int(times.max()) + 1):
        leads = (add(rows[at]) for at in np.flatnonzero(times == k).tolist())
        levels += [level(lead) for lead in leads if lead is not None]
        if levels.count(0) == len(highest):
            return Differentiation(k, sum(highest) - sum(one < 0 for one in levels))
    return Differentiation(None, None)


def highest_orders(signature: Signature) -> list[int]:
    """s_j: the highest order of each unknown, at least 1."""
    highest = np.ones(signature.shape[1], dtype=np.int64)
    np.maximum.at(highest, signature.cols, signature.orders)
    return highest.tolist()


def varies(graph: Graph, roots: Sequence[int]) -> bool:
    """Whether any partial derivative of the equations contains unknowns, so that ranks depend on them."""
    return any(graph.mark[slope] & UNKNOWN for root in roots for slope in graph.slopes(root).values())


def differentiate_at_points(
    graph: Graph,
    roots: Sequence[int],
    signature: Signature,
    most: int,
    start: Start,
    near: Point | None = None,
    expected: Differentiation | None = None,
) -> Differentiation | None:
    """Differentiation index and degrees of freedom where the equations and their derivatives hold."""
    # What is expected is certain where no lower index is seen.
    most = most if expected is None else (expected.index or 0) - 1
    highest, order = highest_orders(signature), min(3, most)
    while True:
        # The point satisfies one derivative more than ranks need: it may forbid values they depend on.
        system = Prolongation(
            graph, roots, [order + 1] * len(roots), [most_of + order + 1 for most_of in highest], start.unit
        )
        best = None
        further = None if near is None else prolonged(near, system)
        points = find_points(system, start, near if further is None else further)
        for point in points if further is None else chain([further], points):
            here = _search_at(point, highest, order)
            if here is None:
                continue
            if best is None or (here.index is not None and (best.index is None or here.index < best.index)):
                best = here
            if expected is not None and best.index is None:
                break
        if best is None or best.index is not None:
            return best
        if order >= most:
            return expected or best
        order = min(2 * order, most)


def _search_at(point: Point, highest: Sequence[int], most: int) -> Differentiation | None:
    """The result at a point, with many digits if doubles leave a rank in doubt; None if both do."""
    system = point.system
    levels = np.array([k - highest[j] for j, k in system.columns])
    evaluated = system.matrix(point)
    if evaluated is None:
        return None
    matrix = evaluated[1].toarray() if sparse.issparse(evaluated[1]) else evaluated[1]
    times = np.array([m for _, m in system.rows])
    try:
        for k in range(most + 1):
            part = matrix[times <= k]
            whole, upper, above = (_clear_rank(part[:, levels >= least]) for least in (levels.min(), 0, 1))
            if upper - above == len(highest):
                return Differentiation(k, sum(highest) - (whole - upper))
    except _DoubtError:
        return _search_with_digits(point, levels, times, highest, most)
    return Differentiation(None, None)


class _DoubtError(Exception):
    """Singular values leave a rank in doubt."""


# Relative singular values of an equilibrated matrix from which on one counts, and up to which one is 0.
CLEAR_RANK = (1e-6, 1e-14)
MOST_ROWS_WITH_DIGITS = 300  # Largest number of rows of which ranks are found with many digits.


def _clear_rank(matrix: npt.NDArray[np.float64]) -> int:
    check()
    if not matrix.any():
        return 0
    values = equilibrated_singular_values(matrix)
    values /= values[0]
    if np.any((values < CLEAR_RANK[0]) & (values > CLEAR_RANK[1])):
        raise _DoubtError
    return int((values >= CLEAR_RANK[0]).sum())


def _search_with_digits(
    point: Point,
    levels: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    highest: Sequence[int],
    most: int,
) -> Differentiation | None:
    if len(times) > MOST_ROWS_WITH_DIGITS or point.digits is None:
        return None
    system = point.system
    numbers = system.in_numbers(point.numbers(*point.digits))
    if numbers is None:
        return None
    rows: list[dict[int, Any]] = [{} for _ in times]
    for (row, column), value in zip(system.slopes, numbers[1], strict=True):
        if value:
            rows[row][column] = value * float(system.units[column])
    side = [int(np.sign(level)) for level in levels]
    echelon, used, tags = RealEchelon(side.__getitem__), np.where(times <= most, times, -1), count()
    return _by_elimination(rows, used, lambda row: echelon.add(row, next(tags))[0], side.__getitem__, highest)
