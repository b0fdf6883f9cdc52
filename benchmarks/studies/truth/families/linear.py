"""Linear DAEs E u' + A u = f: scrambled Weierstrass forms of index 1 to 4, and such that turn with time.

With regular P and Q, E = P diag(I, N) Q and A = P diag(-J, I) Q. w = Q u has the parts w_J with w_J' = J w_J
+ g and, in each block of the nilpotent matrix N, a chain w_1 = h_1 - w_2', w_2 = h_2 - w_3', ..., w_k = h_k,
in which w_i has index k - i + 1: all of w_N is bound by constraints and hidden constraints. P and Q are
constant (``pencil``), or products of rotations that change with time (``varying``), so that no constant
change of unknowns separates the constraints.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.studies.truth import draw
from benchmarks.studies.truth.draw import Exact, Signals, identity, product
from benchmarks.studies.truth.generated import Generated, family


def _weierstrass(rng: draw.Generator, index: int) -> tuple[Exact, Exact, list[int], int]:
    """E and A in Weierstrass form, the index of each w, and the number of differential equations."""
    free = int(rng.integers(0, 3)) if index > 1 else int(rng.integers(1, 4))
    chains = [index] + ([int(rng.integers(1, index + 1))] if rng.random() < 0.5 else [])
    indices = [1] * free + [k for length in chains for k in range(length, 0, -1)]
    n = len(indices)
    E, A = np.full((n, n), Fraction(0), dtype=object), identity(n)
    E[:free, :free] = identity(free)
    A[:free, :free] = -draw.damped(rng, free)
    for i in range(free, n - 1):
        E[i, i + 1] += indices[i] > 1
    return E, A, indices, free


def _pencil(index: int, rng: draw.Generator) -> Generated:
    E, A, of_w, free = _weierstrass(rng, index)
    n = len(of_w)
    P = draw.well_conditioned(rng, n)
    full = bool(rng.random() < 0.5)
    # Either all unknowns are mixed, or they are put in order alone: those without a derivative come last.
    order = np.argsort(~(E != 0).any(axis=0), kind="stable")
    Q = draw.well_conditioned(rng, n) if full else identity(n)[order].T
    E, A = product(product(P, E), Q), product(product(P, A), Q)
    solution = draw.signals(rng, n)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        return functions.matrix(E) @ du + functions.matrix(A) @ u

    def constraints(u: Any, t: float) -> Any:
        return np.asarray(Q, dtype=float)[free:] @ (np.asarray(u) - solution(t))

    indices = tuple(max(of_w[i] for i in range(n) if Q[i, j]) for j in range(n))
    n_diff = int((E != 0).any(axis=0).sum())
    return Generated(terms, solution, n_diff, indices, free, constraints=constraints)


def _varying(index: int, rng: draw.Generator) -> Generated:
    E, A, of_w, free = _weierstrass(rng, index)
    n = len(of_w)
    S, P = Signals(draw.turning(rng, n)), Signals(draw.turning(rng, n, 1))
    dS = S.derivative()
    solution = Signals(S.entries.T) @ draw.signals(rng, n)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        turn = functions.signal(S, t)
        slope = turn @ du + functions.signal(dS, t) @ u
        rows = functions.matrix(E) @ slope + functions.matrix(A) @ (turn @ u)
        return functions.signal(P, t) @ rows

    def constraints(u: Any, t: float) -> Any:
        return (S(t) @ (np.asarray(u) - solution(t)))[free:]

    mixed = [[i for i in range(n) if S.entries[i, j].terms] for j in range(n)]
    indices = tuple(max(of_w[i] for i in rows) for rows in mixed)
    moved = np.array([(E[:, rows] != 0).any() for rows in mixed])
    dae = Generated(terms, solution, int(moved.sum()), indices, free, constraints=constraints, orders="one")
    # The unknowns without a derivative come last.
    return dae.reordered(np.argsort(~moved, kind="stable").tolist())


for _index in (1, 2, 3, 4):
    family(f"pencil-{_index}", _index, 1)(partial(_pencil, _index))
for _index in (1, 2, 3):
    family(f"varying-{_index}", _index, 2)(partial(_varying, _index))
