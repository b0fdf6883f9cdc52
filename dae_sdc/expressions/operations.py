"""The operations that expressions and programs are made of.

Numbers are doubles, and nothing raises: as in C, dividing by zero gives infinity or NaN, and so does a
logarithm or a power outside its domain. A condition is a number too, true unless it is 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np


def integer_power(base: Any, exponent: int, product: Callable[[Any, Any], Any] = operator.mul) -> Any:
    """The power of a base with an integer exponent by squaring."""
    result, square, left = None, base, abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else product(result, square)
        left >>= 1
        if left:
            square = product(square, square)
    if result is None:
        return np.ones_like(base)
    return 1.0 / result if exponent < 0 else result


_where: Callable[..., Any] = np.where


class Op(IntEnum):
    """Operations on operands a, b, c."""

    arity: int
    numpy: Callable[..., Any]
    sympy: str

    def __new__(cls, number: int, arity: int = 0, numpy: Any = None, sympy: str = "") -> Op:  # noqa: D102
        made = int.__new__(cls, number)
        made._value_ = number
        made.arity, made.numpy, made.sympy = arity, numpy, sympy
        return made

    CONSTANT = 0
    INPUT = 1
    ADD = 2, 2, np.add, "Add"
    MUL = 3, 2, np.multiply, "Mul"
    NEG = 4, 1, np.negative
    DIV = 5, 2, np.divide
    POW = 6, 2, np.power, "Pow"  # a**b
    INTPOW = 7, 1, integer_power  # a**b with an integer b that is no operand, but stands in its place
    SQRT = 8, 1, np.sqrt
    EXP = 9, 1, np.exp, "exp"
    LOG = 10, 1, np.log, "log"
    SIN = 11, 1, np.sin, "sin"
    COS = 12, 1, np.cos, "cos"
    TAN = 13, 1, np.tan, "tan"
    ASIN = 14, 1, np.arcsin, "asin"
    ACOS = 15, 1, np.arccos, "acos"
    ATAN = 16, 1, np.arctan, "atan"
    ATAN2 = 17, 2, np.arctan2, "atan2"
    SINH = 18, 1, np.sinh, "sinh"
    COSH = 19, 1, np.cosh, "cosh"
    TANH = 20, 1, np.tanh, "tanh"
    ASINH = 21, 1, np.arcsinh, "asinh"
    ACOSH = 22, 1, np.arccosh, "acosh"
    ATANH = 23, 1, np.arctanh, "atanh"
    ABS = 24, 1, np.absolute, "Abs"
    SIGN = 25, 1, np.sign, "sign"  # -1, 0 or 1
    # NaN if one operand is, and b if they are equal, as 0 and -0 are.
    MIN = 26, 2, lambda a, b: _where((a < b) | np.isnan(a), a, b)[()], "Min"
    MAX = 27, 2, lambda a, b: _where((a > b) | np.isnan(a), a, b)[()], "Max"
    FLOOR = 28, 1, np.floor, "floor"
    LT = 29, 2, lambda a, b: np.less(a, b).astype(np.float64), "StrictLessThan"  # 1 if a < b, else 0
    LE = 30, 2, lambda a, b: np.less_equal(a, b).astype(np.float64), "LessThan"
    SELECT = 31, 3, lambda a, b, c: _where(a != 0.0, b, c)[()], "Piecewise"  # b if a is true, else c


# Smooth functions whose names in lower case are those of :mod:`math` and mpmath.
FUNCTIONS: Final = tuple(op for op in Op if Op.EXP <= op <= Op.ATANH)


class Cost(NamedTuple):
    """Numbers of operations."""

    functions: int
    multiplications: int
    additions: int
    divisions: int


_ADDITION, _MULTIPLICATION, _DIVISION = Cost(0, 0, 1, 0), Cost(0, 1, 0, 0), Cost(0, 0, 0, 1)
_FREE, _FUNCTION = Cost(0, 0, 0, 0), Cost(1, 0, 0, 0)
_COSTS = {
    **dict.fromkeys((Op.CONSTANT, Op.INPUT, Op.NEG), _FREE),
    **{Op.ADD: _ADDITION, Op.MUL: _MULTIPLICATION, Op.DIV: _DIVISION},
}


def cost(op: Op, exponent: int = 1) -> Cost:
    """The cost of an operation: a sign is free, an integer power is products, others are functions."""
    if op != Op.INTPOW:
        return _COSTS.get(op, _FUNCTION)
    size = abs(exponent)
    return Cost(0, max(0, size.bit_length() + size.bit_count() - 2), 0, int(exponent < 0))
