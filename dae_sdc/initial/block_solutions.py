"""Blocks of equations that depend on each other, and all solutions of one block."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.linear import maximum_matching
from dae_sdc.dae.projection import TERM_ROUND_OFF, EquationFunctions
from dae_sdc.dae.state import Vector
from dae_sdc.initial.consistent import SolvedBlock
from dae_sdc.initial.jets import Group, ModelJets, Part, groups_of
from dae_sdc.initial.paths import BlockEquations
from dae_sdc.initial.solver import SEARCH, Given, pivots
from dae_sdc.initial.systems import NotPolynomialError, Reader, nearest_angle
from dae_sdc.jets.graph import Integers, leaf_values
from dae_sdc.jets.scalars import Reals, many_digits
from dae_sdc.polynomials.homotopy import solve_polynomials
from dae_sdc.polynomials.tracking import observed
from dae_sdc.structure.blocks import find_blocks, strong_components

# Distance, in units of the sizes of values, of the points that give the usual sizes of derivatives.
SURROUNDING_DISTANCE = 0.1


@dataclass(eq=False)
class Block:
    """A block of equations and the values for which they are solved."""

    part: Part  # The equations.
    cols: Integers  # Numbers of the values.
    linear: bool  # Whether the equations are linear in them.
    # For each angle the rates at which values change with it, and its period.
    moves: dict[int, tuple[dict[int, float], float]] = field(default_factory=dict)
    # Cache of the solutions, by the known values on which the equations depend.
    known: dict[bytes, list[Vector]] = field(default_factory=dict)


class Plan:
    """Groups and blocks of the equations of a model, determined by ranks of their Jacobian."""

    def __init__(
        self, system: ModelJets, given: Given, preference: Sequence[int], random: np.random.Generator
    ) -> None:
        self.system, self.given = system, given
        self._place_in_preference = np.empty(len(system.jets), dtype=np.int64)
        self._place_in_preference[list(preference)] = np.arange(len(system.jets))
        self._generic: Vector = given.point + given.sizes * random.standard_normal(given.point.size)
        self._directions = random.standard_normal((3, given.point.size))
        self._blocks: dict[tuple[int, ...], tuple[list[Block], list[int]]] = {}

    def groups(self) -> list[Group]:
        """The parts of the stages, merged if too many values are fixed or a later one selects a branch."""
        found = groups_of(self.system)
        seen: set[int] = set()
        for group in found:
            seen.update(group.jets)
            if any(j not in seen for i in group.rows for _, j in self.system.rows([i]).switches):
                found = self._joined(found, [])
                break
        at = 0
        while at < len(found):
            surplus = self._group_with_surplus(found, at)
            if surplus is None:
                at += 1
            else:
                found = self._joined(found, [(at, surplus), (surplus, at)])
                at = 0
        return found

    def open(self, group: Group) -> list[int]:
        """Numbers of the values of a group that are not fixed."""
        return [j for j in sorted(group.jets) if not self.given.fixed[j]]

    def _group_with_surplus(self, groups: list[Group], at: int) -> int | None:
        """A group with more values than equations on which group ``at``, with too few values, depends."""
        if not self.given.fixed[groups[at].jets].any():
            return None
        lacking = self._unmatched(groups[at].rows, self.open(groups[at]))[0]
        owner = {j: number for number, group in enumerate(groups) for j in self.open(group)}
        seen, rows = {at}, lacking
        while rows:
            depends = (j for i in rows for j in self.system.rows([i]).depends.tolist())
            near = {owner[j] for j in depends if j in owner} - seen
            for number in sorted(near, reverse=True):
                if len(self.open(groups[number])) > len(groups[number].rows):
                    return number
            seen |= near
            rows = [i for number in near for i in groups[number].rows]
        return None

    def _joined(self, groups: list[Group], edges: list[tuple[int, int]]) -> list[Group]:
        """The groups after merging those that depend on each other, with the edges as more dependences."""
        owner = np.full(len(self.system.jets), -1, dtype=np.int64)
        for number, group in enumerate(groups):
            owner[group.jets] = number
        edges = list(edges)
        for number, group in enumerate(groups):
            before = {int(owner[j]) for i in group.rows for j in self.system.rows([i]).depends}
            edges += [(source, number) for source in before if source >= 0]
        source, goal = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        labels = strong_components(len(groups), source, goal)
        parts = [[groups[number] for number in np.flatnonzero(labels == k)] for k in range(labels.max() + 1)]
        return [
            Group(
                [i for member in members for i in member.rows],
                [j for member in members for j in member.jets],
                max(member.stage for member in members),
            )
            for members in parts
        ]

    def _unmatched(self, rows: Sequence[int], cols: Sequence[int]) -> tuple[list[int], Integers]:
        """Equations that a maximum matching leaves alone, and the position of the value of each, or -1."""
        place = {j: at for at, j in enumerate(cols)}
        pattern = [(i, place[j]) for i, j in self.system.rows(rows).slopes if j in place]
        if not pattern:
            return list(rows), np.full(len(rows), -1, dtype=np.int64)
        at, of = np.array(pattern, dtype=np.int64).T
        graph = sparse.csr_matrix((np.ones(at.size), (at, of)), shape=(len(rows), len(cols)))
        matched = maximum_matching(graph).astype(np.int64)
        return [row for row, at in zip(rows, matched, strict=True) if at < 0], matched

    # --- values and ranks

    def violation(self, part: Part, x: Vector) -> float:
        """Largest residual of an equation, in units of its terms; infinite where one is not finite."""
        found, used = part.values(x), part.depends.tolist()
        slopes = abs(
            part.dense(x, used) if len(part.rows) < SEARCH.most_values else part.jacobian(x)[:, used]
        )
        least = np.asarray(slopes @ self.given.sizes[used]).ravel() * TERM_ROUND_OFF / self.system.tolerance
        scale = part.terms(x) + least
        worst = float(np.max(np.where(found == 0.0, 0.0, np.abs(found) / scale), initial=0.0))
        return worst if np.isfinite(worst) else np.inf

    def scaled(self, part: Part, cols: Sequence[int], x: Vector) -> npt.NDArray[np.float64]:
        """Jacobian with respect to some values, relative to the sizes of its entries at points around x."""
        # Shapes: x (jets,).
        columns = list(cols)
        near = x + SURROUNDING_DISTANCE * (self.given.sizes + np.abs(x)) * self._directions
        found = part.dense(np.vstack([x, near]).T, columns)
        sizes = np.abs(found[1:])
        usual = np.min(np.where(np.isfinite(sizes), sizes, np.inf), axis=0)
        usual[~np.isfinite(usual)] = 0.0
        # Rows are scaled first, then columns: entries that are small everywhere are no loss of rank.
        rows = (usual * self.given.sizes[columns]).max(axis=1, initial=0.0)
        rows[rows == 0.0] = 1.0
        width = (usual / rows[:, None]).max(axis=0, initial=0.0)
        width[width == 0.0] = 1.0
        return np.asarray(found[0] / rows[:, None] / width)

    def rank(self, part: Part, cols: Sequence[int], x: Vector) -> int:
        """Rank of the Jacobian with respect to some values, scaled by its entries at general points."""
        # Shapes: x (jets,).
        if len(part.rows) > SEARCH.most_values:
            return len(part.rows)
        if not cols:
            return 0
        matrix = self.scaled(part, cols, x)
        if not np.isfinite(matrix).all():
            return len(part.rows)
        return int((np.linalg.svd(matrix, compute_uv=False) > SEARCH.vanishing_singular_value).sum())

    def least_wanted(self, values: Sequence[int]) -> list[int]:
        """Values sorted such that those come first that are preferably solved for."""
        return sorted(values, key=lambda j: -int(self._place_in_preference[j]))

    def solved_for(self, part: Part, own: list[int], x: Vector) -> list[int]:
        """Values for which equations are solved: as many as equations, the last ones in the preference."""
        # Shapes: x (jets,).
        k = len(part.rows)
        if len(own) <= k:
            return own
        order = self.least_wanted(own)
        near, general = x.copy(), x.copy()
        general[own] = self._generic[own]
        blank = [j for j in own if not self.given.known[j]]
        near[blank] = self._generic[blank]
        found: list[int] = []
        for point in (near, general):
            matrix = part.dense(point, order) * self.given.sizes[order]
            if not np.isfinite(matrix).all():
                continue
            sizes = np.linalg.norm(matrix, axis=1)
            found = pivots(matrix / np.where(sizes > 0.0, sizes, 1.0)[:, None])
            if len(found) == k:
                break
        return sorted(order[at] for at in found)

    def split(self, group: Group, cols: list[int]) -> tuple[list[Block], list[int]]:
        """Blocks in the order of solution, and numbers of redundant equations to be checked afterwards."""
        key = (*group.rows, -1, *cols)
        if key in self._blocks:
            return self._blocks[key]
        part = self.system.rows(group.rows)
        linear = part.is_linear(group.jets)
        if len(cols) == len(group.rows) and (linear or len(cols) == 1):
            self._blocks[key] = [Block(part, np.array(cols, dtype=np.int64), linear)], []
            return self._blocks[key]
        checks, matched = self._unmatched(group.rows, cols)
        rows = [i for i, at in zip(group.rows, matched, strict=True) if at >= 0]
        own = [cols[int(at)] for at in matched if at >= 0]
        blocks: list[Block] = []
        if rows:
            place = {j: at for at, j in enumerate(own)}
            whole = self.system.rows(rows)
            pattern = [(i, place[j]) for i, j in [*whole.slopes, *whole.switches] if j in place]
            at, of = np.array(pattern, dtype=np.int64).T
            for block in find_blocks(at, of, np.arange(len(rows))):
                own_part = self.system.rows([rows[i] for i in block.rows])
                columns = np.array([own[j] for j in block.cols], dtype=np.int64)
                blocks.append(Block(own_part, columns, own_part.is_linear(columns.tolist())))
        self._blocks[key] = blocks, checks
        return self._blocks[key]


def put(x: Vector, places: Any, values: Vector) -> Vector:
    """A copy of values with others in some places."""
    whole = x.copy()
    whole[places] = values
    return whole


MOST_NEWTON_STEPS = 80  # Largest number of steps of Newton's method.
# Step, relative to 1 + the values, at which Newton's method has converged quadratically.
CONVERGED_STEP = 1e-45


def with_many_digits(part: Part, cols: Sequence[int], x: Vector, start: Vector) -> Vector | None:
    """Equations with exact coefficients, solved for some values with many decimal digits, and rounded.

    None if Newton's method does not converge quadratically.
    """
    # Shapes: x (jets,), start (cols,).
    mp, n, values = many_digits(), len(cols), x.tolist()
    numbers = Reals(mp, leaf_values(part.place, part.known, values, mp.mpf))
    place = {j: at for at, j in enumerate(cols)}
    entries = [(e, i, place[j]) for e, (i, j) in enumerate(part.slopes) if j in place]
    y = [mp.mpf(value) for value in start.tolist()]
    for _ in range(MOST_NEWTON_STEPS):
        for j, value in zip(cols, y, strict=True):
            values[j] = value
        found = part.in_numbers(numbers)
        if found is None:
            return None
        matrix = mp.zeros(n, n)
        for e, i, at in entries:
            matrix[i, at] = found[1][e]
        try:
            step = mp.lu_solve(matrix, mp.matrix(found[0]))
        except (ZeroDivisionError, ValueError, TypeError):  # singular
            return None
        y = [a - b for a, b in zip(y, step, strict=True)]
        if max(abs(b) for b in step) <= CONVERGED_STEP * (1 + max(abs(a) for a in y)):
            return np.array([float(a) for a in y])
    return None


@dataclass(frozen=True)
class BlockOptions:
    """Settings of the search for all solutions of a block."""

    seed: int = 0  # Seed of all that is random.
    workers: int = 1  # Number of processes that follow paths.
    comm: Any = None  # MPI communicator whose ranks share the paths.
    # Largest number of paths for the polynomials of one block; above it, Newton's method has random starts.
    most_paths: int = 4000
    # Number of paths below which starting worker processes takes longer than following the paths.
    few_paths: int = 64
    random_starts: int = 24  # Number of random starts of Newton's method for a block that is not polynomial.
    most_found: int = 24  # Largest number of solutions of such a block that are sought.
    # Largest residual, in the original equations, at which a solution of the polynomials is accepted.
    residual_tolerance: float = 1e-5
    # Difference of two polished solutions, in units of the sizes of the values, up to which they are one.
    same: float = 1e-6
    # Singular value of the scaled Jacobian below which there may be several solutions close together.
    nearly_singular: float = 1e-3
    # Largest distance of such solutions from each other, in units of the sizes of the values.
    beside: float = 1e-2
    # Distances of the points from which such solutions are sought.
    probe_distances: tuple[float, ...] = (1e-3, 1e-5, 1e-7)
    most_values_with_digits: int = 12  # Largest number of values of a block for which they are sought.


BLOCKS = BlockOptions()


class BlockSolver:
    """Search for all solutions of blocks of equations."""

    def __init__(self, plan: Plan, options: BlockOptions, random: np.random.Generator) -> None:
        self.plan, self.options, self._random = plan, options, random
        self.system, self.given = plan.system, plan.given
        self.outside = 0  # Solutions of the last block that were left out because of bounds.

    def solve(
        self, block: Block, x: Vector, stage: int, chosen: Sequence[str]
    ) -> tuple[SolvedBlock, list[Vector]]:
        """A report on a block, and all its solutions for the values of the blocks before in x.

        Values named in ``chosen`` were taken from the guesses.
        """
        counts: Counter[str] = Counter()
        kind, reason = "linear" if block.linear else "polynomial", ""
        try:
            found = self._linear(block, x) if block.linear else self._by_homotopy(block, x, counts)
        except NotPolynomialError as why:
            kind, reason = "newton", str(why)
            found = self._by_newton(block, x, self.options.random_starts)
        turned = [self._turned_within(block, values) for values in found]
        within = [values for values in turned if self.given.allows(values, block.cols).all()]
        self.outside, found = len(found) - len(within), within
        if not block.linear:
            counts["singular"] = sum(self.is_singular(block, x, values) for values in found)
        told = SolvedBlock(
            stage=stage,
            equations=tuple(self.system.row_names[i] for i in block.part.rows),
            values=tuple(self.system.jet_names[j] for j in block.cols),
            chosen=tuple(chosen),
            kind=kind,
            reason=reason,
            real=len(found),
            **counts,
        )
        return told, found

    def _turned_within(self, block: Block, values: Vector) -> Vector:
        """A solution after whole turns of its angles to within their bounds, as far as there are some."""
        for j, (rates, period) in block.moves.items() if self.given.bounds is not None else ():
            if not self.given.allows(values, block.cols)[j]:
                low, high = self.given.bounds[:, block.cols[j]]
                below, above = max(low - values[j], 0.0), max(values[j] - high, 0.0)
                turns = np.ceil(below / period) - np.ceil(above / period)
                values = values.copy()
                values[list(rates)] += turns * period * np.array(list(rates.values()))
        return values

    def is_singular(self, block: Block, x: Vector, values: Vector) -> bool:
        """Whether the equations of a block are rank-deficient at a solution."""
        whole = put(x, block.cols, values)
        return self.plan.rank(block.part, block.cols.tolist(), whole) < len(block.part.rows)

    def _linear(self, block: Block, x: Vector) -> list[Vector]:
        """The solution of a linear block."""
        found = self._equations(block, x, self.given.sizes[block.cols]).solved(x[block.cols]).x
        fits = self.plan.violation(block.part, put(x, block.cols, found)) <= 10.0 * self.system.tolerance
        return [found] if fits else []

    def _equations(self, block: Block, x: Vector, sizes: Vector) -> BlockEquations:
        """The equations of a block as functions of its values beside those in x."""
        part, cols, whole = block.part, block.cols, x.copy()
        large = len(cols) > SEARCH.most_values

        def at(y: Vector) -> Vector:
            whole[cols] = y
            return whole

        equations = EquationFunctions(
            lambda y: part.values(at(y)),
            lambda y: part.jacobian(at(y))[:, cols] if large else part.dense(at(y), cols.tolist()),
            lambda y: part.terms(at(y)),
        )
        return BlockEquations(equations, sizes, None, self.system.tolerance)

    def _by_homotopy(self, block: Block, x: Vector, counts: Counter[str]) -> list[Vector]:
        near, options = x[block.cols], self.options
        reader = Reader(self.system, block.part.nodes, block.cols.tolist(), x)
        branches = list(reader.branches())
        paths = sum(branch.paths for branch in branches)
        if paths > options.most_paths:
            raise NotPolynomialError(f"{paths} paths")
        found: list[Vector] = []
        doubtful = False
        for branch in branches:
            workers = options.workers if branch.paths >= options.few_paths else 1
            # Scaled, so that solutions near each other are told apart even if their values are small.
            system, scales = branch.scaled
            with observed(None, False, scales):
                roots = solve_polynomials(system, seed=options.seed, workers=workers, comm=options.comm)
            solutions = roots.solutions * scales
            sizes = branch.sizes(self.given.sizes[block.cols])
            defined = branch.defined(solutions)
            real = defined & roots.is_real
            complex_ones = int((defined & ~real).sum())
            counts.update(paths=roots.paths, lost=roots.failed, complex=complex_ones)
            doubtful |= bool(roots.singular.any())
            for j, unit in branch.units.items():
                follows = {i: slopes[j] for i, (slopes, _) in branch.sums.items() if j in slopes}
                block.moves[j] = {j: 1.0, **follows}, 2.0 * math.pi / abs(unit)
            for values in branch.unknowns(solutions[real].real, near):
                polished = self._polished(block, x, values, sizes)
                if polished is None:
                    continue
                for one in self._separated(block, x, polished, sizes):
                    if not any(self._is_one(block, x, one, other, sizes) for other in found):
                        found.append(one)
        if not found and doubtful:
            # The solutions fill a curve, of which any real point is taken.
            found = self._by_newton(block, x, starts=0)
        return found

    def _polished(self, block: Block, x: Vector, values: Vector, sizes: Vector) -> Vector | None:
        """A solution of the original equations near a solution of the polynomials; None if there is none."""
        if self.plan.violation(block.part, put(x, block.cols, values)) > self.options.residual_tolerance:
            return None
        best = self._equations(block, x, sizes).solved(values).x
        if float(np.max(np.abs(best - values) / (sizes + np.abs(values)), initial=0.0)) > SEARCH.distinct:
            best = values
        left = self.plan.violation(block.part, put(x, block.cols, best))
        return best if left <= 10.0 * self.system.tolerance else None

    def _separated(self, block: Block, x: Vector, values: Vector, sizes: Vector) -> list[Vector]:
        """The solutions near a nearly singular one, told apart by arithmetic with many digits."""
        whole = put(x, block.cols, values)
        matrix = self.plan.scaled(block.part, block.cols.tolist(), whole)
        if len(values) > self.options.most_values_with_digits or not np.isfinite(matrix).all():
            return [values]
        _, sizes_of, right = np.linalg.svd(matrix)
        if sizes_of[-1] > self.options.nearly_singular:
            return [values]
        found: list[Vector] = []
        for distance in self.options.probe_distances:
            for sign in (1.0, -1.0):
                probe = values + sign * distance * sizes * right[-1]
                near = with_many_digits(block.part, block.cols.tolist(), whole, probe)
                size = sizes + np.abs(values)
                if near is None or np.max(np.abs(near - values) / size) > self.options.beside:
                    continue
                if not any(self._is_one(block, x, near, other, sizes) for other in found):
                    found.append(near)
        return found if len(found) > 1 else [values]

    def _is_one(self, block: Block, x: Vector, one: Vector, other: Vector, sizes: Vector) -> bool:
        """Whether two solutions are one, because the equations hold up to round-off between them."""
        apart = float(np.max(np.abs(one - other) / (sizes + np.abs(one)), initial=0.0))
        if not TERM_ROUND_OFF < apart <= self.options.same:
            return apart <= self.options.same
        middle = put(x, block.cols, 0.5 * (one + other))
        noise = 2.0 * np.finfo(float).eps * block.part.terms(middle)
        return bool((np.abs(block.part.values(middle)) <= noise).all())

    def _by_newton(self, block: Block, x: Vector, starts: int) -> list[Vector]:
        cols = block.cols
        units = Reader(self.system, block.part.nodes, cols.tolist(), x).angles()
        block.moves = {j: ({j: 1.0}, 2.0 * math.pi / abs(unit)) for j, unit in units.items()}
        sizes = self.given.sizes[cols]
        bounds = None if self.given.bounds is None else self.given.bounds[:, cols]
        equations = replace(self._equations(block, x, sizes), bounds=bounds)
        found: list[Vector] = []
        for attempt in range(1 + starts):
            y = x[cols].copy()
            if attempt:
                spread = SEARCH.spreads[int(self._random.integers(len(SEARCH.spreads)))]
                y += spread * sizes * self._random.standard_normal(y.size)
                y = self.given.within(put(x, block.cols, y))[cols]
            result = equations.solved(y, most=SEARCH.restart_iterations if attempt else None)
            if not result.converged:
                continue
            values = result.x.copy()
            for j, unit in units.items():
                values[j] = float(nearest_angle(values[j], float(x[cols][j]), unit))
            size = sizes + np.abs(values)
            is_new = all(np.max(np.abs(values - one) / size, initial=0.0) > SEARCH.distinct for one in found)
            if is_new and (attempt == 0 or not self.is_singular(block, x, values)):
                found.append(values)
            if len(found) == self.options.most_found:
                break
        return found
