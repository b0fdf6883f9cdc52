"""What was given as equations: the only place that asks for their form."""

from __future__ import annotations

import argparse
import copy
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast

from dae_sdc.arguments import checked, shown
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.dae.adapter import adapted
from dae_sdc.dae.declaration import check_newton
from dae_sdc.dae.memory import new_counters
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.values import TIMES, needed_arguments
from dae_sdc.errors import DAEError, InputError, require_number, words_of
from dae_sdc.options import Parameters, Reading, about, add_options
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import nearest_file, require_name, unknown
from dae_sdc.sharing import Recent, one_at_a_time
from dae_sdc.text import brief

if TYPE_CHECKING:
    from dae_sdc.model.model import Model
    from dae_sdc.model.simplified import Simplified


class MakesProblems(Protocol):
    """Equations from which a problem can be made, such as a :class:`dae_sdc.model.model.Model`."""

    def problem(self, **settings: Any) -> ProblemDAE:
        """The problem, for values of parameters and settings of its nonlinear solves."""


ProblemLike = str | type[ProblemDAE] | ProblemDAE | MakesProblems
# A name in the library, ``file.mo`` or ``file.mo:class``, ``file.py`` or ``file.py:name``, a model, a
# function that returns one, or equations that are read: a problem with an ``eval_f``, or a function F(t, u,
# du), see :func:`trace`.
ModelLike: TypeAlias = "str | Path | Model | ProblemDAE | type[ProblemDAE] | Callable[..., Model]"

R = TypeVar("R")

ALL = "all"  # Stands for all models of the library.
REMEMBERED: Final = 32  # Most results of :func:`calculated` that are kept, a few of each model.

_CALCULATED: Final[Recent[tuple[Hashable, ...], Any]] = Recent(REMEMBERED)


@dataclass(frozen=True, eq=False)
class Target:
    """Equations in the form in which they were given; ``thing`` is None for a Modelica file."""

    thing: Any
    text: str = ""  # The name or file that stood for it.
    as_model: bool = False  # Whether a name stands for a model before a problem.
    anew: bool = False  # Whether a file was run for this target alone.
    is_new: bool = False  # Whether nothing else has the problem, so that it needs no copy.

    @property
    def from_tool(self) -> bool:
        """Whether the equations come from a Modelica file, of the user or of the library."""
        if self.thing is None:
            return True
        of_library = bool(self.text) and not is_file(self.text) and self.text not in PROBLEMS
        return of_library and getattr(self.thing, "path", None) is not None

    @cached_property
    def problem(self) -> ProblemDAE | type[ProblemDAE] | None:
        """The problem, or its class; None where a model or a function was given."""
        return self.thing if is_problem(self.thing) else None

    @cached_property
    def simplified(self) -> Simplified | None:
        """The result of a simplification; None where something else was given."""
        results = sys.modules.get("dae_sdc.model.simplified")  # if it was never imported, it made nothing
        return self.thing if results is not None and isinstance(self.thing, results.Simplified) else None

    @cached_property
    def function(self) -> Callable[..., Any] | None:
        """A function F(t, u, du), or f(t, u) with a name of times; None where something else was given."""
        if not is_plain_function(self.thing):
            return None
        needed = needed_arguments(self.thing)
        fits = needed is None or len(needed) == 3 or (len(needed) == 2 and needed[0] in TIMES)
        return self.thing if fits else None

    @property
    def is_model(self) -> bool:
        """Whether a model was given, or what makes one, but nothing that stands for other equations."""
        return self.problem is None and self.function is None and self.simplified is None

    @cached_property
    def shared_model(self) -> Any:
        """The model that a name stands for, the same in all runs; otherwise what was given."""
        return _shared_model(self.text) if self.text and self.is_model else self.thing

    def model_with(self, params: Mapping[str, Any]) -> Model:
        """The model for values of its parameters, for a name the same in all runs with these."""
        if self.text and self.is_model and all(isinstance(one, str | int | float) for one in params.values()):
            return _shared_model(self.text, *((name, x, type(x)) for name, x in sorted(params.items())))
        return self.make_model(params)

    def make_problem(self, params: Mapping[str, Any]) -> ProblemDAE:
        """The problem, with values of its parameters and settings of its nonlinear solves."""
        if self.is_new:
            return _with_settings(self.thing, params) if params else self.thing
        if self.problem is not None:
            return instance_of(self.problem, params)
        model = self.shared_model
        if isinstance(model, type) or not callable(getattr(model, "problem", None)):
            return instance_of(model, params)
        return _problem_of(model, params)

    def make_model(self, params: Mapping[str, Any]) -> Model:
        """A model of its own, with values of its parameters."""
        from dae_sdc.model.functions import problem_of_function
        from dae_sdc.model.model import Model

        given, name = dict(params), ""
        path, _, inside = self.text.partition(":")
        if path.endswith(".mo"):
            from dae_sdc.modelica.reader import read_modelica

            return read_modelica(path, name=inside or None, parameters=given)
        thing: Any = self.thing
        if isinstance(thing, Model) and self.text and not self.anew:
            thing = adapted(_read_from(self.text))  # values of parameters are set in it
        if self.function is not None:
            thing, name = problem_of_function(thing), getattr(thing, "__name__", "")
        if callable(thing) and not isinstance(thing, Model) and not is_problem(thing):
            thing = _called(thing, given)
        if is_problem(thing):
            from dae_sdc.model.trace import trace_problem

            name = self.text if self.text in PROBLEMS else name
            return trace_problem(instance_of(thing, given), name=name).model
        if not isinstance(thing, Model):
            raise InputError(
                f"equations are a name, a file.mo, a file.py:name, a Model, a ProblemDAE or a function that "
                f"returns one; got {shown(thing)}"
            )
        for name, value in given.items():
            require_name(f"parameter of model {thing.name}", name, thing.parameters_by_name)
            given[name] = require_number(f"parameter {name}", value)
        return thing.with_values(given) if given else thing


def resolve(equations: Any, as_model: bool = False, anew: bool = False) -> Target:
    """What a name or file stands for, or what was given as an object; problems of pySDC become ours."""
    # A file is run once, and its objects are shared, unless it is to be run ``anew``.
    if not isinstance(equations, str | Path):
        return equations if isinstance(equations, Target) else Target(adapted(equations), "", as_model)
    text = str(equations)
    path = text.partition(":")[0]
    if path.endswith(".mo"):
        return Target(None, text, as_model)
    if path.endswith(".py"):
        return Target(adapted(_read_from(text) if anew else _defined_in(text)), text, as_model, anew)
    first, second = (MODELS, PROBLEMS) if as_model else (PROBLEMS, MODELS)
    return Target(second[text] if text not in first and text in second else first[text], text, as_model)


def make_problem(equations: Any, params: Mapping[str, Any] | None = None) -> ProblemDAE:
    """An instance of a problem given by name, class, instance or model."""
    return resolve(equations).make_problem(params or {})


def make_model(equations: Any, params: Mapping[str, Any] | None = None) -> Model:
    """The model for equations in any form; a name stands for a model first."""
    return resolve(equations, as_model=True, anew=True).make_model(params or {})


def problem_name(problem: Any) -> str:
    """Name under which a problem appears in tables."""
    model_name: str | None = problem if isinstance(problem, str) else getattr(problem, "model_name", None)
    if model_name is not None:
        return model_name
    cls = problem if isinstance(problem, type) else type(problem)
    cls = getattr(cls, "untraced", cls)
    return PROBLEMS.name_of(cls) or cls.__name__


def is_problem(value: object) -> bool:
    """Whether a value is a problem or a class of problems, and not a model."""
    return isinstance(value, ProblemDAE) or (isinstance(value, type) and issubclass(value, ProblemDAE))


def is_model(value: object) -> bool:
    """Whether a value is a model."""
    models = sys.modules.get("dae_sdc.model.model")  # if it was never imported, it made nothing
    return models is not None and isinstance(value, models.Model)


def is_plain_function(value: object) -> bool:
    """Whether a value can be called, and is neither a class nor something else that makes equations."""
    return callable(value) and not (is_problem(value) or isinstance(value, type) or hasattr(value, "problem"))


def is_file(text: str) -> bool:
    """Whether a text names a file with equations instead of those of the library."""
    return text.partition(":")[0].endswith((".py", ".mo"))


def _shared_model(text: str, *params: tuple[str, Any, type]) -> Model:
    path, content = text.partition(":")[0], b""
    with suppress(OSError):  # a file that is missing is told where it is read
        content = Path(path).read_bytes() if path.endswith(".mo") else b""
    return _kept_model(text, content, *params)


@functools.lru_cache(maxsize=16)
def _kept_model(text: str, content: bytes, *params: tuple[str, Any, type]) -> Model:
    return make_model(text, {name: value for name, value, _ in params})  # 1 and 1.0 are not the same argument


def _read_from(text: str) -> Any:
    """The object in ``file.py:name``, or ``model`` of ``file.py``, or the only one that gives equations."""
    path, _, name = text.partition(":")
    if not os.path.isfile(path):
        near = nearest_file(Path(path))
        what = f"did you mean {near}?" if near else "give the path of a Python file with a model"
        raise InputError(f"there is no file {path}; {what}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # the name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)
    try:
        spec.loader.exec_module(module)
    except DAEError:
        raise
    except Exception as error:
        raise InputError(f"{path} raised {words_of(error)}; correct it") from error
    if (thing := getattr(module, name or "model", None)) is not None:
        return thing
    # Classes and models give equations, or functions without these.
    own = {name: thing for name, thing in vars(module).items() if name[0] != "_"}
    here = {name: thing for name, thing in own.items() if getattr(thing, "__module__", "") == module.__name__}
    known = {name: thing for name, thing in here.items() if is_problem(thing)}
    known |= {name: thing for name, thing in own.items() if not isinstance(thing, type) and is_model(thing)}
    known = known or {name: thing for name, thing in here.items() if is_plain_function(thing)}
    if name and known:
        raise InputError(unknown(f"name in {path}", name, known))
    if name or len(known) != 1:
        which = f"{brief(list(known))}; give {path}:NAME with one" if known else "nothing like one; write one"
        raise InputError(f"{path} defines no '{name or 'model'}', but {which}")
    return known.popitem()[1]


_defined_in = functools.lru_cache(maxsize=16)(_read_from)  # of a file that is run once


def _called(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Call a function with those of the arguments that it accepts, which are removed from ``given``."""
    who = getattr(function, "__name__", shown(function))
    try:
        accepted = inspect.signature(function).parameters
    except ValueError:
        raise InputError(f"{who} is no function that returns a model; give one, or a name") from None
    every = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    arguments = {name: given.pop(name) for name in list(given) if every or name in accepted}
    needed = [p.name for p in accepted.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if missing := [name for name in needed if name not in arguments]:
        raise InputError(f"{who} needs {', '.join(missing)}")
    try:
        return function(**arguments)
    except DAEError:
        raise
    except Exception as error:
        raise InputError(f"{who} raised {words_of(error)}; correct it") from error


@one_at_a_time
def _problem_of(model: MakesProblems, params: Mapping[str, Any]) -> ProblemDAE:
    """The problem of a model, with its index by structural analysis where that succeeds."""
    if not is_model(model):
        given: Any = model.problem(**params)
        return given if isinstance(given, ProblemDAE) else instance_of(given, {})
    from dae_sdc.structure.analysis import structure_of

    equations = cast("Model", model)
    analysed, problem = structure_of(equations), equations.problem(**params)
    if problem.index is None and analysed.regular:
        index = analysed.differentiation_index
        problem.use_offsets(analysed.c, analysed.d, analysed.index if index is None else index)
    return problem


def calculated(model: Model, what: Hashable, calculate: Callable[[], R]) -> R:
    """A result that depends on a model alone, on its equations, parameters and start values."""
    variables = repr(([vars(one) for one in model.variables_by_name.values()], model.definitions))
    content = (model.interval, model.conditions, variables, *model.content())
    result: R = _CALCULATED.of((model, what, content), calculate)
    return result


@functools.lru_cache(maxsize=64)
def _parameters_of(cls: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a constructor, cached because inspection is slow."""
    return inspect.signature(cls).parameters


def instance_of(problem: Any, params: Mapping[str, Any]) -> ProblemDAE:
    """An instance of a problem, made from its class or copied from an instance."""
    if isinstance(problem, ProblemDAE):
        return _with_settings(copied(problem), params)
    cls = problem
    if not (isinstance(cls, type) and issubclass(cls, ProblemDAE)):
        raise InputError(
            f"a problem is a name, a ProblemDAE class or an instance of one, a Model or a function F(t, u, "
            f"du); got {shown(problem)}"
        )
    accepted: Mapping[str, inspect.Parameter] = _parameters_of(problem)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values()):
        of_base = ("n_diff", "n_alg")  # given by the problem to its base, not by the user
        base = {name: p for name, p in _parameters_of(ProblemDAE).items() if name not in of_base}
        accepted = {**accepted, **base}
        if issubclass(cls, QuasilinearProblem):
            accepted["formulation"] = _parameters_of(QuasilinearProblem)["formulation"]
    names = [name for name in accepted if name not in ("settings", "n_diff", "n_alg")]
    for name in (name for name in params if name not in accepted):
        raise InputError(unknown(f"parameter of {cls.__name__}", name, names))
    instance: ProblemDAE = cls(**params)
    instance.check_properties()
    return instance


def copied(problem: ProblemDAE) -> ProblemDAE:
    """A copy of a problem for a run."""
    try:
        # Texts do not change, and a function is the user's, also as an object with a lock or a file.
        function = getattr(problem, "function", None)
        same = problem.names, problem.units, problem.equation_names, function if callable(function) else None
        return copy.deepcopy(problem, {id(one): one for one in same})
    except Exception as error:
        raise InputError(
            f"{problem.name} cannot be copied for a run ({words_of(error)}); let "
            f"its class keep what cannot be copied, or give the class"
        ) from error


def twin_of(problem: ProblemDAE) -> ProblemDAE:
    """A problem that shares its equations with another, and counts and has sizes of unknowns by itself."""
    twin = copy.copy(problem)
    twin.__dict__["work_counters"] = new_counters()
    if "run_scales" in vars(problem):
        twin.__dict__["run_scales"] = problem.run_scales.twin()
    return twin


def _with_settings(problem: ProblemDAE, params: Mapping[str, Any]) -> ProblemDAE:
    """A problem that is made already, with settings of its nonlinear solves."""
    settings = ("newton_tol", "newton_maxiter", "linear_solver")
    more = {name: value for name, value in params.items() if name not in settings}
    set_parameters: Any = getattr(problem, "set_parameters", None)
    if more and set_parameters is None:
        raise InputError(f"{problem.name} is already made; set {', '.join(more)} when you make it")
    if more:
        set_parameters(more)
    for name in (name for name in settings if name in params):
        setattr(problem, name, params[name])
    check_newton(problem.newton_tol, problem.newton_maxiter, problem.linear_solver)
    problem.check_properties()
    return problem


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
        "model",
        help="name of a model, FILE.mo, FILE.py:NAME, which is run, several separated by commas, or all",
    )
    add_options(parser, Reading, only=("libraries", "reader"))


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
