"""Records of consistent initial values, and their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dae_sdc.dae.projection import TERM_ROUND_OFF
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.registry import unknown
from dae_sdc.text import brief

REPORTED_CHANGE = 1e-9  # Smallest change of a value, in units of its size, that is reported.
MOST_BLOCK_LINES = 12  # Largest number of blocks that are printed with a line each.
MOST_LINES = 60  # Largest number of lines of one kind that are printed.
NOT_SOUGHT = "other solutions were not looked for"  # Remark on a start that may not be the only one.


@dataclass(frozen=True)
class Change:
    """A given value that had to be changed."""

    name: str  # Name of the unknown or derivative.
    # before, after: the given value and the new one.
    before: float
    after: float


@dataclass(frozen=True)
class Violation:
    """An equation that the given values violate."""

    equation: str  # Name of the equation.
    # residual, scale: its residual, and the size of its terms.
    residual: float
    scale: float
    order: int = 0  # Number of its differentiations; 0 for an equation of the user.


@dataclass(frozen=True)
class SolvedBlock:
    """A block of equations that was solved for all of its solutions."""

    stage: int  # k of the block :math:`B_k` of the solution scheme to which it belongs.
    # equations, values: names of the equations, and of the values for which they were solved.
    equations: tuple[str, ...]
    values: tuple[str, ...]
    chosen: tuple[str, ...]  # Names of values in the equations that were taken from the guesses.
    # "linear"; "polynomial", solved by homotopy continuation for all isolated solutions; or "newton",
    # solved from random starts, which may miss some.
    kind: str
    reason: str  # Why the block is not polynomial.
    times: int = 1  # Number of solutions of the blocks before for which it was solved.
    # paths, complex, real, singular, lost: numbers of paths of the homotopy, of solutions that are not
    # real, of real ones, of real ones with a singular Jacobian, and of lost paths; sums over all times.
    paths: int = 0
    complex: int = 0
    real: int = 0
    singular: int = 0
    lost: int = 0

    def and_again(self, other: SolvedBlock) -> SolvedBlock:
        """The record after the block was solved once more, with the sums of both records."""
        summed = ("times", "paths", "complex", "real", "singular", "lost")
        counts = {name: getattr(self, name) + getattr(other, name) for name in summed}
        kind, reason = (other.kind, other.reason) if other.kind == "newton" else (self.kind, self.reason)
        return replace(self, kind=kind, reason=reason, **counts)

    def __str__(self) -> str:
        given = f" with {brief(self.chosen)} as guessed" if self.chosen else ""
        parts = [self.kind + (f" ({self.reason})" if self.reason else "")]
        parts += [f"{self.times} times"] if self.times > 1 else []
        if self.kind == "polynomial":
            parts += [f"{self.paths} paths", f"{self.complex} complex"]
        parts.append(f"{self.real} real")
        parts += [f"{self.singular} of them singular"] if self.singular else []
        parts += [f"{self.lost} paths lost"] if self.lost else []
        return f"B_{self.stage}: {brief(self.equations)} -> {brief(self.values)}{given}: {', '.join(parts)}"


@dataclass(frozen=True)
class SingularStart:
    """Values at which the equations of a block are rank-deficient."""

    stage: int  # k of the block :math:`B_k`.
    equations: tuple[str, ...]  # Names of its equations.
    # rank, size: rank of their Jacobian with respect to the values of the block, and number of equations.
    rank: int
    size: int
    values: Mapping[str, float]  # The known values in the equations, by name.
    # Why there is no start with these values; empty if there is one, of which derivatives may not be
    # determined.
    ended: str = ""

    def __str__(self) -> str:
        shown = ", ".join(f"{name} = {value:.10g}" for name, value in list(self.values.items())[:8])
        end = f"; {self.ended}" if self.ended else ""
        return f"B_{self.stage} ({brief(self.equations)}): rank {self.rank} of {self.size} at {shown}{end}"


@dataclass(frozen=True, eq=False)
class Initial:
    """Consistent initial values, and how they were found.

    Returned by :func:`initial`, whose example shows it.

    Parameters
    ----------
    title : str
        Name of the model or problem.
    t : float
        Time.
    names, units : tuple of str
        Names and units of the unknowns of the state.
    u, du : ndarray, shape (n,)
        State and its derivative; NaN where a derivative is not determined.
    values : mapping of str to float
        All values that were found, of unknowns and derivatives, by name.
    fixed : tuple of str
        Names of values that the user fixed.
    changed : tuple of Change
        Given values that were changed.
    violated : tuple of Violation
        Equations, hidden constraints included, that the given values violate for all other values.
    free : tuple of str
        Names of values that, with the fixed ones, determine all others.
    guessed : tuple of str
        Those of ``free`` for which nothing was given.
    solutions : tuple of mapping of str to float
        All solutions found with the same free values, beginning with ``values``.
    remarks : tuple of str
        Further remarks, a sentence each.
    ways : tuple of str
        What led to values where Newton's method from the guesses does not.
    blocks : tuple of SolvedBlock
        Blocks in the order in which they were solved, if every solution was sought.
    singular : tuple of SingularStart
        Values at which a block is rank-deficient, if every solution was sought.
    unique : bool
        Whether all given values were kept, and all others follow from them by equations with one solution.
    complete : bool or None
        If every solution was sought, whether there are certainly no more than ``solutions``, up to whole
        turns of angles; ``remarks`` say why not. None otherwise.
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
    ways: tuple[str, ...] = ()
    blocks: tuple[SolvedBlock, ...] = ()
    singular: tuple[SingularStart, ...] = ()
    unique: bool = False
    complete: bool | None = None

    def __getitem__(self, name: str) -> float:
        """``start["x"]``: the value of an unknown or of a derivative, "der(x)".

        Raises
        ------
        InputError
            If there is no such value.
        """
        if str(name) in self.values:
            return self.values[str(name)]
        raise InputError(unknown("name", str(name), self.values))

    def __str__(self) -> str:
        before = {change.name: change.before for change in self.changed}
        width = max(map(len, self.names))
        lines = [f"{self.title} at t = {self.t:g}"]
        rows = list(zip(self.names, self.units, self.u, self.du, strict=True))
        for name, unit, value, slope in rows[:MOST_LINES]:
            said = ["fixed"] if name in self.fixed else []
            said += [f"was {before[name] + 0.0:.10g}"] if name in before else []
            said += ["free"] if name in self.free else []
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
            least = TERM_ROUND_OFF * max(map(abs, first.values()))
            values = {name: [one[name] for one in self.solutions] for name in first}
            differ = ((name, max(of) - min(of), max(map(abs, of))) for name, of in values.items())
            told = [name for name, apart, size in differ if apart > REPORTED_CHANGE * size + least]
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
    """A line for each block; if there are many blocks, the linear ones of a stage share one line."""
    if len(blocks) <= MOST_BLOCK_LINES:
        return [str(block) for block in blocks]
    lines = [str(block) for block in blocks if block.kind != "linear"][:MOST_LINES]
    for stage in sorted({block.stage for block in blocks}):
        sizes = [len(block.equations) for block in blocks if (block.stage, block.kind) == (stage, "linear")]
        if sizes:
            lines.append(f"B_{stage}: {len(sizes)} linear blocks, the largest of {max(sizes)} equations")
    return lines


def _more(total: int, what: str) -> list[str]:
    return [f"  ... and {total - MOST_LINES} more {what}"] if total > MOST_LINES else []


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in quotation marks, the first ones if there are many."""
    return brief([f"'{name}'" for name in names], most)
