"""Arithmetic of a text: nodes of a graph whose leaves have names, conditions, and arrays of both."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import methodcaller
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import COMPARISONS, Leaf, Op, name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.sympy_input import HIGHEST_POWER

MOST_BITS: Final = 4096  # Largest number of bits of numerator and denominator of a number together.
LONGEST_NUMBER: Final = 400  # Largest number of digits of a number in the text.
LARGEST_DECIMAL_EXPONENT: Final = 308  # Largest one of numbers and powers in the text, that of a double.
LARGEST_BINARY_EXPONENT: Final = 1020  # Largest one of a computed number, slightly below that of a double.
# The parameter that is 0 where homotopies have their simpler values, else 1.
SIMPLIFIED: Final = "homotopy()"
NOTHING: Final = "nothing()"  # The parameter that stands for what has no value yet.

# The node of a number or expression, a condition, a text, a list of values, or a dictionary of fields.
Value: TypeAlias = Any


class Condition(NamedTuple):
    """A condition, by the node of a number that is 1 where it holds, and else 0."""

    node: int


TRUE, FALSE = Condition(1), Condition(0)  # Nodes of a graph begin with those of 0 and 1.
TRUTHS: Final = (TRUE, FALSE)  # The constant conditions.


def rational(text: str) -> Fraction:
    """The exact value of a decimal number in a text; InputError if it is too long, large or small."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent) > 7:  # which no number has that is read
        exponent = "-99999999" if exponent[0] == "-" else "99999999"
    number = Decimal(f"{mantissa}e{exponent or 0}")
    if number and (count := len(number.as_tuple().digits)) > LONGEST_NUMBER:
        raise InputError(f"a number of {count} digits is too long; write fewer")
    if number and abs(size := number.adjusted() + 1) > LARGEST_DECIMAL_EXPONENT:
        what = f"the number {text.removeprefix('-')} is too {'large' if size > 0 else 'small'}"
        raise InputError(f"{what}; use other units")
    return Fraction(number) if number else Fraction(0)


def shown(leaf: Leaf) -> str:
    """The name of a leaf."""
    return "t" if leaf.kind == "t" else name_of(str(leaf.index), leaf.order)


def opposite(graph: Graph, truth: int) -> int:
    """The node of the negation of a condition."""
    if graph.op[truth] in COMPARISONS:
        return graph.call(Op.LT if graph.op[truth] is Op.LE else Op.LE, *graph.args[truth][::-1])
    return graph.sub(graph.one, truth)


def denied(graph: Graph, node: int) -> int | None:
    """The condition of which a node is the negation; None if there is none."""
    if graph.op[node] is not Op.ADD or graph.one not in graph.args[node]:
        return None
    other = graph.neg(next((each for each in graph.args[node] if each != graph.one), graph.one))
    return other if is_truth(graph, other) else None


def is_truth(graph: Graph, node: int) -> bool:
    """Whether a number is 1 where a condition holds, and else 0."""
    op, key = graph.op[node], (is_truth, node)
    if op is not Op.MUL and op is not Op.ADD:
        return op in COMPARISONS
    if key not in graph.remembered:
        is_product = op is Op.MUL and all(is_truth(graph, each) for each in graph.args[node])
        graph.remembered[key] = is_product or denied(graph, node) is not None
    return bool(graph.remembered[key])


def conjuncts(graph: Graph, truth: int) -> list[int]:
    """The conditions of which a condition is the conjunction."""
    parts = list[int]()
    while graph.op[truth] is Op.MUL:
        truth, last = graph.args[truth]
        parts.append(last)
    return [truth, *parts[::-1]]


class Algebra(Graph):
    """Expressions of named leaves, in which products of conditions are simplified as conjunctions."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, int] = {}
        self._extents: dict[int, tuple[int, int]] = {}

    def _mul(self, a: int, b: int) -> int:
        if not (is_truth(self, a) and is_truth(self, b)):
            return super()._mul(a, b)
        for each in conjuncts(self, b):
            parts = {*conjuncts(self, a)}
            if parts.issuperset(conjuncts(self, opposite(self, each))):
                return self.zero
            a = a if each in parts else super()._mul(a, each)
        return a

    def call(self, op: Op, *args: int) -> int:
        """Any operation of a graph; a condition that is compared with a number is one."""
        for place in (0, 1) if op in COMPARISONS else ():
            if args[1 - place] in self.numbers and is_truth(self, args[place]):
                put = ([each, args[1]] if place == 0 else [args[0], each] for each in (self.one, self.zero))
                if_true, if_false = (super(Algebra, self).call(op, *both) for both in put)
                other = args[place] if if_true == self.one else opposite(self, args[place])
                return if_true if if_true == if_false else other
        return super().call(op, *args)

    def number(self, text: str) -> int:
        """The node of a decimal number in a text."""
        if text not in self._texts:  # the same numbers come again and again
            self._texts[text] = self.constant(rational(text))
        return self._texts[text]

    def leaves_in(self, value: Value) -> list[Leaf]:
        """The leaves of an expression or condition, sorted by their names."""
        return sorted(self.leaves_of(value.node if isinstance(value, Condition) else value), key=shown)

    def extent(self, node: int) -> tuple[int, int]:
        """Depth of an expression, and number of its operators and operands when it is written out."""
        for each in self.below([node], known=self._extents):
            op, operands, depth, size = self.op[each], self.operands(each), 0, 0
            for place, operand in enumerate(operands):
                joins = op is self.op[operand] and (op in _SEVERAL or (op is Op.SELECT and place == 2))
                deep, long = self._extents[operand]
                depth, size = max(depth, deep - joins), size + long - joins
            self._extents[each] = depth + 1, size + 1
        return self._extents[node]

    def _checked(self, node: int) -> int:
        """A node itself, if it is no number, and begins with none, that is too large, small or long."""
        for number in map(self.numbers.get, (node, *self.args[node][:1])):
            if not isinstance(number, Fraction):
                continue
            over, under = number.numerator.bit_length(), number.denominator.bit_length()
            if over and (over + under > MOST_BITS or abs(over - under) > LARGEST_BINARY_EXPONENT):
                size = "large" if over > under else "small"
                raise InputError(f"a number that is computed here is too {size} or too long; use other units")
        return node

    def plus(self, terms: Iterable[int]) -> int:
        """The sum of expressions."""
        return self._checked(self.add(*terms))

    def times(self, factors: Iterable[int]) -> int:
        """The product of expressions."""
        return self._checked(self.mul(*factors))

    def divided(self, value: int, by: int) -> int:
        """The quotient of two expressions."""
        if by == self.zero:
            raise InputError("a division by zero; correct the divisor")
        return self._checked(self.div(value, by))

    def raised(self, base: int, exponent: int) -> int:
        """The power of an expression."""
        number, power = self.numbers.get(base), self.numbers.get(exponent)
        if not isinstance(power, Fraction) or power in (0, 1):
            return self.power(base, exponent)
        if abs(power) > HIGHEST_POWER or power.denominator.bit_length() > 64:
            raise InputError(f"the exponent {float(power):.6g} is too large or too long; write another form")
        inner: Any = self.args[base][1] if self.op[base] is Op.INTPOW else None
        inner = self.numbers.get(self.args[base][1]) if self.op[base] is Op.POW else inner
        if isinstance(inner, int | Fraction) and abs(inner * power) > HIGHEST_POWER:
            raise InputError("a power of a power that is too large; write another form")
        if number == 0 and power < 0:
            raise InputError("a division by zero: a negative power of 0; correct the base")
        if isinstance(number, Fraction) and number not in (0, 1):
            bits = number.numerator.bit_length() + number.denominator.bit_length()
            if power.denominator > 1 and number < 0:
                raise InputError(f"{number}^({power}) is no real number; correct the base")
            size = float(power) * (math.log10(abs(number.numerator)) - math.log10(number.denominator))
            if bits * abs(power) > MOST_BITS and abs(size) > LARGEST_DECIMAL_EXPONENT:
                raise InputError(f"a power is too {'large' if size > 0 else 'small'}; use other units")
        return self._checked(self.power(base, exponent))

    def compared(self, sign: str, left: int, right: int) -> Condition:
        """A comparison."""
        if right in self.numbers:  # Of a choice of numbers it is a choice of what is certain.
            tests, cases, rest = list[Condition](), list[Condition](), left
            while self.op[rest] is Op.SELECT and self.args[rest][1] in self.numbers:
                test, value, rest = self.args[rest]
                tests.append(Condition(test))
                cases.append(self.compared(sign, value, right))
            if cases and (rest in self.numbers or is_truth(self, rest)):
                holds: Condition = self.choice([*tests, TRUE], [*cases, self.compared(sign, rest, right)])
                return holds
        if sign in (">", ">="):
            return self.compared("<" if sign == ">" else "<=", right, left)
        if sign in ("==", "<>"):
            equal = Condition(self.mul(self.call(Op.LE, left, right), self.call(Op.LE, right, left)))
            return equal if sign == "==" else self.opposite(equal)
        return Condition(self.call(Op.LT if sign == "<" else Op.LE, left, right))

    def near(self, value: int, first: int, last: int | None = None) -> Condition:
        """The condition that a value, an integer but for rounding, is a number, or from one to another."""
        low, high = Fraction(2 * first - 1, 2), Fraction(2 * (last or first) + 1, 2)
        within = self.compared(">", value, self.constant(low)), self.compared("<", value, self.constant(high))
        return self.joined(True, within)

    def joined(self, every: bool, conditions: Iterable[Condition]) -> Condition:
        """The conjunction of conditions if ``every``, else the disjunction."""
        if every:
            return Condition(self.mul(*(condition.node for condition in conditions)))
        return self.opposite(self.joined(True, map(self.opposite, conditions)))

    def opposite(self, condition: Condition) -> Condition:
        """The negation of a condition."""
        return Condition(opposite(self, condition.node))

    def conditional(self, test: Condition, holds: Condition, otherwise: Condition) -> Condition:
        """The condition ``holds`` where ``test`` holds, else the condition ``otherwise``."""
        if holds == otherwise:
            return holds
        ways = self.joined(True, [test, holds]), self.joined(True, [self.opposite(test), otherwise])
        return self.joined(False, ways)

    def choice(self, tests: Sequence[Condition], values: Sequence[Any]) -> Any:
        """The number or condition of the first case whose condition holds, of which the last one is true."""
        value = values[-1]
        for test, before in zip(tests[-2::-1], values[-2::-1], strict=True):
            if isinstance(before, Condition):
                value = self.conditional(test, before, value)
            else:
                value = self.call(Op.SELECT, test.node, before, value)
        return value

    def chosen(self, tests: Sequence[Condition], values: Sequence[Value]) -> Value:
        """The value of the first case whose condition holds, element by element."""

        def choose(*numbers: Any) -> Any:
            are_conditions = all(isinstance(number, Condition) for number in numbers)
            return self.choice(tests, numbers if are_conditions else [*map(scalar, numbers)])

        is_same = all(value == values[0] for value in values)
        return values[0] if is_same else together(choose, values, "choice")

    def replaced(self, value: Any, places: Mapping[int, int]) -> Any:
        """An expression or condition with other nodes in the places of some."""
        if isinstance(value, Condition):
            return Condition(*self.substitute([value.node], places))
        return self.substitute([value], places)[0]

    def product(self, factors: Sequence[Value]) -> Value:
        """The product of numbers, vectors and matrices."""
        if not any(isinstance(factor, list) for factor in factors):
            return self.times(map(scalar, factors))
        return reduce(self._product_of_arrays, factors)

    def _product_of_arrays(self, a: Value, b: Value) -> Value:
        if not isinstance(a, list) or not isinstance(b, list):
            array, number = (a, scalar(b)) if isinstance(a, list) else (b, scalar(a))
            return each(lambda element: self.times([element, number]), array)
        if not a or isinstance(a[0], list):
            return [self._product_of_vector(row, b) for row in a]
        return self._product_of_vector(a, b)

    def _product_of_vector(self, a: list[Any], b: list[Any]) -> Value:
        if len(a) != len(b):
            raise InputError("arrays are multiplied whose sizes do not fit")
        if b and isinstance(b[0], list):
            return [self._product_of_vector(a, [row[k] for row in b]) for k in range(len(b[0]))]
        return self.plus([self.times([scalar(x), scalar(y)]) for x, y in zip(a, b, strict=True)])


_SEVERAL: Final = frozenset({Op.ADD, Op.MUL, Op.MIN, Op.MAX})
_ARCS: Final = "sin cos tan sinh cosh tanh".split()
# Functions of numbers by name, each with the number of its arguments.
FUNCTIONS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    **{name: (1, methodcaller(name)) for name in (*_ARCS, *"exp log log10 sign sqrt floor ceil".split())},
    **{f"{word}{name}": (1, methodcaller(f"arc{name}")) for name in _ARCS for word in ("a", "arc")},
    **{"ln": (1, methodcaller("log")), "signum": (1, methodcaller("sign")), "abs": (1, abs)},
    **{"integer": (1, methodcaller("floor")), "atan2": (2, np.arctan2), "mod": (2, operator.mod)},
}
# Constants of ``Modelica.Constants`` beside those that a text gives their numbers.
CONSTANTS: Final = ("pi", "e")
MOST_ELEMENTS: Final = 50_000  # Most elements of an array, and most turns of a loop.


def scalar(value: Value) -> int:
    """The value itself if it is one number, or an array of one; raises :class:`InputError` otherwise."""
    while isinstance(value, list):
        if len(value) != 1:
            raise InputError(f"an array of {len(value)} where one number is expected; add a subscript")
        value = value[0]
    if isinstance(value, dict):
        raise InputError("a record where a number is expected; write one of its parts")
    if isinstance(value, str):
        raise InputError("a string where a number is expected")
    if isinstance(value, Condition):
        raise InputError("a condition where a number is expected; write if CONDITION then 1 else 0")
    number: int = value
    return number


def elements(value: Value) -> list[Value]:
    """All elements of an array, in the order of Modelica, the last subscript fastest."""
    if not isinstance(value, list):
        return [value]
    return [element for part in value for element in elements(part)]


def sizes(value: Value) -> list[int]:
    """The sizes of an array by dimension; an empty list for a number."""
    return [len(value), *sizes(value[0] if value else None)] if isinstance(value, list) else []


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


def work_of(a: Value, b: Value) -> int:
    """Number of products of numbers in the product of two numbers or arrays."""
    shared = len(b) if isinstance(a, list) and isinstance(b, list) else 1
    return math.prod([*sizes(a), *sizes(b)]) // max(shared, 1)


def filled(value: Value, counts: list[int]) -> Value:
    """An array of the sizes ``counts`` with equal elements."""
    if not counts or min(counts) < 0 or math.prod(counts) > MOST_ELEMENTS:
        raise InputError(f"an array of the sizes {counts}; at most {MOST_ELEMENTS} elements are read")
    for count in reversed(counts):
        value = [value] * count
    return value


def as_matrix(value: Value) -> list[list[Value]]:
    """A number or a vector as a matrix of one column; a matrix itself."""
    rows = value if isinstance(value, list) else [value]
    return [row if isinstance(row, list) else [row] for row in rows]


def joined_along(dimension: int, arrays: Sequence[Value]) -> Value:
    """Arrays joined along a dimension, from 1; raises :class:`InputError` if their other sizes differ."""
    if dimension == 1:
        return [part for array in arrays for part in array]
    if len({len(array) for array in arrays}) > 1:
        raise InputError("the parts of a row of a matrix have different heights; give as many rows in each")
    return [joined_along(dimension - 1, parts) for parts in zip(*arrays, strict=True)]
