"""How often the equations of functions are read."""

from __future__ import annotations

from typing import Any

import pytest

from dae_sdc.model import trace


def counted_readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A name, that of the class of the problem, for every time that a function is called with symbols."""
    names: list[str] = []
    trace_problem = trace.trace_problem

    def counted(problem: Any, *given: Any, **named: Any) -> Any:
        names.append(type(problem).__name__)
        return trace_problem(problem, *given, **named)

    monkeypatch.setattr(trace, "trace_problem", counted)
    return names
