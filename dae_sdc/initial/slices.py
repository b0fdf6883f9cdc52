"""Homotopies between linear sections of the solutions of polynomials, and deflation of singular ones."""

from __future__ import annotations

import numpy as np

from dae_sdc.initial.polynomials import Complexes, Integers, PolynomialSystem, magnitudes
from dae_sdc.initial.tracking import Homotopy, norms

RANK = 1e-5
"""Singular value of a relative Jacobian that is taken for 0."""


def phase(random: np.random.Generator) -> complex:
    """A random number of size 1."""
    return complex(np.exp(2j * np.pi * random.random()))


class MovingSlices(Homotopy):
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
    """

    def __init__(
        self, homogeneous: PolynomialSystem, before: Complexes, after: Complexes, gamma: complex
    ) -> None:
        super().__init__(homogeneous.variables - 1)
        self.homogeneous, self.before, self.after, self.gamma = homogeneous, before, after, gamma

    def equations(
        self, x: Complexes, t: Complexes, which: Integers
    ) -> tuple[Complexes, Complexes, Complexes]:
        """Jacobians, values and derivatives with respect to t."""
        values, jacobians = self.homogeneous.both(x)
        after, scale = self.after[which], t[:, None, None]
        forms = (1.0 - scale) * after + self.gamma * scale * self.before
        old, new = x @ self.before.T, np.einsum("pki,pi->pk", after, x)
        section = np.einsum("pki,pi->pk", forms, x)
        return (
            np.concatenate([jacobians, forms], axis=1),
            np.concatenate([values, section], axis=1),
            np.concatenate([np.zeros_like(values), self.gamma * old - new], axis=1),
        )

    def relative(self, x: Complexes, which: Integers) -> Complexes:
        """Jacobians at t = 0, in units of what they would be if no terms cancelled."""
        return _with_forms(self.homogeneous.relative(x)[1], self.after[which] * magnitudes(x)[:, None])


class Regeneration(Homotopy):
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
    """

    # What is lost on the way to infinity is missed by the trace test; what nearly goes there costs much.
    vanished = 3e-3

    def __init__(
        self, homogeneous: PolynomialSystem, slices: Complexes, factors: Complexes, gamma: complex
    ) -> None:
        super().__init__(homogeneous.variables - 1)
        self.homogeneous, self.slices, self.factors, self.gamma = homogeneous, slices, factors, gamma

    def equations(
        self, x: Complexes, t: Complexes, which: Integers
    ) -> tuple[Complexes, Complexes, Complexes]:
        """Jacobians, values and derivatives with respect to t."""
        values, jacobians = self.homogeneous.both(x)
        terms = x @ self.factors.T
        product, slope = np.ones(len(x), dtype=np.complex128), np.zeros_like(x)
        for term, factor in zip(terms.T, self.factors, strict=True):
            slope = slope * term[:, None] + product[:, None] * factor
            product = product * term
        t = t[:, None]
        changes = np.zeros((len(x), self.n), dtype=np.complex128)
        rows = values.shape[1] - 1
        changes[:, rows] = self.gamma * product - values[:, -1]
        last = (1.0 - t) * values[:, -1:] + self.gamma * t * product[:, None]
        gradient = (1.0 - t) * jacobians[:, -1] + self.gamma * t * slope
        linear = np.broadcast_to(self.slices, (len(x), *self.slices.shape))
        return (
            np.concatenate([jacobians[:, :-1], gradient[:, None], linear], axis=1),
            np.concatenate([values[:, :-1], last, x @ self.slices.T], axis=1),
            changes,
        )

    def relative(self, x: Complexes, which: Integers) -> Complexes:
        """Jacobians at t = 0, in units of what they would be if no terms cancelled."""
        return _with_forms(self.homogeneous.relative(x)[1], self.slices * magnitudes(x)[:, None])


def _with_forms(jacobians: Complexes, forms: Complexes) -> Complexes:
    """Jacobians with the linear forms of each path, scaled to norm 1, below them."""
    scaled = forms / np.linalg.norm(forms, axis=2, keepdims=True)
    return np.concatenate([jacobians, scaled], axis=1)


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
        matrices = _with_forms(matrices, forms * magnitudes(points)[:, None])
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
