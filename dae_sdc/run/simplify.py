"""Remove the trivial equations of a model, and show what is left.

A model is a name of the library, see 'dae-sdc list models', a Modelica file FILE.mo or FILE.mo:CLASS, or a
Python file that defines one, FILE.py:NAME, which is run. Several models, or all, are put into a table.

Example: dae-sdc simplify slider-crank-2d --all
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dae_sdc.errors import InputError
from dae_sdc.model import LEVELS, Level
from dae_sdc.options import Output, Parameters, add_options, given_options, option, takes
from dae_sdc.run.target import ModelLike, ModelOptions, add_models, make_model, models_of
from dae_sdc.sharing import each, one_at_a_time
from dae_sdc.text import aligned

if TYPE_CHECKING:
    from dae_sdc.model.model import Model
    from dae_sdc.model.simplified import Simplified
    from dae_sdc.structure.analysis import Structure

_HEADS = ("model", "equations", "after", "index", "after", "freedoms", "after", "seconds")


@dataclass(frozen=True, kw_only=True)
class SimplifyOptions(ModelOptions):
    """Options of :func:`simplify`."""

    level: Level = option(
        "linear",
        "equations that are removed (linear)",
        "See :func:`dae_sdc.model.simplified.simplify`.",
        choices=LEVELS,
    )
    fold: bool = option(False, "put the numbers of the parameters in", "All of them go into the equations.")


@takes(SimplifyOptions)
@one_at_a_time
def simplify(options: SimplifyOptions) -> Simplified:
    """Remove trivial equations from a model, and linear ones that determine an unknown.

    Degrees of freedom do not change, and the index does not rise: if the removal of linear equations would do
    so, only trivial ones are removed.

    {options}

    Returns
    -------
    Simplified
        ``.model`` is the simplified model, ``.map`` gives the removed unknowns; ``print`` shows them.

    Raises
    ------
    InputError
        If equations contradict each other, or for invalid options.

    Examples
    --------
    >>> found = ds.simplify("dc-motor")
    >>> len(found.model.names)
    1
    """
    from dae_sdc.model import simplified

    whole, fold = make_model(options.model, options.params), options.fold
    result, trivial = simplified.simplify_by_level(whole, options.level, fold)
    if len(trivial.model.names) == len(result.model.names):
        return result
    before, after = _analysed(trivial.model), _analysed(result.model)
    if before is None or (after is not None and after.dof == before.dof and after.index <= before.index):
        return result
    return trivial


def model_of(model: ModelLike, params: Mapping[str, Any] | None, simplified: bool | None) -> Model:
    """The model for verbs with the option ``--simplify``: simplified or unchanged."""
    return simplify(model, params=params).model if simplified else make_model(model, params)


def _analysed(model: Model) -> Structure | None:
    """The structure of a model; None if structural analysis fails or its system Jacobian is singular."""
    from dae_sdc.structure.analysis import structure

    try:
        analysed = structure(model, differentiation=False)
    except InputError:
        return None
    return analysed if analysed.regular else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc simplify``."""
    add_models(parser)
    add_options(parser, SimplifyOptions, only=("level", "fold"))
    parser.add_argument("--all", action="store_true", help="print what every removed unknown is")
    parser.add_argument("--equations", action="store_true", help="print the model that is left")
    parser.add_argument("--out", metavar="FILE", help="write the model that is left as .mo or .fmu")
    add_options(parser, Parameters)
    add_options(parser, Output, only=("progress",))


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc simplify``."""
    names, alone = models_of(args)
    given = given_options(args, SimplifyOptions, without=("model",))
    if alone:
        result = simplify(names[0], **given)
        print(result.report(_rows(result)))
        if args.all:
            print(*(f"    {removed}" for removed in result.map.values()), sep="\n")
        if args.equations:
            print(result.model)
        if args.out is not None:
            from dae_sdc.modelica.fmu import write_model

            print(f"wrote {write_model(result.model, args.out)}")
        return 0
    if args.all or args.equations or args.out is not None:
        raise InputError("--all, --equations and --out show one model; name one, or leave them away")
    rows: list[tuple[object, ...]] = [_HEADS]
    for name in each(names, "model", args.progress):
        began, result = perf_counter(), simplify(name, **given)
        seconds = f"{perf_counter() - began:.3f}"
        cells = [cell for row in _rows(result) for cell in row[1:]]
        rows.append((name, len(result.original.roots), len(result.model.roots), *cells, seconds))
    print(aligned(rows, gap="  "))
    return 0


def _rows(result: Simplified) -> list[tuple[str, str, str]]:
    """Table rows of index and degrees of freedom, before and after."""
    both = _analysed(result.original), _analysed(result.model)
    cells = (("?", "?") if one is None else (str(one.index), str(one.dof)) for one in both)
    index, freedoms = zip(*cells, strict=True)
    return [("index", index[0], index[1]), ("degrees of freedom", freedoms[0], freedoms[1])]
