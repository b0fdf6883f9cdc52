"""Steps taken ahead in runs with events and switches: those of the controller to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp

import dae_sdc as ds
from dae_sdc.control.events import LocateEvents
from dae_sdc.run.solution import Solution
from tests.test_steps_ahead import require_equal, solved_twice, steps_of_the_controller

RTOLS = [pytest.param(1e-4, marks=pytest.mark.long), 1e-6, pytest.param(1e-9, marks=pytest.mark.long)]
PERIOD = 1e-4

Run = tuple[Any, dict[str, Any]]


def buck() -> Run:
    """A converter whose diode lets the current rest at 0: two times a period and one event."""

    def converter(t: float, u: Any, du: Any) -> list[Any]:
        current, voltage = u
        on = 1.0 if t % PERIOD < 0.3 * PERIOD else 0.0
        drive = 12.0 * on - voltage if (on > 0.5 or current > 0.0) else -1e4 * current
        return [1e-3 * du[0] - drive, 1e-4 * du[1] - current + voltage / 150.0]

    return converter, {"u0": {"current": 0.0, "voltage": 3.0}, "t_end": 8.0 * PERIOD}


def buck_model() -> Run:
    """A converter with an ideal diode between unknowns that jump, in which singular points are looked for."""
    m = ds.Model("buck", interval=(0.0, 6.0 * PERIOD))
    i, v = m.variable("i", start=0.0, fixed=True), m.variable("v", start=0.0, fixed=True)
    x = m.variable("x", start=12.0)
    g = sp.Piecewise((20.0, m.t / PERIOD - sp.floor(m.t / PERIOD) < 0.4), (1e-6, True))
    diode = sp.Piecewise((-x / 1e-2, x < 0), (-x * 1e-6, True))
    m.equations(1e-3 * m.der(i) - (x - v), 1e-4 * m.der(v) - (i - v / 5.0), g * (12.0 - x) - i + diode)
    return m, {}


def regulated_model() -> Run:
    """A converter whose duty follows from its output."""
    m = ds.Model("regulated", interval=(0.0, 12.0 * PERIOD))
    i, v = m.variable("i", start=0.0, fixed=True), m.variable("v", start=0.0, fixed=True)
    ramp = m.t / PERIOD - sp.floor(m.t / PERIOD)
    on = sp.Piecewise((1.0, ramp < 0.5 + 0.05 * (4.0 - v)), (0.0, True))
    m.equations(1e-3 * m.der(i) - (12.0 * on - v), 1e-4 * m.der(v) - (i - v / 5.0))
    return m, {}


def ball() -> Run:
    """A ball in air that bounces, with its energy, and two more functions that are watched."""

    def falls(t: float, u: Any, du: Any) -> list[Any]:
        height, speed, energy = u
        drag = 0.05 * speed * abs(speed)
        return [du[0] - speed, du[1] + 9.81 + drag, energy - 0.5 * speed * speed - 9.81 * height]

    def bounce(u: Any, t: float) -> None:
        u[1] = -0.9 * u[1]

    events = [
        ds.Event(lambda u, t: u[0], change=bounce, direction=-1, name="floor"),
        lambda u, t: u[1],
        lambda u, t: u[0] - 0.5,
    ]
    return falls, {"u0": {"height": 1.0, "speed": 0.0, "energy": 9.81}, "t_end": 5.0, "events": events}


def relay() -> Run:
    m = ds.Model("relay", interval=(0.0, 10.0))
    x, v = m.variable("x", start=1.0, fixed=True), m.variable("v", start=0.0, fixed=True)
    m.equations(m.der(x) - v, m.der(v) + 0.2 * v + x + sp.sign(x))
    return m, {}


def stick_slip() -> Run:
    """A mass on a belt with dry friction, on which it rests for a while."""

    def mass(t: float, u: Any, du: Any) -> list[Any]:
        x, v = u
        friction = -1.2 / (1.0 + 0.5 * abs(v - 1.0)) * np.sign(v - 1.0)
        return [du[0] - v, du[1] + x - friction]

    return mass, {"u0": {"x": 0.0, "v": 0.0}, "t_end": 12.0}


def heater() -> Run:
    """A thermostat with a hysteresis: an unknown that events alone change."""

    def room(t: float, u: Any, du: Any) -> list[Any]:
        T, on = u
        return [du[0] - 10.0 * on + 0.5 * (T - 10.0), du[1]]

    events = ["T > 21; on = 0", "T < 19; on = 1"]
    return room, {"u0": {"T": 18.0, "on": 1.0}, "t_end": 5.0, "events": events}


def thermostat() -> Run:
    m = ds.Model("thermostat", interval=(0.0, 20.0))
    T = m.variable("T", start=18.0, fixed=True)
    outside = 10.0 + 5.0 * sp.sin(m.t)
    m.equations(m.der(T) + 0.5 * (T - outside) - sp.Piecewise((6.0, T < 20), (4.0, True)))
    return m, {}


def pendulum(**about: Any) -> Callable[[], Run]:
    return lambda: ("pendulum", {"t_end": 20.0, "events": [ds.Event(lambda u, t: u[0], **about)]})


def fast_function() -> Run:
    """A function that changes its sign several times in each step, besides dense output."""
    return "pendulum", {"t_end": 4.0, "events": [lambda u, t: np.sin(200.0 * t)], "dense": True}


def line() -> Run:
    """A line of sparse equations whose voltages are looked at."""
    return "transmission-line", {"t_end": 2.0, "events": [lambda u, t: u[14] - 0.2, lambda u, t: u[60]]}


RUNS: dict[str, Callable[[], Run]] = {
    **{"buck": buck, "buck model": buck_model, "regulated model": regulated_model, "ball": ball},
    **{"relay": relay, "stick-slip": stick_slip, "heater": heater, "thermostat": thermostat},
    **{
        "line": line,
        "pendulum": pendulum(),
        "seventh zero": pendulum(terminal=7),
        "fast function": fast_function,
    },
    **{name: lambda name=name: (name, {}) for name in ("water-tube", "discontinuous")},
}


def require_equal_zeros(ahead: Solution, alone: Solution) -> None:
    for one, other in zip((*ahead.events, *ahead.switches), (*alone.events, *alone.switches), strict=True):
        for values in ("t", "u", "direction"):
            np.testing.assert_array_equal(getattr(one, values), getattr(other, values))


@pytest.mark.parametrize("rtol", RTOLS)
@pytest.mark.parametrize("name", RUNS)
def test_steps_are_those_of_the_controller(monkeypatch: pytest.MonkeyPatch, name: str, rtol: float) -> None:
    problem, options = RUNS[name]()
    ahead, alone = solved_twice(monkeypatch, problem, rtol=rtol, **options)
    require_equal(ahead, alone)
    require_equal_zeros(ahead, alone)


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "esdirk43"])
@pytest.mark.parametrize("name", RUNS)
def test_steps_of_sweeps_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, sweeper: str
) -> None:
    problem, options = RUNS[name]()
    if problem == "pendulum" and sweeper == "esdirk43":
        pytest.skip("of index 3, for which it has no estimate")
    ahead, alone = solved_twice(monkeypatch, problem, rtol=1e-5, **{**options, "sweeper": sweeper})
    require_equal(ahead, alone)
    require_equal_zeros(ahead, alone)


@pytest.mark.parametrize("sweeper", ["radau-iia-5", "fully-implicit", "semi-implicit", "esdirk43", "bdf3"])
@pytest.mark.parametrize("name", sorted({*RUNS} - {"water-tube", "buck"}))  # its Newton iterations fail
def test_steps_of_one_size_are_those_of_the_controller(
    monkeypatch: pytest.MonkeyPatch, name: str, sweeper: str
) -> None:
    problem, options = RUNS[name]()
    end = options.get("t_end") or (ds.PROBLEMS[problem] if isinstance(problem, str) else problem).interval[1]
    options |= {"dt": end / 600.0, "sweeper": sweeper, **({"nodes": 3} if "implicit" in sweeper else {})}
    ahead, alone = solved_twice(monkeypatch, problem, **options)
    require_equal(ahead, alone)
    require_equal_zeros(ahead, alone)


@pytest.mark.parametrize(
    "about", [{}, {"sweeper": "esdirk43"}, {"sweeper": "bdf3", "rtol": None, "dt": 2e-3}]
)
@pytest.mark.parametrize("name", ["buck", "pendulum", "ball", "discontinuous"])
def test_most_steps_are_taken_ahead(
    monkeypatch: pytest.MonkeyPatch, name: str, about: dict[str, Any]
) -> None:
    problem, options = RUNS[name]()
    if (name == "buck" and "dt" in about) or (name == "pendulum" and about.get("sweeper") == "esdirk43"):
        pytest.skip("it takes other steps, or none")
    alone, altogether = steps_of_the_controller(monkeypatch, problem, **{**options, **about})
    assert alone <= (0.7 if name == "ball" else 0.6) * altogether


def test_a_function_that_fails_ends_the_run_at_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(u: Any, t: float) -> float:
        return float("nan") if t > 3.0 else float(u[0])

    ahead, alone = solved_twice(monkeypatch, "pendulum", rtol=1e-6, t_end=20.0, events=[function])
    assert not ahead.success and "returned nan" in ahead.message
    require_equal(ahead, alone)
    np.testing.assert_array_equal(ahead.events[0].t, alone.events[0].t)


def test_steps_before_a_zero_are_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    look = LocateEvents.look_ahead

    def looked(self: LocateEvents, L: Any, start: Any, taken: Any) -> int:
        plain = look(self, L, start, taken)
        left.append(len(taken.starts) - plain)
        return plain

    monkeypatch.setattr(LocateEvents, "look_ahead", looked)
    problem, options = heater()
    require_equal(*solved_twice(monkeypatch, problem, rtol=1e-6, **options))
    assert max(left) > 0


def test_zeros_behind_a_singular_point_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    m = ds.Model("fold", interval=(0.0, 2.0))
    x, y = m.variable("x", start=0.0, fixed=True), m.variable("y", start=1.0)
    m.equations(m.der(x) - 1, x + y**2 - 1)
    events = [lambda u, t: u[1] - 0.5, lambda u, t: np.sin(40.0 * t)]
    ahead, alone = solved_twice(monkeypatch, m, rtol=1e-6, events=events)
    assert not ahead.success and len(ahead.events[1]) > 3
    require_equal(ahead, alone)
    for one, other in zip(ahead.events, alone.events, strict=True):
        np.testing.assert_array_equal(one.t, other.t)


class Sooner(ds.DiscontinuousTestDAE):  # type: ignore[misc]
    """The derivative stops at y = 10 in place of 50."""

    def event(self, u: Any, t: float) -> float:
        return 2.0 * float(u[0]) - 20.0


def test_another_event_of_a_subclass_is_the_one_that_is_located() -> None:
    found = ds.solve(Sooner, rtol=1e-8, u0=[np.cosh(1.0), np.sinh(1.0)])
    assert found.switches[0].t == pytest.approx([np.arccosh(10.0)], abs=1e-7)
    assert found.u[-1, 0] == pytest.approx(10.0, abs=1e-6)
