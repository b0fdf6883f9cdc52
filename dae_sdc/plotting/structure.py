"""Show the structure of a model: index, degrees of freedom, blocks, free initial values, and warnings.

A model is a name of the library, see 'dae-sdc list models', a Modelica file FILE.mo, or a Python file that
defines one, FILE.py:NAME, which is run. Several models, or all, are put into a table. With --repair the
equations of a model whose system Jacobian is singular are changed until it is regular.

Example: dae-sdc structure car-axis --plot car-axis.png
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dae_sdc.deadline import limited
from dae_sdc.errors import InputError
from dae_sdc.options import Limit, Output, Parameters, Simplification, add_options, given_options
from dae_sdc.plotting import style
from dae_sdc.plotting.plot import form_of, save
from dae_sdc.run.simplify import model_of
from dae_sdc.run.structure import StructureOptions, repair, structure
from dae_sdc.run.target import add_models, models_of
from dae_sdc.sharing import each
from dae_sdc.structure.analysis import Structure
from dae_sdc.structure.blocks import Block
from dae_sdc.structure.repair import METHODS
from dae_sdc.text import aligned

MOST_NUMBERS = 40  # Equations up to which orders and names are written into the picture.

_LEADING, _OTHER = style.COLOURS[1], "0.6"


def signature(analysed: Structure, title: str = "") -> Figure:
    """Draw the signature matrix of a DAE with its blocks."""
    n = analysed.size
    rows, cols = _order(analysed)
    row_place, col_place = np.argsort(rows), np.argsort(cols)
    pattern = analysed.signature
    at, up = col_place[pattern.cols], row_place[pattern.rows]
    leads = pattern.orders == analysed.d[pattern.cols] - analysed.c[pattern.rows]
    small = n <= MOST_NUMBERS
    side = float(np.clip(0.32 * n, 2.4, 11.0)) if small else 7.0
    parts = [title, f"index {analysed.index}", f"{analysed.dof} degrees of freedom"]
    if analysed.regular is False:
        parts.append(f"singular, rank {analysed.rank} of {n}")
    with style.styled():
        figure = style.figure(side + 2.6, side + 1.6, style.text(", ".join(filter(None, parts))))
        axes = figure.subplots()
        axes.grid(False)
        axes.set_aspect("equal")
        axes.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
        if small:
            for x, y, order, lead in zip(at, up, pattern.orders, leads, strict=True):
                weight, colour = ("bold", _LEADING) if lead else ("normal", "0.35")
                axes.text(x, y, str(order), ha="center", va="center", weight=weight, color=colour)
            look: dict[str, Any] = {"marker": "s", "facecolor": "none", "edgecolor": "0.2"}
            axes.scatter(np.arange(n), np.arange(n), s=170, linewidth=0.7, **look)
            places = np.arange(analysed.size)
            axes.set_yticks(places, [style.text(analysed.equation_names[i]) for i in rows])
            axes.set_xticks(places, [style.text(analysed.names[j]) for j in cols], rotation=90)
            axes.tick_params(length=0)
            note = "orders of derivative; coloured: system Jacobian, framed: transversal"
            axes.set_xlabel(note, fontsize=style.SMALL, color=style.GREY)
            beside, above = axes.secondary_yaxis("right"), axes.secondary_xaxis("top")
            beside.set_yticks(places, [str(value) for value in analysed.c[rows]])
            above.set_xticks(places, [str(value) for value in analysed.d[cols]])
            beside.set_ylabel("c: differentiations of the equation")
            above.set_xlabel("d: order that is determined")
            for extra in (beside, above):
                extra.tick_params(length=0)
        else:
            size = float(np.clip(4e4 / n**1.5, 0.05, 8.0))
            for chosen, colour, label in ((~leads, _OTHER, "other"), (leads, _LEADING, "system Jacobian")):
                axes.scatter(at[chosen], up[chosen], s=size, color=colour, linewidths=0, label=label)
            axes.set(xlabel="unknown, in the order of solution", ylabel="equation, in the order of solution")
            axes.legend(loc="upper right", markerscale=float(np.sqrt(30.0 / size)), frameon=True)
        _frame(axes, analysed.fine, row_place, linewidth=0.8, edgecolor=style.COLOURS[0])
        _frame(axes, analysed.coarse, row_place, linewidth=1.8, edgecolor="0")
    return figure


def blocked_signature(analysed: Structure, out: str | os.PathLike[str], title: str = "") -> Path:
    """Write the picture of :func:`signature` to a file."""
    target = Path(out)
    form_of(target)
    drawn = signature(analysed, title)
    with style.styled():
        save(drawn, target)
    return target


def _order(analysed: Structure) -> tuple[Any, Any]:
    """Equations and unknowns such that coarse blocks, and in them fine ones, follow one another."""
    coarse_of = np.empty(analysed.size, dtype=np.int64)
    for number, block in enumerate(analysed.coarse):
        coarse_of[block.rows] = number
    blocks = sorted(analysed.fine, key=lambda block: int(coarse_of[block.rows[0]]))
    rows = np.concatenate([block.rows for block in blocks])
    return rows, analysed.transversal[rows]


def _frame(axes: Any, blocks: Iterable[Block], row_place: Any, **look: Any) -> None:
    corners = [(int(row_place[block.rows].min()) - 0.5, block.size) for block in blocks]
    squares = [Rectangle((first, first), size, size) for first, size in corners]
    axes.add_collection(PatchCollection(squares, facecolor="none", clip_on=False, **look))


_HEADS = ("model", "n", "index", "dof", "rank", "true index", "true dof", "seconds", "c", "d")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc structure``."""
    add_models(parser)
    parser.add_argument(
        "--repair", nargs="?", const="auto", choices=METHODS, help="repair a singular structure (auto)"
    )
    parser.add_argument("--plot", metavar="FILE", help="picture of the blocked signature matrix")
    add_options(parser, StructureOptions, only=("differentiation", "time_limit"))
    add_options(parser, Simplification)
    add_options(parser, Parameters)
    add_options(parser, Output, only=("progress",))


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc structure``."""
    with limited(Limit(**given_options(args, Limit)).time_limit):
        names, alone = models_of(args)
        params = given_options(args, Parameters).get("params")
        if alone:
            model = model_of(names[0], params, args.simplify)
            analysed = structure(model, differentiation=args.differentiation)
            print(f"{model.name}: {model.title}" if model.title else model.name)
            print(analysed)
            if args.repair and not analysed.regular:
                mended = repair(model, method=args.repair)
                print("\nrepaired:", *(f"  {step}" for step in mended.steps), "", mended.structure, sep="\n")
                analysed = mended.structure
            if args.plot:
                blocked_signature(analysed, args.plot, title=model.name)
                print(f"written to {args.plot}")
        elif args.plot:
            raise InputError("a picture shows one model; name one, or leave --plot away")
        else:
            _tabulate(names, params, args)
    return 0


def _tabulate(names: list[str], params: dict[str, object] | None, args: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = [_HEADS]
    notes = []
    for name in each(names, "model", args.progress):
        model = model_of(name, params, args.simplify)
        start = perf_counter()
        analysed = structure(model, differentiation=args.differentiation)
        rows.append(_row(model.name, analysed, perf_counter() - start))
        notes += [f"{model.name}: {text}" for text in analysed.warnings]
        if args.repair and not analysed.regular:
            start = perf_counter()
            mended = repair(model, method=args.repair)
            rows.append(_row("  repaired", mended.structure, perf_counter() - start))
            notes += [f"{model.name}: {step}" for step in mended.steps]
    print(aligned(rows, gap="  "), "", *notes, sep="\n")


def _row(name: str, analysed: Structure, seconds: float) -> tuple[str, ...]:
    counts = [analysed.size, analysed.index, analysed.dof, analysed.rank]
    counts += [analysed.differentiation_index, analysed.true_dof]
    numbers = ["?" if count is None else str(count) for count in counts]
    return (name, *numbers, f"{seconds:.3f}", _run_lengths(analysed.c), _run_lengths(analysed.d))


def _run_lengths(values: np.ndarray) -> str:
    """Numbers in a row, "2x7" for seven times 2."""
    parts = [(value, len(list(members))) for value, members in groupby(values.tolist())]
    text = " ".join(f"{value}x{count}" if count > 1 else str(value) for value, count in parts)
    return text if len(text) <= 60 else f"{text[:57]}..."
