"""Counts what the sweeps send: mpirun -n 3 python messages.py DIRECTORY."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mpi4py import MPI
from pySDC.core.hooks import Hooks
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

from dae_sdc.run.description import describe

SILENT = {"Get_rank", "Get_size", "rank", "size", "Free", "handle", "py2f", "name", "Get_name"}
"""What a communicator tells without a message."""

log: list[Any] = []


class Listening(MPI.Intracomm):  # type: ignore[misc]
    """A communicator that writes down every operation, with the bytes a node sends where it is Allgatherv."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in SILENT or not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            size = args[1][3].Get_size() if name == "Allgatherv" else None
            log.append([name, size])
            return found(*args, **kwargs)

        return call


class Steps(Hooks):  # type: ignore[misc]
    """Marks the steps and sweeps."""

    def pre_step(self, step: Any, level_number: int) -> None:
        super().pre_step(step, level_number)
        log.append(["step", None])

    def post_sweep(self, step: Any, level_number: int) -> None:
        super().post_sweep(step, level_number)
        log.append(["sweep", None])


def carry_out(comm: Any, sweeper: str, **settings: Any) -> list[Any]:
    log.clear()
    setup = describe(
        "hessenberg-1", sweeper=sweeper, nodes=4, parallel="nodes", convergence_controllers={}, **settings
    )
    description = setup.with_step(0.05)
    description["convergence_controllers"] = {}
    description["sweeper_params"]["comm"] = comm
    controller = controller_nonMPI(1, {"logger_level": 40, "hook_class": [Steps]}, description)
    P = controller.MS[0].levels[0].prob
    controller.run(u0=P.state(P.u_exact(0.0)), t0=0.0, Tend=0.175)
    return list(log)


def main(directory: str) -> None:
    comm = Listening(MPI.COMM_WORLD.Dup())
    found = []
    for sweeper in ("fully-implicit", "semi-implicit", "constrained"):
        for restol, maxiter in ((-1.0, 4), (1e-10, 50)):
            ran = carry_out(comm, sweeper, restol=restol, maxiter=maxiter)
            found.append({"sweeper": sweeper, "restol": restol, "maxiter": maxiter, "log": ran})
    everyone = MPI.COMM_WORLD.gather(found)
    if everyone is not None:
        (Path(directory) / "messages.json").write_text(json.dumps(everyone), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
