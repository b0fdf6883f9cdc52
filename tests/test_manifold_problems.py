"""The elastic pendulum and the problems on manifolds: kernels, solutions and references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import ellipk

import dae_sdc as ds
from dae_sdc.constrained.quasilinear import QuasilinearProblem
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InconsistentStateError, InputError, ReferenceRangeError

CLASSES: dict[str, Any] = {
    name: entry for name, entry in PROBLEMS.items() if issubclass(entry, QuasilinearProblem)
}
MECHANICS = [name for name, entry in CLASSES.items() if entry().kind in ("daeq3", "eulag", "nohol")]
KINDS = {
    **{"rigid-pendulum": "eulag", "seven-body": "eulag", "rigid-slider-crank": "eulag"},
    **{"torus-particle": "daeq3", "skate": "nohol", "rolling-disk": "nohol"},
    **{"figure-eight": "daen1", "catalyst": "daeq1"},
}
# Solutions that are known at any time.
CLOSED = ["rigid-pendulum", "torus-particle", "skate", "rolling-disk", "figure-eight"]
# Parameters other than the defaults, so that none of them is forgotten in an equation.
OTHER: dict[str, dict[str, float]] = {
    "rigid-pendulum": {"gravity": 3.7},
    "torus-particle": {"rho": 2.0, "r": 3.5},
    "rigid-slider-crank": {
        **{"m1": 1.3, "m2": 0.7, "m3": 2.1, "l1": 0.4, "l2": 0.9, "J3": 0.05},
        **{"gravity": 5.0, "torque": 9.0},
    },
    "skate": {"alpha": 0.3},
    "rolling-disk": {"m": 1.7, "R": 0.6, "J_theta": 0.2, "J_phi": 0.9},
}


def make(name: str, other: bool) -> Any:
    return CLASSES[name](**(OTHER.get(name, {}) if other else {}))


def call(problem: Any, part: str, shape: tuple[int, ...], t: float, u: Any, v: Any = ()) -> Vector:
    """What a kernel writes, by its Python code, which is that of the equations."""
    out = np.full(math.prod(shape), np.nan)
    kernel = getattr(type(problem), f"{part}_kernel")
    if kernel is None and part in ("dg_dt", "dF_dt") and problem.fixed_constraints:
        return np.zeros(shape)
    if kernel is None:  # it follows from another part
        return np.reshape(problem._part(part.replace("F", "g"), t, np.asarray(u), np.asarray(v)), shape)
    kernel(t, np.asarray(u), np.asarray(v), np.asarray(problem.kernel_parameters(), dtype=float), out)
    return out.reshape(shape)


def slope(function: Callable[[float], Any], s: float) -> Any:
    """Derivative at zero of a function of one number, exact up to s^8."""
    weights = (4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0)
    pairs = enumerate(weights, start=1)
    return sum(w * (function(k * s) - function(-k * s)) for k, w in pairs) / s


def parts(problem: Any, u: Any) -> tuple[Vector, Vector, Vector]:
    """Positions, velocities and multipliers of a state."""
    n, m = problem.n_u, problem.n_constraints
    u = np.asarray(u)
    return u[:n], u[n : 2 * n], u[2 * n : 2 * n + m]


def mechanics(problem: Any, t: float, q: Vector, v: Any) -> tuple[Vector, ...]:
    """A, B, h, g, G, g_t and the rest of the second derivative; for constraints of velocities g is slip."""
    n, m = problem.n_u, problem.n_constraints
    A, h = call(problem, "A", (n, n), t, q, v), call(problem, "h", (n,), t, q, v)
    g, G = call(problem, "g", (m,), t, q, v), call(problem, "dg", (m, n), t, q, v)
    B = call(problem, "B", (n, m), t, q, v) if problem.kind == "daeq3" else G.T
    g_t = call(problem, "dg_dt", (m,), t, q, v)
    rest = g_t if problem.kind == "nohol" else call(problem, "d2g", (m,), t, q, v)
    return A, B, h, g, G, g_t, rest


def equations(problem: Any, t: float, u: Any, du: Vector) -> Vector:
    """F(t, u, u') of the formulation from the parts."""
    n, m = problem.n_u, problem.n_constraints
    if problem.kind == "daen1":
        return np.append(du[:n] - u[n : 2 * n], call(problem, "F", (m,), t, u))
    if problem.kind == "daeq1":
        balance = call(problem, "A", (n - m, n), t, u) @ du - call(problem, "h", (n - m,), t, u)
        return np.append(balance, call(problem, "g", (m,), t, u))
    q, v, lam = parts(problem, u)
    speed, a, _ = parts(problem, du)
    A, B, h, g, G, g_t, rest = mechanics(problem, t, q, v)
    velocity = speed - v
    last = {"index-1": [G @ a + rest], "index-2": [g if problem.kind == "nohol" else G @ v + g_t]}
    last |= {"index-3": [g], "ggl": [g, G @ v + g_t]}
    if problem.formulation == "ggl":
        velocity = velocity + G.T @ u[2 * n + m :]
    return np.concatenate([velocity, A @ a + B @ lam - h, *last[problem.formulation]])


def slope_along(problem: Any, t: float, u: Vector, du: Vector, way: Vector, turn: Vector) -> Any:
    """Derivative of these when u moves along ``way`` and u' along ``turn``."""
    return slope(lambda s: equations(problem, t, u + s * way, du + s * turn), 0.01)


def accelerations(problem: Any, t: float, q: Vector, v: Any) -> tuple[Vector, Vector]:
    """Accelerations and multipliers from the equations of motion and the constraint on accelerations."""
    A, B, h, _, G, _, rest = mechanics(problem, t, q, v)
    m = len(rest)
    matrix = np.block([[A, B], [G, np.zeros((m, m))]])
    found = np.linalg.solve(matrix, np.concatenate([h, -rest]))
    return found[: len(q)], found[len(q) :]


def integrated(problem: Any, t_end: float, rtol: float = 1e-11, atol: float = 1e-12) -> tuple[Vector, Vector]:
    """Positions and velocities at t_end from the start by DOP853 on the accelerations."""
    start, n = problem.interval[0], problem.n_u
    q, v, _ = parts(problem, problem.u_exact(start))

    def rate(t: float, y: Vector) -> Any:
        return np.append(y[n:], accelerations(problem, t, y[:n], y[n:])[0])

    found = solve_ivp(rate, (start, t_end), np.append(q, v), "DOP853", rtol=rtol, atol=atol)
    return found.y[:n, -1], found.y[n:, -1]


# --- elastic pendulum -----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1.0, 10.0, 100.0, 1000.0, 1500.0])
def test_elastic_pendulum_ends_where_an_integration_does(k: float) -> None:
    problem = PROBLEMS["elastic-pendulum"](k=k)

    def rate(t: float, y: Vector) -> Any:
        pull = k * (1.0 - 1.0 / math.hypot(y[0], y[1]))
        return [y[2], y[3], -pull * y[0], -pull * y[1] - 1.0]

    found = solve_ivp(rate, (0.0, 5.0), [0.5, -1.0, 0.0, 0.0], "DOP853", rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(problem.u_exact(5.0), found.y[:, -1], rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(problem.du_exact(5.0), rate(5.0, problem.u_exact(5.0)), rtol=1e-14)


@pytest.mark.parametrize("k", [1, 10, 100, 1000, 1500])
def test_elastic_pendulum_keeps_its_energy(k: float) -> None:
    problem = PROBLEMS["elastic-pendulum"](k=k)
    first, last = (problem.energy(u[:2], u[2:]) for u in (problem.u_exact(0.0), problem.u_exact(5.0)))
    # From rest: half of k times the square of the stretch, and the height.
    assert first == pytest.approx(0.5 * k * (math.sqrt(1.25) - 1.0) ** 2 - 1.0, rel=1e-14)
    assert last == pytest.approx(first, rel=3e-15, abs=3e-15)


def test_elastic_pendulum_says_what_is_not_stored() -> None:
    problem = PROBLEMS["elastic-pendulum"](k=7.0)
    with pytest.raises(ReferenceRangeError, match=r"k=1, 10, 100, 1000, 1500; this one has k=7"):
        problem.u_exact(5.0)
    with pytest.raises(ReferenceRangeError, match=r"t=0 and t=5 only; got t=2\.5"):
        problem.du_exact(2.5)
    with pytest.raises(InputError, match="k of ElasticPendulum must be positive"):
        PROBLEMS["elastic-pendulum"](k=0.0)


# --- kernels --------------------------------------------------------------------------------------


def test_every_problem_is_of_its_kind() -> None:
    assert {name: entry().kind for name, entry in CLASSES.items()} == KINDS


@pytest.mark.parametrize("t", [0.3, 1.7])
@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("name", MECHANICS)
def test_derivatives_of_constraints_of_mechanics(name: str, other: bool, t: float) -> None:
    problem = make(name, other)
    n, m, rng = problem.n_u, problem.n_constraints, np.random.default_rng(3)
    q, v, _ = parts(problem, problem.u_exact(problem.interval[0]))
    size = max(1.0, np.abs(q).max())
    q, v, direction = q + 0.1 * rng.standard_normal(n), v + rng.standard_normal(n), rng.standard_normal(n)

    def g(t: float, q: Vector, v: Any) -> Vector:
        return call(problem, "g", (m,), t, q, v)

    def rate(t: float, q: Vector) -> Any:
        return call(problem, "dg", (m, n), t, q, v) @ v + call(problem, "dg_dt", (m,), t, q, v)

    if problem.kind == "nohol":
        change = slope(lambda s: g(t, q, v + s * direction), 0.02)
        rest, given = slope(lambda s: g(t + s, q + s * v, v), 0.01), call(problem, "dg_dt", (m,), t, q, v)
    else:
        change, alone = (
            slope(lambda s: g(t, q + s * direction, v), 0.02),
            slope(lambda s: g(t + s, q, v), 0.02),
        )
        np.testing.assert_allclose(call(problem, "dg_dt", (m,), t, q, v), alone, atol=1e-11 * size)
        rest, given = slope(lambda s: rate(t + s, q + s * v), 0.01), call(problem, "d2g", (m,), t, q, v)
    G = call(problem, "dg", (m, n), t, q, v)
    np.testing.assert_allclose(G @ direction, change, rtol=1e-10, atol=1e-10 * size)
    np.testing.assert_allclose(given, rest, rtol=1e-9, atol=1e-9 * size)


@pytest.mark.parametrize("name", ["figure-eight", "catalyst"])
def test_derivatives_of_constraints_of_first_order(name: str) -> None:
    problem = CLASSES[name]()
    part, rows = ("F", 2) if name == "figure-eight" else ("g", 2)
    n, rng = problem.n, np.random.default_rng(4)
    u = np.asarray(problem.u_exact(0.0)) + 0.1 * rng.standard_normal(n)
    direction = rng.standard_normal(n)
    matrix = call(problem, f"d{part}", (rows, n), 0.4, u)
    change = slope(lambda s: call(problem, part, (rows,), 0.4, u + s * direction), 0.002)
    np.testing.assert_allclose(matrix @ direction, change, rtol=1e-10, atol=1e-10)
    assert not call(problem, f"d{part}_dt", (rows,), 0.4, u).any()


@pytest.mark.parametrize("name", MECHANICS)
def test_mass_matrices_are_symmetric_and_positive(name: str) -> None:
    problem, rng = make(name, True), np.random.default_rng(5)
    n = problem.n_u
    q, v, _ = parts(problem, problem.u_exact(problem.interval[0]))
    A = call(problem, "A", (n, n), 0.0, q + 0.3 * rng.standard_normal(n), v)
    assert (A == A.T).all()
    assert np.linalg.eigvalsh(A).min() > 0.0


# --- solutions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("name", MECHANICS)
def test_known_solutions_satisfy_equations_and_hidden_constraints(name: str, other: bool) -> None:
    problem = make(name, other)
    start, end = problem.interval
    times = np.linspace(start, end, 9) if name in CLOSED else [start]
    if name in CLOSED:
        times = [*times, 200.0 * math.pi]
    for t in times:
        q, v, lam = parts(problem, problem.u_exact(t))
        speed, a, _ = parts(problem, problem.du_exact(t))
        A, B, h, g, G, g_t, rest = mechanics(problem, t, q, v)
        size = max(1.0, np.abs(a).max(), np.abs(v).max() ** 2, np.abs(q).max() ** 2, np.abs(lam).max())
        assert (speed == v).all()
        assert np.abs(A @ a + B @ lam - h).max() < 2e-15 * size * max(1.0, np.abs(A).max())
        assert np.abs(g).max() < 2e-15 * size
        if problem.kind != "nohol":
            assert np.abs(G @ v + g_t).max() < 2e-15 * size
        assert np.abs(G @ a + rest).max() < 5e-15 * size


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("name", CLOSED)
def test_derivatives_of_known_solutions(name: str, other: bool) -> None:
    problem = make(name, other)
    for t in (0.4, 1.9, 3.3):
        change = slope(lambda s, t=t: np.asarray(problem.u_exact(t + s)), 0.004)
        np.testing.assert_allclose(problem.du_exact(t), change, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CLASSES)
def test_compiled_equations_are_those_of_the_parts_in_every_formulation(name: str) -> None:
    for formulation in CLASSES[name].formulations:
        problem = CLASSES[name](formulation=formulation, **OTHER.get(name, {}))
        rng, t = np.random.default_rng(7), 0.7
        u, du = rng.uniform(0.5, 1.5, (2, problem.n))
        found = problem.eval_f(problem.state(u), problem.state(du), t)
        np.testing.assert_allclose(found, equations(problem, t, u, du), rtol=1e-13, atol=1e-13)
        for c in (0.0, 0.3):
            matrix = problem.jacobian(problem.state(u), problem.state(du), t, c)
            direction = rng.standard_normal(problem.n)
            change = slope_along(problem, t, u, du, c * direction, direction)
            size = 1.0 + np.abs(matrix) @ np.abs(direction)
            assert (np.abs(matrix @ direction - change) < 1e-10 * size).all()


@pytest.mark.parametrize("name", CLASSES)
def test_known_solutions_satisfy_every_formulation(name: str) -> None:
    for formulation in CLASSES[name].formulations:
        problem = CLASSES[name](formulation=formulation)
        t = problem.interval[1] / 3.0 if name in CLOSED else problem.interval[0]
        u, du = problem.u_exact(t), problem.du_exact(t)
        size = np.abs(problem.jacobian(u, du, t, 1.0)) @ np.maximum(np.abs(u), 1.0)
        assert (np.abs(problem.eval_f(u, du, t)) < 5e-15 * size).all()
        later = problem.eval_f(problem.state(np.asarray(u) + 1e-3), du, t)
        assert np.abs(later).max() > 1e-6


@pytest.mark.parametrize("name", CLASSES)
def test_starts_and_their_multipliers_are_consistent(name: str) -> None:
    for formulation in CLASSES[name].formulations:
        problem = CLASSES[name](formulation=formulation)
        t = problem.interval[0]
        u = problem.u_exact(t)
        problem.check_start(u, t)
        if name in MECHANICS:
            q, v, _ = parts(problem, u)
            np.testing.assert_allclose(problem.consistent(t, q, v), u, rtol=1e-12, atol=1e-12)
        disturbed = problem.state(u)
        disturbed[:] += 1e-3
        with pytest.raises(InconsistentStateError, match="violates"):
            problem.check_start(disturbed, t)


# --- rigid pendulum -------------------------------------------------------------------------------


def test_rigid_pendulum_swings_as_the_angle_does() -> None:
    problem = PROBLEMS["rigid-pendulum"]()
    gravity = 13.7503671
    found = solve_ivp(
        lambda t, y: [y[1], -gravity * math.cos(y[0])],
        (0.0, 4.0),
        [0.0, 0.0],
        "DOP853",
        rtol=1e-12,
        atol=1e-13,
    )
    phi, rate = found.y[:, -1]
    x, y = math.cos(phi), math.sin(phi)
    # The tension balances gravity along the rod and gives the centripetal acceleration.
    expected = [x, y, -y * rate, x * rate, rate**2 - gravity * y]
    np.testing.assert_allclose(problem.u_exact(4.0), expected, rtol=0.0, atol=1e-9)


def test_rigid_pendulum_has_the_period_of_the_complete_elliptic_integral() -> None:
    problem = PROBLEMS["rigid-pendulum"]()
    period = 4.0 * ellipk(0.5) / math.sqrt(13.7503671)
    assert period == pytest.approx(2.00000033, abs=5e-9)
    np.testing.assert_allclose(problem.u_exact(100.0 * period), problem.u_exact(0.0), atol=1e-10)
    lowest = problem.u_exact(0.25 * period)
    # At the bottom: all potential energy is kinetic, and the tension is three times the weight.
    np.testing.assert_allclose(
        lowest, [0.0, -1.0, -math.sqrt(2.0 * 13.7503671), 0.0, 3.0 * 13.7503671], rtol=1e-12, atol=1e-12
    )
    for t in np.linspace(0.0, 4.0, 11):
        q, v, _ = parts(problem, problem.u_exact(t))
        assert abs(problem.energy(q, v)) < 1e-13


# --- particle on a torus --------------------------------------------------------------------------


def test_torus_particle_starts_as_printed_and_moves_by_the_forces_alone() -> None:
    problem = PROBLEMS["torus-particle"]()
    np.testing.assert_array_equal(problem.u_exact(0.0), [15.0, 0.0, 0.0, 0.0, 15.0, -5.0, 0.0])

    def rate(t: float, y: Vector) -> Any:
        s, c = math.sin(t), math.cos(t)
        return [*y[3:], y[5] * c - y[2] * s - y[4], y[5] * s + y[2] * c + y[3], -y[2]]

    start = np.asarray(problem.u_exact(0.0))[:6]
    found = solve_ivp(rate, (0.0, 10.0), start, "DOP853", rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.asarray(problem.u_exact(10.0))[:6], found.y[:, -1], rtol=0.0, atol=1e-9)


# --- seven bodies ---------------------------------------------------------------------------------


def test_seven_body_has_the_equations_of_andrews() -> None:
    problem, other = PROBLEMS["seven-body"](), PROBLEMS["andrews"]()
    rng = np.random.default_rng(6)
    for _ in range(3):
        q, v, a = (scale * rng.standard_normal(7) for scale in (1.0, 100.0, 1e4))
        lam = 100.0 * rng.standard_normal(6)
        A, B, h, g, *_ = mechanics(problem, 0.0, q, v)
        u, du = other.state(np.concatenate([q, v, a, lam])), other.state(np.concatenate([v, a, np.zeros(13)]))
        expected = np.concatenate([np.zeros(14), A @ a + B @ lam - h, g])
        np.testing.assert_allclose(other.eval_f(u, du, 0.0), expected, rtol=1e-13, atol=1e-13)


def test_seven_body_reaches_its_reference_by_an_integration_of_the_accelerations() -> None:
    problem = PROBLEMS["seven-body"]()
    q, v = integrated(problem, 0.03, rtol=1e-10, atol=1e-10)
    reference = np.asarray(problem.u_exact(0.03))
    np.testing.assert_allclose(q, reference[:7], rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(v, reference[7:14], rtol=0.0, atol=1e-5)
    # Nine digits on which the test set and later computations agree.
    np.testing.assert_allclose(reference[:2], [15.810771195154, -15.756371058412], rtol=0.0, atol=5e-9)
    _, lam = accelerations(problem, 0.03, reference[:7], reference[7:14])
    np.testing.assert_allclose(lam, reference[14:], rtol=1e-10)


# --- slider crank ---------------------------------------------------------------------------------


def crank_by_angle(problem: Any, t_end: float) -> Vector:
    """Angle and angular velocity of the crank from Lagrange's equation in the angle alone."""
    m1, m2, m3, l1, l2 = problem.m1, problem.m2, problem.m3, problem.l1, problem.l2

    def inertia(phi: Any) -> Any:
        """Twice the kinetic energy at unit angular velocity: the bodies by Koenig's theorem."""
        s, c = np.sin(phi), np.cos(phi)
        rod = np.sqrt(1.0 - (l1 * s / l2) ** 2)
        turn = l1 * c / (l2 * rod)  # rate of the rod against that of the crank
        middle = (-l1 * s - 0.5 * l1 * s * turn, 0.5 * l1 * c)
        slider = -l1 * s - l1 * s * turn
        bodies = m1 * l1**2 / 3.0 + m2 * (middle[0] ** 2 + middle[1] ** 2 + l2**2 * turn**2 / 12.0)
        return bodies + m3 * slider**2

    def rate(t: float, y: Vector) -> Any:
        phi, speed = y
        moment = problem.torque - problem.gravity * 0.5 * (m1 + m2) * l1 * math.cos(phi)
        change = inertia(phi + 1e-30j).imag / 1e-30
        return [speed, (moment - 0.5 * change * speed**2) / inertia(phi)]

    times = np.linspace(0.0, t_end, 5)
    found = solve_ivp(rate, (0.0, t_end), [0.25 * math.pi, 0.0], "DOP853", times, rtol=1e-11, atol=1e-12)
    return found.y


@pytest.mark.parametrize("other", [False, True])
def test_rigid_slider_crank_moves_as_its_crank_angle_does(other: bool) -> None:
    problem = make("rigid-slider-crank", other)
    phi, speed = crank_by_angle(problem, 2.0)
    assert abs(phi[-1] - phi[0]) > 0.1
    if other:
        assert phi[-1] - phi[0] > 2.0 * math.pi  # all positions of the crank
    q, v = integrated(problem, 2.0, rtol=1e-10, atol=1e-11)
    expected = problem.assembled(phi[-1], speed[-1])
    np.testing.assert_allclose(q, expected[0], rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(v, expected[1], rtol=0.0, atol=1e-6)
    energies = [problem.energy(*problem.assembled(*at)) for at in zip(phi, speed, strict=True)]
    work = problem.torque * (phi[-1] - phi[0])
    np.testing.assert_allclose(energies, energies[0], rtol=0.0, atol=1e-8 * max(1.0, work))


def test_assembled_slider_crank_closes_at_every_angle() -> None:
    problem = make("rigid-slider-crank", True)
    for phi in np.linspace(-7.0, 7.0, 15):
        q, v = problem.assembled(phi, 1.7)
        _, _, _, g, G, _, _ = mechanics(problem, 0.0, q, v)
        assert np.abs(g).max() < 1e-15
        assert np.abs(G @ v).max() < 3e-15
        np.testing.assert_allclose(
            slope(lambda s, phi=phi: problem.assembled(phi + 1.7 * s)[0], 0.01), v, atol=1e-11
        )


def test_bearing_of_the_slider_crank_takes_what_moves_the_masses() -> None:
    problem = make("rigid-slider-crank", True)
    q, v = problem.assembled(0.8, 3.0)
    a, lam = accelerations(problem, 0.0, q, v)
    masses = np.array([problem.m1, problem.m2, problem.m3])
    # Newton's law for all bodies together: pins inside cancel, bearing and guide hold them up.
    assert -lam[0] == pytest.approx(masses @ a[0::3], rel=1e-12)
    assert -lam[1] - lam[6] == pytest.approx(masses @ (a[1::3] + problem.gravity), rel=1e-12)


# --- nonholonomic ---------------------------------------------------------------------------------


def test_skate_moves_sideways_and_keeps_its_energy() -> None:
    problem = PROBLEMS["skate"]()
    for t in np.linspace(0.0, 10.0, 9):
        q, v, lam = parts(problem, problem.u_exact(t))
        assert abs(problem.energy(q, v)) < 1e-14
        assert 0.0 <= q[0] <= 0.5 * math.sin(0.8)
        assert lam[0] == pytest.approx(-2.0 * math.sin(0.8) * math.sin(t), abs=1e-15)
    q, v = integrated(problem, 10.0)
    np.testing.assert_allclose(np.append(q, v), np.asarray(problem.u_exact(10.0))[:4], rtol=0.0, atol=1e-9)


def test_rolling_disk_runs_on_a_circle() -> None:
    problem = make("rolling-disk", True)
    radius = 0.6 * 2.0 / 0.5
    for t in np.linspace(0.0, 10.0, 9):
        q, v, _ = parts(problem, problem.u_exact(t))
        assert math.hypot(q[0], q[1] - radius) == pytest.approx(radius, rel=1e-13)
        assert problem.energy(q, v) == pytest.approx(problem.energy(q, np.asarray(problem.u_exact(0.0))[4:8]))
    q, v = integrated(problem, 5.0)
    np.testing.assert_allclose(np.append(q, v), np.asarray(problem.u_exact(5.0))[:8], rtol=0.0, atol=1e-9)


# --- first order ----------------------------------------------------------------------------------


def test_figure_eight_is_singular_where_its_speed_vanishes() -> None:
    problem = PROBLEMS["figure-eight"]()
    for t in np.linspace(0.0, 6.0, 13):
        u = np.asarray(problem.u_exact(t))
        assert np.abs(call(problem, "F", (2,), t, u)).max() < 1e-15
        square = call(problem, "dF", (2, 3), t, u)[:, 1:]
        assert np.linalg.det(square) == pytest.approx(-2.0 * math.cos(t), abs=1e-15)
        # The tangent of the curve: u' and the kernel of dF, which is regular in the singular points too.
        tangent = np.asarray(problem.du_exact(t))
        assert np.abs(call(problem, "dF", (2, 3), t, u) @ tangent).max() < 1e-14
        assert np.linalg.matrix_rank(call(problem, "dF", (2, 3), t, u)) == 2


def test_catalyst_ends_where_an_integration_without_algebraic_unknowns_does() -> None:
    problem = PROBLEMS["catalyst"]()
    jk, jd, jh = 143.8, 2.63, 5.26
    cc2, cc3 = 0.249 / 2.63, 0.478 * 0.249

    def surface(y: Vector) -> tuple[float, float]:
        def heat(x: float) -> float:
            e = math.exp(10.0 * (1.0 - 1.0 / x))
            return jh * (y[1] - x) + jk * (y[2] - x) - cc3 * y[0] / (1.0 + cc2 * e) * e

        x = brentq(heat, 1.0, 2.0, xtol=1e-15, rtol=1e-15)
        return x, y[0] / (1.0 + cc2 * math.exp(10.0 * (1.0 - 1.0 / x)))

    def rate(t: float, y: Vector) -> Any:
        u5, u6 = surface(y)
        return [-jd * (y[0] - u6), -jh * (y[1] - u5), y[3], 0.2 * jk * (2.0 * y[2] - u5 - 1.5)]

    start = [1.0, 1.0, 1.486788276286347, 0.0]
    np.testing.assert_allclose(problem.u_exact(0.0), [*start, *surface(start)], rtol=1e-14)
    found = solve_ivp(rate, (0.0, 1.0), start, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    # Errors grow by up to 614 on the way.
    np.testing.assert_allclose(problem.u_exact(1.0), [*found, *surface(found)], rtol=0.0, atol=1e-9)
    published = [0.15147091, 1.5006082, 1.5147086, 0.090892323, 1.5132685, 0.039717543]
    np.testing.assert_allclose(problem.u_exact(1.0), published, rtol=0.0, atol=5e-7)
    for t in (0.0, 1.0):
        u, du = np.asarray(problem.u_exact(t)), np.asarray(problem.du_exact(t))
        np.testing.assert_allclose(du[:4], rate(t, u), rtol=1e-12, atol=1e-13)
        assert np.abs(call(problem, "dg", (2, 6), t, u) @ du).max() < 1e-12


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("rigid-pendulum", {"gravity": -1.0}, "gravity of RigidPendulum must be positive"),
        ("torus-particle", {"rho": 10.0}, "rho of TorusParticle must be less than r=10"),
        ("rigid-slider-crank", {"l1": 1.0}, "l1 of RigidSliderCrank must be less than l2=1"),
        ("rolling-disk", {"R": 0.0}, "R of RollingDisk must be positive"),
        ("skate", {"alpha": math.inf}, "alpha of Skate must be finite"),
    ],
)
def test_impossible_parameters_are_refused(name: str, arguments: dict[str, float], text: str) -> None:
    with pytest.raises(InputError, match=text):
        PROBLEMS[name](**arguments)


@pytest.mark.parametrize("name", ["seven-body", "rigid-slider-crank", "catalyst"])
def test_times_without_a_reference_are_refused(name: str) -> None:
    problem = PROBLEMS[name]()
    t = problem.interval[1] / 3.0
    for ask in (problem.u_exact, problem.du_exact):
        with pytest.raises(ReferenceRangeError, match=rf"{type(problem).__name__} is .* got t={t:g}"):
            ask(t)


class SkateWithoutRates(PROBLEMS["skate"]):  # type: ignore[misc]
    dg_dt_kernel = None


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_rounding_of_differenced_constraints_says_nothing_of_sizes_at_rest(rtol: float) -> None:
    problem = SkateWithoutRates(formulation="index-1")
    solution = ds.solve(problem, rtol=rtol)
    exact = np.asarray(problem.u_exact(solution.t[-1]))
    assert solution.success, solution.message
    assert np.abs(solution.u[-1] - exact).max() < 10 * rtol * (1 + np.abs(exact).max())
