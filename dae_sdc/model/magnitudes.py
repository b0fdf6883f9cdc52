"""Sizes of the terms that a program adds up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dae_sdc.expressions.operations import NUMPY, Op, integer_power
from dae_sdc.expressions.program import Program

__all__ = ["magnitudes"]

_SLOPES: Final[dict[Op, Callable[[Any, Any], Any]]] = {
    Op.SQRT: lambda a, v: 0.5 / v,
    Op.EXP: lambda a, v: v,
    Op.LOG: lambda a, v: 1.0 / a,
    Op.SIN: lambda a, v: np.cos(a),
    Op.COS: lambda a, v: np.sin(a),
    Op.TAN: lambda a, v: 1.0 + v * v,
    Op.ASIN: lambda a, v: 1.0 / np.sqrt(1.0 - a * a),
    Op.ACOS: lambda a, v: 1.0 / np.sqrt(1.0 - a * a),
    Op.ATAN: lambda a, v: 1.0 / (1.0 + a * a),
    Op.SINH: lambda a, v: np.cosh(a),
    Op.COSH: lambda a, v: np.sinh(a),
    Op.TANH: lambda a, v: 1.0 - v * v,
    Op.ASINH: lambda a, v: 1.0 / np.sqrt(1.0 + a * a),
    Op.ACOSH: lambda a, v: 1.0 / np.sqrt(a * a - 1.0),
    Op.ATANH: lambda a, v: 1.0 / (1.0 - a * a),
}
"""Derivatives of the functions of one operand a with the value v."""


def magnitudes(program: Program, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    r"""Sizes of the terms of the outputs of a program: what they would be if nothing cancelled.

    Of a polynomial it is that with the absolute values of its coefficients at the absolute values of its
    inputs, also where it is written as a product: 4 for (x - 1)^2 at x = 1. The rounding error of an output
    is of the order of the unit round-off times its size.

    .. math::
        |a \pm b| \le A + B, \qquad |a b| \le A B, \qquad |f(a)| \le |f(a)| + |f'(a)| A

    Parameters
    ----------
    program : Program
        The program.
    values : array_like, shape (inputs,) or (inputs, ...)
        Values of its inputs.

    Returns
    -------
    ndarray, shape (n_out,) or (n_out, ...)
        The sizes; where one is not finite, the absolute value of the output.

    References
    ----------
    N. J. Higham: Accuracy and stability of numerical algorithms, 2nd edition, SIAM 2002, section 3.3.
    """
    given = np.asarray(values, dtype=np.float64)
    slots: list[Any] = [*given, *program.constants]
    sizes: list[Any] = [np.abs(slot) for slot in slots]
    with np.errstate(all="ignore"):
        for op, a, b, c in program.code.tolist():
            value, size = _one(Op(op), slots, sizes, a, b, c)
            slots.append(value)
            sizes.append(np.where(np.isfinite(size), np.maximum(size, np.abs(value)), np.abs(value))[()])
    found = np.empty((len(program.outputs), *given.shape[1:]))
    for at, slot in enumerate(program.outputs.tolist()):
        found[at] = sizes[slot]
    return found


def _one(op: Op, slots: list[Any], sizes: list[Any], a: int, b: int, c: int) -> tuple[Any, Any]:
    """Value and size of one operation."""
    x, first = slots[a], sizes[a]
    if op is Op.INTPOW:
        value = integer_power(x, b)
        return value, integer_power(first if b > 0 else x * x / first, b)
    if op is Op.NEG:
        return -x, first
    if op in _SLOPES:
        value = NUMPY[op](x)
        return value, np.abs(value) + np.abs(_SLOPES[op](x, value)) * first
    if op in (Op.ABS, Op.SIGN, Op.FLOOR):
        return NUMPY[op](x), first if op is Op.ABS else 0.0
    y, second = slots[b], sizes[b]
    if op is Op.SELECT:
        return NUMPY[op](x, y, slots[c]), np.where(np.not_equal(x, 0.0), second, sizes[c])[()]
    value = NUMPY[op](x, y)
    if op is Op.ADD:
        return value, first + second
    if op is Op.MUL:
        return value, first * second
    if op is Op.DIV:
        return value, first * second / (y * y)
    if op is Op.POW:
        return value, np.abs(value) * (
            1.0 + np.abs(y) * first / np.abs(x) + np.abs(np.log(np.abs(x))) * second
        )
    if op is Op.ATAN2:
        return value, np.abs(value) + (np.abs(x) * second + np.abs(y) * first) / (x * x + y * y)
    return value, np.maximum(first, second) if op in (Op.MIN, Op.MAX) else 0.0
