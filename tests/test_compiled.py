"""Compiled sweeps do what the same sweeps do in Python, for every problem that gives kernels."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import dill
import numpy as np
import pytest
from helpers.pairs import covering_pairs
from numba import types
from pySDC.core.hooks import Hooks
from pySDC.core.step import Step

import dae_sdc as ds
from dae_sdc.compiled import machine_newton
from dae_sdc.dae import compiling
from dae_sdc.dae.declaration import LINEAR_SOLVERS
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.run.description import MAXITER, describe
from dae_sdc.sweepers.sdc import BACKENDS, SWEEPERS, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.solvers import PythonNodes

EPS = float(np.finfo(float).eps)
SDC = sorted(name for name, sweeper in SWEEPERS.items() if issubclass(sweeper, SpectralDeferredCorrectionDAE))
WITH_KERNELS = sorted(PROBLEMS)  # see test_kernels.py
SMALL = {"transmission-line": {"sections": 6}, "navier-stokes": {"cells": 3}}


def level(problem: Any, sweeper: str, backend: str, **settings: Any) -> Any:
    """The level of a step that is predicted, at the problem's start and with its step size."""
    params = SMALL.get(problem, {}) if isinstance(problem, str) else {}
    setup = describe(problem, sweeper=sweeper, backend=backend, params=params, **settings)
    step = Step(setup.with_step(setup.problem.dt))
    L = step.levels[0]
    t0 = setup.problem.interval[0]
    L.status.time, L.status.sweep = t0, 1
    step.init_step(L.prob.state(L.prob.u_exact(t0)))
    L.sweep.predict()
    return L


def sweep(L: Any) -> None:
    L.sweep.updateVariableCoeffs(1)
    L.sweep.update_nodes()
    L.sweep.compute_residual(stage="IT_FINE")


def sensitivity(L: Any) -> float:
    """How much rounding in F may move u and U: the inverse of the node matrices times the terms of F."""
    P, worst = L.prob, 0.0
    for m, c in enumerate(np.diagonal(L.sweep.QI[1:, 1:]) * L.dt):
        if c > 0.0:
            matrix = P.jacobian(L.u[m + 1], L.f[m + 1], L.time + L.dt * L.sweep.coll.nodes[m], float(c))
            dense = matrix.toarray() if hasattr(matrix, "toarray") else matrix
            terms = np.abs(dense) @ np.abs(L.f[m + 1].view(np.ndarray)) + 1.0
            worst = max(worst, float((np.abs(np.linalg.inv(dense)) @ terms).max()))
    return worst


CASES = covering_pairs(product(WITH_KERNELS, SDC, ["LU", "MIN-SR-S", "MIN-SR-FLEX"]))


@pytest.mark.parametrize(("problem", "sweeper", "qdelta"), CASES)
def test_every_sweep_gives_the_values_of_the_one_in_python(problem: str, sweeper: str, qdelta: str) -> None:
    try:
        theirs = level(problem, sweeper, "numpy", qdelta=qdelta)
    except InputError:
        sweeper = "fully-implicit"  # so that each problem meets each Q_Delta
        theirs = level(problem, sweeper, "numpy", qdelta=qdelta)
    ours = level(problem, sweeper, "compiled", qdelta=qdelta)
    assert ours.sweep.solver.compiled and not theirs.sweep.solver.compiled
    # A solve ends where its correction is within this, and rounding may make it end one iteration apart.
    tolerance = max(ours.prob.newton_tol, 64.0 * EPS * sensitivity(theirs))
    for _ in range(4):
        sweep(ours)
        sweep(theirs)
        for first, second in zip(ours.f[1:], theirs.f[1:], strict=True):
            np.testing.assert_allclose(first, second, rtol=0.0, atol=tolerance * (1.0 + abs(second)))
        for first, second in zip(ours.u[1:], theirs.u[1:], strict=True):
            np.testing.assert_allclose(first, second, rtol=0.0, atol=tolerance * (1.0 + abs(second)))


# --- what goes wrong in compiled code -----------------------------------------------------------------------


class Steep(ds.ProblemDAE):
    """y' = -y, 0 = atan(s z) - y: Newton's method overshoots from a poor guess and needs the damped one."""

    index = 1
    asked: ClassVar[list[float]] = []

    def __init__(self, s: float = 10.0, **settings: Any) -> None:
        super().__init__(1, 1, **settings)
        self.s = s

    @staticmethod
    def residual_kernel(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + u[0]
        out[1] = math.atan(p[0] * u[1]) - u[0]

    @staticmethod
    def jacobian_kernel(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
        out[0], out[1] = 1.0 + c, 0.0
        out[2], out[3] = -c, c * p[0] / (1.0 + (p[0] * u[1]) ** 2)

    def kernel_parameters(self) -> list[float]:
        return [self.s]

    def u_exact(self, t: float) -> Any:
        y = 1.5 * math.exp(-t)
        return self.state([y, math.tan(y) / self.s])


class Undefined(Steep):
    """Not defined for y below 1/2, which the solution passes at t = 0.96."""

    @staticmethod
    def residual_kernel(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + math.sqrt(u[0] - 0.5)
        out[1] = u[1] - u[0]

    @staticmethod
    def jacobian_kernel(t: float, u: Any, du: Any, c: float, p: Any, out: Any) -> None:
        out[0], out[1] = 1.0 + 0.5 * c / math.sqrt(u[0] - 0.5), 0.0
        out[2], out[3] = -c, c


def test_a_solve_that_compiled_code_gives_up_is_finished_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[int] = []
    original = PythonNodes.solve_at

    def spy(self: PythonNodes, m: int) -> bool:
        solved.append(m)
        return original(self, m)

    monkeypatch.setattr(PythonNodes, "solve_at", spy)
    # From the flat side of the arc tangent, undamped steps lead farther away.
    settings: dict[str, Any] = {"initial_guess": "spread", "dt": 0.75, "t_end": 1.5, "nodes": 3}
    found = ds.solve(Steep(), **settings)
    assert found.success, found.message
    assert solved
    np.testing.assert_allclose(found.u, ds.solve(Steep(), backend="numpy", **settings).u, rtol=1e-8)


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit"])
def test_errors_of_compiled_sweeps_are_those_of_the_sweeps_in_python(sweeper: str) -> None:
    class Unsolvable(Steep):
        """y + 2 is no angle of an arc tangent."""

        @staticmethod
        def residual_kernel(t: float, u: Any, du: Any, p: Any, out: Any) -> None:
            out[0] = du[0] + u[0]
            out[1] = math.atan(p[0] * u[1]) - u[0] - 2.0 * t

    messages = []
    for backend in BACKENDS:
        problem = Unsolvable()
        found = ds.solve(
            problem, u0=problem.u_exact(0.0), dt=0.5, t_end=1.0, backend=backend, sweeper=sweeper
        )
        assert not found.success
        messages.append(found.message)
    assert messages[0] == messages[1]
    assert "t=" in messages[0] and "node" in messages[0]


def test_a_residual_that_is_not_finite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ds.solve(Undefined(), u0=[1.0, 1.0], dt=0.5, t_end=5.0, initial_guess="spread")
    assert not found.success
    assert "t=" in found.message and found.message.count("\n") == 0


# --- what is kept, copied and refused -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_that_cannot_be_had_is_refused_or_taken(backend: str) -> None:
    class Plain(ds.ProblemDAE):
        def __init__(self, **settings: Any) -> None:
            super().__init__(1, 0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return du + u

    if backend == "compiled":
        with pytest.raises(InputError, match="residual_kernel"):
            ds.solve(Plain, u0=[1.0], dt=0.1, backend=backend, trace=False)
        assert ds.solve(Plain, u0=[1.0], dt=0.1, backend=backend).success
    else:
        assert ds.solve(Plain, u0=[1.0], dt=0.1, backend=backend).success
    with pytest.raises(InputError, match="compiled"):
        ds.solve("simple", backend="fortran")


@pytest.mark.parametrize("solver", ["superlu", "gmres"])
def test_arrays_are_solved_by_a_sparse_solver_in_compiled_sweeps(solver: str) -> None:
    settings: dict[str, Any] = {"sweeper": "semi-implicit", "restol": 1e-11, "dt": 0.1}
    found = ds.solve("simple", linear_solver=solver, backend="compiled", **settings)
    expected = ds.solve("simple", **settings)
    assert found.success, found.message
    np.testing.assert_allclose(found.u, expected.u, atol=1e-8)


@pytest.mark.parametrize("solver", LINEAR_SOLVERS)
@pytest.mark.parametrize("problem", sorted(SMALL))
def test_every_linear_solver_gives_the_same_solution(problem: str, solver: str) -> None:
    if solver == "klu":
        pytest.importorskip("kvxopt")
    settings: dict[str, Any] = {"sweeper": "semi-implicit", "restol": 1e-11, "newton_tol": 1e-12}
    settings |= {"params": SMALL[problem], "t_end": 0.1 if problem == "navier-stokes" else 0.5}
    found = ds.solve(problem, linear_solver=solver, **settings)
    expected = ds.solve(problem, backend="numpy", linear_solver=solver, **settings)
    assert found.success, found.message
    # Residuals of 1e-11 leave this in u; at index 2 the pressure feels them divided by dt.
    np.testing.assert_allclose(found.u, expected.u, atol=1e-8)


def test_kept_matrices_are_told_apart_when_the_step_size_changes() -> None:
    L = level("pendulum", "fully-implicit", "compiled")
    twin = level("pendulum", "fully-implicit", "numpy")
    for dt in (0.02, 0.011, 0.02, 0.013):
        for one in (L, twin):
            one.status.dt_new = None
            one.params.dt = dt
            one.sweep.predict()
            for _ in range(8):
                sweep(one)
        np.testing.assert_allclose(L.u[-1], twin.u[-1], rtol=0.0, atol=1e-9)


def test_more_step_sizes_than_matrices_can_be_kept() -> None:
    L = level("simple", "fully-implicit", "compiled")
    capacity = L.sweep.solver._capacity
    for i in range(2 * capacity):
        L.params.dt = 0.01 * (1.0 + i / capacity)
        L.sweep.predict()
        for _ in range(15):
            sweep(L)
        assert L.status.residual < 1e-7
    assert L.sweep.solver._nodes.used <= capacity


@pytest.mark.parametrize("problem", ["pendulum", "transmission-line"])
def test_a_copied_step_has_memory_of_its_own(problem: str) -> None:
    L = level(problem, "semi-implicit", "compiled")
    sweep(L)
    twin = dill.copy(L)
    reached = np.array(L.u[1:]).copy()
    for one in (twin, L):
        one.sweep.predict()
        for _ in range(3):
            sweep(one)
        if one is twin:
            assert np.array_equal(np.array(L.u[1:]), reached)
    # Sparse matrices of the copy are made again.
    np.testing.assert_allclose(np.array(twin.u[1:]), np.array(L.u[1:]), rtol=0.0, atol=1e-10)


# --- sweeps that belong to the prediction -------------------------------------------------------------------


class CountIterations(Hooks):  # type: ignore[misc]
    """A hook that looks at every iteration."""

    seen: ClassVar[list[int]] = []

    def post_iteration(self, step: Any, level_number: int) -> None:
        super().post_iteration(step, level_number)
        self.seen.append(step.status.iter)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sweeper", SDC)
def test_sweeps_before_the_first_iteration_lead_to_the_same_solution(sweeper: str, backend: str) -> None:
    at_once = ds.solve("hessenberg-2", sweeper=sweeper, dt=0.1, t_end=1.0, backend=backend)
    one_by_one = ds.solve("hessenberg-2", sweeper=sweeper, dt=0.1, t_end=1.0, backend=backend, nsweeps=1)
    assert at_once.success and one_by_one.success
    assert at_once.stats["sweeps"] == one_by_one.stats["sweeps"] > 0
    np.testing.assert_array_equal(at_once.u, one_by_one.u)
    assert at_once.per_step["residual"].tolist() == one_by_one.per_step["residual"].tolist()


def test_who_looks_at_iterations_gets_them() -> None:
    CountIterations.seen.clear()
    watched = ds.solve("simple", dt=0.1, t_end=0.5, hooks=[CountIterations])
    assert len(CountIterations.seen) == watched.stats["sweeps"]
    assert ds.solve("simple", dt=0.1, t_end=0.5).stats["sweeps"] == watched.stats["sweeps"]


def test_a_limit_on_iterations_is_one_on_sweeps() -> None:
    found = ds.solve("simple", dt=0.1, t_end=0.1, maxiter=2)
    assert not found.success and "2 iterations" in found.message
    # Left alone, a step ends after as many as there may be in all.
    found = ds.solve("hessenberg-3", sweeper="fully-implicit", qdelta="IE", dt=0.1, t_end=0.1)
    assert found.success or f"{found.parameters['maxiter']} iterations" in found.message
    assert found.parameters["maxiter"] == MAXITER


def test_a_tolerance_that_is_switched_off_does_a_fixed_number_of_sweeps() -> None:
    found = ds.solve("simple", dt=0.1, t_end=0.3, restol=-1.0, maxiter=4)
    assert found.per_step["sweeps"].tolist() == [0, 4, 4, 4]


# --- numba --------------------------------------------------------------------------------------------------


def test_numba_is_imported_for_kernels_alone() -> None:
    code = """
import sys
import dae_sdc as ds
class Plain(ds.ProblemDAE):
    def __init__(self, **settings):
        super().__init__(1, 0, **settings)
    def eval_f(self, u, du, t):
        return du + u
assert ds.solve(Plain, u0=[1.0], dt=0.1, trace=False).success
assert "numba" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_function_that_two_others_call_is_compiled_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    lowered, run_pass = list[str](), compiling._LinkedLowering.run_pass

    def counted(self: Any, state: Any) -> bool:
        lowered.append(state.func_id.func_name)
        return bool(run_pass(self, state))

    monkeypatch.setattr(compiling._LinkedLowering, "run_pass", counted)

    @compiling.within_compiled
    def doubled(x: Any) -> Any:
        return 2.0 * x

    @compiling.register_jitable(**compiling.INNER | machine_newton.RARE)  # with other options
    def rarely(x: Any) -> Any:
        return doubled(x) - 1.0

    def both(x: Any) -> Any:
        return doubled(x) + rarely(x)

    function = compiling.c_function(both, types.float64(types.float64))
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(function.address)(1.5) == 5.0
    assert sorted(lowered) == ["doubled", "rarely"]
