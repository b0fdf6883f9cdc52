"""Jumps of the equations of a model: comparisons, signs and floors on which their values depend."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np

from dae_sdc.dae.branches import EPS, changes, samples
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import COMPARISONS, MOVING, STEPS, TIME, Leaf, Op
from dae_sdc.expressions.graph import Graph, Input, Program

MOST_TIMES: Final = 1_000_000  # Times in a run at which conditions of time alone change.
BORDER_POINTS: Final = 64  # Number of points of a border at which the two branches are compared.
BORDER_DISTANCE: Final = 1e-2  # Distance from a border, over 1 + abs(u), with the usual size of branches.
BISECTIONS: Final = 60  # Halvings of a line on which a condition changes.
BRANCH_TOLERANCE: Final = 1e-9  # Relative difference of two branches up to which there is no jump.
MOST_KINKS: Final = 100  # Kinks, as of a long table, above which they are left to the step size.
MINUTE: Final = 1e-30  # Numbers below it are beside usual ones what 0 is.
KINKS_FREE: Final = 0.5  # The flag of :class:`Sided` with which kinks are evaluated and jumps held.
# Operations that are not defined for all operands, or grow beyond all bounds with them.
_PARTIAL: Final = frozenset(
    {Op.POW, Op.SQRT, Op.LOG, Op.ASIN, Op.ACOS, Op.ACOSH, Op.ATANH, Op.EXP, Op.SINH, Op.COSH}
)


class Jump(NamedTuple):
    """A comparison, a sign or a floor, at whose border an equation jumps or has a kink."""

    node: int  # The comparison a < b or a <= b, sign(a) or floor(a), in the graph.
    border: int  # Expression whose zeros are the border; a itself for a floor.
    # Value of ``node`` where the border expression is negative, zero and positive; NaN for a floor.
    values: tuple[float, float, float]
    is_kink: bool = False  # Both branches agree at the border, so that it need not be held,
    passes: bool = False  # and is not, as a branch may not be defined on the other side.


def jumps_of(
    graph: Graph,
    roots: Sequence[int],
    parameter: Callable[[int], float],
    follows: Callable[[Leaf], bool],
    guards: Container[int],
    unsure: bool = True,
) -> list[Jump]:
    """The jumps and kinks of expressions as functions of time and of a state, inner ones first."""
    # A choice whose two branches agree where its comparison changes has a kink, which counts as a jump within
    # the border of a jump. One that keeps an operation from what this has no value for is evaluated.
    outer, kinks, passed = {node for node in roots if graph.op[node] in COMPARISONS}, set[int](), list[int]()
    for node in graph.below(roots):
        op, operands = graph.op[node], graph.operands(node)
        if op in (Op.SIGN, Op.FLOOR):
            outer.add(node)
        if op in _WITH_KINKS and node in guards:
            passed.append(_first_taken(graph, op, operands))
        for at, operand in enumerate(operands):
            chooses = op is Op.SELECT and at == 0
            if graph.op[operand] not in COMPARISONS or (chooses and _is_minute(graph, operand)):
                continue
            agree = _agree(graph, operand, operands[1], operands[2], parameter, unsure) if chooses else False
            if not (agree or (agree is None and not unsure)):
                outer.add(operand)
            elif node in guards or any(graph.op[each] in _PARTIAL for each in graph.below(operands, MOVING)):
                passed.append(operand)
            else:
                kinks.add(operand)
    if len(kinks) + len(passed) > MOST_KINKS:
        kinks, passed = set(), []
    held = set(graph.below(sorted(outer), MOVING))
    nodes = [node for node in graph.below(sorted(outer | kinks), MOVING) if graph.op[node] in STEPS]
    nodes += [node for node in dict.fromkeys(passed) if node not in {*nodes} and graph.mark[node] & MOVING]
    return [
        _jump(graph, node)._replace(is_kink=node not in held, passes=node in passed and node not in held)
        for node in nodes
        if all(follows(leaf) for leaf in graph.leaves_of(node))
    ]


def _is_minute(graph: Graph, comparison: int) -> bool:
    """Whether a number is compared that is not told from 0 beside usual ones, as in |x| < 1e-60."""
    numbers = [graph.numbers.get(part, "") for part in graph.operands(comparison)]
    return any(not isinstance(number, str) and 0.0 < abs(float(number)) < MINUTE for number in numbers)


def _jump(graph: Graph, node: int) -> Jump:
    a, *others = graph.args[node]
    if graph.op[node] is Op.FLOOR:
        return Jump(node, a, (np.nan,) * 3)
    if graph.op[node] is Op.SIGN:
        return Jump(node, a, (-1.0, 0.0, 1.0))
    if graph.op[node] is Op.LE:
        return Jump(node, graph.sub(others[0], a), (0.0, 1.0, 1.0))
    return Jump(node, graph.sub(a, others[0]), (1.0, 0.0, 0.0))


_WITH_KINKS: Final = frozenset({Op.MIN, Op.MAX, Op.ABS})


def guards_of(graph: Graph, roots: Sequence[int]) -> set[int]:
    """The nodes that keep operations from operands that these have no value for."""
    inside = []
    for node in graph.below(roots, MOVING):
        op, operands = graph.op[node], graph.operands(node)
        if op in _PARTIAL or (op is Op.INTPOW and graph.args[node][1] < 0):
            inside.append(operands[0])
        elif op is Op.DIV:
            inside.append(operands[1])
    return set(graph.below(inside, MOVING))


def _first_taken(graph: Graph, op: Op, operands: Sequence[int]) -> int:
    """The comparison that holds where an extreme is its first operand, or an absolute value its operand."""
    first, second = operands if len(operands) > 1 else (*operands, graph.zero)
    return graph.call(Op.LE, *((first, second) if op is Op.MIN else (second, first)))


def with_choices(
    graph: Graph, roots: Sequence[int], follows: Callable[[Leaf], bool], guards: Container[int]
) -> tuple[list[int], dict[int, int]]:
    """Expressions with choices for extremes and absolute values that go on beyond kinks; the way back."""
    put: dict[int, int] = {}
    for node in graph.below(roots, MOVING):
        has_kink = graph.op[node] in _WITH_KINKS and node not in guards
        if has_kink and all(follows(leaf) for leaf in graph.leaves_of(node)):
            operands = graph.substitute(graph.operands(node), put)
            first = _first_taken(graph, graph.op[node], operands)
            other = operands[1] if len(operands) > 1 else graph.neg(operands[0])
            put[node] = graph.call(Op.SELECT, first, operands[0], other)
    return graph.substitute(roots, put), {choice: node for node, choice in put.items()}


class Sided(NamedTuple):
    """Equations in which jumps have values that a step holds."""

    # Their graph. Its parameters are those of the model, a flag (1: jumps are evaluated, :data:`KINKS_FREE`:
    # kinks are, 0: they have given values), and the values of the jumps.
    graph: Graph
    roots: list[int]  # The equations.
    jumps: list[Jump] = []  # Those whose values a step holds; all others follow from them.
    # borders, arguments: for each jump the continuous function at whose zeros it changes while inner jumps
    # are held, and for a floor what it is taken of (else 0).
    borders: list[int] = []
    arguments: list[int] = []
    timed: list[bool] = []  # For each jump whether it depends on time alone.
    # For each jump whether its border is a polynomial of degree one in time while inner jumps are held.
    affine: list[bool] = []


def with_held_jumps(graph: Graph, roots: Sequence[int], jumps: Sequence[Jump], parameters: int) -> Sided:
    """Equations with the values of their jumps as parameters, behind those that the model has."""
    graph = graph.copy()  # the sides are no parameters of the model
    free = graph.parameter(parameters)
    held: dict[int, int] = {}
    numbers: dict[int, int] = {}
    kept: list[Jump] = []
    borders, arguments, timed, affine = [], [], [], []
    for jump in jumps:
        (fixed,) = graph.substitute([jump.border], numbers)
        if not graph.mark[fixed] & MOVING:
            continue  # constant while inner jumps are held
        held_value = graph.parameter(parameters + 1 + len(kept))
        (inside,) = graph.substitute([jump.border], held)
        evaluates = free if jump.is_kink else graph.call(Op.LE, graph.one, free)
        if not jump.passes:
            numbers[jump.node] = held_value
            held[jump.node] = graph.call(Op.SELECT, evaluates, jump.node, held_value)
        kept.append(jump)
        timed.append(all(leaf.kind in "tp" for leaf in graph.leaves_of(jump.node)))
        affine.append(timed[-1] and not graph.mark[graph.differentiate(fixed, graph.time())] & TIME)
        level = graph.op[jump.node] is Op.FLOOR
        borders.append(_within_level(graph, inside, held[jump.node]) if level else inside)
        arguments.append(inside if level else graph.zero)
    return Sided(graph, graph.substitute(roots, held), kept, borders, arguments, timed, affine)


def _within_level(graph: Graph, x: int, level: int) -> int:
    """A function of x that vanishes at the ends of [level, level + 1], positive inside if level is even."""
    half = graph.mul(graph.constant(2), graph.call(Op.FLOOR, graph.div(level, graph.constant(2))))
    sign = graph.sub(graph.one, graph.mul(graph.constant(2), graph.sub(level, half)))
    below, above = graph.sub(x, level), graph.sub(graph.add(level, graph.one), x)
    return graph.mul(sign, below, above)


@dataclass(frozen=True)
class Jumps:
    """The jumps of equations as programs."""

    # Shape (J, 3). Value of each jump where its border is negative, zero and positive; NaN for floors.
    values: Vector
    names: tuple[str, ...]  # The jumps as text, for messages.
    watched: Any  # Shape (W,). Those that depend on the state.
    levels: Any  # Shape (L,). The floors among the watched ones, as places in ``watched``.
    borders: Program  # Borders of the watched jumps, and arguments of the floors among them.
    timed: Any  # Shape (T,). Those that depend on time alone.
    affine: Any  # Shape (T,). Whether the border of a timed jump is of degree one in time.
    timetable: Program | None  # Borders of the timed jumps (arguments of floors), and values of these jumps.
    jumps: tuple[Jump, ...]  # The jumps themselves, in the graph of the model.

    @cached_property
    def compiled(self) -> Compiled:
        """The borders as a C function with the signature of a residual."""
        return compile_program(self.borders, "residual")

    @property
    def watched_names(self) -> tuple[str, ...]:
        """Names of the jumps that depend on the state."""
        return tuple(self.names[i] for i in self.watched)

    def timed_values(self, parameters: Vector, times: Vector) -> Vector:
        """Borders and values of the timed jumps, shape (2 T, K)."""
        assert self.timetable is not None
        inputs = np.empty((len(self.timetable.inputs), len(times)))
        for row, source in zip(inputs, self.timetable.inputs, strict=True):
            row[:] = times if source.kind == "t" else parameters[source.index]
        return self.timetable.evaluate(inputs)


def jumps_as_programs(sided: Sided, names: Sequence[str], given: Callable[[Leaf], Input | None]) -> Jumps:
    """The programs of jumps that steps hold."""
    graph = sided.graph
    timed = np.flatnonzero(sided.timed)
    watched = np.flatnonzero(~np.array(sided.timed, dtype=bool))
    floors = [graph.op[jump.node] is Op.FLOOR for jump in sided.jumps]
    levels = np.array([place for place, i in enumerate(watched.tolist()) if floors[i]], dtype=np.intp)
    outputs = [sided.borders[i] for i in watched] + [sided.arguments[watched[place]] for place in levels]
    plain = [sided.jumps[i].border for i in timed] + [sided.jumps[i].node for i in timed]
    values, affine = np.array([jump.values for jump in sided.jumps]), np.array(sided.affine, dtype=bool)
    borders, timetable = graph.program(outputs, given), graph.program(plain, given) if timed.size else None
    parts = borders, timed, affine[timed], timetable, tuple(sided.jumps)
    return Jumps(values, tuple(names), watched, levels, *parts)


class Timetable:
    """The times in an interval at which jumps of time alone change, and their values in between."""

    # Shapes: times (K,), values (K + 1, T).

    def __init__(self, jumps: Jumps, parameters: Vector, t0: float, t_end: float) -> None:
        self.parameters, count = parameters, len(jumps.timed)
        self.t0, self.t_end = t0, t_end
        self.slack = 4.0 * EPS * max(abs(t0), abs(t_end))
        self.times = np.empty(0)

        def row(number: int, times: Vector) -> Vector:
            return np.asarray(jumps.timed_values(parameters, times)[number])

        for number in range(count):
            name = jumps.names[jumps.timed[number]]
            border, value = partial(row, number), partial(row, count + number)
            is_level = bool(np.isnan(jumps.values[jumps.timed[number], 0]))
            edges = np.concatenate([[t0], self.times, [t_end]])
            looked = self._looked_at(border, edges, is_level, bool(jumps.affine[number]), name)
            left, right = changes(value, looked)
            at_left = border(left) if left.size else left
            on_left = at_left == (np.round(at_left) if is_level else 0.0)
            times = np.where(on_left, left, right)
            times = np.unique(times[(times > self.t0 + self.slack) & (times < self.t_end - self.slack)])
            known = np.concatenate([[-np.inf], self.times, [np.inf]])
            place = np.searchsorted(known, times)
            new = times[np.minimum(times - known[place - 1], known[place] - times) > 2.0 * self.slack]
            new = new[np.diff(new, prepend=-np.inf) > 2.0 * self.slack]
            self.times = np.sort(np.concatenate([self.times, new]))
            if self.times.size > MOST_TIMES:
                raise self._too_many(name)
        edges = np.concatenate([[t0], self.times, [t_end]])
        self.values = jumps.timed_values(parameters, 0.5 * (edges[1:] + edges[:-1]))[count:].T

    def _looked_at(self, border: Any, edges: Vector, is_level: bool, affine: bool, name: str) -> Vector:
        """Times between which a jump changes at most once."""
        if not affine:
            function = (lambda times: np.sin(np.pi * border(times))) if is_level else border
            return self._beside(samples(function, edges, f"'{name}'")[0])
        width = np.diff(edges)
        a, b = edges[:-1] + 0.25 * width, edges[:-1] + 0.75 * width
        at_a, at_b = border(a), border(b)
        slope = (at_b - at_a) / (b - a)
        start = at_a - slope * (a - edges[:-1])
        with np.errstate(all="ignore"):
            if is_level:
                ends = np.sort([start, start + slope * width], axis=0)
                first, last = np.ceil(ends[0] - 0.5), np.floor(ends[1] + 0.5)
                many = np.where(np.isfinite(first + last) & (slope != 0.0), last - first + 1.0, 0.0)
                if many.sum() > MOST_TIMES:
                    raise self._too_many(name)
                many = np.maximum(many, 0.0).astype(np.intp)
                part = np.repeat(np.arange(len(many)), many)
                level = first[part] + np.arange(len(part)) - np.repeat(np.cumsum(many) - many, many)
                times = edges[:-1][part] + (level - start[part]) / slope[part]
            else:
                times = edges[:-1] - start / slope
        times = np.sort(times[(times > self.t0) & (times < self.t_end)])
        away = np.maximum(1e-9 * np.abs(times), 64.0 * self.slack)
        gaps = np.diff(np.concatenate([[self.t0], times, [self.t_end]]))
        away = np.minimum(away, 0.25 * np.minimum(gaps[:-1], gaps[1:]))
        return self._beside(np.concatenate([times - away, times + away, 0.5 * (edges[1:] + edges[:-1])]))

    def _beside(self, times: Vector) -> Vector:
        """Times, and those next to what is known already, where jumps change together."""
        near = 2.0 * self.slack
        ends = np.array([self.t0 + near, self.t_end - near])
        every = np.unique(np.concatenate([times, ends, self.times - near, self.times + near]))
        return every[(every > self.t0) & (every < self.t_end)]

    def _too_many(self, name: str) -> InputError:
        return InputError(
            f"'{name}' changes more than {MOST_TIMES} times between t={self.t0:.6g} and t={self.t_end:.6g}; "
            f"end the run earlier"
        )

    def covers(self, t0: float, t_end: float | None = None) -> bool:
        """Whether the interval has another one in it, or a step that begins at a time."""
        if t_end is None:
            return self.t0 - self.slack <= t0 and t0 + self.slack < self.t_end
        return self.t0 <= t0 and t_end <= self.t_end

    def between(self, t0: float, t_end: float) -> tuple[float, ...]:
        """The times strictly between two."""
        first, last = np.searchsorted(self.times, [t0, t_end], side="right")
        return tuple(t for t in self.times[first:last].tolist() if t0 < t < t_end)

    def at(self, t: float) -> Vector:
        """The values in a step that begins at a time, shape (T,)."""
        values: Vector = self.values[np.searchsorted(self.times, t + self.slack, side="right")]
        return values


def timetable_of(
    graph: Graph, roots: Sequence[int], parameters: Sequence[float], t0: float, t_end: float
) -> Timetable | None:
    """The times at which conditions of time alone change in equations; None where there is no condition."""
    guards = guards_of(graph, roots)
    jumps = jumps_of(graph, roots, lambda i: parameters[i], lambda leaf: leaf.kind in "tp", guards)
    if not jumps:
        return None
    sided = with_held_jumps(graph, roots, jumps, len(parameters))
    names = [f"condition {number}" for number in range(len(sided.jumps))]
    programs = jumps_as_programs(sided, names, lambda leaf: Input(leaf.kind, leaf.index))
    return Timetable(programs, np.array(parameters, dtype=np.float64), t0, t_end)


def _agree(
    graph: Graph, condition: int, first: int, second: int, parameter: Callable[[int], float], unsure: bool
) -> bool | None:
    """Whether two branches are equal at points of the border between them; None where no point is found."""
    a, b = graph.args[condition]
    gap, rng = graph.sub(a, b), np.random.default_rng(0)
    values: dict[Leaf, Vector] = {}

    def value(leaf: Leaf) -> Any:
        if leaf.kind == "p" and np.isfinite(parameter(leaf.index)):
            return np.full(BORDER_POINTS, parameter(leaf.index))
        if leaf not in values:
            signs = rng.choice([-1.0, 1.0], BORDER_POINTS)
            values[leaf] = signs * 10.0 ** rng.uniform(-3.0, 3.0, BORDER_POINTS)
        return values[leaf]

    for leaf in sorted(leaf for leaf in graph.leaves_of(gap) if leaf.kind != "p"):
        at = []
        for place in (0.0, 1.0, 2.0):
            values[leaf] = np.full(BORDER_POINTS, place)
            at.append(graph.numeric([gap], value)[0])
        slope = at[1] - at[0]
        with np.errstate(all="ignore"):
            if not np.allclose(at[2] - at[1], slope, rtol=1e-12) or not (slope != 0.0).all():
                del values[leaf]
                continue
            values[leaf] = -at[0] / slope
        left, right = graph.numeric([first, second], value)
        size = np.abs(left) + np.abs(right)
        if not unsure:  # branches that both vanish there differ by rounding alone
            values[leaf] = values[leaf] + BORDER_DISTANCE * (1.0 + np.abs(values[leaf]))
            size = size + sum(np.nan_to_num(np.abs(away)) for away in graph.numeric([first, second], value))
        return _equal(left, right, size)
    return _agree_where_it_changes(graph, condition, (first, second), value, values)


def _agree_where_it_changes(
    graph: Graph,
    condition: int,
    branches: tuple[int, int],
    value: Callable[[Leaf], Any],
    values: dict[Leaf, Vector],
) -> bool | None:
    """Whether two branches are equal on lines between random points where the condition changes, or None."""
    true = graph.numeric([condition], value)[0] != 0.0
    if true.all() or not true.any():
        return None
    leaves = [leaf for leaf in sorted(graph.leaves_of(condition)) if leaf in values]
    inside = np.array([np.resize(values[leaf][true], BORDER_POINTS) for leaf in leaves])
    outside = np.array([np.resize(values[leaf][~true], BORDER_POINTS) for leaf in leaves])
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        values.update(zip(leaves, middle, strict=True))
        true = graph.numeric([condition], value)[0] != 0.0
        inside, outside = np.where(true, middle, inside), np.where(true, outside, middle)
    at = []
    for branch, places in zip(branches, (inside, outside), strict=True):
        values.update(zip(leaves, places, strict=True))
        at.append(graph.numeric([branch], value)[0])
    left, right = at
    return _equal(left, right, np.abs(left) + np.abs(right) + np.abs(inside).max(axis=0) + 1.0)


def _equal(left: Vector, right: Vector, size: Vector) -> bool | None:
    """Whether the finite values of two branches are equal, relative to sizes; None where there are none."""
    finite = np.isfinite(left) & np.isfinite(right)
    if not finite.any():
        return None
    return bool((np.abs(left - right)[finite] <= BRANCH_TOLERANCE * size[finite]).all())
