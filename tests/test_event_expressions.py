"""Events as texts: what they mean, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.errors import InputError
from dae_sdc.run.unknowns import function_of


class Dotted(ds.ProblemDAE):
    """x' = v, v' = -k^2 x from x = 0, v = k, with names as a tool of Modelica gives them."""

    index = 0
    names = ("Main.mass.x", "der(Main.mass.x)")
    interval = (0.0, 7.0)

    def __init__(self, k: float = 1.0, **settings: Any) -> None:
        super().__init__(2, 0, **settings)
        self.k = k

    def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
        return [du[0] - u[1], du[1] + self.k**2 * u[0]]

    def u_exact(self, t: float) -> list[float]:
        return [np.sin(self.k * t), self.k * np.cos(self.k * t)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Main.mass.x - 0.5", 1.5),
        ("der(Main.mass.x)^2 + 2*Main.mass.x", 13.0),
        ("-k*t + time", -3.0),
        ("atan2(Main.mass.x, der(Main.mass.x)) - asin(0.5)", np.arctan2(2.0, 3.0) - np.arcsin(0.5)),
        (
            "max(Main.mass.x, 7) + min(1, abs(-2)) + sqrt(4)**2 + cos(pi) + log(e)",
            7.0 + 1.0 + 4.0 - 1.0 + 1.0,
        ),
        ("1e-3/2", 5e-4),
    ],
)
def test_an_expression_has_the_value_it_says(text: str, value: float) -> None:
    function = function_of(text, Dotted(k=2.0))
    assert function(np.array([2.0, 3.0]), 3.0) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("t + (t > 1)", "write x - 0.5 for x > 0.5"),
        ("y - 1", "unknown name 'y'"),
        ("Main.mass.y - 1", r"unknown name 'Main\.mass\.y'; did you mean 'Main\.mass\.x'"),
        ("der(k)", r"unknown name 'der\(k\)'"),
        ("sen(t)", "unknown function 'sen'; did you mean 'sin'"),
        ("sin", "unknown name 'sin'"),
        ("sin(t, t, t, t)", "cannot be evaluated"),
        ("t -", "is no expression"),
        ("", "is no expression"),
        ("__import__('os')", "unknown function '__import__'"),
        ("t.__class__", "unknown name"),
        ("[t][0]", "unknown name"),
        ("(lambda: t)()", "unknown name"),
        ("'a'", "unknown name"),
        ("sin(x=t)", "unknown name"),
        ("u__7", "unknown name 'u__7'"),
        ("t; final", "terminal, terminal=2, rising, falling, implicit or otherwise, not 'final'"),
        ("t; rising=2", "not 'rising=2'"),
        ("(" * 5000 + "t" + ")" * 5000, "is no expression"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        ds.solve(Dotted, sweeper="radau-iia-5", dt=0.5, t_end=1.0, events=[text])


def test_numbers_cannot_be_made_too_long() -> None:
    assert not np.isfinite(function_of("10**10**10**10 + t", Dotted())(np.ones(2), 0.0))
    assert np.isnan(function_of("1/0", Dotted())(np.ones(2), 0.0))


def test_texts_find_what_functions_find() -> None:
    texts = ("Main.mass.x - 0.5*k", "Main.mass.x; falling", "der(Main.mass.x); terminal=2")
    found = ds.solve(Dotted, rtol=1e-9, events=texts)
    functions = [
        lambda u, t: u[0] - 0.5,
        ds.Event(lambda u, t: u[0], direction=-1),
        ds.Event(lambda u, t: u[1], terminal=2),
    ]
    same = ds.solve(Dotted, rtol=1e-9, events=functions)
    assert [one.t.tolist() for one in found.events] == [one.t.tolist() for one in same.events]
    assert [one.name for one in found.events] == ["Main.mass.x - 0.5*k", "Main.mass.x", "der(Main.mass.x)"]
    assert np.allclose(found.events[0].t, [np.pi / 6, 5 * np.pi / 6], atol=1e-8)
    assert np.allclose(found.events[1].t, [np.pi], atol=1e-8)
    assert found.t[-1] == pytest.approx(1.5 * np.pi, abs=1e-8)
    assert "ended at event 'der(Main.mass.x)'" in found.message


def test_eliminated_unknowns_and_parameters_of_models_have_names_too() -> None:
    model = ds.Model("tank", interval=(0.0, 9.0))
    h, q, r = model.variables("h q r", start=[2.0, None, None])
    a = model.parameter("a", 0.5)
    model.equations(model.der(h) + q, q - a * h, r - 2 * q)
    for simplify in (False, True):
        found = ds.solve(model, rtol=1e-9, simplify=simplify, events="r - a; terminal")
        assert found.t[-1] == pytest.approx(np.log(4.0) / 0.5, abs=1e-7), simplify


def test_the_command_line_takes_events_and_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [
        "solve",
        "pendulum",
        "--rtol",
        "1e-8",
        "--out",
        "p",
        "--event",
        "x - 0.5*l",
        "--event",
        "x; terminal",
    ]
    assert main(command) == 0
    assert "the run ended at event 'x' at t=" in capsys.readouterr().out
    first, last = ds.Solution.load("p.npy").events
    assert len(first) == 0 and len(last) == 1 and abs(last.u[0, 0]) < 1e-9
    assert main([*command, "--event", "x1"]) == 2
    assert "unknown name 'x1'" in capsys.readouterr().err
    assert (
        main("sweep pendulum --params g=5,20 --rtol 1e-8 --events x;terminal --out s --show t_end".split())
        == 0
    )
    swings = ds.Sweep.load("s.npy")
    falls = swings.quantity("t_end")
    assert falls[0] == pytest.approx(2.0 * falls[1], rel=1e-6)
