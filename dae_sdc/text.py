"""Text tables that verbs print, and lists of names in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
