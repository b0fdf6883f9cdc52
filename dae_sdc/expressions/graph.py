"""Expressions that are differentiated, evaluated and turned into programs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import CONSTANTS, IRRATIONAL, MOVING, PARAMETER, Expressions, Leaf
from dae_sdc.expressions.digits import Digits
from dae_sdc.expressions.operations import NUMPY, Cost, Op, cost
from dae_sdc.expressions.program import Input, Program

__all__ = ["Graph"]

_PIECEWISE_CONSTANT: Final = frozenset({Op.SIGN, Op.FLOOR, Op.LT, Op.LE})
_CHOICES: Final = frozenset({Op.SELECT, Op.MIN, Op.MAX})
_ZERO_WITH_FIRST: Final = frozenset({Op.NEG, Op.DIV, Op.INTPOW, Op.SQRT, Op.ABS, Op.SINH, Op.ATAN, Op.ASINH})
_IDLE_NUMBERS: Final[tuple[Fraction, ...]] = (Fraction(0), Fraction(1), Fraction(2), Fraction(3, 8))
_NEVER_ZERO: Final = frozenset({Op.EXP, Op.COSH, Op.INPUT, Op.CONSTANT})


class Graph(Expressions):
    """Expressions of unknowns, their derivatives, parameters and time.

    Examples
    --------
    >>> graph = Graph()
    >>> x, y = graph.variable(0), graph.variable(1)
    >>> graph.mul(graph.add(x, y), graph.sub(x, y)) == graph.sub(graph.mul(x, x), graph.mul(y, y))
    True

    Attributes
    ----------
    remembered : dict
        What was found out about nodes, by what was asked; it goes with the graph.
    """

    def __init__(self) -> None:
        super().__init__()
        self.remembered: dict[Any, Any] = {}
        self._gradients: dict[tuple[int, bool, int], dict[int, int]] = {}
        self._totals: dict[int, int] = {}
        self._digits: Digits | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Numbers of many digits cannot be pickled.
        return {**self.__dict__, "_digits": None, "remembered": {}}

    def copy(self) -> Graph:
        """A graph with the same nodes that grows by itself."""
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(made, name, value.copy())
        made._digits = None
        return made

    # What is zero, and what depends on what

    def is_zero(self, node: int) -> bool:
        """Whether an expression is 0 for all values of its leaves.

        Known for rational expressions, but for a probability of 1e-30. A sum with other functions in it
        counts as 0 also if its values at two random points, computed with 60 digits, do.
        """
        stack = [node]
        while stack:
            node = stack.pop()
            if node == self.zero:
                return True
            if not self.mark[node] & IRRATIONAL:
                continue
            op = self.op[node]
            if op is Op.MUL:
                stack.extend(self.args[node])
            elif op in _ZERO_WITH_FIRST:
                stack.append(self.args[node][0])
            elif op not in _NEVER_ZERO:
                if self._digits is None:
                    self._digits = Digits(self)
                if self._digits.is_zero(node):
                    return True
        return False

    def depends(self, node: int) -> set[tuple[int, int]]:
        """Unknowns and orders of derivatives on which an expression truly depends, through veils too."""
        found = self.gradient(node)
        return {self.leaves[leaf][1:] for leaf in found if self.leaves[leaf].kind == "u"}

    # Derivatives

    def gradient(self, node: int, veils: bool = True, parameters: bool = False) -> dict[int, int]:
        """All partial derivatives that are not 0, by the nodes of the leaves.

        Parameters
        ----------
        node : int
            What is differentiated.
        veils : bool
            Whether veils are functions, of what they stand for. If not, they are variables of their own.
        parameters : bool
            Whether derivatives with respect to parameters are among them.
        """
        return self._gradient(node, veils, MOVING | PARAMETER if parameters else MOVING)

    def differentiate(self, node: int, leaf: int, veils: bool = True) -> int:
        """The partial derivative with respect to a leaf; ``veils`` as in :meth:`gradient`."""
        return self.gradient(node, veils, self.leaves[leaf].kind == "p").get(leaf, self.zero)

    def _gradient(self, root: int, veils: bool, mark: int) -> dict[int, int]:
        known = self._gradients.get((root, veils, mark))
        if known is None:
            # Choices in choices first, so that their depth is none of Python's stack.
            for node in (*self._chosen_below(root, veils, mark), root):
                known = self._gradients[node, veils, mark] = self._swept(node, veils, mark)
        assert known is not None
        return known

    def _chosen_below(self, root: int, veils: bool, mark: int) -> list[int]:
        """Branches of choices whose gradients are not known, each behind those that it needs."""
        stack, seen = [root], {root}
        branches: set[int] = set()
        while stack:
            node = stack.pop()
            operands: Sequence[int] = self.operands(node)
            if self.op[node] in _CHOICES:
                operands = self._branches(node)[1:]
                branches.update(arg for arg in operands if (arg, veils, mark) not in self._gradients)
            elif veils and node in self.leaves and self.leaves[node].kind == "v":
                operands = (self.veils[self.leaves[node].index],)
            for arg in operands:
                if self.mark[arg] & mark and arg not in seen and (arg, veils, mark) not in self._gradients:
                    seen.add(arg)
                    stack.append(arg)
        return sorted(branches - {root})

    def _swept(self, root: int, veils: bool, mark: int) -> dict[int, int]:
        """The gradient by one pass from an expression down to its leaves."""
        leaves = self.leaves
        found: dict[int, int] = {}
        if not self.mark[root] & mark:
            return found
        adjoint: dict[int, int] = {root: self.one}
        for node in reversed(self._region(root, veils, mark)):
            outer = adjoint.pop(node, self.zero)
            if outer == self.zero:
                continue
            if node in leaves:
                leaf = leaves[node]
                if not (veils and leaf.kind == "v"):
                    if not self.is_zero(outer):
                        found[node] = outer
                    continue
                parts = [(self.veils[leaf.index], outer)]
            elif self.op[node] in _CHOICES:
                parts = self._chosen(node, outer, veils, mark)
            else:
                parts = self._partials(node, outer)
            for arg, part in parts:
                before = adjoint.get(arg)
                adjoint[arg] = part if before is None else self._add(before, part)
        return found

    def _region(self, root: int, veils: bool, mark: int) -> list[int]:
        """Nodes that a pass visits; the branches of choices are differentiated by themselves."""
        stack, seen = [root], {root}
        ends: set[int] = set()
        while stack:
            node = stack.pop()
            operands = self.operands(node)
            if self.op[node] in _CHOICES:
                for branch in self._branches(node)[1:]:
                    ends.update(self._gradient(branch, veils, mark))
                continue
            if veils and node in self.leaves and self.leaves[node].kind == "v":
                operands = (self.veils[self.leaves[node].index],)
            for arg in operands:
                if self.mark[arg] & mark and arg not in seen:
                    seen.add(arg)
                    stack.append(arg)
        return sorted(seen | ends)

    def _branches(self, node: int) -> tuple[int, int, int]:
        """A choice as condition, value if it is true, value if it is false."""
        args = self.args[node]
        if self.op[node] is Op.SELECT:
            return args[0], args[1], args[2]
        first, second = args if self.op[node] is Op.MIN else args[::-1]
        return self._function(Op.LE, (args[0], args[1])), first, second

    def _chosen(self, node: int, outer: int, veils: bool, mark: int) -> list[tuple[int, int]]:
        # A branch that is not taken may be undefined: its derivative is chosen away, and not multiplied by 0.
        condition, first, second = self._branches(node)
        one, other = self._gradient(first, veils, mark), self._gradient(second, veils, mark)
        slopes = [
            (leaf, self.call(Op.SELECT, condition, one.get(leaf, self.zero), other.get(leaf, self.zero)))
            for leaf in sorted({*one, *other})
        ]
        return [(leaf, self._mul(outer, slope)) for leaf, slope in slopes]

    def _partials(self, node: int, outer: int) -> list[tuple[int, int]]:
        """What the operands of a node contribute, where ``outer`` is the derivative with respect to it."""
        op, args = self.op[node], self.args[node]
        if op is Op.ADD:
            return [(args[0], outer), (args[1], outer)]
        if op is Op.MUL:
            return [(args[0], self._mul(outer, args[1])), (args[1], self._mul(outer, args[0]))]
        if op is Op.NEG:
            return [(args[0], self.neg(outer))]
        if op is Op.DIV:
            over = self.div(outer, args[1])
            return [(args[0], over), (args[1], self.neg(self._mul(over, node)))]
        if op is Op.POW and args[1] not in self.numbers:
            slope = self.mul(outer, args[1], self.power(args[0], self._add(args[1], self._minus_one)))
            return [(args[0], slope), (args[1], self.mul(outer, node, self.call(Op.LOG, args[0])))]
        if op is Op.ATAN2:
            y, x = args
            over = self.div(outer, self._add(self.integer_power(x, 2), self.integer_power(y, 2)))
            return [(y, self._mul(over, x)), (x, self.neg(self._mul(over, y)))]
        if op in _PIECEWISE_CONSTANT:
            return []
        return [(args[0], self._times_slope(node, outer))]

    def _times_slope(self, node: int, outer: int) -> int:
        """``outer`` times the derivative of a function of one operand."""
        op, a, one = self.op[node], self.args[node][0], self.one
        if op is Op.INTPOW:
            n = self.args[node][1]
            return self.mul(self.constant(n), outer, self.integer_power(a, n - 1))
        if op is Op.POW:
            exponent = self.args[node][1]
            return self.mul(exponent, outer, self.power(a, self._add(exponent, self._minus_one)))
        if op is Op.SQRT:
            return self.div(outer, self._mul(self.constant(2), node))
        if op is Op.EXP:
            return self._mul(outer, node)
        if op is Op.LOG:
            return self.div(outer, a)
        if op is Op.SIN:
            return self._mul(outer, self.call(Op.COS, a))
        if op is Op.COS:
            return self.neg(self._mul(outer, self.call(Op.SIN, a)))
        if op is Op.SINH:
            return self._mul(outer, self.call(Op.COSH, a))
        if op is Op.COSH:
            return self._mul(outer, self.call(Op.SINH, a))
        if op is Op.TAN:
            return self._mul(outer, self._add(one, self.integer_power(node, 2)))
        if op is Op.TANH:
            return self._mul(outer, self.sub(one, self.integer_power(node, 2)))
        if op is Op.ABS:
            return self._mul(outer, self.call(Op.SIGN, a))
        square = self.integer_power(a, 2)
        if op is Op.ATAN:
            return self.div(outer, self._add(one, square))
        if op is Op.ATANH:
            return self.div(outer, self.sub(one, square))
        if op is Op.ASIN:
            return self.div(outer, self.call(Op.SQRT, self.sub(one, square)))
        if op is Op.ACOS:
            return self.neg(self.div(outer, self.call(Op.SQRT, self.sub(one, square))))
        if op is Op.ASINH:
            return self.div(outer, self.call(Op.SQRT, self._add(square, one)))
        assert op is Op.ACOSH
        return self.div(outer, self.call(Op.SQRT, self._add(square, self._minus_one)))

    def total_derivative(self, node: int, order: int = 1) -> int:
        """The derivative with respect to time, in which unknowns and veils are functions of time."""
        for _ in range(order):
            node = self._total(node)
        return node

    def _total(self, root: int) -> int:
        totals = self._totals
        stack = [root]
        while stack:
            node = stack[-1]
            if node in totals:
                stack.pop()
                continue
            if not self.mark[node] & MOVING:
                totals[node] = self.zero
                continue
            leaf = self.leaves.get(node)
            if leaf is not None and leaf.kind != "v":
                totals[node] = self.one if leaf.kind == "t" else self.variable(leaf.index, leaf.order + 1)
                continue
            branches: tuple[int, ...]
            if leaf is not None:
                branches = (self.veils[leaf.index],)
            elif self.op[node] in _CHOICES:
                branches = self._branches(node)[1:]
            else:
                branches = self.operands(node)
            missing = [arg for arg in branches if arg not in totals]
            if missing:
                stack.extend(missing)
                continue
            if leaf is not None:
                totals[node] = totals[branches[0]]
            elif self.op[node] in _CHOICES:
                rates = [totals[branch] for branch in branches]
                totals[node] = self.call(Op.SELECT, self._branches(node)[0], *rates)
            else:
                totals[node] = self._rate(node)
        return totals[root]

    def _rate(self, node: int) -> int:
        """The derivative of a node from those of its operands."""
        op, args, totals = self.op[node], self.args[node], self._totals
        if op is Op.ADD:
            return self._add(totals[args[0]], totals[args[1]])
        if op is Op.NEG:
            return self.neg(totals[args[0]])
        if op is Op.DIV:
            change = self.sub(totals[args[0]], self._mul(node, totals[args[1]]))
            return self.div(change, args[1])
        if op in _PIECEWISE_CONSTANT:
            return self.zero
        rates = {arg: totals[arg] for arg in self.operands(node)}
        if all(rate == self.zero for rate in rates.values()):
            return self.zero
        if op is Op.MUL:
            return self._add(self._mul(rates[args[0]], args[1]), self._mul(args[0], rates[args[1]]))
        if len(rates) == 1 and len(self.operands(node)) == 1:
            return self._times_slope(node, rates[args[0]])
        parts = self._partials(node, self.one)
        return self.add(*(self._mul(rates[arg], part) for arg, part in parts if rates[arg] != self.zero))

    # Other forms

    def substitute(self, nodes: Sequence[int], values: Mapping[int, int]) -> list[int]:
        """Expressions with other nodes in the places of some; what is put in is not looked at again.

        An expression that does not depend on what is replaced, though it is written with it, stays as it is.
        """
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
        """Expressions written without leaves on which they do not depend.

        Where such a leaf cannot have one number because something is divided by 0, it has another one. From
        then on these are the expressions that are found.

        Parameters
        ----------
        nodes : sequence of int
            The expressions.
        idle : iterable of int
            The nodes of the leaves.

        Raises
        ------
        InputError
            If something divides by 0 for all numbers that are tried.
        """
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

    def counts(self, nodes: Iterable[int], shared: bool = True) -> dict[str, int]:
        """Numbers of functions, multiplications, additions and divisions in expressions.

        Parameters
        ----------
        nodes : iterable of int
            The expressions.
        shared : bool
            Whether a term that stands in several places is counted once, as it is computed, or each time, as
            it would be written.
        """
        roots = list(nodes)
        own = {node: self._cost(node) for node in self.below(roots)}
        if not shared:
            for node, costs in own.items():
                parts = [own[arg] for arg in self.operands(node)]
                own[node] = Cost(*map(sum, zip(costs, *parts, strict=True)))
        counted = own.values() if shared else [own[node] for node in roots]
        totals = [sum(column) for column in zip(*counted, strict=True)] or [0] * len(Cost._fields)
        return dict(zip(Cost._fields, totals, strict=True))

    def _cost(self, node: int) -> Cost:
        return cost(self.op[node], self.args[node][1] if self.op[node] is Op.INTPOW else 1)

    def numeric(
        self, nodes: Sequence[int], values: Callable[[Leaf], npt.ArrayLike]
    ) -> npt.NDArray[np.float64]:
        """Values of expressions by NumPy.

        Parameters
        ----------
        nodes : sequence of int
            The expressions.
        values : callable
            The value of a leaf, or an array of values, one for each of several points.

        Returns
        -------
        ndarray, shape (nodes,) or (nodes, points)
            The values; NaN or infinity where an expression is not defined.
        """
        slots: dict[int, Any] = {}
        with np.errstate(all="ignore"):
            for node in self.below(nodes, veils=True):
                slots[node] = self._evaluated(node, slots, values)
        found = np.broadcast_arrays(*(slots[node] for node in nodes)) if nodes else []
        return np.array(found, dtype=np.float64)

    def _evaluated(self, node: int, slots: Mapping[int, Any], values: Callable[[Leaf], Any]) -> Any:
        if node in self.numbers:
            return self._double(node)
        leaf = self.leaves.get(node)
        if leaf is not None:
            if leaf.kind == "v":
                return slots[self.veils[leaf.index]]
            return np.asarray(values(leaf), dtype=np.float64)
        op, args = self.op[node], self.args[node]
        if op is Op.INTPOW:
            return NUMPY[op](slots[args[0]], args[1])
        return NUMPY[op](*[slots[arg] for arg in args])

    def _double(self, node: int) -> np.float64:
        number = self.numbers[node]
        try:
            return np.float64(CONSTANTS[number] if isinstance(number, str) else number)
        except OverflowError:
            raise InputError("a number in the equations is too large for a float; use other units") from None

    def program(self, nodes: Sequence[int], inputs: Callable[[Leaf], Input | None]) -> Program:
        """The instructions that compute expressions.

        Parameters
        ----------
        nodes : sequence of int
            The expressions; veils are computed with them.
        inputs : callable
            What a leaf is to the program; None for one on which nothing depends, which is put to 0.
        """
        order = self.below(nodes, veils=True)
        given: dict[Input, int] = {}
        slots: dict[int, int] = {}
        idle: list[int] = []
        for node in order:
            leaf = self.leaves.get(node)
            if leaf is not None and leaf.kind != "v":
                source = inputs(leaf)
                if source is None:
                    idle.append(node)
                else:
                    slots[node] = given.setdefault(source, len(given))
        # What is made of numbers alone is computed here, once.
        fixed = [node for node in order if not self.mark[node] & ~IRRATIONAL]
        constants = self.numeric(fixed, _no_value) if fixed else np.empty(0)
        slots.update({node: len(given) + at for at, node in enumerate([*fixed, *idle])})
        constants = np.concatenate([constants, np.zeros(len(idle))])
        first = len(given) + len(constants)
        code: list[list[int]] = []
        for node in order:
            if node in slots:
                continue
            if node in self.leaves:
                slots[node] = slots[self.veils[self.leaves[node].index]]
                continue
            op, args = self.op[node], self.args[node]
            if op is Op.INTPOW:
                row = [slots[args[0]], args[1]]
            else:
                row = [slots[arg] for arg in args]
            slots[node] = first + len(code)
            code.append([int(op), *row, *[0] * (3 - len(row))])
        outputs = [slots[node] for node in nodes]
        return Program(
            tuple(given),
            constants,
            np.array(code, dtype=np.int32).reshape(-1, 4),
            np.array(outputs, dtype=np.int32),
        ).used()


def _no_value(leaf: Leaf) -> float:
    raise InputError(f"{leaf} has no value")
