"""Equations of a reduced system as the programs of a problem."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dae_sdc.expressions.codegen import Compiled, compile_program
from dae_sdc.expressions.dag import Leaf, name_of
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.program import Input, Program
from dae_sdc.model.problem import DENSE, Form, enter_gradient, matrix_outputs, unit_of_rate
from dae_sdc.reduction.separate import Goal, Jet, Separated
from dae_sdc.reduction.stages import Choice, Staged

# Unknowns up to which the Jacobian is dense if pivots may change, and with them its pattern.
MOST_DENSE = 150


@dataclass(frozen=True)
class Texts:
    """Names and units of the unknowns of a model, names of its equations."""

    names: Sequence[str]
    units: Sequence[str]
    equation_names: Sequence[str]


@dataclass(frozen=True, eq=False)
class Assembled:
    """A reduced system as programs."""

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

    def __deepcopy__(self, memo: Any) -> Assembled:
        return self  # nothing in it changes

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


class _Layout:
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
        idle = [
            leaf
            for leaf in graph.leaves_of(*nodes)
            if leaf.kind == "u" and (leaf.index, leaf.order) not in known
        ]
        return graph.without(nodes, map(graph.leaf, idle)) if idle else list(nodes)

    def given(self, leaf: Leaf) -> Input:
        """The input of a program for a leaf."""
        kind, j, k = leaf
        if kind == "u":
            at = self.place.get((j, k))
            return Input("du", self.rates[j, k]) if at is None else Input("u", at)
        return Input({"d": "du"}.get(kind, kind), j)


def _assemble(
    graph: Graph,
    layout: _Layout,
    n_diff: int,
    texts: Texts,
    rows: Sequence[tuple[str, int]],
    invariants: Sequence[tuple[str, int]],
    watch: Sequence[int],
    dense: bool | None,
    **extra: Any,
) -> Assembled:
    n = len(layout.states)
    nodes = layout.written(graph, [node for _, node in rows])
    dense = n <= DENSE if dense is None else dense
    c, entries = graph.leaf(Leaf("c")), dict[tuple[int, int], int]()
    for i, node in enumerate(nodes):
        enter_gradient(graph, node, i, layout.given, entries, c, parameters=True)
    pattern, outputs = matrix_outputs(graph, entries, (n, n), dense)
    form = Form(
        layout.states,
        n_diff,
        tuple(name_of(texts.names[j], k) for j, k in layout.states),
        tuple(unit_of_rate(texts.units[j], k) for j, k in layout.states),
        tuple(name for name, _ in rows),
        graph.program(nodes, layout.given),
        graph.program(layout.written(graph, outputs), layout.given),
        pattern,
    )
    held = layout.written(graph, [node for _, node in invariants])
    slopes: dict[tuple[int, int], int] = {}
    for i, node in enumerate(held):
        enter_gradient(graph, node, i, layout.given, slopes, graph.one)
    invariants_pattern, slope_nodes = matrix_outputs(graph, slopes, (len(held), n), dense)
    held_program, slope_program, watch_program = (
        graph.program(layout.written(graph, part), layout.given) for part in (held, slope_nodes, watch)
    )
    names = tuple(name for name, _ in invariants)
    programs = held_program, slope_program, watch_program
    return Assembled(form, names, programs, invariants_pattern, **extra)


def assemble_separated(
    system: Separated, goal: Goal, texts: Texts, extra: Sequence[tuple[str, int]], dense: bool | None
) -> Assembled:
    """The programs of a separated system."""
    graph, orders, found = system.graph, system.orders, system.factored
    algebraic = [(j, orders[j] - 1) for j in system.algebraic]
    everything = [(j, k) for k in range(max(orders)) for j in range(len(orders)) if k < orders[j]]
    states = [jet for jet in everything if jet not in algebraic]
    layout = _Layout([*states, *algebraic], {})
    rows = [
        (
            f"definition of {name_of(texts.names[j], k + 1)}",
            graph.sub(layout.rate(graph, (j, k)), graph.variable(j, k + 1)),
        )
        for j, k in states
        if k + 1 < orders[j]
    ]
    for name, left, right in system.equations(goal, texts.names):
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
    if goal == "implicit" and not found.rest:
        divided = divided[:-1]  # the pivots of the last elimination are in no equation
    for factors in divided:
        for pivot, others in zip(factors.pivots, factors.rivals, strict=True):
            if pivot not in graph.numbers and others:
                pivots.append(pivot)
                rivals.append(slice(len(watch), len(watch) + len(others)))
                watch += others
    if dense is None and pivots and len(layout.states) <= MOST_DENSE:
        dense = True
    return _assemble(
        graph,
        layout,
        len(states),
        texts,
        rows,
        [*system.hidden, *system.constraints, *extra],
        [*pivots, *watch],
        dense,
        rivals=tuple(slice(s.start + len(pivots), s.stop + len(pivots)) for s in rivals),
    )


def assemble_stages(
    system: Staged, texts: Texts, n_parameters: int, extra: Sequence[tuple[str, int]], dense: bool | None
) -> Assembled:
    """The programs of the stages of the Sigma-method."""
    graph, d = system.graph, system.d
    # A highest derivative whose relation is kept in any case needs no unknown.
    rates = {(j, k + 1): (j, k) for j, k in system.plain if k + 1 == d[j]}
    differential = [(j, k) for k in range(max(d)) for j in range(len(d)) if k < d[j]]
    algebraic = [(j, order) for j, order in enumerate(d) if (j, order) not in rates]
    layout = _Layout([*differential, *algebraic], rates)

    def relation(jet: Jet) -> int:
        return graph.sub(layout.rate(graph, jet), graph.variable(jet[0], jet[1] + 1))

    rows = [
        (f"definition of {name_of(texts.names[j], k + 1)}", relation((j, k)))
        for j, k in system.plain
        if k + 1 < d[j]
    ]
    starts: dict[Choice, int] = {}
    at = n_parameters
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
            constraint = system.equations[i, system.c[i] + number]
            terms[j].append(graph.mul(graph.parameter(at), constraint))
        for j, parts in terms.items():
            name = name_of(texts.names[j], d[j] + number)
            rows.append((f"derivative of {name}, or a constraint for it", graph.add(*parts)))
        for i in choice.rows:
            del equations[i, system.c[i] + number]
    rows += [(name_of(texts.equation_names[i], order), node) for (i, order), node in equations.items()]
    held = [(name_of(texts.equation_names[i], order), node) for (i, order), node in system.invariants.items()]
    entries = sorted(system.slopes)
    return _assemble(
        graph,
        layout,
        len(differential),
        texts,
        rows,
        [*held, *extra],
        [system.slopes[key] for key in entries],
        dense,
        choices=tuple(system.choices),
        entries=tuple(entries),
    )
