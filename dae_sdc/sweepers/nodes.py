"""Who computes at which node: the one thing that differs between serial and parallel sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dae_sdc.dae.state import Vector


class NodeCommunicator(Protocol):
    """The nodes this process owns, and what needs the nodes of all processes."""

    rank: int
    owned: Sequence[int]

    def combine(self, matrix: Vector, values: Vector, out: Vector) -> None:
        """out = matrix @ values over all nodes; ``values`` and ``out`` hold one row a node."""
        ...

    def gather(self, norms: list[float]) -> list[float]:
        """Norms of all M nodes from those of the owned ones."""
        ...


class SerialNodes:
    """All nodes in this process.

    Parameters
    ----------
    num_nodes : int
        M.
    """

    rank = 0

    def __init__(self, num_nodes: int) -> None:
        self.owned: Sequence[int] = range(num_nodes)

    def combine(self, matrix: Vector, values: Vector, out: Vector) -> None:
        """See :class:`NodeCommunicator`."""
        np.dot(matrix, values, out=out)

    def gather(self, norms: list[float]) -> list[float]:
        """See :class:`NodeCommunicator`."""
        return norms
