"""Steps of a given accuracy that are solved node by node: weights and error estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.linear import factorize
from dae_sdc.dae.newton_checks import directions
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector
from dae_sdc.errors import SolveError

SMALLEST_NODE_TOLERANCE = 1e-14  # Smallest tolerance of the solve at a node.
# Rounding error of multipliers at the stages, relative to that of one implicit step of the same size: the
# inverse nodes enter once or twice.
MULTIPLIER_AMPLIFICATION = 1000.0
# Likewise for other unknowns, into which the errors of multipliers are integrated.
AMPLIFICATION_OF_OTHERS = 10.0
# Part of the tolerance that rounding may take of unknowns that are no multipliers.
ROUNDING_SHARE = 0.01


class Operators(NamedTuple):
    """A kept iteration matrix dF/du' + c dF/du."""

    mass: Callable[[Vector], Vector]  # Function that multiplies a vector, shape (n,), by dF/du'.
    # Function that multiplies a vector, shape (n,), by the inverse of the iteration matrix.
    solve: Callable[[Vector], Vector]


def operators_at(problem: ProblemDAE, u: Vector, du: Vector, t: float, c: float) -> Operators:
    """The iteration matrix dF/du' + c dF/du, evaluated and factorised at a point."""
    parts = linearize(problem, u, du, t)
    solver = problem.linear_solver
    problem.work_counters["factorization"].niter += 1
    factors = factorize(parts.iteration_matrix(c, problem.n), "auto" if solver == "gmres" else solver)
    return Operators(lambda v: np.asarray(parts.mass @ v), factors.solve)


def multipliers(problem: ProblemDAE) -> npt.NDArray[np.bool_]:
    """Mask of unknowns whose rounding error short steps amplify: of index 2 and 3, or of one not known."""
    # From index 4 on short steps leave no correct digit of these unknowns.
    index = np.array(problem.variable_index)
    return np.asarray((problem.index is None) | (index > 1) & (index.max(initial=0) <= 3))


def rounding_noise(
    problem: ProblemDAE,
    u: Vector,
    du: Vector,
    t: float,
    c: float,
    which: npt.NDArray[np.bool_],
    by_sizes: bool = False,
) -> Vector | None:
    """Error of unknowns by rounding of F in an implicit step, of constants ``by_sizes``; None if singular."""
    # Shapes: u and du (n,), which (n,).
    try:
        parts = linearize(problem, u, du, t)
        factors = factorize(parts.iteration_matrix(c, problem.n), "auto")
    except SolveError:
        return None
    terms = parts.terms(u, du)
    if by_sizes and hasattr(problem, "residual_sizes"):
        terms = np.maximum(terms, problem.residual_sizes(u, du, t))
    found = [np.abs(factors.solve(c * problem.round_off * terms * one)) for one in directions(len(u))]
    largest_of_all = np.maximum(np.max(found, axis=0), np.finfo(float).tiny)
    return np.asarray(largest_of_all * np.where(which, MULTIPLIER_AMPLIFICATION, AMPLIFICATION_OF_OTHERS))
