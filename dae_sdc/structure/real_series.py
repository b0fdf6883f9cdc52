"""Expressions on truncated power series over the real numbers, in doubles or with many digits."""

from __future__ import annotations

import importlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.expressions.dag import CONSTANTS
from dae_sdc.expressions.operations import FUNCTIONS, NUMPY, Op
from dae_sdc.structure.series import RULES, Arithmetic, NoValueError, Result, Series

if TYPE_CHECKING:
    from dae_sdc.expressions.arithmetic import Expressions
    from dae_sdc.expressions.dag import Leaf

Floats = npt.NDArray[np.float64]

DECIMAL_DIGITS = 80
"""Digits of numbers where doubles leave a rank open, or do not tell solutions apart."""

_WIDE = 8
"""Steps of a tape that must do the same on average before arrays are faster than Python's numbers."""


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

    def reduced(self, value: Any) -> Any:
        """A number as it is kept: itself."""
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


class ArrayArithmetic(RealArithmetic):
    """Many power series at once: a coefficient is an array, NaN where a series has no value.

    Parameters
    ----------
    order : int
        Highest power that is kept.
    """

    def __init__(self, order: int) -> None:
        super().__init__(order, doubles())

    def vanishes(self, a: Series) -> bool:
        """Whether all series are 0 by their form."""
        return all(np.ndim(one) == 0 and one == 0 for one in a)

    def root(self, a: Any) -> Any:
        """The square roots of positive numbers."""
        return np.sqrt(np.where(a > 0, a, np.nan))

    def function(self, op: Op, *values: Any) -> Any:
        """The values of a function."""
        found = NUMPY[op](*values)
        return np.where(np.isfinite(found) & np.isfinite(sum(values)), found, np.nan)

    def reciprocal(self, a: Any) -> Any:
        """1 / a for numbers."""
        return 1 / np.where(a == 0, np.nan, a)

    def choose(self, first: Any, a: Series, b: Series) -> tuple[Series, list[Series]]:
        """The branches that are taken."""
        size = max(len(a), len(b))
        one, other = ([*part, *[0.0] * (size - len(part))] for part in (a, b))
        taken: list[Any] = [
            np.where(np.isnan(first), np.nan, np.where(first != 0, x, y))
            for x, y in zip(one, other, strict=True)
        ]
        return taken, [[first], [1 - first]]


class _Group(NamedTuple):
    """Steps of a tape with one operation and different operands, which do not depend on each other."""

    op: Op
    exponent: int
    places: npt.NDArray[np.int64]
    operands: npt.NDArray[np.int64]
    moving: tuple[bool, ...]


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
        place: dict[int, int] = {}
        self._numbers: list[tuple[int, Any]] = []
        self._steps: list[tuple[int, Op, tuple[int, ...], int]] = []
        self.leaves: list[Leaf] = []
        self._leaf_places: list[int] = []
        for node in graph.below(roots, veils=True):
            number, leaf = graph.numbers.get(node), graph.leaves.get(node)
            if leaf is not None and leaf.kind == "v":
                place[node] = place[graph.veils[leaf.index]]
                continue
            at = place[node] = len(self._numbers) + len(self._steps) + len(self.leaves)
            if number is not None:
                self._numbers.append((at, number))
            elif leaf is None:
                operands = tuple(place[arg] for arg in graph.operands(node))
                op = graph.op[node]
                self._steps.append((at, op, operands, graph.args[node][1] if op is Op.INTPOW else 0))
            else:
                self.leaves.append(leaf)
                self._leaf_places.append(at)
        self._size = len(self._numbers) + len(self._steps) + len(self.leaves)
        self._roots = [place[node] for node in roots]

    @cached_property
    def _groups(self) -> list[_Group]:
        level, moving = [0] * self._size, [False] * self._size
        for at, leaf in zip(self._leaf_places, self.leaves, strict=True):
            moving[at] = leaf.kind != "p"
        alike: dict[tuple[int, Op, int, tuple[bool, ...]], list[tuple[int, tuple[int, ...]]]] = defaultdict(
            list
        )
        for at, op, operands, exponent in self._steps:
            moves = tuple(moving[arg] for arg in operands)
            level[at], moving[at] = 1 + max((level[arg] for arg in operands), default=0), any(moves)
            alike[level[at], op, exponent, moves].append((at, operands))
        return [
            _Group(
                op,
                exponent,
                np.array([at for at, _ in steps], dtype=np.int64),
                np.array([operands for _, operands in steps], dtype=np.int64).T,
                moves,
            )
            for (_, op, exponent, moves), steps in sorted(alike.items())
        ]

    @cached_property
    def is_wide(self) -> bool:
        """Whether so many steps do the same that arrays are faster than Python's numbers."""
        return len(self._steps) > _WIDE and len(self._steps) > _WIDE * len(self._groups)

    def coefficients(self, leaves: Floats) -> Floats:
        """The expressions along a curve, in doubles and all at once.

        Parameters
        ----------
        leaves : ndarray, shape (order + 1, leaves)
            The series of :attr:`leaves`.

        Returns
        -------
        ndarray, shape (order + 1, roots)
            NaN where an expression has no value there.
        """
        ring = ArrayArithmetic(len(leaves) - 1)
        found = np.zeros((len(leaves), self._size))
        for at, number in self._numbers:
            found[0, at] = _number(ring.context, number)
        found[:, self._leaf_places] = leaves
        with np.errstate(all="ignore"):
            for op, exponent, places, operands, moving in self._groups:
                series = [
                    list(found[: None if moves else 1, arg])
                    for arg, moves in zip(operands, moving, strict=True)
                ]
                result: list[Any] = _of_arrays(ring, op, exponent, series)
                for k, coefficient in enumerate(result):
                    found[k, places] = coefficient
        return found[:, self._roots]

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
        for at, source in zip(self._leaf_places, self.leaves, strict=True):
            found[at] = leaf(source)
        for at, op, operands, exponent in self._steps:
            found[at] = _applied(ring, op, exponent, [found[arg] for arg in operands])
        return [found[at] for at in self._roots]


def _number(context: Any, number: Any) -> Any:
    if isinstance(number, str):
        return +context.pi if number == "pi" else context.mpf(CONSTANTS[number])
    return context.mpf(number.numerator) / number.denominator


def _applied(ring: RealArithmetic, op: Op, exponent: int, operands: list[Series | None]) -> Series | None:
    if op is Op.SELECT and operands[0] is not None:  # the branch that is not taken may have no value
        return operands[1] if operands[0][0] else operands[2]
    known = [series for series in operands if series is not None]
    if len(known) < len(operands):
        return None
    try:
        if op is Op.SQRT and known[0] == [0]:
            return known[0]
        return _result(ring, op, exponent, known)[0]
    except (ArithmeticError, ValueError):
        return None


def _of_arrays(ring: ArrayArithmetic, op: Op, exponent: int, operands: list[Series]) -> Series:
    result, rates = _result(ring, op, exponent, operands)
    found: list[Any] = result
    if op is Op.SQRT and len(operands[0]) == 1:
        found[0] = np.where(operands[0][0] == 0, 0.0, found[0])
        return found
    for rate in rates:  # there is no value where there is no derivative, as one after another has it
        found[0] = np.where(np.isnan(rate[0]), np.nan, found[0])
    return found


def _result(ring: RealArithmetic, op: Op, exponent: int, operands: list[Series]) -> Result:
    """The value of an operation, with its derivatives only where they are needed for it."""
    if op is Op.ADD:
        return ring.add(operands[0], operands[1]), []
    if op is Op.MUL:
        return ring.mul(operands[0], operands[1]), []
    if op is Op.INTPOW:
        return ring.power(operands[0], exponent), []
    if op is Op.DIV:
        return ring.mul(operands[0], ring.inverse(operands[1])), []
    result: Result = RULES[op](ring, *operands)
    return result
