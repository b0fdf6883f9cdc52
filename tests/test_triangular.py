"""Sparse factorisations by plain loops with the pivots of an earlier one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sparse
from helpers.machine import compiled

from dae_sdc.compiled import triangular
from dae_sdc.compiled.triangular import (
    GROWTH,
    NOT_FINITE,
    REFACTORIZED,
    WEAK_PIVOT,
    RowPattern,
    TriangularFactors,
    copy_for,
    refactorize,
    solve_triangular,
    superlu_factors,
)
from dae_sdc.dae.linear import EPS, KLU, LEAST_REUSED_ORDER, SparseLU
from dae_sdc.errors import InputError
from dae_sdc.problems.grids import NavierStokes, TransmissionLine

Array = npt.NDArray[np.float64]

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")


def line(n: int, c: float = 0.05, t: float = 0.3) -> Any:
    P = TransmissionLine(sections=n // 2)
    return P.jacobian(P.u_exact(t), P.du_exact(t), t, c).copy()


def flow(cells: int, c: float = 0.05, t: float = 0.3, at_rest: bool = False) -> Any:
    P = NavierStokes(cells=cells)
    u = P.u_exact(t)
    return P.jacobian(0.0 * u if at_rest else u, P.du_exact(t), t, c).copy()


def scattered(n: int = 60, seed: int = 3, entries: float = 4.0) -> Any:
    """Random entries and a diagonal that makes every matrix well conditioned."""
    rng = np.random.default_rng(seed)
    pattern = sparse.random_array((n, n), density=entries / n, rng=rng, data_sampler=rng.standard_normal)
    return in_order(sparse.csc_matrix(pattern + sparse.diags_array(rng.uniform(4.0, 8.0, n))))


def in_order(matrix: Any) -> Any:
    matrix.sort_indices()
    return matrix


def badly_scaled(n: int, entries: float = 4.0) -> Any:
    scales = 10.0 ** np.random.default_rng(8).uniform(-25.0, 5.0, n)
    return sparse.csc_matrix(sparse.diags_array(scales) @ scattered(n, 3, entries))


def disturbed(matrix: Any, seed: int, size: float = 0.3) -> Any:
    changed = matrix.copy()
    changed.data *= np.random.default_rng(seed).uniform(1.0 - size, 1.0 + size, len(changed.data))
    return changed


def pairs(make: Any) -> list[Any]:
    first = make()
    return [first, *(disturbed(first, seed) for seed in range(3))]


CASES: dict[str, Any] = {
    "line": lambda: [line(200), line(200, 0.3, 0.7), line(200, 0.001, 1.4), disturbed(line(200), 1)],
    "long line": lambda: [line(700), line(700, 0.3, 0.7), line(700, 1e-6, 1.4)],
    "flow": lambda: [flow(8), flow(8, 0.3, 0.7), flow(8, 1e-5, 0.7), disturbed(flow(8), 1, 0.01)],
    "flow at rest first": lambda: [flow(8, at_rest=True), flow(8), flow(8, 0.01, 0.9)],
    "random 3": lambda: pairs(lambda: scattered(60, 3)),
    "random 4": lambda: pairs(lambda: scattered(200, 4)),
    "random 5": lambda: pairs(lambda: scattered(600, 5, 1.5)),
    "rows in small units": lambda: pairs(lambda: badly_scaled(60)),
    "rows of a large one": lambda: pairs(lambda: badly_scaled(600, 1.5)),
}


def prepared(matrix: Any) -> tuple[TriangularFactors, RowPattern, Array]:
    factorization = SparseLU(matrix)
    if matrix.shape[0] >= LEAST_REUSED_ORDER:
        # With the order of the columns taken over, as it is from the second matrix on.
        factorization = SparseLU(matrix, factorization)
    factors, pattern = superlu_factors(factorization, matrix)
    return factors, pattern, np.full(4 * factors.size, np.nan)


def dense(factors: TriangularFactors) -> tuple[Array, Array]:
    n = factors.size
    lower = sparse.csr_array((factors.lower_data, factors.lower_indices, factors.lower_indptr), shape=(n, n))
    upper = sparse.csr_array((factors.upper_data, factors.upper_indices, factors.upper_indptr), shape=(n, n))
    return lower.toarray() + np.eye(n), upper.toarray() + np.diag(1.0 / factors.inverse)


def check_factors(matrix: Any, factors: TriangularFactors) -> None:
    """Residual of a solve within the bound for elimination, and the error within what follows from it.

    N. J. Higham, Accuracy and Stability of Numerical Algorithms, SIAM (2002), theorem 9.4: the computed x
    solves a system that differs by at most 3 n eps |L| |U|; rounding the reciprocals and the scaling makes
    it 3 (n + 2).
    """
    n = factors.size
    rhs = matrix @ np.cos(np.arange(n))
    found, work = np.empty(n), np.empty(n)
    solve_triangular(factors, rhs, found, work)
    lower, upper = dense(factors)
    ordered = matrix.toarray()[np.ix_(factors.rows, factors.columns)] * factors.scale[:, None]
    right, x = rhs[factors.rows] * factors.scale, found[factors.columns]
    limit = 3 * (n + 2) * EPS * (np.abs(lower) @ (np.abs(upper) @ np.abs(x)))
    own_round_off = (n + 1) * EPS * (np.abs(ordered) @ np.abs(x) + np.abs(right))
    assert (np.abs(right - ordered @ x) <= limit + own_round_off).all()
    exact = np.linalg.solve(ordered, right)
    error_of_exact = np.abs(right - ordered @ exact)
    bound = 2.0 * np.abs(np.linalg.inv(ordered)) @ (limit + own_round_off + error_of_exact)
    assert (np.abs(x - exact) <= bound).all()
    assert bound.max() < 1e-3 * np.abs(exact).max(), "the limit must say something"


# --- patterns --------------------------------------------------------------------------------------


def filled_by_elimination(stored: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    full = stored.copy()
    for k in range(len(full)):
        full[k + 1 :, k + 1 :] |= np.outer(full[k + 1 :, k], full[k, k + 1 :])
    return full


@pytest.mark.parametrize("case", CASES)
def test_the_factors_have_the_places_that_elimination_fills_and_no_others(case: str) -> None:
    matrix = CASES[case]()[0]
    factors, pattern, _ = prepared(matrix)
    n = factors.size
    stored = sparse.csc_matrix((np.ones(len(matrix.data)), matrix.indices, matrix.indptr), shape=(n, n))
    expected = filled_by_elimination(stored.toarray()[np.ix_(factors.rows, factors.columns)] != 0.0)
    places = np.eye(n, dtype=bool)
    for indices, starts in (
        (factors.lower_indices, factors.lower_indptr),
        (factors.upper_indices, factors.upper_indptr),
    ):
        for i in range(n):
            row = indices[starts[i] : starts[i + 1]]
            assert (np.diff(row) > 0).all()
            assert not places[i, row].any()
            places[i, row] = True
    np.testing.assert_array_equal(places, expected)
    for part in (*pattern, *factors[:-1]):
        assert part.dtype in (np.int32, np.float64) and part.flags.c_contiguous


def test_zeros_that_a_matrix_stores_are_entries_of_its_pattern() -> None:
    """SciPy leaves zeros of SuperLU's factors out, so the factors alone do not show the pattern."""
    matrix = flow(8, at_rest=True)
    assert (matrix.data == 0.0).any()
    factorization = SparseLU(matrix)
    (lower, upper, *_), filled = factorization.parts(), superlu_factors(factorization, matrix)[0]
    assert len(filled.lower_data) + len(filled.upper_data) > lower.nnz + upper.nnz - 2 * filled.size
    for one, other in zip((lower, upper), dense(filled), strict=True):
        np.testing.assert_allclose(other, one.toarray(), rtol=1e-15)
    rhs, work, solution = np.sin(np.arange(filled.size)), np.empty(filled.size), np.empty(filled.size)
    solve_triangular(filled, rhs, solution, work)
    np.testing.assert_allclose(matrix @ solution, rhs, rtol=0.0, atol=1e-12)


def in_blocks(first: Any, second: Any) -> Any:
    """Equations of a system that is solved by itself before another one, in no order."""
    beside = sparse.random_array((first.shape[0], second.shape[0]), density=0.1, rng=np.random.default_rng(2))
    whole = sparse.csc_matrix(sparse.block_array([[first, beside], [None, second]]))
    return in_order(sparse.csc_matrix(whole[np.random.default_rng(4).permutation(whole.shape[0])]))


@pytest.mark.skipif(importlib.util.find_spec("kvxopt") is None, reason="kvxopt is not installed")
@pytest.mark.parametrize("factor", [1.0, 1.0 + 0.5j], ids=["real", "complex"])
@pytest.mark.parametrize("case", ["line", "flow", "random 3", "rows in small units", "blocks"])
def test_pivots_of_klu_are_taken_over(case: str, factor: complex) -> None:
    """KLU factorises blocks on the diagonal alone; with its pivots the whole matrix is factorised."""
    make = CASES.get(case, lambda: pairs(lambda: in_blocks(scattered(30), scattered(40))))
    matrices = [(factor * matrix).astype(type(factor)) for matrix in make()]
    factors, pattern = superlu_factors(KLU(matrices[0]), matrices[0])
    work = np.empty(4 * factors.size, dtype=matrices[0].dtype)
    for matrix in matrices[: 1 if case == "flow" else None]:  # later pivots may be weak at index 2
        assert refactorize(pattern, factors, matrix.data, work) == REFACTORIZED
        lower, upper = dense(factors)
        ordered = factors.scale[:, None] * matrix.toarray()[factors.rows][:, factors.columns]
        bound = 3 * factors.size * EPS * (np.abs(lower) @ np.abs(upper))
        assert (np.abs(lower @ upper - ordered) <= bound).all()


def test_an_update_that_cancels_by_chance_keeps_its_place() -> None:
    array = np.array([[2.0, 1.0, 1.0, 0.0], [1.0, 3.0, 0.0, 0.0], [1.0, 0.0, 4.0, 1.0], [0.0, 0.0, 1.0, 5.0]])
    cancelling = array.copy()
    cancelling[1, 2] = cancelling[2, 1] = 0.5
    matrix = sparse.csc_matrix(cancelling)
    factors, pattern, work = prepared(matrix)
    other = disturbed(matrix, 5)
    assert refactorize(pattern, factors, other.data, work) == REFACTORIZED
    check_factors(other, factors)


def test_a_matrix_that_fills_many_times_its_entries_gets_room() -> None:
    matrix = scattered(150, 9)
    diagonal = matrix.copy()
    diagonal.data[diagonal.indices != np.repeat(np.arange(150), np.diff(diagonal.indptr))] = 0.0
    factors, pattern, work = prepared(diagonal)
    entries = len(factors.lower_data) + len(factors.upper_data)
    assert max(len(factors.lower_data), len(factors.upper_data)) > len(matrix.data)
    assert refactorize(pattern, factors, matrix.data, work) == REFACTORIZED
    check_factors(matrix, factors)
    starts, link = np.empty((3, 151), dtype=np.int32), np.empty(151, dtype=np.int32)
    for room in (len(factors.lower_data), len(factors.upper_data)):
        for size, expected in ((room - 1, -1), (entries, entries)):
            lower, upper = np.empty((2, size), dtype=np.int32)
            rows = pattern.position, pattern.indptr, link, starts[2], lower, starts[0], upper, starts[1]
            needed = triangular.fill_in(*rows, 150, size)
            assert needed == expected


def test_factors_of_another_matrix_are_refused() -> None:
    fewer = sparse.csc_matrix(sparse.diags_array(np.ones(60)))
    with pytest.raises(InputError, match="not those of the matrix"):
        superlu_factors(SparseLU(scattered()), fewer)


@pytest.mark.parametrize("made", [lambda a: a.tocsr(), lambda a: a.toarray(), lambda a: a[:-1, :-1].tocsc()])
def test_a_matrix_of_another_form_is_refused_in_one_line(made: Any) -> None:
    matrix = scattered()
    with pytest.raises(InputError, match=r"CSC form of that size; got \w+ of shape \(") as error:
        superlu_factors(SparseLU(matrix), made(matrix))
    assert "\n" not in str(error.value)


def test_rows_out_of_order_and_entries_in_parts_are_summed() -> None:
    matrix = scattered()
    columns = [np.arange(a, b)[::-1] for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]
    order = np.repeat(np.concatenate(columns), 2)
    in_parts = sparse.csc_matrix(
        (0.5 * matrix.data[order], matrix.indices[order], 2 * matrix.indptr), shape=matrix.shape
    )
    factors, pattern, work = prepared(in_parts)
    kept = in_parts.indices.copy()
    assert refactorize(pattern, factors, in_parts.data, work) == REFACTORIZED
    np.testing.assert_array_equal(in_parts.indices, kept)
    check_factors(matrix, factors)


# --- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_other_values_of_a_pattern_are_factorised_with_its_pivots(case: str) -> None:
    first, *others = CASES[case]()
    factors, pattern, work = prepared(first)
    if "rows" in case:
        assert (factors.scale != 1.0).any()
    check_factors(first, factors)
    for matrix in (first, *others, first):
        kept = matrix.data.copy()
        assert refactorize(pattern, factors, matrix.data, work) == REFACTORIZED
        check_factors(matrix, factors)
        np.testing.assert_array_equal(matrix.data, kept)
        expected = SparseLU(matrix).solve(np.ones(factors.size))
        found = np.empty(factors.size)
        solve_triangular(factors, np.ones(factors.size), found, work)
        condition = np.linalg.cond(matrix.toarray() / np.abs(matrix).max(axis=1).toarray())
        assert np.abs(found - expected).max() <= factors.size * EPS * condition * np.abs(expected).max()


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_superlu_to_round_off(case: str) -> None:
    matrix = CASES[case]()[0]
    factors, pattern, work = prepared(matrix)
    mine = copy_for(factors)
    assert refactorize(pattern, mine, matrix.data, work) == REFACTORIZED
    products = [lower @ upper for lower, upper in (dense(factors), dense(mine))]
    lower, upper = dense(mine)
    bound = 2 * (factors.size + 1) * EPS * (np.abs(lower) @ np.abs(upper))
    assert (np.abs(products[0] - products[1]) <= bound).all()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_values_an_accepted_matrix_keeps_half_of_the_digits(seed: int) -> None:
    """The bounds on pivots and terms hold the backward error, with columns in their own units."""
    n = 40
    first = scattered(n, seed)
    factors, pattern, work = prepared(first)
    rng = np.random.default_rng(seed)
    accepted = 0
    for spread in (0.5, 1.0, 2.0, 4.0):
        matrix = first.copy()
        matrix.data = rng.standard_normal(len(matrix.data)) * 10.0 ** rng.uniform(
            -spread, spread, len(matrix.data)
        )
        if refactorize(pattern, factors, matrix.data, work) != REFACTORIZED:
            continue
        accepted += 1
        lower, upper = dense(factors)
        ordered = matrix.toarray()[np.ix_(factors.rows, factors.columns)]
        units = np.abs(ordered).sum(axis=0)
        rows = (np.abs(ordered) / units).sum(axis=1)
        error = np.abs(lower @ upper - ordered) / units / rows[:, None]
        assert error.max() <= n * EPS * (1.0 + n * triangular.LARGEST_GROWTH)
        assert (np.abs(1.0 / factors.inverse) / units > triangular.SMALLEST_PIVOT * rows * 0.999).all()
    assert accepted > 0


def test_units_of_the_unknowns_change_nothing() -> None:
    matrix = scattered(80, 6)
    factors, pattern, work = prepared(matrix)
    assert refactorize(pattern, factors, matrix.data, work) == REFACTORIZED
    kept = factors.lower_data.copy()
    powers = 2.0 ** np.random.default_rng(1).integers(-300, 300, 80)
    other = in_order(sparse.csc_matrix(matrix @ sparse.diags_array(powers)))
    assert np.array_equal(other.indices, matrix.indices)
    assert refactorize(pattern, factors, other.data, work) == REFACTORIZED
    np.testing.assert_array_equal(factors.lower_data, kept)
    assert refactorize(pattern, factors, 2.0**-400 * matrix.data, work) == REFACTORIZED
    np.testing.assert_array_equal(factors.lower_data, kept)


# --- what is refused -------------------------------------------------------------------------------


def full(size: int = 4) -> tuple[Any, TriangularFactors, RowPattern, Array]:
    """A matrix without zeros, of which every order is of the same pattern."""
    matrix = sparse.csc_matrix(np.ones((size, size)) + 4.0 * size * np.eye(size))
    return (matrix, *prepared(matrix))


def answer(ordered: Array) -> int:
    """What is said of a matrix given in the order of its pivots."""
    _, factors, pattern, work = full(len(ordered))
    array = np.empty_like(ordered)
    array[np.ix_(factors.rows, factors.columns)] = ordered
    with np.errstate(all="ignore"):
        return refactorize(pattern, factors, array.T.ravel().copy(), work)


SMALL = triangular.SMALLEST_PIVOT


@pytest.mark.parametrize(
    ("ordered", "expected"),
    [
        ([[2.0, 1.0], [1.0, 2.0]], REFACTORIZED),
        ([[0.0, 1.0], [1.0, 0.0]], WEAK_PIVOT),
        ([[-0.0, 1.0], [1.0, 1.0]], WEAK_PIVOT),
        ([[1.0, 2.0], [2.0, 4.0]], WEAK_PIVOT),
        ([[3.0, 0.1], [0.3, 0.01]], WEAK_PIVOT),
        ([[0.4 * SMALL, 1.0], [1.0, 1.0]], WEAK_PIVOT),
        ([[2.0 * SMALL, 1.0], [1.0, 1.0]], REFACTORIZED),
        ([[1.0, 1.0], [1.0, 1.0 + 0.1 * SMALL]], WEAK_PIVOT),
        ([[1.0, 1.0], [1.0, 1.0 + 4.0 * SMALL]], REFACTORIZED),
        # Rows and columns in small units are as good as others.
        ([[1.0, 1.0], [1e-30, 2e-30]], REFACTORIZED),
        ([[1.0, 1e-30], [1.0, 2e-30]], REFACTORIZED),
        ([[1e-30, 3e-30], [1.0, 1.0]], REFACTORIZED),
        # The last pivot is no smaller than its row, but what is left of larger terms.
        ([[2e-6, 0.0, 1.0], [0.0, 2e-6, 1.0], [1.0, -1.0, 0.1]], REFACTORIZED),
        ([[2e-8, 0.0, 1.0], [0.0, 2e-8, 1.0], [1.0, -1.0, 0.1]], WEAK_PIVOT),
        ([[0.0, 0.0], [0.0, 0.0]], WEAK_PIVOT),
        ([[1.0, 0.0], [1.0, 0.0]], WEAK_PIVOT),
        ([[1.0, 1.0], [0.0, 0.0]], WEAK_PIVOT),
        # There is no reciprocal of the column's size, or of the pivot.
        ([[1e-310, 0.0], [0.0, 1.0]], WEAK_PIVOT),
        ([[1.0, 3e-308], [0.0, 4e-309]], WEAK_PIVOT),
        ([[1e200, 1.0], [1.0, np.nan]], NOT_FINITE),
        ([[1.0, np.nan], [1.0, 1.0]], NOT_FINITE),
        ([[1.0, np.inf], [1.0, 1.0]], NOT_FINITE),
        ([[1.0, -np.inf], [1.0, np.inf]], NOT_FINITE),
        ([[1.5e308, 1.0], [1.5e308, 1.0]], NOT_FINITE),
        ([[1e-5, 1e305], [1.0, 1.0]], NOT_FINITE),
        ([[1e-5, 0.0, 1e305], [1.0, 1.0, 0.0], [0.0, 0.0, 1e305]], NOT_FINITE),
    ],
)
def test_pivots_and_numbers_that_need_another_factorisation_are_found(
    ordered: list[list[float]], expected: int
) -> None:
    assert answer(np.array(ordered)) == expected


def test_terms_that_grow_over_several_rows_are_found() -> None:
    """No pivot is too small for its row, but what the last row takes of one row multiplies the next."""
    size = 1e-3
    ordered = np.array([[size, 1.0, 0.0], [0.0, size, 1.0], [1.0, 0.0, 1.0]])
    assert answer(ordered) == REFACTORIZED
    ordered[0, 0] = ordered[1, 1] = 1e-5
    assert answer(ordered) == GROWTH


@pytest.mark.parametrize("case", ["line", "flow", "random 4"])
def test_a_column_that_vanishes_is_found_anywhere(case: str) -> None:
    matrix = CASES[case]()[0]
    factors, pattern, work = prepared(matrix)
    for column in range(0, factors.size, 7):
        changed = matrix.copy()
        changed.data[changed.indptr[column] : changed.indptr[column + 1]] = 0.0
        assert refactorize(pattern, factors, changed.data, work) == WEAK_PIVOT


def test_a_dependence_up_to_round_off_is_found() -> None:
    """The last pivot of a Laplacian without boundary values is round-off."""
    steps = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(299, 300))
    laplacian = sparse.csc_matrix(steps.T @ sparse.diags_array(np.linspace(0.1, 3.0, 299)) @ steps)
    regular = laplacian.copy()
    regular[0, 0] += 1.0
    factors, pattern, work = prepared(regular)
    assert refactorize(pattern, factors, laplacian.data, work) == WEAK_PIVOT


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_found_anywhere(value: float) -> None:
    matrix = scattered(30)
    factors, pattern, work = prepared(matrix)
    for entry in range(len(matrix.data)):
        data = matrix.data.copy()
        data[entry] = value
        assert refactorize(pattern, factors, data, work) == NOT_FINITE


@pytest.mark.parametrize("spoil", [0.0, np.nan])
def test_factors_recover_from_a_failure_with_the_next_matrix(spoil: float) -> None:
    matrix = line(200)
    factors, pattern, work = prepared(matrix)
    assert refactorize(pattern, factors, matrix.data, work) == REFACTORIZED
    kept = copy_for(factors)
    changed = matrix.data.copy()
    changed[matrix.indptr[100] : matrix.indptr[101]] = spoil
    assert refactorize(pattern, factors, changed, work) != REFACTORIZED
    factors.lower_data[:] = factors.upper_data[:] = factors.inverse[:] = np.nan
    assert refactorize(pattern, factors, matrix.data, work) == REFACTORIZED
    for one, other in zip(factors[:-1], kept[:-1], strict=True):
        np.testing.assert_array_equal(one, other)


# --- several matrices ------------------------------------------------------------------------------


def test_copies_share_what_is_the_pattern_and_nothing_else() -> None:
    first, second, *_ = CASES["line"]()
    factors, pattern, work = prepared(first)
    assert refactorize(pattern, factors, first.data, work) == REFACTORIZED
    before = copy_for(factors)
    other = copy_for(factors)
    own = {"lower_data", "upper_data", "inverse"}
    for name in TriangularFactors._fields[:-1]:
        mine, theirs = getattr(factors, name), getattr(other, name)
        assert (mine is theirs) == (name not in own)
        assert np.shares_memory(mine, theirs) == (name not in own)
    assert sum(getattr(other, name).nbytes for name in own) == 8 * (
        len(other.lower_data) + len(other.upper_data) + other.size
    )
    assert refactorize(pattern, other, second.data, work) == REFACTORIZED
    check_factors(second, other)
    for one, kept in zip(factors[:-1], before[:-1], strict=True):
        np.testing.assert_array_equal(one, kept)
    check_factors(first, factors)


def test_factors_do_not_depend_on_the_matrix_they_were_made_of() -> None:
    matrix = line(200)
    factors, pattern, work = prepared(matrix)
    values = matrix.data.copy()
    rows = matrix.indices.copy()
    matrix.indices[:] = 0
    matrix.indptr[:] = 0
    assert refactorize(pattern, factors, values, work) == REFACTORIZED
    original = line(200)
    np.testing.assert_array_equal(original.indices, rows)
    check_factors(original, factors)


@pytest.mark.parametrize("case", CASES)
def test_rows_of_a_supernode_are_subtracted_as_they_are_one_by_one(case: str) -> None:
    first, *others = CASES[case]()
    together, pattern, work = prepared(first)
    single = copy_for(together)
    rows = np.arange(together.size, dtype=np.int32)
    assert (pattern.supernode - rows).max() > 2 or "flow" not in case
    for matrix in others:
        assert refactorize(pattern, together, matrix.data, work) == REFACTORIZED
        assert refactorize(pattern._replace(supernode=rows), single, matrix.data, work) == REFACTORIZED
        same_numbers(together, single)


@pytest.mark.parametrize("case", CASES)
def test_rows_of_a_supernode_share_their_columns(case: str) -> None:
    factors, pattern, _ = prepared(CASES[case]()[0])
    upper = [
        factors.upper_indices[begin:end].tolist()
        for begin, end in zip(factors.upper_indptr, factors.upper_indptr[1:], strict=False)
    ]
    for i in range(factors.size - 1):
        if pattern.supernode[i] > i:
            assert upper[i] == [i + 1, *upper[i + 1]] and pattern.supernode[i] == pattern.supernode[i + 1]


# --- compiled --------------------------------------------------------------------------------------


def same_numbers(one: TriangularFactors, other: TriangularFactors) -> None:
    for mine, theirs in zip(one[:-1], other[:-1], strict=True):
        np.testing.assert_array_equal(mine, theirs)


@needs_numba
@pytest.mark.parametrize("case", CASES)
def test_compiled_loops_give_the_same_numbers(case: str) -> None:
    first, *others = CASES[case]()
    plain, pattern, work = prepared(first)
    machine = copy_for(plain)
    for matrix in others:
        assert refactorize(pattern, plain, matrix.data, work) == REFACTORIZED
        kept = work.copy()
        assert compiled(refactorize)(pattern, machine, matrix.data, work) == REFACTORIZED
        same_numbers(plain, machine)
        np.testing.assert_array_equal(work, kept)


@needs_numba
def test_compiled_loops_give_the_same_answers() -> None:
    _, factors, pattern, work = full(8)
    rng = np.random.default_rng(0)
    met = []
    for _ in range(200):
        array = np.diag(10.0 ** rng.uniform(-8, 0, 8)) + (rng.random((8, 8)) < 0.2)
        reordered = np.empty((8, 8))
        reordered[np.ix_(factors.rows, factors.columns)] = array
        values = reordered.T.ravel().copy()
        if rng.random() < 0.1:
            values[rng.integers(64)] = rng.choice([np.nan, np.inf, 1e308])
        with np.errstate(all="ignore"):
            met.append(refactorize(pattern, factors, values, work))
        assert compiled(refactorize)(pattern, copy_for(factors), values, work) == met[-1]
    assert set(met) == {REFACTORIZED, WEAK_PIVOT, GROWTH, NOT_FINITE}


@pytest.mark.parametrize("case", CASES)
def test_compiled_and_plain_loops_find_the_same_patterns(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = CASES[case]()[0]
    monkeypatch.setattr(triangular, "LARGEST_PLAIN_PATTERN", 0)
    factors, pattern, _ = prepared(matrix)
    monkeypatch.setattr(triangular, "LARGEST_PLAIN_PATTERN", 10**9)
    other, same_pattern, _ = prepared(matrix)
    same_numbers(factors, other)
    for mine, theirs in zip(pattern, same_pattern, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_numba_is_not_imported_for_factors_that_are_only_solved_with() -> None:
    code = (
        "import sys, scipy.sparse, dae_sdc.compiled.triangular as t;"
        "from dae_sdc.dae.linear import factorize;"
        "a = scipy.sparse.eye_array(9, format='csc'); t.copy_for(t.superlu_factors(factorize(a), a)[0]);"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@needs_numba
@pytest.mark.parametrize("case", ["line", "flow", "rows in small units"])
def test_addresses_serve_as_arrays_in_compiled_code(case: str) -> None:
    from numba import cfunc, types
    from numba.extending import register_jitable

    from dae_sdc.compiled.machine_newton import doubles, integers, short_integers

    again, solve = register_jitable(refactorize), register_jitable(solve_triangular)

    def renew_at(at: Any, n: Any) -> Any:
        places = integers(at)
        factors = TriangularFactors(
            doubles(places[0]),
            short_integers(places[1]),
            short_integers(places[2]),
            doubles(places[3]),
            short_integers(places[4]),
            short_integers(places[5]),
            doubles(places[6]),
            short_integers(places[7]),
            short_integers(places[8]),
            doubles(places[9]),
            n,
        )
        pattern = RowPattern(
            short_integers(places[10]),
            short_integers(places[11]),
            short_integers(places[12]),
            short_integers(places[13]),
        )
        work = doubles(places[15])
        status = again(pattern, factors, doubles(places[14]), work)
        if status == REFACTORIZED:
            solve(factors, doubles(places[16]), doubles(places[16]), work)
        return status

    renew = cfunc(types.int64(types.int64, types.int64), error_model="numpy")(renew_at)
    first, *others = CASES[case]()
    plain, pattern, work = prepared(first)
    machine = copy_for(plain)
    for matrix in others:
        data, x = matrix.data.copy(), np.ones(plain.size)
        arrays = (*machine[:-1], *pattern, data, work, x)
        places = np.array([part.ctypes.data for part in arrays])
        assert renew.ctypes(places.ctypes.data, plain.size) == REFACTORIZED
        assert refactorize(pattern, plain, data, work) == REFACTORIZED
        same_numbers(plain, machine)
        expected = np.empty(plain.size)
        solve_triangular(plain, np.ones(plain.size), expected, work)
        np.testing.assert_array_equal(x, expected)
    data[:] = np.nan
    assert renew.ctypes(places.ctypes.data, plain.size) == NOT_FINITE
