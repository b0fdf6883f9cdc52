r"""Reduction of the index by separation: elimination, differentiation of the constraints left, and again.

The equations are linear in the highest derivatives, :math:`A(x, t)\, x' = b(x, t)`; lower derivatives count
as unknowns x. Full elimination separates them into :math:`E x' = g` with E of full rank and constraints
:math:`a(x, t) = 0`. These are kept as invariants and differentiated, which gives further rows, until E is
square, or the system is one of index 1.

References
----------
D. Stocco, E. Bertolazzi: Symbolic matrix factorization for
differential-algebraic equations index reduction, J. Comput. Appl. Math. 448 (2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.reduction.factor import (
    Elimination,
    Factored,
    GrowthError,
    Row,
    Veiled,
    eliminate,
    generic_rank,
    veil,
)

Jet = tuple[int, int]  # An unknown and the order of a derivative.

Goal = Literal["ode", "implicit", "semi-explicit", "explicit", "stages"]


@dataclass(frozen=True)
class Pass:
    """One elimination."""

    differentiated: int  # Number of equations that were differentiated before it.
    rank: int  # Rank of E.
    constraints: tuple[str, ...]  # Names of the constraints that were left over.
    cost: Veiled  # Operations of E, g and all constraints so far.


@dataclass(frozen=True)
class Separated:
    """A system of index 1 or 0, and its invariants."""

    graph: Graph  # Graph of the expressions.
    orders: tuple[int, ...]  # Order of the derivative of every unknown that E contains.
    rows: tuple[tuple[str, Row, int], ...]  # Name, row of E and entry of g of every differential equation.
    # The rows of E and g in triangular form; ``rest`` are the algebraic equations of a system of index 1.
    factored: Factored
    algebraic: tuple[int, ...]  # Unknowns whose derivatives of that order are not in E.
    # Of an explicit system of index 1, the algebraic unknowns as functions of the others.
    solved: dict[int, int]
    hidden: tuple[tuple[str, int], ...]  # Names and nodes of the constraints that are no equations any more.
    kept: tuple[str, ...]  # Names of the algebraic equations.
    passes: tuple[Pass, ...]  # The eliminations, one more than there are differentiations.
    factors: tuple[Factored, ...]  # Results of all eliminations, for the watch on pivots.

    @property
    def index(self) -> int:
        """Index of the system: 1 where it has algebraic equations, else 0."""
        return int(bool(self.factored.rest))

    @property
    def differentiations(self) -> int:
        """How often equations were differentiated."""
        return len(self.passes) - 1

    @property
    def pivots(self) -> tuple[tuple[int, ...], ...]:
        """Columns and rows of all pivots, by which two separations of one system differ."""
        return tuple((*factored.columns, *factored.places) for factored in self.factors)

    def equations(self, goal: Goal, names: Sequence[str]) -> list[tuple[str, dict[Jet, int], int]]:
        """Names, left-hand sides as factors of derivatives, and right-hand sides, but of algebraic equations.

        In all forms but the implicit one they are solved for the highest derivatives, by back substitution
        where E is square but for algebraic unknowns, and those of an explicit system for these too.
        """
        orders = self.orders
        if goal == "implicit":
            return [
                (name, {(j, orders[j]): node for j, node in sorted(row.items())}, right)
                for name, row, right in self.rows
            ]
        solved = {(j, orders[j]): node for j, node in back_substituted(self.graph, self.factored).items()}
        algebraic = {(j, orders[j] - 1): node for j, node in self.solved.items()}
        one = self.graph.one
        return [
            (f"{name_of(names[j], k)} solved", {(j, k): one}, node)
            for part in (solved, algebraic)
            for (j, k), node in sorted(part.items())
        ]

    @property
    def constraints(self) -> tuple[tuple[str, int], ...]:
        """Names and nodes of the algebraic equations."""
        return tuple(zip(self.kept, self.factored.rest, strict=True))

    @property
    def invariants(self) -> list[tuple[str, int]]:
        """Names and nodes of all constraints, those that are no equations any more first."""
        return [*self.hidden, *self.constraints]

    def outputs(self, goal: Goal, names: Sequence[str]) -> list[int]:
        """All expressions that are calculated: matrices, right-hand sides and invariants."""
        rows = [node for _, left, right in self.equations(goal, names) for node in (*left.values(), right)]
        return [*rows, *(node for _, node in self.invariants)]


def back_substituted(graph: Graph, upper: Factored) -> dict[int, int]:
    """The solution of triangular equations, by columns."""
    solution: dict[int, int] = {}
    for row, right, column in reversed(list(zip(upper.rows, upper.right, upper.columns, strict=True))):
        for j, node in row.items():
            if j != column:
                right = graph.sub(right, graph.mul(node, solution[j]))
        solution[column] = graph.div(right, row[column])
    return solution


def separate(
    graph: Graph, roots: Sequence[int], names: Sequence[str], goal: Goal, how: Elimination, limit: int | None
) -> Separated:
    """Reduce the index of equations by separation."""
    n, rounding = len(roots), how.rounding
    orders = _linear_orders(graph, roots, n)
    bound = None if how.most is None else len(graph) + how.most
    rows, right = _quasilinear(graph, roots, orders)
    origins = [(name, 0) for name in names]
    hidden: list[tuple[str, int]] = []
    passes: list[Pass] = []
    factors: list[Factored] = []
    differentiated = 0
    while True:
        if rounding is not None:
            for i, j in rounding.negligible(rows)[0]:
                del rows[i][j]
        factored = eliminate(graph, rows, right, how, bound)
        factored.rest = [graph.neg(node) for node in factored.rest]  # with the signs of the equations
        factors.append(factored)
        # The rows as they were before have the same solutions, and no pivots in denominators.
        plain_rows, plain_right = [rows[i] for i in factored.places], [right[i] for i in factored.places]
        sources = [origins[i] for i in factored.places]
        left_over = [origins[i] for i in factored.origins]
        kept = tuple(name_of(*origin) for origin in left_over)
        _check(graph, factored, kept)
        outputs = [node for row in plain_rows for node in row.values()] + plain_right + factored.rest
        cost = veil(graph, [*outputs, *(node for _, node in hidden)], limit)
        passes.append(Pass(differentiated, len(factored.rows), kept, cost))
        named = tuple(zip((name_of(*origin) for origin in sources), plain_rows, plain_right, strict=True))
        parts = tuple(hidden), kept, tuple(passes), tuple(factors)
        ended = Separated(graph, orders, named, factored, (), {}, *parts)
        if not factored.rest:
            return ended
        new_rows, new_right = _differentiated(graph, factored.rest, orders)
        together = [*factored.rows, *new_rows]
        rank = generic_rank(graph, together) if rounding is None else rounding.rank(together, n)
        if goal != "ode" and rank == n:
            absent = tuple(sorted(set(range(n)) - {j for row in factored.rows for j in row}))
            ended = replace(ended, algebraic=absent)
            if goal == "implicit":
                return ended
            if len(absent) == len(factored.rest):
                if goal == "semi-explicit":
                    return ended
                unknowns = [(j, orders[j] - 1) for j in absent]
                solved = _solved(graph, factored.rest, new_rows, unknowns, Elimination(how.values))
                if solved is not None:
                    return replace(ended, solved=solved)
        if len(passes) > sum(orders) + 1:
            raise InputError(
                "differentiating the equations does not end: some of them follow from others; check "
                + ", ".join(kept)
            )
        hidden += zip(kept, factored.rest, strict=True)
        differentiated = len(factored.rest)
        rows, right = [*plain_rows, *new_rows], [*plain_right, *new_right]
        origins = sources + [(name, order + 1) for name, order in left_over]
        if bound is not None and len(graph) > bound:
            raise GrowthError(
                f"the expressions have grown by more than {how.most} parts; take the method 'stages'"
            )


def _linear_orders(graph: Graph, roots: Sequence[int], n: int) -> tuple[int, ...]:
    """Orders of derivatives in which the equations are linear, one above those where they are not."""
    orders = [1] * n
    for root in roots:
        for j, k in graph.depends(root):
            orders[j] = max(orders[j], k)
    while True:
        raised: set[int] = set()
        tops = {(j, order) for j, order in enumerate(orders)}
        for root in roots:
            for jet, slope in graph.slopes(root).items():
                curved = tops & graph.depends(slope) if jet in tops else set()
                if curved:
                    raised |= {jet[0], *(i for i, _ in curved)}
        if not raised:
            return tuple(orders)
        for j in raised:
            orders[j] += 1


def _quasilinear(graph: Graph, roots: Sequence[int], orders: Sequence[int]) -> tuple[list[Row], list[int]]:
    """A and b of A x' = b."""
    tops = {graph.variable(j, order): j for j, order in enumerate(orders)}
    rows = [
        {tops[leaf]: slope for leaf, slope in graph.gradient(root).items() if leaf in tops} for root in roots
    ]
    constant = graph.substitute(list(roots), dict.fromkeys(tops, graph.zero))
    return rows, [graph.neg(node) for node in constant]


def _differentiated(graph: Graph, roots: Sequence[int], orders: Sequence[int]) -> tuple[list[Row], list[int]]:
    """The time derivatives of constraints as rows of A x' = b."""
    rows: list[Row] = []
    right: list[int] = []
    for root in roots:
        row: Row = {}
        rate = graph.zero
        for leaf, slope in sorted(graph.gradient(root).items()):
            kind, j, k = graph.leaves[leaf]
            if kind == "t":
                rate = graph.add(rate, slope)
            elif kind == "u" and k == orders[j] - 1:
                row[j] = slope
            elif kind == "u":
                rate = graph.add(rate, graph.mul(slope, graph.variable(j, k + 1)))
        rows.append(row)
        right.append(graph.neg(rate))
    return rows, right


def _check(graph: Graph, factored: Factored, names: Sequence[str]) -> None:
    """Refuse equations left by the elimination that are no constraints of the unknowns."""
    for node, name in zip(factored.rest, names, strict=True):
        if graph.is_zero(node):
            raise InputError(
                f"{name} follows from the other equations, which do not determine all unknowns; replace it"
            )
        if not graph.depends(node):
            raise InputError(
                f"{name} contradicts the other equations, which leave no unknown in it; change one"
            )


def _solved(
    graph: Graph,
    rest: Sequence[int],
    slopes: Sequence[Row],
    unknowns: Sequence[tuple[int, int]],
    how: Elimination,
) -> dict[int, int] | None:
    """The algebraic unknowns from equations that are linear in them; None where they are not."""
    leaves = {graph.variable(j, k): j for j, k in unknowns}
    algebraic = set(unknowns)
    rows = [{j: row[j] for j in leaves.values() if j in row} for row in slopes]
    if any(graph.depends(node) & algebraic for row in rows for node in row.values()):
        return None
    constant = graph.substitute(list(rest), dict.fromkeys(leaves, graph.zero))
    factored = eliminate(graph, rows, [graph.neg(node) for node in constant], how)
    return back_substituted(graph, factored)
