"""The modified Newton iteration of steps with the good update of Broyden on its kept matrices."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

from dae_sdc.dae.newton import ImplicitSystem, ModifiedNewton
from dae_sdc.dae.state import Vector
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.sweepers import runge_kutta, solvers

MOST_PAIRS = 10  # Most updates of one factorisation
SMALLEST_DENOMINATOR = 1e-8  # Size of s^T H y relative to s^T s below which a matrix is not updated


class UpdatedNewton(ModifiedNewton):
    """A modified Newton iteration whose kept matrices get the good update of Broyden in every iteration.

    H_k+1 g = H_k g - v_k (s_k^T H_k g) / (s_k^T H_k y_k) with v_k = H_k F_k+1, in the weights of the
    unknowns, so that an update costs two inner products. Updates of a solve are dropped when it ends, in a
    subclass they stay until a matrix is factorised anew.
    """

    stays = False

    def __init__(self, *values: Any, **settings: Any) -> None:
        super().__init__(*values, **settings)
        self._pairs: dict[int, list[tuple[Vector, Vector]]] = {}

    def solve(self, system: ImplicitSystem) -> None:
        self._last: tuple[Vector, Any] | None = None
        if not self.stays:
            self._pairs.clear()
        super().solve(system)

    def factor(self) -> bool:
        self._pairs.pop(id(self.matrix), None)
        return super().factor()

    def restore(self) -> None:
        super().restore()
        self._last = None

    def correct(self) -> float:
        self._residual = self._system.residual()
        pairs = self._pairs.setdefault(id(self.matrix), [])
        delta = self._solved(self._residual)
        allowed = self._system.tolerated(1.0)
        squared = np.where((allowed > 0.0) & np.isfinite(allowed), allowed, 1.0) ** -2.0
        for s, r in pairs:
            delta = delta + r * ((s * squared) @ delta)
        if self._last is not None and self._last[1] is self.matrix and len(pairs) < MOST_PAIRS:
            s = -self._last[0]
            weighted = s * squared
            product = weighted @ (delta + s)
            if abs(product) > SMALLEST_DENOMINATOR * (weighted @ s):
                r = -delta / product
                pairs.append((s, r))
                delta = delta + r * (weighted @ delta)
        self._delta = delta
        self._last = delta.copy(), self.matrix
        size = self._system.size(delta)
        self._history.append(size)
        return size


class LastingNewton(UpdatedNewton):
    """An :class:`UpdatedNewton` whose updates stay until a matrix is factorised anew."""

    stays = True


# Iterations by name
KINDS = {"ours": ModifiedNewton, "BGM in solve": UpdatedNewton, "BGM stays": LastingNewton}


def counted(kind: str, problem: str, sweeper: str) -> Solution:
    """A run at rtol = 1e-6 with an iteration in Python."""
    how: dict[str, Any] = {} if sweeper == "esdirk43" else {"backend": "numpy"}
    with ExitStack() as patches:
        for module in (solvers, runge_kutta):
            patches.enter_context(patch.object(module, "ModifiedNewton", KINDS[kind]))
        return solve(problem, sweeper=sweeper, rtol=1e-6, **how)
