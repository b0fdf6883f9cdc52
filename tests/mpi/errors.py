"""Lets one rank fail in every way and mode, and goes on: mpirun -n 4 python errors.py directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from faulty import KINDS, Decay
from mpi4py import MPI

import dae_sdc as ds

WORLD = MPI.COMM_WORLD
DT, STEPS = 0.1, 9


def carry_out(comm: Any, parallel: str, kind: str, out: Path) -> dict[str, Any]:
    """What became of a run, seen from one rank."""
    settings: dict[str, Any] = {"nodes": 4, "dt": DT, "t_end": STEPS * DT, "sweeper": "semi-implicit"}
    settings |= {"parallel": parallel, "comm": comm, "steps": 2 if parallel == "both" else None}
    found: dict[str, Any] = {"parallel": parallel, "kind": kind, "ranks": comm.size, "rank": comm.rank}
    problem = Decay(kind=kind)
    try:
        solution = ds.solve(problem, out=out, **settings)
        found |= {"success": solution.success, "message": solution.message, "steps": len(solution.t) - 1}
    except Exception as error:
        found |= {"raised": type(error).__name__, "message": str(error)}
    comm.Barrier()
    if comm.rank == 0:
        found["files"] = sorted(path.name for path in out.parent.glob(f"{out.stem}*"))
        kept_in = out.with_name(f"{out.stem}.partial.npy")
        if kept_in.exists():
            kept = ds.load(kept_in).data
            found["kept"] = len(kept) - 1
            found["error"] = float(np.abs(kept["u"] - np.exp(-kept["t"])[:, None]).max())
    # The ranks are in step again.
    again = ds.solve(Decay(), **{**settings, "t_end": 2 * DT})
    found["again"] = again.success and float(np.abs(again.u[-1] - np.exp(-again.t[-1])).max()) < 1e-8
    return found


def main(directory: str) -> None:
    records: list[Any] = []
    for size in (4, 2):
        comm = WORLD.Split(0 if WORLD.rank < size else MPI.UNDEFINED, WORLD.rank)
        if comm != MPI.COMM_NULL:
            for kind in KINDS:
                for parallel in ("nodes", "steps", "both") if size == 4 else ("nodes", "steps"):
                    out = Path(directory) / f"{parallel}-{kind}-{size}.npy"
                    records.append(carry_out(comm, parallel, kind, out))
            comm.Free()
    collected = WORLD.gather(records)
    if collected is not None:
        text = json.dumps([record for part in collected for record in part])
        (Path(directory) / "found.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
