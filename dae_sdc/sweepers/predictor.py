"""The first guess at the nodes, before the first sweep of a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from dae_sdc.dae.polynomial import reaches
from dae_sdc.dae.state import attach
from dae_sdc.errors import InputError
from dae_sdc.sweepers.iterate import StepIterate
from dae_sdc.sweepers.step_error import StepError
from dae_sdc.sweepers.sweep import CONTINUE, Continuation, continue_polynomial

INITIAL_GUESSES = ("extrapolate", "spread", "zero", "random")  # Names of the first guesses at the nodes.


class Predictor:
    """Fills the nodes of a step by the ``initial_guess`` of a sweeper."""

    def __init__(self, iterate: StepIterate, params: Any, errors: StepError | None) -> None:
        self.iterate, self.params, self.errors = iterate, params, errors
        self.rng: np.random.RandomState | None = None
        # From index 2 on the derivative of integrated algebraic unknowns is too rough to be extrapolated.
        integrates = iterate.problem.n_diff < iterate.n_integrated
        self._continues_algebraic_values = errors is not None and errors.index > 1 and integrates
        if self._continues_algebraic_values:
            self._inverse = np.linalg.inv(iterate.matrices.collocation.Qmat[1:, 1:])

    def fill(self) -> None:
        """Fill the nodes, and set ``level.f[0]`` to the known u' at the start of the step, or to 0."""
        iterate, errors = self.iterate, self.errors
        L, P, k = iterate.level, iterate.problem, iterate.n_integrated
        u, du = iterate.stages.u, iterate.stages.du
        guess, polynomial = self.params.initial_guess, L.u[0].polynomial
        iterate.extrapolated = guess == "extrapolate" and reaches(polynomial, L.time + L.dt, k)
        if iterate.extrapolated:
            self.extrapolate()
        elif guess == "extrapolate" and errors is not None and polynomial is not None:
            # The last step was too short for its polynomial to be of use.
            u[:], du[:] = iterate.start_values, errors.du0
            du[:, P.n_diff :] = 0.0
            u[:, :k] += np.outer(iterate.matrices.offsets, du[0, :k])
        elif guess == "random":
            assert self.rng is not None
            u[:], du[:] = self.rng.random_sample(u.shape), self.rng.random_sample(du.shape)
            du[:, k:] = 0.0
        else:
            u[:] = 0.0 if guess == "zero" else iterate.start_values
            du[:] = 0.0
        if errors is not None:
            known = errors.du0.copy()
        else:
            known = np.zeros(P.n) if polynomial is None else polynomial.derivative_at_end()
        L.f[0] = attach(known, P.n_diff)
        iterate.place_start()

    def extrapolate(self) -> None:
        """Extrapolate the polynomial that the start value carries, or let the first sweep do it."""
        iterate = self.iterate
        L = iterate.level
        last = L.u[0].polynomial
        matrix = last.continuation(L.time, L.dt, iterate.matrices.nodes)
        continuation = Continuation(CONTINUE, len(last.nodes), matrix, last.value, last.derivative)
        if self._continues_algebraic_values:
            self._continue_algebraic_values(continuation)
        elif iterate.matrices.first_solved == 0 and self.params.initial_sweeps > 0 and iterate.stands_alone():
            iterate.pending = continuation
        else:
            iterate.prepare(iterate.stages)
            iterate.solver.run(continue_polynomial, last=continuation)
        iterate.stages.integral_known = True

    def _continue_algebraic_values(self, last: Continuation) -> None:
        """Extrapolate the polynomial of u', but for algebraic unknowns the polynomial of their values."""
        iterate = self.iterate
        stages, split = iterate.stages, iterate.problem.n_diff
        iterate.prepare(stages)
        iterate.solver.run(continue_polynomial, last=last)
        change = last.matrix @ last.value[:, split:] - iterate.start_values[split:]
        stages.du[:, split:] = (self._inverse / iterate.level.dt) @ change
        stages.u[:, split:] = iterate.start_values[split:] + change
        stages.integral[:, split:] = change

    def receive(self) -> None:
        """Take a new start value, which is another object, or one whose values a message has replaced."""
        iterate = self.iterate
        L, k = iterate.level, iterate.n_integrated
        u0 = L.u[0]
        if iterate.starts_at(u0):
            return
        if iterate.replaces and iterate.start is not None:
            raise InputError(
                f"the step from t={L.time:.6g} was given other nodes while the step before still changes; "
                f"AdaptivityCollocation needs one step at a time"
            )
        knew = bool(iterate.sweeps) or iterate.extrapolated
        if iterate.start_algebraic is not None and (L.level_index > 0 or not knew):
            # z is not integrated: a guess made for another start could lead to another solution branch.
            iterate.stages.u[:, k:] += u0.view(np.ndarray)[k:] - iterate.start_algebraic
        iterate.begin_at(u0)
        # The branch of the equations is that of the start, which may lie behind a switch only now.
        iterate.problem.start_step(u0, L.time)
        guesses = self.params.initial_guess == "extrapolate"
        known = u0.polynomial
        if not knew and guesses and reaches(known, L.time + L.dt, k) and known.settled:
            self.extrapolate()
            iterate.extrapolated = True
        iterate.place_start()
        # A sweep done ahead is void when the start changes, which it will in every later iteration too.
        iterate.may_run_ahead = False
        iterate.forget_ahead()
