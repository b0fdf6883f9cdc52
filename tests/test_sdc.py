"""SDC sweeps: what one computes, where they converge to, how fast, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pySDC.core.hooks import Hooks
from pySDC.core.step import Step
from qmat.qdelta import QDELTA_GENERATORS
from scipy.interpolate import BarycentricInterpolator

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.run.description import describe
from dae_sdc.run.solve import solve
from dae_sdc.sweepers import sweep as sweep_functions
from dae_sdc.sweepers.collocation import QUADRATURES, check_qdelta, qdelta_matrix
from dae_sdc.sweepers.sdc import INITIAL_GUESSES, RESIDUAL_TYPES, SWEEPERS, SpectralDeferredCorrectionDAE

Vector = NDArray[np.float64]

SDC = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]
INDICES = (1, 2, 3)
T0, DT = 0.2, 0.1


def new_step(
    problem: Any, sweeper: str, dt: float = DT, t0: float = T0, u0: Any = None, **settings: Any
) -> Any:
    """The level of a pySDC step that has not been predicted yet."""
    step = Step(describe(problem, sweeper=sweeper, **settings).with_step(dt))
    L = step.levels[0]
    L.status.time, L.status.sweep = t0, 1
    step.init_step(L.prob.state(L.prob.u_exact(t0)) if u0 is None else u0)
    return L


def sweep(L: Any, times: int = 1) -> None:
    for _ in range(times):
        L.sweep.updateVariableCoeffs(1)
        L.sweep.update_nodes()
        L.sweep.compute_residual(stage="IT_FINE")


def converge(L: Any, tolerance: float, most: int = 100) -> int:
    """Sweeps until the residual is below the tolerance; their number."""
    for count in range(1, most + 1):
        sweep(L)
        if L.status.residual <= tolerance:
            return count
    raise AssertionError(f"residual {L.status.residual:.1e} after {most} sweeps")


def converge_fully(L: Any) -> None:
    """Sweep to round-off, which reaches u' multiplied by 1 / dt for every index above 1."""
    converge(L, 5e-14 if L.prob.index < 3 else 5e-12)
    sweep(L, 10)


def nodes_of(L: Any) -> tuple[Vector, Vector, Vector]:
    """Q, nodes in time, and the stage values as copies."""
    return L.sweep.coll.Qmat[1:, 1:], L.time + L.dt * L.sweep.coll.nodes, np.array(L.u[1:])


def integrated(L: Any) -> int:
    """Number of unknowns a sweeper integrates, as its name says."""
    return int(L.prob.n if L.sweep.integrates_algebraic else L.prob.n_diff)


def root(residual: Callable[[Vector], Vector], x: Vector) -> Vector:
    """Newton's method with central differences; it owes nothing to the package."""
    for _ in range(12):
        J = np.empty((x.size, x.size))
        for i in range(x.size):
            step = np.zeros(x.size)
            step[i] = 1e-6 * (1.0 + abs(x[i]))
            J[:, i] = (residual(x + step) - residual(x - step)) / (2.0 * step[i])
        x = x - np.linalg.solve(J, residual(x))
    return x


def evaluate(P: ProblemDAE, u: Vector, du: Vector, t: float) -> Vector:
    return np.asarray(P.eval_f(P.state(u), P.state(du), t))


def collocation(L: Any) -> tuple[Vector, Vector]:
    """Values and derivatives of the collocation solution of the step, solved for all nodes at once."""
    P, k = L.prob, integrated(L)
    Q, times, _ = nodes_of(L)
    u0, first = np.array(L.u[0]), int(L.sweep.coll.left_is_node)
    exact = np.array([P.u_exact(t) for t in times])
    slope = np.array([P.du_exact(t) for t in times])
    slope[:, k:] = 0.0
    slope[:first] = np.array(P.du_exact(L.time))
    slope[:first, k:] = 0.0

    def unpack(x: Vector) -> tuple[Vector, Vector]:
        u, du = exact.copy(), slope.copy()
        rows = x.reshape(-1, P.n)
        u[first:, k:], du[first:, :k] = rows[:, k:], rows[:, :k]
        u[:first] = u0
        u[:, :k] = u0[:k] + L.dt * Q @ du[:, :k]
        return u, du

    def residual(x: Vector) -> Vector:
        u, du = unpack(x)
        return np.concatenate([evaluate(P, *row) for row in list(zip(u, du, times, strict=True))[first:]])

    start = np.hstack([slope[first:, :k], exact[first:, k:]])
    return unpack(root(residual, start.ravel()))


def close(actual: Any, wanted: Any, tolerance: float) -> None:
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert np.abs(actual - wanted).max() <= tolerance * (1.0 + np.abs(wanted).max())


# --- where sweeps converge to -------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("quad", QUADRATURES)
@pytest.mark.parametrize("sweeper", SDC)
def test_converged_sweeps_solve_the_collocation_equations(sweeper: str, quad: str, index: int) -> None:
    L = new_step(f"hessenberg-{index}", sweeper, nodes=3, quad=quad, newton_tol=1e-13)
    L.sweep.predict()
    converge_fully(L)
    u, du = collocation(L)
    close(L.u[1:], u, 1e-11)
    close(np.array(L.f[1:])[:, : L.prob.n_diff], du[:, : L.prob.n_diff], 1e-11)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("quad", QUADRATURES)
def test_all_sweepers_share_the_values_at_the_nodes(quad: str, index: int) -> None:
    values = []
    for sweeper in SDC:
        L = new_step(f"hessenberg-{index}", sweeper, nodes=3, quad=quad, newton_tol=1e-13)
        L.sweep.predict()
        converge_fully(L)
        values.append(np.array(L.u[1:]))
    for other in values[1:]:
        close(other, values[0], 1e-11)


# --- what one sweep computes --------------------------------------------------------------------------------


@pytest.mark.parametrize("qdelta", ["LU", "IE", "MIN-SR-S"])
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("quad", QUADRATURES)
@pytest.mark.parametrize("sweeper", SDC)
def test_a_sweep_solves_the_equation_of_its_docstring(
    sweeper: str, quad: str, index: int, qdelta: str
) -> None:
    L = new_step(f"hessenberg-{index}", sweeper, dt=0.02, nodes=3, quad=quad, qdelta=qdelta, newton_tol=1e-14)
    L.sweep.predict()
    P, k, first = L.prob, integrated(L), int(L.sweep.coll.left_is_node)
    Q, times, _ = nodes_of(L)
    delta = QDELTA_GENERATORS[qdelta](qGen=L.sweep.coll.generator).genCoeffs()
    u0 = np.array(L.u[0])
    sweep(L)
    old = np.array(L.f[1:])
    sweep(L)
    new, z = np.array(L.f[1:]), np.array(L.u[1:])[:, k:]
    solved = u0[:k] + L.dt * ((Q - delta) @ old[:, :k] + delta @ new[:, :k])
    for m in range(first, len(times)):
        u, du = np.concatenate([solved[m], z[m]]), new[m].copy()
        du[k:] = 0.0
        J = P.jacobian(P.state(u), P.state(du), times[m], 1.0)
        scale = 1.0 + np.abs(J) @ (np.abs(u) + np.abs(du))
        assert (np.abs(evaluate(P, u, du, times[m])) <= 1e-13 * scale).all()
    kept = solved if L.sweep.keeps_node_value else u0[:k] + L.dt * Q @ new[:, :k]
    close(np.array(L.u[1:])[first:, :k], kept[first:], 1e-14)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("quad", QUADRATURES)
def test_constrained_sweeps_meet_the_constraint_every_time_and_others_do_not(quad: str, index: int) -> None:
    violations: dict[str, list[float]] = {}
    for sweeper in SDC:
        L = new_step(f"hessenberg-{index}", sweeper, nodes=3, quad=quad, newton_tol=1e-15)
        L.sweep.predict()
        P, (_, times, _) = L.prob, nodes_of(L)
        violations[sweeper] = []
        for _ in range(5):
            sweep(L)
            rows = zip(L.u[1:], L.f[1:], times, strict=True)
            violations[sweeper].append(max(abs(evaluate(P, *row)[P.n_diff :]).max() for row in rows))
    assert max(violations["constrained"]) <= 1e-14
    assert min(violations["semi-implicit"][:2]) >= 1e-6
    assert min(violations["fully-implicit"][:2]) >= 1e-6


@pytest.mark.parametrize("qdelta", ["LU", "MIN-SR-S", "MIN-SR-FLEX"])
@pytest.mark.parametrize("quad", QUADRATURES)
@pytest.mark.parametrize("sweeper", SDC)
def test_a_sweep_multiplies_once_by_q(
    sweeper: str, quad: str, qdelta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    L = new_step("hessenberg-1", sweeper, nodes=3, quad=quad, qdelta=qdelta, backend="numpy")
    L.sweep.predict()
    calls: list[Vector] = []

    combine = sweep_functions.combine

    def spy(matrix: Vector, *arguments: Any) -> None:
        calls.append(matrix)
        combine(matrix, *arguments)

    monkeypatch.setattr(sweep_functions, "combine", spy)
    for number in range(5):
        calls.clear()
        sweep(L)
        L.sweep.compute_residual(stage="IT_CHECK")
        L.sweep.compute_end_point()
        # Only the first sweep of a step has to integrate what the predictor left.
        assert len(calls) <= (1 if number else 2)


# --- Q_Delta ------------------------------------------------------------------------------------------------


class Linear(ProblemDAE):
    """E u' + K u = 0 with constant matrices."""

    E = np.diag([1.0, 1.0, 0.0])
    K: Any = None

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Vector:
        return self.E @ np.array(du) + self.K @ np.array(u)

    def u_exact(self, t: float) -> Vector:
        return np.zeros(3)


class LinearIndex1(Linear):
    index = 1
    K = np.array([[3.0, -1.0, 0.5], [1.0, 2.0, -2.0], [1.0, -1.0, 2.0]])


class LinearIndex2(Linear):
    index = 2
    K = np.array([[2.0, -3.0, 1.0], [1.0, 4.0, 2.0], [1.0, 1.0, 0.0]])


class LinearIndex3(Linear):
    index = 3
    K = np.array([[0.0, -1.0, 0.0], [2.0, 1.0, 1.0], [1.0, 0.0, 0.0]])


LINEAR = {1: LinearIndex1, 2: LinearIndex2, 3: LinearIndex3}


def limit(L: Any, name: str) -> float | None:
    """Error factor a sweep of constrained unknowns as dt goes to 0; None if there is no sweep at all."""
    coll = L.sweep.coll
    first = int(coll.left_is_node)
    generator = QDELTA_GENERATORS[name](qGen=coll.generator, tLeft=coll.tleft)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            delta = np.asarray(
                generator.genCoeffs(k=20) if generator.isKDependent() else generator.genCoeffs()
            )
    except NotImplementedError:
        return None
    if not np.isfinite(delta).all() or np.triu(delta, 1).any():
        return None
    delta = delta[first:, first:]
    if np.linalg.matrix_rank(delta) < len(delta):
        return float("inf")
    contraction = np.eye(len(delta)) - np.linalg.solve(delta, coll.Qmat[1 + first :, 1 + first :])
    return float(np.abs(np.linalg.eigvals(contraction)).max())


Q_DELTAS = sorted(
    {min(n for n, other in QDELTA_GENERATORS.items() if other is kind) for kind in QDELTA_GENERATORS.values()}
)
Q_DELTA_CASES = [("RADAU-RIGHT", sweeper, index) for sweeper in SDC for index in INDICES] + [
    (quad, "semi-implicit", index) for quad in QUADRATURES if quad != "RADAU-RIGHT" for index in (1, 2)
]


@pytest.mark.parametrize(("quad", "sweeper", "index"), Q_DELTA_CASES)
@pytest.mark.parametrize("name", Q_DELTAS)
def test_every_q_delta_converges_or_is_refused_as_theory_says(
    name: str, quad: str, sweeper: str, index: int
) -> None:
    reference = new_step(LINEAR[index], sweeper, nodes=3, quad=quad)
    radius = limit(reference, name)
    singular_limit = index >= 2 or sweeper == "fully-implicit"
    L = None
    if radius is not None:
        L = new_step(LINEAR[index], sweeper, dt=0.01, nodes=3, quad=quad, qdelta=name, initial_guess="random")
    if L is None or (singular_limit and radius >= 0.999):
        with pytest.raises(InputError, match=name):
            new_step(LINEAR[index], sweeper, nodes=3, quad=quad, qdelta=name).sweep.predict()
        return
    L.sweep.predict()
    most = 100 if not singular_limit else 100 + int(40.0 / -np.log(max(radius, 0.1)))
    # Powers of a matrix with a small spectral radius may grow a thousandfold before they fall.
    sweep(L)
    largest = L.status.residual
    while L.status.residual > 1e-9 * min(largest, 1.0) and most > 0:
        sweep(L)
        largest = max(largest, L.status.residual)
        most -= 1
    assert most > 0


@pytest.mark.parametrize("name", QDELTA_GENERATORS)
def test_an_alias_of_a_q_delta_is_treated_as_its_name(name: str) -> None:
    def verdict(alias: str) -> bool:
        try:
            check_qdelta(L.sweep.coll, alias, 2, partial(qdelta_matrix, L.sweep.coll, alias))
        except InputError:
            return False
        return True

    L = new_step("hessenberg-2", "semi-implicit", nodes=3)
    kind = QDELTA_GENERATORS[name]
    assert verdict(name) == verdict(min(n for n, other in QDELTA_GENERATORS.items() if other is kind))


@pytest.mark.parametrize("nsweeps", [1, 2])
@pytest.mark.parametrize("sweeper", SDC)
def test_min_sr_flex_takes_the_coefficients_of_the_sweep(sweeper: str, nsweeps: int) -> None:
    used: list[tuple[float, Vector]] = []

    class Spy(Hooks):  # type: ignore[misc]
        def post_sweep(self, step: Any, level_number: int) -> None:
            super().post_sweep(step, level_number)
            used.append((step.time, step.levels[0].sweep.QI[1:, 1:].copy()))

    solution = solve(
        "hessenberg-1", sweeper=sweeper, qdelta="MIN-SR-FLEX", nsweeps=nsweeps, dt=0.1, t_end=0.2, hooks=[Spy]
    )
    assert solution.success
    coll = new_step("hessenberg-1", sweeper, nodes=3).sweep.coll
    generator = QDELTA_GENERATORS["MIN-SR-FLEX"](qGen=coll.generator)
    for start in dict.fromkeys(time for time, _ in used):
        matrices = [matrix for time, matrix in used if time == start]
        assert len(matrices) >= 4
        for k, matrix in enumerate(matrices, start=1):
            close(matrix, generator.genCoeffs(k=k), 1e-15)


# --- residuals ----------------------------------------------------------------------------------------------


def residual_by_definition(L: Any, kind: str) -> float:
    P, k = L.prob, integrated(L)
    Q, times, u = nodes_of(L)
    du = np.array(L.f[1:])
    u[:, :k] = np.array(L.u[0])[:k] + L.dt * Q @ du[:, :k]
    norms = [float(np.abs(evaluate(P, *row)).max()) for row in zip(u, du, times, strict=True)]
    norm = max(norms) if kind.startswith("full") else norms[-1]
    return norm / float(np.abs(np.array(L.u[0])).max()) if kind.endswith("rel") else norm


@pytest.mark.parametrize("sweeps", [0, 1, 3])
@pytest.mark.parametrize("guess", INITIAL_GUESSES)
@pytest.mark.parametrize("kind", RESIDUAL_TYPES)
@pytest.mark.parametrize("sweeper", SDC)
def test_residuals_are_those_of_the_collocation_equations(
    sweeper: str, kind: str, guess: str, sweeps: int
) -> None:
    L = new_step("hessenberg-1", sweeper, nodes=3, residual_type=kind, initial_guess=guess, seed=5)
    L.sweep.predict()
    L.sweep.compute_residual(stage="IT_CHECK")
    sweep(L, sweeps)
    assert L.status.residual == pytest.approx(residual_by_definition(L, kind), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("quad", QUADRATURES)
@pytest.mark.parametrize("sweeper", SDC)
def test_the_residual_sees_a_new_start_value(sweeper: str, quad: str) -> None:
    L = new_step("hessenberg-1", sweeper, nodes=3, quad=quad)
    L.sweep.predict()
    sweep(L, 3)
    received = L.prob.dtype_u(L.u[0])
    received[:] += 1e-3
    L.u[0] = received
    L.sweep.compute_residual(stage="IT_CHECK")
    assert L.status.residual == pytest.approx(residual_by_definition(L, "full_abs"), rel=1e-9, abs=1e-13)


class Homogeneous(ProblemDAE):
    """y' = -y - z, 0 = y - 2 z: at rest in zero."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> Vector:
        return np.array([du[0] + u[0] + u[1], u[0] - 2.0 * u[1]])

    def u_exact(self, t: float) -> Vector:
        return np.exp(-1.5 * t) * np.array([1.0, 0.5])


@pytest.mark.parametrize("guess", INITIAL_GUESSES)
@pytest.mark.parametrize("sweeper", SDC)
def test_no_initial_guess_passes_for_the_solution_of_another_initial_value(sweeper: str, guess: str) -> None:
    solution = solve(Homogeneous, sweeper=sweeper, initial_guess=guess, dt=0.1, t_end=0.2, restol=1e-10)
    assert solution.success, solution.message
    close(solution.u[-1], Homogeneous().u_exact(0.2), 1e-6)


# --- initial guesses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeper", SDC)
def test_spread_copies_the_start_and_zero_fills_with_zeros(sweeper: str) -> None:
    L = new_step("hessenberg-2", sweeper, nodes=3, initial_guess="spread")
    L.sweep.predict()
    assert all(np.array_equal(u, L.u[0]) for u in L.u[1:]) and not np.array(L.f[1:]).any()
    L = new_step("hessenberg-2", sweeper, nodes=3, initial_guess="zero")
    L.sweep.predict()
    assert not np.array(L.u[1:]).any() and not np.array(L.f[1:]).any()


@pytest.mark.parametrize("sweeper", SDC)
def test_the_random_guess_repeats_with_its_seed(sweeper: str) -> None:
    def guess(seed: int) -> Vector:
        L = new_step("hessenberg-2", sweeper, nodes=3, initial_guess="random", seed=seed)
        L.sweep.predict()
        return np.array([L.u[1:], L.f[1:]])

    assert np.array_equal(guess(3), guess(3))
    assert not np.array_equal(guess(3), guess(4))
    assert len(np.unique(guess(3)[0])) == guess(3)[0].size


class Polynomial(ProblemDAE):
    """y' = p' + z - q, 0 = z - q + (y - p)^2 with polynomials p of degree M and q of degree M - 1."""

    index = 1

    def __init__(self, degree: int = 3, **settings: Any) -> None:
        super().__init__(1, 1, **settings)
        self.p = np.polynomial.Polynomial(1.0 / np.arange(1, degree + 2))
        self.q = np.polynomial.Polynomial(np.arange(1, degree + 1) * 0.5)

    def eval_f(self, u: Any, du: Any, t: float) -> Vector:
        p, q = self.p(t), self.q(t)
        return np.array([du[0] - self.p.deriv()(t) - u[1] + q, u[1] - q + (u[0] - p) ** 2])

    def u_exact(self, t: float) -> Vector:
        return np.array([self.p(t), self.q(t)])

    def du_exact(self, t: float) -> Vector:
        return np.array([self.p.deriv()(t), self.q.deriv()(t)])


@pytest.mark.parametrize("ratio", [1.0, 0.5, 1.7])
@pytest.mark.parametrize("nodes", [2, 3, 4])
@pytest.mark.parametrize("quad", QUADRATURES)
@pytest.mark.parametrize("sweeper", SDC)
def test_extrapolation_is_exact_for_polynomials(sweeper: str, quad: str, nodes: int, ratio: float) -> None:
    settings = {"nodes": nodes, "quad": quad, "params": {"degree": nodes}, "newton_tol": 1e-14}
    L = new_step(Polynomial, sweeper, **settings)
    L.sweep.predict()
    converge(L, 1e-14)
    L.sweep.compute_end_point()
    following = new_step(Polynomial, sweeper, t0=T0 + DT, dt=ratio * DT, u0=L.uend, **settings)
    following.sweep.predict()
    found = []
    for restol in (1e-300, 1e-10):
        following.params.restol = restol
        following.sweep.compute_residual(stage="IT_CHECK")
        found.append(following.status.residual)
    assert found[0] <= 2e-12
    # Nothing is taken for a solution before it has been swept, unless only round-off is left.
    assert found[1] > 1e-10 or found[1] == found[0]
    far = new_step(Polynomial, sweeper, t0=T0 + DT, dt=20.0 * DT, u0=L.uend, **settings)
    far.sweep.predict()
    first = int(far.sweep.coll.left_is_node)
    assert all(np.array_equal(u, far.u[0]) for u in far.u[1 + first :])


@pytest.mark.parametrize("with_derivatives", [True, False])
@pytest.mark.parametrize("quad", QUADRATURES)
@pytest.mark.parametrize("sweeper", SDC)
def test_values_that_others_put_at_the_nodes_are_adopted(
    sweeper: str, quad: str, with_derivatives: bool
) -> None:
    L = new_step("hessenberg-1", sweeper, nodes=4, quad=quad, initial_guess="spread", restol=1e-13)
    L.sweep.predict()
    sweep(L)
    P, k, (_, times, _) = L.prob, integrated(L), nodes_of(L)
    for m, t in enumerate(times, start=1):
        L.u[m] = P.u_exact(t)
        L.f[m] = P.du_exact(t) if with_derivatives else P.dtype_f(P.init)
    L.sweep.compute_residual(stage="IT_CHECK")
    # Values of the solution meet the equations of four nodes to dt^5, and their slopes to dt^4.
    assert L.status.residual < 1e-5
    slopes = np.array([P.du_exact(t) for t in times])
    close(np.array(L.f[1:])[:, :k], slopes[:, :k], 1e-4)
    assert converge(L, 1e-13) <= 8
    close(L.u[1:], collocation(L)[0], 1e-11)


# --- ends of a step -----------------------------------------------------------------------------------------


def without_du_exact(name: str) -> type[ProblemDAE]:
    def du_exact(self: Any, t: float) -> Any:
        raise InputError("not known")

    return type("WithoutDerivative", (PROBLEMS[name],), {"du_exact": du_exact})


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sweeper", SDC)
def test_lobatto_keeps_the_start_and_a_consistent_derivative(sweeper: str, known: bool, index: int) -> None:
    name = f"hessenberg-{index}"
    problem = name if known else without_du_exact(name)
    L = new_step(problem, sweeper, dt=0.05, nodes=3, quad="LOBATTO")
    L.sweep.predict()
    sweep(L, 2)
    k = integrated(L)
    exact = np.array(PROBLEMS[name]().du_exact(T0))
    assert np.array_equal(L.u[1], L.u[0])
    assert not np.array(L.f[1])[k:].any()
    # Radau IIA with six nodes: its polynomial of u' is good to dt^6, that of z' at index 3 to dt^4.
    close(np.array(L.f[1])[: L.prob.n_diff], exact[: L.prob.n_diff], 0.0 if known else 1e-7)
    close(np.array(L.f[1])[:k], exact[:k], 0.0 if known else 1e-4)


@pytest.mark.parametrize("nodes", [2, 3, 4])
@pytest.mark.parametrize("sweeper", SDC)
def test_gauss_ends_on_the_collocation_polynomial(sweeper: str, nodes: int) -> None:
    L = new_step("hessenberg-1", sweeper, nodes=nodes, quad="GAUSS")
    L.sweep.predict()
    converge(L, 1e-12)
    L.sweep.compute_end_point()
    k = integrated(L)
    slope = BarycentricInterpolator(L.sweep.coll.nodes, np.array(L.f[1:])[:, :k])
    x, w = np.polynomial.legendre.leggauss(nodes)
    integral = L.dt * 0.5 * w @ slope((1.0 + x) / 2.0)
    close(np.array(L.uend)[:k], np.array(L.u[0])[:k] + integral, 1e-14)
    own = BarycentricInterpolator(L.sweep.coll.nodes, np.array(L.u[1:])[:, k:])(1.0)
    if k < L.prob.n:
        close(np.array(L.uend)[k:], own, 1e-13)
    derivative = L.uend.polynomial.derivative_at_end()
    close(derivative[:k], slope(1.0), 1e-12)


# --- speed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("qdelta", ["LU", "IE", "MIN-SR-S"])
@pytest.mark.parametrize("problem", [LinearIndex1, LinearIndex2])
@pytest.mark.parametrize("sweeper", SDC)
def test_the_error_falls_as_the_iteration_matrix_says(
    sweeper: str, problem: type[Linear], qdelta: str
) -> None:
    L = new_step(problem, sweeper, dt=0.4, nodes=3, qdelta=qdelta, initial_guess="random", newton_tol=1e-14)
    L.sweep.predict()
    n, k, M = L.prob.n, integrated(L), 3
    Q = L.dt * L.sweep.coll.Qmat[1:, 1:]
    delta = L.dt * QDELTA_GENERATORS[qdelta](qGen=L.sweep.coll.generator).genCoeffs()
    E, K = problem.E[:, :k], problem.K
    # Unknowns of a node: the integrated derivatives, then the unknowns that are not integrated.
    both = np.hstack([np.kron(np.eye(M), E) + np.kron(delta, K[:, :k]), np.kron(np.eye(M), K[:, k:])])
    old = np.hstack([np.kron(delta - Q, K[:, :k]), np.zeros((M * n, M * (n - k)))])
    T = np.linalg.solve(both, old)
    radius = np.abs(np.linalg.eigvals(T)).max()

    def state() -> Vector:
        return np.concatenate([np.array(L.f[1:])[:, :k].ravel(), np.array(L.u[1:])[:, k:].ravel()])

    for row in (*L.u[1:], *L.f[1:]):
        row *= 1e6
    values = [state()]
    for _ in range(int(np.log(1e-15) / np.log(radius)) + 4):
        sweep(L)
        values.append(state())
    differences = np.diff(np.array(values), axis=0)
    sizes = np.abs(differences).max(axis=1)
    for before, after in pairwise(differences[:5]):
        assert np.abs(after - T @ before).max() <= 1e-11 * sizes[0]
    late = np.flatnonzero(sizes > 1e-15 * sizes[0])[-1]
    early = max(1, late // 3)
    measured = (sizes[late] / sizes[early]) ** (1.0 / (late - early))
    assert measured == pytest.approx(radius, rel=0.2)
    assert radius < 1.0


# --- what is refused ----------------------------------------------------------------------------------------


def test_algebraic_derivatives_need_the_fully_implicit_sweeper() -> None:
    for sweeper in SDC:
        L = new_step("problematic-f", sweeper, nodes=3)
        if sweeper == "fully-implicit":
            L.sweep.predict()
            converge(L, 1e-10)
        else:
            with pytest.raises(InputError, match="FullyImplicitDAE"):
                L.sweep.predict()


@pytest.mark.parametrize(
    "settings",
    [
        {"quad": "RADAU-LEFT"},
        {"quad": "CHEBY"},
        {"nodes": 0},
        {"quad": "LOBATTO", "nodes": 1},
        {"initial_guess": "copy"},
        {"qdelta": "LUU"},
        {"residual_type": "full"},
    ],
)
@pytest.mark.parametrize("sweeper", SDC)
def test_what_cannot_work_is_refused(sweeper: str, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        L = new_step("hessenberg-1", sweeper, **settings)
        L.sweep.predict()
        L.sweep.compute_residual()


@pytest.mark.parametrize("sweeper", SDC)
def test_a_sweep_before_a_prediction_is_refused(sweeper: str) -> None:
    with pytest.raises(InputError, match="predict"):
        new_step("hessenberg-1", sweeper).sweep.update_nodes()
