"""Solution sets of the blocks of a model with all free values left free, and their singular points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dae_sdc.initial.jets import Group, ModelJets, Part, groups_of
from dae_sdc.initial.systems import NotPolynomialError, Polynomials, reader_of
from dae_sdc.polynomials.singular_points import SingularPoints, singular_points
from dae_sdc.polynomials.witness import Decomposition, decompose
from dae_sdc.text import brief

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


def _needed(groups: Sequence[Group], group: Group, parts: Sequence[Part], known: Sequence[int]) -> list[int]:
    """Numbers of the equations of a group, and of all groups before it on whose values it depends."""
    owner = {j: number for number, one in enumerate(groups) for j in one.jets}
    wanted, seen = list(group.rows), {id(group)}
    stack = [group]
    while stack:
        current = stack.pop()
        taken = {owner[int(j)] for i in current.rows for j in parts[i].depends if int(j) not in known}
        for number in taken:
            other = groups[number]
            if id(other) not in seen:
                seen.add(id(other))
                stack.append(other)
                wanted += other.rows
    return sorted(wanted)


def solution_sets(
    system: ModelJets, fixed: Mapping[int, float], seed: int = 0, workers: int = 1
) -> tuple[SolutionSet, ...]:
    """The solution sets of all blocks that are not linear, with values of ``fixed`` by number put in."""
    groups = groups_of(system)
    parts = [Part(system, [i]) for i in range(len(system.roots))]
    x = np.zeros(len(system.jets))
    x[list(fixed)] = list(fixed.values())
    found: list[SolutionSet] = []
    for group in groups:
        own = [j for j in group.jets if j not in fixed]
        if not group.rows or all(parts[i].is_linear(own) for i in group.rows):
            continue
        rows = _needed(groups, group, parts, list(fixed))
        cols = sorted({int(j) for i in rows for j in parts[i].depends} - set(fixed))
        names = tuple(system.jet_names[j] for j in cols)
        equations = tuple(system.row_names[i] for i in rows)
        said: dict[str, Any] = {"stage": group.stage, "equations": equations}
        try:
            branches = list(
                reader_of(system, [system.roots[i] for i in rows], cols, x).branches(isolated=False)
            )
        except NotPolynomialError as why:
            found.append(SolutionSet(**said, variables=names, reason=f"no polynomials: {why}"))
            continue
        known = [branch for branch in branches if branch.constant is None]
        found += [_decomposed(branch, names, said, seed, workers) for branch in known]
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
