"""Arithmetic with the nodes of a graph of expressions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import CONSTANTS, IRRATIONAL, PRIME, Nodes, Op, Roots, of_function, root

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
        found = self._special(op, args)
        return self._function(op, args) if found is None else found

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
        if op not in (Op.ABS, Op.SIGN, Op.FLOOR, Op.MIN, Op.MAX, Op.LT, Op.LE) or None in values:
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
