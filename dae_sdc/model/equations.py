"""Equations of named unknowns and parameters: their structure and their derivatives."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import sympy
from sympy.core.function import AppliedUndef

from dae_sdc.errors import InputError
from dae_sdc.expressions.dag import Leaf, name_and_order
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.symbols import TIME, Unknown
from dae_sdc.model.sympy_input import to_sympy, with_pi

# Number of random points that are tried for one at which all entries of a Jacobian have values.
MOST_RANDOM_POINTS = 8
MOST_DEFINITION_STEPS = 50  # Largest number of steps of Newton's method for auxiliary unknowns.


@dataclass
class Variable:
    """An unknown of a model."""

    name: str  # Name of the unknown.
    unit: str  # Its unit.
    # Start values, or guesses of them, of the unknown (key 0) and of its derivatives, by order.
    start: dict[int, float]
    fixed: set[int]  # Orders whose start value must not be changed.
    # minimum, maximum: bounds of the unknown.
    minimum: float | None = None
    maximum: float | None = None
    # Nominal sizes of the unknown and of its derivatives, by order, to which errors are relative at least.
    nominal: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Definition:
    """Auxiliary unknowns, which equations determine from the other unknowns and their derivatives."""

    unknowns: tuple[int, ...]  # Numbers of the auxiliary unknowns.
    roots: tuple[int, ...]  # Nodes of as many expressions that vanish.

    def solve(self, graph: Graph, values: Callable[[Leaf], float], guess: float = 0.0) -> list[float] | None:
        """Values of the auxiliary unknowns by Newton's method, given all other leaves; None if it fails."""
        n = len(self.unknowns)
        leaves = {graph.variable(j): at for at, j in enumerate(self.unknowns)}
        slopes = [
            (i, leaves[leaf], node)
            for i, root in enumerate(self.roots)
            for leaf, node in graph.gradient(root).items()
            if leaf in leaves
        ]
        nodes = [*self.roots, *(node for *_, node in slopes)]
        place = {j: at for at, j in enumerate(self.unknowns)}
        solution = np.full(n, guess)
        for _ in range(MOST_DEFINITION_STEPS):
            current = solution

            def value(leaf: Leaf, current: npt.NDArray[np.float64] = current) -> float:
                is_unknown = leaf.kind == "u" and leaf.order == 0 and leaf.index in place
                return float(current[place[leaf.index]]) if is_unknown else values(leaf)

            numbers = graph.numeric(nodes, value)
            matrix = np.zeros((n, n))
            for (i, at, _), slope in zip(slopes, numbers[n:].tolist(), strict=True):
                matrix[i, at] = slope
            if not np.isfinite(numbers).all():
                return None
            try:
                step = np.linalg.solve(matrix, -numbers[:n])
            except np.linalg.LinAlgError:
                return None
            solution = current + step
            if (np.abs(step) <= 1e-12 * (1.0 + np.abs(solution))).all():
                return [float(entry) for entry in solution]
        return None


@dataclass
class Parameter:
    """A named number in the equations of a model; ``value`` is None until one is given."""

    name: str
    value: float | None
    unit: str

    def required(self, model: str) -> float:
        """The value; raises :class:`InputError` if there is none."""
        if self.value is None:
            raise InputError(f"parameter {self.name} of model {model} has no value; give it one")
        return self.value


class Equations:
    """Base of :class:`~dae_sdc.model.model.Model`: equations that vanish, as nodes of a graph."""

    def __init__(self, name: str, interval: tuple[float, float]) -> None:
        self.name = name
        self.interval = interval
        self.variables_by_name: dict[str, Variable] = {}
        self.parameters_by_name: dict[str, Parameter] = {}
        self.graph = Graph()
        self.roots: list[int] = []
        # Nodes of equations with the simpler expressions of homotopies in them, by their numbers.
        self.simplified_roots: dict[int, int] = {}
        # Names and nodes of equations that follow from the others, and are left out but at the start.
        self.redundant: tuple[tuple[str, int], ...] = ()
        self.conditions: tuple[Callable[[Mapping[str, float]], None], ...] = ()
        self.definitions: tuple[Definition, ...] = ()
        self._expressions: list[Any] = []
        self._equation_names: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self._names_of_equations: tuple[str, ...] = ()
        self._unknowns: list[Variable] = []
        self._parameters: list[Parameter] = []
        self._index: dict[str, int] = {}
        self._symbols: dict[Any, int] = {}

    @property
    def t(self) -> Any:
        """The symbol of time."""
        return TIME

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the unknowns."""
        if len(self._names) != len(self.variables_by_name):  # unknowns are added, never removed
            self._names = tuple(self.variables_by_name)
        return self._names

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the unknowns."""
        return tuple(variable.unit for variable in self.variables_by_name.values())

    @property
    def equation_names(self) -> tuple[str, ...]:
        """Names of the equations."""
        if len(self._names_of_equations) != len(self._equation_names):  # equations are added, never removed
            self._names_of_equations = tuple(self._equation_names)
        return self._names_of_equations

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(self.parameters_by_name)

    def content(self) -> tuple[Any, ...]:
        """Names, parameters and values of equations at the random point: equal if models say the same."""
        values = (parameter.value for parameter in self.parameters_by_name.values())
        more = (*self.simplified_roots.values(), *(root for _, root in self.redundant))
        roots = (self.graph.value[root] for root in (*self.roots, *more))
        names = (self.name, self.names, self.units, self.equation_names, self.parameter_names)
        return (*names, *values, *roots)

    @property
    def expressions(self) -> tuple[Any, ...]:
        """The equations as SymPy expressions that vanish, as they were given."""
        missing = [i for i, expression in enumerate(self._expressions) if expression is None]
        for i, expression in zip(missing, self.sympy([self.roots[i] for i in missing]), strict=True):
            self._expressions[i] = with_pi(expression)
        return tuple(self._expressions)

    def unknown(self, unknown: Any) -> tuple[str, int]:
        """Name of an unknown and order of a derivative, from a symbol or a name such as "der(x, 2)"."""
        if isinstance(unknown, Unknown):
            name, order = unknown.base, unknown.order
        else:
            name, order = name_and_order(str(unknown))
        if name not in self.variables_by_name:
            raise InputError(f"model {self.name} has no unknown {name}{self._similar(name)}")
        return name, order

    def _similar(self, name: str) -> str:
        close = difflib.get_close_matches(name, [*self._index, "t"], n=1)
        return f"; did you mean {close[0]}?" if close else ""

    def _resolve(self, item: Any) -> int | None:
        """The node of a symbol; functions of time and their derivatives stand for unknowns of their name."""
        if item not in self._symbols:
            self._symbols[item] = self._node_of_symbol(item)
        return self._symbols[item]

    def _node_of_symbol(self, item: Any) -> int:
        order, symbol = 0, item
        if isinstance(item, sympy.Derivative):
            symbol = item.expr
            if not all(str(variable) == TIME.name for variable, _ in item.variable_count):
                raise InputError(f"{item} is no derivative with respect to time; carry it out, .doit()")
            order = sum(int(count) for _, count in item.variable_count)
        if isinstance(symbol, Unknown):
            name, order = symbol.base, order + symbol.order
        elif isinstance(symbol, AppliedUndef):
            if [str(arg) for arg in symbol.args] != [TIME.name]:
                raise InputError(f"{symbol} is no function of {TIME} alone")
            name = symbol.func.__name__
        elif symbol.is_Symbol:
            name, more = name_and_order(symbol.name)
            order += more
        else:
            raise InputError(f"{item} is no derivative of an unknown; carry it out, .doit()")
        if name == TIME.name:
            return self.graph.time()
        if name in self.variables_by_name:
            return self.graph.variable(self._index[name], order)
        if name in self.parameters_by_name and not order:
            return self.graph.parameter(self._index[name])
        raise InputError(f"{symbol} is no unknown and no parameter{self._similar(name)}")

    def symbol(self, leaf: Leaf) -> Any:
        """SymPy's symbol of a leaf of the graph."""
        if leaf.kind == "t":
            return TIME
        if leaf.kind == "u":
            return Unknown(self._unknowns[leaf.index].name, leaf.order)
        if leaf.kind == "p":
            return sympy.Symbol(self._parameters[leaf.index].name, real=True)
        return sympy.Symbol(f"{leaf.kind}{leaf.index}")

    def sympy(self, nodes: Sequence[int]) -> list[Any]:
        """Nodes of the graph as SymPy's expressions."""
        return to_sympy(self.graph, nodes, self.symbol)

    # Structure

    def signature(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The highest derivative of every unknown in every equation."""
        entries: list[tuple[int, int, int]] = []
        for i, root in enumerate(self.roots):
            highest: dict[int, int] = {}
            for j, k in self.graph.depends(root):
                highest[j] = max(k, highest.get(j, 0))
            entries += [(i, j, highest[j]) for j in sorted(highest)]
        rows, cols, orders = np.array(entries, dtype=np.int64).reshape(-1, 3).T.copy()
        return rows, cols, orders

    def system_jacobian(
        self, c: npt.ArrayLike, d: npt.ArrayLike, point: Mapping[Any, float] | None = None
    ) -> Any:
        r"""The matrix of the derivatives :math:`\partial f_i / \partial x_j^{(d_j - c_i)}`."""
        # Shape of the result: (equations, unknowns).
        slopes = self.graph.leading_slopes(self.roots, np.asarray(c).tolist(), np.asarray(d).tolist())
        nodes, shape = list(slopes.values()), (len(self.roots), len(self.names))
        if point is not None:
            entries = self.graph.numeric(nodes, self.values(point).__getitem__)
        else:
            entries = self._random(nodes)
        rows, cols = np.array(list(slopes), dtype=np.int64).reshape(-1, 2).T
        return sparse.csc_matrix((entries, (rows, cols)), shape=shape)

    def _random(self, nodes: Sequence[int]) -> npt.NDArray[np.float64]:
        """Values at a random point where all expressions have one."""
        leaves = sorted(self.graph.leaves_of(*nodes))
        best = np.full(len(nodes), np.nan)
        for attempt in range(MOST_RANDOM_POINTS):
            source = np.random.default_rng(attempt)
            # Positive values in the first attempts, where roots and logarithms are defined.
            values = source.uniform(0.2, 1.0, len(leaves)) * source.choice(
                (1, 1 if attempt < 3 else -1), len(leaves)
            )
            entries = self.graph.numeric(nodes, dict(zip(leaves, values.tolist(), strict=True)).__getitem__)
            if np.isfinite(entries).sum() > np.isfinite(best).sum() or attempt == 0:
                best = entries
            if np.isfinite(best).all():
                break
        return best

    def values(self, point: Mapping[Any, float]) -> dict[Leaf, float]:
        """Values of all leaves of the equations at a point, see :meth:`system_jacobian`."""
        at_point: dict[Leaf, float] = {}
        for key, value in point.items():
            if str(key) == TIME.name:
                at_point[Leaf("t")] = float(value)
            else:
                name, order = self.unknown(key)
                at_point[Leaf("u", self._index[name], order)] = float(value)
        by_leaf: dict[Leaf, float] = {}
        for leaf in self.graph.leaves.values():
            if leaf in at_point:
                by_leaf[leaf] = at_point[leaf]
            elif leaf.kind == "t":
                by_leaf[leaf] = float(self.interval[0])
            elif leaf.kind == "u" and leaf.index < len(self._unknowns):
                # The graph may contain unknowns of a repair, which are not unknowns of the model.
                by_leaf[leaf] = self._unknowns[leaf.index].start.get(leaf.order, 0.0)
            elif leaf.kind == "p":
                by_leaf[leaf] = self._parameters[leaf.index].required(self.name)
        return by_leaf
