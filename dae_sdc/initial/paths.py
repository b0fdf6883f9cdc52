"""Blocks of equations, solved by Newton's method or along paths from guesses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sparse

from dae_sdc.dae.linear import maximum_matching
from dae_sdc.dae.paths import MOST_PATH_UNKNOWNS, newton_homotopy
from dae_sdc.dae.projection import MOST_PROJECTION_STEPS, EquationFunctions, Projection, dense, project
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError
from dae_sdc.structure.blocks import Block, find_blocks
from dae_sdc.structure.signature import alternate

# FIRST_PART, LONGEST_PART, SHORTEST_PART: first part of a path, and the bounds of the parts, each of which is
# as long as Newton's method allows.
FIRST_PART = 0.125
LONGEST_PART = 0.25
SHORTEST_PART = 1e-5
# Part of the rest that is gone at once where the end is not reached, and the rest that is none.
TOWARDS_END, PATH_END = 0.875, 1e-12
MOST_PATH_POINTS = 200  # Largest number of points.
MOST_POINT_ITERATIONS = 12  # Largest number of iterations of Newton's method at a point.
EASY_ITERATIONS = 5  # Number of iterations up to which the next part is longer.
POINT_RESIDUAL = 1e-4  # Largest residual, relative to the terms, at points before the end.

# The point nearest to one, and begun at another, at which equations at a part of a path hold.
At = Callable[[float, Vector, Vector], Projection]


def continued(at: At, x: Vector) -> Projection | None:
    """The end of a path from values x at 0 to 1, with parts along secants first; None if it is lost."""
    place, part, before, most = 0.0, FIRST_PART, None, 1.0
    for _ in range(MOST_PATH_POINTS):
        goal = place + min(part, most * (1.0 - place))
        goal = goal if 1.0 - goal > PATH_END else 1.0
        ahead = x if before is None else x + (goal - place) / (place - before[0]) * (x - before[1])
        found = at(goal, x, ahead)
        if found.converged:
            before, place, x = (place, x), goal, found.x
            if place == 1.0:
                return found
            part = min(LONGEST_PART, part * (2.0 if found.iterations <= EASY_ITERATIONS else 1.0))
        elif part < SHORTEST_PART * (1.0 - place):
            return None
        else:
            most = TOWARDS_END if goal == 1.0 else most
            part = 0.25 * (goal - place)
    return None


@dataclass(frozen=True, eq=False)
class BlockEquations:
    """As many equations as values, and how they are solved."""

    equations: EquationFunctions
    sizes: Vector
    bounds: Any  # Shape (2, n); None if there are none.
    tolerance: float

    def solved(
        self, x: Vector, start: Vector | None = None, by: Vector | None = None, most: int | None = None
    ) -> Projection:
        """Values near others at which the equations hold, or are left with something."""
        on_path, equations = by is not None and bool(by.any()), self.equations
        if by is not None:

            def terms(y: Vector) -> Vector | None:
                sizes = self.equations.terms(y)
                return None if sizes is None else sizes + np.abs(by)

            equations = replace(equations, values=lambda y: self.equations.values(y) - by, terms=terms)
        return project(
            x,
            equations,
            weights=1.0 / self.sizes,
            start=start,
            sizes=self.sizes,
            bounds=self.bounds,
            tolerance=POINT_RESIDUAL if on_path else self.tolerance,
            most_iterations=most or (MOST_PROJECTION_STEPS if by is None else MOST_POINT_ITERATIONS),
        )

    def followed(self, x: Vector) -> tuple[Projection | None, str]:
        r"""The end of a path from guesses, and what it is called; None if all paths are lost.

        .. math:: F(x) = (1 - s) F(\tilde x), \qquad s F(x) + (1 - s) F'(\tilde x) (x - \tilde x) = 0
        """
        with np.errstate(all="ignore"):
            left = self.equations.values(x)
            if not np.isfinite(left).all():
                return None, ""
            found = continued(lambda s, near, ahead: self.solved(near, ahead, (1.0 - s) * left), x)
            if found is not None or x.size > MOST_PATH_UNKNOWNS:
                return found, "a Newton homotopy"
            slopes = dense(self.equations.jacobian(x))
            for name, matrix in (("a Newton homotopy", None), ("a fixed-point homotopy", slopes)):
                try:
                    end = newton_homotopy(
                        self._inside, lambda y: dense(self.equations.jacobian(y)), x, self.sizes, matrix
                    )
                except (DAEError, np.linalg.LinAlgError):
                    continue
                found = self.solved(end)
                if found.converged:
                    return found, name
        return None, ""

    def _inside(self, x: Vector) -> Vector:
        """The equations; NaN, at which a path has no point, beyond the bounds."""
        if self.bounds is not None and ((x < self.bounds[0]) | (x > self.bounds[1])).any():
            return np.full(x.size, np.nan)
        return self.equations.values(x)


def blocks_of(pattern: Any, waits: Any, alone: bool = False) -> list[Block]:
    """Blocks of equations that tell all values, in an order of solution; none where equations lack.

    With ``alone`` those that tell their values whatever all others are. An equation is solved for a value in
    whose slopes it has one, by the pattern, and waits for all others that it depends on.
    """
    chosen = maximum_matching(pattern.T).astype(np.int64)
    told = np.flatnonzero(chosen >= 0)
    if alone:
        partners = np.full(pattern.shape[0], -1)
        partners[chosen[told]] = told
        untold, _ = alternate(waits.T.tocsr(), np.flatnonzero(chosen < 0), partners)
        told = np.setdiff1d(told, untold)
    if told.size < (1 if alone else chosen.size):
        return []
    part = sparse.coo_matrix(waits[chosen[told]][:, told])
    at, of = part.row.astype(np.int64), part.col.astype(np.int64)
    blocks = find_blocks(at, of, np.arange(told.size))
    return [Block(chosen[told[block.rows]], told[block.cols]) for block in blocks]
