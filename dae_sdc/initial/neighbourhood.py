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
from dae_sdc.dae.projection import TERM_ROUND_OFF, dense
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import DAEError
from dae_sdc.jets.differences import monomials

DISPLACEMENT = 0.01  # Distance of the points from the start, in sizes of the unknowns.
LATER = 0.1  # Time between the points, in units of that in which the solution changes by its size.
# Number of unknowns above which points where F = 0 are not sought, and no matrix is dense.
MOST_DENSE_UNKNOWNS = 100
MOST_CORRECTIONS = 12  # Steps of Newton's method to a point at which F = 0.
HELD = 1e-9  # Distance from such a point, in sizes of the unknowns, that counts as none.
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
        begin_scales(
            self.problem,
            attach(np.array(u, dtype=np.float64), problem.n_diff),
            t,
            problem.interval[1] - problem.interval[0],
            USUAL_TOLERANCE,
        )
        scales = self.problem.run_scales
        self.time = self.natural = scales.time
        self.sizes = np.maximum(scales.rates * scales.time, np.abs(u))
        with suppress(DAEError):
            # For this time both halves of the Jacobian have rows of the same size in the mean.
            halves = self.halves(self.t, self.point(0)[0], np.zeros(self.n), accurate=False)
            of_mass, of_stiffness = (dense(abs(half).max(axis=1)).ravel() for half in halves)
            both = (of_mass > 0.0) & (of_stiffness > 0.0)
            ratios = self.time * of_mass[both] / of_stiffness[both]
            self.natural = float(np.exp(np.log(ratios).mean())) if both.any() else self.time
            self.time = min(self.time, self.natural)

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
        self,
        t: float,
        u: Vector,
        du: Vector,
        distances: Vector | None = None,
        known: tuple[Any, Any] | None = None,
    ) -> tuple[Vector, Vector]:
        """States and rates on a curve near u(t + s) = u + s u' along which F = 0, for the distances s.

        Elsewhere Jacobians of equations with factors that depend on u hold the derivatives of these times F,
        and what equations in other combinations would not show. The curve is a polynomial with a coefficient
        more than distances, the nearest by Newton's method; the line itself where that fails, or n is large.
        """
        # Shapes: u and du (n,), distances (K,) -> u, du (K, n).
        places = np.zeros(1) if distances is None else distances
        unit = float(np.abs(places).max()) or 1.0
        values, rates = monomials(places / unit, len(places) + 1)
        rates /= unit
        x = np.zeros((len(places) + 1, self.n))
        x[0], x[1] = u / self.sizes, unit * self.time / self.sizes * du
        line = x.copy()
        norms: list[Vector] = []
        for _ in range(MOST_CORRECTIONS if self.n * len(places) <= MOST_DENSE_UNKNOWNS else 0):
            points = [
                (t + s * self.time, self.sizes * (value @ x), self.sizes / self.time * (rate @ x))
                for value, rate, s in zip(values, rates, places.tolist(), strict=True)
            ]
            n, at_points = self.problem.n_diff, self.problem.evaluate
            left = [np.array(at_points(attach(a, n), attach(b, n), time)) for time, a, b in points]
            # The norms of the rows, which the last Jacobians tell well enough, need no new ones.
            if norms and np.abs(np.array(left) / norms).max() <= HELD:
                line = x
                break
            rows, norms = [], []
            for value, rate, at in zip(values, rates, points, strict=True):
                mass, stiffness = map(dense, self.halves(*at) if known is None else known)
                block = np.concatenate(
                    [a * stiffness + r * mass for a, r in zip(value, rate, strict=True)], axis=1
                )
                norms.append(np.maximum(np.linalg.norm(block, axis=1), np.finfo(float).tiny))
                rows.append(block / norms[-1][:, None])
            defect = np.concatenate([value / norm for value, norm in zip(left, norms, strict=True)])
            if not np.isfinite(defect).all() or not np.isfinite(rows).all():
                break
            known = None
            change = np.linalg.lstsq(np.concatenate(rows), defect, rcond=TERM_ROUND_OFF)[0]
            x = x - change.reshape(x.shape)
        states, slopes = self.sizes * (values @ line), self.sizes / self.time * (rates @ line)
        return (states, slopes) if distances is not None else (states[0], slopes[0])


def in_sizes(matrix: Any, sizes: Vector) -> Any:
    """A matrix whose columns are multiplied by sizes."""
    return matrix @ sparse.diags_array(sizes) if sparse.issparse(matrix) else matrix * sizes
