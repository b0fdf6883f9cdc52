"""The steps of a run, and its values at output times, where not all steps are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.interpolant import STENCIL, DenseOutput, StepData, round_off_of_times
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.state import Vector

COUNTS = ("sweeps", *COUNTERS)  # Counters of a step.
_FIRST, _LARGEST = 64, 1 << 21  # Rows of the first array, and bytes of the largest.


class Steps(Sequence[dict[str, Any]]):
    """Rows of accepted steps, which are mappings when read: end, state, u', residual, counts, dense data."""

    def __init__(self) -> None:
        self.dense: list[StepData] = []
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._parts: list[tuple[Vector, NDArray[np.int64]]] = []
        self._used = self._before = 0
        self.dense = []

    def __len__(self) -> int:
        return self._before + self._used

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        number = left = range(len(self))[at]
        at_part = 0
        while left >= len(self._parts[at_part][0]):
            left -= len(self._parts[at_part][0])
            at_part += 1
        values, counts = self._parts[at_part]
        n = values.shape[1] // 2 - 1
        row = {"t": float(values[left, 0]), "u": values[left, 2 : 2 + n].copy()}
        row |= {"du": values[left, 2 + n :].copy(), "residual": float(values[left, 1])}
        row |= dict(zip(COUNTS, counts[left].tolist(), strict=True))
        return row | ({"dense": self.dense[number]} if self.dense else {})

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[number] for number in range(len(self)))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a step."""
        self._make_room(len(row["u"]))
        n = len(row["u"])
        values, counts = self._parts[-1]
        own = values[self._used]
        own[0], own[1], own[2 : 2 + n], own[2 + n :] = row["t"], row["residual"], row["u"], row["du"]
        counts[self._used] = [row[name] for name in COUNTS]
        if "dense" in row:
            self.dense.append(row["dense"])
        self._used += 1

    def extend(self, ends: Vector, u: Vector, du: Vector, counts: Any, dense: Sequence[StepData]) -> None:
        """Add steps that were solved without sweeps, whose residual is not known and counts as 0."""
        # Shapes: ends (K,), u and du (K, n), counts (K, 5).
        done, n = 0, u.shape[1]
        while done < len(ends):
            self._make_room(n)
            rows, of_rows = self._parts[-1]
            count = min(len(rows) - self._used, len(ends) - done)
            now, new = slice(self._used, self._used + count), slice(done, done + count)
            rows[now, 0], rows[now, 1], of_rows[now, 0] = ends[new], 0.0, 0
            rows[now, 2 : 2 + n], rows[now, 2 + n :], of_rows[now, 1:] = u[new], du[new], counts[new]
            self._used, done = self._used + count, done + count
        self.dense.extend(dense)

    def _make_room(self, n: int) -> None:
        """Begin another array where the last one is full."""
        if self._parts and self._used < len(self._parts[-1][0]):
            return
        self._before += self._used
        width = 2 * n + 2
        most = max(1, _LARGEST // (8 * width))
        size = min(max(_FIRST, self._before // 4), most)
        self._parts.append((np.empty((size, width)), np.empty((size, len(COUNTS)), dtype=np.int64)))
        self._used = 0

    def fill(self, columns: Mapping[str, Any], dense: Sequence[StepData]) -> None:
        """Replace all rows by those of whole columns."""
        self.clear()
        if len(columns["t"]):
            values = np.column_stack([columns[name] for name in ("t", "residual", "u", "du")])
            counts = np.column_stack([columns[name] for name in COUNTS])
            self._parts, self._used = [(values.astype(float), counts.astype(np.int64))], len(values)
            self.dense = list(dense)

    def columns(self, first: int = 0, start: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Rows from ``first`` on as arrays by name, with ``start`` in front; without ``dense``."""
        start = start or {}
        if not self._parts:
            empty = {name: np.zeros(0, dtype=np.int64) for name in COUNTS}
            return {"t": np.zeros(0), "residual": np.zeros(0), "u": None, "du": None, **empty}
        n = self._parts[0][0].shape[1] // 2 - 1
        place = {"t": 0, "residual": 1, "u": slice(2, 2 + n), "du": slice(2 + n, None)}
        found = {name: self._column(0, at, first, start.get(name)) for name, at in place.items()}
        return found | {name: self._column(1, at, first, start.get(name)) for at, name in enumerate(COUNTS)}

    def _column(self, of: int, at: Any, first: int, start: Any) -> NDArray[Any]:
        parts: list[NDArray[Any]] = []
        left = len(self)
        for pair in self._parts:
            part = pair[of][: min(left, len(pair[of])), at]
            left -= len(part)
            parts.append(part[first:])
            first = max(0, first - len(part))
        if start is not None:
            parts.insert(0, np.asarray(start, dtype=parts[0].dtype)[None])
        return np.concatenate(parts)

    def forget(self, first: int) -> None:
        """Drop the rows before ``first``."""
        self.fill(self.columns(first), self.dense[first:])


WINDOW = 512  # Number of steps that are kept until values are sampled from them.


@dataclass
class Samples:
    """Values of a run at its output times, and sums over its steps.

    Polynomials of a step depend on a few steps before and after it, so the last steps wait for further ones.
    """

    times: Vector  # Shape (K,). Output times, increasing.
    t0: float  # Start of the run.
    # u0, du0: shape (n,). State and derivative at the start.
    u0: Vector
    du0: Vector
    # Number of unknowns whose u' is as accurate as u, see :class:`dae_sdc.dae.interpolant.DenseOutput`.
    n_slopes: int
    # done, steps: number of known rows, and of steps taken.
    done: int = 0
    steps: int = 0
    # u, du: shape (K, n). Values; the first ``done`` rows are known.
    u: Vector = field(init=False)
    du: Vector = field(init=False)
    # Shape (K,). Sizes of the steps in which the times lie; 0 at the ends of steps.
    sizes: Vector = field(init=False)
    # Shape (K,). Largest residual, and counts, of the steps that ended since the previous time.
    per_step: dict[str, NDArray[Any]] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.times)
        self.u, self.du = np.empty((count, len(self.u0))), np.empty((count, len(self.u0)))
        self.sizes = np.zeros(count)
        self.per_step = {"residual": np.zeros(count)}
        self.per_step |= {name: np.zeros(count, dtype=np.int64) for name in COUNTS}
        self.largest = np.abs(self.u0)
        self.total = dict.fromkeys(COUNTS, 0)
        # Where the kept steps begin, and from how many of them values were sampled.
        self._start, self._settled = (self.t0, self.u0, self.du0), 0

    def advance(self, rows: Steps) -> None:
        """Sample values from steps with enough others after them, and drop steps no longer needed."""
        stop = len(rows) - STENCIL
        columns = self._look(rows, stop)
        first = stop - STENCIL
        self._start = columns["t"][first - 1], columns["u"][first - 1], columns["du"][first - 1]
        self._settled = STENCIL
        rows.forget(first)

    def ended(self, rows: Steps) -> Samples:
        """A copy as if the run had ended with its last step; this object may continue."""
        copy = Samples(self.times, self.t0, self.u0, self.du0, self.n_slopes)
        for name in ("done", "steps", "largest", "_start", "_settled"):
            setattr(copy, name, getattr(self, name))
        copy.u[:], copy.du[:], copy.sizes[:] = self.u, self.du, self.sizes
        copy.total = dict(self.total)
        for name, values in self.per_step.items():
            copy.per_step[name][:] = values
        copy._look(rows, len(rows), ended=True)
        return copy

    def _look(self, rows: Steps, stop: int, ended: bool = False) -> dict[str, Any]:
        """Sample values from the first ``stop`` kept steps; returns the columns of the kept steps."""
        columns, settled = rows.columns(), self._settled
        t, u0, du0 = self._start
        ends, n = columns["t"], len(u0)
        values, slopes = (
            np.zeros((0, n)) if columns[name] is None else columns[name] for name in ("u", "du")
        )
        dense = DenseOutput(t, u0, ends, values, rows.dense, du0, slopes, self.n_slopes)
        new = slice(settled, stop)
        self.steps += stop - settled
        self.largest = np.maximum(self.largest, np.abs(values[new]).max(axis=0, initial=0.0))
        of_step = np.searchsorted(self.times, ends[new])
        within = of_step < len(self.times)
        for name, summary in self.per_step.items():
            gather = np.maximum if name == "residual" else np.add
            gather.at(summary, of_step[within], columns[name][new][within])
        for name in COUNTS:
            self.total[name] += int(columns[name][new].sum())
        last = float(ends[stop - 1]) if stop else self.t0
        slack = round_off_of_times(self.t0, last, self.steps) if ended else 0.0
        upto = int(np.searchsorted(self.times, last + slack, side="right"))
        if upto > self.done:
            chosen = slice(self.done, upto)
            times = np.minimum(self.times[chosen], last)
            self.u[chosen], self.du[chosen] = dense(times), dense.derivative(times)
            self.sizes[chosen] = dense.sizes_at(times)
            self.done = upto
        return columns
