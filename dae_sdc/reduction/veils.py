"""Names for large parts of expressions, and what expressions cost with them.

A veil is a variable that stands for a part of an expression: v_k(x, t, v_1, ..., v_(k-1)). In a graph of
shared expressions every node is computed once, so that a veil only has to be given a name, and derivatives go
through it by the chain rule as they go through any node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dae_sdc.expressions.dag import Leaf
from dae_sdc.expressions.graph import Graph
from dae_sdc.expressions.operations import Cost, Op, cost
from dae_sdc.expressions.symbols import Unknown
from dae_sdc.model.sympy_input import to_sympy

LIMIT = 500
"""Nodes, operands and leaves included, above which an expression gets a name."""

REPEATED = 10
"""Divisor of the limit for expressions that stand in several places."""

_MOST = 2**62


class TreeSizes:
    """Numbers of nodes of expressions as they would be written, without sharing."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._sizes: dict[int, int] = {}

    def __getitem__(self, root: int) -> int:
        sizes, graph = self._sizes, self._graph
        stack = [root]
        while stack:
            node = stack[-1]
            if node in sizes:
                stack.pop()
                continue
            operands = graph.operands(node)
            missing = [arg for arg in operands if arg not in sizes]
            if missing:
                stack.extend(missing)
            else:
                sizes[node] = min(_MOST, 1 + sum(sizes[arg] for arg in operands))
        return sizes[root]


@dataclass(frozen=True)
class Veiled:
    """Expressions with names for their large parts."""

    nodes: tuple[int, ...]  # The parts with names, in an order in which they can be computed.
    shared: Cost  # Functions, multiplications, additions and divisions where every part is computed once.
    trees: Cost  # Operations of expressions and veils as they are written: a part in two places counts twice.


def veil(graph: Graph, roots: Sequence[int], limit: int | None = LIMIT) -> Veiled:
    """Name parts of expressions that have more than ``limit`` nodes, repeated ones from a tenth of it on."""
    sizes: dict[int, int] = {}
    own: dict[int, Cost] = {}
    named: list[int] = []
    free = Cost(0, 0, 0, 0)
    shared = trees = free
    order = graph.below(roots)
    uses = dict.fromkeys(order, 0)
    for node in order:
        for arg in graph.operands(node):
            uses[arg] += 1
    for node in order:
        op, operands = graph.op[node], graph.operands(node)
        if not operands:
            sizes[node], own[node] = 1, free
            continue
        price = cost(op, graph.args[node][1] if op is Op.INTPOW else 1)
        shared = _sum(shared, price)
        size, price = 1 + sum(sizes[arg] for arg in operands), _sum(price, *(own[arg] for arg in operands))
        if limit is not None and size > (limit / REPEATED if uses[node] > 1 else limit):
            named.append(node)
            trees = _sum(trees, price)
            size, price = 1, free
        sizes[node], own[node] = size, price
    return Veiled(tuple(named), shared, _sum(trees, *(own[root] for root in roots)))


def written_with_veils(
    graph: Graph, outputs: Sequence[int], veils: Sequence[int], symbol: Callable[[Leaf], Any]
) -> tuple[list[tuple[Any, Any]], dict[int, Any]]:
    """Veils as pairs of symbol and expression of earlier veils, and outputs by their nodes, in SymPy."""
    graph = graph.copy()

    def symbol_or_veil(leaf: Leaf) -> Any:
        return Unknown(f"v{leaf.index}") if leaf.kind == "v" else symbol(leaf)

    table: list[tuple[Any, Any]] = []
    for number, node in enumerate(veils):
        table.append((Unknown(f"v{number}"), to_sympy(graph, [node], symbol_or_veil)[0]))
        # In the copy the node becomes a leaf, so that later expressions show the veil and not its parts.
        graph.op[node], graph.args[node] = Op.INPUT, ()
        graph.leaves[node] = Leaf("v", number)
    return table, dict(zip(outputs, to_sympy(graph, outputs, symbol_or_veil), strict=True))


def _sum(*costs: Cost) -> Cost:
    return Cost(*map(sum, zip(*costs, strict=True)))
