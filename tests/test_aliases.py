"""Models without trivial equations: the same solutions, and the way back to all unknowns."""

from __future__ import annotations

import doctest
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sympy
from helpers.timing import within
from hypothesis import given, settings, strategies as st

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import name_of
from dae_sdc.model import simplified
from dae_sdc.model.model import Model
from dae_sdc.model.simplified import Simplified, simplify


def model_of(names: str, *equations: str, **starts: float) -> Model:
    """A model of equations in text, with der(x) for derivatives and R, S as parameters."""
    model = Model("m")
    symbols = {name: model.variable(name, starts.get(name)) for name in names.split()}
    symbols |= {name: model.parameter(name, value) for name, value in (("R", 3.0), ("S", None))}
    for number, text in enumerate(equations):
        model.equation(sympy.sympify(text, {**symbols, "der": model.der}), name=f"e{number}")
    return model


def told(found: Simplified) -> set[str]:
    return {str(removed) for removed in found.map.values()}


def test_the_example_holds() -> None:
    assert doctest.testmod(simplified, extraglobs={"ds": ds}).failed == 0


@pytest.mark.parametrize(
    ("equations", "expected", "kind"),
    [
        (("v", "der(x) + x + v"), "v = 0", "v = 0"),
        (("2*v - 3", "der(x) + x + v"), "v = 3/2", "u = const"),
        (("v - R**2", "der(x) + x + v"), "v = R**2", "u = const"),
        (("v - sqrt(2)", "der(x) + x + v"), "v = sqrt(2)", "u = const"),
        (("x - v", "der(x) + x + v"), "v = x", "u = v"),
        (("x + v", "der(x) + x**2 + v"), "v = -x", "u = -v"),
        (("v - der(x)", "sin(x) + x*v + v"), "v = der(x)", "w = der(z)"),
        (("2*x - 3*v + 5", "der(x) + x + v"), "v = 2*x/3 + 5/3", "u = a v + b"),
        (("v - x*(x + 1) + x**2", "der(x) + x + v"), "v = x", "u = v"),  # trivial, though it does not look so
    ],
)
def test_trivial_equations_of_every_kind(equations: Sequence[str], expected: str, kind: str) -> None:
    found = simplify(model_of("x v", *equations))
    assert told(found) == {expected} and found.map["v"].kind == kind
    assert found.model.names == ("x",) and found.model.equation_names == ("e1",)
    assert found.removed_equations == ("e0",)
    assert {name for name, count in found.counts().items() if count} == {kind}


@pytest.mark.parametrize(
    "equation",
    [
        "v - x - t",
        "v - sin(x)",
        "der(v) - der(x)",
        "v - floor(x)",
        "v - Abs(x)",
        "S*v - x*S**2 - w",
        "v*x - 1",
    ],
)
def test_what_is_not_trivial_stays_as_it_is(equation: str) -> None:
    model = model_of("x v w", equation, "der(x) + x*v + v**3 + w**2", "w**3 - w*x")
    found = simplify(model, level="trivial")
    assert not found.map and found.model.expressions == model.expressions
    assert "removed: nothing" in found.report()


@pytest.mark.parametrize(
    ("equations", "expected", "kind"),
    [
        (("R*v - x", "der(x) + x + v**2"), "v = x/R", "u = a v + b"),
        (("v - x/S", "der(x) + x + v**2"), "v = x/S", "u = a v + b"),
        (("x + R*v - S", "der(x) + x + v**2"), "v = (S - x)/R", "u = a v + b"),
        (("R*der(x) - pi*v", "x + x**2*v"), "v = R*der(x)/pi", "w = der(z)"),
        # What is 0 with R = 3 is left out.
        (("v + (R - 3)*x", "der(x) + x + v"), "v = 0", "v = 0"),
        (("(R - 3)*der(v) + v - R*x", "der(x) + x + v**2"), "v = R*x", "u = a v + b"),
        # S has no value: x can be divided by, S cannot.
        (("S*v - 2*x", "der(v) + x*v"), "x = S*v/2", "u = a v + b"),
    ],
)
def test_coefficients_with_parameters(equations: Sequence[str], expected: str, kind: str) -> None:
    found = simplify(model_of("x v", *equations), level="trivial")
    (removed,) = found.map.values()
    left, right = expected.split(" = ")
    symbols = {name: found.expression(name) for name in ("x", "v") if name not in found.map}
    symbols |= {name: sympy.Symbol(name, real=True) for name in "RS"}
    wanted = sympy.sympify(right, {**symbols, "der": found.model.der})
    assert removed.name == left and sympy.simplify(removed.expression - wanted) == 0
    assert removed.kind == kind


def test_what_has_no_value_is_not_divided_by() -> None:
    model = model_of("x v", "S*v - S**2*x", "der(v) + x*der(x)")
    assert not simplify(model).map
    model.parameters_by_name["S"].value = 2.0
    assert told(simplify(model)) == {"v = S*x"}
    # 0 v = 0 tells nothing, whatever v is.
    model.parameters_by_name["S"].value = 0.0
    with pytest.raises(InputError, match=r"e0 .*has no unknown that it could tell"):
        simplify(model)


def test_values_of_parameters_that_come_later() -> None:
    law = "der(x) + x*w + v**2", "der(y) + y*x"
    model = model_of("x y v w", "(R - 1)*v - x", "w - (R - 3)*y - 2*v", *law)
    found = simplify(model, level="trivial")
    # (R - 1) v = x was divided by R - 1, and w = 2 v was found as R = 3.
    assert found.model.names == ("x", "y")
    assert {(str(c.expression), c.vanishes) for c in found.conditions} == {("R - 1", False), ("R - 3", True)}
    found.model.parameters_by_name["S"].value = 0.0
    found.model.problem(R=3.0)
    with pytest.raises(InputError, match=r"R - 1 was divided by .* is 0 with R=1;"):
        found.model.problem(R=1.0)
    with pytest.raises(InputError, match=r"R - 3 was taken for 0 .* is not 0 with R=5;"):
        found.values(("x", "y"), [1.0, 0.0], [1.0, 0.0], {"R": 5.0})
    other = simplify(model_of("x v", "(R - 1)*v - x", "der(x) + x + v**2"))
    with pytest.raises(InputError, match=r"R - 1 was divided by .* is 0 with R=1;"):
        other.values(("x",), [1.0], None, {"R": 1.0})
    values = other.values(("x",), [1.0], None, {"R": 5.0})
    assert values["v"] == pytest.approx(0.25)


def test_numbers_instead_of_parameters() -> None:
    model = model_of("x v w", "R*v - x", "w - R**2*v", "der(x) + w + v**2")
    with pytest.raises(InputError, match="parameter S of model m has no value"):
        simplify(model, fold=True)
    model.parameters_by_name["S"].value = 1.0
    found = simplify(model, fold=True)
    assert told(found) == {"v = x/3", "w = 3*x"} and not found.conditions
    assert not found.model.parameters_by_name
    assert found.values(("x",), [2.0], None, {"R": 3.0})["w"] == 6.0
    with pytest.raises(InputError, match="R=5 comes too late"):
        found.values(("x",), [2.0], None, {"R": 5.0})


def motor(**starts: float) -> Model:
    """A motor of direct current, as a tool writes it."""
    model = Model("motor")
    R, L, k, J, d, V = model.parameters("R L k J d V", [1.0, 0.5, 0.01, 0.01, 0.1, 2000.0])
    phi, w, i = (model.variable(name, 0.0, fixed=True) for name in ("phi", "w", "i"))
    a, v_R, v_L, v_k, torque, friction, source = model.variables("a v_R v_L v_k torque friction source")
    der = model.der
    model.equations(w - der(phi), a - der(w), v_R - R * i, v_L - L * der(i), v_k - k * w, source - V)
    model.equations(source - v_R - v_L - v_k, torque - k * i, friction - d * w, J * a + friction - torque)
    for name, value in starts.items():
        model.start(name, value, fixed=True)
    return model


def test_the_motor_is_one_equation() -> None:
    assert simplify(motor(), level="trivial").model.names == ("phi", "i")
    found = simplify(motor())
    assert found.model.names == ("phi",)
    # R i + L i' + k w = V with i = (J w' + d w) / k
    der, phi = found.model.der, found.expression("phi")
    J, d, k, R, L, V = (sympy.Symbol(name, real=True) for name in "J d k R L V".split())
    current = (J * der(phi, 2) + d * der(phi)) / k
    assert sympy.expand(found.expression("i") - current) == 0
    law = R * current + L * der(current) + k * der(phi) - V
    ratio = sympy.simplify(found.model.expressions[0] / law)
    assert ratio in (1, -1)
    before, after = ds.structure(motor()), ds.structure(found.model)
    assert before.dof == after.dof == 3
    # The fixed current is a fixed acceleration: J w' = k i - d w.
    start = simplify(motor(w=3.0, i=40.0)).model.variables_by_name["phi"]
    assert start.fixed == {0, 1, 2}
    assert start.start == pytest.approx({0: 0.0, 1: 3.0, 2: (0.01 * 40 - 0.1 * 3) / 0.01})


def test_rules_of_linear_elimination() -> None:
    def left(names: str, *equations: str, level: Any = "linear") -> tuple[str, ...]:
        return simplify(model_of(names, *equations), level=level).model.names

    # A sum of currents goes where it is needed once; a source goes too.
    law = ("i - a - b", "der(a) + i**2 + b", "b**3 - a")
    assert left("i a b", *law) == ("a", "b")
    assert left("v x", "v - t", "der(x) + v*x") == ("x",)
    # Sums of many in many places stay: entries would become more.
    sums = "s - a - b - c", "der(a) + s**2", "der(b) + s**3", "der(c) + s**4"
    assert set(left("s a b c", *sums)) == {"s", "a", "b", "c"}
    # der(s) would make states of algebraic unknowns; and a jump has no derivative, so that a goes, not s.
    loop = "der(s) + a*b*c", "a**2 - b**3 + c", "a*b - c**2 + a"
    assert left("s a b c", "s - a - b - c", *loop) == ("s", "a", "b", "c")
    step = sympy.Piecewise((0, ds.Model("").t < 1), (1, True))
    model = model_of("s a")
    model.equations(
        model_symbol("s") - model_symbol("a") - step, model.der(model_symbol("s")) + model_symbol("a")
    )
    assert simplify(model).model.names == ("s",)
    # A chain of masses does not become one equation of high order.
    x = [f"x{i}" for i in range(6)]
    chain = [f"der(x{i}, 2) - x{i - 1} + 2*x{i} - x{i + 1}" for i in range(1, 5)]
    ends = "der(x0, 2) + 2*x0 - x1", "der(x5, 2) + 2*x5 - x4"
    found = simplify(model_of(" ".join(x), ends[0], *chain, ends[1]))
    assert max(k for root in found.model.roots for _, k in found.model.graph.depends(root)) <= 3
    # Other terms may be anything for the level that says so.
    assert left("y x", "y - sin(x)", "der(x) + y*x") == ("y", "x")
    assert left("y x", "y - sin(x)", "der(x) + y*x", level="explicit") == ("x",)


def model_symbol(name: str) -> Any:
    return Model("").variable(name)


def test_a_fixed_start_is_not_lost() -> None:
    def kept(**fixed: float) -> Model:
        model = model_of("q a b", "q - 2*a - b", "der(a) + q**2", "der(b) + a*b")
        for name, value in fixed.items():
            model.start(name, value, fixed=True)
        return simplify(model).model

    assert kept(a=1.0, b=2.0).names == ("a", "b")
    # 2 a = q - b
    assert kept(q=5.0, b=2.0).variables_by_name["a"].start == {0: 1.5}
    assert kept(q=5.0, b=2.0).variables_by_name["a"].fixed == {0}
    # Neither a nor b follows from q alone, so q stays.
    assert kept(q=5.0).names == ("q", "a", "b")


def test_a_start_that_tells_a_branch_is_kept_where_another_unknown_can_go() -> None:
    found = simplify(model_of("s v w", "s - v - w", "der(v)*w - 1", "s**2 - 6", s=2.5))
    assert found.model.variables_by_name["s"].start == {0: 2.5}


def test_levels_are_named() -> None:
    with pytest.raises(InputError, match="unknown level of simplification 'liner'; did you mean 'linear'"):
        simplify(model_of("x", "der(x) + x"), level="liner")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in ds.MODELS if not hasattr(ds.MODELS[name], "path")])
def test_degrees_of_freedom_stay_and_the_index_does_not_rise(name: str) -> None:
    model = ds.MODELS[name]()
    before = ds.structure(model, differentiation=False)
    for level in ("trivial", "linear", "explicit"):
        after = ds.structure(simplify(model, level=level).model, differentiation=False)  # type: ignore[arg-type]
        if before.regular:
            assert after.regular and after.dof == before.dof and after.index <= before.index, level


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_networks(data: Any) -> None:
    """The values that the map gives fulfil all equations of the original model, wherever the others hold."""
    model = Model("network")
    p, q = model.parameters("p q", [data.draw(st.sampled_from([0.0, 2.0, -0.5])), 3.0])
    size = data.draw(st.integers(2, 5))
    known = [model.variable(f"x{i}") for i in range(size)]
    factors = st.sampled_from([1, -1, 2, sympy.Rational(1, 3), p, q, p * q, p - q, sympy.pi])
    divisors = st.sampled_from([1, -1, 3, q, q**2, p - q - 10])
    equations = []
    for number in range(data.draw(st.integers(1, 8))):
        new = model.variable(f"y{number}")
        terms = data.draw(st.lists(st.tuples(factors, st.sampled_from(known), st.integers(0, 1)), max_size=2))
        rest = sum((f * (model.der(v) if k else v) for f, v, k in terms), data.draw(factors))
        equations.append(data.draw(divisors) * new + rest)
        known.append(new)
    for i in range(size):
        others = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
        equations.append(model.der(model_symbol(f"x{i}")) + sympy.sin(sum(others)) + model_symbol(f"x{i}"))
    model.equations(*data.draw(st.permutations(equations)))
    level = data.draw(st.sampled_from(["trivial", "linear", "explicit"]))
    found = simplify(model, level=level, fold=data.draw(st.booleans()))
    jets: dict[tuple[str, int], float] = {}
    source = np.random.default_rng(data.draw(st.integers(0, 99)))

    def value(name: str, order: int) -> float:
        return jets.setdefault((name, order), float(source.normal()))

    def at(leaf: Any, whole: bool) -> Any:
        if leaf.kind == "p":
            return model.parameters_by_name[model.parameter_names[leaf.index]].value
        name = (model if whole else found.model).names[leaf.index]
        return found.evaluate(name_of(name, leaf.order), value) if whole else value(name, leaf.order)

    residuals = {
        name: model.graph.numeric([root], lambda leaf: at(leaf, True))[0]
        for name, root in zip(model.equation_names, model.roots, strict=True)
    }
    left = {
        name: found.model.graph.numeric([root], lambda leaf: at(leaf, False))[0]
        for name, root in zip(found.model.equation_names, found.model.roots, strict=True)
    }
    assert set(residuals) == {*left, *found.removed_equations}
    for name, residual in residuals.items():
        # What is left is what was there, with the map put in; what is removed holds.
        assert residual == pytest.approx(left.get(name, 0.0), rel=1e-8, abs=1e-8)


def test_equations_become_trivial_as_others_are_used() -> None:
    found = simplify(model_of("x a b c", "der(x) + a*x + b + c", "b - c*a", "c - a - x", "a - 1", x=1.0))
    # a = 1 makes c = x + 1 and b = c of the two that were not.
    assert told(found) == {"a = 1", "c = x + 1", "b = x + 1"}
    assert sympy.expand(found.model.expressions[0]) == sympy.expand(
        found.model.der(found.expression("x")) + 3 * found.expression("x") + 2
    )


def test_derivatives_of_what_is_removed() -> None:
    found = simplify(model_of("x v a y", "v - der(x)", "a - der(v)", "y + 2*v - 1", "a + R*x + y**2"))
    assert found.model.names == ("x",)
    der, x = found.model.der, found.expression("x")
    assert found.expression("a") == der(x, 2) and found.expression("der(a)") == der(x, 3)
    assert found.expression("y") == 1 - 2 * der(x) and found.expression("der(y, 2)") == -2 * der(x, 3)
    # The derivative of a constant vanishes, and with it what is added to it.
    assert told(simplify(model_of("x k w", "k - 4", "w - der(k)", "der(x) + w + k"))) == {"k = 4", "w = 0"}


def test_who_is_kept() -> None:
    # Differentiated; then with a start; then the shorter name.
    assert simplify(model_of("a long", "a - long", "der(long) + a")).model.names == ("long",)
    assert simplify(model_of("a long", "a - long", "long**3 - t", long=1.0)).model.names == ("long",)
    assert simplify(model_of("long a", "a - long", "long**3 - t")).model.names == ("a",)


@pytest.mark.parametrize(
    ("equations", "parts"),
    [
        (("u - 1", "u - 2"), ("e1", "contradicts e0;")),
        (("u - v", "v - w", "u - w - 1"), ("e2", "contradicts e0, e1;")),
        (("u - v", "v - u", "w - 1"), ("e1", "says again", "follows from e0;")),
        (("u - v", "v + u - 2", "w - v", "w - 1"), ("e3", "says again", "from e0, e1, e2;")),
        (("u - R", "v - 7", "u - 3"), ("e2", "contradicts e0;")),
        (("u - 2", "v - u", "u*v - 5", "w**2 - 3*w"), ("e2", "contradicts e0, e1;")),
        (("u", "v/u - w", "w - 1"), ("e1", "divides")),
    ],
)
def test_contradictions_and_cycles_are_named(equations: Sequence[str], parts: Sequence[str]) -> None:
    with pytest.raises(InputError) as caught:
        simplify(model_of("u v w", *equations))
    text = str(caught.value)
    assert "\n" not in text and all(part in text for part in parts), text


def test_starts_and_bounds_move_to_the_kept_unknown() -> None:
    model = Model("moved")
    x = model.variable("x", 5.0, min=-10.0)
    y = model.variable("y_long", 4.0, fixed=True, min=-2.0, max=8.0)  # x = -y/2 + 1 = -1
    w = model.variable("w", 7.0, fixed=True)
    model.equations(y - 2 + 2 * x, w - model.der(x), model.der(w) + x)
    kept = simplify(model).model.variables_by_name["x"]
    assert kept.start == {0: -1.0, 1: 7.0} and kept.fixed == {0, 1}
    # -2 <= 2 - 2 x <= 8 is -3 <= x <= 2
    assert (kept.minimum, kept.maximum) == (-3.0, 2.0)


def test_fixed_starts_that_contradict_are_refused() -> None:
    def with_start(value: float, equation: str) -> Model:
        model = model_of("x long", equation, "der(x) + long + x")
        model.start("x", 1.0, fixed=True)
        model.start("long", value, fixed=True)
        return model

    assert simplify(with_start(-1.0, "x + long")).model.variables_by_name["x"].start == {0: 1.0}
    with pytest.raises(InputError, match=r"fixes the starts of x and long.*contradict"):
        simplify(with_start(-2.0, "x + long"))
    with pytest.raises(InputError, match="fixes the start of long at 2, but its equations say long = 3"):
        simplify(with_start(2.0, "long - R"))


def wired_pendulum() -> Model:
    """The pendulum as a tool writes it: 3 equations and 8 trivial ones."""
    m = Model("wired", interval=(0.0, 1.0), dt=0.02)
    x, y, lam = m.variables("x y lambda", start=[1.0, 0.0, 0.0])
    vx, vy, ax, ay = m.variables("vx vy ax ay", start=[0.0, 0.0, 0.0, -9.81])
    rod_x, rod_y, down, off = m.variables("rod_x rod_y down off", start=[1.0, 0.0, 0.0, 0.0])
    g = m.parameter("g", 9.81)
    m.equations(vx - m.der(x), ax - m.der(vx), vy - m.der(y), ay - m.der(vy))
    m.equations(rod_x - x, rod_y - y + off, down + rod_y, off)
    m.equations(ax + lam * rod_x, ay - lam * down + g, rod_x**2 + down**2 - 1)
    return m


def test_the_wired_pendulum_is_the_pendulum() -> None:
    model = wired_pendulum()
    found = simplify(model)
    assert set(found.model.names) == {"x", "y", "lambda"} and len(model.names) == 11
    before, after = ds.structure(model), ds.structure(found.model)
    assert (before.index, before.dof) == (after.index, after.dof) == (3, 2)
    # The same trajectory as that of the 11 equations, on which the energy is 0.
    options: dict[str, Any] = {"sweeper": "radau-iia-5", "dt": 0.01, "t_end": 0.5}
    whole, small = ds.solve(model, **options), ds.solve(found.model, **options)
    values = found.values(small.names, small.u, small.du)
    assert tuple(values) == model.names
    for name in ("x", "y", "vx", "vy", "rod_x", "rod_y", "down", "off"):
        np.testing.assert_allclose(values[name], whole.u[:, whole.names.index(name)], rtol=0, atol=1e-6)
    energy = (values["vx"] ** 2 + values["vy"] ** 2) / 2 + 9.81 * values["y"]
    np.testing.assert_allclose(energy, 0.0, rtol=0, atol=1e-5)
    assert values["y"].min() < -0.5


def test_definitions_of_derivatives_carry_the_index_of_what_is_constrained() -> None:
    # z = sin t tells z without a differentiation; v = z' needs one, a = v' another.
    model = model_of("z v a b", "z - sin(t)", "v - der(z)", "a - der(v)", "b - a")
    whole, kept, bare = model, simplify(model, derivatives=False), simplify(model)
    assert [ds.structure(m).index for m in (whole, kept.model, bare.model)] == [3, 3, 1]
    assert [ds.structure(m).dof for m in (whole, kept.model, bare.model)] == [0, 0, 0]
    assert told(kept) == {"b = a"}
    assert told(bare) == {"v = der(z)", "a = der(z, 2)", "b = der(z, 2)"}


def test_values_say_what_they_lack() -> None:
    found = simplify(model_of("x v k q", "v - der(x)", "k - S", "q - 2*x + R", "v + x**2"))
    with pytest.raises(InputError, match=r"does not tell v = der\(x\).*give du"):
        found.values(("x",), [[1.0], [2.0]], parameters={"S": 1.0})
    with pytest.raises(InputError, match="parameter S of model m has no value"):
        found.values(("x",), [1.0], [2.0])
    with pytest.raises(InputError, match="unknown parameter of model m 'Z'"):
        found.values(("x",), [1.0], parameters={"Z": 1.0})
    with pytest.raises(InputError, match="1 names; got an array of shape"):
        found.values(("x",), [1.0, 2.0])
    values = found.values(("x",), [[1.0], [2.0]], [[-1.0], [-4.0]], {"S": 6.0})
    assert {name: value.tolist() for name, value in values.items()} == {
        "x": [1.0, 2.0],
        "v": [-1.0, -4.0],
        "k": [6.0, 6.0],
        "q": [-1.0, 1.0],
    }


@pytest.mark.parametrize(
    ("names", "equations", "kept"),
    [
        ("v i", ("der(i) + v", "i - v**3/3 + v"), {"v", "i"}),
        ("v i w", ("der(i) + v", "i - w**3/3 + w", "w - 2*v"), {"v", "i"}),
        # A second derivative that only tells an unknown makes der(i) no part of the state.
        ("v i a", ("der(i) + v", "i - v**3/3 + v", "a - der(v)"), {"v", "i"}),
        ("i a", ("i - der(i)**3/3 + der(i)", "a - der(i, 2)"), {"i", "a"}),
        ("v w y z", ("v - der(y)", "w - der(z)", "v*w - y", "v*y + w*z - 1"), {"v", "w", "y", "z"}),
        # A speed is known where there is an acceleration, and a rate where it enters linearly.
        ("v x", ("v - der(x)", "der(v) + v**3 + x"), {"x"}),
        ("v x", ("v - der(x)", "v*sin(x) + x"), {"x"}),
        # As the user has written it.
        ("v x", ("der(x)**2 + v - 2", "v - x"), {"x"}),
    ],
)
@pytest.mark.parametrize("level", ["trivial", "linear", "explicit"])
def test_a_branch_is_not_lost(names: str, equations: Sequence[str], kept: set[str], level: Any) -> None:
    found = simplify(model_of(names, *equations), level=level)
    assert set(found.model.names) == kept


@pytest.mark.parametrize("step", [1, -1])
def test_many_trivial_equations_in_little_time(step: int) -> None:
    model = Model("big")
    equations: list[Any] = []
    for i in range(100):
        x = last = model.variable(f"x{i}", 1.0)
        for k in range(10):
            wire = model.variable(f"x{i}.wire{k}")
            equations.append(wire + last)
            last = wire
        equations.append(model.der(x) + last * x)
    model.equations(*equations[::step])
    found = within(2.0, lambda: simplify(model))
    assert len(found.model.names) == 100 and found.counts()["u = v"] == found.counts()["u = -v"] == 500
    assert "unknowns     1100    100" in found.report() and "500 of u = -v" in found.report()


@pytest.mark.parametrize("step", [1, -1])
def test_long_chains(step: int) -> None:
    model = Model("chain")
    x = model.variables([f"x{i}" for i in range(3000)])
    links = [a + b for a, b in itertools.pairwise(x)]
    model.equations(*links[::step], model.der(x[0]) + x[-1])
    found = simplify(model)
    assert found.model.names == ("x0",)
    assert found.model.expressions == (model.der(x[0]) - x[0],)  # an odd number of signs
