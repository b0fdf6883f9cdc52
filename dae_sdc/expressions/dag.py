"""Expressions as nodes of a directed acyclic graph, in which equal expressions are one node.

Operations are those of C: numbers are doubles, and nothing raises. Dividing by zero gives infinity or NaN,
and so does a logarithm or a power outside its domain. A condition is a number too, true unless it is 0.

An expression is evaluated at one random point, modulo a prime of 127 bits. Two rational expressions that
differ have the same value there with a probability of about their degree divided by 2^127, so equal values
mean equal expressions. A function that is not rational gets a random value that depends on its operands
alone, chosen such that the identities hold that are needed most: those of odd and even functions,
sin^2 + cos^2 = 1, those of exp and the hyperbolic functions, and those that are linear in a root or in the
branches of a choice.

References
----------
J. T. Schwartz, Fast probabilistic algorithms for verification of polynomial identities, J. ACM 27 (1980) 701.
"""

from __future__ import annotations

import functools
import hashlib
import math
import operator
import re
from collections.abc import Callable, Container, Iterable
from enum import IntEnum
from fractions import Fraction
from numbers import Rational
from typing import Any, Final, NamedTuple

import numpy as np

from dae_sdc.deadline import check
from dae_sdc.errors import InputError


def integer_power(base: Any, exponent: int, product: Callable[[Any, Any], Any] = operator.mul) -> Any:
    """The power of a base with an integer exponent by squaring."""
    result, square, left = None, base, abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else product(result, square)
        left >>= 1
        if left:
            square = product(square, square)
    if result is None:
        return np.ones_like(base)
    return 1.0 / result if exponent < 0 else result


_where: Callable[..., Any] = np.where


class Op(IntEnum):
    """Operations on operands a, b, c."""

    arity: int
    numpy: Callable[..., Any]
    sympy: str

    def __new__(cls, number: int, arity: int = 0, numpy: Any = None, sympy: str = "") -> Op:  # noqa: D102
        op = int.__new__(cls, number)
        op._value_ = number
        op.arity, op.numpy, op.sympy = arity, numpy, sympy
        return op

    CONSTANT = 0
    INPUT = 1
    ADD = 2, 2, np.add, "Add"
    MUL = 3, 2, np.multiply, "Mul"
    NEG = 4, 1, np.negative
    DIV = 5, 2, np.divide
    POW = 6, 2, np.power, "Pow"  # a**b
    INTPOW = 7, 1, integer_power  # a**b with an integer b that is no operand, but stands in its place
    SQRT = 8, 1, np.sqrt
    EXP = 9, 1, np.exp, "exp"
    LOG = 10, 1, np.log, "log"
    SIN = 11, 1, np.sin, "sin"
    COS = 12, 1, np.cos, "cos"
    TAN = 13, 1, np.tan, "tan"
    ASIN = 14, 1, np.arcsin, "asin"
    ACOS = 15, 1, np.arccos, "acos"
    ATAN = 16, 1, np.arctan, "atan"
    ATAN2 = 17, 2, np.arctan2, "atan2"
    SINH = 18, 1, np.sinh, "sinh"
    COSH = 19, 1, np.cosh, "cosh"
    TANH = 20, 1, np.tanh, "tanh"
    ASINH = 21, 1, np.arcsinh, "asinh"
    ACOSH = 22, 1, np.arccosh, "acosh"
    ATANH = 23, 1, np.arctanh, "atanh"
    ABS = 24, 1, np.absolute, "Abs"
    SIGN = 25, 1, np.sign, "sign"  # -1, 0 or 1
    # NaN if one operand is, and b if they are equal, as 0 and -0 are.
    MIN = 26, 2, lambda a, b: _where((a < b) | np.isnan(a), a, b)[()], "Min"
    MAX = 27, 2, lambda a, b: _where((a > b) | np.isnan(a), a, b)[()], "Max"
    FLOOR = 28, 1, np.floor, "floor"
    LT = 29, 2, lambda a, b: np.less(a, b).astype(np.float64), "StrictLessThan"  # 1 if a < b, else 0
    LE = 30, 2, lambda a, b: np.less_equal(a, b).astype(np.float64), "LessThan"
    SELECT = 31, 3, lambda a, b, c: _where(a != 0.0, b, c)[()], "Piecewise"  # b if a is true, else c


# Smooth functions whose names in lower case are those of :mod:`math` and mpmath.
FUNCTIONS: Final = tuple(op for op in Op if Op.EXP <= op <= Op.ATANH)
COMPARISONS: Final = frozenset({Op.LT, Op.LE})
STEPS: Final = COMPARISONS | {Op.SIGN, Op.FLOOR}  # what jumps and is constant between its jumps
CHOICES: Final = frozenset({Op.SELECT, Op.MIN, Op.MAX})
NOT_ANALYTIC: Final = STEPS | CHOICES | {Op.ABS}


class Cost(NamedTuple):
    """Numbers of operations."""

    functions: int = 0
    multiplications: int = 0
    additions: int = 0
    divisions: int = 0


_COSTS = {
    **dict.fromkeys((Op.CONSTANT, Op.INPUT, Op.NEG), Cost()),
    **{Op.ADD: Cost(additions=1), Op.MUL: Cost(multiplications=1), Op.DIV: Cost(divisions=1)},
}


def cost(op: Op, exponent: int = 1) -> Cost:
    """The cost of an operation: a sign is free, an integer power is products, others are functions."""
    if op != Op.INTPOW:
        return _COSTS.get(op, Cost(functions=1))
    size = abs(exponent)
    return Cost(0, max(0, size.bit_length() + size.bit_count() - 2), 0, int(exponent < 0))


_DERIVATIVE = re.compile(r"der\((?P<base>[^,()]+)(?:,\s*(?P<order>\d+))?\)")


def name_of(base: str, order: int) -> str:
    """Name of a derivative of an unknown."""
    if not order:
        return base
    return f"der({base})" if order == 1 else f"der({base}, {order})"


@functools.lru_cache(maxsize=4096)
def name_and_order(name: str) -> tuple[str, int]:
    """The unknown and the order of the derivative that a name such as "der(x, 2)" stands for."""
    match = _DERIVATIVE.fullmatch(name)
    return (match["base"].strip(), int(match["order"] or 1)) if match else (name, 0)


# A prime p of 127 bits; (p - 1) / 2 is prime too, so that powers of no small number repeat themselves.
PRIME: Final = 0x5B03B5B9D20C13CF3A6DDE8DECA58F6F

_LARGEST_POSITIVE = PRIME // 2
_INVERSE_OF_2 = (PRIME + 1) // 2
_ODD = frozenset({Op.ASIN, Op.ATAN, Op.ASINH, Op.ATANH, Op.SIGN})


def random_residue(*parts: object) -> int:
    """A random number of the field that depends on the parts alone."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=24).digest()
    return int.from_bytes(digest, "little") % PRIME


def of_fraction(value: Fraction) -> int:
    """A rational number in the field."""
    if value.denominator == 1:
        return value.numerator % PRIME
    return value.numerator * pow(value.denominator, -1, PRIME) % PRIME


def of_function(op: Op, values: tuple[int, ...]) -> int:
    """The value of an operation that is not arithmetic."""
    a = values[0]
    if op is Op.SELECT:
        return (a * values[1] + (1 - a) * values[2]) % PRIME
    if op in (Op.MIN, Op.MAX):
        low, high = sorted(values)
        chosen = random_residue("max", low, high)
        if op is Op.MIN:
            low, high = high, low
        return (chosen * high + (1 - chosen) * low) % PRIME
    if op is Op.LE:  # a <= b is the contrary of b < a
        return (1 - random_residue(Op.LT.name, values[1], a)) % PRIME
    if len(values) > 1:
        return random_residue(op.name, *values)
    if op is Op.SQRT:
        return root(a, 1, 2)
    if op is Op.ABS:
        return a * of_function(Op.SIGN, values) % PRIME
    if op is Op.ACOS:
        return (random_residue("pi") * _INVERSE_OF_2 - of_function(Op.ASIN, values)) % PRIME
    negative = a > _LARGEST_POSITIVE
    size = PRIME - a if negative else a
    if op in (Op.SIN, Op.COS, Op.TAN):
        half = random_residue("angle", size)
        square = half * half % PRIME
        if op is Op.COS:
            return (1 - square) * pow(1 + square, -1, PRIME) % PRIME
        sine = 2 * half * pow((1 + square) if op is Op.SIN else (1 - square), -1, PRIME) % PRIME
        return PRIME - sine if negative else sine
    if op in (Op.EXP, Op.SINH, Op.COSH, Op.TANH):
        growing = random_residue("exp", size)
        shrinking = pow(growing, -1, PRIME)
        if op is Op.EXP:
            return shrinking if negative else growing
        if op is Op.COSH:
            return (growing + shrinking) * _INVERSE_OF_2 % PRIME
        factor = _INVERSE_OF_2 if op is Op.SINH else pow(growing + shrinking, -1, PRIME)
        odd = (growing - shrinking) * factor % PRIME
        return (PRIME - odd) % PRIME if negative else odd
    if op in _ODD:
        residue = random_residue(op.name, size)
        return PRIME - residue if negative else residue
    return random_residue(op.name, a)


def root(value: int, numerator: int, denominator: int) -> int:
    """The power of ``value`` with a fraction between 0 and 1 as its exponent."""
    return pow(random_residue("root", value, denominator), numerator, PRIME)


CONSTANTS: Final[dict[str, float]] = {"pi": math.pi}  # Numbers that are no fractions, by their names.

TIME, UNKNOWN, PARAMETER, IRRATIONAL = 1, 2, 4, 8
"""Marks of a node: what it depends on as it is written, and whether it has more than arithmetic in it."""

MOVING = TIME | UNKNOWN  # Marks of nodes that may change in time.
NODES_BETWEEN_CHECKS: Final = 256  # New nodes of a graph between two looks at the time.

_KIND_MARKS: Final = {"t": TIME, "u": UNKNOWN, "p": PARAMETER, "c": PARAMETER, "d": PARAMETER}

Roots = dict[tuple[int, int], int]
"""Roots in a product: for a node and the index of a root of it, the power of the root."""


class Leaf(NamedTuple):
    """A leaf of expressions: time, an unknown, a parameter, or one of a few others."""

    # "t" for time, "u" for an unknown or one of its derivatives, "p" for a parameter; "c" and "d" for the
    # coefficient of a Jacobian and an entry of u' of a system of first order; "v" for a part of a written
    # expression that has a name of its own.
    kind: str
    index: int = 0  # type: ignore[assignment]  # tuples have a method of this name, which nobody needs
    order: int = 0  # Which derivative of the unknown.


class Nodes:
    """The nodes of a graph, operands first; an expression whose value a node has already is that node."""

    def __init__(self) -> None:
        self.op: list[Op] = []
        self.args: list[tuple[int, ...]] = []
        self.value: list[int] = []
        self.mark: list[int] = []
        self.numbers: dict[int, Fraction | str] = {}
        self.leaves: dict[int, Leaf] = {}
        self._leaf_nodes: dict[Leaf, int] = {}
        self._known: dict[int, int] = {}
        self._factors: dict[int, Roots] = {}
        self.zero = self.constant(0)
        self.one = self.constant(1)

    def __len__(self) -> int:
        return len(self.op)

    def _new(self, op: Op, args: tuple[int, ...], value: int, mark: int, roots: Roots | None = None) -> int:
        """The node with this value at the random point, made if there is none."""
        known = self._known.get(value)
        if known is not None:
            return known
        if not len(self.op) % NODES_BETWEEN_CHECKS:
            check()
        node = self._known[value] = len(self.op)
        if roots:
            self._factors[node] = roots
        self.op.append(op)
        self.args.append(args)
        self.value.append(value)
        self.mark.append(mark)
        return node

    # Leaves

    def constant(self, number: float | Rational | str) -> int:
        """The node of a number, exactly: a float is its shortest text, a text one of :data:`CONSTANTS`."""
        exact: Fraction | str
        if isinstance(number, str):
            exact = number
        elif isinstance(number, Rational):  # integers too
            exact = Fraction(int(number.numerator), int(number.denominator))
        elif isinstance(number, float) and math.isfinite(number):
            exact = Fraction(repr(float(number)))
        else:
            raise InputError(f"an expression takes finite real numbers; got {number!r}")
        value = random_residue(exact) if isinstance(exact, str) else of_fraction(exact)
        node = self._known.get(value)
        if node is None:
            node = self._new(Op.CONSTANT, (), value, 0)
            self.numbers[node] = exact
        return node

    def leaf(self, leaf: Leaf) -> int:
        """The node of a leaf."""
        node = self._leaf_nodes.get(leaf)
        if node is None:
            node = self._new(Op.INPUT, (), random_residue(*leaf), _KIND_MARKS[leaf.kind])
            self.leaves[node] = leaf
            self._leaf_nodes[leaf] = node
        return node

    def time(self) -> int:
        """The node of time."""
        return self.leaf(Leaf("t"))

    def variable(self, j: Any, k: int = 0) -> int:
        """The node of the k-th derivative of unknown j."""
        return self.leaf(Leaf("u", j, k))

    def parameter(self, i: Any) -> int:
        """The node of parameter i."""
        return self.leaf(Leaf("p", i))

    # Reading

    def operands(self, node: int) -> tuple[int, ...]:
        """The nodes that a node is made of."""
        return self.args[node][:1] if self.op[node] is Op.INTPOW else self.args[node]

    def below(self, nodes: Iterable[int], mark: int = 0, known: Container[int] = ()) -> list[int]:
        """All nodes that some nodes are made of, themselves included, operands first."""
        stack = [node for node in nodes if node not in known and (not mark or self.mark[node] & mark)]
        seen, ops, args = set(stack), self.op, self.args
        while stack:
            node = stack.pop()
            for arg in args[node] if ops[node] is not Op.INTPOW else args[node][:1]:
                if arg not in seen and arg not in known and (not mark or self.mark[arg] & mark):
                    seen.add(arg)
                    stack.append(arg)
        return sorted(seen)

    def leaves_of(self, *nodes: int) -> set[Leaf]:
        """The leaves in some expressions as they are written."""
        return {self.leaves[node] for node in self.below(nodes) if node in self.leaves}

    def jets_of(self, *nodes: int) -> list[tuple[int, int]]:
        """Unknowns and orders of derivatives in some expressions as they are written, sorted."""
        return sorted(leaf[1:] for leaf in self.leaves_of(*nodes) if leaf.kind == "u")
