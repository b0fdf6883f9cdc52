"""Steps of a given accuracy that are solved by sweeps: when sweeps end, and the error of the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dae_sdc.dae.newton_checks import JacobianWatch
from dae_sdc.dae.state import MeshDAE, Vector, attach, interpolation_matrix
from dae_sdc.errors import InputError, SolveError
from dae_sdc.sweepers.collocation import qdelta_matrix, transient_growth
from dae_sdc.sweepers.iterate import StepIterate
from dae_sdc.sweepers.simultaneous import eigenbasis
from dae_sdc.sweepers.step_error import StepError, multipliers, only_rounding
from dae_sdc.sweepers.sweep import (
    CONVERGED,
    GOING_ON,
    MOST_SWEEPS,
    TOO_SLOW,
    Goal,
    GoalNumbers,
    residual_norms,
)
from dae_sdc.sweepers.tolerance import Outcome, Tolerance

# A node's solve may stop at this fraction of its first correction, by the index of the problem: the next
# sweep corrects the rest.
FORCING_BY_INDEX: tuple[float, ...] = (0.01, 0.01, 0.01, 1e-4)
RESIDUAL_BOUND_LIFETIME = 50  # Number of steps for which a measured bound of the residuals holds.
# After the first sweep of a step, which shows no contraction yet, contraction / (1 - contraction) is taken to
# be this power of its value in the last step.
CONTRACTION_RATIO_EXPONENT = 0.8
# Lower bound of contraction / (1 - contraction) of the last step in that power.
SMALLEST_CONTRACTION_RATIO = 1e-16


class AccuracyGoal:
    """What sweeps must reach in steps of a given accuracy, and the error estimate of a step."""

    def __init__(self, iterate: StepIterate, tolerance: Tolerance, qdelta: str, watch: JacobianWatch) -> None:
        self.iterate, self._watch = iterate, watch
        problem, matrices = iterate.problem, iterate.matrices
        M, n, delta = iterate.num_nodes, problem.n, matrices.delta
        # Bound of the residuals, measured in a step of size _bound_dt; it holds for _bound_steps more steps.
        self._allowed, self._residual_bound = np.zeros(n), 0.0
        self._bound_dt, self._bound_steps = 1.0, 0
        self._norms = np.zeros(M)
        if not delta[-1, -1] > 0.0:
            raise InputError(
                f"the error estimate of a run to a tolerance needs an implicit Q_Delta; the last entry of "
                f"'{qdelta}' is {delta[-1, -1]:g}; use LU, or give dt instead of rtol"
            )
        self.errors = errors = StepError.of_collocation(problem, tolerance, M)
        self.goal = Goal(np.zeros((M, n)), errors.weights, GoalNumbers())
        iterate.solver.measure_by(errors.weights, errors.unit)
        index, numbers = errors.index, self.goal.numbers
        numbers.eta, numbers.share = 1.0, errors.share
        # With constraints of index k sweeps contract at their final rate after about k M of them.
        numbers.patience = max(index, 1) * M + 3.0
        numbers.round_off_change = errors.round_off(matrices.nodes[0])
        Q = matrices.collocation.Qmat[1:, 1:]
        # gamma of the error estimate of Radau IIA, to whose solution the sweeps converge.
        self._gamma = eigenbasis(np.ascontiguousarray(Q)).real
        self._at_start = interpolation_matrix(matrices.nodes, (0.0,))[0]
        # The error that an inexact solve leaves at a node may grow in later sweeps before it contracts.
        changes = range(1, M + 1) if matrices.varies else ()
        deltas = [qdelta_matrix(matrices.collocation, qdelta, sweep) for sweep in changes] or M * [delta]
        self._growth = transient_growth(Q, deltas)
        # The error that a solve leaves in an integrated multiplier returns in the next sweep divided by dt.
        exact = index > 1 and problem.n_diff < iterate.n_integrated
        forcing = 0.0 if exact else FORCING_BY_INDEX[min(index, 3)]
        self._forcing = forcing / self._growth
        self._multipliers = multipliers(problem)
        self.reset()

    @property
    def ended(self) -> bool:
        """Whether no sweep is wanted any more."""
        return bool(self.reason) or self.status != GOING_ON

    @property
    def failed(self) -> bool:
        """Whether the step could not be solved."""
        return bool(self.reason) or self.status == TOO_SLOW

    @property
    def remainder(self) -> float:
        """Estimated error of the iteration over the step, in units of its tolerance."""
        return float(self.goal.numbers.remainder)

    def starting_step(self, u0: MeshDAE, t0: float, span: float) -> float:
        """A size for the first step, see :meth:`~dae_sdc.sweepers.tolerance.Weights.first_step`."""
        self.iterate.problem.start_step(u0, t0)
        self.goal.numbers.eta = 1.0
        return self.errors.starting_step(u0, t0, span, float(self._gamma))

    def reset(self) -> None:
        """Forget how the last step ended."""
        self.status, self.reason = GOING_ON, ""

    def begin(self, u0: MeshDAE) -> None:
        """Begin a step; its contraction is estimated from that of the last step."""
        numbers, errors = self.goal.numbers, self.errors
        errors.begin(u0, self.iterate.level.dt)
        ratio = max(float(numbers.eta), SMALLEST_CONTRACTION_RATIO)
        numbers.eta = ratio**CONTRACTION_RATIO_EXPONENT
        numbers.change, numbers.contraction, numbers.remainder = 0.0, 0.0, np.inf
        tolerance = errors.at_least(errors.newton_tolerance / self._growth)
        self.iterate.accuracy = tolerance, self._forcing

    def take_status(self, status: int) -> None:
        """Take the result of a sweep; CONVERGED if unknowns still change only by rounding."""
        if status == TOO_SLOW and not self.iterate.nodes.shared and self._only_rounding():
            status = CONVERGED
        self.status = status

    def _only_rounding(self) -> bool:
        iterate, errors = self.iterate, self.errors
        stages, times = iterate.stages, iterate.times
        nodes = enumerate(iterate.matrices.coefficients.tolist())
        points = ((m, stages.u[m], stages.du[m], float(times[m]), c) for m, c in nodes if c > 0.0)
        about = stages.u - self.goal.old, errors.weights, self._multipliers, errors.share
        return only_rounding(iterate.problem, *about, points)

    # --- the end of a step ----------------------------------------------------------------------------------

    def judge(self) -> Outcome:
        r"""The outcome of the finished step, with its error estimate.

        .. math::
            e = (M + c J)^{-1} M h \gamma (u'(t_0) - p'(t_0))

        Here p is the collocation polynomial, and M = dF/du', J = dF/du and c belong to the iteration matrix
        kept at the last node. A first step takes the residual with p'(t_0), see
        :func:`dae_sdc.sweepers.simultaneous.estimate`.
        """
        iterate, numbers = self.iterate, self.goal.numbers
        rate = float(numbers.contraction)
        if self.reason or self.status != CONVERGED:
            return self._unsolved(rate)
        if not self._residual_is_small():
            self.reason = "the sweeps change nothing, but what is left of the equations is not small"
            return self._unsolved(0.0)
        self._watch.succeeded(False)
        error, worst = np.inf, 0
        last = iterate.num_nodes - 1
        if last in iterate.nodes.owned:
            try:
                error, worst = self._estimate(last)
            except SolveError:  # without a kept matrix one is made here, which may be singular
                error = np.inf
        error = iterate.nodes.from_last(error)
        worst = int(iterate.nodes.from_last(float(worst)))
        if not error <= 1.0:
            numbers.eta = 1.0
        return self.errors.solved(error, worst, iterate.sweeps / MOST_SWEEPS, 0.0)

    def _residual_is_small(self) -> bool:
        """Whether the residual is as small as the last changes of u suggest, at all nodes."""
        # Allowed residuals are measured now and then; until then one below the smallest of them is small.
        iterate, errors = self.iterate, self.errors
        solver, stages, own, dt = iterate.solver, iterate.stages, iterate.nodes.owned, iterate.level.dt
        alone = not iterate.nodes.shared
        if alone and self._bound_steps > 0 and stages.integral_known:
            self._bound_steps -= 1
            solver.run(residual_norms, own.start, own.stop, norms=self._norms)
            if max(self._norms.tolist()) <= self._residual_bound * min(1.0, dt / self._bound_dt):
                return True
        iterate.integrate()
        iterate.prepare(stages)
        size = iterate.problem.run_scales.unknowns + np.abs(stages.u[-1])
        # Sweeps also end at round-off, which may be above the tolerance.
        share = max(errors.share, float(self.goal.numbers.round_off_change))
        # Unknowns left out of the error norm have weight 0.
        least = share / np.maximum(size, np.finfo(float).tiny)
        tolerated = share / np.maximum(errors.weights, least)
        small = solver.is_small(own.start, own.stop, tolerated, share * errors.unit, self._allowed)
        if alone:
            self._residual_bound, self._bound_dt = float(self._allowed.min()), dt
            self._bound_steps = RESIDUAL_BOUND_LIFETIME if small else 0
        return iterate.nodes.agree(stages, small)

    def _estimate(self, last: int) -> tuple[float, int]:
        """Weighted norm of the error estimate, and the unknown with the largest part in it."""
        L, P, errors = self.iterate.level, self.iterate.problem, self.errors
        made = self.iterate.solver.operators(last)
        scale = self._gamma * L.dt
        slope = self._at_start @ self.iterate.stages.du
        judged = errors.first and max(P.variable_index, default=1) < 3
        error = np.zeros(P.n) if judged else made.mass(scale * (errors.du0 - slope))
        if errors.first:
            error -= scale * P.evaluate(L.u[0], attach(slope if judged else errors.du0, P.n_diff), L.time)
        return errors.filtered(error, made, L.time)

    def _unsolved(self, rate: float) -> Outcome:
        iterate, errors = self.iterate, self.errors
        # Matrices and contractions of a step that was too large say little about a smaller one.
        iterate.solver.forget()
        self.goal.numbers.eta = 1.0
        L, stages = iterate.level, iterate.stages
        points = [(L.u[0].view(np.ndarray), errors.du0, L.time)]
        if not iterate.nodes.shared:  # the values may differ between the processes
            points.append((stages.u[-1], stages.du[-1], float(iterate.times[-1])))
        self._watch.failed(points, L.dt)
        with np.errstate(all="ignore"):
            change = np.abs(stages.u - self.goal.old).max(axis=0) * errors.weights
        # Where ranks share the nodes, each finds a worst unknown of its own; all take that of the last node.
        worst = int(iterate.nodes.from_last(float(np.argmax(np.nan_to_num(change, posinf=0.0)))))
        if self.reason:
            return errors.unsolved(self.reason, worst, 0.0)
        return errors.unsolved(f"{iterate.sweeps} sweeps did not converge", worst, rate)

    # --- checkpoints ----------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Vector]:
        """The state that the next step depends on, for a checkpoint."""
        bound = np.array([self._residual_bound, self._bound_dt, self._bound_steps])
        return {"goal": np.frombuffer(self.goal.numbers).copy(), "allowed": bound}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        np.frombuffer(self.goal.numbers)[:] = state["goal"]
        self._residual_bound, self._bound_dt, steps = state["allowed"].tolist()
        self._bound_steps = int(steps)
