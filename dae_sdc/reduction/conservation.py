"""Whether expressions that a user calls invariants are constant along the solutions of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dae_sdc.errors import InputError
from dae_sdc.expressions.graph import Graph
from dae_sdc.structure.analysis import Structure
from dae_sdc.structure.consistent import Start, find_points
from dae_sdc.structure.prolongation import Prolongation

LARGEST_RATE = 1e-8
"""Largest rate of an invariant, relative to the sum of the sizes of its terms."""


def check_invariants(
    model: Any, graph: Graph, found: Structure, invariants: Sequence[tuple[str, int]]
) -> None:
    r"""Refuse expressions that change along solutions.

    .. math::
        \dot I = \frac{\partial I}{\partial t} + \sum_{j,k} \frac{\partial I}{\partial x_j^{(k)}} x_j^{(k+1)}

    must vanish at points where the equations, differentiated as often as the offsets say, and the invariants
    themselves hold. Where no such point is found, nothing is refused.
    """
    if not invariants:
        return
    start = replace(Start.of(model), general=False)
    nodes = [node for _, node in invariants]
    for rows in ([*model.roots, *nodes], list(model.roots)):
        times = [*found.c.tolist(), *[0] * (len(rows) - len(model.roots))]
        points = list(find_points(Prolongation(graph, rows, times, found.d.tolist()), start))
        if points:
            break
    for name, node in invariants:
        leaves, slopes = zip(*sorted(graph.gradient(node).items()), strict=True)
        rates = [graph.total_derivative(leaf) for leaf in leaves]
        for point in points:
            values = point.evaluate([*slopes, *rates])
            if values is None:
                continue
            terms = [a * b for a, b in zip(values[: len(slopes)], values[len(slopes) :], strict=True)]
            rate = sum(terms)
            if abs(rate) > LARGEST_RATE * (1e-3 + sum(map(abs, terms))):
                raise InputError(
                    f"{name} is no invariant of model {model.name}: it changes at a rate of {rate:.3g} at a "
                    f"point that satisfies the equations, t={point.t:.6g}; correct or leave it out"
                )
