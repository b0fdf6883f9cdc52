"""Steady states over a parameter, stable and unstable, with folds and Hopf points.

Plot: branch of branch, steady states over a parameter
    $ dae-sdc steady pendulum --guess x=0.1 --guess y=-1 --vary l=1:2 --out lengths.npy
    $ dae-sdc plot branch lengths.npy --show y,lambda -o branch.png
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dae_sdc.errors import ResultFileError
from dae_sdc.plotting import style
from dae_sdc.plotting.runs import chosen_names
from dae_sdc.plotting.table import panels_of, require_columns
from dae_sdc.run.results import Result

MOST_PANELS = 6
"""Unknowns that are drawn where none are named: those that change most, relative to their sizes."""

NOTHING = 1e-30
"""Size of an unknown up to which it is what rounding leaves of 0."""

_MARKS: dict[str, tuple[str, str]] = {"fold": ("s", "fold"), "hopf": ("^", "Hopf point")}


def branch(result: Result, show: str | Sequence[str] | None = None) -> Figure:
    """Draw a result of ``dae-sdc steady --vary``."""
    require_columns(result, ("value", "unstable"), ("special",), "a branch; run it again", ("u",))
    data, about = result.data, result.parameters
    names, units = list(about["names"]), list(about["unknown_units"])
    if data["u"].shape[1:] != (len(names),) or len(units) != len(names):
        raise ResultFileError("the result has other unknowns than names; run the branch again")
    wanted = [] if show is None else chosen_names(show, names)
    line = data[data["special"] == ""]
    chosen = [names.index(name) for name in wanted] if wanted else _moving(line["u"])
    down, across = panels_of(len(chosen))
    label = f"{style.text(about['parameter'])}{style.bracket(result.units.get('value'))}"
    with style.styled():
        figure = style.figure(
            1.4 + 3.4 * across, 1.4 + 2.7 * down, f"{style.text(about['problem'])}: steady states"
        )
        panels = figure.subplots(down, across, squeeze=False, sharex=True).ravel()
        for number, j in enumerate(chosen):
            axes = panels[number]
            _line(axes, line["value"], line["u"][:, j], line["unstable"])
            for kind, (marker, _) in _MARKS.items():
                rows = data[data["special"] == kind]
                axes.plot(
                    rows["value"], rows["u"][:, j], marker, color=style.COLOURS[1], markersize=6.0, zorder=3
                )
            axes.set_ylabel(f"{style.text(names[j])}{style.bracket(units[j])}")
            if number + across >= len(chosen):
                axes.set_xlabel(label)
                axes.tick_params(labelbottom=True)
        for axes in panels[len(chosen) :]:
            axes.set_visible(False)
        figure.legend(handles=_handles(data), loc="outside lower center", ncols=4)
    return figure


def _moving(u: Any) -> list[int]:
    """Numbers of the unknowns that change most."""
    sizes = np.abs(u).max(axis=0)
    change = np.where(sizes > NOTHING, np.ptp(u, axis=0) / np.maximum(sizes, NOTHING), 0.0)
    order = [int(j) for j in np.argsort(-change, kind="stable") if change[j] > 1e-9]
    return sorted(order[:MOST_PANELS]) or [0]


def _line(axes: Any, x: Any, y: Any, unstable: Any) -> None:
    """The branch in pieces of one look, which meet."""
    looks = np.where(unstable < 0, 2, np.where(unstable > 0, 1, 0))
    begin = 0
    for end in [*(np.flatnonzero(np.diff(looks)) + 1).tolist(), len(x)]:
        axes.plot(x[begin : end + 1], y[begin : end + 1], **_LOOKS[int(looks[begin])])
        begin = end


_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": style.COLOURS[0], "linestyle": "-", "linewidth": 1.6, "label": "stable"},
    {"color": style.COLOURS[0], "linestyle": style.LINES[1], "linewidth": 1.2, "label": "unstable"},
    {"color": style.GREY, "linestyle": style.LINES[3], "linewidth": 1.2, "label": "stability not known"},
)


def _handles(data: Any) -> list[Line2D]:
    line = data["unstable"][data["special"] == ""]
    seen = [(line == 0).any(), (line > 0).any(), (line < 0).any()]
    found = [Line2D([], [], **look) for look, there in zip(_LOOKS, seen, strict=True) if there]
    marks = {kind: one for kind, one in _MARKS.items() if (data["special"] == kind).any()}
    return [
        *found,
        *(
            Line2D([], [], linestyle="", marker=m, color=style.COLOURS[1], label=text)
            for m, text in marks.values()
        ),
    ]
