"""Solvers on a problem to one tolerance after another, in turn, and their times to equal errors."""

from __future__ import annotations

import gc
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.clock import TOO_LONG, TimeLimit, limited
from benchmarks.study import Table
from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError
from dae_sdc.run.results import combinations_of

LONG = 0.25  # Share of the time limit from which on a run is not repeated
LONGEST_WARM_UP = 60.0  # Time in seconds for the first run of a method, in which code may be compiled
ALL_WEIGHTS = "all"
COUNTS = ("steps", "rejected", "rhs", "jacobian", "factorization")


class PeerFailure(Exception):
    """A peer gave up."""


@dataclass
class Outcome:
    time: float  # Seconds of the whole run, its set-up included
    end: Vector  # shape (n,): Value at the end
    steps: float = math.nan  # Work, where the solver tells it
    rejected: float = math.nan
    rhs: float = math.nan
    jacobian: float = math.nan
    factorization: float = math.nan


@dataclass
class Contender:
    """A solver with a way to give it the problem, or a choice of what its error test looks at."""

    solver: str  # Names in the table
    weights: str
    run: Callable[[float, bool], Outcome]  # Integrates with a tolerance, and counts what costs time if asked
    stopped: str | None = None  # Why no further tolerance is tried, "" if nothing is said of it


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing is printed: SUNDIALS repeats there what it also returns, in C and through Python."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def carry_out(run: Callable[[], Outcome], seconds: float) -> Outcome | str:
    """One run under the time limit, without garbage collection; a text says why it failed."""
    gc.disable()
    try:
        with _silent(), limited(seconds), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outcome = run()
    except Exception as error:
        # Whatever a solver raises ends its run and no other.
        reason = " ".join(str(error).split())
        return reason if isinstance(error, PeerFailure | TimeLimit) else f"{type(error).__name__}: {reason}"
    finally:
        gc.enable()
    return outcome if np.isfinite(outcome.end).all() else "the value at the end is not finite"


@dataclass
class Race:
    """Contenders on a problem, each with a row for every tolerance."""

    rows: Table
    about: Mapping[str, Any]  # The columns that all rows share
    contenders: Sequence[Contender]
    score: Callable[[Vector], Mapping[str, float]]  # Columns from the value at the end, one of them "error"
    repetitions: int
    time_limit: float
    accuracy: float = 0.0  # Error from which on no tighter tolerance is tried

    def warm_up(self, rtol: float, solvers: Iterable[str]) -> None:
        """Compile what some solvers have not compiled yet."""
        for contender in self.contenders:
            if contender.solver in solvers:
                carry_out(partial(contender.run, rtol, False), max(LONGEST_WARM_UP, self.time_limit))

    def measure(self, rtol: float) -> None:
        """The rows of a tolerance; the runs take turns, but those that take long are not repeated."""
        runs: list[tuple[Contender, Outcome | str, list[float]]]
        runs = [(contender, self._first(contender, rtol), []) for contender in self.contenders]
        for _ in range(self.repetitions):
            for contender, first, spent in runs:
                if isinstance(first, Outcome) and first.time < LONG * self.time_limit:
                    again = carry_out(partial(contender.run, rtol, False), self.time_limit)
                    spent += [again.time] if isinstance(again, Outcome) else []
        for contender, first, spent in runs:
            row = {**self.about, "solver": contender.solver, "weights": contender.weights, "rtol": rtol}
            if isinstance(first, str):
                if first:
                    self.rows.put(**row, message=first)
                continue
            spent, score = spent or [first.time], self.score(first.end)
            work = {name: getattr(first, name) for name in COUNTS if (name, "f8") in self.rows.columns}
            self.rows.put(**row, **score, **work, success=1, time=median(spent), runs=len(spent))
            if score["error"] <= self.accuracy:
                contender.stopped = ""

    def _first(self, contender: Contender, rtol: float) -> Outcome | str:
        """The run in which all work is counted, or why there is none."""
        if contender.stopped is not None:
            return contender.stopped
        first = carry_out(partial(contender.run, rtol, True), self.time_limit)
        if isinstance(first, str):
            if first.startswith(InputError.__name__):
                contender.stopped = ""
                if contender.weights in ("", ALL_WEIGHTS):
                    where = f"{self.about['problem']}, {contender.solver}"
                    self.rows.leave_out(where, first.partition(": ")[2])
                return ""
            if first.startswith(TOO_LONG):
                contender.stopped = f"not tried: {first} at {rtol:g}"
        return first


def front(error: Vector, time: Vector) -> tuple[Vector, Vector]:
    """The runs that none other beats in both error and time, from cheap to accurate."""
    # Shapes: error and time (k,).
    places: list[int] = []
    for place in np.lexsort((error, time)).tolist():
        if math.isfinite(error[place]) and (not places or error[place] < error[places[-1]]):
            places.append(place)
    return error[places], time[places]


def time_to(target: float, error: Vector, time: Vector) -> float:
    """Time that a solver needs for an error, by logarithms between two runs of its front."""
    # Shapes: error and time (k,).
    errors, times = front(error, time)
    if not len(errors) or target < errors[-1]:
        return math.nan
    if target >= errors[0]:
        return float(times[0])
    return float(np.exp(np.interp(-math.log(target), -np.log(errors), np.log(times))))


def fastest(times: Mapping[str, float]) -> tuple[str, float]:
    """The name and the time of the first that is fastest; NaN where none gets there."""
    known = [name for name, time in times.items() if not math.isnan(time)]
    best = min(known, key=times.__getitem__, default="")
    return best, times.get(best, math.nan)


@dataclass(frozen=True)
class Equal:
    """Times of solvers to one error on a problem, in seconds; NaN where one does not get there."""

    problem: str
    error: float
    times: Mapping[str, float]
    ratio: float  # Our time to that of the best peer; 0 if only we get there, infinite if only they do
    rtol: float = math.nan  # Tolerance at which we reached the error, where it is ours

    def best(self, solvers: Iterable[str]) -> tuple[str, float]:
        """The fastest of some solvers, and its time."""
        return fastest({solver: self.times.get(solver, math.nan) for solver in solvers})


def equal(
    rows: NDArray[np.void],
    error: float,
    ours: str,
    peers: Sequence[str],
    others: Sequence[str] = (),
    apart: bool = False,  # Whether times are not interpolated between runs of different weights
    rtol: float = math.nan,
) -> Equal:
    """The times to an error, interpolated between the runs of a problem that came to the end."""
    times = {}
    for solver in (ours, *peers, *others):
        runs = rows[(rows["solver"] == solver) & (rows["success"] == 1)]
        ways = [way for _, way in combinations_of(runs, ["weights"])] if apart else [runs]
        each = {str(k): time_to(error, way["error"], way["time"]) for k, way in enumerate(ways)}
        times[solver] = fastest(each)[1]
    _, best = fastest({peer: times[peer] for peer in peers})
    ratio = 0.0 if math.isnan(best) else times[ours] / best
    if math.isnan(times[ours]):
        ratio = math.nan if math.isnan(best) else math.inf
    return Equal(str(rows["problem"][0]), error, times, ratio, rtol)
