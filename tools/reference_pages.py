"""Write the pages of the API reference: one for every public name of dae_sdc, in chapters by their rooms.

``make docs`` calls this; nothing is listed by hand. Usage: python tools/reference_pages.py [docs/api]
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import dae_sdc
from dae_sdc.registry import Registry
from dae_sdc.run.results import Tabulated

FIRST = ("run", "model", "dae", "structure", "reduction", "initial", "modelica", "plotting")
"""Rooms whose chapters come first, as most users meet them; the others follow by the alphabet."""


def chapters() -> dict[str, list[str]]:
    """The public names by the room that they are from, in the order of the reference."""
    names: dict[str, list[str]] = {}
    for name in dae_sdc.__all__:
        if name != "__version__":
            names.setdefault(dae_sdc._HOME[name].split(".")[1], []).append(name)
    order = sorted(names, key=lambda room: (FIRST.index(room) if room in FIRST else len(FIRST), room))
    return {room: names[room] for room in order}


def summary(name: str) -> str:
    """The first sentence of the docstring of a public name."""
    entry = getattr(dae_sdc, name)
    if isinstance(entry, Registry):
        return f"The {entry.kind}s that are registered, by name."
    return (inspect.getdoc(entry) or "").split("\n\n")[0].replace("\n", " ")


def page(name: str) -> str:
    """The page of one public name, in reStructuredText."""
    entry = getattr(dae_sdc, name)
    lines = [name, "=" * len(name), "", f".. currentmodule:: {dae_sdc.__name__}", ""]
    if isinstance(entry, Registry):
        lines += [f".. py:data:: {name}", "", f"   {summary(name)}", ""]
        lines += [f"   ``{name}[key]`` gives an entry, ``list({name})`` all names, and", ""]
        lines += [f"   ``@{name}.register(key)`` adds what it decorates.", "", "   Names:", ""]
        lines += ["   " + ", ".join(f"``{key}``" for key in sorted(entry)), ""]
    elif inspect.isclass(entry):
        lines += [f".. autoclass:: {name}", "   :members:", "   :show-inheritance:"]
        lines += [*(["   :inherited-members:"] if issubclass(entry, Tabulated) else []), ""]
    else:
        lines += [f".. autofunction:: {name}", ""]
    return "\n".join(lines)


def index() -> str:
    """The page that lists all names, a table and a sentence for every room."""
    lines = ["API reference", "=============", ""]
    lines += [
        "Every public name, taken from the package by ``import dae_sdc as ds``. Examples begin after that and"
    ]
    lines += ["``import numpy as np``.", ""]
    for room, names in chapters().items():
        sentence = (importlib.import_module(f"dae_sdc.{room}").__doc__ or "").splitlines()[0]
        lines += [f"dae_sdc.{room}", "-" * (len(room) + 8), "", sentence, "", ".. list-table::"]
        lines += ["   :widths: 30 70", ""]
        for name in names:
            lines += [f"   * - :doc:`{name} <{name}>`", f"     - {summary(name)}"]
        lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in names), ""]
    return "\n".join(lines)


def write(directory: Path) -> None:
    """Write all pages, those that have changed only, and remove the pages of names that are gone."""
    directory.mkdir(exist_ok=True)
    pages = {"index.rst": index()}
    pages |= {f"{name}.rst": page(name) for names in chapters().values() for name in names}
    for path in directory.glob("*.rst"):
        if path.name not in pages:
            path.unlink()
    for file, text in pages.items():
        path = directory / file
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "api"))
