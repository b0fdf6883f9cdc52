"""Which process computes at which node: the one difference between serial and parallel sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dae_sdc.dae.state import MeshDAE, StepPolynomial, Vector, attach
from dae_sdc.errors import InputError

# State of a node, sent to the other processes with its values.
OK, SWEEP_FAILED, RESIDUAL_FAILED = 0.0, 1.0, 2.0


class Stages:
    """The values of a step at all M nodes: one row of numbers for each node, and views of it."""

    # A row holds u, u' and two notes: the norm of the residual at the node, and whether the process that owns
    # it failed. Unknowns z that are not integrated and derivatives U of the integrated ones lie side by side,
    # so that the result of a node's solve is sent by MPI without copying.

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


class NodeList(list[Any]):
    """The list ``level.u`` or ``level.f``, of the start of the step and the nodes, which notes changes."""

    assigned = touched = False
    before_touch: Callable[[], None] | None = None

    def __setitem__(self, place: Any, value: Any) -> None:
        super().__setitem__(place, value)
        self.assigned = True

    def __getitem__(self, place: Any) -> Any:
        if place != 0 and not self.touched and self.before_touch is not None:
            self.touched = True
            self.before_touch()
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[Any]:
        self[-1:]
        return super().__iter__()

    @property
    def unchanged(self) -> bool:
        """Whether no entry can have changed."""
        return not (self.assigned or self.touched)

    def settle(self) -> None:
        """Note that changes up to now are known."""
        self.assigned = self.touched = False


class Written:
    """Finds out whether somebody has written into the values at nodes that a level shows."""

    # Shapes: values and derivatives (M, n).

    def __init__(self, values: Vector, derivatives: Vector) -> None:
        self._arrays = values, derivatives
        self._before: tuple[Vector, Vector] | None = None

    def remember(self) -> None:
        """Remember the values as they are, unless earlier ones are remembered."""
        if self._before is None:
            values, derivatives = self._arrays
            self._before = values.copy(), derivatives.copy()

    def take(self) -> tuple[bool, bool]:
        """Whether u and u' have changed since they were remembered; they are forgotten."""
        before, self._before = self._before, None
        if before is None:
            return False, False
        values, slopes = (
            not np.array_equal(now, old, equal_nan=True)
            for now, old in zip(self._arrays, before, strict=True)
        )
        return values, slopes


def differing(entries: Sequence[Any], shown: Sequence[Any]) -> list[int]:
    """Numbers from 0 of the nodes at which a level keeps another object than the one ``shown`` there."""
    # Looking at the entries in the way of lists does not count as touching them.
    at: Any = list.__getitem__ if isinstance(entries, list) else type(entries).__getitem__
    return [m for m, own in enumerate(shown) if at(entries, m + 1) is not own]


class ShownRows:
    """Arrays of stages whose rows a level shows, and what others do to these."""

    # Shapes: values and derivatives (M, n).

    def __init__(self, level: Any, values: Vector, derivatives: Vector) -> None:
        n_diff, self._level = level.prob.n_diff, level
        self._rows = [[attach(row, n_diff) for row in rows] for rows in (values, derivatives)]
        self._written = Written(values, derivatives)
        level.u, level.f = (
            NodeList([old[0], *rows]) for old, rows in zip((level.u, level.f), self._rows, strict=True)
        )
        level.u.before_touch = level.f.before_touch = self._written.remember

    def changed(self) -> tuple[bool, bool]:
        """Whether u and u' at a stage have been assigned or written into; they count as known from here."""
        lists = self._level.u, self._level.f
        values, slopes = (bool(differing(now, rows)) for now, rows in zip(lists, self._rows, strict=True))
        for now in lists:
            if isinstance(now, NodeList):
                now.settle()
        written = self._written.take()
        return values or written[0], slopes or written[1]


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

    def exchange(self, stages: Stages) -> None:
        """Send the rows of the owned nodes to all processes, and receive theirs."""

    def exchange_notes(self, stages: Stages) -> None:
        """Send the notes in the rows of the owned nodes to all processes, and receive theirs."""

    def complete_sweep(self, stages: Stages, failed: bool) -> bool:
        """Exchange the rows after a sweep; whether a node failed on any process."""
        return failed

    def agree(self, stages: Stages, holds: bool) -> bool:
        """Whether ``holds`` is true on all processes; it is written into the notes of the rows."""
        return holds

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
