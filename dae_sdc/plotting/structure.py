"""Show the structure of a model: index, degrees of freedom, blocks, free initial values, and warnings.

A model is a name of the library, see 'dae-sdc list models', a Modelica file FILE.mo, or a Python file that
defines one, FILE.py:NAME. Several models, or all, are put into a table. With --repair the equations of a
model whose system Jacobian is singular are changed until it is regular.

Example: dae-sdc structure car-axis --plot car-axis.png
"""

from __future__ import annotations

import argparse
from itertools import groupby
from time import perf_counter

import numpy as np

from dae_sdc.deadline import limited
from dae_sdc.errors import InputError
from dae_sdc.options import Limit, Output, Parameters, Simplification, add_options, given_options
from dae_sdc.plotting.signature import blocked_signature
from dae_sdc.progress import each
from dae_sdc.run.models import add_models, models_of
from dae_sdc.run.simplify import model_of
from dae_sdc.run.structure import StructureOptions, repair, structure
from dae_sdc.structure.analysis import Structure
from dae_sdc.structure.repair import METHODS
from dae_sdc.text import aligned

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
        return _shown(args)


def _shown(args: argparse.Namespace) -> int:
    """What the verb shows, and its exit code."""
    names, alone = models_of(args)
    params = given_options(args, Parameters).get("params")
    if alone:
        _show(names[0], params, args)
        return 0
    if args.plot:
        raise InputError("a picture shows one model; name one, or leave --plot away")
    _tabulate(names, params, args)
    return 0


def _show(name: str, params: dict[str, object] | None, args: argparse.Namespace) -> None:
    model = model_of(name, params, args.simplify)
    found = structure(model, differentiation=args.differentiation)
    print(f"{model.name}: {model.title}" if model.title else model.name)
    print(found)
    if args.repair and not found.regular:
        mended = repair(model, method=args.repair)
        print("\nrepaired:", *(f"  {step}" for step in mended.steps), "", mended.structure, sep="\n")
        found = mended.structure
    if args.plot:
        blocked_signature(found, args.plot, title=model.name)
        print(f"written to {args.plot}")


def _tabulate(names: list[str], params: dict[str, object] | None, args: argparse.Namespace) -> None:
    rows: list[tuple[str, ...]] = [_HEADS]
    notes = []
    for name in each(names, "model", args.progress):
        model = model_of(name, params, args.simplify)
        start = perf_counter()
        found = structure(model, differentiation=args.differentiation)
        rows.append(_row(model.name, found, perf_counter() - start))
        notes += [f"{model.name}: {text}" for text in found.warnings]
        if args.repair and not found.regular:
            start = perf_counter()
            mended = repair(model, method=args.repair)
            rows.append(_row("  repaired", mended.structure, perf_counter() - start))
            notes += [f"{model.name}: {step}" for step in mended.steps]
    print(aligned(rows, gap="  "), "", *notes, sep="\n")


def _row(name: str, found: Structure, seconds: float) -> tuple[str, ...]:
    counts = (found.size, found.index, found.dof, found.rank, found.differentiation_index, found.true_dof)
    numbers = ["?" if count is None else str(count) for count in counts]
    return (name, *numbers, f"{seconds:.3f}", _run_lengths(found.c), _run_lengths(found.d))


def _run_lengths(values: np.ndarray) -> str:
    """Numbers in a row, "2x7" for seven times 2."""
    parts = [(value, len(list(members))) for value, members in groupby(values.tolist())]
    text = " ".join(f"{value}x{count}" if count > 1 else str(value) for value, count in parts)
    return text if len(text) <= 60 else f"{text[:57]}..."
