"""Outline of a text for rumoca: its models, and what rumoca would lose of it without a word."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

from dae_sdc.modelica import syntax
from dae_sdc.modelica.arithmetic import MOST_ELEMENTS
from dae_sdc.modelica.flat import ATTRIBUTES
from dae_sdc.modelica.library import BASIC, Library
from dae_sdc.modelica.parser import MODELS, ClassParser
from dae_sdc.modelica.syntax import ClassDefinition, Modification, Name, Source, parts_of, similar

_Members: TypeAlias = dict[str, tuple[Name, ClassDefinition] | None]


class Outline:
    """The classes of a text that has what rumoca understands alone."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.library = Library(ClassParser(source, lenient=True).file(), source)
        self.classes = self.library.classes()
        self.models = self.library.models()
        conditions = parts_of([part.condition for each in self.classes.values() for part in each.elements])
        # The names in conditions of components.
        self.conditions = {word for part in conditions if isinstance(part, Name) for word, _ in part.parts}
        for part in parts_of(self.library.root):
            sizes = list[Any]()
            if isinstance(part, Name):
                sizes = [item for _, subscripts in part.parts for item in subscripts]
            elif isinstance(part, syntax.Component | syntax.Range):
                sizes = part.sizes if isinstance(part, syntax.Component) else part.bounds[1:]
            for size in sizes:  # What is too large would end the process inside of rumoca.
                if isinstance(size, syntax.Number) and float(size.text) > MOST_ELEMENTS:
                    source.fail(size.at, f"a size of {size.text}; at most {MOST_ELEMENTS} are read")
        for definition in self.classes.values():
            for element in definition.extended() if definition.kind in MODELS else ():
                if str(element.type) in BASIC:
                    self.source.fail(element.at, f"{element.type} cannot be extended; extend a model")

    def check(self) -> None:
        """Refuse modifications of what is not there, which rumoca passes over."""
        for definition in self.classes.values():
            for element in (*definition.elements, *filter(None, [definition.short])):
                self._check(element.type, definition, element.modification)

    def _check(self, kind: Name, definition: ClassDefinition, change: Modification | None) -> None:
        if change and (members := self._members(self.library.find(kind, definition))) is not None:
            for word, part in change.parts.items():
                if word not in members:
                    self.source.fail(part.at, f"{kind} has no {word}{similar(word, members)}")
                if (inner := members[word]) is not None:
                    self._check(*inner, part)

    def _members(self, base: ClassDefinition | str | None) -> _Members | None:
        """What a class has, with the class of each component and where it is declared; None if not known."""
        if not isinstance(base, ClassDefinition):
            return None if base is None else dict.fromkeys(ATTRIBUTES)
        if base.kind != "type" and self.library.root not in base.outward():
            return None  # as the whole library may have more than what is known without it
        members, bases = _Members(), self.library.with_bases(base)
        for each in bases:
            members |= dict.fromkeys(each.classes)
            members |= {part.name: (part.type, each) for part in each.elements if part.name}
            for part in each.extended():
                other = self.library.find(part.type, each)
                if isinstance(other, str):
                    members |= dict.fromkeys(ATTRIBUTES)
                elif other is each or other not in bases:
                    return None
        return members

    def lost(self, places: Sequence[int], decided: Sequence[int]) -> Iterator[syntax.Assert]:
        """The assertions at none of the places that were read, but where decided choices leave them out."""

        def lost(equations: Sequence[Any], is_left_out: bool | None = None) -> Iterator[syntax.Assert]:
            for part in equations:
                if isinstance(part, syntax.Assert) and is_left_out is False:
                    last = min((each.at for each in parts_of(part.call.arguments[:1])), default=part.at)
                    if not within(places, part.at, last + 1):
                        yield part
                tests = [each.at for test, _ in getattr(part, "branches", ()) for each in parts_of(test)]
                decides = any(within(decided, at, at + 1) for at in (part.at, *tests))
                inside = is_left_out is not False and decides if tests else is_left_out
                bodies = [body for _, body in getattr(part, "branches", ())]
                for body in (*bodies, getattr(part, "other", ()), getattr(part, "body", ())):
                    yield from lost(body, inside)

        for each in self.classes.values():
            if within(places, each.at, 1 + max(part.at for part in parts_of(each))):
                yield from lost([*each.equations, *each.initial, *chain.from_iterable(each.algorithms)])


def within(numbers: Sequence[int], begin: int, end: int) -> bool:
    """Whether one of some sorted numbers lies between two."""
    return bisect_left(numbers, begin) < bisect_left(numbers, end)
