"""Values that hooks and convergence controllers put at the nodes of a level, in whatever way and place."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.pairs import covering_pairs
from pySDC.core.convergence_controller import ConvergenceController
from pySDC.core.hooks import Hooks
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds
from dae_sdc.sweepers.sdc import SWEEPERS

SDC = ("fully-implicit", "semi-implicit", "constrained")
METHODS = (*SDC, "radau-iia-5", "esdirk43")
CHANGE = np.array([0.02, -0.01, 0.03])
DT = 0.1


def assign(rows: Any, m: int, changed: Any) -> None:
    rows[m] = changed


def write(rows: Any, m: int, changed: Any) -> None:
    rows[m][:] = changed


def add(rows: Any, m: int, changed: Any) -> None:
    rows[m] += CHANGE


def assign_slice(rows: Any, m: int, changed: Any) -> None:
    rows[m : m + 1] = [changed]


def write_parts(rows: Any, m: int, changed: Any) -> None:
    rows[m].diff[:] = changed.diff
    rows[m].alg = changed.alg


def write_while_iterating(rows: Any, m: int, changed: Any) -> None:
    for number, row in enumerate(rows):
        if number == m:
            row[:] = changed


WAYS = (assign, write, add, assign_slice, write_parts, write_while_iterating)

HOOKS = ("post_sweep", "pre_sweep", "pre_iteration", "post_iteration")
CONTROLS = ("post_spread_processing", "pre_iteration_processing", "post_iteration_processing")


def end_of(
    sweeper: str, place: str, name: str, way: Any, backend: str | None = None, at: int = 2
) -> tuple[Any, float]:
    """End of a step, and its residual, whose values somebody changes in its iteration ``at``."""

    def change(step: Any) -> None:
        L = step.levels[0]
        wanted = 0 if place == "post_spread_processing" else 1 if sweeper not in SDC else at
        if step.status.iter == wanted and way is not None:
            rows, m = getattr(L, name), 2
            way(rows, m, L.prob.state(np.array(list.__getitem__(rows, m)) + CHANGE))

    def of_hook(self: Any, step: Any, level_number: int) -> None:
        getattr(super(Change, self), place)(step, level_number)  # type: ignore[misc]
        change(step)

    def of_control(self: Any, controller: Any, S: Any, **kwargs: Any) -> None:
        change(S)

    base = Hooks if place in HOOKS else ConvergenceController
    Change = type("Change", (base,), {place: of_hook if base is Hooks else of_control})
    sweeps = {"num_nodes": 3, "quad_type": "RADAU-RIGHT", "QI": "LU", "initial_guess": "spread"}
    sdc = sweeper in SDC
    given = {
        "problem_class": ds.SimpleDAE,
        "problem_params": {},
        "sweeper_class": SWEEPERS[sweeper],
        "sweeper_params": {**sweeps, "backend": backend} if sdc else {},
        "level_params": {"dt": DT, "restol": -1.0},
        "step_params": {"maxiter": 3 if sdc else 1},
        "convergence_controllers": {} if base is Hooks else {Change: {}},
    }
    params = {"logger_level": 40, "dump_setup": False, "hook_class": [Change] if base is Hooks else []}
    controller = controller_nonMPI(1, params, given)
    L = controller.MS[0].levels[0]
    end, _ = controller.run(u0=L.prob.state(L.prob.u_exact(0.0)), t0=0.0, Tend=0.9 * DT)
    return np.array(end), L.status.residual


@pytest.mark.parametrize("name", ["u", "f"])
@pytest.mark.parametrize("place", [*HOOKS, *CONTROLS])
@pytest.mark.parametrize("sweeper", SDC)
def test_all_ways_of_changing_a_value_are_one_in_every_place(sweeper: str, place: str, name: str) -> None:
    for backend in ("compiled", "numpy"):
        undisturbed, _ = end_of(sweeper, place, name, None, backend)
        ends = [end_of(sweeper, place, name, way, backend) for way in WAYS]
        for end, residual in ends:
            np.testing.assert_allclose(end, ends[0][0], rtol=1e-13)
            assert residual == pytest.approx(ends[0][1], rel=1e-6)
        assert np.abs(ends[0][0] - undisturbed).max() > 1e-9


@pytest.mark.parametrize(
    ("sweeper", "way", "name"), covering_pairs(product(("radau-iia-5", "esdirk43"), WAYS, ("u", "f")))
)
def test_stages_are_changed_in_any_way(sweeper: str, way: Any, name: str) -> None:
    undisturbed, _ = end_of(sweeper, "post_sweep", name, None)
    end, _ = end_of(sweeper, "post_sweep", name, way)
    expected, _ = end_of(sweeper, "post_sweep", name, assign)
    np.testing.assert_array_equal(end, expected)
    if name == "f":
        # u_1 = u_0 + dt sum_j b_j U_j
        b = SWEEPERS[sweeper].method.b[1]
        np.testing.assert_allclose((end - undisturbed), DT * b * CHANGE, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("sweeper", METHODS)
def test_looking_at_values_changes_nothing(sweeper: str) -> None:
    def look(rows: Any, m: int, changed: Any) -> None:
        assert np.isfinite(rows[m]).all() and len(rows[1:]) == len(rows) - 1

    seen, _ = end_of(sweeper, "post_sweep", "u", look)
    undisturbed, _ = end_of(sweeper, "post_sweep", "u", None)
    np.testing.assert_array_equal(seen, undisturbed)
