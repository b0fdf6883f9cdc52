"""Where a DAE rests: steady states, and branches of them over a parameter.

Example: dae-sdc steady pendulum --guess x=0.1 --guess y=-1
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError, require_number
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.initial.jets import jets_of, start_time
from dae_sdc.linear.branch import Branch, ParameterOfProblem, branch_of
from dae_sdc.linear.equilibrium import Hidden, Steady, steady_state as find_steady
from dae_sdc.options import (
    Limit,
    Output,
    Parameters,
    Start,
    add_options,
    equations,
    given_options,
    option,
    redeclared,
    takes,
)
from dae_sdc.registry import require_name
from dae_sdc.run.equations import Equations, equations_near, with_model
from dae_sdc.run.results import Result, check_target, put_down, say_written, tabulated
from dae_sdc.sharing import bar_of, metering, one_at_a_time


@dataclass(frozen=True, kw_only=True)
class AnyEquations(Parameters):
    """Equations in any form, and values of their parameters."""

    problem: Any = field(
        kw_only=False,
        metadata=equations(
            "A model, a problem, its class and a function F(t, u, du) are taken too.",
            "str, Path, Model, ProblemDAE, type or callable",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class SteadyOptions(Limit, AnyEquations):
    """Options of :func:`steady_state`."""

    guess: Mapping[str, float] | Any = option(
        None,
        "guesses of unknowns (the start values)",
        "They are given by name, or as all n values; there may be several steady states.",
        like="mapping of str to float, or array_like, shape (n,)",
        metavar="NAME=VALUE",
    )
    fixed: Mapping[str, float] | None = option(
        None,
        'values that are not changed, "der(phi)=10" for the speed of a shaft that turns evenly',
        "All other derivatives are 0.",
        metavar="NAME=VALUE",
    )
    turning: Sequence[str] | None = option(
        None,
        "unknowns whose derivatives are looked for, while they keep their values",
        "The angles of shafts that turn with a speed that is not known. Hidden constraints tie the speeds of "
        "those that are coupled, all of which are to be named.",
        metavar="A,B",
    )
    t0: float | None = redeclared(
        Start, "t0", None, "Equations that depend on time are taken as they are then."
    )


@dataclass(frozen=True, kw_only=True)
class BranchOptions(Output, SteadyOptions):
    """Options of :func:`steady_branch`."""

    vary: Mapping[str, Any] | None = option(
        None,
        "parameter with its first and last value",
        "The values are a pair, or a text such as '0:10'.",
        like="mapping of str to (float, float)",
        metavar="NAME=FROM:TO",
    )


@takes(SteadyOptions)
@one_at_a_time
def steady_state(options: SteadyOptions) -> Steady:
    r"""A state at which a DAE rests: its equations and hidden constraints hold with derivatives of 0.

    .. math:: F(t_0, u, v) = 0

    with v = 0 but for derivatives that are given or looked for. Damped Newton iterations begin at the guess;
    where they fail, implicit Euler steps of growing size follow the motion to where it ends, and where they
    fail a path of :math:`F(u) = (1 - s) F(\tilde u)` is followed from s = 0 to 1. Where equations leave
    unknowns free, these change as little as possible.

    {options}

    Returns
    -------
    Steady
        State ``u`` and derivative ``du``, values by name, what was ``done``, what is ``undetermined``;
        ``print`` shows it.

    Raises
    ------
    ConvergenceError
        If no steady state is found, with the equation that does not vanish.
    InputError
        If something given cannot be used.

    References
    ----------
    C. T. Kelley, D. E. Keyes: Convergence analysis of pseudo-transient continuation, SIAM J. Numer. Anal. 35
    (1998). P. Deuflhard: Newton Methods for Nonlinear Problems, Springer (2004).

    Examples
    --------
    >>> rest = ds.steady_state("pendulum", guess={"x": 0.1, "y": -1.0})
    >>> round(rest["y"], 9), round(rest["lambda"], 9)
    (-1.0, 9.8)
    """
    return rest_of(equations_near(options.problem, options.params, options.guess, options.t0), options)


def rest_of(equations: Equations, options: SteadyOptions) -> Steady:
    """The steady state of equations that are made already, see :func:`steady_state`."""
    problem = equations.problem
    t = start_time(problem.interval, options.t0)
    u0, du = guess_of(problem, options.guess, t), np.zeros(problem.n)
    fixed, turning = np.zeros(problem.n, dtype=bool), np.zeros(problem.n, dtype=bool)
    for name, value in (options.fixed or {}).items():
        base, order = name_and_order(str(name))
        lower = name_of(base, order - 1) if order else ""
        if lower in problem.names:
            du[problem.names.index(lower)] = require_number(str(name), value)
        if str(name) in problem.names or lower not in problem.names:
            j = _place(problem, str(name))
            u0[j], fixed[j] = require_number(str(name), value), True
    for name in options.turning or ():
        turning[_place(problem, name)] = True
    hidden = _hidden(with_model(equations), t) if turning.any() or du.any() else None
    problem.start_step(problem.state(u0), t)
    return find_steady(problem, u0, t=t, du=du, fixed=fixed, turning=turning, hidden=hidden)


def guess_of(problem: ProblemDAE, values: Any, t: float) -> Vector:
    """A state from given values, by name or all of them; the others are those of the start, or 0."""
    from dae_sdc.initial.search import guesses_of_state

    by_name = values if isinstance(values, Mapping) else {}
    guess, _ = guesses_of_state(problem, None if by_name is values else values, t)
    for name, value in by_name.items():
        guess[_place(problem, str(name))] = require_number(str(name), value)
    return guess


def _place(problem: ProblemDAE, name: str) -> int:
    return require_name(f"name in {problem.name}", name, problem.names)


def _hidden(equations: Equations, t: float) -> Hidden | None:
    """The hidden constraints; None where there are none, or where they are not known."""
    model, labels = equations.model, equations.labels
    if model is None:
        return None
    places = {(labels.get(model.names[j], model.names[j]), k): (j, k) for j, k in model.form().states}
    states = [places.get((name, 0)) or places[name_and_order(name)] for name in equations.problem.names]
    try:
        hidden = Hidden(jets_of(model, t), states)
    except DAEError:
        return None
    return hidden if hidden.rows.size else None


@takes(BranchOptions)
@one_at_a_time
def steady_branch(options: BranchOptions) -> Branch:
    """Steady states over a parameter, followed around folds, with their stability.

    The branch begins at the steady state near the guess for the first value of the parameter, is followed by
    its arc length, and ends where the parameter leaves its range.

    {options}

    Returns
    -------
    Branch
        Values of the parameter, states, numbers of unstable poles, folds and Hopf points.

    Raises
    ------
    ConvergenceError
        If there is no steady state at the first value.
    InputError
        If something given cannot be used.

    References
    ----------
    E. L. Allgower, K. Georg: Introduction to Numerical Continuation Methods, SIAM (2003).

    Examples
    --------
    >>> m = ds.Model("snap")
    >>> x, p = m.variable("x", -1.2), m.parameter("p", 0.0)
    >>> m.equation(m.der(x, 2) + 0.3 * m.der(x) + x**3 - x - p)
    >>> branch = ds.steady_branch(m, vary={"p": (-0.6, 0.6)})
    >>> len(branch.special)
    2
    """
    if options.out is not None:
        check_target(options.out)
    name, first, last = _range(options.vary)
    if options.turning or any(str(key).startswith("der(") for key in options.fixed or ()):
        raise InputError("branches are of states at rest; leave turning and fixed derivatives out")
    equations = equations_near(options.problem, options.params, options.guess, options.t0)
    ParameterOfProblem(equations.problem, name).value = first
    with metering(lambda total, unit: bar_of(total, unit, options.progress)):
        declared = None if equations.model is None else equations.model.parameters_by_name.get(name)
        unit = equations.problem.parameter_units.get(name, "") if declared is None else declared.unit
        branch = branch_of(equations.problem, rest_of(equations, options), name, (first, last), unit)
    if options.out is not None:
        put_down(_table(branch, options), options.out, True)
    return branch


def _range(vary: Mapping[str, Any] | None) -> tuple[str, float, float]:
    if not isinstance(vary, Mapping) or len(vary) != 1:
        raise InputError(
            "vary takes one parameter with its first and last value, for instance {'load': (0, 10)}"
        )
    ((name, ends),) = vary.items()
    pair = ends.split(":") if isinstance(ends, str) else ends
    try:
        first, last = (float(end) if isinstance(end, str) else require_number(name, end) for end in pair)
    except (TypeError, ValueError):
        raise InputError(f"{name} needs its first and last value, for instance 0:10; got {ends!r}") from None
    return str(name), first, last


def _table(branch: Branch, options: BranchOptions) -> Result:
    n = branch.u.shape[1]
    columns = [("value", "f8"), ("u", "f8", (n,)), ("unstable", "i8"), ("special", "U8"), ("frequency", "f8")]
    states = zip(branch.values, branch.u, branch.unstable, strict=True)
    rows = [(value, u, count, "", 0.0) for value, u, count in states]
    rows += [(point.value, point.u, -1, point.kind, point.frequency) for point in branch.special]
    about: dict[str, Any] = {"problem": branch.title, "parameter": branch.parameter}
    about |= {"names": list(branch.names), "unknown_units": list(branch.units), "complete": branch.complete}
    about |= {key: value for key, value in options.told().items() if key != "problem"}
    return tabulated("branch", columns, rows, about, {"value": branch.parameter_unit})


add_arguments = partial(add_options, record=BranchOptions)


def main(args: argparse.Namespace) -> int:
    """Run ``dae-sdc steady``."""
    given = given_options(args, BranchOptions)
    if "vary" in given:
        print(steady_branch(**{"progress": None, **given}))
        say_written(args.out)
        return 0
    if args.out:
        raise InputError("a file is written of a branch; give --vary too")
    print(steady_state(**{name: value for name, value in given.items() if name != "progress"}))
    return 0
