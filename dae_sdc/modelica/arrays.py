"""Arithmetic with values: expressions of SymPy, and lists of them for arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, TypeAlias

import sympy
from sympy.logic.boolalg import Boolean

from dae_sdc.errors import InputError
from dae_sdc.modelica.arithmetic import choice, compared, divided, minus, plus, times

MOST_ELEMENTS: Final = 50_000
"""Largest number of elements of an array, and of variables and equations of a model."""

Value: TypeAlias = Any
"""An expression or a condition of SymPy, a text, or a list of values."""


def is_condition(value: Value) -> bool:
    """Whether a value is a condition and not a number."""
    return isinstance(value, Boolean) and not isinstance(value, sympy.Symbol)


def require_number(value: Value) -> Any:
    """The value itself if it is one number, or an array of one; raises :class:`InputError` otherwise."""
    if isinstance(value, list):
        if len(value) == 1:
            return require_number(value[0])
        raise InputError(f"an array of {len(value)} where one number is expected; add a subscript")
    if isinstance(value, str):
        raise InputError("a string where a number is expected")
    if is_condition(value):
        raise InputError("a condition where a number is expected; write if CONDITION then 1 else 0")
    return value


def elements(value: Value) -> list[Value]:
    """All elements of an array, in the order of Modelica, the last subscript fastest."""
    if not isinstance(value, list):
        return [value]
    return [one for part in value for one in elements(part)]


def sizes(value: Value) -> list[int]:
    """The sizes of an array by dimension; an empty list for a number."""
    found = []
    while isinstance(value, list):
        found.append(len(value))
        value = value[0] if value else None
    return found


def each(function: Callable[[Any], Any], value: Value) -> Value:
    """A function applied to every element."""
    if isinstance(value, list):
        return [each(function, one) for one in value]
    return function(require_number(value))


def add(terms: list[Value]) -> Value:
    """The sum of numbers, or of arrays with the same sizes."""
    if not any(isinstance(term, list) for term in terms):
        return plus([require_number(term) for term in terms])
    lengths = {len(term) if isinstance(term, list) else None for term in terms}
    if len(lengths) > 1:
        raise InputError(
            "what is added has different sizes; both must be numbers, or arrays of the same sizes"
        )
    return [add(list(row)) for row in zip(*terms, strict=True)]


def work_of(factors: list[Value]) -> int:
    """Number of products of numbers in a product of arrays."""
    shape, work = sizes(factors[0]), 0
    for factor in factors[1:]:
        other = sizes(factor)
        inner = other[1:] if shape else other
        work += math.prod(shape) * math.prod(inner)
        shape = [*shape[:-1], *inner] if other else shape
    return work


def multiply(factors: list[Value]) -> Value:
    """The product of numbers, vectors and matrices."""
    if not any(isinstance(factor, list) for factor in factors):
        return times([require_number(factor) for factor in factors])
    found = factors[0]
    for factor in factors[1:]:
        found = _product(found, factor)
    return found


def _product(a: Value, b: Value) -> Value:
    if not isinstance(a, list):
        return each(lambda one: times([require_number(a), one]), b)
    if not isinstance(b, list):
        return each(lambda one: times([one, require_number(b)]), a)
    if a and isinstance(a[0], list):
        return [_product(row, b) for row in a]
    if len(a) != len(b) or not a:
        raise InputError("arrays are multiplied whose sizes do not fit")
    if isinstance(b[0], list):
        return [_product(a, [row[k] for row in b]) for k in range(len(b[0]))]
    return plus([times([require_number(x), require_number(y)]) for x, y in zip(a, b, strict=True)])


def multiply_elements(a: Value, b: Value) -> Value:
    """The element-wise product of two arrays."""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            raise InputError("arrays of different sizes are multiplied by their elements")
        return [multiply_elements(x, y) for x, y in zip(a, b, strict=True)]
    return _product(a, b)


def filled(value: Value, counts: list[int]) -> Value:
    """An array of the sizes ``counts`` with equal elements."""
    if not counts or min(counts) < 0 or math.prod(counts) > MOST_ELEMENTS:
        raise InputError(f"an array of the sizes {counts}; at most {MOST_ELEMENTS} elements are read")
    for count in reversed(counts):
        value = [value] * count
    return value


def identity(n: int) -> Value:
    """The identity matrix, shape (n, n)."""
    filled(0, [n, n])
    return [[sympy.Integer(int(i == j)) for j in range(n)] for i in range(n)]


def transpose(value: Value) -> Value:
    """The transpose of a matrix."""
    if len(sizes(value)) != 2:
        raise InputError("transpose needs a matrix")
    return [list(row) for row in zip(*value, strict=True)]


def cross(a: Value, b: Value) -> Value:
    """The cross product of two vectors."""
    if sizes(a) != [3] or sizes(b) != [3]:
        raise InputError("cross needs two vectors of 3 elements")
    places = ((1, 2), (2, 0), (0, 1))
    return [plus([times([a[i], b[j]]), minus(times([a[j], b[i]]))]) for i, j in places]


def interpolate(points: list[tuple[Any, Any]], x: Any, hold: bool = False) -> Any:
    """Piecewise linear interpolation."""
    if len(points) == 1:
        return points[0][1]
    lines = []
    for (a, first), (b, second) in pairwise(points):
        slope = divided(plus([second, minus(first)]), plus([b, minus(a)]))
        lines.append(plus([first, times([slope, plus([x, minus(a)])])]))
    ends = [place for place, _ in points[1:-1]]
    if hold:
        lines = [points[0][1], *lines, points[-1][1]]
        ends = [place for place, _ in points]
    return choice([(compared("<", x, b), line) for b, line in zip(ends, lines, strict=False)], lines[-1])
