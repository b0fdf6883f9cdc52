"""Expressions of Modelica as SymPy's expressions of a model's unknowns and parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import sympy

from dae_sdc.errors import InputError, require_number
from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.symbols import TIME, Unknown
from dae_sdc.model.sympy_input import from_sympy, to_sympy
from dae_sdc.modelica import arrays
from dae_sdc.modelica.arithmetic import (
    FUNCTIONS,
    choice,
    compared,
    divided,
    extent,
    extreme,
    joined,
    minus,
    opposite,
    plus,
    power,
    rational,
    symbols_in,
    times,
)
from dae_sdc.modelica.arrays import MOST_ELEMENTS, Value, elements, is_condition
from dae_sdc.modelica.scope import (
    CONSTANTS,
    Bound,
    Instance,
    Library,
    Scope,
    Variable,
    member,
    names_of,
)
from dae_sdc.modelica.syntax import (
    Array,
    Call,
    ClassDefinition,
    Comparison,
    Component,
    Every,
    Expression,
    If,
    Logic,
    Matrix,
    Name,
    Negation,
    Number,
    Power,
    Product,
    Range,
    Sum,
    Text,
    Truth,
)
from dae_sdc.modelica.text import similar

__all__ = ["Values"]

_DEEPEST: Final = 200
_LONGEST: Final = 200_000
_MOST_WORK: Final = 1_000_000
_TRUTHS: Final = (sympy.true, sympy.false)

_NO_FUNCTIONS: Final = (
    "pre edge change delay sample initial terminal reinit cardinality previous hold spatialDistribution "
    "String actualStream inStream getInstanceName subSample superSample assert terminate"
).split()


class Values:
    """Turns expressions into SymPy's.

    Parameters
    ----------
    library : Library
        The classes.
    given : mapping of str to float
        Values of parameters that replace those of the text, by their names in the model.
    structural : set of str
        Names of parameters that shape the model, as sizes do, and are numbers in it. Those that are found to
        do so are added; then the text must be worked out again.
    """

    def __init__(self, library: Library, given: Mapping[str, float], structural: set[str]) -> None:
        self.library = library
        self.source = library.source
        self.given = given
        self.structural = structural
        self.work = 0
        self.variables: dict[str, Variable] = {}
        self.depth = 0
        self._symbols: dict[Variable, Any] = {}
        self._waiting: set[Variable] = set()
        self._constants: dict[Component, Any] = {}
        self._bounds: dict[tuple[int, int], tuple[Bound, Any]] = {}
        self._numbers: dict[str, Any] = {}
        self._extents: dict[int, tuple[int, int, Any]] = {}
        self.values: dict[Variable, float | None] = {}

    # Kinds of values

    def value(self, expression: Expression, scope: Scope) -> Value:
        """The value of an expression."""
        self.depth += 1
        self.spend(1, expression.at)
        if self.depth > _DEEPEST:
            raise self.source.error(
                expression.at, "this is nested too deeply; write parts of it as variables of their own"
            )
        try:
            return _KINDS[type(expression)](self, expression, scope)
        finally:
            self.depth -= 1

    def spend(self, count: int, at: int) -> None:
        """Count what has been worked out, so that no text takes forever."""
        self.work += count
        if self.work > _MOST_WORK:
            raise self.source.error(at, "there is too much to work out here; use smaller arrays and loops")

    def number(self, expression: Expression, scope: Scope) -> Any:
        """The value of an expression that must be one number."""
        return self.as_number(self.value(expression, scope), expression.at)

    def as_number(self, value: Value, at: int) -> Any:
        """A value, which must be one number."""
        return self.wrapped(at, arrays.require_number, value)

    def condition(self, expression: Expression, scope: Scope) -> Any:
        """The value of an expression that must be a condition."""
        found = self.value(expression, scope)
        if not is_condition(found):
            raise self.source.error(expression.at, "a condition is expected here, such as x > 0")
        return found

    def bound(self, bound: Bound) -> Value:
        """The value of an expression with its scope."""
        key = id(bound.expression), id(bound.scope)
        known = self._bounds.get(key)
        if known is None:
            known = self._bounds[key] = bound, self.value(bound.expression, bound.scope)
        found = known[1]
        for k, size in bound.index:
            if not isinstance(found, list):
                break
            if len(found) != size:
                raise self.source.error(
                    bound.expression.at, f"an array of {len(found)} for one of {size}; give it equal sizes"
                )
            found = found[k]
        return found

    def check(self, value: Any, at: int) -> Any:
        """A value that is put in the place of others, which must not become too long."""
        if isinstance(value, sympy.Basic) and value.args:
            depth, size = extent(value, self._extents)
            self.spend(size, at)
            if depth > _DEEPEST or size > _LONGEST:
                raise self.source.error(
                    at,
                    "with all that its names stand for this is too long; write parts of it as variables",
                )
        return value

    def wrapped(self, at: int, function: Callable[..., Any], *given: Any) -> Any:
        """Call a function whose messages do not know the line."""
        try:
            return function(*given)
        except InputError as error:
            raise self.source.error(at, str(error)) from None

    # Numbers that are needed at once

    def numeric(self, value: Any, at: int, what: str) -> float:
        """The number that an expression of parameters is."""
        if value.is_Number:
            return float(value)
        graph, leaves = Graph(), list[float]()

        def resolve(item: Any) -> int:
            if isinstance(item, Unknown) or item == TIME:
                raise InputError(f"{what} depends on {item}, which is no parameter")
            variable = self.variables[item.name]
            number = self.values.get(variable)
            if number is None:
                raise InputError(f"{what} needs a value of parameter {variable.shown}; give it one")
            leaves.append(number)
            return graph.parameter(len(leaves) - 1)

        node = self.wrapped(at, from_sympy, graph, value, resolve)
        found = float(graph.numeric([node], lambda leaf: leaves[leaf.index])[0])
        if not math.isfinite(found):
            raise self.source.error(at, f"{what} has no finite value: {found}; correct it")
        return found

    def decided(self, value: Value, at: int, what: str) -> Any:
        """Whether a condition of parameters, which shapes the model, holds."""
        if value in _TRUTHS:
            return value
        if not is_condition(value):
            raise self.source.error(at, f"{what} must be true or false")
        found = self.numeric(value, at, what)
        self.structural.update(symbol.name for symbol in symbols_in(value))
        return sympy.true if found else sympy.false

    def integer(self, expression: Expression, scope: Scope, what: str) -> int:
        """An integer that shapes the model."""
        value = self.number(expression, scope)
        found = self.numeric(value, expression.at, what)
        if found != round(found) or abs(found) > 1e9:
            raise self.source.error(expression.at, f"{what} must be an integer; got {found:.10g}")
        self.structural.update(symbol.name for symbol in symbols_in(value))
        return round(found)

    # Names

    def _of_name(self, name: Name, scope: Scope) -> Value:
        parts = name.parts
        if scope.locals is not None and parts[0][0] in scope.locals:
            found = scope.locals[parts[0][0]]
            self.spend(math.prod(arrays.sizes(found)), name.at)
            if len(parts) > 1:
                raise self.source.error(name.at, f"{parts[0][0]} has no parts; write it without a dot")
            return self.picked(found, parts[0][1], scope, name)
        item = self.lookup(name, scope)
        if item is not None:
            return self._of_member(item, name)
        words = [word for word, _ in parts]
        if words == ["time"]:
            return TIME
        constant = self.library.constant(words, scope.definition)
        if constant is not None:
            return self.picked(self._constant(*constant), parts[-1][1], scope, name)
        standard = self.library.standard(words, scope.definition)
        if standard is not None:
            return _standard(standard)
        if words == ["t"]:
            return TIME
        if words == ["Pi"]:
            return sympy.pi
        raise self.unknown(name, scope)

    def unknown(self, name: Name, scope: Scope) -> InputError:
        """The error for a name that does not exist."""
        text = str(name)
        if text in ("pi", "e", "g_n"):
            return self.source.error(name.at, f"there is no {text} here; write Modelica.Constants.{text}")
        if text.startswith("Modelica.Constants."):
            hint = similar(text[len("Modelica.Constants.") :], CONSTANTS)
            return self.source.error(name.at, f"{text} is not known{hint}")
        known = [*names_of(scope.instance, scope.locals), "time"]
        hint = similar(text, known) or "; declare it"
        return self.source.error(name.at, f"there is no variable or parameter {text}{hint}")

    def lookup(self, name: Name, scope: Scope) -> Any:
        """The member that a name means, or a list of members; None if there is none."""
        if scope.instance is None:
            return None
        first = member(name, scope.instance)
        if first is None:
            return None
        item, rest = first
        for at, (word, subscripts) in enumerate(rest):
            if at:
                item = self._part(item, word, name)
            if subscripts:
                item = self.picked(item, subscripts, scope, name)
        return item

    def _part(self, item: Any, word: str, name: Name) -> Any:
        if isinstance(item, list):
            return [self._part(one, word, name) for one in item]
        if isinstance(item, Variable):
            raise self.source.error(name.at, f"{item.shown} is a number and has no part {word}")
        if word not in item.members:
            hint = similar(word, item.members)
            raise self.source.error(name.at, f"{item.shown or name} has no part {word}{hint}")
        return item.members[word]

    def picked(self, item: Any, subscripts: Sequence[Expression], scope: Scope, name: Name) -> Any:
        """Elements of an array."""
        if not subscripts:
            return item
        if not isinstance(item, list):
            raise self.source.error(name.at, f"{name} is no array, or has fewer sizes; remove the subscript")
        first, rest = subscripts[0], subscripts[1:]
        if isinstance(first, Every):
            return [self.picked(one, rest, scope, name) for one in item]
        if isinstance(first, Range):
            return [
                self.picked(self._element(item, k, name), rest, scope, name) for k in self.range(first, scope)
            ]
        k = self.integer(first, scope, f"the subscript of {name}")
        return self.picked(self._element(item, k, name), rest, scope, name)

    def _element(self, item: list[Any], k: int, name: Name) -> Any:
        if not 1 <= k <= len(item):
            raise self.source.error(name.at, f"{name} has elements 1 to {len(item)}; there is no element {k}")
        return item[k - 1]

    def _of_member(self, item: Any, name: Name) -> Value:
        if isinstance(item, list):
            self.spend(len(item), name.at)
            return [self._of_member(one, name) for one in item]
        if isinstance(item, Instance):
            raise self.source.error(name.at, f"{name} is a component; write which of its variables is meant")
        return self.symbol(item)

    def symbol(self, variable: Variable) -> Value:
        """What stands for a variable in equations; a parameter that depends on others is its expression."""
        known = self._symbols.get(variable)
        if known is None:
            if not variable.variability:
                known = Unknown(variable.name)
            else:
                if variable in self._waiting:
                    names = ", ".join(sorted(one.shown for one in self._waiting))
                    raise self.source.error(
                        variable.at, f"the parameter {variable.shown} depends on itself: {names}"
                    )
                self._waiting.add(variable)
                try:
                    known = self._parameter(variable)
                finally:
                    self._waiting.discard(variable)
            self._symbols[variable] = known
        return known

    def _parameter(self, variable: Variable) -> Value:
        name, what = variable.name, f"the value of {variable.shown}"
        if variable.type == "enumeration":
            raise self.source.error(
                variable.at, f"{name} is an enumeration, which equations cannot use; write Integer"
            )
        if name in self.given and variable.variability == "constant":
            raise self.source.error(
                variable.at, f"{variable.shown} is a constant; only parameters get values"
            )
        if name in self.given:
            number = self.given[name]
            if variable.type == "Boolean":
                if number not in (0, 1):
                    raise self.source.error(variable.at, f"{what} must be true or false; got {number:.10g}")
                return sympy.true if number else sympy.false
            number = self.wrapped(variable.at, require_number, what, number)
            return self._independent(variable, number, variable.at)
        if variable.value is None:
            if variable.type == "Boolean" or variable.variability == "constant":
                raise self.source.error(variable.at, f"{variable.shown} has no value; give it one")
            self.values[variable] = None
            return sympy.Symbol(name, real=True)
        at = variable.value.expression.at
        value = self.bound(variable.value)
        if variable.type == "Boolean":
            return self.decided(value, at, what)
        value = self.check(self.as_number(value, at), at)
        if variable.variability == "constant":
            self.values[variable] = self.numeric(value, at, what)
            return value
        symbols = symbols_in(value)
        moving = [str(leaf) for leaf in symbols if isinstance(leaf, Unknown) or leaf == TIME]
        if moving:
            raise self.source.error(at, f"{what} depends on {moving[0]}, which is no parameter")
        if symbols:
            return value
        return self._independent(variable, self.numeric(value, at, what), at)

    def _independent(self, variable: Variable, number: float, at: int) -> Any:
        """A parameter that has a number of its own."""
        if not math.isfinite(number) or (variable.type == "Integer" and number != round(number)):
            kind = "an integer" if variable.type == "Integer" else "finite"
            raise self.source.error(at, f"the value of {variable.shown} must be {kind}; got {number:.10g}")
        self.values[variable] = number
        if variable.name in self.structural:
            return self.wrapped(at, exact, number)
        return sympy.Symbol(variable.name, real=True)

    def _constant(self, component: Component, definition: ClassDefinition) -> Value:
        """The value of a constant of a class."""
        if component not in self._constants:
            if component.modification is None or component.modification.value is None:
                raise self.source.error(
                    component.at, f"the constant {component.name} has no value; give it one"
                )
            self._constants[component] = None
            found = self.value(component.modification.value, Scope(None, definition))
            self._constants[component] = found
        elif self._constants[component] is None:
            raise self.source.error(component.at, f"the constant {component.name} depends on itself")
        return self._constants[component]

    # Expressions

    def _of_number(self, item: Number, scope: Scope) -> Value:
        known = self._numbers.get(item.text)
        if known is None:
            known = self._numbers[item.text] = self.wrapped(item.at, rational, item.text)
        return known

    def _of_text(self, item: Text, scope: Scope) -> Value:
        return item.value

    def _of_truth(self, item: Truth, scope: Scope) -> Value:
        return sympy.true if item.value else sympy.false

    def _of_every(self, item: Every, scope: Scope) -> Value:
        raise self.source.error(item.at, "a colon where a value is expected")

    def _of_sum(self, item: Sum, scope: Scope) -> Value:
        terms = []
        for sign, part in item.terms:
            value = self.value(part, scope)
            if isinstance(value, str):
                return self._of_texts(item, scope)
            terms.append(self.wrapped(part.at, arrays.each, minus, value) if sign < 0 else value)
        return self.wrapped(item.at, arrays.add, terms)

    def _of_texts(self, item: Sum, scope: Scope) -> Value:
        """Strings joined by +."""
        texts = [self.value(part, scope) for sign, part in item.terms if sign > 0]
        if len(texts) < len(item.terms) or not all(isinstance(text, str) for text in texts):
            raise self.source.error(item.at, "a string where a number is expected")
        return "".join(texts)

    def _of_product(self, item: Product, scope: Scope) -> Value:
        over: list[Value] = []
        for mark, part in item.factors:
            value = self.value(part, scope)
            if mark == "/":
                by = self.as_number(value, part.at)
                before = self.wrapped(item.at, arrays.multiply, over)
                over = [self.wrapped(part.at, arrays.each, partial(divided, by=by), before)]
            elif mark == ".*" and isinstance(value, list):
                before = self.wrapped(item.at, arrays.multiply, over)
                over = [self.wrapped(item.at, arrays.multiply_elements, before, value)]
            else:
                over.append(value)
        self.spend(arrays.work_of(over), item.at)
        return self.wrapped(item.at, arrays.multiply, over)

    def _of_power(self, item: Power, scope: Scope) -> Value:
        base, exponent = self.value(item.base, scope), self.number(item.exponent, scope)
        return self.wrapped(item.at, power, self.as_number(base, item.at), exponent)

    def _of_comparison(self, item: Comparison, scope: Scope) -> Value:
        left, right = self.value(item.left, scope), self.value(item.right, scope)
        if item.sign in ("==", "<>") and is_condition(left) and is_condition(right):
            same = [[left, right], [opposite(left), opposite(right)]]
            found = joined(False, [joined(True, pair) for pair in same])
            return found if item.sign == "==" else opposite(found)
        return compared(item.sign, self.as_number(left, item.left.at), self.as_number(right, item.right.at))

    def _of_logic(self, item: Logic, scope: Scope) -> Value:
        parts = [self.condition(part, scope) for part in item.parts]
        return joined(item.word == "and", parts)

    def _of_negation(self, item: Negation, scope: Scope) -> Value:
        return opposite(self.condition(item.part, scope))

    def _of_if(self, item: If, scope: Scope) -> Value:
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
                raise self.source.error(at, "the choices are arrays of different sizes")
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

    def _of_range(self, item: Range, scope: Scope) -> Value:
        return [sympy.Integer(k) for k in self.range(item, scope)]

    def range(self, item: Range, scope: Scope) -> range:
        """The integers of a range."""
        first = self.integer(item.first, scope, "the start of a range")
        step = 1 if item.step is None else self.integer(item.step, scope, "the step of a range")
        last = self.integer(item.last, scope, "the end of a range")
        if step == 0:
            raise self.source.error(item.at, "a range with step 0; correct the step")
        found = range(first, last + (1 if step > 0 else -1), step)
        if len(found) > MOST_ELEMENTS:
            raise self.source.error(
                item.at, f"a range of {len(found)} numbers; at most {MOST_ELEMENTS} are read"
            )
        self.spend(len(found), item.at)
        return found

    def over(self, expression: Expression, scope: Scope) -> list[Any]:
        """What an index runs through."""
        found = self.value(expression, scope)
        if not isinstance(found, list):
            raise self.source.error(expression.at, "an index needs a range, such as 1:3")
        return found

    def _of_array(self, item: Array, scope: Scope) -> Value:
        if not item.indices:
            return [self.value(part, scope) for part in item.items]
        scopes = [scope]
        for name, where in item.indices:
            scopes = [one.inner({name: k}) for one in scopes for k in self.over(where, one)]
            if len(scopes) > MOST_ELEMENTS:
                raise self.source.error(item.at, f"an array of more than {MOST_ELEMENTS} elements")
        return [self.value(item.items[0], one) for one in scopes]

    def _of_matrix(self, item: Matrix, scope: Scope) -> Value:
        rows = [[self.number(part, scope) for part in row] for row in item.rows]
        if len({len(row) for row in rows}) > 1:
            raise self.source.error(item.at, "the rows of a matrix have different lengths")
        return rows

    # Functions

    def _of_call(self, item: Call, scope: Scope) -> Value:
        text = str(item.function)
        if text == "der":
            (value,) = self._arguments(item, scope, 1)
            return self.derivative(value, 1, item.at)
        known = self.library.find(item.function, scope.definition)
        if isinstance(known, ClassDefinition) and not known.built_in:
            if known.kind != "function":
                raise self.source.error(item.at, f"{known.kind} {text} is called like a function")
            return self._called(known, item, scope)
        of_time = self._of_time(item, scope)
        if of_time is not None:
            return of_time
        return self._built_in(item, scope)

    def _of_time(self, item: Call, scope: Scope) -> Value | None:
        """x(t), which means x."""
        if item.named or len(item.arguments) != 1 or not isinstance(item.arguments[0], Name):
            return None
        if str(item.arguments[0]) not in ("t", "time") or str(item.function) in FUNCTIONS:
            return None
        found = self.lookup(item.function, scope)
        return None if found is None else self._of_member(found, item.function)

    def _built_in(self, item: Call, scope: Scope) -> Value:
        words = [word for word, _ in item.function.parts]
        names = [".".join(path) for path in self.library.paths(words, scope.definition)]
        for name in names:
            if name in _CALLS:
                return _CALLS[name](self, item, scope)
            short = name.removeprefix("Modelica.Math.")
            if short in FUNCTIONS:
                count, function = FUNCTIONS[short]
                if short == "arctan" and len(item.arguments) == 2:
                    count, function = FUNCTIONS["atan2"]
                given = [self.as_number(v, item.at) for v in self._arguments(item, scope, count)]
                return self.wrapped(item.at, function, *given)
        text = str(item.function)
        if text in _NO_FUNCTIONS:
            raise self.source.error(
                item.at, f"{text}(...) is not understood; a model has no events and no memory"
            )
        variable = self.lookup(item.function, scope)
        if variable is not None:
            raise self.source.error(item.at, f"{text} is a variable and no function; write * for a product")
        plain = text.removeprefix("Modelica.Math.")
        hint = similar(plain, [*FUNCTIONS, *_CALLS]) or "; write the function into this file"
        raise self.source.error(item.at, f"there is no function {text}{hint}")

    def _arguments(self, item: Call, scope: Scope, count: int | None = None) -> list[Value]:
        if item.named:
            raise self.source.error(item.at, f"{item.function} takes no argument {next(iter(item.named))}=")
        if count is not None and len(item.arguments) != count:
            wanted = "1 argument" if count == 1 else f"{count} arguments"
            raise self.source.error(item.at, f"{item.function} takes {wanted}; got {len(item.arguments)}")
        return [self.value(part, scope) for part in item.arguments]

    def derivative(self, value: Value, order: int, at: int) -> Value:
        """The derivative of a value with respect to time."""
        if isinstance(value, list):
            return [self.derivative(one, order, at) for one in value]
        value = self.as_number(value, at)
        if isinstance(value, Unknown):
            return Unknown(value.base, value.order + order)
        graph, names = Graph(), list[str]()
        places: dict[str, int] = {}

        def resolve(item: Any) -> int:
            if item == TIME:
                return graph.time()
            name = item.base if isinstance(item, Unknown) else item.name
            k = places.setdefault(name, len(places))
            if k == len(names):
                names.append(name)
            return graph.variable(k, item.order) if isinstance(item, Unknown) else graph.parameter(k)

        def symbol(leaf: Leaf) -> Any:
            if leaf.kind == "t":
                return TIME
            name = names[leaf.index]
            return Unknown(name, leaf.order) if leaf.kind == "u" else sympy.Symbol(name, real=True)

        node = graph.total_derivative(self.wrapped(at, from_sympy, graph, value, resolve), order)
        return self.check(to_sympy(graph, [node], symbol)[0], at)

    def _called(self, function: ClassDefinition, item: Call, scope: Scope) -> Value:
        """The value of a function of the text."""
        name, source = function.name, self.source
        parts = [one for base in self.library.with_bases(function) for one in base.elements]
        components = [one for one in parts if isinstance(one, Component)]
        inputs = [one for one in components if one.causality == "input"]
        outputs = [one for one in components if one.causality == "output"]
        if len(outputs) != 1:
            raise source.error(item.at, f"function {name} has {len(outputs)} outputs; one is understood")
        if len(item.arguments) > len(inputs):
            raise source.error(item.at, f"{name} takes {len(inputs)} arguments; got {len(item.arguments)}")
        given = dict(zip([one.name for one in inputs], item.arguments, strict=False))
        for key, part in item.named.items():
            if key in given or key not in [one.name for one in inputs]:
                hint = similar(key, [one.name for one in inputs])
                raise source.error(item.at, f"{name} takes no argument {key}, or has it already{hint}")
            given[key] = part
        inner = Scope(None, function, {})
        known: dict[str, Value] = {}
        inner.locals = known
        for one in inputs:
            if one.name in given:
                known[one.name] = self.value(given[one.name], scope)
        for one in components:
            if one.name in known:
                continue
            if one.modification is not None and one.modification.value is not None:
                known[one.name] = self.value(one.modification.value, inner)
            elif one.causality == "input":
                raise source.error(item.at, f"{name} needs a value of {one.name}")
        names = {one.name: one for one in components}
        for statement in function.statements:
            target = statement.name.parts[0][0]
            if len(statement.name.parts) > 1 or statement.name.parts[0][1] or target not in names:
                raise source.error(statement.at, f"{statement.name} is no variable of function {name}")
            if names[target].causality == "input":
                raise source.error(
                    statement.at, f"{target} is an input of function {name}; it cannot be assigned"
                )
            known[target] = self.value(statement.value, inner)
            self.check(known[target], statement.at)
        if outputs[0].name not in known:
            raise source.error(
                function.at, f"function {name} gives {outputs[0].name} no value; add an algorithm"
            )
        return known[outputs[0].name]

    # Functions with rules of their own

    def _first(self, item: Call, scope: Scope) -> Value:
        return self._arguments(item, scope, 1)[0]

    def _smooth(self, item: Call, scope: Scope) -> Value:
        return self._arguments(item, scope, 2)[1]

    def _homotopy(self, item: Call, scope: Scope) -> Value:
        if item.arguments:
            return self.value(item.arguments[0], scope)
        if "actual" not in item.named:
            raise self.source.error(item.at, "homotopy needs actual=")
        return self.value(item.named["actual"], scope)

    def _diff(self, item: Call, scope: Scope) -> Value:
        order = 0
        for part in item.arguments[1:]:
            times_of = 1
            if isinstance(part, Call) and str(part.function) == "$":
                times_of = self.integer(part.arguments[1], scope, "the order of a derivative")
                part = part.arguments[0]
            if not isinstance(part, Name) or self.value(part, scope) != TIME or not 1 <= times_of <= 10:
                raise self.source.error(
                    item.at, "diff(...) is understood with respect to time only, up to order 10"
                )
            order += times_of
        if item.named or not order:
            raise self.source.error(item.at, "diff needs an expression and t, such as diff(x(t), t)")
        return self.derivative(self.value(item.arguments[0], scope), order, item.at)

    def _piecewise(self, item: Call, scope: Scope) -> Value:
        given = item.arguments
        if item.named or len(given) < 2:
            raise self.source.error(
                item.at, "piecewise needs conditions and values, piecewise(c1, v1, ..., other)"
            )
        pairs = [(given[k], given[k + 1]) for k in range(0, len(given) - 1, 2)]
        other = given[-1] if len(given) % 2 else Number(item.at, "0")
        return self._of_if(If(item.at, pairs, other), scope)

    def _extreme(self, item: Call, scope: Scope) -> Value:
        given = self._arguments(item, scope)
        flat = [self.as_number(one, item.at) for one in elements(given)]
        if not flat or (len(flat) < 2 and not isinstance(given[0], list)):
            raise self.source.error(item.at, f"{item.function} takes 2 arguments, or an array with elements")
        return extreme(item.function.parts[-1][0] == "max", flat)

    def _total(self, item: Call, scope: Scope) -> Value:
        given = [self.as_number(one, item.at) for one in elements(self._arguments(item, scope, 1))]
        return self.wrapped(item.at, plus if item.function.parts[-1][0] == "sum" else times, given)

    def _size(self, item: Call, scope: Scope) -> Value:
        given = self._arguments(item, scope)
        found = arrays.sizes(given[0]) if given else []
        if len(given) == 1:
            return [sympy.Integer(k) for k in found]
        k = self.integer(item.arguments[1], scope, "the second argument of size") if len(given) == 2 else 0
        if not 1 <= k <= len(found):
            raise self.source.error(item.at, f"size needs an array and one of its {len(found)} dimensions")
        return sympy.Integer(found[k - 1])

    def _filled(self, item: Call, scope: Scope) -> Value:
        name = item.function.parts[-1][0]
        if item.named or len(item.arguments) < 1 + (name == "fill"):
            raise self.source.error(item.at, f"{name} needs sizes")
        counted = item.arguments[1:] if name == "fill" else item.arguments
        counts = [self.integer(part, scope, f"the size in {name}") for part in counted]
        if name == "identity":
            return self.wrapped(item.at, arrays.identity, counts[0])
        value = self.value(item.arguments[0], scope) if name == "fill" else sympy.Integer(int(name == "ones"))
        self.spend(math.prod(counts), item.at)
        return self.wrapped(item.at, arrays.filled, value, counts)

    def _transpose(self, item: Call, scope: Scope) -> Value:
        return self.wrapped(item.at, arrays.transpose, *self._arguments(item, scope, 1))

    def _cross(self, item: Call, scope: Scope) -> Value:
        return self.wrapped(item.at, arrays.cross, *self._arguments(item, scope, 2))

    def _interpolate(self, item: Call, scope: Scope) -> Value:
        places, values, x = self._arguments(item, scope, 3)
        if not isinstance(places, list) or not isinstance(values, list) or len(places) != len(values):
            raise self.source.error(item.at, "interpolate needs two vectors of the same length and a number")
        points = list(zip(places, values, strict=True))
        return self.interpolated(points, self.as_number(x, item.at), item.at)

    def interpolated(self, points: list[tuple[Any, Any]], x: Any, at: int, hold: bool = False) -> Any:
        """Straight lines through points, see :func:`~dae_sdc.modelica.arrays.interpolate`."""
        checked = [(self.as_number(a, at), self.as_number(b, at)) for a, b in points]
        places = [self.numeric(a, at, "a place in a table") for a, _ in checked]
        if not places or any(b <= a for a, b in pairwise(places)):
            raise self.source.error(
                at, "the places in a table must increase; sort them and remove equal ones"
            )
        return self.wrapped(at, arrays.interpolate, checked, x, hold)


def exact(number: float) -> Any:
    """The number that the shortest text of a float says."""
    text = repr(number)
    return minus(rational(text[1:])) if text.startswith("-") else rational(text)


def _standard(name: str) -> Any:
    if name == "pi":
        return sympy.pi
    if name == "e":
        return sympy.E
    if name == "D2R":
        return divided(sympy.pi, sympy.Integer(180))
    if name == "R2D":
        return divided(sympy.Integer(180), sympy.pi)
    text = CONSTANTS[name]
    return minus(rational(text[1:])) if text.startswith("-") else rational(text)


_KINDS: Final[dict[type, Callable[[Values, Any, Scope], Value]]] = {
    Number: Values._of_number,
    Text: Values._of_text,
    Truth: Values._of_truth,
    Every: Values._of_every,
    Name: Values._of_name,
    Call: Values._of_call,
    Sum: Values._of_sum,
    Product: Values._of_product,
    Power: Values._of_power,
    Comparison: Values._of_comparison,
    Logic: Values._of_logic,
    Negation: Values._of_negation,
    If: Values._of_if,
    Range: Values._of_range,
    Array: Values._of_array,
    Matrix: Values._of_matrix,
}

_CALLS: Final[dict[str, Callable[[Values, Call, Scope], Value]]] = {
    "noEvent": Values._first,
    "smooth": Values._smooth,
    "homotopy": Values._homotopy,
    "diff": Values._diff,
    "piecewise": Values._piecewise,
    "Modelica.Math.Vectors.interpolate": Values._interpolate,
    **dict.fromkeys(("min", "max"), Values._extreme),
    **dict.fromkeys(("sum", "product"), Values._total),
    "size": Values._size,
    **dict.fromkeys(("zeros", "ones", "fill", "identity"), Values._filled),
    "transpose": Values._transpose,
    "cross": Values._cross,
}
"""Functions with rules of their own."""
