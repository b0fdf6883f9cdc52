"""Texts of Modelica whose solutions are known: where assertions end a run, and what statements give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.errors import DAEWarning, InputError
from dae_sdc.modelica.reader import read_modelica_text
from dae_sdc.run import entering

LOW = 'function f input Real u; output Real y; algorithm assert(u < 0.5, "low"); y := u; end f; '
HIGH = 'if u > 0.7 then assert(false, "high"); y := 1; else y := u; end if;'
CLOCK = "Real x(start = 0, fixed = true); "
RUNS = "equation der(x) = 1; "
# Declarations and equations beside x, which is time; when the run ends early, and what is told then.
ASSERTED = {
    "in a function": (LOW, "algorithm y := f(x);", 0.5, "low"),
    "in a branch of a function": (LOW.replace("y := u;", HIGH), "equation y = 2*f(x) - x;", 0.5, "low"),
    "in a branch alone": (
        f"function f input Real u; output Real y; algorithm {HIGH} end f; ",
        "equation y = f(x);",
        0.7,
        "high",
    ),
    "where it is called": (LOW, "equation y = if x < 0.4 then f(x) else 0.4;", 1.0, ""),
    "in an algorithm": ("", 'algorithm y := x; assert(y < 0.5, "low"); y := -1;', 0.5, "low"),
    "in a branch of one": (
        "",
        'algorithm y := x; if x > 0.3 then assert(x < 0.6, "low"); end if;',
        0.6,
        "low",
    ),
    "in an if-equation": (
        "",
        'equation if x > 0.3 then y = 1; assert(x < 0.6, "low"); else y = 2; end if;',
        0.6,
        "low",
    ),
    "in another one": (
        "",
        'equation if x < 0.3 then y = 1; assert(x < 0.6, "low"); else y = 2; end if;',
        1.0,
        "",
    ),
    "of a parameter": (
        f"{LOW}parameter Real p = 1; parameter Real q = f(p); ",
        "equation y = q;",
        0.0,
        "low",
    ),
    "at the start": ("", 'initial equation assert(x > 0.1, "low"); equation y = x;', 0.0, "low"),
    "at the start alone": ("", 'initial equation assert(x < 0.1, "low"); equation y = x;', 1.0, ""),
    "at an event": (
        f"{LOW}discrete Real z(start = 0, fixed = true); ",
        "equation when x > 0.7 then z = f(x); end when; y = z;",
        0.7,
        "low",
    ),
    "at an event before": (
        f"{LOW}discrete Real z(start = 0, fixed = true); ",
        "equation when x > 0.3 then z = f(x); end when; y = z;",
        1.0,
        "",
    ),
}


@pytest.mark.parametrize("case", ASSERTED)
def test_what_is_asserted_of_unknowns_ends_a_run(case: str) -> None:
    declared, written, end, message = ASSERTED[case]
    text = f"model M {declared}{CLOCK}Real y; {RUNS}{written} end M;"
    solution = ds.solve(read_modelica_text(text, reader="own"), rtol=1e-6)
    assert solution.success is not bool(message) and message in solution.message
    assert solution.t[-1] == pytest.approx(end, abs=1e-6)


RATES = "Real a[2, 3] = {10*i + j for j in 1:3, i in 1:2}; "
COLOURS = 'type E = enumeration(a "A", b, c); '
# Declarations and equations beside x' = r, and the value of x at 1.
STATEMENTS = {
    "the last element": ("parameter Real a[3] = {1, 2, 3}; ", "r = a[end] + a[end - 1];", 5.0),
    "elements by numbers": (
        "parameter Real a[3] = {1, 2, 4}; Real b[2]; ",
        "b = a[{3, 1}]; r = 2*b[1] - b[2];",
        7.0,
    ),
    "an element by an unknown": (
        "parameter Real a[3] = {1, 2, 4}; Integer k; ",
        "k = if time < 0.25 then 1 elseif time < 0.5 then 3 else 2; r = a[k];",
        0.25 + 1.0 + 1.0,
    ),
    "an element that is assigned": (
        "function f input Integer k; output Real y; protected Real w[3]; algorithm w := {1, 2, 3}; "
        "w[k] := 7; y := w*{1, 10, 100}; end f; Integer k; ",
        "k = if time < 0.5 then 1 else 3; r = f(k);",
        0.5 * 327.0 + 0.5 * 721.0,
    ),
    "an array of two indices": (RATES, "r = a[2, 3] + 100*size(a, 1);", 223.0),
    "a power of a matrix": (
        "parameter Real A[2, 2] = {{1, 2}, {3, 4}}; Real B[2, 2]; ",
        "B = A^2; r = B[1, 2];",
        10.0,
    ),
    "a record that is given": (
        "record R Real a; Real b; end R; parameter R p = R(1, 2); R q = R(time, 3); ",
        "r = p.b + q.b;",
        5.0,
    ),
    "results of several types": (
        "function f input Integer k; output Integer i; output Real y; output Boolean b; "
        "algorithm i := k + 1; y := 2*k; b := k > 2; end f; Integer i; Real y; Boolean b; ",
        "(i, y, b) = f(3); r = i + y + (if b then 100 else 0);",
        110.0,
    ),
    "an enumeration": (
        f"{COLOURS}E e; E g(start = E.b, fixed = true); parameter E p = E.b; Real h[E] = {{1, 2, 3}}; ",
        "e = if time < 0.5 then E.a else E.c; when time > 0.25 then g = E.c; end when; r = h[3] "
        "+ (if e == E.c then 10 else 0) + (if p == E.b then 100 else 0) + (if g == E.b then 1000 else 0);",
        3.0 + 5.0 + 100.0 + 250.0,
    ),
    "the first literal": (
        f"{COLOURS}E e; ",
        "when time > 0.25 then e = E.c; end when; r = if e == E.a then 1 else 0;",
        0.25,
    ),
    "conditions of an array": (
        "Boolean b[2] = {time > 0.5, true}; Boolean c[2]; ",
        "c = b and not {false, true}; r = if c[1] then 2 else 0;",
        1.0,
    ),
    "the start of a parameter": ("parameter Real p(start = 3); ", "r = p;", 3.0),
    "array(...)": ("Real a[3] = array(2*i for i in 1:3), b[2] = array(1, 5); ", "r = a[3] + b[2];", 11.0),
    "functions of arrays": (
        "Real S[2, 2] = symmetric({{1, 2}, {3, 4}}), O[2, 2] = outerProduct({1, 2}, {3, 4}); "
        "Real l[3] = linspace(0, 4, 3), D[2, 2] = diagonal({5, 6}); ",
        "r = S[2, 1] + 10*O[1, 2] + 100*l[2] + 1000*D[2, 2];",
        6242.0,
    ),
}


@pytest.mark.parametrize("case", STATEMENTS)
def test_what_statements_give_is_integrated(case: str) -> None:
    declared, written, value = STATEMENTS[case]
    text = f"model M {declared}{CLOCK}Real r; equation der(x) = r; {written} end M;"
    solution = ds.solve(read_modelica_text(text, reader="own"), rtol=1e-8)
    assert solution.success
    np.testing.assert_allclose(solution["x"][-1], value, rtol=1e-7)


@pytest.mark.parametrize("case", ["an enumeration", "the first literal", "results of several types"])
def test_rumoca_gives_the_same(case: str) -> None:
    declared, written, value = STATEMENTS[case]
    text = f"model M {declared}{CLOCK}Real r; equation der(x) = r; {written} end M;".replace("h[E]", "h[3]")
    solution = ds.solve(read_modelica_text(text, reader="rumoca"), rtol=1e-8)
    np.testing.assert_allclose(solution["x"][-1], value, rtol=1e-7)


def test_a_subscript_that_leaves_its_array_ends_the_run() -> None:
    text = "model M parameter Real a[2] = {1, 2}; Integer k; Real x(start = 0, fixed = true); equation "
    model = read_modelica_text(f"{text}k = if time < 0.5 then 1 else 3; der(x) = a[k]; end M;", reader="own")
    solution = ds.solve(model, rtol=1e-6)
    assert not solution.success and "the subscript of a leaves it" in solution.message
    assert solution.t[-1] == pytest.approx(0.5, abs=1e-6)


def test_arrays_of_other_sizes_are_no_arguments() -> None:
    text = "model M Real x[2] = {1, time}, y = sum(cross(x, x)); end M;"
    with pytest.raises(InputError, match="2 elements"):
        read_modelica_text(text, reader="own")


def test_an_assertion_that_rumoca_loses_in_a_library_is_told(tmp_path: Path) -> None:
    library = tmp_path / "Tanks"
    library.mkdir()
    (library / "package.mo").write_text("package Tanks end Tanks;")
    full = 'if h > 1.5 then assert(h < 3, "full"); end if;'
    for name, more in (("Plain", ""), ("Guarded", full)):
        tank = f"within Tanks; model {name} Real h(start = 2); equation der(h) = -h;\n{more} end {name};"
        (library / f"{name}.mo").write_text(tank)
    assert read_modelica_text("model M Tanks.Plain t; end M;", libraries=[tmp_path]).names == ("t.h",)
    with pytest.warns(
        ds.DAEWarning, match=r"Guarded.mo:2: rumoca loses assert in an if-equation, which is not"
    ):
        read_modelica_text("model M Tanks.Guarded t; end M;", libraries=[tmp_path])


def test_a_class_of_a_library_is_read_by_its_name_with_its_annotations(tmp_path: Path) -> None:
    library = tmp_path / "Tanks"
    library.mkdir()
    (library / "package.mo").write_text("package Tanks end Tanks;")
    run = 'experiment(StartTime = 1, StopTime = 3, Interval = 0.25), Documentation(info = "a leak")'
    tank = "within Tanks; package Examples model Leak Real h(start = 2, fixed = true); equation der(h) = -h;"
    (library / "Examples.mo").write_text(f"{tank} annotation({run}); end Leak; end Examples;")
    model = read_modelica_text("", name="Tanks.Examples.Leak", libraries=[tmp_path])
    assert (model.names, model.interval, model.dt) == (("h",), (1.0, 3.0), 0.25)
    assert model.reference.startswith("a leak")
    assert ds.solve(model, rtol=1e-8)["h"][-1] == pytest.approx(2 * np.exp(-2), rel=1e-7)
    text = "within Tanks; model Leak extends Examples.Leak; annotation(experiment(StopTime = 7)); end Leak;"
    assert read_modelica_text(text, name="Tanks.Leak", libraries=[tmp_path]).interval == (0.0, 7.0)


def test_an_initial_algorithm_of_rumoca_gives_parameters_their_values() -> None:
    text = """model M parameter Real a = 60, p(fixed=false), q(fixed=false); parameter Boolean b(fixed=false);
      Real x(start=0, fixed=true), y; initial algorithm p := a - 1; b := false; q := p;
      if p > 50 then b := true; p := 2*p; end if; assert(p < LIMIT, "too large");
      equation der(x) = if b then 1 else 2; y = p + q; end M;"""
    solution = ds.solve(read_modelica_text(text.replace("LIMIT", "200")), t_end=1.0)
    assert (solution["x"][-1], solution["y"][-1]) == pytest.approx((1.0, 2 * 59 + 59), rel=1e-9)
    refused = ds.solve(read_modelica_text(text.replace("LIMIT", "100")), t_end=1.0)
    assert not refused.success and "too large" in refused.message and refused.t[-1] == 0.0


@pytest.mark.parametrize(("begin", "t0"), [(0.3, 0.0), (0.0, 0.0), (-2.2, 0.0), (0.3, 0.9)])
def test_an_initial_algorithm_may_depend_on_the_time_at_which_a_run_begins(begin: float, t0: float) -> None:
    """Pulses of width 1/4 and period 1/2, whose number is counted from that time on: x is their integral."""
    text = f"""model M parameter Real s = {begin}; Real last; Integer n; Real x(start=0, fixed=true), y;
      initial algorithm n := integer((time - s)/0.5); last := s + n*0.5;
      equation when time >= (pre(n) + 1)*0.5 + s then n = pre(n) + 1; last = time; end when;
      y = if time < s or time >= last + 0.25 then 0 else 1; der(x) = y; end M;"""
    model = read_modelica_text(text)
    model.interval = t0, 2.1
    solution = ds.solve(model, rtol=1e-8)
    times = np.linspace(t0, 2.1, 2_000_001)
    high = (times >= begin) & ((times - begin) % 0.5 < 0.25)
    assert solution["x"][-1] == pytest.approx(np.mean(high) * (2.1 - t0), abs=1e-5)


def test_elementary_functions_of_the_library_may_be_external() -> None:
    sine = 'function sin input Real u; output Real y; external "builtin" y = sin(u); end sin;'
    text = f"package Modelica package Math {sine} end Math; end Modelica; model M Real x; equation "
    model = read_modelica_text(f"{text} x = Modelica.Math.sin(time); end M;", name="M", reader="rumoca")
    assert ds.solve(model, t_end=1.0, rtol=1e-6)["x"][-1] == pytest.approx(np.sin(1.0), rel=1e-9)


def test_a_variable_t_is_not_time() -> None:
    model = read_modelica_text("model M Real t(start=2, fixed=true); equation der(t) = time - t; end M;")
    assert model.names == ("t_",)
    assert ds.solve(model, t_end=1.0, rtol=1e-8)["t_"][-1] == pytest.approx(3 * np.exp(-1), rel=1e-7)


@pytest.mark.parametrize("reader", ["own", "rumoca"])
def test_statements_under_when_are_carried_out_in_their_order(reader: str) -> None:
    """At x = 1/2 y goes 1, 2, 4 while z takes the 2, and w what z was before."""
    body = "w := z; y := 1; if y > 0.5 then y := y + 1; z := y; end if; y := 2*y;"
    text = f"""model M {CLOCK} Real r; discrete Real y(start=7, fixed=true), z(start=5, fixed=true);
      discrete Real w(start=0, fixed=true); equation der(x) = 1; r = y + 10*z + 100*w;
      algorithm when x > 0.5 then {body} end when; end M;"""
    solution = ds.solve(read_modelica_text(text, reader=reader), rtol=1e-8, t_end=1.0)
    assert (solution["r"][0], solution["r"][-1]) == pytest.approx((57, 4 + 20 + 500), rel=1e-9)


def test_equations_that_are_not_finite_in_a_mode_determine_nothing() -> None:
    assert entering._rank(np.array([[np.inf, 0.0], [0.0, 1.0]])) == 0
    assert entering._rank(np.eye(2)) == 2


def test_a_start_of_rounding_alone_is_zero() -> None:
    """A double root at 0, where all equations hold exactly: i sin(i) = u/10, and sin(t) is 0."""
    text = """model M Real u0, i1(start=1), i2(start=1), i3(start=1), u1(start=1), u2(start=1), u3(start=1);
      equation u0 = sin(time)*u1 + sin(time); u1 = 10*i1*sin(i1); u2 = u0*i2; u3 = 10*i3;
      u1 + u3 = u0; u2 = u3; i1 = i2 + i3; end M;"""
    start = ds.initial(read_modelica_text(text, reader="own"))
    assert not np.any(start.u)


def test_a_derivative_of_a_function_is_not_taken_for_the_function() -> None:
    text = "model M function f input Real u; output Real y; algorithm y := sin(u); end f; "
    text += "function g = der(f, u); Real x(start = 0, fixed = true); equation der(x) = g(time); end M;"
    with pytest.raises(InputError, match="the derivative g"):
        read_modelica_text(text, reader="rumoca")


@pytest.mark.parametrize(
    "text",
    [
        "function f output Real y[3]; output Real z; algorithm y := {1, 2, 3}; z := 1; end f; "
        "Real x[2], w; equation (x, w) = f();",
        "Boolean b[2]; Real x = 1; equation b = {true, false, true};",
    ],
)
def test_a_value_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="a value of another form"):
        read_modelica_text(f"model M {text} end M;", reader="own")


@pytest.mark.parametrize(
    ("condition", "events"),
    [
        ("(x < 0.5) == (x < 0.5)", 0),
        ("not (x < 0.5 and not x < 0.5)", 0),
        ("x < 0.5 or x >= 0.5", 0),
        ("(if x < 0.5 then 1 else 0) <> 0.5", 0),
        ("(if x < 0.5 then 1 else 2) == 1", 1),
        ("x < 0.5 and x < 0.5", 1),
    ],
)
def test_what_is_certain_by_logic_is_no_event(condition: str, events: int) -> None:
    text = f'model M {CLOCK}{RUNS}assert({condition}, "no"); end M;'
    model = read_modelica_text(text, reader="own")
    assert len(model.events) == events and all(event.startswith("x >= 0.5;") for event in model.events)


def test_an_algorithm_may_give_the_value_with_which_it_begins() -> None:
    """The derivatives are -a + 3 sin(0) and 0 - b, as x is 0 where the algorithm begins."""
    text = """model M Real a(start=1, fixed=true), b(start=1, fixed=true), v, x;
      equation der(a) = -a + x; der(b) = v - b; algorithm v := x*x; x := sin(v); x := 3*x; end M;"""
    solution = ds.solve(read_modelica_text(text, reader="own"), rtol=1e-8)
    np.testing.assert_allclose([solution["a"][-1], solution["b"][-1]], np.exp(-1), rtol=1e-7)


def test_equations_are_shown_in_the_order_of_the_text() -> None:
    text = "model M parameter Real k = 2; Real x(start=1, fixed=true); equation der(x) = -k*x; end M;"
    assert "0 = der(x) + k*x" in str(read_modelica_text(text, reader="own"))


CONSTANT = [
    (":= in a declaration", "parameter Real p := 3; Real x = p;", 3.0),
    ("an implied range", "parameter Real p[3] = {1, 2, 4}; Real x = sum(p[i]*i for i);", 17.0),
    ("a loop of an implied range", "Real x = y[3]; Real y[3]; equation for i loop y[i] = i^2; end for;", 9.0),
    ("two loops of implied ranges",
     "Real y[2, 3]; Real x = y[2, 3]; equation for i, j loop y[i, j] = 10*i + j; end for;", 23.0),
    ("several values", "Real x, y; equation (x, y) = (2*y, 4);", 8.0),
    ("print", 'Real x; equation x = 1; print("x"); Modelica.Utilities.Streams.print("x");', 1.0),
    ("Integer unknowns", "Integer x, y; equation 3*x + y = 7; x - y = -3;", 1.0),
    ("a circle of Integer unknowns", "Integer x, y; equation x = 2*y; y = x - 4;", 8.0),
    ("a start that is calculated",
     "parameter Real p(fixed=false); Real x(start=2*p, fixed=true); initial equation p = 3; "
     "equation der(x) = 0;",
     6.0),
    ("a calculated parameter with a value",
     "parameter Real p(fixed=false) = 2; Real x; initial equation p = 4; equation x = p;", 4.0),
    ("pre of a state at the start",
     "Real s(start=2, fixed=true), x; initial equation x = pre(s); equation der(s) = s; der(x) = 0;", 2.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"), [pair for _, *pair in CONSTANT], ids=[word for word, *_ in CONSTANT]
)
def test_an_unknown_has_the_value_that_its_text_gives(text: str, value: float) -> None:
    model = read_modelica_text(f"model M {text} end M;", reader="own")
    start = ds.initial(model)
    np.testing.assert_allclose(start.u[model.names.index("x")], value, rtol=1e-9)


def test_of_models_with_one_name_the_path_tells_which_is_read() -> None:
    text = "package P model A Real x = 2; end A; end P; model A Real y = 3; end A;"
    assert read_modelica_text(text, name="A").names == ("y",)
    assert read_modelica_text(text, name="P.A").names == ("x",)


SAMPLES = [
    ("loops in a when-equation", "discrete Real x[2]; equation when sample(0.1, 0.25) then "
     "for i in 1:2 loop x[i] = pre(x[i]) + i; end for; end when;", {"x[1]": 4.0, "x[2]": 8.0}),
    ("loops in a when-statement", "discrete Real x; Integer n = 3; algorithm when sample(0.1, 0.25) then "
     "for i in 1:n loop x := x + i; end for; end when;", {"x": 24.0}),
    ("arrays before an event", "discrete Real x[2]; equation when sample(0.1, 0.25) then "
     "x = pre(x) + {1, 2}; end when;", {"x[1]": 4.0, "x[2]": 8.0}),
    ("a variable that is a sample", "Boolean b = sample(0.1, 0.25); discrete Real x; equation when b then "
     "x = pre(x) + (if b then 2 else 5); end when;", {"x": 8.0, "b": 0.0}),
    ("a sample in an algorithm", "Boolean b; discrete Real x; algorithm b := sample(0.1, 0.25); when b then "
     "x := pre(x) + 1; end when;", {"x": 4.0}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ends"), [pair for _, *pair in SAMPLES], ids=[word for word, *_ in SAMPLES])
def test_events_at_0_1_0_35_0_6_and_0_85_change_variables(text: str, ends: dict[str, float]) -> None:
    model = read_modelica_text(f"model M {text} end M;", reader="own")
    solution = ds.solve(model, u0=ds.initial(model).u, rtol=1e-6)
    assert {name: float(solution[name][-1]) for name in ends} == pytest.approx(ends, abs=1e-9)


def test_an_input_without_an_equation_may_have_a_derivative_beside_events() -> None:
    text = "input Real u(start=2); Real y; Real x(start=0, fixed=true); Integer n(start=0, fixed=true);"
    events = "when x > 1 then n = pre(n) + 1; end when;"
    with pytest.warns(DAEWarning, match="nothing gives the input u a value"):
        whole = f"model M {text} equation der(x) = u; y = der(u) + x; {events} end M;"
        model = read_modelica_text(whole, reader="own")
    ends = {name: ds.solve(model, rtol=1e-8)[name][-1] for name in ("u", "x", "y", "n")}
    assert ends == pytest.approx({"u": 2.0, "x": 2.0, "y": 2.0, "n": 1.0}, rel=1e-12)


def test_an_input_without_an_equation_keeps_its_start_and_is_told() -> None:
    inputs = "input Real u(start=3); input Boolean b(start=true);"
    text = f"model M {inputs} Real x; equation der(x) = if b then u else 0;"
    with pytest.warns(DAEWarning, match="nothing gives the input . a value; it keeps its start"):
        model = read_modelica_text(f"{text} end M;", reader="own")
    solution = ds.solve(model, u0=ds.initial(model).u, rtol=1e-8)
    np.testing.assert_allclose(solution["x"][-1], 3.0, rtol=1e-7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Real x; equation for i loop x = i; end for;", "the index i has no range"),
        ("Real x = sum(i for i);", "the index i has no range"),
        ("Integer n; Real x = 1;", "n is a variable of type Integer that nothing gives a value"),
        ("Real x, y; equation (x, y) = (1, 2, 3);", "or as many values"),
        ("Real x = if sample(0, 1) then 1 else 0;", "sample(...) stands in conditions"),
        ("Real x[2] = {1, 2}^2;", "^ takes square matrices"),
        ("Real x[2,2] = {{1, 2}, {3, 4}}^(-1);", "with exponents from 0 on"),
    ],
)
def test_what_has_no_meaning_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_modelica_text(f"model M {text} end M;", reader="own")
    assert words in str(caught.value)


def test_a_model_without_unknowns_gets_one_that_stays_zero() -> None:
    text = "model M parameter Real p = 2; constant Real q = 3; final parameter Real r = 2*p; end M;"
    model = read_modelica_text(text, reader="own")
    assert model.names == ("dummy_state",)
    assert model.parameter_names == ("p",)
    assert ds.solve(model, rtol=1e-6).u[-1, 0] == 0.0


def test_a_model_inside_of_another_is_read_by_its_name_alone() -> None:
    text = "package P model A model B Real x = 1; end B; Real y = 2; end A; model C Real b = 3; end C; end P;"
    assert read_modelica_text(text).names == ("b",)
    for name in ("P.A.B", "B"):
        for reader in ("own", "rumoca"):
            assert read_modelica_text(text, name=name, reader=reader).names == ("x",)
    # A name that several have is that of the one in a package.
    text = "package P model A model C Real x = 1; end C; Real y = 2; end A; model C Real b = 3; end C; end P;"
    assert read_modelica_text(text, name="C").names == ("b",)


def test_an_experiment_that_ends_where_it_starts_takes_one_second() -> None:
    text = "model M Real x = 1; annotation(experiment(StartTime=2, StopTime=2, Interval=0)); end M;"
    model = read_modelica_text(text, reader="own")
    assert model.interval == (2.0, 3.0)
    assert model.dt is None


@pytest.mark.parametrize("condition", ["false", "true", "{true, 2 > 3}"])
def test_what_always_or_never_holds_begins_no_event(condition: str) -> None:
    text = f"""model M
  Real x = time, n(start=1);
equation
  when x > 0.5 then
    n = 2;
  elsewhen {condition} then
    n = 3;
  end when;
end M;"""
    solution = ds.solve(read_modelica_text(text, reader="own"), rtol=1e-6)
    assert solution.at(0.4)["n"] == pytest.approx(1.0)
    assert solution["n"][-1] == pytest.approx(2.0)


FIELDS = """
package P
  record R
    Real a[2];
    Real b;
    Boolean high;
  end R;
  function make
    input Real x;
    output R r;
  algorithm
    r.a[1] := x;
    r.a[2] := 2*x;
    r.b := r.a[1] + r.a[2];
    r.high := x > 2;
  end make;
  function total
    input Real x;
    output Real y;
  protected
    R r;
    R other;
  algorithm
    if x > 1 then
      r := make(x);
      y := r.a[2] + r.b;
    else
      other := make(2*x);
      y := if other.high then 0 else other.b;
    end if;
  end total;
  model M
    Real y = total(time);
  end M;
end P;"""


@pytest.mark.parametrize("reader", ["own", "rumoca"])
def test_fields_of_records_in_functions_are_assigned_one_by_one(reader: str) -> None:
    model = read_modelica_text(FIELDS, reader=reader)
    solution = ds.solve(model, t_end=2.0, rtol=1e-6)
    for time, value in ((0.5, 6 * 0.5), (1.5, 5 * 1.5), (2.0, 5 * 2.0)):
        assert solution.at(time)["y"] == pytest.approx(value, rel=1e-9)


def test_false_is_before_true_as_a_subscript() -> None:
    text = "model M Real u[2] = {time, 2*time}; Real y = u[time > 0.5]; end M;"
    solution = ds.solve(read_modelica_text(text, reader="own"), rtol=1e-6)
    assert solution.at(0.4)["y"] == pytest.approx(0.4)
    assert solution.at(0.8)["y"] == pytest.approx(1.6)
