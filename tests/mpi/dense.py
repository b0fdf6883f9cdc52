"""Dense output of runs on ranks beside that of serial ones: mpirun -n 2 python dense.py DIRECTORY."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import dae_sdc as ds

TIMES = np.linspace(0.0, 0.4, 57)


def main(directory: str, comm: MPI.Comm = MPI.COMM_WORLD) -> None:
    records = []
    for parallel in ("nodes", "steps"):
        for sweeper in ("fully-implicit", "semi-implicit", "constrained"):
            for quad in ("RADAU-RIGHT", "LOBATTO", "GAUSS"):
                case = {"sweeper": sweeper, "quad": quad, "nodes": 3, "qdelta": "MIN-SR-S", "restol": 1e-12}
                serial = ds.solve("hessenberg-1", dt=0.05, t_end=0.4, **case)
                shared = ds.solve("hessenberg-1", dt=0.05, t_end=0.4, parallel=parallel, comm=comm, **case)
                prints = comm.allgather(shared(TIMES).tobytes() + shared.derivative(TIMES).tobytes())
                record = {"parallel": parallel, "sweeper": sweeper, "quad": quad}
                record["same"] = all(one == prints[0] for one in prints)
                record["ends"] = bool(np.array_equal(shared(shared.t), shared.u))
                record["apart"] = float(np.abs(shared(TIMES) - serial(TIMES)).max())
                records.append(record)
    if comm.rank == 0:
        (Path(directory) / "dense.json").write_text(json.dumps(records), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
