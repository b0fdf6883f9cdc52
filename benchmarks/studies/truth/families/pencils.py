"""Linear DAEs E u' + A u = f with constant matrices: scrambled Weierstrass forms of index 1 to 4.

With regular P and Q, E = P diag(I, N) Q and A = P diag(-J, I) Q. w = Q u has the parts w_J with w_J' = J w_J
+ g and, in each block of the nilpotent matrix N, a chain w_1 = h_1 - w_2', w_2 = h_2 - w_3', ..., w_k = h_k,
in which w_i has index k - i + 1: all of w_N is bound by constraints and hidden constraints.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.studies.truth.generated import FAMILIES, Generated
from benchmarks.studies.truth.random_parts import Generator, damped, identity, signals, well_conditioned
from benchmarks.studies.truth.signals import Exact, product


def weierstrass(rng: Generator, index: int) -> tuple[Exact, Exact, tuple[int, ...], int]:
    """E and A in Weierstrass form, the index of each w, and the number of differential equations."""
    free = int(rng.integers(0, 3)) if index > 1 else int(rng.integers(1, 4))
    chains = [index] + ([int(rng.integers(1, index + 1))] if rng.random() < 0.5 else [])
    n = free + sum(chains)
    E = np.array([[Fraction(0)] * n for _ in range(n)], dtype=object)
    A = identity(n)
    E[:free, :free] = identity(free)
    A[:free, :free] = -damped(rng, free)
    indices, at = [1] * free, free
    for length in chains:
        for i in range(length - 1):
            E[at + i, at + i + 1] = Fraction(1)
        indices += list(range(length, 0, -1))
        at += length
    return E, A, tuple(indices), free


def _pencil(index: int, seed: int) -> Generated:
    rng = np.random.default_rng([seed, index, 1])
    E, A, of_w, free = weierstrass(rng, index)
    n = len(of_w)
    P = well_conditioned(rng, n)
    full = bool(rng.random() < 0.5)
    # Either all unknowns are mixed, or they are put in order alone: those without a derivative come last.
    order = [j for j in range(n) if any(E[:, j])] + [j for j in range(n) if not any(E[:, j])]
    Q = well_conditioned(rng, n) if full else identity(n)[order].T
    E, A = product(product(P, E), Q), product(product(P, A), Q)
    solution = signals(rng, n)

    def terms(u: Any, du: Any, t: Any, functions: Any) -> Any:
        return functions.matrix(E) @ du + functions.matrix(A) @ u

    bound = np.asarray(Q, dtype=float)[free:]

    def constraints(u: Any, t: float) -> Any:
        return bound @ (np.asarray(u) - solution(t))

    indices = tuple(max(of_w[i] for i in range(n) if Q[i, j]) for j in range(n))
    n_diff = sum(any(E[:, j]) for j in range(n))
    return Generated(
        f"pencil-{index}", seed, terms, solution, n_diff, index, indices, free, constraints=constraints
    )


for _index in (1, 2, 3, 4):
    FAMILIES.add(f"pencil-{_index}", partial(_pencil, _index))
