"""Studies that compare runs: many unknowns, threads and ranks, "auto", and plain functions."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from benchmarks.measuring import ida, ranks
from benchmarks.measuring.clock import Spent
from benchmarks.measuring.processes import carry_out, common_sizes, largest_error
from benchmarks.measuring.ranks import SERIAL, THREADS, VALUES, Call, Case, InTurn, Row, Timing
from benchmarks.measuring.steps import FAMILIES
from benchmarks.studies import auto as study, large as many_unknowns
from benchmarks.studies.auto import Pairs, auto, low, measured
from benchmarks.studies.large import large
from benchmarks.studies.parallel import SPANS
from benchmarks.studies.plain.problems import PLAIN
from benchmarks.studies.plain.study import DEFAULT, IDA, RADAU, UNTRACED, equal_errors, plain
from benchmarks.study import STUDIES
from dae_sdc.errors import RemoteError
from dae_sdc.run.results import Result
from dae_sdc.run.sundials import installed

SMALL = {"rows": 3, "columns": 3}


def test_growth_of_a_run_and_of_one_step_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps cost n^1.5, and their number grows with n^0.25."""
    made = {}

    def pretend(asked: Any, patience: float) -> dict[str, Any]:
        n = ds.PROBLEMS[asked["problem"]](**asked["params"]).n
        steps = round(10.0 * n**0.25)
        made[n] = steps
        about = {"memory": 1e8, "factorization": 3, "error": 1e-9}
        return {"processor": 1e-6 * n**1.5 * steps, "steps": steps, **about}

    monkeypatch.setattr(many_unknowns, "in_a_new_process", pretend)
    sizes = [1000, 10_000, 100_000]
    found = large(problems=["pipe-network"], sizes=sizes, rtols=[1e-6], compared=1, repetitions=1)
    rows = found.data
    np.testing.assert_allclose(rows["exponent_step"][1:], 1.5, rtol=1e-12)
    np.testing.assert_allclose(rows["exponent"][1:], 1.75, atol=2e-3)
    assert np.isnan(rows["exponent"][0]) and np.isnan(rows["exponent_step"][0])
    assert [*rows["steps"]] == [*made.values()] and len(made) == 3
    table, *text = large.report(found).splitlines()
    assert table.split()[4:6] == ["exp.", "a"] and " a step " in table
    assert text[1].split()[4:6] == ["1.75", "1.50"]
    assert "a step: by which s / steps has" in " ".join(text)


def test_growth_from_a_size_that_failed_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(asked: Any, patience: float) -> dict[str, Any]:
        if asked["params"]["sections"] < 100:
            raise RemoteError("no memory")
        return {"processor": 1.0, "steps": 5, "memory": 1e8, "factorization": 3, "error": 1e-9}

    monkeypatch.setattr(many_unknowns, "in_a_new_process", pretend)
    found = large(problems=["transmission-line"], sizes=[20, 1000], rtols=[1e-6], compared=1, repetitions=1)
    assert len(found.data) == 1 and np.isnan(found.data["exponent_step"]).all()
    assert "no memory" in large.report(found)


def test_errors_are_in_units_of_what_unknowns_usually_are() -> None:
    """An error of a thousandth of a usual flow is no smaller than one of a thousandth of a pressure."""
    problem = ds.PROBLEMS["pipe-network"](**SMALL)
    exact = np.asarray(problem.u_exact(1e4))
    nominal = np.asarray(problem.nominal)
    for j in (0, problem.n - 1):
        moved = exact.copy()
        moved[j] += 1e-3 * nominal[j]
        assert largest_error(problem, moved, exact) == pytest.approx(1e-3, rel=1e-9)
    sizes = common_sizes(problem, exact)
    assert sizes / nominal == pytest.approx(np.abs(exact / nominal).max())
    line = ds.PROBLEMS["transmission-line"](sections=1)
    np.testing.assert_array_equal(common_sizes(line, np.array([1.0, -3.0])), [3.0, 3.0])
    assert largest_error(line, np.array([1.0, 2.0]), np.array([1.5, 2.0])) == 0.5


def test_a_run_of_the_network_tells_its_error_by_nominal_values() -> None:
    found = carry_out("pipe-network", SMALL, 8640.0, rtol=1e-6)
    assert 0.0 < found["error"] < 1e-6 and found["steps"] <= 10


def test_ida_gets_absolute_tolerances_by_nominal_values() -> None:
    if not installed():
        pytest.skip("needs scikit-sundae")
    other = ida.Ida(ds.PROBLEMS["pipe-network"](**SMALL), 0.0, 8640.0)
    # With 1e-6 for flows of 0.02 m^3/s as for pressures of 5e5 Pa flows would have four digits.
    assert 0.0 < other.error(1e-6) < 3e-5


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_solved_by_their_sweeper(name: str) -> None:
    family = FAMILIES[name]
    how: dict[str, Any] = {"sweeper": family.sweeper, "restol": family.restol, "dt": family.dt}
    assert ds.solve(name, params=family.params(100), t_end=3.0 * family.dt, **how).success


CASE = Case("transmission-line", {"sections": 20}, 1e-6)


def test_threads_take_turns_with_serial_runs() -> None:
    rows = list(ranks.alone(CASE, [2], 1, None))
    assert [row["way"] for row in rows][:2] == [SERIAL, THREADS]
    assert rows[0]["ratio"] == 1.0 and all(row["equal"] for row in rows[:2])
    for row in rows:
        assert row["computing"] > 0.0 and 0.0 < row["error"] < 1e-5
        assert row["communication"] == 0.0


def test_a_row_has_the_busiest_and_the_least_times(monkeypatch: pytest.MonkeyPatch) -> None:
    end = np.array([1.0, 2.0])
    monkeypatch.setattr(Row, "known", {repr(CASE): (np.array([1.0, 2.002]), np.full(2, 2.002))})

    def timing(wall: float, computing: float, *calls: float) -> Timing:
        made = [Call(VALUES, 0, 0.0, cpu) for cpu in calls]
        return Timing(wall, computing + sum(calls), made, end, steps=3, factorizations=9)

    serial = [timing(2.0, 1.0) for _ in range(3)]
    runs = [
        [timing(1.5, 0.5, 0.1, 0.2), timing(1.0, 0.6, 0.3, 0.1)],
        [timing(1.0, 0.4, 0.2, 0.2), timing(1.0, 0.5, 0.2, 0.2)],
        [timing(3.0, 0.9, 0.2, 0.2), timing(1.0, 0.7, 0.2, 0.2)],
    ]
    row = Row.of(CASE, "ranks", 2, True, InTurn(runs, serial))
    assert (row["ratio"], row["ratio_least"]) == (pytest.approx(0.6), pytest.approx(0.5))
    assert row["communication"] == pytest.approx((0.1 + 0.1) / 0.5)
    assert (row["wall_low"], row["wall_ratio"], row["wall_high"]) == (0.625, 0.75, 1.125)
    assert row["error"] == pytest.approx(1e-3, rel=1e-2) and row["equal"]


def test_runs_have_nothing_of_each_other() -> None:
    run = ranks.Integration(CASE, SERIAL)
    first, second = run(), run()
    np.testing.assert_array_equal(first.end, second.end)
    assert (first.steps, first.factorizations) == (second.steps, second.factorizations)


def test_all_families_and_an_adder_are_measured() -> None:
    assert set(SPANS) == {*FAMILIES, "two-bit-adder"}


def test_a_run_that_takes_long_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def solve(problem: str, *, params: Any, rtol: float, **how: Any) -> Any:
        asked.append(how)
        late = "time_limit" in how
        return SimpleNamespace(
            success=not late,
            message="the time limit of 1 s ran out at t=2" if late else "",
            t=np.array([0.0, 2.0 if late else how["t_end"]]),
        )

    monkeypatch.setattr(study, "solve", solve)
    case = study._Case("simple", {}, time_limit=1.0)  # from 0 to 1
    assert case.solution.t[-1] == 0.5 and case.part == 0.5
    case.auto()
    assert asked == [
        {"time_limit": 1.0},
        {"t_end": 0.5},
        {"t_end": 0.5, "parallel": "auto", "threads": "auto"},
    ]


class Clock:
    """Runs that take as long as told; computing of the second one by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wall: float, computing: float, choice: str) -> None:
        self.problem, self.part, self.choice = "clocked", 1.0, choice
        self.walls = {"serial": [0.1], "auto": [wall]}
        self.runs: list[str] = []

        def timed(run: Callable[[], object], repeats: int) -> Spent:
            name = run.__name__  # type: ignore[attr-defined]
            self.runs.append(name)
            return Spent(0.1, 0.1) if name == "serial" else Spent(0.1 * wall, 0.1 * computing)

        monkeypatch.setattr(study, "timed", timed)

    def serial(self) -> Any:
        return SimpleNamespace(u=np.ones((2, 5)), t=np.arange(2.0), stats={"steps": 1}, parameters={})

    def auto(self) -> Any:
        found = self.serial()
        found.parameters = {"sharing": self.choice}
        return found


SHARED, ALONE = "2 threads: a step takes 0.90 of the serial time", "serial: 5 unknowns are fewer than 1000"


@pytest.mark.parametrize(
    ("wall", "computing", "choice", "slower"),
    [
        (1.04, 1.04, ALONE, False),
        (1.06, 1.06, ALONE, True),
        (1.06, 1.01, ALONE, False),
        (1.06, 1.01, SHARED, True),
        (0.80, 1.30, SHARED, False),
    ],
)
def test_a_run_is_slower_by_the_clock_and_by_computing_if_it_is_alone(
    monkeypatch: pytest.MonkeyPatch, wall: float, computing: float, choice: str, slower: bool
) -> None:
    clock = Clock(monkeypatch, wall, computing, choice)
    row = measured(clock, 8, 1e9)
    assert row["slower"] == slower and row["choice"] == choice and row["equal"]
    assert row["wall"] == pytest.approx(wall) and row["computing"] == pytest.approx(computing)
    # What seems slower is measured again.
    assert row["pairs"] == (24 if slower else 8)
    assert clock.runs[1:9] == ["serial", "auto", "auto", "serial"] * 2


def test_one_slow_problem_makes_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.__main__ import main

    def slow(case: Any, count: int, seconds: float) -> dict[str, Any]:
        return {"problem": case.problem, "n": 3, "slower": True, "equal": True, "choice": ALONE}

    assert main(["auto", "--problems", "simple", "--quick", "--repetitions", "1"]) == 0
    monkeypatch.setattr(study, "measured", slow)
    found = auto(problems=["simple"], quick=True)
    assert STUDIES["auto"].bad(found)
    assert "above 1.05 of the serial time beyond noise: simple (n = 3) of 1" in auto.report(found)
    assert main(["auto", "--problems", "simple", "--quick"]) == 1


def test_noise_alone_makes_no_run_slower() -> None:
    rng = np.random.default_rng(5)
    noisy = [rng.lognormal(0.0, 0.2, size=(count, 2)) for count in (5, 9, 20, 60) for _ in range(50)]
    for values in noisy:
        pairs = Pairs(lambda: None, lambda: None, [(Spent(a, a), Spent(b, b)) for a, b in values])
        assert not pairs.seems_slower(True, low)
    slow = [(Spent(a, a), Spent(1.3 * b, 1.3 * b)) for a, b in noisy[-1]]
    assert Pairs(lambda: None, lambda: None, slow).seems_slower(True, low)


def test_a_bound_of_a_median_is_seldom_above_it() -> None:
    rng = np.random.default_rng(3)
    above = [low(rng.exponential(size=20).tolist()) > np.log(2.0) for _ in range(4000)]
    assert 0.001 < np.mean(above) < 0.02
    assert low([9.0] * 3) == 0.0


MODULE = importlib.import_module("benchmarks.studies.plain.study")  # the name in its package is the function


@pytest.mark.parametrize("name", PLAIN)
def test_the_start_and_what_peers_are_given_satisfy_the_equations(name: str) -> None:
    problem = PLAIN[name]
    start, n = np.array(problem.start), len(problem.start)
    assert len(problem.sizes) == n
    for posed in problem.ida.values():
        residual = posed.function(0.0, np.array(posed.start), np.array(posed.slope))
        assert np.abs(residual).max() < 1e-9
    for posed in problem.radau.values():
        own = np.array(posed.start)
        assert np.allclose(posed.unknowns(0.0, own), start, atol=1e-14)
        rate, step = np.array(posed.function(0.0, own)), 1e-7
        # Unknowns of the problem move as those of the peer do, and so that F vanishes.
        moved = [np.array(posed.unknowns(k * step, own + k * step * rate)) for k in (1.0, -1.0)]
        slope = (moved[0] - moved[1]) / (2.0 * step)
        assert np.abs(problem.function(0.0, start, slope)).max() < 1e-6
    assert problem.radau or problem.without_radau


@pytest.mark.parametrize("name", [name for name in PLAIN if name != "ladder-100"])
def test_all_solvers_come_to_the_reference(name: str) -> None:
    problem = PLAIN[name]
    exact, sizes = problem.reference(), np.array(problem.sizes)

    def close(end: Any, bound: float) -> bool:
        return bool((np.abs(end - exact) / sizes).max() < bound)

    assert close(MODULE.here(problem, None, 1e-9).end, 1e-6)
    for posed in problem.radau.values():
        assert close(MODULE.by_radau(problem, posed, sizes[: len(posed.start)], 1e-8).end, 1e-5)
    if installed():
        for posed in problem.ida.values():
            assert close(MODULE.by_ida(problem, posed, sizes[: len(posed.start)], 1e-6).end, 1e-3)


def row(solver: str, way: str, error: float, time: float, success: int = 1) -> tuple[Any, ...]:
    return ("robertson", solver, way, 3, 1, 1e-6, success, time, 1, error, math.nan, math.nan, "")


def table(*rows: tuple[Any, ...]) -> Result:
    about = {"accuracies": [1e-4], "like": [IDA, RADAU], "versions": [], "repetitions": 1, "left_out": []}
    return Result("bench", np.array(list(rows), dtype=plain.columns), {}, about)


def test_the_best_way_of_each_solver_counts_at_equal_error() -> None:
    peers = row(IDA, "dense", 1e-5, 4.0), row(IDA, "band", 1e-5, 2.0), row(RADAU, "rates", 1e-5, 3.0)
    (one,) = equal_errors(table(row(DEFAULT, "", 1e-3, 0.5), row(DEFAULT, "", 1e-5, 2.0), *peers))
    assert one.times[DEFAULT] == pytest.approx(1.0)  # between the two runs
    assert (one.times[IDA], one.times[RADAU], one.ratio) == (2.0, 3.0, pytest.approx(0.5))
    assert math.isnan(one.times[UNTRACED])
    assert equal_errors(table(*peers))[0].ratio == math.inf
    assert equal_errors(table(row(DEFAULT, "", 1e-5, 2.0)))[0].ratio == 0.0
    assert math.isnan(equal_errors(table(row(DEFAULT, "", 1e-5, 2.0, 0)))[0].ratio)
    told = plain.report(table(row(DEFAULT, "", 1e-5, 1.0), *peers))
    assert "at most 0.5 in 1 of 1" in told
