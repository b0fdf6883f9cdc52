"""Directories of libraries, and texts for older versions of these, converted as the libraries say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dae_sdc.errors import InputError
from dae_sdc.modelica.outline import Outline
from dae_sdc.modelica.syntax import Source

_USES: Final = re.compile(r"\buses\s*\(((?:[^()]|\([^()]*\))*)\)")
_USED: Final = re.compile(r'\b(\w+)\s*\(\s*version\s*=\s*"([^"]+)"')
_DEFINED: Final = r"\bpackage\s+{}\b"
# Annotations of libraries, and the calls in their scripts; Modelica 3.6, section 18.8.2.
_FROM: Final = re.compile(
    r'\bfrom\s*\(\s*version\s*=\s*(\{[^}]*\}|"[^"]*")[^()]*?script\s*=\s*"modelica:/+([^"]+)"'
)
_CLASS: Final = re.compile(r'\bconvertClass\s*\(\s*"([^"]+)"\s*,\s*"([^"]+)"')
_ELEMENT: Final = re.compile(r'\bconvertElement\s*\(\s*(\{[^}]*\}|"[^"]*")\s*,\s*"(\w+)"\s*,\s*"(\w+)"\s*\)')
_TEXT: Final = re.compile(r'"([^"]*)"')
_PART: Final = r"(?:\w+|'[^']*')"
_IMPORT: Final = re.compile(rf"\bimport\s+(?:(\w+)\s*=\s*)?({_PART}(?:\.{_PART})+)\s*;")
_DOTTED: Final = re.compile(rf"(?<![\w.'\"]){_PART}(?:\.{_PART})+")


def roots_of(text: str, libraries: Sequence[str | Path]) -> list[str]:
    """The directories of libraries of a call and of the environment, without those that a text has itself."""
    more = os.environ.get("MODELICAPATH", "").split(os.pathsep)
    roots = [Path(path) for path in (*libraries, *filter(None, more))]
    for root in roots:
        if not root.is_dir():
            raise InputError(f"the library {root} is no directory; give the one in which Modelica/ lies")
    has_modelica = re.search(_DEFINED.format("Modelica"), text)
    return [str(root) for root in roots if not (has_modelica and (root / "Modelica").is_dir())]


def _scripts(text: str, roots: Sequence[str]) -> Iterator[str]:
    """The scripts by which libraries convert what uses them in the versions that a text says."""
    for name, version in _USED.findall(" ".join(_USES.findall(text))):
        for package in (Path(root) / name / "package.mo" for root in roots):
            inside = package.read_text(encoding="utf-8", errors="replace") if package.is_file() else ""
            for versions, place in _FROM.findall(inside):
                script = package.parent.parent / place
                if version in _TEXT.findall(versions) and script.is_file():
                    yield script.read_text(encoding="utf-8", errors="replace")


def converted(source: Source, libraries: Sequence[str | Path]) -> Source:
    """A text with the names that libraries give now to what they called otherwise in the versions it uses."""
    script = "\n".join(_scripts(source.text, roots_of(source.text, libraries)))
    if not script:
        return source
    classes = dict(_CLASS.findall(script))
    imports = {alias or path.rpartition(".")[2]: path for alias, path in _IMPORT.findall(source.text)}

    def new(path: str) -> str:
        """The path of a class, of which the longest beginning that has another name gets that."""
        words = path.split(".")
        for k in range(len(words), 0, -1):
            if (known := classes.get(".".join(words[:k]))) is not None:
                return ".".join([known, *words[k:]])
        return path

    def renamed(match: re.Match[str]) -> str:
        head, _, rest = match[0].partition(".")
        if head not in imports:
            return new(match[0])
        whole = new(f"{imports[head]}.{rest}")
        return match[0] if whole == f"{new(imports[head])}.{rest}" else whole

    def imported(match: re.Match[str]) -> str:
        alias, path = match[1] or match[2].rpartition(".")[2], new(match[2])
        return match[0] if path == match[2] else f"import {alias} = {path};"

    parts, end = list[str](), 0
    elements = {
        (each, old): name for inside, old, name in _ELEMENT.findall(script) for each in _TEXT.findall(inside)
    }
    for word, (kind, *path) in Outline(source).changes:
        head, dot, rest = kind.partition(".")
        whole = f"{imports.get(head, head)}{dot}{rest}"
        fits = (
            name
            for (each, old), name in elements.items()
            if old == word.text and f".{each}".endswith(f".{whole}")
        )
        if not path and (name := next(fits, None)) is not None:
            parts += source.text[end : word.at], name
            end = word.at + len(word.text)
    text = "".join([*parts, source.text[end:]])
    text = _DOTTED.sub(renamed, _IMPORT.sub(imported, text))
    return Source(text, source.file)
