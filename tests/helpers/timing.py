"""What a piece of work costs by itself, on a machine that does other work too."""

from __future__ import annotations

from collections.abc import Callable
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import TypeVar

Found = TypeVar("Found")
TRIES = 3


def spent() -> float:
    """Seconds that processors have spent on this process, and on its children that have ended."""
    return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def within(seconds: float, work: Callable[[], Found]) -> Found:
    """What ``work`` returns, after one of three tries took no more than so many seconds of processors.

    A busy machine and a collection of garbage only add to a time, so one try that is short enough shows it.
    """
    taken = []
    for _ in range(TRIES):
        began = spent()
        found = work()
        taken.append(spent() - began)
        if taken[-1] < seconds:
            return found
    raise AssertionError(f"{TRIES} tries took {taken} s, not {seconds} s")
