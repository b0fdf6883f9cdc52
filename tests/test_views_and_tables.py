"""What people get out of results: columns by name, readable tables, CSV, data frames, views in Jupyter."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.errors import InputError, ResultFileError
from dae_sdc.run.results import Result
from dae_sdc.text import aligned, html_table, html_view


@pytest.fixture(scope="module")
def solution() -> Any:
    return ds.solve("pendulum", rtol=1e-4)


@pytest.fixture(scope="module")
def study() -> Any:
    return ds.convergence("simple", nodes=2, dt=[0.1, 0.05])


@pytest.fixture(scope="module")
def motor() -> Any:
    """A model with a parameter, of which one unknown is eliminated."""
    m = ds.Model("motor", interval=(0.0, 1.0))
    speed, torque = m.variables("speed torque", start=[1.0, 0.0], unit=["rad/s", "N*m"])
    friction = m.parameter("friction", 0.5)
    m.equations(m.der(speed) + torque, torque - friction * speed)
    return ds.solve(m, rtol=1e-6, simplify=True, params={"friction": 0.25})


@pytest.fixture(scope="module")
def runs() -> ds.Sweep:
    return ds.sweep("pendulum", {"g": [5.0, 10.0]}, rtol=1e-4, points=3)


def test_texts_of_a_table_stand_on_the_left_and_numbers_on_the_right() -> None:
    rows = [("name", "value"), ("a", 1), ("longer", 22)]
    assert aligned(rows, (6, -5)) == "name   value\na          1\nlonger    22"
    assert aligned(rows, gap=" | ") == "name   | value\na      | 1\nlonger | 22"


def test_everything_is_found_by_its_name(solution: Any, study: Result, motor: Any, tmp_path: Path) -> None:
    assert np.array_equal(solution["x"], solution.u[:, 0])
    assert np.array_equal(solution["t"], solution.t)
    assert np.array_equal(motor["torque"], motor.values("torque"))
    loaded = ds.load(motor.save(tmp_path / "motor"))
    assert np.array_equal(loaded["torque"], motor["torque"]) and np.array_equal(loaded.t, motor.t)
    assert np.array_equal(loaded["residual"], motor.per_step["residual"])
    assert np.array_equal(study["error"], study.data["error"])
    start = ds.initial("pendulum")
    assert start["x"] == start.values["x"] and start["der(x, 2)"] == start.values["der(x, 2)"]
    for found, name in ((solution, "lamda"), (study, "eror"), (start, "xx"), (loaded, "torqe")):
        with pytest.raises(InputError, match=f"unknown name '{name}'; did you mean"):
            found[name]
    with pytest.raises(InputError, match="unknown name 't'"):
        _ = study.t


def test_parameters_of_models_are_in_the_file(motor: Any, tmp_path: Path) -> None:
    path = motor.save(tmp_path / "motor")
    assert json.loads(path.with_suffix(".json").read_text())["parameters"]["params"]["friction"] == 0.25


def test_printed_solutions_and_studies_are_tables(solution: Any, study: Result) -> None:
    lines = str(solution).splitlines()
    assert lines[0].startswith("pendulum, ") and "t = 0 to 2 s" in lines[0]
    assert lines[2].split() == ["unknown", "unit", "start", "end", "smallest", "largest"]
    assert [line.split()[:2] for line in lines[4:]] == [
        [name, unit] for name, unit in zip(solution.names, solution.units, strict=True)
    ]
    assert repr(solution) == "<Solution of pendulum: 5 unknowns, t = 0 to 2>"
    text = str(study)
    assert "problem simple, sweeper fully-implicit" in text and text.count("differential") == 2
    assert "array" not in text and repr(study) == "<Result of kind convergence: 4 rows>"


def test_printed_studies_tell_what_failed() -> None:
    data = np.array(
        [("a", 0.1, 1e-3), ("b", 0.1, np.nan)], dtype=[("case", "U8"), ("dt", "f8"), ("error", "f8")]
    )
    about = {"failures": ["b: Newton's iteration diverged"], "left_out": ["c: not for index 3"]}
    text = str(Result("drift", data, {"dt": "s"}, about, info={}))
    assert text.splitlines()[-2:] == [
        "failed: b: Newton's iteration diverged",
        "left out: c: not for index 3",
    ]
    assert text.splitlines()[-3].split() == ["b", "-"]


def test_csv_by_suffix(solution: Any, motor: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = motor.save(tmp_path / "motor.csv")
    assert path == tmp_path / "motor.csv" and [entry.name for entry in tmp_path.iterdir()] == ["motor.csv"]
    with open(path, newline="", encoding="utf-8") as file:
        heads, *rows = csv.reader(file)
    assert heads == ["t", *motor.names, "torque"]
    assert np.array_equal(np.array(rows, dtype=float), np.column_stack([motor[name] for name in heads]))
    assert cli.main(["solve", "pendulum", "--rtol", "1e-3", "--out", str(tmp_path / "p.csv")]) == 0
    assert f"written to {tmp_path / 'p.csv'}\n" in capsys.readouterr().out
    assert (tmp_path / "p.csv").read_text().startswith("t,x,y,der(x),der(y),lambda\n0.0,")
    ds.convergence("simple", nodes=2, dt=[0.1, 0.05], out=tmp_path / "c.csv")
    assert len((tmp_path / "c.csv").read_text().splitlines()) == 5
    assert not list(tmp_path.glob("*partial*"))
    with pytest.raises(ResultFileError, match=r"motor\.csv is not a \.npy file"):
        ds.load(path)


def test_what_failed_goes_to_a_partial_csv(tmp_path: Path) -> None:
    done = ds.solve(
        lambda t, u, du: [du[0] - u[0] ** 2], u0=[1.0], t_end=2.0, rtol=1e-6, out=tmp_path / "blow.csv"
    )
    assert not done.success
    assert [entry.name for entry in tmp_path.iterdir()] == ["blow.partial.csv"]


def frame(columns: Any, index: Any) -> Any:
    return SimpleNamespace(columns=dict(columns), index=index)


def test_data_frames(motor: Any, study: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(DataFrame=frame, Index=lambda values, name: (name, list(values)))
    monkeypatch.setitem(sys.modules, "pandas", made)
    found = motor.to_dataframe()
    assert found.index == ("t", motor.t.tolist()) and list(found.columns) == [*motor.names, "torque"]
    assert found.attrs["units"] == {"t": "s", "speed": "rad/s", "torque": "N*m"}
    assert found.attrs["problem"] == "motor"
    assert study.to_dataframe().index is None


def test_data_sets(motor: Any, study: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(Dataset=lambda variables, coords, attrs: SimpleNamespace(**locals()))
    monkeypatch.setitem(sys.modules, "xarray", made)
    found = motor.to_xarray()
    along, values, about = found.variables["torque"]
    assert (along, about) == ("t", {"units": "N*m"}) and np.array_equal(values, motor["torque"])
    assert np.array_equal(found.coords["t"][1], motor.t) and found.attrs["success"] == 1
    assert study.to_xarray().variables["error"][0] == "row"


def test_runs_over_a_parameter_are_long_tables_and_sets_of_two_dimensions(
    runs: ds.Sweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = SimpleNamespace(
        DataFrame=frame, Dataset=lambda variables, coords, attrs: SimpleNamespace(**locals())
    )
    monkeypatch.setitem(sys.modules, "pandas", made)
    monkeypatch.setitem(sys.modules, "xarray", made)
    table = runs.to_dataframe()
    assert list(table.columns) == ["g", "t", *runs.names] and table.index is None
    assert np.array_equal(table.columns["g"], [5.0] * 3 + [10.0] * 3)
    assert np.array_equal(table.columns["x"].reshape(2, 3), runs["x"])
    assert table.attrs["units"]["lambda"] == "N/m"
    found = runs.to_xarray()
    along, values, about = found.variables["x"]
    assert along == ("g", "t") and np.array_equal(values, runs["x"]) and about == {"units": "m"}
    assert found.variables["steps"][0] == ("g",) and found.coords["g"][0] == ("g",)
    with open(runs.save(tmp_path / "runs.csv"), newline="", encoding="utf-8") as file:
        heads, *rows = csv.reader(file)
    assert heads == list(table.columns) and len(rows) == 6


@pytest.mark.parametrize(("method", "package"), [("to_dataframe", "pandas"), ("to_xarray", "xarray")])
def test_missing_packages_are_told(
    solution: Any, method: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"{method} needs {package}; install it: pip install {package}"):
        getattr(solution, method)()


def test_views_have_tables_and_small_pictures(solution: Any, study: Result, runs: ds.Sweep) -> None:
    model = ds.Model("a<b")
    x = model.variables("x", start=[1.0])[0]
    model.equations(model.der(x) + x)
    views = {"solution": solution, "study": study, "model": model, "structure": ds.structure(model)}
    views["runs"] = runs
    for name, one in views.items():
        html = one._repr_html_()
        assert html.count("<table>") >= 1 and html.count("<div>") == html.count("</div>") == 1
        assert ("data:image/png;base64," in html) == (name != "model")
    assert "a&lt;b" in model._repr_html_()
    assert "<td>lambda</td><td>N/m</td>" in solution._repr_html_()


def test_a_view_of_the_table_of_a_sweep_has_a_row_for_each_run_and_time(runs: ds.Sweep) -> None:
    html = runs.result._repr_html_()
    assert html.count("<tr>") == 1 + len(runs) * len(runs.t)


def test_a_message_about_an_unknown_name_tells_each_name_once(study: Result) -> None:
    with pytest.raises(InputError) as error:
        study["eror"]
    told = str(error.value).partition("Available: ")[2].split(", ")
    assert sorted(told) == sorted(study.data.dtype.names or ())


def test_what_cannot_be_drawn_has_a_view_without_a_picture() -> None:
    data = np.zeros(30, dtype=[("n", "i8"), ("share", "f8")])
    html = Result("count", data, {}, {}, info={})._repr_html_()
    assert "<img" not in html


def test_long_tables_say_what_is_left_out() -> None:
    html = html_view(
        "title & more", html_table(("n",), [(number,) for number in range(50)], 20), note="<end>"
    )
    assert "title &amp; more" in html and "and 30 more" in html and "&lt;end&gt;" in html
