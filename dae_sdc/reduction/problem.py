"""A reduced system as a problem with invariants."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from dae_sdc import llvm
from dae_sdc.dae.kernels import Kernels, machine
from dae_sdc.dae.state import MeshDAE, Vector
from dae_sdc.errors import InconsistentStateError, InputError
from dae_sdc.expressions.codegen import Compiled, compile_program, parameters_of
from dae_sdc.expressions.dag import Leaf, name_of
from dae_sdc.expressions.graph import Graph, Input, Program
from dae_sdc.jets.graph import GraphJets, differentiated
from dae_sdc.model.jumps import Sided, timetable_of
from dae_sdc.model.problem import DENSE, Form, ModelProblem, Origin, Shared, form_of, jacobian_outputs
from dae_sdc.reduction.separate import Goal, Jet, Separated
from dae_sdc.reduction.stages import Choice, Selection, Staged
from dae_sdc.sharing import one_at_a_time
from dae_sdc.structure.analysis import Structure
from dae_sdc.structure.consistent import Start, find_points
from dae_sdc.structure.prolongation import Prolongation

# Unknowns up to which the Jacobian is dense if pivots may change, and with them its pattern.
MOST_DENSE = 150


class Layout:
    """Which leaf is which entry of u and u'."""

    def __init__(self, states: Sequence[Jet], rates: Mapping[Jet, Jet]) -> None:
        self.states = tuple(states)
        self.place = {jet: at for at, jet in enumerate(states)}
        self.rates = {jet: self.place[source] for jet, source in rates.items()}

    def rate(self, graph: Graph, jet: Jet) -> int:
        """The node of the derivative of an unknown."""
        return graph.leaf(Leaf("d", self.place[jet]))

    def written(self, graph: Graph, nodes: Sequence[int]) -> list[int]:
        """Expressions without derivatives that are no entries of u and u', which cancel in them."""
        known = self.place.keys() | self.rates.keys()
        idle = [graph.variable(*jet) for jet in graph.jets_of(*nodes) if jet not in known]
        return graph.without(nodes, idle) if idle else list(nodes)

    def given(self, leaf: Leaf) -> Input:
        """The input of a program for a leaf."""
        kind, j, k = leaf
        if kind == "u":
            at = self.place.get((j, k))
            return Input("du", self.rates[j, k]) if at is None else Input("u", at)
        return Input({"d": "du"}.get(kind, kind), j)


@dataclass(frozen=True, eq=False)
class Assembled(Shared):
    """A reduced system as programs."""

    graph: Graph  # Graph of the expressions.
    layout: Layout  # Which leaf is which entry of u and u'.
    rows: tuple[int, ...]  # Nodes of the equations.
    held: tuple[int, ...]  # Nodes of the invariants.
    watched_nodes: tuple[int, ...]  # Nodes of the values that are watched when a step begins.
    form: Form  # Residual and Jacobian.
    invariant_names: tuple[str, ...]  # Names of the invariants.
    # Values of the invariants, entries of their Jacobian, and values that are watched when a step begins:
    # pivots and their rivals, or entries of the system Jacobian.
    programs: tuple[Program, Program, Program]
    invariants_pattern: Any  # Where the Jacobian of the invariants has entries; None for a dense one.
    # For every pivot the places of its rivals among the watched values; the pivots come first.
    rivals: tuple[slice, ...] = ()
    choices: tuple[Choice, ...] = ()  # Choices of dummies; their weights follow the parameters of the model.
    entries: tuple[tuple[int, int], ...] = ()  # Which entries of the system Jacobian are watched.

    @functools.cached_property
    def invariants(self) -> Compiled:
        """The values of the invariants as a C function."""
        return compile_program(self.programs[0], "residual")

    @functools.cached_property
    def invariants_jacobian(self) -> Compiled:
        """The entries of their Jacobian as a C function."""
        return compile_program(self.programs[1], "residual")

    @functools.cached_property
    def watch(self) -> Compiled:
        """The values that are watched when a step begins as a C function."""
        return compile_program(self.programs[2], "residual")

    @property
    def watched(self) -> int:
        """Number of values that are watched when a step begins."""
        return len(self.programs[2].outputs)


def _assemble(
    graph: Graph,
    layout: Layout,
    n_diff: int,
    model: Any,
    rows: Sequence[tuple[str, int]],
    invariants: Sequence[tuple[str, int]],
    watch: Sequence[int],
    dense: bool | None,
    **extra: Any,
) -> Assembled:
    n = len(layout.states)
    nodes = layout.written(graph, [node for _, node in rows])
    dense = n <= DENSE if dense is None else dense
    equations = nodes, tuple(name for name, _ in rows)
    state = layout.states, n_diff, layout.given
    form = form_of(model, Sided(graph, nodes), state, equations, dense, n, layout.written)
    held = layout.written(graph, [node for _, node in invariants])
    pattern, slope_nodes = jacobian_outputs(graph, held, layout.given, n, dense, graph.one)
    held_program, slope_program, watch_program = (
        graph.program(layout.written(graph, part), layout.given) for part in (held, slope_nodes, watch)
    )
    names = tuple(name for name, _ in invariants)
    about = graph, layout, tuple(nodes), tuple(held), tuple(watch)
    return Assembled(*about, form, names, (held_program, slope_program, watch_program), pattern, **extra)


def assemble_separated(
    system: Separated, goal: Goal, model: Any, extra: Sequence[tuple[str, int]], dense: bool | None
) -> Assembled:
    """The programs of a separated system."""
    graph, orders, factored = system.graph, system.orders, system.factored
    algebraic = [(j, orders[j] - 1) for j in system.algebraic]
    everything = [(j, k) for k in range(max(orders)) for j in range(len(orders)) if k < orders[j]]
    states = [jet for jet in everything if jet not in algebraic]
    layout = Layout([*states, *algebraic], {})
    rows = [
        (
            f"definition of {name_of(model.names[j], k + 1)}",
            graph.sub(layout.rate(graph, (j, k)), graph.variable(j, k + 1)),
        )
        for j, k in states
        if k + 1 < orders[j]
    ]
    for name, left, right in system.equations(goal, model.names):
        parts = [
            graph.mul(
                node,
                graph.variable(*jet) if jet in layout.place else layout.rate(graph, (jet[0], jet[1] - 1)),
            )
            for jet, node in left.items()
        ]
        rows.append((name, graph.sub(graph.add(*parts), right)))
    if not system.solved:
        rows += system.constraints
    watch: list[int] = []
    pivots: list[int] = []
    rivals: list[slice] = []
    divided = system.factors
    if goal == "implicit" and not factored.rest:
        divided = divided[:-1]  # the pivots of the last elimination are in no equation
    for factors in divided:
        for pivot, others in zip(factors.pivots, factors.rivals, strict=True):
            if pivot not in graph.numbers and others:
                pivots.append(pivot)
                rivals.append(slice(len(watch), len(watch) + len(others)))
                watch += others
    if dense is None and pivots and len(layout.states) <= MOST_DENSE:
        dense = True
    invariants, watched = [*system.invariants, *extra], [*pivots, *watch]
    moved = tuple(slice(s.start + len(pivots), s.stop + len(pivots)) for s in rivals)
    return _assemble(graph, layout, len(states), model, rows, invariants, watched, dense, rivals=moved)


def assemble_stages(
    system: Staged, model: Any, extra: Sequence[tuple[str, int]], dense: bool | None
) -> Assembled:
    """The programs of the stages of the Sigma-method."""
    graph, d = system.graph, system.d
    # A highest derivative whose relation is kept in any case needs no unknown.
    rates = {(j, k + 1): (j, k) for j, k in system.plain if k + 1 == d[j]}
    differential = [(j, k) for k in range(max(d)) for j in range(len(d)) if k < d[j]]
    algebraic = [(j, order) for j, order in enumerate(d) if (j, order) not in rates]
    layout = Layout([*differential, *algebraic], rates)

    def relation(jet: Jet) -> int:
        return graph.sub(layout.rate(graph, jet), graph.variable(jet[0], jet[1] + 1))

    rows = [
        (f"definition of {name_of(model.names[j], k + 1)}", relation((j, k)))
        for j, k in system.plain
        if k + 1 < d[j]
    ]
    starts: dict[Choice, int] = {}
    at = len(model.parameters_by_name)
    for choice in system.choices:
        starts[choice] = at
        at += choice.weights
    equations = dict(system.equations)
    for choice, number in system.open:
        terms: dict[int, list[int]] = {
            j: [graph.mul(graph.parameter(starts[choice] + at), relation((j, d[j] + number)))]
            for at, j in enumerate(choice.columns)
        }
        for at, (i, j) in enumerate(choice.entries, start=starts[choice] + len(choice.columns)):
            terms[j].append(graph.mul(graph.parameter(at), system.equations[i, system.c[i] + number]))
        for j, parts in terms.items():
            name = name_of(model.names[j], d[j] + number)
            rows.append((f"derivative of {name}, or a constraint for it", graph.add(*parts)))
        for i in choice.rows:
            del equations[i, system.c[i] + number]
    rows += [(name_of(system.names[i], order), node) for (i, order), node in equations.items()]
    invariants, entries = [*system.invariants, *extra], tuple(sorted(system.slopes))
    watched = [system.slopes[key] for key in entries]
    kept = {"choices": tuple(system.choices), "entries": entries}
    return _assemble(graph, layout, len(differential), model, rows, invariants, watched, dense, **kept)


LARGEST_RATE = 1e-8  # Largest rate of an invariant, relative to the sum of the sizes of its terms.


def check_invariants(
    model: Any, graph: Graph, analysed: Structure, invariants: Sequence[tuple[str, int]]
) -> None:
    r"""Refuse expressions that change along solutions.

    .. math::
        \dot I = \frac{\partial I}{\partial t} + \sum_{j,k} \frac{\partial I}{\partial x_j^{(k)}} x_j^{(k+1)}

    must vanish at points where the equations, differentiated as often as the offsets say, and the invariants
    themselves hold. Where no such point is found, nothing is refused.
    """
    if not invariants:
        return
    start = replace(Start.of(model), general=False)
    nodes = [node for _, node in invariants]
    for rows in ([*model.roots, *nodes], list(model.roots)):
        times = [*analysed.c.tolist(), *[0] * (len(rows) - len(model.roots))]
        points = list(find_points(Prolongation(graph, rows, times, analysed.d.tolist(), start.unit), start))
        if points:
            break
    orders, whole = [(node, 1) for node in nodes], differentiated(graph, nodes)
    for point in points:
        jets = GraphJets(whole, orders, point.system.place, point.known)
        rates = zip(invariants, jets.values(point.x).tolist(), jets.terms(point.x).tolist(), strict=True)
        for (name, _), rate, size in rates:
            if abs(rate) > LARGEST_RATE * (1e-3 + size):
                raise InputError(
                    f"{name} is no invariant of model {model.name}: it changes at a rate of {rate:.3g} at a "
                    f"point that satisfies the equations, t={point.t:.6g}; correct or leave it out"
                )


class Switch:
    """A C function with a changing target, for sweepers, which ask for the address of a kernel only once."""

    def __init__(self, form: Literal["residual", "jacobian"], target: Compiled) -> None:
        self.form, self.target = form, target
        self._where = np.array([target.address], dtype=np.int64)
        arguments = parameters_of(form)
        kinds = ", ".join(argument.split(" ")[0] for argument in arguments.split(", "))
        cell, function = llvm.pointer("i64"), llvm.pointer(f"void ({kinds})")
        text = f"""define void @kernel({arguments}) nounwind {{
%at = inttoptr i64 {self._where.ctypes.data} to {cell}
%target = load i64, {cell} %at
%function = inttoptr i64 %target to {function}
call void %function({arguments})
ret void
}}"""
        self.address, self._owners = llvm.linked(llvm.assembled(text, 0, keep=False), "kernel")

    def turn(self, target: Compiled) -> None:
        """Call another function from now on."""
        self.target = target
        self._where[0] = target.address

    def __reduce__(self) -> Any:
        return Switch, (self.form, self.target)


# Size of a pivot relative to its largest rival below which the system is pivoted again.
WEAK_PIVOT: Final = 0.1
# That size in equations that were read from a function: where it mixes all unknowns, all pivots pass 0.
WEAK_PIVOT_OF_FUNCTION: Final = 0.3
# Violation of a hidden constraint, relative to its terms, of a start that satisfies it.
LARGEST_VIOLATION: Final = 1e-8
# Part of its size to which the weakest pivot must fall before a better one is sought once more.
WORSENED_PIVOT: Final = 0.1


class _Count(Shared):
    """A number that a problem shares with its copies."""

    value = 0


class ReducedProblem(ModelProblem):
    """A model after the reduction of its index.

    The state holds the unknowns of the model and those of their derivatives that the reduced system has as
    unknowns of its own, named "der(x)". When a step begins, the pivots of the reduction are checked, or the
    columns of the dummy derivatives; where one has become small, others are chosen for this and later steps.

    Parameters
    ----------
    reduction : Reduction
        The reduced system.
    dense : bool, optional
        Whether the Jacobian is an array; up to 30 unknowns if not given, and more where pivots may change.
    **settings
        As of :class:`~dae_sdc.model.problem.ModelProblem`.

    Attributes
    ----------
    reduction : Reduction
        The reduced system.
    invariant_names : tuple of str
        Names of the :meth:`invariants`.
    reselections : int
        How often a step began with other pivots or dummies than the one before, here and in the copies that
        runs make.

    Examples
    --------
    >>> problem = ds.reduce("pendulum").problem()
    >>> problem.names, problem.invariant_names
    (('x', 'y', 'der(x)', 'der(y)', 'lambda'), ('length', 'der(length)', 'der(length, 2)'))
    """

    # The reduction is a :class:`~dae_sdc.reduction.reduction.Reduction`, whose file imports this one.
    def __init__(self, reduction: Any, *, dense: bool | None = None, **settings: Any) -> None:
        settings.setdefault("index", reduction.index)
        self.reduction = reduction
        super().__init__(reduction, dense=dense, **settings)
        self.origin = Origin(reduction.source)
        self.events = reduction.source.events
        assembled = reduction.assembled(dense)
        self._assembled = assembled
        self._weak = WEAK_PIVOT_OF_FUNCTION if reduction.source.of_function else WEAK_PIVOT
        self._bound = self._weak
        self._selection = Selection(assembled.choices, assembled.entries)
        if assembled.choices:
            self._selection.update(np.random.default_rng(0).uniform(0.5, 1.0, assembled.watched))
        self._switches: tuple[Switch, Switch] | None = None
        self._count = _Count()
        self.invariant_names = assembled.invariant_names

    @property
    def reselections(self) -> int:
        """How often pivots or dummies were chosen again."""
        return self._count.value

    def kernel_parameters(self) -> npt.ArrayLike:
        """The values of the parameters, and the weights of the relations from which states are chosen."""
        return np.concatenate([list(self.values.values()), self._selection.weights])

    @property
    def kernels(self) -> Kernels:
        """Residual and Jacobian as C functions, whose addresses stay when pivots change."""
        if not self._assembled.rivals:
            return super().kernels
        if self._switches is None:
            residual, jacobian = self.form.compiled
            self._switches = Switch("residual", residual), Switch("jacobian", jacobian)
        first, second = self._switches
        return Kernels(first.address, second.address, self._switches)

    def state_of(self, values: Mapping[str, float]) -> MeshDAE:
        """The state with values by name, as consistent initial values of the model are.

        Parameters
        ----------
        values : mapping of str to float
            Values of all unknowns, "der(x, 2)" for a second derivative; others are left out.

        Raises
        ------
        InputError
            If the value of an unknown is missing.
        """
        missing = [name for name in self.names if name not in values]
        if missing:
            raise InputError(f"the reduced {self.reduction.name} needs values of {', '.join(missing[:5])}")
        return self.state([values[name] for name in self.names])

    # Invariants

    def invariants(self, u: npt.ArrayLike, t: float) -> Vector:
        """All constraints, hidden ones too, which vanish along solutions, shape (k,).

        Parameters
        ----------
        u : array_like, shape (n,)
            State.
        t : float
            Time.
        """
        return self._values(self._assembled.invariants, u, t)

    def invariants_jacobian(self, u: npt.ArrayLike, t: float) -> Any:
        """Derivatives of the invariants by the state, shape (k, n), dense or CSC."""
        pattern = self._assembled.invariants_pattern
        entries = self._values(self._assembled.invariants_jacobian, u, t)
        if pattern is None:
            return entries.reshape(-1, self.n)
        matrix = type(pattern)((entries, pattern.indices, pattern.indptr), shape=pattern.shape)
        matrix.has_sorted_indices = True
        return matrix

    def check_start(self, u: MeshDAE, t: float) -> None:
        """Refuse a start that violates hidden constraints which the structure of the model does not tell."""
        if not self.reduction.rounded:
            return  # looked at where the start was found
        program = self._assembled.programs[0].sizes
        sizes = program.evaluate(program.arguments(t, u, p=self.kernel_parameters()))
        values = np.abs(self.invariants(u, t))
        relative = values / np.maximum(sizes, np.finfo(float).tiny)
        worst = int(relative.argmax())
        if relative[worst] > LARGEST_VIOLATION:
            raise InconsistentStateError(
                f"u0 of {self.model_name} violates hidden constraints at t={t:.6g}: "
                f"'{self.invariant_names[worst]}' ({values[worst]:.3g}); give one that satisfies them"
            )

    def _values(self, program: Compiled, u: npt.ArrayLike, t: float) -> Vector:
        out = np.empty(len(program.program.outputs))
        place = self._taken(u)
        machine("residual_at")(program.address, float(t), place, place, self.packed_parameters, out)
        return out

    @one_at_a_time
    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times just before those at which comparisons with time change in the equations."""
        model = self.origin.model
        if model is None:
            return ()
        table = timetable_of(model.graph, model.roots, list(self.values.values()), t0, t_end)
        # A stage at the end of a step is to see the limit from the left.
        before = () if table is None else (float(np.nextafter(t, -np.inf)) for t in table.times)
        return tuple(t for t in before if t0 < t < t_end)

    # The choice of pivots and dummies

    @property
    def starts_alike(self) -> bool:
        """Whether no pivots are watched that may become small."""
        return not self._assembled.watched

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Check the pivots or the columns of the dummies, and choose others where they have become small."""
        assembled = self._assembled
        if not assembled.watched:
            return
        values = self._values(assembled.watch, u, t)
        if assembled.choices:
            if self._selection.update(values):
                self._count.value += 1
                self.__dict__["_parameters"] = None
            return
        size = self._weakest(values)
        if size >= self._weak:
            self.__dict__["_bound"] = self._weak
        elif size < self._bound:
            self._pivot_again(u, t)
            weakest = self._weakest(self._values(self._assembled.watch, u, t))
            self.__dict__["_bound"] = min(self._weak, WORSENED_PIVOT * weakest)

    def _weakest(self, values: Vector) -> float:
        """Size of the weakest pivot relative to its largest rival; 0 where one has no value."""
        sizes = np.abs(values)
        if not np.isfinite(sizes).all():
            return 0.0
        rivals = np.array([sizes[part].max() for part in self._assembled.rivals])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = sizes[: len(rivals)] / rivals
        return float(ratios[rivals > 0.0].min(initial=1.0))

    @one_at_a_time
    def _pivot_again(self, u: MeshDAE, t: float) -> None:
        reduction = self.reduction
        numbers = list(self.values.values())
        place = {jet: at for at, jet in enumerate(self.form.states)}

        def value(leaf: Leaf) -> float:
            if leaf.kind == "t":
                return float(t)
            if leaf.kind == "p":
                return numbers[leaf.index]
            return float(u[place[leaf.index, leaf.order]])

        assembled = reduction.pivoted(value).assembled(self.sparsity is None)
        old, new = self.form, assembled.form
        if assembled is self._assembled or (new.states, new.n_diff) != (old.states, old.n_diff):
            return
        if old.pattern is not None and not (
            np.array_equal(old.pattern.indices, new.pattern.indices)
            and np.array_equal(old.pattern.indptr, new.pattern.indptr)
        ):
            return
        self.kernels  # noqa: B018  the switches are made with the first form
        self.form = new
        self.__dict__["_assembled"] = assembled
        self.invariant_names = assembled.invariant_names
        assert self._switches is not None
        for switch, compiled in zip(self._switches, new.compiled, strict=True):
            switch.turn(compiled)
        self._count.value += 1
