"""Equations and their derivatives along curves: Taylor coefficients, and points at which they vanish."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import perm
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sparse

from dae_sdc.deadline import check
from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import Leaf, Op
from dae_sdc.expressions.graph import Input, Program
from dae_sdc.structure.rank import LinearRows
from dae_sdc.structure.series import (
    RULES,
    Arithmetic,
    Floats,
    NoValueError,
    RealArithmetic,
    Recorder,
    Series,
    Slots,
    doubles,
    many_digits,
)
from dae_sdc.structure.signature import Integers

if TYPE_CHECKING:
    from dae_sdc.expressions.arithmetic import Expressions
    from dae_sdc.expressions.graph import Graph


# Partial derivatives of an expression by x_j^(k), with the keys (j, k).
Partials: TypeAlias = dict[tuple[int, int], Series]
RANDOM_POINTS = 5  # Number of random points that are tried for one at which all square roots exist.
# Coefficients that Python's numbers have computed when a compiled program takes over.
MOST_BY_PYTHON = 20_000


class Tape:
    """Expressions in an order in which they are evaluated along a curve."""

    def __init__(self, graph: Expressions, roots: Sequence[int]) -> None:
        place: dict[int, int] = {}
        self._numbers: list[tuple[int, Any, int]] = []
        self.steps: list[tuple[int, Op, tuple[int, ...], int]] = []
        self.leaves: list[Leaf] = []
        self._leaf_places: list[int] = []
        for node in graph.below(roots):
            number, leaf = graph.numbers.get(node), graph.leaves.get(node)
            at = place[node] = len(self._numbers) + len(self.steps) + len(self.leaves)
            if number is not None:
                self._numbers.append((at, number, graph.value[node]))
            elif leaf is None:
                operands = tuple(place[arg] for arg in graph.operands(node))
                op = graph.op[node]
                self.steps.append((at, op, operands, graph.args[node][1] if op is Op.INTPOW else 0))
            else:
                self.leaves.append(leaf)
                self._leaf_places.append(at)
        self._size = len(self._numbers) + len(self.steps) + len(self.leaves)
        self._roots = [place[node] for node in roots]

    def evaluate(self, ring: Arithmetic, leaf: Callable[[Leaf], Series]) -> list[Series | None]:
        """Taylor series of the expressions along a curve."""
        found: list[Series | None] = [None] * self._size
        for at, *number in self._numbers:
            found[at] = [ring.number(*number)]
        for at, source in zip(self._leaf_places, self.leaves, strict=True):
            found[at] = leaf(source)
        for at, op, operands, exponent in self.steps:
            found[at] = _applied(ring, op, exponent, [found[arg] for arg in operands])
        return [found[at] for at in self._roots]

    def program(self, recorder: Recorder, leaf: Callable[[Leaf], list[Any]]) -> Program:
        """A program of all Taylor coefficients of the expressions, by their powers and numbers."""
        places = np.full((recorder.order + 1, self._size), recorder.place(0.0))
        level, moving = [0] * self._size, [False] * self._size
        for at, *number in self._numbers:
            places[0, at] = recorder.place(recorder.number(*number))
        for at, source in zip(self._leaf_places, self.leaves, strict=True):
            moving[at] = source.kind != "p"
            for k, coefficient in enumerate(leaf(source)):
                places[k, [at]] = recorder.place(coefficient)
        # Steps with the same operation that do not depend on each other are recorded together.
        groups: defaultdict[tuple[int, Op, int, tuple[bool, ...]], list[tuple[int, ...]]] = defaultdict(list)
        for at, op, operands, exponent in self.steps:
            moves = tuple(moving[arg] for arg in operands)
            level[at], moving[at] = 1 + max((level[arg] for arg in operands), default=0), any(moves)
            groups[level[at], op, exponent, moves].append((at, *operands))
        for (_, op, exponent, moves), steps in sorted(groups.items()):
            results, *args = np.array(steps).T
            series: list[Any] = [
                [Slots(recorder, row) for row in places[: None if is_moving else 1, arg]]
                for arg, is_moving in zip(args, moves, strict=True)
            ]
            result: list[Any] = RULES[op](recorder, *series, *[exponent] * (op is Op.INTPOW))
            if op is Op.SQRT and len(series[0]) == 1:
                result[0] = recorder.emit(Op.SELECT, series[0][0], result[0], 0.0)
            for k, coefficient in enumerate(result):
                places[k, results] = recorder.place(coefficient)
        return recorder.program(places[:, self._roots].ravel())


def _applied(ring: Arithmetic, op: Op, exponent: int, operands: list[Series | None]) -> Series | None:
    if op is Op.SELECT and ring.takes_branches and operands[0] is not None:
        return operands[1] if operands[0][0] else operands[2]  # the branch not taken may have no value
    known: list[Any] = [series for series in operands if series is not None]
    if len(known) < len(operands):
        return None
    if op is Op.SQRT and ring.takes_branches and known[0] == [0]:
        return list(known[0])
    if op is Op.INTPOW:
        known.append(exponent)
    try:
        return RULES[op](ring, *known)
    except (ArithmeticError, ValueError):
        return None


def evaluate(graph: Graph, roots: Iterable[int], order: int) -> list[tuple[Series, Partials]]:
    """Values and derivatives of expressions along a random curve of a finite field, t = t_0 + h."""
    nodes = list(roots)
    slopes = [(i, *item) for i, node in enumerate(nodes) for item in graph.slopes(node).items()]
    tape = Tape(graph, [*nodes, *(slope for _, _, slope in slopes)])
    points = (Arithmetic(order, point, exact_roots=True) for point in range(RANDOM_POINTS))
    # If all random points fail, square roots that the field lacks are those of constant multiples.
    for ring in (*points, Arithmetic(order)):
        found = [series for series in tape.evaluate(ring, ring.leaf) if series is not None]
        if len(found) == len(nodes) + len(slopes):
            break
    else:
        raise NoValueError
    partials: list[Partials] = [{} for _ in nodes]
    for (i, jet, _), series in zip(slopes, found[len(nodes) :], strict=True):
        partials[i][jet] = series
    return list(zip(found[: len(nodes)], partials, strict=True))


Jet = tuple[int, int]  # An unknown and the order of a derivative.


# Unit of steps of unknowns, relative to that of derivatives, which are less well known.
STEP_OF_UNKNOWNS = 0.1
# Singular value, relative to the largest, of the scaled rows that counts as 0 in a step.
DEPENDENT_ROW = 1e-11
# Largest number of entries of a Jacobian that is decomposed by singular values.
LARGEST_DENSE_JACOBIAN = 100_000


class Prolongation:
    r"""Equations and their derivatives, in Taylor coefficients of the unknowns.

    Row (i, m) is :math:`f_i^{(m)} / m!`, column (j, k) is :math:`x_j^{(k)} / k!` in units of its own.
    """

    def __init__(
        self,
        graph: Any,
        roots: Sequence[int],
        times: Sequence[int],
        highest: Sequence[int],
        unit: Callable[[Jet], float],
    ) -> None:
        self.graph, self.times, self.highest, self._every = graph, list(times), list(highest), list(roots)
        self.order = max(0, *self.times)
        self.columns = [(j, k) for j, top in enumerate(highest) for k in range(top + 1)]
        self._unit = unit
        self.units: Floats = np.array([unit(jet) for jet in self.columns])
        self.place = {jet: at for at, jet in enumerate(self.columns)}
        self._own = [i for i, most in enumerate(self.times) if most >= 0]
        self._roots = [roots[i] for i in self._own]
        self.rows = [(i, m) for i in self._own for m in range(self.times[i] + 1)]
        self._slopes = [
            (i, j, k, node)
            for i, root in zip(self._own, self._roots, strict=True)
            for (j, k), node in graph.slopes(root).items()
        ]

    def scales(self, pace: float) -> Floats:
        """Units of steps of the Taylor coefficients, for unknowns that change in ``pace`` units of time."""
        # Steps change derivatives, of which little is known, rather than the unknowns themselves.
        steps = [STEP_OF_UNKNOWNS if k == 0 else pace**-k for _, k in self.columns]
        return np.asarray(self.units * np.array(steps))

    def least_squares(self, matrix: Any, scales: Floats) -> LinearRows:
        """Solver for rows of :meth:`matrix`, whose steps are of minimum norm in units of ``scales``."""
        return LinearRows(matrix, DEPENDENT_ROW, diagonal_shift=1e-12, scales=scales)

    def lowered(self, by: int, unit: Callable[[Jet], float] | None = None) -> Prolongation:
        """The prolongation with every equation differentiated ``by`` times less, perhaps in other units."""
        highest = [max(0, top - by) for top in self.highest]
        times = [most - by for most in self.times]
        return Prolongation(self.graph, self._every, times, highest, unit or self._unit)

    def leaf_series(self, x: Sequence[Any], t: Any, p: Sequence[Any], order: int) -> Callable[[Leaf], Series]:
        """Function from a leaf to its Taylor series, for Taylor coefficients x that are 0 beyond the last."""

        def series(leaf: Leaf) -> Series:
            if leaf.kind == "t":
                return [t, 1] if order else [t]
            if leaf.kind == "p":
                # Parameters without a value get general ones, for which no expression vanishes by chance.
                return [p[leaf.index] if leaf.index < len(p) else t * 0 + 0.7 + 0.013 * leaf.index]
            j, k = leaf.index, leaf.order
            found: list[Any] = [
                x[self.place[j, k + m]] * perm(k + m, k) for m in range(order + 1) if (j, k + m) in self.place
            ]
            return found or [0]

        return series

    def residual(self, point: Point, x: Any, context: Any = None) -> Any:
        """All rows at Taylor coefficients x, in doubles or a context; None where one has no value."""
        coefficients = self._curves.coefficients(point, x, context)
        return None if coefficients is None else coefficients[self._places]

    def matrix(self, point: Point, x: Floats) -> tuple[Floats, Any] | None:
        """All rows, and their Jacobian matrix, at Taylor coefficients x; None where one is not finite."""
        linearized = self.linearized(point, x)
        if linearized is None:
            return None
        residual, rows, columns, entries = linearized
        if not (np.isfinite(entries).all() and np.isfinite(residual).all()):
            return None
        shape = (len(self.rows), len(self.columns))
        matrix = sparse.coo_matrix((entries, (rows, columns)), shape=shape)
        large = shape[0] * shape[1] > LARGEST_DENSE_JACOBIAN
        return residual, matrix.tocsr() if large else matrix.toarray()

    def linearized(
        self, point: Point, x: Any, context: Any = None
    ) -> tuple[Any, Integers, Integers, Any] | None:
        """All rows, and places and terms of the entries of their Jacobian; None where one has no value."""
        coefficients = self._whole_curves.coefficients(point, x, context)
        if coefficients is None:
            return None
        rows, columns, powers, slopes, factors = self._pattern
        return coefficients[self._places], rows, columns, coefficients[powers, slopes] * factors

    @cached_property
    def _places(self) -> tuple[Integers, Integers]:
        """Power and number of the root of each row."""
        number = {i: at for at, i in enumerate(self._own)}
        places = np.array([(m, number[i]) for i, m in self.rows], dtype=np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1]

    @cached_property
    def _pattern(self) -> tuple[Integers, Integers, Integers, Integers, Floats]:
        """Row, column, power, number of the root, and factor of each entry of the Jacobian matrix."""
        first = {i: at for at, (i, m) in enumerate(self.rows) if m == 0}
        entries = [
            ((first[i] + m, self.place[j, q + r], m - r, at), float(perm(q + r, q)))
            for at, (i, j, q, _) in enumerate(self._slopes, len(self._roots))
            for m in range(self.times[i] + 1)
            for r in range(m + 1)
            if (j, q + r) in self.place
        ]
        table = np.array([places for places, _ in entries], dtype=np.int64).reshape(-1, 4)
        return *table.T, np.array([factor for _, factor in entries])

    @cached_property
    def _curves(self) -> _Curves:
        return _Curves(self, self._roots)

    @cached_property
    def _whole_curves(self) -> _Curves:
        return _Curves(self, [*self._roots, *(node for *_, node in self._slopes)])


class _Curves:
    """Taylor series of expressions at Taylor coefficients of the unknowns of a prolongation."""

    def __init__(self, system: Prolongation, nodes: Sequence[int]) -> None:
        self._system, self._nodes, self._tape = system, tuple(nodes), Tape(system.graph, nodes)
        self._work = 0

    def series(
        self, point: Point, x: Sequence[Any], context: Any, order: int | None = None
    ) -> list[Series] | None:
        """The series of the expressions at Taylor coefficients x; None where one has no value."""
        order = self._system.order if order is None else order
        leaves = self._system.leaf_series(x, context.mpf(point.t), [context.mpf(v) for v in point.p], order)
        found = self._tape.evaluate(RealArithmetic(order, context), leaves)
        known = [series for series in found if series is not None]
        return known if len(known) == len(found) else None

    def coefficients(self, point: Point, x: Any, context: Any = None) -> Any:
        """Coefficients, shape (order + 1, nodes), in doubles or a context; None where one has no value."""
        check()
        order = self._system.order
        self._work += (order + 1) * len(self._tape.steps)
        if context is None and self._work > MOST_BY_PYTHON:
            table = self._compiled(len(point.p)).at(point.t, x, point.p).reshape(order + 1, -1)
            return None if np.isnan(table).any() else table
        series = self.series(point, x.tolist() if context is None else x, context or doubles())
        if series is None:
            return None
        kind: Any = np.float64 if context is None else np.object_
        table = np.zeros((order + 1, len(series)), dtype=kind)
        for at, one in enumerate(series):
            table[: len(one), at] = one
        return table

    def _compiled(self, parameters: int) -> Compiled:
        """The coefficients as a function of time, Taylor coefficients of the unknowns, and parameters."""
        system, known = self._system, self._system.graph.remembered
        key = "curves", self._nodes, system.order, tuple(system.columns), parameters
        if key not in known:
            count = len(system.columns)
            inputs = [Input("t"), *(Input("u", j) for j in range(count))]
            inputs += [Input("p", i) for i in range(parameters)]
            recorder = Recorder(system.order, inputs)
            t, *x = recorder.inputs
            leaves = system.leaf_series(x[:count], t, x[count:], recorder.order)
            known[key] = compile_program(self._tape.program(recorder, leaves), "residual", "tape")
        compiled: Compiled = known[key]
        return compiled


@dataclass(eq=False)
class Point:
    """A point at which the rows of a prolongation vanish."""

    system: Prolongation  # The prolongation.
    x: Floats  # Shape (columns,). Taylor coefficients.
    t: float  # Time.
    p: Sequence[float]  # Parameters.
    pace: float = 1.0  # Units of time in which unknowns were taken to change when the point was found.

    @cached_property
    def digits(self) -> tuple[Any, list[Any]] | None:
        """Context of arithmetic with many digits, and x refined in it; None if the iteration fails."""
        context = many_digits()
        system = self.system
        made = system.matrix(self, self.x)
        if made is None:
            return None
        least = system.least_squares(made[1], system.scales(self.pace))
        x = [context.mpf(value) for value in self.x]
        goal = context.mpf(10) ** (10 - context.dps)
        size = 1 + float(np.max(np.abs(self.x) / system.units, initial=0.0))
        last = context.inf
        for _ in range(40):
            residual = system.residual(self, x, context)
            if residual is None:
                return None
            sizes = zip(residual, least.sizes.tolist(), strict=True)
            largest = max((abs(value) / size for value, size in sizes), default=context.mpf(0))
            if largest <= goal * size:
                return context, x
            if not largest < last:
                return None
            last = largest
            step = least.solve(np.array([-float(value / largest) for value in residual])).tolist()
            x = [value + largest * context.mpf(change) for value, change in zip(x, step, strict=True)]
        return None

    def evaluate(self, nodes: Sequence[int], exact: bool = False) -> list[Any] | None:
        """Values of expressions, in doubles or, if ``exact``, with many digits; None where one has none."""
        place = self.digits if exact else (doubles(), self.x.tolist())
        if place is None:
            return None
        context, x = place
        found = _Curves(self.system, nodes).series(self, x, context, order=0)
        return None if found is None else [series[0] for series in found]
