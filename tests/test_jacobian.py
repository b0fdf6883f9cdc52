"""The two halves of a Jacobian: finite differences, colours, and iteration matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from dae_sdc.dae.jacobian import Linearization, linearize
from dae_sdc.dae.linear import column_groups
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE
from dae_sdc.errors import EvaluationError, InputError
from dae_sdc.problems.linear import HessenbergIndex1, HessenbergIndex2, HessenbergIndex3

HESSENBERG = (HessenbergIndex1, HessenbergIndex2, HessenbergIndex3)
N = 40


class Chain(ProblemDAE):
    """u_i' e^{-u_i} + u_i^3 - u_{i-1} u_{i+1} = 0: nonlinear, and tridiagonal in u."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(N, 0, **settings)
        self.sparsity = sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(N, N), format="csc")

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        x = np.pad(np.asarray(u), 1)
        return np.asarray(du) * np.exp(-x[1:-1]) + x[1:-1] ** 3 - x[:-2] * x[2:]

    def halves(self, u: Any, du: Any) -> tuple[Any, Any]:
        """dF/du' and dF/du by hand."""
        x = np.pad(np.asarray(u), 1)
        decay = np.exp(-x[1:-1])
        stiffness = np.diag(-np.asarray(du) * decay + 3.0 * x[1:-1] ** 2)
        stiffness += np.diag(-x[:-3], 1) + np.diag(-x[3:], -1)
        return np.diag(decay), stiffness


class DenseChain(Chain):
    """The same without its pattern."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.sparsity = None


def without_jacobian(cls: type[ProblemDAE]) -> ProblemDAE:
    problem: ProblemDAE = type("Differenced", (cls,), {"jacobian": None})()
    return problem


def point(P: ProblemDAE) -> tuple[MeshDAE, MeshDAE]:
    rng = np.random.default_rng(3)
    return P.state(rng.uniform(-2.0, 2.0, P.n)), P.state(rng.uniform(-2.0, 2.0, P.n))


def dense(matrix: Any) -> Any:
    return matrix.toarray() if sparse.issparse(matrix) else matrix


# --- finite differences ---------------------------------------------------------------------------


@pytest.mark.parametrize("cls", HESSENBERG)
def test_differences_agree_with_the_analytic_jacobian(cls: type[ProblemDAE]) -> None:
    exact_problem, differenced = cls(), without_jacobian(cls)
    u, du = point(exact_problem)
    exact, approximate = linearize(exact_problem, u, du, 0.3), linearize(differenced, u, du, 0.3)
    scale = 1.0 + np.abs(exact.stiffness).max()
    np.testing.assert_allclose(approximate.mass, exact.mass, atol=1e-6)
    np.testing.assert_allclose(approximate.stiffness, exact.stiffness, atol=1e-6 * scale)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if getattr(PROBLEMS[name], "jacobian", None)])
def test_the_jacobian_of_every_problem_of_the_library_is_that_of_its_residual(name: str) -> None:
    """By central differences with a step for each unknown; only cubic terms err, by h^2."""
    P = PROBLEMS[name]()
    t = P.interval[0]
    u, du = P.state(P.u_exact(t)), P.dtype_f(P.init)
    P.start_step(u, t)
    for c in (0.0, 0.37):
        given_matrix = dense(P.jacobian(u, du, t, c))  # type: ignore[attr-defined]
        for j in range(P.n):
            h = 1e-6 * (1.0 + abs(u[j]))
            shift = np.zeros(P.n)
            shift[j] = h
            forward = P.evaluate(P.state(u + c * shift), P.state(du + shift), t)
            backward = P.evaluate(P.state(u - c * shift), P.state(du - shift), t)
            column = (forward - backward) / (2.0 * h)
            tolerance = 1e-5 * (np.abs(given_matrix).max(axis=1) + 1e-10)
            assert (np.abs(given_matrix[:, j] - column) <= tolerance).all(), (name, P.names[j], c)


def test_differences_by_colours_agree_with_the_analytic_jacobian_and_are_sparse() -> None:
    P = Chain()
    u, du = point(P)
    found = linearize(P, u, du, 0.0)
    mass, stiffness = P.halves(u, du)
    for half, exact in ((found.mass, mass), (found.stiffness, stiffness)):
        assert sparse.issparse(half) and half.format == "csc"
        np.testing.assert_allclose(half.toarray(), exact, atol=1e-6 * (1.0 + np.abs(exact).max()))


def test_differences_with_and_without_colours_are_the_same_numbers() -> None:
    coloured, full = Chain(), DenseChain()
    u, du = point(full)
    one, other = linearize(coloured, u, du, 0.0), linearize(full, u, du, 0.0)
    assert isinstance(other.mass, np.ndarray)
    np.testing.assert_allclose(one.mass.toarray(), other.mass, atol=1e-6)
    np.testing.assert_allclose(one.stiffness.toarray(), other.stiffness, atol=1e-6)


def test_colours_make_the_number_of_evaluations_independent_of_the_size() -> None:
    coloured, full = Chain(), DenseChain()
    u, du = point(full)
    linearize(coloured, u, du, 0.0)
    linearize(full, u, du, 0.0)
    # The base, two that tell whether F is linear in u', and one for each colour of both halves.
    assert coloured.work_counters["rhs"].niter == 1 + 2 + 2 * 3
    assert full.work_counters["rhs"].niter == 1 + 2 + 2 * N


def test_differences_leave_the_state_as_it_was() -> None:
    P = DenseChain()
    u, du = point(P)
    before = u.tolist(), du.tolist()
    linearize(P, u, du, 0.0)
    assert (u.tolist(), du.tolist()) == before


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e8])
def test_the_step_of_the_differences_follows_the_size_of_the_unknown(size: float) -> None:
    class Square(ProblemDAE):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return [du[0] + u[0] * u[0]]

    P = Square(1, 0)
    for sign in (-1.0, 1.0):
        found = linearize(P, P.state([sign * size]), P.state([0.0]), 0.0).stiffness[0, 0]
        assert abs(found - 2.0 * sign * size) <= 1e-6 * max(1.0, size)


def test_a_pattern_may_be_given_in_any_sparse_format() -> None:
    P = Chain()
    u, du = point(P)
    expected = linearize(P, u, du, 0.0).stiffness.toarray()
    for form in (P.sparsity.tocoo(), P.sparsity.tocsr(), P.sparsity.toarray(), P.sparsity.astype(bool)):
        P.sparsity = form
        np.testing.assert_array_equal(linearize(P, u, du, 0.0).stiffness.toarray(), expected)


@pytest.mark.parametrize("shape", [(N - 1, N - 1), (N + 1, N + 1), (N, N + 1)])
def test_a_pattern_of_another_shape_is_refused_with_both_shapes(shape: tuple[int, int]) -> None:
    P = Chain()
    with pytest.raises(InputError) as error:
        P.sparsity = sparse.eye_array(*shape, format="csc")
    text = str(error.value)
    assert "sparsity" in text and f"({N}, {N})" in text and str(shape) in text and "\n" not in text


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.array, sparse.csc_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("where", ["dF/du'", "dF/du"])
def test_a_jacobian_that_is_not_finite_is_refused_with_its_half_and_time(
    bad: float, form: Any, where: str
) -> None:
    class Bad(ProblemDAE):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return [du[0], u[1]]

        def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
            entry = bad if where == "dF/du'" or c > 0.0 else 1.0
            return form([[entry, 0.0], [0.0, 1.0]])

    P = Bad(1, 1)
    with np.errstate(invalid="ignore"), pytest.raises(EvaluationError) as error:
        linearize(P, P.state([0.0, 0.0]), P.state([0.0, 0.0]), 2.5)
    text = str(error.value)
    assert text.startswith(f"{where} of Bad has a NaN or infinite entry at t=2.5")
    assert "\n" not in text


def test_differences_of_a_residual_that_is_not_finite_are_refused() -> None:
    class Root(ProblemDAE):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            with np.errstate(invalid="ignore"):
                return [du[0] - np.sqrt(u[0])]

    P = Root(1, 0)
    with pytest.raises(EvaluationError, match=r"dF/du.? of Root has a NaN or infinite entry at t=0"):
        linearize(P, P.state([-1e-20]), P.state([0.0]), 0.0)


# --- colours --------------------------------------------------------------------------------------


@st.composite
def patterns(draw: st.DrawFn) -> Any:
    n = draw(st.integers(1, 12))
    cells = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3 * n))
    pattern = np.zeros((n, n))
    for cell in cells:
        pattern[cell] = 1.0
    return sparse.csc_matrix(pattern)


@given(pattern=patterns())
def test_columns_of_a_group_share_no_row_and_every_column_is_in_one_group(pattern: Any) -> None:
    groups = column_groups(pattern)
    assert sorted(int(j) for group in groups for j in group) == list(range(pattern.shape[1]))
    assert all(len(group) for group in groups)
    for group in groups:
        assert (pattern.toarray()[:, group] != 0.0).sum(axis=1).max() <= 1


@given(pattern=patterns())
def test_no_fewer_groups_than_a_row_has_entries_and_no_more_than_greedy_can_need(pattern: Any) -> None:
    groups = column_groups(pattern)
    array = pattern.toarray() != 0.0
    neighbours = (array.T.astype(int) @ array.astype(int)) != 0
    np.fill_diagonal(neighbours, False)
    assert max(1, array.sum(axis=1).max()) <= len(groups) <= 1 + neighbours.sum(axis=1).max()


@pytest.mark.parametrize("n", [3, 10, 101])
def test_a_tridiagonal_pattern_needs_three_groups(n: int) -> None:
    pattern = sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n), format="csc")
    assert len(column_groups(pattern)) == 3


def test_a_diagonal_pattern_needs_one_group_and_a_full_one_as_many_as_columns() -> None:
    assert len(column_groups(sparse.eye_array(7, format="csc"))) == 1
    assert len(column_groups(sparse.csc_matrix(np.ones((7, 7))))) == 7


# --- iteration matrices ---------------------------------------------------------------------------


MASS = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
STIFFNESS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
FORMS = pytest.mark.parametrize(
    "form", [np.array, sparse.csc_matrix, sparse.csc_array], ids=["dense", "csc", "array"]
)


@FORMS
@pytest.mark.parametrize("n_integrated", [0, 2, 3])
def test_the_iteration_matrix_is_the_combination_of_the_halves(form: Any, n_integrated: int) -> None:
    matrix = Linearization(form(MASS), form(STIFFNESS)).iteration_matrix(0.25, n_integrated)
    np.testing.assert_array_equal(dense(matrix), MASS + 0.25 * STIFFNESS)


@FORMS
def test_without_a_coefficient_the_columns_that_are_not_integrated_hold_the_change_with_the_unknown(
    form: Any,
) -> None:
    matrix = Linearization(form(MASS), form(STIFFNESS)).iteration_matrix(0.0, 2)
    assert dense(matrix).tolist() == [[1.0, 0.0, 3.0], [0.0, 2.0, 6.0], [0.0, 0.0, 9.0]]


@FORMS
def test_without_a_coefficient_and_with_all_integrated_the_mass_matrix_remains(form: Any) -> None:
    matrix = Linearization(form(MASS), form(STIFFNESS)).iteration_matrix(0.0, 3)
    assert dense(matrix).tolist() == MASS.tolist()


@FORMS
@pytest.mark.parametrize("c", [0.0, 0.5])
def test_making_an_iteration_matrix_leaves_the_halves_as_they_were(form: Any, c: float) -> None:
    halves = Linearization(form(MASS), form(STIFFNESS))
    matrix = halves.iteration_matrix(c, 2)
    matrix *= 0.0
    assert dense(halves.mass).tolist() == MASS.tolist()
    assert dense(halves.stiffness).tolist() == STIFFNESS.tolist()


@given(c=st.floats(0.0, 10.0), n_integrated=st.integers(0, 3))
def test_dense_and_sparse_iteration_matrices_are_equal(c: float, n_integrated: int) -> None:
    one = Linearization(MASS, STIFFNESS).iteration_matrix(c, n_integrated)
    halves = Linearization(sparse.csc_matrix(MASS), sparse.csc_matrix(STIFFNESS))
    other = halves.iteration_matrix(c, n_integrated)
    np.testing.assert_array_equal(one, other.toarray())
