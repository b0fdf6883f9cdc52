"""Expressions of a graph and their derivatives along t, as functions of jets, in numbers of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.state import Vector
from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import Leaf, Op
from dae_sdc.expressions.graph import Input, Program
from dae_sdc.jets.scalars import NoValueError, Residues, values_of

if TYPE_CHECKING:
    from dae_sdc.expressions.graph import Graph

Integers = npt.NDArray[np.int64]
Jet = tuple[int, int]  # An unknown and the order of a derivative.
Row = tuple[int, int]  # An expression and how often it is differentiated along t.

RANDOM_POINTS: Final = 5  # Number of random points that are tried for one at which all square roots exist.
MOST_BY_NUMPY: Final = 2000  # Instructions of a program after which the compiled interpreter reads it.

_SWITCHES = frozenset({Op.ABS, Op.SIGN, Op.FLOOR, Op.MIN, Op.MAX, Op.LT, Op.LE})


def differentiated(graph: Graph, roots: Iterable[int]) -> Graph:
    """A copy of a graph for derivatives, so that no expression with some that cancel is reused elsewhere."""
    for root in roots:
        graph.slopes(root)
    known: tuple[int, Graph] | None = graph.remembered.pop("differentiated", None)
    if known is None or known[0] != len(graph):
        known = len(graph), graph.copy()
    graph.remembered["differentiated"] = known
    return known[1]


def slopes_of(graph: Graph, root: int, order: int) -> dict[Jet, int]:
    r"""The partial derivatives that are not 0 of a derivative of an expression, by Leibniz' rule.

    .. math::
        \frac{\partial f^{(m)}}{\partial x^{(k)}} = \sum_r \binom{m}{r}
        \Big( \frac{\partial f}{\partial x^{(k - r)}} \Big)^{(m - r)}
    """
    known: dict[Jet, int] | None = graph.remembered.get((root, order)) if order else graph.slopes(root)
    if known is not None:
        return known
    terms: dict[Jet, list[int]] = {}
    for (j, k), rate in graph.slopes(root).items():
        for r in range(order, -1, -1):
            if rate == graph.zero:
                break
            term = graph.mul(graph.constant(comb(order, r)), rate)
            terms.setdefault((j, k + r), []).append(term)
            rate = graph.total_derivative(rate) if r else rate
    sums = {jet: graph.add(*parts) for jet, parts in terms.items()}
    slopes = {jet: node for jet, node in sums.items() if node != graph.zero}
    graph.remembered[root, order] = slopes
    return slopes


def residues(graph: Graph, rows: Sequence[Row]) -> list[dict[Jet, int]]:
    """Partial derivatives of expressions and their derivatives, at a point of a finite field."""
    roots = [root for root, _ in rows]
    graph = differentiated(graph, roots) if any(order for _, order in rows) else graph
    slopes = [slopes_of(graph, *row) for row in rows]
    nodes = [*roots, *(node for own in slopes for node in own.values())]
    # If all random points fail, square roots that the field lacks are those of constant multiples.
    points = [*(Residues(point, exact_roots=True) for point in range(RANDOM_POINTS)), Residues()]
    values = next((v for point in points if (v := values_of(graph, nodes, point)) is not None), None)
    if values is None:
        raise NoValueError
    numbers = iter(values[len(roots) :])
    return [{jet: next(numbers) for jet in own} for own in slopes]


class _Repeated:
    """A program of jets that is evaluated again and again."""

    def __init__(self, program: Program) -> None:
        self.program, self._count = program, 0
        self._compiled: Compiled | None = None

    def __call__(self, x: Vector, t: Vector, p: Vector) -> Vector:
        """Outputs at values x of shape (jets,) or (jets, points), at a time or the points' times t."""
        self._count += len(self.program.code) if x.ndim == 1 else 0
        u = np.concatenate([x, np.zeros((1, *x.shape[1:]))])  # what is no value is 0
        if self._count <= MOST_BY_NUMPY or x.ndim > 1:
            return self.program.evaluate(self._inputs(u, t, p))
        if self._compiled is None:
            self._compiled = compile_program(self.program, "residual", "tape")
        return self._compiled.at(t.item(), u, p)

    @cached_property
    def sizes(self) -> _Repeated:
        """Sizes of the terms of the outputs."""
        return _Repeated(self.program.sizes)

    def _inputs(self, u: Vector, t: Vector, p: Vector) -> Vector:
        values = {"u": u, "t": t.reshape(1, -1), "p": p}
        inputs = np.empty((len(self.program.inputs), *u.shape[1:]))
        for kind, (slots, numbers) in self.program.places.items():
            own = values[kind][numbers]
            inputs[slots] = own if own.ndim == u.ndim else own.reshape(-1, *[1] * (u.ndim - 1))
        return inputs


class GraphJets:
    """Expressions and their derivatives along t as functions of jets, with their partial derivatives.

    Methods take values x of shape (jets,) or (jets, points), and a time of all or of each point.
    """

    # rows: expressions of the graph, and how often each is differentiated. place: numbers of the jets among
    # the values; what others stand in cancels. known: time and parameters where methods get none.
    def __init__(
        self, graph: Graph, rows: Sequence[Row], place: Mapping[Jet, int], known: Mapping[str, Vector]
    ) -> None:
        self.graph, self.derivatives, self.place, self.known = graph, list(rows), place, known
        self._linear: dict[frozenset[int], bool] = {}
        self._chosen: dict[tuple[int, ...], Integers] = {}

    @cached_property
    def nodes(self) -> list[int]:
        """The expressions."""
        return [self.graph.total_derivative(root, order) for root, order in self.derivatives]

    @cached_property
    def slopes(self) -> dict[tuple[int, int], int]:
        """Nodes of the partial derivatives, by number of the expression and of the value."""
        return {
            (i, self.place[jet]): slope
            for i, row in enumerate(self.derivatives)
            for jet, slope in slopes_of(self.graph, *row).items()
            if jet in self.place
        }

    @cached_property
    def pattern(self) -> Integers:
        """Numbers of the expressions and of the values of all partial derivatives, shape (2, entries)."""
        return np.array(list(self.slopes), dtype=np.int64).reshape(-1, 2).T

    @cached_property
    def switches(self) -> list[tuple[int, int]]:
        """Pairs of the number of an expression and that of a value that selects its branch."""
        place, graph = self.place, self.graph
        nodes = [[node for node in graph.below([root]) if graph.op[node] in _SWITCHES] for root in self.nodes]
        return [
            (i, place[jet])
            for i, deciding in enumerate(nodes)
            for jet in graph.jets_of(*deciding)
            if jet in place
        ]

    @cached_property
    def depends(self) -> Integers:
        """Numbers of all values on which the expressions depend."""
        return np.unique(np.array([j for _, j in [*self.slopes, *self.switches]], dtype=np.int64))

    def _program(self, nodes: Sequence[int]) -> _Repeated:
        """The program of expressions of the values."""

        def source(leaf: Leaf) -> Input:
            if leaf.kind == "u":
                # A derivative of higher order than all values cancels.
                return Input("u", self.place.get((leaf.index, leaf.order), len(self.place)))
            return Input(leaf.kind, leaf.index)

        known, key = self.graph.remembered, ("program", *nodes, *self.place)
        known[key] = known.get(key) or self.graph.program(nodes, source)
        return _Repeated(known[key])

    @cached_property
    def _values(self) -> _Repeated:
        return self._program(self.nodes)

    @cached_property
    def _entries(self) -> _Repeated:
        return self._program(list(self.slopes.values()))

    def values(self, x: Vector, **known: Vector) -> Vector:
        """The expressions, perhaps at another time ``t`` and for other parameters ``p``."""
        return self._values(x, **{**self.known, **known})

    def terms(self, x: Vector) -> Vector:
        """Sizes of the terms of the expressions."""
        return self._values.sizes(x, **self.known)

    def entries(self, x: Vector, **known: Vector) -> Vector:
        """The partial derivatives, in the order of :attr:`slopes`."""
        return self._entries(x, **{**self.known, **known})

    def jacobian(self, x: Vector, **known: Vector) -> Any:
        """The partial derivatives as a matrix, CSC."""
        shape = len(self.derivatives), len(self.place)
        return sparse.csc_matrix((self.entries(x, **known), self.pattern), shape=shape)

    def dense(self, x: Vector, columns: Sequence[int], **known: Vector) -> Vector:
        """Partial derivatives by some values, shape (points, expressions, columns)."""
        key = tuple(columns)
        if key not in self._chosen:
            place = {j: at for at, j in enumerate(key)}
            own = [(e, i, place[j]) for e, (i, j) in enumerate(self.slopes) if j in place]
            self._chosen[key] = np.array(own, dtype=np.int64).reshape(-1, 3).T
        entries, at, of = self._chosen[key]
        matrix = np.zeros((*x.shape[1:], len(self.derivatives), len(key)))
        matrix[..., at, of] = self.entries(x, **known)[entries].T
        return matrix

    def in_numbers(self, numbers: Any) -> tuple[list[Any], list[Any]] | None:
        """The expressions and partial derivatives in numbers of a kind; None where one has no value."""
        values = values_of(self.graph, [*self.nodes, *self.slopes.values()], numbers)
        count = len(self.derivatives)
        return None if values is None else (values[:count], values[count:])

    def is_linear(self, columns: Iterable[int]) -> bool:
        """Whether the expressions are linear in some values together."""
        own = frozenset(columns)
        if own not in self._linear:
            graph, place = self.graph, self.place
            leaves = {graph.variable(*jet) for jet, j in place.items() if j in own}
            # Values may stand in derivatives and cancel there.
            self._linear[own] = not any(j in own for _, j in self.switches) and not any(
                own & {place.get(jet) for jet in graph.depends(slope)}
                for (_, j), slope in self.slopes.items()
                if j in own and leaves.intersection(graph.below([slope]))
            )
        return self._linear[own]


def leaf_values(
    place: Mapping[Jet, int], known: Mapping[str, Any], x: Any, number: Callable[[Any], Any] = float
) -> Callable[[Leaf], Any]:
    """A function that gives the values of leaves at values x of jets; 0 for derivatives that are none."""

    def value(leaf: Leaf) -> Any:
        if leaf.kind != "u":
            return number(known[leaf.kind][leaf.index])
        at = place.get((leaf.index, leaf.order))
        return number(0.0 if at is None else x[at])

    return value
