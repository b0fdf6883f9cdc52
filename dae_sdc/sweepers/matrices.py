"""The matrices Q and Q_Delta of a sweep, and both times the step size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pySDC.core.collocation import CollBase

from dae_sdc.dae.state import Vector


class SweepMatrices:
    """Q and Q_Delta of the sweeps of one sweeper, scaled by the step size when that changes.

    Parameters
    ----------
    collocation : CollBase
        pySDC's collocation with M nodes.
    qdelta : callable
        Function that takes the number of a sweep, from 1, and gives its Q_Delta with pySDC's row and column
        for the start of the step, shape (M + 1, M + 1).
    varies : callable
        Function that says whether Q_Delta changes from sweep to sweep; called after ``qdelta``.

    Attributes
    ----------
    nodes : tuple of float
        The M nodes in [0, 1].
    first_solved : int
        First node that is solved for: 1 where a node is the start of the step, whose value is given.
    qdelta : ndarray, shape (M + 1, M + 1)
        Current Q_Delta with pySDC's row and column for the start of the step.
    delta : ndarray, shape (M, M)
        Current Q_Delta.
    diagonal : bool
        Whether Q_Delta is diagonal.
    dt : float
        Step size of the scaled matrices; 0 if they must be made anew.
    dt_q, dt_delta : ndarray, shape (M, M)
        dt Q and dt Q_Delta.
    coefficients, offsets : ndarray, shape (M,)
        The diagonal of dt Q_Delta, and times of the nodes since the start of the step.
    """

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
