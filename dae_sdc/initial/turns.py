"""Turns of angles: which values must change with an angle, and which turns are different starts."""

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
        """All values that change with some; raises TurnError if no change satisfies all equations."""
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
        """The moves with one more value, which an equation determines."""
        name = self.system.row_names[row]
        reason = TurnError(f"as '{name}' contains it outside of sine and cosine")
        # Values of later stages are tried first, because they depend on earlier ones.
        for j in sorted(self._jets[row] - moving.keys() - self.held, reverse=True):
            try:
                slope = self._linear(self.system.roots[row], frozenset([j]), []).get(j, 0.0)
                if slope:
                    return self.follow({**moving, j: -left / slope})
            except TurnError as error:
                reason = error
        raise reason

    def _linear(self, node: int, moving: frozenset[int], turned: list[dict[int, float]]) -> dict[int, float]:
        """Factors of values in an expression outside of sines; arguments of sines are added to ``turned``."""
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
