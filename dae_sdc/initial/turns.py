"""What follows when an angle is turned: which turns equations see, and which are different starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dae_sdc.errors import DAEError
from dae_sdc.expressions.dag import MOVING
from dae_sdc.expressions.operations import Op
from dae_sdc.initial.jets import ModelJets
from dae_sdc.initial.parts import leaf_values
from dae_sdc.initial.systems import LARGEST_MULTIPLE, TRIGONOMETRIC

VANISHING_RATE = 1e-12
"""Rate of a term, relative to its parts, that is none."""

FRACTION_TOLERANCE = 1e-9
"""Difference of a ratio from a simple fraction."""

MOST_TRIES = 200
"""Equations that are looked at, with what may follow by them."""


class TurnError(DAEError):
    """No values can follow a turn of an angle so that all equations still hold; the text is the reason."""


@dataclass(frozen=True)
class Moves:
    """Values that move together, so that no equation changes but in sines, cosines and tangents.

    Parameters
    ----------
    rates : mapping of int to float
        Numbers of the values, and how fast they move.
    factors : tuple of float
        The rates of the arguments of sines, cosines and tangents.
    """

    rates: Mapping[int, float]
    factors: tuple[float, ...]

    def number(self, jet: int, period: float) -> int:
        """Turns of a period until all arguments and values have made whole turns; 0 if they never do."""
        turn = 2.0 * math.pi
        whole = _fraction(self.rates[jet] * period / turn)
        # An angle in other units has turned when its own sine has.
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
    """Finds what follows when an angle is turned.

    Parameters
    ----------
    system : ModelJets
        The equations.
    own : set of int
        Numbers of the equations that the angle was found from: they do not see it turn.
    held : set of int
        Numbers of values that stay as they are.
    """

    def __init__(self, system: ModelJets, own: set[int], held: set[int]) -> None:
        self.system, self.held = system, held
        self._rows = [i for i in range(len(system.roots)) if i not in own]
        graph = system.model.graph
        self._jets = {
            i: {
                system.place[leaf.index, leaf.order]
                for leaf in graph.leaves_of(system.roots[i])
                if leaf.kind == "u" and (leaf.index, leaf.order) in system.place
            }
            for i in self._rows
        }
        self._value = leaf_values(system, np.zeros(len(system.jets)))
        self._tries = 0

    def follow(self, moving: Mapping[int, float]) -> Moves:
        """The values that move with some; raises TurnError if there are none so that all equations hold."""
        self._tries += 1
        if self._tries > MOST_TRIES:
            raise TurnError("as too many values follow")
        factors: list[float] = []
        for i in self._rows:
            if not self._jets[i] & moving.keys():
                continue
            slopes: list[dict[int, float]] = []
            straight = self._linear(self.system.roots[i], frozenset(moving), slopes)
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
        """Moves with one more value, which follows by an equation."""
        name = self.system.row_names[row]
        reason = TurnError(f"as '{name}' contains it outside of sine and cosine")
        # Those that are found last follow rather than those that they are found from.
        for j in sorted(self._jets[row] - moving.keys() - self.held, reverse=True):
            try:
                slope = self._linear(self.system.roots[row], frozenset([j]), []).get(j, 0.0)
                if slope:
                    return self.follow({**moving, j: -left / slope})
            except TurnError as error:
                reason = error
        raise reason

    def _linear(self, node: int, moving: frozenset[int], turned: list[dict[int, float]]) -> dict[int, float]:
        """Factors of some values in an expression, outside of sines, whose arguments are added to a list.

        Raises
        ------
        TurnError
            If the expression is not linear in them, with constant factors.
        """
        graph, place = self.system.model.graph, self.system.place
        if not self._within(node, moving):
            return {}
        leaf = graph.leaves.get(node)
        if leaf is not None:
            return {place[leaf.index, leaf.order]: 1.0}
        op, args = graph.op[node], graph.operands(node)
        if op in TRIGONOMETRIC:
            inner: list[dict[int, float]] = []
            found = self._linear(args[0], moving, inner)
            if any(any(one.values()) for one in inner):
                raise TurnError("as it is in a sine of a sine")
            turned.append(found)
            return {}
        parts = [self._linear(arg, moving, turned) for arg in args]
        if not any(parts):
            return {}
        if op is Op.NEG:
            return {j: -slope for j, slope in parts[0].items()}
        if op is Op.ADD:
            return {j: parts[0].get(j, 0.0) + parts[1].get(j, 0.0) for j in {*parts[0], *parts[1]}}
        if op is Op.MUL and not (parts[0] and parts[1]):
            factor = self._constant(args[1] if parts[0] else args[0])
            return {j: factor * slope for j, slope in (parts[0] or parts[1]).items()}
        if op is Op.DIV and not parts[1]:
            factor = self._constant(args[1])
            return {j: slope / factor for j, slope in parts[0].items()}
        raise TurnError("as it occurs outside of sine and cosine in an equation that is not linear in it")

    def _within(self, node: int, moving: frozenset[int]) -> bool:
        place, graph = self.system.place, self.system.model.graph
        return any(
            leaf.kind == "u" and place.get((leaf.index, leaf.order)) in moving
            for leaf in graph.leaves_of(node)
        )

    def _constant(self, node: int) -> float:
        graph = self.system.model.graph
        if graph.mark[node] & MOVING and any(leaf.kind == "u" for leaf in graph.leaves_of(node)):
            raise TurnError("as it occurs outside of sine and cosine with a factor that is not constant")
        found = float(graph.numeric([node], self._value)[0])
        if not found or not math.isfinite(found):
            raise TurnError("as it occurs with a factor that is not finite")
        return found
