"""The base class of every DAE: how it is called, what it counts, and what it says about wrong shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE
from dae_sdc.errors import InputError
from dae_sdc.problems.hessenberg import HessenbergIndex1, HessenbergIndex2, HessenbergIndex3
from dae_sdc.run.solve import solve

HESSENBERG = (HessenbergIndex1, HessenbergIndex2, HessenbergIndex3)


class Decay(ProblemDAE):
    """y' = -y, z = y^2, so y = exp(-t), z = exp(-2t); written by a user who returns a list."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        return [du.diff[0] + u.diff[0], u.alg[0] - u.diff[0] ** 2]

    def u_exact(self, t: float) -> Any:
        return [np.exp(-t), np.exp(-2.0 * t)]


class BatchedDecay(Decay):
    """The same with all nodes at once."""

    def residual_nodes(self, u: Any, du: Any, t: Any) -> Any:
        return np.stack([du[:, 0] + u[:, 0], u[:, 1] - u[:, 0] ** 2], axis=1)


def counts(P: ProblemDAE) -> dict[str, int]:
    return {name: counter.niter for name, counter in P.work_counters.items()}


def message(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as error:
        call()
    text = str(error.value)
    assert text and "\n" not in text
    return text


# --- calls ----------------------------------------------------------------------------------------


def test_the_residual_vanishes_along_the_solution_for_three_arguments() -> None:
    for cls in HESSENBERG:
        P = cls()
        for t in (0.0, 0.4, 1.0):
            F = P.eval_f(P.u_exact(t), P.du_exact(t), t)
            np.testing.assert_allclose(F, 0.0, atol=1e-14 * abs(P.u_exact(t)) ** 4)


def test_two_arguments_as_pysdc_calls_it_give_a_derivative_of_zeros_where_none_is_known() -> None:
    P = Decay()
    f = P.eval_f(P.state([1.0, 1.0]), 0.0)
    assert isinstance(f, MeshDAE)
    assert f.n_diff == 1
    assert np.asarray(f).tolist() == [0.0, 0.0]


def test_two_arguments_give_the_derivative_that_the_state_carries() -> None:
    class Last:
        def derivative_at_end(self) -> Any:
            return np.array([-1.0, -2.0])

    P = Decay()
    u = P.state([1.0, 1.0])
    u.polynomial = Last()
    assert np.asarray(P.eval_f(u, 0.0)).tolist() == [-1.0, -2.0]
    assert np.asarray(P.eval_f(P.dtype_u(u), 0.0)).tolist() == [-1.0, -2.0]


def test_the_call_of_a_subclass_reaches_the_residual_of_its_base() -> None:
    class Shifted(Decay):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            first, second = super().eval_f(u, du, t)
            return [first - 1.0, second]

    P = Shifted()
    F = P.eval_f(P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0)
    assert [float(value) for value in F] == [0.0, 0.0]


def test_a_residual_given_as_a_list_is_solved() -> None:
    solution = solve(Decay, dt=0.1, t_end=0.5, restol=1e-12)
    assert solution.success, solution.message
    np.testing.assert_allclose(solution.u[-1], [np.exp(-0.5), np.exp(-1.0)], rtol=1e-7)


def test_a_problem_without_a_residual_says_which_method_is_missing() -> None:
    class Empty(ProblemDAE):
        pass

    P = Empty(1, 0)
    text = message(lambda: P.eval_f(P.state([0.0]), P.state([0.0]), 0.0))
    assert "Empty defines no eval_f(self, u, du, t)" in text
    assert "pass an initial value u0" in message(lambda: P.u_exact(0.0))
    assert "Empty has no du_exact" in message(lambda: P.du_exact(0.0))


# --- one node and many ----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", HESSENBERG)
def test_all_nodes_at_once_give_what_node_after_node_gives(cls: type[ProblemDAE]) -> None:
    P = cls()
    one_by_one = type("OneByOne", (cls,), {"residual_nodes": None})()
    rng = np.random.default_rng(1)
    u, du, t = 1.0 + rng.random((4, P.n)), rng.random((4, P.n)), rng.random(4)
    at_once = P.evaluate_nodes(u, du, t)
    assert at_once.shape == (4, P.n)
    np.testing.assert_allclose(at_once, one_by_one.evaluate_nodes(u, du, t), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_every_problem_of_the_library_is_the_same_for_one_node_and_for_many(name: str) -> None:
    P = PROBLEMS[name]()
    t0, t1 = P.interval
    start = np.asarray(P.u_exact(t0))
    rng = np.random.default_rng(2)
    u = start + 1e-3 * rng.standard_normal((3, P.n)) * (1.0 + np.abs(start))
    du = rng.standard_normal((3, P.n))
    t = np.array([t0, t0 + 0.3 * (t1 - t0), t0 + 0.7 * (t1 - t0)])
    P.start_step(P.state(start), t0)
    at_once = P.evaluate_nodes(u, du, t)
    rows = [P.evaluate(P.state(x), P.state(dx), float(s)) for x, dx, s in zip(u, du, t, strict=True)]
    scale = 1.0 + np.abs(rows).max()
    np.testing.assert_allclose(at_once, rows, rtol=1e-11, atol=1e-12 * scale)


class OneArray(Decay):
    """The same by a user who fills and returns one array, to save time."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.buffer = np.zeros(2)

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
        self.buffer[:] = super().eval_f(u, du, t)
        return self.buffer


def test_a_residual_that_fills_one_array_gives_every_node_its_own_value() -> None:
    u, du, t = np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros((2, 2)), np.zeros(2)
    np.testing.assert_array_equal(OneArray().evaluate_nodes(u, du, t), Decay().evaluate_nodes(u, du, t))


def test_a_residual_that_fills_one_array_has_the_jacobian_of_its_function() -> None:
    one, other = OneArray(), Decay()
    u, du = one.state([2.0, 3.0]), one.state([0.5, 0.0])
    found, expected = linearize(one, u, du, 0.0), linearize(other, u, du, 0.0)
    np.testing.assert_array_equal(found.mass, expected.mass)
    np.testing.assert_array_equal(found.stiffness, expected.stiffness)


# --- counters -------------------------------------------------------------------------------------


def test_a_residual_is_counted_once() -> None:
    P = Decay()
    P.evaluate(P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0)
    assert counts(P) == {"rhs": 1, "newton": 0, "jacobian": 0, "factorization": 0, "solve": 0}


@pytest.mark.parametrize("cls", [Decay, BatchedDecay])
@pytest.mark.parametrize("nodes", [1, 3, 7])
def test_nodes_are_counted_one_by_one_however_they_are_evaluated(cls: type[ProblemDAE], nodes: int) -> None:
    P = cls()
    P.evaluate_nodes(np.ones((nodes, 2)), np.zeros((nodes, 2)), np.zeros(nodes))
    assert counts(P) == {"rhs": nodes, "newton": 0, "jacobian": 0, "factorization": 0, "solve": 0}


def test_finite_differences_count_one_evaluation_for_the_point_and_one_for_each_unknown_and_derivative() -> (
    None
):
    P = Decay()
    linearize(P, P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0)
    assert counts(P) == {"rhs": 5, "newton": 0, "jacobian": 1, "factorization": 0, "solve": 0}


def test_a_given_jacobian_is_counted_once_and_needs_no_residual() -> None:
    P = HessenbergIndex1()
    linearize(P, P.u_exact(0.0), P.du_exact(0.0), 0.0)
    assert counts(P) == {"rhs": 0, "newton": 0, "jacobian": 1, "factorization": 0, "solve": 0}


@pytest.mark.parametrize("cls", [Decay, BatchedDecay])
def test_the_residuals_of_a_whole_run_are_counted_exactly(cls: type[Decay]) -> None:
    calls = 0

    class Counted(cls):  # type: ignore[misc, valid-type]
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            nonlocal calls
            calls += 1
            return super().eval_f(u, du, t)

    if cls is BatchedDecay:

        def residual_nodes(self: Any, u: Any, du: Any, t: Any) -> Any:
            nonlocal calls
            calls += len(t)
            return BatchedDecay.residual_nodes(self, u, du, t)

        Counted.residual_nodes = residual_nodes
    made: list[ProblemDAE] = []

    class Watched(Counted):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            made.append(self)

    assert solve(Watched, dt=0.1, t_end=0.3).success
    assert calls == sum(P.work_counters["rhs"].niter for P in made) > 0


# --- names and shapes -----------------------------------------------------------------------------


def test_names_have_defaults_that_tell_unknowns_apart() -> None:
    P = Decay()
    assert P.names == ("u[0]", "u[1]")
    assert P.equation_names == ("equation 0", "equation 1")
    assert P.units == ("", "")
    assert Decay.names == (), "the default of an instance must not become that of the class"


@pytest.mark.parametrize("attribute", ["names", "units", "equation_names"])
def test_names_of_a_wrong_number_are_refused(attribute: str) -> None:
    cls = type("Misnamed", (Decay,), {attribute: ("a", "b", "c")})
    assert message(cls) == f"Misnamed.{attribute} has 3 entries for 2 unknowns"


def test_a_state_of_another_shape_is_refused_with_both_shapes() -> None:
    for wrong in ([1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0):
        text = message(lambda wrong=wrong: Decay().state(wrong))
        assert "a state of Decay has shape (2,), differential unknowns first" in text
        assert text.endswith(f"got shape {np.shape(wrong)}")


def test_a_state_is_a_copy_of_what_was_given() -> None:
    given = np.array([1.0, 2.0])
    Decay().state(given)[:] = 0.0
    assert given.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("value", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0])
def test_a_residual_of_another_shape_is_refused_with_both_shapes(value: Any) -> None:
    class Wrong(Decay):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return value

    P = Wrong()
    text = message(lambda: P.evaluate(P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0))
    assert "Wrong.eval_f must return 2 values, one an equation" in text
    assert text.endswith(f"got shape {np.shape(value)}")


@pytest.mark.parametrize("shape", [(3, 3), (2, 2), (2,)])
def test_residuals_of_nodes_of_another_shape_are_refused_with_both_shapes(shape: tuple[int, ...]) -> None:
    class Wrong(Decay):
        def residual_nodes(self, u: Any, du: Any, t: Any) -> Any:
            return np.zeros(shape)

    text = message(lambda: Wrong().evaluate_nodes(np.ones((3, 2)), np.zeros((3, 2)), np.zeros(3)))
    assert text == f"Wrong.residual_nodes must return shape (3, 2); got {shape}"


@pytest.mark.parametrize("shape", [(3, 3), (2, 3), (2,), (1, 2, 2)])
def test_a_jacobian_of_another_shape_is_refused_with_both_shapes(shape: tuple[int, ...]) -> None:
    class Wrong(Decay):
        def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Any:
            return np.ones(shape)

    P = Wrong()
    text = message(lambda: linearize(P, P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0))
    assert text == f"Wrong.jacobian must return shape (2, 2); got {shape}"


@pytest.mark.parametrize(("n_diff", "n_alg"), [(0, 0), (-1, 2), (2, -1)])
def test_a_problem_without_unknowns_is_refused(n_diff: int, n_alg: int) -> None:
    text = message(lambda: ProblemDAE(n_diff, n_alg))
    assert text == f"ProblemDAE needs at least one unknown; got n_diff={n_diff}, n_alg={n_alg}"


@pytest.mark.parametrize("value", [0.0, -1e-8, float("nan")])
def test_a_newton_tolerance_that_is_not_positive_is_refused(value: float) -> None:
    assert message(lambda: Decay(newton_tol=value)) == f"newton_tol must be positive; got {value}"


@pytest.mark.parametrize("value", [0, -3, 2.5])
def test_a_limit_of_newton_iterations_that_allows_none_is_refused(value: float) -> None:
    text = message(lambda: Decay(newton_maxiter=value))
    assert "newton_maxiter" in text and str(value) in text


def test_groups_leave_out_an_empty_part() -> None:
    assert set(ProblemDAE(2, 1).groups) == {"differential", "algebraic"}
    assert set(ProblemDAE(2, 0).groups) == {"differential"}
    assert set(ProblemDAE(0, 2).groups) == {"algebraic"}
    assert ProblemDAE(2, 1).groups["algebraic"] == slice(2, 3)
