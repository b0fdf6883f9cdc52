"""The stages of a step by simplified Newton iterations: at once in the eigenbasis of A, or in turn."""

# The functions of the algorithm are Python in the part that numba compiles. They are made of operations on
# memory, see dae_sdc.sweepers._simultaneous.

from __future__ import annotations

import ctypes
import functools
from itertools import pairwise
from typing import Any

import numpy as np

from dae_sdc.dae.memory import fields
from dae_sdc.dae.newton import ROUND_OFF_CORRECTION
from dae_sdc.dae.state import Vector, interpolation_matrix, lagrange_weights
from dae_sdc.errors import InputError

# Results of the Newton iterations of a step.
SOLVED, DIVERGED, SLOW, UNDEFINED, SINGULAR, UNRESOLVED = 0, 1, 2, 3, 4, 5
LEFT_TO_PYTHON = 6  # of a step that is swept: a node is left to Python
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
        " judged"  # how often the step was judged as soon as it was solved
        " at_end allowed_at_end defect allowed_defect"
        " costly"  # 1 where a factorisation takes the time of many iterations, else 0
        " plain"  # 1 where stages are solved to the tolerance of Newton's method, and nobody judges them
        " most"  # the largest number of iterations
        " implicit",  # the part of dF/du in the matrices: 0 where they are dF/du' alone, else 1
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
MOST_GROWING = 6  # Corrections with dF/du' alone that may be no smaller than those before.
# Correction, relative to the unknowns, below which an iteration that stagnates has reached round-off.
RELATIVE_ROUND_OFF = 1e-13
# The Jacobian is kept for the next step if the Newton iterations contract at least by this factor.
KEPT_JACOBIAN_CONTRACTION = 1e-3
# Likewise of iterations with dF/du' alone, which hardly contract better with that of another point.
KEPT_MASS_CONTRACTION = 0.5
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


def eigenbasis(A: Vector) -> tuple[float, dict[str, Vector]]:
    """The real eigenvalue of a matrix of shape (M, M) with at most one, and its eigenbasis."""
    # For an even number of nodes, which has none, it is the coefficient of an additional real matrix for the
    # error estimate. One eigenvalue of each complex pair stands in the basis, with the transformations to it
    # and back, shape (M, M), in which each pair takes two rows, its real and its imaginary part.
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
    transformations = {"to": np.array(to), "back": np.ascontiguousarray(np.array(back).T)}
    return real, transformations | {"eigenvalues": np.array(pairs, dtype=np.complex128)}


@functools.lru_cache(maxsize=32)
def coefficients_of(numbers: bytes, nodes: tuple[float, ...]) -> tuple[float, dict[str, Vector]]:
    """The real eigenvalue of a matrix A, by its numbers in a row, and what it and nodes alone determine."""
    A: Vector = np.frombuffer(numbers).reshape(len(nodes), len(nodes))
    halves, weights = np.polynomial.legendre.leggauss(len(nodes))
    points = tuple((0.25 + 0.25 * halves).tolist())
    known = (0.0, *sorted(nodes))
    gaps = [np.linspace(a, b, int(np.ceil((b - a) / WIDEST_GAP)) + 1)[1:-1] for a, b in pairwise(known)]
    # Places between the start and the nodes, with which none is farther from the next than WIDEST_GAP.
    places = np.concatenate(gaps)
    between = tuple(places.tolist())
    values, slopes = (interpolation_matrix(ends, between) for ends in ((0.0, *nodes), nodes))
    real, basis = eigenbasis(A)
    return real, basis | {
        "inverse": np.asarray(np.linalg.inv(A), dtype=np.float64),
        # Weights of the stage derivatives in u' of the polynomial at the start and in the middle of the step,
        "at_start": interpolation_matrix(nodes, (0.0,))[0],
        "middle": interpolation_matrix(nodes, (0.5,))[0],
        # in the part of p'(t_0 + h) that vanishes with one node less, at the start,
        "at_end": np.prod(1.0 - np.array(nodes[:-1])) / len(nodes) * lagrange_weights(np.array(nodes)),
        # and in (u(t_0 + h/2) - u(t_0)) / h of the polynomial.
        "to_middle": 0.25 * weights @ interpolation_matrix(nodes, points),
        # Weights of the start and the stages in u, and of the stages in u'; the last rows are for any place.
        "places": np.append(places, 0.0),
        "value_between": np.vstack([values, np.zeros(len(nodes) + 1)]),
        "slope_between": np.vstack([slopes, np.zeros(len(nodes))]),
    }


def iterate(w: Any, t0: Any, h: Any) -> Any:
    """Simplified Newton iterations from the guess; returns one of :data:`SOLVED` to :data:`UNRESOLVED`."""
    # Small corrections prove nothing where the Jacobian is wrong: the residual has to be small too.
    status = corrections(w, t0, h)
    if status == SOLVED and not w.residual_is_small(t0, h):
        w.numbers.eta, status = 1.0, UNRESOLVED
    if status == SOLVED:
        w.numbers.end_error = w.end_error(t0, h)
    return status


def corrections(w: Any, t0: Any, h: Any) -> Any:
    """Newton corrections until the estimated remaining error is small; returns what :func:`iterate` does."""
    x = w.numbers
    w.take_guess()
    kappa, eta, before, rate = x.kappa, max(x.eta, LEAST_FORETOLD_CONTRACTION) ** 0.8, 0.0, 0.0
    status, first, most, norm, last = SLOW, 0.0, int(x.most), 0.0, 0.0
    suffices = False  # whether the error is as small as it has to be, where it is to become smaller
    # Contractions of an oscillation by dF/du' alone alternate between its components, and corrections may
    # grow at first.
    plain, least, judged = x.implicit > 0.0, 1, 1
    if not plain:
        least, judged = 2, MOST_GROWING
    if x.costly > 0.0:
        kappa, most = SHARE_OF_COSTLY * kappa, MOST_ITERATIONS_OF_COSTLY
    for k in range(most):
        x.iterations = k + 1
        if not w.residuals(t0, h):
            return UNDEFINED
        norm = w.correct()
        if not norm < np.inf:
            return UNDEFINED
        size = norm if plain else max(norm, before)
        if k > 0:
            now = norm / before
            rate = now if k == 1 else np.sqrt(now * (rate if plain else last))
            last = now
        if k >= least:
            x.rate = rate
            if rate >= 0.99 and k >= judged:
                status = DIVERGED
                break
            eta = rate / (1.0 - rate) if rate < 0.99 else np.inf
            if k == least and rate < 0.99:
                first = rate
        if eta * size <= kappa:
            # Unknowns that depend on others converge an iteration later, where the contraction shows as 0.
            x.eta = max(eta, first / (1.0 - first))
            return SOLVED
        suffices = suffices or eta * size <= x.kappa
        if k >= judged and eta * size * rate ** (most - 1 - k) > kappa:
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
        most = KEPT_JACOBIAN_CONTRACTION if x.implicit > 0.0 else KEPT_MASS_CONTRACTION
        keeps = x.at == t0 or x.rate <= most
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
    """The weighted norm of an error estimate of the step."""
    # It is (M + h gamma J)^{-1} M h gamma (u'(t_0) - p'(t_0)) with the collocation polynomial p, M = dF/du'
    # and J = dF/du. In a ``first`` step u'(t_0) is not known, and -h gamma F(t_0, u_0, p'(t_0)) takes the
    # place of M h gamma (u'(t_0) - p'(t_0)): no dF/du' of another point stands in it, which would mix
    # constraints with other rows where the equations do so by a matrix that depends on u. At index 3
    # (``first`` is 2), where constraints are not judged, F(t_0, u_0, u'(t_0)) is added to the usual estimate.
    # A pair has the difference of its two solutions in place of h gamma (u' - p').
    if w.in_turn:
        w.difference(h)
        return w.filtered()
    w.rate_defect(0.0 if first == 1 else h, False)
    if first and not w.add_start_residual(t0, -h * w.numbers.gamma, first == 1):
        return np.inf
    return w.filtered()


def error_at_end(w: Any, h: Any) -> Any:
    """Largest weighted error at the end of a step in unknowns of index 1 that relax within a part of it."""
    # They have that of u' there: M times its jump at the start where the solution is smooth, see
    # :meth:`~dae_sdc.sweepers.tolerance.Weights.see`. As the last step has a part in that jump, p' at the end
    # must change as much without the start as a node. The error is that of :func:`estimate` before.
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
    if w.peak_count > 0 and not w.add_residual_at_peaks(t0, h, h * w.numbers.gamma):
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
    looks = looks or x.error <= SMALL_STEP_ERROR
    if looks or w.peak_count > 0:
        # The estimate is made of values at the nodes, and sees nothing of a pulse between all of them.
        x.defect = defect(w, t0, h, w.between if looks else 0)
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


ADVANCE, JUDGE, FIRST, RENEW, NEXT, AGAIN, SMALL, ROUNDING = range(8)
CONTINUE, WEIGH, WITHIN, BETWEEN, BEYOND, STEPS, SLOPE = range(8, 15)
"""What the compiled function ``act`` may be asked for."""
NOT_JUDGED = 1, False, False  # Its last arguments where stages are not to be judged.


def solved_and_judged(w: Any, t0: Any, h: Any, first: Any, again: Any, looks: Any) -> Any:
    """Solve the stages of a step, and judge those that are solved without doubt; see :func:`iterate`."""
    x = w.numbers
    x.judged = 0.0
    status = w.sweep_nodes(t0, h) if w.swept else advance(w, t0, h)
    if first == 0 and status == SOLVED and x.end_error <= END_SHARE * x.kappa:
        x.judged = 1.0
        w.judge(t0, h, first, again, looks)
    return status
