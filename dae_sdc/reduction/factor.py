"""Elimination with full pivoting on matrices of expressions, with names for large parts of them.

A veil is a variable that stands for a part of an expression: v_k(x, t, v_1, ..., v_(k-1)). In a graph of
shared expressions every node is computed once, so that a veil only has to be given a name, and derivatives go
through it by the chain rule as they go through any node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import Cost, Leaf, Op, cost
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.sympy_input import Unknown, to_sympy
from dae_sdc.structure.rank import equilibrated_singular_values, independent_rows

LIMIT = 500  # Nodes, operands and leaves included, above which an expression gets a name.
REPEATED = 10  # Divisor of the limit for expressions that stand in several places.

_MOST = 2**62


@dataclass(frozen=True)
class Veiled:
    """Expressions with names for their large parts."""

    nodes: tuple[int, ...]  # The parts with names, in an order in which they can be computed.
    shared: Cost  # Functions, multiplications, additions and divisions where every part is computed once.
    trees: Cost  # Operations of expressions and veils as they are written: a part in two places counts twice.


def veil(graph: Graph, roots: Sequence[int], limit: int | None = LIMIT) -> Veiled:
    """Name parts of expressions that have more than ``limit`` nodes, repeated ones from a tenth of it on."""
    sizes: dict[int, int] = {}
    costs: dict[int, Cost] = {}
    named: list[int] = []
    shared = trees = free = Cost()
    order = graph.below(roots)
    uses = Counter(arg for node in order for arg in graph.operands(node))
    for node in order:
        op, operands = graph.op[node], graph.operands(node)
        if not operands:
            sizes[node], costs[node] = 1, free
            continue
        price = cost(op, graph.args[node][1] if op is Op.INTPOW else 1)
        shared = _sum(shared, price)
        size, price = 1 + sum(sizes[arg] for arg in operands), _sum(price, *(costs[arg] for arg in operands))
        if limit is not None and size > (limit / REPEATED if uses[node] > 1 else limit):
            named.append(node)
            trees = _sum(trees, price)
            size, price = 1, free
        sizes[node], costs[node] = size, price
    return Veiled(tuple(named), shared, _sum(trees, *(costs[root] for root in roots)))


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


Row = dict[int, int]  # Entries of a row that are not 0, by their columns, as nodes of a graph.

WEAK, WEAK_ALONE = 0.3, 0.1
"""Size of a pivot relative to the largest entry of its row below which it is not taken at a point, and of one
that is alone in its row relative to its column, whose entries may have other units."""

Values = Callable[[Sequence[int]], np.ndarray]  # Values of expressions at a point.


@dataclass(frozen=True)
class Update:
    """A change of a row or of its right-hand side b: b_i becomes (keep b_i - factor b_pivot) / divisor."""

    row: int
    factor: int
    keep: int
    divisor: int

    def apply(self, graph: Graph, own: int, other: int) -> int:
        """The new value of an entry, from that of the row and that of the row of the pivot."""
        return graph.div(graph.sub(graph.mul(self.keep, own), graph.mul(self.factor, other)), self.divisor)


class SparseRows:
    """A matrix of expressions in an elimination, and which open rows have an entry in a column.

    Whether an entry that is not written as 0 is 0 takes time: all are asked or, if not ``thorough``, pivots.
    """

    def __init__(self, graph: Graph, rows: Sequence[Row], thorough: bool = True) -> None:
        self.graph = graph
        self._is_zero = graph.is_zero if thorough else graph.zero.__eq__
        self.rows = [{j: node for j, node in row.items() if not self._is_zero(node)} for row in rows]
        self.open = set(range(len(rows)))
        self.holders: defaultdict[int, set[int]] = defaultdict(set)
        for i, row in enumerate(self.rows):
            for j in row:
                self.holders[j].add(i)
        self._sizes: dict[int, int] = {}

    def _size(self, root: int) -> int:
        """Number of nodes of an expression as it would be written, without sharing."""
        graph, sizes = self.graph, self._sizes
        for node in graph.below([root], known=sizes):
            sizes[node] = min(_MOST, 1 + sum(sizes[arg] for arg in graph.operands(node)))
        return sizes[root]

    def close(self, i: int) -> Row:
        """Seek no more pivots in a row."""
        self.open.discard(i)
        for j in self.rows[i]:
            self.holders[j].discard(i)
        return self.rows[i]

    def put(self, i: int, j: int, node: int) -> None:
        """Set an entry; 0 is none."""
        if self._is_zero(node):
            self.rows[i].pop(j, None)
            self.holders[j].discard(i)
        else:
            self.rows[i][j] = node
            if i in self.open:
                self.holders[j].add(i)

    def change(self, update: Update, base: Row, column: int) -> None:
        """Change a row by that of a pivot in a column, in which no entry is left."""
        graph, row = self.graph, self.rows[update.row]
        self.put(update.row, column, graph.zero)
        rescaled = update.keep != graph.one or update.divisor != graph.one
        for j in [*base, *(row.keys() - base.keys())] if rescaled else base:
            if j != column:
                entry = update.apply(graph, row.get(j, graph.zero), base.get(j, graph.zero))
                self.put(update.row, j, entry)

    def sizes(self, values: Values) -> dict[tuple[int, int], float]:
        """Absolute values of the entries in open rows at a point, 0 where they have none."""
        places = [(i, j) for i in sorted(self.open) for j in self.rows[i]]
        numbers = np.abs(values([self.rows[i][j] for i, j in places]))
        sizes = np.nan_to_num(numbers, nan=0.0, posinf=0.0).tolist()
        return dict(zip(places, sizes, strict=True))

    def strong(self, sizes: Mapping[tuple[int, int], float], alone: float) -> set[tuple[int, int]]:
        """Entries that are not small in their rows; those that are alone there, by ``alone``, in columns."""
        in_row: defaultdict[int, float] = defaultdict(float)
        in_column: defaultdict[int, float] = defaultdict(float)
        for (i, j), size in sizes.items():
            in_row[i], in_column[j] = max(size, in_row[i]), max(size, in_column[j])
        return {
            (i, j)
            for (i, j), size in sizes.items()
            if 0.0 < size >= (WEAK * in_row[i] if len(self.rows[i]) > 1 else alone * in_column[j])
        }

    def cheapest(
        self, price: Callable[[int, int], int], allowed: Container[tuple[int, int]] | None
    ) -> tuple[int, int] | None:
        """Row and column of the allowed pivot of least price, by the numbers of entries in them.

        Among equals numbers come before other expressions, larger numbers before smaller ones, and smaller
        expressions before larger ones.
        """
        best: tuple[int, int, float, int, int, int] | None = None
        for i in sorted(self.open):
            row = self.rows[i]
            for j in row:
                fill = price(len(row), len(self.holders[j]))
                if (best is not None and fill > best[0]) or not (allowed is None or (i, j) in allowed):
                    continue
                if self.graph.is_zero(row[j]):
                    continue
                number = self.graph.numbers.get(row[j])
                if isinstance(number, Fraction):
                    key = (fill, 0, -abs(float(number)), 0, i, j)
                else:
                    key = (fill, 1, 0.0, self._size(row[j]), i, j)
                best = key if best is None else min(key, best)
        return None if best is None else best[4:]


@dataclass(frozen=True)
class Rounding:
    """Equations whose numbers are rounded, so that what cancels leaves a little."""

    values: Values  # Values of expressions at several points, shape (expressions, points).
    points: int  # Number of these points.
    # Part of the largest entry that a row had, below which an entry is a rounding error.
    negligible_part: float = 1e-11
    # Singular value of an equilibrated matrix, relative to the largest, that counts as 0.
    dependent: float = 1e-9

    def negligible(
        self, rows: Sequence[Row], scales: np.ndarray | float = 0.0
    ) -> tuple[list[tuple[int, int]], np.ndarray]:
        """Entries that are rounding errors, of rows whose largest ones were ``scales``; the scales of now."""
        now = np.zeros((len(rows), self.points)) + scales
        places = [(i, j) for i, row in enumerate(rows) for j in row]
        if not places:
            return [], now
        sizes = np.nan_to_num(np.abs(self.values([rows[i][j] for i, j in places])), nan=0.0, posinf=0.0)
        np.maximum.at(now, [i for i, _ in places], sizes)
        small = (sizes <= self.negligible_part * now[[i for i, _ in places]]).all(axis=1)
        return [places[at] for at in np.flatnonzero(small)], now

    def rank(self, rows: Sequence[Row], n: int) -> int:
        """The largest rank of a matrix at the points."""
        places = [(i, j, node) for i, row in enumerate(rows) for j, node in row.items()]
        values = self.values([node for _, _, node in places])
        ranks = [0]
        for at in np.flatnonzero(np.isfinite(values).all(axis=0)):
            dense = np.zeros((len(rows), n))
            for (i, j, _), value in zip(places, values[:, at], strict=True):
                dense[i, j] = value
            sizes = equilibrated_singular_values(dense)
            ranks.append(int((sizes > self.dependent * sizes[0]).sum()))
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
    updates: list[list[Update]] = field(default_factory=list)  # For each pivot, what it does to other rows.
    # a, the right-hand sides of the rows whose left-hand sides became 0.
    rest: list[int] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)  # The rows of A from which ``rest`` comes.

    def lower(self, graph: Graph) -> dict[tuple[int, int], int]:
        """Nodes of L in A = L U, where U are the rows of E, by the row of A and that of E."""
        entries: dict[tuple[int, int], int] = {}
        scales = dict.fromkeys([*self.places, *self.origins], graph.one)
        for step, (place, updates) in enumerate(zip(self.places, self.updates, strict=True)):
            entries[place, step] = graph.div(graph.one, scales[place])
            for update in updates:
                scales[update.row] = graph.mul(scales[update.row], update.keep)
                entries[update.row, step] = graph.div(update.factor, scales[update.row])
        return entries


class GrowthError(InputError):
    """Expressions became larger than allowed."""


@dataclass(frozen=True)
class Elimination:
    """How equations are eliminated."""

    values: Values | None = None  # Values at a point, at which pivots must not be small.
    fraction_free: bool = False  # Whether rows are multiplied by pivots rather than divided.
    rounding: Rounding | None = None  # Of the numbers in the equations.
    most: int | None = None  # Nodes by which the graph may grow.


def eliminate(
    graph: Graph, rows: Sequence[Row], right: Sequence[int], how: Elimination, most: int | None = None
) -> Factored:
    r"""Bring A x = b to E x = g, 0 = a by Gaussian elimination.

    The pivot is an entry with the least Markowitz cost
    :math:`d_r \max(0, d_c - 1) + d_c \max(0, d_r - 1)`, where its row and its column have :math:`d_r` and
    :math:`d_c` entries, of those that are not small at a point.

    References
    ----------
    H. M. Markowitz: The elimination form of the inverse and its application to linear programming, Management
    Science 3 (1957).
    """
    matrix = SparseRows(graph, rows)
    left, holders, rounding = matrix.rows, matrix.holders, how.rounding
    scales = np.zeros(0) if rounding is None else rounding.negligible(left)[1]
    side = list(right)
    factored = Factored()

    def price(width: int, height: int) -> int:
        return width * max(0, height - 1) + height * max(0, width - 1)

    while True:
        strong = None if how.values is None else matrix.strong(matrix.sizes(how.values), WEAK_ALONE)
        chosen = matrix.cheapest(price, strong or None)
        if chosen is None:
            break
        at, column = chosen
        base = matrix.close(at)
        pivot = base[column]
        below = sorted(holders[column])
        factored.rows.append(base)
        factored.right.append(side[at])
        factored.columns.append(column)
        factored.pivots.append(pivot)
        factored.places.append(at)
        in_row = [node for j, node in base.items() if j != column]
        factored.rivals.append(in_row or [left[i][column] for i in below])
        divides = not how.fraction_free or pivot in graph.numbers
        factored.updates.append([])
        for i in below:
            factor, keep = left[i][column], pivot
            if divides:
                factor, keep = graph.div(factor, pivot), graph.one
            update = Update(i, factor, keep, graph.one)
            factored.updates[-1].append(update)
            matrix.change(update, base, column)
            side[i] = update.apply(graph, side[i], factored.right[-1])
        if rounding is not None and below:
            errors, scales[below] = rounding.negligible([left[i] for i in below], scales[below])
            for at, j in errors:
                matrix.put(below[at], j, graph.zero)
        if most is not None and len(graph) > most:
            raise GrowthError(f"the expressions have more than {most} parts; take the method 'stages'")
    factored.origins = sorted(matrix.open)
    factored.rest = [side[i] for i in factored.origins]
    return factored


def generic_rank(graph: Graph, rows: Sequence[Row]) -> int:
    """Rank of a matrix of expressions at a generic point, in the finite field of the graph."""
    values = ({j: graph.value[node] for j, node in row.items() if not graph.is_zero(node)} for row in rows)
    return len(independent_rows(values))
