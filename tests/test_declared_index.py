"""An index that a problem declares is compared with that of its equations, and changes nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc import InputError

RATES = np.arange(1.0, 5.0)


def scrambled(index: int | None, with_jacobian: bool) -> tuple[type[ds.ProblemDAE], Any]:
    """Linear equations of index 2 with rows and unknowns mixed by rotations, and their solution."""
    rng = np.random.default_rng(0)
    mass, stiffness = np.diag([1.0, 1.0, 0.0, 0.0]), np.eye(4)
    stiffness[:2, :2] += 0.3 * rng.normal(size=(2, 2))
    mass[2, 3] = 1.0
    P, Q = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    E, K = P @ mass @ Q.T, P @ stiffness @ Q.T

    def solution(t: float) -> Any:
        return Q @ np.sin(RATES * t + 1)

    class Scrambled(ds.ProblemDAE):
        def __init__(self, **settings: Any) -> None:
            super().__init__(4, 0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            slope = Q @ (RATES * np.array([np.cos(w * t + 1) for w in RATES]))
            return E @ (du - slope) + K @ (u - Q @ np.array([np.sin(w * t + 1) for w in RATES]))

    own: Any = Scrambled
    if index is not None:
        own.index = index
    if with_jacobian:
        own.jacobian = lambda self, u, du, t, c: E + c * K
    return own, solution


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("with_jacobian", [False, True])
def test_a_declared_index_that_is_right_runs_like_none(with_jacobian, trace):
    problem, solution = scrambled(2, with_jacobian)
    run = ds.solve(problem, u0=solution(0.0), t_end=1.0, rtol=1e-6, trace=trace)
    assert run.success, run.message
    error = np.abs(run.u - np.array([solution(t) for t in run.t])) / (1 + np.abs(run.u))
    assert error.max() < 1e-4


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("with_jacobian", [False, True])
def test_a_declared_index_that_is_wrong_is_refused_with_both(with_jacobian, trace):
    problem, solution = scrambled(3, with_jacobian)
    with pytest.raises(InputError, match="declares index 3, but its Jacobians near the start have index 2"):
        ds.solve(problem, u0=solution(0.0), t_end=1.0, rtol=1e-6, trace=trace)


@pytest.mark.parametrize("index", [None, 2])
def test_a_jacobian_does_not_switch_reduction_off(index):
    rng = np.random.default_rng(1)
    speed, P = 2 + rng.random(), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    mass, stiffness = np.diag([1.0, 1.0, 0.0, 0.0]), np.eye(4)
    mass[2, 3] = 1.0

    def turned(t: float) -> Any:
        R = np.eye(4)
        R[[1, 1, 3, 3], [1, 3, 1, 3]] = (
            np.cos(speed * t),
            np.sin(speed * t),
            -np.sin(speed * t),
            np.cos(speed * t),
        )
        return R @ P.T

    class Turning(ds.ProblemDAE):
        def __init__(self, **settings: Any) -> None:
            super().__init__(4, 0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            off, off_slope = u - np.sin(RATES * t + 1), du - RATES * np.cos(RATES * t + 1)
            return P @ (mass @ turned(float(t)) @ off_slope + stiffness @ turned(float(t)) @ off)

        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            return P @ (mass + c * stiffness) @ turned(t)

    own: Any = Turning
    if index is not None:
        own.index = index
    run = ds.solve(own, u0=np.sin(np.ones(4)), t_end=1.0, rtol=1e-6)
    assert run.success and "index 2 reduced to 1" in run.message
    solution = np.sin(np.outer(run.t, RATES) + 1)
    assert np.max(np.abs(run.u - solution) / (1 + np.abs(solution))) < 1e-5


@pytest.mark.parametrize("trace", [None, False])
def test_where_a_structural_reduction_fails_derivatives_along_t_are_taken(trace):
    """Linear equations with two chains of index 4, whose symbolic separation grows too much."""
    rng = np.random.default_rng(0)
    n, mass, stiffness = 10, np.zeros((10, 10)), np.eye(10)
    for first in (0, 4):
        mass[first : first + 3, first + 1 : first + 4] = np.eye(3)
    mass[8:, 8:] = np.eye(2)
    stiffness[8:, 8:] += 0.3 * rng.normal(size=(2, 2))
    P, Q = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    E, K, rates = P @ mass @ Q.T, P @ stiffness @ Q.T, rng.uniform(0.5, 1.5, n)

    def chains(t: Any, u: Any, du: Any) -> Any:
        slope = [sum(Q[i, j] * rates[j] * np.cos(rates[j] * t + 1) for j in range(n)) for i in range(n)]
        state = [sum(Q[i, j] * np.sin(rates[j] * t + 1) for j in range(n)) for i in range(n)]
        return [
            sum(E[i, j] * (du[j] - slope[j]) + K[i, j] * (u[j] - state[j]) for j in range(n))
            for i in range(n)
        ]

    run = ds.solve(chains, u0=Q @ np.sin(np.ones(n)), t_end=1.0, rtol=1e-6, trace=trace)
    assert run.success and "index 4 reduced to 1" in run.message
    solution = np.sin(np.outer(run.t, rates) + 1) @ Q.T
    assert np.max(np.abs(run.u - solution) / (1 + np.abs(solution))) < 1e-6


def test_a_failed_run_tells_which_ways_to_reduce_its_index_were_tried():
    """Rows are mixed by a matrix of the unknowns, and the multiplier lets errors grow."""

    def mixed(t: float, u: Any, du: Any) -> Any:
        x, y, z = u
        P = np.array([[1 + 0.3 * np.sin(x), 0.2, 0.1 * y], [0.1 * x, 1.0, 0.3 * z], [0.2, 0.1 * z * x, 1.0]])
        rows = [du[0] - z - np.cos(t), du[1] + 2.0 * z * y - np.sin(t), x * y - 1.0 - 0.1 * np.sin(t)]
        return P @ np.array(rows)

    run = ds.solve(mixed, u0=[1.0, 1.0, 0.9], t_end=1.0, rtol=1e-6, trace=False)
    assert not run.success
    assert "not reduced (by derivatives along t: the equations are not linear)" in run.message


def pencil(seed: int) -> tuple[Any, Any]:
    """Linear equations with two chains of index 2 and their solution, in other rows and unknowns."""
    rng = np.random.default_rng(seed)
    mass, stiffness = np.diag([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), np.eye(8)
    mass[0, 1] = mass[3, 4] = 1.0
    stiffness[5:, 5:] += 0.3 * rng.normal(size=(3, 3))
    (P, Q), B = (np.linalg.qr(rng.normal(size=(8, 8)))[0] for _ in range(2)), rng.normal(size=(8, 8))
    E, K, rates = P @ mass @ Q.T, P @ stiffness @ Q.T, rng.uniform(0.5, 2.5, 8)

    def solution(t: float) -> Any:
        return B @ np.sin(rates * t + 1)

    def equations(t: float, u: Any, du: Any) -> Any:
        slope = B @ (rates * np.cos(rates * t + 1))
        return E @ (np.asarray(du) - slope) + K @ (np.asarray(u) - solution(t))

    return equations, solution


@pytest.mark.parametrize("seed", range(100, 103))
@pytest.mark.parametrize("rtol", [1e-5, 1e-7, 1e-9, 1e-11])
@pytest.mark.parametrize("sweeper", [None, "radau-iia-5", "fully-implicit"])
def test_linear_equations_of_index_2_hold_30_rtol_in_every_unknown(sweeper, rtol, seed):
    equations, solution = pencil(seed)
    run = ds.solve(equations, u0=solution(0.0), t_end=2.0, rtol=rtol, sweeper=sweeper)
    assert run.success, run.message
    exact = np.array([solution(t) for t in run.t])
    assert (np.abs(run.u - exact) / (1.0 + np.abs(exact))).max() < 30.0 * rtol


def test_ida_takes_no_linear_equations_whose_index_differences_would_reduce():
    equations, solution = pencil(100)
    with pytest.raises(InputError, match="the error test of 'ida' leaves out unknowns of index 2 and more"):
        ds.solve(equations, u0=solution(0.0), t_end=2.0, rtol=1e-5, sweeper="ida")
