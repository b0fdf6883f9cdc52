"""Whatever can be called in the place of equations, events and masses: it is meant, or it is told."""

from __future__ import annotations

import ctypes
import functools
import inspect
import operator
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numba
import numpy as np

import dae_sdc as ds
from benchmarks.measuring.runs import Finding
from benchmarks.studies.faults import cases
from benchmarks.studies.faults.cases import (
    DONE,
    LOST,
    NONSENSE,
    TOLD,
    Case,
    Random,
    choice,
    functions_of,
    kind,
)

ALLOWED = 1e-3  # Largest error of u(1) = 1/e at the tolerance of the actions


def decay(t: float, u: Any, du: Any, rate: float = 1.0) -> Any:
    """x' = -x and y = 2 x, so that x(1) = 1/e."""
    return [du[0] + rate * u[0], u[1] - 2.0 * u[0]]


class Called:
    """A function as an object, with what the attributes say."""

    def __init__(self, function: Callable[..., Any], **attributes: Any) -> None:
        self.function = function
        vars(self).update(attributes)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def method(self, t: float, u: Any, du: Any) -> Any:
        return self.function(t, u, du)


def hostile(function: Callable[..., Any], name: str) -> Any:
    """A function as an object of which one of the methods that every object has raises."""

    def refuse(self: Any, *_: Any) -> Any:
        raise RuntimeError(f"{name} is refused")

    return type("Hostile", (Called,), {name: refuse})(function)


def of_text(text: str) -> Any:
    """A function whose source cannot be read."""
    names: dict[str, Any] = {"np": np}
    exec(compile(text, __file__, "exec"), names)  # by the user, whom this study stands for
    return names["f"]


TOOLS = {"Called": Called, "hostile": hostile, "of_text": of_text, "functools": functools, "numba": numba}
TOOLS |= {"inspect": inspect, "operator": operator, "types": types, "mock": mock, "ctypes": ctypes}
TOOLS |= {"ds": ds, "decay": decay}
FIRST, RIGHT, WRONG, ACTIONS, PLACES = (
    functions_of(cases.tables()[f"{name}callables"], "f", **TOOLS)
    for name in ("first_", "", "no_", "actions_of_", "places_of_")
)


def judged(call: Callable[[], Any], wrong: str, belongs: bool) -> Finding:
    """What comes of a call with a function, which is to be taken where it is one of equations."""
    answers: list[Any] = []

    def answered() -> Any:
        answers.append(call())
        return answers[0]

    finding = cases.called(answered, nonsense=wrong)
    if finding.outcome == TOLD and belongs and not wrong:
        return replace(finding, outcome=LOST, message=f"refused: {finding.message}")
    if finding.outcome == DONE and belongs and isinstance(answers[0], ds.Solution):
        error = abs(float(answers[0].u[-1, 0]) - np.exp(-1.0))
        return finding if error < ALLOWED else Finding(NONSENSE, f"success, {error:.1e} from 1/e")
    return finding


@kind("callable", 5.0)
def wrapped(rng: Random) -> Case:
    """Equations, wrapped up to three times, in a public function; one in four is no function F(t, u, du)."""
    belongs = rng.random() < 0.8
    actions = ACTIONS if belongs else PLACES
    action, first = choice(rng, actions), choice(rng, FIRST)
    wraps = [str(choice(rng, RIGHT)) for _ in range(int(rng.integers(first == "itself", 4)))]
    wrong = str(choice(rng, WRONG)) if rng.random() < 0.25 else ""

    def call() -> Any:
        function = FIRST[first](decay)
        for wrap in wraps if "cache" not in first else ():
            function = RIGHT[wrap](function)
        return actions[action](WRONG[wrong](function) if wrong else function)

    words = ", ".join([first, *wraps, *[wrong] * bool(wrong)])
    return Case(f"{action} of f, {words}", lambda: judged(call, wrong, belongs))
