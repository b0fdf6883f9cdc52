"""Whether this process was started by an MPI launcher; imports nothing large."""

from __future__ import annotations

import os

LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
"""Environment variables with the number of processes that an MPI launcher has started."""


def launched() -> int:
    """Number of processes that an MPI launcher has started, by the environment; 1 without one."""
    return max([1, *_counts()])


def by_launcher() -> bool:
    """Whether an MPI launcher has started this process, even if it is the only one."""
    return bool(_counts())


def _counts() -> list[int]:
    counts = [os.environ.get(name, "") for name in LAUNCHERS]
    return [int(count) for count in counts if count.isdigit()]
