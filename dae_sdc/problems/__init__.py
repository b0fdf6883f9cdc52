"""The library of DAEs, one module per family; the classes of all problems are attributes of the package."""

from __future__ import annotations

from typing import Any

from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.links import one_room

one_room(__name__)


def __getattr__(name: str) -> Any:
    for _, problem in PROBLEMS.items():
        if problem.__name__ == name:
            return problem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(problem.__name__ for _, problem in PROBLEMS.items())
