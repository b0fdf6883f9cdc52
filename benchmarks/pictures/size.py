"""Time and memory against the number of unknowns, and the time to an accuracy beside that of IDA."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.pictures import DOTTED, NOTE, Rows, curves, logarithmic, parameters_of, require
from dae_sdc.plotting import style
from dae_sdc.run.results import Result, combinations_of

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
            own: dict[str, Any] = {"linestyle": "-", "markerfacecolor": "full"}
            other: dict[str, Any] = {"linestyle": ":", "markerfacecolor": "white", "linewidth": 1.0}
            for rows, label, look in (
                (ours, "M={}, error {:.0e}".format, own),
                (ida, "IDA, as accurate".format, other),
            ):
                curves(axes, rows, "n", "time_run", RUN, label, factor=1e3, looks=looks, **look)
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
