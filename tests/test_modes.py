"""Models whose structure changes, solved through their modes, beside exact solutions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy as sp
from launcher import Launcher
from pySDC.core.hooks import Hooks
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

import dae_sdc as ds
from dae_sdc.control import borders
from dae_sdc.errors import InputError, SolveError
from dae_sdc.model.modes import choices_of
from dae_sdc.modelica.reader import read_modelica_text
from dae_sdc.run import arcs, modes

TOLERANCES = (1e-4, 1e-6, 1e-9)
OMEGA = 2.0 * np.pi


def diode(m: ds.Model, how: str, current: Any, voltage: Any, name: str) -> list[Any]:
    """An ideal diode: either its current is 0, or its voltage, and neither is of the wrong sign."""
    if how == "complementarity":
        return [sp.Min(current, -voltage)]
    s = m.variable(name, start=0.1)
    on_voltage, off_current = sp.Piecewise((s, s < 0), (0, True)), sp.Piecewise((0, s < 0), (s, True))
    return [voltage - on_voltage, current - off_current]


def times_of(solution: ds.Solution) -> Any:
    return np.unique(np.concatenate([np.zeros(0), *(record.t for record in solution.switches)]))


def test_choices_of_what_nothing_else_depends_on_change_no_structure() -> None:
    m = ds.Model("shown")
    x, y, side, twice = m.variables("x y side twice", start=[1.0, 0.0, None, None])
    m.equations(m.der(x) - y, m.der(y) + x, side - sp.Piecewise((x, y < 0), (y, True)), twice - 2 * side)
    assert choices_of(m).choices == []
    m.equations(m.variable("z") - side * x)
    assert choices_of(m).choices == []
    m.equations(m.der(m.variable("w", 0.0)) + side)
    assert len(choices_of(m).choices) == 1


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", ["complementarity", "parameter"])
def test_a_diode_feeds_a_coil_and_blocks(how: str, rtol: float) -> None:
    """L i' + i = sin t until i = 0, and i = 0, an equation of index 2, until the next period."""
    m = ds.Model("half-wave", interval=(0.0, 2.9))
    i, v = m.variables("i v", start=[0.0, 0.0])
    m.equations(m.der(i) - (sp.sin(2 * sp.pi * m.t) - i - v), *diode(m, how, i, v, "s"))

    def current(t: Any) -> Any:
        a = 1.0 / (1.0 + OMEGA**2)
        return a * (np.sin(OMEGA * t) - OMEGA * np.cos(OMEGA * t) + OMEGA * np.exp(-t))

    blocks = brentq(current, 0.5, 0.999, xtol=1e-15)
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    exact = [blocks, 1.0, 1.0 + blocks, 2.0, 2.0 + blocks]
    assert np.allclose(times_of(solution), exact, rtol=0.0, atol=10.0 * rtol)
    phase = np.linspace(0.0, 2.89, 100) % 1.0
    expected = np.where(phase < blocks, current(phase), 0.0)
    assert np.allclose(solution(np.linspace(0.0, 2.89, 100))[:, 0], expected, rtol=0.0, atol=10.0 * rtol)
    assert solution(0.9)[1] == pytest.approx(np.sin(OMEGA * 0.9), abs=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", ["complementarity", "parameter"])
def test_a_diode_charges_a_capacitor(how: str, rtol: float) -> None:
    """While it conducts v is the source, index 2; it blocks where i = v' + v = 0, and v decays."""
    m = ds.Model("peak", interval=(0.0, 2.6))
    v, i = m.variable("v", start=0.0), m.variable("i", start=OMEGA)
    source = sp.sin(2 * sp.pi * m.t)
    m.equations(m.der(v) - (i - v), *diode(m, how, i, source - v, "s"))
    blocks = (np.pi - np.arctan(OMEGA)) / OMEGA
    top = np.sin(OMEGA * blocks)
    again = brentq(lambda t: top * np.exp(blocks - t) - np.sin(OMEGA * t), 1.0, 1.25, xtol=1e-15)
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    exact = [blocks, again, 1.0 + blocks, 1.0 + again, 2.0 + blocks]
    assert np.allclose(times_of(solution), exact, rtol=0.0, atol=10.0 * rtol)
    assert solution.u[-1, 0] == pytest.approx(top * np.exp(2.0 + blocks - 2.6), abs=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_bridge_of_four_ideal_diodes_rectifies(rtol: float) -> None:
    m = ds.Model("bridge", interval=(0.0, 1.9))
    i = m.variable("i", start=0.0, fixed=True)
    a, b, p, source = m.variables("a b p source", start=[0.0] * 4)
    currents = m.variables("i1 i2 i3 i4", start=[0.0] * 4)
    voltages = [a - p, b - p, -a, -b]
    m.equations(m.der(i) - (p - i), a - b - sp.sin(2 * sp.pi * m.t))
    for number, (current, voltage) in enumerate(zip(currents, voltages, strict=True)):
        m.equations(*diode(m, "complementarity", current, voltage, f"s{number}"))
    m.equations(source + currents[2] - currents[0], -source + currents[3] - currents[1])
    m.equations(currents[0] + currents[1] - i)

    def of_half(i0: float, t: float) -> float:
        gain = OMEGA / (1.0 + OMEGA**2)
        return float(gain * (np.sin(OMEGA * t) / OMEGA - np.cos(OMEGA * t)) + (i0 + gain) * np.exp(-t))

    exact = 0.0
    for part in (0.5, 0.5, 0.5, 0.4):
        exact = of_half(exact, part)
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    assert solution["i"][-1] == pytest.approx(exact, abs=10.0 * rtol)
    assert np.allclose(times_of(solution), [0.5, 1.0, 1.5], rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_bridge_of_four_ideal_diodes_charges_a_capacitor(rtol: float) -> None:
    """Four modes by turns: two diodes conduct, of index 2, or one that holds an end of the source at 0."""
    m = ds.Model("charger", interval=(0.0, 1.9))
    v = m.variable("v", start=0.0)
    a, b, source = m.variables("a b source", start=[0.0, 0.0, OMEGA])
    currents = m.variables("i1 i2 i3 i4", start=[OMEGA, 0.0, 0.0, OMEGA])
    m.equations(a - b - sp.sin(2 * sp.pi * m.t), m.der(v) + v - currents[0] - currents[1])
    for current, voltage in zip(currents, [a - v, b - v, -a, -b], strict=True):
        m.equation(sp.Min(current, -voltage))
    m.equations(source + currents[2] - currents[0] - a / 100, -source + currents[3] - currents[1] - b / 100)
    blocks = (np.pi - np.arctan(OMEGA)) / OMEGA
    top = np.sin(OMEGA * blocks)
    again = brentq(lambda t: top * np.exp(blocks - t) + np.sin(OMEGA * t), 0.5, 0.75, xtol=1e-15)
    halves = 0.5 * np.arange(4)
    exact = np.sort([*(blocks + halves), *(again + halves[:3]), *halves[1:]])
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    assert np.allclose(times_of(solution), exact, rtol=0.0, atol=10.0 * rtol)
    times = np.linspace(0.01, 1.89, 80)
    phase = times % 0.5
    begun = times > blocks
    falls = top * np.exp(np.where(phase > blocks, 0.0, -0.5) - phase + blocks)
    charged = (phase < again - 0.5) & begun | (phase > blocks)
    expected = np.where(charged, falls, np.sin(OMEGA * phase))
    assert np.allclose(solution(times)[:, 0], expected, rtol=0.0, atol=10.0 * rtol)
    conducting = solution(0.2)[[solution.names.index(f"i{k}") for k in range(1, 5)]]
    current = OMEGA * np.cos(0.2 * OMEGA) + np.sin(0.2 * OMEGA)
    leak = np.sin(0.2 * OMEGA) / 100.0
    assert np.allclose(conducting, [current, 0.0, 0.0, current + leak], rtol=0.0, atol=10.0 * rtol * OMEGA)


class Converter:
    """A buck or boost converter with an ideal switch and an ideal diode, by matrix exponentials."""

    def __init__(self, kind: str, load: float) -> None:
        self.kind, self.load, self.supply, self.duty = kind, load, 10.0, 0.4
        self.coil, self.capacitor = 1.0, 2.0 if kind == "buck" else 0.25

    def model(self, periods: int) -> ds.Model:
        m = ds.Model(self.kind, interval=(0.0, float(periods)))
        i, v = (m.variable(name, start=0.0, fixed=True) for name in "iv")
        x, switch, through = m.variables("x switch through", start=[0.0, 0.0, 0.0])
        on = m.t - sp.floor(m.t) < sp.Rational(2, 5)
        if self.kind == "buck":  # x between switch, diode to the ground and coil
            m.equations(self.coil * m.der(i) - (x - v), self.capacitor * m.der(v) - (i - v / self.load))
            m.equations(switch + through - i, sp.Piecewise((x - self.supply, on), (switch, True)))
            m.equations(sp.Min(through, x))
        else:  # x between coil, switch to the ground and diode to the capacitor
            m.equations(self.coil * m.der(i) - (self.supply - x))
            m.equations(self.capacitor * m.der(v) - (through - v / self.load))
            m.equations(switch + through - i, sp.Piecewise((x, on), (switch, True)), sp.Min(through, v - x))
        return m

    def flow(self, state: Any, mode: str, t: float) -> Any:
        """Current and voltage after a time with the switch "on" or the diode, or "none", that conducts."""
        to_load = 0.0 if mode == "none" or (mode == "on" and self.kind == "boost") else 1.0
        driven = self.supply if (self.kind == "boost" or mode == "on") else 0.0
        a = np.zeros((3, 3))
        if mode != "none":
            a[0] = [0.0, -to_load / self.coil, driven / self.coil]
        a[1] = [to_load / self.capacitor, -1.0 / (self.load * self.capacitor), 0.0]
        return (expm(a * t) @ [*state, 1.0])[:2]

    def exact(self, periods: int) -> tuple[list[float], Any]:
        state, stops = np.zeros(2), []
        for k in range(periods):
            state = self.flow(state, "on", self.duty)
            rest = 1.0 - self.duty
            grid = np.linspace(0.0, rest, 200)
            below = [t for t in grid[1:] if self.flow(state, "diode", t)[0] < 0.0]
            if below:
                zero = brentq(
                    lambda t, s=state: self.flow(s, "diode", t)[0], below[0] - grid[1], below[0], xtol=1e-15
                )
                stops.append(k + self.duty + zero)
                state, rest = self.flow(state, "diode", zero), rest - zero
                state[0] = 0.0
            state = self.flow(state, "none" if below else "diode", rest)
        return stops, state


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("load", [1.0, 30.0], ids=["continuous", "discontinuous"])
@pytest.mark.parametrize("kind", ["buck", "boost"])
def test_converters_conduct_continuously_or_not(kind: str, load: float, rtol: float) -> None:
    converter = Converter(kind, load)
    stops, state = converter.exact(6)
    assert bool(stops) == (load > 1.0)
    solution = ds.solve(converter.model(6), rtol=rtol)
    assert solution.success, solution.message
    found = times_of(solution)
    assert np.allclose(
        found[(found % 1.0 > 0.401) & (found % 1.0 < 0.999)], stops, rtol=0.0, atol=10.0 * rtol
    )
    size = 1.0 + np.abs(state)
    assert np.allclose([solution["i"][-1], solution["v"][-1]], state, rtol=0.0, atol=10.0 * rtol * size)


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times at which arcs begin that cost an analysis."""
    times = list[float]()

    def in_arcs(request: Any, equations: Any, start: Any, measured: bool) -> ds.Solution:
        times.append(start.t0)
        return arcs.in_arcs(request, equations, start, measured)

    monkeypatch.setattr(modes, "arcs", SimpleNamespace(**{**vars(arcs), "in_arcs": in_arcs}))
    return times


@pytest.mark.parametrize("kind", ["buck", "boost"])
def test_a_mode_that_was_entered_before_costs_no_analysis(kind: str, analysed: list[float]) -> None:
    converter = Converter(kind, 30.0)
    solution = ds.solve(converter.model(30), rtol=1e-9)
    stops, state = converter.exact(30)
    assert solution.success, solution.message
    assert solution.stats["arcs"] > 80 and len(analysed) < 20
    assert solution.stats["steps"] < 3.5 * solution.stats["arcs"]  # no small first steps in each of them
    found = times_of(solution)
    # Steps end at the zeros themselves, not at those of polynomials.
    assert np.allclose(found[(found % 1.0 > 0.401) & (found % 1.0 < 0.999)], stops, rtol=0.0, atol=1e-10)
    assert np.allclose([solution["i"][-1], solution["v"][-1]], state, rtol=0.0, atol=1e-8)
    # Of the current before the last zero, and between two steps.
    last = int(stops[-1])
    assert solution(last + 0.2)[0] == pytest.approx(
        converter.flow(solution(float(last))[:2], "on", 0.2)[0], abs=1e-7
    )


@pytest.mark.parametrize("level", [0.5, 50.0], ids=["in each period", "never"])
def test_events_are_located_in_modes_that_were_entered_before(level: float, analysed: list[float]) -> None:
    """The current rises above a level once a period, while the switch is on; the other arcs have no event."""
    converter, periods = Converter("buck", 30.0), 12
    m = converter.model(periods)
    number = m.discrete("number")
    m.when(f"i > {level}", {number: number + 1})
    solution = ds.solve(m, rtol=1e-8)
    assert solution.success, solution.message
    state, expected = np.zeros(2), []
    for k in range(periods):
        on = converter.flow(state, "on", 0.4)
        if state[0] < level < on[0]:
            rise = brentq(lambda t, s=state: converter.flow(s, "on", t)[0] - level, 0.0, 0.4, xtol=1e-15)
            expected.append(k + rise)
        state = converter.exact(k + 1)[1]
    assert (len(expected) > periods // 2) == (level < 1.0)
    (record,) = solution.events
    assert np.allclose(record.t, expected, rtol=0.0, atol=1e-7)
    assert solution["number"][-1] == len(expected)
    assert np.allclose([solution["i"][-1], solution["v"][-1]], state, rtol=0.0, atol=1e-6)
    assert len(analysed) < (2 * periods if level < 1.0 else 10)


def test_the_first_zero_of_a_polynomial_is_told_or_none_or_doubt() -> None:
    points, rng = (0.0, 0.2, 0.5, 0.8, 1.0), np.random.default_rng(4)
    to_coefficients = borders._bernstein(points)
    for number in range(300):
        # Two real zeros and a complex pair; positive at 0, where half of the polynomials have a third zero.
        zeros = np.append(rng.choice([-1.0, 1.0], 2) * rng.uniform(0.05, 2.0, 2), 0.0)
        place, height, starts_at_zero = rng.uniform(0.0, 1.0), rng.uniform(0.05, 1.0), number % 2

        def at(x: Any, z: Any = zeros, a: float = place, b: float = height, k: int = starts_at_zero) -> Any:
            return (1.0 - x / z[0]) * (1.0 - x / z[1]) * (x if k else (x - a) ** 2 + b**2)

        within = zeros[(zeros > 0.0) & (zeros <= 1.0)]
        found = borders.first_zero((to_coefficients @ at(np.array(points))).tolist())
        assert found == pytest.approx(within.min(initial=np.inf), abs=1e-9)
    for doubtful in ([-1.0, 1.0, 1.0, 1.0], [1.0, -2.0, 4.0], [0.0, 0.0, 0.0], [0.0, -1.0, -1.0]):
        assert borders.first_zero(doubtful) == -np.inf  # negative at 0, touching at 1 / 3, nothing, falling


def test_a_mode_that_is_entered_by_impulses_again_costs_no_analysis(analysed: list[float]) -> None:
    """A drive and a braked inertia that are clutched in the second half of each period."""
    m = ds.Model("clutch", interval=(0.0, 20.0))
    a, b = m.variable("a", start=3.0, fixed=True), m.variable("b", start=0.0, fixed=True)
    torque = m.variable("torque")
    on = m.t - sp.floor(m.t) > sp.Rational(1, 2)
    m.equations(m.der(a) + torque - 1, 2 * m.der(b) - torque + 2 * b)
    m.equations(sp.Piecewise((a - b, on), (torque, True)))
    solution = ds.solve(m, rtol=1e-9)
    assert solution.success, solution.message
    assert solution.stats["arcs"] == 40 and len(analysed) < 6
    drive = braked = 3.0
    befores = []
    for number in range(20):
        befores.append([drive + 0.5, (braked if number else 0.0) * np.exp(-0.5)])
        momentum = befores[-1][0] + 2.0 * befores[-1][1]
        drive = braked = 0.5 + (momentum / 3.0 - 0.5) * np.exp(-1.0 / 3.0)
    (record,) = [record for record in solution.switches if record.name == "impulse of 'torque'"]
    assert np.allclose(record.t, np.arange(20) + 0.5, rtol=0.0, atol=1e-12)
    assert np.allclose(record.u[:, :2], befores, rtol=0.0, atol=1e-8)
    assert np.allclose([solution["a"][-1], solution["b"][-1]], drive, rtol=0.0, atol=1e-8)


def test_linear_equations_tell_how_unknowns_follow_from_those_that_are_held() -> None:
    """A coil between a source of alternating voltage and an open switch, of index 2: i = 0 = i'."""
    m = ds.Model("open", interval=(0.0, 1.0))
    i, u, x, y = m.variables("i u x y", start=[0.0] * 4)
    m.equations(2 * m.der(i) - (x - y), m.der(u) - 3 * x - i, x - u - sp.sin(m.t), i - sp.Rational(1, 4))
    start = modes.linear_start(m, ["i", "u"], 0.0)
    assert start is not None
    values = start(0.7, {"i": 0.25, "u": 5.0})
    x_then = 5.0 + np.sin(0.7)
    assert [values[name] for name in "iuxy"] == pytest.approx([0.25, 5.0, x_then, x_then], rel=1e-14)
    assert start(0.7, {"i": 9.0, "u": 5.0})["i"] == pytest.approx(0.25, rel=1e-14)


@pytest.mark.parametrize("term", ["x**2", "t*x", "abs(x)", "nothing"])
def test_other_equations_do_not_tell_it(term: str) -> None:
    m = ds.Model("other", interval=(1.0, 2.0))
    u, x = m.variables("u x", start=[1.0, 1.0])
    terms = {"x**2": x + x**2, "t*x": x * (1 + m.t), "abs(x)": x + sp.Abs(x) / 2, "nothing": m.der(x)}
    m.equations(m.der(u) - x, terms[term] - u)
    # Where x has a derivative it is held, or is not told.
    assert modes.linear_start(m, ["u"], 1.0) is None


def string(how: str, slack: float) -> ds.Model:
    """A pendulum whose string pulls, of index 3, or is slack, up to a distance by which it is longer."""
    g = 9.81
    m = ds.Model("string", interval=(0.0, 1.7))
    x, y, force = m.variables("x y force", start=[0.0, -1.0, 40.0])
    taut = m.discrete("taut", 1.0)
    m.start(x, 0.0, fixed=True)
    m.start(m.der(x), 6.0, fixed=True)
    m.equations(m.der(x, 2) + force * x, m.der(y, 2) + force * y + g)
    m.equations(taut * (x**2 + y**2 - 1) + (1 - taut) * force)
    vx, vy = m.der(x), m.der(y)
    along = x * vx + y * vy
    m.when(sp.And(force < 0, taut > 0.5), {taut: 0})
    lost = {vx: vx - along * x, vy: vy - along * y} if how == "event" else {}
    m.when(sp.And(x**2 + y**2 > 1 + slack, taut < 0.5), {taut: 1, **lost})
    return m


def test_a_string_that_is_longer_than_its_pendulum_catches_within_the_tolerance_or_is_refused() -> None:
    """It is moved onto its circle by 5e-7: what it loses of its energy there differs by as much."""
    # The speeds, up to 6, carry their errors on.
    exact = ds.solve(string("impulse", 1e-10), rtol=1e-8)
    longer = ds.solve(string("impulse", 1e-6), rtol=1e-6)
    assert longer.success, longer.message
    assert np.allclose(longer.u[-1, :2], exact.u[-1, :2], rtol=0.0, atol=2e-5)
    refused = ds.solve(string("impulse", 1e-6), rtol=1e-9)
    assert not refused.success and "no mode goes on from t=1.27602" in refused.message


@pytest.mark.parametrize("rtol", (*TOLERANCES, 1e-5))
@pytest.mark.parametrize("how", ["event", "impulse"])
def test_a_string_goes_slack_and_catches(how: str, rtol: float) -> None:
    """Index 3 while it is taut; a flight; the speed along the string is lost where it catches."""
    g, m = 9.81, string(how, 1e-10)

    def swing(t: float, z: Any) -> list[float]:
        return [z[1], -g * np.sin(z[0])]

    def pull(t: float, z: Any) -> float:
        return float(z[1] ** 2 + g * np.cos(z[0]))

    pull.terminal = True  # type: ignore[attr-defined]
    settings: dict[str, Any] = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13}
    up = solve_ivp(swing, (0.0, 1.7), [0.0, 6.0], events=pull, **settings)
    slack, (angle, rate) = up.t[-1], up.y[:, -1]
    place, speed = np.array([np.sin(angle), -np.cos(angle)]), rate * np.array([np.cos(angle), np.sin(angle)])

    def flight(s: float) -> Any:
        return place + speed * s - np.array([0.0, 0.5 * g * s * s])

    fall = brentq(lambda s: float(flight(s) @ flight(s)) - 1.0, 0.05, 1.5, xtol=1e-15)
    at = flight(fall)
    velocity = speed - np.array([0.0, g * fall])
    angle, rate = np.arctan2(at[0], -at[1]), at[0] * velocity[1] - at[1] * velocity[0]
    down = solve_ivp(swing, (slack + fall, 1.7), [angle, rate], **settings)
    assert pull(0.0, down.y[:, -1]) > 0.0
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    assert [len(record) for record in solution.events] == [1, 1]
    times = [record.t[0] for record in solution.events]
    assert np.allclose(times, [slack, slack + fall], rtol=0.0, atol=10.0 * rtol)
    end = [np.sin(down.y[0, -1]), -np.cos(down.y[0, -1])]
    # The speeds, up to 6, carry their errors on.
    assert np.allclose([solution["x"][-1], solution["y"][-1]], end, rtol=0.0, atol=20.0 * rtol)
    assert np.allclose(solution(slack + 0.3)[:2], flight(0.3), rtol=0.0, atol=10.0 * rtol)
    impulse = re.search(r"impulse (\S+) of 'force'", solution.message)
    assert (impulse is None) == (how == "event")
    assert impulse is None or float(impulse[1]) == pytest.approx(at @ velocity, rel=1e-4)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_an_equation_of_another_index_holds_from_a_time_on(rtol: float) -> None:
    """If x3 < 5 then x9 = -5, which hides a constraint, otherwise x8' = 5."""
    m = ds.Model("hybrid", interval=(0.0, 8.0))
    x3, x8, x9 = m.variables("x3 x8 x9", start=[0.0, 1.0, -5.0])
    m.start(x3, 0.0, fixed=True)
    m.equations(m.der(x3) - 1, x9 - x8 + 6, sp.Piecewise((x9 + 5, x3 < 5), (m.der(x8) - 5, True)))
    solution = ds.solve(m, rtol=rtol)
    assert solution.success and "2 modes" in solution.message
    assert np.allclose(times_of(solution), [5.0], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(solution.u[-1], [8.0, 16.0, 10.0], rtol=10.0 * rtol)
    assert np.allclose(solution([2.0, 6.0])[:, 1], [1.0, 6.0], rtol=10.0 * rtol)


WRITTEN = {
    "half-wave": lambda t, u, du: [du[0] - (np.sin(OMEGA * t) - u[0] - u[1]), np.minimum(u[0], -u[1])],
    "by a parameter": lambda t, u, du: [
        *(du[0] - (np.sin(OMEGA * t) - u[0] - u[1]), u[1] - np.where(u[2] < 0, u[2], 0.0)),
        u[0] - np.where(u[2] < 0, 0.0, u[2]),
    ],
}


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("written", WRITTEN)
def test_a_function_that_is_read_goes_through_modes_where_it_fails_as_it_is(
    written: str, rtol: float
) -> None:
    a = 1.0 / (1.0 + OMEGA**2)
    end = a * (OMEGA * np.exp(-0.5) + OMEGA)
    solution = ds.solve(WRITTEN[written], u0=[0.0] * (2 + (written != "half-wave")), t_end=2.5, rtol=rtol)
    assert solution.success, solution.message
    assert solution.u[-1, 0] == pytest.approx(end, abs=10.0 * rtol)


# Models of ModelicaSpecification 2411 and OpenModelica 13861 and 10787, with values and the time of change.
ASKED = {
    "a state less": (
        "Real x(start=0, fixed=true); equation if time < 0.5 then der(x) = 10; else x = -5; end if;",
        {"x": {0.25: 2.5, 0.75: -5.0}},
        0.5,
    ),
    "a state more": (
        "Real a(start=1, fixed=true), b; equation der(a) = 1; "
        "if time <= 3 then b = a; else der(b) = -1; end if;",
        {"a": {2.0: 3.0, 4.0: 5.0}, "b": {2.0: 3.0, 4.0: 3.0}},
        3.0,
    ),
    "by an event": (
        "Boolean running(start=true); Real a(start=2), b(start=10, fixed=true); equation "
        "if running then a = time + 2; der(b) = -1; else b = 0; a = 0; end if; "
        "when time > 10 then running = false; end when;",
        {"a": {5.0: 7.0, 11.0: 0.0}, "b": {5.0: 5.0, 11.0: 0.0}},
        10.0,
    ),
}


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("name", ASKED)
def test_models_of_issues_whose_number_of_states_changes(name: str, rtol: float) -> None:
    text, expected, changes = ASKED[name]
    t_end = max(t for values in expected.values() for t in values)
    solution = ds.solve(read_modelica_text(f"model M {text} end M;"), t_end=t_end, rtol=rtol)
    assert solution.success, solution.message
    for unknown, values in expected.items():
        for t, value in values.items():
            at = solution(t)[solution.names.index(unknown)]
            assert at == pytest.approx(value, abs=10.0 * rtol), (unknown, t)
    events = [record.t for record in solution.events]
    found = np.unique(np.concatenate([times_of(solution), *events]))
    assert np.allclose(found, [changes], rtol=0.0, atol=10.0 * rtol)


def peak() -> ds.Model:
    m = ds.Model("peak", interval=(0.0, 2.6))
    v, i = m.variable("v", start=0.0), m.variable("i", start=OMEGA)
    m.equations(m.der(v) - (i - v), sp.Min(i, v - sp.sin(2 * sp.pi * m.t)))
    return m


def test_output_times_events_and_files_are_those_of_all_modes(tmp_path: Path) -> None:
    m, file = peak(), tmp_path / "peak.npy"
    whole = ds.solve(m, rtol=1e-8, events=["v - 0.9; falling", "v - 0.7; rising; terminal"])
    blocks = (np.pi - np.arctan(OMEGA)) / OMEGA
    assert (
        whole.t[-1] == pytest.approx(np.arcsin(0.7) / OMEGA, abs=1e-7) and "ended at event" in whole.message
    )
    run = ds.solve(m, rtol=1e-8, t_eval=[0.1, 0.6, 2.6], events="v - 0.9; falling", out=file)
    top = np.sin(OMEGA * blocks)
    fall = blocks + np.log(top / 0.9)
    assert run.t.tolist() == [0.1, 0.6, 2.6] and run.names == ("v", "i")
    assert np.allclose(run.events[0].t, [fall, fall + 1.0, fall + 2.0], rtol=0.0, atol=1e-7)
    assert run.u[:2, 0] == pytest.approx([np.sin(OMEGA * 0.1), top * np.exp(blocks - 0.6)], abs=1e-7)
    assert np.array_equal(ds.Solution.load(file).u, run.u)


def test_what_a_run_through_modes_does_not_take_is_refused() -> None:
    with pytest.raises(InputError, match="give events as texts"):
        ds.solve(peak(), rtol=1e-6, events=[lambda u, t: u[0]])
    with pytest.raises(InputError, match="give events as texts, none counted"):
        ds.solve(peak(), rtol=1e-6, events=["v - 0.5; terminal=3"])
    with pytest.raises(InputError, match="give u0 by the names"):
        ds.solve(peak(), rtol=1e-6, u0=[0.0, OMEGA])


def test_a_jump_without_a_finite_impulse_is_told() -> None:
    # A shaft is held at another angle than it has: its speed would have to be infinite.
    m = ds.Model("held", interval=(0.0, 2.0))
    angle, speed, torque = m.variables("angle speed torque", start=[0.0, 0.0, 0.0])
    m.start(angle, 0.0, fixed=True)
    m.start(speed, 0.0, fixed=True)
    m.equations(m.der(angle) - speed, m.der(speed) - torque)
    m.equation(sp.Piecewise((torque, m.t < 1), (angle - 1, True)))
    solution = ds.solve(m, rtol=1e-6)
    assert not solution.success and "'angle' would jump from 0 to 1" in solution.message
    assert solution.t[-1] == 1.0


def two_masses(way: str, first: Any, second: Any) -> tuple[Any, dict[str, Any]]:
    """Inertias or capacitors 1 and 2, one by the other from t = 1 on; the first has a loss of its own."""
    if way == "function":

        def masses(t: float, u: Any, du: Any) -> list[Any]:
            a, b, q = u
            return [du[0] + q + first * a, 2.0 * du[1] - q, np.where(t < 1.0, q, a - b)]

        return masses, {"u0": {"a": 3.0, "b": second, "q": 0.0}}
    if way == "modelica":
        text = (
            f"model Masses Real a(start=3, fixed=true), b(start={second}, fixed=true), q; "
            f"Boolean on = time >= 1; equation der(a) = -q - {first}*a; 2*der(b) = q; "
            "if on then a = b; else q = 0; end if; end Masses;"
        )
        return read_modelica_text(text), {}
    m = ds.Model("masses")
    a, b, q = (
        m.variable("a", start=3.0, fixed=True),
        m.variable("b", start=second, fixed=True),
        m.variable("q"),
    )
    m.equations(m.der(a) + q + sp.Float(first) * a, 2 * m.der(b) - q)
    m.equation(sp.Piecewise((q, m.t < 1), (a - b, True)))
    return m, {}


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("way", ["model", "function", "modelica"])
@pytest.mark.parametrize("loss", [0.0, 1.0], ids=["inertias", "capacitors"])
def test_two_clutched_inertias_keep_their_momentum_and_capacitors_their_charge(
    loss: float, way: str, rtol: float
) -> None:
    problem, start = two_masses(way, loss, 0.5)
    solution = ds.solve(problem, t_end=2.0, rtol=rtol, **start)
    assert solution.success, solution.message
    before = 3.0 * np.exp(-loss)
    behind = (before + 2.0 * 0.5) / 3.0
    end = behind * np.exp(-loss / 3.0)
    values = [solution[name][-1] for name in "abq"]
    assert np.allclose(values, [end, end, -2.0 / 3.0 * loss * end], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(
        solution(0.999999)[:2], [3.0 * np.exp(-0.999999 * loss), 0.5], rtol=0.0, atol=10.0 * rtol
    )
    impulse = re.search(r"at t=1 '(.*)' jumps from .* impulse (\S+) of 'q'", solution.message)
    assert impulse is not None and float(impulse[2]) == pytest.approx(before - behind, abs=1e-4)
    (record,) = [record for record in solution.switches if record.name == "impulse of 'q'"]
    assert record.t.tolist() == [1.0]


# A clutch with torque q and speeds a, b that is closed for 1 <= t < 3; x is the time as an unknown.
CLUTCHES: dict[str, Callable[..., Any]] = {
    "model, pieces": lambda t, x, a, b, q: sp.Piecewise((q, t < 1), (a - b, t < 3), (q, True)),
    "model, and": lambda t, x, a, b, q: sp.Piecewise((a - b, sp.And(t >= 1, t < 3)), (q, True)),
    "model, or": lambda t, x, a, b, q: sp.Piecewise((q, sp.Or(t < 1, t >= 3)), (a - b, True)),
    "model, nested": lambda t, x, a, b, q: sp.Piecewise(
        (sp.Piecewise((q, t < 1), (a - b, True)), t < 3), (q, True)
    ),
    "model, state": lambda t, x, a, b, q: sp.Piecewise((a - b, sp.And(t >= 1, x < 3)), (q, True)),
    "model, pieces of a state": lambda t, x, a, b, q: sp.Piecewise((q, x < 1), (a - b, x < 3), (q, True)),
    "function, where": lambda t, x, a, b, q: np.where(t < 1, q, np.where(t < 3, a - b, q)),
    "function, if": lambda t, x, a, b, q: a - b if t >= 1 and t < 3 else q,
    "function, chain": lambda t, x, a, b, q: a - b if 1 <= t < 3 else q,
    "function, state": lambda t, x, a, b, q: q if t < 1 or x >= 3 else a - b,
}
CLUTCHES_OF_MODELICA = {
    "elseif": "if time < 1 then q = 0; elseif time < 3 then a = b; else q = 0; end if;",
    "and": "if time >= 1 and time < 3 then a = b; else q = 0; end if;",
    "or": "0 = if time < 1 or time >= 3 then q else a - b;",
    "Boolean": "on = time >= 1 and not time >= 3; if on then a = b; else q = 0; end if;",
    "state": "if time >= 1 and x < 3 then a = b; else q = 0; end if;",
}


def clutch(notation: str) -> tuple[Any, dict[str, Any]]:
    """Inertias 1, driven by a torque of 1, and 2, with a drag of b/2."""
    way, _, how = notation.partition(", ")
    if way == "modelica":
        text = (
            "model Clutch Real a(start=3, fixed=true), b(start=0.5, fixed=true), q, x(start=0, fixed=true); "
            f"Boolean on; equation der(x) = 1; der(a) = 1 - q; 2*der(b) = q - b/2; "
            f"{CLUTCHES_OF_MODELICA[how]} {'' if how == 'Boolean' else 'on = true;'} end Clutch;"
        )
        return read_modelica_text(text), {}
    if way == "function":

        def inertias(t: float, u: Any, du: Any) -> list[Any]:
            a, b, q, x = u
            return [
                *(du[0] + q - 1.0, 2.0 * du[1] - q + b / 2.0, du[3] - 1.0),
                CLUTCHES[notation](t, x, a, b, q),
            ]

        return inertias, {"u0": {"a": 3.0, "b": 0.5, "q": 0.0, "x": 0.0}}
    m = ds.Model("clutch")
    a, b, x = (m.variable(name, start=start, fixed=True) for name, start in (("a", 3), ("b", 0.5), ("x", 0)))
    q = m.variable("q")
    m.equations(m.der(x) - 1, m.der(a) + q - 1, 2 * m.der(b) - q + b / 2, CLUTCHES[notation](m.t, x, a, b, q))
    return m, {}


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("notation", [*CLUTCHES, *(f"modelica, {how}" for how in CLUTCHES_OF_MODELICA)])
def test_a_clutch_closes_and_opens_again_however_it_is_written(notation: str, rtol: float) -> None:
    problem, start = clutch(notation)
    solution = ds.solve(problem, t_end=4.0, rtol=rtol, **start)
    assert solution.success, solution.message
    assert "2 modes of the structure were analysed" in solution.message
    alone = 0.5 * np.exp(-0.25)
    together = (4.0 + 2.0 * alone) / 3.0  # of which 3 w' = 1 - w/2 leads to 2

    def closed(t: float) -> float:
        return 2.0 + float((together - 2.0) * np.exp((1.0 - t) / 6.0))

    w, opens = closed(2.0), closed(3.0)
    expected = {
        0.5: [3.5, 0.5 * np.exp(-0.125), 0.0],
        2.0: [w, w, 2.0 / 3.0 + w / 6.0],
        4.0: [opens + 1.0, opens * np.exp(-0.25), 0.0],
    }
    for t, values in expected.items():
        found = solution(t)[[solution.names.index(name) for name in "abq"]]
        assert np.allclose(found, values, rtol=0.0, atol=10.0 * rtol), t
    impulse = re.search(r"at t=1(?:\.0*\d*)? '.*' jumps from .* impulse (\S+) of 'q'", solution.message)
    assert impulse is not None and float(impulse[1]) == pytest.approx(4.0 - together, abs=1e-4)
    assert np.allclose(times_of(solution), [1.0, 3.0], rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", ["time", "state", "sign"])
def test_a_resistance_that_is_none_for_a_while_connects_two_capacitors(how: str, rtol: float) -> None:
    """The current q leaves an equation for 1 <= t < 2, and no other unknown comes into it."""
    m = ds.Model("connected", interval=(0.0, 3.0))
    a, b, x = (m.variable(name, start=start, fixed=True) for name, start in (("a", 3), ("b", 0), ("x", 0)))
    q, t = m.variable("q", start=3.0), m.t
    resistance = {
        "time": sp.Piecewise((1, t < 1), (0, t < 2), (1, True)),
        "state": sp.Piecewise((1, x < 1), (0, x < 2), (1, True)),
        "sign": 1 - (sp.sign(x - 1) - sp.sign(x - 2)) / 2,
    }[how]
    m.equations(m.der(x) - 1, m.der(a) + q, m.der(b) - q - t, a - b - resistance * q)

    def apart(t: float) -> float:  # a' + b' = t, and d = a - b has d' = -2 d - t, or d = 0
        return float(2.75 * np.exp(-2.0 * t) - t / 2.0 + 0.25)

    def later(t: float) -> float:
        return float(0.75 * np.exp(-2.0 * (t - 2.0)) - t / 2.0 + 0.25)

    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    for t, gap in ((0.5, apart(0.5)), (1.5, 0.0), (2.5, later(2.5)), (3.0, later(3.0))):
        whole = 3.0 + t**2 / 2.0
        found = [solution(t)[solution.names.index(name)] for name in "ab"]
        assert np.allclose(found, [(whole + gap) / 2.0, (whole - gap) / 2.0], rtol=0.0, atol=10.0 * rtol), t
    impulse = re.search(r"impulse (\S+) of 'q'", solution.message)
    assert impulse is not None and float(impulse[1]) == pytest.approx(apart(1.0) / 2.0, abs=1e-4)
    assert np.allclose(times_of(solution), [1.0, 2.0], rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_tank_overflows_until_the_flow_turns(rtol: float) -> None:
    """The level rests at the border of the event that has begun the mode, which is no event again."""
    m = ds.Model("overflow", interval=(0.0, 6.0))
    h, over, full = m.variable("h", start=0.0, fixed=True), m.variable("over"), m.discrete("full")
    m.equations(m.der(h) - (sp.sin(m.t) + sp.Rational(1, 5) - over), full * (h - 1) + (1 - full) * over)
    m.when(h > 1, {full: 1})
    m.when(over < 0, {full: 0})

    def level(t: Any) -> Any:
        return 1.0 - np.cos(t) + 0.2 * t

    fills, turns = brentq(lambda t: level(t) - 1.0, 0.0, 2.0, xtol=1e-15), np.pi + np.arcsin(0.2)
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    assert "so often" not in solution.message
    assert [len(record) for record in solution.events] == [1, 1]
    assert np.allclose([record.t[0] for record in solution.events], [fills, turns], rtol=0, atol=10 * rtol)
    assert np.allclose(
        solution([1.0, 2.0, 3.0, 6.0])[:, 0],
        [level(1.0), 1.0, 1.0, 1.0 + level(6.0) - level(turns)],
        rtol=0,
        atol=10 * rtol,
    )


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_an_integer_that_counts_chooses_among_three_equations(rtol: float) -> None:
    """Each time has the one value of the counter, also where a condition has its border there."""
    text = (
        "model Three Real x(start=1, fixed=true), z; Integer n(start=0); equation der(x) = z - x; "
        "if n == 0 then z = 0; elseif n == 1 then x = 0.5; else z = 1; end if; "
        "when sample(1, 1) then n = pre(n) + 1; end when; end Three;"
    )
    solution = ds.solve(read_modelica_text(text), t_end=4.0, rtol=rtol)
    assert solution.success, solution.message
    exact = [np.exp(-0.5), 0.5, 1.0 - 0.5 * np.exp(-0.5), 1.0 - 0.5 * np.exp(-1.75)]
    found = solution([0.5, 1.5, 2.5, 3.75])[:, solution.names.index("x")]
    assert np.allclose(found, exact, rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_source_that_jumps_charges_a_capacitor_through_a_diode(rtol: float) -> None:
    """From 0 to 2 at t = 1, to 1 at t = 2: the diode blocks then until the capacitor has come down to 1."""
    m = ds.Model("charged", interval=(0.0, 3.0))
    v, i = m.variable("v", start=0.0, fixed=True), m.variable("i", start=0.0)
    source = sp.Piecewise((0, m.t < 1), (2, m.t < 2), (1, True))
    m.equations(m.der(v) + v - i, sp.Min(i, v - source))
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    assert np.allclose(times_of(solution), [1.0, 2.0, 2.0 + np.log(2.0)], rtol=0.0, atol=10.0 * rtol)
    expected = [0.0, 2.0, 2.0 * np.exp(-0.5), 1.0]
    assert np.allclose(solution([0.5, 1.5, 2.5, 3.0])[:, 0], expected, rtol=0.0, atol=10.0 * rtol)
    assert "'v' jumps from 0 to 2" in solution.message and "impulse 2 of 'i'" in solution.message


@pytest.mark.parametrize("behind", [3.0, 1.0], ids=["forward", "backward"])
def test_a_diode_between_two_capacitors_has_no_backward_impulse(behind: float) -> None:
    """From t = 1 on a switch connects 1 F at 2 V by a diode with 2 F: charge flows forward alone."""
    m = ds.Model("pair", interval=(0.0, 2.0))
    a, b = m.variable("a", start=2.0, fixed=True), m.variable("b", start=4.0 - behind, fixed=True)
    q, node = m.variables("q node", start=[0.0, 0.0])
    m.equations(m.der(a) + q, 2 * m.der(b) - q, sp.Piecewise((q, m.t < 1), (a - node, True)))
    m.equation(sp.Min(q, b - node))
    solution = ds.solve(m, rtol=1e-8)
    end = [4.0 / 3.0, 4.0 / 3.0] if behind == 3.0 else [2.0, 3.0]
    assert solution.success and np.allclose([solution["a"][-1], solution["b"][-1]], end, rtol=1e-7)
    assert ("impulse" in solution.message) == (behind == 3.0)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_contact_opens_where_an_impulse_would_pull_at_it(rtol: float) -> None:
    """A driven mass b pushes c; clutched to a resting mass a at t = 1 it falls behind c until t = 1.5."""
    m = ds.Model("push", interval=(0.0, 2.0))
    a, b, c = (m.variable(name, start=0.0, fixed=True) for name in "abc")
    pull, push = m.variables("pull push", start=[0.0, 0.5])
    m.equations(m.der(a) - pull, m.der(b) - 1 + pull + push, m.der(c) - push)
    m.equations(sp.Piecewise((pull, m.t < 1), (a - b, True)), sp.Min(push, c - b))
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    assert "impulse 0.25 of 'pull'" in solution.message
    assert np.allclose(solution(0.9)[:3], [0.0, 0.45, 0.45], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(solution(1.25)[:3], [0.375, 0.375, 0.5], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(solution.u[-1, :3], [2.0 / 3.0] * 3, rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(times_of(solution), [1.0, 1.5], rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", ["model", "function"])
def test_a_mass_hits_a_wall_rests_at_it_and_leaves(how: str, rtol: float) -> None:
    """Pushed by t - 2 towards a wall at 0: the force of the contact, of index 3, takes its speed at once."""

    def function(t: float, u: Any, du: Any) -> list[Any]:
        x, v, force = u
        return [du[0] - v, du[1] - (t - 2.0) - force, np.minimum(force, x)]

    m = ds.Model("wall", interval=(0.0, 4.0))
    x, v = m.variable("x", start=1.0, fixed=True), m.variable("v", start=0.0, fixed=True)
    force = m.variable("force", start=0.0)
    m.equations(m.der(x) - v, m.der(v) - (m.t - 2) - force, sp.Min(force, x))
    start = {"u0": {"x": 1.0, "v": 0.0, "force": 0.0}, "t_end": 4.0} if how == "function" else {}
    solution = ds.solve(function if start else m, rtol=rtol, **start)
    assert solution.success, solution.message
    hits = brentq(lambda t: 1.0 + t**3 / 6.0 - t**2, 0.5, 1.9, xtol=1e-15)
    assert np.allclose(times_of(solution), [hits, 2.0], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(solution(1.5), [0.0, 0.0, 0.5], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(solution.u[-1, :2], [8.0 / 6.0, 2.0], rtol=0.0, atol=10.0 * rtol)
    told = re.search(r"impulse (\S+) of 'force'", solution.message)
    assert told is not None and float(told[1]) == pytest.approx(2.0 * hits - 0.5 * hits**2, rel=1e-4)


def test_a_coil_that_is_opened_loses_its_current_but_beside_a_diode() -> None:
    def coil(with_diode: bool) -> ds.Solution:
        m = ds.Model("coil", interval=(0.0, 2.0))
        i, x, s, d = m.variable("i", start=1.0, fixed=True), *m.variables("x s d", start=[1.0, 1.0, 0.0])
        m.equations(m.der(i) - x + i, s + d - i, sp.Piecewise((x - 1, m.t < 1), (s, True)))
        m.equation(sp.Min(d, x) if with_diode else d)
        return ds.solve(m, rtol=1e-8)

    alone, beside = coil(False), coil(True)
    assert alone.success and "impulse -1 of 'x'" in alone.message
    assert alone["i"][-1] == pytest.approx(0.0, abs=1e-9)
    assert beside.success and "impulse" not in beside.message
    assert beside["i"][-1] == pytest.approx(np.exp(-1.0), rel=1e-7)


def test_only_modes_that_are_entered_are_analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten diodes before coils, each of which conducts from its own voltage on: 11 of 1024 modes occur."""
    count, structures = 10, list[ds.Model]()

    def analyse(model: ds.Model) -> Any:
        structures.append(model)
        return ds.structure(model)

    monkeypatch.setattr(modes, "analyse", analyse)
    m = ds.Model("ladder", interval=(0.0, 1.0))
    source = (count + 1) * m.t
    for k in range(count):
        i, v = m.variable(f"i{k}", start=0.0), m.variable(f"v{k}", start=-k - 0.5)
        m.equations(m.der(i) + i + v - source + k + sp.Rational(1, 2), sp.Min(i, -v))
    solution = ds.solve(m, rtol=1e-6)
    assert solution.success, solution.message
    assert "11 modes" in solution.message
    assert len(structures) <= 3  # both sides of one diode tell that structures differ
    begins = (np.arange(count) + 0.5) / (count + 1)
    assert np.allclose(times_of(solution), begins, rtol=0.0, atol=1e-5)
    exact = (count + 1) * (1.0 - begins - 1.0 + np.exp(begins - 1.0))
    assert np.allclose([solution[f"i{k}"][-1] for k in range(count)], exact, rtol=1e-5, atol=1e-5)


def test_modes_of_one_index_are_left_to_switches() -> None:
    # x' = 1 up to x = 1, and then the other equation of the two holds, of the same index.
    m = ds.Model("alike", interval=(0.0, 3.0))
    x, y = m.variable("x", start=0.0, fixed=True), m.variable("y", start=1.0)
    m.equations(m.der(x) - y, sp.Piecewise((y - 1, x < 1), (y - x, True)))
    solution = ds.solve(m, rtol=1e-8)
    assert solution.success and "modes" not in solution.message
    assert solution["x"][-1] == pytest.approx(np.exp(2.0), rel=1e-6)


def test_an_ideal_diode_of_modelica_feeds_a_coil(tmp_path: Path) -> None:
    file = tmp_path / "half.mo"
    file.write_text(
        "model Half\n  Real i(start=0, fixed=true), v, s(start=0.1);\n  Boolean off(start=true);\nequation\n"
        "  der(i) = sin(2*3.141592653589793*time) - i - v;\n  off = s < 0;\n"
        "  v = s*(if off then 1 else 0);\n  i = s*(if off then 0 else 1);\n"
        "  annotation(experiment(StopTime=1.9));\nend Half;\n"
    )
    solution = ds.solve(str(file), rtol=1e-8)
    assert solution.success and "2 modes" in solution.message
    a = 1.0 / (1.0 + OMEGA**2)
    blocks = brentq(
        lambda t: a * (np.sin(OMEGA * t) - OMEGA * np.cos(OMEGA * t) + OMEGA * np.exp(-t)), 0.5, 0.999
    )
    assert np.allclose(times_of(solution), [blocks, 1.0, 1.0 + blocks], rtol=0.0, atol=1e-7)


def test_an_integer_of_modelica_chooses_an_equation() -> None:
    text = (
        "model Chosen Real a(start=3, fixed=true), b(start=0, fixed=true), q; "
        "Integer n = if time >= 1 then 2 else 1; equation der(a) = -q; 2*der(b) = q; "
        "if n > 1 then a = b; else q = 0; end if; end Chosen;"
    )
    solution = ds.solve(read_modelica_text(text), t_end=2.0, rtol=1e-8)
    assert solution.success and solution(0.5)[0] == pytest.approx(3.0)
    assert solution["a"][-1] == pytest.approx(1.0, abs=1e-7)


def test_what_events_and_requirements_tell_is_told_of_all_modes() -> None:
    """An event with a message changes the structure at x = 1; x < 2 ceases to hold in the second mode."""
    m = ds.Model("told", interval=(0.0, 3.0))
    x, y, n = m.variable("x", start=0.0, fixed=True), m.variable("y", start=0.0), m.discrete("n")
    m.equations(m.der(x) - 1, (1 - n) * y + n * (m.der(y) - 1))
    m.when(x > 1, {n: 1}, message="n; n = 1 here")
    m.require(x < 2, "terminal = x; n = 2")
    solution = ds.solve(m, rtol=1e-8)
    assert not solution.success and solution.t[-1] == pytest.approx(2.0)
    assert solution.message.startswith("terminal = x; n = 2 at t=2")
    assert solution["y"][-1] == pytest.approx(1.0, abs=1e-7)
    early = ds.solve(m, rtol=1e-8, t_end=1.5)
    assert early.success and "n; n = 1 here at t=1" in early.message and "2 modes" in early.message


def test_modes_that_follow_one_another_without_progress_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dae_sdc.run.modes.LEAST_PROGRESS", 0.5)  # of 2.6, more than any mode of a peak lasts
    monkeypatch.setattr("dae_sdc.run.modes.MOST_SWITCHES", 2)
    solution = ds.solve(peak(), rtol=1e-6)
    assert not solution.success and "modes follow one another again and again" in solution.message
    assert "by 'min(i, " in solution.message
    assert 0.9 < solution.t[-1] < 1.3


def test_a_border_that_both_modes_lead_back_to_is_told() -> None:
    """v' = 1 up to v = 1, from where v = 2 - t would lead back below it."""
    m = ds.Model("back", interval=(0.0, 3.0))
    v, i = m.variable("v", start=0.0, fixed=True), m.variable("i", start=0.0)
    m.equations(m.der(v) - i, sp.Piecewise((i - 1, v < 1), (v - 2 + m.t, True)))
    solution = ds.solve(m, rtol=1e-6)
    assert not solution.success and "'v < 1' leads back" in solution.message
    assert solution.t[-1] == pytest.approx(1.0, abs=1e-9)


def test_a_start_that_no_mode_has_is_told() -> None:
    m = ds.Model("none", interval=(0.0, 1.0))
    x, y = m.variable("x", start=-1.0, fixed=True), m.variable("y", start=0.0)
    m.equations(m.der(x) - y, sp.Min(x, y))
    with pytest.raises(SolveError, match="no mode goes on from t=0"):
        ds.solve(m, rtol=1e-6)


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("most", [0.3, 1.0], ids=["opens", "holds"])
def test_events_see_what_has_changed_with_the_mode(most: float, rtol: float) -> None:
    """A clutch that closes at t = 1 has a torque of 2/3, and the load jumps from 0 to 4/3."""
    m = ds.Model("breakaway", interval=(0.0, 3.0))
    a, b = m.variable("a", start=3.0, fixed=True), m.variable("b", start=0.0, fixed=True)
    q, on, turns = m.variable("q"), m.discrete("on"), m.discrete("turns")
    m.equations(m.der(a) + q - 1, 2 * m.der(b) - q, on * (a - b) + (1 - on) * q)
    m.when(m.t > 1, {on: 1})
    m.when(q > most, {on: 0})
    m.when(b > 1, {turns: turns + 1})
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    expected = [10.0 / 3.0, 4.0 / 3.0] if most < 0.5 else [2.0, 2.0]
    assert np.allclose([solution[name][-1] for name in "ab"], expected, rtol=0.0, atol=10.0 * rtol)
    assert [record.t.round(9).tolist() for record in solution.events] == [[1.0], [1.0] * (most < 0.5), [1.0]]
    assert solution["turns"][-1] == 1.0


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_condition_of_a_curved_function_of_time_has_its_times(rtol: float) -> None:
    m = ds.Model("wave", interval=(0.0, 7.0))
    a, b = m.variable("a", start=3.0, fixed=True), m.variable("b", start=0.0, fixed=True)
    q, drives = m.variable("q"), m.parameter("drives", 1.0)
    m.equations(m.der(a) + q - 1, 2 * m.der(b) - q, sp.Piecewise((a - b, sp.sin(m.t) < 0), (q, True)))
    m.equation(m.variable("force") - sp.Piecewise((q, drives > 0.5), (a, True)))
    solution = ds.solve(m, rtol=rtol)
    assert solution.success, solution.message
    opens = 1.0 + 2.0 * np.pi / 3.0
    found = [solution[name][-1] for name in "ab"]
    assert np.allclose(found, [opens + 7.0 - 2.0 * np.pi, opens], rtol=0.0, atol=10.0 * rtol)


def nonlinear_clutch() -> ds.Model:
    m = ds.Model("nonlinear", interval=(0.0, 4.0))
    a, b = m.variable("a", start=3.0, fixed=True), m.variable("b", start=0.0, fixed=True)
    q = m.variable("q")
    m.equations(m.der(a) + q - sp.cos(5 * a), 2 * m.der(b) - q + b**3)
    m.equation(sp.Piecewise((q, m.t < 1), (a - b, m.t < 3), (q, True)))
    return m


def same_to_the_last_bit(one: ds.Solution, other: ds.Solution) -> None:
    assert one.success and one.message == other.message and one.stats == other.stats
    assert np.array_equal(one.t, other.t) and np.array_equal(one.u, other.u)
    times = np.linspace(one.t[0], one.t[-1], 50)
    assert np.array_equal(one(times), other(times))
    for record, of_other in zip(one.switches, other.switches, strict=True):
        assert record.name == of_other.name and np.array_equal(record.t, of_other.t)


@pytest.mark.parametrize("broken_at", [0.5, 1.7, 3.5])
def test_a_run_goes_on_in_each_of_its_modes_to_the_last_bit(broken_at: float, tmp_path: Path) -> None:
    class Break(Hooks):  # type: ignore[misc]
        def post_step(self, step: Any, level_number: int) -> None:
            if step.time + step.dt > broken_at:
                raise KeyboardInterrupt

    settings: dict[str, Any] = {"rtol": 1e-8, "checkpoint": tmp_path / "run", "every": 1}
    with pytest.raises(KeyboardInterrupt):
        ds.solve(nonlinear_clutch(), hooks=[Break], **settings)
    again = ds.solve(nonlinear_clutch(), resume=True, **settings)
    assert broken_at - 0.5 < again.parameters["resumed_at"] < broken_at
    same_to_the_last_bit(again, ds.solve(nonlinear_clutch(), rtol=1e-8))
    with pytest.raises(InputError, match=r"mode1.npz is the checkpoint of another run: rtol was 1e-08"):
        ds.solve(nonlinear_clutch(), resume=True, **{**settings, "rtol": 1e-7})
    ds.solve(nonlinear_clutch(), **{**settings, "t_end": 0.5})
    assert {file.name for file in tmp_path.iterdir()} == {"run.mode1.npz"}


@pytest.mark.parametrize("arc", [3, 12])
def test_a_converter_goes_on_from_an_arc_to_the_last_bit(
    arc: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its model is tried as it is first, which has a checkpoint of its own."""

    def broken(self: modes.Modes, *args: Any) -> Any:
        if self.begun == arc:
            raise KeyboardInterrupt
        return plain(self, *args)

    plain, model = modes.Modes._arc, Converter("buck", 30.0).model(6)
    settings: dict[str, Any] = {"rtol": 1e-6, "checkpoint": tmp_path / "run", "every": 1}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(modes.Modes, "_arc", broken)
        ds.solve(model, **settings)
    again = ds.solve(model, resume=True, **settings)
    assert again.parameters["resumed_at"] > 0.0
    same_to_the_last_bit(again, ds.solve(model, rtol=1e-6))


def test_ranks_share_the_nodes_of_a_run_through_modes(mpirun: Launcher, tmp_path: Path) -> None:
    """Together they have 5/3 at t = 1 and 3 at t = 3, and 13/3 at t = 5, where b comes to 4 and a to 5."""
    done = mpirun(2, "modes.py", tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "modes.json").read_text(encoding="utf-8"))
    for record in found["records"]:
        assert record["same"] and record["ranks"] == 2, record
        assert record["resumed_at"] is not None and "2 modes" in record["message"]
        assert record["saved"] == record["end"]
        assert record["end"] == pytest.approx([5.0, 5.0, 1.0 / 3.0], abs=1e-7)
    assert found["refusal"] == (
        "the structure of model clutch changes, which one step on one level follows; give rtol without steps"
    )


@pytest.mark.parametrize("settings", [{}, {"sweeper": "fully-implicit", "nodes": 3}], ids=str)
def test_steps_of_one_size_do_not_tell_of_singular_points_where_another_mode_begins(settings: Any) -> None:
    m = ds.Model("nested", interval=(0.0, 2.0))
    v, i = m.variable("v", start=0.0, fixed=True), m.variable("i", start=0.0)
    follows = sp.Piecewise(
        (sp.Piecewise((i - 1, v < 1), (v - m.t, True)), m.t < sp.Rational(3, 2)), (i + v, True)
    )
    m.equations(m.der(v) - i, follows)
    with pytest.raises(ds.InputError) as caught:
        ds.solve(m, dt=0.01, **settings)
    told = (
        "the structure of model nested changes, which a run to a tolerance follows; give rtol in place of dt"
    )
    assert str(caught.value) == told


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_events_at_changes_happen_where_a_mode_begins(rtol: float) -> None:
    """A clutch of inertias 1 and 2 with the speeds 3 and 0 closes at t = 1 and opens at t = 3/2."""
    m = ds.Model("clutch", interval=(0.0, 2.0))
    a, b = m.variable("a", start=3.0, fixed=True), m.variable("b", start=0.0, fixed=True)
    torque = m.variable("torque", start=0.0)
    closed, n, late = m.discrete("closed"), m.discrete("n"), m.discrete("late")
    m.equations(m.der(a) + torque, 2 * m.der(b) - torque, closed * (a - b) + (1 - closed) * torque)
    m.when("sample(1, 1/2)", {closed: 1 - closed}, only=m.t < sp.Rational(7, 4))
    m.when("change(closed)", {n: n + 1})
    m.when("change(closed)", {late: m.t}, only=sp.Eq(closed, 0))
    m.require(a < 2, "it is fast", when="change(closed)", level="warning")
    solution = ds.solve(m, rtol=rtol)
    assert solution.success and "it is fast at t=1" in solution.message
    assert "2 modes" in solution.message and "impulse 2 of 'torque'" in solution.message
    assert (solution["n"][-1], solution["late"][-1]) == (2.0, 1.5)
    assert solution.u[-1, :2] == pytest.approx([1.0, 1.0], abs=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_events_at_the_ends_of_a_run_happen_at_no_end_of_a_mode(rtol: float) -> None:
    """A clutch of inertias 1 and 2 with the speeds 3 and 0 closes at t = 1/2, which the time tells."""
    m = ds.Model("clutch", interval=(0.0, 2.0))
    a, b = m.variable("a", start=3.0, fixed=True), m.variable("b", start=0.0, fixed=True)
    torque, first, last = m.variable("torque", start=0.0), m.discrete("first"), m.discrete("last")
    of_clutch = sp.Piecewise((a - b, m.t > 0.5), (torque, True))
    m.equations(m.der(a) + torque, 2 * m.der(b) - torque, of_clutch)
    m.when("initial()", {first: first + 1})
    m.when("terminal() or time > 3", {last: last + a})
    solution = ds.solve(m, rtol=rtol)
    assert solution.success and "2 modes" in solution.message
    assert (solution["first"][-1], solution["last"][-1]) == pytest.approx((1.0, 1.0), abs=10.0 * rtol)
    names = [(event.name, event.t.tolist()) for event in solution.events]
    assert names == [("initial()", [0.0]), ("terminal() or time > 3", [2.0])]


def peak_rectifier() -> ds.Model:
    """An ideal diode that charges a capacitor, which a resistor discharges."""
    m = ds.Model("peak rectifier", interval=(0.0, 0.1))
    v, i = m.variable("v", start=0.0, fixed=True), m.variable("i")
    resistance = m.parameter("R", 1e3)
    m.equations(1e-4 * m.der(v) - i + v / resistance, sp.Min(i, v - 10 * sp.sin(100 * sp.pi * m.t)))
    return m


def last_voltage(resistance: float) -> float:
    """The voltage at the end: the diode blocks where its current C v' + v / R of the source is 0."""
    w, tau = 100.0 * np.pi, 1e-4 * resistance
    opens = (np.pi - np.arctan(w * tau)) / w + 4 * 2.0 * np.pi / w
    return float(10.0 * np.sin(w * opens) * np.exp(-(0.1 - opens) / tau))


@pytest.mark.parametrize("sweeper", [None, "semi-implicit", "fully-implicit", "radau-iia-5"])
@pytest.mark.parametrize("options", [{}, {"points": 11, "dense": False}])
def test_modes_go_with_any_method_to_a_tolerance_and_any_output(sweeper: str | None, options: Any) -> None:
    solution = ds.solve(peak_rectifier(), rtol=1e-6, sweeper=sweeper, **options)
    assert solution.success and solution["v"][-1] == pytest.approx(last_voltage(1e3), rel=1e-5)
    assert not options or (len(solution.t), solution.dense) == (11, None)


def test_sweeps_go_through_modes() -> None:
    runs = ds.sweep(peak_rectifier(), {"R": [500.0, 1000.0, 2000.0]}, rtol=1e-6)
    assert runs.success.all()
    assert runs.quantity("v") == pytest.approx([last_voltage(R) for R in (500.0, 1000.0, 2000.0)], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dt": 1e-4, "sweeper": "fully-implicit"}, "give rtol in place of dt"),
        ({"rtol": 1e-6, "sweeper": "ida"}, "which 'ida' does not follow; leave sweeper out"),
        ({"dt": 1e-4, "sweeper": "fully-implicit", "steps": 4}, "give rtol without steps"),
    ],
)
def test_runs_that_do_not_follow_modes_say_what_does(options: Any, told: str) -> None:
    with pytest.raises(ds.InputError, match=f"the structure of model peak rectifier changes, .*{told}"):
        ds.solve(peak_rectifier(), **options)


HALF = """model Half
  parameter Real R = 10, C = 1e-3;
  Real v, i, vc, vd, s, vr;
  Boolean off;
  discrete Real n(start = 0, fixed = true);
equation
  v = 10*sin(100*time);
  off = s < 0;
  vd = if off then s else 0;
  i = if off then 0 else s;
  v = vd + vc;
  i = C*der(vc) + vc/R;
  vr = v - vc;
  when sample(0.01, 0.01) then
    n = pre(n) + 1;
  end when;
end Half;"""


@pytest.mark.parametrize("rtol", [1e-6, 1e-7, 1e-8, 5e-9, 1e-9])
def test_a_model_whose_borders_a_simplification_would_remove_goes_through_its_modes(rtol: float) -> None:
    run = ds.solve(read_modelica_text(HALF), simplify=True, rtol=rtol, t_end=0.2)
    # Rounding at a border leads to no mode that ends at once.
    assert run.success and run.message == "2 modes of the structure were analysed"
    # While the diode conducts the capacitor has the voltage of the source; then it discharges by R.
    left = brentq(lambda t: 0.1 * np.cos(100 * t) + np.sin(100 * t) / 10, 0.016, 0.03)
    within = (run.t > left) & (run.t < left + 0.01)
    decayed = 10 * np.sin(100 * left) * np.exp(-100 * (run.t[within] - left))
    assert within.any()
    np.testing.assert_allclose(run.values("vc")[within], decayed, rtol=100.0 * rtol)
    assert run.values("n")[-1] == 20.0
