"""Events on ranks that share the nodes of a step: mpirun -n 2 python events.py DIRECTORY."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mpi4py import MPI

import dae_sdc as ds


def fingerprint(solution: Any) -> list[Any]:
    """All that a run has found, to be compared among ranks."""
    records = [*solution.events, *solution.switches]
    found = [(record.t.tolist(), record.u.tolist(), record.direction.tolist()) for record in records]
    return [solution.success, solution.message, solution.t.tolist(), solution.u.tolist(), found]


def main(directory: str, comm: MPI.Comm = MPI.COMM_WORLD) -> None:
    records = []
    ten = ds.Event(lambda u, t: u[0] - 10.0)
    end = ds.Event(lambda u, t: u[0] - 20.0, terminal=True)
    fixed = {"sweeper": "semi-implicit", "dt": 0.25, "nodes": 6}
    for settings in (
        fixed,
        *({"sweeper": name, "rtol": 1e-11} for name in ("fully-implicit", "semi-implicit")),
    ):
        common = {"parallel": "nodes", "comm": comm, **settings}
        whole = ds.solve("discontinuous", events=[ten], **common)
        short = ds.solve("discontinuous", events=[ten, end], **common)
        prints = comm.allgather(fingerprint(whole) + fingerprint(short))
        records.append(
            {
                "same": all(one == prints[0] for one in prints),
                "success": whole.success and short.success,
                "switch": whole.switches[0].t.tolist(),
                "event": whole.events[0].t.tolist(),
                "end": float(short.t[-1]),
            }
        )
    if comm.rank == 0:
        (Path(directory) / "events.json").write_text(json.dumps(records), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
