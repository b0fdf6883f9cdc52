"""Models given by name, by a file, or as objects."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from dae_sdc.arguments import checked, shown
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import DAEError, InputError, require_number
from dae_sdc.options import Parameters, about
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import unknown
from dae_sdc.run.instances import instance_of

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

ModelLike: TypeAlias = "str | Path | Model | ProblemDAE | type[ProblemDAE] | Callable[..., Model]"
"""A name in the library, ``file.mo`` or ``file.mo:class``, ``file.py`` or ``file.py:name``, a model, a
function that returns one, or equations that are read: a problem with an ``eval_f``, or a function
F(t, u, du), see :func:`trace`."""

R = TypeVar("R")

REMEMBERED: Final = 16
"""Most models of which results of :func:`calculated` are kept."""

_CALCULATED: dict[Model, tuple[Any, dict[Hashable, Any]]] = {}


def is_problem(value: object) -> bool:
    """Whether a value is a problem or a class of problems, and not a model."""
    return isinstance(value, ProblemDAE) or (isinstance(value, type) and issubclass(value, ProblemDAE))


ALL = "all"
"""Stands for all models of the library."""


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


def is_file(text: str) -> bool:
    """Whether a text names a file with a model instead of a model of the library."""
    return text.partition(":")[0].endswith((".py", ".mo"))


def calculated(model: Model, what: Hashable, calculate: Callable[[], R]) -> R:
    """A result that depends on a model alone, kept until its equations, parameters or start values change."""
    variables = repr((model.variables_by_name, model.definitions))
    content = (model.interval, model.conditions, variables, *model.content())
    known = _CALCULATED.pop(model, None)
    if known is None or known[0] != content:
        known = content, {}
    # The model that was asked for last stands last.
    _CALCULATED[model] = known
    while len(_CALCULATED) > REMEMBERED:
        del _CALCULATED[next(iter(_CALCULATED))]
    if what not in known[1]:
        known[1][what] = calculate()
    result: R = known[1][what]
    return result


def make_model(model: ModelLike, params: Mapping[str, Any] | None = None) -> Model:
    """The model for any form of :data:`ModelLike`."""
    from dae_sdc.model.functions import problem_of_function, takes_equations
    from dae_sdc.model.model import Model

    given = dict(params or {})
    found: Any = model
    name = ""
    if isinstance(model, str | Path):
        path, _, inside = str(model).partition(":")
        if path.endswith(".mo"):
            from dae_sdc.modelica.reader import read_modelica

            return read_modelica(path, name=inside or None, parameters=given)
        if str(model) in PROBLEMS and str(model) not in MODELS:
            found, name = PROBLEMS[str(model)], str(model)
        else:
            found = from_file(model) if path.endswith(".py") else MODELS[str(model)]
    if takes_equations(found) and not given:
        found, name = problem_of_function(found), getattr(found, "__name__", "")
    if callable(found) and not isinstance(found, Model) and not is_problem(found):
        found = _called(found, given)
    if is_problem(found):
        from dae_sdc.model.trace import trace_problem

        return trace_problem(instance_of(found, given), name=name).model
    if not isinstance(found, Model):
        raise InputError(
            f"equations are a name, a file.mo, a file.py:name, a Model, a ProblemDAE or a function that "
            f"returns one; got {found!r}"
        )
    for name, value in given.items():
        if name not in found.parameters_by_name:
            raise InputError(unknown(f"parameter of model {found.name}", name, found.parameters_by_name))
        found.parameters_by_name[name].value = require_number(f"parameter {name}", value)
    return found


def _called(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Call a function with those of the arguments that it accepts, which are removed from ``given``."""
    who = getattr(function, "__name__", shown(function))
    try:
        known = inspect.signature(function).parameters
    except ValueError:
        raise InputError(f"{who} is no function that returns a model; give one, or a name") from None
    every = any(p.kind is p.VAR_KEYWORD for p in known.values())
    own = {name: given.pop(name) for name in list(given) if every or name in known}
    missing = [p.name for p in known.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    missing = [name for name in missing if name not in own]
    if missing:
        raise InputError(f"{who} needs {', '.join(missing)}")
    try:
        return function(**own)
    except DAEError:
        raise
    except Exception as error:
        raise InputError(f"{who} raised {type(error).__name__}: {error}; correct it") from error


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
    if isinstance(problem, str) and problem in PROBLEMS:
        from dae_sdc.model.trace import trace_problem

        return trace_problem(instance_of(PROBLEMS[problem], dict(params or {})), name=problem).model
    return make_model(problem, params)


def from_file(text: str | Path) -> Any:
    """The object in a Python file given as ``file.py:name``, or ``model`` for ``file.py``."""
    path, _, name = str(text).partition(":")
    if not os.path.isfile(path):
        raise InputError(f"there is no file {path}; give the path of a Python file with a model")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # the name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)
    try:
        spec.loader.exec_module(module)
    except DAEError:
        raise
    except Exception as error:
        raise InputError(f"{path} raised {type(error).__name__}: {error}; correct it") from error
    found = getattr(module, name or "model", None)
    if found is None:
        raise InputError(
            f"{path} defines no '{name or 'model'}'; behind a colon give the name of a model in it, "
            f"{path}:NAME"
        )
    return found
