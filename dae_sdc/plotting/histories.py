"""Errors of constraints and energy over time, case by case.

Plot: drift of drift, errors of constraints and energy over time
    $ dae-sdc drift rigid-pendulum --case unprojected-dop853,radau-iia-9/ggl --t-end 20 --out drift.npy
    $ dae-sdc plot drift drift.npy -o drift.png
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dae_sdc.errors import ResultFileError
from dae_sdc.plotting import style
from dae_sdc.plotting.table import mark_failed, mark_limits, require_columns
from dae_sdc.run.results import Result

TEXTS = ("case",)
PANELS = {
    "constraint": "constraint |g|",
    "velocity": "velocity constraint |G v + ∂g/∂t|",
    "energy": "change of the energy",
    "error": "error of the position",
}
NUMBERS = ("t", *PANELS)

_MARKERS = 12
"""Markers on a curve."""


def drift(result: Result) -> Figure:
    """Draw a result of ``dae-sdc drift``.

    Parameters
    ----------
    result : Result
        Of kind "drift".

    Returns
    -------
    matplotlib.figure.Figure
        Panels over time for constraint, velocity constraint and energy, or the error of the position where a
        problem has no energy, with a curve for each case; columns without a finite number have no panel.

    Raises
    ------
    ResultFileError
        If the file lacks a column or has no finite errors.
    """
    data, about = result.data, result.parameters
    require_columns(result, NUMBERS, TEXTS, "a study of drift; run the study again")
    shown = [name for name in PANELS if np.isfinite(data[name]).any()]
    if "energy" in shown and "error" in shown:
        shown.remove("error")
    if not shown:
        raise ResultFileError("the result has no finite errors to draw; run the study again")
    cases = list(dict.fromkeys(data["case"].tolist()))
    with style.styled():
        figure = style.figure(1.4 + 3.5 * len(shown), 4.9, f"{style.text(about.get('problem', ''))}: drift")
        panels = figure.subplots(1, len(shown), squeeze=False, sharex=True)[0]
        for axes, name in zip(panels, shown, strict=True):
            for number, case in enumerate(cases):
                _curve(axes, data[data["case"] == case], name, number, len(cases), case)
            axes.set_yscale("log")
            axes.set_title(PANELS[name])
            axes.set_xlabel(f"t{style.bracket(result.units.get('t'))}")
            mark_limits(axes, data[name])
        panels[0].set_ylabel("largest error in a part of the interval")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(cases)))
    return figure


def _curve(axes: Any, rows: NDArray[np.void], name: str, number: int, count: int, case: str) -> None:
    every = max(1, len(rows) // _MARKERS)
    # Markers of different curves stand side by side.
    look = style.curve(number) | {"linewidth": 1.0, "markersize": 4.0}
    if np.isfinite(rows[name]).any() or not np.isfinite(rows["constraint"]).any():
        mark_failed(axes, rows["t"], rows[name], look["color"])
    axes.plot(
        rows["t"],
        style.clipped(rows[name]),
        label=style.text(case),
        markevery=(number * every // max(1, count), every),
        **look,
    )
