"""Examples of switching models at three tolerances, with all times, beside their exact solutions."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from pySDC.core.hooks import Hooks
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

import dae_sdc as ds
from dae_sdc.control import events
from dae_sdc.modelica.reader import read_modelica_text

TOLERANCES = (1e-4, 1e-6, 1e-9)


def times_of(solution: ds.Solution) -> Any:
    return np.sort(np.concatenate([np.zeros(0), *(record.t for record in solution.switches)]))


def test_the_other_side_of_a_zero_is_looked_for_near_the_end_of_its_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places, scan, examine = list[float](), events._Watch.scan, events.LocateEvents.examine

    def scanned(self: Any, value: Any, thetas: Any, *others: Any) -> Any:
        places.append(max(thetas))
        return scan(self, value, thetas, *others)

    def repeated(self: Any, step: Any) -> Any:  # as a step that is to end at a zero and does not
        self.aim = self.aim and self.aim._replace(attempts=60)
        return examine(self, step)

    monkeypatch.setattr(events._Watch, "scan", scanned)
    monkeypatch.setattr(events.LocateEvents, "examine", repeated)
    m = ds.Model("clipped", interval=(0.0, 3.0))
    x, v, y = m.variables("x v y", start=[1.0, 0.0, None])
    m.equations(m.der(x) - v, m.der(v) + x + y, y - sp.Piecewise((0.0, x < 0.3), (3.0 * (x - 0.3), True)))
    assert ds.solve(m, rtol=1e-6).success
    assert 1.0 < max(places) < 1.0 + 1e-4


def test_a_zero_lies_between_values_whose_product_is_too_small_for_a_number() -> None:
    watch = events._Watch("least", 1)
    assert watch.zero_between(lambda theta: 5e-324, 0.0, 1.0, 1e-12) in (0.0, 1.0)


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("restitution", [0.8, 0.9])
def test_a_ball_bounces_twenty_times(restitution: float, rtol: float) -> None:
    m = ds.Model("ball", interval=(0.0, 10.0))
    h, v = m.variables("h v", start=[1.0, 0.0])
    m.equations(m.der(h) - v, m.der(v) + 9.81)
    m.when(h, {v: -restitution * v}, direction=-1)
    fall = np.sqrt(2.0 / 9.81)
    bounces = fall * (1.0 + 2.0 * np.cumsum(np.concatenate([[0.0], restitution ** np.arange(1, 21)])))
    solution = ds.solve(m, rtol=rtol, t_end=0.5 * (bounces[19] + bounces[20]))
    assert solution.success
    assert np.allclose(solution.events[0].t, bounces[:20], rtol=0.0, atol=10.0 * rtol)
    limit = fall * (1.0 + 2.0 * restitution / (1.0 - restitution))
    told = ds.solve(m, rtol=rtol, t_end=limit + 1.0)
    assert not told.success
    assert float(told.message.partition("tend to t=")[2].partition(";")[0]) == pytest.approx(
        limit, rel=10.0 * rtol
    )


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_clutch_closes_sticks_and_slips(rtol: float) -> None:
    """Two inertias 1 and 2, loads 1 + t and 1/2, and a clutch that holds 3: until the load is 4.25."""

    def clutch(t: float, u: Any, du: Any) -> list[Any]:
        first, second, torque = u
        return [
            *(du[0] - (1.0 + t - torque), du[1] - 0.5 * (torque - 0.5)),
            torque - 3.0 * np.sign(first - second),
        ]

    closes, slips, end = 3.25 - np.sqrt(3.25**2 - 2.0), 3.25, 6.0
    both = 1.25 * closes + (0.5 * (slips - closes) + 0.5 * (slips**2 - closes**2)) / 3.0
    fast, slow = both - 2.0 * (end - slips) + 0.5 * (end**2 - slips**2), both + 1.25 * (end - slips)
    solution = ds.solve(clutch, u0=[1.0, 0.0, 3.0], t_end=end, rtol=rtol)
    assert np.allclose(times_of(solution), [closes, slips], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(solution.u[-1], [fast, slow, 3.0], rtol=10.0 * rtol)
    assert solution(2.0)[2] == pytest.approx((2.0 * 3.0 + 0.5) / 3.0, abs=10.0 * rtol)


def pushed(t: float, u: Any, du: Any) -> list[Any]:
    """A block at rest, a push of 2 sin t, and Coulomb friction that holds 1."""
    _, v, friction = u
    return [du[0] - v, du[1] - 2.0 * np.sin(t) + friction, friction - np.sign(v)]


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_block_at_rest_sticks_from_its_start_on(rtol: float) -> None:
    begins = np.pi / 6.0
    turns = brentq(lambda t: 2.0 * (np.cos(begins) - np.cos(t)) - t + begins, 2.0, 5.0, xtol=1e-15)
    solution = ds.solve(pushed, u0=[0.0, 0.0, 0.0], t_end=4.0, rtol=rtol)
    assert solution.success and "slides along 'sign(u[1])' from t=0 on" in solution.message
    assert np.allclose(times_of(solution), [0.0, begins, turns], rtol=0.0, atol=10.0 * rtol)
    assert np.diff(solution.t).min() > 1e-6  # without switches again and again before it sticks
    times = np.array([0.0, 0.1, 0.3, 0.5])
    assert np.allclose(solution(times)[:, 2], 2.0 * np.sin(times), rtol=0.0, atol=10.0 * rtol)
    moves = np.linspace(0.6, 3.8, 9)
    speeds = 2.0 * (np.cos(begins) - np.cos(moves)) - moves + begins
    assert np.allclose(solution(moves)[:, 1], speeds, rtol=0.0, atol=10.0 * rtol)


def test_a_run_that_sticks_from_its_start_on_goes_on_to_the_last_bit(tmp_path: Path) -> None:
    class Break(Hooks):  # type: ignore[misc]
        def post_step(self, step: Any, level_number: int) -> None:
            if step.time + step.dt > 0.3:
                raise KeyboardInterrupt

    settings: dict[str, Any] = {"u0": [0.0, 0.0, 0.0], "t_end": 4.0, "rtol": 1e-8}
    whole = ds.solve(pushed, **settings)
    settings |= {"checkpoint": tmp_path / "pushed.npz", "every": 1}
    with pytest.raises(KeyboardInterrupt):
        ds.solve(pushed, hooks=[Break], **settings)
    again = ds.solve(pushed, resume=True, **settings)
    assert again.parameters["resumed_at"] < 0.3
    assert np.array_equal(again.t, whole.t) and np.array_equal(again.u, whole.u)
    assert np.array_equal(times_of(again), times_of(whole)) and again.message == whole.message


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_tank_runs_empty_and_fills_again(rtol: float) -> None:
    """A pump takes 1 as long as there is water; 0.5 + t / 4 comes in."""

    def tank(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - (0.5 + 0.25 * t - u[1]), u[1] - np.where(u[0] > 0.0, 1.0, 0.0)]

    empty = (0.5 - np.sqrt(0.15)) / 0.25
    solution = ds.solve(tank, u0=[0.2, 1.0], t_end=4.0, rtol=rtol)
    assert np.allclose(times_of(solution), [empty, 2.0], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(solution([1.5, 4.0]), [[0.0, 0.875], [0.5, 1.0]], rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_an_integrator_waits_while_its_limiter_is_at_its_end(rtol: float) -> None:
    """x' = w - x with w = 2 e + I within 1, e = 0.8 - x, and I' = e only where w is not limited."""

    def loop(t: float, u: Any, du: Any) -> list[Any]:
        x, integral, w = u
        wanted = 2.0 * (0.8 - x) + integral
        rate = (0.8 - x) * np.where(np.abs(wanted) < 1.0, 1.0, 0.0)
        return [du[0] + x - w, du[1] - rate, w - np.clip(wanted, -1.0, 1.0)]

    free = -np.log(0.35)  # x = 1 - 2 exp(-t) is 0.3
    a = np.array([[-3.0, 1.0, 1.6], [-1.0, 0.0, 0.8], [0.0, 0.0, 0.0]])
    solution = ds.solve(loop, u0=[-1.0, 0.0, 1.0], t_end=6.0, rtol=rtol)
    assert np.allclose(times_of(solution), [free], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(
        solution.u[-1, :2], (expm(a * (6.0 - free)) @ [0.3, 0.0, 1.0])[:2], rtol=0.0, atol=10.0 * rtol
    )


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_sampled_controller_is_that_of_its_recursion(rtol: float) -> None:
    m = ds.Model("controller", interval=(0.0, 3.0))
    x = m.variable("x", start=1.0, fixed=True)
    u, total = m.discrete("u"), m.discrete("total")
    m.equations(m.der(x) + x - u)
    m.when("sample(0, 0.1)", {total: total - 0.1 * x, u: total - 0.6 * x})
    state, integral, held = 1.0, 0.0, 0.0
    for k in range(31):  # the last sample is at the end
        held, integral = integral - 0.6 * state, integral - 0.1 * state
        state = held + (state - held) * np.exp(-0.1) if k < 30 else state
    solution = ds.solve(m, rtol=rtol)
    assert len(solution.events[0].t) == 31
    end = [solution[name][-1] for name in ("x", "u", "total")]
    assert np.allclose(end, [state, held, integral], rtol=0.0, atol=10.0 * rtol)


@pytest.fixture(scope="module")
def changes_of_flow() -> Any:
    """Times at which flows of water become turbulent or laminar, by another method and a small tolerance."""
    return times_of(ds.solve("water-tube", rtol=1e-11, nodes=5))


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_flows_of_a_water_tube_change_at_their_times(rtol: float, changes_of_flow: Any) -> None:
    found = times_of(ds.solve("water-tube", rtol=rtol))
    assert len(changes_of_flow) == 10
    assert np.allclose(found, changes_of_flow, rtol=0.0, atol=10.0 * rtol * 61200.0)


CHOPPER = """model Buck_Rvar "Modelica's diode and transistor, whose Newton iterations did not end"
  model Valve
    parameter Real Ron = 1e-5, Goff = 1e-5;
    Real v, i, s;
    Boolean off;
  equation
    v = s*(if off then 1 else Ron);
    i = s*(if off then Goff else 1);
  end Valve;
  Valve diode, transistor;
  parameter Real V = 24, L = 1e-3, C = 1e-4;
  Boolean fire = mod(time, 1e-4) < 2.5e-5;
  Real R, x, iL(start=0.7, fixed=true), vC(start=6, fixed=true);
equation
  diode.off = diode.s < 0;
  transistor.off = transistor.s < 0 or not fire;
  R = if time < 4e-4 then 8 else 200;
  transistor.v = V - x;
  diode.v = -x;
  transistor.i + diode.i = iL;
  L*der(iL) = x - vC;
  C*der(vC) = iL - vC/R;
  annotation(experiment(StopTime=1.17e-3));
end Buck_Rvar;
"""


def chopper() -> tuple[list[float], Any]:
    """Times at which its diode blocks between the pulses, and current and voltage at the end."""
    on, off, supply, inductance, capacity = 1e5, 1e-5, 24.0, 1e-3, 1e-4

    def flow(state: Any, valves: tuple[float, float], load: float, t: float) -> Any:
        transistor, diode = valves  # conductances; x = (transistor V - i) / (transistor + diode)
        both = transistor + diode
        a = np.zeros((3, 3))
        a[0] = [-1.0 / both / inductance, -1.0 / inductance, transistor * supply / both / inductance]
        a[1] = [1.0 / capacity, -1.0 / (load * capacity), 0.0]
        return (expm(a * t) @ [*state, 1.0])[:2]

    state, stops = np.array([0.7, 6.0]), []
    for k in range(12):
        load, rest = 8.0 if k < 4 else 200.0, 7.5e-5 if k < 11 else 4.5e-5
        state = flow(state, (on, off), load, 2.5e-5)

        def current(t: float, state: Any = state, load: float = load) -> float:
            i = flow(state, (off, on), load, t)[0]
            return float(i - off * supply)  # the diode has i less what the transistor leaks

        if current(rest) > 0.0:
            state = flow(state, (off, on), load, rest)
            continue
        zero = brentq(current, 0.0, rest, xtol=1e-18)
        stops.append(k * 1e-4 + 2.5e-5 + zero)
        state = flow(flow(state, (off, on), load, zero), (off, off), load, rest - zero)
    return stops, state


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_converter_of_valves_with_a_parameter_runs_into_discontinuous_conduction(rtol: float) -> None:
    """OpenModelica 12246, whose text tells the equations of the valves and the times of the pulses."""
    stops, end = chopper()
    assert len(stops) >= 4
    solution = ds.solve(read_modelica_text(CHOPPER), rtol=rtol)
    assert solution.success, solution.message
    known = np.sort(np.concatenate([1e-4 * np.arange(1, 12), 1e-4 * np.arange(12) + 2.5e-5, stops]))
    found = np.unique(times_of(solution).round(15))
    assert np.allclose(found, known, rtol=0.0, atol=10.0 * rtol * 1e-4)
    last = [solution["iL"][-1], solution["vC"][-1]]
    assert np.allclose(last, end, rtol=0.0, atol=10.0 * rtol * np.array([1.0, 6.0]))


IDEAL_CHOPPER = """model Ideal_chopper "A diode without resistance, and a Boolean that tells of it alone"
  Real i(start=0, fixed=true), v(start=0, fixed=true), x, transistor, diode, s;
  Boolean on = mod(time, 1) < 0.4, off;
equation
  der(i) = x - v;
  2*der(v) = i - v/30;
  transistor + diode = i;
  if on then x = 10; else transistor = 0; end if;
  off = s < 0;
  -x = if off then s else 0;
  diode = if off then 0 else s;
  annotation(experiment(StopTime=1000));
end Ideal_chopper;
"""


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_boolean_that_tells_of_a_diode_hides_no_mode_in_a_long_run(rtol: float) -> None:
    """The first five of a thousand periods, of which the run is to end by an event."""
    a = np.array([[0.0, -1.0, 0.0], [0.5, -1.0 / 60.0, 0.0], [0.0, 0.0, 0.0]])
    driven, coil_off = a.copy(), a.copy()
    driven[0, 2] = 10.0
    coil_off[:2, 0] = coil_off[0, 1] = 0.0
    state, known = np.array([0.0, 0.0, 1.0]), []
    for k in range(5):
        state, rest = expm(0.4 * driven) @ state, 0.6
        known += [k + 0.4, k + 1.0]
        if (expm(rest * a) @ state)[0] < 0.0:
            zero = brentq(lambda t, s=state: (expm(t * a) @ s)[0], 0.0, rest, xtol=1e-15)
            state, rest = expm(zero * a) @ state, rest - zero
            state[0] = 0.0
            known.insert(-1, k + 0.4 + zero)
            state = expm(rest * coil_off) @ state
        else:
            state = expm(rest * a) @ state
    assert len(known) == 12
    solution = ds.solve(read_modelica_text(IDEAL_CHOPPER), events="time - 5; terminal", rtol=rtol)
    assert "ended at event" in solution.message, solution.message
    found = np.unique(times_of(solution).round(14))
    assert np.allclose(found, known[:-1], rtol=0.0, atol=10.0 * rtol)
    last = [solution["i"][-1], solution["v"][-1]]
    assert np.allclose(last, state[:2], rtol=0.0, atol=10.0 * rtol * (1.0 + np.abs(state[:2])))


# Modelica with noEvent and smooth, ends, values at t = 1, and times at which a value or a slope jumps.
WITHOUT_EVENTS = {
    "an outlet": ("h(start=1)", "der(h) = -noEvent(if h > 0 then sqrt(h) else 0);", 0.0, 0.25, []),
    "a ramp": ("h(start=0)", "der(h) = smooth(0, if time < 1 then time else 1);", 2.5, 0.5, [1.0]),
    "a jump": ("h(start=0)", "der(h) = 1.5 + noEvent(if h > 0.5 then -1 else 1);", 1.9, 0.9, [0.2]),
}


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("name", WITHOUT_EVENTS)
def test_what_is_written_without_events_is_right_all_the_same(name: str, rtol: float) -> None:
    start, equation, end, at_one, jumps = WITHOUT_EVENTS[name]
    declared = start.replace(")", ", fixed=true)")
    solution = ds.solve(
        read_modelica_text(f"model W Real {declared}; equation {equation} end W;"), t_end=3.0, rtol=rtol
    )
    assert solution.success, solution.message
    assert np.allclose([solution["h"][-1], solution(1.0)[0]], [end, at_one], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(times_of(solution), jumps, rtol=0.0, atol=10.0 * rtol)


def test_what_jumps_without_an_impulse_is_told_without_one() -> None:
    """ModelicaSpecification 2411."""
    text = "model M Real x; equation if time < 0.5 then der(x) = 10; else x = -5; end if; end M;"
    solution = ds.solve(read_modelica_text(text), t_end=1.0, rtol=1e-6)
    assert "'x' jumps from 5 to -5" in solution.message and "impulse" not in solution.message


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", ["model", "function", "modelica"])
def test_a_mode_is_changed_by_events_of_another_unknown(how: str, rtol: float) -> None:
    """ModelingToolkit 3928: x' = mode, and v' = d goes up and down between 0 and 10, with a mode above 5."""

    def function(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - u[2], du[1] - u[3], du[2], du[3]]

    if how == "modelica":
        m: Any = read_modelica_text(
            "model Modes Real x(start=0, fixed=true), v(start=0, fixed=true); Boolean mode(start=false); "
            "discrete Real d(start=10); equation der(x) = if mode then 1 else 0; der(v) = d; "
            "when v > 5 then mode = true; elsewhen v < 5 then mode = false; end when; "
            "when v > 10 then d = -10; elsewhen v < 0 then d = 10; end when; "
            "annotation(experiment(StopTime=5.3)); end Modes;"
        )
    else:
        m = ds.Model("modes", interval=(0.0, 5.3))
        x, v = m.variable("x", start=0.0, fixed=True), m.variable("v", start=0.0, fixed=True)
        mode, d = m.discrete("mode"), m.discrete("d", 10.0)
        m.equations(m.der(x) - mode, m.der(v) - d)
        m.when(v > 5, {mode: 1})
        m.when(v < 5, {mode: 0})
        m.when(v > 10, {d: -10})
        m.when(v < 0, {d: 10})
    options: dict[str, Any] = {"rtol": rtol}
    if how == "function":
        options |= {"u0": {"x": 0.0, "v": 0.0, "mode": 0.0, "d": 10.0}, "t_end": 5.3}
        options["events"] = ["v > 5; mode = 1", "v < 5; mode = 0", "v > 10; d = -10", "v < 0; d = 10"]
    solution = ds.solve(function if how == "function" else m, **options)
    assert solution.success, solution.message
    events = np.sort(np.concatenate([record.t for record in solution.events]))
    assert np.allclose(events, 0.5 * np.arange(1, 11), rtol=0.0, atol=10.0 * rtol)
    end = [solution[name][-1] for name in ("x", "v", "mode", "d")]
    assert np.allclose(end, [2.8, 7.0, 1.0, -10.0], rtol=10.0 * rtol)
    assert np.allclose(solution([0.4, 1.2, 2.2])[:, 0], [0.0, 0.7, 1.0], rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("border", [-0.7, -0.1, 0.3])
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_what_rests_at_a_border_is_on_its_side_between_steps_too(border: float, rtol: float) -> None:
    # Behind its zero the integrator stays at its limit, on either side of which rounding leaves it.
    m = ds.Model("limited", interval=(0.0, 4.0))
    x, y, w = m.variables("x y w", start=[1.0, 1.0, None], fixed=[True, True, False])
    inside = x > border
    m.equation(m.der(y) + y - sp.sin(3 * m.t))
    m.equation(m.der(x) - sp.Piecewise((-1 - 0.3 * y**2, inside), (0, True)))
    m.equation(w - sp.Piecewise((5 + y, inside), (-15 * y, True)))
    solution = ds.solve(m, rtol=rtol)
    (reached,) = solution.switches[0].t
    before = solution.at(np.linspace(0.0, reached)[:-1])
    behind = solution.at(np.linspace(reached, 4.0)[1:])
    assert before["w"] == pytest.approx(5.0 + before["y"], rel=1e-13)
    assert behind["w"] == pytest.approx(-15.0 * behind["y"], rel=1e-13)


def bridge() -> ds.Model:
    """Three inductors in a star, whose currents are no three states, at a bridge of six diodes: index 2."""
    model = ds.Model("bridge", interval=(0.0, 0.04))
    currents = model.variables("i1 i2 i3", start=[None, 0.0, 0.0], fixed=[False, True, True])
    star = model.variable("n")
    for k, current in enumerate(currents, 1):
        v, above, below, i_above, i_below = model.variables(
            [f"{name}{k}" for name in ("v", "a", "b", "p", "q")]
        )
        source = 100 * sp.sin(100 * sp.pi * model.t - 2 * sp.pi * (k - 1) / 3)
        model.equation(LINE * model.der(current) - (star + source - v))
        model.equation(current - (i_above - i_below))
        for voltage, s, i in ((v - LOAD, above, i_above), (-LOAD - v, below, i_below)):
            off = s < 0
            model.equation(voltage - (s * sp.Piecewise((1, off), (ON, True)) + KNEE))
            model.equation(i - (s * sp.Piecewise((OFF, off), (1, True)) + OFF * KNEE))
    model.equation(sum(currents))
    return model


LINE, LOAD, ON, OFF, KNEE = 1e-4, 60.0, 1e-3, 1e-3, 2.0
"""Inductance, half of the voltage of the load, resistance and conductance of diodes, and their knee."""


def line_voltage(current: Any) -> Any:
    """The voltage of a line of the bridge by its current: of one diode above, one below, or neither."""
    part = np.abs(current)
    # Both diodes leak below the knee; above it (v - E - K)/R + G K + G (E + v) = i.
    on = (part - OFF * (KNEE + LOAD) + (LOAD + KNEE) / ON) / (1.0 / ON + OFF)
    return np.sign(current) * np.where(part <= 2.0 * OFF * (LOAD + KNEE), part / (2.0 * OFF), on)


@cache
def bridge_currents() -> tuple[Any, Any]:
    """Times, and the currents i2 and i3 there by SciPy's Radau method in these two states."""

    def rates(t: float, i: Any) -> Any:
        every = np.array([-i[0] - i[1], *i])
        v = line_voltage(every)
        source = 100.0 * np.sin(100.0 * np.pi * t - 2.0 * np.pi * np.arange(3) / 3)
        return ((v.mean() - source.mean() + source - v) / LINE)[1:]

    times = np.linspace(0.0, 0.04, 9)
    limits: Any = {"method": "Radau", "rtol": 1e-10, "atol": 1e-10, "max_step": 1e-4}
    return times, solve_ivp(rates, (0.0, 0.04), [0.0, 0.0], t_eval=times, **limits).y


@pytest.mark.parametrize("settings", [{}, {"simplify": True}, {"rtol": 1e-5}], ids=str)
def test_a_bridge_behind_inductors_in_a_star_switches_where_it_must(settings: dict[str, Any]) -> None:
    # Behind a switch transients last L/(2 G) = 50 ns or less, much shorter than steps are.
    options = {"rtol": 1e-7, **settings}
    run, (times, exact) = ds.solve(bridge(), **options), bridge_currents()
    assert run.success, run.message
    found = np.array([run.at(times).values(name) for name in ("i2", "i3")])
    assert np.abs(found - exact).max() < 100.0 * options["rtol"] * np.abs(exact).max()


@pytest.mark.parametrize("rtol", [1e-4, 1e-6])
@pytest.mark.parametrize("simplify", [False, True])
@pytest.mark.parametrize("tells", [False, True])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_comparator_jumps_where_its_branch_folds_back(
    sign: float, tells: bool, simplify: bool, rtol: float
) -> None:
    # An amplifier of gain G between the limits -L and L sees s a sin(w t) + b out. At out = L it leaves the
    # limit where that has fallen to L / G, and the only other solution is out = -L.
    gain, limit, a, b, w = 1e4, 15.0, 7.0, 0.3, math.pi
    m = ds.Model("comparator", interval=(0.0, 4.0))
    x, y, seen, out = m.variables("x y seen out", start=[0.0, 1.0, None, None])
    m.equations(m.der(x) - w * y, m.der(y) + w * x, seen - sign * a * x - b * out)
    limited = sp.Piecewise(
        (limit, gain * seen >= limit), (-limit, gain * seen <= -limit), (gain * seen, True)
    )
    m.equation(out - limited)
    if tells:  # which changes nothing, but jumps at the same border
        saturated = m.variable("saturated")
        m.equation(saturated - sp.Piecewise((1.0, gain * seen >= limit), (0.0, True)))
    guesses = {"seen": -0.3 * limit, "out": -limit}
    run = ds.solve(m, rtol=rtol, simplify=simplify, u0={"x": 0.0, "y": 1.0}, guesses=guesses)
    assert run.success
    first = math.asin((b * limit - limit / gain) / a) / w + (0.0 if sign > 0.0 else 1.0)
    exact = np.arange(first, 4.0, 1.0)
    seen_at = next(record for record in run.switches if f">= {limit:g}" in record.name)
    np.testing.assert_allclose(seen_at.t, exact, atol=rtol)
    places = np.linspace(0.0, 4.0, 81)
    output = limit * (-1.0) ** (1 + np.searchsorted(exact, places))
    np.testing.assert_allclose(run.at(places).values("out"), output, rtol=1e-6)
    if tells:
        np.testing.assert_allclose(run.at(places).values("saturated"), output > 0.0, atol=1e-9)


@pytest.mark.parametrize("simplify", [False, True])
def test_a_difference_of_equal_unknowns_does_not_switch_by_rounding(simplify: bool) -> None:
    # The source of a transistor is the larger one of two voltages, v, so that v < source never holds.
    def transistor(tells: bool) -> ds.Model:
        m = ds.Model("transistor", interval=(0.0, 0.02))
        c, v, source, bulk, i = m.variables("c v source bulk i", start=[0.0, None, None, None, None])
        m.equation(v - sp.Piecewise((500.0 * m.t, m.t < 0.01), (5.0, True)))
        m.equations(source - sp.Piecewise((v, c < v), (c, True)), 1e-4 * m.der(c) - 0.1 * i)
        m.equation(bulk - (sp.Piecewise((0.0, v < source), (v - source, True)) if tells else 0))
        m.equation(i - (source - c + 0.1 * bulk) / 3.0 * (1.0 + source**2))
        return m

    run, other = (ds.solve(transistor(tells), rtol=1e-6, simplify=simplify) for tells in (True, False))
    assert run.success and next(len(r) for r in run.switches if r.name == "v < source") == 0
    assert run.values("c")[-1] == pytest.approx(other.values("c")[-1], rel=1e-5)
