"""The nearest point at which equations hold, by the KKT conditions with step control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs

from dae_sdc.dae.linear import superlu
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import check
from dae_sdc.errors import SingularMatrixError

# Residual of an equation, relative to the size of its terms, that is round-off.
TERM_ROUND_OFF = 16.0 * float(np.finfo(float).eps)


PROJECTION_TOLERANCE = 1e-9  # Largest residual of an equation that holds, relative to the size of its terms.
MOST_PROJECTION_STEPS = 100  # Largest number of linear systems that are solved.
MOST_POLISHING_STEPS = 6  # Largest number of steps of Newton's method at the end.
# Largest ratio of the residuals after and before such a step at which it is accepted.
POLISHING_FACTOR = 0.5
# Step, relative to the distance from the given point, at which that distance is minimal.
SHORTEST_PROJECTION_STEP = 1e-8
# Relative distance from the given point up to which the equations are treated as linear.
NEAR_POINT = 1e-6
# Number of entries of a Jacobian above which a sparse one is not made dense.
MOST_DENSE_ENTRIES = 400_000
# Subtracted from zeros on the diagonal of the optimality conditions, so that dependent rows do not make
# them singular.
DIAGONAL_SHIFT = 1e-13
LARGEST_CURVATURE = 1e8  # Largest curvature of the Lagrangian in units of that of the distance.
MOST_STEP_HALVINGS = 30  # Largest number of times that a step is made shorter.
FEW_HALVINGS = 10  # Number of times that it is halved before it becomes a tenth each time.
SUFFICIENT_DECREASE = 1e-4  # Part of the predicted decrease that a step must achieve.
# Entry of a contradiction, relative to the largest, from which on its equation is named.
CONTRADICTION_SHARE = 1e-3
# Distance from a bound, in sizes of the value, up to which a value that leaves it is set to it.
AT_BOUND = 1e-6
# Part of the way to the bounds that is gone where a step leads far beyond them, so that what is not
# defined there is met last, and the part of a step within the bounds up to which that is far.
WITHIN_BOUNDS = 0.9


class LinearRows:
    """Linear equations with rows of norm 1, solved by singular values, or by LU factors where these do."""

    # Shapes: matrix (k, n), scales (n,), sizes (k,), rows (k, n).

    def __init__(
        self,
        matrix: Any,
        dependent: float,
        diagonal_shift: float,
        empty: float = 0.0,
        scales: Vector | None = None,
        factored: float = np.inf,
    ) -> None:
        self._sparse, self._dependent = sparse.issparse(matrix), dependent
        self._scales = scales
        self._regular: Callable[[Vector, bool], Vector] | None = None
        if scales is not None:
            matrix = matrix @ sparse.diags(scales) if self._sparse else matrix * scales
        squares = matrix.multiply(matrix) if self._sparse else matrix * matrix
        sizes = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        self.sizes: Vector = np.where(sizes > empty * sizes.max(initial=0.0), sizes, 1.0)
        k, n = matrix.shape
        if self._sparse:
            self.rows: Any = sparse.csr_matrix(sparse.diags(1.0 / self.sizes) @ matrix)
            # The augmented system, because the normal equations would square the condition number.
            blocks = [[sparse.identity(n), self.rows.T], [self.rows, -diagonal_shift * sparse.identity(k)]]
            self._factors = superlu(sparse.csc_matrix(sparse.bmat(blocks)))
            return
        self.rows = matrix / self.sizes[:, None]
        check()
        if k == n > 0 and factored < np.inf:
            lu, pivots, singular = dgetrf(self.rows)
            condition = 0.0 if singular else dgecon(lu, np.abs(self.rows).sum(axis=0).max())[0]
            if condition > factored:
                self._regular = lambda rhs, by_rows: np.asarray(dgetrs(lu, pivots, rhs, trans=by_rows)[0])
                return
        _ = self._singular  # raises LinAlgError where there are no singular values

    @cached_property
    def _singular(self) -> tuple[Vector, Vector, Vector]:
        """Singular vectors and values of the rows, but for those that count as 0."""
        left, values, right = np.linalg.svd(self.rows, full_matrices=False)
        rank = int((values > self._dependent * values.max(initial=0.0)).sum())
        return left[:, :rank], values[:rank], right[:rank]

    def solve(self, rhs: Vector, damping: float = 0.0) -> Vector:
        """The least-squares solution of minimum norm, or with damping that of Tikhonov's regularisation."""
        # Damping is the weight of the squared norm of the solution, in units of the unknowns.
        scaled, scales = rhs / self.sizes, 1.0 if self._scales is None else self._scales
        if self._sparse or not damping:
            return np.asarray(scales * self.least(scaled) / (1.0 + damping))
        left, values, right = self._singular
        return np.asarray(scales * (right.T @ ((left.T @ scaled) * values / (values**2 + damping))))

    def norm(self, values: Vector) -> float:
        """Norm of values of the equations, each divided by the norm of its row."""
        with np.errstate(over="ignore"):
            return float(np.linalg.norm(values / self.sizes))

    def least(self, rhs: Vector) -> Vector:
        """The least-squares solution of minimum norm for the scaled rows."""
        if self._regular is not None:
            return self._regular(rhs, False)
        if not self._sparse:
            left, values, right = self._singular
            return np.asarray(right.T @ ((left.T @ rhs) / values))
        n = self.rows.shape[1]
        shortest, left = np.zeros(n), rhs
        for _ in range(3):
            shortest = shortest + self._factors.solve(np.concatenate([np.zeros(n), left]))[:n]
            left = rhs - self.rows @ shortest
        return shortest

    def multipliers(self, gradient: Vector) -> Vector:
        """Weights of the scaled rows whose sum is closest to a gradient, shape (k,)."""
        k, n = self.rows.shape
        if self._regular is not None:
            return self._regular(gradient, True)
        if self._sparse:
            return np.asarray(self._factors.solve(np.concatenate([gradient, np.zeros(k)]))[n:])
        left, values, right = self._singular
        return np.asarray(left @ ((right @ gradient) / values))

    def unreachable(self, values: Vector) -> Vector:
        """The part of values of the scaled equations that no change of the unknowns can remove."""
        scaled = values / self.sizes
        return np.asarray(scaled - self.rows @ self.least(scaled))


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of equations and their Jacobian."""

    values: float = TERM_ROUND_OFF  # Error of an equation, relative to its terms.
    # Singular value of the Jacobian with rows of norm 1, relative to the largest, that counts as 0.
    dependent: float = 1e-10
    # Reciprocal condition above which as many equations as values are solved by LU factors.
    factored: float = np.inf


@dataclass(frozen=True)
class EquationFunctions:
    r"""Equations h(x) = 0 in n unknowns as functions."""

    values: Callable[[Vector], Vector]  # h(x), shape (k,).
    jacobian: Callable[[Vector], Any]  # Its derivative, shape (k, n), dense or sparse.
    # Sizes of the terms of the equations at x, shape (k,), where they are known. If not, they are what an
    # equation changes by when each unknown changes by \|x\| plus its typical size.
    terms: Callable[[Vector], Vector | None] = lambda x: None
    accuracy: Accuracy = Accuracy()  # Accuracy of the equations and their Jacobian.

    def sizes(self, x: Vector, matrix: Any, usual: Vector, tolerance: float) -> tuple[Vector, Vector]:
        """Sizes of the terms at x, and the sizes to which residuals are relative."""
        here, typical = np.asarray(abs(matrix) @ np.column_stack([np.abs(x), usual])).T
        terms = self.terms(x)
        if terms is None:
            return here, here + typical
        # Terms may be rounding errors of larger unknowns, so sizes have a lower bound.
        return terms, terms + TERM_ROUND_OFF / tolerance * typical


@dataclass(frozen=True)
class Projection:
    """The result of a projection."""

    x: Vector  # Shape (n,). The point.
    converged: bool  # Whether the equations hold there.
    iterations: int  # Number of linear systems solved.
    # before, after: shape (k,). Values of the equations at the given point and at ``x``.
    before: Vector
    after: Vector
    scale: Vector  # Shape (k,). Sizes of the equations at ``x``, to which residuals are relative.
    # Equations that cannot hold together near ``x``; empty where they hold.
    contradictory: tuple[int, ...] = ()
    at_bounds: tuple[int, ...] = ()  # Entries at bounds that the equations lead beyond.


def project(
    point: npt.ArrayLike,
    equations: EquationFunctions,
    *,
    weights: npt.ArrayLike = 1.0,
    fixed: npt.ArrayLike = False,
    tolerance: float = PROJECTION_TOLERANCE,
    start: npt.ArrayLike | None = None,
    most_iterations: int = MOST_PROJECTION_STEPS,
    sizes: npt.ArrayLike | None = None,
    bounds: tuple[Vector, Vector] | None = None,
) -> Projection:
    """The nearest point at which equations hold, with some of its entries fixed and all within bounds."""
    # The minimum of |W (x - point)|^2 subject to h(x) = 0 and a <= x <= b. Each step solves the optimality
    # conditions with h linearised, by the pseudoinverse of its Jacobian, so redundant equations are allowed.
    # The curvature of the Lagrangian along the last step replaces second derivatives of h. A step is halved
    # until a merit function of distance and residuals decreases. At the end Newton's method for h alone is
    # continued while it reduces residuals above round-off. Nothing is evaluated outside the bounds: steps are
    # shortened to them, and values at bounds that a step leads beyond are held.
    # J. Nocedal, S. J. Wright: Numerical Optimization, 2nd edition, Springer 2006, chapter 18.
    # Shapes: point (n,), weights (n,), fixed (n,), start (n,), sizes (n,).
    error = equations.accuracy.values
    given = np.array(point, dtype=np.float64)
    free = ~np.broadcast_to(np.asarray(fixed, dtype=bool), given.shape)
    weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), given.shape)
    weight = weights[free]
    x = given.copy()
    if start is not None:
        x[free] = np.asarray(start, dtype=np.float64)[free]
    if bounds is not None:
        x[free] = np.clip(x[free], bounds[0][free], bounds[1][free])

    usual = 1.0 / weights if sizes is None else np.broadcast_to(np.asarray(sizes), given.shape)

    with np.errstate(all="ignore"):  # steps that go too far are refused because values are not finite
        h = equations.values(x)
        before = h if start is None else equations.values(given)
        box = None if bounds is None else _Box(bounds[0][free], bounds[1][free], usual[free])
        search, scale, iteration = _Search(equations, free, weight, given, box), np.ones(h.size), 0
        size, exact = np.zeros(h.size), False
        while iteration < most_iterations and np.isfinite(h).all():
            offset = search.offset(x)
            check()
            # Near the given point the first step already leads to the nearest solution.
            beside = np.linalg.norm(offset) <= NEAR_POINT * (1.0 + np.linalg.norm(weight * x[free]))
            exact = bool(iteration) and not np.any(np.abs(h) > error * size)
            if exact and beside:
                break
            matrix = equations.jacobian(x)
            if not _finite(matrix):
                break
            size, scale = equations.sizes(x, matrix, usual, tolerance)
            exact = not np.any(np.abs(h) > error * size)
            if (exact and beside) or not search.linearize(matrix[:, free], x, h):
                break
            iteration += 1
            if search.is_shortest(x, offset) and (np.abs(h) <= tolerance * scale).all():
                break
            found = search.next_point(x, h, offset)
            if found is None:
                break
            x, h = found
        for _ in range(0 if exact or not np.isfinite(h).all() else MOST_POLISHING_STEPS):
            matrix = equations.jacobian(x)
            if not _finite(matrix):
                break
            size, scale = equations.sizes(x, matrix, usual, tolerance)
            exact = not np.any(np.abs(h) > error * size)
            far = np.any(np.abs(h) > np.sqrt(tolerance) * scale)
            if exact or far or not search.linearize(matrix[:, free], x, h):
                break
            better = search.polished(x, h, scale)
            if better is None:
                break
            iteration += 1
            x, h = better
        finite = bool(np.isfinite(h).all())
        good = finite and bool((np.abs(h) <= tolerance * scale).all())
        clashing = np.zeros(len(h), dtype=bool)
        if finite and not good:  # Those in a combination that no step reduces, else all violated ones.
            left = np.abs(h if search.system is None else search.system.unreachable(h))
            remains = (left > 1e-2 * tolerance * scale).any()
            clashing = left > CONTRADICTION_SHARE * left.max() if remains else np.abs(h) > tolerance * scale
        held = () if good else tuple(np.flatnonzero(free)[search.held].tolist())
        numbers = tuple(np.flatnonzero(clashing).tolist())
    return Projection(x, good, iteration, before, h, scale, numbers, held)


def dense(matrix: npt.ArrayLike) -> Vector:
    """A matrix as an array."""
    return np.array(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _finite(matrix: Any) -> bool:
    return bool(np.isfinite(matrix.data if sparse.issparse(matrix) else matrix).all())


@dataclass(frozen=True, eq=False)
class _Box:
    """Bounds of values, and the sizes of these; all have the shape (n,)."""

    low: Vector
    high: Vector
    sizes: Vector

    def left_by(self, x: Vector, step: Vector) -> Vector:
        """A mask of the values at bounds that a step leads beyond."""
        near = AT_BOUND * (self.sizes + np.abs(x))
        below = (x + step < self.low) & (x - self.low <= near)
        return np.asarray(below | ((x + step > self.high) & (self.high - x <= near)))

    def part(self, x: Vector, step: Vector) -> float:
        """The part of a step that is taken within the bounds."""
        room = np.where(step < 0.0, self.low - x, self.high - x)
        parts = np.divide(room, step, out=np.ones_like(step), where=(step != 0.0) & np.isfinite(room))
        inside = float(np.clip(parts, 0.0, 1.0).min(initial=1.0))
        return inside if inside > WITHIN_BOUNDS else WITHIN_BOUNDS * inside


class _Search:
    """Steps towards the nearest point at which equations hold."""

    def __init__(
        self,
        equations: EquationFunctions,
        free: npt.NDArray[np.bool_],
        weight: Vector,
        given: Vector,
        box: _Box | None = None,
    ) -> None:
        self._equations, self._free, self._weight, self._given = equations, free, weight, given
        self._box, self.held = box, np.zeros(weight.size, dtype=bool)
        self.step = self._normal = self._tangent = self._sizes = np.zeros(weight.size)
        self.system: LinearRows | None = None
        self._penalty, self._bend = 1.0, 1.0
        self._last: tuple[Vector, Vector, Vector] | None = None

    def offset(self, x: Vector) -> Vector:
        """Weighted difference from the given point in the free entries."""
        return np.asarray(self._weight * (x - self._given)[self._free])

    def linearize(self, matrix: Any, x: Vector, h: Vector) -> bool:
        """Compute the direction of the next step, within the bounds; False if the factorisation fails."""
        place, self.held = x[self._free], np.zeros(self._weight.size, dtype=bool)
        if not self._directed(matrix, self.offset(x), h):
            return False
        onto = np.zeros(place.size)
        while self._box is not None:
            beyond = self._box.left_by(place, self.step / self._weight) & ~self.held
            if not beyond.any():
                break
            self.held |= beyond
            offset = np.where(self.held, 0.0, self.offset(x))
            ends = np.where(self.step < 0.0, self._box.low, self._box.high)
            onto[beyond] = (self._weight * (ends - place))[beyond]
            kept = sparse.diags(1.0 * ~self.held) if sparse.issparse(matrix) else 1.0 * ~self.held
            of_others = matrix @ kept if sparse.issparse(matrix) else matrix * kept
            left = h + np.asarray(matrix @ (onto / self._weight)).ravel()
            if not self._directed(of_others, offset, left):
                return False
            self._normal, self.step = self._normal + onto, self.step + onto
        return True

    def _directed(self, matrix: Any, offset: Vector, h: Vector) -> bool:
        if sparse.issparse(matrix) and matrix.shape[0] * matrix.shape[1] > MOST_DENSE_ENTRIES:
            weighted = sparse.csr_matrix(matrix) @ sparse.diags(1.0 / self._weight)
        else:
            weighted = dense(matrix) / self._weight
        accuracy = self._equations.accuracy
        try:
            # Rows of a vanishing gradient are not scaled.
            self.system = system = LinearRows(
                weighted, accuracy.dependent, DIAGONAL_SHIFT, empty=1e-14, factored=accuracy.factored
            )
        except (np.linalg.LinAlgError, SingularMatrixError):
            return False
        if self._last is not None:
            # The curvature of the Lagrangian along the last step replaces its second derivatives.
            step, multipliers, gradient = self._last
            # The multipliers belong to rows scaled by their norms in the last step.
            multipliers = multipliers * (system.sizes / self._sizes)
            change = offset + system.rows.T @ multipliers - gradient
            self._bend = float(np.clip(change @ step / max(step @ step, 1e-300), 1.0, LARGEST_CURVATURE))
        self._normal = -system.least(h / system.sizes)
        self._tangent = system.least(system.rows @ offset) - offset
        self.step = self._normal + self._tangent / self._bend
        return True

    def is_shortest(self, x: Vector, offset: Vector) -> bool:
        """Whether the next step is so short that the point counts as the nearest one."""
        size = np.linalg.norm(self._weight * x[self._free])
        least = SHORTEST_PROJECTION_STEP * np.linalg.norm(offset) + self._equations.accuracy.values * size
        return bool(max(np.linalg.norm(self._normal), np.linalg.norm(self._tangent)) <= least)

    def next_point(self, x: Vector, h: Vector, offset: Vector) -> tuple[Vector, Vector] | None:
        """The next point and the residuals there; None if no step along the direction is accepted."""
        system, step = self.system, self.step
        assert system is not None
        multipliers = -system.multipliers(np.where(self.held, 0.0, offset + self._bend * step))
        self._penalty = max(self._penalty, 2.0 * float(np.abs(multipliers).max(initial=0.0)))
        self._last = step, multipliers, offset + system.rows.T @ multipliers
        self._sizes = system.sizes
        violation = np.abs(h / system.sizes)
        # The predicted decrease excludes residuals that the linearised equations cannot remove.
        left = np.abs(h / system.sizes + system.rows @ self._normal)
        slope = min(0.0, float(offset @ step) - self._penalty * float((violation - left).sum()))
        now = self._merit(offset, h)
        noise = 1e-14 * (1.0 + abs(now))
        part = 1.0 if self._box is None else self._box.part(x[self._free], step / self._weight)
        for halving in range(MOST_STEP_HALVINGS):
            place, values = self._moved(x, part * step)
            then = self._merit(self.offset(place), values)
            if then <= now + SUFFICIENT_DECREASE * part * slope + noise:
                self._last = part * step, *self._last[1:]
                return (place, values) if then < now - noise or slope < -noise else None
            if part == 1.0 and np.isfinite(then):
                # Second-order correction: curvature of the equations may spoil a good step.
                bent = step - system.least(values / system.sizes)
                place, values = self._moved(x, bent)
                if self._merit(self.offset(place), values) <= now + SUFFICIENT_DECREASE * slope:
                    self._last = bent, *self._last[1:]
                    return place, values
            part *= 0.5 if halving < FEW_HALVINGS else 0.1
        return None

    def polished(self, x: Vector, h: Vector, scale: Vector) -> tuple[Vector, Vector] | None:
        """The point after a step of Newton's method and its residuals; None if these are not smaller."""
        place, values = self._moved(x, self._normal)
        scale = np.where(scale > 0.0, scale, 1.0)
        now, then = np.max(np.abs(h) / scale), np.max(np.abs(values) / scale)
        return (place, values) if then <= POLISHING_FACTOR * now else None

    def _moved(self, x: Vector, by: Vector) -> tuple[Vector, Vector]:
        place = x.copy()
        moved = place[self._free] + by / self._weight
        place[self._free] = moved if self._box is None else np.clip(moved, self._box.low, self._box.high)
        return place, self._equations.values(place)

    def _merit(self, offset: Vector, values: Vector) -> float:
        assert self.system is not None
        if not np.isfinite(values).all():
            return np.inf
        return float(0.5 * offset @ offset + self._penalty * np.abs(values / self.system.sizes).sum())
