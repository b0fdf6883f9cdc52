"""Runge-Kutta sweepers: one step, repeated steps, embedded estimates, and tableaux of one's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.sweepers_for import sweepers_for
from numpy.typing import NDArray
from pySDC.core.check_convergence import CheckConvergence
from pySDC.core.convergence_controller import ConvergenceController
from pySDC.helpers.stats_helper import get_sorted
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from pySDC.implementations.convergence_controller_classes.adaptivity import AdaptivityRK
from scipy.optimize import root

from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.errors import InputError
from dae_sdc.run.description import describe
from dae_sdc.run.solve import solve
from dae_sdc.sweepers import runge_kutta as module
from dae_sdc.sweepers.runge_kutta import RungeKuttaDAE, runge_kutta
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.tableaux import METHODS, Tableau

Vector = NDArray[np.float64]

SDC = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]
EMBEDDED = [name for name, tableau in METHODS.items() if tableau.embedded]
EXPLICIT_FIRST = [name for name, tableau in METHODS.items() if tableau.explicit_first_stage]
INDICES = (1, 2, 3)


QUIET = {"logger_level": 40, "mssdc_jac": False}


def controller(problem: Any, sweeper: Any, dt: float, **settings: Any) -> Any:
    setup = describe(problem, sweeper=sweeper, **settings)
    return controller_nonMPI(num_procs=1, controller_params=QUIET, description=setup.with_step(dt))


def end_of_step(problem: Any, sweeper: Any, dt: float, t0: float, **settings: Any) -> Vector:
    own = controller(problem, sweeper, dt, **settings)
    P = own.MS[0].levels[0].prob
    end, _ = own.run(u0=P.state(P.u_exact(t0)), t0=t0, Tend=t0 + 0.5 * dt)
    return np.array(end)


def close(actual: Any, wanted: Any, tolerance: float) -> None:
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert np.abs(actual - wanted).max() <= tolerance * (1.0 + np.abs(wanted).max())


# --- one step -----------------------------------------------------------------------------------------------


class Linear(ProblemDAE):
    """E u' + K u = s(t), with a matrix K that makes the index 1 or 2."""

    E = np.diag([1.0, 1.0, 0.0])
    K: Any = None

    def __init__(self, **settings: Any) -> None:
        super().__init__(2, 1, **settings)

    def source(self, t: float) -> Vector:
        return self.E @ self.du_exact(t) + self.K @ self.u_exact(t)

    def eval_f(self, u: Any, du: Any, t: float) -> Vector:
        return self.E @ np.array(du) + self.K @ np.array(u) - self.source(t)

    def u_exact(self, t: float) -> Vector:
        return np.array([np.sin(t), np.cos(2.0 * t), np.exp(-t)])

    def du_exact(self, t: float) -> Vector:
        return np.array([np.cos(t), -2.0 * np.sin(2.0 * t), -np.exp(-t)])


class LinearIndex1(Linear):
    index = 1
    K = np.array([[3.0, -1.0, 0.5], [1.0, 2.0, -2.0], [1.0, -1.0, 2.0]])


class LinearIndex2(Linear):
    index = 2
    K = np.array([[2.0, -3.0, 1.0], [1.0, 4.0, 2.0], [1.0, 1.0, 0.0]])


@pytest.mark.parametrize("problem", [LinearIndex1, LinearIndex2])
@pytest.mark.parametrize("name", METHODS)
def test_a_linear_step_is_that_of_the_matrix_formula(name: str, problem: type[Linear]) -> None:
    tableau, P, dt, t0 = METHODS[name], problem(), 0.1, 0.3
    s, n, u0 = tableau.stages, P.n, problem().u_exact(t0)
    matrix = np.kron(np.eye(s), P.E) + dt * np.kron(tableau.A, P.K)
    right = np.concatenate([P.source(t0 + c * dt) - P.K @ u0 for c in tableau.c])
    if tableau.explicit_first_stage:
        matrix[:n] = np.eye(n, s * n)
        right[:n] = P.du_exact(t0)
    slopes = np.linalg.solve(matrix, right).reshape(s, n)
    close(end_of_step(problem, name, dt, t0), u0 + dt * tableau.b @ slopes, 1e-11)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("name", METHODS)
def test_a_nonlinear_step_is_that_of_scipy(name: str, index: int) -> None:
    tableau, P, dt, t0 = METHODS[name], PROBLEMS[f"hessenberg-{index}"](), 0.04 if index < 3 else 0.1, 0.1
    s, n, u0 = tableau.stages, P.n, np.array(P.u_exact(t0))
    first = int(tableau.explicit_first_stage)

    def residual(x: Vector) -> Vector:
        slopes = x.reshape(s, n)
        stages = u0 + dt * tableau.A @ slopes
        rows = [
            P.eval_f(P.state(u), P.state(du), t0 + c * dt)
            for u, du, c in zip(stages, slopes, tableau.c, strict=True)
        ]
        return np.concatenate([slopes[0] - np.array(P.du_exact(t0))] * first + rows[first:])

    guess = np.concatenate([np.array(P.du_exact(t0 + c * dt)) for c in tableau.c])
    found = root(residual, guess, method="hybr", tol=1e-14)
    slopes = found.x.reshape(s, n)
    for _ in range(3):
        J = np.empty((s * n, s * n))
        for i in range(s * n):
            step = np.zeros(s * n)
            step[i] = 1e-6 * (1.0 + abs(slopes.ravel()[i]))
            J[:, i] = (residual(slopes.ravel() + step) - residual(slopes.ravel() - step)) / (2.0 * step[i])
        slopes = (slopes.ravel() - np.linalg.solve(J, residual(slopes.ravel()))).reshape(s, n)
    end = end_of_step(f"hessenberg-{index}", name, dt, t0, newton_tol=1e-13)
    close(end, u0 + dt * tableau.b @ slopes, 1e-11)


# --- the explicit first stage -------------------------------------------------------------------------------


@pytest.mark.parametrize("index", (1, 2))
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", EXPLICIT_FIRST)
def test_an_explicit_first_stage_continues_the_last_step(
    name: str, known: bool, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = PROBLEMS[f"hessenberg-{index}"]

    def du_exact(self: Any, t: float) -> Any:
        raise InputError("not known")

    problem = base if known else type("WithoutDerivative", (base,), {"du_exact": du_exact})
    first, last = [], []
    solve_stages = RungeKuttaDAE._step

    def spy(self: Any) -> None:
        solve_stages(self)
        first.append(self._du[0].copy())
        last.append(self._du[-1].copy())

    monkeypatch.setattr(RungeKuttaDAE, "_step", spy)
    monkeypatch.setattr(RungeKuttaDAE, "steps_ahead", lambda self, value, time: None)
    assert solve(problem, sweeper=name, dt=0.02, t_end=0.1).success
    assert len(first) == 5
    for before, after in zip(last[:-1], first[1:], strict=True):
        assert np.array_equal(before, after)
    close(first[0], base().du_exact(0.0), 0.0 if known else 1e-6)


# --- repeated steps -----------------------------------------------------------------------------------------


def repeat_once(at: float, factor: float) -> type[ConvergenceController]:
    """A convergence controller that rejects the step at time ``at`` once, and goes on with ``factor`` dt."""

    class RepeatOnce(ConvergenceController):  # type: ignore[misc]
        def setup(self, controller: Any, params: Any, description: Any, **kwargs: Any) -> Any:
            self.done = False
            return {"control_order": 80, **super().setup(controller, params, description, **kwargs)}

        def determine_restart(self, controller: Any, S: Any, **kwargs: Any) -> None:
            if not self.done and CheckConvergence.check_convergence(S) and abs(S.time - at) < 1e-12:
                self.done = True
                S.status.restart = True
                S.levels[0].status.dt_new = factor * S.levels[0].params.dt

    return RepeatOnce


def run(sweeper: str, dts: list[float], **settings: Any) -> Vector:
    """The end value of steps that are each a run of its own with one controller."""
    own = controller("hessenberg-2", sweeper, dts[0], **settings)
    u, t = own.MS[0].levels[0].prob.u_exact(0.0), 0.0
    for dt in dts:
        own.MS[0].levels[0].params.dt = dt
        u, _ = own.run(u0=u, t0=t, Tend=t + 0.5 * dt)
        t += dt
    return np.array(u)


@pytest.mark.parametrize("factor", [1.0, 0.5])
@pytest.mark.parametrize("sweeper", sweepers_for("hessenberg-2"))
def test_a_repeated_step_is_as_good_as_a_fresh_one(sweeper: str, factor: float) -> None:
    dt = 0.02
    settings: dict[str, Any] = {"newton_tol": 1e-13}
    if sweeper in SDC:
        settings |= {"nodes": 3, "restol": 1e-12}
    once = {repeat_once(dt, factor): {}}
    own = controller("hessenberg-2", sweeper, dt, convergence_controllers=once, **settings)
    P = own.MS[0].levels[0].prob
    # pySDC shortens the last step to end at Tend only if steps were longer than at the start.
    with_repeat, stats = own.run(u0=P.u_exact(0.0), t0=0.0, Tend=dt + 0.5 * factor * dt)
    restarts = get_sorted(stats, type="restart", recomputed=None)
    assert [value for _, value in restarts].count(1) == 1
    # Kept matrices are those of the rejected step: the same to the tolerance of Newton, not to the last bit.
    close(with_repeat, run(sweeper, [dt, factor * dt], **settings), 1e-11)


@pytest.mark.parametrize("sweeper", sweepers_for("hessenberg-2"))
def test_a_repeated_step_begins_with_what_the_first_attempt_saw(
    sweeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dt = 0.02
    settings = {"nodes": 3} if sweeper in SDC else {}
    own = controller(
        "hessenberg-2", sweeper, dt, convergence_controllers={repeat_once(dt, 1.0): {}}, **settings
    )
    begun: list[tuple[float, Vector, Vector]] = []
    cls = SWEEPERS[sweeper]
    predict = cls.predict

    def spy(self: Any) -> None:
        predict(self)
        L = self.level
        begun.append((L.time, np.array(L.u), np.array([L.f[0], *L.f[1:]])))

    monkeypatch.setattr(cls, "predict", spy)
    P = own.MS[0].levels[0].prob
    own.run(u0=P.u_exact(0.0), t0=0.0, Tend=1.5 * dt)
    _, (t1, u1, f1), (t2, u2, f2) = begun
    assert t1 == t2
    assert np.array_equal(u1, u2) and np.array_equal(f1, f2)


# --- embedded estimates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_embedded_estimate_has_the_order_of_the_local_error(name: str) -> None:
    estimates = []
    dts = [0.2, 0.1, 0.05]
    for dt in dts:
        own = controller("hessenberg-1", name, dt)
        L = own.MS[0].levels[0]
        end, _ = own.run(u0=L.prob.u_exact(0.3), t0=0.3, Tend=0.3 + 0.5 * dt)
        estimates.append(np.abs(np.array(end) - np.array(L.sweep.u_secondary))[:2].max())
    order = METHODS[name].embedded_order
    assert order is not None
    slope = np.polyfit(np.log(dts), np.log(estimates), 1)[0]
    assert slope == pytest.approx(order + 1, abs=0.4)


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_embedded_solution_is_that_of_the_embedded_weights(name: str) -> None:
    tableau, dt, t0 = METHODS[name], 0.1, 0.3
    own = controller(LinearIndex1, name, dt)
    L = own.MS[0].levels[0]
    stages: list[Vector] = []
    compute = type(L.sweep).compute_end_point

    def spy() -> None:
        compute(L.sweep)
        stages[:] = [np.array(f) for f in L.f[1:]]

    L.sweep.compute_end_point = spy
    u0 = L.prob.state(L.prob.u_exact(t0))
    own.run(u0=u0, t0=t0, Tend=t0 + 0.5 * dt)
    close(L.sweep.u_secondary, np.array(u0) + dt * tableau.b_embedded @ np.array(stages), 1e-15)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
@pytest.mark.parametrize("name", EMBEDDED)
def test_adaptivity_meets_a_tolerance_with_embedded_pairs(name: str, tolerance: float) -> None:
    own = controller("hessenberg-1", name, 0.02, convergence_controllers={AdaptivityRK: {"e_tol": tolerance}})
    P = own.MS[0].levels[0].prob
    end, stats = own.run(u0=P.u_exact(0.0), t0=0.0, Tend=1.5)
    accepted = get_sorted(stats, type="dt", recomputed=False)
    final = accepted[-1][0] + accepted[-1][1]
    steps = [dt for _, dt in accepted]
    assert np.abs(np.array(end) - np.array(P.u_exact(final))).max() <= len(steps) * tolerance
    estimates = [e for _, e in get_sorted(stats, type="error_embedded_estimate", recomputed=False)]
    assert max(estimates) <= tolerance
    # The controller aims at 0.9^(order + 1) of the tolerance; once it has found the step size it stays near.
    assert np.median(estimates[3:-1]) >= 0.05 * tolerance
    assert max(steps) / min(steps) > 1.2


def test_a_smaller_tolerance_takes_more_steps() -> None:
    counts = []
    for tolerance in (1e-4, 1e-5, 1e-6):
        own = controller(
            "hessenberg-1", "esdirk43", 0.05, convergence_controllers={AdaptivityRK: {"e_tol": tolerance}}
        )
        P = own.MS[0].levels[0].prob
        _, stats = own.run(u0=P.u_exact(0.0), t0=0.0, Tend=1.5)
        counts.append(len(get_sorted(stats, type="dt", recomputed=False)))
    # The local error has order 4, so every tenth of the tolerance takes 10^(1/4) = 1.8 times the steps.
    for fewer, more in itertools.pairwise(counts):
        assert more / fewer == pytest.approx(10.0**0.25, rel=0.35)


@pytest.mark.parametrize("name", METHODS)
def test_the_update_order_is_that_of_the_embedded_error(name: str) -> None:
    cls, tableau = SWEEPERS[name], METHODS[name]
    if tableau.embedded_order is None:
        with pytest.raises(InputError, match=name):
            cls.get_update_order()
    else:
        assert cls.get_update_order() == tableau.embedded_order + 1
    assert cls.is_embedded() == tableau.embedded


# --- classes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_importable_sweeper(name: str) -> None:
    cls, tableau = SWEEPERS[name], METHODS[name]
    assert getattr(module, tableau.class_name) is cls
    assert cls.method is tableau and issubclass(cls, RungeKuttaDAE)
    coll = cls.get_Butcher_tableau()
    assert np.array_equal(coll.Qmat[1:, 1:], tableau.A)
    assert np.array_equal(np.atleast_2d(coll.weights)[0], tableau.b)


@pytest.mark.parametrize("options", [{"nodes": 3}, {"qdelta": "LU"}, {"maxiter": 3}, {"restol": 1e-8}])
def test_options_without_effect_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no effect"):
        describe("hessenberg-1", sweeper="radau-iia-5", **options)


def sdirk2() -> Tableau:
    g = 1.0 - np.sqrt(0.5)
    return Tableau(
        name="own-sdirk",
        class_name="OwnSDIRK",
        A=np.array([[g, 0.0], [1.0 - g, g]]),
        b=np.array([1.0 - g, g]),
        c=np.array([g, 1.0]),
        order=2,
        orders={1: (2, 2)},
        reference="R. Alexander, SIAM J. Numer. Anal. 14 (1977)",
    )


@pytest.mark.parametrize("make", [sdirk2])
def test_a_tableau_of_ones_own_makes_a_sweeper(make: Callable[[], Tableau]) -> None:
    cls = runge_kutta(make())
    assert cls.__name__ == "OwnSDIRK" and make().name not in SWEEPERS
    errors = []
    for dt in (0.1, 0.05, 0.025):
        solution = solve("hessenberg-1", sweeper=cls, dt=dt)
        assert solution.success
        errors.append(np.abs(solution.u[-1] - np.array(PROBLEMS["hessenberg-1"]().u_exact(1.0))).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.3)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2.0, abs=0.3)
