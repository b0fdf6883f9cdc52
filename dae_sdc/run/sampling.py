"""Values at output times of a run whose steps are not all kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.control.steps import COUNTS, Steps
from dae_sdc.dae.interpolant import STENCIL, DenseOutput, round_off_of_times
from dae_sdc.dae.state import Vector

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
