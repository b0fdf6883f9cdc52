"""Pictures of studies, drawn from their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from benchmarks.measuring.races import front
from benchmarks.study import STUDIES
from dae_sdc.plotting import style
from dae_sdc.plotting.style import require_columns, require_range
from dae_sdc.run.results import Result, combinations_of

# A line to compare with
DOTTED: dict[str, Any] = {"color": style.GREY, "linewidth": 0.9, "linestyle": ":", "zorder": 1}
NOTE: dict[str, Any] = {"fontsize": style.SMALL, "color": style.GREY}
Rows = NDArray[np.void]


def require(result: Result, of: str) -> None:
    """Refuse results that lack columns of their study, and those with counts below 1 in them."""
    kinds = dict(STUDIES[result.parameters["study"]].columns)
    numbers, texts, flags = ([name for name in kinds if kinds[name][0] in kind] for kind in ("fi", "U", "?"))
    require_columns(result, numbers, texts, f"{of}; run the study again", flags)
    for name in ("n", "nodes", "ranks", "steps"):
        if kinds.get(name) == "i8":
            require_range(result, name, 1.0)


def parameters_of(about: Mapping[str, Any], *names: str) -> str:
    return ", ".join(f"{'M=' * (name == 'nodes')}{style.text(about.get(name, '?'))}" for name in names)


def curves(
    axes: Any,
    rows: Rows,
    x: str,
    y: str,
    apart: Sequence[str],  # Columns by whose values curves are told apart
    label: Callable[..., str] = lambda *key: "",  # From these values; no label if empty
    *,
    factor: float = 1.0,
    # Numbers of looks by these values, if they are not in the order of the curves
    looks: Mapping[Any, int] | None = None,
    **look: Any,  # What is drawn otherwise than usual
) -> None:
    """Draw a column, times a factor, over another, one curve for each combination of values."""
    for number, (key, curve) in enumerate(combinations_of(rows, apart)):
        curve = np.sort(curve, order=x)
        shown = style.curve(number if looks is None else looks[key])
        shown |= {"label": style.text(label(*key)) or None} | look
        if shown["markerfacecolor"] == "full":
            shown["markerfacecolor"] = shown["color"]
        axes.plot(curve[x], style.clipped(factor * curve[y]), **shown)


def decimal(axis: Any, subs: tuple[float, ...] = (1.0,), numticks: int = 9) -> None:
    """Mark a logarithmic axis by decimal numbers."""
    axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=numticks))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def logarithmic(axes: Any, x: str, y: str, room: float = 0.0) -> None:
    """Label two logarithmic axes, with a part of its height left free above for a legend."""
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * max(high / low, 10.0) ** room if room else high)
    # There are marks between powers of ten where the axis is short.
    decimal(axes.yaxis, (1.0, 2.0, 5.0) if high < 30.0 * low else (1.0,))


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
    axes.yaxis.set_minor_locator(ticker.NullLocator())
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


NAMES = {"superlu": "SuperLU", "klu": "KLU", "gmres": "GMRES", "auto": "automatic"}


def size(result: Result) -> Figure:
    require(result, "a study of sizes")
    steps, compared = (result.data[result.data["source"] == source] for source in ("step", "accuracy"))
    title = parameters_of(result.parameters, "problem", "sweeper", "nodes", "qdelta")
    with style.styled():
        figure = style.figure(12.6 if len(compared) else 8.4, 4.2, title)
        times, memory, *runs = figure.subplots(1, 3 if len(compared) else 2, squeeze=False)[0]
        for axes, name, factor in ((times, "time", 1e3), (memory, "memory", 1e-6)):
            curves(axes, steps, "n", name, ["solver"], lambda s: str(NAMES.get(s, s)), factor=factor)
            _guide(axes, steps, name, factor)
        before = 1e-6 * float(np.nanmedian([*steps["memory_before"], np.nan]))
        memory.axhline(before, **DOTTED | {"linestyle": style.LINES[1]})
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        memory.annotate("before the solve", (0.03, before), xytext=(0, -10), **place, **NOTE)
        logarithmic(times, "unknowns n", "time of a step [ms]", room=0.25)
        logarithmic(memory, "unknowns n", "memory [MB]", room=0.25)
        times.set_title("a warm step")
        memory.set_title("largest memory of a process")
        for axes in runs:
            ours, ida = (compared[compared["solver"] == name] for name in ("dae_sdc", "ida"))
            looks = {key: number for number, (key, _) in enumerate(combinations_of(ours, RUN))}
            how: dict[str, Any] = {"x": "n", "y": "time_run", "apart": RUN, "factor": 1e3, "looks": looks}
            full: dict[str, Any] = {"linestyle": "-", "markerfacecolor": "full"}
            curves(axes, ours, label="M={}, error {:.0e}".format, **how, **full)
            other: dict[str, Any] = {"linestyle": ":", "markerfacecolor": "white", "linewidth": 1.0}
            curves(axes, ida, label="IDA, as accurate".format, **how, **other)
            logarithmic(axes, "unknowns n", "time of the run [ms]", room=0.45)
            axes.set_title("whole run at equal accuracy")
        for axes in (times, memory, *runs):
            axes.legend(loc="upper left", ncols=2 if axes in runs else 1)
    return figure


RUN = ("nodes", "accuracy")


def _guide(axes: Any, rows: Rows, name: str, factor: float) -> None:
    """A line of slope 1 that ends below the last point of the lowest curve."""
    last = rows[rows["n"] == rows["n"].max(initial=0)]
    top = factor * float(np.nanmin([*last[name], np.inf])) / 2.0
    if len(last) and np.isfinite(top):
        ends = np.array([max(rows["n"].min(), last["n"][0] / 30.0), last["n"][0]], dtype=float)
        axes.plot(ends, top * ends / ends[-1], **DOTTED)
        axes.annotate("n", (ends[-1], top), xytext=(4, -2), textcoords="offset points", **NOTE)


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
            _sweeps(times, rows)
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


def _sweeps(axes: Any, rows: Rows) -> None:
    measured = rows[rows["source"] == "measured"]
    shared = measured[measured["ranks"] > 1]
    measured = measured[np.isin(measured["qdelta"], shared["qdelta"])] if len(shared) else measured
    free, pinned = measured[~measured["pinned"]], measured[measured["pinned"]]
    # Computing of ranks tied to one core is least disturbed; wall time is what was waited.
    how: dict[str, Any] = {"x": "n", "apart": ["ranks"], "factor": 1e3}
    curves(axes, free, y="model", label=lambda p: f"{p} rank{'s' if p > 1 else ''}, model", **how, **LINE)
    curves(axes, pinned, y="undisturbed", label=lambda p: "computing (process time)", **how, **FULL)
    curves(axes, free, y="wall", label=lambda p: "wall time, shared cores", **how, **HOLLOW)
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
    axes.xaxis.set_major_locator(ticker.FixedLocator(list(range(1, most + 1))))


def _steps(axes: Any, rows: Rows) -> None:
    axes.set(title="PFASST: speed-up", xlabel="steps P", ylabel="speed-up [-]")
    if not len(rows):
        return
    ticks = np.unique(rows["ranks"]).tolist()
    axes.plot(ticks, ticks, **DOTTED)
    curves(axes, rows, "ranks", "speedup", ["n"], **LINE)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_locator(ticker.FixedLocator(ticks))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.ScalarFormatter())
        axis.set_minor_locator(ticker.NullLocator())


_OURS, _LIKE, _UNLIKE = "-", (0, (5, 1.5)), (0, (1.2, 1.2))


def problems(result: Result) -> list[str]:
    require(result, "a comparison with peers")
    return list(dict.fromkeys(result.data["problem"].tolist()))


def peers(result: Result, problem: str | None = None) -> Figure:
    chosen = problems(result)[0] if problem is None else problem
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
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside right center")
        if without:
            words = f"never came to the end: {', '.join(map(style.text, without))}"
            figure.supxlabel(words, fontsize=style.SMALL, color=style.GREY)
    return figure


def _draw(axes: Any, rows: NDArray[np.void], solver: str, look: dict[str, Any]) -> bool:
    errors, times = style.clipped(rows["error"]), style.clipped(1e3 * rows["time"])
    shown = np.isfinite(errors) & np.isfinite(times)
    if not shown.any():
        return False
    best_errors, best_times = front(errors[shown], times[shown])
    axes.plot(best_errors, best_times, label=style.text(solver), **look)
    others = look | {"linestyle": "none", "markersize": 3.0, "alpha": 0.35, "zorder": 1}
    axes.plot(errors[shown], times[shown], **others)
    return True
