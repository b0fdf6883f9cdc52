"""Members of flat models, scalars and components with parts, the scopes of names, and modifications."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from dae_sdc.modelica import syntax
from dae_sdc.modelica.syntax import Modification
from dae_sdc.modelica.text import Source


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
    unit: str = ""  # Unit of its type.


@dataclass(slots=True, eq=False)
class Instance:
    """A component that has parts."""

    shown: str  # Name in the text.
    definition: syntax.ClassDefinition | None  # Its class; None for a table.
    members: dict[str, Member] = field(default_factory=dict)  # Its parts by name.
    dotted: bool = False  # Whether names of parts contain dots or subscripts, as in flat texts.
    connector: bool = False  # Whether it is a connector.


Member: TypeAlias = "Variable | Instance | list[Member]"


@dataclass(slots=True, eq=False)
class Scope:
    """Scope of names: local values, then the parts of a component, then the classes around a class."""

    instance: Instance | None
    definition: syntax.ClassDefinition
    locals: dict[str, Any] | None = None

    def inner(self, values: dict[str, Any]) -> Scope:
        """The scope with further local values."""
        return Scope(self.instance, self.definition, {**(self.locals or {}), **values})


def member(
    name: syntax.Name, instance: Instance
) -> tuple[Member, list[tuple[str, list[syntax.Expression]]]] | None:
    """The part of a component with which a name begins, and the rest of the name; None if there is none.

    The rest begins with the subscripts of the part that was found.
    """
    parts = name.parts
    if instance.dotted:
        for count in range(len(parts), 0, -1):
            subscripts = parts[count - 1][1]
            if subscripts and all(isinstance(item, syntax.Number) for item in subscripts):
                found = instance.members.get(syntax.spelled(parts[:count]))
                if found is not None:
                    return found, [("", []), *parts[count:]]
            word = syntax.spelled([*parts[: count - 1], (parts[count - 1][0], [])])
            found = instance.members.get(word)
            if found is not None:
                return found, [("", subscripts), *parts[count:]]
    found = instance.members.get(parts[0][0])
    if found is None:
        return None
    return found, [("", parts[0][1]), *parts[1:]]


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
    def of(given: Modification | None, at: int, scope: Scope, each: bool = False) -> Change:
        """The modification that a text gives, with its scope; an empty one at the place ``at`` for None.

        With ``each`` every element of an array gets the whole value, even without ``each`` in the text.
        """
        if given is None:
            return Change(at)
        each = each or given.each
        bound = None if given.value is None else Bound(given.value, scope)
        parts = {word: Change.of(part, part.at, scope, each) for word, part in given.parts.items()}
        return Change(given.at, bound, parts, given.final, each)

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
        own = strong if strong.bound is not None else self
        return Change(strong.at, own.bound, parts, strong.final or self.final, own.each)
