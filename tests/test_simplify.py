"""Solving models without their trivial equations, with all unknowns under the user's names."""

from __future__ import annotations

import pickle
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import sympy

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import name_and_order, name_of
from dae_sdc.model import simplified
from dae_sdc.model.model import Model
from dae_sdc.run.target import models_of

PENDULUM = """
model Wired "pendulum with connections"
  parameter Real m(unit="kg") = 2;
  parameter Real L(unit="m") = 1;
  constant Real g = 9.81;
  Real x(unit="m", start=0.6, fixed=true);
  Real y(unit="m", start=-0.7);
  Real vx(unit="m/s", start=0, fixed=true), vy, ax, ay;
  Real F(unit="N"), Fx(unit="N"), Fy, rx, ry, zero, weight;
equation
  vx = der(x);
  vy = der(y);
  ax = der(vx);
  ay = der(vy);
  zero = 0;
  rx = x - zero;
  ry = -y;
  L * Fx = F * rx;
  L * Fy = -F * ry;
  weight = m * g;
  m * ax = -Fx;
  m * ay = -Fy - weight;
  rx^2 + y^2 = L^2;
  annotation(experiment(StartTime=0, StopTime=1, Interval=0.02));
end Wired;
"""

DECAY = """
model Half
  parameter Real k = 1;
  Real x(start=1, fixed=true), out;
equation
  der(x) = -k * out;
  out = x;
end Half;

model Whole
  Real x(start=3, fixed=true), out;
equation
  der(x) = -out;
  2 * out = x;
end Whole;
"""


@pytest.fixture
def pendulum(tmp_path: Path) -> Path:
    path = tmp_path / "wired.mo"
    path.write_text(PENDULUM)
    return path


def motor() -> Model:
    model = Model("motor", interval=(0.0, 2.0))
    R, L, k, J, d, V = model.parameters("R L k J d V", [1.0, 0.5, 0.2, 0.02, 0.1, 24.0])
    phi, w, i = (model.variable(name, 0.0, fixed=True) for name in ("phi", "w", "i"))
    a, v_R, v_L, v_k, torque, friction, source = model.variables(
        "a v_R v_L v_k torque friction source", unit=["rad/s^2", "V", "V", "V", "N m", "N m", "V"]
    )
    der = model.der
    model.equations(w - der(phi), a - der(w), v_R - R * i, v_L - L * der(i), v_k - k * w, source - V)
    model.equations(source - v_R - v_L - v_k, torque - k * i, friction - d * w, J * a + friction - torque)
    return model


def motor_exactly(t: Any, k: float = 0.2) -> Any:
    """phi, w, i, and their derivatives, by the exponential of a matrix."""
    R, L, J, d, V = 1.0, 0.5, 0.02, 0.1, 24.0
    a = np.array([[0, 1, 0, 0], [0, -d / J, k / J, 0], [0, -k / L, -R / L, V / L], [0, 0, 0, 0]])
    y = np.array([scipy.linalg.expm(a * time) @ [0, 0, 0, 1] for time in t])
    return y[:, :3].T, (y @ a.T)[:, :3].T


def residuals(model: Model, solution: Any) -> float:
    """The largest violation of the equations of a model by what a solution says of its unknowns."""
    symbols = {
        symbol for expression in model.expressions for symbol in expression.free_symbols if symbol.name != "t"
    }
    numbers = {name: p.value for name, p in model.parameters_by_name.items()}
    unknowns = [symbol for symbol in symbols if symbol.name not in numbers]
    columns = [solution.values(name_of(*name_and_order(symbol.name))) for symbol in unknowns]
    put = {symbol: numbers[symbol.name] for symbol in symbols if symbol.name in numbers}
    worst = 0.0
    for expression in model.expressions:
        function = sympy.lambdify([model.t, *unknowns], expression.subs(put))
        worst = max(worst, float(np.abs(function(solution.t, *columns)).max()))
    return worst


def test_all_unknowns_of_the_motor_are_the_exact_ones() -> None:
    model = motor()
    solution = ds.solve(model, simplify=True, rtol=1e-9, dense=True)
    assert solution.names == ("phi", "der(phi)", "der(phi, 2)")
    assert set(solution.all_names) == {*model.names, "der(phi)", "der(phi, 2)"}
    for found in (solution, solution.at(np.linspace(0.0, 2.0, 23))):
        (phi, w, i), (_, a, slope) = motor_exactly(found.t)
        expected = {"phi": phi, "w": w, "i": i, "a": a, "v_R": i, "v_L": 0.5 * slope, "v_k": 0.2 * w}
        expected |= {"torque": 0.2 * i, "friction": 0.1 * w, "source": np.full(len(found.t), 24.0)}
        assert set(expected) == set(model.names)
        for name, exact in {**expected, "der(i)": slope, "der(w)": a}.items():
            np.testing.assert_allclose(found.values(name), exact, rtol=0, atol=2e-6, err_msg=name)


# The force in the rod loses digits at index 3; accelerations that follow from places and speeds do not.
@pytest.mark.parametrize(
    ("options", "allowed"),
    [({}, 1e-4), ({"reduce": True, "project": True}, 1e-7), ({"reduce": True}, 1e-7)],
)
def test_the_equations_hold_for_what_is_said_of_the_unknowns(
    pendulum: Path, options: dict[str, Any], allowed: float
) -> None:
    solution = ds.solve(pendulum, rtol=1e-9, **options)
    model = make(pendulum)
    assert solution.success and solution.names[:2] == ("x", "y") and "vx" not in solution.names
    # The derivatives of vx and vy come from the equations, at the start too.
    assert residuals(model, solution) < allowed
    # 9.81 is what falls, and the rod pulls: the energy stays.
    vx, vy, y = (solution.values(name) for name in ("vx", "vy", "y"))
    np.testing.assert_allclose((vx**2 + vy**2) / 2 + 9.81 * (y + 0.8), 0.0, rtol=0, atol=1e-7)
    # The force in the rod: F L = m (g (-y) / L + v^2 / L) L.
    force = 2.0 * (-9.81 * y + vx**2 + vy**2)
    np.testing.assert_allclose(np.hypot(solution.values("Fx"), solution.values("Fy")), force, atol=1e-5)
    assert "start values made consistent: y from -0.7 to -0.8" in solution.message


def make(path: Path) -> Model:
    from dae_sdc.run.target import make_model

    return make_model(path)


def test_a_start_of_the_original_model_is_one_of_the_simplified(pendulum: Path) -> None:
    start = ds.initial(pendulum, fixed={"x": 0.8, "vx": 0.3}, guesses={"y": 0.5})
    assert start.values["y"] == pytest.approx(0.6)
    solution = ds.solve(pendulum, u0=start.values, rtol=1e-8, reduce=True, t_end=0.1)
    for name in ("x", "y", "vx", "vy", "ax", "ay", "F", "Fx", "rx"):
        assert solution.values(name)[0] == pytest.approx(start.values[name], abs=1e-9), name


def test_with_and_without_simplification(pendulum: Path) -> None:
    options: dict[str, Any] = {"rtol": 1e-8, "t_eval": np.linspace(0.0, 1.0, 11)}
    small, whole = ds.solve(pendulum, **options), ds.solve(pendulum, simplify=False, **options)
    assert len(whole.names) == 13 > len(small.names) and whole.unknowns is None
    for name in whole.names:
        # Forces are of index 3, good to 100 rtol (1 + abs(u)) (tau / h)^2 with steps of a tenth of tau.
        size = 1.0 + np.abs(whole.values(name)).max()
        np.testing.assert_allclose(
            small.values(name), whole.values(name), rtol=0, atol=1e-5 * size, err_msg=name
        )


def test_derivatives_that_no_state_holds() -> None:
    # z = sin t + p(t) with p' = -p: all that z is differentiated for is gone, and follows from the equations.
    model = Model("driven", interval=(0.0, 2.0))
    z, p, v, a, jerk = model.variables("z p v a jerk", start=[None, 1.0, None, None, None])
    der = model.der
    model.equations(z**3 + z - (sympy.sin(model.t) + p), der(p) + p)
    model.equations(v - der(z), a - der(v), jerk - der(a))
    solution = ds.solve(model, simplify=True, rtol=1e-10)
    assert solution.names == ("p", "z")
    t = solution.t
    # w = z^3 + z, and z' = w' / (3 z^2 + 1), and so on
    w1, w2 = np.cos(t) - np.exp(-t), -np.sin(t) + np.exp(-t)
    w3 = -np.cos(t) - np.exp(-t)
    z_, slope = solution.values("z"), 3 * solution.values("z") ** 2 + 1
    z1 = w1 / slope
    z2 = (w2 - 6 * z_ * z1**2) / slope
    z3 = (w3 - 6 * z1**3 - 18 * z_ * z1 * z2) / slope
    for name, exact in {"v": z1, "a": z2, "jerk": z3, "der(v)": z2, "der(p)": -solution.values("p")}.items():
        np.testing.assert_allclose(solution.values(name), exact, rtol=0, atol=1e-8, err_msg=name)


def test_derivatives_behind_a_constraint_and_a_choice() -> None:
    # Index 2: the constraint drives y; a table tells the force.
    model = Model("held", interval=(0.0, 1.0))
    x, y, f, u, out = model.variables("x y f u out", start=[0.0, 1.0, None, None, None])
    der, t = model.der, model.t
    table = sympy.Piecewise((x, x < sympy.Rational(1, 4)), (sympy.Rational(1, 2) - x, True))
    model.equations(der(x) - y - u, der(y) - f, x - t, f - out, u - table)
    solution = ds.solve(model, simplify=True, rtol=1e-9)
    # x = t, y = 1 - u(t), f = -u'(t)
    t_ = solution.t
    before = t_ < 0.25
    np.testing.assert_allclose(solution.values("y"), np.where(before, 1 - t_, 0.5 + t_), atol=1e-9)
    away = np.abs(t_ - 0.25) > 1e-6
    np.testing.assert_allclose(solution.values("out")[away], np.where(before, -1.0, 1.0)[away], atol=1e-7)


def test_derivatives_that_only_the_solution_knows() -> None:
    # The system Jacobian is singular: x = 2 y is hidden, and y = exp(-2 t / 3).
    model = Model("hidden", interval=(0.0, 1.0))
    x, y, v, a = model.variables("x y v a", start=[2.0, 1.0, None, None])
    der = model.der
    model.equations(der(x) + der(y) + x, der(x) + der(y) + 2 * y, v - der(x), a - der(v))
    solution = ds.solve(model, simplify=True, rtol=1e-8)
    assert solution.names == ("x", "y")
    exact = -4 / 3 * np.exp(-2 * solution.t / 3)
    np.testing.assert_allclose(solution.values("v"), exact, rtol=0, atol=1e-8)
    with pytest.raises(
        InputError, match=r"a of model hidden needs der\(x, 2\), which its equations do not tell"
    ):
        solution.values("a")
    assert np.isnan(solution.result().data["others"][:, 1]).all()  # saved all the same


def test_saved_and_read(tmp_path: Path) -> None:
    path = tmp_path / "motor.npy"
    solution = ds.solve(motor(), simplify=True, rtol=1e-6, dense=True, out=path)
    found = ds.Solution.load(path)
    assert found.all_names == solution.all_names and found.names == solution.names
    for name in solution.all_names:
        np.testing.assert_array_equal(found.values(name), solution.values(name))
    # Without the equations the rate is that of the solution, which is not known at the start.
    np.testing.assert_array_equal(found.values("der(phi, 3)"), solution.du[:, 2])
    with pytest.raises(InputError, match="v_L was eliminated, and its values are saved at the times"):
        found.at(np.array([0.0, 0.123])).values("v_L")
    with pytest.raises(InputError, match="unknown name 'torqe'; did you mean 'torque'"):
        found.values("torqe")
    # Once more, from what was read.
    again = tmp_path / "again.npy"
    found.save(again)
    np.testing.assert_array_equal(ds.Solution.load(again).values("i"), solution.values("i"))
    picture = tmp_path / "motor.svg"
    ds.plot("linear", path, out=picture, show=["phi", "torque", "v_L"])
    assert "torque" in picture.read_text()
    with pytest.raises(InputError, match="unknown name 'torqe'; did you mean 'torque'"):
        ds.plot("linear", path, show=["torqe"])


def test_a_solution_goes_to_another_process_with_all_unknowns() -> None:
    done = ds.solve("slider-crank-2d", rtol=1e-6, t_end=0.2)
    there = pickle.loads(pickle.dumps(done))
    for name in (*done.all_names, "der(crank.w)"):
        assert np.array_equal(there.values(name), done.values(name))


def test_names_without_simplification() -> None:
    solution = ds.solve("simple", rtol=1e-6, t_end=0.1)
    np.testing.assert_array_equal(solution.values(solution.names[0]), solution.u[:, 0])
    rate = f"der({solution.names[0]})"
    np.testing.assert_array_equal(solution.values(rate), solution.du[:, 0])
    with pytest.raises(InputError, match="unknown name 'nothing'"):
        solution.values("nothing")
    assert solution.all_names == solution.names


def test_parameters_of_a_run() -> None:
    model = motor()
    solution = ds.solve(model, simplify=True, rtol=1e-8, params={"k": 0.4})
    (_, _, i), _ = motor_exactly(solution.t, 0.4)
    np.testing.assert_allclose(solution.values("torque"), 0.4 * i, rtol=0, atol=2e-6)
    assert model.parameters_by_name["k"].value == 0.2  # the user's model is as before
    # k = 0 leaves the current alone: i = 0.02 a / k would divide by it.
    alone = ds.solve(model, simplify=True, rtol=1e-8, params={"k": 0.0})
    np.testing.assert_allclose(alone.values("i"), 24 * (1 - np.exp(-2 * alone.t)), rtol=0, atol=1e-6)
    np.testing.assert_allclose(alone.values("w"), 0.0, atol=1e-12)
    with pytest.raises(InputError, match="unknown parameter of model motor 'K'"):
        ds.solve(model, simplify=True, rtol=1e-8, params={"K": 0.0})


@pytest.mark.parametrize("settings", [{"rtol": 1e-8}, {"dt": 0.02}, {"rtol": 1e-8, "sweeper": "ida"}])
def test_the_start_of_an_algebraic_unknown_tells_its_branch(settings: dict[str, Any]) -> None:
    model = Model("diode", interval=(0.0, 0.6))
    v, i = model.variables("v i", start=[2.0, 8 / 3 - 2])
    model.equations(model.der(i) + v, i - (v**3 / 3 - v))
    done = ds.solve(model, simplify=True, **settings)
    v = done.values("v")  # (v^2 - 1) v' = -v
    assert done.success and np.abs(v**2 / 2 - np.log(v) - (2 - np.log(2) - done.t)).max() < 1e-6


def test_a_simplified_model_is_solved_as_it_is() -> None:
    found = ds.simplify(motor())
    solution = ds.solve(found, rtol=1e-8)
    (_, _, i), _ = motor_exactly(solution.t)
    np.testing.assert_allclose(solution.values("i"), i, rtol=0, atol=1e-5)
    # 0.2 i = 0.02 a + 0.1 w
    start = {"phi": 1.0, "der(phi)": 2.0, "der(phi, 2)": 4.0}
    turned = ds.solve(found, rtol=1e-8, u0=start)
    assert turned.u[0].tolist() == [1.0, 2.0, 4.0]
    assert turned.values("i")[0] == pytest.approx(1.4)
    # The same by the names of the model as it was written, 0.2 i = 0.02 a + 0.1 w.
    for names in ({"phi": 1.0, "w": 2.0, "i": 1.4}, {"friction": 0.2, "v_R": 1.4, "phi": 1.0}):
        same = ds.solve(found, rtol=1e-8, u0=names, t_end=0.1)
        np.testing.assert_allclose(same.u[0], [1.0, 2.0, 4.0], rtol=1e-12)
    with pytest.raises(InputError, match="has no unknown torqe; did you mean torque"):
        ds.solve(found, rtol=1e-8, u0={"torqe": 1.0})
    other = ds.solve(found, rtol=1e-8, params={"V": 12.0})
    np.testing.assert_allclose(other.values("i")[-1], i[-1] / 2, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match=r"k was divided by .* is 0 with k=0"):
        ds.solve(found, rtol=1e-8, params={"k": 0.0})
    some = ds.solve(found, rtol=1e-8, u0={"phi": 1.0}, t_end=0.1)
    assert some.values("phi")[0] == 1.0 and "u0 completed with" in some.message
    with pytest.raises(InputError, match="simplified already"):
        ds.solve(found, simplify=False)


def test_what_linear_equations_would_spoil_is_left_to_trivial_ones() -> None:
    model = Model("spoilt")
    x = model.variables([f"x{i}" for i in range(6)])
    der, t = model.der, model.t
    model.equations(-der(x[0]) + 2 * der(x[1]) + 5 * der(x[5], 2) + 1, t - x[5])
    model.equations(-der(x[1]) + 5 * der(x[4], 2) + 2 * der(x[5], 2) + 3 * x[3])
    model.equations(
        2 * der(x[2]) + 5 * x[0] ** 2 + 2 * x[2] * x[5] + x[3] + 1, 2 * der(x[4]) + 3 * x[2] + 5 * x[3]
    )
    model.equations(t + 5 * der(x[2]) + x[5] + 5 * sympy.sin(x[1]))
    # Without x3 = x1' / 3 - 5 x4'' / 3 the system Jacobian is singular: x4'' is in two equations alike.
    assert not ds.structure(ds.model.simplified.simplify(model).model).regular
    found = ds.simplify(model)
    assert ds.structure(found.model).dof == ds.structure(model).dof == 4
    assert "x3" in found.model.names


def test_results_go_whatever_tells_them() -> None:
    m = ds.Model("swing", interval=(0.0, 3.0))
    phi, w = m.variables("phi w", start=[2.0, 0.0], fixed=True)
    x, y, vx, vy, ax, pull, energy = m.variables("x y vx vy ax pull energy")
    m.equations(w - m.der(phi), m.der(w) + 9.81 * sympy.sin(phi))
    m.equations(x - sympy.sin(phi), y + sympy.cos(phi), vx - m.der(x), vy - m.der(y), ax - m.der(vx))
    m.equations(pull + ax * x + (m.der(vy) + 9.81) * y, energy - (vx**2 + vy**2) / 2 - 9.81 * y)
    found = ds.simplify(m)
    assert found.model.names == ("phi",) and ds.structure(found.model).index == 0
    solution = ds.solve(m, simplify=True, rtol=1e-10)
    angle, rate = solution.values("phi"), solution.values("w")
    exact = {
        **{"x": np.sin(angle), "vy": rate * np.sin(angle), "energy": 0 * angle - 9.81 * np.cos(2.0)},
        "ax": -9.81 * np.sin(angle) * np.cos(angle) - rate**2 * np.sin(angle),
        "pull": rate**2 + 9.81 * np.cos(angle),
    }
    for name, values in exact.items():
        np.testing.assert_allclose(solution.values(name), values, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("chooses", [{"start": 0.5}, {"min": 0.0}, {"max": 2.0}])
def test_what_chooses_a_start_or_is_used_is_no_result(chooses: dict[str, float]) -> None:
    m = ds.Model("chosen", interval=(0.0, 1.0))
    u, v, used = m.variables("u v used", start=[0.3, None, None])
    result, kept, switch = m.variable("result"), m.variable("kept", **chooses), m.variable("switch")
    m.equations(m.der(u) - v, m.der(v) + used**3, used - sympy.exp(u * v))
    m.equations(result - sympy.exp(u), kept - u**2, switch - sympy.Piecewise((1, u < 0), (u, True)))
    assert ds.simplify(m).model.names == ("u", "used", "kept", "switch")
    assert ds.simplify(m, level="explicit").model.names == ("u",)


def test_torques_of_springs_and_dampers_go_where_masses_move_too() -> None:
    def left(torque: Any) -> tuple[str, ...]:
        m = ds.Model("arms")
        a, b, turn = m.variables("a b turn", start=[0.3, 0.1, None])
        damped, heavy = 3 * (a - b) + m.der(a) - m.der(b), m.der(a, 2) - m.der(b, 2)
        m.equations(turn - {"spring and damper": damped, "a third mass": heavy}[torque])
        m.equations(m.der(b, 2) + sympy.cos(a - b) * m.der(a, 2) - turn)
        m.equation(m.der(a, 2) + sympy.cos(a - b) * m.der(b, 2) + sympy.sin(a))
        return ds.simplify(m).model.names

    assert left("spring and damper") == ("a", "b")
    assert left("a third mass") == ("a", "b", "turn")


def test_a_model_of_constants_is_solved_as_it_is() -> None:
    model = Model("still", interval=(0.0, 1.0), dt=0.5)
    x, y = model.variables("x y", start=0.0)
    model.equations(x + 2 * y - 3, y - 1)
    assert ds.simplify(model).model.names == ()
    solution = ds.solve(model, simplify=True)
    np.testing.assert_allclose(solution.u, 1.0, atol=1e-12)


def test_by_sundials() -> None:
    pytest.importorskip("sksundae")
    solution = ds.solve(motor(), simplify=True, sweeper="ida", rtol=1e-8)
    (_, _, i), _ = motor_exactly(solution.t)
    np.testing.assert_allclose(solution.values("i"), i, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"problem": "simple", "simplify": True}, ("simplify belongs to models", "simple is none")),
        ({"problem": ds.SimpleDAE, "reduce": True}, ("reduce belongs to models", "SimpleDAE is none")),
        ({"problem": "simple", "u0": {"x": 1.0}}, ("unknown name in u0 'x'", "u1, u2, z")),
        ({"problem": "simple", "u0": {"z": "1.0"}}, ("z must be a number; got '1.0'",)),
        ({"problem": "slider-crank-4", "simplify": "yes"}, ("simplify must be True or False; got 'yes'",)),
        ({"problem": "nowhere.mo"}, ("nowhere.mo",)),
        ({"problem": "nowhere.py", "simplify": True}, ("there is no file nowhere.py",)),
    ],
)
def test_what_cannot_be(arguments: dict[str, Any], parts: Sequence[str]) -> None:
    with pytest.raises(InputError) as caught:
        ds.solve(**arguments, rtol=1e-6)
    assert "\n" not in str(caught.value) and all(part in str(caught.value) for part in parts), caught.value


def test_files_and_classes(tmp_path: Path) -> None:
    path = tmp_path / "decay.mo"
    path.write_text(DECAY)
    whole = ds.solve(path, rtol=1e-10, t_end=1.0)
    np.testing.assert_allclose(whole.values("out"), 1.5 * np.exp(-whole.t / 2), rtol=1e-8)
    half = ds.solve(f"{path}:Half", rtol=1e-10, t_end=1.0, params={"k": 2.0})
    np.testing.assert_allclose(half.values("out"), np.exp(-2 * half.t), rtol=1e-8)
    assert not half.message
    assert ds.structure(f"{path}:Half").dof == 1
    assert ds.initial(f"{path}:Half").values["out"] == pytest.approx(1.0)
    assert ds.reduce(f"{path}:Half").index in (0, 1)
    assert ds.simplify(f"{path}:Half").model.names == ("x",)
    with pytest.raises(InputError, match="Third"):
        ds.simplify(f"{path}:Third")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_verb(pendulum: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "simplify", str(pendulum), "--all", "--equations", "--level", "trivial")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert {"unknowns 13 3", "equations 13 3", "index 3 3", "degrees of freedom 2 2"} <= set(rows)
    assert {"ax = der(x, 2)", "ry = -y", "zero = 0", "rx = x", "weight = 981*m/100"} <= set(rows)
    assert "Wired (pendulum with connections): 3 unknowns, 3 equations, 2 parameters" in rows
    code, out, _ = said(capsys, "simplify", str(pendulum), "--fold", "--equations", "--params", "m=3")
    assert code == 0 and "0 parameters" in out
    code, out, _ = said(capsys, "simplify", f"slider-crank-4,{pendulum}")
    cells = [line.split()[:7] for line in out.splitlines()]
    assert cells[1] == ["slider-crank-4", "4", "4", "3", "3", "2", "2"]
    assert cells[2] == [str(pendulum), "13", "3", "3", "3", "2", "2"]
    code, _, err = said(capsys, "simplify", f"pendulum,{pendulum}", "--all")
    assert code == 2 and "show one model" in err


def test_solving_by_the_command_line(
    pendulum: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.npy"
    options = ["--reduce", "--project", "--rtol", "1e-8", "--points", "5", "--out", str(out)]
    code, text, _ = said(capsys, "solve", str(pendulum), *options)
    assert code == 0 and "and 10 eliminated unknowns, computed" in text and "y from -0.7 to -0.8" in text
    found = ds.Solution.load(out)
    np.testing.assert_allclose(found.t, np.linspace(0.0, 1.0, 5))
    np.testing.assert_allclose(found.values("rx") ** 2 + found.values("ry") ** 2, 1.0, atol=1e-10)
    picture = tmp_path / "out.png"
    code, _, _ = said(capsys, "plot", "linear", str(out), "-o", str(picture), "--show", "Fx,weight,x")
    assert code == 0 and picture.exists()
    code, text, _ = said(capsys, "solve", str(pendulum), "--no-simplify", "--rtol", "1e-5")
    assert code == 0 and " weight " in text


def test_a_word_stands_for_all_models() -> None:
    assert models_of(Namespace(model="all")) == (list(ds.MODELS), False)


def test_the_work_grows_with_the_number_of_equations_beside_one_that_has_all_unknowns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    told = simplified._TrivialElimination._told
    monkeypatch.setattr(
        simplified._TrivialElimination, "_told", lambda self, j: (calls.append(j), told(self, j))[1]
    )
    counts = []
    for n in (50, 200):
        model = ds.Model(f"node-{n}")
        v = model.variables([f"v{k}" for k in range(n)], start=1.0, fixed=True)
        i, j = (model.variables([f"{name}{k}" for k in range(n)]) for name in "ij")
        ground = model.variable("ground")
        model.equation(sum(i) + ground)
        model.equations([model.der(v[k]) + (k + 1) * j[k] for k in range(n)], [i[k] + j[k] for k in range(n)])
        model.equations([v[k] - (k + 1) * j[k] for k in range(n)])
        calls.clear()
        found = ds.simplify(model)
        counts.append(len(calls))
        assert len(found.model.names) == n
        assert len(found.map) == 2 * n + 1
    assert counts[1] < 6 * counts[0]  # four times the equations


def test_removed_unknowns_that_cancel_in_an_expression_are_not_asked_for() -> None:
    # An equal expression, p - (p + g), is made on the way for -g, before p is eliminated.
    text = """model C Real g(start=1,fixed=true), a(start=2,fixed=true), q, v, n, p, sv, y;
        equation y = v*v+p; q = v*p; n = p + g; sv = sin(time); v = p - n; sv = p + a; der(g) = -g*g;
        der(a) = -a*a; end C;"""
    model = ds.read_modelica_text(text)
    simplified_model = ds.simplify(model)
    for name in model.names:
        assert not {base for base, _ in simplified_model.needed(name)} & simplified_model.map.keys()
    run = ds.solve(model, simplify=True, rtol=1e-9, t_end=1.0)
    g, p = 1.0 / (1.0 + run.t), np.sin(run.t) - 2.0 / (1.0 + 2.0 * run.t)
    np.testing.assert_allclose(run.values("v"), -g, rtol=1e-7)
    np.testing.assert_allclose(run.values("q"), -g * p, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(run.values("y"), g * g + p, rtol=1e-7, atol=1e-8)
    assert simplified_model.kept_values({"v": -3.0}, 0.0) == {"g": 3.0}


@pytest.mark.parametrize("common", ["exp(-sqrt(z + w))^2", "sin(z*w)"])
def test_unknowns_that_cancel_in_a_ratio_are_not_asked_for(common: str) -> None:
    text = f"""model C function share input Real s; output Real y; protected Real parts[3] = {{s, 2*s, 3*s}};
        algorithm y := exp(-sqrt(7*s/sum(parts))); end share; Real z, w, y(start=1, fixed=true);
        equation w = 3*z; z = 2 + sin(time); der(y) = -share({common})*y; end C;"""
    run = ds.solve(ds.read_modelica_text(text), simplify=True, rtol=1e-9, t_end=1.0)
    assert run.values("y")[-1] == pytest.approx(np.exp(-np.exp(-np.sqrt(7 / 6))), rel=1e-8)


def test_a_simplified_model_that_slides_is_solved_as_it_was() -> None:
    text = """model S Real x(start=1,fixed=true), y, u; equation u = if y > 0 then -1 else 1;
        der(x) = 2*u - 0.5; y = 2*x; end S;"""
    run = ds.solve(ds.simplify(ds.read_modelica_text(text)), rtol=1e-8, t_end=1.0)
    assert run.success and "slides along 'y > 0' from t=0.4 on" in run.message
    assert run.values("x")[-1] == pytest.approx(0.0, abs=1e-12)
    assert run.values("u")[-1] == pytest.approx(0.25, rel=1e-12)  # which keeps x where it is


def test_events_of_removed_unknowns_have_their_times() -> None:
    text = """model E Real x(start=0,fixed=true), y, z; discrete Real n(start=0,fixed=true);
        equation der(x) = 1 + n; y = 3*x*x; z = y - x; when z > 2 then n = pre(n) + y; end when;
        end E;"""
    run = ds.solve(ds.read_modelica_text(text), simplify=True, rtol=1e-9, t_end=1.5)
    assert {"y", "z"} <= {*run.all_names} - {*run.names}
    assert run.events[0].t.tolist() == pytest.approx([1.0], rel=1e-9)  # 3 x^2 - x = 2 at x = 1
    assert run.values("n")[-1] == pytest.approx(3.0, rel=1e-9)
    assert run.values("x")[-1] == pytest.approx(1.0 + 4.0 * 0.5, rel=1e-9)
