"""Starts of solutions: sizes of unknowns and time there, by the equations, and whether values can be one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import sparse

from dae_sdc.dae.jacobian import ROOT_EPS, Linearization, groups_of_columns, linearize
from dae_sdc.dae.linear import largest
from dae_sdc.dae.memory import COUNTERS, counts_of
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import (
    FLOOR,
    LEAST_CHANGES,
    LONGEST_TIME,
    NOISE_OF_START,
    SMALLEST_TERM,
    Balance,
    Terms,
    balanced,
    balanced_sizes,
    zeros,
)
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.errors import EvaluationError, InconsistentStateError, SolveError
from dae_sdc.sharing import Recent

# Part of the terms of an equation by which they may differ between two states and count as the same.
LARGEST_COEFFICIENT_CHANGE = 0.5
# Part of a move that is the smallest one tried from 0: coefficients that differ even there jump at 0, as the
# sign of x does, and say nothing of sizes.
SMALLEST_PART_OF_MOVE = 2.0**-120
REACH_HALVINGS = 7  # How often the interval of logarithms is halved in which a reach lies.
# REMEMBERED_STARTS, LARGEST_REMEMBERED: results at starts that are kept, two for a run, and most unknowns.
REMEMBERED_STARTS, LARGEST_REMEMBERED = 128, 1000
_STARTS: Final[Recent[tuple[Any, ...], tuple[Any, ...]]] = Recent(REMEMBERED_STARTS)


def key_of_start(problem: ProblemDAE, u: MeshDAE, t: float, *about: Any) -> Any:
    """What tells the start of a run, and what else is named, from others; None for equations in Python."""
    kernels = problem.kernels
    same = problem.starts_alike and not problem.located and problem.n <= LARGEST_REMEMBERED
    if not (same and kernels and kernels.jacobian):
        return None
    problem.start_step(u, t)  # on whose choice the parameters depend
    of_class = type(problem), kernels.residual, kernels.jacobian, problem.variable_index, problem.interval
    numbers = problem.packed_parameters, u, t, *about
    return of_class, *[x.tobytes() if isinstance(x, np.ndarray) else x for x in numbers]


def known_start(key: Any) -> tuple[Any, ...] | None:
    """What is kept for a start, its result first."""
    return _STARTS.get(key)


def restore(problem: ProblemDAE, kept: tuple[Any, ...], with_sizes: bool = True) -> Any:
    """The result that is kept for a start, with sizes of the problem and its counts as behind it."""
    if with_sizes:
        problem.run_scales.set_state(kept[1])
    for name, count in zip(COUNTERS, kept[2], strict=True):
        problem.work_counters[name].niter += count
    return kept[0]


def remember(problem: ProblemDAE, key: Any, before: Any, result: Any) -> None:
    """Keep a result for a start, with the sizes that the problem has now and what was counted since."""
    if key is not None:
        work = [now - then for now, then in zip(counts_of(problem), before, strict=True)]
        # With the kernels, no others come to stand at their addresses.
        _STARTS.keep(key, (result, problem.run_scales.get_state(), work, problem.kernels))


class Start(NamedTuple):
    """Equations at the start of a run, linearised."""

    # u0, t0: shape (n,). State and time.
    u0: MeshDAE
    t0: float
    parts: Linearization  # dF/du' and dF/du there with u' = 0.
    terms: Terms  # Those of ``parts``, and constants.
    balance: Balance  # Sizes by which the terms are weighed.


def reaches(problem: ProblemDAE, start: Start, moves: Vector) -> Vector:
    """Largest moves of single unknowns with which the coefficients of derivatives stay what they are."""
    # Sizes balance terms of equations that are linearised at u' = 0, where dF/du does not tell how dF/du'
    # depends on u. With (a + u) u' = 1, sizes that follow from a hold while u changes by less than a.
    # Shapes: moves (n,) -> (n,).
    limits = np.full(problem.n, np.inf)
    change = _Change(problem, start)
    moving = np.flatnonzero(moves > 0.0)
    if not change.anywhere(moving, moves[moving]):
        return limits
    values = np.abs(start.u0.view(np.ndarray))
    groups = [group[moves[group] > 0.0] for group in groups_of_columns(problem)]
    for group in _bending(change, [group for group in groups if len(group)], moves):
        high = moves[group]
        low = np.where(values[group] > 0.0, values[group], SMALLEST_PART_OF_MOVE * high)
        bent = change.of(group, high) > LARGEST_COEFFICIENT_CHANGE
        bent &= (values[group] > 0.0) | (change.of(group, low) <= LARGEST_COEFFICIENT_CHANGE)
        for _ in range(REACH_HALVINGS):
            middle = np.sqrt(low) * np.sqrt(high)
            much = change.of(group, middle) > LARGEST_COEFFICIENT_CHANGE
            low, high = np.where(much, low, middle), np.where(much, middle, high)
        limits[group[bent]] = low[bent]
    return limits


def _bending(change: _Change, groups: list[Any], moves: Vector) -> list[Any]:
    """Groups of columns in which a move changes the equations, of groups that do so together."""
    if len(groups) == 1:
        return groups
    bending, half = [], len(groups) // 2
    for part in (groups[:half], groups[half:]):
        together = np.concatenate(part)
        if change.anywhere(together, moves[together]):
            bending += _bending(change, part, moves)
    return bending


class _Change:
    """By how much moves of unknowns change the terms of the equations."""

    def __init__(self, problem: ProblemDAE, start: Start) -> None:
        self._problem, self._start = problem, start
        sizes, time = start.balance.sizes, start.balance.time
        terms = start.terms
        weights = np.append(sizes, 1.0)[terms.columns] / np.where(terms.derivatives, time, 1.0)
        self._rates = sizes / time
        self._totals = np.bincount(terms.rows, terms.entries * weights, problem.n)
        self._slope = problem.dtype_f(problem.init)

    def anywhere(self, group: Any, moves: Vector) -> bool:
        """Whether moves of all unknowns of a group together change an equation much."""
        return bool((self._of_equations(group, moves) > LARGEST_COEFFICIENT_CHANGE).any())

    def of(self, group: Any, moves: Vector) -> Vector:
        """Largest relative change of an equation by each unknown of a group that shares no equation."""
        changes = self._of_equations(group, moves)
        if len(group) == 1:
            return np.array([changes.max(initial=0.0)])
        pattern = self._problem.sparsity.tocsc()
        columns = (pattern.indices[pattern.indptr[j] : pattern.indptr[j + 1]] for j in group)
        return np.array([changes[rows].max(initial=0.0) for rows in columns])

    def _of_equations(self, group: Any, moves: Vector) -> Vector:
        """Relative changes of the terms of every equation, infinite where they are not defined."""
        start, problem = self._start, self._problem
        values = start.u0.view(np.ndarray).copy()
        values[group] += np.where(values[group] < 0.0, -moves, moves)
        try:
            there = linearize(problem, values, self._slope, start.t0)
        except SolveError:
            return np.full(problem.n, np.inf)
        changes = abs(there.mass - start.parts.mass) @ self._rates
        relative: Vector = np.divide(changes, self._totals, out=np.zeros(problem.n), where=self._totals > 0.0)
        return relative


# Times, in units of the interval, at which F is evaluated for constants that are 0 at the start.
LOOK_TIMES: tuple[float, ...] = (0.29, 0.61, 0.97, 2.0**-10)
STARTING_ROUND_OFF = 2.0**-40  # Part of the terms of an equation below which their sum is 0.
DOUBTFUL_CONSTANT = 2.0**-20  # Part of what F is later, below which the errors of its terms are asked for.
LARGEST_TRIAL = 2.0**40  # First size that is tried for an unknown at 0, for differences of F.
# TRIAL_RATIO, SIZE_TRIALS: ratio of a size that is tried to the one before, and how many are tried.
TRIAL_RATIO = 2.0**-10
SIZE_TRIALS = 12
# LARGE_CONSTANT, HALVINGS_OF_TIME: constant of an equation, in units of its slopes, that may be that of a
# limited function; and earlier times at which such a function may be steep.
LARGE_CONSTANT, HALVINGS_OF_TIME = 1e4, 12
LARGEST_GROWTH = 100.0  # Ratio of the slopes of an equation by long differences and by short ones.
LARGEST_BEND = 1e-5  # Relative departure of F from a linear function up to which it counts as one.


def begin_scales(
    problem: ProblemDAE, u0: MeshDAE, t0: float, span: float, rtol: float, atol: Any = None
) -> None:
    """Set the scales of a problem at the start of a run; by ``atol`` alone where the Jacobian is given."""
    # Shapes: atol (n,).
    u0, scales = without_left_overs(problem, u0), problem.run_scales
    values, scales.least_rate = u0.view(np.ndarray), LEAST_CHANGES / span
    if atol is not None and np.all(atol > 0.0) and getattr(problem, "jacobian", None) is not None:
        sizes = np.maximum(np.abs(values), atol / rtol)
        plain = Balance.unknown(values, span)._replace(sizes=sizes, known=~zeros(values))
        scales.begin(values, plain, rtol)
        return
    # The next attempt at a run, whose floors are others, begins with the same balance.
    key = key_of_start(problem, u0, t0, span, rtol, scales.running, scales.nominal)
    if (kept := known_start(key)) is not None:
        scales.begin(values, restore(problem, kept, with_sizes=False), rtol)
        return
    with suppress(SolveError):  # a Jacobian that cannot be evaluated is reported when a step needs it
        before, balance = counts_of(problem), _balance_at_start(problem, u0, t0, span, rtol)
        remember(problem, key, before, balance)
        scales.begin(values, balance, rtol)


def _balance_at_start(problem: ProblemDAE, u0: MeshDAE, t0: float, span: float, rtol: float) -> Balance:
    """Sizes that balance the terms of the equations at the start of a run."""
    guess_scales(problem, u0, t0, span, rtol)
    slope = problem.dtype_f(problem.init)
    parts = linearize(problem, u0, slope, t0)
    terms, balance = _balance(problem, u0, t0, parts, span)
    if _are_tried(problem) and not balance.known.all():
        problem.run_scales.begin(u0.view(np.ndarray), balance, rtol)
        # Far from there F may be linear with another slope.
        most = np.where(balance.sizes > 0.0, balance.sizes / ROOT_EPS, LARGEST_TRIAL)
        _try_sizes(problem, u0, slope, t0, most, most / balance.time)
        # Central differences do not see squares at 0, which are no terms there.
        with suppress(SolveError):  # their points are far away, where F need not be defined
            other = linearize(problem, u0, slope, t0, accurate=True)
            # An exponential function has other slopes there, which are none at the start.
            before, after = (abs(of.stiffness) @ np.ones(problem.n) for of in (parts, other))
            if not (after > LARGEST_GROWTH * before)[before > 0.0].any():
                parts = other
                terms, balance = _balance(problem, u0, t0, parts, span)
    start = Start(u0, t0, parts, terms, balance)
    return _within_reach(problem, start, span, rtol) if problem.run_scales.running else balance


def without_left_overs(problem: ProblemDAE, u0: MeshDAE) -> MeshDAE:
    """A state with 0 in place of start values that may be 0, which would pass for terms of F."""
    values = u0.view(np.ndarray)
    left_over = zeros(values) | (np.abs(values) <= problem.run_scales.moves)
    if not values[left_over].any():
        return u0
    return attach(np.where(left_over, 0.0, values), problem.n_diff)


def guess_scales(problem: ProblemDAE, u0: MeshDAE, t0: float, span: float, rtol: float) -> None:
    """Set the scales of a problem to sizes with which differences of F are accurate."""
    values = u0.view(np.ndarray)
    problem.run_scales.begin(values, Balance.unknown(values, span), rtol)
    problem.start_step(u0, t0)
    if _are_tried(problem):
        most = np.full(problem.n, LARGEST_TRIAL)
        _try_sizes(problem, u0, problem.dtype_f(problem.init), t0, most, most)


def _are_tried(problem: ProblemDAE) -> bool:
    """Whether sizes for differences of F must be tried: without a Jacobian, and where none are given."""
    return getattr(problem, "jacobian", None) is None and problem.run_scales.running


def _balance(
    problem: ProblemDAE, u0: MeshDAE, t0: float, parts: Linearization, span: float
) -> tuple[Terms, Balance]:
    """Terms of the linearised equations at a state, and the sizes that balance them."""
    scales, values = problem.run_scales, u0.view(np.ndarray)
    constants = _constants(problem, u0, problem.dtype_f(problem.init), parts.stiffness, t0, span)
    known = values if scales.running else np.maximum(scales.nominal, np.abs(values))
    stiffness: Any = parts.stiffness
    # Beside u' in the same equation such an entry matters at no time of the run: it is rounding.
    rounding = LONGEST_TIME * span * abs(stiffness) < SMALLEST_TERM * abs(parts.mass)
    where = stiffness.multiply if sparse.issparse(stiffness) else stiffness.__mul__
    stiffness = stiffness - where(rounding)
    terms = Terms.of(parts.mass, stiffness, constants)
    return terms, balanced_sizes(terms, known, span)


def _within_reach(problem: ProblemDAE, start: Start, span: float, rtol: float) -> Balance:
    """The balance at a start, with smaller sizes where the equations are others before they are reached."""
    # A change that a size declares to be noise, or an error within the tolerance, may change the equations
    # much.
    values, balance = start.u0.view(np.ndarray), start.balance
    part = max(NOISE_OF_START, FLOOR * rtol)
    moves = part * np.where(balance.known, balance.own, np.maximum(balance.own, balance.sizes))
    moves[np.abs(values) >= moves] = 0.0
    if not moves.any():
        return balance
    reach = reaches(problem, start, moves)
    if not np.isfinite(reach).any():
        return balance
    return balanced_sizes(start.terms, values, span, reach)


def _constants(
    problem: ProblemDAE, u0: MeshDAE, slope: MeshDAE, stiffness: Any, t0: float, span: float
) -> Vector:
    """abs(F) at the start with u' = 0; where that is 0 or rounding, at a later time."""
    least = STARTING_ROUND_OFF * (abs(stiffness) @ np.abs(u0.view(np.ndarray)))
    constants = np.abs(problem.evaluate(u0, slope, t0))
    constants[constants <= least] = 0.0
    errors: Any = getattr(problem, "residual_errors", None)
    for place in LOOK_TIMES:
        # The start need not be a state that F is defined for at other times, nor one near a solution.
        value = np.abs(problem.evaluate(u0, slope, t0 + place * span))
        # Terms of time alone may cancel at the start and leave their rounding.
        rounding = constants <= STARTING_ROUND_OFF * value
        if errors is not None and (~rounding & (constants <= DOUBTFUL_CONSTANT * value)).any():
            rounding |= constants <= errors(u0, slope, t0)
        later = rounding & (value > least) & (value < np.inf)
        if later.any():
            # Where such a function is limited it is flat: it has been steep before.
            large = (value > LARGE_CONSTANT * (abs(stiffness) @ np.ones(problem.n))).any()
            parts = place * span * 0.5 ** np.arange(HALVINGS_OF_TIME if large else 1)
            value /= np.max([_growth(problem, u0, slope, stiffness, t0 + part) for part in parts], axis=0)
            np.copyto(constants, value, where=later)
        if constants.all():
            break
    return constants


def _growth(problem: ProblemDAE, u0: MeshDAE, slope: MeshDAE, stiffness: Any, t: float) -> Vector:
    """How many times as steep each equation is at a later time, 1 where it is no steeper."""
    # Exponential functions of time and unknowns are as large as they are steep: the unknowns that balance
    # them are far smaller than those that balance such a value with the slopes at the start.
    growth = np.ones(problem.n)
    with suppress(SolveError), np.errstate(over="ignore"):
        there, before = linearize(problem, u0, slope, t).stiffness, sparse.coo_array(stiffness)
        some = before.data != 0.0
        rows, columns = (places[some] for places in before.coords)
        ratios = np.abs(np.asarray(there[rows, columns]).ravel() / before.data[some])
        np.maximum.at(growth, rows, np.where(np.isfinite(ratios), ratios, 1.0))
    return growth


def _try_sizes(problem: ProblemDAE, u0: MeshDAE, slope: MeshDAE, t0: float, *most: Vector) -> None:
    """Give unknowns at 0, and derivatives, the largest size over which most equations are linear."""
    scales = problem.run_scales
    base = problem.evaluate(u0, slope, t0).copy()

    def change(values: Any, of: Any, steps: Vector) -> Vector:
        before = values[of]
        values[of] = steps
        sizes = problem.evaluate(u0, slope, t0) - base
        values[of] = before
        return sizes

    sides = (u0.view(np.ndarray), scales.unknowns, most[0]), (slope.view(np.ndarray), scales.rates, most[1])
    for values, sizes, largest_sizes in sides:
        at_zero = zeros(values)
        for group in groups_of_columns(problem):
            small = group[at_zero[group]]
            if not len(small):
                continue
            best, first, trial = 0, 0.0, largest_sizes[small]
            for _ in range(SIZE_TRIALS):
                steps = ROOT_EPS * trial
                once, twice = change(values, small, steps), change(values, small, 2.0 * steps)
                changed = twice != 0.0
                first = first or largest(twice)
                with np.errstate(invalid="ignore", over="ignore"):
                    straight = np.abs(twice - 2.0 * once) <= LARGEST_BEND * np.abs(twice)
                # Equations from which the unknown cancels have nothing but rounding.
                count = int((changed & straight).sum()) if largest(twice) < np.inf else 0
                if count > best or (best == 0 and count == changed.sum()):
                    best, sizes[small] = count, trial
                if count == changed.sum():
                    break
                trial = TRIAL_RATIO * trial
            if best == 0 and changed.any():
                # Noise is as large for the smallest step, and not the same twice, as a jump at 0 is; else F
                # is nowhere linear, as x^2 at 0.
                jumps = (np.abs(twice - once) <= LARGEST_BEND * np.abs(twice)).all()
                noisy = largest(twice) > ROOT_EPS * first and not jumps
                sizes[small] = largest_sizes[small] if noisy else trial


# Largest violation, relative to the size of the terms of the equation, of a consistent value.
LARGEST_VIOLATION = 1e-8
VALUE_ROUND_OFF = 1e-13  # Relative change of a value that counts as a rounding error.
# Largest coefficient of an equation, in a combination free of u', that counts as a rounding error.
UNREACHED_PART = 1e-13


def violation(problem: ProblemDAE, u: MeshDAE, t: float) -> tuple[Vector, Vector]:
    """How much of F(t, u, u') no choice of u' can remove; hidden constraints do not show."""
    # F is linearised in u' at u' = 0 and its residual projected onto the left null space of dF/du', for a
    # sparse dF/du' onto its rows of zeros.
    # Shape of the result: violation, scale (n,).
    du = problem.dtype_f(problem.init)
    residual = problem.evaluate(u, du, t)
    if not np.isfinite(residual).all():
        i = int(np.flatnonzero(~np.isfinite(residual))[0])
        raise EvaluationError(
            f"eval_f of {problem.name} returned {residual[i]} in '{problem.equation_names[i]}' "
            f"at the initial value, t={t:.6g}; check u0"
        )
    span = float(problem.interval[1] - problem.interval[0])
    span = span if span > 0.0 else 1.0
    scales, clean = problem.run_scales, without_left_overs(problem, u)
    if scales.begun or getattr(problem, "jacobian", None) is not None:
        halves = linearize(problem, clean, du, t)
    else:  # increments of differences must be those of the units of the unknowns
        scales_before = scales.get_state()
        guess_scales(problem, clean, t, span, LARGEST_VIOLATION)
        halves = linearize(problem, clean, du, t)
        scales.set_state(scales_before)
    remaining, spread = _unreached(halves.mass)
    remains, terms = remaining(residual), abs(halves.stiffness)
    # What was large in an arc of the run before leaves its rounding.
    sizes = np.maximum(np.abs(u.view(np.ndarray)), scales.before)
    scale = spread(np.asarray(terms @ sizes).ravel())
    if (np.abs(remains) <= LARGEST_VIOLATION * scale).all():
        return remains, scale
    errors = VALUE_ROUND_OFF * np.asarray(terms @ _balance(problem, clean, t, halves, span)[1].sizes).ravel()
    residual_errors: Any = getattr(problem, "residual_errors", None)
    if residual_errors is not None:  # terms without unknowns, as those of time, have errors too
        errors = np.maximum(errors, residual_errors(u, du, t))
    return remains, scale + spread(errors) / LARGEST_VIOLATION


def _unreached(mass: Any) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector]]:
    """Projection on the left null space of dF/du', of a residual and of the sizes of its terms."""
    if sparse.issparse(mass):
        without_derivative = np.asarray(abs(mass).sum(axis=1)).ravel() == 0.0
        return lambda residual: np.where(without_derivative, residual, 0.0), lambda sizes: sizes
    basis, weights = _left_null_space(mass.tobytes(), len(mass))
    parts = np.abs(basis)

    def spread(sizes: Vector) -> Vector:
        # Equations that are no part of a combination still bring their rounding errors into it.
        rounding = UNREACHED_PART * (sizes / weights).max(initial=0.0)
        return np.asarray(parts @ np.maximum(parts.T @ (sizes / weights), rounding) * weights)

    return lambda residual: basis @ (basis.T @ (residual / weights)) * weights, spread


@lru_cache(maxsize=8)
def _left_null_space(entries: bytes, n: int) -> tuple[Vector, Vector]:
    """A basis of combinations of the rows of a matrix that vanish, and the weights by which they count."""
    matrix = np.frombuffer(entries).reshape(n, n)
    # Unknowns and equations differ by orders of magnitude (amperes beside volts); ranks must not see that.
    weights, columns = balanced(matrix)
    left, values, _ = np.linalg.svd(matrix / weights[:, None] / columns)
    rank = int((values > n * np.finfo(float).eps * max(values[0], 1e-300)).sum())
    basis = left[:, rank:]
    basis[np.abs(basis) < UNREACHED_PART] = 0.0
    return basis, weights


def check_consistent(problem: ProblemDAE, u: MeshDAE, t: float) -> None:
    """Refuse a start value that violates an equation."""
    # Hidden constraints do not show in F; a problem that knows its own looks at them first.
    own_check: Callable[[MeshDAE, float], None] | None = getattr(problem, "check_start", None)
    if own_check is not None:
        own_check(u, t)
    problem.start_step(u, t)
    worst, relative, remains, allowed = _worst(problem, u, t)
    if relative[worst] > LARGEST_VIOLATION and getattr(problem, "in_force", None) is not None:
        # On the border of a jump, u0 may satisfy the equations at that point alone, as sign(0) = 0.
        problem.in_force = None
        at_border = _worst(problem, u, t)
        problem.start_step(u, t)
        if at_border[1].max() <= LARGEST_VIOLATION:
            return
    if relative[worst] > LARGEST_VIOLATION:
        others = int((relative > LARGEST_VIOLATION).sum()) - 1
        raise InconsistentStateError(
            f"u0 of {problem.name} violates equation '{problem.equation_names[worst]}' "
            f"at t={t:.6g}: residual {remains[worst]:.2g} (tolerance {allowed[worst]:.1e})"
            + (f" and {others} more" if others else "")
            + "; start='consistent' takes the nearest consistent values, or pass a consistent u0"
        )


def _worst(problem: ProblemDAE, u: MeshDAE, t: float) -> tuple[int, Vector, Vector, Vector]:
    """The equation that is violated most, and of all relative violations, residuals and allowed ones."""
    remains, scale = violation(problem, u, t)
    relative = np.divide(np.abs(remains), scale, out=np.abs(remains) / 1e-300, where=scale > 0.0)
    relative[np.abs(remains) < np.finfo(float).tiny] = 0.0
    return int(relative.argmax()), relative, remains, LARGEST_VIOLATION * scale
