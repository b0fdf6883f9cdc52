"""Sizes of the terms of the outputs of a program, to which their rounding errors are relative."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.deadline import check
from dae_sdc.expressions.derivatives import TIMES_SLOPE
from dae_sdc.expressions.operations import Op, integer_power
from dae_sdc.expressions.program import Program


class _Doubles:
    """The arithmetic of a graph on doubles, for the rules of derivatives."""

    one, constant, integer_power = 1.0, float, staticmethod(integer_power)
    add, sub, mul, div, neg = np.add, np.subtract, np.multiply, np.divide, np.negative

    @staticmethod
    def call(op: Op, *operands: Any) -> Any:
        return op.numpy(*operands)


def magnitudes(program: Program, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    r"""Sizes of the terms of the outputs of a program: their values if no terms cancelled.

    For a polynomial this is its value with absolute values of the coefficients and inputs, also if it is
    written as a product: 4 for (x - 1)^2 at x = 1. The rounding error of an output is of the order of the
    unit round-off times its size.

    .. math::
        |a \pm b| \le A + B, \qquad |a b| \le A B, \qquad |f(a)| \le |f(a)| + |f'(a)| A

    References
    ----------
    N. J. Higham: Accuracy and stability of numerical algorithms, 2nd edition, SIAM 2002, section 3.3.
    """
    # Shapes: values (inputs,) or (inputs, ...) -> (n_out,) or (n_out, ...).
    check()
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
    if op in (Op.ABS, Op.SIGN, Op.FLOOR):
        return op.numpy(x), first if op is Op.ABS else 0.0
    if op in TIMES_SLOPE:
        value = op.numpy(x)
        return value, np.abs(value) + np.abs(TIMES_SLOPE[op](_Doubles, x, value, 1.0)) * first
    y, second = slots[b], sizes[b]
    if op is Op.SELECT:
        return op.numpy(x, y, slots[c]), np.where(np.not_equal(x, 0.0), second, sizes[c])[()]
    value = op.numpy(x, y)
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
