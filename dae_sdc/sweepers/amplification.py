"""How a step maps errors of its start to errors of its end, and where the kernel of dF/du' turns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from scipy import sparse

from dae_sdc.dae.jacobian import NOISE_LIMIT, checked_matrix
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import EvaluationError


@dataclass(frozen=True)
class AmplificationOptions:
    """When and how the amplification of errors in a step is computed.

    Parameters
    ----------
    most_unknowns : int
        Largest number n of unknowns for which it is computed: the matrices have s n rows for s stages.
    derivative_increment, state_increment : float
        Increments of the central differences in u', in which most F are linear, and in u, relative to their
        sizes.
    rank_tolerance : float
        Singular value, relative to the largest, that counts as zero.
    turned : float
        Sine of the angle between the kernels of dF/du' at two times from which on the kernel has turned.
    noise : float
        Round-off of the matrices: at index k the step map is known for h down to tau (noise)^(1/k), tau the
        ratio of the norms of dF/du' and dF/du.
    beside : float
        Distance of a neighbouring point, relative to the interval and to the sizes of the unknowns.
    shorter : float
        Size of the second step whose amplification is computed, relative to the first.
    least_growth : float
        Amplification of a step up to which no message is given.
    most_growth : float
        Amplification by all steps so far, and as many more, from which on the run ends: errors of single
        steps, though below the tolerance, would then grow above it.
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


@dataclass
class Piece:
    """A straight piece of a solution: u = start + (t - t0) slope.

    Parameters
    ----------
    problem : ProblemDAE
        The equations.
    t0 : float
        Time at which it begins.
    start, slope : ndarray, shape (n,)
        u at ``t0``, and the constant u'.
    options : AmplificationOptions
        How matrices are made.
    """

    problem: ProblemDAE
    t0: float
    start: Vector
    slope: Vector
    options: AmplificationOptions

    @cached_property
    def sizes(self) -> Vector:
        """Sizes of the unknowns, the units of the matrices here, shape (n,)."""
        found = np.maximum(self.problem.run_scales.unknowns, np.abs(self.start))
        return np.where(found > 0.0, found, found.max() or 1.0)

    @cached_property
    def _equations(self) -> Vector:
        """Sizes of the terms of the equations."""
        time = self.problem.run_scales.time
        halves = np.abs(self._half(self.t0, 1)).max(axis=1) / time, np.abs(self._half(self.t0, 0)).max(axis=1)
        sizes = halves[0] + halves[1]
        return np.where(sizes > 0.0, sizes, 1.0)

    @property
    def rank_tolerance(self) -> float:
        """Singular value of dF/du', relative to the largest, up to which it is noise."""
        noise = 0.0 if self.problem.noise is None else self.problem.noise.relative
        return max(self.options.rank_tolerance, NOISE_LIMIT * noise / self.options.derivative_increment)

    def mass(self, t: float) -> Vector:
        """dF/du' at a time, of unknowns and equations in units of their sizes, shape (n, n)."""
        return self._half(t, 1) / self._equations[:, None]

    def stiffness(self, t: float) -> Vector:
        """dF/du at a time, of unknowns and equations in units of their sizes, shape (n, n)."""
        return self._half(t, 0) / self._equations[:, None]

    def kernel(self, mass: Vector) -> Vector:
        """Orthonormal basis of the kernel of a matrix, shape (n, nullity)."""
        _, sizes, rows = np.linalg.svd(mass)
        rank = int((sizes > self.rank_tolerance * max(float(sizes[0]), np.finfo(float).tiny)).sum())
        return np.asarray(rows[rank:].T)

    def turns(self, before: Vector, after: Vector) -> bool:
        """Whether the kernels of two matrices dF/du', at two times, differ."""
        first, second = self.kernel(before), self.kernel(after)
        if first.shape != second.shape:
            return True
        turned = max(self.options.turned, NOISE_LIMIT * self.rank_tolerance)
        return bool(np.abs(second - first @ (first.T @ second)).max(initial=0.0) > turned)

    def _half(self, t: float, which: int) -> Vector:
        problem, n, split = self.problem, self.problem.n, self.problem.n_diff
        point, time = [self.start + (t - self.t0) * self.slope, self.slope.copy()], problem.run_scales.time
        given = getattr(problem, "jacobian", None)
        if given is not None:
            states = [attach(x, split) for x in point]
            parts = [_dense(checked_matrix(problem, given(*states, t, c))) for c in (0.0, time)]
            matrix = parts[0] if which else (parts[1] - parts[0]) / time
        else:
            matrix, varied = np.empty((n, n)), point[which]
            sizes = self.sizes / time if which else self.sizes
            increment = self.options.derivative_increment if which else self.options.state_increment
            for j in range(n):
                middle, step = varied[j], increment * max(float(sizes[j]), abs(float(varied[j])))
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
        return matrix * self.sizes


def _dense(matrix: Any) -> Vector:
    return np.array(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


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


def amplification(piece: Piece, A: Vector, c: Vector, h: float) -> float:
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
        stiffness = piece.stiffness(t)
        matrix[own] = np.kron(h * A[i, first:], stiffness)
        matrix[own, own] += piece.mass(t)
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


def kernel_turns(
    problem: ProblemDAE, u0: MeshDAE, t0: float, options: AmplificationOptions | None = None
) -> bool:
    """Whether the kernel of dF/du' at a state differs from that at a neighbouring state and time.

    Parameters
    ----------
    problem : ProblemDAE
        The equations; with more than ``most_unknowns`` unknowns the kernel is taken to be constant.
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
    piece = Piece(problem, t0, values.copy(), np.zeros(n), options)
    aside = options.beside * piece.sizes * np.cos(np.arange(1.0, n + 1.0))
    piece.slope = aside / max(span, np.finfo(float).tiny)
    try:
        return piece.turns(piece.mass(t0), piece.mass(t0 + span))
    except EvaluationError:
        return False
