"""The residual of the collocation equations of a step."""

from __future__ import annotations

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.errors import EvaluationError, InputError
from dae_sdc.registry import unknown
from dae_sdc.sweepers.iterate import StepIterate
from dae_sdc.sweepers.sweep import add_defects, residual, residual_norms

# Residual, relative to the terms of its equation, that no further sweep can lower.
RESIDUAL_ROUND_OFF = 64.0 * float(np.finfo(float).eps)
# Residual of all nodes or of the last one, absolute or relative to the value at the start of the step.
RESIDUAL_TYPES = ("full_abs", "last_abs", "full_rel", "last_rel")


class StepResidual:
    """F(t_m, u_0 + dt sum_j q_mj U_j, U_m) at the nodes of a step, z as it is there, and its norms."""

    # Where nodes keep other values than u_0 + dt sum_j q_mj U_j, the norms include the difference.

    # Shapes: norms (M,).

    def __init__(self, iterate: StepIterate) -> None:
        self.iterate = iterate
        self.norms = np.zeros(iterate.num_nodes)
        self.value = np.inf
        self._rows = np.empty((iterate.num_nodes, iterate.problem.n))

    def owned_norms(self) -> list[float]:
        """Norms at the nodes of this process."""
        iterate = self.iterate
        own = iterate.nodes.owned
        if iterate.norms_known:
            return self.norms.tolist()
        iterate.integrate()
        iterate.prepare(iterate.stages)
        if iterate.surroundings.coupled:
            # Transfers between levels need the residuals themselves.
            self._rows[iterate.owned] = iterate.solver.measured(own.start, own.stop)
            iterate.residuals_known, iterate.residuals_shared = True, False
            self.norms[iterate.owned] = np.abs(self._rows[iterate.owned]).max(axis=1, initial=0.0)
            if iterate.keeps:
                add_defects(iterate.arrays(iterate.stages), own.start, own.stop, self.norms)
        else:
            iterate.solver.run(residual_norms, own.start, own.stop, norms=self.norms)
        return list(self.norms[iterate.owned].tolist())

    def rows(self) -> Vector:
        """F - tau at all nodes, shape (M, n), for every process that shares them; all have to call this."""
        iterate = self.iterate
        failure: Exception | None = None
        if not iterate.residuals_known or iterate.level.status.updated:
            iterate.residuals_shared = False
            try:
                self.owned_norms()
            except Exception as error:
                failure = error
        if not iterate.residuals_shared:
            iterate.nodes.complete_rows(self._rows, iterate.stages, failure)
            iterate.residuals_shared = True
        return self._rows

    def compute(self, norms: list[float]) -> float:
        """The residual from the norms at all nodes, as the level's ``residual_type`` says."""
        L = self.iterate.level
        kind = L.params.residual_type
        value = residual(norms, len(norms), kind[0] == "l")
        if kind.endswith("rel"):
            return value / abs(L.u[0]) if L.u[0].any() else np.inf
        return value

    def check_type(self) -> None:
        """Raise InputError for a ``residual_type`` of the level that does not exist."""
        kind = self.iterate.level.params.residual_type
        if kind not in RESIDUAL_TYPES:
            raise InputError(unknown("residual_type", kind, RESIDUAL_TYPES))

    def explain_not_finite(self) -> None:
        """Raise the error for a residual that is not finite after a sweep, with time, node and equation."""
        iterate = self.iterate
        L, P, stages = iterate.level, iterate.problem, iterate.stages
        rows = P.evaluate_nodes(iterate.node_values(), stages.du, iterate.times)
        bad = np.argwhere(~np.isfinite(rows))
        if not bad.size:
            raise InputError("a relative residual_type needs an initial value other than zero; use full_abs")
        node, i = bad[0]
        raise EvaluationError(
            f"eval_f of {type(P).__name__} returned {rows[node, i]} in '{P.equation_names[i]}' at "
            f"t={iterate.times[node]:.6g}, node {node + 1} of the step from {L.time:.6g}; reduce dt"
        )
