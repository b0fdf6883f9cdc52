"""Points near a start at which equations are linearised, in sizes of their unknowns and of time."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sparse

from dae_sdc.dae.consistency import begin_scales
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.projection import EquationFunctions, dense, project
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import DAEError

DISPLACEMENT = 0.01  # Distance of the points from the start, in sizes of the unknowns.
LATER = 0.1  # Time between the points, in units of that in which the solution changes by its size.
# Number of unknowns above which points where F = 0 are not sought, and no matrix is dense.
MOST_DENSE_UNKNOWNS = 100
MOST_CORRECTIONS = 4  # Steps to a point at which F = 0, before those of Newton's method alone.
AT_REST = 100.0  # Part of other terms below which an unknown is at rest in all its equations.
TINY = float(np.finfo(float).tiny)
USUAL_TOLERANCE = 1e-6  # Relative tolerance of the run for which sizes are taken.


class Neighbourhood:
    """Equations near a start, with the sizes that the balance of their terms gives unknowns and time.

    What is computed here does not depend on the units of the unknowns, the equations and the time.
    """

    # Shapes: u (n,), sizes (n,).

    def __init__(self, problem: ProblemDAE, t: float, u: Vector) -> None:
        self.problem = copy.copy(problem)
        self.problem.__dict__.pop("run_scales", None)
        self.t, self.u, self.n = t, u, problem.n
        state = attach(np.array(u, dtype=np.float64), problem.n_diff)
        begin_scales(self.problem, state, t, problem.interval[1] - problem.interval[0], USUAL_TOLERANCE)
        scales = self.problem.run_scales
        self.time = self.natural = scales.time
        self.sizes = np.maximum(scales.rates * scales.time, np.abs(u))
        with suppress(DAEError):
            halves = self.halves(self.t, self.point(0)[0], np.zeros(self.n), accurate=False)
            # For this time both halves of the Jacobian have rows of the same size in the mean.
            of_mass, of_stiffness = (dense(abs(half).max(axis=1)).ravel() for half in halves)
            both = (of_mass > 0.0) & (of_stiffness > 0.0)
            ratios = self.time * of_mass[both] / of_stiffness[both]
            self.natural = float(np.exp(np.log(ratios).mean())) if both.any() else self.time
            # Sizes of unknowns at rest are those at which they would be terms like others in an equation.
            rows = np.maximum(of_mass * self.time / self.natural, of_stiffness)
            entries, larger = sparse.coo_matrix(halves[1]), np.full(self.n, np.inf)
            np.minimum.at(larger, entries.col, rows[entries.row] / np.maximum(abs(entries.data), TINY))
            self.time, plain = min(self.time, self.natural), self.sizes
            self.sizes = plain * np.where(np.isfinite(larger) & (larger > AT_REST), larger, 1.0)
            try:
                self.halves(self.t, *self.point(0), accurate=False)
            except DAEError:  # Far from the start the equations may have no values.
                self.sizes = plain

    def typical(self, jets: Sequence[tuple[int, int]]) -> Vector:
        """Sizes of unknowns and their derivatives, shape (jets,); NaN for unknowns that a repair adds."""
        sizes = np.append(self.sizes, np.nan)
        return np.array([sizes[min(j, self.n)] / self.time**k for j, k in jets])

    def later(self, number: int) -> float:
        """A time at or after the start."""
        return self.t + LATER * number * self.time

    def point(self, number: int) -> tuple[Vector, Vector]:
        """A state beside the start and a rate, different in every entry and for every ``number``."""
        places = np.arange(self.n)
        displacement = DISPLACEMENT * np.cos(1.0 + 2.0 * places + number)
        slope = np.sin(1.0 + 3.0 * places + number)
        return self.u + self.sizes * displacement, self.sizes / self.time * slope

    def halves(self, t: float, u: Vector, du: Vector, accurate: bool = True) -> tuple[Any, Any]:
        """dF/du' and dF/du with respect to unknowns and rates in their sizes, shape (n, n) each.

        Entries of less accurate ones have half the digits where they are differences.
        """
        first = self.problem.n_diff
        state, slope = attach(np.array(u), first), attach(np.array(du), first)
        parts = linearize(self.problem, state, slope, t, accurate=accurate)
        return in_sizes(parts.mass, self.sizes / self.time), in_sizes(parts.stiffness, self.sizes)

    def where_they_hold(
        self, t: float, u: Vector, du: Vector, known: tuple[Any, Any] | None = None
    ) -> tuple[Vector, Vector]:
        """A state and a rate near given ones at which F = 0; those themselves where none are found.

        Elsewhere Jacobians of equations with factors that depend on u hold the derivatives of these times F,
        and what equations in other combinations would not show. ``known`` are the :meth:`halves` there.
        """
        # Shapes: u and du (n,).
        first, sizes = self.problem.n_diff, np.concatenate([self.sizes, self.sizes / self.time])
        given = np.concatenate([u, du]) / sizes

        def values(x: Vector) -> Vector:
            state, slope = np.split(x * sizes, 2)
            return np.array(self.problem.evaluate(attach(state, first), attach(slope, first), t))

        def jacobian(x: Vector) -> Vector:
            state, slope = np.split(x * sizes, 2)
            at_given = np.array_equal(x, given)
            mass, stiffness = known if known and at_given else self.halves(t, state, slope)
            return np.concatenate([dense(stiffness), dense(mass)], axis=1)

        if self.n > MOST_DENSE_UNKNOWNS:
            return u, du
        found = project(given, EquationFunctions(values, jacobian), most_iterations=MOST_CORRECTIONS)
        state, slope = np.split(found.x * sizes, 2)
        return (state, slope) if found.converged else (u, du)


def in_sizes(matrix: Any, sizes: Vector) -> Any:
    """A matrix whose columns are multiplied by sizes."""
    return matrix @ sparse.diags_array(sizes) if sparse.issparse(matrix) else matrix * sizes
