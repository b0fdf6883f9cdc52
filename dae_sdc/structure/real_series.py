"""Expressions on truncated power series over the real numbers, in doubles or with many digits."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dae_sdc.structure.series import RULES, Arithmetic, NoValueError, Result, Series
from dae_sdc.symbolic.dag import CONSTANTS
from dae_sdc.symbolic.operations import FUNCTIONS, Op

if TYPE_CHECKING:
    from dae_sdc.symbolic.dag import Expressions, Leaf

DIGITS = 80
"""Digits of numbers by which ranks are decided that doubles do not decide."""


class _Doubles:
    """What :class:`RealArithmetic` asks mpmath for, with Python's numbers, which are much faster."""

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
    """mpmath's numbers of :data:`DIGITS` digits."""
    context = importlib.import_module("mpmath").mp.clone()
    context.dps = DIGITS
    return context


class RealArithmetic(Arithmetic):
    """Power series in h up to h^order with real coefficients.

    Parameters
    ----------
    order : int
        Highest power that is kept.
    context : mpmath context
        :func:`doubles` or :func:`many_digits`.
    """

    half: Any = 0.5

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

    def mul(self, a: Series, b: Series) -> Series:
        """a * b."""
        if len(a) == 1:
            return self.scale(b, a[0])
        if len(b) == 1:
            return self.scale(a, b[0])
        top = min(self.order, len(a) + len(b) - 2)
        return [
            sum(a[i] * b[k - i] for i in range(max(0, k - len(b) + 1), min(k, len(a) - 1) + 1))
            for k in range(top + 1)
        ]

    def inverse(self, a: Series) -> Series:
        """1 / a."""
        first: Any = 1 / a[0]
        out: Series = [first]
        for k in range(1, self.order + 1 if len(a) > 1 else 1):
            out.append(-first * sum(a[i] * out[k - i] for i in range(1, min(k, len(a) - 1) + 1)))
        return out

    def derivative(self, a: Series) -> Series:
        """da/dh."""
        return [k * a[k] for k in range(1, len(a))] or [0]

    def integral(self, slope: Series, start: Any) -> Series:
        """The series with the derivative ``slope``."""
        return [start, *(slope[k] / (k + 1) for k in range(min(len(slope), self.order)))]

    def linear(self, rate: Series, start: Any) -> Series:
        """The solution of dy/dh = rate * y."""
        if not any(rate):
            return [start]
        out: Series = [start]
        for k in range(self.order):
            total: Any = sum(rate[i] * out[k - i] for i in range(min(k, len(rate) - 1) + 1))
            out.append(total / (k + 1))
        return out

    def circle(self, a: Series) -> tuple[Series, Series]:
        """sin(a) and cos(a)."""
        sine, cosine = [self.function(Op.SIN, a[0])], [self.function(Op.COS, a[0])]
        slope = self.derivative(a) if len(a) > 1 else []
        for k in range(self.order if slope else 0):
            parts = range(min(k, len(slope) - 1) + 1)
            up: Any = sum(slope[i] * cosine[k - i] for i in parts)
            down: Any = sum(slope[i] * sine[k - i] for i in parts)
            sine.append(up / (k + 1))
            cosine.append(-down / (k + 1))
        return sine, cosine

    def negative(self, a: Series) -> Series:
        """-a."""
        return [-x for x in a]

    def square(self, a: Series, sign: int, constant: int) -> Series:
        """The sum of a constant and a square with a sign."""
        return self.add([constant], self.scale(self.mul(a, a), sign))

    def root(self, a: Any) -> Any:
        """The square root of a positive number."""
        if not a > 0:
            raise NoValueError
        return self.context.sqrt(a)

    def function(self, op: Op, *values: Any) -> Any:
        """The value of a function; no complex one."""
        found = self._functions[op](*values)
        if found.imag != 0 or found - found != 0:  # complex, infinite or NaN
            raise NoValueError
        return found

    def reciprocal(self, a: Any) -> Any:
        """1 / a for a number."""
        return 1 / a

    def choose(self, first: Any, a: Series, b: Series) -> tuple[Series, list[Series]]:
        """The branch that is taken."""
        return (a, [[1], [0]]) if first else (b, [[0], [1]])


class Tape:
    """Expressions in an order in which they are evaluated along a curve.

    Parameters
    ----------
    graph : Expressions
        Where they are.
    roots : sequence of int
        Nodes.
    """

    def __init__(self, graph: Expressions, roots: Sequence[int]) -> None:
        order = graph.below(roots, veils=True)
        place = {node: at for at, node in enumerate(order)}
        self._leaves: list[tuple[int, Leaf]] = []
        self._numbers: list[tuple[int, Any]] = []
        self._steps: list[tuple[int, Op, tuple[int, ...], int]] = []
        for at, node in enumerate(order):
            number, leaf = graph.numbers.get(node), graph.leaves.get(node)
            if number is not None:
                self._numbers.append((at, number))
            elif leaf is None:
                operands = tuple(place[arg] for arg in graph.operands(node))
                op = graph.op[node]
                self._steps.append((at, op, operands, graph.args[node][1] if op is Op.INTPOW else 0))
            elif leaf.kind == "v":
                self._steps.append((at, Op.INPUT, (place[graph.veils[leaf.index]],), 0))
            else:
                self._leaves.append((at, leaf))
        self._size, self._roots = len(order), [place[node] for node in roots]

    def evaluate(self, ring: RealArithmetic, leaf: Callable[[Leaf], Series]) -> list[Series | None]:
        """The expressions along a curve.

        Parameters
        ----------
        ring : RealArithmetic
            Order and numbers.
        leaf : callable
            The series of time, an unknown, its derivative or a parameter.

        Returns
        -------
        list of Series or None
            None where an expression has no value there.
        """
        found: list[Series | None] = [None] * self._size
        for at, number in self._numbers:
            found[at] = [_number(ring.context, number)]
        for at, source in self._leaves:
            found[at] = leaf(source)
        for at, op, operands, exponent in self._steps:
            found[at] = _applied(ring, op, exponent, [found[arg] for arg in operands])
        return [found[at] for at in self._roots]


def _number(context: Any, number: Any) -> Any:
    if isinstance(number, str):
        return +context.pi if number == "pi" else context.mpf(CONSTANTS[number])
    return context.mpf(number.numerator) / number.denominator


def _applied(ring: RealArithmetic, op: Op, exponent: int, operands: list[Series | None]) -> Series | None:
    if op is Op.INPUT:
        return operands[0]
    if op is Op.SELECT and operands[0] is not None:  # the branch that is not taken may have no value
        return operands[1] if operands[0][0] else operands[2]
    known = [series for series in operands if series is not None]
    if len(known) < len(operands):
        return None
    try:
        if op is Op.ADD:
            return ring.add(known[0], known[1])
        if op is Op.MUL:
            return ring.mul(known[0], known[1])
        if op is Op.INTPOW:
            return ring.power(known[0], exponent)
        if op is Op.SQRT and known[0] == [0]:
            return known[0]
        result: Result = RULES[op](ring, *known)
        return result[0]
    except (ArithmeticError, ValueError):
        return None
