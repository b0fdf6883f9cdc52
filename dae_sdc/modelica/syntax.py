"""The parts of a Modelica text: what the parser makes and the reader turns into a model.

The classes of this module are used with the name of the module, ``syntax.Name``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True, eq=False)
class Part:
    """A part of a text, which begins at the character ``at``."""

    at: int


@dataclass(slots=True, eq=False)
class Number(Part):
    """A number, as it is written."""

    text: str


@dataclass(slots=True, eq=False)
class Text(Part):
    """A string."""

    value: str


@dataclass(slots=True, eq=False)
class Truth(Part):
    """``true`` or ``false``."""

    value: bool


@dataclass(slots=True, eq=False)
class Every(Part):
    """A colon in the place of a subscript or of a size."""


@dataclass(slots=True, eq=False)
class Name(Part):
    """A name with dots; behind every part its subscripts."""

    parts: list[tuple[str, list[Expression]]]

    def __str__(self) -> str:
        return ".".join(word for word, _ in self.parts)


@dataclass(slots=True, eq=False)
class Call(Part):
    """A function of something."""

    function: Name
    arguments: list[Expression]
    named: dict[str, Expression]


@dataclass(slots=True, eq=False)
class Sum(Part):
    """Terms, each with its sign."""

    terms: list[tuple[int, Expression]]


@dataclass(slots=True, eq=False)
class Product(Part):
    """Factors, each with ``*`` or ``/`` before it."""

    factors: list[tuple[str, Expression]]


@dataclass(slots=True, eq=False)
class Power(Part):
    """A base and an exponent."""

    base: Expression
    exponent: Expression


@dataclass(slots=True, eq=False)
class Comparison(Part):
    """Two sides and what stands between them."""

    sign: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Logic(Part):
    """Conditions joined by ``and`` or by ``or``."""

    word: str
    parts: list[Expression]


@dataclass(slots=True, eq=False)
class Negation(Part):
    """``not`` a condition."""

    part: Expression


@dataclass(slots=True, eq=False)
class If(Part):
    """Conditions with values, and the value if none of them holds."""

    branches: list[tuple[Expression, Expression]]
    other: Expression


@dataclass(slots=True, eq=False)
class Range(Part):
    """``first : step : last``."""

    first: Expression
    step: Expression | None
    last: Expression


@dataclass(slots=True, eq=False)
class Array(Part):
    """``{a, b, ...}``, or with ``index`` the values of one expression for every value of an index."""

    items: list[Expression]
    indices: list[tuple[str, Expression]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Matrix(Part):
    """``[a, b; c, d]``."""

    rows: list[list[Expression]]


Expression: TypeAlias = (
    Number
    | Text
    | Truth
    | Every
    | Name
    | Call
    | Sum
    | Product
    | Power
    | Comparison
    | Logic
    | Negation
    | If
    | Range
    | Array
    | Matrix
)


@dataclass(slots=True, eq=False)
class Modification(Part):
    """What is said of a component behind its name: a value, and modifications of its parts."""

    value: Expression | None = None
    parts: dict[str, Modification] = field(default_factory=dict)
    final: bool = False
    each: bool = False


@dataclass(slots=True, eq=False)
class Component(Part):
    """A declared name."""

    name: str
    type: Name
    sizes: list[Expression]
    modification: Modification | None
    variability: str = ""
    causality: str = ""
    flow: bool = False
    final: bool = False


@dataclass(slots=True, eq=False)
class Extends(Part):
    """``extends`` in a class, or the right-hand side of ``type A = B``."""

    base: Name
    modification: Modification | None
    causality: str = ""
    flow: bool = False
    sizes: list[Expression] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Import(Part):
    """A class by another name; with an empty ``alias`` everything in it."""

    name: str
    alias: str


@dataclass(slots=True, eq=False)
class Equal(Part):
    """Two sides that are equal."""

    left: Expression
    right: Expression
    note: str = ""


@dataclass(slots=True, eq=False)
class IfEquation(Part):
    """Conditions with equations, and the equations if none of them holds."""

    branches: list[tuple[Expression, list[Equation]]]
    other: list[Equation] | None


@dataclass(slots=True, eq=False)
class For(Part):
    """Equations for every value of an index."""

    indices: list[tuple[str, Expression | None]]
    body: list[Equation]


@dataclass(slots=True, eq=False)
class Connect(Part):
    """Two connectors that are one."""

    left: Name
    right: Name


Equation: TypeAlias = Equal | IfEquation | For | Connect


@dataclass(slots=True, eq=False)
class Assignment(Part):
    """A statement of a function."""

    name: Name
    value: Expression


@dataclass(slots=True, eq=False)
class ClassDefinition(Part):
    """A class: what is declared in it, and its equations."""

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
        """The class, and those around it from the inside to the outside."""
        around: ClassDefinition | None = self
        while around is not None:
            yield around
            around = around.parent

    def path(self) -> str:
        """Name with those of the classes around it."""
        return ".".join([one.name for one in self.outward() if one.name][::-1])


def spelled(words: Sequence[tuple[str, list[Expression]]]) -> str:
    """A name as it is written, with those of its subscripts that are numbers."""
    parts = []
    for word, subscripts in words:
        numbers = [item.text for item in subscripts if isinstance(item, Number)]
        parts.append(f"{word}[{','.join(numbers)}]" if numbers else word)
    return ".".join(parts)
