"""DAEs that are given by a plain function, or by a mass matrix and a right-hand side."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.plotting.solution import WITH, WITHOUT, Run


def pendulum(t: float, u: Any, du: Any) -> Any:
    x, y, v, w, multiplier = u
    return [du[0] - v, du[1] - w, du[2] + x * multiplier, du[3] + y * multiplier + 9.81, x * x + y * y - 1.0]


def robertson(t: float, u: Any) -> Any:
    a, b, c = u
    return [-0.04 * a + 1e4 * b * c, 0.04 * a - 1e4 * b * c - 3e7 * b * b, a + b + c - 1.0]


MASSES: dict[str, Any] = {
    "array": np.diag([1.0, 1.0, 0.0]),
    "sparse": sparse.diags([1.0, 1.0, 0.0]),
    "function": lambda t, u: np.diag([1.0, 1.0, 0.0]),
}

ROBERTSON_AT_40 = (0.7158270687, 0.9185534764e-5, 0.2841637457)
"""Hairer and Wanner, Solving Ordinary Differential Equations II, test set (t = 40)."""


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("kind", MASSES)
def test_a_singular_mass_matrix_in_any_form(kind: str, trace: bool | None) -> None:
    problem = ds.MassMatrixProblem(robertson, MASSES[kind], n=3)
    found = ds.solve(problem, u0=[1.0, 0.0, 0.0], t_end=40.0, rtol=1e-8, trace=trace)
    assert found.success and np.allclose(found.u[-1], ROBERTSON_AT_40, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("kind", MASSES)
def test_a_mass_matrix_is_an_option_of_a_run(kind: str) -> None:
    start = {"a": 1.0, "b": 0.0, "c": 0.0}
    run = ds.solve(robertson, mass=MASSES[kind], u0=start, t_end=40.0, rtol=1e-8)
    assert run.names == ("a", "b", "c")
    assert np.allclose(run.u[-1], ROBERTSON_AT_40, rtol=1e-6, atol=0.0)


def oscillator(t: float, y: Any, stiffness: float = 1.0) -> Any:
    return np.array([y[1], -stiffness * y[0]])


@pytest.mark.parametrize(
    "options", [{"rtol": 1e-9}, {"dt": 0.02, "sweeper": "semi-implicit"}, {"trace": False}]
)
def test_the_right_hand_side_of_ordinary_differential_equations_is_taken_as_it_is(options: Any) -> None:
    exact = [math.cos(2.0), -2.0 * math.sin(2.0)]
    run = ds.solve(oscillator, u0={"x": 1.0, "v": 0.0}, params={"stiffness": 4.0}, t_end=1.0, **options)
    assert run.u[-1] == pytest.approx(exact, rel=1e-8)


def test_other_verbs_take_a_right_hand_side_too() -> None:
    runs = ds.sweep(
        oscillator, {"stiffness": [1.0, 4.0]}, mass=2.0 * np.eye(2), u0=[1.0, 0.0], t_end=1.0, rtol=1e-9
    )
    # 2 x' = v, 2 v' = -k x.
    assert runs.u[:, -1, 0] == pytest.approx([math.cos(0.5), math.cos(1.0)], rel=1e-8)
    assert ds.structure(oscillator).index == 0
    assert ds.steady_state(lambda t, y: [1.0 - y[0]], guess=[0.0]).u == pytest.approx([1.0])


REFUSED_MASSES: dict[str, tuple[Any, str]] = {
    "of a model": ("pendulum", r"mass belongs to a function f\(t, u\)"),
    "of F(t, u, du)": (pendulum, "missing a required argument: 'du'"),
    "of another size": (robertson, "2 rows for 3 unknowns"),
}


@pytest.mark.parametrize("case", REFUSED_MASSES)
def test_a_mass_matrix_that_does_not_fit_is_refused(case: str) -> None:
    equations, message = REFUSED_MASSES[case]
    start = {} if equations == "pendulum" else {"u0": [1.0, 0.0, 0.0]}
    with pytest.raises(ds.InputError, match=message):
        ds.solve(equations, mass=np.eye(2), t_end=1.0, **start)


def test_a_mass_matrix_of_the_state() -> None:
    """u' (1 + u^2) = -u and 0 = z - u, whose first integral is ln u + u^2 / 2 = c - t."""
    problem = ds.MassMatrixProblem(
        lambda t, u: [u[0] - u[1], -u[1]], lambda t, u: np.array([[0.0, 0.0], [0.0, 1.0 + u[1] ** 2]]), n=2
    )
    found = ds.solve(problem, u0=[1.0, 1.0], t_end=1.0, rtol=1e-9)
    z, u = found.u[-1]
    assert found.success and z == pytest.approx(u, rel=1e-8)
    assert np.log(u) + 0.5 * u * u == pytest.approx(0.5 - 1.0, abs=1e-8)


@pytest.mark.parametrize("trace", [None, False])
def test_a_plain_function_is_solved_at_its_index(trace: bool | None) -> None:
    found = ds.solve(pendulum, u0=[1.0, 0.0, 0.0, 0.0, 0.0], t_end=1.0, rtol=1e-8, trace=trace)
    x, y, v, w, _ = found.u[-1]
    assert found.success and abs(x * x + y * y - 1.0) < 1e-8
    assert abs(v * v + w * w + 2.0 * 9.81 * y) < 1e-6  # energy


def test_the_start_of_a_function_may_name_its_unknowns() -> None:
    start = {"x": 1.0, "y": 0.0, "v": 0.0, "w": 0.0, "force": 0.0}
    found = ds.solve(pendulum, u0=start, t_end=0.5, rtol=1e-6)
    plain = ds.solve(pendulum, u0=list(start.values()), t_end=0.5, rtol=1e-6)
    assert found.names == tuple(start) and np.array_equal(found.u, plain.u)


def test_the_start_of_a_problem_may_name_its_unknowns_in_any_order() -> None:
    problem = ds.MassMatrixProblem(robertson, MASSES["array"], names=("a", "b", "c"))
    named = ds.solve(problem, u0={"c": 0.0, "b": 0.0, "a": 1.0}, t_end=1.0, rtol=1e-6, trace=False)
    plain = ds.solve(problem, u0=[1.0, 0.0, 0.0], t_end=1.0, rtol=1e-6, trace=False)
    assert np.array_equal(named.u, plain.u)


MISTAKES: dict[str, tuple[Any, str]] = {
    "no start": (lambda: ds.solve(pendulum, rtol=1e-6), "a function .* needs u0"),
    "one argument": (lambda: ds.solve(lambda u: u, u0=[1.0]), r"must take the arguments of F\(t, u, du\)"),
    "an end of a right-hand side": (
        lambda: ds.solve(robertson, u0=[1.0, 0.0, 0.0]),
        "robertson ends; give t_end",
    ),
    "no function": (lambda: ds.MassMatrixProblem(1.0, np.eye(2)), r"f\(t, u\) must be a function; got 1.0"),
    "no square": (lambda: ds.MassMatrixProblem(robertson, [[1.0, 2.0]]), r"got shape \(1, 2\)"),
    "no numbers": (lambda: ds.MassMatrixProblem(robertson, [["a"]]), "of real numbers"),
    "not finite": (lambda: ds.MassMatrixProblem(robertson, [[np.nan]]), "finite numbers"),
    "no number of unknowns": (lambda: ds.MassMatrixProblem(robertson, robertson), "give n"),
    "no mass and no number": (lambda: ds.MassMatrixProblem(robertson), "give n"),
    "another number": (lambda: ds.MassMatrixProblem(robertson, np.eye(3), n=2), "3 rows for 2 unknowns"),
    "too few values": (
        lambda: ds.solve(lambda t, u, du: du[:1], u0=[1.0, 2.0], rtol=1e-3),
        "must return 2 values",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_end_in_one_line(name: str) -> None:
    call, message = MISTAKES[name]
    with pytest.raises(ds.InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_structure_takes_a_function_problem() -> None:
    assert ds.structure(ds.FunctionProblem(pendulum, 5)).index == 3


@pytest.mark.parametrize("trace", [None, False])
def test_a_circuit_at_rest_whose_diodes_are_not_defined_far_from_there(trace: bool | None) -> None:
    """Two nodes behind resistors, the second with diode and capacitor; sizes come from the equations."""

    def circuit(t: float, u: Any, du: Any) -> Any:
        first, second = (np.sin(100.0 * np.pi * t) - u[0]) / 100.0, (u[0] - u[1]) / 100.0
        diode = 1e-12 * (math.exp(u[1] / 0.026) - 1.0)
        return [first - second, second - 1e-6 * du[1] - diode]

    found = ds.solve(circuit, u0=[0.0, 0.0], t_end=0.005, rtol=1e-6, trace=trace)
    # The capacitor's charge hardly changes at the crest: the current through the resistors is the diode's.
    first, second = found.u[-1]
    assert found.success and first == pytest.approx(0.5 * (1.0 + second), rel=1e-9)
    assert (1.0 - second) / 200.0 == pytest.approx(1e-12 * np.exp(second / 0.026), rel=1e-3)
    assert found.stats["steps"] < 100


def test_a_run_for_which_nothing_is_given_is_one_to_a_tolerance():
    found = ds.solve("simple", t_end=1.0)
    exact = ds.SimpleDAE()
    assert found.stats["steps"] < 20
    assert np.abs(found.u[-1] - exact.u_exact(1.0)).max() <= 1e-6 * np.abs(exact.u_exact(1.0)).max()
    assert (found.u == ds.solve("simple", t_end=1.0, rtol=1e-6).u).all()


def test_nodes_alone_keep_the_tolerance():
    found = ds.solve("simple", t_end=0.5, nodes=3)
    assert found.parameters["sweeper"] == "radau-iia-5"
    assert (found.u == ds.solve("simple", t_end=0.5, nodes=3, rtol=1e-6).u).all()


def test_what_a_function_needs_is_asked_for_in_one_line():
    def decay(t, u, du):
        x, y = u
        return [du[0] + x, y - 2.0 * x]

    with pytest.raises(ds.InputError, match="nothing tells where the run of decay ends; give t_end"):
        ds.solve(decay, u0=[1.0, 2.0])
    assert ds.solve(decay, u0=[1.0, 2.0], t_eval=[1.0, 3.0]).t[-1] == 3.0
    with pytest.raises(ds.InputError, match="decay has 2 unknowns, and 1 values of them are given"):
        ds.solve(decay, u0=[1.0], t_end=1.0)

    def swapped(u, du, t):
        return [du[0] + u[0]]

    with pytest.raises(ds.InputError, match=r"swapped takes 't' last.*put the time first"):
        ds.solve(swapped, u0=[1.0], t_end=1.0)


@pytest.mark.parametrize("given", [{"dt": 0.1}, {"sweeper": "semi-implicit"}, {"qdelta": "LU"}])
def test_a_step_size_or_a_method_gives_steps_of_a_fixed_size(given):
    found = ds.solve("simple", t_end=0.5, **given)
    assert np.ptp(np.diff(found.t)) <= 1e-12


def test_zero_is_no_missing_tolerance():
    with pytest.raises(ds.InputError, match="rtol"):
        ds.solve("simple", rtol=0.0)


@pytest.mark.long
def test_a_run_that_fails_says_what_is_known_of_the_index():
    def ends(t, u, du):
        x, v, force = u
        return [du[0] - v, du[1] - force / (1.0 - t), x - np.sqrt(1.0 - t)]

    given = {"u0": {"x": 1.0, "v": -0.5, "force": -0.25}, "t_end": 2.0, "rtol": 1e-3}
    found = ds.solve(ends, **given)
    assert not found.success
    assert found.message.endswith("index 3 reduced to 1 first; reduce=False solves the equations as they are")
    found = ds.solve(ends, reduce=False, **given)
    assert found.message.endswith("index 3 is found, with 'force' of index 3, 'v' of index 2")


PENDULUM = """
def pendulum(t, u, du):
    x, y, vx, vy, force = u
    return [du[0] - vx, du[1] - vy, du[2] + force * x, du[3] + force * y + 9.81, x * x + y * y - 1.0]
"""
GUESSES = {"x": 1.0, "y": 0.0, "vx": 0.0, "vy": 0.0, "force": 0.0}


def test_a_function_in_a_file_is_taken_by_every_verb(tmp_path, capsys):
    path = tmp_path / "own.py"
    path.write_text(PENDULUM)
    given = [word for name, value in GUESSES.items() for word in ("--guesses", f"{name}={value}")]
    for words in (
        ["solve", f"{path}:pendulum", "--t-end", "0.5", *given],
        ["initial", f"{path}:pendulum", *given],
        ["structure", f"{path}:pendulum"],
        ["reduce", f"{path}:pendulum"],
        ["simplify", f"{path}:pendulum"],
    ):
        assert cli.main(words) == 0, capsys.readouterr()
    assert "structural index 3" in capsys.readouterr().out


def test_the_number_of_unknowns_of_a_function_is_found():
    space = {}
    exec(PENDULUM, space)
    assert len(ds.trace(space["pendulum"]).names) == 5
    with pytest.raises(ds.InputError, match="several numbers fit"):
        ds.structure(lambda t, u, du: du + u)
    with pytest.raises(ds.InputError, match="none fits"):
        ds.structure(lambda t, u, du: [u[0]] * 300)


def test_fixed_values_do_not_order_the_unknowns_of_a_function():
    with pytest.raises(ds.InputError, match="do not say where they stand in u"):
        ds.solve(lambda t, u, du: du + u, fixed={"x": 1.0}, guesses={"y": 1.0})


def test_a_function_that_was_read_knows_its_algebraic_unknowns(tmp_path: Path) -> None:
    def equations(t: float, u: Any, du: Any) -> Any:
        force, x = u
        return [force - np.cos(x), du[1] + force]

    start = {"force": np.cos(0.5), "x": 0.5}
    out = tmp_path / "run.npy"
    read = ds.solve(equations, u0=start, t_end=1.0, rtol=1e-6, out=out)
    assert read.parameters["n_diff"] == 1 and read.parameters["algebraic"] == ["force"]
    assert ds.load(out).parameters["algebraic"] == ["force"]
    kinds = {name: unknown.kind for name, unknown in Run("run", ds.load(out)).unknowns.items()}
    assert kinds == {"force": WITHOUT, "x": WITH}
    called = ds.solve(equations, u0=start, t_end=1.0, rtol=1e-6, trace=False)
    assert called.parameters["n_diff"] == 2 and called.parameters["algebraic"] == []
    assert ds.solve("pendulum", rtol=1e-4, t_end=0.1).parameters["algebraic"] == ["lambda"]


@pytest.mark.parametrize("trace", [None, False])
def test_keyword_arguments_with_defaults_are_parameters(trace: bool | None) -> None:
    def growth(t: float, u: Any, du: Any, rate: float = 1.0, *, power: int = 1, label: str = "g") -> Any:
        return [du[0] - rate * u[0] ** power, u[1] - len(label) * u[0]]

    settings: dict[str, Any] = {"t_end": 0.25, "rtol": 1e-9, "trace": trace}
    plain = ds.solve(growth, u0=[1.0, 1.0], **settings)
    assert plain.u[-1] == pytest.approx([np.exp(0.25)] * 2, rel=1e-8)
    faster = ds.solve(growth, u0=[1.0, 1.0], params={"rate": 2}, **settings)
    assert faster.u[-1] == pytest.approx([np.exp(0.5)] * 2, rel=1e-8)
    # u' = 2 u^2 from 1 is 1 / (1 - 2 t).
    squares = ds.FunctionProblem(growth, 2, names=("x", "y"))
    other = ds.solve(squares, u0={"x": 1.0}, params={"rate": 2.0, "power": 2, "label": "abc"}, **settings)
    assert other.u[-1] == pytest.approx([2.0, 6.0], rel=1e-8)
    assert (squares.rate, squares.power) == (1.0, 1)
    with pytest.raises(ds.InputError, match="unknown parameter of growth 'rates'; did you mean 'rate'"):
        ds.solve(growth, u0=[1.0, 1.0], params={"rates": 2.0}, **settings)
    with pytest.raises(ds.InputError, match="parameter rate must be a number"):
        ds.solve(growth, u0=[1.0, 1.0], params={"rate": "fast"}, **settings)


def test_parameters_of_functions_are_those_of_every_verb(tmp_path: Path) -> None:
    def tank(t: float, u: Any, du: Any, inflow: float = 1.0, outflow: float = 2.0) -> Any:
        return [du[0] - inflow + outflow * u[0]]

    assert ds.steady_state(tank, guess=[0.0], params={"inflow": 3.0}).u == pytest.approx([1.5])
    poles = ds.linearize(tank, params={"outflow": 5.0}, at=[0.2]).poles
    assert poles == pytest.approx([-5.0])
    mass = ds.MassMatrixProblem(lambda t, u, k=3.0: [-k * u[0], u[1] - u[0]], np.diag([1.0, 0.0]))
    assert ds.solve(mass, u0=[1.0, 1.0], t_end=1.0, params={"k": 0.5}, rtol=1e-8).u[-1] == pytest.approx(
        [np.exp(-0.5)] * 2, rel=1e-7
    )
    file = tmp_path / "tank.py"
    file.write_text("def tank(t, u, du, inflow=1.0):\n    return [du[0] - inflow]\n")
    done = ds.solve(f"{file}:tank", u0=[0.0], params={"inflow": 4.0}, t_end=1.0)
    assert done.u[-1] == pytest.approx([4.0])
    partial = functools.partial(tank, inflow=6.0)
    assert ds.steady_state(partial, guess=[0.0]).u == pytest.approx([3.0])
    assert ds.steady_state(partial, guess=[0.0], params={"outflow": 1.0}).u == pytest.approx([6.0])
