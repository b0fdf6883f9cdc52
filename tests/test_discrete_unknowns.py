"""Unknowns that events alone change: thermostats, counters, sampled controllers, and conditions as events."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from pySDC.core.hooks import Hooks

import dae_sdc as ds
from dae_sdc.modelica.reader import read_modelica_text

HEATER = """
model Heater
  parameter Real P = 10;
  Real T(start=18, fixed=true);
  Boolean on(start=true);
  Integer n(start=0);
equation
  der(T) = (if on then P else 0) - 0.5*(T - 10);
  when T > 21 then
    on = false;
  elsewhen T < 19 then
    on = true;
  end when;
  when {on, not on} then
    n = pre(n) + 1;
  end when;
  annotation(experiment(StopTime=5));
end Heater;
"""
SAMPLED = """
model Sampled
  parameter Real T = 0.1, K = 2;
  Real x(start=1, fixed=true), y;
  discrete Real u(start=0), I(start=0), err;
equation
  der(x) = -x + u;
  y = 3*x;
  when sample(0, T) then
    u = K*err + I;
    err = 1 - y;
    I = pre(I) + T*err;
  end when;
end Sampled;
"""


def heater() -> ds.Model:
    model = ds.Model("heater", interval=(0.0, 5.0))
    T, P = model.variable("T", 18.0, fixed=True), model.parameter("P", 10.0)
    on, n = model.discrete("on", 1.0), model.discrete("n")
    model.equations(model.der(T) - P * on + (T - 10) / 2)
    model.when(T > 21, {on: 0, n: n + 1})
    model.when(T < 19, {on: 1, n: n + 1})
    return model


def heater_of_function(t: float, u: Any, du: Any, P: float = 10.0) -> list[Any]:
    T, on, _ = u
    return [du[0] - P * on + 0.5 * (T - 10.0), du[1], du[2]]


OF_FUNCTION: dict[str, Any] = {
    "u0": {"T": 18.0, "on": 1.0, "n": 0.0},
    "t_end": 5.0,
    "events": ["T > 21; on = 0; n = n + 1", "T < 19; on = 1; n = n + 1"],
}


def heater_times(until: float = 5.0) -> tuple[list[float], list[float]]:
    """Times at which the heater is switched off and on: T tends to 30 or 10 at the rate 1/2."""
    time, offs, ons = 2.0 * np.log((30 - 18) / (30 - 21)), [], []
    while time < until:
        offs.append(time)
        time += 2.0 * np.log((21 - 10) / (19 - 10))
        ons += [time] if time < until else []
        time += 2.0 * np.log((30 - 19) / (30 - 21))
    return offs, ons


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("simplify", [True, False])
@pytest.mark.parametrize("kind", ["model", "modelica", "function"])
def test_a_thermostat_switches_at_its_times(kind: str, simplify: bool, rtol: float) -> None:
    settings: dict[str, Any] = OF_FUNCTION if kind == "function" else {"simplify": simplify}
    equations: Any = {"model": heater, "modelica": lambda: ds.read_modelica_text(HEATER)}.get(
        kind, lambda: heater_of_function
    )()
    run = ds.solve(equations, rtol=rtol, **settings)
    offs, ons = heater_times()
    assert run.success
    for event, times in zip(run.events[:2], (offs, ons), strict=True):
        assert event.t == pytest.approx(times, rel=10 * rtol)
    assert run["n"][-1] == len(offs) + len(ons) and run["on"][-1] == 1.0
    last = 30 - (30 - 19) * np.exp(-0.5 * (5.0 - ons[-1]))
    assert run["T"][-1] == pytest.approx(last, rel=10 * rtol)


def sampled(until: int, T: float = 0.1, K: float = 2.0) -> np.ndarray[Any, Any]:
    """x, u and I behind each sample of the controller."""
    x, u, integral, rows = 1.0, 0.0, 0.0, []
    for _ in range(until):
        error = 1 - 3 * x
        integral += T * error
        u = K * error + integral
        rows.append((x, u, integral))
        x = u + (x - u) * np.exp(-T)
    return np.array(rows)


@pytest.mark.parametrize(
    "settings",
    [
        *({"rtol": 1e-4}, {"rtol": 1e-6}, {"rtol": 1e-9}, {"rtol": 1e-6, "simplify": True}),
        *({"rtol": 1e-6, "sweeper": "fully-implicit"}, {"dt": 0.04, "sweeper": "radau-iia-9"}),
        {"rtol": 1e-6, "params": {"T": 0.25}},
    ],
    ids=str,
)
def test_a_sampled_controller_acts_from_its_first_sample_on(settings: dict[str, Any]) -> None:
    T, rtol = settings.get("params", {}).get("T", 0.1), settings.get("rtol", 1e-9)
    between = np.arange(0.5, 1.0 / T - 0.6) * T
    run = ds.solve(ds.read_modelica_text(SAMPLED), t_eval=between, t_end=1.0, **settings)
    x, u, integral = sampled(len(between), T).T
    assert run.events[0].t == pytest.approx(np.arange(round(1.0 / T) + 1) * T, abs=1e-12)
    assert run["u"] == pytest.approx(u, rel=10 * rtol) and run["I"] == pytest.approx(integral, rel=10 * rtol)
    assert run["x"] == pytest.approx(u + (x - u) * np.exp(-T / 2), rel=10 * rtol)
    assert run["y"] == pytest.approx(3 * run["x"], rel=1e-12)


def test_a_sampled_run_goes_on_from_a_checkpoint_as_if_it_had_not_ended(tmp_path: Path) -> None:
    model = ds.read_modelica_text(SAMPLED)
    settings: dict[str, Any] = {"rtol": 1e-6, "checkpoint": tmp_path / "c.npy", "every": 3}
    whole = ds.solve(model, **settings)
    tmp_path.joinpath("c.npy.npz").unlink()

    class Interrupt(Hooks):  # type: ignore[misc]
        def post_step(self, step: Any, level_number: int) -> None:
            if step.levels[0].time > 0.55:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.solve(model, hooks=[Interrupt], **settings)
    resumed = ds.solve(model, resume=True, **settings)
    assert resumed.parameters["resumed_at"] > 0.3
    assert np.array_equal(resumed.u, whole.u) and np.array_equal(resumed.t, whole.t)


def test_of_alternatives_the_first_happens() -> None:
    text = """model Two
      Real x(start=0, fixed=true); Integer a(start=0), b(start=0);
    equation
      der(x) = a;
      when sample(0, 1) then a = pre(a) + 1; b = pre(b);
      elsewhen sample(0, 0.5) then a = pre(a); b = pre(b) + 1; end when;
      annotation(experiment(StopTime=2.75));
    end Two;"""
    run = ds.solve(ds.read_modelica_text(text), rtol=1e-6)
    assert (run["a"][-1], run["b"][-1]) == (3.0, 3.0)
    assert run["x"][-1] == pytest.approx(1 + 2 + 3 * 0.75, rel=1e-9)


@pytest.mark.parametrize("simplify", [True, False])
def test_values_of_one_time_are_those_behind_it_in_any_order(simplify: bool) -> None:
    text = """model Chain
      Real x(start=1, fixed=true), y, z, w;
      discrete Real a(start=0), b(start=0), c(start=0), d(start=0);
    equation
      der(x) = -x + c; y = 3*x; z = 2*b + x; w = z + 1;
      when sample(0, 0.1) then c = w - pre(c); d = pre(a) + time; end when;
      when sample(0, 0.1) then b = 1 - a; end when;
      when sample(0, 0.1) then a = pre(a) + y; end when;
    end Chain;"""
    run = ds.solve(ds.read_modelica_text(text), rtol=1e-9, t_end=0.95, simplify=simplify)
    x, a, b, c, d = 1.0, 0.0, 0.0, 0.0, 0.0
    for k in range(10):
        d, a = a + k * 0.1, a + 3 * x
        b = 1 - a
        c = 2 * b + x + 1 - c
        x = c + (x - c) * np.exp(-0.1 if k < 9 else -0.05)
    assert [run[name][-1] for name in "xabcd"] == pytest.approx([x, a, b, c, d], rel=1e-8)


@pytest.mark.parametrize(
    ("declared", "equations"),
    [
        (
            "Boolean b(start = false)",
            "when time > 1 then b = true; elsewhen pre(b) then b = false; end when;",
        ),
        ("Boolean b(start = false)", "when {time > 1, pre(b)} then b = not pre(b); end when;"),
        (
            "Integer k(start = 0)",
            "when {time > 1, pre(k) == 1, pre(k) == 2} then k = if pre(k) == 2 then 0 else pre(k) + 1;"
            " end when;",
        ),
    ],
)
def test_what_holds_for_one_turn_of_an_event_is_seen(declared: str, equations: str) -> None:
    holds = "b" if declared.startswith("Boolean") else "k == 1"
    text = f"""model Pulse
      {declared}; discrete Real n(start = 0, fixed = true);
    equation
      {equations} when {holds} then n = pre(n) + 1; end when;
    end Pulse;"""
    solution = ds.solve(ds.read_modelica_text(text), rtol=1e-6, t_end=2.0)
    assert np.allclose(solution.at([0.5, 1.5]).values("n"), [0.0, 1.0], atol=1e-12)
    assert abs(solution.at([1.5]).values(declared.split()[1][0])[0]) < 1e-12


@pytest.mark.parametrize(
    ("condition", "rate", "happens"),
    [
        ("time > 0", 0.0, True),
        ("time >= 0", 0.0, False),  # It holds at the start, and does not begin to hold.
        ("x > 0", 1.0, True),
        ("x >= 0", 1.0, False),
        ("x < 0", -1.0, True),
        ("x <= 0", -1.0, False),
        ("x > 0", -1.0, False),
        ("x > 0 and time > 0", 1.0, True),
        ("x < 0 or time > 0", 1.0, True),
    ],
)
@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
def test_a_condition_that_is_at_its_border_at_the_start_begins_to_hold_there(
    condition: str, rate: float, happens: bool, rtol: float
) -> None:
    text = f"""model Border
      Real x(start = 0, fixed = true); discrete Real z(start = 0, fixed = true);
    equation
      der(x) = {rate}; when {condition} then z = pre(z) + 1; end when;
    end Border;"""
    solution = ds.solve(ds.read_modelica_text(text), rtol=rtol, t_end=1.0)
    assert np.allclose(solution.at([0.01, 0.5, 1.0]).values("z"), happens, atol=1e-12)


@pytest.mark.parametrize(("required", "rate", "ends"), [("<", 1.0, 0.0), ("<=", 1.0, 0.0), ("<=", -1.0, 1.0)])
def test_what_is_required_counts_at_its_border_at_the_start(required: str, rate: float, ends: float) -> None:
    text = f"""model Border
      Real x(start = 2, fixed = true); equation der(x) = {rate}; assert(x {required} 2, "too high");
    end Border;"""
    solution = ds.solve(ds.read_modelica_text(text), rtol=1e-6, t_end=1.0)
    assert solution.success is (ends > 0.0) and solution.t[-1] == pytest.approx(ends, abs=1e-9)


@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-9])
def test_steps_of_the_time_are_counted_where_rounding_puts_their_places(rtol: float) -> None:
    text = """model Counts
      Integer count(start = 0, fixed = true); Real x(start = 1, fixed = true);
    equation
      der(x) = -x;
      when integer(time/0.1) > pre(count) then count = pre(count) + 1; end when;
    end Counts;"""
    solution = ds.solve(ds.read_modelica_text(text), rtol=rtol, t_end=0.95)
    times = 0.05 + 0.1 * np.arange(10)
    assert np.allclose(solution.at(times).values("count"), np.arange(10), atol=1e-12)


@pytest.mark.parametrize("simplify", [False, True])
def test_of_several_assignments_in_an_algorithm_the_last_holds(simplify: bool) -> None:
    text = """model Turns
      discrete Real x(start = 0, fixed = true), y(start = 0, fixed = true);
    algorithm
      when sample(1, 1) then x := pre(x) + 1; y := 1; end when;
      when time >= 2 then x := 10; end when;
      when x > 5 then y := 2; end when;
      annotation(experiment(StopTime = 3.5));
    end Turns;"""
    solution = ds.solve(ds.read_modelica_text(text), rtol=1e-6, simplify=simplify)
    between = solution.at([0.5, 1.5, 2.5, 3.5])
    assert np.allclose(between.values("x"), [0.0, 1.0, 10.0, 11.0], atol=1e-12)
    assert np.allclose(between.values("y"), [0.0, 1.0, 2.0, 1.0], atol=1e-12)


def test_values_that_depend_on_each_other_settle_or_are_refused() -> None:
    text = """model Loop
      Real x(start=1, fixed=true), z; discrete Real a(start=0); parameter Real k = 0.1;
    equation
      der(x) = -x; z = k*a + 1;
      when sample(0, 0.5) then reinit(x, a); a = z + pre(a); end when;
    end Loop;"""
    model = ds.read_modelica_text(text)
    run = ds.solve(model, rtol=1e-8, t_end=0.9)
    a = (1 + 1 / 0.9) / 0.9
    assert run["a"][-1] == pytest.approx(a, rel=1e-10)
    assert run["x"][-1] == pytest.approx(a * np.exp(-0.4), rel=1e-7)
    refused = ds.solve(model, rtol=1e-8, t_end=0.9, params={"k": 1.5})
    assert not refused.success and "do not settle at t=0: they depend on each other" in refused.message


def test_a_ball_counts_its_bounces_and_stops() -> None:
    text = """model Ball
      parameter Real e = 0.8;
      Real h(start=1, fixed=true), v(start=0, fixed=true); Integer n(start=0);
    equation
      der(h) = v; der(v) = -9.81;
      when h <= 0 then
        reinit(v, -e*pre(v)); n = pre(n) + 1;
      end when;
      when n >= 4 then terminate("enough"); end when;
      annotation(experiment(StopTime=9));
    end Ball;"""
    run = ds.solve(ds.read_modelica_text(text), rtol=1e-8)
    fall = np.sqrt(2.0 / 9.81)
    times = fall * (1.0 + 2.0 * np.cumsum([0.0, 0.8, 0.64, 0.512]))
    assert run.events[0].t == pytest.approx(times, rel=1e-7)
    assert run.t[-1] == run.events[0].t[-1] and run.success and run.message.startswith("enough at t=2.214")


CONDITIONS: dict[str, Callable[[float], bool]] = {
    "x > 0.5 and y > 0.5": lambda t: np.sin(t) > 0.5 and np.cos(t) > 0.5,
    "x > 0.5 or y < -0.5": lambda t: np.sin(t) > 0.5 or np.cos(t) < -0.5,
    "not (x > 0.5 or y > 0.5)": lambda t: not (np.sin(t) > 0.5 or np.cos(t) > 0.5),
    "0.25 < x <= 0.75": lambda t: 0.25 < np.sin(t) <= 0.75,
    "x*y >= 0.3 and not x < 0": lambda t: np.sin(t) * np.cos(t) >= 0.3 and not np.sin(t) < 0,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_an_event_is_where_a_condition_begins_to_hold(condition: str) -> None:
    def circle(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - u[1], du[1] + u[0]]

    run = ds.solve(circle, u0={"x": 0.0, "y": 1.0}, t_end=13.0, rtol=1e-9, events=[condition])
    grid = np.linspace(0.0, 13.0, 130_001)
    holds = np.array([CONDITIONS[condition](t) for t in grid.tolist()])
    begins = grid[1:][holds[1:] & ~holds[:-1]]
    assert len(begins) > 1 and run.events[0].t == pytest.approx(begins, abs=1.1e-4)


def test_values_are_chosen_by_conditions_and_keep_all_digits() -> None:
    model = ds.Model("clock", interval=(0.0, 1.0))
    x, d = model.variable("x", 0.1, fixed=True), model.discrete("d", 1.0 / 3.0)
    model.equations(model.der(x) - 1)
    third = 0.1 + 1.0 / 3.0
    model.when(x > third, {d: sympy.Piecewise((d + 0.1, d < 0.5), (0, True)), x: sympy.Max(x, 0.1) % 1.0})
    run = ds.solve(model, rtol=1e-6)
    assert run.events[0].t == pytest.approx([1.0 / 3.0], rel=1e-14)
    assert run["d"][-1] == 1.0 / 3.0 + 0.1


def test_choices_by_equality_are_made_and_those_without_a_value_refused() -> None:
    model = ds.Model("clock", interval=(0.0, 2.5))
    x, d = model.variable("x", 0.0, fixed=True), model.discrete("d")
    model.equations(model.der(x) - 1)
    model.when("sample(0, 1)", {d: sympy.Piecewise((5, sympy.Eq(d, 1)), (d + 1, True))})
    assert ds.solve(model, rtol=1e-6)["d"][-1] == 6.0
    with pytest.raises(ds.InputError, match="no value where none of its conditions holds; add"):
        model.when(x > 1, {d: sympy.Piecewise((3, x < 0.2), (4, x > 0.9))})


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("x > 1; rising", "happens where its condition begins to hold; leave rising and falling out"),
        ("x == 1", "no sign that changes; write x - 0.5 for x > 0.5"),
        ("x and x > 1", "no sign that changes"),
        ("sample(0, 0)", "has the period 0; give a positive one"),
        ("sample(0, x)", "'x' in event 'sample(0, x)' has no value; give numbers or parameters"),
        ("sample(0, 1e-9)", "happens more than 10000000 times; give a longer period"),
        ("x > 1; y = 2", "unknown unknown that event|y"),
    ],
)
def test_what_is_no_event_is_refused(event: str, says: str) -> None:
    with pytest.raises(ds.InputError) as caught:
        ds.solve(lambda t, u, du: [du[0] - 1], u0={"x": 0.0}, t_end=1.0, rtol=1e-6, events=[event])
    assert any(words in str(caught.value) for words in says.split("|")) and "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", [{"rtol": 1e-6}, {"dt": 0.05, "sweeper": "radau-iia-5"}], ids=str)
def test_a_run_ends_at_its_start_where_a_terminal_sample_does(settings: dict[str, Any]) -> None:
    run = ds.solve(heater_of_function, **{**OF_FUNCTION, "events": ["sample(0, 1); terminal"]}, **settings)
    assert run.success and run.t.tolist() == [0.0] and run.events[0].t.tolist() == [0.0]
    assert run.message == "the run ended at event 'sample(0, 1)' at t=0"


COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "less": lambda n, c: n < c,
    "at most": lambda n, c: n <= c,
    "greater": lambda n, c: n > c,
    "at least": lambda n, c: n >= c,
    "equal": sympy.Eq,
}


@pytest.mark.parametrize("settings", [{"rtol": 1e-6}, {"dt": 0.125}], ids=["rtol", "dt"])
@pytest.mark.parametrize("first", [0.0, 0.5])
@pytest.mark.parametrize("relation", COMPARED)
def test_comparisons_of_numbers_that_events_change_hold_as_written(
    relation: str, first: float, settings: dict[str, float]
) -> None:
    # n is 0, 1, 2, 3 from one sample to the next, so that a number it is compared with may be equal to it.
    compare = COMPARED[relation]
    model = ds.Model("counter", interval=(0.0, 3.25))
    n, integrals, counts, places = model.discrete("n"), [], [], (0, 1, 2)
    for place in places:
        x, k = model.variable(f"x{place}", 0.0, fixed=True), model.discrete(f"k{place}")
        model.equations(model.der(x) - sympy.Piecewise((1, compare(n, place)), (0, True)))
        integrals.append(x)
        counts.append(k)
        if relation != "equal":
            model.when(compare(n, place), {k: k + 1})
    z = model.variable("z", 0.0, fixed=True)
    model.equations(model.der(z) - sympy.floor(n / 2))
    model.when(f"sample({first}, 1)", {n: n + 1})
    solution = ds.solve(model, **settings)
    assert solution.success, solution.message

    edges = [0.0, *np.arange(first, 3.25, 1.0).tolist(), 3.25]
    phases = [(number, b - a) for number, (a, b) in enumerate(pairwise(edges))]
    for place, x, k in zip(places, integrals, counts, strict=True):
        holds = [bool(compare(sympy.Integer(number), place)) for number, _ in phases]
        expected = sum(width for held, (_, width) in zip(holds, phases, strict=True) if held)
        assert abs(solution[str(x)][-1] - expected) < 1e-10
        if relation != "equal":
            begins = sum(b and not a for a, b in pairwise(holds))
            assert solution[str(k)][-1] == begins
    assert abs(solution["z"][-1] - sum(number // 2 * width for number, width in phases)) < 1e-10


HYSTERESIS = """
model Hysteresis
  connector BooleanOutput = output Boolean;
  connector BooleanInput = input Boolean;
  model Sensor
    parameter Real low, high;
    input Real T;
    BooleanOutput hot = T > high, cold;
  equation
    cold = T < low;
  end Sensor;
  model Switch
    BooleanInput off, on;
    Boolean y(start=true);
  equation
    y = not off and (pre(y) or on);
  end Switch;
  Real T(start=18, fixed=true);
  Sensor sensor(low=19, high=21, T=T);
  Switch switch;
  Boolean heats = switch.y;
  Integer level, n(start=0), m(start=0);
equation
  connect(sensor.hot, switch.off);
  connect(sensor.cold, switch.on);
  level = if heats then 2 else 0;
  der(T) = 5*level - 0.5*(T - 10);
  when change(switch.y) then
    n = pre(n) + 1;
  end when;
  when edge(switch.y) then
    m = pre(m) + 1;
  end when;
  annotation(experiment(StopTime=5));
end Hysteresis;
"""


@pytest.mark.parametrize("simplify", [False, True])
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_boolean_equations_switch_as_when_equations_do(rtol: float, simplify: bool, tmp_path: Path) -> None:
    file = tmp_path / "hysteresis.mo"
    file.write_text(HYSTERESIS)
    solution = ds.solve(str(file), rtol=rtol, simplify=simplify)
    assert solution.success, solution.message
    offs, ons = heater_times()
    by_name = {event.name: event.t for event in solution.events}
    times = np.sort(
        [t for name, t in ((n, t) for n, ts in by_name.items() for t in ts) if name != "initial()"]
    )
    for t in (*offs, *ons):
        assert np.abs(times - t).min() < 10 * rtol * (1 + t)
    assert solution["n"][-1] == len(offs) + len(ons)
    assert solution["m"][-1] == len(ons)
    T, heats, last = solution["T"][-1], len(ons) == len(offs), max((*offs, *ons))
    expected = 30 - (30 - 19) * np.exp((last - 5) / 2) if heats else 10 + (21 - 10) * np.exp((last - 5) / 2)
    assert abs(T - expected) < 10 * rtol * (1 + abs(expected))
    assert solution["switch.y"][-1] == solution["heats"][-1] == heats
    assert solution["level"][-1] == 2 * heats


CHOICES = """
model Choices
  Real x(start=0, fixed=true), v(start=1, fixed=true);
  Integer n(start=0), k(start=0), j(start=0);
  Boolean high(start=false), was(start=true);
equation
  der(x) = v;
  der(v) = 0;
  when initial() then
    n = 5;
    was = false;
  end when;
  when n > 2 then
    k = pre(k) + 1;
  end when;
  when sample(0.5, 0.5) then
    if x > 2.2 then
      reinit(v, -1);
      high = false;
    elseif x > 1.2 then
      high = true;
      j = pre(j) + 10;
    else
      j = pre(j) + 1;
    end if;
  end when;
  annotation(experiment(StopTime=3.2));
end Choices;
"""


@pytest.mark.parametrize("settings", [{"rtol": 1e-6}, {"dt": 0.1}], ids=["rtol", "dt"])
def test_choices_in_when_equations_and_what_holds_from_the_start(
    settings: dict[str, float], tmp_path: Path
) -> None:
    file = tmp_path / "choices.mo"
    file.write_text(CHOICES)
    solution = ds.solve(str(file), **settings)
    assert solution.success, solution.message
    # x = 0.5, 1 at the first samples; 1.5, 2 at the next; 2.5, from where it falls: 2, and 1.5 at t = 3.5.
    expected = {"n": 5, "k": 0, "was": 0, "j": 32, "high": 1, "v": -1, "x": 1.8}
    got = {name: solution[name][-1] for name in expected}
    assert got == pytest.approx(expected, abs=1e-9)
    assert [t for event in solution.events if event.name == "initial()" for t in event.t] == [0.0]


@pytest.mark.parametrize("condition", ["initial() or x > 2", "x > 2 or initial() or x < -1"])
def test_a_condition_beside_the_start_happens_at_both(condition: str) -> None:
    # n = 10 + x with x = 1 at the start, and 10 + x more where x passes 2.
    text = (
        "model M Real x(start=1, fixed=true); discrete Real n(start=0, fixed=true); equation der(x) = 1; "
        f"when {condition} then n = pre(n) + 10 + x; end when; annotation(experiment(StopTime=3)); end M;"
    )
    solution = ds.solve(read_modelica_text(text), rtol=1e-8)
    assert solution(0.5)[solution.names.index("n")] == pytest.approx(11.0, abs=1e-7)
    assert solution["n"][-1] == pytest.approx(23.0, abs=1e-7)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("Boolean b; equation b = x + 1;", "b is of type Boolean, and its value is not"),
        ("Integer n; equation n = x > 1;", "n is of type Integer, and its value is not"),
        ("Boolean b; equation b = x > 1; b = x > 2;", "b has two values; remove one"),
        ("Boolean b = not c, c = not b; equation", "depends on itself: b, c"),
        ("Boolean b; equation", "b is a variable of type Boolean that nothing gives a value"),
        ("Integer n; equation n = pre(n) + 1;", "the equation of n has pre"),
        ("Boolean b[2]; equation b = {x > 1, x > 2, true};", "variables get a value of another form"),
        ("Integer n; equation when x > 1 then for i in 1:2 loop n = i; end for; end when;", "one value in a"),
    ],
)  # fmt: skip
def test_boolean_equations_that_cannot_be_read_are_told(body: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "model.mo"
    file.write_text(f"model M Real x(start=0, fixed=true); {body} der(x) = 1; end M;")
    with pytest.raises(ds.InputError, match=message):
        ds.solve(ds.read_modelica(file, reader="own"))


@pytest.mark.parametrize(
    "declared",
    [
        "Boolean on = time > 1; equation",
        "Boolean on; equation on = time > 1;",
        "Boolean off, on; equation on = not off; off = time <= 1;",
        "Boolean b[2] = {false, time > 1}, on = b[2]; equation",
        "Integer n = if time > 1 then 2 else 1; Boolean on = n > 1; equation",
        "Boolean on(start=false); equation when time > 1 then on = true; end when;",
    ],
)
@pytest.mark.parametrize("simplify", [False, True])
def test_if_equations_follow_boolean_variables(declared: str, simplify: bool) -> None:
    text = (
        f"model M Real x(start=0, fixed=true), y; {declared} der(x) = y; "
        "if on then y = 3; else y = 1; end if; end M;"
    )
    solution = ds.solve(read_modelica_text(text), t_end=2.0, rtol=1e-8, simplify=simplify or None)
    assert solution["x"][-1] == pytest.approx(4.0, abs=1e-7)


# Declarations and equations beside x' = 1 from x = 0 to t = 1.1, and the value of k at the end.
CHANGES = {
    "integer": ("Integer n = integer(3*x); equation when change(n) then k = pre(k) + n; end when;", 6.0),
    "falling": (
        "Integer n = integer(-3*x); equation when change(n) then k = 10*pre(k) + n; end when;",
        -1234.0,  # It is 0 at the start, and -1 from there on.
    ),
    "choice": (
        "Integer n = if x > 0.5 then 7 else 4; equation when change(n) then k = pre(k) + n; end when;",
        7.0,
    ),
    "counter": (
        "Integer n(start=0); equation when change(n) then k = 10*pre(k) + n; end when; "
        "when x > 0.3 then n = 2; elsewhen x > 0.6 then n = 2; elsewhen x > 0.9 then n = 5; end when;",
        25.0,
    ),
    "samples": (
        "discrete Real z(start=0); equation when sample(0.1, 0.2) then z = integer(2*x); end when; "
        "when change(z) then k = 10*pre(k) + z; end when;",
        12.0,
    ),
    "Boolean": ("Boolean b = x > 0.5; equation when change(b) then k = pre(k) + 1; end when;", 1.0),
    "beside the start": (
        "equation when {x > 0.5, initial() and time < 1} then k = pre(k) + 1; end when;",
        2.0,
    ),
    "not at the start": ("equation when not initial() and x > 0.5 then k = pre(k) + 1; end when;", 1.0),
    "at the start, if": (
        "equation when initial() and time > 1 or x > 0.5 then k = pre(k) + 1; end when;",
        1.0,
    ),
    "two floors": (
        "Integer n = integer(x)+floor(2*x); equation when change(n) then k = 10*pre(k) + n; end when;",
        13.0,
    ),
    "sign": (
        "Integer n = integer(sign(x - 0.5)); equation when change(n) then k = 10*pre(k) + n; end when;",
        1.0,
    ),
    "two samples": ("equation when sample(0, 0.3) and sample(0, 0.2) then k = pre(k) + 1; end when;", 2.0),
    "edge of an edge": (
        "Boolean b, c; equation when x > 1 then b = true; end when; c = edge(b); "
        "when edge(c) then k = pre(k) + 1; elsewhen not c then k = pre(k) + 10; end when;",
        11.0,
    ),
    "at the end": ("equation when terminal() then k = 10*x; end when;", 11.0),
    "moments among others": (
        "equation when x > 0.5 and terminal() or sample(0, 0.4) and x > 0.1 then k = pre(k) + 1; end when;",
        3.0,
    ),
    "value": (
        "equation when {initial(), x > 0.5} then k = pre(k) + (if initial() then 10 else 1); end when;",
        11.0,
    ),
}


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_numbers_and_what_holds_at_the_start(name: str, rtol: float) -> None:
    body, end = CHANGES[name]
    text = f"model M Real x(start=0, fixed=true); discrete Real k(start=0); {body} der(x) = 1; end M;"
    solution = ds.solve(read_modelica_text(text), t_end=1.1, rtol=rtol)
    assert solution["k"][-1] == pytest.approx(end, abs=1e-12)


@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
def test_an_unknown_that_is_eliminated_may_stand_beside_a_moment(rtol: float) -> None:
    text = """model M Real x(start=0, fixed=true), y; discrete Real k(start=0, fixed=true); equation
      der(x) = 1; y = 2*x; when sample(0, 0.25) and y > 0.6 or y > 1.7 then k = pre(k) + 1; end when;
      end M;"""
    solution = ds.solve(ds.read_modelica_text(text), t_end=1.0, rtol=rtol, simplify=True)
    assert "y" not in solution.names
    assert solution.events[0].t == pytest.approx([0.5, 0.75, 0.85], abs=1e-9)


@pytest.mark.parametrize("simplify", [False, True])
def test_what_happens_in_one_turn_of_an_event_is_seen_by_its_conditions_and_the_turn_before_by_pre(
    simplify: bool,
) -> None:
    # At t = 1 phases follow one another, a turn each: b, c, b, c, b, c, and e where n is 3.
    text = """model Phases
      Real x(start = 0, fixed = true); discrete Real n(start = 0, fixed = true), m(start = 0, fixed = true);
      Boolean a(start = true), b(start = false), c(start = false), e(start = false), more;
    equation
      der(x) = n; more = pre(n) < 3;
      a = pre(a) and not time > 1; b = pre(a) and time > 1 or pre(c) and more;
      c = pre(b); e = pre(c) and not more;
      when c then n = pre(n) + 1; end when;
      when e then m = pre(m) + 1; end when;
    end Phases;"""
    solution = ds.solve(ds.read_modelica_text(text), rtol=1e-6, t_end=2.0, simplify=simplify)
    assert solution.success, solution.message
    assert np.allclose(solution.at([0.5, 1.5, 2.0]).values("n"), [0.0, 3.0, 3.0], atol=1e-12)
    assert np.allclose(solution.at([0.5, 1.5, 2.0]).values("m"), [0.0, 1.0, 1.0], atol=1e-12)
    assert solution["x"][-1] == pytest.approx(3.0, abs=1e-5)


WHENS = (
    "when y > 2 and pre(z) then w = 1; end when;",
    "when y > 2 and z then v = 1; end when;",
    "when x > 2 then z = false; end when;",
    "when sample(0, 1) then y = pre(y) + 1; x = pre(x) + 1; end when;",
)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_a_condition_that_another_event_of_the_turn_makes_false_does_not_happen(
    order: tuple[int, ...],
) -> None:
    # Where x and y become 3, z is false at once, but was true before.
    equations = " ".join(WHENS[k] for k in order)
    text = (
        "model Sorted discrete Real x(start=0), y(start=0), v(start=0), w(start=0); Boolean z(start=true); "
        f"equation {equations} end Sorted;"
    )
    solution = ds.solve(ds.read_modelica_text(text), rtol=1e-6, t_end=3.5)
    ends = {name: float(solution.at([3.5]).values(name)[0]) for name in "xyvwz"}
    assert ends == pytest.approx({"x": 4.0, "y": 4.0, "v": 0.0, "w": 1.0, "z": 0.0}, abs=1e-12)


def test_a_boolean_that_is_never_what_it_was_is_refused() -> None:
    text = "model M Boolean b(start=false); Real x(start=0); equation b = not pre(b); der(x) = 1; end M;"
    solution = ds.solve(ds.read_modelica_text(text), rtol=1e-6, t_end=1.0)
    assert not solution.success and "events cause one another without end at t=0" in solution.message


def test_a_number_that_turns_tells_each_change() -> None:
    # 20 x = 10 sin(6 t) / 3 comes to 1, 2, 3 and falls below them again.
    text = (
        "model M Real x(start=0, fixed=true); Integer n = integer(20*x); discrete Real k(start=0); equation "
        "der(x) = cos(6*time); when change(n) then k = 10*pre(k) + n; end when; end M;"
    )
    solution = ds.solve(read_modelica_text(text), t_end=0.5, rtol=1e-8)
    assert solution["k"][-1] == 123210.0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("equation when change(x) then k = 1; end when;", "change takes a Boolean"),
        ("equation when x > 1 then k = 1; end when; when x > 2 then k = 2; end when;", "write elsewhen"),
        ("equation when x > 1 then terminate(); k = 1; end when;", "terminate takes a message"),
        ("Real y = 2*x; equation when x > 1 then k = 1; reinit(y, 3); end when;", "no derivative; assign it"),
        ("equation when x > 1 then k = 1; x = 3; end when;", "x has a derivative and is given a value by"),
        ("Integer n(start=0); equation when edge(n) then k = 1; end when; when x > 1 then n = 1; end when;",
         "a condition is expected"),
        ("equation when x > 1 then k = 1; assert(x < 2); end when;", "assert takes a condition, a message"),
        ("equation assert(x < 2); k = 1;", "assert takes a condition, a message"),
        ("equation assert(2 < 1, \"never\"); k = 1;", "what is asserted does not hold: never"),
    ],
)  # fmt: skip
def test_changes_and_assertions_that_cannot_be_read_are_told(body: str, message: str) -> None:
    text = f"model M Real x(start=0, fixed=true); discrete Real k(start=0); {body} der(x) = 1; end M;"
    with pytest.raises(ds.InputError, match=message):
        read_modelica_text(text, reader="own")


# Declarations and equations beside x' = 1 from x = 0 to t = 1.1, and the value of k at the end.
STEPS = "Integer n(start=0); equation when x > 0.3 then n = 1; elsewhen x > 0.6 then n = 2; end when; "
FLIPS = "Boolean b(start=false); equation when {x > 0.3, x > 0.6, x > 0.9} then b = not pre(b); end when; "
JOINED = {
    "change and": (STEPS + "when change(n) and x > 0.5 then k = 10*pre(k) + n; end when;", 2.0),
    # What holds already is no edge of a condition that x > 0.5 is a part of.
    "change or": (STEPS + "when change(n) or x > 0.5 then k = 10*pre(k) + n; end when;", 11.0),
    "change and not": (STEPS + "when change(n) and n <> 1 then k = 10*pre(n) + n; end when;", 12.0),
    "change of two": (
        STEPS + "when x > 0.6 then m = 3; end when; "
        "when change(n) and change(m) then k = n + m; end when;",
        5.0,
    ),
    "edge of a Boolean": (FLIPS + "when edge(b) and x > 0.5 then k = pre(k) + 1; end when;", 1.0),
    "edge or": (FLIPS + "when edge(b) or x > 0.7 then k = 10*pre(k) + 1; end when;", 11.0),
    "change of a Boolean": (FLIPS + "when change(b) and x > 0.5 then k = pre(k) + 1; end when;", 2.0),
    "change of a floor": (
        "Integer n = integer(4*x); equation when change(n) and x > 0.6 then k = 10*pre(k) + n; end when;",
        34.0,
    ),
    "sample and": ("equation when sample(0, 0.25) and x > 0.6 then k = pre(k) + 1; end when;", 2.0),
    "sample or": ("equation when sample(0, 0.25) or x > 0.6 then k = pre(k) + 1; end when;", 4.0),
    "elsewhen behind what does not hold": (
        "equation when sample(0, 0.25) and x > 0.6 then k = pre(k) + 10; "
        "elsewhen sample(0, 0.25) then k = pre(k) + 1; end when;",
        23.0,
    ),
    "an array of conditions": (
        "Boolean b[2] = {x > 0.3, x > 0.6}; equation when b then k = pre(k) + 1; end when;",
        2.0,
    ),
    "conditions of a loop": (
        "equation when {x > 0.3*i for i in 1:3} then k = pre(k) + 1; end when;",
        3.0,
    ),
    "change in a value": (
        "Integer n(start=0); equation when {x > 0.3, x > 0.6, x > 0.9} then n = if x > 0.5 then 5 else 3; "
        "k = if change(n) then pre(k) + n else pre(k); end when;",
        8.0,
    ),
    "what happens first": (STEPS + "when x > 0.6 then k = 7; elsewhen change(n) then k = 3; end when;", 7.0),
    "within brackets": (
        STEPS
        + "when {change(n) and x > 0.5, sample(0, 1) and x < 0.5, x > 0.7} then k = pre(k) + 1; end when;",
        3.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("settings", [{"rtol": 1e-4}, {"rtol": 1e-9}, {"dt": 0.05}], ids=str)
@pytest.mark.parametrize("name", JOINED)
def test_what_holds_at_events_alone_stands_beside_others(name: str, settings: dict[str, Any]) -> None:
    body, end = JOINED[name]
    m = "Integer m(start=0); " if "change(m)" in body else ""
    text = f"model M Real x(start=0, fixed=true); discrete Real k(start=0); {m}{body} der(x) = 1; end M;"
    solution = ds.solve(read_modelica_text(text), t_end=1.1, **settings)
    assert solution.success, solution.message
    assert solution["k"][-1] == end


# Equations beside x' = 1 from x = 0, success, the message, and the time of the end.
AT_EVENTS = {
    "an assertion": (
        'when x > 0.5 then k = 2*x; assert(k < 0.9, "too large"); end when;', False, "too large", 0.5,
    ),
    "one that holds there": (
        'when x > 0.5 then k = 2*x; assert(x < 0.9 and k < 1.1, "too large"); end when;', True, "", 1.1,
    ),
    "a warning": (
        'when sample(0, 0.5) then k = pre(k) + 1; assert(k < 2, "many", AssertionLevel.warning); end when;',
        True, "many at t=0.5", 1.1,
    ),
    "of the branch that happens": (
        'when sample(0, 1) then k = 1; assert(x > -1, "a"); '
        'elsewhen sample(0, 0.5) then k = 2; assert(x < 0.4, "b"); end when;',
        False, "b", 0.5,
    ),
    "in a choice": (
        "when sample(0, 0.25) then k = pre(k) + 1; "
        'if k > 2.5 then terminate("three"); else assert(x < 0.4, "late"); end if; end when;',
        True, "three", 0.5,
    ),
    "the end at a change": (
        'when x > 0.5 then k = 2; end when; when change(k) and k > 1 then terminate("two"); end when;',
        True, "two", 0.5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("settings", [{"rtol": 1e-4}, {"rtol": 1e-9}, {"dt": 0.05}], ids=str)
@pytest.mark.parametrize("name", AT_EVENTS)
def test_assertions_and_ends_in_when_equations_count_there_alone(name: str, settings: dict[str, Any]) -> None:
    body, success, message, end = AT_EVENTS[name]
    text = (
        f"model M Real x(start=0, fixed=true); discrete Real k(start=0); equation der(x) = 1; {body} end M;"
    )
    solution = ds.solve(read_modelica_text(text), t_end=1.1, **settings)
    assert solution.success is success and message in solution.message
    assert solution.t[-1] == pytest.approx(end, abs=1e-9)


@pytest.mark.parametrize("settings", [{"rtol": 1e-4}, {"rtol": 1e-9}, {"dt": 0.05}], ids=str)
def test_a_model_has_events_at_changes_and_conditions_that_count_at_events(settings: dict[str, Any]) -> None:
    def stairs() -> tuple[ds.Model, Any, Any, Any]:
        m = ds.Model("stairs", interval=(0.0, 1.1))
        x, n, k = m.variable("x", 0.0, fixed=True), m.discrete("n"), m.discrete("k")
        m.equation(m.der(x) - 1)
        return m, x, n, k

    m, x, n, k = stairs()
    m.when("change(n)", {k: 10 * k + n}, only=x > 0.5)
    m.when(x > 0.3, {n: 1})
    m.when(x > 0.6, {n: 2})
    solution = ds.solve(m, **settings)
    assert solution["k"][-1] == 2.0 and solution.events[0].t == pytest.approx([0.6], abs=1e-9)
    m, x, n, k = stairs()
    m.when("sample(0, 0.25)", {n: n + 1})
    m.require(n < 3, "three samples", when="sample(0, 0.25)")
    m.require(x < 0.1, "no sample", when=x > 2)
    solution = ds.solve(m, **settings)
    assert not solution.success and solution.message == "three samples at t=0.5"
    m, x, n, k = stairs()
    m.when(x > 0.5, {n: 1})
    m.when(n > 0, {n: 0, k: 1})
    m.when(k > 0, {n: 1, k: 0})
    solution = ds.solve(m, **settings)
    told = "events cause one another without end at t=0.5: 'n > 0', 'k > 0'; let one"
    assert not solution.success and solution.message.startswith(told)
    m, x, n, k = stairs()
    solution = ds.solve(m, events=["sample(0, 0.25) and x > 0.6 or initial(); n = n + 1"], **settings)
    assert solution.events[0].t == pytest.approx([0.0, 0.75, 1.0], abs=1e-9) and solution["n"][-1] == 3.0


@pytest.mark.parametrize("settings", [{"rtol": 1e-4}, {"rtol": 1e-9}, {"dt": 0.1}], ids=str)
@pytest.mark.parametrize("how", ["model", "text", "modelica", "function"])
def test_what_is_required_is_told_with_its_time(how: str, settings: dict[str, Any]) -> None:
    """x' = -x from 1: x > 1/2 ceases to hold at log 2, which ends the run, x > 0.9 before, which does not."""
    m = ds.Model("decay", interval=(0.0, 2.0))
    x = m.variable("x", start=1.0, fixed=True)
    m.equation(m.der(x) + x)
    problem: Any = m
    if how == "model":
        m.require(x > sympy.Rational(1, 2), "x; = is low")
        m.require(x > sympy.Rational(9, 10), "x falls", level="warning")
    elif how == "text":
        m.when("x <= 1/2", terminal=True, message="x; = is low")
        m.require("x > 0.9", "x falls", level="warning")
    elif how == "modelica":
        problem = read_modelica_text(
            'model M Real x(start=1, fixed=true); equation der(x) = -x; assert(x > 0.5, "x; = is low"); '
            'assert(x > 0.9, "x falls: " + String(x), level=AssertionLevel.warning); end M;'
        )
    else:
        problem = lambda t, u, du: [du[0] + u[0]]  # noqa: E731
        settings |= {
            "u0": {"x": 1.0},
            "events": ["x < 0.9; message: x falls", "x < 0.5; terminal; message: x; = is low"],
        }
    run = ds.solve(problem, t_end=2.0, **settings)
    exact = pytest.approx(np.log(2.0), abs=10.0 * settings.get("rtol", 1e-4))
    assert not run.success and run.t[-1] == exact
    assert float(run.message.removeprefix("x; = is low at t=")) == exact
    early = ds.solve(problem, t_end=0.5, **settings)
    assert early.success and "x falls at t=0.105" in early.message


def test_a_number_that_events_change_may_be_a_divisor() -> None:
    """x' = 1/n from 0, with n = 2 from x = 1 on: x = 1 + (3 - 1)/2 at t = 3."""
    m = ds.Model("gears", interval=(0.0, 3.0))
    x, n = m.variable("x", start=0.0, fixed=True), m.discrete("n", 1.0)
    m.equation(m.der(x) - 1 / n)
    m.when(x > 1, {n: 2})
    assert ds.solve(m, rtol=1e-8)["x"][-1] == pytest.approx(2.0, rel=1e-7)


@pytest.mark.parametrize("start", [0.25, 0.5])
def test_what_does_not_hold_at_the_start_is_told_there(start: float) -> None:
    m = ds.Model("grows", interval=(0.0, 1.0))
    x = m.variable("x", start=start, fixed=True)
    m.equation(m.der(x) - 1)
    m.require(x < sympy.Rational(2, 5), "too large")
    solution = ds.solve(m, rtol=1e-6)
    assert not solution.success
    assert float(solution.message.removeprefix("too large at t=")) == pytest.approx(max(0.0, 0.4 - start))


def test_assertions_among_initial_equations_are_those_of_parameters() -> None:
    text = (
        "model M parameter Integer n = 2; Real x(start=1, fixed=true); initial equation "
        'assert({}, "wrong"); equation der(x) = -x; end M;'
    )
    assert ds.solve(read_modelica_text(text.format("x > 0.5")), rtol=1e-6, t_end=2.0).success
    with pytest.raises(ds.InputError, match="does not hold: wrong"):
        read_modelica_text(text.format("1 > 2"))


@pytest.mark.parametrize("rtol", [1e-4, 1e-9])
def test_what_rests_at_its_bound_but_for_rounding_holds(rtol: float) -> None:
    text = (
        "model Tank Real h(start=0.2, fixed=true), q; equation der(h) = 0.5 + time/4 - q; "
        'q = if h > 0 then 1 else 0; assert(h >= 0, "below its bottom"); end Tank;'
    )
    solution = ds.solve(read_modelica_text(text), t_end=4.0, rtol=rtol)
    assert solution.success and solution["h"][-1] == pytest.approx(0.5, abs=10.0 * rtol)


def test_numbers_that_events_change_are_required_as_written() -> None:
    for relation, end in (("n < 3", 0.3), ("n <= 3", 0.4)):
        text = (
            "model M Real x(start=0, fixed=true); Integer n(start=0); equation der(x) = 1; "
            f'when sample(0.1, 0.1) then n = pre(n) + 1; end when; assert({relation}, "too many"); end M;'
        )
        solution = ds.solve(read_modelica_text(text), rtol=1e-6)
        assert not solution.success and solution.t[-1] == pytest.approx(end)


def test_a_level_that_is_none_is_refused() -> None:
    m = ds.Model("m")
    x = m.variable("x", start=0.0)
    with pytest.raises(ds.InputError, match="unknown level of 'low' 'warn'; did you mean"):
        m.require(x > 0, "low", level="warn")


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("how", ["model", "function"])
def test_a_solution_may_rest_where_its_event_was(how: str, rtol: float) -> None:
    """A pump fills a tank up to 2, where it rests until a valve opens at 3; below 1 the pump starts again."""

    def tank(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - u[1] + (0.5 * u[0] if t >= 3.0 else 0.0), du[1]]

    m = ds.Model("tank", interval=(0.0, 5.0))
    h, pump = m.variable("h", start=0.0, fixed=True), m.discrete("pump", 1.0)
    m.equation(m.der(h) - pump + sympy.Piecewise((h / 2, m.t >= 3), (0, True)))
    m.when(h > 2, {pump: 0})
    m.when(h < 1, {pump: 1})
    given: dict[str, Any] = {"problem": m}
    if how == "function":
        events = ["h > 2; pump = 0", "h < 1; pump = 1"]
        given = {"problem": tank, "u0": {"h": 0.0, "pump": 1.0}, "t_end": 5.0, "events": events}
    solution = ds.solve(**given, rtol=rtol)
    assert solution.success, solution.message
    again = 3.0 + 2.0 * np.log(2.0)
    assert np.allclose(
        [*solution.events[0].t, *solution.events[1].t], [2.0, again], rtol=0.0, atol=10.0 * rtol
    )
    end = 2.0 - np.exp(-0.5 * (5.0 - again))
    assert solution["h"][-1] == pytest.approx(end, abs=10.0 * rtol)


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("third", ["state == 2", "pre(state) == 2", "not state <> 2"])
def test_an_integer_is_the_state_of_a_machine(third: str, rtol: float) -> None:
    """Up at the speed 1 to x = 1, down at the speed 2 to x = 1/2, and up again at the speed 1/2."""
    text = (
        "model Machine Real x(start=0, fixed=true); Integer state(start=1); equation "
        "if state == 1 then der(x) = 1; elseif state == 2 then der(x) = -2; else der(x) = 0.5; end if; "
        f"when x > 1 then state = 2; elsewhen x < 0.5 and {third} then state = 3; end when; "
        'assert(state <> 4, "no such state"); annotation(experiment(StopTime=2)); end Machine;'
    )
    solution = ds.solve(read_modelica_text(text), rtol=rtol)
    assert solution.success, solution.message
    assert np.allclose(solution([0.5, 1.1, 1.25, 2.0])[:, 0], [0.5, 0.8, 0.5, 0.875], atol=10.0 * rtol)
    assert [record.t.round(6).tolist() for record in solution.events[:2]] == [[1.0], [1.25]]
