"""Expressions that are differentiated, evaluated and turned into programs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import CONSTANTS, IRRATIONAL, Cost, Leaf, Op, cost
from dae_sdc.expressions.derivatives import Derivatives
from dae_sdc.expressions.program import Input, Program

_IDLE_NUMBERS: Final[tuple[Fraction, ...]] = (Fraction(0), Fraction(1), Fraction(2), Fraction(3, 8))


class Graph(Derivatives):
    """Expressions of unknowns, their derivatives, parameters and time.

    Examples
    --------
    >>> graph = Graph()
    >>> x, y = graph.variable(0), graph.variable(1)
    >>> graph.mul(graph.add(x, y), graph.sub(x, y)) == graph.sub(graph.mul(x, x), graph.mul(y, y))
    True
    """

    def copy(self) -> Graph:
        """A copy of the graph, to which nodes can be added without changing the original."""
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(made, name, value.copy())
        made._digits = None
        return made

    def substitute(self, nodes: Sequence[int], values: Mapping[int, int]) -> list[int]:
        """Expressions with other nodes in the places of some; what does not depend on these stays."""
        replaced = dict(values)
        for node in self.below(nodes):
            if node in replaced:
                continue
            args = self.args[node]
            operands = self.operands(node)
            if all(replaced[arg] == arg for arg in operands):
                replaced[node] = node
            else:
                put = [replaced[arg] for arg in operands]
                replaced[node] = self.call(self.op[node], *put, *args[len(put) :])
        return [replaced[node] for node in nodes]

    def without(self, nodes: Sequence[int], idle: Iterable[int]) -> list[int]:
        """Expressions without leaves on which they do not depend: a number takes the place of these."""
        leaves = list(idle)
        known = self._known
        *first, last = _IDLE_NUMBERS
        for number in (*first, last):
            # An expression that is equal but written with the leaves must not be found.
            self._known = {self.value[node]: node for node in (*self.numbers, *self.leaves)}
            try:
                found = self.substitute(nodes, dict.fromkeys(leaves, self.constant(number)))
            except InputError:
                if number == last:
                    raise
                continue
            finally:
                known.update(self._known)
                self._known = known
            return found
        raise AssertionError("the last number has been tried")

    def counts(self, nodes: Iterable[int]) -> dict[str, int]:
        """Numbers of functions, multiplications, additions and divisions; equal terms count once."""
        costs = [
            cost(self.op[node], self.args[node][1] if self.op[node] is Op.INTPOW else 1)
            for node in self.below(nodes)
        ]
        return {kind: sum(getattr(one, kind) for one in costs) for kind in Cost._fields}

    def numeric(
        self, nodes: Sequence[int], values: Callable[[Leaf], Any], known: dict[int, Any] | None = None
    ) -> npt.NDArray[np.float64]:
        """Values of expressions by NumPy; those of all their parts are added to ``known`` ones."""
        # Shape of the result: (nodes,) or (nodes, points).
        slots: dict[int, Any] = {} if known is None else known
        with np.errstate(all="ignore"):
            for node in self.below(nodes, known=slots):
                slots[node] = self._evaluated(node, slots, values)
        found = np.broadcast_arrays(*(slots[node] for node in nodes)) if nodes else []
        return np.array(found, dtype=np.float64)

    def _evaluated(self, node: int, slots: Mapping[int, Any], values: Callable[[Leaf], Any]) -> Any:
        number = self.numbers.get(node)
        if number is not None:
            try:
                return np.float64(CONSTANTS[number] if isinstance(number, str) else number)
            except OverflowError:
                raise InputError(
                    "a number in the equations is too large for a float; use other units"
                ) from None
        leaf = self.leaves.get(node)
        if leaf is not None:
            return np.asarray(values(leaf), dtype=np.float64)
        op = self.op[node]
        return op.numpy(*[slots[arg] for arg in self.operands(node)], *self.args[node][op.arity :])

    def program(self, nodes: Sequence[int], inputs: Callable[[Leaf], Input | None]) -> Program:
        """The instructions that compute expressions."""
        order = self.below(nodes)
        given: dict[Input, int] = {}
        slots: dict[int, int] = {}
        idle: list[int] = []
        for node in order:
            leaf = self.leaves.get(node)
            if leaf is not None:
                source = inputs(leaf)
                if source is None:
                    idle.append(node)
                else:
                    slots[node] = given.setdefault(source, len(given))
        # Nodes made of numbers alone are computed here, once.
        fixed = [node for node in order if not self.mark[node] & ~IRRATIONAL]
        constants = self.numeric(fixed, lambda leaf: np.nan) if fixed else np.empty(0)
        slots.update({node: len(given) + at for at, node in enumerate([*fixed, *idle])})
        constants = np.concatenate([constants, np.zeros(len(idle))])
        first = len(given) + len(constants)
        code: list[list[int]] = []
        for node in order:
            if node in slots:
                continue
            op = self.op[node]
            row = [*[slots[arg] for arg in self.operands(node)], *self.args[node][op.arity :]]
            slots[node] = first + len(code)
            code.append([int(op), *row, *[0] * (3 - len(row))])
        outputs = [slots[node] for node in nodes]
        return Program(
            tuple(given),
            constants,
            np.array(code, dtype=np.int32).reshape(-1, 4),
            np.array(outputs, dtype=np.int32),
        ).used()
