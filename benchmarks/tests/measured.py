"""Models of the library through their study, once for all tests that ask."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.studies.models import study
from benchmarks.studies.models.cases import Check, Flight


@functools.cache
def measured(label: str) -> tuple[Any, Flight]:
    """What the study of models tells of one case, a row for each check, and how the model went."""
    (case,) = (case for case in study.CASES if case.label == label)
    kept: list[Flight] = []

    def keep(flight: Flight) -> float:
        kept.append(flight)
        return 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "CASES", (replace(case, checks=(*case.checks, Check("kept", keep, 1.0))),))
        rows = study.models(problems=[label]).data
    assert kept, f"{label}: {rows['message'][0]}"
    return rows[:-1], kept[0]
