"""Every problem of the library: derivatives, solution, data, and the same equations as pySDC."""

import importlib
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import warnings
from importlib import resources

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import solve_ivp

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import DAEWarning, InputError, ReferenceRangeError
from dae_sdc.problems._library import load
from dae_sdc.problems.power import EVENT_SLACK

NAMES = list(PROBLEMS)
# Problems of the package; a user's may leave out titles, checks of parameters, and all that is found for it.
OWN = [name for name in NAMES if PROBLEMS[name].__module__.startswith("dae_sdc.")]
STORED = [name for name in NAMES if hasattr(PROBLEMS[name], "stored")]
# Problems whose equations are defined for positive unknowns only.
POSITIVE = {"chemical-akzo-nobel"}
# Equations that bend within the differences taken here; test_wheelset_water_fekete.py takes shorter ones.
BENT = {"wheelset"}
# Problems with one branch for a step; the water tubes have one for each pipe.
SWITCHED = [name for name in NAMES if hasattr(PROBLEMS[name], "event") and name != "water-tube"]
# How far from the start the equations are defined; by 0.05 where not given.
SPREAD = {
    "brush-tyre": 1e-3,
    "wheelset": 1e-6,
    "water-tube": np.r_[np.full(18, 1e-6), np.full(2, 1.0), np.full(18, 1e-5), np.full(11, 1.0)],
}

# Where pySDC orders its equations differently: entry i is the place of our equation i among those of pySDC.
PEER_ROWS = {"wscc9": [*range(27), 30, 31, 32, 27, 28, 29, *range(33, 57)]}
# How to make our problem solve what pySDC solves, and pySDC's problem.
SAME = {"wscc9": {"data": "pysdc"}}
PEER_ARGUMENTS = {"problematic-f": {"eta": 1}}
PEER_MODULES = ["simpleDAE", "problematicF", "pendulum2D", "discontinuousTestDAE", "transistorAmplifier"]
PEER_MODULES += ["synchronousMachine", "wscc9BusSystem"]
PEER_CLASSES = {
    name: value
    for module in PEER_MODULES
    for name, value in vars(importlib.import_module(f"pySDC.projects.DAE.problems.{module}")).items()
}
PEERS = {
    name: PEER_CLASSES[entry.__name__] for name, entry in PROBLEMS.items() if entry.__name__ in PEER_CLASSES
}


def known(name, share):
    """Whether the solution and its derivative are known after a share of the interval of a problem."""
    problem = PROBLEMS[name]()
    start, end = problem.interval
    try:
        problem.u_exact(start + share * (end - start)), problem.du_exact(start + share * (end - start))
    except InputError:
        return False
    return True


def start_of(problem):
    """The state at the start, or None of a problem that leaves it to its user."""
    try:
        return np.asarray(problem.u_exact(problem.interval[0]))
    except InputError:
        return None


def random_states(problem, count):
    """States near the start, derivatives of order one, and times on both sides of every disturbance."""
    rng = np.random.default_rng(42)
    known_start = start_of(problem)
    start = np.full(problem.n, 0.5) if known_start is None else known_start
    size = next((size for name, size in SPREAD.items() if isinstance(problem, PROBLEMS[name])), 0.05)
    u = start + size * rng.standard_normal((count, problem.n))
    if any(isinstance(problem, PROBLEMS[name]) for name in POSITIVE):
        u = np.abs(u)
    times = np.linspace(0.01, 0.3, count)
    return u, rng.standard_normal((count, problem.n)), times


def residual(problem, u, du, t):
    return np.asarray(problem.eval_f(problem.state(u), problem.state(du), t))


def jacobian(problem, u, du, t, c):
    """The Jacobian as an array, also of a problem that gives a sparse matrix."""
    if not hasattr(problem, "jacobian"):
        halves = linearize(problem, problem.state(u), problem.state(du), t)
        matrix = halves.mass + c * halves.stiffness
    else:
        matrix = problem.jacobian(problem.state(u), problem.state(du), t, c)
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def branches(problem):
    """The attribute by which a problem keeps its branch for a step, if it has one."""
    return [a for a in ("switched", "limited") if hasattr(problem, a)]


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in BENT and hasattr(PROBLEMS[name], "jacobian")]
)
@pytest.mark.parametrize("c", [0.0, 1e-3, 0.1, 1.0])
def test_jacobian_is_the_derivative_of_the_residual(name, c):
    problem = PROBLEMS[name]()
    for u, du, t in zip(*random_states(problem, 3), strict=True):
        for branch in (False, True) if branches(problem) else (False,):
            for attribute in branches(problem):
                setattr(problem, attribute, branch)
            matrix = jacobian(problem, u, du, t, c)
            # Unknowns change by 1e-5, which the steepest function, a transistor's exponential, allows.
            for e in np.eye(problem.n) * 1e-5 / max(c, 1e-3):
                plus, minus = residual(problem, u + c * e, du + e, t), residual(problem, u - c * e, du - e, t)
                far, near = (
                    residual(problem, u + 2 * c * e, du + 2 * e, t),
                    residual(problem, u - 2 * c * e, du - 2 * e, t),
                )
                slope = (8.0 * (plus - minus) - (far - near)) / (12.0 * e.max())
                noise = 1e-16 * (np.abs(plus).max() + np.abs(u).max() * np.abs(matrix).max()) / e.max()
                column = matrix[:, e.argmax()]
                assert np.abs(slope - column).max() <= 10.0 * noise + 1e-9 * np.abs(column).max()


@pytest.mark.parametrize("name", NAMES)
def test_initial_value_satisfies_the_equations_and_the_hidden_constraints(name):
    problem = PROBLEMS[name]()
    if start_of(problem) is None:
        pytest.skip("its user gives the start")
    t = problem.interval[0]
    u = problem.u_exact(t)
    du = problem.du_exact(t) if known(name, 0.0) else np.zeros(problem.n)
    problem.start_step(u, t)
    size = np.abs(jacobian(problem, u, du, t, 1.0)) @ np.maximum(np.abs(u), 1.0) + 1e-30
    constraints = np.abs(jacobian(problem, u, du, t, 0.0)).max(axis=1) == 0.0
    satisfied = constraints | known(name, 0.0)
    assert np.abs(residual(problem, u, du, t) / size)[satisfied].max(initial=0.0) < 1e-15
    if not known(name, 0.0):
        return
    # Constraints hold along u + s u', so their derivative vanishes: the hidden constraint of index 2 and 3.
    s = 1e-4 / np.max(np.abs(du) / np.maximum(np.abs(u), 1.0), initial=1.0)

    def change(s):
        later, earlier = (residual(problem, u + x * du, du, t + x)[constraints] for x in (s, -s))
        return (later - earlier) / (2.0 * s)

    # The difference is exact up to s^4.
    slope = (4.0 * change(s) - change(2.0 * s)) / 3.0
    assert np.abs(slope).max(initial=0.0) <= 2e-8 * np.abs(du).max() + 1e-11


def test_pendulum_meets_its_hidden_constraints_everywhere():
    problem = PROBLEMS["pendulum"](m=2.0, l=0.5, g=9.0)
    for t in np.linspace(0.0, 5.0, 23):
        p, q, u, v, tension = problem.u_exact(t)
        assert abs(p * u + q * v) < 1e-14
        assert abs(2.0 * (u * u + v * v) - tension * 0.25 - 2.0 * 9.0 * q) < 1e-13


@pytest.mark.parametrize("name", [name for name in NAMES if known(name, 0.377)])
def test_residual_vanishes_along_the_reference(name):
    problem = PROBLEMS[name]()
    start, end = problem.interval
    times = start + (end - start) * np.array([0.013, 0.1, 0.21, 0.377, 0.59, 0.731, 0.87, 0.999])
    for t in times:
        u, du = problem.u_exact(t), problem.du_exact(t)
        problem.start_step(u, t)
        # What the accuracies of value and derivative allow in each equation.
        value, rate = (1e-13, 1e-12) if name in STORED else (1e-14, 1e-14)
        at_rate = np.abs(jacobian(problem, u, du, t, 0.0))
        at_value = np.abs(jacobian(problem, u, du, t, 1.0)) + at_rate
        allowed = at_value @ np.maximum(np.abs(u), 0.1) * value + at_rate @ np.maximum(np.abs(du), 0.1) * rate
        assert (np.abs(residual(problem, u, du, t)) <= allowed).all()


@pytest.mark.parametrize("name", STORED)
def test_reference_is_refused_outside_its_range_and_for_other_parameters(name):
    problem = PROBLEMS[name]()
    start, end = map(float, load(problem.stored).breaks[[0, -1]])
    assert start == problem.interval[0]
    assert end >= problem.interval[1]
    for t in (start - 0.01, end + 0.01):
        for ask in (problem.u_exact, problem.du_exact):
            with pytest.raises(ReferenceRangeError, match=r"covers t from"):
                ask(t)
    parameter = next(
        p
        for p, value in inspect.signature(type(problem)).parameters.items()
        if isinstance(value.default, float)
    )
    changed = PROBLEMS[name](**{parameter: 1.1 * getattr(problem, parameter)})
    assert np.isfinite(changed.u_exact(start)).all()
    with pytest.raises(ReferenceRangeError, match=parameter):
        changed.u_exact(0.5 * end)


@pytest.mark.parametrize(("name", "t"), [("simple", 2.0), ("simple", -2.0), ("discontinuous", 0.9)])
def test_solution_is_refused_where_it_does_not_exist(name, t):
    for ask in (PROBLEMS[name]().u_exact, PROBLEMS[name]().du_exact):
        with pytest.raises(ReferenceRangeError):
            ask(t)


def integrate_differential_part(problem, t0, t1, *, start=None, since=-np.inf, until=np.inf):
    """A DAE F = f(y, z) - y' integrated from its reference at t0, z from Newton in the right-hand side.

    The time in F is kept between ``since`` and ``until``, so that rounding crosses no disturbance.
    """
    m = problem.n_diff
    u = np.array(problem.u_exact(t0) if start is None else start)
    rest = np.zeros(problem.n)

    def complete(t, y):
        u[:m] = y
        for _ in range(20):
            state = problem.state(u)
            step = np.linalg.solve(
                problem.jacobian(state, rest, t, 1.0)[m:, m:], residual(problem, u, rest, t)[m:]
            )
            u[m:] -= step
            if np.abs(step).max() < 1e-10:
                break
        return u.copy()

    def rate(t, y):
        t = min(max(t, since), until)
        return residual(problem, complete(t, y), rest, t)[:m]

    problem.start_step(problem.state(u), t0)
    solution = solve_ivp(rate, (t0, t1), u[:m].copy(), "DOP853", rtol=1e-13, atol=1e-14)
    return complete(min(max(t1, since), until), solution.y[:, -1])


@pytest.mark.parametrize(
    ("name", "t0", "t1", "bound"),
    [
        ("synchronous-machine", 0.0, 0.02, 1e-12),
        ("synchronous-machine", 0.3, 0.36, 3e-13),
        ("wscc9", 0.07, 0.5, 1e-10),
        ("wscc9", 0.65, 0.95, 1e-10),
    ],
)
def test_stored_reference_against_an_independent_integration(name, t0, t1, bound):
    problem = PROBLEMS[name]()
    found, expected = integrate_differential_part(problem, t0, t1), np.asarray(problem.u_exact(t1))
    assert (np.abs(found - expected) <= bound * np.maximum(np.abs(expected), 1.0)).all()


@pytest.mark.parametrize("name", STORED)
def test_stored_reference_starts_at_the_analytic_initial_value_and_derivative(name):
    problem = PROBLEMS[name]()
    start = problem.interval[0]
    size = np.maximum(np.abs(problem.u_exact(start)), 1.0)
    assert (np.abs(problem.reference_at(start) - problem.u_exact(start)) < 1e-13 * size).all()
    rate = problem.du_exact(start)
    assert np.abs(problem.reference_at(start, rate=True) - rate).max() < 1e-10 * max(np.abs(rate).max(), 1.0)


@pytest.mark.parametrize("name", STORED)
def test_stored_reference_says_how_it_was_made(name):
    data = resources.files("dae_sdc.problems") / "data"
    record = json.loads((data / f"{name}.json").read_text())
    assert record["command"] == f"python tools/make_references.py {name}"
    assert record["agreement"] < 1e-11
    assert record["range"] == load(name).breaks[[0, -1]].tolist()
    assert record["events"] == pytest.approx(record["events_of_method_b"], abs=1e-13)
    assert len((data / f"{name}.npz").read_bytes()) < 400_000


@pytest.mark.parametrize("name", [name for name in STORED if PROBLEMS[name]().n_alg == 0])
def test_stored_amplifier_against_an_independent_integration(name):
    problem = PROBLEMS[name]()
    mass = -problem.jacobian(problem.u_exact(0.0), np.zeros(problem.n), 0.0, 0.0)
    charges, _, _ = np.linalg.svd(mass)
    rank = np.linalg.matrix_rank(mass, tol=1e-12)
    # Rows of `kernel` pick the equations without derivatives, `kept` gives the capacitor charges.
    kernel, kept = charges[:, rank:].T, mass / np.abs(mass).max()
    u = np.array(problem.u_exact(0.0))
    independent = np.flatnonzero(np.abs(kept).max(axis=1) > 0.0)

    def complete(t, x):
        for _ in range(60):
            state = problem.state(u)
            slope = problem.jacobian(state, np.zeros(problem.n), t, 1.0) + mass
            matrix = np.vstack([kept, 1e3 * kernel @ slope])
            lack = np.concatenate([kept @ u - x, 1e3 * kernel @ residual(problem, u, np.zeros(problem.n), t)])
            step = np.linalg.lstsq(matrix, lack, rcond=1e-12)[0]
            u[:] -= np.clip(step, -0.1, 0.1)
            if np.abs(step).max() < 1e-13:
                break
        return u.copy()

    def rate(t, x):
        return residual(problem, complete(t, x), np.zeros(problem.n), t) / np.abs(mass).max()

    assert independent.size == problem.n
    t1 = 0.004
    solution = solve_ivp(rate, (0.0, t1), kept @ u, "DOP853", rtol=1e-12, atol=1e-13)
    expected = np.asarray(problem.u_exact(t1))
    assert np.abs(complete(t1, solution.y[:, -1]) - expected).max() < 5e-11


def test_two_transistor_end_value_is_that_of_the_test_set():
    # Test Set for IVP Solvers, release 2.4: computed with PSIDE at a tolerance of 1e-14, good to 12.6 digits.
    official = [-0.5562145012262709e-2, 3.006522471903042, 2.849958788608128, 2.926422536206241]
    official += [2.704617865010554, 2.761837778393145, 4.770927631616772, 1.236995868091548]
    found = np.asarray(PROBLEMS["two-transistor"]().u_exact(0.2))
    assert np.abs(found / official - 1.0).max() < 2e-12


@pytest.mark.parametrize("name", PEERS)
def test_equations_are_those_of_pysdc(name):
    problem = PROBLEMS[name](**SAME.get(name, {}))
    rows = PEER_ROWS.get(name, range(problem.n))
    split = problem.n_diff
    us, dus, times = random_states(problem, 6)
    for u, du, t in zip(us, dus, times, strict=True):
        peer = PEERS[name](newton_tol=1e-10, **PEER_ARGUMENTS.get(name, {}))
        state, rate = peer.dtype_u(peer.init), peer.dtype_u(peer.init)
        separate = hasattr(state, "diff")
        for target, values in ((state, u), (rate, du)):
            if separate:
                target.diff[:split], target.alg[: problem.n - split] = values[:split], values[split:]
            else:
                target[:] = values
        f = peer.eval_f(state, rate, t)
        expected = np.concatenate([f.diff[:split], f.alg[: problem.n - split]]) if separate else np.asarray(f)
        expected = np.asarray(expected)[list(rows)]
        problem.start_step(problem.state(u), t)
        found = residual(problem, u, du, t)
        assert np.abs(found - expected).max() < 1e-14 * max(np.abs(u).max() * 10.0, np.abs(expected).max())


def test_wscc9_starts_where_pysdc_starts_only_in_its_mode():
    peer = PEERS["wscc9"]().u_exact(0)
    start = np.concatenate([np.array(peer.diff)[:33], np.array(peer.alg)[:24]])
    rounded = PROBLEMS["wscc9"](data="pysdc")
    assert np.abs(start - rounded.u_exact(0.0)).max() < 1e-13
    assert np.abs(residual(rounded, start, np.zeros(57), 0.0)).max() > 5e-3
    with pytest.raises(InputError, match="inconsistent"):
        rounded.du_exact(0.0)


def test_pysdc_takes_a_branch_out_of_a_matrix_in_another_bus_order():
    network = importlib.import_module("pySDC.projects.DAE.problems.wscc9BusSystem")
    corrected, same = PROBLEMS["wscc9"](), PROBLEMS["wscc9"](data="pysdc")
    assert np.abs(network.get_initial_Ybus() - corrected.networks[0]).max() < 1e-13
    order = np.array([1, 2, 3, 4, 9, 5, 8, 7, 6]) - 1
    assert np.abs(network.get_event_Ybus() - corrected.networks[1][np.ix_(order, order)]).max() < 1e-13
    assert np.abs(network.get_event_Ybus() - same.networks[1]).max() < 1e-13
    assert np.abs(network.get_event_Ybus() - corrected.networks[1]).max() > 1.0


@pytest.mark.parametrize("name", ["synchronous-machine", "wscc9"])
def test_disturbance_is_a_left_continuous_function_of_time(name):
    problem = PROBLEMS[name]()
    u, du = problem.u_exact(0.0), problem.du_exact(0.0)
    times = (0.01, 0.05, 0.05 + 0.5 * EVENT_SLACK, 0.05 + 2.0 * EVENT_SLACK)
    before, at, rounded, after = (residual(problem, u, du, t) for t in times)
    assert np.array_equal(before, at)
    assert np.array_equal(before, rounded)
    assert np.abs(after - before).max() > 0.01
    assert np.array_equal(residual(problem, u, du, 0.01), before)


@pytest.mark.parametrize("name", ["synchronous-machine", "wscc9"])
@pytest.mark.parametrize("event", [0.05, 0.3, 1.0, 70.0])
def test_times_that_are_sums_of_steps_lie_on_the_right_side_of_a_disturbance(name, event):
    problem = PROBLEMS[name](**{"t_disturbance" if name == "synchronous-machine" else "t_fault": event})
    first_node = 0.04  # in steps, of five RADAU-RIGHT nodes: later than rounding
    u, du = problem.u_exact(0.0), problem.du_exact(0.0)
    row = problem.equation_names.index("swing" if name == "synchronous-machine" else "active power at bus 8")

    def disturbed(t):
        return residual(problem, u, du, t)[row]

    before, after = disturbed(0.0), disturbed(2.0 * event)
    assert before != after
    for count in (*range(1, 120), 977, 10_000):
        # The times as a controller has them, each the one before plus dt; dt from an end at 20 events.
        dt = 20.0 * event / (20 * count)
        last, end = np.cumsum(np.full(count + 1, dt))[[count - 2, count - 1]] if count > 1 else (0.0, dt)
        assert abs(end - event) < 1e-10 * max(event, 1.0)
        for t in (end, last + dt, last + dt * (1.0 - 1e-16)):
            assert disturbed(t) == before
        assert disturbed(end + first_node * dt) == after


@pytest.mark.parametrize(("name", "ends"), [("synchronous-machine", (0.1, 0.3)), ("wscc9", (0.051, 0.4))])
def test_reference_is_the_solution_of_the_coded_equations_also_after_the_disturbance(name, ends):
    problem = PROBLEMS[name]()
    event = 0.05 + EVENT_SLACK * (1.0 + 1e-3)  # where the coded function switches
    start = np.array(problem.u_exact(0.0))
    at_event = integrate_differential_part(problem, 0.0, event, until=0.05)
    assert np.abs(at_event - problem.u_exact(0.05)).max() < 1e-10
    for t in ends:
        found = integrate_differential_part(problem, event, t, start=at_event, since=0.05 + 2.0 * EVENT_SLACK)
        expected = np.asarray(problem.u_exact(t))
        # Stored values are accurate to 1e-11; a switch 1e-9 s too late gives 3e-9 and 5e-9 here.
        assert (np.abs(found - expected) <= 1e-11 * np.maximum(np.abs(expected), 1.0)).all()
    assert np.array_equal(start, problem.u_exact(0.0))


def test_valve_limiter_acts_from_its_event_on():
    problem = PROBLEMS["wscc9"]()
    held = problem.names.index("PSV1")
    t = float(problem.interval[1])
    assert problem.event(problem.u_exact(0.6), 0.6) < 0.0
    assert problem.event(problem.u_exact(t), t) == pytest.approx(0.0, abs=1e-12)
    assert problem.du_exact(0.6)[held] > 0.3
    assert abs(problem.du_exact(0.9)[held]) < 1e-10


@pytest.mark.parametrize("name", SWITCHED)
def test_branch_is_chosen_at_the_start_of_a_step_and_kept(name):
    problem = PROBLEMS[name]()
    attribute = branches(problem)[0]
    state = np.array(problem.u_exact(problem.interval[0]))
    place = next(
        i
        for i in range(problem.n_diff)
        if problem.event(problem.state(state + np.eye(problem.n)[i]), 0.0)
        != problem.event(problem.state(state), 0.0)
    )
    scale = problem.event(problem.state(state + np.eye(problem.n)[place]), 0.0) - problem.event(
        problem.state(state), 0.0
    )
    state[place] -= problem.event(problem.state(state), 0.0) / scale
    below, above = state.copy(), state.copy()
    below[place] -= 1e-3
    above[place] += 1e-3
    # A step that ends at the event misses it by round-off.
    close = state.copy()
    close[place] -= 1e-12
    for start, expected in ((below, False), (close, True), (state, True), (above, True)):
        problem.start_step(problem.state(start), 0.2)
        assert getattr(problem, attribute) is expected
        for other in (below, above):
            residual(problem, other, np.zeros(problem.n), 0.2)
            assert getattr(problem, attribute) is expected


def test_discontinuous_solution_rests_after_its_event():
    problem = PROBLEMS["discontinuous"]()
    assert problem.t_switch_exact == pytest.approx(np.log(50.0 + np.sqrt(2499.0)), rel=1e-15)
    assert problem.event(problem.u_exact(problem.t_switch_exact), 0.0) == pytest.approx(0.0, abs=1e-12)
    assert np.array_equal(problem.u_exact(5.0), problem.u_exact(problem.t_switch_exact))
    assert np.array_equal(problem.du_exact(5.0), [0.0, 0.0])


def test_problematic_f_refuses_and_warns_where_steps_do():
    make = PROBLEMS["problematic-f"]
    with pytest.raises(InputError, match="singular"):
        make(eta=-1.0)
    with pytest.warns(DAEWarning, match="multiplies errors of z by 1.5 in every step") as caught:
        problem = make(eta=-0.6)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(eta=-0.5)
    # One step of implicit Euler from a disturbed z, as derived in the docstring.
    h, t, c = 0.1, 0.3, 0.1
    start = np.array([np.sin(t), 1e-3])
    start[0] -= problem.eta * t * start[1]
    clean = np.array([np.sin(t), 0.0])
    ends = []
    for u0 in (start, clean):
        f = residual(problem, u0, np.zeros(2), t + h)
        rate = np.linalg.solve(problem.jacobian(problem.state(u0), problem.state(u0), t + h, c), -f)
        ends.append(u0 + h * rate)
    assert (ends[0] - ends[1])[1] == pytest.approx(-1.5e-3, rel=1e-10)
    for eta, size in itertools.product((-0.7, 0.5, 3.0), (0.01, 1.0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DAEWarning)
            other = make(eta=eta)
        matrix = other.jacobian(problem.state(clean), problem.state(clean), t, size)
        assert np.linalg.det(matrix) == pytest.approx(size**2 * (1.0 + eta), rel=1e-10)


def test_transistor_overflow_is_infinite_and_not_an_error():
    for name in ("one-transistor", "two-transistor"):
        problem = PROBLEMS[name]()
        u = -100.0 * np.arange(problem.n)
        value = residual(problem, u, np.zeros(problem.n), 0.0)
        assert np.isinf(value).any()


def test_every_problem_of_pysdc_is_here():
    assert len(PEERS) == 8


@pytest.mark.parametrize("name", PEERS)
def test_states_that_blow_up_raise_nothing(name):
    problem = PROBLEMS[name]()
    for value in (1e200, np.inf, np.nan):
        u = np.full(problem.n, value)
        residual(problem, u, u, 0.5)
        problem.evaluate_nodes(u[None], u[None], np.array([0.5]))


@pytest.mark.parametrize("name", NAMES)
def test_records_describe_every_unknown_equation_and_parameter(name):
    problem = PROBLEMS[name]()
    for record in (problem.names, problem.units, problem.equation_names):
        assert len(record) == problem.n
    assert len(set(problem.names)) == len(set(problem.equation_names)) == problem.n
    if name in OWN:
        assert problem.title and problem.reference
        assert problem.index in (0, 1, 2, 3)
    parameters = [p for p in inspect.signature(type(problem)).parameters if p != "settings"]
    assert set(parameters) == set(problem.parameter_units)
    entries = re.findall(
        r"^    ([\w, ]+) : .*\n((?:        .*\n)+)", type(problem).__doc__, flags=re.MULTILINE
    )
    documented = {p: text for heading, text in entries for p in heading.split(", ")}
    for parameter in parameters:
        assert f"unit {problem.parameter_units[parameter]}." in documented[parameter]


@pytest.mark.parametrize("name", NAMES)
def test_settings_and_bad_parameters(name):
    problem = PROBLEMS[name](newton_tol=1e-7, newton_maxiter=9)
    assert (problem.newton_tol, problem.newton_maxiter) == (1e-7, 9)
    for parameter, unit in problem.parameter_units.items():
        if unit == "none" or name not in OWN:
            continue
        with pytest.raises(InputError) as caught:
            PROBLEMS[name](**{parameter: float("nan")})
        assert parameter in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("wscc9", {"data": "rounded"}),
        ("wscc9", {"outage": (1, 2)}),
        ("wscc9", {"data": "pysdc", "outage": (5, 6)}),
        ("synchronous-machine", {"L_d": 1.6599, "L_F": 1.6599}),
        ("pendulum", {"l": 0.0}),
        ("one-transistor", {"alpha": 1.0}),
    ],
)
def test_impossible_parameters_are_refused(name, arguments):
    with pytest.raises(InputError):
        PROBLEMS[name](**arguments)


def test_library_offers_every_problem_by_its_class_name():
    library = importlib.import_module("dae_sdc.problems")
    for _, problem in PROBLEMS.items():
        assert getattr(library, problem.__name__) is problem


BARE = """
import dae_sdc as ds

@ds.PROBLEMS.register("bare")
class Bare(ds.ProblemDAE):
    def __init__(self, rate=2.0, **settings):
        super().__init__(n_diff=1, n_alg=1, **settings)
        self._makeAttributeAndRegister("rate", localVars=locals())

    parameter_units = {"rate": "1/s"}
    __doc__ = \"\"\"A decay and its square.

    Parameters
    ----------
    rate : float
        Rate of the decay; unit 1/s.
    \"\"\"

    def eval_f(self, u, du, t):
        return [du[0] + self.rate * u[0], u[1] - u[0] ** 2]
"""


@pytest.mark.parametrize(
    "extra", ["", "\n    def u_exact(self, t):\n        return [1.0, 1.0]\n"], ids=["alone", "with a start"]
)
def test_a_problem_with_eval_f_alone_passes_the_tests_of_this_file(tmp_path, extra):
    (tmp_path / "bare_problem.py").write_text(BARE + extra)
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-n", "0", "-p", "bare_problem", __file__]
    command += ["-k", "bare and not eval_f_alone", "-p", "no:cacheprovider"]
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed >= 2 + bool(extra)
