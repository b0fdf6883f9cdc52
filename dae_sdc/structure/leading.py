"""Ranks of the system Jacobian at points that satisfy the equations, in doubles or with many digits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.linear import superlu
from dae_sdc.errors import SingularMatrixError
from dae_sdc.expressions.dag import UNKNOWN
from dae_sdc.structure.blocks import Block
from dae_sdc.structure.consistent import Start, find_points
from dae_sdc.structure.prolongation import POINT_SEARCH, Jet, Point, Prolongation
from dae_sdc.structure.rank import RankTest
from dae_sdc.structure.series import Floats
from dae_sdc.structure.signature import Integers

if TYPE_CHECKING:
    from dae_sdc.structure.signature import ModelWithGraph


def _depends_on_the_point(
    model: ModelWithGraph, c: Integers, d: Integers, leading: Mapping[tuple[int, int], int]
) -> bool:
    """Whether the rank of the system Jacobian at consistent points may differ from that at random points.

    It cannot if the entries contain no unknowns, or only unknowns that occur in no constraint.
    """
    graph = model.graph
    moving = [node for node in leading.values() if graph.mark[node] & UNKNOWN]
    if not moving:
        return False
    used = {(leaf.index, leaf.order) for leaf in graph.leaves_of(*moving) if leaf.kind == "u"}
    if any(k >= d[j] for j, k in used):
        return True
    bound = {
        (j, k + m)
        for i, root in enumerate(model.roots)
        if c[i] > 0
        for j, k in graph.depends(root)
        for m in range(int(c[i]))
    }
    return not used.isdisjoint(bound)


@dataclass(frozen=True, eq=False)
class Leading:
    """The system Jacobian at points where the equations and their derivatives hold, equation i up to c_i."""

    test: RankTest | None  # Its rank there; None if no such point was found.
    points: tuple[Point, ...] = ()  # The points that were found.
    # Entries, by equation and unknown, that vanish at all points.
    vanishing: frozenset[tuple[int, int]] = frozenset()
    # Entries at one of the points with many digits, by equation and unknown, if the matrix is singular.
    rows: Mapping[int, Mapping[int, Any]] = field(default_factory=dict)


def leading_nodes(model: ModelWithGraph, c: Integers, d: Integers) -> dict[tuple[int, int], int]:
    """The graph nodes of the entries of the system Jacobian, by equation and unknown."""
    # Shapes: c and d (n,).
    graph = model.graph
    return {
        (i, graph.leaves[leaf].index): node
        for i, root in enumerate(model.roots)
        for leaf, node in graph.gradient(root).items()
        if graph.leaves[leaf].kind == "u" and graph.leaves[leaf].order == d[graph.leaves[leaf].index] - c[i]
    }


def leading_rank(
    model: ModelWithGraph, c: Integers, d: Integers, blocks: Sequence[Block], start: Start
) -> Leading | None:
    """The rank of a system Jacobian, regular at random points, at points that satisfy the equations."""
    # Shapes: c and d (n,).
    nodes = leading_nodes(model, c, d)
    if not _depends_on_the_point(model, c, d, nodes):
        return None
    asked = ("leading rank", tuple(model.roots), c.tobytes(), d.tobytes(), start.key)
    remembered = model.graph.remembered
    if asked not in remembered:
        remembered[asked] = _found_leading(model, c, d, blocks, start, nodes)
    found: Leading = remembered[asked]
    return found


def _found_leading(
    model: ModelWithGraph,
    c: Integers,
    d: Integers,
    blocks: Sequence[Block],
    start: Start,
    nodes: Mapping[tuple[int, int], int],
) -> Leading:
    system = Prolongation(model.graph, model.roots, c.tolist(), d.tolist())
    keys, wanted = list(nodes), list(nodes.values())
    usable: list[Point] = []
    values: list[Floats] = []
    doubtful = list(blocks)
    for point in find_points(system, start):
        entries = point.evaluate(wanted)
        if entries is None or not np.isfinite(np.array(entries, dtype=np.float64)).all():
            continue
        usable.append(point)
        values.append(np.array(entries, dtype=np.float64))
        doubtful = [block for block in doubtful if not _is_regular(block, keys, values[-1])]
        if not doubtful:
            small = np.all([_small(v) for v in values], axis=0)
            vanishing = frozenset(key for key, zero in zip(keys, small.tolist(), strict=True) if zero)
            return Leading(RankTest(c.size, *[np.empty(0, dtype=np.int64)] * 2), tuple(usable), vanishing)
    return _exactly(c, keys, wanted, usable) if usable else Leading(None)


def _exactly(c: Integers, keys: Sequence[Jet], nodes: Sequence[int], points: Sequence[Point]) -> Leading:
    """The rank computed with many digits, the largest at several points."""
    best: tuple[int, dict[int, dict[int, Any]]] | None = None
    for point in points:
        entries = point.evaluate(nodes, exact=True)
        if entries is None:
            continue
        rows: dict[int, dict[int, Any]] = {i: {} for i in range(c.size)}
        largest = max(map(abs, entries))
        for (i, j), value in zip(keys, entries, strict=True):
            if abs(value) > POINT_SEARCH.vanishing_number * largest:
                rows[i][j] = value
        rank = c.size - len(dependent_rows(rows, c))
        if best is None or rank > best[0]:
            best = rank, rows
    if best is None:
        return Leading(None)
    rank, rows = best
    columns: dict[int, dict[int, Any]] = {j: {} for j in range(c.size)}
    for i, row in rows.items():
        for j, value in row.items():
            columns[j][i] = value
    dependent = [dependent_rows(part, order) for part, order in ((rows, c), (columns, np.zeros_like(c)))]
    supports = [np.unique([i for one in part for i in one]).astype(np.int64) for part in dependent]
    present = {(i, j) for i, row in rows.items() for j in row}
    vanishing = frozenset(key for key in keys if key not in present)
    return Leading(RankTest(rank, supports[0], supports[1]), tuple(points), vanishing, rows)


def dependent_rows(rows: Mapping[int, Mapping[int, Any]], c: Integers) -> list[dict[int, Any]]:
    """Linear dependences of rows: factors by row, that of the redundant row first, of a sum that is 0.

    Rows with the smallest c come last, so that the redundant rows are among them.
    """
    echelon, found = RealEchelon(), []
    for i in sorted(rows, key=lambda i: (-int(c[i]), i)):
        lead, factors = echelon.add(rows[i], i)
        if lead is None:
            found.append({i: factors.pop(i), **factors})
    return found


def independent_columns(rows: Iterable[Mapping[int, Any]]) -> list[int]:
    """As many columns as there are rows, in which the rows are independent."""
    echelon = RealEchelon()
    leads = [echelon.add(row, at)[0] for at, row in enumerate(rows)]
    return sorted(lead for lead in leads if lead is not None)


def _small(values: Floats) -> npt.NDArray[np.bool_]:
    """Entries of a system Jacobian that are small enough to be errors of the point."""
    found: npt.NDArray[np.bool_] = np.abs(values) <= POINT_SEARCH.doubtful_entry * np.abs(values).max(
        initial=0.0
    )
    return found


def _is_regular(block: Block, keys: Sequence[Jet], values: Floats) -> bool:
    """Whether a diagonal block is regular in doubles without doubt: with small entries, and without them."""
    small = _small(values)
    return _is_clear(block, keys, values) and (
        not small.any() or _is_clear(block, keys, np.where(small, 0.0, values))
    )


def _is_clear(block: Block, keys: Sequence[Jet], values: Floats) -> bool:
    rows = {i: at for at, i in enumerate(block.rows.tolist())}
    cols = {j: at for at, j in enumerate(block.cols.tolist())}
    own = [
        (rows[i], cols[j], v)
        for (i, j), v in zip(keys, values.tolist(), strict=True)
        if i in rows and j in cols
    ]
    if block.size == 1:
        return bool(own) and abs(own[0][2]) > 1e-6
    at, of, data = zip(*own, strict=True)
    matrix = sparse.csr_matrix((data, (at, of)), shape=(block.size, block.size))
    for _ in range(3):
        for axis in (1, 0):
            size = abs(matrix).max(axis=axis).toarray().ravel()
            scale = sparse.diags(1.0 / np.sqrt(np.where(size > 0.0, size, 1.0)))
            matrix = scale @ matrix if axis else matrix @ scale
    if block.size <= 300:
        sizes = np.linalg.svd(matrix.toarray(), compute_uv=False)
        return bool(sizes[-1] > 1e-6 * sizes[0])
    try:
        factors = superlu(sparse.csc_matrix(matrix))
    except SingularMatrixError:
        return False
    probes = np.random.default_rng(0).choice((-1.0, 1.0), (block.size, 4))
    return bool(np.abs(factors.solve(probes)).max() < 1e7)


class RealEchelon:
    """Rows of numbers with many digits in echelon form, to which rows are added one by one."""

    def __init__(self, level: Callable[[int], int] | None = None) -> None:
        self._level = level
        self._number: dict[int, int] = {}
        self._rows: list[tuple[int, dict[int, Any], dict[int, Any]]] = []

    def add(self, row: Mapping[int, Any], tag: int) -> tuple[int | None, dict[int, Any]]:
        """Reduce a row by those before, and keep it if it is not 0."""
        size = max(map(abs, row.values()), default=0)
        if not size:
            return None, {tag: 1}
        left = {j: value / size for j, value in row.items()}
        factors: dict[int, Any] = {tag: 1 / size}
        ahead = [self._number[j] for j in left if j in self._number]
        heapify(ahead)
        while ahead:
            lead, known, combined = self._rows[heappop(ahead)]
            factor = left.pop(lead, None)
            if factor is None:
                continue
            for j, value in known.items():
                if j == lead:
                    continue
                before = left.get(j)
                now = (before or 0) - factor * value
                if abs(now) <= POINT_SEARCH.vanishing_number:
                    left.pop(j, None)
                    continue
                left[j] = now
                if before is None and j in self._number:
                    heappush(ahead, self._number[j])
            for at, value in combined.items():
                factors[at] = factors.get(at, 0) - factor * value
        left = {j: value for j, value in left.items() if abs(value) > POINT_SEARCH.vanishing_number}
        largest = max(map(abs, factors.values()))
        factors = {
            at: value for at, value in factors.items() if abs(value) > POINT_SEARCH.vanishing_number * largest
        }
        if not left:
            return None, factors
        top = 0 if self._level is None else max(map(self._level, left))
        lead = max(
            (j for j in left if self._level is None or self._level(j) == top), key=lambda j: abs(left[j])
        )
        scale = 1 / left[lead]
        self._number[lead] = len(self._rows)
        self._rows.append(
            (
                lead,
                {j: value * scale for j, value in left.items()},
                {at: value * scale for at, value in factors.items()},
            )
        )
        return lead, factors
