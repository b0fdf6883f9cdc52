"""Points at which the algebraic part of equations becomes singular, found from the steps of a failed run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sparse

from dae_sdc.dae.counters import uncounted
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach

LOOKS_ALONG_RUN = 6  # Number of steps along the run that are looked at besides the last.
# Smallest singular value at the end, relative to the largest at these steps, below which the algebraic part
# counts as singular. At a fold it falls with the square root of the time left, and steps end at round-off of
# the time.
SINGULAR_DROP = 1e-3
# Singular value, of rows of largest entry 1, from which on the algebraic part was regular before; at a higher
# index it never is.
REGULAR_BEFORE = 1e-9
RANK_OF_MASS = 1e-12  # Relative singular value of dF/du' that counts as 0.
MOST_IMPASSE_UNKNOWNS = 500  # Unknowns up to which singular values are computed.
# Entry of the singular vector, relative to the largest, from which on an unknown is named.
NAMED_PART = 0.3
MOST_NAMED_AT_IMPASSE = 4  # Largest number of unknowns that are named.


def impasse(problem: ProblemDAE, t: Vector, u: Vector, du: Vector) -> str:
    r"""What to say of a run whose steps end where its algebraic unknowns are no longer determined.

    With bases V and W of the null spaces of :math:`F_{u'}` and its transpose, equations of index 1 have a
    regular matrix :math:`W^T F_u V`. Where it becomes singular along a solution, algebraic unknowns change
    infinitely fast, and a solution goes on at most by a jump: voltages collapse, a surface folds back.

    References
    ----------
    P. J. Rabier, W. C. Rheinboldt: On impasse points of quasilinear differential-algebraic equations, J.
    Math. Anal. Appl. 181 (1994).
    """
    # Shapes: t (K,), u and du (K, n).
    if len(t) < 3 or problem.n > MOST_IMPASSE_UNKNOWNS:
        return ""
    sizes = np.maximum(np.abs(u).max(axis=0), np.finfo(float).tiny)
    marks = np.unique(np.linspace(1, len(t) - 2, LOOKS_ALONG_RUN).astype(int))
    with uncounted(problem):
        last = _weakest(problem, t[-1], u[-1], du[-1], sizes)
        known = [_weakest(problem, t[k], u[k], du[k], sizes) for k in marks.tolist()]
    before = max((value for value, _ in known), default=0.0)
    value, direction = last
    if not (REGULAR_BEFORE <= before < np.inf and value <= SINGULAR_DROP * before):
        return ""
    return (
        f"; near t={t[-1]:.6g} the equations no longer determine {_named(problem.names, direction)}: the "
        f"smallest singular value of their algebraic part has fallen from {before:.1g} to {value:.1g}; a "
        f"solution ends or folds back there, or passes with an infinite slope"
    )


def _weakest(problem: ProblemDAE, t: float, u: Vector, du: Vector, sizes: Vector) -> tuple[float, Vector]:
    """Smallest singular value of the scaled algebraic part, infinite without one, and its direction."""
    none = np.inf, np.zeros(problem.n)
    if not np.isfinite(du).all():
        return none
    first = problem.n_diff
    parts = linearize(problem, attach(u.copy(), first), attach(du.copy(), first), float(t), accurate=True)
    mass, stiffness = (_dense(half) for half in (parts.mass, parts.stiffness))
    if not (np.isfinite(mass).all() and np.isfinite(stiffness).all()):
        return none
    stiffness, mass = stiffness * sizes, mass * sizes
    rows = np.abs(stiffness).max(axis=1) + np.abs(mass).max(axis=1)
    rows[rows == 0.0] = 1.0
    left, values, right = np.linalg.svd(mass / rows[:, None])
    rank = int((values > RANK_OF_MASS * values.max(initial=0.0)).sum())
    if rank == problem.n:
        return none
    algebraic = left[:, rank:].T @ (stiffness / rows[:, None]) @ right[rank:].T
    _, found, directions = np.linalg.svd(algebraic)
    return float(found[-1]), np.asarray(directions[-1] @ right[rank:])


def _dense(matrix: Any) -> Vector:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def _named(names: Sequence[str], direction: Vector) -> str:
    """The unknowns that change most along a direction, in units of their sizes."""
    size = np.abs(direction)
    order = np.argsort(-size, kind="stable")
    chosen = [f"'{names[j]}'" for j in order[:MOST_NAMED_AT_IMPASSE] if size[j] >= NAMED_PART * size.max()]
    return ", ".join(chosen)
