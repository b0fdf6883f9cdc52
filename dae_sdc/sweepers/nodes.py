"""Which process computes at which node: the one difference between serial and parallel sweeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from dae_sdc.dae.state import StepPolynomial, Vector, attach
from dae_sdc.errors import InputError

# State of a node, sent to the other processes with its values.
OK, SWEEP_FAILED, RESIDUAL_FAILED = 0.0, 1.0, 2.0


class Stages:
    """The values of a step at all M nodes: one row of numbers for each node."""

    # A row holds u, u' and two notes: the norm of the residual at the node, and whether the process that owns
    # it failed. Unknowns z that are not integrated and derivatives U of the integrated ones lie side by side,
    # so that the result of a node's solve is sent by MPI without copying.

    def __init__(self, nodes: tuple[float, ...], n: int, n_integrated: int, time: float, dt: float) -> None:
        self.rows = np.empty((len(nodes), 2 * n + 2))
        self.u, self.du = self.rows[:, :n], self.rows[:, n : 2 * n]
        self.integrated = self.du[:, :n_integrated]
        self.du[:, n_integrated:] = 0.0
        self.norms, self.states = self.rows[:, 2 * n], self.rows[:, 2 * n + 1]
        self.integral = np.empty((len(nodes), n_integrated))
        self.integral_known = False
        self.polynomial = StepPolynomial(time, dt, nodes, self.u, self.du, n_integrated)


class ShownRows:
    """Rows of u and u' at the nodes of a step that a level shows, and what others do to these."""

    # Shapes: values and derivatives (M, n).

    def __init__(self, level: Any, values: Vector, derivatives: Vector) -> None:
        self._level, self._arrays = level, (values, derivatives)
        self._rows = [[attach(row, level.prob.n_diff) for row in array] for array in self._arrays]
        level.u[1:], level.f[1:] = self._rows
        self._lists = level.u, level.f
        self.settle()

    @property
    def in_lists(self) -> bool:
        """Whether the level has the lists in which the rows were shown."""
        return self._level.u is self._lists[0] and self._level.f is self._lists[1]

    @property
    def begins(self) -> bool:
        """Whether the level still keeps the first row."""
        return self._level.u is self._lists[0] and self._level.u[1] is self._rows[0][0]

    def settle(self) -> None:
        """Take the numbers at the nodes as they are now for known."""
        self._known = [array.tobytes() for array in self._arrays]

    def changed(self) -> tuple[bool, bool]:
        """Whether u and u' have been assigned or written into at a node; they count as known from here."""
        lists, before = (self._level.u, self._level.f), self._known
        self.settle()
        values, slopes = (
            any(entry is not row for entry, row in zip(entries[1:], rows, strict=False)) or now != then
            for entries, rows, now, then in zip(lists, self._rows, self._known, before, strict=True)
        )
        return values, slopes


def rows_of(level: Any) -> list[Vector]:
    """The entries of ``level.u`` and of ``level.f`` at the nodes, shape (M, n) each."""
    both, n = [], level.prob.n
    for name in ("u", "f"):
        entries = getattr(level, name)[1:]
        rows = np.empty((len(entries), n))
        for m, entry in enumerate(entries):
            try:
                values = np.asarray(entry, dtype=float)
            except (TypeError, ValueError, OverflowError):
                values = np.empty(0)
            if values.shape != (n,):
                raise InputError(f"level.{name}[{m + 1}] must be an array of {n} numbers; got {entry!r}")
            rows[m] = values
        both.append(rows)
    return both


class NodeCommunicator:
    """Which nodes this process owns (here all), and the exchange of values, in which all take part."""

    rank, size = 0, 1
    shared, keeps_state = False, True

    def __init__(self, num_nodes: int) -> None:
        self.owned = range(num_nodes)

    def exchange(self, stages: Stages, notes_only: bool = False) -> None:
        """Send the rows of the owned nodes, or the notes in them, to all processes, and receive theirs."""

    def complete_sweep(self, stages: Stages, failed: bool) -> bool:
        """Exchange the rows after a sweep; whether a node failed on any process."""
        return failed

    def complete_rows(self, rows: Vector, stages: Stages, failure: BaseException | None) -> None:
        """Complete ``rows``, one a node, from those of all processes, or raise the ``failure`` of one."""
        self.settle(failure)

    def settle(self, failure: BaseException | None) -> None:
        """Raise the failure of one process on all of them; every process passes its own, or None."""
        if failure is not None:
            raise failure

    def from_last(self, value: float) -> float:
        """The value of the process that owns the last node."""
        return value
