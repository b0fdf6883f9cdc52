"""Intersections of linear spaces with the solutions of polynomials, made regular by deflation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dae_sdc.polynomials.equations import Homotopy
from dae_sdc.polynomials.homotopy import ROOTS, combined
from dae_sdc.polynomials.polynomials import Complexes, Integers, PolynomialSystem
from dae_sdc.polynomials.slices import deflated, homogeneous_points, least_step, phase, relative_ranks
from dae_sdc.polynomials.tracking import ENDS, Booleans, Ends, follow, sizes

MOST_DEFLATIONS = 8
"""Largest number of deflations of a point, each of which lowers its multiplicity."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Solutions of polynomials on a linear space, in variables of size 1."""

    # The polynomials, after deflation if the solutions are singular, in N variables.
    system: PolynomialSystem
    variables: int  # Number n of the variables of the user, which come first.
    # Shape (k, N + 1). Linear forms in homogeneous coordinates that vanish on the linear space.
    slices: Complexes

    def refined(self, points: Complexes) -> tuple[Complexes, Booleans]:
        """Affine points refined by the Gauss-Newton method, shape (p, N), and which of them are regular."""
        x, size = points, 1.0 + sizes(points)
        linear, constant = self.slices[:, 1:], self.slices[:, 0]
        change = np.full(len(x), np.inf)
        for _ in range(4):
            values, jacobians = self.system.both(x)
            matrix = np.concatenate([jacobians, np.broadcast_to(linear, (len(x), *linear.shape))], axis=1)
            residual = np.concatenate([values, x @ linear.T + constant], axis=1)
            step = least_step(matrix, residual)
            x, change = x - step, sizes(step)
        good = (sizes(x - points) <= 100.0 * ENDS.same * size) & (change <= 1e-9 * size)
        homogeneous = self.system.homogenized()
        good &= relative_ranks(homogeneous, homogeneous_points(x), self.slices) == x.shape[1]
        return np.where(good[:, None], x, points), good

    def section(self, points: Complexes, random: np.random.Generator) -> Section:
        """The section at affine points, shape (p, N), with a random square system."""
        square = combined(self.system, self.system.variables - len(self.slices), random).homogenized()
        return Section(self.system, self.variables, self.slices, square, homogeneous_points(points))

    def resolved(
        self, points: Complexes, random: np.random.Generator, left: int = MOST_DEFLATIONS
    ) -> tuple[list[Section], Complexes]:
        """Sections of points made regular by deflation, and the points for which deflation fails."""
        # Shapes: points (p, N) -> (q, n).
        system, n, slices = self.system, self.variables, self.slices
        sections: list[Section] = []
        failed = [points[:0, :n]]
        ranks = relative_ranks(system.homogenized(), homogeneous_points(points))
        for rank in np.unique(ranks).tolist():
            here = points[ranks == rank]
            if left == 0:
                failed.append(here[:, :n])
                continue
            more = deflated(system, rank, random)
            added = more.variables - system.variables
            wider = Cut(more, n, np.hstack([slices, np.zeros((len(slices), added))]))
            # At given points the equations are linear in the new unknowns.
            start = np.hstack([here, np.zeros((len(here), added))])
            if added:
                values, matrix = more.both(start)
                start[:, system.variables :] = -least_step(matrix[:, :, system.variables :], values)
            better, good = wider.refined(start)
            if good.any():
                sections.append(wider.section(better[good], random))
            if not good.all():
                found, lost = wider.resolved(better[~good], random, left - 1)
                sections += found
                failed.append(lost)
        return sections, np.concatenate(failed)


@dataclass(frozen=True, eq=False)
class Section(Cut):
    """Points in which a linear space meets solutions of one dimension; :class:`Cut` with two parameters."""

    # Random combinations of the polynomials, in homogeneous coordinates, as many as make the points
    # isolated.
    square: PolynomialSystem
    points: Complexes  # Shape (p, N + 1). The points, in homogeneous coordinates of norm 1.

    def part(self, which: Integers) -> Section:
        """The section with some of its points only."""
        return Section(self.system, self.variables, self.slices, self.square, self.points[which])

    def affine(self, points: Complexes) -> Complexes:
        """Values of the variables of the user at homogeneous points, shape (p, n)."""
        found: Complexes = points[:, 1 : self.variables + 1] / points[:, :1]
        return found

    def moved(
        self, points: Complexes, before: Complexes, after: Complexes, gamma: complex, attempts: int = 1
    ) -> Ends:
        """Ends of the paths on which points move when the slices move."""
        # Shapes: points (p, N + 1), before (k, N + 1), after (k, N + 1) or (p, k, N + 1).
        targets = np.broadcast_to(after, (len(points), *self.slices.shape))
        homotopy = Homotopy.to(self.square, gamma, before=before, after=targets)
        return follow(homotopy, points, attempts=attempts)

    def contains(self, points: Complexes, random: np.random.Generator, close: float = ENDS.same) -> Booleans:
        """Whether points lie on the components that the section meets."""
        # Shapes: points (q, n).
        if len(self.slices) == 0:
            away = np.abs(points[:, None] - self.affine(self.points)[None]).max(axis=2).min(axis=1)
            return np.asarray(away <= close * (1.0 + sizes(points)), dtype=np.bool_)
        whole = np.zeros((len(points), self.slices.shape[1]), dtype=np.complex128)
        whole[:, 0], whole[:, 1 : self.variables + 1] = 1.0, points
        after = np.repeat(self.slices[None], len(points), axis=0)
        after[:, :, 0] -= whole @ self.slices.T
        count = len(self.points)
        starts, goals = np.tile(self.points, (len(points), 1)), np.repeat(after, count, axis=0)
        ends = self.moved(starts, self.slices, goals, phase(random), attempts=3)
        hit = np.zeros(len(starts), dtype=np.bool_)
        finite = ends.known & ~ends.far
        gaps = self.affine(ends.points[finite]) - np.repeat(points, count, axis=0)[finite]
        hit[finite] = sizes(gaps) <= close * (1.0 + sizes(np.repeat(points, count, axis=0)[finite]))
        found: Booleans = np.asarray(hit.reshape(len(points), count).any(axis=1), dtype=np.bool_)
        return found


def vanish(homogeneous: PolynomialSystem, points: Complexes) -> Booleans:
    """Whether all polynomials vanish at points of norm 1, shape (p,)."""
    found: Booleans = sizes(homogeneous.relative(points)[0]) <= ROOTS.residual_tolerance
    return found
