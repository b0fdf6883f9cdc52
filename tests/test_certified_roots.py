"""Roots of hard polynomial systems: none lost, none at infinity without proof, all simple ones proved."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest
import sympy as sp

from benchmarks.studies.polynomials import chandrasekhar, cyclic, katsura, noon, product_of, reimer
from dae_sdc.polynomials.homotopy import Roots, solve_polynomials
from dae_sdc.polynomials.polynomials import PolynomialSystem

certificates = importlib.import_module("dae_sdc.polynomials.homotopy")
with_flint = pytest.mark.skipif(importlib.util.find_spec("flint") is None, reason="needs python-flint")

x, y, z = sp.symbols("x y z")


def complete(roots: Roots, solutions: int, real: int) -> bool:
    """Whether all paths have an end, these are the solutions, and all of them are proved if they can be."""
    ends = int(roots.multiplicity.sum()) + roots.at_infinity
    found = (len(roots.solutions), len(roots.real), roots.failed) == (solutions, real, 0)
    proved = bool(roots.uncertified_because) or bool((roots.certified | roots.singular).all())
    return found and proved and ends == roots.paths


@pytest.mark.parametrize("seed", range(5))
def test_large_real_roots_are_not_taken_for_points_at_infinity(seed: int) -> None:
    roots = solve_polynomials(chandrasekhar(6), seed=seed)
    assert complete(roots, 32, 32)
    assert roots.at_infinity == 32
    assert np.abs(roots.solutions).max() > 1e4


@pytest.mark.parametrize("size", [1e6, 1e9])
def test_a_root_far_from_the_others_is_found(size: float) -> None:
    """(x - 1)(x - size) y = ..., where the second path comes near infinity before it ends."""
    far = sp.Integer(int(size))
    system = PolynomialSystem.from_sympy([(x - 1) * (x - far), y * (x - 2) - 1], [x, y])
    roots = solve_polynomials(system)
    assert (roots.failed, roots.at_infinity) == (0, 2)
    order = np.argsort(roots.solutions[:, 0].real)
    exact = [[1.0, -1.0], [size, 1.0 / (size - 2.0)]]
    np.testing.assert_allclose(roots.solutions[order], exact, rtol=1e-12)


@pytest.mark.parametrize("degree", [10, 20])
def test_roots_of_a_polynomial_of_wilkinson_are_right_and_lost_ones_are_counted(degree: int) -> None:
    """Coefficients beyond 2^53 are exact, as rounding them moves roots by more than 1."""
    roots = solve_polynomials(product_of(*range(1, degree + 1)))
    assert len(roots.solutions) + roots.failed == degree
    assert not roots.singular.any()
    found = np.sort(roots.real[:, 0])
    assert len(found) == len(roots.solutions)
    np.testing.assert_allclose(found, np.round(found), rtol=1e-12)
    assert np.unique(np.round(found)).size == len(found)
    assert degree > 10 or roots.failed == 0


@pytest.mark.parametrize(
    ("system", "solutions", "real"),
    [
        (lambda: katsura(6), 64, 32),
        (lambda: cyclic(5), 70, 10),
        (lambda: noon(3), 21, 7),
        (lambda: noon(4), 73, 15),
        (lambda: reimer(4), 36, 8),
    ],
)
def test_simple_roots_are_all_proved(system: Any, solutions: int, real: int) -> None:
    assert complete(solve_polynomials(system()), solutions, real)


@pytest.mark.parametrize("exponent", [20, 24, 28])
@pytest.mark.parametrize("imaginary", [False, True])
def test_roots_near_each_other_are_no_double_root(exponent: int, imaginary: bool) -> None:
    """(x - 1)^2 - d^2 and (x - 1)^2 + d^2 with d = 2^-exponent and exact coefficients."""
    distance = sp.Rational(1, 2**exponent)
    square = -(distance**2) if imaginary else distance**2
    roots = solve_polynomials(PolynomialSystem.from_sympy([(x - 1) ** 2 - square], [x]))
    assert complete(roots, 2, 0 if imaginary else 2)
    assert not roots.singular.any()
    apart = roots.solutions[0, 0] - roots.solutions[1, 0]
    assert abs(apart) == pytest.approx(2.0 * float(distance), rel=1e-6)


def test_a_double_root_next_to_a_simple_one_is_told_as_such() -> None:
    distance = sp.Rational(1, 2**24)
    roots = solve_polynomials(PolynomialSystem.from_sympy([(x - 1) ** 2 * (x - 1 - distance)], [x]))
    assert roots.failed == 0
    assert sorted(roots.multiplicity.tolist()) == [1, 2]
    assert (roots.singular == (roots.multiplicity == 2)).all()
    assert not roots.certified[roots.singular].any()


def test_round_off_makes_no_simple_roots_of_a_double_one() -> None:
    """1/3 and its square are rounded, which makes of the double root two at a distance of about 1e-8."""
    third = 1.0 / 3.0
    coefficients, exponents = [[1.0, -2.0 * third, third * third * (1.0 + 2e-16)]], [[2], [1], [0]]
    apart = solve_polynomials(PolynomialSystem(coefficients, exponents))
    together = solve_polynomials(PolynomialSystem(coefficients, exponents, rounded=True))
    assert len(apart.solutions) == 2
    assert (len(together.solutions), together.multiplicity.tolist()) == (1, [2])
    assert together.is_real.all()


@with_flint
def test_real_roots_are_proved_real_and_others_not_to_be() -> None:
    roots = solve_polynomials(cyclic(5))
    assert (int(roots.proved_real.sum()), int(roots.proved_complex.sum())) == (10, 60)
    assert "70 certified, 10 proved real" in str(roots)


@with_flint
def test_nothing_is_proved_of_points_that_are_no_roots() -> None:
    system = PolynomialSystem.from_sympy([x**2 + y**2 - 1, x - y], [x, y])
    half = np.sqrt(0.5)
    points = np.array([[half, half], [half + 1e-3, half], [0.0, 0.0], [half, half]], dtype=np.complex128)
    proved = certificates.certify(system, points, np.ones(4, dtype=np.bool_))
    assert proved.proved.tolist() == [True, False, False, False]
    assert proved.real.tolist() == [True, False, False, False]


@with_flint
def test_a_double_root_has_no_certificate() -> None:
    system = PolynomialSystem.from_sympy([(x - 1) ** 2], [x])
    proved = certificates.certify(system, np.ones((1, 1), dtype=np.complex128), np.ones(1, dtype=np.bool_))
    assert not proved.proved.any()


@with_flint
def test_certificates_count_with_exact_coefficients() -> None:
    """Near 1/3 to 40 digits, that x = 1/3 is a root of 3 x - 1 can be proved, and not with a rounded 1/3."""
    exact = PolynomialSystem.from_sympy([(x - sp.Rational(1, 3)) * (x - sp.sqrt(2))], [x])
    roots = solve_polynomials(exact)
    assert roots.certified.all()
    np.testing.assert_allclose(np.sort(roots.real[:, 0]), [1 / 3, np.sqrt(2)], rtol=1e-15)


def test_without_python_flint_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "find_spec", lambda name: None)
    roots = solve_polynomials(katsura(3))
    assert (len(roots.solutions), int(roots.certified.sum())) == (8, 0)
    assert "not certified: python-flint is missing" in str(roots)


def test_more_polynomials_than_variables_are_not_certified() -> None:
    roots = solve_polynomials(PolynomialSystem.from_sympy([x**2 - 1, y**2 - 1, x + y], [x, y]))
    assert len(roots.solutions) == 2
    assert "not certified: more polynomials than variables" in str(roots)
