"""Jacobians by complex steps, functions inlined in kernels, and what problems say of breaks and indices."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dill
import numpy as np
import pytest
import scipy.sparse as sparse
from helpers.jacobians_by_hand import JACOBIANS
from numba import njit

from dae_sdc.dae.kernels import COMPLEX_STEP, inlined, machine
from dae_sdc.dae.memory import STEP
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.run.solve import solve

EPS = float(np.finfo(float).eps)
BY_HAND: dict[str, Any] = {}


def stepped(name: str, **params: Any) -> tuple[Any, Any]:
    """A problem of the library with a Jacobian by hand, and the same by complex steps."""
    cls = PROBLEMS[name]
    if name not in BY_HAND:
        BY_HAND[name] = type(f"{cls.__name__}ByHand", (cls,), {"jacobian_kernel": JACOBIANS[name]})
    return BY_HAND[name](**params), cls(**params)


def dense(matrix: Any) -> Any:
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def jacobian(P: Any, u: Any, du: Any, t: float = 0.1, c: float = 0.3) -> Any:
    return dense(P.jacobian(np.asarray(u, dtype=float), np.asarray(du, dtype=float), t, c))


def problem_of(kernel: Callable[..., None], n: int, p: Any = (), **attributes: Any) -> Any:
    """A problem of n differential unknowns with the given residual."""
    space = {"residual_kernel": kernel, "jacobian_kernel": COMPLEX_STEP, "kernel_parameters": lambda self: p}
    return type("Given", (ProblemDAE,), space | attributes)(n, 0)


# --- against derivatives by hand ------------------------------------------------------------------

LIBRARY = {
    "hessenberg-1": {},
    "hessenberg-2": {},
    "transmission-line": {"sections": 6},
    "navier-stokes": {"cells": 4},
}


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("c", [0.0, 1e-9, 0.3, 50.0])
def test_jacobians_are_those_by_hand(name: str, c: float) -> None:
    """Kernels of the library, with functions of math and comparisons of unknowns as they are."""
    hand, steps = stepped(name, **LIBRARY[name])
    rng = np.random.default_rng(5)
    for _ in range(3):
        u = np.asarray(hand.u_exact(hand.interval[0])) + 0.05 * rng.standard_normal(hand.n)
        du = rng.standard_normal(hand.n)
        expected, found = (jacobian(P, u, du, 0.1, c) for P in (hand, steps))
        size = np.abs(jacobian(hand, u, du, 0.1, 0.0)) + c * np.abs(
            jacobian(hand, u, du, 0.1, 1.0) - jacobian(hand, u, du, 0.1, 0.0)
        )
        assert (np.abs(found - expected) <= 1e-13 * size.max(axis=1, keepdims=True)).all()


FUNCTIONS: dict[str, tuple[Callable[[float], float], Callable[[float], float], tuple[float, ...]]] = {
    "math.exp(x)": (math.exp, math.exp, (-2.0, 0.5)),
    "np.exp(x)": (math.exp, math.exp, (-2.0, 0.5)),
    "math.expm1(x)": (math.expm1, math.exp, (-1e-9, 0.5)),
    "np.log(x)": (math.log, lambda x: 1.0 / x, (0.1, 3.0)),
    "math.log1p(x)": (math.log1p, lambda x: 1.0 / (1.0 + x), (-0.5, 1e-9)),
    "np.log10(x)": (math.log10, lambda x: 1.0 / (x * math.log(10.0)), (0.1, 3.0)),
    "math.log2(x)": (math.log2, lambda x: 1.0 / (x * math.log(2.0)), (0.1, 3.0)),
    "np.sqrt(x)": (math.sqrt, lambda x: 0.5 / math.sqrt(x), (0.1, 3.0)),
    "math.sin(x)": (math.sin, math.cos, (-2.0, 0.5)),
    "np.cos(x)": (math.cos, lambda x: -math.sin(x), (-2.0, 0.5)),
    "np.tan(x)": (math.tan, lambda x: 1.0 / math.cos(x) ** 2, (-1.0, 0.5)),
    "np.arcsin(x)": (math.asin, lambda x: 1.0 / math.sqrt(1.0 - x * x), (-0.7, 0.5)),
    "math.acos(x)": (math.acos, lambda x: -1.0 / math.sqrt(1.0 - x * x), (-0.7, 0.5)),
    "np.arctan(x)": (math.atan, lambda x: 1.0 / (1.0 + x * x), (-2.0, 0.5)),
    "math.sinh(x)": (math.sinh, math.cosh, (-2.0, 0.5)),
    "np.cosh(x)": (math.cosh, math.sinh, (-2.0, 0.5)),
    "np.tanh(x)": (math.tanh, lambda x: 1.0 / math.cosh(x) ** 2, (-2.0, 0.5)),
    "math.asinh(x)": (math.asinh, lambda x: 1.0 / math.sqrt(1.0 + x * x), (-2.0, 0.5)),
    "np.arccosh(x)": (math.acosh, lambda x: 1.0 / math.sqrt(x * x - 1.0), (1.5, 3.0)),
    "math.atanh(x)": (math.atanh, lambda x: 1.0 / (1.0 - x * x), (-0.7, 0.5)),
    "math.erf(x)": (math.erf, lambda x: 2.0 / math.sqrt(math.pi) * math.exp(-x * x), (-2.0, 0.5)),
    "math.erfc(x)": (math.erfc, lambda x: -2.0 / math.sqrt(math.pi) * math.exp(-x * x), (-2.0, 0.5)),
    "x**2": (lambda x: x * x, lambda x: 2.0 * x, (-2.0, 0.5)),
    "x**3": (lambda x: x**3, lambda x: 3.0 * x * x, (-2.0, 0.5)),
    "x**-2": (lambda x: x**-2, lambda x: -2.0 / x**3, (-2.0, 0.5)),
    "x**3.0": (lambda x: x**3, lambda x: 3.0 * x * x, (-2.0, 0.5)),
    "x**1.5": (lambda x: x**1.5, lambda x: 1.5 * math.sqrt(x), (0.1, 3.0)),
    "2.5**x": (lambda x: 2.5**x, lambda x: math.log(2.5) * 2.5**x, (-2.0, 0.5)),
    "x**x": (lambda x: x**x, lambda x: (1.0 + math.log(x)) * x**x, (0.1, 3.0)),
    "math.pow(x, 2.5)": (lambda x: x**2.5, lambda x: 2.5 * x**1.5, (0.1, 3.0)),
    "1.0 / x": (lambda x: 1.0 / x, lambda x: -1.0 / x**2, (-2.0, 0.5)),
    "x / (1.0 + x)": (lambda x: x / (1.0 + x), lambda x: 1.0 / (1.0 + x) ** 2, (-3.0, 0.5)),
    "abs(x)": (abs, lambda x: math.copysign(1.0, x), (-2.0, 0.5)),
    "np.abs(x) * x": (lambda x: abs(x) * x, lambda x: 2.0 * abs(x), (-2.0, 0.5)),
    "x if x.real >= 0 else -x": (abs, lambda x: math.copysign(1.0, x), (-2.0, 0.5)),
    "x * x if x > 1 else 2 * x - 1": (
        lambda x: x * x if x > 1 else 2 * x - 1,
        lambda x: 2.0 * x if x > 1 else 2.0,
        (0.5, 3.0),
    ),
    "min(x, 1.0, 2.0 * x)": (
        lambda x: min(x, 1.0, 2.0 * x),
        lambda x: 2.0 if x < 0 else float(x < 1.0),
        (-2.0, 0.5, 3.0),
    ),
    "max(x * x, x)": (lambda x: max(x * x, x), lambda x: 1.0 if 0 < x < 1 else 2 * x, (-2.0, 0.5, 3.0)),
    "np.maximum(0.0, x)": (lambda x: max(0.0, x), lambda x: float(x > 0), (-2.0, 0.5)),
    "math.atan2(x, 2.0)": (
        lambda x: math.atan2(x, 2.0),
        lambda x: 2.0 / (4.0 + x * x),
        (-2.0, 0.5),
    ),
    "np.hypot(3.0, x)": (lambda x: math.hypot(3.0, x), lambda x: x / math.hypot(3.0, x), (-2.0, 0.5)),
}


def test_every_function_and_operator_has_its_derivative() -> None:
    """One residual with all of them, evaluated at points on both sides of zero."""
    lines = "".join(
        f"    x = u[{i}]\n    out[{i}] = du[{i}] - ({text})\n" for i, text in enumerate(FUNCTIONS)
    )
    space: dict[str, Any] = {"math": math, "np": np}
    exec(f"def all_functions(t, u, du, p, out):\n{lines}", space)
    n = len(FUNCTIONS)
    P = problem_of(space["all_functions"], n)
    for k in range(3):
        at = np.array([points[min(k, len(points) - 1)] for _, _, points in FUNCTIONS.values()])
        values = np.array([f(x) for (f, _, _), x in zip(FUNCTIONS.values(), at, strict=True)])
        np.testing.assert_allclose(-P.eval_f(P.state(at), P.state(np.zeros(n)), 0.0), values, rtol=8 * EPS)
        slopes = np.array([g(x) for (_, g, _), x in zip(FUNCTIONS.values(), at, strict=True)])
        found = jacobian(P, at, np.zeros(n), c=0.3)
        expected = np.eye(n) - 0.3 * np.diag(slopes)
        np.testing.assert_array_equal(found - np.diag(np.diag(found)), 0.0)
        wrong = np.abs(np.diag(found) - np.diag(expected)) > 16 * EPS * (1.0 + 0.3 * np.abs(slopes))
        assert not wrong.any(), [list(FUNCTIONS)[i] for i in np.flatnonzero(wrong)]


def test_sums_that_are_built_up_in_numbers_and_in_the_result() -> None:
    def sums(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        total = 0
        product = 1.0
        for i in range(3):
            total += p[i] * u[i] ** i
            product *= u[i]
            out[i] = 0.0
            out[i] += du[i] * u[i]
        out[0] -= total
        out[1] /= product
        out[2] = -out[2]

    P = problem_of(sums, 3, [2.0, 3.0, 5.0])
    u, du, c = np.array([2.0, -3.0, 0.5]), np.array([1.0, 4.0, -2.0]), 0.3
    of_u = np.array([[1.0, -3.0, -5.0], [4.0 / 6.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    # out[1] = u'_1 u_1 / (u_0 u_1 u_2) = u'_1 / (u_0 u_2)
    of_u[1] = [-4.0 / (2.0**2 * 0.5), 0.0, -4.0 / (2.0 * 0.5**2)]
    of_du = np.array([[2.0, 0.0, 0.0], [0.0, 1.0 / (2.0 * 0.5), 0.0], [0.0, 0.0, -0.5]])
    np.testing.assert_allclose(jacobian(P, u, du, c=c), of_du + c * of_u, rtol=1e-14, atol=1e-15)


def test_undefined_points_give_nan_or_infinity_and_only_where_they_are(capfd: Any) -> None:
    def undefined(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + np.log(u[0])
        out[1] = du[1] + 1.0 / u[1]
        out[2] = du[2] + np.sqrt(u[2])

    found = jacobian(problem_of(undefined, 3), [-1.0, 0.0, 0.0], np.zeros(3))
    assert not np.isfinite(found[1, 1]) and not np.isfinite(found[2, 2])
    np.testing.assert_array_equal(found[~np.eye(3, dtype=bool)], 0.0)
    assert capfd.readouterr().err == ""


# --- sparse patterns ------------------------------------------------------------------------------


def ring_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    n = int(p[0])
    for i in range(n):
        left, right = u[i - 1 if i > 0 else n - 1], u[i + 1 if i < n - 1 else 0]
        out[i] = du[i] + p[1] * (left - 2.0 * u[i] + right) + np.sinh(u[i]) * left * du[i]


class Ring(ProblemDAE):
    """Neighbours on a ring; ``sparse`` chooses the form of the Jacobian."""

    residual_kernel = ring_residual
    jacobian_kernel = COMPLEX_STEP

    def __init__(self, n: int = 12, sparsely: bool = True, k: float = -0.8, **settings: Any) -> None:
        super().__init__(n, 0, **settings)
        self.k = k
        if sparsely:
            self.sparsity = ring_pattern(n)

    def kernel_parameters(self) -> Any:
        return [self.n, self.k]

    def exact(self, u: Any, du: Any, c: float) -> Any:
        i = np.arange(self.n)
        left, right = i - 1, (i + 1) % self.n
        matrix = np.diag(1.0 + np.sinh(u) * u[left])
        matrix[i, i] += c * (-2.0 * self.k + np.cosh(u) * u[left] * du)
        matrix[i, left] += c * (self.k + np.sinh(u) * du)
        matrix[i, right] += c * self.k
        return matrix


def ring_pattern(n: int) -> Any:
    i = np.arange(n)
    rows, columns = np.tile(i, 3), np.concatenate([i, (i - 1) % n, (i + 1) % n])
    pattern = sparse.csc_matrix((np.ones(3 * n), (rows, columns)), shape=(n, n))
    pattern.sort_indices()
    return pattern


def test_columns_are_found_by_colours() -> None:
    P, full = Ring(), Ring(sparsely=False)
    rng = np.random.default_rng(2)
    u, du = rng.standard_normal(P.n), rng.standard_normal(P.n)
    matrix = P.jacobian(u, du, 0.0, 0.3)  # type: ignore[attr-defined]
    assert sparse.issparse(matrix) and matrix.nnz == 36
    for found in (matrix.toarray(), jacobian(full, u, du)):
        np.testing.assert_allclose(found, P.exact(u, du, 0.3), rtol=1e-13, atol=1e-14)
    assert P.kernel_workspace().n_groups == 3, "columns j and j + 3 share no row, and 12 is a multiple of 3"


def test_a_pattern_that_lacks_an_entry_is_refused() -> None:
    P = Ring()
    pattern = P.sparsity.tolil()
    pattern[4, 5] = 0.0
    P.sparsity = pattern.tocsc()
    with pytest.raises(
        InputError, match=r"no entry \(4, 5\), but equation 4 \(equation 4\) depends on u\[5\]"
    ):
        jacobian(P, np.ones(P.n), np.ones(P.n))
    with pytest.raises(InputError, match="equation 4"):
        solve(P, u0=np.ones(P.n), t_end=0.1, dt=0.1, sweeper="fully-implicit")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (ring_pattern(12).tocoo(), "CSC matrix of shape"),
        (ring_pattern(11), r"matrix of shape \(12, 12\)"),
        (
            sparse.csc_matrix((np.ones(3), [1, 0, 2], [0, 2, *[3] * 11]), shape=(12, 12)),
            "ascending order",
        ),
        (sparse.csc_matrix((np.ones(2), [1, 1], [0, *[2] * 12]), shape=(12, 12)), "ascending order"),
    ],
)
def test_patterns_of_another_form_are_refused(pattern: Any, message: str) -> None:
    P = Ring()
    with pytest.raises(InputError, match=message):
        P.sparsity = pattern
        jacobian(P, np.ones(12), np.ones(12))


def test_a_pattern_given_later_or_changed_in_place_is_used() -> None:
    P = Ring()
    u, du = np.linspace(0.2, 1.0, 12), np.linspace(-1.0, 0.4, 12)
    before = jacobian(P, u, du)
    P.sparsity = sparse.csc_matrix(np.ones((12, 12)))
    np.testing.assert_allclose(jacobian(P, u, du), before, rtol=1e-15)
    P.sparsity.data[P.sparsity.indices == 0] = 0.0
    P.sparsity.data[P.sparsity.indptr[0]] = P.sparsity.data[P.sparsity.indptr[1]] = 1.0
    P.sparsity.data[P.sparsity.indptr[11]] = 1.0
    P.sparsity.eliminate_zeros()
    assert P.sparsity.nnz == 144 - 9
    np.testing.assert_allclose(jacobian(P, u, du), before, rtol=1e-15)


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda P: dill.loads(dill.dumps(P))])
@pytest.mark.parametrize("sparsely", [True, False])
def test_copies_have_arrays_of_their_own(duplicate: Callable[[Any], Any], sparsely: bool) -> None:
    P = Ring(sparsely=sparsely)
    u, du = np.linspace(0.2, 1.0, 12), np.linspace(-1.0, 0.4, 12)
    expected = jacobian(P, u, du)
    other = duplicate(P)
    if duplicate is not copy.copy:
        assert "_stepped" not in vars(other) or vars(other)["_stepped"] is None
    other.k = 7.0
    np.testing.assert_allclose(jacobian(other, u, du), other.exact(u, du, 0.3), rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(jacobian(P, u, du), expected)
    assert not np.shares_memory(other.packed_parameters, P.packed_parameters)
    del P
    gc.collect()
    np.testing.assert_allclose(jacobian(other, u, du), other.exact(u, du, 0.3), rtol=1e-13, atol=1e-14)


def test_two_problems_at_once() -> None:
    first, second = Ring(n=12), Ring(n=30, sparsely=False, k=2.0)
    rng = np.random.default_rng(4)
    for _ in range(3):
        for P in (first, second):
            u, du = rng.standard_normal(P.n), rng.standard_normal(P.n)
            np.testing.assert_allclose(jacobian(P, u, du), P.exact(u, du, 0.3), rtol=1e-12, atol=1e-13)


def test_parameters_keep_what_the_kernel_needs_when_the_problem_is_gone() -> None:
    P = Ring()
    u, du = np.linspace(0.2, 1.0, 12), np.linspace(-1.0, 0.4, 12)
    expected = P.jacobian(u, du, 0.0, 0.3).data  # type: ignore[attr-defined]
    kernels, p = P.kernels, P.packed_parameters
    assert kernels is not None and p.tolist() == [12.0, -0.8]
    del P
    gc.collect()
    made = [np.full(1000, np.nan) for _ in range(200)]  # over what would have been given back
    out = np.empty(36)
    machine("jacobian_at")(kernels.jacobian, 0.0, u, du, 0.3, p, out)
    np.testing.assert_array_equal(out, expected)
    assert len(made) == 200


def test_the_address_works_from_c_and_a_copy_of_the_parameters_gives_nan() -> None:
    P = Ring(sparsely=False)
    u, du = np.linspace(0.2, 1.0, 12), np.linspace(-1.0, 0.4, 12)
    doubles, number = ctypes.POINTER(ctypes.c_double), ctypes.c_double
    assert P.kernels is not None
    function = ctypes.CFUNCTYPE(None, number, doubles, doubles, number, doubles, doubles)(P.kernels.jacobian)
    out, p = np.zeros((12, 12)), P.packed_parameters

    def call(p: Any) -> None:
        at = [array.ctypes.data_as(doubles) for array in (u, du, p, out)]
        function(0.0, at[0], at[1], 0.3, at[2], at[3])

    call(p)
    np.testing.assert_array_equal(out, jacobian(P, u, du))
    call(np.concatenate([np.zeros(2), p])[2:])
    assert np.isnan(out[0, 0])


def test_a_problem_without_parameters_has_a_header_too() -> None:
    def square(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + u[0] * u[0]

    P = problem_of(square, 1)
    assert jacobian(P, [3.0], [0.0]).tolist() == [[1.0 + 0.3 * 6.0]]


def test_parameters_set_later_reach_the_jacobian() -> None:
    P = Ring(sparsely=False)
    u = np.ones(12)
    before, workspace = P.packed_parameters, P.kernel_workspace()
    assert P.packed_parameters is before
    P.k = 3.0
    assert P.packed_parameters is not before and P.kernel_workspace() is workspace
    np.testing.assert_allclose(jacobian(P, u, u), P.exact(u, u, 0.3), rtol=1e-13)


# --- solving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hessenberg-2", "transmission-line"])
@pytest.mark.parametrize("backend", ["compiled", "numpy"])
def test_a_run_is_that_with_the_jacobian_by_hand(name: str, backend: str) -> None:
    hand, steps = stepped(name)
    found = [
        solve(P, t_end=P.interval[0] + 5 * P.dt, sweeper="semi-implicit", backend=backend)
        for P in (hand, steps)
    ]
    assert all(run.success for run in found)
    assert found[0].stats["newton"] == found[1].stats["newton"]
    scale = np.abs(found[0].u).max(axis=0)
    assert (np.abs(found[1].u - found[0].u) <= 1e-9 * scale).all()


@pytest.mark.parametrize("sweeper", ["semi-implicit", "radau-iia-5"])
def test_a_problem_of_complex_steps_alone_reaches_its_exact_solution(sweeper: str) -> None:
    """y' = -z^2 y, 0 = z exp(z) - y exp(y): y = z, so y' = -y^3 and y = 1 / sqrt(1 + 2 t)."""

    def equations(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + u[1] ** 2 * u[0]
        out[1] = u[1] * np.exp(u[1]) - u[0] * np.exp(u[0])

    P = type("Cubic", (ProblemDAE,), {"residual_kernel": equations, "jacobian_kernel": COMPLEX_STEP})(1, 1)
    run = solve(P, u0=[1.0, 1.0], t_end=2.0, dt=0.05, sweeper=sweeper)
    assert run.success
    np.testing.assert_allclose(run.u[-1], 1.0 / math.sqrt(5.0), rtol=1e-8)


# --- what is refused ------------------------------------------------------------------------------


def test_complex_steps_need_a_residual_kernel() -> None:
    with pytest.raises(InputError, match="needs a residual_kernel"):
        type("Alone", (ProblemDAE,), {"jacobian_kernel": COMPLEX_STEP})
    with pytest.raises(InputError, match="must be a function or COMPLEX_STEP"):
        type("Text", (ProblemDAE,), {"residual_kernel": ring_residual, "jacobian_kernel": "complex"})


def test_other_equations_drop_the_steps_and_another_kernel_is_what_they_are_taken_of() -> None:
    class Other(Ring):
        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return du + u

    assert Other.jacobian_kernel is None and Other().kernels is None
    assert Other().jacobian is None  # type: ignore[attr-defined]

    def decay(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        for i in range(int(p[0])):
            out[i] = du[i] + 2.0 * u[i]

    changed = type("Changed", (Ring,), {"residual_kernel": decay})(n=3, sparsely=False)
    np.testing.assert_allclose(jacobian(changed, np.ones(3), np.ones(3)), 1.6 * np.eye(3), rtol=1e-15)


def test_what_cannot_be_compiled_for_complex_numbers_is_refused() -> None:
    def floors(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + math.floor(u[0])

    P = problem_of(floors, 1)
    with pytest.raises(InputError, match=r"floors for complex steps; use functions of math or numpy"):
        jacobian(P, [1.5], [0.0])


def test_the_sentinel_stays_itself() -> None:
    assert copy.deepcopy(COMPLEX_STEP) is COMPLEX_STEP
    assert dill.loads(dill.dumps(COMPLEX_STEP)) is COMPLEX_STEP
    assert repr(COMPLEX_STEP) == "COMPLEX_STEP"
    with pytest.raises(InputError, match="is no function"):
        COMPLEX_STEP(0.0)


# --- inlined functions ----------------------------------------------------------------------------

FACTOR = 2.5


@inlined
def saturation(x: Any) -> Any:
    return x / (1.0 + abs(x))


@inlined
def pair(x: Any, y: Any, scale: float = 3.0) -> Any:
    return FACTOR * saturation(x) * y, scale * x**3 if x > 0.0 else -x


@inlined
def factorial_power(x: Any, k: int) -> Any:
    return 1.0 if k == 0 else x * factorial_power(x, k - 1) / k


def helped_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    first, second = pair(u[0], u[1])
    out[0] = du[0] + first
    out[1] = du[1] + second


@pytest.mark.parametrize("x", [0.7, -0.7])
def test_inlined_functions_are_called_by_both_forms_of_a_kernel(x: float) -> None:
    P = problem_of(helped_residual, 2)
    y = 1.2
    value = [FACTOR * x / (1.0 + abs(x)) * y, 3.0 * x**3 if x > 0.0 else -x]
    assert pair(x, y) == pytest.approx(value, rel=1e-15), "they stay plain functions"
    np.testing.assert_allclose(P.eval_f(P.state([x, y]), P.state([0.0, 0.0]), 0.0), value, rtol=1e-15)
    slope = [[FACTOR * y / (1.0 + abs(x)) ** 2, value[0] / y], [9.0 * x * x if x > 0.0 else -1.0, 0.0]]
    np.testing.assert_allclose(jacobian(P, [x, y], [0.0, 0.0], c=1.0), np.eye(2) + slope, rtol=1e-14)


def test_functions_that_numba_has_compiled_and_captured_ones_work_too() -> None:
    double = njit(lambda x: 2.0 * x * x)

    @inlined
    def triple(x: Any) -> Any:
        return 3.0 * x

    def calls(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + double(u[0]) + triple(u[0])

    assert jacobian(problem_of(calls, 1), [5.0], [0.0], c=1.0).tolist() == [[1.0 + 20.0 + 3.0]]


@inlined
def even_power(x: Any, k: int) -> Any:
    return 1.0 + 0.0 * x if k == 0 else x * odd_power(x, k - 1)


@inlined
def odd_power(x: Any, k: int) -> Any:
    return 1.0 + 0.0 * x if k == 0 else x * even_power(x, k - 1)


def test_functions_that_call_each_other_are_compiled_by_each_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def powers(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + even_power(u[0], 3)

    assert jacobian(problem_of(powers, 1), [2.0], [0.0], c=1.0).tolist() == [[1.0 + 12.0]]
    assert not list(tmp_path.rglob("powers-*.nbc")), "another process would not find their addresses"


def test_plain_functions_and_other_things_are_refused() -> None:
    space: dict[str, Any] = {"helper": lambda x: x}
    exec("def plain(t, u, du, p, out):\n    out[0] = du[0] + helper(u[0])\n", space)
    P = problem_of(space["plain"], 1)
    with pytest.raises(InputError, match="inlined"):
        P.eval_f(P.state([1.0]), P.state([0.0]), 0.0)
    with pytest.raises(InputError, match="plain Python function"):
        inlined(njit(lambda x: x))


PROGRAM = """
import importlib, linecache, os, pathlib, sys
import dae_sdc
assert "numba" not in sys.modules, "importing the package imports no numba"
here = pathlib.Path(__file__).parent
for number, (k, body) in enumerate(zip(sys.argv[2::2], sys.argv[3::2])):
    file = here / "law_of_inlined.py"
    file.write_text((here / "template").read_text().format(k=k, body=body))
    # Python may take a file of the same second and size for the one that it compiled.
    os.utime(file, (int(sys.argv[1]) + 60 * number,) * 2)
    linecache.clearcache()
    for name in ("law_of_inlined", "helped_kernel"):
        sys.modules.pop(name, None)
    P = importlib.import_module("helped_kernel").Helped(1, 0)
    u, du = P.state([2.0]), P.state([0.0])
    value, slope = P.eval_f(u, du, 0.0), P.jacobian(u, du, 0.0, 1.0)
    # What this process compiles is an object of numba, what it loads are objects of LLVM.
    loaded = [int(isinstance(function.owners, tuple)) for function in P.kernels.owners]
    print(value[0], slope[0, 0], *loaded)
"""
KERNEL = """
from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.problem import ProblemDAE
from law_of_inlined import law
def helped(t, u, du, p, out):
    out[0] = du[0] + law(u[0])
class Helped(ProblemDAE):
    residual_kernel = helped
    jacobian_kernel = COMPLEX_STEP
"""
HELPERS = """
from dae_sdc.dae.kernels import inlined
K = {k}
@inlined
def inner(x):
    return {body}
@inlined
def law(x):
    return K * inner(x)
"""


def test_a_kernel_of_inlined_functions_is_kept_on_disk_until_they_change(tmp_path: Path) -> None:
    for name, text in (("program.py", PROGRAM), ("helped_kernel.py", KERNEL), ("template", HELPERS)):
        (tmp_path / name).write_text(text)
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run(began: int, *laws: str) -> list[list[float]]:
        command = [sys.executable, str(tmp_path / "program.py"), str(began), *laws]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=surroundings)
        return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]

    first, body, number = run(1_700_000_000, "3.0", "x * x", "3.0", "x + x", "5.0", "x + x")
    assert first[:2] == [12.0, 13.0] and first[2] == first[4] == 0.0, "value, slope, and both compiled"
    assert body[:2] == [12.0, 7.0], "another body, in another file than the kernel"
    assert number[:2] == [20.0, 11.0], "another number that an inlined function refers to"
    constant, kept = run(1_700_001_000, "5.0", "x + 2.0", "3.0", "x * x")
    assert constant[:2] == [20.0, 6.0], "another constant, in another process"
    assert kept == [12.0, 13.0, 1.0, 1.0, 1.0], "the first are still there, and come from the disk"


# --- breaks and indices ---------------------------------------------------------------------------


def test_breakpoints_are_none_by_default() -> None:
    assert Ring().breakpoints(0.0, 1.0) == ()


@pytest.mark.parametrize(
    ("index", "expected"), [(None, (1, 1, 1)), (0, (1, 1, 1)), (1, (1, 1, 1)), (3, (1, 1, 3))]
)
def test_index_of_the_unknowns_by_default(index: int | None, expected: tuple[int, ...]) -> None:
    made: Any = type("Made", (ProblemDAE,), {"index": index})(2, 1)
    assert made.variable_index == expected


def test_index_of_the_unknowns_follows_the_index_set_later() -> None:
    P = ProblemDAE(1, 1)
    P.index = 2
    assert P.variable_index == (1, 2)
    P.variable_index = np.array([1, 3])  # type: ignore[assignment]
    P.index = 1
    assert P.variable_index == (1, 3) and copy.deepcopy(P).variable_index == (1, 3)
    assert all(type(entry) is int for entry in P.variable_index)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, 2), "has 2 entries for 3 unknowns"),
        ((1, 0, 2), "entry 1 is 0"),
        ((1, 1.0, 2), r"entry 1 is 1\.0"),
        ((True, 1, 1), "entry 0 is True"),
        (2, "must be a tuple with the index of each unknown; got 2"),
    ],
)
def test_indices_that_are_none_are_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"Made.variable_index.*{message}|{message}"):
        type("Made", (ProblemDAE,), {"variable_index": given})(2, 1)
    P = ProblemDAE(2, 1)
    with pytest.raises(InputError, match=message):
        P.variable_index = given


def test_a_class_gives_the_index_of_its_unknowns_or_a_property_of_them() -> None:
    made: Any = type("Made", (ProblemDAE,), {"variable_index": [1, 2, 3]})(2, 1)
    assert made.variable_index == (1, 2, 3)

    class Computed(ProblemDAE):
        @property
        def variable_index(self) -> tuple[int, ...]:  # type: ignore[override]
            return (2,) * self.n

    assert Computed(2, 1).variable_index == (2, 2, 2)


def test_the_step_is_too_small_to_change_a_number_and_not_too_small_to_be_multiplied() -> None:
    assert STEP**2 * 1e30 < EPS * 1e-100
    assert math.frexp(STEP)[0] == 0.5, "a power of two"
