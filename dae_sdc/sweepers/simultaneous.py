"""The stages of a step by simplified Newton iterations: at once in the eigenbasis of A, or in turn.

The functions of the algorithm are Python in the part that numba compiles. They are made of operations, which
:class:`StageOperations` implements with NumPy and SciPy for any problem, and
:mod:`dae_sdc.sweepers._simultaneous` on arrays alone for problems with kernels.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dgetrf, dgetrs, zgetrf, zgetrs

from dae_sdc.dae.jacobian import improve_differences, linearize, may_improve_differences
from dae_sdc.dae.linear import sparse_factors
from dae_sdc.dae.memory import Counts, fields
from dae_sdc.dae.newton import ROUND_OFF_CORRECTION, ModifiedNewton, NodeSystem
from dae_sdc.dae.newton_checks import above_noise, is_small
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach, interpolation_matrix, lagrange_weights, reaches
from dae_sdc.errors import EvaluationError, InputError, SingularMatrixError, SolveError
from dae_sdc.sweepers.step_error import multipliers, only_rounding, operators_at, rounding_noise
from dae_sdc.sweepers.teams import CALL, FACTORIZE, FILTER, SOLVE, Team
from dae_sdc.sweepers.tolerance import Weights

# Results of the Newton iterations of a step.
SOLVED, DIVERGED, SLOW, UNDEFINED, SINGULAR, UNRESOLVED = 0, 1, 2, 3, 4, 5
# Messages for these results, in their order.
REASONS = (
    "",
    "the Newton iterations diverged",
    "the Newton iterations converged too slowly",
    "F is not defined (NaN or infinite) there",
    "the iteration matrix is singular",
    "the corrections are small but what is left of the equations is not",
)


class StepNumbers(ctypes.Structure):
    """Numbers that a step passes on to the next, for Python and for compiled code."""

    _fields_ = fields(
        ctypes.c_double,
        "linearized factored eta rate error iterations kappa worst at gamma relative end_error"
        " judged at_end allowed_at_end defect allowed_defect"
        " costly"  # 1 where a factorisation takes the time of many iterations, else 0
        " doubtful"  # 1 where compiled code could not tell whether unknowns change by rounding alone
        " plain",  # 1 where stages are solved to the tolerance of Newton's method, and nobody judges them
    )


class RunNumbers(ctypes.Structure):
    """Numbers of steps that are taken one after the other, see :mod:`dae_sdc.sweepers.steps_ahead`."""

    _fields_ = fields(
        ctypes.c_double,
        "time dt shortest slack between status repeated rejected solved crawled hesitant longest noisy late"
        " first forgets failures failed in_a_row most_in_a_row order told",
    )


# Largest number of Newton iterations; a step whose contraction predicts more is given up earlier.
MOST_NEWTON_ITERATIONS = 10
# Likewise where a factorisation is costly: many iterations take the time of one.
MOST_ITERATIONS_OF_COSTLY = 20
# Part of the error allowed to Newton's method that is used there: the factors of an earlier step contract
# less, which leaves more of it, and another iteration takes little time.
SHARE_OF_COSTLY = 0.1
# Correction, relative to the unknowns, below which an iteration that stagnates has reached round-off.
RELATIVE_ROUND_OFF = 1e-13
# The Jacobian is kept for the next step if the Newton iterations contract at least by this factor.
KEPT_JACOBIAN_CONTRACTION = 1e-3
# Contraction up to which Jacobian and factors are kept for a step of the same size where factorisations are
# costly, THET of RADAU5; a new Jacobian is cheap beside the factors that a step of another size needs.
KEPT_FACTORS_CONTRACTION = 0.3
# A Jacobian at a guess is refused if one of its rows has grown by this factor since the last evaluation.
UNBELIEVED_ROW_GROWTH = 1e3
# Smallest contraction carried over from the last step: a linear problem may have a kink in the next one.
LEAST_FORETOLD_CONTRACTION = 1e-4
# Largest distance in units of a step over which F is not evaluated where a pulse is looked for.
WIDEST_GAP = 0.12
# Relative error of a change of an unknown at the last stage, as the kept Jacobian computes it from F, from
# which on the last stage is checked with a Jacobian of its own.
DOUBTED_DEVIATION = 0.1
# The deviation from which on the last stage is checked where a Jacobian takes little time.
CHEAPLY_DOUBTED_DEVIATION = 0.02
# Largest error at the end of a step in unknowns that relax fast, in units of rtol and their value there,
# where that is more than the tolerance.
ERROR_NEAR_SIZE = 20.0
# Largest correction of the last stage by a Jacobian of its own, in units of the error allowed to Newton's
# method: that is at most a hundredth of the tolerance of the user.
END_SHARE = 200.0
GROWN_STEP = 1.01  # Ratio of two steps above which the second is longer, and not by rounding alone.
# Error between the nodes of a step, by F there, in units of its tolerance, with which the step is taken, by
# index; from 2 on short steps let errors go. That of a smooth solution is a seventh of the estimate.
LARGEST_DEFECT = 1.0, 1.0, 100.0
# Part of the time in which the solution changes from which on the end of a step holds unknowns of index 2 in
# full: rounding goes with the inverse of the step.
HELD_PART = 4.0
# Estimate of a step that was not as long as its tolerance allows: F is checked between its nodes, as it is in
# steps that grow, are repeated or have fewer nodes.
SMALL_STEP_ERROR = 1e-3


class Basis(NamedTuple):
    """The eigenbasis of a collocation matrix A."""

    # The real eigenvalue; for an even number of nodes, which has none, the coefficient of an additional
    # real matrix for the error estimate.
    real: float
    pairs: Any  # Shape (P,). One eigenvalue of each complex pair.
    # to, back: shape (M, M). Transformations into the eigenbasis and back; each complex pair takes two
    # rows, its real and its imaginary part.
    to: Vector
    back: Vector


def eigenbasis(A: Vector) -> Basis:
    """The eigenbasis of a matrix of shape (M, M) with at most one real eigenvalue."""
    values, vectors = np.linalg.eig(A)
    inverse = np.linalg.inv(vectors)
    is_real = np.abs(values.imag) < 1e-10 * np.abs(values)
    if is_real.sum() > 1:
        raise InputError("the stages of this method do not form a basis of one real and some complex pairs")
    to, back, pairs = [], [], []
    for i in np.flatnonzero(is_real):
        to.append(inverse[i].real)
        back.append(vectors[:, i].real)
    for i in np.flatnonzero(~is_real & (values.imag > 0.0)):
        pairs.append(values[i])
        to += [inverse[i].real, inverse[i].imag]
        back += [2.0 * vectors[:, i].real, -2.0 * vectors[:, i].imag]
    real = float(values[is_real][0].real) if is_real.any() else float(np.abs(values).min())
    return Basis(real, np.array(pairs), np.array(to), np.ascontiguousarray(np.array(back).T))


class Coefficients(NamedTuple):
    """Quantities that depend on the coefficients of a method alone."""

    eigen: Basis  # The eigenbasis of A.
    inverse: Vector  # Shape (M, M). The inverse of A.
    # at_start, middle: shape (M,). Weights of the stage derivatives in u' of the polynomial at the start
    # and in the middle of the step.
    at_start: Vector
    middle: Vector
    # Shape (M,). Likewise in the part of p'(t_0 + h) that vanishes with one node less, at the start.
    at_end: Vector
    # Shape (M,). Weights of the stage derivatives in (u(t_0 + h/2) - u(t_0)) / h of the polynomial.
    to_middle: Vector
    # Shape (P,). Places between the start and the nodes, with which none is farther from the next than
    # :data:`WIDEST_GAP`.
    places: Vector
    # values, slopes: shape (P, M + 1). Weights of the start and the stages in u, and of the stages in u',
    # of the polynomials there.
    values: Vector
    slopes: Vector


@functools.lru_cache(maxsize=32)
def _coefficients(numbers: bytes, nodes: tuple[float, ...]) -> Coefficients:
    A: Vector = np.frombuffer(numbers).reshape(len(nodes), len(nodes))
    halves, weights = np.polynomial.legendre.leggauss(len(nodes))
    points = tuple((0.25 + 0.25 * halves).tolist())
    known = (0.0, *sorted(nodes))
    gaps = [np.linspace(a, b, int(np.ceil((b - a) / WIDEST_GAP)) + 1)[1:-1] for a, b in pairwise(known)]
    places = np.concatenate(gaps)
    between = tuple(places.tolist())
    return Coefficients(
        eigenbasis(A),
        np.asarray(np.linalg.inv(A), dtype=np.float64),
        np.ascontiguousarray(interpolation_matrix(nodes, (0.0,))[0]),
        np.ascontiguousarray(interpolation_matrix(nodes, (0.5,))[0]),
        np.prod(1.0 - np.array(nodes[:-1])) / len(nodes) * lagrange_weights(np.array(nodes)),
        0.25 * weights @ interpolation_matrix(nodes, points),
        places,
        np.ascontiguousarray(interpolation_matrix((0.0, *nodes), between)),
        np.ascontiguousarray(interpolation_matrix(nodes, between)),
    )


# --- the algorithm: made of operations w, which are methods of StageOperations ------------------------------


def iterate(w: Any, t0: Any, h: Any) -> Any:
    """Simplified Newton iterations from the guess; returns one of :data:`SOLVED` to :data:`UNRESOLVED`."""
    # Small corrections prove nothing where the Jacobian is wrong: the residual has to be small too.
    status = corrections(w, t0, h)
    if status == SOLVED and not w.residual_is_small(t0, h):
        w.numbers.eta = 1.0
        return UNRESOLVED
    if status == SOLVED:
        w.numbers.end_error = w.end_error(t0, h)
    return status


def corrections(w: Any, t0: Any, h: Any) -> Any:
    """Newton corrections until the estimated remaining error is small; returns what :func:`iterate` does."""
    x = w.numbers
    w.take_guess()
    kappa, eta, before, rate = x.kappa, max(x.eta, LEAST_FORETOLD_CONTRACTION) ** 0.8, 0.0, 0.0
    status, first, most, norm = SLOW, 0.0, MOST_NEWTON_ITERATIONS, 0.0
    suffices = False  # whether the error is as small as it has to be, where it is to become smaller
    if x.costly > 0.0:
        kappa, most = SHARE_OF_COSTLY * kappa, MOST_ITERATIONS_OF_COSTLY
    for k in range(most):
        x.iterations = k + 1
        if not w.residuals(t0, h):
            return UNDEFINED
        norm = w.correct()
        if not norm < np.inf:
            return UNDEFINED
        if k > 0:
            now = norm / before
            if k == 1:
                first = now
            rate = now if k == 1 else np.sqrt(now * rate)
            x.rate = rate
            if rate >= 0.99:
                status = DIVERGED
                break
            eta = rate / (1.0 - rate)
        if eta * norm <= kappa:
            # Unknowns that depend on others converge an iteration later, where the contraction shows as 0.
            x.eta = max(eta, first / (1.0 - first))
            return SOLVED
        suffices = suffices or eta * norm <= x.kappa
        if k > 0 and eta * norm * rate ** (most - 1 - k) > kappa:
            break
        before = norm
    rounds = (suffices and norm <= x.kappa) or w.at_round_off()
    if rounds or (x.plain > 0.0 and norm < ROUND_OFF_CORRECTION and w.residual_is_rounding(t0, h)):
        x.eta = 1.0
        return SOLVED
    return status


def linearize_near(w: Any, t0: Any, h: Any) -> Any:
    """Evaluate the Jacobian in the middle of the step or, if that has grown too much, at its start."""
    # An extrapolation that grows exponentially has a Jacobian so large that residuals at the other stages
    # seem negligible. The start of the step is then nearer to the solution.
    x = w.numbers
    known = x.linearized > 0.0
    if known:
        w.keep_row_sizes(h * x.gamma / x.linearized)
    if not w.linearize_step(t0, h):
        return False
    if known and w.row_growth() > UNBELIEVED_ROW_GROWTH:
        return w.linearize_start(t0, h)
    return True


def advance(w: Any, t0: Any, h: Any) -> Any:
    """Solve all stages of a step, together or in turn; see :func:`iterate`."""
    x, largest = w.numbers, 0.0
    while True:
        status = solve_together(w, t0, h)
        largest = max(largest, x.rate)
        if status != SOLVED or not w.next_stage(h):
            break
    x.rate = largest
    if (status == DIVERGED or status == SLOW or status == UNRESOLVED) and w.changes_by_rounding(t0, h):
        x.eta, x.rate = 1.0, 0.0
        return SOLVED
    return status


def solve_together(w: Any, t0: Any, h: Any) -> Any:
    """Solve stages that are one system, with the last Jacobian where that converges; see :func:`iterate`."""
    x = w.numbers
    if x.costly > 0.0:
        keeps = x.factored == h and x.rate <= KEPT_FACTORS_CONTRACTION
    else:
        keeps = x.at == t0 or x.rate <= KEPT_JACOBIAN_CONTRACTION
    if x.linearized > 0.0 and keeps:
        if x.factored == h or w.factorize(h):
            x.rate = 0.0
            if iterate(w, t0, h) == SOLVED:
                return SOLVED
    x.at, x.eta, x.rate = t0, 1.0, 0.0
    if not linearize_near(w, t0, h):
        x.linearized = 0.0
        return UNDEFINED
    x.linearized = h * x.gamma
    if not w.factorize(h):
        return SINGULAR
    status = iterate(w, t0, h)
    if status == SLOW or status == UNRESOLVED:
        # The last iterate is nearer to the solution than the guess was.
        w.copy(w.guess, w.du, w.m)
        if linearize_near(w, t0, h) and w.factorize(h):
            x.eta = 1.0
            status = iterate(w, t0, h)
    return status


def estimate(w: Any, t0: Any, h: Any, first: Any) -> Any:
    r"""The weighted norm of an error estimate of the step.

    .. math::
        e = (M + h \gamma J)^{-1} M h \gamma (u'(t_0) - p'(t_0))

    with the collocation polynomial p, M = dF/du' and J = dF/du. In a ``first`` step u'(t_0) is not known, and
    -h gamma F(t_0, u_0, p'(t_0)) takes the place of M h gamma (u'(t_0) - p'(t_0)): no dF/du' of another point
    stands in it, which would mix constraints with other rows where the equations do so by a matrix that
    depends on u. At index 3 (``first`` is 2), where constraints are not judged, F(t_0, u_0, u'(t_0)) is added
    to the usual estimate. A pair has the difference of its two solutions in place of h gamma (u' - p').
    """
    if w.in_turn:
        w.difference(h)
        return w.filtered()
    w.rate_defect(0.0 if first == 1 else h, False)
    if first and not w.add_start_residual(t0, -h * w.numbers.gamma, first == 1):
        return np.inf
    return w.filtered()


def error_at_end(w: Any, h: Any) -> Any:
    """Largest weighted error at the end of a step in unknowns of index 1 that relax within a part of it.

    They have that of u' there: M times its jump at the start where the solution is smooth, see
    :meth:`~dae_sdc.sweepers.tolerance.Weights.see`. As the last step has a part in that jump, p' at the end
    must change as much without the start as a node. The error is that of :func:`estimate` before.
    """
    by_jump = w.m * w.stiff_part()
    w.rate_defect(h, True)
    w.filtered()
    return min(by_jump, w.stiff_part())


def defect(w: Any, t0: Any, h: Any, places: Any) -> Any:
    """Weighted norm of the error of a solved step that F shows between its nodes; infinite where F is."""
    # Errors of algebraic unknowns, which may jump within the step where the equations do, are left out by
    # dF/du'.
    w.rate_defect(0.0, False)
    for k in range(places):
        # A sum of different multiples, in which a pulse at one place outweighs what is small at the others.
        if not w.add_residual_between(k, t0, h, h * w.numbers.gamma / (1.0 + 0.2 * k)):
            return np.inf
    w.filtered()
    w.times_mass()
    return w.filtered()


def judge(w: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> None:
    """Estimate the error of solved stages and, where it is small, those at the end and between the nodes."""
    # With ``again`` one that is too large is multiplied by (M + h gamma J)^{-1} M once more, so that stiff
    # components do not reject a step without need. A step that ``looks`` is checked between its nodes anyway.
    x = w.numbers
    x.at_end, x.defect, x.error = 0.0, 0.0, estimate(w, t0, h, first)
    w.copy(w.estimated, w.error, 1)
    # No entry of a vector is larger than sqrt(n) times its root mean square.
    largest = w.m * np.sqrt(w.n) * x.error
    if again and x.error >= 1.0:
        w.times_mass()
        x.error = w.filtered()
        if w.in_turn:
            x.error = w.restore_higher()
    if w.in_turn or not x.error <= 1.0:
        return
    if looks or x.error <= SMALL_STEP_ERROR:
        # The estimate is made of values at the nodes, and sees nothing of a pulse between all of them.
        x.defect = defect(w, t0, h, w.between)
    if not first and largest > x.allowed_at_end:
        w.copy(w.error, w.estimated, 1)
        x.at_end = error_at_end(w, h)


def renew(w: Any, t0: Any, h: Any) -> Any:
    """Evaluate and factorise the Jacobian at stages that were solved without it; False where that fails."""
    x = w.numbers
    w.copy(w.guess, w.du, w.m)
    x.at, x.eta, x.rate, x.linearized = t0, 1.0, 0.0, 0.0
    if not w.linearize_step(t0, h):
        return False
    x.linearized = h * x.gamma
    return w.factorize(h)


def slope(w: Any, t0: Any, h: Any) -> Any:
    """Weighted norm of u' at the start by an implicit step of size h; infinite if it cannot be solved."""
    x = w.numbers
    w.rate_defect(0.0, False)
    if not w.add_start_residual(t0, 1.0, False):
        return np.inf
    if not (w.linearize_start(t0, h) if w.in_turn else w.linearize_step(t0, h)):
        return np.inf
    x.linearized = h * x.gamma
    return w.filtered() if w.factorize_real(h) else np.inf


ADVANCE, JUDGE, SLOPE, RENEW, NEXT, CONTINUE, WEIGH, WITHIN, BETWEEN, BEYOND, STEPS = range(11)
"""What :func:`act` may be asked for, from ``CONTINUE`` on in compiled code alone."""
NOT_JUDGED = 1, False, False  # The last arguments of :func:`act` where stages are not to be judged.


def solved_and_judged(w: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    """Solve the stages of a step, and judge those that are solved without doubt; see :func:`iterate`."""
    x = w.numbers
    x.judged = 0.0
    status = advance(w, t0, h)
    if first == 0 and status == SOLVED and x.end_error <= END_SHARE * x.kappa:
        x.judged = 1.0
        w.judge(t0, h, first, again, looks)
    return status


def act(w: Any, what: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    """Call one of the functions above by its number."""
    if what == ADVANCE:
        return float(solved_and_judged(w, t0, h, first, again, looks))
    if what == JUDGE:
        judge(w, t0, h, first, again, looks)
        return float(w.numbers.error)
    if what == RENEW:
        return 1.0 if renew(w, t0, h) else 0.0
    if what == NEXT:
        return 1.0 if w.next_stage(h) else 0.0
    return float(slope(w, t0, h))


# --- Python -------------------------------------------------------------------------------------------------


class StageOperations:
    """The operations of the algorithm with NumPy and SciPy, for any problem."""

    # Shapes: A (S, S), c and differences (S,). M stages are solved together, ``at`` these rows of all S: they
    # are all, or 1 with ``differences``, the weights of a pair less its embedded ones, where A is triangular.

    def __init__(
        self,
        problem: ProblemDAE,
        A: Vector,
        c: Vector,
        team: Team | None = None,
        differences: Vector | None = None,
    ) -> None:
        self.team = team
        self.problem, self.A, self.c = problem, np.ascontiguousarray(A), np.ascontiguousarray(c)
        self.nodes, self.in_turn = tuple(self.c.tolist()), differences is not None
        self.differences = np.zeros(len(c)) if differences is None else differences
        together = (self.A[-1:, -1:], (1.0,)) if self.in_turn else (self.A, self.nodes)
        basis = _coefficients(together[0].tobytes(), together[1])
        self.eigen, self.pairs = basis.eigen, basis.eigen.pairs
        self.to, self.back = basis.eigen.to, basis.eigen.back
        self.at_start, self.middle, self.to_middle = basis.at_start, basis.middle, basis.to_middle.copy()
        self.inverse, self.at_end = basis.inverse, basis.at_end
        self.places, self.value_between, self.slope_between = basis.places, basis.values, basis.slopes
        n, m = problem.n, len(together[1])
        self.m, self.n, self.rows, self.between = m, n, len(c), len(self.places)
        self.at, self.jacobian_at = slice(None), 0.5  # where in the step the Jacobian is evaluated
        # The rows of the eigenbasis that belong to each matrix.
        self._ends = [0, *range(m % 2, m + 1, 2)]
        self.u0, self.du0 = np.zeros(n), np.zeros(n)
        # What h a_ij U_j of the rows solved together are added to: the start, and parts of stages before.
        self.base = np.zeros(n) if self.in_turn else self.u0
        self.h_a = np.empty((m, m))
        self.guess, self.value, self.transformed = (np.zeros((m, n)) for _ in range(3))
        self.change = np.zeros((m + 1, n))[:m]  # compiled code keeps F at the last stage behind it
        self.error, self.estimated = np.empty(n), np.empty(n)
        self._row_factor = 0.0
        self.weights = np.ones(n)
        # Stages that are solved in turn are checked by their residuals alone.
        self.multipliers = multipliers(self.problem) & (not self.in_turn)
        # 1 for unknowns whose error at the end is checked: rounding hides it in those of index 2 and higher.
        index = np.array(problem.variable_index)
        self.checked = np.where((index < 2) & (index.max(initial=0) < 3 and not self.in_turn), 1.0, 0.0)
        self._higher = index > 1
        self._changed = np.zeros(n), np.zeros(n)
        self.times = np.empty(m)
        self.numbers: Any = StepNumbers()
        self.counts: Any = Counts()
        self.du, self.u = np.empty((self.rows, n)), np.empty((self.rows, n))
        self.begin_run()

    def begin_run(self) -> None:
        """Forget the numbers of a run."""
        self.numbers.gamma = self.real = self.eigen.real
        self.numbers.allowed_at_end = np.inf
        self.set_tolerance(1e-3, 1e-6)
        self.forget()

    def set_tolerance(self, share: float, rtol: float) -> None:
        """Set the part of the tolerance that the error of Newton's method may take, and the tolerance."""
        self.numbers.kappa, self.numbers.relative = share, share * rtol

    def solve_plainly(self) -> None:
        """Let stages be solved to the tolerance of Newton's method, by the norm of :class:`NodeSystem`."""
        tolerance = self.problem.newton_tol
        self.set_tolerance(tolerance / np.sqrt(self.n), tolerance)
        self.numbers.relative, self.numbers.plain, self.checked[:] = tolerance, 1.0, 0.0

    def forget(self) -> None:
        """Drop the kept matrices."""
        x = self.numbers
        x.linearized, x.factored, x.eta, x.rate, x.at = 0.0, 0.0, 1.0, 1.0, np.nan

    def copy(self, target: Vector, source: Vector, rows: int) -> None:
        """Write ``rows`` rows to where others are, which compiled code knows by their addresses alone."""
        target[:] = source if source.ndim == 1 else source[self.at]

    def take_guess(self) -> None:
        """Begin the iteration with the guess for the derivatives of the stages."""
        self.du[self.at] = self.guess
        self._place()

    def _place(self) -> None:
        self.u[self.at] = self.h_a @ self.du[self.at] + self.base

    def next_stage(self, h: float) -> bool:
        """Go on to the next stage of those that are solved in turn; False where there is none."""
        if not self.in_turn or self.at.stop == self.rows:
            return False
        self.go_to(self.at.stop, h)
        return True

    def go_to(self, i: int, h: float) -> None:
        """Go to stage i: u' is guessed by that of the stage before, and algebraic unknowns stay."""
        k, self.at, self.real = self.problem.n_diff, slice(i, i + 1), float(self.A[i, i])
        if self.numbers.gamma != self.real:
            self.numbers.gamma, self.numbers.factored = self.real, 0.0
        self.jacobian_at, self.to_middle[0], self.h_a[0, 0] = float(self.c[i]), self.real, h * self.real
        u, du = (self.u[i - 1], self.du[i - 1]) if i else (self.u0, self.du0)
        self.base[:] = self.u0 + h * (self.A[i, :i] @ self.du[:i])
        self.guess[0] = du
        self.guess[0, k:] = (u[k:] - self.base[k:]) / self.h_a[0, 0]

    def begin_in_turn(self, h: float) -> None:
        """Go to the first stage that is to be solved; an explicit one has u' at the start."""
        self.u[:], self.du[:] = self.u0, 0.0
        first = int(self.A[0, 0] == 0.0)
        self.du[:first] = self.du0
        self.go_to(first, h)

    def residuals(self, t0: float, h: float) -> bool:
        """F at the M stages; False where it is not finite."""
        self.times[:] = t0 + h * self.c[self.at]
        if self.team is None or not self.team.separate:  # threads would wait for each other in Python
            return self._evaluate(slice(None))
        counter = self.problem.work_counters["rhs"]
        before, m = counter.niter, self.m
        done = self._share(CALL, lambda i: self._evaluate(slice(i, i + 1)), m, self.value, range(m + 1))
        counter.niter = before + m  # with those of other ranks
        return done

    def _evaluate(self, at: slice) -> bool:
        try:
            u, du = self.u[self.at], self.du[self.at]
            self.value[at] = self.problem.evaluate_nodes(u[at], du[at], self.times[at])
        except EvaluationError:  # a smaller step may be defined
            return False
        return bool(np.isfinite(self.value[at]).all())

    def _everywhere(self, do: Callable[[], Any]) -> Any:
        """Call a function; on ranks that share the stages, see :meth:`Team.everywhere`."""
        return do() if self.team is None else self.team.everywhere(do)

    def _share(
        self, kind: int, do: Callable[[int], int], count: int, rows: Vector | None = None, ends: Any = None
    ) -> bool:
        """Do the parts of a piece of work, see :meth:`Team.share`."""
        if self.team is None or self.team.idle:
            return all(do(part) for part in range(count))
        return self.team.share(kind, do, count, rows, ends)

    def correct(self) -> float:
        """Apply one Newton correction to the derivatives of the stages; returns its weighted norm."""
        rows, first = self.transformed, self.m % 2
        np.dot(self.to, self.value, out=rows)
        self._share(SOLVE, self._solve_system, len(self._factors), rows, self._ends)
        np.dot(self.back, rows, out=self.value)
        self.du[self.at] -= self.value
        np.dot(self.h_a, self.value, out=self.change)
        self._place()
        self.counts.newton += 1
        self.counts.solve += first + len(self.pairs)
        return self._weighted_norm(self.change)

    def _solve_system(self, k: int) -> bool:
        rows = self.transformed[self._ends[k] : self._ends[k + 1]]
        if len(rows) == 1:
            rows[0] = self._factors[k](rows[0])
        elif len(rows):
            x = self._factors[k](rows[0] + 1j * rows[1])
            rows[0], rows[1] = x.real, x.imag
        return True

    def _weighted_norm(self, rows: Vector) -> float:
        scaled = rows * self.weights
        sizes = np.sqrt(np.add.reduce(np.square(scaled), axis=1) / self.n)  # infinite where that overflows
        worst = int(sizes.argmax())
        size = float(sizes[worst])
        self.numbers.worst = int(np.abs(scaled[worst if size < np.inf else 0]).argmax())
        return size

    def residual_is_small(self, t0: float, h: float) -> bool:
        """Whether F at the stages is as small as the corrections say."""
        if not self.residuals(t0, h):
            return False
        problem, relative = self.problem, float(self.numbers.relative)
        # Unknowns left out of the error norm have weight 0.
        u, du = self.u[self.at][-1], self.du[self.at][-1]
        whole = np.maximum(problem.run_scales.unknowns + np.abs(u), np.finfo(float).tiny)
        change = self.numbers.kappa / np.maximum(self.weights, self.numbers.kappa / whole)
        last, left = np.array(self.value[-1]), np.abs(self.value).max(axis=0)

        def changed(factor: float, direction: Vector) -> Vector:
            step = factor * direction * change
            at = u + step, du + step / (h * self.real), float(self.times[-1])
            value = np.array(self._everywhere(lambda: problem.evaluate(*at)))
            self._changed = step, value - last
            return value

        return is_small(above_noise(left, problem), last, relative, changed)

    def end_error(self, t0: float, h: float) -> float:
        """0 where the kept Jacobian explains the change of F that judged the residual, else infinite."""
        if not self.checked.any():
            return 0.0
        step, self.error[:] = self._changed
        self.filtered()
        counted = self.checked * step != 0.0
        with np.errstate(all="ignore"):
            found = np.abs(h * self.real * self.error[counted] / step[counted] - 1.0)
        return np.inf if (found > DOUBTED_DEVIATION).any() else 0.0

    def at_round_off(self) -> bool:
        """Whether the last correction is as small as rounding lets it be."""
        scale = np.abs(self.u[self.at]) + np.abs(self.h_a) @ np.abs(self.du[self.at])
        return bool((np.abs(self.change) <= RELATIVE_ROUND_OFF * scale).all())

    def changes_by_rounding(self, t0: float, h: float) -> bool:
        """Whether unknowns still change only by rounding, see :func:`only_rounding`."""
        if may_improve_differences(self.problem):
            return False
        at_end = (slice(None), self.u[-1], self.du[-1], t0 + h, h * self.real)
        about = self.change, self.weights, self.multipliers, self.numbers.kappa
        return only_rounding(self.problem, *about, [at_end]) and self.residual_is_small(t0, h)

    def linearize_step(self, t0: float, h: float) -> bool:
        """Evaluate dF/du' and dF/du at the guess in the middle of the step; False where not finite."""
        # Of stages that are solved in turn that is the guess of the current one.
        u = self.base + h * (self.to_middle @ self.guess)
        return self._linearize(u, self.middle @ self.guess, t0 + self.jacobian_at * h)

    def linearize_start(self, t0: float, h: float) -> bool:
        """Evaluate dF/du' and dF/du at the start of the step; False where not finite."""
        return self._linearize(self.u0, self.du0, t0)

    def _linearize(self, u: Vector, du: Vector, t: float) -> bool:
        try:
            parts = self._everywhere(lambda: linearize(self.problem, u, du, t))
        except EvaluationError:
            return False
        self._mass, self._stiffness = parts.mass, parts.stiffness
        return True

    def _row_sizes(self, factor: float) -> Vector:
        mass, stiffness = (
            row.toarray().ravel() if sparse.issparse(row) else np.asarray(row)
            for row in (abs(matrix).max(axis=1) for matrix in (self._mass, self._stiffness))
        )
        return np.asarray(np.maximum(mass, factor * stiffness))

    def keep_row_sizes(self, factor: float) -> None:
        """Remember the sizes of the rows of dF/du' and of ``factor`` times the kept dF/du."""
        # Here the stiffness is kept as it is, and not times the coefficient at which it was evaluated.
        self.error[:] = self._row_sizes(factor * self.numbers.linearized)
        self._row_factor = factor * self.numbers.linearized

    def row_growth(self) -> float:
        """Largest ratio of the current size of a row of the matrix to its remembered size."""
        now, before = self._row_sizes(self._row_factor), self.error
        return float((now[before > 0.0] / before[before > 0.0]).max(initial=0.0))

    def factorize(self, h: float) -> bool:
        """Factorise dF/du' + h lambda dF/du for all eigenvalues lambda; False where one is singular."""
        if not self._factorize(h, self.real, *self.pairs):
            return False
        self.numbers.factored = h
        return True

    def _factorize(self, h: float, *eigenvalues: Any) -> bool:
        self.numbers.factored = 0.0
        coefficients = [h * value for value in eigenvalues]
        self._factors: list[Any] = [None] * len(coefficients)

        def factorize_one(k: int) -> bool:
            try:
                self._factors[k] = self._factorized(coefficients[k])
            except (SingularMatrixError, RuntimeError, ValueError):
                return False
            return True

        if not self._share(FACTORIZE, factorize_one, len(coefficients)):
            return False
        self.counts.factorization += len(self._factors)
        return True

    def factorize_real(self, h: float) -> bool:
        """Factorise the matrix of the real eigenvalue, alone where it is sparse; False if it is singular."""
        return self._factorize(h, self.real) if sparse.issparse(self._mass) else self.factorize(h)

    def _factorized(self, c: Any) -> Any:
        matrix = self._mass + c * self._stiffness
        if sparse.issparse(matrix):
            return sparse_factors(matrix).solve
        getrf, getrs = (zgetrf, zgetrs) if np.iscomplexobj(matrix) else (dgetrf, dgetrs)
        lu, pivots, _ = getrf(matrix)
        if not np.abs(np.diagonal(lu)).all():
            raise SingularMatrixError("zero pivot")
        return lambda rhs: getrs(lu, pivots, rhs)[0]

    def rate_defect(self, h: float, at_end: bool) -> None:
        """Set the error to h gamma dF/du' (u'(t_0) - p'(t_0)), or a part of p' at the end; 0 if h is 0."""
        if h:
            rate = self.at_end @ self.du if at_end else self.du0 - self.at_start @ self.du
            self.error[:] = self._mass @ (h * self.real * rate)
        else:  # there may be no stages yet
            self.error[:] = 0.0

    def difference(self, h: float) -> None:
        """Set the error to dF/du' times the difference of the two solutions of a pair."""
        self.error[:] = self._mass @ (h * (self.differences @ self.du))

    def restore_higher(self) -> float:
        """Take the estimate before the last filter for unknowns of index 2 and higher; its weighted norm."""
        # k filters remove the error of an unknown of index k altogether.
        np.copyto(self.error, self.estimated, where=self._higher)
        return self._weighted_norm(self.error[None])

    def stiff_part(self) -> float:
        """Take from the error what one more filter leaves; its largest weighted entry of those checked."""
        whole = self.error.copy()
        self.times_mass()
        self.filtered()
        np.subtract(whole, self.error, out=self.error)
        counted = self.checked * self.weights
        near = ERROR_NEAR_SIZE * self.numbers.relative / self.numbers.kappa * counted * np.abs(self.u[-1])
        return float((counted * np.abs(self.error) / np.maximum(1.0, near)).max())

    def add_start_residual(self, t0: float, factor: float, solved: bool) -> bool:
        """Add ``factor`` times F there, with u' of a ``solved`` step, to the error; False if not finite."""
        slope = self.at_start @ self.du if solved else self.du0
        value = self._everywhere(lambda: self.problem.evaluate(self.u0, slope, t0))
        self.error += factor * value
        return bool(np.isfinite(value).all())

    def times_mass(self) -> None:
        """Multiply the error by dF/du'."""
        self.error[:] = self._mass @ self.error

    def filtered(self) -> float:
        """Solve with the matrix of the real eigenvalue for the error, in place; returns its weighted norm."""
        self._share(FILTER, self._filter, 1, self.error[None], (0, 1))
        self.counts.solve += 1
        return self._weighted_norm(self.error[None])

    def _filter(self, _: int) -> bool:
        self.error[:] = self._factors[0](self.error)
        return True


class Simultaneous(StageOperations):
    r"""The M stages of a collocation step, solved together, or those of an embedded pair, in turn.

    .. math::
        F\Big(t_0 + c_i h,\; u_0 + h \sum_j a_{ij} U_j,\; U_i\Big) = 0

    A simplified Newton iteration has the matrix :math:`I \otimes M + h A \otimes J` with M = dF/du' and
    J = dF/du at one point, which falls apart into one real and (M - 1) / 2 complex matrices of size n in the
    eigenbasis of A. Stages of a pair, whose A is triangular, share the real matrix, which is factorised again
    where entries on the diagonal differ.

    References
    ----------
    E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer (1996), sec. IV.8; J. de Swart,
    G. Soderlind, On the construction of error estimators for implicit Runge-Kutta methods, J. Comput. Appl.
    Math. 86 (1997) 347.
    """

    def serve(self, problem: ProblemDAE) -> bool:
        """Begin a run of a problem that differs in numbers alone; False where matrices may be others."""
        return False

    # --- a step ---------------------------------------------------------------------------------------------

    def begin(self, u0: MeshDAE, t0: float, h: float) -> bool:
        """Begin a step: allocate its stages, and guess their derivatives."""
        before = u0.polynomial
        self.u0[:] = u0
        self._allocate()
        if before is None:  # of a pair u' at the start is known
            np.multiply(self.A, h, out=self.h_a)
            self.du0.fill(0.0)
            self.guess.fill(0.0)
            return True
        self._continue(before, t0, h)
        return False

    def _allocate(self) -> None:
        """New arrays for the stages, because the polynomial of the last step keeps those of its own."""
        self.du, self.u = np.empty((self.rows, self.n)), np.empty((self.rows, self.n))

    def _continue(self, before: Any, t0: float, h: float) -> None:
        """Set u' at the start, and the guess, from what the last step has left behind."""
        n_diff, guess = self.problem.n_diff, self.guess
        self.du0[:] = before.derivative_at_end()
        if self.in_turn:
            self.begin_in_turn(h)
            return
        np.multiply(self.A, h, out=self.h_a)
        if reaches(before, t0 + h, self.problem.n):
            matrix = before.continuation(t0, h, self.nodes)
            np.dot(matrix, before.derivative, out=guess)
            if n_diff < self.problem.n:
                # From index 2 on the derivative of algebraic unknowns is too rough to be extrapolated.
                change = matrix @ before.value[:, n_diff:] - self.u0[n_diff:]
                guess[:, n_diff:] = (self.inverse / h) @ change
        else:
            guess[:] = self.du0
            guess[:, n_diff:] = 0.0

    def weigh(self, weights: Weights, h: float, first: bool, floor: bool = True) -> None:
        """Write the weights of errors at the start of a step that has begun, see :meth:`Weights.fill`."""
        weights.fill(self.u0, h, self.weights, None if first else self.du0, floor)

    def weigh_within(self, weights: Weights, h: float) -> bool:
        """Write the weights by the values at the solved stages where these are larger than known sizes."""
        return weights.fill_within(self.u, h, self.weights)

    def solve(self, t0: float, h: float, first: int = 1, looks: bool = False) -> int:
        """Solve the stages from ``guess``, see :func:`act`; one of :data:`SOLVED` to :data:`UNRESOLVED`."""
        if self.team is not None and self.team.next_step():
            self.numbers.factored = 0.0
        status = self._advance(t0, h, first, looks)
        if status != SOLVED and improve_differences(self.problem):
            self.forget()
            status = self._advance(t0, h, first, looks)
        return status

    def starting_slope(self, u0: MeshDAE, t0: float, h: float) -> float:
        """Weighted norm of u' at the start by an implicit step of size h; inf if it cannot be solved."""
        self.u0[:] = u0
        self.du0.fill(0.0)
        self.guess.fill(0.0)
        self.forget()
        found = self._slope(t0, h)
        self.forget()
        self.count()
        return found

    def _advance(self, t0: float, h: float, first: int, looks: bool) -> int:
        return int(self._act(ADVANCE, t0, h, (first, False, looks)))

    def _act(self, what: int, t0: float, h: float, judging: tuple[int, bool, bool] = NOT_JUDGED) -> float:
        with np.errstate(all="ignore"):  # iterates that overflow are noticed
            return float(act(self, what, t0, h, *judging))

    def judge(self, t0: float, h: float, first: int, again: bool, looks: bool = False) -> float:
        """See :func:`judge`."""
        return self._act(JUDGE, t0, h, (first, again, looks))

    def _noise(self, t0: float, h: float) -> Vector | None:
        at_end = self.u[-1], self.du[-1], t0 + h, h * self.real
        return rounding_noise(self.problem, *at_end, self.multipliers)

    def is_rounding(self, t0: float, h: float, most: float, error: Vector | None = None) -> bool:
        """Whether the weighted error of the checked unknowns, at the end, is small or by rounding there."""
        error, noise = self.error if error is None else error, self._noise(t0, h)
        return noise is None or not ((np.abs(error) - noise) * self.checked * self.weights > most).any()

    def beyond_rounding(self, t0: float, h: float) -> float:
        """Weighted norm of the estimated error without what rounding at the end explains of it."""
        if not self.multipliers.any():
            return np.inf
        error, noise = np.abs(self.estimated), self._noise(t0, h)
        return self._weighted_norm(np.maximum(error if noise is None else error - noise, 0.0)[None])

    def add_residual_between(self, k: int, t0: float, h: float, factor: float) -> bool:
        """Add ``factor`` times F at a place between the nodes to the error; False where it is infinite."""
        u = self.value_between[k, 0] * self.u0 + self.value_between[k, 1:] @ self.u
        at = u, self.slope_between[k] @ self.du, t0 + h * float(self.places[k])
        try:
            value = self._everywhere(lambda: self.problem.evaluate(*at))
        except EvaluationError:
            return True
        if not np.isnan(value).any():
            self.error += factor * value
        return bool(np.isfinite(self.error).all())

    def renew(self, t0: float, h: float) -> bool:
        """See :func:`renew`."""
        return self._act(RENEW, t0, h) != 0.0

    def solve_alone(self, system: NodeSystem, newton: ModifiedNewton, t0: float, h: float) -> None:
        """Solve the current stage with its own Jacobian and damping; raises as Newton's method does."""
        i, n_diff = self.at.start, self.problem.n_diff
        self.take_guess()
        u, du = self.u[i], self.du[i]
        at = attach(u, n_diff), attach(du, n_diff), (u, du), float(t0 + h * self.c[i]), h * self.real
        system.place(*at, (t0, h), i + 1)
        newton.solve(system)

    def goes_on(self, t0: float, h: float) -> bool:
        """See :meth:`next_stage`."""
        return self._act(NEXT, t0, h) != 0.0

    def end_is_solved(self, t0: float, h: float, most: float) -> bool:
        """Whether a Newton correction of the last stage, with its own Jacobian, is small or by rounding."""
        # Where dF/du is far smaller there than where the kept Jacobian was evaluated, as that of a diode
        # which no longer conducts, corrections with that one are small however large the error is.
        u, du, t, c = self.u[-1], self.du[-1], t0 + h, h * self.real
        counted = self.checked * self.weights
        try:
            made = self._everywhere(lambda: operators_at(self.problem, u, du, t, c))
        except SolveError:  # where it has none, as at the edge of a domain, nothing is known of the error
            return True
        with np.errstate(all="ignore"):
            self.error[:] = c * made.solve(np.array(self.value[-1]))
            if not (np.abs(self.error) * counted > most).any():
                return True
        return self.is_rounding(t0, h, most)

    def _slope(self, t0: float, h: float) -> float:
        return self._act(SLOPE, t0, h)

    def count(self) -> None:
        """Add the work done since the last call to the counters of the problem."""
        self.counts.add_to(self.problem)

    # --- checkpoints ----------------------------------------------------------------------------------------

    @property
    def keeps_state(self) -> bool:
        """Whether :meth:`get_state` is all that the next step depends on besides its start."""
        return self.team is None or not self.team.separate

    def get_state(self) -> dict[str, Any]:
        """The state that the next step depends on, as numbers, texts and arrays, for a checkpoint."""
        kept: dict[str, Any] = {"numbers": np.frombuffer(self.numbers).copy()}
        if self.numbers.linearized > 0.0:
            kept |= {"mass": _as_arrays(self._mass), "stiffness": _as_arrays(self._stiffness)}
        return kept

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Take what :meth:`get_state` gave, to the last bit; the factors are made again."""
        np.frombuffer(self.numbers)[:] = kept["numbers"]
        h = self.numbers.factored
        if "mass" in kept:
            self._mass, self._stiffness = _from_arrays(kept["mass"]), _from_arrays(kept["stiffness"])
            if h > 0.0:
                self.factorize(h)
                ctypes.memset(ctypes.addressof(self.counts), 0, ctypes.sizeof(self.counts))


def _as_arrays(matrix: Any) -> dict[str, Any]:
    """A dense or sparse matrix as a mapping of names to arrays, for a checkpoint."""
    if not sparse.issparse(matrix):
        return {"dense": matrix}
    about = {"is_array": isinstance(matrix, sparse.sparray), "shape": matrix.shape}
    return about | {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}


def _from_arrays(arrays: Mapping[str, Any]) -> Any:
    """The matrix of a mapping that :func:`_as_arrays` made."""
    if "dense" in arrays:
        return arrays["dense"]
    kind = sparse.csc_array if arrays["is_array"] else sparse.csc_matrix
    return kind((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
