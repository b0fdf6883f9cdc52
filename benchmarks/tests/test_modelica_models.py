"""Models in files of Modelica: sizes, index, degrees of freedom, start, and checks that notice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from helpers.timing import within
from measured import measured

import dae_sdc as ds
from benchmarks.studies.models import devices, mechanisms
from benchmarks.studies.models.cases import ALLOWED, Flight
from dae_sdc import problems
from dae_sdc.expressions.dag import Leaf, name_of
from dae_sdc.model.model import Model
from dae_sdc.model.simplified import simplify
from dae_sdc.modelica.reader import read_modelica
from dae_sdc.run.target import make_model
from dae_sdc.structure.analysis import structure

FILES = Path(problems.__file__).parent / "modelica"
CASES = {case.model: case for case in (*mechanisms.CASES, *devices.CASES)}


class Size(NamedTuple):
    """Equations in the file, and at most after simplification; index, and after it; degrees of freedom.

    Index and degrees of freedom are those of theory. Circuits and heat flows have index 1; where a damper or
    a motor differentiates the angle or the place of another part, or angular velocities are constrained, 2;
    rigid bodies at joints 3. Free are what coils, capacitors and heat capacities store, and coordinates and
    speeds of mechanisms.
    """

    before: int
    after: int
    index_before: int
    index_after: int
    dof: int
    noticed: str  # Parameters to which a check must not be blind


# Of mechanisms, those left without trivial equations alone
MECHANISMS = {
    "slider-crank-2d": Size(23, 4, 3, 3, 2, "J2"),
    "equal-bar-slider-crank": Size(23, 4, 3, 3, 2, "T2"),
    "slider-crank-3d": Size(42, 12, 3, 3, 2, "rod.m"),
    "rotating-pendulum": Size(32, 9, 3, 3, 2, "hinge.d"),
    "gimbal": Size(31, 12, 2, 2, 6, "inner.J2"),
    "furuta-pendulum": Size(35, 15, 3, 3, 4, "pendulum.I3"),
    "triplets": Size(69, 21, 3, 3, 10, "pin2.d"),
    "five-pendula": Size(126, 37, 3, 3, 10, "bar5.I"),
    "pendula-loop": Size(111, 31, 3, 3, 4, "bar3.m"),
    "pendula-two-loops": Size(138, 39, 3, 3, 2, "rod2.I"),
}
DEVICES = {
    "rlc-circuit": Size(32, 1, 1, 0, 2, "source.V source.f wire.R coil.L capacitor.C load.R"),
    "heat-transfer": Size(
        *(46, 4, 1, 0, 4), "weather.swing outer_film.G insulation.C inner_joint.G window.G heater.Q"
    ),
    "dc-motor": Size(46, 1, 2, 0, 3, "source.V resistor.R coil.L emf.k load.J bearing.d"),
    "spring-damper": Size(28, 2, 2, 1, 2, "Main.Mass.m Main.Spring.c Main.Step.height"),
    "slider-crank-motor": Size(33, 5, 3, 3, 3, "Main.R.R Main.L.L Main.EMF.k Main.Step.height"),
    "centrifuge": Size(
        *(34, 10, 3, 3, 4), "Main.Rotor.J Main.Rotor.R Main.Gondola.I Main.Gondola.l Main.Hinge.d g"
    ),
    "pendulum-3d-drag": Size(28, 8, 3, 3, 4, "m L g rho c_d"),
    "ice-tank": Size(*(57, 7, 1, 1, 3), "top.c_ice top.c_water top.h_f top.UA upper.G wall_top.G cellar.T"),
}
SIZES = MECHANISMS | DEVICES


def flown(name: str) -> Flight:
    """A model and its solution, as the study has it, in which every check of it holds."""
    return measured(name)[1]


def test_every_case_has_a_size_and_parameters() -> None:
    assert list(CASES) == list(SIZES)
    assert all(check.allowed == ALLOWED == 1e-7 for case in CASES.values() for check in case.checks)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_structure(name: str) -> None:
    model, size = make_model(name), SIZES[name]
    small = simplify(model).model
    assert model.title and model.reference and model.dt is not None
    assert len(model.names) == len(model.roots) == size.before
    assert len(small.names) == len(small.roots) <= size.after
    after = structure(small)
    if name in MECHANISMS:
        trivial = simplify(model, level="trivial").model
        assert len(small.names) <= len(trivial.names) <= size.after and after.true_dof == size.dof
        small, after = trivial, structure(trivial)
        assert after.true_dof == size.dof
    else:
        found = structure(model)
        assert found.index == found.differentiation_index == size.index_before and found.dof == size.dof
    assert after.index == size.index_after and after.dof == size.dof
    within(1.0 if name in DEVICES else 3.0, lambda: structure(small))


@pytest.mark.parametrize("name", SIZES)
def test_start_values_of_the_file_are_kept(name: str) -> None:
    model, flight = make_model(name), flown(name)
    fixed = {key: v.start[0] for key, v in model.variables_by_name.items() if 0 in v.fixed}
    assert len(fixed) == SIZES[name].dof  # as many as are free
    for unknown, value in fixed.items():
        assert flight(unknown)[0] == pytest.approx(value, abs=1e-14)
    assert flight.t[-1] == model.interval[1]


@pytest.mark.parametrize("name", SIZES)
def test_the_check_notices_a_parameter_that_differs(name: str) -> None:
    (check,) = CASES[name].checks
    for parameter in SIZES[name].noticed.split():
        other = make_model(name, {parameter: 1.01 * flown(name).value(parameter)})
        error = check.error(Flight(other, flown(name).solution))
        assert error > (100.0 if name in DEVICES else 10.0) * check.allowed, parameter


def left(model: Model, value: Mapping[tuple[str, int], npt.ArrayLike], t: npt.ArrayLike = 0.0) -> np.ndarray:
    """The left-hand sides of the equations of a model where derivatives of its unknowns have values."""
    numbers = [parameter.required(model.name) for parameter in model.parameters_by_name.values()]

    def of(leaf: Leaf) -> npt.ArrayLike:
        if leaf.kind == "u":
            return value[model.names[leaf.index], leaf.order]
        return t if leaf.kind == "t" else numbers[leaf.index]

    return np.asarray(model.graph.numeric(model.roots, of))


class Values(dict[tuple[str, int], npt.ArrayLike]):
    """Values of unknowns and their derivatives in a solution."""

    def __init__(self, solution: ds.Solution) -> None:
        self.solution = solution

    def __missing__(self, key: tuple[str, int]) -> npt.ArrayLike:
        return self.solution.values(name_of(*key))


@pytest.mark.parametrize("name", DEVICES)
def test_the_equations_of_the_file_hold_for_all_unknowns(name: str) -> None:
    model, solution = make_model(name), flown(name).solution
    largest = max(float(np.abs(solution.values(unknown)).max()) for unknown in model.names)
    rests = left(model, Values(solution), solution.t)
    assert len(rests) == SIZES[name].before
    for equation, rest in zip(model.equation_names, rests, strict=True):
        assert np.abs(rest).max() <= 1e-11 * largest, equation


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("spring-damper", {"Main.Step.T0": 0.5, "Main.Step.height": 60.0}),  # a step inside the interval
        ("heat-transfer", {"heater.Q": 0.0}),
        ("dc-motor", {"source.V": -12.0, "source.startTime": 0.15}),
        ("slider-crank-motor", {"Main.Step.T0": 0.7}),
        ("centrifuge", {"Main.Motor.w_max": 1.5, "Main.Hinge.d": 0.0}),
        ("slider-crank-2d", {}),
        ("gimbal", {}),
    ],
)
def test_a_file_is_solved_as_in_the_study_with_other_parameters_too(
    name: str, changed: dict[str, float]
) -> None:
    path, case = FILES / f"{name}.mo", CASES[name]
    found = ds.solve(str(path), reduce=True, project=True, params=changed, **case.settings)
    assert found.success, found.message
    flight = Flight(read_modelica(path, parameters=changed), found)
    assert all(flight.value(parameter) == value for parameter, value in changed.items())
    assert all(check.error(flight) <= check.allowed for check in case.checks)


SHORT = {"slider.s": "x", "crank.phi": "crank", "guide.f_n": "force", "rod.phi": "rod"}


def sizes_at(model: Model, names: Mapping[str, str], point: Mapping[tuple[str, int], float]) -> list[float]:
    """Sizes of the left-hand sides of the equations where unknowns have values by other names."""
    values = {
        (unknown, order): point.get((names[unknown], order), math.nan)
        for unknown in names
        for order in range(3)
    }
    return sorted(np.abs(left(model, values)).tolist())


def test_slider_crank_has_the_equations_of_the_thesis() -> None:
    made = simplify(make_model("slider-crank-2d"), level="trivial").model
    thesis = make_model("slider-crank-4")
    assert set(made.names) == set(SHORT)
    rng = np.random.default_rng(0)
    for _ in range(3):
        point = {(name, order): float(rng.normal()) for name in SHORT.values() for order in range(3)}
        wanted = sizes_at(thesis, {name: name for name in thesis.names}, point)
        assert sizes_at(made, SHORT, point) == pytest.approx(wanted, rel=1e-12)


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
        height, second, *_ = sizes_at(made, SHORT, point)
        assert max(height, second) < 1e-15


def test_equal_bars_stay_away_from_the_singular_place() -> None:
    found = flown("equal-bar-slider-crank")
    assert np.abs(found("crank.phi")).max() < 0.9 * math.pi / 2


def test_thrown_bars_follow_a_parabola() -> None:
    found = flown("triplets")
    masses = np.array([found.value(f"bar{k}.m") for k in (1, 2, 3)])
    place, height, ahead, up = (
        masses @ np.array([found(f"bar{k}.{what}") for k in (1, 2, 3)]) / masses.sum()
        for what in ("x", "y", "vx", "vy")
    )
    t = found.t
    assert np.abs(place - (place[0] + ahead[0] * t)).max() < 1e-9
    assert np.abs(height - (height[0] + up[0] * t - found.value("g") * t**2 / 2)).max() < 1e-9
