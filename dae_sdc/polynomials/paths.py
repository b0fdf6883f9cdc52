"""Compiled continuation of single paths of polynomial homotopies. This imports numba.

Points have n + 1 homogeneous coordinates on an affine patch v . x = 1. Where the precision of doubles is too
low, a point is the sum of two arrays, and equations are evaluated in double-double arithmetic (32 digits).
Linear systems are always solved in doubles, because Newton's method corrects what they lack.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.compiling import inner, kept
from dae_sdc.polynomials.path_ends import FINITE, INFINITE, UNKNOWN


class _Work(NamedTuple):
    """Memory of the continuation of one path."""

    registers: Any
    wide: Any
    matrix: Any
    right: Any
    slope: Any
    stages: Any
    trial: Any
    trial_low: Any


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
    """Carries out instructions (a, b, c, d): register d = a b + c, in complex double-double numbers.

    A row of registers has the real part, what it lacks in the precision of doubles, and the same of the
    imaginary part.
    """
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
def _run(r, code):  # type: ignore[no-untyped-def]
    """The same in doubles."""
    for k in range(code.shape[0]):
        r[code[k, 3]] = r[code[k, 0]] * r[code[k, 1]] + r[code[k, 2]]


@inner
def _evaluate(eq, work, x, low, t, extended):  # type: ignore[no-untyped-def]
    """Values, Jacobian and derivatives with respect to t, in the registers."""
    r, w, size = work.registers, work.wide, x.size
    for j in range(size):
        r[2 + j] = x[j]
    r[2 + size] = 1.0 - t
    r[3 + size] = t
    if not extended:
        _run(r, eq.code)
        return
    for j in range(size):
        w[2 + j, 0], w[2 + j, 1], w[2 + j, 2], w[2 + j, 3] = x[j].real, low[j].real, x[j].imag, low[j].imag
    now, rest = _sum(1.0, 0.0, -t.real, 0.0)
    w[2 + size, 0], w[2 + size, 1], w[2 + size, 2], w[2 + size, 3] = now, rest, -t.imag, 0.0
    w[3 + size, 0], w[3 + size, 1], w[3 + size, 2], w[3 + size, 3] = t.real, 0.0, t.imag, 0.0
    _run_exactly(w, eq.code)
    for k in range(eq.code.shape[0]):
        d = eq.code[k, 3]
        r[d] = complex(w[d, 0], w[d, 2])


# --- linear algebra ------------------------------------------------------------------------------------


@inner
def _factorise(matrix, pivots):  # type: ignore[no-untyped-def]
    """Factors L and U in place, with reciprocals of the pivots; False if a pivot is 0 or not finite."""
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
    """Replaces the right-hand side by the solution."""
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
def _norm(x):  # type: ignore[no-untyped-def]
    total = 0.0
    for value in x:
        total += value.real * value.real + value.imag * value.imag
    return np.sqrt(total)


@inner
def _distance(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(x.size):
        d = x[j] - y[j]
        total += d.real * d.real + d.imag * d.imag
    return np.sqrt(total)


@inner
def _prepared(eq, work, pivots, x, low, patch, t, extended):  # type: ignore[no-untyped-def]
    """Evaluates the equations, and factorises the Jacobian with the patch below it."""
    _evaluate(eq, work, x, low, t, extended)
    size = x.size
    for i in range(size - 1):
        for j in range(size):
            work.matrix[i, j] = work.registers[eq.jacobian[i, j]]
    for j in range(size):
        work.matrix[size - 1, j] = patch[j]
    return _factorise(work.matrix, pivots)


@inner
def _tangent(eq, work, pivots, t, around, out):  # type: ignore[no-untyped-def]
    """Derivative of the path with respect to t, or to log t, by the matrix as it is factorised."""
    size = out.size
    for i in range(size - 1):
        out[i] = -work.registers[eq.changes[i]]
    out[size - 1] = 0j
    _substitute(work.matrix, pivots, out)
    if around:
        for j in range(size):
            out[j] *= t


@inner
def _missed(x, low, patch):  # type: ignore[no-untyped-def]
    """1 - patch . x in double-double arithmetic, rounded at the end."""
    gap, gap_low = 1.0, 0.0
    other, other_low = 0.0, 0.0
    for j in range(x.size):
        for part in range(4):
            v = patch[j].imag if part % 2 else patch[j].real
            u, u_low = (x[j].real, low[j].real) if part in (0, 3) else (x[j].imag, low[j].imag)
            v = -v if part in (0, 2) or part == 3 else v
            p, p_low = _product(v, 0.0, u, u_low)
            if part < 2:
                gap, gap_low = _sum(gap, gap_low, p, p_low)
            else:
                other, other_low = _sum(other, other_low, p, p_low)
    return complex(gap, other)


@inner
def _corrected(eq, work, pivots, x, low, patch, t, extended):  # type: ignore[no-untyped-def]
    """A step of Newton's method; its length, infinite where there is none."""
    if not _prepared(eq, work, pivots, x, low, patch, t, extended):
        return np.inf
    size, right = x.size, work.right
    for i in range(size - 1):
        right[i] = -work.registers[eq.values[i]]
    if extended:
        right[size - 1] = _missed(x, low, patch)
    else:
        miss = 1.0 + 0j
        for j in range(size):
            miss -= patch[j] * x[j]
        right[size - 1] = miss
    _substitute(work.matrix, pivots, right)
    for j in range(size):
        if extended:
            a, a_low = _sum(x[j].real, low[j].real, right[j].real, 0.0)
            b, b_low = _sum(x[j].imag, low[j].imag, right[j].imag, 0.0)
            x[j], low[j] = complex(a, b), complex(a_low, b_low)
        else:
            x[j] += right[j]
    length = _norm(right)
    return length if np.isfinite(length) else np.inf


# --- paths ---------------------------------------------------------------------------------------------


@inner
def _parameter(u, around):  # type: ignore[no-untyped-def]
    return np.exp(u) if around else u


@inner
def _set_patch(x, patch):  # type: ignore[no-untyped-def]
    square = _norm(x) ** 2
    for j in range(x.size):
        patch[j] = x[j].conjugate() / square


@inner
def _advance(  # type: ignore[no-untyped-def]
    eq,
    options,
    work,
    pivots,
    x,
    low,
    patch,
    moving,
    start,
    end,
    close,
    extended,
    around,
    first,
    shortest,
    most,
):
    """Follows a path from t = start to end; tells whether it has arrived, and the number of steps.

    With `around` it goes from log t = start to end, where fractional powers of t are smooth.
    """
    size = x.size
    trial, trial_low, slope, stages = work.trial, work.trial_low, work.slope, work.stages
    noise = 1e-7 * options.noise if extended else options.noise
    if not _prepared(eq, work, pivots, x, low, patch, _parameter(start, around), extended):
        return False, 0
    _tangent(eq, work, pivots, _parameter(start, around), around, slope)
    way, step, steps = 0.0, first, 0
    while way < 1.0:
        if steps >= most or step <= shortest:
            return False, steps
        steps += 1
        last = step >= 1.0 - way
        h = 1.0 - way if last else step
        u = start + way * (end - start)
        du = h * (end - start)
        ahead = end if last else u + du
        sound = True
        for j in range(size):
            stages[0, j] = slope[j]
            trial_low[j] = 0j
        for k in range(1, 4):
            part = du if k == 3 else 0.5 * du
            for j in range(size):
                trial[j] = x[j] + part * stages[k - 1, j]
            t = _parameter(ahead if k == 3 else u + part, around)
            if not _prepared(eq, work, pivots, trial, trial_low, patch, t, extended):
                sound = False
                break
            _tangent(eq, work, pivots, t, around, stages[k])
        error, again, good = np.inf, np.inf, False
        allowed = close
        t = _parameter(ahead, around)
        if sound:
            for j in range(size):
                move = stages[0, j] + 2.0 * (stages[1, j] + stages[2, j]) + stages[3, j]
                trial[j], trial_low[j] = x[j] + du / 6.0 * move, low[j]
            error = _corrected(eq, work, pivots, trial, trial_low, patch, t, extended)
            if around:
                widest = options.separate * close
                allowed = min(max(widest * _norm(slope), noise), widest)
            if error <= allowed:
                again = _corrected(eq, work, pivots, trial, trial_low, patch, t, extended)
                if around:
                    good = again <= max(0.01 * error, 0.1 * noise)
                else:
                    good = again <= 0.01 * error and again**3 <= 1e-13 * error**2
                    good = good or again <= (0.01 if extended else 1.0) * options.settled
                if good and (around or extended):
                    _corrected(eq, work, pivots, trial, trial_low, patch, t, extended)
        factor = 0.8 * (0.1 * allowed / max(error, 1e-16)) ** 0.2
        if not good:
            step = h * min(max(factor, 0.1), 0.5)
            continue
        step = h * min(max(factor, 0.3), 2.5)
        way = 1.0 if last else way + h
        _tangent(eq, work, pivots, t, around, slope)
        for j in range(size):
            x[j], low[j] = trial[j], trial_low[j]
        if moving:
            scale = 2.0 ** -np.round(np.log2(_norm(x)))
            for j in range(size):
                x[j] *= scale
                low[j] *= scale
            _set_patch(x, patch)
            along = 0j
            for j in range(size):
                along += patch[j] * slope[j]
            # The equations are homogeneous: on another patch the tangent is another by a multiple of x.
            for j in range(size):
                slope[j] = slope[j] * scale - along * scale * x[j]
    return True, steps


@inner
def _returns(eq, work, pivots, x, patch, nudge, extended):  # type: ignore[no-untyped-def]
    """Whether Newton's method at t = 0 soon leads back to x after a displacement by `nudge`."""
    _set_patch(x, patch)
    size, trial, low = x.size, work.trial, work.trial_low
    for shift in (1.0, 2.0):
        for j in range(size):
            trial[j] = x[j] + nudge / np.sqrt(size) * np.exp(1j * shift * (j + 1) ** 2)
            low[j] = 0j
        for _ in range(4):
            if _corrected(eq, work, pivots, trial, low, patch, 0j, extended) == np.inf:
                return False
        if not _distance(trial, x) <= 0.01 * nudge:
            return False
    return True


@inner
def _settled(eq, options, work, pivots, x, low, patch):  # type: ignore[no-untyped-def]
    """Newton's method at t = 0 in double-double arithmetic; True where it converges as at simple solutions.

    At multiple ones, corrections shrink by a factor of 1/2 or more. On curves of solutions they may vanish at
    once: where pivots are small, Newton's method must also lead back from points around.
    """
    _set_patch(x, patch)
    before, settled = np.inf, False
    for _ in range(16):
        length = _corrected(eq, work, pivots, x, low, patch, 0j, before > 0.0)
        settled = length <= 1e-16  # there may not be more digits, but the next correction is its square
        if settled or not length <= 0.25 * before or length > 1e-3:
            break
        before = length
    if not settled:
        return False
    least, most = np.inf, 0.0
    for j in range(x.size):
        inverse = abs(work.matrix[j, j])
        least, most = min(least, inverse), max(most, inverse)
    if most <= options.surely_regular * least:
        return True
    return _returns(eq, work, pivots, x, patch, options.aside, before > 0.0)


@inner
def _circle(  # type: ignore[no-untyped-def]
    eq, options, work, pivots, x, low, patch, radius, close, extended, most, mean, place, place_low
):
    """Mean over a closed circle around t = 0, by Cauchy's integral the end of the path.

    Returns the turns after which the path is back, 0 if it is not; the steps; how often the first
    coordinate goes round 0 meanwhile; the mean of the logarithm of its size, its largest size, and how far
    the path went.
    """
    size, samples = x.size, options.samples
    for j in range(size):
        place[j], place_low[j], mean[j] = x[j], low[j], 0j
    steps, turned, logarithm, largest, motion = 0, 0.0, 0.0, 0.0, 0.0
    base, furthest = np.log(radius), np.zeros(size)
    noise = 1e-26 if extended else 1e-13
    for turn in range(1, most + 1):
        for k in range(samples):
            for j in range(size):
                mean[j] += place[j]
            here = place[0]
            length = abs(here)
            largest = max(largest, length)
            logarithm += np.log(max(length, 1e-300))
            for j in range(size):
                furthest[j] = max(furthest[j], abs(place[j] - x[j]))
            arrived, more = _advance(
                eq, options, work, pivots, place, place_low, patch, radius < 0.0,
                complex(base, 2.0 * np.pi * k / samples), complex(base, 2.0 * np.pi * (k + 1) / samples),
                close, extended, radius > 0.0, 1.0, 0.01, options.most_steps_around,
            )  # fmt: skip
            steps += more
            if not arrived:
                return 0, steps, 0, 0.0, 0.0, 0.0
            ratio = place[0] * here.conjugate()
            turned += np.arctan2(ratio.imag, ratio.real)
        closed = True
        for j in range(size):  # the first coordinate may be much smaller than others, and take longer
            closed = closed and abs(place[j] - x[j]) <= options.back * furthest[j] + noise
        if closed:
            for j in range(size):
                mean[j] /= turn * samples
            motion = furthest.max()
            winding = int(np.round(turned / (2.0 * np.pi)))
            return turn, steps, winding, logarithm / (turn * samples), largest, motion
    return 0, steps, 0, 0.0, 0.0, 0.0


@inner
def _holds(eq, work, x, low):  # type: ignore[no-untyped-def]
    """Largest value of the equations at t = 0, for coordinates of norm 1 or so."""
    _evaluate(eq, work, x, low, 0j, x.size > 0)
    largest = 0.0
    for place in eq.values:
        largest = max(largest, abs(work.registers[place]))
    return largest


@inner
def _endgame(  # type: ignore[no-untyped-def]
    eq, options, work, pivots, x, low, patch, close, extended, exact, end, end_low
):
    """The end of a path that is at t = early, by Cauchy's integral over circles around t = 0.

    The means also agree on circles that enclose other branch points than t = 0. So the equations must hold
    there, and the path must come nearer as t to the power of 1 / (number of turns), or faster. At an end at
    infinity the first coordinate vanishes: its mean is 0, it goes round 0 m times while the path goes round
    its circle w times, and its size is that of t to the power of m / w from circle to circle. By Jensen's
    formula this holds for the means of its logarithm exactly if it vanishes nowhere but at t = 0.

    Returns what is known, whether the end is regular, its number of turns, and the steps.
    """
    size = x.size
    _set_patch(x, patch)
    mean, before = np.zeros(size, np.complex128), np.full(size, np.nan + 0j)
    place, place_low = np.zeros(size, np.complex128), np.zeros(size, np.complex128)
    trial_patch = np.zeros(size, np.complex128)
    here, steps, most, gap = np.log(options.early), 0, 0, np.inf
    yes, no = gap > 0.0, gap < 0.0  # numba compiles a function once for each constant among its arguments
    old_turns, old_winding, old_logarithm, old_distance, known_turns = 0, 0, 0.0, np.nan, 0
    for circle in range(1, options.circles + 1):
        there = here + np.log(options.shrink)
        for j in range(size):
            place[j], place_low[j] = x[j], low[j]
        arrived, more = _advance(
            eq, options, work, pivots, x, low, patch, no, complex(here, 0.0), complex(there, 0.0),
            close, extended, yes, 0.5, options.shortest, options.most_steps,
        )  # fmt: skip
        steps += more
        if not arrived:
            for j in range(size):
                x[j], low[j] = place[j], place_low[j]
            break
        here = there
        if circle < options.begin:
            continue
        most = min(most + options.first_turns, options.most_turns)
        turns, more, winding, logarithm, largest, motion = _circle(
            eq, options, work, pivots, x, low, patch, np.exp(here), close, extended, most, mean,
            place, place_low,
        )  # fmt: skip
        steps += more
        if turns == 0:
            old_turns = 0
            continue
        if turns == old_turns and winding == old_winding and winding > 0:
            rate = (logarithm - old_logarithm) / np.log(options.shrink)
            noise = 1e-25 if extended else 1e-13
            if (
                abs(rate - winding / turns) <= options.growth
                and abs(mean[0]) <= max(options.vanished * largest, noise)
                and largest > 1e3 * noise
            ):
                for j in range(size):
                    end[j], end_low[j] = mean[j], 0j
                end[0] = 0j
                return INFINITE, False, turns, steps
        if exact and turns == 1:
            for j in range(size):
                place[j], place_low[j] = mean[j], 0j
            regular = _settled(eq, options, work, pivots, place, place_low, trial_patch)
            if regular and _distance(place, mean) <= 1e-4 * motion + 1e-9 and abs(place[0]) > 1e-20:
                for j in range(size):
                    end[j], end_low[j] = place[j], place_low[j]
                return FINITE, True, turns, steps
        difference, distance = _distance(mean, before), _distance(mean, x)
        if turns == old_turns and difference < gap:
            power = options.shrink ** (0.5 / turns)
            if distance <= power * old_distance + options.agreed:
                for j in range(size):
                    place_low[j] = 0j
                if _holds(eq, work, mean, place_low) <= options.holds:
                    gap, known_turns = difference, turns
                    for j in range(size):
                        end[j], end_low[j] = mean[j], 0j
        for j in range(size):
            before[j] = mean[j]
        old_turns, old_winding, old_logarithm, old_distance = turns, winding, logarithm, distance
        if gap <= options.agreed and winding == 0:
            break
    # The first coordinate of a finite end is more than what is left of one that vanishes.
    found = gap <= options.accepted and abs(end[0]) > 10.0 * gap + 1e-9
    if exact and (found or extended):
        for j in range(size):
            place[j], place_low[j] = x[j], low[j]
        for _ in range(3):  # the digits that doubles do not have
            _corrected(eq, work, pivots, place, place_low, patch, complex(np.exp(here), 0.0), yes)
        arrived, more = _advance(
            eq, options, work, pivots, place, place_low, patch, no, complex(here, 0.0),
            complex(np.log(options.deepest), 0.0), close, yes, yes, 0.02, options.shortest,
            options.most_steps,
        )  # fmt: skip
        steps += more
        regular = arrived and _settled(eq, options, work, pivots, place, place_low, trial_patch)
        if regular and abs(place[0]) > 1e-20:
            for j in range(size):
                end[j], end_low[j] = place[j], place_low[j]
            return FINITE, True, 1, steps
    if not found:
        return UNKNOWN, False, 0, steps
    return FINITE, False, known_turns, steps


@inner
def _path(eq, options, work, pivots, x, low, close, extended, exact, nudge, end, end_low):  # type: ignore[no-untyped-def]
    """Follows one path from t = 1 to 0; returns what is known, regular, turns and steps."""
    size = x.size
    patch = np.zeros(size, np.complex128)
    yes, no = close > 0.0, close < 0.0
    _set_patch(x, patch)
    arrived, steps = _advance(
        eq, options, work, pivots, x, low, patch, yes, 1.0 + 0j, complex(options.early, 0.0), close,
        extended, no, 0.1, options.shortest, options.most_steps,
    )  # fmt: skip
    if not arrived:
        return UNKNOWN, False, 0, steps
    for j in range(size):
        end[j], end_low[j] = x[j], low[j]
    arrived, more = _advance(
        eq, options, work, pivots, end, end_low, patch, yes, complex(options.early, 0.0), 0j, close,
        extended, no, 0.1, options.shortest_to_the_end, options.most_steps_to_the_end,
    )  # fmt: skip
    steps += more
    if arrived:
        regular = _settled(eq, options, work, pivots, end, end_low, patch)
        if regular and not exact:
            regular = _returns(eq, work, pivots, end, patch, nudge, no)
        if regular and (abs(end[0]) > 1e-20 or not exact):
            return FINITE, True, 1, steps
    known, regular, turns, more = _endgame(
        eq, options, work, pivots, x, low, patch, close, extended, exact, end, end_low
    )
    if known == FINITE and not exact:
        regular = _returns(eq, work, pivots, end, patch, nudge, no)
    return known, regular, turns, steps + more


@kept
def follow_paths(eq, options, starts, which, close, extended, nudge, ends, remainders, known, regular, turns):  # type: ignore[no-untyped-def]
    """Follows paths from t = 1 to t = 0, and returns the number of steps.

    Without `nudge` the equations are exact, and solutions as near to each other as 1e-9 are told apart;
    otherwise an end is regular if Newton's method leads back to it after a displacement of this length.
    """
    count, size = starts.shape
    work = _Work(
        np.zeros(eq.constants.size, np.complex128),
        np.zeros((eq.constants.size, 4)),
        np.zeros((size, size), np.complex128),
        np.zeros(size, np.complex128),
        np.zeros(size, np.complex128),
        np.zeros((4, size), np.complex128),
        np.zeros(size, np.complex128),
        np.zeros(size, np.complex128),
    )
    for k in range(eq.constants.size):
        value, rest = eq.constants[k], eq.remainders[k]
        work.registers[k] = value
        work.wide[k, 0], work.wide[k, 1], work.wide[k, 2], work.wide[k, 3] = (
            value.real, rest.real, value.imag, rest.imag,
        )  # fmt: skip
    pivots = np.zeros(size, np.int64)
    total = 0
    for p in range(count):
        x, low = starts[p].copy(), np.zeros(size, np.complex128)
        if eq.own.shape[0] > 0:
            for k in range(eq.own.shape[1]):
                value = eq.own[which[p], k]
                work.registers[size + 4 + k] = value
                work.wide[size + 4 + k, 0], work.wide[size + 4 + k, 2] = value.real, value.imag
        found, simple, often, steps = _path(
            eq, options, work, pivots, x, low, close, extended, nudge == 0.0, nudge, ends[p],
            remainders[p],
        )  # fmt: skip
        known[p], regular[p], turns[p] = found, simple, often
        scale = 2.0 ** -np.round(np.log2(_norm(ends[p])))  # a power of 2 rounds nothing
        for j in range(size):
            ends[p, j] *= scale
            remainders[p, j] *= scale
        total += steps
    return total
