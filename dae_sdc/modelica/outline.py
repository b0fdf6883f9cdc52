"""Outline of a text for rumoca: its models, and what rumoca would lose of it without a word."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dae_sdc.modelica import syntax
from dae_sdc.modelica.arithmetic import MOST_ELEMENTS
from dae_sdc.modelica.flat import ATTRIBUTES
from dae_sdc.modelica.library import BASIC
from dae_sdc.modelica.parser import CLASSES, MODELS, READ_ANNOTATIONS, ClassParser
from dae_sdc.modelica.syntax import CLOSING, Modification, Source, Token, similar

_NAMES: Final = ("name", "quoted")
# Words outside of brackets behind which an equation begins, and those with which declarations begin or end.
_BEGINNINGS: Final = (";", "equation", "algorithm", "loop")
_DECLARED: Final = dict.fromkeys(("public", "protected"), True) | dict.fromkeys(_BEGINNINGS[1:3], False)
# Words behind which no names of components, or of modified ones, stand up to the next semicolon or comma.
_VALUES: Final = ("=", ":=", "if", "constrainedby", "annotation", "import", "within", "end", "external")


@dataclass
class _Class:
    kind: str
    path: str
    begin: int
    end: int = 0
    members: dict[str, str] = field(default_factory=dict)  # What is declared, with its class.
    bases: list[str] = field(default_factory=list)
    # Each assertion in its if-equations, the place of its argument, and where the conditions around it are.
    asserted: list[tuple[Token, int, list[list[tuple[int, int]]]]] = field(default_factory=list)


@dataclass
class _Bracket:
    """What a bracket holds, or outside of all of them a declaration."""

    path: list[str] | None  # The class and the names inside of it that are modified; None for other brackets.
    in_value: bool = False
    names: set[str] = field(default_factory=set)


class Outline:
    """The models of a text, annotations, modifications and assertions, without parsing what is in them."""

    def __init__(self, source: Source) -> None:
        self.source, self.words = source, ClassParser(source)
        self.models: dict[str, bool] = {}  # Whether each is partial, or inside of another, by its path.
        self.conditions: set[str] = set()  # The names in conditions of components.
        self.annotations: dict[str, dict[str, Modification]] = {}
        self.classes: list[_Class] = []  # The inner ones first.
        self._open: list[_Class] = []
        self._changes: list[tuple[Token, list[str]]] = []  # What is modified.
        self._brackets, self._type, self._heirs = [_Bracket([])], "", list[_Class]()
        around, head, begins = list[list[tuple[int, int]]](), -1, True
        in_declarations = conditional = False
        for k, word in enumerate(self.words.tokens[:-1]):
            text, before, behind = word.text, self.words.tokens[k - 1], self.words.tokens[k + 1]
            if max(len(self._brackets), len(self._open)) > syntax.DEEPEST_NESTING:
                self.words.fail(f"this is nested more than {syntax.DEEPEST_NESTING} deep", word.at)
            # What is too large would end the process inside of rumoca.
            is_size = before.text == ":" or (before.text == "[" and self.words.tokens[k - 2].kind in _NAMES)
            if word.kind == "number" and is_size and float(text) > MOST_ELEMENTS:
                self.words.fail(f"a size of {text}; at most {MOST_ELEMENTS} are read", word.at)
            is_outside = len(self._brackets) == 1
            in_declarations = _DECLARED.get(text, in_declarations)
            ends = before.kind in (*_NAMES, "number") or before.text in CLOSING.values()
            conditional = (conditional and text not in ";,") or (text == "if" and ends and not begins)
            if conditional and word.kind == "name":
                self.conditions.add(text)
            if begins and text in ("if", "elseif", "when", "elsewhen"):
                head = word.at
                if text in ("if", "when"):
                    around.append([])
            elif text == "end" and behind.text in ("if", "when") and around:
                around.pop()
            is_head = bool(around) and text == "then" and is_outside and head >= 0
            # In brackets a function is an argument of another one.
            is_class = text in CLASSES and before.text not in ("end", "(", ",") and behind.kind in _NAMES
            if is_head:
                around[-1].append((head, word.at))
                head = -1
            elif text in ("assert", "terminate") and not in_declarations and around and self._open:
                self._open[-1].asserted.append((word, self.words.tokens[k + 2].at, [*around]))
            elif word.kind == "word" and is_class:
                self._begin(k, before.text == "partial")
                in_declarations = True
            elif text == "end" and self._open and f".{self._open[-1].path}".endswith(f".{behind.text}"):
                self.classes.append(self._open.pop())
                self.classes[-1].end, in_declarations = word.at, True
            elif text in READ_ANNOTATIONS and behind.text == "(" and before.text in ("(", ",") and self._open:
                self.words.p = k + 1
                read = self.annotations.setdefault(self._open[-1].path, {})
                read[text] = self.words.modifications() or Modification(word.at)
            self._declare(k, in_declarations)
            begins = is_head or (begins and text == "else") or (is_outside and text in _BEGINNINGS)

    def _begin(self, k: int, is_partial: bool) -> None:
        kind, name = self.words.tokens[k], self.words.tokens[k + 1].text
        path = f"{self._open[-1].path}.{name}" if self._open else name
        if kind.text in MODELS:
            self.models[path] = is_partial or any(each.kind != "package" for each in self._open)
        if self._open:
            self._open[-1].members[name] = path
        new = _Class(kind.text, path, kind.at)
        is_short = self.words.tokens[k + 2].text == "="
        (self.classes if is_short else self._open).append(new)
        self._brackets, self._type, self._heirs = [_Bracket([])], "", [new] if is_short else []

    def _declare(self, k: int, in_declarations: bool) -> None:
        words, bracket = self.words.tokens, self._brackets[-1]
        word, before, behind = words[k], words[k - 1], words[k + 1]
        is_outside, text = len(self._brackets) == 1, word.text
        # A dot may be the beginning, as of .Modelica.Units.SI.Angle.
        follows = before.text in CLASSES or (before.text == "." and words[k - 2].kind in _NAMES)
        is_name = word.kind in _NAMES and not (follows or bracket.in_value)
        if text in CLOSING:
            is_named = text == "(" and (before.kind in _NAMES or before.text == "]")
            changes = is_named and in_declarations and not bracket.in_value and bracket.path is not None
            path = [self._type] if is_outside else [*(bracket.path or ()), before.text]
            self._brackets.append(_Bracket(path if changes else None))
        elif text in CLOSING.values():
            del self._brackets[max(1, len(self._brackets) - 1) :]
        elif text == "," or (text == ";" and is_outside):
            bracket.in_value = False
            if text == ";":
                self._type, self._heirs = "", []
        elif text == "extends":
            self._heirs = self._open[-1:]
        elif text in _VALUES or (text in ("redeclare", "replaceable") and not is_outside):
            bracket.in_value = not (text == "=" and words[k - 2].text in CLASSES)
        elif text == "enumeration" and self._heirs:
            self._heirs[-1].bases.append("Integer")
        elif is_name and is_outside and in_declarations and self._type:
            if self._open:
                self._open[-1].members[text] = self._type
        elif is_name and is_outside and in_declarations:
            self.words.p = k
            self._type = syntax.spelled(self.words.parts())
            for each in self._heirs:
                if self._type in BASIC and each.kind in MODELS:
                    self.source.fail(word.at, f"{self._type} cannot be extended; extend a model")
                each.bases.append(self._type)
        elif is_name and not is_outside and bracket.path is not None and behind.text in (".", "=", "("):
            if behind.text == ".":
                self.source.fail(word.at, f"rumoca loses what {text}.NAME modifies; write {text}(NAME=...)")
            if text in bracket.names:
                self.source.fail(word.at, f"{text} gets two values; remove one")
            bracket.names.add(text)
            self._changes.append((word, bracket.path))

    def check(self) -> None:
        """Refuse modifications of what is not there, which rumoca passes over."""
        for word, (kind, *path) in self._changes:
            for name in (*path, word.text):
                members = self._members(kind, ())
                if members is not None and name not in members:
                    self.source.fail(word.at, f"{kind} has no {name}{similar(name, members)}")
                kind = members[name] if members is not None else ""

    def _members(self, kind: str, heirs: Sequence[str]) -> dict[str, str] | None:
        """What a class of the text declares, with all that it inherits; None where that is not known."""
        if kind in BASIC or (".SI." in f".{kind}" and ".Complex" not in kind):
            return dict.fromkeys(ATTRIBUTES, "")
        fitting = [each for each in self.classes if f".{each.path}".endswith(f".{kind}")]
        if len(fitting) != 1 or kind in heirs:
            return None
        every = [fitting[0].members, *(self._members(base, (*heirs, kind)) for base in fitting[0].bases)]
        known = [members for members in every if members is not None]
        return {name: each for members in known for name, each in members.items()} if known == every else None

    def lost(self, places: Sequence[int], decided: Sequence[int]) -> Iterator[Token]:
        """The assertions at none of the places that were read, but where decided choices leave them out."""
        for whole in self.classes:
            for word, last, around in whole.asserted if within(places, whole.begin, whole.end) else ():
                left_out = all(any(within(decided, *ends) for ends in parts) for parts in around)
                if not left_out and not within(places, word.at, last + 1):
                    yield word


def within(numbers: Sequence[int], begin: int, end: int) -> bool:
    """Whether one of some sorted numbers lies between two."""
    return bisect_left(numbers, begin) < bisect_left(numbers, end)
