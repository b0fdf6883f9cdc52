"""Accepted residuals are those of the values returned; one kind of unknowns runs with every method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dae_sdc as ds
from dae_sdc.errors import InputError
from dae_sdc.sweepers.direct import DirectMethod
from dae_sdc.sweepers.sdc import SWEEPERS

METHODS = [name for name in SWEEPERS if not hasattr(SWEEPERS[name], "on_manifold")]
FOR_ODES = {
    name for name in METHODS if getattr(getattr(SWEEPERS[name], "method", None), "uses_slopes", False)
}
IMPLICIT = [name for name in METHODS if name not in FOR_ODES]
OPTIONS: list[dict[str, Any]] = [{}, {"nsweeps": 1, "initial_guess": "spread"}, {"qdelta": "MIN-SR-S"}]


class Quadrature(ds.ProblemDAE):
    """y' = 4 t^2 - z, z = t: F does not depend on y."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=1, n_alg=1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return np.array([du[0] - 4.0 * t**2 + u[1], u[1] - t])

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        return np.array([[1.0, c], [0.0, c]])


class CompiledQuadrature(Quadrature):
    """The same by kernels."""

    @staticmethod
    def residual_kernel(t: Any, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] - 4.0 * t * t + u[1]
        out[1] = u[1] - t

    @staticmethod
    def jacobian_kernel(t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> None:
        out[0], out[1], out[2], out[3] = 1.0, c, 0.0, c


@pytest.mark.parametrize("problem", [Quadrature, CompiledQuadrature])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("sweeper", ["constrained", "semi-implicit", "fully-implicit"])
def test_values_returned_are_those_whose_residual_was_accepted(
    problem: type[Quadrature], options: dict[str, Any], sweeper: str
) -> None:
    # Three Radau nodes integrate a polynomial of degree 2 exactly.
    solution = ds.solve(problem, u0=[1.0, 0.0], t_end=1.0, dt=0.25, sweeper=sweeper, **options)
    assert solution.success, solution.message
    exact = 1.0 + 4.0 / 3.0 * solution.t**3 - 0.5 * solution.t**2
    assert np.abs(solution.u[:, 0] - exact).max() <= 1e-9


class Algebraic(ds.ProblemDAE):
    """Two equations without a derivative: z1 + z2^3 = 2 cos t, z1 = z2."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=0, n_alg=2, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return np.array([u[0] + u[1] ** 3 - 2.0 * np.cos(t), u[0] - u[1]])


class CompiledAlgebraic(Algebraic):
    """The same by kernels."""

    @staticmethod
    def residual_kernel(t: Any, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = u[0] + u[1] ** 3 - 2.0 * np.cos(t)
        out[1] = u[0] - u[1]

    @staticmethod
    def jacobian_kernel(t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> None:
        out[0], out[1], out[2], out[3] = c, 3.0 * c * u[1] ** 2, c, -c


class Differential(ds.ProblemDAE):
    """x' = -x^3, y' = x - y without algebraic unknowns."""

    index = 0

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=2, n_alg=0, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        return np.array([du[0] + u[0] ** 3, du[1] - u[0] + u[1]])


class CompiledDifferential(Differential):
    """The same by kernels."""

    @staticmethod
    def residual_kernel(t: Any, u: Any, du: Any, p: Any, out: Any) -> None:
        out[0] = du[0] + u[0] ** 3
        out[1] = du[1] - u[0] + u[1]

    @staticmethod
    def jacobian_kernel(t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> None:
        out[0], out[1], out[2], out[3] = 1.0 + 3.0 * c * u[0] ** 2, 0.0, -c, 1.0 + c


def can_estimate(name: str) -> bool:
    cls = SWEEPERS[name]
    if not issubclass(cls, DirectMethod):
        return True
    try:
        cls.check_adaptive()
    except InputError:
        return False
    return True


def run(problem: type[ds.ProblemDAE], u0: list[float], name: str, steps: dict[str, Any]) -> Any:
    return ds.solve(problem, u0=u0, t_end=0.4, sweeper=name, **steps)


def kinds(name: str) -> list[dict[str, Any]]:
    return [{"dt": 0.05}, *([{"rtol": 1e-6}] if can_estimate(name) else [])]


@pytest.mark.parametrize("name", IMPLICIT)
def test_equations_without_any_derivative_run_with_every_method(name: str) -> None:
    for problem in (Algebraic, CompiledAlgebraic):
        for steps in kinds(name):
            solution = run(problem, [1.0, 1.0], name, steps)
            assert solution.success, (problem, steps, solution.message)
            z = solution.u[-1]
            # Methods that are not stiffly accurate meet an algebraic equation to the order of their stages.
            tolerance = 2e-2 if "dt" in steps else 1e-4
            assert np.abs(z[0] - z[1]) <= tolerance
            assert np.abs(z[0] + z[1] ** 3 - 2.0 * np.cos(solution.t[-1])) <= tolerance, (problem, steps)


@pytest.mark.parametrize("name", METHODS)
def test_equations_without_algebraic_unknowns_run_with_every_method(name: str) -> None:
    for problem in (Differential, CompiledDifferential):
        for steps in kinds(name):
            solution = run(problem, [1.0, 0.0], name, steps)
            assert solution.success, (problem, steps, solution.message)
            exact = 1.0 / np.sqrt(1.0 + 2.0 * solution.t[-1])
            assert np.abs(solution.u[-1, 0] - exact) <= (2e-2 if "dt" in steps else 1e-4), (problem, steps)
