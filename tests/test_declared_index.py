"""An index that a problem declares is compared with that of its equations, and changes nothing else."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.pairs import covering_pairs
from scipy.integrate import solve_ivp

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


@pytest.mark.parametrize("trace", [None, False])
def test_an_index_of_an_unknown_that_is_declared_too_low_is_refused(trace):
    """x = sin t and x' = z, which is known after x has been differentiated twice."""

    class Driven(ds.ProblemDAE):
        names, variable_index = ("x", "y", "z"), (2, 1, 1)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] - u[2], du[1] + u[1], u[0] - np.sin(t)]

    with pytest.raises(InputError, match=r"declares index 1 of 'z', but its .* give it index 2"):
        ds.solve(Driven(3, 0), u0=[0.0, 1.0, 1.0], t_end=1.0, rtol=1e-6, trace=trace)


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


def mixed_by_unknowns(driven: Any) -> Any:
    """Equations of index 2 in x, y, z with the constraint x y = 1 + driven(t) / 10; unknowns mix the rows."""

    def mixed(t: float, u: Any, du: Any) -> Any:
        x, y, z = u
        P = np.array([[1 + 0.3 * np.sin(x), 0.2, 0.1 * y], [0.1 * x, 1.0, 0.3 * z], [0.2, 0.1 * z * x, 1.0]])
        rows = [du[0] - z - np.cos(t), du[1] + 2.0 * z * y - np.sin(t), x * y - 1.0 - 0.1 * driven(t)]
        return P @ np.array(rows)

    return mixed


def test_a_failed_run_tells_which_ways_to_reduce_its_index_were_tried():
    """Of an input with noise there are no derivatives by differences."""
    mixed = mixed_by_unknowns(lambda t: np.sin(t) + 1e-5 * np.modf(1e5 * np.sin(1e4 * t))[0])
    run = ds.solve(mixed, u0=[1.0, 1.0, 0.9], t_end=1.0, rtol=1e-6, trace=False)
    assert not run.success
    assert "not reduced (by derivatives along t: differences do not agree near t=0)" in run.message


@pytest.mark.parametrize(("rtol", "sweeper"), [(1e-4, None), (1e-6, "radau-iia-5"), (1e-10, None)])
def test_called_equations_whose_rows_are_mixed_by_the_unknowns_hold_30_rtol(rtol, sweeper):
    """The constraint and its derivative leave x' = z + cos t, with y and z functions of x and t."""

    def rest(t: float, x: float) -> tuple[float, float]:
        y = (1.0 + 0.1 * np.sin(t)) / x
        return y, (0.1 * np.cos(t) - y * np.cos(t) - x * np.sin(t)) / (y - 2.0 * x * y)

    run = ds.solve(
        mixed_by_unknowns(np.sin), u0=[1.0, 1.0, 0.9], t_end=0.4, rtol=rtol, trace=False, sweeper=sweeper
    )
    assert run.success and "index 2 reduced to 1" in run.message
    x = solve_ivp(
        lambda t, x: [rest(t, x[0])[1] + np.cos(t)],
        (0.0, 0.4),
        [1.0],
        "DOP853",
        run.t,
        rtol=1e-13,
        atol=1e-14,
    ).y[0]
    exact = np.array([(x, *rest(t, x)) for t, x in zip(run.t, x, strict=True)])
    assert (np.abs(run.u - exact) / (1.0 + np.abs(exact))).max() < 30.0 * rtol


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("rtol", [1e-6, 1e-8])
def test_a_first_step_of_mixed_rows_is_measured_at_its_start(rtol, trace):
    """dF/du' of another point makes an error of the size of z out of the constraint, whatever the step."""

    def exact(t: Any) -> Any:
        return np.array([3.0 + 0.5 * np.sin(t), 2.0 + 0.5 * np.cos(t), np.sin(2.0 * t) + 0.5])

    def mixed(t: float, u: Any, du: Any) -> Any:
        x, y, z = u
        e, f, g = 3.0 + 0.5 * np.sin(t), 2.0 + 0.5 * np.cos(t), np.sin(2.0 * t) + 0.5
        rows = [du[0] - 0.5 * np.cos(t) - z + g, du[1] + 0.5 * np.sin(t) + z * y - g * f, x * y - e * f]
        a = rows[0] + 0.4 * np.cos(y) * rows[1] - 0.7 * np.cos(z) * rows[2]
        b = rows[1] + 0.6 * np.cos(z) * rows[2]
        return [a, 0.7 * np.sin(x) * a + b, 0.6 * np.sin(x) * a - 0.5 * np.sin(y) * b + rows[2]]

    run = ds.solve(mixed, u0=exact(0.0), t_end=2.0, rtol=rtol, trace=trace, reduce=False)
    assert run.success and run.t[1] > 1e-5, run.message
    error = np.abs(run.u - exact(run.t).T) / (1.0 + np.abs(exact(run.t).T))
    assert error.max() < 100.0 * rtol


@pytest.mark.parametrize("rtol", [1e-6, 1e-9])
def test_turning_equations_whose_offsets_are_above_their_index_are_reduced(rtol):
    """v = x0 c - x1 s and w = x0 s + x1 c turn, and so do the rows of v' and x2: offsets tell index 4."""

    def turning(t: float, u: Any, du: Any) -> Any:
        c, s, p, q = np.cos(1.6 * t), np.sin(1.6 * t), np.cos(0.8 * t), np.sin(0.8 * t)
        v, w = c * u[0] - s * u[1], s * u[0] + c * u[1]
        moves = c * du[0] - s * du[1] - 1.6 * w + v - np.cos(t) - np.sin(t)
        held = u[2] - np.sin(2.0 * t)
        rows = [p * held - q * moves, du[2] + u[4] - 3.0 * np.cos(2.0 * t), q * held + p * moves]
        return [*rows, u[3] - np.sin(1.2 * t), du[3] + w - 1.2 * np.cos(1.2 * t) - np.cos(t)]

    run = ds.solve(turning, u0=[0.0, 1.0, 0.0, 0.0, 1.0], t_end=2.0, rtol=rtol)
    assert run.success and "index 2 reduced to 1 first" in run.message, run.message
    t = run.t
    c, s, v, w = np.cos(1.6 * t), np.sin(1.6 * t), np.sin(t), np.cos(t)
    exact = np.array([c * v + s * w, c * w - s * v, np.sin(2.0 * t), np.sin(1.2 * t), np.cos(2.0 * t)]).T
    assert (np.abs(run.u - exact) / (1.0 + np.abs(exact))).max() < 100.0 * rtol


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


@pytest.mark.parametrize(
    ("sweeper", "rtol", "seed"),
    covering_pairs(
        product((None, "radau-iia-5", "fully-implicit"), (1e-5, 1e-7, 1e-9, 1e-11), range(100, 103))
    ),
)
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


@pytest.mark.parametrize(
    ("units", "rtol", "seed"),
    covering_pairs(product((False, True), (1e-5, 1e-7, 1e-9, 1e-10), range(100, 103))),
)
def test_called_linear_equations_of_index_2_hold_30_rtol_in_every_unknown(units, rtol, seed):
    equations, solution = pencil(seed)
    scale = 10.0 ** np.random.default_rng(seed).integers(-12, 13, 8) if units else np.ones(8)

    def called(t: float, u: Any, du: Any) -> Any:
        return equations(t, np.asarray(u) / scale, np.asarray(du) / scale)

    run = ds.solve(called, u0=solution(0.0) * scale, t_end=2.0, rtol=rtol, trace=False)
    assert run.success, run.message
    exact = np.array([solution(t) for t in run.t])
    assert (np.abs(run.u / scale - exact) / (1.0 + np.abs(exact))).max() < 30.0 * rtol


def driven(position: Any, velocity: Any, force: Any) -> tuple[Any, Any]:
    """x = position(t), x' = z, v' + v = force(t), w = z + v in other rows and unknowns; values at times."""
    rng = np.random.default_rng(3)
    P, Q = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))

    def equations(t: float, u: Any, du: Any) -> Any:
        (x, z, v, w), slope = Q.T @ np.asarray(u), Q.T @ np.asarray(du)
        return P @ np.array([x - position(t), slope[0] - z, slope[2] + v - force(t), w - z - v])

    def solution(times: Any, v: Any) -> Any:
        z = velocity(times)
        return np.array([position(times), z, v, z + v]).T @ Q.T

    return equations, solution


@pytest.mark.parametrize("rtol", [1e-5, 1e-8])
@pytest.mark.parametrize("kind", ["kink", "begins at 0", "jump of a force", "root at the end"])
def test_derivatives_of_inputs_that_are_not_smooth_are_taken_beside_where_they_are_not(kind, rtol):
    inputs = {
        "kink": (
            lambda t: np.sin(t) + 0.5 * np.abs(t - 0.7),
            lambda t: np.cos(t) + 0.5 * np.where(t > 0.7, 1.0, -1.0),
            np.cos,
        ),
        "begins at 0": (lambda t: np.where(np.asarray(t) < 0.0, 0.0, np.sin(t)), np.cos, np.cos),
        "jump of a force": (np.sin, np.cos, lambda t: 0.0 if t < 0.7 else 1.0),
        "root at the end": (
            lambda t: np.sin(t) + np.sqrt(2.0 - t),
            lambda t: np.cos(t) - 0.5 / np.sqrt(2.0 - t),
            np.cos,
        ),
    }
    equations, solution = driven(*inputs[kind])
    with np.errstate(invalid="ignore"):
        run = ds.solve(equations, u0=solution(np.zeros(1), np.ones(1))[0], t_end=1.9, rtol=rtol, trace=False)
    assert run.success and "index 2 reduced to 1" in run.message
    t = run.t
    v = 0.5 * (np.cos(t) + np.sin(t) + np.exp(-t))
    if kind == "jump of a force":
        v = np.where(t < 0.7, np.exp(-t), 1.0 + (np.exp(-0.7) - 1.0) * np.exp(np.minimum(0.0, 0.7 - t)))
    exact = solution(t, v)
    assert (np.abs(run.u - exact) / (1.0 + np.abs(exact))).max() < 30.0 * rtol


def test_equations_that_are_linear_near_the_start_alone_are_solved_as_they_are():
    """A diode's knee is reached late: beyond it, coefficients that were taken at one state are not those."""

    def equations(t: float, u: Any, du: Any) -> Any:
        x, z, v = u
        knee = max(0.0, v - 1.5)
        rows = [x - np.sin(t), du[0] - z, du[2] - 2.0 * z + knee**2]
        return [rows[0] + rows[1], rows[0] - rows[1] + rows[2], rows[2] + rows[0]]

    run = ds.solve(equations, u0=[0.0, 1.0, 0.0], t_end=2.0, rtol=1e-6, trace=False)
    assert run.success
    assert "solved without reduction of the index: the equations are not linear near t=" in run.message
    reference = ds.solve(equations, u0=[0.0, 1.0, 0.0], t_end=2.0, rtol=1e-9, trace=False, reduce=False)
    assert np.abs(run.u[-1] - reference.u[-1]).max() < 3e-5
