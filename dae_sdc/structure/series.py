"""Expressions on truncated power series over a finite field, with their partial derivatives.

Ranks found in this arithmetic are those at a generic point, without tolerances. Functions beyond arithmetic
have the values there that the graph of expressions gives them, and obey their differential equations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dae_sdc.expressions.operations import Op
from dae_sdc.expressions.residues import PRIME, of_function, random_residue

if TYPE_CHECKING:
    from dae_sdc.expressions.arithmetic import Expressions

Series: TypeAlias = list[int]
"""Coefficients of powers of h from 0 on; those at the end that vanish may be missing."""

Partials: TypeAlias = dict[tuple[int, int], Series]
"""Derivatives by unknown j, differentiated k times."""


class NoValueError(ArithmeticError):
    """An expression divides by something that is 0 at the random point."""


def _is_one(number: int) -> bool:
    return type(number) is int and number == 1  # not an array, of which many are compared at once


class Arithmetic:
    """Power series in h up to h^order modulo the prime of the graph of expressions.

    Parameters
    ----------
    order : int
        Highest power that is kept.
    point : int
        Which of many random points series start from.
    exact_roots : bool
        Whether a square root that the field does not have ends the evaluation; else it is that of a
        constant multiple, which obeys the same differential equation.
    """

    half = (PRIME + 1) // 2

    def __init__(self, order: int, point: int = 0, exact_roots: bool = False) -> None:
        self.order, self.point, self.exact_roots = order, point, exact_roots
        self._inverses = [0, *(pow(k, -1, PRIME) for k in range(1, order + 1))]

    def reduced(self, value: int) -> int:
        """A number as it is kept: its residue."""
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
        """The sum of a constant and a square with a sign."""
        return self.add([self.reduced(constant)], self.scale(self.mul(a, a), self.reduced(sign)))

    def root(self, a: int) -> int:
        """The square root of a number, or of a multiple of it."""
        found = pow(a, (PRIME + 1) // 4, PRIME)  # the prime is 3 modulo 4
        if found == 0 or (self.exact_roots and found * found % PRIME != a % PRIME):
            raise NoValueError
        return found

    def fractional(self, a: Series, exponent: int, start: int) -> Series:
        """a to the power of a number that is an element of the field."""
        return self.linear(self.mul(self.scale(self.inverse(a), exponent), self.derivative(a)), start)

    def function(self, op: Op, *values: int) -> int:
        """The value of an operation beyond arithmetic."""
        return random_residue(op.name, *values) if op is Op.POW else of_function(op, values)

    def reciprocal(self, a: int) -> int:
        """1 / a for a number."""
        if a == 0:
            raise NoValueError
        return pow(a, -1, PRIME)

    def choose(self, first: int, a: Series, b: Series) -> tuple[Series, list[Series]]:
        """A combination of a and b that stands for the unknown branch, and its derivatives by them."""
        second = (1 - first) % PRIME
        return self.add(self.scale(a, first), self.scale(b, second)), [[first], [second]]


RANDOM_POINTS = 5
"""Random points that are tried until all square roots exist."""


def evaluate(
    graph: Expressions, roots: Iterable[int], order: int, tries: int = RANDOM_POINTS
) -> list[tuple[Series, Partials]]:
    """Values and derivatives of expressions along a random curve, t = t_0 + h.

    Parameters
    ----------
    graph : Expressions
        Where the expressions are.
    roots : iterable of int
        Nodes.
    order : int
        Highest power of h.
    tries : int
        Random points that are tried until all square roots exist; at the last one those of constant multiples
        are taken instead.

    Returns
    -------
    list of (Series, Partials)
        For each root its value and its derivatives by x_j^(k), where they do not vanish.

    Raises
    ------
    NoValueError
        If an expression has no value at a random point, as it divides by 0 everywhere.
    """
    nodes = list(roots)
    for point in range(tries):
        try:
            return evaluate_in(graph, nodes, Arithmetic(order, point, exact_roots=True))
        except NoValueError:
            continue
    return evaluate_in(graph, nodes, Arithmetic(order))


def evaluate_in(
    graph: Expressions, roots: list[int], arithmetic: Arithmetic
) -> list[tuple[Series, Partials]]:
    """Values and derivatives of expressions along the random curve of an arithmetic."""
    found: dict[int, tuple[Series, Partials]] = {}
    for node in graph.below(roots, veils=True):
        leaf = graph.leaves.get(node)
        if node in graph.numbers:
            found[node] = [graph.value[node]], {}
        elif leaf is None:
            operands = [found[at] for at in graph.operands(node)]
            found[node] = _apply(arithmetic, graph.op[node], graph.args[node], operands)
        elif leaf.kind == "v":
            found[node] = found[graph.veils[leaf.index]]
        elif leaf.kind == "u":
            found[node] = _curve(arithmetic, leaf.index, leaf.order), {(leaf.index, leaf.order): [1]}
        else:
            start = random_residue(*leaf, arithmetic.point)
            found[node] = [start, 1] if leaf.kind == "t" else [start], {}
    return [found[node] for node in roots]


def _curve(arithmetic: Arithmetic, j: int, k: int) -> Series:
    """Series of x_j^(k), where all derivatives of x_j are random."""
    out, factorial = [], 1
    for power in range(arithmetic.order + 1):
        factorial = factorial * max(power, 1) % PRIME
        rate = random_residue("u", j, k + power, arithmetic.point)
        out.append(rate * pow(factorial, -1, PRIME) % PRIME)
    return out


def _apply(
    ring: Arithmetic, op: Op, args: tuple[int, ...], operands: Sequence[tuple[Series, Partials]]
) -> tuple[Series, Partials]:
    series = [operand[0] for operand in operands]
    value, rates = RULES[op](ring, args[1], *series) if op is Op.INTPOW else RULES[op](ring, *series)
    out: Partials = {}
    for rate, (_, partials) in zip(rates, operands, strict=True):
        if not any(rate):
            continue
        for at, inner in partials.items():
            term = ring.mul(rate, inner)
            out[at] = ring.add(out[at], term) if at in out else term
    return value, out


Result: TypeAlias = tuple[Series, list[Series]]
"""Value of an operation and its derivatives by its operands."""


def _div(ring: Arithmetic, a: Series, b: Series) -> Result:
    below = ring.inverse(b)
    value = ring.mul(a, below)
    return value, [below, ring.negative(ring.mul(value, below))]


def _integer_power(ring: Arithmetic, exponent: int, a: Series) -> Result:
    lower = ring.power(a, exponent - 1)
    return ring.mul(lower, a), [ring.scale(lower, exponent)]


def _power(ring: Arithmetic, a: Series, b: Series) -> Result:
    start = ring.function(Op.POW, a[0], b[0])
    below = ring.inverse(a)
    log = ring.along(below, a, ring.function(Op.LOG, a[0]))
    if len(b) == 1:
        value = ring.fractional(a, b[0], start)
    else:
        value = ring.linear(ring.derivative(ring.mul(b, log)), start)
    return value, [ring.mul(ring.mul(b, value), below), ring.mul(value, log)]


def _sqrt(ring: Arithmetic, a: Series) -> Result:
    value = ring.fractional(a, ring.half, ring.root(a[0]))
    return value, [ring.scale(ring.mul(value, ring.inverse(a)), ring.half)]


def _exp(ring: Arithmetic, a: Series) -> Result:
    value = ring.exponential(a)
    return value, [value]


def _sin(ring: Arithmetic, a: Series) -> Result:
    sine, cosine = ring.circle(a)
    return sine, [cosine]


def _cos(ring: Arithmetic, a: Series) -> Result:
    sine, cosine = ring.circle(a)
    return cosine, [ring.negative(sine)]


def _tan(ring: Arithmetic, a: Series) -> Result:
    sine, cosine = ring.circle(a)
    value = ring.mul(sine, ring.inverse(cosine))
    return value, [ring.square(value, 1, 1)]


def _sinh(ring: Arithmetic, a: Series) -> Result:
    sine, cosine = ring.hyperbola(a)
    return sine, [cosine]


def _cosh(ring: Arithmetic, a: Series) -> Result:
    sine, cosine = ring.hyperbola(a)
    return cosine, [sine]


def _tanh(ring: Arithmetic, a: Series) -> Result:
    sine, cosine = ring.hyperbola(a)
    value = ring.mul(sine, ring.inverse(cosine))
    return value, [ring.square(value, -1, 1)]


def _inverse_function(op: Op, rate_of: Callable[[Arithmetic, Series], Series]) -> Callable[..., Result]:
    """The rule of a function that is known by its derivative."""

    def rule(ring: Arithmetic, a: Series) -> Result:
        rate = rate_of(ring, a)
        return ring.along(rate, a, ring.function(op, a[0])), [rate]

    return rule


def _over_root(op: Op, sign: int, constant: int, factor: int = 1) -> Callable[..., Result]:
    """The rule of a function with the derivative factor / sqrt(constant + sign a^2)."""

    def rate(ring: Arithmetic, a: Series) -> Series:
        inside = ring.square(a, sign, constant)
        root = ring.fractional(inside, -ring.half, ring.reciprocal(ring.root(inside[0])))
        return ring.scale(root, factor)

    return _inverse_function(op, rate)


def _atan2(ring: Arithmetic, a: Series, b: Series) -> Result:
    below = ring.inverse(ring.add(ring.mul(a, a), ring.mul(b, b)))
    rates = [ring.mul(b, below), ring.negative(ring.mul(a, below))]
    slope = ring.add(*(ring.mul(rate, ring.derivative(of)) for rate, of in zip(rates, (a, b), strict=True)))
    return ring.integral(slope, ring.function(Op.ATAN2, a[0], b[0])), rates


def _flat(op: Op) -> Callable[..., Result]:
    """The rule of a function that is constant but for jumps."""

    def rule(ring: Arithmetic, *operands: Series) -> Result:
        return [ring.function(op, *(a[0] for a in operands))], [[0]] * len(operands)

    return rule


def _abs(ring: Arithmetic, a: Series) -> Result:
    sign = ring.function(Op.SIGN, a[0])
    return ring.scale(a, sign), [[sign]]


def _min(ring: Arithmetic, a: Series, b: Series) -> Result:
    return ring.choose(ring.function(Op.LE, a[0], b[0]), a, b)


def _max(ring: Arithmetic, a: Series, b: Series) -> Result:
    value, rates = ring.choose(ring.function(Op.LE, a[0], b[0]), b, a)
    return value, rates[::-1]


def _select(ring: Arithmetic, test: Series, a: Series, b: Series) -> Result:
    value, rates = ring.choose(test[0], a, b)
    return value, [[0], *rates]


RULES: dict[Op, Callable[..., Result]] = {
    Op.ADD: lambda ring, a, b: (ring.add(a, b), [[1], [1]]),
    Op.MUL: lambda ring, a, b: (ring.mul(a, b), [b, a]),
    Op.NEG: lambda ring, a: (ring.negative(a), [[-1]]),
    Op.DIV: _div,
    Op.POW: _power,
    Op.INTPOW: _integer_power,
    Op.SQRT: _sqrt,
    Op.EXP: _exp,
    Op.LOG: _inverse_function(Op.LOG, lambda ring, a: ring.inverse(a)),
    Op.SIN: _sin,
    Op.COS: _cos,
    Op.TAN: _tan,
    Op.ASIN: _over_root(Op.ASIN, -1, 1),
    Op.ACOS: _over_root(Op.ACOS, -1, 1, -1),
    Op.ATAN: _inverse_function(Op.ATAN, lambda ring, a: ring.inverse(ring.square(a, 1, 1))),
    Op.ATAN2: _atan2,
    Op.SINH: _sinh,
    Op.COSH: _cosh,
    Op.TANH: _tanh,
    Op.ASINH: _over_root(Op.ASINH, 1, 1),
    Op.ACOSH: _over_root(Op.ACOSH, 1, -1),
    Op.ATANH: _inverse_function(Op.ATANH, lambda ring, a: ring.inverse(ring.square(a, -1, 1))),
    Op.ABS: _abs,
    Op.SIGN: _flat(Op.SIGN),
    Op.MIN: _min,
    Op.MAX: _max,
    Op.FLOOR: _flat(Op.FLOOR),
    Op.LT: _flat(Op.LT),
    Op.LE: _flat(Op.LE),
    Op.SELECT: _select,
}
"""Value and derivatives of every operation, in any arithmetic."""
