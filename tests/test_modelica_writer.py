"""Models written as flat Modelica, against what both readers make of the text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sympy

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.errors import InputError
from dae_sdc.modelica.reader import read_modelica_text
from dae_sdc.modelica.writer import modelica_text
from dae_sdc.options import MODELICA_READERS as READERS
from dae_sdc.problems._models import MODELS

# Units in other letters: those of Modelica have no powers and no blanks.
PLAIN = {"m/s^2": "m/s2", "kg m^2": "kg.m2", "l/mol/min": "l/(mol.min)", "(l/mol)^2/min": "", "m": "m"}


@cache
def model_of(name: str) -> ds.Model:
    return MODELS[name]()


def in_modelica(name: str) -> str:
    """The name of an unknown of a problem in the text that is written."""
    return re.sub(r"^der\((.*)\)$", r"der_\1", name)


def same_values(model: ds.Model, other: ds.Model) -> bool:
    """Whether two models have the same starts and, at random points, the same residuals in any order."""
    one, two = model.problem(), other.problem()
    places = [two.names.index(in_modelica(name)) for name in one.names]
    assert sorted(places) == [*range(one.n)]
    assert np.array_equal(one.start_values, two.start_values[places], equal_nan=True)
    source = np.random.default_rng(3)
    for _ in range(3):
        u, du = source.uniform(0.2, 1.0, (2, one.n))
        state, rate = np.empty((2, two.n))
        state[places], rate[places] = u, du
        sizes = [
            np.sort(np.abs(problem.eval_f(problem.state(values), problem.state(rates), 0.3)))
            for problem, values, rates in ((one, u, du), (two, state, rate))
        ]
        assert np.allclose(*sizes, rtol=1e-12, atol=1e-12, equal_nan=True)
    return True


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_comes_back(name: str, reader: str) -> None:
    model = model_of(name)
    other = read_modelica_text(modelica_text(model), reader=reader)
    assert other.parameter_names == model.parameter_names
    assert [p.value for p in other.parameters_by_name.values()] == [
        p.value for p in model.parameters_by_name.values()
    ]
    assert (other.name, other.title) == (model.name, model.title)
    assert (other.interval, other.dt) == (model.interval, model.dt)
    assert other.reference.removesuffix("(read by rumoca)").strip() == " ".join(model.reference.split())
    for name, variable in model.variables_by_name.items():
        back = other.variables_by_name[name]
        assert (back.minimum, back.maximum) == (variable.minimum, variable.maximum)
        assert back.nominal == {k: size for k, size in variable.nominal.items() if k == 0}
        assert back.unit == PLAIN.get(variable.unit, back.unit)
        assert (0 in back.fixed) == (0 in variable.fixed)
    assert same_values(model, other)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("verb", ["simplify", "reduce"])
@pytest.mark.parametrize("name", ["car-axis", "pendulum", "rlc-circuit", "transistor-amplifier"])
def test_simplified_and_reduced_models_have_the_solutions_of_before(
    name: str, verb: str, reader: str, tmp_path: Path
) -> None:
    made = getattr(ds, verb)(name).model
    path = ds.write_modelica(made, tmp_path / "made")
    assert path == tmp_path / "made.mo" and [*tmp_path.iterdir()] == [path]
    other = ds.read_modelica(path, reader=reader)
    assert same_values(made, other)
    if name != "transistor-amplifier":
        one, two = (ds.solve(model, rtol=1e-7, t_end=made.interval[1] / 4) for model in (made, other))
        places = [two.names.index(in_modelica(word)) for word in one.names]
        assert np.allclose(one.u[-1], two.u[-1][places], rtol=1e-5, atol=1e-5)


def test_a_fixed_derivative_comes_back_as_an_initial_equation() -> None:
    model = ds.Model("moving")
    x, y = model.variables("x y", start=[1.0, None])
    model.equations(model.der(x) + y, y - 2 * x)
    model.start("der(x)", -3.0, fixed=True)
    for reader in READERS:
        other = read_modelica_text(modelica_text(model), reader=reader)
        variable = other.variables_by_name["x"]
        assert (variable.start[1], variable.fixed) == (-3.0, {1})
        assert ds.initial(other)["x"] == pytest.approx(1.5)


def test_names_numbers_functions_and_choices_come_back() -> None:
    model = ds.Model("odd name", title='a "title" with \\', reference="A & B <1999>")
    names = ["R1.v", "x[1]", "when", "2nd", "a:b", "der_q", "q"]
    x = model.variables(names, start=1e-300)
    k = model.parameter("k.R", -2.5)
    first, second = (x[0] < 1) & ~(x[2] >= model.t), (x[2] > 2) | (x[3] < 0)
    choice = sympy.Piecewise((x[1], first), (k * x[1] ** -3, second), (x[2], True))
    power = x[0] ** sympy.Rational(1, 3) + x[1] ** x[2]
    model.equations(
        model.der(x[0]) - choice,
        sympy.asinh(x[1]) + sympy.atanh(x[2] / 3) + sympy.acosh(2 + x[0]) - sympy.atan2(x[1], x[2]),
        sympy.Max(x[2], k) - sympy.Abs(x[1]) - sympy.floor(3 * x[2]) * sympy.sign(x[0] - sympy.pi),
        x[3] - (power + x[2] * k / (x[0] * x[1]) - (x[0] - (x[1] - k))),
        model.der(x[4]) + 1e-17 * x[4] * 10**30,
        model.der(x[5]) - x[5],
        model.der(x[6], 2) + x[6] * sympy.exp(-(x[5] ** 2)) ** 2,
    )
    for reader in READERS:
        other = read_modelica_text(modelica_text(model), reader=reader)
        assert (other.name, other.title) == (model.name, model.title)
        assert other.reference.startswith("A & B <1999>")
        one, two = model.problem(), other.problem()
        assert {*two.names} == {*names, "der_q_"}
        source = np.random.default_rng(1)
        places = [two.names.index("der_q_" if name == "der(q)" else name) for name in one.names]
        for _ in range(20):
            u, du = source.uniform(0.2, 2.5, (2, one.n))
            state, rate = np.empty((2, one.n))
            state[places], rate[places] = u, du
            first = one.eval_f(one.state(u), one.state(du), 0.7)
            second = two.eval_f(two.state(state), two.state(rate), 0.7)
            assert np.allclose(np.sort(np.abs(first)), np.sort(np.abs(second)), rtol=1e-12, atol=1e-12)


def heated() -> ds.Model:
    """A room whose heating is switched at 19 and 21 degrees."""
    model = ds.Model("heated", interval=(0.0, 5.0))
    T = model.variable("T", start=18.0, fixed=True)
    on = model.discrete("on", 1.0)
    model.equations(model.der(T) - 10.0 * on + 0.5 * (T - 10.0))
    model.when(T > 21, {on: 0})
    model.when(T < 19, {on: 1})
    return model


def bouncing() -> ds.Model:
    """A ball that loses a fifth of its speed where it meets the ground, and a counter of that."""
    model = ds.Model("bouncing", interval=(0.0, 2.0))
    h, v = model.variables("h v", start=[1.0, 0.0], fixed=True)
    n = model.discrete("n")
    model.equations(model.der(h) - v, model.der(v) + 9.81)
    model.when(h, {v: -0.8 * v, n: n + 1}, direction=-1)
    model.when("sample(0.25, 0.5)", {h: h + 0.125}, only=v > 0)
    return model


def overflowing() -> ds.Model:
    """A tank whose run ends with a message."""
    model = ds.Model("overflowing", interval=(0.0, 3.0))
    h = model.variable("h", start=1.0, fixed=True)
    model.equation(model.der(h) - 1)
    model.require(h < 2, "the tank overflows")
    return model


def emptied() -> ds.Model:
    """A tank whose run ends where it is empty."""
    model = ds.Model("emptied", interval=(0.0, 3.0))
    h = model.variable("h", start=1.0, fixed=True)
    model.equation(model.der(h) + 1)
    model.when(h < 0.25, terminal=True)
    return model


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("make", [heated, bouncing, overflowing, emptied])
def test_events_come_back(make: object, reader: str) -> None:
    assert callable(make)
    model = make()
    one = ds.solve(model, rtol=1e-9)
    two = ds.solve(read_modelica_text(modelica_text(model), reader=reader), rtol=1e-9)
    places = [two.names.index(name) for name in one.names]
    assert one.t[-1] == pytest.approx(two.t[-1], abs=1e-7)
    assert np.allclose(one.u[-1], two.u[-1][places], rtol=1e-6, atol=1e-6)
    assert one.success == two.success


def test_a_homotopy_comes_back() -> None:
    model = ds.Model("pipe")
    q, p = model.variables("q p", start=[0.0, 10.0], fixed=[False, True])
    model.equations(model.der(p) + q, ds.homotopy(q**3 + q, q) - p)
    for reader in READERS:
        other = read_modelica_text(modelica_text(model), reader=reader)
        assert len(other.simplified_roots) == 1
        assert ds.initial(other)["q"] == pytest.approx(2.0)


def two_samplers(model: ds.Model, x: object) -> None:
    n = model.discrete("n")
    model.when("sample(0, 1)", {n: n + 1})
    model.when("sample(0, 2)", {n: n + 10})


REFUSED = {
    "a name with a quote": lambda model, x: model.equation(model.variable("a'b") - x),
    "an event of what has no derivative": lambda model, x: (
        model.equation(model.variable("y") - x),
        model.when(x < 0, {"y": 2}),
    ),
    "a name that is no unknown": lambda model, x: model.when("gone > 1", terminal=True),
    "two events at the same time": two_samplers,
    "a fixed start of a second derivative": lambda model, x: model.start("der(x, 2)", 1.0, fixed=True),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_written_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    model = ds.Model("refused")
    x = model.variable("x", start=1.0)
    model.equation(model.der(x) + x)
    REFUSED[what](model, x)
    with pytest.raises(InputError, match=r"Modelica.*; |no name in Modelica; ") as caught:
        ds.write_modelica(model, tmp_path / "refused.mo")
    assert "\n" not in str(caught.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("verb", ["simplify", "reduce"])
def test_the_command_line_writes_models(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.mo"
    assert cli.main([verb, "pendulum", "--out", str(path)]) == 0
    assert f"wrote {path}" in capsys.readouterr().out
    assert {*ds.read_modelica(path).names} == {"x", "y", "lambda", "der_x", "der_y"}
    assert cli.main([verb, "pendulum,dc-motor", "--out", str(path)]) == 2
    assert "name one" in capsys.readouterr().err


def test_results_as_text_have_the_names_of_modelica(tmp_path: Path) -> None:
    text = """model M
      Real 'a b'(start = 1, fixed = true), x[2](each start = 1, each fixed = true), R.v, 'S.v', t;
    equation der('a b') = -'a b'; der(x[1]) = -x[2]; der(x[2]) = x[1]; R.v = 2*time; 'S.v' = R.v; t = 'a b';
    end M;"""
    solution = ds.solve(read_modelica_text(text), rtol=1e-6)
    head, *rows = solution.save(tmp_path / "m.csv").read_text().splitlines()
    assert head.split(",")[0] == "time" and len(rows) == len(solution.t)
    assert {*head.split(",")} == {"time", "a b", "x[1]", "x[2]", "R.v", "S.v", "t"}
    solution.save(tmp_path / "m.npy")
    ds.Solution.load(tmp_path / "m.npy").save(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().splitlines()[0] == head


def test_discrete_unknowns_that_no_event_changes_are_inputs() -> None:
    model = ds.Model("held", interval=(0.0, 2.0))
    x, u, n = model.variable("x", start=0.0, fixed=True), model.discrete("u", 2.0), model.discrete("n", 1.0)
    model.equation(model.der(x) - u - n)
    model.when(x > 3, {n: 0.0})
    text = modelica_text(model)
    assert "input Real u(start=2.0, fixed=true);" in text
    assert "discrete Real n(start=1.0, fixed=true);" in text
    for reader in READERS:
        with pytest.warns(ds.DAEWarning, match="nothing gives the input u a value"):
            again = read_modelica_text(text, reader=reader)
        assert [each.name for each in again.unknowns() if each.discrete] == ["u", "n"]
        # x = 3 at t = 1, from where it grows by 2 a second, and from 1.5 on by 4.
        run = ds.solve(again, events=["sample(1.5, 9); u = 4"], rtol=1e-8)
        assert run["x"][-1] == pytest.approx(3 + 1 + 2, rel=1e-9)
