"""Syntax trees of the files of a package, which several tests look at and each process reads once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def syntax_trees(package: Path) -> dict[Path, ast.Module]:
    """The syntax tree of every file of a package, in the order of their paths."""
    paths = sorted(package.resolve().rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8"), filename=str(path)) for path in paths}


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, without a look at the expressions in them."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, part, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)
