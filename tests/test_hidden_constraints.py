"""Velocities and multipliers are as accurate as what they follow from, at steps and between them."""

from __future__ import annotations

import re
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import sympy
from helpers.pairs import covering_pairs
from scipy.integrate import solve_ivp

import dae_sdc as ds
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.initial import jets
from dae_sdc.initial.jets import jets_of
from dae_sdc.structure.repair import repair


def pendulum(t: float, u: Any, du: Any) -> list[Any]:
    """A mass of 1 on a rod of length 1 under gravity 9.81; index 3."""
    x, y, vx, vy, force = u
    return [du[0] - vx, du[1] - vy, du[2] + force * x, du[3] + force * y + 9.81, x * x + y * y - 1.0]


def filtered(t: float, u: Any, du: Any) -> list[Any]:
    """y' = z, z' = w + sin t, y = cos t, in scrambled order; index 3 with w = -cos t - sin t."""
    w, y, z = u
    return [du[2] - w - np.sin(t), y - np.cos(t), du[1] - z]


def circuit(t: float, u: Any, du: Any) -> list[Any]:
    """x' = -x + i, x y = 1 + t, y' = y i with the current i of index 2."""
    i, x, y = u
    return [du[1] + x - i, x * y - 1.0 - t, du[2] - y * i + y]


def loop(t: float, u: Any, du: Any) -> list[Any]:
    """A capacitor of 2 across a source sin 3t from b to a, conductances to ground, and what a drives.

    The derivative of b - a stands in two rows, which tell hidden constraints only together.
    """
    a, b, i, x = u
    current = 2.0 * (du[0] - du[1])
    return [current + a + a**3 + i, b - current - i, a - b - np.sin(3.0 * t), du[3] + x - a]


START = {
    "loop": [0.0, 0.0, -6.0, 0.0],
    "pendulum": [0.6, -0.8, 0.0, 0.0, 9.81 * 0.8],
    "filtered": [-1.0, 1.0, 0.0],
    "circuit": [1.5, 1.0, 1.0],
}
FUNCTIONS = {"loop": loop, "pendulum": pendulum, "filtered": filtered, "circuit": circuit}


def hidden(name: str, t: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Constraints and what they imply by differentiation, written down by hand, at several times."""
    if name == "pendulum":
        x, y, vx, vy, force = u.T
        return np.array([x * x + y * y - 1, x * vx + y * vy, vx**2 + vy**2 - force - 9.81 * y])
    if name == "filtered":
        w, y, z = u.T
        return np.array([y - np.cos(t), z + np.sin(t), w + np.sin(t) + np.cos(t)])
    if name == "loop":
        a, b, i, _ = u.T
        return np.array([a - b - np.sin(3.0 * t), a**3 + a + b, 6.0 * np.cos(3.0 * t) + a + a**3 + i])
    i, x, y = u.T  # x' y + x y' = 1 with x' = i - x, y' = y (i - 1)
    return np.array([x * y - 1 - t, (i - x) * y + x * y * (i - 1) - 1])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
def test_hidden_constraints_hold_to_round_off(name: str, rtol: float) -> None:
    function = FUNCTIONS[name]
    settings = {"u0": START[name], "t_end": 0.8, "rtol": rtol, "reduce": False}
    found = ds.solve(function, **settings)
    times = np.linspace(0.01, 0.79, 37)
    size = np.abs(found.u).max()
    assert found.success
    assert np.abs(hidden(name, found.t[1:], found.u[1:])).max() <= 1e-12 * size
    assert np.abs(hidden(name, times, found(times))).max() <= 1e-12 * size
    sampled = ds.solve(function, **settings, t_eval=times, dense=False)
    assert np.abs(hidden(name, times, sampled.u)).max() <= 1e-12 * size
    raw = ds.solve(function, **settings, hidden_constraints=False)
    assert raw.stats["steps"] == found.stats["steps"]
    assert np.abs(hidden(name, raw.t[1:], raw.u[1:])).max() > 1e-12 * size


@pytest.mark.parametrize(
    "name", ["pendulum", "hessenberg-3", "hessenberg-2", "pendulum-cash", "car-axis", "simple"]
)
@pytest.mark.parametrize("rtol", [1e-4, 1e-6])
@pytest.mark.filterwarnings("ignore:the steps are long")  # of the reference, whose tolerance is near rounding
def test_all_unknowns_are_accurate_to_ten_tolerances(name: str, rtol: float) -> None:
    problem = ds.PROBLEMS[name]
    found = ds.solve(problem, rtol=rtol, trace=True, dense=True)
    exact = ds.solve(problem, rtol=1e-12, sweeper="radau-iia-9", trace=True, dense=True)
    times = np.concatenate([found.t[:-1] + part * np.diff(found.t) for part in (0.25, 0.5, 1.0)])
    error = np.abs(found(times) - exact(times)).max(axis=0) / np.abs(exact.u).max(axis=0)
    velocities = np.array([index == 2 for index in problem().variable_index]) & (name == "car-axis")
    assert error[~velocities].max() <= 12.5 * rtol


def test_models_of_index_3_without_reduction() -> None:
    m = ds.Model("weight")
    x, y, force = m.variables("x y force")
    gravity = m.parameter("g", 9.81)
    m.equations(m.der(x, 2) + force * x, m.der(y, 2) + force * y + gravity, x**2 + y**2 - 1)
    start = {"x": 0.6, "y": -0.8, "der(x)": 0.0, "der(y)": 0.0, "force": 4.0}
    found = ds.solve(m, u0=start, t_end=0.8, rtol=1e-6, params={"g": 5.0})
    y, vx, vy, force = (found.values(name)[1:] for name in ("y", "der(x)", "der(y)", "force"))
    assert np.abs(vx**2 + vy**2 - force - 5.0 * y).max() <= 1e-12


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("index", [2, 3, 4])
def test_models_whose_constraints_stand_in_combinations_of_rows(index: int, order: int, rtol: float) -> None:
    """A chain of sin t and its derivatives beside s'' + s' = sin t, or s' + s = sin t; each row has all."""
    model = ds.Model("chain in combinations", interval=(0.0, 3.0))
    chain = [model.variable(f"x{k}", np.sin(0.5 * np.pi * k)) for k in range(index)]
    state, der = model.variable("s"), model.der
    lower = der(state) if order == 2 else state
    rows = [chain[0] - sympy.sin(model.t), der(state, order) + lower - chain[0]]
    rows += [der(low) - high for low, high in pairwise(chain)]
    parts = np.random.default_rng(index).integers(-3, 4, (len(rows), len(rows))) + 7 * np.eye(
        len(rows), dtype=int
    )
    model.equations(*(sum(int(part) * row for part, row in zip(each, rows, strict=True)) for each in parts))
    begin = 2.0 - order  # of what s' + s = sin t is solved for: of s, or of s' for s in its place
    found = ds.solve(model, rtol=rtol, fixed={"s": 1.0, "der(s)": 0.0} if order == 2 else {"s": 1.0})
    assert found.success, found.message
    for k in range(index):
        assert np.abs(found.values(f"x{k}") - np.sin(found.t + 0.5 * np.pi * k)).max() <= 30.0 * rtol
    exact = 0.5 * (np.sin(found.t) - np.cos(found.t)) + (begin + 0.5) * np.exp(-found.t)
    assert np.abs(found.values("s" if order == 1 else "der(s)") - exact).max() <= 30.0 * rtol


def test_the_same_values_whatever_times_are_asked_together() -> None:
    found = ds.solve(pendulum, u0=START["pendulum"], t_end=0.8, rtol=1e-6)
    times = np.linspace(0.0, 0.8, 23)
    assert np.allclose([found(t) for t in times.tolist()], found(times), rtol=1e-13, atol=1e-14)
    assert (found(found.t) == found.u).all()


def test_where_hidden_constraints_are_not_known() -> None:
    with pytest.raises(InputError, match="hidden constraints of this problem are not known"):
        ds.solve("pendulum", rtol=1e-6, hidden_constraints=True, trace=False)
    with pytest.raises(InputError, match="hidden constraints of this problem are not known"):
        ds.solve(pendulum, u0=START["pendulum"], t_end=0.1, rtol=1e-6, hidden_constraints=True, trace=False)


@pytest.mark.parametrize("name", ["pendulum-cash", "car-axis", "hessenberg-3"])
def test_problems_with_kernels_are_read_where_it_is_asked(name: str) -> None:
    computed = ds.solve(name, rtol=1e-6)
    found = ds.solve(name, rtol=1e-6, hidden_constraints=True)
    times = np.linspace(found.t[0], found.t[-1], 101)[1:]
    exact = ds.solve(name, rtol=1e-10, hidden_constraints=True, t_eval=times).u
    largest = np.array(PROBLEMS[name]().variable_index) == 3
    far = [np.abs((run(times) - exact)[:, largest]).max() for run in (computed, found)]
    assert far[1] <= 10.0 * 1e-6 * np.abs(exact[:, largest]).max()
    assert far[1] < 0.1 * far[0]
    assert (found.t == computed.t).all()


def test_fixed_steps_keep_what_the_method_computes_unless_asked() -> None:
    settings: dict[str, Any] = {"u0": START["pendulum"], "t_end": 0.5, "dt": 0.05, "nodes": 3}
    raw = ds.solve(pendulum, **settings)
    asked = ds.solve(pendulum, **settings, hidden_constraints=True)
    assert np.abs(hidden("pendulum", raw.t, raw.u)[2]).max() > 1e-8
    assert np.abs(hidden("pendulum", asked.t, asked.u)[2]).max() < 1e-10


def pulsed(t: Any, u: Any, du: Any) -> list[Any]:
    """The circuit of :func:`loop` with a source that has a pulse and is slow elsewhere."""
    a, b, i, x = u
    current = 2.0 * (du[0] - du[1])
    source = np.sin(0.9 * t) + 2.0 * np.exp(-(((t - 1.0) / 0.05) ** 2))
    return [current + a + a**3 + i, b - current - i, a - b - source, du[3] + x - a]


@pytest.mark.parametrize(
    ("trace", "rtol", "nodes"), covering_pairs(product((None, False), (1e-5, 1e-7, 1e-9), (None, 3)))
)
def test_a_current_of_index_2_is_right_or_told_with_its_error(
    trace: bool | None, rtol: float, nodes: int | None
) -> None:
    ways: dict[str, Any] = {} if nodes is None else {"nodes": nodes}
    start = {"a": 0.0, "b": 0.0, "i": -1.8, "x": 0.0}
    solution = ds.solve(pulsed, u0=start, t_end=8.0, rtol=rtol, trace=trace, **ways)
    assert solution.success
    t = solution.t[1:]
    pulse = 2.0 * np.exp(-(((t - 1.0) / 0.05) ** 2))
    # a - b is the source, and the sum of the first two rows a + a^3 + b = 0.
    a = np.array([np.roots([1.0, 0.0, 2.0, -v])[-1].real for v in np.sin(0.9 * t) + pulse])
    i = -2.0 * (0.9 * np.cos(0.9 * t) - 2.0 * (t - 1.0) / 0.05**2 * pulse) - a - a**3
    error = (np.abs(solution.u[1:, 2] - i) / (1.0 + np.abs(i))).max()
    told = re.search(r"^i of index 2: errors up to (\S+) of their sizes", solution.message)
    assert error <= (100.0 * rtol if told is None else 4.0 * float(told[1]))
    assert told is None or (trace is False and float(told[1]) <= 100.0 * error)


@pytest.mark.parametrize(
    ("event", "first", "every"),
    [("force - 20", 0, 1), ("force > 20; implicit", 0, 2), ("force < 20; implicit", 1, 2)],
)
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_an_event_of_a_multiplier_of_index_3_happens_where_hidden_constraints_have_it(
    rtol: float, event: str, first: int, every: int
) -> None:
    """A pendulum that falls from the side pulls with 3 g sin(angle), which is 20 N at several times."""
    g = 9.81

    def pull(t: float, z: Any) -> float:
        return float(z[1] ** 2 + g * np.cos(z[0]) - 20.0)

    exact = solve_ivp(
        lambda t, z: [z[1], -g * np.sin(z[0])],
        *((0.0, 4.0), [np.pi / 2.0, 0.0]),
        **{"events": pull, "method": "DOP853", "rtol": 1e-13, "atol": 1e-13},
    )
    start = {"x": 1.0, "y": 0.0, "vx": 0.0, "vy": 0.0, "force": 0.0}
    solution = ds.solve(pendulum, u0=start, t_end=4.0, rtol=rtol, events=event)
    assert solution.success, solution.message
    expected = exact.t_events[0][first::every]
    assert len(expected) > 1 and np.allclose(solution.events[0].t, expected, rtol=0.0, atol=10.0 * rtol)


def test_that_equations_cannot_be_repaired_is_found_once_for_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[float] = []

    def counted(model: Any, **named: Any) -> Any:
        looked_at.append(model.parameter_values["k"])
        return repair(model, **named)

    monkeypatch.setattr(jets, "repair", counted)
    for number in (1.0, 1.0, 2.0, 1.0):
        model = ds.Model("same equation twice")
        x, y = model.variables("x y")
        k = model.parameter("k", number)
        model.equations(x + k * y - 1, 2 * x + 2 * k * y - 2)
        with pytest.raises(InputError, match="'equation 1' follows from 'equation 0'"):
            jets_of(model, 0.0)
    assert looked_at == [1.0, 2.0]
    assert len(jets._REFUSED) <= jets._REFUSED.most
