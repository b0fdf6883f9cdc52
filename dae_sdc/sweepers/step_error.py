"""Steps of a given accuracy that are solved node by node: weights and error estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.linear import factorize, largest
from dae_sdc.dae.newton_checks import directions
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import SolveError
from dae_sdc.sweepers.tolerance import Tolerance, collocation_goal, newton_share

# Allowed error of the solve at one node, relative to that of the iteration over the step.
NODE_SHARE = 0.003
# SMALLEST_NODE_TOLERANCE, LARGEST_NODE_TOLERANCE: bounds of the tolerance of the solve at a node.
SMALLEST_NODE_TOLERANCE = 1e-14
LARGEST_NODE_TOLERANCE = 1e-3
# Relative change of u by rounding, in units of the round-off of the equations.
ROUND_OFF_CHANGE = 10.0
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
    problem: ProblemDAE, u: Vector, du: Vector, t: float, c: float, which: npt.NDArray[np.bool_]
) -> Vector | None:
    """Error of the unknowns by rounding of F in an implicit step; None if the matrix is singular."""
    # Shapes: u and du (n,), which (n,).
    try:
        parts = linearize(problem, u, du, t)
        factors = factorize(parts.iteration_matrix(c, problem.n), "auto")
    except SolveError:
        return None
    terms = abs(parts.mass) @ np.abs(du) + abs(parts.stiffness) @ np.abs(u)
    found = [np.abs(factors.solve(c * problem.round_off * terms * one)) for one in directions(len(u))]
    largest_of_all = np.maximum(np.max(found, axis=0), np.finfo(float).tiny)
    return np.asarray(largest_of_all * np.where(which, MULTIPLIER_AMPLIFICATION, AMPLIFICATION_OF_OTHERS))


def only_rounding(
    problem: ProblemDAE, change: Vector, weights: Vector, which: Any, share: float, points: Iterable[Any]
) -> bool:
    """Whether unknowns still change only by what rounding of F explains, beside a share of the tolerance."""
    # The weights of multipliers are then lowered to the accuracy that can be reached: their rounding grows
    # like 1 / dt or faster. That of other unknowns has to stay far below the tolerance.
    # Shapes: change (M, n), weights (n,), which (n,).
    change = np.abs(change)
    if not which.any() or not np.isfinite(change).all():
        return False
    with np.errstate(over="ignore"):
        others = np.where(which, 0.0, np.square(change * weights))
    if not others.sum(axis=1).max() <= problem.n * max(share, ROUNDING_SHARE) ** 2:
        return False
    largest_noise = np.zeros(problem.n)
    for rows, u, du, t, c in points:
        noise = rounding_noise(problem, u, du, t, c, which)
        if noise is None:
            return False
        larger = change[rows] > noise
        left = np.where(larger, others[rows], 0.0).sum(axis=-1)
        if larger[..., which].any() or not left.max() <= problem.n * share**2:
            return False
        np.maximum(largest_noise, noise, out=largest_noise)
    weights[which] = np.minimum(weights[which], 1.0 / largest_noise[which])
    return True


class StepError:
    """Weights and error estimates of the steps of a sweeper with the nodes of Radau IIA."""

    # Shapes: weights (n,), du0 (n,).

    def __init__(self, problem: ProblemDAE, tolerance: Tolerance, num_nodes: int) -> None:
        # The estimate of Radau IIA with M nodes has order M + 1, the method 2 M - 1.
        self.problem, self.order = problem, num_nodes + 1
        goal = collocation_goal(problem, tolerance.rtol, num_nodes, 2 * num_nodes - 1)
        self.index, factor, self.slack = goal
        self.share = newton_share(tolerance.rtol, factor, self.index, problem.round_off)
        self._rule = tolerance.weights_of(problem, factor)
        self.weights, self.du0 = np.ones(problem.n), np.zeros(problem.n)
        self.first = True
        self._rejected_at = np.nan

    def begin(self, u0: MeshDAE, h: float) -> None:
        """Begin a step of size h at ``u0``: set the weights and u' at the start."""
        self.first = u0.polynomial is None
        self.du0 = u0.derivative()
        du0 = None if self.first else self.du0
        self._rule.fill(u0.view(np.ndarray), h, self.weights, du0, floor=not self.first)

    def round_off(self, least_node: float) -> float:
        """Weighted size of a change by round-off, where ``least_node`` is the first node in [0, 1]."""
        # Each hidden differentiation of a constraint divides round-off by that node and by dt, as weights do.
        change = ROUND_OFF_CHANGE * self.problem.round_off
        return change * least_node ** (1 - max(self.index, 1)) / self._rule.rtol

    @property
    def unit(self) -> float:
        """The factor that turns weights of errors into weights of relative changes."""
        return self._rule.rtol

    @property
    def newton_tolerance(self) -> float:
        """Tolerance of a solve at a node, for corrections measured by :attr:`weights` times :attr:`unit`."""
        return self.at_least(min(LARGEST_NODE_TOLERANCE, NODE_SHARE * self.share * self.unit))

    @staticmethod
    def at_least(tolerance: float) -> float:
        """The tolerance of a solve at a node, raised to the smallest that is allowed."""
        return max(SMALLEST_NODE_TOLERANCE, tolerance)

    def starting_step(self, u0: MeshDAE, t0: float, span: float, gamma: float) -> float:
        """A size for the first step, see :meth:`~dae_sdc.sweepers.tolerance.Weights.first_step`."""
        return self._rule.first_step(
            u0.view(np.ndarray), span, self.weights, lambda step: self._slope(u0, t0, gamma * step)
        )

    def _slope(self, u0: MeshDAE, t0: float, c: float) -> float:
        """Weighted norm of u' by an implicit step with coefficient c; infinite if it cannot be solved."""
        slope = np.zeros(self.problem.n)
        try:
            value = self.problem.evaluate(u0, slope, t0).copy()
            made = operators_at(self.problem, u0.view(np.ndarray), slope, t0, c)
        except SolveError:
            return np.inf
        return self.norm(made.solve(value))

    def norm(self, error: Vector) -> float:
        """Weighted root mean square; infinite where something is not finite."""
        with np.errstate(all="ignore"):
            scaled = error * self.weights
            square = float(scaled @ scaled)
        return sqrt(square / len(scaled)) if square < np.inf else np.inf

    def filtered(self, error: Vector, made: Operators, time: float) -> tuple[float, int]:
        """Norm of an error after multiplication by the inverse iteration matrix, and its worst unknown."""
        # In a first step, and in one that would be rejected again, the error is filtered a second time:
        # otherwise stiff components, and the defect that the last step left in constraints, would reject the
        # step without need.
        if not largest(error) < np.inf:
            return np.inf, 0
        solves = self.problem.work_counters["solve"]
        error = made.solve(error)
        solves.niter += 1
        size = self.norm(error)
        if size < 1.0:
            if not self.first:
                self._rule.see(error)
            return size, 0
        if self.first or self._rejected_at == time:
            error = made.solve(made.mass(error))
            solves.niter += 1
            size = self.norm(error)
        if not size <= 1.0:
            self._rejected_at = time
        worst = int(np.argmax(np.abs(error * self.weights))) if size < np.inf else 0
        return size, worst
