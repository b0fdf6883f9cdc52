"""Modelica read by rumoca, against what the own reader makes of it and against exact solutions."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.errors import InputError
from dae_sdc.modelica import reader as reading
from dae_sdc.modelica.reader import read_modelica, read_modelica_text

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
    with pytest.raises(InputError, match="the library nowhere is no directory"):
        read_modelica_text(text, libraries=["nowhere"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model M\n Real x;\nequation\n x = y + ;\nend M;", "rumoca"),
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


def test_without_rumoca_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"or let rumoca read it: pip install 'dae_sdc\[modelica\]'"):
        read_modelica_text(HIERARCHY)
    with pytest.raises(InputError, match="there is no reader omc"):
        read_modelica_text(HIERARCHY, reader="omc")


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


def test_a_model_says_where_rumoca_has_read_it() -> None:
    text = "model M Real x(start = 1, fixed = true); equation der(x) = -x; end M;"
    references = [read_modelica_text(text, reader=reader).reference for reader in ("own", "rumoca")]
    assert references == ["", "(read by rumoca)"]
