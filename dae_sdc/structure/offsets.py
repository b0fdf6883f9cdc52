"""Highest-value transversal of a signature matrix and the canonical offsets of its equations and unknowns."""

from __future__ import annotations

from collections import deque

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from dae_sdc.structure.blocks import strong_components
from dae_sdc.structure.signature import Integers, Signature, require_balance

_RELAXATIONS = 64  # relaxations of all entries at once, before blocks are relaxed one by one


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
    r"""The smallest c, d >= 0 with d_j - c_i >= sigma_ij and equality on the transversal.

    References
    ----------
    J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001), algorithm 3.1.
    """
    # Shapes: transversal (n,) -> c, d (n,).
    n = signature.shape[0]
    equation_of = np.empty(n, dtype=np.int64)
    equation_of[transversal] = np.arange(n)
    own = np.empty(n, dtype=np.int64)
    on = signature.cols == transversal[signature.rows]
    own[signature.rows[on]] = signature.orders[on]
    # c_i >= c_k + sigma_kj - sigma_ij where j is the unknown of equation i: longest paths in a graph.
    source, goal = signature.rows, equation_of[signature.cols]
    length = signature.orders - own[goal]
    away = source != goal
    c = _longest_paths(n, source[away], goal[away], length[away])
    d = np.empty(n, dtype=np.int64)
    d[transversal] = c + own
    return c, d


def _longest_paths(n: int, source: Integers, goal: Integers, length: Integers) -> Integers:
    """Length of the longest path that ends in each node, at least 0; no cycle may be longer than 0."""
    by_goal = np.argsort(goal, kind="stable")
    source, goal, length = source[by_goal], goal[by_goal], length[by_goal]
    reach = np.zeros(n, dtype=np.int64)
    if not source.size:
        return reach
    first = np.flatnonzero(np.diff(goal, prepend=-1))
    ends = goal[first]
    for _ in range(_RELAXATIONS):
        better = np.maximum.reduceat(reach[source] + length, first)
        if not np.any(better > reach[ends]):
            return reach
        reach[ends] = np.maximum(reach[ends], better)
    return _longest_paths_by_blocks(n, source, goal, length)


def _longest_paths_by_blocks(n: int, source: Integers, goal: Integers, length: Integers) -> Integers:
    """Lengths of longest paths by strong components in topological order, each relaxed until it converges."""
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


def structural_index(c: Integers, d: Integers) -> int:
    """Structural index: the largest c, plus 1 if some d is 0."""
    return int(c.max() + (d.min() == 0))
