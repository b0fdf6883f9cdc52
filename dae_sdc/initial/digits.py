"""Equations of a model solved with many digits, where double precision does not tell solutions apart."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.expressions.operations import FUNCTIONS, Op
from dae_sdc.expressions.program import Program
from dae_sdc.initial.parts import Part

SOLUTION_DIGITS = 60
"""Decimal digits of the arithmetic."""

MOST_NEWTON_STEPS = 80
"""Steps of Newton's method."""

SOLVED = 1e-45
"""Last step, relative to 1 + the values, after which Newton's method has converged quadratically."""

_NAMES = {
    **{op: op.name.lower() for op in (*FUNCTIONS, Op.SQRT, Op.SIGN, Op.FLOOR)},
    Op.ABS: "fabs",
    Op.POW: "power",
}
"""mpmath's names of functions."""


class ManyDigits:
    """Equations for some values, in which all numbers are taken as they are.

    Parameters
    ----------
    part : Part
        The equations.
    cols : sequence of int
        Numbers of the values that they are solved for, as many.
    x : ndarray, shape (jets,)
        All values.
    """

    def __init__(self, part: Part, cols: Sequence[int], x: Vector) -> None:
        self._mp: Any = importlib.import_module("mpmath").mp.clone()
        self._mp.dps = SOLUTION_DIGITS
        self._part, self._cols, self._x = part, list(cols), x
        place = {j: at for at, j in enumerate(cols)}
        self._entries = [(e, i, place[j]) for e, (i, j) in enumerate(part.pattern) if j in place]

    def solve(self, start: Vector) -> Vector | None:
        """The solution that Newton's method finds, rounded; None if it does not converge quadratically."""
        mp, n = self._mp, len(self._cols)
        y = [mp.mpf(float(value)) for value in start]
        for _ in range(MOST_NEWTON_STEPS):
            try:
                values, slopes = (self._evaluated(program, y) for program in self._part.programs)
                matrix = mp.zeros(n, n)
                for e, i, at in self._entries:
                    matrix[i, at] = slopes[e]
                step = mp.lu_solve(matrix, mp.matrix(values))
            except (ZeroDivisionError, ValueError, TypeError):  # singular, or not defined in real numbers
                return None
            y = [a - b for a, b in zip(y, step, strict=True)]
            if max(abs(b) for b in step) <= SOLVED * (1 + max(abs(a) for a in y)):
                return np.array([float(a) for a in y])
        return None

    def _evaluated(self, program: Program, y: Sequence[Any]) -> list[Any]:
        mp, system = self._mp, self._part.system
        given = [mp.mpf(float(value)) for value in system.inputs(program, self._x)]
        place = {j: at for at, j in enumerate(self._cols)}
        for at, entry in enumerate(program.inputs):
            if entry.kind == "u" and entry.index in place:
                given[at] = y[place[entry.index]]
        slots = [*given, *(mp.mpf(float(value)) for value in program.constants)]
        for op, a, b, c in program.code.tolist():
            slots.append(self._one(Op(op), slots, a, b, c))
        return [slots[at] for at in program.outputs.tolist()]

    def _one(self, op: Op, slots: Sequence[Any], a: int, b: int, c: int) -> Any:
        first = slots[a]
        if op is Op.INTPOW:
            return first**b
        if op is Op.NEG:
            return -first
        if op in (Op.ATAN2, Op.POW):
            return getattr(self._mp, _NAMES[op])(first, slots[b])
        if op in _NAMES:
            return getattr(self._mp, _NAMES[op])(first)
        if op is Op.SELECT:
            return slots[b] if first != 0 else slots[c]
        second = slots[b]
        if op is Op.ADD:
            return first + second
        if op is Op.MUL:
            return first * second
        if op is Op.DIV:
            return first / second
        if op in (Op.MIN, Op.MAX):
            return min(first, second) if op is Op.MIN else max(first, second)
        return self._mp.mpf(first < second if op is Op.LT else first <= second)
