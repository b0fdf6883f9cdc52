"""The Test Set for IVP Solvers to tolerances: digits and steps, and the study that tables them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from benchmarks.measuring.scores import scd, scd_differential
from benchmarks.studies.testset import (
    Published,
    PublishedRun,
    digits_reached,
    published,
    published_work,
    required_digits,
    testset as study,
)
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.problems._library import ReferenceEnd
from dae_sdc.run.target import make_problem

NAMES = [name for name in PROBLEMS if hasattr(PROBLEMS[name], "reference_end")]

LESS = {
    # Stick-slip transitions that are narrower than a step, between its stages: no estimate sees them.
    ("wheelset", 1e-7): 5.0
}

CASES = [(name, rtol) for name in NAMES for rtol in (1e-4, 1e-7)]


def test_the_whole_test_set_is_here() -> None:
    assert {"andrews", "ring-modulator", "two-bit-adder", "wheelset"} <= set(NAMES) and len(NAMES) >= 15


@pytest.mark.parametrize(("name", "rtol"), CASES)
def test_a_tolerance_alone_gives_its_digits_in_few_steps(name: str, rtol: float) -> None:
    solution = ds.solve(name, rtol=rtol, time_limit=120.0)
    assert solution.success, solution.message
    problem, u = make_problem(name), solution.u[-1]
    assert digits_reached(problem, u) >= LESS.get((name, rtol), required_digits(problem, rtol))
    steps, _ = published_work(published(name), scd(problem, u))
    # NaN where nothing is published for these digits.
    assert not solution.stats["steps"] >= steps


@pytest.mark.parametrize(
    ("name", "rtol", "expected"),
    [
        ("chemical-akzo-nobel", 1e-6, (97, 2, 335, 16, 16, 5.69)),
        ("car-axis", 1e-8, (814, 1, 3455, 62, 62, 3.19)),
        ("two-transistor", 1e-10, (7767, 54, 32162, 713, 713, 10.12)),
        ("wheelset", 1e-4, (5248, 571, 43215, 1211, 1211, 0.97)),
        ("nand-gate", 1e-8, (4543, 410, 31413, 949, 949, 8.51)),
    ],
)
def test_published_ladders(name: str, rtol: float, expected: tuple[float, ...]) -> None:
    figures = published(name)
    (row,) = (row for row in figures.ladder if row.rtol == pytest.approx(rtol, rel=1e-3))
    assert row.solver == "MEBDFI" and figures.source
    assert (row.steps, row.failed, row.fev, row.jac, row.lu, row.scd) == expected
    assert [row.rtol for row in figures.ladder] == sorted((row.rtol for row in figures.ladder), reverse=True)


def test_published_reference_runs_and_formulations() -> None:
    (run,) = published("slider-crank").reference_runs
    assert (run.solver, run.rtol, run.steps, run.fev, run.jac) == ("MEBDFI", 1e-14, 180090, 985444, 14816)
    (run,) = published("wheelset").reference_runs
    assert (run.steps - run.failed, run.lu) == (54229, None)
    rows = [row for row in published("pendulum-cash").ladder if row.rtol == 1e-8]
    assert {row.formulation: row.scd for row in rows} == {0: 9.341, 1: 9.249, 2: 7.691, 3: 5.97}
    assert all(row.scd is None for row in published("charge-pump").ladder)
    assert published("pendulum").ladder == published("pendulum").reference_runs == ()


def ladder(*rows: tuple[int, int, float | None], failed: bool = False) -> Published:
    runs = tuple(
        PublishedRun("code", 1e-3, 1e-3, steps, 0, fev, 1, None, digits, failed)
        for steps, fev, digits in rows
    )
    return Published("source", "", runs, ())


@pytest.mark.parametrize(
    ("runs", "digits", "work"),
    [
        # That of a run; between two runs the geometric mean; the least published for fewer digits.
        ([(100, 500, 3.0), (200, 900, 5.0)], 3.0, (100.0, 500.0)),
        ([(100, 500, 3.0), (200, 900, 5.0)], 5.0, (200.0, 900.0)),
        ([(100, 500, 3.0), (400, 2000, 5.0)], 4.0, (200.0, 1000.0)),
        ([(100, 500, 3.0), (400, 2000, 5.0)], 1.0, (100.0, 500.0)),
        # Runs that cost more for less do not count, nor does the order in which they were printed.
        ([(100, 500, 3.0), (300, 900, 2.0), (400, 2000, 5.0)], 4.0, (200.0, 1000.0)),
        ([(400, 2000, 5.0), (100, 500, 3.0)], 4.0, (200.0, 1000.0)),
    ],
)
def test_published_work(runs: list[tuple[int, int, float]], digits: float, work: tuple[float, float]) -> None:
    assert published_work(ladder(*runs), digits) == pytest.approx(work)


@pytest.mark.parametrize(
    ("about", "digits"),
    [
        (ladder(), 3.0),
        (ladder((100, 500, 3.0)), 3.1),
        (ladder((100, 500, None)), 3.0),
        (ladder((100, 500, 3.0), failed=True), 2.0),
    ],
)
def test_what_is_not_published_is_nan(about: Published, digits: float) -> None:
    assert all(math.isnan(value) for value in published_work(about, digits))


def reference(digits: list[float], index: tuple[int, ...], scored: tuple[int, ...], n_diff: int = 2) -> Any:
    end = ReferenceEnd(1.0, np.ones(3), np.array(digits), scored, "")
    return SimpleNamespace(reference_end=end, variable_index=index, n_diff=n_diff)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        # The tolerance with a digit to spare.
        (reference([12.0, 12.0, 12.0], (1, 1, 1), (0, 1, 2)), 6.0),
        # As far as the reference is known.
        (reference([12.0, 4.5, 12.0], (1, 1, 1), (0, 1, 2)), 4.5),
        # Of the differential unknowns of index 1 that are scored, and whose digits are known.
        (reference([12.0, 12.0, 2.0], (1, 1, 3), (0, 1, 2)), 6.0),
        (reference([12.0, 3.0, 12.0], (1, 2, 3), (0, 1, 2)), 6.0),
        (reference([12.0, 3.0, 12.0], (1, 1, 1), (0, 2)), 6.0),
        (reference([12.0, 0.0, 12.0], (1, 1, 1), (0, 1, 2)), 6.0),
        # Of all that are scored, where none is such.
        (reference([12.0, 12.0, 5.0], (1, 1, 1), (2,)), 5.0),
    ],
)
def test_required_digits(problem: Any, expected: float) -> None:
    assert required_digits(problem, 1e-7) == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_has_all_the_digits_that_are_required(name: str) -> None:
    problem = make_problem(name)
    u = np.array(problem.reference_end.u)
    assert digits_reached(problem, u) >= required_digits(problem, 1e-15) > 3.0
    # An error of 1e-2 in all unknowns is one of two digits.
    assert digits_reached(problem, 1.01 * u) == pytest.approx(2.0, abs=1e-6)


def test_digits_are_those_of_the_differential_unknowns() -> None:
    problem = make_problem("chemical-akzo-nobel")
    u = np.array(problem.reference_end.u)
    u[-1] *= 1.001
    assert problem.n_diff == 5 and scd(problem, u) == pytest.approx(3.0, abs=1e-3)
    assert digits_reached(problem, u) == scd_differential(problem, u) > 8.0


def test_runs_that_do_not_end_are_told() -> None:
    result = study(problems=["hires"], rtols=[1e-6], time_limit=1e-6)
    (row,) = result.data
    assert row["success"] == 0 and "the time limit of 1e-06 s ran out" in row["message"]
    assert math.isnan(row["scd"]) and math.isnan(row["steps_published"])
    text = study.report(result)
    assert "the time limit of 1e-06 s ran out" in text
    assert "short of what is required: hires at 1e-06" in text


def test_what_falls_short_is_told() -> None:
    result = study(problems=["chemical-akzo-nobel"], rtols=[1e-4])
    result.data["scd_differential"], result.data["steps_published"] = 2.9, 10.0
    lines = study.report(result).splitlines()
    assert lines[-2] == "short of what is required: chemical-akzo-nobel at 0.0001"
    assert lines[-1] == "at least as many steps as published for the same scd: chemical-akzo-nobel"
