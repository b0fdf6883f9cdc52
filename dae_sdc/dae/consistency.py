"""Whether a value can be the start of a solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import balanced
from dae_sdc.dae.starting_scales import balance_at, guess_scales, without_left_overs
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import EvaluationError, InconsistentStateError

# Largest violation, relative to the size of the terms of the equation, of a consistent value.
LARGEST_VIOLATION = 1e-8
VALUE_ROUND_OFF = 1e-13  # Relative change of a value that counts as a rounding error.
# Largest coefficient of an equation, in a combination free of u', that counts as a rounding error.
UNREACHED_PART = 1e-13


def violation(problem: ProblemDAE, u: MeshDAE, t: float) -> tuple[Vector, Vector]:
    """How much of F(t, u, u') no choice of u' can remove; hidden constraints do not show."""
    # F is linearised in u' at u' = 0 and its residual projected onto the left null space of dF/du', for a
    # sparse dF/du' onto its rows of zeros.
    # Shape of the result: violation, scale (n,).
    du = problem.dtype_f(problem.init)
    residual = problem.evaluate(u, du, t)
    if not np.isfinite(residual).all():
        i = int(np.flatnonzero(~np.isfinite(residual))[0])
        raise EvaluationError(
            f"eval_f of {type(problem).__name__} returned {residual[i]} in '{problem.equation_names[i]}' "
            f"at the initial value, t={t:.6g}; check u0"
        )
    span = float(problem.interval[1] - problem.interval[0])
    span = span if span > 0.0 else 1.0
    scales = problem.run_scales
    known, clean = scales.get_state(), without_left_overs(problem, u)
    if not scales.begun and getattr(problem, "jacobian", None) is None:
        # Increments of differences must be those of the units of the unknowns.
        guess_scales(problem, clean, t, span, LARGEST_VIOLATION)
    halves = linearize(problem, clean, du, t)
    scales.set_state(known)
    remaining, spread = _unreached(halves.mass)
    remains, terms = remaining(residual), abs(halves.stiffness)
    scale = spread(np.asarray(terms @ np.abs(u.view(np.ndarray))).ravel())
    if (np.abs(remains) <= LARGEST_VIOLATION * scale).all():
        return remains, scale
    errors = VALUE_ROUND_OFF * np.asarray(terms @ balance_at(problem, clean, t, halves, span).sizes).ravel()
    own: Callable[[MeshDAE, MeshDAE, float], Vector] | None = getattr(problem, "residual_errors", None)
    if own is not None:  # terms without unknowns, as those of time, have errors too
        errors = np.maximum(errors, own(u, du, t))
    return remains, scale + spread(errors) / LARGEST_VIOLATION


def _unreached(mass: Any) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector]]:
    """Projection on the left null space of dF/du', of a residual and of the sizes of its terms."""
    if sparse.issparse(mass):
        without_derivative = np.asarray(abs(mass).sum(axis=1)).ravel() == 0.0
        return lambda residual: np.where(without_derivative, residual, 0.0), lambda sizes: sizes
    # Unknowns and equations differ by orders of magnitude (amperes beside volts); ranks must not see that.
    weights, columns = balanced(mass)
    left, values, _ = np.linalg.svd(mass / weights[:, None] / columns)
    rank = int((values > len(values) * np.finfo(float).eps * max(values[0], 1e-300)).sum())
    basis = left[:, rank:]
    basis[np.abs(basis) < UNREACHED_PART] = 0.0
    parts = np.abs(basis)

    def spread(sizes: Vector) -> Vector:
        # Equations that are no part of a combination still bring their rounding errors into it.
        rounding = UNREACHED_PART * (sizes / weights).max(initial=0.0)
        found: Vector = parts @ np.maximum(parts.T @ (sizes / weights), rounding) * weights
        return found

    return lambda residual: basis @ (basis.T @ (residual / weights)) * weights, spread


def check_consistent(problem: ProblemDAE, u: MeshDAE, t: float) -> None:
    """Refuse a start value that violates an equation."""
    # Hidden constraints do not show in F; a problem that knows its own looks at them first.
    own_check: Callable[[MeshDAE, float], None] | None = getattr(problem, "check_start", None)
    if own_check is not None:
        own_check(u, t)
    problem.start_step(u, t)
    worst, relative, remains, allowed = _worst(problem, u, t)
    if relative[worst] > LARGEST_VIOLATION and getattr(problem, "in_force", None) is not None:
        # On the border of a jump, u0 may satisfy the equations at that point alone, as sign(0) = 0.
        problem.in_force = None
        at_border = _worst(problem, u, t)
        problem.start_step(u, t)
        if at_border[1].max() <= LARGEST_VIOLATION:
            return
    if relative[worst] > LARGEST_VIOLATION:
        others = int((relative > LARGEST_VIOLATION).sum()) - 1
        raise InconsistentStateError(
            f"u0 of {type(problem).__name__} violates equation '{problem.equation_names[worst]}' "
            f"at t={t:.6g}: residual {remains[worst]:.2g} (tolerance {allowed[worst]:.1e})"
            + (f" and {others} more" if others else "")
            + "; start='consistent' takes the nearest consistent values, or pass a consistent u0"
        )


def _worst(problem: ProblemDAE, u: MeshDAE, t: float) -> tuple[int, Vector, Vector, Vector]:
    """The equation that is violated most, and of all relative violations, residuals and allowed ones."""
    remains, scale = violation(problem, u, t)
    relative = np.divide(np.abs(remains), scale, out=np.abs(remains) / 1e-300, where=scale > 0.0)
    relative[np.abs(remains) < np.finfo(float).tiny] = 0.0
    return int(relative.argmax()), relative, remains, LARGEST_VIOLATION * scale
