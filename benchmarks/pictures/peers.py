"""Time against error of several solvers on a problem: diagrams of work and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

from benchmarks.measuring.races import front
from benchmarks.pictures import logarithmic, require
from dae_sdc.plotting import style
from dae_sdc.run.results import Result

_OURS, _LIKE, _UNLIKE = "-", (0, (5, 1.5)), (0, (1.2, 1.2))


def problems(result: Result) -> list[str]:
    """Names of the problems in a result of the study "peers", each of which has a picture."""
    require(result, "a comparison with peers")
    return list(dict.fromkeys(result.data["problem"].tolist()))


def peers(result: Result, problem: str | None = None) -> Figure:
    """Draw what the study "peers" found for one problem."""
    known = problems(result)
    chosen = known[0] if problem is None else problem
    rows, about = result.data[result.data["problem"] == chosen], result.parameters
    solvers = list(dict.fromkeys(rows["solver"].tolist()))
    lines = dict.fromkeys(about.get("like", ()), _LIKE)
    lines |= dict.fromkeys(about.get("unlike", ()), _UNLIKE)
    title = f"{style.text(chosen)}, n={rows['n'][0]}, index {rows['index'][0]}"
    with style.styled():
        figure = style.figure(8.2, 4.8, title)
        axes = figure.subplots()
        without: list[str] = []
        for number, solver in enumerate(solvers):
            own = rows[(rows["solver"] == solver) & (rows["success"] == 1)]
            look = style.curve(number) | {"linestyle": lines.get(solver, _OURS)}
            if solver == about.get("default"):
                look |= {"linewidth": 2.4, "zorder": 3}
            if not _draw(axes, own, solver, look):
                without.append(solver)
        logarithmic(axes, "error at the end, relative to scale + |u|", "time of a run [ms]")
        axes.invert_xaxis()
        axes.xaxis.set_minor_formatter(NullFormatter())
        handles = axes.get_legend_handles_labels()[0]
        if handles:
            figure.legend(loc="outside right center")
        if without:
            words = f"never came to the end: {', '.join(map(style.text, without))}"
            figure.supxlabel(words, fontsize=style.SMALL, color=style.GREY)
    return figure


def _draw(axes: Any, rows: NDArray[np.void], solver: str, look: dict[str, Any]) -> bool:
    """The runs of a solver, if there are any."""
    errors, times = style.clipped(rows["error"]), style.clipped(1e3 * rows["time"])
    shown = np.isfinite(errors) & np.isfinite(times)
    if not shown.any():
        return False
    best_errors, best_times = front(errors[shown], times[shown])
    axes.plot(best_errors, best_times, label=style.text(solver), **look)
    others = look | {"linestyle": "none", "markersize": 3.0, "alpha": 0.35, "zorder": 1}
    axes.plot(errors[shown], times[shown], **others)
    return True
