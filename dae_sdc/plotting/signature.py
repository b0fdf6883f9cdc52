"""Picture of a signature matrix in block triangular form."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dae_sdc.plotting import style
from dae_sdc.plotting.plot import form_of, save
from dae_sdc.structure.analysis import Structure
from dae_sdc.structure.blocks import Block

MOST_NUMBERS = 40
"""Equations up to which orders and names are written into the picture."""

_LEADING, _OTHER = style.COLOURS[1], "0.6"


def signature(found: Structure, title: str = "") -> Figure:
    """Draw the signature matrix of a DAE with its blocks."""
    n = found.size
    rows, cols = _order(found)
    row_place, col_place = np.argsort(rows), np.argsort(cols)
    pattern = found.signature
    at, up = col_place[pattern.cols], row_place[pattern.rows]
    leads = pattern.orders == found.d[pattern.cols] - found.c[pattern.rows]
    small = n <= MOST_NUMBERS
    side = float(np.clip(0.32 * n, 2.4, 11.0)) if small else 7.0
    with style.styled():
        figure = style.figure(side + 2.6, side + 1.6, style.text(_headline(found, title)))
        axes = figure.subplots()
        axes.grid(False)
        axes.set_aspect("equal")
        axes.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
        look: dict[str, Any]
        if small:
            for x, y, order, lead in zip(at, up, pattern.orders, leads, strict=True):
                look = (
                    {"weight": "bold", "color": _LEADING} if lead else {"weight": "normal", "color": "0.35"}
                )
                axes.text(x, y, str(order), ha="center", va="center", **look)
            look = {"marker": "s", "facecolor": "none", "edgecolor": "0.2"}
            axes.scatter(np.arange(n), np.arange(n), s=170, linewidth=0.7, **look)
            _label(axes, found, rows, cols)
        else:
            size = float(np.clip(4e4 / n**1.5, 0.05, 8.0))
            for chosen, colour, label in ((~leads, _OTHER, "other"), (leads, _LEADING, "system Jacobian")):
                axes.scatter(at[chosen], up[chosen], s=size, color=colour, linewidths=0, label=label)
            axes.set(xlabel="unknown, in the order of solution", ylabel="equation, in the order of solution")
            axes.legend(loc="upper right", markerscale=float(np.sqrt(30.0 / size)), frameon=True)
        _frame(axes, found.fine, row_place, linewidth=0.8, edgecolor=style.COLOURS[0])
        _frame(axes, found.coarse, row_place, linewidth=1.8, edgecolor="0")
    return figure


def blocked_signature(found: Structure, out: str | os.PathLike[str], title: str = "") -> Path:
    """Write the picture of :func:`signature` to a file."""
    target = Path(out)
    form_of(target)
    drawn = signature(found, title)
    with style.styled():
        save(drawn, target)
    return target


def _headline(found: Structure, title: str) -> str:
    parts = [title, f"index {found.index}", f"{found.dof} degrees of freedom"]
    if found.regular is False:
        parts.append(f"singular, rank {found.rank} of {found.size}")
    return ", ".join(filter(None, parts))


def _order(found: Structure) -> tuple[Any, Any]:
    """Equations and unknowns such that coarse blocks, and in them fine ones, follow one another."""
    coarse_of = np.empty(found.size, dtype=np.int64)
    for number, block in enumerate(found.coarse):
        coarse_of[block.rows] = number
    blocks = sorted(found.fine, key=lambda block: int(coarse_of[block.rows[0]]))
    rows = np.concatenate([block.rows for block in blocks])
    return rows, found.transversal[rows]


def _label(axes: Any, found: Structure, rows: Any, cols: Any) -> None:
    places = np.arange(found.size)
    axes.set_yticks(places, [style.text(found.equation_names[i]) for i in rows])
    axes.set_xticks(places, [style.text(found.names[j]) for j in cols], rotation=90)
    axes.tick_params(length=0)
    note = "orders of derivative; coloured: system Jacobian, framed: transversal"
    axes.set_xlabel(note, fontsize=style.SMALL, color=style.GREY)
    beside, above = axes.secondary_yaxis("right"), axes.secondary_xaxis("top")
    beside.set_yticks(places, [str(value) for value in found.c[rows]])
    above.set_xticks(places, [str(value) for value in found.d[cols]])
    beside.set_ylabel("c: differentiations of the equation")
    above.set_xlabel("d: order that is determined")
    for extra in (beside, above):
        extra.tick_params(length=0)


def _frame(axes: Any, blocks: Iterable[Block], row_place: Any, **look: Any) -> None:
    corners = [(int(row_place[block.rows].min()) - 0.5, block.size) for block in blocks]
    squares = [Rectangle((first, first), size, size) for first, size in corners]
    axes.add_collection(PatchCollection(squares, facecolor="none", clip_on=False, **look))
