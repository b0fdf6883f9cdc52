"""Correction of velocities and multipliers at single times by the hidden constraints of known equations."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dae_sdc.compiled.pointwise import HiddenMemory, StageMemory, correct_hidden, equations_at_points
from dae_sdc.dae.memory import ArrayMemory, address, lapack, tell_addresses
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import FIRST_PART
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError
from dae_sdc.expressions.graph import Graph
from dae_sdc.initial.jets import ModelJets, jets_of

# Factor of W for derivatives, in sizes over a time: they may change more than what the method computed.
WEIGHT_OF_DERIVATIVES = 1e3
# Largest number of values, unknowns and derivatives, for which the correction is used by default.
MOST_VALUES = 300


class HiddenConstraints:
    r"""The equations of a model, differentiated as its offsets say, as a correction of computed values.

    Stage by stage, as in the computation of consistent start values, the unknowns and derivatives x of a
    stage change as little as its equations allow. Values that the stage determines, for example multipliers,
    become as accurate as those from which they follow:

    .. math::
        \min \| W^{-1} \delta \|^2 \quad\text{subject to}\quad f_i^{(c_i + k)}(t, x + \delta) = 0,
        \qquad k = -\max c, \ldots, 0
    """

    # Shapes: sizes (n,).

    at_ends = True

    def __init__(self, problem: Any, system: ModelJets, sizes: Vector, time: float | None) -> None:
        self.problem, self.system, self.time = problem, system, time
        self.between = equations_at_points(problem, sizes)

    def __reduce__(self) -> Any:
        fresh = self.system.with_numbers(self.system.model, self.system.t)  # without programs that have run
        return type(self), (self.problem, fresh, self.between.sizes, self.time)

    def determines(self, index: int) -> bool:
        """Whether the structure of the equations tells all hidden constraints of an index."""
        return max(self.system.row_orders, default=0) + 1 >= index

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times satisfy the constraints, see :meth:`Pointwise.correct`."""
        problem, sizes, states = self.problem, self.between.sizes.astype(float), self.problem.form.states
        known = _STAGES.setdefault(self.system.model.graph, {})
        stages = known[states] = known.get(states) or _Stages(self.system, states)
        time = self.time or FIRST_PART * float(problem.interval[1] - problem.interval[0]) or 1.0
        x, solved = np.zeros((len(t), len(self.system.jets) + 1)), np.zeros(len(t), dtype=np.int64)
        x[:, stages.rates] = np.nan_to_num(du[:, stages.rated])
        x[:, stages.columns] = u
        weights = WEIGHT_OF_DERIVATIVES * sizes[stages.places] / time**stages.apart
        weights[stages.columns] = sizes
        t, h = np.ascontiguousarray(t), np.ascontiguousarray(h)
        arrays = {"weights": weights, "sizes": sizes, "p": self.system.known["p"]}
        arrays["largest"] = np.abs(x).max(axis=0, initial=0.0)
        # Threads share the rest of the memory, which none leaves before its values are written.
        memory = HiddenMemory.from_buffer_copy(stages.memory.structure)
        tell_addresses(memory, arrays)
        correct_hidden()(ctypes.addressof(memory), *map(address, (x, t, h, solved)), len(t))
        rows = np.flatnonzero(done := solved > 0)
        u[rows] = x[rows][:, stages.columns]
        du[np.ix_(rows, stages.rated)] = x[rows][:, stages.rates]
        rest = np.flatnonzero(~done & (h > 0.0))
        if rest.size:
            values, slopes = u[rest], du[rest]
            done[rest] = self.between.correct(t[rest], values, slopes, h[rest])
            u[rest], du[rest] = values, slopes
        return done

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """Estimated errors of values that were not corrected, see :meth:`Pointwise.errors`."""
        return self.between.errors(t, u, du, h)


class _Stages:
    """The stages of a system for compiled code."""

    def __init__(self, system: ModelJets, states: Any) -> None:
        place, count = system.place, len(system.jets)
        # Numbers of the values in the state, and of their derivatives, for the unknowns of the problem.
        self.columns = np.array([place[state] for state in states])
        rates = [(i, place[j, k + 1]) for i, (j, k) in enumerate(states) if (j, k + 1) in place]
        self.rated, self.rates = np.array(rates, dtype=np.intp).reshape(-1, 2).T
        highest = {j: (k, i) for i, (j, k) in enumerate(states)}
        self.apart, self.places = np.array([(k - highest[j][0], highest[j][1]) for j, k in system.jets]).T
        followers = dict(zip(self.rates.tolist(), self.columns[self.rated].tolist(), strict=True))
        stages = (StageMemory * len(system.stages))()
        self._owners = [self._add(stages[k], system, k, followers) for k in range(len(stages))]
        rows, most = (max(getattr(each, name) for each in stages) for name in ("rows", "columns"))
        shapes = {"before": count + 1, "other": count + 1, "out": rows + max(each.entries for each in stages)}
        shapes |= {"matrix": rows * most, "system": rows**2, "right": rows, "step": most, "start": most}
        arrays: dict[str, Any] = {name: np.zeros(size) for name, size in shapes.items()}
        arrays |= {"states": np.array([self.columns, range(len(states))])}
        arrays |= {"rates": np.array([self.rates, self.rated]), "pivots": np.zeros(rows, dtype=np.int32)}
        arrays["is_state"] = np.isin(np.arange(count), self.columns).astype(float)
        numbers = {"values": count, "n": len(states), "rated": len(rates), "count": len(stages)}
        lapacks = {name: lapack(name) for name in ("dgetrf", "dgetrs")}
        memory = HiddenMemory(stages=ctypes.addressof(stages), **numbers, **lapacks)
        self._stages, self.memory = stages, ArrayMemory(memory, arrays)

    def _add(self, stage: Any, system: ModelJets, number: int, followers: dict[int, int]) -> Any:
        """Describe a stage in its memory; what must live as long."""
        part, jets = system.part(number), system.stages[number].jets.tolist()
        # Values of earlier stages follow the rates that are solved for.
        followed = {j: followers[j] for j in jets if followers.get(j, j) not in jets}
        columns = {j: k for k, j in enumerate(jets)}
        states = {followed[j]: columns[j] for j in followed}
        arrays: dict[str, Any] = {"jets": jets, "follower": [followed.get(j, -1) for j in jets]}
        arrays |= {"row": [i for i, _ in part.slopes], "column": [columns.get(j, -1) for _, j in part.slopes]}
        arrays |= {"followed": [states.get(j, -1) for _, j in part.slopes]}
        arrays = {name: np.array(values, dtype=np.int64) for name, values in arrays.items()}
        arrays["small"] = np.array([len(part.rows), 1, 0, ord("N")], dtype=np.int32)
        stage.rows, stage.columns, stage.entries = len(part.rows), len(jets), len(part.slopes)
        stage.linear, stage.linear_following = part.is_linear(jets), part.is_linear([*jets, *states])
        tell_addresses(stage, arrays)
        compiled = part.compiled()
        stage.program = compiled.address
        return arrays, compiled


_STAGES: WeakKeyDictionary[Graph, dict[Any, _Stages]] = WeakKeyDictionary()  # for any numbers


def hidden_constraints(
    problem: ProblemDAE, t: float, sizes: Vector, any_size: bool, time: float | None = None
) -> HiddenConstraints | None:
    """The correction of values of a problem by its hidden constraints; None if these are not known."""
    # Shapes: sizes (n,).
    form, source = getattr(problem, "form", None), getattr(problem, "traced", None)
    model = getattr(source or getattr(problem, "origin", None), "model", None)
    # At a jump, values do not determine on which side of it the end of a step lies.
    if form is None or model is None or form.jumps is not None:
        return None
    numbers = dict(zip(model.parameters_by_name, problem.packed_parameters.tolist(), strict=True))
    try:
        system = jets_of(model.with_values(numbers), t)
    except DAEError:
        return None
    # There are no start values of unknowns that a repair adds, and no place for those that it takes away.
    fits = len(system.model.names) == system.unknowns and set(form.states) <= set(system.place)
    if not fits or (not any_size and len(system.jets) > MOST_VALUES):
        return None
    return HiddenConstraints(problem, system, sizes, time)
