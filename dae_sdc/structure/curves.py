"""Expressions along curves: their Taylor series in real numbers, or at random points of a finite field."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dae_sdc.expressions.operations import Op
from dae_sdc.structure.real_series import ArrayArithmetic, Floats
from dae_sdc.structure.series import RULES, Arithmetic, NoValueError, Series

if TYPE_CHECKING:
    from dae_sdc.expressions.arithmetic import Expressions
    from dae_sdc.expressions.dag import Leaf
    from dae_sdc.expressions.graph import Graph

Partials: TypeAlias = dict[tuple[int, int], Series]
"""Partial derivatives of an expression by x_j^(k), with the keys (j, k)."""

RANDOM_POINTS = 5
"""Number of random points that are tried for one at which all square roots exist."""

_WIDE = 8
"""Mean size of the groups of a tape from which on arrays are faster than Python's numbers."""


class _Group(NamedTuple):
    """Steps of a tape with the same operation and different operands that do not depend on each other."""

    op: Op
    exponent: int
    places: npt.NDArray[np.int64]
    operands: npt.NDArray[np.int64]
    moving: tuple[bool, ...]


class Tape:
    """Expressions in an order in which they are evaluated along a curve."""

    def __init__(self, graph: Expressions, roots: Sequence[int]) -> None:
        place: dict[int, int] = {}
        self._numbers: list[tuple[int, Any, int]] = []
        self._steps: list[tuple[int, Op, tuple[int, ...], int]] = []
        self.leaves: list[Leaf] = []
        self._leaf_places: list[int] = []
        for node in graph.below(roots):
            number, leaf = graph.numbers.get(node), graph.leaves.get(node)
            at = place[node] = len(self._numbers) + len(self._steps) + len(self.leaves)
            if number is not None:
                self._numbers.append((at, number, graph.value[node]))
            elif leaf is None:
                operands = tuple(place[arg] for arg in graph.operands(node))
                op = graph.op[node]
                self._steps.append((at, op, operands, graph.args[node][1] if op is Op.INTPOW else 0))
            else:
                self.leaves.append(leaf)
                self._leaf_places.append(at)
        self._size = len(self._numbers) + len(self._steps) + len(self.leaves)
        self._roots = [place[node] for node in roots]

    @cached_property
    def _groups(self) -> list[_Group]:
        level, moving = [0] * self._size, [False] * self._size
        for at, leaf in zip(self._leaf_places, self.leaves, strict=True):
            moving[at] = leaf.kind != "p"
        alike: dict[tuple[int, Op, int, tuple[bool, ...]], list[tuple[int, tuple[int, ...]]]] = defaultdict(
            list
        )
        for at, op, operands, exponent in self._steps:
            moves = tuple(moving[arg] for arg in operands)
            level[at], moving[at] = 1 + max((level[arg] for arg in operands), default=0), any(moves)
            alike[level[at], op, exponent, moves].append((at, operands))
        return [
            _Group(
                op,
                exponent,
                np.array([at for at, _ in steps], dtype=np.int64),
                np.array([operands for _, operands in steps], dtype=np.int64).T,
                moves,
            )
            for (_, op, exponent, moves), steps in sorted(alike.items())
        ]

    @cached_property
    def is_wide(self) -> bool:
        """Whether enough steps share an operation that arrays are faster than Python's numbers."""
        return len(self._steps) > _WIDE and len(self._steps) > _WIDE * len(self._groups)

    def coefficients(self, leaves: Floats) -> Floats:
        """Taylor coefficients of the expressions along a curve, in doubles and all at once."""
        # Shapes: leaves (order + 1, leaves) -> (order + 1, roots).
        ring = ArrayArithmetic(len(leaves) - 1)
        found = np.zeros((len(leaves), self._size))
        for at, *number in self._numbers:
            found[0, at] = ring.number(*number)
        found[:, self._leaf_places] = leaves
        with np.errstate(all="ignore"):
            for op, exponent, places, operands, moving in self._groups:
                series: list[Any] = [
                    list(found[: None if moves else 1, arg])
                    for arg, moves in zip(operands, moving, strict=True)
                ]
                if op is Op.INTPOW:
                    series.append(exponent)
                result: list[Any] = RULES[op](ring, *series)
                if op is Op.SQRT and len(series[0]) == 1:
                    result[0] = np.where(series[0][0] == 0, 0.0, result[0])
                for k, coefficient in enumerate(result):
                    found[k, places] = coefficient
        return found[:, self._roots]

    def evaluate(self, ring: Arithmetic, leaf: Callable[[Leaf], Series]) -> list[Series | None]:
        """Taylor series of the expressions along a curve."""
        found: list[Series | None] = [None] * self._size
        for at, *number in self._numbers:
            found[at] = [ring.number(*number)]
        for at, source in zip(self._leaf_places, self.leaves, strict=True):
            found[at] = leaf(source)
        for at, op, operands, exponent in self._steps:
            found[at] = _applied(ring, op, exponent, [found[arg] for arg in operands])
        return [found[at] for at in self._roots]


def _applied(ring: Arithmetic, op: Op, exponent: int, operands: list[Series | None]) -> Series | None:
    if op is Op.SELECT and ring.takes_branches and operands[0] is not None:
        return operands[1] if operands[0][0] else operands[2]  # the branch not taken may have no value
    known: list[Any] = [series for series in operands if series is not None]
    if len(known) < len(operands):
        return None
    if op is Op.SQRT and ring.takes_branches and known[0] == [0]:
        return list(known[0])
    if op is Op.INTPOW:
        known.append(exponent)
    try:
        return RULES[op](ring, *known)
    except (ArithmeticError, ValueError):
        return None


def evaluate(graph: Graph, roots: Iterable[int], order: int) -> list[tuple[Series, Partials]]:
    """Values and derivatives of expressions along a random curve of a finite field, t = t_0 + h."""
    nodes = list(roots)
    slopes = [
        (i, graph.leaves[leaf][1:], slope)
        for i, node in enumerate(nodes)
        for leaf, slope in graph.gradient(node).items()
        if graph.leaves[leaf].kind == "u"
    ]
    tape = Tape(graph, [*nodes, *(slope for _, _, slope in slopes)])
    points = (Arithmetic(order, point, exact_roots=True) for point in range(RANDOM_POINTS))
    # If all random points fail, square roots that the field lacks are those of constant multiples.
    for ring in (*points, Arithmetic(order)):
        found = [series for series in tape.evaluate(ring, ring.leaf) if series is not None]
        if len(found) == len(nodes) + len(slopes):
            break
    else:
        raise NoValueError
    partials: list[Partials] = [{} for _ in nodes]
    for (i, jet, _), series in zip(slopes, found[len(nodes) :], strict=True):
        partials[i][jet] = series
    return list(zip(found[: len(nodes)], partials, strict=True))
