"""Choice of the free initial values, such that every stage of the solution scheme can be solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from dae_sdc.expressions.dag import PRIME
from dae_sdc.structure.blocks import Block
from dae_sdc.structure.rank import exact_rank
from dae_sdc.structure.signature import Integers


def choose_states(
    values: Mapping[tuple[int, int], int], blocks: Sequence[Block], c: Integers, d: Integers
) -> Integers:
    """Number of free initial values of each unknown, such that every stage can be solved.

    Equations that are differentiated more often take part in earlier stages. In their order each is matched
    with an unknown, that of the transversal where possible, such that the rest of the matrix stays regular.
    """
    # Shapes: c and d (n,) -> (n,).
    states = np.zeros(d.size, dtype=np.int64)
    rows: dict[int, dict[int, int]] = {}
    for (i, j), value in values.items():
        if value:
            rows.setdefault(i, {})[j] = value
    for block in blocks:
        if block.size == 1 or any(i not in rows for i in block.rows.tolist()):
            states[block.cols] = d[block.cols] - c[block.rows]
            continue
        own = set(block.cols.tolist())
        inner = {i: {j: v for j, v in rows[i].items() if j in own} for i in block.rows.tolist()}
        if _is_nested(inner, block, c):
            states[block.cols] = d[block.cols] - c[block.rows]
            continue
        wanted = dict(zip(block.rows.tolist(), block.cols.tolist(), strict=True))
        order = sorted(wanted, key=lambda i: -int(c[i]))
        pivots = _pivots([inner[i] for i in order], [wanted[i] for i in order])
        states[pivots] = d[pivots] - c[order]
    return states


def _is_nested(rows: Mapping[int, Mapping[int, int]], block: Block, c: Integers) -> bool:
    """Whether the equations of every stage are independent in the unknowns of the transversal."""
    for level in np.unique(c[block.rows])[1:]:
        early = np.flatnonzero(c[block.rows] >= level)
        place = {j: at for at, j in enumerate(block.cols[early].tolist())}
        values = {
            (at, place[j]): value
            for at, i in enumerate(block.rows[early].tolist())
            for j, value in rows[i].items()
            if j in place
        }
        whole = Block(np.arange(early.size), np.arange(early.size))
        if exact_rank(early.size, values, [whole]).rank < early.size:
            return False
    return True


def _pivots(rows: Sequence[dict[int, int]], wanted: Sequence[int]) -> list[int]:
    """Columns of the pivots of an elimination in the order of the rows, ``wanted`` ones where possible."""
    number: dict[int, int] = {}  # number of the pivot in a column
    reduced: list[dict[int, int]] = []
    pivots: list[int] = []
    for row, column in zip(rows, wanted, strict=True):
        ahead = [number[j] for j in row if j in number]
        heapify(ahead)
        while ahead:
            at = heappop(ahead)
            factor = row.get(pivots[at], 0)
            if not factor:
                continue
            for j, value in reduced[at].items():
                before = row.get(j, 0)
                left = (before - factor * value) % PRIME
                if not left:
                    row.pop(j, None)
                    continue
                row[j] = left
                if not before and j in number:
                    heappush(ahead, number[j])
        pivot = column if column in row else min(row)
        scale = pow(row[pivot], -1, PRIME)
        number[pivot] = len(pivots)
        pivots.append(pivot)
        reduced.append({j: value * scale % PRIME for j, value in row.items()})
    return pivots
