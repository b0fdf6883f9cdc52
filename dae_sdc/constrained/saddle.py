"""Linear systems of the form [A B; G 0] of constrained equations, and projections onto constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from dae_sdc.dae.state import Vector
from dae_sdc.errors import EvaluationError, SingularMatrixError


@dataclass(frozen=True)
class SaddleOptions:
    """Settings of linear systems with constraints and of projections on them."""

    # Reciprocal condition of the matrix with rows and columns of size 1, below which it counts as singular.
    least_condition: float = 1e-13
    round_off: float = 1e-14  # Part of the largest row below which another row is nothing but round-off.
    # Part of a row that is independent of those before it, below which it counts as dependent.
    least_independence: float = 1e-11
    newton_iterations: int = 50  # Largest number of Newton iterations of a projection.
    # converged_change, stalled_change: relative change that ends a projection at once, and where changes no
    # longer become half as large.
    converged_change: float = 1e-15
    stalled_change: float = 1e-12
    # Largest constraint relative to its scale at a point that counts as a solution; it is mostly round-off.
    largest_violation: float = 1e-8


SADDLE = SaddleOptions()


def solve_saddle(
    A: Vector, B: Vector | None, G: Vector, rhs: Vector, names: Sequence[str], what: str
) -> Vector:
    """Solve [A B; G 0] x = rhs, or [A; G] x = rhs where B is None."""
    # Shapes: A (n, n), B (n, m), G (m, n), rhs (n + m,) or (n,) -> (n + m,) or (n,).
    m = len(G)
    matrix = np.vstack([A, G]) if B is None else np.block([[A, B], [G, np.zeros((m, m))]])
    if not (np.isfinite(matrix).all() and np.isfinite(rhs).all()):
        raise EvaluationError(f"the equations of {what} have a NaN or infinite value; check the state there")
    rows = np.abs(matrix).max(axis=1)
    # A row of nothing but round-off must not be scaled to size 1.
    rows[rows <= SADDLE.round_off * rows.max(initial=0.0)] = np.inf
    scaled = matrix / rows[:, None]
    columns = np.abs(scaled).max(axis=0)
    columns[columns == 0.0] = 1.0
    scaled /= columns
    factors, pivots, info = lapack.dgetrf(scaled)
    condition = 0.0
    if info == 0:
        condition, _ = lapack.dgecon(factors, np.abs(scaled).sum(axis=0).max())
    if condition < SADDLE.least_condition:
        raise SingularMatrixError(_reason(A, B, G, names, what))
    solution, _ = lapack.dgetrs(factors, pivots, rhs / rows)
    found: Vector = solution / columns
    return found


def dependent(G: Vector) -> tuple[int, int | None]:
    """Rank of a matrix, and the first row that depends on those before it."""
    # Shapes: G (m, n).
    basis: list[Vector] = []
    first = None
    sizes = np.linalg.norm(G, axis=1)
    least = SADDLE.round_off * max(sizes.max(initial=0.0), 1.0)
    for i, row in enumerate(G):
        rest = row.copy()
        for _ in range(2):  # twice is enough
            for direction in basis:
                rest -= (direction @ rest) * direction
        size = np.linalg.norm(rest)
        if sizes[i] > least and size > SADDLE.least_independence * sizes[i]:
            basis.append(rest / size)
        elif first is None:
            first = i
    return len(basis), first


def _reason(A: Vector, B: Vector | None, G: Vector, names: Sequence[str], what: str) -> str:
    """Why the matrix [A B; G 0] has no inverse."""
    m = len(G)
    rank, first = dependent(G)
    if first is not None:
        return (
            f"constraints of {what} are rank deficient (rank {rank} of {m}): '{names[first]}' depends on "
            f"those before it or has no gradient there; remove it, or pass another state"
        )
    if B is not None:
        rank, column = dependent(np.ascontiguousarray(B.T))
        if column is not None:
            return (
                f"B of {what} is rank deficient (rank {rank} of {m}): column {column} depends on the others"
            )
    return (
        f"A of {what} is not regular on the kernel of the constraint Jacobian; every direction that the "
        f"constraints leave free needs a mass"
    )


def nearest_point(
    point: Vector,
    constraint: Callable[[Vector], Vector],
    jacobian: Callable[[Vector], Vector],
    scale: Callable[[Vector], Vector],
) -> Vector | None:
    """The nearest point that fulfils constraints, by Newton's method on [x - x0 + G^T l; g(x)] = 0.

    Second derivatives of g are left out, so that far away convergence is linear.
    """
    # Shapes: point (n,) -> (n,).
    x, before = point.copy(), np.inf
    for _ in range(SADDLE.newton_iterations):
        g, G, back = constraint(x), jacobian(x), point - x
        if not (np.isfinite(g).all() and np.isfinite(G).all()):
            return None
        step = back - np.linalg.lstsq(G, g + G @ back, rcond=None)[0]
        x = x + step
        change = float((np.abs(step) / (1e-300 + np.abs(x).max())).max())
        if change <= SADDLE.converged_change or SADDLE.stalled_change >= change >= 0.5 * before:
            break
        before = change
    return x if (np.abs(constraint(x)) <= SADDLE.largest_violation * scale(x)).all() else None
