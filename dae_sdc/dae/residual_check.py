"""Whether a residual is as small as the corrections suggest, in scales that do not depend on a Jacobian."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from dae_sdc.dae.jacobian import NOISE_LIMIT
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector

# Largest residual in units of the change of its equation by a change of the unknowns that is tolerated.
# Corrections are measured in another norm, and directions may cancel.
RESIDUAL_FACTOR = 100.0
LEAST_RELATIVE_STEP = 1e-8  # Relative change of the unknowns below which rounding would hide that of F.
# Multiple of the change of F by rounding the unknowns up to which a residual is accepted.
RESIDUAL_NOISE = 50.0
RESIDUAL_ROUNDING = 2.0**-50  # Relative change of the unknowns by rounding.

DIRECTIONS = 3  # Most directions in which the unknowns are changed, until the residual is accepted.


@functools.lru_cache(maxsize=16)
def directions(size: int, count: int = DIRECTIONS) -> Vector:
    """Seeded random directions whose entries have sizes from 1/2 to 1, shape (count, size)."""
    generator = np.random.default_rng(20)
    sizes = generator.uniform(0.5, 1.0, (count, size))
    found: Vector = np.where(generator.random(sizes.shape) < 0.5, -sizes, sizes)
    found.setflags(write=False)
    return found


def above_noise(left: Vector, problem: ProblemDAE) -> Vector:
    """Absolute values of residuals less the noise of the equations, where that is known, and at least 0."""
    # Shapes: left (n,) or (M n,).
    if problem.noise is None:
        return left
    return np.maximum(left - NOISE_LIMIT * np.resize(problem.noise.absolute, len(left)), 0.0)


def is_small(
    left: Vector,
    base: Vector,
    relative: float,
    changed: Callable[[float, Vector], Vector],
    allowed: Vector | None = None,
) -> bool:
    """Whether each entry of a residual is no larger than what tolerated changes of unknowns make of F."""
    # Unknowns are changed along random directions by as much as their error may be, or by more where that
    # would be lost in rounding.
    # Shapes: left (N,), base (N,), allowed (N,).
    enlarged = max(1.0, LEAST_RELATIVE_STEP / relative)
    allowed = np.zeros_like(left) if allowed is None else allowed
    allowed.fill(0.0)
    with np.errstate(all="ignore"):
        for direction in directions(len(left)):
            value = _finite(changed, enlarged, direction)
            if value is None:
                return True
            np.maximum(allowed, np.abs(value - base) * (RESIDUAL_FACTOR / enlarged), out=allowed)
            if (left <= allowed).all():
                return True
        for direction in directions(len(left)):
            value = _finite(changed, RESIDUAL_ROUNDING / relative, direction)
            if value is not None:
                np.maximum(allowed, np.abs(value - base) * RESIDUAL_NOISE, out=allowed)
        return bool((left <= allowed).all())


def _finite(changed: Callable[[float, Vector], Vector], factor: float, direction: Vector) -> Vector | None:
    """F at a changed point, on the other side where it is not defined there; None where it is on neither."""
    for sign in (1.0, -1.0):
        value = changed(sign * factor, direction)
        if np.isfinite(value).all():
            return value
    return None
