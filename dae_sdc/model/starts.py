"""Start values and bounds of removed unknowns, moved to the kept unknowns that replace them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from dae_sdc.errors import InputError
from dae_sdc.expressions.names import name_of
from dae_sdc.model.constants import Constants
from dae_sdc.model.model import Model

START_TOLERANCE: Final = 1e-9
"""Difference of two start values, relative to the larger one or 1, up to which they are equal."""


class Relation(NamedTuple):
    """An unknown as ``factor`` times derivative ``order`` of unknown ``of``, plus ``offset``.

    Factor and offset are nodes; a constant has the factor 0.
    """

    of: int
    factor: int
    order: int
    offset: int


class Start(NamedTuple):
    """A start value, whether it is fixed, and the name of the user's unknown that it was given for."""

    value: float
    fixed: bool
    name: str


def agree(a: float, b: float) -> bool:
    """Whether two start values are equal up to :data:`START_TOLERANCE`."""
    return abs(a - b) <= START_TOLERANCE * max(1.0, abs(a), abs(b))


class Starts:
    """Start values and bounds of all unknowns of a model, moved to the kept unknowns."""

    def __init__(self, model: Model, final: Sequence[Relation], constants: Constants) -> None:
        self.model, self.final, self.constants = model, final, constants
        self.found: dict[int, dict[int, Start]] = {}
        self.limits: dict[int, tuple[tuple[float, str] | None, tuple[float, str] | None]] = {}
        for j, relation in enumerate(final):
            self._move(j, relation)
        for j, relation in enumerate(final):
            if relation.factor != model.graph.zero and not relation.order:
                self._bound(j, relation)

    def bounds(self, j: int) -> tuple[float | None, float | None]:
        """Lower and upper bound of kept unknown j."""
        low, high = self.limits.get(j, (None, None))
        return (None if low is None else low[0]), (None if high is None else high[0])

    def _move(self, j: int, relation: Relation) -> None:
        variable = self._variable(j)
        for order, value in variable.start.items():
            fixed, name = order in variable.fixed, name_of(variable.name, order)
            offset = 0.0 if order else self._constant(relation.offset, fixed)
            scale = self._constant(relation.factor, fixed)
            if offset is None or scale is None:
                continue
            if relation.factor == self.model.graph.zero:
                if fixed and not agree(value, offset):
                    raise InputError(
                        f"model {self.model.name} fixes the start of {name} at {value:.10g}, but its "
                        f"equations say {name} = {offset:.10g}; drop fixed or correct the start"
                    )
                continue
            here = Start((value - offset) / scale, fixed, name)
            self._enter(relation.of, order + relation.order, here, own=relation.of == j)

    def _enter(self, kept: int, order: int, new: Start, own: bool) -> None:
        column = self.found.setdefault(kept, {})
        old = column.get(order)
        if old is not None and old.fixed and new.fixed and not agree(old.value, new.value):
            what = name_of(self.model.names[kept], order)
            raise InputError(
                f"model {self.model.name} fixes the starts of {old.name} and {new.name}, which contradict "
                f"each other: {what} = {old.value:.10g} and {new.value:.10g}; drop fixed for one"
            )
        if old is None or (new.fixed, own) > (old.fixed, False):
            column[order] = new

    def _bound(self, j: int, relation: Relation) -> None:
        variable = self._variable(j)
        offset, scale = self._constant(relation.offset, False), self._constant(relation.factor, False)
        if offset is None or scale is None:
            return
        ends = (variable.minimum, variable.maximum)
        moved = [None if end is None else ((end - offset) / scale, variable.name) for end in ends]
        if scale < 0:
            moved.reverse()
        low, high = self.limits.get(relation.of, (None, None))
        lows = [end for end in (low, moved[0]) if end is not None]
        highs = [end for end in (high, moved[1]) if end is not None]
        low, high = max(lows, default=None), min(highs, default=None)
        if low is not None and high is not None and low[0] > high[0]:
            raise InputError(
                f"model {self.model.name} has bounds of {low[1]} and {high[1]} that no value of "
                f"{self.model.names[relation.of]} satisfies; correct one"
            )
        self.limits[relation.of] = low, high

    def _variable(self, j: int) -> Any:
        return self.model.variables_by_name[self.model.names[j]]

    def _constant(self, node: int, needed: bool) -> float | None:
        """The value of a constant; None if it has parameters without values, and is not needed."""
        return self.constants.required(node) if needed else self.constants.value(node)
