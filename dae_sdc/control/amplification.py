"""Whether a method lets errors of the state grow from step to step, where the kernel of dF/du' turns."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from pySDC.core.hooks import Hooks

from dae_sdc.dae.state import Vector
from dae_sdc.errors import EvaluationError, StepSizeError
from dae_sdc.sweepers.amplification import (
    AmplificationOptions,
    Piece,
    amplification,
    pencil_index,
)


class WatchAmplification(Hooks):  # type: ignore[misc]
    """Ends a run whose method lets errors grow in every step, which no estimate of one step can see.

    Where the kernel of dF/du' is the same at all times, Runge-Kutta methods forget errors of algebraic
    unknowns within some steps. Where it turns, at index 2 and higher, the step map has an eigenvalue that
    does not tend to 1 with h, and at index 3 it may grow like 1 / h: the numerical solution leaves the true
    one exponentially in the number of steps, smoothly, so that error estimates, which compare two solutions
    of one step, stay small. The eigenvalue is calculated after 1, 2, 4, 8, ... accepted steps, for problems
    whose ``index`` is 2 or more or not given.

    References
    ----------
    K. Brenan, S. Campbell, L. Petzold, Numerical Solution of Initial-Value Problems in Differential-Algebraic
    Equations, SIAM (1996), sec. 3.2; R. Maerz, Numerical methods for differential algebraic equations, Acta
    Numerica 1 (1992) 141.
    """

    options = AmplificationOptions()

    def __init__(self) -> None:
        super().__init__()
        self._accepted, self._next = 0, 1

    def post_step(self, step: Any, level_number: int) -> None:
        """Check an accepted step.

        Raises
        ------
        StepSizeError
            If errors would grow by more than ``most_growth`` in twice the steps so far.
        """
        super().post_step(step, level_number)
        if step.status.get("restart"):
            return
        self._accepted += 1
        if self._accepted != self._next:
            return
        self._next *= 2
        L = step.levels[0]
        coefficients = getattr(L.sweep, "step_coefficients", None)
        problem, h = L.prob, float(L.dt)
        if coefficients is None or L.uend is None or problem.n > self.options.most_unknowns:
            self._next = 0
            return
        start = L.u[0].view(np.ndarray)
        piece = Piece(
            problem, float(L.time), start.copy(), (L.uend.view(np.ndarray) - start) / h, self.options
        )
        growth = 1.0
        try:
            if self._accepted == 1 and _fixed(piece):
                self._next = 0
                return
            A, c = coefficients
            growth = self._growth(piece, A, c, h)
        except EvaluationError:
            return
        if growth > self.options.least_growth and 2 * self._accepted * log(growth) > log(
            self.options.most_growth
        ):
            raise StepSizeError(
                f"errors grow by a factor of {growth:.2g} in every step at t={L.time:.6g}, however short: "
                f"the kernel of dF/du' turns with time, the index is at least 2; reduce the index, or take "
                f"unknowns of which dF/du' has the same kernel at all times"
            )

    def _growth(self, piece: Piece, A: Vector, c: Vector, h: float) -> float:
        """Amplification of a step that does not vanish with the step size; 1 where there is none."""
        options, problem = self.options, piece.problem
        mass, stiffness = piece.mass(piece.t0), piece.stiffness(piece.t0)
        index = max(problem.index or 0, pencil_index(mass, stiffness, options) or 0)
        if index < 2:
            return 1.0
        scale = float(np.linalg.norm(mass) / max(float(np.linalg.norm(stiffness)), np.finfo(float).tiny))
        h = max(h, scale * options.noise ** (1.0 / index) / options.shorter)
        if not piece.turns(mass, piece.mass(piece.t0 + h)):
            return 1.0
        long = amplification(piece, A, c, h)
        short = amplification(piece, A, c, options.shorter * h)
        # Growth of the solution itself is that much smaller in a step that is so much shorter.
        grows = (
            long > options.least_growth and log(short) > 0.5 * log(min(long, 1e100)) if short > 1.0 else False
        )
        return min(long, short) if grows else 1.0


def _fixed(piece: Piece) -> bool:
    """Whether the kernel of dF/du' cannot turn, or the index is too low for errors to grow."""
    problem = piece.problem
    if problem.index in (0, 1) or problem.constant_mass:
        return True
    mass, split = piece.mass(piece.t0), problem.n_diff
    return not mass[:, split:].any() and not piece.kernel(mass[:, :split]).size
