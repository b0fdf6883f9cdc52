"""Steps in which the equations change: solved again in pieces that end where switches change their signs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from dae_sdc.dae.branches import SIDE_SLACK
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import EndDerivative, MeshDAE, Vector, attach, interpolation_matrix
from dae_sdc.errors import SolveError
from dae_sdc.sweepers.coupled import CoupledStages, stages_without_guess
from dae_sdc.sweepers.restart import consistent_restart
from dae_sdc.sweepers.tableaux import radau_iia

EPS = float(np.finfo(float).eps)

LEAST_PIECE_NODES = 3  # Least number of nodes of the Radau IIA method that solves a piece.
# Largest number of corrections of the end of a piece towards the zero at which it is to end.
PIECE_CORRECTIONS = 5
# Distance, in pieces, over which the slope of a switch at the end of a piece is taken.
SLOPE_DISTANCE = 1e-3
MOST_PIECES = 100  # Pieces of one step after which a run is given up.
RESTART_STEP = 0.01  # Size, in steps, of the step by which a state behind a switch is found.


class SwitchedSteps:
    """The ends of steps in which switches change their signs, where nothing else locates them."""

    # If the signs of :meth:`~dae_sdc.dae.problem.ProblemDAE.switches` differ at a node or at the end, the
    # step is solved in pieces: up to the first zero with the branch at the start, from a state that is
    # consistent with the other branch to the next zero, and so on. What is iterated is left as it is.

    def __init__(self, problem: ProblemDAE, nodes: int) -> None:
        self._problem = problem
        self._tableau = radau_iia(max(nodes, LEAST_PIECE_NODES))
        self._places = (0.0, *self._tableau.c.tolist())
        self._sides: tuple[int, ...] = ()
        self._known: tuple[Vector, MeshDAE | None] = np.empty(0), None

    def begin(self, u0: MeshDAE, t: float) -> None:
        """Take the signs at the start of a step, on whose branch it is solved."""
        self._known = np.empty(0), None
        self._sides = () if self._problem.located else self._sides_at(u0, t)
        self._take_branch(u0, t)

    def is_stale(self, u0: MeshDAE, t: float) -> bool:
        """Whether a step was given another start since, which is on another branch."""
        return not self._problem.located and self._sides_at(u0, t) != self._sides

    def _sides_at(self, u: MeshDAE, t: float) -> tuple[int, ...]:
        """The signs in force from a state on; at a zero those on which the last step has ended."""
        found, last = self._problem.sides(u, t), u.sides
        if last is None:
            return found
        values = self._problem.switches(u, t)
        return tuple(
            before if abs(value) <= SIDE_SLACK else side
            for side, before, value in zip(found, last, values, strict=True)
        )

    def _take_branch(self, u0: MeshDAE, t: float) -> None:
        """Let the problem compute on the branch of the step again, or where its values at a zero mislead."""
        P = self._problem
        timed = getattr(P, "timed_switch_names", ())
        if (self._sides and (P.located or u0.sides is not None)) or (timed and not P.located):
            P.hold_sides(self._sides)
            P.start_step(u0, t)
            P.hold_sides(None)

    def end(self, u0: MeshDAE, t: float, dt: float, values: Vector, c: Vector, end: MeshDAE) -> MeshDAE:
        """The end of a step."""
        # Shapes: values (M, n), c (M,).
        P = self._problem
        if P.located or not (self._sides or self._timed(t, t + dt)):
            return end
        states = [*(attach(row, P.n_diff) for row in values), end]
        if not self._timed(t, t + dt) and not any(
            self._signed(state, t + at * dt, self._sides).min(initial=0.0) < -SIDE_SLACK
            for state, at in zip(states, (*c.tolist(), 1.0), strict=True)
        ):
            end.sides = self._sides
            return end
        key = np.concatenate([[t, dt], u0, end])
        if self._known[1] is None or not np.array_equal(self._known[0], key):
            try:
                self._known = key, self._in_pieces(u0, t, dt)
            finally:
                self._take_branch(u0, t)
        found = self._known[1]
        assert found is not None
        return found

    def _timed(self, t: float, t_end: float) -> tuple[float, ...]:
        """Times in a step at which switches of time alone change."""
        P: Any = self._problem
        slack = 4.0 * EPS * max(abs(t), abs(t_end))
        known = P.breakpoints(t + slack, t_end - slack) if getattr(P, "timed_switch_names", ()) else ()
        return tuple(known)

    def _signed(self, u: MeshDAE, t: float, sides: tuple[int, ...]) -> Vector:
        """The switches, positive on the sides that are in force, shape (S,)."""
        return np.asarray(self._problem.switches(u, t), dtype=np.float64) * sides

    def _in_pieces(self, u0: MeshDAE, t0: float, dt: float) -> MeshDAE:
        P, t, t_end, sides, u = self._problem, t0, t0 + dt, self._sides, u0
        for _ in range(MOST_PIECES):
            P.hold_sides(sides)
            P.start_step(u, t)
            stop = min(self._timed(t, t_end), default=t_end)
            stages = stages_without_guess(P, self._tableau, u, t, stop - t)
            found = self._first_zero(u, stages, sides)
            if found is None and stop < t_end:
                u, t = attach(stages.u[-1].copy(), P.n_diff), stop
                u = consistent_restart(P, u, t, RESTART_STEP * dt)
                continue
            if found is None:
                end = attach(stages.u[-1].copy(), P.n_diff)
                end.polynomial, end.sides = EndDerivative(stages.du[-1].copy()), sides
                return end
            theta, which = found
            u, t = self._up_to(u, t, theta * (stop - t), which, sides)
            sides = tuple(-side if i == which else side for i, side in enumerate(sides))
            P.hold_sides(sides)
            u = consistent_restart(P, u, t, RESTART_STEP * dt)
            if t_end - t <= 4.0 * EPS * max(abs(t0), abs(t_end)):
                u.sides = sides
                return u
        raise SolveError(
            f"a switch of {type(P).__name__} changes its sign again and again at t={t:.10g}, more than "
            f"{MOST_PIECES} times in a step: the solution slides along the switch, or switches ever "
            f"faster; smooth the switch, give it a hysteresis, or keep the branch of a step by the parameter "
            f"locate_switches=False of the sweeper"
        )

    def _state(self, u: MeshDAE, stages: CoupledStages, theta: float) -> MeshDAE:
        """u at a place in units of a piece."""
        weights = interpolation_matrix(self._places, (theta,))[0]
        return attach(weights[0] * u.view(np.ndarray) + weights[1:] @ stages.u, self._problem.n_diff)

    def _first_zero(
        self, u: MeshDAE, stages: CoupledStages, sides: tuple[int, ...]
    ) -> tuple[float, int] | None:
        """Where in a piece the first switch changes its sign, in units of the piece, and which one."""
        t, h = stages.time, stages.dt
        # A switch at whose zero the piece begins may have any sign there.
        before = self._signed(u, t, sides)
        for k, at in enumerate(self._places[1:]):
            values = self._signed(attach(stages.u[k], self._problem.n_diff), t + at * h, sides)
            zeros = []
            for i in np.flatnonzero(values < -SIDE_SLACK).tolist():
                place, about = self._places[k], (u, stages, sides, i)
                if before[i] > SIDE_SLACK:
                    place = brentq(self._along, place, at, about, xtol=EPS, rtol=4.0 * EPS)
                zeros.append((place, i))
            if zeros:
                return min(zeros)
            before = values
        return None

    def _along(
        self, theta: float, u: MeshDAE, stages: CoupledStages, sides: tuple[int, ...], which: int
    ) -> float:
        """A switch at a place in units of a piece."""
        values = self._signed(self._state(u, stages, theta), stages.time + theta * stages.dt, sides)
        return float(values[which])

    def _up_to(
        self, u: MeshDAE, t: float, h: float, which: int, sides: tuple[int, ...]
    ) -> tuple[MeshDAE, float]:
        """State and time at a zero of a switch, near which a piece of size h ends."""
        P, best = self._problem, np.inf
        state, time = u, t
        for _ in range(PIECE_CORRECTIONS):
            if h <= 4.0 * EPS * max(abs(t), abs(t + h)):
                break
            stages = stages_without_guess(P, self._tableau, u, t, h)
            near, end = 1.0 - SLOPE_DISTANCE, attach(stages.u[-1].copy(), P.n_diff)
            value = self._signed(end, t + h, sides)[which]
            if not abs(value) < best:
                break
            best, state, time = abs(value), end, t + h
            earlier = self._along(near, u, stages, sides, which)
            change = value * SLOPE_DISTANCE * h / (earlier - value) if earlier != value else 0.0
            if abs(change) <= 4.0 * EPS * abs(t + h):
                break
            h += change
        return state, time
