"""All solutions of a polynomial system: its irreducible curves, surfaces and points, by linear sections."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import limited, under_way
from dae_sdc.errors import InputError, require_count, require_number
from dae_sdc.polynomials.homotopy import (
    MOST_PATHS,
    RESIDUAL_TOLERANCE,
    combined,
    deflated,
    gaussian,
    homogeneous_points,
    least_step,
    phase,
    relative_ranks,
)
from dae_sdc.polynomials.polynomials import Complexes, Homotopy, Integers, PolynomialSystem
from dae_sdc.polynomials.tracking import SAME_END, Booleans, Ends, follow, groups_of, sizes

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
        good &= relative_ranks(self.system, x, self.slices) == x.shape[1]
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
        ranks = relative_ranks(system, points)
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
                better_points, lost = wider.resolved(better[~good], random, left - 1)
                sections += better_points
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
    bends: Complexes = values[:count] + values[count:] - 2.0 * here
    return bends


def _loop(section: Section, random: np.random.Generator) -> Integers | None:
    """Number of the point at which each point arrives after a loop of the slices; None if a path is lost."""
    shape = section.slices.shape
    other = np.zeros(shape, dtype=np.complex128)
    columns = section.variables + 1
    other[:, :columns] = gaussian(random, (shape[0], columns))
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


# Largest number of random linear spaces tried: some nearly touch the solutions, or meet them far away.
MOST_CASCADES = 6
MOST_COORDINATES_SHOWN = 6  # Largest number of coordinates of a point that are printed.


def shown_number(value: complex) -> str:
    """A coordinate as text, rounded to 8 decimals and 6 digits."""
    real, imaginary = round(value.real, 8) + 0.0, round(value.imag, 8) + 0.0
    return f"{real:.6g}" if imaginary == 0.0 else f"{complex(real, imaginary):.6g}"


@dataclass(frozen=True, eq=False)
class Component:
    """An irreducible set of solutions of a polynomial system.

    Parameters
    ----------
    dimension : int
        Complex dimension: 0 for a point, 1 for a curve.
    degree : int
        Number of points in which a general linear space of complementary dimension meets the set.
    multiplicity_one : bool
        Whether the rank of the Jacobian at a general point is the number of variables less the dimension.
        Otherwise the component is singular: it is a multiple solution at all of its points, as 0 is of
        x^2 = 0, and the degree is that of the set without multiplicity.
    rank : int
        Rank of the Jacobian at a general point.
    certified : bool
        Whether the trace test holds, which shows that no witness point is missing. That the points belong to
        a single component is shown by monodromy.
    witness : ndarray, shape (degree, n)
        The points, complex, in which the linear space meets the component.
    linear, offset : ndarray, shapes (dimension, n) and (dimension,)
        The linear space, linear @ x = offset.

    Examples
    --------
    >>> import sympy as sp
    >>> x, y = sp.symbols("x y")
    >>> system = ds.PolynomialSystem.from_sympy([x**2 - y**2], [x, y])
    >>> parts = ds.decompose(system)
    >>> [(part.dimension, part.degree) for part in parts.components]
    [(1, 1), (1, 1)]
    """

    dimension: int
    degree: int
    multiplicity_one: bool
    rank: int
    certified: bool
    witness: Complexes
    linear: Complexes
    offset: Complexes
    _section: Section | None = field(repr=False)
    _given: PolynomialSystem | None = field(repr=False)
    _scales: Vector = field(repr=False)

    def contains(self, points: npt.ArrayLike, *, seed: int = 0) -> Booleans:
        """Whether points lie on the component, by moving the linear space until it goes through them.

        Parameters
        ----------
        points : array_like, shape (p, n)
            Real or complex points.
        seed : int
            Seed of the random path on which the linear space is moved.

        Returns
        -------
        ndarray of bool, shape (p,)
            Which points belong to the component.

        Raises
        ------
        InputError
            If the points have another number of coordinates, or one is not finite.
        """
        given = np.atleast_2d(np.asarray(points, dtype=np.complex128))
        n = self._scales.size
        if given.ndim != 2 or given.shape[1] != n or not np.isfinite(given).all():
            raise InputError(f"points must be finite numbers of shape (p, {n}); got shape {given.shape}")
        inside = np.ones(len(given), dtype=np.bool_)
        if self._section is None or self._given is None:
            return inside
        scaled = given / self._scales
        inside = vanish(self._given.homogenized(), homogeneous_points(scaled))
        if inside.any():
            inside[inside] = self._section.contains(scaled[inside], np.random.default_rng(seed))
        return inside

    def __str__(self) -> str:
        if self.dimension == 0:
            shown = [shown_number(value) for value in self.witness[0]]
            more = ", ..." if len(shown) > MOST_COORDINATES_SHOWN else ""
            text = f"point ({', '.join(shown[:MOST_COORDINATES_SHOWN])}{more})"
        else:
            text = f"dimension {self.dimension}, degree {self.degree}"
        text += f", rank of the Jacobian {self.rank}"
        if not self.multiplicity_one:
            text += ", singular component: multiple at all of its points"
            text += "" if self.dimension == 0 else ", degree of the reduced set"
        return text if self.certified else text + ", not certified by the trace test"


@dataclass(frozen=True, eq=False)
class Decomposition:
    """All solutions of a polynomial system as a union of irreducible components.

    Parameters
    ----------
    components : tuple of Component
        The components, by decreasing dimension and degree.
    variables : int
        Number of variables.
    failed : int
        Number of paths that were lost; some components may be missing if it is not 0.
    paths, steps : int
        Number of paths to the sections, and of their steps.

    Examples
    --------
    >>> import sympy as sp
    >>> x, y = sp.symbols("x y")
    >>> system = ds.PolynomialSystem.from_sympy([x**2 - y**2], [x, y])
    >>> parts = ds.decompose(system)
    >>> [(part.dimension, part.degree) for part in parts.components]
    [(1, 1), (1, 1)]
    """

    components: tuple[Component, ...]
    variables: int
    failed: int
    paths: int
    steps: int

    def of_dimension(self, dimension: int) -> tuple[Component, ...]:
        """The components of one dimension."""
        return tuple(component for component in self.components if component.dimension == dimension)

    def __str__(self) -> str:
        lines = [str(component) for component in self.components] or ["no solutions"]
        if self.failed:
            lines.append(f"{self.failed} of {self.paths} paths were lost: some solutions may be missing")
        return "\n".join(lines)


class _Cascade:
    """The regenerative cascade: sections of the solutions by decreasing dimension."""

    def __init__(
        self, system: PolynomialSystem, random: np.random.Generator, workers: int, hasty: bool
    ) -> None:
        self.system, self.random, self.workers, self.hasty = system, random, workers, hasty
        self.homogeneous = system.homogenized()
        self.failed = self.paths = self.steps = 0
        self.sections: list[tuple[int, bool, Section]] = []

    def _forms(self, number: int) -> Complexes:
        forms = gaussian(self.random, (number, self.system.variables + 1))
        scaled: Complexes = forms / np.linalg.norm(forms, axis=1, keepdims=True)
        return scaled

    def _followed(self, polynomials: PolynomialSystem, count: int, starts: Complexes, **how: Any) -> Ends:
        """Ends of the paths to some of the polynomials and to linear forms, see :meth:`Homotopy.to`."""
        here = PolynomialSystem(polynomials.coefficients[:count], polynomials.exponents).homogenized()
        homotopy = Homotopy.to(here, phase(self.random), **how)
        ends = follow(homotopy, starts, workers=self.workers, attempts=1 if self.hasty else 3)
        self.paths += len(ends.points)
        self.steps += ends.steps
        self.failed += int((~ends.known).sum())
        return ends

    def run(self) -> None:
        n, random = self.system.variables, self.random
        stages = min(n, self.system.equations)
        polynomials = combined(self.system, stages, random)
        forms = self._forms(n)
        points = np.zeros((0, n + 1), dtype=np.complex128)
        for stage, degree in enumerate(polynomials.degrees.tolist()):
            slices = forms[stage + 1 :]
            factors = np.concatenate([forms[stage : stage + 1], self._forms(degree - 1)])
            if stage == 0:
                starts = np.concatenate(
                    [np.linalg.svd(np.vstack([f, slices]))[2][-1:].conj() for f in factors]
                )
            else:
                starts = self._at_factors(polynomials, points, forms, stage, factors)
            if self.failed and self.hasty:
                return
            if len(starts) > MOST_PATHS:
                raise InputError(f"{len(starts)} paths to sections: at most {MOST_PATHS} are followed")
            ends = self._followed(polynomials, stage + 1, starts, factors=factors, slices=slices)
            finite = ends.known & ~ends.far
            solves = finite.copy()
            solves[finite] = vanish(self.homogeneous, ends.points[finite])
            self._keep(n - stage - 1, slices, ends, solves)
            points = ends.points[finite & ~solves & ends.regular]
            # Solutions of the random combinations, but not of all polynomials, are simple: others are lost.
            self.failed += int((finite & ~solves & ~ends.regular).sum())
            if len(points) == 0 or (self.failed and self.hasty):
                return

    def _at_factors(
        self,
        polynomials: PolynomialSystem,
        points: Complexes,
        forms: Complexes,
        stage: int,
        factors: Complexes,
    ) -> Complexes:
        """The points after the first slice has moved to each factor of the product."""
        more = len(factors) - 1
        if more == 0:
            return points
        before = forms[stage:]
        after = np.repeat(before[None], more, axis=0)
        after[:, 0] = factors[1:]
        after = np.repeat(after, len(points), axis=0)
        starts = np.tile(points, (more, 1))
        ends = self._followed(polynomials, stage, starts, before=before, after=after)
        return np.concatenate([points, ends.points[ends.known]])

    def _keep(self, dimension: int, slices: Complexes, ends: Ends, solves: Booleans) -> None:
        """Add sections of the solutions among the ends that lie on no component of higher dimension."""
        n, random = self.system.variables, self.random
        cut = Cut(self.system, n, slices)
        simple = ends.points[solves & ends.regular]
        if len(simple):
            # By the rank of the Jacobian these points lie on a component of this dimension and on no other.
            affine = cut.refined(simple[:, 1:] / simple[:, :1])[0]
            self.sections.append((dimension, True, cut.section(affine, random)))
        multiple = ends.points[solves & ~ends.regular]
        points = multiple[:, 1:] / multiple[:, :1]
        points = np.array([points[group].mean(axis=0) for group in groups_of(points)]).reshape(-1, n)
        for other, _, section in self.sections:
            if len(points) and other > dimension:
                points = points[~section.contains(points, random, 10.0 * SAME_END)]
        if len(points):
            sections, lost = cut.resolved(points, random)
            self.sections += [(dimension, False, section) for section in sections]
            self.failed += len(lost)


@checked()
def decompose(
    system: PolynomialSystem, *, seed: int = 0, workers: int = 1, time_limit: float | None = None
) -> Decomposition:
    """Numerical irreducible decomposition of the solutions of polynomials.

    A regenerative cascade finds the points in which random linear spaces meet the components of each
    dimension. Points on components of higher dimension, found by moving the sections of those, are left out.
    Deflation makes multiple points regular. Monodromy loops of the linear space, which permute the points of
    one component, group the points, and a trace test shows that no point of a group is missing.

    Parameters
    ----------
    system : PolynomialSystem
        Any number of polynomials in any number of variables.
    seed : int
        Seed of all random numbers. The result holds with probability 1.
    workers : int
        Number of processes that share long lists of paths. The result does not depend on it.
    time_limit : float, optional
        Seconds after which the call is given up.

    Returns
    -------
    Decomposition
        The components.

    Raises
    ------
    TimeLimitError
        If the time is over.
    InputError
        If there are too many paths.
    RemoteError
        If another process has failed.

    References
    ----------
    Hauenstein, Sommese and Wampler, Regenerative cascade homotopies for solving polynomial systems, Appl.
    Math. Comput. 218 (2011) 1240. Sommese and Wampler, The numerical solution of systems of polynomials
    arising in engineering and science, World Scientific, 2005, chapters 13 to 15.

    Examples
    --------
    >>> import sympy as sp
    >>> x, y = sp.symbols("x y")
    >>> system = ds.PolynomialSystem.from_sympy([x**2 - y**2], [x, y])
    >>> parts = ds.decompose(system)
    >>> [(part.dimension, part.degree) for part in parts.components]
    [(1, 1), (1, 1)]
    """
    require_count("workers", workers)
    if time_limit is not None and not require_number("time_limit", time_limit) > 0.0:
        raise InputError(f"time_limit must be positive; got {time_limit!r}")
    with limited(time_limit), under_way("solution sets were decomposed", ", or decompose fewer equations"):
        return _decomposed(system, seed, workers)


def _decomposed(system: PolynomialSystem, seed: int, workers: int) -> Decomposition:
    """The components, see :func:`decompose`."""
    n, random = system.variables, np.random.default_rng(seed)
    kept = (system.coefficients != 0.0).any(axis=1)
    if not kept.any():
        whole = Component(
            dimension=n,
            degree=1,
            multiplicity_one=True,
            rank=0,
            certified=True,
            witness=np.asarray(random.normal(size=(1, n)), dtype=np.complex128),
            linear=np.eye(n, dtype=np.complex128),
            offset=np.zeros(n, dtype=np.complex128),
            _section=None,
            _given=None,
            _scales=np.ones(n),
        )
        return Decomposition((whole,), n, 0, 0, 0)
    system = PolynomialSystem(system.coefficients[kept], system.exponents)
    if (system.degrees == 0).any():
        return Decomposition((), n, 0, 0, 0)
    scaled, scales = system.scaled()
    best: tuple[int, _Cascade, list[Component]] | None = None
    for attempt in range(MOST_CASCADES):
        cascade = _Cascade(scaled, random, workers, hasty=attempt < MOST_CASCADES - 1)
        cascade.run()
        if cascade.failed and cascade.hasty:
            continue
        components = [
            _component(dimension, simple, certified, section.part(group), scaled, scales)
            for dimension, simple, section in cascade.sections
            for group, certified in irreducible(section, random)
        ]
        doubts = cascade.failed + sum(not component.certified for component in components)
        if best is None or doubts < best[0]:
            best = doubts, cascade, components
        if doubts == 0:
            break
    assert best is not None
    _, cascade, components = best
    components.sort(
        key=lambda found: (
            -found.dimension,
            -found.degree,
            not found.multiplicity_one,
            *found.witness[0].real.round(6).tolist(),
        )
    )
    return Decomposition(tuple(components), n, cascade.failed, cascade.paths, cascade.steps)


def _component(
    dimension: int, simple: bool, certified: bool, section: Section, scaled: PolynomialSystem, scales: Vector
) -> Component:
    n = section.variables
    points = section.affine(section.points)
    return Component(
        dimension=dimension,
        degree=len(points),
        multiplicity_one=simple,
        rank=n - dimension if simple else int(relative_ranks(scaled, points[:1])[0]),
        certified=certified,
        witness=points * scales,
        linear=section.slices[:, 1 : n + 1] / scales,
        offset=-section.slices[:, 0],
        _section=section,
        _given=scaled,
        _scales=scales,
    )
