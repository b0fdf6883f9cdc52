"""Time of a step by problem, sweeper and backend, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from benchmarks.pictures import NOTE, Rows, decimal, parameters_of, require
from dae_sdc.plotting import style
from dae_sdc.run.results import Result, combinations_of

LABELS = {"compiled": "compiled", "numpy": "NumPy"}
BACKENDS = tuple(LABELS)
_LINE = 0.19  # Height of a line of text in inches

# Blue for what pySDC does, orange for the sweeper, green for the equations and their algebra.
_COLOURS = {
    "controller": "#08519c",
    "hooks": "#4292c6",
    "convergence controllers": "#9ecae1",
    "keeping the step": "#deebf7",
    "sweeper, Python": "#D55E00",
    "compiled sweeps": "#fdae6b",
    "equations": "#00441b",
    "Jacobians": "#238b45",
    "factorisations": "#74c476",
    "solves with the factors": "#c7e9c0",
    "left over": "0.6",
}


def work(result: Result) -> Figure:
    require(result, "a study of work")
    data = result.data
    lines = [key for key, _ in combinations_of(data, ("problem", "n", "sweeper"))]
    panels = list(combinations_of(data, ["qdelta"]))
    with style.styled():
        title = f"time of a warm step, {parameters_of(result.parameters, 'nodes')}"
        figure = style.figure(3.0 + 4.2 * len(panels), 1.6 + _LINE * (len(lines) + 1), title)
        all_axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
        for axes, ((qdelta,), own) in zip(all_axes, panels, strict=True):
            _times(axes, own, lines)
            axes.set_title(style.text(qdelta))
        all_axes[0].set_yticks(range(len(lines)), [style.text(f"{p} ({n}), {s}") for p, n, s in lines])
        all_axes[0].set_ylim(len(lines) - 0.4, -0.6)
        known = [name for name in BACKENDS if name in data["backend"]]
        handles = [Line2D([], [], linestyle="", label=LABELS[name], **_look(name)) for name in known]
        if len(known) > 1:
            handles.append(Line2D([], [], linestyle="", marker="$2$", color=style.GREY, label="ratio"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _times(axes: Any, rows: Rows, lines: Sequence[Any]) -> None:
    axes.set_xscale("log")
    for key, points in combinations_of(rows, ("problem", "n", "sweeper")):
        place, times = lines.index(key), style.clipped(1e3 * points["time"])
        axes.plot(times, [place] * len(points), color="0.75", linewidth=1.5, zorder=1)
        for backend, time in zip(points["backend"].tolist(), times, strict=True):
            axes.plot([time], [place], linestyle="", **_look(backend))
        for ratio in points["ratio"][np.isfinite(points["ratio"])]:
            where = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(f"{ratio:.1f}", (times.max(), place), **where, **NOTE)
        if place and lines[place - 1][:2] != key[:2]:
            axes.axhline(place - 0.5, color="0.8", linewidth=0.8)
    axes.set_xlabel("time of a step [ms]")
    decimal(axes.xaxis, (1.0, 2.0, 5.0), 12)
    axes.margins(x=0.12)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)


def _look(backend: str) -> dict[str, Any]:
    look = style.curve(BACKENDS.index(backend) if backend in BACKENDS else len(BACKENDS))
    return {"color": look["color"], "marker": look["marker"], "markerfacecolor": look["color"]}


def profile(result: Result) -> Figure:
    require(result, "a study of profile")
    data, about = result.data, result.parameters
    problems = list(combinations_of(data, ("problem", "n")))
    backends = [[b for b in BACKENDS if b in own["backend"]] for _, own in problems]
    with style.styled():
        title = f"parts of a warm step: {parameters_of(about, 'sweeper', 'qdelta', 'nodes')}"
        bars = sum(map(len, backends))
        figure = style.figure(9.0, 1.5 + 0.5 * len(problems) + 0.5 * bars, title)
        heights = [len(found) + 0.6 for found in backends]
        panels = figure.subplots(len(problems), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, ((problem, n), own), found in zip(panels, problems, backends, strict=True):
            for place, backend in enumerate(found):
                _bar(axes, own[own["backend"] == backend], place)
            axes.set_yticks(range(len(found)), [LABELS[backend] for backend in found])
            axes.set_ylim(len(found) - 0.45, -0.55)
            axes.set_title(f"{style.text(problem)}, n={n}", loc="left")
            axes.set_xlim(left=0.0)
            axes.grid(axis="y", visible=False)
            axes.tick_params(axis="y", length=0)
        panels[-1].set_xlabel("time of a step [ms]")
        parts = [name for name in _COLOURS if name in data["part"]]
        handles: list[Any] = [Patch(color=_COLOURS[name], label=name) for name in parts]
        handles.append(Line2D([], [], color="black", linewidth=1.2, label="the step without timers"))
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def _bar(axes: Any, rows: Rows, place: int) -> None:
    """The parts of one backend, with those inside of one below it; a negative one is left away."""
    left = {"": 0.0}  # Where the next part begins, by what it is inside of
    for row in rows[rows["part"] != "step"]:
        name, inside = str(row["part"]), str(row["inside"])
        width = max(float(1e3 * row["time"]), 0.0)
        where = (place + 0.36, 0.14) if inside else (place, 0.55)
        edge = {} if inside else {"edgecolor": "white"}
        colour = _COLOURS.get(name, "0.8")
        axes.barh(where[0], width, left=left[inside], height=where[1], color=colour, **edge)
        if not inside:
            left[name] = left[""]
        left[inside] += width
    for row in rows[rows["part"] == "step"]:
        whole = float(1e3 * row["time"])
        axes.plot([whole, whole], [place - 0.34, place + 0.34], color="black", linewidth=1.2)
