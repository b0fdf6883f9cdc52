"""Hooks, convergence controllers and transfers of pySDC with our problems and sweepers."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pySDC.core.base_transfer import BaseTransfer
from pySDC.core.check_convergence import CheckConvergence
from pySDC.core.controller import Controller
from pySDC.core.convergence_controller import ConvergenceController
from pySDC.core.hooks import Hooks
from pySDC.core.space_transfer import SpaceTransfer
from pySDC.helpers.fieldsIO import FieldsIO
from pySDC.helpers.stats_helper import get_sorted
from pySDC.implementations import (
    controller_classes,
    convergence_controller_classes,
    hooks as hook_classes,
    transfer_classes,
)
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from pySDC.implementations.controller_classes.controller_ParaDiag_nonMPI import controller_ParaDiag_nonMPI
from pySDC.implementations.convergence_controller_classes import (
    adaptive_collocation,
    adaptivity,
    basic_restarting,
    check_iteration_estimator,
    crash,
    estimate_contraction_factor,
    estimate_embedded_error,
    estimate_extrapolation_error,
    estimate_polynomial_error,
    hotrod,
    inexactness,
    interpolate_between_restarts,
    spread_step_sizes,
    step_size_limiter,
    store_uold,
)
from pySDC.implementations.hooks import (
    log_embedded_error_estimate,
    log_errors,
    log_extrapolated_error_estimate,
    log_restarts,
    log_solution,
    log_step_size,
    log_work,
)
from pySDC.implementations.transfer_classes import (
    BaseTransfer_mass,
    BaseTransferDelta,
    BaseTransferDeltaMPI,
    BaseTransferMPI,
    TransferMesh,
    TransferMesh_FFT,
    TransferMesh_FFT2D,
    TransferMesh_NoCoarse,
    TransferParticles_NoCoarse,
)
from pySDC.projects.PinTSimE import switch_estimator
from pySDC.projects.Resilience.fault_injection import FaultInjector

import dae_sdc as ds
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import DAEError
from dae_sdc.sweepers.sdc import SWEEPERS

SDC = ("fully-implicit", "semi-implicit", "constrained")
STAGES = "radau-iia-5"
FIXED = {1: 1e-9, 2: 1e-4, 3: 2e-3}
"""Bounds of the error by the index, for steps of 0.05 with three nodes."""
ADAPTED = {1: 1e-4, 2: 1e-3, 3: 5e-2}


class RejectOnce(ConvergenceController):  # type: ignore[misc]
    """Rejects a step once and halves it."""

    def setup(self, controller: Any, params: Any, description: Any, **kwargs: Any) -> Any:
        self.done = False
        return {"control_order": 10, **super().setup(controller, params, description, **kwargs)}

    def determine_restart(self, controller: Any, S: Any, **kwargs: Any) -> None:
        if not self.done and S.time > 0.09 and CheckConvergence.check_convergence(S):
            self.done = S.status.restart = True
            S.levels[0].status.dt_new = 0.5 * S.levels[0].params.dt


@dataclass(frozen=True)
class Part:
    """A part of pySDC: what a description says of it, how exact runs are, and which runs are refused how."""

    controls: dict[Any, Any] = field(default_factory=dict)
    hooks: tuple[Any, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, Any] = field(default_factory=dict)
    """Parameters of the Runge-Kutta sweeper."""
    settings: dict[str, Any] = field(default_factory=dict)
    bounds: dict[int, float] = field(default_factory=lambda: FIXED)
    t_end: float = 0.22
    refused: tuple[tuple[Any, Any, Any, str], ...] = ()
    """Sweepers, indices and numbers of steps (None for all), and what the line says."""

    def refusal(self, sweeper: str, index: int, steps: int) -> str | None:
        """What the line says in which a run is refused; None for one that works."""
        for sweepers, indices, counts, line in self.refused:
            if (
                sweeper in (sweepers or sweeper)
                and index in (indices or [index])
                and steps in (counts or [steps])
            ):
                return line
        return None


SWEEPS = {"restol": -1.0, "maxiter": 4}
NO_NODES = (((STAGES,), None, None, "num_nodes"),)
NO_MESH = ((None, None, None, "take AdaptivityDAE for estimates of errors"),)
COARSE = (((STAGES,), None, None, "needs an SDC sweeper"),)
ALL_HOOKS = (
    *(log_solution.LogSolution, log_solution.LogSolutionAfterIteration, log_work.LogWork),
    *(log_errors.LogGlobalErrorPostStep, log_errors.LogGlobalErrorPostIter, log_errors.LogGlobalErrorPostRun),
    *(log_step_size.LogStepSize, log_restarts.LogRestarts, log_work.LogSDCIterations, log_errors.LogError),
    log_extrapolated_error_estimate.LogExtrapolationErrorEstimate,
    log_embedded_error_estimate.LogEmbeddedErrorEstimate,
    log_embedded_error_estimate.LogEmbeddedErrorEstimatePostIter,
)
PARTS = {
    "hooks": Part(hooks=ALL_HOOKS),
    "LogLocalErrorPostStep": Part(
        hooks=(log_errors.LogLocalErrorPostStep, log_errors.LogLocalErrorPostIter),
        # A state with an error need not satisfy hidden constraints, and then there is no solution through it.
        refused=((None, (3,), None, "Newton did not converge"),),
    ),
    "FaultInjector": Part(
        hooks=(FaultInjector,), refused=((None, None, None, "a hook that assigns values for faults"),)
    ),
    "Adaptivity": Part(
        {adaptivity.Adaptivity: {"e_tol": 1e-4}},
        settings=SWEEPS,
        bounds=ADAPTED,
        t_end=0.06,
        refused=((None, (3,), None, "Newton did not converge"),),
    ),
    "AdaptivityPolynomialError": Part(
        {adaptivity.AdaptivityPolynomialError: {"e_tol": 1e-4}},
        bounds=ADAPTED,
        refused=(
            ((STAGES,), None, None, "num_nodes"),
            (None, (2,), None, "Restarted 10"),
            (None, (3,), None, "Newton did not converge"),
        ),
    ),
    "AdaptivityPolynomialError of stages": Part(
        {adaptivity.AdaptivityPolynomialError: {"e_tol": 1e-4, "restart_at_maxiter": False}},
        bounds=ADAPTED,
        stages={"num_nodes": 3, "quad_type": "RADAU-RIGHT"},
        refused=((None, (2,), None, "Restarted 10"), (None, (3,), None, "Newton did not converge")),
    ),
    "AdaptivityRK": Part(
        {adaptivity.AdaptivityRK: {"e_tol": 1e-4}},
        refused=(
            (SDC, None, None, "AdaptivityDAE of dae_sdc"),
            ((STAGES,), None, None, "use one of esdirk32, esdirk43"),
        ),
    ),
    "AdaptivityCollocation": Part(
        {
            adaptivity.AdaptivityCollocation: {
                "e_tol": 1e-3,
                "adaptive_coll_params": {"num_nodes": [2, 3]},
            }
        },
        bounds=ADAPTED,
        refused=(
            ((STAGES,), None, None, "requires solving them to some tolerance"),
            (None, None, (2,), "was given other nodes while the step before still changes"),
            (("fully-implicit",), (3,), None, "Newton did not converge"),
        ),
    ),
    "AdaptivityResidual": Part(
        {adaptivity.AdaptivityResidual: {"e_tol": 1e-2, "e_tol_low": 1e-10}},
        settings=SWEEPS,
        bounds=ADAPTED,
        refused=((("fully-implicit",), (3,), None, "Newton did not converge"),),
    ),
    "AdaptivityExtrapolationWithinQ": Part(
        {adaptivity.AdaptivityExtrapolationWithinQ: {"e_tol": 1e-4}},
        refused=(
            *NO_NODES,
            (("fully-implicit",), (2,), (1,), "Restarted 10"),
            (("fully-implicit",), (3,), (1,), "Newton did not converge"),
            *NO_MESH,
        ),
    ),
    "EstimateEmbeddedError": Part({estimate_embedded_error.EstimateEmbeddedError: {}}),
    "EstimateContractionFactor": Part(
        {estimate_contraction_factor.EstimateContractionFactor: {"e_tol": 1e-9}}
    ),
    "EstimateExtrapolationError": Part(
        {estimate_extrapolation_error.EstimateExtrapolationErrorNonMPI: {"no_storage": False}},
        settings=SWEEPS,
        refused=NO_MESH,
    ),
    "HotRod": Part({hotrod.HotRod: {"HotRod_tol": 1.0}}, settings=SWEEPS, refused=NO_MESH),
    "InterpolateBetweenRestarts": Part(
        {RejectOnce: {}, interpolate_between_restarts.InterpolateBetweenRestarts: {}},
    ),
    "NewtonInexactness": Part(
        {inexactness.NewtonInexactness: {"ratio": 1e-2, "min_tol": 1e-12, "max_tol": 1e-6}}
    ),
    "StepSizeLimiter": Part({step_size_limiter.StepSizeLimiter: {"dt_max": 0.04}}),
    "StepSizeSlopeLimiter": Part(
        {
            step_size_limiter.StepSizeSlopeLimiter: {"dt_slope_max": 2.0},
            step_size_limiter.StepSizeRounding: {},
        }
    ),
    "StopAtNan": Part({crash.StopAtNan: {"thresh": 1e3}, crash.StopAtMaxRuntime: {"max_runtime": 1e4}}),
    "StoreUOld": Part(
        {
            store_uold.StoreUOld: {},
            basic_restarting.BasicRestartingNonMPI: {},
            spread_step_sizes.SpreadStepSizesBlockwiseNonMPI: {},
        }
    ),
    "AdaptiveCollocation": Part(
        {adaptive_collocation.AdaptiveCollocation: {"num_nodes": [2, 3]}},
        bounds=ADAPTED,
        refused=(
            ((STAGES,), None, None, "requires solving them to some tolerance"),
            (None, None, (2,), "was given other nodes while the step before still changes"),
            (("fully-implicit",), (3,), None, "Newton did not converge"),
        ),
    ),
    "EstimatePolynomialError": Part(
        {estimate_polynomial_error.EstimatePolynomialError: {}},
        stages={"num_nodes": 3, "quad_type": "RADAU-RIGHT"},
    ),
    "EstimateEmbeddedErrorCollocation": Part(
        {
            estimate_embedded_error.EstimateEmbeddedErrorCollocation: {
                "adaptive_coll_params": {"num_nodes": [2, 3]}
            }
        },
        bounds=ADAPTED,
        refused=(
            ((STAGES,), None, None, "requires solving them to some tolerance"),
            (None, None, (2,), "was given other nodes while the step before still changes"),
            (("fully-implicit",), (3,), None, "Newton did not converge"),
        ),
    ),
    "EstimateEmbeddedErrorLinearizedNonMPI": Part(
        {estimate_embedded_error.EstimateEmbeddedErrorLinearizedNonMPI: {}}, settings=SWEEPS, bounds=ADAPTED
    ),
    "EstimateExtrapolationErrorWithinQ": Part(
        {estimate_extrapolation_error.EstimateExtrapolationErrorWithinQ: {}},
        stages={"num_nodes": 3, "quad_type": "RADAU-RIGHT"},
        refused=NO_MESH,
    ),
    "CheckIterationEstimator": Part(
        {check_iteration_estimator.CheckIterationEstimatorNonMPI: {"errtol": 1e-9}}, bounds={**FIXED, 1: 1e-8}
    ),
    "SwitchEstimator": Part(
        {switch_estimator.SwitchEstimator: {"tol": 1e-10, "alpha": 1.0}}, refused=NO_NODES
    ),
    "TransferDAE": Part(
        more={"base_transfer_class": ds.TransferDAE, "space_transfer_class": ds.SameUnknowns}, refused=COARSE
    ),
    "BaseTransfer": Part(
        more={"base_transfer_class": BaseTransfer, "space_transfer_class": ds.SameUnknowns},
        refused=((None, None, None, r"TransferDAE|solves a step at once"),),
    ),
    **{
        f"{module.__name__.rpartition('.')[2]}.{name}": Part(
            more={"base_transfer_class": ds.TransferDAE, "space_transfer_class": getattr(module, name)},
            refused=COARSE if fits else (*COARSE, (None, None, None, "SameUnknowns")),
        )
        for module, name, fits in (
            (TransferMesh, "mesh_to_mesh", False),
            (TransferMesh_NoCoarse, "mesh_to_mesh", True),
            (TransferMesh_FFT, "mesh_to_mesh_fft", False),
            (TransferMesh_FFT2D, "mesh_to_mesh_fft2d", False),
            (TransferParticles_NoCoarse, "particles_to_particles", False),
        )
    },
    **{
        cls.__name__: Part(
            more={"base_transfer_class": cls, "space_transfer_class": ds.SameUnknowns},
            refused=((None, None, None, "TransferDAE"),),
        )
        for cls in (
            BaseTransfer_mass.base_transfer_mass,
            BaseTransferDelta.delta_transfer,
            BaseTransferDeltaMPI.delta_transfer_MPI,
            BaseTransferMPI.base_transfer_MPI,
        )
    },
}


def made(part: Part, problem: Any, sweeper: str, steps: int, dt: float = 0.05, **more: Any) -> Any:
    """pySDC's controller for a part, all in its description; ``more`` are parameters of the sweeper."""
    swept = sweeper in SDC
    levels = [3, 2] if part.more else 3
    nodes = {"num_nodes": levels, "quad_type": "RADAU-RIGHT", "QI": "LU"}
    settings = {"restol": 1e-10, "maxiter": 60, **part.settings} if swept else {"restol": -1.0, "maxiter": 1}
    cls = SWEEPERS[sweeper]
    given = {
        "problem_class": PROBLEMS[problem] if isinstance(problem, str) else problem,
        "problem_params": {},
        "sweeper_class": [cls, cls] if part.more and not swept else cls,
        "sweeper_params": {**(nodes if swept else part.stages), **more},
        "level_params": {"dt": dt, "restol": settings["restol"]},
        "step_params": {"maxiter": settings["maxiter"]},
        "convergence_controllers": {kind: dict(params) for kind, params in part.controls.items()},
        **part.more,
    }
    hooks = [*part.hooks, log_step_size.LogStepSize]
    params = {"logger_level": 50, "dump_setup": False, "mssdc_jac": False, "hook_class": hooks}
    return controller_nonMPI(steps, params, given)


def run(own: Any, t_end: float, t0: float = 0.0) -> tuple[float, Any]:
    """Error at the end of a run, and its statistics."""
    P = own.MS[0].levels[0].prob
    end, stats = own.run(u0=P.state(P.u_exact(t0)), t0=t0, Tend=t_end)
    last = max(get_sorted(stats, type="dt", recomputed=False))
    return float(np.abs(np.array(end) - np.array(P.u_exact(last[0] + last[1]))).max()), stats


@pytest.mark.parametrize(("name", "sweeper"), list(product(PARTS, (*SDC, STAGES))))
def test_every_part_works_or_refuses_in_a_line(name: str, sweeper: str) -> None:
    part = PARTS[name]
    for index, steps in product((1, 2, 3), (1, 2)):
        if (name, sweeper, index) == ("Adaptivity", STAGES, 3):
            continue  # the increment of multipliers never meets the tolerance: tens of thousands of steps
        line = part.refusal(sweeper, index, steps)
        try:
            error, _ = run(made(part, f"hessenberg-{index}", sweeper, steps), part.t_end)
        except Exception as caught:
            assert line and re.search(line, str(caught)), (index, steps, caught)
            assert "\n" not in str(caught)
        else:
            assert error <= part.bounds[index], (index, steps)


OTHERS = {
    "for its own problem": "AllenCahnMonitor",
    "in a test of its own": "LogToFile LogToPickleFile LogToPickleFileAfterXS ParaDiag "
    "controller_ParaDiag_MPI controller_ParaDiag_nonMPI controller_MPI controller_nonMPI",
    "the other of a pair for MPI, chosen by controller_MPI": "BasicRestartingMPI SpreadStepSizesBlockwiseMPI "
    "EstimateEmbeddedErrorLinearizedMPI",
    "the base of others": "AdaptivityBase AdaptivityForConvergedCollocationProblems BasicRestarting "
    "CrashBase EstimateExtrapolationErrorBase PlottingHook PlotPostStep SpreadStepSizesBlockwise",
    "for ParaDiag": "AdaptiveAlpha",
    "for states of Firedrake": "EstimatePolynomialErrorFiredrake",
}
"""Parts of pySDC that are not in the table, by the reason."""


def parts_of_pysdc() -> Iterator[tuple[str, type[Any]]]:
    """All hooks, convergence controllers, controllers and transfers that can be imported."""
    kinds = (Hooks, ConvergenceController, Controller, BaseTransfer, SpaceTransfer)
    for room in (hook_classes, convergence_controller_classes, controller_classes, transfer_classes):
        for found in pkgutil.iter_modules(room.__path__):
            try:
                module = importlib.import_module(f"{room.__name__}.{found.name}")
            except (
                ImportError
            ):  # of a package for other states: cupy, dolfin, firedrake, petsc4py, mpi4py_fft
                continue
            for name, cls in inspect.getmembers(module, inspect.isclass):
                if cls.__module__ == module.__name__ and (issubclass(cls, kinds) or name == "ParaDiag"):
                    yield name, cls


def test_every_part_of_the_installed_pysdc_is_in_the_table() -> None:
    tried = {kind for part in PARTS.values() for kind in (*part.controls, *part.hooks, *part.more.values())}
    named = {name for names in OTHERS.values() for name in names.split()}
    found = dict(parts_of_pysdc())
    assert not {name for name, cls in found.items() if cls not in tried} - named
    assert named <= found.keys() | {"controller_ParaDiag_MPI", "controller_MPI"}


@pytest.mark.parametrize("sweeper", [*SDC, STAGES])
def test_controllers_that_diagonalise_are_refused(sweeper: str) -> None:
    given = {
        "problem_class": PROBLEMS["hessenberg-1"],
        "sweeper_class": SWEEPERS[sweeper],
        "sweeper_params": {"num_nodes": 3, "quad_type": "RADAU-RIGHT", "QI": "LU"},
        "level_params": {"dt": 0.05, "restol": 1e-10},
        "step_params": {"maxiter": 9},
    }
    with pytest.raises(ds.InputError, match=r"ParaDiag.*use controller_nonMPI"):
        controller_ParaDiag_nonMPI(2, {"logger_level": 50, "dump_setup": False, "alpha": 1e-4}, given)


# --- what hooks write ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeper", [*SDC, STAGES])
def test_local_errors_have_their_order_and_no_work(sweeper: str) -> None:
    found = []
    for dt in (0.1, 0.05):
        part = Part(hooks=(log_errors.LogLocalErrorPostStep,), settings={"restol": 1e-13})
        own = made(part, "hessenberg-1", sweeper, 1, dt)
        _, stats = run(own, 0.9 * dt)
        found.append(get_sorted(stats, type="e_local_post_step")[0][1])
        plain = made(Part(settings=part.settings), "hessenberg-1", sweeper, 1, dt)
        run(plain, 0.9 * dt)
        counts = [
            {name: counter.niter for name, counter in one.MS[0].levels[0].prob.work_counters.items()}
            for one in (own, plain)
        ]
        assert counts[0] == counts[1]
    # Radau IIA with three nodes: the local error has order 6, that of restol at its level left aside.
    assert np.log2(found[0] / found[1]) == pytest.approx(6.0, abs=0.4)


def test_a_solution_from_any_state_needs_no_formula() -> None:
    class Decay(ds.ProblemDAE):
        index = 1

        def __init__(self) -> None:
            super().__init__(1, 1)

        def eval_f(self, u: Any, du: Any, t: float) -> list[float]:
            return [du[0] + u[1], u[1] - 2.0 * u[0]]

    P = Decay()
    found = P.u_exact(0.3, u_init=[3.0, 6.0], t_init=0.1)
    np.testing.assert_allclose(found, np.array([3.0, 6.0]) * np.exp(-0.4), rtol=1e-13)
    np.testing.assert_array_equal(P.u_exact(0.1, u_init=[3.0, 6.0], t_init=0.1), [3.0, 6.0])
    with pytest.raises(ds.InputError, match="not known before it"):
        P.u_exact(0.0, u_init=[3.0, 6.0], t_init=0.1)
    with pytest.raises(ds.InputError, match="no u_exact"):
        P.u_exact(0.1)


def test_solutions_are_written_to_files(tmp_path: Path) -> None:
    class Fields(log_solution.LogToFile):  # type: ignore[misc]
        filename = str(tmp_path / "run.pysdc")

    class Pickles(log_solution.LogToPickleFile):  # type: ignore[misc]
        path = str(tmp_path / "pickles")

    own = made(Part(hooks=(Fields, Pickles)), "hessenberg-1", "semi-implicit", 1)
    P = own.MS[0].levels[0].prob
    run(own, 0.17)
    file = FieldsIO.fromFile(Fields.filename)
    assert file.times == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])
    for number, t in enumerate(file.times):
        kept = Pickles.load(number)
        np.testing.assert_allclose(file.readField(number)[1], P.u_exact(t), rtol=1e-8)
        np.testing.assert_array_equal(file.readField(number)[1], kept["u"])


def test_solutions_are_written_from_time_to_time(tmp_path: Path) -> None:
    class Sometimes(log_solution.LogToPickleFileAfterXS):  # type: ignore[misc]
        path = str(tmp_path)
        time_increment = 0.1

    own = made(Part(hooks=(Sometimes,)), "hessenberg-1", "semi-implicit", 1)
    run(own, 0.22)
    assert [Sometimes.load(number)["t"] for number in range(3)] == pytest.approx([0.0, 0.1, 0.2])


# --- SwitchEstimator ----------------------------------------------------------------------------------------

ESTIMATOR = Part({switch_estimator.SwitchEstimator: {"tol": 1e-10, "alpha": 1.0}}, settings={"restol": 1e-10})


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("sweeper", SDC)
def test_the_switch_estimator_of_pysdc_finds_our_switches(
    sweeper: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scalar(switch_estimator.LagrangeApproximation):  # type: ignore[misc]
        """A polynomial whose values at single times are numbers, as the estimator takes them to be."""

        def __call__(self, t: Any, fValues: Any = None) -> Any:
            return np.reshape(super().__call__(t, fValues), np.shape(t))[()]

    monkeypatch.setattr(switch_estimator, "LagrangeApproximation", Scalar)
    for located in (False, True):
        own = made(ESTIMATOR, "discontinuous", sweeper, steps, 0.1, locate_switches=located)
        error, _ = run(own, 4.95, 4.0)
        assert error <= 1e-3  # three nodes
    error, _ = run(made(Part(), "discontinuous", sweeper, 1, 0.1, locate_switches=False), 4.95, 4.0)
    assert error > 1.0
    error, _ = run(made(Part(), "discontinuous", sweeper, 1, 0.1), 4.95, 4.0)
    assert error <= 1e-10, "a step ends behind its switches by itself"


def test_the_switch_estimator_is_refused_where_it_cannot_work() -> None:
    own = made(Part(), "discontinuous", STAGES, 1, 0.1)
    run(own, 1.05, 1.0)
    level = own.MS[0].levels[0]
    with pytest.raises(ds.InputError, match=r"no stages.*LocateEvents"):
        level.prob.get_switching_info(level.u, 1.0)


def test_problems_without_switches_tell_so() -> None:
    P = PROBLEMS["hessenberg-1"]()
    assert P.get_switching_info([P.u_exact(0.0)] * 3, 0.0)[:2] == (False, -100)
    assert issubclass(ds.InputError, DAEError)


# --- extrapolated guesses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "jacobi"), [(1, False), (2, False), (4, True)])
@pytest.mark.parametrize("sweeper", SDC)
def test_no_step_is_accepted_for_its_extrapolated_guess_alone(sweeper: str, steps: int, jacobi: bool) -> None:
    own = made(Part(settings={"restol": 1e-5}), "simple", sweeper, steps, 0.01)
    own.params.mssdc_jac = jacobi
    _, stats = run(own, 1.0)
    assert min(count for _, count in get_sorted(stats, type="niter")) >= 1


@pytest.mark.parametrize("sweeper", SDC)
def test_a_guess_that_solves_the_equations_needs_no_sweep(sweeper: str) -> None:
    class Line(ds.ProblemDAE):
        """y' = 1, z = 2 y: the polynomial of a step goes on as the solution, but for round-off."""

        index = 1

        def __init__(self) -> None:
            super().__init__(1, 1)

        def eval_f(self, u: Any, du: Any, t: float) -> list[float]:
            return [du[0] - 1.0, u[1] - 2.0 * u[0]]

        def u_exact(self, t: float) -> list[float]:
            return [t, 2.0 * t]

    error, stats = run(made(Part(settings={"restol": 1e-8}), Line, sweeper, 1), 0.5)
    assert error < 1e-13
    assert [count for _, count in get_sorted(stats, type="niter")].count(0) >= 5
