"""Equations that given values violate, as few as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.optimize import linprog

from dae_sdc.dae.state import Vector
from dae_sdc.initial.consistent import Violation
from dae_sdc.initial.jets import JetSystem
from dae_sdc.initial.projection import TERM_ROUND_OFF, EquationFunctions, Projection, project
from dae_sdc.initial.solver import SEARCH, Booleans, Given


def violations(system: JetSystem, given: Given, x: Vector, hidden: bool = False) -> list[Violation]:
    """Equations that the given values violate for all choices of the other values."""
    # Shapes: x (jets,).
    point = np.where(given.known, given.point, x)
    written = np.array(system.row_orders) == 0
    cost = np.where(written & hidden, SEARCH.written_cost, 1.0)
    for _ in range(SEARCH.linear_problems):
        values, matrix = system.values(point), system.jacobian(point)
        scale = _scale(system, given, point)
        if not (np.abs(values) > 10.0 * system.tolerance * scale).any() or given.known.all():
            break
        found = _fewest(matrix, values, given, cost)
        if found is None:
            break
        change, kept = found
        better = _met(system, given, np.flatnonzero(kept), point + change)
        if not np.isfinite(better.after).all():
            break
        point = better.x
        if better.converged:
            break
    values = system.values(point)
    scale = _scale(system, given, point)
    wrong = np.flatnonzero(~(np.abs(values) <= 10.0 * system.tolerance * scale))
    return [
        Violation(system.row_names[i], float(values[i]), float(scale[i]), system.row_orders[i]) for i in wrong
    ]


def _met(system: JetSystem, given: Given, rows: npt.NDArray[np.int64], point: Vector) -> Projection:
    """Projection on some of the equations with the given values fixed."""
    terms: Any = system.terms
    equations = EquationFunctions(
        lambda y: system.values(y)[rows],
        lambda y: system.jacobian(y)[rows],
        None if terms(point) is None else lambda y: terms(y)[rows],
        system.accuracy,
    )
    return project(
        point,
        equations,
        weights=1.0 / given.sizes,
        fixed=given.known,
        tolerance=system.tolerance,
        most_iterations=SEARCH.restart_iterations,
    )


def _scale(system: JetSystem, given: Given, x: Vector) -> Vector:
    """Sizes of all equations at a point, to which residuals are relative."""
    matrix, terms = abs(system.jacobian(x)), system.terms(x)
    typical = np.asarray(matrix @ given.sizes).ravel()
    if terms is not None:
        typical = terms + TERM_ROUND_OFF / system.tolerance * typical
    else:
        typical = typical + np.asarray(matrix @ np.abs(x)).ravel()
    found: Vector = typical
    return found


def _fewest(matrix: Any, values: Vector, given: Given, cost_of_row: Vector) -> tuple[Vector, Booleans] | None:
    """Change of the values that were not given that satisfies most equations, and which it satisfies.

    The weighted sum of the absolute residuals is minimal, and not that of their squares, so that few
    equations are violated. None if the linear program fails.
    """
    scaled = sparse.csc_matrix(matrix)
    if not (np.isfinite(scaled.data).all() and np.isfinite(values).all()):
        return None
    rows = np.sqrt(np.asarray((scaled.multiply(scaled)).sum(axis=1)).ravel())
    rows = np.where(rows > 1e-14 * rows.max(initial=0.0), rows, 1.0)
    sizes = given.sizes[~given.known]
    own = sparse.diags(1.0 / rows) @ scaled[:, np.flatnonzero(~given.known)] @ sparse.diags(sizes)
    rhs = -values / rows
    largest = float(np.abs(rhs).max())
    k, n = own.shape
    both = sparse.hstack([own, sparse.identity(k), -sparse.identity(k)], format="csc")
    bounds = np.zeros((n + 2 * k, 2))
    bounds[:n, 0], bounds[:, 1] = -np.inf, np.inf
    cost = np.concatenate([np.zeros(n), cost_of_row, cost_of_row])
    found = linprog(cost, A_eq=both, b_eq=rhs / largest, bounds=bounds, method="highs")
    if found.x is None:
        return None
    change = np.zeros(given.point.size)
    change[~given.known] = largest * sizes * found.x[:n]
    return change, found.x[n : n + k] + found.x[n + k :] <= SEARCH.met
