"""Families of tests that try all pairs of choices instead of all choices."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
from helpers.pairs import covering_pairs


def pairs(cases: Any) -> set[Any]:
    return {pair for case in cases for pair in combinations(enumerate(case), 2)}


@pytest.mark.parametrize("sizes", [(2, 2), (3, 3, 3), (2, 5, 4), (27, 3, 3), (4, 3, 3, 2, 2), (1, 1, 6)])
def test_every_pair_is_in_a_chosen_case_and_no_chosen_case_is_without_use(sizes: tuple[int, ...]) -> None:
    everything = list(product(*map(range, sizes)))
    chosen = covering_pairs(everything)
    assert set(chosen) <= set(everything) and chosen == sorted(set(chosen))
    assert pairs(chosen) == pairs(everything)
    largest, second = sorted(sizes)[:-3:-1]
    # No fewer can do, and the greedy choice is not far from it.
    assert largest * second <= len(chosen) <= 1.5 * largest * second + 3


def test_pairs_that_are_not_given_are_not_asked_for() -> None:
    allowed = [case for case in product("abc", "xyz", range(3)) if case[:2] != ("a", "x")]
    chosen = covering_pairs(allowed)
    assert set(chosen) <= set(allowed) and pairs(chosen) == pairs(allowed)
    assert covering_pairs(iter(allowed)) == chosen


def test_single_choices_and_none_are_kept() -> None:
    assert covering_pairs([("a",), ("b",), ("a",)]) == [("a",), ("b",)]
    assert covering_pairs([]) == []


def test_all_of_two_choices_are_all_cases() -> None:
    assert covering_pairs(product("abc", "xy")) == list(product("abc", "xy"))
