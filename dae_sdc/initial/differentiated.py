"""Equations of a problem given as functions, differentiated along a curve by finite differences."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial, reduce
from itertools import pairwise
from math import comb, factorial, fsum
from operator import add
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse

from dae_sdc.dae.declaration import names_given
from dae_sdc.dae.jacobian import linearize
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.projection import TERM_ROUND_OFF, Accuracy, dense
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import DAEError, EvaluationError, InputError
from dae_sdc.expressions.dag import name_of
from dae_sdc.initial.jets import JetSystem, Stage, offsets_stages, row_name
from dae_sdc.initial.neighbourhood import LATER, TINY, Neighbourhood, in_sizes
from dae_sdc.jets.differences import Stencil, along
from dae_sdc.jets.graph import Integers
from dae_sdc.structure.analysis import Structure, structure
from dae_sdc.structure.rank import floating_rank
from dae_sdc.structure.signature import Signature


class Difference(NamedTuple):
    """Settings of a finite difference for a derivative along a curve."""

    step: float  # Distance of the points, in units of a time over which the curve changes little.
    pairs: int  # Number of points on each side.
    error: float  # Error of the derivative by round-off and truncation, relative to the terms.
    # Singular value of the Jacobian, relative to the largest, that may be such an error and counts as 0.
    dependent: float


# Differences for derivatives of order 0, 1, ...
DIFFERENCES = (
    Difference(0.0, 0, TERM_ROUND_OFF, 1e-10),
    Difference(1e-3, 3, 1e-12, 1e-9),
    Difference(2e-2, 3, 1e-11, 1e-8),
    Difference(6e-2, 4, 1e-9, 1e-7),
    Difference(1e-1, 4, 1e-8, 1e-6),
)
POINTS_OF_PATTERN = 3  # Number of points near the given one at which entries of the Jacobian are sought.
NEGLIGIBLE_ENTRY = 1e-13  # Entry, relative to the largest of its equation, up to which it counts as 0.
# Part of the time of a :class:`Neighbourhood` over which curves without a known rate change little.
LEAST_TIME = 0.01


@cache
def difference(order: int, forward: bool = False) -> tuple[Vector, Vector]:
    """Points on both sides of 0, or after it, and weights of the values there in a derivative at 0."""
    pairs = DIFFERENCES[order].pairs
    stencil = Stencil(0 if forward else -pairs, order, pairs)
    weights = factorial(order) * stencil.weights[order]
    if order:  # exactly 0 for constants
        weights[stencil.points.index(0)] -= fsum(weights)
    return np.array(stencil.points, dtype=np.float64), weights


def patterns_near(near: Neighbourhood) -> tuple[Any, Any, tuple[Any, Any]]:
    """Where dF/du' and dF/du have entries near a start, and those at it relative to the largest of a row."""
    # Shapes of the result: (n, n).
    pairs: list[tuple[Any, Any]] = []
    at_start = None
    for number in range(POINTS_OF_PATTERN):
        with suppress(DAEError):
            mass, stiffness = near.halves(near.later(number), *near.point(number))
            at_start = at_start if number else (mass, stiffness)
            pairs.append((mass, stiffness))
    if not pairs:
        raise InputError(
            f"the equations of {type(near.problem).__name__} have no values near the given ones at "
            f"t={near.t:.6g}; give others"
        )
    largest = dense(sum(abs(mass) + abs(stiffness) for mass, stiffness in pairs).max(axis=1)).ravel()
    largest[largest == 0.0] = 1.0
    # All points count, because an entry may vanish at one of them by chance.
    pair = [_entries(parts, largest) for parts in zip(*pairs, strict=True)]
    held: tuple[Any, Any] = pairs[0]
    with suppress(DAEError):
        held = near.halves(near.t, *near.where_they_hold(near.t, *near.point(0), known=at_start))
    here = [in_sizes(half.T, 1.0 / largest).T for half in held]
    return pair[0], pair[1], (here[0], here[1])


class ProblemJets(JetSystem):
    r"""The equations F(t, u, u') = 0 of a problem, differentiated along a curve.

    The pattern of the Jacobian gives offsets, see :func:`dae_sdc.structure.analysis.structure`, and these the
    number of differentiations of each equation. If the system Jacobian is singular, all equations are
    differentiated one time less than the index of the problem says, or ``times``, where this is given.
    Invariants of the problem are added.

    .. math::
        F^{(m)} = \frac{d^m}{ds^m} F\Big(t + s, \sum_k u^{(k)} \frac{s^k}{k!}, \sum_k u^{(k+1)}
        \frac{s^k}{k!}\Big)\Big|_{s=0}
    """

    # Shapes: u (n,), algebraic (n,).

    tolerance = 1e-8

    def __init__(
        self, problem: ProblemDAE, t: float, u: Vector, forward: bool = False, times: int | None = None
    ) -> None:
        self._forward, self._shortened = forward, 1.0
        self._last: tuple[Any, Any] = None, None  # The Jacobian that was made last, after what it is of.
        self.t, self.title = t, problem.name
        n = self.unknowns = problem.n
        near = Neighbourhood(problem, t, u)
        # With scales, by which differences for dF/du' at u' = 0 have steps that are not lost in rounding.
        self.problem, self._sizes = near.problem, near.sizes
        # The step size of a problem may be a default that knows nothing of its unit of time.
        span = problem.interval[1] - problem.interval[0]
        wanted = max(10.0 * float(problem.dt), LEAST_TIME * near.time)
        self._longest = min(wanted, 0.5 * span) if span > 0.0 else wanted
        mass, stiffness, here = patterns_near(near)
        self.algebraic = np.asarray(mass.sum(axis=0)).ravel() == 0
        found = structure_near(problem, mass, stiffness, here) if times is None else None
        self.whole = found is None
        times = max(0, (problem.index or 1) - 1) if times is None else times
        c, d = (np.full(n, times), np.full(n, times + 1)) if found is None else (found.c, found.d)
        most = len(DIFFERENCES) - 1
        if c.max() > most:
            raise InputError(
                f"equations of {self.title} must be differentiated {int(c.max())} times for consistent "
                f"values; differences give {most} derivatives, so write the equations as a Model"
            )
        rows, jets, stages = offsets_stages(c, d)
        if self.whole:
            stages = [Stage(np.arange(len(rows)), np.arange(len(jets)))]
        self._equations, self.jets = np.array([i for i, _ in rows], dtype=np.int64), tuple(jets)
        self.near = lambda: near
        self.differentiated = bool(c.max() > 0)
        self.accuracy = Accuracy(DIFFERENCES[c.max()].error, DIFFERENCES[c.max()].dependent)
        names = tuple(row_name(problem.equation_names[i], k) for i, k in rows)
        self.invariants = getattr(problem, "invariants", None)
        extra = names_given(problem, "invariant_names") if self.invariants is not None else ()
        self._added = self._not_among(mass, near) if extra else np.zeros(0, dtype=np.int64)
        extra = tuple(extra[row] for row in self._added)
        self.row_names = (*names, *(f"invariant {name}" for name in extra))
        self.row_orders = (*(k for _, k in rows), *(0 for _ in extra))
        self._count = len(rows)
        self.jet_names = tuple(name_of(problem.names[j], k) for j, k in jets)
        self._highest = int(d.max())
        self._column = np.full((self._highest + 2, n), -1, dtype=np.int64)
        self._column[[k for _, k in jets], [j for j, _ in jets]] = np.arange(len(jets))
        self.stages = tuple(self._with_invariants(stages, len(extra), d, near))
        if self.differentiated and max(near.time, 4.0 * self._longest) <= LATER * near.natural:
            rates = near.sizes / near.natural * np.sin(1.0 + 3.0 * np.arange(near.n))
            curve = np.pad([near.u, rates], ((0, self._highest - 1), (0, 0)))
            with suppress(DAEError):
                self._longest *= self._accurate_part(curve, LATER * near.natural / self._longest)

    def _not_among(self, mass: Any, near: Neighbourhood) -> Integers:
        """Numbers of the invariants that are no equations of the problem, by their values near a state."""
        problem, values = self.problem, list[Any]()
        for state, slope in map(near.point, range(POINTS_OF_PATTERN)):
            with suppress(DAEError):
                u, du = attach(state, problem.n_diff), attach(slope, problem.n_diff)
                values.append((np.array(problem.evaluate(u, du, self.t)), self._invariants_at(u)))
        rows, own = map(np.transpose, zip(*values, strict=True))
        rows = rows[np.asarray(mass.sum(axis=1)).ravel() == 0]
        sizes = np.linalg.norm(own, axis=1)[:, None] * np.linalg.norm(rows, axis=1)[None]
        parallel = np.abs(own @ rows.T) >= (1.0 - 1e-9) * np.maximum(sizes, 1e-300)
        return np.flatnonzero(~parallel.any(axis=1))

    def _invariants_at(self, u: Vector) -> Vector:
        invariants: Any = self.invariants
        return np.array(invariants(attach(u, self.problem.n_diff), self.t), dtype=np.float64)

    def _with_invariants(
        self, stages: list[Stage], count: int, d: Integers, near: Neighbourhood
    ) -> list[Stage]:
        """The stages after adding each invariant to the first stage at which all its unknowns are known."""
        if not count:
            return stages
        pattern = sparse.csr_matrix(sparse.csr_matrix(self._invariants_jacobian(near.point(0)[0])) != 0)
        added: dict[int, dict[frozenset[int], list[int]]] = {}
        for row in range(count):
            unknowns = pattern[row].indices
            at = 0 if self.whole or not unknowns.size else int(d.max() - d[unknowns].min())
            added.setdefault(at, {}).setdefault(frozenset(unknowns.tolist()), []).append(self._count + row)
        found = []
        for at, stage in enumerate(stages):
            groups = sorted(added.get(at, {}).items(), key=lambda item: len(item[0]))
            nested = all(small[0] < large[0] for small, large in pairwise(groups))
            if stage.rows.size or not nested:
                own = [row for _, rows in groups for row in rows]
                found.append(Stage(np.append(stage.rows, np.array(own, dtype=np.int64)), stage.jets))
                continue
            # Positions before velocities: the unknowns of earlier invariants are kept for later ones.
            before: frozenset[int] = frozenset()
            for unknowns_of, own in groups:
                jets = [at for at in stage.jets.tolist() if self.jets[at][0] in unknowns_of - before]
                found.append(Stage(np.array(own, dtype=np.int64), np.array(jets, dtype=np.int64)))
                before = unknowns_of
        return found

    # --- equations ------------------------------------------------------------------------------------------

    def _curve(self, x: Vector) -> Vector:
        """u and its derivatives, one row for each order, 0 for derivatives that are not among the values."""
        rows = np.zeros((self._highest + 1, self.problem.n))
        for value, (j, k) in zip(x, self.jets, strict=True):
            rows[k, j] = value
        return rows

    def _time(self, curve: Vector) -> float:
        """A time over which the curve changes little, the unit of differences."""
        size = self._sizes + np.abs(curve[0])
        least = self._longest
        for k in range(1, len(curve)):
            moving = curve[k] != 0.0
            if moving.any():
                ratio = factorial(k) * size[moving] / np.abs(curve[k][moving])
                least = min(least, float(ratio.min() ** (1.0 / k)))
        return least

    def _accurate_part(self, curve: Vector, longest: float) -> float:
        """By what the steps of differences are multiplied so that longer ones change derivatives least."""
        parts = 4.0 ** np.arange(1.0 + np.log(longest) / np.log(4.0))
        order = max(self.row_orders[: self._count])
        values = np.array([self.with_steps(part)._derivative(curve, order) for part in parts])
        with np.errstate(all="ignore"):
            changes = np.abs(np.diff(values, axis=0)) / np.fmax.reduce(np.abs(values) + TINY)
        worst = np.where(np.isfinite(changes), changes, np.inf).max(axis=1)
        return float(parts[worst.argmin()])

    def with_steps(self, factor: float) -> ProblemJets:
        """A copy of the system with steps of differences multiplied by ``factor``."""
        other = copy.copy(self)
        other._shortened = factor * self._shortened
        return other

    def _chosen(self, stage: int | None) -> Integers:
        return np.arange(len(self.row_names)) if stage is None else self.stages[stage].rows

    def _orders(self, rows: Integers) -> Integers:
        """Numbers of the differentiations of equations, -1 for invariants."""
        return np.where(rows < self._count, np.array(self.row_orders)[rows], -1)

    def values(self, x: Vector, stage: int | None = None) -> Vector:
        """See :class:`JetSystem`."""
        curve, chosen = self._curve(x), self._chosen(stage)
        values, orders = np.empty(chosen.size), self._orders(chosen)
        for order in np.unique(orders).tolist():
            at = np.flatnonzero(orders == order)
            if order < 0:
                values[at] = self._invariants_at(curve[0])[self._added[chosen[at] - self._count]]
                continue
            values[at] = self._derivative(curve, order)[self._equations[chosen[at]]]
        return values

    def _derivative(self, curve: Vector, order: int) -> Vector:
        """The derivative of an order of F along a curve."""
        return np.asarray(sum(weight * F for weight, F in self._along(self.problem.evaluate, curve, order)))

    def _along(self, function: Callable[..., Any], curve: Vector, order: int) -> Iterator[tuple[float, Any]]:
        """Weights in the difference for a derivative, and what a function of u, u' and t says there."""
        step = DIFFERENCES[order].step * self._shortened * self._time(curve)
        places, weights = difference(order, self._forward)
        weights = weights / max(step, 1e-300) ** order
        used, first = weights != 0.0, self.problem.n_diff
        points = step * places[used]
        coefficients = curve / np.array([[factorial(k)] for k in range(len(curve))])
        sampled = along(
            lambda u, du, t: function(attach(u, first), attach(du, first), t),
            *(coefficients, points, self.t + points),
        )
        return zip(weights[used].tolist(), sampled, strict=True)

    def _invariants_jacobian(self, u: Vector) -> Any:
        problem: Any = self.problem
        matrix = problem.invariants_jacobian(attach(u, problem.n_diff), self.t)
        return (sparse.csr_matrix(matrix) if sparse.issparse(matrix) else np.asarray(matrix))[self._added]

    def jacobian(self, x: Vector, stage: int | None = None) -> Any:
        r"""See :class:`JetSystem`.

        .. math::
            \delta F^{(m)} = \sum_l \binom{m}{l} \Big(
            (F_u)^{(m-l)} \delta u^{(l)} + (F_{u'})^{(m-l)} \delta u^{(l+1)} \Big)
        """
        # A search asks again where it begins, and where it ends.
        asked = x.tobytes(), stage, self._shortened
        if self._last[0] != asked:
            self._last = asked, self._jacobian(x, stage)
        return self._last[1]

    def _jacobian(self, x: Vector, stage: int | None) -> Any:
        """The Jacobian of the equations of a stage, or of all, with respect to all values."""
        curve, chosen = self._curve(x), self._chosen(stage)
        orders = self._orders(chosen)
        halves = [self._linearized(curve, order) for order in range(int(orders.max(initial=0)) + 1)]
        blocks, places = [], []
        for m in np.unique(orders).tolist():
            at = np.flatnonzero(orders == m)
            parts: dict[int, Any] = {}
            if m < 0:
                parts[0] = self._invariants_jacobian(curve[0])[chosen[at] - self._count]
            for order in range(m + 1):
                mass, stiffness = halves[m - order]
                for k, part in ((order, stiffness), (order + 1, mass)):
                    term = comb(m, order) * part[self._equations[chosen[at]]]
                    parts[k] = term if k not in parts else parts[k] + term
            blocks.append(self._columns(parts, at.size))
            places.append(at)
        is_sparse = any(map(sparse.issparse, blocks))
        stacked = sparse.vstack(blocks, format="csr") if is_sparse else np.vstack(blocks)
        return stacked[np.argsort(np.concatenate(places))]

    def linearized(self, x: Vector, stage: int, sizes: Vector) -> tuple[Any, Vector]:
        r"""See :class:`JetSystem`.

        The derivative of :math:`F_i^{(k)}` with respect to the highest derivative :math:`u_j^{(l)}` that a
        stage solves for is that of :math:`F_i`, so that no differences are needed.
        """
        rows, jets = self.stages[stage].rows, self.stages[stage].jets
        if self.whole or (rows >= self._count).any():
            return super().linearized(x, stage, sizes)
        curve = self._curve(x)
        mass, stiffness = self._linearized(curve, 0)
        equations, orders = self._equations[rows], self._orders(rows)
        unknowns, powers = np.array([self.jets[j] for j in jets], dtype=np.int64).T
        apart = powers - orders[:, None]
        own = [half[equations][:, unknowns] for half in (stiffness, mass)]
        if sparse.issparse(mass):
            matrix: Any = sum(half.multiply(apart == k) for k, half in enumerate(own))
        else:
            matrix = own[0] * (apart == 0) + own[1] * (apart == 1)
        typical = np.zeros(self.problem.n)
        typical[[j for j, _ in self.jets]] = sizes
        moved = np.abs(np.vstack([curve, np.zeros_like(typical)])) + typical
        parts = [abs(stiffness) @ moved[k] + abs(mass) @ moved[k + 1] for k in range(len(moved) - 1)]
        # By Leibniz' rule, without the derivatives of the coefficients.
        pairs = zip(equations, orders, strict=True)
        scale = [sum(comb(k, m) * parts[m][i] for m in range(k + 1)) for i, k in pairs]
        return matrix, np.array(scale)

    def _linearized(self, curve: Vector, order: int) -> tuple[Any, Any]:
        """The derivatives of an order of dF/du' and dF/du along the curve."""
        halves_at = partial(linearize, self.problem, accurate=True)
        try:
            sampled = self._along(halves_at, curve, order)
            parts = [(weight * halves.mass, weight * halves.stiffness) for weight, halves in sampled]
        except EvaluationError:
            undefined = np.full((self.problem.n, self.problem.n), np.nan)
            return undefined, undefined
        mass, stiffness = (reduce(add, halves) for halves in zip(*parts, strict=True))
        if sparse.issparse(mass):
            return sparse.csr_matrix(mass), sparse.csr_matrix(stiffness)
        return mass, stiffness

    def _columns(self, parts: dict[int, Any], count: int) -> Any:
        """One matrix with a column for each value, from blocks by the order of the derivative."""
        triples = [(k, sparse.coo_matrix(part)) for k, part in parts.items()]
        rows = np.concatenate([part.row for _, part in triples])
        cols = np.concatenate([self._column[k, part.col] for k, part in triples])
        entries = np.concatenate([part.data for _, part in triples])
        keep = cols >= 0
        shape = count, len(self.jets)
        matrix = sparse.csr_matrix((entries[keep], (rows[keep], cols[keep])), shape=shape)
        return matrix if any(map(sparse.issparse, parts.values())) else matrix.toarray()


def _entries(matrices: tuple[Any, ...], rows: Vector) -> Any:
    """Where any of some matrices has an entry, relative to ``rows``, that is not negligible."""
    sizes = [abs(sparse.csr_matrix(in_sizes(matrix.T, 1.0 / rows).T)) for matrix in matrices]
    return reduce(sparse.csr_matrix.maximum, sizes) > NEGLIGIBLE_ENTRY


def structure_near(problem: ProblemDAE, mass: Any, stiffness: Any, here: tuple[Any, Any]) -> Structure | None:
    """Structure by the pattern of the Jacobian; None if the system Jacobian is singular at the start."""
    orders = {(int(i), int(j)): 0 for i, j in zip(*stiffness.nonzero(), strict=True)}
    orders |= {(int(i), int(j)): 1 for i, j in zip(*mass.nonzero(), strict=True)}
    entries = np.array([(i, j, k) for (i, j), k in sorted(orders.items())], dtype=np.int64).reshape(-1, 3)
    shape = (problem.n, problem.n)
    rows, columns, order = entries.T
    found = structure(Signature.make((rows, columns, order), shape, problem.names, problem.equation_names))
    rows, columns, order = entries[order == found.d[columns] - found.c[rows]].T
    of_rates, of_unknowns = (np.asarray(half[rows, columns]).ravel() for half in here)
    matrix = sparse.csr_matrix((np.where(order, of_rates, of_unknowns), (rows, columns)), shape=shape)
    return found if floating_rank(matrix, found.fine).rank == problem.n else None
