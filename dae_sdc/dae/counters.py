"""What is counted while a DAE is solved; every counter counts what its name says."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pySDC.core.problem import WorkCounter

from dae_sdc.dae.memory import fields

# Residual evaluations, Newton iterations, Jacobian evaluations, LU factorisations, LU solves.
COUNTERS = ("rhs", "newton", "jacobian", "factorization", "solve")


class Counts(ctypes.Structure):
    """What compiled code has counted, a number for each name in :data:`COUNTERS`."""

    _fields_ = fields(ctypes.c_int64, *COUNTERS)

    def add_to(self, problem: Any) -> None:
        """Add them to the counters of a problem, and begin at 0 again."""
        for name in COUNTERS:
            count = getattr(self, name)
            if count:
                problem.work_counters[name].niter += count
                setattr(self, name, 0)


def new_counters() -> dict[str, WorkCounter]:
    """Counters at zero, one for each name in :data:`COUNTERS`."""
    return {name: WorkCounter() for name in COUNTERS}


@contextmanager
def uncounted(problem: Any) -> Iterator[None]:
    """Leave the counters of a problem as they are, whatever is evaluated within."""
    counters = problem.work_counters
    kept = {name: counters[name].niter for name in COUNTERS}
    try:
        yield
    finally:
        for name, count in kept.items():
            counters[name].niter = count
