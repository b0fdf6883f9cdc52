"""The noise of a residual: what tables, inner iterations or random numbers leave in F besides round-off."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.state import Vector, attach

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class NoiseOptions:
    """How the noise of a residual is measured."""

    intervals: int = 7  # Number of equal intervals of the line along which F is evaluated.
    # Length of an interval relative to the sizes of the unknowns: smooth parts vanish in its third power.
    spacing: float = 1e-6
    shift: float = 1e-3  # Relative change of the unknowns by which the sizes of the terms of F are estimated.
    looks: int = 4  # Number of directions of such changes: along one, terms may cancel.
    # Largest ratio of the levels by differences of three successive orders at which they agree.
    agreement: float = 4.0
    balance: float = 0.01  # Least ratio of the largest differences of both signs.
    # Level, relative to the terms of F and in units of eps, above which it is more than round-off.
    least: float = 30.0


class Noise(NamedTuple):
    """Noise of a residual."""

    # Level in units of the change of F with a relative change of its arguments, the largest of all
    # equations.
    relative: float
    absolute: Vector  # Shape (n,). Level in every equation, as a standard deviation.


def measured_noise(
    problem: Any, u: Vector, du: Vector, t: float, options: NoiseOptions | None = None
) -> Noise | None:
    """The noise of F at a point, from differences of high order along a line.

    References
    ----------
    J. More, S. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33 (2011) 1292 (ECNoise).
    """
    # Shapes: u and du (n,).
    options, split = options or NoiseOptions(), problem.n_diff
    known = problem.run_scales
    scales = [np.maximum(known.expected, np.abs(u)), np.maximum(known.expected / known.time, np.abs(du))]
    numbers = np.arange(1.0, 2.0 * problem.n + 1.0).reshape(2, problem.n)

    def residual(distance: float, look: int = 0) -> Vector:
        # The same directions in every run.
        moved = np.array([u, du]) + distance * np.cos((look + 1.0) * numbers) * scales
        return np.array(problem.evaluate(attach(moved[0], split), attach(moved[1], split), t))

    absolute = np.full(problem.n, np.inf)
    # Noise is on both sides of the point, and a jump nearby on one of them.
    for sign in (1.0, -1.0):
        rows = np.array([residual(sign * options.spacing * i) for i in range(options.intervals + 1)])
        if not np.isfinite(rows).all():
            return None
        np.minimum(absolute, _level(rows, options), out=absolute)
        if not absolute.any():
            return None
    changes = [(residual(options.shift, look) - rows[0]) / options.shift for look in range(options.looks)]
    # Cosines have the mean square 1/2.
    terms = np.sqrt(2.0 * np.mean(np.square(changes), axis=0)) + np.abs(rows[0])
    if not np.isfinite(terms).all():
        return None
    absolute[absolute <= options.least * EPS * terms] = 0.0
    relative = float((absolute / np.maximum(terms, np.finfo(float).tiny)).max())
    return Noise(relative, absolute) if relative > 0.0 else None


def _level(rows: Vector, options: NoiseOptions) -> Vector:
    """Standard deviation of the noise in every column of equidistant values, 0 where there is none."""
    levels, signs, table = [], [], rows
    for k in range(1, options.intervals):
        table = np.diff(table, axis=0)
        factor = factorial(k) ** 2 / factorial(2 * k)
        levels.append(np.sqrt(factor * np.mean(np.square(table), axis=0)))
        # A jump at the first of the values leaves one large difference, and slopes besides.
        signs.append(
            np.minimum(table.max(axis=0), -table.min(axis=0)) > options.balance * np.abs(table).max(axis=0)
        )
    level = np.zeros(rows.shape[1])
    for k in range(len(levels) - 2):
        three = np.array(levels[k : k + 3])
        agree = signs[k] & (three.max(axis=0) <= options.agreement * three.min(axis=0)) & (level == 0.0)
        level[agree] = levels[k][agree]
    return level
