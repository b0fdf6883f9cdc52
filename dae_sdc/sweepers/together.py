"""Steps of a given accuracy whose stages share matrices, with fewer nodes where Newton's method fails."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from dae_sdc.dae.newton import ModifiedNewton, NodeSystem
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import EndDerivative, MeshDAE, StepPolynomial, Vector, attach
from dae_sdc.errors import SolveError
from dae_sdc.sweepers import simultaneous, tolerance as limits
from dae_sdc.sweepers._machine_stages import MachineStages
from dae_sdc.sweepers.coupled import CoupledStages, starting_derivative
from dae_sdc.sweepers.simultaneous import DIVERGED, SLOW, SMALL_STEP_ERROR, SOLVED, UNRESOLVED
from dae_sdc.sweepers.steps_ahead import FAILURES_OF_ALL_NODES, RECOVERY, REPETITIONS
from dae_sdc.sweepers.tableaux import Tableau, radau_iia
from dae_sdc.sweepers.teams import Team
from dae_sdc.sweepers.tolerance import Outcome, Tolerance, collocation_goal, newton_share

STEPS_WITH_FEWER_NODES = 8  # Steps with fewer nodes after which the full number is tried again.
# Steps with fewer nodes, without one of the full number between them, after which they count as failed.
MOST_STEPS_WITH_FEWER_NODES = 1000
LEAST_NODES = 2  # Least number of nodes.
# Part of the error allowed to Newton's method that a stage solved in turn may have: those behind multiply it.
SHARE_IN_TURN = 0.1
# Error of unknowns of index 2 at the end of a step of more than three nodes, in units of rtol, from which on
# it is repeated once: the estimate is made of u' at the start, where it may be small.
HELD_AT_INDEX_2 = 30.0


class StagesTogether:
    """Steps of one collocation method, or of one embedded pair, to a tolerance."""

    def __init__(
        self,
        problem: ProblemDAE,
        tableau: Tableau,
        tolerance: Tolerance,
        team: Team | None = None,
        wary: bool = False,
        turns: bool = False,
    ) -> None:
        self.tableau, self._wary = tableau, wary
        embedded = tableau.b_embedded if tableau.diagonally_implicit else None
        differences = None if embedded is None else tableau.b - embedded
        self.stages = MachineStages(problem, tableau.A, tableau.c, team, differences)
        self._made_for = tolerance, turns
        rtol, in_turn = tolerance.rtol, self.stages.in_turn
        index, factor, self.slack = collocation_goal(problem, rtol, tableau.stages, tableau.order)
        self.order, self.told = tableau.stages + 1, 1.0
        if in_turn and tableau.embedded_order is not None:
            factor, self.slack = tableau.estimate_factor(rtol, index, turns), 1.0
            # The guesses are rough in steps of any size, and iterations tell nothing of it.
            self.order, self.told = tableau.embedded_order + 1, 0.0
        self._index, self.weights = index, tolerance.weights_of(problem, factor)
        held = index == 2 and not self.weights.lets_go and tableau.stages > 3
        self.late = tolerance.weights_of(problem, HELD_AT_INDEX_2, plain=True) if held else None
        self._at_end = self.stages.numbers.allowed_at_end = 1.0 / factor
        self.stages.numbers.allowed_defect = simultaneous.LARGEST_DEFECT[min(index, 2)]
        # An index that is not known may be 2: below this part of the time scale rounding makes such an error.
        self.noisy = (
            limits.MULTIPLIER_AMPLIFICATION * problem.round_off / (SMALL_STEP_ERROR * self.weights.rtol)
        )
        self.noisy *= problem.index is None and not in_turn
        # How the error of a step without one before it is estimated, see :func:`simultaneous.estimate`. At
        # index 2 its Jacobian was evaluated at u' = 0, off the solutions of the equations, and what it does
        # to constraints is divided by h: that it contracted well in this step says nothing of the next.
        self.first = 1 if index < 3 else 2
        self.forgets_first = index == 2 and not tableau.explicit_first_stage
        share = newton_share(rtol, factor, index, problem.round_off, SHARE_IN_TURN if in_turn else 1.0)
        self.stages.set_tolerance(share, self.weights.rtol)
        self._seen_at, self._errors = np.nan, np.zeros(problem.n)
        self._before_run = self.stages.get_run()

    @cached_property
    def _slow(self) -> tuple[CoupledStages, NodeSystem, ModifiedNewton]:
        problem, coupled = self.stages.problem, (self.tableau.A, self.tableau.c)
        alone = NodeSystem(problem, problem.n), ModifiedNewton(problem, trust=False)
        return CoupledStages(problem, *coupled), *alone

    def rewind(self, problem: ProblemDAE, tolerance: Tolerance, turns: bool) -> bool:
        """Begin another run of a problem, which may have other numbers; False where these are for others."""
        stages, (of, in_turns) = self.stages, self._made_for
        alike = problem is stages.problem and tolerance is of and turns == in_turns
        if alike and stages.by_kernels and stages.team is None:
            stages.set_run(self._before_run)
            self._seen_at, self.weights.least_factor = np.nan, 0.0
            vars(self).pop("_slow", None)  # with matrices of the last run
            return True
        return False

    def step(self, u0: MeshDAE, t0: float, h: float, repeated: int) -> Outcome:
        """Solve all stages, and estimate the error; ``repeated`` counts earlier attempts."""
        stages = self.stages
        if u0.polynomial is None and stages.in_turn:
            explicit, order = self.tableau.explicit_first_stage, self.tableau.order
            slope = starting_derivative(stages.problem, u0, t0, h, order) if explicit else np.zeros(stages.n)
            u0 = attach(u0.view(np.ndarray), u0.n_diff)
            u0.polynomial, begins = EndDerivative(slope), self.first
        else:
            begins = None
        first, looks = self.begin(u0, t0, h, repeated, begins)
        status = stages.solve(t0, h, first, looks)
        numbers = stages.numbers
        most = simultaneous.END_SHARE * numbers.kappa
        if status == SOLVED and numbers.end_error > most and not stages.end_is_solved(t0, h, most):
            status = UNRESOLVED
            if self._index < 2:
                status = self._solve_coupled(u0, stages.du, t0, h, status)
        elif stages.in_turn:
            while status != SOLVED and self._solve_alone(t0, h):
                status = stages.solve(t0, h, first, looks) if stages.act(simultaneous.NEXT, t0, h) else SOLVED
        elif status in (DIVERGED, SLOW, UNRESOLVED) and repeated >= REPETITIONS:
            status = self._solve_coupled(u0, stages.guess, t0, h, status)
        return self.judge(status, t0, h)

    def begin(
        self, u0: MeshDAE, t0: float, h: float, repeated: int, first: int | None = None
    ) -> tuple[int, bool]:
        """Begin a step; how its error is to be estimated, and whether F is looked at between its nodes."""
        stages, self._failure = self.stages, ""
        first = int(u0.polynomial is None) * self.first if first is None else first
        stages.begin(u0, t0, h)
        stages.weigh(self.weights, h, first > 0)
        self.forget_errors(t0)
        before = getattr(u0.polynomial, "dt", 0.0)
        looks = self._wary or repeated > 0 or h > simultaneous.GROWN_STEP * before
        self._begun = first, looks, repeated, before
        return first, looks

    def judge(self, status: int, t0: float, h: float, failure: str = "") -> Outcome:
        """The outcome of a step that has been begun and whose stages were solved, or why they were not."""
        stages, (first, looks, repeated, before) = self.stages, self._begun
        numbers, error = stages.numbers, np.inf
        if status == SOLVED:
            if first:
                stages.weigh(self.weights, h, True, floor=False)
            if not numbers.judged:
                stages.act(simultaneous.JUDGE, t0, h, (first, False, looks))
            if numbers.error >= 1.0 and numbers.judged < 2.0:
                again = first > 0 or repeated > 0  # of index 2 nothing is left the second time
                if stages.act(simultaneous.WITHIN, t0, h) or again:
                    stages.act(simultaneous.JUDGE, t0, h, (first, again, looks))
            error = numbers.error
            if SMALL_STEP_ERROR < error < np.inf and h < min(before, self.noisy * self.weights.scales.time):
                if stages.is_rounding(t0, h, SMALL_STEP_ERROR, stages.estimated):
                    error = SMALL_STEP_ERROR
            if error <= 1.0:
                if self._index > 1 and not first:
                    self._seen_at, self._errors[:] = t0, self.weights.scales.errors
                    at_end = stages.u[-1], stages.m, h / before if before else 1.0
                    self.weights.see(stages.estimated, *(() if stages.in_turn else at_end))
                if numbers.at_end > self._at_end and not stages.is_rounding(t0, h, self._at_end):
                    error = numbers.at_end / self._at_end
                elif not numbers.defect <= numbers.allowed_defect:
                    error = numbers.defect / numbers.allowed_defect
                elif self.late is not None and numbers.at_end and not repeated:
                    late = np.abs(stages.error) * self.late.of_stages(stages.u[-1:], h)
                    part = min(1.0, simultaneous.HELD_PART * h * self.weights.scales.rate)
                    error = max(error, part * float(late.max(where=stages.multipliers, initial=0.0)))
        stages.count()
        if first and self.forgets_first:
            stages.forget()
        effort = self.told * numbers.iterations / simultaneous.MOST_NEWTON_ITERATIONS
        reason = (status != SOLVED and (failure or self._failure)) or simultaneous.REASONS[status]
        about = self.order, effort, self.told * numbers.rate, reason, int(numbers.worst)
        beyond = partial(stages.act, simultaneous.BEYOND, t0, h)
        return Outcome(status == SOLVED, error, *about, self.slack, 0.0, numbers.costly, beyond)

    def forget_errors(self, t0: float) -> None:
        """Forget the errors of the last step if it is repeated."""
        if t0 == self._seen_at:
            self.weights.scales.errors[:] = self._errors

    def _solve_alone(self, t0: float, h: float) -> bool:
        """Solve a stage with a Jacobian of its own and damping; whether that succeeds."""
        (_, system, newton), stages = self._slow, self.stages
        system.weights, system.unit = stages.weights, self.weights.rtol
        newton.tolerance = max(limits.SMALLEST_NODE_TOLERANCE, stages.numbers.relative)
        newton.forget()
        stages.act(simultaneous.AGAIN, t0, h)
        try:
            stages.solve_alone(system, newton, t0, h)
        except SolveError as failure:
            self._failure = str(failure)
            return False
        return bool(stages.act(simultaneous.RENEW, t0, h))

    def _solve_coupled(self, u0: MeshDAE, guess: Vector, t0: float, h: float, status: int) -> int:
        """Solve all stages with a Jacobian of their own each; SOLVED, or the status that was given."""
        coupled = self._slow[0]
        if not coupled.solve_step(u0, guess, t0, h):
            return status
        self.stages.du[:], self.stages.u[:] = coupled.du, coupled.u
        # The error is estimated by a matrix, and that of iterates which diverged hides any error. Short steps
        # let errors of index 2 go, also those of another solution of the equations, which that matrix shows.
        return SOLVED if self._index > 1 or self.stages.act(simultaneous.RENEW, t0, h) else status


class PlainStages:
    """Steps of one Runge-Kutta method, of any size, to the tolerance of Newton's method."""

    weights = None

    # A multistep method, whose only stage is the new value, has weights of the ``past``; ``solver`` may stand
    # in place of Newton's method.

    def __init__(
        self,
        problem: ProblemDAE,
        A: Vector,
        c: Vector,
        collocation: bool,
        past: Any = None,
        solver: Any = None,
    ) -> None:
        self._made_of, self.in_turn = (problem, A, c, collocation, past, solver), not np.triu(A, 1).any()
        self.coupled, self.system = CoupledStages(problem, A, c), NodeSystem(problem, problem.n)
        self.newton: Any = solver or ModifiedNewton(problem, trust=False)
        self._stages = cast(Any, None)
        # Without dF/du a matrix hardly changes, and none but LAPACK or SuperLU is needed.
        able = problem.linear_solver in problem.compiled_solvers or solver is not None or not A.any()
        if self.in_turn or (collocation and able and problem.solver_kernels is not None):
            self._stages = MachineStages(problem, A, c, None, np.zeros(len(c)) if self.in_turn else None)
            self._stages.solve_plainly(past, 0 if solver is None else solver.most)
        self.compiled = able and self._stages is not None

    def __reduce__(self) -> Any:
        # Addresses belong to the arrays of one object; a copy goes on with what the solvers can tell.
        return type(self), self._made_of, self.get_state()

    @property
    def stages(self) -> Any:
        """The stages that are solved in compiled code; None where they are not."""
        return self._stages if self.compiled else None

    def step(
        self, u0: MeshDAE, before: EndDerivative | StepPolynomial, t0: float, h: float
    ) -> tuple[Vector, Vector]:
        """Solve all stages, in turn with what is known ``before`` the step; u and u' at the stages."""
        stages = self._stages
        if self.in_turn:
            u0 = attach(u0.view(np.ndarray), u0.n_diff)
            u0.polynomial = before
            stages.begin(u0, t0, h)
            while not self._solved(t0, h):
                stages.solve_alone(self.system, self.newton, t0, h)
                if not stages.act(simultaneous.NEXT, t0, h):
                    break
            stages.count()
            return stages.u, stages.du
        if self.compiled and isinstance(u0.polynomial, StepPolynomial):
            stages.begin(u0, t0, h)
            solved = self._solved(t0, h)
            stages.count()
            if solved:
                return stages.u, stages.du
        self.coupled.solve_from(u0, t0, h)
        return self.coupled.u, self.coupled.du

    def _solved(self, t0: float, h: float) -> bool:
        """Whether compiled code has solved the stages, from the current one on."""
        if not self.compiled:
            return False
        solved: bool = self._stages.solve(t0, h) == SOLVED
        if not solved:
            self.newton.rate = float(self._stages.numbers.rate)
            self._stages.forget()
            if self.in_turn:
                self._stages.act(simultaneous.AGAIN, t0, h)
        return solved

    @property
    def _solvers(self) -> dict[str, Any]:
        """What keeps matrices from step to step, by the name in a checkpoint."""
        known = {"alone": self.newton, "coupled": self.coupled.newton, "stages": self.stages}
        return {name: solver for name, solver in known.items() if solver is not None}

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` is all that the next step depends on besides its start."""
        return all(solver.keeps_state for solver in self._solvers.values())

    def get_state(self) -> dict[str, Any]:
        """What solvers can tell of their state, for a checkpoint."""
        known = {name: solver.get_state() for name, solver in self._solvers.items() if solver.keeps_state}
        return {"split": self.system.split} | known

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        self.system.split = kept["split"]
        for name in self._solvers.keys() & kept.keys():
            self._solvers[name].set_state(kept[name])

    __setstate__ = set_state


class FewerNodes:
    """Steps of Radau IIA that take fewer nodes, down to two, where Newton's method often fails."""

    def __init__(self, problem: ProblemDAE, tolerance: Tolerance, full: StagesTogether, wanted: bool) -> None:
        self._problem, self._tolerance, self._wanted = problem, tolerance, wanted
        self._full = full.tableau.stages
        self._methods = {self._full: full}
        self.used, self.tried = full, ""
        self.failures, self._left, self._since, self.count = 0.0, 0, 0, 0
        self._tried_at, self._repeated = np.nan, 0

    def repetition(self, time: float) -> int:
        """Number of earlier attempts of the step from a time."""
        return self._repeated + 1 if self._tried_at == time else 0

    def attempt(self, time: float) -> int:
        """Begin another attempt of the step from a time; the number of earlier ones."""
        self._repeated, self._tried_at = self.repetition(time), time
        return self._repeated

    def step(self, u0: MeshDAE, t0: float, h: float) -> Outcome:
        """Solve a step, see :meth:`StagesTogether.step`."""
        repeated = self.attempt(t0)
        full = self._methods[self._full]
        method = self.used if self._left else full
        outcome = self._step(method, u0, t0, h, repeated)
        if method is full:
            if outcome.solved:
                self.failures, self._since, self.tried = max(0.0, self.failures - RECOVERY), 0, ""
                return outcome
            self.failures = min(FAILURES_OF_ALL_NODES, self.failures + 1.0)
        nodes, tried = method.tableau.stages, []
        fails = self._wanted and self._since < MOST_STEPS_WITH_FEWER_NODES
        fails = fails and self.failures >= FAILURES_OF_ALL_NODES
        while not outcome.solved and fails and nodes > LEAST_NODES:
            nodes = max(LEAST_NODES, nodes - 2)
            outcome = self._step(self._method(nodes), u0, t0, h, repeated)
            self._left = STEPS_WITH_FEWER_NODES
            tried.append(str(nodes))
        self.tried = "" if outcome.solved or not tried else f"{', '.join(tried)} nodes were tried in vain"
        if not outcome.solved:
            self._left = 0
        else:
            self._left -= 1
            self._since += 1
            self.count += 1
        return outcome

    def _step(self, method: StagesTogether, u0: MeshDAE, t0: float, h: float, repeated: int) -> Outcome:
        if self.used is not method:
            # What it knows of the equations is old.
            method.stages.forget()
        self.used = method
        return method.step(u0, t0, h, repeated)

    def _method(self, nodes: int) -> StagesTogether:
        if nodes not in self._methods:
            self._methods[nodes] = StagesTogether(self._problem, radau_iia(nodes), self._tolerance, wary=True)
        return self._methods[nodes]

    @property
    def plain(self) -> StagesTogether | None:
        """The method of all nodes where the last step was taken with it, else None."""
        full = self._methods[self._full]
        return full if self.used is full else None

    def went_ahead(self, time: float, solved: int, repeated: int, failures: float) -> None:
        """Take note of steps of the method of all nodes, and of attempts of the next one."""
        self.failures = failures
        if solved:
            self._since = 0
        if solved or repeated:
            self.tried = ""
        if repeated:
            self._tried_at, self._repeated = time, repeated - 1

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` is all that the next step depends on besides its start."""
        return self._methods[self._full].stages.keeps_state

    def get_state(self) -> dict[str, Any]:
        """The state that the next step depends on, for a checkpoint."""
        numbers = self.used.tableau.stages, self.failures, self._left, self._since, self.count
        return self.used.stages.get_state() | {"fewer nodes": numbers}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit."""
        kept = dict(kept)
        nodes, failures, *counts = kept.pop("fewer nodes")
        self.failures, (self._left, self._since, self.count) = float(failures), map(int, counts)
        self.used = self._method(int(nodes))
        self.used.stages.set_state(kept)
