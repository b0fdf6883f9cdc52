"""Jumps of the equations of a model: comparisons and signs on which their values depend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.expressions.dag import MOVING, Leaf
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.operations import Op

_COMPARISONS: Final = frozenset({Op.LT, Op.LE})
BORDER_POINTS: Final = 64
"""Number of points of a border at which the two branches are compared."""

BORDER_DISTANCE: Final = 1e-2
"""Distance from a border, relative to 1 + abs of an unknown, at which branches have their usual size."""

BRANCH_TOLERANCE: Final = 1e-9
"""Difference of two branches, relative to their size, up to which there is no jump."""


class Jump(NamedTuple):
    """A comparison, or a sign, at whose border an equation jumps.

    Parameters
    ----------
    node : int
        The comparison a < b or a <= b, or sign(a), in the graph.
    border : int
        Expression whose zeros are the border; zero itself belongs to the positive side.
    negative, positive : float
        Value of ``node`` where the border expression is negative, and where it is not.
    """

    node: int
    border: int
    negative: float
    positive: float


def jumps_of(
    graph: Graph,
    roots: Sequence[int],
    parameter: Callable[[int], float],
    follows: Callable[[Leaf], bool],
    unsure: bool = True,
) -> list[Jump]:
    """The jumps of expressions as functions of time and of a state.

    A choice whose two branches agree where its comparison changes has a kink and no jump: step size control
    handles kinks without locating them.

    Parameters
    ----------
    graph : Graph
        The expressions.
    roots : sequence of int
        Nodes of the equations.
    parameter : callable
        Function that gives the value of parameter i; NaN where it has none.
    follows : callable
        Function that says whether a leaf is time or an entry of the state. Comparisons of other leaves,
        derivatives that no state holds, are not listed.
    unsure : bool
        Whether choices count as jumps of which no point of the border is found, or whose branches differ
        there by what rounding leaves of values that vanish.
    """
    found = dict.fromkeys(node for node in roots if graph.op[node] in _COMPARISONS)
    for node in graph.below(roots):
        op, operands = graph.op[node], graph.operands(node)
        if op is Op.SIGN:
            found[node] = None
        for at, operand in enumerate(operands):
            chooses = op is Op.SELECT and at == 0
            if graph.op[operand] not in _COMPARISONS:
                continue
            agree = _agree(graph, operand, operands[1], operands[2], parameter, unsure) if chooses else False
            if not (agree or (agree is None and not unsure)):
                found[operand] = None
    return [
        _jump(graph, node)
        for node in found
        if graph.mark[node] & MOVING and all(follows(leaf) for leaf in graph.leaves_of(node))
    ]


def jump_times(graph: Graph, roots: Sequence[int], parameter: Callable[[int], float]) -> list[float]:
    """Times at which comparisons change that depend on time alone, and linearly.

    Parameters
    ----------
    graph, roots, parameter
        The parameters of :func:`jumps_of`.
    """
    times = np.arange(3.0)

    def value(leaf: Leaf) -> Any:
        return times if leaf.kind == "t" else np.full(3, parameter(leaf.index))

    found = []
    for jump in jumps_of(graph, roots, parameter, lambda leaf: leaf.kind in "tp"):
        at = graph.numeric([jump.border], value)[0].tolist()
        slope = at[1] - at[0]
        if slope != 0.0 and abs(at[2] - 2.0 * at[1] + at[0]) <= 1e-12 * abs(slope):
            found.append(-at[0] / slope)
    return found


def _jump(graph: Graph, node: int) -> Jump:
    if graph.op[node] is Op.SIGN:
        return Jump(node, graph.args[node][0], -1.0, 1.0)
    a, b = graph.args[node]
    if graph.op[node] is Op.LE:
        return Jump(node, graph.sub(b, a), 0.0, 1.0)
    return Jump(node, graph.sub(a, b), 1.0, 0.0)


def _agree(
    graph: Graph,
    condition: int,
    first: int,
    second: int,
    parameter: Callable[[int], float],
    unsure: bool,
) -> bool | None:
    """Whether two branches are equal at points of the border between them; None where no point is found."""
    a, b = graph.args[condition]
    gap, rng = graph.sub(a, b), np.random.default_rng(0)
    values: dict[Leaf, Vector] = {}

    def value(leaf: Leaf) -> Any:
        if leaf.kind == "p" and np.isfinite(parameter(leaf.index)):
            return np.full(BORDER_POINTS, parameter(leaf.index))
        if leaf not in values:
            values[leaf] = rng.choice([-1.0, 1.0], BORDER_POINTS) * 10.0 ** rng.uniform(
                -3.0, 3.0, BORDER_POINTS
            )
        return values[leaf]

    for leaf in sorted(graph.leaves_of(gap), key=lambda one: (one.kind, one.index, one.order)):
        if leaf.kind == "p":
            continue
        at = []
        for place in (0.0, 1.0, 2.0):
            values[leaf] = np.full(BORDER_POINTS, place)
            at.append(graph.numeric([gap], value)[0])
        slope = at[1] - at[0]
        with np.errstate(all="ignore"):
            if not np.allclose(at[2] - at[1], slope, rtol=1e-12) or not (slope != 0.0).all():
                del values[leaf]
                continue
            values[leaf] = -at[0] / slope
        one, other = graph.numeric([first, second], value)
        size = np.abs(one) + np.abs(other)
        told = np.isfinite(size)
        if not unsure:  # branches that both vanish there differ by rounding alone
            values[leaf] = values[leaf] + BORDER_DISTANCE * (1.0 + np.abs(values[leaf]))
            size = size + sum(np.nan_to_num(np.abs(away)) for away in graph.numeric([first, second], value))
        return (
            bool((np.abs(one - other)[told] <= BRANCH_TOLERANCE * size[told]).all()) if told.any() else None
        )
    return None
