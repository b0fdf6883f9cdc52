"""How a step maps errors of its start to errors of its end, and where the kernel of dF/du' turns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np

from dae_sdc.dae.jacobian import NOISE_LIMIT, linearize
from dae_sdc.dae.memory import uncounted
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import EvaluationError

# Largest number n of unknowns for which amplification is computed: the matrices have s n rows for s stages.
MOST_AMPLIFIED = 100
NOISE_GROWTH = 1e3  # Largest error of differences in dF/du', in units of the noise of F.
KERNEL_TOLERANCE = 1e-9  # Singular value, relative to the largest, that counts as zero.
# Sine of the angle between the kernels of dF/du' at two times from which on the kernel has turned.
KERNEL_TURNED = 1e-6
# Round-off of the matrices, of differences: at index k the step map is known for h down to tau (noise)^(1/k),
# tau the ratio of the norms of dF/du' and dF/du.
MATRIX_NOISE = 1e-9
# Distance of a neighbouring point, relative to the interval and to the sizes of the unknowns.
BESIDE_STATE = 1e-3
ERROR_DIRECTIONS = 3  # Directions of errors that are followed; two of them grow alike in a complex pair.
SPREAD = 1.7  # Frequency in the entries of the first directions, such that none of them is special.
# STEPS_BEFORE, AVERAGED_STEPS: steps in which directions turn to those of largest growth, and steps over
# which growth is averaged.
STEPS_BEFORE, AVERAGED_STEPS = 3, 8
# Range of the logarithms of growth in these steps up to which a direction grows steadily.
STEADY = 0.5
# Factor, as of Gauss methods, from which on errors of algebraic unknowns are kept: then they grow in
# proportion to powers of the number of steps besides, which more steps before make small.
UNDAMPED = 0.99
STEPS_BEFORE_UNDAMPED = 24  # The steps before for such methods.
SHORTER = 0.125  # Size of the second steps whose amplification is computed, relative to the first.
# Factor up to which the growth of the solution in steps of the two sizes may differ from the proportion of
# the sizes, by the errors of a method with long steps.
LIKENESS = 2.2
LEAST_GROWTH = 0.01  # Logarithm of the amplification of a step that counts as 0.


@dataclass
class Piece:
    """Part of a solution, cubic between the times at which it is known, and straight on both sides."""

    # It stays near the solution: where F is not 0, dF/du of rows mixed by a matrix P(u) has P'(u) times F
    # besides.

    problem: ProblemDAE  # The equations.
    times: Sequence[float]  # Two or more times in their order.
    # values, slopes: shape (n,). u and u' at these times.
    values: Sequence[Vector]
    slopes: Sequence[Vector]
    # Shape (n,). Sizes of the terms of the equations, where they are known from an earlier part.
    terms: Vector | None = None
    _halves_at: dict[float, tuple[Vector, Vector]] = field(default_factory=dict, init=False)

    def at(self, t: float) -> tuple[Vector, Vector]:
        """u and u' at a time."""
        i = min(max(bisect_right(self.times, t), 1), len(self.times) - 1)
        (begin, end), (first, last) = self.times[i - 1 : i + 1], self.values[i - 1 : i + 1]
        before, after = self.slopes[i - 1 : i + 1]
        if t <= begin:
            return first + (t - begin) * before, before.copy()
        if t >= end:
            return last + (t - end) * after, after.copy()
        part, mean = (t - begin) / (end - begin), (last - first) / (end - begin)
        bend, twist = 3.0 * mean - 2.0 * before - after, before + after - 2.0 * mean
        value = first + (t - begin) * (before + part * (bend + part * twist))
        return value, before + part * (2.0 * bend + 3.0 * part * twist)

    @cached_property
    def sizes(self) -> Vector:
        """Sizes of the unknowns, the units of the matrices here, shape (n,)."""
        found = np.maximum(self.problem.run_scales.unknowns, np.abs(self.values[-1]))
        return np.where(found > 0.0, found, found.max() or 1.0)

    @cached_property
    def equations(self) -> Vector:
        """Sizes of the terms of the equations."""
        if self.terms is not None:
            return self.terms
        time = self.problem.run_scales.time
        mass, stiffness = self._halves(self.times[-1])
        sizes = np.abs(mass).max(axis=1) / time + np.abs(stiffness).max(axis=1)
        return np.where(sizes > 0.0, sizes, 1.0)

    @property
    def rank_tolerance(self) -> float:
        """Singular value of dF/du', relative to the largest, up to which it is noise."""
        noise = 0.0 if self.problem.noise is None else self.problem.noise.relative
        return max(KERNEL_TOLERANCE, NOISE_LIMIT * NOISE_GROWTH * noise)

    def matrices(self, t: float) -> tuple[Vector, Vector]:
        """dF/du' and dF/du at a time, of unknowns and equations in units of their sizes, shape (n, n)."""
        mass, stiffness = self._halves(t)
        return mass / self.equations[:, None], stiffness / self.equations[:, None]

    @cached_property
    def linear(self) -> bool:
        """Whether the matrices do not depend on u, as far as a point beside the last one tells."""
        aside = BESIDE_STATE * self.sizes * np.cos(np.arange(1.0, self.problem.n + 1.0))
        moved = replace(self, values=[value + aside for value in self.values])
        vars(moved)["sizes"] = self.sizes
        t, noise = self.times[-1], sqrt(MATRIX_NOISE)
        return all(
            bool((np.abs(there - here) <= noise * np.abs(here).max()).all())
            for here, there in zip(self._halves(t), moved._halves(t), strict=True)
        )

    def kernel(self, mass: Vector) -> Vector:
        """Orthonormal basis of the kernel of a matrix, shape (n, nullity)."""
        _, sizes, rows = np.linalg.svd(mass)
        rank = int((sizes > self.rank_tolerance * max(float(sizes[0]), np.finfo(float).tiny)).sum())
        return np.asarray(rows[rank:].T)

    def turns(self, before: float, after: float) -> bool:
        """Whether the kernels of dF/du' at two times differ."""
        first, second = (self.kernel(self.matrices(t)[0]) for t in (before, after))
        if first.shape != second.shape:
            return True
        turned = max(KERNEL_TURNED, NOISE_LIMIT * self.rank_tolerance)
        return bool(np.abs(second - first @ (first.T @ second)).max(initial=0.0) > turned)

    def _halves(self, t: float) -> tuple[Vector, Vector]:
        """dF/du' and dF/du at a time, of unknowns in units of their sizes, each of shape (n, n)."""
        if t not in self._halves_at:
            with uncounted(self.problem):
                mass, stiffness = linearize(self.problem, *self.at(t), t).dense
            self._halves_at[t] = mass * self.sizes, stiffness * self.sizes
        return self._halves_at[t]


def mass_matrix(problem: ProblemDAE, u: Vector, du: Vector, t: float) -> Vector:
    """dF/du' at a point, shape (n, n); what that takes is not counted as work."""
    with uncounted(problem):
        return linearize(problem, u, du, t).dense[0]


def pencil_index(mass: Vector, stiffness: Vector) -> int | None:
    """Index of the constant pencil of two matrices by the shuffle algorithm; None where it is singular."""
    # D. Luenberger, Time-invariant descriptor systems, Automatica 14 (1978) 473.
    sizes = np.abs(mass).max(axis=1) + np.abs(stiffness).max(axis=1)
    scales, n = np.where(sizes > 0.0, sizes, 1.0)[:, None], len(mass)
    mass, stiffness = mass / scales, stiffness / scales
    for index in range(n + 1):
        rows, sizes, _ = np.linalg.svd(mass)
        rank = int((sizes > np.sqrt(KERNEL_TOLERANCE) * max(float(sizes[0]), 1e-300)).sum())
        if rank == n:
            return index
        mass, stiffness = rows.T @ mass, rows.T @ stiffness
        mass[rank:], stiffness[rank:] = stiffness[rank:], 0.0
    return None


class LinearStep(NamedTuple):
    """A step of a method on linear equations, as a general linear method."""

    # M_i E_i + h J_i Y_i = 0 with Y_i = sum_m u_im x_m + sum_j a_ij E_j, M = dF/du' and J = dF/du at the
    # stages: E_i is h times the derivative there, and x are the r vectors that a step hands to the next, the
    # error of u first, which become sum_l v_ml x_l + sum_j b_mj E_j: J. C. Butcher, Numerical Methods for
    # Ordinary Differential Equations, 3rd ed., Wiley (2016), sec. 5.

    A: Vector  # Shape (s, s). Coefficients of the derivatives in the values at the stages.
    U: Vector  # Shape (s, r). Coefficients of what the step before left.
    B: Vector  # Shape (r, s). Coefficients of the derivatives in what the step leaves.
    V: Vector  # Shape (r, r). Coefficients of what the step before left, in what the step leaves.
    c: Vector  # Shape (s,). Times of the stages, in steps from the start of the step.

    @classmethod
    def of_runge_kutta(cls, A: Vector, b: Vector, c: Vector) -> LinearStep:
        """A Runge-Kutta step; an explicit first stage has the last derivative of the step before."""
        s = len(c)
        if A[0].any():
            return cls(A, np.ones((s, 1)), b[None], np.ones((1, 1)), c)
        U = np.column_stack([np.ones(s - 1), A[1:, 0]])
        B, V = np.vstack([b[1:], np.eye(s - 1)[-1]]), np.array([[1.0, b[0]], [0.0, 0.0]])
        return cls(A[1:, 1:], U, B, V, c[1:])

    @classmethod
    def of_multistep(cls, alpha: Vector, beta: Vector) -> LinearStep:
        """A step of a linear multistep method that uses no derivatives of the past."""
        past, leading = -alpha[None, 1:] / alpha[0], np.array([[beta[0] / alpha[0]]])
        k = past.size
        B = np.zeros((k, 1))
        B[0] = leading
        return cls(leading, past, B, np.vstack([past, np.eye(k)[:-1]]), np.ones(1))

    @property
    def at_infinity(self) -> float:
        """Factor by which a step multiplies errors of algebraic unknowns of index 1, |R(infinity)|."""
        return spectral_radius(self.V - self.B @ np.linalg.solve(self.A, self.U))

    @property
    def steps_before(self) -> int:
        """How many steps are taken before growth is averaged."""
        before = STEPS_BEFORE_UNDAMPED if self.at_infinity > UNDAMPED else STEPS_BEFORE
        # Parasitic solutions of a method of several steps fade the slower the more there are.
        return (before + 1) * len(self.V)


def spectral_radius(matrix: Vector) -> float:
    """The largest absolute value of the eigenvalues of a matrix."""
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def step_map(piece: Piece, step: LinearStep, t: float, h: float) -> Vector:
    """Matrix from what the step before left to what a step leaves, shape (r n, r n)."""
    n, (s, r) = piece.problem.n, step.U.shape
    mass, stiffness = zip(*(piece.matrices(t + h * float(c)) for c in step.c), strict=True)
    scaled = h * np.array(stiffness)
    matrix = np.einsum("ij,ikl->ikjl", step.A, scaled)
    for i in range(s):
        matrix[i, :, i] += mass[i]
    known = -np.einsum("im,ikl->ikml", step.U, scaled).reshape(s * n, r * n)
    slopes = np.linalg.solve(matrix.reshape(s * n, s * n), known)
    return np.kron(step.B, np.eye(n)) @ slopes + np.kron(step.V, np.eye(n))


def amplification(piece: Piece, step: LinearStep, t: float, h: float) -> float:
    """Logarithm of the factor by which a step multiplies errors, the mean over the last of some steps."""
    # L. Dieci, R. Russell, E. Van Vleck, On the computation of Lyapunov exponents for continuous dynamical
    # systems, SIAM J. Numer. Anal. 34 (1997) 402.
    # The steps follow one another: the largest errors lie in the kernel of dF/du', which is another one in
    # the next step, so that eigenvalues of the map of one step alone may be 0 where errors grow.
    size, before, logarithms = len(step.V) * piece.problem.n, step.steps_before, []
    columns = np.arange(1.0, min(size, ERROR_DIRECTIONS) + 1.0)
    basis = np.cos(np.outer(np.arange(1.0, size + 1.0), SPREAD * columns))
    try:
        for k in range(before + AVERAGED_STEPS):
            basis, factors = np.linalg.qr(step_map(piece, step, t + k * h, h) @ basis)
            logarithms.append(np.log(np.maximum(np.abs(np.diagonal(factors)), np.finfo(float).tiny)))
    except np.linalg.LinAlgError:
        return inf
    rates = np.array(logarithms[before:])
    # The first of two directions of a complex pair grows now more, now less than both together.
    steady = np.ptp(rates, axis=0) < STEADY
    return float(rates.mean(axis=0).max(where=steady, initial=rates[:, :2].mean()))


def growth_of_method(piece: Piece, step: LinearStep, t: float, h: float, index: int) -> float:
    """Logarithm of the factor by which a step multiplies errors, where that is not growth of the solution."""
    # Growth of the solution itself in a shorter step is smaller in proportion; growth by the method is not.
    rate, before = amplification(piece, step, t, h), step.steps_before
    if step.at_infinity > UNDAMPED:
        # As (k - 1)-fold eigenvalues of size 1 let errors grow with the number of steps.
        rate -= (index - 1) * log(1.0 + AVERAGED_STEPS / before) / AVERAGED_STEPS
    if rate <= LEAST_GROWTH:
        return min(rate, 0.0)
    short, end = SHORTER * h, t + (before + AVERAGED_STEPS) * h
    within = amplification(piece, step, end - (before + AVERAGED_STEPS) * short, short)
    return 0.0 if 1.0 / LIKENESS < within / (SHORTER * rate) < LIKENESS else rate


def kernel_turns(problem: ProblemDAE, u0: MeshDAE, t0: float) -> bool:
    """Whether the kernel of dF/du' at a state differs from that at a neighbouring state and time."""
    n = problem.n
    if n > MOST_AMPLIFIED:
        return False
    span = max(BESIDE_STATE * abs(problem.interval[1] - problem.interval[0]), np.finfo(float).tiny)
    values = u0.view(np.ndarray)
    piece = Piece(problem, (t0, t0 + span), [values, values.copy()], ())
    aside = BESIDE_STATE * piece.sizes * np.cos(np.arange(1.0, n + 1.0))
    piece.values[1][:] += aside
    piece.slopes = [aside / span, aside / span]
    try:
        return piece.turns(t0, t0 + span)
    except EvaluationError:
        return False
