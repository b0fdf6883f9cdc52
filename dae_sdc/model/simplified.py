"""Models without their trivial equations, and the map back from a simplified model to all unknowns."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dae_sdc.deadline import under_way
from dae_sdc.errors import InputError, require_number
from dae_sdc.expressions.dag import MOVING, Leaf, name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.model import LEVELS, Level
from dae_sdc.model.elimination import (
    Condition,
    Constants,
    LinearElimination,
    Relation,
    Starts,
    linear_form,
    sum_of,
)
from dae_sdc.model.model import Model
from dae_sdc.model.sympy_input import Unknown, derivative
from dae_sdc.registry import require_name
from dae_sdc.text import aligned, brief

# Kinds of expressions of removed unknowns, see :attr:`Removed.kind`.
KINDS: Final = ("v = 0", "u = const", "u = v", "u = -v", "w = der(z)", "u = a v + b", "u = expression")


@dataclass(frozen=True)
class Removed:
    """An unknown that a simplification removed, and its expression."""

    name: str  # Name of the unknown.
    _node: int  # The node of its expression in the graph of the model.
    _model: Model

    @cached_property
    def kind(self) -> str:
        """One of :data:`KINDS`."""
        return _kind(self._model.graph, self._node)

    @cached_property
    def expression(self) -> Any:
        """Its value in terms of kept unknowns, their derivatives, parameters, time and numbers."""
        return self._model.sympy([self._node])[0]

    def __str__(self) -> str:
        return f"{self.name} = {self.expression}"


@dataclass(eq=False, repr=False)
class Simplified:
    """A simplified model with the expressions of the removed unknowns.

    Returned by :func:`simplify`, whose example shows it.

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
    """

    original: Model
    model: Model
    map: dict[str, Removed]
    removed_equations: tuple[str, ...]
    conditions: tuple[Condition, ...]
    level: Level
    folded: bool
    _nodes: dict[str, int]
    numbers: dict[str, float | None]

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
        jets, names = self.original.graph.jets_of(self._node(unknown)), self.original.names
        # Of equal expressions one is taken, in which removed unknowns may stand that cancel.
        return {(names[j], order) for j, order in jets if names[j] not in self.map}

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
        return self.evaluator(parameters)(unknown, values, t)

    def evaluator(self, parameters: Mapping[str, float] | None) -> Callable[..., npt.NDArray[np.float64]]:
        """The function :meth:`evaluate` of an unknown, values and t, for parameters that are checked once."""
        return partial(self._number, self._numbers(parameters))

    def _numbers(self, given: Mapping[str, float] | None) -> dict[str, float | None]:
        numbers = self.original.parameter_values
        for name, value in (given or {}).items():
            require_name(f"parameter of model {self.model.name}", name, numbers)
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
        numbers: Mapping[str, float | None],
        unknown: Any,
        values: Callable[[str, int], npt.ArrayLike],
        t: npt.ArrayLike | None,
        node: int | None = None,
    ) -> npt.NDArray[np.float64]:
        original = self.original
        names, parameters = original.names, original.parameter_names

        def value(leaf: Leaf) -> npt.ArrayLike:
            if leaf.kind == "u":
                return 0.0 if names[leaf.index] in self.map else values(names[leaf.index], leaf.order)
            if leaf.kind == "t":
                if t is None:
                    raise InputError(f"{unknown} of model {original.name} depends on time; give t")
                return t
            parameter = original.parameters_by_name[parameters[leaf.index]]
            return replace(parameter, value=numbers[parameter.name]).required(original.name)

        node = self._node(unknown) if node is None else node
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
        before = -1
        while len(left) != before:
            before = len(left)
            for node, value in list(left.items()):
                jets = {(self.original.names[j], k): graph.variable(j, k) for j, k in graph.jets_of(node)}
                missing = [jet for jet in jets if jet not in jet_values and jet[0] not in self.map]
                if len(missing) > 1:
                    continue
                del left[node]
                for jet in missing:
                    slope = graph.gradient(node).get(jets[jet], graph.zero)
                    if graph.mark[slope] & MOVING:
                        continue
                    jet_values[jet] = 0.0
                    at_zero, rise = (
                        float(self._number(numbers, jet[0], lambda *key: jet_values[key], t, term))
                        for term in (node, slope)
                    )
                    del jet_values[jet]
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
        shape, evaluate = np.shape(u)[:-1], self.evaluator(parameters)
        values: dict[str, npt.NDArray[np.float64]] = {}
        for name in self.original.names:
            missing = sorted(self.needed(name) - jet_values.keys())
            if missing:
                what = str(self.map.get(name, name))
                raise InputError(
                    f"the state does not tell {what}: {name_of(*missing[0])} is not in it; give du"
                )
            value = evaluate(name, lambda *key: jet_values[key], t)
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
        unknowns = "unknowns", str(len(before.names)), str(len(after.names))
        equations = "equations", str(len(before.roots)), str(len(after.roots))
        rows = [("", "before", "after"), unknowns, equations, *more]
        first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
        table = aligned(rows, (first, -second, -third), gap="  ")
        lines = [f"model {before.name}", *(f"  {line}" for line in table.split("\n"))]
        parts = [f"{count} of {kind}" for kind, count in self.counts().items() if count]
        lines.append(f"  removed: {', '.join(parts) or 'nothing'}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n".join([self.report(), *(f"    {removed}" for removed in self.map.values())])


_NOWHERE: Final = -1
# Largest number of terms of an equation that a relation is expected to remove: else it waits for the end.
PATIENCE: Final = 8


@under_way("trivial equations were removed")
def simplify(
    model: Model, *, level: Level = "linear", derivatives: bool = True, fold: bool = False
) -> Simplified:
    r"""Remove trivial equations from a model, and the unknowns that they determine.

    Trivial equations are :math:`a\, u + b\, v^{(k)} + c = 0` with constants a, b, c of numbers and
    parameters, a not 0: v = 0, u = const, u = v, u = -v, w = der(z). Equations that become trivial when
    others are used are removed too. Of unknowns that determine each other one is kept: by preference one that
    is differentiated, then one with a fixed start value, a start value, a shorter name, the first. Start
    values and bounds move to it; bounds of a derivative and of a constant are dropped.

    Linear equations :math:`a\, u + \sum_l b_l\, v_l^{(k_l)} + c(t) = 0` follow, as long as the other
    equations have no more entries than before, and others with u in no further equation, see
    :class:`~dae_sdc.model.elimination.LinearElimination`.

    A coefficient that is 0 with the present values of the parameters counts as 0, and no equation is divided
    by a coefficient of parameters without values. The parameters stay in the equations; later values for
    which a coefficient becomes 0, or is no longer 0, are refused.

    No unknown is replaced by a derivative in which an equation would become nonlinear: its start value
    selects a solution of that equation, and the start value of a highest derivative would not. Degrees of
    freedom do not change. The index never rises, and falls if a derivative of a constrained unknown is told.
    """
    return _eliminated(model, level if derivatives else "trivial", derivatives, fold).result()


@under_way("trivial equations were removed")
def simplify_by_level(model: Model, level: Level, fold: bool) -> tuple[Simplified, Simplified]:
    """The result of :func:`simplify`, and that of the level "trivial", with which it begins."""
    whole = _eliminated(model, level, True, fold)
    begun = whole if level == "trivial" else whole.begun
    if begun is None or begun.branches_lost() - begun.barred:
        begun = _eliminated(model, "trivial", True, fold)
    return whole.result(), begun.result()


def _eliminated(model: Model, level: Level, derivatives: bool, fold: bool) -> _TrivialElimination:
    require_name("level of simplification", level, LEVELS)
    # Events change discrete unknowns, which must not follow from others.
    barred = {j for j, variable in enumerate(model.variables_by_name.values()) if variable.discrete}
    discrete = barred
    while True:
        elimination = _TrivialElimination(model, level, derivatives, fold, barred)
        lost = elimination.branches_lost() - barred
        if not lost:
            elimination.begun = elimination.begun if barred == discrete else None
            return elimination
        barred = barred | lost


class _TrivialElimination:
    """Union-find of unknowns that equations make multiples; ``barred`` ones not by derivatives."""

    def __init__(self, model: Model, level: Level, derivatives: bool, fold: bool, barred: Set[int]) -> None:
        self.model, self.graph, self.level, self.fold = model, model.graph, level, fold
        self.barred = barred
        graph, n = self.graph, len(model.names)
        self.constants = Constants(model)
        self.roots = self._folded() if fold else list(model.roots)
        # The parent of each unknown in its class, with the relation to it; the top is its own parent.
        self.up = [Relation(j, graph.one, 0, graph.zero) for j in range(n)]
        self.known: dict[int, int] = {}  # tops that are constants
        self.members: list[list[int]] = [[] for _ in range(n)]  # equations in which a class occurs
        self.written: list[list[int]] = []
        self.orders = [0] * n
        for i, root in enumerate(self.roots):
            orders = dict(graph.jets_of(root))  # the highest order of each is the last
            self.written.append(list(orders))
            for j, order in orders.items():
                self.orders[j] = max(order, self.orders[j])
                self.members[j].append(i)
        self.forms = [linear_form(graph, root) for root in self.roots]
        self.queue = deque(range(len(self.roots)))
        # Relations that must come before an equation with many unknowns can be trivial, and what waits so.
        self.patience = [len(unknowns) // PATIENCE for unknowns in self.written]
        self.postponed: dict[int, None] = {}
        self.touched: set[int] = set()
        self.used: dict[int, bool] = {}  # removed equations, in order, and whether they give a constant
        self.later: dict[int, None] = {}
        while self.queue or self.touched or (derivatives and self.later) or self.postponed:
            while self.queue:
                self._use(self.queue.popleft())
            if self.touched:
                # Equations that were not linear may be, with the relations that are known by now.
                touched, self.touched = self.touched, set()
                for i in sorted(touched):
                    self.roots[i] = self._put(i, self._told)
                    self.forms[i] = linear_form(self.graph, self.roots[i])
                    if self.forms[i] is not None:
                        self._enqueue(i)
            elif derivatives and self.later:
                # Equations with derivatives are used last: of der(x) + f = 0 and f = x the second removes f.
                first = next(iter(self.later))
                del self.later[first]
                self._use(first, derivatives=True)
            else:
                postponed, self.postponed = self.postponed, {}
                for i in postponed:
                    self._use(i)
        final = self._final()
        self.moved = Starts(self.model, final, self.constants)
        left = (i for i in range(len(self.roots)) if i not in self.used)
        self.rows = {i: self._put(i, final.__getitem__) for i in left}
        self.nodes = [self._node(relation, {}) for relation in final]
        self.begun: _TrivialElimination | None = None  # What it was before linear equations went.
        if self.level != "trivial":
            begun = self.begun = copy(self)
            begun.level, begun.moved, begun.constants = "trivial", copy(self.moved), copy(self.constants)
            begun.moved.found = {j: column.copy() for j, column in self.moved.found.items()}
            begun.constants.divisors = self.constants.divisors.copy()
            explicit = self.level == "explicit"
            further = LinearElimination(self.constants, self.rows, self.moved, explicit, self.barred)
            self.rows, expressions = further.roots, further.told()
            self.nodes = [self._node(relation, expressions) for relation in final]

    # Equations

    def _folded(self) -> list[int]:
        """The equations with values substituted for all parameters."""
        model = self.model
        for parameter in model.parameters_by_name.values():
            parameter.required(model.name)
        try:
            return self.graph.substitute(model.roots, self.constants.exact)
        except InputError as error:
            raise InputError(f"model {model.name}, with the numbers of its parameters: {error}") from None

    def _put(self, i: int, relation_of: Callable[[int], Relation]) -> int:
        """An equation with unknowns replaced by the relations that determine them."""
        graph, root = self.graph, self.roots[i]
        replaced: dict[int, int] = {}
        for leaf in sorted(graph.leaves_of(root)):
            if leaf.kind == "u":
                own = Relation(leaf.index, graph.one, leaf.order, graph.zero)
                replaced[graph.leaf(leaf)] = self._node(self._chained(own, relation_of(leaf.index)), {})
        try:
            return graph.substitute([root], replaced)[0]
        except InputError as error:
            where = f"{self.model.equation_names[i]} of model {self.model.name}"
            raise InputError(f"{where}, with the constants put in: {error}; correct it") from None

    def _use(self, i: int, derivatives: bool = False) -> None:
        form, graph = self.forms[i], self.graph
        if i in self.used or form is None:
            return
        terms: dict[tuple[int, int], int] = {}
        rest = form[1]
        for (j, shift), factor in form[0].items():
            top, scale, order, rest = self._chained(Relation(j, factor, shift, rest), self._told(j))
            if scale != graph.zero:
                terms[top, order] = graph.add(terms.get((top, order), graph.zero), scale)
        constants = self.constants
        absent = [factor for factor in terms.values() if constants.is_zero(factor)]
        terms = {key: factor for key, factor in terms.items() if not constants.is_zero(factor)}
        if not terms:
            raise self._refused(i, graph.is_zero(rest))
        if len(terms) > 2 or graph.mark[rest] & MOVING:
            self.patience[i] = len(terms) // PATIENCE
            return
        plain = [top for (top, order), factor in terms.items() if order == 0 and constants.divides(factor)]
        if not plain or len({top for top, _ in terms}) < len(terms):
            return
        if any(order for _, order in terms) and not derivatives:
            self.later[i] = None
            return
        if derivatives and any(self._told(j).of in plain for j in self.barred):
            return
        self.used[i] = len(terms) == 1
        constants.zeros |= dict.fromkeys(factor for factor in absent if factor != graph.zero)
        goes = min(plain, key=lambda top: (terms[top, 0] not in graph.numbers, len(self.members[top])))
        factor = terms.pop((goes, 0))
        offset = constants.ratio(rest, factor)
        changed = self.members[goes]
        if terms:
            ((stays, order), other), *_ = terms.items()
            self.up[goes] = Relation(stays, constants.ratio(other, factor), order, offset)
            self.members[stays].extend(changed)
            self.members[goes] = []
        else:
            self.known[goes] = offset
        for equation in (k for k in changed if k not in self.used):
            if self.forms[equation] is None:
                self.touched.add(equation)
            else:
                self._enqueue(equation)

    def _enqueue(self, i: int) -> None:
        if self.patience[i]:
            self.patience[i] -= 1
            self.postponed[i] = None
        else:
            self.patience[i] = len(self.written[i]) // PATIENCE
            self.queue.append(i)

    # Unknowns

    def _chained(self, first: Relation, second: Relation) -> Relation:
        offset = first.offset
        if first.order == 0:
            offset = sum_of(self.graph, [(first.factor, second.offset)], offset)
        factor = self.graph.mul(first.factor, second.factor)
        return Relation(second.of, factor, first.order + second.order, offset)

    def _told(self, j: int) -> Relation:
        """Relation of an unknown to the top of its class, or to a constant, with path compression."""
        path: list[int] = []
        while self.up[j].of != j:
            path.append(j)
            j = self.up[j].of
        for below in reversed(path[:-1]):
            self.up[below] = self._chained(self.up[below], self.up[self.up[below].of])
        relation = self.up[path[0]] if path else self.up[j]
        if relation.of in self.known:
            constant = Relation(relation.of, self.graph.zero, 0, self.known[relation.of])
            return self._chained(relation, constant)._replace(order=0)
        return relation

    def _refused(self, i: int, redundant: bool) -> InputError:
        names = self.model.equation_names
        others = [names[k] for k in self._behind(i)]
        shown = brief(others, 5)
        unknowns = ", ".join(self.model.names[j] for j in self.written[i][:5])
        where = f"{names[i]} of model {self.model.name} ({unknowns})"
        if not others:
            return InputError(f"{where} has no unknown that it could tell; remove it")
        if redundant:
            return InputError(f"{where} says again what follows from {shown}; remove one of them")
        return InputError(f"{where} contradicts {shown}; correct one of them")

    def _behind(self, i: int) -> list[int]:
        """Numbers of the removed equations from which the relations between the unknowns of one follow."""
        order = list(self.used)
        place = {k: number for number, k in enumerate(order)}
        equations: set[int] = set()
        work = [i]
        while work:
            k = work.pop()
            # An equation that was trivial as written depends on no other equation.
            if k == i or len(self.written[k]) != (1 if self.used[k] else 2):
                new = self._between(self.written[k], order[: place.get(k, len(order))]) - equations
                equations |= new
                work.extend(new)
        return sorted(equations)

    def _between(self, unknowns: Sequence[int], equations: Sequence[int]) -> set[int]:
        """Those of ``equations`` that relate ``unknowns`` to each other or to constants."""
        zero = any(self._told(j).factor == self.graph.zero for j in unknowns)
        goals, between = {*unknowns, *([_NOWHERE] if zero else [])}, set(equations)
        while True:
            ends = Counter(j for k in between for j in self._ends(k))
            loose = {k for k in between if sum(ends[j] > 1 or j in goals for j in self._ends(k)) < 2}
            if not loose:
                return between
            between -= loose

    def _ends(self, k: int) -> list[int]:
        return [*self.written[k], _NOWHERE] if self.used[k] else self.written[k]

    # The result

    def _final(self) -> list[Relation]:
        relations = [self._told(j) for j in range(len(self.up))]
        unknowns = list(self.model.variables_by_name.values())
        best: dict[int, int] = {}

        def rank(j: int) -> tuple[bool, bool, bool, int, int]:
            v = unknowns[j]
            return not self.orders[j], not v.fixed, not v.start, len(v.name), j

        for j, (top, factor, order, _) in enumerate(relations):
            # The relations of the others are divided by the factor of the kept unknown.
            fits = self.constants.divides(factor) and not order
            if fits and (top not in best or rank(j) < rank(best[top])):
                best[top] = j
        final = []
        for relation in relations:
            if relation.factor != self.graph.zero and best[relation.of] != relation.of:
                kept = best[relation.of]
                scale, shift = relations[kept].factor, relations[kept].offset
                inverse = self.graph.neg(self.constants.ratio(self.graph.one, scale))
                back = Relation(kept, inverse, 0, self.constants.ratio(shift, scale))
                relation = self._chained(relation, back)
            final.append(relation)
        return final

    def branches_lost(self) -> set[int]:
        """Unknowns that were replaced by derivatives in which equations have become nonlinear."""
        # The start value of such an unknown selects a solution of the equation. That of a highest derivative
        # cannot, because it is no part of the state.
        graph = self.graph
        highest = dict(graph.jets_of(*self.rows.values()))  # the highest order of each is the last
        rates = {Leaf("u", j, order) for j, order in highest.items() if order}
        lost: set[Leaf] = set()
        for i, root in self.rows.items():
            as_written = root == self.model.roots[i]
            for node, slope in graph.gradient(root).items():
                leaf = graph.leaves[node]
                if leaf not in rates or not rates.intersection(graph.leaves_of(slope)):
                    continue
                if not as_written or leaf.order < self.orders[leaf.index]:
                    lost.add(leaf)
        causes: dict[Leaf, dict[int, list[int]]] = {leaf: {} for leaf in lost}
        for j, node in enumerate(self.nodes if lost else ()):
            for leaf in graph.leaves_of(node):
                for rate in lost:
                    if leaf.kind == "u" and leaf.index == rate.index and leaf.order >= rate.order:
                        causes[rate].setdefault(leaf.order, []).append(j)
        # Unknowns equal to higher derivatives may still be eliminated when these are kept.
        return {j for found in causes.values() if found for j in found[min(found)]}

    def result(self) -> Simplified:
        """The simplified model with the map back."""
        model, graph, moved, rows, nodes = self.model, self.graph, self.moved, self.rows, self.nodes
        simplified = Model(
            model.name, title=model.title, interval=model.interval, dt=model.dt, reference=model.reference
        )
        simplified.events, simplified.labels = model.events, model.labels
        stays = (j for j, node in enumerate(nodes) if node == graph.variable(j))
        places = {j: place for place, j in enumerate(stays)}
        for j, variable in enumerate(model.variables_by_name.values()):
            if j in places:
                low, high = moved.bounds(j)
                kept = replace(variable, start={}, fixed=set(), nominal=dict(variable.nominal), formulas={})
                simplified.add_variable(replace(kept, minimum=low, maximum=high))
                for order, start in sorted(moved.found.get(j, {}).items()):
                    simplified.start(Unknown(variable.name, order), start.value, fixed=start.fixed)
        if not self.fold:
            for parameter in model.parameters_by_name.values():
                simplified.parameter(parameter.name, parameter.value, unit=parameter.unit)
        as_written = [i for i, root in rows.items() if root == model.roots[i]]
        simpler = {i: model.simplified_roots[i] for i in as_written if i in model.simplified_roots}
        simpler = {
            i: root for i, root in simpler.items() if dict(graph.jets_of(root)).keys() <= places.keys()
        }
        made = simplified.copied(graph, [*rows.values(), *simpler.values()], places)
        for i, root in rows.items():
            if root in graph.numbers:  # which is refused
                simplified.equation(model.sympy([root])[0], name=model.equation_names[i])
            if i in simpler:
                simplified.simplified_roots[len(simplified.roots)] = made[simpler[i]]
            expression = model._expressions[i] if root == model.roots[i] else None
            simplified.add_root(made[root], model.equation_names[i], expression)
        named = dict(zip(model.names, nodes, strict=True))
        removed = {name: Removed(name, named[name], model) for j, name in enumerate(named) if j not in places}
        simplified.conditions = conditions = () if self.fold else self.constants.conditions()
        used_up = tuple(name for i, name in enumerate(model.equation_names) if i not in rows)
        numbers = model.parameter_values
        how = self.level, self.fold
        return Simplified(model, simplified, removed, used_up, conditions, *how, named, numbers)

    def _node(self, relation: Relation, expressions: Mapping[int, int]) -> int:
        """Node of an unknown as an expression of kept unknowns."""
        graph = self.graph
        if relation.factor == graph.zero:
            return relation.offset
        kept = expressions.get(relation.of, graph.variable(relation.of))
        rate = graph.total_derivative(kept, relation.order)
        return sum_of(graph, [(relation.factor, rate)], relation.offset)


def _kind(graph: Graph, node: int) -> str:
    """The kind of an expression, one of :data:`KINDS`."""
    form = linear_form(graph, node)
    if form is None or len(form[0]) > 1 or graph.mark[form[1]] & MOVING:
        return "u = expression"
    factors, rest = form
    plain = rest == graph.zero
    if not factors:
        return "v = 0" if plain else "u = const"
    (((_, order), factor),) = factors.items()
    if order:
        return "w = der(z)"
    if plain and graph.numbers.get(factor) in (1, -1):
        return "u = v" if factor == graph.one else "u = -v"
    return "u = a v + b"
