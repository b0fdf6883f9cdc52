"""Trajectories of the elastic pendulum: where the mass went with one method, over spring constants.

Plot: pendulum of pendulum, trajectories by method
    $ dae-sdc pendulum-study --sweeper reference,bdf2 --k 100,1500 --out bounce.npy
    $ dae-sdc plot pendulum bounce.npy -o pendulum.png
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.plotting import style
from dae_sdc.plotting.table import require_columns
from dae_sdc.run.results import Result

NUMBERS = ("k", "amplitude_start", "amplitude_end")
TEXTS = ("method", "sweeper", "starting_procedure")
PATHS = ("y1", "y2")

REFERENCE = "reference"

FARTHEST = 3.2
"""Coordinate up to which a trajectory is shown."""

_ACROSS = 3


def methods(result: Result) -> list[str]:
    """Labels of the methods in a result of ``dae-sdc pendulum-study``, each of which has a picture."""
    columns = result.data.dtype
    require_columns(result, NUMBERS, TEXTS, "a study of the pendulum; run it again", PATHS)
    for name in PATHS:
        if columns[name].base.kind != "f" or len(columns[name].shape) != 1:
            raise ResultFileError(f"column '{name}' of the result holds no trajectories; run the study again")
    return list(dict.fromkeys(result.data["method"].tolist()))


def pendulum(result: Result, method: str | None = None) -> Figure:
    """Draw the trajectories of one method in a result of ``dae-sdc pendulum-study``."""
    known = methods(result)
    chosen = known[0] if method is None else method
    if chosen not in known:
        raise InputError(f"the result has no method '{chosen}'; it has {', '.join(known)}")
    data = result.data
    rows = data[data["method"] == chosen]
    exact = {float(row["k"]): row for row in data[data["sweeper"] == REFERENCE]}
    across = min(_ACROSS, len(rows))
    down = math.ceil(len(rows) / across)
    with style.styled():
        # A panel alone is too narrow for one line.
        title = ("\n" if across == 1 else ", ").join(filter(None, _title(result, rows)))
        figure = style.figure(1.0 + 2.8 * across, 1.2 + 2.9 * down, title)
        panels = figure.subplots(down, across, squeeze=False).ravel()
        compares = False
        for axes, row in zip(panels, rows, strict=False):
            other = exact.get(float(row["k"])) if row["sweeper"] != REFERENCE else None
            compares |= other is not None
            _panel(axes, row, other)
        for axes in panels[len(rows) :]:
            axes.set_visible(False)
        for number, axes in enumerate(panels[: len(rows)]):
            if number % across == 0:
                axes.set_ylabel("y2 [length at rest]")
            if number + across >= len(rows):
                axes.set_xlabel("y1 [length at rest]")
        figure.legend(handles=_handles(compares), loc="outside lower center", ncols=2 if across == 1 else 4)
    return figure


def _title(result: Result, rows: NDArray[np.void]) -> tuple[str, str]:
    first, about = rows[0], result.parameters
    parts = []
    dt, interval = about.get("dt"), about.get("interval")
    if first["starting_procedure"]:
        parts.append(f"started by {style.text(first['starting_procedure'])}")
    if first["sweeper"] != REFERENCE and isinstance(dt, int | float) and not np.isfinite(_rtol(first)):
        parts.append(f"dt={dt:g}")
    if isinstance(interval, list) and len(interval) == 2:
        parts.append(f"t = {interval[0]:g} to {interval[1]:g}")
    return f"elastic pendulum, {style.text(first['method'])}", ", ".join(parts)


def _rtol(row: np.void) -> float:
    return float(row["rtol"]) if "rtol" in (row.dtype.names or ()) else math.nan


def _panel(axes: Any, row: np.void, other: np.void | None) -> None:
    path, goes = _shown(row)
    if other is not None:
        axes.plot(*_shown(other)[0], color="0.72", linewidth=1.6, zorder=1)
    axes.plot(*path, color=style.COLOURS[0], linewidth=0.8, zorder=2)
    if np.isfinite(path[:, 0]).all():
        axes.plot(*path[:, 0], linestyle="", zorder=4, **_START)
    if np.isfinite(path[:, -1]).all():
        axes.plot(*path[:, -1], linestyle="", zorder=4, **_END)
    axes.set_aspect("equal", adjustable="datalim")
    first, last = (_number(float(row[name])) for name in ("amplitude_start", "amplitude_end"))
    axes.set_title(f"k={float(row['k']):g}: bounce {first} to {last}", fontsize=9)
    if goes:
        axes.annotate(
            goes, (0.5, 0.02), xycoords="axes fraction", ha="center", fontsize=style.SMALL, color=style.GREY
        )


def _shown(row: np.void) -> tuple[NDArray[np.float64], str]:
    """The part of a trajectory that is drawn, NaN elsewhere, and a note on the rest."""
    path = np.array([row["y1"], row["y2"]])
    out = np.isfinite(path).all(axis=0) & (np.abs(path) > FARTHEST).any(axis=0)
    if not np.isfinite(path).all():
        note = "the run failed on its way"
    elif out.any():
        note = "leaves the picture"
    else:
        note = ""
    if out.any():
        # Nothing after it: a trajectory that comes back into the picture has no meaning.
        path[:, int(out.argmax()) :] = np.nan
    return path, note


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "-"


_START: dict[str, Any] = {"marker": "o", "color": style.COLOURS[1], "markersize": 6.0}
_END: dict[str, Any] = {"marker": "s", "color": "black", "markersize": 4.0}


def _handles(compares: bool) -> list[Line2D]:
    found = [Line2D([], [], color=style.COLOURS[0], linewidth=1.2, label="this method")]
    if compares:
        found.append(Line2D([], [], color="0.72", linewidth=1.6, label="accurate solution"))
    found.append(Line2D([], [], linestyle="", label="start", **_START))
    return [*found, Line2D([], [], linestyle="", label="end", **_END)]
