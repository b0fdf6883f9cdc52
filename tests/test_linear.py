"""Factorisations of all solvers, what they keep for the next matrix, GMRES, and solves by plain loops."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sparse
from helpers.machine import compiled
from hypothesis import given, strategies as st

from dae_sdc.compiled import triangular
from dae_sdc.dae import linear
from dae_sdc.dae.linear import (
    EPS,
    KLU,
    LARGEST_DENSE_BYTES,
    LARGEST_DIAGNOSED,
    LEAST_REUSED_ORDER,
    SOLVERS,
    DenseLU,
    SparseLU,
    column_groups,
    factorize,
    krylov,
)
from dae_sdc.errors import InputError, SingularMatrixError, SolveError
from dae_sdc.problems.grids import NavierStokes, TransmissionLine

Array = npt.NDArray[np.float64]

needs_klu = pytest.mark.skipif(importlib.util.find_spec("kvxopt") is None, reason="kvxopt is not installed")
needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")

EACH = [pytest.param(name, marks=needs_klu) if name == "klu" else name for name in SOLVERS]
SPARSE = ["superlu", pytest.param("klu", marks=needs_klu)]


def line(n: int, c: float = 0.05, t: float = 0.3) -> Any:
    P = TransmissionLine(sections=n // 2)
    return P.jacobian(P.u_exact(t), P.du_exact(t), t, c)


def flow(cells: int, c: float = 0.05, t: float = 0.3) -> Any:
    P = NavierStokes(cells=cells)
    return P.jacobian(P.u_exact(t), P.du_exact(t), t, c)


def scattered(n: int = 60, seed: int = 3) -> Any:
    """Random entries and a diagonal that makes every matrix well conditioned."""
    rng = np.random.default_rng(seed)
    pattern = sparse.random_array((n, n), density=4.0 / n, rng=rng, data_sampler=rng.standard_normal)
    return sparse.csc_matrix(pattern + sparse.diags_array(rng.uniform(4.0, 8.0, n)))


def badly_scaled(n: int = 60) -> Any:
    scales = 10.0 ** np.random.default_rng(8).uniform(-25.0, 5.0, n)
    return sparse.csc_matrix(sparse.diags_array(scales) @ scattered(n))


CASES: dict[str, Any] = {
    "random": scattered,
    "rows in small units": badly_scaled,
    "line": lambda: line(200),
    "flow": lambda: flow(8),
}


def residual_limit(matrix: Any, solution: Array) -> float:
    """Of elimination with rows scaled to 1: n eps times the growth of the elements, about n^(2/3).

    N. J. Higham, Accuracy and Stability of Numerical Algorithms, SIAM (2002), theorem 9.5; L. N. Trefethen,
    R. S. Schreiber, SIAM J. Matrix Anal. Appl. 11 (1990) 335, for the growth.
    """
    n = matrix.shape[0]
    scaled = equilibrated(matrix)
    return float(n ** (5 / 3) * EPS * np.abs(scaled).sum(axis=1).max() * np.abs(solution).max())


def equilibrated(matrix: Any) -> Array:
    array: Array = matrix.toarray()
    return array / np.abs(array).max(axis=1)[:, None]


def check_solution(matrix: Any, found: Array, rhs: Array) -> None:
    """Residual within what elimination leaves, error within that times the norm of the inverse."""
    rows = np.abs(matrix).max(axis=1).toarray().ravel()
    exact = np.linalg.solve(equilibrated(matrix), rhs / (rows if rhs.ndim == 1 else rows[:, None]))
    assert found.shape == rhs.shape
    limit = residual_limit(matrix, exact)
    left = rhs - matrix @ found
    assert np.abs((left.T / rows).T).max() <= limit
    inverse = np.abs(np.linalg.inv(equilibrated(matrix))).sum(axis=1).max()
    assert np.abs(found - exact).max() <= 2.0 * inverse * limit
    assert 2.0 * inverse * limit < 1e-3 * np.abs(exact).max(), "the limit must say something"


# --- solving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", EACH)
def test_every_solver_solves_every_system(solver: str, case: str) -> None:
    matrix = CASES[case]()
    rhs = matrix @ np.cos(np.arange(matrix.shape[0]))
    kept = rhs.copy(), matrix.data.copy()
    found = factorize(matrix, solver).solve(rhs)
    check_solution(matrix, found, rhs)
    assert found is not rhs
    np.testing.assert_array_equal(rhs, kept[0])
    np.testing.assert_array_equal(matrix.data, kept[1])


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", EACH)
def test_several_right_hand_sides_are_solved_as_one_by_one(solver: str, case: str, order: str) -> None:
    matrix = CASES[case]()
    n = matrix.shape[0]
    rhs = np.asarray(matrix @ np.cos(np.arange(4.0 * n)).reshape(n, 4), order="F" if order == "F" else "C")
    if order == "strided":
        rhs = np.repeat(rhs, 2, axis=1)[:, ::2]
    kept = rhs.copy()
    factors = factorize(matrix, solver)
    check_solution(matrix, factors.solve(rhs), rhs)
    check_solution(matrix, factors.solve(rhs[:, 1]), rhs[:, 1])
    assert factors.solve(rhs[:, :1]).shape == (n, 1)
    np.testing.assert_array_equal(rhs, kept)


@pytest.mark.parametrize("solver", EACH)
def test_every_solver_takes_an_array(solver: str) -> None:
    matrix = scattered()
    rhs = np.sin(np.arange(60.0))
    check_solution(matrix, factorize(matrix.toarray(), solver).solve(rhs), rhs)


@pytest.mark.parametrize("solver", SPARSE)
def test_rows_out_of_order_and_entries_in_parts_are_summed_and_left_alone(solver: str) -> None:
    matrix = scattered()
    columns = [np.arange(a, b)[::-1] for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]
    order = np.repeat(np.concatenate(columns), 2)
    given_matrix = sparse.csc_matrix(
        (0.5 * matrix.data[order], matrix.indices[order], 2 * matrix.indptr), shape=matrix.shape
    )
    kept = given_matrix.indices.copy()
    rhs = np.sin(np.arange(60.0))
    check_solution(matrix, factorize(given_matrix, solver).solve(rhs), rhs)
    np.testing.assert_array_equal(given_matrix.indices, kept)


@pytest.mark.parametrize("as_array", [True, False])
@pytest.mark.parametrize("solver", EACH)
def test_factors_do_not_change_with_the_matrix_they_were_made_of(solver: str, as_array: bool) -> None:
    """A problem may return the same matrix every time, with other values; flow is what KLU refines."""
    original = flow(20)
    matrix = original.toarray(order="F") if as_array else original.copy()
    factors = factorize(matrix, solver)
    (matrix if as_array else matrix.data)[...] = 0.0
    rhs = original @ np.cos(np.arange(original.shape[0]))
    check_solution(original, factors.solve(rhs), rhs)


def test_the_matrix_decides_between_lapack_and_superlu_and_the_user_overrides() -> None:
    matrix = scattered()
    assert isinstance(factorize(matrix), SparseLU)
    assert isinstance(factorize(sparse.csc_array(matrix), "auto"), SparseLU)
    assert isinstance(factorize(matrix.toarray()), DenseLU)
    assert isinstance(factorize(matrix, "dense"), DenseLU)
    assert isinstance(factorize(matrix.toarray(), "superlu"), SparseLU)


def test_an_unknown_solver_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InputError, match=r"unknown linear solver 'superlo'; did you mean 'superlu'") as error:
        factorize(np.eye(2), "superlo")
    assert all(name in str(error.value) for name in SOLVERS)


def test_a_matrix_too_large_to_be_made_dense_is_refused_before_it_is_made() -> None:
    largest_allowed = int((LARGEST_DENSE_BYTES / 8) ** 0.5)
    with pytest.raises(InputError, match=rf"n={largest_allowed + 1}.* GiB.*'superlu'") as error:
        factorize(sparse.eye_array(largest_allowed + 1, format="csc"), "dense")
    assert "\n" not in str(error.value)


def test_a_missing_kvxopt_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kvxopt", None)
    with pytest.raises(InputError, match=r"pip install 'dae_sdc\[klu\]'") as error:
        factorize(scattered(), "klu")
    assert "\n" not in str(error.value)
    rhs = np.ones(60)
    check_solution(scattered(), factorize(scattered()).solve(rhs), rhs)


def test_neither_numba_nor_kvxopt_is_imported_unasked() -> None:
    code = (
        "import sys, numpy, scipy.sparse, dae_sdc.compiled.triangular;"
        "from dae_sdc.dae.linear import factorize;"
        "a = scipy.sparse.eye_array(700, format='csc'); f = factorize(a); factorize(a, like=f);"
        "f = dae_sdc.compiled.triangular.superlu_factors(f, a)[0]; b = numpy.ones(700);"
        "dae_sdc.compiled.triangular.solve_triangular(f, b, b, b.copy());"
        "print(sorted({'numba', 'kvxopt'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- singular matrices -----------------------------------------------------------------------------


def dependent_column(matrix: Any, j: int) -> Any:
    changed = sparse.lil_matrix(matrix)
    changed[:, j] = 0.1 * matrix[:, 0] + 0.7 * matrix[:, j + 1]
    return sparse.csc_matrix(changed)


def without(
    matrix: Any, row: int | None = None, column: int | None = None, keep_entries: bool = False
) -> Any:
    """With a row or column of zeros, which are entries of the pattern or not."""
    changed = matrix.copy()
    mine = np.zeros(len(changed.data), dtype=bool)
    if row is not None:
        mine |= changed.indices == row
    if column is not None:
        mine[changed.indptr[column] : changed.indptr[column + 1]] = True
    changed.data[mine] = 0.0
    if not keep_entries:
        changed.eliminate_zeros()
    return changed


@pytest.mark.parametrize("case", ["random", "line", "flow"])
@pytest.mark.parametrize("solver", EACH)
def test_a_dependence_up_to_round_off_is_found(solver: str, case: str) -> None:
    matrix = dependent_column(CASES[case](), 7)
    with pytest.raises(SingularMatrixError) as error:
        factorize(matrix, solver)
    _, unknown = (int(part) for part in str(error.value).split(","))
    assert unknown in (0, 7, 8)


@pytest.mark.parametrize("solver", EACH)
def test_a_dependence_between_rows_in_small_units_is_named(solver: str) -> None:
    matrix = badly_scaled()
    for j in (7, 20, 41):
        with pytest.raises(SingularMatrixError) as error:
            factorize(dependent_column(matrix, j), solver)
        _, unknown = (int(part) for part in str(error.value).split(","))
        assert unknown in (0, j, j + 1)


@pytest.mark.parametrize("keep_entries", [True, False])
@pytest.mark.parametrize("solver", EACH)
def test_an_empty_row_or_column_is_found_and_named(solver: str, keep_entries: bool) -> None:
    with pytest.raises(SingularMatrixError) as error:
        factorize(without(scattered(), row=11, keep_entries=keep_entries), solver)
    assert str(error.value).split(",")[0] == "11"
    with pytest.raises(SingularMatrixError) as error:
        factorize(without(scattered(), column=5, keep_entries=keep_entries), solver)
    assert str(error.value).split(",")[1] == "5"


@pytest.mark.parametrize("solver", EACH)
def test_a_structural_singularity_without_an_empty_row_is_found(solver: str) -> None:
    """Three columns with entries in the same two rows, whatever their values are."""
    matrix = sparse.lil_matrix(scattered())
    matrix[:, [4, 20, 33]] = 0.0
    matrix[np.ix_([2, 9], [4, 20, 33])] = [[1.0, 2.0, -1.0], [3.0, 0.5, 0.3]]
    with pytest.raises(SingularMatrixError):
        factorize(sparse.csc_matrix(matrix), solver)


def test_random_patterns_are_solved_or_singular_and_leave_the_interpreter_alive() -> None:
    """SuperLU by itself ends the process by a segmentation fault here."""
    code = """
import numpy as np, scipy.sparse as sparse
from scipy.sparse.csgraph import structural_rank
from dae_sdc.dae.linear import superlu
from dae_sdc.errors import SingularMatrixError
random, counts = np.random.default_rng(1), [0, 0]
for k in range(2000):
    n = int(random.integers(3, 60))
    entries = int(random.integers(1, 4)) * n
    at = random.integers(0, n, (2, entries))
    matrix = sparse.csc_matrix((random.standard_normal(entries), at), shape=(n, n))
    if k % 2:
        matrix = sparse.csc_matrix(matrix + sparse.eye_array(n, format="csr")[random.permutation(n)])
    try:
        x = superlu(matrix).solve(np.ones(n))
        counts[0] += 1
        assert np.abs(matrix @ x - 1.0).max() <= 1e-9 * (1.0 + np.abs(x).max())
    except SingularMatrixError:
        counts[1] += 1
        assert structural_rank(matrix) < n
print(counts[0] > 950 and counts[1] > 750)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "True", f"exit code {done.returncode}: {done.stderr}"


def test_factors_that_do_not_fit_into_memory_are_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **settings: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(linear, "splu", full)
    with pytest.raises(SolveError, match=r"a matrix with 60 rows and \d+ entries do not fit into memory"):
        factorize(scattered())


def test_superlu_is_called_at_one_place() -> None:
    """So that nothing else can give it a matrix that ends the interpreter; both look at the pattern first."""
    room = Path(linear.__file__).parents[1]
    calls = [
        path.relative_to(room).as_posix()
        for path in room.rglob("*.py")
        if re.search(r"\b(splu|spilu|spsolve|factorized)\b", path.read_text())
    ]
    assert sorted(calls) == ["dae/linear.py"]


@pytest.mark.parametrize("solver", SPARSE)
def test_the_row_and_column_that_no_pivot_is_left_for_are_named_at_any_size(solver: str) -> None:
    n = 3 * LARGEST_DIAGNOSED
    matrix = sparse.lil_matrix(line(n))
    matrix[n // 2, :], matrix[:, 7] = 0.0, 0.0
    with pytest.raises(SingularMatrixError) as error:
        factorize(sparse.csc_matrix(matrix), solver)
    assert str(error.value) == f"{n // 2},7"


@pytest.mark.parametrize("n", [300, LARGEST_DIAGNOSED + 1])
@pytest.mark.parametrize("solver", EACH)
def test_a_laplacian_without_boundary_values_is_singular(solver: str, n: int) -> None:
    """Its last pivot is round-off and nowhere an exact zero."""
    steps = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(n - 1, n))
    weights = np.random.default_rng(1).uniform(0.1, 3.0, n - 1)
    matrix = sparse.csc_matrix(steps.T @ sparse.diags_array(weights) @ steps)
    with pytest.raises(SingularMatrixError) as error:
        factorize(matrix, solver)
    assert (str(error.value) == "") == (n > LARGEST_DIAGNOSED), "naming takes hours where n is large"
    repaired = matrix.copy()
    repaired[0, 0] += 1.0
    factorize(repaired, solver)


# --- earlier factors -------------------------------------------------------------------------------


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The orderings that SuperLU is asked for."""
    orderings: list[str] = []
    splu = linear.splu

    def record(matrix: Any, **settings: Any) -> Any:
        orderings.append(settings.get("permc_spec", "COLAMD"))
        return splu(matrix, **settings)

    monkeypatch.setattr(linear, "splu", record)
    return orderings


@pytest.mark.parametrize("case", ["line", "flow"])
@pytest.mark.parametrize("solver", EACH)
def test_the_next_matrix_of_a_pattern_is_solved_with_the_ordering_of_the_first(
    solver: str, case: str
) -> None:
    make, size = (line, 600) if case == "line" else (flow, 15)
    first = make(size, c=0.05)
    rhs = np.cos(np.arange(first.shape[0]))
    assert first.shape[0] >= LEAST_REUSED_ORDER
    factors = factorize(first, solver)
    before = factors.solve(rhs)
    for c, t in ((0.3, 0.7), (0.01, 0.9)):
        later = make(size, c=c, t=t)
        factors_later = factorize(later, solver, like=factors)
        check_solution(later, factors_later.solve(rhs), rhs)
        block = np.stack([rhs, rhs[::-1]], axis=1)
        check_solution(later, factors_later.solve(block), block)
        np.testing.assert_array_equal(factors.solve(rhs), before, "the earlier factors must stay as they are")
        factors = factors_later
        before = factors.solve(rhs)


def test_superlu_orders_a_pattern_once(monkeypatch: pytest.MonkeyPatch) -> None:
    orderings = recorded(monkeypatch)
    factors = factorize(scattered(600), "superlu")
    factors = factorize(1.1 * scattered(600), "superlu", like=factors)
    factors = factorize(0.3 * scattered(600), "superlu", like=factors)
    assert orderings == ["COLAMD", "NATURAL", "NATURAL"]
    factorize(scattered(602), "superlu", like=factors)
    assert orderings[3:] == ["COLAMD"]
    small = factorize(line(100), "superlu")
    factorize(line(100), "superlu", like=small)
    assert orderings[4:] == ["COLAMD", "COLAMD"]


@needs_klu
def test_klu_analyses_a_pattern_once() -> None:
    one: Any = factorize(line(100), "klu")
    other: Any = factorize(line(100, c=0.2), "klu", like=one)
    assert other._analysis is one._analysis
    third: Any = factorize(line(102), "klu", like=other)
    assert third._analysis is not one._analysis


@pytest.mark.parametrize("solver", SPARSE)
def test_a_changed_pattern_is_noticed(solver: str) -> None:
    """Of the same size and the same number of entries in every column."""
    matrix = line(600)
    factors: Any = factorize(matrix, solver)
    other = sparse.csc_matrix(matrix[np.roll(np.arange(600), 1)])
    other.sort_indices()
    assert len(other.data) == len(matrix.data)
    later: Any = factorize(other, solver, like=factors)
    rhs = np.cos(np.arange(600))
    check_solution(other, later.solve(rhs), rhs)
    if solver == "klu":
        assert later._analysis is not factors._analysis


@pytest.mark.parametrize("solver", SPARSE)
def test_a_pattern_that_is_altered_in_place_is_noticed(solver: str) -> None:
    matrix = line(600)
    factors = factorize(matrix, solver)
    factors = factorize(matrix, solver, like=factors)
    matrix.indices[:] = 599 - matrix.indices
    matrix.has_sorted_indices = matrix.has_canonical_format = False
    matrix.sort_indices()
    later: Any = factorize(matrix, solver, like=factors)
    rhs = np.cos(np.arange(600))
    check_solution(matrix, later.solve(rhs), rhs)
    if solver == "klu":
        assert isinstance(later, KLU), "factors of another matrix do not stand the test"


@pytest.mark.parametrize("solver", SPARSE)
def test_a_pivot_that_becomes_zero_is_no_obstacle(solver: str) -> None:
    """With zeros on the diagonal, rows must be exchanged that were not before."""
    n = 600
    before = sparse.diags_array([1.0, 5.0, 2.0], offsets=[-1, 0, 1], shape=(n, n), format="csc")
    factors = factorize(before, solver)
    changed = before.copy()
    changed.setdiag(0.0)
    # Unknowns in pairs, each in the equation of the other, with little from the next pair.
    changed.setdiag(np.where(np.arange(n - 1) % 2 == 0, 5.0, 1.0), k=1)
    changed.setdiag(np.where(np.arange(n - 1) % 2 == 0, 5.0, 1.0), k=-1)
    assert np.array_equal(changed.indices, before.indices)
    rhs = np.cos(np.arange(n))
    check_solution(changed, factorize(changed, solver, like=factors).solve(rhs), rhs)


@pytest.mark.parametrize("solver", SPARSE)
def test_a_matrix_that_becomes_singular_is_found_and_the_unknown_named_with_earlier_factors(
    solver: str,
) -> None:
    matrix = line(600)
    factors = factorize(matrix, solver)
    singular = without(matrix, column=123, keep_entries=True)
    with pytest.raises(SingularMatrixError) as error:
        factorize(singular, solver, like=factors)
    assert str(error.value).split(",")[1] == "123"
    # The last pivot of a Laplacian without boundary values is round-off.
    steps = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(699, 700))
    laplacian = sparse.csc_matrix(steps.T @ sparse.diags_array(np.linspace(0.1, 3.0, 699)) @ steps)
    regular = laplacian.copy()
    regular[0, 0] += 1.0
    with pytest.raises(SingularMatrixError):
        factorize(laplacian, solver, like=factorize(regular, solver))


@pytest.mark.parametrize("solver", SPARSE)
def test_earlier_factors_and_rows_in_small_units_go_together(solver: str) -> None:
    matrix = scattered(600)
    scales = 10.0 ** np.random.default_rng(2).uniform(-25.0, 5.0, 600)
    scaled = sparse.csc_matrix(sparse.diags_array(scales) @ matrix)
    rhs = scales * np.cos(np.arange(600))
    check_solution(scaled, factorize(scaled, solver, like=factorize(matrix, solver)).solve(rhs), rhs)


@pytest.mark.parametrize("solver", EACH)
def test_factors_of_another_solver_are_of_no_consequence(solver: str) -> None:
    matrix = line(600)
    rhs = np.cos(np.arange(600))
    for other in (DenseLU(np.eye(3)), SparseLU(matrix)):
        check_solution(matrix, factorize(matrix, solver, like=other).solve(rhs), rhs)


# --- KLU's pivots ----------------------------------------------------------------------------------


@needs_klu
def test_digits_that_klu_loses_come_back() -> None:
    """A pivot of 1/1000 of its column is accepted; with the constraints of flow the elements grow with it."""
    matrix = flow(30)
    rhs = np.cos(np.arange(matrix.shape[0]))
    factors: Any = factorize(matrix, "klu")
    assert isinstance(factors, KLU) and factors._refinements > 0
    backward = np.abs(rhs - matrix @ factors.solve(rhs)) / (abs(matrix) @ np.abs(factors.solve(rhs)))
    assert backward.max() <= matrix.shape[0] * EPS
    factors._refinements = 0
    lost = np.abs(rhs - matrix @ factors.solve(rhs)) / (abs(matrix) @ np.abs(factors.solve(rhs)))
    assert lost.max() > matrix.shape[0] * EPS, "without refinement there is nothing to bring back"


@needs_klu
def test_superlu_takes_the_place_of_factors_that_refinement_does_not_mend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linear, "MOST_REFINEMENTS", 0)
    matrix = flow(30)
    rhs = np.cos(np.arange(matrix.shape[0]))
    factors: Any = factorize(matrix, "klu")
    assert isinstance(factors, SparseLU)
    np.testing.assert_array_equal(factors.solve(rhs), SparseLU(matrix).solve(rhs))


# --- plain loops -----------------------------------------------------------------------------------


def as_it_is(matrix: Any) -> SparseLU:
    return SparseLU(matrix)


def by_an_earlier_ordering(matrix: Any) -> SparseLU:
    other = matrix.copy()
    other.data *= np.random.default_rng(4).uniform(0.9, 1.1, len(other.data))
    factors = SparseLU(matrix, SparseLU(other))
    return factors


@pytest.mark.parametrize("make", [as_it_is, by_an_earlier_ordering])
@pytest.mark.parametrize("case", [*CASES, "long line", "rows of a large one"])
def test_plain_loops_solve_as_superlu_does(case: str, make: Any) -> None:
    matrix = {**CASES, "long line": lambda: line(700), "rows of a large one": lambda: badly_scaled(600)}[
        case
    ]()
    n = matrix.shape[0]
    factors = triangular.superlu_factors(make(matrix), matrix)[0]
    rhs = matrix @ np.cos(np.arange(n))
    kept, out, work = rhs.copy(), np.empty(n), np.full(n, np.nan)
    triangular.solve_triangular(factors, rhs, out, work)
    check_solution(matrix, out, rhs)
    np.testing.assert_array_equal(rhs, kept)
    triangular.solve_triangular(factors, rhs, rhs, work)
    np.testing.assert_array_equal(rhs, out, "the right-hand side may be where the solution goes")


@needs_numba
@pytest.mark.parametrize("case", ["line", "flow", "rows in small units"])
def test_compiled_loops_give_the_same_numbers(case: str) -> None:
    matrix = CASES[case]()
    n = matrix.shape[0]
    factors = triangular.superlu_factors(SparseLU(matrix), matrix)[0]
    rhs = matrix @ np.sin(np.arange(n))
    plain, machine, work = np.empty(n), np.empty(n), np.empty(n)
    triangular.solve_triangular(factors, rhs, plain, work)
    compiled(triangular.solve_triangular)(factors, rhs, machine, work)
    np.testing.assert_array_equal(machine, plain)


def test_the_factors_are_those_of_the_matrix() -> None:
    """diag(scale) A with rows and columns in order is L U."""
    matrix = badly_scaled(40)
    parts = triangular.superlu_factors(SparseLU(matrix), matrix)[0]
    n = matrix.shape[0]
    lower = sparse.csr_array((parts.lower_data, parts.lower_indices, parts.lower_indptr), shape=(n, n))
    upper = sparse.csr_array((parts.upper_data, parts.upper_indices, parts.upper_indptr), shape=(n, n))
    assert sparse.triu(lower).nnz == 0 and sparse.tril(upper).nnz == 0
    product = (lower + sparse.eye_array(n)) @ (upper + sparse.diags_array(1.0 / parts.inverse))
    ordered = matrix.toarray()[np.ix_(parts.rows, parts.columns)] * parts.scale[:, None]
    assert np.abs(product.toarray() - ordered).max() <= n * EPS * np.abs(ordered).max()


def test_a_pivot_without_reciprocal_is_refused() -> None:
    matrix = sparse.diags_array([1.0, 1e-310], format="csc")
    with pytest.raises(SingularMatrixError):
        triangular.superlu_factors(SparseLU(matrix), matrix)


# --- GMRES -----------------------------------------------------------------------------------------


def remains(matrix: Any, factors: Any, rhs: Array, x: Array) -> float:
    """The relative preconditioned residual, computed anew."""
    return float(np.linalg.norm(factors.solve(rhs - matrix @ x)) / np.linalg.norm(factors.solve(rhs)))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", EACH)
def test_an_exact_preconditioner_needs_one_product(solver: str, case: str) -> None:
    matrix = CASES[case]()
    rhs = matrix @ np.cos(np.arange(matrix.shape[0]))
    x, products = krylov(lambda v: matrix @ v, rhs, factorize(matrix, solver), tolerance=1e-8)
    assert products == 1
    check_solution(matrix, x, rhs)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-7, 1e-11])
@pytest.mark.parametrize("case", ["line", "flow"])
def test_the_factors_of_another_step_size_lead_to_the_tolerance(case: str, tolerance: float) -> None:
    make, size = (line, 400) if case == "line" else (flow, 10)
    matrix, factors = make(size, c=0.05), factorize(make(size, c=0.06, t=0.2))
    rhs = matrix @ np.cos(np.arange(matrix.shape[0]))
    kept, seen = rhs.copy(), []

    def apply(v: Array) -> Any:
        seen.append(float(np.linalg.norm(v)))
        return matrix @ v

    x, products = krylov(apply, rhs, factors, tolerance, 60)
    assert products == len(seen) < 60
    np.testing.assert_allclose(seen, 1.0, rtol=matrix.shape[0] * EPS)
    np.testing.assert_array_equal(rhs, kept)
    # The solves behind the products leave errors of their own: n eps times the condition of the factors.
    condition = np.linalg.cond(equilibrated(matrix))
    slack = matrix.shape[0] * EPS * condition
    assert remains(matrix, factors, rhs, x) <= tolerance + slack
    assert krylov(apply, rhs, factors, 10.0 * tolerance, 60)[1] <= products
    exact = factorize(matrix).solve(rhs)
    assert np.linalg.norm(x - exact) <= 2.0 * (tolerance + slack) * np.linalg.norm(exact) * condition


def test_an_iteration_that_is_stopped_has_come_as_far_as_its_products_lead() -> None:
    matrix, factors = line(400, c=0.05), factorize(line(400, c=0.5))
    rhs = np.cos(np.arange(400))
    sizes = []
    for most in (1, 2, 4):
        x, products = krylov(lambda v: matrix @ v, rhs, factors, 1e-13, most)
        assert products == most
        sizes.append(remains(matrix, factors, rhs, x))
    assert 1.0 > sizes[0] > sizes[1] > sizes[2] > 1e-13


def test_a_singular_matrix_is_not_solved() -> None:
    x, products = krylov(lambda v: np.zeros(5), np.ones(5), factorize(np.eye(5)))
    assert not x.any() and products == 1
    across, _ = krylov(lambda v: np.array([v[1], 0.0]), np.array([0.0, 1.0]), factorize(np.eye(2)))
    assert not across[1]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("when", [1, 3])
def test_products_that_are_not_finite_end_the_iteration(bad: float, when: int) -> None:
    matrix, factors = line(400, c=0.05), factorize(line(400, c=0.5))
    calls = []

    def apply(v: Array) -> Any:
        calls.append(1)
        product = matrix @ v
        if len(calls) == when:
            product[3] = bad
        return product

    rhs = np.cos(np.arange(400))
    with np.errstate(invalid="ignore"):
        x, products = krylov(apply, rhs, factors, 1e-13, 8)
    assert products == when
    assert np.isfinite(x).all()
    assert x.any() == (when > 1)
    assert remains(matrix, factors, rhs, x) <= 1.0


def test_a_right_hand_side_that_is_zero_or_not_finite() -> None:
    factors = factorize(np.eye(3))
    for rhs in (np.zeros(3), np.array([1.0, np.nan, 0.0])):
        x, products = krylov(lambda v: v, rhs, factors)
        assert products == 0 and not x.any()


def test_units_of_the_equations_change_nothing() -> None:
    """Powers of two, so that every number is the same but for its exponent."""
    matrix, old = line(400, c=0.05), line(400, c=0.08)
    units = sparse.diags_array(2.0 ** np.random.default_rng(6).integers(-3, 4, 400))
    rhs = np.cos(np.arange(400))
    one, count = krylov(lambda v: matrix @ v, rhs, factorize(old), 1e-9)
    scaled = sparse.csc_matrix(units @ matrix)
    other, same = krylov(lambda v: scaled @ v, units @ rhs, factorize(sparse.csc_matrix(units @ old)), 1e-9)
    assert count == same
    slack = 400 * EPS * np.linalg.cond(old.toarray()) * np.linalg.cond(units.toarray())
    assert np.abs(one - other).max() <= slack * np.abs(one).max()


def test_directional_differences_serve_as_products() -> None:
    P = TransmissionLine(sections=200)
    u, du = P.u_exact(0.3), P.du_exact(0.3)
    c, base = 0.05, np.array(P.evaluate(u, du, 0.3))
    # Forward differences err by the square root of eps, which bounds what can be asked for.
    h = EPS**0.5

    def apply(v: Array) -> Any:
        return (P.evaluate(u + h * c * v, du + h * v, 0.3) - base) / h

    rhs = np.cos(np.arange(400.0))
    x, products = krylov(apply, rhs, factorize(line(400, c=0.06)), tolerance=1e-6)
    assert 1 < products < 15
    assert remains(line(400, c=0.05), factorize(line(400, c=0.06)), rhs, x) <= 1e-6 + 1e3 * h


# --- groups of columns -----------------------------------------------------------------------------


def groups_by_comparison(pattern: Any) -> list[list[int]]:
    """Each column in the first group that has none of its rows."""
    rows: list[set[int]] = []
    groups: list[list[int]] = []
    for j in range(pattern.shape[1]):
        mine = {int(i) for i in pattern.indices[pattern.indptr[j] : pattern.indptr[j + 1]]}
        for k in range(len(groups) + 1):
            if k == len(groups):
                groups.append([])
                rows.append(set())
            if not rows[k] & mine:
                groups[k].append(j)
                rows[k] |= mine
                break
    return groups


@given(n=st.integers(1, 40), density=st.floats(0.0, 0.4), seed=st.integers(0, 10**6))
def test_groups_are_those_of_the_greedy_comparison(n: int, density: float, seed: int) -> None:
    pattern = sparse.random_array((n, n), density=density, rng=np.random.default_rng(seed), format="csc")
    assert [group.tolist() for group in column_groups(pattern)] == groups_by_comparison(pattern)


@pytest.mark.parametrize(
    "problem", [TransmissionLine(sections=300), NavierStokes(cells=14)], ids=["line", "flow"]
)
def test_groups_of_the_large_problems_are_those_of_the_greedy_comparison(problem: Any) -> None:
    found = [group.tolist() for group in column_groups(problem.sparsity)]
    assert found == groups_by_comparison(problem.sparsity)
    assert len(found) < 30
