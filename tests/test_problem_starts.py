"""Starts of all kinds of problems: accepted if consistent, refused with names, completed, repaired."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from benchmarks.studies.starts.plants import column
from dae_sdc import cli
from dae_sdc.run.description import SolveOptions
from dae_sdc.run.solve import prepared

G = 9.81


def pendulum(t: float, u: Any, du: Any) -> Any:
    x, y, v, w, tension = u
    return [du[0] - v, du[1] - w, du[2] + x * tension, du[3] + y * tension + G, x * x + y * y - 1.0]


def pendulum_constraints(t: float, u: Any) -> list[float]:
    """The length, its first and its second derivative."""
    x, y, v, w, tension = u
    return [x * x + y * y - 1.0, x * v + y * w, v * v + w * w - tension * (x * x + y * y) - G * y]


def swinging(angle: float = 0.4, rate: float = 1.5) -> list[float]:
    """A consistent state of the pendulum."""
    x, y = math.sin(angle), -math.cos(angle)
    return [x, y, -rate * y, rate * x, rate**2 - G * y]


TURNED = [4, 2, 0, 3, 1]
"""An order of the unknowns of the pendulum with the multiplier first."""


def turned_pendulum(t: float, u: Any, du: Any) -> Any:
    tension, v, x, w, y = u
    return pendulum(t, [x, y, v, w, tension], [du[2], du[4], du[1], du[3], du[0]])


class Swing(ds.ProblemDAE):
    """The pendulum as a class, with nothing declared."""

    names = ("x", "y", "vx", "vy", "tension")
    equation_names = ("rate x", "rate y", "force x", "force y", "length")

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=4, n_alg=1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return pendulum(t, u, du)

    def u_exact(self, t: float) -> Any:
        return swinging()


def pendulum_model() -> ds.Model:
    m = ds.Model("swing")
    x, y, tension = m.variables("x y tension")
    m.equation(m.der(x, 2) + tension * x, name="force x")
    m.equation(m.der(y, 2) + tension * y + G, name="force y")
    m.equation(x**2 + y**2 - 1, name="length")
    return m


def chain(t: float, u: Any, du: Any) -> Any:
    """a = sin t, b = a', c = b' and an unknown of its own, mixed: linear of index 3."""
    a, b, c, d = u
    first, second, third = a - np.sin(t), b - du[0], c - du[1]
    return [first + second, second - third, third + 2.0 * first, du[3] + d - a]


def chain_constraints(t: float, u: Any) -> list[float]:
    a, b, c, _ = u
    return [a - math.sin(t), b - math.cos(t), c + math.sin(t)]


def robertson(t: float, u: Any) -> Any:
    a, b, c = u
    return [-0.04 * a + 1e4 * b * c, 0.04 * a - 1e4 * b * c - 3e7 * b * b, a + b + c - 1.0]


def two_tanks(t: float, u: Any) -> Any:
    """Two tanks at one level, so that the flow between them follows: index 2."""
    first, second, flow = u
    return [1.0 - flow, flow - 0.5 * second, first - second]


def hessenberg_2_constraints(t: float, u: Any) -> list[float]:
    y1, y2, z = u
    return [y1 * y1 * y2 - 1.0, 2.0 * y2 * z * z - 3.0 * z + y1 * y1]


def hessenberg_3_constraints(t: float, u: Any) -> list[float]:
    y1, y2, v1, v2, w = u
    rates = [2.0 * y1 * y2 * v1 * v2, -y1 * y2 * v2**2, (y1 * y2 + v1 * v2) * w, -y1 * y2**2 * v2**2 * w]
    hidden = rates[1] * v1 + y2 * rates[2] - rates[0] * v2 - y1 * rates[3]
    return [y1 * y2 * y2 - 1.0, y2 * v1 - y1 * v2, hidden]


def simple_constraints(t: float, u: Any) -> list[float]:
    u1, u2, z = u
    a, e = 10.0, math.exp(t)
    rate1 = (a - 1.0 / (2.0 - t)) * u1 + (2.0 - t) * a * z + (3.0 - t) / (2.0 - t) * e
    rate2 = (1.0 - a) / (t - 2.0) * u1 - u2 + (a - 1.0) * z + 2.0 * e
    constraint = (t + 2.0) * u1 + (t * t - 4.0) * u2 - (t * t + t - 2.0) * e
    rest = u1 + 2.0 * t * u2 - (2.0 * t + 1.0 + t * t + t - 2.0) * e
    return [constraint, (t + 2.0) * rate1 + (t * t - 4.0) * rate2 + rest]


def mechanical(name: str, positions: int) -> Callable[[float, Any], list[float]]:
    """The last equations of a problem, which bind positions, and their derivatives along the velocities."""
    problem = ds.PROBLEMS[name]()
    rows = [i for i in range(problem.n) if i >= problem.n_diff and "moment" not in problem.equation_names[i]]

    def constraints(t: float, u: Any) -> list[float]:
        def at(s: float) -> Any:
            moved = np.array(u, dtype=float)
            moved[:positions] += s * moved[positions : 2 * positions]
            return np.array(problem.evaluate(problem.state(moved), problem.state(0.0 * moved), t + s))[rows]

        return [*at(0.0), *((at(1e-4) - at(-1e-4)) / 2e-4)]

    return constraints


def of_kernel(name: str) -> type[ds.ProblemDAE]:
    """A class with the eval_f that the kernel of a problem is in Python, and with nothing declared."""
    own = ds.PROBLEMS[name]()
    kernel, p = type(own).residual_kernel, np.array(own.kernel_parameters(), dtype=float)

    class Plain(ds.ProblemDAE):
        names, equation_names, interval, dt = own.names, own.equation_names, own.interval, own.dt
        nominal = 1.0 if own.given_nominal is None else np.asarray(own.given_nominal)

        def __init__(self, **settings: Any) -> None:
            super().__init__(own.n_diff, own.n_alg, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            out = np.zeros(self.n)
            kernel(t, u, du, p, out)
            return out

    return Plain


@dataclass(frozen=True)
class Case:
    """A problem, a consistent start, all that binds a state, and unknowns to perturb.

    ``groups`` has their numbers, each with a pattern for the names of what is violated then.
    """

    problem: Callable[[], Any]
    start: Any
    constraints: Callable[[float, Any], list[float]]
    groups: tuple[tuple[list[int], str], ...]
    options: Any = None
    names: tuple[str, ...] = ()
    starts: int = 10


def swings(problem: Callable[[], Any], length: str, **more: Any) -> Case:
    """The pendulum, with the name of the equation of its length."""
    groups = (([2, 3], f"'derivative of {length}'"), ([0, 1], f"'{length}'"))
    return Case(problem, swinging(), pendulum_constraints, groups, **more)


def of_library(name: str, constraints: Any, *groups: tuple[list[int], str], **more: Any) -> Case:
    own = ds.PROBLEMS[name]()
    problem = more.pop("problem", lambda: name)
    return Case(problem, np.array(own.u_exact(own.interval[0])), constraints, groups, **more)


UNTRACED = {"trace": False}
WHEEL = "'(derivative of )?(position of the left wheel|length of the bar)'"
STATE = ("x", "y", "der(x)", "der(y)", "tension")

CASES = {
    "function": swings(lambda: pendulum, "equation 4"),
    "untraced function": swings(lambda: pendulum, "equation 4", options=UNTRACED, starts=2),
    "class": swings(lambda: Swing, "length"),
    "untraced class": swings(lambda: Swing, "length", options=UNTRACED, starts=2),
    "model": swings(pendulum_model, "length", names=STATE),
    "chain": Case(
        lambda: chain, [0.0, 1.0, 0.0, 0.5], chain_constraints, (([0], "'"), ([1], "'derivative of "))
    ),
    "untraced chain": Case(
        lambda: chain,
        [0.0, 1.0, 0.0, 0.5],
        chain_constraints,
        (([0], "'"), ([1], "'derivative of ")),
        UNTRACED,
        starts=2,
    ),
    "tanks": Case(
        lambda: ds.MassMatrixProblem(two_tanks, np.diag([1.0, 1.0, 0.0])),
        [1.0, 1.0, 0.75],
        lambda t, u: [u[0] - u[1], 1.0 - 2.0 * u[2] + 0.5 * u[1]],
        (([0], "'equation 2'"),),
    ),
    "robertson": Case(
        lambda: ds.MassMatrixProblem(robertson, np.diag([1.0, 1.0, 0.0])),
        [1.0, 0.0, 0.0],
        lambda t, u: [sum(u) - 1.0],
        (([0, 2], "'equation 2'"),),
    ),
    "simple": of_library("simple", simple_constraints, ([0, 1], "'constraint'")),
    "hessenberg-2": of_library("hessenberg-2", hessenberg_2_constraints, ([0, 1], "'constraint'"), starts=8),
    "hessenberg-3": of_library(
        "hessenberg-3",
        hessenberg_3_constraints,
        ([2, 3], "'derivative of constraint'"),
        ([0, 1], "'constraint'"),
        starts=8,
    ),
    "untraced hessenberg-3": of_library(
        "hessenberg-3",
        hessenberg_3_constraints,
        ([2, 3], "'derivative of constraint'"),
        problem=lambda: of_kernel("hessenberg-3"),
        options=UNTRACED,
        starts=2,
    ),
    "pendulum": of_library(
        "pendulum", mechanical("pendulum", 2), ([2], "'derivative of length'"), ([0], "'length'"), starts=14
    ),
    "car-axis": of_library(
        "car-axis", mechanical("car-axis", 4), ([4, 5, 6, 7], WHEEL), ([1, 2, 3], WHEEL), starts=1
    ),
    "andrews": of_library(
        "andrews", mechanical("andrews", 7), (list(range(7, 14)), "'derivative of loop "), starts=1
    ),
    "rigid-pendulum": of_library(
        "rigid-pendulum", mechanical("rigid-pendulum", 2), ([2], "derivative of length of the rod'"), starts=4
    ),
}


def perturbed(case: Case, seed: int) -> tuple[Any, str]:
    """A start that violates a constraint, and a pattern for its name."""
    rng = np.random.default_rng(seed)
    u = np.array(case.start, dtype=float)
    unknowns, pattern = case.groups[seed % len(case.groups)]
    size = rng.uniform(0.01, 0.1, len(unknowns)) * rng.choice([-1.0, 1.0], len(unknowns))
    u[unknowns] += size * (1.0 + np.abs(u[unknowns]))
    return (dict(zip(case.names, u.tolist(), strict=True)) if case.names else u), pattern


def test_there_are_a_hundred_perturbed_starts() -> None:
    assert sum(case.starts for case in CASES.values()) >= 100


@pytest.mark.parametrize("name", CASES)
def test_a_perturbed_start_is_refused_by_name_or_repaired_as_asked(name: str) -> None:
    case = CASES[name]
    options = {"rtol": 1e-6, "t_end": 1.0, **(case.options or {})}
    for seed in range(case.starts):
        u0, pattern = perturbed(case, seed)
        with pytest.raises(ds.InconsistentStateError) as caught:
            ds.solve(case.problem(), u0=u0, **options)
        message = str(caught.value)
        assert "violates" in message and re.search(pattern, message), message
        assert "start='consistent'" in message and "\n" not in message
        asked = SolveOptions(case.problem(), u0=u0, start="consistent", **options)
        _, equations, begin = prepared(asked)
        assert "start values made consistent: " in begin.remark
        own = np.array(begin.u)
        if case.names:
            own = np.array([dict(zip(equations.problem.names, own, strict=True))[one] for one in case.names])
        assert np.abs(case.constraints(0.0, own)).max() < 1e-7


@pytest.mark.parametrize("name", ["function", "untraced class", "simple", "model"])
def test_a_run_from_a_start_made_consistent_keeps_all_constraints(name: str) -> None:
    case = CASES[name]
    u0, _ = perturbed(case, 0)
    found = ds.solve(case.problem(), u0=u0, start="consistent", rtol=1e-8, t_end=0.3, **(case.options or {}))
    assert found.success and "start values made consistent" in found.message
    order = [found.names.index(one) for one in case.names or found.names]
    for t, u in zip(found.t, found.u[:, order], strict=True):
        assert np.abs(case.constraints(t, u)[:2]).max() < 1e-6


# --- what is consistent is taken as it is -------------------------------------------------------------------


def function_of(name: str) -> type[ds.ProblemDAE]:
    """A class with an eval_f that calls the equations of a problem, and with nothing declared."""
    own = ds.PROBLEMS[name]()

    class Called(ds.ProblemDAE):
        names, interval, dt, nominal = own.names, own.interval, own.dt, own.nominal

        def __init__(self, **settings: Any) -> None:
            super().__init__(own.n_diff, own.n_alg, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return own.evaluate(own.state(u), own.state(du), t)

    return Called


WAYS: dict[str, Callable[[str], Any]] = {
    "kernels": lambda name: name,
    "traced": of_kernel,
    "untraced": function_of,
}


REDUCED = {"problematic-f": ("traced", "untraced"), "simple": ("untraced",), "skate": ("untraced",)}
"""Problems whose index is reduced where nothing is declared: linear ones, however they are given."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ds.PROBLEMS)
def test_starts_of_the_catalogue_are_taken_without_a_word(name: str, way: str) -> None:
    own = ds.PROBLEMS[name]()
    if way == "traced" and type(own).residual_kernel is None:
        pytest.skip("given by parts")
    if way == "traced" and name == "two-bit-adder":
        pytest.skip("half a minute; test_traced_catalogue.py reads it")
    start = np.array(own.u_exact(own.interval[0]))
    trace = False if way == "untraced" else None
    asked = SolveOptions(WAYS[way](name), u0=start, t0=own.interval[0], rtol=1e-6, trace=trace)
    _, equations, begin = prepared(asked)
    if way in REDUCED.get(name, ()):
        assert re.fullmatch(
            r"index 2 reduced to \d first; reduce=False \w+ the equations as they are", equations.remark
        )
        return
    assert equations.remark == begin.remark == "" and np.array_equal(begin.u, start)


def wave(t: float, u: Any, du: Any) -> Any:
    """x = sin(1e6 t) and its rate, of a unit of time that is far from the usual step."""
    return [u[0] - math.sin(1e6 * t), u[1] - 1e-6 * du[0]]


def root(t: float, u: Any, du: Any) -> Any:
    """Has no values before t = 0."""
    return [u[0] - math.sqrt(t) ** 3, u[1] - du[0]]


def kink(t: float, u: Any, du: Any) -> Any:
    """x = |t| and its rate to the right."""
    return [u[0] - abs(t), u[1] - du[0]]


def jump(t: float, u: Any, du: Any) -> Any:
    """x = t, or something else before."""
    return [u[0] - (t if t >= 0.0 else 1.0), u[1] - du[0]]


STARTS_OF_FUNCTIONS = {wave: [0.0, 1.0], root: [0.0, 0.0], kink: [0.0, 1.0], jump: [0.0, 1.0]}


@pytest.mark.parametrize("function", STARTS_OF_FUNCTIONS, ids=lambda one: one.__name__)
def test_a_consistent_start_is_never_refused(function: Any) -> None:
    u0 = STARTS_OF_FUNCTIONS[function]
    begin = prepared(SolveOptions(function, u0=u0, t_end=1e-6, rtol=1e-6, trace=False))[2]
    assert begin.u.tolist() == pytest.approx(u0, abs=1e-3)


def test_the_end_of_a_run_may_be_the_start_of_the_next() -> None:
    for rtol in (1e-4, 1e-7):
        first = ds.solve(Swing, rtol=rtol, t_end=0.5)
        second = ds.solve(Swing, u0=first.u[-1], t0=0.5, rtol=rtol, t_end=1.0)
        assert second.success


# --- starts that are completed, given by names, or found before ---------------------------------------------


NAMED = {"x": 0.6, "vx": 0.8}


@pytest.mark.parametrize("options", [{}, UNTRACED], ids=["traced", "untraced"])
def test_a_start_of_some_unknowns_is_completed(options: Any) -> None:
    found = ds.solve(Swing, u0=NAMED, rtol=1e-6, t_end=0.1, **options)
    state = dict(zip(found.names, found.u[0], strict=True))
    assert {name: state[name] for name in NAMED} == NAMED
    assert np.abs(pendulum_constraints(0.0, found.u[0])).max() < 1e-7
    assert "u0 completed with y = " in found.message


def test_a_start_of_some_unknowns_is_completed_in_catalogue_and_model() -> None:
    of_name = ds.solve("simple", u0={"u1": 1.0, "u2": 1.0}, rtol=1e-6, t_end=0.1)
    assert of_name.u[0] == pytest.approx([1.0, 1.0, -0.5], abs=1e-9)
    given = {"x": 0.6, "der(x)": 0.8, "y": -0.8}
    of_model = ds.solve(pendulum_model(), u0=given, rtol=1e-6, t_end=0.1)
    assert of_model.values("der(y)")[0] == pytest.approx(0.6)
    assert "u0 completed with" in of_model.message


def test_values_of_some_unknowns_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ds.InconsistentStateError, match=r"fixed values 'x', 'y' .* contradict 'length'"):
        ds.solve(Swing, u0={"x": 0.6, "y": -0.9}, rtol=1e-6)


def test_multipliers_follow_with_a_remark() -> None:
    u0 = [*swinging()[:4], 0.0]
    for options in ({}, UNTRACED):
        found = ds.solve(Swing, u0=u0, rtol=1e-6, t_end=0.1, **options)
        assert found.u[0] == pytest.approx(swinging(), abs=1e-8)
        assert found.message == f"start values made consistent: tension from 0 to {swinging()[4]:.6g}"


def test_a_start_that_was_found_is_taken_by_names() -> None:
    start = ds.initial(pendulum_model(), fixed={"x": 0.6, "der(x)": 0.4}, guesses={"y": -0.5})
    run = ds.solve(pendulum_model(), u0=start, rtol=1e-6, t_end=0.1)
    assert run.message == "" and run.u[0].tolist() == start.u.tolist()
    turned = ds.FunctionProblem(turned_pendulum, 5, names=("tension", "v", "x", "w", "y"))
    start = ds.initial(turned, u0=np.array(swinging())[TURNED])
    assert start.names == turned.names
    for problem in (turned, turned_pendulum):
        run = ds.solve(problem, u0=start, rtol=1e-6, t_end=0.1)
        assert run.message == "" and run.u[0].tolist() == start.u.tolist()
    mixed = ds.FunctionProblem(pendulum, 5, names=("x", "y", "v", "w", "tension"))
    run = ds.solve(mixed, u0=start, rtol=1e-6, t_end=0.1)
    assert run.u[0] == pytest.approx(swinging())


def test_a_start_that_was_found_has_its_time() -> None:
    start = ds.initial(ds.FunctionProblem(chain, 4), guesses={"u[3]": 0.5}, t0=0.3)
    assert ds.solve(chain, u0=start, rtol=1e-6, t_end=0.4).t[0] == 0.3
    with pytest.raises(ds.InputError, match=r"start at t=0\.3, but t0 is 0"):
        ds.solve(chain, u0=start, t0=0.0, rtol=1e-6)


def test_fixed_values_and_guesses_choose_a_start() -> None:
    run = ds.solve(Swing, fixed={"x": 0.6}, guesses={"y": 0.5}, rtol=1e-6, t_end=0.1)
    assert run.u[0, :2] == pytest.approx([0.6, 0.8]) and "y from 0.5 to 0.8" in run.message
    held = ds.solve(Swing, u0=[0.6, -0.5, 0.0, 0.0, 0.0], fixed=["x"], rtol=1e-6, t_end=0.1)
    assert held.u[0, :2] == pytest.approx([0.6, -0.8])
    model = ds.solve(pendulum_model(), fixed={"x": 0.6}, guesses={"y": 0.5}, rtol=1e-6, t_end=0.1)
    assert model.values("y")[0] == pytest.approx(0.8)


def test_the_command_line_makes_starts_consistent(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--rtol", "1e-6", "--t-end", "0.1"]
    assert cli.main(["solve", "pendulum", "--fixed", "x=0.6", "--guess", "y=0.5", *options]) == 0
    assert "y from 0.5 to 0.8" in capsys.readouterr().out
    assert cli.main(["solve", "simple", "--consistent", *options]) == 0
    assert cli.main(["solve", "simple", "--start", "consistent", *options]) == 0


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "start": ({"start": "nearest"}, "unknown start 'nearest'; available: consistent, given"),
    "given and fixed": ({"start": "given", "fixed": {"x": 0.6}}, "fixed and guesses belong to start='consis"),
    "twice": ({"u0": {"x": 0.6}, "fixed": {"x": 0.6}}, "x is in fixed and in u0; give it once"),
    "guessed twice": ({"guesses": {"x": 0.6}, "fixed": {"x": 0.6}}, "x is in fixed and in guesses"),
    "no unknown": ({"fixed": {"z": 0.6}}, "z"),
    "no name": ({"u0": {"z": 0.6}}, "unknown name in u0 'z'"),
    "no solution": ({"fixed": {"x": 2.0}}, "no values were found from .* hold with the fixed 'x'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_does_not_go_together_is_said_in_one_line(name: str) -> None:
    options, message = MISTAKES[name]
    with pytest.raises(ds.InputError, match=message) as caught:
        ds.solve(Swing, rtol=1e-6, t_end=0.1, **options)
    assert "\n" not in str(caught.value)


def test_values_that_are_given_by_name_are_kept_whatever_is_guessed() -> None:
    def tray(t: Any, u: Any, du: Any) -> list[Any]:
        x, y, temperature = u
        light = np.exp(20.7936 - 2788.51 / (temperature - 52.36))
        heavy = np.exp(20.9065 - 3096.52 / (temperature - 53.67))
        return [du[0] + x - 0.3, y - x * light / 101325.0, x * light + (1 - x) * heavy - 101325.0]

    problem = ds.FunctionProblem(tray, 3, names=("x", "y", "T"))
    for guesses in (None, {"T": 250.0}, {"T": 1000.0}):
        solution = ds.solve(problem, u0={"x": 0.5}, guesses=guesses, t_end=1.0)
        # Vapour pressures of benzene and toluene, whose mean is that of the air at the boiling point.
        assert solution.u[0, 0] == 0.5 and solution.u[0, 2] == pytest.approx(365.26235205, rel=1e-9)


def typed_pendulum(t: float, u: Any, du: Any) -> Any:
    x, y, v, w, m = u
    return [du[0] - v, du[1] - w, du[2] + m * x, du[3] + m * y + 9.81, x * x + y * y - 1.0]


@pytest.mark.parametrize("ways", [{}, {"trace": False}, {"sweeper": "radau-iia-5"}], ids=str)
@pytest.mark.parametrize("rtol", [1e-6, 1e-8, 1e-9])
def test_a_start_typed_in_eight_digits_is_moved_onto_the_constraints(
    ways: dict[str, Any], rtol: float
) -> None:
    u0 = np.array([0.76484219, -0.64421769, 0.0, 0.0, 6.3197755])
    solution = ds.solve(typed_pendulum, u0=u0, t_end=1.0, rtol=rtol, **ways)
    assert solution.success, solution.message
    assert re.search(r"start values made consistent: .*u\[0\] by -3\.\de-09", solution.message)
    x, y, v, w, m = np.array(solution.u).T
    # The nearest point of the circle, on which the violation 2 d of x^2 + y^2 = 1 is a distance of d.
    assert np.hypot(x[0] - u0[0], y[0] - u0[1]) == pytest.approx((np.hypot(*u0[:2]) - 1.0), rel=0.2)
    assert abs(x**2 + y**2 - 1.0).max() <= 100 * rtol
    energy = (v**2 + w**2) / 2 + 9.81 * y
    assert abs(energy - energy[0]).max() <= 100 * rtol * (1.0 + abs(energy[0]))
    follows = v**2 + w**2 - 9.81 * y
    error = (abs(m - follows) / (1.0 + abs(follows))).max()
    told = re.search(r"u\[4\].* of index 3: errors up to (\S+) of their sizes", solution.message)
    assert error <= (30 * rtol if told is None else 3.0 * float(told[1]))
    assert told is None or "trace" in ways


def mixed_rows() -> tuple[Any, Any]:
    """Q, and F = P (w_1' + w_1, w_2 + w_3' - 1, w_3 - 0.3 - t) with w = Q u, whose products are rounded."""
    P, Q = np.random.default_rng(0).uniform(0.2, 1.0, (2, 3, 3)) + 2.0 * np.eye(3)
    mass, stiffness = P @ np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]) @ Q, P @ Q
    return Q, lambda t, u, du: mass @ du + stiffness @ u - P @ np.array([0.0 * t, 1.0 + 0.0 * t, 0.3 + t])


@pytest.mark.parametrize("index", [None, 2])
def test_hidden_constraints_are_met_that_rounding_errors_of_numbers_hide(index: int | None) -> None:
    Q, function = mixed_rows()
    problem = ds.FunctionProblem(function, 3)
    if index is not None:
        problem.index = index
    found = ds.initial(problem, guesses={"u[0]": 5.0, "u[1]": -1.0})
    # w_3 = 0.3 + t, so that w_3' = 1 and w_2 = 0.
    assert (Q @ found.u)[1:] == pytest.approx([0.0, 0.3], abs=1e-8)


def test_a_model_whose_hidden_constraints_rounding_errors_hide_is_refused() -> None:
    model = ds.Model("mixed")
    u = model.variables("a b c", start=[5.0, -1.0, 0.0])
    rates = np.array([model.der(one) for one in u], dtype=object)
    model.equations(*mixed_rows()[1](model.t, np.array(u, dtype=object), rates))
    with pytest.raises(ds.InputError, match="keep hidden constraints from being seen; write them"):
        ds.initial(model)


def test_a_derivative_that_is_no_value_of_a_function_that_is_called_cannot_be_fixed() -> None:
    problem = ds.FunctionProblem(lambda t, u, du: [du[0] + u[0], u[1] - 2.0 * u[0]], 2, names=("x", "y"))
    with pytest.raises(ds.InputError, match=r"der\(y\) of lambda cannot be fixed"):
        ds.solve(problem, fixed={"der(y)": 7.0}, guesses={"x": 1.0}, trace=False, t_end=0.1, rtol=1e-6)


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("by_name", [True, False])
def test_what_is_none_in_a_start_follows_from_the_rest(trace: bool | None, by_name: bool) -> None:
    known = swinging()[:4:2]
    values = {"x": known[0], "y": None, "v": known[1], "w": None, "tension": None}
    started = ds.solve(
        pendulum,
        u0=values if by_name else list(values.values()),
        **({"guesses": {"y": -1.0}} if by_name else {"bounds": {"u[1]": (-2.0, 0.0)}}),
        **{"t_end": 0.1, "rtol": 1e-6, "trace": trace},
    )
    assert started.success
    assert started.u[0] == pytest.approx(swinging(), rel=1e-9)
    assert (started.u[0, 0], started.u[0, 2]) == (known[0], known[1])


def test_half_of_a_circuit_is_enough() -> None:
    def filtered(t: float, u: Any, du: Any) -> Any:
        source, capacitor, current = u
        return [current - (source - capacitor) / 10.0, source - 5.0 * np.sin(t), 1e-3 * du[1] - current]

    end = ds.solve(filtered, u0=[None, 0.0, None], t_end=1.0, rtol=1e-8).u[-1]
    # v' = 100 (5 sin t - v) from v = 0.
    exact = 500.0 / 10001.0 * (100.0 * math.sin(1.0) - math.cos(1.0) + math.exp(-100.0))
    assert end[1] == pytest.approx(exact, rel=1e-7)
    with pytest.raises(ds.InputError, match="None stands for a value that is not known"):
        ds.solve(filtered, u0={"capacitor": 0.0}, t_end=1.0)
    with pytest.raises(ds.InputError, match="2 entries for the 3 unknowns a, b, c"):
        ds.solve(ds.FunctionProblem(filtered, 3, names=("a", "b", "c")), u0=[None, 0.0], t_end=1.0)


def column_by_name(trays: int) -> tuple[Any, dict[str, float], dict[str, Any]]:
    """A column with three unknowns a tray, concentrations of its trays, and guesses of the rest."""
    plant = column(trays, bounded=False)
    problem = ds.FunctionProblem(plant.function, len(plant.names), names=plant.names)
    return problem, {f"x{k}": 0.9 - 0.8 * k / trays for k in range(trays)}, {"T*": 365.0, "y*": 0.5}


def test_the_index_is_that_beside_what_is_guessed() -> None:
    problem, values, guesses = column_by_name(5)
    solution = ds.solve(problem, u0=values, guesses=guesses, t_end=1e-3, rtol=1e-6)
    # Vapour and temperature of a tray follow from its liquid: index 1. At 0 K no equation tells temperatures.
    assert solution.success and "index is" not in solution.message
    whole = ds.solve(problem, u0=solution.u[0].copy(), t_end=1e-3, rtol=1e-6)
    assert np.array_equal(solution.u[-1], whole.u[-1])


@pytest.mark.long
def test_sixty_unknowns_by_name_take_at_most_twice_the_time_of_a_vector_and_ten_milliseconds() -> None:
    problem, values, guesses = column_by_name(20)

    def seconds(u0: Any, **more: Any) -> tuple[float, Any]:
        before = time.process_time()
        solution = ds.solve(problem, u0=u0, t_end=1e-6, rtol=1e-6, **more)
        return time.process_time() - before, solution.u[0].copy()

    spent: list[tuple[float, float]] = []
    for number in range(6):  # the first one reads the function
        by_name, start = seconds({name: x + 1e-6 * number for name, x in values.items()}, guesses=guesses)
        spent.append((by_name, seconds(start)[0]))
    by_names, vectors = np.min(spent[1:], axis=0)
    assert by_names <= 2.0 * vectors + 0.01
