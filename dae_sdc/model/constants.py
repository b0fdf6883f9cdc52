"""Expressions of numbers and parameters: whether they are zero, and conditions on parameters for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from dae_sdc.errors import InputError
from dae_sdc.model.model import Model


@dataclass(frozen=True)
class Condition:
    """A condition on parameters under which a simplified model is equivalent to the original one."""

    model: str  # Name of the model.
    expression: Any  # An expression of parameters.
    vanishes: bool  # Whether it must be 0; otherwise it must not be 0, because equations were divided by it.

    def __call__(self, values: Mapping[str, float]) -> None:
        """Raise :class:`InputError` if values of parameters violate it."""
        given = {symbol: float(values[symbol.name]) for symbol in self.expression.free_symbols}
        # Exact decimal numbers, as in the simplification: 0.3 - 0.1 - 0.2 is 0.
        exact = {symbol: sympy.Rational(repr(value)) for symbol, value in given.items()}
        is_zero = self.expression.subs(exact).is_zero
        if is_zero is None:
            is_zero = float(self.expression.subs(given)) == 0.0
        if bool(is_zero) == self.vanishes:
            return
        shown = ", ".join(sorted(f"{symbol.name}={value:g}" for symbol, value in given.items()))
        was = "taken for 0" if self.vanishes else "divided by"
        now = "not 0" if self.vanishes else "0"
        raise InputError(
            f"{self.expression} was {was} when model {self.model} was simplified, and is {now} with {shown}; "
            f"set parameters before simplifying"
        )


class Constants:
    """Decisions whether expressions of numbers and parameters are 0, with the conditions that they imply."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        graph = self.graph
        self._parameters = list(model.parameters_by_name.values())
        self.exact = {
            graph.parameter(i): graph.constant(float(parameter.value))
            for i, parameter in enumerate(self._parameters)
            if parameter.value is not None
        }
        self._zero: dict[int, bool | None] = {}
        self._divisors: dict[int, None] = {}
        self._zeros: dict[int, None] = {}

    def is_zero(self, node: int) -> bool | None:
        """Whether a constant is 0 with the present values of the parameters; None if that is not known."""
        number = self.graph.numbers.get(node)
        if number is not None:
            return number == 0
        if node not in self._zero:
            self._zero[node] = self._found(node)
        return self._zero[node]

    def _found(self, node: int) -> bool | None:
        graph = self.graph
        try:
            exact = graph.substitute([node], self.exact)[0]
        except InputError:  # the expression divides by 0
            return None
        if graph.is_zero(exact):
            return True
        value = self.value(exact)
        return None if value is None or not np.isfinite(value) else value == 0.0

    def value(self, node: int) -> float | None:
        """The value of a constant; None where a parameter has none."""
        leaves = self.graph.leaves_of(node)
        if any(self._parameters[leaf.index].value is None for leaf in leaves):
            return None
        return self.required(node)

    def required(self, node: int) -> float:
        """The value of a constant; raises :class:`InputError` where a parameter has none."""
        name = self.model.name
        return float(self.graph.numeric([node], lambda leaf: self._parameters[leaf.index].required(name))[0])

    def divides(self, node: int) -> bool:
        """Whether a constant is known not to be 0."""
        return self.is_zero(node) is False

    def ratio(self, a: int, b: int) -> int:
        """The node of -a / b; b must not become 0 with other parameters."""
        self.divide_by(b)
        return self.graph.neg(self.graph.div(a, b))

    def divide_by(self, node: int) -> None:
        """Add the condition that a constant is not 0."""
        if node not in self.graph.numbers:
            self._divisors[node] = None

    def take_for_zero(self, nodes: Iterable[int]) -> None:
        """Add the conditions that constants are 0."""
        self._zeros.update(dict.fromkeys(nodes))

    def conditions(self) -> tuple[Condition, ...]:
        """All conditions on parameters."""
        asked = [*((node, False) for node in self._divisors), *((node, True) for node in self._zeros)]
        texts = self.model.sympy([node for node, _ in asked])
        return tuple(
            Condition(self.model.name, -text if text.could_extract_minus_sign() else text, vanishes)
            for text, (_, vanishes) in zip(texts, asked, strict=True)
        )
