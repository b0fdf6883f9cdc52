"""Unknowns, equations and time in units that are powers of two, which round nothing: the same runs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from benchmarks.studies.truth.checks.plain import scrambled
from benchmarks.studies.truth.generated import Generated
from benchmarks.studies.truth.solves import generate

SEED, RTOL, LARGEST = 4200, 1e-6, 40

LINEAR = ("pencil-3", "pencil-4", "varying-2", "varying-3")
"""Families whose called equations are reduced by their derivative arrays, in sizes that are powers of two."""

FAMILIES = (
    *LINEAR,
    *("pencil-2", "hessenberg-2", "hessenberg-3", "mechanics-index-2", "mechanics-index-3"),
)


READ = ("pencil-2", "pencil-3", "hessenberg-2", "mechanics-index-2")
"""Families whose equations are read too: the structure of others is decided at general points near 1."""


@cache
def given(family: str) -> Generated:
    return scrambled(generate(family, SEED))


def solved(family: str, trace: bool | None, units: Any) -> tuple[ds.Solution, Any, Any]:
    """A run of a plain function that is told nothing but its start; times and values in units of 1."""
    dae, (s, r, second) = given(family), units

    def residual(t: Any, u: Any, du: Any) -> Any:
        return r * dae.residual(u / s, du * (second / s), t / second)

    equations: Any = residual
    start, end = (t * second for t in dae.interval)
    u0 = dict(zip(dae.names, (dae.solution(dae.interval[0]) * s).tolist(), strict=True))
    found = ds.solve(equations, u0=u0, t0=start, t_end=end, rtol=RTOL, trace=trace)
    assert found.success, found.message
    return found, found.t / second, found.u / s


@pytest.mark.parametrize(
    ("family", "trace"),
    [*((family, False) for family in FAMILIES), *((family, None) for family in READ)],
)
def test_runs_do_not_depend_on_units_of_unknowns_equations_and_time(family: str, trace: bool | None) -> None:
    dae, rng = given(family), np.random.default_rng([SEED, *family.encode()])
    powers = rng.integers(-LARGEST, LARGEST + 1, 2 * dae.n + 1)
    factors = 2.0**powers
    units = factors[: dae.n], factors[dae.n : -1], float(factors[-1])
    one, t, u = solved(family, trace, (np.ones(dae.n), np.ones(dae.n), 1.0))
    other, other_t, other_u = solved(family, trace, units)
    assert ("reduced to 1 first" in other.message) == ("reduced to 1 first" in one.message)
    assert abs(other.stats["steps"] - one.stats["steps"]) <= max(2, 0.15 * one.stats["steps"])
    # Pivots depend on units of equations, and rounding on pivots: it is a part of the errors of later steps.
    np.testing.assert_allclose(other_t[1], t[1], rtol=1e-4)
    if trace is False and family in LINEAR:
        np.testing.assert_allclose(other_t, t, rtol=1e-9)
        np.testing.assert_allclose(other_u, u, atol=0.1 * RTOL)
    exact = np.array([dae.solution(time) for time in other_t])
    assert (np.abs(other_u - exact) <= 100.0 * RTOL * (1.0 + np.abs(exact))).all()


@pytest.mark.parametrize("size", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("second", [2.0**-40, 2.0**40])
def test_an_exact_start_is_kept_in_any_units(size: float, second: float) -> None:
    dae = given("mechanics-index-3")
    found, _, u = solved("mechanics-index-3", False, (np.full(dae.n, size), np.ones(dae.n), second))
    np.testing.assert_array_equal(u[0], dae.solution(dae.interval[0]))
    assert "start values made consistent" not in found.message
