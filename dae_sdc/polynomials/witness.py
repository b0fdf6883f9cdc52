"""All solutions of a polynomial system: its irreducible curves, surfaces and points, by linear sections."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dae_sdc.arguments import checked
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import limited, under_way
from dae_sdc.errors import InputError, require_count, require_number
from dae_sdc.polynomials.equations import Homotopy
from dae_sdc.polynomials.homotopy import MOST_PATHS, combined, homogeneous_points, phase, relative_ranks
from dae_sdc.polynomials.polynomials import Complexes, PolynomialSystem
from dae_sdc.polynomials.sections import Cut, Section, irreducible, vanish
from dae_sdc.polynomials.tracking import SAME_END, Booleans, Ends, follow, groups_of

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
        found = np.ones(len(given), dtype=np.bool_)
        if self._section is None or self._given is None:
            return found
        scaled = given / self._scales
        found = vanish(self._given.homogenized(), homogeneous_points(scaled))
        if found.any():
            found[found] = self._section.contains(scaled[found], np.random.default_rng(seed))
        return found

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
        shape = (number, self.system.variables + 1)
        found: Complexes = self.random.normal(size=shape) + 1j * self.random.normal(size=shape)
        scaled: Complexes = found / np.linalg.norm(found, axis=1, keepdims=True)
        return scaled

    def _count(self, ends: Ends) -> None:
        self.paths += len(ends.points)
        self.steps += ends.steps
        self.failed += int((~ends.known).sum())

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
            here = PolynomialSystem(
                polynomials.coefficients[: stage + 1], polynomials.exponents
            ).homogenized()
            homotopy = Homotopy.to(here, phase(random), factors=factors, slices=slices)
            ends = follow(homotopy, starts, workers=self.workers, attempts=1 if self.hasty else 3)
            self._count(ends)
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
        here = PolynomialSystem(polynomials.coefficients[:stage], polynomials.exponents).homogenized()
        targets = np.repeat(after, len(points), axis=0)
        homotopy = Homotopy.to(here, phase(self.random), before=before, after=targets)
        attempts = 1 if self.hasty else 3
        ends = follow(homotopy, np.tile(points, (more, 1)), workers=self.workers, attempts=attempts)
        self._count(ends)
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
        rank=n - dimension
        if simple
        else int(relative_ranks(scaled.homogenized(), homogeneous_points(points[:1]))[0]),
        certified=certified,
        witness=points * scales,
        linear=section.slices[:, 1 : n + 1] / scales,
        offset=-section.slices[:, 0],
        _section=section,
        _given=scaled,
        _scales=scales,
    )
