"""Polynomials through nodes, and differences, are exact for the polynomials that their order allows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from dae_sdc.dae.jacobian import complex_slope, curvature, most_accurate, slope
from dae_sdc.dae.state import (
    EndDerivative,
    StepPolynomial,
    attach,
    continuation_matrix,
    differentiation_row,
    interpolation_matrix,
    lagrange_weights,
    reaches,
)

NODES = (0.2, 0.55, 0.9)
FIRST, SECOND = Polynomial([0.3, -1.2, 0.7]), Polynomial([2.0, 0.4, -0.9])
T0, DT = 1.5, 0.25


def behind(nodes: tuple[float, ...] = NODES) -> StepPolynomial:
    """A step that has left FIRST for u' of its first unknown, and SECOND for the value of the other one."""
    at = np.array(nodes)
    value, derivative = np.full((len(at), 2), np.nan), np.full((len(at), 2), np.nan)
    derivative[:, 0], value[:, 1] = FIRST(at), SECOND(at)
    return StepPolynomial(T0, DT, nodes, value, derivative, 1)


@pytest.mark.parametrize("nodes", [NODES, (0.1, 0.6, 1.0)])
def test_the_derivative_at_the_end_is_that_of_both_polynomials(nodes: tuple[float, ...]) -> None:
    expected = [FIRST(1.0), SECOND.deriv()(1.0) / DT]
    np.testing.assert_allclose(behind(nodes).derivative_at_end(), expected, rtol=1e-13)


def test_a_later_step_continues_both_polynomials() -> None:
    later, value, derivative = (0.3, 1.0), np.zeros((2, 2)), np.zeros((2, 2))
    behind().extrapolate(T0 + 0.5 * DT, 2.0 * DT, later, value, derivative)
    at = 0.5 + 2.0 * np.array(later)
    np.testing.assert_allclose(derivative[:, 0], FIRST(at), rtol=1e-12)
    np.testing.assert_allclose(value[:, 1], SECOND(at), rtol=1e-12)
    np.testing.assert_allclose(
        continuation_matrix(NODES, later, 0.5, 2.0), interpolation_matrix(NODES, tuple(at)), atol=1e-12
    )


def test_a_polynomial_comes_back_from_a_message() -> None:
    state = attach(np.array([1.0, 2.0]), 1)
    for polynomial in (behind(), EndDerivative(np.array([1.0, 2.0])), None):
        state.polynomial = polynomial
        received = pickle.loads(pickle.dumps(state))
        assert received.derivative().tolist() == state.derivative().tolist()
        assert (received.n_diff, type(received.polynomial)) == (1, type(polynomial))


def test_a_polynomial_reaches_no_farther_than_its_limit() -> None:
    assert reaches(behind(), T0 + 3.4 * DT, 1)
    assert not reaches(behind(), T0 + 3.6 * DT, 1)
    assert not reaches(behind(), T0 + DT, 2)


def test_weights_and_rows_of_lagrange_polynomials() -> None:
    np.testing.assert_allclose(lagrange_weights(np.array([0.0, 1.0, 3.0])), [1 / 3, -1 / 2, 1 / 6])
    row = differentiation_row(NODES, 0.7)
    assert row @ SECOND(np.array(NODES)) == pytest.approx(SECOND.deriv()(0.7), rel=1e-13)


@pytest.mark.parametrize("degree", range(1, 7))
def test_differences_of_order_six_are_exact_up_to_degree_six(degree: int) -> None:
    curve = Polynomial(np.arange(1.0, degree + 2.0))
    assert slope(curve, 0.25) == pytest.approx(curve.deriv()(0.0), rel=1e-12)
    assert curvature(curve, 0.25) == pytest.approx(curve.deriv(2)(0.0), rel=1e-12, abs=1e-12)


def test_a_complex_step_is_exact() -> None:
    assert complex_slope(lambda x: np.array([np.exp(x), np.sin(3.0 * x)])).tolist() == [1.0, 3.0]


def test_the_most_accurate_difference_is_the_one_between_the_closest() -> None:
    found = np.array([[0.0, 5.0], [1.5, 1.1], [1.01, 1.0], [1.0, 1.002], [1.02, 1.3]])
    best, errors = most_accurate(found)
    assert best.tolist() == [1.0, 1.0]
    assert errors == pytest.approx([0.02, 0.1])
