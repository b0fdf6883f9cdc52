"""Formulas of unknowns and parameters by name, as a user types them for a picture."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dae_sdc.errors import InputError
from dae_sdc.registry import unknown

OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos},
}

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sqrt", "exp", "log", "abs")
}
"""Functions that a formula may call."""

_PLACE = "_name_{}_"


def names_in(formula: str, known: Sequence[str]) -> list[str]:
    """The known names in a formula, longer ones first where one is part of another."""
    return [known[place] for place in _marked(formula, known)[1]]


def evaluate(formula: str, values: Mapping[str, Any]) -> Any:
    """The value of a formula."""
    known = list(values)
    text, places = _marked(formula, known)
    own = {_PLACE.format(place): values[known[place]] for place in places} | {"pi": np.pi}
    try:
        tree = ast.parse(text.replace("^", "**").strip(), mode="eval").body
    except SyntaxError:
        raise InputError(f"'{formula}' is no formula; write it with names, numbers and + - * / **") from None
    return _value(tree, own, formula, known)


def _marked(formula: str, known: Sequence[str]) -> tuple[str, list[int]]:
    """The formula with a plain word in the place of each known name, and which names are in it."""
    found: list[int] = []
    if not known:
        return formula, found
    longest = sorted(range(len(known)), key=lambda place: -len(known[place]))
    pattern = "|".join(re.escape(known[place]) for place in longest)
    places = {name: place for place, name in enumerate(known)}

    def mark(match: re.Match[str]) -> str:
        place = places[match[0]]
        if place not in found:
            found.append(place)
        return _PLACE.format(place)

    return re.sub(rf"(?<![\w.])(?:{pattern})(?![\w.(\[])", mark, formula), found


def _value(node: ast.AST, own: Mapping[str, Any], formula: str, known: Sequence[str]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name) if name in own:
            return own[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](*(_value(part, own, formula, known) for part in (left, right)))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(operand, own, formula, known))
        case ast.Call(func=ast.Name(id=name), args=[*arguments], keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_value(part, own, formula, known) for part in arguments))
        case ast.Name(id=name):
            raise InputError(unknown("name", name, known))
        case _:
            raise InputError(
                f"'{ast.unparse(node)}' in the formula '{formula}' is not known; write it with names, "
                f"numbers, + - * / ** and {', '.join(FUNCTIONS)}"
            )
