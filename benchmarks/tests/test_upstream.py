"""The comparison with pySDC.projects.DAE."""

from __future__ import annotations

import pkgutil

import pySDC.projects.DAE.problems as theirs

from benchmarks.studies.upstream import UPSTREAM, upstream


def test_problems_of_upstream_are_solved_here_and_there() -> None:
    result = upstream(problems=["discontinuous"], repetitions=1, adapted=True)
    row = result.data[0]
    assert row["n"] == 2
    assert row["error"] < 1e-9
    assert row["error_upstream"] < 1e-9
    assert row["difference"] < 1e-9
    assert row["rhs_upstream"] > row["rhs"] > row["sweeps"]
    assert "discontinuous " in upstream.report(result) and "geometric mean" in upstream.report(result)


def test_every_problem_of_upstream_is_compared() -> None:
    modules = {module.name for module in pkgutil.iter_modules(theirs.__path__)}
    assert {case.module for case in UPSTREAM} == modules
