"""Runs to a tolerance by one process, by threads and by ranks, taken in turn inside one job of MPI.

The study "parallel" starts it as ``mpirun -n P python -m benchmarks.measuring.shares`` with the work as JSON
on standard input; rank 0 prints a line of JSON for every way to run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from time import thread_time
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import ida
from benchmarks.measuring.clock import TimeLimit, limited, stopwatch, undisturbed
from benchmarks.measuring.races import PeerFailure
from benchmarks.measuring.sizes import common_sizes
from benchmarks.measuring.timing import InTurn, TimedComm, Timing, answer, record_of, rest, turns
from dae_sdc.control.adaptivity import stops_of
from dae_sdc.control.hooks import CheckInitialValue, StepRecord
from dae_sdc.control.stepping import SteppingController
from dae_sdc.errors import InputError
from dae_sdc.options import Steps
from dae_sdc.run.description import describe
from dae_sdc.run.execution import CONTROLLER
from dae_sdc.run.method import adapted_to, default_nodes, default_sweeper
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_problem
from dae_sdc.sweepers import teams
from dae_sdc.sweepers.tolerance import Tolerance

# Ways to run: the default method by one, threads or ranks; SDC with shared nodes, or shared steps of a fixed
# size on one level or two; IDA
SERIAL, THREADS, RANKS, SWEEPS, STEPS, LEVELS, IDA = (
    *("serial", "threads", "ranks", "sdc", "mssdc", "pfasst", "ida"),
)

REFERENCE_FACTOR = 1e-2  # Tolerance of the run that the errors of others are measured by, in units of theirs
# Tolerances of IDA that are tried, in units of that of the default method, until its error is as small
IDA_FACTORS = (10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4)
LONGEST_OF_IDA = 60.0  # Seconds that one run of IDA may take
STEPS_OF_BLOCKS = 16  # Number of steps of a fixed size where ranks share steps


@dataclass(frozen=True)
class Case:
    """A run that is measured."""

    problem: str  # Name of the problem
    params: dict[str, Any]  # Its parameters
    rtol: float  # Relative tolerance
    t_end: float | None = None  # End, if it is not that of the problem


class Run:
    """The run of a case from its start, each time with a new controller, whose making is not timed."""

    def __init__(
        self, case: Case, way: str, threads: int | None = None, comm: TimedComm | None = None
    ) -> None:
        self.case, self.threads, self.comm = case, threads, comm
        method: dict[str, Any] = {"sweeper": default_sweeper(case.rtol, None)}
        if way == SWEEPS:
            method = {"sweeper": "semi-implicit", "nodes": default_nodes(case.rtol)}
        setup = describe(
            case.problem, params=case.params, parallel=None if comm is None else "nodes", **method
        )
        problem = setup.problem
        self.t0, end = problem.interval
        self.t_end = end if case.t_end is None else case.t_end
        self.u0 = problem.state(problem.u_exact(self.t0))
        tolerance = Tolerance.checked(problem, case.rtol, None, ())
        stops = stops_of(problem, self.t0, self.t_end)
        self.setup = adapted_to(setup, tolerance, Steps(), self.t_end, stops)

    def __call__(self) -> Timing:
        description = self.setup.with_step(self.t_end - self.t0)
        description["sweeper_params"] |= {} if self.comm is None else {"comm": self.comm}
        description["sweeper_params"] |= {} if self.threads is None else {"threads": self.threads}
        params = {**CONTROLLER, "hook_class": [CheckInitialValue, StepRecord]}
        controller = SteppingController(params, description)
        controller.show_stages(False)
        calls = [] if self.comm is None else self.comm.calls
        calls.clear()
        with undisturbed(), stopwatch() as spent:
            cpu = thread_time()
            end, _ = controller.run(u0=self.u0, t0=self.t0, Tend=self.t_end)
            cpu = thread_time() - cpu
        level = controller.MS[0].levels[0]
        pool = getattr(level.sweep, "team", None)
        threads = pool.seconds[1:].tolist() if isinstance(pool, teams.Threads) else []
        about: dict[str, Any] = {"threads": threads, "steps": len(record_of(controller).rows)}
        about["factorizations"] = level.prob.work_counters["factorization"].niter
        return Timing(spent.wall, cpu, list(calls), np.array(end), **about)


class BlockRun:
    """A run of steps of a fixed size that ranks share, on one level or two; for ``comm`` None, in serial."""

    def __init__(self, case: Case, way: str, comm: Any) -> None:
        problem = make_problem(case.problem, case.params)
        start, end = problem.interval
        end = end if case.t_end is None else case.t_end
        self.given: dict[str, Any] = {"params": case.params, "t_end": end}
        self.given |= {"sweeper": "semi-implicit", "nodes": 5}
        self.given |= {"dt": (end - start) / STEPS_OF_BLOCKS, "restol": 0.1 * case.rtol, "dense": False}
        self.given |= {"parallel": "steps", "comm": comm} | ({"coarse_nodes": 3} if way == LEVELS else {})
        self.case, self.comm = case, comm

    def __call__(self) -> Timing:
        """One run; what sets it up is timed too."""
        self.comm.calls.clear()
        with stopwatch() as spent:
            solution = solve(self.case.problem, **self.given)
        if not solution.success:
            raise InputError(solution.message)
        counts = {"steps": solution.stats["steps"], "factorizations": solution.stats["factorization"]}
        return Timing(spent.wall, spent.processor, [], np.array(solution.u[-1]), **counts)


class Row:
    """What becomes of repeated runs beside the serial ones that they took turns with."""

    # References of cases, and the sizes that errors are measured in
    known: ClassVar[dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]] = {}

    @classmethod
    def error(cls, case: Case, end: NDArray[np.float64]) -> float:
        """Largest error of a value at the end, in units of the largest unknown."""
        if repr(case) not in cls.known:
            exact = Run(replace(case, rtol=REFERENCE_FACTOR * case.rtol), SERIAL)().end
            cls.known[repr(case)] = exact, common_sizes(make_problem(case.problem, case.params), exact)
        exact, sizes = cls.known[repr(case)]
        return float((np.abs(end - exact) / sizes).max())

    @classmethod
    def of(cls, case: Case, way: str, workers: int, pinned: bool, both: InTurn) -> dict[str, Any]:
        first, walls = both.runs[0][0], both.ratios("wall")
        # What a rank waits for others that are not on a processor is no part of a message.
        calls = [[[call.cpu for call in rank.calls] for rank in ranks] for ranks in both.runs]
        messages = min(sum(min(each) for each in zip(*of_ranks, strict=True)) for of_ranks in calls)
        low, middle, high = quantiles(walls, n=4, method="inclusive") if len(walls) > 1 else walls * 3
        return {
            **{"problem": case.problem, "n": len(first.end), "rtol": case.rtol, "way": way},
            **{"workers": workers, "pinned": pinned, "steps": first.steps},
            **{"factorizations": first.factorizations, "error": cls.error(case, first.end)},
            **{"equal": both.equal, "computing": median(both.largest("computing"))},
            **{"ratio": median(both.ratios("computing")), "ratio_least": both.ratio_least},
            **{"communication": messages / both.least, "wall": median(both.largest("wall"))},
            **{"wall_low": low, "wall_ratio": middle, "wall_high": high},
        }


def alone(case: Case, threads: Sequence[int], repetitions: int, core: int | None) -> Iterator[dict[str, Any]]:
    """Rows of the serial run, of threads and of IDA."""
    runs = [Run(case, SERIAL), *(Run(case, THREADS, threads=count) for count in threads)]
    for run in runs:
        run()
    for tie in (None, core) if core is not None else (None,):
        # On one core, threads that take over the work of others would do it all.
        team = teams.TEAM if tie is None else replace(teams.TEAM, takes_over=False)
        with patch.object(teams, "TEAM", team):
            (serial, *shared), _ = turns(runs, None, repetitions, tie)
        for count, timings in zip((1, *threads), (serial, *shared), strict=True):
            way = SERIAL if timings is serial else THREADS
            yield Row.of(case, way, count, tie is not None, InTurn([[timing] for timing in timings], serial))
    yield from _by_ida(case, runs[0], serial)


def _by_ida(case: Case, serial: Run, times: list[Timing]) -> Iterator[dict[str, Any]]:
    """The row of IDA at the loosest tolerance tried at which it is as accurate; NaN if it is too slow."""
    if not ida.installed():
        return
    try:
        other = ida.Ida(serial.setup.problem, serial.t0, serial.t_end)
    except InputError:  # the derivative at the start is not known
        return
    target = Row.error(case, times[0].end)
    for factor in IDA_FACTORS:
        try:
            with stopwatch() as spent, limited(LONGEST_OF_IDA):
                outcome = other.run(factor * case.rtol)
        except TimeLimit:
            timing = Timing(np.nan, np.nan, [], np.full_like(times[0].end, np.nan))
        except PeerFailure:
            continue
        else:
            if Row.error(case, outcome.end) > target:
                continue
            counted = int(outcome.jacobian)
            timing = Timing(outcome.time, spent.processor, [], outcome.end, factorizations=counted)
        yield Row.of(case, IDA, 1, False, InTurn([[timing]] * len(times), times))
        return


def together(
    case: Case, ways: Sequence[str], repetitions: int, core: int | None, comm: Any
) -> Iterator[dict[str, Any]]:
    """Rows of ranks, on rank 0 alone."""
    root = comm.Get_rank() == 0
    serial = [Run(case, SERIAL)] if root else []
    for run in serial:
        run()
    rest(comm)
    timed = TimedComm(comm)
    for way in ways:
        shared = BlockRun(case, way, timed) if way in (STEPS, LEVELS) else Run(case, way, comm=timed)
        shared()
        for tie in (None, core) if core is not None else (None,):
            times, runs = turns(serial, shared, repetitions, tie, comm)
            if root:
                yield Row.of(case, way, comm.Get_size(), tie is not None, InTurn(runs, times[0]))
            rest(comm)


def _measured(asked: Any, comm: Any) -> Iterator[dict[str, Any]]:
    case, how = Case(**asked["case"]), (asked["repetitions"], asked["core"])
    if comm.Get_size() == 1:
        return alone(case, asked["threads"], *how)
    return together(case, asked["ways"], *how, comm)


if __name__ == "__main__":
    sys.exit(answer(_measured))
