"""The fast suite has representatives of every costly family of tests, and its table fits the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.suites import CASES, fast_cases, spread


@pytest.mark.parametrize(("count", "of"), [(5, 1), (5, 5), (5, 6), (5, 100), (1, 7), (0, 7), (2, 2)])
def test_representatives_are_as_many_as_asked_from_the_first_to_the_last(count: int, of: int) -> None:
    chosen = spread(count, of)
    assert len(chosen) == min(count, of) and chosen <= set(range(of))
    if count > 1:
        assert {0, of - 1} <= chosen


def test_cases_are_chosen_by_number_or_by_name() -> None:
    names = [f"case-{k}" for k in range(20)]
    assert fast_cases("test_any.py::test_any", names) == set(range(20))
    few = [f"{file}::{name}" for file, chosen in CASES.items() for name in chosen if chosen[name] == 1]
    assert few and all(fast_cases(family, names) == {0} for family in few)
    pages = "test_documents.py::test_the_examples_of_a_page_run_in_their_order"
    assert fast_cases(pages, ["README.md", "docs/linear.md", "docs/tutorial_circuits.md"]) == {0, 2}
    theirs = "test_from_pysdc.py::test_a_problem_of_theirs_ends_in_our_sweepers_where_it_ends_in_theirs"
    assert fast_cases(theirs, ["wscc9-FullyImplicitDAE", "pendulum-FullyImplicitDAE"]) == {1}


@pytest.mark.parametrize("file", CASES)
def test_what_the_table_names_exists(file: str) -> None:
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    assert [function for function in CASES[file] if f"def {function}(" not in text] == []
