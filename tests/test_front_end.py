"""Modelica read by rumoca, against what the own reader makes of it and against exact solutions."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.errors import InputError
from dae_sdc.modelica import reader
from dae_sdc.modelica.outline import Outline
from dae_sdc.modelica.reader import read_modelica, read_modelica_text
from dae_sdc.modelica.syntax import Source

BUNDLED = Path(ds.__file__).parent / "problems" / "modelica"
# Its classes use what the own reader refuses: inner and outer, replaceable, enumerations, conditions.
HIERARCHY = """
package Parts
  type Kind = enumeration(slow, fast);
  connector Port Real e(unit = "V"); flow Real f(unit = "A"); end Port;
  model World parameter Real scale = 2; end World;
  partial model Branch Port a, b; Real u, i; outer World world;
  equation u = a.e - b.e; i = a.f; a.f + b.f = 0; end Branch;
  model Resistor extends Branch; parameter Real R = 1; equation u = world.scale*R*i; end Resistor;
  model Leak extends Branch; equation i = 0; end Leak;
  model Capacitor extends Branch(u(start = 4, fixed = true)); parameter Real C = 1;
  equation C*der(u) = i; end Capacitor;
  model Ground Port a; equation a.e = 0; end Ground;
  model Circuit "discharge"
    inner World world(scale = 5);
    replaceable Resistor r(R = 3) constrainedby Branch;
    Capacitor c; Ground g; Leak leak if kind == Kind.slow;
    parameter Kind kind = Kind.fast;
  equation
    connect(c.a, r.a); connect(c.b, r.b); connect(c.b, g.a);
    connect(c.a, leak.a); connect(leak.b, g.a);
    annotation(experiment(StopTime = 30, Interval = 0.5));
  end Circuit;
end Parts;
model Whole extends Parts.Circuit(r(R = 2)); annotation(experiment(StopTime = 20)); end Whole;
"""


def test_what_the_own_reader_refuses_is_read_by_rumoca() -> None:
    with pytest.raises(InputError, match="not understood"):
        read_modelica_text(HIERARCHY, reader="own")
    model = read_modelica_text(HIERARCHY)
    assert (model.name, model.interval) == ("Whole", (0.0, 20.0))
    assert model.variables_by_name["c.i"].unit == ""
    assert model.variables_by_name["c.a.f"].unit == "A"
    assert not any("leak" in name for name in model.names)
    solution = ds.solve(model, rtol=1e-9)
    exact = 4 * np.exp(-solution.t / 10.0)  # R C = 5*2*1
    assert np.allclose(solution.u[:, solution.names.index("c.u")], exact, atol=1e-7)


def test_a_class_in_a_package_has_its_own_annotations() -> None:
    model = read_modelica_text(HIERARCHY, name="Circuit", reader="rumoca")
    assert (model.interval, model.dt) == ((0.0, 30.0), 0.5)


@pytest.mark.parametrize("name", ["dc-motor", "rlc-circuit"])
def test_both_readers_make_equations_with_the_same_solution(name: str) -> None:
    own, other = (read_modelica(BUNDLED / f"{name}.mo", reader=reader) for reader in ("own", "rumoca"))
    assert sorted(own.names) == sorted(other.names)
    assert dict(zip(own.names, own.units, strict=True)) == dict(zip(other.names, other.units, strict=True))
    assert sorted(own.parameter_names) == sorted(other.parameter_names)
    assert (own.interval, own.dt, own.title) == (other.interval, other.dt, other.title)
    one, two = (ds.solve(model, rtol=1e-8) for model in (own, other))
    places = [two.names.index(word) for word in one.names]
    assert np.allclose(one.u[-1], two.u[-1][places], rtol=1e-6, atol=1e-6)


LOOPS = """model Rod parameter Integer n = 4; Real T[n](each start = 1, each fixed = true), q[n + 1];
equation q[1] = 0; q[n + 1] = 0; for k in 2:n loop q[k] = k*(T[k - 1] - T[k] + k); end for;
for k in n:-1:1 loop der(T[k]) = q[k] - q[k + 1] - k*T[k]; end for; end Rod;
model M Rod a, b(n = 6); end M;"""


def test_all_equations_of_a_loop_are_there() -> None:
    """Of long loops rumoca has the first two equations, and the form of all of them."""
    solution = ds.solve(read_modelica_text(LOOPS, reader="rumoca"), t_end=1.0, rtol=1e-9)
    for word, n in (("a", 4), ("b", 6)):

        def rates(t: float, T: np.ndarray, n: int = n) -> np.ndarray:
            k = np.arange(2, n + 1)
            q = np.concatenate([[0.0], k * (T[:-1] - T[1:] + k), [0.0]])
            return q[:-1] - q[1:] - np.arange(1, n + 1) * T

        exact = solve_ivp(rates, (0.0, 1.0), np.ones(n), method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
        last = [solution[f"{word}.T[{k}]"][-1] for k in range(1, n + 1)]
        np.testing.assert_allclose(last, exact, rtol=1e-7)


SIZES = """type K = enumeration(slow, fast);
model A parameter Integer n = 2; Real x[n] = fill(time, n); end A; model Part Real y = 1; end Part;
model M A a; parameter Boolean more = false; Part b if more; parameter K k = K.slow; Part c if k == K.fast;
parameter Integer m = 1; parameter Integer h = 2*m; Part d if h > 2; parameter Real p = 3; A e[2]; end M;"""


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ({}, set[str]()),
        ({"a.n": 3, "p": 4}, {"a.x[3]"}),
        ({"more": True, "m": 2}, {"b.y", "d.y"}),
        ({"k": 2, "a.n": 1}, {"c.y", "-a.x[2]"}),
    ],
)
def test_values_of_parameters_decide_what_there_is(values: dict[str, float], more: set[str]) -> None:
    model = read_modelica_text(SIZES, parameters=values, reader="rumoca")
    names = {"a.x[1]", "a.x[2]", "e[1].x[1]", "e[1].x[2]", "e[2].x[1]", "e[2].x[2]"}
    fewer = {name[1:] for name in more if name.startswith("-")}
    assert {*model.names} == (names | {name for name in more if name[0] != "-"}) - fewer
    assert model.parameter_names == ("p",)  # what has decided is a number
    assert model.parameters_by_name["p"].value == values.get("p", 3)


def test_what_decides_in_an_array_of_components_gets_no_other_value() -> None:
    with pytest.raises(InputError, match=r"e\[1\].n decides what there is; write its value into the text"):
        read_modelica_text(SIZES, parameters={"e[1].n": 3}, reader="rumoca")


def test_parts_follow_the_parameters_of_their_component() -> None:
    text = """model Part parameter Real R = 1; parameter Real k = 1 annotation(Evaluate = true);
      final parameter Real j = 2*k; Real x = R*j; end Part;
      model Whole Part a(R = R), b(R = 2*R); parameter Real R = 5; end Whole;
      model M Whole w(R = 7); end M;"""
    model = read_modelica_text(text, reader="rumoca")
    problem = model.problem(**{"w.R": 3.0})
    values = dict(zip(problem.names, -problem.eval_f([0.0, 0.0], [0.0, 0.0], 0.0), strict=True))
    assert {*map(abs, values.values())} == {6.0, 12.0}
    assert model.parameter_names == ("w.R",)


def test_files_beside_a_file_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.mo").write_text("model A Real y = 1; end A;")
    path = tmp_path / "this.mo"
    path.write_text("model A Real x = time; end A; model M A a; end M;")
    monkeypatch.chdir(tmp_path)
    assert read_modelica(path, reader="rumoca").names == ("a.x",)
    assert read_modelica_text(path.read_text(), reader="rumoca").names == ("a.x",)


def test_what_ends_inside_of_rumoca_is_an_error_in_one_line() -> None:
    text = "model A Real x(start=0, fixed=true); discrete Real k(start=0); equation der(x) = 1; when "
    text += "{x > 0.3*i for i in 1:3} then k = pre(k) + 1; end when; end A; model M A a; end M;"
    with pytest.raises(InputError, match=r"^<text>:1: rumoca: it fails inside of itself"):
        read_modelica_text(text, reader="rumoca")


def test_the_last_model_is_none_inside_of_another_one() -> None:
    text = "model M model A Real x = time; end A; A a; Real y = 2*a.x; end M;"
    assert read_modelica_text(text, reader="rumoca").names == ("a.x", "y")


def test_lines_are_those_of_the_text_where_its_letters_have_several_bytes() -> None:
    text = """model A "ÄÖÜäöüÄÖÜäöü"
      Real x;
    equation
      x = time;
    end A;
    model M "ü" A a; annotation(Documentation(info = "Gödel")); end M;"""
    model = read_modelica_text(text, reader="rumoca")
    assert [*model.equation_names] == ["a: line 4"]
    assert model.reference == "Gödel (read by rumoca)"


def test_names_of_the_library_are_known_without_it() -> None:
    text = """model A Modelica.SIunits.Voltage v = Modelica.SIunits.Conversions.from_degC(time); end A;
      model M inner Real g = Modelica.Constants.pi; A a; Modelica.Units.SI.Length s = Modelica.Math.sin(g);
      Modelica.Blocks.Tables.CombiTable1Ds t(table = [0, 1; 2, 5], u = 1); end M;"""
    model = read_modelica_text(text)
    assert dict(zip(model.names, model.units, strict=True)).items() >= {"a.v": "V", "s": "m"}.items()
    values = ds.initial(model)
    assert [values[word] for word in ("a.v", "s", "t.y[1]")] == pytest.approx([273.15, 0.0, 3.0])


def test_events_and_algorithms_come_through() -> None:
    text = """model Bounce
      Real h(start = 1, fixed = true), v(start = 0, fixed = true); Integer n(start = 0); Boolean low; Real e;
      function squared input Real u; output Real y; algorithm y := u; y := y*u; end squared;
    equation
      der(h) = v; der(v) = -9.81; low = h < 0.5; e = squared(v)/2 + 9.81*h;
      when h < 0 then reinit(v, -pre(v)); n = pre(n) + 1; end when;
      annotation(experiment(StopTime = 2));
    end Bounce;"""
    solution = ds.solve(read_modelica_text(text, reader="rumoca"), rtol=1e-9)
    end = dict(zip(solution.names, solution.u[-1].tolist(), strict=True))
    assert end["n"] == 2  # at 0.4515, 1.3546 and then at 2.2577
    assert end["e"] == pytest.approx(9.81, rel=1e-6)
    assert end["low"] == float(end["h"] < 0.5)


def test_libraries_are_read_from_their_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "Tanks"
    folder.mkdir()
    (folder / "package.mo").write_text("within ; package Tanks end Tanks;")
    (folder / "Tank.mo").write_text(
        "within Tanks; model Tank Real h(start = 2, fixed = true); equation der(h) = -h; end Tank;"
    )
    text = "model Two Tanks.Tank tank(h(start = 3)); end Two;"
    with pytest.raises(InputError):
        read_modelica_text(text)
    solution = ds.solve(read_modelica_text(text, libraries=[tmp_path]), rtol=1e-8)
    assert solution.u[-1, 0] == pytest.approx(3 * np.exp(-1.0), rel=1e-6)
    monkeypatch.setenv("MODELICAPATH", str(tmp_path))
    assert read_modelica_text(text).names == ("tank.h",)
    table = "Modelica.Blocks.Tables.CombiTable1Ds t(table = [0, 1; 2, 5], u = tank.h);"
    solution = ds.solve(read_modelica_text(f"model Three Tanks.Tank tank; {table} end Three;"), rtol=1e-8)
    assert solution["t.y[1]"][-1] == pytest.approx(1 + 2 * 2 * np.exp(-1.0), rel=1e-6)
    with pytest.raises(InputError, match="the library nowhere is no directory"):
        read_modelica_text(text, libraries=["nowhere"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model M\n Real x;\nequation\n x = y + ;\nend M;", "an expression is missing before ';'"),
        ("model M\n Part p;\nend M;", "rumoca"),
    ],
)
def test_what_rumoca_says_comes_through_in_one_line(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_modelica_text(text, file="wrong.mo", reader="rumoca")
    message = str(caught.value)
    assert message.startswith("wrong.mo:") and words in message and "\n" not in message


def test_an_external_function_is_refused_by_its_name() -> None:
    text = 'function gamma input Real u; output Real y; external "C"; end gamma;\n'
    text += "model M Real x(start = 1, fixed = true); equation der(x) = gamma(x); end M;"
    with pytest.raises(InputError, match="gamma"):
        read_modelica_text(text, reader="rumoca")


def test_a_reader_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="there is no reader omc"):
        read_modelica_text(HIERARCHY, reader="omc")


@pytest.mark.parametrize("reader", ["own", "rumoca"])
@pytest.mark.parametrize("level", ["warning", "error"])
def test_an_assertion_has_its_level(level: str, reader: str) -> None:
    said = f'assert(x < 0.5, "high", AssertionLevel.{level});'
    text = f"model M Real x(start=0, fixed=true); equation der(x) = 1; {said} end M;"
    run = ds.solve(ds.read_modelica_text(text, reader=reader))
    assert run.success is (level == "warning")
    assert run.t[-1] == pytest.approx(1.0 if run.success else 0.5) and "high at t=0.5" in run.message


@pytest.mark.parametrize("reader", ["own", "rumoca"])
@pytest.mark.parametrize(("order", "ends"), [("{1, 2, 3}", False), ("{2, 2, 3}", True), ("{1, 3, 3}", True)])
def test_an_assertion_may_compare_parameters(order: str, ends: bool, reader: str) -> None:
    text = (
        f"model M parameter Integer s[3]={order}; Real x(start=0, fixed=true); equation der(x) = 1; "
        'assert(s[1] <> s[2] and s[2] <> 3, "order"); end M;'
    )
    run = ds.solve(ds.read_modelica_text(text, reader=reader))
    assert (run.t[-1], run.message) == ((0.0, "order at t=0") if ends else (1.0, ""))


@pytest.mark.parametrize("call", ['assert(y > 2.0, "low")', 'terminate("low")'])
def test_what_rumoca_loses_is_refused(call: str) -> None:
    text = (
        "model M Real x(start=0.0, fixed=true); Real y(start=5.0, fixed=true); equation "
        f"der(x) = 1.0; der(y) = if x > 1.0 then -1.0 else -2.0; if x > 1.0 then {call}; end if; end M;"
    )
    with pytest.raises(
        ds.InputError, match=f"rumoca loses {call[:6]}.* in an if-equation; move it out of if"
    ):
        ds.read_modelica_text(text, reader="rumoca")


TANK = """within ;
package Tanks model Tank Real h(start = 2, fixed = true); equation der(h) = -h; end Tank; end Tanks;"""


@pytest.fixture
def tank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file whose model needs a library, and with the library."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "Tanks.mo").write_text(TANK)
    (tmp_path / "two.mo").write_text("model Two Tanks.Tank tank(h(start = 3)); end Two;")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MODELICAPATH", raising=False)
    return tmp_path


@pytest.mark.parametrize("verb", ["info", "initial", "reduce", "simplify", "structure"])
def test_verbs_of_a_file_take_its_libraries(
    verb: str, tank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([verb, "two.mo"]) != 0
    assert "there is no class Tanks.Tank" in capsys.readouterr().err
    assert cli.main([verb, "two.mo", "--library", "library"]) == 0
    assert "MODELICAPATH" not in os.environ


def test_the_command_line_chooses_the_reader(tank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["structure", "two.mo", "--library", "library", "--reader", "own"]) != 0
    assert "there is no class Tanks.Tank" in capsys.readouterr().err
    assert cli.main(["structure", "two.mo", "--library", "library", "--reader", "rumoca"]) == 0
    with pytest.raises(SystemExit):
        cli.main(["structure", "two.mo", "--library", "nowhere"])
    assert "needs a directory; got 'nowhere'" in capsys.readouterr().err
    assert "DAE_SDC_READER" not in os.environ


def test_other_threads_read_while_rumoca_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    text, flattened = (
        "model M Real x(start = 1, fixed = true); equation der(x) = -x; end M;",
        reader.flattened,
    )

    def with_another(*arguments: Any) -> Any:
        other = threading.Thread(target=read_modelica_text, args=[text], kwargs={"reader": "own"})
        other.start()
        other.join(10.0)
        assert not other.is_alive()
        return flattened(*arguments)

    monkeypatch.setattr(reader, "flattened", with_another)
    assert read_modelica_text(text, reader="rumoca").names == ("x",)


def test_a_model_says_where_rumoca_has_read_it() -> None:
    text = "model M Real x(start = 1, fixed = true); equation der(x) = -x; end M;"
    references = [read_modelica_text(text, reader=reader).reference for reader in ("own", "rumoca")]
    assert references == ["", "(read by rumoca)"]


REPLACED = """within ;
encapsulated package Parts import Modelica.Constants; import SI = Modelica.Units.SI; import Math.{sin, cos};
  operator record Turn Real c; encapsulated operator '*' function multiply
    input Turn a; output Turn b; algorithm b := a; end multiply; end '*'; end Turn;
  type Any = enumeration(:);
  partial model Source stream Real h; replaceable Real y; outer Real g; end Source;
  model Steady extends Source(redeclare final Real y = 2);
    parameter Boolean on = true; Real z = 1 if on and y > 1; end Steady;
  package More extends Parts.Base; redeclare model extends Source(h = 1) Real w; end Source; end More;
  model Whole replaceable model S = Steady constrainedby Source(y = 1) "which"; S s;
    Steady t(redeclare each replaceable model A = Steady(on = false) constrainedby Source, on = false);
  equation s.h = s.y.f(function sin(u = 1), 2).k; terminate("now"); transition(s, t) annotation(Line());
    annotation(experiment(StopTime = 3)); end Whole;
end Parts;"""


def test_the_outline_of_a_text_has_its_classes_whatever_is_in_them() -> None:
    outline = Outline(Source(REPLACED, "parts.mo"))
    assert outline.models == {
        "Parts.Source": True,
        "Parts.Steady": False,
        "Parts.More.Source": False,
        "Parts.Whole": False,
        "Parts.Whole.S": True,
    }
    assert outline.conditions == {"on", "y"}
    assert [path for path, each in outline.classes.items() if each.annotations] == ["Parts.Whole"]
    outline.check()
    with pytest.raises(InputError, match=r"parts.mo:11: Steady has no off"):
        Outline(Source(REPLACED.replace("on = false);", "off = false);"), "parts.mo")).check()


def test_a_function_as_an_argument_begins_no_class_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "Lib").mkdir()
    (tmp_path / "Lib" / "package.mo").write_text("""within ; package Lib
  partial function shape input Real u; output Real y; end shape;
  function line extends shape; input Real a; algorithm y := a*u; end line;
  function at_two input shape f; output Real y; algorithm y := f(2); end at_two;
  model Unused Real x; equation x = at_two(function line(a=String(1), b=String(2))); end Unused;
  model Used Real x; equation x = time; assert(x < 3, "high"); end Used;
end Lib;""")
    model = read_modelica_text("model M Lib.Used used; end M;", libraries=[tmp_path])
    assert model.names == ("used.x",)
