"""The modified Newton iteration as one loop in the part of Python that numba compiles.

Its operations are methods of the object ``work``: in Python a :class:`dae_sdc.dae.newton.ModifiedNewton`,
where they are described, in compiled code the memory of :mod:`dae_sdc.compiled.machine_newton`.
"""

from __future__ import annotations

import ctypes
from typing import Any

SLOW_CONTRACTION = 0.2  # Contraction above which a kept factorisation is renewed at once.
# Contraction above which an iterate is given up, and the solve begins again with a new matrix each time.
DIVERGING_CONTRACTION = 0.9
AGED_CONTRACTION = 0.01  # Contraction above which a kept factorisation is renewed when the next step begins.
# Smallest contraction that is believed: a measured one may be luck, and the matrix ages.
LEAST_CONTRACTION = 1e-4

BELIEVED_DECREASE = 0.5
"""Factor by which first corrections at a node must fall from solve to solve for a known rate to be trusted.

Errors of one node come back from the others: a matrix that contracts well along the solution may hardly
contract what the sweeps bring back."""

# Part of the tolerance below which a correction is the last one, whatever the contraction.
LAST_CORRECTION = 0.1
# Relative correction above which an iteration that stands still has failed and is not at round-off.
ROUND_OFF_CORRECTION = 1e-3
# Backward error at which an iteration that no longer contracts is as exact as the arithmetic allows.
BACKWARD_ERROR = 64.0 * 2.0**-52
SOLVED, UNSOLVED, SINGULAR = 0, 1, 2  # How an iteration ends.

NEWEST, NOT_THE_SAME, HERE = 0, 1, 2
"""Which linearisation a matrix is to be made of.

``NEWEST`` is the newest that is known, or one at the iterate if none is. ``NOT_THE_SAME`` is the newest
unless the kept matrix is made of it, and then one at the iterate. ``HERE`` is one at the iterate."""


class KeptNumbers(ctypes.Structure):
    """What is known of a kept matrix, for Python and for compiled code."""

    _fields_ = [(name, ctypes.c_double) for name in ("age", "rate", "is_aged", "last_change")]


def factorize_anew(work: Any, which: int) -> bool:
    """Replace the kept matrix by one made of another linearisation, see :data:`NEWEST`."""
    kept, newest = work.kept_numbers(), work.newest_age()
    if which == HERE or newest < 0.0 or (which == NOT_THE_SAME and kept.age == newest):
        work.linearize_here()
    regular: bool = work.factor()
    kept.age = work.newest_age() if regular else -1.0
    kept.rate = 1.0
    kept.is_aged = 0.0
    kept.last_change = 0.0
    return regular


def iterate(
    work: Any, trust: bool, tolerance: float, residual_tolerance: float, forcing: float, maxiter: int
) -> int:
    """Move an iterate to the solution with a matrix that is kept while it contracts."""
    kept = work.kept_numbers()
    which = -1
    if kept.age < 0.0:
        which = NEWEST
    elif kept.is_aged > 0.0 and not trust:
        which = NOT_THE_SAME
    rate = kept.rate if trust and which < 0 else 1.0
    fresh = full = False
    last = 0.0
    for count in range(maxiter):
        if which >= 0:
            if not work.renew(which):
                return SINGULAR
            which = -1
        size = work.correct()
        if not size < float("inf"):
            return UNSOLVED
        work.move()
        if count == 0:
            if size > BELIEVED_DECREASE * kept.last_change:
                rate = 1.0
            kept.last_change = size
        residual = work.largest_residual()
        if count == 0:
            tolerance = max(tolerance, forcing * size)
            residual_tolerance = max(residual_tolerance, forcing * residual)
        if size <= LAST_CORRECTION * tolerance and residual <= residual_tolerance:
            return SOLVED
        measured = size / last if last > 0.0 else 0.0
        last = size
        if measured > SLOW_CONTRACTION:
            if size < ROUND_OFF_CORRECTION and work.at_round_off():
                return SOLVED
            if measured > DIVERGING_CONTRACTION:
                if full:
                    return UNSOLVED
                # What an old matrix led to may be near another solution: begin again where the guess was,
                # and if a new matrix there is of no use either, with a new one each time.
                work.restore()
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
                kept.is_aged = 1.0
            rate = measured if measured > LEAST_CONTRACTION else LEAST_CONTRACTION
            if rate < 0.2 * kept.rate < 0.2:
                rate = 0.2 * kept.rate
            kept.rate = rate
            if size * rate / (1.0 - rate) <= tolerance and residual * rate <= residual_tolerance:
                return SOLVED
        elif rate < 1.0 and size * rate / (1.0 - rate) <= tolerance:
            if residual * rate <= residual_tolerance:
                return SOLVED
        if full:
            which = HERE
    return UNSOLVED
