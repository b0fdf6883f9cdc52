"""Linear DAEs whose unknowns and equations turn with time: E(t) u' + A(t) u = f(t) of index 1 to 3.

A Weierstrass form in w = S(t) u, rows multiplied by P(t), with S and P products of rotations. Derivatives
stand in combinations that change with time, so that no constant change of unknowns separates the constraints.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.studies.truth.families.pencils import weierstrass
from benchmarks.studies.truth.generated import FAMILIES, Generated
from benchmarks.studies.truth.random_parts import signals, turning
from benchmarks.studies.truth.signals import Signals


def _varying(index: int, seed: int) -> Generated:
    rng = np.random.default_rng([seed, index, 2])
    E, A, of_w, free = weierstrass(rng, index)
    n = len(of_w)
    S, P = Signals(turning(rng, n)), Signals(turning(rng, n, 1))
    dS = S.derivative()
    w = signals(rng, n)
    solution = Signals(S.entries.T) @ w

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        turn = functions.signal(S, t)
        slope = turn @ du + functions.signal(dS, t) @ u
        rows = functions.matrix(E) @ slope + functions.matrix(A) @ (turn @ u)
        return functions.signal(P, t) @ rows

    def constraints(u: Any, t: float) -> Any:
        return (S(t) @ (np.asarray(u) - solution(t)))[free:]

    mixed = [[i for i in range(n) if S.entries[i, j].terms] for j in range(n)]
    indices = tuple(max(of_w[i] for i in rows) for rows in mixed)
    moved = [any(E[:, i].any() for i in rows) for rows in mixed]
    # The unknowns without a derivative come last.
    order = [j for j in range(n) if moved[j]] + [j for j in range(n) if not moved[j]]
    known = (sum(moved), index, indices, free)
    how: dict[str, Any] = {"constraints": constraints, "orders": "one"}
    given = Generated(f"varying-{index}", seed, terms, solution, *known, **how)
    return given if order == list(range(n)) else given.reordered(order)


for _index in (1, 2, 3):
    FAMILIES.add(f"varying-{_index}", partial(_varying, _index))
