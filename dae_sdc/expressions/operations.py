"""The operations that expressions and programs are made of.

Numbers are doubles, and nothing raises: as in C, dividing by zero gives infinity or NaN, and so does a
logarithm or a power outside its domain. A condition is a number too, true unless it is 0.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["ARITY", "NUMPY", "SYMPY", "Cost", "Op", "cost", "integer_power", "sympy_operations"]


class Op(IntEnum):
    """What an expression does with its operands a, b, c."""

    CONSTANT = 0
    INPUT = 1
    ADD = 2
    MUL = 3
    NEG = 4
    DIV = 5
    POW = 6  # a**b
    INTPOW = 7  # a**b with an integer b that is no operand, but stands in its place
    SQRT = 8
    EXP = 9
    LOG = 10
    SIN = 11
    COS = 12
    TAN = 13
    ASIN = 14
    ACOS = 15
    ATAN = 16
    ATAN2 = 17
    SINH = 18
    COSH = 19
    TANH = 20
    ASINH = 21
    ACOSH = 22
    ATANH = 23
    ABS = 24
    SIGN = 25  # -1, 0 or 1
    MIN = 26  # NaN if one operand is, and b if they are equal, as 0 and -0 are
    MAX = 27
    FLOOR = 28
    LT = 29  # 1 if a < b, else 0
    LE = 30
    SELECT = 31  # b if a is true, else c


ARITY: Final[dict[Op, int]] = {
    **dict.fromkeys(Op, 1),
    **dict.fromkeys((Op.CONSTANT, Op.INPUT), 0),
    **dict.fromkeys((Op.ADD, Op.MUL, Op.DIV, Op.POW, Op.ATAN2, Op.MIN, Op.MAX, Op.LT, Op.LE), 2),
    Op.SELECT: 3,
}
"""How many operands an operation has; the exponent of INTPOW is not counted."""


def integer_power(base: Any, exponent: int, product: Callable[[Any, Any], Any] = operator.mul) -> Any:
    """The power of a base with an integer exponent by squaring.

    Parameters
    ----------
    base : float or ndarray
        The base.
    exponent : int
        The exponent; 1 is divided by the power if it is negative.
    product : callable
        The product of two factors; the base may be anything else that it multiplies, if the exponent is
        positive.
    """
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


def _less(a: Any, b: Any) -> Any:
    return np.less(a, b).astype(np.float64)


def _less_equal(a: Any, b: Any) -> Any:
    return np.less_equal(a, b).astype(np.float64)


def _minimum(a: Any, b: Any) -> Any:
    return np.where((a < b) | np.isnan(a), a, b)[()]


def _maximum(a: Any, b: Any) -> Any:
    return np.where((a > b) | np.isnan(a), a, b)[()]


def _select(condition: Any, a: Any, b: Any) -> Any:
    return np.where(np.not_equal(condition, 0.0), a, b)[()]


NUMPY: Final[dict[Op, Callable[..., Any]]] = {
    Op.ADD: np.add,
    Op.MUL: np.multiply,
    Op.NEG: np.negative,
    Op.DIV: np.divide,
    Op.POW: np.power,
    Op.INTPOW: integer_power,
    Op.SQRT: np.sqrt,
    Op.EXP: np.exp,
    Op.LOG: np.log,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.TAN: np.tan,
    Op.ASIN: np.arcsin,
    Op.ACOS: np.arccos,
    Op.ATAN: np.arctan,
    Op.ATAN2: np.arctan2,
    Op.SINH: np.sinh,
    Op.COSH: np.cosh,
    Op.TANH: np.tanh,
    Op.ASINH: np.arcsinh,
    Op.ACOSH: np.arccosh,
    Op.ATANH: np.arctanh,
    Op.ABS: np.absolute,
    Op.SIGN: np.sign,
    Op.MIN: _minimum,
    Op.MAX: _maximum,
    Op.FLOOR: np.floor,
    Op.LT: _less,
    Op.LE: _less_equal,
    Op.SELECT: _select,
}
"""The operations on NumPy's doubles and arrays of them."""

FUNCTIONS: Final[tuple[Op, ...]] = (
    *(Op.EXP, Op.LOG, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.ATAN2, Op.SINH, Op.COSH, Op.TANH),
    *(Op.ASINH, Op.ACOSH, Op.ATANH),
)
"""Smooth functions whose names in lower case are those of :mod:`math` and mpmath."""

SYMPY: Final[dict[Op, str]] = {
    Op.ADD: "Add",
    Op.MUL: "Mul",
    Op.POW: "Pow",
    **{op: op.name.lower() for op in FUNCTIONS},
    Op.ABS: "Abs",
    Op.SIGN: "sign",
    Op.MIN: "Min",
    Op.MAX: "Max",
    Op.FLOOR: "floor",
    Op.LT: "StrictLessThan",
    Op.LE: "LessThan",
    Op.SELECT: "Piecewise",
}
"""Names of SymPy's classes; NEG, DIV, INTPOW and SQRT have none of their own there."""


@functools.cache
def sympy_operations() -> dict[type, Op]:
    """The operation of each of SymPy's classes; imports SymPy, which takes a while."""
    sympy = importlib.import_module("sympy")
    return {getattr(sympy, name): op for op, name in SYMPY.items()}


class Cost(NamedTuple):
    """Numbers of operations."""

    functions: int
    multiplications: int
    additions: int
    divisions: int


_ADDITION, _MULTIPLICATION, _DIVISION = Cost(0, 0, 1, 0), Cost(0, 1, 0, 0), Cost(0, 0, 0, 1)
_FREE, _FUNCTION = Cost(0, 0, 0, 0), Cost(1, 0, 0, 0)
_COSTS = {
    Op.CONSTANT: _FREE,
    Op.INPUT: _FREE,
    Op.ADD: _ADDITION,
    Op.MUL: _MULTIPLICATION,
    Op.NEG: _FREE,
    Op.DIV: _DIVISION,
}


def cost(op: Op, exponent: int = 1) -> Cost:
    """What an operation counts for.

    A change of sign is free, as it makes an addition a subtraction; an integer power is the multiplications
    by which it is found, and a division if the exponent is negative; everything beyond arithmetic is a
    function.

    Parameters
    ----------
    op : Op
        The operation.
    exponent : int
        That of INTPOW.

    Returns
    -------
    Cost
        Functions, multiplications, additions, divisions.
    """
    if op != Op.INTPOW:
        return _COSTS.get(op, _FUNCTION)
    size = abs(exponent)
    return Cost(0, max(0, size.bit_length() + size.bit_count() - 2), 0, int(exponent < 0))
