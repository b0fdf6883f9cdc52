"""Columns by name with their units: printed, shown in Jupyter, drawn, as CSV, and in other packages."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dae_sdc.deferred import function_at
from dae_sdc.errors import InputError
from dae_sdc.text import aligned, html_picture, html_table, html_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TEXT_ROWS = 24  # Rows of a table that is printed.
DRAWING = "dae_sdc.plotting.plot:plot"  # The function that draws results, of a higher room.


@dataclass(frozen=True)
class Table:
    """Columns of as many rows by name, and what is known of them."""

    columns: Mapping[str, NDArray[Any]]
    units: Mapping[str, str]  # Those of the columns that have one.
    about: Mapping[str, Any]  # Parameters of the study.
    index: str = ""  # The column over which the others are given; empty where rows have numbers only.

    def without_constants(self) -> tuple[str, Table]:
        """What is the same in all rows as a text, and the other columns."""
        same = {
            name: values[0]
            for name, values in self.columns.items()
            if len(values) > 1 and (values == values[0]).all()
        }
        others = {name: values for name, values in self.columns.items() if name not in same}
        texts = (f"{name} {cell(value)}" for name, value in same.items() if value != "")
        return ", ".join(texts), Table(others, self.units, self.about)

    def cells(self, most: int) -> list[Sequence[str]]:
        """Names with units, and the first rows, as text."""
        heads = [f"{name} [{self.units[name]}]" if self.units.get(name) else name for name in self.columns]
        rows = zip(*(values[:most] for values in self.columns.values()), strict=True)
        return [heads, *([cell(value) for value in row] for row in rows)]

    def summary(self, most: int) -> list[Sequence[str]]:
        """First and last, smallest and largest value of the first columns, one row each, as text."""
        rows: list[Sequence[str]] = [("unknown", "unit", "start", "end", "smallest", "largest")]
        for name, values in list(self.columns.items())[:most]:
            finite = values[np.isfinite(values)]
            ends = (values[0], values[-1]) if len(values) else (np.nan, np.nan)
            span = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
            rows.append((name, self.units.get(name, ""), *(cell(value) for value in (*ends, *span))))
        return rows

    def csv(self) -> bytes:
        """Text with commas: one line of names, then numbers with all their digits."""
        file = io.StringIO(newline="")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*(column.tolist() for column in self.columns.values()), strict=True))
        return file.getvalue().encode("utf-8", errors="backslashreplace")

    def variable(self, along: str | tuple[str, ...], name: str, values: NDArray[Any]) -> tuple[Any, ...]:
        """A variable or coordinate of xarray with its unit."""
        return along, values, {"units": self.units[name]} if name in self.units else {}

    def attributes(self) -> dict[str, Any]:
        """Those parameters that files of other packages take: numbers and texts."""
        return {
            name: int(value) if isinstance(value, bool) else value
            for name, value in self.about.items()
            if isinstance(value, str | bool | int | float)
        }


class View(NamedTuple):
    """What is shown of a table."""

    title: str
    above: Sequence[str]  # Lines of text above it.
    cells: Sequence[Sequence[str]]  # Heads, and rows.
    below: Sequence[str]  # Lines below it.


class Tabulated:
    """Base of what is printed, shown in Jupyter, drawn and converted as a table."""

    def _table(self) -> Table:
        raise NotImplementedError

    def _view(self, printed: bool) -> View:
        """What is shown, all of it or as much as is printed."""
        raise NotImplementedError

    def __str__(self) -> str:
        view = self._view(printed=True)
        return "\n".join([*view.above, aligned(view.cells, gap="  "), *view.below])

    def _repr_html_(self) -> str:
        view = self._view(printed=False)
        heads, *rows = view.cells
        parts = html_table(heads, rows), html_picture(DRAWING, self)
        return html_view(view.title, *parts, note="; ".join(view.below))

    def plot(self, kind: str | None = None, **options: Any) -> Figure:
        """Draw it, see :func:`dae_sdc.plotting.plot.plot`.

        Parameters
        ----------
        kind : str, optional
            The kind of picture; the first one that takes the options if not given. Of a solution "linear"
            over time, "phase" or "mechanism"; of a sweep "sweep" for solutions over time, or "end-values" for
            values at the end and other quantities over the parameter.
        **options
            Those of the kind of picture: ``show``, names and patterns of what is drawn, ``steps`` and
            ``log``; ``x`` and ``y`` of a phase plot; ``points`` and ``bars`` of a mechanism; ``out``, the
            file to write.

        Returns
        -------
        matplotlib.figure.Figure
            The picture. It opens no window; Jupyter shows it.

        Raises
        ------
        InputError
            If the kind or an option does not fit, or the picture cannot be written.
        """
        what = (self,) if kind is None else (kind, self)
        figure: Figure = function_at(DRAWING)(*what, **options)
        return figure

    def to_dataframe(self) -> Any:
        """The columns as a table of pandas, a pandas.DataFrame with units and parameters in ``attrs``.

        The time of a solution is its index, and a sweep has a row for each run and time. Raises InputError if
        pandas is not installed.
        """
        pandas, table = needed("pandas", "to_dataframe"), self._table()
        columns = dict(table.columns)
        index = pandas.Index(columns.pop(table.index), name=table.index) if table.index else None
        frame = pandas.DataFrame(columns, index=index)
        frame.attrs = {"units": table.units, **table.attributes()}
        return frame

    def to_xarray(self) -> Any:
        """The columns as a data set of xarray, an xarray.Dataset that has the parameters as attributes.

        A solution is over its time and a study over its rows; variables have their unit as attribute
        ``units``. Raises InputError if xarray is not installed.
        """
        xarray, table = needed("xarray", "to_xarray"), self._table()
        along, columns = table.index or "row", dict(table.columns)
        rows = np.arange(max(map(len, columns.values()), default=0))
        places = {along: table.variable(along, along, columns.pop(table.index, rows))}
        variables = {name: table.variable(along, name, values) for name, values in columns.items()}
        return xarray.Dataset(variables, coords=places, attrs=table.attributes())


def flat(data: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """The columns of a structured array, those of vectors with an index: "y[0]", "y[1]"."""
    columns = {}
    for name in data.dtype.names or ():
        column = data[name]
        if column.ndim == 1:
            columns[name] = column
        else:
            rows = column.reshape(len(data), -1)
            columns |= {f"{name}[{place}]": rows[:, place] for place in range(rows.shape[1])}
    return columns


def needed(package: str, method: str) -> Any:
    """A package that only one method needs; raises InputError where it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"{method} needs {package}; install it: pip install {package}") from None


def cell(value: Any) -> str:
    """A value in a table: six digits of a number, a dash where there is none."""
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else f"{value + 0.0:.6g}"
    return str(value)
