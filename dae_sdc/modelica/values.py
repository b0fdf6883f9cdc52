"""Evaluation of Modelica expressions to SymPy expressions of a model's unknowns and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import sympy

from dae_sdc.modelica import arrays, syntax
from dae_sdc.modelica.arithmetic import choice, compared, divided, joined, minus, opposite, power, rational
from dae_sdc.modelica.arrays import Value, is_condition
from dae_sdc.modelica.calls import of_call
from dae_sdc.modelica.evaluation import DEEPEST_VALUE
from dae_sdc.modelica.library import Library
from dae_sdc.modelica.names import NameEvaluation
from dae_sdc.modelica.scope import Scope


class Values(NameEvaluation):
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
            if isinstance(value, str):
                return self._joined_texts(item, scope)
            terms.append(self.wrapped(part.at, arrays.each, minus, value) if sign < 0 else value)
        return self.wrapped(item.at, arrays.add, terms)

    def _joined_texts(self, item: syntax.Sum, scope: Scope) -> Value:
        """Strings joined by +."""
        texts = [self.value(part, scope) for sign, part in item.terms if sign > 0]
        if len(texts) < len(item.terms) or not all(isinstance(text, str) for text in texts):
            self.fail(item.at, "a string where a number is expected")
        return "".join(texts)

    def _of_product(self, item: syntax.Product, scope: Scope) -> Value:
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
        too_many = f"an array of more than {arrays.MOST_ELEMENTS} elements"
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
