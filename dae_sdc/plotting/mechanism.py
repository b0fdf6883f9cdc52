"""A planar mechanism: its points and bars at several times, and its motion.

Plot: mechanism of solution, a planar mechanism, with --out FILE.gif its motion (--points, --bars)
    $ dae-sdc solve pendulum --rtol 1e-6 --out pendulum.npy
    $ dae-sdc plot mechanism pendulum.npy --points "O=0,0; A=x,y" -o mechanism.png
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dae_sdc.errors import InputError
from dae_sdc.options import names_in as names_in_text
from dae_sdc.plotting import style
from dae_sdc.plotting.formulas import evaluate, names_in
from dae_sdc.plotting.runs import Run, Values, headline, runs_of
from dae_sdc.plotting.solution import failures, place_legend

POSITIONS = 6
"""Number of times at which a still picture shows the mechanism."""

FRAMES = 150
"""Frames of the motion where its true speed would take less than 2 or more than 12 seconds."""

FRAMES_PER_SECOND = 25


class Point(NamedTuple):
    """A point of a mechanism along a solution."""

    name: str  # What it is called.
    # x, y: shape (K,). Its coordinates at the times of the picture.
    x: Values
    y: Values

    @property
    def is_fixed(self) -> bool:
        """Whether it stays where it is."""
        return bool(np.ptp(self.x) == 0.0 and np.ptp(self.y) == 0.0)


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
        unit = _length_unit(run, texts)
        axes.set(xlabel=f"x{style.bracket(unit)}", ylabel=f"y{style.bracket(unit)}")
        handles = []
        for number, point in enumerate(found):
            look = style.line(number, len(found))
            if point.is_fixed:
                look |= {"linestyle": "", "marker": "^", "markersize": 9.0}
            axes.plot(point.x, point.y, **{"linewidth": 0.9, **look}, alpha=0.7, zorder=1)
            handles.append(Line2D([], [], label=style.text(point.name), **look))
        every = np.linspace(times[0], times[-1], POSITIONS)
        positions = [
            _place(axes, joined, when, times, x, y, shade)
            for when, shade in zip(every, np.linspace(0.8, 0.1, POSITIONS), strict=True)
        ]
        handles += failures(runs, lambda run, look: None)
        ends = [Line2D([], [], color="0.8", label="start"), Line2D([], [], color="0.1", label="end")]
        place_legend(figure, [*handles, *ends], 5.0)
    span = float(times[-1] - times[0])
    frames = int(FRAMES_PER_SECOND * span) if 2.0 <= span <= 12.0 else FRAMES
    clock = axes.set_title("", loc="left", fontsize=9, color=style.GREY)

    def show_frame(number: int) -> None:
        when = times[0] + span * number / max(frames - 1, 1)
        if len(positions) > 1:  # until now it was a still picture
            figure.legends[0].remove()
            place_legend(figure, handles, 5.0)
        while positions:
            for line in positions.pop():
                line.remove()
        positions.append(_place(axes, joined, when, times, x, y, 0.1))
        clock.set_text(f"t = {when:.3g} {run.time_unit}")

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
        parts = names_in_text(right if equals else text)
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
    known = [*run.unknowns, *run.rates]
    names = dict.fromkeys(name for pair in texts.values() for text in pair for name in names_in(text, known))
    chosen = [one for one in map(run.find, names) if one is not None]
    times, curves = run.curves(chosen)
    values = {**numbers, **{one.name: column for one, column in zip(chosen, curves, strict=True)}}
    found = []
    for name, pair in texts.items():
        x, y = (
            np.broadcast_to(np.asarray(evaluate(text, values), dtype=float), times.shape) for text in pair
        )
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


def _length_unit(run: Run, texts: Mapping[str, tuple[str, str]]) -> str | None:
    """The unit of the coordinates that are unknowns, if it is one."""
    units = {run.unknowns[text].unit for pair in texts.values() for text in pair if text in run.unknowns}
    return units.pop() if len(units) == 1 else None
