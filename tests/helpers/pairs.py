"""A few cases of many in which all pairs of choices occur."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import Any, TypeVar

Case = TypeVar("Case", bound=tuple[Any, ...])


def covering_pairs(cases: Iterable[Case]) -> list[Case]:
    """Choose cases so that every pair of values that stand together in a case does so in a chosen one.

    A mistake that shows with one value, or with two that meet, shows in a chosen case. One that takes three
    need not: such families of tests keep all their cases.

    Parameters
    ----------
    cases : iterable of tuple
        All cases, each with a hashable value for each parameter, as of ``itertools.product``.

    Returns
    -------
    list of tuple
        Some of the cases, in their order. Always the same ones: the next one chosen has the most pairs that
        are not there yet, the first of several.
    """
    given = list(dict.fromkeys(cases))
    missing = set().union(*map(_pairs, given))
    # The number of new pairs of a case only falls, so the first whose number still holds has the most.
    waiting = [(-len(_pairs(case)), at) for at, case in enumerate(given)]
    heapify(waiting)
    chosen = []
    while missing:
        before, at = heappop(waiting)
        new = len(missing & _pairs(given[at]))
        if new < -before:
            heappush(waiting, (-new, at))
            continue
        chosen.append(at)
        missing -= _pairs(given[at])
    return [given[at] for at in sorted(chosen)]


def _pairs(case: tuple[Any, ...]) -> set[Any]:
    """Pairs of places with their values; of a case with one place, that place."""
    return set(combinations(enumerate(case), min(2, len(case))))
