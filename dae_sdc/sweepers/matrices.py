"""The matrices Q and Q_Delta of a sweep, and both times the step size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pySDC.core.collocation import CollBase

from dae_sdc.dae.state import Vector


class SweepMatrices:
    """Q and Q_Delta of the sweeps of one sweeper, scaled by the step size when that changes."""

    # Shapes: qdelta (M + 1, M + 1), delta (M, M), dt_q and dt_delta (M, M), coefficients and offsets (M,).

    def __init__(
        self, collocation: CollBase, qdelta: Callable[[int], Vector], varies: Callable[[], bool]
    ) -> None:
        self.collocation, self._make = collocation, qdelta
        self.nodes: tuple[float, ...] = tuple(collocation.nodes.tolist())
        self.first_solved = 1 if collocation.left_is_node else 0
        self._set(1)
        self.varies = varies()

    def _set(self, sweep: int) -> None:
        self.qdelta = self._make(sweep)
        self._made_for = sweep
        self._use(self.qdelta[1:, 1:])

    def _use(self, delta: Vector) -> None:
        self.delta: Vector = np.ascontiguousarray(delta)
        self.diagonal = not np.tril(self.delta, -1).any()
        self.dt = 0.0

    def take(self, sweep: int) -> None:
        """Use the Q_Delta of a sweep of the step, counted from 1, where it changes from sweep to sweep."""
        if self.varies and self._made_for != sweep:
            self._set(sweep)

    def replace(self, delta: Vector) -> None:
        """Use another lower triangular matrix, shape (M, M), from now on."""
        self.qdelta[1:, 1:] = delta
        self._use(delta)

    def scale(self, dt: float) -> None:
        """Make the matrices times the step size, unless they are those already."""
        if dt != self.dt:
            self.dt = dt
            self.dt_q = np.ascontiguousarray(dt * self.collocation.Qmat[1:, 1:])
            self.dt_delta = dt * self.delta
            self.coefficients: Vector = np.diagonal(self.dt_delta).copy()
            self.offsets = dt * np.asarray(self.collocation.nodes)
