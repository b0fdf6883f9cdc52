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


# A loop of a capacitor and a resistor that is connected to nothing: a - b = exp(-t), and b is open.


def loop(t: float, u: Any, du: Any) -> list[Any]:
    return [du[0] - du[1] + u[2], du[1] - du[0] - u[2], u[2] - (u[0] - u[1])]


class Loop(ds.ProblemDAE):
    names = ("a", "b", "i")
    interval = (0.0, 1.0)

    def __init__(self) -> None:
        super().__init__(2, 1)

    def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
        return loop(t, u, du)

    def u_exact(self, t: float) -> list[float]:
        assert t == 0.0
        return [4.0, 3.0, 1.0]


def loop_model() -> ds.Model:
    m = ds.Model("loop")
    a, b, i = m.variables("a b i", start=[4.0, 3.0, None])
    m.equation(m.der(a) - m.der(b) + i, name="node 1")
    m.equation(m.der(b) - m.der(a) - i, name="node 2")
    m.equation(i - (a - b), name="resistor")
    return m


def loop_of_modelica(path: Path) -> str:
    path.write_text(
        "model Loop\n  Real a(start=4, fixed=true);\n  Real b(start=3, fixed=true);\n  Real i;\nequation\n"
        "  der(a) - der(b) = -i;\n  der(b) - der(a) = i;\n  i = a - b;\nend Loop;\n"
    )
    return str(path)


LOOPS: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    "function": lambda path: (loop, {"u0": [4.0, 3.0, 1.0]}),
    "by name": lambda path: (loop, {"u0": {"a": 4.0, "b": 3.0, "i": 1.0}}),
    "class": lambda path: (Loop, {}),
    "instance": lambda path: (Loop(), {"u0": [4.0, 3.0, 1.0]}),
    "mass matrix": lambda path: (
        ds.MassMatrixProblem(
            lambda t, u: [-u[2], u[2], u[2] - u[0] + u[1]],
            np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]),
        ),
        {"u0": [4.0, 3.0, 1.0]},
    ),
    "model": lambda path: (loop_model(), {}),
    "simplified": lambda path: (loop_model(), {"simplify": True}),
    "Modelica": lambda path: (loop_of_modelica(path / "loop.mo"), {}),
}


@pytest.mark.parametrize("form", LOOPS)
def test_what_a_circuit_without_ground_leaves_open_stays_as_it_starts(form: str, tmp_path: Path) -> None:
    problem, start = LOOPS[form](tmp_path)
    solution = ds.solve(problem, **start, **RUN)
    assert solution.success
    assert "left out, as it follows from the others: " in solution.message
    assert "is not determined by the equations, and kept as at the start" in solution.message
    names = list(solution.names) if "a" in solution.names else ["a", "b", "i"]
    if start and form != "simplified":  # the order of what was given
        assert names == ["a", "b", "i"]
    a, b = (solution.u[:, names.index(name)] for name in "ab")
    assert b == pytest.approx(np.full(len(b), 3.0), rel=1e-12)
    assert a - b == pytest.approx(np.exp(-solution.t), rel=1e-7)


def swings(twice: bool, gap: float = 0.0) -> Callable[[float, Any, Any], list[Any]]:
    """A pendulum whose length may be said twice, with a multiplier each."""

    def equations(t: float, u: Any, du: Any) -> list[Any]:
        x, y, v, w, p, q = u
        pull = p + 2.0 * q if twice else p
        length = x**2 + y**2 - 1.0
        last = 2.0 * length - gap if twice else q
        return [du[0] - v, du[1] - w, du[2] + x * pull, du[3] + y * pull + 9.81, length, last]

    return equations


@pytest.mark.parametrize("declared", [None, 3])
def test_a_length_that_is_said_twice_is_one_constraint(declared: int | None) -> None:
    start = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    once = ds.solve(swings(False), u0=start, **RUN)
    if declared is None:
        twice = ds.solve(swings(True), u0=start, **RUN)
    else:

        class Twice(ds.ProblemDAE):
            index = declared

            def __init__(self) -> None:
                super().__init__(4, 2)

            def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
                return swings(True)(t, u, du)

        twice = ds.solve(Twice, u0=start, **RUN)
    assert twice.success
    assert "'equation 5'; 'u[5]' is not determined by the equations" in twice.message
    assert twice.u[-1, :4] == pytest.approx(once.u[-1, :4], rel=1e-6)
    assert twice.u[-1, 4] == pytest.approx(once.u[-1, 4], rel=1e-5)
    assert (twice.u[:, 5] == 0.0).all()
    assert ds.initial(swings(True), u0=start).u == pytest.approx(start)


def test_a_length_that_is_said_twice_and_differs_is_refused_with_both_names() -> None:
    with pytest.raises(ds.InconsistentStateError, match="'equation 4', 'equation 5'"):
        ds.solve(swings(True, 0.1), u0=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], **RUN)


def sources(other: float = 5.0) -> ds.Model:
    m = ds.Model("sources")
    v, i, j, q = m.variables("v i j q", start=[None, None, None, 0.0])
    m.equation(v - 5.0, name="first")
    m.equation(v - other, name="second")
    m.equation(i + j - v / 2.0, name="load")
    m.equation(m.der(q) - i - j, name="charge")
    return m


def test_parameters_that_are_zero_leave_a_circuit_without_ground() -> None:
    def grounded(t: float, u: Any, du: Any, gmin: float = 0.0) -> list[Any]:
        a, b, i = u
        return [a - b + i + gmin * a, b - a - i + gmin * b, a - b - np.sin(t)]

    model = ds.Model("grounded")
    a, b, i = model.variables("a b i", start=[2.0, 2.0, 0.0])
    gmin = model.parameter("gmin", 0.0)
    model.equation(a - b + i + gmin * a, name="node 1")
    model.equation(b - a - i + gmin * b, name="node 2")
    model.equation(a - b - sp.sin(model.t), name="source")
    for problem in (grounded, model):
        for conductance, start, end in ((0.0, 2.0, 2.0), (1e-3, 0.0, -0.5 * np.sin(1.0))):
            u0 = {"a": start, "b": start, "i": 0.0}
            run = ds.solve(problem, params={"gmin": conductance}, u0=u0, **RUN)
            assert run.success and ("not determined" in run.message) == (conductance == 0.0)
            assert run["b"][-1] == pytest.approx(end, rel=1e-6)
            assert run["a"][-1] - run["b"][-1] == pytest.approx(np.sin(1.0), rel=1e-6)


def test_sources_side_by_side_share_their_current_as_they_start() -> None:
    run = ds.solve(sources(), **RUN)
    assert run.values("q")[-1] == pytest.approx(2.5)
    assert "'second'; 'j' is not determined by the equations" in run.message
    run = ds.solve(sources(), u0={"j": 2.0, "q": 1.0}, **RUN)
    assert [run.values(name)[-1] for name in "ijq"] == pytest.approx([0.5, 2.0, 3.5])
    with pytest.raises(ds.InconsistentStateError, match="'first', 'second'"):
        ds.solve(sources(6.0), **RUN)


def random_circuit(seed: int, grounded: bool) -> tuple[Callable[[float, Any, Any], list[Any]], int, int]:
    """Nodes joined by resistors, capacitors, inductors, sources and diodes; numbers of nodes and unknowns."""
    source = np.random.default_rng(seed)
    nodes = int(source.integers(3, 8))
    pairs = [(int(source.integers(0, k)), k) for k in range(1, nodes)]  # all nodes hang together
    pairs += [tuple(source.choice(nodes, 2, replace=False)) for _ in range(int(source.integers(1, nodes)))]
    parts = [(str(source.choice(list("RCRLVD"))), a, b, float(source.uniform(0.5, 2.0))) for a, b in pairs]
    parts += [("V", 0, nodes - 1, 1.0)] * all(kind != "V" for kind, *_ in parts)
    count = nodes + sum(kind in "LV" for kind, *_ in parts)

    def equations(t: float, u: Any, du: Any) -> list[Any]:
        balances, laws, k = [0.0] * nodes, list[Any](), nodes
        for kind, a, b, size in parts:
            v, rate = u[a] - u[b], du[a] - du[b]
            if kind in "LV":
                current = u[k]
                laws.append(size * du[k] - v if kind == "L" else v - size * np.sin(2.0 * t))
                k += 1
            elif kind == "D":
                current = 1e-3 * (np.exp(v / 0.5) - 1.0 + v)
            else:
                current = v / size if kind == "R" else size * rate
            balances[a] = balances[a] + current
            balances[b] = balances[b] - current
        if grounded:
            balances[-1] = u[0]
        return [*balances, *laws]

    return equations, nodes, count


def test_an_equation_of_time_alone_that_no_equation_contradicts_is_refused_by_name() -> None:
    model = ds.Model("m")
    x, y = model.variables("x y")
    model.equation(model.der(x) + x)
    model.equation(model.t - 3 + 0 * y)
    with pytest.raises(ds.InconsistentStateError, match="at most times it holds for no values; remove one"):
        ds.solve(model, u0={"x": 1.0}, t_end=1.0)


IDLE: dict[str, Any] = {
    "zero": lambda t, u, du: [du[0] + u[0], 0.0 * u[1]],
    "a difference": lambda t, u, du: [du[0] + u[0], u[1] - u[1]],
    "parameters": lambda t, u, du, a=1.0, b=1.0: [du[0] + u[0], a - b],
    "a derivative": lambda t, u, du: [du[0] + u[0], 0.0 * du[1]],
}


@pytest.mark.parametrize("name", IDLE)
def test_an_equation_of_a_function_without_unknowns_is_refused_by_name(name: str) -> None:
    for call in (ds.initial, ds.solve):
        with pytest.raises(ds.InputError, match="'equation 1'") as refused:
            call(IDLE[name], u0=[1.0, 0.0], **({"t_end": 1.0} if call is ds.solve else {}))
        assert "\n" not in str(refused.value) and "no unknown" in str(refused.value)


@pytest.mark.parametrize("seed", range(40))
def test_a_circuit_without_ground_is_as_with_one_or_is_refused_as_with_one(seed: int) -> None:
    ends = []
    for grounded in (False, True):
        equations, nodes, count = random_circuit(seed, grounded)
        try:
            run = ds.solve(equations, u0=np.zeros(count), t_end=1.0, rtol=1e-7)
        except ds.InconsistentStateError as error:  # sources in a loop that differ
            assert "does not follow from the other equations: at most times it contradicts" in str(error)
            ends.append(None)
            continue
        assert run.success
        assert ("is not determined by the equations" in run.message) != grounded
        ends.append(np.append(run.u[-1, :nodes] - run.u[-1, 0], run.u[-1, nodes:]))
    floating, fixed = ends
    assert (floating is None) == (fixed is None)
    if floating is not None and fixed is not None:
        assert np.abs(floating - fixed).max() <= 1e-6 * (1.0 + np.abs(fixed).max())
