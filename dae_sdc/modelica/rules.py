"""What each form of an expression in a text means: operators, choices, arrays and calls of functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial, reduce
from typing import Any, Final

from dae_sdc.expressions.dag import Op
from dae_sdc.model.symbolic_values import Scalar, node_of
from dae_sdc.modelica import arithmetic, syntax
from dae_sdc.modelica.algorithms import results
from dae_sdc.modelica.arithmetic import FALSE, SIMPLIFIED, TRUE, Condition, Value
from dae_sdc.modelica.library import TABLES, Scope, Variable
from dae_sdc.modelica.syntax import Call, Operation, Precedence, similar
from dae_sdc.modelica.tables import of_table
from dae_sdc.modelica.values import NOT_DISCRETE, Rule, Values, scopes
from dae_sdc.modelica.writer import event_text

HIGHEST_DIFF_ORDER: Final = 10  # Largest order k of a derivative that is written ``diff(x, t$k)``.

_NO_FUNCTIONS: Final = (
    "delay reinit cardinality previous hold spatialDistribution "
    "String actualStream inStream getInstanceName subSample superSample assert terminate"
).split()


def _sum(values: Values, item: Operation, scope: Scope) -> Value:
    terms = []
    for sign, part in item.parts:
        value = values.value(part, scope)
        if sign == "-":
            value = values.wrapped(part.at, arithmetic.each, values.graph.neg, value)
        terms.append(value)
    if texts := [term for term in terms if isinstance(term, str)]:  # which are joined by +
        if len(texts) < len(terms):
            values.fail(item.at, "a string where a number is expected")
        return "".join(texts)
    plus = values.graph.plus
    return arithmetic.together(lambda *numbers: plus(map(arithmetic.scalar, numbers)), terms, "term")


def _product(values: Values, item: Operation, scope: Scope) -> Value:
    over, graph = list[Value](), values.graph
    for sign, part in item.parts:
        value = values.value(part, scope)
        if sign == "/":
            by = values.as_number(value, part.at)
            before = graph.product(over)
            over = [values.wrapped(part.at, arithmetic.each, partial(graph.divided, by=by), before)]
        elif sign == ".*" and isinstance(value, list) and isinstance(graph.product(over), list):
            pair = [graph.product(over), value]
            over = [arithmetic.together(lambda *both: graph.product(both), pair, "factor")]
        else:
            over.append(value)
    values.spend(sum(map(arithmetic.work_of, over, over[1:])), item.at)
    return graph.product(over)


def _power(values: Values, item: Operation, scope: Scope) -> Value:
    (_, base), (_, exponent) = item.parts
    value, by = values.value(base, scope), values.number(exponent, scope)
    if isinstance(value, list) and item.parts[1][0] == "^":
        count = values.integer(exponent, scope, "the exponent of a matrix")
        if count < 0 or arithmetic.sizes(value) != [len(value)] * 2:
            values.fail(item.at, "^ takes square matrices, with exponents from 0 on; write .^ for elements")
        values.spend(count * len(value) ** 3, item.at)
        places = range(len(value))
        identity = [[values.graph.constant(i == j) for j in places] for i in places]
        return values.graph.product([identity, *[value] * count])
    return arithmetic.each(partial(values.graph.raised, exponent=by), value)


def _comparison(values: Values, item: Operation, scope: Scope) -> Value:
    (_, first), (sign, second) = item.parts
    left, right = values.value(first, scope), values.value(second, scope)
    if isinstance(left, str) and isinstance(right, str) and sign in ("==", "<>"):
        return TRUE if (left == right) is (sign == "==") else FALSE
    graph = values.graph
    if sign in ("==", "<>") and isinstance(left, Condition) and isinstance(right, Condition):
        equal = graph.conditional(left, right, graph.opposite(right))
        return equal if sign == "==" else graph.opposite(equal)
    return graph.compared(sign, values.as_number(left, first.at), values.as_number(right, second.at))


def _conditions(values: Values, item: Operation, scope: Scope) -> Value:
    def join(*parts: Any) -> Any:
        conditions = [values.as_condition(each, item.at) for each in parts]
        if item.precedence is Precedence.NOT:
            return values.graph.opposite(*conditions)
        return values.graph.joined(item.precedence is Precedence.AND, conditions)

    return arithmetic.together(join, [values.value(part, scope) for _, part in item.parts], "condition")


_OPERATIONS: Final[dict[Precedence, Rule]] = {
    **dict.fromkeys((Precedence.OR, Precedence.AND, Precedence.NOT), _conditions),
    Precedence.COMPARISON: _comparison,
    Precedence.SUM: _sum,
    Precedence.PRODUCT: _product,
    Precedence.POWER: _power,
}


def _if(values: Values, item: syntax.If, scope: Scope) -> Value:
    tests, parts = values.cases(item, scope)
    return values.graph.chosen(tests, [values.value(part, scope) for part in values.in_cases(tests, parts)])


def _array(values: Values, item: syntax.Array, scope: Scope) -> Value:
    if not item.indices:
        return [values.value(part, scope) for part in item.items]
    *inner, last = item.indices
    part: syntax.Expression = syntax.Array(item.at, item.items, inner) if inner else item.items[0]
    return [values.value(part, turn) for turn in scopes(values, [last], scope, item.at)]


def _matrix(values: Values, item: syntax.Matrix, scope: Scope) -> Value:
    rows = [[arithmetic.as_matrix(values.value(part, scope)) for part in row] for row in item.rows]
    whole: list[Any] = arithmetic.joined_along(1, [arithmetic.joined_along(2, parts) for parts in rows])
    if len({len(line) for line in whole}) > 1:
        values.fail(item.at, "the rows of a matrix have different lengths")
    return whole


def _call(values: Values, item: Call, scope: Scope) -> Value:
    text = str(item.function)
    if text == "der":
        return _derivative(values, _arguments(values, item, scope, 1)[0], 1, item.at)
    function = values.library.find(item.function, scope.definition)
    if isinstance(function, syntax.ClassDefinition) and not function.built_in:
        if function.kind not in ("function", "record"):
            values.fail(item.at, f"{function.kind} {text} is called like a function")
        if not (news := results(values, item, scope)):
            values.fail(item.at, f"function {text} has no output; declare one")
        return news[0]
    # x(t) is the unknown x.
    argument = item.arguments[0] if len(item.arguments) == 1 and not item.named else None
    of_time = isinstance(argument, syntax.Name) and str(argument) in ("t", "time")
    variable = values.lookup(item.function, scope) if of_time and text not in arithmetic.FUNCTIONS else None
    return _built_in(values, item, scope) if variable is None else values.of_member(variable, item.function)


def _built_in(values: Values, item: Call, scope: Scope) -> Value:
    text = str(item.function)
    if text in _CALLS:
        return _CALLS[text](values, item, scope)
    short = text.removeprefix("Modelica.Math.")
    if short in arithmetic.FUNCTIONS:
        is_of_two = short == "arctan" and len(item.arguments) == 2
        count, function = arithmetic.FUNCTIONS["atan2" if is_of_two else short]
        given = _arguments(values, item, scope, count)

        def of_nodes(*nodes: int) -> int:
            return node_of(values.graph, function(*(Scalar(values.graph, node) for node in nodes)))

        return arithmetic.each(of_nodes, given[0]) if count == 1 else of_nodes(*map(arithmetic.scalar, given))
    if text in _NO_FUNCTIONS:
        values.fail(item.at, f"{text}(...) is not understood here; write it without")
    if values.lookup(item.function, scope) is not None:
        values.fail(item.at, f"{text} is a variable and no function; write * for a product")
    hint = similar(short, [*arithmetic.FUNCTIONS, *_CALLS]) or "; write the function into this file"
    values.fail(item.at, f"there is no function {text}{hint}")


def _arguments(values: Values, item: Call, scope: Scope, count: int | None = None) -> list[Value]:
    """Values of positional arguments; an error for named ones, or if there are not ``count`` of them."""
    if item.named:
        values.fail(item.at, f"{item.function} takes no argument {next(iter(item.named))}=")
    if count is not None and len(item.arguments) != count:
        wanted = "1 argument" if count == 1 else f"{count} arguments"
        values.fail(item.at, f"{item.function} takes {wanted}; got {len(item.arguments)}")
    return [values.value(part, scope) for part in item.arguments]


def _derivative(values: Values, value: Value, order: int, at: int) -> Value:
    return arithmetic.each(lambda each: values.check(values.graph.total_derivative(each, order), at), value)


def _homotopy(values: Values, item: Call, scope: Scope) -> Value:
    given = {**item.named, **dict(zip(("actual", "simplified"), item.arguments, strict=False))}
    if "actual" not in given:
        values.fail(item.at, "homotopy needs actual=")
    value, graph = values.value(given["actual"], scope), values.graph
    if "simplified" not in given or not isinstance(value, int) or not graph.leaves_of(value):
        return value
    simpler = values.number(given["simplified"], scope)
    return graph.call(Op.SELECT, graph.parameter(SIMPLIFIED), value, simpler)


def _before(values: Values, item: Call, scope: Scope) -> Value:
    """The value before an event; between events discrete variables keep theirs."""

    def before(part: Any) -> Value:
        value = values.symbol(part) if isinstance(part, Variable) else part
        if isinstance(part, Variable) and part.name in values.defined:
            unknown = values.graph.variable(part.name)
        elif (of_value := values.unknown_of(value)) is not None:
            unknown = of_value
            values.kept.setdefault(str(values.graph.leaves[unknown].index), item.at)
        else:
            values.fail(item.at, NOT_DISCRETE)
        if not values.at_event:
            return value
        old = values.before_event(unknown)
        return values.condition_of(old) if isinstance(value, Condition) else old

    (value,), place = _arguments(values, item, scope, 1), item.arguments[0]
    member = values.lookup(place, scope)
    return arithmetic.mapped(before, value if member is None else member)


def _changed(values: Values, item: Call, scope: Scope) -> Value:
    """Whether a Boolean variable becomes true at an event, or with ``change`` whether a variable does so."""
    before, graph, place = _before(values, item, scope), values.graph, item.arguments[0]
    now, name = values.value(place, scope), getattr(values.lookup(place, scope), "name", "")
    if name in values.defined and values.moments.isdisjoint(graph.below([values.truth(now, item.at)])):
        unknown = graph.variable(name)  # that knows its side at a border
        now = values.condition_of(unknown) if isinstance(now, Condition) else unknown
    is_change = str(item.function) == "change"
    if is_change and not isinstance(now, Condition):
        if name not in {*values.defined, *values.discrete}:
            values.fail(
                item.at, "change takes a Boolean or Integer variable, or one that when-equations assign"
            )
        return graph.compared("<>", now, before)
    now = values.as_condition(now, item.at)
    was_not = graph.opposite(before)
    return graph.conditional(now, was_not, before) if is_change else graph.joined(True, [now, was_not])


def _sample(values: Values, item: Call, scope: Scope) -> Value:
    """Whether a time at equal distances has come, which holds at events alone."""
    times = map(arithmetic.scalar, _arguments(values, item, scope, 2))
    start, period = (event_text(values.graph, time) for time in times)
    return _moment(values, f"sample({start}, {period})")


def _at_end(values: Values, item: Call, scope: Scope) -> Value:
    """Whether the run is at its start or its end, which holds at events alone."""
    if values.at_choice:  # Start values that are all known do not depend on the equations at the start.
        values.initial = item.at if str(item.function) == "initial" else values.initial
        return FALSE
    if not values.at_event or _arguments(values, item, scope):
        values.fail(item.at, f"{item.function}(...) is not understood here; write it without")
    return _moment(values, f"{item.function}()")


def _moment(values: Values, name: str) -> Condition:
    """A condition that holds at events alone, which texts of events have under its name."""
    unknown = values.graph.variable(name)
    values.moments.add(unknown)
    return values.condition_of(unknown)


def _diff(values: Values, item: Call, scope: Scope) -> Value:
    order = 0
    for part in item.arguments[1:]:
        repeats = 1
        if isinstance(part, Call) and str(part.function) == "$":
            repeats = values.integer(part.arguments[1], scope, "the order of a derivative")
            part = part.arguments[0]
        of_time = isinstance(part, syntax.Name) and values.value(part, scope) == values.graph.time()
        if not of_time or not 1 <= repeats <= HIGHEST_DIFF_ORDER:
            what = "diff(...) is understood with respect to time only"
            values.fail(item.at, f"{what}, up to order {HIGHEST_DIFF_ORDER}")
        order += repeats
    if item.named or not order:
        values.fail(item.at, "diff needs an expression and t, such as diff(x(t), t)")
    return _derivative(values, values.value(item.arguments[0], scope), order, item.at)


def _piecewise(values: Values, item: Call, scope: Scope) -> Value:
    arguments = item.arguments
    if item.named or len(arguments) < 2:
        values.fail(item.at, "piecewise needs conditions and values, piecewise(c1, v1, ..., other)")
    pairs = list(zip(arguments[::2], arguments[1::2], strict=False))
    other = arguments[-1] if len(arguments) % 2 else syntax.Number(item.at, "0")
    return values.value(syntax.If(item.at, pairs, other), scope)


def _reduced(values: Values, item: Call, scope: Scope) -> Value:
    """The sum, the product or an extreme of all elements."""
    word, graph = str(item.function), values.graph
    arguments = _arguments(values, item, scope, 1 if word in ("sum", "product") else None)
    numbers = [arithmetic.scalar(value) for value in arithmetic.elements(arguments)]
    if word in ("sum", "product"):
        return graph.plus(numbers) if word == "sum" else graph.times(numbers)
    if not numbers or (len(numbers) < 2 and not isinstance(arguments[0], list)):
        values.fail(item.at, f"{word} takes 2 arguments, or an array with elements")
    return reduce(partial(graph.call, Op.MAX if word == "max" else Op.MIN), numbers)


def _size(values: Values, item: Call, scope: Scope) -> Value:
    arguments = _arguments(values, item, scope)
    counts = [values.graph.constant(count) for count in arithmetic.sizes(arguments[0] if arguments else 0)]
    if len(arguments) == 1:
        return counts
    is_pair = len(arguments) == 2
    k = values.integer(item.arguments[1], scope, "the second argument of size") if is_pair else 0
    if not 1 <= k <= len(counts):
        values.fail(item.at, f"size needs an array and one of its {len(counts)} dimensions")
    return counts[k - 1]


def _filled(values: Values, item: Call, scope: Scope) -> Value:
    name, arguments = str(item.function), item.arguments
    if name != "fill":
        arguments = [syntax.Number(item.at, "1" if name == "ones" else "0"), *arguments]
    if item.named or len(arguments) < 2:
        values.fail(item.at, f"{name} needs sizes")
    counts = [values.integer(part, scope, f"the size in {name}") for part in arguments[1:]]
    values.spend(math.prod(counts), item.at)
    return arithmetic.filled(values.value(arguments[0], scope), counts)


def _joined(values: Values, item: Call, scope: Scope) -> Value:
    along = values.integer(item.arguments[0], scope, "the dimension of cat")
    return arithmetic.joined_along(along, [values.value(part, scope) for part in item.arguments[1:]])


# Functions with special rules, by name.
_CALLS: Final[dict[str, Rule]] = {
    "noEvent": lambda values, item, scope: _arguments(values, item, scope, 1)[0],
    "pre": _before,
    **dict.fromkeys(("initial", "terminal"), _at_end),
    **dict.fromkeys(("edge", "change"), _changed),
    "sample": _sample,
    "Real": lambda values, item, scope: values.as_number(_arguments(values, item, scope, 1)[0], item.at),
    "smooth": lambda values, item, scope: _arguments(values, item, scope, 2)[1],
    "homotopy": _homotopy,
    "array": lambda values, item, scope: (
        values.value(item.arguments[0], scope)
        if isinstance(item.arguments[0], syntax.Array) and item.arguments[0].indices
        else _arguments(values, item, scope)
    ),
    "diff": _diff,
    "piecewise": _piecewise,
    **dict.fromkeys(TABLES, of_table),
    **dict.fromkeys(("min", "max", "sum", "product"), _reduced),
    "size": _size,
    **dict.fromkeys(("zeros", "ones", "fill"), _filled),
    "cat": _joined,
    "vector": lambda values, item, scope: arithmetic.elements(*_arguments(values, item, scope, 1)),
    "matrix": lambda values, item, scope: arithmetic.as_matrix(*_arguments(values, item, scope, 1)),
    "scalar": lambda values, item, scope: arithmetic.scalar(*_arguments(values, item, scope, 1)),
}
# The rule of every form.
RULES: Final[Mapping[type, Rule]] = {
    syntax.Number: lambda values, item, scope: values.graph.number(item.text),
    syntax.Text: lambda values, item, scope: item.value,
    syntax.Truth: lambda values, item, scope: TRUE if item.value else FALSE,
    syntax.Every: lambda values, item, scope: values.fail(item.at, "a colon where a value is expected"),
    syntax.Name: lambda values, item, scope: values.of_name(item, scope),
    Call: _call,
    Operation: lambda values, item, scope: _OPERATIONS[item.precedence](values, item, scope),
    syntax.If: _if,
    syntax.Range: lambda values, item, scope: [*map(values.graph.constant, values.range(item, scope))],
    syntax.Array: _array,
    syntax.Matrix: _matrix,
    syntax.Selected: lambda values, item, scope: values.selected(
        values.value(item.base, scope), item.parts, scope, item
    ),
}
