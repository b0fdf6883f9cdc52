"""Equations that follow from others, which are left out, and are named where they do not follow."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dae_sdc.dae.projection import LinearRows
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InconsistentStateError
from dae_sdc.initial.consistent import listed
from dae_sdc.jets.graph import GraphJets
from dae_sdc.structure.dependent import closed, square


def left_out(model: Any) -> str:
    """What is said of equations that were left out, and of unknowns that stay as they start, if any."""
    parts = []
    if model.redundant:
        names = [name for name, _ in model.redundant]
        follow = "they follow" if len(names) > 1 else "it follows"
        parts.append(f"left out, as {follow} from the others: {listed(names)}")
    if model.held:
        are = "are" if len(model.held) > 1 else "is"
        parts.append(f"{listed(model.held)} {are} not determined by the equations, and kept as at the start")
    return "; ".join(parts)


def require_implied(system: Any, x: Vector) -> None:
    """Raise InconsistentStateError where a redundant equation does not go on to hold from a start.

    The highest derivatives of the start are differentiated once more, by linear equations.
    """
    graph, left = system.model.graph, system.model.redundant
    left = left[: len(left) - len(system.model.held)]  # what is left out of closed models is a function
    if not left:
        return
    offsets, first = system.analysis, len(system.jets)
    more = [(j, int(order) + 1) for j, order in enumerate(offsets.d)]
    rows = [(root, int(c) + 1) for root, c in zip(system.model.roots, offsets.c, strict=True)]
    rates = [(root, int(set(graph.depends(root)) <= system.place.keys())) for _, root in left]
    place = {jet: at for at, jet in enumerate((*system.jets, *more))}
    part = GraphJets(graph, [*system.derivatives, *rows, *rates], place, system.known)
    count, columns = len(system.derivatives), range(first, len(place))
    known = count + len(rows)
    whole = np.append(x, np.zeros(len(more)))
    with np.errstate(all="ignore"):
        matrix, values = part.dense(whole, columns)[count:known], part.values(whole)[count:known]
        whole[first:] = np.linalg.lstsq(matrix, -values, rcond=None)[0]
        values, terms = part.values(whole), part.terms(whole)
    open_rows = np.flatnonzero(~(np.abs(values[known:]) <= 1e3 * system.tolerance * terms[known:]))
    for row in open_rows[:1].tolist():
        matrix = part.jacobian(whole).toarray()[[*range(known), known + row]]
        share = np.abs(LinearRows(matrix, 1e-10, 1e-13).unreachable(np.append(np.zeros(known), 1.0)))
        involved = np.flatnonzero(share[:count] > 1e-3 * share.max()).tolist()
        others = listed([system.row_names[i] for i in involved])
        raise InconsistentStateError(
            f"'{left[row][0]}' of {system.title} does not follow from the other equations: its derivative is "
            f"left with {values[known + row]:.3g} at t={system.t:.6g}{f' by {others}' if involved else ''}; "
            f"remove one"
        )


def square_function(problem: Any, near: Any) -> Any:
    """A function with as many values as unknowns, where one returns more that can be read as equations.

    What is left out is kept in ``redundant``, as names and expressions.
    """
    from dae_sdc.model.functions import FunctionProblem

    if not isinstance(problem, FunctionProblem):
        return problem
    n, given = problem.n, problem.function
    function = functools.partial(given, **problem.parameter_values)
    with suppress(Exception), np.errstate(all="ignore"):  # of a function that is not made for these values
        count = np.size(function(problem.interval[0], np.full(n, 0.7) if near is None else near, np.zeros(n)))
        if count <= n:
            return problem
        from dae_sdc.model.trace import trace_problem

        names = (*problem.names, *(f"unknown of value {i}" for i in range(n, count)))
        wide = FunctionProblem(lambda t, u, du: function(t, u[:n], du[:n]), count, names=names)
        model = trace_problem(wide).model
        for name in list(model.names)[n:]:
            del model.variables_by_name[name], model._index[name]
        if (chosen := square(model)) is not model:
            return _with_chosen(problem, model, chosen)
    return problem


def closed_function(problem: Any, model: Any) -> Any:
    """A function in place of a problem that was read as a model, see :func:`closed`; None if that stays."""
    from dae_sdc.model.functions import FunctionProblem

    chosen = closed(model)
    if chosen is model:
        return None
    if isinstance(problem, FunctionProblem):
        return _with_chosen(problem, model, chosen)
    other = FunctionProblem(lambda t, u, du: problem.eval_f(u, du, t), problem.n, names=problem.names)
    kept = ("units", "interval", "dt", "newton_tol", "newton_maxiter", "linear_solver", "u_exact")
    for name in (*kept, *(["nominal"] if problem.given_nominal is not None else [])):
        setattr(other, name, getattr(problem, name))
    return _with_chosen(other, model, chosen)


def _with_chosen(problem: Any, model: Any, chosen: Any) -> Any:
    """The problem of a function with the equations that were chosen of those of its model."""
    kept = [model.equation_names.index(name) for name in chosen.equation_names[: -len(chosen.held) or None]]
    other = copy.copy(problem)
    held = [model.names.index(name) for name in chosen.held]
    other.function = functools.partial(_values, problem.function, kept, held)
    other.equation_names, other.held = chosen.equation_names, chosen.held
    left = [name for name, _ in chosen.redundant]
    other.redundant = tuple(zip(left, model.sympy([root for _, root in chosen.redundant]), strict=True))
    return other


def _values(
    function: Any, kept: Sequence[int], held: Sequence[int], t: float, u: Any, du: Any, **parameters: Any
) -> list[Any]:
    """Some values of a function F(t, u, du), and derivatives of unknowns that are held."""
    values = function(t, u, du, **parameters)
    return [*(values[i] for i in kept), *(du[j] for j in held)]


def with_redundant(model: Any, problem: Any) -> Any:
    """The model of a function with what was left out of that."""
    left = getattr(problem, "redundant", ())
    if not left or model.redundant:
        return model
    model = copy.copy(model)
    nodes = model.nodes(expression for _, expression in left)
    model.redundant = tuple(zip((name for name, _ in left), nodes, strict=True))
    model.held = problem.held
    return model
