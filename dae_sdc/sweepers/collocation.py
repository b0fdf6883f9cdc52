"""Collocation in the derivative: the polynomial of a step, its orders, and which Q_Delta can solve it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from pySDC.core.collocation import CollBase
from qmat.lagrange import LagrangeApproximation
from qmat.qdelta import QDELTA_GENERATORS

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.registry import unknown

QUADRATURES = ("RADAU-RIGHT", "LOBATTO", "GAUSS")

DIVERGES = 0.999
"""Spectral radius of the stiff limit of a sweep from which on a Q_Delta is refused."""


USEFUL = 0.9
"""Spectral radius below which a Q_Delta is offered in its place."""


@lru_cache(maxsize=256)
def interpolation_matrix(nodes: tuple[float, ...], targets: tuple[float, ...]) -> Vector:
    """Matrix that takes values at ``nodes`` to values at ``targets``, both in units of the step."""
    matrix: Vector = LagrangeApproximation(np.array(nodes)).getInterpolationMatrix(np.array(targets))
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=256)
def continuation_matrix(
    nodes: tuple[float, ...], targets: tuple[float, ...], start: float, ratio: float
) -> Vector:
    """Matrix that takes values at ``nodes`` to values at ``start`` + ``ratio`` times ``targets``."""
    return interpolation_matrix(nodes, tuple(start + ratio * target for target in targets))


@lru_cache(maxsize=64)
def differentiation_row(nodes: tuple[float, ...], target: float) -> Vector:
    """Weights of the values at ``nodes`` in the derivative of their polynomial at ``target``."""
    approximation = LagrangeApproximation(np.array(nodes))
    at_nodes = approximation.getDerivativeMatrix()
    row: Vector = (interpolation_matrix(nodes, (target,)) @ at_nodes)[0]
    row.setflags(write=False)
    return row


@dataclass(frozen=True)
class EndDerivative:
    """What a step without a polynomial leaves behind: u' at its end.

    Parameters
    ----------
    value : ndarray, shape (n,)
        u' at the end of the step.
    """

    value: Vector

    def derivative_at_end(self) -> Vector:
        """u' at the end of the step, shape (n,)."""
        return self.value


@dataclass(frozen=True)
class StepPolynomial:
    """What a step leaves behind: the polynomials of u' and of the unknowns that are not integrated.

    Parameters
    ----------
    time, dt : float
        Start and size of the step, in the unit of time of the problem.
    nodes : tuple of float
        The M nodes in [0, 1].
    value : ndarray, shape (M, n)
        u at the nodes.
    derivative : ndarray, shape (M, n)
        u' at the nodes; meaningful in the first ``n_integrated`` columns.
    n_integrated : int
        Number of unknowns whose u' is the polynomial; for the others u itself is.
    """

    time: float
    dt: float
    nodes: tuple[float, ...]
    value: Vector
    derivative: Vector
    n_integrated: int

    def derivative_at_end(self) -> Vector:
        """u' at the end of the step, shape (n,)."""
        k = self.n_integrated
        end = np.empty(self.value.shape[1])
        if self.nodes[-1] == 1.0:
            end[:k] = self.derivative[-1, :k]
        else:
            end[:k] = interpolation_matrix(self.nodes, (1.0,))[0] @ self.derivative[:, :k]
        if k < end.size:
            end[k:] = differentiation_row(self.nodes, 1.0) @ self.value[:, k:] / self.dt
        return end

    def continuation(self, time: float, dt: float, nodes: tuple[float, ...]) -> Vector:
        """Matrix from the nodes of this step to those of a step at ``time`` of size ``dt``."""
        # Rounded, so that equal steps find their matrix made although their times are sums.
        start, ratio = round((time - self.time) / self.dt, 9), round(dt / self.dt, 9)
        return continuation_matrix(self.nodes, nodes, start, ratio)

    def extrapolate(
        self, time: float, dt: float, nodes: tuple[float, ...], value: Vector, derivative: Vector
    ) -> None:
        """Continue the polynomials to the nodes of a step at ``time`` of size ``dt``, into the given arrays.

        ``value`` receives the unknowns that are not integrated, ``derivative`` those that are.
        """
        k = self.n_integrated
        matrix = self.continuation(time, dt, nodes)
        np.matmul(matrix, self.derivative[:, :k], out=derivative[:, :k])
        if k < self.value.shape[1]:
            np.matmul(matrix, self.value[:, k:], out=value[:, k:])


FARTHEST_EXTRAPOLATION = 3.5
"""End of the new step, in units of the last one from its start, beyond which its polynomial is no guide."""


def reaches(polynomial: Any, end: float, n_integrated: int) -> bool:
    """Whether what a state carries can be continued to time ``end`` for that many integrated unknowns."""
    if not isinstance(polynomial, StepPolynomial) or polynomial.n_integrated != n_integrated:
        return False
    return (end - polynomial.time) / polynomial.dt <= FARTHEST_EXTRAPOLATION


def expected_orders(
    quad_type: str, num_nodes: int, index: int | None, integrates_algebraic: bool = True
) -> tuple[int | None, ...]:
    """Orders in the step size of the converged collocation solution, by component class.

    Parameters
    ----------
    quad_type : str
        RADAU-RIGHT, LOBATTO or GAUSS.
    num_nodes : int
        M.
    index : int or None
        Differentiation index of a DAE in Hessenberg form.
    integrates_algebraic : bool
        Whether z at the end of a step is z_0 plus the integral of z'; otherwise its polynomial is evaluated
        there, which differs for GAUSS.

    Returns
    -------
    tuple
        (y, z) at index 1 and 2, (position, velocity, multiplier) at index 3; None where theory gives none.

    References
    ----------
    E. Hairer, C. Lubich, M. Roche, The Numerical Solution of Differential-Algebraic Systems by Runge-Kutta
    Methods, LNM 1409, Springer (1989), Table 2.3 (Radau IIA, Gauss, Lobatto IIIA), Theorem 6.4 (index 3).
    """
    m = num_nodes
    if quad_type == "RADAU-RIGHT":
        return {
            1: (2 * m - 1, 2 * m - 1),
            2: (2 * m - 1, m),
            3: (2 * m - 1, m, m - 1),
        }.get(index or 0, (None, None))
    odd = m % 2 == 1
    if quad_type == "LOBATTO":
        return {
            1: (2 * m - 2, 2 * m - 2),
            2: (2 * m - 2, m - 1 if odd else m),
        }.get(index or 0, (None, None))
    if not integrates_algebraic:
        return {
            1: (2 * m, m),
            2: (m + 1, m) if odd else (m, m - 1),
        }.get(index or 0, (None, None))
    return {
        1: (2 * m, m + 1 if odd else m),
        2: (m + 1, m - 1) if odd else (m, m - 2),
    }.get(index or 0, (None, None))


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


def qdelta_matrix(coll: CollBase, name: str, sweep: int = 1) -> Vector:
    """The Q_Delta of a sweep, shape (M, M).

    Parameters
    ----------
    coll : CollBase
        pySDC's collocation.
    name : str
        A name or alias of qmat.
    sweep : int
        Sweep index from 1; matters for coefficients that change with the sweep.

    Raises
    ------
    InputError
        If the name is unknown, has no coefficients for these nodes, or is not lower triangular.
    """
    if name not in QDELTA_GENERATORS:
        raise InputError(unknown("Q_Delta", name, QDELTA_GENERATORS))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            generator = QDELTA_GENERATORS[name](qGen=coll.generator, tLeft=coll.tleft)
            matrix: Vector = np.array(
                generator.genCoeffs(k=sweep) if generator.isKDependent() else generator.genCoeffs()
            )
    except NotImplementedError:
        matrix = np.full((coll.num_nodes, coll.num_nodes), np.nan)
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
    return matrix


def stiff_limit(coll: CollBase, name: str) -> float:
    """Contraction of the unknowns fixed by constraints, per sweep, as dt goes to 0.

    It is the spectral radius of I - Q_Delta^{-1} Q, without the row and column of a node at the start of the
    step; infinite for a singular Q_Delta. A coefficient that changes with the sweep is taken where it has
    settled.
    """
    settled = coll.num_nodes + 3
    first = 1 if coll.left_is_node else 0
    delta = qdelta_matrix(coll, name, settled)[first:, first:]
    if not np.diagonal(delta).all():
        return float("inf")
    matrix = np.eye(len(delta)) - np.linalg.solve(delta, coll.Qmat[1 + first :, 1 + first :])
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def admissible(coll: CollBase) -> list[str]:
    """Names of the Q_Delta that contract where a constraint fixes the derivative, best first."""
    found = []
    for kind in set(QDELTA_GENERATORS.values()):
        names = sorted(
            (n for n, k in QDELTA_GENERATORS.items() if k is kind), key=lambda n: ("_" in n, len(n), n)
        )
        try:
            radius = stiff_limit(coll, names[0])
        except InputError:
            continue
        if radius < USEFUL:
            found.append((round(radius, 3), names[0]))
    return [name for _, name in sorted(found)]


def check_qdelta(coll: CollBase, name: str, index: int | None, constrained: bool) -> None:
    """Refuse a Q_Delta that cannot converge.

    Parameters
    ----------
    coll : CollBase
        pySDC's collocation.
    name : str
        Name of the Q_Delta.
    index : int or None
        Index of the DAE; None when unknown, then only a singular Q_Delta is refused.
    constrained : bool
        Whether a constraint fixes integrated unknowns: always from index 2 on, and at index 1 when the
        sweeper integrates the algebraic unknowns too.

    Raises
    ------
    InputError
        With the reason and the names of those that converge.
    """
    if not constrained:
        qdelta_matrix(coll, name)
        return
    radius = stiff_limit(coll, name)
    where = f"for {coll.num_nodes} {coll.quad_type} nodes"
    if not np.isfinite(radius):
        level = "2 or higher" if index is None else str(index)
        raise InputError(
            f"Q_Delta '{name}' has a zero on its diagonal {where}: the iteration matrix is singular at "
            f"index {level} with this sweeper; use one of {', '.join(admissible(coll))}"
        )
    if index is not None and radius >= DIVERGES:
        raise InputError(
            f"sweeps with Q_Delta '{name}' diverge {where} at index {index} with this sweeper "
            f"(error factor {radius:.2f} a sweep as dt goes to 0); use one of {', '.join(admissible(coll))}"
        )
