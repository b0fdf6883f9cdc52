"""Whether a method lets errors of the state grow from step to step, where the kernel of dF/du' turns."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Any, NamedTuple

import numpy as np
from pySDC.core.hooks import Hooks
from scipy import sparse

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import Vector, attach
from dae_sdc.errors import EvaluationError, StepSizeError


@dataclass(frozen=True)
class AmplificationOptions:
    """When and how the amplification of errors in a step is looked at.

    Parameters
    ----------
    most_unknowns : int
        Number of unknowns up to which it is: the matrices have s n rows for s stages.
    derivative_increment, state_increment : float
        Relative increments of the central differences in u', in which most F are linear, and in u.
    rank_tolerance : float
        Singular value, relative to the largest, that counts as zero.
    turned : float
        Sine of the angle between the kernels of dF/du' at two times from which on they are different.
    noise : float
        Round-off of the matrices: at index k the step map is known for h down to tau (noise)^(1/k), tau the
        ratio of the norms of dF/du' and dF/du.
    shorter : float
        Size of the second step that is looked at, relative to the first.
    least_growth : float
        Amplification of a step up to which nothing is said.
    most_growth : float
        Amplification by all steps so far, and as many more, from which on the run ends: the errors of single
        steps are smaller than the tolerance, but not by so much.
    """

    most_unknowns: int = 100
    derivative_increment: float = 1e-3
    state_increment: float = 1e-5
    rank_tolerance: float = 1e-9
    turned: float = 1e-6
    noise: float = 1e-7
    shorter: float = 0.25
    least_growth: float = 1.2
    most_growth: float = 100.0


class Piece(NamedTuple):
    """A straight piece of a solution: u = start + (t - t0) slope."""

    problem: ProblemDAE
    t0: float
    start: Vector
    slope: Vector

    def mass(self, t: float, options: AmplificationOptions) -> Vector:
        """dF/du' at a time, shape (n, n)."""
        return self._half(t, 1, options.derivative_increment)

    def stiffness(self, t: float, options: AmplificationOptions) -> Vector:
        """dF/du at a time, shape (n, n)."""
        return self._half(t, 0, options.state_increment)

    def _half(self, t: float, which: int, increment: float) -> Vector:
        problem, n, split = self.problem, self.problem.n, self.problem.n_diff
        point = [self.start + (t - self.t0) * self.slope, self.slope.copy()]
        given = getattr(problem, "jacobian", None)
        if given is not None:
            parts = [_dense(given(*(attach(x, split) for x in point), t, c)) for c in (0.0, 1.0)]
            matrix = parts[0] if which else parts[1] - parts[0]
        else:
            matrix, varied = np.empty((n, n)), point[which]
            for j in range(n):
                middle, step = varied[j], increment * max(1.0, abs(float(varied[j])))
                values = []
                for sign in (1.0, -1.0):
                    varied[j] = middle + sign * step
                    values.append(problem.evaluate(*(attach(x, split) for x in point), t).copy())
                varied[j] = middle
                matrix[:, j] = (values[0] - values[1]) / (2.0 * step)
        if not np.isfinite(matrix).all():
            raise EvaluationError(f"the Jacobian is not finite at t={t:.6g}")
        return matrix


def _dense(matrix: Any) -> Vector:
    return np.array(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


def kernel(matrix: Vector, options: AmplificationOptions) -> Vector:
    """Orthonormal basis of the kernel of a matrix, shape (n, nullity)."""
    _, sizes, rows = np.linalg.svd(matrix)
    rank = int((sizes > options.rank_tolerance * max(float(sizes[0]), np.finfo(float).tiny)).sum())
    return np.asarray(rows[rank:].T)


def pencil_index(mass: Vector, stiffness: Vector, options: AmplificationOptions) -> int | None:
    """Index of the constant pencil of two matrices; None where it is singular.

    Where equations without derivatives are differentiated, dF/du' takes their rows of dF/du, until it is
    regular. With coefficients that vary in time the index of a DAE is at least 2 where this is.

    References
    ----------
    D. Luenberger, Time-invariant descriptor systems, Automatica 14 (1978) 473 (the shuffle algorithm).
    """
    mass, stiffness, n = mass.copy(), stiffness.copy(), len(mass)
    scales = np.abs(mass).max(axis=1) + np.abs(stiffness).max(axis=1)
    mass /= np.where(scales > 0.0, scales, 1.0)[:, None]
    stiffness /= np.where(scales > 0.0, scales, 1.0)[:, None]
    for index in range(n + 1):
        rows, sizes, _ = np.linalg.svd(mass)
        rank = int((sizes > np.sqrt(options.rank_tolerance) * max(float(sizes[0]), 1e-300)).sum())
        if rank == n:
            return index
        mass, stiffness = rows.T @ mass, rows.T @ stiffness
        mass[rank:], stiffness[rank:] = stiffness[rank:], 0.0
    return None


def amplification(piece: Piece, A: Vector, c: Vector, h: float, options: AmplificationOptions) -> float:
    r"""Spectral radius of the map from an error at the start of a step to that at its end.

    .. math::
        M_i E_i + J_i \Big(e_0 + h \sum_j a_{ij} E_j\Big) = 0, \qquad e_1 = e_0 + h \sum_j b_j E_j

    M = dF/du' and J = dF/du at the stages, b the last row of A. An explicit first stage has E_1 = E_s of the
    step before, which is a part of the error then.

    Parameters
    ----------
    piece : Piece
        The solution from the start of the step on.
    A : ndarray, shape (s, s)
        Coefficients of the method.
    c : ndarray, shape (s,)
        Its nodes.
    h : float
        Step size.
    options : AmplificationOptions
        How the matrices are made.

    Returns
    -------
    float
        1 + O(h) for a method that is stable on this problem, infinite where a step has no solution.
    """
    n, first = piece.problem.n, 0 if A[0].any() else 1
    stages = range(first, len(c))
    matrix = np.zeros((len(stages) * n, len(stages) * n))
    known = np.zeros((len(stages) * n, (1 + first) * n))
    for i in stages:
        t, own = piece.t0 + h * float(c[i]), slice((i - first) * n, (i - first + 1) * n)
        stiffness = piece.stiffness(t, options)
        matrix[own] = np.kron(h * A[i, first:], stiffness)
        matrix[own, own] += piece.mass(t, options)
        known[own, :n] = -stiffness
        if first:
            known[own, n:] = -h * A[i, 0] * stiffness
    try:
        found = np.linalg.solve(matrix, known)
    except np.linalg.LinAlgError:
        return inf
    end = h * (np.kron(A[-1, first:], np.eye(n)) @ found)
    end[:, :n] += np.eye(n)
    if first:
        end[:, n:] += h * A[-1, 0] * np.eye(n)
        end = np.vstack([end, found[-n:]])
    return float(np.abs(np.linalg.eigvals(end)).max()) if np.isfinite(end).all() else inf


class WatchAmplification(Hooks):  # type: ignore[misc]
    """Ends a run whose method lets errors grow in every step, however short, as no estimate of one step can see.

    Where the kernel of dF/du' is the same at all times, Runge-Kutta methods forget errors of algebraic
    unknowns within some steps. Where it turns, at index 2 and higher, the step map has an eigenvalue that
    does not tend to 1 with h, and at index 3 it may grow like 1 / h: the numerical solution leaves the true
    one exponentially in the number of steps, smoothly, so that error estimates, which compare two solutions
    of one step, stay small. The eigenvalue is calculated after 1, 2, 4, 8, ... accepted steps, for problems
    whose ``index`` is 2 or more or not given.

    References
    ----------
    K. Brenan, S. Campbell, L. Petzold, Numerical Solution of Initial-Value Problems in Differential-Algebraic
    Equations, SIAM (1996), sec. 3.2; R. Maerz, Numerical methods for differential algebraic equations, Acta
    Numerica 1 (1992) 141.
    """

    options = AmplificationOptions()

    def __init__(self) -> None:
        super().__init__()
        self._accepted, self._next = 0, 1

    def post_step(self, step: Any, level_number: int) -> None:
        """Look at an accepted step.

        Raises
        ------
        StepSizeError
            Where errors grow by more than ``most_growth`` by then.
        """
        super().post_step(step, level_number)
        if step.status.get("restart"):
            return
        self._accepted += 1
        if self._accepted != self._next:
            return
        self._next *= 2
        L = step.levels[0]
        coefficients = getattr(L.sweep, "step_coefficients", None)
        problem, h = L.prob, float(L.dt)
        if coefficients is None or L.uend is None or problem.n > self.options.most_unknowns:
            self._next = 0
            return
        start = L.u[0].view(np.ndarray)
        piece = Piece(problem, float(L.time), start.copy(), (L.uend.view(np.ndarray) - start) / h)
        growth = 1.0
        try:
            if self._accepted == 1 and _fixed(piece, self.options):
                self._next = 0
                return
            growth = self._growth(piece, *coefficients, h)
        except EvaluationError:
            return
        if growth > self.options.least_growth and 2 * self._accepted * log(growth) > log(self.options.most_growth):
            raise StepSizeError(
                f"errors grow by a factor of {growth:.2g} in every step at t={L.time:.6g}, however short it "
                f"is: the kernel of dF/du' turns with time, and the index is at least 2; reduce the index, or "
                f"take unknowns of which dF/du' has the same kernel at all times"
            )

    def _growth(self, piece: Piece, A: Vector, c: Vector, h: float) -> float:
        """Amplification of a step that does not vanish with the step size; 1 where there is none."""
        options, problem = self.options, piece.problem
        mass, stiffness = piece.mass(piece.t0, options), piece.stiffness(piece.t0, options)
        index = max(problem.index or 0, pencil_index(mass, stiffness, options) or 0)
        if index < 2:
            return 1.0
        scale = float(np.linalg.norm(mass) / max(float(np.linalg.norm(stiffness)), np.finfo(float).tiny))
        h = max(h, scale * options.noise ** (1.0 / index) / options.shorter)
        if not _turns(mass, piece.mass(piece.t0 + h, options), options):
            return 1.0
        long = amplification(piece, A, c, h, options)
        short = amplification(piece, A, c, options.shorter * h, options)
        # Growth of the solution itself is that much smaller in a step that is so much shorter.
        grows = long > options.least_growth and log(short) > 0.5 * log(min(long, 1e100)) if short > 1.0 else False
        return min(long, short) if grows else 1.0


def _fixed(piece: Piece, options: AmplificationOptions) -> bool:
    """Whether F depends on u' in a way that leaves nothing to look at."""
    problem = piece.problem
    if problem.index in (0, 1):
        return True
    mass, split = piece.mass(piece.t0, options), problem.n_diff
    return not mass[:, split:].any() and not kernel(mass[:, :split], options).size


def _turns(before: Vector, after: Vector, options: AmplificationOptions) -> bool:
    """Whether dF/du' has another kernel at one time than at another."""
    first, second = kernel(before, options), kernel(after, options)
    if first.shape != second.shape:
        return True
    return bool(np.abs(second - first @ (first.T @ second)).max(initial=0.0) > options.turned)
