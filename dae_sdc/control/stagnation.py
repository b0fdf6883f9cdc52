"""A convergence controller that ends sweeps which have reached the arithmetic's limit."""

from __future__ import annotations

from typing import Any

import numpy as np

from dae_sdc.control.controls import Control

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
