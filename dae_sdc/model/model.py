"""A DAE as equations: unknowns, parameters and expressions that vanish."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.branches import MESSAGE
from dae_sdc.errors import InputError, require_count, require_number
from dae_sdc.expressions.dag import Leaf, name_and_order, name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.source import Writer
from dae_sdc.imports import LaterModule
from dae_sdc.model.problem import Form, ModelProblem, first_order
from dae_sdc.registry import require_name
from dae_sdc.sharing import one_at_a_time
from dae_sdc.text import aligned, brief, html_table, html_view

# Importing SymPy takes longer than to solve equations that are given as a function, which have no symbols.
sympy: Any = LaterModule("sympy")
symbolic: Any = LaterModule("dae_sdc.model.sympy_input")

TIME: Final = "t"  # Name of time.
MOST_RANDOM_POINTS = 8  # Points that are tried for one with values of all entries of a Jacobian.
MOST_DEFINITION_STEPS = 50  # Largest number of steps of Newton's method for auxiliary unknowns.


@dataclass(frozen=True, eq=False)
class Formula:
    """A number that follows parameters, such as a start value."""

    graph: Graph
    node: int
    names: tuple[str, ...]  # Of the parameters of the graph.

    def __deepcopy__(self, memo: Any) -> Formula:
        return self

    def __repr__(self) -> str:
        return Writer(self.graph, lambda leaf: self.names[leaf.index]).text(self.node)

    def value(self, numbers: Mapping[str, float | None]) -> float:
        """The number for values of the parameters; NaN where one has none."""
        return float(self.graph.numeric([self.node], lambda leaf: numbers[self.names[leaf.index]])[0])


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
    discrete: bool = False  # Whether events alone change it.
    # Of starts by order, of "min" and "max".
    formulas: dict[int | str, Formula] = field(default_factory=dict)

    def at(self, numbers: Mapping[str, float | None]) -> Variable:
        """The unknown with what its formulas are for values of the parameters."""
        if not self.formulas:
            return self
        values = {key: formula.value(numbers) for key, formula in self.formulas.items()}
        for key, value in values.items():
            if not np.isfinite(value):
                what, order = ("start", key) if isinstance(key, int) else (key, 0)
                where = f"the {what} of {name_of(self.name, order)}, {self.formulas[key]},"
                raise InputError(f"{where} is {value}; give parameters other values")
        start = self.start | {key: value for key, value in values.items() if isinstance(key, int)}
        low, high = values.get("min", self.minimum), values.get("max", self.maximum)
        return replace(self, start=start, minimum=low, maximum=high)


@dataclass(frozen=True)
class Definition:
    """Auxiliary unknowns, which equations determine from the other unknowns and their derivatives."""

    unknowns: tuple[int, ...]  # Numbers of the auxiliary unknowns.
    roots: tuple[int, ...]  # Nodes of as many expressions that vanish.
    replaced: tuple[str, int]  # Name and node of an equation that must hold where it follows from these.

    def solve(self, graph: Graph, values: Callable[[Leaf], float]) -> list[float] | None:
        """Values of the auxiliary unknowns by Newton's method, given all other leaves; None if it fails."""
        n, place = len(self.unknowns), {Leaf("u", j): at for at, j in enumerate(self.unknowns)}
        slopes = (graph.gradient(root) for root in self.roots)
        entries = [slope.get(graph.variable(j, 0), graph.zero) for slope in slopes for j in self.unknowns]
        nodes, solution = [*self.roots, *entries], np.nan_to_num([values(leaf) for leaf in place])

        def value(leaf: Leaf) -> float:
            return float(solution[place[leaf]]) if leaf in place else values(leaf)

        for _ in range(MOST_DEFINITION_STEPS):
            numbers = np.array(graph.numeric(nodes, value), dtype=np.float64)
            if not np.isfinite(numbers).all():
                return None
            matrix = numbers[n:].reshape(n, n)
            try:
                step = np.linalg.solve(matrix, -numbers[:n])
            except np.linalg.LinAlgError:
                return None
            solution = solution + step
            if (np.abs(step) <= 1e-12 * (1.0 + np.abs(solution))).all():
                return [*map(float, solution)]
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

    def __init__(self, name: str, title: str, interval: tuple[float, float]) -> None:
        self.name = name
        self.title = title
        self.interval = interval
        self.variables_by_name: dict[str, Variable] = {}
        self.parameters_by_name: dict[str, Parameter] = {}
        self.graph = Graph()
        self.roots: list[int] = []
        # Nodes of equations with the simpler expressions of homotopies in them, by their numbers.
        self.simplified_roots: dict[int, int] = {}
        # Names and nodes of equations that follow from the others, and are left out but at the start.
        self.redundant: tuple[tuple[str, int], ...] = ()
        # Unknowns that the equations do not determine, which stay as they start.
        self.held: tuple[str, ...] = ()
        self.labels: dict[str, str] = {}  # Names in the text that was read, of time too, where they differ.
        self.conditions: tuple[Callable[[Mapping[str, float]], None], ...] = ()
        self.definitions: tuple[Definition, ...] = ()
        self._expressions: list[Any] = []
        self._equation_names: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self._names_of_equations: tuple[str, ...] = ()
        self._names_of_parameters: tuple[str, ...] = ()
        self._index: dict[str, int] = {}
        self._symbols: dict[Any, int] = {}
        self._forms: dict[tuple[int, int, bool | None], Form] = {}

    @property
    def t(self) -> Any:
        """The symbol of time."""
        return symbolic.TIME

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
        if len(self._names_of_parameters) != len(self.parameters_by_name):
            self._names_of_parameters = tuple(self.parameters_by_name)
        return self._names_of_parameters

    @property
    def parameter_values(self) -> dict[str, float | None]:
        """Values of the parameters by name."""
        return {name: parameter.value for name, parameter in self.parameters_by_name.items()}

    def unknowns(self, values: Mapping[str, float] | None = None) -> list[Variable]:
        """The unknowns with their start values and bounds, by default for the values of the parameters."""
        numbers = self.parameter_values if values is None else values
        return [variable.at(numbers) for variable in self.variables_by_name.values()]

    def with_values(self, values: Mapping[str, float]) -> Self:
        """These equations with other values of parameters."""
        other, known = copy(self), self.parameters_by_name.items()
        other.parameters_by_name = {name: replace(p, value=values.get(name, p.value)) for name, p in known}
        return other

    def content(self) -> tuple[Any, ...]:
        """Names, parameters and values of equations at the random point: equal if models say the same."""
        return (*self.equations_alone(), *self.parameter_values.values())

    def equations_alone(self) -> tuple[Any, ...]:
        """The content but for the values of parameters."""
        more = (*self.simplified_roots.values(), *(root for _, root in self.redundant))
        roots = (self.graph.value[root] for root in (*self.roots, *more))
        names = (self.name, self.names, self.units, self.equation_names, self.parameter_names)
        return (*names, *roots)

    @property
    def expressions(self) -> tuple[Any, ...]:
        """The equations as SymPy expressions that vanish, as they were given."""
        missing = [i for i, expression in enumerate(self._expressions) if expression is None]
        for i, expression in zip(missing, self.sympy([self.roots[i] for i in missing]), strict=True):
            self._expressions[i] = symbolic.with_pi(expression)
        return tuple(self._expressions)

    def check_name(self, name: str) -> None:
        """Refuse what cannot name a new unknown or parameter."""
        if not isinstance(name, str) or not name or re.search(r"[\s,;()]", name):
            raise InputError(f"a name in model {self.name} must be a word without brackets; got {name!r}")
        if name in self._index:
            raise InputError(f"model {self.name} has {name} already; give every symbol a name of its own")
        if name == TIME:
            raise InputError(f"{name} is time in model {self.name}; give the symbol another name")

    def add_parameter(self, name: str, value: float | None, unit: str) -> None:
        """Add a parameter, whose name is looked at."""
        self.check_name(name)
        number = None if value is None else _number(self, "value", name, value)
        self._index[name] = len(self.parameters_by_name)
        self.parameters_by_name[name] = Parameter(name, number, unit)

    def add_variable(self, variable: Variable) -> None:
        """Add an unknown, whose name is that of no other."""
        self._index[variable.name] = len(self.variables_by_name)
        self.variables_by_name[variable.name] = variable

    def add_root(self, root: int, name: str, expression: Any = None) -> None:
        """Add an equation that is in the graph already, by default with an expression made from its node."""
        self.roots.append(root)
        self._expressions.append(expression)
        self._equation_names[name] = len(self._equation_names)

    def copied(self, graph: Graph, nodes: Sequence[int], places: Mapping[int, int] = {}) -> dict[int, int]:
        """Nodes here for expressions of another graph, whose leaves have names or stand at other places."""
        made: dict[int, int] = {}
        for node in graph.below(nodes):
            leaf = graph.leaves.get(node)
            if leaf is not None:
                place: Any = places.get(leaf.index, leaf.index) if leaf.kind == "u" else leaf.index
                place = self._index[place] if isinstance(place, str) else place
                made[node] = self.graph.leaf(leaf._replace(index=place))
            elif node in graph.numbers:
                made[node] = self.graph.constant(graph.numbers[node])
            else:
                parts = [made[operand] for operand in graph.operands(node)]
                made[node] = self.graph.call(graph.op[node], *parts, *graph.args[node][len(parts) :])
        return made

    def unknown(self, unknown: Any) -> tuple[str, int]:
        """Name of an unknown and order of a derivative, from a symbol or a name such as "der(x, 2)"."""
        is_symbol = not isinstance(unknown, str) and isinstance(unknown, symbolic.Unknown)
        name, order = (unknown.base, unknown.order) if is_symbol else name_and_order(str(unknown))
        if name not in self.variables_by_name:
            raise InputError(f"model {self.name} has no unknown {name}{self._similar(name)}")
        return name, order

    def _similar(self, name: str) -> str:
        close = difflib.get_close_matches(name, [*self._index, "t"], n=1)
        return f"; did you mean {close[0]}?" if close else f"; it has {brief([*self._index])}"

    def _resolve(self, item: Any) -> int | None:
        """The node of a symbol; functions of time and their derivatives stand for unknowns of their name."""
        if item not in self._symbols:
            self._symbols[item] = self._node_of_symbol(item)
        return self._symbols[item]

    def _node_of_symbol(self, item: Any) -> int:
        order, symbol = 0, item
        if isinstance(item, sympy.Derivative):
            symbol = item.expr
            if not all(str(variable) == TIME for variable, _ in item.variable_count):
                raise InputError(f"{item} is no derivative with respect to time; carry it out, .doit()")
            order = sum(int(count) for _, count in item.variable_count)
        if isinstance(symbol, symbolic.Unknown):
            name, order = symbol.base, order + symbol.order
        elif isinstance(symbol, sympy.core.function.AppliedUndef):
            if [str(arg) for arg in symbol.args] != [TIME]:
                raise InputError(f"{symbol} is no function of {TIME} alone")
            name = symbol.func.__name__
        elif symbol.is_Symbol:
            name, more = name_and_order(symbol.name)
            order += more
        else:
            raise InputError(f"{item} is no derivative of an unknown; carry it out, .doit()")
        if name == TIME:
            return self.graph.time()
        if name in self.variables_by_name:
            return self.graph.variable(self._index[name], order)
        if name in self.parameters_by_name and not order:
            return self.graph.parameter(self._index[name])
        raise InputError(f"{symbol} is no unknown and no parameter{self._similar(name)}")

    def symbol(self, leaf: Leaf) -> Any:
        """SymPy's symbol of a leaf of the graph."""
        if leaf.kind == "t":
            return symbolic.TIME
        if leaf.kind == "u":
            return symbolic.Unknown(self.names[leaf.index], leaf.order)
        if leaf.kind == "p":
            return sympy.Symbol(self.parameter_names[leaf.index], real=True)
        return sympy.Symbol(f"{leaf.kind}{leaf.index}")

    def sympy(self, nodes: Sequence[int]) -> list[Any]:
        """Nodes of the graph as SymPy's expressions."""
        expressions: list[Any] = symbolic.to_sympy(self.graph, nodes, self.symbol)
        return expressions

    def texts(self, nodes: Sequence[int]) -> list[str]:
        """Nodes of the graph as texts."""

        def name(leaf: Leaf) -> str:
            if leaf.kind == "u":
                return name_of(self.names[leaf.index], leaf.order)
            return self.parameter_names[leaf.index] if leaf.kind == "p" else leaf.kind

        return [*map(Writer(self.graph, name).text, nodes)]

    def nodes(self, expressions: Iterable[Any]) -> list[int]:
        """Nodes, in the graph of the model, of SymPy expressions in its symbols."""
        given = map(symbolic.sympified, expressions)
        return [symbolic.from_sympy(self.graph, expression, self._resolve) for expression in given]

    # Structure

    def signature(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The highest derivative of every unknown in every equation."""
        entries: list[tuple[int, int, int]] = []
        for i, root in enumerate(self.roots):
            highest = dict(sorted(self.graph.depends(root)))  # the highest order of each is the last
            entries += [(i, j, k) for j, k in highest.items()]
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
            leaves = sorted(self.graph.leaves_of(*nodes))
            for attempt in range(MOST_RANDOM_POINTS):
                source = np.random.default_rng(attempt)
                # Positive values in the first attempts, where roots and logarithms are defined.
                signs = (1, 1 if attempt < 3 else -1)
                values = source.uniform(0.2, 1.0, len(leaves)) * source.choice(signs, len(leaves))
                at_random = dict(zip(leaves, values.tolist(), strict=True))
                found = self.graph.numeric(nodes, at_random.__getitem__)
                if attempt == 0 or np.isfinite(found).sum() > np.isfinite(entries).sum():
                    entries = found
                if np.isfinite(entries).all():
                    break
        rows, cols = np.array(list(slopes), dtype=np.int64).reshape(-1, 2).T
        return sparse.csc_matrix((entries, (rows, cols)), shape=shape)

    def values(self, point: Mapping[Any, float]) -> dict[Leaf, float]:
        """Values of all leaves of the equations at a point, see :meth:`system_jacobian`."""
        by_leaf = {Leaf("t"): float(self.interval[0])}
        for key, value in point.items():
            is_time = str(key) == TIME
            name, order = (TIME, 0) if is_time else self.unknown(key)
            by_leaf[Leaf("t") if is_time else Leaf("u", self._index[name], order)] = float(value)
        unknowns, parameters = self.unknowns(), list(self.parameters_by_name.values())
        for leaf in self.graph.leaves.values():
            if leaf.kind == "u" and leaf.index < len(unknowns):
                # The graph may contain unknowns of a repair, which are not unknowns of the model.
                by_leaf.setdefault(leaf, unknowns[leaf.index].start.get(leaf.order, 0.0))
            elif leaf.kind == "p":
                by_leaf[leaf] = parameters[leaf.index].required(self.name)
        return {leaf: by_leaf[leaf] for leaf in self.graph.leaves.values() if leaf in by_leaf}

    # Text

    @one_at_a_time
    def form(self, dense: bool | None = None) -> Form:
        """The model as a system of first order, cached; see :class:`~dae_sdc.model.problem.Form`."""
        key = len(self.roots), len(self.names), dense
        if key not in self._forms:
            self._forms[key] = first_order(self, dense)
        return self._forms[key]

    def __repr__(self) -> str:
        return f"<Model {self.name}: {_counts(self)}>"

    def _repr_html_(self) -> str:
        rows = _rows(self)
        return html_view(
            f"{self.title or self.name}: {_counts(self)}",
            html_table(("unknown", "start", "unit"), rows["unknowns"]),
            html_table(("parameter", "value", "unit"), rows["parameters"]),
            html_table(("equation", ""), rows["equations"]),
        )

    def __str__(self) -> str:
        title = f" ({self.title})" if self.title else ""
        lines = [f"{self.name}{title}: {_counts(self)}"]
        for heading, rows in _rows(self).items():
            if rows:
                shown = [(*row[:2], *(f"[{unit}]" if unit else "" for unit in row[2:])) for row in rows]
                lines += [f"  {heading}", *(f"    {line}" for line in aligned(shown, gap="  ").split("\n"))]
        return "\n".join(lines)

    def latex(self) -> str:
        """The equations as LaTeX source for math mode."""
        if not self._expressions:
            return r"\begin{aligned}\end{aligned}"
        try:
            rows = [f"0 &= {sympy.latex(expression)}" for expression in self.expressions]
        except RecursionError:
            raise InputError(
                f"an equation of {self.name} is nested too deeply to be shown; make unknowns of its parts"
            ) from None
        return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"


HIGHEST_DERIVATIVE = 100  # Highest order of a derivative in equations.


class Model(Equations):
    r"""A differential-algebraic system as named unknowns, parameters and equations.

    Unknowns and parameters are symbols of SymPy. An equation is an expression that vanishes, or a
    ``sympy.Eq``, of unknowns, their derivatives ``der(x, k)`` with respect to time, parameters and time
    ``t``.

    Parameters
    ----------
    name : str
        Name in tables and messages.
    title : str
        One line that says what the equations describe.
    interval : (float, float)
        Start and end time used where the user gives none.
    dt : float, optional
        Step size used where the user gives none; a hundredth of the interval if not given.
    reference : str
        Source of the equations.

    Attributes
    ----------
    variables_by_name : dict of str to Variable
        The unknowns.
    parameters_by_name : dict of str to Parameter
        The parameters.
    graph : Graph
        The equations as expressions that are differentiated and compiled; unknown j is
        ``graph.variable(j)``, parameter i is ``graph.parameter(i)``.
    roots : list of int
        The node of every equation in the graph.
    of_function : bool
        Whether the equations were read from a function, which rounds the numbers in them.
    conditions : tuple of callable
        Functions of the values of all parameters by name that raise :class:`InputError` for values that the
        equations do not allow.
    definitions : tuple of Definition
        Auxiliary unknowns that are expressions of the others, in an order in which they can be evaluated.

    Examples
    --------
    >>> model = ds.Model("pendulum")
    >>> x, y, tension = model.variables("x y lambda", start=[1.0, 0.0, 0.0])
    >>> g = model.parameter("g", 9.81, unit="m/s^2")
    >>> der = model.der
    >>> model.equations(der(x, 2) + tension * x, der(y, 2) + tension * y + g, x**2 + y**2 - 1)
    """

    def __init__(
        self,
        name: str = "model",
        *,
        title: str = "",
        interval: tuple[float, float] = (0.0, 1.0),
        dt: float | None = None,
        reference: str = "",
    ) -> None:
        super().__init__(name, title, interval)
        self.dt = dt
        self.reference = reference
        self.of_function = False
        self.events: tuple[str, ...] = ()

    # Making a model

    def variable(
        self,
        name: str,
        start: Any = None,
        *,
        fixed: bool = False,
        unit: str = "",
        min: float | None = None,
        max: float | None = None,
    ) -> Any:
        """A new unknown.

        Parameters
        ----------
        name : str
            Name, different from those of all other unknowns and parameters of the model.
        start : float or sympy.Expr, optional
            Start value, or a guess of it; an expression of parameters follows them.
        fixed : bool
            Whether the start value must not be changed.
        unit : str
            Unit.
        min, max : float, optional
            Bounds of the unknown, which its values at the start keep.

        Returns
        -------
        sympy.Symbol
            The symbol of the unknown in equations.

        Raises
        ------
        InputError
            If the name is taken or not valid, or ``fixed`` is given without ``start``.
        """
        self.check_name(name)
        if fixed and start is None:
            raise InputError(f"{name} of model {self.name} is fixed, but has no start value; give start")
        for bound in (min, max):
            if bound is not None:
                require_number(f"the bound of {name}", bound)
        if min is not None and max is not None and min > max:
            raise InputError(f"min of {name} in model {self.name} is above max; correct one")
        new = Variable(name, unit, {}, set(), min, max)
        if start is not None:
            _enter_start(self, new, 0, start, fixed)
        self.add_variable(new)
        return symbolic.Unknown(name)

    def variables(
        self,
        names: str | Iterable[str],
        start: Any = None,
        *,
        fixed: bool | Sequence[bool] = False,
        unit: str | Sequence[str] = "",
        min: float | Sequence[float | None] | None = None,
        max: float | Sequence[float | None] | None = None,
    ) -> tuple[Any, ...]:
        """Several new unknowns, see :meth:`variable`.

        Parameters
        ----------
        names : str or iterable of str
            Names, as a sequence or as one text with blanks or commas between them.
        start, fixed, unit, min, max : optional
            One value for all, or a sequence with one for each.

        Returns
        -------
        tuple of sympy.Symbol
            The symbols of the unknowns in equations.
        """
        chosen = _split(names)
        settings = {"start": start, "fixed": fixed, "unit": unit, "min": min, "max": max}
        columns = {key: _for_each(self, key, value, chosen) for key, value in settings.items()}
        rows = [{key: column[at] for key, column in columns.items()} for at in range(len(chosen))]
        return tuple(self.variable(name, **row) for name, row in zip(chosen, rows, strict=True))

    def parameter(self, name: str, value: float | None = None, *, unit: str = "") -> Any:
        """A new parameter.

        Parameters
        ----------
        name : str
            Name, different from those of all other parameters and unknowns of the model.
        value : float, optional
            Value; not needed for structural analysis and index reduction.
        unit : str
            Unit.

        Returns
        -------
        sympy.Symbol
            The symbol of the parameter in equations.
        """
        self.add_parameter(name, value, unit)
        return sympy.Symbol(name, real=True)

    def parameters(
        self,
        names: str | Iterable[str],
        values: float | Sequence[float | None] | None = None,
        *,
        unit: str | Sequence[str] = "",
    ) -> tuple[Any, ...]:
        """Several new parameters, see :meth:`parameter`; arguments are as in :meth:`variables`."""
        chosen = _split(names)
        numbers, units = _for_each(self, "values", values, chosen), _for_each(self, "unit", unit, chosen)
        rows = zip(chosen, numbers, units, strict=True)
        return tuple(self.parameter(name, number, unit=text) for name, number, text in rows)

    def der(self, expression: Any, order: int = 1) -> Any:
        """The derivative of an unknown, or of any expression, with respect to time."""
        require_count("the order of a derivative", order, HIGHEST_DERIVATIVE)
        return symbolic.derivative(symbolic.sympified(expression), order)

    def equation(self, expression: Any, *, name: str = "") -> None:
        """Add an equation.

        Parameters
        ----------
        expression : sympy.Expr or sympy.Eq
            An expression that vanishes, or two sides that are equal.
        name : str
            Name of the equation; by default its number.

        Raises
        ------
        InputError
            If a symbol is neither an unknown nor a parameter of the model, if the equation contains no
            unknown, or if it is no equation.
        """
        name = name or f"equation {len(self.roots)}"
        where = f"{name} of model {self.name}"
        if name in self._equation_names:
            raise InputError(f"model {self.name} has two equations named {name}; give each a name of its own")
        if isinstance(expression, bool) or expression in (sympy.true, sympy.false):
            raise InputError(
                f"{where} is {expression}: '==' compares at once; write left - right or sympy.Eq"
            )
        try:
            vanishes = symbolic.vanishing(expression)
            root = symbolic.from_sympy(self.graph, vanishes, self._resolve)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if root in self.graph.numbers:
            reason = "holds always" if root == self.graph.zero else "never holds"
            raise InputError(f"{where} {reason}: no unknown is left in it")
        if vanishes.has(symbolic.Homotopy):
            simpler = vanishes.replace(symbolic.Homotopy, lambda actual, simplified: simplified)
            self.simplified_roots[len(self.roots)] = symbolic.from_sympy(self.graph, simpler, self._resolve)
        self.add_root(root, name, vanishes)

    def equations(self, *expressions: Any, **named: Any) -> None:
        """Add equations, see :meth:`equation`; keyword arguments give them names.

        Parameters
        ----------
        *expressions
            Equations, or lists and column matrices of them.
        **named
            Equations by their names.
        """
        for expression in expressions:
            if isinstance(expression, sympy.MatrixBase | list | tuple):
                self.equations(*expression)
            else:
                self.equation(expression)
        for name, expression in named.items():
            self.equation(expression, name=name)

    def start(self, unknown: Any, value: Any, *, fixed: bool = False) -> None:
        """Set the start value of an unknown or of one of its derivatives.

        Parameters
        ----------
        unknown : sympy.Symbol or str
            ``x`` or ``der(x)``, or their names.
        value : float or sympy.Expr
            Start value, or a guess of it; an expression of parameters follows them.
        fixed : bool
            Whether it must not be changed.
        """
        name, order = self.unknown(unknown)
        _enter_start(self, self.variables_by_name[name], order, value, fixed)

    def discrete(self, name: str, start: float = 0.0, *, unit: str = "") -> Any:
        """A new unknown that keeps its value but where :meth:`when` changes it.

        Parameters
        ----------
        name, start, unit : str, float, str
            Name, value at the start, and unit.

        Returns
        -------
        sympy.Symbol
            The symbol of the unknown in equations.

        Examples
        --------
        >>> heated = ds.Model("heated", interval=(0.0, 5.0))
        >>> T = heated.variable("T", start=18.0, fixed=True)
        >>> on = heated.discrete("on", 1.0)
        >>> heated.equations(heated.der(T) - 10.0 * on + 0.5 * (T - 10.0))
        >>> heated.when(T > 21, {on: 0})
        >>> heated.when(T < 19, {on: 1})
        >>> [len(event) for event in ds.solve(heated, rtol=1e-8).events]
        [6, 6]
        """
        symbol = self.variable(name, start, fixed=True, unit=unit)
        self.variables_by_name[name].discrete = True
        self.equation(self.der(symbol), name=f"{name} between events")
        return symbol

    def when(
        self,
        condition: Any,
        changes: Mapping[Any, Any] | None = None,
        *,
        direction: float = 0.0,
        implicit: bool = False,
        otherwise: bool = False,
        terminal: bool = False,
        message: str = "",
        only: Any = None,
        success: bool = False,
        lasting: bool = False,
    ) -> None:
        """Let unknowns change where a condition begins to hold, an event of every run of the model.

        Parameters
        ----------
        condition : sympy relation, sympy.Expr or str
            A condition such as ``x < 1``, also several joined by ``&`` and ``|``; a text, which may have
            "sample(start, period)", "initial()", "terminal()", "change(n)", "edge(n)"; or a function, which
            passes zero. All of unknowns, parameters and time.
        changes : mapping, optional
            The new values of unknowns, as expressions of those before, by unknowns or their names. Algebraic
            unknowns follow from the others.
        direction : float
            Of a function, positive: only where it grows; negative: only where it falls; 0: both.
        implicit : bool
            Whether new values are expressions of those behind the events of a time, and of ``pre(x)`` before
            them, as in Modelica. Unknowns that are not discrete change after all others.
        otherwise : bool
            Whether nothing changes where the event before it happens at the same time.
        terminal : bool
            Whether the run ends there.
        message : str
            What is told there, see :meth:`require`; a run that ends there has failed.
        only : sympy relation or str, optional
            What else must hold there, behind the events of that time; else nothing happens.
        success : bool
            Whether a run that ends there with a message has succeeded.
        lasting : bool
            Whether the values v hold while the condition does, and 1 - v where it ceases to hold.

        Raises
        ------
        InputError
            If what changes is no unknown of the model.

        Examples
        --------
        >>> ball = ds.Model("ball", interval=(0.0, 2.0))
        >>> h, v = ball.variables("h v", start=[1.0, 0.0])
        >>> ball.equations(ball.der(h) - v, ball.der(v) + 9.81)
        >>> ball.when(h, {v: -0.8 * v}, direction=-1)
        >>> len(ds.solve(ball, rtol=1e-8).events[0])
        3
        """
        flags = {"rising": direction > 0.0, "falling": direction < 0.0, "terminal": terminal}
        flags |= {"implicit": implicit, "otherwise": otherwise, "success": success, "lasting": lasting}
        words = [word for word, holds in flags.items() if holds]
        for key, value in (changes or {}).items():
            name, order = self.unknown(key)
            follows = implicit and not self.variables_by_name[name].discrete
            words.append(f"{name_of(name, order)} {':=' if follows else '='} {symbolic.as_text(value)}")
        if not (changes or terminal or message or implicit):
            raise InputError(f"an event of model {self.name} changes no unknown; give some, by their symbols")
        words += [f"if {symbolic.as_text(only)}"] * (only is not None)
        words += [f"{MESSAGE} {message}"] * bool(message)
        self.events += ("; ".join([symbolic.as_text(condition), *words]),)

    def require(self, condition: Any, message: str, *, level: str = "error", when: Any = None) -> None:
        """Let every run tell where a condition ceases to hold, or does not hold at the start.

        Parameters
        ----------
        condition : sympy relation or str
            A condition as for :meth:`when`.
        message : str
            What is told, with the time.
        level : str
            "error": the run ends there, without success; "warning": it goes on.
        when : sympy relation or str, optional
            A condition as for :meth:`when`, where alone it must hold, behind all that happens there.

        Examples
        --------
        >>> tank = ds.Model("tank", interval=(0.0, 3.0))
        >>> h = tank.variable("h", start=1.0, fixed=True)
        >>> tank.equation(tank.der(h) - 1)
        >>> tank.require(h < 2, "the tank overflows")
        >>> ds.solve(tank, rtol=1e-8).message
        'the tank overflows at t=1'
        """
        require_name(f"level of '{message}'", level, ("error", "warning"))
        violated = f"not ({condition})" if isinstance(condition, str) else sympy.Not(condition)
        judged: Any = {} if when is None else {"implicit": True, "only": violated}
        self.when(violated if when is None else when, terminal=level == "error", message=message, **judged)

    # Problems

    @one_at_a_time
    def problem(self, **settings: Any) -> ModelProblem:
        """The model as a problem that can be solved.

        For unknowns of order two and more, all derivatives but the highest become unknowns named "der(x)",
        with equations that define them.

        Parameters
        ----------
        **settings
            Values of parameters by name, and the settings of :class:`~dae_sdc.model.problem.ModelProblem`.

        Raises
        ------
        InputError
            If there are more or fewer equations than unknowns, or a parameter has no value.
        """
        return ModelProblem.of(self, **settings)


def _split(names: str | Iterable[str]) -> list[str]:
    return names.replace(",", " ").split() if isinstance(names, str) else list(names)


def _listed(variable: Variable) -> str:
    parts = [
        f"{'' if order == 0 else name_of(variable.name, order) + ' '}"
        f"{'fixed' if order in variable.fixed else 'start'} {value:.10g}"
        for order, value in sorted(variable.start.items())
    ]
    bounds = (("min", variable.minimum), ("max", variable.maximum))
    return ", ".join(parts + [f"{word} {bound:.10g}" for word, bound in bounds if bound is not None])


def _number(model: Equations, what: str, name: str, value: Any) -> float:
    if getattr(value, "is_real", False) and value.is_number:  # an expression of SymPy
        value = float(value)
    number = require_number(f"{what} of {name} in model {model.name}", value)
    if not np.isfinite(number):
        raise InputError(f"{what} of {name} in model {model.name} must be finite; got {value!r}")
    return number


def _enter_start(model: Equations, variable: Variable, order: int, value: Any, fixed: bool) -> None:
    name, formulas = name_of(variable.name, order), dict[int | str, Formula]()
    if getattr(value, "free_symbols", None):
        (node,) = model.nodes([value])
        leaves, formula = model.graph.leaves_of(node), Formula(model.graph, node, model.parameter_names)
        formulas[order] = formula
        if any(leaf.kind != "p" for leaf in leaves):
            what = f"the start of {name} in model {model.name}"
            raise InputError(f"{what} must be a number or made of parameters; got {value}")
        needed = [model.parameters_by_name[formula.names[leaf.index]] for leaf in leaves]
        value = formula.value({each.name: each.required(model.name) for each in needed})
    variable.start[order] = _number(model, "start", name, value)
    variable.formulas.pop(order, None)
    variable.formulas |= formulas
    (variable.fixed.add if fixed else variable.fixed.discard)(order)


def _for_each(model: Model, what: str, given: Any, names: Sequence[str]) -> list[Any]:
    if given is None or isinstance(given, str) or not isinstance(given, Iterable):
        return [given] * len(names)
    values = list(given)
    if len(values) != len(names):
        raise InputError(f"{what} in model {model.name} has {len(values)} entries for {len(names)} names")
    return values


def _counts(model: Equations) -> str:
    kinds = {"unknown": model.names, "equation": model.roots, "parameter": model.parameters_by_name}
    return ", ".join(f"{len(parts)} {what}{'' if len(parts) == 1 else 's'}" for what, parts in kinds.items())


def _rows(model: Equations) -> dict[str, list[tuple[str, ...]]]:
    texts = model.texts(model.roots) if model.labels else model.expressions
    return {
        "unknowns": [(v.name, _listed(v), v.unit) for v in model.unknowns()],
        "parameters": [
            (p.name, "no value" if p.value is None else f"{p.value:.10g}", p.unit)
            for p in model.parameters_by_name.values()
        ],
        "equations": [(name, f"0 = {text}") for name, text in zip(model.equation_names, texts, strict=True)],
    }
