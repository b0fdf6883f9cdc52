"""Models whose expressions, names and starts nobody means, and damaged texts of Modelica."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import sympy as sp

import dae_sdc as ds
from benchmarks.studies.faults import cases
from benchmarks.studies.faults.cases import VALUES, Case, Random, called, choice, functions_of, kind

NAMES = ["", " ", "a b", "a\nb", "x y", "\udcff", "x" * 5000, "\\", "x'", 'x"']
NAMES += cases.tables()["words"]["names"].split()
NAMED = {"nested": lambda x, depth: reduce(lambda y, _: sp.sin(y, evaluate=False), range(depth), x)}
T = sp.Symbol("t")
F = sp.Function("f")


EXPRESSIONS = functions_of(cases.tables()["expressions"], "m, x, y", **NAMED, F=F, T=T, ds=ds)
ACTIONS = functions_of(cases.tables()["actions_of_models"], "m", ds=ds)


def _built(name: str, start: Any, parameter: Any, expression: str, place: int) -> Any:
    m = ds.Model("m" if name == "x" else name)
    x, y, k = m.variable(name, start=start), m.variable("y_", start=1.0), m.parameter("k", parameter)
    equations = [m.der(x) + k * x, y - x]
    if expression:
        term = EXPRESSIONS[expression](m, x, y)
        if place < 2:
            alone = not isinstance(term, sp.Expr) or term.is_Matrix  # nothing can be added to it
            equations[place] = term if alone else equations[place] + term
        elif place == 2:
            equations.append(term)
        else:
            equations = [term]
    m.equations(*equations)
    return m


SOURCES, TOKENS = cases.tables()["sources"]["damaged"], cases.tables()["words"]["tokens"].split()


def _damaged(rng: Random, text: str) -> str:
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.35:
            at = int(rng.integers(len(text) or 1))
            before, behind, token = text[:at], text[at:], choice(rng, TOKENS)
            text = choice(rng, [before + behind[1:], before + token[0] + behind, before])
            continue
        parts = re.findall(r"\s+|\w+|.", text) or [" "]
        at, other = int(rng.integers(len(parts))), int(rng.integers(len(parts)))
        way = int(rng.integers(4))
        if way == 0:
            parts[at] = choice(rng, TOKENS)
        elif way == 1:
            parts[at : at + 1] = []
        elif way == 2:
            parts[at], parts[other] = parts[other], parts[at]
        else:
            parts[at:at] = parts[min(at, other) : max(at, other)]
        text = "".join(parts)
    return text


@kind("model", 15.0)
def model(rng: Random) -> Case:
    """A model with one or two mistakes, or a text of Modelica with up to three."""
    action = choice(rng, ACTIONS)
    act = ACTIONS[action]
    if rng.random() < 0.5:
        text = _damaged(rng, choice(rng, SOURCES))
        return Case(f"{action} of {text!r}", lambda: called(lambda: act(ds.read_modelica_text(text))))
    what = rng.random()
    name = choice(rng, NAMES) if what < 0.25 else "x"
    start = choice(rng, VALUES) if 0.25 <= what < 0.4 else ""
    parameter = choice(rng, VALUES) if 0.4 <= what < 0.5 else ""
    expression = choice(rng, EXPRESSIONS) if what >= 0.5 or rng.random() < 0.2 else ""
    place = int(rng.integers(4))
    first, second = (VALUES[value]() if value else 1.0 for value in (start, parameter))
    meant = start not in ("nan", "text", "object", "complex", "nan of SymPy")
    nonsense = "" if meant else "a start that is not a number"
    mistakes = f"name {name!r}, start {start}, parameter {parameter}, {expression} at {place}"

    def call() -> Any:
        return act(_built(name, first, second, expression, place))

    return Case(f"{action} of a model with {mistakes}", lambda: called(call, nonsense=nonsense))
