"""Unknowns of solutions over another unknown.

Plot: phase of solution, unknowns over another one (--x, --y)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dae_sdc.errors import InputError
from dae_sdc.plotting import style, table
from dae_sdc.plotting.runs import Run, Unknown, choose, headline, runs_of
from dae_sdc.plotting.solution import STEP, events_and_switches, failures, place_legend

START: dict[str, Any] = {"marker": "o", "color": "0.2", "markerfacecolor": "white", "markersize": 5.0}
END: dict[str, Any] = {"marker": "s", "color": "0.2", "markersize": 4.5}


def phase(
    results: Any, x: str | None = None, y: str | Sequence[str] | None = None, *, steps: bool = False
) -> Figure:
    """Draw unknowns of solutions over another unknown.

    Parameters
    ----------
    results : Result, Solution, sequence of these, or mapping of str to them
        One solution or several.
    x : str
        Name of the unknown along the horizontal axis, or "der(x)" for a derivative.
    y : str or sequence of str
        Unknowns along the vertical axis: names, and patterns with ``*`` and ``?``.
    steps : bool
        Whether the ends of steps are marked.

    Returns
    -------
    matplotlib.figure.Figure
        One panel; a circle is the start, a square the end. Both axes have the same scale if their units are
        the same, and a triangle is where an event or a switch was.

    Raises
    ------
    InputError
        If one of the two is missing, or a name is not an unknown of the solution.
    ResultFileError
        If names and units do not fit the data, or there is none that can be drawn.
    """
    if x is None or y is None:
        raise InputError("a phase plot needs the unknowns of both axes, as in --x x --y y; name them")
    runs = runs_of(results)
    across, up = [one[:1] for one in choose(runs, x)], choose(runs, y)
    both = [run for run, a, b in zip(range(len(runs)), across, up, strict=True) if a and b]
    if not both:
        raise InputError(f"no solution has both '{x}' and '{y}'; name unknowns of the same one")
    names = list(dict.fromkeys(one.name for number in both for one in up[number]))
    units = [{one.unit for number in both for one in part[number]} for part in (across, up)]
    with style.styled():
        figure = style.figure(6.4, 5.2, headline(runs))
        axes = figure.subplots()
        handles = []
        for number in both:
            for one in up[number]:
                place = number if len(names) == 1 else names.index(one.name)
                look = style.line(place, len(runs) if len(names) == 1 else len(names))
                look["linestyle"] = style.LINES[0 if len(names) == 1 else number % len(style.LINES)]
                _curve(axes, runs[number], across[number][0], one, look, steps)
                parts = [one.name] if len(names) > 1 else []
                parts += [runs[number].label] if len(runs) > 1 else []
                if parts:
                    handles.append(Line2D([], [], label=style.text(", ".join(parts)), **look))
        handles += [Line2D([], [], linestyle="", label="start", **START)]
        handles += [Line2D([], [], linestyle="", label="end", **END)]
        handles += [Line2D([], [], linestyle="", label="ends of steps", **STEP)] if steps else []
        pairs = [(runs[number], across[number][0], one) for number in both for one in up[number]]
        handles += events_and_switches(runs, lambda times, look: _at_times(axes, pairs, times, look))
        handles += failures(runs, lambda run, look: None)
        axes.set_xlabel(f"{style.text(across[both[0]][0].name)}{_unit(units[0])}")
        shown = ", ".join(names)
        axes.set_ylabel(
            f"{style.text(shown if len(shown) < 40 else f'{len(names)} unknowns')}{_unit(units[1])}"
        )
        if units[0] == units[1] and len(units[0]) == 1 and "" not in units[0]:
            axes.set_aspect("equal", adjustable="datalim")
        place_legend(figure, handles, 6.2)
    return figure


def _unit(units: set[str]) -> str:
    return style.bracket(next(iter(units))) if len(units) == 1 else ""


def _curve(axes: Any, run: Run, across: Unknown, up: Unknown, look: dict[str, Any], steps: bool) -> None:
    _, (x, y) = run.curves([across, up])
    x, y = (np.clip(values, -style.CEILING, style.CEILING) for values in (x, y))
    known = np.isfinite(x) & np.isfinite(y)
    axes.plot(np.where(known, x, np.nan), np.where(known, y, np.nan), **look)
    table.mark_cut(axes, np.concatenate([x, y]))
    for place, mark in ((0, START), (-1, END)):
        if known.any():
            axes.plot(x[known][place], y[known][place], linestyle="", zorder=3, **mark)
    if steps:
        points = run.at_rows(across), run.at_rows(up)
        axes.plot(*points, linestyle="", **{**STEP, "color": look["color"]})


def _at_times(axes: Any, pairs: list[tuple[Run, Unknown, Unknown]], times: Any, look: dict[str, Any]) -> None:
    """Triangles on the curves at some times; ``look`` becomes that of the triangles."""
    colour = look["color"]
    look.clear()
    look |= {"linestyle": "", "marker": "^", "color": colour, "markersize": 5.0, "zorder": 3}
    for run, across, up in pairs:
        when, curves = run.curves([across, up])
        inside = times[(times >= when[0]) & (times <= when[-1])]
        axes.plot(*(np.interp(inside, when, values) for values in curves), **look)
