"""Finds every start of a mechanism with all ranks: mpirun -n 3 python starts.py DIRECTORY."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from unittest.mock import patch

from mpi4py import MPI

import dae_sdc as ds


def main(directory: str) -> None:
    comm = MPI.COMM_WORLD
    tracking = importlib.import_module("dae_sdc.polynomials.tracking")
    follow, own = tracking._follow, []

    def counted(*work):  # type: ignore[no-untyped-def]
        found = follow(*work)
        own.append(found.steps)
        return found

    # Paths of a batch: those of a block are shared by all ranks.
    with patch.multiple(tracking, PATHS_PER_JOB=5, _follow=counted):
        shared = ds.initial("double-wishbone", all_solutions=True, comm=comm)
        steps = sum(own)
        found = ds.initial("double-wishbone", all_solutions=True) if comm.rank == 0 else None
    alone = [dict(one) for one in found.solutions] if found is not None else None
    alone, all_steps = comm.bcast((alone, sum(own) - steps))
    error = ""
    try:
        ds.initial("pendulum", all_solutions=True, fixed={"x": 2.0}, comm=comm)
    except ds.DAEError as raised:
        error = str(raised)
    told = {
        "same": [dict(one) for one in shared.solutions] == alone,
        "solutions": len(shared.solutions),
        "steps": steps,
        "all_steps": all_steps,
        "error": error,
    }
    (Path(directory) / f"starts-{comm.rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
