"""Sweepers inside pySDC: several steps at a time, its hooks, and its convergence controllers."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import dill
import numpy as np
import pytest
from helpers.pairs import covering_pairs
from helpers.sweepers_for import sweepers_for
from numpy.typing import NDArray
from pySDC.core.check_convergence import CheckConvergence
from pySDC.core.convergence_controller import ConvergenceController
from pySDC.core.errors import ControllerError, ConvergenceError, DataError
from pySDC.helpers.stats_helper import get_sorted
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from pySDC.implementations.convergence_controller_classes.adaptivity import (
    Adaptivity,
    AdaptivityCollocation,
    AdaptivityExtrapolationWithinQ,
    AdaptivityPolynomialError,
    AdaptivityResidual,
)
from pySDC.implementations.convergence_controller_classes.basic_restarting import BasicRestartingNonMPI
from pySDC.implementations.convergence_controller_classes.check_iteration_estimator import (
    CheckIterationEstimatorNonMPI,
)
from pySDC.implementations.convergence_controller_classes.crash import StopAtNan
from pySDC.implementations.convergence_controller_classes.estimate_contraction_factor import (
    EstimateContractionFactor,
)
from pySDC.implementations.convergence_controller_classes.estimate_embedded_error import EstimateEmbeddedError
from pySDC.implementations.convergence_controller_classes.estimate_extrapolation_error import (
    EstimateExtrapolationErrorNonMPI,
)
from pySDC.implementations.convergence_controller_classes.inexactness import NewtonInexactness
from pySDC.implementations.convergence_controller_classes.interpolate_between_restarts import (
    InterpolateBetweenRestarts,
)
from pySDC.implementations.convergence_controller_classes.step_size_limiter import StepSizeLimiter
from pySDC.implementations.hooks.log_embedded_error_estimate import (
    LogEmbeddedErrorEstimate,
    LogEmbeddedErrorEstimatePostIter,
)
from pySDC.implementations.hooks.log_errors import (
    LogGlobalErrorPostIter,
    LogGlobalErrorPostRun,
    LogGlobalErrorPostStep,
)
from pySDC.implementations.hooks.log_restarts import LogRestarts
from pySDC.implementations.hooks.log_solution import LogSolution, LogSolutionAfterIteration
from pySDC.implementations.hooks.log_step_size import LogStepSize
from pySDC.implementations.hooks.log_work import LogSDCIterations, LogWork

import dae_sdc as ds
from dae_sdc.dae.problem import PROBLEMS, ProblemDAE
from dae_sdc.run.description import describe
from dae_sdc.sweepers.collocation import QUADRATURES
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE

Vector = NDArray[np.float64]

SDC = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]


def controller(
    problem: Any,
    sweeper: str,
    dt: float,
    num_procs: int = 1,
    hooks: list[Any] | None = None,
    all_to_done: bool = False,
    mssdc_jac: bool = False,
    level: dict[str, Any] | None = None,
    **settings: Any,
) -> Any:
    description = describe(problem, sweeper=sweeper, **settings).with_step(dt)
    description["level_params"].update(level or {})
    params = {
        "logger_level": 40,
        "mssdc_jac": mssdc_jac,
        "all_to_done": all_to_done,
        "hook_class": hooks or [],
    }
    return controller_nonMPI(num_procs=num_procs, controller_params=params, description=description)


def run(own: Any, t_end: float, t0: float = 0.0) -> tuple[Vector, Any]:
    P = own.MS[0].levels[0].prob
    end, stats = own.run(u0=P.state(P.u_exact(t0)), t0=t0, Tend=t_end)
    return np.array(end), stats


def values(stats: Any, kind: str, **choice: Any) -> list[Any]:
    return [value for _, value in get_sorted(stats, type=kind, **choice)]


def close(actual: Any, wanted: Any, tolerance: float) -> None:
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert np.abs(actual - wanted).max() <= tolerance * (1.0 + np.abs(wanted).max())


class Pair(ProblemDAE):
    """y' = -y z, 0 = z - 1 - y^2: a Bernoulli equation that only this file knows."""

    index = 1

    def __init__(self, **settings: Any) -> None:
        super().__init__(1, 1, **settings)

    def eval_f(self, u: Any, du: Any, t: float) -> list[float]:
        y, z = u
        return [du[0] + y * z, z - 1.0 - y * y]

    def u_exact(self, t: float) -> list[float]:
        square = 1.0 / (2.0 * np.exp(2.0 * t) - 1.0)
        return [float(np.sqrt(square)), float(1.0 + square)]


# --- several steps at a time --------------------------------------------------------------------------------


# Index 2 is linear here: what steps receive before their predecessors have converged violates the hidden
# constraint, and a nonlinear equation need not have a solution for it.
@pytest.mark.parametrize(
    ("sweeper", "num_procs", "mssdc_jac", "quad", "problem"),
    covering_pairs(product(SDC, (2, 4), (True, False), QUADRATURES, ("hessenberg-1", "simple"))),
)
def test_steps_that_iterate_together_reach_the_serial_solution(
    sweeper: str, num_procs: int, mssdc_jac: bool, quad: str, problem: str
) -> None:
    settings = {"nodes": 3, "quad": quad, "restol": 1e-11, "newton_tol": 1e-12, "maxiter": 99}
    serial, _ = run(controller(problem, sweeper, 0.02, **settings), 0.11)
    together = controller(problem, sweeper, 0.02, num_procs=num_procs, mssdc_jac=mssdc_jac, **settings)
    # Six steps: the last block of four is not full.
    end, stats = run(together, 0.11)
    residuals = values(stats, "residual_post_step")
    assert len(residuals) == 6 and max(residuals) <= 1e-11
    close(end, serial, 1e-9)


@pytest.mark.parametrize("mssdc_jac", [True, False])
def test_blocks_need_not_be_full(mssdc_jac: bool) -> None:
    for steps in (1, 2, 3, 5, 7):
        own = controller("hessenberg-1", "semi-implicit", 0.05, num_procs=3, mssdc_jac=mssdc_jac)
        end, stats = run(own, 0.05 * (steps - 0.5))
        assert len(values(stats, "niter")) == steps
        close(end, own.MS[0].levels[0].prob.u_exact(0.05 * steps), 1e-8)


@pytest.mark.parametrize("sweeper", SDC)
def test_coefficients_that_change_with_the_sweep_are_refused_by_pysdc_with_several_steps(
    sweeper: str,
) -> None:
    with pytest.raises(ControllerError):
        controller("hessenberg-1", sweeper, 0.1, num_procs=2, qdelta="MIN-SR-FLEX")


@pytest.mark.parametrize("sweeper", SDC)
def test_several_sweeps_an_iteration_take_fewer_iterations_to_the_same_end(sweeper: str) -> None:
    ends, counts = [], []
    for nsweeps in (1, 2, 4):
        own = controller("hessenberg-2", sweeper, 0.05, nsweeps=nsweeps, restol=1e-12, newton_tol=1e-13)
        end, stats = run(own, 0.225)
        ends.append(end)
        counts.append(sum(values(stats, "niter")))
    close(ends[1], ends[0], 1e-11)
    close(ends[2], ends[0], 1e-11)
    # An iteration more at most, for each of the five steps, than the same number of sweeps.
    assert counts[0] > counts[1] > counts[2]
    assert counts[1] <= counts[0] / 2 + 5 and counts[2] <= counts[0] / 4 + 5


@pytest.mark.parametrize("sweeper", SDC)
def test_a_problem_of_ones_own_runs_on_three_steps(sweeper: str) -> None:
    own = controller(Pair, sweeper, 0.05, num_procs=3)
    end, _ = run(own, 0.475)
    close(end, Pair().u_exact(0.5), 1e-8)
    assert len({id(S.levels[0].prob) for S in own.MS}) == 3


@pytest.mark.parametrize("problem", ["simple", Pair, Pair()])
def test_solve_takes_several_steps_at_a_time(problem: Any) -> None:
    serial = ds.solve(problem, sweeper="semi-implicit", dt=0.05, t_end=0.5)
    together = ds.solve(problem, sweeper="semi-implicit", dt=0.05, t_end=0.5, steps=3)
    assert serial.success and together.success
    assert np.array_equal(serial.t, together.t)
    close(together.u, serial.u, 1e-8)
    assert together.stats["sweeps"] > serial.stats["sweeps"]


@pytest.mark.parametrize("sweeper", sweepers_for("hessenberg-1"))
def test_a_step_survives_dill_before_and_after_a_run(sweeper: str) -> None:
    settings = {"nodes": 3} if sweeper in SDC else {}
    own = controller("hessenberg-1", sweeper, 0.05, **settings)
    end, _ = run(own, 0.12)
    copy = dill.copy(own.MS[0])
    level, twin = own.MS[0].levels[0], copy.levels[0]
    assert np.array_equal(twin.uend, level.uend) and twin.uend is not level.uend
    for L in (level, twin):
        L.status.time = 0.15
        L.u[0] = L.prob.dtype_u(end_state(L, end))
        L.sweep.predict()
        L.sweep.update_nodes()
        L.sweep.compute_end_point()
    assert np.array_equal(twin.uend, level.uend)
    twin.u[1][:] = 7.0
    assert not (np.array(level.u[1]) == 7.0).any()


def end_state(L: Any, end: Vector) -> Any:
    return L.prob.state(end)


# --- pySDC's hooks ------------------------------------------------------------------------------------------

HOOKS = [
    LogSolution,
    LogGlobalErrorPostStep,
    LogGlobalErrorPostIter,
    LogGlobalErrorPostRun,
    LogWork,
    LogSDCIterations,
    LogStepSize,
    LogRestarts,
    LogEmbeddedErrorEstimate,
    LogEmbeddedErrorEstimatePostIter,
]


@pytest.mark.parametrize("num_procs", [1, 2])
@pytest.mark.parametrize("sweeper", sweepers_for("hessenberg-1"))
def test_hooks_of_pysdc_run_and_log_what_they_say(sweeper: str, num_procs: int) -> None:
    sdc = sweeper in SDC
    if not sdc and num_procs > 1:
        num_procs = 1
    level = {"e_tol": 1e-13} if sdc else {}
    own = controller("hessenberg-1", sweeper, 0.1, num_procs=num_procs, hooks=list(HOOKS), level=level)
    P = own.MS[0].levels[0].prob
    end, stats = run(own, 0.35)
    solutions = get_sorted(stats, type="u")
    assert [t for t, _ in solutions] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert np.array_equal(solutions[-1][1], end)
    errors = get_sorted(stats, type="e_global_post_step")
    for (t, u), (_, error) in zip(solutions, errors, strict=True):
        assert error == np.abs(np.array(u) - np.array(P.u_exact(t))).max()
    assert values(stats, "e_global_post_run")[-1] == errors[-1][1]
    iterations = values(stats, "niter")
    assert len(values(stats, "e_global_post_iteration")) == sum(iterations)
    assert sum(values(stats, "k")) == sum(iterations)
    assert values(stats, "dt") == [0.1] * 4
    assert values(stats, "restart") == [0] * 4
    if sdc:
        assert len(values(stats, "error_embedded_estimate")) == 4
        assert max(values(stats, "error_embedded_estimate")) < 1e-8
    for name in P.work_counters:
        assert len(values(stats, f"work_{name}")) == 4


# --- convergence controllers --------------------------------------------------------------------------------


def adaptive(kind: Any, params: dict[str, Any], sweeper: str = "semi-implicit", **settings: Any) -> Any:
    """Run hessenberg-1 to t = 1.5 and give error, accepted step sizes, and statistics."""
    given = {"nodes": 3, "convergence_controllers": {kind: params}, **settings}
    own = controller("hessenberg-1", sweeper, given.pop("dt", 0.01), hooks=[LogStepSize], **given)
    P = own.MS[0].levels[0].prob
    end, stats = run(own, 1.5)
    steps = get_sorted(stats, type="dt", recomputed=False)
    final = steps[-1][0] + steps[-1][1]
    return float(np.abs(end - np.array(P.u_exact(final))).max()), [dt for _, dt in steps], stats


@pytest.mark.parametrize("tolerance", [1e-5, 1e-7])
@pytest.mark.parametrize("qdelta", ["LU", "MIN-SR-S"])
def test_adaptivity_keeps_the_increment_at_its_tolerance(tolerance: float, qdelta: str) -> None:
    error, dts, stats = adaptive(
        Adaptivity, {"e_tol": tolerance}, qdelta=qdelta, restol=-1.0, maxiter=4, initial_guess="spread"
    )
    estimates = values(stats, "error_embedded_estimate", recomputed=False)
    assert max(estimates) <= tolerance
    assert np.median(estimates[2:-1]) >= 0.1 * tolerance
    # The increment is that of the sweep before: the solution is better than what is controlled.
    assert error <= len(dts) * tolerance
    assert max(dts) > 2.0 * dts[0]


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (AdaptivityPolynomialError, {}),
        (AdaptivityCollocation, {"adaptive_coll_params": {"num_nodes": [2, 3]}}),
    ],
)
@pytest.mark.parametrize("sweeper", SDC)
def test_adaptivity_of_converged_steps_meets_its_tolerance(
    sweeper: str, kind: Any, params: dict[str, Any]
) -> None:
    counts = []
    for tolerance in (1e-5, 1e-7):
        error, dts, _ = adaptive(kind, {"e_tol": tolerance, **params}, sweeper, restol=1e-11, maxiter=50)
        assert error <= len(dts) * tolerance
        assert len(dts) > 3
        counts.append(len(dts))
    # Both estimates have order 3 or 4: a hundredth of the tolerance takes 3 to 5 times the steps.
    assert 1.7 <= counts[1] / counts[0] <= 8.0


def test_adaptivity_by_the_residual_halves_and_doubles() -> None:
    limits = {"e_tol": 1e-7, "e_tol_low": 1e-10}
    _, dts, stats = adaptive(AdaptivityResidual, limits, restol=-1.0, maxiter=4, initial_guess="spread")
    residuals = values(stats, "residual_post_step", recomputed=False)
    assert max(residuals) <= limits["e_tol"]
    ratios = np.log2(np.array(dts[1:-1]) / np.array(dts[:-2]))
    assert np.allclose(ratios, np.round(ratios)) and np.abs(ratios).max() >= 1.0


class RejectOnce(ConvergenceController):  # type: ignore[misc]
    """Rejects the step that begins at time ``at`` once and halves it."""

    def setup(self, controller: Any, params: Any, description: Any, **kwargs: Any) -> Any:
        self.done = False
        return {"control_order": 10, **super().setup(controller, params, description, **kwargs)}

    def determine_restart(self, controller: Any, S: Any, **kwargs: Any) -> None:
        if not self.done and abs(S.time - self.params.at) < 1e-12 and CheckConvergence.check_convergence(S):
            self.done = S.status.restart = True
            S.levels[0].status.dt_new = 0.5 * S.levels[0].params.dt


@pytest.mark.parametrize("at", [0.0, 0.4])
@pytest.mark.parametrize("sweeper", SDC)
def test_a_restart_interpolates_to_the_shorter_step(sweeper: str, at: float) -> None:
    residuals = []
    for interpolation in ({}, {InterpolateBetweenRestarts: {}}):
        controllers = {RejectOnce: {"at": at}, **interpolation}
        own = controller(
            "hessenberg-1", sweeper, 0.4, convergence_controllers=controllers, initial_guess="spread", nodes=4
        )
        end, stats = run(own, 0.75)
        residuals += [
            value
            for key, value in stats.items()
            if (key.type, key.iter, key.num_restarts) == ("residual_post_sweep", 1, 1)
        ]
        final = max(t for t, _ in get_sorted(stats, type="residual_post_step", recomputed=False))
        assert np.abs(end - np.array(own.MS[0].levels[0].prob.u_exact(final + 0.2))).max() < 1e-5
    # The repeated step begins from the polynomial of the rejected one.
    without, with_polynomial = residuals
    assert with_polynomial < 0.05 * without


@pytest.mark.parametrize("sweeper", SDC)
def test_newton_inexactness_sets_the_tolerance_and_saves_work(sweeper: str) -> None:
    work, ends = [], []
    for controllers in ({}, {NewtonInexactness: {"ratio": 1e-1, "min_tol": 1e-13}}):
        own = controller(
            "hessenberg-1", sweeper, 0.1, newton_tol=1e-13, restol=1e-11, convergence_controllers=controllers
        )
        P = own.MS[0].levels[0].prob
        end, stats = run(own, 0.95)
        ends.append(end)
        work.append(P.work_counters["newton"].niter)
        assert max(values(stats, "residual_post_step")) <= 1e-11
    assert 1e-13 <= P.newton_tol <= 1e-1 * 1e-11 * 1.01
    assert work[1] < 0.95 * work[0]
    close(ends[1], ends[0], 1e-9)


def test_the_step_size_limiter_limits() -> None:
    limits = {"e_tol": 1e-6, "dt_min": 0.02, "dt_max": 0.03}
    _, dts, _ = adaptive(AdaptivityPolynomialError, limits, restol=1e-11, maxiter=50)
    assert max(dts) == pytest.approx(0.03) and min(dts[1:-1]) >= 0.02 - 1e-12
    own = controller(
        "hessenberg-1", "semi-implicit", 0.1, convergence_controllers={StepSizeLimiter: {"dt_max": 0.01}}
    )
    _, stats = run(own, 0.35)
    assert len(values(stats, "niter")) == 4


def test_restarts_are_limited_in_number() -> None:
    controllers = {AdaptivityPolynomialError: {"e_tol": 1e-16}, BasicRestartingNonMPI: {"max_restarts": 3}}
    own = controller("hessenberg-1", "semi-implicit", 0.1, restol=1e-11, convergence_controllers=controllers)
    with pytest.raises(ConvergenceError, match="Restarted 3"):
        run(own, 1.0)


@pytest.mark.parametrize("sweeper", SDC)
def test_the_estimates_of_increment_and_contraction_are_right(sweeper: str) -> None:
    seen: list[tuple[int, float, float | None]] = []

    class Spy(LogSolution):  # type: ignore[misc]
        def pre_iteration(self, step: Any, level_number: int) -> None:
            super().pre_iteration(step, level_number)
            status = step.levels[0].status
            if step.status.iter > 1:
                seen.append((step.status.iter - 1, status.error_embedded_estimate, status.contraction_factor))

    own = controller(
        "hessenberg-1",
        sweeper,
        0.1,
        hooks=[Spy, LogSolutionAfterIteration],
        initial_guess="spread",
        restol=-1.0,
        maxiter=5,
        convergence_controllers={EstimateEmbeddedError: {}, EstimateContractionFactor: {"e_tol": 1e-9}},
    )
    _, stats = run(own, 0.05)
    ends = [np.array(u) for u in values(stats, "u", sortby="iter", time=0.1)][:5]
    increments = [np.abs(b - a).max() for a, b in pairwise(ends)]
    for i, estimate, contraction in seen[1:]:
        assert estimate == pytest.approx(increments[i - 2], rel=1e-12)
        if i > 2:
            assert contraction == pytest.approx(increments[i - 2] / increments[i - 3], rel=1e-12)


@pytest.mark.parametrize("sweeper", SDC)
def test_a_tolerance_of_the_increment_ends_the_iteration(sweeper: str) -> None:
    counts = []
    for tolerance in (1e-4, 1e-8):
        own = controller(
            "hessenberg-1",
            sweeper,
            0.1,
            restol=-1.0,
            maxiter=30,
            initial_guess="spread",
            level={"e_tol": tolerance},
        )
        _, stats = run(own, 0.35)
        estimates = values(stats, "error_embedded_estimate")
        assert len(estimates) == 4 and max(estimates) < tolerance
        counts.append(max(values(stats, "niter")))
    assert counts[0] < counts[1] < 30


def test_solve_leaves_a_tolerance_of_the_increment_to_pysdc() -> None:
    own = controller("hessenberg-1", "semi-implicit", 0.1, num_procs=2, level={"e_tol": 1e-9})
    end, _ = run(own, 0.35)
    close(end, PROBLEMS["hessenberg-1"]().u_exact(0.4), 1e-8)


def test_stop_at_nan_stops_above_its_threshold() -> None:
    own = controller(
        "hessenberg-2", "semi-implicit", 0.05, convergence_controllers={StopAtNan: {"thresh": 2.0}}
    )
    # exp(2 t) = 2 at t = 0.35.
    with pytest.raises(ConvergenceError, match=r"exceeds bounds.*0\.3"):
        run(own, 1.0)


@pytest.mark.parametrize("num_procs", [1, 3])
@pytest.mark.parametrize("sweeper", SDC)
def test_the_iteration_estimator_stops_in_time(sweeper: str, num_procs: int) -> None:
    own = controller(
        "hessenberg-1",
        sweeper,
        0.1,
        num_procs=num_procs,
        all_to_done=True,
        restol=-1.0,
        maxiter=30,
        convergence_controllers={CheckIterationEstimatorNonMPI: {"errtol": 1e-7}},
    )
    end, stats = run(own, 0.55)
    exact = controller("hessenberg-1", sweeper, 0.1, restol=1e-12)
    close(end, run(exact, 0.55)[0], 1e-5)
    assert 2 <= max(values(stats, "niter")) < 15


@pytest.mark.parametrize(
    ("kind", "params", "settings"),
    [
        (EstimateExtrapolationErrorNonMPI, {"no_storage": False}, {"restol": -1.0, "maxiter": 3}),
        (AdaptivityExtrapolationWithinQ, {"e_tol": 1e-6}, {"restol": 1e-11}),
    ],
)
def test_extrapolation_estimates_refuse_every_datatype_but_two_of_pysdc(
    kind: Any, params: dict[str, Any], settings: dict[str, Any]
) -> None:
    own = controller("hessenberg-1", "semi-implicit", 0.1, convergence_controllers={kind: params}, **settings)
    with pytest.raises(DataError, match="MeshDAE"):
        run(own, 0.85)
