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
