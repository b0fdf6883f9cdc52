"""What the reader makes of Modelica, against the same models written by hand and against plain formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from helpers.timing import within

import dae_sdc
import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import Leaf
from dae_sdc.model.model import Model
from dae_sdc.modelica.reader import read_modelica, read_modelica_text

LIBRARY = sorted((Path(dae_sdc.__file__).parent / "problems" / "modelica").glob("*.mo"))


def read(text: str, **given: Any) -> Model:
    return read_modelica_text(text, file="m.mo", **given)


def value_of(leaf: Leaf, model: Model, seed: int) -> float:
    """A random number for a name, the same in every model."""
    if leaf.kind == "t":
        name = "time"
    elif leaf.kind == "u":
        name = f"{model.names[leaf.index]} {leaf.order}"
    else:
        parameter = list(model.parameters_by_name.values())[leaf.index]
        assert parameter.value is not None
        return parameter.value
    return float(np.random.default_rng([seed, *name.encode()]).uniform(0.2, 2.0))


def residuals(model: Model, seed: int = 0) -> np.ndarray:
    return model.graph.numeric(model.roots, lambda leaf: value_of(leaf, model, seed))


def assert_same(found: Model, wanted: Model) -> None:
    """The same unknowns, start values, parameters, and the same equations in any order and with any sign."""
    assert found.names == wanted.names
    assert {n: (v.start, v.fixed) for n, v in found.variables_by_name.items()} == {
        n: (v.start, v.fixed) for n, v in wanted.variables_by_name.items()
    }
    assert {n: p.value for n, p in found.parameters_by_name.items()} == {
        n: p.value for n, p in wanted.parameters_by_name.items()
    }
    assert len(found.roots) == len(wanted.roots)
    points = [(residuals(found, seed), residuals(wanted, seed)) for seed in range(3)]
    mine = np.array([a for a, _ in points]).T
    theirs = [row for row in np.array([b for _, b in points]).T]
    for name, row in zip(found.equation_names, mine, strict=True):
        fits = [
            k
            for k, other in enumerate(theirs)
            if np.allclose(row, other, rtol=1e-12, atol=1e-13)
            or np.allclose(row, -other, rtol=1e-12, atol=1e-13)
        ]
        assert fits, f"{name} is no equation of the model by hand: {row}"
        theirs.pop(fits[0])


# One expression at a time

X, Y, P, T = 0.7, -1.3, 2.5, 0.4

EXPRESSIONS: list[tuple[str, Callable[[float, float], float]]] = [
    ("x + y", lambda x, y: x + y),
    ("x - y - 1", lambda x, y: x - y - 1),
    ("x - (y - 1)", lambda x, y: x - (y - 1)),
    ("-x^2", lambda x, y: -(x**2)),
    ("-x*y + x", lambda x, y: -x * y + x),
    ("x/y*2", lambda x, y: x / y * 2),
    ("x/(y*2)", lambda x, y: x / (y * 2)),
    ("x/y/p", lambda x, y: x / y / P),
    ("2*x*3/4*y", lambda x, y: 1.5 * x * y),
    ("(x + 1)*(y - 2)/(x*x)", lambda x, y: (x + 1) * (y - 2) / x**2),
    ("x .+ y .* x ./ p .- x .^ 2", lambda x, y: x + y * x / P - x**2),
    ("x^(-2) + 1e-3*x - .5 + 2.*x", lambda x, y: x**-2 + 1e-3 * x - 0.5 + 2 * x),
    ("x^(1/2) + abs(y)^p", lambda x, y: math.sqrt(x) + abs(y) ** P),
    ("p^x", lambda x, y: P**x),
    ("time*x + y", lambda x, y: T * x + y),
    ("der(x)*y", lambda x, y: 1.0 * y),
    ("sin(x) + cos(y)*tan(x)", lambda x, y: math.sin(x) + math.cos(y) * math.tan(x)),
    ("asin(x) + acos(x/2) - atan(y)", lambda x, y: math.asin(x) + math.acos(x / 2) - math.atan(y)),
    ("atan2(y, x)", lambda x, y: math.atan2(y, x)),
    ("sinh(x) + cosh(y) - tanh(x*y)", lambda x, y: math.sinh(x) + math.cosh(y) - math.tanh(x * y)),
    ("exp(x) + log(x) + log10(x) + sqrt(x)", lambda x, y: math.exp(x) + math.log(x) + math.log10(x) + x**0.5),
    ("Modelica.Math.sin(x) + Modelica.Constants.pi", lambda x, y: math.sin(x) + math.pi),
    ("Modelica.Constants.g_n*x + Modelica.Constants.e", lambda x, y: 9.80665 * x + math.e),
    ("abs(y) + sign(y)*x", lambda x, y: abs(y) - x),
    ("min(x, y) + 2*max(x, y)", lambda x, y: y + 2 * x),
    ("max({x, y, 3})", lambda x, y: 3.0),
    ("floor(y) + ceil(y) + integer(x)", lambda x, y: -2.0 - 1.0 + 0.0),
    ("mod(y, x)", lambda x, y: y - math.floor(y / x) * x),
    ("rem(y, x)", lambda x, y: math.fmod(y, x)),
    ("div(y, x) + 0*x", lambda x, y: float(math.trunc(y / x))),
    ("mod(-7, 3)*x + rem(-7, 3)*y + div(-7, 3)", lambda x, y: 2 * x - 1 * y - 2),
    ("if x > 0 then x else y", lambda x, y: x),
    ("if x < 0 then x elseif y < -1 then 7*x else y", lambda x, y: 7 * x),
    ("if x < 0 then x else if y < -2 then 7*x else y", lambda x, y: y),
    ("x + (if x <= 0.7 and not y > 0 then 1 else 2)", lambda x, y: x + 1),
    ("if x < 0 or y < 0 then x else y", lambda x, y: x),
    ("if not (x < 0 or y < -5) and true then x else y", lambda x, y: x),
    ("if 1 < 2 then x else 1/0", lambda x, y: x),
    ("noEvent(if x >= 0 then x^2 else 0) + smooth(0, y)", lambda x, y: x**2 + y),
    ("homotopy(actual=x*y, simplified=x)", lambda x, y: x * y),
    ("semiLinear(y, 2, 3) + semiLinear(x, 2, 3)", lambda x, y: 3 * y + 2 * x),
    ("piecewise(x < 0, 1, y < 0, x + 2, 3)", lambda x, y: x + 2),
    ("sum({x, y, p}) - product({x, y})", lambda x, y: x + y + P - x * y),
    ("sum(i*x for i in 1:3)", lambda x, y: 6 * x),
    ("{x, y, 1}*{1, 2, 3}", lambda x, y: x + 2 * y + 3),
    ("{1, 2}*([x, y; y, x]*{x, 1})", lambda x, y: x * x + y + 2 * (y * x + x)),
    ("sum(cross({1, 0, 0}, {x, y, 2}))", lambda x, y: -2 + y),
    ("sum(transpose([x, 1; y, 2])*{1, 0}) + size([x, 1; y, 2], 1)", lambda x, y: x + 1 + 2),
    (
        "sum(zeros(3)) + sum(ones(2)) + sum(fill(x, 2, 2)) + sum(identity(2)*{x, y})",
        lambda x, y: 2 + 5 * x + y,
    ),
    ("Modelica.Math.Vectors.interpolate({0, 1, 2}, {0, 1, 4}, x + 0.8)", lambda x, y: 1 + 3 * (x - 0.2)),
    ("if (x > 0) == (y > 0) then x else 3*y", lambda x, y: 3 * y),
    ("if (x > 0) <> (y > 0) then x else 3*y", lambda x, y: x),
    (
        "Modelica.Units.Conversions.from_deg(90*x) + Modelica.SIunits.Conversions.to_deg(y)",
        lambda x, y: math.radians(90 * x) + math.degrees(y),
    ),
    (
        "Modelica.Units.Conversions.from_rpm(60*x) - Modelica.Units.Conversions.to_rpm(y)",
        lambda x, y: 2 * math.pi * x - y * 60 / (2 * math.pi),
    ),
    (
        "Modelica.Units.Conversions.from_degC(x)*Modelica.Units.Conversions.to_degC(y)",
        lambda x, y: (x + 273.15) * (y - 273.15),
    ),
    (
        "Modelica.Units.Conversions.from_bar(x) + Modelica.Units.Conversions.to_bar(y)",
        lambda x, y: 1e5 * x + 1e-5 * y,
    ),
    ("-(x - y)*(-2) - (-(x))", lambda x, y: 2 * (x - y) + x),
    ("x/* a comment */ + y // another", lambda x, y: x + y),
]


@pytest.mark.parametrize(("text", "formula"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_an_expression_has_the_value_of_its_formula(
    text: str, formula: Callable[[float, float], float]
) -> None:
    model = read(f"model M Real x, y, z; parameter Real p = 2.5; equation z = {text}\n; x = z; y = z; end M;")
    given = {"x": {0: X, 1: 1.0}, "y": {0: Y}, "z": {0: 0.0}}

    def value(leaf: Leaf) -> float:
        if leaf.kind == "t":
            return T
        return P if leaf.kind == "p" else given[model.names[leaf.index]][leaf.order]

    found = -model.graph.numeric(model.roots[:1], value)[0]
    assert found == pytest.approx(formula(X, Y), rel=1e-13)


def test_numbers_are_what_their_texts_say() -> None:
    model = read("model M Real x, y; equation x = 0.1 + 1e-30*y; y = 0.3*0.7 + x/3.0; end M;")
    x, y = ds.Model("w").variables("x y")
    first, second = model.sympy(model.roots)
    assert sp.expand(first - (x - sp.Rational(1, 10) - y / sp.Integer(10) ** 30)) == 0
    assert sp.expand(second - (y - sp.Rational(21, 100) - x / 3)) == 0


# Whole models


def test_a_flat_model_is_the_one_by_hand() -> None:
    found = read(
        """
        within;
        model Pendulum "a mass on a rod"
          parameter Real L(unit="m", min=0) = 1.5 "length";
          parameter Real m = 2, free;
          parameter Real J(unit="kg.m2") = m*L^2/3;
          final constant Real g = 9.81;
          Real x(start=L/2, fixed=true, unit="m", nominal=3), y(start=-0.1, max=1, min=-2);
          Modelica.Units.SI.Velocity vx "speed", vy;
          Real lam = J*free*x "declared with its equation";
        equation
          der(x) = vx;
          der(y) = vy;
          m*der(vx) = -lam*x/J;
          x^2 + y^2 = L^2 "rod";
        initial equation
          der(y) = -g/2;
          vx = 0.25;
          annotation(experiment(StartTime=0.5, StopTime=2, Interval=1e-2, Tolerance=1e-6),
            Icon(graphics={Line(points={{0, 1}, {1, 0}}), Text(extent=[1, 2; 3, 4], textString="a;b")}),
            Documentation(info="<html><p>After <b>someone</b> &amp; others,
              1999</p></html>"));
        end Pendulum;
        """,
        parameters={"free": 3},
    )
    m = ds.Model("Pendulum")
    x = m.variable("x", 0.75, fixed=True, unit="m")
    y = m.variable("y", -0.1, min=-2, max=1)
    vx, vy, lam = m.variables("vx vy lam", unit=["m/s", "m/s", ""])
    L, mass, free = m.parameters("L m free", [1.5, 2, 3])
    J = mass * L**2 / 3
    m.start(m.der(y), -9.81 / 2, fixed=True)
    m.start(vx, 0.25, fixed=True)
    m.equations(
        lam - J * free * x, m.der(x) - vx, m.der(y) - vy, mass * m.der(vx) + lam * x / J, x**2 + y**2 - L**2
    )
    assert_same(found, m)
    assert found.units == m.units
    assert (found.variables_by_name["y"].minimum, found.variables_by_name["y"].maximum) == (-2, 1)
    assert found.parameters_by_name["L"].unit == "m"
    assert (found.interval, found.dt) == ((0.5, 2.0), 0.01)
    assert found.title == "a mass on a rod" and found.reference == "After someone & others, 1999"
    assert "rod" in found.equation_names and "line 12" in found.equation_names


def test_the_reader_is_good_enough_for_a_run() -> None:
    # x' = -x/2 and y = x, from 1: exp(-t/2).
    model = read("model M Real x(start=1, fixed=true), y; equation der(x) = -x/2; y = x; end M;")
    solution = ds.solve(model, u0=ds.initial(model).u, rtol=1e-8)
    assert solution.u[-1] == pytest.approx([math.exp(-0.5)] * 2, rel=1e-6)


def test_derivatives_of_expressions_follow_the_rules() -> None:
    found = read(
        "model M parameter Real p = 2; Real x, y, z, w; equation der(x*y + p*time^2) = z; w = der(x);"
        " der(w) = sin(y); der(if x > 0 then x^2 else p) = 0; end M;"
    )
    m = ds.Model("M")
    x, y, z, w = m.variables("x y z w")
    p = m.parameter("p", 2)
    d = m.der
    m.equations(d(x) * y + x * d(y) + 2 * p * m.t - z, w - d(x), d(w) - sp.sin(y))
    m.equation(sp.Piecewise((2 * x * d(x), x > 0), (0, True)))
    assert_same(found, m)


def test_dependent_parameters_follow_the_ones_they_depend_on() -> None:
    text = """
        model M
          parameter Real q = 3*p, p = 2, r = q + p;
          Real x(start=r), y;
        equation x = q*y; y = r;
        end M;
        """
    model = read(text)
    assert model.parameter_names == ("p",) and model.variables_by_name["x"].start == {0: 8}
    assert model.problem(p=5.0).eval_f([15.0, 20.0], [0, 0], 0.0) == pytest.approx([15 - 15 * 20, 0])
    other = read(text, parameters={"q": 1, "p": 10})
    assert other.parameter_names == ("q", "p") and other.variables_by_name["x"].start == {0: 11}


def test_integers_and_truths_shape_a_model() -> None:
    text = """
        model M
          Real x[n](each start=0.5, fixed={k == 1 for k in 1:n}), y[2, n];
          parameter Integer n = 2*h "sizes are known before they are declared", h = 1;
          parameter Boolean damped = h > 3;
          parameter Real d = 7;
        equation
          for i in 1:n loop
            der(x[i]) = -i*n*x[i] + (if damped then d else 0);
            for k in 1:2 loop
              y[k, i] = x[i]^k;
            end for;
          end for;
        end M;
        """
    found = read(text)
    m = ds.Model("M")
    x = m.variables("x[1] x[2]", start=0.5, fixed=[True, False])
    y = m.variables(["y[1_1]", "y[1_2]", "y[2_1]", "y[2_2]"])
    m.parameter("d", 7)
    m.equations(m.der(x[0]) + 2 * x[0], m.der(x[1]) + 4 * x[1])
    m.equations(y[0] - x[0], y[1] - x[1], y[2] - x[0] ** 2, y[3] - x[1] ** 2)
    assert_same(found, m)
    more = read(text, parameters={"h": 2, "damped": 1})
    assert len(more.names) == 12 and more.graph.leaves_of(more.roots[0]) >= {Leaf("p", 0)}


def test_an_equation_may_have_an_integer_parameter_or_a_constant_on_its_left() -> None:
    parts = "parameter Integer n = 10; constant Integer k[2] = {1, 4}; Real x, y[2];"
    model = ds.read_modelica_text(f"model M {parts} equation n = 2*x; k = y + {{x, 2}}; end M;")
    start = ds.initial(model)
    assert [start[name] for name in ("x", "y[1]", "y[2]")] == pytest.approx([5.0, -4.0, 2.0])


@pytest.mark.parametrize(
    "value", ["p + sin(p)", "2*time", "x/2", "2*r", "if time > 2 then 1 else 0.5", "n + r"]
)
def test_an_integer_that_is_given_a_fraction_is_refused(value: str) -> None:
    parts = "parameter Integer p = 1; parameter Real r = 0.5; Real x = 2*time; Integer n = 1, k;"
    with pytest.raises(ds.InputError, match="k is of type Integer, and its value is not"):
        ds.read_modelica_text(f"model M {parts} equation k = {value}; end M;")


def test_integers_of_other_forms_are_whole() -> None:
    values = [
        "mod(n, 2) + div(7, n)",
        "integer(x/2)",
        "sign(x)*n^2",
        "max(n, p) - abs(n)",
        "if x > 1 then 1 else n",
    ]
    texts = "; ".join(f"k[{i}] = {value}" for i, value in enumerate(values, 1))
    parts = f"parameter Integer p = 3; Real x = 5*time; Integer n = 2, k[{len(values)}];"
    model = ds.read_modelica_text(f"model M {parts} equation {texts}; end M;")
    run = ds.solve(model, t_end=1.0, rtol=1e-6)
    assert [run.values(f"k[{i}]")[-1] for i in range(1, 6)] == [3.0, 2.0, 4.0, 1.0, 1.0]


RECORD = """model M record P parameter Real a, b; end P; P p(a=2); Real x(start=1, fixed=true);
    {} equation {}; end M;"""


def test_a_parameter_that_nothing_needs_may_have_no_value() -> None:
    text = RECORD.format("", "der(x) = -p.a*x")
    model = ds.read_modelica_text(text)
    assert model.parameter_names == ("p.a",)
    assert ds.solve(model, t_end=1.0, rtol=1e-9)["x"][-1] == pytest.approx(math.exp(-2.0))
    assert ds.read_modelica_text(text, parameters={"p.b": 3.0}).parameter_values == {"p.a": 2.0, "p.b": 3.0}


@pytest.mark.parametrize(
    ("before", "equations"),
    [
        ("", "der(x) = -p.b*x"),
        ("Real y;", "der(x) = 1; y = p.b"),
        ("Real y; initial equation 0 = p.b;", "der(x) = 1; y = x"),
        ("discrete Real n;", "der(x) = -x; when x < 0.5 then n = p.b; end when"),
        ("discrete Real n;", "der(x) = -x; when x < p.b then n = 1; end when"),
    ],
)
def test_a_parameter_without_a_value_is_refused_where_it_is_needed(before: str, equations: str) -> None:
    model = ds.read_modelica_text(RECORD.format(before, equations))
    with pytest.raises(ds.InputError, match=r"parameter p\.b of model M has no value; give it one"):
        ds.solve(model, t_end=1.0)


def test_arrays_are_their_elements() -> None:
    found = read(
        """
        model M
          parameter Real A[2, 2] = [1, 2; 3, 4], b[:] = {5, 6};
          Real x[2](start={0.1, 0.2}), s, c[3] = cross({s, 0, 1}, {x[1], x[2], s});
        equation
          der(x) = A*x + s*b;
          s = x*b + sum(x[1:2]) - b[2];
        end M;
        """
    )
    m = ds.Model("M")
    x1, x2, s, c1, c2, c3 = m.variables(
        "x[1] x[2] s c[1] c[2] c[3]", start=[0.1, 0.2, None, None, None, None]
    )
    values = {"A[1_1]": 1, "A[1_2]": 2, "A[2_1]": 3, "A[2_2]": 4, "b[1]": 5, "b[2]": 6}
    a, b, c, d, e, f = m.parameters(list(values), list(values.values()))
    m.equations(m.der(x1) - a * x1 - b * x2 - s * e, m.der(x2) - c * x1 - d * x2 - s * f)
    m.equations(s - x1 * e - x2 * f - x1 - x2 + f, c1 + x2, c2 - x1 + s * s, c3 - s * x2)
    assert_same(found, m)


def test_branches_of_an_if_equation_are_choices() -> None:
    found = read(
        """
        model M
          Real x, y; parameter Boolean simple = false;
        equation
          if x > 1 then x = y; y = 2*x;
          elseif x > 0.5 then
            if y > 1 then y = 3; else y = 4; end if;
            x + y = 1;
          else x = 0; 0 = y - time; end if;
          if simple then x = 1; y = 1; end if;
        end M;
        """
    )
    m = ds.Model("M")
    x, y = m.variables("x y")
    inner = sp.Piecewise((y - 3, y > 1), (y - 4, True))
    m.equation(sp.Piecewise((x - y, x > 1), (inner, x > sp.Rational(1, 2)), (x, True)))
    m.equation(sp.Piecewise((y - 2 * x, x > 1), (x + y - 1, x > sp.Rational(1, 2)), (y - m.t, True)))
    assert_same(found, m)


# Components

PARTS = """
    package Parts
      constant Real two = 2;
      type Ohms = Real(unit="Ohm", min=0);
      connector Pin SI.Voltage v; flow SI.Current i; end Pin;
      partial model TwoPin
        Pin p, n; Real v, i;
      equation
        v = p.v - n.v; i = p.i; p.i + n.i = 0;
      end TwoPin;
      model Resistor extends TwoPin; parameter Ohms R = two; equation v = R*i; end Resistor;
      model Capacitor extends TwoPin(v(start=0, fixed=true)); parameter Real C = 1; equation i = C*der(v);
      end Capacitor;
      model Source extends TwoPin; parameter Real U = 1; equation v = U; end Source;
      model Ground Pin p; equation p.v = 0; end Ground;
      model Filter
        Pin a, b, g; Resistor r(R=R); Capacitor c(C=0.1); parameter Ohms R = 5;
      equation
        connect(a, r.p); connect(r.n, c.p); connect(c.p, b); connect(c.n, g);
      end Filter;
    end Parts;
    """


def components(m: Model, name: str, **values: float) -> tuple[Any, ...]:
    """A two-pin component by hand: its unknowns, its parameter, and the equations that all of them share."""
    names = [f"{name}.{word}" for word in ("p.v", "p.i", "n.v", "n.i", "v", "i")]
    pv, pi, nv, ni, v, i = m.variables(names)
    m.equations(v - pv + nv, i - pi, pi + ni)
    ((word, value),) = values.items()
    return pv, pi, nv, ni, v, i, m.parameter(f"{name}.{word}", value)


def test_connected_components_are_the_circuit_by_hand() -> None:
    found = read(
        PARTS
        + """
        model Circuit
          Parts.Resistor r(R=10), spare[2](R={1, 2}); Parts.Capacitor c; Parts.Source u(U=3); Parts.Ground g;
        equation
          connect(u.p, r.p); connect(r.n, c.p); connect(c.n, u.n); connect(u.n, g.p);
          connect(spare[1].n, spare[2].p);
        end Circuit;
        """
    )
    m = ds.Model("Circuit")
    r = components(m, "r", R=10)
    one, two = components(m, "spare[1]", R=1), components(m, "spare[2]", R=2)
    c, u = components(m, "c", C=1), components(m, "u", U=3)
    m.start("c.v", 0.0, fixed=True)
    gv, gi = m.variables("g.p.v g.p.i")
    for k in (r, one, two):
        m.equation(k[4] - k[6] * k[5])
    m.equations(c[5] - c[6] * m.der(c[4]), u[4] - u[6], gv)
    # Nodes: (u.p, r.p), (r.n, c.p), (c.n, u.n, g.p), (spare[1].n, spare[2].p), and two pins that are free.
    m.equations(u[0] - r[0], u[1] + r[1], r[2] - c[0], r[3] + c[1], c[2] - u[2], u[2] - gv, c[3] + u[3] + gi)
    m.equations(one[2] - two[0], one[3] + two[1], one[1], two[3])
    assert_same(found, m)
    assert found.parameters_by_name["r.R"].unit == "Ohm"
    assert found.variables_by_name["r.p.v"].unit == "V" and found.variables_by_name["g.p.i"].unit == "A"


def test_connectors_of_a_component_are_seen_from_both_sides() -> None:
    found = read(
        PARTS
        + """
        model Whole
          Parts.Filter f(R=7, c(v(start=0.5))); Parts.Ground g;
        equation
          connect(f.g, g.p); f.a.v = 4;
        end Whole;
        """
    )
    m = ds.Model("Whole")
    av, ai, bv, bi, gv, gi = m.variables([f"f.{k}.{w}" for k in "abg" for w in "vi"])
    # The parameter that r.R is given stays one parameter.
    pv, pi, nv, ni, v, i = m.variables([f"f.r.{w}" for w in ("p.v", "p.i", "n.v", "n.i", "v", "i")])
    m.equations(v - pv + nv, i - pi, pi + ni)
    c = components(m, "f.c", C=0.1)
    m.start("f.c.v", 0.5, fixed=True)
    R = m.parameter("f.R", 7)
    hv, hi = m.variables("g.p.v g.p.i")
    m.equations(v - R * i, c[5] - c[6] * m.der(c[4]), hv, av - 4)
    # Inside of the filter its connectors count with the other sign.
    m.equations(av - pv, pi - ai, nv - c[0], c[0] - bv, ni + c[1] - bi, c[2] - gv, c[3] - gi)
    # Outside f.g is connected, f.a and f.b are free.
    m.equations(gv - hv, gi + hi, ai, bi)
    assert_same(found, m)


def test_modifications_go_down_and_the_outermost_wins() -> None:
    text = """
        record Shape parameter Real a = 1, b = 2*a; end Shape;
        model Inner Shape s(a=k); parameter Real k = 3; Real x(start=1) = s.b*y; input Real y; end Inner;
        model Middle Inner i[2](k={5, 6}, each x.start=9); Real z(start=1, unit="m");
        equation z = i[1].x; end Middle;
        model Outer extends Middle(z(start=2), i(y={z, time})); Real q = i[2].x; end Outer;
        model Short = Outer(z(start=4));
        """
    outer, short = read(text, name="Outer"), read(text)
    assert outer.name == "Outer" and short.name == "Short"
    m = ds.Model("Outer")
    x1, y1, x2, y2 = m.variables(["i[1].x", "i[1].y", "i[2].x", "i[2].y"], start=[9, None, 9, None])
    z, q = m.variables("z q", start=[2, None])
    k1, k2 = m.parameters(["i[1].k", "i[2].k"], [5, 6])
    m.equations(x1 - 2 * k1 * y1, x2 - 2 * k2 * y2, z - x1, q - x2, y1 - z, y2 - m.t)
    assert_same(outer, m)
    m.start("z", 4)
    assert_same(short, m)


def test_functions_are_put_in() -> None:
    found = read(
        """
        model M
          function drag "a function" input Real v; input Real k = 2; output Real f;
          protected Real size;
          algorithm size := v^2; size := k*size; f := size*sign(v);
          end drag;
          Real x, y; parameter Real c = 3;
        equation
          der(x) = -drag(x, k=c); y = drag(2*x) + Lib.twice(x);
        end M;
        package Lib
          function twice extends Base; algorithm y := 2*x + shift; end twice;
          function Base input Real x; output Real y; end Base;
          constant Real shift = 0.5;
        end Lib;
        """
    )
    m = ds.Model("M")
    x, y = m.variables("x y")
    c = m.parameter("c", 3)
    m.equations(m.der(x) + c * x**2 * sp.sign(x), y - 8 * x**2 * sp.sign(2 * x) - 2 * x - sp.Rational(1, 2))
    assert_same(found, m)


# Tables


TABLE = "0, 750; 0.05, 500; 0.1, 250; 0.2, 75; 0.25, 250; 0.3, 650"


@pytest.mark.parametrize(
    ("declaration", "equations"),
    [
        (f"Modelica.Blocks.Tables.CombiTable1Ds T(table=[{TABLE}]);", "T.u = x; y = T.y[1];"),
        (
            f"Modelica.Blocks.Tables.CombiTable1D T(table=[{TABLE}], columns={{2}});",
            "T.u[1] = x; y = T.y[1];",
        ),
        (
            f"parameter Real t[:, 2] = [{TABLE}]; Modelica.Blocks.Tables.CombiTable1Dv T("
            "table=t, smoothness=Modelica.Blocks.Types.Smoothness.LinearSegments);",
            "T.u[1] = x; y = T.y[1];",
        ),
        (
            f"constant Real t[6, 2] = [{TABLE}];",
            "y = Modelica.Math.Vectors.interpolate(t[:, 1], t[:, 2], x);",
        ),
    ],
    ids=["Ds", "D", "Dv", "interpolate"],
)
def test_a_table_is_straight_lines(declaration: str, equations: str) -> None:
    model = read(f"model M {declaration} Real x, y; equation {equations} x = 0; end M;")
    rows = np.array([[float(word) for word in row.split(",")] for row in TABLE.split(";")])
    places = np.array([-0.1, 0.0, 0.01, 0.05, 0.13, 0.2, 0.22, 0.27, 0.3, 0.4])
    wanted = np.interp(places, *rows.T)
    slopes = np.diff(rows[:, 1]) / np.diff(rows[:, 0])
    wanted[0], wanted[-1] = 750 - 0.1 * slopes[0], 650 + 0.1 * slopes[-1]
    j = {name: k for k, name in enumerate(model.names)}
    x_leaf = Leaf("u", j["T.u"] if "T.u" in j else j.get("T.u[1]", j["x"]))
    values = [p.value for p in model.parameters_by_name.values()]
    root = next(
        r for r in model.roots if any(model.graph.op[n].name == "SELECT" for n in model.graph.below([r]))
    )
    for place, value in zip(places, wanted, strict=True):

        def at(leaf: Leaf, place: float = float(place)) -> float:
            if leaf.kind == "p":
                return float(values[leaf.index] or 0.0)
            return place if leaf == x_leaf else 0.0

        assert abs(model.graph.numeric([root], at)[0]) == pytest.approx(value, rel=1e-12)


def _first(value: float, leaf: Leaf) -> float:
    return value if leaf.index == 0 else 0.0


def test_a_table_can_hold_its_last_values_and_have_columns() -> None:
    model = read(
        "model M Modelica.Blocks.Tables.CombiTable1Ds T(table=[0, 1, 5; 1, 2, 7], columns={3, 2}, "
        "extrapolation=Modelica.Blocks.Types.Extrapolation.HoldLastPoint); equation T.u = time; end M;"
    )
    assert model.names == ("T.u", "T.y[1]", "T.y[2]")
    for u, first, second in ((-1.0, 5, 1), (0.5, 6, 1.5), (3.0, 7, 2)):
        found = model.graph.numeric(model.roots[:2], partial(_first, u))
        np.testing.assert_allclose(-found, [first, second])


# Names and forms of other tools


def test_names_and_forms_of_maplesim_are_understood() -> None:
    found = read(
        """
        model Main
          Real Main.R1.v, Main.R1.i(start=1); Real 'Main.C1.v(t)'(start=2); Real 'a b,c';
          Real Main.r[1].x, Main.r[2].x;
        equation
          Main.R1.v = 3*Main.R1.i;
          diff(Main.R1.i(t), t, t) + diff('Main.C1.v(t)', t$2) = Pi*Main.R1.v(t);
          'Main.C1.v(t)' = piecewise(t < 1, 0, t < 2, t - 1, 1);
          'a b,c' = diff(Main.R1.v*t, t);
          Main.r[1].x = arctan(Main.r[2].x); Main.r[2].x = ln(t);
        end Main;
        """
    )
    m = ds.Model("Main")
    v, i, c, abc, r1, r2 = m.variables(
        ["Main.R1.v", "Main.R1.i", "Main.C1.v", "a_b_c", "Main.r[1].x", "Main.r[2].x"],
        start=[None, 1, 2, None, None, None],
    )
    t = m.t
    m.equations(
        v - 3 * i,
        m.der(i, 2) + m.der(c, 2) - sp.pi * v,
        c - sp.Piecewise((0, t < 1), (t - 1, t < 2), (1, True)),
    )
    m.equations(abc - m.der(v) * t - v, r1 - sp.atan(r2), r2 - sp.log(t))
    assert_same(found, m)


def test_a_flat_text_with_elements_one_by_one_is_understood() -> None:
    found = read(
        """
        function Modelica.Math.sin "sine" input Real u; output Real y;
        external "builtin" y = sin(u);
        end Modelica.Math.sin;
        class Crane.Whole "flat"
          protected parameter Real arm.p(quantity = "Length", unit = "m", start = 1.0) = 2.0;
          public Real arm.x[1](start = 1.0, fixed = true); Real arm.x[2]; Real A[1,1]; Real A[1,2];
          Real w[1]; Real v[2];
          protected final parameter Real q = 2.0 * arm.p;
        equation
          assert(arm.p > 0.0, "p must be positive");
          der(arm.x[1]) = Modelica.Math.sin(arm.x[2]);
          for i in 1:2 loop v[i] = i; end for;
          arm.x[2] = -1.0 * q * A[1,1];
          A[1,1] = time; A[1,2] = w[1]; w[1] = A[1,1];
        end Crane.Whole;
        """
    )
    m = ds.Model("flat")
    names = ["arm.x[1]", "arm.x[2]", "A[1_1]", "A[1_2]", "w[1]", "v[1]", "v[2]"]
    x1, x2, a, b, w, v1, v2 = m.variables(names)
    m.start(x1, 1, fixed=True)
    p = m.parameter("arm.p", 2)
    m.equations(m.der(x1) - sp.sin(x2), x2 + 2 * p * a, a - m.t, b - w, w - a, v1 - 1, v2 - 2)
    assert_same(found, m)
    assert found.name == "Crane.Whole"


def test_classes_of_a_flat_text_are_found_by_names_with_dots() -> None:
    found = read(
        """
        function Lib.Math.cubic input Real x; input Real k = 1; output Real y;
        algorithm y := k*x^3; end Lib.Math.cubic;
        type Lib.Units.Length = Real(unit = "m");
        package Lib.Other function square input Real x; output Real y; algorithm y := x^2;
          end square; end Lib.Other;
        class Flat
          Lib.Units.Length a.x(start = 1, fixed = true), a.y;
        equation
          der(a.x) = -Lib.Math.cubic(a.x, k = 2);
          a.y = Lib.Other.square(a.x);
        end Flat;
        """
    )
    m = ds.Model("flat")
    x = m.variable("a.x", 1, fixed=True, unit="m")
    y = m.variable("a.y", unit="m")
    m.equations(m.der(x) + 2 * x**3, y - x**2)
    assert_same(found, m)


def test_initial_equations_are_chosen_by_truths_and_repeated_by_loops() -> None:
    text = """
        model M
          parameter Boolean steady = true;
          Real x[2, 2], y;
        initial equation
          for i in 1:2 loop for k in 1:2 loop x[i, k] = 10*i + k; end for; end for;
          if steady then der(y) = 0; else y = 3; end if;
        equation der(x) = -x; der(y) = 1 - y;
        end M;
        """
    model, other = read(text), read(text, parameters={"steady": False})
    for i, k in ((1, 1), (1, 2), (2, 1), (2, 2)):
        assert model.variables_by_name[f"x[{i}_{k}]"].start == {0: 10 * i + k}
    assert model.variables_by_name["y"].start == {1: 0} and model.variables_by_name["y"].fixed == {1}
    assert other.variables_by_name["y"].start == {0: 3} and other.variables_by_name["y"].fixed == {0}


def test_parameters_that_are_enumerations_are_passed_over() -> None:
    found = read(
        """
        class Flat
          parameter enumeration(never "not at all", avoid, default, prefer, always) a.s = StateSelect.default;
          final parameter StateSelect s = StateSelect.prefer "priority";
          Real x(start = 1, stateSelect = s);
        equation
          der(x) = -x;
        end Flat;
        """
    )
    m = ds.Model("flat")
    x = m.variable("x", 1)
    m.equation(m.der(x) + x)
    assert_same(found, m)


def test_a_class_is_chosen_by_name(tmp_path: Path) -> None:
    text = """
        package P model A Real x = 1; end A; model B Real y = 2; end B; end P;
        model C P.A a; end C;
        partial model D Real z; end D;
        connector E Real v; end E;
        """
    assert read(text).names == ("a.x",)
    assert read(text, name="P.A").names == ("x",) and read(text, name="B").names == ("y",)
    path = tmp_path / "m.mo"
    path.write_text("\ufeff" + text, encoding="utf-8")
    assert read_modelica(str(path), name="B").names == read_modelica(path, name="P.B").names == ("y",)


def test_blocks_are_connected_by_their_signals() -> None:
    found = read(
        """
        connector Input = input Real(unit="V");
        type Pair = Real[2](each min=-1);
        block Gain
          Input u; Modelica.Blocks.Interfaces.RealOutput y; parameter Real k = 1;
        equation y = k*u; end Gain;
        block Split Input u; output Pair y; equation y = {u, 2*u}; end Split;
        model Loop
          Gain a(k=2), b(k=-3); Split s; Real x(start=1);
        equation
          connect(a.y, b.u); connect(b.y, s.u);
          a.u = x; der(x) = s.y[1] + s.y[2];
        end Loop;
        """
    )
    m = ds.Model("Loop")
    au, ay, bu, by, su, s1, s2, x = m.variables(
        ["a.u", "a.y", "b.u", "b.y", "s.u", "s.y[1]", "s.y[2]", "x"], start=[None] * 7 + [1]
    )
    k, n = m.parameters(["a.k", "b.k"], [2, -3])
    m.equations(ay - k * au, by - n * bu, s1 - su, s2 - 2 * su, au - x, m.der(x) - s1 - s2, ay - bu, by - su)
    assert_same(found, m)
    assert found.variables_by_name["s.y[2]"].minimum == -1 and found.variables_by_name["a.u"].unit == "V"


def test_an_array_of_connectors_is_connected_by_elements() -> None:
    found = read(
        """
        connector Port Real e; flow Real f; end Port;
        model Cell Port a, b; equation a.e - b.e = a.f; a.f + b.f = 0; end Cell;
        model Chain parameter Integer n = 3; Cell c[n]; Port left;
        equation
          for k in 1:n - 1 loop connect(c[k].b, c[k + 1].a); end for;
          connect(left, c[1].a);
        end Chain;
        """
    )
    m = ds.Model("Chain")
    cells = [m.variables([f"c[{k}].{w}" for w in ("a.e", "a.f", "b.e", "b.f")]) for k in (1, 2, 3)]
    le, lf = m.variables("left.e left.f")
    for ae, af, be, bf in cells:
        m.equations(ae - be - af, af + bf)
    for one, other in pairwise(cells):
        m.equations(one[2] - other[0], one[3] + other[1])
    m.equations(le - cells[0][0], cells[0][1] - lf, cells[2][3], lf)
    assert_same(found, m)


# Size, and the models of the library


def big(trivial: int, real: int) -> str:
    lines = [
        "model Big",
        *(f"  Real a{k};" for k in range(trivial)),
        *(f"  Real x{k}(start=1);" for k in range(real)),
    ]
    lines.append("equation")
    lines += [f"  a{k} = -x{k % real};" if k % 2 else f"  a{k} = 0;" for k in range(trivial)]
    lines += [
        f"  der(x{k}) = -x{k}*sin(a{k}) + 9.81*cos(x{(k + 1) % real})^2/(1 + x{k}^2)"
        f" + (if x{k} > 0.1 then 3 else a{k});"
        for k in range(real)
    ]
    return "\n".join([*lines, "end Big;"])


def test_a_thousand_trivial_equations_are_read_at_once() -> None:
    text = big(1000, 100)
    assert len(within(4.0, lambda: read(text)).roots) == 1100


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_a_model_of_the_library_is_read(path: Path) -> None:
    model = read_modelica(path)
    assert len(model.roots) == len(model.names) > 0 and model.title
    assert np.isfinite(residuals(model)).any()


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_another_parser_reads_the_same_names(path: Path) -> None:
    parser = pytest.importorskip("pymoca.parser")
    text = path.read_text(encoding="utf-8")
    tree = parser.parse(text, bypass_cache=True)
    assert tree is not None
    declared: Mapping[str, Any] = list(tree.classes.values())[-1].symbols
    model = read_modelica(path)
    known = {name.partition(".")[0].partition("[")[0] for name in (*model.names, *model.parameter_names)}
    assert known <= {name.strip("'").partition(".")[0] for name in declared}


def test_values_of_parameters_are_checked() -> None:
    text = """model M
        parameter Real mass = 1; constant Real c = 2; parameter Integer n = 2; Real x = mass*c*n;
        end M;"""
    assert read(text, parameters={"mass": 3}).parameters_by_name["mass"].value == 3
    for given, words in (
        ({"mas": 3}, "no parameter mas; did you mean mass"),
        ({"c": 3}, "m.mo:2: c is a constant"),
        ({"n": 2.5}, "must be an integer"),
        ({"mass": math.inf}, "must be finite"),
        ({"mass": "3"}, "must be a number"),
        ({"mass": True}, "m.mo:2: the value of mass must be a number"),
    ):
        with pytest.raises(InputError, match=words):
            read(text, parameters=given)


def test_values_of_parameters_are_within_their_limits() -> None:
    text = """model M
        parameter Integer n(min=2) = 3;
        parameter Real low = 1, a(min=low, max=5) = 2;
        parameter Real b(min=Modelica.Constants.small, max=Modelica.Constants.inf) = a;
        Real x[n](each start=a);
        equation der(x) = -x;
        end M;"""
    assert len(read(text, parameters={"n": 2, "a": 5}).names) == 2
    for given, words in (
        ({"n": 1}, "m.mo:2: the parameter n is 1, below its min 2"),
        ({"a": 5.5}, "m.mo:3: the parameter a is 5.5, above its max 5"),
        ({"low": 3}, "m.mo:3: the parameter a is 2, below its min 3"),
    ):
        with pytest.raises(InputError, match=words):
            read(text, parameters=given)


def test_truths_are_given_as_truths_or_as_numbers() -> None:
    text = "model M parameter Boolean on = true; Real x; equation x = if on then 1 else 2; end M;"
    for given, value in ((True, 1), (1, 1), (1.0, 1), (False, 2), (0, 2)):
        model = read(text, parameters={"on": given})
        assert residuals(model) == pytest.approx([value_of(Leaf("u", 0, 0), model, 0) - value])
    with pytest.raises(InputError, match=r"m.mo:\d+: the value of on must be true or false; got 2"):
        read(text, parameters={"on": 2})
