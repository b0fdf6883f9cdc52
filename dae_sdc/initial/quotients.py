"""Arithmetic of polynomials and their quotients, with sines and cosines as pairs of variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dae_sdc.errors import DAEError

MOST_TERMS = 5000  # Largest number of terms of a polynomial up to which equations are multiplied out.
CANCELLED_SUM = 1e-14  # Size of a sum, relative to its terms, up to which it is round-off.
Monomial = tuple[tuple[int, int], ...]  # Pairs of the number of a variable and its power.
Polynomial = dict[Monomial, complex]  # Coefficients by monomial.
UNIT: Polynomial = {(): 1.0}  # The polynomial 1.


class NotPolynomialError(DAEError):
    """Equations cannot be written as polynomials; caught internally, to solve them in another way."""


def _accumulate(total: Polynomial, monomial: Monomial, value: complex) -> None:
    before = total.get(monomial, 0.0)
    after = before + value
    if abs(after) <= CANCELLED_SUM * max(abs(before), abs(value)):
        total.pop(monomial, None)
    else:
        total[monomial] = after


def plus(a: Mapping[Monomial, complex], b: Mapping[Monomial, complex], factor: complex = 1.0) -> Polynomial:
    """a + factor b."""
    total = dict(a)
    for monomial, value in b.items():
        _accumulate(total, monomial, factor * value)
    return total


def variables_of(rows: Sequence[Polynomial]) -> set[int]:
    """Numbers of the variables in some polynomials."""
    return {variable for row in rows for monomial in row for variable, _ in monomial}


@dataclass(frozen=True, eq=False)
class Quotient:
    """A polynomial over a product of factors, given as a mapping of their numbers to powers."""

    over: Polynomial
    under: Mapping[int, int]


class Quotients:
    """Arithmetic of quotients whose denominators are products of factors from a common list."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.factors: list[Polynomial] = []

    def times(self, a: Mapping[Monomial, complex], b: Mapping[Monomial, complex]) -> Polynomial:
        """The product of polynomials, in which sin^2 is replaced by 1 - cos^2."""
        total: Polynomial = {}
        if len(a) > len(b):
            a, b = b, a
        for monomial, value in a.items():
            for other, factor in b.items():
                self._add_product(total, monomial, other, value * factor)
        if len(total) > MOST_TERMS:
            raise NotPolynomialError(f"a polynomial with more than {MOST_TERMS} terms")
        return total

    def _add_product(self, total: Polynomial, a: Monomial, b: Monomial, value: complex) -> None:
        powers = dict(a)
        for variable, power in b:
            powers[variable] = powers.get(variable, 0) + power
        n = self._n
        for variable, power in powers.items():
            if power >= 2 and n <= variable < 3 * n and (variable - n) % 2:
                lower = {**powers, variable: power - 2}
                rest = tuple(sorted((v, p) for v, p in lower.items() if p))
                self._add_product(total, rest, (), value)
                self._add_product(total, rest, ((variable - 1, 2),), -value)
                return
        _accumulate(total, tuple(sorted(powers.items())), value)

    def power(self, base: Polynomial, exponent: int) -> Polynomial:
        """A power of a polynomial."""
        found: Polynomial = dict(UNIT)
        for _ in range(exponent):
            found = self.times(found, base)
        return found

    def sum(self, a: Quotient, b: Quotient) -> Quotient:
        """a + b."""
        under = {k: max(a.under.get(k, 0), b.under.get(k, 0)) for k in {*a.under, *b.under}}
        return Quotient(plus(self._extended(a, under), self._extended(b, under)), under)

    def _extended(self, part: Quotient, under: Mapping[int, int]) -> Polynomial:
        over = part.over
        for k, power in under.items():
            lacking = power - part.under.get(k, 0)
            if lacking:
                over = self.times(over, self.power(self.factors[k], lacking))
        return over

    def product(self, a: Quotient, b: Quotient) -> Quotient:
        """a b."""
        under = {k: a.under.get(k, 0) + b.under.get(k, 0) for k in {*a.under, *b.under}}
        return Quotient(self.times(a.over, b.over), under)

    def repeated(self, a: Quotient, times: int) -> Quotient:
        """The power of a quotient with an exponent ``times`` of at least 1."""
        found = a
        for _ in range(times - 1):
            found = self.product(found, a)
        return found

    def denominator(self, a: Quotient) -> Polynomial:
        """The denominator of a, multiplied out."""
        found: Polynomial = dict(UNIT)
        for k, power in a.under.items():
            found = self.times(found, self.power(self.factors[k], power))
        return found

    def inverse(self, a: Quotient) -> Quotient:
        """1 / a."""
        if not a.over:
            raise NotPolynomialError("a division by 0")
        over = self.denominator(a)
        if set(a.over) == {()}:
            return Quotient({monomial: value / a.over[()] for monomial, value in over.items()}, {})
        # Denominators that differ by a constant factor are one.
        first = min(a.over)
        scale = a.over[first]
        factor = {monomial: value / scale for monomial, value in a.over.items()}
        over = {monomial: value / scale for monomial, value in over.items()}
        for k, known in enumerate(self.factors):
            if known.keys() == factor.keys() and all(
                abs(known[key] - factor[key]) <= 1e-12 * abs(factor[key]) for key in factor
            ):
                return Quotient(over, {k: 1})
        self.factors.append(factor)
        return Quotient(over, {len(self.factors) - 1: 1})

    def put(self, row: Polynomial, variable: int, line: Polynomial) -> Polynomial:
        """A polynomial in which a variable is replaced by another polynomial."""
        if variable not in variables_of([row]):
            return row
        total: Polynomial = {}
        for monomial, value in row.items():
            power = dict(monomial).get(variable, 0)
            rest = tuple((v, p) for v, p in monomial if v != variable)
            total = plus(total, self.times({rest: value}, self.power(line, power)))
        return total
