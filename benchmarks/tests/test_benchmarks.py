"""The studies of steps, their parts and sizes: what they count, sum up, fit, draw and refuse.

No measured time is asserted.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from benchmarks.__main__ import main
from benchmarks.measuring import cold, ida, processes
from benchmarks.measuring.clock import Clock, cost
from benchmarks.measuring.steps import STEPS, Steps, distance, steps_of
from benchmarks.pictures.size import size as draw_size
from benchmarks.pictures.steps import profile as draw_profile, work as draw_work
from benchmarks.studies import polynomials, size as sizes, start as start_up
from benchmarks.studies.profile import CALLS, LEFT, PARTS, STEP, profile
from benchmarks.studies.size import exponents, numbers_of_steps, size
from benchmarks.studies.start import CHILD, in_a_fresh_process, start
from benchmarks.studies.work import work
from benchmarks.study import OPTIONS, STUDIES, Table
from dae_sdc.cli import Parser
from dae_sdc.errors import InputError, RemoteError, ResultFileError
from dae_sdc.plotting import plot
from dae_sdc.run.callbacks import Equations, ida_jacobian
from dae_sdc.run.results import Result, load
from dae_sdc.sharing import python

with_ida = pytest.mark.skipif(not ida.installed(), reason="needs scikit-sundae")


class Time:
    """A clock that goes on by what the code under test does, and by nothing else."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """Something with nested calls."""

    def __init__(self, time: Time) -> None:
        self.time = time

    def outer(self) -> str:
        self.time.now += 1.0
        self.inner()
        self.time.now += 2.0
        self.inner()
        return "done"

    def inner(self) -> None:
        self.time.now += 10.0

    def failing(self) -> None:
        self.time.now += 4.0
        raise ValueError("on purpose")


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    cost()  # with real timers
    time = Time()
    module = sys.modules["benchmarks.measuring.clock"]
    monkeypatch.setattr(module, "perf_counter", time)
    monkeypatch.setattr(module, "cost", lambda: (0.0, 0.0))
    return time


def test_a_part_is_timed_without_the_parts_inside_it(time: Time) -> None:
    worker = Worker(time)
    with Clock() as clock:
        clock.time(worker, "outer", "outside")
        clock.time(worker, "inner", "inside")
        assert worker.outer() == "done"
    assert clock.times() == {"outside": 3.0, "inside": 20.0}
    assert clock.calls == {"outside": 1, "inside": 2}
    assert clock.number == 3
    assert not {"outer", "inner"} & set(vars(worker)), "the timers are still there"


def test_what_timers_cost_is_taken_off_where_it_is_spent(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["benchmarks.measuring.clock"], "cost", lambda: (0.125, 0.25))
    worker = Worker(time)
    with Clock() as clock:
        clock.time(worker, "outer", "outside")
        clock.time(worker, "inner", "inside")
        worker.outer()
    assert clock.times() == {"outside": 3.0 - 0.125 - 2 * 0.25, "inside": 20.0 - 2 * 0.125}
    assert clock.times(1.125) == {"outside": 3.0 - 0.125 - 2 * 1.0, "inside": 20.0 - 2 * 0.125}


def test_a_call_that_fails_is_timed_and_timers_of_classes_are_taken_away(time: Time) -> None:
    original = Worker.failing
    with pytest.raises(ValueError, match="on purpose"), Clock() as clock:
        clock.time(Worker, "failing", "failing")
        Worker(time).failing()
    assert clock.times() == {"failing": 4.0}
    assert Worker.failing is original


def test_a_timer_costs_what_its_two_looks_at_the_clock_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look takes a second here; a call of nothing between two looks of its own takes none."""
    module = sys.modules["benchmarks.measuring.clock"]
    cost.cache_clear()
    monkeypatch.setattr(module, "perf_counter", map(float, count()).__next__)
    inside, outside = cost()
    assert inside == pytest.approx(1.0, abs=1e-3) and outside == pytest.approx(1.0, abs=1e-3)
    assert cost() == (inside, outside)
    cost.cache_clear()


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("work") / "work.npy"
    names = ["simple", "problematic-f", "transmission-line"]
    sweepers = ["semi-implicit", "fully-implicit"]
    found = work(problems=names, sweepers=sweepers, sizes=[20], qdelta="LU", repetitions=1, out=out)
    assert load(out).data.tobytes() == found.data.tobytes()
    return load(out)


def test_every_sweeper_that_takes_a_problem_has_a_row_for_each_backend(steps: Result) -> None:
    data, about = steps.data, steps.parameters
    assert steps.kind == "bench" and about["study"] == "work" and about["complete"]
    rows = {(str(r["problem"]), str(r["sweeper"]), str(r["backend"])) for r in data}
    for problem, sweeper in [
        *[("simple", name) for name in ("semi-implicit", "fully-implicit")],
        *[("transmission-line", name) for name in ("semi-implicit", "fully-implicit")],
        ("problematic-f", "fully-implicit"),
    ]:
        assert (problem, sweeper, "numpy") in rows
    assert ("simple", "semi-implicit", "compiled") in rows
    assert not any(row[:2] == ("problematic-f", "semi-implicit") for row in rows)
    assert any("problematic-f, semi-implicit" in text for text in about["left_out"])
    assert set(data["n"][data["problem"] == "transmission-line"].tolist()) == {20}


def test_backends_do_the_same_work_and_end_at_the_same_values(steps: Result) -> None:
    data = steps.data
    compiled = data[data["backend"] == "compiled"]
    assert len(compiled)
    assert (compiled["difference"] < 1e-8).all()
    assert (compiled["ratio"] > 0.0).all()
    assert np.isnan(data["ratio"][data["backend"] == "numpy"]).all()
    for row in compiled:
        same = (data["problem"] == row["problem"]) & (data["sweeper"] == row["sweeper"])
        other = data[same & (data["backend"] == "numpy")][0]
        assert row["sweeps"] == pytest.approx(other["sweeps"], abs=1.0)
    for name in ("time", "time_sweep", "sweeps", "rhs", "newton"):
        assert (data[name] > 0.0).all(), name
    assert (data["sweeps"] >= data["iterations"]).all()
    assert (data["rhs"] >= data["newton"]).all()
    assert (data["steps"] == STEPS).all()


def test_the_table_of_steps_has_a_line_for_each_row(steps: Result) -> None:
    text = work.report(steps)
    lines = text.splitlines()
    assert len(lines) == 3 + len(steps.data) + len(steps.parameters["left_out"])
    assert "left out: problematic-f, semi-implicit" in text
    assert "0.1 ms" in text and "0.05 s" in text
    assert max(len(line) for line in lines[: 2 + len(steps.data)]) < 160


def test_steps_are_repeated_from_the_same_state() -> None:
    run = Steps(steps_of("simple", {}, "semi-implicit", 1e-9), 3, "LU")
    first, second = run(), run()
    assert distance(first.end, second.end) < 1e-9
    counts = run.work_of_a_step()
    # The sweeps belong to the predictions.
    assert counts["sweeps"] > counts["iterations"] == 0.0
    assert run.time_in_the_sweeper() > 0.0
    assert "predict" not in vars(run.level.sweep) and "post_step" not in vars(run.record)
    other = Steps(steps_of("simple", {}, "semi-implicit", 1e-9), 3, "MIN-SR-S")
    other.begin_as(run)
    assert distance(other().end, first.end) < 1e-8


def test_what_was_finished_before_an_interrupt_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = sys.modules["benchmarks.studies.work"]
    original, calls = module._measure, iter([True, False])

    def once(*args: Any) -> None:
        if not next(calls):
            raise KeyboardInterrupt
        original(*args)

    monkeypatch.setattr(module, "_measure", once)
    with pytest.raises(KeyboardInterrupt):
        chosen: dict[str, Any] = {"problems": ["simple"], "sweepers": ["semi-implicit"]}
        work(**chosen, qdelta=["LU", "MIN-SR-S"], repetitions=1, out=tmp_path / "w")
    kept = load(tmp_path / "w.partial")
    assert set(kept.data["qdelta"].tolist()) == {"LU"}
    assert not kept.parameters["complete"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("profile") / "profile.npy"
    profile(problems=["simple", "transmission-line"], sizes=[40], repetitions=2, out=out)
    return load(out)


def by_backend(result: Result) -> Iterator[Any]:
    for problem, backend in dict.fromkeys((str(r["problem"]), str(r["backend"])) for r in result.data):
        yield result.data[(result.data["problem"] == problem) & (result.data["backend"] == backend)]


def test_the_parts_add_up_to_the_step(parts: Result) -> None:
    assert parts.parameters["complete"] and not parts.parameters["left_out"]
    seen = set()
    for rows in by_backend(parts):
        whole = rows[rows["part"] == STEP]
        top = rows[(rows["part"] != STEP) & (rows["inside"] == "")]
        assert len(whole) == 1
        assert set(top["part"].tolist()) <= set(PARTS)
        assert top["time"].sum() == pytest.approx(whole["time"][0], rel=1e-12)
        assert top["share"].sum() == pytest.approx(1.0, rel=1e-12)
        assert top["part"].tolist()[-1] == LEFT
        for name in ("controller", "hooks", "convergence controllers", "sweeper, Python"):
            assert top["calls"][top["part"] == name][0] > 0.0
        inside = rows[rows["inside"] != ""]
        assert set(inside["inside"].tolist()) <= {CALLS}
        assert bool(len(inside)) == (CALLS in top["part"])
        assert (inside["time"] >= 0.0).all()
        seen.add((str(rows["problem"][0]), str(rows["backend"][0])))
    assert {("simple", "compiled"), ("simple", "numpy"), ("transmission-line", "numpy")} <= seen


def test_the_table_of_parts_says_what_is_left_over(parts: Result) -> None:
    text = profile.report(parts)
    for word in (STEP, "controller", LEFT, "of these, equations", "the timers themselves", "n=40, numpy"):
        assert word in text


@pytest.fixture(scope="module")
def sizes_result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("size") / "size.npy"
    found = size(sizes=[10, 20], linear_solvers=["auto"], accuracies=[1e-4], repetitions=1, out=out)
    assert load(out).data.tobytes() == found.data.tobytes()
    return load(out)


def test_a_size_has_times_memory_and_error(sizes_result: Result) -> None:
    rows = sizes_result.data[sizes_result.data["source"] == "step"]
    assert rows["n"].tolist() == [10, 20]
    for name in ("time", "time_cold", "memory", "memory_before", "sweeps", "rhs", "newton", "factorization"):
        assert (rows[name] > 0.0).all(), name
    assert (rows["memory"] >= rows["memory_before"]).all()
    assert (rows["error"] < 1e-5).all()
    growth = np.log(rows["time"][1] / rows["time"][0]) / np.log(2.0)
    assert math.isnan(rows["exponent"][0]) and rows["exponent"][1] == pytest.approx(growth)
    assert sizes_result.parameters["exponents"]["auto"] == pytest.approx(growth)


def test_a_cold_start_that_fails_leaves_the_rest_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(asked: dict[str, Any]) -> dict[str, Any]:
        raise RemoteError("on purpose")

    monkeypatch.setattr(sizes, "in_a_new_process", fail)
    found = size(sizes=[10], linear_solvers=["superlu", "dense"], accuracies=[], repetitions=2)
    assert found.data["solver"].tolist() == ["superlu", "dense"]
    assert (found.data["time"] > 0.0).all() and np.isnan(found.data["memory"]).all()
    assert found.parameters["left_out"] == [
        f"a cold start of {solver}, n=10: on purpose" for solver in ("superlu", "dense")
    ]
    assert "on purpose" in size.report(found)


@with_ida
def test_ida_is_as_accurate_with_the_loosest_tolerance(sizes_result: Result) -> None:
    rows = sizes_result.data[sizes_result.data["source"] == "accuracy"]
    ours, theirs = rows[rows["solver"] == "dae_sdc"], rows[rows["solver"] == "ida"]
    assert len(ours) == len(theirs) == 4  # two sizes with three and with five nodes
    assert (ours["error"] <= ours["accuracy"]).all()
    assert (theirs["error"] <= ours["error"]).all()
    for name in ("steps", "rhs", "jacobian", "time_run", "tolerance"):
        assert (theirs[name] > 0.0).all() and (ours[name] > 0.0).all(), name
    assert (theirs["ratio"] > 0.0).all() and np.isnan(ours["ratio"]).all()
    text = size.report(sizes_result)
    assert "linsolver=sparse" in text and "ida/ours" in text and "jacfn=exact" in text


def test_exponents_are_those_of_the_times() -> None:
    rows = Table("bench", size.columns, {}, None)
    for solver, exponent in (("superlu", 1.25), ("dense", 3.0)):
        for n in (10, 100, 1000):
            rows.put(source="step", solver=solver, n=n, time=1e-6 * n**exponent)
    rows.put(source="step", solver="klu", n=10, time=1.0)
    rows.put(source="accuracy", solver="ida", n=10)
    found = exponents(rows.data)
    assert set(found) == {"superlu", "dense"}
    assert found["superlu"] == pytest.approx(1.25) and found["dense"] == pytest.approx(3.0)


def test_numbers_of_steps_grow_by_about_a_quarter() -> None:
    numbers = list(numbers_of_steps(100))
    assert numbers[:9] == [2, 3, 4, 5, 6, 8, 10, 12, 14]
    assert numbers == sorted(set(numbers)) and numbers[-1] == 96
    assert max(b / a for a, b in pairwise(numbers[3:])) < 1.35


def test_the_search_finds_the_loosest_tolerance() -> None:
    tried = []

    def error(tolerance: float) -> float:
        tried.append(tolerance)
        return 10.0 * tolerance if tolerance < 1e-3 else math.inf  # what is too loose fails

    found = ida.loosest(error, 1e-6)
    step = ida.STRIDE / 2**ida.HALVINGS
    assert 1e-7 * 10**-step <= found <= 1e-7 * (1.0 + 1e-12)
    assert min(tried) >= 1e-8
    assert ida.loosest(lambda tolerance: tolerance, 1.0) == pytest.approx(10.0**ida.LOOSEST)
    assert math.isnan(ida.loosest(lambda tolerance: 1.0, 1e-6))
    assert math.isnan(ida.loosest(lambda tolerance: math.nan, 1e-6))


@pytest.mark.parametrize("name", ["transmission-line", "one-transistor"])
def test_ida_gets_the_residual_and_its_exact_jacobian(name: str) -> None:
    problem = ds.PROBLEMS[name](sections=3) if name == "transmission-line" else ds.PROBLEMS[name]()
    equations = Equations(SimpleNamespace(problem=problem, switches=False))
    residual, jacobian = equations.residual, ida_jacobian(equations, True)
    t, cj = problem.interval[0], 7.0
    y, yp = np.array(problem.u_exact(t)), np.array(problem.du_exact(t))
    for array in (y, yp):
        array.setflags(write=False)  # as IDA's are
    out = np.empty(problem.n)
    residual(t, y, yp, out)
    expected = problem.eval_f(problem.state(y), problem.state(yp), t)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-14)
    pattern = problem.sparsity
    data = np.empty((problem.n, problem.n) if pattern is None else pattern.nnz)
    if pattern is None and problem.kernels is None:
        pytest.skip("IDA is compared on sparse problems")
    jacobian(t, y, yp, out, cj, data)
    given = problem.jacobian(problem.state(y), problem.state(yp), t, 1.0 / cj)
    entries = given if pattern is None else given.data
    np.testing.assert_allclose(data, cj * np.asarray(entries), rtol=1e-12, atol=1e-14)


@with_ida
def test_ida_solves_the_line() -> None:
    problem = ds.PROBLEMS["transmission-line"](sections=5)
    solver = ida.Ida(problem, *problem.interval)
    assert solver.error(1e-10) < 1e-6 < solver.error(1e-3)
    assert solver.count_steps(1e-8) > solver.count_steps(1e-4) > 1
    outcome = solver.run(1e-6)
    assert outcome.success and outcome.rhs > 10 and outcome.jacobian > 0


def test_without_scikit_sundae_the_comparison_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ida, "installed", lambda: False)
    monkeypatch.setattr(sizes, "_grow", lambda *_: None)
    found = size(sizes=[10], linear_solvers=["auto"], repetitions=1)
    assert not len(found.data)
    assert "scikit-sundae is not installed" in size.report(found)
    with pytest.raises(InputError, match=r"pip install 'dae_sdc\[bench\]'"):
        ida.Ida(ds.PROBLEMS["transmission-line"](sections=2), 0.0, 1.0)


def test_an_accuracy_out_of_reach_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "_grow", lambda *_: None)
    monkeypatch.setattr(sizes, "numbers_of_steps", lambda: [2, 3])
    monkeypatch.setattr(ida, "installed", lambda: True)
    found = size(sizes=[10], linear_solvers=["auto"], accuracies=[1e-12], repetitions=1)
    assert not len(found.data)
    assert all("has an error below 1e-12" in text for text in found.parameters["left_out"])


ASKED = {"problem": "simple", "params": {}, "t_end": 0.1, "dt": 0.05, "sweeper": "semi-implicit"}


def test_a_new_process_solves_and_tells_its_memory() -> None:
    big = np.ones(40_000_000)  # of which a new process must know nothing
    found = cold.in_a_new_process(ASKED)
    assert found["error"] < 1e-6 and found["sweeps"] > 0 and found["rhs"] > 0
    assert found["memory"] >= found["memory_before"] > 1e6
    if Path("/proc/self/status").exists():
        assert found["memory"] < big.nbytes
    assert cold.peak_memory() > 1e6


def test_what_goes_wrong_in_a_new_process_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown problem 'nothing'"):
        cold.in_a_new_process({**ASKED, "problem": "nothing"})
    with pytest.raises(RemoteError, match="ended after 1 iterations with residual"):
        cold.in_a_new_process({**ASKED, "maxiter": 1, "restol": 1e-12})
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(RemoteError, match="ended with code 3: broken"):
        cold.in_a_new_process(ASKED)
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(RemoteError, match=r"took more than 0\.2 s"):
        cold.in_a_new_process(ASKED, patience=0.2)


class Starts:
    """Stands for fresh processes: keeps what they were asked for, and tells numbers in place of times."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Path, bool]] = []

    def __call__(self, problems: list[str], cache: str) -> list[list[float]]:
        folder = Path(cache)
        self.asked.append((problems, folder, any(folder.iterdir())))
        (folder / "compiled").touch()
        base = float(len(self.asked))
        return [[base, base + 0.25, 10.0 * base, base + 0.5] for _ in problems]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    made = Starts()
    monkeypatch.setattr(start_up, "in_a_fresh_process", made)
    return made


def test_every_pair_of_processes_has_a_cache_of_its_own(starts: Starts, tmp_path: Path) -> None:
    found = start(problems=["simple", "pendulum"], repetitions=2, out=tmp_path / "start")
    uncounted, *counted = starts.asked
    assert uncounted[0] == ["simple", "pendulum"] and not uncounted[2]
    assert [problems for problems, _, _ in counted] == 4 * [["simple"]] + 4 * [["pendulum"]]
    assert [filled for _, _, filled in counted] == 4 * [False, True]
    folders = [folder for _, folder, _ in counted]
    assert folders[::2] == folders[1::2] and len({uncounted[1], *folders}) == 5
    assert not any(folder.exists() for folder in folders)
    kept = load(tmp_path / "start")
    assert kept.data.tobytes() == found.data.tobytes()
    assert not kept.parameters["left_out"] and kept.parameters["repetitions"] == 2
    assert {kept.units[name] for name in kept.data.dtype.names[2:]} == {"s"}


def test_starts_are_summed_up_by_problem_and_cache(starts: Starts) -> None:
    data = start(problems=["simple"], repetitions=3).data
    assert data["problem"].tolist() == ["simple", "simple"] and data["cache"].tolist() == ["cold", "warm"]
    # The processes that count are the second to the seventh.
    assert data["import_pysdc"].tolist() == [4.0, 5.0]
    assert data["import_dae_sdc"].tolist() == [4.25, 5.25]
    assert data["first"].tolist() == [40.0, 50.0] and data["first_least"].tolist() == [20.0, 30.0]
    assert data["second"].tolist() == [4.5, 5.5]


def test_a_start_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(problems: list[str], cache: str) -> list[list[float]]:
        if "pendulum" in problems:
            raise RemoteError("on purpose")
        return [[1.0, 2.0, 3.0, 4.0]]

    monkeypatch.setattr(start_up, "in_a_fresh_process", fail)
    found = start(problems=["pendulum", "simple"], repetitions=2)
    assert found.data["problem"].tolist() == ["simple", "simple"]
    assert found.parameters["left_out"] == [
        "the process that is not counted: on purpose",
        "pendulum, cold: on purpose",
    ]
    assert "left out: pendulum, cold: on purpose" in start.report(found)


def test_a_fresh_process_imports_and_solves_twice() -> None:
    (times,) = in_a_fresh_process(["simple"], None)  # with the cache as it is: to compile takes long
    assert len(times) == len(start_up.TIMES) and min(times) > 0.0
    with pytest.raises(RemoteError, match=r"ended with code 1:.*unknown problem 'nothing'"):
        in_a_fresh_process(["nothing"], None)


def test_a_fresh_process_keeps_byte_code_and_has_the_cache_that_it_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(
        start_up,
        "CHILD",
        "import json, os, sys\n"
        "names = 'NUMBA_CACHE_DIR', 'PYTHONDONTWRITEBYTECODE'\n"
        "print(json.dumps([json.load(sys.stdin), *map(os.environ.get, names)]))",
    )
    found: Any = in_a_fresh_process(["a", "b"], tmp_path)
    assert found == [["a", "b"], str(tmp_path), None]
    monkeypatch.setattr(start_up, "CHILD", "import time; time.sleep(60)")
    with pytest.raises(RemoteError, match=r"took more than 0\.2 s"):
        in_a_fresh_process([], None, patience=0.2)
    compile(CHILD, "<child>", "exec")
    assert CHILD.index("import controller_nonMPI") < CHILD.index("import dae_sdc")


def test_pictures_of_the_three_studies(steps: Result, parts: Result, sizes_result: Result) -> None:
    (axes,) = draw_work(steps).axes
    lines = len({(str(r["problem"]), str(r["sweeper"])) for r in steps.data})
    assert len(axes.get_yticks()) == lines
    assert axes.get_title() == "LU" and "ms" in axes.get_xlabel()
    panels = draw_profile(parts).axes
    assert [axes.get_title(loc="left") for axes in panels] == ["simple, n=3", "transmission-line, n=40"]
    assert all(len(axes.patches) > 6 for axes in panels)
    panels = draw_size(sizes_result).axes
    assert len(panels) == (3 if ida.installed() else 2)
    for axes in panels:
        assert axes.get_xlabel() == "unknowns n" and axes.get_ylabel() and len(axes.lines) >= 2


DRAWN = [name for name, study in STUDIES.items() if study.picture is not None]


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_needs_its_columns_and_draws_no_other_study(name: str, tmp_path: Path) -> None:
    data = np.zeros(1, dtype=[("a", "f8")])
    own = Result("bench", data, {}, {"study": name}).save(tmp_path / "own")
    with pytest.raises(ResultFileError, match="lacks the columns"):
        plot(name, own)
    for other in [other for other in (*DRAWN, "linear") if other != name]:
        with pytest.raises(InputError, match=f"use `python -m benchmarks plot {name}"):
            plot(other, own)
    with pytest.raises(InputError, match=rf"which '{name}' does not draw; use .* numpy\.load"):
        plot(name, Result("bench", data, {}, {"study": "upstream"}).save(tmp_path / "other"))


# What no study takes for a parameter, and what it says
REFUSED: dict[str, list[tuple[Any, str]]] = {
    "problems": [(["nothing"], "unknown .*'nothing'"), ([], "need at least one")],
    "repetitions": [(0, "repetitions must be an integer, at least 1"), (10**10, "at most")],
    "sizes": [
        ([], "at least one number of unknowns"),
        ([0], "number of unknowns must be an integer, at least 1"),
        ([1.5], "sizes must be a sequence of integers"),
    ],
    "nodes": [(0, "nodes must be")],
    "rtols": [
        ([], "at least one tolerance"),
        ([1.0], "between 0 and 1"),
        (["small"], "rtols must be a sequence of numbers"),
    ],
    "accuracies": [([-1.0], "accuracy must"), (["small"], "accuracies must be a sequence of numbers")],
    "time_limit": [(0.0, "time_limit must be positive"), ("long", "time_limit must be a number")],
    "out": [("/nowhere/x.npy", "does not exist")],
}


@pytest.mark.parametrize("name", STUDIES)
def test_what_no_study_can_measure_is_refused_at_once(name: str) -> None:
    run = STUDIES[name].run
    for parameter in inspect.signature(run).parameters:
        for value, says in REFUSED.get(parameter, ()):
            with pytest.raises(InputError, match=says):
                run(**{parameter: value})


@pytest.mark.parametrize(
    ("study", "given", "says"),
    [
        ("work", {"sweepers": ["radau-iia-5"]}, "unknown SDC sweeper 'radau-iia-5'"),
        ("work", {"qdelta": []}, "at least one Q_Delta"),
        ("size", {"linear_solvers": ["qr"]}, "unknown linear solver 'qr'"),
        ("peers", {"sweepers": ["nothing"]}, "unknown sweeper 'nothing'"),
        ("peers", {"others": ["nothing"]}, "unknown peer 'nothing'"),
        ("plain", {"accuracies": [2.0]}, "the accuracy must lie between 0 and 1"),
        ("plain", {"processes": -1}, "processes must be"),
        ("scaling", {"problems": ["pendulum"]}, "unknown problem of this study 'pendulum'"),
        ("scaling", {"nodes": 1}, "1 nodes are shared"),
        ("scaling", {"ranks": 5}, "4 nodes are shared by 2 to 4 ranks; got 5"),
        ("scaling", {"ranks": 1}, "got 1"),
        ("parallel", {"ways": ["trains"]}, "unknown way to run 'trains'"),
        ("parallel", {"workers": []}, "need at least one number of workers"),
        ("quasi-newton", {"ribs": [0]}, "number of ribs must be"),
        ("testset", {"problems": ["pendulum"]}, "problem with a reference at its end"),
        ("testset", {"problems": ["hirs"]}, "hires"),
        ("models", {"problems": ["car-axle"]}, "unknown model with a check 'car-axle'.*car-axis"),
    ],
)
def test_what_a_study_cannot_measure_is_refused_at_once(study: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        STUDIES[study].run(**given)


def test_a_linear_solver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "NEEDS", {"klu": ("no_such_module", "klu")})
    assert "klu" not in sizes.available()
    with pytest.raises(InputError, match=r"needs no_such_module: pip install 'dae_sdc\[klu\]'"):
        size(linear_solvers=["klu"])


# Not run here: what takes minutes
LONG = ("auto", "faults", "quasi-newton", "size", "start", "truth")


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in LONG])
def test_the_example_of_a_study_is_carried_out_printed_saved_and_drawn(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in ("parallel", "scaling") and importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py")
    study, out, picture = STUDIES[name], tmp_path / "study.npy", tmp_path / "study.png"
    assert main([name, *study.example.split(), "--out", str(out)]) == 0
    result = load(out)
    assert capsys.readouterr().out == f"{study.report(result)}\nwritten to {out}\n"
    assert result.kind == "bench" and result.parameters["study"] == name and result.parameters["complete"]
    assert len(result.data) and not result.parameters["left_out"]
    if study.picture is not None:
        assert main(["plot", name, str(out), "-o", str(picture)]) == 0
        assert picture.read_bytes()[:4] == b"\x89PNG"


def test_polynomial_systems_are_held_against_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    told = polynomials.polynomials.report(
        polynomials.polynomials(problems=["katsura-5", "equal-bars"], repetitions=2)
    )
    assert told.count("2 of 2") == 2 and "32 solutions, 16 real" in told and "degrees 2 2" in told
    wrong = replace(polynomials.CASES[0], known="31 solutions, 16 real")
    monkeypatch.setattr(polynomials, "CASES", (wrong,))
    row = polynomials.polynomials(repetitions=1).data[0]
    assert (row["right"], row["found"]) == (0, "seed 0: 32 solutions, 16 real")


def test_every_file_of_a_study_registers_it(checkout: Path) -> None:
    folder = checkout / "benchmarks" / "studies"
    found = {path.stem.replace("_", "-") for path in folder.iterdir() if path.stem[0] not in "._"}
    assert set(STUDIES) == found
    page = (checkout / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for name in STUDIES:
        assert f"`{name}`" in page


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_explains_itself_and_its_example_is_understood(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study = STUDIES[name]
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    told = capsys.readouterr().out
    assert study.about.splitlines()[0] in told
    for parameter, _ in study.parameters:
        assert parameter.kind is parameter.KEYWORD_ONLY
    parser = Parser()
    study.add_arguments(parser)
    given = vars(parser.parse_args(study.example.split()))
    assert any(given.values()) and given["out"] is None
    assert {"out", "progress"} <= set(inspect.signature(study.run).parameters)


def test_every_option_is_one_of_a_study() -> None:
    used = {parameter.name for _, study in STUDIES.items() for parameter, _ in study.parameters}
    assert set(OPTIONS) <= used


def test_the_command_lists_the_studies_and_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "--problems", "transmission-line", "--ranks", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "got 1" in line
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    told = capsys.readouterr().out
    for name, study in STUDIES.items():
        assert f"  {name} " in told and f"python -m benchmarks {name} {study.example}" in told
    assert main(["word"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m benchmarks: unknown study 'word'; did you mean 'work'?")
    for wrong, says in (
        ([], "no study named"),
        (["work", "--ranks", "2"], "work: unrecognized arguments: --ranks 2"),
        (["work", "--rtols", "1e-3"], "work: unrecognized arguments: --rtols"),
        (["size", "--sizes", "a,b"], "needs integers, separated by commas"),
        (["truth", "--seed", "one"], "invalid int value"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("python -m benchmarks: ") and says in line


def test_a_result_says_the_command_that_made_it(tmp_path: Path) -> None:
    command = ["polynomials", "--problems", "equal-bars", "--repetitions", "1", "--out"]
    how: dict[str, Any] = {"cwd": processes.ROOT, "capture_output": True, "text": True, "check": True}
    whole = [sys.executable, "-m", "benchmarks", *command, str(tmp_path / "p.npy")]
    done = subprocess.run(whole, env=processes.environment(), **how)
    assert f"written to {tmp_path / 'p.npy'}" in done.stdout
    made = load(tmp_path / "p.npy")
    assert made.command == f"python -m benchmarks {' '.join(command)} {tmp_path / 'p.npy'}"


STARTS = {
    "cold": "from benchmarks.measuring.cold import in_a_new_process\n"
    "print(in_a_new_process(dict(problem='simple', params={}, t_end=0.1, dt=0.1))['sweeps'] > 0)",
    "start": "from benchmarks.studies.start import in_a_fresh_process\n"
    "print(len(in_a_fresh_process(['simple'], None)) == 1)",
}


@pytest.mark.parametrize("start", STARTS)
def test_processes_that_are_started_import_nothing_from_the_current_directory(
    start: str, tmp_path: Path
) -> None:
    for name in ("pickle", "json", "queue"):
        (tmp_path / f"{name}.py").write_text("open('taken', 'a').close()\n")
    how: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    done = subprocess.run(python("-c", STARTS[start]), env=processes.environment(), **how)
    assert not (tmp_path / "taken").exists()
    assert done.stdout.strip() == "True", done.stderr
