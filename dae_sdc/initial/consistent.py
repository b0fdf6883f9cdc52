"""Values at which equations hold together with all that is hidden in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import total_ordering
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.optimize import linprog

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InconsistentStateError
from dae_sdc.initial.jets import JetSystem, Stage
from dae_sdc.initial.projection import MOST_ITERATIONS, ROUND_OFF, Projection, project

LIGHT = 1e-4
"""Weight of a value for which nothing was given, in units of that of others."""

WEIGHTLESS = 1e-6
"""The same of a value that is no more than a name of an expression of others."""

MOVED = 1e-9
"""Change of a value, in units of its size, that is told."""

APART = 1e-4
"""Difference of two solutions, in units of the sizes of the values, that makes them two."""

SAME_TERMS = 1e-7
"""Difference of an equation at two points, relative to the size of its terms, that is none."""

NEARER = 1e-6
"""Difference of two distances, relative to the larger one, below which they are equal."""

MOST_NEAR = 8
"""Known solutions from which the point nearest to the guesses is looked for."""

HIDDEN_FIRST = 1e3
"""Weight of an equation as it is written, in units of that of its derivatives, where these are blamed."""

DEPENDENT = 1e-8
"""What a column adds to those before it, relative to its size, below which it adds nothing."""

STILL = 1e-5
"""Part of a derivative in changes that no equation notices, below which it does not change."""

LARGEST = 800
"""Number of values up to which ranks are found, and other solutions looked for."""

RESTARTS = 12
"""Number of random starts from which other solutions are looked for."""

FEW_VALUES, FEWEST = 60, 3
"""Number of values up to which there are as many, and the least number where there are more."""

RESCUES = 3
"""Number of random starts where none of the given values leads to a solution."""

PATIENCE = 30
"""Most iterations from a random start."""

SPREADS = (0.3, 1.0, 3.0)
"""Distances of random starts, in units of the sizes of the values."""

RANK_LOST = 1e-7
"""Singular value of derivatives, in units of their sizes at a general point, that counts as 0."""

ROUNDS = 5
"""Linear problems by which violations are brought to few equations."""

BLAMELESS = 1e-5
"""Violation, in units of the largest one, below which an equation can be met exactly."""

FEW_BLOCKS = 12
"""Blocks up to which each has a line."""

MOST_SOLUTIONS = 8
MOST_LINES = 60

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Change:
    """A value that had to be another than the one that was given."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class Violation:
    """An equation that the given values violate, by how much, and the size of its terms.

    Parameters
    ----------
    equation : str
        Its name.
    residual, scale : float
        What is left of it, and the size of its terms.
    order : int
        How often it was differentiated; 0 for an equation as it is written.
    """

    equation: str
    residual: float
    scale: float
    order: int = 0


@dataclass(frozen=True)
class SolvedBlock:
    """A block of equations, for all of whose solutions was looked.

    Parameters
    ----------
    stage : int
        k of the block :math:`B_k` of the solution scheme that it belongs to.
    equations, values : tuple of str
        Names of equations, and of what they were solved for.
    chosen : tuple of str
        Guesses that were taken as they are, and which the equations contain.
    kind : str
        "linear"; "polynomial", solved by homotopy continuation for all isolated solutions; or "newton",
        solved from random starts, which may miss some.
    reason : str
        Why a block is no polynomial.
    times : int
        Number of solutions of the blocks before for which it was solved.
    paths, complex, real, singular, lost : int
        Paths of the homotopy, solutions that are not real, real ones, real ones at which the Jacobian has no
        inverse, and paths that were lost; for all times together.
    """

    stage: int
    equations: tuple[str, ...]
    values: tuple[str, ...]
    chosen: tuple[str, ...]
    kind: str
    reason: str
    times: int
    paths: int
    complex: int
    real: int
    singular: int
    lost: int

    def and_again(self, other: SolvedBlock) -> SolvedBlock:
        """The block after it has been solved once more."""
        counts = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("times", "paths", "complex", "real", "singular", "lost")
        }
        kind, reason = (other.kind, other.reason) if other.kind == "newton" else (self.kind, self.reason)
        return replace(self, kind=kind, reason=reason, **counts)

    def __str__(self) -> str:
        given = f" with {brief(self.chosen)} as guessed" if self.chosen else ""
        parts = [self.kind + (f" ({self.reason})" if self.reason else "")]
        if self.times > 1:
            parts.append(f"{self.times} times")
        if self.kind == "polynomial":
            parts += [f"{self.paths} paths", f"{self.complex} complex"]
        parts.append(f"{self.real} real")
        parts += [f"{self.singular} of them singular"] if self.singular else []
        parts += [f"{self.lost} paths lost"] if self.lost else []
        return f"B_{self.stage}: {brief(self.equations)} -> {brief(self.values)}{given}: {', '.join(parts)}"


@dataclass(frozen=True)
class SingularStart:
    """Values at which the equations of a block have not their full rank.

    Parameters
    ----------
    stage : int
        k of the block :math:`B_k`.
    equations : tuple of str
        Its equations.
    rank, size : int
        Rank of their derivatives with respect to the values of the block, and number of equations.
    values : mapping of str to float
        The values in them, as far as they are known.
    ended : str
        Why there is no start with these values; empty if there is one, in which derivatives of the
        values above may not be determined.
    """

    stage: int
    equations: tuple[str, ...]
    rank: int
    size: int
    values: Mapping[str, float]
    ended: str = ""

    def __str__(self) -> str:
        shown = ", ".join(f"{name} = {value:.10g}" for name, value in list(self.values.items())[:8])
        end = f"; {self.ended}" if self.ended else ""
        return f"B_{self.stage} ({brief(self.equations)}): rank {self.rank} of {self.size} at {shown}{end}"


def brief(names: Sequence[str], most: int = 4) -> str:
    """Names with commas between them, the first ones if there are many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True, eq=False)
class Initial:
    """Consistent initial values.

    Parameters
    ----------
    title : str
        Of what.
    t : float
        Time.
    names, units : tuple of str
        Names and units of the unknowns of the state.
    u, du : ndarray, shape (n,)
        State and its derivative; NaN where a derivative is not determined.
    values : mapping of str to float
        All values that were found: unknowns and derivatives.
    fixed : tuple of str
        Values that the user fixed.
    changed : tuple of Change
        Given values that were changed.
    violated : tuple of Violation
        Equations that the given values violate whatever the others are, hidden ones too.
    free : tuple of str
        Values that may be chosen, besides those that are fixed: all others follow from them.
    guessed : tuple of str
        Those of ``free`` for which nothing was given.
    solutions : tuple of mapping of str to float
        All solutions found with the same free values, the one above first.
    remarks : tuple of str
        What else there is to know.
    blocks : tuple of SolvedBlock
        Where every solution was looked for: what was solved one after the other.
    singular : tuple of SingularStart
        The same: values at which a block has not its full rank.
    unique : bool
        Whether all given values were kept, and all others follow from them by linear equations.
    complete : bool or None
        Where every solution was looked for: whether there are certainly no more than ``solutions``, besides
        whole turns of angles; ``remarks`` say why not. None where it was not asked for.
    """

    title: str
    t: float
    names: tuple[str, ...]
    units: tuple[str, ...]
    u: Vector
    du: Vector
    values: Mapping[str, float] = field(repr=False)
    fixed: tuple[str, ...] = ()
    changed: tuple[Change, ...] = ()
    violated: tuple[Violation, ...] = ()
    free: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    solutions: tuple[Mapping[str, float], ...] = field(repr=False, default=())
    remarks: tuple[str, ...] = ()
    blocks: tuple[SolvedBlock, ...] = ()
    singular: tuple[SingularStart, ...] = ()
    unique: bool = False
    complete: bool | None = None

    def __str__(self) -> str:
        before = {change.name: change.before for change in self.changed}
        width = max(map(len, self.names))
        lines = [f"{self.title} at t = {self.t:g}"]
        for name, unit, value, slope in list(zip(self.names, self.units, self.u, self.du, strict=True))[
            :MOST_LINES
        ]:
            said = []
            if name in self.fixed:
                said.append("fixed")
            if name in before:
                said.append(f"was {before[name]:.10g}")
            if name in self.free:
                said.append("free")
            rate = "" if np.isnan(slope) else f"rate {slope: .10e}"
            lines.append(f"  {name:<{width}} {value: .15e} {unit:<6} {rate:<22} {', '.join(said)}".rstrip())
        lines += _more(len(self.names), "unknowns")
        others = [change for change in self.changed if change.name not in self.names]
        lines += [
            f"changed: {one.name} from {one.before:.10g} to {one.after:.10g}" for one in others[:MOST_LINES]
        ]
        if self.violated:
            lines.append("violated by what was given:")
            worst = sorted(self.violated, key=lambda one: -abs(one.residual) / one.scale)
            lines += [f"  {one.equation}: {one.residual:.3g}" for one in worst[:MOST_LINES]]
            lines += _more(len(worst), "equations")
        else:
            lines.append("no equation is violated by what was given")
        lines.append(f"free: {', '.join(self.free[:MOST_LINES]) or 'nothing'}")
        if len(self.solutions) > 1:
            lines.append(f"{len(self.solutions)} solutions with the same free values:")
            first = self.solutions[0]
            told = [name for name in first if _differs(name, self.solutions)]
            for number, one in enumerate(self.solutions[:MOST_LINES], start=1):
                shown = ", ".join(f"{name} = {one[name]:.10g}" for name in told[:8])
                lines.append(f"  {number}: {shown}{' (this one)' if one is first else ''}")
            lines += _more(len(self.solutions), "solutions")
        if self.blocks:
            lines.append("blocks, one after the other:")
            lines += [f"  {line}" for line in _table(self.blocks)]
        if self.singular:
            lines.append("singular:")
            lines += [f"  {start}" for start in self.singular[:MOST_LINES]]
            lines += _more(len(self.singular), "singular values")
        return "\n".join([*lines, *(f"remark: {text}" for text in self.remarks)])


def _table(blocks: Sequence[SolvedBlock]) -> list[str]:
    """A line for each block; where there are many, the linear ones of a stage have one line together."""
    if len(blocks) <= FEW_BLOCKS:
        return [str(block) for block in blocks]
    lines = [str(block) for block in blocks if block.kind != "linear"][:MOST_LINES]
    for stage in sorted({block.stage for block in blocks}):
        sizes = [len(block.equations) for block in blocks if (block.stage, block.kind) == (stage, "linear")]
        if sizes:
            lines.append(f"B_{stage}: {len(sizes)} linear blocks, the largest of {max(sizes)} equations")
    return lines


def _more(total: int, what: str) -> list[str]:
    return [f"  ... and {total - MOST_LINES} more {what}"] if total > MOST_LINES else []


def _differs(name: str, solutions: Sequence[Mapping[str, float]]) -> bool:
    values = [one[name] for one in solutions]
    noise = ROUND_OFF * max(abs(value) for value in solutions[0].values())
    return max(values) - min(values) > MOVED * max(map(abs, values)) + noise


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
            if abs(here - there) > NEARER * max(here, there, NEARER):
                return here < there
        return False


@dataclass(frozen=True, eq=False)
class Given:
    """What is known of the values before.

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
        found: Vector = np.where(self.known, 1.0, LIGHT) / self.sizes
        return found if self.auxiliary is None else np.where(self.auxiliary, WEIGHTLESS / self.sizes, found)

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
        Of random starts.
    restarts : int, optional
        Number of random starts; fewer where there are more than :data:`FEW_VALUES` values, 0 where there are
        more than :data:`LARGEST`.
    """

    def __init__(self, system: JetSystem, given: Given, seed: int = 0, restarts: int | None = None) -> None:
        self.system, self.given = system, given
        small = len(system.jets) <= LARGEST
        self.small = small
        fewer = max(FEWEST, RESTARTS * FEW_VALUES // max(len(system.jets), FEW_VALUES))
        self.restarts = (fewer if small else 0) if restarts is None else restarts
        self._random = np.random.default_rng(seed)
        self._general = np.random.default_rng([seed, 1]).standard_normal(len(system.jets))
        self._failure: tuple[Projection, npt.NDArray[np.int64], Vector] | None = None
        self.together = self._restarted = False

    # --- one solution ---------------------------------------------------------------------------------------

    def settled(self, x: Vector) -> Vector:
        """Values that the equations hold at, with what is left of them at ``x`` removed to round-off."""
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
        for _ in range(min(RESCUES, self.restarts)):
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
        starts = list(known[:MOST_NEAR])
        if not every:
            starts += [self._random_start(given.point) for _ in range(self.restarts)]
        self._restarted = True
        for at, start in enumerate(starts):
            found = [start] if at < min(len(known), MOST_NEAR) else []
            way = self._at_once if self.together else self._by_stages
            other = way(given.point, given.fixed, given.weights, start)
            found += [] if other is None else [other]
            x = min([x, *found], key=self._distance)
        self._restarted = False
        return x

    def _random_start(self, point: Vector) -> Vector:
        spread = SPREADS[int(self._random.integers(len(SPREADS)))]
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
        """Stage by stage; ``keep`` says which values are changed only where a stage has no solution else.

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

        def at(y: Vector) -> Vector:
            whole[jets] = y
            return whole

        return project(
            x[jets],
            lambda y: system.values(at(y), stage),
            lambda y: _columns(system.jacobian(at(y), stage), jets),
            weights=weights[jets],
            fixed=fixed[jets],
            tolerance=system.tolerance,
            start=None if start is None else start[jets],
            sizes=self.given.sizes[jets],
            terms=self._terms(at, stage),
            accuracy=system.accuracy,
            most_iterations=MOST_ITERATIONS if start is None and not self._restarted else PATIENCE,
        )

    def _terms(self, at: Callable[[Vector], Vector], stage: int | None) -> Callable[[Vector], Vector] | None:
        """Sizes of the terms of a stage, where they are known."""
        if self.system.terms(self.given.point, stage) is None:
            return None

        def found(y: Vector) -> Vector:
            sizes = self.system.terms(at(y), stage)
            assert sizes is not None
            return sizes

        return found

    def _scale(self, x: Vector) -> Vector:
        """Sizes of all equations: what they are measured by at a point."""
        matrix, terms = abs(self.system.jacobian(x)), self.system.terms(x)
        typical = np.asarray(matrix @ self.given.sizes).ravel()
        if terms is not None:
            typical = terms + ROUND_OFF / self.system.tolerance * typical
        else:
            typical = typical + np.asarray(matrix @ np.abs(x)).ravel()
        found: Vector = typical
        return found

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
        wish = np.lexsort((-unknown, -order, -stage_of, self.given.known, self.given.fixed))
        basis = np.zeros((0, matrix.shape[0]))
        free: list[int] = []
        for j in wish.tolist():
            column, size = matrix[:, j], float(np.linalg.norm(matrix[:, j]))
            rest = column - basis.T @ (basis @ column)
            rest -= basis.T @ (basis @ rest)
            left = float(np.linalg.norm(rest))
            if left > self._negligible * max(size, 1e-12):
                basis = np.vstack([basis, rest / left])
            else:
                free.append(j)
        followed = [j for j in np.flatnonzero(self.given.fixed).tolist() if j not in set(free)]
        return np.array(sorted(free), dtype=np.int64), followed

    @property
    def _negligible(self) -> float:
        return max(DEPENDENT, 10.0 * self.system.tolerance)

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
        """Which derivatives follow from the undifferentiated unknowns, shape (jets,)."""
        columns = np.array([k > 0 for _, k in self.system.jets])
        matrix = self._scaled(x)[:, columns]
        found = np.zeros(columns.size, dtype=bool)
        sizes = np.linalg.norm(matrix, axis=0)
        if np.isfinite(sizes).all():
            _, values, right = np.linalg.svd(matrix / np.where(sizes > 0.0, sizes, 1.0))
            rank = int((values > self._negligible).sum())
            found[columns] = np.linalg.norm(right[rank:], axis=0) <= STILL
        return found

    def _is_new(self, other: Vector, found: Sequence[Vector], held: Booleans) -> bool:
        """Whether a solution is another one than those found before."""
        own = np.array([j < self.system.unknowns for j, _ in self.system.jets])
        size = (self.given.sizes + np.abs(found[0]))[own]
        new = all(
            float(np.abs((other - one)[own] / size).max()) > APART and not self._turned(one, other)
            for one in found
        )
        # Where the equations leave more free there than here, it is no solution of its own.
        return new and self._rank(other, ~held) == int((~held).sum())

    def others(self, x: Vector, free: npt.NDArray[np.int64], known: Sequence[Vector] = ()) -> list[Vector]:
        """Further solutions with the same free values, known ones and from random starts; nearest first."""
        given = self.given
        held = given.fixed.copy()
        held[free] = True
        found: list[Vector] = []
        for other in known:
            same = np.abs(other - x)[held] <= APART * (given.sizes + np.abs(x))[held]
            if same.all() and len(found) < MOST_SOLUTIONS and self._is_new(other, (x, *found), held):
                found.append(other)
        self._restarted = True
        for _ in range(self.restarts):
            start = self._random_start(x)
            start[held] = x[held]
            way = self._at_once if self.together else self._by_stages
            one = way(start, held, 1.0 / given.sizes)
            if one is not None:  # far from its start, the nearest point is not what matters
                one = way(one, held, 1.0 / given.sizes)
            if one is None or len(found) >= MOST_SOLUTIONS:
                continue
            if self._is_new(one, (x, *found), held):
                found.append(one)
        return sorted(found, key=lambda one: float(np.linalg.norm((one - x) / given.sizes)))

    def _turned(self, one: Vector, other: Vector) -> bool:
        """Whether two solutions differ by what no equation depends on anywhere, as whole turns of angles."""
        given, shift = self.given, other - one
        shift[np.abs(shift) <= APART * (given.sizes + np.abs(one))] = 0.0
        general = one + given.sizes * self._general
        with np.errstate(all="ignore"):
            difference = self.system.values(general + shift) - self.system.values(general)
            scale = np.asarray(abs(self.system.jacobian(general)) @ (np.abs(general) + np.abs(shift)))
        return bool((np.abs(difference) <= SAME_TERMS * scale.ravel()).all())

    # --- what was wrong -------------------------------------------------------------------------------------

    def violations(self, x: Vector, hidden: bool = False) -> list[Violation]:
        """Equations that the given values violate whatever the values are for which nothing was given.

        With ``hidden``, derivatives of equations are rather violated than equations as they are written.
        """
        system, given = self.system, self.given
        point = np.where(given.known, given.point, x)
        written = np.array(system.row_orders) == 0
        cost = np.where(written & hidden, HIDDEN_FIRST, 1.0)
        for _ in range(ROUNDS):
            values, matrix = system.values(point), system.jacobian(point)
            scale = self._scale(point)
            if not (np.abs(values) > 10.0 * system.tolerance * scale).any() or given.known.all():
                break
            found = _fewest(matrix, values, given, cost)
            if found is None:
                break
            change, kept = found
            better = self._met(np.flatnonzero(kept), point + change)
            if not np.isfinite(better.after).all():
                break
            point = better.x
            if better.converged:
                break
        values = system.values(point)
        scale = self._scale(point)
        wrong = np.flatnonzero(~(np.abs(values) <= 10.0 * system.tolerance * scale))
        return [
            Violation(system.row_names[i], float(values[i]), float(scale[i]), system.row_orders[i])
            for i in wrong
        ]

    def _met(self, rows: npt.NDArray[np.int64], point: Vector) -> Projection:
        """Some of the equations, met with the given values as they are."""
        terms: Any = self.system.terms
        return project(
            point,
            lambda y: self.system.values(y)[rows],
            lambda y: self.system.jacobian(y)[rows],
            weights=1.0 / self.given.sizes,
            fixed=self.given.known,
            tolerance=self.system.tolerance,
            most_iterations=PATIENCE,
            accuracy=self.system.accuracy,
            terms=None if terms(point) is None else lambda y: terms(y)[rows],
        )

    def changes(self, x: Vector) -> list[Change]:
        """Given values that are others now."""
        given = self.given
        moved = given.known & (np.abs(x - given.point) > MOVED * (given.sizes + np.abs(given.point)))
        return [
            Change(self.system.jet_names[j], float(given.point[j]), float(x[j]))
            for j in np.flatnonzero(moved)
        ]


def _columns(matrix: Any, chosen: npt.NDArray[np.int64]) -> Any:
    return matrix if chosen.size == matrix.shape[1] else matrix[:, chosen]


def _fewest(matrix: Any, values: Vector, given: Given, cost_of_row: Vector) -> tuple[Vector, Booleans] | None:
    """Change of values for which nothing was given that meets most equations, and which; None if none does.

    The sum of the violations, times their costs, is smallest, and not that of their squares: so they are in
    few equations.
    """
    scaled = sparse.csc_matrix(matrix)
    if not (np.isfinite(scaled.data).all() and np.isfinite(values).all()):
        return None
    rows = np.sqrt(np.asarray((scaled.multiply(scaled)).sum(axis=1)).ravel())
    rows = np.where(rows > 1e-14 * rows.max(initial=0.0), rows, 1.0)
    sizes = given.sizes[~given.known]
    own = sparse.diags(1.0 / rows) @ scaled[:, np.flatnonzero(~given.known)] @ sparse.diags(sizes)
    rhs = -values / rows
    largest = float(np.abs(rhs).max())
    k, n = own.shape
    both = sparse.hstack([own, sparse.identity(k), -sparse.identity(k)], format="csc")
    bounds = np.zeros((n + 2 * k, 2))
    bounds[:n, 0], bounds[:, 1] = -np.inf, np.inf
    cost = np.concatenate([np.zeros(n), cost_of_row, cost_of_row])
    found = linprog(cost, A_eq=both, b_eq=rhs / largest, bounds=bounds, method="highs")
    if found.x is None:
        return None
    change = np.zeros(given.point.size)
    change[~given.known] = largest * sizes * found.x[:n]
    return change, found.x[n : n + k] + found.x[n + k :] <= BLAMELESS


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in quotation marks, the first ones if there are many."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
