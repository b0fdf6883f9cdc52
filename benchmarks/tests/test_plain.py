"""The comparison of solvers on plain functions: what they are given, and what is made of their times."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest

from benchmarks.studies.plain.problems import PLAIN
from benchmarks.studies.plain.study import DEFAULT, IDA, RADAU, UNTRACED, equal_errors, plain
from dae_sdc.errors import RemoteError
from dae_sdc.run.results import Result
from dae_sdc.run.sundials import installed

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
    about["first"] = {"robertson": {"warm": [0.1, 1.5, 0.01]}}
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
    assert "at most 0.5 in 1 of 1" in told and "robertson    warm     0.100    1.500   0.0100" in told


def test_first_calls_are_those_of_fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    (imported, first, second), sizes = MODULE.in_a_fresh_process("ladder-10", None), []
    assert imported > 0.0 and first > second > 0.0
    with pytest.raises(RemoteError, match="a fresh process ended with code 1"):
        MODULE.in_a_fresh_process("nothing", None)

    def fresh(name: str, cache: str | None) -> list[float]:
        sizes.append(cache)
        if name == "ladder-10":
            raise RemoteError("on purpose")
        return [float(len(sizes))] * 3

    monkeypatch.setattr(MODULE, "in_a_fresh_process", fresh)
    monkeypatch.setattr(MODULE.Race, "measure", lambda *args: None)
    found = plain(problems=["robertson", "ladder-10"], processes=3, cold=True)
    assert found.parameters["first"] == {"robertson": {"warm": [2.0] * 3, "cold": [4.0] * 3}}
    assert sizes[3] is not None and "first call of ladder-10: on purpose" in found.parameters["left_out"]
