"""The parts of a Modelica text: what the parser makes and the reader turns into a model.

Every part knows where it begins in its text, ``at``, so that messages can say the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Array",
    "Assignment",
    "Call",
    "ClassDefinition",
    "Comparison",
    "Component",
    "Connect",
    "Equal",
    "Equation",
    "Every",
    "Expression",
    "Extends",
    "For",
    "If",
    "IfEquation",
    "Import",
    "Logic",
    "Matrix",
    "Modification",
    "Name",
    "Negation",
    "Number",
    "Power",
    "Product",
    "Range",
    "Sum",
    "Text",
    "Truth",
]


@dataclass(slots=True, eq=False)
class Number:
    """A number, as it is written."""

    at: int
    text: str


@dataclass(slots=True, eq=False)
class Text:
    """A string."""

    at: int
    value: str


@dataclass(slots=True, eq=False)
class Truth:
    """``true`` or ``false``."""

    at: int
    value: bool


@dataclass(slots=True, eq=False)
class Every:
    """A colon in the place of a subscript or of a size."""

    at: int


@dataclass(slots=True, eq=False)
class Name:
    """A name with dots; behind every part its subscripts."""

    at: int
    parts: list[tuple[str, list[Expression]]]

    def __str__(self) -> str:
        return ".".join(word for word, _ in self.parts)


@dataclass(slots=True, eq=False)
class Call:
    """A function of something."""

    at: int
    function: Name
    arguments: list[Expression]
    named: dict[str, Expression]


@dataclass(slots=True, eq=False)
class Sum:
    """Terms, each with its sign."""

    at: int
    terms: list[tuple[int, Expression]]


@dataclass(slots=True, eq=False)
class Product:
    """Factors, each with ``*`` or ``/`` before it."""

    at: int
    factors: list[tuple[str, Expression]]


@dataclass(slots=True, eq=False)
class Power:
    """A base and an exponent."""

    at: int
    base: Expression
    exponent: Expression


@dataclass(slots=True, eq=False)
class Comparison:
    """Two sides and what stands between them."""

    at: int
    sign: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Logic:
    """Conditions joined by ``and`` or by ``or``."""

    at: int
    word: str
    parts: list[Expression]


@dataclass(slots=True, eq=False)
class Negation:
    """``not`` a condition."""

    at: int
    part: Expression


@dataclass(slots=True, eq=False)
class If:
    """Conditions with values, and the value if none of them holds."""

    at: int
    branches: list[tuple[Expression, Expression]]
    other: Expression


@dataclass(slots=True, eq=False)
class Range:
    """``first : step : last``."""

    at: int
    first: Expression
    step: Expression | None
    last: Expression


@dataclass(slots=True, eq=False)
class Array:
    """``{a, b, ...}``, or with ``index`` the values of one expression for every value of an index."""

    at: int
    items: list[Expression]
    indices: list[tuple[str, Expression]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Matrix:
    """``[a, b; c, d]``."""

    at: int
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
class Modification:
    """What is said of a component behind its name: a value, and modifications of its parts."""

    at: int
    value: Expression | None = None
    parts: dict[str, Modification] = field(default_factory=dict)
    final: bool = False
    each: bool = False


@dataclass(slots=True, eq=False)
class Component:
    """A declared name."""

    at: int
    name: str
    type: Name
    sizes: list[Expression]
    modification: Modification | None
    variability: str = ""
    causality: str = ""
    flow: bool = False
    final: bool = False


@dataclass(slots=True, eq=False)
class Extends:
    """``extends`` in a class, or the right-hand side of ``type A = B``."""

    at: int
    base: Name
    modification: Modification | None
    causality: str = ""
    flow: bool = False
    sizes: list[Expression] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Import:
    """A class by another name; with an empty ``alias`` everything in it."""

    at: int
    name: str
    alias: str


@dataclass(slots=True, eq=False)
class Equal:
    """Two sides that are equal."""

    at: int
    left: Expression
    right: Expression
    note: str = ""


@dataclass(slots=True, eq=False)
class IfEquation:
    """Conditions with equations, and the equations if none of them holds."""

    at: int
    branches: list[tuple[Expression, list[Equation]]]
    other: list[Equation] | None


@dataclass(slots=True, eq=False)
class For:
    """Equations for every value of an index."""

    at: int
    indices: list[tuple[str, Expression | None]]
    body: list[Equation]


@dataclass(slots=True, eq=False)
class Connect:
    """Two connectors that are one."""

    at: int
    left: Name
    right: Name


Equation: TypeAlias = Equal | IfEquation | For | Connect


@dataclass(slots=True, eq=False)
class Assignment:
    """A statement of a function."""

    at: int
    name: Name
    value: Expression


@dataclass(slots=True, eq=False)
class ClassDefinition:
    """A class: what is declared in it, and its equations."""

    at: int
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

    def path(self) -> str:
        """Name with those of the classes around it."""
        above = self.parent.path() if self.parent is not None else ""
        return f"{above}.{self.name}" if above else self.name


def spelled(words: Sequence[tuple[str, list[Expression]]]) -> str:
    """A name as it is written, with those of its subscripts that are numbers."""
    parts = []
    for word, subscripts in words:
        numbers = [item.text for item in subscripts if isinstance(item, Number)]
        parts.append(f"{word}[{','.join(numbers)}]" if numbers else word)
    return ".".join(parts)
