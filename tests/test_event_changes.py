"""Events that change the state: impacts, resets and impulses against their exact solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.cli import main

G, RESTITUTION = 9.81, 0.8


def ball(t: float, u: Any, du: Any, g: float = G, floor: float = 0.0) -> list[Any]:
    return [du[0] - u[1], du[1] + g]


HIT = ds.Event(lambda u, t: u[0], direction=-1, name="hit", change=lambda u, t: {"v": -RESTITUTION * u[1]})
DROP: dict[str, Any] = {"u0": {"h": 1.0, "v": 0.0}, "t_end": 3.0}


def bounces(until: float, restitution: float = RESTITUTION) -> np.ndarray[Any, Any]:
    """Times at which a ball that falls from 1 hits the floor."""
    times, speed = [np.sqrt(2.0 / G)], np.sqrt(2.0 * G)
    while times[-1] < until and len(times) < 100:
        speed *= restitution
        times.append(times[-1] + 2.0 * speed / G)
    return np.array([time for time in times if time < until])


@pytest.mark.parametrize(
    "how",
    [
        *({"rtol": 1e-4}, {"rtol": 1e-9}, {"rtol": 1e-6, "trace": False}),
        *({"rtol": 1e-6, "sweeper": "fully-implicit"}, {"rtol": 1e-6, "nodes": 3}),
        {"dt": 0.05, "sweeper": "radau-iia-5"},
    ],
    ids=str,
)
def test_a_ball_bounces_at_its_times(how: dict[str, Any]) -> None:
    run = ds.solve(ball, events=[HIT], **DROP, **how)
    exact = bounces(3.0)
    assert run.success and len(run.events[0]) == len(exact) == 6
    # The solution is a parabola, which every method here has to rounding.
    assert run.events[0].t == pytest.approx(exact, abs=1e-7 if "fully" in str(how) else 1e-12)
    assert (run.u[:, 0] > -1e-9).all()


def test_values_before_and_behind_a_change_are_those_of_their_arcs(tmp_path: Path) -> None:
    times = np.linspace(0.0, 3.0, 61)
    run = ds.solve(ball, events=[HIT], rtol=1e-8, dense=True, **DROP)
    sampled = ds.solve(ball, events=[HIT], rtol=1e-8, t_eval=times, **DROP)
    hits = bounces(3.0)
    number = np.searchsorted(hits, times)
    start, speed = np.append(0.0, hits)[number], np.sqrt(2.0 * G) * RESTITUTION**number
    height, speed = np.where(number == 0, 1.0, 0.0), np.where(number == 0, 0.0, speed)
    exact = height + speed * (times - start) - 0.5 * G * (times - start) ** 2
    assert sampled.u[:, 0] == pytest.approx(exact, abs=1e-9)
    assert run(times)[:, 0] == pytest.approx(exact, abs=1e-9)
    before, behind = run(hits[0]), run(np.nextafter(hits[0] + 1e-9, 1.0))
    assert before[1] == pytest.approx(-np.sqrt(2.0 * G)) and behind[1] == pytest.approx(
        0.8 * np.sqrt(2.0 * G)
    )
    run.save(tmp_path / "ball.npy")
    assert ds.load(tmp_path / "ball.npy").data["u"].tolist() == run.u.tolist()


@pytest.mark.parametrize("restitution", [0.8, 0.5, 0.1])
@pytest.mark.parametrize("floor", [0.0, 5.0, -300.0])
def test_bounces_that_accumulate_end_the_run_at_their_limit(restitution: float, floor: float) -> None:
    def change(u: Any, t: float) -> None:
        u[1] *= -restitution

    hit = ds.Event(lambda u, t: u[0] - floor, direction=-1, name="hit", change=change)
    run = ds.solve(ball, u0={"h": 1.0 + floor, "v": 0.0}, t_end=6.0, rtol=1e-6, events=[hit])
    fall = np.sqrt(2.0 / G)
    limit = fall * (1.0 + 2.0 * restitution / (1.0 - restitution))
    assert not run.success and run.message.startswith("after the change of event 'hit' at t=")
    told = float(run.message.partition("tend to t=")[2].partition(";")[0])
    assert told == pytest.approx(limit, abs=1e-6) and run.t[-1] == pytest.approx(limit, abs=1e-4)
    assert (run.u[:, 0] >= floor - 1e-9).all()  # it never falls through


@pytest.mark.parametrize(
    ("floor", "drop", "time", "rtol"),
    [(-300.0, 1e-3, 1.0, 1e-6), (-300.0, 1.0, 1.0, 1e-9), (1e6, 1e-3, 1.0, 1e-4), (-300.0, 1.0, 1e6, 1e-6)],
)
def test_a_ball_never_falls_through_a_floor_far_from_zero(
    floor: float, drop: float, time: float, rtol: float
) -> None:
    g, restitution = drop / time**2, 0.9

    def heavy(t: float, u: Any, du: Any) -> Any:
        return [du[0] - u[1], 1e-6 * (du[1] + g)]

    hit = ds.Event(lambda u, t: u[0] - floor, direction=-1, change=lambda u, t: [u[0], -restitution * u[1]])
    limit = np.sqrt(2.0) * time * (1.0 + 2.0 * restitution / (1.0 - restitution))
    run = ds.solve(heavy, u0=[floor + drop, 0.0], t_end=2.0 * limit, rtol=rtol, events=[hit])
    told = float(run.message.partition("tend to t=")[2].partition(";")[0])
    # Heights are known up to eps |floor|, and times of falls to its square root, in units of the drop.
    rounding = np.sqrt(2.2e-16 * abs(floor) / drop)
    assert not run.success and told == pytest.approx(limit, rel=10.0 * rounding)
    assert run.u[:, 0].min() >= floor - 1e-6 * drop - 1e-14 * abs(floor)


def test_a_change_that_brings_to_rest_is_told() -> None:
    stop = ds.Event(lambda u, t: u[0], direction=-1, change=lambda u, t: [0.0, 0.0], name="stop")
    run = ds.solve(ball, events=[stop], rtol=1e-6, **DROP)
    assert not run.success and "comes to rest; let the event end the run" in run.message


@pytest.mark.parametrize("rtol", [1e-5, 1e-9])
def test_a_neuron_fires_at_equal_times(rtol: float) -> None:
    """x' = 1 - x, y = 2 x, reset to 0 at x = 0.9: the period is log(10)."""

    def neuron(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - 1.0 + u[0], u[1] - 2.0 * u[0]]

    run = ds.solve(
        neuron, u0={"x": 0.0, "y": 0.0}, t_end=12.0, rtol=rtol, events=["x - 0.9; rising; x = 0"], dense=True
    )
    spikes = np.log(10.0) * np.arange(1, 6)
    assert run.success and run.events[0].t == pytest.approx(spikes, rel=10.0 * rtol)
    assert run.u[-1] == pytest.approx(
        (1.0 - np.exp(spikes[-1] - 12.0)) * np.array([1.0, 2.0]), rel=10.0 * rtol
    )
    # The algebraic unknown follows from the new state.
    assert run(spikes[0] + 1e-6)[1] == pytest.approx(2e-6, abs=1e-6 + 40.0 * rtol)


def test_impulses_at_times_add_up() -> None:
    run = ds.solve(
        lambda t, u, du: [du[0] + u[0]],
        u0={"x": 1.0},
        t_end=2.0,
        rtol=1e-9,
        events=["t - 0.5; x = x + 1", "t - 1; x = 3*x"],
    )
    exact = 3.0 * (np.exp(-1.0) + np.exp(-0.5)) * np.exp(-1.0)
    assert run.u[-1, 0] == pytest.approx(exact, rel=1e-8)


def test_changes_at_one_time_are_all_made_and_one_may_cause_another() -> None:
    def two(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - 1.0, du[1] - 1.0, du[2]]

    start = {"x": 0.0, "y": 0.0, "n": 0.0}
    both = ["x - 0.5; x = 0; n = n + 1", "y - 0.5; y = 0; n = n + 1"]
    run = ds.solve(two, u0=start, t_end=0.75, rtol=1e-6, events=both)
    assert run.u[-1] == pytest.approx([0.25, 0.25, 2.0], abs=1e-9)
    # The jump of n passes the zero of the second event.
    chain = ["x - 0.5; rising; n = 5", "n - 2; y = 10"]
    run = ds.solve(two, u0=start, t_end=0.75, rtol=1e-6, events=chain)
    assert run.u[-1] == pytest.approx([0.75, 10.25, 5.0], abs=1e-9)


def test_a_jump_at_a_switch_may_be_an_event_that_changes() -> None:
    def stepped(t: float, u: Any, du: Any) -> list[Any]:
        x, z, n, _ = u
        return [du[0] - 1.0, z - np.where(x < 0.5, 1.0, 3.0), du[2], du[3] - n]

    start = {"x": 0.0, "z": 1.0, "n": 0.0, "m": 0.0}
    run = ds.solve(stepped, u0=start, t_end=1.0, rtol=1e-8, events=["z - 2; n = 1"])
    assert run.success and run.u[-1] == pytest.approx([1.0, 3.0, 1.0, 0.5], abs=1e-9)


def test_an_impact_of_a_mechanism_keeps_its_constraints_or_is_refused() -> None:
    back = "x; rising; der(x) = -der(x); der(y) = -der(y)"
    run = ds.solve("pendulum", rtol=1e-8, events=[back], t_end=2.0)
    # From rest at the side it falls to the lowest point, back up, and down again: three times as long.
    first, second = run.events[0].t
    assert run.success and second == pytest.approx(3.0 * first, rel=1e-6)
    refused = ds.solve("pendulum", rtol=1e-8, events=["x; rising; der(y) = 0.5"], t_end=2.0)
    assert not refused.success and "'der(y)' is 0.5 and would go to" in refused.message


@pytest.mark.parametrize("order", [1, 2])
def test_a_model_has_events_of_its_own(order: int) -> None:
    model = ds.Model("ball", interval=(0.0, 3.0))
    h, e = model.variable("h", start=1.0), model.parameter("e", RESTITUTION)
    if order == 1:
        v = model.variable("v", start=0.0)
        model.equations(model.der(h) - v, model.der(v) + G)
        model.when(h, {v: -e * v}, direction=-1)
    else:
        model.start("der(h)", 0.0)
        model.equation(model.der(h, 2) + G)
        model.when(h, {model.der(h): -e * model.der(h)}, direction=-1)
    for simplify in (False, True):
        run = ds.solve(model, rtol=1e-8, simplify=simplify, events=["h - 0.5"])
        assert run.events[0].t == pytest.approx(bounces(3.0), abs=1e-9)
        assert len(run.events) == 2 and run.message == ""
    softer = ds.solve(model, rtol=1e-8, params={"e": 0.5})
    assert softer.events[0].t[:3] == pytest.approx(bounces(3.0, 0.5)[:3], abs=1e-9)


def test_a_run_with_changes_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    whole = ds.solve(ball, events=[HIT], rtol=1e-6, **DROP)
    place = tmp_path / "ball.ckpt"
    settings: dict[str, Any] = {"events": [HIT], "rtol": 1e-6, "checkpoint": place, "every": 1, **DROP}

    def interrupt(u: Any, t: float) -> Any:
        if t > 1.0:
            raise KeyboardInterrupt
        return {"v": -RESTITUTION * u[1]}

    broken = ds.Event(HIT.function, direction=-1, name="hit", change=interrupt)
    with pytest.raises(KeyboardInterrupt):
        ds.solve(ball, **{**settings, "events": [broken]})
    again = ds.solve(ball, resume=True, **settings)
    assert again.events[0].t.tolist() == whole.events[0].t.tolist()
    assert again.u[-1].tolist() == whole.u[-1].tolist()


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda u, t: {"w": 1.0}, "unknown in the change of event 'hit' 'w'"),
        (lambda u, t: [1.0, 2.0, 3.0], "return 2 values"),
        (lambda u: None, "must take the state and the time"),
        (3.0, "must be a function g"),
    ],
)
def test_wrong_changes_are_refused(change: Any, says: str) -> None:
    event = ds.Event(lambda u, t: u[0], direction=-1, name="hit", change=change)
    with pytest.raises(ds.InputError, match=says):
        ds.solve(ball, events=[event], rtol=1e-6, **DROP)


def test_a_change_to_no_number_ends_the_run() -> None:
    event = ds.Event(lambda u, t: u[0], direction=-1, name="hit", change=lambda u, t: {"v": np.nan})
    run = ds.solve(ball, events=[event], rtol=1e-6, **DROP)
    assert not run.success and "gives nan for 'v'" in run.message
    with pytest.raises(ds.InputError, match="unknown that event 'h; w = 1' changes 'w'"):
        ds.solve(ball, events=["h; w = 1"], rtol=1e-6, **DROP)


def test_changes_are_given_in_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "falling.py"
    file.write_text("def ball(t, u, du, g=9.81):\n    return [du[0] - u[1], du[1] + g]\n")
    words = ["solve", f"{file}:ball", "--u0", "h=1,v=0", "--rtol", "1e-8", "--t-end", "1.1"]
    assert main([*words, "--events", "h; falling; v = -0.8*v", "--out", str(tmp_path / "out.npy")]) == 0
    after = 1.1 - bounces(1.1)[0]
    speed = 0.8 * np.sqrt(2.0 * G)
    assert ds.load(tmp_path / "out.npy").data["u"][-1, 1] == pytest.approx(speed - G * after, rel=1e-7)


def test_events_belong_to_a_problem_and_are_never_lost() -> None:
    class Ball(ds.ProblemDAE):
        index, names, interval, events = 0, ("h", "v"), (0.0, 3.0), (HIT,)

        def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
            return ball(t, u, du)

    model = ds.Model("ball", interval=(0.0, 3.0))
    h, v = model.variables("h v", start=[1.0, 0.0])
    model.equations(model.der(h) - v, model.der(v) + G)
    model.when(h, {v: -RESTITUTION * v}, direction=-1)
    reduced = ds.reduce(model).problem()
    for equations, start in (
        (Ball(2, 0), [1.0, 0.0]),
        (model.problem(), None),
        (model, None),
        (reduced, None),
    ):
        run = ds.solve(equations, u0=start, rtol=1e-8)
        assert run.events[0].t == pytest.approx(bounces(3.0), abs=1e-9)
        with pytest.raises(ds.InputError, match="the equations have events, which 'ida' does not locate"):
            ds.solve(equations, u0=start, rtol=1e-8, sweeper="ida")
        with pytest.raises(ds.InputError, match="events are located in runs of one step at a time"):
            ds.solve(equations, u0=start, dt=0.01, steps=2)


ENDINGS: dict[str, dict[str, Any]] = {
    "tolerance": {"rtol": 1e-8},
    "fixed steps": {"dt": 0.125, "sweeper": "radau-iia-9"},
    "sweeps": {"rtol": 1e-8, "sweeper": "semi-implicit"},
}


@pytest.mark.parametrize("settings", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("event", ["sample(0.5, 0.5)", "t - 1; rising", "t - 1; rising; terminal"])
def test_changes_at_the_end_of_a_run_are_carried_out(
    event: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    # y' = -y, z = 2 y, and y grows by 1 at its events, the last of which is the end.
    m = ds.Model("fed", interval=(0.0, 1.0))
    y, z = m.variables("y z", start=[1.0, 2.0])
    m.equations(m.der(y) + y, z - 2 * y)
    solution = ds.solve(m, events=[f"{event}; y = y + 1"], u0=[1.0, 2.0], **settings)
    before = np.exp(-1.0) + (np.exp(-0.5) if "sample" in event else 0.0)
    end = np.array([before + 1.0, 2.0 * (before + 1.0)])
    assert solution.success and solution.t[-1] == 1.0
    assert solution.u[-1] == pytest.approx(end, rel=1e-6)
    assert solution.du[-1] == pytest.approx(-end, rel=1e-4)
    assert solution.events[0].u[-1, 0] == pytest.approx(before, rel=1e-6)
    assert np.array_equal(solution(1.0), solution.u[-1])
    assert solution(1.0 - 1e-9)[0] == pytest.approx(before, rel=1e-6)
    solution.save(tmp_path / "fed.npy")
    loaded = ds.Solution.load(tmp_path / "fed.npy")
    assert np.array_equal(loaded(1.0), solution.u[-1]) and np.array_equal(loaded.u, solution.u)
    sampled = ds.solve(m, events=[f"{event}; y = y + 1"], u0=[1.0, 2.0], t_eval=[0.75, 1.0], **settings)
    assert sampled.u[-1] == pytest.approx(end, rel=1e-6)
