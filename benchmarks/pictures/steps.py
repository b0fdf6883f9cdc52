"""Time of a step by problem, sweeper and backend, and what it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from benchmarks.pictures import decimal, parameters_of, require
from dae_sdc.plotting import style
from dae_sdc.run.results import Result

WORK_NUMBERS = ("n", "time", "ratio")
WORK_TEXTS = ("problem", "sweeper", "qdelta", "backend")
PROFILE_NUMBERS = ("n", "time")
PROFILE_TEXTS = ("problem", "backend", "part", "inside")
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
    """Draw what the study "work" found."""
    require(result, "work", WORK_NUMBERS, WORK_TEXTS)
    data, about = result.data, result.parameters
    lines = list(dict.fromkeys((str(row["problem"]), int(row["n"]), str(row["sweeper"])) for row in data))
    qdeltas = list(dict.fromkeys(data["qdelta"].tolist()))
    with style.styled():
        title = f"time of a warm step, {parameters_of(about, 'nodes')}"
        figure = style.figure(3.0 + 4.2 * len(qdeltas), 1.6 + _LINE * (len(lines) + 1), title)
        panels = figure.subplots(1, len(qdeltas), squeeze=False, sharex=True, sharey=True)[0]
        for axes, qdelta in zip(panels, qdeltas, strict=True):
            own = data[data["qdelta"] == qdelta]
            _times(axes, own, lines)
            axes.set_title(style.text(qdelta))
        panels[0].set_yticks(range(len(lines)), _names(lines))
        panels[0].set_ylim(len(lines) - 0.4, -0.6)
        known = [name for name in BACKENDS if name in data["backend"]]
        handles = [Line2D([], [], linestyle="", label=LABELS[name], **_look(name)) for name in known]
        if "compiled" in known and "numpy" in known:
            handles.append(Line2D([], [], linestyle="", marker="$2$", color=style.GREY, label="ratio"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _times(axes: Any, rows: NDArray[np.void], lines: list[tuple[str, int, str]]) -> None:
    """Points of one Q_Delta."""
    axes.set_xscale("log")
    for place, (problem, n, sweeper) in enumerate(lines):
        own = rows[(rows["problem"] == problem) & (rows["n"] == n) & (rows["sweeper"] == sweeper)]
        times = {str(row["backend"]): float(style.clipped(1e3 * row["time"])) for row in own}
        if len(times) > 1:
            axes.plot(list(times.values()), [place] * len(times), color="0.75", linewidth=1.5, zorder=1)
        for backend, time in times.items():
            axes.plot([time], [place], linestyle="", **_look(backend))
        ratios = [float(row["ratio"]) for row in own if np.isfinite(row["ratio"])]
        if ratios:
            look = {"va": "center", "fontsize": style.SMALL, "color": style.GREY}
            where = {"xytext": (6, 0), "textcoords": "offset points"}
            axes.annotate(f"{ratios[0]:.1f}", (max(times.values()), place), **where, **look)
        if place and lines[place - 1][:2] != (problem, n):
            axes.axhline(place - 0.5, color="0.8", linewidth=0.8)
    axes.set_xlabel("time of a step [ms]")
    decimal(axes.xaxis, (1.0, 2.0, 5.0), 12)
    axes.margins(x=0.12)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)


def _names(lines: list[tuple[str, int, str]]) -> list[str]:
    """The problem once, with its first sweeper."""
    names = []
    for place, (problem, n, sweeper) in enumerate(lines):
        first = not place or lines[place - 1][:2] != (problem, n)
        names.append(f"{style.text(problem)} ({n}), {style.text(sweeper)}" if first else style.text(sweeper))
    return names


def _look(backend: str) -> dict[str, Any]:
    look = style.curve(BACKENDS.index(backend) if backend in BACKENDS else len(BACKENDS))
    return {"color": look["color"], "marker": look["marker"], "markerfacecolor": look["color"]}


def profile(result: Result) -> Figure:
    """Draw what the study "profile" found."""
    require(result, "profile", PROFILE_NUMBERS, PROFILE_TEXTS)
    data, about = result.data, result.parameters
    problems = list(dict.fromkeys((str(row["problem"]), int(row["n"])) for row in data))
    parts = [name for name in _COLOURS if name in data["part"]]
    parts += [str(name) for name in dict.fromkeys(data["part"].tolist()) if name not in (*_COLOURS, "step")]
    backends = [[b for b in BACKENDS if b in _own(data, key)["backend"]] for key in problems]
    with style.styled():
        title = f"parts of a warm step: {parameters_of(about, 'sweeper', 'qdelta', 'nodes')}"
        bars = sum(len(found) for found in backends)
        figure = style.figure(9.0, 1.5 + 0.5 * len(problems) + 0.5 * bars, title)
        heights = [len(found) + 0.6 for found in backends]
        panels = figure.subplots(len(problems), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, key, found in zip(panels, problems, backends, strict=True):
            own = _own(data, key)
            for place, backend in enumerate(found):
                _bar(axes, own[own["backend"] == backend], place, parts)
            axes.set_yticks(range(len(found)), [LABELS[backend] for backend in found])
            axes.set_ylim(len(found) - 0.45, -0.55)
            axes.set_title(f"{style.text(key[0])}, n={key[1]}", loc="left")
            axes.set_xlim(left=0.0)
            axes.grid(axis="y", visible=False)
            axes.tick_params(axis="y", length=0)
        panels[-1].set_xlabel("time of a step [ms]")
        handles: list[Any] = [Patch(color=_colour(name), label=style.text(name)) for name in parts]
        handles.append(Line2D([], [], color="black", linewidth=1.2, label="the step without timers"))
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def _own(data: NDArray[np.void], key: tuple[str, int]) -> NDArray[np.void]:
    rows: NDArray[np.void] = data[(data["problem"] == key[0]) & (data["n"] == key[1])]
    return rows


def _bar(axes: Any, rows: NDArray[np.void], place: int, parts: list[str]) -> None:
    """The parts of one backend; a part that came out negative is left away."""
    left = 0.0
    for name in parts:
        for row in rows[(rows["part"] == name) & (rows["inside"] == "")]:
            width = max(float(1e3 * row["time"]), 0.0)
            axes.barh(place, width, left=left, height=0.55, color=_colour(name), edgecolor="white")
            inner = left
            for inside in rows[rows["inside"] == name]:
                part = max(float(1e3 * inside["time"]), 0.0)
                axes.barh(place + 0.36, part, left=inner, height=0.14, color=_colour(str(inside["part"])))
                inner += part
            left += width
    for row in rows[rows["part"] == "step"]:
        whole = float(1e3 * row["time"])
        axes.plot([whole, whole], [place - 0.34, place + 0.34], color="black", linewidth=1.2)


def _colour(name: str) -> str:
    return _COLOURS.get(name, "0.8")
