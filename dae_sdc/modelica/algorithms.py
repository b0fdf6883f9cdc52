"""Algorithms, carried out on expressions: what their variables are at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sympy

from dae_sdc.modelica import arithmetic, syntax
from dae_sdc.modelica.arithmetic import MOST_ELEMENTS, Value
from dae_sdc.modelica.library import Scope
from dae_sdc.modelica.syntax import Call, ClassDefinition, Statement, similar
from dae_sdc.modelica.values import Values

NOTHING: Final = sympy.nan  # Stands for an element that has no value yet.


def chosen(values: Values, branches: list[tuple[Any, Value, int]], at: int) -> Value:
    """The value of the first branch whose condition holds, element by element."""
    first, *others = (value for _, value, _ in branches)
    if not others:
        return first
    if isinstance(first, list):
        if not all(isinstance(value, list) and len(value) == len(first) for value in others):
            values.fail(at, "the choices are arrays of different sizes")
        return [
            chosen(values, [(test, value[k], where) for test, value, where in branches], at)
            for k in range(len(first))
        ]
    if arithmetic.is_condition(first) and all(map(arithmetic.is_condition, others)):
        holds = others[-1]
        for test, value, _ in reversed(branches[:-1]):
            holds = arithmetic.conditional(test, value, holds)
        return holds
    pairs = [(test, values.as_number(value, where)) for test, value, where in branches]
    return arithmetic.choice(pairs[:-1], pairs[-1][1])


def results(values: Values, call: Call, scope: Scope) -> list[Value]:
    """The results of a call of a function of the text, by carrying out its algorithm."""
    function = values.library.find(call.function, scope.definition)
    if not isinstance(function, ClassDefinition) or function.kind != "function" or function.built_in:
        values.fail(call.at, f"{call.function} is no function with several results")
    name = function.name
    parts = [part for base in values.library.with_bases(function) for part in base.elements]
    components = [part for part in parts if isinstance(part, syntax.Component)]
    inputs, outputs = (
        [component.name for component in components if component.causality == causality]
        for causality in ("input", "output")
    )
    if function.external:
        values.fail(call.at, f"{name} is an external function, which is not called; write it in Modelica")
    if len(call.arguments) > len(inputs):
        values.fail(call.at, f"{name} takes {len(inputs)} arguments; got {len(call.arguments)}")
    arguments = dict(zip(inputs, call.arguments, strict=False))
    for word, argument in call.named.items():
        if word in arguments or word not in inputs:
            hint = similar(word, inputs)
            values.fail(call.at, f"{name} takes no argument {word}, or has it already{hint}")
        arguments[word] = argument
    inside: dict[str, Value] = {}
    inner = Scope(None, function, inside)
    inside.update({word: values.value(arguments[word], scope) for word in inputs if word in arguments})
    for component in components:
        if component.name in inside:
            continue
        if component.modification is not None and component.modification.value is not None:
            inside[component.name] = values.value(component.modification.value, inner)
        elif component.causality == "input":
            values.fail(call.at, f"{name} needs a value of {component.name}")
        elif component.sizes and not any(isinstance(size, syntax.Every) for size in component.sizes):
            counts = [values.integer(size, inner, f"the size of {component.name}") for size in component.sizes]
            inside[component.name] = arithmetic.filled(NOTHING, counts) if min(counts) else []
    carry_out(values, function.statements, inside, inner)
    for output in outputs:
        if output not in inside or any(item is NOTHING for item in arithmetic.elements(inside[output])):
            values.fail(function.at, f"function {name} gives {output} no value; add an algorithm")
    return [inside[output] for output in outputs]


def carry_out(
    values: Values, statements: Sequence[Statement], inside: dict[str, Value], scope: Scope
) -> str:
    """Carry out statements on local values; the word by which they were left, or an empty one."""
    for statement in statements:
        values.spend(1, statement.at)
        if isinstance(statement, syntax.Assignment):
            _assign(values, statement, inside, scope)
        elif isinstance(statement, syntax.Leave):
            return statement.word
        elif isinstance(statement, syntax.IfEquation):
            if word := _choose(values, statement, inside, scope):
                return word
        elif isinstance(statement, syntax.For | syntax.While):
            if _repeat(values, statement, inside, scope) == "return":
                return "return"
        elif isinstance(statement, syntax.When):
            values.fail(statement.at, "when in an algorithm is not understood; write a when-equation")
    return ""


def _assign(values: Values, item: syntax.Assignment, inside: dict[str, Value], scope: Scope) -> None:
    if isinstance(item.target, syntax.Results):
        if not isinstance(item.value, Call):
            values.fail(item.at, "several variables are assigned the results of a function")
        targets, news = item.target.items, results(values, item.value, scope)
    else:
        targets, news = [item.target], [values.value(item.value, scope)]
    for target, new in zip(targets, news, strict=False):
        if isinstance(target, syntax.Every):
            continue
        assert isinstance(target, syntax.Name)
        word, subscripts = target.parts[0]
        components = scope.definition.elements if scope.instance is None else ()
        known = {part.name: part for part in components if isinstance(part, syntax.Component)}
        if len(target.parts) > 1 or (scope.instance is None and word not in known):
            values.fail(item.at, f"{target} is no variable of function {scope.definition.name}")
        if word in known and known[word].causality == "input":
            what = f"{word} is an input of function {scope.definition.name}"
            values.fail(item.at, f"{what}; it cannot be assigned")
        inside[word] = _replaced(values, inside.get(word), subscripts, new, target, scope)
        for element in arithmetic.elements(inside[word]):
            values.check(element, item.at)


def _replaced(
    values: Values,
    old: Value,
    subscripts: Sequence[syntax.Expression],
    new: Value,
    name: syntax.Name,
    scope: Scope,
) -> Value:
    """An array with new values of the elements that subscripts select."""
    if not subscripts:
        return new
    if not isinstance(old, list):
        values.fail(name.at, f"{name} is no array of a size that is told; give it sizes")
    first, rest = subscripts[0], subscripts[1:]
    if isinstance(first, syntax.Every):
        places: Sequence[int] = range(1, len(old) + 1)
    elif isinstance(first, syntax.Range):
        places = values.range(first, scope)
    else:
        places, new = [values.integer(first, scope, f"the subscript of {name}")], [new]
    if not isinstance(new, list) or len(new) != len(places):
        values.fail(name.at, f"{len(places)} elements of {name} get a value of another size")
    whole = list(old)
    for place, value in zip(places, new, strict=True):
        if not 1 <= place <= len(old):
            values.fail(name.at, f"{name} has elements 1 to {len(old)}; there is no element {place}")
        whole[place - 1] = _replaced(values, old[place - 1], rest, value, name, scope)
    return whole


def _choose(values: Values, item: syntax.IfEquation, inside: dict[str, Value], scope: Scope) -> str:
    branches, other = values.branches(item.branches, item.other or [], scope)
    if not branches:
        return carry_out(values, other, inside, scope)
    before, ends = dict(inside), list[tuple[Any, dict[str, Value]]]()
    for test, body in (*branches, (sympy.true, other)):
        inside.clear()
        inside.update(before)
        if word := carry_out(values, body, inside, scope):
            values.fail(item.at, f"{word} depends on an unknown here; write if without it")
        ends.append((test, dict(inside)))
    inside.clear()
    for name in ends[0][1]:
        news = [end.get(name) for _, end in ends]
        if all(new is news[0] for new in news):
            inside[name] = news[0]
        elif all(new is not None for new in news):
            tests = (test for test, _ in ends)
            inside[name] = chosen(values, [(test, new, item.at) for test, new in zip(tests, news, strict=True)], item.at)
    return ""


def _repeat(values: Values, item: syntax.For | syntax.While, inside: dict[str, Value], scope: Scope) -> str:
    if isinstance(item, syntax.While):
        for _ in range(MOST_ELEMENTS):
            condition = values.condition(item.test, scope)
            if values.decided(condition, item.at, "the condition of while") == sympy.false:
                return ""
            if word := carry_out(values, item.body, inside, scope):
                return word
        values.fail(item.at, f"while goes on for more than {MOST_ELEMENTS} turns")
    (name, where), *further = item.indices
    turns = values.value(where, scope)
    if not isinstance(turns, list):
        values.fail(where.at, "an index needs a range, such as 1:3")
    hidden = inside.get(name)
    for turn in turns:
        inside[name] = turn
        body = [syntax.For(item.at, further, item.body)] if further else item.body
        if word := carry_out(values, body, inside, scope):
            break
    else:
        word = ""
    inside.pop(name, None)
    if hidden is not None:
        inside[name] = hidden
    return word
