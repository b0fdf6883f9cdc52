"""Steady states of models and problems, and branches of them over a parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import attach
from dae_sdc.linear.equilibrium import Rest, homotopy, pseudo_transient
from dae_sdc.problems._models import MODELS
from dae_sdc.run.steady import main as steady_verb

NONE = {
    "dc-motor": "the shaft turns",
    "hessenberg-2": "its forces depend on time, and have no rest at the start",
    "gear-petzold": "the driven angle is time",
    "pipe-network": "its pumps and supplies change with time, and fill the tanks at the start",
    "shuttle-final": "the vehicle flies",
    "shuttle-initial": "the vehicle flies",
    "skate": "it slides down its plane",
    "slider-crank": "the crank turns with a given speed",
    "slider-crank-3d": "the motor is too strong for the weights",
    "slider-crank-motor": "the motor turns",
    "triplets": "the bars are thrown into the air",
}
"""Entries of the catalogue that do not rest anywhere near their starts, and why."""

CATALOGUE = [*MODELS, *(name for name in PROBLEMS if name not in MODELS)]


def brusselator() -> Any:
    m = ds.Model("brusselator")
    x, y = m.variables("x y", [1.0, 1.0])
    a, b = m.parameter("a", 1.0), m.parameter("b", 1.0)
    m.equations(m.der(x) - (a + x**2 * y - b * x - x), m.der(y) - (b * x - x**2 * y))
    return m


def bistable() -> Any:
    """x'' + 0.3 x' + x^3 - x = p: folds at x = +-1/sqrt(3), p = -+2/(3 sqrt(3))."""
    m = ds.Model("bistable")
    x, p = m.variable("x", -1.0), m.parameter("p", 0.0, unit="N")
    m.equation(m.der(x, 2) + 0.3 * m.der(x) + x**3 - x - p)
    return m


def test_a_pendulum_hangs_where_newton_finds_it_or_where_its_motion_ends() -> None:
    found = ds.steady_state("pendulum", guess={"x": 0.1, "y": -1.0})
    np.testing.assert_allclose([found["x"], found["y"], found["lambda"]], [0.0, -1.0, 9.8], atol=1e-14)
    assert found.done == ("Newton's method",) and not found.undetermined
    from_the_side = ds.steady_state("pendulum")
    assert abs(from_the_side["y"]) == pytest.approx(1.0, abs=1e-14)
    assert from_the_side.done[-1] != "Newton's method"
    above = ds.steady_state("pendulum", guess={"x": 0.0, "y": 1.0, "lambda": -9.8})
    assert above["y"] == 1.0


def test_values_are_fixed_and_those_that_are_free_are_named() -> None:
    m = ds.Model("springs")
    x, y = m.variables("x y", [0.3, 0.0])
    m.equations(m.der(x, 2) + x - y, m.der(y, 2) + y - x)
    free = ds.steady_state(m)
    assert set(free.undetermined) == {"x", "y"} and free["x"] == pytest.approx(free["y"])
    held = ds.steady_state(m, fixed={"x": 2.0})
    assert held["x"] == 2.0 and held["y"] == pytest.approx(2.0) and not held.undetermined


def test_shafts_turn_evenly_with_a_speed_that_is_given_or_found() -> None:
    shafts = ["emf.phi", "load.phi", "bearing.phi_rel"]
    found = ds.steady_state("dc-motor", turning=shafts)
    speed = found["load.w"]
    assert speed == pytest.approx(found["der(emf.phi)"]) and found["der(load.phi)"] == pytest.approx(speed)
    given = ds.steady_state("dc-motor", fixed={f"der({name})": speed for name in shafts})
    assert given["coil.i"] == pytest.approx(found["coil.i"])
    with pytest.raises(ds.ConvergenceError, match="stays at"):
        ds.steady_state("dc-motor", fixed={f"der({name})": 2.0 * speed for name in shafts})


def test_hidden_constraints_forbid_what_the_equations_alone_allow() -> None:
    m = ds.Model("coupled")
    a, b, torque = m.variables("a b torque", 0.0)
    m.equations(m.der(a, 2) + m.der(a) - 1 - torque, m.der(b, 2) + 3 * m.der(b) + torque, coupling=a - b)
    found = ds.steady_state(m, turning=["a", "b"])
    assert found["der(a)"] == pytest.approx(0.25) and found["der(b)"] == pytest.approx(0.25)
    with pytest.raises(ds.ConvergenceError):
        ds.steady_state(m, fixed={"der(a)": 0.25})


def test_each_method_finds_the_state_alone() -> None:
    problem = bistable().problem()
    u = np.array([0.9, 0.0])
    rest = Rest.at(problem, 0.0, u, np.zeros(2))
    np.testing.assert_allclose(pseudo_transient(rest, u), [1.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(homotopy(rest, u), [1.0, 0.0], atol=1e-9)


def test_functions_and_problems_are_taken() -> None:
    def equations(t: float, u: Any, du: Any) -> Any:
        return [du[0] - u[1], du[1] + u[1] + np.sin(u[0]) - 0.5]

    assert ds.steady_state(equations, guess=[0.1, 0.0])["u[0]"] == pytest.approx(np.pi / 6.0)
    found = ds.steady_state("hires", guess=None)
    problem = PROBLEMS["hires"]()
    first = problem.n_diff
    left = problem.evaluate(attach(found.u, first), attach(np.zeros(8), first), 0.0)
    assert np.abs(left).max() < 1e-12


def test_a_function_that_makes_a_model_is_called_with_the_parameters() -> None:
    def tank(inflow: float = 2.0) -> ds.Model:
        model = ds.Model("tank")
        level = model.variable("level", start=1.0)
        model.equation(model.der(level) + 4.0 * level - inflow)
        return model

    assert ds.steady_state(tank, params={"inflow": 6.0})["level"] == pytest.approx(1.5, abs=1e-12)
    assert ds.linearize(tank).poles == pytest.approx([-4.0], abs=1e-12)


def test_what_is_conserved_stays_what_it_is_for_the_guess() -> None:
    m = ds.Model("reaction")
    a, b, c = m.variables("a b c", [2.0, 1.0, 0.0])
    forward, back = 3.0 * a * b, c
    m.equations(m.der(a) + forward - back, m.der(b) + forward - back, m.der(c) - forward + back)
    found = ds.steady_state(m)
    assert found["a"] + found["c"] == pytest.approx(2.0, abs=1e-12)
    assert found["b"] + found["c"] == pytest.approx(1.0, abs=1e-12)
    assert 3.0 * found["a"] * found["b"] == pytest.approx(found["c"], abs=1e-12)
    assert not found.undetermined
    total = ds.steady_state("hires")
    assert total.u[6] + total.u[7] == pytest.approx(0.0057, abs=1e-12)


def test_equations_that_depend_on_time_are_told() -> None:
    m = ds.Model("forced", interval=(0.0, 1.0))
    x = m.variable("x", 0.0)
    m.equation(m.der(x) + x - m.t, name="force")
    found = ds.steady_state(m, t0=0.25)
    assert found["x"] == pytest.approx(0.25) and found.remarks == ("at t=0.25 only: 'force' depends on time",)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_of_the_catalogue_rests_or_is_known_not_to(name: str) -> None:
    if name in NONE:
        with pytest.raises(ds.ConvergenceError, match="no steady state"):
            ds.steady_state(name)
        return
    found = ds.steady_state(name)
    problem = MODELS[name]().problem() if name in MODELS else PROBLEMS[name]()
    rest = Rest.at(problem, found.t, found.u, found.du)
    terms = np.asarray(abs(rest.jacobian(found.u)) @ np.maximum(np.abs(found.u), 1.0)).ravel()
    assert (np.abs(rest.residual(found.u)) <= 1e-9 * np.maximum(terms, 1e-300)).all()
    assert not found.du.any()


def test_a_branch_goes_around_its_folds() -> None:
    found = ds.steady_branch(bistable(), vary={"p": (-0.6, 0.6)}, guess={"x": -1.2})
    folds = [one.value for one in found.special]
    np.testing.assert_allclose(folds, [2.0 / 27.0**0.5, -2.0 / 27.0**0.5], rtol=1e-9)
    assert [one.kind for one in found.special] == ["fold", "fold"] and found.complete
    x = found["x"]
    np.testing.assert_allclose(x**3 - x, found.values, atol=1e-9)
    np.testing.assert_array_equal(found.unstable == 0, 3.0 * x**2 > 1.0)


def test_a_pair_of_poles_crosses_the_axis_at_a_hopf_point() -> None:
    model = brusselator()
    found = ds.steady_branch(model, vary={"b": "1:3"})
    (hopf,) = found.special
    assert hopf.kind == "hopf" and hopf.value == pytest.approx(2.0, abs=1e-8)
    assert hopf.frequency == pytest.approx(1.0, abs=1e-8)
    assert model.parameters_by_name["b"].value == 1.0


def test_the_verb_prints_a_state_and_writes_a_branch_that_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dae_sdc.cli import main

    assert main(["steady", "pendulum", "--guess", "x=0.1", "--guess", "y=-1"]) == 0
    assert "by Newton's method" in capsys.readouterr().out
    out = tmp_path / "branch.npy"
    words = [
        "steady",
        "pendulum",
        "--guess",
        "x=0.1",
        "--guess",
        "y=-1",
        "--vary",
        "l=1:2",
        "--out",
        str(out),
    ]
    assert main(words) == 0 and "11 stable" not in capsys.readouterr().out
    result = ds.load(out)
    assert result.kind == "branch" and result.units["value"] == "m"
    assert ds.plot("branch", out, show="y*").axes
    assert main(["steady", "pendulum", "--vary", "l=1"]) == 2
    assert main(["steady", "pendulum", "--out", str(out)]) == 2
    assert callable(steady_verb)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guess": {"z": 1.0}}, "unknown"),
        ({"fixed": {"z": 1.0}}, "unknown"),
        ({"turning": ["z"]}, "unknown"),
        ({"guess": [1.0]}, "shape"),
    ],
)
def test_what_does_not_exist_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ds.InputError, match=message):
        ds.steady_state("pendulum", **options)
