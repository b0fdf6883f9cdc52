"""Values of a start are given by patterns of names, and guesses by other results, their files included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.cli import main

COUNT = 3
NAMES = tuple(f"{kind}{i}" for kind in "xyT" for i in range(COUNT))


def trays(t: float, u: Any, du: Any) -> Any:
    """Mixtures that lose their light part, each at its boiling point."""
    rows: list[Any] = []
    for i in range(COUNT):
        x, y, T = u[i], u[COUNT + i], u[2 * COUNT + i]
        light, heavy = np.exp(20.7936 - 2788.51 / (T - 52.36)), np.exp(20.9065 - 3096.52 / (T - 53.67))
        rows += [du[i] + x - 0.3, y - x * light / 101325.0, x * light + (1.0 - x) * heavy - 101325.0]
    return rows


def problem(**settings: Any) -> ds.FunctionProblem:
    return ds.FunctionProblem(trays, 3 * COUNT, names=NAMES, **settings)


GUESSES = {"T*": 365.0}
RUN: dict[str, Any] = {"t_end": 0.1, "rtol": 1e-6}


def model() -> ds.Model:
    m = ds.Model("three")
    x = m.variables("x1 x2 x3", start=[None, None, 4.0], fixed=[False, False, True])
    y = m.variables("y1 y2 y3")
    m.equations(*(m.der(a) + b for a, b in zip(x, y, strict=True)))
    m.equations(*(b**2 - a for a, b in zip(x, y, strict=True)))
    return m


def test_a_pattern_stands_for_the_names_that_it_matches() -> None:
    exact = dict.fromkeys(["T0", "T1", "T2"], 365.0)
    for trace in (None, False):
        by_pattern = ds.solve(problem(), u0={"x?": 0.5}, guesses=GUESSES, trace=trace, **RUN)
        by_names = ds.solve(
            problem(), u0={"x0": 0.5, "x1": 0.5, "x2": 0.5}, guesses=exact, trace=trace, **RUN
        )
        assert np.array_equal(by_pattern.u[0], by_names.u[0])
    assert np.array_equal(by_pattern.u[0, :COUNT], [0.5, 0.5, 0.5])


def test_an_exact_name_wins_over_a_pattern() -> None:
    for given in ({"x*": 0.5, "x1": 0.25}, {"x1": 0.25, "x*": 0.5}):
        found = ds.initial(problem(), fixed=given, guesses=GUESSES)
        assert [found[f"x{i}"] for i in range(COUNT)] == [0.5, 0.25, 0.5]


def test_patterns_of_models_leave_fixed_starts_alone() -> None:
    found = ds.initial(model(), guesses={"x*": 9.0, "y*": 2.5})
    assert [found[name] for name in ("x1", "x2", "x3")] == pytest.approx([9.0, 9.0, 4.0])
    assert [found[name] for name in ("y1", "y2", "y3")] == pytest.approx([3.0, 3.0, 2.0])
    assert ds.initial(model(), guesses={"x*": 9.0, "y*": -2.5})["y1"] == pytest.approx(-3.0)
    rates = ds.initial(model(), fixed={"der(x?)": -2.0, "x3": 4.0}, guesses={"y*": 2.0})
    assert rates["x1"] == pytest.approx(4.0)
    bound = ds.initial(model(), guesses={"x*": 9.0}, bounds={"y*": (None, 0.0)})
    assert [bound[name] for name in ("y1", "y2", "y3")] == pytest.approx([-3.0, -3.0, -2.0])


@pytest.mark.parametrize("what", ["guesses", "fixed", "u0", "bounds"])
def test_a_pattern_that_matches_nothing_is_refused_with_the_nearest_names(what: str) -> None:
    value: Any = (0, 1) if what == "bounds" else 1.0
    with pytest.raises(ds.InputError, match=r"no .* matches, 'z\*'.*x1"):
        ds.solve(model(), **{what: {"z*": value}}, **RUN)
    if what != "u0":
        with pytest.raises(ds.InputError, match=r"no .* matches, 'z\*'.*T0"):
            ds.initial(problem(), **{what: {"z*": value}})


def test_a_function_without_names_refuses_patterns() -> None:
    with pytest.raises(ds.InputError, match=r"x\* stands for unknowns by their names"):
        ds.solve(trays, guesses={"x*": 1.0}, **RUN)


@pytest.mark.parametrize("kind", ["solution", "start", "file of a solution", "file of a start", "steady"])
@pytest.mark.parametrize("of_model", [True, False])
def test_guesses_are_the_end_of_another_result(kind: str, of_model: bool, tmp_path: Path) -> None:
    equations: Any = model() if of_model else problem()
    # Of the roots of each y the guess has the lower one, and the boiling points are those of 365 K.
    first = {"y*": -2.0, "x*": 4.0} if of_model else GUESSES | {"x*": 0.5}
    fixed = {"x1": 16.0} if of_model else {"x*": 0.4}
    given: Any = ds.initial(equations, guesses=first)
    if "solution" in kind:
        given = ds.solve(equations, u0=given, **RUN)
    if kind == "steady":
        guess = dict(zip(given.names, given.u.tolist(), strict=True))
        given = ds.steady_state(equations, guess=guess)
    if "file" in kind:
        out = tmp_path / "before.npy"
        if kind == "file of a start":
            ds.initial(equations, guesses=first, out=out)
        else:
            given.save(out)
        given = out
    found = ds.initial(equations, fixed=fixed, guesses=given)
    if of_model:
        assert found["y1"] == pytest.approx(-4.0 if kind != "steady" else found["y1"])
    else:
        assert found["T0"] == pytest.approx(368.2922166, rel=1e-8)  # by bisection
    run = ds.solve(equations, fixed=fixed, guesses=given, **RUN)
    assert run.u[0] == pytest.approx(found.u, rel=1e-9, abs=1e-9)


def test_guesses_of_another_model_count_by_the_names_that_both_have() -> None:
    other = ds.Model("other")
    y, w = other.variables("y1 w", start=[-3.0, 1.0])
    other.equations(other.der(y), other.der(w))
    found = ds.initial(model(), fixed={"x1": 9.0}, guesses=ds.initial(other))
    assert found["y1"] == pytest.approx(-3.0)
    strange = ds.Model("strange")
    v = strange.variable("v", 1.0)
    strange.equation(strange.der(v))
    with pytest.raises(ds.InputError, match="the guesses have no unknown of model three"):
        ds.initial(model(), guesses=ds.initial(strange))
    with pytest.raises(ds.InputError, match="guesses must be a mapping of names to values, a Solution"):
        ds.initial(model(), guesses=3.0)


def test_the_command_line_takes_patterns_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "square.mo", tmp_path / "before.npy"
    path.write_text(
        "model Square\n  Real x1;\n  Real y1;\nequation\n  der(x1) = -y1;\n  y1*y1 = x1;\nend Square;\n"
    )
    asked = ["initial", str(path), "--fixed", "x?=4"]
    assert main([*asked, "--guesses", "y*=-1", "--out", str(out)]) == 0
    assert main([*asked, "--guesses", str(out)]) == 0
    assert capsys.readouterr().out.count("y1 = -2 (this one)") == 2


@pytest.mark.parametrize("guesses", [None, {}, {"der(x)": 0.0}])
def test_a_start_with_all_names_is_kept_or_refused_whatever_is_guessed(guesses: Any) -> None:
    problem = ds.FunctionProblem(lambda t, u, du: [du[0] + u[0], u[1] - 2.0 * u[0]], 2, names=("x", "y"))
    run = ds.solve(problem, u0={"x": 1.0, "y": 2.0}, guesses=guesses, t_end=0.1, rtol=1e-6)
    assert run.u[0].tolist() == [1.0, 2.0]
    with pytest.raises(ds.InconsistentStateError, match="u0 of lambda violates"):
        ds.solve(problem, u0={"x": 1.0, "y": 3.0}, guesses=guesses, t_end=0.1, rtol=1e-6)
