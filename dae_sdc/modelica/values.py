"""Values of expressions in the graph of a text, of numbers, and of names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

from dae_sdc.errors import InputError, require_number
from dae_sdc.expressions.dag import MOVING, Leaf, Op
from dae_sdc.modelica import arithmetic, syntax
from dae_sdc.modelica.arithmetic import FALSE, MOST_ELEMENTS, TRUE, Condition, Value, shown
from dae_sdc.modelica.library import Bound, Instance, Library, Scope, Variable, fields_of, member
from dae_sdc.modelica.syntax import Expression, similar

DEEPEST_VALUE: Final = 200  # Largest depth of an expression after substitution of its names.
# Largest number of operators and operands of an expression after substitution of its names.
LONGEST_VALUE: Final = 200_000
# Largest number of operators and operands of a parameter that follows those it is made of.
LONGEST_PARAMETER: Final = 100
# Largest number of expressions and elements that are evaluated for one model.
MOST_EVALUATIONS: Final = 1_000_000
EVALUATIONS_OF_A_VARIABLE: Final = 40  # By which a model with more variables may have more.
BEFORE: Final = "pre("  # How the names of values before an event begin.
_FIXED: Final = {arithmetic.SIMPLIFIED: 1.0, arithmetic.NOTHING: math.nan}
NOT_DISCRETE: Final = "pre(...) takes a variable, outside of when-equations one that they assign"
_Branch = TypeVar("_Branch")
Asserted: TypeAlias = dict[tuple[int, Condition], dict[str, Any]]  # See :attr:`Values.asserted`.
Rule: TypeAlias = Callable[["Values", Any, Scope], Value]  # The value of an expression of one form.


class Values:
    """The values of the expressions of a text, by the rules of their forms."""

    def __init__(
        self, library: Library, rules: Mapping[type, Rule], numbers: Mapping[str, float], structural: set[str]
    ) -> None:
        self.library, self.source = library, library.source
        self.fail, self.graph = library.source.fail, arithmetic.Algebra()
        self.structural = structural
        self.variables: dict[str, Variable] = {}
        self.numbers: dict[Variable, float] = {}
        self.calculated: set[str] = set()  # Names of the parameters that initial equations give values.
        self.discrete: set[str] = set()  # Names of the variables that when-equations assign.
        # What Boolean and Integer variables stand for that no event changes, by their names.
        self.defined: dict[str, Callable[[], Value]] = {}
        self.kept: dict[str, int] = {}  # What must be one of them, with its place in the text.
        self.at_event = False  # Whether what is evaluated stands in a when-equation.
        self.at_choice = False  # Or whether it chooses among equations or expressions.
        self.initial: int | None = None  # The place of such a choice that depends on initial().
        self.moments: set[int] = set()  # The unknowns that are 1 at moments alone, else 0.
        # What is asserted of unknowns and parameters with its place, and how its violation is told.
        self.asserted: Asserted = {}
        # What is asserted by what is evaluated, and the choices around it with the place in each.
        self._asserted_here, self._around = self.asserted, tuple[tuple[list[Any], int], ...]()
        self._rules = rules
        self._replacing = numbers
        self._work = self._depth = 0
        self._bounds: dict[tuple[int, int], tuple[Bound, Any]] = {}
        self._known: dict[int, Any] = {}  # Numerical values of nodes.
        self._symbols: dict[Variable, Any] = {}
        self._waiting: set[Variable] = set()
        self._constants: dict[syntax.Component, Any] = {}

    def value(self, expression: Expression, scope: Scope) -> Value:
        """The value of an expression."""
        self._depth += 1
        self.spend(1, expression.at)
        if self._depth > DEEPEST_VALUE:
            self.fail(expression.at, "this is nested too deeply; write parts of it as variables of their own")
        try:
            value = self._rules[type(expression)](self, expression, scope)
        except InputError as error:
            raise self.source.placed(error, expression.at) from None
        finally:
            self._depth -= 1
        if (count := math.prod(arithmetic.sizes(value))) > MOST_ELEMENTS:
            self.fail(expression.at, f"an array of {count} elements; at most {MOST_ELEMENTS} are read")
        return value

    def forget_unknowns(self) -> None:
        """Forget what stands for unknowns, and the values that were made of it."""
        self._symbols = {key: symbol for key, symbol in self._symbols.items() if key.variability}
        self._bounds.clear()
        for key in [key for key in self.asserted if self.graph.mark[key[1].node] & MOVING]:
            del self.asserted[key]

    def condition_of(self, unknown: int) -> Condition:
        """The condition that a Boolean variable is, an unknown that is 0 or 1."""
        return self.graph.compared(">", unknown, self.graph.number("0.5"))

    def unknown_of(self, value: Value) -> int | None:
        """The node of the unknown that a value is, or that of a Boolean variable; None for another value."""
        graph = self.graph
        if isinstance(value, Condition) and graph.op[value.node] is Op.LT:
            level, other = graph.args[value.node]
            value = other if level == graph.number("0.5") else None
        is_unknown = isinstance(value, int) and value in graph.leaves and graph.leaves[value].kind == "u"
        return value if is_unknown else None

    def before_event(self, unknown: int) -> int:
        """What stands for the value of an unknown before an event."""
        return self.graph.variable(f"{BEFORE}{shown(self.graph.leaves[unknown])})")

    @cached_property
    def steps(self) -> dict[int, int]:
        """What Boolean and Integer variables stand for, with their unknowns, which know it at a border."""
        graph, steps = self.graph, dict[int, int]()
        for name in self.defined:
            value = self.truth(self.symbol(self.variables[name]), self.variables[name].at)
            if graph.mark[value] & MOVING and self.moments.isdisjoint(graph.below([value])):
                steps.setdefault(value, graph.variable(name))
        return steps

    def number(self, expression: Expression, scope: Scope) -> Any:
        """The value of an expression that must be one number."""
        return self.as_number(self.value(expression, scope), expression.at)

    def condition(self, expression: Expression, scope: Scope) -> Condition:
        """The value of an expression that must be a condition."""
        return self.as_condition(self.value(expression, scope), expression.at)

    def as_condition(self, value: Value, at: int) -> Condition:
        """The value itself if it is a condition."""
        if not isinstance(value, Condition):
            self.fail(at, "a condition is expected here, such as x > 0")
        return value

    def cases(self, item: syntax.If, scope: Scope) -> tuple[list[Condition], list[Any]]:
        """The conditions of a choice that are open, then true, and what there is where each of them holds."""
        tests, branches = list[Condition](), list[Any]()
        for test, branch in item.branches:
            around, self.at_choice = self.at_choice, not self.at_event
            condition = self.condition(test, scope)
            self.at_choice = around
            if condition != FALSE:
                tests.append(condition)
                branches.append(branch)
            if condition == TRUE:
                return tests, branches
        return [*tests, TRUE], [*branches, item.other]

    def in_cases(self, tests: list[Condition], branches: Sequence[_Branch]) -> Iterator[_Branch]:
        """The branches of a choice one by one; what each asserts until the next holds where it is chosen."""
        around = self._around
        try:
            for k, branch in enumerate(branches):
                self._around = *around, (tests, k)
                yield branch
        finally:
            self._around = around

    def apart(
        self, function: Callable[..., _Branch], *arguments: Any, into: Asserted | None = None
    ) -> _Branch:
        """What a function gives that does not belong to the choices around it; it asserts into a place."""
        outside = self._asserted_here, self._around
        self._asserted_here, self._around = self.asserted if into is None else into, ()
        try:
            return function(*arguments)
        finally:
            self._asserted_here, self._around = outside

    def require(self, at: int, condition: Condition, about: dict[str, Any]) -> None:
        """Enter what is asserted where the choices around it are taken; ``about`` says how it is told."""
        graph = self.graph
        chosen = [each for tests, k in self._around for each in (*map(graph.opposite, tests[:k]), tests[k])]
        here = graph.joined(True, chosen)
        if condition == FALSE and about["terminal"] and not about["success"] and here == TRUE:
            self.fail(at, f"what is asserted does not hold: {about['message']}")
        holds = graph.joined(False, [condition, graph.opposite(here)])
        if holds != TRUE:
            self._asserted_here[at, holds] = about

    def bound(self, bound: Bound) -> Value:
        """The value of an expression in its own scope."""
        key = id(bound.expression), id(bound.scope)
        if key not in self._bounds:
            self._bounds[key] = bound, self.apart(self.value, bound.expression, bound.scope)
        value = self._bounds[key][1]
        for k, size in bound.index:
            if not isinstance(value, list):
                break
            if len(value) != size:
                self.fail(bound.expression.at, f"an array of {len(value)} for one of {size}; give as many")
            value = value[k]
        return value

    def spend(self, count: int, at: int) -> None:
        """Count what has been evaluated, so that no text takes forever."""
        self._work += count
        if self._work > MOST_EVALUATIONS + EVALUATIONS_OF_A_VARIABLE * len(self.variables):
            self.fail(at, "there is too much to work out here; use smaller arrays and loops")

    def check(self, value: Any, at: int) -> Any:
        """The value itself; an error if the expression is too deep or too long."""
        if isinstance(node := getattr(value, "node", value), int) and self.graph.args[node]:
            depth, size = self.graph.extent(node)
            self.spend(size, at)
            if depth > DEEPEST_VALUE or size > LONGEST_VALUE:
                what = "with all that its names stand for this is too long"
                self.fail(at, f"{what}; write parts of it as variables")
        return value

    def wrapped(self, at: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function, and add the line of ``at`` to the message of its InputError."""
        try:
            return function(*arguments, **options)
        except InputError as error:
            raise self.source.placed(error, at) from None

    def as_number(self, value: Value, at: int) -> Any:
        """The value itself if it is one number; an error with the line otherwise."""
        return value if type(value) is int else self.wrapped(at, arithmetic.scalar, value)

    def numeric(self, value: int | Condition, at: int, what: str) -> float:
        """The numerical value of an expression of parameters."""

        def number_of(leaf: Leaf) -> float:
            if leaf.kind != "p":
                raise InputError(f"{what} depends on {shown(leaf)}, which is no parameter")
            if str(leaf.index) in _FIXED:
                return _FIXED[str(leaf.index)]
            variable = self.variables[str(leaf.index)]
            if variable not in self.numbers:
                raise InputError(f"{what} needs a value of parameter {variable.shown}; give it one")
            return self.numbers[variable]

        node = value.node if isinstance(value, Condition) else value
        number = float(self.wrapped(at, self.graph.numeric, [node], number_of, self._known)[0])
        if not math.isfinite(number):
            self.fail(at, f"{what} has no finite value: {number}; correct it")
        return number

    def decided(self, value: Value, at: int, what: str) -> Condition:
        """Whether a condition of structural parameters holds; the arguments are those of :meth:`numeric`."""
        if not isinstance(value, Condition):
            self.fail(at, f"{what} must be true or false")
        holds = self.numeric(value, at, what)
        self.structural.update(self.names_in(value))
        return TRUE if holds else FALSE

    def names_in(self, *values: int | Condition) -> set[str]:
        """The names in expressions and conditions."""
        return {str(leaf.index) for value in values for leaf in self.graph.leaves_in(value)}

    def integer(self, expression: Expression, scope: Scope, what: str) -> int:
        """The value of a structural integer, such as a size; ``what`` is its name in messages."""
        return self.whole(self.value(expression, scope), expression.at, what)

    def whole(self, value: Value, at: int, what: str) -> int:
        """The integer that a value is, which is structural."""
        node = self.as_number(value, at)
        number = self.numeric(node, at, what)
        if number != round(number) or abs(number) > 1e9:
            self.fail(at, f"{what} must be an integer; got {number:.10g}")
        self.structural.update(self.names_in(node))
        return round(number)

    def range(self, item: syntax.Range, scope: Scope) -> range:
        """The integers of a range."""
        first, *between, last = item.bounds
        start = self.integer(first, scope, "the start of a range")
        step = self.integer(between[0], scope, "the step of a range") if between else 1
        stop = self.integer(last, scope, "the end of a range")
        if step == 0:
            self.fail(item.at, "a range with step 0; correct the step")
        numbers = range(start, stop + (1 if step > 0 else -1), step)
        if len(numbers) > MOST_ELEMENTS:
            self.fail(item.at, f"a range of {len(numbers)} numbers; at most {MOST_ELEMENTS} are read")
        self.spend(len(numbers), item.at)
        return numbers

    def of_name(self, name: syntax.Name, scope: Scope) -> Value:
        """The value of a name; raises InputError if it does not exist."""
        parts = name.parts
        if parts[0][0] in scope.locals:
            value = scope.locals[parts[0][0]]
            self.spend(math.prod(arithmetic.sizes(value)), name.at)
            return self.selected(value, [("", parts[0][1]), *parts[1:]], scope, name)
        item = self.lookup(name, scope)
        if item is not None:
            return self.of_member(item, name)
        words = [word for word, _ in parts]
        if words == ["time"]:
            return self.graph.time()
        if words[:-1] == ["Modelica", "Constants"] and words[-1] in arithmetic.CONSTANTS:
            graph = self.graph
            return graph.constant("pi") if words[-1] == "pi" else graph.call(Op.EXP, graph.one)
        constant = self.library.constant(words, scope.definition)
        if constant is None and len(words) > 1:  # A literal, whose enumeration has no name in a flat text.
            constant = self.library.constant(words[-1:], self.library.root)
        if constant is not None:
            return self.picked(self._constant(*constant), parts[-1][1], scope, name)
        kind = self.library.find(name, scope.definition)
        if isinstance(kind, syntax.ClassDefinition) and kind.short is not None and kind.elements:
            return [self.graph.constant(k + 1) for k in range(len(kind.elements))]  # of an enumeration
        if words == ["t"]:
            return self.graph.time()
        if words == ["Pi"]:
            return self.graph.constant("pi")
        if fields := {} if scope.instance is None else fields_of(scope.instance.members, f"{name}."):
            return self.of_member(fields, name)
        raise self.unknown(name, scope)

    def unknown(self, name: syntax.Name, scope: Scope) -> InputError:
        """The error for a name that does not exist."""
        text = str(name)
        if text in ("pi", "e", "g_n"):
            return self.source.error(name.at, f"there is no {text} here; write Modelica.Constants.{text}")
        members = scope.instance.members if scope.instance is not None else ()
        known = [*members, *scope.locals, *(f"Modelica.Constants.{e}" for e in arithmetic.CONSTANTS)]
        hint = similar(text, [*known, "time"]) or "; declare it"
        return self.source.error(name.at, f"there is no variable or parameter {text}{hint}")

    def lookup(self, name: Expression, scope: Scope) -> Any:
        """The member, or list of members, that a name refers to; None if there is none, or for no name."""
        if scope.instance is None or not isinstance(name, syntax.Name) or name.parts[0][0] in scope.locals:
            return None
        first = member(name, scope.instance)
        return None if first is None else self.selected(*first, scope, name)

    def required(self, name: syntax.Name, scope: Scope) -> Any:
        """The member, or list of members, that a name refers to; an error if there is none."""
        if (item := self.lookup(name, scope)) is None:
            raise self.unknown(name, scope)
        return item

    def selected(self, item: Any, parts: syntax.NameParts, scope: Scope, name: Expression) -> Any:
        """What parts, as those of a name but the first one without a word, select of a member or a value."""
        for word, subscripts in parts:
            item = self.picked(self.part(item, word, name) if word else item, subscripts, scope, name)
        return item

    def part(self, item: Any, word: str, name: Expression) -> Any:
        """A part of a component or of a record, or those of an array of them."""
        if isinstance(item, list):
            return [self.part(element, word, name) for element in item]
        shown = getattr(item, "shown", "") or (name if isinstance(name, syntax.Name) else "this")
        members = item.members if isinstance(item, Instance) else item
        if not isinstance(members, dict):
            self.fail(name.at, f"{shown} is a number and has no part {word}")
        if word not in members:
            self.fail(name.at, f"{shown} has no part {word}{similar(word, members)}")
        return members[word]

    def picked(self, item: Any, subscripts: Sequence[Expression], scope: Scope, name: Expression) -> Any:
        """The element or elements of an array that subscripts select."""
        if not subscripts:
            return item
        if not isinstance(item, list):
            self.fail(name.at, f"{name} is no array, or has fewer sizes; remove the subscript")
        where, rest = self.places(subscripts[0], len(item), scope, name), subscripts[1:]
        if isinstance(where, int):
            return self.picked(item[where], rest, scope, name)
        if not where or not isinstance(where[0], Condition):
            return [self.picked(item[k], rest, scope, name) for k in where]
        every = [self.of_member(self.picked(part, rest, scope, name), name) for part in item]
        return self.wrapped(name.at, self.graph.chosen, [*where[:-1], TRUE], every)

    def places(self, subscript: Expression, size: int, scope: Scope, name: Expression) -> Any:
        """The place, from 0, that a subscript selects, or several; of unknowns a condition for each place."""
        if isinstance(subscript, syntax.Every):
            return range(size)
        inside = scope.inner({"end": self.graph.constant(size)})
        value, what = self.value(subscript, inside), f"the subscript of {name}"
        if isinstance(value, Condition) and size == 2:  # false is before true
            return [self.graph.opposite(value), value]
        if not isinstance(value, list) and self.graph.mark[self.as_number(value, subscript.at)] & MOVING:
            about = {"message": f"{what} leaves it", "terminal": True, "success": False}
            self.require(subscript.at, self.graph.near(value, 1, size), about)
            return [self.graph.near(value, k) for k in range(1, size + 1)]

        def place(number: Value) -> int:
            if not 1 <= (k := self.whole(number, subscript.at, what)) <= size:
                self.fail(name.at, f"{name} has elements 1 to {size}; there is no element {k}")
            return k - 1

        return [*map(place, value)] if isinstance(value, list) else place(value)

    def of_member(self, item: Any, name: Expression) -> Value:
        """The value of a member that a name refers to, or the values of a list of members; a value itself."""
        if isinstance(item, list):
            self.spend(len(item), name.at)
            return [self.of_member(element, name) for element in item]
        if isinstance(item, Instance) and item.definition.kind == "record":
            item = item.members
        if isinstance(item, dict):
            return {word: self.of_member(part, name) for word, part in item.items()}
        if isinstance(item, int | Condition):
            return item
        if isinstance(item, Instance):
            self.fail(name.at, f"{name} is a component; write which of its variables is meant")
        return self.symbol(item)

    # Unknowns, parameters and constants

    def symbol(self, variable: Variable) -> Value:
        """The symbol of a variable in equations; a parameter that depends on others is its expression."""
        if variable not in self._symbols:
            if variable in self._waiting:
                if variable.type == "Integer" and not variable.variability:  # Equations are solved for it.
                    return self.graph.variable(variable.name)
                names = ", ".join(sorted(other.shown for other in self._waiting))
                what = "the parameter " if variable.variability else ""
                self.fail(variable.at, f"{what}{variable.shown} depends on itself: {names}")
            self._waiting.add(variable)
            is_parameter = variable.variability or variable.type == "String"
            value = self._parameter if is_parameter else self._unknown
            try:
                self._symbols[variable] = self.apart(value, variable)
            finally:
                self._waiting.discard(variable)
        return self._symbols[variable]

    def _unknown(self, variable: Variable) -> Value:
        if variable.name not in self.defined:
            unknown = self.graph.variable(variable.name)
            return self.condition_of(unknown) if variable.type == "Boolean" else unknown
        value = self.defined[variable.name]()
        fits = isinstance(value, Condition if variable.type == "Boolean" else int)
        if not fits or (variable.type == "Integer" and not self._is_whole(value)):
            self.fail(variable.at, f"{variable.shown} is of type {variable.type}, and its value is not")
        return value

    def _is_whole(self, value: int) -> bool:
        """Whether a number is an integer where Integer and Boolean variables are 1, but Real ones are not."""

        def number_of(leaf: Leaf) -> float:
            variable = self.variables.get(str(leaf.index).removeprefix(BEFORE).removesuffix(")"))
            return 0.3 if leaf.kind == "t" or getattr(variable, "type", "") == "Real" else 1.0

        fraction = float(self.graph.numeric([value], number_of)[0]) % 1.0
        return not 1e-9 < fraction < 1.0 - 1e-9  # as where it has no value there

    def truth(self, value: Value, at: int) -> int:
        """A number, or the number 0 or 1 for a condition."""
        return value.node if isinstance(value, Condition) else self.as_number(value, at)

    def _parameter(self, variable: Variable) -> Value:
        if variable.type == "enumeration":
            if variable.value is not None:
                return self.as_number(self.bound(variable.value), variable.at)
            what = f"{variable.name} is an enumeration, which equations cannot use"
            self.fail(variable.at, f"{what}; write Integer")
        what = f"the value of {variable.shown}"
        if variable.type == "String":
            text = self.bound(variable.value) if variable.value is not None else ""
            return text if isinstance(text, str) else self.fail(variable.at, f"{what} is no text")
        if variable.name in self._replacing:
            number = self._replacing[variable.name]
            if variable.variability == "constant":
                self.fail(variable.at, f"{variable.shown} is a constant; only parameters get values")
            if variable.type != "Boolean":
                number = self.wrapped(variable.at, require_number, what, number)
                return self._independent(variable, number, variable.at)
            if number not in (0, 1):
                self.fail(variable.at, f"{what} must be true or false; got {number:.10g}")
            return TRUE if number else FALSE
        given = variable.value or variable.attributes.get("start")  # as the language has it
        if given is None:
            if variable.type == "Boolean" or variable.variability == "constant":
                self.fail(variable.at, f"{variable.shown} has no value; give it one")
            return self.graph.parameter(variable.name)
        at, value = given.expression.at, self.bound(given)
        if variable.type == "Boolean":
            return self.decided(value, at, what)
        value = self.as_number(value, at)
        if variable.variability == "constant":
            self.numbers[variable] = self.numeric(value, at, what)
            return value
        moving = [shown(leaf) for leaf in self.graph.leaves_in(value) if leaf.kind in "tu"]
        if not self.calculated.issuperset(moving):
            self.fail(at, f"{what} depends on {moving[0]}, which is no parameter")
        names = self.names_in(value)
        follows = names and variable.name not in self.structural
        if moving or (follows and self.graph.extent(value)[1] <= LONGEST_PARAMETER):
            return value
        # What is long would stand in many equations; it is a number, and so are those it is made of.
        self.structural.update(names)
        return self._independent(variable, self.numeric(value, at, what), at)

    def _independent(self, variable: Variable, number: float, at: int) -> int:
        """The value in equations of a parameter with a number: its symbol, or the number if structural."""
        if not math.isfinite(number) or (variable.type == "Integer" and number != round(number)):
            kind = "an integer" if variable.type == "Integer" else "finite"
            self.fail(at, f"the value of {variable.shown} must be {kind}; got {number:.10g}")
        self.numbers[variable] = number
        if variable.name in self.structural:
            return self.graph.number(repr(number))
        return self.graph.parameter(variable.name)

    def _constant(self, component: syntax.Component, definition: syntax.ClassDefinition) -> Value:
        if component not in self._constants:
            if component.modification is None or component.modification.value is None:
                self.fail(component.at, f"the constant {component.name} has no value; give it one")
            self._constants[component] = None
            self._constants[component] = self.value(component.modification.value, Scope(None, definition))
        elif self._constants[component] is None:
            self.fail(component.at, f"the constant {component.name} depends on itself")
        return self._constants[component]


def scopes(values: Values, indices: list[tuple[str, Expression]], scope: Scope, at: int) -> list[Scope]:
    """A scope for every combination of the values of loop indices."""
    every = [scope]
    for name, where in indices:
        outer, every = every, []
        for around in outer:
            turns = values.value(where, around)
            if not isinstance(turns, list):
                values.fail(where.at, "an index needs a range, such as 1:3")
            every += [around.inner({name: k}) for k in turns]
        if len(every) > MOST_ELEMENTS:
            values.fail(at, f"a loop of more than {MOST_ELEMENTS} turns")
    return every
