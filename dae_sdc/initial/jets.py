"""Differentiated equations in the values of the unknowns and their derivatives (jets), and their parts."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy.sparse as sparse

from dae_sdc.dae.projection import MOST_DENSE_ENTRIES, Accuracy, EquationFunctions
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InputError, require_number
from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import MOVING, Op, name_of
from dae_sdc.initial.neighbourhood import Neighbourhood
from dae_sdc.jets.graph import GraphJets, Integers
from dae_sdc.sharing import Recent, one_at_a_time
from dae_sdc.structure.analysis import Structure, regular_by_rounding, structure
from dae_sdc.structure.consistent import Start, general_values
from dae_sdc.structure.rank import is_singular
from dae_sdc.structure.repair import repair

# Exponent from which on a line continues an exponential function where it would overflow at the guesses.
LARGEST_EXPONENT: Final = 50.0
ROUND_OFF: Final = 1e-13  # Ratio of singular values that rounding errors of numbers leave of 0.
ROUND_OFF_AROUND: Final = 1e-14  # The same around a start, where the conductance of a diode may be 1e-13.

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
        stages.append(Stage(len(rows) + np.arange(len(own_rows)), len(jets) + np.arange(len(own_jets))))
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
            repaired = repair(model, start=begin)
            model, found = repaired.model, repaired.structure
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
        self.derivatives = [(model.roots[i], k) for i, k in rows]
        self.place = {jet: number for number, jet in enumerate(jets)}
        self._add(
            (name, root) for name, root in model.redundant if set(graph.depends(root)) <= self.place.keys()
        )
        replaced = (definition.replaced for definition in model.definitions)
        self.replaced = [each for each in replaced if set(graph.depends(each[1])) <= self.place.keys()]
        self.usually_free = tuple(self.place[jet] for jet in found.free)
        self._is_limited = False

    def with_numbers(self, model: Any, t: float) -> ModelJets:
        """These equations at a time, with the numbers of a model that differs in them alone."""
        other = copy.copy(self)
        other.model, other.t = self.model.with_values(model.parameter_values), t
        other.model.variables_by_name, other.model.interval = model.variables_by_name, model.interval
        other._add(())
        return other

    def _add(self, conditions: Iterable[tuple[str, int]]) -> None:
        """Add equations of the start, each to the first stage at which all its values are known."""
        numbers = [entry.required(self.model.name) for entry in self.model.parameters_by_name.values()]
        self.known = {"t": np.array([self.t]), "p": np.array(numbers, dtype=np.float64)}
        self._parts: dict[tuple[int, ...], Part] = {}
        self.__dict__.pop("whole", None)
        of_jet = {j: number for number, stage in enumerate(self.stages) for j in stage.jets.tolist()}
        for name, root in conditions:
            jets = [self.place.get(jet) for jet in self.model.graph.depends(root)]
            if None in jets:
                raise InputError(
                    f"'{name}' of {self.title} has derivatives that follow from lower ones; write it with "
                    f"those"
                )
            at = max((of_jet[j] for j in jets if j is not None), default=0)
            row, stage = len(self.derivatives), self.stages[at]
            own = Stage(np.append(stage.rows, row), stage.jets)
            self.stages = (*self.stages[:at], own, *self.stages[at + 1 :])
            self.derivatives, self.row_names = [*self.derivatives, (root, 0)], (*self.row_names, name)
            # What no equation of the run says is hidden in it.
            self.row_orders = (*self.row_orders, 1)

    def with_conditions(self, values: Mapping[Any, float]) -> ModelJets:
        """The equations of the start with expressions of unknowns that have given values."""
        other, other_model = copy.copy(self), copy.copy(self.model)
        other.model = other_model
        other_model.graph, other_model._symbols = self.model.graph.copy(), {}
        nodes = other_model.nodes(text.expression - value for text, value in values.items())
        names = [f"{text} = {value:.10g}" for text, value in values.items()]
        other._add(zip(names, nodes, strict=True))
        return other

    @cached_property
    def whole(self) -> ModelJets:
        """The equations with those besides that a repair has replaced."""
        other = copy.copy(self)
        other.replaced = []
        other._add(self.replaced)
        return other

    def holds_added(self, x: Vector) -> bool:
        """Whether the equations hold that were added to those of the run, or that a repair has replaced."""
        first = int((self.analysis.c + 1).sum())
        part = self.rows(range(first, len(self.derivatives)))
        holds = not part.rows or (np.abs(part.values(x)) <= 10.0 * self.tolerance * part.terms(x)).all()
        return bool(holds) and (not self.replaced or self.whole.holds_added(x))

    def part(self, stage: int | None) -> Part:
        """The equations of a stage, of all stages if None."""
        return self.rows(range(len(self.derivatives)) if stage is None else self.stages[stage].rows.tolist())

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
        share = graph.parameter(len(self.known["p"]))
        rest = graph.sub(graph.one, share)
        mixed = {
            self.model.roots[i]: graph.add(graph.mul(share, self.model.roots[i]), graph.mul(rest, root))
            for i, root in simpler.items()
        }
        other.derivatives = [(mixed.get(root, root), order) for root, order in self.derivatives]
        other._parts, other.known = {}, {**self.known, "p": np.append(self.known["p"], 0.0)}

        def at(value: float) -> ModelJets:
            other.known["p"][-1] = value
            return other

        return at

    def limited(self) -> ModelJets | None:
        """See :class:`JetSystem`."""
        graph = self.model.graph
        roots = [root for root, _ in self.derivatives]
        exponentials = [node for node in graph.below(roots) if graph.op[node] is Op.EXP]
        largest, limited = graph.constant(LARGEST_EXPONENT), dict[int, int]()
        for node in exponentials:
            (exponent,) = graph.substitute(graph.operands(node), limited)
            least = graph.call(Op.MIN, exponent, largest)
            beyond = graph.add(graph.one, graph.sub(exponent, least))
            limited[node] = graph.mul(graph.call(Op.EXP, least), beyond)
        other = copy.copy(self)
        orders = [order for _, order in self.derivatives]
        other.derivatives = list(zip(graph.substitute(roots, limited), orders, strict=True))
        other._parts, other._is_limited = {}, True
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


def start_time(interval: Sequence[float], t0: Any) -> float:
    """The given time, or the start of an interval."""
    found = float(interval[0]) if t0 is None else require_number("t0", t0)
    if not np.isfinite(found):
        raise InputError(f"t0 must be finite; got {found}")
    return found


KEPT_NODES: Final = 100_000  # Most expressions of differentiated equations that are kept.

_JETS: Final[Recent[tuple[Any, ...], ModelJets]] = Recent(KEPT_NODES, lambda jets: len(jets.model.graph))
_REFUSED: Final[Recent[tuple[Any, ...], DAEError]] = Recent(64)  # Why equations have none.


@one_at_a_time
def jets_of(model: Any, t0: float | None) -> ModelJets:
    """The equations of a model and their derivatives, kept for models that say the same."""
    t, numbers = start_time(model.interval, t0), model.parameter_values.values()
    starts = (tuple(variable.start.items()) for variable in model.unknowns())
    about = (*starts, *(definition.replaced for definition in model.definitions), *model.equations_alone())

    def jets() -> ModelJets:
        general = general_values(model, numbers)
        for (like, _, _, *others), each in _JETS.items():
            if like == about and general_values(model, others) == general and not each.repairs:
                return each.with_numbers(model, t)
        return ModelJets(model, t)

    asked = (about, t, model.interval, *numbers)
    if asked in _REFUSED:
        raise copy.copy(_REFUSED[asked])
    try:
        return _JETS.of(asked, jets)
    except DAEError as error:
        _REFUSED.keep(asked, copy.copy(error))  # without what its traceback holds
        raise


class Part(GraphJets):
    """Some of the equations of a system, and their derivatives with respect to all values."""

    def __init__(self, system: ModelJets, rows: Sequence[int]) -> None:
        derivatives = [system.derivatives[i] for i in rows]
        super().__init__(system.model.graph, derivatives, system.place, system.known)
        self.rows = list(rows)

    def compiled(self) -> Compiled:
        """A function of the values that computes the equations and their partial derivatives."""
        program = self._program([*self.nodes, *self.slopes.values()]).program
        return compile_program(program, "residual", "tape")


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
