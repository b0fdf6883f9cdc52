"""Homotopies between linear sections of the solutions of polynomials, and deflation of singular ones."""

from __future__ import annotations

import numpy as np

from dae_sdc.polynomials.polynomials import Complexes, Integers, PolynomialSystem
from dae_sdc.polynomials.tracking import Homotopy, norms, with_forms

RANK = 1e-5
"""Singular value of a relative Jacobian that is taken for 0."""


def phase(random: np.random.Generator) -> complex:
    """A random number of size 1."""
    return complex(np.exp(2j * np.pi * random.random()))


def moving_slices(
    homogeneous: PolynomialSystem, before: Complexes, after: Complexes, gamma: complex
) -> Homotopy:
    """F = 0 with n - k polynomials, and (1 - t) L' + gamma t L = 0 with k linear forms.

    Parameters
    ----------
    homogeneous : PolynomialSystem
        The polynomials in n + 1 homogeneous coordinates.
    before : ndarray, shape (k, n + 1)
        Linear forms L.
    after : ndarray, shape (p, k, n + 1)
        Linear forms L' of each path.
    gamma : complex
        A random number of size 1.

    Returns
    -------
    Homotopy
        The equations.
    """
    return Homotopy.to(homogeneous, gamma, before=before, after=after)


def regeneration(
    homogeneous: PolynomialSystem, slices: Complexes, factors: Complexes, gamma: complex
) -> Homotopy:
    """F = 0, L = 0, and (1 - t) g + gamma t l_1 l_2 ... l_d = 0.

    Parameters
    ----------
    homogeneous : PolynomialSystem
        F, and g as the last polynomial, in n + 1 homogeneous coordinates.
    slices : ndarray, shape (k, n + 1)
        Linear forms L.
    factors : ndarray, shape (d, n + 1)
        Linear forms l_1, ..., l_d.
    gamma : complex
        A random number of size 1.

    Returns
    -------
    Homotopy
        The equations.
    """
    return Homotopy.to(homogeneous, gamma, factors=factors, slices=slices)


def homogeneous_points(points: Complexes) -> Complexes:
    """Points of shape (p, n) in homogeneous coordinates of norm 1."""
    whole = np.hstack([np.ones((len(points), 1), dtype=np.complex128), points])
    return np.asarray(whole / norms(whole)[:, None], dtype=np.complex128)


def relative_ranks(
    homogeneous: PolynomialSystem, points: Complexes, forms: Complexes | None = None
) -> Integers:
    """Ranks of the Jacobian, with linear forms below it, at points on the solutions.

    Parameters
    ----------
    homogeneous : PolynomialSystem
        The polynomials in n + 1 homogeneous coordinates.
    points : ndarray, shape (p, n + 1)
        Solutions, in homogeneous coordinates of norm 1.
    forms : ndarray, shape (k, n + 1), optional
        The linear forms.

    Returns
    -------
    ndarray of int, shape (p,)
        The ranks, which are those with respect to the n variables.
    """
    matrices = homogeneous.relative(points)[1]
    if forms is not None:
        matrices = with_forms(matrices, forms[None], points)
    values = np.linalg.svd(matrices, compute_uv=False)
    found: Integers = (values > RANK).sum(axis=1)
    return found


def deflated(system: PolynomialSystem, rank: int, random: np.random.Generator) -> PolynomialSystem:
    r"""The system with conditions for a Jacobian of at most this rank, which vanish to a lower order.

    .. math::
        F(x) = 0, \quad J(x) C \lambda = 0, \quad h^T \lambda = 1, \qquad \lambda \in C^{r + 1}

    At rank 0, all derivatives must vanish, and no unknowns are added.

    References
    ----------
    Leykin, Verschelde and Zhao, Theoret. Comput. Sci. 359 (2006) 111.
    """
    n = system.variables
    derivatives = [system.derivative(j) for j in range(n)]
    if rank == 0:
        return PolynomialSystem(
            *stacked(
                [
                    (system.coefficients, system.exponents),
                    *((d.coefficients, d.exponents) for d in derivatives),
                ]
            )
        )
    more = rank + 1
    mixing = np.linalg.qr(random.normal(size=(n, more)) + 1j * random.normal(size=(n, more)))[0]
    weights = np.exp(2j * np.pi * random.random(more))

    def widened(exponents: Integers, multiplier: int | None) -> Integers:
        extra = np.zeros((len(exponents), more), dtype=np.int64)
        if multiplier is not None:
            extra[:, multiplier] = 1
        return np.hstack([exponents, extra])

    blocks = [(system.coefficients, widened(system.exponents, None))]
    conditions = [
        (mixing[j, m] * derivatives[j].coefficients, widened(derivatives[j].exponents, m))
        for j in range(n)
        for m in range(more)
    ]
    blocks.append((np.hstack([c for c, _ in conditions]), np.concatenate([e for _, e in conditions])))
    norm = np.zeros((more + 1, n + more), dtype=np.int64)
    norm[np.arange(more), n + np.arange(more)] = 1
    blocks.append((np.append(weights, -1.0)[None], norm))
    return PolynomialSystem(*stacked(blocks))


def stacked(blocks: list[tuple[Complexes, Integers]]) -> tuple[Complexes, Integers]:
    """Coefficients, of size 1, and exponents of several systems in the same variables, without zeros."""
    rows, columns = sum(len(c) for c, _ in blocks), sum(c.shape[1] for c, _ in blocks)
    coefficients = np.zeros((rows, columns), dtype=np.complex128)
    row = column = 0
    for part, _ in blocks:
        coefficients[row : row + len(part), column : column + part.shape[1]] = part
        row, column = row + len(part), column + part.shape[1]
    largest = np.abs(coefficients).max(axis=1, initial=0.0)
    kept = largest > 0.0
    coefficients = coefficients[kept] / largest[kept, None]
    return coefficients, np.concatenate([exponents for _, exponents in blocks])
