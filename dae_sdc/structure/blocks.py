"""Blocks of equations that are solved one after the other, the highest-value transversal, and the offsets."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

from dae_sdc.structure.signature import Integers, Signature, require_balance


@dataclass(frozen=True, eq=False)
class Block:
    """A diagonal block: equations and as many unknowns that are solved for together."""

    # rows, cols: equations, and the unknown that the transversal matches with each of them.
    rows: Integers
    cols: Integers

    @property
    def size(self) -> int:
        """Number of equations."""
        return int(self.rows.size)


def strong_components(n: int, source: Integers, goal: Integers) -> Integers:
    """Strong components of a directed graph, numbered such that no edge leads to a smaller number."""
    # Shape of the result: (n,).
    graph = coo_matrix((np.ones(source.size, dtype=np.int8), (source, goal)), shape=(n, n)).tocsr()
    count, found = connected_components(graph, directed=True, connection="strong")
    labels: Integers = found.astype(np.int64)
    # Tarjan's and Pearce's algorithms finish components in a topological order, forwards or backwards; which
    # of the two is not documented.
    if np.all(labels[source] <= labels[goal]):
        return labels
    return np.asarray(count - 1 - labels, dtype=np.int64)


def find_blocks(rows: Integers, cols: Integers, transversal: Integers) -> tuple[Block, ...]:
    """The irreducible diagonal blocks of a pattern, in an order in which they can be solved."""
    # Shapes: rows and cols (nnz,), transversal (n,).
    labels = strong_components(transversal.size, np.argsort(transversal)[cols], rows)
    by_label = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[by_label], prepend=-1))
    return tuple(Block(part, transversal[part]) for part in np.split(by_label, starts[1:]))


def fine_blocks(signature: Signature, transversal: Integers, c: Integers, d: Integers) -> tuple[Block, ...]:
    """Blocks of the system Jacobian: equations that can be solved separately within a stage."""
    # Shapes: transversal (n,), c and d (n,).
    at = np.flatnonzero(signature.orders == d[signature.cols] - c[signature.rows])
    return find_blocks(signature.rows[at], signature.cols[at], transversal)


@dataclass(frozen=True, eq=False)
class Task:
    """The part of a stage that belongs to one fine block: equations for some derivatives."""

    equations: list[tuple[int, int]]  # Numbers of an equation and of its differentiations.
    unknowns: list[tuple[int, int]]  # Unknown and order of each derivative that is solved for.
    # Unknown and order of each derivative whose value must be given, because no equation determines it.
    free: list[tuple[int, int]]
    # Whether all equations are linear in the unknowns, by differentiation or as written, so that no guess
    # is needed.
    linear: bool


@dataclass(frozen=True, eq=False)
class Stage:
    r"""Stage k of the solution scheme: equations :math:`f_i^{(k + c_i)}` for :math:`x_j^{(k + d_j)}`."""

    number: int  # k, from -max(d) to 0; derivatives of negative order are left out.
    tasks: tuple[Task, ...]  # One for each fine block that takes part, in the order of solution.

    @property
    def equations(self) -> list[tuple[int, int]]:
        """Equations of all tasks, with their orders."""
        return [pair for task in self.tasks for pair in task.equations]

    @property
    def unknowns(self) -> list[tuple[int, int]]:
        """Unknowns of all tasks, with the orders of the derivatives that are solved for."""
        return [pair for task in self.tasks for pair in task.unknowns]

    @property
    def free(self) -> list[tuple[int, int]]:
        """Unknowns whose values must be given, with the orders of derivative."""
        return [pair for task in self.tasks for pair in task.free]


@dataclass(frozen=True, eq=False, repr=False)
class Stages(Sequence[Stage]):
    r"""All stages of the solution scheme, each made when it is asked for.

    With :math:`k_c = \max_i c_i`, the stages :math:`-k_c, \dots, 0` are the blocks
    :math:`B_0, \dots, B_{k_c}` of the fast prolongation; earlier stages hold no
    equation, only values that must be given.

    References
    ----------
    W. Wu, G. Reid, S. Ilie: Implicit Riquier bases for PDAE and their semi-discretizations,
    J. Symb. Comput. 44 (2009).
    """

    blocks: Sequence[Block]
    # c, d, states, nonlinear: shape (n,), see :class:`dae_sdc.structure.analysis.Structure`.
    c: Integers
    d: Integers
    states: Integers
    nonlinear: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.d.max()) + 1

    @overload
    def __getitem__(self, index: int) -> Stage: ...
    @overload
    def __getitem__(self, index: slice) -> list[Stage]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        number = index % len(self) - len(self) + 1
        tasks = (self._task(block, number) for block in self.blocks)
        return Stage(number, tuple(task for task in tasks if task is not None))

    def _task(self, block: Block, number: int) -> Task | None:
        equations = _at(block.rows, self.c, number)
        derivatives = _at(block.cols, self.d, number)
        if not derivatives:
            return None
        free = [(j, order) for j, order in derivatives if order < self.states[j]]
        unknowns = [(j, order) for j, order in derivatives if order >= self.states[j]]
        linear = all(order > 0 or not self.nonlinear[i] for i, order in equations)
        return Task(equations, unknowns, free, linear)


def _at(members: Integers, offsets: Integers, number: int) -> list[tuple[int, int]]:
    orders = number + offsets[members]
    return [(int(i), int(order)) for i, order in zip(members, orders, strict=True) if order >= 0]


def find_transversal(signature: Signature) -> Integers:
    r"""A highest-value transversal: a different unknown for each equation, with the largest sum of orders."""
    # Shape of the result: (n,).
    require_balance(signature)
    # The matching takes explicit zeros for missing entries, so weights begin at 1.
    weights = signature.orders.max() + 1.0 - signature.orders
    graph = csr_matrix((weights, (signature.rows, signature.cols)), shape=signature.shape)
    rows, cols = min_weight_full_bipartite_matching(graph)
    transversal = np.empty(signature.shape[0], dtype=np.int64)
    transversal[rows] = cols
    return transversal


def canonical_offsets(signature: Signature, transversal: Integers) -> tuple[Integers, Integers]:
    r"""The smallest c, d >= 0 with d_j - c_i >= sigma_ij, and = on the transversal (Pryce, algorithm 3.1)."""
    # Shapes: transversal (n,) -> c, d (n,).
    n, equation_of = signature.shape[0], np.argsort(transversal)
    own = np.empty(n, dtype=np.int64)
    on = signature.cols == transversal[signature.rows]
    own[signature.rows[on]] = signature.orders[on]
    # c_i >= c_k + sigma_kj - sigma_ij where j is the unknown of equation i: longest paths in a graph.
    source, goal = signature.rows, equation_of[signature.cols]
    length = signature.orders - own[goal]
    away = source != goal
    c = _longest_paths(n, source[away], goal[away], length[away])
    return c, (c + own)[equation_of]


def _longest_paths(n: int, source: Integers, goal: Integers, length: Integers) -> Integers:
    """Length of the longest path that ends in each node, at least 0; no cycle may be longer than 0.

    Strong components are relaxed in topological order, each until it converges.
    """
    labels = strong_components(n, source, goal)
    by_source = np.argsort(source, kind="stable")
    ends = np.searchsorted(source[by_source], np.arange(n + 1)).tolist()
    goals, lengths = goal[by_source].tolist(), length[by_source].tolist()
    nodes = np.argsort(labels, kind="stable").tolist()
    label = labels.tolist()
    reach = [0] * n
    at = 0
    while at < n:
        stop = at
        while stop < n and label[nodes[stop]] == label[nodes[at]]:
            stop += 1
        waiting = deque(nodes[at:stop])
        queued = set(waiting)
        while waiting:
            node = waiting.popleft()
            queued.discard(node)
            for edge in range(ends[node], ends[node + 1]):
                other, value = goals[edge], reach[node] + lengths[edge]
                if value > reach[other]:
                    reach[other] = value
                    if label[other] == label[node] and other not in queued:
                        waiting.append(other)
                        queued.add(other)
        at = stop
    return np.array(reach, dtype=np.int64)
