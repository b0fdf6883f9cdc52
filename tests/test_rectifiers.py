"""Rectifiers of ideal diodes in which several change at an instant, and impulses that a diode lets pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy.linalg import expm
from scipy.optimize import brentq

import dae_sdc as ds
from dae_sdc.model.modes import choices_of
from dae_sdc.run import modes
from dae_sdc.run.entering import Pivoting

TOLERANCES = (1e-4, 1e-6, 1e-9)
OMEGA = 2.0 * np.pi


def times_of(solution: ds.Solution) -> Any:
    return np.unique(np.concatenate([np.zeros(0), *(record.t for record in solution.switches)]))


def same_times(found: Any, exact: Any, allowed: float) -> bool:
    """Whether each time of the one is one of the other."""
    distances = np.abs(np.subtract.outer(found, exact))
    return bool(distances.min(axis=0).max() <= allowed and distances.min(axis=1).max() <= allowed)


def four_diodes(m: ds.Model, a: Any, b: Any, p: Any, n: Any) -> Any:
    """The currents of a bridge of ideal diodes, from a and b to p and from n to a and b."""
    currents = m.variables("i1 i2 i3 i4", start=[0.0] * 4)
    for current, voltage in zip(currents, [a - p, b - p, n - a, n - b], strict=True):
        m.equation(sp.Min(current, -voltage))
    return currents


def six_pulses(inductance: float, load: float) -> ds.Model:
    """Three sources of amplitude 1 with an inductance each, six ideal diodes, and a constant current."""
    m = ds.Model("six-pulses", interval=(0.0, 1.0))
    a, b = m.variable("a", start=0.0, fixed=True), m.variable("b", start=-load, fixed=True)
    nodes, plus, minus = m.variables("x y z"), m.variable("plus"), m.variable("minus")
    upper = m.variables("u1 u2 u3", start=[0.0, 0.0, load])
    lower = m.variables("d1 d2 d3", start=[0.0, load, 0.0])
    currents = [a, b, -a - b]
    drops = [
        sp.sin(2 * sp.pi * (m.t - sp.Rational(k, 3))) - node - inductance * m.der(current)
        for k, (node, current) in enumerate(zip(nodes, currents, strict=True))
    ]
    m.equations(drops[0] - drops[1], drops[1] - drops[2], sum(nodes), sum(upper) - load)
    for node, current, up, down in zip(nodes, currents, upper, lower, strict=True):
        m.equations(sp.Min(up, plus - node), sp.Min(down, node - minus), up - down - current)
    return m


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_bridge_of_six_diodes_commutates_by_its_closed_form(rtol: float) -> None:
    """A phase takes over from the one before in an angle of 1 - cos(angle) = 2 omega L I / sqrt(3)."""
    inductance, load = 0.05, 1.0
    swing = np.sqrt(3.0) / (2.0 * OMEGA * inductance)
    overlap = np.arccos(1.0 - load / swing) / OMEGA
    begins = (np.arange(6) + 0.5) / 6.0
    solution = ds.solve(six_pulses(inductance, load), rtol=rtol)
    assert solution.success, solution.message
    exact = np.sort([*begins, *(begins[:-1] + overlap)])
    assert same_times(times_of(solution), exact, 10.0 * rtol)
    times = np.linspace(0.005, 0.995, 100)

    def taken(since: Any) -> Any:
        return np.where(
            since < 0.0, 0.0, np.where(since > overlap, load, swing * (1.0 - np.cos(OMEGA * since)))
        )

    # The first phase conducts upward from 1/12 to 5/12 on, and downward from 7/12 to 11/12 on.
    first = taken(times - begins[0]) - taken(times - begins[2])
    first += taken(times - begins[5]) - taken(times - begins[3])
    assert np.allclose(solution(times)[:, 0], first, rtol=0.0, atol=10.0 * rtol)


def both_inductances(ground: str, end: float = 1.9) -> ds.Model:
    """A source with 0.1 H, four ideal diodes, and a load of 1 H and 1 Ohm, between which there is nothing."""
    m = ds.Model("bridge", interval=(0.0, end))
    i, s = m.variable("i", start=0.0, fixed=True), m.variable("s", start=0.0, fixed=True)
    a, b, p, n = m.variables("a b p n", start=[0.0] * 4)
    currents = four_diodes(m, a, b, p, n)
    m.equations(m.der(i) - (p - n - i), 0.1 * m.der(s) - (sp.sin(2 * sp.pi * m.t) - (a - b)))
    m.equations(s + currents[2] - currents[0], currents[0] + currents[1] - i)
    m.equations(n if ground == "grounded" else b, currents[2] + currents[3] - i)
    return m


def exact_bridge(end: float) -> tuple[list[float], Callable[[float], Any]]:
    """Times at which a commutation begins or ends, and the currents, by matrix exponentials."""
    # States i, s, sin, cos; in overlap both sides are short-circuited.
    overlap = np.zeros((4, 4))
    overlap[0, 0], overlap[1, 2], overlap[2, 3], overlap[3, 2] = -1.0, 10.0, OMEGA, -OMEGA
    parts: list[tuple[float, Any, Any]] = []
    t, state, sign, conducts = 0.0, np.array([0.0, 0.0, 0.0, 1.0]), 1.0, True
    while t < end:
        matrix = overlap.copy()
        if conducts:
            matrix[0, [0, 2]] = -1.0 / 1.1, sign / 1.1
            matrix[1] = sign * matrix[0]
        parts.append((t, matrix, state))

        def border(dt: float, m: Any = matrix, x: Any = state, s: float = sign, on: bool = conducts) -> float:
            x = expm(m * dt) @ x
            return float((m @ x)[0] + x[0] if on else x[0] + s * x[1])

        grid = np.linspace(1e-4, 0.6, 601)
        values = np.array([border(dt) for dt in grid])
        k = int(np.flatnonzero(values < 0.0)[0])
        length = brentq(border, grid[k - 1], grid[k], xtol=1e-15)
        t, state = t + length, expm(matrix * length) @ state
        sign, conducts = (sign if conducts else -sign), not conducts

    def at(time: float) -> Any:
        begin, matrix, x = [part for part in parts if part[0] <= time][-1]
        return (expm(matrix * (time - begin)) @ x)[:2]

    return [begin for begin, _, _ in parts[1:]], at


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("ground", ["floating", "grounded"])
def test_a_bridge_with_inductances_at_both_sides_commutates(ground: str, rtol: float) -> None:
    solution = ds.solve(both_inductances(ground), rtol=rtol)
    assert solution.success, solution.message
    exact, currents = exact_bridge(1.9)
    times = np.linspace(0.01, 1.89, 60)
    expected = np.array([currents(time) for time in times])
    assert np.allclose(solution(times)[:, :2], expected, rtol=0.0, atol=10.0 * rtol)
    # While all diodes conduct their currents are not determined, and the choice of them changes at s = 0.
    begins = np.array(exact)
    within = [
        brentq(lambda t: currents(t)[1], begin, min(end, 1.9), xtol=1e-15)
        for begin, end in zip(begins[::2], begins[1::2], strict=True)
    ]
    every = np.sort([*(time for time in exact if time < 1.9), *within])
    assert same_times(times_of(solution), every, 10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_bridge_without_a_path_between_its_sides_needs_no_conductance(rtol: float) -> None:
    """Where all diodes block, the side of the capacitor has no potential of its own, but that of an end."""
    m = ds.Model("charger", interval=(0.0, 1.9))
    v = m.variable("v", start=0.0, fixed=True)
    a, b, p, n, source = m.variables("a b p n source", start=[0.0] * 5)
    currents = four_diodes(m, a, b, p, n)
    m.equations(m.der(v) + v - currents[0] - currents[1], p - n - v, a - b - sp.sin(2 * sp.pi * m.t), b)
    m.equations(source + currents[2] - currents[0], sum(currents[2:]) - sum(currents[:2]))
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    blocks = (np.pi - np.arctan(OMEGA)) / OMEGA
    top = np.sin(OMEGA * blocks)
    again = brentq(lambda t: top * np.exp(blocks - t) + np.sin(OMEGA * t), 0.5, 0.75, xtol=1e-15)
    halves = 0.5 * np.arange(4)
    # Where a = b, the end that has the potential may change.
    exact = np.sort([*(blocks + halves), *(again + halves[:3]), *halves[1:]])
    assert same_times(times_of(solution), exact, 10.0 * rtol)
    times = np.linspace(0.01, 1.89, 80)
    phase, begun = times % 0.5, times > blocks
    falls = top * np.exp(np.where(phase > blocks, 0.0, -0.5) - phase + blocks)
    charged = (phase < again - 0.5) & begun | (phase > blocks)
    expected = np.where(charged, falls, np.sin(OMEGA * phase))
    assert np.allclose(solution(times)[:, 0], expected, rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_four_diodes_of_a_bridge_change_at_an_instant(rtol: float) -> None:
    m = ds.Model("floating", interval=(0.0, 1.9))
    i = m.variable("i", start=0.0, fixed=True)
    a, b, p, n, source = m.variables("a b p n source", start=[0.0] * 5)
    currents = four_diodes(m, a, b, p, n)
    m.equations(m.der(i) - (p - n - i), a - sp.sin(2 * sp.pi * m.t), b, source + currents[2] - currents[0])
    m.equations(currents[0] + currents[1] - i, currents[2] + currents[3] - i)
    gain, exact = OMEGA / (1.0 + OMEGA**2), 0.0
    for t in (0.5, 0.5, 0.5, 0.4):
        exact = gain * (np.sin(OMEGA * t) / OMEGA - np.cos(OMEGA * t)) + (exact + gain) * np.exp(-t)
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    assert same_times(times_of(solution), [0.5, 1.0, 1.5], 10.0 * rtol)
    assert solution["i"][-1] == pytest.approx(exact, abs=10.0 * rtol)


def test_modes_are_found_by_pivots_and_not_by_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[float]()

    def start(self: modes.Modes, t: float, *args: Any) -> Any:
        tried.append(t)
        return plain(self, t, *args)

    plain = modes.Modes._start
    monkeypatch.setattr(modes.Modes, "_start", start)
    solution = ds.solve(both_inductances("floating"), rtol=1e-6)
    assert solution.success and max(map(tried.count, set(tried))) <= 3


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_twenty_diodes_in_series_change_at_an_instant(rtol: float) -> None:
    """Of a million modes three are met: all conduct, or one blocks all the voltage and the others rest."""
    m, count, omega = ds.Model("series", interval=(0.0, 1.0)), 20, 2.0 * OMEGA
    i = m.variable("i", start=0.0, fixed=True)
    voltages = m.variables(" ".join(f"v{k}" for k in range(count)))
    m.equation(m.der(i) + i + sum(voltages) - sp.sin(4 * sp.pi * m.t))
    for voltage in voltages:
        m.equation(sp.Min(i, -voltage))

    def current(t: float) -> float:
        return float(np.sin(omega * t) - omega * np.cos(omega * t) + omega * np.exp(-t)) / (1.0 + omega**2)

    blocks = brentq(current, 0.3, 0.49, xtol=1e-15)
    solution = ds.solve(m, rtol=rtol)
    assert solution.success and "3 modes" in solution.message
    assert same_times(times_of(solution), [blocks, 0.5, 0.5 + blocks], 10.0 * rtol)
    assert solution(0.3)[0] == pytest.approx(current(0.3), abs=10.0 * rtol)
    assert sum(solution(0.45)[1:]) == pytest.approx(np.sin(0.45 * omega), abs=10.0 * rtol)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_step_through_all_modes_ends_in_the_consistent_one(count: int) -> None:
    """Of n diodes in one loop with sources, each has no current where it has no voltage: a random problem."""
    rng = np.random.default_rng(count)
    root = rng.standard_normal((count, count))
    matrix, wanted = root @ root.T + np.eye(count), rng.standard_normal(count)
    current, voltage = np.maximum(wanted, 0.0), np.maximum(-wanted, 0.0)
    m = ds.Model("lcp", interval=(0.0, 1.0))
    i = [m.variable(f"i{k}") for k in range(count)]
    for k in range(count):
        row = sum(float(matrix[k, j]) * i[j] for j in range(count)) + float(voltage[k] - matrix[k] @ current)
        m.equation(sp.Min(i[k], row))
    found = choices_of(m, True).choices
    behind = Pivoting(m, found, []).behind({}, 0.0, 1e-6, np.ones(len(found)), np.ones(len(found)))
    graph = m.graph.copy()
    values = dict(zip(range(count), current.tolist(), strict=True))
    signs = graph.numeric([each.border(graph, {}) for each in found], lambda leaf: values[leaf.index])
    assert behind is not None and (behind > 0.5).tolist() == (signs > 0.0).tolist()


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("leak", [0.5, 10.0], ids=["at once", "later"])
def test_a_diode_that_lets_an_impulse_pass_blocks(leak: float, rtol: float) -> None:
    """A source of 2 - 5 (t - 1) comes to a capacitor at t = 1: the diode blocks where -5 + leak v < 0."""
    m = ds.Model("switched", interval=(0.0, 3.0))
    v, i = m.variable("v", start=0.0, fixed=True), m.variable("i", start=0.0)
    source = sp.Piecewise((0, m.t < 1), (2 - 5 * (m.t - 1), True))
    m.equations(m.der(v) + leak * v - i, sp.Min(i, v - source))
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    assert "'v' jumps from 0 to 2" in solution.message and "impulse 2 of 'i'" in solution.message
    blocks = 1.0 if leak < 1.0 else 1.3
    left = 2.0 - 5.0 * (blocks - 1.0)
    assert same_times(times_of(solution), np.unique([1.0, blocks]), 10.0 * rtol)
    assert np.allclose(
        solution([1.5, 3.0])[:, 0], left * np.exp(leak * (blocks - np.array([1.5, 3.0]))), atol=10.0 * rtol
    )


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", ["factor", "condition", "discrete"])
def test_a_valve_joins_two_tanks(how: str, rtol: float) -> None:
    """Tanks of 0.7 and 0.3 square metres that an ideal valve joins from t = 1 to 3: index 2, an impulse."""

    def function(t: float, u: Any, du: Any) -> list[Any]:
        a, b, flow, valve = u
        closes = valve * (a - b) + (1 - valve) * flow if how == "factor" else (a - b if valve > 0.5 else flow)
        return [0.7 * du[0] + flow - 0.1, 0.3 * du[1] - flow + 0.3 * b, closes, du[3]]

    if how == "discrete":
        m = ds.Model("tanks", interval=(0.0, 4.0))
        a, b = m.variable("a", start=2.0, fixed=True), m.variable("b", start=1.0, fixed=True)
        flow, valve = m.variable("flow"), m.discrete("valve")
        m.equations(0.7 * m.der(a) + flow - 0.1, 0.3 * m.der(b) - flow + 0.3 * b)
        m.equation(valve * (a - b) + (1 - valve) * flow)
        m.when(m.t > 1, {valve: 1})
        m.when(m.t > 3, {valve: 0})
        solution = ds.solve(m, rtol=rtol)
    else:
        start = {"a": 2.0, "b": 1.0, "flow": 0.0, "valve": 0.0}
        events = ["t > 1; valve = 1", "t > 3; valve = 0"]
        solution = ds.solve(function, u0=start, t_end=4.0, rtol=rtol, events=events)
    assert solution.success, solution.message
    joined = 0.7 * (2.0 + 0.1 / 0.7) + 0.3 * np.exp(-1.0)
    level = 1.0 / 3.0 + (joined - 1.0 / 3.0) * np.exp(-0.6)
    end = [solution[name][-1] for name in "ab"]
    assert np.allclose(end, [level + 0.1 / 0.7, level * np.exp(-1.0)], rtol=0.0, atol=10.0 * rtol)
    assert "impulse" in solution.message and "of 'flow'" in solution.message
    assert np.allclose([record.t for record in solution.events], [[1.0], [3.0]], rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("conductance", [1e-9, 1e-12])
def test_a_coil_whose_diode_blocks_beside_a_small_conductance(conductance: float, rtol: float) -> None:
    """Its current, 1e-12 of the largest, is the voltage at the diode: rounding at the border is none."""
    m = ds.Model("half-wave", interval=(0.0, 1.9))
    i, v, through = m.variable("i", start=0.0, fixed=True), *m.variables("v through", start=[0.0, 0.0])
    m.equations(m.der(i) + i + v - sp.sin(2 * sp.pi * m.t), i - through - conductance * v)
    m.equation(sp.Min(through, -v))

    def current(t: float) -> float:
        return float(np.sin(OMEGA * t) - OMEGA * np.cos(OMEGA * t) + OMEGA * np.exp(-t)) / (1.0 + OMEGA**2)

    blocks = brentq(current, 0.5, 0.999, xtol=1e-15)
    solution = ds.solve(m, rtol=rtol, time_limit=60.0)
    assert solution.success, solution.message
    assert same_times(times_of(solution), [blocks, 1.0, 1.0 + blocks], 10.0 * rtol + 10.0 * conductance)
    assert solution(1.5)[0] == pytest.approx(current(0.5), abs=10.0 * rtol + 10.0 * conductance)
    assert solution(0.9)[1] == pytest.approx(np.sin(0.9 * OMEGA), abs=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("way", ["series", "diode"])
def test_a_switch_that_opens_puts_two_coils_in_series_with_the_flux_of_both(way: str, rtol: float) -> None:
    """1 V charges 1 H and 1 Ohm up to t = 1; from then on 2 H and 1 Ohm too, by a diode or without."""
    m = ds.Model("coils", interval=(0.0, 2.0))
    a, b = m.variable("a", start=0.0, fixed=True), m.variable("b", start=0.0, fixed=True)
    x, y, switch = m.variables("x y switch", start=[0.0] * 3)
    m.equations(m.der(a) - (1 - a - x), 2 * m.der(b) - (y - b), a - b - switch)
    m.equations(sp.Piecewise((x, m.t < 1), (switch, True)), sp.Min(b, y - x) if way == "diode" else y - x)
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    before = 1.0 - np.exp(-1.0)
    behind = before / 3.0  # the flux of 1 H alone is that of 3 H
    end = 0.5 + (behind - 0.5) * np.exp(-2.0 / 3.0)
    assert np.allclose([solution[name][-1] for name in "ab"], end, rtol=0.0, atol=10.0 * rtol)
    assert solution["x"][-1] == pytest.approx(end + 2.0 * (1.0 - 2.0 * end) / 3.0, abs=10.0 * rtol)
    assert f"impulse {2.0 * behind:.6g} of 'x'" in solution.message


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("first", [3.0, 0.0], ids=["backward", "forward"])
def test_a_diode_beside_a_node_between_coils_lets_voltage_impulses_of_one_sign_be(
    first: float, rtol: float
) -> None:
    """A switch opens between 1 H, at 3 A or none, and 2 H: a diode takes what the second does not."""
    m = ds.Model("node", interval=(0.0, 2.0))
    a, b = m.variable("a", start=first, fixed=True), m.variable("b", start=3.0 - first, fixed=True)
    x, through, switch = m.variables("x through switch", start=[0.0, 0.0, 2.0 * first - 3.0])
    m.equations(m.der(a) + x, 2 * m.der(b) - x, a - b - through - switch, sp.Min(through, -x))
    m.equation(sp.Piecewise((x, m.t < 1), (switch, True)))
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    end = [3.0, 0.0, 3.0] if first else [2.0, 2.0, 0.0]
    found = [solution[name][-1] for name in ("a", "b", "through")]
    assert np.allclose(found, end, rtol=0.0, atol=10.0 * rtol)
    assert ("impulse -2 of 'x'" in solution.message) is not bool(first)
    assert ("impulse" in solution.message) is not bool(first)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_coil_that_is_opened_drives_its_current_through_a_diode_into_a_source(rtol: float) -> None:
    """From 1 - 1/e on against 3 V - 1 V: the current is 0 at t = 1 + log((3 - 1/e) / 2)."""
    m = ds.Model("released", interval=(0.0, 2.0))
    a, x, through, switch = m.variable("a", start=0.0, fixed=True), *m.variables("x through switch")
    m.equations(m.der(a) - (1 - a - x), a - through - switch, sp.Min(through, 3 - x))
    m.equation(sp.Piecewise((x, m.t < 1), (switch, True)))
    solution = ds.solve(m, rtol=rtol)
    assert solution.success and "impulse" not in solution.message
    ends = 1.0 + np.log((3.0 - np.exp(-1.0)) / 2.0)
    assert same_times(times_of(solution), [1.0, ends], 10.0 * rtol)
    assert solution(1.1)[0] == pytest.approx((3.0 - np.exp(-1.0)) * np.exp(-0.1) - 2.0, abs=10.0 * rtol)
    assert solution["a"][-1] == pytest.approx(0.0, abs=10.0 * rtol)
