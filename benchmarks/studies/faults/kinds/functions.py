"""Public functions with one or two arguments that nobody means."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import dae_sdc as ds
from benchmarks.studies.faults import cases
from benchmarks.studies.faults.cases import VALUES, Case, Random, called, choice, kind
from dae_sdc.arguments import kind_of
from dae_sdc.run.description import describe
from dae_sdc.run.solve import solve

QUICK: Mapping[str, list[dict[str, Any]]] = cases.tables()["quick"]

# Arguments without which a function would take minutes
MUST_STAY: Mapping[str, tuple[str, ...]] = {"accuracy": ("sweeper",), "pendulum_study": ("dt",)}
NUMBERS = {"float", "int", "float | None", "int | None"}  # Annotations of single numbers


@lru_cache
def functions() -> dict[str, Any]:
    return {name: getattr(ds, name) for name in ds.__all__ if inspect.isfunction(getattr(ds, name))}


@lru_cache
def parameters(name: str) -> dict[str, str]:
    """Names of the arguments of a function, and what they are annotated with."""
    taken = dict(inspect.signature(functions()[name]).parameters)
    if name in ("solve", "convergence", "iterations", "playground"):
        taken = {**inspect.signature(describe).parameters, **taken}
    plain = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {key: str(parameter.annotation) for key, parameter in taken.items() if parameter.kind in plain}


def _value(rng: Random, annotation: str) -> str:
    """A value of the table, more often one whose type is right."""
    if rng.random() < 0.2:
        return str(choice(rng, VALUES))
    wanted = kind_of(annotation, solve.__module__) if annotation else None
    right = [value for value, make in VALUES.items() if wanted is None or wanted.takes(make())]
    return str(choice(rng, right or VALUES))


@kind("function", 30.0)
def function(rng: Random) -> Case:
    name = choice(rng, functions()) if rng.random() < 0.4 else choice(rng, ["solve", "initial", *QUICK])
    known = parameters(name)
    keys = [key for key in known if key not in MUST_STAY.get(name, ())]
    chosen = [str(key) for key in rng.choice(keys, min(len(keys), int(rng.integers(1, 3))), replace=False)]
    if name not in QUICK:
        needed = inspect.signature(functions()[name]).parameters.values()
        chosen += [one.name for one in needed if one.default is one.empty and one.name not in chosen]
    given = {key: _value(rng, known[key]) for key in chosen}
    base = choice(rng, QUICK[name]) if name in QUICK else {}
    if rng.random() < 0.03:
        given["nodez"] = "1"
    # What nobody can mean as an argument of its annotation.
    useless = {key: cases.NO_NUMBERS if known.get(key) in NUMBERS else cases.NOTHING for key in given}
    bad = [f"{key} = {value}" for key, value in given.items() if value in useless[key]]
    shown = {**{key: repr(value) for key, value in base.items()}, **given}
    text = ", ".join(f"{key}={value}" for key, value in shown.items())

    def call() -> Any:
        return functions()[name](**base | {key: VALUES.get(value, int)() for key, value in given.items()})

    return Case(f"{name}({text})", lambda: called(call, nonsense=" and ".join(bad)))
