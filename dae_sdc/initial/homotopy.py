"""All isolated solutions of a polynomial system, by continuation from a system whose solutions are known."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.initial.polynomials import Complexes, Integers, PolynomialSystem

Booleans = npt.NDArray[np.bool_]

MOST_PATHS = 50_000
"""Number of paths up to which a system is solved."""

TOGETHER = 1024
"""Paths that are followed at once, which bounds the memory."""

EARLY = 0.05
"""Homotopy parameter at which the endgame begins."""

CLOSE = 1e-5
"""Error of a predictor that is allowed, in coordinates of norm 1."""

TIGHTER = 1e-2
"""The same of paths that are followed again, and in the endgame, as a part of what it was before."""

SETTLED = 1e-9
"""Second Newton correction of a point on a path."""

SHORTEST = 1e-10
"""Smallest step, as a part of the way; paths can come very near to each other."""

HOPELESS = 1e-5
"""The same on the way to t = 0, where the endgame does better."""

MOST_STEPS = 3000
"""Steps on one way."""

REGULAR = 1e-6
"""Smallest singular value of the Jacobian, in coordinates of norm 1, at a simple solution."""

SURELY_REGULAR = 1e-4
"""The same at which two paths cannot have the same end."""

SAMPLES = 12
"""Points on a circle of the endgame."""

SHRINK = 0.2
"""Radius of a circle of the endgame, in units of the one before."""

CIRCLES = 12
"""Number of circles."""

MOST_TURNS = 24
"""Times that a path goes round a circle before it must be back."""

BACK = 1e-6
"""Distance from where a path began that means that it is back."""

AGREED = 1e-9
"""Difference of the ends by two radii at which no smaller one is needed."""

ACCEPTED = 1e-5
"""The same at which the end is known at all."""

HOLDS = 1e-11
"""Size of the polynomials, with coefficients of size 1, at their ends, in coordinates of norm 1."""

FAR = 1e-6
"""First projective coordinate of a point at infinity, in coordinates of norm 1."""

SAME = 1e-5
"""Distance of two ends, in units of 1 + their size, that makes them one solution."""

REAL = 1e-8
"""Imaginary part of a simple solution, in units of 1 + its size, that is round-off."""

ATTEMPTS = 3
"""Times that a path is followed, the last ones with more care."""


@dataclass(frozen=True, eq=False)
class Roots:
    """Solutions of a polynomial system.

    Parameters
    ----------
    solutions : ndarray, shape (r, n)
        The different solutions.
    multiplicity : ndarray of int, shape (r,)
        Number of paths that end in each.
    singular : ndarray of bool, shape (r,)
        Whether the Jacobian has no inverse there. An isolated solution of this kind has a multiplicity of
        2 or more; others, and possibly these, lie on a curve or surface of solutions.
    at_infinity : int
        Number of paths that end at infinity.
    failed : int
        Number of paths that were lost; some solutions may be missing if it is not 0.
    paths, steps, retracked : int
        Number of paths, of steps of all paths together, and of paths that were followed again.
    """

    solutions: Complexes
    multiplicity: Integers
    singular: Booleans
    at_infinity: int
    failed: int
    paths: int
    steps: int
    retracked: int

    @property
    def is_real(self) -> Booleans:
        """Which solutions are real, shape (r,)."""
        allowed = np.where(self.singular, SAME, REAL) * (1.0 + _sizes(self.solutions))
        found: Booleans = np.abs(self.solutions.imag).max(axis=1, initial=0.0) <= allowed
        return found

    @property
    def real(self) -> Vector:
        """The real solutions, shape (q, n)."""
        found: Vector = self.solutions[self.is_real].real
        return found


def _sizes(points: Complexes) -> Vector:
    found: Vector = np.abs(points).max(axis=1, initial=0.0)
    return found


def _norms(points: Complexes) -> Vector:
    found: Vector = np.linalg.norm(points, axis=1)
    return found


def _solve(matrices: Complexes, right: Complexes) -> Complexes:
    """Solutions of many linear systems; NaN where a matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0], dtype=np.complex128)
    except np.linalg.LinAlgError:
        found = np.full_like(right, np.nan)
        for place, (matrix, side) in enumerate(zip(matrices, right, strict=True)):
            try:
                found[place] = np.linalg.solve(matrix, side)
            except np.linalg.LinAlgError:
                continue
        return found


class _Homotopy:
    """(1 - t) F + gamma t G in homogeneous coordinates on an affine patch v . x = 1 for each path."""

    def __init__(self, system: PolynomialSystem, gamma: complex) -> None:
        homogeneous = system.homogenized()
        n, degrees = system.variables, system.degrees
        powers = np.zeros((2 * n, n + 1), dtype=np.int64)
        powers[np.arange(n), np.arange(1, n + 1)] = degrees
        powers[n:, 0] = degrees
        start = np.hstack([np.eye(n), -np.eye(n)])
        terms = homogeneous.coefficients
        self.joint = PolynomialSystem(
            np.block([[terms, np.zeros((n, 2 * n))], [np.zeros((n, terms.shape[1])), start]]),
            np.concatenate([homogeneous.exponents, powers]),
        )
        self.gamma, self.n, self.steps = gamma, n, 0

    def parts(self, x: Complexes, t: Complexes, patch: Complexes) -> tuple[Complexes, Complexes, Complexes]:
        """Matrix of Newton's method and of the tangent, values, and derivative with respect to t."""
        values, jacobians = self.joint.both(x)
        n, now, before = self.n, (1.0 - t)[:, None], (self.gamma * t)[:, None]
        matrix = np.empty((len(x), n + 1, n + 1), dtype=np.complex128)
        matrix[:, :n] = now[:, :, None] * jacobians[:, :n] + before[:, :, None] * jacobians[:, n:]
        matrix[:, n] = patch
        residual, change = np.zeros_like(x), np.zeros_like(x)
        residual[:, :n] = now * values[:, :n] + before * values[:, n:]
        residual[:, n] = (patch * x).sum(axis=1) - 1.0
        change[:, :n] = self.gamma * values[:, n:] - values[:, :n]
        return matrix, residual, change

    def _slope(self, x: Complexes, t: Complexes, patch: Complexes) -> Complexes:
        matrix, _, change = self.parts(x, t, patch)
        return _solve(matrix, -change)

    def _correct(self, x: Complexes, t: Complexes, patch: Complexes) -> Complexes:
        matrix, residual, _ = self.parts(x, t, patch)
        return _solve(matrix, -residual)

    def track(
        self,
        points: Complexes,
        start: complex,
        end: complex,
        close: float,
        patch: Complexes | None = None,
        first: float = 0.1,
        shortest: float = SHORTEST,
    ) -> tuple[Complexes, Booleans]:
        """Points at t = end, and which of them were reached; the patch moves along unless it is given."""
        x, reached = points.copy(), np.zeros(len(points), dtype=np.bool_)
        v = x.conj() / (_norms(x) ** 2)[:, None] if patch is None else patch
        way, step = np.zeros(len(x)), np.full(len(x), first)
        live = np.arange(len(x))
        with np.errstate(all="ignore"):  # a step into the void is refused below
            for _ in range(MOST_STEPS):
                if live.size == 0:
                    break
                self.steps += live.size
                h = np.minimum(step[live], 1.0 - way[live])
                y, w = x[live], v[live]
                t: Complexes = np.asarray(start + way[live] * (end - start), dtype=np.complex128)
                dt: Complexes = np.asarray(h * (end - start), dtype=np.complex128)
                half: Complexes = np.asarray(t + 0.5 * dt, dtype=np.complex128)
                full: Complexes = np.asarray(t + dt, dtype=np.complex128)
                k1 = self._slope(y, t, w)
                k2 = self._slope(y + 0.5 * dt[:, None] * k1, half, w)
                k3 = self._slope(y + 0.5 * dt[:, None] * k2, half, w)
                k4 = self._slope(y + dt[:, None] * k3, full, w)
                y = y + dt[:, None] / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
                change = self._correct(y, full, w)
                y = y + change
                error = _norms(change)
                change = self._correct(y, full, w)
                y = y + change
                error = np.where(np.isfinite(error), error, np.inf)
                good = (error <= close) & (_norms(change) <= SETTLED)
                taken = live[good]
                x[taken] = y[good]
                way[taken] = np.where(h[good] >= 1.0 - way[taken], 1.0, way[taken] + h[good])
                if patch is None:
                    x[taken] /= _norms(x[taken])[:, None]
                    v[taken] = x[taken].conj()
                factor: Vector = 0.8 * (0.1 * close / np.maximum(error, 1e-16)) ** 0.2
                step[live] = h * np.where(good, np.clip(factor, 0.3, 2.5), np.clip(factor, 0.1, 0.5))
                reached[taken] = way[taken] == 1.0
                live = live[(step[live] > shortest) & ~reached[live]]
        return x, reached

    def smallest(self, x: Complexes) -> Vector:
        """Smallest singular values of the Jacobian of F with the patch through x, of norm 1."""
        with np.errstate(all="ignore"):
            matrix = self.parts(x, np.zeros(len(x), dtype=np.complex128), x.conj())[0]
        found = np.asarray(np.linalg.svd(matrix, compute_uv=False)[:, -1], dtype=np.float64)
        return found

    def mismatch(self, x: Complexes) -> Vector:
        """Size of F at x of norm 1."""
        return _sizes(self.joint.values(x)[:, : self.n])

    def _circles(
        self, x: Complexes, radius: float, patch: Complexes, close: float
    ) -> tuple[Complexes, Integers]:
        """Means over closed circles around t = 0, and how often they go round; 0 where they do not close."""
        turns = np.zeros(len(x), dtype=np.int64)
        mean, total, place = np.full_like(x, np.nan), np.zeros_like(x), x.copy()
        live = np.arange(len(x))
        corners = [complex(c) for c in radius * np.exp(2j * np.pi * np.arange(SAMPLES + 1) / SAMPLES)]
        corners[-1] = corners[0]
        for turn in range(1, MOST_TURNS + 1):
            for here, there in pairwise(corners):
                total[live] += place[live]
                place[live], good = self.track(place[live], here, there, close, patch[live], first=0.5)
                live = live[good]
            back = _norms(place[live] - x[live]) <= BACK
            done = live[back]
            mean[done] = total[done] / (turn * SAMPLES)
            turns[done] = turn
            live = live[~back]
            if live.size == 0:
                break
        return mean, turns

    def endgame(self, x: Complexes, close: float) -> tuple[Complexes, Booleans]:
        """Ends at t = 0 of paths that are at t = EARLY, by Cauchy's integral, and which are known.

        The means also agree on circles that enclose other branch points than t = 0. So the equations must
        hold there, and the path must come nearer as t to the power of 1 / (number of turns), or faster.
        """
        patch = x.conj() / (_norms(x) ** 2)[:, None]
        place, before = x.copy(), np.full_like(x, np.nan)
        away, often = np.full(len(x), np.nan), np.zeros(len(x), dtype=np.int64)
        ends, gap = np.zeros_like(x), np.full(len(x), np.inf)
        live, radius = np.arange(len(x)), EARLY
        for _ in range(CIRCLES):
            last, radius = radius, SHRINK * radius
            place[live], good = self.track(place[live], last, radius, close, patch[live])
            live = live[good]
            if live.size == 0:
                break
            mean, turns = self._circles(place[live], radius, patch[live], close)
            difference, distance = _norms(mean - before[live]), _norms(mean - place[live])
            rate = SHRINK ** (0.5 / np.maximum(turns, 1))
            with np.errstate(invalid="ignore"):
                better = (difference < gap[live]) & (self.mismatch(mean) <= HOLDS)
                better &= (turns == often[live]) & (distance <= rate * away[live] + AGREED)
            ends[live[better]] = mean[better]
            gap[live[better]] = difference[better]
            before[live], away[live], often[live] = mean, distance, turns
            live = live[gap[live] > AGREED]
        known = gap <= ACCEPTED
        ends[known] /= _norms(ends[known])[:, None]
        return ends, known

    def run(self, starts: Complexes, close: float) -> tuple[Complexes, Booleans, Booleans]:
        """Ends of paths in homogeneous coordinates of norm 1, which are known, and which are regular."""
        early, arrived = self.track(starts, 1.0, EARLY, close)
        ends, known = self.track(early, EARLY, 0.0, close, shortest=HOPELESS)
        known &= arrived
        regular = known.copy()
        regular[known] = self.smallest(ends[known]) > REGULAR
        again = np.flatnonzero(arrived & ~regular)
        if again.size:
            ends[again], known[again] = self.endgame(early[again], TIGHTER * close)
        return ends, known, regular


def _starts(degrees: Integers) -> Complexes:
    """The solutions of x_i^d_i = x_0^d_i in homogeneous coordinates of norm 1."""
    circles = [np.exp(2j * np.pi * np.arange(d) / d) for d in degrees.tolist()]
    points = np.array(list(product([1.0], *circles)), dtype=np.complex128)
    found: Complexes = points / np.sqrt(points.shape[1])
    return found


def _groups(points: Complexes) -> list[Integers]:
    """Numbers of points that are the same."""
    left = np.arange(len(points))
    groups: list[Integers] = []
    while left.size:
        centre = points[left[0]]
        same = _sizes(points[left] - centre) <= SAME * (1.0 + float(np.abs(centre).max()))
        groups.append(left[same])
        left = left[~same]
    return groups


def _jumped(ends: Complexes, smallest: Vector) -> Integers:
    """Numbers of simple ends that more than one path has, which can only be by leaving one's own."""
    simple = np.flatnonzero(smallest > SURELY_REGULAR)
    if simple.size == 0:
        return simple
    # Points on the sphere are the same up to a factor, which a general linear function takes away.
    general = np.exp(1j * np.arange(ends.shape[1]) ** 2)
    turned = ends[simple] / (ends[simple] @ general)[:, None]
    doubtful = [simple[group] for group in _groups(turned) if group.size > 1]
    return np.concatenate(doubtful) if doubtful else simple[:0]


def _refined(system: PolynomialSystem, x: Complexes) -> Complexes:
    """Simple solutions after Newton's method in the variables of the user, where it does not lead away."""
    y = x
    with np.errstate(all="ignore"):
        for _ in range(3):
            values, jacobians = system.both(y)
            y = y + _solve(jacobians, -values)
        kept = _norms(y - x) <= SAME * (1.0 + _norms(x))
    return np.where(kept[:, None], y, x)


def solve_polynomials(system: PolynomialSystem, *, seed: int = 0) -> Roots:
    r"""All isolated complex solutions of as many polynomials as variables.

    Every path of the total-degree homotopy is followed from t = 1 to 0 in projective coordinates, by a
    classical Runge-Kutta predictor and Newton's method with step control, all paths together. With
    probability 1 over :math:`\gamma`, the paths lead to all isolated solutions. Ends that are singular or at
    infinity come from Cauchy's integral over closed circles around t = 0. Simple ends that two paths share,
    and paths that are lost, are followed again with more care.

    .. math::
        (1 - t) F_i(x) + \gamma t (x_i^{d_i} - x_0^{d_i}) = 0, \qquad |\gamma| = 1

    Parameters
    ----------
    system : PolynomialSystem
        The polynomials, n in n variables.
    seed : int
        Seed of the random number :math:`\gamma`.

    Returns
    -------
    Roots
        The solutions, with multiplicities, and the number of paths to infinity and of lost ones.

    Raises
    ------
    InputError
        If the system is not square, a polynomial is constant, or there are too many paths.

    References
    ----------
    Sommese and Wampler, The numerical solution of systems of polynomials arising in engineering and science,
    World Scientific, 2005, chapters 2, 8 and 10. Morgan, Sommese and Wampler, Numer. Math. 58 (1990) 669,
    for the endgame.
    """
    n, degrees = system.variables, system.degrees
    if system.equations != n:
        raise InputError(f"{system.equations} polynomials in {n} variables: as many are needed as variables")
    if (degrees == 0).any():
        row = int(np.flatnonzero(degrees == 0)[0]) + 1
        raise InputError(f"polynomial {row} is constant: leave it out, or correct it")
    paths = 1
    for degree in degrees.tolist():
        paths *= degree
    if paths > MOST_PATHS:
        raise InputError(f"{paths} paths from degrees {degrees.tolist()}: at most {MOST_PATHS} are followed")
    scaled, scales = system.scaled()
    homotopy = _Homotopy(scaled, complex(np.exp(2j * np.pi * np.random.default_rng(seed).random())))
    starts = _starts(degrees)
    ends = np.zeros_like(starts)
    known, regular = np.zeros(paths, dtype=np.bool_), np.zeros(paths, dtype=np.bool_)
    close, todo, retracked = CLOSE, np.arange(paths), 0
    for attempt in range(ATTEMPTS):
        for part in np.array_split(todo, -(-todo.size // TOGETHER)):
            ends[part], known[part], regular[part] = homotopy.run(starts[part], close)
        smallest, safe = np.zeros(paths), known & regular
        smallest[safe] = homotopy.smallest(ends[safe])
        todo = np.union1d(np.flatnonzero(~known), _jumped(ends, smallest))
        if todo.size == 0 or attempt == ATTEMPTS - 1:
            break
        retracked += todo.size
        close *= TIGHTER
    known[todo] = False
    far = known & (np.abs(ends[:, 0]) <= np.where(regular, FAR, 10.0 * FAR))
    finite = np.flatnonzero(known & ~far)
    points = ends[finite, 1:] / ends[finite, :1] * scales
    simple = regular[finite]
    points[simple] = _refined(system, points[simple])
    groups = _groups(points)
    solutions = [points[group].mean(axis=0) for group in groups]
    return Roots(
        solutions=np.array(solutions, dtype=np.complex128).reshape(-1, n),
        multiplicity=np.array([group.size for group in groups], dtype=np.int64),
        singular=np.array([not simple[group].all() for group in groups], dtype=np.bool_),
        at_infinity=int(far.sum()),
        failed=int((~known).sum()),
        paths=paths,
        steps=homotopy.steps,
        retracked=retracked,
    )
