"""Records and scores of the Test Set for IVP Solvers, and its chemical and mechanical problems."""

import json
import math
from importlib import resources

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dae_sdc as ds
from benchmarks.measuring.scores import scd, scd_differential
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError, ReferenceRangeError
from dae_sdc.problems._library import (
    TestSetProblem,
    load_record,
)

RECORDS = json.loads((resources.files("dae_sdc.problems") / "data" / "testset.json").read_text())
MINE = {
    **{"chemical-akzo-nobel": "chemakzo", "hires": "hires", "robertson": "robertson", "andrews": "andrews"},
    **{"car-axis": "caraxis", "slider-crank": "slidercrank", "pendulum-cash": "pendulum-cash"},
}


def residual(problem, u, du, t):
    return np.asarray(problem.eval_f(problem.state(u), problem.state(du), t))


def jacobian(problem, u, du, t, c):
    return problem.jacobian(problem.state(u), problem.state(du), t, c)


# --- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_describes_every_unknown(name):
    record = load_record(name)
    n = len(record.u0)
    assert record.u0.shape == record.end.u.shape == record.end.digits.shape == (n,)
    assert record.du0 is None or record.du0.shape == (n,)
    assert len(record.variable_index) == n and set(record.variable_index) <= {1, 2, 3}
    assert record.end.t > record.t0 == 0.0
    assert set(record.end.scored) <= set(range(n)) and len(set(record.end.scored)) == len(record.end.scored)
    # No digits are claimed where there is no relative error, nor more than a double holds.
    assert (record.end.digits[record.end.u == 0.0] == 0.0).all() and record.end.digits.max() < 16.0
    assert any(record.end.digits[i] > 0.0 for i in record.end.scored) and record.end.source
    with pytest.raises(ValueError, match="read-only"):
        record.u0[0] = 1.0


@pytest.mark.parametrize(("name", "record"), MINE.items())
def test_a_problem_is_that_of_its_record(name, record):
    problem, stored = PROBLEMS[name](), load_record(record)
    assert problem.record == record
    assert problem.interval == (stored.t0, stored.end.t)
    assert problem.variable_index == stored.variable_index
    # The largest index of an unknown is that of the problem.
    assert max(problem.variable_index) == max(problem.index, 1)
    assert problem.reference_end is stored.end
    np.testing.assert_allclose(problem.u_exact(0.0), stored.u0, rtol=1e-15)
    np.testing.assert_array_equal(problem.u_exact(stored.end.t), stored.end.u)
    # Steps that are added up miss the end by rounding.
    np.testing.assert_array_equal(problem.u_exact(stored.end.t * (1.0 - 1e-13)), stored.end.u)


@pytest.mark.parametrize("name", MINE)
def test_the_solution_is_refused_between_the_ends(name):
    problem = PROBLEMS[name]()
    t = 0.5 * problem.interval[1]
    with pytest.raises(ReferenceRangeError, match=r"is stored at t=0 and t=[\d.e+]+ only"):
        problem.u_exact(t)
    with pytest.raises(ReferenceRangeError, match="is stored at t=0 only"):
        problem.du_exact(t)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("chemical-akzo-nobel", {"Ks": 100.0}),
        ("robertson", {"k2": 1e6}),
        ("car-axis", {"r": 0.2, "L": 1.5, "L0": 0.7, "w": 3.0}),
        ("two-transistor", {"beta": 2e-6}),
    ],
)
def test_other_parameters_have_an_initial_value_but_no_reference(name, changed):
    problem = PROBLEMS[name](**changed)
    u = problem.u_exact(0.0)
    # Equations without derivatives hold, whatever the derivative.
    constraints = np.abs(jacobian(problem, u, np.zeros(problem.n), 0.0, 0.0)).max(axis=1) == 0.0
    assert np.abs(residual(problem, u, np.zeros(problem.n), 0.0)[constraints]).max(initial=0.0) < 1e-15
    for ask in (lambda: problem.reference_end, lambda: problem.u_exact(problem.interval[1])):
        with pytest.raises(ReferenceRangeError, match="is for default parameters and this one has"):
            ask()
    with pytest.raises(ReferenceRangeError):
        scd(problem, u)


def test_a_derivative_that_is_not_stored_is_refused():
    class Unknown(TestSetProblem):
        record = "transistor-amplifier"
        size = (8, 0)

    with pytest.raises(ReferenceRangeError, match="derivative of Unknown is not stored"):
        Unknown().du_exact(0.0)


# --- scores ---------------------------------------------------------------------------------------


def test_scd_is_the_digits_of_the_worst_scored_unknown():
    problem = PROBLEMS["andrews"]()
    end = problem.reference_end.u
    u = end.copy()
    u[:7] *= 1.0 + 1e-9
    u[3] = end[3] * (1.0 - 1e-5)
    assert scd(problem, u) == pytest.approx(5.0, abs=1e-9)
    u[7:] = 0.0  # velocities, accelerations and multipliers are not scored
    assert scd(problem, u) == scd_differential(problem, u) == pytest.approx(5.0, abs=1e-9)
    u[2] *= -1.0
    assert scd(problem, u) == pytest.approx(-math.log10(2.0), abs=1e-7)
    u[2] = math.nan
    assert math.isnan(scd(problem, u))
    u[2] = math.inf
    assert scd(problem, u) == -math.inf


def test_scd_claims_no_more_digits_than_the_reference_has():
    problem = PROBLEMS["robertson"]()
    end = problem.reference_end.u
    assert scd(problem, end) == scd(problem, end * (1.0 + 1e-13)) == 12.1
    assert scd(problem, end * (1.0 + 1e-11)) == pytest.approx(11.0, abs=1e-4)


def test_scd_differential_leaves_out_what_is_algebraic_or_of_higher_index():
    problem = PROBLEMS["car-axis"]()
    u = problem.reference_end.u * (1.0 + np.array([1e-8] * 4 + [1e-6] * 4 + [1e-4] * 2))
    assert scd(problem, u) == pytest.approx(4.0, abs=1e-4)
    assert scd_differential(problem, u) == pytest.approx(8.0, abs=1e-4)
    problem = PROBLEMS["robertson"]()
    u = problem.reference_end.u * (1.0 + np.array([1e-6, 1e-7, 1e-3]))
    assert scd_differential(problem, u) == pytest.approx(6.0, abs=1e-4)


def test_unknowns_without_known_digits_are_not_scored():
    class Still(ProblemDAE):
        @property
        def reference_end(self):
            return load_record("charge-pump").end

    problem = Still(5, 4)
    u = problem.reference_end.u.copy()
    u[1:8] = 1.0
    assert scd(problem, u) == 15.0
    u[0] *= 1.001
    assert scd(problem, u) == pytest.approx(3.0, abs=1e-6)


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(InputError, match="Pendulum2D has no reference_end"):
        scd(PROBLEMS["pendulum"](), np.zeros(5))
    with pytest.raises(InputError, match="shape"):
        scd(PROBLEMS["hires"](), np.zeros(5))

    class Empty(ProblemDAE):
        @property
        def reference_end(self):
            return load_record("fekete").end._replace(scored=(60, 61))

    with pytest.raises(InputError, match="no unknown of Empty"):
        scd(Empty(120, 40), np.zeros(160))


def test_the_transistor_amplifier_of_the_test_set_is_the_one_here():
    problem = PROBLEMS["two-transistor"]()
    np.testing.assert_allclose(problem.u_exact(0.0), load_record("transistor-amplifier").u0, atol=1e-15)
    # Its stored solution was computed by two other methods.
    assert scd(problem, problem.u_exact(0.2)) >= 12.0


# --- integrations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rtol", "atol", "digits"),
    [("chemical-akzo-nobel", 1e-8, 1e-10, 8), ("hires", 1e-8, 1e-11, 8), ("robertson", 1e-8, 1e-20, 7)],
)
def test_kinetics_reach_the_reference_by_an_integration_of_the_differential_part(name, rtol, atol, digits):
    problem = PROBLEMS[name]()
    m, rest = problem.n_diff, np.zeros(problem.n)

    def complete(y):
        # The algebraic unknown is the last one, and its equation is linear in it.
        u = np.append(y, np.zeros(problem.n_alg))
        if problem.n_alg:
            u[m:] -= residual(problem, u, rest, 0.0)[m:] / jacobian(problem, u, rest, 0.0, 1.0)[m, m]
        return u

    def rate(t, y):
        return -residual(problem, complete(y), rest, t)[:m]

    def slope(t, y):
        matrix = jacobian(problem, complete(y), rest, t, 1.0) - jacobian(problem, complete(y), rest, t, 0.0)
        return -matrix[:m, :m] + matrix[:m, m:] @ matrix[m:, :m] / (matrix[m, m] if problem.n_alg else 1.0)

    t0, t1 = problem.interval
    start = np.asarray(problem.u_exact(t0))[:m]
    found = solve_ivp(rate, (t0, t1), start, "Radau", jac=slope, rtol=rtol, atol=atol)
    # Local errors of 1e-8 in a contracting problem.
    assert scd(problem, complete(found.y[:, -1])) > digits - 1.0


@pytest.mark.parametrize(
    ("name", "parameters", "dt", "digits"),
    [
        ("pendulum-cash", {"formulation": 3}, 0.02, 8.0),
        ("pendulum-cash", {"formulation": 2}, 0.02, 8.0),
        ("pendulum-cash", {"formulation": 1}, 0.02, 6.0),
        ("car-axis", {}, 0.003, 6.0),
        ("andrews", {}, 1e-4, 5.0),
    ],
)
def test_mechanisms_reach_the_reference_with_collocation(name, parameters, dt, digits):
    problem = PROBLEMS[name](**parameters)
    found = ds.solve(name, sweeper="radau-iia-5", dt=dt, params=parameters)
    assert scd_differential(problem, np.asarray(found.u)[-1]) > digits


def test_slider_crank_reaches_the_reference_by_an_integration_of_the_reduced_equations():
    """Accelerations from the equations of motion and the derivative of the constraint, then DOP853."""
    problem = PROBLEMS["slider-crank"]()
    rest = np.zeros(24)

    def accelerations(q, v):
        u = np.concatenate([q, v, np.zeros(10)])
        slope = jacobian(problem, u, rest, 0.0, 1.0)
        matrix = np.zeros((10, 10))
        matrix[:7], matrix[7:, :7] = slope[14:21, 14:], slope[21:, 7:14]
        known = np.append(residual(problem, u, rest, 0.0)[14:21], slope[21:, :7] @ v)
        return np.linalg.solve(matrix, -known)

    u0 = np.asarray(problem.u_exact(0.0))
    np.testing.assert_allclose(accelerations(u0[:7], u0[7:14]), u0[14:], rtol=1e-9, atol=1e-9)
    found = solve_ivp(
        lambda t, y: np.append(y[7:], accelerations(y[:7], y[7:])[:7]),
        problem.interval,
        u0[:14],
        "DOP853",
        rtol=1e-7,
        atol=1e-11,
    )
    assert scd(problem, np.append(found.y[:, -1], np.zeros(10))) > 5.0


# --- consistency ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MINE)
def test_the_reference_at_the_end_satisfies_the_equations_without_derivatives(name):
    problem = PROBLEMS[name]()
    reference, rest = problem.reference_end, np.zeros(problem.n)
    rate = np.abs(jacobian(problem, reference.u, rest, reference.t, 0.0))
    rows = np.flatnonzero(rate.max(axis=1) == 0.0)
    error = np.abs(reference.u) * 10.0 ** -np.where(reference.digits > 0.0, reference.digits, 15.0)
    allowed = np.abs(jacobian(problem, reference.u, rest, reference.t, 1.0)) @ error
    assert len(rows) == problem.n_alg
    found = np.abs(residual(problem, reference.u, rest, reference.t)[rows])
    assert (found <= 3.0 * allowed[rows] + 1e-15).all()


def test_slider_crank_starts_on_the_constraint_near_the_start_of_the_test_set():
    problem = PROBLEMS["slider-crank"]()
    u = np.asarray(problem.u_exact(0.0))
    assert np.abs(residual(problem, u, np.zeros(24), 0.0)[21:]).max() < 1e-14
    given = [150.0, -74.995767, -2.68938672e-06, 0.444896105, 0.00463434311, -1.78591076e-06, -2.68938672e-06]
    change = u[7:14] - given
    assert 1e-9 < np.abs(change).max() < 1e-7
    # A projection in the norm of M: M times the change is a combination of the rows of G.
    matrix = jacobian(problem, u, np.zeros(24), 0.0, 1.0)
    mass, gradient = matrix[14:21, 14:21], matrix[14:21, 21:]
    force = mass @ change
    combination = gradient @ np.linalg.lstsq(gradient, force, rcond=None)[0]
    # Velocities of 75 rad/s are rounded to 1e-14, a millionth of what the projection changes.
    assert np.abs(force - combination).max() < 1e-5 * np.abs(force).max()


def test_hidden_constraints_at_the_start():
    """Those of second order, by derivatives along the Taylor polynomial of the positions."""
    for name, m, multipliers in (("andrews", 7, 6), ("car-axis", 4, 2)):
        problem = PROBLEMS[name]()
        u, du = np.asarray(problem.u_exact(0.0)), np.asarray(problem.du_exact(0.0))
        q, v, w = u[:m], du[:m], du[m : 2 * m]
        rate = np.abs(w).max() ** 0.5
        s = 1e-3 / max(rate, 10.0)

        def constraint(x, problem=problem, q=q, v=v, w=w, m=m, k=multipliers):
            moved = np.zeros(problem.n)
            moved[:m] = q + x * v + 0.5 * x * x * w
            return residual(problem, moved, np.zeros(problem.n), x)[-k:]

        here, near, far = constraint(0.0), *(constraint(x) + constraint(-x) for x in (s, 2.0 * s))
        assert np.abs(here).max() < 1e-15
        second = (16.0 * near - far - 30.0 * here) / (12.0 * s * s)
        assert np.abs(second).max() < 1e-6 * rate**2


@pytest.mark.parametrize("formulation", [3, 2, 1])
def test_formulations_of_the_pendulum_share_their_solution(formulation):
    problem = PROBLEMS["pendulum-cash"](formulation=formulation)
    assert problem.index == formulation == max(problem.variable_index)
    for t in problem.interval:
        x, y, u, v, lam = problem.u_exact(t)
        found = residual(problem, problem.u_exact(t), [u, v, -x * lam, -y * lam - 1.0, 0.0], t)
        assert np.abs(found).max() < 2e-15
        assert 0.5 * (u * u + v * v) + y == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("formulation", [0, 4, 2.5, "3"])
def test_other_formulations_of_the_pendulum_are_refused(formulation):
    with pytest.raises(InputError, match="formulation of PendulumCash must be 3, 2 or 1"):
        PROBLEMS["pendulum-cash"](formulation=formulation)


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("chemical-akzo-nobel", "H", 0.0),
        ("chemical-akzo-nobel", "k1", math.nan),
        ("robertson", "k3", math.inf),
        ("car-axis", "eps", -1.0),
        ("car-axis", "r", 1.0),
    ],
)
def test_bad_parameters_are_refused(name, parameter, value):
    with pytest.raises(InputError, match=f"{parameter} of"):
        PROBLEMS[name](**{parameter: value})


def test_oxygen_below_zero_is_undefined():
    problem = PROBLEMS["chemical-akzo-nobel"]()
    u = np.asarray(problem.u_exact(0.0)).copy()
    u[1] = -1e-9
    assert np.isnan(residual(problem, u, np.zeros(6), 0.0)).any()
