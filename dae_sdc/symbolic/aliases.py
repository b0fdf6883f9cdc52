"""Models without their trivial equations, and the way back to all unknowns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import sympy

from dae_sdc.errors import InputError, require_number
from dae_sdc.symbolic.dag import MOVING
from dae_sdc.symbolic.model import Model
from dae_sdc.symbolic.symbols import Unknown, derivative, name_of

__all__ = ["Removed", "Simplified", "simplify"]

KINDS: Final = ("v = 0", "u = const", "u = v", "u = -v", "w = der(z)", "u = a v + b")
"""What a removed unknown can be, see :attr:`Removed.kind`."""

_SAME: Final = 1e-9
_NOWHERE: Final = -1


class Relation(NamedTuple):
    """An unknown as ``factor`` times derivative ``order`` of unknown ``of``, plus the node ``offset``.

    A factor of 0 is that of a constant, which is of no other unknown.
    """

    of: int
    factor: Fraction
    order: int
    offset: int


@dataclass(frozen=True)
class Removed:
    """What an unknown is that a simplified model does not have any more.

    Parameters
    ----------
    name : str
        Its name.
    kept : str or None
        The unknown of the simplified model that tells it; None for a constant.
    order : int
        Which derivative of ``kept``.
    factor : Fraction
        What the derivative is multiplied by.
    offset : sympy.Expr
        What is added: numbers and parameters.
    """

    name: str
    kept: str | None
    order: int
    factor: Fraction
    offset: Any

    @property
    def expression(self) -> Any:
        """The unknown in terms of those that are kept, as an expression of SymPy."""
        if self.kept is None:
            return self.offset
        factor = sympy.Rational(self.factor.numerator, self.factor.denominator)
        return factor * Unknown(self.kept, self.order) + self.offset

    @property
    def kind(self) -> str:
        """One of :data:`KINDS`."""
        plain = self.offset == 0
        if self.kept is None:
            return "v = 0" if plain else "u = const"
        if self.order:
            return "w = der(z)"
        if plain and abs(self.factor) == 1:
            return "u = v" if self.factor > 0 else "u = -v"
        return "u = a v + b"

    def __str__(self) -> str:
        return f"{self.name} = {self.expression}"


class Simplified:
    """A model without trivial equations, and what became of the unknowns that went with them.

    Parameters
    ----------
    original : Model
        The model before.
    model : Model
        The model after; its unknowns and equations have the names that they had.
    removed : mapping of str to Removed
        What every removed unknown is.
    removed_equations : tuple of str
        Names of the equations that are used up, one for every removed unknown.

    Attributes
    ----------
    map : dict of str to Removed
        What every removed unknown is, by its name.
    """

    def __init__(
        self,
        original: Model,
        model: Model,
        removed: Mapping[str, Removed],
        removed_equations: tuple[str, ...],
    ) -> None:
        self.original = original
        self.model = model
        self.map = dict(removed)
        self.removed_equations = removed_equations

    def expression(self, unknown: Any) -> Any:
        """An unknown of the original model, or a derivative of it, in terms of the unknowns that are kept.

        Parameters
        ----------
        unknown : sympy.Symbol or str
            ``x`` or ``der(x)``, or their names.

        Returns
        -------
        sympy.Expr
            Of unknowns of the simplified model, their derivatives, parameters and numbers.
        """
        name, order = self.original.unknown(unknown)
        if name in self.map:
            return derivative(self.map[name].expression, order)
        return Unknown(name, order)

    def values(
        self,
        names: Sequence[str],
        u: npt.ArrayLike,
        du: npt.ArrayLike | None = None,
        parameters: Mapping[str, float] | None = None,
    ) -> dict[str, npt.NDArray[np.float64]]:
        """All unknowns of the original model from states of the simplified one.

        Parameters
        ----------
        names : sequence of str
            Names of the entries of a state, derivatives as "der(x)": those of the problem that was solved.
        u : array_like, shape (..., n)
            State, or one in every row.
        du : array_like, shape (..., n), optional
            Its derivative; needed where an unknown was a derivative that is not in the state.
        parameters : mapping of str to float, optional
            Values of parameters that the run had in place of those of the model.

        Returns
        -------
        dict of str to ndarray, shape (...)
            The values, in the order of the original unknowns.

        Raises
        ------
        InputError
            If the names do not fit the state, or an unknown is not told by it.
        """
        found: dict[tuple[str, int], npt.NDArray[np.float64]] = {}
        for shift, given in ((1, du), (0, u)):
            if given is None:
                continue
            state = np.asarray(given, dtype=np.float64)
            if state.ndim == 0 or state.shape[-1] != len(names):
                raise InputError(
                    f"a state of model {self.model.name} has {len(names)} names; got an array of shape "
                    f"{state.shape}"
                )
            for at, entry in enumerate(names):
                name, order = self.model.unknown(entry)
                found[name, order + shift] = state[..., at]
        shape = np.shape(u)[:-1]
        numbers = {name: p.value for name, p in self.model.parameters_by_name.items()}
        for name, value in (parameters or {}).items():
            if name not in numbers:
                raise InputError(f"model {self.model.name} has no parameter {name}")
            numbers[name] = require_number(name, value)
        values: dict[str, npt.NDArray[np.float64]] = {}
        for name in self.original.names:
            removed = self.map.get(name)
            key = (name, 0) if removed is None else (removed.kept or "", removed.order)
            if key not in found and key[0]:
                what = name if removed is None else f"{name} = {removed.expression}"
                raise InputError(f"the state does not tell {what}: {name_of(*key)} is not in it; give du")
            if removed is None:
                values[name] = found[key]
                continue
            offset = _number(removed.offset, numbers, self.model.name)
            part = float(removed.factor) * found[key] if removed.kept else np.zeros(shape)
            values[name] = part + offset
        return values

    def counts(self) -> dict[str, int]:
        """How many unknowns of every kind are removed."""
        kinds = [removed.kind for removed in self.map.values()]
        return {kind: kinds.count(kind) for kind in KINDS}

    def report(self) -> str:
        """A table of the model before and after, and of what was removed."""
        before, after = self.original, self.model
        rows = [("", "before", "after")]
        rows.append(("unknowns", str(len(before.names)), str(len(after.names))))
        rows.append(("equations", str(len(before.roots)), str(len(after.roots))))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"model {before.name}"]
        lines += [f"  {a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        parts = [f"{count} of {kind}" for kind, count in self.counts().items() if count]
        lines.append(f"  removed: {', '.join(parts) or 'nothing'}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n".join([self.report(), *(f"    {removed}" for removed in self.map.values())])


def simplify(model: Model, *, derivatives: bool = True) -> Simplified:
    r"""Remove trivial equations from a model, and the unknowns that they tell.

    Trivial are equations :math:`u = a\, v^{(k)} + b` with a number a and a constant b, of numbers and
    parameters: v = 0, u = const, u = v, u = -v, w = der(z). An equation that becomes trivial as others are
    used is removed too. Of unknowns that tell each other one is kept: one that is differentiated before one
    that is not, then one with a fixed start, with a start, with a shorter name, the first. Start values and
    bounds move to it; bounds of a derivative and of a constant are left behind.

    Degrees of freedom do not change. Nor does the index, but for w = der(z) with a constrained z: the
    equation that asked for the derivative is gone, and with it the differentiation that it took.

    Parameters
    ----------
    model : Model
        The model; it is not changed.
    derivatives : bool
        Whether w = der(z) counts as trivial. If not, the index never changes, and states tell all unknowns.

    Returns
    -------
    Simplified
        The new model, the map back, and the report.

    Raises
    ------
    InputError
        If equations contradict each other or say the same twice, or fixed start values or bounds do.

    Examples
    --------
    >>> model = Model("decay")
    >>> x, flow, out = model.variables("x flow out", start=[1.0, None, None])
    >>> model.equations(model.der(x) + 2 * flow, flow - x, out + flow)
    >>> found = simplify(model)
    >>> found.model.names, found.expression("der(out)")
    (('x',), -der(x))
    """
    return _Elimination(model, derivatives).result()


class _Elimination:
    """Union-find of unknowns, fed by equations as they turn out to be trivial."""

    def __init__(self, model: Model, derivatives: bool) -> None:
        self.model, self.graph = model, model.graph
        graph, n = self.graph, len(model.names)
        self.roots = list(model.roots)
        self.live = [True] * len(self.roots)
        # Every unknown is told by one further up; one that is told by itself is the top of its class.
        self.up = [Relation(j, Fraction(1), 0, graph.zero) for j in range(n)]
        self.known: dict[int, int] = {}  # tops that are constants
        self.members: list[list[int]] = [[] for _ in range(n)]  # equations in which a class occurs
        self.written: list[list[int]] = []
        self.orders = [0] * n
        for i, root in enumerate(self.roots):
            leaves = [leaf for leaf in graph.leaves_of(root) if leaf.kind == "u"]
            self.written.append(sorted({leaf.index for leaf in leaves}))
            for leaf in leaves:
                self.orders[leaf.index] = max(leaf.order, self.orders[leaf.index])
            for j in self.written[i]:
                self.members[j].append(i)
        self.forms = [self._linear(root) for root in self.roots]
        self.queue = deque(range(len(self.roots)))
        self.touched: set[int] = set()
        self.used: dict[int, bool] = {}  # removed equations, in order, and whether they tell a constant
        self.later: dict[int, None] = {}
        while self.queue or self.touched or (derivatives and self.later):
            while self.queue:
                self._use(self.queue.popleft())
            if self.touched:
                self._look_again()
            elif derivatives and self.later:
                # Derivatives come last: der(x) + f = 0 and f = x are an equation of x, and not f = -der(x).
                first = next(iter(self.later))
                del self.later[first]
                self._use(first, derivatives=True)

    # Equations

    def _linear(self, root: int) -> tuple[dict[tuple[int, int], Fraction], int] | None:
        """Factors of unknowns and what is left without them; None if an equation is not that simple."""
        graph = self.graph
        leaves = {graph.leaf(leaf): leaf for leaf in graph.leaves_of(root) if leaf.kind == "u"}
        factors: dict[tuple[int, int], Fraction] = {}
        slopes = graph.gradient(root)
        for node, leaf in leaves.items():
            slope = graph.numbers.get(slopes.get(node, graph.zero))
            if not isinstance(slope, Fraction):
                return None
            if slope:
                factors[leaf.index, leaf.order] = slope
        try:
            rest = graph.substitute([root], dict.fromkeys(leaves, graph.zero))[0]
        except InputError:  # not defined where all unknowns are 0
            return None
        # Steps and choices have slopes that are numbers too, and are not linear.
        again = self._sum(((factor, graph.variable(*key)) for key, factor in factors.items()), rest)
        return (factors, rest) if again == root else None

    def _sum(self, terms: Iterable[tuple[Fraction, int]], offset: int) -> int:
        graph = self.graph
        return graph.add(*(graph.mul(graph.constant(factor), node) for factor, node in terms), offset)

    def _look_again(self) -> None:
        """Put what is known into the equations that were not linear."""
        touched, self.touched = self.touched, set()
        for i in sorted(touched):
            self.roots[i] = self._put(i, self._told)
            self.forms[i] = self._linear(self.roots[i])
            if self.forms[i] is not None:
                self.queue.append(i)

    def _put(self, i: int, told: Callable[[int], Relation]) -> int:
        """An equation with unknowns replaced by what tells them."""
        graph, root = self.graph, self.roots[i]
        replaced: dict[int, int] = {}
        for leaf in graph.leaves_of(root):
            if leaf.kind == "u":
                top, factor, order, offset = told(leaf.index)
                terms = [(factor, graph.variable(top, order + leaf.order))] if factor else []
                replaced[graph.leaf(leaf)] = self._sum(terms, graph.zero if leaf.order else offset)
        try:
            return graph.substitute([root], replaced)[0]
        except InputError as error:
            where = f"{self.model.equation_names[i]} of model {self.model.name}"
            raise InputError(f"{where}, with the constants put in: {error}; correct it") from None

    def _use(self, i: int, derivatives: bool = False) -> None:
        """Remove an equation if it is trivial by now."""
        form, graph = self.forms[i], self.graph
        if not self.live[i] or form is None:
            return
        terms: dict[tuple[int, int], Fraction] = {}
        rest = form[1]
        for (j, shift), factor in form[0].items():
            top, scale, order, offset = self._told(j)
            if scale:
                key = top, order + shift
                terms[key] = terms.get(key, Fraction(0)) + factor * scale
            if not shift:
                rest = self._sum([(factor, offset)], rest)
        terms = {key: factor for key, factor in terms.items() if factor}
        if not terms:
            raise self._refused(i, graph.is_zero(rest))
        if len(terms) > 2 or graph.mark[rest] & MOVING:
            return
        plain = [top for top, order in terms if order == 0]
        if not plain or len({top for top, _ in terms}) < len(terms):
            return
        if len(plain) < len(terms) and not derivatives:
            self.later[i] = None
            return
        self.live[i] = False
        self.used[i] = len(terms) == 1
        goes = min(plain, key=lambda top: len(self.members[top]))
        factor = terms.pop((goes, 0))
        offset = graph.mul(graph.constant(-1 / factor), rest)
        changed = self.members[goes]
        if terms:
            ((stays, order), other), *_ = terms.items()
            self.up[goes] = Relation(stays, -other / factor, order, offset)
            self.members[stays].extend(changed)
            self.members[goes] = []
        else:
            self.known[goes] = offset
        for other_one in changed:
            if not self.live[other_one]:
                continue
            if self.forms[other_one] is None:
                self.touched.add(other_one)
            else:
                self.queue.append(other_one)

    # Unknowns

    def _top(self, j: int) -> Relation:
        """An unknown by the top of its class; the way up is shortened."""
        path: list[int] = []
        while self.up[j].of != j:
            path.append(j)
            j = self.up[j].of
        for below in reversed(path[:-1]):
            self.up[below] = self._chained(self.up[below], self.up[self.up[below].of])
        return self.up[path[0]] if path else self.up[j]

    def _chained(self, first: Relation, second: Relation) -> Relation:
        offset = first.offset
        if first.order == 0:
            offset = self._sum([(first.factor, second.offset)], offset)
        return Relation(second.of, first.factor * second.factor, first.order + second.order, offset)

    def _told(self, j: int) -> Relation:
        """An unknown by the top of its class, or as a constant."""
        found = self._top(j)
        if found.of in self.known:
            constant = Relation(found.of, Fraction(0), 0, self.known[found.of])
            return self._chained(found, constant)._replace(order=0)
        return found

    def _refused(self, i: int, redundant: bool) -> InputError:
        names = self.model.equation_names
        others = [names[k] for k in self._behind(i)]
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        unknowns = ", ".join(self.model.names[j] for j in self.written[i][:5])
        where = f"{names[i]} of model {self.model.name} ({unknowns})"
        if not others:
            return InputError(f"{where} has no unknown that it could tell; remove it")
        if redundant:
            return InputError(f"{where} says again what follows from {shown}; remove one of them")
        return InputError(f"{where} contradicts {shown}; correct one of them")

    def _behind(self, i: int) -> list[int]:
        """The removed equations from which follows what is known of the unknowns of an equation."""
        order = list(self.used)
        place = {k: number for number, k in enumerate(order)}
        found: set[int] = set()
        work = [i]
        while work:
            k = work.pop()
            # What was trivial as it is written follows from nothing else.
            if k == i or len(self.written[k]) != (1 if self.used[k] else 2):
                new = self._between(self.written[k], order[: place.get(k, len(order))]) - found
                found |= new
                work.extend(new)
        return sorted(found)

    def _between(self, unknowns: Sequence[int], equations: Sequence[int]) -> set[int]:
        """Those of some removed equations by which unknowns tell each other or are constants."""
        at: dict[int, list[int]] = {}
        for k in equations:
            for j in self._ends(k):
                at.setdefault(j, []).append(k)
        goals = list(unknowns)
        if any(not self._told(j).factor for j in unknowns):
            goals.insert(0, _NOWHERE)
        came: dict[int, tuple[int, int] | None] = {}
        for goal in goals:
            if goal in came:
                continue
            came[goal] = None
            line = deque([goal])
            while line:
                j = line.popleft()
                for k in at.get(j, ()):
                    for other in self._ends(k):
                        if other not in came:
                            came[other] = k, j
                            line.append(other)
        found: set[int] = set()
        for goal in goals:
            step = came.get(goal)
            while step is not None:
                found.add(step[0])
                step = came[step[1]]
        return found

    def _ends(self, k: int) -> list[int]:
        return [*self.written[k], _NOWHERE] if self.used[k] else self.written[k]

    # The result

    def _final(self) -> list[Relation]:
        """Every unknown by the one of its class that is kept."""
        found = [self._told(j) for j in range(len(self.up))]
        unknowns = list(self.model.variables_by_name.values())
        best: dict[int, int] = {}

        def rank(j: int) -> tuple[bool, bool, bool, int, int]:
            v = unknowns[j]
            return not self.orders[j], not v.fixed, not v.start, len(v.name), j

        for j, (top, factor, order, _) in enumerate(found):
            if factor and not order and (top not in best or rank(j) < rank(best[top])):
                best[top] = j
        final = []
        for relation in found:
            if relation.factor:
                kept = best[relation.of]
                scale, shift = found[kept].factor, found[kept].offset
                back = Relation(kept, 1 / scale, 0, self._sum([(-1 / scale, shift)], self.graph.zero))
                relation = self._chained(relation, back)
            final.append(relation)
        return final

    def result(self) -> Simplified:
        model, final = self.model, self._final()
        made = Model(
            model.name, title=model.title, interval=model.interval, dt=model.dt, reference=model.reference
        )
        starts = _Starts(model, final)
        for j, variable in enumerate(model.variables_by_name.values()):
            if final[j].of == j and final[j].factor:
                low, high = starts.bounds(j)
                made.variable(variable.name, unit=variable.unit, minimum=low, maximum=high)
                for order, (value, fixed) in sorted(starts.of(j).items()):
                    made.start(Unknown(variable.name, order), value, fixed=fixed)
        for parameter in model.parameters_by_name.values():
            made.parameter(parameter.name, parameter.value, unit=parameter.unit)
        for i in (i for i, alive in enumerate(self.live) if alive):
            root = self._put(i, final.__getitem__)
            same = root == model.roots[i]
            expression = model.expressions[i] if same else model.sympy([root])[0]
            made.equation(expression, name=model.equation_names[i])
        offsets = model.sympy([relation.offset for relation in final])
        removed = {}
        for j, (name, relation) in enumerate(zip(model.names, final, strict=True)):
            if not relation.factor:
                removed[name] = Removed(name, None, 0, Fraction(0), offsets[j])
            elif relation.of != j:
                kept = model.names[relation.of]
                removed[name] = Removed(name, kept, relation.order, relation.factor, offsets[j])
        gone = [name for name, alive in zip(model.equation_names, self.live, strict=True) if not alive]
        return Simplified(model, made, removed, tuple(gone))


class _Starts:
    """Start values and bounds of unknowns, moved to the unknowns that are kept."""

    def __init__(self, model: Model, final: Sequence[Relation]) -> None:
        self.model, self.final = model, final
        self.found: dict[int, dict[int, tuple[float, bool, str]]] = {}
        self.limits: dict[int, tuple[tuple[float, str] | None, tuple[float, str] | None]] = {}
        for j, relation in enumerate(final):
            self._move(j, relation)
        for j, relation in enumerate(final):
            if relation.factor and not relation.order:
                self._bound(j, relation)

    def of(self, j: int) -> dict[int, tuple[float, bool]]:
        """Values by the orders of derivatives, and whether they are fixed."""
        return {order: (value, fixed) for order, (value, fixed, _) in self.found.get(j, {}).items()}

    def bounds(self, j: int) -> tuple[float | None, float | None]:
        """Lower and upper bound."""
        low, high = self.limits.get(j, (None, None))
        return (None if low is None else low[0]), (None if high is None else high[0])

    def _move(self, j: int, relation: Relation) -> None:
        variable = self._variable(j)
        for order, value in variable.start.items():
            fixed, name = order in variable.fixed, name_of(variable.name, order)
            offset = 0.0 if order else self._offset(relation.offset, fixed)
            if offset is None:
                continue
            if not relation.factor:
                if fixed and not _agree(value, offset):
                    raise InputError(
                        f"model {self.model.name} fixes the start of {name} at {value:.10g}, but its "
                        f"equations say {name} = {offset:.10g}; drop fixed or correct the start"
                    )
                continue
            here = (value - offset) / float(relation.factor), fixed, name
            self._enter(relation.of, order + relation.order, here, own=relation.of == j)

    def _enter(self, kept: int, order: int, new: tuple[float, bool, str], own: bool) -> None:
        column = self.found.setdefault(kept, {})
        old = column.get(order)
        if old is not None and old[1] and new[1] and not _agree(old[0], new[0]):
            what = name_of(self.model.names[kept], order)
            raise InputError(
                f"model {self.model.name} fixes the starts of {old[2]} and {new[2]}, which contradict each "
                f"other: {what} = {old[0]:.10g} and {new[0]:.10g}; drop fixed for one"
            )
        if old is None or (new[1], own) > (old[1], False):
            column[order] = new

    def _bound(self, j: int, relation: Relation) -> None:
        variable, scale = self._variable(j), float(relation.factor)
        offset = self._offset(relation.offset, False)
        if offset is None:
            return
        ends = (variable.minimum, variable.maximum)
        moved = [None if end is None else ((end - offset) / scale, variable.name) for end in ends]
        if scale < 0:
            moved.reverse()
        low, high = self.limits.get(relation.of, (None, None))
        lows = [end for end in (low, moved[0]) if end is not None]
        highs = [end for end in (high, moved[1]) if end is not None]
        low, high = max(lows, default=None), min(highs, default=None)
        if low is not None and high is not None and low[0] > high[0]:
            raise InputError(
                f"model {self.model.name} has bounds of {low[1]} and {high[1]} that no value of "
                f"{self.model.names[relation.of]} satisfies; correct one"
            )
        self.limits[relation.of] = low, high

    def _variable(self, j: int) -> Any:
        return self.model.variables_by_name[self.model.names[j]]

    def _offset(self, node: int, needed: bool) -> float | None:
        """The value of a constant; None if it has parameters without values, and is not needed."""
        graph, model = self.model.graph, self.model
        parameters = list(model.parameters_by_name.values())
        if not needed and any(parameters[leaf.index].value is None for leaf in graph.leaves_of(node)):
            return None
        return float(graph.numeric([node], lambda leaf: parameters[leaf.index].required(model.name))[0])


def _agree(a: float, b: float) -> bool:
    return abs(a - b) <= _SAME * max(1.0, abs(a), abs(b))


def _number(expression: Any, numbers: Mapping[str, float | None], model: str) -> float:
    """The value of an expression of parameters."""
    given = {}
    for symbol in expression.free_symbols:
        value = numbers[symbol.name]
        if value is None:
            raise InputError(f"parameter {symbol.name} of model {model} has no value; give it one")
        given[symbol] = value
    return float(expression.subs(given))
