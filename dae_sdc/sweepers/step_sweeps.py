"""The sweeps of a step: its prediction, one sweep after another, and the recovery from one that fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from dae_sdc.dae.newton_checks import JacobianWatch
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach, continuation_matrix, reaches
from dae_sdc.errors import EvaluationError, InputError, SolveError
from dae_sdc.registry import unknown
from dae_sdc.sweepers import sweep
from dae_sdc.sweepers._machine_stages import MachineStages
from dae_sdc.sweepers.collocation import transient_growth
from dae_sdc.sweepers.iterate import StepIterate
from dae_sdc.sweepers.nodes import OK, RESIDUAL_FAILED, SWEEP_FAILED, Stages
from dae_sdc.sweepers.restart import SwitchedSteps
from dae_sdc.sweepers.simultaneous import MOST_NEWTON_ITERATIONS, ROUNDING, SLOW, SMALL, SOLVED, UNRESOLVED
from dae_sdc.sweepers.steps_ahead import Look, StepsAhead, Taken
from dae_sdc.sweepers.sweep import CONVERGED, GOING_ON, MOST_SWEEPS, TOO_SLOW, Continuation
from dae_sdc.sweepers.tableaux import Tableau, radau_iia
from dae_sdc.sweepers.together import FewerNodes, StagesTogether
from dae_sdc.sweepers.tolerance import SMALLEST_NODE_TOLERANCE, Outcome, Tolerance

# A node's solve may stop at this fraction of its first correction, by the index of the problem: the next
# sweep corrects the rest.
FORCING_BY_INDEX: tuple[float, ...] = (0.01, 0.01, 0.01, 1e-4)
# Allowed error of the solve at one node, relative to that of the iteration over the step.
NODE_SHARE = 0.003
LARGEST_NODE_TOLERANCE = 1e-3  # Largest tolerance of the solve at a node.
# Relative change of u by rounding, in units of the round-off of the equations.
ROUND_OFF_CHANGE = 10.0


def tableau_of(collocation: Any) -> Tableau:
    """The Runge-Kutta method to which sweeps converge: Radau IIA, but to rounding, for its nodes."""
    return _radau_of(collocation.Qmat.tobytes(), tuple(collocation.nodes.tolist()))


@lru_cache(maxsize=16)
def _radau_of(integrals: bytes, nodes: tuple[float, ...]) -> Tableau:
    Q = np.frombuffer(integrals).reshape(len(nodes) + 1, -1)[1:, 1:]
    return replace(radau_iia(len(Q)), A=Q, b=Q[-1], c=np.array(nodes))


class AccuracyGoal:
    """What sweeps must reach in steps of a given accuracy, which are judged as those of Radau IIA are."""

    def __init__(self, iterate: StepIterate, tolerance: Tolerance, qdelta: str, watch: JacobianWatch) -> None:
        self.iterate, self._watch = iterate, watch
        problem, matrices = iterate.problem, iterate.matrices
        M, n, delta = iterate.num_nodes, problem.n, matrices.delta
        if not delta[-1, -1] > 0.0:
            raise InputError(
                f"the error estimate of a run to a tolerance needs an implicit Q_Delta; the last entry of "
                f"'{qdelta}' is {delta[-1, -1]:g}; use LU, or give dt instead of rtol"
            )
        tableau = tableau_of(matrices.collocation)
        method = StagesTogether(problem, tableau, tolerance)
        self.method, self.together = method, FewerNodes(problem, tolerance, method, False)
        method.forgets_first = False  # the matrices are those of the nodes
        self.stages: Any = method.stages
        iterate.judging = method.stages
        weights = self.stages.weights
        self.stages.integrate_first(iterate.n_integrated)
        self.goal = sweep.Goal(np.zeros((M, n)), weights, sweep.GoalNumbers())
        index, unit, numbers = max(problem.variable_index, default=1), method.weights.rtol, self.goal.numbers
        iterate.solver.measure_by(weights, unit)
        numbers.eta, numbers.share = 1.0, float(self.stages.numbers.kappa)
        # With constraints of index k sweeps contract at their final rate after about k M of them.
        numbers.patience = max(index, 1) * M + 3.0
        # Each hidden differentiation of a constraint divides round-off by the first node and by dt, as
        # weights do.
        amplified = matrices.nodes[0] ** (1 - max(index, 1))
        numbers.round_off_change = ROUND_OFF_CHANGE * problem.round_off * amplified / unit
        # Sweeps also end at round-off, which may be above the tolerance.
        self.stages.set_tolerance(max(numbers.share, numbers.round_off_change), unit)
        # The error that an inexact solve leaves at a node may grow in later sweeps before it contracts.
        changes = range(1, M + 1) if matrices.varies else ()
        deltas = [matrices.of_sweep(number) for number in changes] or M * [delta]
        growth = transient_growth(tableau.A, deltas)
        # The error that a solve leaves in an integrated multiplier returns in the next sweep divided by dt.
        exact = index > 1 and problem.n_diff < iterate.n_integrated
        forcing = 0.0 if exact else FORCING_BY_INDEX[min(index, 3)]
        node_tolerance = max(SMALLEST_NODE_TOLERANCE, NODE_SHARE * numbers.share * unit)
        node_tolerance = min(LARGEST_NODE_TOLERANCE, node_tolerance) / growth
        iterate.accuracy = max(SMALLEST_NODE_TOLERANCE, node_tolerance), forcing / growth
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
        """A size for the first step, see :func:`~dae_sdc.sweepers.steps_ahead.first_step`."""
        self.iterate.problem.start_step(u0, t0)
        self.goal.numbers.eta = 1.0
        return float(self.stages.starting_step(u0, self.method.weights, t0, span))

    def reset(self) -> None:
        """Forget how the last step ended."""
        self.status, self.reason = GOING_ON, ""
        self.known: int | None = None  # how the sweeps of a step that was begun ahead have ended

    def begin(self, u0: MeshDAE) -> None:
        """Begin a step; its contraction is estimated from that of the last step."""
        L = self.iterate.level
        self.method.begin(u0, L.time, L.dt, self.together.attempt(L.time))
        self.known = self.stages.take_advanced()
        if self.known is None:
            self.stages.numbers.judged = 0.0
            sweep.begin_goal(self.goal.numbers)

    def take_status(self, status: int) -> None:
        """Take the result of a sweep; CONVERGED if unknowns still change only by rounding."""
        if status == TOO_SLOW and not self.iterate.nodes.shared:
            L, stages = self.iterate.level, self.stages
            self._show()
            np.subtract(stages.u, self.goal.old, out=stages.change)
            if stages.act(ROUNDING, L.time, L.dt):
                status = CONVERGED
        self.status = status

    def _show(self) -> None:
        """Give the stages that judge the step the values at its nodes."""
        self.stages.u[:], self.stages.du[:] = self.iterate.stages.u, self.iterate.stages.du

    def judge(self) -> Outcome:
        """The outcome of the finished step, see :meth:`StagesTogether.judge`."""
        iterate, stages, x = self.iterate, self.stages, self.stages.numbers
        L, nodes, last = iterate.level, iterate.nodes, iterate.num_nodes - 1
        x.iterations = iterate.sweeps * MOST_NEWTON_ITERATIONS / MOST_SWEEPS
        x.rate, failure = 0.0, self.reason
        if not failure and self.status != CONVERGED:
            x.rate, failure = self.goal.numbers.contraction, f"{iterate.sweeps} sweeps did not converge"
        self._show()
        known = self.known in (SOLVED, UNRESOLVED)
        if not failure and not (self.known == SOLVED if known else self._residual_is_small()):
            failure = "the sweeps change nothing, but what is left of the equations is not small"
        if failure:
            return self._unsolved(failure)
        self._watch.succeeded(False)
        effort = x.iterations / MOST_NEWTON_ITERATIONS
        outcome = Outcome(True, np.inf, self.method.order, effort, 0.0, "", 0, self.method.slack)
        if last in nodes.owned and stages.judge_by_matrix(iterate.solver, last):
            outcome = self.method.judge(SOLVED, L.time, L.dt)
        error, worst = (nodes.from_last(float(value)) for value in (outcome.error, outcome.worst))
        if not error <= 1.0:
            self.goal.numbers.eta = 1.0
        return outcome._replace(error=error, worst=int(worst))

    def _residual_is_small(self) -> bool:
        """Whether the residual is as small as the last changes of u suggest, at all nodes."""
        iterate, stages = self.iterate, self.stages
        if iterate.keeps:
            stages.u[:] = iterate.node_values()
        small = stages.act(SMALL, iterate.level.time, iterate.level.dt)
        stages.u[:] = iterate.stages.u
        return bool(small)

    def _unsolved(self, reason: str) -> Outcome:
        iterate, stages, self.reason = self.iterate, self.stages, reason
        # Matrices and contractions of a step that was too large say little about a smaller one.
        iterate.solver.forget()
        self.goal.numbers.eta = 1.0
        L = iterate.level
        points = [(L.u[0].view(np.ndarray), stages.du0, L.time)]
        if not iterate.nodes.shared:  # the values may differ between the processes
            points.append((stages.u[-1], stages.du[-1], float(iterate.times[-1])))
        self._watch.failed(points, L.dt)
        with np.errstate(all="ignore"):
            change = np.abs(stages.u - self.goal.old).max(axis=0) * stages.weights
        # Where ranks share the nodes, each finds a worst unknown of its own; all take that of the last node.
        stages.numbers.worst = iterate.nodes.from_last(float(np.argmax(np.nan_to_num(change, posinf=0.0))))
        return self.method.judge(UNRESOLVED, L.time, L.dt, reason)

    # --- checkpoints ----------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Vector]:
        """The state that the next step depends on, for a checkpoint."""
        return {"goal": np.frombuffer(self.goal.numbers).copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        np.frombuffer(self.goal.numbers)[:] = state["goal"]


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
        self, iterate: StepIterate, accuracy: AccuracyGoal | None, watch: JacobianWatch, params: Any
    ) -> None:
        self.iterate, self.accuracy = iterate, accuracy
        self.watch, self._params, self.solver = watch, params, iterate.solver
        problem = iterate.problem
        self.norms, self.value = np.zeros(iterate.num_nodes), np.inf
        self._rows = np.empty((iterate.num_nodes, problem.n))
        located = params.locate_switches and type(problem).switches is not ProblemDAE.switches
        self._switched = SwitchedSteps(problem, iterate.num_nodes) if located else None
        self._sweeps_of_last_step = 0
        # Of a step that was begun ahead: its values, whether they were extrapolated, its sweeps, the first
        # node that was not solved in the next one; and that node until it is solved.
        self.ahead: tuple[Stages, bool, int, int]
        self._failed: int | None = None
        # Whether the iterate was reached from starts that were not final.
        self._began_provisionally = False

    # --- prediction -----------------------------------------------------------------------------------------

    @property
    def looks_at_nothing(self) -> bool:
        """Whether nothing is to be looked at where a step begins or ends."""
        problem = self.iterate.problem
        located = self._switched is None or problem.located
        return bool(located and problem.starts_alike and not self.watch.looks)

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
        self.watch.begin(u0, L.time, L.dt)
        self._sweeps_of_last_step = iterate.sweeps
        self._began_provisionally = False
        iterate.integral_tau = None
        iterate.forget_ahead()
        iterate.allocate()
        iterate.scale()
        iterate.begin_at(u0)
        if accuracy is not None:
            accuracy.begin(u0)
        if accuracy is None or accuracy.known is None:
            iterate.fill()
        else:  # go on with a step that compiled code has begun, see :class:`SweepsAhead`
            before, iterate.extrapolated, iterate.sweeps, reached = self.ahead
            iterate.stages.rows[:], iterate.stages.integral[:] = before.rows, before.integral
            L.f[0] = attach(u0.derivative(), iterate.problem.n_diff)
            iterate.stages.integral_known = True
            iterate.prepare(iterate.stages)
            if reached < iterate.num_nodes:
                self._failed = reached
            else:
                accuracy.status = TOO_SLOW if accuracy.known == SLOW else CONVERGED
        # A step that depends on no other computation need not wait for the controller's iterations.
        most = self._params.initial_sweeps
        if accuracy is not None and most:
            most = MOST_SWEEPS
        iterate.in_prediction = not iterate.constrained and not iterate.keeps_node_value
        restol = L.params.restol
        while iterate.sweeps < most and iterate.stands_alone():
            if accuracy is None or accuracy.status == GOING_ON:
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
        iterate.receive()
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
        last = iterate.pending or Continuation(wanted)
        iterate.pending = None
        kind = L.params.residual_type
        scale = abs(L.u[0]) if accuracy is None and kind.endswith("rel") else 1.0
        iterate.norms_known = False
        try:
            if accuracy is not None:
                failed, self._failed = self._failed, None
                done, status, _ = solver.sweeps(last, began, most, failed=failed, goal=accuracy.goal)
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
        end = switched.end(L.u[0], L.time, L.dt, iterate.stages.u, iterate.matrices.collocation.nodes, end)
        iterate.take_end(end)
        return end

    # --- residual -------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Put the residual into the status of the level."""
        iterate = self.iterate
        L = iterate.level
        iterate.adopt()
        if not L.status.updated and iterate.starts_at(L.u[0]):
            return
        iterate.receive()
        value, kind = self.value, L.params.residual_type
        if kind not in RESIDUAL_TYPES:
            raise InputError(unknown("residual_type", kind, RESIDUAL_TYPES))
        if not iterate.norms_known:
            norms = self._all_norms()
            value = sweep.residual(norms, len(norms), kind[0] == "l")
            if kind.endswith("rel"):
                value = value / abs(L.u[0]) if L.u[0].any() else np.inf
        if value == np.inf and iterate.sweeps:
            self._explain_not_finite()
        if iterate.extrapolated and not iterate.sweeps and value <= L.params.restol:
            # Steps that only continue the last polynomial would all have errors of ``restol``, where a sweep
            # leaves much less: the residual is just above that, unless it is at round-off.
            if not value <= RESIDUAL_ROUND_OFF * iterate.surroundings.residual_scale():
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
            arrays = iterate.solver.arrays
            sweep.place_measured(arrays, own.start, own.stop)
            self._rows[iterate.owned] = iterate.solver.residuals(own.start, own.stop)
            iterate.residuals_known, iterate.residuals_shared = True, False
            self.norms[iterate.owned] = np.abs(self._rows[iterate.owned]).max(axis=1, initial=0.0)
            if iterate.keeps:
                sweep.add_defects(arrays, own.start, own.stop, self.norms)
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
    """Takes steps ahead by compiled sweeps that end with their predictions."""

    def __init__(self, step: StepSweeps, params: Any) -> None:
        self._step, self._params = step, params
        self._solver: Any = step.solver
        self._steps: Any = None
        self._wait = self._vain = 0

    def starts_from(self, value: MeshDAE) -> bool:
        """Whether steps can be taken ahead from a state."""
        iterate, step = self._step.iterate, self._step
        matrices, residual = iterate.matrices, iterate.level.params.residual_type
        ends = matrices.collocation.right_is_node and not self._params.do_coll_update
        plain = ends and matrices.first_solved == 0 and not matrices.varies and self._solver.compiled
        plain = plain and self._params.initial_sweeps > 0 and iterate.stands_alone() and step.looks_at_nothing
        plain = plain and self._params.initial_guess == "extrapolate" and value.polynomial is not None
        plain = plain and (step.accuracy is not None or residual.endswith("abs"))
        # Of other nodes the stages may not have the eigenvalues that are wanted where they stand together.
        plain = plain and matrices.collocation.node_type == "LEGENDRE"
        if not plain:
            return False
        if self._steps is None:
            method: Any = None if step.accuracy is None else step.accuracy.together
            if method is None:
                tableau = tableau_of(matrices.collocation)
                plain_stages = MachineStages(iterate.problem, tableau.A, tableau.c)
                plain_stages.solve_plainly()
                plain_stages.integrate_first(iterate.n_integrated)
                method = SimpleNamespace(stages=plain_stages, weights=None)
            self._steps = StepsAhead(method, step.watch, iterate.problem)
        stages = self._steps.method.stages
        return bool(stages.continues(value.polynomial) and self._steps.starts_from(value))

    def take(
        self, value: MeshDAE, time: float, dt: float, most: int, look: Look | None, *judged: Any
    ) -> Taken | None:
        """Take steps, see :meth:`StepsAhead.take`; None where they are left to the controller."""
        step, solver, stages = self._step, self._solver, self._steps.method.stages
        iterate, accuracy, matrix = step.iterate, step.accuracy, None
        params, how = iterate.level.params, (MOST_SWEEPS, 0.0, False, True)
        if accuracy is None:  # of one size
            how = self._params.initial_sweeps, params.restol, params.residual_type[0] == "l", False
            last, nodes = value.polynomial, iterate.matrices.nodes
            if reaches(last, time + dt, last.n_integrated):
                matrix = last.continuation(time, dt, nodes)
            if self._wait or matrix is not continuation_matrix(nodes, nodes, 1.0, 1.0):
                self._wait = max(0, self._wait - 1)
                return None
        else:
            solver.tell_goal(accuracy.goal)
        iterate.level.status.time = time
        iterate.allocate()
        iterate.scale()
        iterate.begin_at(value)
        iterate.in_prediction = accuracy is None and not (iterate.constrained or iterate.keeps_node_value)
        iterate.prepare(iterate.stages)
        iterate.in_prediction = False
        place = solver.begin_steps(iterate.matrices, stages.inverse, iterate.split, how)
        stages.sweep_by(solver, place, matrix)
        taken: Taken = self._steps.take(value, time, dt, most, look, *judged)
        stages.sweep_by(None, 0)
        step.ahead = iterate.stages, *solver.end_steps()
        if accuracy is None:
            self._wait = self._vain = 0 if len(taken.starts) else min(LONGEST_WAIT, 2 * self._vain + 1)
        return taken
