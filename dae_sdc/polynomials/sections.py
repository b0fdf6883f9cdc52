"""Intersections of linear spaces with the solutions of polynomials, and their irreducible components."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dae_sdc.polynomials.equations import Homotopy
from dae_sdc.polynomials.homotopy import (
    RESIDUAL_TOLERANCE,
    combined,
    deflated,
    homogeneous_points,
    least_step,
    phase,
    relative_ranks,
)
from dae_sdc.polynomials.polynomials import Complexes, Integers, PolynomialSystem
from dae_sdc.polynomials.tracking import SAME_END, Booleans, Ends, follow, sizes

MOST_DEFLATIONS = 8  # Largest number of deflations of a point, each of which lowers its multiplicity.


@dataclass(frozen=True, eq=False)
class Cut:
    """Solutions of polynomials on a linear space, in variables of size 1."""

    # The polynomials, after deflation if the solutions are singular, in N variables.
    system: PolynomialSystem
    variables: int  # Number n of the variables of the user, which come first.
    # Shape (k, N + 1). Linear forms in homogeneous coordinates that vanish on the linear space.
    slices: Complexes

    def refined(self, points: Complexes) -> tuple[Complexes, Booleans]:
        """Affine points refined by the Gauss-Newton method, shape (p, N), and which of them are regular."""
        x, size = points, 1.0 + sizes(points)
        linear, constant = self.slices[:, 1:], self.slices[:, 0]
        change = np.full(len(x), np.inf)
        for _ in range(4):
            values, jacobians = self.system.both(x)
            matrix = np.concatenate([jacobians, np.broadcast_to(linear, (len(x), *linear.shape))], axis=1)
            residual = np.concatenate([values, x @ linear.T + constant], axis=1)
            step = least_step(matrix, residual)
            x, change = x - step, sizes(step)
        good = (sizes(x - points) <= 100.0 * SAME_END * size) & (change <= 1e-9 * size)
        homogeneous = self.system.homogenized()
        good &= relative_ranks(homogeneous, homogeneous_points(x), self.slices) == x.shape[1]
        return np.where(good[:, None], x, points), good

    def section(self, points: Complexes, random: np.random.Generator) -> Section:
        """The section at affine points, shape (p, N), with a random square system."""
        square = combined(self.system, self.system.variables - len(self.slices), random).homogenized()
        return Section(self.system, self.variables, self.slices, square, homogeneous_points(points))

    def resolved(
        self, points: Complexes, random: np.random.Generator, left: int = MOST_DEFLATIONS
    ) -> tuple[list[Section], Complexes]:
        """Sections of points made regular by deflation, and the points for which deflation fails."""
        # Shapes: points (p, N) -> (q, n).
        system, n, slices = self.system, self.variables, self.slices
        sections: list[Section] = []
        failed = [points[:0, :n]]
        ranks = relative_ranks(system.homogenized(), homogeneous_points(points))
        for rank in np.unique(ranks).tolist():
            here = points[ranks == rank]
            if left == 0:
                failed.append(here[:, :n])
                continue
            more = deflated(system, rank, random)
            added = more.variables - system.variables
            wider = Cut(more, n, np.hstack([slices, np.zeros((len(slices), added))]))
            # At given points the equations are linear in the new unknowns.
            start = np.hstack([here, np.zeros((len(here), added))])
            if added:
                values, matrix = more.both(start)
                start[:, system.variables :] = -least_step(matrix[:, :, system.variables :], values)
            better, good = wider.refined(start)
            if good.any():
                sections.append(wider.section(better[good], random))
            if not good.all():
                found, lost = wider.resolved(better[~good], random, left - 1)
                sections += found
                failed.append(lost)
        return sections, np.concatenate(failed)


@dataclass(frozen=True, eq=False)
class Section(Cut):
    """Points in which a linear space meets solutions of one dimension; :class:`Cut` with two parameters."""

    # Random combinations of the polynomials, in homogeneous coordinates, as many as make the points
    # isolated.
    square: PolynomialSystem
    points: Complexes  # Shape (p, N + 1). The points, in homogeneous coordinates of norm 1.

    def part(self, which: Integers) -> Section:
        """The section with some of its points only."""
        return Section(self.system, self.variables, self.slices, self.square, self.points[which])

    def affine(self, points: Complexes) -> Complexes:
        """Values of the variables of the user at homogeneous points, shape (p, n)."""
        return points[:, 1 : self.variables + 1] / points[:, :1]

    def moved(
        self, points: Complexes, before: Complexes, after: Complexes, gamma: complex, attempts: int = 1
    ) -> Ends:
        """Ends of the paths on which points move when the slices move."""
        # Shapes: points (p, N + 1), before (k, N + 1), after (k, N + 1) or (p, k, N + 1).
        targets = np.broadcast_to(after, (len(points), *self.slices.shape))
        homotopy = Homotopy.to(self.square, gamma, before=before, after=targets)
        return follow(homotopy, points, attempts=attempts)

    def contains(self, points: Complexes, random: np.random.Generator, close: float = SAME_END) -> Booleans:
        """Whether points lie on the components that the section meets."""
        # Shapes: points (q, n).
        if len(self.slices) == 0:
            away = np.abs(points[:, None] - self.affine(self.points)[None]).max(axis=2).min(axis=1)
            return np.asarray(away <= close * (1.0 + sizes(points)), dtype=np.bool_)
        whole = np.zeros((len(points), self.slices.shape[1]), dtype=np.complex128)
        whole[:, 0], whole[:, 1 : self.variables + 1] = 1.0, points
        after = np.repeat(self.slices[None], len(points), axis=0)
        after[:, :, 0] -= whole @ self.slices.T
        count = len(self.points)
        starts, goals = np.tile(self.points, (len(points), 1)), np.repeat(after, count, axis=0)
        ends = self.moved(starts, self.slices, goals, phase(random), attempts=3)
        hit = np.zeros(len(starts), dtype=np.bool_)
        finite = ends.known & ~ends.far
        gaps = self.affine(ends.points[finite]) - np.repeat(points, count, axis=0)[finite]
        hit[finite] = sizes(gaps) <= close * (1.0 + sizes(np.repeat(points, count, axis=0)[finite]))
        return np.asarray(hit.reshape(len(points), count).any(axis=1), dtype=np.bool_)


def vanish(homogeneous: PolynomialSystem, points: Complexes) -> Booleans:
    """Whether all polynomials vanish at points of norm 1, shape (p,)."""
    return sizes(homogeneous.relative(points)[0]) <= RESIDUAL_TOLERANCE


IDLE_LOOPS = 8  # Monodromy loops in succession that merge no groups, after which unions of groups are tried.
MOST_GROUPS_TRIED = 12  # Largest number of groups of which all unions are tried.
# Second difference of the mean point of parallel sections, relative to 1 + its size, that counts as 0.
TRACE_TOLERANCE = 1e-7


def irreducible(section: Section, random: np.random.Generator) -> list[tuple[Integers, bool]]:
    """Groups of points of a section on an irreducible component, and whether their trace test holds."""
    count = len(section.points)
    label = np.arange(count)
    if len(section.slices) == 0:
        return [(label[k : k + 1], True) for k in range(count)]
    traces, size = _traces(section, random), 1.0 + sizes(section.affine(section.points)).max()
    for _ in range(2):
        if np.isfinite(traces).all():
            break
        traces = _traces(section, random)

    def straight(points: Integers) -> bool:
        return bool(abs(traces[points].sum()) <= TRACE_TOLERANCE * size * points.size)

    def groups() -> list[Integers]:
        return [np.flatnonzero(label == k) for k in np.unique(label)]

    idle = 0
    while idle < IDLE_LOOPS and not all(map(straight, groups())):
        before, goal = np.unique(label).size, _loop(section, random)
        for k, m in enumerate(label.tolist() if goal is None else goal.tolist()):
            label[label == label[m]] = label[k]
        idle = idle + 1 if np.unique(label).size == before else 0
    crooked = [group for group in groups() if not straight(group)]
    if 1 < len(crooked) <= MOST_GROUPS_TRIED:
        for number in range(2, len(crooked) + 1):
            for chosen in combinations(range(len(crooked)), number):
                union = np.concatenate([crooked[k] for k in chosen])
                if np.unique(label[union]).size == number and straight(union):
                    label[union] = label[union[0]]
    return [(group, straight(group)) for group in groups()]


def _traces(section: Section, random: np.random.Generator) -> Complexes:
    """Second differences of a general coordinate of each point when the last slice is shifted."""
    count = len(section.points)
    shifted = np.repeat(section.slices[None], 2, axis=0)
    shift = 0.5 * phase(random) * np.linalg.norm(section.slices[-1])
    shifted[:, -1, 0] += [shift, -shift]
    starts = np.tile(section.points, (2, 1))
    ends = section.moved(starts, section.slices, np.repeat(shifted, count, axis=0), phase(random))
    general = np.exp(2j * np.pi * random.random(section.variables))
    values = section.affine(ends.points) @ general
    values[~ends.known | ends.far] = np.nan
    here = section.affine(section.points) @ general
    found: Complexes = values[:count] + values[count:] - 2.0 * here
    return found


def _loop(section: Section, random: np.random.Generator) -> Integers | None:
    """Number of the point at which each point arrives after a loop of the slices; None if a path is lost."""
    shape = section.slices.shape
    other = np.zeros(shape, dtype=np.complex128)
    columns = section.variables + 1
    other[:, :columns] = random.normal(size=(shape[0], columns)) + 1j * random.normal(
        size=(shape[0], columns)
    )
    there = section.moved(section.points, section.slices, other, phase(random))
    if not there.known.all() or there.far.any():
        return None
    back = section.moved(there.points, other, section.slices, phase(random))
    if not back.known.all() or back.far.any():
        return None
    old, new = section.affine(section.points), section.affine(back.points)
    away = np.abs(new[:, None] - old[None]).max(axis=2)
    nearest = away.argmin(axis=1)
    if (away.min(axis=1) > SAME_END * (1.0 + sizes(new))).any() or np.unique(nearest).size < len(old):
        return None
    return np.asarray(nearest, dtype=np.int64)
