"""Classes and scopes of a text: lookup of classes, constants and members by name, and modifications."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from dae_sdc.modelica import syntax
from dae_sdc.modelica.parser import MODELS, parse
from dae_sdc.modelica.syntax import ClassDefinition, Component, Modification, Name, Source, similar


class Bound(NamedTuple):
    """An expression with the scope of its names."""

    expression: syntax.Expression  # The expression.
    scope: Scope  # Scope of its names.
    index: tuple[tuple[int, int], ...] = ()  # type: ignore[assignment]  # the method of tuples is not needed


@dataclass(slots=True, eq=False)
class Variable:
    """A scalar of the flat model."""

    name: str  # Name in the model.
    shown: str  # Name in the text.
    at: int  # Place of its declaration in the text.
    type: str  # Real, Integer, Boolean or enumeration.
    variability: str  # "parameter", "constant" or "".
    causality: str  # "input", "output" or "".
    flow: bool  # Whether it is a flow, whose sum over connected connectors is zero.
    # The given ones of the attributes start, fixed, min, max and unit.
    attributes: dict[str, Bound] = field(default_factory=dict)
    value: Bound | None = None  # The expression that it equals by its declaration.


@dataclass(slots=True, eq=False)
class Instance:
    """A component that has parts."""

    shown: str  # Name in the text.
    definition: syntax.ClassDefinition  # Its class.
    members: dict[str, Member] = field(default_factory=dict)  # Its parts by name.
    dotted: bool = False  # Whether names of parts contain dots or subscripts, as in flat texts.
    connector: bool = False  # Whether it is a connector.
    variability: str = ""  # That of its parts which have none of their own.


Member: TypeAlias = "Variable | Instance | list[Member]"


@dataclass(slots=True, eq=False)
class Scope:
    """Scope of names: local values, then the parts of a component, then the classes around a class."""

    instance: Instance | None
    definition: syntax.ClassDefinition
    locals: dict[str, Any] = field(default_factory=dict)

    def inner(self, values: dict[str, Any]) -> Scope:
        """The scope with further local values."""
        return Scope(self.instance, self.definition, {**self.locals, **values})


def member(name: Name, instance: Instance) -> tuple[Member, syntax.NameParts] | None:
    """The part of a component with which a name begins, and the rest of the name, or None."""
    parts, members, dotted = name.parts, instance.members, instance.dotted
    for k in range(len(parts) if dotted else 1, 0, -1):
        *before, (word, subscripts) = parts[:k]
        if not all(isinstance(item, syntax.Number) for _, inner in before for item in inner):
            continue
        # In flat texts x[1] may be a name.
        plain = all(isinstance(item, syntax.Number) for item in subscripts)
        for inside in (subscripts, []) if plain else ([],):
            part = members.get(syntax.spelled([*before, (word, inside)]))
            if part is not None:
                return part, [("", [] if inside else subscripts), *parts[k:]]
    # An array of components is one of arrays there, with all its sizes behind, or declared by its elements.
    subscripts, text = [item for _, inner in parts for item in inner], str(name)
    if dotted and text in members:
        return members[text], [("", subscripts)]
    known = dotted and not parts[-1][1] and all(isinstance(item, syntax.Number) for item in subscripts)
    elements = _elements(members, f"{syntax.spelled(parts)}[") if known else []
    return (elements, []) if elements else None


MOST_SIZES: Final = 3  # Largest number of sizes of an array that is declared by its elements.


def _elements(members: dict[str, Member], begin: str) -> list[Member]:
    """The elements of an array that are declared as x[1], x[2], ... or as x[1,1], x[1,2], ..."""
    elements, ends = list[Member](), [f"{',1' * further}]" for further in range(MOST_SIZES)]
    while any(f"{begin}{len(elements) + 1}{end}" in members for end in ends):
        text = f"{begin}{len(elements) + 1}"
        elements.append(members.get(f"{text}]") or _elements(members, f"{text},"))
    return elements


def fields_of(members: dict[str, Member], begin: str) -> dict[str, Any]:
    """The fields of a record declared as x.a, x.b[1], x.b[2], x.c.d, ...; none of what is no record."""
    words = sorted(word.removeprefix(begin) for word in members if word.startswith(begin))
    wholes = {first: f"{begin}{first}" for first in (re.split(r"[.[]", word)[0] for word in words)}
    return {
        first: members.get(whole) or _elements(members, f"{whole}[") or fields_of(members, f"{whole}.")
        for first, whole in wholes.items()
    }


@dataclass(slots=True)
class Change:
    """A modification with its scope."""

    at: int  # Its place in the text.
    # The new value of the component, with its scope; None if the value is not modified.
    bound: Bound | None = None
    parts: dict[str, Change] = field(default_factory=dict)  # Modifications of attributes and parts.
    final: bool = False  # Whether no other modification may replace its value.
    each: bool = False  # Whether every element of an array gets the whole value.

    @staticmethod
    def of(written: Modification | None, at: int, scope: Scope, each: bool = False) -> Change:
        """The modification of a text; with ``each`` every element gets the whole value."""
        if written is None:
            return Change(at)
        each = each or written.each
        bound = None if written.value is None else Bound(written.value, scope)
        parts = {word: Change.of(part, part.at, scope, each) for word, part in written.parts.items()}
        return Change(written.at, bound, parts, written.final, each)

    def element(self, k: int, size: int) -> Change:
        """The modification of element k, from 0, of an array dimension."""
        bound = self.bound
        if bound is not None and not self.each:
            bound = bound._replace(index=(*bound.index, (k, size)))
        parts = {word: part.element(k, size) for word, part in self.parts.items()}
        return Change(self.at, bound, parts, self.final, self.each)

    def replaced(self, strong: Change | None, source: Source) -> Change:
        """Two modifications merged, with precedence of ``strong``."""
        if strong is None:
            return self
        if self.final and strong.bound is not None:
            source.fail(strong.at, "this is final and cannot be changed; remove the modification")
        parts = dict(self.parts)
        for word, part in strong.parts.items():
            parts[word] = self.parts[word].replaced(part, source) if word in self.parts else part
        valued = strong if strong.bound is not None else self
        return Change(strong.at, valued.bound, parts, strong.final or self.final, valued.each)


# Predefined types by their names; enumerations without a name are ignored.
BASIC: Final = {
    **{name: name for name in ("Real", "Integer", "Boolean", "String", "enumeration")},
    "StateSelect": "enumeration",
}

STANDARD: Final = Path(__file__).with_name("standard.mo").read_text(encoding="utf-8")
TABLE_BLOCKS: Final = Path(__file__).with_name("tables.mo").read_text(encoding="utf-8")
# Functions of tables of one number, of times, which may stand twice, and of two numbers.
TABLES: Final = tuple(f"Modelica_Blocks_Tables_value{end}" for end in ("", "OfTime", "2"))


@cache
def standard() -> ClassDefinition:
    """Functions of the language, and names of the Modelica Standard Library that are read without it."""
    functions = Path(__file__).with_name("functions.mo").read_text(encoding="utf-8")
    return parse(Source(STANDARD + TABLE_BLOCKS + functions, "standard.mo"))


MOST_BASES: Final = 100  # Largest number of classes that a class extends, directly and indirectly.


class Library:
    """The classes of a text, and the predefined ones."""

    def __init__(self, root: ClassDefinition, source: Source) -> None:
        self.root, self.source, self.fail = root, source, source.fail
        root.parent = standard()
        self._classes: dict[tuple[str, ClassDefinition], ClassDefinition | str | None] = {}
        self._bases: dict[ClassDefinition, list[ClassDefinition]] = {}

    def classes(self) -> dict[str, ClassDefinition]:
        """The classes of the text by their paths, each before those inside of it."""

        def within(item: ClassDefinition) -> Iterator[ClassDefinition]:
            yield item
            for inner in item.classes.values():
                yield from within(inner)

        return {item.path(): item for item in within(self.root)}

    def models(self) -> dict[str, bool]:
        """The models of the text by their paths, and whether each is partial, or inside of another one."""
        models = {path: item for path, item in self.classes().items() if item.kind in MODELS}
        around = {path: [*item.outward()][1] for path, item in models.items()}
        return {path: item.partial or around[path].kind != "package" for path, item in models.items()}

    def find(self, name: Name, definition: ClassDefinition) -> ClassDefinition | str | None:
        """The class that a name in another class refers to; None if there is none."""
        key = str(name), definition
        if key not in self._classes:
            words = [word for word, _ in name.parts]
            around = (self._inside(place, words) for place in definition.outward())
            known = BASIC.get(".".join(words))
            self._classes[key] = next((item for item in around if item is not None), known)
        return self._classes[key]

    def _inside(
        self, definition: ClassDefinition, words: list[str], inherited: bool = True
    ) -> ClassDefinition | None:
        """A class by its path in another one; names of classes in flat texts may contain dots."""
        for count in range(len(words), 0, -1):
            path = ".".join(words[:count])
            for base in self.with_bases(definition) if inherited else [definition]:
                if path in base.classes:
                    inner = base.classes[path]
                    return self._inside(inner, words[count:], inherited) if count < len(words) else inner
        return None

    def with_bases(self, definition: ClassDefinition) -> list[ClassDefinition]:
        """A class and all classes that it extends."""
        if definition in self._bases:
            return self._bases[definition]
        stack, seen, order = [definition], {definition}, list[ClassDefinition]()
        while stack:
            item = stack.pop()
            order.append(item)
            if len(seen) > MOST_BASES:
                self.fail(definition.at, f"{definition.name} extends more than {MOST_BASES} classes")
            for element in item.extended():
                words = [word for word, _ in element.type.parts]
                # Looked up without what is extended, to avoid endless recursion.
                around = (self._inside(place, words, False) for place in item.outward())
                base = next((each for each in around if each is not None and each is not item), None)
                if base is not None and base not in seen:
                    seen.add(base)
                    stack.append(base)
        self._bases[definition] = order
        return order

    def components(self, definition: ClassDefinition) -> list[Component]:
        """The components that a class and all classes that it extends declare."""
        return [part for base in self.with_bases(definition) for part in base.elements if part.name]

    def require(self, name: Name, definition: ClassDefinition) -> ClassDefinition | str:
        """The class that a name in another class refers to; raises InputError if there is none."""
        required, text = self.find(name, definition), str(name)
        if required is not None:
            return required
        *before, last = name.parts
        package = self.find(Name(name.at, before), definition) if before else None
        around = self.with_bases(package) if isinstance(package, ClassDefinition) else definition.outward()
        names = {*BASIC, *(word for place in around for word in place.classes)}
        hint = similar(last[0], names) or "; declare it in this file"
        self.fail(name.at, f"there is no class {text}{hint}")

    def constant(
        self, words: list[str], definition: ClassDefinition
    ) -> tuple[Component, ClassDefinition] | None:
        """A constant of a surrounding class, or of a package by its path, and its class; None without one."""
        path = Name(0, [(word, []) for word in words[:-1]])
        places = [self.find(path, definition)] if path.parts else definition.outward()
        classes = (place for place in places if isinstance(place, ClassDefinition))
        pairs = ((item, base) for each in classes for base in self.with_bases(each) for item in base.elements)
        of_name = ((item, base) for item, base in pairs if item.name == words[-1])
        return next((pair for pair in of_name if pair[0].variability == "constant"), None)
