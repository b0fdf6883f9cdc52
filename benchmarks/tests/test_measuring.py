"""What studies measure with, and what they do that their short runs do not show.

No measured time is asserted.
"""

from __future__ import annotations

import math
import pkgutil
import signal
import subprocess
import sys
import time as clock_of_the_machine
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pySDC.projects.DAE.problems as theirs
import pytest

import dae_sdc as ds
from benchmarks.measuring import ida, processes
from benchmarks.measuring.clock import Clock, TimeLimit, cost, limited
from benchmarks.measuring.processes import FRESH, in_a_fresh_process
from benchmarks.measuring.steps import Steps, distance, steps_of
from benchmarks.studies import polynomials, size as sizes, start as start_up
from benchmarks.studies.size import exponents, numbers_of_steps, size
from benchmarks.studies.start import start
from benchmarks.studies.traced import first_change, traced
from benchmarks.studies.upstream import UPSTREAM
from benchmarks.study import Table
from dae_sdc import deadline
from dae_sdc.errors import InputError, RemoteError
from dae_sdc.run.results import load
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


def test_steps_are_repeated_from_the_same_state() -> None:
    run = Steps(steps_of("simple", {}, "semi-implicit", 1e-9), 3, "LU")
    first, second = run(), run()
    assert distance(first.end, second.end) < 1e-9
    counts = run.work_of_a_step()
    # The sweeps belong to the predictions.
    assert counts["sweeps"] > counts["iterations"] == 0.0
    assert run.time_in_the_sweeper() > 0.0
    assert "predict" not in vars(run.level.sweep)
    other = Steps(steps_of("simple", {}, "semi-implicit", 1e-9), 3, "MIN-SR-S")
    other.u0 = run.u0
    assert distance(other().end, first.end) < 1e-8


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


@with_ida
def test_ida_solves_the_line() -> None:
    problem = ds.PROBLEMS["transmission-line"](sections=5)
    solver = ida.Ida(problem, *problem.interval)
    assert solver.error(1e-10) < 1e-6 < solver.error(1e-3)
    assert solver.run(1e-8, each=True).steps > solver.run(1e-4, each=True).steps > 1
    outcome = solver.run(1e-6)
    assert outcome.rhs > 10 and outcome.jacobian > 0


def test_without_scikit_sundae_the_comparison_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ida, sizes):
        monkeypatch.setattr(module, "installed", lambda: False)
    monkeypatch.setattr(sizes, "_grow", lambda *_: None)
    found = size(sizes=[10], linear_solvers=["auto"], repetitions=1)
    assert not len(found.data) and "scikit-sundae is not installed" in size.report(found)
    with pytest.raises(InputError, match=r"pip install 'dae_sdc\[bench\]'"):
        ida.Ida(ds.PROBLEMS["transmission-line"](sections=2), 0.0, 1.0)


def test_an_accuracy_out_of_reach_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "_grow", lambda *_: None)
    monkeypatch.setattr(sizes, "numbers_of_steps", lambda: [2, 3])
    monkeypatch.setattr(sizes, "installed", lambda: True)
    found = size(sizes=[10], linear_solvers=["auto"], accuracies=[1e-12], repetitions=1)
    assert not len(found.data)
    assert all("has an error below 1e-12" in text for text in found.parameters["left_out"])


ASKED = {"problem": "simple", "params": {}, "t_end": 0.1, "dt": 0.05, "sweeper": "semi-implicit"}


def test_a_new_process_solves_and_tells_its_memory() -> None:
    big = np.ones(40_000_000)  # of which a new process must know nothing
    found = processes.in_a_new_process(ASKED)
    assert found["error"] < 1e-6 and found["sweeps"] > 0 and found["rhs"] > 0
    assert found["memory"] >= found["memory_before"] > 1e6
    if Path("/proc/self/status").exists():
        assert found["memory"] < big.nbytes
    assert processes.peak_memory() > 1e6


def test_what_goes_wrong_in_a_new_process_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown problem 'nothing'"):
        processes.in_a_new_process({**ASKED, "problem": "nothing"})
    with pytest.raises(RemoteError, match="ended after 1 iterations with residual"):
        processes.in_a_new_process({**ASKED, "maxiter": 1, "restol": 1e-12})
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(RemoteError, match="ended with code 3: broken"):
        processes.in_a_new_process(ASKED)
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(RemoteError, match=r"took more than 0\.2 s"):
        processes.in_a_new_process(ASKED, patience=0.2)


def test_every_pair_of_processes_has_a_cache_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[list[str], Path, bool]] = []

    def count_up(problems: list[str], cache: str, rtol: float | None) -> list[list[float]]:
        """Numbers in place of times of fresh processes."""
        folder = Path(cache)
        asked.append((problems, folder, any(folder.iterdir())))
        (folder / "compiled").touch()
        base = float(len(asked))
        return [[base, base, base + 0.25, 10.0 * base, base + 0.5] for _ in problems]

    monkeypatch.setattr(start_up, "in_a_fresh_process", count_up)
    found = start(problems=["simple", "pendulum"], repetitions=3, out=tmp_path / "start")
    uncounted, *counted = asked
    assert uncounted[0] == ["simple", "pendulum"] and not uncounted[2]
    assert [problems for problems, _, _ in counted] == 6 * [["simple"]] + 6 * [["pendulum"]]
    assert [filled for _, _, filled in counted] == 6 * [False, True]
    folders = [folder for _, folder, _ in counted]
    assert folders[::2] == folders[1::2] and len({uncounted[1], *folders}) == 7
    assert not any(folder.exists() for folder in folders)
    kept = load(tmp_path / "start")
    assert kept.data.tobytes() == found.data.tobytes()
    assert not kept.parameters["left_out"] and kept.parameters["repetitions"] == 3
    assert {kept.units[name] for name in kept.data.dtype.names[2:-1]} == {"s"}
    # The processes of the first problem are the second to the seventh.
    assert kept.data["problem"].tolist()[:2] == ["simple", "simple"]
    assert kept.data["cache"].tolist()[:2] == ["cold", "warm"]
    expected = {"import_pysdc": [4.0, 5.0], "import_dae_sdc": [4.25, 5.25], "second": [4.5, 5.5]}
    expected["ratio"] = [13.0 + 0.25 / 4.0, 13.05]
    for name, times in (expected | {"first": [40.0, 50.0], "first_least": [20.0, 30.0]}).items():
        assert kept.data[name].tolist()[:2] == times


def test_a_start_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(problems: list[str], cache: str, rtol: float | None) -> list[list[float]]:
        if "pendulum" in problems:
            raise RemoteError("on purpose")
        return [[1.0, 2.0, 3.0, 4.0, 5.0]]

    monkeypatch.setattr(start_up, "in_a_fresh_process", fail)
    found = start(problems=["pendulum", "simple"], repetitions=2)
    assert found.data["problem"].tolist() == ["simple", "simple"]
    assert found.parameters["left_out"] == [
        "the process that is not counted: on purpose",
        "pendulum, cold: on purpose",
    ]
    assert "left out: pendulum, cold: on purpose" in start.report(found)


def test_a_fresh_process_imports_and_solves_twice() -> None:
    # With the cache as it is: to compile takes long.
    for times in in_a_fresh_process(["simple", start_up.FUNCTION], None, rtol=1e-3):
        assert len(times) == len(start_up.TIMES) and min(times) > 0.0
    with pytest.raises(RemoteError, match=r"ended with code 1:.*unknown problem 'nothing'"):
        in_a_fresh_process(["nothing"], None)


def test_a_fresh_process_keeps_byte_code_and_has_the_cache_that_it_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    tells = "import json, os, sys; names = 'NUMBA_CACHE_DIR', 'PYTHONDONTWRITEBYTECODE'\n"
    tells += "print(json.dumps([json.load(sys.stdin)['problems'], *map(os.environ.get, names)]))"
    monkeypatch.setattr(processes, "FRESH", tells)
    found: Any = in_a_fresh_process(["a", "b"], tmp_path)
    assert found == [["a", "b"], str(tmp_path), None]
    monkeypatch.setattr(processes, "FRESH", "import time; time.sleep(60)")
    with pytest.raises(RemoteError, match=r"took more than 0\.2 s"):
        in_a_fresh_process([], None, patience=0.2)
    assert FRESH.index("import controller_nonMPI") < FRESH.index("import dae_sdc")


def test_a_linear_solver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "NEEDS", {"klu": ("no_such_module", "klu")})
    assert "klu" not in sizes.available()
    with pytest.raises(InputError, match=r"needs no_such_module: pip install 'dae_sdc\[klu\]'"):
        size(linear_solvers=["klu"])


def test_a_polynomial_system_is_held_against_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = polynomials.CASES[0]._replace(known="31 solutions, 16 real")
    monkeypatch.setattr(polynomials, "CASES", (wrong,))
    (row,) = polynomials.polynomials(repetitions=1).data
    assert (row["right"], row["found"]) == (0, "seed 0: 32 solutions, 16 real")


STARTS = {
    "cold": "from benchmarks.measuring.processes import in_a_new_process\n"
    "print(in_a_new_process(dict(problem='simple', params={}, t_end=0.1, dt=0.1))['sweeps'] > 0)",
    "start": "from benchmarks.measuring.processes import in_a_fresh_process\n"
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


def test_an_alarm_that_comes_while_the_timer_is_switched_off_is_the_last(monkeypatch: Any) -> None:
    before, switch = signal.getsignal(signal.SIGALRM), signal.setitimer
    alarms: list[float] = []

    def late(which: int, seconds: float, interval: float = 0.0) -> Any:
        if seconds == 0.0 and not alarms:
            alarms.append(seconds)
            signal.raise_signal(signal.SIGALRM)
        return switch(which, seconds, interval)

    monkeypatch.setattr(signal, "setitimer", late)
    with pytest.raises(TimeLimit), limited(0.05):
        clock_of_the_machine.sleep(10.0)
    assert alarms
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_every_problem_of_upstream_is_compared() -> None:
    modules = {module.name for module in pkgutil.iter_modules(theirs.__path__)}
    assert {case.module for case in UPSTREAM} == modules


def test_a_function_that_is_called_for_too_long_has_done_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = count()  # at the clock, which goes on by a second with each
    for module in (deadline, sys.modules["benchmarks.measuring.clock"]):
        monkeypatch.setattr(module, "perf_counter", lambda: float(next(looks)))
    result = traced(problems=["two-transistor"], repetitions=1, time_limit=8000.0)
    assert 0.0 < result.data["done"][0] < 1.0 and "> " in traced.report(result)


def test_runs_end_where_the_problem_chooses_other_equations() -> None:
    assert first_change("synchronous-machine", rtol=1e-4) == 0.05
    assert 1.0 < first_change("discontinuous", rtol=1e-4) < 5.0
    assert first_change("simple", rtol=1e-4) == 1.0
