"""Words of a Modelica text, and its syntax tree, made by the parser and turned into a model by the reader."""

# The classes of the tree are used with the name of the module, as in syntax.Name.

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, TypeVar, dataclass_transform

from dae_sdc.errors import InputError

KEYWORDS: Final = frozenset(
    "algorithm and annotation block break class connect connector constant constrainedby der discrete each "
    "else elseif elsewhen encapsulated end enumeration equation expandable extends external false final flow "
    "for function if import impure in initial inner input loop model not operator or outer output package "
    "parameter partial protected public pure record redeclare replaceable return stream then true type when "
    "while within".split()
)

MOST_COMPARED_NAMES: Final = 5000  # Largest number of names that are compared with an unknown one.
LONGEST_SHOWN_WORD: Final = 80  # Largest number of characters of a word in a message.

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/)
    |(?P<name>\$?[A-Za-z_]\w*(?:\$[A-Za-z_]\w*)*)
    |(?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<quoted>'[^'\\\n]*(?:\\.[^'\\\n]*)*')
    |(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")
    |(?P<sign>:=|==|<>|<=|>=|\.[-+*/^]|/(?!\*)|[-+*^=<>()\[\]{},;:.$])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)

# How parts of a text begin and end between which everything is allowed.
_UNENDING: Final = (("/*", "comment", "*/"), ('"', "string", '"'), ("'", "quoted name", "'"))


class Token(NamedTuple):
    """A word of a text: its kind, its characters, and the index of the first one."""

    kind: str
    text: str
    at: int


class Source:
    """A text with the name of its file, behind which texts of other files may stand."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = " ".join(file.split())
        self._files: list[tuple[int, str, list[int]]] = []
        self._end = 0
        self.add(text, self.file)

    def add(self, text: str, file: str) -> int:
        """The place in all texts at which one begins; it is added to them if it is not their first."""
        if self._files and text == self.text:
            return 0
        begin, self._end = self._end, self._end + len(text) + 1
        self._files.append((begin, file, [match.start() for match in re.finditer("\n", text)]))
        return begin

    def place(self, at: int) -> tuple[str, int]:
        """The file of a place in the texts, and its line there, from 1."""
        begin, file, ends = self._files[bisect_right(self._files, at, key=lambda item: item[0]) - 1]
        return file, bisect_right(ends, at - begin - 1) + 1

    def line(self, at: int) -> int:
        """The line, from 1, of a place in its text."""
        return self.place(at)[1]

    def error(self, at: int, message: str) -> InputError:
        """An error with the line of a place in the text."""
        words = re.sub(rf"(\S{{{LONGEST_SHOWN_WORD}}})\S+", r"\1...", message).split()
        file, line = self.place(at)
        return InputError(f"{file}:{line}: {' '.join(words)}")

    def placed(self, error: InputError, at: int) -> InputError:
        """An error with a line of the text, that of a place where it has none yet."""
        placed = any(str(error).startswith(f"{file}:") for _, file, _ in self._files)
        return error if placed else self.error(at, str(error))

    def fail(self, at: int, message: str) -> NoReturn:
        """Raise the error with the line of a place in the text."""
        raise self.error(at, message)


def similar(name: str, names: Iterable[str]) -> str:
    """A suggestion of the most similar known name, as the end of a message; empty without one."""
    close = difflib.get_close_matches(name[:LONGEST_SHOWN_WORD], [*names][:MOST_COMPARED_NAMES], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def tokens(source: Source) -> list[Token]:
    """The words of a text, followed by a word of kind "end"."""
    text, words, at = source.text, list[Token](), 0
    while (match := _TOKEN.match(text, at)) is not None:
        kind = match.lastgroup or ""
        if kind != "blank":
            words.append(Token("word" if match[0] in KEYWORDS else kind, match[0], at))
        at = match.end()
    if at < len(text):
        for beginning, what, end in _UNENDING:
            if text.startswith(beginning, at):
                source.fail(at, f"a {what} that begins here never ends; close it with {end}")
        what = text[at] if text[at].isprintable() else ascii(text[at])
        source.fail(at, f"the character {what} means nothing in Modelica; remove it or quote the name")
    return [*words, Token("end", "the end of the text", len(text))]


_Part = TypeVar("_Part")

MOST_PARTS: Final = 100  # Largest number of parts of a name, between dots.
DEEPEST_NESTING: Final = 100  # Largest depth of nested brackets, calls, choices and classes in a text.

# Words by which what is not understood begins, and calls that stand in when-equations alone.
_REFUSED: Final = (
    "inner outer redeclare replaceable constrainedby stream external enumeration operator expandable import"
).split()
REFUSED_CALLS: Final = ("terminate", "reinit")

CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "b": "\b", "a": "\a"}


class Words:
    """The words of a text with the position of a parser; ``lenient`` about what rumoca understands alone."""

    def __init__(self, source: Source, lenient: bool = False) -> None:
        self.source, self.lenient = source, lenient
        self.tokens = tokens(source)
        self.p = 0
        self.depth = 0

    @property
    def now(self) -> Token:
        """The next word."""
        return self.tokens[self.p]

    @property
    def behind(self) -> Token:
        """The word after the next one."""
        return self.tokens[min(self.p + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Take the next word and advance, but not beyond the end of the text."""
        token = self.now
        self.p += token.kind != "end"
        return token

    def takes(self, *texts: str) -> bool:
        """Take the next word if it is one of ``texts``; whether it was taken."""
        taken = self.tokens[self.p].text in texts and self.tokens[self.p].kind != "end"
        self.p += taken
        return taken

    def need(self, text: str, where: str) -> None:
        """Take a word that must come next; ``where`` is the end of the message if it does not."""
        if not self.takes(text):
            self.fail(f"{text} is missing {where}, before {shown(self.now)}")

    def close(self, bracket: str, at: int) -> None:
        """Take the closing bracket of the one at the place ``at``."""
        self.need(bracket, f"for the bracket of line {self.source.line(at)}")

    def word(self, what: str) -> str:
        """Take a name without dots; ``what`` describes it in a message."""
        token = self.now
        if token.kind not in ("name", "quoted"):
            self.refuse()
            more = "; quote the name, it is a keyword" if token.kind == "word" else ""
            self.fail(f"{what} is missing before {shown(token)}{more}")
        self.p += 1
        return token.text

    def listed(self, part: Callable[[], _Part], between: str = ",") -> list[_Part]:
        """Parts with commas, or another word, between them, each read by a function."""
        parts = [part()]
        while self.takes(between):
            parts.append(part())
        return parts

    def note(self) -> str:
        """Take the description string if there is one; otherwise empty."""
        texts = self.listed(self.string, "+") if self.now.kind == "text" else []
        return " ".join("".join(texts).split())

    def string(self) -> str:
        """Take a string, without its quotes and backslashes."""
        if self.now.kind != "text":
            self.fail(f"a string is missing behind +, before {shown(self.now)}")
        plain = self.take().text[1:-1]
        return re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), plain, flags=re.DOTALL)

    def skip_annotation(self) -> None:
        """Skip an annotation if there is one."""
        if not self.takes("annotation"):
            return
        begin, stack = self.now, [")"]
        self.need("(", "behind annotation")
        while stack:
            token = self.take()
            if token.kind == "end" or (token.text == ";" and stack[-1] != "]"):
                self.fail("the brackets of an annotation that begin here are never closed", begin.at)
            if token.text in CLOSING:
                stack.append(CLOSING[token.text])
            elif token.text in (")", "]", "}") and token.text != stack.pop():
                self.fail(f"{token.text} closes another bracket", token.at)

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise InputError with the line of a place of the text, that of the next word if not given."""
        self.source.fail(self.now.at if at is None else at, message)

    def deeper(self) -> None:
        """Increase :attr:`depth`, with an error if it is too large; the caller decreases it at the end."""
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            what = f"this is nested more than {DEEPEST_NESTING} deep"
            self.fail(f"{what}; write parts of it as variables of their own")

    def refuse(self) -> None:
        """Raise InputError if the next word begins an unsupported construct."""
        if self.now.text in _REFUSED and not self.lenient:
            self.fail(f"{self.now.text} is not understood; write the model without it")


def shown(token: Token) -> str:
    """The text of a word in messages."""
    text = token.text if len(token.text) <= 40 else f"{token.text[:36]} ..."
    return f"'{text}'" if token.kind == "sign" else text


@dataclass_transform(eq_default=False)
@dataclass(eq=False)
class Part:
    """Base of the nodes of the syntax tree; ``at`` is the index of their first character in the text."""

    at: int

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)


def parts_of(whole: Any) -> Iterator[Part]:
    """All nodes of a syntax tree, or of several."""
    stack = [whole]
    while stack:
        item = stack.pop()
        if isinstance(item, Part):
            yield item
            stack += [part for word, part in vars(item).items() if word != "parent"]
        elif isinstance(item, list | tuple | dict):
            stack += item.values() if isinstance(item, dict) else item


def moved(whole: Any, at: int) -> Any:
    """A part of the tree, or several, as if all of it but classes in it stood at one place."""

    def inner(part: Any) -> Any:
        return part if isinstance(part, ClassDefinition) else moved(part, at)

    if isinstance(whole, Part):
        return type(whole)(**{name: inner(part) for name, part in vars(whole).items()} | {"at": at})
    if isinstance(whole, list | tuple):
        return type(whole)(map(inner, whole))
    return {key: inner(part) for key, part in whole.items()} if isinstance(whole, dict) else whole


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


NameParts: TypeAlias = list[tuple[str, list[Expression]]]  # Words between dots, each with its subscripts.


class Name(Expression):
    """A name."""

    parts: NameParts

    def __str__(self) -> str:
        return ".".join(word for word, _ in self.parts)


class Call(Expression):
    """A function call with positional and named arguments."""

    function: Name
    arguments: list[Expression]
    named: dict[str, Expression]


# Precedence of an operator; what comes later binds more strongly.
Precedence = IntEnum("Precedence", "NONE OR AND NOT COMPARISON SUM PRODUCT POWER", start=0)


class Operation(Expression):
    """Operands of operators of one precedence, each with the operator before it; the first may have none."""

    precedence: Precedence
    parts: list[tuple[str, Expression]]


class If(Expression):
    """A choice: conditions with values, equations or statements, and those if none of them holds."""

    branches: list[tuple[Expression, Any]]
    other: Any


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


class Selected(Expression):
    """Elements of an array, or fields of a record, that has no name; behind it the first word is empty."""

    base: Expression
    parts: NameParts


class Results(Expression):
    """Several results of a function, ``(a, b)``, of which some may be left out."""

    items: list[Expression]


class Modification(Part):
    """A modification of a component: a value, and modifications of its parts."""

    value: Expression | None = None
    parts: dict[str, Modification] = field(default_factory=dict)
    final: bool = False
    each: bool = False


class Component(Part):
    """The declaration of a component; without a name what is extended, or the right side of type A = B."""

    name: str
    type: Name
    sizes: list[Expression]
    modification: Modification | None
    variability: str = ""
    causality: str = ""
    flow: bool = False
    final: bool = False
    condition: Expression | None = None  # Under which alone it is there, as rumoca understands it.


class Equal(Part):
    """An equation of two sides with its description, an assignment to the left one, or ``reinit``."""

    left: Expression
    right: Expression
    note: str = ""
    reinit: bool = False


class For(Part):
    """A loop: equations for all values of indices."""

    indices: list[tuple[str, Expression]]
    body: list[Any]


class Connect(Part):
    """A connect-equation of two connectors."""

    left: Name
    right: Name


class When(Part):
    """A when-equation: conditions, and the equations by which variables change where each begins to hold."""

    branches: list[tuple[Expression, list[Any]]]
    in_algorithm: bool = False


class Assert(Part):
    """An assertion: a condition, what is told where it does not hold, and perhaps a level; or terminate."""

    call: Call


class Algorithm(Part):
    """An algorithm, which stands among the equations, initial or not."""

    body: list[Statement]


Equation: TypeAlias = Equal | If | For | Connect | When | Assert | Algorithm


class While(Part):
    """A loop as long as a condition holds."""

    test: Expression
    body: list[Statement]


class Leave(Part):
    """``break`` out of a loop, or ``return`` from a function."""

    word: str


# What algorithms have in common with equations has statements as its parts.
Statement: TypeAlias = Equal | If | For | While | Leave | When | Assert


class ClassDefinition(Part):
    """A class: its declarations, equations and annotations."""

    kind: str
    name: str
    description: str = ""
    elements: list[Component] = field(default_factory=list)
    classes: dict[str, ClassDefinition] = field(default_factory=dict)
    equations: list[Equation] = field(default_factory=list)
    initial: list[Equation] = field(default_factory=list)
    algorithms: list[list[Statement]] = field(default_factory=list)
    partial: bool = False
    built_in: bool = False
    external: bool = False
    annotations: dict[str, Modification] = field(default_factory=dict)
    parent: ClassDefinition | None = None
    short: Component | None = None

    def outward(self) -> Iterator[ClassDefinition]:
        """The class, and the classes around it from the inside to the outside."""
        around: ClassDefinition | None = self
        while around is not None:
            yield around
            around = around.parent

    def extended(self) -> list[Component]:
        """The classes that the class extends, or the one that it is but for its name."""
        return [part for part in (*self.elements, self.short) if part is not None and not part.name]

    def path(self) -> str:
        """The name of the class with those of the classes around it, separated by dots."""
        return ".".join([around.name for around in self.outward() if around.name][::-1])


def spelled(words: NameParts) -> str:
    """A name as text, with its numerical subscripts."""
    parts = []
    for word, subscripts in words:
        numbers = [item.text for item in subscripts if isinstance(item, Number)]
        parts.append(f"{word}[{','.join(numbers)}]" if numbers else word)
    return ".".join(parts)
