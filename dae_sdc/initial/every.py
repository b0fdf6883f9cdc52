"""All consistent initial values of a model: block by block, each for all of its solutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.sparse.linalg import spsolve

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InconsistentStateError
from dae_sdc.expressions.dag import Leaf
from dae_sdc.initial.consistent import (
    APART,
    LARGEST,
    PATIENCE,
    RANK_LOST,
    SPREADS,
    Distance,
    Given,
    SingularStart,
    SolvedBlock,
    listed,
)
from dae_sdc.initial.digits import ManyDigits
from dae_sdc.initial.jets import Integers, ModelJets
from dae_sdc.initial.parts import Group, Part, groups_of, leaf_values
from dae_sdc.initial.projection import MOST_ITERATIONS, ROUND_OFF, project
from dae_sdc.initial.systems import NotPolynomialError, Reader, nearest_angle
from dae_sdc.initial.turns import Turn, TurnError
from dae_sdc.polynomials.homotopy import solve_polynomials
from dae_sdc.structure.blocks import find_blocks, strong_components

MOST_STARTS = 128
"""Number of solutions that are carried on from block to block; those nearest to the guesses are kept."""

MOST_PATHS = 4000
"""Paths of the polynomials of one block; where there are more, Newton's method has random starts."""

FEW_PATHS = 64
"""Paths below which starting worker processes takes longer than following them."""

NEWTON_STARTS = 24
"""Random starts of a block that is no polynomial."""

MOST_FOUND = 24
"""Solutions of such a block."""

AROUND = 0.1
"""Distance, in units of the sizes of values, of points at which derivatives have their usual size."""

PIVOTS = (1e-3, 1e-6, 1e-10)
"""Sizes of what a value adds to those before it, in units of its equations, for which it is solved."""

NEARLY = 1e-5
"""Residual of the solution of a polynomial in the equations as they were written, where it is theirs."""

POLISHED = 8
"""Steps of Newton's method after the homotopy."""

SAME = 1e-6
"""Difference of two solutions after that, in units of the sizes of the values, that makes them two."""

NEARLY_SINGULAR = 1e-3
"""Singular value of scaled derivatives below which there may be more than one solution in the same place."""

BESIDE = 1e-2
"""Distance of such solutions from each other, in units of the sizes of the values."""

DISTANCES = (1e-3, 1e-5, 1e-7)
"""Distances of the points from which they are looked for."""

MOST_DIGITS = 12
"""Values up to which they are."""


@dataclass(eq=False)
class _Block:
    """Equations for as many values, or for those that are left."""

    part: Part
    cols: Integers
    linear: bool
    moves: dict[int, tuple[dict[int, float], float]] = field(default_factory=dict)
    """Of each angle the rates at which values move with it, and its period."""
    known: dict[bytes, list[Vector]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Start:
    """Values that fulfil the blocks up to one, what was chosen among them, and where they are singular."""

    x: Vector
    chosen: tuple[int, ...] = ()
    singular: tuple[SingularStart, ...] = ()


class EveryStart:
    """Finds all values at which the equations of a model and what is hidden in them hold.

    Parameters
    ----------
    system : ModelJets
        The equations.
    given : Given
        What is known.
    wish : sequence of int
        All values, in the order in which they are given rather than solved for.
    seed : int
        Of homotopies and random starts.
    starts : int, optional
        Random starts of a block that is no polynomial.
    workers : int
        Processes that follow paths.
    comm : mpi4py.MPI.Comm, optional
        Communicator whose processes follow paths, all of which must call this.
    most_paths : int
        Paths of the polynomials of one block; where there are more, Newton's method has random starts.

    Attributes
    ----------
    missing : list of str
        Why there may be more solutions than were found.
    singular : list of SingularStart
        What is singular of starts that end where a block has no solution because of it.
    remarks : list of str
        What there is to tell.
    """

    def __init__(
        self,
        system: ModelJets,
        given: Given,
        wish: Sequence[int],
        seed: int = 0,
        starts: int | None = None,
        workers: int = 1,
        comm: Any = None,
        most_paths: int = MOST_PATHS,
    ) -> None:
        self.most_paths = most_paths
        self.missing: list[str] = []
        self.system, self.given, self.seed = system, given, seed
        self.workers, self.comm = workers, comm
        self.starts = NEWTON_STARTS if starts is None else starts
        self._random = np.random.default_rng(seed)
        self._rank_in_wish = np.empty(len(system.jets), dtype=np.int64)
        self._rank_in_wish[list(wish)] = np.arange(len(system.jets))
        self._generic: Vector = given.point + given.sizes * self._random.standard_normal(given.point.size)
        self._directions = self._random.standard_normal((3, given.point.size))
        self._records: dict[tuple[tuple[int, ...], tuple[int, ...]], SolvedBlock] = {}
        self._parts: dict[tuple[int, ...], Part] = {}
        self._blocks: dict[tuple[int, ...], tuple[list[_Block], list[int]]] = {}
        self._expanded: dict[
            tuple[tuple[int, ...], bytes], list[tuple[Vector, tuple[int, ...], tuple[SingularStart, ...]]]
        ] = {}
        self._failures: list[tuple[int, str]] = []
        self._symmetries: dict[int, dict[int, float]] = {}
        self._moving: dict[int, tuple[int, str]] = {}
        self.singular: list[SingularStart] = []
        self.remarks: list[str] = []

    # --- the plan -------------------------------------------------------------------------------------------

    def _part(self, rows: Sequence[int]) -> Part:
        key = tuple(rows)
        if key not in self._parts:
            self._parts[key] = Part(self.system, rows)
        return self._parts[key]

    def groups(self) -> list[Group]:
        """The parts of the stages, joined where too many values of one are fixed, or a later one decides."""
        found = groups_of(self.system)
        seen: set[int] = set()
        for group in found:
            seen.update(group.jets)
            if any(j not in seen for i in group.rows for _, j in self._part([i]).switches):
                found = self._joined(found, [])
                break
        at = 0
        while at < len(found):
            with_slack = self._lender(found, at)
            if with_slack is None:
                at += 1
            else:
                found = self._joined(found, [(at, with_slack), (with_slack, at)])
                at = 0
        return found

    def _open(self, group: Group) -> list[int]:
        return [j for j in sorted(group.jets) if not self.given.fixed[j]]

    def _lender(self, groups: list[Group], at: int) -> int | None:
        """A group that can spare a value for one with too few, in itself or through those between them."""
        if not self.given.fixed[groups[at].jets].any():
            return None
        lacking = self._unmatched(groups[at].rows, self._open(groups[at]))[0]
        owner = {j: number for number, group in enumerate(groups) for j in self._open(group)}
        seen, rows = {at}, lacking
        while rows:
            near = {owner[j] for i in rows for j in self._part([i]).depends.tolist() if j in owner} - seen
            for number in sorted(near, reverse=True):
                if len(self._open(groups[number])) > len(groups[number].rows):
                    return number
            seen |= near
            rows = [i for number in near for i in groups[number].rows]
        return None

    def _joined(self, groups: list[Group], edges: list[tuple[int, int]]) -> list[Group]:
        """The groups with those as one that depend on each other, also by some more edges."""
        owner = np.full(len(self.system.jets), -1, dtype=np.int64)
        for number, group in enumerate(groups):
            owner[group.jets] = number
        edges = list(edges)
        for number, group in enumerate(groups):
            before = {int(owner[j]) for i in group.rows for j in self._part([i]).depends}
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
        """Equations that no value is left for, and for every equation the position of its value, or -1."""
        if not rows or not cols:
            return list(rows), np.full(len(rows), -1, dtype=np.int64)
        place = {j: at for at, j in enumerate(cols)}
        pattern = [(i, place[j]) for i, j in self._part(rows).pattern if j in place]
        if not pattern:
            return list(rows), np.full(len(rows), -1, dtype=np.int64)
        at, of = np.array(pattern, dtype=np.int64).T
        graph = sparse.csr_matrix((np.ones(at.size), (at, of)), shape=(len(rows), len(cols)))
        matched = np.asarray(maximum_bipartite_matching(graph, perm_type="column"), dtype=np.int64)
        return [row for row, at in zip(rows, matched, strict=True) if at < 0], matched

    # --- all of them ----------------------------------------------------------------------------------------

    def solve(self) -> list[_Start]:
        """All values, those nearest to the given ones first.

        Raises
        ------
        InconsistentStateError
            If there are none, with the number of complex ones.
        """
        starts = [_Start(self.given.point.copy())]
        for group in self.groups():
            self._failures = []
            found = [new for start in starts for new in self._expand(group, start)]
            if not found:
                self._refuse()
            starts = self._kept(found)
        for start in starts:
            self._turn_back(start.x)
        return sorted(starts, key=lambda start: self.distance(start.x))

    def _turn_back(self, x: Vector) -> None:
        """Turn angles, and what follows them, by whole turns until they are nearest to their guesses."""
        for shift in self._symmetries.values():
            jets, by = list(shift), np.array(list(shift.values())) * self.given.weights[list(shift)]
            away = (x[jets] - self.given.point[jets]) * self.given.weights[jets]
            times = -float(np.round(by @ away / (by @ by)))
            x[jets] += times * np.array(list(shift.values()))

    @property
    def blocks(self) -> tuple[SolvedBlock, ...]:
        """What was solved, in this order."""
        return tuple(self._records.values())

    @property
    def complete(self) -> bool:
        """Whether there are certainly no more solutions than were found, besides whole turns of angles."""
        certain = (block.kind != "newton" and not block.lost for block in self.blocks)
        return not self.missing and all(certain)

    def distance(self, x: Vector) -> Distance:
        """How far values are from those given: those of the first stage count first."""
        return self.given.distance(x, self.system.stages)

    def _kept(self, starts: list[_Start]) -> list[_Start]:
        if len(starts) <= MOST_STARTS:
            return starts
        text = f"more than {MOST_STARTS} starts; those nearest to the guesses were kept"
        if text not in self.remarks:
            self.remarks.append(text)
        return sorted(starts, key=lambda start: self.distance(start.x))[:MOST_STARTS]

    def _expand(self, group: Group, start: _Start) -> list[_Start]:
        """The starts that follow from one by the equations of a group."""
        own = self._open(group)
        known = np.setdiff1d(self._part(group.rows).depends, own)
        key = tuple(group.jets), start.x[known].tobytes()
        if key not in self._expanded:
            bare = _Start(start.x)
            self._expanded[key] = [
                (one.x[own], one.chosen, one.singular) for one in self._solved(group, own, bare)
            ]
        if not self._expanded[key]:
            self.singular += start.singular
        found = []
        for values, chosen, singular in self._expanded[key]:
            x = start.x.copy()
            x[own] = values
            found.append(_Start(x, start.chosen + chosen, start.singular + singular))
        return found

    def _solved(self, group: Group, own: list[int], start: _Start) -> list[_Start]:
        if not group.rows:
            return [_Start(start.x, tuple(own))]
        part = self._part(group.rows)
        linear = part.is_linear(group.jets)
        if linear and self._rank(part, own, start.x) < len(group.rows):
            return self._short_of_rank(group, part, own, start)
        cols = self._solved_for(part, own, start.x)
        blocks, checks = self._split(group, cols)
        solved = {int(j) for block in blocks for j in block.cols}
        chosen = tuple(j for j in own if j not in solved)
        found = [_Start(start.x, chosen)]
        for block in blocks:
            new = [_Start(x, chosen) for one in found for x in self._solutions(block, one.x, group, chosen)]
            found = self._kept(new)
        if checks:
            found = [one for one in found if self._holds(self._part(checks), one.x)]
        if linear:
            return found
        return [_Start(one.x, chosen, self._lost_rank(group, part, one.x)) for one in found]

    def _lost_rank(self, group: Group, part: Part, x: Vector) -> tuple[SingularStart, ...]:
        rank = self._rank(part, group.jets, x)
        return () if rank == len(group.rows) else (self._told(group, x, rank, ""),)

    def _told(self, group: Group, x: Vector, rank: int, ended: str) -> SingularStart:
        names = self.system.jet_names
        wanted = set(self._part(group.rows).depends.tolist())
        wanted = wanted - set(group.jets) if ended else wanted | set(group.jets)
        return SingularStart(
            stage=group.stage,
            equations=tuple(self.system.row_names[i] for i in group.rows),
            rank=rank,
            size=len(group.rows),
            values={names[j]: float(x[j]) for j in sorted(wanted)},
            ended=ended,
        )

    def _violation(self, part: Part, x: Vector) -> float:
        """Largest violation of an equation, in units of its terms; infinite where it has no value."""
        found, used = part.values(x), part.depends.tolist()
        slopes = abs(part.dense(x, used) if len(part.rows) < LARGEST else part.jacobian(x)[:, used])
        least = np.asarray(slopes @ self.given.sizes[used]).ravel() * ROUND_OFF / self.system.tolerance
        scale = part.terms(x) + least
        worst = float(np.max(np.where(found == 0.0, 0.0, np.abs(found) / scale), initial=0.0))
        return worst if np.isfinite(worst) else np.inf

    def _holds(self, part: Part, x: Vector) -> bool:
        if self._violation(part, x) <= 10.0 * self.system.tolerance:
            return True
        held = [self.system.jet_names[j] for j in part.depends if self.given.fixed[j]]
        found = part.values(x)
        worst = int(np.argmax(np.abs(found))) if np.isfinite(found).all() else 0
        name = self.system.row_names[part.rows[worst]]
        left = f"'{name}' is left with {found[worst]:.2g}"
        what = listed([self.system.row_names[i] for i in part.rows])
        self._failures.append(
            (
                2,
                f"the fixed values {listed(held)} of {self.system.title} contradict {what} at "
                f"t={self.system.t:.6g}: {left}; leave one of them free"
                if held
                else f"{what} of {self.system.title} cannot hold at t={self.system.t:.6g} with what the "
                f"other equations say: {left}; check the equations",
            )
        )
        return False

    def _refuse(self) -> None:
        if self._failures:
            raise InconsistentStateError(max(self._failures, key=lambda failure: failure[0])[1])
        raise InconsistentStateError(
            f"found no values at which the equations of {self.system.title} hold at t={self.system.t:.6g}; "
            f"give other guesses, or check the equations"
        )

    # --- what is solved for what ----------------------------------------------------------------------------

    def _scaled(self, part: Part, cols: Sequence[int], x: Vector) -> npt.NDArray[np.float64]:
        """Derivatives with respect to some values, in units of their sizes at points around x."""
        columns = list(cols)
        near = x + AROUND * (self.given.sizes + np.abs(x)) * self._directions
        found = part.dense(np.vstack([x, near]).T, columns)
        sizes = np.abs(found[1:])
        usual = np.min(np.where(np.isfinite(sizes), sizes, np.inf), axis=0)
        usual[~np.isfinite(usual)] = 0.0
        # Rows first, in units of the values, then columns: what is small everywhere is no loss of rank.
        rows = (usual * self.given.sizes[columns]).max(axis=1, initial=0.0)
        rows[rows == 0.0] = 1.0
        width = (usual / rows[:, None]).max(axis=0, initial=0.0)
        width[width == 0.0] = 1.0
        scaled: npt.NDArray[np.float64] = found[0] / rows[:, None] / width
        return scaled

    def _rank(self, part: Part, cols: Sequence[int], x: Vector) -> int:
        """Rank of the derivatives with respect to some values, in units of those at a general point."""
        if len(part.rows) > LARGEST:
            return len(part.rows)
        if not cols:
            return 0
        matrix = self._scaled(part, cols, x)
        if not np.isfinite(matrix).all():
            return len(part.rows)
        return int((np.linalg.svd(matrix, compute_uv=False) > RANK_LOST).sum())

    def _solved_for(self, part: Part, own: list[int], x: Vector) -> list[int]:
        """Values that the equations are solved for: as many as equations, the least wanted ones."""
        k = len(part.rows)
        if len(own) <= k:
            return own
        order = sorted(own, key=lambda j: -int(self._rank_in_wish[j]))
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
            found = _pivots(matrix / np.where(sizes > 0.0, sizes, 1.0)[:, None])
            if len(found) == k:
                break
        return sorted(order[at] for at in found)

    def _split(self, group: Group, cols: list[int]) -> tuple[list[_Block], list[int]]:
        """Blocks that are solved one after the other, and equations that must hold then."""
        key = (*group.rows, -1, *cols)
        if key in self._blocks:
            return self._blocks[key]
        part = self._part(group.rows)
        linear = part.is_linear(group.jets)
        if len(cols) == len(group.rows) and (linear or len(cols) == 1):
            self._blocks[key] = [_Block(part, np.array(cols, dtype=np.int64), linear)], []
            return self._blocks[key]
        checks, matched = self._unmatched(group.rows, cols)
        rows = [i for i, at in zip(group.rows, matched, strict=True) if at >= 0]
        own = [cols[int(at)] for at in matched if at >= 0]
        blocks: list[_Block] = []
        if rows:
            place = {j: at for at, j in enumerate(own)}
            whole = self._part(rows)
            pattern = [(i, place[j]) for i, j in whole.pattern + whole.switches if j in place]
            at, of = np.array(pattern, dtype=np.int64).T
            for block in find_blocks(at, of, np.arange(len(rows))):
                own_part = self._part([rows[i] for i in block.rows])
                columns = np.array([own[j] for j in block.cols], dtype=np.int64)
                blocks.append(_Block(own_part, columns, own_part.is_linear(columns.tolist())))
        self._blocks[key] = blocks, checks
        return self._blocks[key]

    # --- one block ------------------------------------------------------------------------------------------

    def _solutions(self, block: _Block, x: Vector, group: Group, chosen: Sequence[int]) -> list[Vector]:
        """All values x with those of a block replaced by a solution of it."""
        known = np.setdiff1d(block.part.depends, block.cols)
        key = x[known].tobytes()
        if key not in block.known:
            entered = [self.system.jet_names[j] for j in chosen if j in set(known.tolist())]
            found = self._solve(block, x, group.stage, entered)
            block.known[key] = self._all_turns(block, found, set(chosen))
        found = []
        for values in block.known[key]:
            new = x.copy()
            new[block.cols] = values
            found.append(new)
        return found

    def _solve(self, block: _Block, x: Vector, stage: int, chosen: list[str]) -> list[Vector]:
        names = self.system.row_names
        kind, reason, counts = "linear", "", {"paths": 0, "complex": 0, "lost": 0}
        found: list[Vector] = []
        if block.linear:
            found = self._linear(block, x)
        else:
            try:
                kind = "polynomial"
                found = self._by_homotopy(block, x, counts)
            except NotPolynomialError as why:
                kind, reason = "newton", str(why)
                found = self._by_newton(block, x)
        singular = 0 if block.linear else sum(self._is_singular(block, x, values) for values in found)
        key = tuple(block.part.rows), tuple(block.cols.tolist())
        before = self._records.get(key)
        made = SolvedBlock(
            stage=stage,
            equations=tuple(names[i] for i in block.part.rows),
            values=tuple(self.system.jet_names[j] for j in block.cols),
            chosen=tuple(chosen),
            kind=kind,
            reason=reason,
            times=1,
            real=len(found),
            singular=singular,
            **counts,
        )
        self._records[key] = made if before is None else before.and_again(made)
        if not found:
            self._failures.append((1, self._nothing_real(block, x, counts["complex"], kind)))
        return found

    def _all_turns(self, block: _Block, found: list[Vector], chosen: set[int]) -> list[Vector]:
        """Solutions of a block, with those that turns of its angles lead to."""
        for j, (rates, period) in block.moves.items():
            jet = int(block.cols[j])
            if jet not in self._moving:
                moving = {int(block.cols[i]): rate for i, rate in rates.items()}
                self._moving[jet] = self._turns(jet, moving, period, set(block.part.rows), chosen)
            turns, why = self._moving[jet]
            if found and why and why not in self.missing:
                self.missing.append(why)
            move = np.zeros(len(block.cols))
            move[list(rates)] = list(rates.values())
            found = [values + k * period * move for values in found for k in range(turns)]
            if len(found) > MOST_STARTS:
                text = f"more than {MOST_STARTS} starts by turns of {self.system.jet_names[jet]}"
                self.missing += [] if text in self.missing else [text]
                found = found[:MOST_STARTS]
        return found

    def _turns(
        self, jet: int, moving: dict[int, float], period: float, rows: set[int], held: set[int]
    ) -> tuple[int, str]:
        """How many turns of an angle are different starts, or why that is not known."""
        system, name = self.system, self.system.jet_names[jet]
        held = held | set(np.flatnonzero(self.given.fixed).tolist())
        try:
            moves = Turn(system, rows, held).follow(moving)
        except TurnError as why:
            return (
                1,
                f"whole turns of {name} lead to other starts, {why}; the nearest to its guess was taken",
            )
        found = moves.number(jet, period)
        if not 0 < found <= MOST_STARTS:
            return 1, (
                f"turns of {name} lead to other starts without end, as other values follow it by no simple "
                f"fraction; the nearest to its guess was taken"
            )
        self._symmetries[jet] = {j: rate * period * found for j, rate in moves.rates.items()}
        return found, ""

    def _is_singular(self, block: _Block, x: Vector, values: Vector) -> bool:
        whole = x.copy()
        whole[block.cols] = values
        return self._rank(block.part, block.cols.tolist(), whole) < len(block.part.rows)

    def _nothing_real(self, block: _Block, x: Vector, count: int, kind: str) -> str:
        what = listed([self.system.row_names[i] for i in block.part.rows])
        known = [j for j in np.setdiff1d(block.part.depends, block.cols).tolist()]
        held = [j for j in known if self.given.fixed[j]]
        shown = [f"{self.system.jet_names[j]} = {x[j]:.10g}" for j in (held or known)[:4]]
        at = f" with {', '.join(shown)}" if shown else ""
        many = {0: "and no complex one", 1: "but a complex one"}.get(count, f"but {count} complex ones")
        if kind != "polynomial":
            many = "from random starts" if kind == "newton" else "as it is singular or not defined"
        advice = "fix other values" if held else "give other guesses"
        return (
            f"{what} of {self.system.title}: no real solution at t={self.system.t:.6g}{at}, {many}; "
            f"{advice}, or check the equations"
        )

    def _linear(self, block: _Block, x: Vector) -> list[Vector]:
        """The solution of a linear block, polished as round-off demands."""
        whole = x.copy()
        for _ in range(2):
            rhs = -block.part.values(whole)
            if not np.isfinite(rhs).all():
                return []
            if len(rhs) > LARGEST:
                change = spsolve(block.part.jacobian(whole)[:, block.cols], rhs)
            else:
                matrix = block.part.dense(whole, block.cols.tolist())
                if not np.isfinite(matrix).all():
                    return []
                change = _least_step(matrix, rhs, 1e-13)
            whole[block.cols] += change
        fits = self._violation(block.part, whole) <= 10.0 * self.system.tolerance
        return [whole[block.cols]] if fits else []

    def _short_of_rank(self, group: Group, part: Part, own: list[int], start: _Start) -> list[_Start]:
        """What a linear group of too low a rank leaves: fewer values follow from it, or none can."""
        whole = start.x.copy()
        order = sorted(own, key=lambda j: -int(self._rank_in_wish[j]))
        matrix, rhs = self._scaled(part, order, whole), -part.values(whole)
        cols: list[int] = []
        if own and np.isfinite(matrix).all() and np.isfinite(rhs).all():
            cols = [order[at] for at in _pivots(matrix, (PIVOTS[0], RANK_LOST))]
            matrix = part.dense(whole, cols) * self.given.sizes[cols]
            whole[cols] += np.linalg.lstsq(matrix, rhs, rcond=None)[0] * self.given.sizes[cols]
        chosen = tuple(j for j in own if j not in cols)
        rank = self._rank(part, group.jets, whole)
        if rank == len(group.rows):  # only the values that are fixed make it short
            return [_Start(whole, chosen)] if self._holds(part, whole) else []
        fits = self._violation(part, whole) <= NEARLY
        told = self._told(group, whole, rank, "" if fits else "no solution there")
        if fits:
            return [_Start(whole, chosen, (told,))]
        self.singular.append(told)
        what = listed(told.equations)
        self._failures.append(
            (
                1,
                f"{what} of {self.system.title} have rank {rank} of {told.size} at t={self.system.t:.6g}, "
                "and no solution with the values found before; give other values",
            )
        )
        return []

    def _reader(self, block: _Block, x: Vector) -> Reader:
        system = self.system
        jets = [system.jets[j] for j in block.cols]
        return Reader(
            system.model.graph,
            block.part.roots,
            [Leaf("u", j, k) for j, k in jets],
            [system.jet_names[j] for j in block.cols],
            leaf_values(system, x),
        )

    def _by_homotopy(self, block: _Block, x: Vector, counts: dict[str, int]) -> list[Vector]:
        near = x[block.cols]
        branches = list(self._reader(block, x).branches())
        paths = sum(branch.paths for branch in branches if branch.constant is None)
        if paths > self.most_paths:
            raise NotPolynomialError(f"{paths} paths")
        found: list[Vector] = []
        doubtful = False
        for branch in branches:
            if branch.constant is not None:
                continue
            workers = self.workers if branch.paths >= FEW_PATHS else 1
            # In units of their scales, in which solutions near each other are told apart, however small.
            system, scales = branch.scaled
            roots = solve_polynomials(system, seed=self.seed, workers=workers, comm=self.comm)
            solutions = roots.solutions * scales
            sizes = branch.sizes(self.given.sizes[block.cols])
            defined = branch.defined(solutions)
            real = defined & roots.is_real
            counts["paths"] += roots.paths
            counts["lost"] += roots.failed
            counts["complex"] += int((defined & ~real).sum())
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
            # Solutions that fill a curve: any real point of it will do.
            found = self._by_newton(block, x, starts=0)
        return found

    def _polished(self, block: _Block, x: Vector, values: Vector, sizes: Vector) -> Vector | None:
        """A solution of the equations as they are written near one of the polynomials, or None."""
        part, whole = block.part, x.copy()
        whole[block.cols] = values
        best, least = values, self._violation(part, whole)
        if least > NEARLY:
            return None
        with np.errstate(all="ignore"):
            for _ in range(POLISHED):
                matrix = part.dense(whole, block.cols.tolist())
                rhs = -part.values(whole)
                if not (np.isfinite(matrix).all() and np.isfinite(rhs).all()):
                    break
                whole[block.cols] += _least_step(matrix, rhs, 1e-12)
                size = sizes + np.abs(values)
                moved = float(np.max(np.abs(whole[block.cols] - values) / size, initial=0.0))
                left = self._violation(part, whole)
                if moved > APART or left >= least:
                    break
                best, least = whole[block.cols].copy(), left
        return best if least <= 10.0 * self.system.tolerance else None

    def _separated(self, block: _Block, x: Vector, values: Vector, sizes: Vector) -> list[Vector]:
        """A solution, or the ones beside each other that it stands for, by arithmetic of many digits."""
        whole = x.copy()
        whole[block.cols] = values
        matrix = self._scaled(block.part, block.cols.tolist(), whole)
        if len(values) > MOST_DIGITS or not np.isfinite(matrix).all():
            return [values]
        _, sizes_of, right = np.linalg.svd(matrix)
        if sizes_of[-1] > NEARLY_SINGULAR:
            return [values]
        found: list[Vector] = []
        exact = ManyDigits(block.part, block.cols.tolist(), whole)
        for distance in DISTANCES:
            for sign in (1.0, -1.0):
                near = exact.solve(values + sign * distance * sizes * right[-1])
                if near is None or np.max(np.abs(near - values) / (sizes + np.abs(values))) > BESIDE:
                    continue
                if not any(self._is_one(block, x, near, other, sizes) for other in found):
                    found.append(near)
        return found if len(found) > 1 else [values]

    def _is_one(self, block: _Block, x: Vector, one: Vector, other: Vector, sizes: Vector) -> bool:
        """Whether two solutions are one: between them the equations hold but for rounding errors."""
        apart = float(np.max(np.abs(one - other) / (sizes + np.abs(one)), initial=0.0))
        if not ROUND_OFF < apart <= SAME:
            return apart <= SAME
        middle = x.copy()
        middle[block.cols] = 0.5 * (one + other)
        noise = 2.0 * np.finfo(float).eps * block.part.terms(middle)
        return bool((np.abs(block.part.values(middle)) <= noise).all())

    def _by_newton(self, block: _Block, x: Vector, starts: int | None = None) -> list[Vector]:
        part, cols, whole = block.part, block.cols, x.copy()
        units = self._reader(block, x).angles()
        block.moves = {j: ({j: 1.0}, 2.0 * math.pi / abs(unit)) for j, unit in units.items()}
        sizes = self.given.sizes[cols]

        def at(y: Vector) -> Vector:
            whole[cols] = y
            return whole

        found: list[Vector] = []
        for attempt in range(1 + (self.starts if starts is None else starts)):
            y = x[cols].copy()
            if attempt:
                spread = SPREADS[int(self._random.integers(len(SPREADS)))]
                y += spread * sizes * self._random.standard_normal(y.size)
            result = project(
                y,
                lambda y: part.values(at(y)),
                lambda y: part.dense(at(y), cols.tolist()),
                weights=1.0 / sizes,
                tolerance=self.system.tolerance,
                terms=lambda y: part.terms(at(y)),
                most_iterations=PATIENCE if attempt else MOST_ITERATIONS,
            )
            if not result.converged:
                continue
            values = result.x.copy()
            for j, unit in units.items():
                values[j] = float(nearest_angle(values[j], float(x[cols][j]), unit))
            if attempt == 0 or not self._is_singular(block, x, values):
                _add(found, values, sizes, APART)
            if len(found) == MOST_FOUND:
                break
        return found


def _add(found: list[Vector], values: Vector, sizes: Vector, apart: float) -> None:
    """Add a solution unless it is there."""
    size = sizes + np.abs(values)
    if all(float(np.max(np.abs(values - one) / size, initial=0.0)) > apart for one in found):
        found.append(values)


def _least_step(matrix: npt.NDArray[np.float64], rhs: Vector, least: float) -> Vector:
    """The shortest solution of linear equations, in units of the largest entries of rows and columns."""
    rows = np.abs(matrix).max(axis=1, initial=0.0)
    rows[rows == 0.0] = 1.0
    scaled = matrix / rows[:, None]
    columns = np.abs(scaled).max(axis=0, initial=0.0)
    columns[columns == 0.0] = 1.0
    found: Vector = np.linalg.lstsq(scaled / columns, rhs / rows, rcond=least)[0] / columns
    return found


def _pivots(matrix: npt.NDArray[np.float64], least: Sequence[float] = PIVOTS) -> list[int]:
    """Columns, the first ones as far as possible, that are a basis of all."""
    basis = np.zeros((0, matrix.shape[0]))
    found: list[int] = []
    for size in least:
        for at in range(matrix.shape[1]):
            if len(found) == matrix.shape[0]:
                return found
            if at in found:
                continue
            rest = matrix[:, at] - basis.T @ (basis @ matrix[:, at])
            rest -= basis.T @ (basis @ rest)
            left = float(np.linalg.norm(rest))
            if left > size:
                basis = np.vstack([basis, rest / left])
                found.append(at)
    return found
