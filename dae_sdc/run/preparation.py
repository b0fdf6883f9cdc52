"""From a model to a problem and its start: simplified, reduced, with consistent values."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, require_number
from dae_sdc.problems._models import MODELS
from dae_sdc.registry import unknown
from dae_sdc.run.description import check_mapping, make_problem
from dae_sdc.run.models import make_model
from dae_sdc.run.unknowns import Unknowns

if TYPE_CHECKING:
    from dae_sdc.initial.consistent import Initial
    from dae_sdc.symbolic.aliases import Simplified
    from dae_sdc.symbolic.model import Model

MOST_CHANGES = 6
"""Start values that a message names."""

_SETTINGS = ("newton_tol", "newton_maxiter", "linear_solver", "index", "dense")


@dataclass(frozen=True)
class Prepared:
    """What is solved.

    Parameters
    ----------
    problem : ProblemDAE, or what else was given
        The problem.
    u0 : array_like or None
        Its start value, where it is not its own.
    settings : dict
        The settings of the run that are left.
    unknowns : Unknowns or None
        The unknowns of the model that was given, where it was simplified.
    remark : str
        What was changed at the start.
    """

    problem: Any
    u0: Any
    settings: dict[str, Any]
    unknowns: Unknowns | None = None
    remark: str = ""


def is_modelica(problem: Any) -> bool:
    """Whether equations come from a Modelica file, of the user or of the library."""
    if not isinstance(problem, str | Path):
        return False
    if str(problem).partition(":")[0].endswith(".mo"):
        return True
    if str(problem) not in MODELS or str(problem) in PROBLEMS:
        return False
    return getattr(MODELS[str(problem)], "path", None) is not None


def prepare(
    problem: Any,
    simplify: bool | None,
    reduce: bool,
    u0: Any,
    t0: float | None,
    settings: Mapping[str, Any],
) -> Prepared:
    """The problem of a model, and where it starts.

    Parameters
    ----------
    problem : str, Path, type, ProblemDAE, Model or Simplified
        What :func:`dae_sdc.run.solve.solve` was given.
    simplify : bool or None
        Whether trivial equations are removed; if None, those of Modelica files.
    reduce : bool
        Whether the index is reduced.
    u0 : array_like, mapping or None
        Start value of the state, or values by name.
    t0 : float or None
        Start.
    settings : mapping
        Of the run; ``problem_params``, ``newton_tol`` and ``linear_solver`` are those of the problem.

    Returns
    -------
    Prepared
        What was given itself, where nothing has to be done.

    Raises
    ------
    InputError
        If something given cannot be used, or there is no consistent start.
    """
    for name, value in (("simplify", simplify), ("reduce", reduce)):
        if value not in (True, False, None):
            raise InputError(f"{name} must be True or False; got {value!r}")
    from_tool = is_modelica(problem)
    ready = _simplified(problem)
    if not (simplify or reduce or from_tool or ready is not None or isinstance(u0, Mapping)):
        return Prepared(problem, u0, dict(settings))
    if _is_problem(problem, bool(simplify or reduce)):
        asked = "simplify" if simplify else "reduce" if reduce else "u0 by names"
        name = problem if isinstance(problem, str) else getattr(problem, "__name__", type(problem).__name__)
        raise InputError(f"{asked} belongs to models, which are given by their equations; {name} is none")
    left = dict(settings)
    params = left.pop("problem_params", None)
    check_mapping("problem_params", params)
    given = dict(params or {})
    own = {name: given.pop(name) for name in _SETTINGS if name in given}
    own |= {name: left.pop(name) for name in _SETTINGS if left.get(name) is not None}
    if ready is not None:
        if simplify is False:
            raise InputError("this model is simplified already; solve its .original, or leave simplify out")
        found = ready
        with _having(found.model, given):
            return _prepared(found.model, found, reduce, u0, t0, own, left, consistent=True)
    if simplify or (simplify is None and from_tool):
        from dae_sdc.run.simplify import simplify as simplified

        with _having(problem, {}):
            found = simplified(problem, params=given)
            if not found.model.names:  # all of them are constants, and something must be left to solve
                return _prepared(found.original, None, reduce, u0, t0, own, left, consistent=True)
            return _prepared(found.model, found, reduce, u0, t0, own, left, consistent=True)
    with _having(problem, {}):
        return _prepared(make_model(problem, given), None, reduce, u0, t0, own, left, consistent=from_tool)


def _is_problem(problem: Any, as_model: bool) -> bool:
    """Whether equations are functions; of a name that a model has too, the model can be meant."""
    if isinstance(problem, str):
        return problem in PROBLEMS and not (as_model and problem in MODELS)
    return isinstance(problem, ProblemDAE | type)


def _simplified(problem: Any) -> Simplified | None:
    """What was given, where it is a model that is simplified already."""
    aliases = sys.modules.get("dae_sdc.symbolic.aliases")  # if it was never imported, it made nothing
    found: Simplified | None = None
    if aliases is not None and isinstance(problem, aliases.Simplified):
        found = problem
    return found


@contextmanager
def _having(model: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Give parameters of a model values for a while; those that it is given meanwhile are taken back too."""
    parameters = getattr(model, "parameters_by_name", {})
    before = {name: parameter.value for name, parameter in parameters.items()}
    try:
        for name, value in values.items():
            if name not in parameters:
                raise InputError(unknown(f"parameter of model {model.name}", name, parameters))
            parameters[name].value = require_number(name, value)
        yield
    finally:
        for name, value in before.items():
            parameters[name].value = value


def _prepared(
    model: Model,
    found: Simplified | None,
    reduce: bool,
    u0: Any,
    t0: float | None,
    own: Mapping[str, Any],
    left: dict[str, Any],
    consistent: bool,
) -> Prepared:
    """The problem of a model with its present parameters; found is what it is the simplified form of."""
    problem, remark, unknowns = _problem(model, reduce, own), "", None
    if u0 is None and consistent:
        from dae_sdc.initial.search import initial_of_model

        start = initial_of_model(model, t0=t0, restarts=0)
        u0, remark = _state(problem, start.values), _changes(start)
    elif isinstance(u0, Mapping):
        given = {str(name): require_number(str(name), value) for name, value in u0.items()}
        if found is not None:
            given |= found.kept_values(given, float(model.interval[0]) if t0 is None else t0)
        u0 = _state(problem, given)
    if found is not None:
        parameters = {**found.original.parameters_by_name, **model.parameters_by_name}
        values = {name: p.value for name, p in parameters.items() if p.value is not None}
        unknowns = Unknowns(found, values)
    return Prepared(problem, u0, left, unknowns, remark)


def _problem(model: Model, reduce: bool, settings: Mapping[str, Any]) -> ProblemDAE:
    if not reduce:
        return make_problem(model, settings)
    from dae_sdc.reduction.reduction import reduce_index

    return reduce_index(model).problem(**settings)


def _state(problem: ProblemDAE, values: Mapping[str, float]) -> Vector:
    """The state with values by name."""
    missing = [name for name in problem.names if name not in values]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise InputError(f"u0 must have a value for every entry of the state; missing are {shown}")
    return np.array([require_number(name, values[name]) for name in problem.names])


def _changes(start: Initial) -> str:
    """What to say of the start values that are not those of the model."""
    said = [f"{one.name} from {one.before:.6g} to {one.after:.6g}" for one in start.changed]
    more = f" and {len(said) - MOST_CHANGES} more" if len(said) > MOST_CHANGES else ""
    parts = [f"start values made consistent: {', '.join(said[:MOST_CHANGES])}{more}"] if said else []
    if start.guessed:
        parts.append(f"nothing was given for what is free at the start: {', '.join(start.guessed)}")
    return "; ".join(parts)
