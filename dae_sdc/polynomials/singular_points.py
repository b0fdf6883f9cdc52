"""Singular points of the solutions of polynomials: where the Jacobian loses rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import under_way
from dae_sdc.errors import TimeLimitError, require_count
from dae_sdc.polynomials.homotopy import (
    REAL_TOLERANCE,
    extended,
    gaussian,
    phase,
    relative_ranks,
    widened,
    with_kernel,
)
from dae_sdc.polynomials.minors import DEPENDENT_IN_MINORS, PolynomialMatrix, substituted
from dae_sdc.polynomials.polynomials import Complexes, Homotopy, Integers, PolynomialSystem
from dae_sdc.polynomials.tracking import Booleans, Progress, groups_of, observed, sizes
from dae_sdc.polynomials.witness import (
    MOST_INTERSECTIONS,
    TRACE_TOLERANCE,
    Component,
    Cut,
    Decomposition,
    Intersections,
    Section,
    decompose,
    irreducible,
    linear_forms,
    linear_span,
    shown_number,
    spanned,
)
from dae_sdc.sharing import meter


@dataclass(frozen=True, eq=False)
class SingularSet:
    """Points of a component at which the rank of the Jacobian is lower than at its general points."""

    component: int  # Number of the component in the decomposition, from 0.
    dimension: int  # Complex dimension: 0 for isolated points, 1 for curves.
    rank: int  # Rank of the Jacobian at these points.
    generic_rank: int  # Rank at general points of the component.
    # Shape (degree, n). The isolated points, or those in which a linear space meets the curves or surfaces.
    witness: Complexes
    certified: bool  # Whether the trace test holds, which shows that no witness point is missing.

    def __str__(self) -> str:
        text = f"a set of singular points of dimension {self.dimension}, degree {len(self.witness)}"
        text += f", rank {self.rank} instead of {self.generic_rank}, on component {self.component + 1}"
        return text if self.certified else text + ", not certified by the trace test"


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
    parts : tuple of SingularSet
        The points where the rank is lower on each component, by components, dimensions and ranks.
    multiple : tuple of int
        Dimensions of the components that are multiple, and so singular, at all of their points.
    failed : int
        Number of paths that were lost; some points may be missing if it is not 0.
    unfinished : str
        Why there may be more points than those found so far; empty otherwise.

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
    parts: tuple[SingularSet, ...]
    multiple: tuple[int, ...]
    failed: int
    unfinished: str = ""

    @property
    def sets(self) -> tuple[int, ...]:
        """Dimensions of the sets of singular points that are not isolated, and not in ``points``."""
        curved = {part.dimension for part in self.parts if part.dimension}
        return tuple(sorted(curved | set(self.multiple), reverse=True))

    @property
    def is_real(self) -> Booleans:
        """Which of the points are real, shape (k,)."""
        size = 1.0 + sizes(self.points)
        return np.asarray(np.abs(self.points.imag).max(axis=1, initial=0.0) <= REAL_TOLERANCE * size)

    @property
    def real(self) -> Vector:
        """The real points, shape (q, n)."""
        return self.points[self.is_real].real

    def __str__(self) -> str:
        lines = [
            f"rank {rank} instead of {self.generic_rank} at ({', '.join(map(shown_number, point))})"
            for point, rank in zip(self.points, self.ranks.tolist(), strict=True)
        ] or ["no isolated singular points"]
        lines += [str(part) for part in self.parts if part.dimension]
        lines += [
            f"a set of singular points of dimension {dimension}: a multiple component"
            for dimension in self.multiple
        ]
        if self.failed:
            lines.append(f"{self.failed} paths were lost: some points may be missing")
        if self.unfinished:
            lines.append(f"found so far, there may be more: {self.unfinished}")
        return "\n".join(lines)


# Distances, relative to 1 + its size, of linear spaces from a point that may be isolated, and the ratio of
# the distances of the nearest other singular points there up to which it is not: a cusp has 10^(-1/3).
SHIFTS, APPROACH = (1e-2, 1e-3), 0.7


class _Zeros(NamedTuple):
    """Where a factor of a minor vanishes on a set."""

    cut: Cut  # The set of these points, with unknowns for the kernel of the factor.
    points: Complexes  # Shape (p, N). The different points of a section, with these unknowns.
    ranks: Integers  # Shape (p,). Ranks of the Jacobian there.


class _Locus(Intersections):
    """Where the rank is lower on a component, in coordinates of its linear span."""

    # The rank is lower where all minors of its size vanish. A minor that does not vanish on the component is
    # a product of factors; the component is intersected with each of them. What comes up are sets where the
    # rank is lower, and others, on which another minor does not vanish, and which it intersects in turn.

    def __init__(
        self,
        system: PolynomialSystem,
        number: int,
        component: Component,
        random: np.random.Generator,
        workers: int,
    ) -> None:
        section, n = component._section, system.variables
        super().__init__(random, workers)
        self.system, self.number, self.component, self.rank = system, number, component, component.rank
        forms, dependent = linear_span(section, random)
        free = np.setdiff1d(np.arange(n), dependent)
        self.chart = np.zeros((n, len(free) + 1), dtype=np.complex128)
        self.chart[free, 1 + np.arange(len(free))] = 1.0
        self.chart[dependent] = -forms[:, np.append(0, 1 + free)]
        within = substituted(system, self.chart)
        slices = section.slices[:, 1 : n + 1] @ self.chart
        slices[:, 0] += section.slices[:, 0]
        points = section.affine(section.points)[:, free]
        sections, lost = Cut(within, len(free), slices).sections(points, random)
        self.failed += len(lost)
        sections = [
            self._moved(section, linear_forms(random, len(slices), len(free))) for section in sections
        ]
        whole = PolynomialMatrix.of_columns([substituted(system.derivative(j), self.chart) for j in range(n)])
        self.matrix = whole.eliminated()
        self.order = component.rank - (whole.entries.shape[1] - self.matrix.entries.shape[1])
        # Sections of the component, of what other factors meet on it, and so on, of ever lower dimension.
        self.levels = [sections] if self.order else []
        while self.levels and self.levels[-1]:
            self.levels.append(self._descend())

    def _descend(self) -> list[Section]:
        """Add the sets where the rank is lower; returns sections of the others that lie lower by one."""
        level, sections = len(self.levels) - 1, self.levels[-1]
        dimension = len(sections[0].slices) - 1
        zeros = self._zeros_at(level)
        points, ranks = self._lower(zeros)
        alone = np.array([not self.is_near(point) for point in points], dtype=np.bool_)
        points, ranks = points[alone].reshape(-1, len(self.chart)), ranks[alone]
        shift = np.zeros(dimension + 1, dtype=np.complex128)
        shift[-1] = 0.5 * phase(self.random)
        ways = (shift, -shift) if dimension and len(points) else ()
        shifted = [self._lower(self._zeros_at(level, way)) for way in ways]
        for rank in np.unique(ranks).tolist():
            here = points[ranks == rank]
            traces = [where[lower == rank].sum(axis=0) for where, lower in shifted]
            gap = np.abs(sum(traces) - 2.0 * here.sum(axis=0)).max() if traces else 0.0
            straight = gap <= TRACE_TOLERANCE * (1.0 + sizes(here).max()) * len(here)
            about = self.number, dimension, rank, self.rank, here, bool(straight)
            self.sets.append(SingularSet(*about))
        following = list[Section]()
        for cut, places, here in zeros if dimension else []:
            if (here >= self.rank).any():
                more, lost = cut.sections(places[here >= self.rank], self.random)
                self.failed += len(lost)
                following += more
        if dimension < 2:
            return following
        # Where several of them cross, their linear spans tell them apart.
        pieces = [one.part(group) for one in following for group, _ in irreducible(one, self.random)]
        return [spanned(piece.system, piece, self.random)[0] for piece in pieces]

    def _values(self, points: Complexes) -> Complexes:
        """Values of all variables, shape (p, n), at points in coordinates of the span, which come first."""
        coordinates = self.chart.shape[1] - 1
        return np.asarray(points[:, :coordinates] @ self.chart[:, 1:].T + self.chart[:, 0])

    def _lower(self, zeros: list[_Zeros]) -> tuple[Complexes, Integers]:
        """The different points of lower rank, shape (p, n), and their ranks."""
        points = np.concatenate([self._values(part.points[part.ranks < self.rank]) for part in zeros])
        ranks = np.concatenate([part.ranks[part.ranks < self.rank] for part in zeros])
        first = [int(group[0]) for group in groups_of(points)]
        return points[first], ranks[first]

    def is_near(self, point: Complexes) -> bool:
        """Whether curves or surfaces of higher levels come near a point, shape (n,)."""
        size, free = 1.0 + np.abs(point).max(), self.chart.shape[1] - 1
        levels = {self.component.dimension - 1 - part.dimension for part in self.sets if part.dimension}
        coordinates = np.linalg.lstsq(self.chart[:, 1:], point - self.chart[:, 0], rcond=None)[0]
        for level in sorted(levels - {len(self.levels) - 1}):
            slices = self.levels[level][0].slices[:, : free + 1]
            through = slices @ np.append(1.0, coordinates)
            aside = size * gaussian(self.random, (len(slices),))
            points = [self._lower(self._zeros_at(level, part * aside - through))[0] for part in SHIFTS]
            away = [sizes(there - point).min(initial=np.inf) for there in points]
            if away[1] <= APPROACH * away[0] < np.inf:
                return True
        return False

    def _zeros_at(self, level: int, shifts: Complexes | None = None) -> list[_Zeros]:
        """Where factors of minors vanish on the sets of a level, with other numbers in the linear forms."""
        sections = self.levels[level]
        if shifts is not None:
            size = self.chart.shape[1]
            shifted = sections[0].slices[:, :size] + shifts[:, None] * np.eye(1, size)
            sections = [self._moved(section, shifted) for section in sections]
        return [part for section in sections for part in self._zeros(section)]

    def _moved(self, section: Section, forms: Complexes) -> Section:
        """The section by other linear forms in the coordinates of the span."""
        slices = np.zeros_like(section.slices)
        slices[:, : forms.shape[1]] = forms
        targets = np.repeat(slices[None], len(section.points), axis=0)
        homotopy = Homotopy.to(section.square, phase(self.random), before=section.slices, after=targets)
        ends = self.followed(homotopy, section.points)
        self.failed += int(ends.far.sum())
        return replace(section, slices=slices, points=ends.points[ends.known & ~ends.far])

    def _zeros(self, section: Section) -> Iterator[_Zeros]:
        """Where a minor vanishes that does not on the section, for each of its factors."""
        left = np.arange(len(section.points))
        while left.size:
            points = section.affine(section.points[left])
            minor = self.matrix.minor(points[0], self.order)
            regular = np.linalg.svd(minor.at(points), compute_uv=False)[:, -1] > DEPENDENT_IN_MINORS
            regular[0] = True
            factors = {
                part.exponents.tobytes() + part.entries.round(8).tobytes(): part for part in minor.factors()
            }
            for factor in factors.values():
                yield self._intersected(section.part(left[regular]), factor)
            left = left[~regular]

    def _intersected(self, section: Section, factor: PolynomialMatrix) -> _Zeros:
        """Where the determinant of a matrix vanishes on a section."""
        more, size = section.slices.shape[1] - 1 - section.variables, factor.entries.shape[1]
        columns = [
            PolynomialSystem(column.coefficients, widened(column.exponents, more))
            for column in factor.columns
        ]
        rows = with_kernel(columns, np.linalg.qr(gaussian(self.random, (size, size)))[0])
        points, slices = self.met(section, rows)
        groups = groups_of(self._values(points))
        points = np.array([points[group].mean(axis=0) for group in groups]).reshape(-1, points.shape[1])
        ranks = relative_ranks(self.system, self._values(points))
        return _Zeros(Cut(extended(section.system, rows), section.variables, slices), points, ranks)


@checked()
def singular_points(
    system: PolynomialSystem,
    *,
    seed: int = 0,
    workers: int = 1,
    decomposition: Decomposition | None = None,
    time_limit: float | None = None,
    progress: Progress = False,
) -> SingularPoints:
    """Points of each component at which the rank of the Jacobian is lower than at its general points.

    In coordinates of the linear span of a component, where constant rows and columns of the Jacobian are
    eliminated, the component is intersected with the factors of a minor of low degree. A factor that is no
    polynomial is a matrix with a kernel vector. Where the rank is lower, the points belong to a set of
    singular points; where it is not, another minor does not vanish, and cuts further. Parallel linear spaces
    show by the trace test that no point of a curve or surface is missing. A component that is multiple is
    singular at all of its points, and its own rank may be lower at some of them.

    Parameters
    ----------
    system : PolynomialSystem
        The polynomials.
    seed : int
        Seed of all random numbers. The result holds with probability 1.
    workers : int
        Number of processes that share long lists of paths. The result does not depend on it.
    decomposition : Decomposition, optional
        Irreducible decomposition of the system; computed if not given.
    time_limit : float, optional
        Seconds after which the singular points of some components are returned, with ``unfinished`` in the
        result.
    progress : bool or callable
        Whether a bar is shown; None where there is a terminal. A function is called with the number of pieces
        of work that are done, their number, and their unit.

    Returns
    -------
    SingularPoints
        Isolated singular points, sets of others, and ranks.

    Raises
    ------
    TimeLimitError
        If the time is over before the components are known.
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
    require_count("workers", workers)
    scaled, scales = system.scaled()
    scaled = PolynomialSystem(scaled.coefficients[(scaled.coefficients != 0.0).any(axis=1)], scaled.exponents)
    loci, over, parts = list[_Locus](), "", decomposition
    try:
        with (
            observed(time_limit, progress),
            under_way("singular points were computed", ", or give polynomials of lower degree"),
        ):
            if parts is None:
                parts = decompose(system, seed=seed, workers=workers, progress=progress)
            curved = [k for k, part in enumerate(parts.components) if part.dimension and part.rank]
            with meter(len(curved), "component") as bar:
                for number in curved:
                    about = scaled, number, parts.components[number], random, workers
                    attempts = list[_Locus]()  # with other random numbers where paths are lost
                    while len(attempts) < MOST_INTERSECTIONS and all(attempt.doubts for attempt in attempts):
                        attempts.append(_Locus(*about))
                    loci.append(min(attempts, key=lambda attempt: attempt.doubts))
                    bar.update(1)
    except TimeLimitError as error:
        if parts is None:
            raise
        over = str(error)
    sets = list[SingularSet]()
    for locus in loci:
        others = [other for other in loci if other is not locus]
        for part in locus.sets:
            points = part.witness
            if part.dimension == 0:
                alone = [not any(other.is_near(point) for other in others) for point in points]
                points = points[np.array(alone, dtype=np.bool_)]
            if len(points):
                sets.append(replace(part, witness=points * scales))
    isolated = [one for one in sets if one.dimension == 0]
    whole = np.concatenate([np.zeros((0, n)), *(one.witness for one in isolated)])
    ranks = np.repeat([one.rank for one in isolated], [len(one.witness) for one in isolated])
    first = [int(group[0]) for group in groups_of(whole)]
    return SingularPoints(
        points=whole[first],
        ranks=np.asarray(ranks, dtype=np.int64)[first],
        generic_rank=max((part.rank for part in parts.components), default=0),
        parts=tuple(sets),
        multiple=tuple(c.dimension for c in parts.components if c.dimension and c.multiplicity != 1),
        failed=parts.failed + sum(locus.failed for locus in loci),
        unfinished=over or parts.unfinished,
    )
