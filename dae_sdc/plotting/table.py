"""What a result must hold to be drawn: numbers and texts in their columns, and units that are texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.errors import ResultFileError
from dae_sdc.plotting.style import CEILING
from dae_sdc.run.results import Result

_AGAIN = "restore the file or run the study again"


def require_columns(result: Result, numbers: Sequence[str], texts: Sequence[str] = ()) -> None:
    """Refuse a table whose columns hold something else than one number or one text in each row.

    Parameters
    ----------
    result : Result
        From a file that anybody may have written.
    numbers, texts : sequence of str
        Columns that are drawn and columns that name what is drawn.

    Raises
    ------
    ResultFileError
        Naming the column, or the unit that is no text.
    """
    for names, kinds, wanted in ((numbers, "biuf", "real numbers"), (texts, "U", "text")):
        for name in names:
            kind = result.data.dtype[name]
            if kind.kind not in kinds or kind.shape:
                raise ResultFileError(f"column '{name}' of the result holds {kind}, not {wanted}; {_AGAIN}")
    for name, unit in result.units.items():
        if unit is not None and not isinstance(unit, str):
            raise ResultFileError(f"the unit of '{name}' in the result is {unit!r}, not text; {_AGAIN}")


def require_range(result: Result, name: str, low: float) -> NDArray[np.float64]:
    """A column as doubles; raises :class:`ResultFileError` at a value that no axis has a place for.

    Parameters
    ----------
    result : Result
        The result.
    name : str
        Column of numbers.
    low : float
        Smallest value; the largest is :data:`~dae_sdc.plotting.style.CEILING`.
    """
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
