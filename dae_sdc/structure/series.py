"""Truncated power series: over a finite field, and over the real numbers in doubles or with many digits.

Ranks found in a finite field are those at a generic point, without tolerances. Functions that are not
rational have the values there that the graph of expressions assigns, and obey their differential equations.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dae_sdc.expressions.dag import CONSTANTS, FUNCTIONS, PRIME, Leaf, Op, of_function, random_residue
from dae_sdc.expressions.graph import Input, Program

Series: TypeAlias = list[int]  # Coefficients of the powers of h from 0 on; zeros at the end may be left out.


class NoValueError(ArithmeticError):
    """An expression has no value at a point: it divides by 0, or a square root does not exist."""


def _is_one(number: int) -> bool:
    return type(number) is int and number == 1  # a number with many digits is compared more slowly


class Arithmetic:
    """Power series in h up to h^order modulo the prime of the graph of expressions."""

    half = (PRIME + 1) // 2
    takes_branches = False

    def __init__(self, order: int, point: int = 0, exact_roots: bool = False) -> None:
        self.order, self.point, self.exact_roots = order, point, exact_roots
        self._inverses = [0, *(pow(k, -1, PRIME) for k in range(1, order + 1))]
        self._powers: dict[tuple[int, int], int] = {}

    def number(self, value: Any, residue: int) -> int:
        """A constant: here its residue."""
        return residue

    def leaf(self, leaf: Leaf) -> Series:
        """Series of time, a parameter, or an unknown, with random values and derivatives."""
        if leaf.kind != "u":
            start = random_residue(*leaf, self.point)
            return [start, 1] if leaf.kind == "t" else [start]
        out, factor = [], 1
        for power in range(self.order + 1):
            rate = random_residue("u", leaf.index, leaf.order + power, self.point)
            factor = self.over(factor, power) if power else factor
            out.append(rate * factor % PRIME)
        return out

    def reduced(self, value: int) -> int:
        """The residue of a number."""
        return value % PRIME

    def over(self, value: int, k: int) -> int:
        """A number divided by k, which is at most the order."""
        return value * self._inverses[k] % PRIME

    def vanishes(self, a: Series) -> bool:
        """Whether a series is 0."""
        return not any(a)

    def add(self, a: Series, b: Series) -> Series:
        """a + b."""
        if len(a) < len(b):
            a, b = b, a
        return [*((x + y) % PRIME for x, y in zip(a, b, strict=False)), *a[len(b) :]]

    def scale(self, a: Series, factor: int) -> Series:
        """Factor times a."""
        return [x * factor % PRIME for x in a]

    def mul(self, a: Series, b: Series) -> Series:
        """a * b."""
        if len(a) == 1:
            return b if _is_one(a[0]) else self.scale(b, a[0])
        if len(b) == 1:
            return a if _is_one(b[0]) else self.scale(a, b[0])
        top = min(self.order, len(a) + len(b) - 2)
        out = []
        for k in range(top + 1):
            low, high = max(0, k - len(b) + 1), min(k, len(a) - 1)
            out.append(self.reduced(sum(a[i] * b[k - i] for i in range(low, high + 1))))
        return out

    def inverse(self, a: Series) -> Series:
        """1 / a."""
        first = self.reciprocal(a[0])
        out = [first]
        for k in range(1, self.order + 1 if len(a) > 1 else 1):
            total = sum(a[i] * out[k - i] for i in range(1, min(k, len(a) - 1) + 1))
            out.append(self.reduced(-first * total))
        return out

    def power(self, a: Series, exponent: int) -> Series:
        """A power with an integer exponent."""
        if exponent < 0:
            a, exponent = self.inverse(a), -exponent
        out: Series = [1]
        while exponent:
            if exponent & 1:
                out = self.mul(out, a)
            exponent >>= 1
            if exponent:
                a = self.mul(a, a)
        return out

    def derivative(self, a: Series) -> Series:
        """da/dh; the highest power of a is lost."""
        return [self.reduced(k * a[k]) for k in range(1, len(a))] or [0]

    def integral(self, slope: Series, start: int) -> Series:
        """The series that begins with ``start`` and has the derivative ``slope``."""
        return [start, *(self.over(slope[k], k + 1) for k in range(min(len(slope), self.order)))]

    def along(self, rate: Series, a: Series, start: int) -> Series:
        """A function of a whose derivative by a is ``rate``."""
        if len(a) == 1:
            return [start]
        return self.integral(self.mul(rate, self.derivative(a)), start)

    def linear(self, rate: Series, start: int) -> Series:
        """The solution of dy/dh = rate * y that begins with ``start``."""
        if self.vanishes(rate):
            return [start]
        out = [start]
        for k in range(self.order):
            total = sum(rate[i] * out[k - i] for i in range(min(k, len(rate) - 1) + 1))
            out.append(self.over(total, k + 1))
        return out

    def exponential(self, a: Series) -> Series:
        """exp(a)."""
        return self.linear(self.derivative(a), self.function(Op.EXP, a[0]))

    def circle(self, a: Series) -> tuple[Series, Series]:
        """sin(a) and cos(a)."""
        sine, cosine = [self.function(Op.SIN, a[0])], [self.function(Op.COS, a[0])]
        if len(a) == 1:
            return sine, cosine
        slope = self.derivative(a)
        for k in range(self.order):
            parts = range(min(k, len(slope) - 1) + 1)
            up = sum(slope[i] * cosine[k - i] for i in parts)
            down = sum(slope[i] * sine[k - i] for i in parts)
            sine.append(self.over(up, k + 1))
            cosine.append(self.over(-down, k + 1))
        return sine, cosine

    def hyperbola(self, a: Series) -> tuple[Series, Series]:
        """sinh(a) and cosh(a)."""
        up = self.exponential(a)
        down = self.inverse(up)
        odd = self.add(up, self.negative(down))
        return self.scale(odd, self.half), self.scale(self.add(up, down), self.half)

    def negative(self, a: Series) -> Series:
        """-a."""
        return [self.reduced(-x) for x in a]

    def square(self, a: Series, sign: int, constant: int) -> Series:
        """The series constant + sign * a^2."""
        return self.add([self.reduced(constant)], self.scale(self.mul(a, a), self.reduced(sign)))

    def root(self, a: int) -> int:
        """The square root of a number, or of its negative if :attr:`exact_roots` is False."""
        found = pow(a, (PRIME + 1) // 4, PRIME)  # the prime is 3 modulo 4
        if found == 0 or (self.exact_roots and found * found % PRIME != a % PRIME):
            raise NoValueError
        return found

    def fractional(self, a: Series, exponent: int, start: int) -> Series:
        """a to the power ``exponent``, an element of the field, with the constant term ``start``."""
        return self.linear(self.mul(self.scale(self.inverse(a), exponent), self.derivative(a)), start)

    def function(self, op: Op, *values: int) -> int:
        """The value of an operation that is not rational."""
        if op is not Op.POW:
            return of_function(op, values)
        # A random number, consistent among powers of one base whose exponents differ by 1.
        base, exponent = values
        powers, above, below = self._powers, (exponent + 1) % PRIME, (exponent - 1) % PRIME
        if (base, exponent) not in powers:
            if (base, above) in powers:
                found = powers[base, above] * self.reciprocal(base) % PRIME
            elif (base, below) in powers:
                found = powers[base, below] * base % PRIME
            else:
                found = random_residue(Op.POW.name, base, exponent)
            powers[base, exponent] = found
        return powers[base, exponent]

    def reciprocal(self, a: int) -> int:
        """1 / a for a number."""
        if a == 0:
            raise NoValueError
        return pow(a, -1, PRIME)

    def choose(self, first: int, a: Series, b: Series) -> Series:
        """A random combination of the branches a and b: which one is taken is not known in the field."""
        return self.add(self.scale(a, first), self.scale(b, (1 - first) % PRIME))

    def with_rate(self, value: Series, rate: Series) -> Series:
        """The series ``value``: over the field it exists where its derivative ``rate`` does."""
        return value


def _power(ring: Arithmetic, a: Series, b: Series) -> Series:
    start = ring.function(Op.POW, a[0], b[0])
    below = ring.inverse(a)
    log = ring.with_rate(ring.along(below, a, ring.function(Op.LOG, a[0])), below)
    if len(b) == 1:
        return ring.with_rate(ring.fractional(a, b[0], start), log)
    return ring.with_rate(ring.linear(ring.derivative(ring.mul(b, log)), start), log)


def _quotient(ring: Arithmetic, parts: tuple[Series, Series]) -> Series:
    return ring.mul(parts[0], ring.inverse(parts[1]))


def _inverse_function(op: Op, rate_of: Callable[[Arithmetic, Series], Series]) -> Callable[..., Series]:
    """The rule of a function that is the integral of an algebraic derivative."""

    def rule(ring: Arithmetic, a: Series) -> Series:
        rate = rate_of(ring, a)
        return ring.with_rate(ring.along(rate, a, ring.function(op, a[0])), rate)

    return rule


def _over_root(op: Op, sign: int, constant: int, factor: int = 1) -> Callable[..., Series]:
    """The rule of a function with the derivative factor / sqrt(constant + sign a^2)."""

    def rate(ring: Arithmetic, a: Series) -> Series:
        inside = ring.square(a, sign, constant)
        root = ring.fractional(inside, -ring.half, ring.reciprocal(ring.root(inside[0])))
        return ring.scale(root, factor)

    return _inverse_function(op, rate)


def _atan2(ring: Arithmetic, a: Series, b: Series) -> Series:
    below = ring.inverse(ring.add(ring.mul(a, a), ring.mul(b, b)))
    rates = [ring.mul(b, below), ring.negative(ring.mul(a, below))]
    slope = ring.add(*(ring.mul(rate, ring.derivative(of)) for rate, of in zip(rates, (a, b), strict=True)))
    return ring.with_rate(ring.integral(slope, ring.function(Op.ATAN2, a[0], b[0])), below)


def _flat(op: Op) -> Callable[..., Series]:
    """The rule of a piecewise constant function."""
    return lambda ring, *operands: [ring.function(op, *(a[0] for a in operands))]


# Rule of every operation on series, in any arithmetic; INTPOW takes its exponent after its operand.
RULES: dict[Op, Callable[..., Series]] = {
    Op.ADD: lambda ring, a, b: ring.add(a, b),
    Op.MUL: lambda ring, a, b: ring.mul(a, b),
    Op.NEG: lambda ring, a: ring.negative(a),
    Op.DIV: lambda ring, a, b: _quotient(ring, (a, b)),
    Op.POW: _power,
    Op.INTPOW: lambda ring, a, exponent: ring.power(a, exponent),
    Op.SQRT: lambda ring, a: ring.fractional(a, ring.half, ring.root(a[0])),
    Op.EXP: lambda ring, a: ring.exponential(a),
    Op.LOG: _inverse_function(Op.LOG, lambda ring, a: ring.inverse(a)),
    Op.SIN: lambda ring, a: ring.circle(a)[0],
    Op.COS: lambda ring, a: ring.circle(a)[1],
    Op.TAN: lambda ring, a: _quotient(ring, ring.circle(a)),
    Op.ASIN: _over_root(Op.ASIN, -1, 1),
    Op.ACOS: _over_root(Op.ACOS, -1, 1, -1),
    Op.ATAN: _inverse_function(Op.ATAN, lambda ring, a: ring.inverse(ring.square(a, 1, 1))),
    Op.ATAN2: _atan2,
    Op.SINH: lambda ring, a: ring.hyperbola(a)[0],
    Op.COSH: lambda ring, a: ring.hyperbola(a)[1],
    Op.TANH: lambda ring, a: _quotient(ring, ring.hyperbola(a)),
    Op.ASINH: _over_root(Op.ASINH, 1, 1),
    Op.ACOSH: _over_root(Op.ACOSH, 1, -1),
    Op.ATANH: _inverse_function(Op.ATANH, lambda ring, a: ring.inverse(ring.square(a, -1, 1))),
    Op.ABS: lambda ring, a: ring.scale(a, ring.function(Op.SIGN, a[0])),
    Op.SIGN: _flat(Op.SIGN),
    Op.MIN: lambda ring, a, b: ring.choose(ring.function(Op.LE, a[0], b[0]), a, b),
    Op.MAX: lambda ring, a, b: ring.choose(ring.function(Op.LE, a[0], b[0]), b, a),
    Op.FLOOR: _flat(Op.FLOOR),
    Op.LT: _flat(Op.LT),
    Op.LE: _flat(Op.LE),
    Op.SELECT: lambda ring, test, a, b: ring.choose(test[0], a, b),
}


Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Decimal digits of numbers where doubles leave a rank in doubt, or do not tell solutions apart.
DECIMAL_DIGITS = 80


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


class Slots:
    """Numbers that a recorded program computes, in place of numbers of Python."""

    def __init__(self, recorder: Recorder, places: Integers) -> None:
        self.recorder, self.places = recorder, places

    def __add__(self, other: Any) -> Slots:
        return self.recorder.emit(Op.ADD, self, other) if isinstance(other, Slots) or other else self

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Slots) or other not in (0, 1):
            return self.recorder.emit(Op.MUL, self, other)
        return self if other else 0

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Slots:
        return self.recorder.emit(Op.NEG, self)

    def __truediv__(self, other: Any) -> Slots:
        return self.recorder.emit(Op.DIV, self, other)

    def __rtruediv__(self, other: Any) -> Slots:
        return self.recorder.emit(Op.DIV, other, self)


class Recorder(RealArithmetic):
    """Many power series at once, as a program that gives NaN where one has no value."""

    def __init__(self, order: int, inputs: Sequence[Input]) -> None:
        super().__init__(order, doubles())
        self._inputs, self._constants = tuple(inputs), dict[float, int]()
        self._code, self._next = [np.empty((0, 4), dtype=np.int32)], len(inputs)
        self.inputs = [Slots(self, np.array([at])) for at in range(len(inputs))]

    def emit(self, op: Op, *operands: Any) -> Slots:
        """The results of an operation; operands are slots and numbers."""
        places = [np.atleast_1d(self.place(operand)) for operand in operands]
        rows = np.zeros((max(map(len, places)), 4), dtype=np.int32)
        rows[:, 0] = op
        for column, numbers in enumerate(places, start=1):
            rows[:, column] = numbers
        self._code.append(rows)
        self._next += len(rows)
        return Slots(self, np.arange(self._next - len(rows), self._next))

    def place(self, value: Any) -> Any:
        """Places of values; those of constants are negative, as others may come after them."""
        if isinstance(value, Slots):
            return value.places
        return ~self._constants.setdefault(float(value), len(self._constants))

    def program(self, outputs: Integers) -> Program:
        """The program of all operations that outputs, given by their places, need."""
        first, code = len(self._inputs), np.concatenate(self._code)
        for part in (code[:, 1:], outputs):
            part[...] = np.where(part < 0, first + ~part, part + len(self._constants) * (part >= first))
        return Program(self._inputs, np.array(list(self._constants)), code, outputs.astype(np.int32)).used()

    def _where_finite(self, value: Any, *others: Any) -> Any:
        """A value, NaN where it or another one is not finite."""
        return self.emit(Op.ADD, value, self.emit(Op.MUL, sum(others, value), 0.0))

    def vanishes(self, a: Series) -> bool:
        """Whether the coefficients are the number 0, and no slots."""
        numbers: list[Any] = a
        return not any(isinstance(number, Slots) or number for number in numbers)

    def root(self, a: Any) -> Any:
        """The square roots of numbers; NaN where they are not positive."""
        return self.emit(Op.SQRT, a) * (a / a)

    def function(self, op: Op, *values: Any) -> Any:
        """The values of a function; NaN where one is not finite."""
        return self._where_finite(self.emit(op, *values), *values)

    def reciprocal(self, a: Any) -> Any:
        """1 / a for numbers; NaN for 0."""
        return self._where_finite(1 / a)

    def choose(self, first: Any, a: Series, b: Series) -> Series:
        """The branches that the conditions ``first`` select."""
        chosen: list[Any] = [self.emit(Op.SELECT, first, x, y) for x, y in zip_longest(a, b, fillvalue=0.0)]
        return self.with_rate(chosen, [first])

    def with_rate(self, value: Series, rate: Series) -> Series:
        """The series ``value``, with NaN where its derivative ``rate`` has no value."""
        return [self._where_finite(value[0], rate[0]), *value[1:]]
