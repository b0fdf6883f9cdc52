"""Modes of equations whose structure changes: each choice between two expressions is one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from dae_sdc.expressions.dag import COMPARISONS, Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.model import Model
from dae_sdc.model.sliding import copied

EXTREMES = (Op.MIN, Op.MAX)


@dataclass(frozen=True)
class Choice:
    """A comparison, a smaller or a larger value, by which equations have other unknowns in them."""

    node: int
    op: Op
    operands: tuple[int, int]
    is_timed: bool  # Whether it depends on time alone.

    def border(self, graph: Graph, put: Mapping[int, int]) -> int:
        """An expression that is positive where the comparison holds, or the first operand is taken."""
        a, b = graph.substitute(self.operands, put)
        return graph.sub(a, b) if self.op is Op.MAX else graph.sub(b, a)

    def taken(self, graph: Graph, side: bool, put: Mapping[int, int]) -> int:
        """What stands for it on a side of its border."""
        if self.op in EXTREMES:
            return graph.substitute(self.operands, put)[0 if side else 1]
        return graph.one if side else graph.zero


@dataclass(frozen=True, eq=False)
class Mode:
    """A model in a mode, with the unknowns that are the borders of its choices but those of time alone."""

    model: Model
    borders: tuple[str, ...]


def choices_of(model: Model) -> tuple[list[Choice], list[str]]:
    """Choices, and names of discrete unknowns, by which unknowns go out of some equations and into others."""
    graph = model.graph.copy()

    def exchanges(node: int, first: int, second: int) -> bool:
        sets = [_incidence(graph, graph.substitute(model.roots, {node: other})) for other in (first, second)]
        return bool(sets[0] - sets[1] and sets[1] - sets[0])

    choices = []
    for node in graph.below(model.roots):
        if graph.op[node] in EXTREMES or graph.op[node] in COMPARISONS:
            a, b = graph.operands(node)
            timed = all(leaf.kind in "tp" for leaf in graph.leaves_of(node))
            choice = Choice(node, graph.op[node], (a, b), timed)
            if exchanges(node, choice.taken(graph, True, {}), choice.taken(graph, False, {})):
                choices.append(choice)
    numbers = [name for name, variable in model.variables_by_name.items() if variable.discrete]
    places = {name: graph.variable(model._index[name], 0) for name in numbers}
    return choices, [name for name in numbers if exchanges(places[name], graph.zero, graph.one)]


def _incidence(graph: Graph, roots: Sequence[int]) -> set[tuple[int, int]]:
    return {
        (i, leaf.index) for i, root in enumerate(roots) for leaf in graph.leaves_of(root) if leaf.kind == "u"
    }


def in_mode(
    model: Model, sides: Mapping[Choice, bool], numbers: Mapping[str, float], parameters: Mapping[str, float]
) -> Mode:
    """A model in the mode of these sides of its choices, and of these values of discrete unknowns."""
    other = copied(model, "mode", parameters)
    graph, names = other.graph, []
    put = {graph.variable(other._index[name], 0): graph.constant(value) for name, value in numbers.items()}
    for choice, side in sides.items():
        put[choice.node] = choice.taken(graph, side, put)
    other.roots = graph.substitute(model.roots, put)
    other._expressions = [None] * len(other.roots)
    for choice in sides:
        if not choice.is_timed:
            names.append(next(name for k in count() if (name := f"border_{k}") not in other._index))
            other.variable(names[-1])
            unknown = graph.variable(other._index[names[-1]], 0)
            other.add_root(graph.sub(unknown, choice.border(graph, put)), names[-1])
    return Mode(other, tuple(names))
