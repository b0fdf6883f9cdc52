"""The index of every unknown, from the blocks of the system Jacobian."""

from __future__ import annotations

import numpy as np

from dae_sdc.structure.analysis import Structure


def index_of_unknowns(found: Structure) -> tuple[int, ...]:
    r"""Index of each unknown: number of differentiations of equations that determine its first derivative.

    In stage k of the solution scheme a block determines the derivatives of order :math:`d_j + k` of its
    unknowns by its equations i, differentiated :math:`c_i + k` times. These contain other unknowns, of orders
    up to :math:`\sigma_{ij} + c_i + k`, from earlier stages or other blocks. The largest number of
    differentiations in all these equations is the index, at least 1; the largest index is that of the DAE.

    References
    ----------
    J. D. Pryce: A simple structural analysis method for DAEs, BIT 41 (2001).
    """
    n, signature = found.size, found.signature
    c, d = found.c.tolist(), found.d.tolist()
    block_of = np.empty(n, dtype=np.int64)
    for number, block in enumerate(found.fine):
        block_of[block.cols] = number
    entries: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for i, j, order in np.column_stack([signature.rows, signature.cols, signature.orders]).tolist():
        entries[i].append((j, order))
    known: dict[tuple[int, int], int] = {}

    def needed(number: int, stage: int) -> list[tuple[int, int]]:
        """Blocks and stages on whose results a block depends in a stage."""
        return [
            (int(block_of[j]), order + c[i] + stage - d[j])
            for i in found.fine[number].rows.tolist()
            if c[i] + stage >= 0
            for j, order in entries[i]
        ]

    for j in range(n):
        waiting = [(int(block_of[j]), 1 - d[j])]
        while waiting:
            step = waiting[-1]
            others = [other for other in needed(*step) if other != step]
            missing = [other for other in others if other not in known]
            waiting.extend(missing)
            if not missing:
                own = [c[i] + step[1] for i in found.fine[step[0]].rows.tolist()]
                known[step] = max(0, *own, *(known[other] for other in others))
                waiting.pop()
    return tuple(max(1, known[int(block_of[j]), 1 - d[j]]) for j in range(n))
