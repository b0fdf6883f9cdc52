"""What flat texts of Modelica have that models written by hand have not, solved beside exact values."""

from __future__ import annotations

import math

import pytest

import dae_sdc as ds
from dae_sdc.modelica.reader import read_modelica_text

# A text, and what unknowns are at t = 1.
TEXTS: dict[str, tuple[str, dict[str, float]]] = {
    "names of generated things": (
        "Real $A1.x(start = 1, fixed = true); parameter Real p$r1 = 2; equation der($A1.x) = -p$r1*$A1.x;",
        {"$A1.x": math.exp(-2.0)},
    ),
    "functions of C": (
        'function P.sine input Real u; output Real y; external "C" y = sin(u); end P.sine; '
        'function Modelica.Math.exp input Real u; output Real y; external "builtin" y = exp(u); '
        "end Modelica.Math.exp; Real x = P.sine(2*time); Real y = Modelica.Math.exp(-time);",
        {"x": math.sin(2.0), "y": math.exp(-1.0)},
    ),
    "a function of C with its own name": (
        'function sin input Real u; output Real y; external "C" y = sin(u); end sin; Real x = sin(2*time);',
        {"x": math.sin(2.0)},
    ),
    "enumerations without a name": (
        "parameter enumeration(Off, Slow, Fast) m.kind = Lib.Kind.Fast; "
        "parameter enumeration(Off, On) s = L.On; "
        "Real x = if m.kind == Lib.Kind.Fast then 3*time else time; Real y = if s == Lib.On then 1 else 0;",
        {"x": 3.0, "y": 1.0},
    ),
    "arrays by elements": (
        "Real x[1](start = 1, fixed = true); Real x[2](start = 2, fixed = true); Real A[1,1]; Real A[1,2]; "
        "Real A[2,1]; Real A[2,2]; equation A = {{-1, 0}, {0, -2}}; der(x) = A*x;",
        {"x[1]": math.exp(-1.0), "x[2]": 2.0 * math.exp(-2.0)},
    ),
    "arrays of components with their sizes behind": (
        "Real[2, 3] c.d.x(start = fill(1.0, 2, 3), fixed = fill(true, 2, 3)); "
        "parameter Real[2] c.k = {1, 2}; "
        "equation for $i in 1:2 loop for $j in 1:3 loop der(c[$i].d[$j].x) = -c[$i].k*$j; end for; end for;",
        {"c.d.x[1_3]": -2.0, "c.d.x[2_1]": -1.0},
    ),
    "records by fields": (
        'function C "Automatically generated record constructor for C" input Real re; input Real im; '
        "output C res; end C; "
        "function product input C a; input C b; output C c; algorithm "
        "c := C(a.re*b.re - a.im*b.im, a.re*b.im + a.im*b.re); end product; "
        "Real u.re = time; Real u.im = 2; Real w.re; Real w.im; equation w = product(u, C(0, 1));",
        {"w.re": -2.0, "w.im": 1.0},
    ),
    "elements of what a function gives": (
        "function pair input Real u; output Real y[2]; algorithm y := {u, u^2}; end pair; "
        "Real x = pair(3*time)[2];",
        {"x": 9.0},
    ),
    "fields of what a function gives": (
        "record P Real a; Real b[2]; end P; function of input Real u; output P p; algorithm "
        "p.a := u; p.b := {u^2, u^3}; end of; Real x = of(2*time).a; Real y = of(2*time).b[2];",
        {"x": 2.0, "y": 8.0},
    ),
    "records in records by fields": (
        "Real u.a.x = time; Real u.a.y = 2; Real u.b[1] = 3; Real v.a.x; Real v.a.y; Real v.b[1]; "
        "equation v = u;",
        {"v.a.x": 1.0, "v.a.y": 2.0, "v.b[1]": 3.0},
    ),
    "statements that call": (
        'function Streams.print input String s; external "C" puts(s); end Streams.print; '
        'function check input Real u; algorithm assert(u > -1, "low"); end check; '
        'function f input Real u; output Real y; algorithm check(u); Streams.print("u"); y := 2*u; end f; '
        "Real x = f(time); equation check(x);",
        {"x": 2.0},
    ),
    "initial algorithms": (
        "Real x; parameter Real a = 3; Real u = a + time; initial algorithm x := u; equation der(x) = -1;",
        {"x": 2.0},
    ),
    "results that are not wanted": (
        "function f input Real u; output Real a; output Real b; output Real c; algorithm "
        "a := u; b := 2*u; c := 3*u; end f; Real x; Real y; equation (_, x, _) = f(time); (y, _, _) = f(x);",
        {"x": 2.0, "y": 2.0},
    ),
    "vectors in elements of arrays": (
        "Real a.b[1].r[1]; Real a.b[1].r[2]; Real a.b[2].r[1](StateSelect = StateSelect.prefer); "
        "Real a.b[2].r[2]; equation a.b[1].r = {time, 2*time}; a.b[2].r = 3*a.b[1].r;",
        {"a.b[1].r[2]": 2.0, "a.b[2].r[2]": 6.0},
    ),
    "signals connected behind": (
        "Boolean s; Boolean r; Real x; equation s = time < 0.5; s = r; x = if r then 1 else 2*time;",
        {"x": 2.0},
    ),
    "choices at the start alone": (
        "Real x(start = 1, fixed = true); Real y; equation der(x) = -x; "
        "if initial() then y = 7; else y = x^2; end if;",
        {"y": math.exp(-2.0)},
    ),
    "starts of what events change": (
        "Real x = time - s; Real s; parameter Real begin = 0.25; initial equation s = begin; equation "
        "when time > 0.5 then s = 2*pre(s); end when;",
        {"x": 0.5},
    ),
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_flat_text_is_solved(what: str) -> None:
    text, expected = TEXTS[what]
    functions, found, rest = text.rpartition("end ") if text.startswith("function") else ("", "", text)
    if functions:
        name, _, rest = rest.partition("; ")
        functions += f"{found}{name}; "
    model = read_modelica_text(f"{functions} class Flat {rest} end Flat;", reader="own")
    solution = ds.solve(model, rtol=1e-8, t_end=1.0)
    assert solution.success, solution.message
    for unknown, value in expected.items():
        assert solution[unknown][-1] == pytest.approx(value, rel=1e-6, abs=1e-8), unknown


def test_what_functions_assert_is_watched_where_statements_and_equations_call_them() -> None:
    check = 'function check input Real u; algorithm assert(u < 0.5, "too high"); end check; '
    call = "function f input Real u; output Real y; algorithm check(u); y := u; end f; "
    for body in ("Real x = f(time);", "Real x = time; equation check(x);"):
        model = read_modelica_text(f"{check}{call}class Flat {body} end Flat;", reader="own")
        solution = ds.solve(model, rtol=1e-6, t_end=1.0)
        assert solution.t[-1] == pytest.approx(0.5, abs=1e-6) and "too high" in solution.message, body


def test_samples_may_begin_at_values_of_initial_equations() -> None:
    # The mean of the square of a sine over each period is 1/2, as Modelica.Blocks.Math.Mean has it.
    text = (
        "class Flat parameter Real f = 5; parameter Real t0(fixed = false); Real u; Real x; discrete Real y; "
        "initial equation t0 = time; x = 0; y = 0; equation u = sin(31.41592653589793*time)^2; der(x) = u; "
        "when {} then y = f*pre(x); reinit(x, 0); end when; end Flat;"
    )
    model = read_modelica_text(text.format("sample(t0 + 1/f, 1/f)"), reader="own")
    solution = ds.solve(model, rtol=1e-8, t_end=1.0)
    assert solution.at([0.1, 0.3, 0.9])["y"] == pytest.approx([0.0, 0.5, 0.5], abs=1e-7)
    for varies in ("x", "y"):  # the state, and what events change
        model = read_modelica_text(text.format(f"sample({varies} + 1/f, 1/f)"), reader="own")
        with pytest.raises(ds.InputError, match="give numbers or parameters"):
            ds.solve(model, rtol=1e-8, t_end=1.0)


def test_the_start_of_what_is_not_continuous_is_its_value_before() -> None:
    text = """class M Boolean off(start = true, fixed = true); Real x(start = 1, fixed = true);
        equation off = time > 0.5; der(x) = if off then -x else 0; end M;"""
    run = ds.solve(read_modelica_text(text), rtol=1e-9, t_end=1.0)
    assert run.success and run.values("off")[0] == 0.0
    assert run.values("x")[-1] == pytest.approx(math.exp(-0.5), rel=1e-8)


def test_a_guard_by_a_number_that_no_step_resolves_is_no_switch() -> None:
    # As in SaturatingInductor of the Standard Library, where Modelica.Constants.small is 1e-60.
    text = """class M Real x(start = 0, fixed = true), y;
        equation der(x) = 1; y = if abs(x)/2 < 1e-60 then 1 else sin(x)/x; end M;"""
    run = ds.solve(read_modelica_text(text), rtol=1e-9, t_end=1.0)
    assert run.success, run.message
    assert run.values("y")[[0, -1]].tolist() == pytest.approx([1.0, math.sin(1.0)], rel=1e-8)
