"""Programs that end before their time on one rank: mpirun -n 2 python uncaught.py case parallel file.npy."""

from __future__ import annotations

import sys
from typing import Any

from faulty import Decay
from mpi4py import MPI
from pySDC.core.hooks import Hooks

import dae_sdc as ds
from dae_sdc import cli
from dae_sdc.errors import SolveError

RANK = MPI.COMM_WORLD.Get_rank()


class Broken(Hooks):  # type: ignore[misc]
    """A hook of the user that fails on one rank."""

    kind: type[Exception] = ValueError

    def post_step(self, step: Any, level_number: int) -> None:
        super().post_step(step, level_number)
        if RANK == 1 and step.levels[0].time > 0.35:
            raise self.kind("this hook is broken")


class Unwilling(Broken):
    """One that fails with an error that a run otherwise survives."""

    kind = SolveError


def main(case: str, parallel: str, out: str) -> None:
    common: dict[str, Any] = {"parallel": parallel, "sweeper": "semi-implicit", "nodes": 4}
    if case == "hook":
        ds.solve(Decay(), hooks=[Broken], out=out, **common)
    elif case == "hook, SolveError":
        ds.solve(Decay(), hooks=[Unwilling], out=out, **common)
    elif case == "input":
        ds.solve(Decay(), dt=-0.1 if RANK == 1 else 0.1, **common)
    elif case == "between":
        ds.solve(Decay(), out=out, **common)
        if RANK == 1:
            raise ValueError("this script is broken")
        ds.solve(Decay(), **common)
    elif case == "exit":
        ds.solve(Decay(), out=out, **common)
        if RANK == 1:
            sys.exit(3)
        ds.solve(Decay(), **common)
    else:
        # A command on the problem of this directory; the case is its fault.
        options = ["--sweeper", "semi-implicit", "--nodes", "4", "--parallel", parallel, "--out", out]
        sys.exit(cli.main(["solve", "decay", *options, "--params", f"kind={case}"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
