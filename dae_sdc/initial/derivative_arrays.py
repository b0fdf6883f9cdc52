"""Equations that are functions, reduced to index 1 by their derivative arrays in numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.projection import dense
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import DAEError, EvaluationError, InputError, NotReducibleError
from dae_sdc.initial.neighbourhood import Neighbourhood
from dae_sdc.jets.differences import Stencil, along, derivative_array
from dae_sdc.sharing import Recent

# PAIRS, STEP: points of central differences on either side, and their distance in units of a time over
# which the coefficients change little.
PAIRS = 6
STEP = 0.1
# Error of these for the first derivative, relative to the terms; for each further one it is 1 / STEP
# times as large.
DIFFERENCE_ERROR = 1e-14
DEPENDENT = 1e3  # Singular value, in units of that error times the largest one, that counts as 0.
# Singular value that counts as 0 of arrays of equations that are not linear, relative to the largest.
DEPENDENT_BY_JACOBIANS = 1e-7
# MOST_SLOPE_CORRECTIONS, SETTLED: largest number of corrections of derivatives of the solution, and the
# relative one that is none.
MOST_SLOPE_CORRECTIONS = 20
SETTLED = 1e-11
HIGHEST_INDEX = 6  # Highest index.
# Longest time, as a part of the interval, over which the coefficients may change little.
LONGEST_PART = 0.25
TRIAL_PART = 0.05  # Part of such a time over which their curvature is looked at.
MOST_TRIALS = 30  # How often that is repeated with a shorter time.
CLEAR_GAP = 100.0  # Ratio of the singular values beside a rank that is certain.
# Smallest singular value of the chosen equations, relative to the largest, below which others are.
WEAKEST_CHOICE = 0.3
# SHORTER_STEP, MOST_LENGTHS: factor of the distance of the points where differences with fewer points say
# something else, and the number of distances that are tried.
SHORTER_STEP = 0.25
MOST_LENGTHS = 8
# Part of the tolerance by which differences with fewer points may change the constraints.
DISAGREEMENT = 0.1
# Change of an equation, relative to its terms and in units of round-off, that shows it is not linear.
NONLINEAR_CHANGE = 1e4
KEPT_TIMES = 64  # Times at which the reduced equations are kept.


class _Linear(NamedTuple):
    """E u' + A u = f at a time, or Taylor coefficients of its coefficients."""

    mass: Vector
    stiffness: Vector
    right: Vector


class _Array(NamedTuple):
    """What a derivative array says: combinations that are free of derivatives, and their constraints.

    ``combinations`` times the array is 0; times the derivatives by u it has the orthonormal rows ``rows``.
    """

    combinations: Vector
    rows: Vector
    weakest: float


class _Constrained(NamedTuple):
    """Equations at a time, all constraints C u = c with orthonormal rows of C, and the errors of c and C.

    ``slopes`` are the derivatives of u along a curve in sizes of unknowns and time, shape (nu, n).
    """

    equations: _Linear
    rows: Vector
    right: Vector
    errors: tuple[float, float]
    slopes: Vector | None = None


class ArrayProblem(ProblemDAE):
    r"""Equations F(t, u, u') = 0 with their hidden constraints, as equations of index 1.

    The equations and their derivatives up to order :math:`\nu - 1` are linearised in u and :math:`z = (u',
    \dots, u^{(\nu)})`: M z + N u = g. What multiplies M to 0 from the left gives all constraints C u = c.
    With rows of the equations, combined by a constant matrix Z, that determine the rest of u', the problem is

    .. math::
        Z^T F(t, u, u') = 0, \qquad (C W^T)^{-1} (C u - c) = 0

    The constant matrix W makes it independent of the basis of the constraints. W and Z are chosen again when
    a step begins and they have become weak. Derivatives along t are central differences, for which F is
    called a little beyond the ends of the interval too; where those with fewer points say something else,
    their distance is made shorter. All is computed in sizes of the unknowns, the equations and time.

    References
    ----------
    P. Kunkel, V. Mehrmann, Differential-Algebraic Equations, EMS (2006), chapters 3 and 4.
    """

    _refused: ClassVar[type[DAEError]] = NotReducibleError  # raised where there are no derivatives

    def __init__(self, near: Neighbourhood, index: int, rtol: float) -> None:
        problem = near.problem
        super().__init__(problem.n, 0, problem.newton_tol, problem.newton_maxiter, problem.linear_solver)
        if index > HIGHEST_INDEX:
            raise InputError(f"differences give {HIGHEST_INDEX - 1} derivatives; index {index} needs more")
        self.original, self.index, self.index_before, self._order = problem, 1, index, index - 1
        self.names, self.units = problem.names, problem.units
        self.interval, self.dt = problem.interval, problem.dt
        if problem.given_nominal is not None:
            self.nominal = problem.given_nominal
        self._near, self._rows, self._rank = near, np.ones(self.n), -1
        self._known: Recent[Any, _Constrained] = Recent(KEPT_TIMES)
        # Singular value, relative to the largest, that counts as 0.
        self._dependent = DEPENDENT * (DIFFERENCE_ERROR * STEP ** (1 - self._order))
        self._allowed = DISAGREEMENT * rtol
        central, before, after = (Stencil(first, self._order, PAIRS) for first in (-PAIRS, -2 * PAIRS, 0))
        self._stencils = (central, before, after), (central, after, before)
        self._begin(near)
        found = self._at(near.t, near.u)
        self.equation_names = tuple(
            f"equation {i} of index 1" if i < self.n - len(found.rows) else f"constraint {i}"
            for i in range(self.n)
        )
        self._choose(found)

    def _begin(self, near: Neighbourhood) -> None:
        """Find sizes of the equations and the time over which coefficients change little."""
        self._probe = near.point(1)[0] / near.sizes, near.point(0)[1] * near.time / near.sizes
        self._last: _Linear | None = None
        self._array_of: tuple[Vector, float, _Array] | None = None
        start = self._coefficients(near.t)
        self._rows = _sizes_of_rows(start.mass, start.stiffness)
        self._last = None
        self._step = STEP * self._time(near.t)

    def _value(self, u: Vector, du: Vector, t: float) -> Vector:
        """F at a state and a rate in their sizes, in sizes of the equations."""
        near, first = self._near, self.original.n_diff
        state, slope = attach(near.sizes * u, first), attach(near.sizes / near.time * du, first)
        values: Vector = self.original.evaluate(state, slope, t) / self._rows
        if not np.isfinite(values).all():
            raise EvaluationError(f"the equations are not defined at t={t:.6g}; end the run before it")
        return values

    def _coefficients(self, t: float) -> _Linear:
        """E, A and f, exact but for rounding as F is linear; E and A of before where they are the same."""
        nothing, units, last = np.zeros(self.n), np.eye(self.n), self._last
        base = self._value(nothing, nothing, t)
        if last is not None:
            state, slope = self._probe
            terms = np.abs(last.mass) @ np.abs(slope) + np.abs(last.stiffness) @ np.abs(state) + np.abs(base)
            change = self._value(state, slope, t) - base - last.mass @ slope - last.stiffness @ state
            if (np.abs(change) <= DIFFERENCE_ERROR * terms).all():
                return last._replace(right=-base)
        mass = np.array([self._value(nothing, unit, t) - base for unit in units]).T
        stiffness = np.array([self._value(unit, nothing, t) - base for unit in units]).T
        self.__dict__["_last"] = _Linear(mass, stiffness, -base)
        return _Linear(mass, stiffness, -base)

    def _time(self, t0: float) -> float:
        """A time over which the coefficients change little."""
        time = LONGEST_PART * float(self.interval[1] - self.interval[0])
        for _ in range(MOST_TRIALS):
            trial, least = TRIAL_PART * time, time
            before, here, after = (self._coefficients(t0 + k * trial) for k in (-1, 0, 1))
            for a, b, c in zip(before, here, after, strict=True):
                size = max(1.0, np.abs(a).max(), np.abs(b).max(), np.abs(c).max())
                bend, slope = np.abs(a - 2.0 * b + c).max() / trial**2, np.abs(c - a).max() / (2.0 * trial)
                fastest = max(bend * size, slope**2)
                if fastest > 0.0:
                    least = min(least, size / float(np.sqrt(fastest)))
            if least > 0.5 * time:
                return least
            time = least
        return time

    def _at(self, t: float, u: Vector) -> _Constrained:
        """All constraints at a time and a state, and the equations; coefficients depend on time alone."""
        key = self._key(t, u)
        if key in self._known:
            return self._known[key]
        step, bound, failure = self._step, self._allowed, None
        # What comes before the start is no part of the run, and a value at a kink is that before it.
        stencils = self._stencils[bool(t <= self._near.t)]
        for number in range(MOST_LENGTHS):
            for stencil in stencils:
                try:
                    found, doubt = self._constrained(t, u, step, stencil)
                except EvaluationError as error:
                    failure = error
                    continue
                if not number:
                    bound = max(self._allowed, sum(found.errors))
                if doubt <= bound * max(1.0, float(np.abs(found.right).max(initial=0.0))):
                    return self._known.keep(key, found)
            step, bound = step * SHORTER_STEP, self._allowed
        if failure is not None:
            raise failure
        raise self._refused(f"differences do not agree near t={t:.6g}")

    def _key(self, t: float, u: Vector) -> Any:
        return t

    def _constrained(self, t: float, u: Vector, step: float, stencil: Stencil) -> tuple[_Constrained, float]:
        """All constraints by differences with a step, and what fewer points change of them."""
        samples = [self._coefficients(t + k * step) for k in stencil.points]
        stacks = [np.array(part) for part in zip(*samples, strict=True)]
        terms, doubts = (_Linear(*map(of, stacks)) for of in (stencil.taylor, stencil.doubts))
        equations = samples[stencil.points.index(0)]
        if all(sample.mass is equations.mass for sample in samples):
            known = self._array_of
            if known is None or known[0] is not equations.mass or known[1] != step:
                for part in (*terms[:2], *doubts[:2]):
                    part[1:] = 0.0
                rounding = DEPENDENT * DIFFERENCE_ERROR
                left = self._ranked(self._block(terms.mass, terms.stiffness, step), rounding)[0]
                known = equations.mass, step, self._array(left, terms.stiffness, rounding)
                self.__dict__["_array_of"] = known
            array, doubt = known[2], np.zeros(1)
        else:
            left = self._ranked(self._block(terms.mass, terms.stiffness, step), self._dependent)[0]
            array = self._array(left, terms.stiffness, self._dependent)
            powers = np.repeat(STEP ** np.arange(1.0, self._order + 2.0), self.n)
            of_mass = array.combinations.T @ self._block(doubts.mass, doubts.stiffness, step)
            of_state = array.combinations.T @ doubts.stiffness.reshape(-1, self.n)
            doubt = np.abs(of_mass) @ powers + np.abs(of_state).sum(axis=1)
        right = array.combinations.T @ terms.right.reshape(-1)
        doubt = doubt + np.abs(array.combinations.T @ doubts.right.reshape(-1))
        error = self._error(array, stencil)
        errors = error * float(np.abs(terms.right).max()), error * float(np.abs(terms.stiffness).max())
        return _Constrained(equations, array.rows, right, errors), float(doubt.max(initial=0.0))

    @staticmethod
    def _error(array: _Array, stencil: Stencil) -> float:
        """Error of the constraints by differences, relative to the terms of the equations."""
        return DIFFERENCE_ERROR / array.weakest * float(np.abs(stencil.weights).sum(axis=1).max())

    def _block(self, mass: Vector, stiffness: Vector, step: float) -> Vector:
        """The derivative array of Taylor coefficients in units of a step, for those of u' times the step."""
        return derivative_array(mass * (self._near.time / step), stiffness)

    def _ranked(self, block: Vector, dependent: float) -> tuple[Vector, Vector, Vector]:
        """Singular vectors and values of the derivative array; raises EvaluationError for another rank."""
        left, values, right = np.linalg.svd(block)
        if self._rank < 0:
            self.__dict__["_rank"] = int((values > dependent * values[0]).sum())
        following = values[self._rank : self._rank + 1].sum()
        if not values[self._rank - 1] > CLEAR_GAP * following:
            raise EvaluationError("the rank of the derivative array is not certain")
        return left, values, right

    def _array(self, left: Vector, stiffness: Vector, dependent: float) -> _Array:
        """What the derivative array says, by its singular vectors from the left."""
        null = left[:, self._rank :]
        basis, sizes, turn = np.linalg.svd(null.T @ stiffness.reshape(-1, self.n), full_matrices=False)
        if not np.isfinite(sizes).all() or not len(sizes) or sizes[-1] <= dependent * sizes[0]:
            raise EvaluationError("the hidden constraints of the equations are not found")
        return _Array(null @ (basis / sizes), turn, float(sizes[-1]))

    def _choose(self, found: _Constrained) -> None:
        """Take the constraints and the strongest equations of a time for W and Z."""
        free = np.linalg.svd(found.rows)[2][len(found.rows) :]
        left, values, _ = np.linalg.svd(found.equations.mass @ free.T, full_matrices=False)
        if values.size and values[-1] <= self._dependent * values[0]:
            raise InputError("the equations do not determine the derivatives of what no constraint does")
        self.__dict__["_frame"] = found.rows, left

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Choose other constraints and equations where those of before have become weak."""
        found = self._at(t, np.asarray(u))
        frame, left = self._frame
        free = np.linalg.svd(found.rows)[2][len(found.rows) :]
        for matrix in (found.rows @ frame.T, left.T @ found.equations.mass @ free.T):
            values = np.linalg.svd(matrix, compute_uv=False)
            if values.size and values[-1] < WEAKEST_CHOICE * values[0]:
                self._choose(found)
                return

    def eval_f(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """The chosen equations, and all constraints."""
        near, (frame, left) = self._near, self._frame
        state, slope = np.asarray(u) / near.sizes, np.asarray(du) * near.time / near.sizes
        found = self._at(t, np.asarray(u))
        value = self._checked(found.equations, state, slope, t)
        bound = np.linalg.solve(found.rows @ frame.T, found.rows @ state - found.right)
        return np.concatenate([left.T @ value, bound])

    def _checked(self, equations: _Linear, u: Vector, du: Vector, t: float) -> Vector:
        """F at a state and a rate; raises NotReducibleError where that is not E u' + A u - f."""
        mass, stiffness, right = equations
        value = self._value(u, du, t)
        terms = np.abs(mass) @ np.abs(du) + np.abs(stiffness) @ np.abs(u) + np.abs(right)
        change = np.abs(value - (mass @ du + stiffness @ u - right))
        if (change > NONLINEAR_CHANGE * self.original.round_off * terms).any():
            raise NotReducibleError(f"the equations are not linear near t={t:.6g}; use reduce=False")
        return value

    def jacobian(self, u: MeshDAE, du: MeshDAE, t: float, c: float) -> Vector:
        """dF/du' + c dF/du."""
        near, (frame, left) = self._near, self._frame
        found = self._at(t, np.asarray(u))
        state, slope = np.asarray(u) / near.sizes, np.asarray(du) * near.time / near.sizes
        mass, stiffness = self._halves(found.equations, state, slope, t)
        motion = left.T @ (near.time * mass + c * stiffness)
        return np.vstack([motion, c * np.linalg.solve(found.rows @ frame.T, found.rows)]) / near.sizes

    def _halves(self, equations: _Linear, u: Vector, du: Vector, t: float) -> tuple[Vector, Vector]:
        return equations.mass, equations.stiffness

    def residual_errors(self, u: MeshDAE, du: MeshDAE, t: float) -> Vector:
        """What errors of differences may leave of every equation, shape (n,)."""
        found = self._at(t, np.asarray(u))
        error = found.errors[0] + found.errors[1] * float(np.abs(np.asarray(u) / self._near.sizes).max())
        return np.where(np.arange(self.n) < self.n - len(found.rows), 0.0, error)

    def u_exact(self, t: float) -> Any:
        """The solution, where the problem knows it."""
        return self.original.u_exact(t)

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times at which steps must end."""
        return tuple(self.original.breakpoints(t0, t_end))


class CurveArrayProblem(ArrayProblem):
    r"""Equations that are not linear, with their hidden constraints, as equations of index 1.

    The derivative array is taken along the polynomial through u with the derivatives z that satisfy it best,
    which Gauss-Newton's method finds for every u: with M = U S V' of constant rank and R(t, u, z) the
    equations and their derivatives, U_1' R = 0 determines z, and U_2' R = 0 are all constraints of u.
    """

    _refused: ClassVar[type[DAEError]] = EvaluationError

    def _begin(self, near: Neighbourhood) -> None:
        self._step, self._dependent = STEP * near.time, DEPENDENT_BY_JACOBIANS
        self._inner = {
            stencil: Stencil(stencil.first // 2, self._order, PAIRS // 2) for stencil in self._stencils[0]
        }
        self._slopes, self._slopes_at = np.zeros((self._order + 1, self.n)), near.t
        self._rows = _sizes_of_rows(*map(dense, near.halves(near.t, near.u, np.zeros(self.n))))
        # Ranks belong to points where F = 0, and where its derivatives are.
        for order in range(self._order + 1):
            self._find_slopes(near.t, near.u / near.sizes, self._stencils[1][0], order)

    def _find_slopes(self, t: float, u: Vector, stencil: Stencil, order: int) -> None:
        """Derivatives for which F and its derivatives up to an order vanish, as well as they can."""
        count = (order + 1) * self.n
        scale = ((self._step / self._near.time) ** np.arange(1, self._order + 2))[:, None]
        for _ in range(MOST_SLOPE_CORRECTIONS):
            z = self._slopes * scale
            mass, stiffness = self._matrices(t, u, z, self._step, self._inner[stencil])
            block = self._block(mass, stiffness, self._step)[:count, :count]
            left = self._residual(t, u, z, self._step, stencil)[0].reshape(-1)[:count]
            change = np.linalg.lstsq(block, left, rcond=self._dependent)[0]
            z.reshape(-1)[:count] -= change
            self._slopes = z / scale
            if np.abs(change).max() <= SETTLED * max(1.0, np.abs(z).max()):
                return

    def _expected(self, t: float) -> Vector:
        """Derivatives at a time by those at the begin of the step."""
        past, powers = (t - self._slopes_at) / self._near.time, np.arange(self._order + 1)
        shift = np.array([[comb(m, k) * past ** (m - k) if m >= k else 0.0 for m in powers] for k in powers])
        return np.asarray(shift @ self._slopes)

    def _along(
        self, function: Callable[..., Any], t: float, u: Vector, z: Vector, step: float, stencil: Stencil
    ) -> list[Any]:
        """What a function of u, u' and t says at the points of a stencil on the polynomial."""
        coefficients = np.vstack([u, z / np.arange(1.0, len(z) + 1.0)[:, None]])
        places, turn = np.array(stencil.points), self._near.time / step
        times = t + places * step
        return list(along(lambda u, du, at: function(u, du * turn, at), coefficients, places, times))

    def _residual(
        self, t: float, u: Vector, z: Vector, step: float, stencil: Stencil
    ) -> tuple[Vector, Vector]:
        """Taylor coefficients of F along the curve, and what fewer points change of them."""
        values = self._along(self._value, t, u, z, step, stencil)
        return stencil.taylor(values), stencil.doubts(values)

    def _matrices(
        self, t: float, u: Vector, z: Vector, step: float, stencil: Stencil
    ) -> tuple[Vector, Vector]:
        """Taylor coefficients of both parts of the Jacobian along the curve."""
        halves = zip(*self._along(self._scaled_halves, t, u, z, step, stencil), strict=True)
        mass, stiffness = map(stencil.taylor, halves)
        return mass, stiffness

    def _scaled_halves(self, u: Vector, du: Vector, t: float) -> tuple[Vector, Vector]:
        near = self._near
        mass, stiffness = near.halves(t, near.sizes * u, near.sizes / near.time * du)
        return dense(mass) / self._rows[:, None], dense(stiffness) / self._rows[:, None]

    def _constrained(self, t: float, u: Vector, step: float, stencil: Stencil) -> tuple[_Constrained, float]:
        near = self._near
        state = u / near.sizes
        scale = ((step / near.time) ** np.arange(1, self._order + 2))[:, None]
        z, before = self._expected(t) * scale, np.inf
        mass, stiffness = self._matrices(t, state, z, step, self._inner[stencil])
        left, values, right = self._ranked(self._block(mass, stiffness, step), self._dependent)
        back = (right[: self._rank].T / values[: self._rank]) @ left[:, : self._rank].T
        for _ in range(MOST_SLOPE_CORRECTIONS):
            terms, doubts = self._residual(t, state, z, step, stencil)
            change = (back @ terms.reshape(-1)).reshape(z.shape)
            z = z - change
            size = float(np.abs(change).max())
            settled = size <= SETTLED * max(1.0, float(np.abs(z).max()))
            if settled or not size < before:
                break
            before = size
        if not settled:
            raise EvaluationError(
                f"the derivatives of the solution are not found near t={t:.6g}; end the run before it"
            )
        array = self._array(left, stiffness, self._dependent)
        right_side = array.rows @ state - array.combinations.T @ terms.reshape(-1)
        doubt = np.abs(array.combinations.T @ doubts.reshape(-1)).max(initial=0.0)
        equations, errors = _Linear(mass[0], stiffness[0], np.zeros(0)), (self._error(array, stencil), 0.0)
        return _Constrained(equations, array.rows, right_side, errors, z / scale), float(doubt)

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Begin at the derivatives of the solution at a state, see :meth:`ArrayProblem.start_step`."""
        # Of what the equations leave free, all evaluations in a step must take the same.
        self.__dict__.update(_slopes=self._at(t, np.asarray(u)).slopes, _slopes_at=t)
        self._known.clear()
        super().start_step(u, t)

    def _key(self, t: float, u: Vector) -> Any:
        return t, u.tobytes()

    def _checked(self, equations: _Linear, u: Vector, du: Vector, t: float) -> Vector:
        return self._value(u, du, t)

    def _halves(self, equations: _Linear, u: Vector, du: Vector, t: float) -> tuple[Vector, Vector]:
        return self._scaled_halves(u, du, t)


def _sizes_of_rows(mass: Vector, stiffness: Vector) -> Vector:
    """Largest entry of each equation, 1 where all are 0."""
    sizes = np.maximum(np.abs(mass), np.abs(stiffness)).max(axis=1)
    return np.where(sizes > 0.0, sizes, 1.0)
