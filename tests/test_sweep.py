"""Sweeps over parameters and start values: tables, files, failures, pictures, and what a kill leaves."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from helpers.nursery import needs_fork
from launcher import Launcher

import dae_sdc as ds
from dae_sdc.cli import main
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.errors import DAEWarning, InputError, ResultFileError
from dae_sdc.plotting.sweep import bands, end_values, sweep as draw
from dae_sdc.run.code import code_digest
from dae_sdc.run.plan import plan_of
from dae_sdc.run.solve import Repeated
from dae_sdc.run.sweep import swept_values
from dae_sdc.run.sweep_table import MOST_EVENT_TIMES, Outcome, RunningSweep
from dae_sdc.sharing import Recent, surroundings
from dae_sdc.structure import consistent

SETTINGS: dict[str, Any] = {"sweeper": "radau-iia-5", "dt": 0.05, "t_end": 0.2, "points": 5}


class Growth(ds.ProblemDAE):
    """y' = r y^2 from y(0), z = y': no solution beyond t = 1/(r y(0))."""

    index = 1
    names = ("y", "z")
    units = ("m", "m/s")
    interval = (0.0, 1.0)
    parameter_units = {"r": "1/m/s"}

    def __init__(self, r: float = 1.0, steps: float = 1.0, **settings: Any) -> None:
        if r <= 0.0:
            raise ValueError(f"r must be positive; got {r}")
        super().__init__(1, 1, **settings)
        self.r, self.steps = r, steps

    def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
        return [du[0] - u[1], u[1] - self.r * self.steps * u[0] ** 2]


def quick(problem: Any, params: Any, **more: Any) -> ds.Sweep:
    return ds.sweep(problem, params, **{**SETTINGS, **more})


def assert_same_runs(first: ds.Sweep, second: ds.Sweep) -> None:
    for name in set(first.data.dtype.names) - {"time"}:
        assert first.data[name].tobytes() == second.data[name].tobytes(), name


def test_the_runs_of_a_sweep_are_those_of_solve() -> None:
    found = quick("pendulum", {"g": [5.0, 9.0], "l": (0.5, 1)})
    assert found.u.shape == (4, 5, 5) and len(found) == 4 and found.success.all()
    assert found.parameters["g"].tolist() == [5, 5, 9, 9] and found.parameters["l"].tolist() == [
        0.5,
        1,
        0.5,
        1,
    ]
    for run in range(4):
        params = {name: float(values[run]) for name, values in found.parameters.items()}
        alone = ds.solve("pendulum", params=params, dense=False, **SETTINGS)
        assert np.array_equal(found.u[run], alone.u) and np.array_equal(found.t, alone.t)
        assert found["x"][run, -1] == alone.values("x")[-1] == found.quantity("x")[run]
        assert found.data["newton"][run] == alone.stats["newton"]
    assert found.units["g"] == "m/s^2" and found.units["x"] == "m"
    assert np.array_equal(found.quantity("max(lambda)"), found["lambda"].max(axis=1))
    assert np.allclose(found.quantity("mean(y)"), found["y"].mean(axis=1), rtol=1e-14)
    assert "g" in str(found).splitlines()[1] and len(str(found).splitlines()) == 6


def _robertson(t: float, u: Any, du: Any, k: float = 0.04) -> list[Any]:
    fast, slow = 1e4 * u[1] * u[2], k * u[0]
    return [du[0] + slow - fast, du[1] - slow + fast + 3e7 * u[1] ** 2, u[0] + u[1] + u[2] - 1.0]


def _swing() -> ds.Model:
    model = ds.Model("swing")
    x, y, force = model.variables("x y force", start=[1.0, 0.0, 0.0])
    g = model.parameter("g", 9.81)
    model.equations(model.der(x, 2) + force * x, model.der(y, 2) + force * y + g, x**2 + y**2 - 1)
    return model


@pytest.mark.parametrize(
    ("problem", "name", "values", "settings"),
    [
        ("robertson", "k1", (0.03, 0.05), {"points": 2}),
        ("robertson", "k1", (0.03, 0.05), {"t_eval": [1e-5, 1.0, 40.0, 1e4], "rtol": 1e-4}),
        ("pendulum", "g", (9.0, 10.0), {"points": 7}),  # index 3, with hidden constraints
        ("discontinuous", "newton_tol", (1e-10, 1e-9), {"points": 4}),  # with switches
        (_robertson, "k", (0.03, 0.05), {"points": 3, "u0": [1.0, 0.0, 0.0], "t_end": 40.0}),
        (_swing, "g", (9.0, 10.0), {"points": 3, "t_end": 1.0}),
        (Growth, "r", (-0.2, 1.4), {"points": 5, "u0": {"y": 1.0}}),  # some are refused, and some fail
        ("pendulum", "g", (9.0, 10.0), {"points": 3, "events": [ds.Event(lambda u, t: u[0], name="x=0")]}),
    ],
)
def test_runs_of_a_sweep_are_those_of_solve(problem: Any, name: str, values: Any, settings: Any) -> None:
    problem, settings = problem() if problem is _swing else problem, {"rtol": 1e-6, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DAEWarning)  # of runs that fail
        found = ds.sweep(problem, {name: np.linspace(*values, 9)}, **settings)
    for run, value in enumerate(found.parameters[name].tolist()):
        try:
            alone = ds.solve(problem, params={name: value}, dense=False, **settings)
        except ValueError as error:
            assert not found.success[run] and str(error) in found.message[run]
            continue
        reached = len(alone.t) if alone.success else int(np.isfinite(found.u[run, :, 0]).sum())
        assert found.u[run, :reached].tobytes() == alone.u[:reached].tobytes()
        assert (found.success[run], found.message[run]) == (alone.success, alone.message)
        work = {counter: int(found.data[counter][run]) for counter in ("steps", "rejected", *COUNTERS)}
        assert work == {counter: alone.stats[counter] for counter in work}
        for event in alone.events:
            assert found.events[event.name][run, : len(event)].tobytes() == event.t.tobytes()


@pytest.mark.parametrize(
    ("problem", "params", "settings"),
    [
        ("robertson", {"k1": [0.03, 0.04, 0.05]}, {}),
        ("pendulum", {"g": [9.0, 9.5, 10.0]}, {}),
        (_robertson, {"k": [0.03, 0.04, 0.05]}, {"u0": [1.0, 0.0, 0.0], "t_end": 40.0}),
    ],
)
def test_runs_that_differ_in_numbers_share_a_plan(
    monkeypatch: pytest.MonkeyPatch, problem: Any, params: Any, settings: Any
) -> None:
    solving, plans = importlib.import_module("dae_sdc.run.solve"), list[Any]()
    monkeypatch.setattr(solving, "plan_of", lambda *stages: plans.append(plan_of(*stages)) or plans[-1])
    runs = ds.sweep(problem, params, rtol=1e-5, points=3, **settings)
    assert runs.success.all() and len(plans) == 1


def _pendulum(t: float, u: Any, du: Any, g: float = 9.81) -> list[Any]:
    x, y, v, w, force = u
    return [du[0] - v, du[1] - w, du[2] + force * x, du[3] + force * y + g, x**2 + y**2 - 1.0]


def _vanishing(t: float, u: Any, du: Any, k: float = 1.0) -> list[Any]:
    """u = (cos t, -sin t), of index 2 where k is 0 and of index 1 elsewhere."""
    return [du[0] - u[1], u[0] - np.cos(t) + k * (u[1] + np.sin(t))]


def _chosen(t: float, u: Any, du: Any, k: float = 1.0) -> list[Any]:
    """The same with index 2 where k is negative."""
    return _vanishing(t, u, du, np.maximum(k, 0.0))


@pytest.mark.parametrize(
    ("problem", "name", "values", "start"),
    [
        (_pendulum, "g", (9.0, 9.5, 10.0, 0.1, -9.0, 0.0), [1.0, 0.0, 0.0, 0.0, 0.0]),
        (_vanishing, "k", (0.5, 0.0, -0.3, 1e-9), [1.0, 0.0]),
        (_vanishing, "k", (0.0, 2.0), [1.0, 0.0]),
        (_chosen, "k", (1.0, -1.0, 2.0), [1.0, 0.0]),
        (_chosen, "k", (-1.0, -2.0, 1.0), [1.0, 0.0]),
        (_swing, "g", (9.0, 10.0, 0.0), None),
    ],
)
def test_what_is_known_for_other_numbers_changes_no_digit(
    problem: Any, name: str, values: Any, start: Any
) -> None:
    given = problem() if problem is _swing else problem
    settings: dict[str, Any] = {"rtol": 1e-6, "points": 5, "t_end": 1.0, "u0": start}
    runs = ds.sweep(given, {name: values}, **settings)
    for run, value in enumerate(values):
        for module in [each for word, each in sys.modules.items() if word.startswith("dae_sdc.")]:
            for kept in [each for each in vars(module).values() if isinstance(each, Recent)]:
                kept.clear()
        given = problem() if problem is _swing else problem
        alone = ds.solve(given, params={name: value}, dense=False, **settings)
        assert runs.u[run].tobytes() == alone.u.tobytes() and runs.message[run] == alone.message
        if problem in (_vanishing, _chosen):
            exact = np.stack([np.cos(runs.t), -np.sin(runs.t)], axis=1)
            assert np.abs(runs.u[run] - exact).max() < 1e-7


def test_points_that_satisfy_the_constraints_are_sought_once_in_a_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sought, find = list[Any](), consistent.find_points
    monkeypatch.setattr(consistent, "find_points", lambda *given: sought.append(given) or find(*given))
    runs = ds.sweep(
        lambda t, u, du, g=9.81: _pendulum(t, u, du, g),
        {"g": [9.0, 9.1, 9.2, 9.3]},
        **{"u0": [1.0, 0.0, 0.0, 0.0, 0.0], "t_end": 0.1, "rtol": 1e-6, "points": 2},
    )
    assert runs.success.all() and len(sought) == 1


def test_values_are_lists_ranges_and_pairs() -> None:
    over, fixed = swept_values(
        {"a": "1,2.5", "b": "0:10:3", "c": "1:100:3:log", "d": np.arange(2), "e": 7, "f": "x"}
    )
    assert over == {"a": [1, 2.5], "b": [0, 5, 10], "c": [1, 10, 100], "d": [0, 1]} and fixed == {
        "e": 7,
        "f": "x",
    }
    assert all(isinstance(value, int) for value in over["b"])
    paired = quick(Growth, {"r": [0.1, 0.2], "u0:y": "1:2:2"}, combine="zip")
    assert paired.u[:, 0, 0].tolist() == [1.0, 2.0] and paired.units["u0:y"] == "m"
    assert np.allclose(
        paired["y"][:, -1], 1.0 / (1.0 / np.array([1.0, 2.0]) - 0.2 * np.array([0.1, 0.2])), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("params", "more", "says"),
    [
        ({"r": 1.0}, {}, "nothing to sweep"),
        ({"r": []}, {}, "r has no values"),
        ({"r": "1:2"}, {}, "start:stop:count"),
        ({"r": "1:x:3"}, {}, "start:stop:count"),
        ({"r": "1:2:0"}, {}, "1 to 100000 values"),
        ({"r": "1:2:1000000000"}, {}, "1 to 100000 values"),
        ({"r": "0:2:3:log"}, {}, "above 0"),
        ({"r": [1, "a"]}, {}, "must be a number"),
        ({"r": [1, float("inf")]}, {}, "must be finite"),
        ({"r": [1, 2], "steps": [1, 2, 3]}, {"combine": "zip"}, "2 of r, 3 of steps"),
        ({"r": [1, 2]}, {"combine": "sum"}, "unknown combination .sum.; available: grid, zip"),
        ({"r": [1, 2, 1]}, {}, "given twice"),
        ({"r": "1:2:1000", "steps": "1:2:1000"}, {}, "at most 100000 runs"),
        ({"q": [1, 2]}, {}, "unknown parameter of .*'q'"),
        ({"r": [1, 2]}, {"sweeper": "radau-iia-4", "u0": [1.0, 1.0]}, "unknown sweeper"),
        ({"r": [1, 2]}, {"resume": True}, "name it"),
        ({"u0:y": [1, 2]}, {"u0": [1.0, 1.0]}, "u0 is given by names"),
    ],
)
def test_what_cannot_be_swept_is_refused(params: Any, more: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        quick(Growth, params, **more)


def test_failed_runs_are_told_kept_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(DAEWarning, match="4 of 5 runs failed: r=0: ValueError: r must be positive"):
        found = ds.sweep(Growth, {"r": "0:2:5", "u0:y": 1.0}, rtol=1e-4, points=21, out=tmp_path / "s")
    assert found.success.tolist() == [False, True, False, False, False]
    assert found.message[0] == "ValueError: r must be positive; got 0.0" and "singularity" in found.message[3]
    y = found["y"]
    assert np.isnan(y[0]).all() and np.isfinite(y[1]).all() and 0 < np.isfinite(y[4]).sum() < 21
    assert np.isnan(found.quantity("y")[[0, 2, 3, 4]]).all() and found.quantity("t_end")[4] == pytest.approx(
        0.5, abs=0.05
    )
    kept = ds.load(tmp_path / "s.npy")
    assert kept.parameters["complete"] and kept.data.tobytes() == found.data.tobytes()
    figure = draw(kept)
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses) == 6 and "4 failed (crosses)" in figure.get_suptitle()
    (panel,) = end_values(kept, ["max(y)"]).axes
    assert panel.lines[-1].get_xdata().tolist() == [0.0, 1.0, 1.5, 2.0]
    assert main(["plot", "end-values", str(tmp_path / "s.npy"), "--show", "t_end,y"]) == 0
    assert main(["plot", "sweep", str(tmp_path / "s.npy"), "--show", "x"]) == 2
    assert "unknown name 'x'" in capsys.readouterr().err


def test_a_sweep_of_20_values_with_a_picture_is_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = (
        "sweep pendulum --params g=1:20:20 --rtol 1e-4 --points 21 --plot p.png --show lambda --out p.npy"
    )
    assert main(command.split()) == 0
    out, err = capsys.readouterr()
    assert "20 runs to t = 2 s" in out and "written to p.npy\ndrawn in p.png\n" in out and err == ""
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    found = ds.Sweep.load("p.npy")
    assert np.allclose(found.quantity("max(lambda)"), 3.0 * found.parameters["g"], rtol=0.05)  # 3 m g / l
    assert main("sweep pendulum --param g=1,2 --plot p.bmp".split()) == 2


def test_workers_find_what_one_process_finds() -> None:
    alone, shared = (quick("simple", {"alpha": "1:5:5"}, workers=workers) for workers in (1, 2))
    assert_same_runs(alone, shared)
    Growth.__module__, home = "__main__", Growth.__module__
    try:
        with pytest.raises(InputError, match=r"FILE\.py:NAME"):
            quick(Growth, {"r": [1, 2]}, workers=2)
    finally:
        Growth.__module__ = home


def test_a_swept_parameter_may_be_called_like_a_column_of_the_table(tmp_path: Path) -> None:
    found = quick(Growth, {"steps": [0.1, 0.2], "u0:y": 1}, out=tmp_path / "s")
    assert found.parameters["steps"].tolist() == [0.1, 0.2] and found.data["steps"].tolist() == [4, 4]
    again = quick(Growth, {"steps": [0.1, 0.2, 0.3], "u0:y": 1}, out=tmp_path / "s", resume=True)
    assert again.data[:2].tobytes() == found.data.tobytes()


def test_eliminated_unknowns_of_a_model_are_in_the_table() -> None:
    model = ds.Model("tank", interval=(0.0, 1.0))
    h, q, r = model.variables("h q r", start=[2.0, None, None], unit=["m", "m^3/s", "m^3/s"])
    a = model.parameter("a", 0.3)
    model.equations(model.der(h) + q, q - a * h, r - 2 * q)
    found = ds.sweep(model, {"a": [0.3, 0.6]}, rtol=1e-8, simplify=True, points=3)
    assert len(found.names) < 3 and set(found.all_names) == {"h", "q", "r"}
    assert np.allclose(
        found["r"][:, -1], 4.0 * np.array([0.3, 0.6]) * np.exp(-np.array([0.3, 0.6])), rtol=1e-7
    )
    assert found.units["r"] == "m^3/s"


def test_a_finished_sweep_takes_more_values_and_no_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved, solution = list[Any](), Repeated.solution
    monkeypatch.setattr(
        Repeated, "solution", lambda self, run: solved.append(run.params) or solution(self, run)
    )
    first = quick("simple", {"alpha": [1, 2]}, out=tmp_path / "s.npy", resume=True)
    more = quick("simple", {"alpha": [2, 3, 1]}, out=tmp_path / "s.npy", resume=True)
    assert [params["alpha"] for params in solved] == [1, 2, 3]
    assert more.data[[2, 0]].tobytes() == first.data.tobytes()
    with pytest.raises(InputError, match=r"another sweep \(dt: 0.05, now 0.1\)"):
        quick("simple", {"alpha": [1, 2]}, out=tmp_path / "s.npy", resume=True, dt=0.1)
    assert not list(tmp_path.glob("*.partial.*"))


FACTOR = 1.0


def test_a_sweep_whose_equations_have_changed_does_not_go_on(tmp_path: Path) -> None:
    def problem(exponent: int) -> Any:
        class Power(Growth):
            def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
                return [du[0] - u[1], u[1] - FACTOR * self.r * u[0] ** exponent]

        return Power

    def model(sign: int) -> ds.Model:
        made = ds.Model("decay", interval=(0.0, 1.0))
        x, a = made.variable("x", start=1.0), made.parameter("a", 0.3)
        made.equation(made.der(x) + sign * a * x)
        return made

    out = tmp_path / "s.npy"
    first = quick(problem(2), {"r": [0.1, 0.2]}, u0=[1.0, 0.1], start="consistent", out=out)
    again = quick(problem(2), {"r": [0.1, 0.2, 0.3]}, u0=[1.0, 0.1], start="consistent", out=out, resume=True)
    assert again.data[:2].tobytes() == first.data.tobytes()
    with pytest.raises(InputError, match="another sweep \\(code of the problem: "):
        quick(problem(3), {"r": [0.1, 0.2]}, u0=[1.0, 0.1], start="consistent", out=out, resume=True)
    ds.sweep(model(1), {"a": [0.1, 0.2]}, rtol=1e-4, out=tmp_path / "m.npy")
    with pytest.raises(InputError, match="code of the problem"):
        ds.sweep(model(-1), {"a": [0.1, 0.2]}, rtol=1e-4, out=tmp_path / "m.npy", resume=True)


def test_the_digest_of_a_code_changes_with_all_that_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(t: float, u: Any, du: Any) -> Any:
        return [du[0] + FACTOR * u[0] if "a" in {"a", "b", "c"} else du[0]]

    before = code_digest(function), code_digest(ds.FunctionProblem(function, 1)), code_digest(Growth)
    assert all(before) and len(set(before)) == 3
    assert ds.solve(function, u0=[1.0], t_end=0.1, rtol=1e-4).success and quick(
        Growth, {"r": [1, 2], "u0:y": 1}
    )
    assert before == (
        code_digest(function),
        code_digest(ds.FunctionProblem(function, 1)),
        code_digest(Growth),
    )
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert code_digest(function) != before[0]
    assert code_digest(ds.PROBLEMS["pendulum"]) == ""


SLOW = """
import os, sys, time
import dae_sdc as ds
from dae_sdc.run.solve import Repeated
solution = Repeated.solution
def slow(self, run):
    with open("log", "a") as log:
        log.write(f"{run.params['alpha']}\\n")
    time.sleep(float(sys.argv[1]))
    return solution(self, run)
Repeated.solution = slow
ds.sweep("simple", {"alpha": "1:12:12"}, sweeper="radau-iia-5", dt=0.05, points=5, out="s.npy", resume=True)
"""


@needs_fork
@pytest.mark.long
def test_a_killed_sweep_goes_on_where_it_was_and_does_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    log, finished = tmp_path / "log", set()

    def start(pause: float) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "slow.py", str(pause)], cwd=tmp_path, env=os.environ.copy())

    def begun() -> list[int]:
        return [int(line) for line in log.read_text().split()] if log.exists() else []

    for wanted in (4, 8):
        process, limit = start(0.05), time.monotonic() + 300.0
        while len(begun()) < wanted and time.monotonic() < limit:
            time.sleep(0.002)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        partial = ds.Sweep.load(tmp_path / "s.partial.npy")
        done = set(partial.parameters["alpha"][partial.data["done"]].astype(int).tolist())
        assert finished <= done and wanted - 2 <= len(done) < 12 and not (tmp_path / "s.npy").exists()
        assert "not run yet" in str(partial) and "not run yet" in draw(partial.result).get_suptitle()
        finished = done
    before = len(begun())
    assert start(0.0).wait() == 0
    assert begun()[before:] == [alpha for alpha in range(1, 13) if alpha not in finished]
    assert not (tmp_path / "s.partial.npy").exists()
    found = ds.Sweep.load(tmp_path / "s.npy")
    whole = ds.sweep("simple", {"alpha": "1:12:12"}, sweeper="radau-iia-5", dt=0.05, points=5)
    assert found.result.parameters["complete"]
    assert_same_runs(found, whole)


@pytest.mark.parametrize("entry", ["over", "names", "time_unit", "others"])
def test_a_damaged_file_of_a_sweep_is_refused_in_one_line(tmp_path: Path, entry: str) -> None:
    quick("simple", {"alpha": [1, 2]}, out=tmp_path / "s")
    about = json.loads((tmp_path / "s.json").read_text())
    about["parameters"][entry] = ["a", "b"] if entry != "time_unit" else 1
    (tmp_path / "s.json").write_text(json.dumps(about))
    with pytest.raises(ResultFileError, match="run the sweep again"):
        ds.Sweep.load(tmp_path / "s.npy")
    assert main(["plot", "sweep", str(tmp_path / "s.npy")]) == 2
    with pytest.raises(ResultFileError, match="of kind"):
        ds.solve("hessenberg-1", dt=0.5, out=tmp_path / "t")
        ds.Sweep.load(tmp_path / "t.npy")


@pytest.mark.parametrize(("count", "curves"), [(1, 3), (7, 3), (20, 3)])
def test_pictures_have_a_legend_for_few_runs_and_a_scale_of_colours_for_many(count: int, curves: int) -> None:
    found = quick("simple", {"alpha": f"1:1000:{count}:log"}, dt=0.2)
    figure = draw(found.result)
    assert all(len(axes.lines) == count for axes in figure.axes[:curves])
    legend = figure.axes[0].get_legend()
    assert (legend is None) == (count == 20) and len(figure.axes) == curves + (count == 20)
    scale = end_values(found.result).axes[0].get_xscale()
    assert scale == ("log" if count > 1 else "linear")


def made_up(values: Any, function: Any, names: tuple[str, ...] = ("x", "y")) -> Any:
    """The table of a sweep over R and C whose solutions are given."""
    t = np.linspace(0.0, 1.0, 11)
    table = RunningSweep(("R", "C"), values, {"problem": "made up"}, {"R": "Ohm"}, None)
    about = {"n_diff": 1, "time_unit": "s", "names": list(names), "units": ["V", ""]}
    about |= {"others": [], "other_units": []}
    for run, (r, c) in enumerate(values):
        unknowns = dict(zip(names, zip(("V", ""), function(t, r, c).T, strict=True), strict=True))
        table.put(run, Outcome("", True, t, unknowns, about))
    return table.finish()


def test_many_runs_long_names_and_wide_ranges_have_their_place() -> None:
    grid = [(float(r), float(c)) for r in range(4) for c in range(1, 61)]
    names = ("short", "a.very.long.name.of.an.unknown[3]")
    many = made_up(grid, lambda t, r, c: np.stack([np.sin(r * t + c), c * t], 1), names)
    for picture in (draw(many), end_values(many)):
        assert picture.axes[0].get_ylabel().startswith("short") and picture.axes[1].get_ylabel() == ""
        assert picture.axes[1].get_title(loc="left").startswith("a.very.long.name.of.an.unknown[3]")
        assert len(picture.axes) == 3 and picture.axes[0].get_legend() is None
        picture.draw_without_rendering()
    assert end_values(many).axes[2].get_ylabel() == "C" and draw(many).axes[2].get_ylabel() == "R [Ohm]"
    lined = made_up(
        [(float(r), c) for r in range(8) for c in (1.0, 2.0)], lambda t, r, c: np.stack([t, r * t], 1)
    )
    assert [text.get_text() for text in draw(lined).legends[0].get_texts()] == ["C=1", "C=2"]
    wide = made_up(
        [(r, 1.0) for r in np.geomspace(1e-6, 1e6, 8)], lambda t, r, c: np.stack([r + r * t, r * t], 1)
    )
    assert [axes.get_yscale() for axes in draw(wide).axes[:2]] == ["log", "linear"]
    assert [axes.get_yscale() for axes in end_values(wide).axes[:2]] == ["log", "log"]
    assert "8 runs" in draw(wide).get_suptitle()


def test_pictures_of_sweeps_take_patterns_and_objects(tmp_path: Path) -> None:
    runs = ds.sweep("pendulum", {"g": [5.0, 10.0]}, rtol=1e-3, points=5)
    labels = [axes.get_ylabel() for axes in runs.plot(show="der(*),lam*").axes]
    assert labels == ["der(x) [m/s]", "der(y) [m/s]", "lambda [N/m]"]
    over = ds.plot("end-values", runs, show="max(der*),steps", out=tmp_path / "ends.png")
    assert [axes.get_ylabel() for axes in over.axes] == ["max(der(x)) [m/s]", "max(der(y)) [m/s]", "steps"]
    for kind in ("sweep", "end-values"):
        with pytest.raises(InputError, match=r"unknown \w+ 'q\*'"):
            runs.plot(kind, show="q*")


def test_a_sweep_to_csv_goes_on_from_its_partial_file_and_leaves_none(tmp_path: Path) -> None:
    def grow(out: Path, **more: Any) -> ds.Sweep:
        return ds.sweep("simple", {"alpha": [5.0, 6.0]}, **SETTINGS, out=out, **more)

    runs = grow(tmp_path / "s.csv")
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.csv"]
    rows = (tmp_path / "s.csv").read_text().splitlines()
    assert rows[0].split(",")[:2] == ["alpha", "t"] and len(rows) == 1 + 2 * len(runs.t)
    with pytest.raises(InputError, match=r"s\.csv keeps no settings to go on from"):
        grow(tmp_path / "s.csv", resume=True)


# --- draws --------------------------------------------------------------------------------------------------


def fading(t: float, u: Any, du: Any, k: float = 1.0, gain: float = 2.0) -> list[Any]:
    """x = x(0) exp(-k t), y = gain x."""
    return [du[0] + k * u[0], u[1] - gain * u[0]]


FADING: dict[str, Any] = {"u0": {"x": 1.0, "y": 2.0}, "t_end": 1.0, "rtol": 1e-8, "points": 3}


@pytest.mark.parametrize("sampler, allowed", [("sobol", 4e-3), ("latin-hypercube", 4e-3), ("random", 4.5e-2)])
def test_draws_have_the_moments_of_their_distribution(sampler: str, allowed: float) -> None:
    # exp(-k) of a normal k of mean 1 and deviation s has the mean exp(-1 + s^2 / 2). Three deviations of 64
    # independent draws are 0.045; of one draw in each of 64 strata the outermost count, with 0.0013 each.
    drawn = ds.sweep(fading, {"k": scipy.stats.norm(1.0, 0.3)}, samples=64, sampler=sampler, **FADING)
    mean = float(drawn["x"][:, -1].mean())
    assert abs(mean - np.exp(-1.0 + 0.045)) < allowed and drawn.success.all()
    assert drawn["x"][:, -1] == pytest.approx(np.exp(-drawn.parameters["k"]), rel=1e-8)
    # Quantiles of a monotonic function are those of its argument.
    parts = np.array([0.25, 0.5, 0.75])
    exact = np.exp(-scipy.stats.norm(1.0, 0.3).ppf(1.0 - parts))
    assert np.abs(drawn.quantile("x", parts)[:, -1] - exact).max() < max(0.01, allowed)
    assert drawn.quantile("x", 0.5).shape == (3,)


def test_more_draws_begin_with_the_same_ones_and_go_on_from_a_file(tmp_path: Path) -> None:
    out = tmp_path / "drawn.npy"
    few = ds.sweep(fading, {"k": "uniform(1,2)"}, samples=5, sample_seed=3, out=out, **FADING)
    more = ds.sweep(fading, {"k": "uniform(1,2)"}, samples=9, sample_seed=3, out=out, resume=True, **FADING)
    assert more.parameters["k"][:5].tolist() == few.parameters["k"].tolist()
    assert more.data["time"][:5].tolist() == few.data["time"].tolist()  # they were not run again
    other = ds.sweep(fading, {"k": "uniform(1,2)"}, samples=5, sample_seed=4, **FADING)
    assert not set(other.parameters["k"]) & set(more.parameters["k"])


def test_draws_go_together_in_a_grid_and_are_as_many_as_the_others_in_pairs() -> None:
    random = {"k": "norm(1,0.1)", "gain": "uniform(1,1)"}
    with pytest.raises(InputError, match="violates"):  # y = gain x fixes one gain
        ds.sweep(fading, random, samples=2, **FADING)
    problem = ds.FunctionProblem(fading, 2, names=("x", "y"))
    settings = {**FADING, "u0": {"x": 1.0}}
    grid = ds.sweep(
        problem, {"k": "norm(1,0.1)", "u0:x": [1.0, 3.0], "gain": "uniform(1,1)"}, samples=4, **settings
    )
    assert list(grid.parameters) == ["k", "gain", "u0:x"] and len(grid) == 8
    assert len(set(zip(grid.parameters["k"], grid.parameters["gain"], strict=True))) == 4
    pairs = ds.sweep(problem, {"k": "norm(1,0.1)", "gain": [1.0, 2.0, 3.0]}, combine="zip", **settings)
    assert len(pairs) == 3
    assert grid["y"] == pytest.approx(grid.parameters["gain"][:, None] * grid["x"], rel=1e-12)


@pytest.mark.parametrize(
    "params, more, says",
    [
        ({"k": "nrm(1,2)"}, {}, "scipy.stats has no distribution 'nrm' for k; try norm or uniform"),
        ({"k": "norm(a)"}, {}, "k takes norm with numbers"),
        ({"k": "norm(1,-1)"}, {}, "the distribution of k has no finite quantiles"),
        ({"k": [1.0, 2.0]}, {"samples": 4}, "samples are drawn from distributions"),
        ({"k": "norm(1,1)"}, {"sampler": "sobel"}, "did you mean 'sobol'"),
        ({"k": "norm(1,1)"}, {"samples": 0}, "samples must be"),
        ({"k": "norm(1,1)"}, {"seed": 3}, "give sample_seed"),
    ],
)
def test_draws_that_cannot_be_made_are_refused(params: Any, more: Any, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        ds.sweep(fading, params, **more, **FADING)


def test_bands_are_drawn_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "bands.png"
    words = ["sweep", "simple", "--params", "alpha=uniform(5,5)", "--samples", "4", "--rtol", "1e-4"]
    assert main([*words, "--plot", str(picture), "--bands"]) == 0
    assert picture.stat().st_size > 1000 and "4 runs" in capsys.readouterr().out
    runs = ds.sweep("simple", {"alpha": "uniform(5,5)"}, samples=4, rtol=1e-4, points=11)
    axes = bands(runs.result, "u1").axes[0]
    assert axes.get_lines()[0].get_ydata().tolist() == runs.quantile("u1", 0.5).tolist()


# --- statistics in the place of values ----------------------------------------------------------------------

EVERY = "mean,std,min,max,quantile(0.1,0.5,0.9),end"


@pytest.mark.parametrize("workers", [1, 2])
def test_statistics_are_those_of_the_values_whatever_the_number_of_workers(workers: int) -> None:
    swept: dict[str, Any] = {"params": {"r": "0.2:2:10", "u0:y": 1.0}, "rtol": 1e-4, "points": 21}
    with pytest.warns(DAEWarning, match="6 of 10 runs failed"):  # those whose solution ends before t = 1
        whole = ds.sweep(Growth, **swept)
    with pytest.warns(DAEWarning, match="6 of 10 runs failed"):
        runs = ds.sweep(Growth, **swept, reduce=EVERY, workers=workers)
    assert runs.is_reduced and not whole.is_reduced and not whole.reduced
    for name in ("y", "z"):
        values = whole[name]
        reduced = {statistic: runs.reduced[statistic][name] for statistic in runs.reduced}
        assert reduced["min"].tobytes() == np.fmin.reduce(values, axis=0).tobytes()
        assert reduced["max"].tobytes() == np.fmax.reduce(values, axis=0).tobytes()
        assert reduced["mean"] == pytest.approx(np.nanmean(values, axis=0), rel=1e-14)
        assert reduced["std"] == pytest.approx(np.nanstd(values, axis=0, ddof=1), rel=1e-12, abs=1e-15)
        assert runs.quantile(name, [0.1, 0.9]).tobytes() == whole.quantile(name, [0.1, 0.9]).tobytes()
        assert runs.quantity(name).tobytes() == whole.quantity(name).tobytes() == reduced["end"].tobytes()
    for name in ("success", "t_end", "steps", "message", "r"):
        assert runs.data[name].tolist() == whole.data[name].tolist()
    assert runs.t.tobytes() == whole.t.tobytes() and runs.units["y"] == "m"
    alone = {what: of["y"].tobytes() for what, of in runs.reduced.items()}
    assert DIGITS.setdefault("one", alone) == alone


DIGITS: dict[str, dict[str, bytes]] = {}
"""Those of the statistics above, which every number of workers must give."""


def test_what_was_reduced_is_saved_loaded_tabulated_and_drawn(tmp_path: Path) -> None:
    swept: dict[str, Any] = {"params": {"alpha": "uniform(5,5)"}, "samples": 8, "rtol": 1e-4, "points": 5}
    reduce = {"mean,std,quantile(0.05,0.95)": "u1", "max": ["u*"], "end": "u2"}
    runs = ds.sweep("simple", **swept, reduce=reduce, out=tmp_path / "s")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["s.json", "s.npy"]
    loaded = ds.Sweep.load(tmp_path / "s.npy")
    of = {statistic: list(unknowns) for statistic, unknowns in runs.reduced.items()}
    assert (
        of["mean"] == of["quantile(0.95)"] == ["u1"] and of["max"][:2] == ["u1", "u2"] and of["end"] == ["u2"]
    )
    for statistic, unknowns in runs.reduced.items():
        for name, values in unknowns.items():
            assert loaded.reduced[statistic][name].tobytes() == values.tobytes()
    assert "values at the end of u2" in str(loaded) and loaded.data.itemsize < 200
    runs.save(tmp_path / "s.csv")
    head, *rows = (tmp_path / "s.csv").read_text().splitlines()
    assert (
        head.startswith("t,mean(u1),std(u1),quantile(0.05)(u1),quantile(0.95)(u1),max(u1)") and len(rows) == 5
    )
    axes = draw(loaded.result, "u1").axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["90 % of the runs", "mean ± std", "mean", "max"]
    assert axes.get_lines()[0].get_ydata().tolist() == runs.reduced["mean"]["u1"].tolist()
    assert len(end_values(loaded.result, "u2").axes[0].lines) == 1
    for ask in (
        lambda: runs.u,
        lambda: runs["u1"],
        lambda: runs.quantity("max(u1)"),
        lambda: runs.quantile("u1", 0.5),
    ):
        with pytest.raises(InputError, match="leave reduce out to keep the values of each"):
            ask()
    ends = ds.sweep("simple", **swept, reduce="end")
    with pytest.raises(InputError, match="nothing over time was kept"):
        bands(ends.result)


def test_times_of_events_are_quantities_of_the_runs(tmp_path: Path) -> None:
    events = [
        ds.Event(lambda u, t: u[0], name="lowest point"),
        ds.Event(lambda u, t: u[0] - 9.0, name="never"),
    ]
    swept: dict[str, Any] = {"params": {"g": [5.0, 10.0, 40.0]}, "rtol": 1e-6, "points": 3, "events": events}
    runs = ds.sweep("pendulum", **swept, out=tmp_path / "s")
    times = runs.events["lowest point"]
    for run, g in enumerate(runs.parameters["g"].tolist()):
        alone = ds.solve("pendulum", params={"g": g}, rtol=1e-6, points=3, events=events).events[0].t
        assert (
            times[run, : len(alone)].tolist() == alone.tolist() and np.isnan(times[run, len(alone) :]).all()
        )
    assert runs.quantity("lowest point").tolist() == times[:, 0].tolist()
    assert np.isnan(runs.quantity("never")).all() and times.shape == (3, MOST_EVENT_TIMES)
    reduced = ds.sweep("pendulum", **swept, reduce={"events": "low*"})
    assert list(reduced.reduced["events"]) == ["lowest point"]
    assert reduced.reduced["events"]["lowest point"].tobytes() == times.tobytes()
    assert ds.Sweep.load(tmp_path / "s.npy").events["lowest point"].tobytes() == times.tobytes()
    # Events are told apart by their code: a new process has other objects.
    for event, told in (("lowest point", ""), ("other", "another sweep (events")):
        events[0] = ds.Event(lambda u, t: u[0], name=event)
        with pytest.raises(InputError, match=re.escape(told)) if told else nullcontext():
            assert_same_runs(ds.sweep("pendulum", **swept, out=tmp_path / "s", resume=True), runs)
    with pytest.raises(InputError, match="there are none; give events"):
        quick("simple", {"alpha": [1, 2]}, reduce="events")


@pytest.mark.parametrize(
    "reduce, says",
    [
        ("meen", "did you mean 'mean'"),
        ("quantile(2)", "parts from 0 to 1"),
        ("quantile(a)", "a quantile is that of a part of the runs, quantile(0.05); got quantile(a)"),
        ("", "reduce names what is kept"),
        ({"mean": ""}, "reduce names what is kept"),
        ({"mean": "w"}, "unknown name 'w'"),
        ({"mean": 1}, "reduce"),
    ],
)
def test_what_cannot_be_reduced_is_refused(reduce: Any, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        quick("simple", {"alpha": [1, 2]}, reduce=reduce)


def test_a_sweep_is_reduced_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, words = tmp_path / "p.png", ["sweep", "simple", "--params", "alpha=1,2", *"--rtol 1e-4".split()]
    assert main([*words, "--reduce", "mean,quantile(0.1,0.9),end", "--plot", str(picture)]) == 0
    assert picture.stat().st_size > 1000 and "2 runs" in capsys.readouterr().out
    assert main([*words, "--no-reduce"]) == 0 and main([*words, "--reduce", "maen"]) == 2
    assert "did you mean 'mean'" in capsys.readouterr().err


def test_more_samples_go_on_with_what_was_reduced(tmp_path: Path) -> None:
    out, drawn = tmp_path / "s.npy", {"k": "uniform(1,2)"}
    few = ds.sweep(fading, drawn, samples=5, out=out, reduce="mean,std,end", **FADING)
    more = ds.sweep(fading, drawn, samples=9, out=out, reduce="mean,std,end", resume=True, **FADING)
    whole = ds.sweep(fading, drawn, samples=9, reduce="mean,std,end", **FADING)
    assert more.data["time"][:5].tolist() == few.data["time"].tolist()  # they were not run again
    for what, of in whole.reduced.items():
        assert of["x"].tobytes() == more.reduced[what]["x"].tobytes()
    with pytest.raises(InputError, match="more samples may be drawn, other values not"):
        ds.sweep(fading, {"k": [1.0, 2.0]}, out=out, reduce="mean,std,end", resume=True, **FADING)
    with pytest.raises(InputError, match="another sweep"):
        ds.sweep(fading, drawn, samples=9, out=out, reduce="mean", resume=True, **FADING)
    ds.sweep(fading, drawn, samples=5, out=out, reduce="quantile(0.5)", **FADING)
    again = ds.sweep(fading, drawn, samples=5, out=out, reduce="quantile(0.5)", resume=True, **FADING)
    assert again.quantile("x", 0.5).tolist() == ds.Sweep.load(out).quantile("x", 0.5).tolist()
    files = set(tmp_path.iterdir())
    with pytest.raises(InputError, match="kept until a sweep has ended"):
        ds.sweep(fading, drawn, samples=9, out=out, reduce="quantile(0.5)", resume=True, **FADING)
    assert set(tmp_path.iterdir()) == files


def test_runs_that_come_in_another_order_give_the_same_digits(tmp_path: Path) -> None:
    t, values = np.linspace(0.0, 1.0, 4), [(float(r),) for r in range(1, 9)]
    about = {"n_diff": 1, "time_unit": "s", "names": ["x"], "units": ["V"], "others": [], "other_units": []}
    bytes_of = []
    for order in (range(8), [3, 0, 2, 7, 1, 6, 4, 5]):
        table = RunningSweep(("R",), values, {"problem": "made up"}, {}, None, {"mean": ["*"], "std": ["*"]})
        for run in order:
            unknowns = {} if run == 2 else {"x": ("V", np.exp(values[run][0] * t[: 4 - run % 2]))}
            table.put(run, Outcome("", run % 2 == 0, t if unknowns else np.zeros(0), unknowns, about))
        reduced = ds.Sweep(table.finish()).reduced
        bytes_of.append({what: of["x"].tobytes() for what, of in reduced.items()})
        table.close()
    assert bytes_of[0] == bytes_of[1]


REDUCED = """
import os, sys
import dae_sdc as ds
from dae_sdc.run import sweep_table
from dae_sdc.run.sweep_statistics import Statistics
sweep_table.MARKING_SHARE = 1e9  # what has come is saved at once, but for the run that the signal meets
add, kill = Statistics.add, int(sys.argv[1])
def killed(self, values):
    add(self, values)
    if self.runs == kill:
        os.kill(os.getpid(), 9)
Statistics.add = killed
runs = ds.sweep("simple", {"alpha": "1:40:40"}, sweeper="radau-iia-5", dt=0.05, points=5, out="s.npy",
                resume=True, reduce="mean,std,max,quantile(0.2,0.5,0.8),end")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals of POSIX")
def test_a_killed_sweep_that_is_reduced_goes_on_to_the_same_digits(tmp_path: Path) -> None:
    (tmp_path / "reduced.py").write_text(REDUCED)
    for kill in (17, 31, 0):
        ended = subprocess.run(
            [sys.executable, "reduced.py", str(kill)], cwd=tmp_path, env=surroundings(), check=False
        )
        assert ended.returncode == (-signal.SIGKILL if kill else 0)
        if kill:
            partial = ds.Sweep.load(tmp_path / "s.partial.npy")
            done = int(partial.result.parameters["statistics"]["runs"])
            assert done == kill - 1 and partial.data["done"].sum() == done
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["reduced.py", "s.json", "s.npy"]
    found = ds.Sweep.load(tmp_path / "s.npy")
    whole = ds.sweep(
        *("simple", {"alpha": "1:40:40"}),
        **{
            "sweeper": "radau-iia-5",
            "dt": 0.05,
            "points": 5,
            "reduce": "mean,std,max,quantile(0.2,0.5,0.8),end",
        },
    )
    assert_same_runs(found, whole)
    for what, of in whole.reduced.items():
        assert all(found.reduced[what][name].tobytes() == values.tobytes() for name, values in of.items())


def test_memory_does_not_grow_with_the_values_of_the_runs(tmp_path: Path) -> None:
    t, peaks = np.linspace(0.0, 1.0, 1001), []
    about = {"n_diff": 1, "time_unit": "s", "names": ["x"], "units": [""], "others": [], "other_units": []}
    outcome = Outcome("", True, t, {"x": ("", t)}, about)
    for count in (200, 4000):  # values of 1.6 and 32 MB
        table = RunningSweep(
            *(("R",), [(float(r),) for r in range(count)], {"problem": "made up"}, {}),
            *(tmp_path / f"{count}.npy", {"mean": ["*"], "quantile(0.5)": ["*"], "end": ["*"]}),
        )
        tracemalloc.start()
        for run in range(count):
            table.put(run, outcome)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        table.finish()
        table.close()
    assert peaks[1] < peaks[0] + 2**24 + 1e6  # NumPy writes pieces of 16 MiB


def test_ranks_share_the_runs_and_all_have_those_of_one_process(mpirun: Launcher, tmp_path: Path) -> None:
    done = mpirun(2, "sweeps.py", str(tmp_path), timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["runs.json", "runs.npy"]


def test_a_sweep_under_mpirun_says_what_its_ranks_share(mpirun: Launcher, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dae_sdc", "sweep", "simple", "--params", "alpha=1,2,3", "--rtol", "1e-4"]
    done = mpirun(2, *words, "--out", str(tmp_path / "s.npy"), "--parallel", "runs")
    assert done.returncode == 0 and done.stdout.count("3 runs to t = 1 s") == 1
    done = mpirun(2, *words)
    assert done.returncode == 2 and "what they share (runs)" in done.stderr
