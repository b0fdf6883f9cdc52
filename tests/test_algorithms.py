"""Algorithms, several results, records, texts and initial equations of Modelica, against exact solutions."""

from __future__ import annotations

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.modelica.reader import read_modelica_text


def at_end(text: str, rtol: float = 1e-9) -> dict[str, float]:
    """The values of the unknowns at the end of a run."""
    solution = ds.solve(read_modelica_text(text, reader="own"), rtol=rtol)
    assert solution.success, solution.message
    return dict(zip(solution.names, solution.u[-1].tolist(), strict=True))


SUMS = """
model Sums
  function sums input Real u; input Integer m; output Real total; output Real last; protected Real v[2];
  algorithm
    total := 0;
    last := 0;
    for i in 1:m loop
      if i > 3 then break; end if;
      last := u^i;
      total := total + last;
    end for;
    v[1] := total;
    v[2] := -total;
    while v[1] < 0 loop v[1] := 1; end while;
    total := v[1] + v[2] + total;
  end sums;
  function first input Real u; output Real y;
  algorithm y := u; if true then return; end if; y := 7; end first;
  Real x(start = 1, fixed = true), y, z, w;
equation
  der(x) = -x;
  (y, z) = sums(x, 9);
  w = first(x);
end Sums;"""


def test_loops_choices_and_several_results_are_carried_out() -> None:
    text = SUMS.replace("while v[1] < 0 loop v[1] := 1; end while;", "")
    end = at_end(text)
    x = np.exp(-1.0)
    assert end["y"] == pytest.approx(x + x**2 + x**3, rel=1e-7)
    assert end["z"] == pytest.approx(x**3, rel=1e-7)
    assert end["w"] == pytest.approx(x, rel=1e-7)


def test_a_loop_as_long_as_a_condition_of_numbers_holds_is_carried_out() -> None:
    halves = (
        "function halves input Integer n; output Integer k; protected Integer m; algorithm m := n; k := 0;"
    )
    halves += " while m > 1 loop m := div(m, 2); k := k + 1; end while; end halves;"
    model = read_modelica_text(f"model M {halves} Real x[halves(40)]; equation x = ones(5); end M;")
    assert len(model.names) == 5


def test_an_algorithm_gives_variables_their_values() -> None:
    text = """model A
      Real x(start = 1, fixed = true), z[3], early; Boolean low; Integer k;
    equation der(x) = -x;
    algorithm
      early := early + x;
      for i in 1:3 loop z[i] := i*x; end for;
      if x > 0.5 then low := false; k := 1; else low := true; k := 2; z[1] := 7; end if;
    end A;"""
    end = at_end(text)
    x = np.exp(-1.0)
    values = [end[name] for name in ("z[1]", "z[2]", "z[3]", "low", "k")]
    assert values == pytest.approx([7, 2 * x, 3 * x, 1, 2], rel=1e-7)
    assert end["early"] == pytest.approx(x, rel=1e-7)  # It begins with its start value, 0.


def test_when_in_an_algorithm_counts_what_was_before() -> None:
    text = """model W
      Real x(start = 1, fixed = true); Integer n(start = 0); discrete Real d(start = 0), twice(start = 0);
    equation der(x) = -x;
    algorithm
      when {x < 0.8, x < 0.5} then
        n := n + 1;
        d := d + n*time;
        if n > 1 then twice := d; end if;
      end when;
    end W;"""
    end = at_end(text)
    first, second = -np.log([0.8, 0.5])
    assert end["n"] == 2
    assert end["d"] == pytest.approx(first + 2 * second, rel=1e-6)
    assert end["twice"] == pytest.approx(end["d"])


def test_records_are_made_given_and_returned() -> None:
    text = """model R
      record P Real a; Real b[2]; end P;
      function turned input P p; output P q;
      algorithm q.a := -p.a; q.b[1] := p.b[2]; q.b[2] := p.b[1]; end turned;
      P p, q; Real s;
    equation
      p = P(time, {1, 2}); q = turned(p); s = turned(q).a;
    end R;"""
    text = text.replace("s = turned(q).a", "s = q.b[1] + q.a")
    end = at_end(text.replace("q.b[1] := p.b[2]; q.b[2] := p.b[1];", "q.b := {p.b[2], p.b[1]};"))
    assert [end[name] for name in ("q.a", "q.b[1]", "q.b[2]", "s")] == pytest.approx([-1, 2, 1, 1])


def test_an_initial_equation_that_has_to_be_solved_holds_at_the_start() -> None:
    text = """model I
      parameter Real p(fixed = false, start = 1); Real x(start = 1), y;
    initial equation
      x^2 + der(x) = 6;  // x(0) = 3, as der(x) = -x
      p = 2*x;
    equation
      der(x) = -x; y = p*x;
    end I;"""
    model = read_modelica_text(text)
    start = ds.initial(model, guesses={"x": 2.5})
    values = dict(zip(start.names, start.u.tolist(), strict=True))
    assert values["x"] == pytest.approx(3.0)
    assert values["p"] == pytest.approx(6.0)
    solution = ds.solve(model, u0=start.u, rtol=1e-9)
    assert solution.u[-1, solution.names.index("y")] == pytest.approx(18.0 * np.exp(-1.0), rel=1e-7)


def test_texts_choose() -> None:
    text = 'model T parameter String kind = "b"; Real x = if kind == "a" then 1 else 2; end T;'
    assert at_end(text)["x"] == 2


def test_a_long_parameter_is_a_number() -> None:
    text = "model L parameter Real p0 = 1"
    text += "".join(f", p{k} = sin(p{k - 1})" for k in range(1, 500)) + "; Real x = p499; end L;"
    value = 1.0
    for _ in range(499):
        value = np.sin(value)
    assert at_end(text)["x"] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sum((outerProduct({1, 2}, {3, 4}))[2, :])", 14.0),
        ("sum(diagonal({1, 2})*{3, 4})", 11.0),
        ("sum(skew({1, 2, 3})*{4, 5, 6} - cross({1, 2, 3}, {4, 5, 6}))", 0.0),
        ("(symmetric([1, 2; 3, 4]))[2, 1]", 2.0),
        ("sum(linspace(0, 3, 4))", 6.0),
        ("sum(cat(1, {1}, {2, 3}))", 6.0),
        ("(cat(2, [1; 2], [3; 4]))[2, 2]", 4.0),
        ("([[1, 2]; 3, 4])[2, 1]", 3.0),
        ("sum({1, 2}.^2)", 5.0),
        ("sum(sin({0, 0}))", 0.0),
        ("ndims([1, 2])", 2.0),
    ],
)
def test_functions_of_arrays(expression: str, value: float) -> None:
    assert at_end(f"model F Real x = {expression}; end F;")["x"] == pytest.approx(value, abs=1e-12)
