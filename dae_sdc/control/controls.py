"""Controls of runs: their base, the time limit, and the end of sweeps at the limit of the arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pySDC.core.convergence_controller import ConvergenceController

from dae_sdc.deadline import check_at
from dae_sdc.errors import InputError


class Control(ConvergenceController):  # type: ignore[misc]
    """A convergence controller with a place among the others."""

    order: ClassVar[int]
    defaults: ClassVar[Mapping[str, Any]] = {}

    def setup(
        self, controller: Any, params: dict[str, Any], description: dict[str, Any], **kwargs: Any
    ) -> Any:
        """The parameters, with the defaults for those that are not given."""
        given = super().setup(controller, params, description, **kwargs)
        return {"control_order": self.order, **self.defaults, **given}


class RepeatingControl(Control):
    """A convergence controller that may let a step be repeated."""

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Add the mark of a step that is to be repeated."""
        self.add_status_variable_to_step("restart", False)

    def reset_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Take the mark away for the next step."""
        self.set_step_status_variable("restart", False)


def require_single_steps(controller: Any, comm: Any, what: str, needed: bool = True) -> None:
    """Raise InputError unless a controller takes one step at a time on one level."""
    steps = len(controller.steps) if comm is None else comm.Get_size()
    levels = len(controller.steps[0].levels)
    if needed and (steps > 1 or levels > 1):
        raise InputError(
            f"{what} needs one step at a time on one level; got {steps} steps and {levels} levels; let ranks "
            f"share the nodes of a step instead"
        )


class KeepTimeLimit(Control):
    """Ends a run between two blocks of steps where the time of the call around it is over, on all ranks."""

    order = 1100  # behind what collects steps and gives them sizes
    defaults: ClassVar = {"comm": None}

    def prepare_next_block(
        self, controller: Any, S: Any, size: int, time: Any, Tend: float, **kwargs: Any
    ) -> None:
        """Look at the time before a block."""
        ranks, active = self.params.comm, kwargs.get("comm")
        now = float(time if active is not None else time[0])
        # Ranks that have left, as there are fewer steps than ranks at the end, would not take part.
        if now >= Tend or (active is not None and active.Get_size() < controller.comm.Get_size()):
            return
        check_at(now, " or dt", None if ranks is None else lambda left: float(ranks.bcast(left, root=0)))


STAGNATION_WINDOW = 6  # Iterations over which the residual must fall.
# Part of its earlier value to which the residual must fall within the window.
LEAST_DECREASE = 0.5
# Residual, relative to the terms of the equations, below which round-off can hold it up at index 1.
RESIDUAL_AT_ROUND_OFF = 1e3 * float(np.finfo(float).eps)


def round_off_limit(index: int | None, dt: float) -> float:
    """Relative residual above which a standstill is not due to round-off: 1e3 eps / dt^(index - 1)."""
    # Each differentiation that a constraint hides divides the round-off of the solution by dt once more. An
    # index that is not known counts as 2, and 1e3 eps is the least.
    return RESIDUAL_AT_ROUND_OFF * max(1.0, dt ** (1 - (2 if index is None else max(index, 1))))


class StopAtRoundOff(Control):
    """Ends the iterations of a step when its residual no longer falls although it is at round-off already.

    A tolerance below what double precision allows would otherwise cost ``maxiter`` sweeps in every step. How
    low the residual can go depends on the index, see :func:`round_off_limit`. A step ended here is marked
    ``at_round_off`` in its status.

    Examples
    --------
    >>> from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI
    >>> description = {
    ...     "problem_class": ds.SimpleDAE,
    ...     "problem_params": {},
    ...     "sweeper_class": ds.FullyImplicitDAE,
    ...     "sweeper_params": {"num_nodes": 3, "quad_type": "RADAU-RIGHT", "QI": "LU"},
    ...     "level_params": {"dt": 0.1, "restol": 1e-10},
    ...     "step_params": {"maxiter": 50},
    ...     "convergence_controllers": {ds.StopAtRoundOff: {}},
    ... }
    >>> controller = controller_nonMPI(1, {"logger_level": 30}, description)
    >>> problem = controller.MS[0].levels[0].prob
    >>> end, stats = controller.run(u0=problem.state(problem.u_exact(0.0)), t0=0.0, Tend=1.0)
    >>> bool(abs(end - problem.u_exact(1.0)) < 1e-3)
    True
    """

    order = 150  # before pySDC's own check of convergence

    def __init__(self, controller: Any, params: dict[str, Any], description: dict[str, Any]) -> None:
        super().__init__(controller, params, description)
        self._maxiter = description["step_params"]["maxiter"]

    def setup_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Add the mark and the residuals of the step to the status of every step."""
        self.add_status_variable_to_step("at_round_off", False)
        self.add_status_variable_to_step("residuals", ())

    def reset_status_variables(self, controller: Any, **kwargs: Any) -> None:
        """Begin a step without a mark, and with all its iterations."""
        self.setup_status_variables(controller)
        for step in controller.steps:
            step.params.maxiter = self._maxiter

    def post_iteration_processing(self, controller: Any, step: Any, **kwargs: Any) -> None:
        """End the iterations if the residuals of the last ones stand still at round-off."""
        L = step.levels[0]
        if step.status.iter == 0 or L.params.restol <= 0.0 or L.sweep.failure is not None:
            return
        residuals = (*(step.status.residuals or ()), L.status.residual)
        step.status.residuals = residuals
        window = STAGNATION_WINDOW
        if len(residuals) <= window:
            return
        if min(residuals[-window:]) < LEAST_DECREASE * min(residuals[:-window]):
            return
        if residuals[-1] <= round_off_limit(L.prob.index, L.dt) * L.sweep.residual_scale():
            step.status.at_round_off = True
            # Not by force: a step on a rank of its own would no longer tell the next that it is done.
            step.params.maxiter = step.status.iter
