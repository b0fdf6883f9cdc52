"""Global errors of runs to a tolerance, estimated by runs to smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.text import brief


@dataclass(frozen=True)
class GlobalErrorSettings:
    """How runs are repeated to estimate the global error."""

    refinement: float = 0.1  # Tolerance of a run in units of that of the run before.
    most_runs: int = 3  # Largest number of runs that are compared.
    # Power of rtol that is the tolerance of the run before these, which tells the sizes of the unknowns.
    sizing_power: float = 0.5
    least_size: float = 1e-4  # Least size of an unknown, in units of its nominal value.
    # Error of the finer of two runs relative to their difference. The error falls at least by the square
    # root of ``refinement`` = 1/10 where steps of the first order are taken: 1 / (10^(1/2) - 1) = 0.46.
    remaining: float = 0.5
    # Estimated error, in units of the tolerance, up to which a run is accepted: errors of steps accumulate.
    accepted: float = 30.0
    most_named: int = 100  # Largest number of unknowns that are named in a message.


GLOBAL_ERROR = GlobalErrorSettings()


def estimated(coarse: Vector, fine: Vector) -> Vector:
    """Estimated errors of the finer of two runs at common times, infinite where they are no numbers."""
    with np.errstate(all="ignore"):
        errors = GLOBAL_ERROR.remaining * np.abs(fine - coarse)
    return np.where(np.isfinite(errors), errors, np.inf)


def inaccurate(names: Sequence[str], errors: Vector, allowed: Vector, rtol: float) -> str:
    """Which unknowns have larger errors than a tolerance allows, and up to which; empty if none."""
    # Shapes: errors and allowed (K, n).
    ratios = (errors / allowed).max(axis=0)
    loose = np.flatnonzero(ratios > GLOBAL_ERROR.accepted)
    if not loose.size:
        return ""
    worst = [names[j] for j in loose[np.argsort(-ratios[loose], kind="stable")].tolist()]
    shown = brief(worst, GLOBAL_ERROR.most_named)
    return (
        f"{shown}: errors up to {errors[:, loose].max():.1g}, {ratios.max():.1g} times what "
        f"rtol={rtol:g} allows a step, by comparison of runs to two tolerances; reduce the index, or use "
        "another sweeper"
    )


def not_estimated(names: Sequence[str], why: str) -> str:
    """What is said of all unknowns if no run to a smaller tolerance tells their errors."""
    shown = brief(names, GLOBAL_ERROR.most_named)
    return f"{shown}: errors up to any size, as they were not estimated ({why})"
