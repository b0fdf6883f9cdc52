"""Equations with branches: where they change in time and state, and the signs that are in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dae_sdc.dae.state import MeshDAE, Vector, interpolation_matrix
from dae_sdc.errors import InputError

# Size of a negative value of a switch that counts as 0, so as positive, where zeros are not located.
SIDE_SLACK = 1e-10

# Value of the function of a condition whose two sides are equal; its sign tells whether the condition holds.
TIE = 1e-150
INITIAL, TERMINAL, MESSAGE = "initial()", "terminal()", "message:"  # Words in texts of events.


class Branches:
    """Base of :class:`~dae_sdc.dae.problem.ProblemDAE`: which branch of the equations a step takes."""

    chooses_by_sides: ClassVar[bool] = False
    switch_names: tuple[str, ...] = ()
    watched_jumps: Any = ()  # The jump of each switch, which may be a kink; () where all are others.
    switches_read: Any = slice(None)  # Places of the unknowns on which switches may depend.

    def breakpoints(self, t0: float, t_end: float) -> tuple[float, ...]:
        """Times strictly between ``t0`` and ``t_end`` at which a step must end, in ascending order.

        There F jumps or has a kink as a function of time. Which piece is in force is chosen in
        :meth:`start_step` and kept for the whole step, so that a stage at its end sees the limit from the
        left. None by default.
        """
        return ()

    def switches(self, u: MeshDAE, t: float) -> Sequence[float]:
        """Functions of state and time at whose zeros :meth:`start_step` chooses another branch, shape (S,).

        They are continuous along a solution, of size 1 away from their zeros, and may be evaluated at states
        somewhat past a zero. Runs of one step at a time locate the zeros and end a step there; :meth:`sides`
        says which sign holds from there on. None by default.
        """
        return ()

    def sides(self, u: MeshDAE, t: float) -> tuple[int, ...]:
        """For each switch 1 or -1, the sign that is in force in a step from ``u`` at ``t``.

        By these :meth:`start_step` chooses a branch. In a run that locates the zeros they change only there;
        in all others they are the signs of the values, of which those from -1e-10 on count as positive.
        """
        if self.held_sides is not None:
            return self.held_sides
        return tuple(1 if value >= -SIDE_SLACK else -1 for value in self.switches(u, t))

    def hold_sides(self, sides: tuple[int, ...] | None) -> None:
        """Let :meth:`sides` give these signs, whatever the state; with None, those of the state again."""
        self.__dict__["_held"] = sides

    @property
    def held_sides(self) -> tuple[int, ...] | None:
        """The signs that :meth:`hold_sides` has set, or None."""
        return self.__dict__.get("_held")

    @property
    def located(self) -> bool:
        """Whether the run locates zeros of switches, and makes states consistent behind breakpoints."""
        return self.held_sides is not None

    def start_step(self, u: MeshDAE, t: float) -> None:
        """Called by every sweeper when a step begins at state ``u`` and time ``t``.

        A problem with a state-dependent right-hand side chooses its branch here and keeps it for the whole
        step, so that no Newton iteration meets a jump. The choice may depend on ``u``, ``t`` and
        :meth:`sides` only, so that a repeated step repeats it.
        """

    @property
    def chooses_branch(self) -> bool:
        """Whether :meth:`start_step` chooses what the equations are in a step."""
        return type(self).start_step is not Branches.start_step

    @property
    def starts_alike(self) -> bool:
        """Whether :meth:`start_step` changes nothing between two breakpoints or located zeros of switches."""
        return not self.chooses_branch or (self.chooses_by_sides and self.located)

    def get_switching_info(self, u: Sequence[MeshDAE], t: float) -> tuple[bool, int, list[float]]:
        """What pySDC's ``SwitchEstimator`` asks for after a step: the first switch that changes its sign."""
        if self.__dict__.get("_has_stages"):
            raise InputError(
                "pySDC's SwitchEstimator reads the nodes of spectral deferred corrections and no stages; use "
                "LocateEvents of dae_sdc with Runge-Kutta methods"
            )
        values = [list(self.switches(state, t)) for state in u]
        for m in range(len(u) - 1):
            for i, (before, after) in enumerate(zip(values[m], values[m + 1], strict=True)):
                if (before < 0.0) != (after < 0.0):
                    return True, m, [float(row[i]) for row in values]
        return False, -100, [float(row[0]) if row else 1.0 for row in values]

    def count_switches(self) -> None:
        """Count an event, as pySDC's ``SwitchEstimator`` asks for."""
        self.nswitches = getattr(self, "nswitches", 0) + 1


EPS = float(np.finfo(float).eps)

OfTimes = Callable[[Vector], Vector]  # A function of times, shape (K,), whose values have shape (K,).

LARGEST_DEPARTURE = 0.01  # Error of a polynomial of degree 4, relative to the function's size in a cell.
# Places at equal distances would see a fast wave as a slow one.
_PLACES = (0.0, 0.0971, 0.2313, 0.3170, 0.4843, 0.5967, 0.7391, 0.8526, 1.0)
_FINE = tuple(k / 64 for k in range(65))


def samples(
    function: OfTimes,
    edges: Vector,
    what: str,
    cells: int = 64,
    narrowest: float = 1e-13,
    most: int = 2_000_000,
) -> tuple[Vector, Vector]:
    """Times between which a function changes its sign at most once, and its values there."""
    # Cells are halved, down to the narrowest part of the interval, until a polynomial through five values in
    # each predicts four others, and that through all nine changes its sign no more often than they do.
    # Shapes: edges (K,).
    per_part = max(1, cells // max(1, len(edges) - 1))
    left = (edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(per_part) / per_part)).ravel()
    right = np.append(left[1:], edges[-1])
    narrowest = max(narrowest * (edges[-1] - edges[0]), 16.0 * EPS * np.abs(edges).max())
    # The ends of a cell belong to other parts, where the function may jump.
    inner, count = np.clip(_PLACES, 1e-6, 1.0 - 1e-6), 0
    to_fine = interpolation_matrix(_PLACES, _FINE)
    known_times, known_values = [], []
    while left.size:
        times = left[:, None] + (right - left)[:, None] * inner
        count += times.size
        if count > most:
            raise InputError(f"{what} changes too often for its zeros to be located; let it vary less")
        values = function(times.ravel()).reshape(times.shape)
        values = np.where(np.isfinite(values), values, 1.0)
        size = np.abs(values).max(axis=1)
        error = _departures(_PLACES, values)
        seen = (np.diff(np.sign(values), axis=1) != 0.0).sum(axis=1)
        between = (np.diff(np.sign(values @ to_fine.T), axis=1) != 0.0).sum(axis=1)
        rests = (values == 0.0).any(axis=1)
        coarse = (error > LARGEST_DEPARTURE * size) | (~rests & (between > seen))
        coarse &= right - left > narrowest
        known_times.append(times[~coarse].ravel())
        known_values.append(values[~coarse].ravel())
        middle = 0.5 * (left + right)[coarse]
        left, right = np.concatenate([left[coarse], middle]), np.concatenate([middle, right[coarse]])
    every, places = np.unique(np.concatenate(known_times), return_index=True)
    return every, np.concatenate(known_values)[places]


def changes(function: OfTimes, times: Vector) -> tuple[Vector, Vector]:
    """The neighbouring floats between which a piecewise constant function changes, shapes (K,) and (K,)."""
    # Shapes: times (J,).
    values = function(times)
    at = np.flatnonzero(values[1:] != values[:-1])
    left, right, before = times[at], times[at + 1], values[at]
    while left.size:
        middle = 0.5 * (left + right)
        if ((middle <= left) | (middle >= right)).all():
            break
        same = function(middle) == before
        left, right = np.where(same, middle, left), np.where(same, right, middle)
    return left, right


def _departures(places: tuple[float, ...], values: Vector) -> Vector:
    """Largest distances of functions from the polynomials through every other of their values, (F, K)."""
    between = values[:, ::2] @ interpolation_matrix(places[::2], places[1::2]).T
    return np.asarray(np.abs(between - values[:, 1::2]).max(axis=1, initial=0.0))


def are_resolved(places: tuple[float, ...], values: Vector) -> NDArray[np.bool_]:
    """Whether polynomials through every other value of functions predict the values between."""
    # Shapes: values (F, K) -> (F,).
    with np.errstate(invalid="ignore"):  # of functions that are infinite at a place
        errors = _departures(places, values)
    return np.asarray(errors <= LARGEST_DEPARTURE * np.abs(values).max(axis=1), dtype=np.bool_)
