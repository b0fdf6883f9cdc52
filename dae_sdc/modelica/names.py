"""Values of names in expressions: unknowns, parameters, constants and their elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from dae_sdc.errors import InputError, require_number
from dae_sdc.expressions.symbols import TIME, Unknown
from dae_sdc.modelica import arrays, syntax
from dae_sdc.modelica.arithmetic import CONSTANTS, rational, symbols_in
from dae_sdc.modelica.arrays import Value
from dae_sdc.modelica.evaluation import Evaluation
from dae_sdc.modelica.library import Library
from dae_sdc.modelica.scope import Instance, Scope, Variable, member
from dae_sdc.modelica.text import similar


class NameEvaluation(Evaluation):
    """Evaluation of names; its parameters are those of :class:`~dae_sdc.modelica.evaluation.Evaluation`."""

    def __init__(self, library: Library, given: Mapping[str, float], structural: set[str]) -> None:
        super().__init__(library, given, structural)
        self._symbols: dict[Variable, Any] = {}
        self._waiting: set[Variable] = set()
        self._constants: dict[syntax.Component, Any] = {}

    def of_name(self, name: syntax.Name, scope: Scope) -> Value:
        """The value of a name; raises InputError if it does not exist."""
        parts = name.parts
        if scope.locals is not None and parts[0][0] in scope.locals:
            found = scope.locals[parts[0][0]]
            self.spend(math.prod(arrays.sizes(found)), name.at)
            if len(parts) > 1:
                self.fail(name.at, f"{parts[0][0]} has no parts; write it without a dot")
            return self._picked(found, parts[0][1], scope, name)
        item = self.lookup(name, scope)
        if item is not None:
            return self.of_member(item, name)
        words = [word for word, _ in parts]
        if words == ["time"]:
            return TIME
        constant = self.library.constant(words, scope.definition)
        if constant is not None:
            return self._picked(self._constant(*constant), parts[-1][1], scope, name)
        standard = self.library.standard(words, scope.definition)
        if standard is not None:
            return CONSTANTS[standard]
        if words == ["t"]:
            return TIME
        if words == ["Pi"]:
            return sympy.pi
        raise self.unknown(name, scope)

    def unknown(self, name: syntax.Name, scope: Scope) -> InputError:
        """The error for a name that does not exist."""
        text = str(name)
        if text in ("pi", "e", "g_n"):
            return self.source.error(name.at, f"there is no {text} here; write Modelica.Constants.{text}")
        if text.startswith("Modelica.Constants."):
            hint = similar(text[len("Modelica.Constants.") :], CONSTANTS)
            return self.source.error(name.at, f"{text} is not known{hint}")
        members = scope.instance.members if scope.instance is not None else ()
        hint = similar(text, [*members, *(scope.locals or ()), "time"]) or "; declare it"
        return self.source.error(name.at, f"there is no variable or parameter {text}{hint}")

    # Members of components

    def lookup(self, name: syntax.Name, scope: Scope) -> Any:
        """The member, or list of members, that a name refers to; None if there is none."""
        if scope.instance is None:
            return None
        first = member(name, scope.instance)
        if first is None:
            return None
        item, rest = first
        for at, (word, subscripts) in enumerate(rest):
            if at:
                item = self._part(item, word, name)
            item = self._picked(item, subscripts, scope, name)
        return item

    def _part(self, item: Any, word: str, name: syntax.Name) -> Any:
        if isinstance(item, list):
            return [self._part(one, word, name) for one in item]
        if isinstance(item, Variable):
            self.fail(name.at, f"{item.shown} is a number and has no part {word}")
        if word not in item.members:
            hint = similar(word, item.members)
            self.fail(name.at, f"{item.shown or name} has no part {word}{hint}")
        return item.members[word]

    def _picked(
        self, item: Any, subscripts: Sequence[syntax.Expression], scope: Scope, name: syntax.Name
    ) -> Any:
        """The element or elements of an array that subscripts select."""
        if not subscripts:
            return item
        if not isinstance(item, list):
            self.fail(name.at, f"{name} is no array, or has fewer sizes; remove the subscript")
        first, rest = subscripts[0], subscripts[1:]
        if isinstance(first, syntax.Every):
            return [self._picked(one, rest, scope, name) for one in item]
        if isinstance(first, syntax.Range):
            return [
                self._picked(self._element(item, k, name), rest, scope, name)
                for k in self.range(first, scope)
            ]
        k = self.integer(first, scope, f"the subscript of {name}")
        return self._picked(self._element(item, k, name), rest, scope, name)

    def _element(self, item: list[Any], k: int, name: syntax.Name) -> Any:
        if not 1 <= k <= len(item):
            self.fail(name.at, f"{name} has elements 1 to {len(item)}; there is no element {k}")
        return item[k - 1]

    def of_member(self, item: Any, name: syntax.Name) -> Value:
        """The value of a member that a name refers to, or the values of a list of members."""
        if isinstance(item, list):
            self.spend(len(item), name.at)
            return [self.of_member(one, name) for one in item]
        if isinstance(item, Instance):
            self.fail(name.at, f"{name} is a component; write which of its variables is meant")
        return self.symbol(item)

    # Unknowns, parameters and constants

    def symbol(self, variable: Variable) -> Value:
        """The symbol of a variable in equations; a parameter that depends on others is its expression."""
        known = self._symbols.get(variable)
        if known is None:
            if not variable.variability:
                known = Unknown(variable.name)
            else:
                if variable in self._waiting:
                    names = ", ".join(sorted(one.shown for one in self._waiting))
                    self.fail(variable.at, f"the parameter {variable.shown} depends on itself: {names}")
                self._waiting.add(variable)
                try:
                    known = self._parameter(variable)
                finally:
                    self._waiting.discard(variable)
            self._symbols[variable] = known
        return known

    def _parameter(self, variable: Variable) -> Value:
        if variable.type == "enumeration":
            self.fail(
                variable.at, f"{variable.name} is an enumeration, which equations cannot use; write Integer"
            )
        if variable.name in self.given:
            return self._given(variable, self.given[variable.name])
        if variable.value is None:
            if variable.type == "Boolean" or variable.variability == "constant":
                self.fail(variable.at, f"{variable.shown} has no value; give it one")
            self.numbers[variable] = None
            return sympy.Symbol(variable.name, real=True)
        at, what = variable.value.expression.at, f"the value of {variable.shown}"
        value = self.bound(variable.value)
        if variable.type == "Boolean":
            return self.decided(value, at, what)
        value = self.check(self.as_number(value, at), at)
        if variable.variability == "constant":
            self.numbers[variable] = self.numeric(value, at, what)
            return value
        symbols = symbols_in(value)
        moving = [str(leaf) for leaf in symbols if isinstance(leaf, Unknown) or leaf == TIME]
        if moving:
            self.fail(at, f"{what} depends on {moving[0]}, which is no parameter")
        if symbols:
            return value
        return self._independent(variable, self.numeric(value, at, what), at)

    def _given(self, variable: Variable, number: float) -> Value:
        """The value in equations of a parameter whose number replaces that of the text."""
        what = f"the value of {variable.shown}"
        if variable.variability == "constant":
            self.fail(variable.at, f"{variable.shown} is a constant; only parameters get values")
        if variable.type == "Boolean":
            if number not in (0, 1):
                self.fail(variable.at, f"{what} must be true or false; got {number:.10g}")
            return sympy.true if number else sympy.false
        number = self.wrapped(variable.at, require_number, what, number)
        return self._independent(variable, number, variable.at)

    def _independent(self, variable: Variable, number: float, at: int) -> Any:
        """The value in equations of a parameter with a number: its symbol, or the number if structural."""
        if not math.isfinite(number) or (variable.type == "Integer" and number != round(number)):
            kind = "an integer" if variable.type == "Integer" else "finite"
            self.fail(at, f"the value of {variable.shown} must be {kind}; got {number:.10g}")
        self.numbers[variable] = number
        if variable.name in self.structural:
            return self.wrapped(at, rational, repr(number))
        return sympy.Symbol(variable.name, real=True)

    def _constant(self, component: syntax.Component, definition: syntax.ClassDefinition) -> Value:
        """The value of a constant of a class."""
        if component not in self._constants:
            if component.modification is None or component.modification.value is None:
                self.fail(component.at, f"the constant {component.name} has no value; give it one")
            self._constants[component] = None
            found = self.value(component.modification.value, Scope(None, definition))
            self._constants[component] = found
        elif self._constants[component] is None:
            self.fail(component.at, f"the constant {component.name} depends on itself")
        return self._constants[component]
