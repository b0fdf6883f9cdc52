"""Mechanisms, trajectories, phase curves: unknowns over other unknowns.

Plot: phase of solution, unknowns over another one (--x, --y)
    $ dae-sdc solve pendulum --rtol 1e-6 --out pendulum.npy
    $ dae-sdc plot phase pendulum.npy --x x --y "der(x)" -o phase.png
Plot: mechanism of solution, a planar mechanism, with --out FILE.gif its motion (--points, --bars)
    $ dae-sdc solve pendulum --rtol 1e-6 --out pendulum.npy
    $ dae-sdc plot mechanism pendulum.npy --points "O=0,0; A=x,y" -o mechanism.png
Plot: pendulum of pendulum, trajectories by method
    $ dae-sdc pendulum-study --sweeper reference,bdf2 --k 100,1500 --out bounce.npy
    $ dae-sdc plot pendulum bounce.npy -o pendulum.png
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.plotting import style
from dae_sdc.plotting.solution import (
    STEP,
    Run,
    Unknown,
    Values,
    by_size,
    choose,
    events_and_switches,
    failures,
    headline,
    place_legend,
    runs_of,
    some_of,
)
from dae_sdc.run.results import Result
from dae_sdc.run.unknowns import compiled_expression, evaluated
from dae_sdc.text import names_in

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
    sizes: dict[str, float] = {}
    for number in both:
        for one, values in zip(up[number], runs[number].curves(up[number])[1], strict=True):
            finite = np.abs(values[np.isfinite(values)])
            sizes[one.name] = max(sizes.get(one.name, 0.0), float(finite.max(initial=0.0)))
    parts = by_size(sizes)
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
        name = style.text(across[both[0]][0].name)
        grid[-1].set_xlabel(f"{name}{style.multiples(grid[-1].xaxis, _unit(units[0]))}")
        for axes, part in zip(grid, parts, strict=True):
            shown = ", ".join(part)
            shown = shown if len(shown) < 40 else f"{len(part)} unknowns"
            axes.set_ylabel(f"{style.text(shown)}{style.multiples(axes.yaxis, _unit(units[1]))}")
        if len(parts) == 1 and units[0] == units[1] and len(units[0]) == 1 and "" not in units[0]:
            grid[0].set_aspect("equal", adjustable="datalim")
        place_legend(figure, handles, 6.2)
    return figure


def _unit(units: set[str]) -> str:
    return next(iter(units)) if len(units) == 1 else ""


def _curve(
    axes: Any, run: Run, across: Unknown, up: Unknown, look: dict[str, Any], steps: bool, large: bool
) -> None:
    _, (x, y) = run.curves([across, up])
    x, y = (np.clip(values, -style.CEILING, style.CEILING) for values in (x, y))
    known = np.isfinite(x) & np.isfinite(y)
    axes.plot(np.where(known, x, np.nan), np.where(known, y, np.nan), **look)
    style.mark_cut(axes, np.concatenate([x, y]))
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


POSITIONS = 6  # Number of times at which a still picture shows the mechanism.
FRAMES = 150  # Frames of the motion where its true speed would take less than 2 or more than 12 seconds.

FRAMES_PER_SECOND = 25


class Point(NamedTuple):
    """A point of a mechanism along a solution."""

    name: str  # What it is called.
    # x, y: shape (K,). Its coordinates at the times of the picture.
    x: Values
    y: Values


def mechanism(results: Any, points: str | None = None, bars: str | None = None) -> Figure:
    """Draw a planar mechanism at several times, with the paths of its points."""
    runs = runs_of(results)
    if len(runs) > 1:
        raise InputError(f"'mechanism' draws one solution; got {len(runs)}; draw each by itself")
    (run,) = runs
    texts = _texts(points) if points is not None else _pairs(run)
    times, found = _points(run, texts)
    joined = _bars(bars, [point.name for point in found])
    x, y = (np.array([getattr(point, name) for point in found]) for name in "xy")
    with style.styled():
        low, high = np.nanmin([x, y], axis=(1, 2)), np.nanmax([x, y], axis=(1, 2))
        width, height = np.maximum(high - low, 0.05 * (high - low).max() or 1.0) * 1.12
        ratio = float(np.clip(height / width, 0.35, 1.6))
        figure = style.figure(5.6 / max(ratio, 1.0) + 0.9, 5.6 * min(ratio, 1.0) + 1.4, headline(runs))
        axes = figure.subplots()
        middle = 0.5 * (low + high)
        axes.set(xlim=middle[0] + 0.5 * np.array([-width, width]))
        axes.set(ylim=middle[1] + 0.5 * np.array([-height, height]))
        axes.set_aspect("equal", adjustable="box")
        units = {run.unknowns[text].unit for pair in texts.values() for text in pair if text in run.unknowns}
        unit = units.pop() if len(units) == 1 else None
        axes.set(xlabel=style.label("x", unit), ylabel=style.label("y", unit))
        handles = []
        for number, point in enumerate(found):
            look = style.line(number, len(found))
            if np.ptp(point.x) == np.ptp(point.y) == 0.0:  # it stays where it is
                look |= {"linestyle": "", "marker": "^", "markersize": 9.0}
            axes.plot(point.x, point.y, **{"linewidth": 0.9, **look}, alpha=0.7, zorder=1)
            handles.append(Line2D([], [], label=style.text(point.name), **look))
        every = np.linspace(times[0], times[-1], POSITIONS)
        shades = zip(every, np.linspace(0.8, 0.1, POSITIONS), strict=True)
        positions = [_place(axes, joined, when, times, x, y, shade) for when, shade in shades]
        handles += failures(runs, lambda run, look: None)
        ends = [Line2D([], [], color="0.8", label="start"), Line2D([], [], color="0.1", label="end")]
        place_legend(figure, [*handles, *ends], 5.0)
    span = float(times[-1] - times[0])
    frames = int(FRAMES_PER_SECOND * span) if 2.0 <= span <= 12.0 else FRAMES
    clock = axes.set_title("", loc="left", y=1.0, fontsize=9, color=style.GREY)

    def show_frame(number: int) -> list[Any]:
        when = times[0] + span * number / max(frames - 1, 1)
        if len(positions) > 1:  # until now it was a still picture
            figure.legends[0].remove()
            place_legend(figure, handles, 5.0)
        while positions:
            for line in positions.pop():
                line.remove()
        positions.append(_place(axes, joined, when, times, x, y, 0.1))
        clock.set_text(f"t = {when:.3g} {run.time_unit}")
        return [*positions[0], clock]

    figure.frames, figure.show_frame = frames, show_frame
    return figure


def _place(
    axes: Any, joined: list[tuple[int, int]], when: float, times: Values, x: Values, y: Values, shade: float
) -> list[Any]:
    """Draw the bars and points at a time; returns the lines."""
    across, up = ([np.interp(when, times, row) for row in part] for part in (x, y))
    colour = f"{shade:.2f}"
    lines = [axes.plot(across, up, linestyle="", marker="o", markersize=4.0, color=colour, zorder=3)[0]]
    for a, b in joined:
        ends = [across[a], across[b]], [up[a], up[b]]
        lines += axes.plot(*ends, color=colour, linewidth=2.0, zorder=2, solid_capstyle="round")
    return lines


def _texts(points: str) -> dict[str, tuple[str, str]]:
    """Formulas of the coordinates by the names of the points."""
    found = {}
    for number, text in enumerate((part for part in points.split(";") if part.strip()), start=1):
        name, equals, right = text.partition("=")
        parts = names_in(right if equals else text)
        if len(parts) != 2:
            raise InputError(f"a point is NAME=X,Y with points separated by semicolons; got '{text.strip()}'")
        found[name.strip() if equals else f"P{number}"] = (parts[0], parts[1])
    if not found:
        raise InputError("there is no point in points; write them as 'O=0,0; A=x,y'")
    return found


def _pairs(run: Run) -> dict[str, tuple[str, str]]:
    """Pairs of unknowns of one unit whose names differ in an x and a y."""
    found = {}
    for name, one in run.unknowns.items():
        for place in (place for place, letter in enumerate(name) if letter == "x"):
            other = f"{name[:place]}y{name[place + 1 :]}"
            if other in run.unknowns and run.unknowns[other].unit == one.unit and "der(" not in name:
                rest = f"{name[:place]}{name[place + 1 :]}".strip("._")
                found[rest or "P"] = (name, other)
    if not found:
        raise InputError(
            "no unknowns are called like coordinates of points; name them, as in --points 'O=0,0; A=x,y'"
        )
    return found


def _points(run: Run, texts: Mapping[str, tuple[str, str]]) -> tuple[Values, list[Point]]:
    """Times, and points along the solution."""
    params = run.result.parameters.get("params", {})
    numbers = {name: value for name, value in params.items() if isinstance(value, int | float)}
    known = list(dict.fromkeys([*run.unknowns, *run.rates, *numbers]))
    formulas = {
        text: compiled_expression(text, known, f"the formula '{text}'")[:2]
        for pair in texts.values()
        for text in pair
    }
    names = dict.fromkeys(name for _, used in formulas.values() for name in used)
    chosen = [one for one in map(run.find, names) if one is not None]
    times, curves = run.curves(chosen)
    values = {**numbers, **{one.name: column for one, column in zip(chosen, curves, strict=True)}}
    found = []
    for name, pair in texts.items():
        codes = (formulas[text] for text in pair)
        both = (
            np.asarray(evaluated(code, [values[one] for one in used], times), float) for code, used in codes
        )
        x, y = (np.broadcast_to(column, times.shape) for column in both)
        if not (np.isfinite(x).any() and np.isfinite(y).any()):
            raise InputError(f"point {name} is nowhere: {pair[0]}, {pair[1]} are not finite")
        found.append(Point(name, x, y))
    return times, found


def _bars(bars: str | None, names: list[str]) -> list[tuple[int, int]]:
    """The ends of the bars, as places of points."""
    if bars is None:
        return [(place, place + 1) for place in range(len(names) - 1)]
    found = []
    for text in (part for part in bars.split(",") if part.strip()):
        ends = [end.strip() for end in text.split("-")]
        if len(ends) != 2 or not set(ends) <= set(names):
            example = f"{names[0]}-{names[-1]}"
            raise InputError(
                f"a bar joins two of the points {', '.join(names)}, as in {example}; got '{text.strip()}'"
            )
        found.append((names.index(ends[0]), names.index(ends[1])))
    return found


NUMBERS = ("k", "amplitude_start", "amplitude_end")
TEXTS = ("method", "sweeper", "starting_procedure")
PATHS = ("y1", "y2")

REFERENCE = "reference"

FARTHEST = 3.2  # Coordinate up to which a trajectory is shown.

_ACROSS = 3


def methods(result: Result) -> list[str]:
    """Labels of the methods in a result of ``dae-sdc pendulum-study``, each of which has a picture."""
    style.require_columns(result, NUMBERS, TEXTS, "a study of the pendulum; run it again", PATHS)
    for name, column in ((name, result.data.dtype[name]) for name in PATHS):
        if column.base.kind != "f" or len(column.shape) != 1:
            raise ResultFileError(f"column '{name}' of the result holds no trajectories; run the study again")
    return list(dict.fromkeys(result.data["method"].tolist()))


def pendulum(result: Result, method: str | None = None) -> Figure:
    """Draw the trajectories of one method in a result of ``dae-sdc pendulum-study``."""
    known = methods(result)
    chosen = known[0] if method is None else method
    if chosen not in known:
        raise InputError(f"the result has no method '{chosen}'; it has {', '.join(known)}")
    data = result.data
    rows = data[data["method"] == chosen]
    exact = {float(row["k"]): row for row in data[data["sweeper"] == REFERENCE]}
    across = min(_ACROSS, len(rows))
    down = math.ceil(len(rows) / across)
    with style.styled():
        # A panel alone is too narrow for one line.
        first, about = rows[0], result.parameters
        parts = []
        dt, interval = about.get("dt"), about.get("interval")
        if first["starting_procedure"]:
            parts.append(f"started by {style.text(first['starting_procedure'])}")
        adaptive = "rtol" in (first.dtype.names or ()) and np.isfinite(first["rtol"])
        if first["sweeper"] != REFERENCE and isinstance(dt, int | float) and not adaptive:
            parts.append(f"dt={dt:g}")
        if isinstance(interval, list) and len(interval) == 2:
            parts.append(f"t = {interval[0]:g} to {interval[1]:g}")
        title = ("\n" if across == 1 else ", ").join(
            filter(None, (f"elastic pendulum, {style.text(first['method'])}", ", ".join(parts)))
        )
        figure = style.figure(1.0 + 2.8 * across, 1.2 + 2.9 * down, title)
        panels = style.panels(figure, len(rows), down, across)
        compares = False
        for axes, row in zip(panels, rows, strict=True):
            other = exact.get(float(row["k"])) if row["sweeper"] != REFERENCE else None
            compares |= other is not None
            _panel(axes, row, other)
        for axes in panels[::across]:
            axes.set_ylabel("y2 [length at rest]")
        for axes in panels[-across:]:
            axes.set_xlabel("y1 [length at rest]")
        handles = [Line2D([], [], color=style.COLOURS[0], linewidth=1.2, label="this method")]
        if compares:
            handles.append(Line2D([], [], color="0.72", linewidth=1.6, label="accurate solution"))
        for label, look in (("start", _START), ("end", _END)):
            handles.append(Line2D([], [], linestyle="", label=label, **look))
        figure.legend(handles=handles, loc="outside lower center", ncols=2 if across == 1 else 4)
    return figure


def _panel(axes: Any, row: np.void, other: np.void | None) -> None:
    path, goes = _shown(row)
    if other is not None:
        axes.plot(*_shown(other)[0], color="0.72", linewidth=1.6, zorder=1)
    axes.plot(*path, color=style.COLOURS[0], linewidth=0.8, zorder=2)
    for end, look in ((path[:, 0], _START), (path[:, -1], _END)):
        if np.isfinite(end).all():
            axes.plot(*end, linestyle="", zorder=4, **look)
    axes.set_aspect("equal", adjustable="datalim")
    first, last = (_number(float(row[name])) for name in ("amplitude_start", "amplitude_end"))
    axes.set_title(f"k={float(row['k']):g}: bounce {first} to {last}", fontsize=9)
    if goes:
        style.note(axes, goes, (0.5, 0.02), "center")


def _shown(row: np.void) -> tuple[NDArray[np.float64], str]:
    """The part of a trajectory that is drawn, NaN elsewhere, and a note on the rest."""
    path = np.array([row["y1"], row["y2"]])
    out = np.isfinite(path).all(axis=0) & (np.abs(path) > FARTHEST).any(axis=0)
    note = "leaves the picture" if out.any() else ""
    if not np.isfinite(path).all():
        note = "the run failed on its way"
    if out.any():
        # Nothing after it: a trajectory that comes back into the picture has no meaning.
        path[:, int(out.argmax()) :] = np.nan
    return path, note


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "-"


_START: dict[str, Any] = {"marker": "o", "color": style.COLOURS[1], "markersize": 6.0}
_END: dict[str, Any] = {"marker": "s", "color": "black", "markersize": 4.0}
