"""Runs with shared nodes that go on from a checkpoint: mpirun -n 2 python checkpoint.py directory.

Rank 0 writes ``result.json``, a list of records.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from pySDC.core.hooks import Hooks

import dae_sdc as ds

WORLD = MPI.COMM_WORLD
CASES: list[tuple[str, dict[str, Any]]] = [
    ("hessenberg-1", {"sweeper": "semi-implicit", "rtol": 1e-6}),
    ("pendulum", {"sweeper": "constrained", "dt": 0.02, "t_end": 0.5}),
    ("two-transistor", {"sweeper": "fully-implicit", "dt": 1e-4, "t_end": 2e-3, "backend": "numpy"}),
]


class Interrupt(Hooks):  # type: ignore[misc]
    """Ends the run on all ranks after nine steps."""

    taken = 0

    def post_step(self, step: Any, level_number: int) -> None:
        """Count the step."""
        super().post_step(step, level_number)
        Interrupt.taken += 1
        if Interrupt.taken == 9:
            raise KeyboardInterrupt


def prints(solution: Any) -> bytes:
    """All that must be the same, to the last bit."""
    arrays = (solution.t, solution.u, solution.du, *solution.per_step.values(), solution(solution.t[1:-1]))
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def digits(solution: Any) -> bytes:
    """The solution alone."""
    return b"".join(np.ascontiguousarray(a).tobytes() for a in (solution.t, solution.u, solution.du))


def main(directory: Path) -> None:
    """Interrupt every case, and solve it once without a break and once from its checkpoint."""
    records = []
    for number, (problem, settings) in enumerate(CASES):
        settings = {**settings, "nodes": 3, "parallel": "nodes", "every": 4}
        whole = ds.solve(problem, checkpoint=directory / f"whole{number}", **settings)
        file = directory / f"broken{number}.npz"
        Interrupt.taken = 0
        try:
            ds.solve(problem, checkpoint=file, hooks=[Interrupt], **settings)
        except KeyboardInterrupt:
            pass
        resumed = ds.solve(problem, checkpoint=file, resume=True, **settings)
        try:
            ds.solve(problem, checkpoint=file, resume=True, **{**settings, "nodes": 2})
            refusal = ""
        except ds.InputError as error:
            refusal = str(error)
        apart = 0
        if WORLD.rank == 0:
            alone = ds.solve(problem, checkpoint=file, resume=True, comm=MPI.COMM_SELF, **settings)
            # What is computed ahead of its time is work that one rank need not do.
            apart = int(digits(alone) != digits(whole))
        found = WORLD.allgather((prints(resumed), refusal))
        records.append(
            {
                "problem": problem,
                "resumed_at": resumed.parameters["resumed_at"],
                "steps": whole.stats["steps"],
                "same": prints(whole) == prints(resumed),
                "same_on_one_rank": not apart,
                "same_work": whole.stats == resumed.stats,
                "same_everywhere": len(set(found)) == 1,
                "refusal": refusal,
            }
        )
    if WORLD.rank == 0:
        (directory / "result.json").write_text(json.dumps(records), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
