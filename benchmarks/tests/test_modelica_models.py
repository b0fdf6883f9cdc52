"""The library of models through its study; and of those in files of Modelica sizes, structure and start."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from helpers.timing import within

import dae_sdc as ds
from benchmarks.__main__ import main
from benchmarks.studies.models import devices, mechanisms, study
from benchmarks.studies.models.cases import ALLOWED, Check, Flight
from benchmarks.studies.models.study import CASES, LENGTH, models
from dae_sdc import problems
from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import Leaf, name_of
from dae_sdc.model.model import Model
from dae_sdc.model.simplified import simplify
from dae_sdc.modelica.reader import read_modelica
from dae_sdc.problems._models import MODELS
from dae_sdc.reduction.reduction import reduce_index
from dae_sdc.run.results import load
from dae_sdc.run.target import make_model
from dae_sdc.structure.analysis import structure


@functools.cache
def measured(label: str) -> tuple[Any, Flight]:
    """What the study of models tells of one case, a row for each check, and how the model went."""
    (case,) = (case for case in study.CASES if case.label == label)
    kept: list[Flight] = []

    def keep(flight: Flight) -> float:
        kept.append(flight)
        return 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "CASES", (replace(case, checks=(*case.checks, Check("kept", keep, 1.0))),))
        rows = study.models(problems=[label]).data
    assert kept, f"{label}: {rows['message'][0]}"
    return rows[:-1], kept[0]


# Not solved here to their ends; python -m benchmarks models does
SLOW = {"torus-particle", "ring-modulator", "charges-on-sphere-20", "op-amp-cascade-100"}
QUICK = [case.label for case in CASES if case.label not in SLOW]


def test_every_model_of_the_library_has_a_check() -> None:
    assert {case.model for case in CASES} == set(MODELS)
    labels = [case.label for case in CASES]
    assert len(set(labels)) == len(labels) and set(labels) >= SLOW
    for case in CASES:
        assert case.checks, case.label
        assert all(0.0 < check.allowed <= 1e-4 for check in case.checks), case.label


@pytest.mark.parametrize("label", QUICK)
def test_a_model_is_reduced_started_simulated_and_right(label: str) -> None:
    data, _ = measured(label)
    assert len(data) == len(next(case for case in CASES if case.label == label).checks)
    for row in data:
        assert row["passed"] == 1 and row["error"] <= row["allowed"], (row["check"], row["error"])
        assert row["time_reduction"] < 10.0
        # What is handed on fulfils what was hidden, to round-off of derivatives as high as those of pendula.
        assert row["drift"] <= min(1e-8, max(1e-12, row["drift_before"]))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_start_values_are_complete_and_what_vanishes_has_names(name: str) -> None:
    model = MODELS[name]()
    found = ds.initial(model, restarts=0)
    assert not found.guessed  # something is given for every value that is free
    names = reduce_index(model).invariant_names
    assert len(set(names)) == len(names) and all(names)


@pytest.mark.parametrize("project", [True, False])
def test_the_torus_is_followed_with_order_five(project: bool) -> None:
    # Radau IIA methods are stiffly accurate: order 5 at index 1, which projection on smooth sets leaves.
    model = make_model("torus-particle")
    reduced = reduce_index(model)
    errors = []
    for dt in (0.2, 0.1, 0.05):
        problem = reduced.problem(newton_tol=1e-13)
        settings: dict[str, Any] = {"sweeper": "radau-iia-5", "dt": dt, "t_end": 4.0, "project": project}
        found = ds.solve(problem, u0=problem.u_exact(0.0), **settings)
        exact = study._torus(Flight(model, found))
        errors.append(max(np.abs(Flight(model, found)(name) - exact[name]).max() for name in exact))
        assert (found.stats["drift"] < 1e-9) == project
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 5.0) < 0.3), orders


def test_pendula_hold_their_lengths_while_they_swing() -> None:
    rows, flight = measured("pendula-2")
    assert rows["allowed"][0] == LENGTH == 1e-12 >= rows["error"][0]
    # The second's length is no constant: the tension of the first changes it, twice a swing.
    assert np.ptp(np.hypot(flight("x2"), flight("y2"))) > 1e-3


def test_a_circuit_with_capacitances_is_an_ode() -> None:
    found = ds.structure("ring-modulator", params={"cs": 2e-12})
    assert (found.index, found.differentiation_index, found.dof) == (0, 0, 15)


def test_what_is_wrong_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    axis = next(case for case in CASES if case.label == "car-axis")
    crank = next(case for case in CASES if case.label == "slider-crank-4")
    cases = (
        replace(axis, settings={"rtol": 1e-2}),
        replace(crank, checks=(Check("cannot be", lambda flight: math.nan, 1.0),)),
        # A tolerance at which it cannot be solved in a time that short.
        replace(axis, model="seven-body", settings={"rtol": 1e-8}),
    )
    monkeypatch.setattr(study, "CASES", cases)
    found = models(problems=["car-axis", "slider-crank-4"])
    assert found.data["passed"].tolist() == [0, 0]
    said = models.report(found)
    assert "not reached: car-axis (end value of the test set), slider-crank-4 (cannot be)" in said
    late = models(problems=["seven-body"], time_limit=1e-3)
    assert late.data["passed"].tolist() == [0] and "time limit" in late.data["message"][0]
    assert "not reached: seven-body" in models.report(late)


def test_solutions_are_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "solutions"
    arguments = ["models", "--problems", "reissig,op-amp-cascade-10"]
    assert main([*arguments, "--solutions", str(folder)]) == 0
    saved = sorted(path.name for path in folder.glob("*.npy"))
    assert saved == ["op-amp-cascade-10.npy", "reissig.npy"]
    assert len(load(folder / "reissig.npy").data) >= 400
    assert ds.plot("linear", folder / "reissig.npy").axes


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="cannot make the directory"):
        models(problems=["reissig"], solutions=tmp_path / "taken")


FILES = Path(problems.__file__).parent / "modelica"
FILED = {case.model: case for case in (*mechanisms.CASES, *devices.CASES)}


class Size(NamedTuple):
    """Equations in the file, and at most after simplification; index, and after it; degrees of freedom.

    Index and degrees of freedom are those of theory. Circuits and heat flows have index 1; where a damper or
    a motor differentiates the angle or the place of another part, or velocities follow from places, 2 or 3.
    Free are what coils, capacitors and heat capacities store, and coordinates and speeds of mechanisms. Of
    these, coordinates of joints are left, and forces where loops are cut: index 0, with loops 3.
    """

    before: int
    after: int
    index_before: int
    index_after: int
    dof: int
    noticed: str  # Parameters to which a check must not be blind


# Of slider cranks in a plane, the place of the slider is left beside two angles and the force of the guide
MECHANISMS = {
    "slider-crank-2d": Size(23, 4, 3, 3, 2, "J2"),
    "equal-bar-slider-crank": Size(23, 4, 3, 3, 2, "T2"),
    "slider-crank-3d": Size(24, 4 + 3, 3, 3, 2, "rod.m"),
    "rotating-pendulum": Size(32, 1, 3, 0, 2, "hinge.d"),
    "gimbal": Size(31, 3, 2, 0, 6, "inner.J2"),
    "furuta-pendulum": Size(35, 2, 3, 0, 4, "pendulum.I3"),
    "triplets": Size(69, 5, 3, 0, 10, "pin2.d"),
    "five-pendula": Size(126, 5, 3, 0, 10, "bar5.I"),
    "pendula-loop": Size(111, 4 + 2, 3, 3, 4, "bar3.m"),
    "pendula-two-loops": Size(138, 5 + 2 * 2, 3, 3, 2, "rod2.I"),
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
        *(34, 2, 3, 0, 4), "Main.Rotor.J Main.Rotor.R Main.Gondola.I Main.Gondola.l Main.Hinge.d g"
    ),
    "pendulum-3d-drag": Size(32, 3, 3, 1, 4, "m L g rho c_d"),
    "ice-tank": Size(*(57, 7, 1, 1, 3), "top.c_ice top.c_water top.h_f top.UA upper.G wall_top.G cellar.T"),
}
SIZES = MECHANISMS | DEVICES


def flown(name: str) -> Flight:
    """A model and its solution, as the study has it, in which every check of it holds."""
    return measured(name)[1]


def test_every_case_has_a_size_and_parameters() -> None:
    assert list(FILED) == list(SIZES)
    assert all(check.allowed == ALLOWED == 1e-7 for case in FILED.values() for check in case.checks)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_structure(name: str) -> None:
    model, size = make_model(name), SIZES[name]
    small = simplify(model).model
    assert model.title and model.reference and model.dt is not None
    assert len(model.names) == len(model.roots) == size.before
    assert len(small.names) == len(small.roots) <= size.after
    found, after = structure(model), structure(small)
    assert found.index == found.differentiation_index == size.index_before and found.dof == size.dof
    assert after.index == size.index_after and after.dof == after.true_dof == size.dof
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
    (check,) = FILED[name].checks
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
    path, case = FILES / f"{name}.mo", FILED[name]
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


@pytest.mark.parametrize("angle", [-0.4, 1.1])
def test_equal_bars_are_crosswise_or_folded(angle: float) -> None:
    made = simplify(make_model("equal-bar-slider-crank"), level="trivial").model
    for rod, place in ((-angle, 2.0 * math.cos(angle)), (angle + math.pi, 0.0)):
        point = {("crank", 0): angle, ("rod", 0): rod, ("x", 0): place, ("force", 0): 1.0}
        point |= {(name, order): 0.3 for name in ("crank", "rod") for order in (1, 2)}
        height, second, *_ = sizes_at(made, SHORT, point)
        assert max(height, second) < 1e-15


def test_equal_bars_differentiate_their_height_twice() -> None:
    found = structure(simplify(make_model("equal-bar-slider-crank"), level="trivial").model)
    assert sorted(found.c) == [0, 0, 0, 2]


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
