"""Elimination of unknowns by linear equations, with what it knows of constants and of start values."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import sympy

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import MOVING, NOT_ANALYTIC, UNKNOWN, Leaf, Op, name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.model import Model


@dataclass(frozen=True)
class Condition:
    """A condition on parameters under which a simplified model is equivalent to the original one."""

    model: str  # Name of the model.
    expression: Any  # An expression of parameters.
    vanishes: bool  # Whether it must be 0; otherwise it must not be 0, because equations were divided by it.

    def __call__(self, values: Mapping[str, float]) -> None:
        """Raise :class:`InputError` if values of parameters violate it."""
        numbers = {symbol: float(values[symbol.name]) for symbol in self.expression.free_symbols}
        # Exact decimal numbers, as in the simplification: 0.3 - 0.1 - 0.2 is 0.
        exact = {symbol: sympy.Rational(repr(value)) for symbol, value in numbers.items()}
        is_zero = self.expression.subs(exact).is_zero
        if is_zero is None:
            is_zero = float(self.expression.subs(numbers)) == 0.0
        if bool(is_zero) == self.vanishes:
            return
        shown = ", ".join(sorted(f"{symbol.name}={value:g}" for symbol, value in numbers.items()))
        was, now = ("taken for 0", "not 0") if self.vanishes else ("divided by", "0")
        raise InputError(
            f"{self.expression} was {was} when model {self.model} was simplified, and is {now} with {shown}; "
            f"set parameters before simplifying"
        )


class Constants:
    """Decisions whether expressions of numbers and parameters are 0, with the conditions that they imply."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        graph = self.graph
        self._parameters = list(model.parameters_by_name.values())
        self.exact = {
            graph.parameter(i): graph.constant(float(parameter.value))
            for i, parameter in enumerate(self._parameters)
            if parameter.value is not None
        }
        self._zero: dict[int, bool | None] = {}
        self.divisors: dict[int, None] = {}
        self.zeros: dict[int, None] = {}  # constants that are taken for 0

    def is_zero(self, node: int) -> bool | None:
        """Whether a constant is 0 with the present values of the parameters; None if that is not known."""
        number = self.graph.numbers.get(node)
        if number is not None:
            return number == 0
        if node not in self._zero:
            try:
                exact = self.graph.substitute([node], self.exact)[0]
            except InputError:  # the expression divides by 0
                self._zero[node] = None
                return None
            value = 0.0 if self.graph.is_zero(exact) else self.value(exact)
            self._zero[node] = None if value is None or not np.isfinite(value) else value == 0.0
        return self._zero[node]

    def value(self, node: int) -> float | None:
        """The value of a constant; None where a parameter has none."""
        values = self.at_start([node], {})
        return None if values is None else values[0]

    def at_start(self, nodes: Sequence[int], unknowns: Mapping[tuple[int, int], float]) -> list[float] | None:
        """Values of expressions at the start; None where a parameter has none."""
        known: dict[Leaf, float | None] = {Leaf("t"): float(self.model.interval[0])}
        for leaf in self.graph.leaves_of(*nodes) - known.keys():
            is_unknown = leaf.kind == "u"
            known[leaf] = unknowns[leaf[1:]] if is_unknown else self._parameters[leaf.index].value
        if None in known.values():
            return None
        values: list[float] = self.graph.numeric(nodes, known.__getitem__).tolist()
        return values

    def required(self, node: int) -> float:
        """The value of a constant; raises :class:`InputError` where a parameter has none."""
        name = self.model.name
        return float(self.graph.numeric([node], lambda leaf: self._parameters[leaf.index].required(name))[0])

    def divides(self, node: int) -> bool:
        """Whether a constant is known not to be 0."""
        return self.is_zero(node) is False

    def ratio(self, a: int, b: int) -> int:
        """The node of -a / b; b must not become 0 with other parameters."""
        self.divide_by(b)
        return self.graph.neg(self.graph.div(a, b))

    def divide_by(self, node: int) -> None:
        """Add the condition that a constant is not 0."""
        if node not in self.graph.numbers:
            self.divisors[node] = None

    def conditions(self) -> tuple[Condition, ...]:
        """All conditions on parameters."""
        asked = [*((node, False) for node in self.divisors), *((node, True) for node in self.zeros)]
        texts = self.model.sympy([node for node, _ in asked])
        return tuple(
            Condition(self.model.name, -text if text.could_extract_minus_sign() else text, vanishes)
            for text, (_, vanishes) in zip(texts, asked, strict=True)
        )


START_TOLERANCE: Final = 1e-9  # Difference, relative to the larger one or 1, of equal start values.


class Relation(NamedTuple):
    """An unknown as a factor (0: constant) times a derivative of ``of``, plus an offset; both nodes."""

    of: int
    factor: int
    order: int
    offset: int


class Start(NamedTuple):
    """A start value, whether it is fixed, and the name of the user's unknown that it was given for."""

    value: float
    fixed: bool
    name: str


def agree(a: float, b: float) -> bool:
    """Whether two start values are equal up to :data:`START_TOLERANCE`."""
    return abs(a - b) <= START_TOLERANCE * max(1.0, abs(a), abs(b))


class Starts:
    """Start values and bounds of all unknowns of a model, moved to the kept unknowns."""

    def __init__(self, model: Model, final: Sequence[Relation], constants: Constants) -> None:
        self.model, self.final, self.constants, self.unknowns = model, final, constants, model.unknowns()
        self.found: dict[int, dict[int, Start]] = {}
        self.limits: dict[int, tuple[tuple[float, str] | None, tuple[float, str] | None]] = {}
        for j, relation in enumerate(final):
            # Start values move to the kept unknowns.
            variable = self.unknowns[j]
            for order, value in variable.start.items():
                fixed, name = order in variable.fixed, name_of(variable.name, order)
                offset = 0.0 if order else self._constant(relation.offset, fixed)
                scale = self._constant(relation.factor, fixed)
                if offset is None or scale is None:
                    continue
                if relation.factor == self.model.graph.zero:
                    if fixed and not agree(value, offset):
                        raise InputError(
                            f"model {self.model.name} fixes the start of {name} at {value:.10g}, but its "
                            f"equations say {name} = {offset:.10g}; drop fixed or correct the start"
                        )
                    continue
                here = Start((value - offset) / scale, fixed, name)
                self._enter(relation.of, order + relation.order, here, own=relation.of == j)
        for j, relation in enumerate(final):
            bounds = self.unknowns[j].minimum, self.unknowns[j].maximum
            if relation.factor != model.graph.zero and not relation.order and bounds != (None, None):
                self._bound(j, relation)

    def bounds(self, j: int) -> tuple[float | None, float | None]:
        """Lower and upper bound of kept unknown j."""
        low, high = self.limits.get(j, (None, None))
        return (None if low is None else low[0]), (None if high is None else high[0])

    def _enter(self, kept: int, order: int, new: Start, own: bool) -> None:
        column = self.found.setdefault(kept, {})
        old = column.get(order)
        if old is not None and old.fixed and new.fixed and not agree(old.value, new.value):
            what = name_of(self.model.names[kept], order)
            raise InputError(
                f"model {self.model.name} fixes the starts of {old.name} and {new.name}, which contradict "
                f"each other: {what} = {old.value:.10g} and {new.value:.10g}; drop fixed for one"
            )
        if old is None or (new.fixed, own) > (old.fixed, False):
            column[order] = new

    def _bound(self, j: int, relation: Relation) -> None:
        variable = self.unknowns[j]
        offset, scale = self._constant(relation.offset, False), self._constant(relation.factor, False)
        if offset is None or scale is None:
            return
        ends = (variable.minimum, variable.maximum)
        moved = [None if end is None else ((end - offset) / scale, variable.name) for end in ends]
        if scale < 0:
            moved.reverse()
        ends_of_all = zip(self.limits.get(relation.of, (None, None)), moved, strict=True)
        lows, highs = ([end for end in both if end is not None] for both in ends_of_all)
        low, high = max(lows, default=None), min(highs, default=None)
        if low is not None and high is not None and low[0] > high[0]:
            raise InputError(
                f"model {self.model.name} has bounds of {low[1]} and {high[1]} that no value of "
                f"{self.model.names[relation.of]} satisfies; correct one"
            )
        self.limits[relation.of] = low, high

    def _constant(self, node: int, needed: bool) -> float | None:
        """The value of a constant; None if it has parameters without values, and is not needed."""
        return self.constants.required(node) if needed else self.constants.value(node)


HIGHEST_REQUIRED_ORDER: Final = 3  # Highest derivative of an unknown that eliminates another one.
LARGEST_ERROR_FACTOR: Final = 100.0  # Largest error of an eliminated unknown for those that give it.


def sum_of(graph: Graph, terms: Iterable[tuple[int, int]], offset: int) -> int:
    """Node of the sum of products and an offset."""
    return graph.add(*(graph.mul(factor, node) for factor, node in terms), offset)


def linear_form(graph: Graph, root: int) -> tuple[dict[tuple[int, int], int], int] | None:
    """Constant factors of unknowns and their derivatives, and the remaining term; None if not linear."""
    factors, rest, stack = dict[tuple[int, int], int](), graph.zero, [(root, graph.one)]
    while stack:
        node, factor = stack.pop()
        op, args, leaf = graph.op[node], graph.args[node], graph.leaves.get(node)
        if not graph.mark[node] & UNKNOWN:
            rest = graph.add(rest, graph.mul(factor, node))
        elif leaf is not None:
            factors[leaf[1:]] = graph.add(factors.get(leaf[1:], graph.zero), factor)
        elif op is Op.ADD or op is Op.NEG:
            stack += [(arg, factor if op is Op.ADD else graph.neg(factor)) for arg in reversed(args)]
        elif op in (Op.MUL, Op.DIV) and not graph.mark[args[1]] & MOVING:
            stack.append((args[0], graph.call(op, factor, args[1])))
        elif op is Op.MUL and not graph.mark[args[0]] & MOVING:
            stack.append((args[1], graph.mul(factor, args[0])))
        else:
            break
    else:
        return {key: factors[key] for key in sorted(factors) if not graph.is_zero(factors[key])}, rest
    slopes = sorted(graph.slopes(root).items())
    if any(graph.mark[slope] & MOVING for _, slope in slopes):
        return None
    left = _without(graph, root, (graph.variable(*jet) for jet in graph.jets_of(root)))
    terms = ((slope, graph.variable(*jet)) for jet, slope in slopes)
    # Step functions and choices have constant derivatives too, but are not linear.
    return None if left is None or sum_of(graph, terms, left) != root else (dict(slopes), left)


def _without(graph: Graph, root: int, leaves: Iterable[int]) -> int | None:
    try:
        return graph.substitute([root], dict.fromkeys(leaves, graph.zero))[0]
    except InputError:  # the expression is not defined where these are 0
        return None


class _Candidate(NamedTuple):
    """An unknown that an equation determines, with its expression by that equation."""

    unknown: int
    equation: int
    expression: int
    divisor: int
    linear: bool


class LinearElimination:
    """Elimination of unknowns u by equations a u + r = 0 with a constant a other than 0 and r without u."""

    # The number of entries, of unknowns and derivatives in equations, does not grow: with m of them in r, and
    # u in q further equations, q (m - 1) <= m + 1. If other equations contain derivatives of u, these must be
    # first ones, and r must contain one unknown only, whose order then rises by at most one and to at most
    # three; or r must depend on time alone. Also sum_l |b_l / a| <= 100, so that errors of derivatives do not
    # spoil u. If r contains derivatives, the highest ones of all unknowns have constant coefficients, before
    # and after: constant masses are not mixed with masses that depend on the position. Expressions with
    # corners or jumps (tables, choices) are neither differentiated nor put into several equations. A fixed
    # start value of u must move to one unknown of r whose start value is free. An r that is not linear, and
    # has no switch, takes a u out that is in this equation alone, without start value and bounds.

    def __init__(
        self, constants: Constants, roots: Mapping[int, int], starts: Starts, explicit: bool, barred: Set[int]
    ) -> None:
        self.constants, self.graph, self.starts = constants, constants.graph, starts.found
        self.roots = dict(roots)
        self._explicit, self._barred, self._bounds = explicit, barred, starts.bounds
        self._told: dict[int, int] = {}
        self._spans: dict[int, dict[int, int]] = {}
        self._places: dict[int, set[int]] = {}
        for i in self.roots:
            self._enter(i)
        queue = deque(self.roots)
        later: dict[int, None] = {}
        while queue or later:
            # Unknowns with derivatives in other equations come last: eliminations may remove these first.
            first = bool(queue)
            i = queue.popleft() if first else next(iter(later))
            later.pop(i, None)
            if i not in self.roots:
                continue
            changed = self._use(i, differentiated=not first)
            if changed is not None:
                queue.extend(changed)
            elif first:
                later[i] = None

    def _enter(self, i: int) -> None:
        """Note which unknowns are in an equation, and their highest orders."""
        spans = dict(self.graph.jets_of(self.roots[i]))  # the highest order of each is the last
        for j in self._spans.get(i, {}):
            self._places[j].discard(i)
        self._spans[i] = spans
        for j in spans:
            self._places.setdefault(j, set()).add(i)

    def _order(self, j: int, equations: Iterable[int]) -> int:
        return max((self._spans[i][j] for i in equations), default=0)

    def _use(self, i: int, differentiated: bool) -> list[int] | None:
        """Eliminate an unknown by an equation; returns the changed equations, None without a candidate."""
        if len(self.roots) == 1:
            return None
        for candidate in self._candidates(i):
            if not self._allowed(candidate, differentiated):
                continue
            starts = self._moved(candidate)
            if starts is None or (put := self._put(candidate)) is None:
                continue
            self.constants.divide_by(candidate.divisor)
            self._told[candidate.unknown] = candidate.expression
            self.starts.pop(candidate.unknown, None)
            for key, start in starts.items():
                self.starts.setdefault(key[0], {})[key[1]] = start
            left = self._spans.pop(i)
            for j in left:
                self._places[j].discard(i)
            del self.roots[i]
            for other, root in put.items():
                self.roots[other] = root
                self._enter(other)
            lone = [next(iter(self._places[j])) for j in left if len(self._places[j]) == 1]
            return list(dict.fromkeys([*put, *lone]))
        return None

    def _candidates(self, i: int) -> Iterator[_Candidate]:
        """The unknowns that an equation determines, in the order in which they are tried."""
        graph, root, spans = self.graph, self.roots[i], self._spans[i]
        form, order_of_trial = linear_form(graph, root), sorted(spans, key=lambda j: self._cost(j, i))
        if form is not None:
            factors, rest = form
            for j in order_of_trial:
                divisor = factors.get((j, 0), graph.zero)
                if spans[j] == 0 and self._fits(j, len(factors) - 1) and self.constants.divides(divisor):
                    over = [(f, key) for key, f in factors.items() if key[0] != j]
                    terms = [(graph.neg(graph.div(f, divisor)), graph.variable(*key)) for f, key in over]
                    expression = sum_of(graph, terms, graph.neg(graph.div(rest, divisor)))
                    yield _Candidate(j, i, expression, divisor, True)
        else:
            slopes = graph.gradient(root)
            for j in order_of_trial:
                node = graph.variable(j)
                divisor = slopes.get(node, graph.zero)
                fits = not spans[j] and not graph.mark[divisor] & MOVING and self.constants.divides(divisor)
                left = _without(graph, root, [node]) if fits and self._replaceable(j) else None
                if left is not None and graph.add(graph.mul(divisor, node), left) == root:
                    yield _Candidate(j, i, graph.neg(graph.div(left, divisor)), divisor, False)

    def _replaceable(self, j: int) -> bool:
        """Whether an expression that is not linear may stand for an unknown: nothing else depends on it."""
        chooses = j in self.starts or j in self._barred or self._bounds(j) != (None, None)
        return self._explicit or (len(self._places[j]) == 1 and not chooses)

    def _fits(self, j: int, m: int) -> bool:
        return (len(self._places[j]) - 1) * (m - 1) <= m + 1

    def _cost(self, j: int, i: int) -> tuple[int, int, bool, bool, int]:
        others, starts = self._places[j] - {i}, self.starts.get(j, {})
        fixed = any(start.fixed for start in starts.values())
        return self._order(j, others), len(others), fixed, bool(starts), j

    def _allowed(self, candidate: _Candidate, differentiated: bool) -> bool:
        others = self._places[candidate.unknown] - {candidate.equation}
        jets = self.graph.jets_of(candidate.expression)
        m, order = len(jets), self._order(candidate.unknown, others)
        if not self._fits(candidate.unknown, m) or (order and not differentiated):
            return False
        if candidate.unknown in self._barred and any(k for _, k in jets):
            return False
        moving = self.graph.below([candidate.expression], MOVING)
        rough = any(self.graph.op[node] in NOT_ANALYTIC for node in moving)
        if rough and (order or len(others) > 1 or not (candidate.linear or self._explicit)):
            return False
        if not order or not jets:
            return True
        unknowns = {j for j, _ in jets}
        if order > 1 or len(unknowns) > 1 or not candidate.linear:
            return False
        gradient = self.graph.slopes(candidate.expression)
        slopes = [self.constants.value(gradient[jet]) for jet in jets]
        if sum(np.inf if slope is None else abs(slope) for slope in slopes) > LARGEST_ERROR_FACTOR:
            return False
        highest = max(k for _, k in jets) + order
        now = self._order(unknowns.pop(), self._places[jets[0][0]])
        return highest <= max(now, min(now + 1, HIGHEST_REQUIRED_ORDER))

    def _highest(self, jets: Iterable[tuple[int, int]]) -> bool:
        return any(0 < order >= self._order(j, self._places[j]) for j, order in jets)

    def _moved(self, candidate: _Candidate) -> dict[tuple[int, int], Start] | None:
        """Start values of the unknown, moved to kept unknowns; None where a fixed one has no place."""
        moved_starts: dict[tuple[int, int], Start] = {}
        for order, start in sorted(self.starts.get(candidate.unknown, {}).items()):
            node = self.graph.total_derivative(candidate.expression, order)
            moved = self._solved(node, start, moved_starts)
            if moved is not None:
                moved_starts.update(moved)
            elif start.fixed:
                return None
        return moved_starts

    def _solved(
        self, node: int, start: Start, moved: Mapping[tuple[int, int], Start]
    ) -> dict[tuple[int, int], Start] | None:
        graph, jets = self.graph, self.graph.jets_of(node)
        starts = {key: moved.get(key) or self.starts.get(key[0], {}).get(key[1]) for key in jets}
        # A fixed value replaces a guess, and a guess is entered where there is no value.
        free = [key for key, other in starts.items() if other is None or (start.fixed and not other.fixed)]
        if len(free) > 1:
            return None
        at = {key: 0.0 if other is None else other.value for key, other in starts.items()}
        nodes = [node]
        if free:
            slope = graph.slopes(node).get(free[0], graph.zero)
            at[free[0]] = 0.0
            if graph.mark[slope] & MOVING or not self.constants.divides(slope):
                return None
            nodes.append(slope)
        numbers = self.constants.at_start(nodes, at)
        if numbers is None or not np.isfinite(numbers).all():
            return None
        if free:
            return {free[0]: Start((start.value - numbers[0]) / numbers[1], start.fixed, start.name)}
        return {} if agree(numbers[0], start.value) else None

    def _put(self, candidate: _Candidate) -> dict[int, int] | None:
        """The other equations with the unknown replaced by the expression; None if that is impossible."""
        put: dict[int, int] = {}
        for i in sorted(self._places[candidate.unknown] - {candidate.equation}):
            try:
                put[i] = self._with(self.roots[i], {candidate.unknown: candidate.expression})
            except InputError:  # it divides by 0
                return None
            rates, slopes = self.graph.jets_of(candidate.expression), self.graph.slopes(put[i]).items()
            moving = [jet for jet, slope in slopes if self.graph.mark[slope] & MOVING]
            # An equation without unknowns repeats others or contradicts them; structural analysis reports it.
            if (self._highest(rates) and self._highest(moving)) or not self.graph.jets_of(put[i]):
                return None
        return put

    def _with(self, node: int, told: Mapping[int, int]) -> int:
        graph = self.graph
        jets = [(j, k) for j, k in graph.jets_of(node) if j in told]
        replaced = {graph.variable(j, k): graph.total_derivative(told[j], k) for j, k in jets}
        return graph.substitute([node], replaced)[0]

    def told(self) -> dict[int, int]:
        """Every eliminated unknown as an expression of the remaining ones."""
        expressions: dict[int, int] = {}
        for j in reversed(self._told):
            expressions[j] = self._with(self._told[j], expressions)
        return expressions
