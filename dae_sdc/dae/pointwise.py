"""Values at single times that satisfy the equations there, from approximate ones."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from dae_sdc.dae.jacobian import Linearization, linearize
from dae_sdc.dae.linear import factorize, superlu
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import InconsistentStateError, SolveError

__all__ = ["ManifoldValues", "Pointwise", "PointwiseEquations", "PointwiseOptions"]


class Pointwise(Protocol):
    """Corrections that make interpolated values satisfy the equations of a run.

    Attributes
    ----------
    at_ends : bool
        Whether values at the ends of steps are corrected, too, because the method gives no u' there.
    """

    at_ends: bool

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times satisfy the equations, in place.

        Parameters
        ----------
        t : ndarray, shape (K,)
            Times.
        u, du : ndarray, shape (K, n)
            Approximate state and derivative there. Rows that cannot be corrected stay as they are.
        h : ndarray, shape (K,)
            Sizes of the steps that the times lie in.

        Returns
        -------
        ndarray of bool, shape (K,)
            Where the values satisfy the equations.
        """


@dataclass(frozen=True)
class PointwiseOptions:
    """Settings of :class:`PointwiseEquations`.

    Parameters
    ----------
    max_iterations : int
        Newton iterations at one time.
    round_off : float
        Change of u, relative to the size of each unknown in the run, that ends the iteration.
    accepted_change : float
        Largest relative change of u in the last iteration; a larger one counts as a failure.
    stalled_change : float
        Relative change of u at which the iteration ends once changes no longer shrink.
    smallest_share : float
        Least part of a change that is tried where F is not defined at its end.
    trusted : float
        Residual of a linear solve, relative to its right side, up to which the matrix is taken to be regular.
    weight : float
        K below, the weight of squared changes of algebraic unknowns relative to those of derivatives, and of
        what is integrated, the row space of dF/du', relative to those of algebraic unknowns.
    """

    max_iterations: int = 12
    round_off: float = 1e-13
    accepted_change: float = 1e-9
    stalled_change: float = 1e-11
    smallest_share: float = 1e-3
    trusted: float = 1e-6
    weight: float = 1e6


class PointwiseEquations:
    r"""The equations of a problem as a correction of interpolated values.

    At a time t within a step an interpolated pair (u, u') satisfies F(t, u, u') = 0 up to the error of
    the interpolation, which a jump or a steep slope of an algebraic unknown makes as large as the unknown.
    Newton's method finds a pair near it that satisfies them to round-off, of which u is taken:

    - where F does not depend on the derivatives z' of the algebraic unknowns, and F = 0 determines (y', z)
      for given y (index 0 and 1), y stays as it is, and u' is taken too;
    - else the change (v, w) of (u, u') is the one of the least weighted norm, with D the sizes of the
      unknowns, h the step, and N = dF/du' D with rows of norm 1,

      .. math::
          |y|^2 + K |x|^2 + K^2 |N x|^2 \to \min, \quad
          x = D^{-1} v, \; y = h D^{-1} w, \; F_{u'} w + F_u v = -F .

      Derivatives make up for the residual where they can, then algebraic unknowns, which N does not see;
      what is integrated changes only where a constraint has nothing else.

    Parameters
    ----------
    problem : ProblemDAE
        The equations. Its branch is chosen anew at every time, by
        :meth:`~dae_sdc.dae.problem.ProblemDAE.start_step`.
    sizes : ndarray, shape (n,)
        Size of each unknown in the run, in its unit.
    options : PointwiseOptions
        Settings of the iteration.
    """

    at_ends = False

    def __init__(self, problem: ProblemDAE, sizes: Vector, options: PointwiseOptions | None = None) -> None:
        self.problem, self.options = problem, options or PointwiseOptions()
        largest = float(np.max(sizes, initial=0.0)) or 1.0
        self.sizes = np.where(sizes > 0.0, sizes, largest)

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times satisfy the equations, see :meth:`Pointwise.correct`."""
        problem, held = self.problem, self.problem.held_sides
        done = np.zeros(len(t), dtype=bool)
        problem.hold_sides(None)
        try:
            for row, time in enumerate(t.tolist()):
                with suppress(SolveError, np.linalg.LinAlgError, RuntimeError), np.errstate(all="ignore"):
                    found = self._solved(time, u[row], du[row], float(h[row]))
                    if found is not None:
                        u[row], du[row], done[row] = *found, True
        finally:
            problem.hold_sides(held)
        return done

    def _solved(self, t: float, u: Vector, du: Vector, h: float) -> tuple[Vector, Vector] | None:
        """u, and u' where F determines it, near the given pair with F = 0 at t; None without convergence."""
        problem, options = self.problem, self.options
        state = attach(u.copy(), problem.n_diff)
        slope = attach(du.copy(), problem.n_diff)
        problem.start_step(state, t)
        residual = problem.evaluate(state, slope, t).copy()
        last, determined = np.inf, False
        for _ in range(options.max_iterations):
            v, w, determined = self._change(linearize(problem, state, slope, t), residual, h)
            change = float(np.max(np.abs(v) / self.sizes, initial=0.0))
            rate = h * float(np.max(np.abs(w) / self.sizes, initial=0.0))
            if not np.isfinite(change + rate):
                return None
            share = 1.0
            while True:
                trial = attach(state + share * v, problem.n_diff)
                trial_slope = attach(slope + share * w, problem.n_diff)
                value = problem.evaluate(trial, trial_slope, t).copy()
                if np.isfinite(value).all() or share < options.smallest_share:
                    break
                share *= 0.5
            if not np.isfinite(value).all():
                return None
            state, slope, residual = trial, trial_slope, value
            stalled = change >= last and change <= options.stalled_change
            if share == 1.0 and (change <= options.round_off or stalled):
                last = change
                break
            last = change
        if last > options.accepted_change:
            return None
        return state.view(np.ndarray), slope.view(np.ndarray) if determined else du

    def _change(self, parts: Linearization, residual: Vector, h: float) -> tuple[Vector, Vector, bool]:
        """The changes of u and u' of one Newton iteration, and whether the equations determine y'."""
        k, problem = self.problem.n_diff, self.problem
        # At index 1 the derivatives of all unknowns cannot follow from F.
        if problem.index == (0 if k == problem.n else 1) and not parts.depends_on_derivative(k):
            found = _square(parts, k, residual, self.options.trusted)
            if found is not None:
                v, w = np.zeros(problem.n), np.zeros(problem.n)
                w[:k], v[k:] = -found[:k], -found[k:]
                return v, w, True
        return *self._nearest(parts, residual, h), False

    def _nearest(self, parts: Linearization, residual: Vector, h: float) -> tuple[Vector, Vector]:
        """The change of the least weighted norm, from the equations of its minimum."""
        n, D, K = len(residual), self.sizes, self.options.weight
        if sparse.issparse(parts.mass):
            A, B = parts.mass @ sparse.diags(D), parts.stiffness @ sparse.diags(D)
            N = sparse.diags(_reciprocal(np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel()))) @ A
            J = sparse.hstack([A / h, B], format="csr")
            scale = _reciprocal(np.sqrt(np.asarray(J.multiply(J).sum(axis=1)).ravel()))
            J = sparse.diags(scale) @ J
            H = sparse.block_diag([sparse.identity(n), K * sparse.identity(n) + K**2 * (N.T @ N)])
            found = superlu(sparse.bmat([[H, J.T], [J, None]], format="csc")).solve(
                np.concatenate([np.zeros(2 * n), -scale * residual])
            )
        else:
            A = parts.mass * D
            N = _reciprocal(np.sqrt((A * A).sum(axis=1)))[:, None] * A
            J = np.hstack([A / h, parts.stiffness * D])
            scale = _reciprocal(np.sqrt((J * J).sum(axis=1)))
            J *= scale[:, None]
            matrix = np.zeros((3 * n, 3 * n))
            matrix[:n, :n] = np.eye(n)
            matrix[n : 2 * n, n : 2 * n] = K * np.eye(n) + K**2 * (N.T @ N)
            matrix[2 * n :, : 2 * n], matrix[: 2 * n, 2 * n :] = J, J.T
            right = np.zeros(3 * n)
            right[2 * n :] = -scale * residual
            found = np.linalg.solve(matrix, right)
        return D * found[n : 2 * n], D * found[:n] / h


def _reciprocal(values: Vector) -> Vector:
    """1 / values, 0 where a value is 0."""
    return np.divide(1.0, values, out=np.zeros(len(values)), where=values > 0.0)


def _square(parts: Linearization, k: int, residual: Vector, trusted: float) -> Vector | None:
    """Newton correction of y' and z, to be subtracted; None where F does not determine them."""
    matrix = parts.iteration_matrix(0.0, k)
    try:
        found = factorize(matrix).solve(residual)
    except SolveError:
        return None
    left = np.abs(np.asarray(matrix @ found - residual)).max(initial=0.0)
    return found if left <= trusted * np.abs(residual).max(initial=0.0) else None


class ManifoldValues:
    """Projection of interpolated values on the manifold of a quasilinear problem.

    Parameters
    ----------
    problem : QuasilinearProblem
        The equations, whose ``on_manifold`` gives the state that meets the constraints, with derivatives and
        multipliers of the equations.
    """

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
