"""Solutions that slide along switches: relays, dry friction and quantisers, beside exact solutions."""

from __future__ import annotations

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
from dae_sdc.errors import InputError

TOLERANCES = (1e-4, 1e-6, 1e-9)
HALF = np.arcsin(0.5)


def relay(t: float, u: Any, du: Any) -> list[Any]:
    return [du[0] - np.sin(t) + 0.5 * np.sign(u[0])]


def exact_relay(t: Any) -> Any:
    """x' = sin t - sign(x) / 2 from x = 0.1: down to 0, where it slides while |sin t| < 1/2, and up again."""
    down = 0.1 + 1.0 - np.cos(t) - 0.5 * t
    up = np.cos(HALF) - np.cos(t) - 0.5 * (t - HALF)
    return np.where(t < ENTRY, down, np.where(t < HALF, 0.0, up))


ENTRY = brentq(lambda t: 1.1 - np.cos(t) - 0.5 * t, 1e-3, 0.5)
BACK = brentq(lambda t: np.cos(HALF) - np.cos(t) - 0.5 * (t - HALF), 2.0, 5.0)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_relay_slides_and_leaves_at_the_exact_times(rtol: float) -> None:
    solution = ds.solve(relay, u0=[0.1], t_end=3.5, rtol=rtol)
    assert solution.success and "slides along 'sign(u[0])'" in solution.message
    (switch,) = solution.switches
    assert np.allclose(switch.t, [ENTRY, HALF], rtol=0.0, atol=10.0 * rtol)
    assert switch.direction.tolist() == [0, 0]
    times = np.linspace(0.0, 3.5, 301)
    assert np.allclose(solution(times)[:, 0], exact_relay(times), rtol=0.0, atol=10.0 * rtol)
    assert solution.u.shape == solution.du.shape == (len(solution.t), 1)
    assert (np.diff(solution.t) > 0.0).all()


def test_output_times_and_points_are_those_of_all_arcs() -> None:
    times = [0.1, ENTRY + 0.1, HALF + 0.1, 3.0]
    solution = ds.solve(relay, u0=[0.1], t_end=3.5, rtol=1e-8, t_eval=times)
    assert solution.t.tolist() == times
    assert np.allclose(solution.u[:, 0], exact_relay(np.array(times)), rtol=0.0, atol=1e-7)
    points = ds.solve(relay, u0=[0.1], t_end=3.5, rtol=1e-8, points=8)
    assert np.allclose(points.t, np.linspace(0.0, 3.5, 8), rtol=0.0, atol=1e-15)
    assert np.allclose(points.u[:, 0], exact_relay(points.t), rtol=0.0, atol=1e-7)
    none = ds.solve(relay, u0=[0.1], t_end=3.5, rtol=1e-8, t_eval=[0.1])
    assert none.t.tolist() == [0.1] and none.success


def test_events_are_found_in_all_arcs_and_counted_over_them(tmp_path: Path) -> None:
    def height(u: Any, t: float) -> float:
        return float(u[0]) - 0.05

    def late(u: Any, t: float) -> float:
        return t - 0.4

    solution = ds.solve(relay, u0=[0.1], t_end=3.5, rtol=1e-8, events=[height, late])
    up = brentq(lambda t: exact_relay(t) - 0.05, HALF, 1.5)
    down = brentq(lambda t: exact_relay(t) - 0.05, 0.0, ENTRY)
    assert np.allclose(solution.events[0].t, [down, up], rtol=0.0, atol=1e-7)
    assert np.allclose(solution.events[1].t, [0.4], rtol=0.0, atol=1e-12)
    second = ds.Event(height, terminal=2)
    ended = ds.solve(relay, u0=[0.1], t_end=3.5, rtol=1e-8, events=[second], out=tmp_path / "relay.npy")
    assert ended.t[-1] == pytest.approx(up, abs=1e-7) and "ended at event 'height'" in ended.message
    loaded = ds.Solution.load(tmp_path / "relay.npy")
    assert np.array_equal(loaded.u, ended.u) and loaded.message == ended.message
    assert np.allclose(loaded(0.4), 0.0, atol=1e-12)


@pytest.mark.parametrize("last", [3, 4, 5])
def test_an_event_of_the_equations_is_counted_over_all_arcs(last: int) -> None:
    m = ds.Model("relay", interval=(0.0, 3.5))
    x = m.variable("x", start=0.1)
    m.equations(m.der(x) - sp.sin(m.t) + sp.sign(x) / 2)
    m.events = (f"sin(12*t); terminal={last}",)
    solution = ds.solve(m, rtol=1e-8)
    assert solution.t[-1] == pytest.approx(last * np.pi / 12.0, abs=1e-12)
    assert len(solution.events[0]) == last


STICK = np.pi / 6.0
SLIP = STICK + (1.0 - (1.0 - np.cos(STICK))) / 0.5


def belt(t: float, u: Any, du: Any) -> list[Any]:
    x, v = u
    return [du[0] - v, du[1] + x + np.sign(v - 0.5)]


def belt_with_a_force(t: float, u: Any, du: Any) -> list[Any]:
    x, v, force = u
    return [du[0] - v, du[1] + x + force, force - np.where(v > 0.5, 1.0, -1.0)]


def belt_by_branches(t: float, u: Any, du: Any) -> list[Any]:
    x, v = u
    if v > 0.5:
        return [du[0] - v, du[1] + x + 1.0]
    return [du[0] - v, du[1] + x - 1.0]


def belt_as_a_model() -> ds.Model:
    m = ds.Model("belt")
    x, v, force = m.variables("x v force", start=[0.0, 0.0, -1.0])
    m.equations(m.der(x) - v, m.der(v) + x + force, force - sp.sign(v - sp.Rational(1, 2)))
    return m


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", [belt, belt_with_a_force, belt_by_branches, belt_as_a_model])
def test_a_mass_on_a_belt_sticks_and_slips(how: Any, rtol: float) -> None:
    # From rest x = 1 - cos t, until v = 1/2 at pi / 6; stuck, until the spring has the force of 1; then
    # x = 1 + sin(s) / 2.
    model = how is belt_as_a_model
    start = {} if model else {"u0": [0.0, 0.0, -1.0] if how is belt_with_a_force else [0.0, 0.0]}
    solution = ds.solve(how() if model else how, **start, t_end=SLIP + 5.0, rtol=rtol)
    assert solution.success
    assert np.allclose(solution.switches[0].t, [STICK, SLIP], rtol=0.0, atol=10.0 * rtol)
    end = [1.0 + 0.5 * np.sin(5.0), 0.5 * np.cos(5.0)]
    assert np.allclose(solution.u[-1, :2], end, rtol=0.0, atol=10.0 * rtol)
    if solution.u.shape[1] == 3:  # the force follows the spring while the mass sticks
        middle = solution(0.5 * (STICK + SLIP))
        assert middle[2] == pytest.approx(-middle[0], abs=10.0 * rtol)


KINETIC, STATIC, SPEED = 1.0, 1.5, 0.5


def exact_stick_slip(t_end: float) -> tuple[list[float], list[float]]:
    """Ends of sticking and slipping of a mass that a spring pulls, and its place and speed at the end."""
    # While it sticks the spring grows with the speed; it slips as y - 1 = a cos s + b sin s of the spring y.
    a, b, times, stuck_at = STATIC - KINETIC, SPEED, list[float](), 0.0
    slip = 2.0 * np.pi - 2.0 * np.arctan(a / b)
    while (begin := (STATIC + stuck_at) / SPEED) < t_end:
        times.append(begin)
        s = min(slip, t_end - begin)
        x = SPEED * (begin + s) - KINETIC - a * np.cos(s) - b * np.sin(s)
        if s < slip:
            return times, [x, SPEED + a * np.sin(s) - b * np.cos(s)]
        times.append(begin + slip)
        stuck_at = x
    return times, [stuck_at, 0.0]


def dragged(t: float, u: Any, du: Any) -> list[Any]:
    x, v, force = u
    friction = np.where(v > 0.0, KINETIC, np.where(v < 0.0, -KINETIC, STATIC * np.sign(v)))
    return [du[0] - v, du[1] - (SPEED * t - x) + force, force - friction]


def dragged_as_a_model() -> ds.Model:
    m = ds.Model("dragged")
    x, v, force = m.variables("x v force", start=[0.0, 0.0, 0.0])
    friction = sp.Piecewise((KINETIC, v > 0), (-KINETIC, v < 0), (STATIC * sp.sign(v), True))
    m.equations(m.der(x) - v, m.der(v) - (SPEED * m.t - x) + force, force - friction)
    return m


DRAGGED = """model Dragged
  Real x(start=0, fixed=true), v(start=0, fixed=true), force;
equation
  der(x) = v;
  der(v) = 0.5*time - x - force;
  force = if v > 0 then 1 elseif v < 0 then -1 else 1.5*sign(v);
end Dragged;
"""


@pytest.mark.parametrize("rtol", TOLERANCES)
@pytest.mark.parametrize("how", ["function", "model", "modelica"])
@pytest.mark.parametrize("t_end", [20.0, 13.0])
def test_static_friction_above_kinetic_sticks_and_slips(
    how: str, t_end: float, rtol: float, tmp_path: Path
) -> None:
    (tmp_path / "dragged.mo").write_text(DRAGGED)
    of = {"function": dragged, "model": dragged_as_a_model(), "modelica": str(tmp_path / "dragged.mo")}[how]
    start = {"u0": {"x": 0.0, "v": 0.0, "force": 0.0}} if how == "function" else {}
    solution = ds.solve(of, **start, t_end=t_end, rtol=rtol)
    assert solution.success, solution.message
    times, end = exact_stick_slip(t_end)
    found = np.sort(np.concatenate([record.t for record in solution.switches]))
    assert np.allclose(found[found > 1e-9], times, rtol=0.0, atol=10.0 * rtol)
    assert np.allclose([solution["x"][-1], solution["v"][-1]], end, rtol=0.0, atol=10.0 * rtol)
    assert solution(2.5)[2] == pytest.approx(
        1.25, abs=10.0 * rtol
    )  # the pull holds it, above the kinetic force


WRITTEN: dict[str, Any] = {
    "sign": np.sign,
    "cases": lambda v: np.where(v > 0.0, 1.0, np.where(v < 0.0, -1.0, 0.0)),
    "sum": lambda v: np.where(v > 0.0, 1.0, 0.0) - np.where(0.0 > v, 1.0, 0.0),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_friction_is_the_same_however_it_is_written(written: str) -> None:
    """A push 1.5 sin t, in whose turns the block sticks with a force from 1 to -1."""

    def pushed(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - u[1], du[1] - 1.5 * np.sin(t) + u[2], u[2] - WRITTEN[written](u[1])]

    # From v = -0.2 to rest; it sticks until the push is 1, and slips until v = 0 again, then the other way.
    stuck = brentq(lambda t: -0.2 + t + 1.5 * (1.0 - np.cos(t)), 0.0, 1.0)
    free = np.arcsin(1.0 / 1.5)
    held = brentq(lambda t: 1.5 * (np.cos(free) - np.cos(t)) - (t - free), 2.0, 5.0)
    solution = ds.solve(pushed, u0=[0.0, -0.2, -1.0], t_end=6.0, rtol=1e-8)
    assert solution.success, solution.message
    found = np.sort(np.concatenate([record.t for record in solution.switches]))
    assert np.allclose(found, [stuck, free, held, free + np.pi], rtol=0.0, atol=1e-7)
    assert solution(0.5)[2] == pytest.approx(1.5 * np.sin(0.5), abs=1e-7)


def test_all_jumps_with_one_border_slide_together() -> None:
    # Two forces of 1 and 0.5 with the same border: at rest they share the pull as 2 to 1.
    def held(t: float, u: Any, du: Any) -> list[Any]:
        v, first, second = u
        jump = np.where(v > 0.0, 0.5, -0.5)
        return [du[0] - t + first + second, first - np.sign(v), second - jump]

    solution = ds.solve(held, u0=[0.5, 1.0, 0.5], t_end=2.0, rtol=1e-8)
    stops = 1.5 - np.sqrt(1.5**2 - 1.0)  # 1/2 - 3/2 t + t^2 / 2
    found = np.sort(np.concatenate([record.t for record in solution.switches]))
    assert np.allclose(found, [stops, 1.5], rtol=0.0, atol=1e-7)
    assert np.allclose(solution(1.2), [0.0, 0.8, 0.4], rtol=0.0, atol=1e-7)
    assert solution.u[-1, 0] == pytest.approx(0.125, abs=1e-7)


def test_a_solution_that_rests_on_a_border_by_a_value_of_its_own_is_told() -> None:
    def clipped(t: float, u: Any, du: Any) -> list[Any]:
        x, v, force = u
        pull = SPEED * t - x
        held = np.clip(pull, -STATIC, STATIC)
        friction = np.where(v > 0.0, KINETIC, np.where(v < 0.0, -KINETIC, held))
        return [du[0] - v, du[1] - pull + force, force - friction]

    solution = ds.solve(clipped, u0=[0.0, 0.0, 0.0], t_end=20.0, rtol=1e-6)
    assert not solution.success and "S*sign(v)" in solution.message
    assert solution.t[-1] == pytest.approx(exact_stick_slip(9.0)[0][1], abs=1e-5)


def test_a_model_of_modelica_slides(tmp_path: Path) -> None:
    file = tmp_path / "belt.mo"
    file.write_text(
        "model Belt\n  Real x(start=0, fixed=true);\n  Real v(start=0, fixed=true);\n  Real f;\n  Real w;\n"
        "equation\n  der(x) = v;\n  der(v) = -x - f;\n  w = v - 0.5;\n  f = if w > 0 then 1 else -1;\n"
        "end Belt;\n"
    )
    solution = ds.solve(str(file), rtol=1e-8, t_end=SLIP + 5.0)
    assert solution.success and "without simplification" in solution.message
    assert solution["x"][-1] == pytest.approx(1.0 + 0.5 * np.sin(5.0), abs=1e-7)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_a_quantiser_slides_at_a_level(rtol: float) -> None:
    # x' = 0.5 + 0.2 t - floor(x): at x = 1 from x = 0.2 on, until t = 2.5, then x = 1 + 0.1 (t - 2.5)^2.
    entry = (-0.5 + np.sqrt(0.25 + 0.32)) / 0.2
    solution = ds.solve(
        lambda t, u, du: [du[0] - 0.5 - 0.2 * t + np.floor(u[0])], u0=[0.2], t_end=4.0, rtol=rtol
    )
    assert np.allclose(solution.switches[0].t, [entry, 2.5], rtol=0.0, atol=10.0 * rtol)
    assert solution.u[-1, 0] == pytest.approx(1.0 + 0.1 * 1.5**2, abs=10.0 * rtol)


def test_a_pendulum_with_dry_friction_comes_to_rest() -> None:
    """Index 3 beside the equation of the angle, solved from turn to turn."""
    friction, gravity = 0.15, 9.81

    def pendulum(t: float, u: Any, du: Any) -> list[Any]:
        x, y, vx, vy, force = u
        f = friction * np.sign(x * vy - y * vx)
        return [
            *(du[0] - vx, du[1] - vy, du[2] + 2.0 * force * x - f * y),
            *(du[3] + 2.0 * force * y + gravity + f * x, x * x + y * y - 1.0),
        ]

    def swinging(t: float, y: Any, side: float) -> list[float]:
        return [y[1], -gravity * np.sin(y[0]) - friction * side]

    angle, t, side, turns = np.arcsin(0.3), 0.0, -1.0, []
    while gravity * abs(np.sin(angle)) > friction:
        swing = solve_ivp(
            swinging,
            (t, t + 5.0),
            [angle, 0.0],
            args=(side,),
            events=lambda t, y, side: y[1],
            method="DOP853",
            rtol=1e-12,
            atol=1e-13,
            max_step=0.05,
        )
        later = swing.t_events[0] > t + 0.5
        t, angle = swing.t_events[0][later][0], swing.y_events[0][later][0][0]
        turns.append(t)
        side = -side
    u0 = [0.3, -np.sqrt(0.91), 0.0, 0.0, 0.5 * gravity * np.sqrt(0.91)]
    solution = ds.solve(pendulum, u0=u0, t_end=12.0, rtol=1e-8)
    assert solution.success and "slides" in solution.message
    found = solution.switches[0].t
    assert np.allclose(found[-len(turns) :], turns, rtol=0.0, atol=1e-6)
    assert np.allclose(solution.u[-1, :4], [np.sin(angle), -np.cos(angle), 0.0, 0.0], rtol=0.0, atol=1e-7)


class Filippov:
    """x' = A x + b - c sign(d x) by matrix exponentials, with times at which it slides and leaves."""

    def __init__(self, seed: int) -> None:
        source = np.random.default_rng(seed)
        n = self.n = int(source.integers(2, 5))
        a = source.standard_normal((n, n))
        self.a = a - (1.0 + np.abs(np.linalg.eigvals(a).real).max()) * np.eye(n)
        self.b, self.d = 2.0 * source.standard_normal(n), source.standard_normal(n)
        self.c = source.standard_normal(n)
        self.c *= np.sign(self.d @ self.c)
        self.x0 = 2.0 * source.standard_normal(n)

    def residual(self, t: float, u: Any, du: Any) -> Any:
        state = np.array([u[i] for i in range(self.n)])
        jump = np.sign(sum(self.d[i] * u[i] for i in range(self.n)))
        return [
            du[i] - sum(self.a[i, j] * state[j] for j in range(self.n)) - self.b[i] + self.c[i] * jump
            for i in range(self.n)
        ]

    def field(self, mode: int) -> tuple[Any, Any]:
        """Matrix and constant of the linear equations on a side, or sliding for 0."""
        if mode:
            return self.a, self.b - mode * self.c
        onto = np.eye(self.n) - np.outer(self.c, self.d) / (self.d @ self.c)
        return onto @ self.a, onto @ self.b

    def reference(self, t_end: float) -> tuple[list[float], Any, bool]:
        """Times of changes, the end, and whether they are well apart."""
        t, x, times, clear = 0.0, self.x0, [], True
        mode = int(np.sign(self.d @ x))
        while True:
            a, b = self.field(mode)

            def flow(s: float, x: Any = x, a: Any = a, b: Any = b) -> Any:
                whole = np.zeros((self.n + 1, self.n + 1))
                whole[:-1, :-1], whole[:-1, -1] = s * a, s * b
                return expm(whole)[:-1] @ np.append(x, 1.0)

            def looked(s: float, mode: int = mode, flow: Any = flow) -> float:
                there = flow(s)
                if mode:
                    return float(mode * (self.d @ there))
                share = self.d @ (self.a @ there + self.b) / (self.d @ self.c)
                return float(1.0 - share * share)

            grid = np.linspace(0.0, t_end - t, 1500)[1:]
            values = np.array([looked(s) for s in grid])
            away = np.flatnonzero(values > 1e-9)
            begin = int(away[0]) if away.size else len(grid)
            below = np.flatnonzero(values[begin:] <= 0.0)
            lows = values[begin : begin + int(below[0])] if below.size else values[begin:]
            inner = lows[1:-1]
            dips = inner[(inner < lows[:-2]) & (inner < lows[2:])] if len(lows) > 2 else inner
            clear &= bool((dips > 1e-3).all())
            if not below.size:
                return times, flow(t_end - t), clear
            at = begin + int(below[0])
            s = brentq(looked, grid[at - 1], grid[at], xtol=1e-15, rtol=1e-14)
            clear &= bool(not times or s > 1e-2)
            x, t = flow(s), t + s
            times.append(t)
            rates = {
                side: float(self.d @ (self.field(side)[0] @ x + self.field(side)[1])) for side in (-1, 1)
            }
            clear &= bool(mode == 0 or min(map(abs, rates.values())) > 1e-2)
            if mode == 0:
                share = self.d @ (self.a @ x + self.b) / (self.d @ self.c)
                mode = int(np.sign(share))
            elif rates[1] < 0.0 < rates[-1]:
                mode = 0
            else:
                mode = -mode


@pytest.mark.parametrize("seed", range(12))
def test_generated_relays_are_those_of_matrix_exponentials(seed: int) -> None:
    system, rtol = Filippov(seed), 1e-7
    times, end, clear = system.reference(6.0)
    if not clear:
        pytest.skip("changes are too near to one another, or touch the switch")
    solution = ds.solve(system.residual, u0=system.x0.tolist(), t_end=6.0, rtol=rtol)
    assert solution.success
    found = solution.switches[0].t if solution.switches else np.zeros(0)
    assert np.allclose(found, times, rtol=0.0, atol=30.0 * rtol)
    assert np.allclose(solution.u[-1], end, rtol=0.0, atol=30.0 * rtol * (1.0 + np.abs(system.x0).max()))


def two_blocks(t: float, u: Any, du: Any) -> list[Any]:
    x1, v1, x2, v2 = u
    spring, push = x2 - x1, 1.5 * np.sin(t)
    return [
        *(du[0] - v1, du[1] - spring + 0.5 * np.sign(v1)),
        *(du[2] - v2, du[3] + spring - push + 0.4 * np.sign(v2)),
    ]


def test_two_blocks_stick_one_by_one_and_together() -> None:
    """The states beside those of a tolerance a thousand times smaller, and of a steep smooth friction."""
    coarse, fine = (ds.solve(two_blocks, u0=[0.0] * 4, t_end=15.0, rtol=rtol) for rtol in (1e-6, 1e-9))
    assert coarse.success and fine.success
    assert np.allclose(coarse.u[-1], fine.u[-1], rtol=0.0, atol=1e-5)
    together = [abs(fine(t)[[1, 3]]).max() < 1e-9 for t in np.linspace(0.01, 0.26, 5)]
    assert all(together)  # the push is below both frictions until sin t = 0.4 / 1.5 = 0.267

    def smooth(t: float, y: Any, steep: float = 1e5) -> list[float]:
        x1, v1, x2, v2 = y
        spring, push = x2 - x1, 1.5 * np.sin(t)
        f1, f2 = 0.5 * np.tanh(steep * v1), 0.4 * np.tanh(steep * v2)
        return [v1, spring - f1, v2, push - spring - f2]

    beside = solve_ivp(smooth, (0.0, 15.0), np.zeros(4), method="Radau", rtol=1e-8, atol=1e-10)
    assert np.allclose(fine.u[-1], beside.y[:, -1], rtol=0.0, atol=2e-3)


def test_where_a_run_does_not_slide_it_ends_with_the_name_of_the_switch() -> None:
    stopped = ds.solve(relay, u0=[0.1], t_end=3.5, rtol=1e-6, chattering="stop")
    assert not stopped.success and "'sign(u[0])' switches again and again" in stopped.message
    assert stopped.t[-1] == pytest.approx(ENTRY, abs=1e-5)
    with pytest.raises(InputError, match="steps of a fixed size"):
        ds.solve(relay, u0=[0.1], t_end=3.5, dt=0.1, sweeper="radau-iia-5", chattering="slide")
    with pytest.raises(InputError, match="at chattering switches"):
        ds.solve(relay, u0=[0.1], t_end=3.5, rtol=1e-6, chattering="glide")


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_conditions_that_must_hold_at_moments_are_looked_at_while_a_run_slides(rtol: float) -> None:
    m = ds.Model("relay", interval=(0.0, 3.5))
    y, x = m.variable("y", start=0.0, fixed=True), m.variable("x", start=0.1, fixed=True)
    m.equations(m.der(x) - sp.sin(m.t) + sp.sign(x) / 2, m.der(y) - 1)
    m.require(y < 0.3, "y is large", when="sample(0.2, 0.25)", level="warning")
    solution = ds.solve(m, rtol=rtol)
    assert solution.success and "y is large at t=0.45" in solution.message and 0.45 < HALF
    assert np.allclose(solution.switches[0].t, [ENTRY, HALF], rtol=0.0, atol=10.0 * rtol)


@pytest.mark.parametrize("rtol", TOLERANCES)
def test_an_algebraic_loop_over_a_switch_follows_the_switch(rtol: float) -> None:
    # z = -sign(z - x) is -1 or 1, and x itself where |x| < 1: z slides along z = x from t = 2 to 4.
    def loop(t: float, u: Any, du: Any) -> list[Any]:
        x, z = u
        return [du[0] - 1.0, z + np.sign(z - x)]

    solution = ds.solve(loop, u0=[-3.0, -1.0], t_end=6.0, rtol=rtol)
    assert solution.success
    times = np.array([1.0, 2.5, 3.0, 3.5, 5.0])
    assert np.allclose(solution(times)[:, 1], [-1.0, -0.5, 0.0, 0.5, 1.0], rtol=0.0, atol=10.0 * rtol)
    assert np.allclose(solution.switches[0].t, [2.0, 4.0], rtol=0.0, atol=10.0 * rtol)
    assert solution.stats["arcs"] == 3


@pytest.mark.parametrize("t_end", [SLIP, STICK])
def test_a_run_may_end_where_sliding_begins_or_ends(t_end: float) -> None:
    solution = ds.solve(belt, u0=[0.0, 0.0], t_end=t_end, rtol=1e-8)
    assert solution.success and solution.t[-1] == t_end
    assert solution.u[-1, 1] == pytest.approx(0.5, abs=1e-8)


def test_a_block_at_rest_stays_where_friction_holds_it() -> None:
    def block(t: float, u: Any, du: Any, push: float = 0.5) -> list[Any]:
        return [du[0] - u[1], du[1] - push + np.sign(u[1])]

    held, pushed = (
        ds.solve(block, u0=[0.0, 0.0], t_end=2.0, rtol=1e-6, params={"push": push}) for push in (0.5, 1.5)
    )
    assert held.success and np.abs(held.u).max() < 1e-12
    assert np.allclose(pushed.u[-1], [1.0, 1.0], rtol=0.0, atol=1e-5)


def test_switches_that_come_ever_faster_are_passed_where_the_solution_rests_behind() -> None:
    # x'' = -sign(x) - sign(x') / 2: from turn to turn x and the times shrink by constant factors.
    def twisting(t: float, u: Any, du: Any) -> list[Any]:
        x, v = u
        return [du[0] - v, du[1] + np.sign(x) + 0.5 * np.sign(v)]

    # Down from x at rest with 1/2, up to rest with 3/2: half a swing, whose turn has x / 3.
    turn = np.sqrt(2.0 * 0.1 / 0.5)
    first = turn + 0.5 * turn / 1.5
    limit = first / (1.0 - np.sqrt(1.0 / 3.0))
    solution = ds.solve(twisting, u0=[0.1, 0.0], t_end=6.0, rtol=1e-7)
    assert solution.success and np.abs(solution.u[-1]).max() < 1e-12
    assert max(record.t[-1] for record in solution.switches) == pytest.approx(limit, abs=1e-6)


@pytest.mark.parametrize("drift", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("border", [0.0, 1.0, -3.0])
def test_a_start_that_holds_on_a_border_alone_slides_or_leaves(border: float, drift: float) -> None:
    # x' = drift - f with f = sign(x - border), which is 0 at the start alone: x stays while abs(drift) < 1,
    # where f is the drift; else x' = drift - 1.
    def relay(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] - drift + u[1], u[1] - np.sign(u[0] - border)]

    solution = ds.solve(relay, u0=[border, 0.0], t_end=2.0, rtol=1e-6)
    assert solution.success, solution.message
    assert "function called" not in solution.message
    assert ("slides along" in solution.message) == (drift < 1.0)
    times = np.linspace(0.1, 2.0, 20)
    x, force = solution(times).T
    assert np.allclose(x, border + max(drift - 1.0, 0.0) * times, rtol=1e-5, atol=1e-5)
    assert np.allclose(force, min(drift, 1.0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("broken_at", [2.5, 8.6, 10.5])
def test_a_run_goes_on_in_the_middle_of_sliding_to_the_last_bit(broken_at: float, tmp_path: Path) -> None:
    """At 2.5 and 8.6 the mass sticks, at 10.5 it slips."""

    class Break(Hooks):  # type: ignore[misc]
        def post_step(self, step: Any, level_number: int) -> None:
            if step.time + step.dt > broken_at:
                raise KeyboardInterrupt

    settings: dict[str, Any] = {"u0": [0.0, 0.0, 0.0], "t_end": 12.0, "rtol": 1e-8}
    settings |= {"checkpoint": tmp_path / "dragged.npz", "every": 1}
    with pytest.raises(KeyboardInterrupt):
        ds.solve(dragged, hooks=[Break], **settings)
    again = ds.solve(dragged, resume=True, **settings)
    assert broken_at - 1.5 < again.parameters["resumed_at"] < broken_at
    whole = ds.solve(dragged, u0=[0.0, 0.0, 0.0], t_end=12.0, rtol=1e-8)
    assert again.stats["arcs"] == whole.stats["arcs"] == 5 and again.message == whole.message
    assert np.array_equal(again.t, whole.t) and np.array_equal(again.u, whole.u)
    assert np.array_equal(again(np.linspace(0.0, 12.0, 50)), whole(np.linspace(0.0, 12.0, 50)))
    for mine, of_whole in zip(again.switches, whole.switches, strict=True):
        assert np.array_equal(mine.t, of_whole.t)


def test_a_run_that_does_not_go_on_takes_nothing_from_the_arcs_of_another(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"u0": [0.1], "t_end": 3.5, "rtol": 1e-6, "checkpoint": tmp_path / "arcs"}
    ds.solve(relay, every=1, **settings)
    assert {file.name for file in tmp_path.iterdir()} == {"arcs.npz", "arcs.arc1.npz", "arcs.arc2.npz"}
    ds.solve(relay, every=1, **{**settings, "t_end": 0.05})
    assert {file.name for file in tmp_path.iterdir()} == {"arcs.npz"}
