"""The sweeps of a step: its prediction, one sweep after another, and the recovery from one that fails."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np

from dae_sdc.dae.newton_checks import JacobianWatch
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, continuation_matrix, interpolation_matrix, reaches
from dae_sdc.errors import EvaluationError, InputError, SolveError
from dae_sdc.registry import unknown
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers.collocation import qdelta_matrix, transient_growth
from dae_sdc.sweepers.iterate import Predictor, StepIterate
from dae_sdc.sweepers.nodes import OK, RESIDUAL_FAILED, SWEEP_FAILED, Stages
from dae_sdc.sweepers.restart import SwitchedSteps
from dae_sdc.sweepers.simultaneous import eigenbasis
from dae_sdc.sweepers.step_error import StepError, multipliers, only_rounding
from dae_sdc.sweepers.steps_ahead import FULL, Look, Pace, Taken
from dae_sdc.sweepers.sweep import CONTINUE, CONVERGED, GOING_ON, MOST_SWEEPS, TOO_SLOW, Continuation
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
        self.errors = errors = StepError(problem, tolerance, M)
        self.goal = sweep.Goal(np.zeros((M, n)), errors.weights, sweep.GoalNumbers())
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
        deltas = [qdelta_matrix(matrices.collocation, qdelta, number) for number in changes] or M * [delta]
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
        """The outcome of the finished step, with the error estimate of :func:`~simultaneous.estimate`.

        Its M = dF/du', J = dF/du and c are those of the iteration matrix kept at the last node.
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
        order, effort = self.errors.order, iterate.sweeps / MOST_SWEEPS
        return Outcome(True, error, order, effort, 0.0, "", worst, self.errors.slack)

    def _residual_is_small(self) -> bool:
        """Whether the residual is as small as the last changes of u suggest, at all nodes."""
        # Allowed residuals are measured now and then; until then one below the smallest of them is small.
        iterate, errors = self.iterate, self.errors
        solver, stages, own, dt = iterate.solver, iterate.stages, iterate.nodes.owned, iterate.level.dt
        alone = not iterate.nodes.shared
        if alone and self._bound_steps > 0 and stages.integral_known:
            self._bound_steps -= 1
            solver.run(sweep.residual_norms, own.start, own.stop, norms=self._norms)
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
        judged = errors.first and errors.index < 3
        error = np.zeros(P.n) if judged else made.mass(scale * (errors.du0 - slope))
        if errors.first:
            error -= scale * P.evaluate(L.u[0], slope if judged else errors.du0, L.time)
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
        about = (0.0, self.reason) if self.reason else (rate, f"{iterate.sweeps} sweeps did not converge")
        return Outcome(False, np.inf, errors.order, 1.0, *about, worst)

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


# Residual, relative to the terms of its equation, that no further sweep can lower.
RESIDUAL_ROUND_OFF = 64.0 * float(np.finfo(float).eps)
# Residual of all nodes or of the last one, absolute or relative to the value at the start of the step.
RESIDUAL_TYPES = ("full_abs", "last_abs", "full_rel", "last_rel")


class StepSweeps:
    """Predicts and sweeps the steps of a level, for one problem."""

    # The residual is F(t_m, u_0 + dt sum_j q_mj U_j, U_m) at the nodes, z as it is there. Where nodes keep
    # other values than u_0 + dt sum_j q_mj U_j, its norms include the difference.

    # Shapes: norms (M,).

    def __init__(
        self,
        iterate: StepIterate,
        predictor: Predictor,
        accuracy: AccuracyGoal | None,
        watch: JacobianWatch,
        params: Any,
    ) -> None:
        self.iterate, self.predictor, self.accuracy = iterate, predictor, accuracy
        self._watch, self._params, self.solver = watch, params, iterate.solver
        problem = iterate.problem
        self.norms, self.value = np.zeros(iterate.num_nodes), np.inf
        self._rows = np.empty((iterate.num_nodes, problem.n))
        located = params.locate_switches and type(problem).switches is not ProblemDAE.switches
        self._switched = SwitchedSteps(problem, iterate.num_nodes) if located else None
        self._sweeps_of_last_step = 0
        # Whether the iterate was reached from starts that were not final.
        self._began_provisionally = False

    # --- prediction -----------------------------------------------------------------------------------------

    @property
    def looks_at_nothing(self) -> bool:
        """Whether nothing is to be looked at where a step begins or ends."""
        problem = self.iterate.problem
        located = self._switched is None or problem.located
        return bool(located and problem.starts_alike and not self._watch.looks)

    def predict(self) -> None:
        """Begin a step from the value at its start."""
        iterate, accuracy = self.iterate, self.accuracy
        L = iterate.level
        u0 = L.u[0]
        if accuracy is not None:
            accuracy.reset()
        iterate.problem.start_step(u0, L.time)
        if self._switched is not None:
            self._switched.begin(u0, L.time)
        self._watch.begin(u0, L.time, L.dt)
        self._sweeps_of_last_step = iterate.sweeps
        self._began_provisionally = False
        iterate.integral_tau = None
        iterate.forget_ahead()
        iterate.allocate()
        iterate.scale()
        iterate.begin_at(u0)
        if accuracy is not None:
            accuracy.begin(u0)
        self.predictor.fill()
        # A step that depends on no other computation need not wait for the controller's iterations.
        most = self._params.initial_sweeps
        if accuracy is not None and most:
            most = MOST_SWEEPS
        iterate.in_prediction = not iterate.constrained and not iterate.keeps_node_value
        restol = L.params.restol
        while iterate.sweeps < most and iterate.stands_alone():
            self._advance(most - iterate.sweeps)
            if accuracy is not None:
                if accuracy.status != GOING_ON:
                    break
            elif self.value <= restol or self.value == np.inf:
                break
        iterate.in_prediction = False

    # --- sweeps ---------------------------------------------------------------------------------------------

    def update(self) -> None:
        """One sweep from the values of the level; raises SolveError if it fails and cannot be repeated."""
        iterate = self.iterate
        iterate.adopt()
        if self._switched is not None and self._switched.is_stale(iterate.level.u[0], iterate.level.time):
            self.predict()
        self.predictor.receive()
        stages, provisional = iterate.stages, iterate.surroundings.provisional
        if provisional or iterate.level.level_index > 0:
            self._began_provisionally = provisional
            before = stages.rows.copy()
            try:
                self._advance()
            except SolveError:
                # A provisional start may have no solution; and a coarse level without one gives no
                # correction to the finer level.
                iterate.stages.rows[:] = before
                iterate.stages.integral_known = False
            return
        began_provisionally, self._began_provisionally = self._began_provisionally, False
        if began_provisionally:
            # The iterate reached from provisional starts may be far from the solution: from index 2 on such
            # starts violate constraints. So predict again from the final one, and keep the better iterate.
            reached, sweeps, norms = iterate.stages, iterate.sweeps, self._all_norms()
            self.predict()
            if max(norms) <= max(self._all_norms()):
                iterate.show(reached)
                iterate.sweeps, iterate.extrapolated = sweeps, False
        try:
            self._advance()
        except SolveError:
            if not began_provisionally:
                raise
            self.predict()
            self._advance()

    def _advance(self, most: int = 1) -> None:
        """One sweep, or up to ``most`` where the step depends on no other computation."""
        iterate = self.iterate
        if iterate.ahead:
            assert iterate.spare is not None
            before, iterate.ahead = iterate.stages, False
            iterate.show(iterate.spare)
            iterate.spare = before
            iterate.sweeps += 1
            return
        advance = self._sweep_alone if iterate.stands_alone() else self._sweep
        try:
            advance(most)
        except SolveError:
            if iterate.sweeps > 0 or not iterate.extrapolated:
                raise
            # The extrapolated polynomial may be far from the solution, as after a jump of algebraic unknowns.
            if self.accuracy is not None:
                self.solver.forget()
            stages = iterate.stages
            stages.u[:], stages.du[:] = iterate.start_values, 0.0
            iterate.place_start()
            stages.integral_known = iterate.extrapolated = False
            advance(most)

    def _take_matrices(self) -> None:
        """Take the Q_Delta of the coming sweep, times the step size."""
        iterate = self.iterate
        iterate.matrices.take(iterate.sweeps + 1)
        if iterate.level.dt != iterate.matrices.dt:
            iterate.scale()

    def _sweep_alone(self, most: int) -> None:
        """Sweep up to ``most`` times, until the residual, or the change of u, meets its tolerance."""
        iterate, solver, accuracy = self.iterate, self.solver, self.accuracy
        L, stages, began = iterate.level, iterate.stages, iterate.sweeps
        self._take_matrices()
        guarded = iterate.matrices.diagonal and began == 0 and accuracy is None
        if guarded:
            solver.remember()
        iterate.prepare(stages)
        if iterate.matrices.varies:
            most = 1
        wanted = sweep.NOTHING if stages.integral_known else sweep.INTEGRATE
        last = iterate.pending or Continuation(wanted, 0, iterate.matrices.dt_q, stages.u, stages.du)
        iterate.pending = None
        kind = L.params.residual_type
        scale = abs(L.u[0]) if accuracy is None and kind.endswith("rel") else 1.0
        iterate.norms_known = False
        try:
            if accuracy is not None:
                done, status, _ = solver.sweeps(last, began, most, goal=accuracy.goal)
            else:
                asked = L.params.restol * scale, kind[0] == "l"
                done, _, value = solver.sweeps(last, began, most, *asked, norms=self.norms)
        except SolveError:
            iterate.sweeps = solver.number
            stages.integral_known = False
            if guarded and solver.number == began:
                solver.recall()
            raise
        iterate.sweeps += done
        stages.integral_known = True
        if accuracy is not None:
            accuracy.take_status(status)
        else:
            iterate.norms_known = True
            self.value = value / scale if scale > 0.0 else np.inf

    def _sweep(self, most: int) -> None:
        """One sweep, of a step that exchanges values with other steps, levels or processes."""
        iterate, accuracy = self.iterate, self.accuracy
        stages, iterate.norms_known = iterate.stages, False
        # After a failure from which a step can recover, matrices are restored: how many nodes were solved
        # before it depends on which process owns them.
        waits = iterate.sweeps == 0 or iterate.surroundings.together or iterate.surroundings.coupled
        guarded = accuracy is None and iterate.matrices.diagonal and waits
        if accuracy is not None:
            iterate.prepare(stages)
            self.solver.run(sweep.keep_old, goal=accuracy.goal)
        elif guarded:
            self.solver.remember()
        failure = self._solve_owned(stages)
        if iterate.nodes.complete_sweep(stages, failure is not None):
            if guarded:
                self.solver.recall()
            iterate.nodes.settle(failure)
        iterate.finish(stages)
        iterate.sweeps += 1
        if accuracy is not None:
            accuracy.take_status(self.solver.run(sweep.look_at_change, iterate.sweeps, goal=accuracy.goal))

    def _solve_owned(self, stages: Stages) -> Exception | None:
        """Solve at the nodes of this process in turn; an error is returned, to be raised on all processes."""
        self._take_matrices()
        iterate = self.iterate
        owned, L = iterate.nodes.owned, iterate.level
        try:
            iterate.integrate()
            iterate.prepare(stages)
            # Where nodes keep the values of their solves, these need the right-hand sides of all nodes.
            needed = range(iterate.num_nodes) if iterate.keeps else owned
            self.solver.begin_sweep(iterate.sweeps)
            self.solver.run(sweep.start_sweep, needed.start, needed.stop, before=iterate.stages)
            self.solver.solve(owned.start, owned.stop)
            if self.accuracy is None and L.params.restol <= 0.0 and L.level_index == 0:
                # With restol 0 no controller checks the residual.
                self.solver.verify(owned.start, owned.stop)
        except Exception as error:
            return error
        return None

    # --- end of the step ------------------------------------------------------------------------------------

    def end_value(self) -> MeshDAE:
        """The value at the end of the step, behind switches that change their signs in it."""
        iterate, switched = self.iterate, self._switched
        end = iterate.end_value(self._params.do_coll_update)
        L = iterate.level
        if switched is None or L.level_index > 0:
            return end
        found = switched.end(L.u[0], L.time, L.dt, iterate.stages.u, iterate.matrices.collocation.nodes, end)
        iterate.take_end(found)
        return found

    # --- residual -------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Put the residual into the status of the level."""
        iterate = self.iterate
        L = iterate.level
        iterate.adopt()
        if not L.status.updated and iterate.starts_at(L.u[0]):
            return
        self.predictor.receive()
        if L.params.residual_type not in RESIDUAL_TYPES:
            raise InputError(unknown("residual_type", L.params.residual_type, RESIDUAL_TYPES))
        value = self.value if iterate.norms_known else self._residual_of(self._all_norms())
        if value == np.inf and iterate.sweeps:
            self._explain_not_finite()
        if iterate.extrapolated and not iterate.sweeps and value <= L.params.restol:
            # Steps that only continue the last polynomial would all have errors of ``restol``, where a sweep
            # leaves much less: the residual is just above that, unless it is at round-off.
            last, own = iterate.num_nodes - 1, iterate.nodes.owned
            terms = iterate.nodes.from_last(self.solver.magnitude(last) if last in own else 0.0)
            if not value <= RESIDUAL_ROUND_OFF * terms:
                value = float(np.nextafter(L.params.restol, np.inf))
        L.status.residual = value

    def _all_norms(self) -> list[float]:
        """Norms of the residual at all nodes."""
        # Processes that share the nodes send them with the values of another sweep, done ahead where one will
        # be needed: after fewer sweeps than the last step had.
        iterate, nodes = self.iterate, self.iterate.nodes
        if not nodes.shared:
            return self._owned_norms()
        stages = iterate.stages
        failure, state = None, OK
        try:
            stages.norms[iterate.owned] = self._owned_norms()
        except Exception as error:
            failure, state = error, RESIDUAL_FAILED
        runs_ahead = iterate.may_run_ahead and not iterate.surroundings.coupled
        carrier = stages
        if runs_ahead and iterate.sweeps < self._sweeps_of_last_step:
            if iterate.spare is None:
                iterate.spare = iterate.new_stages()
            carrier = iterate.spare
            # The rows of the other nodes come with the exchange.
            carrier.rows[iterate.owned] = stages.rows[iterate.owned]
            self.solver.remember()
            if failure is None and self._solve_owned(carrier) is not None:
                state = SWEEP_FAILED
        carrier.states[iterate.owned] = state
        nodes.exchange(carrier, notes_only=carrier is stages)
        if failure is not None or (carrier.states == RESIDUAL_FAILED).any():
            nodes.settle(failure)
        if carrier is not stages:
            iterate.ahead = True
            if (carrier.states == OK).all():
                iterate.finish(carrier)
            else:  # the sweep is repeated when it is asked for, and raises its error then
                iterate.forget_ahead()
        return list(carrier.norms.tolist())

    def _owned_norms(self) -> list[float]:
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
                sweep.add_defects(iterate.arrays(iterate.stages), own.start, own.stop, self.norms)
        else:
            iterate.solver.run(sweep.residual_norms, own.start, own.stop, norms=self.norms)
        return list(self.norms[iterate.owned].tolist())

    def residual_rows(self) -> Vector:
        """F - tau at all nodes, shape (M, n), for every process that shares them; all have to call this."""
        iterate = self.iterate
        failure: Exception | None = None
        if not iterate.residuals_known or iterate.level.status.updated:
            iterate.residuals_shared = False
            try:
                self._owned_norms()
            except Exception as error:
                failure = error
        if not iterate.residuals_shared:
            iterate.nodes.complete_rows(self._rows, iterate.stages, failure)
            iterate.residuals_shared = True
        return self._rows

    def _residual_of(self, norms: list[float]) -> float:
        """The residual from the norms at all nodes, as the level's ``residual_type`` says."""
        L = self.iterate.level
        kind = L.params.residual_type
        value = sweep.residual(norms, len(norms), kind[0] == "l")
        if kind.endswith("rel"):
            return value / abs(L.u[0]) if L.u[0].any() else np.inf
        return value

    def _explain_not_finite(self) -> None:
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


LONGEST_WAIT = 64  # Steps for which none are taken ahead after several in a row that could not be.


class SweepsAhead:
    """Takes steps of one size ahead by compiled sweeps that end with their predictions."""

    def __init__(self, step: StepSweeps, params: Any) -> None:
        self._step, self._params = step, params
        self._solver: Any = step.solver
        self._pace = Pace(step.iterate.problem.n)
        self._wait = self._vain = 0

    def starts_from(self, value: MeshDAE) -> bool:
        """Whether steps can be taken ahead from a state."""
        iterate, step = self._step.iterate, self._step
        matrices, level = iterate.matrices, iterate.level
        ends = matrices.collocation.right_is_node and not self._params.do_coll_update
        plain = ends and matrices.first_solved == 0 and not matrices.varies and self._solver.compiled
        plain = plain and step.accuracy is None and self._params.initial_sweeps > 0 and iterate.stands_alone()
        plain = plain and step.looks_at_nothing and level.params.residual_type.endswith("abs")
        return bool(plain and self._params.initial_guess == "extrapolate" and value.polynomial is not None)

    def take_plain(
        self, value: MeshDAE, time: float, dt: float, most: int, look: Look | None
    ) -> Taken | None:
        """Take at most so many steps of one size from a state; None where they are left to the controller."""
        if self._wait:
            self._wait -= 1
            return None
        iterate, last, began = self._step.iterate, value.polynomial, perf_counter()
        L, nodes, n, k = iterate.level, iterate.matrices.nodes, iterate.problem.n, iterate.n_integrated
        L.status.time = time
        matrix = last.continuation(time, dt, nodes) if reaches(last, time + dt, k) else None
        if matrix is not continuation_matrix(nodes, nodes, 1.0, 1.0):
            return None
        iterate.allocate()
        iterate.scale()
        iterate.begin_at(value)
        iterate.in_prediction = not iterate.constrained and not iterate.keeps_node_value
        iterate.prepare(iterate.stages)
        iterate.in_prediction = False
        room, M = self._pace.room(most), len(nodes)
        rows, counted = np.empty((room, M, 2 * n + 2)), np.empty((room, 7))
        how = self._params.initial_sweeps, int(L.params.residual_type[0] == "l")
        first = Continuation(CONTINUE, M, matrix, last.value, last.derivative)
        steps = rows, counted, iterate.matrices.offsets, L.params.restol, *how

        def taken(count: int) -> Taken:
            starts = np.cumsum([time, *[dt] * count])
            steps = Taken(
                FULL,
                time=float(starts[-1]),
                value=value,
                next_dt=dt,
                starts=starts[:-1],
                sizes=np.full(count, dt),
                rejected=0,
                counts=counted[:count, 2:],
                u=np.vstack([value, rows[:count, :, :n].reshape(-1, n)]),
                du=rows[:count, :, n : 2 * n].copy(),
                nodes=nodes,
                collocation=True,
                slope=None,
                sweeps=counted[:count, 0],
                residuals=counted[:count, 1],
                n_integrated=k,
            )
            return steps._replace(value=steps.end(count - 1, iterate.problem.n_diff)) if count else steps

        looked = None if look is None else lambda count: look(value, taken(count))
        count = self._solver.take_steps(first, *steps, look=looked)
        self._pace.took(count, began)
        self._vain = 0 if count else min(LONGEST_WAIT, 2 * self._vain + 1)
        self._wait = self._vain
        return taken(count)
