"""Order conditions of Runge-Kutta methods for ODEs and for DAEs of index 1 and 2, from rooted trees.

A tree stands for one elementary differential of y' = f(y, z), 0 = g(y, z) (index 1, g_z regular) or of
y' = f(y, z), 0 = g(y) (index 2, g_y f_z regular). It is a pair (kind, children): kind "y" for a derivative of
f, with y- and z-trees as children, kind "z" for a derivative of g multiplied by -g_z^{-1} (index 1, y- and
z-trees as children) or by -(g_y f_z)^{-1} (index 2, y-trees as children). Hairer, Lubich, Roche (1989), and
Hairer, Wanner II, Sect. VI.4 and VII.5. Only the tree that is solved for is left out: g_z z' at index 1,
g_y f_z z' at index 2.

The method's value of a tree replaces integration by A (y), and where a constraint is solved for z at index 2
by the inverse of A. With an explicit first stage the constraint is solved at the stages from the second on,
and the first keeps z at the start of the step: the inverse is that of A without its first row and column,
with zeros around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from math import prod
from typing import TypeAlias

import numpy as np

from dae_sdc.sweepers.tableaux import Tableau

Tree: TypeAlias = tuple[str, tuple["Tree", ...]]

TOLERANCE = 1e-11


def multisets(
    total: int, pool: Callable[[int], tuple[Tree, ...]], largest: int
) -> Iterator[tuple[Tree, ...]]:
    """All multisets of trees from pool(order), order <= largest, whose orders add up to total."""

    def extend(rest: int, order: int, start: int) -> Iterator[tuple[Tree, ...]]:
        if rest == 0:
            yield ()
            return
        for size in range(min(order, rest), 0, -1):
            trees = pool(size)
            for k in range(start if size == order else 0, len(trees)):
                for others in extend(rest - size, size, k):
                    yield (trees[k], *others)

    return extend(total, largest, 0)


@cache
def y_trees(order: int, index: int) -> tuple[Tree, ...]:
    """Trees of f whose order is the number of "y" less, at index 2, that of "z"."""

    def pool(size: int) -> tuple[Tree, ...]:
        return y_trees(size, index) + (z_trees(size, index) if index else ())

    return tuple(("y", children) for children in multisets(order - 1, pool, order - 1))


@cache
def z_trees(order: int, index: int) -> tuple[Tree, ...]:
    """Trees of the algebraic variable; index 1: orders of children add up to order, index 2: to order + 1."""

    def either(size: int) -> tuple[Tree, ...]:
        return y_trees(size, index) + z_trees(size, index)

    if index == 1:
        several = multisets(order, either, order - 1)
        single: Iterator[tuple[Tree, ...]] = ((tree,) for tree in y_trees(order, index))
    else:
        several = multisets(order + 1, lambda size: y_trees(size, index), order)
        # f with one child z of the same order would be the tree that is solved for.
        below = list(multisets(order, either, order - 1)) + [(tree,) for tree in y_trees(order, index)]
        single = ((("y", children),) for children in below)
    found = [("z", children) for children in (*several, *single)]
    return tuple(tree for tree in found if tree)


@cache
def order_of(tree: Tree, index: int) -> int:
    kind, children = tree
    own = 1 if kind == "y" else 1 - index
    return own + sum(order_of(child, index) for child in children)


@cache
def density(tree: Tree, index: int) -> Fraction:
    """The factor gamma: the exact solution contributes h^order / gamma."""
    kind, children = tree
    below = prod((density(child, index) for child in children), start=Fraction(1))
    if kind == "y":
        return below * order_of(tree, index)
    return below if index == 1 else below / (order_of(tree, index) + 1)


class Conditions:
    """Defects of the order conditions of one method.

    Parameters
    ----------
    A, b : ndarray
        Coefficients.
    index : int
        0 for an ODE, 1 or 2.
    stationary : int or None
        Order of z-trees at which z at the start of a step is given the error that it has far from the first
        step instead of none. Only at index 2 and with an explicit first stage does a step see z at its start:
        its error e h^k obeys e = R(inf) e + d with the local error d h^k, thus e = d / (1 - R(inf)), and
        shifts the conditions of y. This gives those of orders up to k + 2, since z-trees u of order k + 1
        enter y-trees of order k + 2 only as [u]_y, a condition that g(y_1) = 0 already fulfils.
    """

    def __init__(self, A: np.ndarray, b: np.ndarray, index: int, stationary: int | None = None) -> None:
        self.A, self.b, self.index, self.stationary = A, b, index, stationary
        self.inverse = np.zeros_like(A)
        first = 0 if A[0].any() else 1
        if index:
            self.inverse[first:, first:] = np.linalg.inv(A[first:, first:])
        self.spread = np.concatenate([np.ones(first), -(self.inverse @ A[:, 0])[first:]])
        """What an error of z at the start is at the stages, for dt to 0."""
        self._values: dict[Tree, np.ndarray] = {}

    def value(self, tree: Tree) -> np.ndarray:
        """Stage values of h f (y-tree) or of z - z0 (z-tree)."""
        if tree not in self._values:
            kind, children = tree
            value = np.ones(len(self.b))
            for child in children:
                value = value * (self.A @ self.value(child) if child[0] == "y" else self.value(child))
            if kind == "z" and self.index == 2:
                value = self.inverse @ value
                if order_of(tree, 2) == self.stationary:
                    local = value[-1] - 1 / float(density(tree, 2))
                    value = value + self.spread * local / (1.0 - self.spread[-1])
            self._values[tree] = value
        return self._values[tree]

    def defect(self, tree: Tree) -> float:
        """Relative difference between the end of the step and the exact solution."""
        value = self.value(tree)
        end = self.b @ value if tree[0] == "y" else self.b @ self.inverse @ value
        exact = 1 / float(density(tree, self.index))
        return abs(float(end) - exact) / max(1.0, abs(exact))

    def first_violated(self, kind: str, largest: int) -> int:
        """Lowest order with a condition that fails, largest + 1 if none does."""
        trees = y_trees if kind == "y" else z_trees
        for order in range(1, largest + 1):
            if any(self.defect(tree) > TOLERANCE for tree in trees(order, self.index)):
                return order
        return largest + 1


def classical_order(A: np.ndarray, b: np.ndarray, largest: int) -> int:
    return Conditions(A, b, 0).first_violated("y", largest) - 1


def local_orders(tableau: Tableau, index: int, largest: int) -> tuple[int, int]:
    """Exponents of h in the local errors of y and z from exact initial values, up to largest + 1."""
    conditions = Conditions(tableau.A, tableau.b, index)
    return conditions.first_violated("y", largest), conditions.first_violated("z", largest)


def global_orders(tableau: Tableau, index: int, largest: int) -> tuple[int, int]:
    """Orders of the global errors of y and z that the conditions imply, up to largest.

    Errors of y add up: a local error h^(p+1) gives h^p. Those of z do not, as z is solved for anew in each
    step; what remains of them is the factor R(inf). A local error h^k therefore gives h^k if abs(R(inf)) < 1,
    and h^(k-1) if R(inf) = 1. If R(inf) = -1, each error takes the last one away, e_(n+1) = -e_n + d(t_n) h^k
    with a smooth d: e_n stays of size h^k and alternates. Its effect on y alternates too and does not add up
    either. At index 1, z inherits nothing if the method is stiffly accurate, z_1 = G(y_1).

    At index 2 the method has to be stiffly accurate: with g(y_n) = 0 errors of y lie in the manifold and
    change z no more than in proportion. Gauss methods need an argument of their own.
    """
    y, z = local_orders(tableau, index, largest)
    if index == 2 and tableau.explicit_first_stage:
        reach = min(largest, z + 2)
        y = Conditions(tableau.A, tableau.b, 2, stationary=z).first_violated("y", reach)
    infinity = stability_at_infinity(tableau)
    if abs(infinity) > 1.0 + TOLERANCE:
        raise ValueError("errors of z grow without bound")
    adds_up = abs(infinity - 1.0) <= TOLERANCE
    return y - 1, min(y - 1, z - 1 if adds_up else z)


def stability_at_infinity(tableau: Tableau) -> float:
    """R(inf), the factor of an error in z at the start of a step for dt to 0.

    Without an explicit first stage it is 1 - b^T A^{-1} 1. With one, and b the last row of A, the stages obey
    sum_{j>1} a_ij dz_j = -a_i1 dz_1 at index 2.
    """
    A, b = tableau.A, tableau.b
    if tableau.explicit_first_stage:
        return float(-np.linalg.solve(A[1:, 1:], A[1:, 0])[-1])
    return float(1.0 - b @ np.linalg.solve(A, np.ones(len(b))))
