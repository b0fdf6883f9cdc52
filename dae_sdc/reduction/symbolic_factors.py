"""Factors of matrices whose entries are expressions, by which linear systems are solved and differentiated.

A large part of an expression is one node of the graph and is computed once, which is what a veil is for;
:func:`~dae_sdc.reduction.factor.veil` gives such parts names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
import sympy

from dae_sdc.errors import InputError, SingularMatrixError
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.model import Model
from dae_sdc.reduction.factor import LIMIT, WEAK, Row, TreeSizes, Veiled, veil, written_with_veils
from dae_sdc.structure.rank import equilibration

INDEFINITE: Final = 10.0
"""Square of an entry of a symmetric matrix, as a multiple of the product of the entries on the diagonal in
its row and column, above which that diagonal entry is no pivot; a definite matrix has at most 1."""


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


@dataclass
class Step:
    """One pivot of an elimination."""

    # row, column: its place.
    row: int
    column: int
    pivot: int  # Its node, after the row was multiplied by ``scale``.
    scale: int  # Node of the factor of the row.
    updates: list[Update]  # What happens to other rows.
    rest: Row  # The other entries of the row.


class SymbolicFactors(ABC):
    """Factors of a matrix A of expressions; base of the methods in :data:`METHODS`."""

    tall: ClassVar[bool] = False
    """Whether A may have more rows than columns."""
    scaled: ClassVar[bool] = False
    """Whether rows and columns are scaled."""

    def __init__(
        self,
        graph: Graph,
        rows: Sequence[Row],
        n: int,
        values: Callable[[Sequence[int]], np.ndarray] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if len(rows) < n or (len(rows) > n and not self.tall):
            raise InputError(f"a matrix of shape ({len(rows)}, {n}) cannot be factorised; give a square one")
        self.graph, self.n = graph, n
        self.names = [f"column {j}" for j in range(n)] if names is None else list(names)
        self.rows = [{j: node for j, node in row.items() if node != graph.zero} for row in rows]
        self.symmetric = len(rows) == n and all(
            self.rows[j].get(i) == node for i, row in enumerate(self.rows) for j, node in row.items()
        )
        numbers = self._numbers(values)
        self._left = self._right = [graph.one] * max(n, len(rows))
        left = self.rows
        if self.scaled and numbers is not None:
            sizes = np.zeros((len(rows), n))
            for i, row in enumerate(numbers):
                for j, number in row.items():
                    sizes[i, j] = abs(number)
            scales = equilibration(sizes)
            powers = [np.round(np.log2(one)).astype(int) for one in scales]
            if self.symmetric:
                powers = [powers[0], powers[0]]
            if len(rows) > n:
                powers[0][:] = 0  # else other rows would be weighted in least squares
            self._left, self._right = (
                [graph.constant(Fraction(2) ** int(one)) for one in side] for side in powers
            )
            left = [
                {j: graph.mul(self._left[i], self._right[j], node) for j, node in row.items()}
                for i, row in enumerate(left)
            ]
            numbers = [
                {j: number * 2.0 ** float(powers[0][i] + powers[1][j]) for j, number in row.items()}
                for i, row in enumerate(numbers)
            ]
        self._factorise([dict(row) for row in left], numbers)

    def _numbers(self, values: Callable[[Sequence[int]], np.ndarray] | None) -> list[dict[int, float]] | None:
        """Values of the entries; None where they are not known or not finite."""
        if values is None:
            return None
        places = [(i, j) for i, row in enumerate(self.rows) for j in row]
        found = values([self.rows[i][j] for i, j in places])
        if not np.isfinite(found).all():
            return None
        numbers: list[dict[int, float]] = [{} for _ in self.rows]
        for (i, j), value in zip(places, found.tolist(), strict=True):
            numbers[i][j] = value
        return numbers

    @abstractmethod
    def _factorise(self, left: list[Row], numbers: list[dict[int, float]] | None) -> None:
        """Find the factors; raises SingularMatrixError where there are none."""

    @abstractmethod
    def _solved(self, right: list[int]) -> list[int]:
        """The solution for a scaled right-hand side, which may be overwritten."""

    @property
    @abstractmethod
    def nodes(self) -> list[int]:
        """All entries of the factors."""

    def _singular(self, columns: Sequence[int]) -> SingularMatrixError:
        shown = ", ".join(self.names[j] for j in columns[:5]) + (", ..." if len(columns) > 5 else "")
        return SingularMatrixError(
            f"the matrix is singular whatever its symbols are: {len(columns)} of {self.n} columns have no "
            f"pivot ({shown})"
        )

    def solve(self, right: Sequence[int]) -> list[int]:
        """The solution x of A x = b, in the sense of least squares where A has more rows than columns."""
        if len(right) != len(self.rows):
            raise InputError(f"a right-hand side has {len(self.rows)} entries here; got {len(right)}")
        mul = self.graph.mul
        found = self._solved([mul(scale, node) for scale, node in zip(self._left, right, strict=False)])
        return [mul(scale, node) for scale, node in zip(self._right, found, strict=False)]

    def derivative(self, right: Sequence[int], solution: Sequence[int], leaf: int) -> list[int]:
        """The derivative of a solution with respect to a symbol, A x' = b' - A' x, by the factors of A."""
        graph = self.graph
        moved = [self._slope(node, leaf) for node in right]
        for i, row in enumerate(self.rows):
            for j, node in row.items():
                moved[i] = graph.sub(moved[i], graph.mul(self._slope(node, leaf), solution[j]))
        return self.solve(moved)

    def _slope(self, node: int, leaf: int) -> int:
        return self.graph.gradient(node, parameters=True).get(leaf, self.graph.zero)

    def veils(self, limit: int | None = LIMIT) -> Veiled:
        """Names for parts of the factors with more than ``limit`` nodes, and what the factors cost."""
        return veil(self.graph, self.nodes, limit)


class LU(SymbolicFactors):
    """Elimination with pivots of least Markowitz cost; a symmetric matrix costs its upper half."""

    def _factorise(self, left: list[Row], numbers: list[dict[int, float]] | None) -> None:
        graph = self.graph
        self.steps: list[Step] = []
        open_rows, open_columns = set(range(len(left))), set(range(self.n))
        holders: list[set[int]] = [set() for _ in range(self.n)]
        for i, row in enumerate(left):
            for j in row:
                holders[j].add(i)
        sizes = TreeSizes(graph)
        while open_columns:
            chosen = self._pivot(left, numbers, open_rows, holders, sizes)
            if chosen is None:
                raise self._singular(sorted(open_columns))
            at, column = chosen
            open_rows.discard(at)
            open_columns.discard(column)
            step = self._step(left, at, column)
            base = left[at]
            if step.scale != graph.one:
                for j in base:
                    base[j] = graph.mul(step.scale, base[j])
            changed = sorted(i for i in holders[column] if i in open_rows or (self._upward and i != at))
            step.updates += [self._update(step, i, left[i][column]) for i in changed]
            for update in step.updates:
                self._change(update, left, holders, base, column)
                if numbers is not None and update.row in open_rows:
                    _reduce(numbers[update.row], numbers[at], column)
            if not self._upward:
                for j in base:
                    holders[j].discard(at)
            self.steps.append(step)
        for step in self.steps:
            step.rest = {j: node for j, node in left[step.row].items() if j != step.column}

    _upward: ClassVar[bool] = False
    """Whether rows of earlier pivots are changed too."""

    def _step(self, left: list[Row], row: int, column: int) -> Step:
        return Step(row, column, left[row][column], self.graph.one, [], {})

    def _update(self, step: Step, row: int, entry: int) -> Update:
        graph = self.graph
        return Update(row, graph.mul(entry, graph.div(graph.one, step.pivot)), graph.one, graph.one)

    def _change(
        self, update: Update, left: list[Row], holders: list[set[int]], base: Row, column: int
    ) -> None:
        """Change the entries of a row, its structure included."""
        graph, row, i = self.graph, left[update.row], update.row
        row.pop(column)
        holders[column].discard(i)
        rescaled = update.keep != graph.one or update.divisor != graph.one
        for j in [*base, *(row.keys() - base.keys())] if rescaled else base:
            if j == column:
                continue
            entry = update.apply(graph, row.get(j, graph.zero), base.get(j, graph.zero))
            if entry == graph.zero:
                if row.pop(j, None) is not None:
                    holders[j].discard(i)
            else:
                row[j] = entry
                holders[j].add(i)

    def _pivot(
        self,
        left: list[Row],
        numbers: list[dict[int, float]] | None,
        open_rows: set[int],
        holders: list[set[int]],
        sizes: TreeSizes,
    ) -> tuple[int, int] | None:
        graph = self.graph
        heights = [sum(i in open_rows for i in held) for held in holders] if self._upward else None
        best: tuple[Any, ...] | None = None
        for diagonal in (True, False) if self.symmetric else (False,):
            for i in sorted(open_rows):
                row = left[i]
                own = None if numbers is None else numbers[i]
                largest = max((abs(own.get(j, 0.0)) for j in row), default=0.0) if own is not None else 0.0
                for j in (i,) if diagonal else row:
                    if j not in row:
                        continue
                    height = len(holders[j]) if heights is None else heights[j]
                    price = (len(row) - 1) * (height - 1)
                    if best is not None and price > best[0]:
                        continue
                    if own is not None:
                        size = abs(own.get(j, 0.0))
                        strong = _definite(numbers or [], i, row) if diagonal else size >= WEAK * largest
                        if not size or not strong:
                            continue
                    if graph.is_zero(row[j]):
                        continue
                    key = (price, row[j] not in graph.numbers, sizes[row[j]], i, j)
                    if best is None or key < best:
                        best = key
            if best is not None:
                return best[-2], best[-1]
        return None

    def _solved(self, right: list[int]) -> list[int]:
        graph = self.graph
        for step in self.steps:
            right[step.row] = graph.mul(step.scale, right[step.row])
            for update in step.updates:
                right[update.row] = update.apply(graph, right[update.row], right[step.row])
        found = [graph.zero] * self.n
        for step in reversed(self.steps):
            side = right[step.row]
            for j, node in step.rest.items():
                side = graph.sub(side, graph.mul(node, found[j]))
            found[step.column] = graph.mul(side, graph.div(graph.one, step.pivot))
        return found

    @property
    def nodes(self) -> list[int]:
        """All entries of the factors."""
        return [
            node
            for step in self.steps
            for node in (step.pivot, *step.rest.values(), *(update.factor for update in step.updates))
        ]


class FractionFreeLU(LU):
    """Elimination whose entries are minors of A: divisions have no remainder where entries are polynomials.

    References
    ----------
    E. H. Bareiss: Sylvester's identity and multistep integer-preserving Gaussian elimination, Math. Comp. 22
    (1968) 565.
    """

    scaled = True

    def _factorise(self, left: list[Row], numbers: list[dict[int, float]] | None) -> None:
        self._divisors = [self.graph.one] * len(left)  # the pivot before the one that changed a row last
        self._last = self.graph.one
        super()._factorise(left, numbers)

    def _step(self, left: list[Row], row: int, column: int) -> Step:
        graph = self.graph
        scale = graph.div(self._last, self._divisors[row])
        self._last = graph.mul(scale, left[row][column])
        return Step(row, column, self._last, scale, [], {})

    def _update(self, step: Step, row: int, entry: int) -> Update:
        made = Update(row, entry, step.pivot, self._divisors[row])
        self._divisors[row] = step.pivot
        return made


class GaussJordan(LU):
    """Elimination to the identity, above the pivots as well as below them; no back substitution is left."""

    _upward = True

    def _step(self, left: list[Row], row: int, column: int) -> Step:
        return Step(row, column, self.graph.one, self.graph.div(self.graph.one, left[row][column]), [], {})

    def _update(self, step: Step, row: int, entry: int) -> Update:
        return Update(row, entry, self.graph.one, self.graph.one)


@dataclass(frozen=True)
class Rotation:
    """A rotation of two rows: b_row becomes b_row - ratio b_pivot, and b_pivot then b_pivot + share b_row."""

    pivot: int
    row: int
    ratio: int
    share: int


class QR(SymbolicFactors):
    """Elimination by Givens rotations of pairs of rows, whose squared lengths are kept apart from the rows.

    No root is taken, so that expressions stay rational. Of the rows with entries in a column, the two with
    fewest entries together are rotated first, and the one whose entry is larger keeps it, which is backward
    stable.

    References
    ----------
    W. M. Gentleman: Least squares computations by Givens transformations without square roots, J. Inst. Math.
    Appl. 12 (1973) 329.
    """

    tall = scaled = True

    def _factorise(self, left: list[Row], numbers: list[dict[int, float]] | None) -> None:
        graph = self.graph
        self._weights = [graph.one] * len(left)
        self._sizes = [1.0] * len(left)
        self.steps: list[tuple[int, int, list[Rotation], Row]] = []
        open_rows, open_columns = set(range(len(left))), set(range(self.n))
        while open_columns:
            held = {j: [i for i in sorted(open_rows) if j in left[i]] for j in open_columns}
            at = min(open_columns, key=lambda j: (_merged(left, held[j]), j))
            rows = [i for i in held[at] if not graph.is_zero(left[i][at])]
            if not rows:
                raise self._singular([at])
            open_columns.discard(at)
            rotations = []
            while len(rows) > 1:
                pairs = ((len(left[a].keys() | left[b].keys()), a, b) for a in rows for b in rows if a < b)
                _, a, b = min(pairs)
                if numbers is not None and self._length(numbers, b, at) > self._length(numbers, a, at):
                    a, b = b, a
                rotations.append(self._rotate(left, numbers, a, b, at))
                rows.remove(b)
            open_rows.discard(rows[0])
            rest = {j: node for j, node in left[rows[0]].items() if j != at}
            self.steps.append((rows[0], at, rotations, rest))
        self._pivots = [left[row][column] for row, column, _, _ in self.steps]

    def _length(self, numbers: list[dict[int, float]], row: int, column: int) -> float:
        return self._sizes[row] * numbers[row].get(column, 0.0) ** 2

    def _rotate(
        self, left: list[Row], numbers: list[dict[int, float]] | None, a: int, b: int, column: int
    ) -> Rotation:
        """Rotate row b onto row a, so that b has no entry in a column."""
        graph, weights = self.graph, self._weights
        ratio = graph.div(left[b].pop(column), left[a][column])
        longer = graph.add(weights[a], graph.mul(weights[b], graph.integer_power(ratio, 2)))
        share = graph.div(graph.mul(weights[b], ratio), longer)
        weights[a], weights[b] = longer, graph.div(graph.mul(weights[b], weights[a]), longer)
        for j in sorted(left[a].keys() | left[b].keys()):
            if j == column:
                continue
            other = left[a].get(j, graph.zero)
            entry = graph.sub(left[b].get(j, graph.zero), graph.mul(ratio, other))
            kept = graph.add(other, graph.mul(share, entry))
            for i, node in ((a, kept), (b, entry)):
                left[i][j] = node
                if node == graph.zero:
                    del left[i][j]
        if numbers is not None:
            self._rotate_numbers(numbers, a, b, column)
        return Rotation(a, b, ratio, share)

    def _rotate_numbers(self, numbers: list[dict[int, float]], a: int, b: int, column: int) -> None:
        sizes = self._sizes
        ratio = numbers[b].pop(column, 0.0) / (numbers[a].get(column, 0.0) or np.inf)
        longer = sizes[a] + sizes[b] * ratio**2
        share = sizes[b] * ratio / longer
        sizes[a], sizes[b] = longer, sizes[b] * sizes[a] / longer
        for j in numbers[a].keys() | numbers[b].keys():
            if j != column:
                other = numbers[a].get(j, 0.0)
                numbers[b][j] = numbers[b].get(j, 0.0) - ratio * other
                numbers[a][j] = other + share * numbers[b][j]

    def _solved(self, right: list[int]) -> list[int]:
        graph = self.graph
        for _, _, rotations, _ in self.steps:
            for one in rotations:
                right[one.row] = graph.sub(right[one.row], graph.mul(one.ratio, right[one.pivot]))
                right[one.pivot] = graph.add(right[one.pivot], graph.mul(one.share, right[one.row]))
        found = [graph.zero] * self.n
        for (row, column, _, rest), pivot in zip(reversed(self.steps), reversed(self._pivots), strict=True):
            known = graph.add(*(graph.mul(node, found[j]) for j, node in rest.items()))
            found[column] = graph.div(graph.sub(right[row], known), pivot)
        return found

    @property
    def nodes(self) -> list[int]:
        """All entries of the factors."""
        rotations = [one for _, _, rotations, _ in self.steps for one in rotations]
        return [
            *self._pivots,
            *(node for _, _, _, rest in self.steps for node in rest.values()),
            *(node for one in rotations for node in (one.ratio, one.share)),
        ]


METHODS: Final[Mapping[str, type[SymbolicFactors]]] = {
    "lu": LU,
    "fraction-free-lu": FractionFreeLU,
    "gauss-jordan": GaussJordan,
    "qr": QR,
}
"""Factorisations by their names."""


def factor_method(name: str) -> type[SymbolicFactors]:
    """The factorisation of a name; raises InputError for an unknown one."""
    if name not in METHODS:
        raise InputError(f"there is no factorisation {name!r}; take one of {', '.join(METHODS)}")
    return METHODS[name]


class SymbolicMatrix:
    """A matrix of SymPy expressions in the symbols of a model, factorised.

    Parameters
    ----------
    model : Model
        Has the symbols. Where all its parameters have values, pivots that are small there are avoided.
    matrix : sympy.Matrix or nested sequences
        The matrix.
    method : {"lu", "fraction-free-lu", "gauss-jordan", "qr"}
        The factorisation; "qr" takes more rows than columns too.

    Attributes
    ----------
    factors : SymbolicFactors
        The factors as nodes of the graph of the model.

    Examples
    --------
    >>> import dae_sdc as ds
    >>> model = ds.Model()
    >>> a, b = model.parameters("a b")
    >>> ds.SymbolicMatrix(model, [[a, b], [b, a]]).solve([1, 0])[1].equals(-b / (a**2 - b**2))
    True
    """

    def __init__(self, model: Model, matrix: Any, method: str = "lu") -> None:
        entries = sympy.Matrix(matrix)
        self.model = model
        made = factor_method(method)
        nodes = model.nodes(entries)
        m, n = entries.shape
        rows = [dict(enumerate(nodes[i * n : (i + 1) * n])) for i in range(m)]
        self.factors = made(model.graph, rows, n, typical_values(model))

    def solve(self, right: Sequence[Any]) -> list[Any]:
        """The solution for a right-hand side of SymPy expressions, as SymPy expressions."""
        return list(self.model.sympy(self.factors.solve(self.model.nodes(right))))

    def veiled(
        self, right: Sequence[Any], limit: int | None = LIMIT
    ) -> tuple[list[tuple[Any, Any]], list[Any]]:
        """The solution with names for its large parts.

        Parameters
        ----------
        right : sequence of sympy.Expr
            The right-hand side.
        limit : int or None
            Nodes above which a part gets a name.

        Returns
        -------
        veils : list of (sympy.Symbol, sympy.Expr)
            Names and what they stand for, in an order in which they can be computed.
        solution : list of sympy.Expr
            The solution, in terms of them.
        """
        graph, nodes = self.model.graph, self.factors.solve(self.model.nodes(right))
        veils, found = written_with_veils(graph, nodes, veil(graph, nodes, limit).nodes, self.model.symbol)
        return veils, [found[node] for node in nodes]


def typical_values(model: Model) -> Callable[[Sequence[int]], np.ndarray] | None:
    """Values of nodes for the parameters of a model; None where one has no value."""
    numbers = [parameter.value for parameter in model.parameters_by_name.values()]
    if any(number is None for number in numbers):
        return None
    return lambda nodes: model.graph.numeric(
        nodes,
        lambda leaf: numbers[leaf.index] if leaf.kind == "p" else float("nan"),  # type: ignore[arg-type,return-value]
    )


def _reduce(row: dict[int, float], base: dict[int, float], column: int) -> None:
    """Eliminate a column of a row of numbers."""
    factor = row.pop(column, 0.0) / base[column]
    for j, value in base.items():
        if j != column:
            row[j] = row.get(j, 0.0) - factor * value


def _definite(numbers: list[dict[int, float]], i: int, row: Row) -> bool:
    """Whether no entry in the row of a diagonal entry of a symmetric matrix says that it is indefinite."""
    own = abs(numbers[i].get(i, 0.0))
    return all(numbers[i].get(j, 0.0) ** 2 <= INDEFINITE * own * abs(numbers[j].get(j, 0.0)) for j in row)


def _merged(left: list[Row], rows: Sequence[int]) -> int:
    """Entries that rotations of some rows make at most."""
    columns: set[int] = set()
    return (len(rows) - 1) * len(columns.union(*(left[i] for i in rows)))
