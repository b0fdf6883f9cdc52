"""Irreducible components among the points of a linear section, by loops of monodromy and trace tests."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from dae_sdc.polynomials.polynomials import Complexes, Integers
from dae_sdc.polynomials.sections import Section
from dae_sdc.polynomials.slices import phase
from dae_sdc.polynomials.tracking import ENDS, sizes

IDLE_LOOPS = 8
"""Monodromy loops in succession that merge no groups, after which unions of groups are tried."""

MOST_GROUPS_TRIED = 12
"""Largest number of groups of which all unions are tried."""

TRACE_TOLERANCE = 1e-7
"""Second difference of the mean point of parallel sections, relative to 1 + its size, that counts as 0."""


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
    if (away.min(axis=1) > ENDS.same * (1.0 + sizes(new))).any() or np.unique(nearest).size < len(old):
        return None
    return np.asarray(nearest, dtype=np.int64)
