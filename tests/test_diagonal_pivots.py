"""Factors with pivots on the diagonal: where they are taken, what they solve, and where they are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse

from dae_sdc.dae import linear
from dae_sdc.dae.linear import EPS, SparseLU, superlu, with_diagonal_pivots
from dae_sdc.problems.grids import NavierStokes


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_known", ())


def flow(cells: int = 20, c: float = 0.05, t: float = 0.3) -> Any:
    P = NavierStokes(cells=cells)
    return P.jacobian(P.u_exact(t), P.du_exact(t), t, c).copy()


def grid(m: int = 25) -> Any:
    line = sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    return sparse.csc_matrix(sparse.kronsum(line, line))


def backward_error(matrix: Any, x: Any, rhs: Any) -> float:
    return float((np.abs(matrix @ x - rhs) / (abs(matrix) @ np.abs(x) + np.abs(rhs))).max())


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
@pytest.mark.parametrize("make", [flow, grid])
def test_solves_are_accurate_and_leave_the_matrix_alone(make: Any, kind: Any) -> None:
    matrix = make().astype(kind)
    if kind is np.complex128:
        matrix.data *= np.exp(0.7j)
    before = matrix.copy()
    factors = with_diagonal_pivots(matrix)
    assert factors is not None
    rhs = np.cos(np.arange(matrix.shape[0])).astype(kind)
    assert backward_error(matrix, factors.solve(rhs), rhs) <= len(rhs) * EPS
    block = np.stack([rhs, 2.0 * rhs], axis=1)
    np.testing.assert_allclose(factors.solve(block)[:, 1], 2.0 * factors.solve(rhs), rtol=1e-9, atol=1e-12)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(matrix, name), getattr(before, name))


def test_factors_multiply_to_the_matrix_in_their_order() -> None:
    matrix = flow(14)
    factors: Any = with_diagonal_pivots(matrix)
    rows, columns = np.argsort(factors.perm_r), np.argsort(factors.perm_c)
    product = (factors.L @ factors.U).toarray()
    np.testing.assert_allclose(product, matrix.toarray()[np.ix_(rows, columns)], atol=1e-9)
    assert factors.nnz >= factors.L.nnz + factors.U.nnz


def test_a_flow_fills_less_than_with_exchanges_of_rows() -> None:
    matrix = flow(40)
    factors: Any = with_diagonal_pivots(matrix)
    assert factors.nnz < 0.75 * superlu(matrix).nnz


def test_small_and_unsymmetric_matrices_are_left_to_others() -> None:
    assert with_diagonal_pivots(grid(22)) is None
    rng = np.random.default_rng(1)
    scattered = sparse.random_array((600, 600), density=0.01, rng=rng) + sparse.eye_array(600)
    assert with_diagonal_pivots(sparse.csc_matrix(scattered)) is None


def test_an_unknown_that_no_equation_can_be_solved_for_is_left_to_others() -> None:
    matrix = grid().tolil()
    matrix[7], matrix[:, 7] = 0.0, 0.0
    matrix[9, 9] = matrix[11, 11] = matrix[13, 13] = 0.0
    for lonely in (9, 11, 13):
        matrix[lonely] = 0.0
        matrix[:, lonely] = 0.0
        matrix[lonely, 300] = matrix[300, lonely] = 1.0
    assert with_diagonal_pivots(sparse.csc_matrix(matrix)) is None


def test_useless_pivots_are_seen_and_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 1e-20 on the diagonal every pivot is small, though the matrix is not nearly singular."""
    swapping = grid(24)
    swapping.data *= np.random.default_rng(3).uniform(1.0, 9.0, swapping.nnz)
    swapping.setdiag(1e-20)
    tried = []
    monkeypatch.setattr(
        linear,
        "DiagonalPivotLU",
        lambda *given, kind=linear.DiagonalPivotLU: tried.append(1) or kind(*given),
    )
    rhs = np.cos(np.arange(576))
    for _ in range(4):
        assert backward_error(swapping, SparseLU(swapping).solve(rhs), rhs) < 576 * EPS
    assert len(tried) == linear.MOST_PIVOT_FAILURES


def test_a_zero_that_comes_to_the_diagonal_gets_a_partner() -> None:
    first, later = grid(), grid()
    assert with_diagonal_pivots(first) is not None
    later.setdiag(np.where(np.arange(625) % 7 == 3, 0.0, later.diagonal()))
    factors: Any = with_diagonal_pivots(later)
    rhs = np.sin(np.arange(625))
    assert backward_error(later, factors.solve(rhs), rhs) <= 625 * EPS
    assert len(linear._known) == 2


def test_a_singular_matrix_has_no_such_factors() -> None:
    steps = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(699, 700))
    assert with_diagonal_pivots(sparse.csc_matrix(steps.T @ steps)) is None
