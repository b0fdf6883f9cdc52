"""Errors and residuals against the number of sweeps.

Plot: semilogy of iterations, error against sweeps
    $ dae-sdc iterations hessenberg-1 --sweeper semi-implicit --qdelta LU,MIN-SR-S --out sweeps.npy
    $ dae-sdc plot semilogy sweeps.npy -o semilogy.png
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dae_sdc.plotting import style, table
from dae_sdc.plotting.labels import GROUPS, KEYS, TEXTS, curves, groups
from dae_sdc.run.results import Result


def semilogy(result: Result) -> Figure:
    """Draw how errors and residuals fall with the sweeps."""
    table.require_columns(result, ["dt", "nodes", "sweep", "error", "residual"], TEXTS)
    table.require_range(result, "sweep", -style.CEILING)
    data = result.data
    named = groups(data)
    found = curves(data, (*KEYS, "dt"), result.units.get("dt"))
    count = len(named) + 1
    down, across = table.panels_of(count)
    width = max(4.2 * across, 5.0)
    longest = max(len(label) for label in found.labels)
    columns = max(1, min(len(found.labels), int((width - 0.4) / (0.066 * longest + 0.75))))
    with style.styled():
        legend = 0.175 * math.ceil(len(found.labels) / columns)
        figure = style.figure(width, 3.4 * down + legend + 0.4, found.common)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        residual = grid[len(named)]
        lines = []
        for number, (label, rows) in enumerate(zip(found.labels, found.rows, strict=True)):
            group_of = data["group"][rows]
            for axes, group in zip(grid, named, strict=False):
                if np.any(group_of == group):
                    _curve(axes, data[rows[group_of == group]], "error", number, label)
            # every group repeats the residual of its configuration, so one of them is enough
            lines.append(_curve(residual, data[rows[group_of == group_of[0]]], "residual", number, label))
        for axes, group in zip(grid, named, strict=False):
            ylabel = f"{style.error_label(result.parameters)}{style.bracket(result.units.get('error'))}"
            _finish(axes, GROUPS.get(group, style.text(group)), ylabel, data["error"][data["group"] == group])
        ylabel = f"residual{style.bracket(result.units.get('residual'))}"
        _finish(residual, "residual", ylabel, data["residual"])
        for axes in grid[count:]:
            axes.remove()
        figure.legend(lines, found.labels, loc="outside lower center", ncols=columns)
    return figure


def _curve(axes: Any, rows: NDArray[np.void], column: str, number: int, label: str) -> Any:
    rows = rows[np.argsort(rows["sweep"])]
    look, values = style.curve(number), style.clipped(rows[column])
    (line,) = axes.semilogy(rows["sweep"], values, label=label, **look)
    table.mark_failed(axes, rows["sweep"], values, look["color"])
    return line


def _finish(axes: Any, title: str, ylabel: str, values: NDArray[np.float64]) -> None:
    table.mark_limits(axes, values)
    axes.set_title(title)
    axes.set_xlabel("sweep")
    axes.set_ylabel(ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    table.few_ticks(axes)
