"""The modified Newton iteration as one loop, for Python objects and for compiled code alike.

What is written here keeps to the part of Python that numba compiles. The operations it is made of, from
:func:`correct` to :func:`factor`, are methods of the object ``work`` in Python; compiled code has its own,
see :mod:`dae_sdc.compiled.machine_newton`.
"""

from __future__ import annotations

from typing import Any

SLOW_CONTRACTION = 0.2
"""Contraction above which a kept factorisation is renewed at once."""

DIVERGING_CONTRACTION = 0.9
"""Contraction above which an iterate is given up, and the solve begins again with a new matrix each time."""

AGED_CONTRACTION = 0.01
"""Contraction above which a kept factorisation is renewed when the next step begins."""

LEAST_CONTRACTION = 1e-4
"""Smallest contraction that is believed: a measured one may be luck, and the matrix ages."""

BELIEVED_DECREASE = 0.5
"""Part of the first correction of a solve that the next one at this node must fall below to trust its rate.

Errors of one node come back from the others: a matrix that contracts well along the solution may hardly
contract what the sweeps bring back."""

LAST_CORRECTION = 0.1
"""Part of the tolerance below which a correction is the last one, whatever the contraction."""

ROUND_OFF_CORRECTION = 1e-3
"""Relative correction above which an iteration that stands still is lost and not at round-off."""

BACKWARD_ERROR = 64.0 * 2.0**-52
"""Backward error at which an iteration that no longer contracts is as exact as the arithmetic allows."""

AGE, RATE, IS_AGED, LAST_CHANGE = 0, 1, 2, 3
"""Places of what is known of a kept matrix: the number of the linearisation it was made from (negative
where there is no matrix), its contraction, whether that was once above :data:`AGED_CONTRACTION`, and the
first correction of the last solve with it."""

SOLVED, UNSOLVED, SINGULAR = 0, 1, 2
"""How an iteration ends."""


NEWEST, NOT_THE_SAME, HERE = 0, 1, 2
"""Which linearisation a matrix is to be made of.

``NEWEST`` is the newest that is known, or one at the iterate if none is. ``NOT_THE_SAME`` is the newest
unless the kept matrix is made of it, and then one at the iterate. ``HERE`` is one at the iterate."""


def correct(work: Any) -> float:
    """Evaluate the residual at the iterate and solve for the correction; the size of it."""
    size: float = work.correct()
    return size


def move(work: Any) -> None:
    """Subtract the correction from the iterate."""
    work.move()


def largest_residual(work: Any) -> float:
    """Largest absolute value of the residual."""
    value: float = work.largest_residual()
    return value


def at_round_off(work: Any) -> bool:
    """Whether the residual at the iterate is nothing but round-off."""
    value: bool = work.at_round_off()
    return value


def restore(work: Any) -> None:
    """Return to the iterate at which the solve began."""
    work.restore()


def kept_numbers(work: Any) -> Any:
    """What is known of the matrix kept for this system, see :data:`AGE`."""
    return work.kept_numbers()


def newest_age(work: Any) -> float:
    """Number of the newest linearisation, negative if there is none."""
    value: float = work.newest_age()
    return value


def linearize_here(work: Any) -> None:
    """Make the Jacobian at the iterate the newest linearisation."""
    work.linearize_here()


def factor(work: Any) -> bool:
    """Factorise the iteration matrix of the newest linearisation; False if it has no inverse."""
    value: bool = work.factor()
    return value


def factorize_anew(work: Any, which: int) -> bool:
    """Replace the kept matrix by one made of another linearisation, see :data:`NEWEST`."""
    kept, newest = kept_numbers(work), newest_age(work)
    if which == HERE or newest < 0.0 or (which == NOT_THE_SAME and kept[AGE] == newest):
        linearize_here(work)
    regular = factor(work)
    kept[AGE] = newest_age(work) if regular else -1.0
    kept[RATE] = 1.0
    kept[IS_AGED] = 0.0
    kept[LAST_CHANGE] = 0.0
    return regular


def renew(work: Any, which: int) -> bool:
    """:func:`factorize_anew`; in compiled code behind a call of its own."""
    return factorize_anew(work, which)


def iterate(
    work: Any, trust: bool, tolerance: float, residual_tolerance: float, forcing: float, maxiter: int
) -> int:
    """Move an iterate to the solution with a matrix that is kept while it contracts.

    Parameters
    ----------
    work : object
        Gives the operations of this module.
    trust : bool
        Accept by a contraction measured in an earlier solve.
    tolerance, residual_tolerance : float
        Largest size of the error and largest abs(F) to be left.
    forcing : float
        Part of the first correction, and of the first abs(F), that may be left if that is more.
    maxiter : int
        Largest number of iterations.

    Returns
    -------
    int
        :data:`SOLVED`, :data:`UNSOLVED` or :data:`SINGULAR`.
    """
    kept = kept_numbers(work)
    which = -1
    if kept[AGE] < 0.0:
        which = NEWEST
    elif kept[IS_AGED] > 0.0 and not trust:
        which = NOT_THE_SAME
    rate = kept[RATE] if trust and which < 0 else 1.0
    fresh = full = False
    last = 0.0
    for count in range(maxiter):
        if which >= 0:
            if not renew(work, which):
                return SINGULAR
            which = -1
        size = correct(work)
        if not size < float("inf"):
            return UNSOLVED
        move(work)
        if count == 0:
            if size > BELIEVED_DECREASE * kept[LAST_CHANGE]:
                rate = 1.0
            kept[LAST_CHANGE] = size
        residual = largest_residual(work)
        if count == 0:
            tolerance = max(tolerance, forcing * size)
            residual_tolerance = max(residual_tolerance, forcing * residual)
        if size <= LAST_CORRECTION * tolerance and residual <= residual_tolerance:
            return SOLVED
        measured = size / last if last > 0.0 else 0.0
        last = size
        if measured > SLOW_CONTRACTION:
            if size < ROUND_OFF_CORRECTION and at_round_off(work):
                return SOLVED
            if measured > DIVERGING_CONTRACTION:
                if full:
                    return UNSOLVED
                # What an old matrix led to may be near another solution: begin again where the guess was,
                # and if a new matrix there is of no use either, with a new one each time.
                restore(work)
                which, full, fresh, rate, last = HERE, fresh, True, 1.0, 0.0
                continue
            if size * measured / (1.0 - measured) <= tolerance:
                return SOLVED
            if not full:
                full, which = fresh, HERE if fresh else NOT_THE_SAME
                fresh, rate = True, 1.0
                last = size if full else 0.0
                continue
        elif measured > 0.0:
            if measured > AGED_CONTRACTION:
                kept[IS_AGED] = 1.0
            rate = measured if measured > LEAST_CONTRACTION else LEAST_CONTRACTION
            if rate < 0.2 * kept[RATE] < 0.2:
                rate = 0.2 * kept[RATE]
            kept[RATE] = rate
            if size * rate / (1.0 - rate) <= tolerance and residual * rate <= residual_tolerance:
                return SOLVED
        elif rate < 1.0 and size * rate / (1.0 - rate) <= tolerance:
            if residual * rate <= residual_tolerance:
                return SOLVED
        if full:
            which = HERE
    return UNSOLVED
