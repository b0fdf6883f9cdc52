"""All solutions of polynomial systems, against counts and solutions that are known."""

from __future__ import annotations

import importlib
import json
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from helpers.jobs import halve, leave

from benchmarks.studies.polynomials import cyclic, katsura
from dae_sdc.errors import InputError, RemoteError
from dae_sdc.polynomials.homotopy import Roots, solve_polynomials
from dae_sdc.polynomials.polynomials import PolynomialSystem
from dae_sdc.polynomials.pool import run_jobs

tracking = importlib.import_module("dae_sdc.polynomials.tracking")

x, y, z = sp.symbols("x y z")


def solved(expressions: list[Any], variables: list[Any], seed: int = 0) -> Roots:
    return solve_polynomials(PolynomialSystem.from_sympy(expressions, variables), seed=seed)


def accounted(roots: Roots) -> bool:
    """Whether every path has an end."""
    return int(roots.multiplicity.sum()) + roots.at_infinity + roots.extraneous + roots.failed == roots.paths


def distances(roots: Roots, exact: list[Any]) -> Any:
    """Distance of each exact solution to the nearest that was found."""
    points = np.array(exact, dtype=np.complex128).reshape(len(exact), -1)
    return np.abs(points[:, None] - roots.solutions[None]).max(axis=2).min(axis=1)


def test_values_and_derivatives_are_those_of_sympy() -> None:
    expressions = [3 * x**2 * y - 2 * y + 1, x**3 * y**2 + sp.I * x, x - y + sp.Rational(1, 2)]
    system = PolynomialSystem.from_sympy(expressions, [x, y])
    points = np.array([[0.3 + 1j, -2.0], [0.0, 1.5 - 0.5j], [2.0, 0.0]])
    values, jacobians = system.both(points)
    for point, value, jacobian in zip(points, values, jacobians, strict=True):
        at = dict(zip([x, y], point.tolist(), strict=True))
        exact = [complex(e.subs(at)) for e in expressions]
        slopes = [[complex(e.diff(v).subs(at)) for v in (x, y)] for e in expressions]
        np.testing.assert_allclose(value, exact, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(jacobian, slopes, rtol=1e-13, atol=1e-13)
    assert system.degrees.tolist() == [3, 5, 1]
    np.testing.assert_array_equal(system.values(points), values)
    np.testing.assert_array_equal(system.jacobian(points), jacobians)


def test_equal_monomials_are_added() -> None:
    system = PolynomialSystem([[1.0, 2.0, -3.0]], [[1, 1], [1, 1], [1, 1]])
    assert system.degrees.tolist() == [0]
    assert system.values([[2.0, 5.0]]).tolist() == [[0.0]]


def test_the_homogeneous_system_is_the_same_at_1_and_scales_with_its_degree() -> None:
    system = PolynomialSystem.from_sympy([x**3 + y - 1, x * y + 2 * x], [x, y])
    whole = system.homogenized()
    point = np.array([[0.7 - 0.2j, 1.3j]])
    np.testing.assert_allclose(
        whole.values(np.column_stack([[1.0], point])), system.values(point), rtol=1e-14
    )
    at = np.array([[0.5, 0.7 - 0.2j, 1.3j]])
    factors = 3.0 ** system.degrees.astype(np.float64)
    np.testing.assert_allclose(whole.values(3.0 * at), factors * whole.values(at), rtol=1e-13)


def test_scaling_keeps_the_solutions_and_evens_the_coefficients() -> None:
    system = PolynomialSystem.from_sympy([sp.expand((z - 1000) * (z + 3000))], [z])
    even, scales = system.scaled()
    np.testing.assert_allclose(even.values(np.array([[1000.0], [-3000.0]]) / scales), 0.0, atol=1e-12)
    sizes = np.abs(even.coefficients[even.coefficients != 0.0])
    assert sizes.max() / sizes.min() < 10.0


# With the last four, two paths come so near to each other that steps of 1e-5 of the way are too long.
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, 12, 26, 39, 42])
def test_katsura_5_has_32_roots_of_which_16_are_real(seed: int) -> None:
    system = katsura(5)
    roots = solve_polynomials(system, seed=seed)
    assert (len(roots.solutions), len(roots.real)) == (32, 16)
    assert (roots.paths, roots.failed, roots.at_infinity) == (32, 0, 0)
    assert (roots.multiplicity == 1).all()
    assert not roots.singular.any()
    assert np.abs(system.values(roots.solutions)).max() < 1e-13


def test_cyclic_5_has_70_roots_of_which_10_are_real() -> None:
    roots = solve_polynomials(cyclic(5))
    assert (len(roots.solutions), len(roots.real)) == (70, 10)
    assert (roots.paths, roots.at_infinity, roots.failed) == (120, 50, 0)


def test_simple_roots_of_one_polynomial() -> None:
    exact = [3, sp.Rational(1, 2) + 5 * sp.I, sp.I, 7 * sp.I]
    roots = solved([sp.prod([z - root for root in exact])], [z])
    assert len(roots.solutions) == 4
    assert distances(roots, exact).max() < 1e-12
    np.testing.assert_allclose(roots.real, [[3.0]], rtol=1e-13)


def test_a_root_of_multiplicity_6() -> None:
    roots = solved([(z - 3) ** 6], [z])
    assert roots.multiplicity.tolist() == [6]
    assert roots.singular.tolist() == [True]
    assert distances(roots, [3]).max() < 1e-8
    assert len(roots.real) == 1


def test_two_double_roots_among_six() -> None:
    double = [-15, sp.Rational("36.9") - sp.Rational("10.3") * sp.I]
    simple = [sp.Rational("48.9") * sp.I, sp.sqrt(2)]
    roots = solved([sp.prod([z - r for r in simple]) * sp.prod([(z - r) ** 2 for r in double])], [z])
    assert sorted(roots.multiplicity.tolist()) == [1, 1, 2, 2]
    assert distances(roots, simple).max() < 1e-10
    assert distances(roots, double).max() < 1e-8
    assert (roots.multiplicity == np.where(roots.singular, 2, 1)).all()
    np.testing.assert_allclose(np.sort(roots.real[:, 0]), [-15.0, np.sqrt(2.0)], rtol=1e-9)


def test_random_polynomials_have_the_roots_of_their_companion_matrix() -> None:
    random = np.random.default_rng(5)
    coefficients = random.normal(size=13) + 1j * random.normal(size=13)
    roots = solve_polynomials(PolynomialSystem([coefficients], np.arange(12, -1, -1)[:, None]))
    assert len(roots.solutions) == 12
    assert distances(roots, np.roots(coefficients).tolist()).max() < 1e-10


def test_dense_polynomials_have_as_many_roots_as_bezout_says() -> None:
    random = np.random.default_rng(7)
    exponents = np.array([(i, j) for i in range(5) for j in range(5 - i)])
    coefficients = random.normal(size=(2, len(exponents)))
    coefficients[0, exponents.sum(axis=1) > 3] = 0.0
    system = PolynomialSystem(coefficients, exponents)
    roots = solve_polynomials(system)
    assert len(roots.solutions) == 12
    assert np.abs(system.values(roots.solutions)).max() < 1e-9
    # The coefficients are real, so that the others are pairs of conjugates.
    assert distances(roots, roots.solutions.conj().tolist()).max() < 1e-9


@pytest.mark.parametrize(
    ("expressions", "exact", "multiplicities", "at_infinity"),
    [
        ([x * y - 1, x * (y - 2)], [(0.5, 2)], [1], 3),
        ([x**2 + y**2 - 1, x - 1], [(1, 0)], [2], 0),  # a tangent
        ([x**2 - y, y**2 - x * y], [(0, 0), (1, 1)], [3, 1], 0),
        ([x**2 - y**2, x**2 + y**2], [(0, 0)], [4], 0),
        ([x + y - 1, x + y - 2], [], [], 1),  # parallel lines
        ([2 * x + y - 4, x - y + 1], [(1, 2)], [1], 0),
    ],
)
def test_paths_end_where_algebra_says(
    expressions: list[Any], exact: list[Any], multiplicities: list[int], at_infinity: int
) -> None:
    roots = solved(expressions, [x, y])
    assert accounted(roots)
    assert (roots.failed, roots.at_infinity) == (0, at_infinity)
    assert len(roots.solutions) == len(exact)
    for point, expected in zip(exact, multiplicities, strict=True):
        away = np.abs(roots.solutions - np.array(point)).max(axis=1)
        assert away.min() < 1e-7
        assert roots.multiplicity[away.argmin()] == expected


def test_starts_of_the_slider_crank() -> None:
    n = sp.symbols("n1:5")
    angle = sp.pi / 4
    roots = solved(
        [2 * n[2] + n[0], n[0] ** 2 + n[1] ** 2 - 1, n[2] ** 2 + n[3] ** 2 - 1, n[0] - sp.sin(angle)], list(n)
    )
    s = np.sqrt(0.5)
    exact = [(s, a * s, -s / 2, b * np.sqrt(1 - s**2 / 4)) for a in (1, -1) for b in (1, -1)]
    assert len(roots.real) == 4
    assert distances(roots, exact).max() < 1e-12


def test_points_on_a_line_of_solutions_are_singular() -> None:
    roots = solved([x * (y - 1), x * (y - 2)], [x, y])
    assert accounted(roots)
    assert roots.failed == 0
    assert len(roots.solutions) > 0
    assert np.abs(roots.solutions[:, 0]).max() < 1e-10
    assert roots.singular.all()


def test_paths_with_the_end_of_another_and_lost_paths_are_followed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accuracies: list[float] = []
    follow = tracking._follow

    def careless(homotopy: Any, care: Any, *job: Any) -> Any:
        found = follow(homotopy, care, *job)
        if not accuracies:
            found.points[0] = 1j * found.points[1]  # the same point of projective space
            found.state[2] = tracking.UNKNOWN
        accuracies.append(care.predictor_tolerance)
        return found

    monkeypatch.setattr(tracking, "_follow", careless)
    roots = solve_polynomials(katsura(4))
    assert (len(roots.solutions), roots.failed, roots.retracked) == (16, 0, 3)
    assert len(accuracies) == 2
    assert accuracies[1] < accuracies[0]


def test_lost_paths_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = [attempt._replace(most_steps=1) for attempt in tracking.FOLLOWED]
    monkeypatch.setattr(tracking, "FOLLOWED", followed)
    roots = solve_polynomials(katsura(2))
    assert (roots.failed, roots.solutions.shape, roots.real.shape) == (4, (0, 3), (0, 3))


@pytest.mark.parametrize("seed", range(5))
def test_more_polynomials_than_variables(seed: int) -> None:
    """The twisted cubic in three minors, cut by a plane that meets it where t^3 - 7 t + 6 = 0."""
    u, v, w = sp.symbols("u v w")
    roots = solved([u**2 - v, u * v - w, v**2 - u * w, w - 7 * u + 6], [u, v, w], seed)
    assert len(roots.solutions) == 3
    assert distances(roots, [(t, t**2, t**3) for t in (1, 2, -3)]).max() < 1e-10
    assert (roots.multiplicity == 1).all()
    assert (len(roots.real), roots.failed) == (3, 0)
    assert not roots.singular.any()
    assert roots.extraneous > 0
    assert accounted(roots)


@pytest.mark.parametrize(
    ("expressions", "exact"),
    [
        ([x - 1, y - 2, x + y - 3], [(1, 2)]),
        ([x - 1, y - 2, x + y - 4], []),  # the third is wrong at the solution of the others
        ([x**2 - 1, y**2 - 1, x + y], [(1, -1), (-1, 1)]),
        ([x**2 + y**2 - 1, x**2 - y**2, x - y, x + y - sp.sqrt(2)], [(sp.sqrt(0.5), sp.sqrt(0.5))]),
    ],
)
def test_only_what_solves_all_polynomials_is_a_solution(expressions: list[Any], exact: list[Any]) -> None:
    roots = solved(expressions, [x, y])
    assert len(roots.solutions) == len(exact)
    assert accounted(roots)
    if exact:
        assert distances(roots, exact).max() < 1e-10


def test_a_multiple_solution_of_more_polynomials_is_singular() -> None:
    """(x, y)^2 has multiplicity 3, two combinations of its generators 4: what is told is a bound."""
    roots = solved([x**2, x * y, y**2], [x, y])
    assert len(roots.solutions) == 1
    assert roots.singular.tolist() == [True]
    assert roots.multiplicity.tolist() == [4]
    assert np.abs(roots.solutions).max() < 1e-8


def test_workers_do_not_change_the_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "PATHS_PER_JOB", 10)
    alone, shared = (solve_polynomials(katsura(5), workers=workers) for workers in (1, 2))
    np.testing.assert_array_equal(alone.solutions, shared.solutions)
    assert alone.steps == shared.steps


def test_ranks_do_not_change_the_solutions(three_ranks: Path) -> None:
    ranks = [json.loads((three_ranks / f"paths-{rank}.json").read_text()) for rank in range(3)]
    assert ranks[0]["error"] == "number 3 is odd"
    assert {rank["error"] for rank in ranks[1:]} == {"rank 0 of 3: number 3 is odd"}
    for rank in ranks:
        assert rank["same"]
        assert rank["solutions"] == 32
        assert rank["steps"] < rank["all_steps"]


def test_jobs_that_fail_are_told() -> None:
    assert run_jobs(halve, [2, 6, 4, 8, 12], workers=2) == [1, 3, 2, 4, 6]
    with pytest.raises(RemoteError, match="job 2 of 2 in a worker process: 3 is odd"):
        run_jobs(halve, [2, 3], workers=2)
    with pytest.raises(InputError, match="3 is odd"):
        run_jobs(halve, [2, 3])
    with pytest.raises(RemoteError, match=r"ended with code 7 at job [12] of 2; try workers=1"):
        run_jobs(leave, [7, 7], workers=2)


ALONE = types.SimpleNamespace(Get_size=lambda: 1, Get_rank=lambda: 0)
"""What passes for a communicator of one process."""


@pytest.mark.parametrize(
    ("options", "message"),
    [({"workers": 0}, "workers"), ({"workers": 2.5}, "workers"), ({"workers": 2, "comm": ALONE}, "not both")],
)
def test_wrong_workers_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve_polynomials(katsura(2), **options)


def test_the_seed_decides_alone() -> None:
    first, second = solve_polynomials(katsura(3), seed=3), solve_polynomials(katsura(3), seed=3)
    np.testing.assert_array_equal(first.solutions, second.solutions)


@pytest.mark.parametrize(
    ("expressions", "variables", "message"),
    [
        ([sp.sin(x)], [x], "expression 1, sin"),
        ([x, x * y], [x], "expression 2, .* no polynomial in x"),
        ([1 / x], [x], "no polynomial"),
        (["x +"], [x], "no expression of SymPy"),
        ([x * y - 1], [x, y], "1 polynomials in 2 variables .* decompose"),
        ([x, sp.Integer(3)], [x, y], "polynomial 2 is constant"),
        ([x**300, y**300], [x, y], "90000 paths"),
        ([], [], "at least one"),
    ],
)
def test_what_cannot_be_solved_is_said(expressions: list[Any], variables: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        solved(expressions, variables)


@pytest.mark.parametrize(
    ("coefficients", "exponents", "message"),
    [
        ([[1.0, 2.0]], [[1]], "shape"),
        ([[1.0]], [[-1]], "at least 0"),
        ([[1.0]], [[0.5]], "integers"),
        ([[1.0], [np.nan]], [[1]], "polynomial 2"),
        ([["a"]], [[1]], "numbers"),
    ],
)
def test_wrong_arrays_are_refused(coefficients: Any, exponents: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PolynomialSystem(coefficients, exponents)


@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5])
def test_simple_roots_close_to_each_other(distance: float) -> None:
    # (x - 1)(x - 1 - distance)
    system = PolynomialSystem([[1.0, -2.0 - distance, 1.0 + distance]], [[2], [1], [0]])
    roots = solve_polynomials(system, seed=3)
    found = np.sort(roots.real[:, 0])
    # Coefficients with an error of one unit in the last place move the roots by as much over their distance.
    assert found == pytest.approx([1.0, 1.0 + distance], abs=1e-15 / distance + 1e-14)
    assert roots.multiplicity.tolist() == [1, 1]
