"""Equations that follow from others are left out, with their names; those that do not are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds

RUN: dict[str, Any] = {"t_end": 1.0, "rtol": 1e-8}


def oscillator(more: Callable[[Any, Any, Any], Any], start: tuple[float, float]) -> ds.Model:
    m = ds.Model("oscillator")
    x, y = m.variables("x y", start=list(start))
    m.equation(m.der(x) - y, name="speed")
    m.equation(m.der(y) + x, name="force")
    m.equation(more(m, x, y), name="more")
    return m


def circuit(gap: float = 0.0) -> ds.Model:
    """Two nodes, the balances of which say the same."""
    m = ds.Model("circuit")
    i, j, k, v = m.variables("i j k v", start=[None, None, None, 1.0])
    m.equation(i + j + k, name="node 1")
    m.equation(-i - j - k - gap, name="node 2")
    m.equation(i - v, name="first")
    m.equation(j - 2 * v, name="second")
    m.equation(m.der(v) - k, name="capacitor")
    return m


@pytest.mark.parametrize("simplify", [None, True])
def test_a_balance_that_others_imply_is_left_out(simplify: bool | None) -> None:
    solution = ds.solve(circuit(), simplify=simplify, **RUN)
    assert solution.message == "left out, as it follows from the others: 'node 2'"
    assert solution.values("v")[-1] == pytest.approx(np.exp(-3.0), rel=1e-7)
    assert "left out, as it follows from the others: 'node 2'" in ds.initial(circuit()).remarks


def test_an_invariant_is_left_out_of_the_run_and_kept_at_the_start() -> None:
    def energy(m: Any, x: Any, y: Any) -> Any:
        return x**2 + y**2 - 1

    run = ds.solve(oscillator(energy, (0.6, 0.8)), **RUN)
    assert run.u[-1, 0] == pytest.approx(0.6 * np.cos(1.0) + 0.8 * np.sin(1.0), rel=1e-7)
    moved = ds.initial(oscillator(energy, (1.0, 1.0)))
    assert moved.u == pytest.approx([np.sqrt(0.5)] * 2)
    assert [one.equation for one in moved.violated] == ["more"]
    for given in ({}, {"u0": [1.0, 1.0]}, {"u0": {"x": 1.0, "y": 1.0}}):
        with pytest.raises(ds.InconsistentStateError, match=r"violates? hidden constraints at t=0: 'more'"):
            ds.solve(oscillator(energy, (1.0, 1.0)), **given, **RUN)
    partial = ds.solve(oscillator(energy, (1.0, 1.0)), u0={"x": 0.6}, **RUN)
    assert partial.u[0] == pytest.approx([0.6, 0.8])


def test_a_constraint_that_is_said_in_two_ways_is_one() -> None:
    m = ds.Model("swing")
    x, y, lam = m.variables("x y lam", start=[0.6, -0.8, None])
    m.equation(m.der(x, 2) + lam * x, name="force x")
    m.equation(m.der(y, 2) + lam * y + 9.81, name="force y")
    m.equation(x**2 + y**2 - 1, name="length")
    m.equation(x * m.der(x) + y * m.der(y), name="speed")
    start = ds.initial(m, fixed={"x": 0.6, "der(x)": 0.4})
    assert start["der(y)"] == pytest.approx(0.3)
    (remark,) = (one for one in start.remarks if one.startswith("left out"))
    assert "'length'" in remark or "'speed'" in remark
    assert start["x"] ** 2 + start["y"] ** 2 == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (lambda m, x, y: 2 * m.der(x) - 2 * y - 1, ["'speed'", "'more'"]),
        (lambda m, x, y: x**2 + 2 * y**2 - 1, ["'more' of model oscillator does not follow", "'speed'"]),
        (lambda m, x, y: x - 1, ["'more' of model oscillator does not follow", "'speed'"]),
    ],
    ids=["twice", "no invariant", "constant"],
)
def test_equations_that_contradict_each_other_are_named(more: Any, names: list[str]) -> None:
    for call in (ds.initial, lambda m: ds.solve(m, **RUN)):
        with pytest.raises(ds.InconsistentStateError) as caught:
            call(oscillator(more, (1.0, 0.0)))
        assert all(name in str(caught.value) for name in names)


@pytest.mark.parametrize("simplify", [None, True])
def test_balances_that_contradict_each_other_are_named(simplify: bool | None) -> None:
    with pytest.raises(ds.InconsistentStateError, match="'node 1', 'node 2' of model circuit"):
        ds.solve(circuit(1.0), simplify=simplify, **RUN)


def test_what_is_missing_is_refused_as_before() -> None:
    m = ds.Model("missing")
    x, _ = m.variables("x y")
    m.equations(m.der(x) + x, x - 1, x**2 - 1)
    with pytest.raises(ds.InputError, match="3 equations"):
        ds.initial(m)
    with pytest.raises(ds.InputError, match="3 equations"):
        ds.solve(m, **RUN)


def test_models_of_modelica_may_have_more_equations_than_unknowns(tmp_path: Path) -> None:
    path = tmp_path / "tank.mo"
    path.write_text(
        "model Tank\n  Real h(start=2, fixed=true);\n  Real q;\n  Real p;\nequation\n  der(h) = -q;\n"
        "  q = 0.5*h;\n  p = 2*q;\n  p = h;\nend Tank;\n"
    )
    solution = ds.solve(str(path), **RUN)
    assert solution.values("h")[-1] == pytest.approx(2.0 * np.exp(-0.5), rel=1e-7)
    assert "left out, as it follows from the others" in solution.message


def test_all_starts_satisfy_what_is_left_out() -> None:
    m = ds.Model("roots")
    x, y = m.variables("x y", start=[None, 1.0])
    m.equation(m.der(y) + y, name="decay")
    m.equation((x**2 - 4) * (x - 7), name="cubic")
    m.equation(sp.exp(x) * (x**2 - 4), name="square")
    every = ds.initial(m, all_solutions=True)
    assert sorted(one["x"] for one in every.solutions) == pytest.approx([-2.0, 2.0])


def function(more: Callable[[Any, Any], Any]) -> ds.FunctionProblem:
    def equations(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - u[1], du[1] + u[0], more(u, du)]

    return ds.FunctionProblem(equations, 2, names=("x", "y"))


def circle(u: Any, du: Any) -> Any:
    return u[0] ** 2 + u[1] ** 2 - 1.0


def test_a_function_may_return_more_values_than_unknowns() -> None:
    run = ds.solve(function(circle), u0=[0.6, 0.8], **RUN)
    assert run.message == "left out, as it follows from the others: 'equation 2'"
    assert run.u[-1, 0] == pytest.approx(0.6 * np.cos(1.0) + 0.8 * np.sin(1.0), rel=1e-7)
    assert ds.solve(function(circle), u0={"x": 0.6}, guesses={"y": 1.0}, **RUN).u[0, 1] == pytest.approx(0.8)
    start = ds.initial(function(circle), guesses={"x": 1.0, "y": 1.0})
    assert start.u == pytest.approx([np.sqrt(0.5)] * 2)
    assert "left out, as it follows from the others: 'equation 2'" in start.remarks


@pytest.mark.parametrize(
    ("more", "u0", "words"),
    [
        (circle, [1.0, 1.0], "violates hidden constraints at t=0: 'equation 2'"),
        (circle, {"x": 2.0}, "contradict 'equation 2'"),
        (lambda u, du: u[0] ** 2 + 2.0 * u[1] ** 2 - 1.0, [1.0, 0.0], "'equation 2' .* does not follow"),
        (lambda u, du: 2.0 * du[0] - 2.0 * u[1] - 1.0, [1.0, 0.0], "'equation 0', 'equation 2'"),
    ],
)
def test_values_of_a_function_that_contradict_each_other_are_named(more: Any, u0: Any, words: str) -> None:
    with pytest.raises(ds.InconsistentStateError, match=words):
        ds.solve(function(more), u0=u0, **RUN)


def test_a_function_that_is_not_read_has_as_many_values_as_unknowns() -> None:
    with pytest.raises(ds.InputError, match="must return 2 values"):
        ds.solve(function(circle), u0=[0.6, 0.8], trace=False, **RUN)


def test_algebraic_equations_that_do_not_go_on_to_hold_are_named() -> None:
    for more, holds in ((lambda t, x, y: y - x, False), (lambda t, x, y: y**2 - sp.cos(t) ** 2, True)):
        m = ds.Model("drifting")
        x, y = m.variables("x y", start=[1.0, 1.0])
        m.equation(m.der(x) - y, name="speed")
        m.equation(y - sp.cos(m.t), name="law")
        m.equation(more(m.t, x, y), name="more")
        if holds:
            assert ds.solve(m, **RUN).u[-1, 0] == pytest.approx(1.0 + np.sin(1.0), rel=1e-7)
            continue
        with pytest.raises(ds.InconsistentStateError, match=r"' of model drifting does not follow.*'speed'"):
            ds.solve(m, **RUN)
