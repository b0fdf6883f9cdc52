"""Ranks of Jacobians of polynomials at solutions, and systems with conditions for a lower rank."""

from __future__ import annotations

import numpy as np

from dae_sdc.polynomials.equations import norms, with_forms
from dae_sdc.polynomials.polynomials import Complexes, Integers, PolynomialSystem

VANISHING_SINGULAR_VALUE = 1e-5
"""Singular value of a relative Jacobian up to which it counts as 0."""

Block = tuple[Complexes, Integers]
"""Coefficients and exponents of some polynomials, the parameters of :class:`PolynomialSystem`."""


def phase(random: np.random.Generator) -> complex:
    """A random complex number of modulus 1."""
    return complex(np.exp(2j * np.pi * random.random()))


def homogeneous_points(points: Complexes) -> Complexes:
    """Points of shape (p, n) in homogeneous coordinates of norm 1."""
    whole = np.hstack([np.ones((len(points), 1), dtype=np.complex128), points])
    return np.asarray(whole / norms(whole)[:, None], dtype=np.complex128)


def relative_ranks(
    homogeneous: PolynomialSystem, points: Complexes, forms: Complexes | None = None
) -> Integers:
    """Ranks of the Jacobian, with linear forms as further rows, at solutions."""
    # Shapes: points (p, n + 1), forms (k, n + 1) -> (p,).
    matrices = homogeneous.relative(points)[1]
    if forms is not None:
        matrices = with_forms(matrices, forms[None], points)
    values = np.linalg.svd(matrices, compute_uv=False)
    found: Integers = (values > VANISHING_SINGULAR_VALUE).sum(axis=1)
    return found


def least_step(jacobians: Complexes, values: Complexes) -> Complexes:
    """Least-squares solutions of minimum norm, shape (p, n), of p systems of linear equations."""
    found: Complexes = (np.linalg.pinv(jacobians) @ values[:, :, None])[:, :, 0]
    return found


def deflated(system: PolynomialSystem, rank: int, random: np.random.Generator) -> PolynomialSystem:
    r"""The system deflated at points of multiplicity above 1: with conditions for a Jacobian of rank r.

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
            *stacked([(one.coefficients, one.exponents) for one in (system, *derivatives)])
        )
    more = rank + 1
    mixing = np.linalg.qr(random.normal(size=(n, more)) + 1j * random.normal(size=(n, more)))[0]
    weights = np.exp(2j * np.pi * random.random(more))
    conditions = [
        (mixing[j, m] * derivatives[j].coefficients, widened(derivatives[j].exponents, more, m))
        for j in range(n)
        for m in range(more)
    ]
    norm = np.zeros((more + 1, n + more), dtype=np.int64)
    norm[np.arange(more), n + np.arange(more)] = 1
    return PolynomialSystem(
        *stacked(
            [
                (system.coefficients, widened(system.exponents, more)),
                added(conditions),
                (np.append(weights, -1.0)[None], norm),
            ]
        )
    )


def widened(exponents: Integers, more: int, factor: int | None = None) -> Integers:
    """Exponents with columns for ``more`` unknowns; number ``factor`` of these multiplies all monomials."""
    extra = np.zeros((len(exponents), more), dtype=np.int64)
    if factor is not None:
        extra[:, factor] = 1
    return np.hstack([exponents, extra])


def added(terms: list[Block]) -> Block:
    """The sum of polynomials that are given in different monomials."""
    return np.hstack([c for c, _ in terms]), np.concatenate([e for _, e in terms])


def stacked(blocks: list[Block]) -> Block:
    """Several systems in the same variables as one, with coefficients scaled to size 1, without zeros."""
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
