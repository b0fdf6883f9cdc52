"""Time against error of several solvers on a problem: diagrams of work and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from benchmarks.studies.peers.study import front
from dae_sdc.plotting import style
from dae_sdc.plotting.style import require_columns
from dae_sdc.run.results import Result

NUMBERS = ("n", "index", "rtol", "success", "time", "error")
TEXTS = ("problem", "solver", "weights")

_OURS, _LIKE, _UNLIKE = "-", (0, (5, 1.5)), (0, (1.2, 1.2))


def problems(result: Result) -> list[str]:
    """Names of the problems in a result of the study "peers", each of which has a picture.

    Parameters
    ----------
    result : Result
        Of kind "bench" with the parameter ``study`` "peers".

    Raises
    ------
    ResultFileError
        If the file lacks what is drawn.
    """
    require_columns(result, NUMBERS, TEXTS, "a comparison with peers; run the study again")
    return list(dict.fromkeys(result.data["problem"].tolist()))


def peers(result: Result, problem: str | None = None) -> Figure:
    """Draw what the study "peers" found for one problem.

    Parameters
    ----------
    result : Result
        Of kind "bench" with the parameter ``study`` "peers".
    problem : str, optional
        Name; the first in the result if not given.

    Returns
    -------
    matplotlib.figure.Figure
        Time over the error at the end, which falls to the right. A line a solver joins its runs that none of
        its own beats in both; smaller, paler markers are the others. Lines are solid for this package, dashed
        for peers, dotted for a peer with equations of its own.

    Raises
    ------
    ResultFileError
        If the file lacks what is drawn.
    """
    known = problems(result)
    chosen = known[0] if problem is None else problem
    rows, about = result.data[result.data["problem"] == chosen], result.parameters
    solvers = list(dict.fromkeys(rows["solver"].tolist()))
    lines = {name: _LIKE for name in _names(about, "like")} | {
        name: _UNLIKE for name in _names(about, "unlike")
    }
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
        _decorate(axes)
        handles = axes.get_legend_handles_labels()[0]
        if handles:
            figure.legend(loc="outside right center")
        if without:
            words = f"never came to the end: {', '.join(map(style.text, without))}"
            figure.supxlabel(words, fontsize=style.SMALL, color=style.GREY)
    return figure


def _names(about: Any, name: str) -> list[str]:
    given = about.get(name)
    return [str(one) for one in given] if isinstance(given, list | tuple) else []


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


def _decorate(axes: Any) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.invert_xaxis()
    axes.set_xlabel("error at the end, relative to scale + |u|")
    axes.set_ylabel("time of a run [ms]")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high < 30.0 * low else (1.0,), numticks=9)
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
