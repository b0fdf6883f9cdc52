"""Equations of a model solved with many digits, where double precision does not tell solutions apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.expressions.dag import Leaf
from dae_sdc.initial.jets import Part
from dae_sdc.initial.parts import leaf_values
from dae_sdc.structure.prolongation import Tape
from dae_sdc.structure.series import RealArithmetic, many_digits

MOST_NEWTON_STEPS = 80  # Largest number of steps of Newton's method.
# Step, relative to 1 + the values, at which Newton's method has converged quadratically.
CONVERGED_STEP = 1e-45


class ManyDigits:
    """Equations with exact coefficients, solved for some values with many decimal digits."""

    # Shapes: x (jets,).

    def __init__(self, part: Part, cols: Sequence[int], x: Vector) -> None:
        system = part.system
        self._context = many_digits()
        self._tape = Tape(system.model.graph, [*part.roots, *part.slopes.values()])
        self._slopes = len(part.slopes)
        self._known = leaf_values(system, x)
        self._place = {system.jets[j]: at for at, j in enumerate(cols)}
        place = {j: at for at, j in enumerate(cols)}
        self._entries = [(e, i, place[j]) for e, (i, j) in enumerate(part.pattern) if j in place]

    def solve(self, start: Vector) -> Vector | None:
        """The solution by Newton's method, rounded; None if that does not converge quadratically."""
        mp, n, ring = self._context, len(self._place), RealArithmetic(0, self._context)
        y = [mp.mpf(float(value)) for value in start]

        def series(leaf: Leaf) -> list[Any]:
            at = self._place.get((leaf.index, leaf.order)) if leaf.kind == "u" else None
            return [mp.mpf(self._known(leaf)) if at is None else y[at]]

        for _ in range(MOST_NEWTON_STEPS):
            found = [one[0] for one in self._tape.evaluate(ring, series) if one is not None]
            if len(found) < n + self._slopes:
                return None
            matrix = mp.zeros(n, n)
            for e, i, at in self._entries:
                matrix[i, at] = found[n + e]
            try:
                step = mp.lu_solve(matrix, mp.matrix(found[:n]))
            except (ZeroDivisionError, ValueError, TypeError):  # singular
                return None
            y = [a - b for a, b in zip(y, step, strict=True)]
            if max(abs(b) for b in step) <= CONVERGED_STEP * (1 + max(abs(a) for a in y)):
                return np.array([float(a) for a in y])
        return None
