"""Derivatives and algebraic unknowns from the differential unknowns of equations of index 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.linear import factorize
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import SolveError


@dataclass(frozen=True)
class CompletionOptions:
    """Settings of :func:`complete`."""

    most_iterations: int = 25  # Largest number of steps of Newton's method.
    most_halvings: int = 12  # Largest number of times that a step is halved.
    # Correction, relative to 1 + the value, at which the iteration has converged.
    newton_correction_tolerance: float = 1e-12
    # Part of the predicted decrease of the residual that a step must achieve.
    sufficient_decrease: float = 1e-4


COMPLETION = CompletionOptions()


def complete(problem: ProblemDAE, u: Vector, du: Vector, t: float) -> tuple[Vector, Vector] | None:
    r"""Solve F(t, u, u') = 0 for the derivatives of the differential unknowns and the algebraic unknowns."""
    # Shapes: u and du (n,) -> u, du (n,).
    first = problem.n_diff
    place, slope = np.array(u, dtype=np.float64), np.array(du, dtype=np.float64)
    residual = problem.evaluate(attach(place, first), attach(slope, first), t).copy()
    for _ in range(COMPLETION.most_iterations):
        if not np.isfinite(residual).all():
            return None
        try:
            halves = linearize(problem, attach(place, first), attach(slope, first), t)
            change = -factorize(halves.iteration_matrix(0.0, first)).solve(residual)
        except SolveError:
            return None
        sizes = 1.0 + np.abs(np.concatenate([slope[:first], place[first:]]))
        if bool((np.abs(change) <= COMPLETION.newton_correction_tolerance * sizes).all()):
            return place, slope
        now, part = float(np.abs(residual).max()), 1.0
        for _ in range(COMPLETION.most_halvings):
            new_place, new_slope = place.copy(), slope.copy()
            new_slope[:first] += part * change[:first]
            new_place[first:] += part * change[first:]
            found = problem.evaluate(attach(new_place, first), attach(new_slope, first), t).copy()
            if float(np.abs(found).max()) <= (1.0 - COMPLETION.sufficient_decrease * part) * now:
                break
            part *= 0.5
        else:
            # No improvement means divergence or round-off: with small corrections it is round-off.
            small = np.abs(change) <= np.sqrt(COMPLETION.newton_correction_tolerance) * sizes
            return (place, slope) if bool(small.all()) else None
        place, slope, residual = new_place, new_slope, found
    return None
