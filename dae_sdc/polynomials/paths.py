"""Compiled continuation of single paths of polynomial homotopies. This imports numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dae_sdc.dae.compiling import inner, kept
from dae_sdc.polynomials.equations import FINITE, INFINITE, UNKNOWN, Care
from dae_sdc.polynomials.path_newton import (
    Point,
    Work,
    correct,
    distance,
    evaluate,
    norm,
    prepare,
    set_patch,
    set_tangent,
)


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
    """Behaviour of a path on a closed circle around t = 0.

    The fields are the number of turns until the path closes, 0 if it does not; the winding number of the
    first coordinate around 0; the mean logarithm of its size and its largest size; and the largest distance
    of the path from its start.
    """

    turns: Any
    winding: Any
    logarithm: Any
    largest: Any
    motion: Any


@kept
def follow_paths(eq, starts, which, care, ends, remainders, known, regular):  # type: ignore[no-untyped-def]
    """Follow paths from t = 1 to t = 0; returns the number of steps."""
    # Shapes: starts (p, n + 1), which (p,), ends and remainders (p, n + 1), known and regular (p,).
    options, (count, size) = care.options, starts.shape
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
        known[p], regular[p], steps = _path(
            eq, options, work, point, care, Point(ends[p], remainders[p], patch)
        )
        scale = 2.0 ** -np.round(np.log2(norm(ends[p])))  # a power of 2 rounds nothing
        for j in range(size):
            ends[p, j] *= scale
            remainders[p, j] *= scale
        total += steps
    return total


# Numba compiles a copy of what is handed the constant False or True, for this constant; bool(0) and bool(1)
# are to it as what is known at run time alone.
@inner
def _path(eq, options, work, point, care, end):  # type: ignore[no-untyped-def]
    """Follow a path from t = 1 to 0; returns the state of its end, whether it is regular, and the steps."""
    exact, game = care.displacement == 0.0, complex(options.endgame_start, 0.0)
    set_patch(point.x, point.patch)
    leg = _Leg(1.0 + 0j, game, False, True, 0.1, options.shortest_step, options.most_steps)
    arrived, steps = _advance(eq, options, work, point, care, leg)
    if not arrived:
        return UNKNOWN, False, steps
    _copy(point, end)
    leg = _Leg(game, 0j, False, True, 0.1, options.shortest_step_to_end, options.most_steps_to_end)
    arrived, more = _advance(eq, options, work, end, care, leg)
    steps += more
    if arrived:
        regular = _converges(eq, options, work, end)
        if regular and not exact:
            regular = _returns(eq, work, end, care.displacement, bool(0))
        if regular and (abs(end.x[0]) > options.vanishing_coordinate or not exact):
            return FINITE, True, steps
    known, regular, more = _endgame(eq, options, work, point, care, end)
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
def _is_on_path(eq, options, work, trial, t, care, leg, error, noise):  # type: ignore[no-untyped-def]
    """Whether Newton corrections of a trial point, the first of length ``error``, converge to the path."""
    again = correct(eq, work, trial, t, care.extended)
    if leg.logarithmic:
        good = again <= max(0.01 * error, 0.1 * noise)
    else:
        good = again <= 0.01 * error and again**3 <= 1e-13 * error**2
        good = good or again <= (0.01 if care.extended else 1.0) * options.newton_correction_tolerance
    if good and (leg.logarithmic or care.extended):
        correct(eq, work, trial, t, care.extended)
    return good


@inner
def _advance(eq, options, work, point, care, leg):  # type: ignore[no-untyped-def]
    """Follow a path along a leg; returns whether it has arrived, and the number of steps."""
    slope, close, extended = work.slope, care.predictor_tolerance, care.extended
    trial = Point(work.trial, work.trial_low, point.patch)
    noise = 1e-7 * options.newton_noise if extended else options.newton_noise
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
                widest = options.endgame.predictor_factor * close
                allowed = min(max(widest * norm(slope), noise), widest)
            if error <= allowed:
                good = _is_on_path(eq, options, work, trial, t, care, leg, error, noise)
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
    return True, steps


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
        for _ in range(4):
            if correct(eq, work, trial, 0j, extended) == np.inf:
                return False
        if not distance(trial.x, x) <= 0.01 * displacement:
            return False
    return True


@inner
def _converges(eq, options, work, point):  # type: ignore[no-untyped-def]
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
    if most <= options.regular_pivot_ratio * least:
        return True
    return _returns(eq, work, point, options.displacement, before > 0.0)


@inner
def _go_round(eq, options, work, point, radius, care, most, mean, place):  # type: ignore[no-untyped-def]
    """Write the mean over a closed circle around t = 0, by Cauchy's formula the end, to ``mean``."""
    x, size, samples = point.x, point.x.size, options.endgame.samples
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
                True, False, 1.0, 0.01, options.endgame.most_steps_per_sample,
            )  # fmt: skip
            arrived, more = _advance(eq, options, work, place, care, arc)
            steps += more
            if not arrived:
                return _Circle(0, 0, 0.0, 0.0, 0.0), steps
            ratio = place.x[0] * here.conjugate()
            turned += np.arctan2(ratio.imag, ratio.real)
        closed = True
        for j in range(size):  # each by its own motion: the first coordinate may be small, and close later
            closed = closed and abs(place.x[j] - x[j]) <= options.endgame.closing * furthest[j] + noise
        if closed:
            for j in range(size):
                mean[j] /= turn * samples
            winding = int(np.round(turned / (2.0 * np.pi)))
            return _Circle(turn, winding, logarithm / (turn * samples), largest, furthest.max()), steps
    return _Circle(0, 0, 0.0, 0.0, 0.0), steps


@inner
def _goes_to_infinity(game, circle, before, first_mean, extended):  # type: ignore[no-untyped-def]
    """Whether the first coordinate vanishes like the power of t that its winding on two circles gives."""
    if circle.turns != before.turns or circle.winding != before.winding or circle.winding <= 0:
        return False
    rate = (circle.logarithm - before.logarithm) / np.log(game.radius_ratio)
    noise = 1e-25 if extended else 1e-13
    return (
        abs(rate - circle.winding / circle.turns) <= game.growth_tolerance
        and abs(first_mean) <= max(game.vanishing_mean * circle.largest, noise)
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
def _endgame(eq, options, work, point, care, end):  # type: ignore[no-untyped-def]
    """The end of a path from the start of the endgame on, by Cauchy's integral over circles around t = 0.

    Means over circles that enclose other branch points than t = 0 may agree too, but not at a solution. So
    the equations must hold at the mean, and the distance of the path from it must decrease at least as t to
    the power 1 / (number of turns). At an end at infinity the first coordinate vanishes: its mean is 0, it
    winds around 0 m times in w turns of the path, and its size scales from circle to circle as t to the power
    m / w. By Jensen's formula the mean logarithm does so exactly if it vanishes nowhere but at t = 0.

    Returns the state of the end, whether it is regular, and the steps.
    """
    size, game, exact = point.x.size, options.endgame, care.displacement == 0.0
    set_patch(point.x, point.patch)
    mean, mean_before = np.zeros(size, np.complex128), np.full(size, np.nan + 0j)
    place = Point(np.zeros(size, np.complex128), np.zeros(size, np.complex128), point.patch)
    trial = Point(place.x, place.low, np.zeros(size, np.complex128))
    here, steps, most, gap = np.log(options.endgame_start), 0, 0, np.inf
    before, distance_before = _Circle(0, 0, 0.0, 0.0, 0.0), np.nan
    for number in range(1, game.circles + 1):
        there = here + np.log(game.radius_ratio)
        _copy(point, place)
        inwards = _Leg(
            complex(here, 0.0), complex(there, 0.0), True, False, 0.5, options.shortest_step,
            options.most_steps,
        )  # fmt: skip
        arrived, more = _advance(eq, options, work, point, care, inwards)
        steps += more
        if not arrived:
            _copy(place, point)
            break
        here = there
        if number < game.first_circle:
            continue
        most = min(most + game.more_turns, game.most_turns)
        circle, more = _go_round(eq, options, work, point, np.exp(here), care, most, mean, place)
        steps += more
        if circle.turns == 0:
            before = circle
            continue
        if _goes_to_infinity(game, circle, before, mean[0], care.extended):
            _set(end, mean)
            end.x[0] = 0j
            return INFINITE, False, steps
        if exact and circle.turns == 1:
            _set(place, mean)
            regular = _converges(eq, options, work, trial)
            near = distance(place.x, mean) <= 1e-4 * circle.motion + 1e-9
            if regular and near and abs(place.x[0]) > options.vanishing_coordinate:
                _copy(place, end)
                return FINITE, True, steps
        difference, away = distance(mean, mean_before), distance(mean, point.x)
        if circle.turns == before.turns and difference < gap:
            power = game.radius_ratio ** (0.5 / circle.turns)
            if away <= power * distance_before + game.agreement:
                _set(place, mean)
                if _largest_value(eq, work, place) <= game.largest_value:
                    gap = difference
                    _set(end, mean)
        for j in range(size):
            mean_before[j] = mean[j]
        before, distance_before = circle, away
        if gap <= game.agreement and circle.winding == 0:
            break
    # The first coordinate of a finite end must exceed the error of one that vanishes.
    found = gap <= game.accepted_difference and abs(end.x[0]) > 10.0 * gap + 1e-9
    if exact and (found or care.extended):
        _copy(point, place)
        regular, more = _descend(eq, options, work, place, care, here, trial)
        steps += more
        if regular:
            _copy(place, end)
            return FINITE, True, steps
    return (FINITE if found else UNKNOWN), False, steps


@inner
def _descend(eq, options, work, place, care, here, trial):  # type: ignore[no-untyped-def]
    """Follow a path in double-double arithmetic from log t = here to tiny t; whether its end is regular."""
    for _ in range(3):  # Newton steps for the low parts
        correct(eq, work, place, complex(np.exp(here), 0.0), bool(1))
    down = _Leg(
        complex(here, 0.0), complex(np.log(options.endgame.smallest_t), 0.0), True, False, 0.02,
        options.shortest_step, options.most_steps,
    )  # fmt: skip
    extended = Care(care.predictor_tolerance, True, care.displacement, options)
    arrived, steps = _advance(eq, options, work, place, extended, down)
    regular = arrived and _converges(eq, options, work, trial)
    return regular and abs(place.x[0]) > options.vanishing_coordinate, steps
