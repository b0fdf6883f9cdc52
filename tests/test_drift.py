"""The study of drift: growth by theory, what each projection keeps, its table, file and picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dae_sdc.cli import main
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.plotting import drift as draw, plot
from dae_sdc.problems.constrained import RigidPendulum
from dae_sdc.run import drift as entry
from dae_sdc.run.drift import CASES, RTOL, drift, summary
from dae_sdc.run.results import Result, load
from dae_sdc.run.solve import solve
from dae_sdc.run.sundials import installed

AMBIENT = [name for name in CASES if name.partition("-")[2].endswith("projected-dop853")]
LENGTH = 32.0
EIGHTH = 4.0


@pytest.fixture(scope="module")
def pendulum() -> Result:
    names = ["unprojected-dop853", *AMBIENT, "projected-dop853", "baumgarte-dop853", "chart-dop853", "rattle"]
    return drift(case=[*names, "radau-iia-9/index-3", "radau-iia-9/ggl"], t_end=LENGTH, points=64, dt=0.02)


def column(result: Result, case: str, name: str) -> Any:
    rows = result.data[result.data["case"] == case]
    assert len(rows), case
    return rows[name]


def test_the_cases_are_there(pendulum: Result) -> None:
    assert AMBIENT == ["velocity-projected-dop853", "position-projected-dop853"]
    for case in dict.fromkeys(pendulum.data["case"].tolist()):
        assert column(pendulum, case, "t")[-1] == LENGTH
        (run,) = [run for run in pendulum.parameters["runs"] if run["case"] == case]
        assert column(pendulum, case, "steps").sum() == run["steps"] and run["success"]


def test_without_projection_the_velocity_drifts_as_t_and_the_position_as_its_square(pendulum: Result) -> None:
    # g'' = 0 is met up to errors of one sign a period: g' grows as t, g as t^2.
    t = column(pendulum, "unprojected-dop853", "t")
    after = t >= EIGHTH
    for name, power in (("velocity", 1.0), ("constraint", 2.0)):
        values = column(pendulum, "unprojected-dop853", name)
        slope = np.polyfit(np.log(t[after]), np.log(values[after]), 1)[0]
        assert slope == pytest.approx(power, abs=0.3)
    held = column(pendulum, "velocity-projected-dop853", "constraint")
    assert np.polyfit(np.log(t[after]), np.log(held[after]), 1)[0] == pytest.approx(1.0, abs=0.3)


def test_what_is_projected_is_kept_to_round_off_and_the_rest_is_not(pendulum: Result) -> None:
    kept = {
        "projected-dop853": (True, True),
        "chart-dop853": (True, True),
        "rattle": (True, True),
        "velocity-projected-dop853": (False, True),
        "position-projected-dop853": (True, False),
        "unprojected-dop853": (False, False),
    }
    for case, parts in kept.items():
        for name, exact in zip(("constraint", "velocity"), parts, strict=True):
            largest = column(pendulum, case, name).max()
            assert (largest < 1e-13) == exact, (case, name, largest)


def test_baumgarte_and_implicit_methods_bound_what_they_do_not_keep(pendulum: Result) -> None:
    free = column(pendulum, "unprojected-dop853", "constraint").max()
    for case in ("baumgarte-dop853", "radau-iia-9/index-3", "radau-iia-9/ggl"):
        values = column(pendulum, case, "constraint")
        assert values.max() < 1e-2 * free
        # No growth, where that could be seen: single values may come to a hundredth of the tolerance.
        assert values[-16:].max() < max(3.0 * values[:16].max(), 0.01 * RTOL)
        assert np.median(values[-16:]) < 3.0 * np.median(values[:16])
    assert column(pendulum, "radau-iia-9/ggl", "velocity").max() < 1e-8
    # With index 3 the velocities meet their constraint only as well as the method says.
    assert column(pendulum, "radau-iia-9/index-3", "velocity").max() > 1e-8


def test_the_energy_of_rattle_errs_as_the_square_of_the_step_and_does_not_drift(pendulum: Result) -> None:
    values = column(pendulum, "rattle", "energy")
    assert values[-16:].max() == pytest.approx(values[:16].max(), rel=0.05)
    finer = drift(case=["rattle"], t_end=16.0, points=16, dt=0.01)
    assert values[:16].max() / finer.data["energy"].max() == pytest.approx(4.0, rel=0.1)


def test_the_numbers_are_those_of_the_steps() -> None:
    found = drift(case=["unprojected-dopri5"], t_end=3.0, points=3, rtol=1e-5)
    solution = solve("rigid-pendulum", sweeper="unprojected-dopri5", t_end=3.0, rtol=1e-5)
    t, (x, y, vx, vy) = solution.t, solution.u[:, :4].T
    exact = np.array([np.array(RigidPendulum().u_exact(s))[:2] for s in t])
    energy = 0.5 * (vx**2 + vy**2) + 13.7503671 * y
    errors = {
        "constraint": np.abs(0.5 * (x * x + y * y - 1.0)),
        "velocity": np.abs(x * vx + y * vy),
        "energy": np.abs(energy - energy[0]),
        "error": np.abs(np.array([x, y]).T - exact).max(axis=1),
    }
    for row, (first, last) in zip(found.data, [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], strict=True):
        inside = (t > first) & (t <= last)
        assert row["t"] == last and row["steps"] == inside.sum()
        for name, values in errors.items():
            assert row[name] == pytest.approx(values[inside].max(), rel=1e-9, abs=1e-14)


def test_parts_without_steps_have_no_rows() -> None:
    found = drift(case=["projected-dop853"], t_end=1.0, points=1000)
    assert len(found.data) == found.data["steps"].sum() == found.parameters["runs"][0]["steps"]


def test_a_problem_without_energy_and_methods_that_do_not_take_it() -> None:
    found = drift("torus-particle", points=10)
    assert np.isnan(found.data["energy"]).all() and np.isfinite(found.data["error"]).all()
    assert len(found.parameters["left_out"]) == 1 and found.parameters["left_out"][0].startswith("rattle: ")
    assert "left out: rattle" in summary(found) and len(found.parameters["runs"]) == len(CASES) - 1
    titles = [axes.get_title() for axes in draw(found).get_axes()]
    assert len(titles) == 3 and titles[-1] == "error of the position"
    with pytest.raises(InputError, match="rattle"):
        drift("torus-particle", case=["rattle"], t_end=1.0)


@pytest.mark.skipif(not installed(), reason="scikit-sundae is not installed")
def test_ida_drifts_with_index_1_and_not_with_ggl() -> None:
    found = drift("torus-particle", case=["ida/index-1", "ida/ggl"], t_end=2.0, rtol=1e-6)
    free, held = (column(found, case, "constraint").max() for case in ("ida/index-1", "ida/ggl"))
    assert held < 1e-2 * free


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"problem": "robertson"}, "Robertson does not say what its constraints are"),
        ({"case": []}, "name at least one case"),
        ({"case": 3}, "case must be a text or a sequence of texts"),
        ({"case": ["ratle"]}, "unknown sweeper 'ratle'; did you mean 'rattle'"),
        ({"case": ["radau-iia-9/index-4"]}, "index-4"),
        ({"case": ["rattle"], "dt": 0.3, "t_end": 1.0}, "does not divide"),
        ({"points": 0}, "points must be an integer, at least 1"),
        ({"t_end": -1.0}, "need t_end > t0"),
        ({"params": {"formulation": "ggl"}}, "cases say in which formulation"),
        ({"params": {"mass": 2.0}}, "unknown parameter of .*'mass'"),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        drift(**given)


def test_a_curve_for_each_case_in_three_panels(pendulum: Result, tmp_path: Path) -> None:
    figure = draw(pendulum)
    panels = figure.get_axes()
    assert [axes.get_title().split()[0] for axes in panels] == ["constraint", "velocity", "change"]
    cases = list(dict.fromkeys(pendulum.data["case"].tolist()))
    for axes in panels:
        assert axes.get_yscale() == "log"
        assert [line.get_label() for line in axes.get_lines()][: len(cases)] == cases
    (curve,) = [line for line in panels[2].get_lines() if line.get_label() == "rattle"]
    assert np.allclose(curve.get_ydata(), column(pendulum, "rattle", "energy"))
    picture = tmp_path / "drift.svg"
    plot("drift", pendulum.save(tmp_path / "drift.npy"), out=picture)
    assert picture.stat().st_size > 5000


def test_pictures_of_damaged_files_are_refused(pendulum: Result) -> None:
    short = Result("drift", pendulum.data[["case", "t"]].copy(), {}, {}, info={})
    with pytest.raises(ResultFileError, match="lacks the columns constraint"):
        draw(short)
    data = pendulum.data.copy()
    for name in ("constraint", "velocity", "energy", "error"):
        data[name] = np.nan
    with pytest.raises(ResultFileError, match="no finite errors"):
        draw(Result("drift", data, {}, {}, info={}))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(entry)
    out = tmp_path / "drift.npy"
    options = ["--case", "projected-dop853,radau-iia-5/ggl", "--t-end", "2", "--rtol", "1e-5"]
    options += ["--params", "gravity=9.81", "--points", "4", "--out", str(out)]
    assert main(["drift", "rigid-pendulum", *options]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "rigid-pendulum to t=2; largest errors" and said[-1] == f"written to {out}"
    result = load(out)
    assert result.kind == "drift" and result.parameters["params"] == {"gravity": 9.81}
    assert result.units["t"] == "s" and len(result.data) == 8
