"""Runs programs of this directory in one launch, in turn: mpirun -n 3 python together.py DIRECTORY.

Starting ranks takes longer than most of these programs. The names of what they write begin with theirs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import adaptive
import dense
import direct
import events
import in_pysdc
import messages
import paths
import stages
import starts
from mpi4py import MPI


def main(directory: str) -> None:
    """Run all programs; those for two ranks on the first two."""
    world = MPI.COMM_WORLD
    two = world.Split(0 if world.rank < 2 else MPI.UNDEFINED, world.rank)
    for program in (messages, adaptive, direct, in_pysdc, paths, stages, starts):
        program.main(directory)
        world.Barrier()
    for program in (dense, events):
        if two != MPI.COMM_NULL:
            program.main(directory, two)
        world.Barrier()
    if world.rank == 0:
        (Path(directory) / "done").touch()


if __name__ == "__main__":
    main(sys.argv[1])
