"""Columns by name as text, CSV, and tables of other packages."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.errors import InputError

MOST_TEXT_ROWS = 24
"""Rows of a table that is printed."""

Columns = Mapping[str, NDArray[Any]]


def flat(data: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """The columns of a structured array, those of vectors with an index: "y[0]", "y[1]"."""
    found = {}
    for name in data.dtype.names or ():
        column = data[name]
        if column.ndim == 1:
            found[name] = column
        else:
            rows = column.reshape(len(data), -1)
            found |= {f"{name}[{place}]": rows[:, place] for place in range(rows.shape[1])}
    return found


def csv_of(columns: Columns) -> bytes:
    """The columns as text with commas: one line of names, then numbers with all their digits."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return file.getvalue().encode("utf-8", errors="backslashreplace")


def needed(package: str, method: str) -> Any:
    """A package that only one method needs; raises InputError where it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"{method} needs {package}; install it: pip install {package}") from None


def plain_attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some values that files of other packages take: numbers, texts and lists of them."""
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in values.items()
        if isinstance(value, str | bool | int | float)
    }


def summarised(columns: Columns, units: Mapping[str, str], most: int) -> list[tuple[str, ...]]:
    """First and last, smallest and largest value of each column, one row each, as text."""
    rows: list[tuple[str, ...]] = [("unknown", "unit", "start", "end", "smallest", "largest")]
    for name, values in list(columns.items())[:most]:
        finite = values[np.isfinite(values)]
        ends = (values[0], values[-1]) if len(values) else (np.nan, np.nan)
        span = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
        rows.append((name, units.get(name, ""), *(cell(value) for value in (*ends, *span))))
    return rows


def cell(value: Any) -> str:
    """A value in a table: six digits of a number, a dash where there is none."""
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else f"{value + 0.0:.6g}"
    return str(value)


def varying(columns: Columns) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Columns of one value in all rows, by that value, and the others."""
    same = {
        name: values[0] for name, values in columns.items() if len(values) > 1 and (values == values[0]).all()
    }
    return same, {name: values for name, values in columns.items() if name not in same}


def cells_of(columns: Columns, units: Mapping[str, str], most: int) -> list[Sequence[str]]:
    """Names with units, and the first rows, as text."""
    heads = [f"{name} [{units[name]}]" if units.get(name) else name for name in columns]
    rows = zip(*(values[:most] for values in columns.values()), strict=True)
    return [heads, *([cell(value) for value in row] for row in rows)]
