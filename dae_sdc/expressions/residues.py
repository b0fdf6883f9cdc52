"""Values of expressions in a finite field, by which equal expressions are found.

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

import hashlib
from fractions import Fraction
from typing import Final

from dae_sdc.expressions.operations import Op

PRIME: Final = 0x5B03B5B9D20C13CF3A6DDE8DECA58F6F
"""A prime p of 127 bits; (p - 1) / 2 is prime too, so that powers of no small number repeat themselves."""

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
        return _circle(op, size, negative)
    if op in (Op.EXP, Op.SINH, Op.COSH, Op.TANH):
        return _hyperbola(op, size, negative)
    if op in _ODD:
        found = random_residue(op.name, size)
        return PRIME - found if negative else found
    return random_residue(op.name, a)


def root(value: int, numerator: int, denominator: int) -> int:
    """The power of ``value`` with a fraction between 0 and 1 as its exponent."""
    return pow(random_residue("root", value, denominator), numerator, PRIME)


def _circle(op: Op, size: int, negative: bool) -> int:
    half = random_residue("angle", size)
    square = half * half % PRIME
    if op is Op.COS:
        return (1 - square) * pow(1 + square, -1, PRIME) % PRIME
    sine = 2 * half * pow((1 + square) if op is Op.SIN else (1 - square), -1, PRIME) % PRIME
    return PRIME - sine if negative else sine


def _hyperbola(op: Op, size: int, negative: bool) -> int:
    growing = random_residue("exp", size)
    shrinking = pow(growing, -1, PRIME)
    if op is Op.EXP:
        return shrinking if negative else growing
    if op is Op.COSH:
        return (growing + shrinking) * _INVERSE_OF_2 % PRIME
    odd = (growing - shrinking) % PRIME
    if op is Op.SINH:
        odd = odd * _INVERSE_OF_2 % PRIME
    else:
        odd = odd * pow(growing + shrinking, -1, PRIME) % PRIME
    return (PRIME - odd) % PRIME if negative else odd
