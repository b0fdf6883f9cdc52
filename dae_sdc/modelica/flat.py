"""Flattening: the variables and equations of a class and of all its components."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeAlias

from dae_sdc.dae.branches import INITIAL
from dae_sdc.expressions.dag import MOVING, Leaf as Symbol, name_and_order
from dae_sdc.modelica import arithmetic, syntax
from dae_sdc.modelica.algorithms import assigned_in, results, said, section, targets_and_values, targets_in
from dae_sdc.modelica.arithmetic import FALSE, MOST_ELEMENTS, TRUE, TRUTHS, Condition, Value, opposite, shown
from dae_sdc.modelica.library import Bound, Change, Instance, Library, Member, Scope, Variable
from dae_sdc.modelica.syntax import Call, ClassDefinition, Equal, Equation, If, similar
from dae_sdc.modelica.values import BEFORE, NOT_DISCRETE, Asserted, Values, scopes
from dae_sdc.sharing import tell

MOST_VARIABLES: Final = 500_000  # Most variables of a model, and most equations.
BESIDE: Final = "beside"  # The condition of an event that happens where the one before it does.


class Vanishing(NamedTuple):
    """An expression that is zero."""

    at: int  # Its place in the text.
    expression: int  # The node of the expression.
    where: str = ""  # Name of the component in which it is.
    note: str = ""  # Its description in the text.


# An equation in no loop, and in no choice whose conditions are decided.
Single: TypeAlias = Equal | If | syntax.Connect | syntax.When | syntax.Assert | syntax.Algorithm


def unrolled(values: Values, equations: Iterable[Equation], scope: Scope) -> Iterator[tuple[Single, Scope]]:
    """Equations with what is in loops and decided choices in place of these, each with its scope."""
    for equation in equations:
        if isinstance(equation, syntax.For):
            for inner in scopes(values, equation.indices, scope, equation.at):
                values.spend(len(equation.body), equation.at)
                yield from unrolled(values, equation.body, inner)
        elif isinstance(equation, If):
            _, bodies = values.cases(equation, scope)
            if len(bodies) > 1:
                yield equation, scope
            else:
                yield from unrolled(values, bodies[0], scope)
        else:
            yield equation, scope


def vanishing(values: Values, equation: Equal | If, scope: Scope) -> Iterator[Vanishing]:
    """The expressions that vanish by an equation, those of an if-equation with its choice inside them."""
    where = scope.instance.shown if scope.instance is not None else ""
    if isinstance(equation, Equal):
        sides = sides_of(values, equation, scope)
        pairs: list[tuple[Value, Value]] = []
        values.wrapped(equation.at, arithmetic.together, lambda *pair: pairs.append(pair), sides, "side")
        for left, right in pairs:
            alike = isinstance(left, Condition) == isinstance(right, Condition)
            number = values.truth if alike else values.as_number
            a, b = number(left, equation.left.at), number(right, equation.right.at)
            difference = values.graph.plus([a, values.graph.neg(b)]) if a != values.graph.zero else b
            values.check(difference, equation.at)
            yield Vanishing(equation.at, difference, where, equation.note)
        return
    tests, bodies = values.cases(equation, scope)
    lists: list[list[Vanishing]] = []
    for body in values.in_cases(tests, bodies):
        lists.append([])
        for part, inner in unrolled(values, body, scope):
            if isinstance(part, syntax.Assert):
                values.require(part.at, *said(values, part, inner))
                continue
            if not isinstance(part, Equal | If):
                word = type(part).__name__.lower()
                values.fail(part.at, f"{word} depends on an unknown here; move it out of if")
            lists[-1] += vanishing(values, part, inner)
    if len({len(items) for items in lists}) > 1:
        if not bodies[-1]:
            values.fail(equation.at, "an if-equation without else; give equations for all cases")
        counts = ", ".join(str(len(items)) for items in lists)
        values.fail(equation.at, f"the branches of an if-equation have {counts} equations")
    for items in zip(*lists, strict=True):
        value = values.graph.choice(tests, [item.expression for item in items])
        yield Vanishing(items[0].at, values.check(value, equation.at), where)


def sides_of(values: Values, equation: Equal | syntax.Algorithm, scope: Scope) -> tuple[Value, Value]:
    """The values of both sides of an equation; of the results of a function those that are used."""
    if isinstance(equation, syntax.Algorithm):
        names = assigned_in(equation.body)
        outcome = section(values, equation.body, scope)
        return [values.value(name, scope) for name in names], [outcome[str(name)] for name in names]
    if not isinstance(equation.left, syntax.Results):
        return values.value(equation.left, scope), values.value(equation.right, scope)
    pairs = targets_and_values(values, equation, scope, "equal")
    return [values.value(item, scope) for item, _ in pairs], [new for _, new in pairs]


class Reaction(NamedTuple):
    """What happens where a condition begins to hold."""

    at: int  # Its place in the text.
    condition: Condition | str  # A condition, or the text of one that holds at events alone.
    changes: dict[int, int]  # New values of unknowns.
    about: Mapping[str, Any]  # Further arguments of :meth:`Model.when`.


def assigned_by(values: Values, equations: Sequence[Equation], scope: Scope) -> Iterator[str]:
    """The names of the variables that when-equations, or the equations of a branch of one, assign."""
    for item in equations:
        match item:
            case syntax.For():
                for inner in scopes(values, item.indices, scope, item.at):
                    yield from assigned_by(values, item.body, inner)
            case If() | syntax.When():
                for body in (*(body for _, body in item.branches), getattr(item, "other", [])):
                    yield from assigned_by(values, body, scope)
            case _:
                for at, part in targets_in([item]):
                    for target in arithmetic.elements(values.value(part, scope)):
                        unknown = values.unknown_of(target)
                        if unknown is None or values.graph.leaves[unknown].order:
                            what = "a when-equation assigns variables that have no other value"
                            values.fail(at, f"{what}; remove one, or write x = VALUE")
                        yield shown(values.graph.leaves[unknown])


# Where it is told, and arguments of :meth:`Model.when`.
_Told: TypeAlias = list[tuple[Condition, dict[str, Any]]]


def _happening(
    values: Values, equations: list[Equation], scope: Scope, now: dict[int, int]
) -> tuple[dict[int, int], set[int], _Told]:
    """New values by a branch of a when-equation, the states among what has them, and what is told."""
    # In an algorithm, what stands in ``now`` are the values so far of what it assigns.
    changes, states, told, graph = dict[int, int](), set[int](), _Told(), values.graph
    for item, inside in unrolled(values, equations, scope):
        pairs, asserted = list[tuple[Any, int]](), Asserted()
        if isinstance(item, If):
            tests, bodies = values.cases(item, inside)
            tests = [graph.replaced(test, now) for test in tests]
            several = [_happening(values, body, inside, dict(now)) for body in bodies]
            new, reset, tellings = zip(*several, strict=True)
            states.update(*reset)
            for target in dict.fromkeys(target for part in new for target in part):
                keeps = changes.get(target, target if target in states else values.before_event(target))
                pairs.append((target, graph.choice(tests, [part.get(target, keeps) for part in new])))
            for k, part in enumerate(tellings):
                here = [*map(graph.opposite, tests[:k]), tests[k]]
                told += [(graph.joined(True, [*here, holds]), about) for holds, about in part]
        elif isinstance(item, Equal):
            sides = values.apart(sides_of, values, item, inside, into=asserted)
            targets, news = map(arithmetic.elements, sides)
            if len(targets) != len(news):
                values.fail(item.at, f"{len(targets)} variables get {len(news)} values; give each its own")
            numbers = [graph.replaced(values.truth(value, item.at), now) for value in news]
            pairs = list(zip(map(values.unknown_of, targets), numbers, strict=True))
            states |= {target for target, _ in pairs if item.reinit}
        elif isinstance(item, syntax.Assert):
            condition, about = said(values, item, inside)
            asserted[item.at, condition] = about
        told += [
            (graph.opposite(graph.replaced(holds, now)), about) for (_, holds), about in asserted.items()
        ]
        for target, value in pairs:
            if target is None or graph.leaves[target].order or (target in changes and target not in now):
                values.fail(item.at, "this must be a variable, which gets one value in a branch")
            changes[target] = value
        now.update((target, value) for target, value in pairs if target in now)
    return changes, states, told


def reactions_of(
    values: Values, states: dict[int, int], equation: syntax.When, scope: Scope
) -> Iterator[Reaction]:
    """The reactions of a when-equation; ``states``, which change last, stand for their values before it."""
    begun, graph = False, values.graph
    for test, equations in equation.branches:
        names = assigned_by(values, equations, scope) if equation.in_algorithm else ()
        now = {each: values.before_event(each) for each in map(graph.variable, names)}
        changes, again, told = _happening(values, equations, scope, now)
        if wrong := again - states.keys():
            name = min(shown(graph.leaves[each]) for each in wrong)
            values.fail(equation.at, f"reinit changes {name}, which has no derivative; assign it")
        assigned = [target for target in changes if target not in again]
        # A name stands for the new value of what is assigned beside it, inside pre(...) for that before.
        for _ in assigned:
            new = {target: changes[target] for target in assigned}
            for target, value in changes.items():
                changes[target] = values.check(graph.replaced(value, new), equation.at)
        if not {*assigned}.isdisjoint(graph.below(changes.values())):
            values.fail(equation.at, "the values of a when-equation depend on each other; use pre(...)")
        conditions = arithmetic.elements(values.value(test, scope))
        old = {each: values.before_event(each) for each in assigned}
        for condition in (values.as_condition(each, test.at) for each in conditions):
            condition = graph.replaced(condition, old)
            if condition in TRUTHS:  # what always or never holds does not begin to hold
                continue
            there = partial(_behind, values, states, condition)
            news = {target: there(value) for target, value in changes.items()}
            yield Reaction(equation.at, condition, news, {"implicit": True, "otherwise": begun})
            for violated, message in told:
                if (only := there(violated)) != FALSE:
                    yield Reaction(equation.at, BESIDE, {}, {"implicit": True, **message, "only": only})
            begun = True


def _behind(values: Values, states: Mapping[int, int], condition: Condition, value: Any) -> Any:
    """A new value where a condition has begun to hold, which rounding at its border could doubt."""
    graph = values.graph
    parts = arithmetic.conjuncts(graph, condition.node)
    denials = {opposite(graph, part): graph.zero for part in parts}
    value = graph.replaced(value, {**denials, **dict.fromkeys(parts, graph.one)})
    return graph.replaced(graph.replaced(value, values.steps), states)


def _between_events(values: Values, condition: Condition) -> Condition:
    """A condition in which values before an event are those of any time between two."""
    graph = values.graph
    between = dict.fromkeys(values.moments, graph.zero)
    for leaf in graph.leaves_in(condition):
        if (name := str(leaf.index)).startswith(BEFORE):
            between[graph.leaf(leaf)] = graph.variable(*name_and_order(name[len(BEFORE) : -1]))
    return Condition(*graph.substitute([condition.node], between))


# A Boolean variable whose equation has its value before, or that of another, with the equation's place.
_Held: TypeAlias = tuple[Variable, int, Callable[[], Value]]


def held_by(values: Values, states: dict[int, int], held: _Held) -> Iterator[Reaction]:
    """The reactions of such a variable: at the start, and while its condition holds."""
    variable, at, value = held
    condition, graph = value(), values.graph
    if variable.type != "Boolean" or not isinstance(condition, Condition) or condition in TRUTHS:
        what = f"the equation of {variable.shown} has pre(...)"
        values.fail(at, f"{what} and is no condition that holds for a while; write a when-equation")
    now = graph.replaced(condition, states)
    start = graph.replaced(_behind(values, states, TRUE, condition), {graph.variable(INITIAL): graph.one})
    unknown = graph.variable(variable.name)
    yield Reaction(at, INITIAL, {unknown: start.node}, {"implicit": True})
    yield Reaction(at, now, {unknown: graph.one}, {"implicit": True, "lasting": True})


# A variable, or what is none, with the way to it: subscripts, from 0, or words, each with how many there are.
Leaf: TypeAlias = tuple[Any, tuple[tuple[Any, int], ...]]


def leaves_of(
    member: Any, kinds: Container[str] = ("record",), path: tuple[tuple[Any, int], ...] = ()
) -> Iterator[Leaf]:
    """The variables in a member that is an array, or a component of a class of some kinds."""
    if isinstance(member, list):
        parts: dict[Any, Any] = dict(enumerate(member))
    elif isinstance(member, Instance) and member.definition.kind in kinds:
        parts = member.members
    else:
        yield member, path
        return
    for step, part in parts.items():
        yield from leaves_of(part, kinds, (*path, (step, len(parts))))


_Start: TypeAlias = tuple[int, Symbol, int]  # Place in the text, unknown or derivative, and its start value.


def starts(values: Values, equation: Single, scope: Scope) -> Iterator[_Start | Vanishing | Reaction]:
    """Start values given by an initial equation, or what vanishes or happens at the start by it."""
    if isinstance(equation, syntax.Assert):
        values.require(equation.at, *said(values, equation, scope))
        return
    if isinstance(equation, If):
        yield from vanishing(values, equation, scope)
        return
    if not isinstance(equation, Equal | syntax.Algorithm):
        values.fail(equation.at, "an initial equation must be an equation of two sides, or if")
    left, right = (arithmetic.elements(side) for side in sides_of(values, equation, scope))
    pairs, at = list(zip(left, right, strict=False)), equation.at
    known = [start for pair in pairs if (start := _started(values, pair, at)) is not None]
    if len(left) == len(right) == len(known):
        yield from known
    elif isinstance(equation, Equal):
        yield from vanishing(values, equation, scope)
    else:
        changes, changed = dict[Any, int](), {*values.discrete, *values.calculated}
        for each, value in pairs:
            target = values.unknown_of(each)
            if target is not None and shown(values.graph.leaves[target]) in changed:
                changes[target] = values.truth(value, at)
            else:
                sides = [values.as_number(side, at) for side in (each, value)]
                yield Vanishing(at, values.check(values.graph.sub(*sides), at))
        if changes:  # What depends on time is told by the event at the start.
            yield Reaction(at, INITIAL, changes, {"implicit": True})


def _started(values: Values, pair: tuple[Value, Value], at: int) -> _Start | None:
    """The start value that an initial equation gives; None for an equation that has to be solved."""
    for side, other in (pair, pair[::-1]):
        unknown = values.unknown_of(side)
        if unknown is not None and not isinstance(other, dict | str):
            value = values.check(values.truth(other, at), at)
            if not values.graph.mark[value] & MOVING:
                return at, values.graph.leaves[unknown], value
    return None


_HOW_TO_CONNECT: Final = "connect two connectors of one class"
# A variable, and whether its connector belongs to the class of the connect-equation itself.
_Side = tuple[Variable, bool]


# The place of a connect-equation in the text, and the two sides of one of its connections.
_Link: TypeAlias = tuple[int, _Side, _Side]


def links_of(values: Values, equation: syntax.Connect, scope: Scope) -> Iterator[_Link]:
    """The connections of a connect-equation, variable by variable."""
    at, names = equation.at, (equation.left, equation.right)
    # What both sides have, and whether they belong to the class itself, and not to one of its components.
    sides, outside = list[dict[Any, Any]](), list[bool]()
    for name in names:
        leaves = leaves_of(values.required(name, scope), ("record", "connector", "class"))
        sides.append({path: each for each, path in leaves})
        first = scope.instance.members.get(name.parts[0][0]) if scope.instance is not None else None
        while isinstance(first, list):
            first = first[0] if first else None
        outside.append(isinstance(first, Variable) or (isinstance(first, Instance) and first.connector))
        if not all(isinstance(each, Variable) for each in sides[-1].values()):
            values.fail(at, f"{name} is no connector; {_HOW_TO_CONNECT}")
    left, right = sides
    values.spend(len(left), at)
    if left.keys() != right.keys():
        words = [
            {tuple(step for step, _ in path if isinstance(step, str)) for path in side} for side in sides
        ]
        what = "do not fit" if words[0] == words[1] or {()} in words else "have different variables"
        values.fail(at, f"{names[0]} and {names[1]} {what}; {_HOW_TO_CONNECT}")
    for one, other in ((each, right[path]) for path, each in left.items()):
        if one.flow != other.flow:
            values.fail(at, f"{one.shown} and {other.shown} are connected, but only one of them is a flow")
        if not one.variability:
            yield at, (one, outside[0]), (other, outside[1])


def pass_on(values: Values, signals: list[_Link]) -> None:
    """Let Boolean and Integer variables stand for those with a value that they are connected with."""

    def has_value(side: _Side) -> bool:
        return side[0].name in values.defined or side[0].name in values.discrete

    before = 0
    while len(signals) != before:
        for at, left, right in signals:
            if has_value(left) and has_value(right):
                pair = f"{left[0].shown} and {right[0].shown}"
                values.fail(at, f"{pair} are connected, and both have a value; remove one")
            if has_value(left) or has_value(right):
                source, other = (left, right) if has_value(left) else (right, left)
                values.defined[other[0].name] = partial(values.symbol, source[0])
        signals, before = [link for link in signals if not has_value(link[1])], len(signals)


def connected(values: Values, links: Iterable[_Link], flows: list[Variable]) -> Iterator[Vanishing]:
    """The equations of all connections of Real variables."""
    nets: dict[_Side, list[_Side]] = {}  # What is connected with a variable, and itself.
    first: dict[_Side, tuple[int, str]] = {}
    symbol, graph = values.symbol, values.graph
    for at, *both in links:
        for side in both if both[0][0].flow else ():
            first.setdefault(side, (at, ""))
        sides = [(variable, outside and variable.flow) for variable, outside in both]
        few, many = sorted((nets.setdefault(side, [side]) for side in sides), key=len)
        if few is not many:
            many += few
            nets.update(dict.fromkeys(few, many))
            if not sides[0][0].flow:
                yield Vanishing(at, graph.sub(*(symbol(variable) for variable, _ in sides)))
    for variable in flows:
        first.setdefault((variable, False), (variable.at, variable.shown.rpartition(".")[0]))
    sums: dict[int, list[_Side]] = {}
    for side in first:
        sums.setdefault(id(nets.setdefault(side, [side])), []).append(side)
    for net in sums.values():
        terms = [graph.neg(symbol(each)) if outside else symbol(each) for each, outside in net]
        at, where = first[net[0]]
        yield Vanishing(at, graph.add(*terms), where)


DEEPEST_COMPONENT: Final = 50  # Largest depth of components in components.

_READ: Final = ("start", "fixed", "min", "max", "unit", "nominal")
ATTRIBUTES: Final = (*_READ, "displayUnit", "quantity", "stateSelect", "StateSelect", "unbounded")


def _is_open(variable: Variable) -> bool:
    """Whether a variable is an input of the model itself without a value."""
    return variable.causality == "input" and variable.value is None and "." not in variable.shown


@dataclass(slots=True)
class _Kind:
    """What a component is without its modifications."""

    element: syntax.Component  # Its declaration, with what its class adds where that is type A = B.
    base: ClassDefinition | str
    connector: bool = False
    counts: list[int] = field(default_factory=list)  # The values of its sizes.


class Flat:
    """A flat model: what a class and, recursively, its components declare, without components."""

    def __init__(self, definition: ClassDefinition, library: Library, values: Values) -> None:
        self.library = library
        self.values = values
        self.source = library.source
        self.fail = library.fail
        self.variables: list[Variable] = []  # Unknowns, parameters and constants.
        self._written: list[tuple[list[Equation], Scope]] = []
        self._initial: list[tuple[list[Equation], Scope]] = []
        # What algorithms compute: place in the text, variable, its value.
        self._computed: list[tuple[int, Variable, Callable[[], Value]]] = []
        self._held: list[_Held] = []
        self._outcomes: list[Callable[[], object]] = []  # The values at the ends of algorithms.
        self.reactions: list[Reaction] = []
        self._count = 0
        at = definition.at
        whole = syntax.Component(at, definition.name, syntax.Name(at, [(definition.name, [])]), [], None)
        kind, change = self._resolved(whole, Change(at), definition.parent or library.root)
        if isinstance(kind.base, str):
            self.fail(at, f"{definition.name} is a number and no model")
        self._fill(Instance("", kind.base), [kind.base], change)
        for variable in self.variables:
            if variable.variability:
                values.symbol(variable)
        written, initial = self._unrolled(self._written), self._unrolled(self._initial)
        for variable in self.variables:
            if variable.value is not None and not variable.variability and variable.type != "Real":
                expression = variable.value.expression
                self._define(variable, expression.at, expression, partial(values.bound, variable.value))
        whens = [(item, scope) for item, scope in written if isinstance(item, syntax.When)]
        in_turn = set[str]()  # Variables to which an algorithm may give a value once more.
        for when in whens:
            names, again = {*assigned_by(values, [when[0]], when[1])}, when[0].in_algorithm
            if twice := sorted((names & {*values.discrete, *values.defined}) - (in_turn if again else set())):
                what = f"two when-equations give {twice[0]} a value"
                self.fail(when[0].at, f"{what}; write elsewhen in one of them")
            values.discrete |= names
            in_turn |= names if again else set()
        links, signals = list[_Link](), list[_Link]()
        for item, scope in written:
            for link in links_of(values, item, scope) if isinstance(item, syntax.Connect) else ():
                is_real = link[1][0].type == link[2][0].type == "Real"
                (links if is_real else signals).append(link)
        written.sort(key=lambda pair: not isinstance(pair[0], syntax.Algorithm))
        written = [pair for item in written for pair in self._undefined(*item)]
        pass_on(values, signals)
        values.forget_unknowns()  # Conditions of if-equations were looked at before these had values.
        self.equations = [*self._of_declarations()]  # Expressions that are zero.
        for item, scope in written:
            if isinstance(item, Equal | If):
                self.equations += vanishing(values, item, scope)
            self._require_few(len(self.equations), item.at)
        for at, variable, value in self._computed:
            number = values.as_number(value(), at)
            self.equations.append(Vanishing(at, values.graph.sub(values.symbol(variable), number), ""))
        flows = [variable for variable in self.variables if variable.flow and not variable.variability]
        self.equations += [*connected(values, links, flows)]
        for each in self.equations if values.moments else ():
            if not values.moments.isdisjoint(values.graph.below([each.expression])):
                what = "sample(...) stands in conditions of when-equations"
                self.fail(each.at, f"{what}; let that change a variable")
        self.equations += [*self._inputs()]
        kept, at_start = {*values.kept}, Asserted()
        by_initial = values.apart(
            lambda: [start for item in initial for start in starts(values, *item)], into=at_start
        )
        self.initial = [item for item in by_initial if isinstance(item, Vanishing)]
        self.reactions += [item for item in by_initial if isinstance(item, Reaction)]
        self.starts = [item for item in by_initial if not isinstance(item, Vanishing | Reaction)]
        self.initial += [*self._calculated_starts()]
        self._require_known(kept)
        constant = {values.graph.variable(name, 1) for name in values.discrete}
        others = [item.expression for item in self.equations if whens and item.expression not in constant]
        names = {str(leaf.index) for leaf in values.graph.leaves_of(*others) if leaf.order}
        for name in sorted(names & values.discrete - {v.name for v in self.variables if _is_open(v)}):
            self.fail(whens[0][0].at, f"{name} has a derivative and is given a value by when; write reinit")
        states = {each: values.before_event(each) for each in map(values.graph.variable, names)}
        values.at_event = True
        for when in whens:
            self.reactions += [*reactions_of(values, states, *when)]
        self.reactions += [item for held in self._held for item in held_by(values, states, held)]
        for outcome in self._outcomes:
            outcome()
        for item, scope in written:
            if isinstance(item, syntax.Assert):
                values.require(item.at, *said(values, item, scope))
        for (at, holds), about in values.asserted.items():
            if (holds := _between_events(values, holds)) not in TRUTHS:
                self.reactions.append(Reaction(at, values.graph.opposite(holds), {}, about))
        for (at, holds), about in at_start.items():
            only = {"implicit": True, "only": values.graph.opposite(_between_events(values, holds))}
            self.reactions.append(Reaction(at, INITIAL, {}, {**about, **only}))

    def _require_known(self, kept: Container[str]) -> None:
        """Refuse Integer variables in no equation, and values before events of what has none."""
        leaves = self.values.graph.leaves_of(*(item.expression for item in self.equations))
        there, moving = ({str(leaf.index) for leaf in leaves if leaf.order >= order} for order in (0, 1))
        for variable in self.variables:
            if variable.type == "Integer" and not variable.variability and variable.name not in there:
                what = f"{variable.shown} is a variable of type Integer"
                self.fail(variable.at, f"{what} that nothing gives a value; write an equation for it")
        for name, at in self.values.kept.items():  # At the start a state has the value that it has before it.
            if name not in self.values.discrete and (name in kept or name not in moving):
                self.fail(at, NOT_DISCRETE)

    def _inputs(self) -> Iterator[Vanishing]:
        """The equations by which inputs that have no other are discrete and keep their starts."""
        values, unknowns = self.values, [each for each in self.variables if not each.variability]
        inputs = [each for each in unknowns if _is_open(each)]
        for variable in inputs if len(unknowns) - len(self.equations) == len(inputs) else ():
            what = f"nothing gives the input {variable.shown} a value; it keeps its start"
            tell(str(self.source.error(variable.at, what)))
            values.discrete.add(variable.name)
            yield Vanishing(variable.at, values.graph.variable(variable.name, 1), "", variable.shown)

    def _calculated_starts(self) -> Iterator[Vanishing]:
        """The equations of fixed starts that depend on calculated parameters; others are no guesses."""
        for variable in self.variables if self.values.calculated else ():
            start = variable.attributes.get("start")
            value = None if start is None or variable.variability else self.values.bound(start)
            if isinstance(value, int) and self.values.names_in(value) & self.values.calculated:
                del variable.attributes["start"]
                fixed = variable.attributes.pop("fixed", None)
                if fixed is not None and self.values.bound(fixed) == TRUE:
                    difference = self.values.graph.sub(self.values.graph.variable(variable.name), value)
                    yield Vanishing(variable.at, difference, "")

    def _undefined(self, equation: Single, scope: Scope) -> Iterator[tuple[Single, Scope]]:
        """What is left of an equation; Boolean and Integer variables that it gives a value keep that."""
        if isinstance(equation, syntax.Algorithm):
            # It is carried out when one of its variables is asked for.
            whole = cache(partial(section, self.values, equation.body, scope))
            self._outcomes.append(whole)
            for name in assigned_in(equation.body):
                member = self.values.required(syntax.Name(name.at, [(str(name), [])]), scope)
                leaves = [*leaves_of(member)]
                if any(isinstance(variable, Variable) and variable.variability for variable, _ in leaves):
                    self.fail(name.at, f"{name} cannot be assigned; assign variables")
                self._give(name.at, leaves, equation.body, partial(lambda word: whole()[word], str(name)))
            return
        if not isinstance(equation, Equal):
            yield equation, scope
            return
        left, right, lookup = equation.left, equation.right, self.values.lookup
        if isinstance(left, syntax.Results) and left.items and isinstance(right, Call):
            outcome = cache(partial(results, self.values, right, scope))
            for k, target in enumerate(left.items):
                if not isinstance(target, syntax.Every):
                    leaves = [*leaves_of(lookup(target, scope))]
                    self._give(target.at, leaves, right, partial(lambda k: outcome()[k], k))
            return
        if isinstance(left, syntax.Name) and isinstance(right, syntax.Name):
            signal = getattr(lookup(left, scope), "name", "")
            if signal in self.values.defined or signal in self.values.discrete:
                left, right = right, left  # A signal passes its value on.
        parts = [*leaves_of(lookup(left, scope))]
        variables = [each for each, _ in parts if isinstance(each, Variable) and not each.variability]
        again = any(each.type == "Integer" and each.name in self.values.defined for each in variables)
        if any(each.type != "Real" for each in variables) and not again:
            self._give(left.at, parts, right, cache(partial(self.values.value, right, scope)))
        else:
            yield equation, scope

    def _give(self, at: int, leaves: Iterable[Leaf], written: Any, outcome: Callable[[], Value]) -> None:

        def value(path: Sequence[tuple[Any, int]]) -> Value:
            whole = outcome()
            for step, size in path:
                fits = isinstance(whole, list) or (isinstance(whole, dict) and step in whole)
                if not fits or len(whole) != size:
                    self.fail(at, "variables get a value of another form; give each its own")
                whole = whole[step]
            return whole

        for variable, path in leaves:
            if not isinstance(variable, Variable):
                self.fail(at, "this cannot be assigned; assign variables")
            if variable.type == "Real" and not variable.variability:
                self._computed.append((at, variable, partial(value, path)))
            elif not variable.variability:
                self._define(variable, at, written, partial(value, path))

    def _define(self, variable: Variable, at: int, written: Any, value: Callable[[], Value]) -> None:
        if variable.name in self.values.defined or variable.name in self.values.discrete:
            self.fail(at, f"{variable.shown} has two values; remove one")
        calls = (part for part in syntax.parts_of(written) if isinstance(part, Call))
        if any(str(call.function) in ("pre", "edge", "change") for call in calls):
            self.values.discrete.add(variable.name)
            self._held.append((variable, at, value))
        else:
            self.values.defined[variable.name] = value

    def _unrolled(self, section: Iterable[tuple[list[Equation], Scope]]) -> list[tuple[Single, Scope]]:
        single: list[tuple[Single, Scope]] = []
        for item in (item for part in section for item in unrolled(self.values, *part)):
            single.append(item)
            self._require_few(len(single), item[0].at)
        return single

    def _require_few(self, count: int, at: int, most: int = 0, what: str = "equations") -> None:
        if count > (most := most or MOST_ELEMENTS + 2 * len(self.variables)):
            self.fail(at, f"there are more than {most} {what}")

    def _of_declarations(self) -> Iterator[Vanishing]:
        """The equations of discrete unknowns, which events alone change, then those of declared values."""
        values, unknowns = self.values, [item for item in self.variables if not item.variability]
        for variable in unknowns:
            if variable.name in values.discrete or variable.name in values.calculated:
                yield Vanishing(variable.at, values.graph.variable(variable.name, 1), "", variable.shown)
            elif variable.name in values.defined:
                value = values.truth(values.symbol(variable), variable.at)
                value = values.graph.replaced(value, dict.fromkeys(values.moments, values.graph.zero))
                difference = values.graph.sub(values.graph.variable(variable.name), value)
                yield Vanishing(variable.at, difference, "", variable.shown)
            elif variable.type == "Boolean" and not _is_open(variable):
                what = f"{variable.shown} is a variable of type {variable.type}"
                self.fail(variable.at, f"{what} that nothing gives a value; write an equation for it")
        for variable in unknowns:
            if variable.value is not None and variable.type == "Real":
                at = variable.value.expression.at
                value = values.as_number(values.bound(variable.value), at)
                yield Vanishing(at, values.graph.sub(values.symbol(variable), value), "")

    def _fill(
        self, instance: Instance, classes: list[ClassDefinition], change: Change, more: Change | None = None
    ) -> None:
        """Enter what the last of nested classes declares into a component; ``more`` changes a base alone."""
        *around, definition = classes
        if definition in around:
            path = " in ".join(item.name for item in classes[around.index(definition) :][::-1])
            self.fail(definition.at, f"the class {definition.name} contains itself: {path}")
        if len(around) >= DEEPEST_COMPONENT:
            self.fail(definition.at, f"classes are nested more than {DEEPEST_COMPONENT} deep")
        if definition.kind == "function":
            self.fail(definition.at, f"function {definition.name} is used like a model")
        scope, names = Scope(instance, definition), dict[str, int]()
        for element in sorted(definition.elements, key=_rank):
            declared = Change.of(element.modification, element.at, scope)
            if not element.name:
                kind, own = self._resolved(element, declared, definition)
                if isinstance(kind.base, str) or kind.element.sizes:
                    self.fail(element.at, f"{element.type} cannot be extended by a model; extend a model")
                self._fill(instance, [*classes, kind.base], own.replaced(change, self.source), own)
                continue
            word = element.name
            if word in instance.members:
                where = "" if word in names else ", here and in a class that is extended"
                at = max(element.at, names.get(word, 0))
                self.fail(at, f"{word} is declared twice{where}; rename or remove one")
            names[word] = element.at
            if element.flow and definition.kind not in ("connector", "record"):
                self.fail(element.at, f"{word} is a flow, but {definition.name} is no connector")
            declared.final = declared.final or (element.final and declared.bound is not None)
            full = declared.replaced(change.parts.get(word), self.source)
            kind, full = self._resolved(element, full, definition, instance.variability)
            shown = f"{instance.shown}.{word}" if instance.shown else word
            kind.counts = self._counts(kind, full, scope)
            instance.members[word] = self._member(shown, kind, full, classes)
            instance.dotted = instance.dotted or "." in word or "[" in word
        self._written.append((definition.equations, scope))
        for statements in definition.algorithms:
            whens = [item for item in statements if isinstance(item, syntax.When)]
            others = [item for item in statements if item not in whens]
            self._written.append(([*whens, syntax.Algorithm(definition.at, others)], scope))
        self._initial.append((definition.initial, scope))
        for word, part in (more or change).parts.items():
            if word not in instance.members:
                hint = similar(word, instance.members)
                self.fail(part.at, f"{definition.kind} {definition.name} has no {word}{hint}")

    def _resolved(
        self, element: syntax.Component, change: Change, definition: ClassDefinition, variability: str = ""
    ) -> tuple[_Kind, Change]:
        """The class of a component after resolving ``type A = B``, and its modifications with those of A."""
        seen = set[ClassDefinition]()
        base = self.library.require(element.type, definition)
        element = replace(element, variability=element.variability or variability)
        kind = _Kind(element, base)
        while not isinstance(base, str):
            kind.connector = kind.connector or base.kind == "connector"
            if base.kind in ("package", "function"):
                self.fail(element.at, f"{base.kind} {base.name} cannot be a component")
            if base.short is None:
                if base.kind == "type":
                    self.fail(element.at, f"type {base.name} has no right-hand side")
                if base.kind == "block" and self.library.root not in base.outward():
                    kind.base = syntax.moved(base, element.at)  # for messages
                return kind, change
            if base in seen:
                self.fail(base.at, f"the class {base.name} is defined by itself")
            seen.add(base)
            short, definition = base.short, base.parent or self.library.root
            inner = Change.of(short.modification, short.at, Scope(None, definition), True)
            change = inner.replaced(change, self.source)
            element.causality, element.flow = element.causality or short.causality, element.flow or short.flow
            element.sizes = [*element.sizes, *short.sizes]
            base = kind.base = self.library.require(short.type, definition)
        return kind, change

    def _counts(self, kind: _Kind, change: Change, scope: Scope) -> list[int]:
        """The sizes of an array; the size for a colon is that of the value."""
        counts, name = list[int](), kind.element.name
        for dimension, size in enumerate(kind.element.sizes):
            if isinstance(size, syntax.Every):
                if change.bound is None:
                    self.fail(size.at, f"the size of {name} is open; write a number")
                given = arithmetic.sizes(self.values.bound(change.bound))
                if dimension >= len(given):
                    self.fail(size.at, f"the value of {name} has fewer sizes")
                count = given[dimension]
            else:
                value = self.values.value(size, scope)  # a list of an enumeration
                is_list = isinstance(value, list)
                count = len(value) if is_list else self.values.whole(value, size.at, f"the size of {name}")
            if not 0 <= count <= MOST_ELEMENTS:
                self.fail(size.at, f"the size {count} of {name} is not from 0 to {MOST_ELEMENTS}")
            counts.append(count)
        return counts

    def _member(
        self, shown: str, kind: _Kind, change: Change, outer: list[ClassDefinition], index: Sequence[int] = ()
    ) -> Member:
        """A component, or an array of components; ``index`` has the subscripts of one in an array."""
        base, counts = kind.base, kind.counts[len(index) :]
        limit = kind.element.at, MOST_VARIABLES, "variables and components"
        self._require_few(self._count + math.prod(counts), *limit)
        if counts:
            members, size, before = list[Member](), counts[0], self._count
            for k in range(size):
                members.append(self._member(shown, kind, change.element(k, size), outer, (*index, k + 1)))
                if k == 0:  # the others have as many parts
                    self._require_few(self._count + (size - 1) * (self._count - before), *limit)
            return members
        if index:
            shown = f"{shown}[{','.join(map(str, index))}]"
        self._count += 1
        if isinstance(base, str):
            return self._variable(shown, kind, base, change)
        if change.bound is not None and base.kind != "record":
            self.fail(change.at, f"{shown} is a component; give values to its variables")
        if (bound := change.bound) is not None:  # every field of a record gets its part of the value
            parts, at = dict(change.parts), bound.expression.at
            for word in (component.name for component in self.library.components(base)):
                field = Bound(syntax.Selected(at, bound.expression, [(word, [])]), bound.scope, bound.index)
                parts[word] = replace(parts.get(word, Change(at)), bound=field, each=False)
            change = replace(change, bound=None, parts=parts)
        instance = Instance(shown, base, connector=kind.connector, variability=kind.element.variability)
        self._fill(instance, [*outer, base], change)
        return instance

    def _variable(self, shown: str, kind: _Kind, base: str, change: Change) -> Variable:
        element, at = kind.element, kind.element.at
        if base == "enumeration" and not element.variability:
            self.fail(at, f"{shown} is a variable of type enumeration; only parameters may be, write Integer")
        attributes = {}
        for word, part in change.parts.items():
            if word not in ATTRIBUTES:
                hint = similar(word, ATTRIBUTES) or f"; known are {', '.join(_READ)}"
                self.fail(part.at, f"{shown} has no attribute {word}{hint}")
            if part.parts or part.bound is None:
                self.fail(part.at, f"the attribute {word} of {shown} needs a value, {word}=...")
            if word in _READ:
                attributes[word] = part.bound
        name = model_name(shown)
        if not name:
            self.fail(at, "an empty name; give the variable a name")
        other = self.values.variables.get(name)
        if other is not None:
            line = self.source.line(other.at)
            self.fail(at, f"{shown} and {other.shown} of line {line} are both {name} in a model; rename one")
        variable = Variable(name, shown, at, base, element.variability, element.causality, element.flow)
        variable.attributes, variable.value = attributes, change.bound
        fixed = attributes.get("fixed")
        if element.variability == "parameter" and fixed is not None and self.values.bound(fixed) == FALSE:
            variable.variability = ""
            if variable.value is not None:
                attributes["start"], variable.value = variable.value, None
            self.values.calculated.add(name)
        # Enumerations, such as StateSelect, are solver settings that occur in no equation; neither do texts.
        if base not in ("enumeration", "String"):
            self.variables.append(variable)
        self.values.variables[name] = variable
        return variable


def _rank(element: syntax.Component) -> int:
    """Rank by which an element is entered: first the elements on which sizes of others may depend."""
    if not element.name:
        return 1
    if not element.variability:
        return 3
    return 2 if element.sizes or str(element.type) not in ("Integer", "Boolean") else 0


def model_name(shown: str) -> str:
    """The name in the model: without quotes and (t), and with "_" for invalid characters or behind t."""
    if "'" in shown:
        shown = re.sub(r"\\(.)", r"\1", shown.replace("'", ""))
        shown = re.sub(r"\((?:t|time)\)", "", shown)
    return "t_" if shown == "t" else re.sub(r"[\s,;()]", "_", shown.strip())  # t is time in a model
