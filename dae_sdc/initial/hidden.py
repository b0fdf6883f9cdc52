"""Correction of velocities and multipliers at single times by the hidden constraints of known equations."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dae_sdc.compiled.pointwise import equations_at_points
from dae_sdc.dae.pointwise import FOLLOWS, SPARED, UNLIKELY_RATE
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.scales import FIRST_PART
from dae_sdc.dae.state import Vector
from dae_sdc.errors import DAEError
from dae_sdc.initial.jets import ModelJets

MOST_HIDDEN_ITERATIONS = 10  # Largest number of Newton iterations of a stage.
ROUND_OFF = 1e-13  # Relative change of the values up to which the iteration at a time ends.
ROUNDING = 2.0**-50  # Rounding of the terms of an equation, relative to their sum.
# Largest relative change in the last iteration; a larger one counts as a failure.
ACCEPTED_CHANGE = 1e-9
# Largest change, relative to the size of the unknown, of values that a stage does not fully determine;
# beyond it the iteration counts as converged to another solution.
LARGEST_SHIFT = 0.05
# Largest ratio of the moves of values that follow their rates to those of values that do not.
MOVES = 2.0
# Factor of W for derivatives, in sizes over a time: they may change more than what the method computed.
WEIGHT_OF_DERIVATIVES = 1e3
# Largest number of values, unknowns and derivatives, for which the correction is used by default.
MOST_VALUES = 300
# Largest number of entries of all matrices of the times that are solved at once.
MOST_ENTRIES = 2_000_000


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
        self.system, self.states = system, problem.form.states
        self.between = equations_at_points(problem, sizes)
        place, count = system.place, len(system.jets)
        # Numbers of the values in the state, and of their derivatives, for the unknowns of the problem.
        self.columns = np.array([place[state] for state in self.states])
        rates = [(i, place[j, k + 1]) for i, (j, k) in enumerate(self.states) if (j, k + 1) in place]
        self.rated, self.rates = np.array(rates, dtype=np.intp).reshape(-1, 2).T
        time = time or FIRST_PART * float(problem.interval[1] - problem.interval[0]) or 1.0
        highest = {j: (k, i) for i, (j, k) in enumerate(self.states)}
        apart, places = np.array([(k - highest[j][0], highest[j][1]) for j, k in system.jets]).T
        self.weights = WEIGHT_OF_DERIVATIVES * self.between.sizes[places] / time ** apart.astype(float)
        self.weights[self.columns] = self.between.sizes
        self.is_state = np.isin(np.arange(count), self.columns)

    def determines(self, index: int) -> bool:
        """Whether the structure of the equations tells all hidden constraints of an index."""
        return max(self.system.row_orders, default=0) + 1 >= index

    def correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        """Make values at several times satisfy the constraints, see :meth:`Pointwise.correct`."""
        numbers = max(len(stage.rows) * len(stage.jets) for stage in self.system.stages)
        most = max(1, MOST_ENTRIES // max(1, numbers))
        done = np.zeros(len(t), dtype=bool)
        for first in range(0, len(t), most):
            own = slice(first, first + most)
            done[own] = self._correct(t[own], u[own], du[own], h[own])
        rest = np.flatnonzero(~done & (h > 0.0))
        if rest.size:
            values, slopes = u[rest], du[rest]
            done[rest] = self.between.correct(t[rest], values, slopes, h[rest])
            u[rest], du[rest] = values, slopes
        return done

    def errors(self, t: float, u: Vector, du: Vector, h: float) -> Vector:
        """Estimated errors of values that were not corrected, see :meth:`Pointwise.errors`."""
        return self.between.errors(t, u, du, h)

    def _correct(self, t: Vector, u: Vector, du: Vector, h: Vector) -> NDArray[np.bool_]:
        before = np.zeros((len(self.weights), len(t)))
        before[self.rates] = np.nan_to_num(du.T[self.rated])
        before[self.columns] = u.T
        with np.errstate(all="ignore"):
            x, done = self._solved(t, before, np.zeros(len(t)))
            h = np.abs(h)
            rates = self._rates(x - before, h)
            unlikely = np.flatnonzero(UNLIKELY_RATE < rates)
            if unlikely.size:
                start, steps = before[:, unlikely], h[unlikely]
                other, solved = self._solved(t[unlikely], start, FOLLOWS * steps)
                solved &= self._rates(other - start, steps) <= SPARED * rates[unlikely]
                # At the start of a run the values are better than the derivative of the polynomial.
                solved &= self._moves(other - start) <= MOVES * self._moves(x[:, unlikely] - start)
                x[:, unlikely[solved]], done[unlikely[solved]] = other[:, solved], True
        rows = np.flatnonzero(done)
        u[rows] = x[self.columns][:, rows].T
        du[np.ix_(rows, self.rated)] = x[self.rates][:, rows].T
        return done

    def _rates(self, change: Vector, h: Vector) -> Vector:
        """The largest change of a derivative over the step, relative to the unknown, at each time."""
        sizes = self.between.sizes[self.rated]
        return np.asarray(h * (np.abs(change[self.rates]).T / sizes).max(axis=1, initial=0.0))

    def _moves(self, change: Vector) -> Vector:
        """The largest change of a value, relative to the unknown, at each time."""
        return np.asarray((np.abs(change[self.columns]).T / self.between.sizes).max(axis=1))

    def _solved(self, t: Vector, x: Vector, follows: Vector) -> tuple[Vector, NDArray[np.bool_]]:
        """The values that satisfy all stages at several times, near x, and at which times they do."""
        x = x.copy()
        # What follows leaves the constraints before it by as much as these are open at first; the last pass
        # leaves it where it is.
        for share in (follows, follows, 0.0 * follows) if follows.any() else (follows,):
            done = np.ones(len(t), dtype=bool)
            for number in range(len(self.system.stages)):
                done &= self._solve(number, t, x, share)
        return x, done & np.isfinite(x).all(axis=0)

    def _solve(self, number: int, t: Vector, x: Vector, follows: Vector) -> NDArray[np.bool_]:
        """Solve the equations of a stage at all times, in place; returns a mask of the times of success."""
        # Unknowns that only the rates in it bind change by ``follows`` times the changes of these.
        stage = self.system.stages[number]
        part, columns, square = self.system.part(number), stage.jets, len(stage.rows) == len(stage.jets)
        if not len(stage.rows):
            return np.ones(len(t), dtype=bool)
        jets, count = columns.tolist(), len(columns)
        pairs = zip(self.rates.tolist(), self.columns[self.rated].tolist(), strict=True)
        # The rates in it of unknowns of stages before it.
        followers = {rate: state for rate, state in pairs if rate in jets and state not in jets}
        followers = followers if follows.any() else {}
        places, states = [jets.index(rate) for rate in followers], list(followers.values())
        linear = part.is_linear(every := [*jets, *states])
        weights, before = self.weights[columns][:, None], x[columns]
        sizes = np.abs(before).max(axis=1, keepdims=True)
        change, open_times = np.full(len(t), np.inf), np.arange(len(t))
        for _ in range(MOST_HIDDEN_ITERATIONS):
            here, times = x[:, open_times], t[open_times]
            matrices, share = part.dense(here, every, t=times), follows[open_times]
            if states:
                matrices[:, :, places] += share[:, None, None] * matrices[:, :, count:]
            matrices = matrices[:, :, :count] * weights.T
            step = weights * _least_change(matrices, -part.values(here, t=times))
            x[columns[:, None], open_times] += step
            if states:
                x[np.array(states)[:, None], open_times] += share * step[places]
            here = np.abs(x[columns[:, None], open_times])
            relative = np.abs(step) / (np.maximum(sizes, here) + np.finfo(float).tiny)
            if (relative.max(axis=0) > ROUND_OFF).any():
                relative[np.abs(step) <= _left_by_rounding(matrices, here / weights) * weights] = 0.0
            change[open_times] = relative.max(axis=0)
            if linear:
                change[:] = np.where(np.isfinite(change), 0.0, np.inf)
                break
            open_times = open_times[change[open_times] > ROUND_OFF]
            if not open_times.size:
                break
        done = change <= ACCEPTED_CHANGE
        if not square:
            own = self.is_state[columns]
            shift = np.abs(x[columns] - before)[own] / weights[own]
            done &= shift.max(axis=0, initial=0.0) <= LARGEST_SHIFT
        return done


def _left_by_rounding(matrices: Vector, values: Vector) -> Vector:
    """Changes of values, shape (columns, K), that the rounding of the terms of some equation leaves open.

    A value that is a sum of terms that cancel has no size of its own to compare its changes with.
    """
    matrices = np.abs(matrices)
    terms = matrices @ values.T[..., None]
    least = np.divide(terms, matrices, out=np.zeros_like(matrices), where=matrices > 0.0)
    return np.asarray(ROUNDING * least.max(axis=1).T)


def _least_change(matrices: Vector, values: Vector) -> Vector:
    """Solutions of least norm of K underdetermined systems, shape (columns, K); NaN where there is none."""
    # Shapes: matrices (K, rows, columns), values (rows, K).
    norms = np.linalg.norm(matrices, axis=2, keepdims=True)
    scaled, right = matrices / norms, values.T[..., None] / norms
    square = matrices.shape[1] == matrices.shape[2]
    systems = scaled if square else scaled @ scaled.transpose(0, 2, 1)
    try:
        found = np.linalg.solve(systems, right)
    except np.linalg.LinAlgError:  # at one of the times
        found = np.full(right.shape, np.nan)
        for one in np.flatnonzero(np.isfinite(systems).all(axis=(1, 2))):
            if np.linalg.matrix_rank(systems[one]) == len(systems[one]):
                found[one] = np.linalg.solve(systems[one], right[one])
    changes: Vector = (found if square else scaled.transpose(0, 2, 1) @ found)[..., 0].T
    return changes


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
    system = _system(form, model, t, tuple(problem.packed_parameters.tolist()))
    # There are no start values of unknowns that a repair adds, and no place for those that it takes away.
    if system is None or len(system.model.names) != system.unknowns:
        return None
    if not set(form.states) <= set(system.place) or (not any_size and len(system.jets) > MOST_VALUES):
        return None
    return HiddenConstraints(problem, system, sizes, time)


def _system(form: Any, model: Any, t: float, parameters: tuple[float, ...]) -> ModelJets | None:
    """The differentiated equations with values of the parameters; None where these are not found."""
    if (None, parameters) in form.systems:
        return None
    found = next((one for one in form.systems.values() if one and one.parameters == parameters), None)
    if found is None:
        own = copy.copy(model)
        own.parameters_by_name = {
            name: replace(entry, value=value)
            for (name, entry), value in zip(model.parameters_by_name.items(), parameters, strict=True)
        }
        with suppress(DAEError):
            found = ModelJets(own, t)
        form.systems.clear()
        form.systems[None if found is None else t, parameters] = found
    return found
