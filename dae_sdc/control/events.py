"""Zeros of event functions: located on the steps of a run, which ends there or takes another branch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import isfinite
from numbers import Integral, Real
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from dae_sdc.arguments import shown
from dae_sdc.control.driver import MarkingControl, driver_of
from dae_sdc.control.hooks import unconverged
from dae_sdc.dae.branches import SIDE_SLACK, TIE, are_resolved, samples
from dae_sdc.dae.declaration import names_given
from dae_sdc.dae.interpolant import HERMITE, DenseOutput, Scheme, StepsInRow, step_data, weights_at
from dae_sdc.dae.newton_checks import directions
from dae_sdc.dae.problem import ProblemDAE
from dae_sdc.dae.state import MeshDAE, Vector, attach
from dae_sdc.dae.values import read_only
from dae_sdc.errors import InputError, SolveError
from dae_sdc.registry import require_name
from dae_sdc.sweepers.restart import RESTART_STEP, Jump, behind_fold, consistent_restart, jump_behind
from dae_sdc.sweepers.steps_ahead import MOST_STEPS, Taken, time_slack

EPS = float(np.finfo(float).eps)

# Distance, in steps, from the end of a step to a zero up to which the step ends at it.
END_SLACK = 1e-12
# Distance, in steps, beyond the end of a step that was to end at a zero, at which its other side is sought.
BEYOND_END = 1e-9
LARGEST_BEYOND = 1e-6  # Largest such distance but for rounding, as no polynomial tells what is far behind.
# Distance, in steps, from the start of a step up to which a zero counts as being at the start.
START_SLACK = 1e-10
KINK_SLACK = 1e-6  # The same, once, behind another step where the equations are equal on both sides.
FARTHEST_BEYOND = 0.1  # Distance, in steps, beyond its end up to which a polynomial tells a zero.
# Distance, in steps, beyond its end at which a switch that is 0 there must be 0 to count as resting.
BEYOND_REST = 1e-6
# Size of a switch, relative to its largest in the step, up to which a place is too near to compare the side
# in force with that of the function that was read.
NEAR_BORDER = 1e-3
# Value of a function, relative to its largest in the step, that is 0 after an event or at the start.
ZERO_VALUE = 1e-9
# Relative change of the unknowns by which it is measured what their rounding, by ROUNDED, does to switches.
MOVED_SIZE, ROUNDED = 1e-6, 4.0 * EPS
LEAST_TOLD = 1e-15  # Value of a function that is beyond rounding where an event with a message is told.
# Least value of a function on a step, relative to its largest, above which no zero is looked for.
NO_EXTREMUM_ABOVE = 0.5
FEWEST_AHEAD = 4  # Steps taken before they are looked at, at first and after the last of a zero.
STRICT_ATTEMPTS = 4  # Repetitions of a step before the demand on its end is lowered.
# Part of a step along u' over which the rate of the function of an event behind a change is found.
RATE_STEP = 1e-3
SMALLEST_ARC = 60  # Binary digits of the smallest part of a step in which a function leaves 0 and comes back.
LEAST_ARC = 16.0  # Least height of an arc, in units of rounding, whose length tells that of the next one.
MOST_SWITCHES = 100  # Switches without progress after which a run is given up.
LEAST_PROGRESS_OF_SWITCHES = 1e-9  # Part of the interval between two switches that counts as progress.
LONGEST_CIRCLE = 8  # Names of events that cause one another in a message.
NO_MOMENT = -1.0  # Distance between times at which none of them is a moment.
MOST_PASSES = 30  # Times that changes which depend on each other are carried out.
SETTLED_CHANGE = 1e-12  # Relative change of their values up to which they have settled.
RETURNS = 3  # Zeros of a switch without progress, each to its other side, between which a solution slides.

# Largest numbers of values of a function of time alone, and of one of the state, in a step that is sampled.
MOST_VALUES, MOST_STATES = 200_000, 5_000
# Attributes of :class:`LocateEvents` that change from step to step.
SAVED = ("course", "_usual", "_without_progress", "_last_switch", "_timed_values", "_jumps")


@dataclass(frozen=True)
class Event:
    """An event function, whose zeros a run is to find.

    Parameters
    ----------
    function : callable
        f(u, t) -> float of the state, a :class:`~dae_sdc.dae.state.MeshDAE` of shape (n,), and the time;
        continuous along the solution. An event is where its sign changes.
    terminal : bool or int
        Whether the run ends at the first event, or at that of this number.
    direction : float
        Positive: only where the function grows; negative: only where it falls; 0: both.
    name : str
        For messages and results.
    change : callable, optional
        g(u, t) that changes the state at each event, from which the run goes on: it writes into u, or returns
        the new state or values by the names of unknowns. Algebraic unknowns follow from the others.
    implicit : bool
        Whether ``change`` is g(u, t, before), of the state behind the events of a time and of that before
        them. It returns two mappings: values that may depend on each other, for which it is called again
        until they stay, and others that follow.
    otherwise : bool
        Whether it changes nothing where the event before it, or one that this follows in the same way,
        happens at the same time.
    times : callable, optional
        times(t0, t_end) -> the times in the interval at which the function may be 0, if they are known:
        steps end there, and one at which the run begins is an event too.
    message : str
        What is told where it happens, also at the start of a run; a run that it ends has failed.
    side : int
        The sign of the function before the run, at whose start it may have the other one; 0 if not known.
    only : callable, optional
        only(u, t, before) -> whether it happens, of the state behind the events of a time and of that before
        them. Where it does not, nothing is changed, told or recorded.
    beside : bool
        Whether it happens where the event before it does, and not by itself.
    success : bool
        Whether a run that it ends with a message has succeeded.
    slack : float
        The value of the function at the start of a run up to which it is rounding of 0.
    located : bool
        Whether zeros of the function are looked for, which those of an event with times are not.
    judged : bool
        Whether the function is f(u, t, before, slack), negative where a condition holds, which happens where
        that begins: of the state behind the events of a time and of that before them, and of the distance of
        times that is rounding. Zeros are those of f(u, t).
    ceases : bool
        Whether that happens where it ceases to hold, too, with the values 1 - v in place of v.
    at_start : bool
        Whether it may happen at the start, before all else.
    several, reads : callable and sequence of int, optional
        several(u, t) -> values of the function, shape (K,), at states of shape (K, n) and times of shape
        (K,), and places of the unknowns that may change its sign, where they are not seen when it is called.

    Examples
    --------
    >>> end = ds.Event(lambda u, t: u[0], terminal=True, name="lowest point")
    >>> solution = ds.solve("pendulum", rtol=1e-8, events=[end])
    >>> solution.message.partition(";")[0], bool(abs(solution.u[-1, 0]) < 1e-10)
    ("the run ended at event 'lowest point' at t=0.5922624305", True)
    """

    function: Callable[..., float]
    terminal: bool | int = False
    direction: float = 0.0
    name: str = ""
    change: Callable[..., Any] | None = None
    implicit: bool = False
    otherwise: bool = False
    times: Callable[[float, float], Iterable[float]] | None = None
    message: str = ""
    side: int = 0
    only: Callable[..., Any] | None = None
    beside: bool = False
    success: bool = False
    located: bool = field(default=True, repr=False)
    judged: bool = field(default=False, repr=False)
    ceases: bool = field(default=False, repr=False)
    at_start: bool = field(default=False, repr=False)
    several: Callable[[Vector, Vector], Vector] | None = field(default=None, repr=False)
    reads: Sequence[int] | None = field(default=None, repr=False)
    slack: float = field(default=0.0, repr=False)

    @property
    def is_decided_behind(self) -> bool:
        """Whether the state behind what happens at a time tells whether it happens."""
        return self.judged or self.only is not None

    @property
    def last(self) -> int:
        """Number of the event that ends the run; 0 for none."""
        return int(self.terminal)

    def counts(self, side: int) -> bool:
        """Whether a zero after which the function has this sign is an event."""
        return self.direction * side >= 0.0


class _Reading:
    """A state that notes which of its unknowns are read."""

    def __init__(self, state: MeshDAE) -> None:
        self.state, self.read = state, np.zeros(len(state), dtype=bool)

    def __getitem__(self, key: Any) -> Any:
        self.read[key] = True
        return self.state[key]

    def __array__(self, *_: Any, **__: Any) -> Vector:
        return np.array(self[:])

    def __getattr__(self, name: str) -> Any:
        self.read[: self.state.n_diff if name == "diff" else None] = True
        return getattr(self.state, name)


def unknowns_looked_at(
    problem: ProblemDAE, events: Sequence[Event], u: MeshDAE, t: float
) -> NDArray[np.bool_]:
    """Which unknowns may change the signs of events and of the switches of a problem, shape (n,)."""
    read = np.zeros(problem.n, dtype=bool)
    read[problem.switches_read if type(problem).switches is not ProblemDAE.switches else []] = True
    for event in events:
        read |= unknowns_read(event, u, t)
    return read


def unknowns_read(event: Event, u: MeshDAE, t: float) -> NDArray[np.bool_]:
    """Which unknowns may change the sign of an event whose times are not known, shape (n,)."""
    reading = _Reading(u)
    if event.reads is not None or not event.located:
        reading.read[list(event.reads or ())] = True
        return reading.read
    try:
        event.function(cast(MeshDAE, reading), t)
    except Exception:  # where it takes nothing but arrays, say
        reading.read[:] = True
    return reading.read


def as_events(given: Any) -> tuple[Event, ...]:
    """Event functions as a user gives them."""
    several = [given] if callable(given) or isinstance(given, Event) else given
    if not isinstance(several, Sequence) or isinstance(several, str):
        raise InputError(f"events must be functions f(u, t), or ds.Event of them; got {given!r}")
    return tuple(_event(one, place) for place, one in enumerate(several))


def _event(given: Any, place: int) -> Event:
    names = [each.name for each in fields(Event)[1:] if each.repr]
    about = {name: getattr(given, name) for name in names if hasattr(given, name)}
    event = given if isinstance(given, Event) else Event(given, **about)
    label = f"events[{place}]"
    if not callable(event.function) or isinstance(event.function, type):
        raise InputError(f"{label} must be a function f(u, t), or ds.Event of one; got {given!r}")
    terminal, direction = event.terminal, event.direction
    if not isinstance(terminal, int | np.bool_ | np.integer) or terminal < 0:
        raise InputError(f"terminal of {label} must be a bool or a number of events; got {terminal!r}")
    if not isinstance(direction, int | float | np.number) or not np.isfinite(direction):
        raise InputError(f"direction of {label} must be a number; got {direction!r}")
    for what, text in (("name", event.name), ("message", event.message)):
        if not isinstance(text, str):
            raise InputError(f"{what} of {label} must be a text; got {text!r}")
    called = [(event.function, label, False), (event.change, f"change of {label}", event.implicit)]
    for function, who, three in (*called, (event.only, f"only of {label}", True)):
        if function is None:
            continue
        if not callable(function):
            raise InputError(f"{who} must be a function g(u, t); got {function!r}")
        try:
            inspect.signature(function).bind(None, 0.0, *[None] * three)
        except TypeError:
            takes = inspect.signature(function)
            form = "f(u, t, before)" if three else "f(u, t)"
            raise InputError(f"{who} must take the state and the time, {form}; it takes {takes}") from None
        except ValueError:  # a function of another language, which does not tell
            pass
    name = event.name or getattr(event.function, "__name__", "") or label
    located = event.located and (event.times is None or event.judged)
    name = label if name == "<lambda>" else name
    return replace(event, direction=float(direction), name=name, located=located)


@dataclass(frozen=True, eq=False)
class EventRecord:
    """The zeros of one event function in a run.

    Parameters
    ----------
    name : str
        Of the function.
    t : ndarray, shape (K,)
        When.
    u : ndarray, shape (K, n)
        States there.
    direction : ndarray of int, shape (K,)
        1 where the function grows, -1 where it falls.

    Examples
    --------
    >>> solution = ds.solve("pendulum", rtol=1e-8, events=[lambda u, t: u[0]])
    >>> found = solution.events[0]
    >>> len(found), found.u.shape
    (2, (2, 5))
    """

    name: str
    t: NDArray[np.float64]
    u: NDArray[np.float64]
    direction: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.t)

    def plain(self) -> dict[str, Any]:
        """The record in lists, for a file; ``EventRecord.of`` is the inverse."""
        return {"name": self.name} | {name: getattr(self, name).tolist() for name in ("t", "u", "direction")}

    @classmethod
    def of(cls, plain: Mapping[str, Any], n: int) -> EventRecord:
        """The record that :meth:`plain` has written, with states of n unknowns."""
        t = np.array(plain["t"], dtype=np.float64)
        u = np.array(plain["u"], dtype=np.float64).reshape(len(t), n)
        return cls(str(plain["name"]), t, u, np.array(plain["direction"], dtype=np.int64))


StateFunction = Callable[[MeshDAE, float], float]  # Of the state and the time.
LineFunction = Callable[[float], float]  # Of the place in a step, in units of the step.


class AcceptedStep(NamedTuple):
    """An accepted step: its level, start and size, the states at both ends, and u' at the start."""

    level: Any
    time: float
    dt: float
    start: Any
    end: Any
    slope: Any
    n_slopes: int
    # Places of stages that were solved one by one, and u there.
    within: tuple[tuple[float, ...], Any] = ((), ())

    @classmethod
    def of(cls, L: Any, n_slopes: int) -> AcceptedStep:
        """The step that a level has taken."""
        within = getattr(L.sweep, "within_step", ((), ()))
        return cls(L, L.time, L.dt, L.u[0], L.uend, L.f[0], n_slopes, within)

    @property
    def rounding(self) -> float:
        """Rounding of the times in the step, in units of the step."""
        return 4.0 * EPS * max(abs(float(self.time)), abs(float(self.time) + float(self.dt))) / float(self.dt)


class Curve:
    """u on a step, and a little beyond its end, by its ends alone or also by ``stages`` solved one by one."""

    def __init__(self, step: AcceptedStep, stages: bool = False) -> None:
        self.time, self.dt, self.n_diff = step.time, step.dt, step.level.prob.n_diff
        start, end, polynomial = step.start.view(np.ndarray), step.end.view(np.ndarray), step.end.polynomial
        n_slopes, collocation = step.n_slopes, getattr(step.level.sweep, "collocation", True)
        data = step_data(self.time, self.dt, start, end, polynomial, collocation, n_slopes)
        self._scheme, self._rows = data.scheme, data.rows
        self._others = data.scheme, data.rows  # Of the unknowns that are not integrated.
        # Dense output takes slopes that the method does not give from difference quotients with later steps.
        self.is_guess = data.scheme == HERMITE
        if self.is_guess:
            before = step.start.polynomial
            first = step.slope if before is None else before.derivative_at_end()
            slopes = self.dt * np.array([first, polynomial.derivative_at_end()])
            self._rows = np.vstack([start, end, slopes])
            self._scheme = HERMITE._replace(first=n_slopes)
            self._by_stages = np.arange(len(start)) >= n_slopes
            if stages:
                self._by_stages |= step.level.prob.is_algebraic
            # The method gives no derivative of unknowns that a constraint fixes, but their values at stages.
            places, inner = step.within if stages else ((), ())
            self._others = Scheme((0.0, *places, 1.0)), np.array([start, *inner, end])
        # An unknown that stays, such as one that events alone change, is constant to the last bit.
        values, rate = self._rows[: len(self._scheme.points)], polynomial.derivative_at_end()
        self._start, self._stays = start, (values == start).all(axis=0) & (rate == 0.0)
        self.points = _samples(self._others[0].points)

    def values(self, thetas: tuple[float, ...]) -> Vector:
        """u at several places in units of the step, shape (K, n)."""
        return self._weighted(weights_at(self._scheme, thetas)[0], weights_at(self._others[0], thetas)[1])

    def state(self, theta: float) -> MeshDAE:
        """u at a place in units of the step."""
        place = np.array([theta])
        every, some = self._scheme.weights(place, 0)[0], self._others[0].weights(place, 0)[1]
        return attach(self._weighted(every, some)[0], self.n_diff)

    def _weighted(self, every: Vector, some: Vector) -> Vector:
        if self.is_guess:
            values: Vector = np.where(self._by_stages, some @ self._others[1], every @ self._rows)
        else:
            k = self._scheme.first if self._scheme.without else self._rows.shape[1]
            values = np.hstack([every @ self._rows[:, :k], some @ self._rows[:, k:]])
        return np.where(self._stays, self._start, values)


@lru_cache(maxsize=64)
def _samples(points: tuple[float, ...]) -> tuple[float, ...]:
    """Where to look at a function: the nodes, both ends, and the middles between."""
    known = sorted({0.0, *points, 1.0})
    return tuple(sorted({*known, *(0.5 * (a + b) for a, b in pairwise(known))}))


class _Crossing(NamedTuple):
    """A zero: where in the step, and the sign of the function after it."""

    theta: float
    side: int


# What a switch has in place of an event of the user: every zero counts, and changes the equations.
_SWITCH = Event(lambda u, t: np.nan, change=lambda u, t: None)


class _Watch:
    """One function along a run: on which side of its zeros it is."""

    def __init__(self, name: str, side: int = 0, may_rest: bool = False, event: Event = _SWITCH) -> None:
        self.name, self.side, self.event = name, side, event
        self.size = 0.0  # largest in the run
        self.may_rest = may_rest  # at 0 for a while, which is then its side
        self.is_kink = False  # whether the equations are equal on both sides of its zeros
        self.slack = 0.0  # part of its size that is no zero yet
        self.tolerance = 0.0  # not 0: the function has not left its last zero by more
        self.noise = 0.0
        self.leaves = False  # its last zero for its side, behind a change
        self.due = -np.inf  # the last of its times that are known
        self.at_moment = False  # whether such a time has come
        self.held: bool | None = False  # whether its condition held before all that happens; None: it waits
        self.now = False  # and holds behind it
        self.settles = True  # where dense output has its zeros, as it reads nothing but what has slopes
        self.times: list[float] = []
        self.states: list[Vector] = []
        self.sides: list[int] = []
        self.within: list[tuple[float, float] | None] = []

    @property
    def changes(self) -> bool:
        """Whether its zeros change the equations or the state, or may be none."""
        return self.event.change is not None or self.event.is_decided_behind

    @property
    def begins(self) -> bool:
        """Whether its condition begins to hold, or ceases if that counts too."""
        return self.held is not None and self.now != self.held and (self.now or self.event.ceases)

    def is_due(self, t: float, slack: float) -> bool:
        """Whether one of its times has come."""
        times = self.event.times
        return times is not None and any(True for _ in times(t - slack, t + slack))

    def said(self, t: float) -> str:
        """What is told where its event happens."""
        text = self.event.message or f"the run ended at event '{self.name}'"
        return f"{text} at t={t:.10g}"

    def keep(self, t: float, u: Vector, side: int, within: tuple[float, float] | None = None) -> None:
        """Record a zero, and the ends of its step where the dense output there is not known yet."""
        self.within.append(within)
        self.times.append(float(t))
        self.states.append(np.array(u))
        self.sides.append(side)

    def returns(self, least: float) -> bool:
        """Whether its last zeros, from side to side, are no farther from one another than a time."""
        near = len(self.times) >= RETURNS and self.times[-1] - self.times[-RETURNS] <= least
        stands = near and not self.side and self.times[-1] == self.times[-RETURNS]  # at 0 in between
        return stands or (near and bool(np.all(np.diff(self.sides[-RETURNS:]))))

    def forget(self, since: float) -> None:
        """Drop the zeros from a time on."""
        first = int(np.searchsorted(self.times, since))
        for entries in (self.times, self.states, self.sides, self.within):
            del entries[first:]

    def settle(self, dense: DenseOutput, n_diff: int) -> None:
        """Move zeros that were found without dense output to where this has them."""

        def value(t: float) -> float:
            return self.event.function(attach(dense(t), n_diff), t)

        for place, within in enumerate(self.within if self.settles else ()):
            if within is not None and value(within[0]) * value(within[1]) < 0.0:
                t = self.zero_between(value, *within, EPS * (within[1] - within[0]))
                self.times[place], self.states[place], self.within[place] = t, dense(t), None

    def record(self, n: int) -> EventRecord:
        """The zeros that were found, with states of n unknowns."""
        states = np.array(self.states).reshape(len(self.times), n)
        return EventRecord(self.name, np.array(self.times), states, np.array(self.sides, dtype=np.int64))

    def scan(
        self,
        value: LineFunction,
        thetas: Sequence[float],
        values: Sequence[float],
        floor: float,
        least: float,
    ) -> tuple[list[_Crossing], tuple[int, float, float]]:
        """The zeros within a step, in order, and side, tolerance and noise of the function after them."""
        # It may rest near the zero it has crossed, but for rounding, which gives it values up to ``least``.
        if 0.0 < max(map(abs, values)) <= max(self.tolerance, least):
            return [], (self.side, self.tolerance, self.noise)
        thetas, values = self._with_extrema(value, list(thetas), list(values))
        largest = max(map(abs, values))
        # The largest slope between samples that are not next to one another.
        gaps, changes = np.diff(thetas), np.abs(np.diff(values))
        steepest = float((changes[gaps > 1e-6] / gaps[gaps > 1e-6]).max(initial=0.0))
        noise = min(max(ZERO_VALUE * largest, 8.0 * floor * steepest), 1e-3 * largest)
        side, tolerance, crossings = self.side, self.tolerance, []
        resting = self._resting(value, thetas, values) if self.may_rest else ()
        slack = ZERO_VALUE * self.size + LEAST_TOLD if self.event.message else self.slack * self.size or -1.0
        slight = [side * v <= 0.0 and abs(v) <= slack and abs(v) != TIE for v in values]
        for j, v in enumerate(values):
            if resting and (resting[j] or side == 0):
                new = 0 if resting[j] else int(np.sign(v))
                if new != side and not (new and abs(v) <= tolerance):
                    crossings.append(_Crossing(self._place(value, thetas, values, j), new))
                    side, tolerance = new, 0.0 if new else noise
            elif side == 0:
                side = int(np.sign(v)) if abs(v) > noise else 0
            elif (tolerance > 0.0 and abs(v) <= tolerance) or (resting and v == 0.0) or slight[j]:
                continue
            elif side * v > 0.0:
                tolerance = 0.0
            else:
                side = -side
                crossings.append(_Crossing(self._place(value, thetas, values, j), side))
                tolerance = noise if abs(v) <= noise else 0.0
        return crossings, (side, tolerance, noise)

    @staticmethod
    def _resting(value: LineFunction, thetas: Sequence[float], values: Sequence[float]) -> list[bool]:
        """For each sample whether the function stays at exactly 0 there, and does not pass it."""
        zero = [v == 0.0 for v in values]
        beside = [False, *zero, False]
        both = zip(beside, beside[2:], strict=False)
        rests = [here and (before or after) for here, (before, after) in zip(zero, both, strict=True)]
        if zero[-1] and not rests[-1]:
            rests[-1] = value(thetas[-1] + BEYOND_REST) == 0.0
        return rests

    def set_side(self, state: tuple[int, float, float]) -> None:
        self.side, self.tolerance, self.noise = state
        self.leaves = False

    def _place(self, value: LineFunction, thetas: Sequence[float], values: Sequence[float], j: int) -> float:
        """Where the function leaves the sign that it has before sample j."""
        if j == 0:
            return thetas[0]
        (a, b), (at_a, at_b) = thetas[j - 1 : j + 1], values[j - 1 : j + 1]
        if self.leaves and j == 1:
            # It has left its zero and come back between two samples.
            for k in range(SMALLEST_ARC):
                inner, outer = a + (b - a) * 0.5 ** (k + 1), a + (b - a) * 0.5**k
                if value(inner) * at_b < 0.0:
                    return self.zero_between(value, inner, outer, 0.25 * EPS)
            return a
        if at_a * at_b > 0.0:
            return a
        if at_a == 0.0 or at_b == 0.0:
            return _leaves(value, a, b, at_a) if self.may_rest else a if at_a == 0.0 else b
        return self.zero_between(value, a, b, 0.25 * EPS)

    def is_no_function(self) -> InputError:
        """The error of a function that has two values at one point."""
        return InputError(
            f"the function of '{self.name}' gives another value at the same t and u than it gave before; "
            f"it must depend on t and u alone"
        )

    def zero_between(self, value: LineFunction, a: float, b: float, xtol: float) -> float:
        """A zero between two places at which the function had values of different signs."""
        try:
            return float(brentq(value, a, b, xtol=xtol, rtol=4.0 * EPS, maxiter=200))
        except ValueError:
            at_a, at_b = value(a), value(b)
            if (at_a, at_b) == (value(a), value(b)):
                if np.sign(at_a) == np.sign(at_b):  # but for rounding
                    return a if abs(at_a) <= abs(at_b) else b
                raise  # one of the function's own
            raise self.is_no_function() from None

    @staticmethod
    def _with_extrema(
        value: LineFunction, thetas: list[float], values: list[float]
    ) -> tuple[list[float], list[float]]:
        """The samples, and extrema between them at which the function has the other sign."""
        more: dict[float, float] = {}
        for j in range(len(thetas) - 2):
            (a, b, c), (x, y, z) = thetas[j : j + 3], values[j : j + 3]
            side = np.sign(y)
            if not side * x > 0.0 < side * z:
                continue
            left, right = (y - x) / (b - a), (z - y) / (c - b)
            bend = (right - left) / (c - a)
            if side * bend <= 0.0:
                continue
            vertex = 0.5 * (a + b - left / bend)
            lowest = y + (vertex - b) * (left + bend * (vertex - a))
            if not a < vertex < c or side * lowest > 0.25 * max(abs(x), abs(y), abs(z)):
                continue
            about: Any = {"bounds": (a, c), "method": "bounded", "options": {"xatol": 1e-9 * (c - a)}}
            place = float(minimize_scalar(lambda x, side=side: side * value(x), **about).x)
            at_place = value(place)
            if side * at_place < 0.0:
                more[place] = at_place
        if not more:
            return thetas, values
        every = sorted({**dict(zip(thetas, values, strict=True)), **more}.items())
        return [theta for theta, _ in every], [v for _, v in every]


def _farthest(table: list[list[float]], noise: Sequence[float], count: int) -> int | None:
    """The one of ``count`` samples in a step that is farthest from all zeros; None if all are near one."""
    # ``noise``: values that tell no side. Of a function that rests near 0 but for rounding no sample does.
    if not table:
        return 1
    inside = np.arange(1, count - 1)
    distances = np.ones(len(inside))
    for values, least in zip(table, noise, strict=True):
        sizes = np.abs(np.array(values)[inside])
        if 0.0 < sizes.max() <= least:
            return None
        if sizes.any():  # else it rests at 0
            distances = np.minimum(distances, sizes / sizes.max())
    far = int(np.argmax(distances))
    return int(inside[far]) if distances[far] > NEAR_BORDER else None


def _leaves(value: LineFunction, a: float, b: float, at_a: float) -> float:
    """Where a function that has another sign at b leaves that which it has at a."""
    sign = np.sign(at_a)
    while b - a > 0.25 * EPS and a < (middle := 0.5 * (a + b)) < b:
        a, b = (middle, b) if np.sign(value(middle)) == sign else (a, middle)
    return b if at_a else a


class _Scan(NamedTuple):
    """A function on a step: values at the samples, and what :meth:`_Watch.scan` gives."""

    watch: _Watch
    values: list[float]
    crossings: list[_Crossing]
    state: tuple[int, float, float]

    def stop(self) -> float | None:
        """Where in the step the run must stop for the function; None if it need not."""
        event = self.watch.event
        counted = [crossing.theta for crossing in self.crossings if event.counts(crossing.side)]
        missing = 1 if self.watch.changes else event.last - len(self.watch.times)
        return counted[missing - 1] if 0 < missing <= len(counted) else None


@dataclass
class _Sampled:
    """A step, with the values of all functions at places in it, of which some may lie beyond its end."""

    step: AcceptedStep
    thetas: tuple[float, ...]  # The K places, in units of the step.
    count: int  # Number of those up to its end.
    states: list[MeshDAE]
    times: list[float]
    table: Vector  # Shape (functions, K).

    @cached_property
    def curve(self) -> Curve:
        """The solution on the step."""
        return Curve(self.step, stages=True)

    def is_of(self, other: AcceptedStep) -> bool:
        """Whether it is of a step that was solved again since."""
        own = self.step
        same = (own.time, own.dt) == (other.time, other.dt) and np.array_equal(own.start, other.start)
        return same and np.array_equal(own.end, other.end)


class Sliding(NamedTuple):
    """Where a run has ended because both sides of a switch lead back to its zero."""

    switch: int
    t: float
    u: MeshDAE


class _Aim(NamedTuple):
    """A zero that a step is to end at."""

    watch: _Watch  # The function.
    whole: float  # Size of the step before it was made shorter.
    attempts: int  # How often it has been repeated.


def _sampled_ahead(
    L: Any, start: MeshDAE, taken: Taken, n_slopes: int
) -> tuple[list[AcceptedStep], tuple[float, ...], Vector, Vector]:
    """Steps that were taken ahead, places in each of them, and the states and times there."""
    # Shapes: K steps, P places -> states (K, P, n), times (K, P).
    P, count = L.prob, len(taken.starts)
    places = list(zip(taken.starts.tolist(), taken.sizes.tolist(), strict=True))
    states = [start, *(taken.end(k, P.n_diff) for k in range(count))]
    inner = [0.0 < c < 1.0 for c in taken.nodes]
    at = tuple(c for c, some in zip(taken.nodes, inner, strict=True) if some)
    stages = taken.u[1:].reshape(count, len(inner), P.n)[:, inner]
    steps = [
        AcceptedStep(L, *place, *pair, None, n_slopes, (at, values))
        for place, pair, values in zip(places, pairwise(states), stages, strict=True)
    ]
    if taken.collocation:
        data = StepsInRow(taken, n_slopes)
        scheme, rows = data[0].scheme, np.array([step.rows for step in data])
        points = _samples(scheme.points)
        stays = (rows == rows[:, :1]).all(axis=1) & (taken.du[:, -1] == 0.0)
        values = np.where(stays[:, None], rows[:, :1], weights_at(scheme, points)[0] @ rows)
    else:
        points = Curve(steps[0], stages=True).points
        values = np.array([Curve(step, stages=True).values(points) for step in steps])
    values[:, 0], values[:, -1] = states[:-1], states[1:]
    return steps, points, values, taken.starts[:, None] + taken.sizes[:, None] * np.array(points)


def _near_zero(watches: list[_Watch], points: tuple[float, ...], table: Vector) -> list[tuple[int, bool]]:
    """Numbers of functions that may have a zero in a step, and whether their rows of values resolve them."""
    if not watches:
        return []
    known = table[:, : len(points)]
    sizes = np.abs(known).max(axis=1)
    largest = np.array([watch.size for watch in watches])
    for i in np.flatnonzero(sizes > largest).tolist():
        watches[i].size = largest[i] = float(sizes[i])
    least = np.maximum(ZERO_VALUE * largest, [watch.tolerance for watch in watches])
    looked = (least < sizes) & (sizes < np.inf)
    resolved = ~looked | are_resolved(points, known)
    # A function that has left its last zero and stays on its side.
    sides = np.array([watch.side if watch.tolerance == 0.0 else 0 for watch in watches])
    signed = sides[:, None] * table
    most = signed.max(axis=1)
    far = resolved & (most > 0.0) & (signed.min(axis=1) > NO_EXTREMUM_ABOVE * most)
    for i in np.flatnonzero(far).tolist():
        watches[i].noise = ZERO_VALUE * float(most[i])
    return [(i, bool(resolved[i])) for i in np.flatnonzero(~far).tolist()]


def _refined(
    name: str, function: StateFunction, curve: Curve, thetas: Sequence[float], values: Sequence[float]
) -> tuple[Sequence[float], Sequence[float]]:
    """Places and values of a function that resolve it in a step; InputError if it changes too often."""

    def many(places: Vector) -> Vector:
        states = curve.values(tuple(places.tolist()))
        times = (curve.time + places * curve.dt).tolist()
        return np.array([function(attach(u, curve.n_diff), t) for u, t in zip(states, times, strict=True)])

    middle = curve.time + 0.3 * curve.dt
    timed = function(curve.state(0.0), middle) == function(curve.state(1.0), middle)
    most = MOST_VALUES if timed else MOST_STATES
    more, there = samples(many, np.array([0.0, 1.0]), name, cells=1, narrowest=1e-7, most=most)
    every = dict(zip(more.tolist(), there.tolist(), strict=True)) | dict(zip(thetas, values, strict=True))
    places = sorted(every)
    return places, [every[place] for place in places]


def _along(function: StateFunction, sampled: _Sampled) -> LineFunction:
    """A function of the place in the step."""
    step, curve = sampled.step, sampled.curve

    def value(theta: float) -> float:
        u = step.end if theta == 1.0 else step.start if theta == 0.0 else curve.state(theta)
        return function(u, curve.time + theta * curve.dt)

    return value


def _further(aim: _Aim, value: LineFunction) -> float | None:
    """Where beyond the end of the step the zero of a function lies at which it was to end."""
    end = 1.0 + FARTHEST_BEYOND
    at_one, at_end = value(1.0), value(end)
    if np.sign(at_one) == np.sign(at_end):
        return None
    if aim.watch.may_rest and 0.0 in (at_one, at_end):
        return _leaves(value, 1.0, end, at_one)
    return aim.watch.zero_between(value, 1.0, end, 0.25 * EPS)


@dataclass(eq=False)
class _Functions:
    """The functions that are looked at along the steps of a run."""

    events: list[_Watch]
    switches: list[_Watch]
    n_diff: int
    doubtful: dict[str, float] = field(default_factory=dict)  # Those that change too often, and since when.

    @property
    def remark(self) -> str:
        """What events tell, and what is to be said of functions that change too often within a step."""
        tell = (watch for watch in self.events if watch.event.message and not watch.event.success)
        told = [watch.said(watch.times[0]) for watch in tell if watch.times]
        parts = [f"'{name}' changes so often from t={t:.6g} on" for name, t in self.doubtful.items()]
        told += [f"{', '.join(parts)} that zeros may be missing; bound the steps by dt_max"] * bool(parts)
        return "; ".join(told)

    @property
    def failed(self) -> bool:
        """Whether an event with a message has ended the run, and not with success."""
        ends = (each for each in self.events if each.event.message and not each.event.success)
        return any(0 < each.event.last <= len(each.times) for each in ends)

    @property
    def located(self) -> list[_Watch]:
        """The events at zeros of their functions."""
        return [watch for watch in self.events if watch.event.located]

    def of_watch(self, P: ProblemDAE, watch: _Watch) -> StateFunction:
        """What is watched, as a function of the state and the time."""
        if watch.event is not _SWITCH:
            return watch.event.function
        number = self.switches.index(watch)
        return lambda u, t: self.switch_values(P, u, t)[number]

    def sampled(
        self, step: AcceptedStep, thetas: tuple[float, ...], values: Vector, times: Vector, switches: Vector
    ) -> _Sampled:
        """The values of all functions at K places in a step."""
        # Shapes: values (K, n), times (K,), switches (K, W).
        states, at = [attach(row, self.n_diff) for row in values], times.tolist()
        states[0], states[thetas.index(1.0)] = step.start, step.end
        table = np.empty((len(self.events) + len(self.switches), len(at)))
        table[len(self.events) :] = switches.T
        for row, watch in zip(table, self.events, strict=False):
            row[:] = 1.0  # of an event whose times are known, at which steps end
            if watch.event.located:
                several = watch.event.several
                row[:] = several(values, times) if several else np.nan
                if not np.isfinite(row).all():
                    row[:] = list(map(watch.event.function, states, at))
        return _Sampled(step, thetas, thetas.index(1.0) + 1, states, at, table)

    def switch_table(self, P: ProblemDAE, u: Vector, t: Vector) -> Vector:
        """Values of the switches at K states of shape (K, n), shape (K, W)."""
        if not self.switches:
            return np.empty((len(t), 0))
        known: Any = P
        # Of a class that has other switches than its base, they are not those of the base at several states.
        owner = next(base for base in type(P).__mro__ if {"switches", "event"} & vars(base).keys())
        if "switches_at" in vars(owner):
            values: Vector = known.switches_at(u, t)
            if np.isfinite(values).all():
                return values
        states = [attach(row, self.n_diff) for row in u]
        return np.array([self.switch_values(P, *at) for at in zip(states, t.tolist(), strict=True)])

    def _rounding(self, step: AcceptedStep) -> list[float]:
        """Values that rounding of the unknowns in a step may give each function; 0 for events."""
        P, (start, end) = step.level.prob, (each.view(np.ndarray) for each in (step.start, step.end))
        least = np.zeros(len(self.events) + len(self.switches))
        known = bool(self.switches) and hasattr(P, "switches_at")
        read = np.arange(P.n)[P.switches_read if known else []]
        if 0 < len(read) * P.n <= MOST_VALUES:
            moves = np.diag(MOVED_SIZE * np.maximum(np.abs(start), np.abs(end)))[read]
            table = self.switch_table(P, np.vstack([end + moves, end]), np.full(len(read) + 1, step.time))
            changes = np.abs(table[:-1] - table[-1]).max(axis=0) / MOVED_SIZE
            least[len(self.events) :] = ROUNDED * np.where(np.isfinite(changes), changes, 0.0)
        return least.tolist()

    def scans(self, sampled: _Sampled, ahead: bool = False) -> Any:
        """What :meth:`_Watch.scan` gives for functions that are not far from 0 along a step."""
        # None for a step taken ahead in which the run may have to stop.
        step, table, scans, least = sampled.step, sampled.table, [], list[float]()
        watches = [*self.events, *self.switches]
        for i, is_resolved in _near_zero(watches, sampled.thetas[: sampled.count], table):
            watch, values, least = watches[i], table[i].tolist(), least or self._rounding(step)
            crosses = ahead and (watch.side * table[i]).min() < -max(watch.tolerance, least[i])
            if crosses and (watch.changes or watch.event.last > 0):
                return None
            function, curve = self.of_watch(step.level.prob, watch), sampled.curve
            known: tuple[Any, ...] = sampled.thetas, values
            if not is_resolved:
                try:
                    known = _refined(watch.name, function, curve, *known)
                except InputError:
                    self.doubtful.setdefault(watch.name, curve.time)
            known = *known, step.rounding, least[i]
            scans.append(_Scan(watch, values, *watch.scan(_along(function, sampled), *known)))
        return scans

    def switch_values(self, P: ProblemDAE, u: MeshDAE, t: float) -> list[float]:
        values = list(P.switches(u, t))
        # Asking for Real costs twenty times as much; a finite sum has no other terms.
        if not (set(map(type, values)) <= {float} and isfinite(sum(values))):
            name = type(P).__name__
            values = [continuous(value, f"switch {i} of {name}", t) for i, value in enumerate(values)]
        _require_as_many(P, "switches", len(values), len(self.switches), t)
        return values


class LocateEvents(MarkingControl):
    """Finds zeros of event functions and of the switches of the problem on every accepted step.

    A step with a terminal event or a switch in it is repeated so that it ends there. After a switch the
    problem takes the other branch, from a state that is consistent with it. It runs in pySDC's own
    controllers, too, whose statistics get the times of zeros as ``event`` and ``switch``.

    Its parameters are the user's ``events``, see :func:`as_events`; ``span``, the length of the run, by which
    progress between switches is judged; ``n_slopes``, see :func:`accurate_slopes`; ``sides``, those in force
    at the start; ``requires_convergence``: whether steps above their residual tolerance are left alone; and
    ``slides``: whether the run ends, as ``sliding``, where both sides of a switch lead back to its zero.
    """

    order = 300  # when the step has been accepted
    defaults: ClassVar = {
        **{"events": (), "span": None, "n_slopes": None, "requires_convergence": False},
        **{"sides": None, "slides": False},
    }

    def __init__(self, controller: Any, params: dict[str, Any], description: dict[str, Any]) -> None:
        super().__init__(controller, params, description)
        self.params.events = as_events(self.params.events)
        driver = driver_of(controller, description)
        self._driven = driver is not None
        if driver is not None:
            driver.events = self
        self.events: list[_Watch] = []
        self.switches: list[_Watch] = []
        self.functions = _Functions([], [], 0)
        self.timed: list[_Watch] = []  # switches whose times are known before
        self._timed_values: tuple[float, ...] = ()
        self._steps: Any = None
        self._forget()

    def _forget(self) -> None:
        """Forget what has happened in the last run."""
        self.message, self.finished, self._most_ahead = "", False, FEWEST_AHEAD
        self.behind: tuple[float, Vector] | None = None  # A time, and u and u' behind its last changes.
        self.sliding: Sliding | None = None
        self.aim: _Aim | None = None  # To be forgotten where something else lets the step be repeated.
        self._left: _Sampled | None = None  # The step that was left to the controller.
        self._switched: list[_Watch] = []
        self._told, self._without_progress, self._last_switch, self._slack = 0, 0, -np.inf, 0.0
        self._begun: list[_Watch] = []  # The events that have begun the changes of a time.
        self._jumps: list[Jump] = []  # The last of the unknowns that a homotopy has followed.
        self.course: list[tuple[float, tuple[int, ...]]] = []  # When switches take which sides.

    def begin(self, L: Any, t0: float, u0: MeshDAE, steps: Any) -> MeshDAE:
        """Begin a run; the state to start from, on a border that of the side in force."""
        self._forget()
        P, self._steps = L.prob, steps
        if self.params.n_slopes is None:
            self.params.n_slopes = accurate_slopes(type(L.sweep), P)
        P.hold_sides(self.params.sides)
        count, names = len(P.switches(u0, t0)), names_given(P, "switch_names")
        if names and len(names) != count:
            counts = f"{count} switches and {len(names)} switch_names"
            raise InputError(f"{type(P).__name__} has {counts}; name each once")
        names, sides = names or tuple(f"switch {i}" for i in range(count)), P.sides(u0, t0)
        _require_as_many(P, "sides", len(sides), len(names), t0)
        P.hold_sides(sides)
        self.course.append((t0, sides))
        may_rest = getattr(P, "switches_rest", False)
        tolerance = getattr(L.sweep, "tolerance", None)
        self._usual, self._accuracy = L.params.dt, ZERO_VALUE if tolerance is None else tolerance.rtol
        self.switches = [_Watch(name, side, may_rest) for name, side in zip(names, sides, strict=True)]
        for watch, jump in zip(self.switches, P.watched_jumps, strict=False):
            watch.is_kink, watch.slack = jump.is_kink, self._accuracy * jump.passes
            watch.may_rest = may_rest and not jump.passes
        self.events = [_Watch(event.name, event=_checked(event)) for event in self.params.events]
        self._judged = [watch for watch in self.events if watch.event.judged]
        for watch in self.events:
            # One with a message counts where it has happened at the start of the run.
            watch.side = -int(np.sign(event.direction)) if (event := watch.event).message else event.side
            watch.settles = not unknowns_read(event, u0, t0)[P.is_algebraic].any()
        self.functions = _Functions(self.events, self.switches, P.n_diff)
        for watch, value in zip(self.switches, self.functions.switch_values(P, u0, t0), strict=True):
            # A switch that the run begins at is not to act by the rounding of its value.
            watch.tolerance = SIDE_SLACK if abs(value) <= SIDE_SLACK else 0.0
        self.timed = [_Watch(name) for name in getattr(P, "timed_switch_names", ())]
        if self.timed:
            P.start_step(u0, t0)
        self._timed_values = getattr(P, "timed_values", ())
        h = RESTART_STEP * float(self.params.span or self._usual)
        for watch in self.events:
            if watch.event.located:  # it may rest at 0 but for rounding
                slack, value = _rounding(watch.event.function, u0, t0), watch.event.function(u0, t0)
                slack = max(slack, watch.event.slack)
                if value != watch.event.function(u0, t0) and np.isfinite(value):
                    raise watch.is_no_function()
                watch.tolerance = slack if abs(value) <= slack else 0.0
                is_known = watch.side != 0 or watch.event.slack > 0.0 or abs(value) != TIE
                watch.side = watch.side if is_known else int(np.sign(value))
        first = self._begun = [each for each in self.events if each.event.at_start and each.is_due(t0, 0.0)]
        if first:  # which is no event of conditions that hold by it
            for watch in self.events:
                watch.at_moment = watch in first
                watch.due, watch.held = (t0, False) if watch.at_moment else (watch.due, None)
            self._switched += first
            u0, _ = self._behind_changes(P, u0, t0, h)
            for watch in first:
                watch.at_moment = False
            self._begun = []
            self._switched += self._begin(P, u0, t0, u0)
        self._keep_due(t0, u0, 0.0)
        for watch in self.functions.located if first or self._switched else ():
            if not watch.event.message:
                value = watch.event.function(u0, t0)
                watch.side = int(np.sign(value))
                watch.tolerance = SIDE_SLACK if abs(value) <= SIDE_SLACK else 0.0
        if self._switched:
            u0, _ = self._behind_all_changes(P, u0, t0, h)
        if all(watch.tolerance == 0.0 for watch in self.switches) or self._slides_at_once(P, t0, u0, h):
            return u0
        start = MeshDAE(u0)  # of a jump that has a value of its own on its border
        jump_behind(P, start, t0, h)
        # What it has where time begins to move it is no size of an unknown.
        np.maximum(P.run_scales.moves, np.abs(start - u0), out=P.run_scales.moves)
        return start

    @property
    def watches(self) -> list[_Watch]:
        """Everything whose zeros are recorded."""
        return [*self.events, *self.switches, *self.timed]

    def get_state(self) -> dict[str, Any]:
        """Zeros found, and state on which later steps depend, for a checkpoint between two steps."""
        saved = {name: getattr(self, name) for name in SAVED}
        watches = [{name: x for name, x in vars(each).items() if name != "event"} for each in self.watches]
        return saved | {"watches": watches}

    def set_state(self, kept: Mapping[str, Any]) -> None:
        """Restore what :meth:`get_state` gave."""
        for watch, known in zip(self.watches, kept["watches"], strict=True):
            vars(watch).update(known)
        for name in SAVED:
            setattr(self, name, kept[name])

    def pack(self) -> dict[str, Any]:
        """The state within a block of steps, for another rank."""
        watches, aim = self.watches, self.aim
        return self.get_state() | {
            "aim": None if aim is None else (watches.index(aim.watch), *aim[1:]),
            "switched": [watches.index(watch) for watch in self._switched],
            "ended": (self.finished, self.message, self._told),
        }

    def unpack(self, packed: Mapping[str, Any]) -> None:
        """Take what :meth:`pack` gave."""
        self.set_state(packed)
        watches, aim = self.watches, packed["aim"]
        self.aim = None if aim is None else _Aim(watches[aim[0]], *aim[1:])
        self._switched = [watches[number] for number in packed["switched"]]
        self.finished, self.message, self._told = packed["ended"]

    def news(self) -> list[tuple[str, float]]:
        """Kind, "event" or "switch", and time of the zeros that were found since this was last asked."""
        pairs = [("event", time) for watch in self.events for time in watch.times]
        pairs += [("switch", time) for watch in (*self.switches, *self.timed) for time in watch.times]
        pairs.sort(key=itemgetter(1))
        new, self._told = pairs[self._told :], len(pairs)
        return new

    def settle(self, dense: DenseOutput | None) -> None:
        """Move zeros on steps without a polynomial of their own to where dense output has them."""
        if dense is not None:
            for watch in self.events:
                watch.settle(dense, self.functions.n_diff)

    # --- on a step ------------------------------------------------------------------------------------------

    def determine_restart(self, controller: Any, S: Any, **kwargs: Any) -> None:
        """Find zeros on a step that is accepted so far."""
        if self._driven or not S.status.done:
            return
        if S.status.restart:
            self.aim = None
            return
        wanted = self.examine(S)
        if wanted is not None:
            S.status.restart = True
            self._steps.repeat_step(wanted)

    def examine(self, S: Any) -> float | None:
        """Keep the zeros on an accepted step and return None, or return the size with which to repeat it."""
        aim, self.aim = self.aim, None
        if self.params.requires_convergence and unconverged(S):
            return None
        step = AcceptedStep.of(S.levels[0], self.params.n_slopes)
        time, dt, floor = float(step.time), float(step.dt), step.rounding
        if aim is None:
            self._usual = step.dt
        whole, attempts = (dt, 0) if aim is None else aim[1:]
        near = (END_SLACK + floor) * 10.0 ** max(0, attempts - STRICT_ATTEMPTS)
        sampled = self._left
        if aim is not None or sampled is None or not sampled.is_of(step):
            curve = Curve(step, stages=True)
            behind = max(BEYOND_END, 2.0 * min(near, LARGEST_BEYOND + 4.0 * floor))
            beyond = () if aim is None else (1.0 + behind,)
            thetas = (*curve.points, *beyond)
            values, times = curve.values(thetas), np.array([time + theta * dt for theta in thetas])
            # The states at both ends, to the last bit.
            values[0], values[len(curve.points) - 1] = step.start, step.end
            switches = self.functions.switch_table(step.level.prob, values, times)
            sampled = self.functions.sampled(step, thetas, values, times, switches)
        scans = self.functions.scans(sampled)
        stops = [(theta, scan.watch) for scan in scans if (theta := scan.stop()) is not None]
        first = min((theta for theta, _ in stops), default=np.inf)
        if first < 1.0 - near:
            leader = next(watch for theta, watch in stops if theta == first)
            once = leader.is_kink and time > self.course[0][0] and leader.times[-1:] != [time]
            if first <= max(KINK_SLACK if once else START_SLACK, floor):
                return self._stop_at_start(step.level, scans, first)
            self.aim = _Aim(leader, whole, attempts + 1)
            return first * dt
        if aim is not None and all(watch is not aim.watch or theta > 1.0 + near for theta, watch in stops):
            further = _further(aim, _along(self.functions.of_watch(step.level.prob, aim.watch), sampled))
            if further is not None and 1.0 + near < further and further * dt < whole:
                self.aim = _Aim(aim.watch, whole, attempts + 1)
                return further * dt
        # Zeros from ``end`` on count as being there.
        self._take_zeros(sampled, scans, near, 1.0 if aim is None and not stops else 1.0 - near)
        return None

    def _take_zeros(self, sampled: _Sampled, scans: list[_Scan], near: float, end: float) -> None:
        """Keep the zeros within a step that stays as it is."""
        step = sampled.step
        for watch, values, crossings, state in scans:
            watch.set_side(state)
            if crossings and crossings[-1].theta >= 1.0 - near:
                # The run goes on from the zero itself, on whichever side of it rounding has put the state.
                last = max(abs(values[-1]), abs(values[sampled.count - 1]))
                watch.tolerance = max(watch.noise, 2.0 * last)
        for watch, _, crossings, _ in scans:
            for theta, side in crossings:
                if watch.event.counts(side) and theta >= end:
                    self._keep(watch, step.time + step.dt, step.end, side)
                elif watch.event.counts(side):
                    within = (step.time, step.time + step.dt) if sampled.curve.is_guess else None
                    self._keep(watch, step.time + theta * step.dt, sampled.curve.state(theta), side, within)
        confirm = getattr(step.level.prob, "confirm_jumps", None)
        if confirm is not None:
            noise = [max(ZERO_VALUE * watch.size, watch.tolerance) for watch in self.switches]
            far = _farthest(sampled.table[len(self.events) :].tolist(), noise, sampled.count)
            if far is not None:
                confirm(sampled.states[far], step.end.polynomial.derivative_at_end(), sampled.times[far])

    @property
    def steps_ahead(self) -> int:
        """Number of steps that may be taken before they are looked at; 0 where one is to end at a zero."""
        return self._most_ahead if self.aim is None else 0

    def look_ahead(self, L: Any, start: MeshDAE, taken: Taken) -> int:
        """The number of steps taken ahead before the first in which the run may have to stop."""
        # Zeros on them are kept. The step behind them is left to the controller, which looks at it again.
        count, P = len(taken.starts), L.prob
        steps, points, values, times = _sampled_ahead(L, start, taken, self.params.n_slopes)
        switches = self.functions.switch_table(P, values.reshape(-1, P.n), times.ravel())
        samples, plain = (values, times, switches.reshape(count, len(points), -1)), 0
        with suppress(Exception):  # of the function of an event: the controller takes that step, and tells
            for plain, step in enumerate(steps):
                about = (each[plain] for each in samples)
                sampled = self._left = self.functions.sampled(step, points, *about)
                scans = self.functions.scans(sampled, ahead=True)
                if scans is None or any(scan.stop() is not None for scan in scans):
                    break
                self._usual = step.dt
                self._take_zeros(sampled, scans, END_SLACK + step.rounding, 1.0)
            else:
                plain = count
        self._most_ahead = min(MOST_STEPS, 2 * self._most_ahead) if plain == count else FEWEST_AHEAD
        return plain

    def interrupts(self, t: float) -> bool:
        """Whether the run ends at the end t of an accepted step, or other equations hold from there on."""
        return self.finished or bool(self._switched) or bool(self._steps.at_stop(t))

    def _stop_at_start(self, L: Any, scans: list[_Scan], first: float) -> float:
        """A switch or a terminal event at the very start of the step: it is repeated on the other branch."""
        for watch, _, crossings, state in scans:
            if not crossings or crossings[0].theta > max(first, EPS):
                continue
            if watch.leaves:
                raise _comes_to_rest(watch, L.time)
            side, nominal = crossings[0].side, watch.tolerance > 0.0 and not crossings[0].side
            if nominal:  # it was at 0 and turns out to rest there
                watch.set_side((side, state[2], state[2]))
                self._switched.append(watch)
            elif watch.event.counts(side):
                watch.set_side((side, state[2], state[2]))
                self._keep(watch, L.time, L.u[0], side)
        return float(L.dt)

    def _keep(self, watch: _Watch, t: float, u: Vector, side: int, within: Any = None) -> None:
        """Record a zero of an event, which may be the last, or of a switch, whose other branch is taken."""
        watch.held = side > 0
        if not watch.event.is_decided_behind:
            self._record(watch, t, u, side, within)
        if watch.changes:
            self._switched.append(watch)

    def _record(self, watch: _Watch, t: float, u: Vector, side: int, within: Any = None) -> None:
        watch.keep(t, u, side, within)
        if watch.event.last and len(watch.times) == watch.event.last and not self.finished:
            self.finished, self.message = True, watch.said(t)

    # --- after a step ---------------------------------------------------------------------------------------

    def _keep_due(self, t: float, u: MeshDAE, slack: float) -> None:
        """Record the events whose times are known and have come."""
        for watch in self.events:
            if self.finished or watch.due >= t - slack or not watch.is_due(t, slack):
                continue
            watch.due, watch.at_moment = t, True
            if watch not in self._switched:  # which a zero may have done
                self._keep(watch, t, u, 1)

    def _behind_changes(self, P: ProblemDAE, u: MeshDAE, t: float, h: float) -> tuple[MeshDAE, list[_Watch]]:
        """The state behind all that has happened at a time, and the events that have changed it."""
        changed, before, sides = self._begun, u, tuple(watch.side for watch in self.switches)
        switches = self._judged and sides != self.course[-1][1]
        self._switched.clear()
        self.course.append((t, sides))
        P.hold_sides(sides)
        if switches or not changed:
            u = consistent_restart(P, u, t, h, False, self._jumps)
        if not (changed or self._begin(P, u, t, before)):
            return u, []
        u, acting = self._changed(P, u, t, h, before)
        for watch in acting:
            if watch.event.is_decided_behind or watch.event.beside:
                self._record(watch, t, before, watch.side or 1)
        moved = any(watch.event.change is not None for watch in acting)
        return consistent_restart(P, u, t, h, moved, self._jumps), list(dict.fromkeys([*changed, *acting]))

    def _begin(self, P: ProblemDAE, u: MeshDAE, t: float, before: MeshDAE) -> list[_Watch]:
        """The events whose conditions begin to hold at a state; others may cease to hold."""
        for watch in self._judged:
            watch.now = self._holds(P, watch, u, t, before)
            watch.held = watch.held if watch.begins else watch.now
        return [watch for watch in self._judged if watch.begins]

    def _holds(self, P: ProblemDAE, watch: _Watch, u: MeshDAE, t: float, before: MeshDAE) -> bool:
        """Whether a condition holds behind the changes of a time; where rounding decides, as it did."""
        event, slack = watch.event, self._slack if watch.at_moment else NO_MOMENT
        # A condition whose zero is here has begun or ceased to hold.
        value = event.function(u, t, before, slack)
        known = bool(watch.held) != (watch in self._begun and not watch.at_moment)
        if (value < 0.0) == known:
            return known
        size, function = abs(value), lambda u, t: event.function(u, t, before, slack)
        doubt = size <= max(watch.noise, watch.tolerance, self._accuracy * watch.size)
        if size == TIE:
            doubt = event.located and not _rests(P, function, u, t, RATE_STEP * self._usual)
        elif not doubt and size <= ZERO_VALUE:
            doubt = size <= _rounding(function, u, t)
        return known if doubt else value < 0.0

    def _acting(self, P: ProblemDAE, acted: Container[_Watch], *states: Any) -> Iterator[_Watch]:
        """Events that act, by the state behind, the time and the state before: of alternatives one."""
        leads = served = False
        for watch in self.events:
            event = watch.event
            served = served and (event.otherwise or event.beside)
            acts = leads
            if event.judged and watch not in acted:
                watch.now = self._holds(P, watch, *states)
                acts = not served and watch.begins
            elif not event.beside:
                acts = watch in self._begun and not served
            acts = acts and (watch in acted or event.only is None or bool(event.only(*states)))
            leads, served = leads if event.beside else acts, served or acts
            if acts:
                yield watch

    def _changed(
        self, P: ProblemDAE, u: MeshDAE, t: float, h: float, before: MeshDAE
    ) -> tuple[MeshDAE, list[_Watch]]:
        """The state behind the events of a time, implicit ones last, and those that have acted."""
        state, acted = MeshDAE(u), list[_Watch]()

        def following() -> _Watch | None:
            acting = self._acting(P, acted, state, t, before)
            return next((each for each in acting if not each.event.implicit and each not in acted), None)

        for watch in iter(following, None):
            acted.append(watch)
            event = watch.event
            new = None if event.change is None else event.change(state, t)
            if isinstance(new, Mapping):
                _set(P, state, event, new)
            elif new is not None:
                if np.shape(new) != (P.n,):
                    raise InputError(
                        f"the change of event '{event.name}' returned {shown(new)} at t={t:.10g}; let it "
                        f"return {P.n} values, values by name, or nothing where it writes into u"
                    )
                state[:] = new
        for watch in self._judged:
            watch.held = watch.held if watch.event.implicit else watch.now
        if any(watch.event.implicit for watch in self.events):
            state, acted = self._settled(P, acted, state, before, t, h)
        bad = np.flatnonzero(~np.isfinite(state.view(np.ndarray)))
        if bad.size:
            raise SolveError(
                f"the change of event '{acted[0].name}' gives {state[bad[0]]} for '{P.names[bad[0]]}' at "
                f"t={t:.10g}; check it there"
            )
        return state, acted

    def _settled(
        self, P: ProblemDAE, acted: list[_Watch], u: MeshDAE, before: MeshDAE, t: float, h: float
    ) -> tuple[MeshDAE, list[_Watch]]:
        """The state with implicit changes, by the values of the equations behind them, and what acts."""
        guarded = any(watch.event.is_decided_behind for watch in self.events)
        last, behind = list[_Watch](), consistent_restart(P, u, t, h, True) if acted and guarded else u
        for _ in range(MOST_PASSES):
            acting = [each for each in self._acting(P, acted, behind, t, before) if each.event.implicit]
            state, changes = MeshDAE(u), list[tuple[Event, Any, Any]]()
            for watch in (each for each in acting if each.event.change is not None):
                values, others = watch.event.change(behind, t, before)  # type: ignore[misc]
                if watch.event.ceases and watch.held:
                    values = {name: 1.0 - value for name, value in values.items()}
                changes.append((watch.event, values, others))
                _set(P, state, watch.event, values)
            places = [P.names.index(name) for _, values, _ in changes for name in values]
            depends = guarded or any(getattr(event.change, "depends", True) for event, _, _ in changes)
            same = not (guarded and places) or acting == last
            if same and (
                not depends or np.allclose(state[places], behind[places], rtol=SETTLED_CHANGE, atol=0.0)
            ):
                for watch in self._judged:
                    now = self._holds(P, watch, behind, t, before)
                    watch.held = now and (watch.event.implicit or watch.held)
                for event, _, others in changes:
                    _set(P, state, event, others)
                return state, [*acted, *acting]
            behind, last = consistent_restart(P, state, t, h, True), acting
        names_of_events = "', '".join(watch.name for watch in last)
        raise SolveError(
            f"the new values of '{names_of_events}' do not settle at t={t:.10g}: they depend on each other; "
            f"use values before the event, pre(x)"
        )

    def carry_on(self, L: Any, t: float, u: MeshDAE) -> MeshDAE:
        """The state to go on from: consistent with the branch after a switch or a breakpoint."""
        self._slack = time_slack(L.dt, t)
        self._keep_due(t, u, self._slack)
        stopped = self._steps.at_stop(t)
        happened = any(watch in self.events for watch in self._switched)
        if not happened and (self.finished or not (self._switched or stopped)):
            return u
        P = L.prob
        u, changed = self._behind_all_changes(P, u, t, RESTART_STEP * self._usual)
        if changed:
            self.behind = t, np.array([u, u.derivative()])
        if self.finished:
            return u
        timed = getattr(P, "timed_values", ())
        for watch, old, new in zip(self.timed, self._timed_values, timed, strict=True):
            if new != old:
                watch.keep(t, u, 1 if new > old else -1)
        self._timed_values = timed
        self._steps.restart()
        return u

    def _behind_all_changes(self, P: ProblemDAE, u: MeshDAE, t: float, h: float) -> tuple[MeshDAE, list[str]]:
        """The state behind all that happens at a time and follows from it, and the names of that."""
        chain: list[str] = []
        for watch in self._judged:
            if watch.at_moment or watch not in self._switched:
                watch.held = watch.side < 0 if watch.event.located else watch.event.function(u, t) < 0.0
        while True:
            self._begun = [watch for watch in self.events if watch in self._switched]
            chain += [watch.name for watch in self._begun]
            self._check_progress(t, chain)
            before, behind = u, self._behind_fold(P, u, t)
            if behind is None and not self.finished and self._slides(P, t, u):
                return u, chain
            u, changed = self._behind_changes(P, u, t, h) if behind is None else (behind, [])
            chain += [watch.name for watch in changed if watch not in self._begun]
            self._begun = []
            # Unknowns may have jumped across another switch, or the zero of an event that changes them.
            self._take_jumps(P, self.switches, self.functions.switch_values(P, u, t), t, u)
            for watch in () if self.finished else changed:
                if watch.event.located:
                    far = RATE_STEP * (self.params.span or self._usual)
                    _leave_zero(P, watch, u, before, t, RATE_STEP * self._usual, far)
            if not self._switched:
                values = [watch.event.function(u, t) for watch in self.functions.located]
                self._take_jumps(P, self.functions.located, values, t, u)
            self._switched += self._begin(P, u, t, u)  # before which there is this state
            if not self._switched:
                break
        for watch in self._judged:
            watch.at_moment = False
        return u, chain

    def _take_jumps(
        self, P: ProblemDAE, watches: list[_Watch], values: list[float], t: float, u: MeshDAE
    ) -> None:
        """Keep the zeros of functions that are on their other side now; what rests at 0 shows in steps."""
        for watch, value in zip(watches, values, strict=True):
            # What the end of a step was off by is no jump.
            off = watch.side * value < 0.0 and TIE < abs(value) <= self._accuracy * watch.size
            watch.tolerance = max(watch.tolerance, 2.0 * abs(value) if off else 0.0)
            away = abs(value) > max(watch.noise, watch.tolerance)
            step = RATE_STEP * self._usual
            rests = watch.side * value == -TIE and _rests(P, self.functions.of_watch(P, watch), u, t, step)
            if watch.side * value < 0.0 and (away or rests):
                watch.side = -watch.side
                if watch.event.counts(watch.side) and not watch.event.judged:
                    self._keep(watch, t, u, watch.side)

    def _behind_fold(self, P: ProblemDAE, u: MeshDAE, t: float) -> MeshDAE | None:
        """The state on another branch, where both sides of a switch lead back to it and there is one."""
        span = float(self.params.span or self._usual)
        least = LEAST_PROGRESS_OF_SWITCHES * span
        returning = [watch for watch in self._switched if watch in self.switches and watch.returns(least)]
        if not returning:
            return None
        behind, sides = behind_fold(P, u, t, span, tuple(watch.side for watch in self.switches))
        if behind is None:
            for watch in returning:
                if watch.is_kink:  # rounding, which changes nothing there
                    watch.slack = self._accuracy
            return None
        for watch in returning:
            watch.side = -watch.sides[int(np.searchsorted(watch.times, t - least))]
            watch.forget(t - least)
        for watch, side in zip(self.switches, sides, strict=True):
            if side != watch.side:
                watch.set_side((side, 0.0, watch.noise))
                watch.keep(t, behind, side)
        self._switched = [watch for watch in self._switched if watch not in self.switches]
        self.course.append((t, sides))
        return behind

    def _slides(self, P: ProblemDAE, t: float, u: MeshDAE) -> bool:
        """Whether the run ends where both sides of a switch lead back to its zero."""
        least = LEAST_PROGRESS_OF_SWITCHES * (self.params.span or self._usual)
        for number, watch in enumerate(self.switches if self.params.slides else ()):
            if watch in self._switched and not watch.is_kink and watch.returns(least):
                sizes = np.abs(self.functions.switch_values(P, u, t))
                for same in np.flatnonzero(sizes == sizes[number]):  # switches with the same border
                    self.switches[same].forget(t - least)
                self.finished, self.sliding = True, Sliding(number, t, MeshDAE(u))
                return True
        return False

    def _slides_at_once(self, P: ProblemDAE, t: float, u: MeshDAE, h: float) -> bool:
        """Whether a run begins at the zero of a switch to which both sides lead back."""
        for number, watch in enumerate(self.switches if self.params.slides else ()):
            function, back = self.functions.of_watch(P, watch), list[float]()
            for side in (-watch.side, watch.side) if watch.tolerance and not watch.is_kink else ():
                P.hold_sides(tuple(side if other is watch else other.side for other in self.switches))
                behind = consistent_restart(P, u, t, h, False, self._jumps)
                back.append(0.0 if behind.polynomial is None else -side * function(_ahead(behind, h), t + h))
            if min(back, default=0.0) > watch.tolerance:
                self.finished, self.sliding = True, Sliding(number, t, MeshDAE(u))
        return self.finished

    def _check_progress(self, t: float, chain: Sequence[str]) -> None:
        if not self._switched:
            return
        if t - self._last_switch > LEAST_PROGRESS_OF_SWITCHES * (self.params.span or self._usual):
            self._without_progress = 0
        self._last_switch = t
        self._without_progress += 1
        if self._without_progress > MOST_SWITCHES:
            if len(chain) > MOST_SWITCHES // 2:
                circle = "', '".join([*dict.fromkeys(chain[-MOST_SWITCHES // 2 :])][:LONGEST_CIRCLE])
                raise SolveError(
                    f"events cause one another without end at t={t:.10g}: '{circle}'; let one of them change "
                    f"nothing where the other has"
                )
            if self._switched[0] in self.events:
                raise SolveError(
                    f"event '{self._switched[0].name}' comes ever faster: {MOST_SWITCHES} changes without "
                    f"progress at t={t:.10g}, where they accumulate; end the run before, or go on from there "
                    f"with the equations of rest"
                )
            raise SolveError(
                f"{shown(self._switched[0].name)} switches again and again at t={t:.10g}, more than "
                f"{MOST_SWITCHES} times without progress: the solution slides along the switch, or switches "
                f"ever faster; smooth the switch, give it a hysteresis, or solve a model or function by rtol"
            )


def _set(P: ProblemDAE, state: MeshDAE, event: Event, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        state[require_name(f"unknown in the change of event '{event.name}'", name, P.names)] = value


def _leave_zero(
    P: ProblemDAE, watch: _Watch, u: MeshDAE, start: MeshDAE, t: float, step: float, far: float
) -> None:
    """Set the side of its zero on which the function of an event goes on, or stays for a step ``far``."""
    function, late = watch.event.function, t * (1.0 + 8.0 * EPS)
    t = late if abs(function(u, late)) == TIE else t  # behind a step of the time that rounding has put there
    value, rounding = function(u, t), max(8.0 * EPS * watch.size, _rounding(function, u, t))
    small, before = max(watch.noise, rounding, TIE), function(start, t)
    if abs(value) <= ZERO_VALUE * watch.size and abs(before - value) <= rounding:
        small = max(small, 2.0 * abs(value))  # where the zero was located: the change is that of a velocity
    watch.side, watch.tolerance = int(np.sign(value)), 0.0
    if abs(value) > small or u.polynomial is None:
        return
    if abs(value) == TIE and _rests(P, function, u, t, step):
        return
    if _rests(P, function, u, t, far):  # as a level between two closed valves
        watch.side, watch.tolerance = int(np.sign(watch.event.direction)) or watch.side, small
        return
    for h in (step, step / RATE_STEP):
        moves = function(_ahead(u, h), t + h) - value
        if abs(moves) > rounding:
            break
    # Of an arc as long as the one before or, as bounces do, shorter, the height is v dt / 4.
    gaps = np.diff(watch.times[-3:])
    arc = gaps[-1] * min(1.0, gaps[-1] / gaps[0]) / 4.0 if len(gaps) and gaps.all() else np.inf
    if not abs(moves) > rounding or not abs(moves) * (arc / h) > LEAST_ARC * small:
        raise _comes_to_rest(watch, t)
    watch.side, watch.tolerance, watch.leaves = int(np.sign(moves)), small, True


def _rounding(function: StateFunction, u: MeshDAE, t: float) -> float:
    """Largest change of a function by rounding of the state and of the time."""
    value, moved = function(u, t), [(u.view(np.ndarray), 1.0 + 8.0 * EPS)]
    moved += [(u.view(np.ndarray) * (1.0 + 8.0 * EPS * one), 1.0) for one in directions(len(u))]
    return max(abs(function(attach(state, u.n_diff), t * later) - value) for state, later in moved)


def _ahead(u: MeshDAE, step: float) -> MeshDAE:
    """The state a step further along u', with the same u'."""
    ahead = attach(u.view(np.ndarray) + step * u.polynomial.derivative_at_end(), u.n_diff)
    ahead.polynomial = u.polynomial
    return ahead


def _rests(P: ProblemDAE, function: StateFunction, u: MeshDAE, t: float, step: float) -> bool:
    """Whether the function of an event changes neither along u' nor, as a ball at rest, further on."""
    later = t + step
    if u.polynomial is None or function(_ahead(u, step), later) != function(u, t):
        return False
    behind = consistent_restart(P, _ahead(u, step), later, step)
    return behind.polynomial is not None and (
        function(_ahead(behind, step), later + step) == function(behind, later)
    )


def _comes_to_rest(watch: _Watch, t: float) -> SolveError:
    """The error for a function that does not leave its zero behind a change, with the limit of its times."""
    gaps = np.diff(watch.times[-3:])
    limit = ""
    if len(gaps) == 2 and 0.0 < gaps[1] < gaps[0]:
        # Aitken's extrapolation, exact where the gaps are a geometric sequence.
        limit = f"; its times tend to t={watch.times[-1] + gaps[1] ** 2 / (gaps[0] - gaps[1]):.10g}"
    return SolveError(
        f"after the change of event '{watch.name}' at t={t:.10g} its function stays at 0, where the solution "
        f"comes to rest{limit}; let the event end the run, and go on with the equations of rest"
    )


def accurate_slopes(sweeper: type[Any], problem: ProblemDAE) -> int:
    """Number of unknowns whose u' at the ends of steps is as accurate as u."""
    # The derivative of a constrained unknown is only as accurate as the stages, and so are, from index 2 on,
    # derivatives of unknowns that depend on multipliers.
    method = getattr(sweeper, "method", None)
    if problem.index not in (0, 1) or not (method is None or method.stiffly_accurate):
        return 0
    return problem.n if problem.index == 0 else problem.n_diff * (problem.n_diff < problem.n)


def _require_as_many(P: ProblemDAE, method: str, given: int, count: int, t: float) -> None:
    if given != count:
        raise InputError(
            f"{type(P).__name__}.{method} returned {given} values at t={t:.10g} for {count} switches; let it "
            f"return one for each whenever it is called"
        )


def _checked(event: Event) -> Event:
    """An event whose function must return a number."""
    own = read_only(event.function, f"event '{event.name}'")

    def function(u: MeshDAE, t: float, *more: Any) -> float:
        return continuous(own(u, t, *more), f"event '{event.name}'", t)

    return replace(event, function=function)


def continuous(given: Any, who: str, t: float) -> float:
    """A value of a function whose zeros are looked for, as a finite float."""
    value = given.item() if isinstance(given, np.ndarray) and given.size == 1 else given
    if isinstance(value, bool | np.bool_) or (isinstance(value, Integral) and value == 0):
        raise InputError(
            f"{who} returned {value!r} at t={t:.6g}, but its zeros are where a continuous function changes "
            f"its sign; return the difference, u[0] - 1.0 in place of u[0] > 1.0"
        )
    if not isinstance(value, Real):
        raise InputError(f"{who} must return a number f(u, t); got {given!r} at t={t:.6g}")
    try:
        number = float(value)
    except OverflowError:
        raise InputError(f"{who} returned a number too large for a float at t={t:.6g}") from None
    if not isfinite(number):
        raise SolveError(f"{who} returned {number} at t={t:.10g}; check the function there")
    return number
