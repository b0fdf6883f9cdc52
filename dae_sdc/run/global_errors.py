"""Global errors of runs to a tolerance, by runs to smaller ones or by how fast unknowns change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.state import Vector
from dae_sdc.text import brief

Integers: TypeAlias = npt.NDArray[np.int64]


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
    # Ratio of the largest value of an algebraic unknown to those outside a part of the run, from which on the
    # run tells that errors are relative to that value; and their largest size there, in units of rtol.
    peak: float = 10.0
    part_of_peaks: float = 0.01
    error_of_peaks: float = 10.0
    # Error of the time of transients, in units of rtol and of the time in which an unknown changes.
    of_time: float = 0.05


GLOBAL_ERROR = GlobalErrorSettings()


def estimated(coarse: Vector, fine: Vector) -> Vector:
    """Estimated errors of the finer of two runs at common times, infinite where they are no numbers."""
    with np.errstate(all="ignore"):
        errors = GLOBAL_ERROR.remaining * np.abs(fine - coarse)
    return np.where(np.isfinite(errors), errors, np.inf)


def inaccurate(names: Sequence[str], errors: Vector, allowed: Vector, rtol: float, why: str = "") -> str:
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
        f"rtol={rtol:g} allows a step, "
        + (why or "by comparison of runs to two tolerances; reduce the index, or use another sweeper")
    )


def not_estimated(names: Sequence[str], why: str) -> str:
    """What is said of all unknowns if no run to a smaller tolerance tells their errors."""
    shown = brief(names, GLOBAL_ERROR.most_named)
    return f"{shown}: errors up to any size, as they were not estimated ({why})"


def in_transients(
    names: Sequence[str], t: Vector, u: Vector, du: Vector, sizes: Vector, rtol: float, begins: Vector
) -> str:
    """Which unknowns change so fast that a small error of time is a large one of theirs; empty if none."""
    # A state that is off by a part of rtol comes to a transient too early or too late, and what follows from
    # it is off as by a shift in time. Those that begin at known times, ``begins`` in order, are not shifted.
    # Shapes: t (K,), u and du (K, n), sizes (n,).
    part, span = GLOBAL_ERROR.of_time, t[-1] - t[0]
    sizes = np.maximum(sizes, np.abs(u).max(axis=0, initial=np.finfo(float).tiny))
    fastest = np.fmax(np.fmax.reduce(du), -np.fmin.reduce(du))
    fast = np.flatnonzero(part * span * fastest > GLOBAL_ERROR.accepted * sizes)
    if not fast.size:
        return ""
    u, sizes, rates = u[:, fast], sizes[fast], np.abs(np.nan_to_num(du[:, fast], posinf=0.0, neginf=0.0))
    since = t - begins[np.searchsorted(begins, t, side="right") - 1]
    longest = span * sizes / np.maximum(np.abs(np.diff(u, axis=0)).sum(axis=0), sizes)
    shifts = part * rtol * np.minimum(since[:, None], longest)
    errors = np.minimum(rates * shifts, np.ptp(u, axis=0))
    k = int(np.argmax((errors / sizes).max(axis=1)))
    why = f"in transients as near t={t[k]:.10g}, whose time is not known better; give a smaller rtol"
    return inaccurate([names[j] for j in fast.tolist()], errors, rtol * sizes, rtol, why)


def rare_peaks(t: Vector, u: Vector, sizes: Vector) -> Integers:
    """Numbers of the unknowns that are far larger in a small part of a run than elsewhere."""
    # Shapes: t (K,), u (K, n), sizes (n,): their largest values.
    share = np.diff(t) / (t[-1] - t[0])
    in_peaks = share @ (GLOBAL_ERROR.peak * np.abs(u[1:]) > sizes)
    return np.flatnonzero((sizes > 0.0) & (in_peaks < GLOBAL_ERROR.part_of_peaks))


def beside_peaks(names: Sequence[str], largest: float, rtol: float) -> str:
    """What is said of algebraic unknowns with rare peaks, whose errors are relative to these."""
    return (
        f"{brief(names, GLOBAL_ERROR.most_named)}: errors up to "
        f"{GLOBAL_ERROR.error_of_peaks * rtol * largest:.1g}, as rtol={rtol:g} is relative to {largest:.3g}, "
        f"reached in less than {GLOBAL_ERROR.part_of_peaks:.0%} of the run; give atol for more accuracy"
    )
