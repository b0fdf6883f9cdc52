"""The unknowns of a solution over time, one panel for each unit.

Plot: linear of solution, solution over time
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.plotting import style, table
from dae_sdc.run.results import Result

MOST = 8
"""Curves in a panel unless the reader names them."""

_LEGEND_ROWS = 14
_EVERY_POINT = 25


class _Panel(NamedTuple):
    group: str
    unit: str
    drawn: list[int]
    hidden: int


def linear(result: Result, unknowns: Sequence[str] | None = None) -> Figure:
    """Draw a solution over time.

    Parameters
    ----------
    result : Result
        Of kind "solution".
    unknowns : sequence of str, optional
        Names to draw, of unknowns that were eliminated from a simplified model too; without it, up to
        :data:`MOST` of each group and unit of the state.

    Returns
    -------
    matplotlib.figure.Figure
        Stacked panels with one time axis: differential unknowns first, one panel for each unit.

    Raises
    ------
    InputError
        If a name is not an unknown of the solution.
    ResultFileError
        If names and units do not fit the data, or there is none that can be drawn.
    """
    table.require_columns(result, ["t"])
    time = table.require_range(result, "t", -style.CEILING)
    kind = result.data.dtype["u"]
    if kind.base.kind not in "biuf" or 0 in kind.shape:
        raise ResultFileError(
            f"column 'u' of the result holds {kind}, not real numbers; restore the file or run it again"
        )
    values = result.data["u"].astype(float).reshape(len(time), -1)
    names, units, n_diff = _unknowns(result, values.shape[1])
    more, more_units, columns = _eliminated(result, len(time))
    n = len(names)
    names, units, values = [*names, *more], [*units, *more_units], np.hstack([values, columns])
    chosen = list(range(n)) if unknowns is None else _select(names, unknowns)
    panels = _panels(units, n_diff, n, chosen, everything=unknowns is not None)
    rows = [min(len(panel.drawn), _LEGEND_ROWS) for panel in panels]
    heights = [max(1.6, 0.3 + 0.175 * count) for count in rows]
    with style.styled():
        title = style.headline(result.parameters, result.units.get("dt") or result.units.get("t"))
        figure = style.figure(8.0, sum(heights) + 0.35 * len(panels) + 0.8, title)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, panel in zip(grid[:, 0], panels, strict=True):
            _draw(axes, panel, time, values, names)
        figure.align_ylabels(list(grid[:, 0]))
        grid[-1, 0].set_xlabel(f"time{style.bracket(result.units.get('t'))}")
    return figure


def _draw(
    axes: Any, panel: _Panel, time: NDArray[np.float64], values: NDArray[np.float64], names: list[str]
) -> None:
    lines = []
    for number, column in enumerate(panel.drawn):
        look = {**style.curve(number), "markersize": 4.0}
        if np.count_nonzero(np.isfinite(values[:, column])) > _EVERY_POINT:
            # at equal distances along the curve, shifted so that curves on top of each other show
            look["markevery"] = (0.02 + 0.014 * (number % 8), 0.13)
        drawn = values[:, column]
        drawn = np.where(np.isfinite(drawn), np.clip(drawn, -style.CEILING, style.CEILING), np.nan)
        lines += axes.plot(time, drawn, label=style.text(names[column]), **look)
    table.mark_cut(axes, values[:, panel.drawn])
    shown = ", ".join(names[column] for column in panel.drawn)
    if len(shown) > 16:
        shown = f"{names[panel.drawn[0]]} … {names[panel.drawn[-1]]}"
    what = style.text(shown) if len(shown) <= 20 else panel.group
    axes.set_ylabel(f"{what}{style.bracket(panel.unit)}")
    axes.set_title(panel.group, loc="left", fontsize=9, color=style.GREY)
    if panel.hidden:
        note = f"{panel.hidden} more not drawn; choose with --unknowns"
        axes.set_title(note, loc="right", fontsize=style.SMALL, color=style.GREY)
    if len(lines) > 1 or what == panel.group:
        columns = -(-len(lines) // _LEGEND_ROWS)
        axes.legend(
            lines,
            [str(line.get_label()) for line in lines],
            loc="upper left",
            bbox_to_anchor=(1.0, 1.04),
            ncols=columns,
            borderaxespad=0.3,
        )
    axes.margins(x=0.01)


def _unknowns(result: Result, n: int) -> tuple[list[str], list[str], int]:
    """Names, units and the number of differential unknowns, checked against ``n`` columns."""
    parameters = result.parameters
    names = parameters.get("names")
    units = parameters.get("units", [""] * n)
    n_diff = parameters.get("n_diff")
    for key, entries in (("names", names), ("units", units)):
        if not isinstance(entries, list | tuple) or len(entries) != n:
            count = len(entries) if isinstance(entries, list | tuple) else "no"
            raise ResultFileError(
                f"parameter '{key}' of the result has {count} entries for {n} unknowns; save it again"
            )
        strange = next((entry for entry in entries if not isinstance(entry, str | None)), None)
        if strange is not None:
            raise ResultFileError(f"parameter '{key}' of the result has {strange!r}, not text; save it again")
    if isinstance(n_diff, bool) or not isinstance(n_diff, int) or not 0 <= n_diff <= n:
        raise ResultFileError(
            f"parameter 'n_diff' of the result is {n_diff!r}, not a number from 0 to {n}; save it again"
        )
    return [str(name) for name in names or ()], [unit or "" for unit in units], n_diff


def _eliminated(result: Result, rows: int) -> tuple[list[str], list[str], NDArray[np.float64]]:
    """Names, units and values of the unknowns that were eliminated from a simplified model."""
    names, units = (result.parameters.get(key, []) for key in ("others", "other_units"))
    if not names:
        return [], [], np.zeros((rows, 0))
    lists = isinstance(names, list) and isinstance(units, list) and len(units) == len(names)
    column = result.data["others"] if "others" in (result.data.dtype.names or ()) else np.zeros(0)
    if not lists or column.shape != (rows, len(names)) or column.dtype.kind != "f":
        raise ResultFileError(
            "the eliminated unknowns of the result have other values than names; save it again"
        )
    return [str(name) for name in names], [str(unit) for unit in units], column.astype(float)


def _select(names: list[str], unknowns: Sequence[str]) -> list[int]:
    """Columns of the names that were asked for, in the order of the solution."""
    for name in unknowns:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise InputError(
                f"the solution has no unknown '{name}'{hint or ';'} choose from: {', '.join(names)}"
            )
    if not len(unknowns):
        raise InputError(f"no unknowns to draw; choose from: {', '.join(names)}")
    return [column for column, name in enumerate(names) if name in set(unknowns)]


def _panels(units: list[str], n_diff: int, n: int, columns: list[int], *, everything: bool) -> list[_Panel]:
    found: dict[tuple[str, str], list[int]] = {}
    for column in columns:
        group = "differential" if column < n_diff else "algebraic" if column < n else "eliminated"
        found.setdefault((group, units[column]), []).append(column)
    most = len(units) if everything else MOST
    return [_Panel(*key, all_[:most], max(0, len(all_) - most)) for key, all_ in found.items()]
