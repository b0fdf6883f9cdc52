"""Collocation in the derivative: its matrices and orders, and which Q_Delta can solve it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from pySDC.core.collocation import CollBase
from qmat.qdelta import QDELTA_GENERATORS

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.registry import unknown
from dae_sdc.sharing import Lock, filtering
from dae_sdc.sweepers.amplification import spectral_radius

# Held while qmat makes a Q_Delta: it changes the warning filters, which all threads of a process share.
QMAT = Lock()

_GENERATORS: dict[tuple[Any, ...], Any] = {}

QUADRATURES = ("RADAU-RIGHT", "LOBATTO", "GAUSS")

# Largest number of nodes: above it nodes and weights lose digits; errors reach round-off with far fewer.
MOST_NODES = 100
REFUSED_RADIUS = 0.999  # Spectral radius of the stiff limit of a sweep from which on a Q_Delta is refused.
OFFERED_RADIUS = 0.9  # Spectral radius below which a Q_Delta is offered in its place.


def expected_orders(
    quad_type: str, num_nodes: int, index: int | None, integrates_algebraic: bool = True
) -> tuple[int | None, ...]:
    """Orders in the step size of the converged collocation solution, by component class."""
    # E. Hairer, C. Lubich, M. Roche, The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta
    # Methods, LNM 1409, Springer (1989), Table 2.3 (Radau IIA, Gauss, Lobatto IIIA), Theorem 6.4 (index 3).
    m, odd = num_nodes, num_nodes % 2 == 1
    orders: dict[int, tuple[int, ...]]
    if quad_type == "RADAU-RIGHT":
        orders = {1: (2 * m - 1, 2 * m - 1), 2: (2 * m - 1, m), 3: (2 * m - 1, m, m - 1)}
    elif quad_type == "LOBATTO":
        orders = {1: (2 * m - 2, 2 * m - 2), 2: (2 * m - 2, m - 1 if odd else m)}
    elif not integrates_algebraic:
        orders = {1: (2 * m, m), 2: (m + 1, m) if odd else (m, m - 1)}
    else:
        orders = {1: (2 * m, m + 1 if odd else m), 2: (m + 1, m - 1) if odd else (m, m - 2)}
    return orders.get(index or 0, (None, None))


def determines_multiplier(quad_type: str, num_nodes: int, integrates_algebraic: bool) -> bool:
    """Whether the multiplier of an index-3 DAE converges with dt for collocation on these nodes."""
    # Where R(infinity) is not 0 (GAUSS, LOBATTO), errors of past steps stay in the multiplier, divided by
    # dt^2. Its order is then at most M - 2 for odd and M - 3 for even M with GAUSS, one less if z is
    # integrated, and M - 3 for odd and M - 2 for even M with LOBATTO.
    if quad_type == "RADAU-RIGHT":
        return True
    odd = num_nodes % 2
    if quad_type == "GAUSS":
        return num_nodes - (2 if odd else 3) - integrates_algebraic > 0
    return num_nodes - (3 if odd else 2) > 0


def check_quadrature(quad_type: Any, num_nodes: Any) -> None:
    """Refuse a quadrature type or a number of nodes that no sweeper here can take."""
    if quad_type not in QUADRATURES:
        raise InputError(
            f"quad_type '{quad_type}' cannot be used for DAEs; choose {', '.join(QUADRATURES)}"
            + (" (RADAU-LEFT has no damping at the end of a step)" if quad_type == "RADAU-LEFT" else "")
        )
    least = 2 if quad_type == "LOBATTO" else 1
    whole = isinstance(num_nodes, (int, np.integer)) and not isinstance(num_nodes, bool)
    if not whole or num_nodes < least:
        raise InputError(
            f"num_nodes must be an integer of at least {least} for {quad_type}; got {num_nodes!r}"
        )
    if num_nodes > MOST_NODES:
        raise InputError(f"num_nodes must be at most {MOST_NODES}; got {num_nodes!r}")


def qdelta_generator(coll: CollBase, name: str) -> Any:
    """The generator of qmat for a Q_Delta, cached by nodes because some take long to fit coefficients."""
    if name not in QDELTA_GENERATORS:
        raise InputError(unknown("Q_Delta", name, QDELTA_GENERATORS))
    key = QDELTA_GENERATORS[name], coll.node_type, coll.quad_type, coll.tleft, coll.tright, *coll.nodes
    if key not in _GENERATORS:
        _GENERATORS[key] = key[0](qGen=coll.generator, tLeft=coll.tleft)
    return _GENERATORS[key]


def qdelta_matrix(coll: CollBase, name: str, sweep: int = 1) -> Vector:
    """The Q_Delta of a sweep, shape (M, M)."""
    try:
        with QMAT, filtering("ignore"), np.errstate(all="ignore"):
            matrix: Vector = np.array(qdelta_generator(coll, name).genCoeffs(k=sweep))
    except NotImplementedError:
        matrix = np.full((coll.num_nodes, coll.num_nodes), np.nan)
    check_shape(coll, name, matrix)
    return matrix


def check_shape(coll: CollBase, name: str, matrix: Vector) -> None:
    """Refuse a Q_Delta by which no sweep can go node by node."""
    if matrix.shape != (coll.num_nodes, coll.num_nodes):
        raise InputError(
            f"Q_Delta '{name}' must have a row and a column of zeros for the start of the step before those "
            f"of {coll.num_nodes} nodes; got {matrix.shape[0] + 1} by {matrix.shape[-1] + 1}"
        )
    if not np.isfinite(matrix).all():
        raise InputError(
            f"Q_Delta '{name}' has no coefficients for {coll.num_nodes} {coll.quad_type} nodes; "
            f"use LU, IE or MIN-SR-S, which exist for all"
        )
    if np.triu(matrix, 1).any():
        raise InputError(
            f"Q_Delta '{name}' is not lower triangular, so no sweep node by node exists; "
            f"solve the nodes together with a coupled method (radau-iia-5, gauss-6, ...) or use LU"
        )


def stiff_limit(coll: CollBase, qdelta: Callable[[int], Vector]) -> float:
    """Contraction per sweep of unknowns fixed by constraints, dt to 0: the radius of I - Q_Delta^{-1} Q."""
    # Without the row and column of a node at the start; coefficients that change with the sweep have settled.
    first = 1 if coll.left_is_node else 0
    delta = qdelta(coll.num_nodes + 3)[first:, first:]
    if not np.diagonal(delta).all():
        return float("inf")
    matrix = np.eye(len(delta)) - np.linalg.solve(delta, coll.Qmat[1 + first :, 1 + first :])
    return spectral_radius(matrix)


def transient_growth(Q: Vector, deltas: Sequence[Vector]) -> float:
    """By how much an error of u at the nodes may grow before sweeps at constraints reduce it, at least 1."""
    # The largest norm of products of I - Q Q_Delta^{-1} over sweeps: for diagonal Q_Delta they vanish after
    # M.
    # Shapes: Q (M, M), deltas (M, M).
    growth = 1.0
    products: list[Vector] = []
    for delta in deltas:
        if np.diagonal(delta).all():
            products.append(np.eye(len(Q)))
            products = [product - Q @ np.linalg.solve(delta, product) for product in products]
            growth = max(growth, *(float(np.abs(product).sum(axis=1).max()) for product in products))
    return growth


def admissible(coll: CollBase) -> list[str]:
    """Names of the Q_Delta that contract where a constraint fixes the derivative, best first."""
    radii = _of_each(lambda name: stiff_limit(coll, partial(qdelta_matrix, coll, name)))
    offered = [(round(radius, 3), name) for name, radius in radii if radius < OFFERED_RADIUS]
    return [name for _, name in sorted(offered)]


def _of_each(function: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
    """The plainest of the names of every Q_Delta that exists, and the value of a function of it."""
    names: dict[Any, list[str]] = {}
    for name, kind in QDELTA_GENERATORS.items():
        names.setdefault(kind, []).append(name)
    for same in names.values():
        name = min(same, key=lambda name: ("_" in name, len(name), name))
        try:
            value = function(name)
        except InputError:
            continue
        yield name, value


def diagonal(coll: CollBase) -> list[str]:
    """Names of the Q_Delta that are diagonal for these nodes in every sweep, in alphabetical order."""
    sweeps = (1, 2, coll.num_nodes + 3)
    named = _of_each(lambda name: [qdelta_matrix(coll, name, sweep) for sweep in sweeps])
    return sorted(
        name
        for name, matrices in named
        if all(one.any() and not (one - np.diag(np.diagonal(one))).any() for one in matrices)
    )


def check_qdelta(coll: CollBase, name: str, index: int | None, qdelta: Callable[[int], Vector]) -> None:
    """Refuse a Q_Delta that cannot converge where a constraint fixes the derivative."""
    radius = stiff_limit(coll, qdelta)
    where = f"for {coll.num_nodes} {coll.quad_type} nodes"
    if not np.isfinite(radius):
        level = "2 or higher" if index is None else str(index)
        raise InputError(
            f"Q_Delta '{name}' has a zero on its diagonal {where}: the iteration matrix is singular at "
            f"index {level} with this sweeper; use one of {', '.join(admissible(coll))}"
        )
    if index is not None and radius >= REFUSED_RADIUS:
        raise InputError(
            f"sweeps with Q_Delta '{name}' diverge {where} at index {index} with this sweeper "
            f"(error factor {radius:.2f} a sweep as dt goes to 0); use one of {', '.join(admissible(coll))}"
        )


class SweepMatrices:
    """Q and Q_Delta of the sweeps of one sweeper, scaled by the step size when that changes."""

    # Shapes: qdelta (M + 1, M + 1), delta (M, M), dt_q and dt_delta (M, M), coefficients and offsets (M,).

    def __init__(
        self, collocation: CollBase, qdelta: Callable[[int], Vector], varies: Callable[[], bool]
    ) -> None:
        self.collocation, self._make = collocation, qdelta
        self.nodes: tuple[float, ...] = tuple(collocation.nodes.tolist())
        self.first_solved = 1 if collocation.left_is_node else 0
        self._set(1)
        self.chosen, self.varies = self.delta, varies()

    def _set(self, sweep: int) -> None:
        self.qdelta = self._make(sweep)
        self._made_for = sweep
        self._use(self.qdelta[1:, 1:])

    def _use(self, delta: Vector) -> None:
        self.delta: Vector = np.ascontiguousarray(delta)
        self.diagonal = not np.tril(self.delta, -1).any()
        self.dt = 0.0

    def of_sweep(self, sweep: int) -> Vector:
        """The chosen Q_Delta of the nodes in a sweep of the step, counted from 1, shape (M, M)."""
        return self._make(sweep)[1:, 1:] if self.varies else self.chosen

    def take(self, sweep: int) -> None:
        """Use the Q_Delta of a sweep of the step, counted from 1, where it changes from sweep to sweep."""
        if self.varies and self._made_for != sweep:
            self._set(sweep)

    def replace(self, delta: Vector) -> None:
        """Use another lower triangular matrix, shape (M, M), from now on."""
        self.qdelta[1:, 1:] = delta
        self._use(delta)

    def scale(self, dt: float) -> None:
        """Make the matrices times the step size, unless they are those already."""
        if dt != self.dt:
            self.dt = dt
            self.dt_q = np.ascontiguousarray(dt * self.collocation.Qmat[1:, 1:])
            self.dt_delta = dt * self.delta
            self.coefficients: Vector = np.diagonal(self.dt_delta).copy()
            self.offsets = dt * np.asarray(self.collocation.nodes)
