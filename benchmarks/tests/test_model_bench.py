"""The library of models from equations to solutions: every model, its checks, and the study of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measured import measured

import dae_sdc as ds
from benchmarks.__main__ import main
from benchmarks.studies.models import study as model_bench
from benchmarks.studies.models.cases import Case, Check, Flight
from benchmarks.studies.models.study import CASES, LENGTH, models
from dae_sdc.errors import InputError
from dae_sdc.problems._models import MODELS
from dae_sdc.reduction.reduction import reduce_index
from dae_sdc.run.results import load
from dae_sdc.run.target import make_model

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
        exact = model_bench._torus(Flight(model, found))
        errors.append(max(np.abs(Flight(model, found)(name) - exact[name]).max() for name in exact))
        assert (found.stats["drift"] < 1e-9) == project
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 5.0) < 0.3), orders


def test_pendula_hold_their_lengths_while_they_swing() -> None:
    case = next(case for case in CASES if case.label == "pendula-4")
    assert case.checks[0].allowed == LENGTH == 1e-12
    model = make_model("pendula", {"count": 2})
    problem = reduce_index(model).problem()
    u0, _ = model_bench._start(model, problem)
    flight = Flight(model, model_bench._solved(case, problem, u0, project=True, time_limit=60.0))
    # The second's length is no constant: the tension of the first changes it, twice a swing.
    assert np.ptp(np.hypot(flight("x2"), flight("y2"))) > 1e-3
    assert model_bench._lengths(flight) <= LENGTH


def test_a_circuit_with_capacitances_is_an_ode() -> None:
    found = ds.structure("ring-modulator", params={"cs": 2e-12})
    assert (found.index, found.differentiation_index, found.dof) == (0, 0, 15)
    for cs in (-1.0, math.inf):
        with pytest.raises(InputError, match="cs of RingModulator must "):
            make_model("ring-modulator", {"cs": cs})


def test_what_is_wrong_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    axis = next(case for case in CASES if case.label == "car-axis")
    crank = next(case for case in CASES if case.label == "slider-crank-4")
    cases = (
        replace(axis, settings={"rtol": 1e-2}),
        replace(crank, checks=(Check("cannot be", lambda flight: math.nan, 1.0),)),
        # A tolerance at which it cannot be solved in a time that short.
        replace(axis, model="seven-body", settings={"rtol": 1e-8}),
    )
    monkeypatch.setattr(model_bench, "CASES", cases)
    found = models(problems=["car-axis", "slider-crank-4"])
    assert found.data["passed"].tolist() == [0, 0]
    assert "not reached: car-axis (end value of the test set), slider-crank-4 (cannot be)" in models.report(
        found
    )
    late = models(problems=["seven-body"], time_limit=1e-3)
    assert late.data["passed"].tolist() == [0] and "time limit" in late.data["message"][0]
    assert "not reached: seven-body" in models.report(late)


def test_solutions_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, table = tmp_path / "solutions", tmp_path / "models.npy"
    arguments = ["models", "--problems", "reissig,op-amp-cascade-10"]
    assert main([*arguments, "--solutions", str(folder), "--out", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "reissig" in printed and "not reached: none" in printed
    assert load(table).parameters["study"] == "models"
    saved = sorted(path.name for path in folder.glob("*.npy"))
    assert saved == ["op-amp-cascade-10.npy", "reissig.npy"]
    assert len(load(folder / "reissig.npy").data) >= 400
    assert ds.plot("linear", folder / "reissig.npy").axes


def test_drift_on_the_torus_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = next(case for case in CASES if case.label == "torus-particle")
    assert long.t_end == 200.0 * math.pi and long.settings["dt"] == 0.05
    monkeypatch.setattr(model_bench, "CASES", (replace(long, t_end=20.0),))
    found = models(solutions=tmp_path)
    assert found.data["passed"].tolist() == [1]
    kept = load(tmp_path / "torus-particle-drift.npy")
    largest = {
        case: kept.data[kept.data["case"] == case]["constraint"].max()
        for case in ("projected", "not projected")
    }
    assert largest["projected"] < 1e-12 < 1e-9 < largest["not projected"]
    assert ds.plot("drift", tmp_path / "torus-particle-drift.npy").axes


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="cannot make the directory"):
        models(problems=["reissig"], solutions=tmp_path / "taken")


def test_names_of_rows() -> None:
    check = (Check("none", lambda flight: 0.0, 1.0),)
    assert Case("pendula", check, {"count": 3}).label == "pendula-3"
    assert Case("pendula", check).label == "pendula"
