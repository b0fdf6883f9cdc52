"""Who computes at which node: the one thing that differs between serial and parallel sweeps."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dae_sdc.dae.polynomial import StepPolynomial, Vector
from dae_sdc.dae.state import MeshDAE, attach

OK, SWEEP_FAILED, RESIDUAL_FAILED = 0.0, 1.0, 2.0
"""What a process says of its nodes beside their values."""


class Stages:
    """The values of a step at all M nodes: one row of numbers a node, and views of it.

    A row holds u, u' and two notes: the norm of the residual at the node, and whether the process that owns
    it failed. With z the unknowns that are not integrated and U the derivatives of those that are, [z, U]
    are neighbours in a row, so that a message takes what a node has solved for from where it lies.

    Parameters
    ----------
    nodes : tuple of float
        The M nodes in [0, 1].
    n, n_diff, n_integrated : int
        Number of unknowns, of differential ones and of integrated ones.
    time, dt : float
        Start and size of the step.
    """

    def __init__(
        self, nodes: tuple[float, ...], n: int, n_diff: int, n_integrated: int, time: float, dt: float
    ) -> None:
        self.rows = np.empty((len(nodes), 2 * n + 2))
        self.u, self.du = self.rows[:, :n], self.rows[:, n : 2 * n]
        self.integrated = self.du[:, :n_integrated]
        self.du[:, n_integrated:] = 0.0
        self.norms, self.states = self.rows[:, 2 * n], self.rows[:, 2 * n + 1]
        self.values: list[MeshDAE] = [attach(row, n_diff) for row in self.u]
        self.derivatives: list[MeshDAE] = [attach(row, n_diff) for row in self.du]
        self.integral = np.empty((len(nodes), n_integrated))
        self.integral_known = False
        self.polynomial = StepPolynomial(time, dt, nodes, self.u, self.du, n_integrated)


class NodeCommunicator(Protocol):
    """The nodes this process owns, and what needs those of the others."""

    rank: int
    size: int
    owned: range

    def exchange(self, stages: Stages) -> None:
        """Bring the rows of the owned nodes to all processes and theirs here."""
        ...

    def exchange_notes(self, stages: Stages) -> None:
        """The same for the notes of the rows alone."""
        ...

    def settle(self, failure: BaseException | None) -> None:
        """Raise on all processes what was raised on one; all call it."""
        ...

    def from_last(self, value: float) -> float:
        """The value of the process that owns the last node; all call it."""
        ...

    def share(self, rows: Vector) -> None:
        """Complete an array of one row a node from the owned rows of all processes."""
        ...


class SerialNodes:
    """All nodes in this process.

    Parameters
    ----------
    num_nodes : int
        M.
    """

    rank, size = 0, 1

    def __init__(self, num_nodes: int) -> None:
        self.owned = range(num_nodes)

    def exchange(self, stages: Stages) -> None:
        """Nothing to do: see :class:`NodeCommunicator`."""

    exchange_notes = exchange

    def settle(self, failure: BaseException | None) -> None:
        """See :class:`NodeCommunicator`."""
        if failure is not None:
            raise failure

    def from_last(self, value: float) -> float:
        """See :class:`NodeCommunicator`."""
        return value

    def share(self, rows: Vector) -> None:
        """Nothing to do: see :class:`NodeCommunicator`."""
