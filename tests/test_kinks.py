"""Extremes, absolute values and continuous choices: their kinks are met, no pulse between them is missed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import beta

import dae_sdc as ds

TOLERANCES = (1e-4, 1e-6, 1e-9)
OMEGA, PEAK, CAPACITANCE, END = 314.0, 10.0, 1e-3, 0.1


def of_ideal_bridge(load: float) -> tuple[float, list[float]]:
    """The voltage behind a bridge of ideal diodes at the end, and the times at which these switch."""
    # It follows abs(PEAK sin) from where this meets the falling voltage up to where the current comes to 0.
    off, times = np.pi - np.arctan(CAPACITANCE * OMEGA * load), [0.0]
    for period in itertools.count():
        since = (period * np.pi + off) / OMEGA
        times.append(since)
        first, decay = PEAK * np.sin(off), load * CAPACITANCE

        def above(t: float, since: float = since, first: float = first, decay: float = decay) -> float:
            return float(first * np.exp((since - t) / decay) - PEAK * abs(np.sin(OMEGA * t)))

        zero, top = ((period + 1.0 + part) * np.pi / OMEGA for part in (0.0, 0.5))
        on = brentq(above, zero, top, xtol=1e-16)
        if on > END:
            return first * np.exp((since - END) / decay), [t for t in times[1:] if t < END]
        times.append(on)
    raise AssertionError


def bridge_of_function() -> Any:
    def bridge(t: float, u: Any, du: Any) -> list[Any]:
        v, forward, backward, of_forward, of_backward, source = u
        return [
            CAPACITANCE * du[0] - forward - backward + v / 10.0,
            source - PEAK * np.sin(OMEGA * t),
            of_forward - (source - v),
            of_backward - (-source - v),
            np.minimum(forward, -of_forward),
            np.minimum(backward, -of_backward),
        ]

    return ds.solve, bridge, {"u0": np.zeros(6), "t_end": END}


def bridge_of_model() -> Any:
    m = ds.Model("bridge", interval=(0.0, END))
    v = m.variable("v", start=0.0, fixed=True)
    forward, backward, of_forward, of_backward, source = m.variables("i j x y source", start=[0.0] * 5)
    m.equations(CAPACITANCE * m.der(v) - forward - backward + v / 10, source - PEAK * sp.sin(OMEGA * m.t))
    m.equations(of_forward - (source - v), of_backward - (-source - v))
    m.equations(sp.Min(forward, -of_forward), sp.Min(backward, -of_backward))
    return ds.solve, m, {}


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("form", [bridge_of_function, bridge_of_model])
def test_no_pulse_of_a_bridge_of_ideal_diodes_is_stepped_over(form: Callable[[], Any], rtol: float) -> None:
    end, times = of_ideal_bridge(10.0)
    solve, problem, settings = form()
    solution = solve(problem, rtol=rtol, **settings)
    assert solution.success
    assert abs(solution.u[-1, 0] - end) <= 10.0 * rtol * end
    for time in times:
        assert np.abs(solution.t - time).min() <= 10.0 * rtol * END


def of_resistive_diode(conductance: float, load: float) -> float:
    """The voltage behind a diode with a resistor, of a linear equation with a sine in every piece."""
    t, v, on = 0.0, 0.0, True
    while True:
        rate = ((conductance if on else 0.0) + 1.0 / load) / CAPACITANCE
        force = conductance * PEAK / CAPACITANCE if on else 0.0
        forced = force / (rate**2 + OMEGA**2)

        def steady(t: float, rate: float = rate, forced: float = forced) -> float:
            return float(forced * (rate * np.sin(OMEGA * t) - OMEGA * np.cos(OMEGA * t)))

        def at(s: float, t: float = t, v: float = v, rate: float = rate, steady: Any = steady) -> float:
            return float(steady(s) + (v - steady(t)) * np.exp(-rate * (s - t)))

        def border(s: float, at: Any = at) -> float:
            return float(PEAK * np.sin(OMEGA * s) - at(s))

        places = np.linspace(t + 1e-9, END, 20_001)
        values = np.array([border(s) for s in places])
        changes = np.flatnonzero(values[1:] * values[:-1] < 0.0)
        if not changes.size:
            return at(END)
        s = brentq(border, places[changes[0]], places[changes[0] + 1], xtol=1e-16)
        t, v, on = s, at(s), not on


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("conductance", [1.0, 1e3])
def test_no_pulse_of_a_resistive_diode_is_stepped_over(conductance: float, rtol: float) -> None:
    m = ds.Model("rectifier", interval=(0.0, END))
    v, i = m.variable("v", start=0.0, fixed=True), m.variable("i", start=0.0)
    m.equations(CAPACITANCE * m.der(v) - i + v / 1000)
    m.equations(i - conductance * sp.Max(PEAK * sp.sin(OMEGA * m.t) - v, 0))
    end = of_resistive_diode(conductance, 1000.0)
    assert abs(ds.solve(m, rtol=rtol).u[-1, 0] - end) <= 10.0 * rtol * end


OFF = 0.995
COUNT = 32  # Pulses of sin(20 t) > OFF up to t = 10.
PULSES = np.array(
    [
        (2.0 * np.pi * k + angle) / 20.0
        for k in range(COUNT)
        for angle in (np.arcsin(OFF), np.pi - np.arcsin(OFF))
    ]
)


def driven(u: Any, t: float) -> Any:
    return u - (np.sin(20.0 * t) - OFF)


@pytest.mark.parametrize("sweeper", [None, "radau-iia-5", "esdirk43", "fully-implicit", "semi-implicit"])
def test_switches_and_events_by_unknowns_without_derivatives_are_not_stepped_over(
    sweeper: str | None,
) -> None:
    def switched(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] + u[0] - u[2], driven(u[1], t), u[2] - np.where(u[1] > 0.0, 1.0, 0.0)]

    x, t = 1.0, 0.0
    for on, off in PULSES.reshape(-1, 2):
        x *= np.exp(t - on)
        x, t = 1.0 + (x - 1.0) * np.exp(on - off), off
    solution = ds.solve(switched, u0=[1.0, -OFF, 0.0], t_end=10.0, rtol=1e-6, sweeper=sweeper)
    # Of a pair of order 3, 64 pieces leave more.
    bound = 1e-4 if sweeper == "esdirk43" else 1e-6
    assert abs(solution.u[-1, 0] - x * np.exp(t - 10.0)) <= bound

    def smooth(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] + u[0], driven(u[1], t)]

    events: list[Any] = ["u[1]", lambda u, t: u[1], lambda u, t: float(np.asarray(u)[1])]
    watched = ds.solve(smooth, u0=[1.0, -OFF], t_end=10.0, rtol=1e-6, sweeper=sweeper, events=events)
    for record in watched.events:
        assert len(record.t) == 2 * COUNT
        np.testing.assert_allclose(record.t, PULSES, rtol=0.0, atol=1e-5)


def test_an_event_that_reads_no_unknown_without_derivative_costs_no_steps() -> None:
    plain = ds.solve("simple", rtol=1e-6)
    for event in ("y - 2.0", lambda u, t: u[0] - 2.0, lambda u, t: u.diff[0] - 2.0):
        if isinstance(event, str):
            event = event.replace("y", plain.names[0])
        np.testing.assert_array_equal(ds.solve("simple", rtol=1e-6, events=[event]).t, plain.t)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_kink_under_a_root_is_met_without_a_value_beyond_it(rtol: float) -> None:
    # The integral of sqrt(sin) over half a period is a beta function.
    def valve(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - np.sqrt(np.maximum(u[1], 0.0)), u[1] - np.sin(t)]

    exact = 4.0 * beta(0.75, 0.5)
    solution = ds.solve(valve, u0=[0.0, 0.0], t_end=7.5 * np.pi, rtol=rtol)
    assert abs(solution.u[-1, 0] - exact) <= 10.0 * rtol * exact


def test_a_kink_is_held_in_runs_that_locate_it_alone() -> None:
    m = ds.Model("ramp")
    x, y = m.variables("x y", start=[0.0, 2.0])
    m.equations(m.der(x) - 1, y - sp.Max(x, 2) - 1.0 / sp.Max(x, 1))
    problem = m.problem()
    start, behind, slope = problem.state([0.0, 2.0]), problem.state([5.0, 0.0]), problem.state([1.0, 0.0])

    problem.start_step(start, 0.0)
    assert problem.evaluate(behind, slope, 5.0)[1] == -5.2
    problem.hold_sides(problem.sides(start, 0.0))
    problem.start_step(start, 0.0)
    assert problem.evaluate(behind, slope, 5.0)[1] == -2.2  # what keeps a divisor from 0 is evaluated
    assert problem.switch_names == ("x <= 2", "x <= 1")


def test_a_limit_of_an_exponential_function_that_is_not_met_changes_nothing() -> None:
    def end(limit: float, rtol: float) -> float:
        def rectifier(t: float, u: Any, du: Any) -> list[Any]:
            v, i = u
            x = np.minimum((10.0 * np.sin(314.0 * t) - v) / 0.05, limit)
            return [1e-3 * du[0] - i + v / 1e3, i - 1e-9 * (np.exp(x) - 1.0)]

        solution = ds.solve(rectifier, u0=[0.0, 0.0], t_end=0.1, rtol=rtol)
        assert solution.message == ""
        return float(solution.u[-1, 0])

    assert abs(end(40.0, 1e-6) - end(200.0, 1e-9)) <= 1e-4


def with_counter() -> Any:
    calls = [0]

    def function(t: float, u: Any, du: Any) -> list[Any]:
        calls[0] += 1
        return [du[0] + u[0] * (1.0 + 1e-3 * calls[0])]

    return function


def with_last_value() -> Any:
    last = [0.0]

    def function(t: float, u: Any, du: Any) -> list[Any]:
        value, last[0] = last[0], float(u[0])
        return [du[0] + value]

    return function


def with_delay() -> Any:
    before = {"t": 0.0, "u": 1.0}

    def function(t: float, u: Any, du: Any) -> list[Any]:
        value = before["u"]
        if t > before["t"]:
            before.update(t=t, u=float(u[0]))
        return [du[0] + value]

    return function


def with_thermostat() -> Any:
    on = [True]

    def function(t: float, u: Any, du: Any) -> list[Any]:
        on[0] = u[0] < 22.0 if on[0] else u[0] < 20.0
        return [du[0] - (10.0 * on[0] - 0.2 * (u[0] - 5.0))]

    return function


@pytest.mark.parametrize("make", [with_counter, with_last_value, with_delay, with_thermostat])
def test_a_function_that_remembers_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ds.InputError, match=r"remembers.*by the states before"):
        ds.solve(make(), u0=[10.0], t_end=5.0, rtol=1e-4)


def test_a_function_that_counts_its_calls_is_solved() -> None:
    calls = [0]

    def function(t: float, u: Any, du: Any) -> list[Any]:
        calls[0] += 1
        return [du[0] + u[0]]

    assert abs(ds.solve(function, u0=[1.0], t_end=1.0, rtol=1e-6).u[-1, 0] - np.exp(-1.0)) <= 1e-5
    assert calls[0] > 10


class Rectifier(NamedTuple):
    """A diode Is (exp(v / VT) - 1) from a sine to a resistor beside a capacitor."""

    frequency: float
    amplitude: float
    saturation: float
    vt: float
    load: float
    capacitance: float
    end: float

    @classmethod
    def random(cls, seed: int) -> Rectifier:
        rng = np.random.default_rng(seed)
        frequency, load = 10.0 ** rng.uniform(0.0, 4.0), 10.0 ** rng.uniform(1.0, 5.0)
        decay = 10.0 ** rng.uniform(1.0, 3.0) / frequency  # periods in which the capacitor is discharged
        amplitude, saturation = 10.0 ** rng.uniform(0.0, 2.0), 10.0 ** rng.uniform(-14.0, -6.0)
        vt = float(rng.choice([0.025, 0.05]))
        return cls(
            frequency, amplitude, saturation, vt, load, decay / load, rng.uniform(2.3, 8.0) / frequency
        )

    def source(self, t: Any) -> Any:
        return self.amplitude * np.sin(2.0 * np.pi * self.frequency * t)

    def current(self, v: Any) -> Any:
        with np.errstate(over="ignore"):
            return self.saturation * (np.exp(v / self.vt) - 1.0)

    @property
    def last(self) -> float:
        """The voltage at the end by another method, with 40 steps a period at least."""

        def rate(t: float, v: Any) -> Any:
            return (self.current(self.source(t) - v) - v / self.load) / self.capacitance

        about: Any = {"rtol": 1e-10, "atol": 1e-12, "max_step": 0.025 / self.frequency}
        with np.errstate(over="ignore"):  # of the norm of an iterate that SciPy rejects
            found = solve_ivp(rate, (0.0, self.end), [0.0], "Radau", **about)
        return float(found.y[0, -1])


@pytest.mark.parametrize("rtol", [1e-3, 1e-5, 1e-7, 1e-9])
@pytest.mark.parametrize("node", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_no_pulse_of_an_exponential_diode_is_stepped_over(seed: int, node: bool, rtol: float) -> None:
    rectifier = Rectifier.random(seed)

    def circuit(t: float, u: Any, du: Any) -> list[Any]:
        v, i = u[0], u[1]
        source = u[2] if node else rectifier.source(t)
        kept = rectifier.capacitance * du[0] - i + v / rectifier.load
        rest = [u[2] - rectifier.source(t)] if node else []
        return [kept, i - rectifier.current(source - v), *rest]

    end = ds.solve(circuit, u0=np.zeros(2 + node), t_end=rectifier.end, rtol=rtol).u[-1, 0]
    assert abs(end - rectifier.last) <= 30.0 * rtol * rectifier.amplitude


def with_pendulum(end: float) -> tuple[Any, Any, Any]:
    """A pendulum of index 3, and beside it a voltage that is to be driven."""
    m = ds.Model("pendulum with a rectifier", interval=(0.0, end))
    x, vx = m.variable("x", start=0.6, fixed=True), m.variable("p", start=0.0, fixed=True)
    y, vy, tension = m.variable("y", start=-0.8), m.variable("q", start=0.0), m.variable("l", start=1.0)
    m.equations(m.der(x) - vx, m.der(y) - vy, m.der(vx) + tension * x, m.der(vy) + tension * y + 9.81)
    m.equations(x**2 + y**2 - 1)
    v = m.variable("v", start=0.0, fixed=True)
    return m, v, PEAK * sp.sin(OMEGA * m.t) - v


def test_switches_of_reduced_equations_are_told() -> None:
    m, v, over = with_pendulum(0.02)
    m.equations(m.der(v) - sp.Max(over, 0))
    assert "are not located in reduced equations" in ds.solve(m, rtol=1e-6, reduce=True).message
    assert len(ds.solve(m, rtol=1e-6, reduce=False).switches[0]) > 0


def test_an_arc_behind_a_slide_begins_with_what_rounding_leaves() -> None:
    m, v, over = with_pendulum(END)
    i = m.variable("i", start=0.0)
    m.equations(CAPACITANCE * m.der(v) - i + v / 1000, i - sp.Piecewise((1.0, over > 0), (0, True)))
    solution = ds.solve(m, rtol=1e-6)
    # Charged by 1 A it reaches the sine, slides along it up to where the current is 0, and then falls: the
    # last time from near the maximum at 8.5 pi / 314 on.
    off = 9.0 * np.pi - np.arctan(CAPACITANCE * OMEGA * 1000.0)
    end = PEAK * np.sin(off) * np.exp(off / OMEGA - END)
    assert solution.success and abs(solution["v"][-1] - end) <= 1e-5
