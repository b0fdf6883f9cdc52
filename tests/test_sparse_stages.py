"""Compiled stages of collocation steps with sparse matrices, against dense ones and equations in Python."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sparse
from helpers.in_python import InPython
from helpers.machine import compiled
from numpy.polynomial.polynomial import polyval
from scipy.sparse.linalg import splu

import dae_sdc as ds
from dae_sdc.compiled import triangular
from dae_sdc.compiled.machine_newton import refactorized
from dae_sdc.compiled.triangular import (
    GROWTH,
    NOT_FINITE,
    REFACTORIZED,
    WEAK_PIVOT,
    copy_for,
    refactorize,
    solve_triangular,
    superlu_factors,
)
from dae_sdc.dae.kernels import COMPLEX_STEP
from dae_sdc.dae.linear import EPS
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import KEPT_RATE, Balance
from dae_sdc.dae.state import StepPolynomial, attach
from dae_sdc.errors import InputError
from dae_sdc.problems.circuits import RingModulator
from dae_sdc.problems.digital import TwoBitAdder
from dae_sdc.problems.grids import NavierStokes, TransmissionLine
from dae_sdc.run import execution
from dae_sdc.sharing import Recent
from dae_sdc.sweepers import _answers, together
from dae_sdc.sweepers.coupled import CoupledStages
from dae_sdc.sweepers.simultaneous import JUDGE, KEPT_FACTORS_CONTRACTION, SINGULAR, SOLVED
from dae_sdc.sweepers.tableaux import radau_iia
from dae_sdc.sweepers.tolerance import Tolerance, Weights

pytest.importorskip("numba")

Array = npt.NDArray[Any]

RADAU = radau_iia(3)
"""Of order 5, with one real and one pair of complex eigenvalues."""


@cache
def compiled_stages() -> Any:
    """The module of these stages: its import compiles, which no process should wait for to collect tests."""
    return import_module("dae_sdc.sweepers._machine_stages")


def full(n: int) -> Any:
    return sparse.csc_matrix(np.ones((n, n)))


class FullModulator(RingModulator):
    """A dense problem with a pattern that leaves nothing out."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.sparsity = full(self.n)


WEIGHT = 1e4
"""1 / the tolerance of every unknown."""

H = 0.125
"""Period of :class:`Swapping`; a power of 2, so that times are exact."""


def swapping_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    first, second = u[1] - math.cos(t), u[2] - math.sin(t)
    out[0] = du[0] + u[0] + u[1] - math.cos(t)
    if p[0] > 0.0 and math.ceil(t / p[0]) % 2 == 0:
        first, second = second, first
    out[1], out[2] = first, second


class Swapping(ProblemDAE):
    """x' = -x and two constraints, which change places after every ``period``, if that is not 0.

    With the pivots of one order those of the other are exact zeros. The solution does not notice.
    """

    residual_kernel = swapping_residual
    jacobian_kernel = COMPLEX_STEP

    def __init__(self, period: float = 0.0) -> None:
        super().__init__(1, 2)
        self.period, self.sparsity = period, full(3)

    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.period,)

    def u_exact(self, t: float) -> Array:
        return np.array([math.exp(-t), math.cos(t), math.sin(t)])


def stages_of(problem: ProblemDAE, tableau: Any = RADAU) -> Any:
    stages = compiled_stages().MachineStages(problem, tableau.A, tableau.c)
    stages.weights[:] = WEIGHT
    return stages


def first_step(stages: Any, u0: Array, t0: float, span: float) -> float:
    """The size of the first step of an interval, to a tolerance of 1e-4."""
    weights = Tolerance(1e-4, None).weights_of(stages.problem, 1.0)
    size: float = stages.starting_step(attach(np.array(u0), stages.problem.n_diff), weights, t0, span)
    return size


def step(stages: Any, u0: Array, t0: float, h: float, again: bool = True) -> tuple[Array, Array, float]:
    """A step with a Jacobian of its own."""
    stages.forget()
    first = stages.begin(attach(np.array(u0, dtype=float), stages.problem.n_diff), t0, h)
    assert stages.solve(t0, h) == SOLVED
    return stages.u, stages.du, stages.act(JUDGE, t0, h, (first, again, False))


def close(found: tuple[Array, Array, float], expected: tuple[Array, Array, float]) -> None:
    for own, other in zip(found[:2], expected[:2], strict=True):
        assert np.abs(own - other).max() <= 1e-10 * np.abs(other).max()
    # What is left of the unknowns when an error is estimated is as exact as they are.
    assert abs(found[2] - expected[2]) <= 1e-10 * (expected[2] + WEIGHT * np.abs(expected[0]).max())


def counts(stages: Any) -> dict[str, int]:
    stages.count()
    return {name: counter.niter for name, counter in stages.problem.work_counters.items()}


class Calls:
    """Counts the factorisations by SuperLU."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return splu(*arguments, **options)


@pytest.fixture
def superlu(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(compiled_stages(), "sparse_factors", calls)
    monkeypatch.setattr(_answers, "LARGEST_KEPT", 0)  # pivots are chosen anew for equal matrices
    return calls


# --- which stages a problem gets ----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "superlu", "klu", "gmres"])
def test_kernels_are_called_by_compiled_code_whatever_solves_at_single_nodes(solver: str) -> None:
    stages = stages_of(TransmissionLine(sections=5, linear_solver=solver))
    assert stages.by_kernels and stages._pattern is stages.problem.sparsity
    assert not stages_of(InPython(TransmissionLine(sections=5))).by_kernels


# --- the same numbers as dense stages and equations in Python -----------------------------------------------


@pytest.mark.parametrize(
    "tableau", [radau_iia(2), RADAU, radau_iia(4), radau_iia(5)], ids=lambda one: one.name
)
def test_a_full_pattern_gives_what_dense_stages_give(tableau: Any) -> None:
    u0 = np.zeros(15)
    sparse_stages, dense = (
        stages_of(FullModulator(), tableau=tableau),
        stages_of(RingModulator(), tableau=tableau),
    )
    assert sparse_stages._pattern is not None and dense._pattern is None
    for h in (1e-8, 3e-9):
        close(step(sparse_stages, u0, 1e-6, h), step(dense, u0, 1e-6, h))
    assert counts(sparse_stages) == counts(dense)


@pytest.mark.parametrize(
    "make", [lambda: RingModulator(cs=0.0), lambda: TransmissionLine(sections=5)], ids=["dense", "sparse"]
)
def test_the_guess_continues_the_polynomials_of_the_step_before_also_in_a_repeated_step(make: Any) -> None:
    stages = stages_of(make(), tableau=radau_iia(4))
    n, n_diff, t, h = stages.problem.n, stages.problem.n_diff, 2.0, 0.5
    # u' of the differential and u of the algebraic unknowns are polynomials of degree 3 in time.
    factors = np.random.default_rng(5).standard_normal((4, n))
    assert 0 < n_diff < n and stages.begin(attach(np.zeros(n), n_diff), t, h)
    stages.u[:] = stages.du[:] = polyval(t + h * stages.c, factors).T
    before = StepPolynomial(t, h, stages.nodes, stages.u, stages.du, n)
    for later, size in ((t + h, 0.4), (t + h, 0.11), (t + h, 0.02), (t + 1.7 * h, 0.3)):
        u0 = attach(polyval(later, factors), n_diff)
        u0.polynomial = before
        assert not stages.begin(u0, later, size)
        stages.u[:], stages.du[:] = np.nan, np.nan  # as a step does that is rejected
        at = polyval(later + size * stages.c, factors).T
        assert stages.guess[:, :n_diff] == pytest.approx(at[:, :n_diff], rel=1e-10, abs=1e-10)
        reached = u0[n_diff:] + size * (stages.A @ stages.guess)[:, n_diff:]
        assert reached == pytest.approx(at[:, n_diff:], rel=1e-10, abs=1e-10)
        assert np.array_equal(stages.du0, before.derivative[-1])
        assert np.array_equal(stages.h_a, size * stages.A)


@pytest.mark.parametrize("left_out", [(), (2, 7)], ids=["all count", "some left out"])
@pytest.mark.parametrize("exponents", [(0, 0, 0), (0, 1, 1), (0, 1, 2), (0, 2, 4), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("given", [False, True], ids=["sizes", "atol"])
def test_compiled_weights_are_those_of_the_tolerance(given: bool, exponents: Any, left_out: Any) -> None:
    """By NumPy, for states that grow and shrink, at steps longer and shorter than the solution's own time."""
    P, other = RingModulator(cs=0.0), RingModulator(cs=0.0)
    own = stages_of(P)
    counted = np.ones(P.n)
    counted[list(left_out)] = 0.0
    of_each = np.array([exponents[3 * i // P.n] for i in range(P.n)])
    rng = np.random.default_rng(8)
    atol = 1e-6 * rng.uniform(0.5, 2.0, P.n) if given else None
    for problem in (P, other):
        scales = problem.run_scales
        scales.running = True  # sizes follow the solution
        scales.begin(
            np.zeros(P.n), Balance(np.ones(P.n), np.zeros(P.n, dtype=bool), np.ones(P.n), 1e-3), 1e-5
        )
        scales.least_rate = 1.0
    weights, by_numpy = (Weights(atol, 1e-5, of_each, counted, one.run_scales) for one in (P, other))
    by_numpy.least_factor, scales = 1e-5, other.run_scales
    slow = of_each == of_each.min()
    for h, size, first in ((1e-4, 1.0, True), (1e-2, 3.0, False), (1e-7, 0.1, False), (3.0, 2.0, False)):
        u, du = size * rng.standard_normal(P.n), rng.standard_normal(P.n)
        own.u0[:], own.du0[:] = u, du
        own.weigh(weights, h, first)
        for known in (scales.unknowns, scales.seen):
            known[:] = np.maximum(known, np.abs(u))
        if not first and of_each.any():
            changes = (du / np.maximum(scales.unknowns, scales.expected))[slow]
            scales.rate = max(np.sqrt(np.mean(changes**2)), KEPT_RATE * scales.rate, scales.least_rate)
        assert own.weights == pytest.approx(by_numpy.of_stages(u[None], h), rel=1e-14)
        assert weights.least_factor == 1e-5
        for name in ("unknowns", "seen"):
            assert np.array_equal(getattr(P.run_scales, name), getattr(other.run_scales, name))
        assert P.run_scales.rate == pytest.approx(other.run_scales.rate, rel=1e-14)


def mixed_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    out[0] = du[0] + 0.5 * du[1] + u[0] + u[1]
    out[1] = 3.0 * du[1] + 2.0 * u[1]


class Mixed(ProblemDAE):
    """Both derivatives in one equation: dF/du' is not symmetric."""

    residual_kernel = mixed_residual
    jacobian_kernel = COMPLEX_STEP

    def __init__(self) -> None:
        super().__init__(2, 0)
        self.sparsity = sparse.csc_matrix([[1.0, 1.0], [0.0, 1.0]])

    def u_exact(self, t: float) -> Array:
        return np.ones(2)  # somewhere


PROBLEMS = {
    "line": lambda: TransmissionLine(sections=40),
    "flow": lambda: NavierStokes(cells=6),
    "adder": TwoBitAdder,
    "swapping": Swapping,
    "mixed": Mixed,
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("again", [False, True])
def test_a_step_is_that_of_equations_in_python_and_of_one_large_matrix(name: str, again: bool) -> None:
    make: Any = PROBLEMS[name]
    compiled, plain = stages_of(make()), stages_of(InPython(make()))
    t0 = 0.0 if name == "adder" else 0.25
    u0 = compiled.problem.u_exact(t0)
    for h in (1e-3, 1.3e-3):
        found = step(compiled, u0, t0, h, again)
        close(found, step(plain, u0, t0, h, again))
        first = [first_step(stages, u0, t0, 1e3 * h) for stages in (compiled, plain)]
        assert 0.0 < first[0] <= 10.0 * (1.0 + EPS) * h and math.isclose(*first, rel_tol=1e-9)
        coupled = CoupledStages(make(), RADAU.A, RADAU.c)
        coupled.start(attach(np.array(u0), compiled.problem.n_diff), found[1], t0, h)
        coupled.newton.solve(coupled)
        assert np.abs(coupled.u - found[0]).max() <= 1e-9 * np.abs(found[0]).max()
    assert plain._pattern is not None and counts(compiled) == counts(plain)


class Growing(ProblemDAE):
    """x' = y - x, v' = x - v, 0 = y - max(0, t - 1/2) x - 1: a sparse Jacobian leaves out what is zero."""

    index = 1

    def __init__(self, kind: Callable[[Any], Any]) -> None:
        super().__init__(2, 1)
        self.kind = kind

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return [du[0] + u[0] - u[2], du[1] + u[1] - u[0], u[2] - max(0.0, t - 0.5) * u[0] - 1.0]

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        grown = -c * max(0.0, t - 0.5)
        return self.kind(np.array([[1.0 + c, 0.0, -c], [-c, 1.0 + c, 0.0], [grown, 0.0, c]]))


def test_a_jacobian_in_python_may_get_new_entries_and_its_state_is_kept_to_the_last_bit() -> None:
    grown, dense = stages_of(Growing(sparse.csc_matrix)), stages_of(Growing(np.asarray))
    for t0 in (0.0, 0.75):
        close(step(grown, np.ones(3), t0, 0.25), step(dense, np.ones(3), t0, 0.25))
        assert len(grown._pattern.indices) == (5 if t0 == 0.0 else 6)
        for stages in (grown, dense):
            copied = stages_of(Growing(stages.problem.kind))
            copied.set_state(stages.get_state())
            start, ends = attach(np.full(3, 1.1), 2), []
            start.polynomial = StepPolynomial(t0, 0.25, stages.nodes, stages.u, stages.du, 3)
            for own in (copied, stages):
                own.begin(start, t0 + 0.25, 0.2)
                own.numbers.rate = 0.0  # the Jacobian is kept, not the factors
                assert own.solve(t0 + 0.25, 0.2, 0) == SOLVED
                ends.append((own.u, own.numbers.error))
            assert np.array_equal(ends[0][0], ends[1][0]) and ends[0][1] == ends[1][1]


def test_the_adder_takes_the_same_steps_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"rtol": 1e-4, "t_end": 5.0}
    own, kind = ds.solve("two-bit-adder", **options), compiled_stages().MachineStages
    monkeypatch.setattr(execution, "_IDLE", Recent(1))  # no stages of other runs
    monkeypatch.setattr(together, "MachineStages", lambda problem, *about: kind(InPython(problem), *about))
    other = ds.solve("two-bit-adder", **options)
    assert own.stats == other.stats
    # Round-off grows from step to step; another ordering in SuperLU changes as much.
    np.testing.assert_allclose(own.t, other.t, rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(own.u, other.u, rtol=1e-6, atol=1e-6)


def bent_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    out[0] = du[0] - 0.5
    out[1] = math.exp(u[1]) - 1.0 - u[0]


class Bent(ProblemDAE):
    """exp(v) = 1 + t / 2: what the matrix has of v grows by half from t=0 to 1."""

    residual_kernel = bent_residual
    jacobian_kernel = COMPLEX_STEP
    index = 1

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.sparsity = sparse.csc_matrix([[1.0, 0.0], [1.0, 1.0]])


def test_the_last_stage_is_checked_with_its_own_jacobian_in_compiled_code(superlu: Calls) -> None:
    problem, t0, h = Bent(), 0.0, 1.0
    stages = stages_of(problem)
    assert stages._pattern is not None
    stages.begin(attach(np.zeros(2), 1), t0, h)
    assert stages.solve(t0, h) == SOLVED
    u, du, c = stages.u[-1], stages.du[-1], h * stages.real
    value = np.array([du[0] - 0.5, math.exp(u[1]) - 1.0 - u[0]])
    correction = c * np.linalg.solve([[1.0, 0.0], [-c, c * math.exp(u[1])]], value)
    assert stages.numbers.end_error == pytest.approx(WEIGHT * np.abs(correction).max(), rel=1e-6)
    assert superlu.count == 1, "its factors have the pivots of the real matrix"


def test_the_last_stage_is_checked_outside_where_those_pivots_are_too_small(superlu: Calls) -> None:
    problem = Bent()
    stages = stages_of(problem)
    stages.begin(attach(np.zeros(2), 1), 0.0, 1.0)
    stages.solve(0.0, 1.0)
    stages._arrays["triangles"][-1] = 0
    assert stages.solve(0.0, 1.0) == SOLVED
    assert stages.numbers.end_error == math.inf
    assert stages.end_is_solved(0.0, 1.0, 1.0)


# --- where a factorisation is costly ------------------------------------------------------------------------


def last_correction(stages: Any, share: float) -> tuple[int, Array]:
    """Refine with a matrix that has a share of the kept one at the constraint of :class:`Bent`."""
    kept = stages.matrix_of(0)
    stages._arrays["end_matrix"][:] = kept.data
    stages._arrays["end_matrix"][-1] *= share
    stages.error[:] = 0.0, 1e-6
    done = compiled_stages().answer_of("refine")(stages._memory.own, 0, 0)
    return done, stages.error * kept.toarray()[1, 1]


def test_the_last_stage_is_refined_unless_its_jacobian_has_become_far_smaller() -> None:
    stages = stages_of(Bent())
    stages.begin(attach(np.zeros(2), 1), 0.0, 1.0)
    stages.solve(0.0, 1.0)
    done, found = last_correction(stages, 0.8)
    assert done == 1
    np.testing.assert_allclose(found, [0.0, 1.25e-6], rtol=1e-3)
    # A diode that has ceased to conduct: corrections with the factors at hand would be small.
    done, _ = last_correction(stages, 1e-3)
    assert done == 0 and np.array_equal(stages.error, [0.0, 1e-6])


def test_a_flow_keeps_costly_factors_and_is_as_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> tuple[float, int]:
        solution = ds.solve(NavierStokes, params={"cells": 20}, rtol=1e-5, t_end=1.0)
        problem = NavierStokes(cells=20)
        exact = np.array([problem.u_exact(t) for t in solution.t])
        return np.abs(solution.u - exact).max(), solution.stats["factorization"]

    error, factorizations = run()
    monkeypatch.setattr(compiled_stages(), "COSTLY_ROW_FILL", np.inf)
    error_of_all, all_factorizations = run()
    assert factorizations < 0.8 * all_factorizations
    assert error < 2.0 * error_of_all


@pytest.mark.parametrize(("problem", "costly"), [(NavierStokes(), 0), (NavierStokes(cells=16), 1)])
def test_the_fill_of_the_factors_says_whether_they_are_costly(problem: ProblemDAE, costly: int) -> None:
    stages = stages_of(problem)
    step(stages, problem.u_exact(0.25), 0.25, 1e-2)
    assert stages.numbers.costly == costly


@pytest.mark.parametrize(("ratio", "factorizations"), [(1.0, 0), (1.5, 2)])
def test_costly_factors_serve_the_next_step_of_the_same_size(ratio: float, factorizations: int) -> None:
    problem, t0, h = NavierStokes(cells=16), 0.25, 2.0**-6
    stages = stages_of(problem)
    stages.begin(problem.u_exact(t0), t0, h)
    assert stages.solve(t0, h) == SOLVED
    before = counts(stages)["factorization"]
    u = attach(np.array(stages.u[-1]), problem.n_diff)
    u.polynomial = StepPolynomial(t0, h, stages.nodes, stages.u, stages.du, problem.n)
    stages.begin(u, t0 + h, ratio * h)
    assert stages.numbers.rate < KEPT_FACTORS_CONTRACTION
    assert stages.solve(t0 + h, ratio * h) == SOLVED
    assert counts(stages)["factorization"] == before + factorizations


# --- pivots -------------------------------------------------------------------------------------------------


def swap(stages: Any, number: int) -> None:
    """Step from the exact solution, with a result known to the order of the method."""
    t0 = number * H
    u = step(stages, stages.problem.u_exact(t0), t0, H, False)[0]
    np.testing.assert_allclose(u[-1], stages.problem.u_exact(t0 + H), rtol=0.0, atol=1e-6)


def test_pivots_are_chosen_once(superlu: Calls) -> None:
    stages = stages_of(Swapping())
    for number in range(10):
        swap(stages, number)
    assert superlu.count == 1, "the complex matrix takes the pivots of the real one"
    assert counts(stages)["factorization"] == 10 * 2


def test_weak_pivots_are_replaced(superlu: Calls) -> None:
    problem = Swapping()
    stages = stages_of(problem)
    for number in range(6):
        swap(stages, number)
    problem.period = 2.0**20  # one swap, from now on
    for number in range(6, 12):
        swap(stages, number)
    assert superlu.count == 1
    problem.period = -(2.0**20)
    swap(stages, 12)
    assert superlu.count == 1
    problem.period = 12 * H  # the second half of it is swapped
    for number in range(12, 18):
        swap(stages, number)
    assert superlu.count == 3, "the real matrix and the complex one have new pivots"
    assert counts(stages)["factorization"] == 19 * 2
    assert not stages._factors.outside


def test_a_matrix_without_lasting_pivots_stays_with_superlu(superlu: Calls) -> None:
    stages = stages_of(Swapping(H))
    steps = _answers.MOST_SHORT_LIVED + 6
    for number in range(steps):
        swap(stages, number)
    assert sorted(stages._factors.outside) == [0, 1]
    assert superlu.count == 2 * steps - 1, "none but the first complex matrix found pivots that served it"
    assert counts(stages)["factorization"] == 2 * steps


def test_full_factors_stay_with_superlu(monkeypatch: pytest.MonkeyPatch, superlu: Calls) -> None:
    problem = NavierStokes(cells=6)
    kept = stages_of(problem)
    expected = [step(kept, problem.u_exact(0.25), 0.25, h) for h in (1e-2, 2e-2)]
    assert superlu.count == 1
    monkeypatch.setattr(triangular, "LARGEST_ROW_FILL", 0)
    stages = stages_of(NavierStokes(cells=6))
    for h, numbers in zip((1e-2, 2e-2), expected, strict=True):
        close(step(stages, problem.u_exact(0.25), 0.25, h), numbers)
    assert superlu.count == 1 + counts(stages)["factorization"]
    assert counts(stages) == counts(kept)


def singular_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    out[0] = du[0] + u[0] - u[1]
    out[1] = p[0] * (u[1] - 1.0)


class Singular(ProblemDAE):
    """Without a constraint where p = 0."""

    residual_kernel = singular_residual
    jacobian_kernel = COMPLEX_STEP

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.factor, self.sparsity = 0.0, sparse.csc_matrix([[1.0, 1.0], [0.0, 1.0]])

    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.factor,)


def test_a_singular_matrix_is_said_to_be_one_and_left_behind() -> None:
    problem = Singular()
    stages = stages_of(problem)
    u0 = attach(np.zeros(2), 1)
    for factor, expected in ((0.0, SINGULAR), (1.0, SOLVED), (0.0, SINGULAR), (2.0, SOLVED)):
        problem.factor = factor
        stages.forget()
        stages.begin(u0, 0.0, 0.1)
        assert stages.solve(0.0, 0.1) == expected
        assert (stages.numbers.factored > 0.0) == (expected == SOLVED)
    # u' + u = 1 from 0.
    assert abs(stages.u[-1, 0] + math.expm1(-0.1)) < 1e-7


# --- patterns -----------------------------------------------------------------------------------------------


def untidy_residual(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
    out[0] = du[0] + 3.0 * u[0] - 2.0 * u[1]
    out[1] = u[1] - u[0]


def untidy_jacobian(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
    out[0], out[1], out[2] = -c, 1.0, 3.0 * c
    out[3], out[4] = c, -2.0 * c


class Untidy(ProblemDAE):
    """x' = -x by a Jacobian with entries out of order, one of them in two parts."""

    residual_kernel = untidy_residual
    jacobian_kernel = untidy_jacobian
    sizes: ClassVar[tuple[int, int]] = (1, 1)

    def __init__(self) -> None:
        super().__init__(*self.sizes)
        parts = np.ones(5), np.array([1, 0, 0, 1, 0]), np.array([0, 3, 5])
        self.sparsity = sparse.csc_matrix(parts, shape=(2, 2))


def test_entries_may_be_out_of_order_and_in_parts() -> None:
    problem = Untidy()
    stages = stages_of(problem)
    for h in (0.1, 0.05, 0.1):
        u = step(stages, np.ones(2), 0.0, h)[0]
        np.testing.assert_allclose(u[-1], math.exp(-h), rtol=0.0, atol=1e-7)
    np.testing.assert_array_equal(problem.sparsity.indices, [1, 0, 0, 1, 0])
    assert not any(stages._factors.vain)


def test_a_pattern_that_leaves_out_an_entry_is_refused() -> None:
    problem = Swapping()
    problem.sparsity = sparse.csc_matrix(np.eye(3))
    stages = stages_of(problem)
    stages.begin(attach(problem.u_exact(0.0), 1), 0.0, H)
    with pytest.raises(InputError, match=r"Swapping\.sparsity has no entry \(\d, \d\)"):
        stages.solve(0.0, H)


def test_another_pattern_takes_effect() -> None:
    problem = Swapping()
    fewer = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    problem.sparsity = sparse.csc_matrix(fewer)
    stages = stages_of(problem)
    swap(stages, 0)
    assert len(stages._arrays["mass"]) == 4
    problem.sparsity = full(3)
    swap(stages, 1)
    assert len(stages._arrays["mass"]) == 9


def test_what_is_raised_on_the_way_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    stages = stages_of(Swapping())
    with monkeypatch.context() as changed, pytest.raises(KeyboardInterrupt):
        changed.setattr(stages._factors, "_factorize", interrupted)
        swap(stages, 0)
    swap(stages, 0)


def test_copies_are_independent() -> None:
    stages = stages_of(Swapping())
    swap(stages, 0)
    other = copy.deepcopy(stages)
    other.weights[:] = WEIGHT
    assert other._memory.own != stages._memory.own
    del stages
    swap(other, 1)


# --- complex factors ----------------------------------------------------------------------------------------


def complex_matrix(seed: int, n: int = 60) -> Any:
    """Random entries, those of a pattern that does not depend on the seed, and a heavy diagonal."""
    places = sparse.random_array((n, n), density=4.0 / n, rng=np.random.default_rng(0)) + sparse.eye_array(n)
    matrix = sparse.csc_matrix(places).astype(np.complex128)
    matrix.sort_indices()
    rng = np.random.default_rng(seed)
    matrix.data[:] = rng.standard_normal(matrix.nnz) + 1j * rng.standard_normal(matrix.nnz)
    matrix.setdiag(matrix.diagonal() + 8.0)
    return matrix


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_complex_matrices_are_refactorised(kind: str) -> None:
    renew = refactorize if kind == "plain" else compiled(refactorized)
    solve = solve_triangular if kind == "plain" else compiled(triangular.solve_triangular)
    first = complex_matrix(1)
    n = first.shape[0]
    factors, pattern = superlu_factors(splu(first), first)
    part = first.copy().real
    part.data = np.ascontiguousarray(part.data)
    real, of_real = superlu_factors(splu(part), part)
    work, found = np.empty(4 * n, dtype=np.complex128), np.empty(n, dtype=np.complex128)
    rhs = np.exp(1j * np.arange(n))
    solve(factors, rhs, found, work)
    np.testing.assert_allclose(found, np.linalg.solve(first.toarray(), rhs), rtol=0.0, atol=n * n * EPS)
    for own, places in ((factors, pattern), (copy_for(real, np.complex128), of_real)):
        for seed in (2, 3):
            matrix = complex_matrix(seed)
            assert renew(places, own, matrix.data, work) == REFACTORIZED
            solve(own, rhs, found, work)
            expected = np.linalg.solve(matrix.toarray(), rhs)
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=n * n * EPS)


@pytest.mark.parametrize("kind", ["plain", "compiled"])
@pytest.mark.parametrize("unit", [1.0, 1j, np.exp(0.25j * np.pi)])
def test_complex_pivots_are_watched(kind: str, unit: complex) -> None:
    renew = refactorize if kind == "plain" else compiled(refactorized)
    first = sparse.csc_matrix(unit * np.array([[4.0, 1.0], [1.0, 3.0 + 0j]]))
    factors, pattern = superlu_factors(splu(first, permc_spec="NATURAL"), first)
    work = np.empty(8, dtype=np.complex128)

    def answer(matrix: list[list[complex]]) -> int:
        found: int = renew(pattern, factors, unit * np.array(matrix, dtype=np.complex128).T.ravel(), work)
        return found

    assert answer([[1.0, 2.0], [2.0, 1j]]) == REFACTORIZED
    assert answer([[0.0, 1.0], [1.0, 1.0]]) in (WEAK_PIVOT, GROWTH)
    assert answer([[1.0, 1j], [1j, -1.0]]) == WEAK_PIVOT, "the determinant is 0"
    assert answer([[1e-9, 1.0], [1.0, 1.0]]) in (WEAK_PIVOT, GROWTH)
    assert answer([[1.0, 1.0], [1.0, complex(0.0, np.nan)]]) == NOT_FINITE
    assert answer([[1.0, 1.0], [1.0, -1.0]]) == REFACTORIZED
