"""The study of runs that choose by themselves who shares their work."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.measuring.clock import Spent
from benchmarks.studies import auto as study
from benchmarks.studies.auto import Pairs, auto, low, measured
from benchmarks.study import STUDIES


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


SHARED, SERIAL = "2 threads: a step takes 0.90 of the serial time", "serial: 5 unknowns are fewer than 1000"


@pytest.mark.parametrize(
    ("wall", "computing", "choice", "slower"),
    [
        (1.04, 1.04, SERIAL, False),
        (1.06, 1.06, SERIAL, True),
        (1.06, 1.01, SERIAL, False),
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
        return {"problem": case.problem, "n": 3, "slower": True, "equal": True, "choice": SERIAL}

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
