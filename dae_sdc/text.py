"""Tables and lists of names as text, and views of objects in Jupyter as HTML."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from dae_sdc.errors import DAEError
from dae_sdc.imports import function_at


def aligned(rows: Iterable[Sequence[object]], widths: Sequence[int] = (), gap: str = " ") -> str:
    """A text with one line for each row, in aligned columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    sizes = widths or [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        (text.ljust(size) if size >= 0 else text.rjust(-size) for text, size in zip(row, sizes, strict=True))
        for row in cells
    )
    return "\n".join(gap.join(line).rstrip() for line in lines)


def brief(names: Sequence[str], most: int = 4) -> str:
    """Names separated by commas: the first ``most`` of them, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def names_in(text: str) -> list[str]:
    """The names in a text, separated by commas; those in brackets belong to names, as in der(x,2)."""
    return [name.strip() for name in re.split(r",(?![^()]*\)|[^\[\]]*\])", text) if name.strip()]


MOST_TABLE_ROWS = 20  # Rows of a table in a view.
PIXELS = 560  # Width of a picture in a view.


def html_table(heads: Sequence[str], rows: Iterable[Sequence[object]], most: int = MOST_TABLE_ROWS) -> str:
    """A table as HTML, with a last line that tells how many rows are left out."""
    cells = [[str(cell) for cell in row] for row in rows]
    lines = [_row("th", heads), *(_row("td", row) for row in cells[:most])]
    if len(cells) > most:
        lines.append(f'<tr><td colspan="{len(heads)}">and {len(cells) - most} more</td></tr>')
    return f"<table>{''.join(lines)}</table>"


def html_view(title: str, *parts: str, note: str = "") -> str:
    """Tables and pictures below a title, and a note."""
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<div><p><b>{escape(title)}</b></p>{''.join(parts)}{below}</div>"


def html_picture(home: str, *what: Any, **options: Any) -> str:
    """A small picture as HTML; empty where it cannot be drawn, as the tables say all."""
    with suppress(DAEError, ImportError):
        figure = function_at(home)(*what, **options)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=100)
        data = base64.b64encode(file.getvalue()).decode()
        return f'<img style="max-width:{PIXELS}px" alt="picture" src="data:image/png;base64,{data}"/>'
    return ""


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
