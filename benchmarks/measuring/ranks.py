"""Runs by one process, by threads and by ranks, taken in turn inside one job of MPI.

Studies start it as ``mpirun -n P python -m benchmarks.measuring.ranks`` with what they ask as JSON on
standard input; rank 0 prints a line of JSON for every measurement.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time, sleep, thread_time
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

from benchmarks.measuring import ida
from benchmarks.measuring.clock import TimeLimit, clocked, limited, stopwatch, tied, undisturbed
from benchmarks.measuring.processes import as_answer, common_sizes
from benchmarks.measuring.races import PeerFailure
from dae_sdc.control.adaptivity import stops_of
from dae_sdc.control.hooks import CheckInitialValue, RequireConvergence, StepRecord
from dae_sdc.control.stepping import SteppingController
from dae_sdc.errors import InputError
from dae_sdc.files import replacing
from dae_sdc.options import Steps
from dae_sdc.run.description import describe
from dae_sdc.run.execution import CONTROLLER
from dae_sdc.run.method import adapted_to, default_nodes, default_sweeper, swept_at_once
from dae_sdc.run.processes import world
from dae_sdc.run.solve import solve
from dae_sdc.run.target import make_problem
from dae_sdc.sweepers import teams
from dae_sdc.sweepers.tolerance import Tolerance

# What a message carries: the solution at nodes, two numbers a node, or anything else
VALUES, NOTES, OTHERS = "values", "notes", "others"
MESSAGES = ("Allgatherv", "Bcast", "Allreduce", "allgather", "bcast")
BEST_SERIAL = "LU"  # Q_Delta of the serial sweeps that parallel ones compete with: it needs the fewest
PAUSE = 1e-3  # Seconds between two looks of a rank that waits without taking time from the others
EXCHANGES = 20  # Messages in a burst, when they are timed by themselves
BURSTS, BURST_PAUSE = 10, 0.02  # Number of bursts, and the pause before each in seconds
# Ways to run: the default method by one, threads or ranks; SDC with shared nodes, or shared steps of a fixed
# size on one level or two; IDA
SERIAL, THREADS, RANKS = "serial", "threads", "ranks"
SWEEPS, STEPS, LEVELS, IDA = "sdc", "mssdc", "pfasst", "ida"
REFERENCE_FACTOR = 1e-2  # Tolerance of the run that the errors of others are measured by, in units of theirs
# Tolerances of IDA that are tried, in units of that of the default method, until its error is as small
IDA_FACTORS = (10.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4)
LONGEST_OF_IDA = 60.0  # Seconds that one run of IDA may take
STEPS_OF_BLOCKS = 16  # Number of steps of a fixed size where ranks share steps


@dataclass(frozen=True)
class Work:
    """One problem of one size, and the time steps to be measured."""

    problem: str
    params: dict[str, Any]
    sweeper: str  # Name of the serial sweeper
    dt: float
    restol: float
    warm: int  # Number of steps that are not counted, and of those after them that are
    steps: int


@dataclass(frozen=True)
class Case:
    """A run to a tolerance that is measured."""

    problem: str
    params: dict[str, Any]
    rtol: float
    t_end: float | None = None  # End, if it is not that of the problem


@dataclass
class Call:
    """One call of MPI: what it carries, bytes this rank sends, seconds, and process time in seconds."""

    carries: str
    sent: int
    wall: float
    cpu: float


@dataclass
class TimedComm:
    """A communicator that notes what its messages cost."""

    comm: Any  # Does the work
    calls: list[Call] = field(default_factory=list)  # Every call so far

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.comm, name)
        return partial(self._timed, name, method) if name in MESSAGES else method

    def _timed(self, name: str, method: Any, message: Any, *args: Any, **options: Any) -> Any:
        carries, sent = OTHERS, getattr(message, "nbytes", 0)
        if name == "Allgatherv":
            _, counts, _, kind = args[0]
            size = kind.Get_size()
            carries, sent = NOTES if size == 16 else VALUES, size * counts[self.comm.Get_rank()]
        tic, cpu = perf_counter(), process_time()
        result = method(message, *args, **options)
        spent = process_time() - cpu
        self.calls.append(Call(carries, sent, perf_counter() - tic, spent))
        return result


@dataclass
class Timing:
    """What one run took on one rank."""

    wall: float
    cpu: float  # Process time
    calls: list[Call]  # Calls of MPI
    end: NDArray[np.float64]  # shape (n,): Value at the end
    sweeps: list[int] = field(default_factory=list)  # Sweeps of the step before the run and of its steps
    at_node: list[float] = field(default_factory=list)  # Process time of the solves at each node, seen apart
    threads: list[float] = field(default_factory=list)  # Seconds of other threads
    steps: int = 0  # Accepted ones
    factorizations: int = 0

    @property
    def computing(self) -> float:
        """Process time of the busiest thread outside MPI."""
        return max([self.cpu - sum(call.cpu for call in self.calls), *self.threads])


@dataclass
class InTurn:
    """Repeated runs, each on all its ranks, beside the serial runs that they took turns with."""

    runs: list[list[Timing]]
    serial: list[Timing]

    def largest(self, what: str) -> list[float]:
        """The largest value on any rank, of every run."""
        return [max(getattr(rank, what) for rank in ranks) for ranks in self.runs]

    def ratios(self, what: str) -> list[float]:
        """The largest values in units of those of the serial runs."""
        return [a / getattr(b, what) for a, b in zip(self.largest(what), self.serial, strict=True)]

    @property
    def least(self) -> float:
        """The least computing time: other processes make it longer, by memory they share, never shorter."""
        return min(self.largest("computing"))

    @property
    def ratio_least(self) -> float:
        """The least computing time in units of the least serial one."""
        return self.least / min(run.computing for run in self.serial)

    @property
    def equal(self) -> bool:
        """Whether all ranks of all runs end at the value of the serial run, after as many sweeps."""
        pairs = ((rank, alone) for ranks, alone in zip(self.runs, self.serial, strict=True) for rank in ranks)
        return all(np.array_equal(a.end, b.end) and a.sweeps == b.sweeps for a, b in pairs)


def timed_run(
    controller: Any,
    u0: Any,
    t0: float,
    t_end: float,
    comm: TimedComm | None = None,
    clock: Callable[[], float] = process_time,
) -> tuple[Timing, Any]:
    """What a run of a controller took, and its statistics."""
    calls = [] if comm is None else comm.calls
    calls.clear()
    with undisturbed(), stopwatch() as spent:
        cpu = clock()
        end, stats = controller.run(u0=u0, t0=t0, Tend=t_end)
        cpu = clock() - cpu
    return Timing(spent.wall, cpu, list(calls), end.view(np.ndarray).copy()), stats


def record_of(controller: Any) -> Any:
    """The hook of a controller that keeps what its steps were."""
    return next(hook for hook in controller.hooks if isinstance(hook, StepRecord))


class Run:
    """Time steps that can be repeated from the same state with everything warm."""

    def __init__(
        self,
        work: Work,
        nodes: int,
        qdelta: str,
        comm: TimedComm | None = None,
        hooks: Sequence[type[Any]] = (RequireConvergence,),
        at_once: bool = False,
        **settings: Any,
    ) -> None:
        self.work, self.comm = work, comm
        self.at_node: list[float] = []
        method: dict[str, Any] = {"sweeper": work.sweeper, "nodes": nodes, "qdelta": qdelta, **settings}
        method |= {"restol": work.restol, "parallel": None if comm is None else "nodes"}
        setup = describe(work.problem, params=work.params, **method)
        description = (swept_at_once(setup) if at_once else setup).with_step(work.dt)
        if comm is not None:
            description["sweeper_params"]["comm"] = comm
        self.controller = controller_nonMPI(1, {**CONTROLLER, "hook_class": list(hooks)}, description)
        self.level = self.controller.MS[0].levels[0]
        self.problem = setup.problem
        t0 = setup.problem.interval[0]
        self.t0 = t0 + work.warm * work.dt
        first = setup.problem.state(setup.problem.u_exact(t0))
        # The first sweeps factorise, and the first step has no polynomial to continue.
        self.u0, _ = self.controller.run(u0=first, t0=t0, Tend=t0 + (work.warm - 0.5) * work.dt)
        self()

    def __call__(self) -> Timing:
        """The measured steps once more, from the same state."""
        before = self.level.sweep.iterate.sweeps
        end = self.t0 + (self.work.steps - 0.5) * self.work.dt
        timing, stats = timed_run(self.controller, self.u0, self.t0, end, self.comm)
        entries = sorted((key.time, int(count)) for key, count in stats.items() if key.type == "niter")
        return replace(timing, sweeps=[before, *(count for _, count in entries)], at_node=self.at_node)

    def times_at_nodes(self) -> list[float]:
        """What each node takes, if the steps are done once more, node by node."""
        iterate, solver = self.level.sweep.iterate, self.level.sweep.solver
        times, solve_at = [0.0] * self.level.sweep.coll.num_nodes, solver.solve

        def timed(low: int, high: int) -> None:
            for m in range(low, high):
                cpu = process_time()
                solve_at(m, m + 1)
                times[m] += process_time() - cpu

        # Several sweeps in one call would not come by here.
        with patch.object(iterate, "stands_alone", lambda: False), patch.object(solver, "solve", timed):
            self()
        return times

    def exchanges(self) -> tuple[float, float]:
        """Typical seconds of an exchange of values and of notes, one after another with nothing between."""
        # The median of a burst does not see interrupted ranks, unless they never run at the same time in it.
        assert self.comm is not None
        sweep = self.level.sweep
        stages = sweep.iterate.new_stages()
        stages.rows[:] = 0.0
        least = []
        for exchange in (sweep.nodes.exchange, lambda rows: sweep.nodes.exchange(rows, notes_only=True)):
            medians = []
            for _ in range(BURSTS):
                sleep(BURST_PAUSE)
                self.comm.calls.clear()
                for _ in range(EXCHANGES):
                    exchange(stages)
                walls = np.array(self.comm.comm.allgather([call.wall for call in self.comm.calls]))
                medians.append(float(np.median(walls.min(axis=0))))
            least.append(min(medians))
        return least[0], least[1]


class Integration:
    """The run of a case from its start, each time with a new controller, whose making is not timed."""

    def __init__(self, case: Case, way: str, threads: int = 0, comm: TimedComm | None = None) -> None:
        self.comm = comm
        method: dict[str, Any] = {"sweeper": default_sweeper(case.rtol, None)}
        if way == SWEEPS:
            method = {"sweeper": "semi-implicit", "nodes": default_nodes(case.rtol)}
        method["parallel"] = None if comm is None else "nodes"
        setup = describe(case.problem, params=case.params, **method)
        problem = self.problem = setup.problem
        self.t0, end = problem.interval
        self.t_end = end if case.t_end is None else case.t_end
        self.u0 = problem.state(problem.u_exact(self.t0))
        tolerance = Tolerance.checked(problem, case.rtol, None, ())
        stops = stops_of(problem, self.t0, self.t_end)
        self.setup = adapted_to(setup, tolerance, Steps(), self.t_end, stops)
        self.sharing: dict[str, Any] = {} if comm is None else {"comm": comm}
        self.sharing |= {"threads": threads} if threads else {}

    def __call__(self) -> Timing:
        description = self.setup.with_step(self.t_end - self.t0)
        description["sweeper_params"] |= self.sharing
        params = {**CONTROLLER, "hook_class": [CheckInitialValue, StepRecord]}
        controller = SteppingController(params, description)
        controller.show_stages(False)
        timing, _ = timed_run(controller, self.u0, self.t0, self.t_end, self.comm, thread_time)
        level = controller.MS[0].levels[0]
        team = getattr(level.sweep, "team", None)
        timing.threads = team.seconds[1:].tolist() if isinstance(team, teams.Threads) else []
        timing.steps = len(record_of(controller).rows)
        timing.factorizations = level.prob.work_counters["factorization"].niter
        return timing


def blocks_of(case: Case, way: str, comm: TimedComm) -> Callable[[], Timing]:
    """The run of steps of a fixed size that ranks share, on one level or two, timed with its set-up."""
    start, end = make_problem(case.problem, case.params).interval
    end = end if case.t_end is None else case.t_end
    how: dict[str, Any] = {"params": case.params, "t_end": end, "sweeper": "semi-implicit", "nodes": 5}
    how |= {"dt": (end - start) / STEPS_OF_BLOCKS, "restol": 0.1 * case.rtol, "dense": False}
    how |= {"parallel": "steps", "comm": comm} | ({"coarse_nodes": 3} if way == LEVELS else {})

    def run() -> Timing:
        comm.calls.clear()
        spent, solution = clocked(lambda: solve(case.problem, **how))
        if not solution.success:
            raise InputError(solution.message)
        counts = {"steps": solution.stats["steps"], "factorizations": solution.stats["factorization"]}
        return Timing(spent.wall, spent.processor, [], np.array(solution.u[-1]), **counts)

    return run


def turns(
    alone: Sequence[Callable[[], Timing]],  # Runs of rank 0
    together: Callable[[], Timing] | None,  # The run of all ranks
    repetitions: int,
    core: int | None,
    comm: Any = None,
) -> tuple[list[list[Timing]], list[list[Timing]]]:
    """What runs of one rank and of all took in turn, with all ranks tied to a core if one is given."""
    serial: list[list[Timing]] = [[] for _ in alone]
    shared = []
    with tied(core):
        for _ in range(repetitions):
            for run, timings in zip(alone, serial, strict=True):
                timings.append(run())
            if together is not None:
                rest(comm)
                shared.append(comm.gather(together(), root=0))
                rest(comm)
    return serial, shared


def rest(comm: Any) -> None:
    """A barrier in which waiting ranks sleep; those of MPI keep a core busy."""
    request = comm.Ibarrier()
    while not request.Test():
        sleep(PAUSE)


def expected_calls(sweeps: Sequence[int]) -> tuple[int, int]:
    """How many exchanges of values and of notes alone a run on several ranks has."""
    # Until a step has had as many sweeps as the one before, the next sweep is computed at once and takes the
    # residual along; after that, residuals travel alone and the sweeps by themselves.
    values = notes = 0
    for before, now in pairwise(sweeps):
        ahead = min(before, now + 1)
        values += ahead + max(now - ahead, 0)
        notes += now + 1 - ahead
    return values, notes


def sweeps_of(
    work: Work, nodes: int, qdelta: str, repetitions: int, cores: Sequence[int | None], comm: Any
) -> Iterator[dict[str, Any]]:
    """Rows of one problem and size, on one process and on all: medians of all times."""
    root, size = comm.Get_rank() == 0, comm.Get_size()
    # Made in turn: a rank that waits inside MPI takes the time of the others.
    kinds = list(dict.fromkeys((qdelta, BEST_SERIAL)))
    alone = [Run(work, nodes, kind) for kind in kinds] if root else []
    for run, kind in zip(alone, kinds, strict=False):
        # By steps of its own: those here must have the same past as those of several ranks.
        run.at_node = Run(work, nodes, kind).times_at_nodes()
    rest(comm)
    together = Run(work, nodes, qdelta, TimedComm(comm))
    exchanges = dict(zip(("exchange", "exchange_notes"), together.exchanges(), strict=True))
    common = {"problem": work.problem, "n": together.problem.n, "nodes": nodes, "steps": work.steps}
    common |= {"dt": work.dt, "sweeper": work.sweeper, "restol": work.restol}
    for core in cores:
        # One place is enough for what only ends up as a number of sweeps and their time.
        by_one, by_all = turns(alone[: 1 + (core is None)], together, repetitions, core, comm)
        common["pinned"] = core is not None
        for kind, runs in zip(kinds, by_one, strict=False):
            summary = _summary(InTurn([[run] for run in runs], by_one[0]))
            yield {**common, "qdelta": kind, "ranks": 1, **summary}
        if root:
            summary = _summary(InTurn(by_all, by_one[0]))
            yield {**common, "qdelta": qdelta, "ranks": size, **summary, **exchanges}


def _summary(both: InTurn) -> dict[str, Any]:
    runs, first = both.runs, both.runs[0]
    # Seconds of every call on all ranks: the one that comes last waits for nobody.
    shared = [np.array([[call.wall for call in rank.calls] for rank in ranks]) for ranks in runs]
    carried = [call.carries for call in first[0].calls]
    several = len(first) > 1
    return {
        "sweeps": sum(first[0].sweeps[1:]),
        "dropped": several * sum(now < before for before, now in pairwise(first[0].sweeps)),
        **{name: median(both.largest(name)) for name in ("wall", "cpu", "computing")},
        "computing_least": median(min(r.computing for r in ranks) for ranks in runs),
        "at_node": [median(ranks[0].at_node[m] for ranks in runs) for m in range(len(first[0].at_node))],
        "communication": median(float(walls.min(axis=0).sum()) for walls in shared),
        "waiting": median(float(walls.sum(axis=1).max() - walls.min(axis=0).sum()) for walls in shared),
        **{"exchange": 0.0, "exchange_notes": 0.0},
        **{f"ratio_{name}": median(both.ratios(name)) for name in ("wall", "computing")},
        **{"ratio_least": both.ratio_least, "undisturbed": both.least},
        **{"messages": carried.count(VALUES), "messages_notes": carried.count(NOTES)},
        "messages_others": carried.count(OTHERS),
        "bytes": sum(call.sent for rank in first for call in rank.calls),
        "expected": expected_calls(first[0].sweeps) if several else (0, 0),
        "equal": both.equal,
    }


class Row:
    """What becomes of repeated runs to a tolerance beside the serial ones that they took turns with."""

    # References of cases, and the sizes that errors are measured in
    known: ClassVar[dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]] = {}

    @classmethod
    def error(cls, case: Case, end: NDArray[np.float64]) -> float:
        """Largest error of a value at the end, in units of the largest unknown."""
        if repr(case) not in cls.known:
            exact = Integration(replace(case, rtol=REFERENCE_FACTOR * case.rtol), SERIAL)().end
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
    runs = [Integration(case, SERIAL), *(Integration(case, THREADS, threads=count) for count in threads)]
    for run in runs:
        run()
    for tie in dict.fromkeys((None, core)):
        # On one core, threads that take over the work of others would do it all.
        with patch.object(teams, "TAKES_OVER", tie is None):
            (serial, *shared), _ = turns(runs, None, repetitions, tie)
        for count, timings in zip((1, *threads), (serial, *shared), strict=True):
            way = SERIAL if timings is serial else THREADS
            yield Row.of(case, way, count, tie is not None, InTurn([[timing] for timing in timings], serial))
    if timing := _by_ida(case, runs[0], serial[0]):
        yield Row.of(case, IDA, 1, False, InTurn([[timing]] * len(serial), serial))


def _by_ida(case: Case, serial: Integration, ours: Timing) -> Timing | None:
    """IDA at the loosest tolerance tried at which it is as accurate; NaN if it is too slow."""
    try:
        other = ida.Ida(serial.problem, serial.t0, serial.t_end)
    except InputError:  # it is not installed, or the derivative at the start is not known
        return None
    target = Row.error(case, ours.end)
    for factor in IDA_FACTORS:
        try:
            with stopwatch() as spent, limited(LONGEST_OF_IDA):
                outcome = other.run(factor * case.rtol)
        except TimeLimit:
            return Timing(np.nan, np.nan, [], np.full_like(ours.end, np.nan))
        except PeerFailure:
            continue
        if Row.error(case, outcome.end) <= target:
            counted = int(outcome.jacobian)
            return Timing(outcome.time, spent.processor, [], outcome.end, factorizations=counted)
    return None


def together(
    case: Case, ways: Sequence[str], repetitions: int, core: int | None, comm: Any
) -> Iterator[dict[str, Any]]:
    """Rows of ranks, on rank 0 alone."""
    root = comm.Get_rank() == 0
    serial = [Integration(case, SERIAL)] if root else []
    for run in serial:
        run()
    rest(comm)
    timed = TimedComm(comm)
    for way in ways:
        of_blocks = way in (STEPS, LEVELS)
        shared = blocks_of(case, way, timed) if of_blocks else Integration(case, way, comm=timed)
        shared()
        for tie in dict.fromkeys((None, core)):
            times, runs = turns(serial, shared, repetitions, tie, comm)
            if root:
                yield Row.of(case, way, comm.Get_size(), tie is not None, InTurn(runs, times[0]))
            rest(comm)


def measured(asked: dict[str, Any], comm: Any) -> Iterator[dict[str, Any]]:
    """The rows that a study asks for: of works, or of a case."""
    for work in asked.pop("works", ()):
        yield from sweeps_of(Work(**work), comm=comm, **asked)
    if "case" in asked:
        case, how = Case(**asked["case"]), (asked["repetitions"], asked["core"])
        by_one = comm.Get_size() == 1
        of_ranks = () if by_one else together(case, asked["ways"], *how, comm)
        yield from alone(case, asked["threads"], *how) if by_one else of_ranks


def main() -> int:
    """Print what standard input asks for, a line of JSON a row; an error ends all ranks."""
    try:
        comm = world()
        asked = comm.bcast(json.load(sys.stdin) if comm.Get_rank() == 0 else None, root=0)
        for row in measured(asked, comm):
            print(json.dumps(row), flush=True)
    except Exception as error:
        sys.stdout.flush()
        # Into a file, as a launcher cuts what several ranks print at once into each other.
        with replacing(Path(sys.argv[1]) / f"{os.getpid()}.json") as (file,):
            file.write(json.dumps(as_answer(error)).encode())
        os._exit(1)  # without a farewell to MPI, so that its launcher ends the others
    return 0


if __name__ == "__main__":
    sys.exit(main())
