"""Start values near 0 on which the equations depend: they are no rounding errors of 0."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sparse
from helpers.pairs import covering_pairs

import dae_sdc as ds
from dae_sdc.dae.consistency import Start, reaches
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.scales import Terms, balanced_sizes


class Case(NamedTuple):
    """Equations, start and solution at a time, for a small number e."""

    equations: Callable[[float, Any, Any], list[Any]]
    start: list[float]
    exact: Callable[[float], list[float]]


def root(e: float, t: float) -> float:
    return float(np.sqrt(1.0 - (1.0 - e * e) * np.exp(-t)))


def coefficient(e: float) -> Case:
    return Case(lambda t, u, du: [2.0 * u[0] * du[0] + u[0] ** 2 - 1.0], [e], lambda t: [root(e, t)])


def negative(e: float) -> Case:
    return Case(lambda t, u, du: [2.0 * u[0] * du[0] + u[0] ** 2 - 1.0], [-e], lambda t: [-root(e, t)])


def shifted(e: float) -> Case:
    return Case(
        lambda t, u, du: [2.0 * (e + u[0]) * du[0] + (e + u[0]) ** 2 - 1.0], [0.0], lambda t: [root(e, t) - e]
    )


def beside_another(e: float) -> Case:
    return Case(
        lambda t, u, du: [2.0 * u[0] * du[0] + u[0] ** 2 - 1.0, du[1] + u[1]],
        [e, 1.0],
        lambda t: [root(e, t), float(np.exp(-t))],
    )


def driven_by_another(e: float) -> Case:
    return Case(
        lambda t, u, du: [u[0] * du[0] - u[1], du[1] + u[1]],
        [e, 1.0],
        lambda t: [float(np.sqrt(e * e + 2.0 * (1.0 - np.exp(-t)))), float(np.exp(-t))],
    )


def beside_an_algebraic_one(e: float) -> Case:
    return Case(
        lambda t, u, du: [2.0 * u[0] * du[0] + u[0] * u[1] - 1.0, u[1] - u[0]],
        [e, e],
        lambda t: [root(e, t), root(e, t)],
    )


def at_rest(e: float) -> Case:
    return Case(
        lambda t, u, du: [u[0] * du[0] - u[1], du[1] - 1.0],
        [e, 0.0],
        lambda t: [float(np.hypot(e, t)), t],
    )


def mass_of_another(e: float) -> Case:
    return Case(
        lambda t, u, du: [du[0] - 1.0, u[0] * du[1] - 1.0],
        [e, 1.0],
        lambda t: [e + t, 1.0 + float(np.log1p(t / e))],
    )


def inverse(e: float) -> Case:
    return Case(
        lambda t, u, du: [2.0 * du[0] - u[1], (u[0] + u[2]) * u[1] - 2.0, u[2]],
        [e, 2.0 / e, 0.0],
        lambda t: [float(np.sqrt(e * e + 2.0 * t)), 2.0 / float(np.sqrt(e * e + 2.0 * t)), 0.0],
    )


CASES = [
    coefficient,
    negative,
    shifted,
    beside_another,
    driven_by_another,
    beside_an_algebraic_one,
    mass_of_another,
    at_rest,
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("e", [1e-6, 1e-8, 1e-10, 1e-12])
def test_a_start_on_which_the_equations_depend_keeps_its_size(
    case: Callable[[float], Case], e: float
) -> None:
    given = case(e)
    for rtol in (1e-4, 1e-8):
        run = ds.solve(given.equations, u0=given.start, t_end=1.0, rtol=rtol)
        assert run.success and not run.message
        np.testing.assert_allclose(run.u[-1], given.exact(1.0), rtol=20.0 * rtol)


@pytest.mark.parametrize("case", [*CASES, inverse])
@pytest.mark.parametrize("e", [1e-14, 1e-17])
def test_what_begins_too_near_to_0_is_right_or_fails(case: Callable[[float], Case], e: float) -> None:
    given = case(e)
    for t0 in (0.0, 1.0):  # from 1, the first steps are below the rounding of time
        for rtol in (1e-4, 1e-8):
            run = ds.solve(given.equations, u0=given.start, t0=t0, t_end=t0 + 1.0, rtol=rtol)
            if run.success:
                np.testing.assert_allclose(run.u[-1], given.exact(1.0), rtol=20.0 * rtol, atol=1e-12)
            else:
                assert run.message and "\n" not in run.message


class Coefficients(ds.ProblemDAE):
    """(a_i + u_i) u_i' = b_i, minus u_(i-1)' where a_i is small, with a pattern."""

    interval = (0.0, 1.0)

    def __init__(self, a: Any, b: Any, unit: float = 1.0) -> None:
        super().__init__(n_diff=len(a), n_alg=0)
        self.a, self.b, self.unit = np.asarray(a), np.asarray(b), unit
        self.sparsity = sparse.diags_array([np.ones(len(a)), np.ones(len(a) - 1)], offsets=[0, -1]).tocsc()
        self.lower = np.where(self.a[1:] < 1.0, 1.0, 0.0)
        self.evaluated = 0

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        self.evaluated += 1
        v, dv = u / self.unit, du / self.unit
        main, lower = (self.a + v + c * dv) / self.unit, self.lower / self.unit
        return sparse.diags_array([main, lower], offsets=[0, -1]).tocsc()

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        v, dv = u / self.unit, du / self.unit
        return (self.a + v) * dv + np.concatenate([[0.0], self.lower * dv[:-1]]) - self.b


def found_reaches(problem: Any, values: Any, moves: Any) -> Any:
    u0, slope = problem.state(values), problem.state(np.zeros(problem.n))
    parts = linearize(problem, u0, slope, 0.0)
    terms = Terms.of(parts.mass, parts.stiffness, np.abs(problem.evaluate(u0, slope, 0.0)))
    balance = balanced_sizes(terms, np.asarray(values), 1.0)
    return reaches(problem, Start(u0, 0.0, parts, terms, balance), np.asarray(moves))


@pytest.mark.parametrize("trace", [None, False])
@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_a_pole_behind_the_start_costs_no_digits_of_what_runs_away_from_it(
    rtol: float, trace: bool | None
) -> None:
    # u = sqrt(1e-16 + 2 t) where u' = z and u z = 1; the tolerance of z is relative to its start, 1e8.
    found = ds.solve(
        lambda t, u, du: [du[0] - u[1], u[0] * u[1] - 1.0],
        u0=[1e-8, 1e8],
        t_end=1.0,
        rtol=rtol,
        trace=trace,
    )
    exact = np.sqrt(1e-16 + 2.0 * found.t)
    assert (np.abs(found.u[:, 0] - exact) <= 5.0 * rtol * (1.0 + exact)).all()
    assert found.message.startswith("u[1]: errors up to ") and "relative to 1e+08" in found.message


def test_a_reach_is_where_a_coefficient_changes_by_its_size() -> None:
    a = np.array([1.0, 1e-9, 1.0, 1e-12, 1.0, 1e-6])
    found = found_reaches(Coefficients(a, np.ones(6)), np.zeros(6), np.full(6, 1e-3))
    small = a < 1.0
    assert np.isinf(found[~small]).all()
    # Half of three terms of one size, to a factor of two.
    assert (found[small] <= 2.0 * a[small]).all() and (found[small] >= 0.5 * a[small]).all()


def test_a_reach_has_the_unit_of_its_unknown() -> None:
    a, unit = np.array([1.0, 1e-9]), 2.0**20
    own = found_reaches(Coefficients(a, np.ones(2)), np.zeros(2), np.full(2, 1e-3))
    other = found_reaches(Coefficients(a, np.ones(2), unit), np.zeros(2), np.full(2, 1e-3 * unit))
    np.testing.assert_allclose(other, unit * own, rtol=1e-6)


def test_a_jump_of_a_derivative_at_0_says_nothing_of_sizes() -> None:
    class Friction(Coefficients):
        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            return sparse.diags_array([2.0 + np.sign(u)], offsets=[0]).tocsc()

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return (2.0 + np.sign(u)) * du - self.b

    assert np.isinf(found_reaches(Friction([1.0, 1.0], np.ones(2)), np.zeros(2), np.full(2, 1e-3))).all()


def test_a_start_without_small_values_costs_no_more_jacobians() -> None:
    from dae_sdc.dae.consistency import begin_scales

    def evaluated(values: Any) -> int:
        problem = Coefficients(np.ones(4), np.ones(4))
        begin_scales(problem, problem.state(values), 0.0, 1.0, 1e-6)
        return problem.evaluated

    # Two for the Jacobian at the start, and two more where unknowns begin at 0.
    assert evaluated(np.ones(4)) == 2 and evaluated([1.0, 1.0, 0.0, 1.0]) == 4


def test_sizes_that_are_given_are_those_of_unknowns_that_begin_at_0() -> None:
    class Circle(ds.ProblemDAE):
        index, nominal = 1, 1.0

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=2, n_alg=1, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] - u[1], du[1] + u[0] ** 3 + u[2], u[2] - u[1] ** 2 * u[0]]

    run = ds.solve(Circle, u0=[0.0, 1.0, 0.0], t_end=5.0, rtol=1e-6, trace=False, time_limit=300.0)
    sine, cosine = np.sin(run.t), np.cos(run.t)
    exact = np.column_stack([sine, cosine, cosine**2 * sine])
    assert run.success and np.abs(run.u - exact).max() < 1e-5


@pytest.mark.parametrize(
    ("period", "end", "rtol"),
    covering_pairs(product((0.7, 1.0, 2.3), (1.3, 4.673885766257628, 5.0), (1e-4, 1e-6, 1e-9))),
)
def test_a_jump_at_the_start_is_no_noise(period: float, end: float, rtol: float) -> None:
    # The square wave is 1/2 at the start alone, and 1 behind it.
    def clocked(t: Any, u: Any, du: Any) -> list[Any]:
        x, y, s = u
        return [du[0] + x - 0.5 - 0.5 * np.sign(np.sin(np.pi * s / period)), y - x**2 - 1.0, du[2] - 1.0]

    solution = ds.solve(clocked, u0=[0.5, 1.25, 0.0], t_end=end, rtol=rtol, trace=False)
    x = 0.5 * np.exp(-end)
    for begin in np.arange(0.0, end, 2.0 * period):
        x += np.exp(min(begin + period, end) - end) - np.exp(begin - end)
    assert solution.success and solution.t[-1] == end
    assert abs(solution.u[-1, 0] - x) <= 30.0 * rtol
