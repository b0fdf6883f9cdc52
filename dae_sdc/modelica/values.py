"""Evaluation of expressions and function calls to SymPy expressions of unknowns and parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import sympy

from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.symbols import TIME, Unknown
from dae_sdc.model.sympy_input import from_sympy, to_sympy
from dae_sdc.modelica import syntax
from dae_sdc.modelica.arithmetic import (
    FUNCTIONS,
    MOST_ELEMENTS,
    Value,
    add,
    choice,
    compared,
    cross,
    divided,
    each,
    elements,
    extreme,
    filled,
    identity,
    is_condition,
    joined,
    minus,
    multiply,
    multiply_elements,
    opposite,
    plus,
    power,
    rational,
    sizes,
    times,
    transpose,
    work_of,
)
from dae_sdc.modelica.evaluation import DEEPEST_VALUE, Evaluation
from dae_sdc.modelica.library import Library, Scope
from dae_sdc.modelica.syntax import Call
from dae_sdc.modelica.text import similar

HIGHEST_DIFF_ORDER: Final = 10
"""Largest order k of a derivative that is written ``diff(x, t$k)``."""

_Rule = Callable[[Evaluation, Call, Scope], Value]

_NO_FUNCTIONS: Final = (
    "pre edge change delay sample initial terminal reinit cardinality previous hold spatialDistribution "
    "String actualStream inStream getInstanceName subSample superSample assert terminate"
).split()


def of_call(values: Evaluation, item: Call, scope: Scope) -> Value:
    """The value of a call."""
    text = str(item.function)
    if text == "der":
        (value,) = _arguments(values, item, scope, 1)
        return _derivative(values, value, 1, item.at)
    known = values.library.find(item.function, scope.definition)
    if isinstance(known, syntax.ClassDefinition) and not known.built_in:
        if known.kind != "function":
            values.fail(item.at, f"{known.kind} {text} is called like a function")
        return _called(values, known, item, scope)
    of_time = _of_time(values, item, scope)
    return _built_in(values, item, scope) if of_time is None else of_time


def _of_time(values: Evaluation, item: Call, scope: Scope) -> Value | None:
    """The unknown x for a call x(t); None for other calls."""
    if item.named or len(item.arguments) != 1 or not isinstance(item.arguments[0], syntax.Name):
        return None
    if str(item.arguments[0]) not in ("t", "time") or str(item.function) in FUNCTIONS:
        return None
    found = values.lookup(item.function, scope)
    return None if found is None else values.of_member(found, item.function)


def _built_in(values: Evaluation, item: Call, scope: Scope) -> Value:
    words = [word for word, _ in item.function.parts]
    names = [".".join(path) for path in values.library.paths(words, scope.definition)]
    for name in names:
        if name in _CALLS:
            return _CALLS[name](values, item, scope)
        short = name.removeprefix("Modelica.Math.")
        if short in FUNCTIONS:
            count, function = FUNCTIONS[short]
            if short == "arctan" and len(item.arguments) == 2:
                count, function = FUNCTIONS["atan2"]
            given = [values.as_number(v, item.at) for v in _arguments(values, item, scope, count)]
            return values.wrapped(item.at, function, *given)
    text = str(item.function)
    if text in _NO_FUNCTIONS:
        values.fail(item.at, f"{text}(...) is not understood; a model has no events and no memory")
    if values.lookup(item.function, scope) is not None:
        values.fail(item.at, f"{text} is a variable and no function; write * for a product")
    plain = text.removeprefix("Modelica.Math.")
    hint = similar(plain, [*FUNCTIONS, *_CALLS]) or "; write the function into this file"
    values.fail(item.at, f"there is no function {text}{hint}")


def _arguments(values: Evaluation, item: Call, scope: Scope, count: int | None = None) -> list[Value]:
    """Values of positional arguments; an error for named ones, or if there are not ``count`` of them."""
    if item.named:
        values.fail(item.at, f"{item.function} takes no argument {next(iter(item.named))}=")
    if count is not None and len(item.arguments) != count:
        wanted = "1 argument" if count == 1 else f"{count} arguments"
        values.fail(item.at, f"{item.function} takes {wanted}; got {len(item.arguments)}")
    return [values.value(part, scope) for part in item.arguments]


def _derivative(values: Evaluation, value: Value, order: int, at: int) -> Value:
    """The derivative of a value with respect to time."""
    if isinstance(value, list):
        return [_derivative(values, one, order, at) for one in value]
    value = values.as_number(value, at)
    if isinstance(value, Unknown):
        return Unknown(value.base, value.order + order)
    graph = Graph()
    places: dict[str, int] = {}

    def resolve(item: Any) -> int:
        if item == TIME:
            return graph.time()
        name = item.base if isinstance(item, Unknown) else item.name
        k = places.setdefault(name, len(places))
        return graph.variable(k, item.order) if isinstance(item, Unknown) else graph.parameter(k)

    def symbol(leaf: Leaf) -> Any:
        if leaf.kind == "t":
            return TIME
        name = names[leaf.index]
        return Unknown(name, leaf.order) if leaf.kind == "u" else sympy.Symbol(name, real=True)

    node = graph.total_derivative(values.wrapped(at, from_sympy, graph, value, resolve), order)
    names = list(places)
    return values.check(to_sympy(graph, [node], symbol)[0], at)


# Functions of the text


def _called(values: Evaluation, function: syntax.ClassDefinition, item: Call, scope: Scope) -> Value:
    """The value of a call of a function of the text, by carrying out its assignments in order."""
    name = function.name
    parts = [one for base in values.library.with_bases(function) for one in base.elements]
    components = [one for one in parts if isinstance(one, syntax.Component)]
    by_name = {one.name: one for one in components}
    outputs = [one.name for one in components if one.causality == "output"]
    if len(outputs) != 1:
        values.fail(item.at, f"function {name} has {len(outputs)} outputs; one is understood")
    inner = Scope(None, function, {})
    known: dict[str, Value] = {}
    inner.locals = known
    for word, part in _matched(values, name, components, item).items():
        known[word] = values.value(part, scope)
    for one in components:
        if one.name in known:
            continue
        if one.modification is not None and one.modification.value is not None:
            known[one.name] = values.value(one.modification.value, inner)
        elif one.causality == "input":
            values.fail(item.at, f"{name} needs a value of {one.name}")
    for statement in function.statements:
        target, subscripts = statement.name.parts[0]
        if len(statement.name.parts) > 1 or subscripts or target not in by_name:
            values.fail(statement.at, f"{statement.name} is no variable of function {name}")
        if by_name[target].causality == "input":
            values.fail(statement.at, f"{target} is an input of function {name}; it cannot be assigned")
        known[target] = values.value(statement.value, inner)
        values.check(known[target], statement.at)
    if outputs[0] not in known:
        values.fail(function.at, f"function {name} gives {outputs[0]} no value; add an algorithm")
    return known[outputs[0]]


def _matched(
    values: Evaluation, name: str, components: list[syntax.Component], item: Call
) -> dict[str, syntax.Expression]:
    """The arguments of a call by the names of the function's inputs, in their order."""
    inputs = [one.name for one in components if one.causality == "input"]
    if len(item.arguments) > len(inputs):
        values.fail(item.at, f"{name} takes {len(inputs)} arguments; got {len(item.arguments)}")
    given = dict(zip(inputs, item.arguments, strict=False))
    for key, part in item.named.items():
        if key in given or key not in inputs:
            hint = similar(key, inputs)
            values.fail(item.at, f"{name} takes no argument {key}, or has it already{hint}")
        given[key] = part
    return {word: given[word] for word in inputs if word in given}


# Functions with special rules


def _homotopy(values: Evaluation, item: Call, scope: Scope) -> Value:
    if item.arguments:
        return values.value(item.arguments[0], scope)
    if "actual" not in item.named:
        values.fail(item.at, "homotopy needs actual=")
    return values.value(item.named["actual"], scope)


def _diff(values: Evaluation, item: Call, scope: Scope) -> Value:
    order = 0
    for part in item.arguments[1:]:
        repeats = 1
        if isinstance(part, Call) and str(part.function) == "$":
            repeats = values.integer(part.arguments[1], scope, "the order of a derivative")
            part = part.arguments[0]
        of_time = isinstance(part, syntax.Name) and values.value(part, scope) == TIME
        if not of_time or not 1 <= repeats <= HIGHEST_DIFF_ORDER:
            values.fail(
                item.at,
                f"diff(...) is understood with respect to time only, up to order {HIGHEST_DIFF_ORDER}",
            )
        order += repeats
    if item.named or not order:
        values.fail(item.at, "diff needs an expression and t, such as diff(x(t), t)")
    return _derivative(values, values.value(item.arguments[0], scope), order, item.at)


def _piecewise(values: Evaluation, item: Call, scope: Scope) -> Value:
    given = item.arguments
    if item.named or len(given) < 2:
        values.fail(item.at, "piecewise needs conditions and values, piecewise(c1, v1, ..., other)")
    pairs = [(given[k], given[k + 1]) for k in range(0, len(given) - 1, 2)]
    other = given[-1] if len(given) % 2 else syntax.Number(item.at, "0")
    return values.value(syntax.If(item.at, pairs, other), scope)


def _extreme(values: Evaluation, item: Call, scope: Scope) -> Value:
    given = _arguments(values, item, scope)
    flat = [values.as_number(one, item.at) for one in elements(given)]
    if not flat or (len(flat) < 2 and not isinstance(given[0], list)):
        values.fail(item.at, f"{item.function} takes 2 arguments, or an array with elements")
    return extreme(item.function.parts[-1][0] == "max", flat)


def _total(values: Evaluation, item: Call, scope: Scope) -> Value:
    given = [values.as_number(one, item.at) for one in elements(_arguments(values, item, scope, 1))]
    return values.wrapped(item.at, plus if item.function.parts[-1][0] == "sum" else times, given)


def _size(values: Evaluation, item: Call, scope: Scope) -> Value:
    given = _arguments(values, item, scope)
    found = sizes(given[0]) if given else []
    if len(given) == 1:
        return [sympy.Integer(k) for k in found]
    k = values.integer(item.arguments[1], scope, "the second argument of size") if len(given) == 2 else 0
    if not 1 <= k <= len(found):
        values.fail(item.at, f"size needs an array and one of its {len(found)} dimensions")
    return sympy.Integer(found[k - 1])


def _filled(values: Evaluation, item: Call, scope: Scope) -> Value:
    name = item.function.parts[-1][0]
    if item.named or len(item.arguments) < 1 + (name == "fill"):
        values.fail(item.at, f"{name} needs sizes")
    counted = item.arguments[1:] if name == "fill" else item.arguments
    counts = [values.integer(part, scope, f"the size in {name}") for part in counted]
    if name == "identity":
        return values.wrapped(item.at, identity, counts[0])
    value = values.value(item.arguments[0], scope) if name == "fill" else sympy.Integer(int(name == "ones"))
    values.spend(math.prod(counts), item.at)
    return values.wrapped(item.at, filled, value, counts)


def _of_arrays(function: Callable[..., Value], count: int) -> _Rule:
    return lambda values, item, scope: values.wrapped(
        item.at, function, *_arguments(values, item, scope, count)
    )


def _interpolate(values: Evaluation, item: Call, scope: Scope) -> Value:
    places, heights, x = _arguments(values, item, scope, 3)
    if not isinstance(places, list) or not isinstance(heights, list) or len(places) != len(heights):
        values.fail(item.at, "interpolate needs two vectors of the same length and a number")
    points = list(zip(places, heights, strict=True))
    return values.interpolated(points, values.as_number(x, item.at), item.at)


_CALLS: Final[dict[str, _Rule]] = {
    "noEvent": lambda values, item, scope: _arguments(values, item, scope, 1)[0],
    "smooth": lambda values, item, scope: _arguments(values, item, scope, 2)[1],
    "homotopy": _homotopy,
    "diff": _diff,
    "piecewise": _piecewise,
    "Modelica.Math.Vectors.interpolate": _interpolate,
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("sum", "product"), _total),
    "size": _size,
    **dict.fromkeys(("zeros", "ones", "fill", "identity"), _filled),
    "transpose": _of_arrays(transpose, 1),
    "cross": _of_arrays(cross, 2),
}
"""Functions with special rules, by name."""


class Values(Evaluation):
    """Evaluation of expressions; its parameters are those of :class:`Evaluation`."""

    def __init__(self, library: Library, given: Mapping[str, float], structural: set[str]) -> None:
        super().__init__(library, given, structural)
        self._depth = 0
        self._literals: dict[str, Any] = {}

    def value(self, expression: syntax.Expression, scope: Scope) -> Value:
        """The value of an expression."""
        self._depth += 1
        self.spend(1, expression.at)
        if self._depth > DEEPEST_VALUE:
            self.fail(expression.at, "this is nested too deeply; write parts of it as variables of their own")
        try:
            return _KINDS[type(expression)](self, expression, scope)
        finally:
            self._depth -= 1

    # Literals

    def _of_number(self, item: syntax.Number, scope: Scope) -> Value:
        known = self._literals.get(item.text)
        if known is None:
            known = self._literals[item.text] = self.wrapped(item.at, rational, item.text)
        return known

    # Arithmetic

    def _of_sum(self, item: syntax.Sum, scope: Scope) -> Value:
        terms = []
        for sign, part in item.terms:
            value = self.value(part, scope)
            if isinstance(value, str):  # strings are joined by +
                texts = [self.value(part, scope) for sign, part in item.terms if sign > 0]
                if len(texts) < len(item.terms) or not all(isinstance(text, str) for text in texts):
                    self.fail(item.at, "a string where a number is expected")
                return "".join(texts)
            terms.append(self.wrapped(part.at, each, minus, value) if sign < 0 else value)
        return self.wrapped(item.at, add, terms)

    def _of_product(self, item: syntax.Product, scope: Scope) -> Value:
        over: list[Value] = []
        for mark, part in item.factors:
            value = self.value(part, scope)
            if mark == "/":
                by = self.as_number(value, part.at)
                before = self.wrapped(item.at, multiply, over)
                over = [self.wrapped(part.at, each, partial(divided, by=by), before)]
            elif mark == ".*" and isinstance(value, list):
                before = self.wrapped(item.at, multiply, over)
                over = [self.wrapped(item.at, multiply_elements, before, value)]
            else:
                over.append(value)
        self.spend(work_of(over), item.at)
        return self.wrapped(item.at, multiply, over)

    def _of_power(self, item: syntax.Power, scope: Scope) -> Value:
        base, exponent = self.value(item.base, scope), self.number(item.exponent, scope)
        return self.wrapped(item.at, power, self.as_number(base, item.at), exponent)

    # Conditions and choices

    def _of_comparison(self, item: syntax.Comparison, scope: Scope) -> Value:
        left, right = self.value(item.left, scope), self.value(item.right, scope)
        if item.sign in ("==", "<>") and is_condition(left) and is_condition(right):
            same = [[left, right], [opposite(left), opposite(right)]]
            found = joined(False, [joined(True, pair) for pair in same])
            return found if item.sign == "==" else opposite(found)
        return compared(item.sign, self.as_number(left, item.left.at), self.as_number(right, item.right.at))

    def _of_if(self, item: syntax.If, scope: Scope) -> Value:
        branches = []
        for test, part in item.branches:
            condition = self.condition(test, scope)
            if condition == sympy.false:
                continue
            branches.append((condition, self.value(part, scope), part.at))
            if condition == sympy.true:
                break
        else:
            branches.append((sympy.true, self.value(item.other, scope), item.other.at))
        return self._chosen(branches, item.at)

    def _chosen(self, branches: list[tuple[Any, Value, int]], at: int) -> Value:
        values = [value for _, value, _ in branches]
        if len(values) == 1:
            return values[0]
        if isinstance(values[0], list):
            if not all(isinstance(value, list) and len(value) == len(values[0]) for value in values):
                self.fail(at, "the choices are arrays of different sizes")
            return [
                self._chosen([(test, value[k], where) for test, value, where in branches], at)
                for k in range(len(values[0]))
            ]
        if all(is_condition(value) for value in values):
            found = values[-1]
            for test, value, _ in reversed(branches[:-1]):
                found = joined(False, [joined(True, [test, value]), joined(True, [opposite(test), found])])
            return found
        pairs = [(test, self.as_number(value, where)) for test, value, where in branches]
        return choice(pairs[:-1], pairs[-1][1])

    # Arrays

    def _of_array(self, item: syntax.Array, scope: Scope) -> Value:
        if not item.indices:
            return [self.value(part, scope) for part in item.items]
        too_many = f"an array of more than {MOST_ELEMENTS} elements"
        scopes = self.scopes(item.indices, scope, item.at, too_many)
        return [self.value(item.items[0], one) for one in scopes]

    def _of_matrix(self, item: syntax.Matrix, scope: Scope) -> Value:
        rows = [[self.number(part, scope) for part in row] for row in item.rows]
        if len({len(row) for row in rows}) > 1:
            self.fail(item.at, "the rows of a matrix have different lengths")
        return rows


_KINDS: Final[dict[type, Callable[[Values, Any, Scope], Value]]] = {
    syntax.Number: Values._of_number,
    syntax.Text: lambda values, item, scope: item.value,
    syntax.Truth: lambda values, item, scope: sympy.true if item.value else sympy.false,
    syntax.Every: lambda values, item, scope: values.fail(item.at, "a colon where a value is expected"),
    syntax.Name: Values.of_name,
    syntax.Call: of_call,
    syntax.Sum: Values._of_sum,
    syntax.Product: Values._of_product,
    syntax.Power: Values._of_power,
    syntax.Comparison: Values._of_comparison,
    syntax.Logic: lambda values, item, scope: joined(
        item.word == "and", [values.condition(part, scope) for part in item.parts]
    ),
    syntax.Negation: lambda values, item, scope: opposite(values.condition(item.part, scope)),
    syntax.If: Values._of_if,
    syntax.Range: lambda values, item, scope: [sympy.Integer(k) for k in values.range(item, scope)],
    syntax.Array: Values._of_array,
    syntax.Matrix: Values._of_matrix,
}
