"""Models given by name, by a file, or as objects."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dae_sdc.arguments import checked
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.options import Parameters, about
from dae_sdc.problems._models import MODELS
from dae_sdc.run.target import resolve

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

# A name in the library, ``file.mo`` or ``file.mo:class``, ``file.py`` or ``file.py:name``, a model, a
# function that returns one, or equations that are read: a problem with an ``eval_f``, or a function F(t, u,
# du), see :func:`trace`.
ModelLike: TypeAlias = "str | Path | Model | ProblemDAE | type[ProblemDAE] | Callable[..., Model]"
ALL = "all"  # Stands for all models of the library.


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Parameters):
    """Options of functions of one model."""

    model: ModelLike = field(
        kw_only=False,
        metadata=about(
            "name in the library, ``file.mo``, ``file.py:name``, model, or a function that returns one",
            like="str, Path, Model or callable",
            shell=False,
        ),
    )


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``model`` of verbs that tabulate several models to a parser."""
    parser.add_argument(
        "model", help="name of a model, FILE.mo, FILE.py:NAME, several separated by commas, or all"
    )


def models_of(args: argparse.Namespace) -> tuple[list[str], bool]:
    """Names of the models that a verb was given, and whether there is only one, so that no table is shown."""
    if args.model == ALL:
        return list(MODELS), False
    names = [name for name in args.model.split(",") if name]
    return names, len(names) == 1


@checked()
def trace(problem: ModelLike, *, params: Mapping[str, Any] | None = None) -> Model:
    """The equations of a problem as a model, from a call of its ``eval_f`` with symbols in place of numbers.

    Unknowns keep their names and order. Public float attributes become parameters with their values, except
    those on which a branch depends. Branches on values of unknowns or of time become choices, as by
    :func:`numpy.where`. The equations are compared with the function at random points near the start.

    Parameters
    ----------
    problem : str, type, ProblemDAE or callable
        Name of a problem, ``file.py:name``, class, instance or function F(t, u, du); a model is returned
        unchanged.
    params : mapping, optional
        Arguments of the constructor of the problem.

    Returns
    -------
    Model
        The equations.

    Raises
    ------
    InputError
        If ``eval_f`` has too many branches on values of unknowns and of time, changes its problem, reads
        files, tables or random numbers, or calls functions that accept numbers only: with file, line and
        reason.

    Examples
    --------
    >>> ds.trace("robertson").names
    ('y_1', 'y_2', 'y_3')
    """
    as_model = not (isinstance(problem, str) and problem in PROBLEMS)
    return resolve(problem, as_model, anew=True).make_model(params or {})
