"""Plan of a solution: groups of equations that depend on each other, and their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from dae_sdc.dae.pattern import maximum_matching
from dae_sdc.dae.state import Vector
from dae_sdc.initial.jets import Group, Integers, ModelJets, Part, groups_of
from dae_sdc.initial.projection import TERM_ROUND_OFF
from dae_sdc.initial.solver import SEARCH, Given
from dae_sdc.structure.blocks import find_blocks, strong_components
from dae_sdc.structure.rank import Span

# Distance, in units of the sizes of values, of the points that give the usual sizes of derivatives.
SURROUNDING_DISTANCE = 0.1
# Thresholds, tried in order, of the part of a column that is independent of those before it, for a pivot.
PIVOT_SIZES = (1e-3, 1e-6, 1e-10)


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
        self._parts: dict[tuple[int, ...], Part] = {}
        self._blocks: dict[tuple[int, ...], tuple[list[Block], list[int]]] = {}

    def part(self, rows: Sequence[int]) -> Part:
        """The part with some of the equations, cached."""
        key = tuple(rows)
        if key not in self._parts:
            self._parts[key] = Part(self.system, rows)
        return self._parts[key]

    def groups(self) -> list[Group]:
        """The parts of the stages, merged if too many values are fixed or a later one selects a branch."""
        found = groups_of(self.system)
        seen: set[int] = set()
        for group in found:
            seen.update(group.jets)
            if any(j not in seen for i in group.rows for _, j in self.part([i]).switches):
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
            near = {owner[j] for i in rows for j in self.part([i]).depends.tolist() if j in owner} - seen
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
            before = {int(owner[j]) for i in group.rows for j in self.part([i]).depends}
            edges += [(source, number) for source in before if source >= 0]
        source, goal = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        labels = strong_components(len(groups), source, goal)
        made: list[Group] = []
        for label in range(int(labels.max()) + 1):
            members = [groups[number] for number in np.flatnonzero(labels == label)]
            made.append(
                Group(
                    [i for member in members for i in member.rows],
                    [j for member in members for j in member.jets],
                    max(member.stage for member in members),
                )
            )
        return made

    def _unmatched(self, rows: Sequence[int], cols: Sequence[int]) -> tuple[list[int], Integers]:
        """Equations that a maximum matching leaves alone, and the position of the value of each, or -1."""
        if not rows or not cols:
            return list(rows), np.full(len(rows), -1, dtype=np.int64)
        place = {j: at for at, j in enumerate(cols)}
        pattern = [(i, place[j]) for i, j in self.part(rows).pattern if j in place]
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
        scaled: npt.NDArray[np.float64] = found[0] / rows[:, None] / width
        return scaled

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
        part = self.part(group.rows)
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
            whole = self.part(rows)
            pattern = [(i, place[j]) for i, j in whole.pattern + whole.switches if j in place]
            at, of = np.array(pattern, dtype=np.int64).T
            for block in find_blocks(at, of, np.arange(len(rows))):
                own_part = self.part([rows[i] for i in block.rows])
                columns = np.array([own[j] for j in block.cols], dtype=np.int64)
                blocks.append(Block(own_part, columns, own_part.is_linear(columns.tolist())))
        self._blocks[key] = blocks, checks
        return self._blocks[key]


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
