"""The study of many unknowns: what it measures errors in, and how times grow."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from benchmarks.measuring import ida
from benchmarks.measuring.cold import carry_out, common_sizes, largest_error
from benchmarks.measuring.steps import FAMILIES
from benchmarks.studies.large import large
from dae_sdc.errors import RemoteError

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

    study: Any = importlib.import_module("benchmarks.studies.large")
    monkeypatch.setattr(study, "in_a_new_process", pretend)
    found = large(
        problems=["pipe-network"], sizes=[1000, 10_000, 100_000], rtols=[1e-6], compared=1, repetitions=1
    )
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

    study: Any = importlib.import_module("benchmarks.studies.large")
    monkeypatch.setattr(study, "in_a_new_process", pretend)
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
    line = ds.PROBLEMS["transmission-line"](sections=3)
    np.testing.assert_array_equal(common_sizes(line, np.array([1.0, -3.0, 2.0])), [3.0, 3.0, 3.0])
    assert largest_error(line, np.array([1.0, 2.0]), np.array([1.5, 2.0])) == 0.5


def test_a_run_of_the_network_tells_its_error_by_nominal_values() -> None:
    found = carry_out("pipe-network", SMALL, 8640.0, rtol=1e-6)
    assert 0.0 < found["error"] < 1e-6 and found["steps"] <= 10


def test_ida_gets_absolute_tolerances_by_nominal_values() -> None:
    if not ida.installed():
        pytest.skip("needs scikit-sundae")
    problem = ds.PROBLEMS["pipe-network"](**SMALL)
    other = ida.Ida(problem, 0.0, 8640.0)
    # With 1e-6 for flows of 0.02 m^3/s as for pressures of 5e5 Pa flows would have four digits.
    assert 0.0 < other.error(1e-6) < 3e-5


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_solved_by_their_sweeper(name: str) -> None:
    family = FAMILIES[name]
    how: dict[str, Any] = {"sweeper": family.sweeper, "restol": family.restol, "dt": family.dt}
    assert ds.solve(name, params=family.params(100), t_end=3.0 * family.dt, **how).success
