"""Equations and their derivatives along curves: Taylor coefficients, and points at which they vanish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, factorial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sparse

from dae_sdc.deadline import check
from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.graph import Input
from dae_sdc.structure.rank import Floats, LinearRows
from dae_sdc.structure.scalars import NoValueError, Reals, Residues, many_digits, values_of
from dae_sdc.structure.signature import Integers

if TYPE_CHECKING:
    from dae_sdc.expressions.graph import Graph

Jet = tuple[int, int]  # An unknown and the order of a derivative.
# Partial derivatives of an expression by x_j^(k), with the keys (j, k), and the derivatives of these.
Partials: TypeAlias = dict[Jet, list[int]]
RANDOM_POINTS = 5  # Number of random points that are tried for one at which all square roots exist.


def differentiated(graph: Graph, roots: Iterable[int]) -> Graph:
    """A copy of a graph for derivatives, so that no expression with some that cancel is reused elsewhere."""
    for root in roots:
        graph.slopes(root)
    known: tuple[int, Graph] | None = graph.remembered.pop("differentiated", None)
    if known is None or known[0] != len(graph):
        known = len(graph), graph.copy()
    graph.remembered["differentiated"] = known
    return known[1]


def residues(graph: Graph, roots: Iterable[int], order: int = 0) -> list[Partials]:
    """Partial derivatives of expressions, differentiated up to an order, at a point of a finite field."""
    nodes = list(roots)
    slopes = [(i, *item) for i, node in enumerate(nodes) for item in graph.slopes(node).items()]
    graph = differentiated(graph, nodes) if order else graph
    for _, _, slope in slopes:
        nodes += [graph.total_derivative(slope, k) for k in range(order + 1)]
    points = (Residues(point, exact_roots=True) for point in range(RANDOM_POINTS))
    # If all random points fail, square roots that the field lacks are those of constant multiples.
    every = (values_of(graph, nodes, numbers) for numbers in (*points, Residues()))
    values = next((one for one in every if one is not None), None)
    if values is None:
        raise NoValueError
    partials: list[Partials] = [{} for _ in range(len(nodes) - len(slopes) * (order + 1))]
    for at, (i, jet, _) in enumerate(slopes):
        first = len(partials) + at * (order + 1)
        partials[i][jet] = values[first : first + order + 1]
    return partials


# Unit of steps of unknowns, relative to that of derivatives, which are less well known.
STEP_OF_UNKNOWNS = 0.1
# Singular value, relative to the largest, of the scaled rows that counts as 0 in a step.
DEPENDENT_ROW = 1e-11
# Largest number of entries of a Jacobian that is decomposed by singular values.
LARGEST_DENSE_JACOBIAN = 100_000


class Prolongation:
    r"""Equations and their derivatives, in Taylor coefficients of the unknowns.

    Row (i, m) is :math:`f_i^{(m)}`, column (j, k) is :math:`x_j^{(k)} / k!` in units of its own.
    """

    def __init__(
        self,
        graph: Graph,
        roots: Sequence[int],
        times: Sequence[int],
        highest: Sequence[int],
        unit: Callable[[Jet], float],
    ) -> None:
        self.graph, self.times, self.highest, self._every = graph, list(times), list(highest), list(roots)
        self._differentiated = differentiated(graph, roots)
        self.order = max(0, *self.times)
        self.columns = [(j, k) for j, top in enumerate(highest) for k in range(top + 1)]
        self._unit = unit
        self.units: Floats = np.array([unit(jet) for jet in self.columns])
        self._factorials = np.array([float(factorial(k)) for _, k in self.columns])
        self.place = {jet: at for at, jet in enumerate(self.columns)}
        self.rows = [(i, m) for i, most in enumerate(self.times) for m in range(most + 1)]

    def scales(self, pace: float) -> Floats:
        """Units of steps of the Taylor coefficients, for unknowns that change in ``pace`` units of time."""
        # Steps change derivatives, of which little is known, rather than the unknowns themselves.
        steps = [STEP_OF_UNKNOWNS if k == 0 else pace**-k for _, k in self.columns]
        return np.asarray(self.units * np.array(steps))

    def least_squares(self, matrix: Any, scales: Floats) -> LinearRows:
        """Solver for rows of :meth:`matrix`, whose steps are of minimum norm in units of ``scales``."""
        return LinearRows(matrix, DEPENDENT_ROW, diagonal_shift=1e-12, scales=scales)

    def lowered(self, by: int, unit: Callable[[Jet], float] | None = None) -> Prolongation:
        """The prolongation with every equation differentiated ``by`` times less, perhaps in other units."""
        highest = [max(0, top - by) for top in self.highest]
        times = [most - by for most in self.times]
        return Prolongation(self.graph, self._every, times, highest, unit or self._unit)

    def residual(self, point: Point, x: Any, context: Any = None) -> Any:
        """All rows at Taylor coefficients x, in doubles or a context; None where one has no value."""
        return self._values(*self._of_rows, point, x, context)

    def matrix(self, point: Point, x: Floats) -> tuple[Floats, Any] | None:
        """All rows, and their Jacobian matrix, at Taylor coefficients x; None where one is not finite."""
        linearized = self.linearized(point, x)
        if linearized is None:
            return None
        residual, rows, columns, entries = linearized
        shape = (len(self.rows), len(self.columns))
        matrix = sparse.coo_matrix((entries, (rows, columns)), shape=shape)
        large = shape[0] * shape[1] > LARGEST_DENSE_JACOBIAN
        return residual, matrix.tocsr() if large else matrix.toarray()

    def linearized(
        self, point: Point, x: Any, context: Any = None
    ) -> tuple[Any, Integers, Integers, Any] | None:
        """All rows, and places and terms of the entries of their Jacobian; None where one has no value."""
        values = self._values(*self._of_rows_and_entries, point, x, context)
        if values is None:
            return None
        (rows, columns, _, factors), count = self._entries, len(self.rows)
        return values[:count], rows, columns, values[count:] * np.array(factors, dtype=values.dtype)

    @cached_property
    def _entries(self) -> tuple[Integers, Integers, list[int], list[int]]:
        """Row, column, node and factor of the terms of the Jacobian matrix, by Leibniz' rule."""
        graph, slopes = self._differentiated, {i: self.graph.slopes(self._every[i]) for i, _ in self.rows}
        entries = [
            (row, self.place[j, q + r], graph.total_derivative(slope, m - r), comb(m, r) * factorial(q + r))
            for row, (i, m) in enumerate(self.rows)
            for (j, q), slope in slopes[i].items()
            for r in range(m + 1)
            if (j, q + r) in self.place
        ]
        rows, columns = np.array([entry[:2] for entry in entries], dtype=np.int64).reshape(-1, 2).T
        return rows, columns, [entry[2] for entry in entries], [entry[3] for entry in entries]

    @cached_property
    def _of_rows(self) -> tuple[list[int], Compiled]:
        """Nodes of the rows, and a function that has their values."""
        nodes = [self._differentiated.total_derivative(self._every[i], m) for i, m in self.rows]
        return nodes, self._compiled(nodes)

    @cached_property
    def _of_rows_and_entries(self) -> tuple[list[int], Compiled]:
        """Nodes of the rows and terms of their Jacobian matrix, and a function that has their values."""
        nodes = [*self._of_rows[0], *self._entries[2]]
        return nodes, self._compiled(nodes)

    def _compiled(self, nodes: Sequence[int]) -> Compiled:
        """Expressions as a function of time, the values of columns and 0 of others, and parameters."""

        def given(leaf: Leaf) -> Input:
            if leaf.kind == "u":
                return Input("u", self.place.get((leaf.index, leaf.order), len(self.columns)))
            return Input(leaf.kind, leaf.index)

        return compile_program(self._differentiated.program(nodes, given), "residual", "tape")

    def _values(self, nodes: Sequence[int], compiled: Compiled, point: Point, x: Any, context: Any) -> Any:
        """Values of expressions in doubles or a context; None where one has none."""
        check()
        if context is not None:
            values = values_of(self._differentiated, nodes, Reals(context, point.leaf_values(x, context.mpf)))
            return None if values is None else np.array(values, dtype=np.object_)
        known = max((entry.index + 1 for entry in compiled.program.inputs if entry.kind == "p"), default=0)
        parameters = [point.parameter(i) for i in range(known)]
        numbers = compiled.at(point.t, np.append(x * self._factorials, 0.0), parameters)
        return numbers if np.isfinite(numbers).all() else None


@dataclass(eq=False)
class Point:
    """A point at which the rows of a prolongation vanish."""

    system: Prolongation  # The prolongation.
    x: Floats  # Shape (columns,). Taylor coefficients.
    t: float  # Time.
    p: Sequence[float]  # Parameters.
    pace: float = 1.0  # Units of time in which unknowns were taken to change when the point was found.

    def parameter(self, i: int) -> float:
        """The value of a parameter; where there is none, one for which no expression vanishes by chance."""
        return self.p[i] if i < len(self.p) else 0.7 + 0.013 * i

    def leaf_values(self, x: Any, number: Callable[[Any], Any]) -> Callable[[Leaf], Any]:
        """Function from a leaf to its value at Taylor coefficients x, which are 0 beyond the last."""
        place = self.system.place

        def value(leaf: Leaf) -> Any:
            if leaf.kind != "u":
                return number(self.t if leaf.kind == "t" else self.parameter(leaf.index))
            at = place.get((leaf.index, leaf.order))
            return number(0.0) if at is None else x[at] * factorial(leaf.order)

        return value

    @cached_property
    def digits(self) -> tuple[Any, list[Any]] | None:
        """Context of arithmetic with many digits, and x refined in it; None if the iteration fails."""
        context = many_digits()
        system = self.system
        made = system.matrix(self, self.x)
        if made is None:
            return None
        least = system.least_squares(made[1], system.scales(self.pace))
        x = [context.mpf(value) for value in self.x]
        goal = context.mpf(10) ** (10 - context.dps)
        size = 1 + float(np.max(np.abs(self.x) / system.units, initial=0.0))
        last = context.inf
        for _ in range(40):
            residual = system.residual(self, x, context)
            if residual is None:
                return None
            sizes = zip(residual, least.sizes.tolist(), strict=True)
            largest = max((abs(value) / size for value, size in sizes), default=context.mpf(0))
            if largest <= goal * size:
                return context, x
            if not largest < last:
                return None
            last = largest
            step = least.solve(np.array([-float(value / largest) for value in residual])).tolist()
            x = [value + largest * context.mpf(change) for value, change in zip(x, step, strict=True)]
        return None

    def evaluate(self, nodes: Sequence[int], exact: bool = False) -> list[Any] | None:
        """Values of expressions, in doubles or, if ``exact``, with many digits; None where one has none."""
        graph = self.system.graph
        if not exact:
            values = graph.numeric(nodes, self.leaf_values(self.x, float))
            return values.tolist() if np.isfinite(values).all() else None
        if self.digits is None:
            return None
        context, x = self.digits
        return values_of(graph, nodes, Reals(context, self.leaf_values(x, context.mpf)))
