"""The result of a simplification: the simplified model, and the map back to all unknowns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dae_sdc.errors import InputError, require_number
from dae_sdc.expressions.dag import MOVING, Leaf, name_of
from dae_sdc.model import Level
from dae_sdc.model.elimination import Condition
from dae_sdc.model.model import Model
from dae_sdc.model.sympy_input import Unknown, derivative
from dae_sdc.text import aligned

# Kinds of expressions of removed unknowns, see :attr:`Removed.kind`.
KINDS: Final = ("v = 0", "u = const", "u = v", "u = -v", "w = der(z)", "u = a v + b", "u = expression")


@dataclass(frozen=True)
class Removed:
    """An unknown that a simplification removed, and its expression."""

    name: str  # Name of the unknown.
    expression: Any  # Its value in terms of kept unknowns, their derivatives, parameters, time and numbers.
    kind: str  # One of :data:`KINDS`.

    def __str__(self) -> str:
        return f"{self.name} = {self.expression}"


@dataclass(eq=False, repr=False)
class Simplified:
    """A simplified model with the expressions of the removed unknowns, as :func:`simplify` returns it.

    Attributes
    ----------
    original : Model
        The model before the simplification.
    model : Model
        The model after it; unknowns and equations keep their names.
    map : dict of str to Removed
        The removed unknowns by name.
    removed_equations : tuple of str
        Names of the removed equations, one for every removed unknown.
    conditions : tuple of Condition
        Conditions on the parameters.
    level : str
        The level of simplification, one of :data:`~dae_sdc.model.LEVELS`.
    folded : bool
        Whether the values of the parameters were substituted.
    numbers : dict of str to float or None
        Values of the parameters at the simplification.

    Examples
    --------
    >>> m = ds.Model("tank")
    >>> level, flow, outlet = m.variables("level flow outlet", start=[2.0, 1.0, 1.0])
    >>> m.equations(m.der(level) + flow, outlet - flow, flow - level / 2)
    >>> found = ds.simplify(m)
    >>> found.model.names, found.expression("outlet")
    (('level',), level/2)
    """

    original: Model
    model: Model
    map: dict[str, Removed]
    removed_equations: tuple[str, ...]
    conditions: tuple[Condition, ...]
    level: Level
    folded: bool
    _nodes: dict[str, int]
    numbers: dict[str, float | None] = field(init=False)

    def __post_init__(self) -> None:
        known = self.original.parameters_by_name
        self.numbers = {name: parameter.value for name, parameter in known.items()}

    def expression(self, unknown: Any) -> Any:
        """An unknown of the original model, or a derivative of it, in terms of the kept unknowns.

        Parameters
        ----------
        unknown : sympy.Symbol or str
            ``x`` or ``der(x)``, or their names.

        Returns
        -------
        sympy.Expr
            An expression of kept unknowns, their derivatives, parameters, time and numbers.
        """
        name, order = self.original.unknown(unknown)
        if name in self.map:
            return derivative(self.map[name].expression, order)
        return Unknown(name, order)

    def _node(self, unknown: Any) -> int:
        name, order = self.original.unknown(unknown)
        return self.original.graph.total_derivative(self._nodes[name], order)

    def needed(self, unknown: Any) -> set[tuple[str, int]]:
        """Kept unknowns, with orders of derivatives, in the expression of an unknown or a derivative."""
        leaves = self.original.graph.leaves_of(self._node(unknown))
        return {(self.original.names[leaf.index], leaf.order) for leaf in leaves if leaf.kind == "u"}

    def evaluate(
        self,
        unknown: Any,
        values: Callable[[str, int], npt.ArrayLike],
        t: npt.ArrayLike | None = None,
        parameters: Mapping[str, float] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Values of an unknown of the original model, or of a derivative, from values of the kept unknowns.

        Parameters
        ----------
        unknown : sympy.Symbol or str
            ``x`` or ``der(x)``, or their names.
        values : callable
            Function of a name and an order that gives the values of this derivative of a kept unknown.
        t : array_like, optional
            Time; needed if the expression contains it.
        parameters : mapping of str to float, optional
            Values of parameters that replace those of the model.

        Returns
        -------
        ndarray
            The values.
        """
        return self._number(unknown, self._node(unknown), values, t, self._numbers(parameters))

    def _numbers(self, given: Mapping[str, float] | None) -> dict[str, float | None]:
        known = self.original.parameters_by_name
        numbers = {name: parameter.value for name, parameter in known.items()}
        for name, value in (given or {}).items():
            if name not in numbers:
                raise InputError(f"model {self.model.name} has no parameter {name}")
            if self.folded and value != numbers[name]:
                raise InputError(
                    f"{name}={value:g} comes too late: the parameters of model {self.model.name} are in its "
                    f"equations as numbers; set it before simplify, or leave fold out"
                )
            numbers[name] = require_number(name, value)
        if given:
            for condition in self.conditions:
                if all(numbers[symbol.name] is not None for symbol in condition.expression.free_symbols):
                    condition({name: value for name, value in numbers.items() if value is not None})
        return numbers

    def _number(
        self,
        unknown: Any,
        node: int,
        values: Callable[[str, int], npt.ArrayLike],
        t: npt.ArrayLike | None,
        numbers: Mapping[str, float | None],
    ) -> npt.NDArray[np.float64]:
        original = self.original
        names, parameters = original.names, original.parameter_names

        def value(leaf: Leaf) -> npt.ArrayLike:
            if leaf.kind == "u":
                return values(names[leaf.index], leaf.order)
            if leaf.kind == "t":
                if t is None:
                    raise InputError(f"{unknown} of model {original.name} depends on time; give t")
                return t
            number = numbers[parameters[leaf.index]]
            if number is None:
                name = parameters[leaf.index]
                raise InputError(f"parameter {name} of model {original.name} has no value; give it one")
            return number

        return np.asarray(original.graph.numeric([node], value)[0])

    def kept_values(
        self, values: Mapping[str, float], t: float, parameters: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Values of kept unknowns and derivatives from values of unknowns of the original model.

        Parameters
        ----------
        values : mapping of str to float
            Values of unknowns of the original model and of derivatives, by name.
        t : float
            Time.
        parameters : mapping of str to float, optional
            Values of parameters in place of those of the model.

        Returns
        -------
        dict of str to float
            The values that follow from single given values; an unknown that only several values together
            determine is left out.
        """
        graph, numbers = self.original.graph, self._numbers(parameters)
        jet_values: dict[tuple[str, int], float] = {}
        left = {self._node(name): float(value) for name, value in values.items()}
        changed = True
        while changed:
            changed = False
            for node, value in list(left.items()):
                leaves = [leaf for leaf in graph.leaves_of(node) if leaf.kind == "u"]
                jets = [(self.original.names[leaf.index], leaf.order) for leaf in leaves]
                missing = [at for at, jet in enumerate(jets) if jet not in jet_values]
                if len(missing) > 1:
                    continue
                changed = True
                del left[node]
                if not missing:
                    continue
                jet, leaf = jets[missing[0]], leaves[missing[0]]
                slope = graph.gradient(node).get(graph.leaf(leaf), graph.zero)
                if graph.mark[slope] & MOVING:
                    continue
                reader = _reader({**jet_values, jet: 0.0})
                at_zero, rise = (
                    float(self._number(jet[0], term, reader, t, numbers)) for term in (node, slope)
                )
                if rise and np.isfinite([at_zero, rise]).all():
                    jet_values[jet] = (value - at_zero) / rise
        return {name_of(*jet): value for jet, value in jet_values.items()}

    def values(
        self,
        names: Sequence[str],
        u: npt.ArrayLike,
        du: npt.ArrayLike | None = None,
        parameters: Mapping[str, float] | None = None,
        t: npt.ArrayLike | None = None,
    ) -> dict[str, npt.NDArray[np.float64]]:
        """All unknowns of the original model from states of the simplified one.

        Parameters
        ----------
        names : sequence of str
            Names of the entries of a state of the solved problem, derivatives as "der(x)".
        u : array_like, shape (..., n)
            One state, or one in every row.
        du : array_like, shape (..., n), optional
            Derivatives of the states; needed for unknowns that equal a derivative that is not in the state.
        parameters : mapping of str to float, optional
            Values of parameters that replace those of the model.
        t : array_like, shape (...), optional
            Times; needed if an unknown depends on time.

        Returns
        -------
        dict of str to ndarray, shape (...)
            The values, in the order of the original unknowns. After ``solve`` with ``simplify=True`` the
            :class:`~dae_sdc.run.solution.Solution` gives them too.

        Raises
        ------
        InputError
            If the names do not fit the state, or an unknown does not follow from it.
        """
        jet_values: dict[tuple[str, int], npt.NDArray[np.float64]] = {}
        for shift, rows in ((1, du), (0, u)):
            if rows is None:
                continue
            state = np.asarray(rows, dtype=np.float64)
            if state.ndim == 0 or state.shape[-1] != len(names):
                raise InputError(
                    f"a state of model {self.model.name} has {len(names)} names; got an array of shape "
                    f"{state.shape}"
                )
            for at, entry in enumerate(names):
                name, order = self.model.unknown(entry)
                jet_values[name, order + shift] = state[..., at]
        shape = np.shape(u)[:-1]
        numbers = self._numbers(parameters)
        values: dict[str, npt.NDArray[np.float64]] = {}
        for name in self.original.names:
            missing = sorted(self.needed(name) - jet_values.keys())
            if missing:
                what = str(self.map.get(name, name))
                raise InputError(
                    f"the state does not tell {what}: {name_of(*missing[0])} is not in it; give du"
                )
            value = self._number(name, self._node(name), _reader(jet_values), t, numbers)
            values[name] = np.broadcast_to(value, shape).copy()
        return values

    def counts(self) -> dict[str, int]:
        """Number of removed unknowns of each kind."""
        kinds = [removed.kind for removed in self.map.values()]
        return {kind: kinds.count(kind) for kind in KINDS}

    def report(self, more: Sequence[tuple[str, str, str]] = ()) -> str:
        """A table of the sizes of the model before and after, and of the removed unknowns.

        Parameters
        ----------
        more : sequence of (str, str, str)
            Further rows: label, value before, value after.
        """
        before, after = self.original, self.model
        rows = [("", "before", "after")]
        rows.append(("unknowns", str(len(before.names)), str(len(after.names))))
        rows.append(("equations", str(len(before.roots)), str(len(after.roots))))
        rows += more
        first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
        table = aligned(rows, (first, -second, -third), gap="  ")
        lines = [f"model {before.name}", *(f"  {line}" for line in table.split("\n"))]
        parts = [f"{count} of {kind}" for kind, count in self.counts().items() if count]
        lines.append(f"  removed: {', '.join(parts) or 'nothing'}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n".join([self.report(), *(f"    {removed}" for removed in self.map.values())])


def _reader(values: Mapping[tuple[str, int], Any]) -> Callable[[str, int], Any]:
    return lambda name, order: values[name, order]
