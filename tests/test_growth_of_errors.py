"""Methods that let errors grow from step to step are found by their stability at the index; others run."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dae_sdc as ds
from dae_sdc.control.amplification import WatchAmplification
from dae_sdc.errors import DAEWarning
from dae_sdc.sweepers.amplification import Piece, amplification, mass_matrix
from dae_sdc.sweepers.linear_multistep import MULTISTEP
from dae_sdc.sweepers.tableaux import METHODS, Tableau

Vector = npt.NDArray[np.float64]


def factor_of_problematic_f(method: Any, eta: float) -> float:
    """The factor of errors of z per step, from the equations of the method and y = -eta t z."""
    if isinstance(method, Tableau):
        inverse, C = np.linalg.inv(method.A), np.diag(method.c)
        matrix = (1.0 + eta) * np.eye(len(C)) + eta * (C @ inverse - inverse @ C)
        return abs(float(np.linalg.solve(matrix, eta * C @ inverse @ np.ones(len(C)))[-1]))
    k = method.steps
    # (1 + eta) z_n + eta sum_j j alpha_j z_(n-j) = 0, with alpha of the formula in which beta is 1.
    polynomial = eta * np.arange(k + 1.0) * method.alpha / method.beta[0]
    polynomial[0] = 1.0 + eta
    return float(np.abs(np.roots(polynomial)).max())


def solved(eta: float, sweeper: str, **given: Any) -> Any:
    given = {"dt": 0.05, "t_end": 3.0, **given}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DAEWarning)
        return ds.solve("problematic-f", params={"eta": eta}, sweeper=sweeper, **given)


@pytest.mark.parametrize("name", ["radau-iia-3", "radau-iia-5", "radau-iia-9", "dirk43-2", "lobatto-iiic-4"])
@pytest.mark.parametrize("eta", [-0.4, -0.2, -0.1, 0.5, 2.0])
def test_the_amplification_of_runge_kutta_methods_is_that_of_their_equations(name: str, eta: float) -> None:
    check_factor(METHODS[name], eta, 0.02) if (name, eta) != ("radau-iia-9", -0.2) else None


@pytest.mark.parametrize(
    "k, eta", [(1, -0.6), (2, -0.3), (2, -0.4), (3, -0.2), (4, -0.1), (3, 5.0), (6, 1.0)]
)
def test_the_amplification_of_bdf_is_that_of_its_equations(k: int, eta: float) -> None:
    # Complex pairs from k = 3 on for positive eta turn in the window of steps.
    check_factor(MULTISTEP[f"bdf{k}"], eta, 0.05)


def check_factor(method: Any, eta: float, tolerance: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DAEWarning)
        problem = ds.ProblematicF(eta=eta)
    known = ([np.array(value(t)) for t in (0.3, 0.4)] for value in (problem.u_exact, problem.du_exact))
    piece = Piece(problem, (0.3, 0.4), *known)
    found = np.exp(amplification(piece, method.linear_step, 0.3, 1e-3))
    expected = factor_of_problematic_f(method, eta)
    assert found == pytest.approx(expected, rel=tolerance, abs=0.01)


def test_the_bounds_of_eta_are_those_that_the_problem_tells() -> None:
    for s in range(2, 6):
        for eta, stable in ((-0.999 / (2 * s), True), (-1.001 / (2 * s), False)):
            assert (factor_of_problematic_f(METHODS[f"radau-iia-{2 * s - 1}"], eta) < 1.0) is stable
    for k in range(1, 7):
        method = MULTISTEP[f"bdf{k}"]
        assert factor_of_problematic_f(method, -0.999 * 2.0**-k) < 1.0
        assert factor_of_problematic_f(method, -1.001 * 2.0**-k) > 1.0
        if k > 2:
            highest = (2.0 * np.cos(np.pi / k)) ** -k
            assert factor_of_problematic_f(method, 0.99 * highest) < 1.0
            assert factor_of_problematic_f(method, 1.01 * highest) > 1.0


@pytest.mark.parametrize(
    "eta, sweeper, nodes",
    [
        (-0.27, "fully-implicit", 3),
        (-0.2, "fully-implicit", 3),
        (-0.3, "radau-iia-5", None),
        (-0.4, "radau-iia-3", None),
        (-0.3, "bdf2", None),
        (-0.4, "bdf2", None),
        (1.0, "bdf6", None),
        (-0.55, "backward-euler", None),
        (-0.1, "gauss-4", None),
    ],
)
def test_steps_of_a_fixed_size_in_which_errors_grow_end_the_run(
    eta: float, sweeper: str, nodes: int | None
) -> None:
    solution = solved(eta, sweeper, nodes=nodes)
    assert not solution.success
    for part in (
        "errors grow by a factor of",
        "with dt=0.05",
        "reduce the index",
        "does not let them grow here",
    ):
        assert part in solution.message, solution.message
    if sweeper in METHODS or nodes:
        method = METHODS["radau-iia-5" if nodes else sweeper]
        if method.stiffly_accurate:
            told = float(solution.message.split("factor of ")[1].split()[0])
            assert told == pytest.approx(factor_of_problematic_f(method, eta), rel=0.02)


@pytest.mark.parametrize(
    "eta, sweeper, largest",
    [
        (-0.45, "backward-euler", 0.05),
        (-0.24, "bdf2", 1e-2),
        (-0.24, "radau-iia-3", 1e-2),
        (-0.16, "radau-iia-5", 1e-3),
        (-0.4, "lobatto-iiic-4", 5e-3),
        (0.9, "gauss-4", 5e-3),
        (0.1, "gauss-6", 1e-4),
        (1.0, "radau-iia-13", 1e-6),
        (1.0, "trapezoidal", 5e-3),
    ],
)
def test_methods_that_are_stable_run(eta: float, sweeper: str, largest: float) -> None:
    solution = solved(eta, sweeper)
    assert solution.success, solution.message
    exact = np.column_stack([np.sin(solution.t), np.zeros(len(solution.t))])
    assert np.abs(solution.u - exact).max() < largest


def test_several_steps_at_once_are_watched_too() -> None:
    solution = solved(-0.27, "fully-implicit", nodes=3, steps=4)
    assert not solution.success and "errors grow" in solution.message


# --- coordinates that turn ----------------------------------------------------------------------------------


class Turned(ds.ProblemDAE):
    """u' = 5 u, or x' = z + a x with x given, in coordinates that turn, rows mixed by a matrix of u.

    E (Q u)' + C Q u = E (Q x)' + C Q x, with Q' = S Q and the solution x.
    """

    interval = (0.0, 2.0)
    rate, grows, size, mixing = 0.1, 0.0, 2, 0.4

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=self.size + 1, n_alg=0, **settings)
        n = self.size + 1
        self.E, self.C = np.eye(n), np.eye(n)
        self.E[1:, 1:] = np.eye(self.size, k=1)
        self.C[0, 0] = -self.grows
        upper = np.triu(np.cos(np.arange(1.0, n * n + 1.0)).reshape(n, n), 1)
        self.skew = self.rate * (upper - upper.T)
        self.speeds, self.vectors = np.linalg.eigh(1j * self.skew)

    def exact(self, t: float, order: int = 0) -> Vector:
        w = np.linspace(0.6, 1.9, self.size + 1)
        return np.asarray(w**order * np.sin(w * t + np.arange(self.size + 1) + order * np.pi / 2))

    def turned(self, t: float) -> Vector:
        turns = np.exp(-1j * self.speeds * t)
        return np.asarray(((self.vectors * turns) @ self.vectors.conj().T).real)

    def matrices(self, t: float) -> tuple[Vector, Vector]:
        Q = self.turned(t)
        return self.E @ Q, self.E @ self.skew @ Q + self.C @ Q

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        mass, stiffness = self.matrices(t)
        u = np.asarray(u)
        rows = mass @ (np.asarray(du) - self.exact(t, 1)) + stiffness @ (u - self.exact(t))
        mixed = np.eye(len(u)) + self.mixing * np.tril(np.outer(np.sin(u), np.ones(len(u))), -1)
        return mixed @ rows


def kind(**settings: Any) -> type[Turned]:
    return type("Kind", (Turned,), settings)


METHODS_TO_TRY = (
    "backward-euler",
    "radau-iia-3",
    "radau-iia-5",
    "lobatto-iiic-4",
    "esdirk43",
    "gauss-4",
    "trapezoidal",
    "bdf2",
    "bdf4",
    "bdf6",
)


RATES = (0.05, 0.6, 2.0)
MIXED_ROWS = [
    *((1, RATES[k % 3], name) for k, name in enumerate(METHODS_TO_TRY)),
    *((2, RATES[k % 3], name) for k, name in enumerate(METHODS_TO_TRY, start=1) if k % 2 == 0),
    *((2, 0.05, name) for name in ("backward-euler", "radau-iia-3", "radau-iia-5", "bdf2")),
]
"""Numbers of rows, rates, methods: half of the methods with two rows, and those stable at the slow rate."""


@pytest.mark.parametrize(("size", "rate", "sweeper"), dict.fromkeys(MIXED_ROWS))
def test_rows_mixed_by_the_unknowns_are_solved_or_refused(size: int, rate: float, sweeper: str) -> None:
    problem = kind(size=size, rate=rate)
    exact = problem().exact
    solution = ds.solve(problem, u0=exact(0.0), sweeper=sweeper, dt=0.02, reduce=False, trace=False)
    error = max(np.abs(u - exact(t)).max() for t, u in zip(solution.t, solution.u, strict=True))
    assert solution.success or "errors grow" in solution.message, solution.message
    assert not solution.success or error < 10.0, error
    if size == 1 or (rate < 0.1 and sweeper in ("backward-euler", "radau-iia-3", "radau-iia-5", "bdf2")):
        assert solution.success, solution.message


@pytest.mark.parametrize("sweeper", ["backward-euler", "radau-iia-5", "bdf2", "lobatto-iiic-4"])
def test_growth_of_the_solution_itself_is_never_refused(sweeper: str) -> None:
    problem = kind(grows=5.0, rate=0.05, mixing=0.0)
    solution = ds.solve(problem, u0=problem().exact(0.0), sweeper=sweeper, dt=0.02, reduce=False, trace=False)
    assert solution.success, solution.message


def test_an_unstable_equation_of_low_index_runs_with_every_method() -> None:
    for sweeper in METHODS_TO_TRY:
        solution = ds.solve(
            lambda t, u, du: [du[0] - 5.0 * u[0]], u0=[1.0], t_end=2.0, dt=0.01, sweeper=sweeper
        )
        assert solution.success, (sweeper, solution.message)


@pytest.mark.parametrize("h", [0.04, 0.01])
def test_at_index_three_the_growth_is_that_of_a_perturbation(h: float) -> None:
    """Backward Euler, (M + h J) e_1 = M e_0: the growth tends to 1 slower than that of a solution."""
    problem = kind(size=3, rate=0.3)()
    error, sizes = np.ones(4), []
    for k in range(60):
        mass, stiffness = problem.matrices((k + 1) * h)
        error = np.linalg.solve(mass + h * stiffness, mass @ error)
        sizes.append(np.abs(error).max())
        error /= sizes[-1]
    expected = np.log(sizes[20:]).mean()
    times = h * np.arange(30.0)
    known = ([problem.exact(t, order) for t in times] for order in (0, 1))
    piece = Piece(problem, times.tolist(), *known)
    found = amplification(piece, METHODS["backward-euler"].linear_step, 8.0 * h, h)
    assert found == pytest.approx(expected, rel=0.1, abs=0.02)


class TurningLater(ds.ProblemDAE):
    """y' + s z' + (1 + s') z = cos(t), y + s z = sin(t), in which s = eta (t - 1) from t = 1 on, else 0.

    The solution is y = sin(t), z = 0; from t = 1 on errors of z grow as those of problematic-f do.
    """

    eta, index = -0.27, 2

    def __init__(self, **settings: Any) -> None:
        super().__init__(n_diff=2, n_alg=0, **settings)

    def slope(self, t: float) -> tuple[float, float]:
        return (self.eta * (t - 1.0), self.eta) if t > 1.0 else (0.0, 0.0)

    def eval_f(self, u: Any, du: Any, t: float) -> Any:
        (s, rate), (y, z), (dy, dz) = self.slope(t), u, du
        return [dy + s * dz + (1.0 + rate) * z - np.cos(t), y + s * z - np.sin(t)]

    def jacobian(self, u: Any, du: Any, t: float, c: float) -> Vector:
        s, rate = self.slope(t)
        return np.array([[1.0, s + c * (1.0 + rate)], [c, c * s]])


@pytest.mark.parametrize("eta, stable", [(-0.27, False), (-0.1, True)])
def test_a_kernel_that_turns_after_some_steps_is_seen(eta: float, stable: bool) -> None:
    problem = type("Later", (TurningLater,), {"eta": eta})
    given = {"u0": [0.0, 0.0], "dt": 0.05, "t_end": 6.0, "reduce": False, "trace": False}
    solution = ds.solve(problem, sweeper="fully-implicit", nodes=3, **given)
    assert solution.success is stable, solution.message
    if not stable:
        told = float(solution.message.split("factor of ")[1].split()[0])
        assert told == pytest.approx(factor_of_problematic_f(METHODS["radau-iia-5"], eta), rel=0.05)
        assert 1.0 < solution.t[-1] < 6.0


def test_equations_whose_derivative_part_is_constant_cost_one_matrix_a_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[float] = []

    def counted(problem: Any, u: Any, du: Any, t: float) -> Vector:
        looked.append(t)
        return mass_matrix(problem, u, du, t)

    monkeypatch.setattr("dae_sdc.sweepers.amplification.mass_matrix", counted)
    monkeypatch.setattr(WatchAmplification, "_calculate", lambda self, L: pytest.fail("the kernel is fixed"))
    undeclared = type("Undeclared", (ds.SimpleDAE,), {"constant_mass": False})
    assert ds.solve(undeclared, dt=0.01, sweeper="radau-iia-5").success
    assert 2 < len(looked) < 12


def masses(problem: Any) -> list[Vector]:
    """dF/du' at states, rates and times of which none are those of a solution."""
    source, n, (t0, t_end) = np.random.default_rng(5), problem.n, problem.interval
    problem.start_step(problem.state(problem.u_exact(t0)), t0)
    u = np.array(problem.u_exact(t0)) + source.uniform(0.01, 0.02, (3, n))
    du, t = source.uniform(0.5, 1.0, (3, n)), t0 + source.uniform(0.0, 0.01, 3) * (t_end - t0)
    return [mass_matrix(problem, problem.state(u[k]), problem.state(du[k]), float(t[k])) for k in range(3)]


CONSTANT = [name for name, cls in ds.PROBLEMS.items() if cls.constant_mass]


@pytest.mark.parametrize("name", CONSTANT)
def test_a_derivative_part_that_a_class_declares_to_be_constant_is(name: str) -> None:
    first, *others = masses(ds.PROBLEMS[name]())
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize(
    "factor, is_constant",
    [(lambda x, y, g: g, True), (lambda x, y, g: 1.0 + x, False), (lambda x, y, g: 1.0 + y, False)],
)
def test_models_tell_whether_their_derivative_part_is_constant(factor: Any, is_constant: bool) -> None:
    model = ds.Model("rates")
    x, y = model.variables("x y", start=[1.0, 1.0])
    model.equations(factor(x, y, model.parameter("g", 2.0)) * model.der(x, 2) + x, y - 2 * x)
    problem = model.problem()
    first, *others = masses(problem)
    assert problem.constant_mass is is_constant
    assert all(np.array_equal(first, other) for other in others) is is_constant


def test_equations_whose_kernel_is_fixed_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[float] = []
    growth = WatchAmplification._growth

    def counted(self: Any, *given: Any) -> float:
        looked.append(growth(self, *given))
        return looked[-1]

    monkeypatch.setattr(WatchAmplification, "_growth", counted)

    class Scaled(ds.SimpleDAE):
        """The first equation times a function of the time: the kernel stays where it is."""

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            rows = np.array(super().eval_f(u, du, t))
            rows[0] *= 2.0 + np.sin(t)
            return rows

        def jacobian(self, u: Any, du: Any, t: float, c: float) -> Any:
            matrix = np.array(super().jacobian(u, du, t, c))
            matrix[0] *= 2.0 + np.sin(t)
            return matrix

    assert ds.solve(Scaled, dt=0.01, sweeper="radau-iia-5").success
    assert looked and not any(looked) and len(looked) < 10
