"""The mistakes of tools/mutations.py fit the code, and the tests that are to find them exist."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def mutations() -> Iterator[Any]:
    path = Path(__file__).parents[1] / "tools" / "mutations.py"
    if not path.exists():
        pytest.skip("there is no source tree, only an installed package")
    spec = importlib.util.spec_from_file_location("mutations", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutations"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutations"]


def test_every_mutation_changes_one_place_of_the_package(mutations: Any, checkout: Path) -> None:
    for one in mutations.MUTATIONS:
        text = (checkout / "dae_sdc" / one.file).read_text(encoding="utf-8")
        assert one.applied(text) != text
    assert len({one.name for one in mutations.MUTATIONS}) == len(mutations.MUTATIONS)


def test_the_tests_of_every_mutation_are_there(mutations: Any) -> None:
    for one in mutations.MUTATIONS:
        for test in one.tests.split():
            file, _, function = test.partition("::")
            text = (Path(__file__).parent / file).read_text(encoding="utf-8")
            assert f"def {function.partition('[')[0]}" in text, f"{one.name}: {test}"
