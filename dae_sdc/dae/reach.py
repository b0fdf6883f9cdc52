"""How far unknowns may move from the start of a run while the coefficients of u' stay what they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.jacobian import Linearization, groups_of_columns, linearize
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import Balance, Terms
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import SolveError

# How reaches are looked for. Part of the terms of an equation by which they may differ between two states and
# count as the same.
LARGEST_COEFFICIENT_CHANGE = 0.5
# Part of a move that is the smallest one tried from 0: coefficients that differ even there jump at 0, as the
# sign of x does, and say nothing of sizes.
SMALLEST_PART_OF_MOVE = 2.0**-120
REACH_HALVINGS = 7  # How often the interval of logarithms is halved in which a reach lies.


class Start(NamedTuple):
    """Equations at the start of a run, linearised."""

    # u0, t0: shape (n,). State and time.
    u0: MeshDAE
    t0: float
    parts: Linearization  # dF/du' and dF/du there with u' = 0.
    terms: Terms  # Those of ``parts``, and constants.
    balance: Balance  # Sizes by which the terms are weighed.


def reaches(problem: ProblemDAE, start: Start, moves: Vector) -> Vector:
    r"""Largest moves of single unknowns with which the coefficients of derivatives stay what they are.

    Sizes balance terms of equations that are linearised at u' = 0, where dF/du does not tell how dF/du'
    depends on u. With :math:`(a + u) u' = 1`, sizes that follow from a hold while u changes by less than a.
    """
    # Shapes: moves (n,) -> (n,).
    found = np.full(problem.n, np.inf)
    change = _Change(problem, start)
    moving = np.flatnonzero(moves > 0.0)
    if not change.anywhere(moving, moves[moving]):
        return found
    values = np.abs(start.u0.view(np.ndarray))
    groups = [group[moves[group] > 0.0] for group in groups_of_columns(problem)]
    for group in _bending(change, [group for group in groups if len(group)], moves):
        high = moves[group]
        low = np.where(values[group] > 0.0, values[group], SMALLEST_PART_OF_MOVE * high)
        bent = change.of(group, high) > LARGEST_COEFFICIENT_CHANGE
        bent &= (values[group] > 0.0) | (change.of(group, low) <= LARGEST_COEFFICIENT_CHANGE)
        for _ in range(REACH_HALVINGS):
            middle = np.sqrt(low) * np.sqrt(high)
            much = change.of(group, middle) > LARGEST_COEFFICIENT_CHANGE
            low, high = np.where(much, low, middle), np.where(much, middle, high)
        found[group[bent]] = low[bent]
    return found


def _bending(change: _Change, groups: list[Any], moves: Vector) -> list[Any]:
    """Groups of columns in which a move changes the equations, of groups that do so together."""
    sure, found = [groups], []
    while sure:
        some = sure.pop()
        if len(some) == 1:
            found.append(some[0])
            continue
        half = len(some) // 2
        for part in (some[:half], some[half:]):
            together = np.concatenate(part)
            if change.anywhere(together, moves[together]):
                sure.append(part)
    return found


class _Change:
    """By how much moves of unknowns change the terms of the equations."""

    def __init__(self, problem: ProblemDAE, start: Start) -> None:
        self._problem, self._start = problem, start
        sizes, time = start.balance.sizes, start.balance.time
        terms = start.terms
        weights = np.append(sizes, 1.0)[terms.columns] / np.where(terms.derivatives, time, 1.0)
        self._rates = sizes / time
        self._totals = np.bincount(terms.rows, terms.entries * weights, problem.n)
        self._slope = problem.dtype_f(problem.init)

    def anywhere(self, group: Any, moves: Vector) -> bool:
        """Whether moves of all unknowns of a group together change an equation much."""
        return bool((self._of_equations(group, moves) > LARGEST_COEFFICIENT_CHANGE).any())

    def of(self, group: Any, moves: Vector) -> Vector:
        """Largest relative change of an equation by each unknown of a group that shares no equation."""
        changes = self._of_equations(group, moves)
        if len(group) == 1:
            return np.array([changes.max(initial=0.0)])
        pattern = self._problem.sparsity.tocsc()
        columns = (pattern.indices[pattern.indptr[j] : pattern.indptr[j + 1]] for j in group)
        return np.array([changes[rows].max(initial=0.0) for rows in columns])

    def _of_equations(self, group: Any, moves: Vector) -> Vector:
        """Relative changes of the terms of every equation, infinite where they are not defined."""
        start, problem = self._start, self._problem
        values = start.u0.view(np.ndarray).copy()
        values[group] += np.where(values[group] < 0.0, -moves, moves)
        try:
            there = linearize(problem, attach(values, problem.n_diff), self._slope, start.t0)
        except SolveError:
            return np.full(problem.n, np.inf)
        changes = abs(there.mass - start.parts.mass) @ self._rates
        found: Vector = np.divide(changes, self._totals, out=np.zeros(problem.n), where=self._totals > 0.0)
        return found
