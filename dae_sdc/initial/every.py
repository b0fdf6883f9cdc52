"""All consistent initial values of a model, block by block, and the solution sets of its blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError, InconsistentStateError
from dae_sdc.initial.block_solutions import BLOCKS, Block, BlockOptions, BlockSolver, Plan, put
from dae_sdc.initial.consistent import SingularStart, SolvedBlock, listed
from dae_sdc.initial.jets import Group, ModelJets, Part, groups_of
from dae_sdc.initial.solver import PIVOT_SIZES, SEARCH, Distance, Given, pivots
from dae_sdc.initial.systems import (
    LARGEST_MULTIPLE,
    TRIGONOMETRIC,
    NotPolynomialError,
    Polynomials,
    Reader,
)
from dae_sdc.jets.graph import leaf_values
from dae_sdc.polynomials.singular_points import SingularPoints, singular_points
from dae_sdc.polynomials.witness import Decomposition, decompose
from dae_sdc.text import brief

VANISHING_RATE = 1e-12  # Rate of a sum, relative to its terms, up to which it is 0.
FRACTION_TOLERANCE = 1e-9  # Largest difference of a ratio from a simple fraction, relative to the ratio or 1.
MOST_TRIES = 200  # Largest number of equations that are examined for values that change with an angle.


class TurnError(DAEError):
    """No change of values with an angle keeps all equations satisfied; the text gives the reason."""


@dataclass(frozen=True)
class Moves:
    """Values that change together such that equations change only in sines, cosines and tangents."""

    rates: Mapping[int, float]  # Rates of change, by number of the value.
    factors: tuple[float, ...]  # Rates of change of the arguments of sines, cosines and tangents.

    def number(self, jet: int, period: float) -> int:
        """Number of periods after which all arguments have made whole turns; 0 if they never do."""
        turn = 2.0 * math.pi
        whole = _fraction(self.rates[jet] * period / turn)
        # The unit of the angle is that of its own sine.
        unit = turn if whole is not None else self.rates[jet] * period
        ratios = [factor * period / turn for factor in self.factors]
        ratios += [rate * period / unit for rate in self.rates.values()]
        found = [_fraction(ratio) for ratio in ratios]
        if any(ratio is None for ratio in found):
            return 0
        return math.lcm(*(ratio.denominator for ratio in found if ratio is not None))


def _fraction(ratio: float) -> Fraction | None:
    found = Fraction(ratio).limit_denominator(LARGEST_MULTIPLE)
    return found if abs(float(found) - ratio) <= FRACTION_TOLERANCE * max(1.0, abs(ratio)) else None


class Turn:
    """Search for the values that must change with an angle."""

    def __init__(self, system: ModelJets, own: set[int], held: set[int]) -> None:
        self.system, self.held = system, held
        self._nodes, jets_of, place = system.part(None).nodes, system.model.graph.jets_of, system.place
        self._rows = [i for i in range(len(self._nodes)) if i not in own]
        self._jets = {i: {place[jet] for jet in jets_of(self._nodes[i]) if jet in place} for i in self._rows}
        self._value = leaf_values(system.place, system.known, np.zeros(len(system.jets)))
        self._tries = 0

    def follow(self, moving: Mapping[int, float]) -> Moves:
        """All values that change with some; raises TurnError if no change satisfies all equations."""
        self._tries += 1
        if self._tries > MOST_TRIES:
            raise TurnError("as too many values follow")
        factors: list[float] = []
        for i in self._rows:
            if not self._jets[i] & moving.keys():
                continue
            slopes: list[dict[int, float]] = []
            straight = self._linear(self._nodes[i], frozenset(moving), slopes)
            parts = [straight.get(j, 0.0) * rate for j, rate in moving.items()]
            left = math.fsum(parts)
            if abs(left) > VANISHING_RATE * max(map(abs, parts), default=0.0):
                return self._with_more(i, left, moving)
            factors += [sum(slope * moving[j] for j, slope in one.items()) for one in slopes]
        for j in moving:
            if self.system.jets[j][1]:
                raise TurnError(f"as {self.system.jet_names[j]} follows it")
        return Moves(dict(moving), tuple(factors))

    def _with_more(self, row: int, left: float, moving: Mapping[int, float]) -> Moves:
        """The moves with one more value, which an equation determines."""
        name = self.system.row_names[row]
        reason = TurnError(f"as '{name}' contains it outside of sine and cosine")
        # Values of later stages are tried first, because they depend on earlier ones.
        for j in sorted(self._jets[row] - moving.keys() - self.held, reverse=True):
            try:
                slope = self._linear(self._nodes[row], frozenset([j]), []).get(j, 0.0)
                if slope:
                    return self.follow({**moving, j: -left / slope})
            except TurnError as error:
                reason = error
        raise reason

    def _linear(self, node: int, moving: frozenset[int], turned: list[dict[int, float]]) -> dict[int, float]:
        """Factors of values in an expression outside of sines; arguments of sines are added to ``turned``."""
        graph, sines = self.system.model.graph, dict[int, int]()
        for part in graph.below([node]):
            if graph.op[part] in TRIGONOMETRIC:
                factors = self._factors(graph.operands(part)[0], moving)
                turned += [factors] if any(factors.values()) else []
                # A value of its own, so that it is seen where it is a factor.
                sines[part] = graph.variable(len(self.system.model.names) + len(sines), 0)
        (outside,) = graph.substitute([node], sines)
        return self._factors(outside, moving)

    def _factors(self, node: int, moving: frozenset[int]) -> dict[int, float]:
        """Factors of values in an expression that is linear in them."""
        graph, place = self.system.model.graph, self.system.place
        slopes = {place.get(jet, -1): slope for jet, slope in graph.slopes(node).items()}
        own = {j: slope for j, slope in slopes.items() if j in moving}
        if graph.jets_of(*own.values()):
            raise TurnError("as it occurs outside of sine and cosine in an equation that is not linear in it")
        found = graph.numeric(list(own.values()), self._value).tolist()
        if not all(map(math.isfinite, found)):
            raise TurnError("as it occurs with a factor that is not finite")
        return dict(zip(own, found, strict=True))


MOST_STARTS = 128  # Largest number of solutions kept from block to block: those nearest to the guesses.


@dataclass(frozen=True, eq=False)
class _Start:
    """Values that satisfy the blocks solved so far; numbers of those taken from guesses; singular blocks."""

    x: Vector
    chosen: tuple[int, ...] = ()
    singular: tuple[SingularStart, ...] = ()


class EveryStart:
    """Search for all values at which the equations of a model and its hidden constraints hold."""

    def __init__(
        self, system: ModelJets, given: Given, preference: Sequence[int], options: BlockOptions
    ) -> None:
        self.system, self.given = system, given
        self.missing: list[str] = []
        self.singular: list[SingularStart] = []
        self.remarks: list[str] = []
        random = np.random.default_rng(options.seed)
        self._plan = Plan(system, given, preference, random)
        self._solver = BlockSolver(self._plan, options, random)
        self._records: dict[tuple[tuple[int, ...], tuple[int, ...]], SolvedBlock] = {}
        self._expanded: dict[tuple[tuple[int, ...], bytes], list[_Start]] = {}
        self._failures: list[tuple[int, str]] = []
        self._symmetries: dict[int, dict[int, float]] = {}
        self._moving: dict[int, tuple[int, str]] = {}

    def solve(self) -> list[_Start]:
        """All solutions, those nearest to the given values first; raises InconsistentStateError for none."""
        starts = [_Start(self.given.point.copy())]
        for group in self._plan.groups():
            self._failures = []
            found = [new for start in starts for new in self._expand(group, start)]
            if not found:
                self._refuse()
            starts = self._kept(found)
        for start, shift in product(starts, self._symmetries.values()):
            # Angles, and values that depend on them, are turned to be nearest to their guesses.
            jets, by = list(shift), np.array(list(shift.values())) * self.given.weights[list(shift)]
            away = (start.x[jets] - self.given.point[jets]) * self.given.weights[jets]
            times = -float(np.round(by @ away / (by @ by)))
            start.x[jets] += times * np.array(list(shift.values()))
        starts = [start for start in starts if self.system.holds_added(start.x)]
        if not starts:
            self._failures = []
            self._refuse()
        return sorted(starts, key=self._distance)

    @property
    def blocks(self) -> tuple[SolvedBlock, ...]:
        """The blocks that were solved, in order."""
        return tuple(self._records.values())

    @property
    def complete(self) -> bool:
        """Whether certainly all solutions were found, up to whole turns of angles."""
        certain = (block.kind != "newton" and not block.lost for block in self.blocks)
        return not self.missing and all(certain)

    def _distance(self, start: _Start) -> Distance:
        return self.given.distance(start.x, self.system.stages)

    def _kept(self, starts: list[_Start]) -> list[_Start]:
        if len(starts) <= MOST_STARTS:
            return starts
        text = f"more than {MOST_STARTS} starts; those nearest to the guesses were kept"
        self.remarks += [] if text in self.remarks else [text]
        return sorted(starts, key=self._distance)[:MOST_STARTS]

    def _expand(self, group: Group, start: _Start) -> list[_Start]:
        """All starts that extend one by solutions of the equations of a group."""
        own = self._plan.open(group)
        known = np.setdiff1d(self.system.rows(group.rows).depends, own)
        key = tuple(group.jets), start.x[known].tobytes()
        if key not in self._expanded:
            solutions = self._solved(group, own, _Start(start.x))
            self._expanded[key] = [replace(one, x=one.x[own]) for one in solutions]
        if not self._expanded[key]:
            self.singular += start.singular
        return [
            _Start(put(start.x, own, one.x), start.chosen + one.chosen, start.singular + one.singular)
            for one in self._expanded[key]
        ]

    def _solved(self, group: Group, own: list[int], start: _Start) -> list[_Start]:
        if not group.rows:
            return [_Start(start.x, tuple(own))]
        part = self.system.rows(group.rows)
        linear = part.is_linear(group.jets)
        if linear and self._plan.rank(part, own, start.x) < len(group.rows):
            return self._short_of_rank(group, part, own, start)
        cols = self._plan.solved_for(part, own, start.x)
        blocks, checks = self._plan.split(group, cols)
        solved = {int(j) for block in blocks for j in block.cols}
        chosen = tuple(j for j in own if j not in solved)
        found = [_Start(start.x, chosen)]
        for block in blocks:
            new = [_Start(x, chosen) for one in found for x in self._solutions(block, one.x, group, chosen)]
            found = self._kept(new)
        if checks:
            found = [one for one in found if self._holds(self.system.rows(checks), one.x)]
        if linear:
            return found
        ranks = [self._plan.rank(part, group.jets, one.x) for one in found]
        full = len(group.rows)
        return [
            _Start(one.x, chosen, () if rank == full else (self._told(group, one.x, rank, ""),))
            for one, rank in zip(found, ranks, strict=True)
        ]

    def _told(self, group: Group, x: Vector, rank: int, ended: str) -> SingularStart:
        names = self.system.jet_names
        wanted = set(self.system.rows(group.rows).depends.tolist())
        wanted = wanted - set(group.jets) if ended else wanted | set(group.jets)
        return SingularStart(
            stage=group.stage,
            equations=tuple(self.system.row_names[i] for i in group.rows),
            rank=rank,
            size=len(group.rows),
            values={names[j]: float(x[j]) for j in sorted(wanted)},
            ended=ended,
        )

    def _holds(self, part: Part, x: Vector) -> bool:
        if self._plan.violation(part, x) <= 10.0 * self.system.tolerance:
            return True
        held = [self.system.jet_names[j] for j in part.depends if self.given.fixed[j]]
        found = part.values(x)
        worst = int(np.argmax(np.abs(found))) if np.isfinite(found).all() else 0
        name = self.system.row_names[part.rows[worst]]
        left = f"'{name}' is left with {found[worst]:.2g}"
        what = listed([self.system.row_names[i] for i in part.rows])
        why = (
            f"the fixed values {listed(held)} of {self.system.title} contradict {what} at "
            f"t={self.system.t:.6g}: {left}; leave one of them free"
            if held
            else f"{what} of {self.system.title} cannot hold at t={self.system.t:.6g} with what the "
            f"other equations say: {left}; check the equations"
        )
        self._failures.append((2, why))
        return False

    def _refuse(self) -> None:
        if self._failures:
            raise InconsistentStateError(max(self._failures, key=lambda failure: failure[0])[1])
        raise InconsistentStateError(
            f"found no values at which the equations of {self.system.title} hold at t={self.system.t:.6g}; "
            f"give other guesses, or check the equations"
        )

    # --- one block ------------------------------------------------------------------------------------------

    def _solutions(self, block: Block, x: Vector, group: Group, chosen: Sequence[int]) -> list[Vector]:
        """Copies of all values x, each with a solution of a block."""
        known = np.setdiff1d(block.part.depends, block.cols)
        key = x[known].tobytes()
        if key not in block.known:
            entered = [self.system.jet_names[j] for j in chosen if j in set(known.tolist())]
            told, found = self._solver.solve(block, x, group.stage, entered)
            place = tuple(block.part.rows), tuple(block.cols.tolist())
            before = self._records.get(place)
            self._records[place] = told if before is None else before.and_again(told)
            if not found:
                self._failures.append((1, self._nothing_real(block, x, told.complex, told.kind)))
            block.known[key] = self._all_turns(block, found, set(chosen))
        return [put(x, block.cols, values) for values in block.known[key]]

    def _all_turns(self, block: Block, found: list[Vector], chosen: set[int]) -> list[Vector]:
        """Solutions of a block, with those that differ by turns of its angles."""
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
        """Number of turns of an angle that are different starts, and why it is not known, if so."""
        system, name = self.system, self.system.jet_names[jet]
        held = held | set(np.flatnonzero(self.given.fixed).tolist())
        try:
            moves = Turn(system, rows, held).follow(moving)
        except TurnError as why:
            return 1, f"whole turns of {name} lead to other starts, {why}; the nearest to its guess was taken"
        found = moves.number(jet, period)
        if not 0 < found <= MOST_STARTS:
            return 1, (
                f"turns of {name} lead to other starts without end, as other values follow it by no simple "
                f"fraction; the nearest to its guess was taken"
            )
        self._symmetries[jet] = {j: rate * period * found for j, rate in moves.rates.items()}
        return found, ""

    def _nothing_real(self, block: Block, x: Vector, count: int, kind: str) -> str:
        what = listed([self.system.row_names[i] for i in block.part.rows])
        known = np.setdiff1d(block.part.depends, block.cols).tolist()
        held = [j for j in known if self.given.fixed[j]]
        shown = [f"{self.system.jet_names[j]} = {x[j]:.10g}" for j in (held or known)[:4]]
        at = f" with {', '.join(shown)}" if shown else ""
        many = {0: "and no complex one", 1: "but a complex one"}.get(count, f"but {count} complex ones")
        if self._solver.outside:
            many = f"but {self._solver.outside} outside the bounds"
        elif kind != "polynomial":
            many = "from random starts" if kind == "newton" else "as it is singular or not defined"
        advice = "fix other values" if held else "give other guesses"
        return (
            f"{what} of {self.system.title}: no real solution at t={self.system.t:.6g}{at}, {many}; "
            f"{advice}, or check the equations"
        )

    def _short_of_rank(self, group: Group, part: Part, own: list[int], start: _Start) -> list[_Start]:
        """The starts after a rank-deficient linear group, which has many solutions or none."""
        whole = start.x.copy()
        order = self._plan.least_wanted(own)
        matrix, rhs = self._plan.scaled(part, order, whole), -part.values(whole)
        cols: list[int] = []
        if own and np.isfinite(matrix).all() and np.isfinite(rhs).all():
            cols = [order[at] for at in pivots(matrix, (PIVOT_SIZES[0], SEARCH.vanishing_singular_value))]
            matrix = part.dense(whole, cols) * self.given.sizes[cols]
            whole[cols] += np.linalg.lstsq(matrix, rhs, rcond=None)[0] * self.given.sizes[cols]
        chosen = tuple(j for j in own if j not in cols)
        rank = self._plan.rank(part, group.jets, whole)
        if rank == len(group.rows):  # only fixed values make it rank-deficient
            return [_Start(whole, chosen)] if self._holds(part, whole) else []
        fits = self._plan.violation(part, whole) <= BLOCKS.residual_tolerance
        told = self._told(group, whole, rank, "" if fits else "no solution there")
        if fits:
            return [_Start(whole, chosen, (told,))]
        self.singular.append(told)
        what = listed(told.equations)
        why = (
            f"{what} of {self.system.title} have rank {rank} of {told.size} at t={self.system.t:.6g}, "
            "and no solution with the values found before; give other values"
        )
        self._failures.append((1, why))
        return []


MOST_VARIABLES = 16  # Largest number of variables of a block whose solution set is decomposed.
# Largest product of the degrees of the polynomials of a block whose solution set is decomposed.
MOST_DECOMPOSED_PATHS = 128
# Largest product of the degrees, times 2 for each variable, for which singular points are sought.
MOST_SINGULAR = 512
MOST_POINTS_SHOWN = 20  # Largest number of points that are printed.


@dataclass(frozen=True, eq=False)
class SolutionSet:
    """All complex solutions of a nonlinear block, with its free values left free."""

    stage: int  # k of the block :math:`B_k` of the solution scheme.
    # Names of its equations, and of those of other blocks on whose values it depends.
    equations: tuple[str, ...]
    variables: tuple[str, ...]  # Variables of the polynomials; of an angle x these are cos(x) and sin(x).
    reason: str = ""  # Why the set was not decomposed; empty if it was.
    decomposition: Decomposition | None = None  # The irreducible components, in these variables.
    # Isolated points where the rank of the Jacobian of the polynomials is lower than at nearby solutions;
    # None if that would take too long.
    singular: SingularPoints | None = None
    # The real singular points, by the names of variables and angles.
    points: tuple[Mapping[str, float], ...] = ()
    ranks: tuple[int, ...] = ()  # The rank at each of ``points``.

    def __str__(self) -> str:
        lines = [f"B_{self.stage}: {brief(self.equations)}"]
        if self.decomposition is None:
            return f"{lines[0]}\n  not decomposed: {self.reason}"
        lines.append(f"  polynomials in {', '.join(self.variables)}")
        lines += [f"  {line}" for line in str(self.decomposition).splitlines()]
        if self.singular is None:
            return "\n".join([*lines, "  singular points were not looked for: too many paths"])
        count, real = len(self.singular.points), len(self.points)
        lines.append(
            f"  {count} singular {'point' if count == 1 else 'points'}, {real} real; "
            f"the rank elsewhere is {self.singular.generic_rank}"
        )
        for point, rank in list(zip(self.points, self.ranks, strict=True))[:MOST_POINTS_SHOWN]:
            shown = ", ".join(f"{name} = {round(value, 8) + 0.0:.6g}" for name, value in point.items())
            lines.append(f"    rank {rank} at {shown}")
        lines += [f"  a set of singular points of dimension {size}" for size in self.singular.sets]
        if self.singular.failed:
            lines.append(f"  {self.singular.failed} paths were lost: some singular points may be missing")
        return "\n".join(lines)


def _needed(system: ModelJets, owner: Mapping[int, Group], group: Group) -> list[int]:
    """Numbers of the equations of a group, and of all that own values on which it depends."""
    wanted, stack = {group}, [group]
    while stack:
        depends = system.rows(stack.pop().rows).depends.tolist()
        further = {owner[j] for j in depends if j in owner} - wanted
        wanted |= further
        stack += further
    return sorted(row for one in wanted for row in one.rows)


def solution_sets(
    system: ModelJets, fixed: Mapping[int, float], seed: int = 0, workers: int = 1
) -> tuple[SolutionSet, ...]:
    """The solution sets of all blocks that are not linear, with values of ``fixed`` by number put in."""
    groups = groups_of(system)
    owner = {j: group for group in groups for j in group.jets if j not in fixed}
    x = np.zeros(len(system.jets))
    x[list(fixed)] = list(fixed.values())
    found: list[SolutionSet] = []
    for group in groups:
        own = [j for j in group.jets if j not in fixed]
        if not group.rows or system.rows(group.rows).is_linear(own):
            continue
        rows = _needed(system, owner, group)
        part = system.rows(rows)
        cols = [j for j in part.depends.tolist() if j not in fixed]
        names = tuple(system.jet_names[j] for j in cols)
        equations = tuple(system.row_names[i] for i in rows)
        said: dict[str, Any] = {"stage": group.stage, "equations": equations}
        try:
            branches = list(Reader(system, part.nodes, cols, x).branches(isolated=False))
        except NotPolynomialError as why:
            found.append(SolutionSet(**said, variables=names, reason=f"no polynomials: {why}"))
            continue
        found += [_decomposed(branch, names, said, seed, workers) for branch in branches]
    return tuple(found)


def _decomposed(
    branch: Polynomials, names: tuple[str, ...], about: Mapping[str, Any], seed: int, workers: int
) -> SolutionSet:
    said = {**about, "variables": branch.names}
    if branch.system.variables > MOST_VARIABLES:
        many = branch.system.variables
        return SolutionSet(**said, reason=f"{many} variables, where {MOST_VARIABLES} are the most")
    if branch.paths > MOST_DECOMPOSED_PATHS:
        return SolutionSet(**said, reason=f"{branch.paths} paths, where {MOST_DECOMPOSED_PATHS} are the most")
    parts = decompose(branch.system, seed=seed, workers=workers)
    if branch.paths * 2**branch.system.variables > MOST_SINGULAR:
        return SolutionSet(**said, decomposition=parts)
    singular = singular_points(branch.system, seed=seed, decomposition=parts)
    real = np.asarray(singular.real, dtype=np.float64).reshape(-1, branch.system.variables)
    values = branch.unknowns(real, np.zeros(len(names)))
    points = []
    for point, own in zip(real, values, strict=True):
        told = dict(zip(branch.names, point.tolist(), strict=True))
        told |= {names[j]: float(own[j]) for j in sorted({*branch.units, *branch.sums})}
        points.append(told)
    ranks = tuple(singular.ranks[singular.is_real].tolist())
    return SolutionSet(**said, decomposition=parts, singular=singular, points=tuple(points), ranks=ranks)
