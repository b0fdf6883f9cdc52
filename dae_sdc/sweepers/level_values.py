"""What a transfer between levels takes from a sweeper, and what it gives back."""

from __future__ import annotations

from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.sweepers.iterate import StepIterate
from dae_sdc.sweepers.predictor import Predictor
from dae_sdc.sweepers.residual import StepResidual


class LevelValues:
    """The iterate of a level as transfers between levels see and change it."""

    def __init__(self, iterate: StepIterate, predictor: Predictor, residual: StepResidual) -> None:
        self.iterate, self._predictor, self._residual = iterate, predictor, residual

    def _update(self) -> None:
        self.iterate.adopt()
        self._predictor.receive()

    def values(self) -> tuple[Vector, Vector]:
        """u and U at all nodes, copies of shape (M, n).

        The integrated unknowns of u are u_0 + dt sum_j q_mj U_j + tau^u_m, whatever value the nodes keep.
        """
        self._update()
        return self.iterate.node_values(), self.iterate.stages.du.copy()

    def residuals(self) -> Vector:
        """F - tau at all nodes, shape (M, n), at the values that :meth:`values` gives.

        Every process that shares the nodes gets all rows; all of them have to call this.
        """
        self._update()
        return self._residual.rows()

    def place(self, u0: MeshDAE, values: Vector, derivatives: Vector) -> None:
        """Replace this level's iterate by the values that a transfer between levels brings."""
        # Shapes: values and derivatives (M, n).
        iterate = self.iterate
        L = iterate.level
        if not iterate.shows_level():
            L.prob.start_step(u0, L.time)
            iterate.allocate()
            iterate.scale()
            L.f[0] = L.prob.eval_f(u0, L.time)
        iterate.begin_at(u0)
        stages = iterate.stages
        stages.u[:], stages.du[:] = values, derivatives
        stages.du[:, iterate.n_integrated :] = 0.0
        stages.integral_known = iterate.norms_known = False
        iterate.settle()
        L.status.unlocked = True
        L.status.updated = True

    def correct(self, values: Vector, residuals: Vector) -> None:
        r"""Give the equations of this level the right-hand sides that a finer level asks for.

        Both equations of a node get one,

        .. math::
            u_m - u_0 - \Delta t \sum_j q_{mj} U_j = \tau^u_m, \qquad F(t_m, u_m, U_m) = \tau^F_m,

        such that the iterate in place has the residuals 0 and ``residuals`` at ``values``.
        """
        # Shapes: values (M, n), residuals (M, n).
        iterate = self.iterate
        L, k, stages = iterate.level, iterate.n_integrated, iterate.stages
        iterate.integral_tau, stages.integral_known = None, False
        iterate.integrate()
        iterate.integral_tau = values[:, :k] - iterate.start_values[:k] - stages.integral
        stages.integral_known = iterate.residuals_known = False
        tau = L.prob.evaluate_nodes(values, stages.du, iterate.times) - residuals
        L.tau[:] = [attach(row, L.prob.n_diff) for row in tau]
