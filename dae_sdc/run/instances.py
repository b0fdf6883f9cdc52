"""Instances of problems from classes or other instances, with arguments of the user."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.dae.declaration import check_newton
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.errors import InputError

_PARAMETERS: WeakKeyDictionary[Any, Mapping[str, inspect.Parameter]] = WeakKeyDictionary()


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function or constructor, cached because inspection is slow."""
    known = _PARAMETERS.get(function)
    if known is None:
        known = _PARAMETERS[function] = inspect.signature(function).parameters
    return known


def instance_of(problem: Any, given: Mapping[str, Any]) -> ProblemDAE:
    """An instance of a problem, made from its class or copied from an instance."""
    if isinstance(problem, ProblemDAE):
        settable = ("newton_tol", "newton_maxiter", "linear_solver")
        unsettable = [name for name in given if name not in settable]
        if unsettable:
            raise InputError(
                f"{type(problem).__name__} is already made; set {', '.join(unsettable)} when you make it"
            )
        try:
            texts = problem.names, problem.units, problem.equation_names  # they do not change
            own = copy.deepcopy(problem, {id(text): text for text in texts})
        except Exception as error:
            raise InputError(
                f"{type(problem).__name__} cannot be copied for a run ({type(error).__name__}: {error}); let "
                f"its class keep what cannot be copied, or give the class"
            ) from error
        for name, value in given.items():
            setattr(own, name, value)
        check_newton(own.newton_tol, own.newton_maxiter, own.linear_solver)
        own.check_properties()
        return own
    cls = problem
    if not (isinstance(cls, type) and issubclass(cls, ProblemDAE)):
        raise InputError(
            f"a problem is a name, a ProblemDAE class or an instance of one, or a Model; got {problem!r}"
        )
    accepted: Mapping[str, inspect.Parameter] = parameters_of(cls)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
    if open_ended:
        own_names = ("n_diff", "n_alg")  # given by the problem to its base, not by the user
        base = parameters_of(ProblemDAE)
        accepted = {**accepted, **{name: p for name, p in base.items() if name not in own_names}}
        if issubclass(cls, QuasilinearProblem):
            accepted["formulation"] = parameters_of(QuasilinearProblem)["formulation"]
    strange = [name for name in given if name not in accepted]
    if strange:
        known = [name for name in accepted if name not in ("settings", "n_diff", "n_alg")]
        raise InputError(f"{cls.__name__} has no parameter {', '.join(strange)}; it has {', '.join(known)}")
    made: ProblemDAE = cls(**given)
    made.check_properties()
    return made
