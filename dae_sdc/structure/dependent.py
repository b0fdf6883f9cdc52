"""Models whose equations are not independent: those that are functions of others are left out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from dae_sdc.errors import InconsistentStateError
from dae_sdc.expressions.dag import PRIME, Leaf
from dae_sdc.structure.rank import Echelon, independent_rows
from dae_sdc.structure.signature import StructureError, listed

# Cost of an equation for an unknown that it does not contain, where equations are chosen.
NOT_CONTAINED = 1e6
# Cost of each equation before another one that serves as well.
COST_OF_LATER = 1e-6
R = TypeVar("R")
FROZEN_RATE = 0x2F1A7C5D9E3B  # Any number that is no rate at which linear equations happen to be singular.


def square(model: Any) -> Any:
    """A model of as many equations as unknowns, with those that are left out as ``redundant``.

    Of equations whose derivatives are linear combinations of each other the later ones are left out, of the
    rest those without derivatives. Others are returned as they are: they are refused elsewhere.
    """
    count = len(model.names)
    if len(model.roots) <= count or not count:
        return model
    known = getattr(model, "_square", None)
    if known is None or known[0] != model.content():
        values, gradients = model.graph.value, map(model.graph.gradient, model.roots)
        # Gradients at a random point that are no combinations of those before them.
        rows = independent_rows({leaf: values[slope] for leaf, slope in row.items()} for row in gradients)
        kept = _chosen(model, rows, count)
        model._square = known = model.content(), model if kept is None else _with(model, kept)
    return known[1]


def _chosen(model: Any, rows: Sequence[int], count: int) -> list[int] | None:
    """As many equations as unknowns, with as many derivatives as possible; None if there are not so many."""
    cost = np.full((len(model.roots), count), NOT_CONTAINED)
    equations, unknowns, orders = model.signature()
    cost[equations, unknowns] = -orders.astype(float) + COST_OF_LATER * equations
    taken, of = linear_sum_assignment(cost[list(rows)]) if len(rows) >= count else ((), ())
    chosen = [rows[at] for at in taken]
    if len(chosen) < count or (cost[chosen, of] == NOT_CONTAINED).any():
        return None
    return sorted(chosen)


def _with(model: Any, kept: Sequence[int]) -> Any:
    """The model with some of its equations, and the others as ``redundant``."""
    left = [i for i in range(len(model.roots)) if i not in set(kept)]
    names, other = model.equation_names, copy.copy(model)
    other.roots, other._expressions = ([part[i] for i in kept] for part in (model.roots, model._expressions))
    place = {i: at for at, i in enumerate(kept)}
    other._equation_names = {names[i]: at for i, at in place.items()}
    other._names_of_equations, other._forms = (), {}
    simpler = model.simplified_roots.items()
    other.simplified_roots = {place[i]: root for i, root in simpler if i in place}
    other.redundant = (*model.redundant, *((names[i], model.roots[i]) for i in left))
    return other


def closed(model: Any) -> Any:
    """A model in which unknowns that are open, as some equations follow from others, stay as they start.

    An equation that is a function of others is left out, and ``der(z) = 0`` takes its place, where z is an
    unknown without which the others determine all unknowns. Other models are returned as they are.
    """
    values = tuple(parameter.value for parameter in model.parameters_by_name.values())
    before = getattr(model, "_closed", None)
    if before is None or before[0] != (values, model.roots):
        model._closed = before = (values, [*model.roots]), _closed(model, values)
    return model if before[1] is None else before[1]


def _closed(model: Any, parameters: Sequence[Any]) -> Any:
    """The closed model for values of its parameters; None where that is the model itself."""
    if len(model.roots) != len(model.names):
        return None
    graph, count = model.graph.copy(), len(model.names)
    known = {
        graph.leaf(Leaf("p", k)): graph.constant(value)
        for k, value in enumerate(parameters)
        if value is not None and np.isfinite(value)
    }
    gradients: list[dict[Leaf, int]] = []
    for root in graph.substitute(model.roots, known):
        gradient = graph.gradient(root)
        gradients.append({graph.leaves[leaf]: graph.value[slope] for leaf, slope in gradient.items()})
    jets = sorted({leaf for row in gradients for leaf in row if leaf.kind == "u"})
    # Behind the columns of time and of the equations, of which a row that depends keeps those it depends on.
    numbers = {jet: 1 + count + at for at, jet in enumerate(jets)}
    echelon, rows, left = Echelon(), list[int](), dict[int, dict[int, int]]()
    for i, gradient in enumerate(gradients):
        row = {numbers.get(leaf, 0): value for leaf, value in gradient.items() if value} | {1 + i: 1}
        if echelon.add(row, 1 + count) is None:
            left[i] = row
        else:
            rows.append(i)
    if not left:
        return None
    # Coefficients frozen at a random point: a derivative of order k is the k-th power of a number times it.
    columns: list[dict[int, int]] = [{} for _ in range(count)]
    for i in rows:
        for leaf in gradients[i].keys() & numbers.keys():
            slope = gradients[i][leaf] * pow(FROZEN_RATE, leaf.order, PRIME)
            columns[leaf.index][i] = (columns[leaf.index].get(i, 0) + slope) % PRIME
    highest = {jet.index: jet.order for jet in jets}
    ordered = sorted(range(count), key=lambda j: -highest.get(j, 0))
    determined = {ordered[at] for at in independent_rows(columns[j] for j in ordered)}
    held = sorted(set(range(count)) - determined)
    if len(held) != len(left):
        return None
    names = model.equation_names
    for i, row in left.items():
        if row.get(0):
            others = listed([names[k - 1] for k in sorted(row) if 0 < k != 1 + i])
            raise InconsistentStateError(
                f"'{names[i]}' of model {model.name} does not follow from the other equations: at most times "
                f"it {f'contradicts {others}' if others else 'holds for no values'}; remove one"
            )
    other = _with(model, rows)
    other.simplified_roots = {}
    for j in held:
        other.add_root(model.graph.leaf(Leaf("u", j, 1)), f"der({model.names[j]}) = 0")
    other.held = tuple(model.names[j] for j in held)
    return other


def of_closed(find: Callable[[Any], R], model: Any) -> R:
    """What is found of a model; where its equations do not determine all unknowns, of the closed one."""
    try:
        return find(model)
    except StructureError:
        other = closed(model)
        if other is model:
            raise
    return find(other)
