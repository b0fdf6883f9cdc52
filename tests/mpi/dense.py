"""Dense output of runs on ranks beside that of serial ones: mpirun -n 2 python dense.py result.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import dae_sdc as ds

WORLD = MPI.COMM_WORLD
TIMES = np.linspace(0.0, 0.4, 57)


def main(path: str) -> None:
    records = []
    for parallel in ("nodes", "steps"):
        for sweeper in ("fully-implicit", "semi-implicit", "constrained"):
            for quad in ("RADAU-RIGHT", "LOBATTO", "GAUSS"):
                case = {"sweeper": sweeper, "quad": quad, "nodes": 3, "qdelta": "MIN-SR-S", "restol": 1e-12}
                serial = ds.solve("hessenberg-1", dt=0.05, t_end=0.4, **case)
                shared = ds.solve("hessenberg-1", dt=0.05, t_end=0.4, parallel=parallel, comm=WORLD, **case)
                prints = WORLD.allgather(shared(TIMES).tobytes() + shared.derivative(TIMES).tobytes())
                record = {"parallel": parallel, "sweeper": sweeper, "quad": quad}
                record["same"] = all(one == prints[0] for one in prints)
                record["ends"] = bool(np.array_equal(shared(shared.t), shared.u))
                record["apart"] = float(np.abs(shared(TIMES) - serial(TIMES)).max())
                records.append(record)
    if WORLD.rank == 0:
        Path(path).write_text(json.dumps(records), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
