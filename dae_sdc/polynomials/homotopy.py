"""All isolated solutions of a polynomial system, by continuation from a system whose solutions are known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.polynomials.polynomials import (
    INFINITE,
    Complexes,
    Homotopy,
    Integers,
    PolynomialSystem,
    norms,
    with_forms,
)
from dae_sdc.polynomials.tracking import (
    SAME_END,
    SAME_EXACT_END,
    Booleans,
    Ends,
    Progress,
    follow,
    groups_of,
    observed,
    sizes,
)

VANISHING_SINGULAR_VALUE = 1e-5  # Singular value of a relative Jacobian up to which it counts as 0.
# Coefficients and exponents of some polynomials, the parameters of :class:`PolynomialSystem`.
Block = tuple[Complexes, Integers]


def phase(random: np.random.Generator) -> complex:
    """A random complex number of modulus 1."""
    return complex(np.exp(2j * np.pi * random.random()))


def homogeneous_points(points: Complexes) -> Complexes:
    """Points of shape (p, n) in homogeneous coordinates of norm 1."""
    whole = np.hstack([np.ones((len(points), 1), dtype=np.complex128), points])
    return np.asarray(whole / norms(whole)[:, None], dtype=np.complex128)


def relative_ranks(system: PolynomialSystem, points: Complexes, forms: Complexes | None = None) -> Integers:
    """Ranks of the Jacobian, with linear forms as further rows, at solutions."""
    # Shapes: points (p, n), forms (k, n + 1) -> (p,).
    whole = homogeneous_points(points)
    matrices = system.homogenized().relative(whole)[1]
    if forms is not None:
        matrices = with_forms(matrices, forms[None], whole)
    return ranks_of(matrices)


def ranks_of(matrices: Complexes) -> Integers:
    """Ranks of relative Jacobians."""
    values = np.linalg.svd(matrices, compute_uv=False)
    return np.asarray((values > VANISHING_SINGULAR_VALUE).sum(axis=1))


def gaussian(random: np.random.Generator, shape: tuple[int, ...]) -> Complexes:
    """Complex numbers whose parts are normally distributed."""
    return np.asarray(random.normal(size=shape) + 1j * random.normal(size=shape))


def least_step(jacobians: Complexes, values: Complexes) -> Complexes:
    """Least-squares solutions of minimum norm, shape (p, n), of p systems of linear equations."""
    return (np.linalg.pinv(jacobians) @ values[:, :, None])[:, :, 0]


def deflated(system: PolynomialSystem, rank: int, random: np.random.Generator) -> PolynomialSystem:
    """The system deflated where its Jacobian has rank r < n: with a kernel vector among r + 1 random ones."""
    # At rank 0 all derivatives must vanish. Leykin, Verschelde, Zhao, Theoret. Comput. Sci. 359 (2006) 111.
    n = system.variables
    columns = [system.derivative(j) for j in range(n)]
    if rank == 0:
        return stacked([(one.coefficients, one.exponents) for one in (system, *columns)])
    basis = np.linalg.qr(gaussian(random, (n, rank + 1)))[0]
    return extended(system, with_kernel(columns, basis))


def with_kernel(columns: Sequence[PolynomialSystem], basis: Complexes) -> PolynomialSystem:
    """Equations M(x) B [1; y] = 0 of a matrix of polynomials, by its columns, with more unknowns y."""
    more = len(basis[0]) - 1
    products = [
        (factor * column.coefficients, widened(column.exponents, more, k - 1 if k else None))
        for column, factors in zip(columns, basis, strict=True)
        for k, factor in enumerate(factors)
    ]
    return stacked([added(products)])


def extended(system: PolynomialSystem, equations: PolynomialSystem) -> PolynomialSystem:
    """The system with more equations, of which the variables beyond those of the system are new."""
    exponents = widened(system.exponents, equations.variables - system.variables)
    return stacked([(system.coefficients, exponents), (equations.coefficients, equations.exponents)])


def widened(exponents: Integers, more: int, factor: int | None = None) -> Integers:
    """Exponents with columns for ``more`` unknowns; number ``factor`` of these multiplies all monomials."""
    extra = np.zeros((len(exponents), more), dtype=np.int64)
    if factor is not None:
        extra[:, factor] = 1
    return np.hstack([exponents, extra])


def added(terms: list[Block]) -> Block:
    """The sum of polynomials that are given in different monomials."""
    return np.hstack([c for c, _ in terms]), np.concatenate([e for _, e in terms])


def stacked(blocks: list[Block]) -> PolynomialSystem:
    """Several systems in the same variables as one, with coefficients scaled to size 1, without zeros."""
    coefficients = block_diag(*(part for part, _ in blocks))
    largest = np.abs(coefficients).max(axis=1, initial=0.0)
    kept = largest > 0.0
    exponents = np.concatenate([powers for _, powers in blocks])
    return PolynomialSystem(coefficients[kept] / largest[kept, None], exponents)


MOST_PATHS = 50_000  # Largest number of paths that are followed.
GAMMAS = 2  # Largest number of choices of gamma that are tried while paths are lost.
# Imaginary part of a simple solution, relative to 1 + its size, that is round-off.
REAL_TOLERANCE = 1e-8
# Relative round-off of a coefficient, which may split a multiple solution into several simple ones.
COEFFICIENT_NOISE = 1e-15
# Size of the polynomials at a solution, relative to that of their terms.
RESIDUAL_TOLERANCE = 1e-6


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
    certified : ndarray of bool, shape (r,)
        Which solutions are proved to exist, to be simple, and to be different from each other.
    proved_real, proved_complex : ndarray of bool, shape (r,)
        Which solutions are proved to be real, and which not to be real.
    uncertified_because : str
        Why no proof was possible; empty otherwise.

    Examples
    --------
    >>> roots = ds.solve_polynomials(ds.PolynomialSystem([[1, -2]], [[2], [0]]))  # x^2 - 2
    >>> np.sort(roots.real[:, 0]).round(6), roots.failed
    (array([-1.414214,  1.414214]), 0)
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
    certified: Booleans
    proved_real: Booleans
    proved_complex: Booleans
    uncertified_because: str = ""

    @property
    def is_real(self) -> Booleans:
        """Which solutions are real, shape (r,): by proof where there is one, otherwise up to round-off."""
        allowed = np.where(self.singular, SAME_END, REAL_TOLERANCE) * (1.0 + sizes(self.solutions))
        small = np.abs(self.solutions.imag).max(axis=1, initial=0.0) <= allowed
        return np.asarray(self.proved_real | (small & ~self.proved_complex))

    @property
    def real(self) -> Vector:
        """The real solutions, shape (q, n)."""
        return self.solutions[self.is_real].real

    def __str__(self) -> str:
        regular = int((~self.singular).sum())
        text = f"{len(self.solutions)} solutions, {len(self.real)} real, {regular} regular"
        for multiplicity, count in sorted(Counter(self.multiplicity[self.singular].tolist()).items()):
            text += f", {count} of multiplicity {multiplicity}"
        if self.uncertified_because:
            text += f"; not certified: {self.uncertified_because}"
        else:
            text += f", {int(self.certified.sum())} certified, {int(self.proved_real.sum())} proved real"
        text += f"\n{self.paths} paths, {self.at_infinity} to infinity"
        if self.extraneous:
            text += f", {self.extraneous} to where not all polynomials vanish"
        return text + (f", {self.failed} lost: solutions may be missing" if self.failed else "")


def combined(system: PolynomialSystem, rows: int, random: np.random.Generator) -> PolynomialSystem:
    """Random combinations of each of the first polynomials, by decreasing degree, with all that follow it."""
    given = system.coefficients[np.argsort(-system.degrees, kind="stable")]
    weights = np.triu(np.exp(2j * np.pi * random.random((rows, len(given)))), 1)
    return PolynomialSystem(given[:rows] + weights @ given, system.exponents)


def _starts(degrees: Integers) -> Complexes:
    """The solutions of x_i^d_i = x_0^d_i in homogeneous coordinates of norm 1."""
    circles = [np.exp(2j * np.pi * np.arange(d) / d) for d in degrees.tolist()]
    points = np.array(list(product([1.0], *circles)), dtype=np.complex128)
    return np.asarray(points / np.sqrt(points.shape[1]), dtype=np.complex128)


def refined(system: PolynomialSystem, points: Complexes, slices: Complexes) -> tuple[Complexes, Booleans]:
    """Affine points refined by the Gauss-Newton method on linear forms, and which of them are regular."""
    # Shapes: points (p, n), slices (k, n + 1).
    x, size, change = points, 1.0 + sizes(points), np.full(len(points), np.inf)
    for _ in range(4):
        values, jacobians = system.both(x)
        linear = np.broadcast_to(slices[:, 1:], (len(x), *slices[:, 1:].shape))
        residual = np.concatenate([values, x @ slices[:, 1:].T + slices[:, 0]], axis=1)
        step = least_step(np.concatenate([jacobians, linear], axis=1), residual)
        x, change = x - step, sizes(step)
    good = (sizes(x - points) <= 100.0 * SAME_END * size) & (change <= 1e-9 * size)
    good &= relative_ranks(system, x, slices) == x.shape[1]
    return np.where(good[:, None], x, points), good


def _multiple(system: PolynomialSystem, points: Complexes, simple: Booleans) -> list[Integers]:
    """Groups of the numbers of ends that are the same solution."""
    # Simple ends near each other are one only if round-off in the coefficients may have split a multiple
    # solution into them: if the polynomials nearly vanish at their mean.
    groups: list[Integers] = []
    for group in groups_of(points):
        together = group.size == 1
        if not together and system.rounded:
            whole = homogeneous_points(points[group].mean(axis=0)[None])
            allowed = COEFFICIENT_NOISE * (system.coefficients != 0.0).sum(axis=1).max()
            together = bool(sizes(system.homogenized().relative(whole)[0])[0] <= allowed)
        if together:
            groups.append(group)
            continue
        apart, other = group[simple[group]], group[~simple[group]]
        groups += [apart[part] for part in groups_of(points[apart], SAME_EXACT_END)]
        groups += [other] if other.size else []
    return groups


@checked()
def solve_polynomials(
    system: PolynomialSystem,
    *,
    seed: int = 0,
    workers: int = 1,
    comm: Any = None,
    certify: bool = True,
    progress: Progress = False,
) -> Roots:
    r"""All isolated complex solutions of at least as many polynomials as variables.

    Every path of the total-degree homotopy is followed from t = 1 to 0 in projective coordinates, by a
    classical Runge-Kutta predictor and Newton's method with step control. With probability 1 over
    :math:`\gamma`, the paths lead to all isolated solutions. Singular ends and ends at infinity are computed
    by Cauchy's integral over closed circles around t = 0. Paths that are lost, or share a simple end, are
    followed again with smaller tolerances, then in double-double arithmetic, then with another
    :math:`\gamma`. More polynomials than variables are replaced by random combinations of them first, and
    ends where not all of them vanish are dropped.

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
        Communicator whose ranks share the paths. All ranks have to call this, and get all solutions.
    certify : bool
        Whether to prove solutions, see :func:`~dae_sdc.polynomials.homotopy.certify`; without
        python-flint none is proved.
    progress : bool or callable
        Whether a bar is shown; None where there is a terminal. A function is called with the number of paths
        that are followed, their number, and the unit "path".

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

    Examples
    --------
    >>> import sympy as sp
    >>> x, y = sp.symbols("x y")
    >>> system = ds.PolynomialSystem.from_sympy([x**2 + y**2 - 1, x - y], [x, y])
    >>> roots = ds.solve_polynomials(system)
    >>> np.sort(roots.real[:, 0]).round(6), roots.failed
    (array([-0.707107,  0.707107]), 0)
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
    scaled, scales = system.scaled()
    attempts = list[Ends]()
    while len(attempts) < GAMMAS and not (attempts and attempts[-1].known.all()):
        gamma = phase(random)
        square = combined(scaled, n, random) if system.equations > n else scaled
        degrees = square.degrees
        if (degrees == 0).any():
            raise InputError("the polynomials depend on each other: leave out those that follow from others")
        paths = math.prod(degrees.tolist())
        if paths > MOST_PATHS:
            raise InputError(
                f"{paths} paths from degrees {degrees.tolist()}: at most {MOST_PATHS} are followed"
            )
        homotopy = Homotopy.to(square.homogenized(), gamma, degrees=degrees, exact=square is scaled)
        with observed(None, progress, scales):
            attempts.append(follow(homotopy, _starts(degrees), workers=workers, comm=comm))
    best = min(attempts, key=lambda ends: (~ends.known).sum())
    return _roots(system, scaled, scales, best, certify)


def _roots(
    system: PolynomialSystem, scaled: PolynomialSystem, scales: Vector, ends: Ends, certified: bool
) -> Roots:
    """The solutions, from the ends of the paths in scaled variables."""
    n, far = system.variables, ends.state == INFINITE
    solves = ends.known & ~far
    if system.equations > n:
        solves[solves] = sizes(scaled.homogenized().relative(ends.points[solves])[0]) <= RESIDUAL_TOLERANCE
    points = ends.points[solves, 1:] / ends.points[solves, :1]
    simple = ends.regular[solves]
    if system.equations > n:
        points[simple] = refined(scaled, points[simple], ends.points[:0])[0]
    groups = _multiple(scaled, points, simple)
    solutions = np.array([points[group].mean(axis=0) for group in groups]).reshape(-1, n)
    singular = np.array([group.size > 1 or not simple[group].all() for group in groups], dtype=np.bool_)
    proved = certify(scaled, solutions, ~singular) if certified else unproved(solutions, "not asked for")
    return Roots(
        solutions=np.asarray(proved.solutions * scales, dtype=np.complex128),
        multiplicity=np.array([group.size for group in groups], dtype=np.int64),
        singular=singular,
        at_infinity=int(far.sum()),
        extraneous=int((ends.known & ~far & ~solves).sum()),
        failed=int((~ends.known).sum()),
        paths=len(ends.points),
        steps=ends.steps,
        retracked=ends.retracked,
        certified=proved.proved,
        proved_real=proved.real,
        proved_complex=proved.complex,
        uncertified_because=proved.reason,
    )


PRECISIONS = (128, 256, 512, 1024)  # Bits of the ball arithmetic, increased until the proof holds.
# Distance within which a proved solution belongs to an approximate one, in units of 1 + its size.
CERTIFIED_DISTANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Certificates:
    """Properties of approximate solutions that are proved."""

    solutions: Complexes  # Shape (r, n). The solutions; those that are proved are rounded to doubles.
    # Shape (r,). Which are proved to be solutions, simple, and different from all other proved ones.
    proved: Booleans
    # real, complex: shape (r,). Which are proved to be real, and which not to be real.
    real: Booleans
    complex: Booleans
    reason: str = ""  # Why no proof was possible; empty otherwise.


def unproved(points: Complexes, reason: str = "") -> Certificates:
    """No proofs for any of the points."""
    proved, real, other = np.zeros((3, len(points)), dtype=np.bool_)
    return Certificates(points.copy(), proved, real, other, reason)


class _Balls:
    """The polynomials, and their derivatives, in ball arithmetic of one precision."""

    def __init__(self, system: PolynomialSystem, precision: int) -> None:
        import flint

        self.flint, self.n = flint, system.variables
        self.rows: list[list[tuple[Any, list[tuple[int, int]]]]] = []
        self.highest = int(system.exponents.max(initial=1))
        self.real = True
        for i in range(system.equations):
            terms = []
            for k in np.flatnonzero(system.coefficients[i]).tolist():
                exact = system.exact.get((i, k))
                parts: list[Any] = [complex(system.coefficients[i, k])]
                if exact is not None:
                    parts = [self._number(part, precision) for part in exact.as_real_imag()]
                ball = flint.acb(*parts)
                self.real &= bool(ball.imag == 0)
                factors = [(j, e) for j, e in enumerate(system.exponents[k].tolist()) if e]
                terms.append((ball, factors))
            self.rows.append(terms)

    def _number(self, number: Any, precision: int) -> Any:
        if number.is_Rational:
            return self.flint.arb(self.flint.fmpq(int(number.p), int(number.q)))
        digits = int(0.302 * precision) + 10
        value = self.flint.arb(str(number.evalf(digits)))
        return self.flint.arb(value, abs(value) * self.flint.arb(10) ** (5 - digits))

    def both(self, x: Any) -> tuple[Any, Any]:
        """Values and Jacobian of the polynomials on balls x, a matrix of one column."""
        zero, one = self.flint.acb(0), self.flint.acb(1)
        powers = []
        for value in x.entries():
            row = [one, value]
            for _ in range(2, self.highest + 1):
                row.append(row[-1] * value)
            powers.append(row)
        values, slopes = [], []
        for terms in self.rows:
            total, gradient = zero, [zero] * self.n
            for coefficient, factors in terms:
                total += math.prod((powers[j][e] for j, e in factors), start=coefficient)
                for k, e in factors:
                    rest = (powers[j][d] for j, d in factors if j != k)
                    gradient[k] += math.prod(rest, start=coefficient * e * powers[k][e - 1])
            values.append([total])
            slopes.append(gradient)
        return self.flint.acb_mat(values), self.flint.acb_mat(slopes)


def _krawczyk(balls: _Balls, start: Any, precision: int, on_axis: bool) -> Any:
    """Balls with exactly one solution, near the limit of Newton's method; None without proof."""
    # With ``on_axis`` they are symmetric to the real axis, so that the solution is its own conjugate.
    flint, n = balls.flint, balls.n
    x = start
    try:
        for _ in range(12):
            values, slopes = balls.both(x)
            step = slopes.mid().solve(values.mid())
            x = (x - step).mid()
            x = flint.acb_mat(x.real) if on_axis else x
            far = max(
                float(abs(b).mid()) / (1e-300 + float(abs(a).mid()) + 1e-9)
                for a, b in zip(x.entries(), step.entries(), strict=True)
            )
            if far < 2.0 ** (-precision // 2):
                break
        values, slopes = balls.both(x)
        inverse = slopes.mid().inv().mid()
        moved = inverse * values
        size = max(float(abs(a).mid()) for a in x.entries()) + 1e-300
        least = flint.arb(size) * flint.arb(2) ** (-precision // 2)
        radii = [8 * (error.mid() + error.rad()) + least for error in map(abs, moved.entries())]
        around = zip(x.entries(), radii, strict=True)
        box = flint.acb_mat(n, 1, [flint.acb(flint.arb(a.real, r), flint.arb(a.imag, r)) for a, r in around])
        _, wide = balls.both(box)
        identity = flint.acb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
        image = x - moved + (identity - inverse * wide) * (box - x)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    if not all(b.contains_interior(a) for a, b in zip(image.entries(), box.entries(), strict=True)):
        return None
    return flint.acb_mat(image.real) if on_axis else image


def certify(system: PolynomialSystem, points: Complexes, chosen: Booleans) -> Certificates:
    """Solutions near points, proved by Krawczyk's operator in ball arithmetic with the exact coefficients."""
    # K(X) = x - Y F(x) + (I - Y F'(X)) (X - x) inside X implies that X has exactly one solution, a simple
    # one. If the coefficients are real and X is symmetric to the real axis, the solution is real, because its
    # conjugate lies in X too. Solutions are different if their balls are disjoint. Krawczyk, Computing 4
    # (1969) 187. Breiding, Rose and Timme, ACM Trans. Math. Softw. 49 (2023) 11.
    # Shapes: points (r, n), chosen (r,).
    if system.equations != system.variables:
        return unproved(points, "more polynomials than variables")
    if find_spec("flint") is None:
        return unproved(points, 'python-flint is missing: pip install "dae_sdc[certify]"')
    import flint

    found = unproved(points)
    solutions, proved, real, other = found.solutions, found.proved, found.real, found.complex
    enclosures: dict[int, Any] = {}
    before = flint.ctx.prec
    left = np.flatnonzero(chosen).tolist()
    try:
        for precision in PRECISIONS:
            flint.ctx.prec = precision
            balls = _Balls(system, precision)
            again = []
            for k in left:
                start = flint.acb_mat([[flint.acb(value)] for value in points[k].tolist()])
                nearly = np.abs(points[k].imag).max() <= CERTIFIED_DISTANCE * (1.0 + np.abs(points[k]).max())
                box = _krawczyk(balls, start, precision, True) if balls.real and nearly else None
                on_axis = box is not None
                box = _krawczyk(balls, start, precision, False) if box is None else box
                if box is None:
                    again.append(k)
                    continue
                off_axis = any(not a.imag.contains(0) for a in box.entries())
                if balls.real and not on_axis and not off_axis and precision < PRECISIONS[-1]:
                    again.append(k)
                    continue
                value = np.array([complex(a) for a in box.entries()])
                if np.abs(value - points[k]).max() <= CERTIFIED_DISTANCE * (1.0 + np.abs(points[k]).max()):
                    enclosures[k], solutions[k] = box, value
                    proved[k], real[k], other[k] = True, on_axis, off_axis
            left = again
            if not left:
                break
        # Only balls of nearby solutions are compared: balls are far smaller than this distance.
        which = np.array(sorted(enclosures), dtype=np.int64)
        for group in groups_of(solutions[which], 1e-9) if which.size else []:
            kept: list[int] = []
            for k in which[group].tolist():
                proved[k] = not any(enclosures[k].overlaps(enclosures[m]) for m in kept)
                kept += [k] if proved[k] else []
    finally:
        flint.ctx.prec = before
    return Certificates(solutions, proved, real & proved, other & proved)
