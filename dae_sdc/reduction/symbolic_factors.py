"""Factors of matrices whose entries are expressions, by which linear systems are solved and differentiated.

A large part of an expression is one node of the graph and is computed once, which is what a veil is for;
:func:`~dae_sdc.reduction.factor.veil` gives such parts names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import sympy

from dae_sdc.errors import InputError, SingularMatrixError
from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.model import Model
from dae_sdc.reduction.factor import LIMIT, Row, SparseRows, Update, Values, veil, written_with_veils
from dae_sdc.structure.rank import equilibration

# Square of an entry of a symmetric matrix, as a multiple of the product of the entries on the diagonal in
# its row and column, above which that diagonal entry is no pivot; a definite matrix has at most 1.
INDEFINITE: Final = 10.0


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
        values: Values | None = None,
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
        places = [(i, j) for i, row in enumerate(self.rows) for j in row]
        numbers = None if values is None else values([self.rows[i][j] for i, j in places])
        # Where an entry has no value at the point, that is left out of account.
        self._values = None if numbers is None or not np.isfinite(numbers).all() else values
        self._left = self._right = [graph.one] * max(n, len(rows))
        left = [dict(row) for row in self.rows]
        if self.scaled and numbers is not None and self._values is not None:
            sizes = np.zeros((len(rows), n))
            for place, number in zip(places, numbers.tolist(), strict=True):
                sizes[place] = abs(number)
            powers = [np.round(np.log2(scales)).astype(int) for scales in equilibration(sizes)]
            if self.symmetric:
                powers = [powers[0], powers[0]]
            if len(rows) > n:
                powers[0][:] = 0  # else other rows would be weighted in least squares
            self._left, self._right = (
                [graph.constant(Fraction(2) ** int(power)) for power in side] for side in powers
            )
            for i, j in places:
                left[i][j] = graph.mul(self._left[i], self._right[j], left[i][j])
        self._factorise(left)

    @abstractmethod
    def _factorise(self, left: list[Row]) -> None:
        """Find the factors; raises SingularMatrixError where there are none."""

    @abstractmethod
    def _solved(self, right: list[int]) -> list[int]:
        """The solution for a scaled right-hand side, which may be overwritten."""

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
        solution = self._solved([mul(scale, node) for scale, node in zip(self._left, right, strict=False)])
        return [mul(scale, node) for scale, node in zip(self._right, solution, strict=False)]

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


class LU(SymbolicFactors):
    """Elimination with pivots of least Markowitz cost; a symmetric matrix costs its upper half."""

    def _factorise(self, left: list[Row]) -> None:
        graph, matrix = self.graph, SparseRows(self.graph, left, thorough=False)
        self.steps: list[Step] = []
        while len(self.steps) < self.n:
            place = self._pivot(matrix)
            if place is None:
                raise self._singular(sorted(set(range(self.n)) - {step.column for step in self.steps}))
            at, column = place
            step = self._step(matrix.rows, at, column)
            base = matrix.close(at)
            if step.scale != graph.one:
                for j in base:
                    base[j] = graph.mul(step.scale, base[j])
            above = [done.row for done in self.steps if column in matrix.rows[done.row]]
            changed = sorted([*matrix.holders[column], *(above if self._upward else ())])
            step.updates += [self._update(step, i, matrix.rows[i][column]) for i in changed]
            for update in step.updates:
                matrix.change(update, base, column)
            self.steps.append(step)
        for step in self.steps:
            step.rest = {j: node for j, node in matrix.rows[step.row].items() if j != step.column}

    _upward: ClassVar[bool] = False
    """Whether rows of earlier pivots are changed too."""

    def _step(self, left: list[Row], row: int, column: int) -> Step:
        return Step(row, column, left[row][column], self.graph.one, [], {})

    def _update(self, step: Step, row: int, entry: int) -> Update:
        graph = self.graph
        return Update(row, graph.mul(entry, graph.div(graph.one, step.pivot)), graph.one, graph.one)

    def _pivot(self, matrix: SparseRows) -> tuple[int, int] | None:
        def price(width: int, height: int) -> int:
            return (width - 1) * (height - 1)

        sizes = None if self._values is None else matrix.sizes(self._values)
        if self.symmetric:
            diagonal = {(i, i) for i in matrix.open if sizes is None or _definite(sizes, i, matrix.rows[i])}
            best = matrix.cheapest(price, diagonal)
            if best is not None:
                return best
        return matrix.cheapest(price, None if sizes is None else matrix.strong(sizes, alone=0.0))

    def _solved(self, right: list[int]) -> list[int]:
        graph = self.graph
        for step in self.steps:
            right[step.row] = graph.mul(step.scale, right[step.row])
            for update in step.updates:
                right[update.row] = update.apply(graph, right[update.row], right[step.row])
        solution = [graph.zero] * self.n
        for step in reversed(self.steps):
            side = right[step.row]
            for j, node in step.rest.items():
                side = graph.sub(side, graph.mul(node, solution[j]))
            solution[step.column] = graph.mul(side, graph.div(graph.one, step.pivot))
        return solution


class FractionFreeLU(LU):
    """Elimination whose entries are minors of A: divisions have no remainder where entries are polynomials.

    References
    ----------
    E. H. Bareiss: Sylvester's identity and multistep integer-preserving Gaussian elimination, Math. Comp. 22
    (1968) 565.
    """

    scaled = True

    def _factorise(self, left: list[Row]) -> None:
        self._divisors = [self.graph.one] * len(left)  # the pivot before the one that changed a row last
        self._last = self.graph.one
        super()._factorise(left)

    def _step(self, left: list[Row], row: int, column: int) -> Step:
        graph = self.graph
        scale = graph.div(self._last, self._divisors[row])
        self._last = graph.mul(scale, left[row][column])
        return Step(row, column, self._last, scale, [], {})

    def _update(self, step: Step, row: int, entry: int) -> Update:
        update = Update(row, entry, step.pivot, self._divisors[row])
        self._divisors[row] = step.pivot
        return update


class GaussJordan(LU):
    """Elimination to the identity, above the pivots as well as below them; no back substitution is left."""

    _upward = True

    def _step(self, left: list[Row], row: int, column: int) -> Step:
        return Step(row, column, self.graph.one, self.graph.div(self.graph.one, left[row][column]), [], {})

    def _update(self, step: Step, row: int, entry: int) -> Update:
        return Update(row, entry, self.graph.one, self.graph.one)


# A rotation of two rows, a and b, by a ratio and a share: b becomes b - ratio a, and a then a + share b.
Rotation = tuple[int, int, int, int]


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

    def _factorise(self, left: list[Row]) -> None:
        graph, matrix = self.graph, SparseRows(self.graph, left, thorough=False)
        self._weights = [graph.one] * len(left)
        # Row and column of each pivot, the rotations before it, the pivot, and the rest of its row.
        self.steps: list[tuple[int, int, list[Rotation], int, Row]] = []
        left, columns = matrix.rows, set(range(self.n))
        while columns:
            at = min(columns, key=lambda j: (_merged(left, matrix.holders[j]), j))
            rows = [i for i in sorted(matrix.holders[at]) if not graph.is_zero(left[i][at])]
            if not rows:
                raise self._singular([at])
            columns.discard(at)
            rotations = []
            while len(rows) > 1:
                pairs = ((len(left[a].keys() | left[b].keys()), a, b) for a in rows for b in rows if a < b)
                _, a, b = min(pairs)
                if self._values is not None:
                    first, second, *weights = self._values(
                        [left[a][at], left[b][at], self._weights[a], self._weights[b]]
                    )
                    if weights[1] * second**2 > weights[0] * first**2:
                        a, b = b, a
                rotations.append(self._rotate(matrix, a, b, at))
                rows.remove(b)
            rest = dict(matrix.close(rows[0]))
            self.steps.append((rows[0], at, rotations, rest.pop(at), rest))

    def _rotate(self, matrix: SparseRows, a: int, b: int, column: int) -> Rotation:
        """Rotate row b onto row a, so that b has no entry in a column."""
        graph, weights, left = self.graph, self._weights, matrix.rows
        ratio = graph.div(left[b][column], left[a][column])
        matrix.put(b, column, graph.zero)
        longer = graph.add(weights[a], graph.mul(weights[b], graph.integer_power(ratio, 2)))
        share = graph.div(graph.mul(weights[b], ratio), longer)
        weights[a], weights[b] = longer, graph.div(graph.mul(weights[b], weights[a]), longer)
        for j in sorted(left[a].keys() | left[b].keys()):
            if j == column:
                continue
            other = left[a].get(j, graph.zero)
            entry = graph.sub(left[b].get(j, graph.zero), graph.mul(ratio, other))
            matrix.put(a, j, graph.add(other, graph.mul(share, entry)))
            matrix.put(b, j, entry)
        return a, b, ratio, share

    def _solved(self, right: list[int]) -> list[int]:
        graph = self.graph
        for _, _, rotations, _, _ in self.steps:
            for a, b, ratio, share in rotations:
                right[b] = graph.sub(right[b], graph.mul(ratio, right[a]))
                right[a] = graph.add(right[a], graph.mul(share, right[b]))
        solution = [graph.zero] * self.n
        for row, column, _, pivot, rest in reversed(self.steps):
            others = graph.add(*(graph.mul(node, solution[j]) for j, node in rest.items()))
            solution[column] = graph.div(graph.sub(right[row], others), pivot)
        return solution


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
        factorisation = factor_method(method)
        nodes = model.nodes(entries)
        m, n = entries.shape
        rows = [dict(enumerate(nodes[i * n : (i + 1) * n])) for i in range(m)]
        self.factors = factorisation(model.graph, rows, n, typical_values(model))

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
        veils, written = written_with_veils(graph, nodes, veil(graph, nodes, limit).nodes, self.model.symbol)
        return veils, [written[node] for node in nodes]


def typical_values(model: Model) -> Values | None:
    """Values of nodes for the parameters of a model; None where one has no value."""
    numbers = [parameter.value for parameter in model.parameters_by_name.values()]
    if any(number is None for number in numbers):
        return None

    def value(leaf: Leaf) -> float:
        return float(numbers[leaf.index]) if leaf.kind == "p" else float("nan")  # type: ignore[arg-type]

    return partial(model.graph.numeric, values=value, known={})


def _definite(sizes: Mapping[tuple[int, int], float], i: int, row: Row) -> bool:
    """Whether a diagonal entry of a symmetric matrix is not 0, nor said to be indefinite by its row."""
    size = sizes.get((i, i), 0.0)
    return size > 0.0 and all(
        sizes[i, j] * sizes.get((j, i), 0.0) <= INDEFINITE * size * sizes.get((j, j), 0.0) for j in row
    )


def _merged(left: list[Row], rows: Collection[int]) -> int:
    """Entries that rotations of some rows make at most."""
    columns: set[int] = set()
    return (len(rows) - 1) * len(columns.union(*(left[i] for i in rows)))
