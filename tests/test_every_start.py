"""Every consistent start of a model: against exact solutions, and known numbers of assembly modes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq
from scipy.special import lambertw

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.initial import every, search
from dae_sdc.initial.consistent import Initial
from dae_sdc.problems._models import MODELS

GRAVITY = 9.81
X, Y, Z = sp.symbols("x y z", real=True)


def pendulum() -> ds.Model:
    """Unit mass on a rod of unit length; with this multiplier lambda = x'^2 + y'^2 - g y."""
    model = ds.Model("swing")
    x, y, tension = model.variables("x y lambda")
    model.equation(model.der(x, 2) + tension * x, name="force x")
    model.equation(model.der(y, 2) + tension * y + GRAVITY, name="force y")
    model.equation(x**2 + y**2 - 1, name="length")
    return model


def algebraic(*equations: Any, fixed: Any = None, **start: float) -> Initial:
    """All starts of u' = 0 and some equations in x, y and z."""
    model = ds.Model("algebra")
    symbols = set().union(*(sp.sympify(equation).free_symbols for equation in equations))
    for letter in sorted(symbol.name for symbol in symbols - {sp.Symbol("u", real=True)}):
        model.variable(letter, start.get(letter))
    model.equation(model.der(model.variable("u", start.get("u", 0.0))), name="rest")
    for number, equation in enumerate(equations):
        model.equation(equation, name=f"law {number}")
    return ds.initial(model, all_solutions=True, fixed=fixed)


def found_in(start: Initial, *names: str) -> list[tuple[float, ...]]:
    return sorted(tuple(one[name] for name in names) for one in start.solutions)


def roots_between(function: Callable[[float], float], low: float, high: float) -> list[float]:
    """Simple roots on an interval by changes of sign on a fine grid."""
    grid = np.linspace(low, high, 4001) + 1e-7
    values = np.array([function(float(at)) for at in grid])
    return [
        float(brentq(function, grid[i], grid[i + 1], xtol=1e-13))
        for i in np.flatnonzero(values[1:] * values[:-1] < 0.0)
    ]


# --- pendula ------------------------------------------------------------------------------------------------


def test_both_sides_of_a_pendulum() -> None:
    start = ds.initial(pendulum(), all_solutions=True, fixed={"x": 0.6, "der(x)": 0.4}, guesses={"y": -0.5})
    assert len(start.solutions) == 2
    for one, y in zip(start.solutions, (-0.8, 0.8), strict=True):
        rate = -0.6 * 0.4 / y
        tension = 0.4**2 + rate**2 - GRAVITY * y
        expected = {"x": 0.6, "y": y, "der(x)": 0.4, "der(y)": rate, "lambda": tension}
        expected |= {"der(x, 2)": -0.6 * tension, "der(y, 2)": -y * tension - GRAVITY}
        assert dict(one) == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(start.u, [0.6, -0.8, 0.4, 0.3, 0.4**2 + 0.3**2 + GRAVITY * 0.8], atol=1e-12)
    assert [(block.stage, block.kind, block.paths) for block in start.blocks] == [
        (0, "polynomial", 2),
        (1, "linear", 0),
        (2, "linear", 0),
    ]
    assert [change.name for change in start.changed] == ["y"]


def test_a_fixed_multiplier_leaves_four_starts() -> None:
    # lambda = v^2 - g y, and v is along the circle: v = +-sqrt(lambda + g y), for both y.
    start = ds.initial(pendulum(), all_solutions=True, fixed={"x": 0.6, "lambda": 20.0}, guesses={"y": 0.5})
    expected = []
    for y in (-0.8, 0.8):
        speed = math.sqrt(20.0 + GRAVITY * y)
        expected += [(y, speed * y, -speed * 0.6), (y, -speed * y, speed * 0.6)]
    np.testing.assert_allclose(found_in(start, "y", "der(x)", "der(y)"), sorted(expected), atol=1e-10)


def test_fixed_velocities_move_positions_that_are_guessed() -> None:
    start = ds.initial(
        pendulum(), all_solutions=True, fixed={"der(x)": 1.0, "der(y)": 0.0}, guesses={"x": 0.6, "y": 0.8}
    )
    # x x' + y y' = 0 wants x = 0.
    np.testing.assert_allclose(found_in(start, "x", "y"), [(0.0, -1.0), (0.0, 1.0)], atol=1e-12)
    assert start.values["y"] == pytest.approx(1.0)


def test_a_fixed_rate_reaches_back_through_equations_without_freedom() -> None:
    # w is the rate of p, and p is q: a fixed w leaves q' no choice, two blocks before.
    model = ds.Model("aliases")
    p, q, w, v = model.variables("p q w v")
    model.equation(w - model.der(p), name="rate")
    model.equation(p - q, name="alias")
    model.equation(v - model.der(q), name="speed")
    model.equation(model.der(v) + sp.sin(q), name="force")
    start = ds.initial(model, all_solutions=True, fixed={"w": 1.0, "p": 0.3})
    assert (start.values["q"], start.values["v"]) == pytest.approx((0.3, 1.0))
    assert start.values["der(v)"] == pytest.approx(-math.sin(0.3))
    assert start.free == ()


@pytest.mark.parametrize(("x2", "count"), [(0.3, 2), (0.01, 4)])
def test_the_tension_of_one_pendulum_is_the_length_of_the_next(x2: float, count: int) -> None:
    given = {"x1": 0.1, "x2": x2, "der(x1)": 0.0, "der(x2)": 0.0}
    start = ds.initial("pendula", all_solutions=True, fixed=given)
    expected = []
    for y1 in (-math.sqrt(0.99), math.sqrt(0.99)):
        length = 1.0 + 0.1 * 9.8 * y1
        if length > x2:
            side = math.sqrt(length**2 - x2**2)
            expected += [(y1, -side), (y1, side)]
    assert len(expected) == count
    np.testing.assert_allclose(found_in(start, "y1", "y2"), sorted(expected), atol=1e-11)


@pytest.mark.parametrize(("order", "solved"), [(["x", "y"], "y"), (["y", "x"], "x")])
def test_the_first_guesses_choose(order: list[str], solved: str) -> None:
    values = {"x": 0.6, "y": 0.7}
    start = ds.initial(pendulum(), all_solutions=True, guesses={name: values[name] for name in order})
    first = start.blocks[0]
    assert (first.chosen, first.values) == ((order[0],), (solved,))
    assert start.values[order[0]] == values[order[0]]
    assert start.values[solved] == pytest.approx(math.sqrt(1.0 - values[order[0]] ** 2))
    assert order[0] in start.free
    assert solved not in start.free


def test_a_guess_on_which_nothing_else_depends_is_solved_for() -> None:
    # At (1, 0) the length says nothing about a change of y: x follows from y there, and not y from x.
    guesses = {"x": 1.0, "y": 0.0, "der(x)": 0.0, "der(y)": 2.0}
    start = ds.initial(pendulum(), all_solutions=True, guesses=guesses)
    np.testing.assert_allclose(found_in(start, "x", "der(x)"), [(-1.0, 0.0), (1.0, 0.0)], atol=1e-12)
    assert start.changed == ()
    assert start.values["lambda"] == pytest.approx(4.0)


# --- linkages -----------------------------------------------------------------------------------------------


def test_the_slider_crank_of_the_thesis_has_two_starts() -> None:
    crank, speed = math.pi / 4, 0.3
    given = {"crank": crank, "der(crank)": speed}
    start = ds.initial("slider-crank-4", all_solutions=True, fixed=given)
    first = start.blocks[0]
    # c = (2, 0, 0, 0): the height alone is differentiated twice.
    assert (first.stage, first.equations, first.values) == (0, ("height of the slider",), ("rod",))
    assert max(block.stage for block in start.blocks) == 2
    swing = -math.asin(math.sin(crank) / 2)
    expected = []
    for rod in (swing, -math.pi - swing):
        rate = -math.cos(crank) * speed / (2.0 * math.cos(rod))
        expected.append((rod, 2.0 * math.cos(rod) + math.cos(crank), rate))
    np.testing.assert_allclose(found_in(start, "rod", "x", "der(rod)"), sorted(expected), atol=1e-12)
    assert start.values["rod"] == pytest.approx(swing)  # nearest to the start of the model


def test_an_angle_is_the_one_nearest_to_its_guess() -> None:
    start = ds.initial(
        "slider-crank-4", all_solutions=True, fixed={"crank": math.pi / 4}, guesses={"rod": 2.0 * math.pi}
    )
    swing = -math.asin(math.sin(math.pi / 4) / 2)
    assert start.values["rod"] == pytest.approx(2.0 * math.pi + swing)


BARS = (4.0, 1.0, 3.5, 3.0)


def four_bar(angle: float) -> list[tuple[float, float]]:
    """Angles of coupler and rocker, from the points at which two circles meet."""
    ground, crank, coupler, rocker = BARS
    pin = crank * np.array([math.cos(angle), math.sin(angle)])
    across = np.array([ground, 0.0]) - pin
    distance = float(np.hypot(*across))
    along = (distance**2 + coupler**2 - rocker**2) / (2.0 * distance)
    height = math.sqrt(coupler**2 - along**2)
    unit = across / distance
    found = []
    for side in (-height, height):
        end = pin + along * unit + side * np.array([-unit[1], unit[0]])
        found.append(
            (
                math.atan2(end[1] - pin[1], end[0] - pin[0]),
                math.atan2(end[1], end[0] - ground),
            )
        )
    return sorted(found)


@pytest.mark.parametrize("relative", [False, True])
def test_a_four_bar_linkage_has_two_assembly_modes(relative: bool) -> None:
    ground, crank, coupler, rocker = BARS
    model = ds.Model("four-bar")
    a, b, c = model.variables("a b c")
    model.equation(model.der(a) - 1)
    turned = b
    if relative:
        # The same with a joint angle behind a gear, which is an angle outside of sine and cosine too.
        joint, motor = model.variables("joint motor")
        model.equation(b - a - joint, name="joint")
        model.equation(joint - 2 * motor, name="gear")
        turned = a + 2 * motor
    model.equation(crank * sp.cos(a) + coupler * sp.cos(b) - ground - rocker * sp.cos(c), name="across")
    model.equation(crank * sp.sin(a) + coupler * sp.sin(turned) - rocker * sp.sin(c), name="up")
    start = ds.initial(model, all_solutions=True, fixed={"a": 0.7})
    modes = [(math.remainder(b, 2.0 * math.pi), c) for b, c in found_in(start, "b", "c")]
    # Behind the gear half a turn of the motor is another start, with the same links.
    expected = [mode for mode in four_bar(0.7) for _ in range(2 if relative else 1)]
    np.testing.assert_allclose(sorted(modes), expected, atol=1e-12)
    loop = next(block for block in start.blocks if block.kind == "polynomial")
    assert (loop.kind, loop.paths, loop.complex, loop.real) == ("polynomial", 4, 0, 2)


BASE = ((0.0, 0.0), (2.5, 0.3), (1.0, 2.2))
PLATE = ((0.0, 0.0), (1.3, 0.1), (0.4, 0.9))
LEGS = (1.2, 1.5, 1.3)


def platform(**settings: Any) -> Initial:
    """A plate on three legs of given lengths: the planar 3-RPR robot."""
    model = ds.Model("platform")
    x, y, turn = model.variables("x y turn")
    for number, ((bx, by), (px, py), leg) in enumerate(zip(BASE, PLATE, LEGS, strict=True)):
        right = x + px * sp.cos(turn) - py * sp.sin(turn) - bx
        up = y + px * sp.sin(turn) + py * sp.cos(turn) - by
        model.equation(right**2 + up**2 - leg**2, name=f"leg {number}")
    return ds.initial(model, all_solutions=True, **settings)


def place_for(turn: float) -> tuple[float, float, float]:
    """x, y from the differences of the lengths, which are linear in them, and what the first length lacks."""
    points = np.array(
        [
            (px * math.cos(turn) - py * math.sin(turn) - bx, px * math.sin(turn) + py * math.cos(turn) - by)
            for (bx, by), (px, py) in zip(BASE, PLATE, strict=True)
        ]
    )
    sizes = (points**2).sum(axis=1) - np.array(LEGS) ** 2
    matrix = 2.0 * (points[1:] - points[0])
    x, y = np.linalg.solve(matrix, sizes[0] - sizes[1:])
    lack = (x**2 + y**2 + 2.0 * (points[0] @ (x, y)) + sizes[0]) * np.linalg.det(matrix) ** 2
    return float(x), float(y), float(lack)


def test_the_planar_platform_has_six_assembly_modes() -> None:
    start = platform()
    block = start.blocks[0]
    # Merlet: at most 6, all of them complex or real.
    assert (block.paths, block.complex + block.real, block.lost) == (16, 6, 0)
    turns = roots_between(lambda turn: place_for(turn)[2], -math.pi, math.pi)
    expected = sorted((*place_for(turn)[:2], turn) for turn in turns)
    assert len(expected) == block.real
    np.testing.assert_allclose(found_in(start, "x", "y", "turn"), expected, atol=1e-9)


def test_paths_in_parallel_lead_to_the_same_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BLOCKS", replace(search.BLOCKS, few_paths=1))
    one, two = platform(), platform(workers=2)
    assert [dict(start) for start in one.solutions] == [dict(start) for start in two.solutions]


def test_ranks_do_not_change_the_starts(three_ranks: Path) -> None:
    ranks = [json.loads((three_ranks / f"starts-{rank}.json").read_text()) for rank in range(3)]
    for rank in ranks:
        assert rank["same"]
        assert rank["solutions"] > 1
        assert rank["steps"] < rank["all_steps"]
        assert "2 complex ones" in rank["error"]


def test_andrews_mechanism_has_its_published_start_among_others() -> None:
    start = ds.initial("seven-body", all_solutions=True)
    assert start.changed == ()
    assert start.violated == ()
    # Two loops can each be closed in a second way, beside the published one, with the first as it is.
    assert len(start.solutions) == 4
    assert all(block.lost == 0 for block in start.blocks)


def test_a_model_that_is_repaired_has_its_start_among_others() -> None:
    known = ds.initial("robot-arm", restarts=0)
    start = ds.initial("robot-arm", all_solutions=True)
    assert any("repaired" in remark for remark in start.remarks)
    for name in known.names:
        assert start.values[name] == pytest.approx(known.values[name], abs=1e-8)


# --- functions and choices ----------------------------------------------------------------------------------


def test_branches_of_absolute_values_and_pieces() -> None:
    start = algebraic(
        sp.Abs(X - 1) + X**2 - 3, sp.Piecewise((Y**2 - 4, Y < 0), (Y - 5, True)), sp.Max(Z, 2 * Z) + Z - 6
    )
    # x^2 + x - 4 for x > 1, x^2 - x - 2 below; y^2 = 4 below 0, y = 5 above; 3 z = 6 above 0, 2 z = 6 below.
    pairs = [(x, y, 2.0) for x in (-1.0, (math.sqrt(17) - 1) / 2) for y in (-2.0, 5.0)]
    np.testing.assert_allclose(found_in(start, "x", "y", "z"), sorted(pairs), atol=1e-12)
    assert {block.kind for block in start.blocks} <= {"linear", "polynomial"}


def test_pieces_whose_conditions_are_known_are_no_choices() -> None:
    u = sp.Symbol("u", real=True)
    start = algebraic(sp.Piecewise((X**2 - 4, u < 1), (sp.exp(X) - 2, True)), u=0.5)
    assert found_in(start, "x") == [(-2.0,), (2.0,)]
    assert start.blocks[-1].paths == 2


def test_a_choice_that_depends_on_what_is_found_after_it() -> None:
    # y = 2 - sign(y) / 2 for y > 0; y = 1/2 - sign(y) for none.
    start = algebraic(X - sp.sign(Y), Y + X / 2 - 2)
    assert found_in(start, "x", "y") == [(1.0, 1.5)]
    with pytest.raises(ds.InconsistentStateError, match="no real solution"):
        algebraic(X - sp.sign(Y), Y + X - sp.Rational(1, 2))


def test_more_branches_than_can_be_tried() -> None:
    letters = sp.symbols("x1:8", real=True)
    ring = [sp.Abs(a) + b - 2 for a, b in zip(letters, [*letters[1:], letters[0]], strict=True)]
    start = algebraic(*ring)
    assert "branches" in start.blocks[-1].reason
    assert any(
        all(value == pytest.approx(1.0) for name, value in one.items() if "x" in name)
        for one in start.solutions
    )


def test_roots_and_denominators_do_not_add_solutions() -> None:
    # x = 2 but not -1; y = -1 but not 1; z^(2/3) = 4 for z = 8.
    start = algebraic(sp.sqrt(X + 2) - X, Y**2 / (Y - 1) - 1 / (Y - 1), Z ** sp.Rational(2, 3) - 4)
    np.testing.assert_allclose(found_in(start, "x", "y", "z"), [(2.0, -1.0, 8.0)], atol=1e-10)
    assert all(block.kind in ("linear", "polynomial") for block in start.blocks)


def test_small_values_are_told_apart() -> None:
    # Water with a little strong acid: h oh = 1e-14 and h - oh = 1e-7, so h = 1e-7 (1 +- sqrt 5) / 2.
    start = algebraic(X * Y - 1e-14, X - Y - 1e-7)
    golden = np.array([1.0 - math.sqrt(5.0), 1.0 + math.sqrt(5.0)]) * 0.5e-7
    np.testing.assert_allclose(found_in(start, "x", "y"), np.column_stack([golden, golden - 1e-7]), rtol=1e-9)
    assert start.singular == ()


def test_small_equations_must_hold_as_well() -> None:
    # x = -1 solves the square of the equation only, and leaves 2e-12.
    assert found_in(algebraic(1e-12 * (sp.sqrt(X + 2) - X)), "x") == [pytest.approx((2.0,))]


def test_a_small_denominator_is_not_0() -> None:
    np.testing.assert_allclose(found_in(algebraic(1e-20 / X - X), "x"), [(-1e-10,), (1e-10,)], rtol=1e-9)


def test_contradictory_fixed_values_of_small_size_are_refused() -> None:
    with pytest.raises(ds.InconsistentStateError, match="contradict 'law 0'"):
        algebraic(X**2 + Y**2 - 1e-8, X - Y, fixed={"x": 6e-5, "y": 6e-5})


def test_multiples_and_halves_of_an_angle() -> None:
    start = algebraic(sp.sin(2 * X) - sp.cos(X / 2) * sp.Rational(2, 3))
    expected = roots_between(lambda x: math.sin(2 * x) - math.cos(x / 2) * 2 / 3, -2 * math.pi, 2 * math.pi)
    assert len(expected) == 8
    np.testing.assert_allclose([value for (value,) in found_in(start, "x")], expected, atol=1e-10)


def test_an_exponential_is_solved_from_random_starts() -> None:
    model = ds.Model("diode")
    u, v, i = model.variables("u v i", start=[0.5, 0.6, 0.0])
    model.equation(model.der(u) + i, name="capacitor")
    model.equation(i - 1e-3 * (sp.exp(v / 0.025) - 1), name="diode")
    model.equation(u - v - 100 * i, name="loop")
    start = ds.initial(model, all_solutions=True)
    # i + 1e-3 = 1e-3 exp((u - 100 i) / 0.025).
    ratio = 100.0 * 1e-3 / 0.025
    expected = 0.025 / 100.0 * lambertw(ratio * math.exp((0.5 + 0.1) / 0.025)).real - 1e-3
    np.testing.assert_allclose(found_in(start, "i"), [(expected,)], rtol=1e-9)
    assert [block.reason for block in start.blocks if block.kind == "newton"] == ["the function exp"]
    assert any("may be missing" in remark for remark in start.remarks)
    assert start.singular == ()


def test_newtons_method_finds_several_solutions() -> None:
    start = algebraic(sp.exp(X) - 3 * X)
    expected = [-float(lambertw(-1 / 3, branch).real) for branch in (0, -1)]
    np.testing.assert_allclose([value for (value,) in found_in(start, "x")], sorted(expected), atol=1e-9)


def test_a_linear_circuit_is_solved_directly() -> None:
    model = ds.Model("ladder")
    v1, v2, i = model.variables("v1 v2 i", start=[1.0, 0.0, 0.0])
    model.equation(2e-6 * model.der(v1) + i, name="capacitor")
    model.equation(v1 - v2 - 100 * i, name="first")
    model.equation(v2 - 50 * i, name="second")
    start = ds.initial(model, all_solutions=True)
    assert {block.kind for block in start.blocks} == {"linear"}
    assert start.values["i"] == pytest.approx(1.0 / 150.0)
    assert start.values["der(v1)"] == pytest.approx(-1.0 / 150.0 / 2e-6)
    assert len(start.solutions) == 1


# --- singular blocks ----------------------------------------------------------------------------------------


def equal_bars() -> ds.Model:
    model = ds.Model("equal bars")
    crank, rod, force = model.variables("crank rod force")
    model.equation(sp.sin(crank) + sp.sin(rod), name="height")
    model.equation(model.der(crank, 2) + sp.cos(crank) * force, name="moment crank")
    model.equation(model.der(rod, 2) + sp.cos(rod) * force, name="moment rod")
    return model


def test_a_singular_start_is_told_with_its_rank() -> None:
    start = ds.initial(equal_bars(), all_solutions=True, fixed={"crank": math.pi / 2})
    assert start.values["rod"] == pytest.approx(-math.pi / 2, abs=1e-6)
    assert [(one.stage, one.rank, one.size) for one in start.singular] == [(0, 0, 1), (1, 0, 1), (2, 2, 3)]
    assert "rank 0 of 1" in str(start)
    regular = ds.initial(equal_bars(), all_solutions=True, fixed={"crank": 0.3})
    assert regular.singular == ()
    np.testing.assert_allclose(
        [value for (value,) in found_in(regular, "rod")], [0.3 - math.pi, -0.3], atol=1e-12
    )


def test_a_start_that_ends_in_a_singular_block_is_no_solution_but_told() -> None:
    # (3 y^2 - 2 y) y' = 1 has no solution at y = 0, which is a double root of y^2 (y - 1) = 0.
    model = ds.Model("double")
    y, z = model.variables("y z")
    model.equation(model.der(y) - z, name="rate")
    model.equation(y**2 * (y - 1) - model.t, name="law")
    start = ds.initial(model, all_solutions=True)
    assert [one["y"] for one in start.solutions] == pytest.approx([1.0], abs=1e-9)
    assert start.values["z"] == pytest.approx(1.0)
    assert [(one.stage, one.rank, one.size, bool(one.ended)) for one in start.singular] == [
        (0, 0, 1, False),
        (1, 0, 1, True),
    ]
    assert start.singular[1].values == pytest.approx({"y": 0.0}, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fixed": {"x": 2.0}}, "no real solution at t=0 with x = 2, but 2 complex ones; fix other values"),
        ({"guesses": {"x": 2.0}}, "2 complex ones; give other guesses"),
        ({"fixed": {"x": 0.6, "y": 0.9}}, "'x', 'y' of model swing contradict 'length'.*left with 0.17"),
        (
            {"fixed": {"x": 0.6, "y": 0.8, "der(x)": 1.0, "der(y)": 1.0}},
            "contradict 'derivative of length'",
        ),
    ],
)
def test_contradictions_are_said_in_one_line(given: Any, words: str) -> None:
    with pytest.raises(ds.InconsistentStateError, match=words) as caught:
        ds.initial(pendulum(), all_solutions=True, **given)
    assert "\n" not in str(caught.value)


def test_fixed_values_that_follow_from_others_are_allowed() -> None:
    fixed = {"x": 0.6, "y": -0.8, "der(x)": 0.4, "der(y)": 0.3}
    start = ds.initial(pendulum(), all_solutions=True, fixed=fixed)
    np.testing.assert_allclose(found_in(start, "lambda"), [(0.25 + GRAVITY * 0.8,)])


def test_a_rate_that_fixed_values_leave_open_is_free() -> None:
    # x x' + y y' = 0 says nothing about x' where x and y' are 0.
    given = {"x": 0.0, "der(y)": 0.0}
    start = ds.initial(pendulum(), all_solutions=True, fixed=given, guesses={"der(x)": 2.0})
    np.testing.assert_allclose(found_in(start, "y", "lambda"), [(-1.0, 4.0 + GRAVITY), (1.0, 4.0 - GRAVITY)])
    assert start.free == ("der(x)",)
    assert start.singular == ()


class Unreadable(ds.ProblemDAE):
    """Equations with a table, which no expression is."""

    def __init__(self, **settings: object) -> None:
        super().__init__(1, 0, **settings)

    def eval_f(self, u: ds.MeshDAE, du: ds.MeshDAE, t: float) -> list[float]:
        return [du[0] - np.interp(u[0], [0.0, 1.0], [1.0, 0.5], period=9.0)]


def test_only_what_is_read_as_equations_has_every_start() -> None:
    with pytest.raises(ds.InputError, match="cannot be read as equations"):
        ds.initial(Unreadable, all_solutions=True)
    assert ds.initial("simple", all_solutions=True, fixed={"u1": 1.0}).violated == ()
    with pytest.raises(ds.InputError, match="workers must be"):
        ds.initial("pendulum", all_solutions=True, workers=0)


def test_the_command_shows_blocks_and_solutions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["initial", "pendulum", "--all-solutions", "--fixed", "x=0.6", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "B_0: length -> y: polynomial, 2 paths, 0 complex, 2 real" in shown
    assert "2 solutions" in shown


def test_many_starts_are_cut_to_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every, "MOST_STARTS", 2)
    start = ds.initial(MODELS["pendulum-chain"](3), all_solutions=True)
    assert any("nearest to the guesses were kept" in remark for remark in start.remarks)
    # The guess itself, and the same with the last link up.
    heights = [[one[f"y{i}"] for i in (1, 2, 3)] for one in start.solutions]
    np.testing.assert_allclose(heights, [[-0.5, -1.0, -1.5], [-0.5, -1.0, -0.5]], atol=1e-9)
    assert [change.name for change in start.changed] == ["lambda1", "lambda2", "lambda3"]


# --- solution sets ------------------------------------------------------------------------------------------


def test_the_height_of_a_slider_crank_is_one_curve_without_singular_points() -> None:
    (curve,) = ds.solution_sets("slider-crank-4")
    assert (curve.stage, curve.equations) == (0, ("height of the slider",))
    assert curve.variables == ("cos(crank)", "sin(crank)", "cos(rod)", "sin(rod)")
    assert curve.decomposition is not None
    parts = curve.decomposition.components
    assert [(part.dimension, part.degree, part.rank) for part in parts] == [(1, 4, 3)]
    assert curve.points == ()


def test_equal_bars_have_two_conics_that_meet_in_two_singular_points() -> None:
    (curve,) = ds.solution_sets(equal_bars())
    assert curve.decomposition is not None and curve.singular is not None
    parts = curve.decomposition.components
    assert [(part.dimension, part.degree, part.rank) for part in parts] == [(1, 2, 3), (1, 2, 3)]
    assert (curve.singular.generic_rank, curve.ranks) == (3, (2, 2))
    found = sorted((point["crank"], point["rod"]) for point in curve.points)
    half = math.pi / 2
    np.testing.assert_allclose(found, [(-half, half), (half, -half)], atol=1e-6)
    assert "2 singular points, 2 real" in str(curve)


def linkage(crank: float, coupler: float, rocker: float) -> ds.Model:
    """Four bars by the ends of crank and rocker, on a ground of length 4."""
    model = ds.Model("linkage")
    x, y, v, w = model.variables("x y v w")
    model.equation(x * model.der(y) - y * model.der(x) - 1, name="motor")
    model.equation(x**2 + y**2 - crank**2, name="crank")
    model.equation((v - 4) ** 2 + w**2 - rocker**2, name="rocker")
    model.equation((v - x) ** 2 + (w - y) ** 2 - coupler**2, name="coupler")
    return model


def test_a_linkage_at_the_limit_of_grashof_has_a_change_point() -> None:
    # 2 + 5 = 4 + 3: stretched out, crank and coupler are as long as ground and rocker.
    _, limit = ds.solution_sets(linkage(2.0, 5.0, 3.0))
    assert [dict(point) for point in limit.points] == [
        pytest.approx({"x": 2.0, "y": 0.0, "v": 7.0, "w": 0.0}, abs=1e-6)
    ]
    assert limit.singular is not None
    assert (limit.ranks, limit.singular.generic_rank) == ((2,), 3)
    _, regular = ds.solution_sets(linkage(1.0, 3.5, 3.0))
    assert regular.points == ()


def test_angles_on_which_nothing_depends_are_circles() -> None:
    # The ends of five bars follow from their angles, whatever they are: the product of five circles.
    model = ds.Model("five bars")
    angles, x, y = (model.variables([f"{name}{k}" for k in range(5)]) for name in ("angle", "x", "y"))
    for k, angle in enumerate(angles):
        model.equation(x[k] - sp.cos(angle) - (x[k - 1] if k else 0))
        model.equation(y[k] - sp.sin(angle) - (y[k - 1] if k else 0))
        model.equation(model.der(angle, 2) + sum(model.der(end, 2) for end in (*x[k:], *y[k:])))
    (bars,) = ds.solution_sets(model)
    assert bars.decomposition is not None
    assert [(part.dimension, part.degree) for part in bars.decomposition.components] == [(5, 2**5)]


def test_a_bar_of_no_length_is_where_three_curves_meet() -> None:
    # With the crank at 0, l sin(angle) = 0 and x = l_1 + l cos(angle), where l may change: the line of a bar
    # on either side, and the circle of all angles of a bar without length.
    (curves,) = ds.solution_sets("flexible-slider-crank")
    assert curves.decomposition is not None
    parts = curves.decomposition.components
    assert [(part.dimension, part.degree) for part in parts] == [(1, 2), (1, 1), (1, 1)]
    points = sorted((point["cos(phi_2)"], point["x_3"], point["q_4"]) for point in curves.points)
    np.testing.assert_allclose(points, [(-1.0, 0.15, -0.3), (1.0, 0.15, -0.3)], atol=1e-9)


def test_fixed_values_leave_points_of_a_solution_set() -> None:
    (points,) = ds.solution_sets("slider-crank-4", fixed={"crank": math.pi / 4})
    assert points.decomposition is not None
    assert [part.dimension for part in points.decomposition.components] == [0, 0]


def test_what_is_no_polynomial_has_no_solution_set() -> None:
    model = ds.Model("diode")
    u, i = model.variables("u i")
    model.equation(model.der(u) + i, name="capacitor")
    model.equation(i - sp.exp(u - i), name="diode")
    (told,) = ds.solution_sets(model)
    assert told.decomposition is None
    assert "the function exp" in str(told)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ds.solution_sets("pendulm"), "did you mean 'pendulum'"),
        (lambda: ds.solution_sets("pendulum", fixed={"z": 1.0}), "no unknown z"),
        (lambda: ds.solution_sets("pendulum", fixed={"der(x, 5)": 1.0}), "follows from lower ones"),
        (lambda: ds.solution_sets("pendulum", seed=-1), "seed must be"),
        (lambda: ds.solution_sets(Unreadable), "cannot be read as equations"),
        (lambda: ds.solution_sets("pendulum", t0=math.nan), "t0 must be a number"),
        (lambda: ds.initial("pendulum", all_solutions=True, t0=math.inf), "t0 must be finite"),
    ],
)
def test_solution_sets_refuse_what_they_cannot_use(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ds.InputError, match=words):
        call()


def test_the_command_shows_singular_points(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["initial", "slider-crank-4", "--singular"]) == 0
    shown = capsys.readouterr().out
    assert "dimension 1, degree 4" in shown
    assert "0 singular points" in shown


def test_the_command_simplifies_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["initial", "slider-crank-2d", "--simplify", "--all-solutions"]) == 0
    shown = capsys.readouterr().out
    # What is left of the model: two angles, the slider, a force, and one loop that is differentiated twice.
    assert "bearing" not in shown
    assert "2 solutions" in shown
    assert main(["initial", "slider-crank-2d", "--simplify", "--fixed", "crank.w=1"]) == 2
    assert "as crank.w = der(crank.phi); give that" in capsys.readouterr().err
