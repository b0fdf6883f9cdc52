"""Base of the evaluation of expressions: limits of work, messages with lines, and numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final, NoReturn

import sympy

from dae_sdc.errors import InputError
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.symbols import TIME, Unknown
from dae_sdc.model.sympy_input import from_sympy
from dae_sdc.modelica import arrays, syntax
from dae_sdc.modelica.arithmetic import extent, symbols_in
from dae_sdc.modelica.arrays import MOST_ELEMENTS, Value, is_condition
from dae_sdc.modelica.library import Library
from dae_sdc.modelica.scope import Bound, Scope, Variable

DEEPEST_VALUE: Final = 200
"""Largest depth of an expression after substitution of its names."""

LONGEST_VALUE: Final = 200_000
"""Largest number of operators and operands of an expression after substitution of its names."""

MOST_EVALUATIONS: Final = 1_000_000
"""Largest number of expressions and elements that are evaluated for one model."""

TRUTHS: Final = (sympy.true, sympy.false)
"""The constant conditions."""


class Evaluation(ABC):
    """Base of the evaluation of a text's expressions to SymPy expressions, in :meth:`value` of subclasses."""

    def __init__(self, library: Library, given: Mapping[str, float], structural: set[str]) -> None:
        self.library = library
        self.source = library.source
        self.given = given
        self.structural = structural
        self.variables: dict[str, Variable] = {}
        self.numbers: dict[Variable, float | None] = {}
        self._work = 0
        self._bounds: dict[tuple[int, int], tuple[Bound, Any]] = {}
        self._extents: dict[int, tuple[int, int, Any]] = {}

    @abstractmethod
    def value(self, expression: syntax.Expression, scope: Scope) -> Value:
        """The value of an expression."""

    def number(self, expression: syntax.Expression, scope: Scope) -> Any:
        """The value of an expression that must be one number."""
        return self.as_number(self.value(expression, scope), expression.at)

    def condition(self, expression: syntax.Expression, scope: Scope) -> Any:
        """The value of an expression that must be a condition."""
        found = self.value(expression, scope)
        if not is_condition(found):
            self.fail(expression.at, "a condition is expected here, such as x > 0")
        return found

    def bound(self, bound: Bound) -> Value:
        """The value of an expression in its own scope."""
        key = id(bound.expression), id(bound.scope)
        known = self._bounds.get(key)
        if known is None:
            known = self._bounds[key] = bound, self.value(bound.expression, bound.scope)
        found = known[1]
        for k, size in bound.index:
            if not isinstance(found, list):
                break
            if len(found) != size:
                self.fail(
                    bound.expression.at, f"an array of {len(found)} for one of {size}; give it equal sizes"
                )
            found = found[k]
        return found

    # Limits and messages

    def fail(self, at: int, message: str) -> NoReturn:
        """Raise InputError with the line of a place in the text."""
        raise self.source.error(at, message)

    def spend(self, count: int, at: int) -> None:
        """Count what has been evaluated, so that no text takes forever."""
        self._work += count
        if self._work > MOST_EVALUATIONS:
            self.fail(at, "there is too much to work out here; use smaller arrays and loops")

    def check(self, value: Any, at: int) -> Any:
        """The value itself; an error if the expression is too deep or too long."""
        if isinstance(value, sympy.Basic) and value.args:
            depth, size = extent(value, self._extents)
            self.spend(size, at)
            if depth > DEEPEST_VALUE or size > LONGEST_VALUE:
                self.fail(
                    at, "with all that its names stand for this is too long; write parts of it as variables"
                )
        return value

    def wrapped(self, at: int, function: Callable[..., Any], *given: Any) -> Any:
        """Call a function, and add the line of ``at`` to the message of its InputError."""
        try:
            return function(*given)
        except InputError as error:
            raise self.source.error(at, str(error)) from None

    # Numbers

    def as_number(self, value: Value, at: int) -> Any:
        """The value itself if it is one number; an error with the line otherwise."""
        return self.wrapped(at, arrays.require_number, value)

    def numeric(self, value: Any, at: int, what: str) -> float:
        """The numerical value of an expression of parameters."""
        if value.is_Number:
            return float(value)
        graph, leaves = Graph(), list[float]()

        def resolve(item: Any) -> int:
            if isinstance(item, Unknown) or item == TIME:
                raise InputError(f"{what} depends on {item}, which is no parameter")
            variable = self.variables[item.name]
            number = self.numbers.get(variable)
            if number is None:
                raise InputError(f"{what} needs a value of parameter {variable.shown}; give it one")
            leaves.append(number)
            return graph.parameter(len(leaves) - 1)

        node = self.wrapped(at, from_sympy, graph, value, resolve)
        found = float(graph.numeric([node], lambda leaf: leaves[leaf.index])[0])
        if not math.isfinite(found):
            self.fail(at, f"{what} has no finite value: {found}; correct it")
        return found

    def decided(self, value: Value, at: int, what: str) -> Any:
        """Whether a condition of structural parameters holds; the arguments are those of :meth:`numeric`."""
        if value in TRUTHS:
            return value
        if not is_condition(value):
            self.fail(at, f"{what} must be true or false")
        found = self.numeric(value, at, what)
        self.structural.update(symbol.name for symbol in symbols_in(value))
        return sympy.true if found else sympy.false

    def integer(self, expression: syntax.Expression, scope: Scope, what: str) -> int:
        """The value of a structural integer, such as a size; ``what`` is its name in messages."""
        value = self.number(expression, scope)
        found = self.numeric(value, expression.at, what)
        if found != round(found) or abs(found) > 1e9:
            self.fail(expression.at, f"{what} must be an integer; got {found:.10g}")
        self.structural.update(symbol.name for symbol in symbols_in(value))
        return round(found)

    def range(self, item: syntax.Range, scope: Scope) -> range:
        """The integers of a range."""
        first = self.integer(item.first, scope, "the start of a range")
        step = 1 if item.step is None else self.integer(item.step, scope, "the step of a range")
        last = self.integer(item.last, scope, "the end of a range")
        if step == 0:
            self.fail(item.at, "a range with step 0; correct the step")
        found = range(first, last + (1 if step > 0 else -1), step)
        if len(found) > MOST_ELEMENTS:
            self.fail(item.at, f"a range of {len(found)} numbers; at most {MOST_ELEMENTS} are read")
        self.spend(len(found), item.at)
        return found

    def scopes(
        self, indices: list[tuple[str, syntax.Expression]], scope: Scope, at: int, too_many: str
    ) -> list[Scope]:
        """A scope for every combination of the values of loop indices."""
        scopes = [scope]
        for name, where in indices:
            scopes = [one.inner({name: k}) for one in scopes for k in self._over(where, one)]
            if len(scopes) > MOST_ELEMENTS:
                self.fail(at, too_many)
        return scopes

    def _over(self, expression: syntax.Expression, scope: Scope) -> list[Any]:
        """The values of a loop index."""
        found = self.value(expression, scope)
        if not isinstance(found, list):
            self.fail(expression.at, "an index needs a range, such as 1:3")
        return found

    def interpolated(self, points: list[tuple[Any, Any]], x: Any, at: int, hold: bool = False) -> Any:
        """Piecewise linear interpolation, with errors at the place ``at`` of the text.

        The other arguments are those of :func:`~dae_sdc.modelica.arrays.interpolate`.
        """
        checked = [(self.as_number(a, at), self.as_number(b, at)) for a, b in points]
        places = [self.numeric(a, at, "a place in a table") for a, _ in checked]
        if not places or any(b <= a for a, b in pairwise(places)):
            self.fail(at, "the places in a table must increase; sort them and remove equal ones")
        return self.wrapped(at, arrays.interpolate, checked, x, hold)
