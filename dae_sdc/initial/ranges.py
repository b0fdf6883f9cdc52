"""Ranges of the values of expressions, to prove that an equation has one solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dae_sdc.expressions.dag import CONSTANTS, Leaf, Op, integer_power
from dae_sdc.structure.scalars import NoValueError

Range = tuple[float, float]


class Ranges:
    """Ranges of smooth expressions, up to round-off, where each leaf runs through a range of its own."""

    def __init__(self, leaf: Callable[[Leaf], Range]) -> None:
        self.leaf = leaf
        rising = (Op.EXP, Op.LOG, Op.SINH, Op.TANH, Op.ATAN, Op.ASINH)
        self._rules: dict[Op, Callable[..., Range]] = {
            **{op: lambda a, f=op.numpy: (float(f(a[0])), float(f(a[1]))) for op in rising},
            **dict.fromkeys((Op.SIN, Op.COS), lambda a: (-1.0, 1.0)),
            Op.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
            Op.NEG: lambda a: (-a[1], -a[0]),
            Op.MUL: self._product,
            Op.DIV: lambda a, b: self._product(a, self._power(b, -1)),
            Op.INTPOW: self._power,
        }

    def number(self, value: Any, residue: int) -> Range:
        """A constant: a range of one value."""
        size = float(CONSTANTS[value] if isinstance(value, str) else value)
        return size, size

    def value(self, op: Op, operands: Sequence[Any]) -> Range:
        """The range of an operation; NoValueError where it may have a pole, or is not smooth."""
        rule = None if None in operands else self._rules.get(op)
        low, high = (math.nan, math.nan) if rule is None else rule(*operands)
        if not low <= high:
            raise NoValueError
        return low, high

    def _product(self, a: Range, b: Range) -> Range:
        if a is b:  # the range of one expression
            return self._power(a, 2)
        ends = [x * y if x and y else 0.0 for x in a for y in b]
        return min(ends), max(ends)

    def _power(self, a: Range, exponent: int) -> Range:
        if exponent < 0 and a[0] <= 0.0 <= a[1]:
            raise NoValueError
        ends = [float(integer_power(x, exponent)) for x in (*a, min(max(0.0, a[0]), a[1]))]
        return min(ends), max(ends)
