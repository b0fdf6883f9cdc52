"""Equations and their derivatives along curves as equations for jets, and points at which they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from dae_sdc.deadline import check
from dae_sdc.jets.graph import GraphJets, Jet, differentiated, leaf_values
from dae_sdc.jets.projection import LinearRows
from dae_sdc.jets.scalars import Reals, many_digits, values_of
from dae_sdc.structure.rank import Floats

if TYPE_CHECKING:
    from dae_sdc.expressions.graph import Graph

# Unit of steps of unknowns, relative to that of derivatives, which are less well known.
STEP_OF_UNKNOWNS = 0.1
# Singular value, relative to the largest, of the scaled rows that counts as 0 in a step.
DEPENDENT_ROW = 1e-11
# Largest number of entries of a Jacobian that is decomposed by singular values.
LARGEST_DENSE_JACOBIAN = 100_000


class Prolongation(GraphJets):
    """Equations and their derivatives: row (i, m) is f_i^(m), column (j, k) x_j^(k)."""

    def __init__(
        self,
        graph: Graph,
        roots: Sequence[int],
        times: Sequence[int],
        highest: Sequence[int],
        unit: Callable[[Jet], float],
    ) -> None:
        self.source, self.roots, self.times, self.highest = graph, list(roots), list(times), list(highest)
        self.order, self.unit = max(0, *self.times), unit
        self.columns = [(j, k) for j, top in enumerate(highest) for k in range(top + 1)]
        # Of derivatives those that Taylor coefficients of the size of the unit have.
        self.units: Floats = np.array([factorial(k) * unit((j, k)) for j, k in self.columns])
        self.rows = [(i, m) for i, most in enumerate(self.times) for m in range(most + 1)]
        place = {jet: at for at, jet in enumerate(self.columns)}
        super().__init__(differentiated(graph, roots), [(roots[i], m) for i, m in self.rows], place, {})

    def scales(self, pace: float) -> Floats:
        """Units of steps, for unknowns that change in ``pace`` units of time."""
        # Steps change derivatives, of which little is known, rather than the unknowns themselves.
        steps = [STEP_OF_UNKNOWNS if k == 0 else pace**-k for _, k in self.columns]
        return np.asarray(self.units * np.array(steps))

    def least_squares(self, matrix: Any, scales: Floats) -> LinearRows:
        """Solver for rows of :meth:`matrix`, whose steps are of minimum norm in units of ``scales``."""
        return LinearRows(matrix, DEPENDENT_ROW, diagonal_shift=1e-12, scales=scales)

    def lowered(self, by: int, unit: Callable[[Jet], float] | None = None) -> Prolongation:
        """The prolongation with every equation differentiated ``by`` times less, perhaps in other units."""
        highest = [max(0, top - by) for top in self.highest]
        times = [most - by for most in self.times]
        return Prolongation(self.source, self.roots, times, highest, unit or self.unit)

    def residual(self, point: Point) -> Floats | None:
        """All rows at a point; None where one is not finite."""
        check()
        values = self.values(point.x, **point.known)
        return values if np.isfinite(values).all() else None

    def matrix(self, point: Point) -> tuple[Floats, Any] | None:
        """All rows, and their Jacobian matrix, at a point; None where one is not finite."""
        residual, matrix = self.residual(point), self.jacobian(point.x, **point.known)
        if residual is None or not np.isfinite(matrix.data).all():
            return None
        large = matrix.shape[0] * matrix.shape[1] > LARGEST_DENSE_JACOBIAN
        return residual, matrix.tocsr() if large else matrix.toarray()

    @cached_property
    def parameters(self) -> int:
        """Number of the parameters up to the last one in the equations."""
        leaves = self.graph.leaves_of(*self.roots)
        return max((leaf.index + 1 for leaf in leaves if leaf.kind == "p"), default=0)


@dataclass(eq=False)
class Point:
    """A point at which the rows of a prolongation vanish."""

    system: Prolongation  # The prolongation.
    x: Floats  # Shape (columns,). Values of unknowns and their derivatives.
    t: float  # Time.
    p: Sequence[float]  # Parameters.
    pace: float = 1.0  # Units of time in which unknowns were taken to change when the point was found.

    @cached_property
    def known(self) -> dict[str, Floats]:
        """Time and parameters; where there is none, one for which no expression vanishes by chance."""
        more = [0.7 + 0.013 * i for i in range(len(self.p), self.system.parameters)]
        return {"t": np.array([self.t]), "p": np.array([*self.p, *more], dtype=np.float64)}

    def numbers(self, context: Any, x: Sequence[Any]) -> Reals:
        """Arithmetic of a context with the values of leaves at x."""
        return Reals(context, leaf_values(self.system.place, self.known, x, context.mpf))

    @cached_property
    def digits(self) -> tuple[Any, list[Any]] | None:
        """Context of arithmetic with many digits, and x refined in it; None if the iteration fails."""
        context = many_digits()
        system = self.system
        made = system.matrix(self)
        if made is None:
            return None
        least = system.least_squares(made[1], system.scales(self.pace))
        x = [context.mpf(value) for value in self.x]
        goal = context.mpf(10) ** (10 - context.dps)
        size = 1 + float(np.max(np.abs(self.x) / system.units, initial=0.0))
        last = context.inf
        for _ in range(40):
            check()
            residual = values_of(system.graph, system.nodes, self.numbers(context, x))
            if residual is None:
                return None
            sizes = zip(residual, least.sizes.tolist(), strict=True)
            largest = max((abs(value) / size for value, size in sizes), default=context.mpf(0))
            if largest <= goal * size:
                return context, x
            if not largest < last:
                return None
            last = largest
            step = least.solve(np.array([-float(value / largest) for value in residual])).tolist()
            x = [value + largest * context.mpf(change) for value, change in zip(x, step, strict=True)]
        return None

    def evaluate(self, nodes: Sequence[int], exact: bool = False) -> list[Any] | None:
        """Values of expressions, in doubles or, if ``exact``, with many digits; None where one has none."""
        graph = self.system.source
        if not exact:
            values = graph.numeric(nodes, leaf_values(self.system.place, self.known, self.x))
            return values.tolist() if np.isfinite(values).all() else None
        return None if self.digits is None else values_of(graph, nodes, self.numbers(*self.digits))
