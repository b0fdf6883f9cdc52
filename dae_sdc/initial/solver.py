"""Values near given ones at which equations hold together with all that is hidden in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InconsistentStateError
from dae_sdc.initial.consistent import REPORTED_CHANGE, Change, listed
from dae_sdc.initial.jets import JetSystem, Stage
from dae_sdc.initial.projection import PROJECTION, EquationFunctions, Projection, project
from dae_sdc.structure.rank import Span

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SearchOptions:
    """Settings of the search for consistent values.

    Parameters
    ----------
    guess_weight : float
        Weight of a value for which nothing was given, in units of that of others.
    auxiliary_weight : float
        Weight of a value that is no more than a name of an expression of others.
    distinct : float
        Difference of two solutions, in units of the sizes of the values, that makes them two.
    equal_terms : float
        Difference of an equation at two points, relative to the size of its terms, that is none.
    equal_distance : float
        Difference of two distances, relative to the larger one, below which they are equal.
    most_near : int
        Known solutions from which the point nearest to the guesses is looked for.
    written_cost : float
        Weight of a violated equation as it is written, in units of that of its derivatives, where these are
        blamed.
    dependent : float
        What a column adds to those before it, relative to its size, below which it adds nothing.
    determined : float
        Part of a derivative in changes that no equation notices, below which it does not change.
    most_values : int
        Number of values up to which ranks are found, and other solutions looked for.
    restarts, fewest_restarts : int
        Number of random starts from which other solutions are looked for, and the least number of them.
    few_values : int
        Number of values up to which there are all of these restarts, and fewer where there are more.
    rescues : int
        Number of random starts where none of the given values leads to a solution.
    restart_iterations : int
        Most iterations from a random start.
    spreads : tuple of float
        Distances of random starts, in units of the sizes of the values.
    vanishing_singular_value : float
        Singular value of derivatives, in units of their sizes at a general point, that counts as 0.
    linear_problems : int
        Linear problems by which violations are brought to few equations.
    met : float
        Violation, in units of the largest one, below which an equation can be met exactly.
    most_solutions : int
        Number of further solutions that are kept.
    """

    guess_weight: float = 1e-4
    auxiliary_weight: float = 1e-6
    distinct: float = 1e-4
    equal_terms: float = 1e-7
    equal_distance: float = 1e-6
    most_near: int = 8
    written_cost: float = 1e3
    dependent: float = 1e-8
    determined: float = 1e-5
    most_values: int = 800
    restarts: int = 12
    fewest_restarts: int = 3
    few_values: int = 60
    rescues: int = 3
    restart_iterations: int = 30
    spreads: tuple[float, ...] = (0.3, 1.0, 3.0)
    vanishing_singular_value: float = 1e-7
    linear_problems: int = 5
    met: float = 1e-5
    most_solutions: int = 8


SEARCH = SearchOptions()


@total_ordering
@dataclass(frozen=True)
class Distance:
    """How far values are from those given, stage by stage, and then from the guesses of the others.

    Parameters
    ----------
    parts : tuple of float
        Distances in units of the sizes of the values; the first that differ decide.
    """

    parts: tuple[float, ...]

    def __lt__(self, other: Distance) -> bool:
        for here, there in zip(self.parts, other.parts, strict=True):
            if abs(here - there) > SEARCH.equal_distance * max(here, there, SEARCH.equal_distance):
                return here < there
        return False


@dataclass(frozen=True, eq=False)
class Given:
    """What is known of the values before the search.

    Parameters
    ----------
    point : ndarray, shape (jets,)
        Guesses, 0 where nothing is given.
    known, fixed : ndarray of bool, shape (jets,)
        Where a value is given, and where it must not be changed.
    sizes : ndarray, shape (jets,)
        Typical sizes.
    auxiliary : ndarray of bool, shape (jets,), optional
        Where a value is no more than a name of an expression of others, whose changes count alone.
    """

    point: Vector
    known: Booleans
    fixed: Booleans
    sizes: Vector
    auxiliary: Booleans | None = None

    @property
    def weights(self) -> Vector:
        """Weights of changes."""
        found: Vector = np.where(self.known, 1.0, SEARCH.guess_weight) / self.sizes
        return (
            found
            if self.auxiliary is None
            else np.where(self.auxiliary, SEARCH.auxiliary_weight / self.sizes, found)
        )

    def distance(self, x: Vector, stages: Sequence[Stage]) -> Distance:
        """How far values are from those given."""
        away = (x - self.point) / self.sizes
        parts = (away * self.known, away * ~self.known)
        return Distance(tuple(float(np.linalg.norm(part[stage.jets])) for part in parts for stage in stages))


class Solver:
    """Finds values at which the equations of a system hold.

    Parameters
    ----------
    system : JetSystem
        The equations.
    given : Given
        What is known.
    seed : int
        Seed of random starts.
    restarts : int, optional
        Number of random starts; fewer where there are more than :attr:`SearchOptions.few_values` values,
        0 where there are more than :attr:`SearchOptions.most_values`.
    """

    def __init__(self, system: JetSystem, given: Given, seed: int = 0, restarts: int | None = None) -> None:
        self.system, self.given = system, given
        small = len(system.jets) <= SEARCH.most_values
        self.small = small
        fewer = max(
            SEARCH.fewest_restarts,
            SEARCH.restarts * SEARCH.few_values // max(len(system.jets), SEARCH.few_values),
        )
        self.restarts = (fewer if small else 0) if restarts is None else restarts
        self._random = np.random.default_rng(seed)
        self._general = np.random.default_rng([seed, 1]).standard_normal(len(system.jets))
        self._failure: tuple[Projection, npt.NDArray[np.int64], Vector] | None = None
        self.together = self._restarted = False

    # --- one solution ---------------------------------------------------------------------------------------

    def settled(self, x: Vector) -> Vector:
        """Values near ``x`` at which the equations hold to round-off; ``x`` if none are found."""
        given = self.given
        found = self._by_stages(x, given.fixed, given.weights, keep=np.ones_like(given.known))
        return x if found is None else found

    def solve(self) -> Vector:
        """The values nearest to those given, stage by stage or, where this fails, all at once.

        Raises
        ------
        InconsistentStateError
            If there are none, with the names of what contradicts what.
        """
        given = self.given
        found = self._by_stages(given.point, given.fixed, given.weights, keep=given.known)
        if self.small and (found is None or self.changes(found)):
            other = self._by_stages(given.point, given.fixed, given.weights, keep=given.known, follow=True)
            if found is None or (other is not None and self._distance(other) < self._distance(found)):
                found = other
        if found is None:
            self.together = True
            kept = given.fixed | given.known
            if not (kept == given.fixed).all():
                found = self._at_once(given.point, kept, given.weights)
            if found is None:
                found = self._at_once(given.point, given.fixed, given.weights)
        for _ in range(min(SEARCH.rescues, self.restarts)):
            if found is not None:
                break
            start = self._random_start(given.point)
            found = self._at_once(given.point, given.fixed, given.weights, start)
        if found is None:
            self._refuse()
        assert found is not None
        return found

    def _distance(self, x: Vector) -> Distance:
        return self.given.distance(x, self.system.stages)

    def nearer(self, x: Vector, known: Sequence[Vector], every: bool) -> Vector:
        """The solution nearest to the given values among one, others that are known, and those near them.

        Parameters
        ----------
        x : ndarray, shape (jets,)
            A solution.
        known : sequence of ndarray
            Others, the nearest first.
        every : bool
            Whether there are no more. If not, random starts look for some.
        """
        given = self.given
        starts = list(known[: SEARCH.most_near])
        if not every:
            starts += [self._random_start(given.point) for _ in range(self.restarts)]
        self._restarted = True
        for at, start in enumerate(starts):
            found = [start] if at < min(len(known), SEARCH.most_near) else []
            way = self._at_once if self.together else self._by_stages
            other = way(given.point, given.fixed, given.weights, start)
            found += [] if other is None else [other]
            x = min([x, *found], key=self._distance)
        self._restarted = False
        return x

    def _random_start(self, point: Vector) -> Vector:
        spread = SEARCH.spreads[int(self._random.integers(len(SEARCH.spreads)))]
        start: Vector = point + spread * self.given.sizes * self._random.standard_normal(point.size)
        return start

    def _by_stages(
        self,
        point: Vector,
        fixed: Booleans,
        weights: Vector,
        start: Vector | None = None,
        keep: Booleans | None = None,
        follow: bool = False,
    ) -> Vector | None:
        """Values stage by stage; those in ``keep`` change only where a stage has no other solution.

        With ``follow`` these are tried again from where the others have gone to with them as they were.
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
                # Where the equations determine all, distances do not matter, and a better scale is at hand.
                found = self._projected(x, jets, number, fixed, self._balanced(x, number), start)
            if found is None or not found.converged:
                found = self._projected(x, jets, number, fixed, weights, start)
            if not found.converged:
                self._failure = found, stage.rows, x
                return None
            x[jets] = found.x
        return x

    def _balanced(self, x: Vector, number: int) -> Vector:
        """Weights with which the columns of a stage have size 1."""
        matrix = abs(sparse.csc_matrix(self.system.jacobian(x, number)))
        rows = matrix.max(axis=1).toarray().ravel()
        rows[~(rows > 0.0) | ~np.isfinite(rows)] = 1.0
        columns = np.asarray((sparse.diags(1.0 / rows) @ matrix).max(axis=0).toarray()).ravel()
        found: Vector = np.where((columns > 0.0) & np.isfinite(columns), columns, 1.0)
        return found

    def _at_once(
        self, point: Vector, fixed: Booleans, weights: Vector, start: Vector | None = None
    ) -> Vector | None:
        every = np.arange(point.size)
        found = self._projected(point, every, None, fixed, weights, start)
        if not found.converged:
            self._failure = found, np.arange(len(self.system.row_names)), found.x
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
        system, whole = self.system, x.copy()
        terms: Any = system.terms
        known = terms(self.given.point, stage) is not None

        def at(y: Vector) -> Vector:
            whole[jets] = y
            return whole

        equations = EquationFunctions(
            lambda y: system.values(at(y), stage),
            lambda y: _columns(system.jacobian(at(y), stage), jets),
            (lambda y: terms(at(y), stage)) if known else None,
            system.accuracy,
        )
        return project(
            x[jets],
            equations,
            weights=weights[jets],
            fixed=fixed[jets],
            tolerance=system.tolerance,
            start=None if start is None else start[jets],
            sizes=self.given.sizes[jets],
            most_iterations=PROJECTION.most_iterations
            if start is None and not self._restarted
            else SEARCH.restart_iterations,
        )

    def _refuse(self) -> None:
        """Say which fixed values and equations contradict each other."""
        assert self._failure is not None
        found, rows, x = self._failure
        names = self.system.row_names
        clashing = [int(rows[i]) for i in found.contradictory]
        worst = int(np.argmax(np.abs(found.after) / found.scale)) if np.isfinite(found.after).all() else 0
        if not np.isfinite(found.after).all():
            raise InconsistentStateError(
                f"the equations of {self.system.title} have no values near the given ones at "
                f"t={self.system.t:.6g}; give other guesses"
            )
        clashing = clashing or [int(rows[worst])]
        matrix = sparse.csr_matrix(self.system.jacobian(x))[clashing]
        entered = np.asarray(abs(matrix).sum(axis=0)).ravel() > 0.0
        held = [self.system.jet_names[j] for j in np.flatnonzero(entered & self.given.fixed)]
        equations = listed([names[i] for i in clashing])
        left = f"'{names[int(rows[worst])]}' is left with {found.after[worst]:.2g}"
        if held:
            raise InconsistentStateError(
                f"the fixed values {listed(held)} of {self.system.title} contradict {equations} at "
                f"t={self.system.t:.6g}: {left}; leave one of them free"
            )
        raise InconsistentStateError(
            f"found no values near the given ones at which {equations} of {self.system.title} hold at "
            f"t={self.system.t:.6g}: {left}; give other guesses, or check the equations"
        )

    # --- what is free ---------------------------------------------------------------------------------------

    def free(self, x: Vector) -> tuple[npt.NDArray[np.int64], list[int]]:
        """Values that all others follow from, and fixed ones that follow from others.

        What nothing was given for, and what the last stages solve for, follows from others if it can.
        """
        matrix = self._scaled(x)
        stage_of = np.zeros(len(self.system.jets), dtype=np.int64)
        for number, stage in enumerate(self.system.stages):
            stage_of[stage.jets] = number
        order = np.array([k for _, k in self.system.jets])
        unknown = np.array([j for j, _ in self.system.jets])
        # The last unknowns of a stage are more often multipliers than the first.
        order_of_taking = np.lexsort((-unknown, -order, -stage_of, self.given.known, self.given.fixed))
        span = Span(matrix.shape[0])
        free: list[int] = []
        for j in order_of_taking.tolist():
            size = float(np.linalg.norm(matrix[:, j]))
            if not span.add(matrix[:, j], self._negligible * max(size, 1e-12)):
                free.append(j)
        followed = [j for j in np.flatnonzero(self.given.fixed).tolist() if j not in set(free)]
        return np.array(sorted(free), dtype=np.int64), followed

    @property
    def _negligible(self) -> float:
        return max(SEARCH.dependent, 10.0 * self.system.tolerance)

    def _scaled(self, x: Vector) -> Vector:
        """The Jacobian of all equations in units of the sizes of the values, with rows of size 1."""
        matrix = np.asarray(sparse.csr_matrix(self.system.jacobian(x)).toarray()) * self.given.sizes
        rows = np.linalg.norm(matrix, axis=1)
        scaled: Vector = matrix / np.where(rows > 0.0, rows, 1.0)[:, None]
        return scaled

    def _rank(self, x: Vector, columns: Booleans) -> int:
        matrix = self._scaled(x)[:, columns]
        sizes = np.linalg.norm(matrix, axis=0)
        if not np.isfinite(sizes).all():
            return 0
        values = np.linalg.svd(matrix / np.where(sizes > 0.0, sizes, 1.0), compute_uv=False)
        return int((values > self._negligible).sum())

    def determined(self, x: Vector) -> Booleans:
        """A mask of the derivatives that follow from the undifferentiated unknowns, shape (jets,)."""
        columns = np.array([k > 0 for _, k in self.system.jets])
        matrix = self._scaled(x)[:, columns]
        found = np.zeros(columns.size, dtype=bool)
        sizes = np.linalg.norm(matrix, axis=0)
        if np.isfinite(sizes).all():
            _, values, right = np.linalg.svd(matrix / np.where(sizes > 0.0, sizes, 1.0))
            rank = int((values > self._negligible).sum())
            found[columns] = np.linalg.norm(right[rank:], axis=0) <= SEARCH.determined
        return found

    def _is_new(self, other: Vector, found: Sequence[Vector], held: Booleans) -> bool:
        """Whether a solution is another one than those found before."""
        own = np.array([j < self.system.unknowns for j, _ in self.system.jets])
        size = (self.given.sizes + np.abs(found[0]))[own]
        new = all(
            float(np.abs((other - one)[own] / size).max()) > SEARCH.distinct and not self._turned(one, other)
            for one in found
        )
        # Where the equations leave more free there than here, it is no solution of its own.
        return new and self._rank(other, ~held) == int((~held).sum())

    def others(self, x: Vector, free: npt.NDArray[np.int64], known: Sequence[Vector] = ()) -> list[Vector]:
        """Further solutions with the same free values, the nearest first.

        Parameters
        ----------
        x : ndarray, shape (jets,)
            A solution.
        free : ndarray of int
            Numbers of the free values.
        known : sequence of ndarray
            Solutions that are known; others are looked for from random starts.
        """
        given = self.given
        held = given.fixed.copy()
        held[free] = True
        found: list[Vector] = []
        for other in known:
            same = np.abs(other - x)[held] <= SEARCH.distinct * (given.sizes + np.abs(x))[held]
            if same.all() and len(found) < SEARCH.most_solutions and self._is_new(other, (x, *found), held):
                found.append(other)
        self._restarted = True
        for _ in range(self.restarts):
            start = self._random_start(x)
            start[held] = x[held]
            way = self._at_once if self.together else self._by_stages
            one = way(start, held, 1.0 / given.sizes)
            if one is not None:  # far from its start, the nearest point is not what matters
                one = way(one, held, 1.0 / given.sizes)
            if one is None or len(found) >= SEARCH.most_solutions:
                continue
            if self._is_new(one, (x, *found), held):
                found.append(one)
        return sorted(found, key=lambda one: float(np.linalg.norm((one - x) / given.sizes)))

    def _turned(self, one: Vector, other: Vector) -> bool:
        """Whether two solutions differ by a shift that changes no equation, such as whole turns of angles."""
        given, shift = self.given, other - one
        shift[np.abs(shift) <= SEARCH.distinct * (given.sizes + np.abs(one))] = 0.0
        general = one + given.sizes * self._general
        with np.errstate(all="ignore"):
            difference = self.system.values(general + shift) - self.system.values(general)
            scale = np.asarray(abs(self.system.jacobian(general)) @ (np.abs(general) + np.abs(shift)))
        return bool((np.abs(difference) <= SEARCH.equal_terms * scale.ravel()).all())

    def changes(self, x: Vector) -> list[Change]:
        """Given values that were changed, with the values before and after."""
        given = self.given
        moved = given.known & (
            np.abs(x - given.point) > REPORTED_CHANGE * (given.sizes + np.abs(given.point))
        )
        return [
            Change(self.system.jet_names[j], float(given.point[j]), float(x[j]))
            for j in np.flatnonzero(moved)
        ]


def _columns(matrix: Any, chosen: npt.NDArray[np.int64]) -> Any:
    return matrix if chosen.size == matrix.shape[1] else matrix[:, chosen]
