"""Tokens of a Modelica text, and error messages with line numbers."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple, NoReturn

from dae_sdc.errors import InputError

KEYWORDS: Final = frozenset(
    "algorithm and annotation block break class connect connector constant constrainedby der discrete each "
    "else elseif elsewhen encapsulated end enumeration equation expandable extends external false final flow "
    "for function if import impure in initial inner input loop model not operator or outer output package "
    "parameter partial protected public pure record redeclare replaceable return stream then true type when "
    "while within".split()
)

MOST_COMPARED_NAMES: Final = 5000
"""Largest number of names that are compared with an unknown one for a suggestion."""

LONGEST_SHOWN_WORD: Final = 80
"""Largest number of characters of a word in a message."""

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<quoted>'[^'\\\n]*(?:\\.[^'\\\n]*)*')
    |(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")
    |(?P<sign>:=|==|<>|<=|>=|\.[-+*/^]|/(?!\*)|[-+*^=<>()\[\]{},;:.$])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Token(NamedTuple):
    """A word of a text: its kind, its characters, and the index of the first one."""

    kind: str
    text: str
    at: int


class Source:
    """A text with the name of its file."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = " ".join(file.split())
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        """The line, from 1, of a place in the text."""
        return bisect_right(self._ends, at - 1) + 1

    def error(self, at: int, message: str) -> InputError:
        """An error with the line of a place in the text."""
        words = [
            word if len(word) <= LONGEST_SHOWN_WORD else f"{word[:LONGEST_SHOWN_WORD]}..."
            for word in message.split()
        ]
        return InputError(f"{self.file}:{self.line(at)}: {' '.join(words)}")

    def fail(self, at: int, message: str) -> NoReturn:
        """Raise the error with the line of a place in the text."""
        raise self.error(at, message)


def similar(name: str, known: Iterable[str]) -> str:
    """A suggestion of the most similar known name, as the end of a message; empty without one."""
    close = difflib.get_close_matches(name, list(known)[:MOST_COMPARED_NAMES], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def tokens(source: Source) -> list[Token]:
    """The words of a text, followed by a word of kind "end"."""
    text, found, at = source.text, [], 0
    match_at = _TOKEN.match
    while at < len(text):
        match = match_at(text, at)
        if match is None:
            raise _no_token(source, at)
        kind = match.lastgroup or ""
        if kind != "blank":
            word = match[0]
            found.append(Token("word" if word in KEYWORDS else kind, word, at))
        at = match.end()
    found.append(Token("end", "the end of the text", len(text)))
    return found


def _no_token(source: Source, at: int) -> InputError:
    text = source.text
    if text.startswith("/*", at):
        return source.error(at, "a comment that begins here never ends; close it with */")
    if text[at] == '"':
        return source.error(at, 'a string that begins here never ends; close it with "')
    if text[at] == "'":
        return source.error(at, "a quoted name that begins here never ends; close it with '")
    shown = text[at] if text[at].isprintable() else ascii(text[at])
    return source.error(at, f"the character {shown} means nothing in Modelica; remove it or quote the name")
