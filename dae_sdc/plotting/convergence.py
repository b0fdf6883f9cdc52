"""Errors against the time step, with measured and expected orders.

Plot: loglog of convergence, error against dt
    $ dae-sdc convergence simple --sweeper radau-iia-3,radau-iia-5 --out orders.npy
    $ dae-sdc plot loglog orders.npy -o loglog.png
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from dae_sdc.plotting import style, table
from dae_sdc.plotting.labels import GROUPS, TEXTS, Curves, curves, groups
from dae_sdc.run.results import Result

_MOST_TICKS = 6
_STEEPEST = 100
"""Largest order that gets a line; no method has it."""


def loglog(result: Result) -> Figure:
    """Draw an order study."""
    table.require_columns(result, ["dt", "nodes", "error", "slope", "expected"], TEXTS)
    table.require_range(result, "dt", 1.0 / style.CEILING)
    data = result.data
    named = groups(data)
    found = curves(data)
    down, across = table.panels_of(len(named))
    with style.styled():
        height = 3.7 + 0.175 * (len(found.labels) + 1)
        figure = style.figure(max(4.5 * across, 5.2), height * down + 0.3, found.common)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, group in zip(grid, named, strict=False):
            _panel(axes, data, group, found)
            axes.set_title(GROUPS.get(group, style.text(group)))
            axes.set_xlabel(f"time step dt{style.bracket(result.units.get('dt'))}")
            axes.set_ylabel(
                f"{style.error_label(result.parameters)}{style.bracket(result.units.get('error'))}"
            )
        for axes in grid[len(named) :]:
            axes.remove()
    return figure


def _panel(axes: Any, data: NDArray[np.void], group: str, found: Curves) -> None:
    member = data["group"] == group
    lines: list[Any] = []
    lowest: dict[float, float] = {}
    for number, (label, every) in enumerate(zip(found.labels, found.rows, strict=True)):
        rows = every[member[every]]
        if not len(rows):
            continue
        rows = rows[np.argsort(data["dt"][rows])]
        dt, error = data["dt"][rows].astype(float), style.clipped(data["error"][rows])
        slope, expected = float(data["slope"][rows[0]]), float(data["expected"][rows[0]])
        look = style.curve(number)
        lines += axes.loglog(dt, error, label=f"{label}, {_order(slope, expected)}", **look)
        table.mark_failed(axes, dt, error, look["color"])
        order = expected if math.isfinite(expected) else float(round(slope)) if math.isfinite(slope) else 0.0
        usable = np.isfinite(error) & (error > 100 * style.FLOOR)
        if 0 < order <= _STEEPEST and usable.any():
            level = float(np.median(np.log10(error[usable]) - order * np.log10(dt[usable])))
            lowest[order] = min(level, lowest.get(order, math.inf))
    table.mark_limits(axes, data["error"][member])
    _limits(axes, data["dt"][member], style.clipped(data["error"][member]))
    for order, level in sorted(lowest.items()):
        _reference(axes, order, level, data["dt"][member])
    axes.legend(
        lines,
        [str(line.get_label()) for line in lines],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
        title="configuration, order measured (expected)",
    )


def _reference(axes: Any, order: float, level: float, dt: NDArray[np.float64]) -> None:
    """A dashed line of a slope, half a decade below the curves that have it, with the order at its end."""
    bottom = axes.get_ylim()[0]
    lowest = min((math.log10(bottom) + 0.4 - level + 0.5) / order, math.log10(style.CEILING))
    start = max(float(np.min(dt)), 10**lowest)
    end = float(np.max(dt))
    ends = np.array([start, end])
    heights = level - 0.5 + order * np.log10(ends)
    if start >= end or np.abs(heights).max() > math.log10(style.CEILING):
        return
    axes.plot(ends, 10**heights, color="0.55", linestyle=(0, (4, 3)), linewidth=0.9, zorder=1)
    axes.annotate(
        f"order {order:g}",
        (start, 10 ** heights[0]),
        xytext=(-3, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=style.SMALL,
        color=style.GREY,
        zorder=1.5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )


def _limits(axes: Any, dt: NDArray[np.float64], error: NDArray[np.float64]) -> None:
    """Room for the orders at the left, whole decades upwards, and ticks at the time steps themselves."""
    low, high = math.log10(np.min(dt)), math.log10(np.max(dt))
    span = max(high - low, 0.5)
    axes.set_xlim(10 ** (low - 0.24 * span), 10 ** (high + 0.06 * span))
    steps = np.unique(dt)
    if len(steps) <= 2 * _MOST_TICKS:
        ticks = steps[:: -(1 + (len(steps) - 1) // _MOST_TICKS)].tolist()
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    finite = error[np.isfinite(error)]
    if len(finite):
        below, above = math.log10(np.min(finite)), math.log10(np.max(finite))
        pad = max(0.08 * (above - below), 0.3)
        axes.set_ylim(10 ** (below - pad - 0.5), 10 ** (above + pad))
    table.few_ticks(axes)


def _order(slope: float, expected: float) -> str:
    measured = f"order {slope:{'.2f' if abs(slope) < 1e3 else '.3g'}}" if math.isfinite(slope) else "no order"
    return f"{measured} ({expected:g})" if math.isfinite(expected) else measured
