"""How a step maps errors of its start to errors of its end, and where the kernel of dF/du' turns."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import EvaluationError


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
    beside : float
        Distance of a point beside another, relative to the interval and to 1 + the sizes of the unknowns.
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
    beside: float = 1e-3
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
                    values.append(
                        problem.evaluate(attach(point[0], split), attach(point[1], split), t).copy()
                    )
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


def turns(before: Vector, after: Vector, options: AmplificationOptions) -> bool:
    """Whether dF/du' has another kernel at one time than at another."""
    first, second = kernel(before, options), kernel(after, options)
    if first.shape != second.shape:
        return True
    return bool(np.abs(second - first @ (first.T @ second)).max(initial=0.0) > options.turned)


def kernel_turns(
    problem: ProblemDAE, u0: MeshDAE, t0: float, options: AmplificationOptions | None = None
) -> bool:
    """Whether the kernel of dF/du' at a state is another one than beside it.

    Parameters
    ----------
    problem : ProblemDAE
        The equations; of more than ``most_unknowns`` unknowns it is taken for fixed.
    u0 : MeshDAE
        State, shape (n,).
    t0 : float
        Time.
    options : AmplificationOptions, optional
        How the matrices are made.
    """
    options, n = options or AmplificationOptions(), problem.n
    if n > options.most_unknowns:
        return False
    span = options.beside * abs(problem.interval[1] - problem.interval[0])
    values = u0.view(np.ndarray)
    slope = options.beside * (1.0 + np.abs(values)) * np.cos(np.arange(1.0, n + 1.0)) / max(span, 1e-300)
    piece = Piece(problem, t0, values.copy(), slope)
    try:
        return turns(piece.mass(t0, options), piece.mass(t0 + span, options), options)
    except EvaluationError:
        return False
