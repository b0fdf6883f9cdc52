"""A start keeps to the bounds of its unknowns, nothing is evaluated beyond them, and errors name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.dae.projection import EquationFunctions, project
from dae_sdc.initial.search import initial_of_problem

NONE, LOW = np.array([np.inf]), np.array([0.0])


def boiling(T: Any) -> Any:
    """Vapour pressures of benzene and toluene by Antoine's equation, which has a pole at 53.67 K."""
    return np.exp(20.7936 - 2788.51 / (T - 52.36)), np.exp(20.9065 - 3096.52 / (T - 53.67))


def tray(t: float, u: Any, du: Any) -> Any:
    x, y, T = u
    light, heavy = boiling(T)
    return [du[0] + x - 0.3, y - x * light / 101325.0, x * light + (1.0 - x) * heavy - 101325.0]


def boiling_point(x: float) -> float:
    """The temperature at which a mixture boils, by bisection."""
    low, high = 250.0, 500.0
    for _ in range(200):
        T = 0.5 * (low + high)
        light, heavy = boiling(T)
        low, high = (T, high) if x * light + (1.0 - x) * heavy < 101325.0 else (low, T)
    return T


TRAY = ds.FunctionProblem(tray, 3, names=("x", "y", "T"))


def test_a_start_that_is_not_found_without_a_bound_is_told_with_the_guesses_to_give() -> None:
    # The last equation tells T whatever y is.
    words = r"no values were found from T = 0, .* 'equation 2', the smallest .*; give a guess for 'T'"
    with pytest.raises(ds.InconsistentStateError, match=words):
        ds.initial(TRAY, fixed={"x": 0.5}, guesses={"T": 0.0})


@pytest.mark.parametrize("trace", [True, False])
def test_a_bound_leads_to_the_start_that_is_meant(trace: bool) -> None:
    found = ds.solve(TRAY, u0={"x": 0.5}, bounds={"T": (250.0, None)}, t_end=0.1, rtol=1e-6, trace=trace)
    assert found.u[0, 0] == 0.5
    assert found.u[0, 2] == pytest.approx(boiling_point(0.5), rel=1e-9)


def test_nothing_is_evaluated_beyond_bounds() -> None:
    seen: list[float] = []

    def watched(t: float, u: Any, du: Any) -> Any:
        seen.append(float(u[2]))
        return tray(t, u, du)

    problem = ds.FunctionProblem(watched, 3, names=("x", "y", "T"))
    # From 700 K Newton's step leads far below 0.
    bounds, given = {"T": (300.0, 800.0)}, {"fixed": {"x": 0.5}, "guesses": {"T": 700.0}}
    start = initial_of_problem(problem, bounds=bounds, **given)
    assert start["T"] == pytest.approx(boiling_point(0.5), rel=1e-9)
    # Differences for Jacobians and the look for their pattern reach beside the values by 1 percent.
    assert min(seen) > 0.98 * 300.0
    assert max(seen) < 1.02 * 800.0


@pytest.mark.parametrize(
    ("function", "slope", "start", "root"),
    [
        (lambda x: np.log(x) + 2.0, lambda x: 1.0 / x, 10.0, np.exp(-2.0)),
        (lambda x: np.sqrt(x) - 0.1, lambda x: 0.5 / np.sqrt(x), 1.0, 0.01),
        (lambda x: x * (x + 1.0), lambda x: 2.0 * x + 1.0, 3.0, 0.0),
        (lambda x: x**3 * np.exp(-x) - 1.0, lambda x: (3 - x) * x**2 * np.exp(-x), 2.9, 1.857183860207835),
    ],
    ids=["log", "root", "at the bound", "flat beyond"],
)
def test_newton_keeps_to_bounds(function: Any, slope: Any, start: float, root: float) -> None:
    seen: list[float] = []

    def values(x: Any) -> Any:
        seen.append(float(x[0]))
        return function(x)

    equations = EquationFunctions(values, lambda x: slope(x)[:, None])
    found = project((start,), equations, bounds=(LOW, NONE))
    assert found.converged
    assert found.x[0] == pytest.approx(root, rel=1e-9, abs=1e-12)
    assert min(seen) >= 0.0


def test_the_nearest_point_lies_on_a_bound() -> None:
    equations = EquationFunctions(lambda x: np.array([x @ x - 1.0]), lambda x: 2.0 * x[None])
    box = np.array([0.9, -np.inf]), np.array([1.0, np.inf])
    found = project((0.0, 2.0), equations, bounds=box)
    assert found.converged
    assert found.x == pytest.approx([0.9, np.sqrt(1.0 - 0.81)], rel=1e-9)
    refused = project((0.0, 2.0), equations, bounds=(box[0] + 0.2, box[1] + 1.0))
    assert not refused.converged
    assert (refused.at_bounds, refused.contradictory) == ((0,), (0,))


def logarithm(**bounds: Any) -> ds.Model:
    m = ds.Model("valve")
    x, y = m.variables("x y", **bounds)
    m.equation(m.der(x) + x, name="decay")
    m.equation(sp.log(x) + y**2 - 4, name="law")
    return m


def test_unknowns_of_models_have_bounds() -> None:
    m = logarithm(min=[0, None], max=[None, 10])
    assert ds.initial(m, fixed={"y": 1.0})["x"] == pytest.approx(np.exp(3.0))
    with pytest.raises(ds.InputError, match=r"y = 11 of model valve is outside its bounds, at most 10; give"):
        ds.initial(m, fixed={"y": 11.0})
    with pytest.raises(ds.InputError, match="min of z in model valve is above max"):
        m.variable("z", min=1, max=0)


def test_bounds_that_no_start_keeps_are_named_with_their_equations() -> None:
    m = logarithm(min=[0, None])
    words = r"no values were found within the bounds of x \(0 to 1\) at which 'law' of model valve hold at"
    for call in (
        lambda: ds.initial(m, fixed={"y": 1.0}, bounds={"x": (0, 1)}),
        lambda: ds.solve(m, u0={"y": 1.0}, bounds={"x": (0, 1)}, t_end=0.1, rtol=1e-6),
    ):
        with pytest.raises(ds.InconsistentStateError, match=words):
            call()


@pytest.mark.parametrize("u0", [[20.0, 1.0], {"x": 20.0, "y": 1.0}, {"x": 20.0}])
@pytest.mark.parametrize("of_function", [True, False])
def test_given_values_beyond_bounds_are_refused_by_name(u0: Any, of_function: bool) -> None:
    problem: Any = logarithm()
    if of_function:
        problem = ds.FunctionProblem(
            lambda t, u, du: [du[0] + u[0], np.log(u[0]) + u[1] ** 2 - 4.0], 2, names=("x", "y")
        )
    with pytest.raises(ds.InputError, match=r"x = 20 of .* is outside its bounds, 0 to 5; give"):
        ds.solve(problem, u0=u0, bounds={"x": (0, 5)}, t_end=0.1, rtol=1e-6)


def test_other_starts_are_within_bounds_too() -> None:
    m = ds.Model("roots")
    x, y = m.variables("x y", start=[None, 1.0])
    m.equations(m.der(y) + y, (x**2 - 4) * (x - 7))
    found = ds.initial(m, all_solutions=True).solutions
    assert sorted(one["x"] for one in found) == pytest.approx([-2, 2, 7])
    for bounds, roots in (((0, None), [2, 7]), ((None, 0), [-2]), ((3, 100), [7])):
        every = ds.initial(m, all_solutions=True, bounds={"x": bounds})
        assert sorted(one["x"] for one in every.solutions) == pytest.approx(roots)
        near = ds.initial(m, guesses={"x": 5.0} if roots[-1] == 7 else {}, bounds={"x": bounds})
        assert all(round(one["x"]) in roots for one in near.solutions)
    with pytest.raises(ds.InconsistentStateError, match=r"3 outside the bounds|no values were found within"):
        ds.initial(m, all_solutions=True, bounds={"x": (3, 5)})


def test_an_angle_is_turned_to_within_its_bounds() -> None:
    m = ds.Model("angle")
    a, y = m.variables("a y", start=[0.0, 1.0], max=[None, None])
    m.equations(m.der(y) + y, sp.sin(a) + sp.Rational(1, 2))
    every = ds.initial(m, all_solutions=True, bounds={"a": (6.0, 12.0)}, guesses={"a": 7.0})
    found = sorted(one["a"] for one in every.solutions)
    assert found == pytest.approx([7 * np.pi / 6 + 2 * np.pi, 11 * np.pi / 6 + 2 * np.pi][: len(found)])
    assert all(6.0 <= one <= 12.0 for one in found)


def test_bounds_of_modelica_and_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tank.mo"
    path.write_text(
        "model Tank\n  Real h(min=0, max=10);\n  Real q(start=0.9, fixed=true);\nequation\n"
        "  der(q) = -q;\n  h*h = 4*q*q/0.81;\nend Tank;\n"
    )
    assert ds.initial(str(path))["h"] == pytest.approx(2.0)
    for bounds, height in ((None, 2.0), ({"h": (None, 0)}, -2.0)):
        solution = ds.solve(str(path), t_end=0.1, rtol=1e-6, bounds=bounds)
        assert solution.values("h")[0] == pytest.approx(height)
    assert main(["initial", str(path), "--bounds", "h=:0"]) == 0
    assert "-2.0000" in capsys.readouterr().out
    assert main(["solve", str(path), "--bounds", "h=3:4", "--rtol", "1e-6", "--t-end", "0.1"]) == 2
    assert "within the bounds of h (3 to 4)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"q": (0, 1)}, "unknown of model valve 'q'"),
        ({"x": (2, 1)}, "lower bound of x is above"),
        ({"x": 3}, "bounds of x are a pair"),
        ({"x": ("a", 1)}, "bounds of x are a pair"),
        ([("x", 0, 1)], "bounds must map|bounds"),
    ],
)
def test_wrong_bounds_are_refused(bounds: Any, words: str) -> None:
    with pytest.raises(ds.InputError, match=words):
        ds.initial(logarithm(), bounds=bounds)


def test_bounds_of_a_problem_that_starts_as_it_is_are_looked_at() -> None:
    with pytest.raises(ds.InputError, match=r"z = -0\.5 of the start at t=0 is outside its bounds, 0 to 1"):
        ds.solve("simple", bounds={"z": (0, 1)}, t_end=0.1, rtol=1e-6)
    with pytest.raises(ds.InputError, match="unknown of the function 'q'"):
        ds.solve("simple", bounds={"q": (0, 1)}, t_end=0.1, rtol=1e-6)


def test_derivatives_have_bounds_too() -> None:
    m = ds.Model("roots")
    x, y = m.variables("x y")
    m.equations(m.der(x) ** 2 - 4 * y, y - 1)
    assert ds.initial(m, bounds={"der(x)": (None, 0)})["der(x)"] == pytest.approx(-2.0)
    assert ds.initial(m, bounds={"der(x)": (0, None)})["der(x)"] == pytest.approx(2.0)


def test_what_round_off_leaves_of_a_bound_is_within() -> None:
    m = logarithm()
    found = ds.initial(m, fixed={"y": 2.0}, bounds={"x": (1.0 + 1e-13, 2.0)})
    assert found["x"] == pytest.approx(1.0, abs=1e-12)
    assert ds.initial(m, fixed={"x": 1.0 - 1e-13}, bounds={"x": (1.0, 2.0)})["x"] == 1.0 - 1e-13


def test_bounds_say_nothing_of_the_run() -> None:
    m = ds.Model("fall")
    h = m.variable("h", start=0.05, fixed=True, min=0)
    m.equation(m.der(h) + 1)
    assert ds.solve(m, t_end=0.5, rtol=1e-6).u[-1, 0] == pytest.approx(-0.45)
