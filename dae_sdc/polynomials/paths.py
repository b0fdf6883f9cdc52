"""Compiled continuation of paths of polynomial homotopies, by Newton's method. This imports numba.

Points have n + 1 homogeneous coordinates on an affine patch v . x = 1. Where doubles are not precise enough,
a point is the sum of two arrays, and equations are evaluated in double-double arithmetic (32 digits). Linear
systems are always solved in doubles, because Newton's method corrects their errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.compiling import inner, kept
from dae_sdc.polynomials.polynomials import FINITE, INFINITE, UNKNOWN, Care

# Lengths are in coordinates of norm 1, steps relative to the whole way.
ENDGAME_START = 0.05  # Homotopy parameter t at which the endgame begins.
SHORTEST_PATH_STEP = 1e-10  # Smallest step to and in the endgame, as paths can come very near to each other.
# A point counts as on the path when the second Newton correction is smaller than this.
NEWTON_CORRECTION_TOLERANCE = 1e-8
NEWTON_NOISE = 1e-7  # Round-off of a Newton correction near singular ends.
# Ratio of pivots of the Jacobian up to which an end counts as regular without a further check.
REGULAR_PIVOT_RATIO = 1e6
RETURN_DISTANCE = 1e-11  # Newton's method must return to a regular end from points at this distance.
VANISHING_COORDINATE = 1e-20  # Lower bound of the first coordinate of a finite end.

# The endgame follows a path on ever smaller circles around t = 0.
# Predictor tolerance on circles, in units of that elsewhere times the speed of the path with respect to
# log t: other branches of the path are about as far away as it moves.
PREDICTOR_FACTOR = 300.0
SAMPLES_OF_CIRCLES = 12  # Number of points on a circle, for Cauchy's integral.
MOST_STEPS_PER_SAMPLE = 60  # Largest number of steps between two points of a circle.
RADIUS_RATIO = 0.2  # Radius of a circle in units of the one before.
# Numbers of the last circle and of the first: larger ones often enclose other branch points than t = 0.
CIRCLES, FIRST_CIRCLE = 12, 3
# Turns that a path may take on the first circle, and more on each further one; and the largest number.
MORE_TURNS, MOST_TURNS = 6, 24
CLOSING = 1e-3  # A loop is closed when all coordinates are back to this part of the distance they moved.
AGREEMENT = 1e-9  # Difference of the ends computed on two circles at which no smaller circle is needed.
ACCEPTED_DIFFERENCE = 1e-5  # Largest such difference at which the end is known.
LARGEST_VALUE = 1e-11  # Largest size of the polynomials, with coefficients of size 1, at an end.
# Largest difference of the power of t with which the first coordinate vanishes, as measured from circle to
# circle, from the power given by its winding number.
GROWTH_TOLERANCE = 0.01
# Mean of the first coordinate over a circle, relative to its largest value there, that counts as 0.
VANISHING_MEAN = 1e-8
SMALLEST_T = 1e-24  # Value of t to which a path is followed to tell nearby solutions apart.


class Point(NamedTuple):
    """A point on a path: coordinates, their low parts in double-double arithmetic, and the patch v."""

    x: Any
    low: Any
    patch: Any


class Work(NamedTuple):
    """Memory of the continuation of one path."""

    registers: Any
    wide: Any
    matrix: Any
    pivots: Any
    right: Any
    slope: Any
    stages: Any
    trial: Any
    trial_low: Any
    track: Any  # Number of rows, then t and x behind each step; None to keep none, compiled to nothing.


# --- equations ------------------------------------------------------------------------------------------


@inner
def _sum(a, a_low, b, b_low):  # type: ignore[no-untyped-def]
    """Sum of two double-double numbers."""
    s = a + b
    part = s - a
    e = (a - (s - part)) + (b - part) + (a_low + b_low)
    high = s + e
    return high, e - (high - s)


@inner
def _product(a, a_low, b, b_low):  # type: ignore[no-untyped-def]
    """Product of two double-double numbers."""
    p = a * b
    c = 134217729.0 * a
    a1 = c - (c - a)
    a2 = a - a1
    c = 134217729.0 * b
    b1 = c - (c - b)
    b2 = b - b1
    e = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2 + (a * b_low + a_low * b)
    high = p + e
    return high, e - (high - p)


@inner
def _run_exactly(w, code):  # type: ignore[no-untyped-def]
    """Execute instructions (a, b, c, d), register d = a b + c, in complex double-double numbers."""
    # The columns of the registers are the high and low part of the real part, and of the imaginary part.
    for k in range(code.shape[0]):
        a, b, c, d = code[k, 0], code[k, 1], code[k, 2], code[k, 3]
        for part in range(2):
            p, p_low = _product(w[a, 0], w[a, 1], w[b, 2 * part], w[b, 2 * part + 1])
            q, q_low = _product(w[a, 2], w[a, 3], w[b, 2 - 2 * part], w[b, 3 - 2 * part])
            sign = 2.0 * part - 1.0
            p, p_low = _sum(p, p_low, sign * q, sign * q_low)
            if c > 0:
                p, p_low = _sum(p, p_low, w[c, 2 * part], w[c, 2 * part + 1])
            w[d, 2 * part], w[d, 2 * part + 1] = p, p_low


@inner
def evaluate(eq, work, point, t, extended):  # type: ignore[no-untyped-def]
    """Compute values, Jacobian and derivatives with respect to t, in the registers of ``work``."""
    r, w, size = work.registers, work.wide, point.x.size
    x, low, code = point.x, point.low, eq.code
    for j in range(size):
        r[2 + j] = x[j]
    r[2 + size] = 1.0 - t
    r[3 + size] = t
    if not extended:
        for k in range(code.shape[0]):
            r[code[k, 3]] = r[code[k, 0]] * r[code[k, 1]] + r[code[k, 2]]
        return
    for j in range(size):
        w[2 + j, 0], w[2 + j, 1], w[2 + j, 2], w[2 + j, 3] = x[j].real, low[j].real, x[j].imag, low[j].imag
    now, rest = _sum(1.0, 0.0, -t.real, 0.0)
    w[2 + size, 0], w[2 + size, 1], w[2 + size, 2], w[2 + size, 3] = now, rest, -t.imag, 0.0
    w[3 + size, 0], w[3 + size, 1], w[3 + size, 2], w[3 + size, 3] = t.real, 0.0, t.imag, 0.0
    _run_exactly(w, code)
    for k in range(code.shape[0]):
        d = code[k, 3]
        r[d] = complex(w[d, 0], w[d, 2])


# --- linear algebra ------------------------------------------------------------------------------------


@inner
def _factorise(matrix, pivots):  # type: ignore[no-untyped-def]
    """LU factors in place, with reciprocals of the pivots; False if a pivot is 0 or not finite."""
    size = matrix.shape[0]
    for k in range(size):
        at, largest = k, -1.0
        for i in range(k, size):
            length = abs(matrix[i, k].real) + abs(matrix[i, k].imag)
            if length > largest:
                at, largest = i, length
        if not 0.0 < largest < np.inf:
            return False
        pivots[k] = at
        if at != k:
            for j in range(size):
                matrix[k, j], matrix[at, j] = matrix[at, j], matrix[k, j]
        pivot = matrix[k, k]
        square = pivot.real * pivot.real + pivot.imag * pivot.imag
        if not 0.0 < square < np.inf:
            return False
        inverse = complex(pivot.real / square, -pivot.imag / square)
        matrix[k, k] = inverse
        for i in range(k + 1, size):
            ratio = matrix[i, k] * inverse
            matrix[i, k] = ratio
            if ratio != 0j:
                for j in range(k + 1, size):
                    matrix[i, j] -= ratio * matrix[k, j]
    return True


@inner
def _substitute(matrix, pivots, right):  # type: ignore[no-untyped-def]
    """Replace the right-hand side by the solution."""
    size = matrix.shape[0]
    for k in range(size):
        at = pivots[k]
        if at != k:
            right[k], right[at] = right[at], right[k]
    for i in range(1, size):
        value = right[i]
        for j in range(i):
            value -= matrix[i, j] * right[j]
        right[i] = value
    for i in range(size - 1, -1, -1):
        value = right[i]
        for j in range(i + 1, size):
            value -= matrix[i, j] * right[j]
        right[i] = value * matrix[i, i]


@inner
def norm(x):  # type: ignore[no-untyped-def]
    """Euclidean norm."""
    total = 0.0
    for value in x:
        total += value.real * value.real + value.imag * value.imag
    return np.sqrt(total)


@inner
def distance(x, y):  # type: ignore[no-untyped-def]
    """Euclidean distance."""
    total = 0.0
    for j in range(x.size):
        d = x[j] - y[j]
        total += d.real * d.real + d.imag * d.imag
    return np.sqrt(total)


# --- Newton's method -----------------------------------------------------------------------------------


@inner
def set_patch(x, patch):  # type: ignore[no-untyped-def]
    """Set v to the conjugate of x divided by the squared norm of x, so that v . x = 1."""
    square = norm(x) ** 2
    for j in range(x.size):
        patch[j] = x[j].conjugate() / square


@inner
def prepare(eq, work, point, t, extended):  # type: ignore[no-untyped-def]
    """Evaluate the equations, and factorise the Jacobian with the patch below it; False if that fails."""
    evaluate(eq, work, point, t, extended)
    size = point.x.size
    for i in range(size - 1):
        for j in range(size):
            work.matrix[i, j] = work.registers[eq.jacobian[i, j]]
    for j in range(size):
        work.matrix[size - 1, j] = point.patch[j]
    return _factorise(work.matrix, work.pivots)


@inner
def set_tangent(eq, work, t, logarithmic, out):  # type: ignore[no-untyped-def]
    """Write the derivative of the path with respect to t, or to log t, to ``out``, with the kept factors."""
    size = out.size
    for i in range(size - 1):
        out[i] = -work.registers[eq.changes[i]]
    out[size - 1] = 0j
    _substitute(work.matrix, work.pivots, out)
    if logarithmic:
        for j in range(size):
            out[j] *= t


@inner
def correct(eq, work, point, t, extended):  # type: ignore[no-untyped-def]
    """Take a Newton step; returns its length, infinite if the Jacobian is singular."""
    if not prepare(eq, work, point, t, extended):
        return np.inf
    x, low, right = point.x, point.low, work.right
    size = x.size
    for i in range(size - 1):
        right[i] = -work.registers[eq.values[i]]
    right[size - 1] = 0j  # it stays on the patch, up to a factor by round-off: the equations are homogeneous
    _substitute(work.matrix, work.pivots, right)
    for j in range(size):
        if extended:
            a, a_low = _sum(x[j].real, low[j].real, right[j].real, 0.0)
            b, b_low = _sum(x[j].imag, low[j].imag, right[j].imag, 0.0)
            x[j], low[j] = complex(a, b), complex(a_low, b_low)
        else:
            x[j] += right[j]
    length = norm(right)
    return length if np.isfinite(length) else np.inf


class _Leg(NamedTuple):
    """A straight line of t or log t, in which fractional powers of t are smooth, the unit of steps."""

    start: Any
    end: Any
    logarithmic: Any
    patched: Any
    first_step: Any
    shortest_step: Any
    most_steps: Any


class _Circle(NamedTuple):
    """Behaviour of a path on a closed circle around t = 0."""

    turns: Any  # until the path closes, 0 if it does not
    winding: Any  # number of the first coordinate around 0
    logarithm: Any  # mean of that of the size of the first coordinate
    largest: Any  # size of the first coordinate
    motion: Any  # largest distance of the path from its start


@kept
def follow_paths(eq, starts, which, care, ends, remainders, known, regular, track):  # type: ignore[no-untyped-def]
    """Follow paths from t = 1 to t = 0; returns the number of steps."""
    # Shapes: starts (p, n + 1), which (p,), ends and remainders (p, n + 1), known and regular (p,).
    count, size = starts.shape
    registers = eq.constants.size
    work = Work(
        np.zeros(registers, np.complex128),
        np.zeros((registers, 4)),
        np.zeros((size, size), np.complex128),
        np.zeros(size, np.int64),
        np.zeros(size, np.complex128),
        np.zeros(size, np.complex128),
        np.zeros((4, size), np.complex128),
        np.zeros(size, np.complex128),
        np.zeros(size, np.complex128),
        track,
    )
    for k in range(registers):
        value, rest = eq.constants[k], eq.remainders[k]
        work.registers[k] = value
        work.wide[k, 0], work.wide[k, 1], work.wide[k, 2], work.wide[k, 3] = (
            value.real, rest.real, value.imag, rest.imag,
        )  # fmt: skip
    total = 0
    for p in range(count):
        if eq.own.shape[0] > 0:
            for k in range(eq.own.shape[1]):
                value = eq.own[which[p], k]
                work.registers[size + 4 + k] = value
                work.wide[size + 4 + k, 0], work.wide[size + 4 + k, 2] = value.real, value.imag
        patch = np.zeros(size, np.complex128)
        point = Point(starts[p].copy(), np.zeros(size, np.complex128), patch)
        _note(track, 1.0 + 0j, point.x)
        known[p], regular[p], steps = _path(eq, work, point, care, Point(ends[p], remainders[p], patch))
        if known[p] != UNKNOWN:
            _note(track, 0j, ends[p])
        scale = 2.0 ** -np.round(np.log2(norm(ends[p])))  # a power of 2 rounds nothing
        for j in range(size):
            ends[p, j] *= scale
            remainders[p, j] *= scale
        total += steps
    return total


# Numba compiles a copy of what is handed the constant False or True, for this constant; bool(0) and bool(1)
# are to it as what is known at run time alone.
@inner
def _path(eq, work, point, care, end):  # type: ignore[no-untyped-def]
    """Follow a path from t = 1 to 0; returns the state of its end, whether it is regular, and the steps."""
    exact, game = care.displacement == 0.0, complex(ENDGAME_START, 0.0)
    set_patch(point.x, point.patch)
    leg = _Leg(1.0 + 0j, game, False, True, 0.1, SHORTEST_PATH_STEP, care.most_steps)
    arrived, steps = _advance(eq, work, point, care, leg)
    if not arrived:
        return UNKNOWN, False, steps
    _copy(point, end)
    leg = _Leg(game, 0j, False, True, 0.1, care.shortest_step_to_end, care.most_steps_to_end)
    arrived, more = _advance(eq, work, end, care, leg)
    steps += more
    if arrived:
        regular = _converges(eq, work, end)
        if regular and not exact:
            regular = _returns(eq, work, end, care.displacement, bool(0))
        if regular and (abs(end.x[0]) > VANISHING_COORDINATE or not exact):
            return FINITE, True, steps
    known, regular, more = _endgame(eq, work, point, care, end)
    if known == FINITE and not exact:
        regular = _returns(eq, work, end, care.displacement, bool(0))
    return known, regular, steps + more


@inner
def _copy(source, goal):  # type: ignore[no-untyped-def]
    for j in range(source.x.size):
        goal.x[j], goal.low[j] = source.x[j], source.low[j]


@inner
def _set(goal, values):  # type: ignore[no-untyped-def]
    for j in range(values.size):
        goal.x[j], goal.low[j] = values[j], 0j


# --- on the way ------------------------------------------------------------------------------------------


@inner
def _parameter(u, logarithmic):  # type: ignore[no-untyped-def]
    return np.exp(u) if logarithmic else u


@inner
def _predict(eq, work, point, leg, u, du, ahead, extended):  # type: ignore[no-untyped-def]
    """Write the classical Runge-Kutta step from u to the trial point; False if the Jacobian is singular."""
    size, trial, stages = point.x.size, work.trial, work.stages
    middle = Point(trial, work.trial_low, point.patch)
    for j in range(size):
        stages[0, j] = work.slope[j]
        work.trial_low[j] = 0j
    for k in range(1, 4):
        part = du if k == 3 else 0.5 * du
        for j in range(size):
            trial[j] = point.x[j] + part * stages[k - 1, j]
        t = _parameter(ahead if k == 3 else u + part, leg.logarithmic)
        if not prepare(eq, work, middle, t, extended):
            return False
        set_tangent(eq, work, t, leg.logarithmic, stages[k])
    for j in range(size):
        move = stages[0, j] + 2.0 * (stages[1, j] + stages[2, j]) + stages[3, j]
        trial[j], work.trial_low[j] = point.x[j] + du / 6.0 * move, point.low[j]
    return True


@inner
def _is_on_path(eq, work, trial, t, care, leg, error, noise):  # type: ignore[no-untyped-def]
    """Whether Newton corrections of a trial point, the first of length ``error``, converge to the path."""
    again = correct(eq, work, trial, t, care.extended)
    if leg.logarithmic:
        good = again <= max(0.01 * error, 0.1 * noise)
    else:
        good = again <= 0.01 * error and again**3 <= 1e-13 * error**2
        good = good or again <= (0.01 if care.extended else 1.0) * NEWTON_CORRECTION_TOLERANCE
    if good and (leg.logarithmic or care.extended):
        correct(eq, work, trial, t, care.extended)
    return good


@inner
def _advance(eq, work, point, care, leg):  # type: ignore[no-untyped-def]
    """Follow a path along a leg; returns whether it has arrived, and the number of steps."""
    slope, close, extended = work.slope, care.predictor_tolerance, care.extended
    trial = Point(work.trial, work.trial_low, point.patch)
    noise = 1e-7 * NEWTON_NOISE if extended else NEWTON_NOISE
    begin = _parameter(leg.start, leg.logarithmic)
    if not prepare(eq, work, point, begin, extended):
        return False, 0
    set_tangent(eq, work, begin, leg.logarithmic, slope)
    way, step, steps = 0.0, leg.first_step, 0
    while way < 1.0:
        if steps >= leg.most_steps or step <= leg.shortest_step:
            return False, steps
        steps += 1
        last = step >= 1.0 - way
        h = 1.0 - way if last else step
        u = leg.start + way * (leg.end - leg.start)
        du = h * (leg.end - leg.start)
        ahead = leg.end if last else u + du
        error, good, allowed = np.inf, False, close
        t = _parameter(ahead, leg.logarithmic)
        if _predict(eq, work, point, leg, u, du, ahead, extended):
            error = correct(eq, work, trial, t, extended)
            if leg.logarithmic:
                widest = PREDICTOR_FACTOR * close
                allowed = min(max(widest * norm(slope), noise), widest)
            if error <= allowed:
                good = _is_on_path(eq, work, trial, t, care, leg, error, noise)
        factor = 0.8 * (0.1 * allowed / max(error, 1e-16)) ** 0.2
        if not good:
            step = h * min(max(factor, 0.1), 0.5)
            continue
        step = h * min(max(factor, 0.3), 2.5)
        way = 1.0 if last else way + h
        set_tangent(eq, work, t, leg.logarithmic, slope)
        _copy(trial, point)
        if leg.patched:
            _move_patch(point, slope)
            if t != 0j:  # what comes to t = 0 may be no end
                _note(work.track, t, point.x)
    return True, steps


@inner
def _note(track, t, x):  # type: ignore[no-untyped-def]
    """Keep a point behind a step, if points are kept."""
    if track is not None:
        row = int(track[0, 0].real) + 1
        track[0, 0], track[row, 0], track[row, 1:] = row, t, x


@inner
def _move_patch(point, slope):  # type: ignore[no-untyped-def]
    """Scale the point to a size near 1, and set the patch through it and the tangent on that patch."""
    x, size = point.x, point.x.size
    scale = 2.0 ** -np.round(np.log2(norm(x)))
    for j in range(size):
        x[j] *= scale
        point.low[j] *= scale
    set_patch(x, point.patch)
    along = 0j
    for j in range(size):
        along += point.patch[j] * slope[j]
    # The equations are homogeneous: tangents on two patches differ by a multiple of x.
    for j in range(size):
        slope[j] = slope[j] * scale - along * scale * x[j]


# --- at the end ------------------------------------------------------------------------------------------


@inner
def _returns(eq, work, point, displacement, extended):  # type: ignore[no-untyped-def]
    """Whether Newton's method at t = 0 soon returns to a point after a displacement of this length."""
    x = point.x
    set_patch(x, point.patch)
    size, trial = x.size, Point(work.trial, work.trial_low, point.patch)
    for shift in (1.0, 2.0):
        for j in range(size):
            trial.x[j] = x[j] + displacement / np.sqrt(size) * np.exp(1j * shift * (j + 1) ** 2)
            trial.low[j] = 0j
        scale = 0j
        for j in range(size):
            scale += point.patch[j] * trial.x[j]
        for j in range(size):
            trial.x[j] /= scale
        for _ in range(4):
            if correct(eq, work, trial, 0j, extended) == np.inf:
                return False
        if not distance(trial.x, x) <= 0.01 * displacement:
            return False
    return True


@inner
def _converges(eq, work, point):  # type: ignore[no-untyped-def]
    """Newton's method at t = 0 in double-double arithmetic; whether it converges as at simple solutions."""
    # At multiple solutions a correction is at least half of the one before. On curves of solutions
    # corrections may vanish at once: where pivots are small, Newton's method must also return from displaced
    # points.
    set_patch(point.x, point.patch)
    before, converged = np.inf, False
    for _ in range(16):
        length = correct(eq, work, point, 0j, before > 0.0)
        converged = length <= 1e-16  # the next correction, its square, may be below the last digit
        if converged or not length <= 0.25 * before or length > 1e-3:
            break
        before = length
    if not converged:
        return False
    least, most = np.inf, 0.0
    for j in range(point.x.size):
        inverse = abs(work.matrix[j, j])
        least, most = min(least, inverse), max(most, inverse)
    if most <= REGULAR_PIVOT_RATIO * least:
        return True
    return _returns(eq, work, point, RETURN_DISTANCE, before > 0.0)


@inner
def _go_round(eq, work, point, radius, care, most, mean, place):  # type: ignore[no-untyped-def]
    """Write the mean over a closed circle around t = 0, by Cauchy's formula the end, to ``mean``."""
    x, size, samples = point.x, point.x.size, SAMPLES_OF_CIRCLES
    _copy(point, place)
    for j in range(size):
        mean[j] = 0j
    steps, turned, logarithm, largest = 0, 0.0, 0.0, 0.0
    base, furthest = np.log(radius), np.zeros(size)
    noise = 1e-26 if care.extended else 1e-13
    for turn in range(1, most + 1):
        for k in range(samples):
            for j in range(size):
                mean[j] += place.x[j]
                furthest[j] = max(furthest[j], abs(place.x[j] - x[j]))
            here = place.x[0]
            length = abs(here)
            largest = max(largest, length)
            logarithm += np.log(max(length, 1e-300))
            arc = _Leg(
                complex(base, 2.0 * np.pi * k / samples), complex(base, 2.0 * np.pi * (k + 1) / samples),
                True, False, 1.0, 0.01, MOST_STEPS_PER_SAMPLE,
            )  # fmt: skip
            arrived, more = _advance(eq, work, place, care, arc)
            steps += more
            if not arrived:
                return _Circle(0, 0, 0.0, 0.0, 0.0), steps
            ratio = place.x[0] * here.conjugate()
            turned += np.arctan2(ratio.imag, ratio.real)
        closed = True
        for j in range(size):  # each by its own motion: the first coordinate may be small, and close later
            closed = closed and abs(place.x[j] - x[j]) <= CLOSING * furthest[j] + noise
        if closed:
            for j in range(size):
                mean[j] /= turn * samples
            winding = int(np.round(turned / (2.0 * np.pi)))
            return _Circle(turn, winding, logarithm / (turn * samples), largest, furthest.max()), steps
    return _Circle(0, 0, 0.0, 0.0, 0.0), steps


@inner
def _goes_to_infinity(circle, before, first_mean, extended):  # type: ignore[no-untyped-def]
    """Whether the first coordinate vanishes like the power of t that its winding on two circles gives."""
    if circle.turns != before.turns or circle.winding != before.winding or circle.winding <= 0:
        return False
    rate = (circle.logarithm - before.logarithm) / np.log(RADIUS_RATIO)
    noise = 1e-25 if extended else 1e-13
    return (
        abs(rate - circle.winding / circle.turns) <= GROWTH_TOLERANCE
        and abs(first_mean) <= max(VANISHING_MEAN * circle.largest, noise)
        and circle.largest > 1e3 * noise
    )


@inner
def _largest_value(eq, work, point):  # type: ignore[no-untyped-def]
    """Largest value of the equations at t = 0, for coordinates of norm near 1."""
    evaluate(eq, work, point, 0j, bool(1))
    largest = 0.0
    for place in eq.values:
        largest = max(largest, abs(work.registers[place]))
    return largest


@inner
def _endgame(eq, work, point, care, end):  # type: ignore[no-untyped-def]
    """State of the end of a path, whether it is regular, and steps, by Cauchy's integral around t = 0."""
    # Means over circles that enclose other branch points than t = 0 may agree too, but not at a solution. So
    # the equations must hold at the mean, and the distance of the path from it must decrease at least as t to
    # the power 1 / (number of turns). At infinity the first coordinate vanishes: its mean is 0, it winds
    # around 0 m times in w turns of the path, and its size scales from circle to circle as t to the power
    # m / w. By Jensen's formula the mean logarithm does so exactly if it vanishes nowhere but at t = 0.
    size, exact = point.x.size, care.displacement == 0.0
    set_patch(point.x, point.patch)
    mean, mean_before = np.zeros(size, np.complex128), np.full(size, np.nan + 0j)
    place = Point(np.zeros(size, np.complex128), np.zeros(size, np.complex128), point.patch)
    trial = Point(place.x, place.low, np.zeros(size, np.complex128))
    here, steps, most, gap = np.log(ENDGAME_START), 0, 0, np.inf
    before, distance_before = _Circle(0, 0, 0.0, 0.0, 0.0), np.nan
    for number in range(1, CIRCLES + 1):
        there = here + np.log(RADIUS_RATIO)
        _copy(point, place)
        inwards = _Leg(
            complex(here, 0.0), complex(there, 0.0), True, False, 0.5, SHORTEST_PATH_STEP,
            care.most_steps,
        )  # fmt: skip
        arrived, more = _advance(eq, work, point, care, inwards)
        steps += more
        if not arrived:
            _copy(place, point)
            break
        here = there
        if number < FIRST_CIRCLE:
            continue
        most = min(most + MORE_TURNS, MOST_TURNS)
        circle, more = _go_round(eq, work, point, np.exp(here), care, most, mean, place)
        steps += more
        if circle.turns == 0:
            before = circle
            continue
        if _goes_to_infinity(circle, before, mean[0], care.extended):
            _set(end, mean)
            end.x[0] = 0j
            return INFINITE, False, steps
        if exact and circle.turns == 1:
            _set(place, mean)
            regular = _converges(eq, work, trial)
            near = distance(place.x, mean) <= 1e-4 * circle.motion + 1e-9
            if regular and near and abs(place.x[0]) > VANISHING_COORDINATE:
                _copy(place, end)
                return FINITE, True, steps
        difference, away = distance(mean, mean_before), distance(mean, point.x)
        if circle.turns == before.turns and difference < gap:
            power = RADIUS_RATIO ** (0.5 / circle.turns)
            if away <= power * distance_before + AGREEMENT:
                _set(place, mean)
                if _largest_value(eq, work, place) <= LARGEST_VALUE:
                    gap = difference
                    _set(end, mean)
        for j in range(size):
            mean_before[j] = mean[j]
        before, distance_before = circle, away
        if gap <= AGREEMENT and circle.winding == 0:
            break
    # The first coordinate of a finite end must exceed the error of one that vanishes.
    found = gap <= ACCEPTED_DIFFERENCE and abs(end.x[0]) > 10.0 * gap + 1e-9
    if exact and (found or care.extended):
        _copy(point, place)
        regular, more = _descend(eq, work, place, care, here, trial)
        steps += more
        if regular:
            _copy(place, end)
            return FINITE, True, steps
    return (FINITE if found else UNKNOWN), False, steps


@inner
def _descend(eq, work, place, care, here, trial):  # type: ignore[no-untyped-def]
    """Follow a path in double-double arithmetic from log t = here to tiny t; whether its end is regular."""
    for _ in range(3):  # Newton steps for the low parts
        correct(eq, work, place, complex(np.exp(here), 0.0), bool(1))
    down = _Leg(
        complex(here, 0.0), complex(np.log(SMALLEST_T), 0.0), True, False, 0.02,
        SHORTEST_PATH_STEP, care.most_steps,
    )  # fmt: skip
    extended = Care(care.predictor_tolerance, True, care.displacement, care.most_steps)
    arrived, steps = _advance(eq, work, place, extended, down)
    regular = arrived and _converges(eq, work, trial)
    return regular and abs(place.x[0]) > VANISHING_COORDINATE, steps
