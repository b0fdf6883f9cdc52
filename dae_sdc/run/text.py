"""Tables of text, which verbs print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def aligned(rows: Iterable[Sequence[object]], widths: Sequence[int] = (), gap: str = " ") -> str:
    """Rows in columns, a line each.

    Parameters
    ----------
    rows : iterable of sequence
        Their cells, as many in every row.
    widths : sequence of int
        Of the columns, negative where cells stand at the right; found from the cells if there are none.
    gap : str
        What stands between two columns.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    sizes = widths or [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        (text.ljust(size) if size >= 0 else text.rjust(-size) for text, size in zip(row, sizes, strict=True))
        for row in cells
    )
    return "\n".join(gap.join(line).rstrip() for line in lines)
