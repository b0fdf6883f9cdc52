"""Runs to a tolerance with shared nodes: mpirun -n 3 python adaptive.py DIRECTORY.

Two and three ranks are tried in communicators of that size. Rank 0 writes a list of records.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mpi4py import MPI

import dae_sdc as ds

WORLD = MPI.COMM_WORLD
CASES: list[tuple[str, dict[str, Any]]] = [
    ("hessenberg-1", {"sweeper": "semi-implicit", "rtol": 1e-5}),
    ("hessenberg-2", {"sweeper": "constrained", "rtol": 1e-5}),
    ("simple", {"sweeper": "fully-implicit", "rtol": 1e-4, "dt": 1.0}),
    ("two-transistor", {"sweeper": "semi-implicit", "rtol": 1e-3, "t_end": 0.005, "backend": "numpy"}),
    ("pendulum", {"sweeper": "semi-implicit", "rtol": 1e-4, "t_end": 0.3, "time_limit": 100.0}),
]


def main(directory: str) -> None:
    """Solve all cases on all numbers of ranks."""
    records = []
    for ranks in (2, 3):
        comm = WORLD.Split(0 if WORLD.rank < ranks else MPI.UNDEFINED, WORLD.rank)
        for problem, settings in CASES if comm != MPI.COMM_NULL else ():
            solution = ds.solve(problem, nodes=3, parallel="nodes", comm=comm, **settings)
            found = (solution.t.tobytes(), solution.u.tobytes(), solution.message)
            records.append(
                {
                    "ranks": ranks,
                    "problem": problem,
                    "settings": settings,
                    "same_everywhere": len(set(comm.allgather(found))) == 1,
                    "t": solution.t.tolist(),
                    "u": solution.u[-1].tolist(),
                    "stats": [solution.stats[word] for word in ("steps", "rejected", "sweeps")],
                    "message": solution.message,
                }
            )
        WORLD.Barrier()
    if WORLD.rank == 0:
        (Path(directory) / "adaptive.json").write_text(json.dumps(records), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
