"""Jacobians by differences: fully implicit equations whose unknowns and equations are mixed at random."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from helpers.pairs import covering_pairs

import dae_sdc as ds
from dae_sdc.dae.jacobian import improve_differences, linearize

SEEDS = range(6)


def scrambled(seed: int, nonlinear_in_slope: bool = False, unit: float = 1.0) -> type[ds.ProblemDAE]:
    """P G(t, Q^{-1} u, Q^{-1} u') = 0 with random P and Q, and G of index 1 with a known solution.

    Two of the four unknowns v of G have derivatives; v1 = sin t, v2 = cos 2t, v3 = v1 v2, v4 = v1^2 - v3 / 2.
    """
    generator = np.random.default_rng(seed)
    rows, columns = generator.standard_normal((2, 4, 4))
    back = np.linalg.inv(columns)
    cubic = 0.2 if nonlinear_in_slope else 0.0

    def exact(t: float) -> np.ndarray:
        x, y = np.sin(t), np.cos(2.0 * t)
        return unit * (columns @ np.array([x, y, x * y, x * x - 0.5 * x * y]))

    class Scrambled(ds.ProblemDAE):
        index = 1
        interval = (0.0, 2.0)
        nominal = unit

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=4, n_alg=0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            v, dv = back @ np.asarray(u) / unit, back @ np.asarray(du) / unit
            x, y = np.sin(t), np.cos(2.0 * t)
            dx, dy = np.cos(t), -2.0 * np.sin(2.0 * t)
            first = dv[0] - dx + cubic * (dv[0] ** 3 - dx**3) + v[0] - x + v[2] - x * y
            second = dv[1] - dy + v[1] ** 2 - y**2
            return rows @ np.array([first, second, v[2] - v[0] * v[1], v[3] - v[0] ** 2 + 0.5 * v[2]])

        def u_exact(self, t: float) -> Any:
            return exact(t)

    return Scrambled


@pytest.mark.parametrize(
    ("seed", "nonlinear", "sweeper", "rtol"),
    covering_pairs(product(SEEDS, (False, True), ("radau-iia-5", "fully-implicit"), (1e-4, 1e-8))),
)
def test_scrambled_fully_implicit_equations_run_without_a_jacobian(
    seed: int, nonlinear: bool, sweeper: str, rtol: float
) -> None:
    problem = scrambled(seed, nonlinear)
    solution = ds.solve(problem, rtol=rtol, sweeper=sweeper, trace=False, time_limit=300.0)
    assert solution.success, solution.message
    exact = problem().u_exact(2.0)
    error = np.abs(solution.u[-1] - exact) / (1.0 + np.abs(exact))
    assert error.max() <= 100.0 * rtol


def test_dF_du_prime_has_all_its_digits_where_f_is_linear_in_u_prime() -> None:
    problem = scrambled(3)()
    u, du = problem.state(problem.u_exact(0.3)), problem.state([0.7, -1.3, 2.0, 0.1])
    mass = linearize(problem, u, du, 0.3).mass
    # Two of the four unknowns have a derivative.
    values = np.linalg.svd(mass, compute_uv=False)
    assert (values[2:] <= 1e-14 * values[0]).all()


def test_improved_differences_are_of_a_higher_order() -> None:
    problem = scrambled(3, True)()
    u, du = problem.state(problem.u_exact(0.3)), problem.state([0.7, -1.3, 2.0, 0.1])
    before = linearize(problem, u, du, 0.3)
    assert improve_differences(problem)
    assert not improve_differences(problem)
    after = linearize(problem, u, du, 0.3)
    defects = [np.linalg.svd(half.mass, compute_uv=False)[2] for half in (before, after)]
    assert defects[1] <= 1e-11 and defects[1] <= defects[0]
    # Forward differences are off by half an increment, 1.5e-8 |u|, times the second derivatives.
    assert np.abs(after.stiffness - before.stiffness).max() <= 1e-5


def test_differences_by_colours_are_those_column_by_column() -> None:
    class Chain(ds.ProblemDAE):
        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=8, n_alg=0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            value = np.asarray(du) ** 3 + np.asarray(u) ** 2
            value[1:] -= np.asarray(u)[:-1] * np.asarray(du)[:-1]
            return value

    dense, by_colours = Chain(), Chain()
    by_colours.sparsity = sparse.csc_matrix(np.eye(8) + np.eye(8, k=-1))
    u, du = dense.state(np.linspace(-1.0, 2.0, 8)), dense.state(np.linspace(3.0, -1.0, 8))
    one, other = linearize(dense, u, du, 0.0), linearize(by_colours, u, du, 0.0)
    assert np.abs(one.mass - other.mass.toarray()).max() <= 1e-9
    assert np.abs(one.stiffness - other.stiffness.toarray()).max() <= 1e-6
    slopes = np.asarray(du)
    assert np.abs(np.diagonal(one.mass) - 3.0 * slopes**2).max() <= 1e-8
