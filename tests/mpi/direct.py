"""Methods without sweeps, a step on every rank: mpirun -n 3 python direct.py DIRECTORY.

Two and three steps at once are tried, in communicators of that size. Rank 0 writes a list of records.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mpi4py import MPI
from pySDC.implementations.controller_classes.controller_MPI import controller_MPI

import dae_sdc as ds
from dae_sdc.sweepers.sdc import SWEEPERS

WORLD = MPI.COMM_WORLD
END = 0.9
"""18 steps: a number of full blocks, of two and of three."""


def main(directory: str) -> None:
    """Solve on two and on three ranks."""
    records = []
    for ranks in (2, 3):
        comm = WORLD.Split(0 if WORLD.rank < ranks else MPI.UNDEFINED, WORLD.rank)
        for sweeper in ("radau-iia-5", "bdf2") if comm != MPI.COMM_NULL else ():
            for jacobi, maxiter in ((True, 1), (True, 2), (False, 1)):
                params = {"logger_level": 40, "dump_setup": False, "mssdc_jac": jacobi}
                description = {
                    "problem_class": ds.SimpleDAE,
                    "problem_params": {},
                    "sweeper_class": SWEEPERS[sweeper],
                    "sweeper_params": {},
                    "level_params": {"dt": 0.05, "restol": -1.0},
                    "step_params": {"maxiter": maxiter},
                }
                controller = controller_MPI(params, description, comm)
                P = controller.S.levels[0].prob
                record = {"ranks": ranks, "sweeper": sweeper, "jacobi": jacobi, "maxiter": maxiter}
                try:
                    u, _ = controller.run(u0=P.state(P.u_exact(0.0)), t0=0.0, Tend=END - 1e-9)
                    found = {"u": u.tolist()}
                except ds.InputError as error:
                    found = {"refused": str(error)}
                record["same"] = len(set(map(str, comm.allgather(found)))) == 1
                records.append({**record, **found})
        WORLD.Barrier()
    if WORLD.rank == 0:
        (Path(directory) / "direct.json").write_text(json.dumps(records), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
