"""Arithmetic with the nodes of a graph of expressions, their derivatives, and whether they are zero."""

from __future__ import annotations

import functools
import importlib
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import (
    CHOICES,
    CONSTANTS,
    FUNCTIONS,
    IRRATIONAL,
    MOVING,
    NOT_ANALYTIC,
    PARAMETER,
    PRIME,
    STEPS,
    Nodes,
    Op,
    Roots,
    of_function,
    root,
)

# Bits of numerator and denominator beyond which arithmetic with numbers is left to doubles.
LONGEST_FRACTION: Final = 4096

_AT_ZERO: Final[dict[Op, int]] = {
    Op.EXP: 1,
    Op.COS: 1,
    Op.COSH: 1,
    **dict.fromkeys((Op.SQRT, Op.SIN, Op.TAN, Op.ASIN, Op.ATAN, Op.SINH, Op.TANH, Op.ASINH, Op.ATANH), 0),
}


class Expressions(Nodes):
    """Expressions made of others; what is 0 or equal shows by its value at the random point."""

    def __init__(self) -> None:
        super().__init__()
        self._carries: dict[tuple[int, int], tuple[int, int]] = {}
        self._minus_one = self.constant(-1)

    def add(self, *nodes: int) -> int:
        """The sum."""
        return functools.reduce(self._add, nodes) if nodes else self.zero

    def mul(self, *nodes: int) -> int:
        """The product."""
        return functools.reduce(self._mul, nodes) if nodes else self.one

    def sub(self, a: int, b: int) -> int:
        """The difference a - b."""
        return self._add(a, self.neg(b))

    def _add(self, a: int, b: int) -> int:
        if a == self.zero:
            return b
        if b == self.zero:
            return a
        value = (self.value[a] + self.value[b]) % PRIME
        known = self._known.get(value)
        if known is not None:
            return known
        numbers = self.numbers
        if b in numbers:
            a, b = b, a
        if a in numbers:
            folded = self._folded(Op.ADD, a, b)
            if folded is not None:
                return folded
        if a == b:
            return self._mul(self.constant(2), a)
        if self.op[a] is Op.NEG and self.op[b] is Op.NEG:
            return self.neg(self._add(self.args[a][0], self.args[b][0]))
        roots = self._factors.get(a)
        if roots is not None and roots != self._factors.get(b):
            roots = None
        return self._new(Op.ADD, (a, b), value, self.mark[a] | self.mark[b], roots)

    def neg(self, a: int) -> int:
        """The node of -a."""
        if self.op[a] is Op.NEG:
            return self.args[a][0]
        value = -self.value[a] % PRIME
        known = self._known.get(value)
        if known is not None:
            return known
        number = self.numbers.get(a)
        if isinstance(number, Fraction):
            return self.constant(-number)
        if self.op[a] is Op.MUL and isinstance(self.numbers.get(self.args[a][0]), Fraction):
            factor, rest = self.args[a]
            return self._mul(self.neg(factor), rest)
        return self._new(Op.NEG, (a,), value, self.mark[a], self._factors.get(a))

    def _mul(self, a: int, b: int) -> int:
        if a == self.one:
            return b
        if b == self.one:
            return a
        value = self.value[a] * self.value[b] % PRIME
        roots: Roots | None = None
        if self._factors and (a in self._factors or b in self._factors):
            value, roots = self._joined(value, self._factors.get(a), self._factors.get(b))
        known = self._known.get(value)
        if known is not None:
            return known
        op, args, numbers = self.op, self.args, self.numbers
        if b in numbers and not isinstance(numbers.get(a), Fraction):  # rational numbers before pi
            a, b = b, a
        if a in numbers:
            folded = self._folded(Op.MUL, a, b)
            if folded is not None:
                return folded
            if a == self._minus_one:
                return self.neg(b)
            if op[b] is Op.NEG:
                if isinstance(numbers[a], Fraction):
                    return self._mul(self.neg(a), args[b][0])
                return self.neg(self._mul(a, args[b][0]))
        elif op[a] is Op.NEG:
            return self.neg(self._mul(args[a][0], b))
        elif op[b] is Op.NEG:
            return self.neg(self._mul(a, args[b][0]))
        elif op[a] is Op.MUL and args[a][0] in numbers:  # numbers go to the front, where they meet
            return self._mul(args[a][0], self._mul(args[a][1], b))
        elif op[b] is Op.MUL and args[b][0] in numbers:
            return self._mul(args[b][0], self._mul(a, args[b][1]))
        if a == b:
            return self.integer_power(a, 2)
        (base, m), (other, n) = self._base(a), self._base(b)
        if base == other:
            return self.integer_power(base, m + n)
        return self._new(Op.MUL, (a, b), value, self.mark[a] | self.mark[b], roots)

    # The value of a root r of s, with r^q = s, is a random number, and its q-th power is not the value of s.
    # So products know which roots are in them, and replace r^q by s in their values.

    def _joined(self, value: int, first: Roots | None, second: Roots | None) -> tuple[int, Roots]:
        """The value of a product with r^q replaced by s, and the roots that are left in it."""
        powers = dict(first or {})
        for key, power in (second or {}).items():
            powers[key] = powers.get(key, 0) + power
        left: Roots = {}
        for key, power in powers.items():
            whole, rest = divmod(power, key[1])
            if whole:
                value = value * pow(self._carry(key)[whole < 0], abs(whole), PRIME) % PRIME
            if rest:
                left[key] = rest
        return value, left

    def _carry(self, key: tuple[int, int]) -> tuple[int, int]:
        """Factor of the value of a product in which s replaces r^q, and its inverse."""
        known = self._carries.get(key)
        if known is None:
            node, q = key
            factor = self.value[node] * pow(root(self.value[node], q, q), -1, PRIME) % PRIME
            known = self._carries[key] = factor, pow(factor, -1, PRIME)
        return known

    def _base(self, node: int) -> tuple[int, int]:
        if self.op[node] is Op.INTPOW:
            base, exponent = self.args[node]
            return base, exponent
        return node, 1

    def _folded(self, op: Op, a: int, b: int) -> int | None:
        """The sum or product of a number and b, which may begin with a number; None if they stay apart."""
        rest: int | None = None
        if b not in self.numbers and self.op[b] is op:
            b, rest = self.args[b]
        first, second = self.numbers[a], self.numbers.get(b)
        if not isinstance(first, Fraction) or not isinstance(second, Fraction):
            return None
        folded = self._short(first + second if op is Op.ADD else first * second)
        if folded is None or rest is None:
            return folded
        return (self._add if op is Op.ADD else self._mul)(folded, rest)

    def _short(self, number: Fraction) -> int | None:
        if number.numerator.bit_length() + number.denominator.bit_length() > LONGEST_FRACTION:
            return None
        return self.constant(number)

    def div(self, a: int, b: int) -> int:
        """The quotient a / b; raises InputError where b is always 0."""
        if b == self.zero:
            raise InputError("an expression divides by something that is always 0")
        if b == self.one:
            return a
        divisor = self.numbers.get(b)
        if isinstance(divisor, Fraction):
            return self._mul(self.constant(1 / divisor), a)
        value = self.value[a] * pow(self.value[b], -1, PRIME) % PRIME
        roots: Roots | None = None
        if self._factors and (a in self._factors or b in self._factors):
            inverse = {key: -power for key, power in self._factors.get(b, {}).items()}
            value, roots = self._joined(value, self._factors.get(a), inverse)
        known = self._known.get(value)
        if known is not None:
            return known
        op, args = self.op, self.args
        if op[a] is Op.NEG:
            return self.neg(self.div(args[a][0], b))
        if op[b] is Op.NEG:
            return self.neg(self.div(a, args[b][0]))
        if op[a] is Op.DIV:
            return self.div(args[a][0], self._mul(args[a][1], b))
        if op[b] is Op.DIV:
            return self.div(self._mul(a, args[b][1]), args[b][0])
        return self._new(Op.DIV, (a, b), value, self.mark[a] | self.mark[b], roots)

    def integer_power(self, a: int, n: int) -> int:
        """The power of a with an integer exponent."""
        if n < 0:
            return self.div(self.one, self.integer_power(a, -n))
        if n < 2:
            return a if n else self.one
        value = pow(self.value[a], n, PRIME)
        roots: Roots | None = None
        if a in self._factors:
            value, roots = self._joined(
                value, {key: n * power for key, power in self._factors[a].items()}, None
            )
        known = self._known.get(value)
        if known is not None:
            return known
        number = self.numbers.get(a)
        if isinstance(number, Fraction) and n <= LONGEST_FRACTION:
            folded = self._short(number**n)
            if folded is not None:
                return folded
        op, args = self.op[a], self.args[a]
        if op is Op.NEG:
            power = self.integer_power(args[0], n)
            return self.neg(power) if n % 2 else power
        if op is Op.INTPOW:
            return self.integer_power(args[0], args[1] * n)
        if op is Op.SQRT:
            return self._mul(self.integer_power(args[0], n // 2), a if n % 2 else self.one)
        if op is Op.POW:
            exponent = self.numbers.get(args[1])
            if isinstance(exponent, Fraction):
                return self.power(args[0], self.constant(exponent * n))
        return self._new(Op.INTPOW, (a, n), value, self.mark[a], roots)

    def power(self, a: int, exponent: int) -> int:
        """The power of a, with a node as its exponent."""
        number = self.numbers.get(exponent)
        if not isinstance(number, Fraction):
            if a == self.one:
                return a
            return self._function(Op.POW, (a, exponent))
        whole, part = divmod(number, 1)
        base = self.integer_power(a, int(whole))
        if part == 0:
            return base
        return self._mul(base, self._root(a, part))

    def _root(self, a: int, part: Fraction) -> int:
        """a to the power of a fraction between 0 and 1."""
        number = self.numbers.get(a)
        if a in (self.zero, self.one):
            return a
        if isinstance(number, Fraction) and part.denominator == 2 and number > 0:
            over, under = math.isqrt(number.numerator), math.isqrt(number.denominator)
            if Fraction(over * over, under * under) == number:
                return self.constant(Fraction(over, under))
        value = root(self.value[a], part.numerator, part.denominator)
        known = self._known.get(value)
        if known is not None:
            return known
        mark, roots = self.mark[a] | IRRATIONAL, {(a, part.denominator): part.numerator}
        if part.denominator == 2:
            return self._new(Op.SQRT, (a,), value, mark, roots)
        return self._new(Op.POW, (a, self.constant(part)), value, mark, roots)

    # Functions

    def call(self, op: Op, *args: int) -> int:
        """Any operation with nodes as its operands; the second one of INTPOW is its exponent."""
        arithmetic = _ARITHMETIC.get(op)
        if arithmetic is not None:
            return arithmetic(self, *args)
        if op is Op.SQRT:
            return self._root(args[0], Fraction(1, 2))
        special = self._special(op, args)
        return self._function(op, args) if special is None else special

    def _special(self, op: Op, args: tuple[int, ...]) -> int | None:
        """The result of an operation on 0 or 1, on numbers it compares, or on equal operands; else None."""
        a = args[0]
        if op is Op.SELECT:
            if args[1] == args[2]:
                return args[1]
            condition = self.numbers.get(a)
            return None if condition is None else args[1 if condition != 0 else 2]
        if op is Op.LOG and a == self.one:
            return self.zero
        if a == self.zero and op in _AT_ZERO:
            return self.constant(_AT_ZERO[op])
        if a == args[-1] and op in (Op.MIN, Op.MAX, Op.LT, Op.LE):
            return a if op in (Op.MIN, Op.MAX) else self.constant(int(op is Op.LE))
        values = [self.numbers.get(arg) for arg in args]
        if op not in NOT_ANALYTIC or None in values:
            return None
        first, *others = (
            Fraction(CONSTANTS[v]) if isinstance(v, str) else v for v in values if v is not None
        )
        if op in (Op.ABS, Op.SIGN, Op.FLOOR):
            if isinstance(values[0], str):
                return None
            sign = (first > 0) - (first < 0)
            return self.constant(abs(first) if op is Op.ABS else sign if op is Op.SIGN else math.floor(first))
        if op in (Op.MIN, Op.MAX):
            return args[int((others[0] < first) == (op is Op.MIN))]
        return self.constant(int(first < others[0] or (op is Op.LE and first == others[0])))

    def _function(self, op: Op, args: tuple[int, ...]) -> int:
        value = of_function(op, tuple([self.value[arg] for arg in args]))
        mark = IRRATIONAL
        for arg in args:
            mark |= self.mark[arg]
        return self._new(op, args, value, mark)


_ARITHMETIC: Final[dict[Op, Callable[..., int]]] = {
    Op.ADD: Expressions.add,
    Op.MUL: Expressions.mul,
    Op.NEG: Expressions.neg,
    Op.DIV: Expressions.div,
    Op.INTPOW: Expressions.integer_power,
    Op.POW: Expressions.power,
}


ZERO_TEST_DIGITS: Final = 60  # Decimal digits of the values.
# Size of a sum relative to its largest term below which the sum counts as 0.
ZERO_SUM_TOLERANCE: Final = 1e-30
# Size of a function's operand above which the value of the function is unknown, NaN.
LARGEST_OPERAND: Final = 1e6
# Size of the operand of tanh above which 1 - tanh^2, its derivative, would count as 0.
LARGEST_OF_TANH: Final = 30.0

_ZERO_TEST_POINTS: Final = 2


class Digits:
    """Values of the nodes of a graph at two random points, at which the leaves have opposite signs."""

    # So sqrt(x^2) - x, which is 0 only where x is positive, is not taken for 0. The value of an operation
    # that jumps or has a kink is a random number, or a random mean of its branches: none is overlooked.

    def __init__(self, expressions: Nodes) -> None:
        mpmath: Any = importlib.import_module("mpmath")
        self._context = mpmath.mp.clone()
        self._context.dps = ZERO_TEST_DIGITS
        self._expressions = expressions
        self._values: dict[int, tuple[Any, ...]] = {}
        self._functions = _functions(self._context)

    def is_zero(self, node: int) -> bool:
        """Whether a node is 0 at both points."""
        return all(value == 0 for value in self._at(node))

    def _at(self, root: int) -> tuple[Any, ...]:
        values, expressions = self._values, self._expressions
        for node in expressions.below([root], known=values):
            leaf, points = expressions.leaves.get(node), range(_ZERO_TEST_POINTS)
            if leaf is None:
                values[node] = tuple(self._apply(node, point) for point in points)
            else:
                sign = random.Random(repr(leaf)).choice((-1, 1))
                values[node] = tuple(sign * (-1) ** point * self._number((leaf, point)) for point in points)
        return values[root]

    def _apply(self, node: int, point: int) -> Any:
        expressions, context = self._expressions, self._context
        op, args = expressions.op[node], expressions.args[node]
        number = expressions.numbers.get(node)
        if isinstance(number, str):
            return context.pi if number == "pi" else context.mpf(CONSTANTS[number])
        if number is not None:
            return context.mpf(number.numerator) / number.denominator
        operands = [self._values[arg][point] for arg in expressions.operands(node)]
        if op in NOT_ANALYTIC:
            share = operands[0] if op is Op.SELECT else self._number(expressions.value[node])
            if op is Op.ABS:
                return share * operands[0]
            if op in (Op.SELECT, Op.MIN, Op.MAX):
                return share * operands[-2] + (1 - share) * operands[-1]
            return share
        try:
            if op is Op.ADD:
                total = operands[0] + operands[1]
                largest = max(abs(operands[0]), abs(operands[1]))
                return context.mpf(0) if abs(total) <= ZERO_SUM_TOLERANCE * largest else total
            if op is Op.INTPOW:
                return operands[0] ** args[1]
            most = LARGEST_OF_TANH if op is Op.TANH else LARGEST_OPERAND
            if op >= Op.POW and op is not Op.SQRT and not abs(operands[0]) < most:
                return context.nan
            return self._functions[op](*operands)
        except (ArithmeticError, ValueError):
            return context.nan

    def _number(self, seed: object) -> Any:
        source = random.Random(repr(seed))
        return self._context.mpf(source.getrandbits(200)) / 2**200 * 0.6 + 0.3


def _functions(context: Any) -> dict[Op, Callable[..., Any]]:
    """The operations on numbers with many digits, which are complex where they must be."""

    def atan2(y: Any, x: Any) -> Any:
        # This analytic function has the derivatives of atan2, and takes complex operands too.
        return -1j * context.log((x + 1j * y) / context.sqrt(x * x + y * y))

    return {
        **{op: getattr(context, op.name.lower()) for op in (Op.SQRT, *FUNCTIONS) if op is not Op.ATAN2},
        Op.MUL: lambda a, b: a * b,
        Op.NEG: lambda a: -a,
        Op.DIV: lambda a, b: a / b,
        Op.POW: context.power,
        Op.ATAN2: atan2,
    }


_ZERO_WITH_FIRST: Final = frozenset({Op.NEG, Op.DIV, Op.INTPOW, Op.SQRT, Op.ABS, Op.SINH, Op.ATAN, Op.ASINH})
_NEVER_ZERO: Final = frozenset({Op.EXP, Op.COSH, Op.INPUT, Op.CONSTANT})

# ``outer`` times the derivative of a function f(a) of one operand, by the arithmetic of g.
TIMES_SLOPE: Final[dict[Op, Callable[[Any, Any, Any, Any], Any]]] = {
    Op.SQRT: lambda g, a, f, outer: g.div(outer, g.mul(g.constant(2), f)),
    Op.EXP: lambda g, a, f, outer: g.mul(outer, f),
    Op.LOG: lambda g, a, f, outer: g.div(outer, a),
    Op.SIN: lambda g, a, f, outer: g.mul(outer, g.call(Op.COS, a)),
    Op.COS: lambda g, a, f, outer: g.neg(g.mul(outer, g.call(Op.SIN, a))),
    Op.TAN: lambda g, a, f, outer: g.mul(outer, g.add(g.one, g.integer_power(f, 2))),
    Op.SINH: lambda g, a, f, outer: g.mul(outer, g.call(Op.COSH, a)),
    Op.COSH: lambda g, a, f, outer: g.mul(outer, g.call(Op.SINH, a)),
    Op.TANH: lambda g, a, f, outer: g.mul(outer, g.sub(g.one, g.integer_power(f, 2))),
    Op.ABS: lambda g, a, f, outer: g.mul(outer, g.call(Op.SIGN, a)),
    Op.ATAN: lambda g, a, f, outer: g.div(outer, g.add(g.one, g.integer_power(a, 2))),
    Op.ATANH: lambda g, a, f, outer: g.div(outer, g.sub(g.one, g.integer_power(a, 2))),
    Op.ASIN: lambda g, a, f, outer: g.div(outer, g.call(Op.SQRT, g.sub(g.one, g.integer_power(a, 2)))),
    Op.ACOS: lambda g, a, f, outer: g.neg(TIMES_SLOPE[Op.ASIN](g, a, f, outer)),
    Op.ASINH: lambda g, a, f, outer: g.div(outer, g.call(Op.SQRT, g.add(g.integer_power(a, 2), g.one))),
    Op.ACOSH: lambda g, a, f, outer: g.div(
        outer, g.call(Op.SQRT, g.add(g.integer_power(a, 2), g.constant(-1)))
    ),
}


class Derivatives(Expressions):
    """Expressions that are differentiated."""

    def __init__(self) -> None:
        super().__init__()
        self.remembered: dict[Any, Any] = {}
        self._gradients: dict[tuple[int, int], dict[int, int]] = {}
        self._totals: dict[int, int] = {}
        self._slopes: dict[int, dict[tuple[int, int], int]] = {}
        self._digits: Digits | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Numbers of many digits cannot be pickled.
        return {**self.__dict__, "_digits": None, "remembered": {}}

    # What is zero, and what depends on what

    def is_zero(self, node: int) -> bool:
        """Whether an expression is 0 for all leaves; with more than arithmetic, by :class:`Digits`."""
        stack = [node]
        while stack:
            node = stack.pop()
            if node == self.zero:
                return True
            if not self.mark[node] & IRRATIONAL:
                continue
            op = self.op[node]
            if op is Op.MUL:
                stack.extend(self.args[node])
            elif op in _ZERO_WITH_FIRST:
                stack.append(self.args[node][0])
            elif op not in _NEVER_ZERO:
                if self._digits is None:
                    self._digits = Digits(self)
                if self._digits.is_zero(node):
                    return True
        return False

    def depends(self, node: int) -> set[tuple[int, int]]:
        """Unknowns and orders of derivatives on which an expression truly depends."""
        return set(self.slopes(node))

    def slopes(self, node: int) -> dict[tuple[int, int], int]:
        """The partial derivatives that are not 0, by unknowns and orders of their derivatives."""
        if node not in self._slopes:
            slopes = ((self.leaves[leaf], slope) for leaf, slope in self.gradient(node).items())
            self._slopes[node] = {leaf[1:]: slope for leaf, slope in slopes if leaf.kind == "u"}
        return self._slopes[node]

    def leading_slopes(self, roots: Sequence[int], c: Any, d: Any) -> dict[tuple[int, int], int]:
        r"""The entries :math:`\partial f_i / \partial x_j^{(d_j - c_i)}` of the system Jacobian."""
        return {
            (i, j): slope
            for i, root in enumerate(roots)
            for (j, k), slope in sorted(self.slopes(root).items())
            if k == d[j] - c[i]
        }

    # Derivatives

    def gradient(self, node: int, parameters: bool = False) -> dict[int, int]:
        """All partial derivatives that are not 0, by the nodes of the leaves."""
        return self._gradient(node, MOVING | PARAMETER if parameters else MOVING)

    def differentiate(self, node: int, leaf: int) -> int:
        """The partial derivative with respect to a leaf."""
        return self.gradient(node, self.leaves[leaf].kind == "p").get(leaf, self.zero)

    def _gradient(self, root: int, mark: int) -> dict[int, int]:
        known = self._gradients.get((root, mark))
        if known is None:
            # Innermost choices first, so that nested ones do not fill Python's stack.
            for node in (*self._chosen_below(root, mark), root):
                known = self._gradients[node, mark] = self._swept(node, mark)
        assert known is not None
        return known

    def _chosen_below(self, root: int, mark: int) -> list[int]:
        """Branches of choices whose gradients are not known, each after those that it needs."""
        stack, seen = [root], {root}
        branches: set[int] = set()
        while stack:
            node = stack.pop()
            operands = self.operands(node)
            if self.op[node] in CHOICES:
                operands = self._branches(node)[1:]
                branches.update(arg for arg in operands if (arg, mark) not in self._gradients)
            for arg in operands:
                if self.mark[arg] & mark and arg not in seen and (arg, mark) not in self._gradients:
                    seen.add(arg)
                    stack.append(arg)
        return sorted(branches - {root})

    def _swept(self, root: int, mark: int) -> dict[int, int]:
        """The gradient by one pass from an expression down to its leaves."""
        leaves = self.leaves
        found: dict[int, int] = {}
        if not self.mark[root] & mark:
            return found
        adjoint: dict[int, int] = {root: self.one}
        for node in reversed(self._region(root, mark)):
            outer = adjoint.pop(node, self.zero)
            if outer == self.zero:
                continue
            if node in leaves:
                if not self.is_zero(outer):
                    found[node] = outer
                continue
            if self.op[node] in CHOICES:
                parts = self._chosen(node, outer, mark)
            else:
                parts = self._partials(node, outer)
            for arg, part in parts:
                before = adjoint.get(arg)
                adjoint[arg] = part if before is None else self._add(before, part)
        return found

    def _region(self, root: int, mark: int) -> list[int]:
        """Nodes that a pass visits; the branches of choices are differentiated by themselves."""
        stack, seen = [root], {root}
        ends: set[int] = set()
        while stack:
            node = stack.pop()
            if self.op[node] in CHOICES:
                for branch in self._branches(node)[1:]:
                    ends.update(self._gradient(branch, mark))
                continue
            for arg in self.operands(node):
                if self.mark[arg] & mark and arg not in seen:
                    seen.add(arg)
                    stack.append(arg)
        return sorted(seen | ends)

    def _branches(self, node: int) -> tuple[int, int, int]:
        """A choice as condition, value if it is true, value if it is false."""
        args = self.args[node]
        if self.op[node] is Op.SELECT:
            return args[0], args[1], args[2]
        first, second = args if self.op[node] is Op.MIN else args[::-1]
        return self._function(Op.LE, (args[0], args[1])), first, second

    def _chosen(self, node: int, outer: int, mark: int) -> list[tuple[int, int]]:
        # A branch that is not taken may be undefined: its derivative is chosen away, and not multiplied by 0.
        condition, first, second = self._branches(node)
        one, other = self._gradient(first, mark), self._gradient(second, mark)
        slopes = [
            (leaf, self.call(Op.SELECT, condition, one.get(leaf, self.zero), other.get(leaf, self.zero)))
            for leaf in sorted({*one, *other})
        ]
        return [(leaf, self._mul(outer, slope)) for leaf, slope in slopes]

    def _partials(self, node: int, outer: int) -> list[tuple[int, int]]:
        """Derivatives with respect to the operands of a node, given ``outer``, the one with respect to it."""
        op, args = self.op[node], self.args[node]
        if op is Op.ADD:
            return [(args[0], outer), (args[1], outer)]
        if op is Op.MUL:
            return [(args[0], self._mul(outer, args[1])), (args[1], self._mul(outer, args[0]))]
        if op is Op.NEG:
            return [(args[0], self.neg(outer))]
        if op is Op.DIV:
            over = self.div(outer, args[1])
            return [(args[0], over), (args[1], self.neg(self._mul(over, node)))]
        if op is Op.POW and args[1] not in self.numbers:
            slope = self.mul(outer, args[1], self.power(args[0], self._add(args[1], self._minus_one)))
            return [(args[0], slope), (args[1], self.mul(outer, node, self.call(Op.LOG, args[0])))]
        if op is Op.ATAN2:
            y, x = args
            over = self.div(outer, self._add(self.integer_power(x, 2), self.integer_power(y, 2)))
            return [(y, self._mul(over, x)), (x, self.neg(self._mul(over, y)))]
        if op in STEPS:
            return []
        return [(args[0], self._times_slope(node, outer))]

    def _times_slope(self, node: int, outer: int) -> int:
        op, a = self.op[node], self.args[node][0]
        if op is Op.INTPOW:
            n = self.args[node][1]
            return self.mul(self.constant(n), outer, self.integer_power(a, n - 1))
        if op is Op.POW:
            exponent = self.args[node][1]
            return self.mul(exponent, outer, self.power(a, self._add(exponent, self._minus_one)))
        return int(TIMES_SLOPE[op](self, a, node, outer))

    def total_derivative(self, node: int, order: int = 1) -> int:
        """The derivative with respect to time, in which unknowns are functions of time."""
        for _ in range(order):
            node = self._total(node)
        return node

    def _total(self, root: int) -> int:
        totals = self._totals
        stack = [root]
        while stack:
            node = stack[-1]
            if node in totals:
                stack.pop()
                continue
            if not self.mark[node] & MOVING:
                totals[node] = self.zero
                continue
            leaf = self.leaves.get(node)
            if leaf is not None:
                totals[node] = self.one if leaf.kind == "t" else self.variable(leaf.index, leaf.order + 1)
                continue
            branches = self.operands(node)
            if self.op[node] in CHOICES:
                branches = self._branches(node)[1:]
            missing = [arg for arg in branches if arg not in totals]
            if missing:
                stack.extend(missing)
                continue
            if self.op[node] in CHOICES:
                rates = [totals[branch] for branch in branches]
                totals[node] = self.call(Op.SELECT, self._branches(node)[0], *rates)
            else:
                totals[node] = self._rate(node)
        return totals[root]

    def _rate(self, node: int) -> int:
        op, args, totals = self.op[node], self.args[node], self._totals
        if op is Op.DIV:
            change = self.sub(totals[args[0]], self._mul(node, totals[args[1]]))
            return self.div(change, args[1])
        rates = {arg: totals[arg] for arg in self.operands(node)}
        if all(rate == self.zero for rate in rates.values()):
            return self.zero
        if op is Op.MUL:
            return self._add(self._mul(rates[args[0]], args[1]), self._mul(args[0], rates[args[1]]))
        if len(self.operands(node)) == 1:
            return self.add(*(part for _, part in self._partials(node, rates[args[0]])))
        parts = self._partials(node, self.one)
        return self.add(*(self._mul(rates[arg], part) for arg, part in parts if rates[arg] != self.zero))
