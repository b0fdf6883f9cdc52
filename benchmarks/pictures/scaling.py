"""Times of sweeps against the size of the problem, and speed-up and efficiency against ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, ScalarFormatter
from numpy.typing import NDArray

from benchmarks.pictures import decimal, parameters_of, require
from benchmarks.studies.scaling.costs import Network, SweepCost, sweep_time
from dae_sdc.errors import ResultFileError
from dae_sdc.plotting import style
from dae_sdc.run.results import Result

NUMBERS = (*("n", "nodes", "ranks", "steps", "sweeps", "wall", "undisturbed"), *("speedup", "efficiency"))
TEXTS = ("source", "problem", "qdelta")
_POINTS = 60
_MODEL = {"marker": "", "linewidth": 1.3}


def scaling(result: Result) -> Figure:
    """Draw what the study "scaling" found."""
    require(result, "scaling", NUMBERS, TEXTS, ["pinned"])
    data, about = result.data, result.parameters
    problems = [str(name) for name in dict.fromkeys(data["problem"].tolist())]
    network, costs = _fits(about, problems)
    with style.styled():
        title = f"{parameters_of(about, 'nodes', 'qdelta')}: points measured, lines modelled"
        figure = style.figure(13.6, 3.7 * len(problems) + 0.5, title)
        grid = figure.subplots(len(problems), 4, squeeze=False, width_ratios=(1.25, 1, 1, 1))
        for axes, problem in zip(grid, problems, strict=True):
            rows = data[data["problem"] == problem]
            sizes = np.unique(rows["n"]).tolist()
            _times(axes[0], rows, costs[problem], network)
            axes[0].set_title(f"{style.text(problem)}: a sweep")
            for place, what in ((axes[1], "speedup"), (axes[2], "efficiency")):
                _ranks(place, rows, sizes, what)
            _steps(axes[3], rows, sizes)
    return figure


def _fits(about: Mapping[str, Any], problems: list[str]) -> tuple[Network, dict[str, SweepCost]]:
    """The fitted model, as the parameters of the result hold it."""
    try:
        fits = about["fits"]
        network = Network(float(fits["network"]["latency"]), float(fits["network"]["bandwidth"]))
        if not network.bandwidth > 0.0:
            raise ValueError(f"a bandwidth of {network.bandwidth:g}")
        costs = {problem: _cost(fits[problem]) for problem in problems}
    except (KeyError, TypeError, ValueError) as error:
        raise ResultFileError(
            f"the parameters of the result hold no fitted model ({type(error).__name__}: {error}); "
            f"run the study again"
        ) from None
    return network, costs


def _cost(fit: Mapping[str, Any]) -> SweepCost:
    names = ("controller", "replicated", "fixed", "growing", "exponent")
    shares = tuple(float(share) for share in fit["shares"])
    return SweepCost(shares=shares, **{name: float(fit[name]) for name in names})


def _times(axes: Any, rows: NDArray[np.void], cost: SweepCost, network: Network) -> None:
    """Computing and wall time of a sweep against n, measured and modelled."""
    measured = rows[rows["source"] == "measured"]
    parallel = measured[measured["ranks"] > 1]
    if len(parallel):
        measured = measured[measured["qdelta"] == parallel["qdelta"][0]]
    handles = []
    for number, ranks in enumerate(np.unique(measured["ranks"]).tolist()):
        own = measured[measured["ranks"] == ranks]
        look = style.curve(number)
        colour, marker = look["color"], look["marker"]
        for pinned in (False, True):
            part = np.sort(own[own["pinned"] == pinned], order="n")
            if not len(part):
                continue
            # Computing of ranks tied to one core is least disturbed; wall time is what was waited.
            shown = style.clipped(1e3 * (part["undisturbed"] if pinned else part["wall"]))
            face = colour if pinned else "none"
            axes.plot(part["n"], shown, color=colour, marker=marker, linestyle="", markerfacecolor=face)
        sizes = np.geomspace(max(own["n"].min(), 1), max(own["n"].max(), 2), _POINTS)
        nodes, per_step = int(own["nodes"][0]), float(np.mean(own["sweeps"] / own["steps"]))
        model = [1e3 * sweep_time(cost, network, round(n), nodes, ranks, max(per_step, 1.0)) for n in sizes]
        axes.plot(sizes, model, color=colour, linestyle=look["linestyle"], **_MODEL)
        word, points = "rank" if ranks == 1 else "ranks", {"color": colour, "marker": marker, "linestyle": ""}
        line = Line2D([], [], color=colour, linestyle=look["linestyle"], label=f"{ranks} {word}, model")
        handles += [line, Line2D([], [], label="computing (process time)", **points)]
        handles.append(Line2D([], [], markerfacecolor="none", label="wall time, shared cores", **points))
    axes.set(xscale="log", yscale="log", xlabel="unknowns n", ylabel="time of a sweep [ms]")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.6)  # room for the legend
    decimal(axes.yaxis)
    axes.legend(handles=handles, loc="upper left", handlelength=2.2)


def _ranks(axes: Any, rows: NDArray[np.void], sizes: list[int], what: str) -> None:
    """Speed-up or efficiency of sweeps with one node a rank, and with the measured number of nodes."""
    predicted, measured = rows[rows["source"] == "nodes"], rows[rows["source"] == "measured"]
    measured = measured[measured["ranks"] > 1]
    most = int(max([*predicted["ranks"].tolist(), *measured["ranks"].tolist(), 2]))
    ideal = np.array([1.0, most])
    bound = ideal if what == "speedup" else np.ones(2)
    axes.plot(ideal, bound, color="0.55", linewidth=0.9, linestyle=":")
    for number, n in enumerate(sizes):
        look = style.curve(number)
        colour = look["color"]
        line = predicted[(predicted["n"] == n) & (predicted["nodes"] == predicted["ranks"])]
        line = np.sort(line, order="ranks")
        curve = {"color": colour, "linestyle": look["linestyle"], **_MODEL}
        axes.plot([1, *line["ranks"]], [1.0, *line[what]], **curve)
        points = measured[measured["n"] == n]
        place = points["ranks"] + 0.07 * (number - 0.5 * (len(sizes) - 1))
        for pinned in (False, True):
            own, face = points["pinned"] == pinned, colour if pinned else "none"
            marks = {"marker": look["marker"], "linestyle": "", "markerfacecolor": face}
            axes.plot(place[own], points[what][own], color=colour, **marks)
    axes.set_xlabel("ranks P")
    axes.xaxis.set_major_locator(FixedLocator(list(range(1, most + 1))))
    if what == "speedup":
        axes.set(title="nodes on ranks: speed-up", ylabel="speed-up [-]")
        reached = [*predicted[what].tolist(), *measured[what].tolist(), 1.0]
        axes.set_ylim(0.5, min(most, 1.6 * max(reached)) + 0.2)
        handles = [Line2D([], [], color="0.55", linestyle=":", linewidth=0.9, label="ideal")]
        handles += [Line2D([], [], label=f"n={n}", **style.curve(k)) for k, n in enumerate(sizes)]
        axes.legend(handles=handles, loc="upper left", handlelength=2.6, frameon=True, edgecolor="none")
    else:
        axes.set(title="nodes on ranks: efficiency", ylabel="speed-up / P [-]", ylim=(0.0, 1.1))
        note = "points: M nodes on P ranks, process time\n(filled: one core); lines: M = P nodes"
        axes.annotate(note, (0.03, 0.03), xycoords="axes fraction", fontsize=style.SMALL, color=style.GREY)


def _steps(axes: Any, rows: NDArray[np.void], sizes: list[int]) -> None:
    """Speed-up of PFASST against the number of steps."""
    predicted = rows[rows["source"] == "pfasst"]
    axes.set(title="PFASST: speed-up", xlabel="steps P", ylabel="speed-up [-]")
    if not len(predicted):
        return
    ticks = np.unique(predicted["ranks"]).tolist()
    axes.plot([ticks[0], ticks[-1]], [ticks[0], ticks[-1]], color="0.55", linewidth=0.9, linestyle=":")
    for number, n in enumerate(sizes):
        look = style.curve(number)
        line = np.sort(predicted[predicted["n"] == n], order="ranks")
        axes.plot(line["ranks"], line["speedup"], color=look["color"], linestyle=look["linestyle"], **_MODEL)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ScalarFormatter())
        axis.set_minor_formatter(NullFormatter())
        axis.set_minor_locator(NullLocator())
