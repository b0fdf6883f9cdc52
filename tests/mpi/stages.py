"""Runs of Radau IIA whose stages ranks share: mpirun -n 3 python stages.py DIRECTORY.

Rank 0 writes a list of records, and what every rank said when one of them failed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from faulty import Decay
from mpi4py import MPI

import dae_sdc as ds

WORLD = MPI.COMM_WORLD
CASES: list[tuple[str, dict[str, Any]]] = [
    ("transmission-line", {"params": {"sections": 60}, "rtol": 1e-6}),
    ("navier-stokes", {"params": {"cells": 12}, "rtol": 1e-5}),
    ("pipe-network", {"params": {"rows": 10, "columns": 10}, "rtol": 1e-6}),
    ("ring-modulator", {"rtol": 1e-4, "t_end": 1e-5}),
    ("pendulum", {"rtol": 1e-5, "nodes": 4, "t_end": 0.5}),
    ("simple", {"rtol": 1e-4, "linear_solver": "superlu"}),
]


def compared(comm: Any, problem: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A run on ranks beside that of each."""
    alone, shared = ds.solve(problem, **settings), ds.solve(problem, parallel="nodes", comm=comm, **settings)
    found = shared.t.tobytes(), shared.u.tobytes(), shared.message
    equal = [np.array_equal(getattr(shared, name), getattr(alone, name)) for name in ("t", "u", "du")]
    return {
        "ranks": comm.size,
        "problem": problem,
        "same_everywhere": len(set(comm.allgather(found))) == 1,
        "equal": all(equal),
        "stats": shared.stats == alone.stats,
        "sharing": shared.parameters.get("sharing", ""),
    }


class BrokenStage(Decay):
    """Fails on rank 1 where F is evaluated at stages, from t = 0.3 on."""

    def evaluate_nodes(self, u: Any, du: Any, t: Any) -> Any:
        if self.mine and t[0] > 0.3:
            raise {"MemoryError": MemoryError, "InputError": ds.errors.InputError}[self.kind]("nothing left")
        return super().evaluate_nodes(u, du, t)


def failed(kind: str) -> str:
    """What this rank says of a run in which rank 1 alone fails."""
    try:
        ds.solve(BrokenStage(kind=kind, after=np.inf), parallel="nodes", rtol=1e-6, trace=False)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(directory: str) -> None:
    """Solve all cases on all numbers of ranks."""
    records = []
    for ranks in (1, 2, 3):
        comm = WORLD.Split(0 if WORLD.rank < ranks else MPI.UNDEFINED, WORLD.rank)
        if comm != MPI.COMM_NULL:
            records += [compared(comm, problem, settings) for problem, settings in CASES]
        WORLD.Barrier()
    texts = {kind: WORLD.gather(failed(kind)) for kind in ("MemoryError", "InputError")}
    if WORLD.rank == 0:
        for name, found in (("stages", records), ("stages_failed", texts)):
            (Path(directory) / f"{name}.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
