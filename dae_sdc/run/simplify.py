"""Remove the trivial equations of a model, and show what is left.

A model is a name of the library, see 'dae-sdc list models', a Modelica file FILE.mo or FILE.mo:CLASS, or a
Python file that defines one, FILE.py:NAME. Several models, or all, are put into a table.

Example: dae-sdc simplify slider-crank-2d --all
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dae_sdc.arguments import checked
from dae_sdc.errors import InputError
from dae_sdc.model.levels import LEVELS, Level
from dae_sdc.options import Parameters, add_options, given_options
from dae_sdc.problems._models import MODELS
from dae_sdc.run.models import ModelLike, make_model
from dae_sdc.sharing import one_at_a_time

if TYPE_CHECKING:
    from dae_sdc.model.model import Model
    from dae_sdc.model.simplified import Simplified
    from dae_sdc.structure.analysis import Structure

ALL = "all"
"""Stands for all models of the library."""

_HEADS = ("model", "equations", "after", "index", "after", "freedoms", "after", "seconds")


@checked()
@one_at_a_time
def simplify(
    model: ModelLike,
    *,
    level: Level = "linear",
    fold: bool = False,
    params: Mapping[str, Any] | None = None,
) -> Simplified:
    """Remove trivial equations from a model, and linear ones that tell an unknown.

    What changes the degrees of freedom, or raises the index, is not done: if the linear equations would, the
    trivial ones alone are removed.

    Parameters
    ----------
    model : str, Path, Model or callable
        Name in the library, ``file.mo``, ``file.py:name``, model, or a function that returns one.
    level : {"trivial", "linear", "explicit"}
        How much is removed, see :func:`dae_sdc.model.aliases.simplify`.
    fold : bool
        Whether the numbers of all parameters are put into the equations.
    params : mapping, optional
        Arguments of a model of the library, or values of parameters.

    Returns
    -------
    Simplified
        ``.model`` is the model that is left, ``.map`` tells what the other unknowns are; ``print`` shows it.

    Raises
    ------
    InputError
        If equations contradict each other, or something given cannot be used.
    """
    from dae_sdc.model import aliases

    whole = make_model(model, params)
    found = aliases.simplify(whole, level=level, fold=fold)
    if found.level == "trivial" or not found.map:
        return found
    trivial = aliases.simplify(whole, level="trivial", fold=fold)
    if len(trivial.model.names) == len(found.model.names):
        return found
    before, after = _analysed(trivial.model), _analysed(found.model)
    if before is None or (after is not None and after.dof == before.dof and after.index <= before.index):
        return found
    return trivial


def model_of(model: ModelLike, params: Mapping[str, Any] | None, simplified: bool | None) -> Model:
    """A model as it is, or without its trivial equations; what verbs take that have ``--simplify``."""
    return simplify(model, params=params).model if simplified else make_model(model, params)


def _analysed(model: Model) -> Structure | None:
    """The structure of a model; None where it cannot be trusted."""
    from dae_sdc.structure.analysis import structure
    from dae_sdc.structure.signature import StructureError

    try:
        found = structure(model, differentiation=False)
    except (StructureError, InputError):
        return None
    return found if found.regular else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc simplify``."""
    parser.add_argument(
        "model", help="name of a model, FILE.mo, FILE.py:NAME, several separated by commas, or all"
    )
    parser.add_argument(
        "--level", choices=LEVELS, default="linear", help="equations that are removed (linear)"
    )
    parser.add_argument("--fold", action="store_true", help="put the numbers of the parameters in")
    parser.add_argument("--all", action="store_true", help="print what every removed unknown is")
    parser.add_argument("--equations", action="store_true", help="print the model that is left")
    add_options(parser, Parameters)


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc simplify``."""
    names = list(MODELS) if args.model == ALL else [name for name in args.model.split(",") if name]
    given = {"level": args.level, "fold": args.fold, "params": given_options(args, Parameters).get("params")}
    if len(names) == 1 and args.model != ALL:
        found = simplify(names[0], **given)
        print(found.report(_rows(found)))
        if args.all:
            print(*(f"    {removed}" for removed in found.map.values()), sep="\n")
        if args.equations:
            print(found.model)
        return 0
    if args.all or args.equations:
        raise InputError("--all and --equations show one model; name one, or leave them away")
    rows: list[tuple[str, ...]] = [_HEADS]
    for name in names:
        began = perf_counter()
        found = simplify(name, **given)
        seconds = f"{perf_counter() - began:.3f}"
        cells = [cell for row in _rows(found) for cell in row[1:]]
        sizes = str(len(found.original.roots)), str(len(found.model.roots))
        rows.append((name, *sizes, *cells, seconds))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _rows(found: Simplified) -> list[tuple[str, str, str]]:
    """Index and degrees of freedom, before and after."""
    both = _analysed(found.original), _analysed(found.model)
    index, freedoms = zip(
        *(("?", "?") if one is None else (str(one.index), str(one.dof)) for one in both), strict=True
    )
    return [("index", index[0], index[1]), ("degrees of freedom", freedoms[0], freedoms[1])]
