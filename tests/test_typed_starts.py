"""Starts typed in a few digits, and coordinates that begin at 0 or at a jump."""

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.dae.jacobian import improve_differences, linearize
from dae_sdc.dae.scales import measured_noise

MASSES, GRAVITY = (1.3, 0.7), 9.81
CRANK, ROD = 0.4, 1.2


def constraints(q):
    """Positions of the joints of a slider-crank, g and its gradient."""
    x0, y0, x1, y1 = q
    g = np.array([x0**2 + y0**2 - CRANK**2, (x1 - x0) ** 2 + (y1 - y0) ** 2 - ROD**2, y1])
    gradient = np.array(
        [
            [2 * x0, 2 * y0, 0.0, 0.0],
            [-2 * (x1 - x0), -2 * (y1 - y0), 2 * (x1 - x0), 2 * (y1 - y0)],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    return g, gradient


def multipliers(q, v):
    """Forces of the joints that follow from the second derivatives of g."""
    _, G = constraints(q)
    mass = np.repeat(MASSES, 2)
    pull = np.array([0.0, -MASSES[0] * GRAVITY, 0.0, -MASSES[1] * GRAVITY])
    far = v[2:] - v[:2]
    gamma = np.array([2 * v[:2] @ v[:2], 2 * far @ far, 0.0])
    return np.linalg.solve(G / mass @ G.T, G / mass @ pull + gamma)


def slider_crank(index):
    def function(t, u, du):
        x0, y0, x1, y1, vx0, vy0, vx1, vy1, f0, f1, f2 = u
        rows = [du[0] - vx0, du[1] - vy0, du[2] - vx1, du[3] - vy1]
        rows += [
            MASSES[0] * du[4] + 2 * x0 * f0 - 2 * (x1 - x0) * f1,
            MASSES[0] * (du[5] + GRAVITY) + 2 * y0 * f0 - 2 * (y1 - y0) * f1,
            MASSES[1] * du[6] + 2 * (x1 - x0) * f1,
            MASSES[1] * (du[7] + GRAVITY) + 2 * (y1 - y0) * f1 + f2,
        ]
        if index == 3:
            return [*rows, x0**2 + y0**2 - CRANK**2, (x1 - x0) ** 2 + (y1 - y0) ** 2 - ROD**2, y1]
        return [
            *rows,
            x0 * vx0 + y0 * vy0,
            (x1 - x0) * (vx1 - vx0) + (y1 - y0) * (vy1 - vy0),
            vy1,
        ]

    return function


def typed(digits):
    q = np.array([CRANK * np.cos(4.6), CRANK * np.sin(4.6), 0.0, 0.0])
    q[2] = q[0] + np.sqrt(ROD**2 - q[1] ** 2)
    free = np.linalg.svd(constraints(q)[1])[2][-1]
    v = 0.9 * free
    return np.concatenate([q, v, multipliers(q, v)]).round(digits)


@pytest.mark.parametrize("digits", [6, 8])
@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("index", [2, 3])
def test_typed_start_of_a_coordinate_that_stays_at_zero(index, trace, digits):
    """A projection moves the 0 of the slider by rounding, which is no size of it: multipliers are right."""
    rtol = 10.0 ** (2 - digits)
    solution = ds.solve(slider_crank(index), u0=typed(digits), t_end=0.6, rtol=rtol, trace=trace)
    assert solution.success, solution.message
    exact = np.array([multipliers(u[:4], u[4:8]) for u in solution.u])
    error = np.abs(solution.u[:, 8:] - exact) / (1.0 + np.abs(exact))
    if trace is None:
        assert error.max() < 30.0 * rtol
    else:
        # Functions that are called keep what the error estimate allows at the index, by their tests.
        assert error[0].max() < 30.0 * rtol


def nearest(point, scale):
    """The least change of (q, v), in units of ``scale``, with which q and v satisfy the constraints."""
    x = point.copy()
    for _ in range(50):
        q, v = x[:4], x[4:]
        g, G = constraints(q)
        h = 1e-6
        turned = np.array(
            [(constraints(q + h * e)[1] @ v - constraints(q - h * e)[1] @ v) / (2 * h) for e in np.eye(4)]
        ).T
        A = np.block([[G, np.zeros((3, 4))], [turned, G]]) * scale
        right = -np.concatenate([g, G @ v]) + A @ ((x - point) / scale)
        x = point + scale * (np.linalg.pinv(A) @ right)
    return x


def test_projected_start_is_the_nearest():
    """A start typed in 6 digits is moved by no more than is needed, in units of 1 plus each value."""
    start = typed(6)
    solution = ds.solve(slider_crank(3), u0=start, t_end=0.01, rtol=1e-8)
    point, scale = start[:8], 1.0 + np.abs(start[:8])
    moved = np.linalg.norm((solution.u[0, :8] - point) / scale)
    least = np.linalg.norm((nearest(point, scale) - point) / scale)
    # Places are projected before speeds, which may cost a little.
    assert 0.0 < least <= moved * (1.0 + 1e-6)
    assert moved < 1.5 * least


def jumping(border):
    """A smooth function of the state with a jump at a border of the second unknown."""

    def function(t, u, du):
        wave = 0.5 + 0.5 * np.sign(u[1] - border)
        return [du[0] + u[0] ** 2 - wave, du[1] - 1.0 + 0.1 * u[1]]

    return ds.FunctionProblem(function, 2)


@pytest.mark.parametrize("border", [0.0, 1e-9, -1e-9, 1e-7, -3e-7, 2e-6, -5e-6])
def test_differences_beside_a_jump_are_slopes(border):
    """Slopes are those on one side, 2 u and 0.1, and a jump nearby is no noise of F."""
    problem = jumping(border)
    u, du = problem.state([0.5, 0.0]), problem.state([0.0, 1.0])
    assert improve_differences(problem)
    stiffness = np.asarray(linearize(problem, u, du, 0.0).stiffness)
    np.testing.assert_allclose(stiffness, [[1.0, 0.0], [0.0, 0.1]], atol=1e-5)
    assert measured_noise(problem, np.array(u), np.array(du), 0.0) is None


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_called_square_wave_of_a_state_that_begins_at_its_border(rtol):
    """x' + x = w(s) with s' = 1 from s = 0, a wave that begins at its border: a sum of exponentials."""
    half, end = 0.7, 3.0

    def function(t, u, du):
        return [du[0] + u[0] - np.where(u[1] % (2.0 * half) < half, 1.0, 0.0), du[1] - 1.0]

    solution = ds.solve(function, u0=[0.5, 0.0], t_end=end, rtol=rtol, trace=False)
    assert solution.success, solution.message
    exact, t = 0.5 * np.exp(-solution.t), solution.t
    for begin in (0.0, 2 * half, 4 * half):
        first, last = np.minimum(t, begin), np.minimum(t, begin + half)
        exact += np.exp(-(t - last)) - np.exp(-(t - first))
    assert np.abs(solution.u[:, 0] - exact).max() < 100 * rtol * 2


def test_differences_stay_where_a_function_is_defined():
    """A diode that blocks: where central differences by a large size overflow, those of order 1 do not."""
    problem = ds.FunctionProblem(lambda t, u, du: [du[0] + u[0], u[1] - np.exp(-u[1] / 0.025)], 2)
    assert improve_differences(problem)
    problem.run_scales.unknowns[:] = 2.0**22
    with np.errstate(over="ignore"):
        stiffness = linearize(problem, problem.state([0.0, 1.0]), problem.state([0.0, 0.0]), 0.0).stiffness
    np.testing.assert_allclose(stiffness, [[1.0, 0.0], [0.0, 1.0]], rtol=1e-6)
