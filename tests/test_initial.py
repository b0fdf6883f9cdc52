"""Consistent initial values of problems and models: against exact solutions, formulas and official values."""

from __future__ import annotations

import math
import pickle
import sys
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.initial.differentiated import DIFFERENCES, ProblemJets, difference
from dae_sdc.initial.jets import ModelJets
from dae_sdc.initial.search import initial_of_problem
from dae_sdc.jets.graph import MOST_BY_NUMPY
from dae_sdc.problems._models import MODELS

GRAVITY = 9.81


def pendulum(**start: float) -> ds.Model:
    """Unit mass on a rod of unit length; with this multiplier lambda = x'^2 + y'^2 - g y."""
    model = ds.Model("swing")
    x, y, tension = model.variables("x y lambda")
    der = model.der
    model.equation(der(x, 2) + tension * x, name="force x")
    model.equation(der(y, 2) + tension * y + GRAVITY, name="force y")
    model.equation(x**2 + y**2 - 1, name="length")
    for name, value in start.items():
        model.start(name, value)
    return model


# --- derivatives of equations -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", range(len(DIFFERENCES)))
def test_differences_are_exact_for_polynomials(order: int) -> None:
    p, (points, weights) = DIFFERENCES[order].pairs, difference(order)
    for power in range(2 * p + 1):
        expected = math.factorial(order) if power == order else 0.0
        assert weights @ points**power == pytest.approx(expected, abs=1e-9 * max(1.0, float(p) ** power))


def test_equations_that_were_evaluated_often_are_pickled_as_others_are() -> None:
    system = ModelJets(pendulum(x=0.6, y=-0.8), 0.0)
    x = np.linspace(0.1, 1.0, len(system.jets))
    for _ in range(MOST_BY_NUMPY + 1):
        values = system.values(x)
    again = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(again.values(x), values)


def test_derivatives_of_equations_vanish_along_a_solution() -> None:
    problem, t = ds.HessenbergIndex3(), 0.3
    system = ProblemJets(problem, t, np.array(problem.u_exact(t)))
    assert "second derivative of constraint" in system.row_names
    # All unknowns are exponentials with these rates.
    rates, values = np.array([2.0, -1.0, 2.0, -1.0, 1.0]), np.array(problem.u_exact(t))
    x = np.array([values[j] * rates[j] ** k for j, k in system.jets])
    np.testing.assert_allclose(system.values(x), 0.0, atol=1e-8)


SYSTEMS = {
    "problem": lambda: ProblemJets(ds.HessenbergIndex3(), 0.3, np.array(ds.HessenbergIndex3().u_exact(0.3))),
    "invariants": lambda: ProblemJets(
        ds.RigidPendulum(formulation="index-1"), 0.3, np.array(ds.RigidPendulum().u_exact(0.3))
    ),
    "model": lambda: ModelJets(pendulum(), 0.0),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_jacobians_of_differentiated_equations(name: str) -> None:
    system: Any = SYSTEMS[name]()
    generator = np.random.default_rng(3)
    x = 1.0 + 0.3 * generator.standard_normal(len(system.jets))
    direction, h = generator.standard_normal(x.size), 1e-4
    slope = (system.values(x + h * direction) - system.values(x - h * direction)) / (2.0 * h)
    whole = system.jacobian(x)
    np.testing.assert_allclose(whole @ direction, slope, atol=1e-5 * (1.0 + np.abs(slope).max()))
    for number, stage in enumerate(system.stages):
        part = system.jacobian(x, number)
        np.testing.assert_allclose(part @ direction, (whole @ direction)[stage.rows], atol=1e-9)
        np.testing.assert_allclose(system.values(x, number), system.values(x)[stage.rows], atol=1e-12)


def test_stages_depend_on_nothing_that_later_ones_solve_for() -> None:
    system = ModelJets(pendulum(), 0.0)
    x = np.cos(1.0 + np.arange(len(system.jets)))
    for number in range(len(system.stages)):
        later = np.concatenate([stage.jets for stage in system.stages[number + 1 :]] or [[]]).astype(int)
        assert not system.jacobian(x, number)[:, later].toarray().any()


# --- problems -----------------------------------------------------------------------------------------------


def test_a_hidden_constraint_of_index_2_gives_the_true_multiplier() -> None:
    found = ds.initial("simple", u0=[1.0, 1.0, 0.0])
    # u = (e^t, e^t, -e^t / (2 - t)): what other tools give is y' = (11, 5.5), with z = 0.
    np.testing.assert_allclose(found.u, [1.0, 1.0, -0.5], atol=1e-10)
    np.testing.assert_allclose(found.du[:2], [1.0, 1.0], atol=1e-9)
    assert [(change.name, change.before) for change in found.changed] == [("z", 0.0)]
    assert found.violated
    assert len(found.solutions) == 1
    assert len(found.free) == 1


def test_a_bad_algebraic_guess_leaves_the_differential_unknowns_alone() -> None:
    for found in (
        ds.initial(ds.Robertson, guesses={"y_3": 0.5}),
        ds.initial("robertson", guesses={"y_3": 0.5}),
    ):
        values = dict(zip(found.names, found.u, strict=True))
        assert (values["y_1"], values["y_2"]) == (1.0, 0.0)
        assert values["y_3"] == pytest.approx(0.0, abs=1e-15)
        assert [change.name for change in found.changed] == ["y_3"]
        assert [violation.equation for violation in found.violated] == ["conservation of mass"]
        assert found.violated[0].residual == pytest.approx(0.5)
        np.testing.assert_allclose(found.du[:2], [-0.04, 0.04], rtol=1e-12)


def test_what_the_user_fixed_stays_and_the_rest_moves_as_little_as_it_must() -> None:
    found = ds.initial(ds.Robertson, fixed={"y_3": 0.25})
    assert found.u[2] == 0.25
    assert found.u.sum() == pytest.approx(1.0, abs=1e-14)
    assert found.u[0] == pytest.approx(0.75, abs=1e-5)
    assert found.fixed == ("y_3",)


def test_both_roots_of_a_hidden_constraint_are_listed() -> None:
    found = ds.initial(ds.HessenbergIndex2, u0=[1.0, 1.0, 0.8])
    # 2 y_2 z^2 - 3 z + y_1^2 = 0.
    np.testing.assert_allclose(found.u[:2], 1.0, atol=1e-14)
    assert sorted(one["z"] for one in found.solutions) == pytest.approx([0.5, 1.0], abs=1e-9)
    assert found.u[2] == found.solutions[0]["z"]
    assert found.u[2] == pytest.approx(1.0, abs=1e-9)


def test_index_3_by_differences_of_second_order() -> None:
    exact = np.array(ds.HessenbergIndex3().u_exact(0.2))
    found = ds.initial(ds.HessenbergIndex3, u0=[*exact[:4], 0.0], t0=0.2)
    np.testing.assert_allclose(found.u, exact, atol=1e-8)
    np.testing.assert_allclose(found.du[:4], ds.HessenbergIndex3().du_exact(0.2)[:4], atol=1e-8)
    assert math.isnan(found.du[4])  # would take one derivative more


@pytest.mark.parametrize("formulation", ["index-3", "index-2", "index-1", "ggl"])
def test_constraints_of_all_formulations(formulation: str) -> None:
    problem = ds.RigidPendulum(formulation=formulation)
    found = ds.initial(problem, u0=problem.packed([0.8, 0.8], [1.0, 1.0], [0.0]))
    half = math.sqrt(0.5)
    # Nearest position, and there the nearest velocity: none, along the rod as it was.
    np.testing.assert_allclose(found.u[:4], [half, half, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(problem.invariants(found.u, 0.0), 0.0, atol=1e-12)
    _, multiplier = problem.saddle_point(0.0, found.u[:2], found.u[2:4])
    assert found.u[4] == pytest.approx(multiplier[0], rel=1e-8)
    problem.check_start(problem.state(found.u), 0.0)


def test_equations_whose_structure_fails_are_differentiated_alike() -> None:
    found = ds.initial("two-transistor")
    assert found.violated == ()
    assert found.changed == ()
    # Test set for IVP solvers: -U_b / ((R_2 / R_1 + 1) C_2 R_3), and the same behind it; that of U_1, which
    # follows from derivatives of the equations, is published with five digits.
    rates = dict(zip(found.names, found.du, strict=True))
    assert rates["U_3"] == pytest.approx(-6.0 / (2.0 * 2e-6 * 9000.0), rel=1e-9)
    assert rates["U_6"] == pytest.approx(-6.0 / (2.0 * 4e-6 * 9000.0), rel=1e-9)
    assert rates["U_1"] == pytest.approx(51.338775, rel=2e-5)
    assert len(found.free) == 5  # degrees of freedom


ROWS = {
    "plain": np.array([[1.4, 0.4, 0.0], [-0.3, 0.4, -0.2], [-0.1, -0.6, 0.4]]),
    "all": np.array([[1.2, 0.3, -0.7], [-0.4, 0.9, 0.3], [0.1, -0.6, 1.1]]),
    "turning": np.eye(3),
}
"""By which the rows of equations are mixed, so that no structure is seen."""


def turned(mixed: str, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Q and Q' of w = Q u."""
    if mixed == "plain":
        return np.eye(3), np.zeros((3, 3))
    if mixed == "all":
        return np.array([[0.6, 0.8, 0.1], [-0.8, 0.6, 0.3], [0.2, -0.1, 0.9]]), np.zeros((3, 3))
    c, s = math.cos(t), math.sin(t)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]), np.array([[-s, 0, c], [0, 0, 0], [-c, 0, -s]])


class Chain(ds.ProblemDAE):
    """w_1' + w_2 = 0, w_2' + w_3 = 0 (w_3 = w_2 at index 2) and w_1 = 1 / 2 + sin t, where w = Q u."""

    def __init__(self, index: int, mixed: str) -> None:
        columns = index - 1 if mixed == "plain" else 3
        super().__init__(columns, 3 - columns)
        self.index, self.mixed, self.names = index, mixed, ("a", "b", "c")

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        turn, rate = turned(self.mixed, t)
        w, dw = turn @ np.asarray(u), turn @ np.asarray(du) + rate @ np.asarray(u)
        last = dw[1] + w[2] if self.index == 3 else w[2] - w[1]
        rows = np.array([dw[0] + w[1], last, w[0] - 0.5 - math.sin(t)])
        return ROWS[self.mixed] @ rows

    @property
    def start(self) -> np.ndarray:
        """The solution at t = 0: all of it is bound by constraints."""
        w = np.array([0.5, -1.0, 0.0 if self.index == 3 else -1.0])
        return np.linalg.solve(turned(self.mixed, 0.0)[0], w)


@pytest.mark.parametrize(("index", "mixed"), [(2, "all"), (3, "plain"), (3, "turning")])
def test_hidden_constraints_of_functions_bind_the_start_however_the_equations_are_mixed(
    index: int, mixed: str
) -> None:
    # Jacobians by differences are regular where the true ones are not, by their errors; and those of unknowns
    # that turn with time lack entries at t = 0 which the derivatives have.
    problem = Chain(index, mixed)
    found = ds.initial(problem, u0=problem.start + np.array([0.01, -0.008, 0.005]))
    np.testing.assert_allclose(found.u, problem.start, atol=1e-7)


def test_a_run_begins_at_what_was_found() -> None:
    found = ds.initial("simple", u0=[1.0, 1.0, 0.0])
    solution = ds.solve("simple", u0=found.u, sweeper="radau-iia-5", dt=0.1, t_end=0.5)
    np.testing.assert_allclose(solution.u[-1], ds.SimpleDAE().u_exact(0.5), rtol=2e-5)


# --- models -------------------------------------------------------------------------------------------------


def test_a_model_is_started_from_fixed_values_and_guesses() -> None:
    found = ds.initial(pendulum(), fixed={"x": 0.6, "der(x)": 0.4}, guesses={"y": -0.5, "lambda": 7.0})
    # x x' + y y' = 0, and lambda = x'^2 + y'^2 - g y.
    rate = 0.6 * 0.4 / 0.8
    tension = 0.4**2 + rate**2 + GRAVITY * 0.8
    expected = {"x": 0.6, "y": -0.8, "der(x)": 0.4, "der(y)": rate, "lambda": tension}
    expected |= {"der(x, 2)": -tension * 0.6, "der(y, 2)": tension * 0.8 - GRAVITY}
    assert dict(found.values) == pytest.approx(expected, abs=1e-11)
    assert (found.values["x"], found.values["der(x)"]) == (0.6, 0.4)
    assert [change.name for change in found.changed] == ["y", "lambda"]
    assert found.free == ()
    assert found.names == ("x", "y", "der(x)", "der(y)", "lambda")
    np.testing.assert_allclose(found.u, [expected[name] for name in found.names], atol=1e-11)
    np.testing.assert_allclose(found.du[2:4], [expected["der(x, 2)"], expected["der(y, 2)"]], atol=1e-10)
    assert np.isnan(found.du[4])


def test_other_solutions_are_listed_and_the_nearest_is_taken() -> None:
    found = ds.initial(pendulum(x=0.6, y=0.5))
    values = [one["y"] * one["x"] for one in found.solutions]
    assert len(found.solutions) == 2
    assert sum(values) == pytest.approx(0.0, abs=1e-9)
    assert found.values["y"] > 0.0
    again = ds.initial(pendulum(x=0.6, y=0.5))
    assert [dict(one) for one in again.solutions] == [dict(one) for one in found.solutions]


def test_what_is_given_and_fits_is_not_moved() -> None:
    model = pendulum(x=1.0, y=0.0)
    model.start("der(y)", 2.0)
    found = ds.initial(model)
    assert found.changed == ()
    assert found.violated == ()
    assert found.values["lambda"] == pytest.approx(4.0, abs=1e-12)
    assert found.values["x"] == 1.0


def test_what_is_violated_is_named_with_its_amount() -> None:
    found = ds.initial(pendulum(x=1.2, y=0.0))
    by_name = {violation.equation: violation.residual for violation in found.violated}
    assert by_name == {"length": pytest.approx(0.44)}
    assert found.values["x"] == pytest.approx(1.0, abs=1e-12)


def test_no_more_equations_are_violated_than_given_values_contradict_each_other() -> None:
    found = ds.initial("slider-crank-2d", restarts=0)
    # Two degrees of freedom take the angle of the crank and its rate; those of rod and slider are too many.
    assert [change.name for change in found.changed] == ["rod.phi", "slider.s"]
    assert len(found.violated) == 2
    model = ds.Model("copies")
    a, b, c, d, e = model.variables("a b c d e", start=[0.3, None, None, None, 0.5])
    model.equation(model.der(a) + d, name="rate")
    for number, (one, other) in enumerate([(a, b), (b, c), (c, d)]):
        model.equation(one - other, name=f"copy {number}")
    model.equation(100 * e - 100 * d * d, name="square")
    (only,) = ds.initial(model).violated
    # The largest one takes the least change: 100 (0.5 - 0.09).
    assert (only.equation, only.residual) == ("square", pytest.approx(41.0))


def test_the_solution_on_the_side_of_the_guess_is_taken() -> None:
    found = ds.initial("slider-crank-3d", restarts=0)
    # The rod of length 0.3 from the crank, 0.1 long at 0.3 rad, to the height 0.12; the guess is 0.28.
    across, up = 0.1 * math.cos(0.3), 0.12 - 0.1 * math.sin(0.3)
    assert found.values["slider.s"] == pytest.approx(math.sqrt(0.09 - across**2 - up**2), abs=1e-12)


def test_whole_turns_of_angles_are_no_other_solutions() -> None:
    sides = [math.cos(one["rod.phi"]) for one in ds.initial("slider-crank-2d").solutions]
    assert len({round(side, 6) for side in sides}) == len(sides)
    # Algebra finds two.
    every = ds.initial("robot-arm", all_solutions=True)
    assert len(ds.initial("robot-arm").solutions) == len(every.solutions)


def test_a_start_far_away_is_followed_to_all_digits() -> None:
    # The rates of the capacitors follow from the voltages, by linear equations whose factors are 1e-6.
    assert len(ds.initial("transistor-amplifier").solutions) == 1


def test_a_free_value_for_which_nothing_was_given_is_told() -> None:
    found = ds.initial(pendulum(x=1.0, y=0.0))
    assert found.guessed == ("der(y)",)
    assert any("der(y)" in remark for remark in found.remarks)


def test_fixed_values_that_follow_from_others_are_told() -> None:
    found = ds.initial(pendulum(), fixed={"x": 0.0, "y": -1.0, "der(y)": 0.0, "der(x)": 1.0})
    assert found.values["lambda"] == pytest.approx(1.0 + GRAVITY)
    assert any("follow from the others" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"x": 0.6, "y": 0.9}, "'x', 'y' of model swing contradict 'length'"),
        ({"x": 0.6, "y": 0.8, "der(x)": 1.0, "der(y)": 1.0}, "contradict 'derivative of length'"),
        ({"x": 2.0}, "no values were found from y = 0.5, .* 'length', .* hold with the fixed 'x' at t=0"),
    ],
)
def test_values_that_contradict_each_other_are_named(fixed: Any, words: str) -> None:
    with pytest.raises(ds.InconsistentStateError, match=words) as caught:
        ds.initial(pendulum(y=0.5), fixed=fixed)
    assert "\n" not in str(caught.value)


def test_a_fixed_velocity_may_move_a_guessed_position() -> None:
    # x x' + y y' = 0 with x' = 1, y' = 0 wants x = 0, however near (0.6, 0.8) is to the circle.
    found = ds.initial(pendulum(x=0.6, y=0.8), fixed={"der(x)": 1.0, "der(y)": 0.0})
    assert (found.values["der(x)"], found.values["der(y)"]) == (1.0, 0.0)
    assert found.values["x"] == pytest.approx(0.0, abs=1e-9)
    assert found.values["y"] == pytest.approx(1.0, abs=1e-9)


def test_hidden_constraints_that_need_a_repair() -> None:
    found = ds.initial("robot-arm")
    # Index 5, nothing is free; values at t = 0 by Campbell and Griepentrog.
    assert found.values["der(x2, 2)"] == pytest.approx(-1.1476311, abs=1e-7)
    assert found.violated == ()
    assert found.changed == ()
    assert found.free == ()
    assert any("repaired" in remark for remark in found.remarks)


def test_the_robot_arm_is_found_from_its_angles_alone() -> None:
    known = ds.initial("robot-arm", restarts=0)
    model = MODELS["robot-arm"]()
    for variable in model.variables_by_name.values():
        variable.start.clear()
    found = ds.initial(model, guesses={"x1": 0.2, "x3": 0.8})
    for name in known.names:
        assert found.values[name] == pytest.approx(known.values[name], abs=1e-8)


def test_a_transistor_amplifier_as_a_model_has_its_rates() -> None:
    found = ds.initial("transistor-amplifier", restarts=0)
    rates = dict(zip(found.names, found.du, strict=True))
    # The currents into nodes 1 and 2 together, differentiated, with U_1' = U_2' and U_3' = -500 / 3. The test
    # set for IVP solvers gives 51.338775; its rates are no more accurate than that.
    slope, past = 0.01 * 1e-6 / 0.026, 500.0 / 3.0
    expected = (0.1 * 200.0 * math.pi / 1000.0 - slope * past) / (1.0 / 1000.0 + 2.0 / 9000.0 + slope)
    assert expected == pytest.approx(51.338775, rel=2e-5)
    assert rates["U_1"] == pytest.approx(expected, rel=1e-10)
    assert rates["U_2"] == pytest.approx(expected, rel=1e-10)
    assert rates["U_4"] == pytest.approx(-24.9757667, rel=5e-4)
    assert rates["U_7"] == pytest.approx(-10.00564453, rel=1e-3)


def test_the_last_of_many_pendula_knows_nothing_of_the_others() -> None:
    found = ds.initial(MODELS["pendulum-chain"](30), restarts=0)
    # At rest in a straight line the rods of a chain fall together, and the last pulls like a rod of its own.
    assert found.values["lambda30"] == pytest.approx(GRAVITY * 0.5, rel=1e-9)
    assert max(abs(found.values[f"der(x{i})"]) for i in range(1, 31)) <= 1e-12


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ds.initial("pendulm"), "did you mean 'pendulum'"),
        (lambda: ds.initial(pendulum(), guesses={"z": 1.0}), "no unknown z"),
        (lambda: ds.initial(pendulum(), fixed=["x"]), "x of model swing is to be fixed, but has no value"),
        (lambda: ds.initial(pendulum(), fixed={"der(x, 3)": 1.0}), "follows from lower ones"),
        (lambda: ds.initial(pendulum(), u0=[1.0]), "give guesses by name"),
        (lambda: ds.initial(pendulum(), guesses={"x": math.inf}), "must be finite"),
        (lambda: ds.initial(pendulum(), guesses=3), "must be a mapping of names"),
        (lambda: ds.initial(pendulum(), fixed=3), "fixed must be a mapping of names"),
        (lambda: ds.initial(pendulum(), seed=-1), "seed must be"),
        (lambda: ds.initial(ds.SimpleDAE, guesses={"q": 1.0}), "unknown of SimpleDAE 'q'"),
        (lambda: ds.initial(ds.SimpleDAE, fixed=["q"]), "unknown of SimpleDAE 'q'"),
        (lambda: ds.initial(ds.SimpleDAE, u0=[1.0]), "has shape"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(call: Any, words: str) -> None:
    with pytest.raises(ds.InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


# --- the command --------------------------------------------------------------------------------------------


def test_the_command_shows_what_changed_and_what_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    guesses = ["--guesses", "y=0.5", "--guesses", "der(x)=1"]
    assert main(["initial", "pendulum", "--fixed", "x=0.6", *guesses]) == 0
    shown = capsys.readouterr().out
    assert "fixed" in shown
    assert "was 0.5" in shown
    assert "violated by what was given" in shown
    assert "2 solutions" in shown


@pytest.mark.parametrize("end", [1.0, 1e-2, 1e-4, 1e-6])
def test_derivatives_by_differences_are_as_accurate_for_a_short_run(end: float) -> None:
    def equations(t: float, u: Any, du: Any) -> Any:
        x, y, vx, vy, force = u
        pulls = [du[2] + force * x, du[3] + force * y + GRAVITY]
        return [du[0] - vx, du[1] - vy, *pulls, x**2 + y**2 - 1.0]

    problem = ds.FunctionProblem(equations, 5)
    problem.index, problem.interval = 3, (0.0, end)
    pull = 0.8 * GRAVITY  # of a pendulum that is let go at (0.6, -0.8)
    exact = {(0, 0): 0.6, (1, 0): -0.8, (4, 0): pull, (0, 2): -0.6 * pull, (1, 2): 0.8 * pull - GRAVITY}
    exact |= {(j + 2, 1): exact[j, 2] for j in (0, 1)}
    system = ProblemJets(problem, 0.0, problem.state([0.6, -0.8, 0.0, 0.0, pull]))
    left = system.values(np.array([exact.get(jet, 0.0) for jet in system.jets]))
    assert np.abs(left).max() < 1e-8 * GRAVITY


@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6])
def test_guesses_near_a_rest_lead_to_values_as_near(distance: float) -> None:
    rest = ds.PROBLEMS["rigid-slider-crank"]()
    exact = dict(zip(rest.names, rest.u_exact(0.0).tolist(), strict=True))
    off = distance * np.random.default_rng(1).normal(size=len(exact))
    guesses = {name: value + far for (name, value), far in zip(exact.items(), off.tolist(), strict=True)}
    start = ds.initial("rigid-slider-crank", guesses=guesses)
    # Accelerations, and forces with them, change with angles by about a hundred times their change.
    assert max(abs(start.values[name] - value) for name, value in exact.items()) < 20.0 * distance


def test_guesses_far_from_what_equations_are_defined_for_lead_to_values() -> None:
    # Charges of this size are those of a hundred million volt.
    problem = ds.PROBLEMS["charge-pump"]()
    off = np.array(problem.u_exact(0.0)) + 1e-4 * np.random.default_rng(5).normal(size=problem.n)
    start = ds.initial("charge-pump", u0=off)
    # The input is 0, and so is the current into a gate at rest.
    assert (start["U_1"], start["I"]) == pytest.approx((0.0, 0.0), abs=1e-15)
    left = {one.equation: one.residual for one in start.violated}
    assert left["current into the gate"] == pytest.approx(off[-1], rel=1e-8)
    assert left["input"] == pytest.approx(-off[5], rel=1e-12)


def mixed() -> ds.FunctionProblem:
    """a = sin(t), a' + c = 0 and b' + b = 0 in combinations, whose pattern does not tell the constraint."""

    def equations(t: float, u: Any, du: Any) -> Any:
        a, b, c = u
        return MIX @ np.array([a - np.sin(t), du[0] + c, du[1] + b])

    problem = ds.FunctionProblem(equations, 3, names=("a", "b", "c"))
    problem.index = 2
    return problem


MIX = np.array([[1.0, 2.0, -1.0], [3.0, -1.0, 1.0], [1.0, 1.0, 4.0]])


def test_a_fixed_derivative_holds_in_equations_that_are_differentiated_alike() -> None:
    # c' = sin(t) follows from the second derivative of the constraint, one more than c = -cos(t) needs.
    start = initial_of_problem(mixed(), fixed={"der(c)": 0.0, "b": 2.0})
    assert [start[name] for name in "abc"] == pytest.approx([0.0, 2.0, -1.0], abs=1e-8)
    with pytest.raises(ds.InconsistentStateError, match=r"fixed.*'der\(c\)'"):
        initial_of_problem(mixed(), fixed={"der(c)": 5.0, "b": 2.0})


def test_two_angles_of_a_linkage_are_told_what_to_fix_instead() -> None:
    instead = "or fix 'crank.phi', 'crank.w', from which the others follow"
    for other in ({"rod.phi": -0.3}, {"slider.s": 2.5}):
        with pytest.raises(ds.InconsistentStateError, match=f"{instead}$"):
            ds.initial("slider-crank-2d", fixed={"crank.phi": 0.3, **other})
    start = ds.initial("slider-crank-2d", fixed={"crank.phi": 0.3, "crank.w": 0.2}, guesses={"rod.phi": -0.2})
    rod = -math.asin(0.5 * math.sin(0.3))  # the rod is twice as long as the crank, which has length 1
    assert start["rod.phi"] == pytest.approx(rod, abs=1e-12)
    assert start["slider.s"] == pytest.approx(math.cos(0.3) + 2.0 * math.cos(rod), abs=1e-12)


def test_the_command_names_what_contradicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["initial", "pendulum", "--fixed", "x=0.6", "--fixed", "y=0.9"]) == 2
    assert "contradict" in capsys.readouterr().err


@pytest.mark.parametrize("pair", ["x", "x=", "=1", "x=one"])
def test_the_command_wants_names_and_values(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["initial", "pendulum", "--fixed", pair]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


def test_what_newton_leaves_of_zero_is_zero() -> None:
    def circle(t: float, u: Any, du: Any) -> Any:
        x, y, vx, vy, force = u
        return [du[0] - vx, du[1] - vy, du[2] + force * x, du[3] + force * y, x**2 + y**2 - 1.0]

    problem = ds.FunctionProblem(circle, 5, names=("x", "y", "vx", "vy", "force"))
    start = ds.initial(problem, fixed={"x": 1.0, "vy": 1.0})
    assert all(value == 0.0 or abs(value) > 0.5 for value in start.values.values())
    with pytest.raises(ds.InconsistentStateError, match=r"vx from 0\.5 to 0$"):
        ds.solve(problem, u0={"x": 1.0, "y": 0.0, "vx": 0.5, "vy": 1.0, "force": 1.0}, t_end=1.0)


def rounded_rows(factor: float, x: Any, y: Any, dx: Any, dy: Any) -> list[Any]:
    """Two equations whose derivatives are multiples of each other: factor * x - y + 3 = 0 follows."""
    first, second = float(np.sin(1.0)), float(np.sin(2.0))
    rate = factor * first * x * dx + factor * second * dy
    return [first * x * dx + second * dy + x, rate + y - 3.0]


def rounded_model(factor: float) -> ds.Model:
    model = ds.Model("rounded")
    x, y = model.variables("x y", start=[1.0, 1.0])
    for row in rounded_rows(factor, x, y, model.der(x), model.der(y)):
        model.equation(row)
    return model


class Rounded(ds.ProblemDAE):
    index = 1
    names = ("x", "y")

    def __init__(self) -> None:
        super().__init__(2, 0)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return rounded_rows(float(np.sin(3.0)), *u, *du)


def test_hidden_constraints_that_rounding_hides_are_told_where_coefficients_change_too() -> None:
    # No digit of the numbers shows the constraint, which does not hold at x = y = 1.
    with pytest.raises(ds.InputError, match="rounding errors of numbers in model rounded keep hidden"):
        ds.initial(rounded_model(float(np.sin(3.0))))
    start = ds.initial(rounded_model(2.0))  # which rounds nothing
    assert 2.0 * start.values["x"] - start.values["y"] + 3.0 == pytest.approx(0.0, abs=1e-9)


def test_differences_show_what_rounding_hides_where_the_index_is_declared() -> None:
    start = ds.initial(Rounded(), fixed={"x": 1.0})
    assert start.values["x"] == 1.0
    assert start.values["y"] == pytest.approx(3.0 + math.sin(3.0), abs=1e-8)


def test_what_rounding_hides_is_looked_for_in_compiled_code() -> None:
    calls = list[str]()
    sys.setprofile(lambda frame, event, _: calls.extend([event] * (frame.f_code.co_name == "rounded_rows")))
    try:
        start = ds.initial(Rounded(), fixed={"x": 1.0})
    finally:
        sys.setprofile(None)
    assert start.values["y"] == pytest.approx(3.0 + math.sin(3.0), abs=1e-8)
    assert calls.count("call") < 100  # while it is read; differences would call it more than a thousand times


def test_a_jacobian_by_differences_is_made_once_for_a_point_and_its_steps() -> None:
    system = ProblemJets(Rounded(), 0.0, np.ones(2))
    x = np.ones(len(system.jets))
    first = system.jacobian(x)
    assert system.jacobian(x.copy()) is first
    assert system.with_steps(0.5).jacobian(x) is not first
    moved = system.jacobian(2.0 * x)
    assert not np.allclose(moved, first)  # as sin(1) x x' has other slopes there
    assert np.array_equal(system.jacobian(x), first)


def test_a_value_that_is_0_lies_on_no_side_of_a_jump_by_its_rounding() -> None:
    # Diodes of Modelica's library behind sources: at rest, against its source, and below its knee.
    m = ds.Model("diodes")
    for k, (offset, knee) in enumerate([(0.0, 0.0), (-9.0, 0.0), (0.0, 5.0)]):
        off, s, i, v, source = m.variables(
            f"off{k} s{k} i{k} v{k} source{k}", start=[1.0, 0.0, 0.0, 0.0, 0.0]
        )
        m.equation(off - sp.Piecewise((1, s < 0), (0, True)))
        m.equation(v - s * sp.Piecewise((1, s < 0), (0.001, True)) - knee)
        m.equation(i - s * sp.Piecewise((0.1, s < 0), (1, True)) - 0.1 * knee)
        m.equation(source - 10 * sp.sin(m.t) - offset)
        m.equation(source - v - 0.001 * i)
    start = ds.initial(m)
    assert [start.values[f"off{k}"] for k in range(3)] == [0.0, 1.0, 1.0]
    assert all(start.values[name] == 0.0 for name in ("s0", "i0", "v0", "source0", "i2", "v2", "source2"))
    assert start.values["s1"] == pytest.approx(-9.0 / 1.0001, rel=1e-15)
    run = ds.solve(m, rtol=1e-6, t_end=0.5)
    assert run.success and "starts that were found" not in run.message


def test_invariants_that_are_equations_are_not_listed_again() -> None:
    problem = ds.PROBLEMS["rolling-disk"]()
    off = 1e-2 * np.random.default_rng(5).normal(size=problem.n)
    start = ds.initial("rolling-disk", u0=np.array(problem.u_exact(0.0)) + off)
    assert start.violated
    assert not [one for one in start.violated if one.equation.startswith("invariant")]
