"""Reference solutions that are computed, where there is no exact one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.errors import InputError, SolveError
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve

LOOSER = 10.0
"""Ratio of the tolerance of a second run, whose difference from a reference measures the error of both."""

UNCERTAINTY = 3.0
"""Errors up to so many of these differences are not told from the error of the reference."""


@dataclass(frozen=True)
class Reference:
    """A solution to a small tolerance, and another that shows how accurate it is."""

    # solution, looser: the reference, and a run of ten times its tolerance.
    solution: Solution
    looser: Solution
    # Largest difference of both so far, by component group; at the times of the solutions of a study.
    differences: dict[str, float] = field(default_factory=dict)

    def states(
        self, times: NDArray[np.float64], names: tuple[str, ...], groups: Mapping[str, slice]
    ) -> NDArray[np.float64]:
        """States at given times, shape (K, n); notes how far the two runs are apart there."""
        if names != self.solution.names:
            raise InputError(
                f"the reference has the unknowns {', '.join(self.solution.names)}, and not "
                f"{', '.join(names)}; leave reference out"
            )
        found = self.solution(times)
        apart = np.abs(found - self.looser(times))
        for group, part in groups.items():
            self.differences[group] = max(self.differences.get(group, 0.0), float(apart[:, part].max()))
        return found

    def floor(self, group: str) -> float:
        """Error of a component group up to which it may be that of the reference."""
        return UNCERTAINTY * self.differences.get(group, 0.0)

    def told(self) -> dict[str, Any]:
        """What the result of a study says of its reference."""
        about = self.solution.parameters
        kept = {name: about[name] for name in ("problem", "sweeper", "rtol")}
        return {**kept, "steps": self.solution.stats["steps"], "differences": dict(self.differences)}


def reference_of(problem: Any, rtol: float | None, t_end: float | None, params: Any) -> Reference | None:
    """A reference solution to a relative tolerance; None where no tolerance is given."""
    if rtol is None:
        return None

    def solved(tolerance: float) -> Solution:
        found = solve(problem, rtol=tolerance, t_end=t_end, params=params, dense=True)
        if not found.success:
            raise SolveError(f"no reference with rtol={tolerance:g}: {found.message}")
        return found

    return Reference(solved(rtol), solved(LOOSER * rtol))


def sentences(references: Any) -> list[str]:
    """A line for each computed reference in the parameters of a result."""
    lines = []
    for one in references or ():
        apart = ", ".join(f"{group} {value:.1e}" for group, value in one["differences"].items())
        lines.append(
            f"errors of {one['problem']} are those against a computed reference ({one['sweeper']}, "
            f"rtol={one['rtol']:g}, {one['steps']} steps), which differs from one of {LOOSER:g} rtol by: "
            f"{apart}"
        )
    return lines
