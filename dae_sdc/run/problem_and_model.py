"""Equations of any form, with a problem, and a model where they can be read, and states of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError, require_number
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.registry import unknown
from dae_sdc.run.target import instance_of, resolve

if TYPE_CHECKING:
    from dae_sdc.linear.equilibrium import Hidden
    from dae_sdc.model.model import Model


@dataclass(frozen=True, eq=False)
class ProblemAndModel:
    """Equations that were given in any form."""

    problem: ProblemDAE  # The equations as a problem.
    given_model: Model | None = None  # The model that was given; None where functions were.

    @cached_property
    def model(self) -> Model | None:
        """The equations as a model; None where functions cannot be read."""
        if self.given_model is not None:
            return self.given_model
        from dae_sdc.model.trace import trace_problem

        try:
            return trace_problem(self.problem).model
        except DAEError:
            return None

    @property
    def labels(self) -> dict[str, str]:
        """Names of the unknowns of a model that was read from a function."""
        if self.given_model is not None or self.model is None:
            return {}
        return dict(zip(self.model.names, self.problem.names, strict=True))

    def parameter_unit(self, name: str) -> str:
        """Unit of a parameter, empty where it is not known."""
        own = None if self.given_model is None else self.given_model.parameters_by_name.get(name)
        return self.problem.parameter_units.get(name, "") if own is None else own.unit

    def time(self, t0: float | None) -> float:
        """A given time, or the start of the interval."""
        return float(self.problem.interval[0]) if t0 is None else require_number("t0", t0)

    def guess(self, given: Any, t: float) -> Vector:
        """A state from given values, by name or all of them; the others are those of the start, or 0."""
        problem = self.problem
        if given is not None and not isinstance(given, Mapping):
            return np.array(problem.state(given), dtype=np.float64)
        starts = getattr(problem, "start_values", None)
        if starts is None:
            try:
                starts = problem.state(problem.u_exact(t))
            except DAEError:
                starts = np.zeros(problem.n)
        found: Vector = np.nan_to_num(np.array(starts, dtype=np.float64))
        for name, value in (given or {}).items():
            if str(name) not in problem.names:
                raise InputError(unknown(f"unknown of {title_of(problem)}", str(name), problem.names))
            found[problem.names.index(str(name))] = require_number(str(name), value)
        return found

    def hidden(self, t: float) -> Hidden | None:
        """The hidden constraints; None where there are none, or where they are not known."""
        from dae_sdc.initial.jets import ModelJets
        from dae_sdc.linear.equilibrium import Hidden

        if self.model is None:
            return None
        form = self.model.form()
        places = {
            (self.labels.get(self.model.names[j], self.model.names[j]), k): (j, k) for j, k in form.states
        }
        states = [places.get((name, 0)) or places[name_and_order(name)] for name in self.problem.names]
        try:
            found = Hidden(ModelJets(self.model, t), states)
        except DAEError:
            return None
        return found if found.rows.size else None


def title_of(problem: ProblemDAE) -> str:
    """Name of the equations in messages."""
    return str(getattr(problem, "model_name", type(problem).__name__))


def problem_and_model(
    equations: Any, params: Mapping[str, Any] | None = None, guess: Any = None
) -> ProblemAndModel:
    """The problem, and the model, of equations in any form."""
    from dae_sdc.model.functions import problem_of_function

    target = resolve(equations, as_model=True)
    if target.function is not None:
        target = resolve(problem_of_function(target.function, guess))
    elif target.simplified is not None:
        target = resolve(target.simplified.model)
    if target.problem is not None:
        return ProblemAndModel(instance_of(target.problem, params or {}))
    model = target.make_model(params or {})
    return ProblemAndModel(model.problem(), model)


def split_fixed(
    problem: ProblemDAE, fixed: Mapping[str, float] | None
) -> tuple[dict[int, float], dict[int, float]]:
    """Fixed values, and fixed derivatives, by the numbers of the unknowns."""
    names, values, rates = problem.names, {}, {}
    for name, value in (fixed or {}).items():
        base, order = name_and_order(str(name))
        lower = name_of(base, order - 1) if order else ""
        if lower in names:
            rates[names.index(lower)] = require_number(str(name), value)
        if str(name) in names:
            values[names.index(str(name))] = require_number(str(name), value)
        elif lower not in names:
            raise InputError(unknown(f"unknown of {title_of(problem)}", str(name), names))
    return values, rates
