"""What is found of consistent initial values, and how it is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.initial.projection import TERM_ROUND_OFF
from dae_sdc.structure.signature import brief

REPORTED_CHANGE = 1e-9
"""Change of a value, in units of its size, that is reported."""

MOST_BLOCK_LINES = 12
"""Blocks up to which each has a line."""

MOST_LINES = 60
"""Lines of one kind that are printed."""


@dataclass(frozen=True)
class Change:
    """A given value that had to be changed.

    Parameters
    ----------
    name : str
        Its name.
    before, after : float
        The value that was given, and the one that was found.
    """

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
    """A block of equations that was solved for all of its solutions.

    Parameters
    ----------
    stage : int
        k of the block :math:`B_k` of the solution scheme that it belongs to.
    equations, values : tuple of str
        Names of equations, and of what they were solved for.
    chosen : tuple of str
        Guesses that the equations contain and that were taken as they are.
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
    times: int = 1
    paths: int = 0
    complex: int = 0
    real: int = 0
    singular: int = 0
    lost: int = 0

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


@dataclass(frozen=True, eq=False)
class Initial:
    """Consistent initial values.

    Parameters
    ----------
    title : str
        Name of the equations.
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
        Further remarks, a sentence each.
    blocks : tuple of SolvedBlock
        Blocks in the order in which they were solved, where every solution was looked for.
    singular : tuple of SingularStart
        Where every solution was looked for: values at which a block has not its full rank.
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


def _differs(name: str, solutions: Sequence[Mapping[str, float]]) -> bool:
    values = [one[name] for one in solutions]
    noise = TERM_ROUND_OFF * max(abs(value) for value in solutions[0].values())
    return max(values) - min(values) > REPORTED_CHANGE * max(map(abs, values)) + noise


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in quotation marks, the first ones if there are many."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
