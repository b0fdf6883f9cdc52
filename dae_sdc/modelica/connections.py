"""Equations of connections: connected potentials are equal, and connected flows sum up to zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dae_sdc.modelica.arithmetic import minus, plus
from dae_sdc.modelica.scope import Instance, Scope, Variable
from dae_sdc.modelica.syntax import Connect, Name
from dae_sdc.modelica.values import Values
from dae_sdc.modelica.vanishing import Vanishing

_Side = tuple[Variable, bool]
"""A variable, and whether its connector belongs to the class of the connect-equation itself."""


class Connections:
    """The connections of a model."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.source = values.source
        self._links: list[tuple[int, _Side, _Side]] = []

    def connect(self, equation: Connect, scope: Scope) -> None:
        """Enter a connect-equation."""
        left, right = (self._end(name, scope) for name in (equation.left, equation.right))
        outside = _is_outside(equation.left, scope), _is_outside(equation.right, scope)
        self._link(equation, left, right, outside)

    def _end(self, name: Name, scope: Scope) -> Any:
        found = self.values.lookup(name, scope)
        if found is None:
            raise self.values.unknown(name, scope)
        return found

    def _link(self, equation: Connect, left: Any, right: Any, outside: tuple[bool, bool]) -> None:
        """Connect variables, connectors variable by variable, or arrays element by element."""
        self.values.spend(1, equation.at)
        if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            for one, other in zip(left, right, strict=True):
                self._link(equation, one, other, outside)
            return
        if isinstance(left, Variable) and isinstance(right, Variable):
            if left.flow != right.flow:
                self.source.fail(
                    equation.at,
                    f"{left.shown} and {right.shown} are connected, but only one of them is a flow",
                )
            if not left.variability:
                self._links.append((equation.at, (left, outside[0]), (right, outside[1])))
            return
        if not isinstance(left, Instance) or not isinstance(right, Instance):
            self.source.fail(
                equation.at,
                f"{equation.left} and {equation.right} do not fit; connect two connectors of one class",
            )
        for one, name in ((left, equation.left), (right, equation.right)):
            if one.definition is not None and one.definition.kind in ("model", "block"):
                self.source.fail(equation.at, f"{name} is no connector; connect two connectors of one class")
        if left.members.keys() != right.members.keys():
            self.source.fail(
                equation.at,
                f"{equation.left} and {equation.right} have different variables; "
                "connect two connectors of one class",
            )
        for word in left.members:
            self._link(equation, left.members[word], right.members[word], outside)

    def equations(self, flows: list[Variable]) -> Iterator[Vanishing]:
        """The equations of all connections."""
        up: dict[_Side, _Side] = {}
        first: dict[_Side, tuple[int, str]] = {}
        symbol = self.values.symbol

        def top(key: _Side) -> _Side:
            up.setdefault(key, key)
            while up[key] != key:
                up[key] = up[up[key]]
                key = up[key]
            return key

        for at, (left, left_out), (right, right_out) in self._links:
            one, other = top((left, left_out and left.flow)), top((right, right_out and right.flow))
            if left.flow:
                first.setdefault((left, left_out), (at, ""))
                first.setdefault((right, right_out), (at, ""))
            elif one != other:
                yield Vanishing(at, plus([symbol(left), minus(symbol(right))]), "")
            up[other] = one
        for variable in flows:
            first.setdefault((variable, False), (variable.at, variable.shown.rpartition(".")[0]))
        sums: dict[_Side, list[_Side]] = {}
        for key in first:
            sums.setdefault(top(key), []).append(key)
        for keys in sums.values():
            at, where = first[keys[0]]
            terms = [minus(symbol(variable)) if outside else symbol(variable) for variable, outside in keys]
            yield Vanishing(at, plus(terms), where)


def _is_outside(name: Name, scope: Scope) -> bool:
    """Whether a connector belongs to the class itself, and not to one of its components."""
    if scope.instance is None:
        return False
    first = scope.instance.members.get(name.parts[0][0])
    while isinstance(first, list):
        first = first[0] if first else None
    return isinstance(first, Variable) or (isinstance(first, Instance) and first.connector)
