"""Modes of equations: solutions that slide along borders of jumps, and choices by which structures change."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import CHOICES, COMPARISONS, STEPS, Leaf, Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.jumps import Jump
from dae_sdc.model.model import Model

EXTREMES = frozenset({Op.MIN, Op.MAX})
DECIDING = EXTREMES | COMPARISONS | {Op.SIGN}  # What may decide which unknowns equations have.
MOST_CONTEXTS = 32  # Sides of other choices for which those of one are compared.


@dataclass(frozen=True)
class Slide:
    """A jump along whose border a solution slides."""

    jump: Jump  # In the graph of the equations as they are written.
    name: str  # The jump as text.
    level: int = 0  # Of a floor the larger of its two values at the border; else 0.
    beside: tuple[tuple[Jump, int], ...] = ()  # Other jumps with this border, see :func:`same_borders`.
    # Whether these have their values on the border, and not between those on both sides as this one.
    on_border: bool = False

    @property
    def values(self) -> tuple[float, float]:
        """Values of the jump where its border is negative and positive."""
        below, _, above = self.jump.values
        return (below, above) if below == below else (self.level - 1.0, float(self.level))

    def sides(self, value: float) -> dict[int, int]:
        """By nodes the sides of jumps where this one has one of its two values, of a floor by its parity."""
        side = 1 if value == self.values[1] else -1
        if self.jump.values[0] != self.jump.values[0]:
            side = 1 - 2 * (round(value) % 2)
        return {self.jump.node: side, **{jump.node: side * sign for jump, sign in self.beside}}


def same_borders(graph: Graph, jumps: Sequence[Jump], jump: Jump) -> list[int]:
    """For each jump 1 where its border is that of another one, -1 where it is the negative, and else 0."""
    own, *others = graph.numeric([jump.border, *(each.border for each in jumps)], _random_values())
    return [int(np.all(other == own)) - int(np.all(other == -own)) for other in others]


def stand_out(graph: Graph, roots: Sequence[int], group: Sequence[tuple[Jump, int]]) -> bool:
    """Whether equations have values on the border of jumps that are not between those on its two sides."""
    value, rows = _random_values(), []
    for comparisons, signs in ((-1, -1), (1, 1), (0, -1), (0, 1)):  # their sides: below, above, on the border
        sides = [sign * (signs if jump.values[0] < 0.0 else comparisons) for jump, sign in group]
        pairs = zip(group, sides, strict=True)
        put = {jump.node: graph.constant(jump.values[1 + side]) for (jump, _), side in pairs}
        rows.append(graph.numeric(graph.substitute(roots, put), value))
    for below, above, *on_border in zip(*rows, strict=True):
        room = 1e-9 * (1.0 + abs(below) + abs(above))
        low, high = np.minimum(below, above), np.maximum(below, above)
        if any((np.maximum(each - high, low - each) > room).any() for each in on_border):
            return True
    return False


def _random_values() -> Callable[[Leaf], Any]:
    """Values of parameters, unknowns and time, the same whenever asked for."""
    rng, values = np.random.default_rng(0), dict[Leaf, Any]()
    return lambda leaf: values.setdefault(
        leaf, rng.choice([-1.0, 1.0], 32) * 10.0 ** rng.uniform(-2.0, 2.0, 32)
    )


@dataclass(frozen=True, eq=False)
class SlidingModel:
    """Equations in which the values of some jumps are unknowns that keep the solution on their borders."""

    # A. F. Filippov: Differential Equations with Discontinuous Righthand Sides, Kluwer 1988.

    model: Model
    shares: tuple[str, ...]  # Names of these unknowns, in the order of the slides.
    places: Mapping[int, int]  # Nodes of the other jumps in the graph as written, by those in this graph.


def copied(model: Model, name: str, parameters: Mapping[str, float]) -> Model:
    """A model to which other equations can be given, with values of its parameters and without events."""
    other = model.with_values(parameters)
    other.graph = model.graph.copy()
    other.name, other.events, other._forms, other._symbols = f"{model.name}-{name}", (), {}, {}
    other.variables_by_name, other._index = dict(model.variables_by_name), dict(model._index)
    other._equation_names = dict(model._equation_names)
    return other


def _new_unknown(model: Model, word: str) -> str:
    """The name of a new unknown, numbered so that there is no other of this name."""
    name = next(name for k in count() if (name := f"{word}_{k}") not in model._index)
    model.variable(name)
    return name


def sliding(
    model: Model, slides: Sequence[Slide], others: Sequence[Jump], parameters: Mapping[str, float]
) -> SlidingModel:
    """The equations of a model with values of its parameters, sliding along borders, inner ones first."""
    extended = copied(model, "sliding", parameters)
    graph = extended.graph
    shares = [_new_unknown(extended, "share") for _ in slides]
    unknowns = [graph.variable(extended._index[name], 0) for name in shares]
    values = dict(zip((slide.jump.node for slide in slides), unknowns, strict=True))
    for slide in slides:
        for jump, sign in slide.beside:
            below, on_border, above = jump.values[::sign]
            slope = 0.0 if slide.on_border else (above - below) / (slide.values[1] - slide.values[0])
            first = graph.constant(on_border if slide.on_border else below - slope * slide.values[0])
            values[jump.node] = graph.add(first, graph.mul(graph.constant(slope), values[slide.jump.node]))
    borders = [graph.sub(slide.jump.border, graph.constant(slide.level)) for slide in slides]
    wanted = [*model.roots, *borders, *(jump.node for jump in others)]
    put: dict[int, int] = {}
    for node in graph.below(wanted):
        operands = graph.operands(node)
        if node in values:
            put[node] = values[node]
        elif graph.op[node] is Op.SELECT and operands[0] in values:
            first, second = graph.substitute(operands[1:], put)
            put[node] = graph.add(second, graph.mul(values[operands[0]], graph.sub(first, second)))
    new = graph.substitute(wanted, put)
    size = len(model.roots)
    extended.roots, extended._expressions = new[:size], [None] * size
    for slide, root in zip(slides, new[size:], strict=False):
        extended.add_root(root, f"border of {slide.name}")
    places = dict(zip(new[size + len(slides) :], (jump.node for jump in others), strict=True))
    return SlidingModel(extended, tuple(shares), places)


@dataclass(frozen=True, eq=False)
class Choice:
    """A comparison, a sign, a smaller or a larger value, by which equations have other unknowns in them."""

    node: int
    op: Op
    operands: tuple[int, ...]
    is_timed: bool  # Whether it depends on time alone.

    def border(self, graph: Graph, put: Mapping[int, int]) -> int:
        """An expression that is positive where a comparison holds, or the first operand is taken."""
        a, b = (*graph.substitute(self.operands, put), graph.zero)[:2]
        return graph.sub(a, b) if self.op in (Op.MAX, Op.SIGN) else graph.sub(b, a)

    def taken(self, graph: Graph, side: bool, put: Mapping[int, int]) -> int:
        """What stands for it on a side of its border."""
        if self.op in EXTREMES:
            return graph.substitute(self.operands, put)[0 if side else 1]
        return graph.one if side else graph.constant(-1 if self.op is Op.SIGN else 0)


@dataclass(frozen=True, eq=False)
class Mode:
    """A model in a mode, with the unknowns that are the borders of its choices but those of time alone."""

    model: Model
    borders: tuple[str, ...]


class Choices(NamedTuple):
    """What decides which unknowns equations have."""

    choices: list[Choice]
    numbers: list[str]  # Discrete unknowns.
    examples: list[Model]  # With equations between which unknowns leave some and enter others.


def choices_of(model: Model, either: bool = False) -> Choices:
    """Choices and discrete unknowns by which unknowns leave equations and enter others, or do ``either``."""
    graph, roots, found = model.graph.copy(), model.roots, Choices([], [], [])
    pairs, alone = enumerate(model.variables_by_name.values()), roots if either else ()  # der(n) = 0
    discrete = {graph.variable(j): n.name for j, n in pairs if n.discrete or graph.variable(j, 1) in alone}
    nodes = [node for node in graph.below(roots) if graph.op[node] in DECIDING or node in discrete]
    parts = [{*graph.below([root])} for root in roots] if nodes else []
    inner = _inner(graph, roots) if nodes else set()
    for node in nodes:
        places = [i for i, part in enumerate(parts) if node in part]
        if inner.isdisjoint(places):
            continue
        both = _exchanging(graph, [roots[i] for i in places], node, discrete, either)
        for put in (dict(zip(places, new, strict=True)) for new in both):
            found.examples.append(copied(model, "mode", {}))
            found.examples[-1].graph = graph
            found.examples[-1].roots = [put.get(i, root) for i, root in enumerate(roots)]
        if both:
            leaves = [graph.leaf(leaf) for leaf in graph.leaves_of(node) if leaf.kind != "p"]
            numbers = [discrete[leaf] for leaf in leaves if leaf in discrete]
            found.numbers.extend(name for name in numbers if name not in found.numbers)
            if not numbers or len(numbers) < len(leaves):
                timed = all(leaf == graph.time() for leaf in leaves)
                found.choices.append(Choice(node, graph.op[node], graph.operands(node), timed))
    return found


def _inner(graph: Graph, roots: Sequence[int]) -> set[int]:
    """Equations left when those that alone have an unknown, and tell it, are taken away again and again."""
    jets = list(map(graph.jets_of, roots))
    having: dict[int, set[int]] = {j: set() for own in jets for j, _ in own}
    for i, own in enumerate(jets):
        for j, _ in own:
            having[j].add(i)
    waiting = [*having]
    while waiting:
        j = waiting.pop()
        for i in [*having[j]] if len(having[j]) == 1 else ():
            orders = [k for other, k in jets[i] if other == j]
            if orders == [0] and graph.slopes(roots[i]).get((j, 0)) in graph.numbers:
                for other, _ in jets[i]:
                    having[other].discard(i)
                    waiting.append(other)
    return set().union(*having.values())


def _exchanging(
    graph: Graph, roots: list[int], node: int, discrete: Container[int], either: bool
) -> Sequence[list[int]]:
    """Equations on both sides of a choice between which it exchanges unknowns, on some side of others."""

    def on_sides(each: Sequence[int], node: int) -> list[list[int]]:
        choice = Choice(node, graph.op[node], graph.operands(node), False)
        with suppress(InputError):  # of a number that is a divisor, which is never 0
            return [graph.substitute(each, {node: choice.taken(graph, side, {})}) for side in (True, False)]
        return [[*each], [*each]]

    contexts = [on_sides(roots, node)]
    for both in contexts:
        (some, always), (others, others_always) = (_incidence(graph, each, discrete) for each in both)
        goes, comes = some - others, others - some
        if (goes or comes) if either else (goes and comes):
            return both
        goes, comes = some - others_always, others - always  # at most
        if (goes or comes) if either else len(goes | comes) > 1 and goes and comes:
            # The outermost of the other choices, which stand in conditions or in equations themselves.
            parts = (
                reversed(graph.below(graph.operands(each)[:1])) if graph.op[each] is Op.SELECT else [each]
                for each in reversed(graph.below([*both[0], *both[1]]))
            )
            outer_ones = (
                each for part in parts for each in part if graph.op[each] in DECIDING or each in discrete
            )
            if (outer := next(outer_ones, None)) is not None and len(contexts) < MOST_CONTEXTS:
                pairs = zip(*(on_sides(each, outer) for each in both), strict=True)
                contexts += [[a, b] for a, b in pairs if a != b]
    return []


def _incidence(graph: Graph, roots: Sequence[int], discrete: Container[int]) -> list[set[tuple[int, ...]]]:
    """Equations with orders of unknowns that they have on a side of choices, and those on every side."""
    some: dict[int, set[tuple[int, ...]]] = {}
    always: dict[int, set[tuple[int, ...]]] = {}
    for node in graph.below(roots):
        op, leaf = graph.op[node], graph.leaves.get(node)
        parts = () if op in STEPS else graph.operands(node)[op is Op.SELECT :]
        own = {leaf[1:]} if leaf is not None and leaf.kind == "u" and node not in discrete else set()
        some[node] = own.union(*(some[part] for part in parts))
        every = [always[part] for part in parts]
        plain = (part in graph.numbers or (part in graph.leaves and part not in discrete) for part in parts)
        if op in (Op.MUL, Op.DIV) and not all(map(any, zip(every, plain, strict=True))):
            every = []  # a factor may be 0 by a choice
        always[node] = set.intersection(*every) if op in CHOICES else own.union(*every)
    return [{(i, *jet) for i, root in enumerate(roots) for jet in jets[root]} for jets in (some, always)]


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
            names.append(_new_unknown(other, "border"))
            unknown = graph.variable(other._index[names[-1]], 0)
            other.add_root(graph.sub(unknown, choice.border(graph, put)), names[-1])
    return Mode(other, tuple(names))
