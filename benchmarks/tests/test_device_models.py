"""Circuits, motors, heat and other devices as Modelica files: sizes, structure, start, simulation, checks."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from helpers.timing import within

import dae_sdc as ds
from benchmarks.studies.models.cases import ALLOWED, Case, Flight
from benchmarks.studies.models.devices import CASES
from dae_sdc import problems
from dae_sdc.expressions.dag import Leaf, name_of
from dae_sdc.model.aliases import simplify
from dae_sdc.model.model import Model
from dae_sdc.model.simplified import Simplified
from dae_sdc.modelica.reader import read_modelica

FILES = Path(problems.__file__).parent / "modelica"


class Size(NamedTuple):
    """Equations in the file, and at most after simplification; index, at most after it; degrees of freedom.

    Index and degrees of freedom are those of theory. Circuits and heat flows have index 1; where a damper or
    a motor differentiates the angle or the place of another part, 2; rigid bodies at joints 3. Free are what
    coils, capacitors and heat capacities store, and angles and speeds.
    """

    before: int
    after: int
    index_before: int
    index_after: int
    dof: int


SIZES = {
    **{"rlc-circuit": Size(32, 1, 1, 0, 2), "heat-transfer": Size(46, 4, 1, 0, 4)},
    **{"dc-motor": Size(46, 1, 2, 0, 3), "spring-damper": Size(28, 2, 2, 1, 2)},
    **{"slider-crank-motor": Size(33, 5, 3, 3, 3), "centrifuge": Size(34, 10, 3, 3, 4)},
    **{"pendulum-3d-drag": Size(28, 8, 3, 3, 4), "ice-tank": Size(57, 7, 1, 1, 3)},
}

# Parameters to which a check must not be blind
CHANGED = {
    "rlc-circuit": ("source.V", "source.f", "wire.R", "coil.L", "capacitor.C", "load.R"),
    "heat-transfer": "weather.swing outer_film.G insulation.C inner_joint.G window.G heater.Q".split(),
    "dc-motor": ("source.V", "resistor.R", "coil.L", "emf.k", "load.J", "bearing.d"),
    "spring-damper": ("Main.Mass.m", "Main.Spring.c", "Main.Step.height"),
    "slider-crank-motor": ("Main.R.R", "Main.L.L", "Main.EMF.k", "Main.Step.height"),
    "centrifuge": ("Main.Rotor.J", "Main.Rotor.R", "Main.Gondola.I", "Main.Gondola.l", "Main.Hinge.d", "g"),
    "pendulum-3d-drag": ("m", "L", "g", "rho", "c_d"),
    "ice-tank": ("top.c_ice", "top.c_water", "top.h_f", "top.UA", "upper.G", "wall_top.G", "cellar.T"),
}

BY_NAME = {case.model: case for case in CASES}


@functools.cache
def written(name: str) -> Model:
    return read_modelica(FILES / f"{name}.mo")


@functools.cache
def simplified(name: str) -> Simplified:
    return simplify(written(name))


@functools.cache
def flown(name: str) -> Flight:
    """A model from its file to its solution, as the command line does it."""
    return fly(BY_NAME[name])


def fly(case: Case, **changed: float) -> Flight:
    path = FILES / f"{case.model}.mo"
    found = ds.solve(str(path), reduce=True, project=True, params=changed, **case.settings)
    assert found.success, found.message
    return Flight(read_modelica(path, parameters=changed), found)


def test_every_case_has_a_size_and_parameters() -> None:
    assert set(SIZES) == set(CHANGED) == set(BY_NAME) and len(BY_NAME) == len(CASES)
    assert all(check.allowed == ALLOWED == 1e-7 for case in CASES for check in case.checks)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_structure(name: str) -> None:
    model, small, size = written(name), simplified(name).model, SIZES[name]
    assert len(model.names) == len(model.roots) == size.before
    assert len(small.names) == len(small.roots) <= size.after
    assert model.title and model.reference and model.dt is not None
    found, after = ds.structure(model), ds.structure(small)
    assert found.index == found.differentiation_index == size.index_before and found.dof == size.dof
    assert after.index <= size.index_after and after.dof == size.dof
    within(1.0, lambda: ds.structure(small))


@pytest.mark.parametrize("name", SIZES)
def test_start_values_of_the_file_are_kept(name: str) -> None:
    model = written(name)
    fixed = {v.name: v.start[0] for v in model.variables_by_name.values() if 0 in v.fixed}
    assert len(fixed) == SIZES[name].dof  # as many as are free
    found = ds.initial(model, restarts=0)
    assert not found.guessed
    flight = flown(name)
    for unknown, value in fixed.items():
        assert found.values[unknown] == pytest.approx(value, abs=1e-12)
        assert flight(unknown)[0] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("name", SIZES)
def test_the_solution_is_the_independent_one(name: str) -> None:
    for check in BY_NAME[name].checks:
        assert check.error(flown(name)) <= check.allowed


@pytest.mark.parametrize("name", SIZES)
def test_the_check_sees_a_parameter_that_differs(name: str) -> None:
    (check,) = BY_NAME[name].checks
    for parameter in CHANGED[name]:
        value = flown(name).value(parameter)
        other = read_modelica(FILES / f"{name}.mo", parameters={parameter: 1.01 * value})
        assert check.error(Flight(other, flown(name).solution)) > 100 * check.allowed, parameter


@pytest.mark.parametrize("name", SIZES)
def test_the_equations_of_the_file_hold_for_all_unknowns(name: str) -> None:
    model, solution = written(name), flown(name).solution
    numbers = [parameter.required(name) for parameter in model.parameters_by_name.values()]

    def value(leaf: Leaf) -> npt.ArrayLike:
        if leaf.kind == "u":
            return solution.values(name_of(model.names[leaf.index], leaf.order))
        return solution.t if leaf.kind == "t" else numbers[leaf.index]

    largest = max(float(np.abs(solution.values(unknown)).max()) for unknown in model.names)
    left = model.graph.numeric(model.roots, value)
    assert len(left) == SIZES[name].before
    for equation, rest in zip(model.equation_names, left, strict=True):
        assert np.abs(rest).max() <= 1e-11 * largest, equation


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("spring-damper", {"Main.Step.T0": 0.5, "Main.Step.height": 60.0}),  # a step inside the interval
        ("heat-transfer", {"heater.Q": 0.0}),
        ("dc-motor", {"source.V": -12.0, "source.startTime": 0.15}),
        ("slider-crank-motor", {"Main.Step.T0": 0.7}),
        ("centrifuge", {"Main.Motor.w_max": 1.5, "Main.Hinge.d": 0.0}),
    ],
)
def test_other_parameters(name: str, changed: dict[str, float]) -> None:
    case = BY_NAME[name]
    flight = fly(case, **changed)
    assert all(flight.value(parameter) == value for parameter, value in changed.items())
    for check in case.checks:
        assert check.error(flight) <= check.allowed
