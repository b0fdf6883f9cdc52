"""Wheelset, water tubes and Fekete points: geometry, reduced equations and stored end values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from benchmarks.measuring.scores import scd
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.run.solve import solve

NAMES = ["wheelset", "water-tube", "fekete"]
# Sizes by which unknowns may change for a derivative: part of what the equations are smooth over.
STEPS = {
    "wheelset": np.r_[np.full(5, 1e-6), np.full(6, 1e-5), np.full(4, 1e-6), np.full(2, 1e-6)],
    "water-tube": np.r_[np.full(18, 1e-6), np.full(2, 1.0), np.full(18, 1e-5), np.full(11, 1.0)],
    "fekete": np.full(160, 1e-4),
}


def residual(P: Any, u: Any, du: Any, t: float = 0.0) -> Any:
    return np.asarray(P.eval_f(P.state(u), P.state(du), t))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("c", [0.0, 1e-2, 1.0])
def test_jacobian_is_the_derivative_of_the_residual(name, c):
    P = PROBLEMS[name]()
    rng = np.random.default_rng(5)
    start = np.asarray(P.u_exact(0.0))
    for number in range(2):
        u = start + 30.0 * STEPS[name] * rng.standard_normal(P.n)
        if name == "water-tube":
            # Flows in both directions; the first in all pipes turbulent, the second laminar.
            u[:18] = rng.choice([-1.0, 1.0], 18) * rng.uniform(*((1e-3, 2e-3), (3e-3, 5e-3))[number], 18)
        du = 1e-3 * rng.standard_normal(P.n)
        P.start_step(P.state(u), 0.0)
        matrix = P.jacobian(P.state(u), P.state(du), 7.0, c)
        for k, h in enumerate(STEPS[name]):
            e = h * np.eye(P.n)[k]
            f = [residual(P, u + s * c * e, du + s * e, 7.0) for s in (1.0, -1.0, 2.0, -2.0)]
            slope = (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h)
            # The sizes of the terms that the residual is a sum of.
            terms = np.abs(matrix) @ np.abs(u) + np.abs(P.jacobian(P.state(u), P.state(du), 7.0, 1.0)) @ abs(
                u
            )
            noise = 1e-15 * (terms + 1e-3) / h
            assert np.all(abs(slope - matrix[:, k]) <= noise + 1e-7 * np.abs(matrix[:, k]).max())


@pytest.mark.parametrize("name", NAMES)
def test_solution_is_stored_for_default_parameters_at_both_ends(name):
    P = PROBLEMS[name]()
    start, end = P.interval
    assert P.u_exact(start).shape == (P.n,)
    assert np.array_equal(P.u_exact(end), P.reference_end.u)
    assert P.reference_end.t == end
    assert len(P.variable_index) == P.n
    with pytest.raises(ReferenceRangeError):
        P.u_exact(0.5 * (start + end))
    groups = list(P.groups.values())
    assert [part.start for part in groups[1:]] == [part.stop for part in groups[:-1]]
    assert (groups[0].start, groups[-1].stop) == (0, P.n)


def test_parameters_must_be_numbers_with_a_meaning():
    for parameters in ({"v": 0.0}, {"mu": -0.1}, {"v": np.inf}):
        with pytest.raises(InputError, match="must be positive and finite"):
            PROBLEMS["wheelset"](**parameters)
    with pytest.raises(InputError, match="alpha of Fekete must be finite"):
        PROBLEMS["fekete"](alpha=np.nan)
    with pytest.raises(ReferenceRangeError, match="v=20"):
        PROBLEMS["wheelset"](v=20.0).u_exact(0.0)


# --- wheelset -----------------------------------------------------------------------------------------------


def gap(place: Any, psi: float, xi: float) -> float:
    """Height of a point of a wheel over the rail for the place (x, y, z, theta, phi) of the axle."""
    x, y, _, theta, phi = place
    radius = 0.1 + np.tan(0.0262) * (0.1506 - abs(xi))
    turn = np.array([[np.cos(phi), np.sin(phi)], [-np.sin(phi), np.cos(phi)]])
    # Across and down, in the axes of the axle, then rolled and yawed.
    across, down = turn @ [xi, radius * np.cos(psi)]
    over = x + across * np.cos(theta) - radius * np.sin(psi) * np.sin(theta)
    centre = 0.1506 + 0.06 * np.sin(0.0262)
    rail = np.sqrt(0.06**2 - (abs(over) - centre) ** 2) - 0.06 * np.cos(0.0262) - 0.1
    return float(y - down - rail)


def slopes(function: Any, place: Any, h: float = 1e-6) -> Any:
    place = np.asarray(place, dtype=float)
    return np.array([(function(place + e) - function(place - e)) / (2.0 * h) for e in h * np.eye(len(place))])


@pytest.mark.parametrize("t", [0.0, 10.0])
def test_wheels_touch_the_rails(t):
    P = PROBLEMS["wheelset"]()
    u = np.asarray(P.u_exact(t))
    algebraic = residual(P, u, np.zeros(17))[11:]
    assert np.abs(algebraic).max() < 1e-8
    to_velocity = P.jacobian(P.state(u), P.state(np.zeros(17)), 0.0, 1.0)[15:, 5:10]
    for row, at in enumerate((13, 11)):  # left, right
        psi, xi = u[at : at + 2]
        # The data have seven digits of lengths of 0.1 and angles that differ by as much.
        assert abs(gap(u[:5], psi, xi)) < 1e-7
        # At the point of contact the gap is stationary, and its rate is the constraint of the velocities.
        assert np.abs(slopes(lambda w: gap(u[:5], w[0], w[1]), [psi, xi])).max() < 1e-7
        gradient = slopes(lambda w, a=psi, b=xi: gap(w, a, b), u[:5])
        assert np.abs(gradient + to_velocity[row]).max() < 1e-8


def test_wheelset_carries_its_weight_and_turns_freely():
    P = PROBLEMS["wheelset"]()
    u = np.asarray(P.u_exact(0.0))
    # Without friction the forces on the wheels are normal to the track, and nothing turns the axle but the
    # suspension, whose torque has the sine of the small roll angle.
    free = PROBLEMS["wheelset"](mu=1e-12)
    force = residual(free, u, np.zeros(17))
    assert force[6] == pytest.approx(16.08 * 9.81 + 1e4 * (u[15] + u[16]), abs=1e-6)
    assert abs(force[10] - 2.0 * 0.19**2 * 6400.0 * u[3] * np.sin(u[4])) < 1e-6
    # With it the rates of the test set, given with 16 digits, follow.
    rates = [-1.975258894011285, -0.0010898297102811276, 0.07885508362614259]
    rates += [-5.533362821731549, -0.3487021489546511, -2.132968724380927]
    stated = u.copy()
    stated[15:] = -0.0083593, -0.0074144
    du = np.zeros(17)
    du[5:11] = rates
    assert np.abs(residual(P, stated, du)[:11]).max() < 2e-13


def test_wheelset_is_where_the_reference_says_after_ten_seconds():
    # Errors of this method fall with the third power of the step, and steps of 4 ms are long for it.
    result = solve("wheelset", sweeper="radau-iia-5", dt=4e-3)
    assert scd(PROBLEMS["wheelset"](), result.u[-1]) > 1.3


# --- water tubes --------------------------------------------------------------------------------------------

PIPES = "1-2 2-3 2-6 3-4 3-5 4-5 5-10 6-5 7-4 7-8 8-5 8-10 9-8 11-9 11-12 12-7 12-8 13-11"
NODES = [5, 8, 1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13]
AREA = np.pi / 4.0
CRITICAL_FLOW = 2300.0 * 1.31e-6 * AREA
INERTIA = 1e6 / AREA
CAPACITY = 200.0 / 9800.0


class ReducedNetwork:
    """The network as ordinary differential equations of flows and buffers: pressures are solved for."""

    def __init__(self) -> None:
        self.incidence = np.zeros((13, 18))
        for k, pipe in enumerate(PIPES.split()):
            start, end = (NODES.index(int(node)) for node in pipe.split("-"))
            self.incidence[start, k], self.incidence[end, k] = -1.0, 1.0
        self.buffers, self.others = self.incidence[:2], self.incidence[2:]
        self.to_pressures = np.linalg.inv(self.others @ self.others.T)
        self.turbulent = np.zeros(18, dtype=bool)

    @staticmethod
    def resistance(flow: Any) -> Any:
        """Colebrook's law by Newton's method for one over its root."""
        reynolds = np.maximum(abs(flow) / (1.31e-6 * AREA), 2300.0)
        y = np.full(18, 4.6)
        for _ in range(6):
            inside = 4e-4 + 18.7 * y / reynolds
            f = y - 1.74 + 2.0 * np.log10(inside)
            y -= f / (1.0 + 2.0 / np.log(10.0) * 18.7 / reynolds / inside)
        return y**-2

    @staticmethod
    def inflow_rates(t: float) -> Any:
        h = t / 3600.0
        rates = np.zeros(11)
        swing = np.sin(1.0 - np.exp(-h)) * np.exp(-h)
        rates[0], rates[10] = swing / 200.0, swing / 80.0
        rates[7] = -h * (12.0 * h**2 - 276.0 * h + 1440.0) / 1e6
        return rates / 3600.0

    def pressures_and_rates(self, t: float, y: Any) -> tuple[Any, Any]:
        flow, buffers = y[:18], y[18:]
        friction = 32.0 * 1.31 / AREA * flow
        if self.turbulent.any():
            fast = self.resistance(flow) * 1e6 * flow**2 / AREA**2
            friction = np.where(self.turbulent, fast, friction)
        drive = -self.buffers.T @ buffers - friction
        others = self.to_pressures @ (self.others @ drive + INERTIA * self.inflow_rates(t))
        return others, np.r_[(drive - self.others.T @ others) / INERTIA, self.buffers @ flow / CAPACITY]

    def run(self, until: float, rtol: float) -> Any:
        """Times and states at every change of a flow, and the regimes after it; last, those at the end."""
        t, y, changes = 0.0, np.r_[np.zeros(18), 109800.0, 109800.0], []

        def left(t: float, y: Any) -> float:
            excess = abs(y[:18]) / CRITICAL_FLOW - 1.0
            # Two pipes in a row leave together and change together.
            return float(np.where(self.turbulent, -excess, excess).max() - 1e-13)

        left.terminal, left.direction = True, 1.0  # type: ignore[attr-defined]
        atol = rtol * np.r_[np.full(18, 1e-3), 1e5, 1e5]
        while t < until:
            found = solve_ivp(
                lambda t, y: self.pressures_and_rates(t, y)[1],
                (t, until),
                y,
                "DOP853",
                rtol=rtol,
                atol=atol,
                events=left,
                max_step=400.0,
            )
            assert found.success
            t, y = float(found.t[-1]), found.y[:, -1]
            if found.status == 1:
                excess = abs(y[:18]) / CRITICAL_FLOW - 1.0
                self.turbulent = self.turbulent ^ (abs(excess) < 1e-10)
            changes.append((t, y, self.turbulent.copy()))
        return changes

    def state(self, t: float, y: Any) -> tuple[Any, Any]:
        """The state of the DAE and its derivative as far as its equations contain it."""
        others, rates = self.pressures_and_rates(t, y)
        return np.r_[y, self.resistance(y[:18]), others], np.r_[rates, np.zeros(29)]


@pytest.fixture(scope="module")
def changes() -> Any:
    network = ReducedNetwork()
    return network, network.run(61200.0, 1e-10)


def test_water_network_agrees_with_its_reduced_equations(changes):
    network, found = changes
    P = PROBLEMS["water-tube"]()
    for t, y, regimes in found:
        network.turbulent = regimes
        u, du = network.state(t, y)
        P.start_step(P.state(u), t)
        # Flows that count as critical may be below it by 1e-10.
        scale = np.repeat([1e-9, 1e-16, 1e-9, 1e-11], [18, 2, 18, 11])
        assert np.all(np.abs(residual(P, u, du, t)) <= scale)
    assert scd(P, u) > 8.0


def test_flows_change_their_kind_when_they_pass_the_critical_number(changes):
    network, found = changes
    P = PROBLEMS["water-tube"]()
    times = [3535.507, 6864.282, 9200.968, 10489.172, 12207.431, 47693.833, 48165.506, 58324.300, 59090.401]
    assert [t for t, _, _ in found[:-1]] == pytest.approx(times, abs=2e-3)
    counts = [0, *(int(after.sum()) for _, _, after in found[:-1])]
    # Both directions occur, and so does a pair of pipes.
    assert np.diff(counts).tolist() == [1, 1, 2, 1, 1, -1, -1, 1, 1]
    before = np.zeros(18, dtype=bool)
    for t, y, after in found[:-1]:
        # The pressures at an event may be those of either kind of flow: they are not looked at.
        for kind in (before, after):
            network.turbulent = kind
            u, _ = network.state(t, y)
            P.turbulent = tuple(before.tolist())
            assert abs(P.event(P.state(u), t)) < 1e-10
            P.start_step(P.state(u), t)
            assert P.turbulent == tuple(after.tolist())
            assert np.array_equal(P.packed_parameters, after)
        # A moment later no pipe has left its kind of flow, a moment earlier one would have.
        _, rates = network.pressures_and_rates(t, y)
        assert P.event(P.state(np.r_[y + 10.0 * rates, u[20:]]), t + 10.0) < -1e-4
        assert P.event(P.state(np.r_[y - 10.0 * rates, u[20:]]), t - 10.0) > 1e-4
        before = after


def test_water_network_runs_through_a_change_of_flow(changes):
    _, found = changes
    t, y, _ = found[0]
    P = PROBLEMS["water-tube"]()
    first = solve(P, sweeper="radau-iia-5", dt=t / 200, t_end=t)
    # Fifth order in steps of 18 s, with swings between the buffers of period 514 s.
    assert first.u[-1][:20] == pytest.approx(y, rel=1e-7)
    reached = P.state(first.u[-1])
    assert abs(P.event(reached, t)) < 1e-9
    t2, y2, _ = found[1]
    P.start_step(P.state(np.r_[y, reached[20:]]), t)
    assert P.turbulent == (*(False,) * 17, True)
    # From the state at the change, whose pressures are those before it, but jump.
    second = solve(P, sweeper="radau-iia-5", u0=np.r_[y, reached[20:]], t0=t, dt=(t2 - t) / 200, t_end=t2)
    assert second.u[-1][:20] == pytest.approx(y2, rel=1e-7)


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_water_network_is_right_at_all_changes_of_flow(changes, rtol):
    _, found = changes
    solution = solve("water-tube", rtol=rtol)
    assert solution.success
    located = np.sort(np.concatenate([record.t for record in solution.switches]))
    times = np.array([t for t, _, _ in found])
    # The two pipes of a pair change together, which is two switches.
    kinds = np.array([np.zeros(18, dtype=bool), *(after for _, _, after in found)])
    exact = np.repeat(times, (kinds[1:] != kinds[:-1]).sum(axis=1))
    assert np.allclose(located, exact, rtol=0.0, atol=10.0 * rtol * 61200.0)
    states = np.array([y for _, y, _ in found])
    sizes = np.abs(states).max(axis=0)
    assert (np.abs(solution(times)[:, :20] - states) <= 10.0 * rtol * sizes).all()


# --- Fekete points ------------------------------------------------------------------------------------------


def forces(points: Any) -> Any:
    apart = points[:, None] - points[None]
    square = np.sum(apart**2, axis=2) + np.eye(len(points))
    return np.sum(apart / square[..., None], axis=1)


def reduced_fekete(t: float, y: Any) -> Any:
    """Motion on the sphere: forces along it, and the acceleration that keeps a point on it."""
    p, q = y.reshape(2, 20, 3)
    f = forces(p) - 0.5 * q
    f -= p * (np.sum(p * f, axis=1) + np.sum(q * q, axis=1))[:, None]
    return np.r_[q.ravel(), f.ravel()]


def test_fekete_points_start_at_rest_on_the_sphere_with_their_multipliers():
    P = PROBLEMS["fekete"]()
    u = np.asarray(P.u_exact(0.0))
    du = np.zeros(160)
    du[:120] = reduced_fekete(0.0, u[:120])
    assert np.abs(residual(P, u, du)).max() < 1e-14
    # Tangential accelerations: the derivative of the velocity constraint vanishes too.
    assert np.abs(np.sum(u[:60].reshape(20, 3) * du[60:120].reshape(20, 3), axis=1)).max() < 1e-14


def test_fekete_points_move_by_the_reduced_equations():
    P = PROBLEMS["fekete"]()
    start = np.asarray(P.u_exact(0.0))
    found = solve_ivp(reduced_fekete, (0.0, 2.0), start[:120], "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    end = np.asarray(solve(P, sweeper="radau-iia-5", dt=0.05, t_end=2.0).u[-1])
    assert np.abs(end[:120] - found).max() < 1e-7
    p, q = found.reshape(2, 20, 3)
    # The multiplier balances the force along the radius and gives the centripetal acceleration.
    lam = -0.5 * (np.sum(p * forces(p), axis=1) + np.sum(q * q, axis=1))
    assert np.abs(end[120:140] - lam).max() < 1e-5
    assert np.abs(end[140:]).max() < 1e-6


def test_fekete_points_come_to_rest_where_the_reference_says():
    P = PROBLEMS["fekete"]()
    start = np.asarray(P.u_exact(0.0))[:120]
    found = solve_ivp(reduced_fekete, (0.0, 1000.0), start, "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    assert scd(P, np.r_[found, np.zeros(40)]) > 8.0
    end = np.asarray(P.reference_end.u)
    # Radial forces of (n - 1)/2 on every one of the 20 points, and no others.
    p = end[:60].reshape(20, 3)
    assert np.abs(forces(p) - 9.5 * p).max() < 1e-8
    assert (
        np.abs(
            residual(P, np.r_[end[:60], np.zeros(60), np.full(20, -4.75), np.zeros(20)], np.zeros(160))
        ).max()
        < 1e-8
    )
