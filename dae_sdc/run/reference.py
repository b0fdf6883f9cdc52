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

# Ratio of the tolerance of a second run, whose difference from a reference measures the error of both.
LOOSER = 10.0
UNCERTAINTY = 3.0  # Errors up to so many of these differences are not told from the error of the reference.


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
        states = self.solution(times)
        apart = np.abs(states - self.looser(times))
        for group, part in groups.items():
            self.differences[group] = max(self.differences.get(group, 0.0), float(apart[:, part].max()))
        return states

    def floor(self, group: str) -> float:
        """Error of a component group up to which it may be that of the reference."""
        return UNCERTAINTY * self.differences.get(group, 0.0)


@dataclass
class References:
    """The computed references of a study, one for each problem."""

    parameters: dict[str, Any]  # Those of the result.
    rtol: float | None  # Tolerance; None for errors against exact solutions.
    t_end: float | None
    params: Mapping[str, Any] | None
    by_problem: dict[Any, Reference] = field(default_factory=dict)

    def of(self, problem: Any) -> Reference | None:
        """The reference of a problem; None where errors are those against its exact solution."""
        if self.rtol is None:
            return None
        key = problem if isinstance(problem, str) else id(problem)
        if key not in self.by_problem:
            pair = self._solved(problem, self.rtol), self._solved(problem, LOOSER * self.rtol)
            self.by_problem[key] = Reference(*pair)
        return self.by_problem[key]

    def _solved(self, problem: Any, rtol: float) -> Solution:
        solution = solve(problem, rtol=rtol, t_end=self.t_end, params=self.params, dense=True)
        if not solution.success:
            raise SolveError(f"no reference with rtol={rtol:g}: {solution.message}")
        return solution

    def tell(self) -> None:
        """Say in the result what the references are, and how accurate they are where they were used."""
        if self.rtol is not None:
            self.parameters["reference"] = [
                {
                    **{name: reference.solution.parameters[name] for name in ("problem", "sweeper", "rtol")},
                    "steps": reference.solution.stats["steps"],
                    "differences": dict(reference.differences),
                }
                for reference in self.by_problem.values()
            ]


def sentences(references: Any) -> list[str]:
    """A line for each computed reference in the parameters of a result."""
    lines = []
    for about in references or ():
        apart = ", ".join(f"{group} {value:.1e}" for group, value in about["differences"].items())
        lines.append(
            f"errors of {about['problem']} are those against a computed reference ({about['sweeper']}, "
            f"rtol={about['rtol']:g}, {about['steps']} steps), which differs from one of {LOOSER:g} rtol by: "
            f"{apart}"
        )
    return lines
