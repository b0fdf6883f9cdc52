"""Events: where they are found, what happens there, and that none is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pySDC.core.hooks import Hooks
from scipy.special import ellipk

import dae_sdc as ds
from dae_sdc.control import events
from dae_sdc.errors import InputError
from dae_sdc.problems import DiscontinuousTestDAE, Pendulum2D, WSCC9BusSystem
from dae_sdc.sweepers.restart import consistent_restart

T_SWITCH = float(np.arccosh(50.0))
SWEEPERS = ("fully-implicit", "semi-implicit", "radau-iia-9", "esdirk43")


class Oscillator(ds.ProblemDAE):
    """y' = v, v' = -y, z = y + v, with y = sin t."""

    index = 1
    names = ("y", "v", "z")
    interval = (0.0, 10.0)

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - u[1], du[1] + u[0], u[2] - u[0] - u[1]]

    def u_exact(self, t: float) -> Any:
        return self.state([np.sin(t), np.cos(t), np.sin(t) + np.cos(t)])


class Bilinear(ds.ProblemDAE):
    """x'' = -k x with k = 1 for x > 0 and 4 for x < 0; the algebraic z = k (x + 1) jumps where x vanishes.

    From x = 0, x' = 1 the half periods are pi and pi / 2, and x' = 1 or -1 at their ends.
    """

    index = 1
    names = ("x", "v", "z")
    switch_names = ("x = 0",)
    interval = (0.0, 9.0)

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)
        self.k = 1.0

    def switches(self, u: Any, t: float) -> tuple[float, ...]:
        return (float(u[0]),)

    def start_step(self, u: Any, t: float) -> None:
        self.k = 1.0 if self.sides(u, t)[0] > 0 else 4.0

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - u[1], du[1] + u[2] - self.k, u[2] - self.k * (u[0] + 1.0)]

    def u_exact(self, t: float) -> Any:
        if t != 0.0:
            raise InputError("known at the start only")
        return self.state([0.0, 1.0, 1.0])


class Sliding(ds.ProblemDAE):
    """y' = z with z = 1 for y < 0 and -1 for y > 0: from 1/2 it comes to rest at y = 0 at t = 1/2."""

    index = 1
    names = ("y", "z")
    switch_names = ("y = 0",)

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)
        self.slope = -1.0

    def switches(self, u: Any, t: float) -> tuple[float, ...]:
        return (float(u[0]),)

    def start_step(self, u: Any, t: float) -> None:
        self.slope = -float(self.sides(u, t)[0])

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] - u[1], u[1] - self.slope]

    def u_exact(self, t: float) -> Any:
        return self.state([0.5 - t, -1.0])


class CountSweeps(Hooks):  # type: ignore[misc]
    """Sweeps of all steps, repeated ones too."""

    count = 0

    def post_step(self, step: Any, level_number: int) -> None:
        super().post_step(step, level_number)
        L = step.levels[0]
        CountSweeps.count += getattr(L.sweep, "initial_sweeps", 0) + step.status.iter * L.params.nsweeps


class Starts(Hooks):  # type: ignore[misc]
    """Time, state and branch at the start of every step."""

    found: list[tuple[float, Any, float]] = []

    def post_step(self, step: Any, level_number: int) -> None:
        super().post_step(step, level_number)
        L = step.levels[0]
        Starts.found.append((L.time, np.array(L.u[0]), L.prob.k))


def test_what_was_found_is_saved(tmp_path: Path) -> None:
    solution = ds.solve("discontinuous", rtol=1e-6, events=[lambda u, t: u[0] - 10.0, lambda u, t: -1.0])
    loaded = ds.Solution.load(solution.save(tmp_path / "found"))
    for before, after in zip(
        (*solution.events, *solution.switches), (*loaded.events, *loaded.switches), strict=True
    ):
        assert before.name == after.name
        for array in ("t", "u", "direction"):
            np.testing.assert_array_equal(getattr(before, array), getattr(after, array))


def event(function: Any, **attributes: Any) -> ds.Event:
    return ds.Event(function, **attributes)


# --- the test equation of Lopez and Maset -------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"sweeper": "fully-implicit", "nodes": 6, "dt": 0.5},
        {"sweeper": "semi-implicit", "nodes": 6, "dt": 0.5},
        {"sweeper": "semi-implicit", "rtol": 1e-10},
    ],
)
def test_the_event_is_found_to_1e_10_in_at_most_150_sweeps(settings: dict[str, Any]) -> None:
    CountSweeps.count = 0
    solution = ds.solve("discontinuous", hooks=[CountSweeps], **settings)
    assert solution.success, solution.message
    assert solution.switches[0].name == "y = 50"
    assert solution.switches[0].t == pytest.approx([T_SWITCH], rel=0.0, abs=1e-10)
    assert solution.switches[0].direction.tolist() == [1]
    assert 0 < CountSweeps.count <= 150
    assert solution.t[-1] == 5.0
    np.testing.assert_allclose(solution.u[-1], DiscontinuousTestDAE().u_exact(5.0), rtol=1e-10)


@pytest.mark.parametrize("sweeper", [None, "semi-implicit"])
def test_no_tolerance_misses_the_event(sweeper: str | None) -> None:
    for rtol in np.logspace(-3.0, -12.0, 5):
        solution = ds.solve("discontinuous", rtol=rtol, sweeper=sweeper)
        found = solution.switches[0].t
        assert found.shape == (1,)
        # Of a solution that grows like e^t the error, relative, is no more than some tolerances.
        assert abs(found[0] - T_SWITCH) <= 100.0 * rtol
        assert found[0] in solution.t


@pytest.mark.parametrize("sweeper", SWEEPERS)
def test_no_step_size_misses_the_event(sweeper: str) -> None:
    settings = {"nodes": 5} if sweeper in ("fully-implicit", "semi-implicit") else {}
    for count in (5, 8, 13, 24, 37):
        solution = ds.solve("discontinuous", sweeper=sweeper, dt=4.0 / count, **settings)
        found = solution.switches[0].t
        assert solution.success and found.shape == (1,)
        assert abs(found[0] - T_SWITCH) <= (1e-4 if sweeper == "esdirk43" and count > 20 else 1e-1)
        # The grid goes on behind the event.
        grid = 1.0 + 4.0 / count * np.arange(count + 1)
        apart = np.abs(grid[:, None] - solution.t).min(axis=1)
        assert apart.max() <= 1e-12
        assert len(solution.t) == count + 2


def test_a_step_that_ends_at_the_event_switches_too() -> None:
    count = 8
    solution = ds.solve(
        "discontinuous",
        sweeper="radau-iia-13",
        dt=(T_SWITCH - 1.0) / count,
        t_end=T_SWITCH + (T_SWITCH - 1.0),
    )
    assert solution.switches[0].t == pytest.approx([T_SWITCH], abs=1e-10)
    np.testing.assert_allclose(solution.u[-1], [50.0, np.sqrt(2499.0)], rtol=1e-10)


def test_an_event_of_the_user_at_the_switch_is_found_once() -> None:
    for rtol in (1e-4, 1e-7, 1e-10):
        solution = ds.solve("discontinuous", rtol=rtol, events=lambda u, t: u[0] - 50.0)
        assert solution.events[0].t.tolist() == solution.switches[0].t.tolist()


# --- event functions of the user ----------------------------------------------------------------------------


@pytest.mark.parametrize("sweeper", [None, "semi-implicit", "esdirk43"])
def test_zeros_of_differential_and_algebraic_unknowns_and_their_directions(sweeper: str | None) -> None:
    functions = [
        event(lambda u, t: u[0], name="y"),
        event(lambda u, t: u[0], direction=1),
        event(lambda u, t: u[0], direction=-1.0),
        event(lambda u, t: u[2]),
    ]
    loose = sweeper == "esdirk43"
    solution = ds.solve(
        Oscillator(),
        sweeper=sweeper,
        rtol=None if loose else 1e-11,
        dt=0.01 if loose else None,
        events=functions,
    )
    both, up, down, algebraic = solution.events
    accuracy = 1e-6 if loose else 1e-8
    # On the dense output the value is zero to rounding.
    assert np.abs(both.u[:, 0]).max() < 1e-13
    assert np.abs(solution(both.t) - both.u).max() < 1e-13
    # The zero that the run begins at is none.
    np.testing.assert_allclose(both.t, np.pi * np.arange(1, 4), rtol=0.0, atol=accuracy)
    assert both.direction.tolist() == [-1, 1, -1]
    assert (both.name, up.name) == ("y", "events[1]")
    np.testing.assert_array_equal(up.t, both.t[1:2])
    np.testing.assert_array_equal(down.t, both.t[::2])
    np.testing.assert_allclose(algebraic.t, np.pi * (np.arange(3) + 0.75), rtol=0.0, atol=accuracy)
    if not loose:  # those of what has a derivative reject no step
        runs = [
            ds.solve(Oscillator(), sweeper=sweeper, rtol=1e-11, dense=True, events=given)
            for given in (functions[:3], [])
        ]
        assert runs[0].stats["rejected"] == runs[1].stats["rejected"]


def test_event_functions_leave_the_run_as_it_is() -> None:
    for settings in (
        {"rtol": 1e-6},
        {"dt": 0.1, "sweeper": "semi-implicit"},
        {"dt": 0.05, "sweeper": "edirk4"},
    ):
        plain = ds.solve("simple", **settings)
        watched = ds.solve("simple", events=[lambda u, t: u[0] - 2.0], **settings)
        np.testing.assert_array_equal(plain.t, watched.t)
        # With a fixed step pySDC's controller adds up the times of steps; one that locates events does not.
        same = 0.0 if "rtol" in settings else 1e-12
        np.testing.assert_allclose(watched.u, plain.u, rtol=same, atol=0.0)
        assert {**plain.stats} == {**watched.stats}
        assert watched.events[0].t == pytest.approx([np.log(2.0)], abs=1e-5)


@pytest.mark.parametrize("settings", [{"rtol": 1e-10}, {"dt": 0.25, "nodes": 7, "sweeper": "fully-implicit"}])
def test_two_zeros_close_together_in_one_step_are_both_found(settings: dict[str, Any]) -> None:
    gap = 1e-5
    solution = ds.solve(Oscillator(), t_end=3.0, events=lambda u, t: u[0] - (1.0 - gap), **settings)
    half = np.arccos(1.0 - gap)  # 4.5e-3; the steps are 50 times as long
    # The function is so flat there that an error of y counts 1 / half times.
    expected = [0.5 * np.pi - half, 0.5 * np.pi + half]
    np.testing.assert_allclose(solution.events[0].t, expected, rtol=0.0, atol=1e-8 / half)
    assert solution.events[0].direction.tolist() == [1, -1]
    assert np.diff(solution.t).max() > 5.0 * half


def test_the_pendulum_passes_its_lowest_point_at_quarter_periods() -> None:
    quarter = ellipk(0.5) / np.sqrt(9.8)
    solution = ds.solve("pendulum", rtol=1e-10, t_end=2.0, events=lambda u, t: u[0])
    np.testing.assert_allclose(solution.events[0].t, quarter * np.array([1.0, 3.0]), rtol=0.0, atol=1e-8)
    assert solution.events[0].direction.tolist() == [1, -1]


@pytest.mark.parametrize("sweeper", [None, "semi-implicit", "constrained"])
def test_a_terminal_event_ends_the_run_at_its_time(sweeper: str | None) -> None:
    def level(u: Any, t: float) -> float:
        return float(u[1])

    level.terminal = 2  # type: ignore[attr-defined]
    for settings in ({"rtol": 1e-11}, {"dt": 0.2, "nodes": 7}):
        if "dt" in settings and sweeper is None:
            settings = {"dt": 0.2, "sweeper": "radau-iia-13"}
        else:
            settings = {**settings, "sweeper": sweeper}
        solution = ds.solve(Oscillator(), events=[level, lambda u, t: u[0]], **settings)
        end = 1.5 * np.pi
        assert solution.success
        assert solution.message == f"the run ended at event 'level' at t={solution.t[-1]:.10g}"
        assert solution.t[-1] == pytest.approx(end, abs=1e-9)
        assert abs(solution.u[-1, 1]) < 2e-12
        np.testing.assert_array_equal(solution.u[-1], solution.events[0].u[-1])
        np.testing.assert_allclose(solution.events[0].t, [0.5 * np.pi, end], rtol=0.0, atol=1e-9)
        assert solution.events[0].t[-1] == solution.t[-1]
        # Located on the polynomial of a step, which is of a lower order than its end.
        assert solution.events[1].t == pytest.approx([np.pi], abs=1e-8)


def test_a_run_that_begins_at_the_end_of_another_does_not_end_at_once() -> None:
    bounce = event(lambda u, t: u[0], terminal=True, name="wall")
    t, u, times = 0.0, None, []
    for _ in range(3):
        solution = ds.solve(Oscillator(), rtol=1e-10, t0=t, u0=u, t_end=20.0, events=bounce)
        t, u = solution.t[-1], solution.u[-1].copy()
        u[1] *= -1.0  # thrown back, so that y never changes its sign
        u[2] = u[0] + u[1]
        times.append(t)
    np.testing.assert_allclose(times, np.pi * np.arange(1, 4), rtol=0.0, atol=1e-8)


def test_zeros_at_ends_of_steps_count_once() -> None:
    # All three times are ends of steps, and exact in binary.
    functions = [event(lambda u, t: t - 0.5), event(lambda u, t: 0.25 - t), event(lambda u, t: t - 1.0)]
    solution = ds.solve(Oscillator(), dt=0.25, t_end=1.0, events=functions)
    assert [record.t.tolist() for record in solution.events] == [[0.5], [0.25], [1.0]]
    assert [record.direction.tolist() for record in solution.events] == [[1], [-1], [1]]
    solution = ds.solve(
        Oscillator(), rtol=1e-6, t_end=1.0, events=[event(lambda u, t: t), event(lambda u, t: -1.0)]
    )
    assert [len(record) for record in solution.events] == [0, 0]


# --- switches of the problem --------------------------------------------------------------------------------


def half_periods(t_end: float) -> Any:
    times = np.cumsum([np.pi, 0.5 * np.pi] * 4)
    return times[times < t_end]


@pytest.mark.parametrize(
    "settings",
    [
        {"rtol": 1e-10},
        {"rtol": 1e-10, "sweeper": "semi-implicit"},
        {"dt": 0.1, "nodes": 6, "sweeper": "fully-implicit"},
        {"dt": 0.1, "nodes": 6, "sweeper": "semi-implicit", "quad": "LOBATTO"},
        {"dt": 0.09, "sweeper": "radau-iia-13"},
    ],
)
def test_a_switch_acts_in_both_directions_and_algebraic_unknowns_jump(settings: dict[str, Any]) -> None:
    Starts.found = []
    solution = ds.solve(Bilinear(), hooks=[Starts], events=lambda u, t: u[2] - 2.5, **settings)
    assert solution.success, solution.message
    found = solution.switches[0]
    np.testing.assert_allclose(found.t, half_periods(9.0), rtol=0.0, atol=1e-8)
    assert found.direction.tolist() == [-1, 1, -1]
    for t, side in zip(found.t, found.direction, strict=True):
        before = solution.u[solution.t == t][0]
        state, k = next((u, k) for time, u, k in Starts.found if time == t)
        assert k == (1.0 if side > 0 else 4.0)
        np.testing.assert_array_equal(state[:2], before[:2])
        assert state[2] == pytest.approx(k, abs=1e-10)
        assert before[2] == pytest.approx(5.0 - k, abs=1e-7)
    # z is 1 + sin t first; it jumps over 2.5 to 4, falls to 2 at the lowest point, and comes back.
    crossings = solution.events[0]
    assert found.t[0] in crossings.t and found.t[1] in crossings.t


@pytest.mark.parametrize("settings", [{"rtol": 1e-6}, {"dt": 1.0 / 14.0, "sweeper": "semi-implicit"}])
def test_a_solution_that_slides_along_a_switch_is_reported(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert events.MOST_SWITCHES == 100
    monkeypatch.setattr(events, "MOST_SWITCHES", 30)
    solution = ds.solve(Sliding(), **settings)
    assert not solution.success
    assert "'y = 0' switches again and again at t=0.5" in solution.message
    assert solution.t[-1] == pytest.approx(0.5, abs=1e-6)
    assert len(solution.switches[0]) == 31


def test_flows_of_water_become_turbulent_and_laminar_when_the_reference_says() -> None:
    solution = ds.solve("water-tube", rtol=1e-7)
    assert solution.success, solution.message
    found = sorted(t for record in solution.switches for t in record.t)
    expected = [3536, 6864, 9201, 9201, 10489, 12207, 47694, 48166, 58324, 59090]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1.0)
    # A kind of flow changes there and back.
    for record in solution.switches:
        assert (np.diff(record.direction) != 0).all()


def test_the_limiter_of_a_valve_acts_where_the_reference_says() -> None:
    problem = WSCC9BusSystem()
    data = json.loads(
        (Path(ds.__file__).parent / "problems" / "data" / "wscc9.json").read_text(encoding="utf-8")
    )
    expected = data["events"][-1]
    solution = ds.solve("wscc9", rtol=1e-9)
    assert problem.t_fault in solution.t
    assert solution.switches[0].name == "limit of valve 1"
    assert solution.switches[0].t == pytest.approx([expected], abs=1e-8)
    np.testing.assert_allclose(solution.u[-1], problem.u_exact(1.0), rtol=1e-7, atol=1e-8)
    held = solution.u[solution.t >= solution.switches[0].t[0], 30]
    assert np.abs(held - 1.0).max() < 1e-9


# --- consistent restarts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "t", "accuracy"),
    [(Oscillator(), 0.3, 1e-11), (ds.SimpleDAE(), 0.5, 1e-9), (Pendulum2D(), 0.3, 1e-7)],
)
def test_algebraic_unknowns_are_found_at_any_index(problem: Any, t: float, accuracy: float) -> None:
    k = problem.n_diff
    given = problem.state(problem.u_exact(t))
    given.alg = 7.0
    found = consistent_restart(problem, given, t, 1e-3)
    np.testing.assert_array_equal(found.diff, given.diff)
    np.testing.assert_array_equal(given.alg, np.full(problem.n_alg, 7.0))
    np.testing.assert_allclose(found.alg, problem.u_exact(t)[k:], rtol=accuracy)
    h = 1e-6
    slope = (np.asarray(problem.u_exact(t + h)) - np.asarray(problem.u_exact(t - h))) / (2.0 * h)
    np.testing.assert_allclose(found.polynomial.derivative_at_end()[:k], slope[:k], rtol=1e-6, atol=1e-8)


def test_a_state_that_nothing_consistent_is_near_stays_as_it_is() -> None:
    class Impossible(Oscillator):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] - u[1], du[1] + u[0], u[2] * u[2] + 1.0]

    problem = Impossible()
    given = problem.state([0.0, 1.0, 3.0])
    found = consistent_restart(problem, given, 0.0, 1e-3)
    np.testing.assert_array_equal(found, given)
    assert found is not given and found.polynomial is None


# --- what cannot be done ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (3, "events must be functions"),
        ("abc", "unknown name 'abc'"),
        ([3], r"events\[0\] must be a function"),
        ([ds.Event(abs, terminal=-1)], r"terminal of events\[0\]"),
        ([ds.Event(abs, terminal="yes")], r"terminal of events\[0\]"),
        ([ds.Event(abs, direction="up")], r"direction of events\[0\]"),
        ([ds.Event(abs, direction=np.nan)], r"direction of events\[0\]"),
        ([ds.Event(abs, name=3)], r"name of events\[0\]"),
        ([lambda u, t: None], "must return a number"),
        ([lambda u, t: u], "must return a number"),
    ],
)
def test_what_is_no_event_function_is_refused(events: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ds.solve(Oscillator(), dt=0.5, events=events)


@pytest.mark.parametrize("settings", [{"steps": 2}, {"nodes": 3, "coarse_nodes": 2}])
def test_events_need_one_step_at_a_time(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="one step at a time"):
        ds.solve("simple", dt=0.25, events=lambda u, t: 1.0, **settings)


def test_a_function_without_a_value_ends_the_run_with_its_name() -> None:
    def broken(u: Any, t: float) -> float:
        return 1.0 if t < 0.5 else float("nan")

    solution = ds.solve(Oscillator(), dt=0.25, events=broken)
    assert not solution.success
    assert "event 'broken' returned nan" in solution.message
    assert solution.t[-1] <= 0.5


def test_names_of_switches_are_counted() -> None:
    class Misnamed(Bilinear):
        switch_names = ("a", "b")

    with pytest.raises(InputError, match="1 switches and 2 switch_names"):
        ds.solve(Misnamed(), rtol=1e-6)


# --- ranks --------------------------------------------------------------------------------------------------


def test_ranks_that_share_nodes_find_the_same_events(three_ranks: Path) -> None:
    for record in json.loads((three_ranks / "events.json").read_text(encoding="utf-8")):
        assert record["same"], record
        assert record["success"], record
        assert record["switch"] == pytest.approx([T_SWITCH], abs=1e-9)
        assert record["event"] == pytest.approx([np.arccosh(10.0)], abs=1e-9)
        assert record["end"] == pytest.approx(np.arccosh(20.0), abs=1e-9)
