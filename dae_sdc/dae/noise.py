"""The noise of a residual: what tables, inner iterations or random numbers leave in F besides round-off."""

from __future__ import annotations

from math import factorial
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.state import Vector, attach

EPS = float(np.finfo(float).eps)

NOISE_INTERVALS = 7  # Number of equal intervals of the line along which F is evaluated.
# Length of an interval relative to the sizes of the unknowns: smooth parts vanish in its third power.
NOISE_SPACING = 1e-6
NOISE_SHIFT = 1e-3  # Relative change of the unknowns by which the sizes of the terms of F are estimated.
NOISE_LOOKS = 4  # Number of directions of such changes: along one, terms may cancel.
# Largest ratio of the levels by differences of three successive orders at which they agree.
LEVEL_AGREEMENT = 4.0
SIGN_BALANCE = 0.01  # Least ratio of the largest differences of both signs.
LEAST_NOISE = (
    30.0  # Level, relative to the terms of F, in units of eps, above which it is more than round-off.
)


class Noise(NamedTuple):
    """Noise of a residual."""

    # Level in units of the change of F with a relative change of its arguments, the largest of all
    # equations.
    relative: float
    absolute: Vector  # Shape (n,). Level in every equation, as a standard deviation.


def measured_noise(problem: Any, u: Vector, du: Vector, t: float) -> Noise | None:
    """The noise of F at a point, from differences of high order along a line.

    References
    ----------
    J. More, S. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33 (2011) 1292 (ECNoise).
    """
    # Shapes: u and du (n,).
    split, known = problem.n_diff, problem.run_scales
    scales = [np.maximum(known.expected, np.abs(u)), np.maximum(known.expected / known.time, np.abs(du))]
    numbers = np.arange(1.0, 2.0 * problem.n + 1.0).reshape(2, problem.n)

    def residual(distance: float, look: int = 0) -> Vector:
        # The same directions in every run.
        moved = np.array([u, du]) + distance * np.cos((look + 1.0) * numbers) * scales
        return np.array(problem.evaluate(attach(moved[0], split), attach(moved[1], split), t))

    absolute = np.full(problem.n, np.inf)
    # Noise is on both sides of the point, and a jump nearby on one of them.
    for sign in (1.0, -1.0):
        rows = np.array([residual(sign * NOISE_SPACING * i) for i in range(NOISE_INTERVALS + 1)])
        if not np.isfinite(rows).all():
            return None
        np.minimum(absolute, _level(rows), out=absolute)
        if not absolute.any():
            return None
    changes = [(residual(NOISE_SHIFT, look) - rows[0]) / NOISE_SHIFT for look in range(NOISE_LOOKS)]
    # Cosines have the mean square 1/2.
    terms = np.sqrt(2.0 * np.mean(np.square(changes), axis=0)) + np.abs(rows[0])
    if not np.isfinite(terms).all():
        return None
    absolute[absolute <= LEAST_NOISE * EPS * terms] = 0.0
    relative = float((absolute / np.maximum(terms, np.finfo(float).tiny)).max())
    return Noise(relative, absolute) if relative > 0.0 else None


def _level(rows: Vector) -> Vector:
    """Standard deviation of the noise in every column of equidistant values, 0 where there is none."""
    levels, signs, table = [], [], rows
    for k in range(1, NOISE_INTERVALS):
        table = np.diff(table, axis=0)
        factor = factorial(k) ** 2 / factorial(2 * k)
        levels.append(np.sqrt(factor * np.mean(np.square(table), axis=0)))
        # A jump at the first of the values leaves one large difference, and slopes besides.
        signs.append(
            np.minimum(table.max(axis=0), -table.min(axis=0)) > SIGN_BALANCE * np.abs(table).max(axis=0)
        )
    level = np.zeros(rows.shape[1])
    for k in range(len(levels) - 2):
        three = np.array(levels[k : k + 3])
        agree = signs[k] & (three.max(axis=0) <= LEVEL_AGREEMENT * three.min(axis=0)) & (level == 0.0)
        level[agree] = levels[k][agree]
    return level
