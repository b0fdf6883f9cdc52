"""Values of expressions with many digits, which show zeros that only identities of functions explain."""

from __future__ import annotations

import importlib
import random
from typing import TYPE_CHECKING, Any, Final

from dae_sdc.expressions.dag import CONSTANTS, Leaf, Nodes
from dae_sdc.expressions.operations import FUNCTIONS, Op

if TYPE_CHECKING:
    from collections.abc import Callable

ZERO_TEST_DIGITS: Final = 60
"""Decimal digits of the values."""

ZERO_SUM_TOLERANCE: Final = 1e-30
"""Size of a sum relative to its largest term below which the sum counts as 0."""

LARGEST_OPERAND: Final = 1e6
"""Size of a function's operand above which the value of the function is unknown, NaN."""

LARGEST_OF_TANH: Final = 30.0
"""Size of the operand of tanh above which 1 - tanh^2, its derivative, would count as 0."""

_ZERO_TEST_POINTS: Final = 2
_NOT_ANALYTIC: Final = frozenset({Op.SELECT, Op.MIN, Op.MAX, Op.ABS, Op.SIGN, Op.FLOOR, Op.LT, Op.LE})


class Digits:
    """Values of the nodes of a graph at two random points, at which the leaves have opposite signs.

    So sqrt(x^2) - x, which is 0 only where x is positive, is not taken for 0. The value of an operation that
    jumps or has a kink is a random number, or a random mean of its branches, so that no branch is overlooked.
    """

    def __init__(self, expressions: Nodes) -> None:
        mpmath: Any = importlib.import_module("mpmath")
        self._context = mpmath.mp.clone()
        self._context.dps = ZERO_TEST_DIGITS
        self._expressions = expressions
        self._values: dict[int, tuple[Any, ...]] = {}
        self._functions = _functions(self._context)

    def is_zero(self, node: int) -> bool:
        """Whether a node is 0 at both points."""
        return all(value == 0 for value in self._at(node))

    def _at(self, root: int) -> tuple[Any, ...]:
        values, expressions = self._values, self._expressions
        for node in expressions.below([root], known=values):
            leaf = expressions.leaves.get(node)
            if leaf is None:
                values[node] = tuple(self._apply(node, point) for point in range(_ZERO_TEST_POINTS))
            else:
                values[node] = self._drawn(leaf)
        return values[root]

    def _drawn(self, leaf: Leaf) -> tuple[Any, ...]:
        sign = random.Random(repr(leaf)).choice((-1, 1))
        return tuple(sign * (-1) ** point * self._number((leaf, point)) for point in range(_ZERO_TEST_POINTS))

    def _apply(self, node: int, point: int) -> Any:
        expressions, context = self._expressions, self._context
        op, args = expressions.op[node], expressions.args[node]
        number = expressions.numbers.get(node)
        if isinstance(number, str):
            return context.pi if number == "pi" else context.mpf(CONSTANTS[number])
        if number is not None:
            return context.mpf(number.numerator) / number.denominator
        operands = [self._values[arg][point] for arg in expressions.operands(node)]
        if op in _NOT_ANALYTIC:
            return self._averaged(node, operands)
        try:
            if op is Op.ADD:
                total = operands[0] + operands[1]
                largest = max(abs(operands[0]), abs(operands[1]))
                return context.mpf(0) if abs(total) <= ZERO_SUM_TOLERANCE * largest else total
            if op is Op.INTPOW:
                return operands[0] ** args[1]
            most = LARGEST_OF_TANH if op is Op.TANH else LARGEST_OPERAND
            if op >= Op.POW and op is not Op.SQRT and not abs(operands[0]) < most:
                return context.nan
            return self._functions[op](*operands)
        except (ArithmeticError, ValueError):
            return context.nan

    def _averaged(self, node: int, operands: list[Any]) -> Any:
        op = self._expressions.op[node]
        share = operands[0] if op is Op.SELECT else self._number(self._expressions.value[node])
        if op is Op.ABS:
            return share * operands[0]
        if op in (Op.SELECT, Op.MIN, Op.MAX):
            first, second = operands[-2:]
            return share * first + (1 - share) * second
        return share

    def _number(self, seed: object) -> Any:
        """A random number between 0.3 and 0.9."""
        source = random.Random(repr(seed))
        return self._context.mpf(source.getrandbits(200)) / 2**200 * 0.6 + 0.3


def _functions(context: Any) -> dict[Op, Callable[..., Any]]:
    """The operations on numbers with many digits, which are complex where they must be."""

    def atan2(y: Any, x: Any) -> Any:
        # This analytic function has the derivatives of atan2, and takes complex operands too.
        return -1j * context.log((x + 1j * y) / context.sqrt(x * x + y * y))

    return {
        **{op: getattr(context, op.name.lower()) for op in (Op.SQRT, *FUNCTIONS) if op is not Op.ATAN2},
        Op.MUL: lambda a, b: a * b,
        Op.NEG: lambda a: -a,
        Op.DIV: lambda a, b: a / b,
        Op.POW: context.power,
        Op.ATAN2: atan2,
    }
