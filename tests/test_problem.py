"""The base class of every DAE: how it is called, what it counts, and what it says about wrong shapes."""

from __future__ import annotations

import cmath
import importlib
import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.dae.state import MeshDAE
from dae_sdc.dae.values import undefined
from dae_sdc.errors import InputError
from dae_sdc.problems.linear import HessenbergIndex1, HessenbergIndex2, HessenbergIndex3
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
    P.begin_steps()  # as a sweeper that takes it
    f = P.eval_f(P.state([1.0, 1.0]), 0.0)
    assert isinstance(f, MeshDAE)
    assert f.n_diff == 1
    assert np.asarray(f).tolist() == [0.0, 0.0]


def test_two_arguments_give_the_derivative_that_the_state_carries() -> None:
    class Last:
        def derivative_at_end(self) -> Any:
            return np.array([-1.0, -2.0])

    P = Decay()
    P.begin_steps()
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


# --- where the equations are not defined ----------------------------------------------------------


UNDEFINED: dict[str, Callable[[], Any]] = {
    "root": lambda: math.sqrt(-1.0),
    "logarithm": lambda: math.log(0.0),
    "arc": lambda: math.acos(2.0),
    "angle": lambda: math.sin(math.inf),
    "power": lambda: math.pow(-1.0, 0.5),
    "overflow": lambda: math.exp(1e4),
    "complex logarithm": lambda: cmath.log(0.0),
    "division": lambda: 1.0 / (1.0 - 1.0),
    "rounding of NaN": lambda: math.floor(math.nan),
    "matrix without inverse": lambda: np.linalg.inv(np.zeros((2, 2))),
    "matrix that is not positive definite": lambda: np.linalg.cholesky(-np.eye(2)),
    "eigenvalues of NaN": lambda: np.linalg.eigvals(np.full((2, 2), np.nan)),
}
MISTAKEN: dict[str, Callable[[], Any]] = {
    "unpacking": lambda: _unpack((1.0, 2.0, 3.0)),
    "shapes that do not fit": lambda: np.zeros(2) + np.zeros(3),
    "text that is no number": lambda: float("one"),
    "truth of an array": lambda: 1.0 if np.zeros(2) else 0.0,
    "matrix that is not square": lambda: np.linalg.inv(np.zeros((2, 3))),
    "matrix without dimension": lambda: np.linalg.inv(np.zeros(2)),
    "a value that the user refuses": lambda: _refuse("the tank is empty"),
    "our own error": lambda: _refuse("math domain error", InputError),
}


def _unpack(values: Any) -> Any:
    first, _ = values
    return first


def _refuse(text: str, kind: type[Exception] = ValueError) -> Any:
    raise kind(text)


def raising(call: Callable[[], Any]) -> type[Decay]:
    class Raising(Decay):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return [du.diff[0] + call(), u.alg[0]]

        def residual_nodes(self, u: Any, du: Any, t: Any) -> Any:
            if (u[:, 0] > 1.5).any():
                call()
            return np.zeros(u.shape)

    return Raising


@pytest.mark.parametrize("call", UNDEFINED.values(), ids=UNDEFINED)
def test_a_function_without_a_value_gives_nan(call: Callable[[], Any]) -> None:
    P = raising(call)()
    F = P.evaluate(P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0)
    assert np.isnan(F).all() and F.shape == (2,)


# What functions of math say from Python 3.14 on; older ones say "math domain error".
NEWER = (
    "expected a nonnegative input, got -1.0",
    "expected a positive input, got 0.0",
    "expected a number in range from -1 up to 1, got 2.0",
    "expected a number between -1 and 1, got 1.0",
    "expected a finite input, got inf",
    "expected a noninteger or positive integer, got -1.0",
    "expected argument value not less than 1, got 0.5",
    "expected argument value > -1, got -2.0",
)


@pytest.mark.parametrize("text", NEWER)
def test_the_words_of_newer_pythons_for_a_function_without_a_value_are_known(text: str) -> None:
    assert undefined(ValueError(text))


@pytest.mark.parametrize("call", MISTAKEN.values(), ids=MISTAKEN)
def test_a_mistake_in_the_equations_is_not_hidden_as_nan(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError) as expected:
        call()
    P = raising(call)()
    for evaluate in (
        lambda: P.evaluate(P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0),
        lambda: P.evaluate_nodes(np.full((2, 2), 2.0), np.zeros((2, 2)), np.zeros(2)),
    ):
        with pytest.raises(type(expected.value)) as error:
            evaluate()
        assert str(error.value) == str(expected.value)


def test_only_the_node_without_a_value_is_nan() -> None:
    class Root(BatchedDecay):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return [du[0] + math.sqrt(u[0]), u[1]]

        def residual_nodes(self, u: Any, du: Any, t: Any) -> Any:
            return [[b[0] + math.sqrt(a[0]), a[1]] for a, b in zip(u, du, strict=True)]

    P = Root()
    F = P.evaluate_nodes(np.array([[4.0, 1.0], [-4.0, 1.0], [9.0, 2.0]]), np.zeros((3, 2)), np.zeros(3))
    np.testing.assert_array_equal(F, [[2.0, 1.0], [np.nan, np.nan], [3.0, 2.0]])
    assert counts(P)["rhs"] == 3


def test_newton_is_damped_where_a_root_of_a_negative_number_is_met() -> None:
    class Level(Decay):
        """y' = -y and sqrt(z) = y / 4: from z = 4, Newton's step for sqrt(z) = 1/4 leads to z = -3."""

        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return [du.diff[0] + u.diff[0], math.sqrt(u.alg[0]) - u.diff[0] / 4.0]

        def u_exact(self, t: float) -> Any:
            return [math.exp(-t), math.exp(-2.0 * t) / 16.0]

    P = Level()
    refused = 0

    class Watched(Level):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            nonlocal refused
            refused += u[1] < 0.0
            return super().eval_f(u, du, t)

    solution = solve(Watched, sweeper="backward-euler", dt=2.0, t_end=2.0, u0=P.u_exact(0.0), params={})
    assert solution.success, solution.message
    assert refused > 0, "the case must meet a negative number"
    # one step of implicit Euler: y = 1 / (1 + dt)
    np.testing.assert_allclose(solution.u[-1], [1.0 / 3.0, 1.0 / 144.0], rtol=1e-9)


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


def test_finite_differences_count_the_point_a_line_in_the_derivative_and_one_for_each_unknown() -> None:
    P = Decay()
    linearize(P, P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0)
    assert counts(P) == {"rhs": 1 + 2 + 2 * 2, "newton": 0, "jacobian": 1, "factorization": 0, "solve": 0}


def test_a_given_jacobian_is_counted_once_and_needs_no_residual() -> None:
    P = HessenbergIndex1()
    linearize(P, P.u_exact(0.0), P.du_exact(0.0), 0.0)
    assert counts(P) == {"rhs": 0, "newton": 0, "jacobian": 1, "factorization": 0, "solve": 0}


@pytest.mark.parametrize("cls", [Decay, BatchedDecay])
def test_the_residuals_of_a_whole_run_are_counted_exactly(
    cls: type[Decay], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = importlib.import_module("dae_sdc.initial.index")
    # These are no part of the run.
    monkeypatch.setattr(search, "index_of", lambda *_: None)
    monkeypatch.setattr("dae_sdc.run.execution._check_residuals", lambda *_: None)
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
    solution = solve(Counted, dt=0.1, t_end=0.3, trace=False)
    assert calls == solution.stats["rhs"] > 0


# --- names and shapes -----------------------------------------------------------------------------


def test_names_have_defaults_that_tell_unknowns_apart() -> None:
    P = Decay()
    assert P.names == ("u[0]", "u[1]")
    assert P.equation_names == ("equation 0", "equation 1")
    assert P.units == ("", "")
    assert Decay.names == (), "the default of an instance must not become that of the class"


@pytest.mark.parametrize("attribute", ["names", "units", "equation_names"])
@pytest.mark.parametrize("given", [["a", "b"], ("a", "b"), np.array(["a", "b"])])
def test_lists_of_names_become_tuples_of_texts(attribute: str, given: Any) -> None:
    P = type("Listed", (Decay,), {attribute: given})()
    assert getattr(P, attribute) == ("a", "b")
    assert {type(text) for text in getattr(P, attribute)} == {str}
    later = Decay()
    setattr(later, attribute, given)
    assert getattr(later, attribute) == ("a", "b")


@pytest.mark.parametrize("attribute", ["names", "units", "equation_names"])
@pytest.mark.parametrize("given", [None, (), []])
def test_names_that_are_missing_have_defaults(attribute: str, given: Any) -> None:
    assert getattr(type("Bare", (Decay,), {attribute: given})(), attribute) == getattr(Decay(), attribute)


@pytest.mark.parametrize("attribute", ["names", "units", "equation_names"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("yz", "must be a tuple with one text for each unknown; got 'yz'"),
        ({"y": 1, "z": 2}, "must be a tuple with one text for each unknown; got {'y': 1, 'z': 2}"),
        (7, "must be a tuple with one text for each unknown; got 7"),
        (("y", 2), "must be a tuple of texts; entry 1 is 2"),
        ((None, "z"), "must be a tuple of texts; entry 0 is None"),
    ],
)
def test_names_of_a_wrong_kind_are_refused_where_they_are_given(
    attribute: str, given: Any, words: str
) -> None:
    assert message(type("Misnamed", (Decay,), {attribute: given})) == f"Misnamed.{attribute} {words}"
    P = Decay()
    assert message(lambda: setattr(P, attribute, given)) == f"Decay.{attribute} {words}"


def test_a_name_of_two_unknowns_is_refused() -> None:
    text = message(type("Twice", (Decay,), {"names": ("y", "y")}))
    assert text.startswith("Twice.names has 'y' twice, in places 0 and 1")
    assert type("Same", (Decay,), {"units": ("m", "m")})().units == ("m", "m")


@pytest.mark.parametrize(
    ("attribute", "given", "words"),
    [
        ("index", "2", "must be an integer or None; got '2'"),
        ("index", 1.5, "must be an integer or None; got 1.5"),
        ("dt", "0.1", "must be a number; got '0.1'"),
        ("dt", None, "must be a number; got None"),
        ("interval", 1.0, "must be a pair of numbers, start and end time; got 1.0"),
        ("interval", (0.0,), "must be a pair of numbers, start and end time; got (0.0,)"),
        ("interval", ("0", "1"), "must be a pair of numbers, start and end time; got ('0', '1')"),
    ],
)
def test_defaults_of_a_wrong_kind_are_refused(attribute: str, given: Any, words: str) -> None:
    assert message(type("Wrong", (Decay,), {attribute: given})) == f"Wrong.{attribute} {words}"


def test_an_interval_may_be_a_property() -> None:
    class Scaled(Decay):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.length = 3.0

        @property
        def interval(self) -> tuple[float, float]:  # type: ignore[override]
            return (0.0, self.length)

    assert Scaled().interval == (0.0, 3.0)


@pytest.mark.parametrize("attribute", ["names", "units", "equation_names"])
def test_names_of_a_wrong_number_are_refused(attribute: str) -> None:
    cls = type("Misnamed", (Decay,), {attribute: ("a", "b", "c")})
    assert message(cls) == f"Misnamed.{attribute} has 3 entries for 2 unknowns"


def test_a_state_of_another_shape_is_refused_with_both_shapes() -> None:
    for wrong in ([1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0):
        text = message(lambda wrong=wrong: Decay().state(wrong))
        assert "a state of Decay has shape (2,), differential unknowns first" in text
        assert text.endswith(f"got shape {np.shape(wrong)} for u[0], u[1]")


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


WRONG_VALUES: list[tuple[Any, str]] = [
    (["1.0", "2.0"], "got ['1.0', '2.0'] (entries of type <U3)"),
    ("ab", "got 'ab' (entries of type <U2)"),
    ([1.0, 2.0j], "complex128: Python's root of a negative number is one; return NaN where F is not defined"),
    (np.array([1.0, 2.0], dtype=np.complex64), "complex64: Python's root"),
    ([1.0, [2.0, 3.0]], "got [1.0, [2.0, 3.0]] (entries of different shapes)"),
    ([1.0, None], "got [1.0, None] (entries of type NoneType)"),
    (np.array([1.0, "2.0"], dtype=object), "(entries of type str)"),
    (np.array([1.0, 2.0j], dtype=object), "(entries of type complex"),
    (None, "got None (is its return statement missing?)"),
    ({"y": 1.0}, "got {'y': 1.0} (entries of type dict)"),
    (np.array(["2020-01-01"] * 2, dtype="M8[D]"), "entries of type datetime64[D]"),
    ([10**400, 1.0], "too large"),
]


def returning(value: Any) -> type[Decay]:
    class Wrong(Decay):
        def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Any:
            return value

        def residual_nodes(self, u: Any, du: Any, t: Any) -> Any:
            return value

    return Wrong


@pytest.mark.parametrize(("value", "words"), WRONG_VALUES, ids=lambda part: str(part)[:20])
def test_residuals_that_are_not_real_numbers_are_refused(value: Any, words: str) -> None:
    P = returning(value)()
    P.begin_steps()
    u = P.state([1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = message(lambda: P.evaluate(u, u, 0.0))
        assert "Wrong.eval_f must return real numbers of shape (2,)" in text and words in text
        text = message(lambda: P.evaluate_nodes(np.ones((3, 2)), np.ones((3, 2)), np.zeros(3)))
        assert "Wrong.residual_nodes must return real numbers of shape (3, 2)" in text and words in text


def test_what_is_refused_is_shown_in_few_letters() -> None:
    P = returning([["one"] * 50] * 50)()
    assert len(message(lambda: P.evaluate(P.state([1.0, 1.0]), P.state([1.0, 1.0]), 0.0))) < 250


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        [True, 2],
        [np.float32(1.0), 2],
        [Fraction(1), Decimal(2)],
        np.array([1, 2], dtype=np.int8),
        np.array([1.0, 2.0], dtype=np.longdouble),
        np.array([1.0, 2.0], dtype=object),
        np.array([1.0, 2.0]).view(np.recarray),
    ],
    ids=str,
)
def test_real_numbers_of_any_type_are_taken(value: Any) -> None:
    P = returning(value)()
    F = P.evaluate(P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0)
    assert type(F) is np.ndarray and F.dtype == np.float64
    assert F.tolist() == [1.0, 2.0]


def test_an_array_of_doubles_is_taken_as_it_is() -> None:
    value = np.array([1.0, 2.0])
    P = returning(value)()
    P.begin_steps()
    assert P.evaluate(P.state([1.0, 1.0]), P.state([0.0, 0.0]), 0.0) is value


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


@pytest.mark.parametrize(("n_diff", "n_alg"), [(1.5, 1), (1, 1.0), ("1", 1), (True, 1), (None, 1)])
def test_numbers_of_unknowns_that_are_no_integers_are_refused(n_diff: Any, n_alg: Any) -> None:
    text = message(lambda: ProblemDAE(n_diff, n_alg))
    assert text == (
        f"the numbers of unknowns of ProblemDAE must be integers; got n_diff={n_diff!r}, n_alg={n_alg!r}"
    )
    assert ProblemDAE(np.int64(2), 1).n == 3


@pytest.mark.parametrize("value", ["a", "1e-8", None, [1e-8], True, 1e-8j])
def test_a_newton_tolerance_that_is_no_number_is_refused(value: Any) -> None:
    text = message(lambda: Decay(newton_tol=value))
    assert text == f"newton_tol must be a positive number; got {value!r}"


@pytest.mark.parametrize("value", [0.0, -1e-8, float("nan")])
def test_a_newton_tolerance_that_is_not_positive_is_refused(value: float) -> None:
    assert message(lambda: Decay(newton_tol=value)) == f"newton_tol must be positive; got {value}"


@pytest.mark.parametrize("value", [0, -3, 2.5, "25", None])
def test_a_limit_of_newton_iterations_that_allows_none_is_refused(value: Any) -> None:
    text = message(lambda: Decay(newton_maxiter=value))
    assert "newton_maxiter" in text and str(value) in text


def test_groups_leave_out_an_empty_part() -> None:
    assert set(ProblemDAE(2, 1).groups) == {"differential", "algebraic"}
    assert set(ProblemDAE(2, 0).groups) == {"differential"}
    assert set(ProblemDAE(0, 2).groups) == {"algebraic"}
    assert ProblemDAE(2, 1).groups["algebraic"] == slice(2, 3)
