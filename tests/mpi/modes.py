"""Models whose structure changes on ranks that share nodes: mpirun -n 2 python modes.py DIRECTORY.

Rank 0 writes ``modes.json``, a list of records.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import sympy as sp
from mpi4py import MPI

import dae_sdc as ds

WORLD = MPI.COMM_WORLD


def clutch() -> ds.Model:
    """Two inertias that a clutch connects from t = 1 to 3, and again from where the second comes to 4."""
    m = ds.Model("clutch", interval=(0.0, 6.0))
    a, b = (m.variable(name, start=start, fixed=True) for name, start in (("a", 3.0), ("b", 0.0)))
    q = m.variable("q")
    m.equations(m.der(a) + q - 1, 2 * m.der(b) - q - 1)
    m.equation(sp.Piecewise((q, m.t < 1), (a - b, sp.Or(m.t < 3, b > 4)), (q, True)))
    return m


def prints(solution: Any) -> list[Any]:
    """All that must be the same, to the last bit."""
    records = [(record.name, record.t.tolist()) for record in solution.switches]
    return [solution.success, solution.message, solution.t.tolist(), solution.u.tolist(), records]


def main(directory: Path) -> None:
    """Solve the model by both ranks, by one, and to the end from checkpoints of both."""
    records = []
    for settings in ({"sweeper": "fully-implicit", "nodes": 3}, {}):
        settings = {"rtol": 1e-8, "parallel": "nodes", **settings}
        file, out = directory / f"run{len(settings)}", directory / f"out{len(settings)}.npy"
        whole = ds.solve(clutch(), checkpoint=file, every=4, out=out, **settings)
        resumed = ds.solve(clutch(), checkpoint=file, every=4, resume=True, **settings)
        alone = ds.solve(clutch(), comm=MPI.COMM_SELF, checkpoint=f"{file}-{WORLD.rank}", every=4, **settings)
        every = WORLD.allgather([prints(whole), prints(resumed), prints(alone)])
        records.append(
            {
                "same": all(each == every[0][0] for of_rank in every for each in of_rank),
                "ranks": whole.parameters["ranks"],
                "resumed_at": resumed.parameters["resumed_at"],
                "message": whole.message,
                "end": whole.u[-1].tolist(),
                "saved": ds.Solution.load(out).u[-1].tolist(),
            }
        )
    try:
        ds.solve(clutch(), dt=0.1, steps=2, parallel="steps")
        refusal = ""
    except ds.InputError as error:
        refusal = str(error)
    if WORLD.rank == 0:
        text = json.dumps({"records": records, "refusal": refusal})
        (directory / "modes.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
