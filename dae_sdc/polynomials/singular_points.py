"""Singular points of the solutions of polynomials: where the Jacobian loses rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.polynomials.homotopy import REAL_TOLERANCE, gaussian, relative_ranks, with_kernel
from dae_sdc.polynomials.polynomials import Complexes, Integers, PolynomialSystem
from dae_sdc.polynomials.tracking import Booleans, groups_of, sizes
from dae_sdc.polynomials.witness import Decomposition, decompose, shown_number


@dataclass(frozen=True, eq=False)
class SingularPoints:
    """Points where the Jacobian of polynomials has a lower rank than at nearby solutions.

    Parameters
    ----------
    points : ndarray, shape (k, n)
        Isolated singular points, complex.
    ranks : ndarray of int, shape (k,)
        Ranks of the Jacobian there.
    generic_rank : int
        Rank at general points of the solutions; the largest such rank if there are several components.
    sets : tuple of int
        Dimensions of the sets of singular points that are not isolated, and not in ``points``.
    failed : int
        Number of paths that were lost; some points may be missing if it is not 0.

    Examples
    --------
    >>> system = ds.PolynomialSystem([[1, -1]], [[2, 0], [0, 2]])  # x^2 - y^2
    >>> points = ds.singular_points(system)
    >>> points.real.round(6) + 0.0, points.generic_rank
    (array([[0., 0.]]), 1)
    """

    points: Complexes
    ranks: Integers
    generic_rank: int
    sets: tuple[int, ...]
    failed: int

    @property
    def is_real(self) -> Booleans:
        """Which of the points are real, shape (k,)."""
        size = 1.0 + sizes(self.points)
        real: Booleans = np.abs(self.points.imag).max(axis=1, initial=0.0) <= REAL_TOLERANCE * size
        return real

    @property
    def real(self) -> Vector:
        """The real points, shape (q, n)."""
        return self.points[self.is_real].real

    def __str__(self) -> str:
        lines = [
            f"rank {rank} instead of {self.generic_rank} at ({', '.join(map(shown_number, point))})"
            for point, rank in zip(self.points, self.ranks.tolist(), strict=True)
        ] or ["no isolated singular points"]
        lines += [f"a set of singular points of dimension {dimension}" for dimension in self.sets]
        if self.failed:
            lines.append(f"{self.failed} paths were lost: some points may be missing")
        return "\n".join(lines)


def _degenerate(
    system: PolynomialSystem, rank: int, seed: int, random: np.random.Generator
) -> tuple[list[tuple[int, Complexes]], int]:
    """Dimension and a point of each set where the rank is lower, and the number of lost paths."""
    n, k = system.variables, system.equations
    # Kernels from the left, or the right, are unique where the rank is one lower.
    left, columns = k == rank, 1 if k == rank else n - rank + 1
    basis = np.linalg.qr(gaussian(random, (k, k) if left else (n, n)))[0]
    wider = with_kernel(system, basis, columns, left)
    parts = decompose(wider, seed=seed)
    found = []
    for part in parts.components:
        point = part.witness[:1, :n]
        here = int(relative_ranks(system, point)[0])
        nullity = n - here
        kernels = k - here - 1 if left else columns * (nullity - columns)
        dimension = max(0, part.dimension - kernels)
        found += [(dimension, one) for one in (part.witness[:, None, :n] if dimension == 0 else [point])]
    return found, parts.failed


@checked()
def singular_points(
    system: PolynomialSystem, *, seed: int = 0, decomposition: Decomposition | None = None
) -> SingularPoints:
    r"""Isolated solutions at which the rank of the Jacobian is lower than at solutions near them.

    For each dimension d of the components, a numerical irreducible decomposition finds the solutions of

    .. math::
        F(x) = 0, \quad J(x) N = 0, \qquad N \in C^{n \times (d + 1)}

    with N of full rank, or :math:`J(x)^T \lambda = 0` where there are n - d polynomials. Singular points that
    are not isolated are reported as a set; a component that is singular at all of its points is such a set.

    Parameters
    ----------
    system : PolynomialSystem
        The polynomials.
    seed : int
        Seed of all random numbers. The result holds with probability 1.
    decomposition : Decomposition, optional
        Irreducible decomposition of the system; computed if not given.

    Returns
    -------
    SingularPoints
        Isolated singular points, ranks, and dimensions of other singular sets.

    Raises
    ------
    InputError
        If there are too many paths.

    References
    ----------
    Bates, Hauenstein, Peterson and Sommese, Numerical decomposition of the rank-deficiency set of a matrix of
    multivariate polynomials, in: Approximate Commutative Algebra, Springer, 2009, 55.

    Examples
    --------
    >>> system = ds.PolynomialSystem([[1, -1]], [[2, 0], [0, 2]])  # x^2 - y^2
    >>> points = ds.singular_points(system)
    >>> points.real.round(6) + 0.0, points.generic_rank
    (array([[0., 0.]]), 1)
    """
    n, random = system.variables, np.random.default_rng(seed)
    parts = decompose(system, seed=seed) if decomposition is None else decomposition
    curved = [part for part in parts.components if part.dimension > 0]
    generic = max((part.rank for part in parts.components), default=0)
    points, ranks = [], []
    sets = [part.dimension for part in curved if not part.multiplicity_one]
    failed = parts.failed
    scaled, scales = system.scaled()
    scaled = PolynomialSystem(scaled.coefficients[(scaled.coefficients != 0.0).any(axis=1)], scaled.exponents)
    for dimension in sorted({part.dimension for part in curved if part.multiplicity_one and part.rank > 0}):
        found, lost = _degenerate(scaled, n - dimension, seed, random)
        failed += lost
        for size, point in found:
            here = int(relative_ranks(scaled, point)[0])
            through = (part.rank for part in curved if part.contains(point * scales)[0])
            around = max(through, default=None)
            if around is None or here >= around:
                continue
            if size > 0:
                sets.append(size)
            else:
                points.append(point[0] * scales)
                ranks.append(here)
    whole = np.array(points, dtype=np.complex128).reshape(-1, n)
    first = [int(group[0]) for group in groups_of(whole)]
    return SingularPoints(
        points=whole[first],
        ranks=np.array(ranks, dtype=np.int64)[first],
        generic_rank=generic,
        sets=tuple(sorted(set(sets), reverse=True)),
        failed=failed,
    )
