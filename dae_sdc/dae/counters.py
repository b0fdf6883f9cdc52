"""What is counted while a DAE is solved; every counter counts what its name says."""

from __future__ import annotations

from pySDC.core.problem import WorkCounter

COUNTERS = ("rhs", "newton", "jacobian", "factorization", "solve")
"""Residual evaluations, Newton iterations, Jacobian evaluations, LU factorisations, LU solves."""


def new_counters() -> dict[str, WorkCounter]:
    """Counters at zero, one for each name in :data:`COUNTERS`."""
    return {name: WorkCounter() for name in COUNTERS}
