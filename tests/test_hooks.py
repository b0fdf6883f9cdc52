"""Hooks of the package: errors by component, node values, the record of steps, and guards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.sweepers_for import sweepers_for
from numpy.typing import NDArray
from pySDC.core.check_convergence import CheckConvergence
from pySDC.core.convergence_controller import ConvergenceController
from pySDC.core.hooks import Hooks
from pySDC.helpers.stats_helper import get_sorted
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
from scipy.interpolate import BarycentricInterpolator

import dae_sdc as ds
from dae_sdc.control.hooks import (
    CheckInitialValue,
    LogGlobalErrorPostIterationAlgebraicVariable,
    LogGlobalErrorPostIterationDifferentialVariable,
    LogGlobalErrorPostStepAlgebraicVariable,
    LogGlobalErrorPostStepDifferentialVariable,
    LogSolution,
    LogSolutionAtNodes,
    LogWork,
    RequireConvergence,
    StepRecord,
)
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import ConvergenceError, InconsistentStateError, InputError, ReferenceRangeError
from dae_sdc.run.description import describe
from dae_sdc.sweepers.collocation import QUADRATURES
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE
from dae_sdc.sweepers.tableaux import METHODS

Vector = NDArray[np.float64]

SDC = [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]
POST_STEP = [LogGlobalErrorPostStepDifferentialVariable, LogGlobalErrorPostStepAlgebraicVariable]
POST_ITERATION = [
    LogGlobalErrorPostIterationDifferentialVariable,
    LogGlobalErrorPostIterationAlgebraicVariable,
]


class RejectOnce(ConvergenceController):  # type: ignore[misc]
    """Rejects the second step once and halves it."""

    def setup(self, controller: Any, params: Any, description: Any, **kwargs: Any) -> Any:
        self.done = False
        return {"control_order": 80, **super().setup(controller, params, description, **kwargs)}

    def determine_restart(self, controller: Any, S: Any, **kwargs: Any) -> None:
        if not self.done and S.time > 0.05 and CheckConvergence.check_convergence(S):
            self.done = True
            S.status.restart = True
            S.levels[0].status.dt_new = 0.5 * S.levels[0].params.dt


def controller(problem: Any, sweeper: str, hooks: list[Any], dt: float = 0.1, **settings: Any) -> Any:
    procs = settings.pop("num_procs", 1)
    if sweeper not in SDC:
        settings.pop("nodes", None)
    params = {"logger_level": 40, "hook_class": hooks}
    description = describe(problem, sweeper=sweeper, **settings).with_step(dt)
    return controller_nonMPI(num_procs=procs, controller_params=params, description=description)


def run(own: Any, t_end: float, u0: Any = None) -> tuple[Any, Any]:
    P = own.MS[0].levels[0].prob
    return own.run(u0=P.u_exact(0.0) if u0 is None else u0, t0=0.0, Tend=t_end)  # type: ignore[no-any-return]


def table(stats: Any, kind: str) -> list[tuple[float, Any]]:
    return list(get_sorted(stats, type=kind, recomputed=False))


# --- errors by component ------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_procs", [1, 2])
@pytest.mark.parametrize("sweeper", sweepers_for("hessenberg-1"))
def test_errors_after_steps_are_those_of_the_parts(sweeper: str, num_procs: int) -> None:
    settings = {"nodes": 2, "num_procs": num_procs if sweeper in SDC else 1}
    own = controller("hessenberg-1", sweeper, [*POST_STEP, LogSolution], **settings)
    P = own.MS[0].levels[0].prob
    _, stats = run(own, 0.35)
    solutions = table(stats, "u")
    differential = dict(table(stats, "e_global_differential_post_step"))
    algebraic = dict(table(stats, "e_global_algebraic_post_step"))
    assert len(solutions) == len(differential) == len(algebraic) == 4
    for t, u in solutions:
        error = np.abs(np.array(u) - np.array(P.u_exact(t)))
        assert error.max() > 0.0
        assert differential[t] == error[:2].max()
        assert algebraic[t] == error[2:].max()


@pytest.mark.parametrize("sweeper", SDC)
def test_errors_after_iterations_fall_to_those_after_the_step(sweeper: str) -> None:
    hooks = [*POST_STEP, *POST_ITERATION]
    own = controller("hessenberg-1", sweeper, hooks, nodes=2, initial_guess="spread")
    _, stats = run(own, 0.05)
    (_, iterations) = table(stats, "niter")[0]
    for part in ("differential", "algebraic"):
        after = [e for _, e in get_sorted(stats, type=f"e_global_{part}_post_iteration", sortby="iter")]
        assert len(after) == iterations
        assert after[0] > after[-1] == table(stats, f"e_global_{part}_post_step")[0][1]


def test_a_problem_without_a_part_has_no_error_there() -> None:
    class Ordinary(PROBLEMS["hessenberg-1"]):  # type: ignore[misc]
        index = 0
        names = units = equation_names = ("y",)
        jacobian = residual_nodes = None

        def __init__(self, **settings: Any) -> None:
            ds.ProblemDAE.__init__(self, 1, 0, **settings)

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            return [du[0] + u[0]]

        def u_exact(self, t: float) -> Any:
            return self.state([np.exp(-t)])

    own = controller(Ordinary, "fully-implicit", POST_STEP, nodes=2)
    _, stats = run(own, 0.25)
    assert [e for _, e in table(stats, "e_global_algebraic_post_step")] == [0.0] * 3
    assert all(e > 0.0 for _, e in table(stats, "e_global_differential_post_step"))


def test_errors_need_a_reference_there() -> None:
    class Short(PROBLEMS["hessenberg-1"]):  # type: ignore[misc]
        def u_exact(self, t: float) -> Any:
            if t > 0.15:
                raise ReferenceRangeError("the reference ends at t=0.15")
            return super().u_exact(t)

    own = controller(Short, "semi-implicit", POST_STEP, nodes=2)
    with pytest.raises(ReferenceRangeError):
        run(own, 0.35)


# --- residuals and work -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeper", SDC)
def test_residuals_are_logged_after_iterations_and_steps(sweeper: str) -> None:
    own = controller("hessenberg-2", sweeper, [], nodes=3, dt=0.05, restol=1e-9)
    _, stats = run(own, 0.225)
    after_step = [r for _, r in table(stats, "residual_post_step")]
    assert len(after_step) == 5 and max(after_step) <= 1e-9
    for (t, count), last in zip(table(stats, "niter"), after_step, strict=True):
        own_residuals = get_sorted(stats, type="residual_post_iteration", time=t, sortby="iter")
        assert [i for i, _ in own_residuals] == list(range(1, count + 1))
        assert own_residuals[-1][1] == last
        assert all(r > 1e-9 for _, r in own_residuals[:-1])


@pytest.mark.parametrize("num_procs", [1, 2])
@pytest.mark.parametrize("sweeper", sweepers_for("hessenberg-1"))
def test_the_work_of_the_steps_adds_up(sweeper: str, num_procs: int) -> None:
    calls = [0]

    class Counting(PROBLEMS["hessenberg-1"]):  # type: ignore[misc]
        residual_nodes = None

        def eval_f(self, u: Any, du: Any, t: float) -> Any:
            calls[0] += 1
            return super().eval_f(u, du, t)

    settings = {"nodes": 2, "num_procs": num_procs if sweeper in SDC else 1}
    # The first run of a class compares its Jacobian with differences, which is no work of a step.
    run(controller(Counting, sweeper, [], **settings), 0.35)
    calls[0] = 0
    own = controller(Counting, sweeper, [LogWork], **settings)
    _, stats = run(own, 0.35)
    counters = [S.levels[0].prob.work_counters for S in own.MS]
    for name in COUNTERS:
        logged = [work for _, work in table(stats, f"work_{name}")]
        assert len(logged) == 4
        assert sum(logged) == sum(counter[name].niter for counter in counters)
    if num_procs == 1:
        # Copies of a step have copies of this class, and count apart.
        assert counters[0]["rhs"].niter == calls[0]
    assert min(work for _, work in table(stats, "work_newton")) > 0


# --- values at nodes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("quad", QUADRATURES)
@pytest.mark.parametrize("sweeper", SDC)
def test_node_values_lie_on_the_collocation_polynomial(sweeper: str, quad: str) -> None:
    own = controller(
        "hessenberg-1", sweeper, [LogSolutionAtNodes, LogSolution], nodes=3, quad=quad, restol=1e-12
    )
    L = own.MS[0].levels[0]
    k = L.prob.n if L.sweep.integrates_algebraic else L.prob.n_diff
    _, stats = run(own, 0.35)
    times, u, du = (table(stats, name) for name in ("t_nodes", "u_nodes", "du_nodes"))
    ends = [np.array(L.prob.u_exact(0.0)), *(np.array(end) for _, end in table(stats, "u"))]
    assert len(times) == 4
    # Gauss quadrature integrates the polynomial of u' between the nodes exactly.
    x, w = np.polynomial.legendre.leggauss(4)
    for i, ((end, nodes), (_, values), (_, slopes)) in enumerate(zip(times, u, du, strict=True)):
        assert nodes.shape == (3,) and values.shape == slopes.shape == (3, 3)
        start = end - 0.1
        assert np.allclose(nodes, start + 0.1 * L.sweep.coll.nodes, atol=1e-14)
        slope = BarycentricInterpolator(nodes, slopes[:, :k])
        for t, value in zip(nodes, values, strict=True):
            h = t - start
            integral = 0.5 * h * w @ slope(start + 0.5 * h * (1.0 + x))
            assert np.abs(ends[i][:k] + integral - value[:k]).max() <= 1e-11
            assert (
                np.abs(
                    L.prob.eval_f(L.prob.state(value), L.prob.state(slopes[list(nodes).index(t)]), t)
                ).max()
                <= 1e-11
            )


@pytest.mark.parametrize("sweeper", sweepers_for("hessenberg-1"))
def test_node_values_are_copies(sweeper: str) -> None:
    kept: list[tuple[Vector, Vector]] = []

    class Spy(LogSolutionAtNodes):
        def post_step(self, step: Any, level_number: int) -> None:
            super().post_step(step, level_number)
            kept.append((np.array(step.levels[0].u[1:]), np.array(step.levels[0].f[1:])))

    own = controller("hessenberg-1", sweeper, [Spy], nodes=3)
    L = own.MS[0].levels[0]
    _, stats = run(own, 0.35)
    for row in (*L.u, *L.f):
        if row is not None:
            row[:] = np.nan
    u, du, times = (table(stats, name) for name in ("u_nodes", "du_nodes", "t_nodes"))
    for (_, values), (_, slopes), (end, nodes), (seen_u, seen_du) in zip(u, du, times, kept, strict=True):
        assert np.array_equal(values, seen_u) and np.array_equal(slopes, seen_du)
        assert len(nodes) == len(values)
        c = np.array(METHODS[sweeper].c) if sweeper in METHODS else L.sweep.coll.nodes
        assert np.allclose(nodes, end - 0.1 + 0.1 * c, atol=1e-14)


# --- the record of steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweeper", sweepers_for("hessenberg-1"))
def test_the_record_leaves_out_rejected_steps(sweeper: str) -> None:
    accepted: list[tuple[float, Any, list[int]]] = []

    class Spy(StepRecord):
        def pre_step(self, step: Any, level_number: int) -> None:
            super().pre_step(step, level_number)
            self.start = [step.levels[0].prob.work_counters[name].niter for name in COUNTERS]

        def post_step(self, step: Any, level_number: int) -> None:
            super().post_step(step, level_number)
            if not step.status.restart:
                L = step.levels[0]
                now = [L.prob.work_counters[name].niter for name in COUNTERS]
                work = [b - a for a, b in zip(self.start, now, strict=True)]
                accepted.append((L.time + L.dt, np.array(L.uend), work))

    own = controller("hessenberg-1", sweeper, [Spy], nodes=3, convergence_controllers={RejectOnce: {}})
    P = own.MS[0].levels[0].prob
    end, _ = run(own, 0.29)
    record = next(hook for hook in own.hooks if isinstance(hook, Spy))
    assert record.rejected == 1
    assert [row["t"] for row in record.rows] == pytest.approx([0.1, 0.15, 0.2, 0.25, 0.3])
    for row, (t, u, work) in zip(record.rows, accepted, strict=True):
        assert row["t"] == t and np.array_equal(row["u"], u)
        assert [row[name] for name in COUNTERS] == work
        assert np.abs(row["u"] - np.array(P.u_exact(t))).max() < 2e-2
        assert np.abs(row["du"] - np.array(P.du_exact(t)))[:2].max() < 0.1
        if sweeper in SDC:
            # The slope of a polynomial of degree 2 through z errs by dt^2 z''' / 3 at its end.
            assert np.abs(row["du"] - np.array(P.du_exact(t))).max() < 2e-3
    assert np.array_equal(record.rows[-1]["u"], end)
    run(own, 0.05)
    assert len(record.rows) == 1 and record.rejected == 0


@pytest.mark.parametrize("nsweeps", [1, 2])
def test_the_record_counts_sweeps(nsweeps: int) -> None:
    sweeps = [0]

    class Count(StepRecord):
        def post_sweep(self, step: Any, level_number: int) -> None:
            super().post_sweep(step, level_number)
            sweeps[0] += 1

    own = controller("hessenberg-1", "semi-implicit", [Count], nodes=3, nsweeps=nsweeps)
    run(own, 0.35)
    record = next(hook for hook in own.hooks if isinstance(hook, Count))
    assert sum(row["sweeps"] for row in record.rows) == sweeps[0] > 4


# --- guards -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [1, 2, 3])
def test_an_inconsistent_start_is_refused_by_name(index: int) -> None:
    own = controller(f"hessenberg-{index}", "semi-implicit", [CheckInitialValue], nodes=3, dt=0.05)
    P = own.MS[0].levels[0].prob
    u0 = P.u_exact(0.0)
    u0[:] += 1e-6
    with pytest.raises(InconsistentStateError, match=r"'constraint' at t=0: residual"):
        run(own, 0.1, u0)
    run(own, 0.1, P.u_exact(0.0))


def test_an_initial_value_that_is_no_number_is_refused() -> None:
    own = controller("hessenberg-1", "semi-implicit", [CheckInitialValue], nodes=3)
    u0 = own.MS[0].levels[0].prob.u_exact(0.0)
    u0[1] = np.nan
    with pytest.raises(Exception, match="initial value") as error:
        run(own, 0.1, u0)
    assert type(error.value).__module__ == "dae_sdc.errors"


@pytest.mark.parametrize("sweeper", SDC)
def test_a_step_that_did_not_converge_ends_the_run(sweeper: str) -> None:
    settings = {"nodes": 3, "restol": 1e-10, "maxiter": 2, "initial_guess": "spread"}
    own = controller("hessenberg-1", sweeper, [RequireConvergence], **settings)
    with pytest.raises(
        ConvergenceError, match=r"from t=0 with dt=0\.1 ended after 2 iterations.*restol=1\.0e-10"
    ):
        run(own, 0.35)
    _, stats = run(controller("hessenberg-1", sweeper, [], **settings), 0.35)
    assert len(table(stats, "niter")) == 4


@pytest.mark.parametrize("settings", [{"restol": -1.0, "maxiter": 2}, {"restol": 1e-8, "maxiter": 60}])
@pytest.mark.parametrize("sweeper", SDC)
def test_fixed_numbers_of_sweeps_and_converged_steps_pass(sweeper: str, settings: dict[str, Any]) -> None:
    _, stats = run(controller("hessenberg-1", sweeper, [RequireConvergence], nodes=3, **settings), 0.35)
    assert len(table(stats, "niter")) == 4


def test_a_tolerance_below_round_off_passes_once_round_off_is_reached() -> None:
    settings = {"nodes": 3, "restol": 1e-30, "maxiter": 30, "newton_tol": 1e-15}
    _, stats = run(controller("hessenberg-1", "semi-implicit", [RequireConvergence], **settings), 0.25)
    assert max(r for _, r in table(stats, "residual_post_step")) <= 1e-14


def test_a_rejected_step_need_not_converge() -> None:
    class RejectFirst(RejectOnce):
        def determine_restart(self, controller: Any, S: Any, **kwargs: Any) -> None:
            if S.levels[0].dt > 0.06 and CheckConvergence.check_convergence(S):
                S.status.restart = True
                S.levels[0].status.dt_new = 1e-3

    own = controller(
        "hessenberg-1",
        "semi-implicit",
        [RequireConvergence],
        nodes=3,
        restol=1e-9,
        maxiter=4,
        initial_guess="spread",
        convergence_controllers={RejectFirst: {}},
    )
    _, stats = run(own, 0.005)
    assert get_sorted(stats, type="restart", recomputed=None)[0][1] == 1


@pytest.mark.parametrize("strange", [int, Hooks(), "log", object])
def test_what_is_no_class_of_hooks_is_refused(strange: Any) -> None:
    with pytest.raises(ds.InputError, match="hooks must be"):
        ds.solve("simple", t_end=0.1, hooks=[strange])


class Faulty(Hooks):
    """A hook of a user that fails in the third step."""

    raised: BaseException

    def post_step(self, step: Any, level_number: int) -> None:
        if step.time > 0.25:
            raise self.raised


@pytest.mark.parametrize("error", [RuntimeError("mine"), KeyError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("settings", [{"dt": 0.1, "nodes": 2, "sweeper": "semi-implicit"}, {"rtol": 1e-6}])
def test_what_a_hook_raises_ends_the_run_as_it_is_and_steps_are_kept(
    error: BaseException, settings: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(type(error), match="mine" if error.args else None):
        ds.solve(
            "simple",
            t_end=1.0,
            hooks=[type("Own", (Faulty,), {"raised": error})],
            **settings,
            out=tmp_path / "run.npy",
        )
    kept = ds.Solution.load(tmp_path / "run.partial.npy")
    assert not kept.success and kept.message == f"ended by {type(error).__name__}"


def test_input_errors_are_errors_of_input() -> None:
    assert issubclass(InconsistentStateError, InputError) and not issubclass(ConvergenceError, InputError)


@pytest.mark.parametrize(("t_end", "count"), [(0.9, 3), (0.9, 7), (0.1, 11), (0.7, 35)])
def test_fixed_steps_end_at_the_times_of_linspace_to_the_last_bit(t_end: float, count: int) -> None:
    assert count * (t_end / count) != t_end, "the end is no multiple of the step in doubles"
    run = ds.solve("simple", sweeper="backward-euler", dt=t_end / count, t_end=t_end)
    assert run.t.tolist() == np.linspace(0.0, t_end, count + 1).tolist()
