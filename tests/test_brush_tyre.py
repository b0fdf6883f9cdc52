"""The brush tyre: its friction against bristles one by one, its limits, energy, structure and rest."""

import math

import numpy as np
import pytest
from scipy.integrate import quad, simpson

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.problems.tyre import BRAKE_AT, BUMP_AT, BrushTyre, brush_force, tread_load


def bristles(a, c_p, slip, limit):
    """The forces of the bristles on [-a, a], each at most that of friction, added up."""

    def force(x):
        pressed = 0.75 * limit * (a * a - x * x) / a**3
        return math.copysign(min(c_p * (a - x) * abs(slip), pressed), slip)

    # Bristles stick from the front, x = a, to where both forces are equal.
    border = min(max(4.0 * a**3 * c_p * abs(slip) / (3.0 * limit) - a, -a), a)
    return sum(quad(force, *part, epsabs=1e-11, epsrel=1e-12)[0] for part in ((-a, border), (border, a)))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.999, 1.0, 1.5, -0.4, -3.0])
def test_the_force_is_that_of_all_bristles(share):
    a, c_p, limit = 0.1, 3e6, 3826.0
    slip = share * 3.0 * limit / (2.0 * c_p * a * a)
    found = brush_force(2.0 * c_p * a * a * slip, limit)
    assert found == pytest.approx(bristles(a, c_p, slip, limit), rel=1e-10)


def test_the_stiffness_at_small_slip_is_that_of_the_bristles():
    a, c_p, limit = 0.1, 3e6, 3826.0
    stiffness, _ = quad(lambda x: c_p * (a - x), -a, a)
    slip = 1e-9
    assert brush_force(2.0 * c_p * a * a * slip, limit) / slip == pytest.approx(stiffness, rel=1e-7)


def test_the_force_grows_with_slip_up_to_friction():
    limit = 2.0
    adhesion = np.linspace(-10.0, 10.0, 2001)
    force = np.array([brush_force(q, limit) for q in adhesion])
    sticks = np.abs(adhesion) < 3.0 * limit
    assert (np.diff(force) >= 0.0).all() and (np.diff(force[sticks]) > 0.0).all()
    assert (force[~sticks] == limit * np.sign(adhesion[~sticks])).all()
    assert force == pytest.approx(-force[::-1], abs=1e-14)
    assert brush_force(1.0, 0.0) == 0.0 and tread_load(3.0, -1.0) == 0.0


@pytest.mark.parametrize("ribs", [1, 2, 5])
def test_structure_start_and_rest(ribs):
    params = {"ribs": ribs}
    structure = ds.structure("brush-tyre", params=params)
    assert structure.index == structure.differentiation_index == 1
    assert structure.dof == 6 + ribs
    start = BrushTyre(ribs=ribs).u_exact(0.0)
    assert not ds.initial("brush-tyre", params=params).changed
    rest = ds.steady_state("brush-tyre", params=params, guess=np.asarray(start) * 1.01, fixed={"v": 25.0})
    assert np.abs(rest.u - start).max() < 1e-9


def test_at_rest_loads_carry_the_car_and_pulls_its_drag():
    problem = BrushTyre(ribs=7, camber=0.05)
    state, torque = problem.cruise()
    z_u, omega, slips = state[1], state[5], state[-7:]
    deflections = problem.offsets() - z_u
    loads = np.array([tread_load(problem.k_t / 7, x) for x in deflections - state[13:20]])
    radii = problem.R - deflections / 3.0
    pulls = [
        brush_force(4.0 * problem.c_p * problem.R / 7 * x * slip, problem.mu * load)
        for x, slip, load in zip(deflections, slips, loads, strict=True)
    ]
    assert loads.sum() == pytest.approx(390.0 * 9.81, rel=1e-12)
    assert sum(pulls) == pytest.approx(0.1 * 25.0**2, rel=1e-9)
    # What the torque does more than drag is lost where ribs of other radii slip.
    assert torque * omega - 25.0 * sum(pulls) == pytest.approx(np.dot(pulls, omega * radii * slips), rel=1e-9)


def test_energy_changes_by_powers_and_losses():
    problem = BrushTyre(B_0=1100.0)
    t = np.linspace(0.0, 1.0, 2001)
    solution = ds.solve(problem, rtol=1e-8, t_eval=t)
    _, z_u, v_s, v_u, v, omega = solution.u[:, :6].T
    _, w, slip = np.split(solution.u[:, 6:], 3, axis=1)
    road = np.array([problem.road(x) for x in t])
    deflections = road[:, None] + problem.offsets() - z_u[:, None]
    loads = 0.2 * problem.k_t * np.maximum(deflections - w, 0.0) ** 1.5
    carried = omega[:, None] * (problem.R - deflections / 3.0)
    adhesion = 0.8 * problem.c_p * problem.R * np.maximum(deflections, 0.0) * slip
    pulls = np.vectorize(brush_force)(adhesion, problem.mu * loads)
    rates = carried * (1.0 - slip) - v[:, None]
    braked = 550.0 * (1.0 + np.tanh((t - BRAKE_AT) / problem.tau_b))
    shared = problem.c_d / 5 * rates**2
    power = (problem.cruise().torque - braked) * omega - problem.c_w * v**3 - problem.c * (v_u - v_s) ** 2
    power += loads.sum(axis=1) * road * -2.0 * (t - BUMP_AT) / problem.tau**2
    power -= (shared + pulls * carried * slip).sum(axis=1)
    energy = np.array([problem.energy(u, x) for u, x in zip(solution.u, t, strict=True)])
    assert energy[-1] < energy[0] - 3e4
    assert energy[-1] - energy[0] == pytest.approx(simpson(power, x=t), rel=1e-7)
    assert (pulls * slip >= 0.0).all()


def test_more_ribs_converge_to_a_tyre_with_a_continuous_width():
    torques = [BrushTyre(ribs=n).cruise().torque for n in (4, 8, 16, 32, 64)]
    changes = np.diff(torques)
    assert changes[:-1] / changes[1:] == pytest.approx(4.0, rel=0.1)


def test_ribs_lift_off_where_camber_is_large():
    problem = BrushTyre(ribs=10, camber=0.3)
    state = np.asarray(problem.u_exact(0.0))
    lifted = problem.offsets() - state[1] - state[16:26] <= 0.0
    assert lifted.any() and not lifted.all()
    assert ds.solve(problem, rtol=1e-6).success


def test_what_cannot_roll_is_refused():
    with pytest.raises(InputError, match="the tyre does not carry the car"):
        BrushTyre(k_w=100.0).cruise()
    with pytest.raises(InputError, match="friction cannot overcome drag"):
        BrushTyre(mu=1e-3).cruise()
    with pytest.raises(InputError, match="k_b of BrushTyre must not be negative"):
        BrushTyre(k_b=-1.0)
    with pytest.raises(InputError, match="ribs of BrushTyre"):
        BrushTyre(ribs=0)
