"""List problems, models, sweepers and preconditioners by name.

Example: dae-sdc list problems
"""

from __future__ import annotations

import argparse
from typing import Any

from qmat.qdelta import QDELTA_GENERATORS

from dae_sdc.arguments import checked
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import unknown
from dae_sdc.sweepers.sdc import SWEEPERS

KINDS = ("problems", "models", "sweepers", "qdelta")


@checked()
def list(kind: str) -> dict[str, str]:
    """Names of one kind, each with a one-line description."""
    if kind == "problems":
        return {name: f"index {cls.index}, {cls.__name__}: {cls.title}" for name, cls in PROBLEMS.items()}
    if kind == "models":
        return {name: _summary(make) for name, make in MODELS.items()}
    if kind == "sweepers":
        return {name: f"{sweeper.__name__}: {_summary(sweeper)}" for name, sweeper in SWEEPERS.items()}
    if kind == "qdelta":
        aliases: dict[type, dict[str, None]] = {}
        for name, generator in QDELTA_GENERATORS.items():
            aliases.setdefault(generator, {})[name] = None
        return {names[0]: ", ".join(names[1:]) for names in map(tuple, aliases.values())}
    raise InputError(unknown("kind", kind, KINDS))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``dae-sdc list``."""
    parser.add_argument("kinds", nargs="*", default=KINDS, metavar="KIND", help=f"{', '.join(KINDS)} (all)")


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc list``."""
    for kind, table in {kind: list(kind) for kind in args.kinds}.items():
        print(f"{kind}:")
        width = max(20, *map(len, table))
        for name, text in table.items():
            print(f"  {name:<{width}} {text}".rstrip())
    return 0


def _summary(of: Any) -> str:
    """The first line of a docstring; empty where Python runs without docstrings."""
    return next(iter((of.__doc__ or "").strip().splitlines()), "")
