"""Algorithms, carried out on expressions: what their variables are at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from dae_sdc.expressions.dag import PARAMETER
from dae_sdc.modelica import arithmetic, syntax
from dae_sdc.modelica.arithmetic import FALSE, MOST_ELEMENTS, NOTHING, TRUE, Condition, Value
from dae_sdc.modelica.library import BASIC, Instance, Scope
from dae_sdc.modelica.syntax import Call, ClassDefinition, Component, Name, NameParts, Statement, similar
from dae_sdc.modelica.values import Values


def results(values: Values, call: Call, scope: Scope) -> list[Value]:
    """The results of a call of a function of the text, by carrying out its algorithm."""
    function = values.library.find(call.function, scope.definition)
    if call.function.parts[-1][0] == "print" and getattr(function, "external", True):
        return []  # which changes nothing
    if not isinstance(function, ClassDefinition) or function.built_in:
        values.fail(call.at, f"{call.function} is no function with several results")
    name, is_record = function.name, function.kind == "record"
    components = values.library.components(function)
    inputs = [each.name for each in components if is_record or each.causality == "input"]
    outputs = [each.name for each in components if each.causality == "output"]
    if function.external:
        values.fail(call.at, f"{name} is an external function, which is not called; write it in Modelica")
    if len(call.arguments) > len(inputs):
        values.fail(call.at, f"{name} takes {len(inputs)} arguments; got {len(call.arguments)}")
    arguments = dict(zip(inputs, call.arguments, strict=False))
    for word, argument in call.named.items():
        if word in arguments or word not in inputs:
            values.fail(call.at, f"{name} takes no argument {word}, or has it already{similar(word, inputs)}")
        arguments[word] = argument
    inside = {word: values.value(arguments[word], scope) for word in inputs if word in arguments}
    inner = Scope(None, function, inside)
    for component in components:
        if component.name in inside:
            sizes = arithmetic.sizes(inside[component.name])
            for size, count in zip(component.sizes, sizes, strict=False):
                if not isinstance(size, syntax.Every) and values.integer(size, inner, "a size") != count:
                    what = f"{component.name} of {name} is given {count} elements"
                    values.fail(call.at, f"{what}, not as many as it has")
        elif component.modification is not None and component.modification.value is not None:
            inside[component.name] = values.value(component.modification.value, inner)
        elif component.causality == "input":
            values.fail(call.at, f"{name} needs a value of {component.name}")
        elif not is_record and (component.sizes or component.type.parts[-1][0] not in BASIC):
            inside[component.name] = _unassigned(values, component, function, inner)
    if is_record:
        return [inside]
    carry_out(values, [item for part in function.algorithms for item in part], inner)
    for output in outputs:
        if output not in inside or _is_open(values, inside[output]):
            values.fail(function.at, f"function {name} gives {output} no value; add an algorithm")
    return [inside[output] for output in outputs]


def _unassigned(values: Values, component: Component, function: ClassDefinition, scope: Scope) -> Value:
    """What a variable of a function is before it is assigned, in the form that it has."""
    kind = values.library.find(component.type, function)
    nothing = values.graph.parameter(NOTHING)
    value: Value = values.condition_of(nothing) if kind == "Boolean" else nothing
    if isinstance(kind, ClassDefinition) and kind.kind == "record":
        parts = (part for part in values.library.components(kind) if part.causality != "output")
        value = {part.name: _unassigned(values, part, kind, scope) for part in parts}
    what, sizes = f"the size of {component.name}", component.sizes
    counts = [0 if isinstance(size, syntax.Every) else values.integer(size, scope, what) for size in sizes]
    return arithmetic.filled(value, counts) if counts else value


def _is_open(values: Values, value: Value) -> bool:
    nodes = (each.node if isinstance(each, Condition) else each for each in arithmetic.elements(value))
    marks = values.graph.mark
    return NOTHING in values.names_in(*(k for k in nodes if isinstance(k, int) and marks[k] & PARAMETER))


def section(values: Values, statements: Sequence[Statement], scope: Scope) -> dict[str, Value]:
    """The values at the end of an algorithm of a model of what it assigns, which begins with start values."""
    inside, names = dict[str, Value](), [str(name) for name in assigned_in(statements)]
    for name in names:
        member = values.lookup(Name(0, [(name, [])]), scope)
        inside[name] = arithmetic.mapped(partial(_begin, values), member)
    if word := carry_out(values, statements, Scope(scope.instance, scope.definition, inside)):
        values.fail(statements[0].at, f"{word} in a model is not understood; write it in a function")
    for name in names:
        if _is_open(values, inside[name]):
            values.fail(statements[0].at, f"the algorithm does not give {name} a value in all cases")
    return inside


def _begin(values: Values, variable: Any) -> Value:
    """The value of a variable, or of a record, where an algorithm of a model begins."""
    if isinstance(variable, Instance):
        begin = partial(arithmetic.mapped, partial(_begin, values))
        return {word: begin(part) for word, part in variable.members.items()}
    start = variable.attributes.get("start")
    if variable.type != "Real":
        return values.graph.parameter(NOTHING)
    return values.graph.zero if start is None else values.bound(start)


def assigned_in(statements: Sequence[Statement]) -> list[syntax.Name]:
    """The names that statements assign, where they stand first."""
    targets = (target for _, target in targets_in(statements) if isinstance(target, syntax.Name))
    return [*{str(target): target for target in targets}.values()]


def targets_in(statements: Sequence[Any]) -> Iterator[tuple[int, syntax.Expression]]:
    """What statements, or the equations under when, assign, each with the place of its statement."""
    for part in syntax.parts_of(list(statements)):
        if isinstance(part, syntax.Equal) and not part.reinit:
            left = part.left.items if isinstance(part.left, syntax.Results) else [part.left]
            yield from ((part.at, item) for item in left if not isinstance(item, syntax.Every))


def carry_out(values: Values, statements: Sequence[Statement], scope: Scope) -> str:
    """Carry out statements on the local values; the word by which they were left, or an empty one."""
    for statement in statements:
        values.spend(1, statement.at)
        word = ""
        match statement:
            case syntax.Equal(reinit=False):
                _assign(values, statement, scope)
            case syntax.Leave():
                word = statement.word
            case syntax.If():
                word = _choose(values, statement, scope)
            case syntax.For() | syntax.While():
                word = _repeat(values, statement, scope)
            case syntax.Assert():
                values.require(statement.at, *said(values, statement, scope))
            case _:
                values.fail(statement.at, "this is not understood in an algorithm; write it in an equation")
        if word:
            return word
    return ""


def said(values: Values, assertion: syntax.Assert, scope: Scope) -> tuple[Any, dict[str, Any]]:
    """What is asserted, and the arguments of ``Model.when`` by which its violation is told."""
    arguments = [*assertion.call.arguments, *assertion.call.named.values()]
    ends = str(assertion.call.function) == "terminate"
    if len(arguments) not in ((1,) if ends else (2, 3)):
        takes = "a message" if ends else "a condition, a message, and perhaps a level"
        values.fail(assertion.at, f"{assertion.call.function} takes {takes}")
    condition = FALSE if ends else values.condition(arguments[0], scope)
    # Values that the message has as texts are not known before.
    texts = [part.value for part in syntax.parts_of(arguments[not ends]) if isinstance(part, syntax.Text)]
    message = "...".join(texts[::-1]).rstrip(" :") or ("terminate" if ends else "an assertion does not hold")
    level = arguments[-1]  # A number where rumoca has read it.
    warns = not ends and (str(level).endswith("warning") or getattr(level, "text", "") == "1")
    return condition, {"message": message, "terminal": not warns, "success": ends}


def targets_and_values(
    values: Values, item: syntax.Equal, scope: Scope, verb: str
) -> list[tuple[syntax.Expression, Value]]:
    """What stands on the left of an equation, each with its value; ``verb`` says what it does in messages."""
    if not isinstance(item.left, syntax.Results):
        return [(item.left, values.value(item.right, scope))]
    if isinstance(item.right, syntax.Results) and len(item.left.items) == len(item.right.items):
        news = [values.value(part, scope) for part in item.right.items]
    elif isinstance(item.right, Call):
        news = results(values, item.right, scope)
    else:
        values.fail(item.at, f"several variables {verb} the results of a function, or as many values")
    pairs = zip(item.left.items, news, strict=False)
    return [(target, value) for target, value in pairs if not isinstance(target, syntax.Every)]


def _assign(values: Values, item: syntax.Equal, scope: Scope) -> None:
    for target, new in targets_and_values(values, item, scope, "are assigned"):
        assert isinstance(target, syntax.Name)
        is_function = scope.instance is None
        (word, subscripts), *fields = target.parts if is_function else [(str(target), target.parts[-1][1])]
        components = values.library.components(scope.definition) if is_function else []
        known = {part.name: part for part in components}
        if is_function and word not in known:
            values.fail(item.at, f"{target} is no variable of function {scope.definition.name}")
        if word in known and known[word].causality == "input":
            values.fail(item.at, f"{word} is an input of {scope.definition.name}; assign another variable")
        old, parts = scope.locals.get(word), [("", subscripts), *fields]
        scope.locals[word] = _replaced(values, old, parts, new, target, scope)


def _replaced(values: Values, old: Value, parts: NameParts, new: Value, name: Name, scope: Scope) -> Value:
    """An array or a record with new values of what parts of a name, the first without a word, select."""
    (_, subscripts), *fields = parts
    if not subscripts and not fields:
        return new
    if not subscripts:
        (word, inner), *fields = fields
        whole = old if isinstance(old, dict) else {}
        part = _replaced(values, whole.get(word), [("", inner), *fields], new, name, scope)
        return {**whole, word: part}
    if not isinstance(old, list):
        values.fail(name.at, f"{name} is no array of a size that is told; give it sizes")
    places, rest = values.places(subscripts[0], len(old), scope, name), [("", subscripts[1:]), *fields]
    if isinstance(places, list) and places and isinstance(places[0], Condition):
        array = list[Value]()
        for test, part in zip(places, old, strict=True):
            cases = [_replaced(values, part, rest, new, name, scope), part]
            array.append(values.wrapped(name.at, values.graph.chosen, [test, TRUE], cases))
        return array
    if isinstance(places, int):
        places, new = [places], [new]
    if not isinstance(new, list) or len(new) != len(places):
        values.fail(name.at, f"{len(places)} elements of {name} get a value of another size")
    array = list(old)
    for place, value in zip(places, new, strict=True):
        array[place] = _replaced(values, old[place], rest, value, name, scope)
    return array


def _choose(values: Values, item: syntax.If, scope: Scope) -> str:
    tests, bodies = values.cases(item, scope)
    if len(bodies) == 1:
        return carry_out(values, bodies[0], scope)
    ends = list[dict[str, Value]]()
    for body in values.in_cases(tests, bodies):
        inner = scope.inner({})
        if word := carry_out(values, body, inner):
            values.fail(item.at, f"{word} depends on an unknown here; write if without it")
        ends.append(inner.locals)
    for name in ends[0]:
        news = [end.get(name) for end in ends]
        if all(new is not None for new in news):
            scope.locals[name] = values.wrapped(item.at, values.graph.chosen, tests, news)
    return ""


def _repeat(values: Values, item: syntax.For | syntax.While, scope: Scope) -> str:
    if isinstance(item, syntax.While):
        for _ in range(MOST_ELEMENTS):
            condition = values.condition(item.test, scope)
            if values.decided(condition, item.at, "the condition of while") == FALSE:
                return ""
            if word := carry_out(values, item.body, scope):
                return word if word == "return" else ""
        values.fail(item.at, f"while goes on for more than {MOST_ELEMENTS} turns")
    (name, where), *further = item.indices
    turns = values.value(where, scope)
    if not isinstance(turns, list):
        values.fail(where.at, "an index needs a range, such as 1:3")
    word, hidden = "", {key: old for key, old in scope.locals.items() if key == name}
    body = [syntax.For(item.at, further, item.body)] if further else item.body
    for turn in turns:
        scope.locals[name] = turn
        if word := carry_out(values, body, scope):
            break
    scope.locals.pop(name, None)
    scope.locals.update(hidden)
    return word if word == "return" else ""
