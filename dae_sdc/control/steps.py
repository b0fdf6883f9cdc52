"""The accepted steps of a run, in arrays that grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.counters import COUNTERS
from dae_sdc.dae.interpolant import StepData
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
