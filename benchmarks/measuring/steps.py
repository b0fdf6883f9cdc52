"""Problems of any size, and their time steps, repeated in several ways which take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measuring.clock import Clock
from benchmarks.measuring.ranks import Run, Work, record_of
from dae_sdc.control.hooks import RequireConvergence, StepRecord
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SolveError
from dae_sdc.run.study import Study

WARM = 3  # Steps before those that are measured
LEFT_OUT = 0.6  # Share of the streets outside of its tree that the network of pipes has none in


@dataclass(frozen=True)
class Family:
    sweeper: str
    dt: float  # In which the flow in a square passes about one cell of the finest grid
    restol: float
    params: Callable[[int], dict[str, Any]]  # Parameters of the problem with about n unknowns
    unknowns: float  # Steps times unknowns of a run; small problems do most steps
    least: int = 4  # Bounds of the number of steps
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


# What dae_sdc.run.solve.solve does in every step, besides pySDC's own hooks
HOOKS = (RequireConvergence, StepRecord)
# By which pySDC's controllers use a sweeper
SWEEPER_METHODS = ("predict", "updateVariableCoeffs", "update_nodes", "compute_residual", "compute_end_point")
STEPS = 10  # Steps that are measured, after benchmarks.studies.scaling.study.WARM others
COMPILED, NUMPY = "compiled", "numpy"


class Steps(Run):
    """Time steps as ``solve`` does them, repeated from the same state with everything warm."""

    def __init__(self, work: Work, nodes: int, qdelta: str, **settings: Any) -> None:
        super().__init__(work, nodes, qdelta, hooks=HOOKS, at_once=True, **settings)
        self.record = record_of(self.controller)

    def work_of_a_step(self) -> dict[str, float]:
        """Sweeps, iterations of the controller and the work counters, means over the steps."""
        iterations, rows, steps = sum(self().sweeps[1:]), self.record.rows, self.work.steps
        means = {name: sum(row[name] for row in rows) / steps for name in ("sweeps", *COUNTERS)}
        return {"iterations": iterations / steps, **means}

    def time_in_the_sweeper(self) -> float:
        """Seconds a step that the sweeper takes, of one run of the steps."""
        with Clock() as clock:
            for name in SWEEPER_METHODS:
                clock.time(self.level.sweep, name, "sweeper")
            self()
        return clock.times()["sweeper"] / self.work.steps


def several_sizes(problem: str, sizes: Sequence[int] | None) -> list[dict[str, Any]]:
    """Parameters of a problem for each number of unknowns, where it can have any."""
    if sizes is None or problem not in FAMILIES:
        return [{}]
    return [FAMILIES[problem].params(size) for size in sizes]


def steps_of(problem: str, params: Mapping[str, Any], sweeper: str, restol: float) -> Work:
    """Steps of the size that a problem has of its own."""
    dt = float(PROBLEMS[problem](**params).dt)
    return Work(problem, dict(params), sweeper, dt, restol, WARM, STEPS)


def backends(problem: str, params: Mapping[str, Any]) -> list[str]:
    """Ways to carry out the sweeps of a problem: compiled where it gives kernels, and with NumPy."""
    return [NUMPY] if PROBLEMS[problem](**params).kernels is None else [COMPILED, NUMPY]


def measured(rows: Study, work: Work, nodes: int, qdelta: str, backend: str) -> Steps | None:
    """The steps of a backend; None, with the reason in the table, where they cannot be done."""
    try:
        return Steps(work, nodes, qdelta, backend=backend)
    except (InputError, SolveError) as error:
        # What compiled sweeps do not take, those with NumPy do.
        if not (backend == COMPILED and isinstance(error, InputError)):
            rows.leave_out(f"{work.problem}, {work.sweeper}, {qdelta}, {backend}", error)
        return None


def distance(first: Vector, second: Vector) -> float:
    """Largest difference, relative to 1 + abs(u)."""
    return float((np.abs(first - second) / (1.0 + np.abs(second))).max())
