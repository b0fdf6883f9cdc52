"""The nonlinear solve of a node: it converges, keeps matrices, counts work, and says why it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import sparse
from scipy.integrate import solve_ivp
from scipy.optimize import fsolve

from dae_sdc.dae import newton as newton_module
from dae_sdc.dae.linear import DenseLU, SparseLU, factorize
from dae_sdc.dae.newton import MOST_KEPT_MATRICES, ModifiedNewton, NodeSystem
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, attach
from dae_sdc.errors import DAEError, EvaluationError, NewtonError, SingularMatrixError
from dae_sdc.problems.linear import HessenbergIndex1, HessenbergIndex2, HessenbergIndex3
from dae_sdc.run.solve import solve

Array = NDArray[np.float64]
HESSENBERG = (HessenbergIndex1, HessenbergIndex2, HessenbergIndex3)
EPS = float(np.finfo(float).eps)


@dataclass
class Node:
    """A node whose value is u = r + c u' in the integrated unknowns, and its Newton iteration."""

    problem: ProblemDAE
    n_integrated: int | None = None

    def __post_init__(self) -> None:
        n = self.problem.n
        self.integrated = n if self.n_integrated is None else self.n_integrated
        self.newton = ModifiedNewton(self.problem)
        self.system = NodeSystem(self.problem, self.integrated)

    def solve(self, r: Any, guess: Any, c: float, t: float = 0.0) -> tuple[Array, Array]:
        """u and u' at the node; ``r`` holds the guess in the unknowns that are not integrated."""
        u, du = np.array(r, dtype=float), np.array(guess, dtype=float)
        k = self.integrated
        du[k:] = 0.0
        u[:k] += c * du[:k]
        self.system.place(u, du, t, c, (t - c, 2.0 * c), 2)
        self.newton.solve(self.system)
        return u, du

    def count(self, name: str) -> int:
        number: int = self.problem.work_counters[name].niter
        return number

    def residual(self, u: Array, du: Array, t: float) -> Array:
        split = self.problem.n_diff
        return np.asarray(self.problem.eval_f(attach(u, split), attach(du, split), t), dtype=float)


def scalar(
    function: Callable[[float], float], slope: Callable[[float], float], name: str = "balance"
) -> Node:
    """A node with the single algebraic equation f(z) = 0."""

    class Equation(ProblemDAE):
        equation_names = (name,)
        names = ("z",)

        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return [function(float(u[0]))]

        def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
            return np.array([[c * slope(float(u[0]))]])

    return Node(Equation(0, 1), n_integrated=0)


def one_line(error: BaseException) -> str:
    text = str(error)
    assert text and "\n" not in text
    return text


# --- solutions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", HESSENBERG)
@pytest.mark.parametrize("semi", [False, True], ids=["all integrated", "differential integrated"])
def test_a_nonlinear_node_is_solved_to_its_tolerance(cls: type[ProblemDAE], semi: bool) -> None:
    """Compared with MINPACK, which is another algorithm."""
    P = cls(newton_tol=1e-12)
    node = Node(P, P.n_diff if semi else None)
    c = 0.05
    start, slope = np.asarray(P.u_exact(0.0)), np.asarray(P.du_exact(0.0))
    u, du = node.solve(start, slope, c, t=c)
    k = node.integrated

    def together(x: Array) -> Array:
        value, derivative = x.copy(), np.zeros_like(x)
        derivative[:k] = x[:k]
        value[:k] = start[:k] + c * x[:k]
        return node.residual(value, derivative, c)

    first = slope.copy()
    first[k:] = start[k:]
    expected = fsolve(together, first, xtol=1e-13)
    found = np.concatenate([du[:k], u[k:]])
    # MINPACK differences its Jacobian and the matrix at index 3 has a condition of 1/c^3.
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(u[:k], start[:k] + c * du[:k], rtol=1e-14, atol=1e-14)
    assert np.abs(node.residual(u, du, c)).max() < 1e-10


@pytest.mark.parametrize("tolerance", [1e-4, 1e-8, 1e-12])
def test_the_error_is_about_the_tolerance_that_was_asked_for(tolerance: float) -> None:
    """It is an estimate, on u' of the differential and z itself of the algebraic unknowns."""
    P = HessenbergIndex1(newton_tol=tolerance)
    v, dv = Node(HessenbergIndex1(newton_tol=1e-15)).solve(P.u_exact(0.0), P.du_exact(0.0), 0.1, t=0.1)
    u, du = Node(P).solve(P.u_exact(0.0), np.zeros(3), 0.1, t=0.1)
    assert (np.abs(du - dv) / (1.0 + np.abs(dv)))[:2].max() <= 10.0 * tolerance
    assert abs(u[2] - v[2]) / (1.0 + abs(v[2])) <= 10.0 * tolerance


def test_a_node_without_a_coefficient_is_solved_for_the_derivative_and_the_algebraic_unknowns() -> None:
    P = HessenbergIndex1(newton_tol=1e-12)
    node = Node(P, P.n_diff)
    r = np.asarray(P.u_exact(0.3)).copy()
    r[2] += 0.5
    u, du = node.solve(r, [0.0, 0.0, 0.0], 0.0, t=0.3)
    np.testing.assert_allclose(u, P.u_exact(0.3), rtol=1e-11)
    np.testing.assert_allclose(du[:2], P.du_exact(0.3)[:2], rtol=1e-11)
    assert u[:2].tolist() == r[:2].tolist(), "without a coefficient the integrated unknowns cannot move"


@pytest.mark.parametrize("cls", HESSENBERG)
def test_a_tolerance_below_round_off_ends_with_a_residual_at_round_off(cls: type[ProblemDAE]) -> None:
    P = cls(newton_tol=1e-17)
    node = Node(P)
    for c in (0.1, 0.05, 0.1, 0.02):
        u, du = node.solve(P.u_exact(0.0), P.du_exact(0.0), c, t=c)
        terms = 1.0 + node.system.magnitude(node.newton.last_linearization)
        assert (np.abs(node.residual(u, du, c)) <= 100.0 * EPS * terms).all()


# --- kept matrices --------------------------------------------------------------------------------


class Linear(ProblemDAE):
    """M u' + K u = f(t) with constant matrices; u = (sin t, cos t, z) with z = sin t + cos t."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)
        self.M = np.diag([1.0, 1.0, 0.0])
        self.K = np.array([[2.0, -1.0, 0.0], [0.0, 3.0, 1.0], [-1.0, -1.0, 1.0]])

    def force(self, t: float) -> Array:
        exact, slope = (
            np.array([np.sin(t), np.cos(t), np.sin(t) + np.cos(t)]),
            np.array([np.cos(t), -np.sin(t), 0.0]),
        )
        result: Array = self.M @ slope + self.K @ exact
        return result

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        return self.M @ np.asarray(du) + self.K @ np.asarray(u) - self.force(t)

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        return self.M + c * self.K


class DifferencedLinear(Linear):
    """The same without its Jacobian."""

    jacobian = None  # type: ignore[assignment]


class SparseLinear(Linear):
    """The same with a sparse Jacobian."""

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        return sparse.csc_matrix(self.M + c * self.K)


@pytest.mark.parametrize("cls", [Linear, SparseLinear, DifferencedLinear])
def test_a_linear_problem_is_factorised_once_for_each_coefficient(cls: type[ProblemDAE]) -> None:
    node = Node(cls())
    coefficients = (0.1, 0.05, 0.02)
    for t in np.linspace(0.0, 3.0, 20):
        for c in coefficients:
            u, du = node.solve([1.0, -1.0, 0.5], [0.0, 0.0, 0.0], c, t=float(t))
            assert np.abs(node.residual(u, du, float(t))).max() < 1e-9
    assert node.count("factorization") == len(coefficients)
    assert node.count("jacobian") == 1
    assert node.count("newton") <= 2 * 60 + len(coefficients)


def test_the_number_of_kept_matrices_is_bounded() -> None:
    node = Node(Linear())
    limit = MOST_KEPT_MATRICES
    for c in np.geomspace(1e-3, 1.0, 3 * limit):
        node.solve([1.0, -1.0, 0.5], [0.0, 0.0, 0.0], float(c))
        assert len(node.newton.kept) <= limit


class Stiffening(ProblemDAE):
    """u' + k(t) (u - 1) = 0 with a rate k that jumps from 1 to 10 000 at t = 1."""

    def __init__(self) -> None:
        super().__init__(1, 0)

    def rate(self, t: float) -> float:
        return 1.0 if t < 1.0 else 1e4

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        return [du[0] + self.rate(t) * (u[0] - 1.0)]

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        return np.array([[1.0 + c * self.rate(t)]])


def test_a_matrix_is_renewed_when_the_jacobian_changes_much_and_only_then() -> None:
    node = Node(Stiffening())
    c = 0.1
    for t in (0.0, 0.2, 0.4, 0.6):
        node.solve([0.0], [0.0], c, t=t)
    assert node.count("factorization") == node.count("jacobian") == 1
    u, du = node.solve([0.0], [0.0], c, t=1.5)
    assert du[0] == pytest.approx(1e4 / (1.0 + c * 1e4), rel=1e-9)
    assert node.count("factorization") == node.count("jacobian") == 2
    before = node.count("newton")
    u, du = node.solve([0.5], [0.0], c, t=1.6)
    assert u[0] == pytest.approx((0.5 + c * 1e4) / (1.0 + c * 1e4), rel=1e-9)
    assert node.count("factorization") == 2
    assert node.count("newton") - before <= 3


@pytest.mark.parametrize("factor", [0.5, 1.5, 1.9])
def test_a_matrix_that_halves_the_error_at_best_is_renewed_and_not_iterated_with(factor: float) -> None:
    """With J instead of factor J the error shrinks by abs(1 - factor) at a time: 1e-10 takes 34 and more."""

    class Drifting(Stiffening):
        def rate(self, t: float) -> float:
            return 90.0 if t < 1.0 else (factor * (1.0 + 0.1 * 90.0) - 1.0) / 0.1

    node = Node(Drifting())
    node.solve([0.0], [0.0], 0.1, t=0.0)
    before = node.count("newton")
    u, _ = node.solve([0.0], [0.0], 0.1, t=1.5)
    rate = node.problem.rate(1.5)  # type: ignore[attr-defined]
    assert u[0] == pytest.approx(0.1 * rate / (1.0 + 0.1 * rate), rel=1e-9)
    assert node.count("factorization") == 2
    assert node.count("newton") - before <= 5


# --- counters -------------------------------------------------------------------------------------


class Watch:
    """What the linear algebra really does, seen from outside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: Counter[str] = Counter()

        def watched(matrix: Any, solver: str, like: Any) -> Any:
            self.seen["factorization"] += 1
            factors, seen = factorize(matrix, solver), self.seen

            class Counted:
                def solve(self, rhs: Array) -> Array:
                    seen["solve"] += 1
                    return factors.solve(rhs)

            return Counted()

        monkeypatch.setattr(newton_module, "factorize", watched)


def arctangent() -> Node:
    return scalar(np.arctan, lambda z: 1.0 / (1.0 + z * z))


COUNTED: dict[str, Callable[[], Node]] = {
    "linear": lambda: Node(Linear()),
    "nonlinear": lambda: Node(HessenbergIndex1()),
    "damped": arctangent,
}


@pytest.mark.parametrize("make", COUNTED.values(), ids=COUNTED)
def test_factorisations_and_solves_are_counted_exactly(
    make: Callable[[], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    node = make()
    n = node.problem.n
    for t in (0.0, 0.3, 0.6):
        node.solve(np.full(n, 3.0 if n == 1 else 0.5), np.zeros(n), 0.1, t=t)
    assert node.count("factorization") == watch.seen["factorization"] > 0
    assert node.count("solve") == watch.seen["solve"] > 0


@pytest.mark.parametrize("make", COUNTED.values(), ids=COUNTED)
def test_residuals_of_a_solve_are_counted_exactly(make: Callable[[], Node]) -> None:
    node, calls = make(), 0
    n, original = node.problem.n, node.problem.eval_f

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*args)

    node.problem.eval_f = counted  # type: ignore[method-assign]
    node.solve(np.full(n, 3.0 if n == 1 else 0.5), np.zeros(n), 0.1)
    assert node.count("rhs") == calls > 0


def test_the_work_of_a_solve_that_fails_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    node = scalar(lambda z: z * z + 1.0, lambda z: 2.0 * z)
    with pytest.raises(DAEError):
        node.solve([0.7], [0.0], 0.1)
    assert node.count("solve") == watch.seen["solve"] > 0
    assert node.count("newton") > 0


def test_a_linear_problem_needs_one_iteration_and_at_most_one_more_to_know_it() -> None:
    node = Node(Linear())
    node.solve([1.0, -1.0, 0.5], [0.0, 0.0, 0.0], 0.1)
    assert 1 <= node.count("newton") <= 2
    assert node.count("solve") == node.count("newton")
    # The residual at the end is looked at, and the change of F that it is measured by.
    assert node.count("rhs") == node.count("newton") + 2


# --- difficult starts -----------------------------------------------------------------------------


def plain_newton_diverges(
    function: Callable[[float], float], slope: Callable[[float], float], z: float
) -> bool:
    for _ in range(50):
        z -= function(z) / slope(z)
        if not abs(z) < 1e10:
            return True
    return False


@pytest.mark.parametrize("start", [1.5, 3.0, -10.0, 100.0])
def test_a_start_from_which_plain_newton_diverges_is_handled_by_damping(start: float) -> None:
    def slope(z: float) -> float:
        return 1.0 / (1.0 + z * z)

    assert plain_newton_diverges(lambda z: float(np.arctan(z)), slope, start)
    u, _ = arctangent().solve([start], [0.0], 0.1)
    assert abs(u[0]) <= 1e-9, "ten times the tolerance"


def test_damping_finds_the_root_of_an_integrated_unknown_too() -> None:
    class Saturating(ProblemDAE):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return [np.arctan(50.0 * (du[0] - 2.0)) + u[0] * 0.0]

        def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
            return np.array([[50.0 / (1.0 + (50.0 * (du[0] - 2.0)) ** 2)]])

    u, du = Node(Saturating(1, 0)).solve([1.0], [0.0], 0.25)
    assert du[0] == pytest.approx(2.0, abs=1e-9)
    assert u[0] == pytest.approx(1.5, abs=1e-9)


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0.3, 0.7, 1.0, 3.0])
def test_a_system_without_a_solution_raises_with_time_node_history_and_equation(start: float) -> None:
    node = scalar(lambda z: z * z + 1.0, lambda z: 2.0 * z, name="impossible sphere")
    with pytest.raises(NewtonError) as error:
        node.solve([start], [0.0], 0.25, t=1.25)
    text = one_line(error.value)
    assert "did not converge at t=1.25, node 2 of the step from 1 with dt=0.5" in text
    assert "'impossible sphere'" in text and "tolerance 1.0e-10" in text and "reduce dt" in text
    assert error.value.time == 1.25
    assert error.value.equation == "impossible sphere"
    assert len(error.value.history) >= 2
    assert max(error.value.history) > 1e-10


def test_the_worst_of_several_equations_is_the_one_without_a_solution() -> None:
    class Half(ProblemDAE):
        names = ("y", "z")
        equation_names = ("rate of y", "no root")

        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return [du[0] + u[0], u[1] ** 2 + 1.0]

        def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
            return np.array([[1.0 + c, 0.0], [0.0, 2.0 * c * u[1]]])

    with pytest.raises(NewtonError) as error:
        Node(Half(1, 1), n_integrated=1).solve([1.0, 0.7], [0.0, 0.0], 0.1, t=0.1)
    assert error.value.equation == "no root"


def test_a_solve_after_a_failed_one_is_not_spoiled_by_it() -> None:
    node = scalar(lambda z: z * z - 4.0 if z > -1.0 else z * z + 1.0, lambda z: 2.0 * z)
    with pytest.raises(DAEError):
        node.solve([-3.0], [0.0], 0.1)
    assert node.solve([1.0], [0.0], 0.1)[0][0] == pytest.approx(2.0, abs=1e-9)


class Underdetermined(ProblemDAE):
    """y' = z, z = 1, and 0 = 0: nothing determines w."""

    names = ("y", "z", "w")
    equation_names = ("rate of y", "value of z", "idle")
    index = 1
    form: Any = np.array

    def __init__(self) -> None:
        super().__init__(1, 2)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        return [du[0] - u[1], u[1] - 1.0, 0.0]

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
        return self.form([[1.0, -c, 0.0], [0.0, c, 0.0], [0.0, 0.0, 0.0]])


class SparseUnderdetermined(Underdetermined):
    """The same with a sparse Jacobian."""

    form = sparse.csc_matrix


@pytest.mark.parametrize("cls", [Underdetermined, SparseUnderdetermined])
def test_a_singular_matrix_names_the_unknown_the_equation_time_and_node(cls: type[ProblemDAE]) -> None:
    with pytest.raises(SingularMatrixError) as error:
        Node(cls()).solve([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 0.5, t=2.5)
    text = one_line(error.value)
    assert (
        f"the iteration matrix of {cls.__name__} is singular at t=2.5, node 2 of the step from 2 with dt=1"
        in text
    )
    assert "it does not determine 'w' (equation 'idle')" in text
    assert "index stated: 1" in text


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("component", [0, 1, 2])
def test_a_residual_that_is_not_finite_is_refused_with_time_node_and_equation(
    bad: float, component: int
) -> None:
    class Bad(HessenbergIndex1):
        jacobian = HessenbergIndex1.jacobian  # type: ignore[misc,assignment]

        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            value = super().eval_f(u, du, t)
            value[component] = bad
            return value

    P = Bad()
    with pytest.raises(EvaluationError) as error, np.errstate(invalid="ignore"):
        Node(P).solve(P.u_exact(0.0), P.du_exact(0.0), 0.25, t=0.25)
    text = one_line(error.value)
    assert f"eval_f of Bad returned {bad} in '{P.equation_names[component]}' at t=0.25" in text
    assert "node 2 of the step from 0 with dt=0.5" in text


def test_a_step_into_a_region_where_the_residual_is_undefined_is_cut() -> None:
    """The first correction for log z = 1 from z = 10 leads to a negative z."""

    def logarithm(z: float) -> float:
        return float(np.log(z)) - 1.0 if z > 0.0 else float("nan")

    assert 10.0 - logarithm(10.0) * 10.0 < 0.0
    u, _ = scalar(logarithm, lambda z: 1.0 / z).solve([10.0], [0.0], 0.1)
    assert u[0] == pytest.approx(np.e, rel=1e-9)


# --- dense and sparse -----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", HESSENBERG)
def test_the_sparse_path_gives_the_same_as_the_dense_one(cls: type[ProblemDAE]) -> None:
    def jacobian(self: Any, u: Any, du: Any, t: float, c: float) -> Any:
        return sparse.csc_matrix(cls.jacobian(self, u, du, t, c))  # type: ignore[attr-defined]

    one, other = Node(cls()), Node(type("SparseJacobian", (cls,), {"jacobian": jacobian})())
    P = one.problem
    for c in (0.1, 0.05):
        u, du = one.solve(P.u_exact(0.0), P.du_exact(0.0), c, t=c)
        v, dv = other.solve(P.u_exact(0.0), P.du_exact(0.0), c, t=c)
        np.testing.assert_allclose(v, u, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(dv, du, rtol=1e-7, atol=1e-7)
    for name in ("newton", "jacobian", "factorization", "solve", "rhs"):
        assert one.count(name) == other.count(name)


def well_conditioned(n: int = 6) -> Array:
    return np.random.default_rng(5).standard_normal((n, n)) + 3.0 * np.eye(n)


FACTORS = pytest.mark.parametrize(
    ("kind", "form"), [(DenseLU, np.array), (SparseLU, sparse.csc_matrix)], ids=["dense", "sparse"]
)


@FACTORS
def test_factors_solve_the_system(kind: Any, form: Any) -> None:
    matrix, solution = well_conditioned(), np.arange(1.0, 7.0)
    rhs = matrix @ solution
    kept = rhs.copy()
    np.testing.assert_allclose(kind(form(matrix)).solve(rhs), solution, rtol=1e-12)
    assert rhs.tolist() == kept.tolist(), "the right-hand side is the caller's"


def test_the_kind_of_the_matrix_decides_the_kind_of_the_factors() -> None:
    assert isinstance(factorize(np.eye(2)), DenseLU)
    assert isinstance(factorize(sparse.csc_matrix(np.eye(2))), SparseLU)
    assert isinstance(factorize(sparse.csc_array(np.eye(2))), SparseLU)


@FACTORS
def test_a_column_that_depends_on_others_up_to_round_off_is_found(kind: Any, form: Any) -> None:
    """No pivot is exactly zero here: 0.1 + 0.2 times numbers with all digits leaves round-off."""
    matrix = well_conditioned()
    matrix[:, 3] = 0.1 * matrix[:, 0] + 0.7 * matrix[:, 4]
    with pytest.raises(SingularMatrixError) as error:
        kind(form(matrix))
    equation, unknown = (int(part) for part in str(error.value).split(","))
    assert unknown in (0, 3, 4)
    assert 0 <= equation < 6


@FACTORS
def test_an_empty_column_is_named(kind: Any, form: Any) -> None:
    matrix = well_conditioned()
    matrix[:, 2] = 0.0
    with pytest.raises(SingularMatrixError) as error:
        kind(form(matrix))
    assert str(error.value).split(",")[1] == "2"


@FACTORS
def test_an_equation_that_is_empty_is_named(kind: Any, form: Any) -> None:
    matrix = well_conditioned()
    matrix[4] = 0.0
    with pytest.raises(SingularMatrixError) as error:
        kind(form(matrix))
    assert str(error.value).split(",")[0] == "4"


@FACTORS
@given(scales=hnp.arrays(np.float64, 6, elements=st.floats(-20.0, 20.0)))
def test_units_of_the_unknowns_do_not_make_a_matrix_singular(kind: Any, form: Any, scales: Array) -> None:
    matrix = well_conditioned() * 10.0**scales
    found = kind(form(matrix)).solve(matrix @ (np.ones(6) / 10.0**scales))
    np.testing.assert_allclose(found * 10.0**scales, 1.0, rtol=1e-8)


@FACTORS
@given(scales=hnp.arrays(np.float64, 6, elements=st.floats(-20.0, 20.0)))
def test_units_of_the_equations_do_not_make_a_matrix_singular(kind: Any, form: Any, scales: Array) -> None:
    """Partial pivoting may lose digits to them, but the matrix has an inverse."""
    kind(form(well_conditioned() * 10.0 ** scales[:, None]))


@pytest.mark.parametrize("c", [1e-3, 1e-6, 1e-9, 1e-11])
def test_small_steps_do_not_make_the_iteration_matrix_of_an_index_3_problem_singular(c: float) -> None:
    """Scaling its rows and columns by powers of c leaves a matrix that hardly depends on c."""
    P = HessenbergIndex3()
    DenseLU(P.jacobian(P.u_exact(0.0), P.du_exact(0.0), 0.0, c))


class Robertson(ProblemDAE):
    """Robertson's reactions; the quasi-steady y2 is a root of a quadratic whose other root is negative."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        y1, y2, y3 = u
        produced = 0.04 * y1 - 1e4 * y2 * y3
        return [du[0] + produced, du[1] - produced + 3e7 * y2**2, y1 + y2 + y3 - 1.0]


@pytest.mark.parametrize("dt", [0.1, 0.02, 0.005])
@pytest.mark.parametrize(
    "sweeper", ["fully-implicit", "semi-implicit", "backward-euler", "radau-iia-5", "esdirk43"]
)
def test_an_old_matrix_does_not_lead_to_another_solution(sweeper: str, dt: float) -> None:
    def rates(t: float, y: Any) -> Any:
        produced = 0.04 * y[0] - 1e4 * y[1] * (1.0 - y[0] - y[1])
        return [-produced, produced - 3e7 * y[1] ** 2]

    exact = solve_ivp(rates, (0.0, 0.4), [1.0, 0.0], method="Radau", rtol=1e-9, atol=1e-12).y[:, -1]
    solution = solve(Robertson, u0=[1.0, 0.0, 0.0], dt=dt, t_end=0.4, sweeper=sweeper)
    assert solution.success
    assert solution.u[-1, 0] == pytest.approx(exact[0], abs=dt * 0.01)
    assert solution.u[-1, 1] == pytest.approx(exact[1], rel=0.01)


def test_a_jacobian_may_call_that_of_the_class_above() -> None:
    class Doubled(HessenbergIndex3):
        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            return 2.0 * super().jacobian(u, du, t, c)

    class Other(HessenbergIndex3):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return du - u

        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            return super().jacobian(u, du, t, c)

    one, own, other = HessenbergIndex3(), Doubled(), Other()
    u, du = one.u_exact(0.1), one.du_exact(0.1)
    matrix: Any = one.jacobian
    assert np.array_equal(2.0 * matrix(u, du, 0.1, 2.0), own.jacobian(u, du, 0.1, 2.0))
    assert np.array_equal(other.jacobian(u, du, 0.1, 2.0), matrix(u, du, 0.1, 2.0))
