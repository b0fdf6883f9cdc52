"""Time and memory against the number of unknowns, and the time to an accuracy beside that of IDA."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.pictures import logarithmic, parameters_of, require
from dae_sdc.plotting import style
from dae_sdc.run.results import Result

NUMBERS = ("n", "nodes", "time", "memory", "memory_before", "time_run", "accuracy")
TEXTS = ("source", "solver")
_NAMES = {"superlu": "SuperLU", "klu": "KLU", "gmres": "GMRES", "dense": "dense", "auto": "automatic"}


def size(result: Result) -> Figure:
    """Draw what the study "size" found."""
    require(result, "sizes", NUMBERS, TEXTS)
    data, about = result.data, result.parameters
    steps, compared = data[data["source"] == "step"], data[data["source"] == "accuracy"]
    title = parameters_of(about, "problem", "sweeper", "nodes", "qdelta")
    with style.styled():
        figure = style.figure(12.6 if len(compared) else 8.4, 4.2, title)
        panels = figure.subplots(1, 3 if len(compared) else 2, squeeze=False)[0]
        _by_solver(panels[0], steps, "time", 1e3, "time of a step [ms]", True)
        panels[0].set_title("a warm step")
        _by_solver(panels[1], steps, "memory", 1e-6, "memory [MB]", False)
        panels[1].set_title("largest memory of a process")
        if len(compared):
            _compared(panels[2], compared)
            panels[2].set_title("whole run at equal accuracy")
    return figure


def _by_solver(axes: Any, rows: NDArray[np.void], name: str, factor: float, label: str, cubic: bool) -> None:
    """One line for each linear solver, and guides of slope beside them."""
    lowest, guides = np.inf, []
    for number, solver in enumerate(dict.fromkeys(rows["solver"].tolist())):
        own = np.sort(rows[rows["solver"] == solver], order="n")
        shown = style.clipped(factor * own[name])
        axes.plot(own["n"], shown, label=_NAMES.get(solver, style.text(solver)), **style.curve(number))
        if np.isfinite(shown).any():
            lowest = min(lowest, float(np.nanmin(shown)))
            guides.append((float(own["n"][-1]), float(shown[-1]), 3 if cubic and solver == "dense" else 1))
    if name == "memory" and np.isfinite(rows["memory_before"]).any():
        before = factor * float(np.nanmedian(rows["memory_before"]))
        axes.axhline(before, color=style.GREY, linewidth=0.9, linestyle=style.LINES[1], zorder=1)
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        place |= {"fontsize": style.SMALL, "color": style.GREY}
        axes.annotate("before the solve", (0.03, before), xytext=(0, -10), **place)
    logarithmic(axes, "unknowns n", label)
    low, high = axes.get_ylim()
    axes.set_ylim(low / 2.0, high * max(high / low, 10.0) ** 0.25)
    if guides and np.isfinite(lowest):
        smallest = float(rows["n"].min())
        for slope in {slope for *_, slope in guides}:
            ends = [(n, value) for n, value, own_slope in guides if own_slope == slope]
            farthest = max(n for n, _ in ends)
            _guide(axes, farthest, min(v for n, v in ends if n == farthest), lowest, smallest, slope)
    axes.legend(loc="upper left")


def _guide(axes: Any, n: float, value: float, lowest: float, smallest: float, slope: int) -> None:
    """A line of a slope that ends below the last point of a curve."""
    top = value / 2.0
    bottom = min(0.6 * lowest, top / 2.0)
    start = max(smallest, n / 30.0, n * (bottom / top) ** (1.0 / slope))
    ends, values = [start, n], [top * (start / n) ** slope, top]
    axes.plot(ends, values, color=style.GREY, linewidth=0.9, linestyle=":", zorder=1)
    word = "n" if slope == 1 else f"n$^{slope}$"
    place: dict[str, Any] = {"textcoords": "offset points", "fontsize": style.SMALL, "color": style.GREY}
    axes.annotate(word, (n, top), xytext=(4, -2), **place)


def _compared(axes: Any, rows: NDArray[np.void]) -> None:
    """Time of a run here and with IDA for each accuracy and number of nodes, with the ratio beside."""
    accuracies = sorted(set(rows["accuracy"].tolist()), reverse=True)
    nodes = sorted(set(rows["nodes"].tolist()))
    number = 0
    for accuracy in accuracies:
        for m in nodes:
            own = np.sort(rows[(rows["accuracy"] == accuracy) & (rows["nodes"] == m)], order="n")
            ours, theirs = own[own["solver"] == "dae_sdc"], own[own["solver"] == "ida"]
            if not len(ours):
                continue
            look = style.curve(number)
            number += 1
            look |= {"linestyle": "-", "markerfacecolor": look["color"]}
            shown = style.clipped(1e3 * ours["time_run"])
            axes.plot(ours["n"], shown, label=f"M={m}, error {accuracy:.0e}", **look)
            if len(theirs):
                look |= {"linestyle": (0, (1.0, 1.6)), "markerfacecolor": "white", "linewidth": 1.0}
                shown = style.clipped(1e3 * theirs["time_run"])
                axes.plot(theirs["n"], shown, label="IDA, as accurate", **look)
    logarithmic(axes, "unknowns n", "time of the run [ms]")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.3, high * (high / low) ** 0.45)
    axes.legend(loc="upper left", ncols=2, columnspacing=1.0, handlelength=2.4)
