"""Tracing of functions that branch on values of expressions: one call for each path through the branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple, cast

import numpy as np

from dae_sdc.expressions.dag import Op
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.symbolic_values import CONDITIONS, Scalar, SymbolArray, Untraceable, node_of

MOST_PATHS_OF_CALL: Final = 32  # Largest number of paths through the branches of one call of a function.
MOST_PATHS: Final = 10_000  # Largest number of paths through all calls of a function.


class Unmergeable(Exception):
    """The results of two paths cannot be merged into one expression."""


class _HalfLine(NamedTuple):
    """The half-line on which a comparison of an expression with a number is true."""

    expression: int
    upward: bool
    end: Fraction
    closed: bool

    def contrary(self) -> _HalfLine:
        return self._replace(upward=not self.upward, closed=not self.closed)

    def decides(self, other: _HalfLine) -> bool | None:
        """True if all its points are in ``other``, False if none is, None if some are or it is not known."""
        if self.expression != other.expression:
            return None
        within = self.end > other.end if self.upward else self.end < other.end
        if self.upward is other.upward:
            return True if within or (self.end == other.end and self.closed <= other.closed) else None
        return False if within or (self.end == other.end and not (self.closed and other.closed)) else None


@dataclass
class ExecutionPaths:
    """Paths through the branches of a function, whose results are merged into one expression per value.

    Where Python takes the truth value of an expression, the first call proceeds with True. Further calls
    take the other branches, and the results are merged with the conditions as by ``numpy.where``. A condition
    that follows from earlier ones on the path has one branch only.
    """

    graph: Graph  # Graph of the expressions.
    count: int = 0  # Number of paths taken so far.
    branches: bool = False  # Whether any branch depends on the value of an expression.
    _under_way: list[tuple[dict[int, bool], Iterator[int]]] = field(default_factory=list)

    def of_function(self, call: Callable[[], Any]) -> Any:
        """The merged result of a call over all its paths."""
        before = CONDITIONS.set(self._outcome)
        try:
            return self._from(call, {}, iter(range(1, MOST_PATHS_OF_CALL)))
        finally:
            CONDITIONS.reset(before)

    def of_call(self, call: Callable[[], Any], arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
        """The merged result of a call inside the function; if it cannot be merged, the call is repeated."""
        before = [(array, array.copy()) for array in arrays]
        path: dict[int, bool] = {}

        def called() -> Any:
            value = call()
            if self._under_way[-1][0] and any(now.tobytes() != then.tobytes() for now, then in before):
                raise Unmergeable("arrays that change on one of its paths")
            return value

        try:
            return self._from(called, path, iter(range(1, MOST_PATHS_OF_CALL)))
        except Exception:
            if not path:
                raise
            for array, values in before:
                array[...] = values
            return call()

    def _from(self, call: Callable[[], Any], path: dict[int, bool], left: Iterator[int]) -> Any:
        """The merged result of a call over all paths on which conditions have the values in ``path``."""
        self.count += 1
        given = len(path)
        self._under_way.append((path, left))
        try:
            value = call()
        finally:
            self._under_way.pop()
        asked = list(path)
        for k in reversed(range(given, len(asked))):
            other = {condition: path[condition] for condition in asked[:k]} | {asked[k]: False}
            value = self._merged(asked[k], value, self._from(call, other, left))
        return value

    def _outcome(self, condition: Scalar) -> bool:
        """Truth value of a condition on the current path."""
        node, true = self._normal(condition.node)
        number = self.graph.numbers.get(node)
        known = None if number is None else number != 0
        if known is None:
            known = self._known(node)
        if known is None:
            path, left = self._under_way[-1]
            if next(left, None) is None or self.count > MOST_PATHS:
                raise Untraceable(f"branches on values in more than {MOST_PATHS_OF_CALL} ways")
            self.branches = known = path[node] = True
        return known is true

    def _normal(self, node: int) -> tuple[int, bool]:
        """The condition without negations; False if it is the negation of the given one, else True."""
        graph, true = self.graph, True
        while graph.op[node] is Op.SELECT and graph.args[node][1:] == (graph.zero, graph.one):
            node, true = graph.args[node][0], not true
        if graph.op[node] is Op.LT:
            a, b = graph.args[node]
            return graph.call(Op.LE, b, a), not true
        return node, true

    def _known(self, node: int) -> bool | None:
        """Truth value of a condition by earlier ones on the path; None if it does not follow from them."""
        asked = self._half_line(node)
        for path, _ in self._under_way:
            if node in path:
                return path[node]
            for other, outcome in path.items() if asked else ():
                line = self._half_line(other)
                told = line and (line if outcome else line.contrary()).decides(cast(_HalfLine, asked))
                if told is not None:
                    return told
        return None

    def _half_line(self, node: int) -> _HalfLine | None:
        """The half-line of a comparison with a number; None for other conditions."""
        if self.graph.op[node] is not Op.LE:
            return None
        numbers = [self.graph.numbers.get(arg) for arg in self.graph.args[node]]
        for side, number in enumerate(numbers):
            if isinstance(number, Fraction):
                return _HalfLine(self.graph.args[node][1 - side], side == 0, number, True)
        return None

    def _merged(self, condition: int, one: Any, other: Any) -> Any:
        """``one`` where a condition is true, else ``other``, entry by entry."""
        if one is other:
            return one
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.shape == other.shape:
            pairs = zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)
            made = np.empty(one.size, dtype=object)
            made[:] = [self._merged(condition, *pair) for pair in pairs]
            return made.reshape(one.shape).view(SymbolArray)
        if type(one) is type(other) and isinstance(one, list | tuple) and len(one) == len(other):
            parts = [self._merged(condition, *pair) for pair in zip(one, other, strict=True)]
            return type(one)(*parts) if hasattr(one, "_fields") else type(one)(parts)
        for value in (one, other):
            if not isinstance(value, _NUMBERS):
                raise Unmergeable(f"{type(value).__name__} on one of its paths")
        if all(isinstance(value, int | np.integer | np.bool_) for value in (one, other)):
            if one == other:
                return one
            raise Unmergeable("whole numbers that differ on its paths")
        nodes = [node_of(self.graph, value) for value in (one, other)]
        return Scalar(self.graph, self.graph.call(Op.SELECT, condition, *nodes))


_NUMBERS: Final = (Scalar, int, float, np.number, np.bool_)
