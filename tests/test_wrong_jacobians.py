"""Jacobians that are wrong, slightly off, or turn wrong later: right digits, or a message with the entry."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.integrate import solve_ivp

import dae_sdc as ds
from dae_sdc.errors import InputError, JacobianError

T_END = 1.0


class Oscillator(ds.ProblemDAE):
    """x' = y - z + sin t, y' = -x^3 - y, z - x cos t - z^2 / 10 = 0, of index 1."""

    index = 1
    interval = (0.0, T_END)
    names = ("x", "y", "z")
    equation_names = ("rate of x", "rate of y", "constraint")
    rows: ClassVar[dict[int, float]] = {}
    since: ClassVar[float] = -1.0

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=2, n_alg=1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        x, y, z = u
        return np.array([du[0] - y + z - np.sin(t), du[1] + x**3 + y, z - np.cos(t) * x - 0.1 * z**2])

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        x, z = u[0], u[2]
        matrix = np.array(
            [[1.0, -c, c], [3.0 * c * x**2, 1.0 + c, 0.0], [-c * np.cos(t), 0.0, c * (1.0 - 0.2 * z)]]
        )
        if t > self.since:
            for row, factor in self.rows.items():
                matrix[row] *= factor
        return matrix


class SparseOscillator(Oscillator):
    """The same with a sparse Jacobian."""

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
        return sparse.csc_matrix(super().jacobian(u, du, t, c))


def algebraic(x: float, t: float) -> float:
    """The root of the constraint that the solution is on."""
    return 5.0 * (1.0 - np.sqrt(1.0 - 0.4 * np.cos(t) * x))


def reference() -> np.ndarray:
    """The end of the solution, by an explicit method for the ODE that is left without z."""

    def rates(t: float, y: np.ndarray) -> list[float]:
        return [y[1] - algebraic(y[0], t) + np.sin(t), -(y[0] ** 3) - y[1]]

    end = solve_ivp(rates, (0.0, T_END), [1.0, 0.0], method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    return np.array([*end, algebraic(end[0], T_END)])


START = [1.0, 0.0, algebraic(1.0, 0.0)]
END = reference()

RUNS: list[dict[str, Any]] = [
    {"sweeper": "radau-iia-5", "rtol": 1e-6},
    {"sweeper": "radau-iia-7", "rtol": 1e-8},
    {"sweeper": "fully-implicit", "rtol": 1e-6},
    {"sweeper": "semi-implicit", "rtol": 1e-6},
    {"sweeper": "constrained", "rtol": 1e-6},
    {"sweeper": "esdirk43", "rtol": 1e-6},
    {"sweeper": "fully-implicit", "dt": 0.05},
    {"sweeper": "semi-implicit", "dt": 0.05, "restol": -1.0, "maxiter": 8},
    {"sweeper": "radau-iia-5", "dt": 0.05},
    {"sweeper": "esdirk43", "dt": 0.05},
    {"sweeper": "bdf3", "dt": 0.01},
]


def label(run: dict[str, Any]) -> str:
    return "-".join(str(value) for value in run.values())


def scaled(base: type[Oscillator], rows: dict[int, float], since: float = -1.0) -> type[Oscillator]:
    return type("Scaled", (base,), {"rows": rows, "since": since})


@pytest.mark.parametrize("run", RUNS, ids=label)
@pytest.mark.parametrize(
    "rows", [{0: 1e8, 1: 1e8, 2: 1e8}, {1: 1e4}, {2: 1e4}, {2: -1.0}, {0: 1e-4, 1: 1e-4, 2: 1e-4}], ids=str
)
def test_a_jacobian_with_wrong_rows_is_refused_with_equation_unknown_and_factor(
    run: dict[str, Any], rows: dict[int, float]
) -> None:
    with pytest.raises(InputError, match=r"jacobian of Scaled disagrees .* factor of") as caught:
        ds.solve(scaled(Oscillator, rows), u0=START, **run)
    wrong = [Oscillator.equation_names[row] for row in rows]
    assert any(f"d({name}) / d(" in str(caught.value) for name in wrong)
    assert f"a factor of {next(iter(rows.values())):.3g}" in str(caught.value)


@pytest.mark.parametrize("sweeper", ["radau-iia-5", "semi-implicit"])
def test_a_wrong_sparse_jacobian_is_refused(sweeper: str) -> None:
    with pytest.raises(InputError, match=r"d\(rate of y\) / d\(y'\) is 10000 where they give 1"):
        ds.solve(scaled(SparseOscillator, {1: 1e4}), u0=START, rtol=1e-6, sweeper=sweeper)


@pytest.mark.parametrize("run", RUNS, ids=label)
@pytest.mark.parametrize("rows", [{0: 1e8, 1: 1e8, 2: 1e8}, {1: 1e4}, {2: -1.0}], ids=str)
def test_a_jacobian_that_turns_wrong_on_the_way_gives_no_wrong_digits(
    run: dict[str, Any], rows: dict[int, float]
) -> None:
    # Right at the start and behind the first steps, where it is compared.
    solution = ds.solve(scaled(Oscillator, rows, since=0.4), u0=START, **run)
    if solution.success:
        # A matrix made before may serve to the end, and an iteration with a few wrong entries may converge.
        tolerance = 100.0 * run["rtol"] if "rtol" in run else 1e-4
        assert np.abs(solution.u[-1] - END).max() <= tolerance
    else:
        assert solution.t[-1] < T_END
        assert "disagrees with differences of F" in solution.message


@pytest.mark.parametrize("run", RUNS[:1] + RUNS[2:], ids=label)
def test_a_jacobian_that_is_off_by_a_factor_of_one_and_a_half_still_works(run: dict[str, Any]) -> None:
    solution = ds.solve(scaled(Oscillator, {0: 1.5, 1: 1.5, 2: 1.5}), u0=START, **run)
    assert solution.success, solution.message
    assert np.abs(solution.u[-1] - END).max() <= 1e-4


@pytest.mark.parametrize("sweeper", ["radau-iia-5", "semi-implicit"])
def test_a_deliberately_simplified_jacobian_still_works(sweeper: str) -> None:
    class Simplified(Oscillator):
        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            return np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, c]])

    solution = ds.solve(Simplified, u0=START, rtol=1e-6, sweeper=sweeper)
    assert solution.success, solution.message
    assert np.abs(solution.u[-1] - END).max() <= 1e-4


def test_a_wrong_jacobian_that_lets_steps_creep_ends_with_the_message() -> None:
    class Creeping(Oscillator):
        """A stiff equation whose dF/du has the wrong sign: only steps as short as its transient converge."""

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return np.array([du[0] + 1e7 * (u[0] - np.cos(t)), du[1] - u[0], u[2] - u[0]])

        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            return np.array([[1.0 - 1e7 * c, 0.0, 0.0], [-c, 1.0, 0.0], [-c, 0.0, c]])

    try:
        solution = ds.solve(Creeping, u0=[1.0, 0.0, 1.0], rtol=1e-6, sweeper="radau-iia-5", time_limit=300.0)
        message = solution.message
        assert not solution.success
    except InputError as error:
        message = str(error)
    assert "d(rate of x) / d(x) is -1e+07 where they give 1e+07, a factor of -1" in message


def test_a_compiled_jacobian_of_the_user_is_compared_too() -> None:
    class Compiled(ds.ProblemDAE):
        index = 1
        names = ("y", "z")

        def __init__(self, **settings: Any) -> None:
            super().__init__(n_diff=1, n_alg=1, **settings)

        @staticmethod
        def residual_kernel(t: Any, u: Any, du: Any, p: Any, out: Any) -> None:
            out[0] = du[0] + u[1]
            out[1] = u[1] - u[0]

        @staticmethod
        def jacobian_kernel(t: Any, u: Any, du: Any, c: Any, p: Any, out: Any) -> None:
            out[0], out[1], out[2], out[3] = 1e6, 1e6 * c, -c, c

    with pytest.raises(
        InputError, match=r"jacobian_kernel of Compiled .* d\(equation 0\) / d\(y'\) is 1e\+06"
    ):
        ds.solve(Compiled, u0=[1.0, 1.0], rtol=1e-6, sweeper="radau-iia-5")


def test_the_error_of_a_run_that_ends_by_a_wrong_jacobian_is_one_of_its_own() -> None:
    assert issubclass(JacobianError, ds.SolveError)
