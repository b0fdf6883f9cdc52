"""The page of published tables: its fourth column is what its second gives, and is beside its third."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

PAGE = Path(__file__).parent.parent / "docs" / "papers.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r"^\| what \| computed by(, long)? \| published \| here \| why they differ \|$")
ROW = re.compile(r"^\| (.+?) \| `(.+)` \| (.+?) \| (.+?) \|(.*)\|$")


class Row(NamedTuple):
    what: str
    expression: str
    published: str
    here: str
    why: str


def rows() -> list[Any]:
    """The rows of all tables with such a head; those of a head that says so are long."""
    collected, long = [], None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        head, row = HEAD.match(line), ROW.match(line)
        if head:
            long = head[1] is not None
        elif long is not None and row:
            entry = Row(*(part.strip() for part in row.groups()))
            marks = [pytest.mark.long] if long else []
            collected.append(pytest.param(entry, id=f"{entry.what}: {entry.expression}", marks=marks))
        elif not line.startswith("|"):
            long = None
    return collected


@cache
def names() -> dict[str, Any]:
    """What the blocks of the page define."""
    defined: dict[str, Any] = {}
    for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        exec(compile(block, str(PAGE), "exec"), defined)
    return defined


def unit(text: str) -> float:
    """One in the last digit of a printed number; 0 for whole numbers and rows of them."""
    mantissa, _, exponent = text.partition("e")
    if "." not in mantissa and not exponent:
        return 0.0
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


@pytest.mark.parametrize("row", rows())
def test_a_number_of_the_page_is_what_its_expression_gives(row: Row) -> None:
    value = eval(row.expression, names())
    value = tuple(map(int, value)) if np.ndim(value) else float(value)
    assert value == pytest.approx(ast.literal_eval(row.here), rel=0.0, abs=0.51 * unit(row.here))
    if not row.why:
        coarser = max(unit(row.here), unit(row.published))
        assert value == pytest.approx(ast.literal_eval(row.published), rel=0.0, abs=1.01 * coarser)


def test_a_row_that_says_why_differs_or_has_nothing_beside_it() -> None:
    for entry in rows():
        (row,) = entry.values
        if row.why and row.published != "-":
            assert ast.literal_eval(row.published) != ast.literal_eval(row.here), row


def test_the_page_has_at_least_sixty_numbers_beside_published_ones() -> None:
    assert sum(entry.values[0].published != "-" for entry in rows()) >= 60
