"""From classes with components to variables and equations without any."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import sympy

from dae_sdc.expressions.symbols import TIME, Unknown
from dae_sdc.modelica.arithmetic import choice, minus, plus, symbols_in
from dae_sdc.modelica.arrays import MOST_ELEMENTS, Value, elements
from dae_sdc.modelica.scope import Basic, Bound, Instance, Library, Member, Scope, Variable
from dae_sdc.modelica.syntax import (
    ClassDefinition,
    Component,
    Connect,
    Equal,
    Equation,
    Every,
    Expression,
    Extends,
    For,
    IfEquation,
    Modification,
    Name,
)
from dae_sdc.modelica.text import similar
from dae_sdc.modelica.values import Values

__all__ = ["Flat", "Vanishing", "flatten", "model_name"]

_MOST_LEVELS: Final = 50
_READ: Final = ("start", "fixed", "min", "max", "unit")
_SKIPPED: Final = ("nominal", "displayUnit", "quantity", "stateSelect", "unbounded")
_TABLE: Final = ("table", "columns", "smoothness", "extrapolation", "tableOnFile", "verboseExtrapolation")
_NO_COMPONENTS: Final = ("package", "function")


@dataclass(slots=True)
class Change:
    """A modification with the place from which its names are looked up."""

    at: int
    bound: Bound | None = None
    parts: dict[str, Change] = field(default_factory=dict)
    final: bool = False
    each: bool = False

    def element(self, k: int, size: int) -> Change:
        """What it says of one element of an array."""
        bound = self.bound
        if bound is not None and not self.each:
            bound = bound._replace(index=(*bound.index, (k, size)))
        parts = {word: part.element(k, size) for word, part in self.parts.items()}
        return Change(self.at, bound, parts, self.final, self.each)


@dataclass(slots=True)
class Kind:
    """What a component is, but for its modifications."""

    element: Component
    base: ClassDefinition | Basic
    variability: str = ""
    causality: str = ""
    flow: bool = False
    connector: bool = False
    sizes: list[Expression] = field(default_factory=list)


class Vanishing(NamedTuple):
    """An expression that is zero, with its place in the text, and the component in which it is."""

    at: int
    expression: Any
    where: str
    note: str = ""


@dataclass(slots=True)
class Table:
    """A component that interpolates."""

    at: int
    shown: str
    inputs: list[Variable]
    outputs: list[Variable]
    rows: list[list[Any]]
    columns: list[int]
    hold: bool


@dataclass(slots=True)
class Flat:
    """A model without components.

    Parameters
    ----------
    variables : list of Variable
        Unknowns, parameters and constants.
    equations : list of Vanishing
        What is zero.
    starts : list of (int, sympy.Symbol, sympy.Expr)
        Values at the start that the initial equations say, with their places in the text.
    """

    variables: list[Variable]
    equations: list[Vanishing]
    starts: list[tuple[int, Any, Any]]


def flatten(definition: ClassDefinition, library: Library, values: Values) -> Flat:
    """The variables and equations of a class.

    Parameters
    ----------
    definition : ClassDefinition
        The class.
    library : Library
        The classes around it.
    values : Values
        What turns its expressions into SymPy's.

    Raises
    ------
    InputError
        If something in the class is not understood, or contradicts itself.
    """
    made = _Flattener(library, values)
    name = Name(definition.at, [(definition.name, [])])
    whole = Component(definition.at, definition.name, name, [], None)
    kind = Kind(whole, definition)
    change = made.kind(kind, Change(definition.at), definition.parent or library.root)
    if isinstance(kind.base, Basic):
        raise library.source.error(definition.at, f"{definition.name} is a number and no model")
    root = Instance("", kind.base)
    made.fill(root, kind.base, change, "", [])
    made.require_members(root, kind.base, change)
    for variable in made.variables:
        if variable.variability:
            values.symbol(variable)
    return Flat(made.variables, made.all_equations(), made.all_starts())


class _Flattener:
    def __init__(self, library: Library, values: Values) -> None:
        self.library = library
        self.values = values
        self.source = library.source
        self.root = library.root
        self.variables: list[Variable] = []
        self.flows: list[Variable] = []
        self.equations: list[tuple[Equation, Scope]] = []
        self.initial: list[tuple[Equation, Scope]] = []
        self.tables: list[Table] = []
        self.links: list[tuple[Connect, Variable, bool, Variable, bool]] = []
        self.count = 0

    # Modifications

    def change(self, given: Modification | None, at: int, scope: Scope, each: bool = False) -> Change:
        """A modification with its scope."""
        if given is None:
            return Change(at)
        each = each or given.each
        bound = None if given.value is None else Bound(given.value, scope)
        parts = {word: self.change(part, part.at, scope, each) for word, part in given.parts.items()}
        return Change(given.at, bound, parts, given.final, each)

    def merged(self, strong: Change | None, weak: Change) -> Change:
        """Two modifications, of which the first one wins."""
        if strong is None:
            return weak
        if weak.final and strong.bound is not None:
            raise self.source.error(strong.at, "this is final and cannot be changed; remove the modification")
        parts = dict(weak.parts)
        for word, part in strong.parts.items():
            parts[word] = self.merged(part, weak.parts[word]) if word in weak.parts else part
        own = strong if strong.bound is not None else weak
        return Change(strong.at, own.bound, parts, strong.final or weak.final, own.each)

    # Components

    def fill(
        self,
        instance: Instance,
        definition: ClassDefinition,
        change: Change,
        variability: str,
        around: list[ClassDefinition],
    ) -> None:
        """Enter what a class declares into a component."""
        if definition in around:
            path = " in ".join(one.name for one in [*around[around.index(definition) :], definition][::-1])
            raise self.source.error(definition.at, f"the class {definition.name} contains itself: {path}")
        if len(around) >= _MOST_LEVELS:
            raise self.source.error(definition.at, f"classes are nested more than {_MOST_LEVELS} deep")
        if definition.algorithm is not None or definition.kind == "function":
            raise self.source.error(definition.at, f"function {definition.name} is used like a model")
        self.require_different(definition)
        around = [*around, definition]
        scope = Scope(instance, definition)
        for element in sorted(definition.elements, key=_rank):
            if isinstance(element, Extends):
                self.extend(instance, element, change, variability, scope, around)
            else:
                self.component(instance, element, change, variability, scope, around)
        self.equations += [(equation, scope) for equation in definition.equations]
        self.initial += [(equation, scope) for equation in definition.initial]

    def require_different(self, definition: ClassDefinition) -> None:
        """Raise where a name is declared twice."""
        seen: set[str] = set()
        for element in definition.elements:
            if isinstance(element, Component):
                if element.name in seen:
                    raise self.source.error(
                        element.at, f"{element.name} is declared twice; rename or remove one"
                    )
                seen.add(element.name)

    def require_members(self, instance: Instance, definition: ClassDefinition, change: Change) -> None:
        """Raise where a component is changed that does not exist."""
        for word, part in change.parts.items():
            if word not in instance.members:
                hint = similar(word, instance.members)
                raise self.source.error(part.at, f"{definition.kind} {definition.name} has no {word}{hint}")

    def extend(
        self,
        instance: Instance,
        element: Extends,
        change: Change,
        variability: str,
        scope: Scope,
        around: list[ClassDefinition],
    ) -> None:
        own = self.change(element.modification, element.at, scope)
        kind = Kind(Component(element.at, str(element.base), element.base, [], None), self.root)
        own = self.kind(kind, own, scope.definition)
        base = kind.base
        if isinstance(base, Basic) or kind.sizes:
            raise self.source.error(
                element.at, f"{element.base} cannot be extended by a model; extend a model"
            )
        self.fill(instance, base, self.merged(change, own), variability, around)
        self.require_members(instance, base, own)

    def component(
        self,
        instance: Instance,
        element: Component,
        change: Change,
        variability: str,
        scope: Scope,
        around: list[ClassDefinition],
    ) -> None:
        word = element.name
        if word in instance.members:
            raise self.source.error(
                element.at, f"{word} is declared twice, here and in a class that is extended; rename one"
            )
        if element.flow and scope.definition.kind not in ("connector", "record"):
            raise self.source.error(
                element.at, f"{word} is a flow, but {scope.definition.name} is no connector"
            )
        own = self.change(element.modification, element.at, scope)
        own.final = own.final or (element.final and own.bound is not None)
        kind = Kind(element, self.root, element.variability or variability, element.causality, element.flow)
        full = self.kind(kind, self.merged(change.parts.get(word), own), scope.definition)
        shown = f"{instance.shown}.{word}" if instance.shown else word
        sizes = self.sizes([*element.sizes, *kind.sizes], element, full, scope)
        instance.members[word] = self.made(shown, kind, full, sizes, around)
        instance.dotted = instance.dotted or "." in word or "[" in word

    def kind(self, kind: Kind, change: Change, definition: ClassDefinition) -> Change:
        """Find the class of a component behind all its short names, and what these say of it."""
        element, seen = kind.element, set[ClassDefinition]()
        name = element.type
        while True:
            found = self.library.require(name, definition)
            kind.base = found
            if isinstance(found, Basic):
                kind.causality = kind.causality or found.causality
                kind.connector = kind.connector or bool(found.causality)
                return change
            kind.connector = kind.connector or found.kind == "connector"
            if found.kind in _NO_COMPONENTS:
                raise self.source.error(element.at, f"{found.kind} {found.name} cannot be a component")
            if found.short is None:
                if found.kind == "type":
                    raise self.source.error(element.at, f"type {found.name} has no right-hand side")
                return change
            if found in seen:
                raise self.source.error(found.at, f"the class {found.name} is defined by itself")
            seen.add(found)
            short, definition = found.short, found.parent or self.root
            inner = self.change(short.modification, short.at, Scope(None, definition), True)
            change = self.merged(change, inner)
            kind.causality, kind.flow = kind.causality or short.causality, kind.flow or short.flow
            kind.sizes = [*kind.sizes, *short.sizes]
            name = short.base

    def sizes(self, given: list[Expression], element: Component, change: Change, scope: Scope) -> list[int]:
        """The sizes of an array; a colon takes its size from the value."""
        found: list[int] = []
        for at, size in enumerate(given):
            if isinstance(size, Every):
                if change.bound is None:
                    raise self.source.error(size.at, f"the size of {element.name} is open; write a number")
                part: Value = self.values.bound(change.bound)
                for _ in range(at):
                    part = part[0] if isinstance(part, list) and part else None
                if not isinstance(part, list):
                    raise self.source.error(size.at, f"the value of {element.name} has fewer sizes")
                found.append(len(part))
            else:
                found.append(self.values.integer(size, scope, f"the size of {element.name}"))
            if not 0 <= found[-1] <= MOST_ELEMENTS:
                raise self.source.error(
                    size.at, f"the size {found[-1]} of {element.name} is not from 0 to {MOST_ELEMENTS}"
                )
        return found

    def made(
        self,
        shown: str,
        kind: Kind,
        change: Change,
        sizes: list[int],
        around: list[ClassDefinition],
        index: tuple[int, ...] = (),
    ) -> Member:
        """A component, or an array of them."""
        base = kind.base
        if sizes:
            size, *rest = sizes
            return [
                self.made(shown, kind, change.element(k, size), rest, around, (*index, k + 1))
                for k in range(size)
            ]
        if index:
            shown = f"{shown}[{','.join(map(str, index))}]"
        self.count += 1
        if self.count > MOST_ELEMENTS:
            raise self.source.error(
                kind.element.at, f"there are more than {MOST_ELEMENTS} variables and components"
            )
        if isinstance(base, Basic):
            if base.type in ("CombiTable1Ds", "CombiTable1D"):
                return self.table(shown, kind, base, change)
            return self.variable(shown, kind, base, change)
        if change.bound is not None:
            raise self.source.error(change.at, f"{shown} is a component; give values to its variables")
        instance = Instance(shown, base, connector=kind.connector)
        self.fill(instance, base, change, kind.variability, around)
        self.require_members(instance, base, change)
        return instance

    def variable(self, shown: str, kind: Kind, base: Basic, change: Change) -> Variable:
        source, at = self.source, kind.element.at
        if base.type == "String":
            raise source.error(at, f"{shown} is a String, which is not understood; remove it")
        if base.type != "Real" and not kind.variability:
            raise source.error(
                at, f"{shown} is a variable of type {base.type}; only parameters may be, write Real"
            )
        attributes = {}
        for word, part in change.parts.items():
            if word not in (*_READ, *_SKIPPED):
                hint = similar(word, (*_READ, *_SKIPPED)) or f"; known are {', '.join(_READ)}"
                raise source.error(part.at, f"{shown} has no attribute {word}{hint}")
            if part.parts or part.bound is None:
                raise source.error(part.at, f"the attribute {word} of {shown} needs a value, {word}=...")
            if word in _READ:
                attributes[word] = part.bound
        name = model_name(shown)
        if not name:
            raise source.error(at, "an empty name; give the variable a name")
        other = self.values.variables.get(name)
        if other is not None:
            line = source.line(other.at)
            raise source.error(
                at, f"{shown} and {other.shown} of line {line} are both {name} in a model; rename one"
            )
        made = Variable(name, shown, at, base.type, kind.variability, kind.causality, kind.flow)
        made.attributes, made.value, made.unit = attributes, change.bound, base.unit
        # Enumerations say how a tool solves.
        if base.type != "enumeration":
            self.variables.append(made)
        if kind.flow and not kind.variability:
            self.flows.append(made)
        self.values.variables[name] = made
        return made

    def table(self, shown: str, kind: Kind, base: Basic, change: Change) -> Instance:
        """A table of the Modelica library: straight lines through points."""
        source, at, values = self.source, kind.element.at, self.values
        given: dict[str, Bound] = {}
        for word, part in change.parts.items():
            if word not in _TABLE or part.bound is None:
                raise source.error(part.at, f"the table {shown} has no {word}{similar(word, _TABLE)}")
            given[word] = part.bound
        if "tableOnFile" in given and values.bound(given["tableOnFile"]) != sympy.false:
            raise source.error(at, f"the table {shown} is in a file; write its numbers, table=[...]")
        smoothness = _last_word(given.get("smoothness"), "LinearSegments")
        extrapolation = _last_word(given.get("extrapolation"), "LastTwoPoints")
        if smoothness != "LinearSegments" or extrapolation not in ("LastTwoPoints", "HoldLastPoint"):
            raise source.error(
                at, f"the table {shown} is {smoothness}, {extrapolation}; straight lines alone are understood"
            )
        if "table" not in given:
            raise source.error(at, f"the table {shown} has no numbers; write table=[x1, y1; x2, y2; ...]")
        rows = values.bound(given["table"])
        widths = {len(row) if isinstance(row, list) else 0 for row in rows} if isinstance(rows, list) else {0}
        width = min(widths, default=0)
        if len(widths) > 1 or width < 2:
            raise source.error(
                change.parts["table"].at,
                f"the table {shown} must have rows of x and y, [x1, y1; x2, y2; ...]",
            )
        columns = list(range(2, width + 1))
        if "columns" in given:
            listed = elements(values.bound(given["columns"]))
            numbers = [values.as_number(one, at) for one in listed]
            columns = [round(values.numeric(one, at, f"a column of {shown}")) for one in numbers]
            if not columns or not all(2 <= one <= width for one in columns):
                raise source.error(
                    change.parts["columns"].at, f"the columns of {shown} must be from 2 to {width}"
                )
        part_of = Kind(kind.element, base)

        def new(word: str) -> Variable:
            return self.variable(f"{shown}.{word}", part_of, Basic("Real"), Change(at))

        single, many = base.type == "CombiTable1Ds", range(1, len(columns) + 1)
        inputs = [new("u")] if single else [new(f"u[{k}]") for k in many]
        outputs = [new(f"y[{k}]") for k in many]
        self.tables.append(Table(at, shown, inputs, outputs, rows, columns, extrapolation == "HoldLastPoint"))
        made = Instance(shown, None)
        made.members["u"] = inputs[0] if single else list(inputs)
        made.members["y"] = list(outputs)
        return made

    # Equations

    def all_equations(self) -> list[Vanishing]:
        found: list[Vanishing] = []
        for variable in self.variables:
            if variable.value is not None and not variable.variability:
                at = variable.value.expression.at
                value = self.values.as_number(self.values.bound(variable.value), at)
                found.append(Vanishing(at, plus([self.values.symbol(variable), minus(value)]), "", ""))
        for equation, scope in self.equations:
            for one in self.expanded(equation, scope):
                found.append(one)
                if len(found) > MOST_ELEMENTS:
                    raise self.source.error(equation.at, f"there are more than {MOST_ELEMENTS} equations")
        for table in self.tables:
            found += self.of_table(table)
        return [*found, *self.connected()]

    def of_table(self, table: Table) -> Iterator[Vanishing]:
        for k, (column, output) in enumerate(zip(table.columns, table.outputs, strict=True)):
            points = [(row[0], row[column - 1]) for row in table.rows]
            x = self.values.symbol(table.inputs[k if len(table.inputs) > 1 else 0])
            value = self.values.interpolated(points, x, table.at, table.hold)
            yield Vanishing(table.at, plus([self.values.symbol(output), minus(value)]), table.shown)

    def expanded(self, equation: Equation, scope: Scope) -> Iterator[Vanishing]:
        """What vanishes by an equation."""
        where = scope.instance.shown if scope.instance is not None else ""
        if isinstance(equation, Equal):
            left = self.values.value(equation.left, scope)
            right = self.values.value(equation.right, scope)
            for one in self.difference(left, right, equation):
                yield Vanishing(equation.at, self.values.check(one, equation.at), where, equation.note)
        elif isinstance(equation, For):
            for inner in self.loop(equation, scope):
                for part in equation.body:
                    yield from self.expanded(part, inner)
        elif isinstance(equation, Connect):
            self.connect(equation, scope)
        else:
            yield from self.chosen(equation, scope, where)

    def loop(self, equation: For, scope: Scope) -> list[Scope]:
        scopes = [scope]
        for name, where in equation.indices:
            if where is None:
                raise self.source.error(
                    equation.at, f"the index {name} has no range; write for {name} in 1:n loop"
                )
            scopes = [one.inner({name: k}) for one in scopes for k in self.values.over(where, one)]
            if len(scopes) > MOST_ELEMENTS:
                raise self.source.error(equation.at, f"a loop of more than {MOST_ELEMENTS} turns")
        return scopes

    def difference(self, left: Value, right: Value, equation: Equal) -> Iterator[Any]:
        if isinstance(left, list) != isinstance(right, list):
            raise self.source.error(
                equation.at, "one side is an array, the other a number; both must have the same sizes"
            )
        if isinstance(left, list):
            if len(left) != len(right):
                raise self.source.error(
                    equation.at,
                    f"the sides have {len(left)} and {len(right)} elements; give them equal sizes",
                )
            for a, b in zip(left, right, strict=True):
                yield from self.difference(a, b, equation)
            return
        a = self.values.as_number(left, equation.left.at)
        b = self.values.as_number(right, equation.right.at)
        yield b if a == 0 else plus([a, minus(b)])

    def chosen(self, equation: IfEquation, scope: Scope, where: str) -> Iterator[Vanishing]:
        """The equations of an if-equation, of which each has the choice in it."""
        branches: list[tuple[Any, list[Equation]]] = []
        other = equation.other
        for test, body in equation.branches:
            condition = self.values.condition(test, scope)
            if condition == sympy.false:
                continue
            if condition == sympy.true:
                other = body
                break
            branches.append((condition, body))
        if not branches:
            for part in other or ():
                yield from self.expanded(part, scope)
            return
        if other is None:
            raise self.source.error(equation.at, "an if-equation without else; give equations for all cases")
        self.no_connections([*[body for _, body in branches], other])
        lists = [[one for part in body for one in self.expanded(part, scope)] for _, body in branches]
        rest = [one for part in other for one in self.expanded(part, scope)]
        if any(len(one) != len(rest) for one in lists):
            counts = ", ".join(str(len(one)) for one in [*lists, rest])
            raise self.source.error(equation.at, f"the branches of an if-equation have {counts} equations")
        for k, last in enumerate(rest):
            pairs = [(test, one[k].expression) for (test, _), one in zip(branches, lists, strict=True)]
            expression = self.values.check(choice(pairs, last.expression), equation.at)
            yield Vanishing(lists[0][k].at, expression, where)

    def no_connections(self, bodies: list[list[Equation]]) -> None:
        for body in bodies:
            for part in body:
                if isinstance(part, Connect):
                    raise self.source.error(part.at, "connect depends on an unknown here; move it out of if")

    # Connections

    def connect(self, equation: Connect, scope: Scope) -> None:
        left, right = self.end(equation.left, scope), self.end(equation.right, scope)
        self.link(
            equation, left, self.outside(equation.left, scope), right, self.outside(equation.right, scope)
        )

    def end(self, name: Name, scope: Scope) -> Any:
        found = self.values.lookup(name, scope)
        if found is None:
            raise self.values.unknown(name, scope)
        return found

    def outside(self, name: Name, scope: Scope) -> bool:
        """Whether a connector belongs to the class itself, and not to one of its components."""
        if scope.instance is None:
            return False
        first = scope.instance.members.get(name.parts[0][0])
        while isinstance(first, list):
            first = first[0] if first else None
        return isinstance(first, Variable) or (isinstance(first, Instance) and first.connector)

    def link(self, equation: Connect, left: Any, left_out: bool, right: Any, right_out: bool) -> None:
        self.values.spend(1, equation.at)
        if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            for one, other in zip(left, right, strict=True):
                self.link(equation, one, left_out, other, right_out)
            return
        if isinstance(left, Variable) and isinstance(right, Variable):
            if left.flow != right.flow:
                raise self.source.error(
                    equation.at,
                    f"{left.shown} and {right.shown} are connected, but only one of them is a flow",
                )
            if not left.variability:
                self.links.append((equation, left, left_out, right, right_out))
            return
        if not isinstance(left, Instance) or not isinstance(right, Instance):
            raise self.source.error(
                equation.at,
                f"{equation.left} and {equation.right} do not fit; connect two connectors of one class",
            )
        for one, name in ((left, equation.left), (right, equation.right)):
            if one.definition is not None and one.definition.kind in ("model", "block"):
                raise self.source.error(
                    equation.at, f"{name} is no connector; connect two connectors of one class"
                )
        if left.members.keys() != right.members.keys():
            raise self.source.error(
                equation.at,
                f"{equation.left} and {equation.right} have different variables; "
                "connect two connectors of one class",
            )
        for word in left.members:
            self.link(equation, left.members[word], left_out, right.members[word], right_out)

    def connected(self) -> Iterator[Vanishing]:
        """The equations of connections: what does not flow is equal, what flows sums up to zero."""
        up: dict[tuple[Variable, bool], tuple[Variable, bool]] = {}
        first: dict[tuple[Variable, bool], tuple[int, str]] = {}
        symbol = self.values.symbol

        def top(key: tuple[Variable, bool]) -> tuple[Variable, bool]:
            up.setdefault(key, key)
            while up[key] != key:
                up[key] = up[up[key]]
                key = up[key]
            return key

        for equation, left, left_out, right, right_out in self.links:
            one, other = top((left, left_out and left.flow)), top((right, right_out and right.flow))
            if left.flow:
                first.setdefault((left, left_out), (equation.at, ""))
                first.setdefault((right, right_out), (equation.at, ""))
            elif one != other:
                yield Vanishing(equation.at, plus([symbol(left), minus(symbol(right))]), "")
            up[other] = one
        for variable in self.flows:
            # What is not connected from outside does not flow.
            first.setdefault((variable, False), (variable.at, variable.shown.rpartition(".")[0]))
        sums: dict[tuple[Variable, bool], list[tuple[Variable, bool]]] = {}
        for key in first:
            sums.setdefault(top(key), []).append(key)
        for keys in sums.values():
            at, where = first[keys[0]]
            terms = [minus(symbol(variable)) if outside else symbol(variable) for variable, outside in keys]
            yield Vanishing(at, plus(terms), where)

    # Initial values

    def all_starts(self) -> list[tuple[int, Any, Any]]:
        found = []
        for equation, scope in self.initial:
            for part, inner in self.told(equation, scope):
                left, right = self.values.value(part.left, inner), self.values.value(part.right, inner)
                found += self.started(left, right, part)
        return found

    def told(self, equation: Equation, scope: Scope) -> Iterator[tuple[Equal, Scope]]:
        """The initial equations in loops and choices, with the values of their indices."""
        if isinstance(equation, Equal):
            yield equation, scope
        elif isinstance(equation, For):
            for inner in self.loop(equation, scope):
                for part in equation.body:
                    yield from self.told(part, inner)
        elif isinstance(equation, IfEquation):
            body = equation.other or []
            for test, chosen in equation.branches:
                condition = self.values.condition(test, scope)
                if condition not in (sympy.true, sympy.false):
                    raise self.source.error(
                        test.at,
                        "an initial equation depends on more than Boolean parameters; write its value",
                    )
                if condition == sympy.true:
                    body = chosen
                    break
            for part in body:
                yield from self.told(part, scope)
        else:
            raise self.source.error(equation.at, "an initial equation must be x = VALUE or der(x) = VALUE")

    def started(self, left: Value, right: Value, equation: Equal) -> list[tuple[int, Any, Any]]:
        if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pairs = zip(left, right, strict=True)
            return [one for a, b in pairs for one in self.started(a, b, equation)]
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Unknown) and not isinstance(other, list | str):
                value = self.values.check(self.values.as_number(other, equation.at), equation.at)
                if not _moving(value):
                    return [(equation.at, one, value)]
        moving = [leaf for side in (left, right) for part in elements(side) for leaf in _moving(part)]
        names = ", ".join(dict.fromkeys(str(leaf) for leaf in moving))
        raise self.source.error(
            equation.at,
            f"the initial equation of {names or 'no unknown'} is not understood; "
            "write x = VALUE or der(x) = VALUE",
        )


def _moving(value: Value) -> list[Any]:
    """Unknowns and time in an expression."""
    if isinstance(value, str):
        return []
    return [leaf for leaf in symbols_in(value) if isinstance(leaf, Unknown) or leaf == TIME]


def _rank(element: Component | Extends) -> int:
    """What sizes may depend on comes first."""
    if isinstance(element, Extends):
        return 1
    if not element.variability:
        return 3
    return 2 if element.sizes or str(element.type) not in ("Integer", "Boolean") else 0


def _last_word(bound: Bound | None, default: str) -> str:
    """The last part of the name of a constant of the library."""
    if bound is None:
        return default
    return bound.expression.parts[-1][0] if isinstance(bound.expression, Name) else "of a form of its own"


def model_name(shown: str) -> str:
    """A name of the text as a name of a model.

    Quotes and the argument of a function of time go, and what a name of a model cannot have becomes "_".
    """
    if "'" in shown:
        shown = re.sub(r"\\(.)", r"\1", shown.replace("'", ""))
        shown = re.sub(r"\((?:t|time)\)", "", shown)
    return re.sub(r"[\s,;()]", "_", shown.strip())
