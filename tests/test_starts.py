"""Where runs start: the nearest consistent values to their last digits, or a refusal with names."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc.modelica.writer import modelica_text


def made(names: str, equations: Any, parameters: dict[str, float] | None = None, **start: float) -> ds.Model:
    """A model of algebraic equations, which are a function of its unknowns."""
    model = ds.Model("made")
    found = model.variables(names)
    unknowns = list(found) if isinstance(found, list | tuple) else [found]
    for name, value in start.items():
        model.start(name, value)
    given = [model.parameter(name, value) for name, value in (parameters or {}).items()]
    model.equations(*equations(*unknowns, *given))
    return model


# --- a run starts where ds.initial does ---------------------------------------------------------------------


@pytest.mark.parametrize("simplify", [None, True])
def test_a_run_starts_without_start_values_where_initial_does(simplify: bool | None) -> None:
    def equations(x: Any, y: Any) -> list[Any]:
        return [x**2 - 9, y**2 - 9]

    start = ds.initial(made("x y", equations))
    run = ds.solve(made("x y", equations), simplify=simplify, rtol=1e-6, t_end=0.1)
    assert run.success
    assert np.abs(start.u).tolist() == [3.0, 3.0]
    np.testing.assert_allclose(run.u[0], start.u, rtol=1e-15)
    assert len(start.solutions) == 4
    assert "nearest of 4 starts" in run.message


def test_a_run_starts_from_a_guess_that_is_no_root_and_says_so() -> None:
    run = ds.solve(made("x y", lambda x, y: [x**2 - 9, y - x], x=1.0, y=0.0), rtol=1e-6, t_end=0.1)
    np.testing.assert_allclose(run.u[0], [3.0, 3.0], rtol=1e-15)
    assert "x from 1 to 3" in run.message


def test_a_simplified_model_starts_on_the_branch_of_the_model_before() -> None:
    def model() -> ds.Model:
        m = ds.Model("branches")
        x0, x3, x4, x5, x6, x7, x8 = m.variables("x0 x3 x4 x5 x6 x7 x8")
        s, c = sp.sin(m.t), sp.cos(m.t)
        m.equations(x0 - sp.sin(5 * m.t), x3 * s + x4 + x0, x5 + x6 * c - x0, sp.sin(x7) + x8)
        m.equations(x3 - x7 + 2, x5 + x7 * s + 2 * x0, x4 + x6 + x8 * c)
        return m

    start = ds.initial(model())
    # Nothing is given: (x3, x7) = (-2, 0) is nearer to 0 than (pi - 2, pi).
    assert start.values["x7"] == pytest.approx(0.0, abs=1e-12)
    for simplify in (True, ds.simplify(model(), fold=True)):
        run = (
            ds.solve(model(), simplify=True, rtol=1e-8, t_end=0.08)
            if simplify is True
            else ds.solve(simplify, rtol=1e-8, t_end=0.08)
        )
        assert run.values("x7")[0] == pytest.approx(0.0, abs=1e-12)
        assert "x3 = -2" in run.message


def test_a_model_that_is_simplified_with_other_parameters_starts_with_these() -> None:
    m = ds.Model("scaled")
    a = m.parameter("a", 2.0)
    x, y = m.variables("x y", start=[1.0, None])
    m.equations(x**2 - a, y - x)
    run = ds.solve(m, simplify=True, params={"a": 9.0}, rtol=1e-6, t_end=0.1)
    assert run.values("y")[0] == pytest.approx(3.0, rel=1e-15)
    assert m.parameters_by_name["a"].value == 2.0


@pytest.mark.parametrize("simplify", [False, True])
def test_slopes_are_known_where_a_start_was_computed(simplify: bool) -> None:
    # v3 = -sin(t) and v1' = v3' + i, with i = -sin(t): i follows from slopes alone where it is eliminated.
    model = ds.Model("hidden", interval=(0.0, 1.0))
    v1, v3, i = (model.variable(name) for name in ("v1", "v3", "i"))
    model.equations(model.der(v1) - model.der(v3) - i, -model.der(v1) + model.der(v3) + v3)
    model.equation(i + sp.sin(model.t))
    run = ds.solve(model, rtol=1e-8, simplify=simplify)
    slopes = dict(zip(run.names, run.du[0], strict=True))
    assert slopes["v1"] == pytest.approx(-1.0, rel=1e-10) and slopes["v3"] == pytest.approx(-1.0, rel=1e-10)
    np.testing.assert_allclose(run.values("i"), -np.sin(run.t), atol=1e-7)


def test_round_off_of_0_is_0_at_the_start_of_a_repaired_model() -> None:
    # After ArbitrarilyHighStructuralIndex of OpenModelica's testsuite.
    model = ds.Model("currents", interval=(0.0, 1.0))
    v1, v3, i = model.variables("v1 v3 i")
    current = model.der(v1) - model.der(v3)
    model.equations(current - i, -current + v3, -i - sp.sin(model.t))
    assert ds.initial(model).values["i"] == 0.0
    run = ds.solve(model, rtol=1e-8)
    assert run.success, run.message
    assert run.values("v3")[-1] == pytest.approx(-math.sin(1.0), rel=1e-7)


# --- starts that follow parameters --------------------------------------------------------------------------

FOLLOWING = """model following
  parameter Real a = 1;
  parameter Real b = 2*a;
  parameter Real most = 5;
  Real x(start = b, fixed = true, max = most);
  Real y(start = a);
  discrete Real n(start = a, fixed = true);
  Real z;
  Real w;
initial equation
  z = a + 1;
  w = 3*b;
equation
  when time > 0.5 then
    n = pre(n) + 1;
  end when;
  der(x) = -x;
  y = n;
  der(z) = 0;
  der(w) = -w;
end following;"""
STARTS = (
    {"x": 2.0, "n": 1.0, "z": 2.0, "w": 6.0},
    {"x": 4.0, "n": 2.0, "z": 3.0, "w": 12.0},
)  # By hand: a = 1, 2.


def started(model: ds.Model, way: str, params: dict[str, float]) -> dict[str, float]:
    """The values at the start, on one of the ways that take a model and parameters."""
    if way == "initial":
        return dict(ds.initial(model, params=params).values)
    if way == "problem":
        problem = model.problem(**params)
        return dict(zip(problem.names, problem.start_values, strict=True))
    if way == "reduced problem":
        solution = ds.solve(ds.reduce(model).problem(**params), t_end=0.1)
    elif way == "simplified":
        solution = ds.solve(ds.simplify(model), params=params, t_end=0.1)
    elif way == "sweep":
        table = ds.sweep(model, {name: [value] for name, value in params.items()}, t_eval=[0.0, 0.1])
        return {name: table.values(name)[0, 0] for name in table.names}
    elif way == "written":
        solution = ds.solve(ds.read_modelica_text(modelica_text(model)), params=params, t_end=0.1)
    elif way == "pickled":
        solution = ds.solve(pickle.loads(pickle.dumps(model)), params=params, t_end=0.1)
    else:
        solution = ds.solve(model, params=params, t_end=0.1, **({way: True} if way else {}))
    return {name: solution.values(name)[0] for name in solution.names}


WAYS = [
    "",
    "simplify",
    "reduce",
    "initial",
    "problem",
    "reduced problem",
    "simplified",
    "sweep",
    "written",
    "pickled",
]


@pytest.mark.parametrize("way", WAYS)
def test_starts_follow_the_parameters_of_which_they_are_made(way: str) -> None:
    model = ds.read_modelica_text(FOLLOWING)
    for a, expected in zip((1.0, 2.0), STARTS, strict=True):
        found = started(model, way, {"a": a})
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12), a
    assert model.parameters_by_name["a"].value == 1.0  # which no call changes


def test_bounds_follow_parameters_too() -> None:
    model = ds.read_modelica_text(FOLLOWING)
    with pytest.raises(ds.InputError, match=r"x = 8 .* is outside its bounds, at most 5"):
        ds.solve(model, params={"a": 4.0}, t_end=0.1)
    assert ds.solve(model, params={"a": 4.0, "most": 9.0}, t_end=0.1).values("x")[0] == 8.0


@pytest.mark.parametrize("way", [way for way in WAYS if way != "pickled"])
def test_starts_of_models_may_be_expressions_of_parameters(way: str) -> None:
    model = ds.Model("swing", interval=(0.0, 1.0))
    length, speed = model.parameters("length speed", [2.0, 3.0])
    (angle,) = model.variables("angle", start=[sp.asin(1 / length)], fixed=True)
    model.start(model.der(angle), speed / length, fixed=True)
    model.equation(model.der(angle, 2) + 9.81 / length * sp.sin(angle))
    for value in (2.0, 4.0):
        found = list(started(model, way, {"length": value}).values())
        assert found[:2] == pytest.approx([math.asin(1 / value), 3.0 / value], rel=1e-12)


def test_a_start_that_is_no_number_for_its_parameters_is_refused_with_its_formula() -> None:
    model = ds.Model("m")
    a, b = model.parameters("a b", [1.0, None])
    x = model.variable("x", start=1 / a, fixed=True)
    model.equation(model.der(x) + x)
    with pytest.raises(ds.InputError, match=r"the start of x, 1/a, is inf; give parameters other values"):
        ds.solve(model, params={"a": 0.0, "b": 1.0})
    with pytest.raises(ds.InputError, match="must be a number or made of parameters; got x"):
        model.start(x, x)
    with pytest.raises(ds.InputError, match="parameter b of model m has no value"):
        model.start(x, b)
    model.start(x, 3.0)
    assert ds.solve(model, params={"a": 0.0, "b": 1.0}).u[0, 0] == 3.0


# --- the nearest ------------------------------------------------------------------------------------------


def test_the_nearest_root_is_taken_and_not_the_one_newton_finds() -> None:
    x = sp.Symbol("x")
    cubic = sp.expand((x - 1) * (x + 4.436) * (x - 7))
    found = ds.initial(made("v", lambda v: [cubic.subs(x, v)], v=-6.0))
    assert found.u[0] == pytest.approx(-4.436, rel=1e-14)


def random_polynomials(seed: int) -> tuple[Any, list[tuple[float, ...]], int]:
    """Equations in triangular form, scrambled, with all of their real roots."""
    generator = np.random.default_rng(seed)
    first = np.sort(generator.uniform(-5.0, 5.0, int(generator.integers(2, 4))))
    shifts = generator.uniform(-3.0, 3.0, 2)
    mixed = generator.uniform(-1.0, 1.0, (2, 2)) + 2.0 * np.eye(2)
    roots = [
        (x, math.copysign(1.0, sign) * abs(shifts[0]) + shifts[1] * x) for x in first for sign in (1, -1)
    ]

    def equations(x: Any, y: Any) -> list[Any]:
        one = sp.prod([x - root for root in first])
        two = (y - shifts[1] * x) ** 2 - shifts[0] ** 2
        return [mixed[0, 0] * one + mixed[0, 1] * two, mixed[1, 0] * one + mixed[1, 1] * two]

    return equations, roots, 2


def random_angles(seed: int) -> tuple[Any, list[tuple[float, ...]], int]:
    """Two angles, of which the sum of one and the other and a sine are given."""
    generator = np.random.default_rng(seed)
    value, total = generator.uniform(-0.95, 0.95), generator.uniform(-3.0, 3.0)
    ratio = int(generator.integers(2, 4))
    turns = range(-12, 13)
    first = [math.asin(value), math.pi - math.asin(value)]
    roots = [(a + 2.0 * math.pi * k, (a + 2.0 * math.pi * k - total) / ratio) for a in first for k in turns]
    return lambda a, b: [sp.sin(a) - value, a - ratio * b - total], roots, 2


@pytest.mark.parametrize("kind", [random_polynomials, random_angles])
@pytest.mark.parametrize("seed", range(8))
def test_of_all_roots_the_nearest_in_units_of_the_guesses_is_taken(kind: Any, seed: int) -> None:
    equations, roots, _ = kind(seed)
    guess = np.random.default_rng(seed + 100).uniform(-6.0, 6.0, 2)
    found = ds.initial(made("x y", equations, x=float(guess[0]), y=float(guess[1])))
    distances = [float(np.linalg.norm((np.array(root) - guess) / guess)) for root in roots]
    own = float(np.linalg.norm((found.u - guess) / guess))
    assert own == pytest.approx(min(distances), rel=1e-7)


# --- digits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-6])
def test_small_unknowns_are_found_to_all_digits(unit: float) -> None:
    # mdot = A sqrt(beta (P_in - P_out)) = A exactly for these pressures.
    def equations(p: Any, q: Any, mdot: Any, area: Any, beta: Any) -> list[Any]:
        return [p - 1.2e5, q - 1e5, beta * area**2 * (p - q) - mdot**2]

    area = 1e-4 * unit
    model = made("P_in P_out mdot", equations, {"A": area, "beta": 5e-5})
    found = ds.initial(model)
    assert abs(found.values["mdot"]) == pytest.approx(area, rel=1e-15)
    near = ds.initial(model, guesses={"mdot": 1.00006 * area})
    assert near.values["mdot"] == pytest.approx(area, rel=1e-15)
    assert [one.name for one in near.changed] == ["mdot"]


class Orifice(ds.ProblemDAE):
    """x' = -x and the flow z through an orifice: 5e-5 (1e-4)^2 2e4 = z^2."""

    interval = (0.0, 1.0)
    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=1, n_alg=1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return np.array([du[0] + u[0], 5e-5 * 1e-4**2 * 2e4 - u[1] ** 2])


def test_a_start_that_violates_an_equation_of_small_terms_is_refused() -> None:
    with pytest.raises(ds.InconsistentStateError, match="violates equation"):
        ds.solve(Orifice, u0=[1.0, 1.00006e-4], rtol=1e-6)
    assert ds.solve(Orifice, u0=[1.0, 1e-4], rtol=1e-6, t_end=0.1).success


# --- hidden constraints -------------------------------------------------------------------------------------


def four_bar(slope: float) -> ds.Model:
    """Two points on cranks of unit length, with their distance kept by a rod; the cranks stand upright."""
    m = ds.Model("four-bar")
    x1, y1, x2, y2, l1, l2, l3 = m.variables(
        "x1 y1 x2 y2 l1 l2 l3", start=[0.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0]
    )
    for name, value in {"x1": 1.0, "y1": slope, "x2": 1.0, "y2": 0.0}.items():
        m.start(f"der({name})", value)
    der = m.der
    m.equation(der(x1, 2) + 2 * l1 * x1 + 2 * l3 * (x1 - x2), name="force x1")
    m.equation(der(y1, 2) + 2 * l1 * y1 + 2 * l3 * (y1 - y2) + 9.81, name="force y1")
    m.equation(der(x2, 2) + 2 * l2 * (x2 - 2) - 2 * l3 * (x1 - x2), name="force x2")
    m.equation(der(y2, 2) + 2 * l2 * y2 - 2 * l3 * (y1 - y2) + 9.81, name="force y2")
    m.equation(x1**2 + y1**2 - 1, name="left crank")
    m.equation((x2 - 2) ** 2 + y2**2 - 1, name="right crank")
    m.equation((x1 - x2) ** 2 + (y1 - y2) ** 2 - 4, name="rod")
    return m


STATE = ["x1", "y1", "x2", "y2", "der(x1)", "der(y1)", "der(x2)", "der(y2)"]


@pytest.mark.parametrize("given", ["starts", "array", "names"])
def test_a_velocity_that_hidden_constraints_forbid_is_refused_with_their_names(given: str) -> None:
    model = four_bar(0.1)
    form = model.form().names
    values = dict(zip(STATE, [0.0, 1.0, 2.0, 1.0, 1.0, 0.1, 1.0, 0.0], strict=True))
    values |= {"l1": 0.0, "l2": 0.0, "l3": 0.0}
    u0: Any = {
        "starts": None,
        "array": np.array([values[name] for name in form]),
        "names": values,
    }[given]
    with pytest.raises(ds.InconsistentStateError, match="'derivative of left crank'") as caught:
        ds.solve(model, u0=u0, rtol=1e-6, t_end=0.1)
    assert "\n" not in str(caught.value)
    assert "start='consistent' takes the nearest consistent values: der(y1) from 0.1 to 0" in str(
        caught.value
    )


def test_the_problem_of_a_model_knows_its_hidden_constraints() -> None:
    problem = four_bar(0.1).problem()
    with pytest.raises(ds.InconsistentStateError, match="'derivative of left crank'"):
        ds.solve(problem, rtol=1e-6, t_end=0.05)
    run = ds.solve(problem, start="consistent", rtol=1e-6, t_end=0.05)
    right = ds.solve(four_bar(0.0), rtol=1e-6, t_end=0.05)
    assert run.success and run.u[0] == pytest.approx(right.u[0], rel=1e-6, abs=1e-9)


def test_multipliers_follow_from_a_start_that_satisfies_hidden_constraints() -> None:
    # Both cranks turn by one angle: a pendulum of unit length and two masses, whose forces are along it:
    # 2 l1 = 2 l2 = (velocity^2 - g) at the top, and none in the rod.
    run = ds.solve(four_bar(0.0), rtol=1e-6, t_end=0.05)
    assert run.success
    values = {name: run.values(name)[0] for name in ("l1", "l2", "l3")}
    assert values == pytest.approx({"l1": (1.0 - 9.81) / 2.0, "l2": (1.0 - 9.81) / 2.0, "l3": 0.0}, abs=1e-12)
    assert "start values made consistent: l1" in run.message


# --- every start --------------------------------------------------------------------------------------------


def deep(shared: Any) -> Any:
    """An expression that has more than 2^40 parts where it is written out."""
    for _ in range(40):
        shared = (shared + 1.0) * (shared + 2.0) / 6.0
    return shared


def test_what_equations_share_is_looked_at_once_where_angles_turn() -> None:
    def equations(t: float, u: Any, du: Any) -> list[Any]:
        return [np.sin(u[0]) - 0.5, u[1] - deep(np.sin(u[0]))]

    start = ds.initial(equations, u0=[0.4, 0.0], time_limit=60.0)
    assert start.u == pytest.approx([math.pi / 6.0, deep(0.5)], abs=1e-14)
    assert len(start.solutions) == 2


def test_polynomials_of_a_high_degree_are_not_multiplied_out() -> None:
    # Its slope, by a complex step, says how much rounding at the 40 levels moves the argument.
    slope = deep(0.4 + 1e-30j).imag / 1e-30
    found = ds.initial(lambda t, u, du: [deep(u[0]) - deep(0.4)], u0=[0.3], time_limit=60.0)
    assert found.u == pytest.approx([0.4], abs=1e-14 / slope) and not found.unique


@pytest.mark.parametrize(
    ("names", "equations", "count"),
    [
        ("a b", lambda a, b: [sp.sin(a) - 0.5, a - 3 * b], 6),
        ("b", lambda b: [sp.sin(3 * b) - 0.5], 6),
        ("b", lambda b: [sp.sin(b) - 0.5], 2),
        ("b", lambda b: [sp.sin(b / 2) - 0.5], 2),
        ("a c", lambda a, c: [sp.sin(a) - 0.5, c - sp.cos(a / 3)], 6),
        ("a b c", lambda a, b, c: [sp.sin(a) - 0.5, a - b - c, c - 2], 2),
        ("a b c", lambda a, b, c: [sp.sin(a) - 0.5, 2 * a - 3 * b, c - b / 2], 6),
    ],
)
def test_turns_of_angles_are_counted_until_all_angles_have_made_whole_turns(
    names: str, equations: Any, count: int
) -> None:
    found = ds.initial(made(names, equations), all_solutions=True)
    assert found.complete
    assert len(found.solutions) == count
    for one, other in itertools.combinations(found.solutions, 2):
        assert max(abs(math.remainder(one[name] - other[name], 2.0 * math.pi)) for name in one) > 0.1
    model = made(names, equations)
    symbols = [sp.Symbol(name) for name in model.names]
    for one in found.solutions:
        for row in equations(*symbols):
            assert abs(float(row.subs({s: one[s.name] for s in symbols}))) < 1e-13


@pytest.mark.parametrize(
    ("names", "equations", "words"),
    [
        ("a x", lambda a, x: [sp.sin(a) - 0.5, x - a**2], "not linear"),
        ("a x", lambda a, x: [sp.sin(a) - 0.5, x - sp.pi * a], "without end"),
        ("x", lambda x: [sp.exp(x) - 2 * x - 1], "no polynomials"),
    ],
)
def test_what_cannot_be_every_start_says_so(names: str, equations: Any, words: str) -> None:
    found = ds.initial(made(names, equations), all_solutions=True)
    assert found.complete is False
    assert any(words in remark for remark in found.remarks)


@pytest.mark.parametrize("apart", [1e-3, 1e-6, 5e-7, 1e-7])
def test_roots_close_to_each_other_are_two(apart: float) -> None:
    found = ds.initial(made("x", lambda x: [(x - 1) * (x - 1 - apart)]), all_solutions=True)
    roots = sorted(one["x"] for one in found.solutions)
    assert len(roots) == 2
    np.testing.assert_allclose(roots, [1.0, 1.0 + apart], rtol=1e-15)


def test_a_double_root_is_one() -> None:
    for equations in (lambda x: [(x - 0.1) ** 2], lambda x: [sp.expand((x - 0.1) ** 2)]):
        found = ds.initial(made("x", equations), all_solutions=True)
        assert [one["x"] for one in found.solutions] == [pytest.approx(0.1, abs=1e-7)]


# --- an index above 3 ---------------------------------------------------------------------------------------


def chain(length: int) -> ds.Model:
    """x_1 = sin t, x_2 = x_1', ...: a linear system of index ``length``."""
    m = ds.Model("chain")
    x = m.variables([f"x{i}" for i in range(1, length + 1)])
    m.equation(x[0] - sp.sin(m.t))
    for one, other in itertools.pairwise(x):
        m.equation(other - m.der(one))
    return m


@pytest.mark.parametrize("length", [4, 5, 6])
def test_a_linear_system_of_high_index_is_reduced_without_being_asked(length: int) -> None:
    run = ds.solve(chain(length), rtol=1e-8, t_end=1.0)
    assert run.success
    assert f"index {length} reduced" in run.message
    for k in range(length):
        np.testing.assert_allclose(run.values(f"x{k + 1}"), np.sin(run.t + k * math.pi / 2.0), atol=1e-7)


@pytest.mark.parametrize("count", [2, 3])
def test_pendula_that_drive_each_other_are_reduced_without_being_asked(count: int) -> None:
    run = ds.solve("pendula", params={"count": count}, rtol=1e-6, t_end=0.5)
    assert run.success
    assert f"index {2 * count + 1} reduced" in run.message
    before = 0.0
    for i in range(1, count + 1):
        x, y, tension = (run.values(f"{name}{i}") for name in ("x", "y", "lambda"))
        length = 1.0 if i == 1 else 1.0 + 0.1 * before
        np.testing.assert_allclose(x**2 + y**2, np.asarray(length) ** 2, rtol=1e-6)
        before = tension


def test_a_state_of_the_model_starts_what_is_reduced_for_it() -> None:
    model = chain(4)
    names = model.form().names
    exact = {f"x{k + 1}": math.sin(k * math.pi / 2.0) for k in range(4)}
    run = ds.solve(model, u0=[exact[name] for name in names], rtol=1e-8, t_end=0.5)
    assert run.success and "reduced" in run.message
    np.testing.assert_allclose(run.values("x4")[-1], -math.cos(0.5), atol=1e-7)


def test_a_reduction_can_be_declined() -> None:
    run = ds.solve(chain(4), reduce=False, rtol=1e-8, t_end=0.5)
    assert "reduced" not in run.message
