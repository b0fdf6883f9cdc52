"""Equations that jump, in the spellings that people use: every one is right, whether it is read or called."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy.linalg import expm

import dae_sdc as ds
from dae_sdc.dae.branches import changes, samples

PERIOD, PART, RATE, END = 0.83, 0.37, 1.3, 4.6
"""Period of the waves, part of it in which a pulse is on, rate of x' = -rate x + wave, end of the runs."""

TABLE = np.array([0.4, 0.95, 1.7, 2.2, 3.1, 3.6])

PULSE = [(PERIOD, 2 * PERIOD)]
HALVES = [(2 * k * PERIOD, (2 * k + 1) * PERIOD) for k in range(4)]
PULSES = [(k * PERIOD, (k + PART) * PERIOD) for k in range(7)]


def matched(s: Any) -> float:
    match math.floor(s / PERIOD):
        case 1 | 3:
            return 1.0
        case _:
            return 0.0


def looped(s: Any) -> float:
    number, value = np.floor(s / PERIOD), 0.0
    for k in (0, 2, 4):
        if number == k:
            value = 1.0
    return value


def sine(s: Any) -> Any:
    return np.sin(np.pi * s / PERIOD)


WAVES: dict[str, tuple[Callable[[Any], Any], list[tuple[float, float]]]] = {
    "floor ==": (lambda s: 1.0 if np.floor(s / PERIOD) == 1 else 0.0, PULSE),
    "floor !=": (lambda s: 0.0 if np.floor(s / PERIOD) != 1 else 1.0, PULSE),
    "floor >": (lambda s: np.where(np.floor(s / PERIOD) > 1, 1.0, 0.0), [(2 * PERIOD, END)]),
    "floor >=": (lambda s: np.where(np.floor(s / PERIOD) >= 1, 1.0, 0.0), [(PERIOD, END)]),
    "floor <": (lambda s: np.where(np.floor(s / PERIOD) < 1, 1.0, 0.0), [(0.0, PERIOD)]),
    "floor <=": (lambda s: np.where(np.floor(s / PERIOD) <= 1, 1.0, 0.0), [(0.0, 2 * PERIOD)]),
    "floor in": (
        lambda s: 1.0 if np.floor(s / PERIOD) in (1.0, 3.0) else 0.0,
        [*PULSE, (3 * PERIOD, 4 * PERIOD)],
    ),
    "match": (matched, [*PULSE, (3 * PERIOD, 4 * PERIOD)]),
    "loop": (looped, HALVES),
    "ceil ==": (lambda s: np.where(np.ceil(s / PERIOD) == 2, 1.0, 0.0), PULSE),
    "round ==": (lambda s: np.where(np.round(s / PERIOD) == 1, 1.0, 0.0), [(0.5 * PERIOD, 1.5 * PERIOD)]),
    "floor % 2": (lambda s: 1.0 if np.floor(s / PERIOD) % 2 == 0 else 0.0, HALVES),
    "power": (lambda s: 0.5 + 0.5 * (-1.0) ** np.floor(s / PERIOD), HALVES),
    "//": (lambda s: np.where((s // PERIOD) % 2 == 0, 1.0, 0.0), HALVES),
    "int": (lambda s: 1.0 if int(s / PERIOD) % 2 == 0 else 0.0, HALVES),
    "%": (lambda s: np.where(s % PERIOD < PART * PERIOD, 1.0, 0.0), PULSES),
    "fraction": (lambda s: 1.0 if s / PERIOD - np.floor(s / PERIOD) < PART else 0.0, PULSES),
    "sine": (lambda s: np.where(sine(s) > 0, 1.0, 0.0), HALVES),
    "sign": (lambda s: 0.5 + 0.5 * np.sign(sine(s)), HALVES),
    "sign at rest": (lambda s: np.sign(np.maximum(s - PERIOD, 0.0)), [(PERIOD, END)]),
    "heaviside": (lambda s: np.heaviside(s - PERIOD, 0.5) - np.heaviside(s - 2 * PERIOD, 0.5), PULSE),
    "clip at rest": (lambda s: np.where(np.clip(s, 0.0, PERIOD) == PERIOD, 1.0, 0.0), [(PERIOD, END)]),
    "min at rest": (lambda s: np.where(np.minimum(s, PERIOD) == s, 1.0, 0.0), [(0.0, PERIOD)]),
    "max at rest": (
        lambda s: np.where(np.maximum(sine(s), 0.5) == sine(s), 1.0, 0.0),
        [((2 * k + 1 / 6) * PERIOD, (2 * k + 5 / 6) * PERIOD) for k in range(4)],
    ),
    "and": (lambda s: np.where(np.logical_and(s >= PERIOD, s < 2 * PERIOD), 1.0, 0.0), PULSE),
    "abs": (lambda s: np.where(abs(s - 1.5 * PERIOD) < 0.5 * PERIOD, 1.0, 0.0), PULSE),
    "select": (lambda s: np.select([s < PERIOD, s < 2 * PERIOD], [0.0 * s, 1.0 + 0.0 * s], 0.0), PULSE),
    "table": (
        lambda s: float(np.searchsorted(TABLE, float(s)) % 2),
        list(zip(TABLE[::2], TABLE[1::2], strict=True)),
    ),
}


def exact(intervals: list[tuple[float, float]], start: float, t: float) -> float:
    """The solution of x' = -rate x + wave, with wave = 1 in these intervals."""
    x = start * math.exp(-RATE * t)
    for begin, end in intervals:
        end = min(end, t)
        if begin < end:
            x += (math.exp(-RATE * (t - end)) - math.exp(-RATE * (t - begin))) / RATE
    return x


@pytest.mark.parametrize("clock", ["time", "state"])
@pytest.mark.parametrize("name", WAVES)
def test_a_square_wave_is_right_in_every_spelling(name: str, clock: str) -> None:
    wave, intervals = WAVES[name]

    def of_time(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] + RATE * u[0] - wave(t), u[1] - u[0] ** 2]

    def of_state(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] + RATE * u[0] - wave(u[2]), u[1] - u[0] ** 2, du[2] - 1.0]

    start = [0.3, 0.09] if clock == "time" else [0.3, 0.09, 0.0]
    for rtol in (1e-4, 1e-8):
        solution = ds.solve(of_time if clock == "time" else of_state, u0=start, t_end=END, rtol=rtol)
        assert solution.success, solution.message
        right = np.array([exact(intervals, 0.3, float(t)) for t in solution.t])
        assert np.abs(solution.u[:, 0] - right).max() < 30 * rtol
        assert np.abs(solution.u[:, 1] - right**2).max() < 30 * rtol


@pytest.mark.parametrize(
    "options", [{"rtol": 1e-9}, {"rtol": 1e-4}, {"dt": 0.25}, {"sweeper": "esdirk43", "rtol": 1e-8}]
)
def test_a_pulse_width_of_a_model_switches_at_the_times_of_its_clock(options: dict[str, Any]) -> None:
    m = ds.Model("pwm", interval=(0.0, 5.0))
    v = m.variable("v", start=0.0, fixed=True)
    m.equation(m.der(v) + v - sp.Piecewise((1, m.t - sp.floor(m.t) < sp.Rational(2, 5)), (0, True)))
    solution = ds.solve(m, **options)
    on = math.exp(-1.0) * (math.exp(0.4) - 1.0)
    right = on * sum(math.exp(-k) for k in range(5))
    assert solution.u[-1, 0] == pytest.approx(right, rel=1e-6 if "dt" in options else 10 * options["rtol"])
    times = {record.name: record.t for record in solution.switches}
    assert sorted(len(known) for known in times.values()) == [4, 9]
    every = np.sort(np.concatenate(list(times.values())))
    assert np.array_equal(
        np.unique(every.round(12)), np.sort([*np.arange(1.0, 5.0), *(np.arange(5) + 0.4)]).round(12)
    )


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("how", ["model", "function"])
def test_a_pulse_width_is_located_to_the_last_bit(how: str, rtol: float) -> None:
    """v' + v = 1 for the first 0.4 of every unit of time: ten switches, of which that at 5 ends the run."""

    def function(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] + u[0] - np.where(t % 1.0 < 0.4, 1.0, 0.0)]

    m = ds.Model("pwm", interval=(0.0, 5.0))
    v = m.variable("v", start=0.0, fixed=True)
    m.equation(m.der(v) + v - sp.Piecewise((1, m.t - sp.floor(m.t) < sp.Rational(2, 5)), (0, True)))
    start: dict[str, Any] = {"u0": [0.0], "t_end": 5.0} if how == "function" else {}
    solution = ds.solve(function if start else m, rtol=rtol, **start)
    assert solution.success and not solution.message
    found = np.unique(np.concatenate([record.t for record in solution.switches]))
    assert np.allclose(found, [0.4, 1.0, 1.4, 2.0, 2.4, 3.0, 3.4, 4.0, 4.4], rtol=4e-16, atol=0.0)
    assert np.isin(found, solution.t).all()
    intervals = [(k, k + 0.4) for k in range(5)]
    times = np.linspace(0.0, 5.0, 101)
    right = [
        sum(math.exp(min(end, t) - t) - math.exp(begin - t) for begin, end in intervals if begin < t)
        for t in times
    ]
    assert np.allclose(solution(times)[:, 0], right, rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("sweeper", [None, "esdirk43"])
@pytest.mark.parametrize("branches", ["if", "where"])
def test_steps_of_a_fixed_size_that_divides_the_period_of_a_converter_are_right(
    branches: str, sweeper: str | None
) -> None:
    # Sums of step sizes lie before the times of the jumps, by rounding.
    period, duty, source, L, C, R = 1e-4, 0.4, 24.0, 1e-3, 1e-4, 10.0

    def buck(t: float, u: Any, du: Any) -> Any:
        if branches == "where":
            v = np.where(t % period < duty * period, source, 0.0)
        else:
            v = source if t % period < duty * period else 0.0
        return [L * du[0] - v + u[1], C * du[1] - u[0] + u[1] / R]

    matrix = np.array([[0.0, -1.0 / L], [1.0 / C, -1.0 / (R * C)]])
    exact = np.zeros(2)
    for _ in range(10):
        for part, v in ((duty * period, source), (period - duty * period, 0.0)):
            rest = np.array([v / R, v])
            exact = rest + expm(part * matrix) @ (exact - rest)
    solution = ds.solve(buck, u0=[0.0, 0.0], t_end=10.0 * period, dt=period / 50.0, sweeper=sweeper)
    assert solution.success and not solution.message
    assert solution.u[-1] == pytest.approx(exact, rel=1e-9)


def test_a_jump_that_is_not_that_of_the_function_is_called() -> None:
    """A function that changes what it compares between calls is solved without what was read of it."""
    limits = [1.0]

    def changing(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] - np.where(u[1] > limits[0], 1.0, 0.0), du[1] - 1.0]

    def change(u: Any, t: float) -> float:
        limits[0] = 2.0
        return 1.0

    solution = ds.solve(changing, u0=[0.0, 0.0], t_end=3.0, rtol=1e-6, events=[change])
    assert "solved with the function called" in solution.message
    assert solution.u[-1, 0] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("frequency", [30.0, 157.0, 4321.0, 1e5])
def test_all_sign_changes_of_a_wave_are_between_samples(frequency: float) -> None:
    def wave(t: Any) -> Any:
        return np.sin(frequency * t + 0.3)

    times, _ = samples(wave, np.array([0.0, 0.7]), "wave")
    left, right = changes(lambda t: np.sign(wave(t)), times)
    zeros = (np.arange(1, int((0.7 * frequency + 0.3) / np.pi) + 1) * np.pi - 0.3) / frequency
    assert len(left) == len(zeros) and np.abs(left - zeros).max() < 1e-13
    assert (np.nextafter(left, 1.0) == right).all()


def test_a_condition_that_changes_too_often_is_refused() -> None:
    with pytest.raises(ds.InputError, match=r"'sin\(1000000000\*t\) > 0' changes too often"):
        ds.solve(
            lambda t, u, du: [du[0] - np.where(np.sin(1e9 * t) > 0, 1.0, 0.0)], u0=[0.0], t_end=3.0, rtol=1e-6
        )


# --- Events ------------------------------------------------------------------------------------------------


def oscillator(t: Any, u: Any, du: Any) -> list[Any]:
    return [du[0] - u[1], du[1] + u[0]]


@pytest.mark.parametrize(("event", "count"), [("sin(100*t)", 95), ("sin(t**3*50)", 429), ("u[0] - 0.5", 2)])
def test_events_that_oscillate_within_a_step_are_found(event: str, count: int) -> None:
    solution = ds.solve(oscillator, u0=[0.0, 1.0], t_end=3.0, rtol=1e-5, events=event)
    assert len(solution.events[0]) == count and not solution.message


def test_events_of_the_state_that_oscillate_within_a_step_are_found() -> None:
    solution = ds.solve(
        oscillator, u0=[0.0, 1.0], t_end=3.0, rtol=1e-8, events=[lambda u, t: np.sin(50.0 * u[0])]
    )
    levels = np.arange(1, 16) * np.pi / 50.0
    zeros = np.sort(np.concatenate([np.arcsin(levels), np.pi - np.arcsin(levels)]))
    assert solution.events[0].t == pytest.approx(zeros[zeros < 3.0], abs=1e-6)


def test_events_that_may_be_missing_are_told() -> None:
    solution = ds.solve(
        oscillator, u0=[0.0, 1.0], t_end=3.0, rtol=1e-5, events=[lambda u, t: np.sin(1e6 * u[0])]
    )
    assert "changes so often" in solution.message and "zeros may be missing" in solution.message


def test_an_event_that_is_no_function_is_one_line() -> None:
    source = np.random.default_rng(0)
    with pytest.raises(ds.InputError, match="another value at the same t and u"):
        ds.solve(oscillator, u0=[0.0, 1.0], t_end=3.0, rtol=1e-5, events=[lambda u, t: source.uniform(-1, 1)])
