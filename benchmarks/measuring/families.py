"""The problems that can be measured with any number of unknowns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.measuring.timing import Work

WARM = 3  # Steps before those that are measured
LEFT_OUT = 0.6  # Share of the streets outside of its tree that the network of pipes has none in


@dataclass(frozen=True)
class Family:
    """A problem of any size."""

    sweeper: str  # Sweeper to measure
    # dt, restol: step size, in which the flow in a square passes about one cell of the finest grid, and
    # residual tolerance
    dt: float
    restol: float
    params: Callable[[int], dict[str, Any]]  # Parameters of the problem with about n unknowns
    unknowns: float  # Steps times unknowns of a run; small problems do most steps
    # least, most: bounds of the number of steps
    least: int = 4
    most: int = 40

    def work(self, problem: str, n: int) -> Work:
        """What to measure for about n unknowns."""
        steps = int(min(max(self.unknowns // n, self.least), self.most))
        return Work(problem, self.params(n), self.sweeper, self.dt, self.restol, WARM, steps)


def _streets(n: int) -> dict[str, Any]:
    # N crossings of r and c streets have N pressures, N - 1 pipes of a tree, and of the other N + 1 - r - c
    # streets a part kept: (1 + kept) N + N - kept (r + c) - 1 + kept unknowns.
    kept = 1.0 - LEFT_OUT
    most, rest = 2.0 + kept, n + 1.0 - kept
    rows = max(1, round((kept + (kept**2 + most * rest) ** 0.5) / most))
    columns = max(2, round((rest + kept * rows) / (most * rows - kept)))
    return {"rows": rows, "columns": columns, "left_out": LEFT_OUT}


# The problems that can be measured: chain of index 1, grid and irregular network of index 2
FAMILIES: Mapping[str, Family] = {
    "transmission-line": Family(
        "semi-implicit", 0.1, 1e-9, lambda n: {"sections": max(1, round(n / 2))}, 2e5
    ),
    # m cells along a side are 3 m^2 - 2 m - 1 unknowns.
    "navier-stokes": Family(
        "semi-implicit", 0.02, 1e-9, lambda n: {"cells": max(2, round((1 + (4 + 3 * n) ** 0.5) / 3))}, 8e4
    ),
    # Residuals are those of pressures of 5e5 Pa, whose rounding errors are 1e-10 Pa each.
    "pipe-network": Family("semi-implicit", 900.0, 1e-6, _streets, 2e5),
}
