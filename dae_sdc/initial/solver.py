"""Search for values near given ones at which equations and their hidden constraints hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import total_ordering
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.projection import MOST_PROJECTION_STEPS, TERM_ROUND_OFF, Accuracy, Projection, dense, project
from dae_sdc.dae.state import Vector
from dae_sdc.deadline import limited, under_way
from dae_sdc.errors import InconsistentStateError, TimeLimitError
from dae_sdc.initial.consistent import REPORTED_CHANGE, Change, listed
from dae_sdc.initial.given import OUTSIDE, shown_bounds
from dae_sdc.initial.jets import JetSystem, ModelJets, Stage
from dae_sdc.initial.paths import MOST_POINT_ITERATIONS, BlockEquations, blocks_of, continued
from dae_sdc.jets.graph import Integers, leaf_values
from dae_sdc.jets.scalars import Ranges, values_of
from dae_sdc.structure.rank import Span
from dae_sdc.text import brief

Booleans = npt.NDArray[np.bool_]


# Thresholds, tried in order, of the part of a column that is independent of those before it, for a pivot.
PIVOT_SIZES = (1e-3, 1e-6, 1e-10)


@dataclass(frozen=True)
class SearchOptions:
    """Settings of the search for consistent values."""

    # Weight of a value for which nothing was given, in units of that of given values.
    guess_weight: float = 1e-4
    auxiliary_weight: float = 1e-6  # Weight of an auxiliary unknown, which names an expression of others.
    # Difference of two solutions, in units of the sizes of the values, up to which they are one.
    distinct: float = 1e-4
    # Difference of an equation at two points, relative to the size of its terms, up to which it is equal.
    equal_terms: float = 1e-7
    # Difference of two distances, relative to the larger one, up to which they are equal.
    equal_distance: float = 1e-6
    # Largest number of known solutions from which the one nearest to the guesses is sought.
    most_near: int = 8
    # Cost of a violated equation of the user in units of that of its derivatives, where violations are
    # preferably attributed to derivatives.
    written_cost: float = 1e3
    # Part of a column, relative to its norm, outside the span of those before it, up to which it depends.
    dependent: float = 1e-8
    # Entry of a derivative in the null space of the equations up to which it is determined.
    determined: float = 1e-5
    # Largest number of values for which ranks are computed and other solutions sought.
    most_values: int = 800
    # restarts, fewest_restarts: random starts in the search for other solutions, and the fewest of them.
    restarts: int = 12
    fewest_restarts: int = 3
    few_values: int = 60  # Number of values above which the number of random starts is reduced.
    # Seconds that the search, and that for other solutions, may take where no time_limit is given.
    seconds: float = 60.0
    seconds_of_others: float = 20.0
    rescues: int = 3  # Number of random starts if the given values do not lead to a solution.
    restart_iterations: int = 30  # Largest number of iterations from a random start.
    # Sizes, in units of their nominal ones, from which values that were not given are searched for before.
    magnitudes: tuple[float, ...] = (10.0, 100.0, 1000.0)
    most_named: int = 5  # Largest number of values without a solution that are named.
    # Distances of random starts, in units of the sizes of the values.
    spreads: tuple[float, ...] = (0.3, 1.0, 3.0)
    # Singular value of a Jacobian, scaled by its entries at general points, that counts as 0.
    vanishing_singular_value: float = 1e-7
    # Largest number of linear programs that reduce the number of violated equations.
    linear_problems: int = 5
    met: float = 1e-5  # Residual, relative to the largest one, up to which an equation counts as satisfied.
    most_solutions: int = 8  # Largest number of further solutions that are kept.
    remainder: float = 1e-100  # Size of a value up to which it is what quadratic convergence leaves of 0.


SEARCH = SearchOptions()
# Paths may end where equations hardly tell some of the values.
ON_PATHS = Accuracy(dependent=1e-13, factored=0.0)


@total_ordering
@dataclass(frozen=True)
class Distance:
    """Distance of values from the given ones, stage by stage, and then from the guesses of the others."""

    parts: tuple[float, ...]  # Distances in units of the sizes of the values; comparisons are lexicographic.

    def __lt__(self, other: Distance) -> bool:
        for here, there in zip(self.parts, other.parts, strict=True):
            if abs(here - there) > SEARCH.equal_distance * max(here, there, SEARCH.equal_distance):
                return here < there
        return False


@dataclass(frozen=True, eq=False)
class Given:
    """Given values and guesses before the search."""

    point: Vector  # Shape (jets,). Given values, 0 where nothing is given.
    # known, fixed: shape (jets,). Which values are given, and which must not be changed.
    known: Booleans
    fixed: Booleans
    sizes: Vector  # Shape (jets,). Typical sizes of the values.
    # Shape (jets,). Which values are auxiliary: names of expressions of others, whose changes hardly count.
    auxiliary: Booleans | None = None
    bounds: Any = None  # Shape (2, jets). Smallest and largest values; None if there are none.

    @property
    def weights(self) -> Vector:
        """Weights of changes of the values, shape (jets,)."""
        weights = np.where(self.known, 1.0, SEARCH.guess_weight)
        if self.auxiliary is not None:
            weights = np.where(self.auxiliary, SEARCH.auxiliary_weight, weights)
        return np.asarray(weights / self.sizes)

    def within(self, x: Vector) -> Vector:
        """Values moved to the bounds that they are beyond."""
        return x if self.bounds is None else np.clip(x, *self.bounds)

    def allows(self, values: Vector, jets: npt.NDArray[np.int64]) -> Booleans:
        """A mask of some of the values that are within their bounds, or miss them by round-off."""
        if self.bounds is None:
            return np.ones(values.size, dtype=bool)
        low, high = self.bounds[:, jets]
        least = OUTSIDE * (self.sizes[jets] + np.abs(values))
        return np.asarray((values >= low - least) & (values <= high + least))

    def apart_by(self, magnitude: float) -> Vector:
        """Values for a search far from 0, between the bounds where both are known."""
        far: Vector = magnitude * self.sizes
        if self.bounds is None:
            return far
        low, high = self.bounds
        both = np.isfinite(low) & np.isfinite(high)
        middle = 0.5 * np.where(both, low, 0.0) + 0.5 * np.where(both, high, 0.0)
        return np.clip(np.where(both, middle, np.where(high <= 0.0, -far, far)), low, high)

    def distance(self, x: Vector, stages: Sequence[Stage]) -> Distance:
        """The distance of values x from the given ones."""
        away = (x - self.point) / self.sizes
        parts = (away * self.known, away * ~self.known)
        return Distance(tuple(float(np.linalg.norm(part[stage.jets])) for part in parts for stage in stages))


def pivots(matrix: npt.NDArray[np.float64], least: Sequence[float] = PIVOT_SIZES) -> list[int]:
    """Numbers of columns that form a basis of all columns, early ones by preference."""
    span = Span(matrix.shape[0])
    found: list[int] = []
    for size in least:
        for at in range(matrix.shape[1]):
            if len(found) == matrix.shape[0]:
                return found
            if at not in found and span.add(matrix[:, at], size):
                found.append(at)
    return found


@dataclass(frozen=True, eq=False)
class _Failure:
    """Equations for which no values were found."""

    found: Projection  # Where the search has ended.
    # rows, jets: numbers of the equations, and of the values for which they were solved.
    rows: npt.NDArray[np.int64]
    jets: npt.NDArray[np.int64]
    x: Vector  # All values.
    # Whether the equations before them were solved, so that they are the fewest without a solution.
    is_block: bool = False

    @property
    def weight(self) -> tuple[bool, bool]:
        """What tells more is larger."""
        return bool(self.found.at_bounds), self.is_block


class Ways:
    """Ways to values near given ones at which the equations of a system hold, and why there are none."""

    def __init__(self, system: JetSystem, given: Given, seed: int = 0, restarts: int | None = None) -> None:
        self.system, self.given = system, given
        self.small = len(system.jets) <= SEARCH.most_values
        fewer = SEARCH.restarts * SEARCH.few_values // max(len(system.jets), SEARCH.few_values)
        usual = max(SEARCH.fewest_restarts, fewer) if self.small else 0
        self.restarts = usual if restarts is None else restarts
        self._random = np.random.default_rng(seed)
        self._general = np.random.default_rng([seed, 1]).standard_normal(len(system.jets))
        self._failure: _Failure | None = None
        self.ways: list[str] = []  # What led to values where Newton's method from the guesses does not.
        self.together = self._restarted = False
        self.is_meant = False  # Whether a path from simplified expressions has led to a solution.

    def _random_start(self, point: Vector) -> Vector:
        spread = SEARCH.spreads[int(self._random.integers(len(SEARCH.spreads)))]
        away = spread * self.given.sizes * self._random.standard_normal(point.size)
        return self.given.within(point + away)

    def by_stages(
        self,
        point: Vector,
        fixed: Booleans,
        weights: Vector,
        start: Vector | None = None,
        keep: Booleans | None = None,
        follow: bool = False,
    ) -> Vector | None:
        """A solution stage by stage; values in ``keep`` change only if a stage has no other solution.

        With ``follow`` such a stage begins at the point that was reached without changing them.
        """
        system, x = self.system, point.copy()
        for number, stage in enumerate(system.stages):
            jets = stage.jets
            if not stage.rows.size:
                continue
            found = None
            if keep is not None and keep[jets].any() and not keep[jets].all():
                found = self._projected(x, jets, number, fixed | keep, weights, start)
                if follow and np.isfinite(found.after).all():
                    start = x.copy()
                    start[jets] = found.x
            if (found is None or not found.converged) and stage.rows.size == int((~fixed[jets]).sum()):
                # Equations that determine all values need no distances: a better scaling can be used.
                found = self._projected(x, jets, number, fixed, self._balanced(x, number), start)
            if found is None or not found.converged:
                found = self._projected(x, jets, number, fixed, weights, start)
            if not found.converged:
                self._fail(_Failure(found, stage.rows, jets, x))
                return None
            x[jets] = found.x
        return x

    def _balanced(self, x: Vector, number: int) -> Vector:
        """Weights with which the columns of the Jacobian of a stage have norm 1."""
        matrix = abs(self.system.jacobian_of(x, tuple(range(x.size)), number))
        rows = dense(matrix.max(axis=1)).ravel()
        rows[~(rows > 0.0) | ~np.isfinite(rows)] = 1.0
        columns = dense((sparse.diags(1.0 / rows) @ matrix).max(axis=0)).ravel()
        return np.where((columns > 0.0) & np.isfinite(columns), columns, 1.0)

    def _at_once(
        self, point: Vector, fixed: Booleans, weights: Vector, start: Vector | None = None
    ) -> Vector | None:
        every = np.arange(point.size)
        found = self._projected(point, every, None, fixed, weights, start)
        if not found.converged:
            self._fail(_Failure(found, np.arange(len(self.system.row_names)), every, found.x))
            return None
        return found.x

    def _projected(
        self,
        x: Vector,
        jets: npt.NDArray[np.int64],
        stage: int | None,
        fixed: Booleans,
        weights: Vector,
        start: Vector | None,
    ) -> Projection:
        begun = start is not None or self._restarted
        return project(
            x[jets],
            self.system.functions(x, jets, stage),
            weights=weights[jets],
            fixed=fixed[jets],
            tolerance=self.system.tolerance,
            start=None if start is None else start[jets],
            sizes=self.given.sizes[jets],
            bounds=None if self.given.bounds is None else self.given.bounds[:, jets],
            most_iterations=SEARCH.restart_iterations if begun else MOST_PROJECTION_STEPS,
        )

    def _fail(self, failure: _Failure) -> None:
        """Keep why there is no solution: the last reason, one with bounds or of a block if there is any."""
        if self._failure is None or failure.weight >= self._failure.weight:
            self._failure = failure

    def _refuse(self) -> NoReturn:
        """Raise InconsistentStateError with the fixed values and equations that contradict each other."""
        assert self._failure is not None
        failure, found, names = self._failure, self._failure.found, self.system.row_names
        given, jet_names, at = self.given, self.system.jet_names, f"at t={self.system.t:.6g}"
        undefined = failure.rows[~np.isfinite(found.after)].tolist()
        if undefined:
            raise InconsistentStateError(
                f"the equations of {self.system.title} have no values near the given ones {at}, such as "
                f"{listed([names[i] for i in undefined])}; give other guesses"
            )
        worst = int(np.argmax(np.abs(found.after) / found.scale))
        clashing = [int(failure.rows[i]) for i in found.contradictory or (worst,)]
        clash = bool(found.contradictory) and self._is_linear(failure.rows.tolist(), failure.jets, failure.x)
        whole = failure.is_block and not clash  # Of linear equations it is known which contradict each other.
        if whole and not found.at_bounds:
            clashing = failure.rows.tolist()
        for shift in (0.0, 0.1):  # at zeros of others a fixed value may have no slope
            place = failure.x + shift * (1.0 + np.abs(failure.x)) * np.cos(np.arange(len(jet_names)))
            matrix = abs(sparse.csr_matrix(self.system.jacobian(place))[clashing])
            entered = np.asarray(matrix.sum(axis=0)).ravel() > 0.0
            if (entered & given.fixed).any():
                break
        held = [jet_names[j] for j in np.flatnonzero(entered & given.fixed)]
        left = f"'{names[int(failure.rows[worst])]}' is left with {found.after[worst]:.2g}"
        free = np.flatnonzero(entered & ~given.fixed)
        if found.at_bounds:
            active = failure.jets[list(found.at_bounds)].tolist()
            bounds = [f"{jet_names[j]} ({shown_bounds(*given.bounds[:, j])})" for j in active]
            raise InconsistentStateError(
                f"no values were found within the bounds of {brief(bounds, SEARCH.most_named)} at which "
                f"{listed([names[i] for i in clashing])} of {self.system.title} hold {at}: {left}; give "
                f"other bounds, or other guesses"
            )
        usual = [jet_names[j] for j in self.system.usually_free]
        others = f", or fix {listed(usual, SEARCH.most_named)}, from which the others follow"
        instead = others if usual and not set(held) <= set(usual) else ""
        if held and self._is_linear(clashing, free, failure.x):
            raise InconsistentStateError(
                f"the fixed values {listed(held)} of {self.system.title} contradict "
                f"{listed([names[i] for i in clashing])} {at}: {left}; leave one of them free{instead}"
            )
        of_block = ", the smallest block without any," if whole else ""
        searched = failure.jets if whole else free
        guessed = [jet_names[j] for j in searched]
        begun = [f"{jet_names[j]} = {given.point[j]:.6g}" for j in searched]
        tried = f"{brief(begun, SEARCH.most_named)}{', also along paths' if whole else ''}"
        equations = f"{listed([names[i] for i in clashing])}{of_block} of {self.system.title}"
        if held:
            raise InconsistentStateError(
                f"no values were found from {tried}{',' * whole} at which {equations} hold with "
                f"the fixed {listed(held)} {at}: {left}; give a guess for "
                f"{listed(guessed, SEARCH.most_named)}{instead}"
            )
        raise InconsistentStateError(
            f"found no values near the given ones at which {equations} hold {at}: {left}"
            f"{f' from {tried}' if whole else ''}; give other guesses, or check the equations"
        )

    def _is_linear(self, rows: Sequence[int], free: Any, x: Vector) -> bool:
        """Whether some equations are linear in free values, so that what is left of them contradicts."""
        matrices = []
        for number in range(3):
            point = x.copy()
            point[free] += number * (1.0 + np.abs(x[free])) * np.sin(1.0 + (1.0 + number) * free)
            matrices.append(sparse.csr_matrix(self.system.jacobian(point))[list(rows)][:, free].toarray())
        size = np.abs(matrices[0]).max(initial=0.0)
        return all(np.allclose(matrices[0], other, rtol=0.0, atol=1e-9 * size) for other in matrices[1:])

    def free(self, x: Vector) -> tuple[npt.NDArray[np.int64], list[int]]:
        """Numbers of values that determine all others, and of fixed ones that follow from others.

        Values that were not given, and values of the last stages, are determined by others if possible.
        """
        matrix = self._scaled(x)
        stage_of = np.zeros(len(self.system.jets), dtype=np.int64)
        for number, stage in enumerate(self.system.stages):
            stage_of[stage.jets] = number
        unknown, order = np.array(self.system.jets).T
        # Multipliers are usually among the last unknowns of a stage.
        order_of_taking = np.lexsort((-unknown, -order, -stage_of, self.given.known, self.given.fixed))
        sizes = np.linalg.norm(matrix, axis=0)
        matrix = (matrix / np.where(sizes > 1e-12, sizes, 1.0))[:, order_of_taking]
        free = np.sort(np.delete(order_of_taking, pivots(matrix, (self._negligible,))))
        return free, np.setdiff1d(np.flatnonzero(self.given.fixed), free).tolist()

    @property
    def _negligible(self) -> float:
        return max(SEARCH.dependent, 10.0 * self.system.tolerance)

    def _scaled(self, x: Vector) -> Vector:
        """The Jacobian of all equations in units of the sizes of the values, with rows of norm 1."""
        matrix = np.asarray(sparse.csr_matrix(self.system.jacobian(x)).toarray()) * self.given.sizes
        rows = np.linalg.norm(matrix, axis=1)
        return np.asarray(matrix / np.where(rows > 0.0, rows, 1.0)[:, None])

    def _open(self, x: Vector, columns: Booleans) -> Vector:
        """Changes of some of the values, as rows, that the linearised equations leave open."""
        matrix = self._scaled(x)[:, columns]
        sizes = np.linalg.norm(matrix, axis=0)
        if not np.isfinite(sizes).all():
            return np.eye(sizes.size)
        _, values, right = np.linalg.svd(matrix / np.where(sizes > 0.0, sizes, 1.0))
        return np.asarray(right[int((values > self._negligible).sum()) :])

    def changes(self, x: Vector) -> list[Change]:
        """Given values that were changed, with the values before and after."""
        given, names = self.given, self.system.jet_names
        reported = REPORTED_CHANGE * (given.sizes + np.abs(given.point))
        places = np.flatnonzero(given.known & (np.abs(x - given.point) > reported))
        return [Change(names[j], float(given.point[j]), float(x[j])) for j in places]


class Solver(Ways):
    """Search for values at which the equations of a system hold."""

    def settled(self, x: Vector) -> Vector:
        """Values near ``x`` at which the equations hold to round-off; ``x`` if none are found."""
        given = self.given
        found = self.by_stages(x, given.fixed, given.weights, keep=np.ones_like(given.known))
        return x if found is None else self._without_remainders(found)

    def solve(self) -> Vector:
        """The values nearest to the given ones; raises InconsistentStateError with names for none."""
        found = self._from_simplified()
        found = self._nearest() if found is None else found
        if found is None:
            self._refuse()
        return self._without_remainders(self._unpulled(found))

    def _from_simplified(self) -> Vector | None:
        """A solution along the path from that of the simpler expressions of homotopies; None without one."""
        actual, simplified = self.system, self.system.simplified()
        if simplified is None:
            return None
        given, every = self.given, np.arange(self.given.point.size)

        def at(share: float, near: Vector, ahead: Vector) -> Projection:
            self.system = simplified(share)
            return self._projected(near, every, None, given.fixed, given.weights, ahead)

        begin = self._nearest_of(simplified(0.0))
        found = None if begin is None else continued(at, begin)
        self.system = actual
        self.ways += ["start found from the simplified expressions of homotopies"] * (found is not None)
        # What takes more iterations may be far from the path.
        self.is_meant = found is not None and found.iterations <= MOST_POINT_ITERATIONS
        return None if found is None else found.x

    def _from_moving(self) -> Vector | None:
        """A solution along a path on which derivatives go from what the guesses say to what is fixed."""
        given = self.given
        moving = given.fixed & np.array([k > 0 for _, k in self.system.jets])
        jets, held, keep = np.flatnonzero(~given.fixed), given.fixed & ~moving, given.known & ~moving
        begin = self.by_stages(given.point, held, given.weights, keep=keep) if moving.any() else None
        if begin is None:
            return None

        def at(share: float, near: Vector, ahead: Vector) -> Projection:
            point = np.where(moving, share * given.point + (1.0 - share) * begin, given.point)
            block = self._block(point, jets)
            block = replace(block, equations=replace(block.equations, accuracy=ON_PATHS))
            return block.solved(near, ahead, most=SEARCH.restart_iterations)

        found = continued(at, begin[jets])
        if found is None:
            return None
        self.ways.append("start found on the path from what the guesses say of fixed derivatives")
        x = given.point.copy()
        x[jets] = found.x
        return x

    def _nearest_of(self, system: JetSystem) -> Vector | None:
        """Values near the given ones at which other equations hold."""
        before = self.system, self._failure, self.together
        self.system = system
        try:
            return self._nearest()
        finally:
            self.system, self._failure, self.together = before

    def _from_limited(self) -> Vector | None:
        """A solution from where the guesses lead with exponential functions that do not overflow."""
        limited = self.system.limited()
        begin = None if limited is None else self._nearest_of(limited)
        found = None if begin is None else self._at_once(begin, self.given.fixed, self.given.weights)
        if found is not None:
            self.ways.append("start found with lines in place of exponential functions that overflow")
        return found

    def _nearest(self) -> Vector | None:
        """Values near the given ones at which the equations hold, by the first way that leads to some."""
        given = self.given
        found = self.by_stages(given.point, given.fixed, given.weights, keep=given.known)
        if self.small and (found is None or self.changes(found)):
            other = self.by_stages(given.point, given.fixed, given.weights, keep=given.known, follow=True)
            if found is None or (other is not None and self._distance(other) < self._distance(found)):
                found = other
        found = self._from_moving() if found is None else found
        kept = given.fixed | given.known
        if found is None:
            self.together = True
            if not (kept == given.fixed).all():
                found = self._at_once(given.point, kept, given.weights)
            if found is None:
                found = self._at_once(given.point, given.fixed, given.weights)
        for magnitude in SEARCH.magnitudes if found is None and self.restarts and not kept.all() else ():
            start = np.where(kept, given.point, given.apart_by(magnitude))
            found = self.by_stages(start, given.fixed, given.weights)
            if found is not None:
                break
        searches = (self._from_limited, self._by_blocks) if self.restarts else ()
        for search in searches if self.small else (self._by_blocks,):
            found = search() if found is None else found
        for _ in range(min(SEARCH.rescues, self.restarts)):
            if found is not None:
                break
            start = self._random_start(given.point)
            found = self._at_once(given.point, given.fixed, given.weights, start)
        return found

    def _unpulled(self, x: Vector) -> Vector:
        """The solution near another one that is nearest to the given values, whatever the guesses of others.

        What is not given counts little, but not nothing: its distance from a guess moves what is given.
        """
        given = self.given
        if not self.changes(x):
            return x
        way = self._at_once if self.together else self.by_stages
        other = way(np.where(given.known, given.point, x), given.fixed, given.weights)
        return x if other is None else min(other, x, key=self._distance)

    def _without_remainders(self, x: Vector) -> Vector:
        """The values with 0 for what Newton's method leaves of 0 where nothing was given."""
        moved = x != self.given.point
        x = np.where((np.abs(x) < SEARCH.remainder) & moved, 0.0, x)
        if (terms := self.system.terms(x)) is None:
            return x
        if (np.abs(self.system.values(x)) <= self.system.tolerance * terms).all():
            return self._with_zeros(x, (np.abs(x) <= TERM_ROUND_OFF * self.given.sizes) & moved)
        # Rounding of guesses is all that is left in an equation; at a double root it is known by its root.
        for part in (math.sqrt(TERM_ROUND_OFF), TERM_ROUND_OFF):
            small = (np.abs(x) <= part * self.given.sizes) & moved
            zeros = np.where(small, 0.0, x)
            sizes = np.maximum(self.given.sizes, np.abs(x))
            rounding = abs(self.system.jacobian(zeros)) @ (TERM_ROUND_OFF * sizes)
            if (np.abs(self.system.values(zeros)) <= rounding).all():
                return zeros
            # What tells on which side of a jump another value lies is another one where that is 0.
            followed = self._at_once(zeros, self.given.fixed | small, self.given.weights)
            if followed is not None and (np.abs(self.system.values(followed)) <= rounding).all():
                return followed
        return x

    def _with_zeros(self, x: Vector, small: npt.NDArray[np.bool_]) -> Vector:
        """The values with 0 for those of the small ones that may be 0 in all of their equations."""
        zeros = np.where(small, 0.0, x)
        sizes: Any = self.system.terms(zeros)
        violated = np.abs(self.system.values(zeros)) > self.system.tolerance * sizes
        others = small & ~(abs(self.system.jacobian(zeros)).T @ violated > 0.0)
        if not violated.any() or others.sum() == small.sum():
            return x if violated.any() else zeros
        return self._with_zeros(x, others)

    def _distance(self, x: Vector) -> Distance:
        return self.given.distance(x, self.system.stages)

    @contextmanager
    def _not_for_long(self) -> Iterator[None]:
        """End a search for other solutions after a time, and tell it."""
        self._restarted = True
        try:
            with limited(SEARCH.seconds_of_others):
                yield
        except TimeLimitError:
            self.ways.append(f"the search for other solutions ended after {SEARCH.seconds_of_others:g} s")
        self._restarted = False

    def nearer(self, x: Vector, known: Sequence[Vector], every: bool) -> Vector:
        """The solution nearest to the given values among known solutions and those near them."""
        # Shapes: x (jets,).
        given, starts = self.given, list(known[: SEARCH.most_near])
        starts += [] if every else [self._random_start(given.point) for _ in range(self.restarts)]
        way, found = self._at_once if self.together else self.by_stages, list[Vector | None]()
        with self._not_for_long():
            found.extend(way(given.point, given.fixed, given.weights, start) for start in starts)
        others = [one for one in found if one is not None]
        return min([x, *known[: SEARCH.most_near], *others], key=self._distance)

    def near(self, x: Vector) -> list[Vector]:
        """Other solutions beside one, wherever the free values are, for equations that are to follow."""
        system: Any = self.system
        if not system.model.redundant or system.model.held:  # what is left out of closed models is a function
            return []
        none = np.zeros_like(self.given.fixed)
        starts = (self._random_start(x) for _ in range(SEARCH.fewest_restarts))
        found = [self._at_once(start, none, 1.0 / self.given.sizes) for start in starts]
        return [one for one in found if one is not None]

    def _by_blocks(self) -> Vector | None:
        """A solution block by block, along paths where need be, with what is given as it is."""
        system, x, held = self.system, self.given.point.copy(), self.given.fixed.copy()
        if isinstance(system, ModelJets):  # What equations tell whatever the other values are comes first.
            if not self._solves(self._blocks(x, np.flatnonzero(held), alone=True), x, held):
                return None
            found = self.by_stages(x, held, self.given.weights)
            if found is not None or not self.small:
                return found
        # Beside values that equations tell, others have other ranks.
        general, blocks = np.where(held, x, self._general_beside(x)), list[tuple[Integers, Integers]]()
        with np.errstate(all="ignore"):
            for at in (x, general):
                if not blocks and np.isfinite(sparse.csr_matrix(system.jacobian(at)).data).all():
                    free, followed = self.free(at)
                    told = not followed and x.size - free.size == len(system.row_names)
                    blocks = self._blocks(x, free) if told else []
            solved = bool(blocks) and self._solves(blocks, x, held)
            return x if solved and np.isfinite(system.values(x)).all() else None

    def _solves(self, blocks: Sequence[tuple[Integers, Integers]], x: Vector, held: Booleans) -> bool:
        """Solve blocks one after the other for values in x, which are then held; False where one fails."""
        for rows, jets in blocks:
            found = self._of_block(x, rows, jets)
            if not found.converged:
                self._fail(_Failure(found, rows, jets, x, is_block=True))
                return False
            x[jets], held[jets] = found.x, True
        return True

    def _general_beside(self, x: Vector) -> Vector:
        """Values apart from others, on the side of each that is within its bounds."""
        ahead, behind = x + self.given.sizes * self._general, x - self.given.sizes * self._general
        return self.given.within(np.where(self.given.within(ahead) == ahead, ahead, behind))

    def _blocks(self, x: Vector, held: Integers, alone: bool = False) -> list[tuple[Integers, Integers]]:
        """Equations and values, block by block, that tell what is not held; none if they do not tell it.

        With ``alone`` those that tell their values whatever the others are.
        """
        columns, points = np.setdiff1d(np.arange(x.size), held), (x, self._general_beside(x))
        with np.errstate(all="ignore"):
            matrices = [sparse.csr_matrix(self.system.jacobian(at)) for at in points]
        pattern = sum(sparse.csr_matrix(matrix != 0.0) for matrix in matrices)
        # Slopes that are 0 here, and values that choose a branch, are waited for.
        stored = matrices[0]
        waits = sparse.csr_matrix((np.ones(stored.nnz), stored.indices, stored.indptr), stored.shape)
        if isinstance(self.system, ModelJets) and (switches := self.system.part(None).switches):
            waits += sparse.csr_matrix((np.ones(len(switches)), np.transpose(switches)), waits.shape)
        blocks = blocks_of(pattern[:, columns], waits[:, columns], alone)
        return [(np.sort(block.rows), np.sort(columns[block.cols])) for block in blocks]

    def is_alone(self, x: Vector, held: Integers) -> bool:
        """Whether no other values go with those held: the rest follows by blocks with one solution each."""
        if not isinstance(self.system, ModelJets) or held.size == x.size:
            return held.size == x.size
        blocks = self._blocks(x, held)
        return bool(blocks) and all(self._has_one_solution(x, *block) for block in blocks)

    def _has_one_solution(self, x: Vector, rows: Integers, jets: Integers) -> bool:
        """Whether a block is linear, or an equation that rises or falls wherever its value is in bounds."""
        system: Any = self.system
        part, (first, *others) = system.rows(rows.tolist()), jets.tolist()
        if others or part.is_linear([first]):
            return bool(part.is_linear(jets.tolist()))
        bounds, value = self.given.bounds, leaf_values(system.place, system.known, x)
        within = (-np.inf, np.inf) if bounds is None else tuple(bounds[:, first].tolist())
        ranges = Ranges(lambda leaf: within if leaf[1:] == system.jets[first] else (value(leaf),) * 2)
        with np.errstate(all="ignore"):
            found = values_of(system.model.graph, [*part.nodes, part.slopes[0, first]], ranges)
        return found is not None and (found[1][0] >= 0.0 or found[1][1] <= 0.0)

    def _block(self, x: Vector, jets: Integers, rows: Integers | slice = slice(None)) -> BlockEquations:
        """Some equations as functions of some values beside those in x."""
        functions = self.system.functions(x, jets, None, rows)
        bounds = None if self.given.bounds is None else self.given.bounds[:, jets]
        return BlockEquations(functions, self.given.sizes[jets], bounds, self.system.tolerance)

    def _of_block(self, x: Vector, rows: npt.NDArray[np.int64], jets: npt.NDArray[np.int64]) -> Projection:
        """Values at which a block holds, by Newton's method or along a path from the guesses."""
        system, given = self.system, self.given
        block = self._block(x, jets, rows)
        equations = listed([system.row_names[i] for i in rows], SEARCH.most_named)
        unknowns = brief([f"{system.jet_names[j]} (near {x[j]:.6g})" for j in jets], SEARCH.most_named)
        with under_way(f"{equations} were solved for {unknowns}", ", or give other guesses of these"):
            found = block.solved(x[jets])
            for magnitude in (0.0, 1.0, *SEARCH.magnitudes) if not found.converged else ():
                begin = x[jets]
                if magnitude:
                    begin = np.where(given.known[jets], begin, given.apart_by(magnitude)[jets])
                if magnitude and (begin == x[jets]).all():
                    break
                followed, name = block.followed(begin)
                if followed is not None:
                    self.ways.append(f"{equations} solved along the path of {name}")
                    return followed
        return found

    def determined(self, x: Vector) -> Booleans:
        """A mask of the derivatives that follow from the undifferentiated unknowns, shape (jets,)."""
        columns = np.array([k > 0 for _, k in self.system.jets])
        found = np.zeros(columns.size, dtype=bool)
        found[columns] = np.linalg.norm(self._open(x, columns), axis=0) <= SEARCH.determined
        return found

    def _is_new(self, other: Vector, found: Sequence[Vector], held: Booleans) -> bool:
        """Whether a solution differs from those found before."""
        own = np.array([j < self.system.unknowns for j, _ in self.system.jets])
        size = (self.given.sizes + np.abs(found[0]))[own]
        new = all(
            float(np.abs((other - one)[own] / size).max()) > SEARCH.distinct and not self._turned(one, other)
            for one in found
        )
        # A solution with more free values lies on a continuum and does not count.
        return new and not len(self._open(other, ~held))

    def others(self, x: Vector, free: npt.NDArray[np.int64], known: Sequence[Vector] = ()) -> list[Vector]:
        """Further solutions with the same free values, the nearest first."""
        # Shapes: x (jets,).
        given = self.given
        held = given.fixed.copy()
        held[free] = True
        way, found = self._at_once if self.together else self.by_stages, list[Vector]()
        for other in known:
            same = np.abs(other - x)[held] <= SEARCH.distinct * (given.sizes + np.abs(x))[held]
            if same.all() and len(found) < SEARCH.most_solutions and self._is_new(other, (x, *found), held):
                found.append(other)
        with self._not_for_long():
            for _ in range(self.restarts):
                start = self._random_start(x)
                start[held] = x[held]
                one = way(start, held, 1.0 / given.sizes)
                if one is not None:  # any solution counts, not only the one nearest to the start
                    one = way(one, held, 1.0 / given.sizes)
                wanted = one is not None and len(found) < SEARCH.most_solutions
                if one is not None and wanted and self._is_new(one, (x, *found), held):
                    found.append(self._without_remainders(one))
        return sorted(found, key=lambda one: float(np.linalg.norm((one - x) / given.sizes)))

    def _turned(self, one: Vector, other: Vector) -> bool:
        """Whether two solutions differ by a shift that leaves all equations invariant, as turns of angles."""
        given, shift = self.given, other - one
        shift[np.abs(shift) <= SEARCH.distinct * (given.sizes + np.abs(one))] = 0.0
        general = one + given.sizes * self._general
        with np.errstate(all="ignore"):
            difference = self.system.values(general + shift) - self.system.values(general)
            scale = np.asarray(abs(self.system.jacobian(general)) @ (np.abs(general) + np.abs(shift)))
        return bool((np.abs(difference) <= SEARCH.equal_terms * scale.ravel()).all())
