"""The problems that can be measured with any number of unknowns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.measuring.timing import Work

WARM = 3
"""Steps before those that are measured."""


@dataclass(frozen=True)
class Family:
    """A problem of any size.

    Parameters
    ----------
    sweeper : str
        Sweeper to measure.
    dt, restol : float
        Step size, in which flow passes about one cell of the finest grid, and residual tolerance.
    params : callable
        Parameters of the problem with about n unknowns.
    unknowns : float
        Steps times unknowns of a run; small problems do ``most`` steps.
    least, most : int
        Bounds of the number of steps.
    """

    sweeper: str
    dt: float
    restol: float
    params: Callable[[int], dict[str, Any]]
    unknowns: float
    least: int
    most: int

    def work(self, problem: str, n: int) -> Work:
        """What to measure for about n unknowns."""
        steps = int(min(max(self.unknowns // n, self.least), self.most))
        return Work(problem, self.params(n), self.sweeper, self.dt, self.restol, WARM, steps)


def _sections(n: int) -> dict[str, Any]:
    return {"sections": max(1, round(n / 2))}


def _cells(n: int) -> dict[str, Any]:
    # m cells along a side are 3 m^2 - 2 m - 1 unknowns.
    return {"cells": max(2, round((1.0 + (4.0 + 3.0 * n) ** 0.5) / 3.0))}


FAMILIES: Mapping[str, Family] = {
    "transmission-line": Family("semi-implicit", 0.1, 1e-9, _sections, 2e5, 4, 40),
    "navier-stokes": Family("semi-implicit", 0.02, 1e-9, _cells, 8e4, 4, 40),
}
"""The problems that can be measured: index 1 with narrow, index 2 with wide matrices."""
