"""Modifications of components, with the scopes of their names."""

from __future__ import annotations

from dataclasses import dataclass, field

from dae_sdc.modelica.scope import Bound, Scope
from dae_sdc.modelica.syntax import Modification
from dae_sdc.modelica.text import Source


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
