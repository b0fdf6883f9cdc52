"""Methods without sweeps, assigned node values and foreign sweepers in pySDC's own controllers."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pySDC.implementations.sweeper_classes as ordinary
import pySDC.projects.DAE.sweepers as theirs
import pytest
from helpers.pairs import covering_pairs
from pySDC.core.hooks import Hooks
from pySDC.core.sweeper import Sweeper
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds
from dae_sdc.errors import DAEError
from dae_sdc.sweepers.sdc import SWEEPERS

QUIET = {"logger_level": 40, "dump_setup": False}
DIRECT = ("backward-euler", "radau-iia-5", "trapezoidal", "esdirk43", "bdf2", "bdf3")


def description(sweeper: Any, dt: float = 0.05, maxiter: int = 1, restol: float = -1.0, **params: Any) -> Any:
    return {
        "problem_class": ds.SimpleDAE,
        "problem_params": {},
        "sweeper_class": SWEEPERS[sweeper] if isinstance(sweeper, str) else sweeper,
        "sweeper_params": params,
        "level_params": {"dt": dt, "restol": restol},
        "step_params": {"maxiter": maxiter},
    }


def end_of(steps: int, given: Any, jacobi: bool = True, t_end: float = 1.0, hooks: Any = ()) -> Any:
    """State at the end of a run of pySDC's controller that takes so many steps at once."""
    params = {**QUIET, "mssdc_jac": jacobi, "hook_class": list(hooks)}
    controller = controller_nonMPI(steps, params, given)
    P = controller.MS[0].levels[0].prob
    u, _ = controller.run(u0=P.state(P.u_exact(0.0)), t0=0.0, Tend=t_end - 1e-9)
    return np.array(u)


# --- several steps at once ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sweeper", "maxiter", "jacobi"), covering_pairs(product(DIRECT, (1, 3), (True, False)))
)
def test_methods_without_sweeps_end_in_several_steps_at_once_where_single_steps_do(
    sweeper: str, maxiter: int, jacobi: bool
) -> None:
    alone = end_of(1, description(sweeper))
    for steps in (2, 3, 4):
        together = end_of(steps, description(sweeper, maxiter=maxiter), jacobi)
        np.testing.assert_allclose(together, alone, rtol=1e-8)


def test_methods_on_manifolds_end_in_several_steps_at_once_where_single_steps_do() -> None:
    def end(steps: int) -> Any:
        given = description("projected-dop853", dt=0.01)
        given["problem_class"] = ds.PROBLEMS["rigid-pendulum"]
        return end_of(steps, given, t_end=0.2)

    alone = end(1)
    for steps in (2, 4):
        np.testing.assert_allclose(end(steps), alone, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("maxiter", "nsweeps"), [(4, 1), (1, 2)])
def test_more_sweeps_than_a_direct_method_needs_change_nothing(maxiter: int, nsweeps: int) -> None:
    given = description("radau-iia-5", maxiter=maxiter)
    given["level_params"]["nsweeps"] = nsweeps
    np.testing.assert_array_equal(end_of(1, given), end_of(1, description("radau-iia-5")))


def test_a_residual_tolerance_does_not_end_multistep_methods_before_they_have_stepped() -> None:
    given = description("bdf2", restol=1e-8)
    np.testing.assert_array_equal(end_of(1, given), end_of(1, description("bdf2")))


def test_direct_methods_with_steps_on_ranks_are_right_or_refused_by_all_ranks(three_ranks: Path) -> None:
    records = json.loads((three_ranks / "direct.json").read_text(encoding="utf-8"))
    assert len(records) == 12
    for record in records:
        assert record["same"], record
        if (record["ranks"], record["jacobi"], record["maxiter"]) == (3, True, 1):
            # Every iteration makes two more steps final.
            assert record["refused"].startswith("3 steps at once") and "mssdc_jac" in record["refused"]
            continue
        alone = end_of(1, description(record["sweeper"]), t_end=0.9)
        np.testing.assert_allclose(record["u"], alone, rtol=1e-7)


# --- values that others assign --------------------------------------------------------------------------


def assigning(change: Any, at: float = 0.0) -> type[Hooks]:
    class Assign(Hooks):  # type: ignore[misc]
        def post_sweep(self, step: Any, level_number: int) -> None:
            super().post_sweep(step, level_number)
            L = step.levels[level_number]
            if abs(L.time - at) < 1e-12:
                change(L)

    return Assign


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "constrained"])
def test_a_derivative_that_a_hook_assigns_after_a_sweep_counts_at_any_node(sweeper: str, node: int) -> None:
    """After one sweep, u(dt) = u_0 + dt sum_j q_Mj U_j with the U_j that are in the level."""
    seen: dict[str, Any] = {}

    def change(L: Any) -> None:
        L.f[node] = L.prob.state([3.0, -2.0, 0.0])
        seen["f"], seen["Q"], seen["L"] = [np.array(row) for row in L.f[1:]], L.sweep.coll.Qmat[1:, 1:], L

    params = {"num_nodes": 3, "QI": "LU", "quad_type": "RADAU-RIGHT", "initial_guess": "spread"}
    end = end_of(1, description(sweeper, **params), t_end=0.05, hooks=[assigning(change)])
    start = np.array(ds.SimpleDAE().u_exact(0.0))
    expected = start[:2] + 0.05 * (seen["Q"][-1] @ np.array(seen["f"])[:, :2])
    if sweeper == "constrained":  # keeps the value of the node's solve
        assert np.array_equal(np.array(seen["L"].f[node])[:2], [3.0, -2.0])
    else:
        np.testing.assert_allclose(end[:2], expected, rtol=1e-14)


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "constrained", "radau-iia-5", "bdf2"])
def test_a_last_value_that_a_hook_assigns_after_the_last_sweep_ends_the_step(sweeper: str) -> None:
    new = [1.25, 0.75, -0.5]
    params = {} if sweeper in DIRECT else {"num_nodes": 3, "QI": "LU", "quad_type": "RADAU-RIGHT"}

    def change(L: Any) -> None:
        L.u[-1] = L.prob.state(new)

    end = end_of(1, description(sweeper, **params), t_end=0.05, hooks=[assigning(change)])
    np.testing.assert_allclose(end, new, rtol=1e-14)


@pytest.mark.parametrize("sweeper", ["fully-implicit", "semi-implicit", "constrained"])
def test_values_assigned_after_a_converged_sweep_are_judged_by_their_own_residual(sweeper: str) -> None:
    """An assignment in the fifth sweep of a converging run is iterated away, and is seen in the residual."""
    residuals = []

    class Look(Hooks):  # type: ignore[misc]
        sweeps = 0

        def post_sweep(self, step: Any, level_number: int) -> None:
            L = step.levels[level_number]
            self.sweeps += 1
            if self.sweeps == 14:
                L.f[2] = L.prob.state(np.array(L.f[2]) + np.array([0.5, -0.5, 0.0]))

        def post_iteration(self, step: Any, level_number: int) -> None:
            residuals.append(step.levels[level_number].status.residual)

    params = {"num_nodes": 3, "QI": "LU", "quad_type": "RADAU-RIGHT", "initial_guess": "spread"}
    given = description(sweeper, maxiter=60, restol=1e-8, **params)
    undisturbed = end_of(1, description(sweeper, maxiter=60, restol=1e-8, **params), t_end=0.05)
    given["level_params"]["restol"] = 1e-30
    given["step_params"]["maxiter"] = 30
    end = end_of(1, given, t_end=0.05, hooks=[Look])
    assert residuals[13] > 1e-3 > residuals[12]
    assert residuals[-1] < 1e-9
    np.testing.assert_allclose(end, undisturbed, rtol=1e-6)


def test_an_assigned_value_of_another_length_is_refused() -> None:
    def change(L: Any) -> None:
        L.u[2] = np.ones(5)

    params = {"num_nodes": 3, "QI": "LU", "quad_type": "RADAU-RIGHT"}
    with pytest.raises(ds.InputError, match=r"level\.u\[2\] must be an array of 3 numbers"):
        end_of(1, description("fully-implicit", **params), t_end=0.05, hooks=[assigning(change)])


# --- sweepers and transfers of others -------------------------------------------------------------------


def sweepers_of(package: Any) -> list[Any]:
    found = []
    for entry in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{entry.name}")
        for cls in vars(module).values():
            own = inspect.isclass(cls) and issubclass(cls, Sweeper) and cls.__module__ == module.__name__
            if own and "MPI" not in cls.__name__:
                found.append(cls)
    return found


BARE = {"MultiStep", "RungeKutta", "RungeKuttaIMEX", "RungeKuttaNystrom", "RungeKuttaDAE"}
"""Base classes of pySDC without a method."""

FOREIGN = [cls for package in (ordinary, theirs) for cls in sweepers_of(package) if cls.__name__ not in BARE]


@pytest.mark.parametrize(
    "cls", FOREIGN, ids=lambda cls: f"{cls.__module__.rpartition('.')[2]}-{cls.__name__}"
)
def test_every_sweeper_of_pysdc_refuses_our_problems_in_a_line_that_names_ours(cls: Any) -> None:
    params = {"num_nodes": 3, "quad_type": "RADAU-RIGHT", "QI": "LU", "QE": "EE"}
    given = description(cls, maxiter=5, restol=1e-8, **params)
    with pytest.raises(DAEError, match="dae_sdc") as caught:
        end_of(1, given, t_end=0.1)
    assert "\n" not in str(caught.value)


def test_our_sweepers_name_the_module_of_a_problem_that_is_none_of_ours() -> None:
    from pySDC.implementations.problem_classes.Van_der_Pol_implicit import vanderpol

    given = description("fully-implicit", num_nodes=3, quad_type="RADAU-RIGHT")
    given["problem_class"] = vanderpol
    controller = controller_nonMPI(1, dict(QUIET), given)
    P = controller.MS[0].levels[0].prob
    with pytest.raises(ds.InputError, match=r"ProblemDAE of dae_sdc.*pySDC\.implementations"):
        controller.run(u0=P.u_exact(0.0), t0=0.0, Tend=0.05)


@pytest.mark.parametrize(
    "sweepers", [("fully-implicit",) * 2, ("radau-iia-5",) * 2, ("fully-implicit", "bdf2")]
)
def test_two_levels_without_our_transfer_or_of_direct_methods_are_refused(sweepers: tuple[str, str]) -> None:
    given = description("fully-implicit")
    given["sweeper_class"] = [SWEEPERS[name] for name in sweepers]
    if "fully-implicit" in sweepers:
        given["sweeper_params"] = {"num_nodes": [3, 2], "quad_type": "RADAU-RIGHT", "QI": "LU"}
    given["space_transfer_class"] = ds.SameUnknowns
    with pytest.raises(ds.InputError, match=r"TransferDAE|coarse level"):
        end_of(1, given)
