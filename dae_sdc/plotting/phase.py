"""Unknowns of solutions over another unknown.

Plot: phase of solution, unknowns over another one (--x, --y)
    $ dae-sdc solve pendulum --rtol 1e-6 --out pendulum.npy
    $ dae-sdc plot phase pendulum.npy --x x --y "der(x)" -o phase.png
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dae_sdc.errors import InputError
from dae_sdc.plotting import style, table
from dae_sdc.plotting.runs import Run, Unknown, choose, headline, runs_of
from dae_sdc.plotting.solution import (
    LARGEST_RATIO,
    STEP,
    events_and_switches,
    failures,
    place_legend,
    some_of,
)

START: dict[str, Any] = {"marker": "o", "color": "0.2", "markerfacecolor": "white", "markersize": 5.0}
END: dict[str, Any] = {"marker": "s", "color": "0.2", "markersize": 4.5}


def phase(
    results: Any, x: str | None = None, y: str | Sequence[str] | None = None, *, steps: bool = False
) -> Figure:
    """Draw unknowns of solutions over another unknown."""
    if x is None or y is None:
        raise InputError("a phase plot needs the unknowns of both axes, as in --x x --y y; name them")
    runs = runs_of(results)
    across, up = [one[:1] for one in choose(runs, x)], choose(runs, y)
    both = [run for run, a, b in zip(range(len(runs)), across, up, strict=True) if a and b]
    if not both:
        raise InputError(f"no solution has both '{x}' and '{y}'; name unknowns of the same one")
    names = list(dict.fromkeys(one.name for number in both for one in up[number]))
    units = [{one.unit for number in both for one in part[number]} for part in (across, up)]
    parts = _by_size(runs, both, up)
    with style.styled():
        figure = style.figure(6.4, 2.2 + 3.0 * len(parts), headline(runs))
        grid = figure.subplots(len(parts), 1, sharex=True, squeeze=False)[:, 0]
        panel = {name: axes for axes, part in zip(grid, parts, strict=True) for name in part}
        lines, marks = [], len(names) * len(both) <= len(style.LINE_COLOURS)
        for number in both:
            for one in up[number]:
                place = number if len(names) == 1 else names.index(one.name)
                look = style.line(place, len(runs) if len(names) == 1 else len(names))
                look["linestyle"] = style.LINES[0 if len(names) == 1 else number % len(style.LINES)]
                _curve(panel[one.name], runs[number], across[number][0], one, look, steps, marks)
                told = [one.name] if len(names) > 1 else []
                told += [runs[number].label] if len(runs) > 1 else []
                if told:
                    lines.append(Line2D([], [], label=style.text(", ".join(told)), **look))
        handles = some_of(lines)
        handles += [Line2D([], [], linestyle="", label="start", **START)]
        handles += [Line2D([], [], linestyle="", label="end", **END)]
        handles += [Line2D([], [], linestyle="", label="ends of steps", **STEP)] if steps else []
        pairs = [(runs[number], across[number][0], one) for number in both for one in up[number]]
        handles += events_and_switches(runs, lambda times, look: _at_times(panel, pairs, times, look))
        handles += failures(runs, lambda run, look: None)
        grid[-1].set_xlabel(f"{style.text(across[both[0]][0].name)}{_unit(units[0])}")
        for axes, part in zip(grid, parts, strict=True):
            shown = ", ".join(part)
            axes.set_ylabel(
                f"{style.text(shown if len(shown) < 40 else f'{len(part)} unknowns')}{_unit(units[1])}"
            )
        if len(parts) == 1 and units[0] == units[1] and len(units[0]) == 1 and "" not in units[0]:
            grid[0].set_aspect("equal", adjustable="datalim")
        place_legend(figure, handles, 6.2)
    return figure


def _by_size(runs: list[Run], both: list[int], up: list[list[Unknown]]) -> list[list[str]]:
    """Names in parts, of which each has unknowns that can be seen beside each other, in their order."""
    sizes: dict[str, float] = {}
    for number in both:
        for one, values in zip(up[number], runs[number].curves(up[number])[1], strict=True):
            finite = np.abs(values[np.isfinite(values)])
            sizes[one.name] = max(sizes.get(one.name, 0.0), float(finite.max()) if finite.size else 0.0)
    found: list[list[str]] = []
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if found and (sizes[name] * LARGEST_RATIO >= sizes[found[-1][0]] or not sizes[name]):
            found[-1].append(name)
        else:
            found.append([name])
    order = list(sizes)
    return [sorted(part, key=order.index) for part in found]


def _unit(units: set[str]) -> str:
    return style.bracket(next(iter(units))) if len(units) == 1 else ""


def _curve(
    axes: Any, run: Run, across: Unknown, up: Unknown, look: dict[str, Any], steps: bool, large: bool
) -> None:
    _, (x, y) = run.curves([across, up])
    x, y = (np.clip(values, -style.CEILING, style.CEILING) for values in (x, y))
    known = np.isfinite(x) & np.isfinite(y)
    axes.plot(np.where(known, x, np.nan), np.where(known, y, np.nan), **look)
    table.mark_cut(axes, np.concatenate([x, y]))
    for place, mark in ((0, START), (-1, END)):
        if known.any():
            own = mark if large else {**mark, "markersize": 2.5}
            axes.plot(x[known][place], y[known][place], linestyle="", zorder=3, **own)
    if steps:
        points = run.at_rows(across), run.at_rows(up)
        axes.plot(*points, linestyle="", **{**STEP, "color": look["color"]})


def _at_times(
    panel: Mapping[str, Any], pairs: list[tuple[Run, Unknown, Unknown]], times: Any, look: dict[str, Any]
) -> None:
    """Triangles on the curves at some times; ``look`` becomes that of the triangles."""
    colour = look["color"]
    look.clear()
    look |= {"linestyle": "", "marker": "^", "color": colour, "markersize": 5.0, "zorder": 3}
    for run, across, up in pairs:
        when, curves = run.curves([across, up])
        inside = times[(times >= when[0]) & (times <= when[-1])]
        panel[up.name].plot(*(np.interp(inside, when, values) for values in curves), **look)
