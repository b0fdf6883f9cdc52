"""Values at single times that satisfy the equations there, from approximate ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetrs

from dae_sdc.dae.jacobian import Linearization, linearize
from dae_sdc.dae.linear import factorize, largest, superlu
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import InconsistentStateError, SolveError

Course = Sequence[tuple[float, tuple[int, ...]]]  # Times from which on switches have sides, and these.

# What is raised where equations have no linear approximation that can be solved.
UNSOLVED = (SolveError, np.linalg.LinAlgError, RuntimeError)


class Pointwise(Protocol):
    """Corrections that make interpolated values satisfy the equations of a run."""

    at_ends: bool

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times satisfy the equations in place; h is negative at the ends of steps."""
        # Shapes: t (K,), u and du (K, n), h (K,) -> (K,).

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """Estimated errors, in units of the sizes of the unknowns, of values that were not corrected."""
        # Shapes: u and du (n,) -> (n,).


MAX_ITERATIONS = 12  # Newton iterations at one time.
ROUND_OFF = 1e-13  # Change of u, relative to the size of each unknown in the run, that ends the iteration.
# Largest relative change of u that may be left after the last iteration; more counts as a failure.
ACCEPTED_CHANGE = 1e-9
STALLED_CHANGE = 1e-11  # Relative change of u at which the iteration ends once changes no longer shrink.
SMALLEST_SHARE = 1e-3  # Least part of a change that is tried where F is not defined at its end.
# Largest ratio of a change to the one before with which factors are kept, within a time and from one time to
# the next.
KEPT_CONTRACTION = 0.1
# The latter where F does not determine the values: the change of the least norm is then that of another
# matrix, by about this part of the change.
KEPT_CONTRACTION_OF_NEAREST = 0.01
# Residual of a linear solve, relative to its right side, up to which the matrix is taken to be regular.
TRUSTED = 1e-6
# Change of a derivative over the step, relative to the size of the unknown, from which on it is looked at
# whether the unknown follows the others within FOLLOWS times SPARED of the step: where it changes by FOLLOWS
# of the step times the change of the derivative, that is smaller by SPARED at least.
UNLIKELY_RATE = 1e-10
FOLLOWS = 0.1
SPARED = 0.3
# K below, the weight of squared changes of algebraic unknowns relative to those of derivatives, and of what
# is integrated, the row space of dF/du', relative to those of algebraic unknowns.
WEIGHT = 1e6


def solve_point(w: Any, borrowed: Any) -> Any:
    """Newton's method for u and u' at a time: whether it converges, and fast with ``borrowed`` factors."""
    # Its operations are methods of :class:`Point`, and of its form in compiled code.
    w.evaluate()
    nearest = borrowed and not w.is_determined()
    last, kept_rate = np.inf, KEPT_CONTRACTION_OF_NEAREST if nearest else KEPT_CONTRACTION
    known = borrowed
    for iteration in range(MAX_ITERATIONS):
        if not known and not w.refactor():
            return False
        known = True
        change = w.find_change()
        if not change < np.inf:
            return False
        fast = change <= kept_rate * last
        if borrowed and not fast:
            return False
        share = w.move()
        if not share > 0.0:
            return False
        stalled = change >= last and change <= STALLED_CHANGE
        # Changes that shrink by a ratio add up to no more than this.
        left = change
        if iteration > 0 and change < last:
            left = change * min(1.0, change / (last - change))
        last = change
        # With factors of another time, the first change alone does not tell how far the solution is.
        if share == 1.0 and (not borrowed or iteration > 0) and (left <= ROUND_OFF or stalled):
            return left <= ACCEPTED_CHANGE
        known = borrowed or (share == 1.0 and fast)
    return known and last <= ACCEPTED_CHANGE


class PointwiseEquations:
    r"""The equations of a problem as a correction of interpolated values.

    At a time t within a step an interpolated pair (u, u') satisfies F(t, u, u') = 0 up to the error of
    the interpolation, which a jump or a steep slope of an algebraic unknown makes as large as the unknown.
    Newton's method finds a pair near it that satisfies them to round-off, of which u is taken:

    - where F does not depend on the derivatives z' of the algebraic unknowns, and F = 0 determines (y', z)
      for given y (index 0 and 1), y stays as it is, and u' is taken too; but where y' would have to be far
      from the polynomial's, and a change of y by c h times that of y', with a small c, spares that, y changes
      so: a component that follows the others fast is known better from F than from its polynomial;
    - else the change (v, w) of (u, u') is the one of the least weighted norm, with D the sizes of the
      unknowns, h the step, and N = dF/du' D with rows of norm 1,

      .. math::
          |y|^2 + K |x|^2 + K^2 |N x|^2 \to \min, \quad
          x = D^{-1} v, \; y = h D^{-1} w, \; F_{u'} w + F_u v = -F .

      Derivatives make up for the residual where they can, then algebraic unknowns, which N does not see;
      what is integrated changes only where a constraint has nothing else.
    """

    # Shapes: sizes (n,).

    at_ends = False

    def __init__(self, problem: ProblemDAE, sizes: Vector, course: Course = ()) -> None:
        self.problem, self._sides = problem, [None, *(sides for _, sides in course)]
        self._changes = [time for time, _ in course]
        self.sizes = np.where(sizes > 0.0, sizes, float(np.max(sizes, initial=0.0)) or 1.0)
        self.algebraic = problem.is_algebraic
        self._kept: _Determined | _Nearest | None = None

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times satisfy the equations, see :meth:`Pointwise.correct`."""
        order, done = np.argsort(t, kind="stable"), np.zeros(len(t), dtype=bool)
        parts = np.searchsorted(self._changes, t[order])
        for part in np.unique(parts).tolist():
            with self._at_side(part), np.errstate(all="ignore"):
                done |= self._solve_all(t, u, du, h, order[parts == part])
        return done

    def _solve_all(
        self, t: Vector, u: Vector, du: Vector, h: Vector, order: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Make pairs satisfy the equations in place, in this order; which of them do."""
        done = np.zeros(len(t), dtype=bool)
        before: float | None = None
        # Factors of one time do for the next ones in the same step.
        for row in order.tolist():
            size = float(h[row])
            done[row] = self._solve(float(t[row]), u[row], du[row], size, size == before)
            before = size if done[row] else None
        return done

    def _solve(self, t: float, u: Vector, du: Vector, h: float, borrows: bool) -> bool:
        """Make a pair satisfy the equations in place, at first with factors of the time before if any."""
        kept = self._kept if borrows else None
        self._kept = None
        for factors in (kept, None) if kept is not None else (None,):
            with suppress(*UNSOLVED):
                point = Point(self, t, u, du, h, factors)
                if solve_point(point, factors is not None):
                    u[:] = point.here[0]
                    if point.is_determined():
                        du[:] = point.here[1]
                    self._kept = point.factors
                    return True
        return False

    @contextmanager
    def _at_side(self, part: int) -> Iterator[None]:
        """Let switches have the sides that the run had in a part of its course, or those of the states."""
        held = self.problem.held_sides
        self.problem.hold_sides(self._sides[part])
        try:
            yield
        finally:
            self.problem.hold_sides(held)

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """Estimated errors of values that were not corrected, at most 1, see :meth:`Pointwise.errors`."""
        change = np.full(len(u), np.inf)
        part = int(np.searchsorted(self._changes, t))
        with self._at_side(part), suppress(*UNSOLVED), np.errstate(all="ignore"):
            point = Point(self, t, u, du, h, None)
            point.evaluate()
            if point.refactor() and point.factors is not None:
                change, _ = point.factors.change(point.residual)
        return np.where(np.abs(change) < self.sizes, np.abs(change) / self.sizes, 1.0)

    def factors(self, parts: Linearization, residual: Vector, h: float) -> _Determined | _Nearest:
        """What gives the changes of u and u' of Newton iterations."""
        algebraic = self.algebraic
        # At index 1 the derivatives of all unknowns cannot follow from F.
        if self.problem.index == int(algebraic.any()) and not (abs(parts.mass) @ algebraic).any():
            with suppress(SolveError):
                square = _Determined(parts, algebraic, h)
                if square.solves(residual, TRUSTED):
                    return self._following(square, parts, residual)
        return _Nearest(parts, self.sizes, h, WEIGHT)

    def _following(self, square: _Determined, parts: Linearization, residual: Vector) -> _Determined:
        """Other factors, with which y follows y', where these spare a large change of y'."""
        rate = self.rate(square.change(residual)[1], square.h)
        if not UNLIKELY_RATE < rate < np.inf:
            return square
        with suppress(SolveError):
            other = _Determined(parts, self.algebraic, square.h, FOLLOWS * square.h)
            if self.rate(other.change(residual)[1], square.h) <= SPARED * rate:
                return other
        return square

    def rate(self, w: Vector, h: float) -> float:
        """The largest change of a derivative over a step, relative to the size of the unknown."""
        return h * largest(w / self.sizes)


class Point:
    """The operations of :func:`solve_point` with NumPy and SciPy, for any problem."""

    # Shape of here: (2, n), the pair of u and u'.

    def __init__(
        self,
        equations: PointwiseEquations,
        t: float,
        u: Vector,
        du: Vector,
        h: float,
        factors: _Determined | _Nearest | None,
    ) -> None:
        self.equations, self.t, self.h, self.factors = equations, t, h, factors
        self.here, self._there = np.array([u, du]), np.empty((2, len(u)))
        equations.problem.start_step(attach(self.here[0], equations.problem.n_diff), t)

    def evaluate(self) -> None:
        """Evaluate F at the pair."""
        self.residual = self.equations.problem.evaluate(self.here[0], self.here[1], self.t)

    def is_determined(self) -> bool:
        """Whether the factors determine u'."""
        return self.factors is not None and self.factors.determined

    def refactor(self) -> bool:
        """Make factors of the equations at the pair."""
        self.residual = self.residual.copy()  # differences of F write where F has written
        parts = linearize(self.equations.problem, self.here[0], self.here[1], self.t)
        self.factors = self.equations.factors(parts, self.residual, self.h)
        return True

    def find_change(self) -> float:
        """Find a change of the pair; that of u relative to the sizes, infinite where one of u' is."""
        assert self.factors is not None
        self._step = np.array(self.factors.change(self.residual))
        v, w = self._step
        change = largest(v / self.equations.sizes)
        return change if change + self.equations.rate(w, self.h) < np.inf else np.inf

    def move(self) -> float:
        """Change the pair by the part of the change with which F is defined; 0 where there is none."""
        share, step = 1.0, self._step
        while True:
            np.add(self.here, step, out=self._there)
            u, du = self._there
            self.residual = self.equations.problem.evaluate(u, du, self.t)
            if largest(self.residual) < np.inf:
                self.here, self._there = self._there, self.here
                return share
            if share < SMALLEST_SHARE:
                return 0.0
            share, step = 0.5 * share, 0.5 * step


class _Determined:
    """Newton's method for y' and z; y changes by ``follows`` times the change of y'."""

    determined = True

    def __init__(
        self, parts: Linearization, algebraic: NDArray[np.bool_], h: float, follows: float = 0.0
    ) -> None:
        self.h, self._algebraic, self._share = h, algebraic, np.where(algebraic, 1.0, follows)
        mass, stiffness, rates = parts.mass, parts.stiffness, np.where(algebraic, 0.0, 1.0)
        if sparse.issparse(mass):
            chosen = mass @ sparse.diags_array(rates) + stiffness @ sparse.diags_array(self._share)
            self._matrix: Any = sparse.csc_array(chosen)
        else:
            self._matrix = np.where(algebraic, stiffness, mass if not follows else mass + follows * stiffness)
        self._factors = factorize(self._matrix)

    def solves(self, residual: Vector, trusted: float) -> bool:
        """Whether the matrix is regular enough for a residual."""
        left = np.asarray(self._matrix @ self._factors.solve(residual) - residual)
        return bool(np.abs(left).max(initial=0.0) <= trusted * np.abs(residual).max(initial=0.0))

    def change(self, residual: Vector) -> tuple[Vector, Vector]:
        """Changes of u and u' that remove a residual, shape (n,) each."""
        change = -self._factors.solve(residual)
        return self._share * change, np.where(self._algebraic, 0.0, change)


class _Nearest:
    """The change of the least weighted norm, from the equations of its minimum."""

    determined = False

    def __init__(self, parts: Linearization, sizes: Vector, h: float, weight: float) -> None:
        n, K = len(sizes), weight
        self.h, self._sizes = h, sizes
        if sparse.issparse(parts.mass):
            A, B = parts.mass @ sparse.diags(sizes), parts.stiffness @ sparse.diags(sizes)
            N = sparse.diags(_reciprocal(np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel()))) @ A
            J = sparse.hstack([A / h, B], format="csr")
            self._scale = _reciprocal(np.sqrt(np.asarray(J.multiply(J).sum(axis=1)).ravel()))
            J = sparse.diags(self._scale) @ J
            H = sparse.block_diag([sparse.identity(n), K * sparse.identity(n) + K**2 * (N.T @ N)])
            self._solve: Callable[[Vector], Any] = superlu(
                sparse.bmat([[H, J.T], [J, None]], format="csc")
            ).solve
        else:
            A = parts.mass * sizes
            N = _reciprocal(np.sqrt((A * A).sum(axis=1)))[:, None] * A
            J = np.hstack([A / h, parts.stiffness * sizes])
            self._scale = _reciprocal(np.sqrt((J * J).sum(axis=1)))
            J *= self._scale[:, None]
            matrix = np.zeros((3 * n, 3 * n))
            matrix[:n, :n] = np.eye(n)
            matrix[n : 2 * n, n : 2 * n] = K * np.eye(n) + K**2 * (N.T @ N)
            matrix[2 * n :, : 2 * n], matrix[: 2 * n, 2 * n :] = J, J.T
            lu, pivots, singular = dgetrf(matrix)
            if singular:
                raise np.linalg.LinAlgError("singular matrix")
            self._solve = lambda right: dgetrs(lu, pivots, right)[0]

    def change(self, residual: Vector) -> tuple[Vector, Vector]:
        """See :class:`_Determined`."""
        n, D = len(residual), self._sizes
        right = np.zeros(3 * n)
        right[2 * n :] = -self._scale * residual
        step = self._solve(right)
        return D * step[n : 2 * n], D * step[:n] / self.h


def _reciprocal(values: Vector) -> Vector:
    """1 / values, 0 where a value is 0."""
    return np.divide(1.0, values, out=np.zeros(len(values)), where=values > 0.0)


class ManifoldValues:
    """Projection of interpolated values on the manifold of a quasilinear problem."""

    at_ends = True

    def __init__(self, problem: Any) -> None:
        self.problem = problem

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times meet the constraints, see :meth:`Pointwise.correct`."""
        done = np.zeros(len(t), dtype=bool)
        for row, time in enumerate(t.tolist()):
            with suppress(SolveError, InconsistentStateError):  # at a singular point, or beside the manifold
                u[row], du[row] = self.problem.on_manifold(time, u[row], du[row])
                done[row] = True
        return done

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """Errors of values that could not be projected, which are not known."""
        return np.ones(len(u))
