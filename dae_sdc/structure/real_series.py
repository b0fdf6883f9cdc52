"""Truncated power series over the real numbers, in doubles or with many digits."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.expressions.dag import CONSTANTS
from dae_sdc.expressions.operations import FUNCTIONS, Op
from dae_sdc.structure.series import Arithmetic, NoValueError, Series

Floats = npt.NDArray[np.float64]

DECIMAL_DIGITS = 80
"""Decimal digits of numbers where doubles leave a rank in doubt, or do not tell solutions apart."""


class _Doubles:
    """The part of mpmath's interface that :class:`RealArithmetic` uses, with Python's faster floats."""

    mpf, pi, power = float, math.pi, math.pow

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)

    @staticmethod
    def sign(a: float) -> float:
        """-1, 0 or 1."""
        return math.copysign(1.0, a) if a else 0.0


_DOUBLES = _Doubles()


def doubles() -> Any:
    """Python's numbers, in place of a context of mpmath."""
    return _DOUBLES


def many_digits() -> Any:
    """mpmath's numbers of :data:`DECIMAL_DIGITS` digits."""
    context = importlib.import_module("mpmath").mp.clone()
    context.dps = DECIMAL_DIGITS
    return context


class RealArithmetic(Arithmetic):
    """Power series in h up to h^order with real coefficients."""

    half: Any = 0.5
    takes_branches = True

    def __init__(self, order: int, context: Any) -> None:
        self.order, self.context = order, context
        self._functions: dict[Op, Callable[..., Any]] = {
            **{op: getattr(context, op.name.lower()) for op in FUNCTIONS},
            Op.POW: context.power,
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

    def reduced(self, value: Any) -> Any:
        """The number itself: only residues have to be reduced."""
        return value

    def over(self, value: Any, k: int) -> Any:
        """A number divided by k."""
        return value / k

    def add(self, a: Series, b: Series) -> Series:
        """a + b."""
        if len(a) == len(b) == 1:
            return [a[0] + b[0]]
        if len(a) < len(b):
            a, b = b, a
        return [*(x + y for x, y in zip(a, b, strict=False)), *a[len(b) :]]

    def scale(self, a: Series, factor: Any) -> Series:
        """factor * a."""
        return [x * factor for x in a]

    def root(self, a: Any) -> Any:
        """The square root of a positive number."""
        if not a > 0:
            raise NoValueError
        return self.context.sqrt(a)

    def function(self, op: Op, *values: Any) -> Any:
        """The value of a function at real numbers; raises NoValueError where it is not real and finite."""
        found = self._functions[op](*values)
        if found.imag != 0 or found - found != 0:  # complex, infinite or NaN
            raise NoValueError
        return found

    def reciprocal(self, a: Any) -> Any:
        """1 / a for a number."""
        return 1 / a

    def choose(self, first: Any, a: Series, b: Series) -> Series:
        """The branch that the condition ``first`` selects."""
        return a if first else b


class ArrayArithmetic(RealArithmetic):
    """Many power series at once: a coefficient is an array, NaN where a series has no value."""

    def __init__(self, order: int) -> None:
        super().__init__(order, doubles())

    def vanishes(self, a: Series) -> bool:
        """Whether the coefficients are the number 0, and not arrays."""
        return all(np.ndim(one) == 0 and one == 0 for one in a)

    def root(self, a: Any) -> Any:
        """The square roots of numbers; NaN where they are not positive."""
        return np.sqrt(np.where(a > 0, a, np.nan))

    def function(self, op: Op, *values: Any) -> Any:
        """The values of a function; NaN where one is not finite."""
        found = op.numpy(*values)
        return np.where(np.isfinite(found) & np.isfinite(sum(values)), found, np.nan)

    def reciprocal(self, a: Any) -> Any:
        """1 / a for numbers; NaN for 0."""
        return 1 / np.where(a == 0, np.nan, a)

    def choose(self, first: Any, a: Series, b: Series) -> Series:
        """The branches that the conditions ``first`` select."""
        size = max(len(a), len(b))
        one, other = ([*part, *[0.0] * (size - len(part))] for part in (a, b))
        taken: list[Any] = [
            np.where(np.isnan(first), np.nan, np.where(first != 0, x, y))
            for x, y in zip(one, other, strict=True)
        ]
        return taken

    def with_rate(self, value: Series, rate: Series) -> Series:
        """The series ``value``, with NaN where its derivative ``rate`` has no value."""
        found: list[Any] = [np.where(np.isnan(rate[0]), np.nan, value[0]), *value[1:]]
        return found
