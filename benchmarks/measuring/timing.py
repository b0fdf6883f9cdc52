"""Times of the same sweeps on one process and on several, taken in turn inside one job of MPI.

The study "scaling" starts it as ``mpirun -n P python -m benchmarks.measuring.timing`` with the work as
JSON on standard input; rank 0 prints a line of JSON for every measurement.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pySDC.implementations.controller_classes.controller_nonMPI import controller_nonMPI

from benchmarks.measuring.clock import stopwatch, tied, undisturbed
from benchmarks.measuring.processes import as_answer
from dae_sdc.control.hooks import RequireConvergence, StepRecord
from dae_sdc.run.description import describe
from dae_sdc.run.execution import CONTROLLER
from dae_sdc.run.files import replacing
from dae_sdc.run.method import swept_at_once
from dae_sdc.run.processes import world

# What a message carries: the solution at nodes, two numbers a node, or anything else
VALUES, NOTES, OTHERS = "values", "notes", "others"
BEST_SERIAL = "LU"  # Q_Delta of the serial sweeps that parallel ones compete with: it needs the fewest
PAUSE = 1e-3  # Seconds between two looks of a rank that waits without taking time from the others
EXCHANGES = 20  # Messages in a burst, when they are timed by themselves
BURSTS, BURST_PAUSE = 10, 0.02  # Number of bursts, and the pause before each in seconds


@dataclass(frozen=True)
class Work:
    """One problem of one size, and the time steps to be measured."""

    problem: str  # Name of the problem
    params: dict[str, Any]  # Its parameters
    sweeper: str  # Name of the serial sweeper
    # dt, restol: step size and residual tolerance
    dt: float
    restol: float
    # warm, steps: number of steps that are not counted, and of those after them that are
    warm: int
    steps: int


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
        return getattr(self.comm, name)

    def _timed(self, carries: str, sent: int, name: str, *args: Any, **options: Any) -> Any:
        tic, cpu = perf_counter(), process_time()
        result = getattr(self.comm, name)(*args, **options)
        spent = process_time() - cpu
        self.calls.append(Call(carries, sent, perf_counter() - tic, spent))
        return result

    def Allgatherv(self, send: Any, receive: Any) -> None:
        _, counts, _, kind = receive
        size = kind.Get_size()
        carries = NOTES if size == 16 else VALUES
        self._timed(carries, size * counts[self.comm.Get_rank()], "Allgatherv", send, receive)

    def Bcast(self, message: Any, root: int = 0) -> None:
        self._timed(OTHERS, message.nbytes if self.comm.Get_rank() == root else 0, "Bcast", message, root)

    def Allreduce(self, message: Any, found: Any, **how: Any) -> None:
        self._timed(OTHERS, message.nbytes, "Allreduce", message, found, **how)

    def allgather(self, value: Any) -> Any:
        return self._timed(OTHERS, 0, "allgather", value)

    def bcast(self, value: Any, root: int = 0) -> Any:
        return self._timed(OTHERS, 0, "bcast", value, root)


class Run:
    """Time steps that can be repeated from the same state with everything warm."""

    def __init__(
        self,
        work: Work,
        nodes: int,
        qdelta: str,
        comm: TimedComm | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        hooks: Sequence[type[Any]] = (RequireConvergence,),
        by_node: bool = True,
        at_once: bool = False,
    ) -> None:
        self.work, self.comm = work, comm
        method: dict[str, Any] = {"sweeper": work.sweeper, "nodes": nodes, "qdelta": qdelta}
        method |= {"restol": work.restol, "parallel": None if comm is None else "nodes", **(settings or {})}
        setup = describe(work.problem, params=work.params, **method)
        setup = swept_at_once(setup) if at_once else setup
        description = setup.with_step(work.dt)
        if comm is not None:
            description["sweeper_params"]["comm"] = comm
        params = {**CONTROLLER, "hook_class": list(hooks)}
        self.controller = controller_nonMPI(1, params, description)
        self.problem = setup.problem
        t0 = setup.problem.interval[0]
        self.t0 = t0 + work.warm * work.dt
        first = setup.problem.state(setup.problem.u_exact(t0))
        # The first sweeps factorise, and the first step has no polynomial to continue.
        self.u0, _ = self.controller.run(u0=first, t0=t0, Tend=t0 + (work.warm - 0.5) * work.dt)
        self.at_node = [0.0] * nodes
        self()
        if by_node and comm is None:
            # By steps of its own: those here must have the same past as those of several ranks.
            other = Run(work, nodes, qdelta, settings=settings, hooks=hooks, by_node=False)
            other._look_at_nodes()
            self.at_node = other.at_node

    def _look_at_nodes(self) -> None:
        """Do the steps once more, node by node, to see what each takes."""
        sweep = self.controller.MS[0].levels[0].sweep
        iterate, solve = sweep.iterate, sweep.solver.solve

        def timed(low: int, high: int) -> None:
            for m in range(low, high):
                cpu = process_time()
                solve(m, m + 1)
                self.at_node[m] += process_time() - cpu

        # Several sweeps in one call would not come by here.
        iterate.stands_alone, sweep.solver.solve = lambda: False, timed
        try:
            self()
        finally:
            del iterate.stands_alone, sweep.solver.solve

    def __call__(self) -> Timing:
        """The measured steps once more, from the same state."""
        calls = [] if self.comm is None else self.comm.calls
        calls.clear()
        before = self.controller.MS[0].levels[0].sweep.iterate.sweeps
        end = self.t0 + (self.work.steps - 0.5) * self.work.dt
        with undisturbed(), stopwatch() as spent:
            value, stats = self.controller.run(u0=self.u0, t0=self.t0, Tend=end)
        entries = sorted((key.time, count) for key, count in stats.items() if key.type == "niter")
        sweeps = [before, *(int(count) for _, count in entries)]
        end_value = value.view(np.ndarray).copy()
        return Timing(spent.wall, spent.processor, list(calls), end_value, sweeps, list(self.at_node))

    def exchanges(self) -> tuple[float, float]:
        """Typical seconds of an exchange of values and of notes, one after another with nothing between."""
        # The median of a burst does not see interrupted ranks, unless they never run at the same time in it.
        assert self.comm is not None
        sweep = self.controller.MS[0].levels[0].sweep
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


@dataclass
class Timing:
    """What one run took on one rank."""

    # wall, cpu: seconds, and seconds of process time
    wall: float
    cpu: float
    calls: list[Call]  # Calls of MPI
    end: NDArray[np.float64]  # shape (n,): Value at the end
    sweeps: list[int] = field(default_factory=list)  # Sweeps of the step before the run and of its steps
    at_node: list[float] = field(default_factory=list)  # Process time of the solves at each node, seen apart
    threads: list[float] = field(default_factory=list)  # Seconds of other threads
    # steps, factorizations: numbers of accepted steps and of factorised matrices
    steps: int = 0
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


def measure(
    work: Work, nodes: int, qdelta: str, repetitions: int, cores: Sequence[int | None], comm: Any
) -> Iterator[dict[str, Any]]:
    """Medians of all times of one problem and size, on one process and on all."""
    root, size = comm.Get_rank() == 0, comm.Get_size()
    # Made in turn: a rank that waits inside MPI takes the time of the others.
    kinds = [qdelta, *([BEST_SERIAL] if qdelta != BEST_SERIAL else [])]
    alone = [Run(work, nodes, kind) for kind in kinds] if root else []
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


def record_of(controller: Any) -> Any:
    """The hook of a controller that keeps what its steps were."""
    return next(hook for hook in controller.hooks if isinstance(hook, StepRecord))


def rest(comm: Any) -> None:
    """A barrier in which waiting ranks sleep; those of MPI keep a core busy."""
    request = comm.Ibarrier()
    while not request.Test():
        sleep(PAUSE)


def _summary(both: InTurn) -> dict[str, Any]:
    runs, first = both.runs, both.runs[0]
    # Seconds of every call on all ranks: the one that comes last waits for nobody.
    shared = [np.array([[call.wall for call in rank.calls] for rank in ranks]) for ranks in runs]
    calls = [call for call in first[0].calls if call.carries != OTHERS]
    return {
        "sweeps": sum(first[0].sweeps[1:]),
        "dropped": sum(now < before for before, now in pairwise(first[0].sweeps)) if len(first) > 1 else 0,
        **{name: median(both.largest(name)) for name in ("wall", "cpu", "computing")},
        "computing_least": median(min(r.computing for r in ranks) for ranks in runs),
        "at_node": [median(ranks[0].at_node[m] for ranks in runs) for m in range(len(first[0].at_node))],
        "communication": median(float(walls.min(axis=0).sum()) for walls in shared),
        "waiting": median(float(walls.sum(axis=1).max() - walls.min(axis=0).sum()) for walls in shared),
        **{"exchange": 0.0, "exchange_notes": 0.0},
        **{f"ratio_{name}": median(both.ratios(name)) for name in ("wall", "computing")},
        **{"ratio_least": both.ratio_least, "undisturbed": both.least},
        "messages": sum(call.carries == VALUES for call in calls),
        "messages_notes": sum(call.carries == NOTES for call in calls),
        "messages_others": len(first[0].calls) - len(calls),
        "bytes": sum(call.sent for rank in first for call in rank.calls),
        "expected": expected_calls(first[0].sweeps) if len(first) > 1 else (0, 0),
        "equal": both.equal,
    }


def answer(rows: Callable[[Any, Any], Iterable[Mapping[str, Any]]]) -> int:
    """Print what standard input asks for, a line of JSON a row; an error ends all ranks."""
    try:
        comm = world()
        asked = comm.bcast(json.load(sys.stdin) if comm.Get_rank() == 0 else None, root=0)
        for row in rows(asked, comm):
            print(json.dumps(row), flush=True)
    except Exception as error:
        sys.stdout.flush()
        # Into a file, as a launcher cuts what several ranks print at once into each other.
        with replacing(Path(sys.argv[1]) / f"{os.getpid()}.json") as (file,):
            file.write(json.dumps(as_answer(error)).encode())
        os._exit(1)  # without a farewell to MPI, so that its launcher ends the others
    return 0


def _measured(asked: Any, comm: Any) -> Iterator[dict[str, Any]]:
    for work in asked.pop("works"):
        yield from measure(Work(**work), comm=comm, **asked)


if __name__ == "__main__":
    sys.exit(answer(_measured))
