"""The comparison of the catalogue with the same problems as plain functions."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from benchmarks.measuring.plain_functions import first_change
from benchmarks.studies.traced import traced
from dae_sdc import deadline


def test_a_function_that_is_called_for_too_long_has_done_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = count()  # at the clock, which goes on by a second with each
    for module in (deadline, sys.modules[traced.measure.__module__]):
        monkeypatch.setattr(module, "perf_counter", lambda: float(next(looks)))
    result = traced(problems=["two-transistor"], repetitions=1, time_limit=8000.0)
    assert 0.0 < result.data["done"][0] < 1.0 and "> " in traced.report(result)


def test_runs_end_where_the_problem_chooses_other_equations() -> None:
    assert first_change("synchronous-machine", rtol=1e-4) == 0.05
    assert 1.0 < first_change("discontinuous", rtol=1e-4) < 5.0
    assert first_change("simple", rtol=1e-4) == 1.0
