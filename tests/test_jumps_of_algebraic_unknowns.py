"""Algebraic unknowns jump where equations change: they are found behind the jump by whatever finds them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from pySDC.core.hooks import Hooks
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import dae_sdc as ds
from dae_sdc.control.stepping import SteppingController
from dae_sdc.dae.paths import newton_homotopy
from dae_sdc.dae.state import attach
from dae_sdc.sweepers import restart
from dae_sdc.sweepers.restart import consistent_restart
from dae_sdc.sweepers.together import StagesTogether

solve: Any = ds.solve  # functions of any signature are problems

RTOLS = (1e-4, 1e-6, 1e-9)


# --- a conductance that changes by 20,000 before a diode of two straight lines -----------------------------

BEFORE, BEHIND = 1.0 - 0.9 / 20.0, (1e-3 - 60.0 - 0.9) / (100.0 + 1e-3)


def switched(t: float, u: Any, du: Any) -> list[Any]:
    v, z = u
    g = np.where(t % 1.0 < 0.4, 20.0, 1e-3)
    return [du[0] - (z - v), g * (1 - z) + 100.0 * np.maximum(-z - 0.6, 0.0) - 0.9]


class Switched(ds.ProblemDAE):
    """The same equations with breakpoints."""

    index, interval = 1, (0.0, 3.0)

    def __init__(self) -> None:
        super().__init__(n_diff=1, n_alg=1)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return switched(t, u, du)

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        return tuple(k + s for k in range(int(t_end) + 1) for s in (0.0, 0.4) if t0 < k + s < t_end)


class Unannounced(Switched):
    """The same without breakpoints, with a Jacobian."""

    breakpoints = ds.ProblemDAE.breakpoints

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        g = 20.0 if t % 1.0 < 0.4 else 1e-3
        return np.array([[1.0 + c, -c], [0.0, -c * (g + (100.0 if u[1] < -0.6 else 0.0))]])


def exact_v(t: float) -> float:
    """v' = z - v with z constant between the switches."""
    v, now = 0.0, 0.0
    for k in range(3):
        for z, until in ((BEFORE, k + 0.4), (BEHIND, k + 1.0)):
            end = max(now, min(t, until))
            v, now = z + (v - z) * np.exp(now - end), end
    return v


@pytest.mark.parametrize("rtol", RTOLS)
@pytest.mark.parametrize(
    ("problem", "options"),
    [(switched, {}), (switched, {"trace": False}), (Switched, {"trace": False})],
    ids=["function", "called", "breakpoints"],
)
def test_an_algebraic_unknown_jumps_where_a_conductance_switches(
    problem: Any, options: dict[str, Any], rtol: float
) -> None:
    solution = solve(problem, u0=[0.0, BEFORE], t_end=2.9, rtol=rtol, **options)
    assert solution.success, solution.message
    # Jumps of a function that is called are met by short steps; what is left of them is told.
    bound = (10 if "trace" not in options or problem is Switched else 100) * rtol
    assert solution.u[-1, 1] == pytest.approx(BEHIND, rel=bound)
    inside = np.linspace(0.05, 2.85, 29)
    for t, (v, z) in zip(inside, solution(inside), strict=True):
        assert v == pytest.approx(exact_v(t), abs=bound)
        if abs(t % 1.0 - 0.4) > 0.01 and t % 1.0 > 0.01:
            assert z == pytest.approx(BEFORE if t % 1.0 < 0.4 else BEHIND, abs=bound)


def test_jumps_that_nobody_announced_are_counted() -> None:
    solution = solve(switched, u0=[0.0, BEFORE], t_end=2.9, trace=False)
    assert 1 <= solution.stats["jumps"] <= 5  # at 0.4, 1, 1.4, 2 and 2.4; steps may get across some
    assert "jumps" not in solve(switched, u0=[0.0, BEFORE], t_end=2.9).stats


def test_a_run_with_jumps_is_resumed_to_the_last_bit(tmp_path: Path) -> None:
    options: dict[str, Any] = {"u0": [0.0, BEFORE], "t_end": 2.9, "trace": False, "rtol": 1e-6}
    whole = solve(Unannounced, **options)
    assert whole.success and whole.stats["jumps"] > 0
    number = (whole.stats["steps"] + whole.stats["rejected"]) // 2
    _interrupted(Unannounced, number, checkpoint=tmp_path / "run", every=5, **options)
    resumed = solve(Unannounced, checkpoint=tmp_path / "run", resume=True, **options)
    np.testing.assert_array_equal(whole.t, resumed.t)
    np.testing.assert_array_equal(whole.u, resumed.u)
    for name in ("steps", "rejected", "jumps", "newton"):
        assert whole.stats[name] == resumed.stats[name]


def _interrupted(problem: Any, attempts: int, **options: Any) -> None:
    left = attempts

    class Interrupt(Hooks):  # type: ignore[misc]
        def post_step(self, step: Any, level_number: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(problem, hooks=[Interrupt], **options)


def test_a_failure_tells_what_was_tried() -> None:
    def without_solution(t: float, u: Any, du: Any) -> list[Any]:
        return [du[0] + u[0] - u[1], u[1] ** 2 + (-1.0 if t < 0.5 else 1.0)]

    for trace in (None, False):
        solution = solve(without_solution, u0=[0.0, 1.0], t_end=1.0, trace=trace)
        assert not solution.success and solution.t[-1] == pytest.approx(0.5)
        assert "with the differential unknowns held" in solution.message
        assert "homotopy: the path" in solution.message and "equation 1" in solution.message
        assert "\n" not in solution.message


# --- what is held, and paths --------------------------------------------------------------------------------


class FloatingCapacitor(ds.ProblemDAE):
    """A source that jumps, R1 to node a, C from a to b, R2 to ground: a - b alone is differential."""

    index = 1

    def __init__(self) -> None:
        super().__init__(n_diff=2, n_alg=0)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        current = 0.1 * (du[0] - du[1])
        return [(u[0] - (1.0 if t < 0.5 else -2.0)) / 3.0 + current, u[1] / 7.0 - current]


def test_a_restart_holds_what_the_kernel_of_the_mass_matrix_says() -> None:
    problem, held = FloatingCapacitor(), 0.4
    before = 0.7 * (1.0 - held)  # R2 / (R1 + R2) of the source less the capacitor
    state = consistent_restart(problem, problem.state([before + held, before]), 0.5, 1e-3)
    after = 0.7 * (-2.0 - held)
    assert state[0] - state[1] == pytest.approx(held, rel=1e-14)
    assert state[1] == pytest.approx(after, rel=1e-12)
    slope = state.polynomial.derivative_at_end()
    rate = after / 7.0 / 0.1
    assert slope == pytest.approx([rate - 0.7 * rate, -0.7 * rate], rel=1e-6)
    left = problem.evaluate(state, attach(slope, 2), 0.5 + 1e-9)
    assert np.abs(left).max() < 1e-12


def test_a_homotopy_goes_round_the_corners_of_a_characteristic() -> None:
    """From the first branch over one that falls to the third: the only one that reaches the value."""
    knots, values = [0.0, 1.0, 1.8, 5.0], [0.0, 1.0, 0.2, 3.4]

    def residual(x: Any) -> Any:
        return np.interp(x, knots, values) - 1.5

    def jacobian(x: Any) -> Any:
        return np.array([[-1.0 if 1.0 <= x[0] < 1.8 else 1.0]])

    found = newton_homotopy(residual, jacobian, np.array([0.3]), np.array([1.0]))
    assert found == pytest.approx([3.1], abs=1e-9)


# --- buck converters ----------------------------------------------------------------------------------------

SUPPLY, INDUCTANCE, CAPACITANCE, LOAD, PERIOD, DUTY = 12.0, 100e-6, 100e-6, 5.0, 20e-6, 0.4
ON, OFF, END = 20.0, 1e-6, 3.3 * PERIOD


def _exponential(v: Any) -> Any:
    with np.errstate(over="ignore"):
        return 1e-12 * (np.exp(v / 0.02585) - 1.0) + 1e-9 * v


DIODES: dict[str, Callable[[Any], Any]] = {
    "exponential": _exponential,
    "piecewise": lambda v: np.where(v > 0.0, v / 1e-2, v * 1e-6),
}


def _node(i: float, g: float, diode: Callable[[Any], Any]) -> float:
    """Voltage of the switched node."""

    def balance(x: float) -> float:
        return float(g * (SUPPLY - x) - i + diode(-x))

    return float(brentq(balance, -5.0, 60.0, xtol=1e-15, rtol=1e-15, maxiter=500))


@cache
def buck_reference(name: str) -> tuple[float, float, float]:
    """Current, output and node at the end, by Radau's method between the switches without the node."""
    diode, state = DIODES[name], np.zeros(2)
    cuts = sorted({k * PERIOD + s for k in range(4) for s in (0.0, DUTY * PERIOD)} | {END})
    cuts = [t for t in cuts if t <= END]
    for begin, end in pairwise(cuts):
        g = ON if (0.5 * (begin + end) / PERIOD) % 1.0 < DUTY else OFF

        def slope(t: float, y: Any, g: float = g) -> list[float]:
            voltage = (_node(y[0], g, diode) - y[1]) / INDUCTANCE
            return [voltage, (y[0] - y[1] / LOAD) / CAPACITANCE]

        state = solve_ivp(slope, (begin, end), state, method="Radau", rtol=1e-11, atol=1e-13).y[:, -1]
    return float(state[0]), float(state[1]), _node(state[0], g, diode)


def _buck(u: Any, du: Any, g: Any, diode: Callable[[Any], Any]) -> list[Any]:
    i, v, x = u
    return [
        INDUCTANCE * du[0] - (x - v),
        CAPACITANCE * du[1] - (i - v / LOAD),
        g * (SUPPLY - x) - i + diode(-x),
    ]


def _buck_of(form: str, name: str) -> Any:
    diode = DIODES[name]
    if form == "model":
        m = ds.Model("buck", interval=(0.0, END))
        i, v = m.variable("i", start=0.0, fixed=True), m.variable("v", start=0.0, fixed=True)
        x = m.variable("x", start=_node(0.0, ON, diode))
        g = sp.Piecewise((ON, m.t / PERIOD - sp.floor(m.t / PERIOD) < DUTY), (OFF, True))
        line = sp.Piecewise((-x / 1e-2, x < 0), (-x * 1e-6, True))
        through = 1e-12 * (sp.exp(-x / 0.02585) - 1) - 1e-9 * x if name == "exponential" else line
        m.equations(*_buck((i, v, x), [m.der(i), m.der(v)], g, lambda _: through))
        return m
    if form == "breakpoints":

        class Buck(ds.ProblemDAE):
            index, interval = 1, (0.0, END)

            def __init__(self) -> None:
                super().__init__(n_diff=2, n_alg=1)

            def eval_f(self, u: Any, du: Any, t: float) -> Any:
                return _buck(u, du, ON if (t / PERIOD) % 1.0 < DUTY else OFF, diode)

            def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
                times = [k * PERIOD + s for k in range(5) for s in (0.0, DUTY * PERIOD)]
                return tuple(t for t in times if t0 < t < t_end)

        return Buck

    def remainder(t: float, u: Any, du: Any) -> list[Any]:
        return _buck(u, du, np.where(t % PERIOD < DUTY * PERIOD, ON, OFF), diode)

    def floor(t: float, u: Any, du: Any) -> list[Any]:
        return _buck(u, du, np.where(t / PERIOD - np.floor(t / PERIOD) < DUTY, ON, OFF), diode)

    return {"remainder": remainder, "floor": floor}[form]


@pytest.mark.parametrize("rtol", RTOLS)
@pytest.mark.parametrize("name", DIODES)
@pytest.mark.parametrize("form", ["remainder", "floor", "breakpoints", "model"])
def test_buck_converters_run_by_default(form: str, name: str, rtol: float) -> None:
    options: dict[str, Any] = {} if form == "model" else {"u0": [0.0, 0.0, _node(0.0, ON, DIODES[name])]}
    options |= {"t_end": END} if form in ("remainder", "floor") else {}
    options |= {"trace": False} if form == "breakpoints" else {}
    solution = solve(_buck_of(form, name), rtol=rtol, **options)
    assert solution.success, solution.message
    sizes = np.abs(solution.u).max(axis=0)
    assert (np.abs(solution.u[-1] - buck_reference(name)) <= 10 * rtol * sizes).all()


def test_a_jump_like_one_before_needs_no_homotopy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same values as by a homotopy every time, at the ends of periods that are nearly alike."""
    followed: list[int] = []

    def counted(*path: Any) -> Any:
        followed[-1] += 1
        return newton_homotopy(*path)

    monkeypatch.setattr(restart, "newton_homotopy", counted)
    solutions = []
    for near in (restart.NEAR_JUMP, 0.0):
        monkeypatch.setattr(restart, "NEAR_JUMP", near)
        followed.append(0)
        solutions.append(solve(_buck_of("model", "exponential"), t_end=30.3 * PERIOD, rtol=1e-6))
        assert solutions[-1].success, solutions[-1].message
    assert followed[0] <= 0.7 * followed[1]
    assert np.allclose(solutions[0].u[-1], solutions[1].u[-1], rtol=1e-6, atol=1e-9)


# --- fewer nodes --------------------------------------------------------------------------------------------


def bridge(t: float, u: Any, du: Any) -> list[Any]:
    """A bridge of exponential diodes that charges a floating capacitor through a resistor."""
    a, p, n = u

    def diode(v: Any) -> Any:
        return 1e-9 * (np.exp(v / 0.05) - 1.0) + 1e-8 * v

    load = (p - n) / 1949.1817652422174 + 0.0007453193468565562 * (du[1] - du[2])
    source = (24.0 * np.sin(2000.0 * np.pi * t) - a) / 7.511141528242692
    return [
        source - diode(a - p) + diode(n - a),
        diode(a - p) + diode(-p) - load,
        load - diode(n - a) - diode(n),
    ]


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_a_bridge_of_exponential_diodes_runs_by_default(rtol: float) -> None:
    options: dict[str, Any] = {"u0": {"a": 0.0, "p": 0.0, "n": 0.0}, "t_end": 2.5e-3}
    solution = solve(bridge, rtol=rtol, **options)
    assert solution.success, solution.message
    reference = solve(bridge, rtol=1e-11, nodes=5, atol=1e-12, **options)
    assert reference.success
    sizes = np.abs(reference.u).max(axis=0)
    assert (np.abs(solution.u[-1] - reference.u[-1]) <= 10 * rtol * sizes).all()


def rectifier(t: float, u: Any, du: Any) -> list[Any]:
    """One exponential diode between a source and a capacitor with a load."""
    p, i = u
    return [0.02 * du[0] + p / 50.0 - i, i - exponential(5.0 * np.sin(2.0 * np.pi * t) - p)]


def full_rectifier(t: float, u: Any, du: Any) -> list[Any]:
    """Four of them, with the voltages of both ends of the source and its current."""
    p, a, b, source = u
    return [
        0.02 * du[0] + p / 50.0 - exponential(a - p) - exponential(b - p),
        a - b - 5.0 * np.sin(2.0 * np.pi * t),
        source - exponential(a - p) + exponential(-a),
        -source - exponential(b - p) + exponential(-b),
    ]


def exponential(v: Any) -> Any:
    return 1e-9 * (np.exp(v / 0.05) - 1.0) + 1e-6 * v


@cache
def rectified(function: Any) -> Any:
    """Voltages of the load by Radau's method on the one equation that is left."""

    def current(t: float, p: float) -> float:
        source = 5.0 * np.sin(2.0 * np.pi * t)
        if function is rectifier:
            return float(exponential(source - p))

        def balance(b: float) -> float:
            a = b + source
            return float(exponential(-a) + exponential(-b) - exponential(a - p) - exponential(b - p))

        b = brentq(balance, -12.0, 12.0, xtol=1e-15, rtol=1e-15)
        return float(exponential(b + source - p) + exponential(b - p))

    return solve_ivp(
        lambda t, p: [(current(t, p[0]) - p[0] / 50.0) / 0.02],
        (0.0, 1.4),
        [0.0],
        method="Radau",
        rtol=1e-11,
        atol=1e-12,
        t_eval=[0.2, 0.7, 1.1, 1.4],
    ).y[0]


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("function", [rectifier, full_rectifier])
def test_rectifiers_of_exponential_diodes_are_those_of_one_equation(function: Any, rtol: float) -> None:
    start = [0.0] * (2 if function is rectifier else 4)
    solution = solve(function, u0=start, t_end=1.4, rtol=rtol)
    assert solution.success, solution.message
    found = solution([0.2, 0.7, 1.1, 1.4])[:, 0]
    assert np.allclose(found, rectified(function), rtol=10.0 * rtol, atol=0.0)


@pytest.fixture
def seven_nodes_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Newton's method fail with seven nodes for some time."""
    step = StagesTogether.step

    def failing(self: StagesTogether, u0: Any, t0: float, h: float, repeated: int) -> Any:
        outcome = step(self, u0, t0, h, repeated)
        fails = self.tableau.stages == 7 and 1.0 < t0 < 2.0
        return outcome._replace(solved=False, error=np.inf, reason="made to fail") if fails else outcome

    monkeypatch.setattr(StagesTogether, "step", failing)
    monkeypatch.setattr(SteppingController, "_go_ahead", lambda *_: None)


def oscillator(t: float, u: Any, du: Any) -> list[Any]:
    return [du[0] - u[1], du[1] + u[0], u[2] - u[0] * u[1]]


OSCILLATOR: dict[str, Any] = {"u0": [1.0, 0.0, 0.0], "t_end": 20.0, "rtol": 1e-8}


@pytest.mark.usefixtures("seven_nodes_fail")
def test_fewer_nodes_are_taken_where_seven_fail_and_seven_again_behind() -> None:
    solution = solve(oscillator, **OSCILLATOR)
    assert solution.success, solution.message
    assert 0 < solution.stats["fewer_nodes"] < solution.stats["steps"]
    np.testing.assert_allclose(solution.u[:, 0], np.cos(solution.t), atol=1e-6)
    between = np.linspace(0.0, 20.0, 101)
    np.testing.assert_allclose(solution(between)[:, 2], -0.5 * np.sin(2.0 * between), atol=1e-6)


@pytest.mark.usefixtures("seven_nodes_fail")
def test_a_method_that_was_named_keeps_its_nodes() -> None:
    solution = solve(oscillator, nodes=7, **OSCILLATOR)
    assert not solution.success and 1.0 < solution.t[-1] < 2.0
    assert "fewer_nodes" not in solution.stats


@pytest.mark.usefixtures("seven_nodes_fail")
def test_a_run_with_fewer_nodes_is_resumed_to_the_last_bit(tmp_path: Path) -> None:
    whole = solve(oscillator, **OSCILLATOR)
    number = int(np.searchsorted(whole.t, 1.5)) + 4
    _interrupted(oscillator, number, checkpoint=tmp_path / "run", every=1, **OSCILLATOR)
    resumed = solve(oscillator, checkpoint=tmp_path / "run", resume=True, **OSCILLATOR)
    np.testing.assert_array_equal(whole.u, resumed.u)
    assert whole.stats == resumed.stats


def test_a_failure_tells_that_fewer_nodes_failed_too() -> None:
    def undefined(t: float, u: Any, du: Any) -> list[Any]:
        with np.errstate(invalid="ignore"):
            return [du[0] + np.sqrt(1.0 - u[0]) - 3.0]

    solution = solve(undefined, u0=[0.0], t_end=2.0, trace=False)
    assert not solution.success
    assert "5, 3, 2 nodes were tried in vain" in solution.message


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_a_fold_is_no_jump_of_the_equations(rtol: float, trace: bool | None) -> None:
    """On z - z^3 / 3 = y with y' = z, another branch exists behind the fold at z = 1.

    As z' = z / (1 - z^2), it is reached at t = 3 / 2 - log(2) from z = 2.
    """

    def relaxation(t: Any, u: Any, du: Any) -> list[Any]:
        return [du[0] - u[1], u[0] + u[1] ** 3 / 3.0 - u[1]]

    solution = ds.solve(relaxation, u0={"y": 2.0 - 8.0 / 3.0, "z": 2.0}, t_end=5.0, rtol=rtol, trace=trace)
    assert not solution.success and "no longer determine 'z'" in solution.message
    assert solution.t[-1] == pytest.approx(1.5 - np.log(2.0), abs=1e-6)
