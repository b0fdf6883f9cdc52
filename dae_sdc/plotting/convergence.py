"""Errors against the time step, the number of sweeps and time, with measured and expected orders.

Plot: loglog of convergence, error against dt
    $ dae-sdc convergence simple --sweeper radau-iia-3,radau-iia-5 --out orders.npy
    $ dae-sdc plot loglog orders.npy -o loglog.png
Plot: semilogy of iterations, error against sweeps
    $ dae-sdc iterations hessenberg-1 --sweeper semi-implicit --qdelta LU,MIN-SR-S --out sweeps.npy
    $ dae-sdc plot semilogy sweeps.npy -o semilogy.png
Plot: drift of drift, errors of constraints and energy over time
    $ dae-sdc drift rigid-pendulum --case unprojected-dop853,radau-iia-9/ggl --t-end 20 --out drift.npy
    $ dae-sdc plot drift drift.npy -o drift.png
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from dae_sdc.errors import ResultFileError
from dae_sdc.plotting import style
from dae_sdc.run.results import CONFIGURATION, Result, combinations_of

# Columns of texts in every study.
KEYS = tuple(name for name, _ in CONFIGURATION if name not in ("group", "dt"))
TEXTS = tuple(name for name, kind in CONFIGURATION if kind[0] == "U")

# Component groups in the order of their panels, as readers call them.
GROUPS = {
    "differential": "differential components",
    "algebraic": "algebraic components",
    "position": "positions",
    "velocity": "velocities",
    "multiplier": "multipliers",
}


Curve = tuple[str, NDArray[np.void]]  # The settings in which it differs from others, and its rows.


def curves(
    data: NDArray[np.void], keys: Sequence[str] = KEYS, unit: str | None = None
) -> tuple[str, list[Curve]]:
    """The settings that all curves of a study share, and its curves, in the order of their first rows."""
    found, places = list(combinations_of(data, keys)), range(len(keys))
    differing = [place for place in places if len({key[place] for key, _ in found}) > 1]
    common = _join(keys, found[0][0], [place for place in places if place not in differing], unit)
    differing = differing or [keys.index("sweeper")]
    return common, [(_join(keys, key, differing, unit) or "curve", rows) for key, rows in found]


def groups(data: NDArray[np.void]) -> list[str]:
    """The component groups of a study in the order of :data:`GROUPS`, others after them."""
    there = list(dict.fromkeys(str(group) for group in data["group"]))
    return [group for group in GROUPS if group in there] + [group for group in there if group not in GROUPS]


def _join(keys: Sequence[str], values: Sequence[object], positions: Sequence[int], unit: str | None) -> str:
    parts = []
    for position in positions:
        key, value = keys[position], values[position]
        if value in ("", 0):  # a Runge-Kutta method has neither nodes nor a preconditioner
            continue
        if key == "nodes":
            parts.append(f"M={value}")
        elif key == "dt":
            parts.append(f"dt={value:g}{f' {style.text(unit)}' if unit else ''}")
        else:
            parts.append(style.text(value))
    return ", ".join(parts)


_MOST_TICKS = 6
_STEEPEST = 100  # Largest order that gets a line; no method has it.


def loglog(result: Result) -> Figure:
    """Draw an order study."""
    style.require_columns(result, ["dt", "nodes", "error", "slope", "expected"], TEXTS)
    style.require_range(result, "dt", 1.0 / style.CEILING)
    data = result.data
    named = groups(data)
    common, drawn = curves(data)
    down, across = style.panels_of(len(named))
    with style.styled():
        height = 3.7 + 0.175 * (len(drawn) + 1)
        figure = style.figure(max(4.5 * across, 5.2), height * down + 0.3, common)
        for axes, group in zip(style.panels(figure, len(named), down, across), named, strict=True):
            _panel(axes, data, group, drawn)
            axes.set(
                title=GROUPS.get(group, style.text(group)),
                xlabel=style.label("time step dt", result.units.get("dt")),
                ylabel=style.error_label(result),
            )
    return figure


def _panel(axes: Any, data: NDArray[np.void], group: str, drawn: Sequence[Curve]) -> None:
    data = data[data["group"] == group]
    lines: list[Any] = []
    lowest: dict[float, float] = {}
    for number, (label, every) in enumerate(drawn):
        rows = every[every["group"] == group]
        if not len(rows):
            continue
        rows = rows[np.argsort(rows["dt"])]
        dt, error = rows["dt"].astype(float), style.clipped(rows["error"])
        slope, expected = float(rows["slope"][0]), float(rows["expected"][0])
        look = style.curve(number)
        lines += axes.loglog(dt, error, label=f"{label}, {_order(slope, expected)}", **look)
        style.mark_failed(axes, dt, error, look["color"])
        order = expected if math.isfinite(expected) else float(round(slope)) if math.isfinite(slope) else 0.0
        usable = np.isfinite(error) & (error > 100 * style.FLOOR)
        if 0 < order <= _STEEPEST and usable.any():
            level = float(np.median(np.log10(error[usable]) - order * np.log10(dt[usable])))
            lowest[order] = min(level, lowest.get(order, math.inf))
    style.mark_limits(axes, data["error"])
    dt, error = data["dt"], style.clipped(data["error"])
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
    style.few_ticks(axes)
    for order, level in sorted(lowest.items()):
        _reference(axes, order, level, dt)
    title = "configuration, order measured (expected)"
    axes.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, -0.17), title=title)


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
    look: dict[str, Any] = {"fontsize": style.SMALL, "color": style.GREY, "zorder": 1.5}
    look |= {"xytext": (-3, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
    look["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    axes.annotate(f"order {order:g}", (start, 10 ** heights[0]), **look)


def _order(slope: float, expected: float) -> str:
    measured = f"order {slope:{'.2f' if abs(slope) < 1e3 else '.3g'}}" if math.isfinite(slope) else "no order"
    return f"{measured} ({expected:g})" if math.isfinite(expected) else measured


def semilogy(result: Result) -> Figure:
    """Draw how errors and residuals fall with the sweeps."""
    style.require_columns(result, ["dt", "nodes", "sweep", "error", "residual"], TEXTS)
    style.require_range(result, "sweep", -style.CEILING)
    data = result.data
    named = groups(data)
    common, drawn = curves(data, (*KEYS, "dt"), result.units.get("dt"))
    labels = [label for label, _ in drawn]
    down, across = style.panels_of(len(named) + 1)
    width = max(4.2 * across, 5.0)
    columns = max(1, min(len(labels), int((width - 0.4) / (0.066 * max(map(len, labels)) + 0.75))))
    with style.styled():
        legend = 0.175 * math.ceil(len(labels) / columns)
        figure = style.figure(width, 3.4 * down + legend + 0.4, common)
        *grid, residual = style.panels(figure, len(named) + 1, down, across)
        lines = []
        for number, (label, rows) in enumerate(drawn):
            for axes, group in zip(grid, named, strict=True):
                if group in rows["group"]:
                    _curve(axes, rows[rows["group"] == group], "error", number, label)
            # every group repeats the residual of its configuration, so one of them is enough
            first = rows[rows["group"] == rows["group"][0]]
            lines.append(_curve(residual, first, "residual", number, label))
        for axes, group in zip(grid, named, strict=True):
            title, values = GROUPS.get(group, style.text(group)), data["error"][data["group"] == group]
            _finish(axes, title, style.error_label(result), values)
        ylabel = style.label("residual", result.units.get("residual"))
        _finish(residual, "residual", ylabel, data["residual"])
        figure.legend(lines, labels, loc="outside lower center", ncols=columns)
    return figure


def _curve(axes: Any, rows: NDArray[np.void], column: str, number: int, label: str) -> Any:
    rows = rows[np.argsort(rows["sweep"])]
    look, values = style.curve(number), style.clipped(rows[column])
    (line,) = axes.semilogy(rows["sweep"], values, label=label, **look)
    style.mark_failed(axes, rows["sweep"], values, look["color"])
    return line


def _finish(axes: Any, title: str, ylabel: str, values: NDArray[np.float64]) -> None:
    style.mark_limits(axes, values)
    axes.set(title=title, xlabel="sweep", ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.few_ticks(axes)


PANELS = {
    "constraint": "constraint |g|",
    "velocity": "velocity constraint |G v + ∂g/∂t|",
    "energy": "change of the energy",
    "error": "error of the position",
}
NUMBERS = ("t", *PANELS)

_MARKERS = 12  # Markers on a curve.


def drift(result: Result) -> Figure:
    """Draw constraint, velocity constraint, and energy or else the error of the position over time."""
    data, about = result.data, result.parameters
    style.require_columns(result, NUMBERS, ["case"], "a study of drift; run the study again")
    shown = [name for name in PANELS if np.isfinite(data[name]).any()]
    if "energy" in shown and "error" in shown:
        shown.remove("error")
    if not shown:
        raise ResultFileError("the result has no finite errors to draw; run the study again")
    cases = list(dict.fromkeys(data["case"].tolist()))
    with style.styled():
        figure = style.figure(1.4 + 3.5 * len(shown), 4.9, f"{style.text(about.get('problem', ''))}: drift")
        panels = figure.subplots(1, len(shown), squeeze=False, sharex=True)[0]
        for axes, name in zip(panels, shown, strict=True):
            for number, case in enumerate(cases):
                rows = data[data["case"] == case]
                every = max(1, len(rows) // _MARKERS)
                # Markers of different curves stand side by side.
                look = style.curve(number) | {"linewidth": 1.0, "markersize": 4.0}
                if np.isfinite(rows[name]).any() or not np.isfinite(rows["constraint"]).any():
                    style.mark_failed(axes, rows["t"], rows[name], look["color"])
                look |= {
                    "label": style.text(case),
                    "markevery": (number * every // max(1, len(cases)), every),
                }
                axes.plot(rows["t"], style.clipped(rows[name]), **look)
            axes.set(yscale="log", title=PANELS[name], xlabel=style.label("t", result.units.get("t")))
            style.mark_limits(axes, data[name])
        panels[0].set_ylabel("largest error in a part of the interval")
        style.legend_below(figure, panels[0], min(4, len(cases)))
    return figure
