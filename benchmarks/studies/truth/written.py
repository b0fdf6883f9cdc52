"""DAEs as engineers write them, a function and a start, with a reference for its solution, and its judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measuring.outcomes import DONE, FAILED, WRONG, Finding
from benchmarks.studies.truth.generated import Vector
from benchmarks.studies.truth.solves import MARGIN
from dae_sdc.registry import Registry

Reference = Callable[[Vector], Vector]
"""Values of all unknowns, shape (K, n), at times of shape (K,)."""


WAYS: Mapping[str, Mapping[str, Any]] = {
    "traced": {},
    "untraced": {"trace": False},
    "nodes-3": {"nodes": 3},
    "ida": {"sweeper": "ida"},
}
"""What ``ds.solve`` is told besides: nothing, so that it reads the function; to call it; another method."""


@dataclass(frozen=True, eq=False)
class Written:
    """Equations F(t, u, u') = 0 of a function, and the solution that they have.

    Parameters
    ----------
    function : callable
        F(t, u, du).
    start : dict
        Values of all unknowns by name, as they are given to ``ds.solve``.
    end : float
        Time at which the run ends; it starts at 0.
    reference : callable
        The solution, exact or of a second method.
    slack : callable, optional
        What the start leaves open of the solution, shape (K, n) at times of shape (K,): added to what the
        tolerance allows.
    """

    function: Callable[[Any, Any, Any], Any]
    start: dict[str, float]
    end: float
    reference: Reference
    slack: Reference | None = None


@dataclass(frozen=True)
class WrittenFamily:
    """A family of written DAEs.

    Parameters
    ----------
    make : callable
        make(seed, variant) -> Written.
    variants : tuple of str
        What each seed makes one DAE of.
    per_seed : int
        Seeds of the family for each of the study's.
    tolerances : tuple of float
        Tolerances that each DAE is solved to.
    ways : tuple of str
        Ways in which each DAE is solved.
    """

    make: Callable[[int, str], Written]
    variants: tuple[str, ...]
    per_seed: int = 1
    tolerances: tuple[float, ...] = (1e-4, 1e-6, 1e-8)
    ways: tuple[str, ...] = tuple(WAYS)


WRITTEN: Registry[WrittenFamily] = Registry("family", "benchmarks.studies.truth.families")
"""Every family of written DAEs by its name."""


def held(
    solution: Any, exact: Vector, rtol: float, *, scale: Vector | float = 1.0, slack: Vector | float = 0.0
) -> Finding:
    """Hold a solution against 100 rtol (1 + |u|) in every unknown at every time, whatever its index.

    Parameters
    ----------
    solution : Solution
        What came back.
    exact : ndarray, shape (K, n)
        What is right at its times.
    rtol : float
        The tolerance of the run.
    scale : ndarray, shape (n,), or float
        Size that counts as 1, of each unknown.
    slack : ndarray, shape (K, n), or float
        What is allowed besides.
    """
    steps = int(solution.stats["steps"])
    error = np.abs(solution.u - exact)
    allowed = MARGIN * rtol * (scale + np.abs(exact)) + slack
    ratio = error / allowed
    ratio = np.where(np.isfinite(ratio), ratio, np.inf)
    worst = float(ratio.max(initial=0.0))
    if worst <= 1.0:
        return Finding(DONE, "", worst, steps, 1)
    i, j = np.unravel_index(np.argmax(ratio), ratio.shape)
    first = int(np.flatnonzero((ratio > 1.0).any(axis=1))[0])
    said = (
        f"{solution.names[j]} is off by {error[i, j]:.2g} at t={solution.t[i]:.4g}, {worst:.3g} times what "
        f"is allowed; first wrong at row {first} of {len(solution.t)}, {steps} steps"
    )
    told = f"; message: {solution.message}" if solution.message else ""
    return Finding(WRONG, said + told, worst, steps, 1)


def ended(solution: Any, end: float) -> Finding | None:
    """What is to be said of a run that did not come to its end, None of one that did."""
    steps = int(solution.stats["steps"])
    if not solution.success:
        return Finding(FAILED, solution.message, steps=steps, solves=1)
    if abs(solution.t[-1] - end) > 1e-12 * abs(end):
        return Finding(WRONG, f"success, but the run ended at {solution.t[-1]!r}", steps=steps, solves=1)
    return None
