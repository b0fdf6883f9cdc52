"""Syntax tree of a Modelica text, made by the parser and turned into a model by the reader.

The classes are used with the name of the module, as in ``syntax.Name``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias, dataclass_transform


@dataclass_transform(eq_default=False)
@dataclass(eq=False)
class Part:
    """Base of the nodes of the syntax tree; ``at`` is the index of their first character in the text."""

    at: int

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)


class Expression(Part):
    """Base of the nodes that have a value."""


class Number(Expression):
    """A number, as the text of its digits."""

    text: str


class Text(Expression):
    """A string."""

    value: str


class Truth(Expression):
    """``true`` or ``false``."""

    value: bool


class Every(Expression):
    """A colon as a subscript or size."""


class Name(Expression):
    """A name: parts between dots, each with its subscripts."""

    parts: list[tuple[str, list[Expression]]]

    def __str__(self) -> str:
        return ".".join(word for word, _ in self.parts)


class Call(Expression):
    """A function call with positional and named arguments."""

    function: Name
    arguments: list[Expression]
    named: dict[str, Expression]


class Precedence(IntEnum):
    """Precedence of an operator; higher binds more strongly."""

    NONE = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    SUM = 5
    PRODUCT = 6
    POWER = 7


class Operation(Expression):
    """Operands of operators of one precedence, each with the operator before it; the first may have none."""

    precedence: Precedence
    parts: list[tuple[str, Expression]]


class If(Expression):
    """An if-expression: conditions with values, and the value if none of them holds."""

    branches: list[tuple[Expression, Expression]]
    other: Expression


class Range(Expression):
    """``first : last``, or ``first : step : last``."""

    bounds: list[Expression]


class Array(Expression):
    """``{a, b, ...}``, or with ``indices`` the values of one expression for all values of indices."""

    items: list[Expression]
    indices: list[tuple[str, Expression]] = field(default_factory=list)


class Matrix(Expression):
    """``[a, b; c, d]``."""

    rows: list[list[Expression]]


class Modification(Part):
    """A modification of a component: a value, and modifications of its parts."""

    value: Expression | None = None
    parts: dict[str, Modification] = field(default_factory=dict)
    final: bool = False
    each: bool = False


class Component(Part):
    """The declaration of a component."""

    name: str
    type: Name
    sizes: list[Expression]
    modification: Modification | None
    variability: str = ""
    causality: str = ""
    flow: bool = False
    final: bool = False


class Extends(Part):
    """``extends`` in a class, or the right-hand side of ``type A = B``."""

    base: Name
    modification: Modification | None
    causality: str = ""
    flow: bool = False
    sizes: list[Expression] = field(default_factory=list)


class Import(Part):
    """An import of a class under another name, or with an empty ``alias`` of all its classes."""

    name: str
    alias: str


class Equal(Part):
    """An equation of two sides, with its description."""

    left: Expression
    right: Expression
    note: str = ""


class IfEquation(Part):
    """An if-equation: conditions with equations, and the equations if none of them holds."""

    branches: list[tuple[Expression, list[Equation]]]
    other: list[Equation] | None


class For(Part):
    """A loop: equations for all values of indices."""

    indices: list[tuple[str, Expression | None]]
    body: list[Equation]


class Connect(Part):
    """A connect-equation of two connectors."""

    left: Name
    right: Name


Equation: TypeAlias = Equal | IfEquation | For | Connect


class Assignment(Part):
    """An assignment in the algorithm of a function."""

    name: Name
    value: Expression


class ClassDefinition(Part):
    """A class: its declarations, equations and annotations."""

    kind: str
    name: str
    description: str = ""
    elements: list[Component | Extends] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    classes: dict[str, ClassDefinition] = field(default_factory=dict)
    equations: list[Equation] = field(default_factory=list)
    initial: list[Equation] = field(default_factory=list)
    statements: list[Assignment] = field(default_factory=list)
    algorithm: int | None = None
    partial: bool = False
    built_in: bool = False
    annotations: dict[str, Modification] = field(default_factory=dict)
    parent: ClassDefinition | None = None
    short: Extends | None = None

    def outward(self) -> Iterator[ClassDefinition]:
        """The class, and the classes around it from the inside to the outside."""
        around: ClassDefinition | None = self
        while around is not None:
            yield around
            around = around.parent

    def path(self) -> str:
        """The name of the class with those of the classes around it, separated by dots."""
        return ".".join([around.name for around in self.outward() if around.name][::-1])


def spelled(words: Sequence[tuple[str, list[Expression]]]) -> str:
    """A name as text, with its numerical subscripts."""
    parts = []
    for word, subscripts in words:
        numbers = [item.text for item in subscripts if isinstance(item, Number)]
        parts.append(f"{word}[{','.join(numbers)}]" if numbers else word)
    return ".".join(parts)
