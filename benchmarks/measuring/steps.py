"""Time steps that are repeated in several ways which take turns, and a table that is saved as it grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.measuring.clock import Clock
from benchmarks.measuring.families import FAMILIES, WARM
from benchmarks.measuring.timing import Run, Work, record_of
from dae_sdc.control.hooks import RequireConvergence, StepRecord
from dae_sdc.dae.memory import COUNTERS
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SolveError
from dae_sdc.run.study import Study
from dae_sdc.sweepers.sdc import SWEEPERS, SpectralDeferredCorrectionDAE

# What dae_sdc.run.solve.solve does in every step, besides pySDC's own hooks
HOOKS = (RequireConvergence, StepRecord)
# By which pySDC's controllers use a sweeper
SWEEPER_METHODS = ("predict", "updateVariableCoeffs", "update_nodes", "compute_residual", "compute_end_point")
STEPS = 10  # Steps that are measured, after benchmarks.studies.scaling.study.WARM others
COMPILED, NUMPY = "compiled", "numpy"


class Steps(Run):
    """Time steps as ``solve`` does them, repeated from the same state with everything warm."""

    def __init__(self, work: Work, nodes: int, qdelta: str, **settings: Any) -> None:
        super().__init__(work, nodes, qdelta, settings=settings, hooks=HOOKS, by_node=False, at_once=True)

    @property
    def level(self) -> Any:
        return self.controller.MS[0].levels[0]

    @property
    def record(self) -> Any:
        return record_of(self.controller)

    def begin_as(self, other: Steps) -> None:
        """Begin at the state at which another run begins, and do the steps once."""
        self.u0 = other.u0
        self()

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


def sdc_sweepers() -> list[str]:
    """Names of all sweepers that iterate."""
    return [name for name, cls in SWEEPERS.items() if issubclass(cls, SpectralDeferredCorrectionDAE)]


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
    given = PROBLEMS[problem](**params)
    return [NUMPY] if given.kernels is None else [COMPILED, NUMPY]


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
