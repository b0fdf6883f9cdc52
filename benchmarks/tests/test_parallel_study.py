"""The study of threads and ranks that share the default method."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measuring import ranks
from benchmarks.measuring.ranks import SERIAL, THREADS, VALUES, Call, Case, InTurn, Row, Timing
from benchmarks.measuring.steps import FAMILIES
from benchmarks.studies.parallel import SPANS

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
