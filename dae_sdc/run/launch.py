"""Whether this process was started by a launcher of MPI; asked before anything large is imported."""

from __future__ import annotations

import os

LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
"""Variables in which launchers of MPI say how many processes they have started."""


def launched() -> int:
    """How many processes a launcher of MPI has started, as far as the environment tells."""
    return max([1, *_counts()])


def by_launcher() -> bool:
    """Whether a launcher of MPI has started this process, be it alone."""
    return bool(_counts())


def _counts() -> list[int]:
    counts = [os.environ.get(name, "") for name in LAUNCHERS]
    return [int(count) for count in counts if count.isdigit()]
