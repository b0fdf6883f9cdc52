"""The iterate of a step: values and derivatives at its start and nodes, and the first guess of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dae_sdc.dae.state import MeshDAE, Vector, attach, interpolation_matrix, reaches
from dae_sdc.errors import InputError
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers.collocation import SweepMatrices
from dae_sdc.sweepers.coupled import starting_derivative
from dae_sdc.sweepers.nodes import NodeCommunicator, ShownRows, Stages, rows_of
from dae_sdc.sweepers.solvers import PythonNodes
from dae_sdc.sweepers.sweep import CONTINUE, Continuation, SweepArrays, continue_polynomial

RESIDUAL_SHARE = 0.1  # A node's solve leaves a residual of at most this part of ``restol``.
# Smallest residual that a node's solve is asked for on behalf of ``restol``.
RESIDUAL_FLOOR = 1e-13
# A node's solve may stop at this fraction of its first correction in sweeps that belong to the prediction,
# because only the last of them is observed. Not used where constraints determine integrated unknowns: the
# error of a solve returns there divided by dt.
PREDICTION_FORCING = 0.01
# Number of sweeps from a cold start after which another step of the same block may extrapolate the polynomial
# of this one.
SETTLING_SWEEPS = 3


INITIAL_GUESSES = ("extrapolate", "spread", "zero", "random")  # Names of the first guesses at the nodes.


class StepIterate:
    """The iterate of the step of a level, for one problem."""

    # ``surroundings``, the sweeper of the level, knows what is computed together with a step that iterates.

    # Shapes: integral_tau (M, k).

    def __init__(
        self,
        level: Any,
        nodes: NodeCommunicator,
        matrices: SweepMatrices,
        surroundings: Any,
        solver: PythonNodes,
        constrained: bool,
    ) -> None:
        self.level, self.nodes, self.matrices, self.surroundings = level, nodes, matrices, surroundings
        self.solver, self.problem = solver, solver.problem
        self.n_integrated = solver.system.n_integrated
        self.keeps_node_value, self.constrained = surroundings.keeps_node_value, constrained
        self.num_nodes = M = len(matrices.nodes)
        self.owned = slice(nodes.owned.start, nodes.owned.stop)
        self.times = np.zeros(M)
        self._guide = np.empty((2, self.problem.n))
        self._right_side = np.zeros((M, self.n_integrated))
        self._mixed = np.zeros((M, self.problem.n))
        self.shown: ShownRows | None = None
        self.start_algebraic: Vector | None = None
        self.sweeps = 0
        self.ahead = False
        self.may_run_ahead = nodes.shared
        self.pending: Continuation | None = None
        self.integral_tau: Vector | None = None
        self.in_prediction = False
        self.accuracy: tuple[float, float] | None = None
        self.judging: Any = None  # The stages that judge steps to a tolerance.

    def stands_alone(self) -> bool:
        """Whether the sweeps of this step depend on no other step, level or process and end by ``restol``."""
        others = self.surroundings
        if others.together or others.coupled or others.provisional or self.nodes.shared:
            return False
        return bool(self.level.level_index == 0 and self.level.params.restol > 0.0)

    # --- values ---------------------------------------------------------------------------------------------

    def new_stages(self) -> Stages:
        """Values for the nodes of the step, not yet filled."""
        L, P = self.level, self.problem
        return Stages(self.matrices.nodes, P.n, self.n_integrated, L.time, L.dt)

    def allocate(self) -> None:
        """Take new arrays for a step; those of the last one live on in the polynomial of its end value."""
        # A value passed to the next step while both iterate must satisfy the constraints on integrated
        # unknowns, else their residual enters the derivatives of that step divided by dt. Values of the
        # solves at the nodes do. Without such constraints the integral is the better value, and all that a
        # coarse level needs.
        others = self.surroundings
        coarse = others.coupled and self.level.level_index > 0
        self.keeps = (self.keeps_node_value and not coarse) or (
            (others.coupled or others.together) and self.constrained
        )
        self.show(self.new_stages())
        self.residuals_known = self.residuals_shared = False
        self.spare: Stages | None = None
        self.sweeps = 0
        self.extrapolated = self.replaces = False
        self.start: MeshDAE | None = None
        self._start_polynomial: Any = None
        self._end: tuple[Any, int, int] = (self, 0, 0)

    def show(self, stages: Stages) -> None:
        """Make these the values of the level."""
        self.stages, self.norms_known = stages, False
        self.shown = ShownRows(self.level, stages.u, stages.du)

    def scale(self) -> None:
        """Take the matrices for the step size, and the times of the nodes."""
        L = self.level
        self.matrices.scale(L.dt)
        np.add(self.matrices.offsets, L.time, out=self.times)

    def begin_at(self, u0: MeshDAE) -> None:
        """Take the value at the start of the step."""
        self.start, self._start_polynomial = u0, u0.polynomial
        self.start_values: Vector = u0.view(np.ndarray)
        # A copy, because the controller writes the values it receives into the state itself.
        self.start_algebraic = self.start_values[self.n_integrated :].copy()
        self.residuals_known = self.norms_known = False

    def starts_at(self, u0: MeshDAE) -> bool:
        """Whether the step was begun from this state, as it is now."""
        return self.start is u0 and self._start_polynomial is u0.polynomial

    def place_start(self) -> None:
        """Give a node at the start of the step the value and the derivative there."""
        if self.matrices.first_solved:
            stages = self.stages
            stages.u[0], stages.du[0] = self.start_values, self._starting_derivative()
            stages.du[0, self.n_integrated :] = 0.0
            stages.integral_known = False

    def _starting_derivative(self) -> Vector:
        L = self.level
        return starting_derivative(self.problem, L.u[0], L.time, L.dt, self.num_nodes, True)

    def forget_ahead(self) -> None:
        """Drop a sweep that was done before it was asked for, and restore the matrices."""
        if self.ahead:
            self.ahead = False
            self.solver.recall()

    # --- arrays and the solver ------------------------------------------------------------------------------

    def prepare(self, stages: Stages) -> None:
        """Give the solver these values, with matrices, times, right-hand sides and tolerances."""
        L, P, matrices, tau = self.level, self.problem, self.matrices, self.integral_tau
        goal, residual, forcing = P.newton_tol, np.inf, PREDICTION_FORCING if self.in_prediction else 0.0
        if self.accuracy is not None:
            goal, forcing = self.accuracy
        elif L.params.restol > 0.0:
            residual = max(RESIDUAL_SHARE * L.params.restol, RESIDUAL_FLOOR)
        arrays = SweepArrays(
            stages.u,
            stages.du,
            self.start_values,
            stages.integral,
            self._right_side,
            self._mixed,
            matrices.dt_q,
            matrices.dt_delta,
            self._right_side if tau is None else tau,
            tau is not None,
            self.num_nodes,
            len(self.start_values),
            self.n_integrated,
            matrices.diagonal,
            self.keeps,
            matrices.first_solved,
            self._guide,
            L.time,
            matrices.dt,
            self.times,
            matrices.coefficients,
            L.tau,
            (goal, residual, P.newton_maxiter, forcing),
        )
        self.solver.prepare(arrays)

    def integrate(self) -> None:
        """Compute dt Q U unless it is current: predictors and convergence controllers leave it outdated."""
        if not self.stages.integral_known:
            self.prepare(self.stages)
            self.solver.run(sweep.integrate)
            self.stages.integral_known = True

    def finish(self, stages: Stages) -> None:
        """Integrate the derivatives of a sweep, and keep at the nodes what the variant keeps."""
        self.prepare(stages)
        self.solver.run(sweep.finish)
        stages.integral_known = True

    def node_values(self) -> Vector:
        """u at all nodes, with u_0 + dt sum_j q_mj U_j + tau^u_m for integrated unknowns; a copy."""
        self.integrate()
        k, values = self.n_integrated, self.stages.u.copy()
        np.add(self.start_values[:k], self.stages.integral, out=values[:, :k])
        return values

    def end_value(self, update: bool) -> MeshDAE:
        """The value at the end of the step, with the polynomial that the next step may continue."""
        L, P, stages, k = self.level, self.problem, self.stages, self.n_integrated
        collocation, nodes = self.matrices.collocation, self.matrices.nodes
        if collocation.right_is_node and not update:
            end = attach(stages.u[-1].copy(), P.n_diff)
        else:
            end = P.dtype_u(P.init)
            end[:k] = L.u[0][:k] + L.dt * (collocation.weights @ stages.integrated)
            end[k:] = interpolation_matrix(nodes, (1.0,))[0] @ stages.u[:, k:]
        settled = self.extrapolated or self.sweeps >= SETTLING_SWEEPS
        # Another step may read these values after this one has gone on to change its own.
        apart = self.surroundings.together or collocation.left_is_node
        end.polynomial = stages.polynomial.left_behind(settled, apart)
        if L.u[0].polynomial is None:
            # No earlier step gave u' at the start, which pySDC interpolates from when it repeats a step.
            L.f[0][:k] = interpolation_matrix(nodes, (0.0,))[0] @ stages.integrated
        self.take_end(end)
        return end

    def take_end(self, end: MeshDAE) -> None:
        """Take a value for the end of the step of this iterate."""
        self._end = (end, self.sweeps, id(self.level.u[0]))

    def ends_at(self, end: MeshDAE | None) -> bool:
        """Whether this is the value that :meth:`end_value` gave for the current iterate."""
        return self._end[0] is end and self._end[1:] == (self.sweeps, id(self.level.u[0]))

    # --- values of others -----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Tell values at the nodes that others write from here on by those that are there now."""
        if self.shown is not None:
            self.shown.settle()

    def adopt(self) -> None:
        """Take over what others put at the nodes: u or U; the one that was not assigned follows."""
        L, shown = self.level, self.shown
        within = shown is not None and shown.in_lists  # the step that is being swept
        values, derivatives = shown.changed() if shown is not None and within else (True, True)
        if not (values or derivatives):
            return
        at_nodes, slopes = rows_of(L)
        self.forget_ahead()
        if not within:
            self.allocate()
            self.replaces = shown is None
        stages = self.stages
        stages.u[:], stages.du[:] = at_nodes, slopes
        stages.du[:, self.n_integrated :] = 0.0
        stages.integral_known = self.residuals_known = self.residuals_shared = False
        self.scale()
        if within and not slopes.any():
            self.place_start()
        if not (derivatives and slopes.any()):
            self._differentiate()
        elif not (values or self.keeps):
            self.finish(stages)
        self.show(stages)
        self._end = (self, 0, 0)
        L.status.updated = True

    def _differentiate(self) -> None:
        """Give the nodes the derivatives that integrate to their values."""
        k, first, dt_q = self.n_integrated, self.matrices.first_solved, self.matrices.dt_q
        change = self.stages.u[:, :k] - self.level.u[0].view(np.ndarray)[:k]
        if self.integral_tau is not None:
            change -= self.integral_tau
        if first:
            change -= np.outer(dt_q[:, 0], self._starting_derivative()[:k])
        self.stages.du[first:, :k] = np.linalg.solve(dt_q[first:, first:], change[first:])

    # --- the first guess ------------------------------------------------------------------------------------

    @property
    def split(self) -> int:
        """Number of leading unknowns of which u' is continued: that of the others is too rough."""
        # It is so from index 2 on of integrated algebraic unknowns.
        rough = self.judging is not None and max(self.problem.variable_index, default=1) > 1
        return self.problem.n_diff if rough else self.problem.n

    def fill(self) -> None:
        """Fill the nodes, and set ``level.f[0]`` to the known u' at the start of the step, or to 0."""
        L, P, k, judging = self.level, self.problem, self.n_integrated, self.judging
        u, du = self.stages.u, self.stages.du
        guess, polynomial = self.surroundings.params.initial_guess, L.u[0].polynomial
        self.extrapolated = guess == "extrapolate" and reaches(polynomial, L.time + L.dt, k)
        if self.extrapolated:
            self.extrapolate()
        elif guess == "extrapolate" and judging is not None and polynomial is not None:
            # The last step was too short for its polynomial to be of use.
            u[:], du[:] = self.start_values, judging.du0
            du[:, P.n_diff :] = 0.0
            u[:, :k] += np.outer(self.matrices.offsets, du[0, :k])
        elif guess == "random":
            rng = self.surroundings.rng
            u[:], du[:] = rng.random_sample(u.shape), rng.random_sample(du.shape)
            du[:, k:] = 0.0
        else:
            u[:] = 0.0 if guess == "zero" else self.start_values
            du[:] = 0.0
        L.f[0] = attach(L.u[0].derivative(), P.n_diff)
        self.place_start()

    def extrapolate(self) -> None:
        """Extrapolate the polynomial that the start value carries, or let the first sweep do it."""
        L, last, params = self.level, self.level.u[0].polynomial, self.surroundings.params
        if self.judging is None:
            matrix, inverse = last.continuation(L.time, L.dt, self.matrices.nodes), self.matrices.dt_q
        else:
            matrix, inverse = self.judging.continuation_from(last, L.time, L.dt)
        continuation = Continuation(
            CONTINUE, len(last.nodes), matrix, last.value, last.derivative, inverse, self.split
        )
        if self.matrices.first_solved == 0 and params.initial_sweeps > 0 and self.stands_alone():
            self.pending = continuation
        else:
            self.prepare(self.stages)
            self.solver.run(continue_polynomial, last=continuation)
        self.stages.integral_known = True

    def receive(self) -> None:
        """Take a new start value, which is another object, or one whose values a message has replaced."""
        L, k = self.level, self.n_integrated
        u0 = L.u[0]
        if self.starts_at(u0):
            return
        if self.replaces and self.start is not None:
            raise InputError(
                f"the step from t={L.time:.6g} was given other nodes while the step before still changes; "
                f"AdaptivityCollocation needs one step at a time"
            )
        knew = bool(self.sweeps) or self.extrapolated
        if self.start_algebraic is not None and (L.level_index > 0 or not knew):
            # z is not integrated: a guess made for another start could lead to another solution branch.
            self.stages.u[:, k:] += u0.view(np.ndarray)[k:] - self.start_algebraic
        self.begin_at(u0)
        # The branch of the equations is that of the start, which may lie behind a switch only now.
        self.problem.start_step(u0, L.time)
        guesses = self.surroundings.params.initial_guess == "extrapolate"
        known = u0.polynomial
        if not knew and guesses and reaches(known, L.time + L.dt, k) and known.settled:
            self.extrapolate()
            self.extrapolated = True
        self.place_start()
        # A sweep done ahead is void when the start changes, which it will in every later iteration too.
        self.may_run_ahead = False
        self.forget_ahead()
