"""Paths of solutions of polynomial equations that depend on a parameter, followed all together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.state import Vector
from dae_sdc.initial.polynomials import Complexes, Integers, magnitudes
from dae_sdc.initial.pool import run_jobs

Booleans = npt.NDArray[np.bool_]

EARLY = 0.05
"""Homotopy parameter at which the endgame begins."""

CLOSE = 1e-5
"""Error of a predictor that is allowed, in coordinates of norm 1."""

TIGHTER = 1e-2
"""The same of paths that are followed again, as a part of what it was before."""

SETTLED = 1e-8
"""Second Newton correction of a point on a path."""

NOISE = 1e-7
"""Round-off of a Newton correction near singular ends."""

SEPARATE = 300.0
"""The same of paths on circles around t = 0, in units of their velocity with respect to log t."""

SHORTEST = 1e-10
"""Smallest step, as a part of the way; paths can come very near to each other."""

HOPELESS = 1e-5
"""The same on the way to t = 0, where the endgame does better."""

MOST_STEPS = 1000
"""Steps on one way."""

MOST_STEPS_AROUND = 60
"""The same on a part of a circle, or on the way from one circle to the next."""

NUDGE = 1e-6
"""Displacement of a solution from which Newton's method returns if it is a simple one."""

_DIRECTIONS = (1.0, 2.0)

SAMPLES = 12
"""Points on a circle of the endgame."""

SHRINK = 0.2
"""Radius of a circle of the endgame, in units of the one before."""

CIRCLES = 12
"""Number of circles."""

BEGIN = 4
"""Number of the first circle; larger ones often enclose other branch points than t = 0."""

FIRST_TURNS = 6
"""Times that a path may go round the first circle, and this more each time."""

MOST_TURNS = 24
"""Times that a path may go round a circle at all."""

BACK = 1e-6
"""Distance from where a path began that means that it is back."""

AGREED = 1e-9
"""Difference of the ends by two radii at which no smaller one is needed."""

ACCEPTED = 1e-5
"""The same at which the end is known at all."""

HOLDS = 1e-11
"""Size of the polynomials, with coefficients of size 1, at their ends, in coordinates of norm 1."""

TOGETHER = 128
"""Paths that are followed at once, whoever follows them, so that round-off does not depend on that."""

SURELY_REGULAR = 1e-4
"""Smallest singular value of the relative Jacobian at an end that two paths cannot have."""

ATTEMPTS = 3
"""Times that a path is followed, the last ones with more care."""

SAME = 1e-5
"""Distance of two ends, in units of 1 + their size, that makes them one solution."""

SAME_SIMPLE = 1e-9
"""The same for simple solutions, which Newton's method finds to round-off."""

FAR = 1e-6
"""First projective coordinate of a point at infinity, in coordinates of norm 1."""

VANISHED = 1e-4
"""Usual :attr:`Homotopy.vanished`."""

STEADY = 0.1
"""Change of the power of t with which a coordinate vanishes, in units of it, between two circles."""


def sizes(points: Complexes) -> Vector:
    """Largest coordinates."""
    found: Vector = np.abs(points).max(axis=1, initial=0.0)
    return found


def norms(points: Complexes) -> Vector:
    """Euclidean norms."""
    found: Vector = np.linalg.norm(points, axis=1)
    return found


def solve_all(matrices: Complexes, right: Complexes) -> Complexes:
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


class Homotopy(ABC):
    """Equations H(x, t) = 0 in n + 1 homogeneous coordinates, on an affine patch v . x = 1 for each path.

    Parameters
    ----------
    n : int
        Number of equations.
    """

    vanished = VANISHED
    """First coordinate, in coordinates of norm 1, that a singular end must have to count as finite."""

    def __init__(self, n: int) -> None:
        self.n, self.steps = n, 0

    @abstractmethod
    def equations(
        self, x: Complexes, t: Complexes, which: Integers
    ) -> tuple[Complexes, Complexes, Complexes]:
        """Jacobians (p, n, n + 1), values (p, n) and derivatives with respect to t of the paths `which`."""

    def _slope(
        self, x: Complexes, u: Complexes, patch: Complexes, which: Integers, around: bool
    ) -> Complexes:
        """Derivative of the path with respect to t = u, or to u = log t."""
        t: Complexes = np.exp(u) if around else np.asarray(u, dtype=np.complex128)
        jacobians, _, change = self.equations(x, t, which)
        right = np.zeros_like(x)
        right[:, : self.n] = change * t[:, None] if around else change
        return solve_all(np.concatenate([jacobians, patch[:, None]], axis=1), -right)

    def _newton(self, x: Complexes, t: Complexes, patch: Complexes, which: Integers) -> Complexes:
        """Newton's correction."""
        jacobians, values, _ = self.equations(x, t, which)
        misses = (patch * x).sum(axis=1, keepdims=True) - 1.0
        right = np.concatenate([values, misses], axis=1)
        return solve_all(np.concatenate([jacobians, patch[:, None]], axis=1), -right)

    def track(
        self,
        points: Complexes,
        start: complex,
        end: complex,
        close: float,
        which: Integers,
        patch: Complexes | None = None,
        first: float = 0.1,
        shortest: float = SHORTEST,
        around: bool = False,
    ) -> tuple[Complexes, Booleans]:
        """Points at t = end, and which of them were reached; the patch moves along unless it is given.

        With `around`, start and end are values of log t: near t = 0, fractional powers of t are smooth in it.
        """
        x, reached = points.copy(), np.zeros(len(points), dtype=np.bool_)
        v = x.conj() / (norms(x) ** 2)[:, None] if patch is None else patch
        way, step = np.zeros(len(x)), np.full(len(x), first)
        live = np.arange(len(x))
        with np.errstate(all="ignore"):  # a step into the void is refused below
            for _ in range(MOST_STEPS_AROUND if around else MOST_STEPS):
                if live.size == 0:
                    break
                self.steps += live.size
                h = np.minimum(step[live], 1.0 - way[live])
                y, w, who = x[live], v[live], which[live]
                u: Complexes = np.asarray(start + way[live] * (end - start), dtype=np.complex128)
                du = np.asarray(h * (end - start), dtype=np.complex128)[:, None]
                k1 = self._slope(y, u, w, who, around)
                k2 = self._slope(y + 0.5 * du * k1, u + 0.5 * du[:, 0], w, who, around)
                k3 = self._slope(y + 0.5 * du * k2, u + 0.5 * du[:, 0], w, who, around)
                k4 = self._slope(y + du * k3, u + du[:, 0], w, who, around)
                y = y + du / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
                full = np.exp(u + du[:, 0]) if around else u + du[:, 0]
                change = self._newton(y, full, w, who)
                y = y + change
                error = norms(change)
                change = self._newton(y, full, w, who)
                y = y + change
                error = np.where(np.isfinite(error), error, np.inf)
                again = norms(change)
                if around:  # other branches of the path are about as far away as it moves
                    y = y + self._newton(y, full, w, who)
                    allowed = np.clip(SEPARATE * close * norms(k1), NOISE, SEPARATE * close)
                    good = (error <= allowed) & (again <= np.maximum(0.01 * error, 0.1 * NOISE))
                else:
                    allowed = np.full(live.size, close)
                    good = (error <= close) & (again <= 0.01 * error) & (again**3 <= 1e-13 * error**2)
                    good |= (error <= close) & (again <= SETTLED)
                taken = live[good]
                x[taken] = y[good]
                way[taken] = np.where(h[good] >= 1.0 - way[taken], 1.0, way[taken] + h[good])
                if patch is None:
                    x[taken] /= norms(x[taken])[:, None]
                    v[taken] = x[taken].conj()
                factor: Vector = 0.8 * (0.1 * allowed / np.maximum(error, 1e-16)) ** 0.2
                step[live] = h * np.where(good, np.clip(factor, 0.3, 2.5), np.clip(factor, 0.1, 0.5))
                reached[taken] = way[taken] == 1.0
                live = live[(step[live] > shortest) & ~reached[live]]
        return x, reached

    @abstractmethod
    def relative(self, x: Complexes, which: Integers) -> Complexes:
        """Jacobians at t = 0 and x of norm 1, in units of what they would be if no terms cancelled."""

    def smallest(self, x: Complexes, which: Integers) -> Vector:
        """Smallest singular values of the relative Jacobian at t = 0 with the patch through x, of norm 1."""
        patch = x.conj() / magnitudes(x)  # the direction in which nothing changes
        patch /= norms(patch)[:, None]
        matrix = np.concatenate([self.relative(x, which), patch[:, None]], axis=1)
        found = np.asarray(np.linalg.svd(matrix, compute_uv=False)[:, -1], dtype=np.float64)
        return found

    def returns(self, x: Complexes, which: Integers) -> Booleans:
        """Whether Newton's method soon leads back to x of norm 1 at t = 0, as it does at simple solutions."""
        t, patch = np.zeros(len(x), dtype=np.complex128), x.conj()
        found = np.ones(len(x), dtype=np.bool_)
        with np.errstate(all="ignore"):
            for shift in _DIRECTIONS:
                direction = np.exp(1j * shift * np.arange(1, x.shape[1] + 1) ** 2)
                y = x + NUDGE * direction / np.sqrt(x.shape[1])
                for _ in range(4):
                    y = y + self._newton(y, t, patch, which)
                found &= norms(y - x) <= 0.01 * NUDGE
        return found

    def mismatch(self, x: Complexes, which: Integers) -> Vector:
        """Size of the equations at t = 0 and x of norm 1."""
        return sizes(self.equations(x, np.zeros(len(x), dtype=np.complex128), which)[1])

    def _circles(
        self, x: Complexes, radius: float, patch: Complexes, close: float, which: Integers, most: int
    ) -> tuple[Complexes, Integers]:
        """Means over closed circles around t = 0, and how often they go round; 0 where they do not close."""
        turns = np.zeros(len(x), dtype=np.int64)
        mean, total, place = np.full_like(x, np.nan), np.zeros_like(x), x.copy()
        live = np.arange(len(x))
        angles = 2.0 * np.pi / SAMPLES * np.arange(SAMPLES + 1)
        for turn in range(1, most + 1):
            for here, there in pairwise((np.log(radius) + 1j * angles).tolist()):
                total[live] += place[live]
                place[live], good = self.track(
                    place[live], here, there, close, which[live], patch[live], first=1.0, around=True
                )
                live = live[good]
            back = norms(place[live] - x[live]) <= BACK
            done = live[back]
            mean[done] = total[done] / (turn * SAMPLES)
            turns[done] = turn
            live = live[~back]
            if live.size == 0:
                break
        return mean, turns

    def endgame(self, x: Complexes, close: float, which: Integers) -> tuple[Complexes, Booleans]:
        """Ends at t = 0 of paths that are at t = EARLY, by Cauchy's integral, and which are known.

        The means also agree on circles that enclose other branch points than t = 0. So the equations must
        hold there, and the path must come nearer as t to the power of 1 / (number of turns), or faster.
        Paths whose first coordinate vanishes as a power of t go to infinity and need no circles; the first
        coordinate of their ends is 0.
        """
        patch = x.conj() / (norms(x) ** 2)[:, None]
        places, last = self._towards(x, close, which, patch)
        ends, gap = np.zeros_like(x), np.full(len(x), np.inf)
        far = self._vanishing(np.abs(places[:, :, 0]) / np.linalg.norm(places, axis=2))
        rows = np.arange(len(x))
        ends[far], gap[far] = places[last[far], rows[far]], 0.0
        ends[far, 0] = 0.0
        before, away = np.full_like(x, np.nan), np.full(len(x), np.nan)
        often, most = np.zeros(len(x), dtype=np.int64), 0
        for circle in range(1, CIRCLES + 1):
            begun = (circle >= np.minimum(BEGIN, last - 1)) & (circle <= last)
            live = np.flatnonzero(begun & (gap > AGREED))
            if live.size == 0:
                continue
            most = min(most + FIRST_TURNS, MOST_TURNS)
            place = places[circle, live]
            radius = EARLY * SHRINK**circle
            mean, turns = self._circles(place, radius, patch[live], close, which[live], most)
            difference, distance = norms(mean - before[live]), norms(mean - place)
            rate = SHRINK ** (0.5 / np.maximum(turns, 1))
            with np.errstate(invalid="ignore"):
                better = (difference < gap[live]) & (self.mismatch(mean, which[live]) <= HOLDS)
                better &= (turns == often[live]) & (distance <= rate * away[live] + AGREED)
            ends[live[better]] = mean[better]
            gap[live[better]] = difference[better]
            before[live], away[live], often[live] = mean, distance, turns
        known = gap <= ACCEPTED
        ends[known] /= norms(ends[known])[:, None]
        return ends, known

    def _towards(
        self, x: Complexes, close: float, which: Integers, patch: Complexes
    ) -> tuple[Complexes, Integers]:
        """Points where the circles meet the positive axis, NaN where none is, and the last circle reached."""
        places = np.full((CIRCLES + 1, *x.shape), np.nan, dtype=np.complex128)
        places[0], last = x, np.zeros(len(x), dtype=np.int64)
        live, here = np.arange(len(x)), float(np.log(EARLY))
        for circle in range(1, CIRCLES + 1):
            there = here + float(np.log(SHRINK))
            found, good = self.track(
                places[circle - 1, live], here, there, close, which[live], patch[live], first=0.5, around=True
            )
            here, live = there, live[good]
            places[circle, live], last[live] = found[good], circle
        return places, last

    def _vanishing(self, first: Vector) -> Booleans:
        """Whether the first coordinates on the circles, shape (CIRCLES + 1, p), go to 0 as powers of t do."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            power = np.diff(np.log(first), axis=0) / np.log(SHRINK)
            change = np.abs(np.diff(power, axis=0) / power[1:])
            # What is left at t = 0 makes the power change.
            left = first[2:] * change / (SHRINK ** -power[1:] - 1.0)
            found: Booleans = ((left <= self.vanished) & (change <= STEADY) & (power[1:] > 0.0)).any(axis=0)
        found |= np.nanmin(first, axis=0) <= 0.01 * FAR
        return found

    def run(self, starts: Complexes, close: float, which: Integers) -> tuple[Complexes, Booleans, Booleans]:
        """Ends of paths in homogeneous coordinates of norm 1, which are known, and which are regular."""
        early, arrived = self.track(starts, 1.0, EARLY, close, which)
        ends, known = self.track(early, EARLY, 0.0, close, which, shortest=HOPELESS)
        known &= arrived
        regular = known.copy()
        regular[known] = self.returns(ends[known], which[known])
        again = np.flatnonzero(arrived & ~regular)
        if again.size:
            ends[again], known[again] = self.endgame(early[again], close, which[again])
            again = again[known[again]]
            regular[again] = self.returns(ends[again], which[again])
        return ends, known, regular


class _Batch(NamedTuple):
    """Paths that one process follows."""

    homotopy: Homotopy
    starts: Complexes
    which: Integers
    close: float


class Ends(NamedTuple):
    """Ends of paths.

    Parameters
    ----------
    points : ndarray, shape (p, n + 1)
        Homogeneous coordinates of norm 1.
    known, regular : ndarray of bool, shape (p,)
        Whether a path has an end, and whether the Jacobian has an inverse there.
    smallest : ndarray, shape (p,)
        Smallest singular values of the Jacobian at regular ends, otherwise 0.
    steps, retracked : int
        Number of steps of all paths together, and of paths that were followed again.
    """

    points: Complexes
    known: Booleans
    regular: Booleans
    smallest: Vector
    steps: int
    retracked: int = 0

    @property
    def far(self) -> Booleans:
        """Which ends are known to be at infinity."""
        near = np.abs(self.points[:, 0]) > np.where(self.regular, FAR, 10.0 * FAR)
        found: Booleans = self.known & ~near
        return found


def groups_of(points: Complexes, distance: float = SAME) -> list[Integers]:
    """Numbers of the points that are the same: their distance is at most so many units of 1 + their size."""
    left = np.arange(len(points))
    groups: list[Integers] = []
    while left.size:
        centre = points[left[0]]
        same = sizes(points[left] - centre) <= distance * (1.0 + float(np.abs(centre).max()))
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
    doubtful = [simple[group] for group in groups_of(turned) if group.size > 1]
    return np.concatenate(doubtful) if doubtful else simple[:0]


def _follow(batch: _Batch) -> Ends:
    homotopy, which = batch.homotopy, batch.which
    homotopy.steps = 0
    ends, known, regular = homotopy.run(batch.starts, batch.close, which)
    smallest, safe = np.zeros(len(ends)), known & regular
    smallest[safe] = homotopy.smallest(ends[safe], which[safe])
    return Ends(ends, known, regular, smallest, homotopy.steps)


def follow(
    homotopy: Homotopy, starts: Complexes, *, workers: int = 1, comm: Any = None, attempts: int = ATTEMPTS
) -> Ends:
    """Ends of all paths; lost ones, and those with the simple end of another, are followed more carefully.

    Parameters
    ----------
    homotopy : Homotopy
        The equations; path k is number k of theirs.
    starts : ndarray, shape (p, n + 1)
        Solutions at t = 1, in homogeneous coordinates.
    workers : int
        Number of processes that share the paths.
    comm : mpi4py.MPI.Comm, optional
        Communicator whose ranks share the paths.
    attempts : int
        Times that a path is followed, the last ones with more care.

    Returns
    -------
    Ends
        The ends, where t = 0.
    """
    count = len(starts)
    ends, smallest = np.zeros_like(starts), np.zeros(count)
    known, regular = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    close, todo, retracked, steps = CLOSE, np.arange(count), 0, 0
    for attempt in range(attempts):
        if todo.size == 0:
            break
        retracked += todo.size if attempt else 0
        parts = np.array_split(todo, -(-todo.size // TOGETHER))
        jobs = [_Batch(homotopy, starts[part], part, close) for part in parts]
        for part, done in zip(parts, run_jobs(_follow, jobs, workers=workers, comm=comm), strict=True):
            ends[part], known[part], regular[part], smallest[part] = done[:4]
            steps += done.steps
        todo = np.union1d(np.flatnonzero(~known), _jumped(ends, smallest))
        close *= TIGHTER
    known[todo] = False
    return Ends(ends, known, regular, smallest, steps, retracked)
