"""Flattening: the variables and equations of a class and of all its components."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from dae_sdc.modelica.arithmetic import MOST_ELEMENTS, Value, minus, plus
from dae_sdc.modelica.equations import Connections, Table, Vanishing, read_table, starts, vanishing
from dae_sdc.modelica.library import Basic, Change, Instance, Library, Member, Scope, Variable
from dae_sdc.modelica.syntax import ClassDefinition, Component, Equation, Every, Expression, Extends, Name
from dae_sdc.modelica.text import similar
from dae_sdc.modelica.values import Values

DEEPEST_COMPONENT: Final = 50  # Largest depth of components in components.

_READ: Final = ("start", "fixed", "min", "max", "unit")
_SKIPPED: Final = ("nominal", "displayUnit", "quantity", "stateSelect", "unbounded")
_NO_COMPONENTS: Final = ("package", "function")


@dataclass(slots=True)
class _Kind:
    """Class and attributes of a component without its modifications."""

    element: Component
    base: ClassDefinition | Basic
    variability: str = ""
    causality: str = ""
    flow: bool = False
    connector: bool = False
    sizes: list[Expression] = field(default_factory=list)


class Flat:
    """A flat model: what a class and, recursively, its components declare, without components."""

    def __init__(self, definition: ClassDefinition, library: Library, values: Values) -> None:
        self.library = library
        self.values = values
        self.source = library.source
        self.variables: list[Variable] = []  # Unknowns, parameters and constants.
        self._written: list[tuple[Equation, Scope]] = []
        self._initial: list[tuple[Equation, Scope]] = []
        self._flows: list[Variable] = []
        self._tables: list[Table] = []
        self._count = 0
        name = Name(definition.at, [(definition.name, [])])
        whole = Component(definition.at, definition.name, name, [], None)
        kind, change = self._resolved(whole, Change(definition.at), definition.parent or library.root)
        if isinstance(kind.base, Basic):
            self.source.fail(definition.at, f"{definition.name} is a number and no model")
        self._fill(Instance("", kind.base), kind.base, change, "", [])
        for variable in self.variables:
            if variable.variability:
                values.symbol(variable)
        self.equations = self._vanishing()  # Expressions that are zero.
        # Start values by the initial equations: place in the text, unknown or derivative, value.
        self.starts = [start for item, scope in self._initial for start in starts(values, item, scope)]

    # Classes

    def _fill(
        self,
        instance: Instance,
        definition: ClassDefinition,
        change: Change,
        variability: str,
        around: list[ClassDefinition],
        extended: Change | None = None,
    ) -> None:
        """Enter the declarations of a class into a component; ``extended`` changes it as a base alone."""
        if definition in around:
            circle = [definition, *around[around.index(definition) :][::-1]]
            path = " in ".join(item.name for item in circle)
            self.source.fail(definition.at, f"the class {definition.name} contains itself: {path}")
        if len(around) >= DEEPEST_COMPONENT:
            self.source.fail(definition.at, f"classes are nested more than {DEEPEST_COMPONENT} deep")
        if definition.algorithm is not None or definition.kind == "function":
            self.source.fail(definition.at, f"function {definition.name} is used like a model")
        names: set[str] = set()
        for element in definition.elements:
            if isinstance(element, Component):
                if element.name in names:
                    self.source.fail(element.at, f"{element.name} is declared twice; rename or remove one")
                names.add(element.name)
        around = [*around, definition]
        scope = Scope(instance, definition)
        for element in sorted(definition.elements, key=_rank):
            declared = Change.of(element.modification, element.at, scope)
            if isinstance(element, Extends):
                base = Component(element.at, str(element.base), element.base, [], None)
                kind, more = self._resolved(base, declared, definition)
                if isinstance(kind.base, Basic) or kind.sizes:
                    message = f"{element.base} cannot be extended by a model; extend a model"
                    self.source.fail(element.at, message)
                self._fill(instance, kind.base, more.replaced(change, self.source), variability, around, more)
                continue
            word = element.name
            if word in instance.members:
                self.source.fail(
                    element.at, f"{word} is declared twice, here and in a class that is extended; rename one"
                )
            if element.flow and definition.kind not in ("connector", "record"):
                self.source.fail(element.at, f"{word} is a flow, but {definition.name} is no connector")
            declared.final = declared.final or (element.final and declared.bound is not None)
            full = declared.replaced(change.parts.get(word), self.source)
            kind, full = self._resolved(element, full, definition, variability)
            shown = f"{instance.shown}.{word}" if instance.shown else word
            sizes = self._sizes([*element.sizes, *kind.sizes], element, full, scope)
            instance.members[word] = self._member(shown, kind, full, sizes, around)
            instance.dotted = instance.dotted or "." in word or "[" in word
        self._written += [(equation, scope) for equation in definition.equations]
        self._initial += [(equation, scope) for equation in definition.initial]
        for word, part in (extended or change).parts.items():
            if word not in instance.members:
                hint = similar(word, instance.members)
                self.source.fail(part.at, f"{definition.kind} {definition.name} has no {word}{hint}")

    # Components

    def _resolved(
        self, element: Component, change: Change, definition: ClassDefinition, variability: str = ""
    ) -> tuple[_Kind, Change]:
        """The class of a component after resolving ``type A = B``, and its modifications with those of A."""
        seen = set[ClassDefinition]()
        base = self.library.require(element.type, definition)
        kind = _Kind(element, base, element.variability or variability, element.causality, element.flow)
        while not isinstance(base, Basic):
            kind.connector = kind.connector or base.kind == "connector"
            if base.kind in _NO_COMPONENTS:
                self.source.fail(element.at, f"{base.kind} {base.name} cannot be a component")
            if base.short is None:
                if base.kind == "type":
                    self.source.fail(element.at, f"type {base.name} has no right-hand side")
                return kind, change
            if base in seen:
                self.source.fail(base.at, f"the class {base.name} is defined by itself")
            seen.add(base)
            short, definition = base.short, base.parent or self.library.root
            inner = Change.of(short.modification, short.at, Scope(None, definition), True)
            change = inner.replaced(change, self.source)
            kind.causality, kind.flow = kind.causality or short.causality, kind.flow or short.flow
            kind.sizes = [*kind.sizes, *short.sizes]
            base = kind.base = self.library.require(short.base, definition)
        kind.causality = kind.causality or base.causality
        kind.connector = kind.connector or bool(base.causality)
        return kind, change

    def _sizes(
        self, declared: list[Expression], element: Component, change: Change, scope: Scope
    ) -> list[int]:
        """The sizes of an array; the size for a colon is that of the value."""
        sizes: list[int] = []
        for dimension, size in enumerate(declared):
            if isinstance(size, Every):
                if change.bound is None:
                    self.source.fail(size.at, f"the size of {element.name} is open; write a number")
                part: Value = self.values.bound(change.bound)
                for _ in range(dimension):
                    part = part[0] if isinstance(part, list) and part else None
                if not isinstance(part, list):
                    self.source.fail(size.at, f"the value of {element.name} has fewer sizes")
                count = len(part)
            else:
                count = self.values.integer(size, scope, f"the size of {element.name}")
            if not 0 <= count <= MOST_ELEMENTS:
                self.source.fail(
                    size.at, f"the size {count} of {element.name} is not from 0 to {MOST_ELEMENTS}"
                )
            sizes.append(count)
        return sizes

    def _member(
        self,
        shown: str,
        kind: _Kind,
        change: Change,
        sizes: list[int],
        around: list[ClassDefinition],
        index: tuple[int, ...] = (),
    ) -> Member:
        """A component, or an array of components."""
        base = kind.base
        if sizes:
            size, *rest = sizes
            return [
                self._member(shown, kind, change.element(k, size), rest, around, (*index, k + 1))
                for k in range(size)
            ]
        if index:
            shown = f"{shown}[{','.join(map(str, index))}]"
        self._count += 1
        if self._count > MOST_ELEMENTS:
            self.source.fail(kind.element.at, f"there are more than {MOST_ELEMENTS} variables and components")
        if isinstance(base, Basic):
            if base.type in ("CombiTable1Ds", "CombiTable1D"):
                return self._table(shown, kind, base, change)
            return self._variable(shown, kind, base, change)
        if change.bound is not None:
            self.source.fail(change.at, f"{shown} is a component; give values to its variables")
        instance = Instance(shown, base, connector=kind.connector)
        self._fill(instance, base, change, kind.variability, around)
        return instance

    def _variable(self, shown: str, kind: _Kind, base: Basic, change: Change) -> Variable:
        source, at = self.source, kind.element.at
        if base.type == "String":
            source.fail(at, f"{shown} is a String, which is not understood; remove it")
        if base.type != "Real" and not kind.variability:
            source.fail(at, f"{shown} is a variable of type {base.type}; only parameters may be, write Real")
        attributes = {}
        for word, part in change.parts.items():
            if word not in (*_READ, *_SKIPPED):
                hint = similar(word, (*_READ, *_SKIPPED)) or f"; known are {', '.join(_READ)}"
                source.fail(part.at, f"{shown} has no attribute {word}{hint}")
            if part.parts or part.bound is None:
                source.fail(part.at, f"the attribute {word} of {shown} needs a value, {word}=...")
            if word in _READ:
                attributes[word] = part.bound
        name = model_name(shown)
        if not name:
            source.fail(at, "an empty name; give the variable a name")
        other = self.values.variables.get(name)
        if other is not None:
            line = source.line(other.at)
            source.fail(
                at, f"{shown} and {other.shown} of line {line} are both {name} in a model; rename one"
            )
        variable = Variable(name, shown, at, base.type, kind.variability, kind.causality, kind.flow)
        variable.attributes, variable.value, variable.unit = attributes, change.bound, base.unit
        # Enumerations, such as StateSelect, are solver settings that occur in no equation.
        if base.type != "enumeration":
            self.variables.append(variable)
        if kind.flow and not kind.variability:
            self._flows.append(variable)
        self.values.variables[name] = variable
        return variable

    def _table(self, shown: str, kind: _Kind, base: Basic, change: Change) -> Instance:
        """A table of the library with its variables."""
        at, part_of = kind.element.at, _Kind(kind.element, base)
        table = read_table(shown, at, change, self.values)

        def new(word: str) -> Variable:
            return self._variable(f"{shown}.{word}", part_of, Basic("Real"), Change(at))

        single, many = base.type == "CombiTable1Ds", range(1, len(table.columns) + 1)
        table.inputs = [new("u")] if single else [new(f"u[{k}]") for k in many]
        table.outputs = [new(f"y[{k}]") for k in many]
        self._tables.append(table)
        u: Member = table.inputs[0] if single else [*table.inputs]
        return Instance(shown, None, {"u": u, "y": [*table.outputs]})

    # Equations

    def _vanishing(self) -> list[Vanishing]:
        """The equations of all components: of declarations, sections, tables and connections."""
        equations: list[Vanishing] = []
        connections = Connections(self.values)
        for variable in self.variables:
            if variable.value is not None and not variable.variability:
                at = variable.value.expression.at
                value = self.values.as_number(self.values.bound(variable.value), at)
                equations.append(Vanishing(at, plus([self.values.symbol(variable), minus(value)]), ""))
        for item, scope in self._written:
            for equation in vanishing(self.values, item, scope, connections.connect):
                equations.append(equation)
                if len(equations) > MOST_ELEMENTS:
                    self.source.fail(item.at, f"there are more than {MOST_ELEMENTS} equations")
        for table in self._tables:
            equations += table.equations(self.values)
        return [*equations, *connections.equations(self._flows)]


def _rank(element: Component | Extends) -> int:
    """Rank by which an element is entered: first the elements on which sizes of others may depend."""
    if isinstance(element, Extends):
        return 1
    if not element.variability:
        return 3
    return 2 if element.sizes or str(element.type) not in ("Integer", "Boolean") else 0


def model_name(shown: str) -> str:
    """The name in the model: without quotes and (t), and with "_" for invalid characters."""
    if "'" in shown:
        shown = re.sub(r"\\(.)", r"\1", shown.replace("'", ""))
        shown = re.sub(r"\((?:t|time)\)", "", shown)
    return re.sub(r"[\s,;()]", "_", shown.strip())
