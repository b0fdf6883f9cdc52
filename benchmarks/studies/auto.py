"""Runs with "auto" beside serial ones, over the whole catalogue; see :func:`auto`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.measuring.clock import Spent, stopwatch, undisturbed
from benchmarks.measuring.steps import FAMILIES
from benchmarks.study import Layout, Option, Table, chosen, require_positive, study
from dae_sdc.dae.problem import PROBLEMS
from dae_sdc.errors import DAEError, require_count
from dae_sdc.problems._models import MODELS
from dae_sdc.run.results import Result
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.sweepers.teams import AUTO

RTOL = 1e-6
USUAL, QUICK = (20, 2.0, 4.0), (8, 0.4, 1.0)  # Repetitions, seconds of a round, and time limit
ALLOWED = 1.05  # Largest ratio of the time with "auto" to the serial one
LEAST_TIME = 0.02  # Seconds that one time takes at least; shorter runs are repeated within it
FEWEST = 5  # Smallest number of pairs in a round, if they do not take too long
LONGEST = 4.0  # Longest time of a round in units of the usual one
ROUNDS = 3  # How often a problem that seems slower is measured, each time with as many more pairs
SHORTER = 0.25  # Part of the way that a run came within the time limit which is measured, if it did not end
CHANCE = 0.01  # Probability with which the lower bound of a median is above it by chance

TEXT = Layout(
    "problem:<22|n:>6|part:>6.2g|steps:>6|pairs:>5|serial ms=serial*1e3:>10.2f|"
    "wall={wall:.3f} ({wall_low:.2f}):>13|computing={computing:.3f} ({computing_low:.2f}):>13|equal:>5"
)


@dataclass
class Pairs:
    """Times of two runs in turn, in pairs of which each second one begins with the other run."""

    first: Callable[[], object]
    second: Callable[[], object]
    times: list[tuple[Spent, Spent]] = field(default_factory=list)  # What they took

    def measure(self, count: int, repeats: int) -> None:
        """Add ``count`` pairs; each time is the mean of ``repeats`` runs."""
        for _ in range(count):
            turned = len(self.times) % 2
            pair = [timed(run, repeats) for run in (self.first, self.second)[:: -1 if turned else 1]]
            self.times.append((pair[turned], pair[1 - turned]))

    def ratios(self) -> tuple[list[float], list[float]]:
        """Ratios of the second run to the first in every pair: of times of the clock, and of computing."""
        wall = [second.wall / first.wall for first, second in self.times]
        return wall, [second.processor / first.processor for first, second in self.times]

    def seems_slower(self, shared: bool, bound: Callable[[Sequence[float]], float] = median) -> bool:
        """Whether the second run takes more than is allowed; if nothing is shared, its computing too."""
        # Others on the machine lengthen wall times.
        wall, computing = (bound(values) for values in self.ratios())
        return (wall if shared else min(wall, computing)) > ALLOWED


def low(values: Sequence[float]) -> float:
    """A lower bound of the median of what values are drawn from, by the sign test; 0 for too few values."""
    below = int(binom.ppf(CHANCE, len(values), 0.5))
    return sorted(values)[below - 1] if below else 0.0


def timed(run: Callable[[], object], repeats: int) -> Spent:
    with undisturbed(), stopwatch() as spent:
        for _ in range(repeats):
            run()
    return Spent(spent.wall / repeats, spent.processor / repeats)


class _Case:
    def __init__(self, problem: str, params: Mapping[str, Any], time_limit: float) -> None:
        self.problem, self.params, self.part = problem, dict(params), 1.0
        self._end: dict[str, Any] = {}
        self.solution = self._solve(time_limit=time_limit)
        if not self.solution.success and "time limit" in self.solution.message and len(self.solution.t) > 1:
            start, reached = self.solution.t[0], self.solution.t[-1]
            self._end = {"t_end": float(start + SHORTER * (reached - start))}
            whole = PROBLEMS[problem].interval if problem in PROBLEMS else MODELS[problem]().interval
            self.part = (self._end["t_end"] - start) / (float(whole[1]) - start)
            self.solution = self.serial()
        if not self.solution.success:
            raise DAEError(self.solution.message)

    def _solve(self, **how: Any) -> Solution:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return solve(self.problem, params=self.params or None, rtol=RTOL, **self._end, **how)

    def serial(self) -> Solution:
        return self._solve()

    def auto(self) -> Solution:
        return self._solve(parallel=AUTO, threads=AUTO)


@study(
    "auto",
    "problem:U32 n:i8 part[1] steps:i8 pairs:i8 serial[s] wall[1] wall_low[1] computing[1] computing_low[1] "
    "equal:? slower:? choice:U100",
    example="--problems pendulum --repetitions 2 --quick",
    bad=lambda result: bool(result.data["slower"].any()),
    options={
        "quick": Option("take less time for each problem"),
        "time_limit": Option(
            "seconds after which a run is shortened (4, or 1 with --quick)", check=require_positive
        ),
        "repetitions": Option("most pairs of runs in a round (20, or 8 with --quick)", check=require_count),
    },
)
def auto(
    rows: Table,
    *,
    problems: Sequence[str] | None = None,
    sizes: Sequence[int] = (4000,),
    repetitions: int | None = None,
    time_limit: float | None = None,
    quick: bool = False,
) -> None:
    """Show that runs with parallel="auto" and threads="auto" are nowhere slower than serial ones.

    Every problem and model of the catalogue is solved to rtol = 1e-6 by ``solve`` itself, in turn serially
    and with "auto": pairs of runs, of which every second one begins with "auto", short runs repeated until
    they take 20 ms. A problem whose runs with "auto" seem to take more than 1.05 of the time is measured
    again.
    """
    names = chosen("problem", problems, dict.fromkeys([*PROBLEMS, *MODELS]))
    usual, seconds, longest = QUICK if quick else USUAL
    count, limit = repetitions or usual, time_limit or longest
    rows.parameters |= {"repetitions": count, "seconds": seconds, "time_limit": limit, "rtol": RTOL}
    rows.parameters["allowed"] = ALLOWED
    for name, params in rows.each(list(_cases(names, sizes)), "problem"):
        with rows.or_left_out(name):
            rows.put(**measured(_Case(name, params, limit), count, seconds))


def _cases(names: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in names:
        yield name, {}
        for size in sizes if name in FAMILIES else ():
            yield name, FAMILIES[name].params(size)


def measured(case: Any, count: int, seconds: float) -> dict[str, Any]:
    alone, chosen = case.serial(), case.auto()
    choice = chosen.parameters.get("sharing", "")
    shared = not choice.startswith("serial")
    once = timed(case.serial, 1).wall
    repeats = max(1, int(np.ceil(LEAST_TIME / once)))
    of_pair = 2.0 * once * repeats
    span = max(seconds, min(FEWEST * of_pair, LONGEST * seconds))
    several = max(1, int(min(count, span / of_pair)))
    pairs = Pairs(case.serial, case.auto)
    for _ in range(ROUNDS):
        pairs.measure(several, repeats)
        if not pairs.seems_slower(shared):
            break
    wall, computing = pairs.ratios()
    return {
        **{"problem": case.problem, "n": alone.u.shape[1], "part": case.part, "steps": alone.stats["steps"]},
        **{"pairs": len(pairs.times), "serial": median(first.wall for first, _ in pairs.times)},
        **{"wall": median(wall), "wall_low": low(wall)},
        **{"computing": median(computing), "computing_low": low(computing)},
        "equal": np.array_equal(alone.u, chosen.u) and np.array_equal(alone.t, chosen.t),
        **{"slower": pairs.seems_slower(shared, low), "choice": choice},
    }


@auto.reports
def report(result: Result) -> Iterator[str]:
    data = result.data
    yield "runs with parallel='auto', threads='auto' relative to serial ones: medians of pairs (lower bounds)"
    yield f"{TEXT.head()}  chosen"
    for row in data:
        yield f"{TEXT.line(row)}  {row['choice']}"
    slower = ", ".join(f"{row['problem']} (n = {row['n']})" for row in data[data["slower"]]) or "none"
    yield f"above {result.parameters['allowed']:g} of the serial time beyond noise: {slower} of {len(data)}"
    if not data["equal"].all():
        yield f"other values than serially: {', '.join(data['problem'][~data['equal']])}"
