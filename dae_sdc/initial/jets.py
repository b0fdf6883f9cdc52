"""Differentiated equations in the values of the unknowns and their derivatives (jets), and their parts."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import CONSTANTS, MOVING, Leaf, Op, integer_power, name_of
from dae_sdc.expressions.graph import Input, Program
from dae_sdc.initial.neighbourhood import Neighbourhood
from dae_sdc.initial.projection import MOST_DENSE_ENTRIES, Accuracy, EquationFunctions
from dae_sdc.structure.analysis import Structure, regular_by_rounding, structure
from dae_sdc.structure.consistent import Start
from dae_sdc.structure.rank import is_singular
from dae_sdc.structure.repair import repair
from dae_sdc.structure.scalars import NoValueError

Integers = npt.NDArray[np.int64]

# Exponent from which on a line continues an exponential function where it would overflow at the guesses.
LARGEST_EXPONENT: Final = 50.0
ROUND_OFF: Final = 1e-13  # Ratio of singular values that rounding errors of numbers leave of 0.
ROUND_OFF_AROUND: Final = 1e-14  # The same around a start, where the conductance of a diode may be 1e-13.
MOST_BY_NUMPY: Final = 2000  # Instructions of a program after which the compiled interpreter reads it.

_SWITCHES = frozenset({Op.ABS, Op.SIGN, Op.FLOOR, Op.MIN, Op.MAX, Op.LT, Op.LE})

_PREFIXES = {0: "", 1: "derivative of ", 2: "second derivative of ", 3: "third derivative of "}


@dataclass(frozen=True)
class Stage:
    """Equations that are solved together, and the values for which they are solved."""

    # rows, jets: numbers of the equations, and of the values.
    rows: Integers
    jets: Integers


class JetSystem(ABC):
    """Equations and their derivatives as algebraic equations in values of unknowns and derivatives."""

    unknowns: int
    usually_free: tuple[int, ...] = ()
    title: str
    t: float
    jets: tuple[tuple[int, int], ...]
    jet_names: tuple[str, ...]
    row_names: tuple[str, ...]
    row_orders: tuple[int, ...]
    stages: tuple[Stage, ...]
    tolerance: float
    accuracy: Accuracy
    near: Callable[[], Neighbourhood] | None = None  # Of the state that is looked at.

    @abstractmethod
    def values(self, x: Vector, stage: int | None = None) -> Vector:
        """Residuals of all equations, or of those of a stage, at values x of shape (jets,)."""

    @abstractmethod
    def jacobian(self, x: Vector, stage: int | None = None) -> Any:
        """Jacobian of the equations with respect to all values, dense or CSC."""

    def jacobian_of(self, x: Vector, columns: tuple[int, ...], stage: int | None = None) -> Any:
        """Jacobian with respect to some of the values, dense where it is small."""
        matrix = self.jacobian(x, stage)
        if sparse.issparse(matrix) and matrix.shape[0] * matrix.shape[1] <= MOST_DENSE_ENTRIES:
            matrix = matrix.toarray()
        return matrix if len(columns) == matrix.shape[1] else matrix[:, columns]

    def terms(self, x: Vector, stage: int | None = None) -> Vector | None:
        """Sizes of the terms of the equations; None if they are not known."""
        return None

    def linearized(self, x: Vector, stage: int, sizes: Vector) -> tuple[Any, Vector]:
        """Derivatives of the equations of a stage with respect to its values, and sizes of their terms.

        The size of a term is the change of the equation when each value changes by its size plus its typical
        size in ``sizes``.
        """
        matrix = self.jacobian_of(x, tuple(range(x.size)), stage)
        return matrix[:, self.stages[stage].jets], np.asarray(abs(matrix) @ (np.abs(x) + sizes)).ravel()

    def functions(
        self, x: Vector, jets: Integers, stage: int | None, rows: Integers | slice = slice(None)
    ) -> EquationFunctions:
        """Equations of a stage, or of all, as functions of some values beside those in x."""
        whole = x.copy()

        def at(y: Vector) -> Vector:
            whole[jets] = y
            return whole

        columns = tuple(jets.tolist())

        def jacobian(y: Vector) -> Any:
            return self.jacobian_of(at(y), columns, stage)[rows]

        def terms(y: Vector) -> Vector | None:
            sizes = self.terms(at(y), stage)
            return None if sizes is None else sizes[rows]

        return EquationFunctions(lambda y: self.values(at(y), stage)[rows], jacobian, terms, self.accuracy)

    def simplified(self) -> Callable[[float], JetSystem] | None:
        """The equations with a share of the actual parts of homotopies, and simpler ones for the rest.

        None where there are no homotopies.
        """
        return None

    def limited(self) -> JetSystem | None:
        """The equations with lines in place of exponential functions that overflow; None without these."""
        return None


def row_name(name: str, order: int) -> str:
    """Name of a derivative of an equation."""
    return f"{_PREFIXES.get(order, f'derivative {order} of ')}{name}"


def offsets_stages(
    c: Integers, d: Integers
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[Stage]]:
    """Rows, jets and stages of equations that are differentiated c_i times, for unknowns up to order d_j.

    Stage s, from -max(d) to 0, has derivatives c_i + s of equations and d_j + s of unknowns.
    """
    rows: list[tuple[int, int]] = []
    jets: list[tuple[int, int]] = []
    stages = []
    for s in range(-int(d.max()), 1):
        own_rows = [(int(i), int(c[i] + s)) for i in np.flatnonzero(c + s >= 0)]
        own_jets = [(int(j), int(d[j] + s)) for j in np.flatnonzero(d + s >= 0)]
        places = len(rows) + np.arange(len(own_rows)), len(jets) + np.arange(len(own_jets))
        stages.append(Stage(*places))
        rows += own_rows
        jets += own_jets
    return rows, jets, stages


class ModelJets(JetSystem):
    """The equations of a model, differentiated as often as its offsets say; see :class:`JetSystem`."""

    tolerance = 1e-9
    accuracy = Accuracy()

    def __init__(self, model: Any, t: float) -> None:
        begin = Start.of(model, t=t)
        found = structure(model, differentiation=False, start=begin)
        self.repairs: tuple[str, ...] = ()
        self.unknowns = len(model.names)
        if not found.regular:
            repaired, left, held = repair(model, start=begin), model.redundant, model.held
            expressions = model.sympy([root for _, root in left])
            model, found = repaired.model, repaired.structure
            model.held = held
            model.redundant = tuple(
                (name, root) for (name, _), root in zip(left, model.nodes(expressions), strict=True)
            )
            self.repairs = tuple(str(step) for step in repaired.steps)
        slopes = model.graph.leading_slopes(model.roots, found.c.tolist(), found.d.tolist()).values()
        # Slopes that change with unknowns or time may be far apart at points that are no solutions.
        changes = any(model.graph.mark[slope] & MOVING for slope in slopes)
        self.is_rounded = not changes and regular_by_rounding(model, found, ROUND_OFF)
        # Derivatives are built in a copy of the graph, so that expressions with derivatives that cancel are
        # not reused elsewhere.
        model, graph = copy.copy(model), model.graph.copy()
        model.graph = graph
        self.model, self.t, self.title = model, t, f"model {model.name}"
        self.analysis: Structure = found
        rows, jets, stages = offsets_stages(found.c, found.d)
        self.jets, self.stages = tuple(jets), tuple(stages)
        self.jet_names = tuple(name_of(model.names[j], k) for j, k in jets)
        self.row_names = tuple(row_name(model.equation_names[i], k) for i, k in rows)
        self.row_orders = tuple(k for _, k in rows)
        self.roots = [graph.total_derivative(model.roots[i], k) for i, k in rows]
        self.place = {jet: number for number, jet in enumerate(jets)}
        self._add(
            (name, root) for name, root in model.redundant if set(graph.depends(root)) <= self.place.keys()
        )
        self.usually_free = tuple(self.place[jet] for jet in found.free)
        self.parameters = tuple(entry.required(model.name) for entry in model.parameters_by_name.values())
        self.known = {"t": np.array([t]), "p": np.array(self.parameters, dtype=np.float64)}
        self._parts: dict[tuple[int, ...], Part] = {}
        self._is_limited = False

    def _add(self, conditions: Iterable[tuple[str, int]]) -> None:
        """Add equations of the start, each to the first stage at which all its values are known."""
        of_jet = {j: number for number, stage in enumerate(self.stages) for j in stage.jets.tolist()}
        for name, root in conditions:
            jets = [self.place.get(jet) for jet in self.model.graph.depends(root)]
            if None in jets:
                raise InputError(
                    f"'{name}' of {self.title} has derivatives that follow from lower ones; write it with "
                    f"those"
                )
            at = max((of_jet[j] for j in jets if j is not None), default=0)
            row, stage = len(self.roots), self.stages[at]
            own = Stage(np.append(stage.rows, row), stage.jets)
            self.stages = (*self.stages[:at], own, *self.stages[at + 1 :])
            self.roots, self.row_names = [*self.roots, root], (*self.row_names, name)
            # What no equation of the run says is hidden in it.
            self.row_orders = (*self.row_orders, 1)

    def input_of(self, leaf: Leaf) -> Input:
        """The program input of a leaf."""
        if leaf.kind == "u":
            # A derivative of higher order than all values cancels in the equations.
            return Input("u", self.place.get((leaf.index, leaf.order), len(self.jets)))
        return Input(leaf.kind, leaf.index)

    def with_conditions(self, values: Mapping[Any, float]) -> ModelJets:
        """The equations of the start with expressions of unknowns that have given values."""
        other, other_model = copy.copy(self), copy.copy(self.model)
        other.model, other._parts = other_model, {}
        other_model.graph, other_model._symbols = self.model.graph.copy(), {}
        nodes = other_model.nodes(text.expression - value for text, value in values.items())
        names = [f"{text} = {value:.10g}" for text, value in values.items()]
        other._add(zip(names, nodes, strict=True))
        return other

    def holds_added(self, x: Vector) -> bool:
        """Whether the equations hold that were added to those of the run."""
        first = int((self.analysis.c + 1).sum())
        part = self.rows(range(first, len(self.roots)))
        return not part.rows or bool((np.abs(part.values(x)) <= 10.0 * self.tolerance * part.terms(x)).all())

    def part(self, stage: int | None) -> Part:
        """The equations of a stage, of all stages if None."""
        return self.rows(range(len(self.roots)) if stage is None else self.stages[stage].rows.tolist())

    def rows(self, numbers: Sequence[int]) -> Part:
        """Some of the equations, kept for who asks again."""
        key = tuple(numbers)
        if key not in self._parts:
            self._parts[key] = Part(self, key)
        return self._parts[key]

    def is_rounded_around(self, x: Vector, sizes: Vector) -> bool:
        """Whether rounding errors of numbers alone determine the highest derivatives around values x."""
        moves = np.random.default_rng(1).uniform(-1e-2, 1e-2, (len(x), 3))
        points = x[:, None] + moves * np.maximum(np.abs(x), sizes)[:, None]
        columns, stage = self.stages[-1].jets.tolist(), len(self.stages) - 1
        matrices = self.part(stage).dense(points, columns)
        return all(is_singular(matrix, ROUND_OFF_AROUND) for matrix in matrices)

    def simplified(self) -> Callable[[float], ModelJets] | None:
        """See :class:`JetSystem`."""
        simpler, graph = self.model.simplified_roots, self.model.graph
        if not simpler:
            return None
        other = copy.copy(self)
        share = graph.parameter(len(self.parameters))
        rest = graph.sub(graph.one, share)
        mixed = {
            i: graph.add(graph.mul(share, self.model.roots[i]), graph.mul(rest, root))
            for i, root in simpler.items()
        }
        rows = offsets_stages(self.analysis.c, self.analysis.d)[0]
        other.roots = [
            graph.total_derivative(mixed[i], k) if i in mixed else root
            for (i, k), root in zip(rows, self.roots, strict=False)
        ]
        other.roots += self.roots[len(rows) :]
        other._parts, other.known = {}, {**self.known, "p": np.append(self.parameters, 0.0)}

        def at(value: float) -> ModelJets:
            other.known["p"][-1] = value
            return other

        return at

    def limited(self) -> ModelJets | None:
        """See :class:`JetSystem`."""
        graph = self.model.graph
        exponentials = [node for node in graph.below(self.roots) if graph.op[node] is Op.EXP]
        largest, limited = graph.constant(LARGEST_EXPONENT), dict[int, int]()
        for node in exponentials:
            (exponent,) = graph.substitute(graph.operands(node), limited)
            least = graph.call(Op.MIN, exponent, largest)
            beyond = graph.add(graph.one, graph.sub(exponent, least))
            limited[node] = graph.mul(graph.call(Op.EXP, least), beyond)
        other = copy.copy(self)
        other._parts, other.roots, other._is_limited = {}, graph.substitute(self.roots, limited), True
        return None if self._is_limited or not limited else other

    def values(self, x: Vector, stage: int | None = None) -> Vector:
        """See :class:`JetSystem`."""
        return self.part(stage).values(x)

    def terms(self, x: Vector, stage: int | None = None) -> Vector:
        """See :class:`JetSystem`."""
        return self.part(stage).terms(x)

    def jacobian(self, x: Vector, stage: int | None = None) -> Any:
        """See :class:`JetSystem`."""
        return self.part(stage).jacobian(x)

    def jacobian_of(self, x: Vector, columns: tuple[int, ...], stage: int | None = None) -> Any:
        """See :class:`JetSystem`."""
        part = self.part(stage)
        if len(part.rows) * len(self.jets) > MOST_DENSE_ENTRIES:
            return super().jacobian_of(x, columns, stage)
        return part.dense(x, columns)


class Repeated:
    """A program of the equations of a system that is evaluated again and again."""

    def __init__(self, program: Program, known: Mapping[str, Vector], jets: int) -> None:
        self.program, self._known, self._jets = program, known, jets
        self._count, self._u = 0, np.zeros(jets + 1)
        self._compiled: Compiled | None = None

    @classmethod
    def of(cls, system: ModelJets, nodes: list[int]) -> Repeated:
        """The program of expressions of the values of a system."""
        return cls(system.model.graph.program(nodes, system.input_of), system.known, len(system.jets))

    def __call__(self, x: Vector, t: Vector | None = None) -> Vector:
        """Outputs at values x of shape (jets,) or (jets, points), at the points' times t."""
        self._count += len(self.program.code) if t is None and x.ndim == 1 else 0
        if self._count <= MOST_BY_NUMPY or x.ndim > 1 or t is not None:
            return self.program.evaluate(self._inputs(x, t))
        if self._compiled is None:
            self._compiled = compile_program(self.program, "residual", "tape")
        self._u[:-1] = x
        return self._compiled.at(float(self._known["t"][0]), self._u, self._known["p"])

    @cached_property
    def sizes(self) -> Repeated:
        """Sizes of the terms of the outputs."""
        return Repeated(self.program.sizes, self._known, self._jets)

    def _inputs(self, x: Vector, t: Vector | None = None) -> Vector:
        known = {**self._known, "u": np.concatenate([x, np.zeros((1, *x.shape[1:]))])}
        known |= {} if t is None else {"t": t[None]}
        inputs = np.empty((len(self.program.inputs), *x.shape[1:]))
        for kind, (slots, numbers) in self.program.places.items():
            own = known[kind][numbers]
            inputs[slots] = own if own.ndim == x.ndim else own.reshape(-1, *[1] * (x.ndim - 1))
        return inputs


class Part:
    """Some of the equations of a system, and their derivatives with respect to all values."""

    def __init__(self, system: ModelJets, rows: Sequence[int]) -> None:
        self.system, self.rows = system, list(rows)
        self.roots = [system.roots[i] for i in rows]
        self._linear: dict[frozenset[int], bool] = {}
        self._chosen: dict[tuple[int, ...], Integers] = {}

    @cached_property
    def slopes(self) -> dict[tuple[int, int], int]:
        """Nodes of the partial derivatives, by position of the equation and number of the value."""
        graph, place = self.system.model.graph, self.system.place
        return {
            (i, place[jet]): slope
            for i, root in enumerate(self.roots)
            for jet, slope in graph.slopes(root).items()
            if jet in place
        }

    @cached_property
    def _columns(self) -> tuple[Integers, Integers, Integers]:
        """The order of the pattern by columns, its rows in that order, and where each column begins."""
        rows, columns = np.array(list(self.slopes), dtype=np.int64).reshape(-1, 2).T
        order = np.lexsort((rows, columns))
        starts = np.searchsorted(columns[order], np.arange(len(self.system.jets) + 1))
        return order, rows[order].astype(np.int32), starts.astype(np.int32)

    @cached_property
    def switches(self) -> list[tuple[int, int]]:
        """Pairs of the position of an equation and the number of a value that selects its branch."""
        place, graph = self.system.place, self.system.model.graph
        nodes = [[node for node in graph.below([root]) if graph.op[node] in _SWITCHES] for root in self.roots]
        return [
            (i, place[jet])
            for i, deciding in enumerate(nodes)
            for jet in graph.jets_of(*deciding)
            if jet in place
        ]

    @cached_property
    def depends(self) -> Integers:
        """Numbers of all values on which the equations depend."""
        return np.unique(np.array([j for _, j in [*self.slopes, *self.switches]], dtype=np.int64))

    @cached_property
    def _equations(self) -> Repeated:
        return Repeated.of(self.system, self.roots)

    @cached_property
    def _derivatives(self) -> Repeated:
        return Repeated.of(self.system, list(self.slopes.values()))

    def values(self, x: Vector, t: Vector | None = None) -> Vector:
        """Residuals at all values x, of shape (jets,) or (jets, points), and at times t of the points."""
        return self._equations(x, t)

    def terms(self, x: Vector) -> Vector:
        """Sizes of the terms of the equations at all values x."""
        return self._equations.sizes(x)

    def jacobian(self, x: Vector) -> Any:
        """Jacobian of the equations with respect to all values, CSC."""
        order, indices, starts = self._columns
        shape = len(self.rows), len(self.system.jets)
        return sparse.csc_matrix((self._derivatives(x)[order], indices, starts), shape=shape)

    def dense(self, x: Vector, columns: Sequence[int], t: Vector | None = None) -> Vector:
        """Jacobian of the equations with respect to some values, shape (points, rows, columns)."""
        # Shapes: x (jets,) or (jets, points), t (points,).
        key = tuple(columns)
        if key not in self._chosen:
            place = {j: at for at, j in enumerate(key)}
            own = [(e, i, place[j]) for e, (i, j) in enumerate(self.slopes) if j in place]
            self._chosen[key] = np.array(own, dtype=np.int64).reshape(-1, 3).T
        entries, at, of = self._chosen[key]
        found = np.zeros((*x.shape[1:], len(self.rows), len(key)))
        found[..., at, of] = self._derivatives(x, t)[entries].T
        return found

    def is_linear(self, columns: Iterable[int]) -> bool:
        """Whether the equations are linear in some values together."""
        own = frozenset(columns)
        if own not in self._linear:
            graph, jets, place = self.system.model.graph, self.system.jets, self.system.place
            leaves = {graph.variable(*jets[j]) for j in own}
            # Values may stand in derivatives and cancel there.
            self._linear[own] = not any(j in own for _, j in self.switches) and not any(
                own & {place.get(jet) for jet in graph.depends(slope)}
                for (_, j), slope in self.slopes.items()
                if j in own and leaves.intersection(graph.below([slope]))
            )
        return self._linear[own]


Range = tuple[float, float]


class Ranges:
    """Ranges of smooth expressions, up to round-off, where each leaf runs through a range of its own."""

    def __init__(self, leaf: Callable[[Leaf], Range]) -> None:
        self.leaf = leaf
        rising = (Op.EXP, Op.LOG, Op.SINH, Op.TANH, Op.ATAN, Op.ASINH)
        self._rules: dict[Op, Callable[..., Range]] = {
            **{op: lambda a, f=op.numpy: (float(f(a[0])), float(f(a[1]))) for op in rising},
            **dict.fromkeys((Op.SIN, Op.COS), lambda a: (-1.0, 1.0)),
            Op.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
            Op.NEG: lambda a: (-a[1], -a[0]),
            Op.MUL: self._product,
            Op.DIV: lambda a, b: self._product(a, self._power(b, -1)),
            Op.INTPOW: self._power,
        }

    def number(self, value: Any, residue: int) -> Range:
        """A constant: a range of one value."""
        size = float(CONSTANTS[value] if isinstance(value, str) else value)
        return size, size

    def value(self, op: Op, operands: Sequence[Any]) -> Range:
        """The range of an operation; NoValueError where it may have a pole, or is not smooth."""
        rule = None if None in operands else self._rules.get(op)
        low, high = (math.nan, math.nan) if rule is None else rule(*operands)
        if not low <= high:
            raise NoValueError
        return low, high

    def _product(self, a: Range, b: Range) -> Range:
        if a is b:  # the range of one expression
            return self._power(a, 2)
        ends = [x * y if x and y else 0.0 for x in a for y in b]
        return min(ends), max(ends)

    def _power(self, a: Range, exponent: int) -> Range:
        # At a 0 within, where an even power is least, and a negative one raises ZeroDivisionError.
        ends = [float(integer_power(x, exponent)) for x in (*a, min(max(0.0, a[0]), a[1]))]
        return min(ends), max(ends)


@dataclass(eq=False)
class Group:
    """Equations of a part of a stage, and the values of that part."""

    # rows, jets: numbers of the equations, and of the values, which are at least as many.
    rows: list[int]
    jets: list[int]
    stage: int  # k of the block :math:`B_k`.


def groups_of(system: ModelJets) -> list[Group]:
    """The parts of the stages of the solution scheme, in an order in which they can be solved."""
    analysis = system.analysis
    numbered = {row: i for i, row in enumerate(offsets_stages(analysis.c, analysis.d)[0])}
    last = int(analysis.c.max(initial=0))
    return [
        Group(
            [numbered[row] for row in task.equations],
            [system.place[jet] for jet in (*task.unknowns, *task.free)],
            stage.number + last,
        )
        for stage in analysis.stages
        for task in stage.tasks
    ]


def leaf_values(system: ModelJets, x: Vector) -> Callable[[Leaf], float]:
    """A function that gives the values of leaves at x of shape (jets,); 0 for higher derivatives."""

    def value(leaf: Leaf) -> float:
        if leaf.kind == "u":
            place = system.place.get((leaf.index, leaf.order))
            return 0.0 if place is None else float(x[place])
        return system.t if leaf.kind == "t" else float(system.known["p"][leaf.index])

    return value
