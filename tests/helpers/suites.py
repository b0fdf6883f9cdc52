"""Which tests are long: ``make test`` leaves them to ``make test-all``, which runs everything.

A test is long that has the marker ``long``, that takes a fixture of ``LONG_FIXTURES``, or that is one of more
cases of one function than the fast suite runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch

import pytest

MOST_CASES = 5
"""Cases of one function in the fast suite, where ``CASES`` has no other choice: spread over all there are."""

LONG_FIXTURES = {"three_ranks", "agreement", "several_steps", "commands", "told"}
"""Fixtures that start three ranks or more."""

CASES: dict[str, int | tuple[str, ...]] = {
    # Pages that a reader follows from the first line; the other pages are long.
    "test_documents.py::test_the_examples_of_a_page_run_in_their_order": ("README.md", "docs/tutorial_*"),
}
"""Cases in the fast suite, by file and function: how many, or patterns of their names."""


def spread(count: int, of: int) -> set[int]:
    """So many of the numbers from 0 to ``of`` - 1, the first and the last among them, evenly spread."""
    return {round(k * (of - 1) / max(count - 1, 1)) for k in range(min(count, of))}


def fast_cases(family: str, names: Sequence[str]) -> set[int]:
    """Which cases of a function the fast suite runs, by their place."""
    chosen = CASES.get(family, MOST_CASES)
    if isinstance(chosen, int):
        return spread(chosen, len(names))
    return {k for k, name in enumerate(names) if any(fnmatch(name, pattern) for pattern in chosen)}


def mark_long(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that the fast suite does not run; a case that is asked for alone is one of few."""
    families = defaultdict(list)
    for item in items:
        name, _, case = item.nodeid.partition("[")
        families[name.rpartition("/")[2]].append((item, case.removesuffix("]")))
    for family, cases in families.items():
        fast = fast_cases(family, [case for _, case in cases])
        for k, (item, _) in enumerate(cases):
            if k not in fast or not LONG_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.long)
