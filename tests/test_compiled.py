"""Compiled sweeps do what the same sweeps do in Python, for every problem that gives kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pySDC.core.step import Step

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import InputError
from dae_sdc.run.description import describe
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE

EPS = float(np.finfo(float).eps)
SDC = sorted(name for name, sweeper in SWEEPERS.items() if issubclass(sweeper, SpectralDeferredCorrectionDAE))
WITH_KERNELS = sorted(name for name, cls in PROBLEMS.items() if cls.residual_kernel and cls.jacobian_kernel)
SMALL = {"transmission-line": {"sections": 6}, "navier-stokes": {"cells": 3}}


def level(problem: Any, sweeper: str, backend: str, **settings: Any) -> Any:
    """The level of a step that is predicted, at the problem's start and with its step size."""
    params = SMALL.get(problem, {}) if isinstance(problem, str) else {}
    setup = describe(problem, sweeper=sweeper, backend=backend, problem_params=params, **settings)
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


def takes(problem: str, sweeper: str) -> bool:
    """Whether the sweeper can solve the problem at all."""
    try:
        level(problem, sweeper, "numpy")
    except InputError:
        return False
    return True


@pytest.mark.parametrize("qdelta", ["LU", "MIN-SR-S", "MIN-SR-FLEX"])
@pytest.mark.parametrize("sweeper", SDC)
@pytest.mark.parametrize("problem", WITH_KERNELS)
def test_every_sweep_gives_the_values_of_the_one_in_python(problem: str, sweeper: str, qdelta: str) -> None:
    if not takes(problem, sweeper):
        pytest.skip("this sweeper refuses the problem")
    ours = level(problem, sweeper, "compiled", qdelta=qdelta)
    theirs = level(problem, sweeper, "numpy", qdelta=qdelta)
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
