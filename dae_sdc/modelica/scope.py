"""Members of flat models, scalars and components with parts, and the scopes of names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from dae_sdc.modelica import syntax


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
