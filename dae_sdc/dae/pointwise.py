"""Values at single times that satisfy the equations there, from approximate ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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

__all__ = ["ManifoldValues", "Pointwise", "PointwiseEquations", "PointwiseOptions"]


class Pointwise(Protocol):
    """Corrections that make interpolated values satisfy the equations of a run."""

    at_ends: bool

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times satisfy the equations, in place.

        The sizes h of the steps that the times lie in are negative at the ends of steps.
        """
        # Shapes: t (K,), u and du (K, n), h (K,) -> (K,).

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """Estimated errors, in units of the sizes of the unknowns, of values that were not corrected."""
        # Shapes: u and du (n,) -> (n,).


@dataclass(frozen=True)
class PointwiseOptions:
    """Settings of :class:`PointwiseEquations`."""

    max_iterations: int = 12  # Newton iterations at one time.
    # Change of u, relative to the size of each unknown in the run, that ends the iteration.
    round_off: float = 1e-13
    # Largest relative change of u that may be left after the last iteration; more counts as a failure.
    accepted_change: float = 1e-9
    # Relative change of u at which the iteration ends once changes no longer shrink.
    stalled_change: float = 1e-11
    smallest_share: float = 1e-3  # Least part of a change that is tried where F is not defined at its end.
    # Largest ratio of a change to the one before with which factors are kept, within a time and from one
    # time to the next.
    kept_rate: float = 0.1
    # The latter where F does not determine the values: the change of the least norm is then that of another
    # matrix, by about this part of the change.
    kept_rate_of_nearest: float = 0.01
    # Residual of a linear solve, relative to its right side, up to which the matrix is taken to be regular.
    trusted: float = 1e-6
    # Change of a derivative over the step, relative to the size of the unknown, from which on it is looked at
    # whether the unknown follows the others within ``follows`` times ``spared`` of the step: where it changes
    # by ``follows`` of the step times the change of the derivative, that is smaller by ``spared`` at least.
    unlikely_rate: float = 1e-8
    follows: float = 0.1
    spared: float = 0.01
    # K below, the weight of squared changes of algebraic unknowns relative to those of derivatives, and of
    # what is integrated, the row space of dF/du', relative to those of algebraic unknowns.
    weight: float = 1e6


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

    def __init__(self, problem: ProblemDAE, sizes: Vector, options: PointwiseOptions | None = None) -> None:
        self.problem, self.options = problem, options or PointwiseOptions()
        self.sizes = np.where(sizes > 0.0, sizes, float(np.max(sizes, initial=0.0)) or 1.0)
        self._algebraic = problem.is_algebraic

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times satisfy the equations, see :meth:`Pointwise.correct`."""
        done = np.zeros(len(t), dtype=bool)
        kept: _Factors | None = None
        with self._at_any_side():
            # Factors of one time do for the next ones in the same step.
            for row in np.argsort(t, kind="stable").tolist():
                time, size = float(t[row]), float(h[row])
                kept = kept if kept is not None and kept.h == size else None
                with suppress(SolveError, np.linalg.LinAlgError, RuntimeError), np.errstate(all="ignore"):
                    found = None if kept is None else self._solved(time, u[row], du[row], kept)
                    if found is None:
                        kept = None
                        found = self._solved(time, u[row], du[row], size)
                    if found is not None:
                        u[row], du[row], kept = found
                        done[row] = True
        return done

    @contextmanager
    def _at_any_side(self) -> Iterator[None]:
        """Let switches have the sides of the states inside, which belong to several steps."""
        held = self.problem.held_sides
        self.problem.hold_sides(None)
        try:
            yield
        finally:
            self.problem.hold_sides(held)

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """Estimated errors of values that were not corrected, at most 1, see :meth:`Pointwise.errors`."""
        problem, here = self.problem, _Pair(u, du, self.problem.n_diff)
        change, unsolved = np.full(len(u), np.inf), (SolveError, np.linalg.LinAlgError, RuntimeError)
        with self._at_any_side(), suppress(*unsolved), np.errstate(all="ignore"):
            problem.start_step(here.u, t)
            residual = problem.evaluate(here.u, here.du, t).copy()
            factors = self._factors(linearize(problem, here.u, here.du, t), residual, h)
            change, _ = factors.change(residual)
        return np.where(np.abs(change) < self.sizes, np.abs(change) / self.sizes, 1.0)

    def _solved(
        self, t: float, u: Vector, du: Vector, given: _Factors | float
    ) -> tuple[Vector, Vector, _Factors] | None:
        """u, and u' where F determines it, near the given pair with F = 0 at t; None without convergence.

        ``given`` are factors from another time, with which it must converge fast, or the size of the step.
        The last factors are returned, too.
        """
        problem, options = self.problem, self.options
        factors = None if isinstance(given, float) else given
        borrowed, h = factors is not None, given if isinstance(given, float) else given.h
        here, there = _Pair(u, du, problem.n_diff), _Pair(u, du, problem.n_diff)
        problem.start_step(here.u, t)
        residual = problem.evaluate(here.u, here.du, t)
        nearest = factors is not None and not factors.determined
        last, kept_rate = np.inf, options.kept_rate_of_nearest if nearest else options.kept_rate
        for iteration in range(options.max_iterations):
            if factors is None:
                residual = residual.copy()  # differences of F write where F has written
                factors = self._factors(linearize(problem, here.u, here.du, t), residual, h)
            v, w = factors.change(residual)
            change = largest(v / self.sizes)
            if not change + self.rate(w, h) < np.inf:
                return None
            fast = change <= kept_rate * last
            if borrowed and not fast:
                return None
            share, residual = self._move(t, here, there, v, w)
            if not largest(residual) < np.inf:
                return None
            here, there = there, here
            stalled = change >= last and change <= options.stalled_change
            # With factors of another time, the first change alone does not tell how far the solution is.
            sure = not borrowed or iteration > 0
            # Changes that shrink by a ratio add up to no more than this.
            left = change * min(1.0, change / (last - change)) if iteration and change < last else change
            last = change
            if share == 1.0 and sure and (left <= options.round_off or stalled):
                last = left
                break
            if not borrowed and (share < 1.0 or not fast):
                factors = None
        if last > options.accepted_change or factors is None:
            return None
        return here.values[0], here.values[1] if factors.determined else du, factors

    def _move(self, t: float, here: _Pair, there: _Pair, v: Vector, w: Vector) -> tuple[float, Vector]:
        """Set a pair to another one with changes of it; the part of them with which F is defined, and F."""
        share, step = 1.0, np.array([v, w])
        while True:
            np.add(here.values, step, out=there.values)
            value = self.problem.evaluate(there.u, there.du, t)
            if largest(value) < np.inf or share < self.options.smallest_share:
                return share, value
            share, step = 0.5 * share, 0.5 * step

    def _factors(self, parts: Linearization, residual: Vector, h: float) -> _Factors:
        """What gives the changes of u and u' of Newton iterations."""
        algebraic = self._algebraic
        # At index 1 the derivatives of all unknowns cannot follow from F.
        if self.problem.index == int(algebraic.any()) and not (abs(parts.mass) @ algebraic).any():
            with suppress(SolveError):
                square = _Determined(parts, algebraic, h)
                if square.solves(residual, self.options.trusted):
                    return self._following(square, parts, residual)
        return _Nearest(parts, self.sizes, h, self.options.weight)

    def _following(self, square: _Determined, parts: Linearization, residual: Vector) -> _Determined:
        """Other factors, with which y follows y', where these spare a large change of y'."""
        rate = self.rate(square.change(residual)[1], square.h)
        if not self.options.unlikely_rate < rate < np.inf:
            return square
        with suppress(SolveError):
            other = _Determined(parts, self._algebraic, square.h, self.options.follows * square.h)
            if self.rate(other.change(residual)[1], square.h) <= self.options.spared * rate:
                return other
        return square

    def rate(self, w: Vector, h: float) -> float:
        """The largest change of a derivative over a step, relative to the size of the unknown."""
        return h * largest(w / self.sizes)


class _Pair:
    """A state and a derivative in one array, shape (2, n)."""

    def __init__(self, u: Vector, du: Vector, n_diff: int) -> None:
        self.values = np.array([u, du])
        self.u, self.du = attach(self.values[0], n_diff), attach(self.values[1], n_diff)


class _Factors(Protocol):
    """Factors of the equations of a change."""

    determined: bool
    h: float

    def change(self, residual: Vector) -> tuple[Vector, Vector]:
        """Changes of u and u' that remove a residual, shape (n,) each."""


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
        """See :class:`_Factors`."""
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
        """See :class:`_Factors`."""
        n, D = len(residual), self._sizes
        right = np.zeros(3 * n)
        right[2 * n :] = -self._scale * residual
        found = self._solve(right)
        return D * found[n : 2 * n], D * found[:n] / self.h


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
