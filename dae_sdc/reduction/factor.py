"""Elimination with full pivoting on matrices of expressions, with names for large parts of them.

A veil is a variable that stands for a part of an expression: v_k(x, t, v_1, ..., v_(k-1)). In a graph of
shared expressions every node is computed once, so that a veil only has to be given a name, and derivatives go
through it by the chain rule as they go through any node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.operations import Cost, Op, cost
from dae_sdc.expressions.symbols import Unknown
from dae_sdc.model.sympy_input import to_sympy
from dae_sdc.structure.rank import Echelon, equilibration

LIMIT = 500
"""Nodes, operands and leaves included, above which an expression gets a name."""

REPEATED = 10
"""Divisor of the limit for expressions that stand in several places."""

_MOST = 2**62


class TreeSizes:
    """Numbers of nodes of expressions as they would be written, without sharing."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._sizes: dict[int, int] = {}

    def __getitem__(self, root: int) -> int:
        sizes, graph = self._sizes, self._graph
        stack = [root]
        while stack:
            node = stack[-1]
            if node in sizes:
                stack.pop()
                continue
            operands = graph.operands(node)
            missing = [arg for arg in operands if arg not in sizes]
            if missing:
                stack.extend(missing)
            else:
                sizes[node] = min(_MOST, 1 + sum(sizes[arg] for arg in operands))
        return sizes[root]


@dataclass(frozen=True)
class Veiled:
    """Expressions with names for their large parts."""

    nodes: tuple[int, ...]  # The parts with names, in an order in which they can be computed.
    shared: Cost  # Functions, multiplications, additions and divisions where every part is computed once.
    trees: Cost  # Operations of expressions and veils as they are written: a part in two places counts twice.


def veil(graph: Graph, roots: Sequence[int], limit: int | None = LIMIT) -> Veiled:
    """Name parts of expressions that have more than ``limit`` nodes, repeated ones from a tenth of it on."""
    sizes: dict[int, int] = {}
    own: dict[int, Cost] = {}
    named: list[int] = []
    free = Cost(0, 0, 0, 0)
    shared = trees = free
    order = graph.below(roots)
    uses = dict.fromkeys(order, 0)
    for node in order:
        for arg in graph.operands(node):
            uses[arg] += 1
    for node in order:
        op, operands = graph.op[node], graph.operands(node)
        if not operands:
            sizes[node], own[node] = 1, free
            continue
        price = cost(op, graph.args[node][1] if op is Op.INTPOW else 1)
        shared = _sum(shared, price)
        size, price = 1 + sum(sizes[arg] for arg in operands), _sum(price, *(own[arg] for arg in operands))
        if limit is not None and size > (limit / REPEATED if uses[node] > 1 else limit):
            named.append(node)
            trees = _sum(trees, price)
            size, price = 1, free
        sizes[node], own[node] = size, price
    return Veiled(tuple(named), shared, _sum(trees, *(own[root] for root in roots)))


def written_with_veils(
    graph: Graph, outputs: Sequence[int], veils: Sequence[int], symbol: Callable[[Leaf], Any]
) -> tuple[list[tuple[Any, Any]], dict[int, Any]]:
    """Veils as pairs of symbol and expression of earlier veils, and outputs by their nodes, in SymPy."""
    graph = graph.copy()

    def symbol_or_veil(leaf: Leaf) -> Any:
        return Unknown(f"v{leaf.index}") if leaf.kind == "v" else symbol(leaf)

    table: list[tuple[Any, Any]] = []
    for number, node in enumerate(veils):
        table.append((Unknown(f"v{number}"), to_sympy(graph, [node], symbol_or_veil)[0]))
        # In the copy the node becomes a leaf, so that later expressions show the veil and not its parts.
        graph.op[node], graph.args[node] = Op.INPUT, ()
        graph.leaves[node] = Leaf("v", number)
    return table, dict(zip(outputs, to_sympy(graph, outputs, symbol_or_veil), strict=True))


def _sum(*costs: Cost) -> Cost:
    return Cost(*map(sum, zip(*costs, strict=True)))


Row = dict[int, int]
"""Entries of a row that are not 0, by their columns, as nodes of a graph."""

WEAK, WEAK_ALONE = 0.3, 0.1
"""Size of a pivot relative to the largest entry of its row below which it is not taken at a point, and of one
that is alone in its row relative to its column, whose entries may have other units."""

Values = Callable[[Sequence[int]], np.ndarray]
"""Values of expressions at a point."""


@dataclass(frozen=True)
class Rounding:
    """Equations whose numbers are rounded, so that what cancels leaves a little."""

    values: Values  # Values of expressions at several points, shape (expressions, points).
    points: int  # Number of these points.
    # Part of the largest entry that a row had, below which an entry is a rounding error.
    negligible: float = 1e-11
    # Singular value of an equilibrated matrix, relative to the largest, that counts as 0.
    dependent: float = 1e-9

    def without(self, rows: list[Row], scales: np.ndarray | None = None) -> np.ndarray:
        """Take rounding errors out of rows whose largest entries were ``scales``; the scales of now."""
        if scales is None:
            scales = np.zeros((len(rows), self.points))
        places = [(i, j) for i, row in enumerate(rows) for j in row]
        if not places:
            return scales
        sizes = np.nan_to_num(np.abs(self.values([rows[i][j] for i, j in places])), nan=0.0, posinf=0.0)
        now = scales.copy()
        np.maximum.at(now, [i for i, _ in places], sizes)
        for (i, j), size in zip(places, sizes, strict=True):
            if (size <= self.negligible * now[i]).all():
                del rows[i][j]
        return now

    def rank(self, rows: Sequence[Row], n: int) -> int:
        """The largest rank of a matrix at the points."""
        places = [(i, j, node) for i, row in enumerate(rows) for j, node in row.items()]
        values = self.values([node for _, _, node in places])
        ranks = [0]
        for at in np.flatnonzero(np.isfinite(values).all(axis=0)):
            dense = np.zeros((len(rows), n))
            for (i, j, _), value in zip(places, values[:, at], strict=True):
                dense[i, j] = value
            left, right = equilibration(np.abs(dense))
            found = np.linalg.svd(dense * left[:, None] * right, compute_uv=False)
            ranks.append(int((found > self.dependent * found[0]).sum()))
        return max(ranks)


@dataclass
class Factored:
    """The rows E x = g in triangular form, and the equations 0 = a that remain."""

    # E, of full rank; row k has no entries in the columns of the pivots before its own.
    rows: list[Row] = field(default_factory=list)
    right: list[int] = field(default_factory=list)  # g, the right-hand sides of these rows.
    columns: list[int] = field(default_factory=list)  # Column of the pivot of each row.
    pivots: list[int] = field(default_factory=list)  # The pivots as nodes.
    # For each pivot, the other entries of its row; where it is alone there, those of its column.
    rivals: list[list[int]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # The rows of A from which the rows of E come.
    # a, the right-hand sides of the rows whose left-hand sides became 0.
    rest: list[int] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)  # The rows of A from which ``rest`` comes.


class GrowthError(InputError):
    """Expressions became larger than allowed."""


def eliminate(
    graph: Graph,
    rows: Sequence[Row],
    right: Sequence[int],
    fraction_free: bool = False,
    values: Values | None = None,
    most: int | None = None,
    rounding: Rounding | None = None,
) -> Factored:
    r"""Bring A x = b to E x = g, 0 = a by Gaussian elimination.

    The pivot is an entry with the least Markowitz cost
    :math:`d_r \max(0, d_c - 1) + d_c \max(0, d_r - 1)`, where its row and its column have :math:`d_r` and
    :math:`d_c` entries; among equals numbers come before other expressions, larger numbers before smaller
    ones, and smaller expressions before larger ones.

    References
    ----------
    H. M. Markowitz: The elimination form of the inverse and its application to linear programming, Management
    Science 3 (1957).
    """
    left = [{j: node for j, node in row.items() if not graph.is_zero(node)} for row in rows]
    scales = np.zeros(0) if rounding is None else rounding.without(left)
    side = list(right)
    open_rows = set(range(len(left)))
    holders: dict[int, set[int]] = {}
    for i, row in enumerate(left):
        for j in row:
            holders.setdefault(j, set()).add(i)
    sizes = TreeSizes(graph)
    found = Factored()
    while True:
        chosen = _pivot(graph, left, open_rows, holders, sizes, values)
        if chosen is None:
            break
        at, column = chosen
        open_rows.discard(at)
        base, pivot = left[at], left[at][column]
        for j in base:
            holders[j].discard(at)
        found.rows.append(base)
        found.right.append(side[at])
        found.columns.append(column)
        found.pivots.append(pivot)
        found.places.append(at)
        in_row = [node for j, node in base.items() if j != column]
        found.rivals.append(in_row or [left[i][column] for i in sorted(holders[column])])
        divides = not fraction_free or pivot in graph.numbers
        below = sorted(holders[column])
        for i in below:
            row = left[i]
            factor = row.pop(column)
            holders[column].discard(i)
            if divides:
                factor = graph.div(factor, pivot)
            else:
                for j, node in row.items():
                    row[j] = graph.mul(pivot, node)
                side[i] = graph.mul(pivot, side[i])
            for j, node in base.items():
                if j == column:
                    continue
                entry = graph.sub(row.get(j, graph.zero), graph.mul(factor, node))
                if graph.is_zero(entry):
                    if row.pop(j, None) is not None:
                        holders[j].discard(i)
                else:
                    row[j] = entry
                    holders[j].add(i)
            side[i] = graph.sub(side[i], graph.mul(factor, found.right[-1]))
        if rounding is not None and below:
            changed = [left[i] for i in below]
            before = [set(row) for row in changed]
            scales[below] = rounding.without(changed, scales[below])
            for i, columns in zip(below, before, strict=True):
                for j in columns - left[i].keys():
                    holders[j].discard(i)
        if most is not None and len(graph) > most:
            raise GrowthError(f"the expressions have more than {most} parts; take the method 'stages'")
    found.origins = sorted(open_rows)
    found.rest = [side[i] for i in found.origins]
    return found


def _pivot(
    graph: Graph,
    left: list[Row],
    open_rows: set[int],
    holders: dict[int, set[int]],
    sizes: TreeSizes,
    values: Values | None,
) -> tuple[int, int] | None:
    strong = None if values is None else _strong(left, open_rows, values)
    best: tuple[int, int, float, int, int, int] | None = None
    for i in sorted(open_rows):
        width = len(left[i])
        for j, node in left[i].items():
            if strong is not None and (i, j) not in strong:
                continue
            height = len(holders[j])
            price = width * max(0, height - 1) + height * max(0, width - 1)
            if best is not None and price > best[0]:
                continue
            number = graph.numbers.get(node)
            if isinstance(number, Fraction):
                key = (price, 0, -abs(float(number)), 0, i, j)
            else:
                key = (price, 1, 0.0, sizes[node], i, j)
            if best is None or key < best:
                best = key
    return None if best is None else (best[4], best[5])


def _strong(left: list[Row], open_rows: set[int], values: Values) -> set[tuple[int, int]] | None:
    """Entries that are not small at a point, relative to their rivals; None where no entry has a value."""
    places = [(i, j) for i in sorted(open_rows) for j in left[i]]
    if not places:
        return None
    found = np.nan_to_num(np.abs(values([left[i][j] for i, j in places])), nan=0.0, posinf=0.0)
    sizes = dict(zip(places, found.tolist(), strict=True))
    in_row: dict[int, float] = {}
    in_column: dict[int, float] = {}
    for (i, j), size in sizes.items():
        in_row[i], in_column[j] = max(size, in_row.get(i, 0.0)), max(size, in_column.get(j, 0.0))
    return {
        (i, j)
        for (i, j), size in sizes.items()
        if 0.0 < size >= (WEAK * in_row[i] if len(left[i]) > 1 else WEAK_ALONE * in_column[j])
    } or None


def generic_rank(graph: Graph, rows: Sequence[Row]) -> int:
    """Rank of a matrix of expressions at a generic point, in the finite field of the graph."""
    echelon = Echelon()
    values = ({j: graph.value[node] for j, node in row.items() if not graph.is_zero(node)} for row in rows)
    return sum(echelon.add(row) is not None for row in values)
