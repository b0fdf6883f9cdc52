"""Ranks that ask for different runs, or leave: mpirun -n 2 python disagree.py case [file.json]."""

from __future__ import annotations

import json
import sys
from typing import Any

from mpi4py import MPI
from pySDC.core.hooks import Hooks

import dae_sdc as ds

RANK = MPI.COMM_WORLD.Get_rank()

ASKED = {"dt": 0.1, "nodes": 2, "sweeper": "fully-implicit", "t_end": 1.0}

OTHERS: dict[str, Any] = {
    "sweeper": "semi-implicit",
    "dt": 0.05,
    "nodes": 3,
    "t_end": 2.0,
    "restol": 1e-3,
    "maxiter": 2,
    "qdelta": "MIN-SR-NS",
    "params": {"rate": 2.0},
}


def equations(t: Any, u: Any, du: Any, rate: float = 1.0) -> list[Any]:
    return [du[0] + rate * u[0] * u[1], u[1] - 1.0 - 0.1 * u[0]]


class Decay(ds.ProblemDAE):
    """u' = -rate u, whose start does not depend on the rate."""

    def __init__(self, rate: float = 1.0) -> None:
        super().__init__(1, 0)
        self.rate = rate

    def eval_f(self, u: Any, du: Any, t: float) -> list[Any]:
        return [du[0] + self.rate * u[0]]


class Begun(Hooks):  # type: ignore[misc]
    """Notes that the run has begun: before, the equations are looked at beside their start."""

    run = False

    def pre_run(self, step: Any, level_number: int) -> None:
        Begun.run = True


def ends(t: Any, u: Any, du: Any) -> list[Any]:
    if RANK == 1 and Begun.run and float(t) > 0.5:
        sys.exit(3)
    return equations(t, u, du)


def run(function: Any = equations, **options: Any) -> Any:
    """One run on both ranks."""
    return ds.solve(function, u0=[1.0, 1.1], parallel="nodes", **{**ASKED, **options})


def main(case: str, path: str = "") -> None:
    """What the case says; "options" writes for each option what this program was told."""
    if case == "options":
        told = {}
        for name, other in OTHERS.items():
            try:
                run(**({name: other} if RANK else {}))
            except ds.InputError as error:
                told[name] = str(error)
        every = MPI.COMM_WORLD.gather(told)
        if RANK == 0:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(every, file)
    elif case == "attribute":
        said = ""
        try:
            ds.solve(Decay(1.0 + RANK), u0=[1.0], parallel="nodes", **ASKED)
        except ds.InputError as error:
            said = str(error)
        lines = MPI.COMM_WORLD.gather(said)
        if RANK == 0:
            print(*lines, sep="\n")
    elif case == "exit":
        run(ends, trace=False, hooks=[Begun])
    elif case == "argument":
        run(**({"nodez": 3} if RANK else {}))
    elif case == "before":
        if RANK == 0:
            run()
    elif case == "leave":
        run()
        if RANK == 0:
            run()


if __name__ == "__main__":
    main(*sys.argv[1:])
