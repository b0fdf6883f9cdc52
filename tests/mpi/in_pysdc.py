"""Events and steps of a given accuracy in pySDC's controllers: mpirun -n 3 python in_pysdc.py DIRECTORY."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from pySDC.implementations.controller_classes.controller_MPI import controller_MPI
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

import dae_sdc as ds
from dae_sdc.control.adaptivity import AdaptivityDAE
from dae_sdc.control.events import Event, LocateEvents

WORLD = MPI.COMM_WORLD
SWEEPERS = (ds.FullyImplicitDAE, ds.SemiImplicitDAE, ds.ConstrainedDAE)
ON_NODES = (ds.FullyImplicitDAEMPI, ds.SemiImplicitDAEMPI)
NODES, SIZES = (2, 3, 4, 5), (0.3, 0.25, 0.1, 0.07, 0.05)
CONTROLLER = {"logger_level": 40, "dump_setup": False, "mssdc_jac": False}


def description(sweeper: Any, nodes: int, dt: float, controls: Any, **more: Any) -> dict[str, Any]:
    """What a user of pySDC writes for the problem with a switch."""
    return {
        "problem_class": ds.DiscontinuousTestDAE,
        "problem_params": {},
        "sweeper_class": sweeper,
        "sweeper_params": {"num_nodes": nodes, "quad_type": "RADAU-RIGHT", "QI": "MIN-SR-S", **more},
        "level_params": {"dt": dt, "restol": 1e-12},
        "step_params": {"maxiter": 80},
        "convergence_controllers": controls,
    }


def run(given: dict[str, Any], t0: float = 1.0, steps: Any = WORLD) -> dict[str, Any]:
    """Outcome of a run with a step on every rank, or with one step at a time where ``steps`` is None."""
    controller = (
        controller_nonMPI(1, dict(CONTROLLER), given)
        if steps is None
        else controller_MPI(dict(CONTROLLER), given, steps)
    )
    P = controller.steps[0].levels[0].prob
    end, _ = controller.run(u0=P.u_exact(t0), t0=t0, Tend=5.0)
    events = next(one for one in controller.convergence_controllers if isinstance(one, LocateEvents))
    return {
        "error": float(np.abs(np.array(end) - np.array(P.u_exact(5.0))).max()),
        "u": np.array(end).tolist(),
        "switches": [time for watch in events.switches for time in watch.times],
        "events": [time for watch in events.events for time in watch.times],
    }


def refusal(given: dict[str, Any]) -> str:
    """The message of a run that is refused."""
    try:
        run(given)
    except ds.InputError as error:
        return str(error)
    return ""


def main(directory: str) -> None:
    """Write what all ranks have found."""
    found: dict[str, Any] = {"fixed": []}
    # Every third case has all numbers of nodes and all sizes with each sweeper.
    for sweeper, nodes, dt in list(product(SWEEPERS, NODES, SIZES))[::3]:
        one = run(description(sweeper, nodes, dt, {LocateEvents: {}}), t0=3.7)
        # As always in pySDC, ranks without a step in the last block keep the value of an earlier one.
        found["fixed"].append([sweeper.__name__, nodes, dt, one["error"], WORLD.allgather(one["switches"])])
    watched = {"events": [Event(lambda u, t: u[0] - 10.0), Event(lambda u, t: u[0] - 20.0, terminal=True)]}
    found["terminal"] = WORLD.allgather(run(description(ds.SemiImplicitDAE, 5, 0.1, {LocateEvents: watched})))
    tolerance = {"rtol": 1e-8, "t_end": 5.0}
    adaptive = {AdaptivityDAE: tolerance, LocateEvents: {}}
    found["nodes"] = [
        WORLD.allgather(run(description(cls, 3, 0.1, {**chosen, LocateEvents: {}}, comm=WORLD), steps=None))
        for cls, chosen in product(ON_NODES, ({}, {AdaptivityDAE: tolerance}))
    ]
    found["alone"] = WORLD.allgather(
        run(description(ds.SemiImplicitDAE, 3, 0.1, adaptive), steps=MPI.COMM_SELF)
    )
    found["refused"] = WORLD.allgather(refusal(description(ds.SemiImplicitDAE, 3, 0.1, adaptive)))
    if WORLD.rank == 0:
        (Path(directory) / "in_pysdc.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
