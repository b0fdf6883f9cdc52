"""Arithmetic with SymPy expressions and arrays of them: numbers are combined, all else stays as written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Final, TypeAlias

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean

from dae_sdc.errors import InputError
from dae_sdc.model.sympy_input import HIGHEST_POWER, TIME, Unknown
from dae_sdc.model.tables import in_pieces, pieces_of

MOST_BITS: Final = 4096  # Largest number of bits of numerator and denominator of a number together.
LONGEST_NUMBER: Final = 400  # Largest number of digits of a number in the text.
LARGEST_DECIMAL_EXPONENT: Final = 308  # Largest one of numbers and powers in the text, that of a double.
LARGEST_BINARY_EXPONENT: Final = 1020  # Largest one of a computed number, slightly below that of a double.

_ZERO, _ONE, _MINUS_ONE = sympy.S.Zero, sympy.S.One, sympy.S.NegativeOne

TRUTHS: Final = (sympy.true, sympy.false)  # The constant conditions.

_COMPARISONS: Final[dict[str, Any]] = {
    **{"<": sympy.StrictLessThan, "<=": sympy.LessThan, "==": sympy.Equality},
    **{">": sympy.StrictGreaterThan, ">=": sympy.GreaterThan, "<>": sympy.Unequality},
}


def rational(text: str) -> Any:
    """The exact value of a decimal number in a text; InputError if it is too long, large or small."""
    if text.startswith("-"):
        return -rational(text[1:])
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    if not digits:
        return _ZERO
    power = int(exponent or 0) if len(exponent) < 8 else 10**8 * (-1 if exponent[0] == "-" else 1)
    if len(digits) > LONGEST_NUMBER:
        raise InputError(f"a number of {len(digits)} digits is too long; write fewer")
    shift = power - len(part)
    size = shift + len(digits)
    if abs(size) > LARGEST_DECIMAL_EXPONENT:
        raise InputError(f"the number {text} is too {'large' if size > 0 else 'small'}; use other units")
    return int(digits) * sympy.Integer(10) ** shift


def _checked(number: Any) -> Any:
    over, under = number.p.bit_length(), number.q.bit_length()
    if over and (over + under > MOST_BITS or abs(over - under) > LARGEST_BINARY_EXPONENT):
        size = "large" if over > under else "small"
        raise InputError(f"a number that is computed here is too {size} or too long; use other units")
    return number


def minus(value: Any) -> Any:
    """The negative of an expression."""
    if value.is_Add:
        return sympy.Add(*map(minus, value.args), evaluate=False)
    return times([_MINUS_ONE, value])


def _parted(values: Iterable[Any], kind: Any) -> tuple[list[Any], list[Any]]:
    """The numbers among the operands of sums or products, and the other operands."""
    parts = [part for value in values for part in (value.args if isinstance(value, kind) else (value,))]
    return [part for part in parts if part.is_Rational], [part for part in parts if not part.is_Rational]


def _joined(kind: Any, operands: Sequence[Any]) -> Any:
    return operands[0] if len(operands) == 1 else kind(*operands, evaluate=False)


def _product(numbers: Iterable[Any]) -> Any:
    return reduce(lambda product, number: _checked(product * number), numbers, _ONE)


def plus(terms: Iterable[Any]) -> Any:
    """The sum of expressions."""
    numbers, rest = _parted(terms, sympy.Add)
    number = sum(numbers, _ZERO)
    return _joined(sympy.Add, [*rest, _checked(number)] if number != 0 or not rest else rest)


def times(factors: Iterable[Any]) -> Any:
    """The product of expressions."""
    numbers, rest = _parted(factors, sympy.Mul)
    number = _product(numbers)
    if number == 0 or not rest:
        return number
    return _joined(sympy.Mul, rest if number == 1 else [number, *rest])


def divided(value: Any, by: Any) -> Any:
    """The quotient of two expressions."""
    numbers, rest = _parted([by], sympy.Mul)
    number, under = _product(numbers), [part for part in rest if not (part.is_Pow and part.exp.is_Rational)]
    over = [power(part.base, -part.exp) for part in rest if part.is_Pow and part.exp.is_Rational]
    if number == 0:
        raise InputError("a division by zero; correct the divisor")
    if under:
        over.append(sympy.Pow(_joined(sympy.Mul, under), _MINUS_ONE, evaluate=False))
    return times([value, _ONE / number, *over])


def power(base: Any, exponent: Any) -> Any:
    """The power of an expression."""
    if not exponent.is_Rational:
        return sympy.Pow(base, exponent, evaluate=False)
    if exponent == 1:
        return base
    if exponent == 0:
        return _ONE
    if abs(exponent) > HIGHEST_POWER or exponent.q.bit_length() > 64:
        raise InputError(f"the exponent {float(exponent):.6g} is too large or too long; write another form")
    if base.is_Pow and base.exp.is_Rational and abs(base.exp * exponent) > HIGHEST_POWER:
        raise InputError("a power of a power that is too large; write another form")
    if base == 0 and exponent < 0:
        raise InputError("a division by zero: a negative power of 0; correct the base")
    if base in (0, 1):
        return base
    if base.is_Rational:
        bits = base.p.bit_length() + base.q.bit_length()
        if exponent.is_Integer:
            if bits * abs(int(exponent)) <= MOST_BITS:
                return _checked(base**exponent)
            size = float(exponent) * (math.log10(abs(base.p)) - math.log10(base.q))
            if abs(size) > LARGEST_DECIMAL_EXPONENT:
                raise InputError(f"a power is too {'large' if size > 0 else 'small'}; use other units")
        elif base < 0:
            raise InputError(f"{base}^({exponent}) is no real number; correct the base")
    return sympy.Pow(base, exponent, evaluate=False)


def compared(sign: str, left: Any, right: Any) -> Any:
    """A comparison."""
    kind = _COMPARISONS[sign]
    if left.is_Rational and right.is_Rational:
        return kind(left, right)
    if isinstance(left, sympy.Piecewise) and all(value.is_Rational for value, _ in (*left.args, (right, 0))):
        # Of a choice of numbers it is a choice of what is certain.
        values, tests = zip(*left.args, strict=True)
        return chosen(tests, [compared(sign, value, right) for value in values])
    return sympy.Basic.__new__(kind, left, right)


def near(value: Any, first: int, last: int | None = None) -> Any:
    """The condition that a value, an integer but for rounding, is a number, or from one to another."""
    low, high = first - sympy.S.Half, (last or first) + sympy.S.Half
    return joined(True, [compared(">", value, low), compared("<", value, high)])


def joined(every: bool, conditions: Sequence[Any]) -> Any:
    """The conjunction of conditions if ``every``, else the disjunction; constant conditions are evaluated."""
    stops = sympy.false if every else sympy.true
    if stops in conditions:
        return stops
    kept = [condition for condition in conditions if condition not in TRUTHS]
    if len(kept) < 2:
        return kept[0] if kept else conditions[0]
    return sympy.Basic.__new__(sympy.And if every else sympy.Or, *kept)


def opposite(condition: Any) -> Any:
    """The negation of a condition."""
    return sympy.Not(condition) if condition in TRUTHS else sympy.Basic.__new__(sympy.Not, condition)


def conditional(test: Any, holds: Any, otherwise: Any) -> Any:
    """The condition ``holds`` where ``test`` holds, else the condition ``otherwise``."""
    if holds == otherwise:
        return holds
    return joined(False, [joined(True, [test, holds]), joined(True, [opposite(test), otherwise])])


def choice(cases: Iterable[tuple[Any, Any]]) -> Any:
    """The value of the first case whose condition holds, of which the last one is true."""
    kept: list[tuple[Any, Any]] = []
    for condition, value in cases:
        if condition != sympy.false:
            kept.append((value, condition))
        if condition == sympy.true:
            break
    if len(kept) == 1:
        return kept[0][0]
    pairs = [sympy.Tuple.__new__(ExprCondPair, *pair) for pair in kept]
    return sympy.Basic.__new__(sympy.Piecewise, *pairs)


def _floor(a: Any) -> Any:
    return sympy.Integer(a.p // a.q) if a.is_Rational else sympy.floor(a, evaluate=False)


def _div(a: Any, b: Any) -> Any:
    """The quotient of two numbers, rounded towards zero."""
    whole = divided(a, b)
    if whole.is_Rational:
        return sympy.Integer(int(whole))
    return times([sympy.sign(whole, evaluate=False), _floor(sympy.Abs(whole, evaluate=False))])


# Constants of ``Modelica.Constants`` beside those that a text gives their numbers.
CONSTANTS: Final[dict[str, Any]] = {"pi": sympy.pi, "e": sympy.E}
_SYNONYMS: Final = {"ln": "log", "signum": "sign", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}
# Functions of numbers by name, each with the number of its arguments.
FUNCTIONS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    **{
        name: (1, partial(getattr(sympy, name), evaluate=False))
        for name in "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp log sign".split()
    },
    **{name: (1, partial(getattr(sympy, other), evaluate=False)) for name, other in _SYNONYMS.items()},
    "atan2": (2, partial(sympy.atan2, evaluate=False)),
    "log10": (1, lambda a: divided(sympy.log(a, evaluate=False), sympy.log(10, evaluate=False))),
    "sqrt": (1, lambda a: power(a, sympy.Rational(1, 2))),
    "abs": (1, lambda a: abs(a) if a.is_Rational else sympy.Abs(a, evaluate=False)),
    **dict.fromkeys(("floor", "integer"), (1, _floor)),
    "ceil": (1, lambda a: minus(_floor(minus(a)))),
    "mod": (2, lambda a, b: plus([a, minus(times([_floor(divided(a, b)), b]))])),
    "rem": (2, lambda a, b: plus([a, minus(times([_div(a, b), b]))])),
    "div": (2, _div),
}


def extreme(largest: bool, values: Sequence[Any]) -> Any:
    """The largest or the smallest of some expressions."""
    numbers, rest = _parted(values, ())
    if numbers:
        rest.append(max(numbers) if largest else min(numbers))
    return rest[0] if len(rest) == 1 else sympy.Basic.__new__(sympy.Max if largest else sympy.Min, *rest)


def symbols_in(value: Any) -> list[Any]:
    """The symbols in an expression, by their names; parts that stand in several places are looked at once."""
    symbols: set[Any] = set()
    stack, seen = [value], {id(value)}
    while stack:
        item = stack.pop()
        if item.is_Symbol:
            symbols.add(item)
        for part in item.args:
            if id(part) not in seen:
                seen.add(id(part))
                stack.append(part)
    return sorted(symbols, key=str)


def moving_in(value: Any) -> list[Any]:
    """The unknowns in an expression, and time if it is in it."""
    return [symbol for symbol in symbols_in(value) if isinstance(symbol, Unknown) or symbol == TIME]


def extent(value: Any, extents: dict[int, tuple[int, int, Any]]) -> tuple[int, int]:
    """Depth of an expression, and number of its operators and operands when it is written out; cached."""
    stack = [value]
    while stack:
        item = stack.pop()
        missing = [part for part in item.args if id(part) not in extents]
        if missing:
            stack += [item, *missing]
        elif id(item) not in extents:
            parts = [extents[id(part)] for part in item.args]
            depth = max((part[0] for part in parts), default=0)
            extents[id(item)] = depth + 1, 1 + sum(part[1] for part in parts), item
    return extents[id(value)][:2]


MOST_ELEMENTS: Final = 50_000  # Most elements of an array, and most turns of a loop.
Value: TypeAlias = Any  # An expression or a condition of SymPy, a text, or a list of values.


def is_condition(value: Value) -> bool:
    """Whether a value is a condition and not a number."""
    return isinstance(value, Boolean) and not isinstance(value, sympy.Symbol)


def scalar(value: Value) -> Any:
    """The value itself if it is one number, or an array of one; raises :class:`InputError` otherwise."""
    while isinstance(value, list):
        if len(value) != 1:
            raise InputError(f"an array of {len(value)} where one number is expected; add a subscript")
        value = value[0]
    if isinstance(value, dict):
        raise InputError("a record where a number is expected; write one of its parts")
    if isinstance(value, str):
        raise InputError("a string where a number is expected")
    if is_condition(value):
        raise InputError("a condition where a number is expected; write if CONDITION then 1 else 0")
    return value


def elements(value: Value) -> list[Value]:
    """All elements of an array, in the order of Modelica, the last subscript fastest."""
    if not isinstance(value, list):
        return [value]
    return [element for part in value for element in elements(part)]


def sizes(value: Value) -> list[int]:
    """The sizes of an array by dimension; an empty list for a number."""
    counts = []
    while isinstance(value, list):
        counts.append(len(value))
        value = value[0] if value else None
    return counts


def mapped(function: Callable[[Any], Any], whole: Any) -> Any:
    """A function applied to every element of a list of lists."""
    return [mapped(function, part) for part in whole] if isinstance(whole, list) else function(whole)


def each(function: Callable[[Any], Any], value: Value) -> Value:
    """A function applied to every element, which must be a number."""
    return mapped(lambda element: function(scalar(element)), value)


def together(function: Callable[..., Any], values: Sequence[Value], what: str) -> Value:
    """A function of the elements of arrays of the same sizes, of records field by field."""
    first = values[0]
    if isinstance(first, dict) and all(
        isinstance(value, dict) and value.keys() == first.keys() for value in values
    ):
        return {word: together(function, [value[word] for value in values], what) for word in first}
    if not any(isinstance(value, list) for value in values):
        return function(*values)
    if not all(isinstance(value, list) for value in values):
        raise InputError(f"one {what} is an array, another is none; both must have the same sizes")
    if len({len(value) for value in values}) > 1:
        counts = " and ".join(str(len(value)) for value in values)
        raise InputError(f"the {what}s have different sizes, {counts} elements; give them equal sizes")
    return [together(function, parts, what) for parts in zip(*values, strict=True)]


def chosen(tests: Sequence[Any], values: Sequence[Value]) -> Value:
    """The value of the first case whose condition holds, element by element; constant ones are evaluated."""

    def choose(*numbers: Any) -> Any:
        if not all(map(is_condition, numbers)):
            return choice(zip(tests, map(scalar, numbers), strict=True))
        holds = numbers[-1]
        for test, number in zip(tests[-2::-1], numbers[-2::-1], strict=True):
            holds = conditional(test, number, holds)
        return holds

    return together(choose, values, "choice") if len(values) > 1 else values[0]


def add(terms: list[Value]) -> Value:
    """The sum of numbers, or of arrays with the same sizes."""
    return together(lambda *numbers: plus(map(scalar, numbers)), terms, "term")


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
        return times([scalar(factor) for factor in factors])
    return reduce(_product_of_arrays, factors)


def _product_of_arrays(a: Value, b: Value) -> Value:
    if not isinstance(a, list):
        return each(lambda element: times([scalar(a), element]), b)
    if not isinstance(b, list):
        return each(lambda element: times([element, scalar(b)]), a)
    if a and isinstance(a[0], list):
        return [_product_of_arrays(row, b) for row in a]
    if len(a) != len(b) or not a:
        raise InputError("arrays are multiplied whose sizes do not fit")
    if isinstance(b[0], list):
        return [_product_of_arrays(a, [row[k] for row in b]) for k in range(len(b[0]))]
    return plus([times([scalar(x), scalar(y)]) for x, y in zip(a, b, strict=True)])


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


def as_matrix(value: Value) -> list[list[Value]]:
    """A number or a vector as a matrix of one column; a matrix itself."""
    rows = value if isinstance(value, list) else [value]
    return [row if isinstance(row, list) else [row] for row in rows]


def joined_along(dimension: int, arrays: Sequence[Value]) -> Value:
    """Arrays joined along a dimension, from 1."""
    if dimension == 1:
        return [part for array in arrays for part in array]
    return [joined_along(dimension - 1, parts) for parts in zip(*arrays, strict=True)]


def interpolate(places: list[Any], heights: list[Any], x: Any, outside: str) -> Any:
    """Piecewise linear interpolation."""
    rises, widths = ([plus([b, minus(a)]) for a, b in pairwise(part)] for part in (heights, places))
    slopes = [divided(rise, width) for rise, width in zip(rises, widths, strict=True)]
    return in_pieces(x, *pieces_of(places, heights, [heights[:-1], slopes], outside))
