"""Linear equations that are functions, reduced to index 1 by their derivative arrays in numbers."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import power_of_two
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import EvaluationError, InputError
from dae_sdc.initial.neighbourhood import Neighbourhood


@dataclass(frozen=True)
class ArrayOptions:
    """How constraints are found from a derivative array.

    Parameters
    ----------
    pairs, step : int, float
        Points of central differences on either side, and their distance in units of a time over which the
        coefficients change little.
    error : float
        Error of these for the first derivative, relative to the terms; for each further one it is 1 / step
        times as large.
    dependent : float
        Singular value, in units of that error times the largest one, that counts as 0.
    most : int
        Highest index.
    longest_part : float
        Longest time, as a part of the interval, over which the coefficients may change little.
    trial_part : float
        Part of such a time over which their curvature is looked at.
    trials : int
        How often that is repeated with a shorter time.
    clear_gap : float
        Ratio of the singular values beside a rank that is certain.
    weakest : float
        Smallest singular value of the chosen equations, relative to the largest, below which others are.
    balancing_rounds : int
        Times that rows and columns of the equations are scaled to the norm 1.
    kept_times : int
        Times at which the reduced equations are kept.
    """

    pairs: int = 6
    step: float = 0.1
    error: float = 1e-14
    dependent: float = 1e3
    most: int = 6
    longest_part: float = 0.25
    trial_part: float = 0.05
    trials: int = 30
    clear_gap: float = 100.0
    weakest: float = 0.3
    balancing_rounds: int = 20
    kept_times: int = 64


ARRAYS = ArrayOptions()


class _Linear(NamedTuple):
    """E u' + A u = f at a time, or a derivative of its coefficients."""

    mass: Vector
    stiffness: Vector
    right: Vector


class _Constrained(NamedTuple):
    """Equations at a time, all constraints C u = c with orthonormal rows of C, and the errors of c and C."""

    equations: _Linear
    rows: Vector
    right: Vector
    errors: tuple[float, float]


class ArrayProblem(ProblemDAE):
    r"""Linear equations E(t) u' + A(t) u = f(t) with their hidden constraints, as equations of index 1.

    The equations and their derivatives up to order :math:`\nu - 1` are linear in u and :math:`z = (u', \dots,
    u^{(\nu)})`: M z + N u = g. What multiplies M to 0 from the left gives all constraints C u = c. With rows
    of the equations, combined by a constant matrix Z, that determine the rest of u', the problem is

    .. math::
        Z^T (E u' + A u - f) = 0, \qquad (C W^T)^{-1} (C u - c) = 0

    The constant matrix W makes it independent of the basis of the constraints. W and Z are chosen again when
    a step begins and they have become weak. Derivatives of E, A and f are central differences, for which F is
    called a little beyond the ends of the interval too.

    Parameters
    ----------
    problem : ProblemDAE
        The equations, linear in u and u'.
    index : int
        Their differentiation index, at least 2.
    t0 : float
        A time of the run.
    u0 : ndarray, shape (n,)
        A state, which need not be consistent: the sizes of unknowns and time, in which all matrices are, are
        found near it.

    Raises
    ------
    InputError
        If the index is higher than differences give derivatives, or ranks do not fit to it.

    References
    ----------
    P. Kunkel, V. Mehrmann, Differential-Algebraic Equations, EMS (2006), chapter 3.
    """

    def __init__(self, problem: ProblemDAE, index: int, t0: float, u0: Vector) -> None:
        super().__init__(problem.n, 0, problem.newton_tol, problem.newton_maxiter, problem.linear_solver)
        if index > ARRAYS.most:
            raise InputError(f"differences give {ARRAYS.most - 1} derivatives; index {index} needs more")
        self.original, self.index, self._order = problem, 1, index - 1
        self.names, self.units, self.interval, self.dt = (
            problem.names,
            problem.units,
            problem.interval,
            problem.dt,
        )
        self._rank: int | None = None
        self._known: OrderedDict[float, _Constrained] = OrderedDict()
        near = Neighbourhood(problem, t0, u0)
        self._sizes, self._rows = power_of_two(near.sizes), np.ones(self.n)
        self._unit = float(power_of_two(np.array(near.time)))
        first = self._coefficients(t0)
        squares, columns = np.square(first.mass) + np.square(first.stiffness), np.ones(self.n)
        rows = columns
        # A start value may be small by chance, and then its column is: rows and columns get the norm 1.
        for _ in range(ARRAYS.balancing_rounds):
            rows = _nonzero(squares @ columns)
            columns = 1.0 / _nonzero((1.0 / rows) @ squares)
        self._rows = power_of_two(np.sqrt(rows))
        self._sizes = self._sizes * power_of_two(np.sqrt(columns))
        self._accuracy = ARRAYS.error * ARRAYS.step ** (1 - self._order)
        self._step = ARRAYS.step * self._time(t0)
        found = self._at(t0)
        self.equation_names = tuple(
            f"equation {i} of index 1" if i < self.n - len(found.rows) else f"constraint {i}"
            for i in range(self.n)
        )
        self._choose(found)

    def _coefficients(self, t: float) -> _Linear:
        """E, A and f in sizes of unknowns, equations and time, exact but for rounding as F is linear."""
        n, problem = self.n, self.original

        def value(u: Vector, du: Vector) -> Vector:
            values = np.array(problem.evaluate(attach(u, problem.n_diff), attach(du, problem.n_diff), t))
            if not np.isfinite(values).all():
                raise EvaluationError(f"the equations are not defined at t={t:.6g}; end the run before it")
            return values / self._rows

        nothing, units = np.zeros(n), np.diag(self._sizes)
        base = value(nothing, nothing)
        mass = np.array([value(nothing, unit / self._unit) - base for unit in units]).T
        stiffness = np.array([value(unit, nothing) - base for unit in units]).T
        return _Linear(mass, stiffness, -base)

    def _time(self, t0: float) -> float:
        """A time over which the coefficients change little."""
        time = ARRAYS.longest_part * float(self.interval[1] - self.interval[0])
        for _ in range(ARRAYS.trials):
            trial, least = ARRAYS.trial_part * time, time
            before, here, after = (self._coefficients(t0 + k * trial) for k in (-1, 0, 1))
            for a, b, c in zip(before, here, after, strict=True):
                size = max(np.abs(a).max(), np.abs(b).max(), np.abs(c).max())
                bend, slope = np.abs(a - 2.0 * b + c).max() / trial**2, np.abs(c - a).max() / (2.0 * trial)
                fastest = max(bend * size, slope**2)
                if fastest > 0.0:
                    least = min(least, size / float(np.sqrt(fastest)))
            if least > 0.5 * time:
                return least
            time = least
        return time

    def _at(self, t: float) -> _Constrained:
        """All constraints at a time, and the equations."""
        known = self._known.get(t)
        if known is not None:
            return known
        n, most = self.n, self._order
        points = np.arange(-ARRAYS.pairs, ARRAYS.pairs + 1)
        samples = [self._coefficients(t + k * self._step) for k in points.tolist()]
        taylor = np.linalg.inv(np.polynomial.polynomial.polyvander(points, len(points) - 1))[: most + 1]
        terms = _Linear(*(np.tensordot(taylor, np.array(part), 1) for part in zip(*samples, strict=True)))
        # Taylor coefficients in units of the step: row k is that of F, column l that of u' in powers of s.
        array = np.zeros((most + 1, n, most + 1, n))
        for k in range(most + 1):
            for power in range(k + 1):
                array[k, :, power] = terms.mass[k - power] * (self._unit / self._step)
                if power < k:
                    array[k, :, power] += terms.stiffness[k - power - 1] / (power + 1)
        size = (most + 1) * n
        left, values, _ = np.linalg.svd(array.reshape(size, size))
        if self._rank is None:
            self._rank = int((values > ARRAYS.dependent * self._accuracy * values[0]).sum())
        following = values[self._rank : self._rank + 1].sum()
        if not values[self._rank - 1] > ARRAYS.clear_gap * following:
            raise EvaluationError(f"the rank of the derivative array is not certain at t={t:.6g}")
        null = left[:, self._rank :]
        rows = null.T @ terms.stiffness.reshape(size, n)
        right = null.T @ terms.right.reshape(size)
        basis, sizes, turn = np.linalg.svd(rows, full_matrices=False)
        if (
            not np.isfinite(sizes).all()
            or not len(sizes)
            or sizes[-1] <= ARRAYS.dependent * self._accuracy * sizes[0]
        ):
            raise EvaluationError(f"the hidden constraints of the equations are not found at t={t:.6g}")
        error = ARRAYS.error / float(sizes[-1]) * float(np.abs(taylor).sum(axis=1).max())
        largest = float(np.abs(terms.right).max()), float(np.abs(terms.stiffness).max())
        errors = error * largest[0], error * largest[1]
        found = _Constrained(samples[ARRAYS.pairs], turn, (basis.T @ right) / sizes, errors)
        self._known[t] = found
        if len(self._known) > ARRAYS.kept_times:
            self._known.popitem(last=False)
        return found

    def _choose(self, found: _Constrained) -> None:
        """Take the constraints and the strongest equations of a time for W and Z."""
        free = np.linalg.svd(found.rows)[2][len(found.rows) :]
        left, values, _ = np.linalg.svd(found.equations.mass @ free.T, full_matrices=False)
        if values.size and values[-1] <= ARRAYS.dependent * self._accuracy * values[0]:
            raise InputError("the equations do not determine the derivatives of what no constraint does")
        self.__dict__["_frame"] = found.rows, left

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Choose other constraints and equations where those of before have become weak."""
        found = self._at(t)
        frame, left = self._frame
        free = np.linalg.svd(found.rows)[2][len(found.rows) :]
        for matrix in (found.rows @ frame.T, left.T @ found.equations.mass @ free.T):
            values = np.linalg.svd(matrix, compute_uv=False)
            if values.size and values[-1] < ARRAYS.weakest * values[0]:
                self._choose(found)
                return

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The chosen equations, and all constraints."""
        found = self._at(t)
        frame, left = self._frame
        mass, stiffness, right = found.equations
        state, slope = np.asarray(u) / self._sizes, np.asarray(du) * (self._unit / self._sizes)
        motion = left.T @ (mass @ slope + stiffness @ state - right)
        bound = np.linalg.solve(found.rows @ frame.T, found.rows @ state - found.right)
        return np.concatenate([motion, bound])

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        """dF/du' + c dF/du."""
        found = self._at(t)
        frame, left = self._frame
        motion = left.T @ (self._unit * found.equations.mass + c * found.equations.stiffness)
        bound = np.linalg.solve(found.rows @ frame.T, found.rows)
        matrix: Vector = np.vstack([motion, c * bound]) / self._sizes
        return matrix

    def residual_errors(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """What errors of differences may leave of every equation, shape (n,)."""
        found = self._at(t)
        error = found.errors[0] + found.errors[1] * float(np.abs(np.asarray(u) / self._sizes).max())
        return np.where(np.arange(self.n) < self.n - len(found.rows), 0.0, error)

    def u_exact(self, t: float) -> Any:
        """The solution, where the problem knows it."""
        return self.original.u_exact(t)

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times at which steps must end."""
        return tuple(self.original.breakpoints(t0, t_end))


def _nonzero(sums: Vector) -> Vector:
    """Sums with 1 in place of 0."""
    return np.where(sums > 0.0, sums, 1.0)
