"""Checks of results before they are drawn, and parts that several pictures have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from dae_sdc.errors import ResultFileError
from dae_sdc.plotting.style import CEILING, GREY, SMALL, mark_floor
from dae_sdc.run.results import Result

_AGAIN = "restore the file or run the study again"


def require_columns(
    result: Result,
    numbers: Sequence[str],
    texts: Sequence[str] = (),
    of: str = "",
    others: Sequence[str] = (),
) -> None:
    """Refuse a table that lacks columns, or has anything but a number or a text in a row of them."""
    known = result.data.dtype.names or ()
    lacking = [name for name in (*numbers, *texts, *others) if name not in known] if of else []
    if lacking:
        raise ResultFileError(f"the result lacks the columns {', '.join(lacking)} of {of}")
    for names, kinds, wanted in ((numbers, "biuf", "real numbers"), (texts, "U", "text")):
        for name in names:
            kind = result.data.dtype[name]
            if kind.kind not in kinds or kind.shape:
                raise ResultFileError(f"column '{name}' of the result holds {kind}, not {wanted}; {_AGAIN}")
    for name, unit in result.units.items():
        if unit is not None and not isinstance(unit, str):
            raise ResultFileError(f"the unit of '{name}' in the result is {unit!r}, not text; {_AGAIN}")


def require_range(result: Result, name: str, low: float) -> NDArray[np.float64]:
    """A column as doubles; raises :class:`ResultFileError` at a value that no axis has a place for."""
    values: NDArray[np.float64] = result.data[name].astype(float)
    bad = np.flatnonzero(~((values >= low) & (values <= CEILING)))
    if bad.size:
        row = int(bad[0])
        raise ResultFileError(
            f"'{name}' in row {row} of the result is {values[row]:g}, which cannot be drawn: it must lie "
            f"between {low:g} and {CEILING:g}; {_AGAIN}"
        )
    return values


def mark_cut(axes: Any, values: NDArray[Any]) -> None:
    """Say in the panel that some of its ``values`` are larger than can be drawn, and were cut."""
    numbers = np.asarray(values, dtype=float)
    if np.any(np.isfinite(numbers) & (np.abs(numbers) > CEILING)):
        axes.annotate(
            f"cut at {CEILING:g}", (0.99, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=8.0
        )


def mark_failed(axes: Any, places: NDArray[Any], values: NDArray[Any], colour: str) -> None:
    """Put crosses at the upper edge of a panel where a curve has no finite value."""
    # Shapes: places and values (K,).
    failed = np.asarray(places)[~np.isfinite(np.asarray(values, dtype=float))]
    if failed.size:
        before = sum(line.get_marker() == "x" for line in axes.lines)
        heights = np.full(len(failed), 0.98 - 0.03 * (before % 20))
        look = {"linestyle": "", "marker": "x", "markersize": 5.0, "color": colour}
        axes.plot(failed, heights, transform=axes.get_xaxis_transform(), **look)
        axes.set_title("x failed", loc="right", fontsize=SMALL, color=GREY)


def mark_limits(axes: Any, values: NDArray[Any]) -> None:
    """Say in a panel with a logarithmic axis that some of its ``values`` are too small or too large."""
    mark_floor(axes, values)
    mark_cut(axes, values)


def few_ticks(axes: Any) -> None:
    """Ticks at whole decades of a logarithmic vertical axis, not too many, and no numbers between them."""
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_minor_formatter(NullFormatter())


def panels_of(count: int, most_across: int = 3) -> tuple[int, int]:
    """Rows and columns for a number of panels, in rows of the same length as far as can be."""
    down = math.ceil(count / most_across)
    across = math.ceil(count / down)
    return math.ceil(count / across), across
