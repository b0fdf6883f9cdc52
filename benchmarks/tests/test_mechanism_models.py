"""Mechanisms in files of Modelica, joint by joint: sizes, index, and motions against Lagrange's equations."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from helpers.timing import within
from measured import measured

import dae_sdc as ds
from benchmarks.studies.models.cases import Case, Flight
from benchmarks.studies.models.mechanisms import CASES
from dae_sdc.expressions.dag import Leaf
from dae_sdc.model.aliases import simplify
from dae_sdc.model.model import Model
from dae_sdc.run.target import make_model
from dae_sdc.structure.analysis import structure

BY_NAME = {case.model: case for case in CASES}

# Equations of the file; those that are left without trivial ones, at most; the index (3 where places are
# constrained, 2 where angular velocities are); coordinates that are free; and a parameter on which the motion
# depends.
MODELS = {
    "slider-crank-2d": (23, 4, 3, 1, "J2"),
    "equal-bar-slider-crank": (23, 4, 3, 1, "T2"),
    "slider-crank-3d": (42, 12, 3, 1, "rod.m"),
    "rotating-pendulum": (32, 9, 3, 1, "hinge.d"),
    "gimbal": (31, 12, 2, 3, "inner.J2"),
    "furuta-pendulum": (35, 15, 3, 2, "pendulum.I3"),
    "triplets": (69, 21, 3, 5, "pin2.d"),
    "five-pendula": (126, 37, 3, 5, "bar5.I"),
    "pendula-loop": (111, 31, 3, 2, "bar3.m"),
    "pendula-two-loops": (138, 39, 3, 1, "rod2.I"),
}


def flight(name: str, model: Model) -> Flight:
    return Flight(model, measured(name)[1].solution)


def test_every_model_has_a_case() -> None:
    assert [case.model for case in CASES] == list(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_sizes_index_and_degrees_of_freedom(name: str) -> None:
    before, after, index, free, _ = MODELS[name]
    model = make_model(name)
    assert model.title and ("own" in model.reference or "Mani" in model.reference)
    assert len(model.names) == len(model.roots) == before
    made, trivial = simplify(model).model, simplify(model, level="trivial").model
    assert len(made.names) <= len(trivial.names) <= after
    found = structure(trivial)
    assert (found.index, found.dof, found.true_dof) == (index, 2 * free, 2 * free)
    assert structure(made).true_dof == 2 * free


@pytest.mark.parametrize("name", MODELS)
def test_structure_takes_little_time(name: str) -> None:
    model = simplify(make_model(name), level="trivial").model
    within(3.0, lambda: structure(model))


@pytest.mark.parametrize("name", MODELS)
def test_the_start_keeps_what_is_fixed(name: str) -> None:
    _, _, _, free, _ = MODELS[name]
    model = make_model(name)
    held = {key: variable.start[0] for key, variable in model.variables_by_name.items() if variable.fixed}
    # One value for each degree of freedom.
    assert len(held) == 2 * free
    found = flight(name, model)
    for key, value in held.items():
        assert found(key)[0] == pytest.approx(value, abs=1e-14)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model)
def test_motion_is_that_of_lagrange(case: Case) -> None:
    model, solution = make_model(case.model), measured(case.model)[1].solution
    assert solution.success, solution.message
    assert solution.t[-1] == model.interval[1]
    for check in case.checks:
        assert check.error(flight(case.model, model)) <= check.allowed


@pytest.mark.parametrize("name", ["slider-crank-2d", "gimbal"])  # one of index 3 and one of index 2
def test_by_its_name_a_mechanism_moves_as_in_the_study(name: str) -> None:
    found = ds.solve(name, reduce=True, project=True, **BY_NAME[name].settings)
    for check in BY_NAME[name].checks:
        assert check.error(Flight(make_model(name), found)) <= check.allowed


@pytest.mark.parametrize("name", MODELS)
def test_the_check_notices_another_parameter(name: str) -> None:
    parameter = MODELS[name][-1]
    value = make_model(name).parameters_by_name[parameter].value
    assert value is not None
    (check,) = BY_NAME[name].checks
    assert check.error(flight(name, make_model(name, {parameter: 1.01 * value}))) > 10.0 * check.allowed


SHORT = {"slider.s": "x", "crank.phi": "crank", "guide.f_n": "force", "rod.phi": "rod"}


def _residuals(model: Model, names: Mapping[str, str], point: Mapping[tuple[str, int], float]) -> list[float]:
    """Sizes of the left-hand sides of the equations where unknowns have values by other names."""
    numbers = [parameter.value for parameter in model.parameters_by_name.values()]

    def value(leaf: Leaf) -> float:
        if leaf.kind == "u":
            return point[names[model.names[leaf.index]], leaf.order]
        number = numbers[leaf.index]
        assert number is not None
        return number

    return sorted(abs(float(x)) for x in model.graph.numeric(model.roots, value))


def test_slider_crank_has_the_equations_of_the_thesis() -> None:
    made = simplify(make_model("slider-crank-2d"), level="trivial").model
    thesis = make_model("slider-crank-4")
    assert set(made.names) == set(SHORT)
    rng = np.random.default_rng(0)
    for _ in range(3):
        point = {(name, order): float(rng.normal()) for name in SHORT.values() for order in range(3)}
        wanted = _residuals(thesis, {name: name for name in thesis.names}, point)
        assert _residuals(made, SHORT, point) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("name", ["slider-crank-2d", "equal-bar-slider-crank"])
def test_slider_crank_differentiates_its_height_twice(name: str) -> None:
    found = structure(simplify(make_model(name), level="trivial").model)
    assert sorted(found.c) == [0, 0, 0, 2]


@pytest.mark.parametrize("angle", [-0.4, 1.1])
def test_equal_bars_are_crosswise_or_folded(angle: float) -> None:
    made = simplify(make_model("equal-bar-slider-crank"), level="trivial").model
    for rod, place in ((-angle, 2.0 * math.cos(angle)), (angle + math.pi, 0.0)):
        point = {("crank", 0): angle, ("rod", 0): rod, ("x", 0): place, ("force", 0): 1.0}
        point |= {(name, order): 0.3 for name in ("crank", "rod") for order in (1, 2)}
        height, second, *_ = _residuals(made, SHORT, point)
        assert max(height, second) < 1e-15


def test_equal_bars_stay_away_from_the_singular_place() -> None:
    found = flight("equal-bar-slider-crank", make_model("equal-bar-slider-crank"))
    assert np.abs(found("crank.phi")).max() < 0.9 * math.pi / 2


def test_thrown_bars_follow_a_parabola() -> None:
    found = flight("triplets", make_model("triplets"))
    masses = np.array([found.value(f"bar{k}.m") for k in (1, 2, 3)])
    place, height, ahead, up = (
        masses @ np.array([found(f"bar{k}.{what}") for k in (1, 2, 3)]) / masses.sum()
        for what in ("x", "y", "vx", "vy")
    )
    t = found.t
    assert np.abs(place - (place[0] + ahead[0] * t)).max() < 1e-9
    assert np.abs(height - (height[0] + up[0] * t - found.value("g") * t**2 / 2)).max() < 1e-9
