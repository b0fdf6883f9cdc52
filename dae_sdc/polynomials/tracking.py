"""Paths of solutions of polynomial equations that depend on a parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dae_sdc.dae.state import Vector
from dae_sdc.deadline import check, limited, under_way, within
from dae_sdc.errors import InputError, require_number
from dae_sdc.polynomials.polynomials import INFINITE, UNKNOWN, Care, Complexes, Homotopy, Integers, norms
from dae_sdc.polynomials.pool import run_jobs
from dae_sdc.sharing import Meter, bar_of, meter, metering

Booleans = npt.NDArray[np.bool_]

PATHS_PER_JOB = 128  # Number of paths in one job of a process.
LONGEST_TURN = 0.05  # Seconds that paths followed at one go may take if the next ones are to be more.
# Settings of the first, second and third attempt to follow a path.
FOLLOWED = (
    Care(1e-5, shortest_step_to_end=1e-4, most_steps_to_end=60),
    Care(1e-7),
    Care(1e-8, extended=True),
)

# Tolerances by which ends of paths are the same solution, regular, or too far away.
SAME_END = 1e-5  # Distance of two ends, relative to 1 + their size, up to which they are one solution.
SAME_EXACT_END = 1e-13  # Distance of two simple solutions of exact equations up to which they are one.
# Distance from which Newton's method must return to a regular end, where coefficients have round-off.
END_DISPLACEMENT = 1e-6
# Smallest singular value of the relative Jacobian above which an end belongs to one path only, despite
# round-off.
SURELY_REGULAR = 1e-4
# First coordinate of a point of norm 1 up to which it is too far away to be used in a section.
FAR_AWAY = 1e-6


class PathRecord(NamedTuple):
    """Points of paths, and the units of the first variables of homotopies, where these are known."""

    predictor_steps: int  # Number of equal steps in which paths are also followed without corrections.
    # Numbers of homotopy and path, whether it is corrected, t, step, condition number, variables.
    rows: list[tuple[Any, ...]]
    units: Any = None

    def add(self, homotopy: Homotopy, corrected: bool, track: Complexes) -> None:
        """Put down paths of a homotopy, first the corrected ones: numbers of paths, t and points."""
        number = (self.rows[-1][0] if self.rows else -1) + corrected
        (path, t), x = track[:, :2].T.real, track[:, 2:] / norms(track[:, 2:])[:, None]
        with np.errstate(invalid="ignore"):
            values = x[:, 1 : 1 + self.units.size] / np.where(x[:, :1] == 0.0, np.nan, x[:, :1])
        steps = np.where(t == 1.0, 0.0, np.append(0.0, -np.diff(t)))
        matrices = homotopy.equations.jacobians(x, t[:, None], path.astype(int), x.conj())[0]
        columns = zip(path, t, steps, np.linalg.cond(matrices), values * self.units, strict=True)
        self.rows.extend((number, k, corrected, *row) for k, *row in columns)


RECORD: ContextVar[PathRecord | None] = ContextVar("RECORD", default=None)


def _without_corrections(homotopy: Homotopy, x: Complexes, steps: int) -> Complexes:
    """Numbers of paths, t and points behind equal steps of the classical Runge-Kutta method."""
    which = np.arange(len(x))
    track = [np.column_stack([which, np.ones(len(x)), x])]
    for k in range(steps):
        x = x / norms(x)[:, None]
        moves = [0.0 * x]
        for part in (0.0, 0.5, 0.5, 1.0):
            there = x + part * moves[-1], 1.0 - (k + part) / steps
            matrices, changes = homotopy.equations.jacobians(*there, which, x.conj())
            moves.append((np.linalg.pinv(matrices) @ changes)[..., 0] / steps)
        x = x + np.average(moves[1:], axis=0, weights=(1.0, 2.0, 2.0, 1.0))
        track.append(np.column_stack([which, np.full(len(x), 1.0 - (k + 1) / steps), x]))
    return np.stack(track, axis=1).reshape(-1, 2 + x.shape[1])


class Ends(NamedTuple):
    """Ends of paths."""

    points: Complexes  # Shape (p, n + 1). Ends in homogeneous coordinates of norm 1.
    state: Integers  # Shape (p,). :data:`UNKNOWN` for lost paths, :data:`FINITE` or :data:`INFINITE`.
    regular: Booleans  # Shape (p,). Whether the Jacobian has an inverse at a finite end.
    smallest: Vector  # Shape (p,). Smallest singular values of the Jacobian at regular ends, otherwise 0.
    # steps, retracked: number of steps of all paths together, and of paths that were followed again.
    steps: int
    retracked: int = 0
    track: Any = None  # Numbers of paths, t and points behind their steps, where they are recorded.

    @property
    def known(self) -> Booleans:
        """Which paths were not lost."""
        return np.asarray(self.state != UNKNOWN, dtype=np.bool_)

    @property
    def far(self) -> Booleans:
        """Which ends are at infinity, or too far away to continue from them."""
        near = np.abs(self.points[:, 0]) > np.where(self.regular, FAR_AWAY, 10.0 * FAR_AWAY)
        return np.asarray((self.state == INFINITE) | (self.known & ~near), dtype=np.bool_)


def groups_of(points: Complexes, distance: float = SAME_END) -> list[Integers]:
    """Groups of the numbers of points that are equal up to a distance, relative to 1 + their size."""
    left = np.arange(len(points))
    groups: list[Integers] = []
    while left.size:
        centre = points[left[0]]
        same = sizes(points[left] - centre) <= distance * (1.0 + float(np.abs(centre).max()))
        groups.append(left[same])
        left = left[~same]
    return groups


def _jumped(ends: Complexes, simple: Integers, distance: float) -> Integers:
    """Numbers of simple ends that several paths share, of which all but one jumped to another path."""
    if simple.size == 0:
        return simple
    # Equal points may differ by a factor of modulus 1, which division by a general linear form removes.
    general = np.exp(1j * np.arange(ends.shape[1]) ** 2)
    turned = ends[simple] / (ends[simple] @ general)[:, None]
    doubtful = [simple[group] for group in groups_of(turned, distance) if group.size > 1]
    return np.concatenate(doubtful) if doubtful else simple[:0]


@under_way("paths of a homotopy were followed")
def follow(
    homotopy: Homotopy,
    starts: Complexes,
    *,
    workers: int = 1,
    comm: Any = None,
    attempts: int = len(FOLLOWED),
) -> Ends:
    """The ends of all paths; lost paths, and paths that share a simple end, are followed again."""
    # Shapes: starts (p, n + 1).
    count = len(starts)
    ends, smallest = np.zeros_like(starts), np.zeros(count)
    state, regular = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    todo, retracked, steps = np.arange(count), 0, 0
    record, track = RECORD.get(), np.zeros((0, 2 + starts.shape[1]))
    record = None if record is None or record.units is None else record
    for number, care in enumerate(FOLLOWED[:attempts]):
        if todo.size == 0:
            break
        retracked += todo.size if number else 0
        parts = np.array_split(todo, -(-todo.size // PATHS_PER_JOB))
        care = care._replace(displacement=0.0 if homotopy.exact else END_DISPLACEMENT)
        function = partial(_follow, homotopy, care, record is not None)
        jobs = [(starts[part], part) for part in parts]
        with meter(todo.size, "path") as bar:

            def arrived(number: int, _: Ends, bar: Meter = bar, parts: Sequence[Integers] = parts) -> None:
                bar.update(len(parts[number]))

            found = run_jobs(function, jobs, workers=workers, comm=comm, arrived=arrived)
        track = np.vstack([track[~np.isin(track[:, 0], todo)], *(done.track for done in found)])
        for part, done in zip(parts, found, strict=True):
            ends[part], state[part], regular[part], smallest[part] = done[:4]
            steps += done.steps
        alone = regular if homotopy.exact else regular & (smallest > SURELY_REGULAR)
        shared = _jumped(ends, np.flatnonzero(alone), SAME_EXACT_END if homotopy.exact else SAME_END)
        todo = np.union1d(np.flatnonzero(state == UNKNOWN), shared)
    state[todo] = UNKNOWN
    if record is not None:
        record.add(homotopy, True, track)
        if record.predictor_steps:
            record.add(homotopy, False, _without_corrections(homotopy, starts, record.predictor_steps))
    return Ends(ends, state, regular, smallest, steps, retracked)


# Whether a bar is shown, None where there is a terminal, or what is called with the work that is done, how
# much there is, and its unit.
Progress = bool | None | Callable[[int, int, str], object]


@dataclass
class _Counter:
    """Tells a function how much work is done."""

    total: int
    unit: str
    tell: Callable[[int, int, str], object]
    done: int = 0

    def update(self, n: float = 1) -> None:
        self.done += int(n)
        self.tell(self.done, self.total, self.unit)


@contextmanager
def observed(time_limit: float | None, progress: Progress, units: Vector | None = None) -> Iterator[None]:
    """Let what is inside, in units that are known, end after so many seconds, and tell how far it is."""
    if time_limit is not None and not require_number("time_limit", time_limit) > 0.0:
        raise InputError(f"time_limit must be positive; got {time_limit!r}")

    def made(total: int, unit: str) -> AbstractContextManager[Meter]:
        if callable(progress):
            return nullcontext(_Counter(total, unit, progress))
        bar: AbstractContextManager[Meter] = bar_of(total, unit, progress)
        return bar

    record = RECORD.get()
    if record is not None and units is not None:
        record = record._replace(units=units if record.units is None else record.units * units)
    with limited(time_limit), within(RECORD, record), nullcontext() if progress is False else metering(made):
        yield


def sizes(points: Complexes) -> Vector:
    """Largest absolute coordinate of each point, shape (p,)."""
    return np.asarray(np.abs(points).max(axis=1, initial=0.0))


def _follow(homotopy: Homotopy, care: Care, recorded: bool, job: tuple[Complexes, Integers]) -> Ends:
    """The ends of the paths from some starts, with their numbers."""
    from dae_sdc.polynomials.paths import follow_paths

    starts, which = np.ascontiguousarray(job[0]), np.asarray(job[1], dtype=np.int64)
    count, ends, remainders = len(starts), np.zeros_like(starts), np.zeros_like(starts)
    state, regular = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    steps, first, size = 0, 0, 1
    rows = recorded * count * (2 + care.most_steps + care.most_steps_to_end)
    track = np.zeros((1 + rows, 1 + starts.shape[1]), complex)
    noted = track if recorded else None
    while first < count:  # in parts, between which the time can be looked at
        check()
        began, part = perf_counter(), slice(first, first + size)
        results = (array[part] for array in (ends, remainders, state, regular))
        steps += follow_paths(homotopy.equations, starts[part], which[part], care, *results, noted)
        first, size = first + size, size * (2 if perf_counter() - began < LONGEST_TURN else 1)
    is_known, smallest = state != UNKNOWN, np.zeros(count)
    ends[is_known] /= norms(ends[is_known])[:, None]
    smallest[regular] = homotopy.smallest(ends[regular], which[regular])
    track = track[1 : 1 + int(track[0, 0].real)]
    track = np.column_stack([which[np.cumsum(track[:, 0] == 1.0) - 1], track])
    return Ends(ends, state, regular, smallest, int(steps), track=track)
