"""Expressions as text: as a user reads them, and as source code of Python and C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dae_sdc.expressions.dag import COMPARISONS, IRRATIONAL, Leaf, Op
from dae_sdc.expressions.graph import Graph

_ATOM: Final = 4  # How closely the parts of names, numbers and calls are bound.
_ARITHMETIC: Final = {Op.ADD: (" + ", 1), Op.MUL: ("*", 2), Op.DIV: ("/", 2)}


@dataclass(frozen=True)
class Language:
    """How operations are written."""

    # Names of functions, by those of operations; other operations are called by their names in lower case.
    calls: Mapping[str, str]
    power: str = "{}**{}"  # A power with an integer exponent.
    signs: Mapping[Op, tuple[str, int]] = field(
        default_factory=lambda: _ARITHMETIC
    )  # And how closely they bind.
    digits: bool = True  # Whether numbers have all digits, and what is made of numbers alone is one number.


# What a user reads.
TEXT: Final = Language(
    calls={"SELECT": "where"},
    signs={Op.LT: (" < ", 0), Op.LE: (" <= ", 0), **_ARITHMETIC, Op.POW: ("**", 3)},
    digits=False,
)


class Writer:
    """Texts of the nodes of a graph, with names for its leaves and for nodes that get one."""

    def __init__(self, graph: Graph, name: Callable[[Leaf], str], language: Language = TEXT) -> None:
        self.graph, self._name, self._language = graph, name, language
        self._texts: dict[int, tuple[str, int]] = {}  # Of nodes, with how closely their parts are bound.

    def text(self, node: int) -> str:
        """An expression as text."""
        for each in self.graph.below([node], known=self._texts):
            self._texts[each] = self._written(each)
        return self._texts[node][0]

    def call(self, node: int, name: str) -> None:
        """Write a name for a node from now on."""
        self._texts[node] = name, _ATOM

    def _part(self, operand: int, least: int) -> str:
        text, binding = self._texts[operand]
        return text if binding >= least else f"({text})"

    def _written(self, node: int) -> tuple[str, int]:
        graph, language = self.graph, self._language
        op, operands = graph.op[node], graph.operands(node)
        if node in graph.leaves:
            return self._name(graph.leaves[node]), _ATOM
        if language.digits and is_number(graph, node):
            return repr(graph.numeric([node], lambda leaf: np.nan).item()), _ATOM
        if node in graph.numbers:
            number = graph.numbers[node]
            return (number if isinstance(number, str) else f"{float(number):.15g}"), _ATOM
        if op is Op.NEG:
            part = self._part(operands[0], 2)
            return f"-({part})" if part.startswith("-") else f"-{part}", 1
        if op is Op.INTPOW:
            return language.power.format(self._part(operands[0], _ATOM), graph.args[node][1]), 3
        if op not in language.signs:
            named = ", ".join(self._texts[operand][0] for operand in operands)
            return f"{language.calls.get(op.name, op.name.lower())}({named})", _ATOM
        (sign, binding), (first, second) = language.signs[op], operands
        if op in COMPARISONS and first in graph.numbers:  # as in x >= 20
            first, second, sign = second, first, sign.replace("<", ">")
        elif op is Op.ADD and (graph.op[first] is Op.NEG or first in graph.numbers):
            first, second = second, first
        text = f"{self._part(first, binding)}{sign}{self._part(second, binding + (op in (Op.DIV, Op.POW)))}"
        return text.replace("+ -", "- "), binding


DEEPEST: Final = 40  # Operations within each other above which a part gets a name, as compilers have limits.


def is_number(graph: Graph, node: int) -> bool:
    """Whether an expression is made of numbers alone."""
    return not graph.mark[node] & ~IRRATIONAL


def parts_to_name(graph: Graph, nodes: Sequence[int], named: Collection[int]) -> list[int]:
    """Nodes that get a name where expressions are written: ``named`` ones, shared parts, and deep ones."""
    order = graph.below(nodes)
    uses = Counter([*nodes, *(arg for each in order for arg in graph.operands(each))])
    depths: dict[int, int] = {}
    parts = []
    for node in order:
        depths[node] = 1 + max((depths[arg] for arg in graph.operands(node)), default=-1)
        if is_number(graph, node) or node in graph.leaves or (graph.op[node] is Op.NEG and node not in named):
            continue
        if node in named or uses[node] > 1 or depths[node] > DEEPEST:
            parts.append(node)
            depths[node] = 0
    return parts
