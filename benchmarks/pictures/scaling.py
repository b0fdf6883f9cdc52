"""Times of sweeps against the size of the problem, and speed-up and efficiency against ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from benchmarks.pictures import DOTTED, NOTE, Rows, curves, logarithmic, parameters_of, require
from dae_sdc.plotting import style
from dae_sdc.run.results import Result, combinations_of

LINE: dict[str, Any] = {"marker": "", "linewidth": 1.3}
HOLLOW: dict[str, Any] = {"linestyle": "", "markerfacecolor": "none"}
FULL: dict[str, Any] = {"linestyle": "", "markerfacecolor": "full"}


def scaling(result: Result) -> Figure:
    require(result, "a study of scaling")
    problems = list(combinations_of(result.data, ["problem"]))
    with style.styled():
        title = f"{parameters_of(result.parameters, 'nodes', 'qdelta')}: points measured, lines modelled"
        figure = style.figure(13.6, 3.7 * len(problems) + 0.5, title)
        grid = figure.subplots(len(problems), 4, squeeze=False, width_ratios=(1.25, 1, 1, 1))
        for (times, speedup, efficiency, pfasst), ((problem,), rows) in zip(grid, problems, strict=True):
            _times(times, rows)
            times.set_title(f"{style.text(problem)}: a sweep")
            _ranks(speedup, rows, "speedup")
            speedup.set(title="nodes on ranks: speed-up", ylabel="speed-up [-]")
            speedup.legend(loc="upper left", handlelength=2.6, frameon=True, edgecolor="none")
            _ranks(efficiency, rows, "efficiency")
            efficiency.set(title="nodes on ranks: efficiency", ylabel="speed-up / P [-]", ylim=(0.0, 1.1))
            note = "points: M nodes on P ranks, process time\n(filled: one core); lines: M = P nodes"
            efficiency.annotate(note, (0.03, 0.03), xycoords="axes fraction", **NOTE)
            _steps(pfasst, rows[rows["source"] == "pfasst"])
    return figure


def _times(axes: Any, rows: Rows) -> None:
    """Computing and wall time of a sweep against n, measured and modelled."""
    measured = rows[rows["source"] == "measured"]
    shared = measured[measured["ranks"] > 1]
    measured = measured[np.isin(measured["qdelta"], shared["qdelta"])] if len(shared) else measured
    free, pinned = measured[~measured["pinned"]], measured[measured["pinned"]]
    # Computing of ranks tied to one core is least disturbed; wall time is what was waited.
    for of, column, label, look in (
        (free, "model", lambda p: f"{p} rank{'s' if p > 1 else ''}, model", LINE),
        (pinned, "undisturbed", lambda p: "computing (process time)", FULL),
        (free, "wall", lambda p: "wall time, shared cores", HOLLOW),
    ):
        curves(axes, of, "n", column, ["ranks"], label, factor=1e3, **look)
    logarithmic(axes, "unknowns n", "time of a sweep [ms]", room=0.6)
    axes.legend(loc="upper left", handlelength=2.2)


def _ranks(axes: Any, rows: Rows, what: str) -> None:
    """Speed-up or efficiency of sweeps with one node a rank, and with the measured number of nodes."""
    predicted = rows[(rows["source"] == "nodes") & (rows["nodes"] == rows["ranks"])]
    measured = rows[(rows["source"] == "measured") & (rows["ranks"] > 1)]
    most = max([*predicted["ranks"].tolist(), *measured["ranks"].tolist(), 2])
    looks = {(n,): number for number, n in enumerate(np.unique(rows["n"]).tolist())}
    axes.plot([1, most], [1, most if what == "speedup" else 1], label="ideal", **DOTTED)
    curves(axes, predicted, "ranks", what, ["n"], lambda n: f"n={n}", looks=looks, **LINE)
    curves(axes, measured[~measured["pinned"]], "ranks", what, ["n"], looks=looks, **HOLLOW)
    curves(axes, measured[measured["pinned"]], "ranks", what, ["n"], looks=looks, **FULL)
    axes.set_ylim(0.5, min(most, 1.6 * max([*predicted[what], *measured[what], 1.0])) + 0.2)
    axes.set_xlabel("ranks P")
    axes.xaxis.set_major_locator(FixedLocator(list(range(1, most + 1))))


def _steps(axes: Any, rows: Rows) -> None:
    """Speed-up of PFASST against the number of steps."""
    axes.set(title="PFASST: speed-up", xlabel="steps P", ylabel="speed-up [-]")
    if not len(rows):
        return
    ticks = np.unique(rows["ranks"]).tolist()
    axes.plot(ticks, ticks, **DOTTED)
    curves(axes, rows, "ranks", "speedup", ["n"], **LINE)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ScalarFormatter())
        axis.set_minor_locator(NullLocator())
