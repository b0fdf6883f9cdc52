"""Reduction of the index of a model: the choice of a method, the result, and the table of its steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import sympy

from dae_sdc.deadline import under_way
from dae_sdc.errors import InputError, require_count
from dae_sdc.expressions.dag import STEPS, Leaf, Op, name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.model.model import Model
from dae_sdc.model.problem import Shared
from dae_sdc.model.sympy_input import TIME, Unknown, from_sympy, sympified
from dae_sdc.reduction.code import LANGUAGES, Code
from dae_sdc.reduction.factor import (
    LIMIT,
    Elimination,
    GrowthError,
    Rounding,
    Veiled,
    veil,
    written_with_veils,
)
from dae_sdc.reduction.problem import (
    Assembled,
    ReducedProblem,
    assemble_separated,
    assemble_stages,
    check_invariants,
)
from dae_sdc.reduction.separate import Goal, Pass, Separated, separate
from dae_sdc.reduction.stages import Staged, stage
from dae_sdc.registry import unknown
from dae_sdc.sharing import one_at_a_time
from dae_sdc.structure.analysis import Structure, analyse, regular_by_rounding
from dae_sdc.structure.repair import repair, without_equations
from dae_sdc.text import aligned

METHODS: Final = ("auto", "separation", "fraction-free", "stages")
"""Ways to reduce the index."""

FORMS: Final = ("implicit", "semi-explicit", "explicit", "ode")  # Forms of the result of a separation.
# Nodes by which expressions may grow in a separation before the stages are taken instead, by form, besides
# :data:`ALLOWED_MULTIPLE` times those by which they grow in the stages.
ALLOWED_GROWTH: Final = {"implicit": 2_000, "semi-explicit": 5_000, "explicit": 10_000, "ode": 10_000}

ALLOWED_MULTIPLE: Final = 4

# Points at which an entry must be a rounding error to count as 0, in equations whose numbers are rounded.
POINTS_OF_ROUNDING: Final = 3

MOST_SEPARATED: Final = 200  # Number of equations up to which separation is tried.

Form = Literal["implicit", "semi-explicit", "explicit", "ode"]
Method = Literal["auto", "separation", "fraction-free", "stages"]


class Factors(NamedTuple):
    """The factors of P A Q = L U as SymPy's matrices, and the veils in them."""

    P: Any
    L: Any
    U: Any
    Q: Any
    veils: list[tuple[Any, Any]]


@dataclass(eq=False, repr=False)
class Reduction(Shared):
    """A model whose index has been reduced.

    Made by :func:`reduce_index`. Besides what is listed here it has the texts, parameters and start values of
    the model.

    Attributes
    ----------
    source : Model
        The model as it was given.
    method : str
        "separation", "fraction-free" or "stages".
    goal : str
        The form of a separated system, else "stages".
    system : Separated or Staged
        The equations.
    reason : str
        Why this method was taken.
    seconds : float
        Time that the reduction took.
    rounded : bool
        Whether entries that are rounding errors counted as 0, which the structure of the model does not know.

    Examples
    --------
    >>> found = ds.reduce("pendulum")
    >>> found.index, found.invariant_names
    (1, ('length', 'der(length)', 'der(length, 2)'))
    """

    source: Model
    _base: Graph  # The equations before the reduction.
    method: str
    goal: Goal
    system: Separated | Staged
    _extra: list[tuple[str, int]]  # Invariants that were given.
    _limit: int | None
    reason: str
    seconds: float
    rounded: bool = False
    _pivoted: dict[Any, Reduction] = field(default_factory=dict)  # Of the same equations, by their pivots.
    _assembled: dict[bool | None, Assembled] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if isinstance(self.system, Separated):
            self._pivoted[self.system.pivots] = self
        else:
            self.goal = "stages"

    # What a problem needs of a model

    def __getattr__(self, name: str) -> Any:
        if name in _OF_THE_MODEL.split():
            return getattr(self.__dict__["source"], name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    @property
    def graph(self) -> Graph:
        """Graph of the expressions of the reduced system."""
        return self.system.graph

    @one_at_a_time
    def assembled(self, dense: bool | None = None) -> Assembled:
        """The programs of the reduced system, made once."""
        if dense not in self._assembled:
            if isinstance(self.system, Separated):
                assembled = assemble_separated(self.system, self.goal, self.source, self._extra, dense)
            else:
                assembled = assemble_stages(self.system, self.source, self._extra, dense)
            self._assembled[dense] = assembled
        return self._assembled[dense]

    def form(self, dense: bool | None = None) -> Any:
        """Residual and Jacobian as programs."""
        return self.assembled(dense).form

    @one_at_a_time
    def problem(self, **settings: Any) -> ReducedProblem:
        """The reduced system as a problem with invariants, see :class:`ReducedProblem`."""
        return ReducedProblem(self, **settings)

    @one_at_a_time
    def pivoted(self, value: Callable[[Leaf], float]) -> Reduction:
        """The reduction with pivots that are not small at a point, by values of the leaves of the graph."""
        if not isinstance(self.system, Separated):
            raise InputError("only a separation has pivots that can be chosen")
        begin = time.perf_counter()
        # In the same graph an equal expression would be found, which divides by the pivots of before.
        graph = self._base.copy()
        rounding = _rounding(graph, self.source) if self.rounded else None
        values = partial(graph.numeric, values=value, known={})
        how = Elimination(values, self.method == "fraction-free", rounding)
        system = _separated(graph, self.source, self.goal, how, self._limit)
        key = system.pivots
        if key not in self._pivoted:
            reason, seconds = "pivots chosen at a point", time.perf_counter() - begin
            replace(self, system=system, reason=reason, seconds=seconds)  # which enters itself
        return self._pivoted[key]

    def code(self, language: str = "python") -> str:
        """The reduced system as source code that stands alone.

        Its functions are those of the form: "residual" and "jacobian" of implicit ones, "rates" and
        "algebraic" or "constraints" of the others, "invariants" with their derivatives, "project" onto them,
        and "pivots", which must not be small.

        Parameters
        ----------
        language : {"python", "numba", "c"}
            Python for NumPy alone, or for numba alone, or C11.

        Returns
        -------
        str
            The code, with a header that says what it is and how it is called.

        Raises
        ------
        InputError
            If a parameter has no value, or for another language.

        Examples
        --------
        >>> text = ds.reduce("pendulum", form="explicit").code("c")
        """
        if language not in LANGUAGES:
            raise InputError(unknown("language", language, LANGUAGES))
        return Code(self, language).text()

    # Description

    @property
    def index(self) -> int:
        """Index of the reduced system, 1 or 0."""
        return self.system.index

    @property
    def differentiations(self) -> int:
        """How often equations were differentiated."""
        return self.system.differentiations

    @property
    def steps(self) -> tuple[Pass, ...]:
        """The eliminations of a separation, with what they cost; none for stages."""
        return self.system.passes

    @property
    def invariant_names(self) -> tuple[str, ...]:
        """Names of the invariants."""
        return tuple(name for name, _ in self._invariant_nodes())

    def _invariant_nodes(self) -> list[tuple[str, int]]:
        return [*self.system.invariants, *self._extra]

    def _outputs(self) -> list[int]:
        """All expressions that are calculated."""
        return [*self.system.outputs(self.goal, self.names), *(node for _, node in self._extra)]

    @cached_property
    @one_at_a_time
    def cost(self) -> Veiled:
        """Operations and veils of the reduced system with its invariants."""
        return veil(self.graph, self._outputs(), self._limit)

    @property
    def veils(self) -> tuple[int, ...]:
        """Nodes of the graph that have a name, in the order in which they are calculated."""
        return self.cost.nodes

    @cached_property
    @one_at_a_time
    def _written(self) -> tuple[list[tuple[Any, Any]], dict[int, Any]]:
        """Veils as pairs of symbol and expression, and all outputs, in SymPy."""
        return written_with_veils(self.graph, list(dict.fromkeys(self._outputs())), self.veils, self._symbol)

    def _symbol(self, leaf: Leaf) -> Any:
        if leaf.kind == "u":
            return Unknown(self.names[leaf.index], leaf.order)
        return self.source.symbol(leaf)

    @property
    def veil_expressions(self) -> tuple[tuple[Any, Any], ...]:
        """Symbols of the veils and what they stand for, as SymPy's expressions of earlier ones."""
        return tuple(self._written[0])

    @property
    def invariants(self) -> tuple[Any, ...]:
        """The invariants as SymPy's expressions with veils."""
        return tuple(self._written[1][node] for _, node in self._invariant_nodes())

    @one_at_a_time
    def factors(self, step: int = -1) -> Factors:
        """The factors of A in A x' = b with P A Q = L U, of one of the :attr:`steps`.

        Parameters
        ----------
        step : int
            Which elimination; the last one if not given.

        Returns
        -------
        Factors
            Named tuple of SymPy's matrices P, L, U and Q, and of the veils in L and U, as pairs of a symbol
            and its expression. As many columns of L and rows of U are given as the rank of A.

        Raises
        ------
        InputError
            For stages, which eliminate nothing.
        """
        if not isinstance(self.system, Separated):
            raise InputError(f"the stages of {self.name} have no factors; take method='separation'")
        graph, n, factored = self.graph.copy(), len(self.names), self.system.factors[step]
        rows = {i: at for at, i in enumerate([*factored.places, *factored.origins])}
        columns = {j: at for at, j in enumerate(dict.fromkeys([*factored.columns, *range(n)]))}
        lower = {(rows[i], k): node for (i, k), node in factored.lower(graph).items()}
        upper = {(k, columns[j]): node for k, row in enumerate(factored.rows) for j, node in row.items()}
        nodes = list(dict.fromkeys([*lower.values(), *upper.values()]))
        veils, written = written_with_veils(graph, nodes, veil(graph, nodes, self._limit).nodes, self._symbol)
        rank = len(factored.rows)

        def matrix(height: int, width: int, entries: Mapping[tuple[int, int], int]) -> Any:
            return sympy.SparseMatrix(height, width, {at: written[node] for at, node in entries.items()})

        return Factors(
            sympy.SparseMatrix(len(rows), len(rows), {(at, i): 1 for i, at in rows.items()}),
            *(matrix(len(rows), rank, lower), matrix(rank, n, upper)),
            sympy.SparseMatrix(n, n, dict.fromkeys(columns.items(), 1)),
            veils,
        )

    @cached_property
    @one_at_a_time
    def model(self) -> Model:
        """The reduced system as a model, in which veils are further unknowns.

        Raises
        ------
        InputError
            For stages, whose equations change with the solution.
        """
        system = self.system
        if not isinstance(system, Separated):
            raise InputError(
                f"the stages of {self.name} have no model, as their states change; take method='separation'"
            )
        table, written = self._written
        reduced = without_equations(self.source, f"{self.name} reduced", self.source.title)
        for symbol, expression in table:
            reduced.variable(symbol.name)
            reduced.equation(symbol - expression, name=f"veil {symbol.name}")
        for name, left, right in system.equations(self.goal, self.names):
            terms = [written[node] * Unknown(self.names[j], k) for (j, k), node in left.items()]
            reduced.equation(sum(terms) - written[right], name=name)
        for name, node in () if system.solved else system.constraints:
            reduced.equation(written[node], name=name)
        return reduced

    def __repr__(self) -> str:
        return f"<Reduction of {self.name} by {self.method}, index {self.index}>"

    def __str__(self) -> str:
        names = self.invariant_names
        lines = [
            f"{self.name}: reduced to index {self.index} by {self.method} ({self.reason}), {self.goal} form, "
            f"{self.seconds:.2f} s",
            f"equations differentiated up to {self.differentiations} times; "
            f"{len(names)} invariants: {', '.join([*names[:8], *['...'] * (len(names) > 8)]) or 'none'}",
        ]
        headings = ("step", "rank", "left over", *_COSTS, "veils", "as written")
        rows = [
            (
                f"{number} ({step.differentiated} differentiated)" if number else "0",
                str(step.rank),
                str(len(step.constraints)),
                *_cost_cells(step.cost),
            )
            for number, step in enumerate(self.steps)
        ]
        rows.append((f"result, {self.goal}", "", "", *_cost_cells(self.cost)))
        first, *others = (max(map(len, column)) for column in zip(headings, *rows, strict=True))
        table = aligned([headings, *rows], [first, *(-width for width in others)], gap="  ")
        return "\n".join([*lines, table])


_OF_THE_MODEL = (
    "name names units unknowns title labels interval dt reference variables_by_name parameters_by_name "
    "conditions"
)
_COSTS = ("functions", "multiplications", "additions", "divisions")


def _cost_cells(cost: Veiled) -> tuple[str, ...]:
    return (*(str(number) for number in cost.shared), str(len(cost.nodes)), str(sum(cost.trees)))


@under_way("the index was reduced")
def reduce_index(
    model: Model,
    method: Method = "auto",
    form: Form = "implicit",
    *,
    limit: int | None = LIMIT,
    invariants: Mapping[str, Any] | Sequence[Any] = (),
    at: Mapping[Any, float] | None = None,
) -> Reduction:
    """Reduce the index of a model to 1 or 0."""
    if method not in METHODS:
        raise InputError(unknown("method of reduction", method, METHODS))
    if form not in FORMS:
        raise InputError(unknown("form of a reduced system", form, FORMS))
    if limit is not None:
        require_count("the limit of veils", limit)
    begin = time.perf_counter()
    analysed = analyse(model)
    n = len(model.names)
    reason = "as asked for"
    if method == "auto" and n > MOST_SEPARATED:
        method, reason = "stages", f"{n} equations"
    if analysed.leading is not None and analysed.leading.rows:
        if method != "stages" and method != "auto":
            raise InputError(
                f"the system Jacobian of {model.name} is singular where the constraints hold, and only "
                f"there, so that {method} divides by 0; take the method 'stages'"
            )
        method, reason = "stages", "singular where the constraints hold"
    rounded = model.of_function and regular_by_rounding(model, analysed)
    if rounded and method == "stages":
        raise InputError(
            f"the system Jacobian of {model.name} is regular by rounding alone, which stages do not see; "
            f"take the method 'separation'"
        )
    if method != "stages":
        base = model.graph.copy()
        extra = _user_invariants(model, base, invariants)
        graph = base.copy()
        most = None
        if method == "auto":
            stages = model.graph.copy()
            stage(stages, model, analysed)
            most = ALLOWED_GROWTH[form] + ALLOWED_MULTIPLE * (len(stages) - len(model.graph))
        rounding = _rounding(graph, model) if rounded else None
        how = Elimination(_values_at(graph, model, at), method == "fraction-free", rounding, most)
        try:
            system = _separated(graph, model, form, how, limit)
        except GrowthError:
            if rounded:
                raise
            reason = "expressions would grow"
        else:
            # Derivatives of choices and steps do not show their jumps.
            hidden = {graph.op[node] for node in graph.below([node for _, node in system.hidden])}
            jumps = method == "auto" and analysed.regular and hidden & (STEPS | {Op.SELECT})
            if not jumps:
                _check_orders(graph, extra, system.orders, model)
                _check_constancy(model, analysed, invariants)
                reason = "expressions stay small" if method == "auto" else reason
                seconds = time.perf_counter() - begin
                taken = "separation" if method == "auto" else method
                return Reduction(model, base, taken, form, system, extra, limit, reason, seconds, rounded)
            reason = "constraints that may jump stay as they are"
    if not analysed.regular:
        repaired = repair(model)
        model, analysed = repaired.model, repaired.structure
        reason += ", repaired before"
    graph = model.graph.copy()
    extra = _user_invariants(model, graph, invariants)
    staged = stage(graph, model, analysed)
    _check_orders(graph, extra, [order + 1 for order in staged.d], model)
    _check_constancy(model, analysed, invariants)
    seconds = time.perf_counter() - begin
    return Reduction(model, graph, "stages", form, staged, extra, limit, reason, seconds)


def _separated(graph: Graph, model: Model, goal: Goal, how: Elimination, limit: int | None) -> Separated:
    """A separation; of equations of a function with all unknowns as differential ones, in their order."""
    system = separate(graph, model.roots, model.equation_names, goal, how, limit)
    return replace(system, algebraic=()) if model.of_function and goal == "implicit" else system


def _rounding(graph: Graph, model: Model) -> Rounding:
    """What counts as 0 in equations of a function, by values at points near the start."""
    source, drawn = np.random.default_rng(1), dict[Leaf, Any]()
    base, (first, last) = model.values({}), model.interval

    def value(leaf: Leaf) -> Any:
        if leaf not in drawn:
            steps = source.uniform(-1.0, 1.0, POINTS_OF_ROUNDING)
            middle = base.get(leaf, 0.0)
            if leaf.kind == "t":
                drawn[leaf] = first + (last - first) * np.abs(steps)
            else:
                spread = 0.0 if leaf.kind == "p" else 0.3 * (1.0 + abs(middle))
                drawn[leaf] = middle + spread * steps
        return drawn[leaf]

    numeric = partial(graph.numeric, values=value, known={})

    def values(nodes: Sequence[int]) -> Any:
        found = numeric(nodes)
        return np.broadcast_to(found.reshape(len(nodes), -1), (len(nodes), POINTS_OF_ROUNDING))

    return Rounding(values, POINTS_OF_ROUNDING)


def _values_at(
    graph: Graph, model: Model, at: Mapping[Any, float] | None
) -> Callable[[Sequence[int]], Any] | None:
    """Values at the start, or at a point; None if nothing is known of it."""
    unknown_numbers = any(parameter.value is None for parameter in model.parameters_by_name.values())
    if at is None and (unknown_numbers or not any(v.start for v in model.variables_by_name.values())):
        return None
    values = model.values(at or {})
    return partial(graph.numeric, values=lambda leaf: values.get(leaf, 0.0), known={})


def _user_invariants(
    model: Model, graph: Graph, given: Mapping[str, Any] | Sequence[Any]
) -> list[tuple[str, int]]:
    if not isinstance(given, Mapping):
        given = {f"invariant {number}": expression for number, expression in enumerate(given)}
    nodes = []
    for name, expression in given.items():
        try:
            node = from_sympy(graph, sympified(expression), partial(_resolved, model, graph))
        except InputError as error:
            raise InputError(f"{name} of model {model.name}: {error}") from None
        if node in graph.numbers:
            raise InputError(f"{name} of model {model.name} has no unknown in it; give what is to stay zero")
        nodes.append((name, node))
    return nodes


def _check_constancy(model: Model, analysed: Structure, given: Mapping[str, Any] | Sequence[Any]) -> None:
    if len(given):
        if not analysed.regular:
            repaired = repair(model)
            model, analysed = repaired.model, repaired.structure
        graph = model.graph.copy()
        check_invariants(model, graph, analysed, _user_invariants(model, graph, given))


def _resolved(model: Model, graph: Graph, symbol: Any) -> int | None:
    """The node of an unknown, one of its derivatives, a parameter or time."""
    if isinstance(symbol, Unknown) and symbol.base in model.names:
        return graph.variable(model.names.index(symbol.base), symbol.order)
    if symbol == TIME:
        return graph.time()
    if str(symbol) in model.parameter_names:
        return graph.parameter(model.parameter_names.index(str(symbol)))
    return None


def _check_orders(
    graph: Graph, invariants: Sequence[tuple[str, int]], orders: Sequence[int], model: Model
) -> None:
    for name, node in invariants:
        for j, k in sorted(graph.depends(node)):
            if k >= orders[j]:
                raise InputError(
                    f"{name} contains {name_of(model.names[j], k)}, which is no unknown of the reduced "
                    f"system; write it with lower derivatives"
                )
