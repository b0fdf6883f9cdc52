"""Equations of a text as expressions that vanish: loops, choices and arrays are expanded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import sympy

from dae_sdc.expressions.symbols import TIME, Unknown
from dae_sdc.modelica.arithmetic import choice, minus, plus, symbols_in
from dae_sdc.modelica.arrays import MOST_ELEMENTS, Value, elements
from dae_sdc.modelica.evaluation import TRUTHS
from dae_sdc.modelica.scope import Scope
from dae_sdc.modelica.syntax import Connect, Equal, Equation, For, IfEquation
from dae_sdc.modelica.values import Values


class Vanishing(NamedTuple):
    """An expression that is zero."""

    at: int  # Its place in the text.
    expression: Any  # The expression.
    where: str  # Name of the component in which it is.
    note: str = ""  # Its description in the text.


def vanishing(
    values: Values, equation: Equation, scope: Scope, connect: Callable[[Connect, Scope], None]
) -> Iterator[Vanishing]:
    """The expressions that vanish by an equation."""
    where = scope.instance.shown if scope.instance is not None else ""
    if isinstance(equation, Equal):
        left, right = values.value(equation.left, scope), values.value(equation.right, scope)
        for one in _differences(values, left, right, equation):
            yield Vanishing(equation.at, values.check(one, equation.at), where, equation.note)
    elif isinstance(equation, For):
        for inner in _turns(values, equation, scope):
            for part in equation.body:
                yield from vanishing(values, part, inner, connect)
    elif isinstance(equation, Connect):
        connect(equation, scope)
    else:
        yield from _chosen(values, equation, scope, where, connect)


def _turns(values: Values, equation: For, scope: Scope) -> list[Scope]:
    """The scopes of a loop, one for every combination of values of its indices."""
    indices = []
    for name, where in equation.indices:
        if where is None:
            values.fail(equation.at, f"the index {name} has no range; write for {name} in 1:n loop")
        indices.append((name, where))
    return values.scopes(indices, scope, equation.at, f"a loop of more than {MOST_ELEMENTS} turns")


def _differences(values: Values, left: Value, right: Value, equation: Equal) -> Iterator[Any]:
    """Left minus right, element by element."""
    if isinstance(left, list) != isinstance(right, list):
        values.fail(equation.at, "one side is an array, the other a number; both must have the same sizes")
    if isinstance(left, list):
        if len(left) != len(right):
            values.fail(
                equation.at, f"the sides have {len(left)} and {len(right)} elements; give them equal sizes"
            )
        for a, b in zip(left, right, strict=True):
            yield from _differences(values, a, b, equation)
        return
    a = values.as_number(left, equation.left.at)
    b = values.as_number(right, equation.right.at)
    yield b if a == 0 else plus([a, minus(b)])


def _chosen(
    values: Values, equation: IfEquation, scope: Scope, where: str, connect: Callable[[Connect, Scope], None]
) -> Iterator[Vanishing]:
    """The equations of an if-equation, each with the choice inside it."""
    branches: list[tuple[Any, list[Equation]]] = []
    other = equation.other
    for test, body in equation.branches:
        condition = values.condition(test, scope)
        if condition == sympy.false:
            continue
        if condition == sympy.true:
            other = body
            break
        branches.append((condition, body))
    if not branches:
        for part in other or ():
            yield from vanishing(values, part, scope, connect)
        return
    if other is None:
        values.fail(equation.at, "an if-equation without else; give equations for all cases")
    bodies = [*(body for _, body in branches), other]
    for part in (one for body in bodies for one in body):
        if isinstance(part, Connect):
            values.fail(part.at, "connect depends on an unknown here; move it out of if")
    lists = [[one for part in body for one in vanishing(values, part, scope, connect)] for body in bodies]
    *alternatives, rest = lists
    if any(len(one) != len(rest) for one in alternatives):
        counts = ", ".join(str(len(one)) for one in lists)
        values.fail(equation.at, f"the branches of an if-equation have {counts} equations")
    for k, last in enumerate(rest):
        pairs = [(test, one[k].expression) for (test, _), one in zip(branches, alternatives, strict=True)]
        expression = values.check(choice(pairs, last.expression), equation.at)
        yield Vanishing(lists[0][k].at, expression, where)


# Initial equations


def starts(values: Values, equation: Equation, scope: Scope) -> Iterator[tuple[int, Any, Any]]:
    """Start values given by an initial equation."""
    for part, inner in _told(values, equation, scope):
        yield from _started(values, values.value(part.left, inner), values.value(part.right, inner), part)


def _told(values: Values, equation: Equation, scope: Scope) -> Iterator[tuple[Equal, Scope]]:
    """The initial equations in loops and choices, with their scopes."""
    if isinstance(equation, Equal):
        yield equation, scope
    elif isinstance(equation, For):
        for inner in _turns(values, equation, scope):
            for part in equation.body:
                yield from _told(values, part, inner)
    elif isinstance(equation, IfEquation):
        body = equation.other or []
        for test, chosen in equation.branches:
            condition = values.condition(test, scope)
            if condition not in TRUTHS:
                values.fail(
                    test.at, "an initial equation depends on more than Boolean parameters; write its value"
                )
            if condition == sympy.true:
                body = chosen
                break
        for part in body:
            yield from _told(values, part, scope)
    else:
        values.fail(equation.at, "an initial equation must be x = VALUE or der(x) = VALUE")


def _started(values: Values, left: Value, right: Value, equation: Equal) -> Iterator[tuple[int, Any, Any]]:
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for a, b in zip(left, right, strict=True):
            yield from _started(values, a, b, equation)
        return
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Unknown) and not isinstance(other, list | str):
            value = values.check(values.as_number(other, equation.at), equation.at)
            if not _moving(value):
                yield equation.at, one, value
                return
    moving = [leaf for side in (left, right) for part in elements(side) for leaf in _moving(part)]
    names = ", ".join(dict.fromkeys(str(leaf) for leaf in moving))
    values.fail(
        equation.at,
        f"the initial equation of {names or 'no unknown'} is not understood; "
        "write x = VALUE or der(x) = VALUE",
    )


def _moving(value: Value) -> list[Any]:
    """Unknowns and time in an expression."""
    if isinstance(value, str):
        return []
    return [leaf for leaf in symbols_in(value) if isinstance(leaf, Unknown) or leaf == TIME]
