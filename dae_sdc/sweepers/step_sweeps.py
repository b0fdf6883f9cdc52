"""The sweeps of a step: its prediction, one sweep after another, and the recovery from one that fails."""

from __future__ import annotations

from typing import Any

import numpy as np

from dae_sdc.dae.newton_checks import JacobianWatch
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE
from dae_sdc.errors import SolveError
from dae_sdc.sweepers.accuracy import AccuracyGoal
from dae_sdc.sweepers.iterate import Predictor, StepIterate
from dae_sdc.sweepers.nodes import OK, RESIDUAL_FAILED, SWEEP_FAILED, Stages
from dae_sdc.sweepers.residual import RESIDUAL_ROUND_OFF, StepResidual
from dae_sdc.sweepers.sweep import (
    GOING_ON,
    INTEGRATE,
    MOST_SWEEPS,
    NOTHING,
    Continuation,
    keep_old,
    look_at_change,
)
from dae_sdc.sweepers.switching import SwitchedSteps


class StepSweeps:
    """Predicts and sweeps the steps of a level, for one problem."""

    def __init__(
        self,
        iterate: StepIterate,
        predictor: Predictor,
        residual: StepResidual,
        accuracy: AccuracyGoal | None,
        watch: JacobianWatch,
        params: Any,
    ) -> None:
        self.iterate, self.predictor, self.residual = iterate, predictor, residual
        self.accuracy, self._watch, self._params = accuracy, watch, params
        self.solver = iterate.solver
        problem = iterate.problem
        located = params.locate_switches and type(problem).switches is not ProblemDAE.switches
        self._switched = SwitchedSteps(problem, iterate.num_nodes) if located else None
        self._sweeps_of_last_step = 0
        # Whether the iterate was reached from starts that were not final.
        self._began_provisionally = False

    # --- prediction -----------------------------------------------------------------------------------------

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
        restol, residual = L.params.restol, self.residual
        while iterate.sweeps < most and iterate.stands_alone():
            self._advance(most - iterate.sweeps)
            if accuracy is not None:
                if accuracy.status != GOING_ON:
                    break
            elif residual.value <= restol or residual.value == np.inf:
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
            reached, sweeps, norms = iterate.stages, iterate.sweeps, self.norms()
            self.predict()
            if max(norms) <= max(self.norms()):
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
        sweep = self._sweep_alone if iterate.stands_alone() else self._sweep
        try:
            sweep(most)
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
            sweep(most)

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
        wanted = NOTHING if stages.integral_known else INTEGRATE
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
                done, _, value = solver.sweeps(last, began, most, *asked, norms=self.residual.norms)
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
            self.residual.value = value / scale if scale > 0.0 else np.inf

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
            self.solver.run(keep_old, goal=accuracy.goal)
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
            accuracy.take_status(self.solver.run(look_at_change, iterate.sweeps, goal=accuracy.goal))

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
            self.solver.start_sweep(iterate.stages, iterate.sweeps, needed.start, needed.stop)
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
        iterate, residual = self.iterate, self.residual
        L = iterate.level
        iterate.adopt()
        if not L.status.updated and iterate.starts_at(L.u[0]):
            return
        self.predictor.receive()
        residual.check_type()
        value = residual.value if iterate.norms_known else residual.compute(self.norms())
        if value == np.inf and iterate.sweeps:
            residual.explain_not_finite()
        if iterate.extrapolated and not iterate.sweeps and value <= L.params.restol:
            # Steps that only continue the last polynomial would all have errors of ``restol``, where a sweep
            # leaves much less: the residual is just above that, unless it is at round-off.
            last, own = iterate.num_nodes - 1, iterate.nodes.owned
            terms = iterate.nodes.from_last(self.solver.magnitude(last) if last in own else 0.0)
            if not value <= RESIDUAL_ROUND_OFF * terms:
                value = float(np.nextafter(L.params.restol, np.inf))
        L.status.residual = value

    def norms(self) -> list[float]:
        """Norms of the residual at all nodes."""
        # Processes that share the nodes send them with the values of another sweep, done ahead where one will
        # be needed: after fewer sweeps than the last step had.
        iterate, nodes = self.iterate, self.iterate.nodes
        if not nodes.shared:
            return self.residual.owned_norms()
        stages = iterate.stages
        failure, state = None, OK
        try:
            stages.norms[iterate.owned] = self.residual.owned_norms()
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
        if carrier is stages:
            nodes.exchange_notes(stages)
        else:
            nodes.exchange(carrier)
        if failure is not None or (carrier.states == RESIDUAL_FAILED).any():
            nodes.settle(failure)
        if carrier is not stages:
            iterate.ahead = True
            if (carrier.states == OK).all():
                iterate.finish(carrier)
            else:  # the sweep is repeated when it is asked for, and raises its error then
                iterate.forget_ahead()
        return list(carrier.norms.tolist())
