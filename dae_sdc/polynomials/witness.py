"""All solutions of a polynomial system: its irreducible curves, surfaces and points, by linear sections."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space, qr

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import under_way
from dae_sdc.errors import InputError, TimeLimitError, require_count
from dae_sdc.polynomials.homotopy import (
    MOST_PATHS,
    RESIDUAL_TOLERANCE,
    combined,
    deflated,
    extended,
    gaussian,
    homogeneous_points,
    least_step,
    phase,
    ranks_of,
    refined,
    relative_ranks,
    stacked,
    widened,
)
from dae_sdc.polynomials.minors import local_multiplicity
from dae_sdc.polynomials.polynomials import Complexes, Homotopy, Integers, PolynomialSystem, norms
from dae_sdc.polynomials.tracking import (
    SAME_END,
    Booleans,
    Ends,
    Progress,
    follow,
    groups_of,
    observed,
    sizes,
)
from dae_sdc.sharing import meter

MOST_DEFLATIONS = 8  # Largest number of deflations of a point, each of which lowers its multiplicity.


@dataclass(frozen=True, eq=False)
class Cut:
    """Solutions of polynomials on a linear space, in variables of size 1."""

    # The polynomials, after deflation if the solutions are singular, in N variables.
    system: PolynomialSystem
    variables: int  # Number n of the variables of the user, which come first.
    # Shape (k, N + 1). Linear forms in homogeneous coordinates that vanish on the linear space.
    slices: Complexes

    def section(self, points: Complexes, random: np.random.Generator) -> Section:
        """The section at regular affine points, shape (p, N), with a square system."""
        # As many polynomials of low degree as have independent gradients at all points; otherwise random
        # combinations.
        whole, number = homogeneous_points(points), self.system.variables - len(self.slices)
        jacobians = self.system.homogenized().relative(whole)[1]
        rows, ranks = list[int](), np.zeros(len(points), dtype=np.int64)
        for row in np.argsort(self.system.degrees, kind="stable").tolist():
            if (ranks == number).all():
                break
            more = ranks_of(jacobians[:, [*rows, row]])
            if (more > ranks).any():
                rows, ranks = [*rows, row], more
        chosen = PolynomialSystem(self.system.coefficients[rows], self.system.exponents)
        square = chosen if len(rows) == number else combined(self.system, number, random)
        return Section(self.system, self.variables, self.slices, square.homogenized(), whole)

    def sections(
        self, points: Complexes, random: np.random.Generator, left: int = MOST_DEFLATIONS
    ) -> tuple[list[Section], Complexes]:
        """Sections of points, by deflation where they are not regular, and the points for which it fails."""
        # Shapes: points (p, N) -> (q, n).
        system, n, slices = self.system, self.variables, self.slices
        points, regular = refined(system, points, slices)
        sections = [self.section(points[regular], random)] if regular.any() else []
        singular = points[~regular]
        if left == 0 or not len(singular):
            return sections, singular[:, :n]
        failed, ranks = list[Complexes](), relative_ranks(system, singular)
        for rank in np.unique(ranks).tolist():
            more = deflated(system, rank, random)
            added = more.variables - system.variables
            # At given points the equations are linear in the new unknowns.
            start = np.pad(singular[ranks == rank], ((0, 0), (0, added)))
            if added:
                values, matrix = more.both(start)
                start[:, system.variables :] = -least_step(matrix[:, :, system.variables :], values)
            wider = Cut(more, n, np.pad(slices, ((0, 0), (0, added))))
            better, lost = wider.sections(start, random, left - 1)
            sections += better
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
        whole = np.zeros((len(points), self.slices.shape[1]), dtype=np.complex128)
        whole[:, 0], whole[:, 1 : self.variables + 1] = 1.0, points
        shifts = whole @ self.slices.T
        if (sizes(shifts) <= close * SAME_END * (1.0 + sizes(points))).all():  # on this linear space
            away = np.abs(points[:, None] - self.affine(self.points)[None]).max(axis=2).min(axis=1)
            return np.asarray(away <= close * (1.0 + sizes(points)), dtype=np.bool_)
        after = np.repeat(self.slices[None], len(points), axis=0)
        after[:, :, 0] -= shifts
        count = len(self.points)
        starts, goals = np.tile(self.points, (len(points), 1)), np.repeat(after, count, axis=0)
        ends = self.moved(starts, self.slices, goals, phase(random), attempts=3)
        hit = ends.known & ~ends.far
        goals = np.repeat(points, count, axis=0)[hit]
        hit[hit] = sizes(self.affine(ends.points[hit]) - goals) <= close * (1.0 + sizes(goals))
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
MOST_INTERSECTIONS = 6
MOST_COORDINATES_SHOWN = 6  # Largest number of coordinates of a point that are printed.


def shown_number(value: complex) -> str:
    """A coordinate as text, rounded to 8 decimals and 6 digits."""
    real, imaginary = round(value.real, 8) + 0.0, round(value.imag, 8) + 0.0
    return f"{real:.6g}" if imaginary == 0.0 else f"{complex(real, imaginary):.6g}"


@dataclass(frozen=True, eq=False)
class Component:
    """An irreducible set of solutions of a polynomial system.

    Returned by :func:`decompose`, whose example shows it.

    Parameters
    ----------
    dimension : int
        Complex dimension: 0 for a point, 1 for a curve.
    degree : int
        Number of points in which a general linear space of complementary dimension meets the set.
    multiplicity : int
        Multiplicity of a general point among the solutions on a general linear space through it, 0 if it is
        too large to be told. Above 1 the component is singular: it is a multiple solution at all of its
        points, as 0 is of x^2 = 0, and the degree is that of the set without multiplicity.
    rank : int
        Rank of the Jacobian at a general point.
    certified : bool
        Whether the trace test holds, which shows that no witness point is missing. That the points belong to
        a single component is shown by monodromy.
    witness : ndarray, shape (degree, n)
        The points, complex, in which the linear space meets the component.
    linear, offset : ndarray, shapes (dimension, n) and (dimension,)
        The linear space, linear @ x = offset.
    """

    dimension: int
    degree: int
    multiplicity: int
    rank: int
    certified: bool
    witness: Complexes
    linear: Complexes
    offset: Complexes
    _section: Section = field(repr=False)
    _given: PolynomialSystem = field(repr=False)
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
        if self.multiplicity != 1:
            number = f" of multiplicity {self.multiplicity}" if self.multiplicity else ""
            text += f", singular component{number}: multiple at all of its points"
            text += "" if self.dimension == 0 else ", degree of the reduced set"
        return text if self.certified else text + ", not certified by the trace test"


@dataclass(frozen=True, eq=False)
class Decomposition:
    """All solutions of a polynomial system as a union of irreducible components.

    Returned by :func:`decompose`, whose example shows it.

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
    unfinished : str
        Why there may be more components than those found so far; empty otherwise.
    """

    components: tuple[Component, ...]
    variables: int
    failed: int
    paths: int
    steps: int
    unfinished: str = ""

    def of_dimension(self, dimension: int) -> tuple[Component, ...]:
        """The components of one dimension."""
        return tuple(component for component in self.components if component.dimension == dimension)

    def __str__(self) -> str:
        lines = [str(component) for component in self.components] or ["no solutions"]
        if self.failed:
            lines.append(f"{self.failed} of {self.paths} paths were lost: some solutions may be missing")
        if self.unfinished:
            lines.append(f"found so far, there may be more: {self.unfinished}")
        return "\n".join(lines)


# Singular value of points of sections, relative to the largest, up to which a linear form vanishes there.
VANISHING_FORM = 1e-9
SPARE_POINTS = 4  # Number of points by which those that determine linear forms are more than the variables.


@dataclass(frozen=True, eq=False)
class _Part:
    """A set of common solutions of some of the polynomials, of one dimension."""

    section: Section
    span: Complexes  # Shape (r, n + 1). Linear forms that vanish on it, all of them or fewer.
    certified: bool = False  # Whether it is irreducible, and the trace test holds.


class Intersections:
    """What follows paths between sections, and counts them."""

    def __init__(self, random: np.random.Generator, workers: int) -> None:
        self.random, self.workers = random, workers
        self.failed = self.paths = self.steps = 0
        self.sets = list[Any]()  # The sets that are known, each with whether its trace test holds.

    @property
    def doubts(self) -> int:
        """Number of lost paths, and of sets whose trace test does not hold."""
        return self.failed + sum(not part.certified for part in self.sets)

    def followed(self, homotopy: Homotopy, starts: Complexes) -> Ends:
        """The ends of paths."""
        if len(starts) > MOST_PATHS:
            raise InputError(f"{len(starts)} paths to sections: at most {MOST_PATHS} are followed")
        ends = follow(homotopy, starts, workers=self.workers)
        self.paths += len(ends.points)
        self.steps += ends.steps
        self.failed += int((~ends.known).sum())
        return ends

    def met(self, section: Section, rows: PolynomialSystem) -> tuple[Complexes, Complexes]:
        """Points, shape (p, N + k), where all slices but the first and M N = 0 hold, and these slices."""
        # The k + 1 rows of M are polynomials on the section, N has a first entry of 1 and k more, which are
        # unknown: without any this is a polynomial M = 0. Row i begins as a form in N times as many forms in
        # the variables as it has degrees: where one of these vanishes, the other rows determine N.
        whole, m, random, size = section.slices, section.variables, self.random, rows.equations
        variables, count, degrees = whole.shape[1] - 1, len(section.points), rows.degrees - (size > 1)
        forms = np.zeros((degrees.sum(), variables + 1), dtype=np.complex128)
        forms[:, : m + 1] = linear_forms(random, len(forms), m)
        forms[0] = whole[0]
        starts, owner = section.points, np.repeat(np.repeat(np.arange(size), degrees), count)
        if len(forms) > 1:
            after = np.repeat(whole[None], len(forms) - 1, axis=0)
            after[:, 0] = forms[1:]
            after = np.repeat(after, count, axis=0)
            homotopy = Homotopy.to(section.square, phase(random), before=whole, after=after)
            ends = self.followed(homotopy, np.tile(starts, (len(forms) - 1, 1)))
            owner = owner[np.append(np.full(count, True), ends.known)]
            starts = np.concatenate([starts, ends.points[ends.known]])
        kernels = linear_forms(random, size, size - 1)
        vectors = np.array([np.linalg.svd(np.delete(kernels, i, 0))[2][-1].conj() for i in range(size)])
        starts = np.hstack([starts, (vectors / vectors[:, :1])[owner, 1:] * starts[:, :1]])
        factors = []
        for kernel, own in zip(kernels, np.split(forms, np.cumsum(degrees)[:-1]), strict=True):
            product = np.zeros((len(own) + (size > 1), variables + size), dtype=np.complex128)
            product[: len(own), : variables + 1] = own
            product[len(own) :, 0], product[len(own) :, variables + 1 :] = kernel[0], kernel[1:]
            factors.append(product)
        slices = np.hstack([whole[1:], np.zeros((len(whole) - 1, size - 1))])
        target = extended(section.square, rows.homogenized())
        homotopy = Homotopy.to(target, phase(random), factors=factors, slices=slices)
        ends = self.followed(homotopy, starts / norms(starts)[:, None])
        near = ends.points[ends.known & ~ends.far]
        return np.asarray(near[:, 1:] / near[:, :1]), slices


class _Intersection(Intersections):
    """Sections of the common solutions of ever more polynomials, from those of lowest degree on.

    Its sets are parts on which all polynomials vanish.
    """

    def __init__(self, system: PolynomialSystem, random: np.random.Generator, workers: int) -> None:
        super().__init__(random, workers)
        ordered = system.coefficients[np.argsort(system.degrees, kind="stable")]
        self.system = PolynomialSystem(ordered, system.exponents)
        self.rows = [PolynomialSystem(row[None], system.exponents) for row in ordered]
        self.first = [PolynomialSystem(ordered[: k + 1], system.exponents) for k in range(len(ordered))]
        # Sections of one dimension d have the last d of these linear forms, so that their points can be
        # compared.
        self.forms = linear_forms(random, system.variables, system.variables)
        self.spanned = False  # Whether parts are irreducible and have all linear forms.
        self.left = system.equations  # Number of polynomials that are still to be intersected.

    def run(self) -> None:
        """Find all parts on which all polynomials vanish."""
        n, start = self.system.variables, np.linalg.svd(self.forms)[2][-1:].conj()
        nothing = PolynomialSystem(np.zeros((0, 1)), np.zeros((1, n), dtype=np.int64))
        whole = Section(nothing, n, self.forms, nothing.homogenized(), start)
        self.sets, current = self._divided([_Part(whole, self.forms[:0], True)], self.system)
        with meter(self.system.equations, "polynomial") as bar:
            for row in range(self.system.equations):
                following = self._next(current, row)
                if following is None:
                    self.spanned = True
                    current = [piece for part in current for piece in self._pieces(part, self.first[row - 1])]
                    following = self._next(current, row)
                assert following is not None
                current, self.left = following, self.left - 1
                bar.update(1)

    def _next(self, current: list[_Part], row: int) -> list[_Part] | None:
        """Parts on which one polynomial more vanishes; None where spans of the current parts are needed."""
        solved, (following, others) = len(self.sets), self._divided(current, self.rows[row])
        for part in sorted(others, key=lambda part: -len(part.section.slices)):
            more = self._intersected(part, row, following) if len(part.section.slices) else []
            if more is None:
                del self.sets[solved:]
                return None
            ends, rest = self._divided(more, self.system)
            for end in ends:
                self.sets += [end] if end.certified else self._pieces(end)
            following += rest
        return following

    def _divided(self, parts: list[_Part], polynomials: PolynomialSystem) -> tuple[list[_Part], list[_Part]]:
        """What polynomials vanish on, and the rest."""
        sides: tuple[list[_Part], list[_Part]] = [], []
        homogeneous = polynomials.homogenized()
        for part in parts:
            points = part.section.affine(part.section.points)
            on = vanish(homogeneous, homogeneous_points(points))
            for side, which in zip(sides, (on, ~on), strict=True):
                if which.all():
                    side.append(part)
                elif which.any():
                    side.append(_Part(part.section.part(np.flatnonzero(which)), part.span))
        return sides

    def _pieces(self, part: _Part, system: PolynomialSystem | None = None) -> list[_Part]:
        """The irreducible parts, with their linear spans if polynomials that vanish there are given."""
        groups = irreducible(part.section, self.random)
        pieces = [_Part(part.section.part(group), part.span, certified) for group, certified in groups]
        if system is None:
            return pieces
        return [_Part(*spanned(system, p.section, self.random), p.certified) for p in pieces]

    def _intersected(self, part: _Part, row: int, others: list[_Part]) -> list[_Part] | None:
        """Where a polynomial vanishes on a part, but for what lies on others; None if its span is needed."""
        n, random, system = self.system.variables, self.random, self.first[row]
        dimension, more = len(part.section.slices) - 1, part.section.slices.shape[1] - n - 1
        next_one = self.rows[row]
        polynomial = PolynomialSystem(next_one.coefficients, widened(next_one.exponents, more))
        points = self.met(part.section, polynomial)[0][:, :n]
        points = np.array([points[group].mean(axis=0) for group in groups_of(points)]).reshape(-1, n)
        on = vanish(system.homogenized(), homogeneous_points(points))
        self.failed += int((~on).sum())
        points = points[on]
        # By the rank of the Jacobian a point lies on a component of this dimension and on no other.
        multiple = relative_ranks(system, points) != n - dimension
        for other in [*self.sets, *others]:
            left = np.flatnonzero(multiple)
            if left.size and len(other.section.slices) >= dimension:
                inside = other.section.contains(points[left], random, 10.0 * SAME_END)
                points, multiple = np.delete(points, left[inside], 0), np.delete(multiple, left[inside])
        if row and not self.spanned and dimension and multiple.any():
            return None
        cut = Cut(with_linear(system, part.span), n, self.forms[n - dimension :])
        sections, lost = cut.sections(points, random)
        self.failed += len(lost)
        parts = [_Part(section, part.span) for section in sections]
        if not self.spanned and all(section.system is cut.system for section in sections):
            return parts
        return [piece for part in parts for piece in self._pieces(part, system)]


def spanned(
    system: PolynomialSystem, section: Section, random: np.random.Generator
) -> tuple[Section, Complexes]:
    """A section of an irreducible set with the linear span of the set, by which it may need no deflation."""
    span, size = linear_span(section, random)[0], system.variables
    cut = Cut(with_linear(system, span), section.variables, section.slices[:, : size + 1])
    points, regular = refined(cut.system, section.points[:, 1 : size + 1] / section.points[:, :1], cut.slices)
    return cut.section(points, random) if regular.all() else section, span


def linear_span(section: Section, random: np.random.Generator) -> tuple[Complexes, Integers]:
    """Linear forms, shape (r, n + 1), that define the span of a set, and a variable that each determines."""
    n, dimension, starts = section.variables, len(section.slices), section.points
    points = section.affine(starts)
    nothing = np.zeros((0, n + 1), dtype=np.complex128), np.zeros(0, dtype=np.int64)
    if dimension:  # a point of each of many linear spaces: those of one of them have its forms too
        starts = np.tile(starts, (-(-(n + SPARE_POINTS) // len(starts)), 1))
        after = np.zeros((len(starts), *section.slices.shape), dtype=np.complex128)
        after[:, :, : n + 1] = linear_forms(random, len(starts) * dimension, n).reshape(-1, dimension, n + 1)
        ends = section.moved(starts, section.slices, after, phase(random))
        if not ends.known.all() or ends.far.any():
            return nothing
        points = section.affine(ends.points)
    sizes, rows = np.linalg.svd(homogeneous_points(points))[1:]
    rank = int((sizes > VANISHING_FORM * sizes[0]).sum())
    if rank > n:
        return nothing
    forms = rows[rank:].conj()
    variables = qr(forms[:, 1:], mode="r", pivoting=True)[1][: len(forms)]
    sparse = np.linalg.solve(forms[:, 1 + variables], forms)
    sparse[np.abs(sparse) <= VANISHING_FORM] = 0.0
    return sparse, variables


def linear_forms(random: np.random.Generator, number: int, variables: int) -> Complexes:
    """Random linear forms of norm 1 in homogeneous coordinates, shape (number, variables + 1)."""
    forms = gaussian(random, (number, variables + 1))
    return np.asarray(forms / np.linalg.norm(forms, axis=1, keepdims=True))


def with_linear(system: PolynomialSystem, forms: Complexes) -> PolynomialSystem:
    """Polynomials with linear forms in homogeneous coordinates of the first variables among them."""
    exponents = np.eye(forms.shape[1], system.variables, -1, dtype=np.int64)
    return stacked([(system.coefficients, system.exponents), (forms, exponents)])


@checked()
def decompose(
    system: PolynomialSystem,
    *,
    seed: int = 0,
    workers: int = 1,
    time_limit: float | None = None,
    progress: Progress = False,
) -> Decomposition:
    """Numerical irreducible decomposition of the solutions of polynomials.

    Polynomials are intersected one after the other, those of low degree first, on paths between points in
    which random linear spaces meet the components. Points on other components, found by moving these spaces,
    are left out. Where multiple points come up, linear forms that vanish on a component describe it, or
    deflation. Monodromy loops of the linear space, which permute the points of one component, group the
    points, and a trace test shows that no point of a group is missing.

    Parameters
    ----------
    system : PolynomialSystem
        Any number of polynomials in any number of variables.
    seed : int
        Seed of all random numbers. The result holds with probability 1.
    workers : int
        Number of processes that share long lists of paths. The result does not depend on it.
    time_limit : float, optional
        Seconds after which the components found so far are returned, with ``unfinished`` in the result.
    progress : bool or callable
        Whether a bar is shown; None where there is a terminal. A function is called with the number of pieces
        of work that are done, their number, and their unit.

    Returns
    -------
    Decomposition
        The components.

    Raises
    ------
    TimeLimitError
        If the time is over before the first component is found.
    InputError
        If there are too many paths.
    RemoteError
        If another process has failed.

    References
    ----------
    Duff, Leykin and Rodriguez, u-generation: solving systems of polynomials equation-by-equation, Numer.
    Algorithms 95 (2024) 813. Sommese and Wampler, The numerical solution of systems of polynomials
    arising in engineering and science, World Scientific, 2005, chapters 13 to 15.

    Examples
    --------
    >>> system = ds.PolynomialSystem([[1, -1]], [[2, 0], [0, 2]])  # x^2 - y^2
    >>> parts = ds.decompose(system)
    >>> [(part.dimension, part.degree) for part in parts.components]
    [(1, 1), (1, 1)]
    """
    require_count("workers", workers)
    n, random = system.variables, np.random.default_rng(seed)
    kept = (system.coefficients != 0.0).any(axis=1)
    system = PolynomialSystem(system.coefficients[kept], system.exponents)
    if (system.degrees == 0).any():
        return Decomposition((), n, 0, 0, 0)
    scaled, scales = system.scaled()
    attempts, over = list[_Intersection](), ""
    try:
        with (
            observed(time_limit, progress, scales),
            under_way("solution sets were decomposed", ", or decompose fewer equations"),
        ):
            while len(attempts) < MOST_INTERSECTIONS and all(attempt.doubts for attempt in attempts):
                attempts.append(_Intersection(scaled, random, workers))
                attempts[-1].run()
    except TimeLimitError as error:
        if time_limit is None or not any(attempt.sets for attempt in attempts):
            raise
        over = str(error)
    last = min(attempts, key=lambda attempt: (attempt.left > 0, attempt.doubts))
    components = [_component(part, scaled, scales) for part in last.sets]
    components.sort(key=lambda c: (-c.dimension, -c.degree, c.multiplicity != 1, *c.witness[0].real.round(6)))
    return Decomposition(tuple(components), n, last.failed, last.paths, last.steps, over * (last.left > 0))


def _component(part: _Part, scaled: PolynomialSystem, scales: Vector) -> Component:
    section, n, dimension = part.section, part.section.variables, len(part.section.slices)
    points = section.affine(section.points)
    rank = int(relative_ranks(scaled, points[:1])[0]) if dimension < n else 0
    slopes = scaled.jacobian(points[:1])[0, scaled.degrees <= 1]
    chart = np.column_stack([points[0], null_space(np.concatenate([section.slices[:, 1 : n + 1], slopes]))])
    return Component(
        dimension=dimension,
        degree=len(points),
        multiplicity=1 if rank == n - dimension else local_multiplicity(scaled, chart),
        rank=rank,
        certified=part.certified,
        witness=points * scales,
        linear=section.slices[:, 1 : n + 1] / scales,
        offset=-section.slices[:, 0],
        _section=section,
        _given=scaled,
        _scales=scales,
    )
