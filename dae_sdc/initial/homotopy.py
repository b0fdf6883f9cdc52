"""All isolated solutions of a polynomial system, by continuation from a system whose solutions are known."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.initial.polynomials import Complexes, Integers, PolynomialSystem
from dae_sdc.initial.tracking import SAME, SAME_SIMPLE, Booleans, Homotopy, follow, groups_of, norms, sizes

MOST_PATHS = 50_000
"""Number of paths up to which a system is solved."""

REAL = 1e-8
"""Imaginary part of a simple solution, in units of 1 + its size, that is round-off."""

MET = 1e-6
"""Size of the polynomials at a solution, in units of what it would be if no terms cancelled."""


@dataclass(frozen=True, eq=False)
class Roots:
    """Solutions of a polynomial system.

    Parameters
    ----------
    solutions : ndarray, shape (r, n)
        The different solutions.
    multiplicity : ndarray of int, shape (r,)
        Number of paths that end in each: for as many polynomials as variables, its multiplicity. With more
        polynomials this is the multiplicity in a random combination of them, which is 1 at a solution that
        is not singular, and otherwise at least that in all of them.
    singular : ndarray of bool, shape (r,)
        Whether the rank of the Jacobian there is below the number of variables. An isolated solution of this
        kind has a multiplicity of 2 or more; others, and possibly these, lie on a curve or surface of
        solutions.
    at_infinity : int
        Number of paths that end at infinity.
    extraneous : int
        Number of paths that end where a random combination of the polynomials vanishes, but not all of them.
    failed : int
        Number of paths that were lost; some solutions may be missing if it is not 0.
    paths, steps, retracked : int
        Number of paths, of steps of all paths together, and of paths that were followed again.
    """

    solutions: Complexes
    multiplicity: Integers
    singular: Booleans
    at_infinity: int
    extraneous: int
    failed: int
    paths: int
    steps: int
    retracked: int

    @property
    def is_real(self) -> Booleans:
        """Which solutions are real, shape (r,)."""
        allowed = np.where(self.singular, SAME, REAL) * (1.0 + sizes(self.solutions))
        found: Booleans = np.abs(self.solutions.imag).max(axis=1, initial=0.0) <= allowed
        return found

    @property
    def real(self) -> Vector:
        """The real solutions, shape (q, n)."""
        found: Vector = self.solutions[self.is_real].real
        return found


class _TotalDegree(Homotopy):
    """(1 - t) F + gamma t (x_i^d_i - x_0^d_i)."""

    def __init__(self, system: PolynomialSystem, gamma: complex) -> None:
        n, degrees = system.variables, system.degrees
        super().__init__(n)
        homogeneous = system.homogenized()
        powers = np.zeros((2 * n, n + 1), dtype=np.int64)
        powers[np.arange(n), np.arange(1, n + 1)] = degrees
        powers[n:, 0] = degrees
        start = np.hstack([np.eye(n), -np.eye(n)])
        terms = homogeneous.coefficients
        self.joint = PolynomialSystem(
            np.block([[terms, np.zeros((n, 2 * n))], [np.zeros((n, terms.shape[1])), start]]),
            np.concatenate([homogeneous.exponents, powers]),
        )
        self.target, self.gamma = homogeneous, gamma

    def equations(
        self, x: Complexes, t: Complexes, which: Integers
    ) -> tuple[Complexes, Complexes, Complexes]:
        """Jacobians, values and derivatives with respect to t."""
        values, jacobians = self.joint.both(x)
        n, now, before = self.n, (1.0 - t)[:, None], (self.gamma * t)[:, None]
        return (
            now[:, :, None] * jacobians[:, :n] + before[:, :, None] * jacobians[:, n:],
            now * values[:, :n] + before * values[:, n:],
            self.gamma * values[:, n:] - values[:, :n],
        )

    def relative(self, x: Complexes, which: Integers) -> Complexes:
        """Jacobians at t = 0, in units of what they would be if no terms cancelled."""
        return self.target.relative(x)[1]


def combined(system: PolynomialSystem, rows: int, random: np.random.Generator) -> PolynomialSystem:
    """Random combinations of the polynomials, the highest degrees first: each with all that come after it."""
    given = system.coefficients[np.argsort(-system.degrees, kind="stable")]
    weights = np.triu(np.exp(2j * np.pi * random.random((rows, len(given)))), 1)
    return PolynomialSystem(given[:rows] + weights @ given, system.exponents)


def _starts(degrees: Integers) -> Complexes:
    """The solutions of x_i^d_i = x_0^d_i in homogeneous coordinates of norm 1."""
    circles = [np.exp(2j * np.pi * np.arange(d) / d) for d in degrees.tolist()]
    points = np.array(list(product([1.0], *circles)), dtype=np.complex128)
    found: Complexes = points / np.sqrt(points.shape[1])
    return found


def _refined(system: PolynomialSystem, x: Complexes) -> Complexes:
    """Simple solutions after Newton's method in the variables of the user, where it does not lead away."""
    y = x
    with np.errstate(all="ignore"):
        for _ in range(3):
            values, jacobians = system.both(y)
            y = y - (np.linalg.pinv(jacobians) @ values[:, :, None])[:, :, 0]
        kept = norms(y - x) <= SAME * (1.0 + norms(x))
    return np.where(kept[:, None], y, x)


def _solutions_of(points: Complexes, simple: Booleans) -> list[Integers]:
    """Numbers of the ends that are the same solution; simple solutions may lie close to each other."""
    groups: list[Integers] = []
    for group in groups_of(points):
        apart = simple[group].all() and group.size > 1
        groups += [group[part] for part in groups_of(points[group], SAME_SIMPLE)] if apart else [group]
    return groups


@checked()
def solve_polynomials(
    system: PolynomialSystem, *, seed: int = 0, workers: int = 1, comm: Any = None
) -> Roots:
    r"""All isolated complex solutions of at least as many polynomials as variables.

    Every path of the total-degree homotopy is followed from t = 1 to 0 in projective coordinates, by a
    classical Runge-Kutta predictor and Newton's method with step control, many paths together. With
    probability 1 over :math:`\gamma`, the paths lead to all isolated solutions. Ends that are singular come
    from Cauchy's integral over closed circles around t = 0. Simple ends that two paths share, and paths that
    are lost, are followed again with more care. More polynomials than variables are first replaced by random
    combinations of them, and ends where not all of them vanish are dropped.

    .. math::
        (1 - t) F_i(x) + \gamma t (x_i^{d_i} - x_0^{d_i}) = 0, \qquad |\gamma| = 1

    Parameters
    ----------
    system : PolynomialSystem
        The polynomials, n or more in n variables.
    seed : int
        Seed of the random number :math:`\gamma`.
    workers : int
        Number of processes that share the paths. The solutions do not depend on it.
    comm : mpi4py.MPI.Comm, optional
        Communicator whose ranks share the paths. All of them call this, and all of them get all solutions.

    Returns
    -------
    Roots
        The solutions, with multiplicities, and the number of paths to infinity and of lost ones.

    Raises
    ------
    InputError
        If there are fewer polynomials than variables, a polynomial is constant, or there are too many paths.
    RemoteError
        If another process has failed.

    References
    ----------
    Sommese and Wampler, The numerical solution of systems of polynomials arising in engineering and science,
    World Scientific, 2005, chapters 2, 8, 10 and 13. Morgan, Sommese and Wampler, Numer. Math. 58 (1990) 669,
    for the endgame.
    """
    n = system.variables
    if system.equations < n:
        raise InputError(
            f"{system.equations} polynomials in {n} variables have no isolated solutions: give at least {n}, "
            "or take decompose, which finds curves and surfaces of solutions"
        )
    if (system.degrees == 0).any():
        row = int(np.flatnonzero(system.degrees == 0)[0]) + 1
        raise InputError(f"polynomial {row} is constant: leave it out, or correct it")
    random = np.random.default_rng(seed)
    gamma = complex(np.exp(2j * np.pi * random.random()))
    scaled, scales = system.scaled()
    square = combined(scaled, n, random) if system.equations > n else scaled
    degrees = square.degrees
    if (degrees == 0).any():
        raise InputError("the polynomials depend on each other: leave out those that follow from others")
    paths = 1
    for degree in degrees.tolist():
        paths *= degree
    if paths > MOST_PATHS:
        raise InputError(f"{paths} paths from degrees {degrees.tolist()}: at most {MOST_PATHS} are followed")
    ends = follow(_TotalDegree(square, gamma), _starts(degrees), workers=workers, comm=comm)
    far = ends.far
    solves = ends.known & ~far
    if square is not scaled:
        solves[solves] = sizes(scaled.homogenized().relative(ends.points[solves])[0]) <= MET
    points = ends.points[solves, 1:] / ends.points[solves, :1] * scales
    simple = ends.regular[solves]
    points[simple] = _refined(system, points[simple])
    groups = _solutions_of(points / scales, simple)
    solutions = [points[group].mean(axis=0) for group in groups]
    return Roots(
        solutions=np.array(solutions, dtype=np.complex128).reshape(-1, n),
        multiplicity=np.array([group.size for group in groups], dtype=np.int64),
        singular=np.array([not simple[group].all() for group in groups], dtype=np.bool_),
        at_infinity=int(far.sum()),
        extraneous=int((ends.known & ~far & ~solves).sum()),
        failed=int((~ends.known).sum()),
        paths=paths,
        steps=ends.steps,
        retracked=ends.retracked,
    )
