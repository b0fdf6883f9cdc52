"""Values of expressions in a finite field, in real numbers with many digits, and in ranges.

Ranks found in a finite field are those at a generic point, without tolerances. Functions that are not
rational have the values there that the graph of expressions assigns.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dae_sdc.expressions.dag import (
    CONSTANTS,
    FUNCTIONS,
    PRIME,
    Leaf,
    Op,
    integer_power,
    of_function,
    random_residue,
)

if TYPE_CHECKING:
    from dae_sdc.expressions.arithmetic import Expressions

# Decimal digits of numbers where doubles leave a rank in doubt, or do not tell solutions apart.
DECIMAL_DIGITS = 80


class NoValueError(ArithmeticError):
    """An expression has no value at a point: it divides by 0, or a square root does not exist."""


class Residues:
    """Numbers modulo the prime of the graph of expressions, with random values of leaves at each point."""

    # ``exact_roots``: whether a square root must exist, and is not that of the negative number elsewhere.
    def __init__(self, point: int = 0, exact_roots: bool = False) -> None:
        self.point, self.exact_roots = point, exact_roots
        self._powers: dict[tuple[int, int], int] = {}
        self._rules: dict[Op, Callable[..., int]] = {
            Op.ADD: lambda a, b: (a + b) % PRIME,
            Op.MUL: lambda a, b: a * b % PRIME,
            Op.NEG: lambda a: -a % PRIME,
            Op.DIV: lambda a, b: a * pow(b, -1, PRIME) % PRIME,
            Op.INTPOW: lambda a, exponent: pow(a, exponent, PRIME),
            Op.SQRT: self._root,
            Op.POW: self._power,
            # Which branch is taken is not known in the field: a random combination of both.
            Op.MIN: lambda a, b: self.value(Op.SELECT, [of_function(Op.LE, (a, b)), a, b]),
            Op.MAX: lambda a, b: self.value(Op.SELECT, [of_function(Op.LE, (a, b)), b, a]),
        }

    def number(self, value: Any, residue: int) -> int:
        """A constant: here its residue."""
        return residue

    def leaf(self, leaf: Leaf) -> int:
        """A random value of time, a parameter, or an unknown or one of its derivatives."""
        return random_residue(*leaf, self.point)

    def value(self, op: Op, operands: Sequence[Any]) -> Any:
        """The value of an operation; None where an operand has none."""
        if None in operands:
            return None
        rule = self._rules.get(op)
        return of_function(op, tuple(operands)) if rule is None else rule(*operands)

    def _root(self, a: int) -> int:
        root = pow(a, (PRIME + 1) // 4, PRIME)  # the prime is 3 modulo 4
        if root == 0 or (self.exact_roots and root * root % PRIME != a % PRIME):
            raise NoValueError
        return root

    def _power(self, base: int, exponent: int) -> int:
        """A random number, consistent among powers of one base whose exponents differ by 1."""
        powers, above, below = self._powers, (exponent + 1) % PRIME, (exponent - 1) % PRIME
        if (base, exponent) not in powers:
            if (base, above) in powers:
                power = powers[base, above] * pow(base, -1, PRIME) % PRIME
            elif (base, below) in powers:
                power = powers[base, below] * base % PRIME
            else:
                power = random_residue(Op.POW.name, base, exponent)
            powers[base, exponent] = power
        return powers[base, exponent]


class Reals:
    """Real numbers of a context of mpmath, with values of leaves by a function."""

    def __init__(self, context: Any, leaf: Callable[[Leaf], Any]) -> None:
        self.context, self.leaf = context, leaf
        self._functions: dict[Op, Callable[..., Any]] = {
            **{op: getattr(context, op.name.lower()) for op in (Op.SQRT, *FUNCTIONS)},
            Op.ADD: lambda a, b: a + b,
            Op.MUL: lambda a, b: a * b,
            Op.NEG: lambda a: -a,
            Op.DIV: lambda a, b: a / b,
            Op.INTPOW: lambda a, exponent: a**exponent,
            Op.POW: context.power,
            Op.ABS: abs,
            Op.MIN: min,
            Op.MAX: max,
            Op.SIGN: context.sign,
            Op.FLOOR: context.floor,
            Op.LT: lambda a, b: context.mpf(a < b),
            Op.LE: lambda a, b: context.mpf(a <= b),
        }

    def number(self, value: Any, residue: int) -> Any:
        """A constant as a number of the context."""
        if isinstance(value, str):
            return +self.context.pi if value == "pi" else self.context.mpf(CONSTANTS[value])
        return self.context.mpf(value.numerator) / value.denominator

    def value(self, op: Op, operands: Sequence[Any]) -> Any:
        """The value of an operation; None where an operand has none; NoValueError unless real and finite."""
        if op is Op.SELECT and operands[0] is not None:
            return operands[1] if operands[0] else operands[2]  # the branch not taken may have no value
        if None in operands:
            return None
        value = self._functions[op](*operands)
        if op >= Op.POW and (value.imag != 0 or value - value != 0):  # complex, infinite or NaN
            raise NoValueError
        return value


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
        # At a 0 within, where an even power is least, and a negative one raises ZeroDivisionError.
        ends = [float(integer_power(x, exponent)) for x in (*a, min(max(0.0, a[0]), a[1]))]
        return min(ends), max(ends)


def many_digits() -> Any:
    """mpmath's numbers of :data:`DECIMAL_DIGITS` digits."""
    context = importlib.import_module("mpmath").mp.clone()
    context.dps = DECIMAL_DIGITS
    return context


def values_of(graph: Expressions, nodes: Sequence[int], numbers: Any) -> list[Any] | None:
    """Values of expressions in numbers of a kind, as :class:`Reals`; None where one has none."""
    values: dict[int, Any] = {}
    for node in graph.below(nodes):
        number, leaf = graph.numbers.get(node), graph.leaves.get(node)
        if number is not None:
            values[node] = numbers.number(number, graph.value[node])
        elif leaf is not None:
            values[node] = numbers.leaf(leaf)
        else:
            exponent = graph.args[node][1:] if graph.op[node] is Op.INTPOW else ()
            try:
                operands = [values[arg] for arg in graph.operands(node)]
                values[node] = numbers.value(graph.op[node], [*operands, *exponent])
            except (ArithmeticError, ValueError):
                values[node] = None
    known = [values[node] for node in nodes]
    return None if None in known else known
