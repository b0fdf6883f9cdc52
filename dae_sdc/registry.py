"""Names for things that users choose by name: one decorator, unique names, errors that list the names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Generic, TypeVar

from dae_sdc.errors import InputError
from dae_sdc.text import brief

T = TypeVar("T")
S = TypeVar("S")

MOST_NAMES: Final = 60  # Most names that a message lists.
MOST_NEAR: Final = 3  # Most names that a message asks after, of those that begin with what was asked.


class Registry(Generic[T]):
    """A table from names to things of one kind, filled by the files that define them."""

    def __init__(
        self, kind: str, *packages: str, find: Callable[[], Iterable[tuple[str, T]]] | None = None
    ) -> None:
        self.kind = kind
        self._packages, self._find = packages, find
        self._entries: dict[str, T] = {}
        self._discovered = not packages and find is None
        self._here = threading.local()

    def register(self, name: str) -> Callable[[S], S]:
        """Decorator that enters what it decorates under ``name`` and returns it unchanged."""

        def enter(entry: S) -> S:
            self.add(name, entry)  # type: ignore[arg-type]
            return entry

        return enter

    def add(self, name: str, entry: T) -> None:
        """Enter ``entry`` under ``name``; raises :class:`InputError` if the name is taken."""
        if self._entries.setdefault(name, entry) is not entry:
            first = getattr(self._entries[name], "__module__", "?")
            second = getattr(entry, "__module__", "?")
            raise InputError(
                f"{self.kind} '{name}' is registered twice, by {first} and by {second}; "
                f"give one another name, and import modules as dae_sdc.*: the directories at the root are "
                f"links to the same files"
            )

    def _discover(self) -> None:
        if self._discovered or getattr(self._here, "discovers", False):
            return
        # Every thread that comes before the end imports too: Python lets it wait for each module, and
        # finds out where two wait for one another. The modules may look names up themselves.
        self._here.discovers = True
        try:
            for name_of_entry, entry in self._find() if self._find is not None else ():
                self.add(name_of_entry, entry)
            for name in self._packages:
                for module in pkgutil.iter_modules(importlib.import_module(name).__path__):
                    if module.name[0] != "_":
                        importlib.import_module(f"{name}.{module.name}")
            self._discovered = True
        finally:
            self._here.discovers = False

    def __getitem__(self, name: str) -> T:
        self._discover()
        try:
            return self._entries[name]
        except KeyError:
            raise InputError(unknown(self.kind, name, list(self._entries))) from None

    def __contains__(self, name: object) -> bool:
        self._discover()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(list(self._entries)))

    def __len__(self) -> int:
        self._discover()
        return len(self._entries)

    def name_of(self, thing: object) -> str | None:
        """The first name under which a thing is registered, as the file that defined it did; or None."""
        return min([name for name, entry in list(self._entries.items()) if entry is thing], default=None)

    def items(self) -> Iterator[tuple[str, T]]:
        """Pairs of name and entry in the order of the names."""
        for name in self:
            yield name, self._entries[name]


def unknown(kind: str, name: str, known: Iterable[object]) -> str:
    """The message for a name that does not exist: what was asked, the nearest ones, and those there are."""
    names = sorted(str(entry) for entry in known)
    asked, lowered = str(name).lower(), {one.lower(): one for one in names}
    begins = [one for one in lowered if len(asked) > 1 and one.startswith(asked)]
    near = [f"'{lowered[one]}'" for one in begins[:MOST_NEAR] or get_close_matches(asked, lowered, n=1)]
    lead = f"did you mean {' or '.join(near)}? Available" if near else "available"
    return f"unknown {kind} '{name}'; {f'{lead}: {brief(names, MOST_NAMES)}' if names else 'there are none'}"


def require_name(kind: str, name: str, known: Iterable[str]) -> int:
    """Refuse a name that is not among those that there are; returns its place among them."""
    names = list(known)
    if name not in names:
        raise InputError(unknown(kind, name, names))
    return names.index(name)


def nearest_file(path: Path) -> str:
    """The file beside one that does not exist whose name is most like it; empty if there is none."""
    others: list[str] = []
    with suppress(OSError, ValueError):
        others = [str(one) for one in path.parent.iterdir() if one.suffix == path.suffix]
    return (get_close_matches(str(path), others, n=1) or [""])[0]


def docstrings(directory: Path) -> Iterator[tuple[str, str]]:
    """Names and docstrings of the modules in a directory, read as text: parsing and importing take long."""
    for path in directory.glob("[!_]*.py"):
        docstring = re.match(r'"""(.*?)"""', path.read_text(encoding="utf-8"), flags=re.DOTALL)
        yield path.stem, inspect.cleandoc(docstring[1]) if docstring else ""
