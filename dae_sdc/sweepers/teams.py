"""Those who share the parts of a step which need nothing of each other: threads of one process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import perf_counter, thread_time
from typing import Any, ClassVar, TypeVar

import numpy as np

from dae_sdc.dae.state import Vector

T = TypeVar("T")

# What is shared: F at the stages, compiled or a function in Python; solves with the matrices of the
# eigenbasis; their transformation back to the stages; factorisations; the solve of the error estimate.
EVALUATE, CALL, SOLVE, SPREAD, FACTORIZE, FILTER = range(6)
AUTO = "auto"  # What stands for a choice that is measured.


LEAST_SHARED = 1000  # Smallest number of unknowns of a system that is shared where the choice is measured.
PAYING_RATIO = 0.95  # Largest ratio of the shared to the serial time at which sharing is chosen.
TRIAL_STEPS = 8  # Largest number of steps that are measured before the choice.
TAKES_OVER = True  # Whether a thread that is ready does parts of others that have not begun with them.
# Seconds that any part takes at least, so that parts whose costs are not known are dealt out evenly.
TINY_COST = 1e-9


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Trial:
    """The choice between serial and shared work by measuring a serial step and a shared one."""

    def __init__(self, settled: bool) -> None:
        self.shared, self.settled, self.ratio, self.steps = settled, settled, float("nan"), 0
        self.counts: dict[int, int] = {}
        self.least: dict[tuple[bool, int], float] = {}

    def note(self, kind: int, seconds: float) -> None:
        """Take the time of one piece of work as it was done."""
        if not self.settled:
            key = self.shared, kind
            self.least[key] = min(self.least.get(key, np.inf), seconds)
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def next_step(self, agreed: Callable[[Vector], Vector]) -> bool:
        """Go on to the next step; whether work is shared in another way from here."""
        self.steps += 1
        if self.settled or self.steps == 1:
            return False
        if not self.shared:
            self.shared = True
            return True
        known = [kind for kind in self.counts if {(True, kind), (False, kind)} <= self.least.keys()]
        # Work of a kind that was not met in the shared steps counts when it is.
        waiting = len(known) < len(self.counts) and self.steps < TRIAL_STEPS
        times = [sum(self.counts[kind] * self.least[way, kind] for kind in known) for way in (True, False)]
        together, alone, waits = agreed(np.array([*times, float(waiting)]))
        if waits:
            return False
        self.settled, self.ratio = True, float(together / alone) if alone > 0.0 else np.inf
        self.shared = self.ratio <= PAYING_RATIO
        return not self.shared


class Team:
    """Those who share the parts of a step: :class:`Threads`, or ranks."""

    who: ClassVar[str]
    separate: ClassVar[bool]
    least: ClassVar[int]  # Least number of parts that are shared.
    at_once = 1

    def __init__(self, size: int, measured: bool = False) -> None:
        self.size, self.measured, self.trial = size, measured, Trial(not measured)

    def __deepcopy__(self, memo: Any) -> Team:
        return self

    @property
    def remark(self) -> str:
        """What was chosen, and why."""
        trial, many = self.trial, f"{self.size} {self.who}s"
        if not self.measured:
            return many
        if not trial.settled:
            return f"{many}: the run ended before the choice"
        took = f"a step takes {trial.ratio:.2f} of the serial time on {many}"
        return f"{many}: {took}" if trial.shared else f"serial: {took}"

    @property
    def idle(self) -> bool:
        """Whether everything is done alone from here on."""
        return self.trial.settled and not self.trial.shared

    def next_step(self) -> bool:
        """Begin a step; whether factors of the last one are of no use, because they lie elsewhere."""
        return self.trial.next_step(lambda times: times) and self.separate

    def share(self, kind: int, do: Callable[[int], int], count: int, rows: Vector | None, ends: Any) -> bool:
        """Do the parts 0 to ``count`` - 1 of a piece of work."""
        # Shapes: rows (R, n).
        began = perf_counter()
        if self.trial.shared and count >= self.least:
            done = self._share(kind, do, count, rows, ends)
        else:
            done = all([bool(do(part)) for part in range(count)])
        # The one matrix that is factorised before the first step tells nothing of those of a step.
        if kind != FACTORIZE or count > 1:
            self.trial.note(kind, perf_counter() - began)
        return done

    def _share(self, kind: int, do: Callable[[int], int], count: int, rows: Any, ends: Any) -> bool:
        raise NotImplementedError

    def everywhere(self, do: Callable[[], T]) -> T:
        """Call a function that gives the same on all ranks; what it raises on one is raised on all."""
        return do()


class _Job:
    """Parts of a piece of work, shared out by their costs; who is ready takes parts that others left."""

    def __init__(self, do: Callable[[int], int], costs: Sequence[float], size: int) -> None:
        self.do, self.left = do, len(costs)
        self.done, self.costs = [True] * self.left, list(costs)
        self.errors: dict[int, BaseException] = {}
        self.counting, self.finished = threading.Lock(), threading.Lock()
        self.finished.acquire()
        self.given: list[list[int]] = [[] for _ in range(size)]
        loads = [0.0] * size
        for part in sorted(range(len(costs)), key=costs.__getitem__, reverse=True):
            least = loads.index(min(loads))
            self.given[least].append(part)
            loads[least] += max(costs[part], TINY_COST)

    def _next(self, number: int) -> int | None:
        with self.counting:
            own = self.given[number]
            if not own and TAKES_OVER:
                own = max(self.given, key=len)
            return own.pop(0) if own else None

    def work(self, number: int) -> float:
        """Do parts as a thread until there are no more; the computing time in seconds."""
        total = 0.0
        while (part := self._next(number)) is not None:
            began = thread_time()
            try:
                self.done[part] = bool(self.do(part))
            except BaseException as error:
                self.errors[part] = error
            self.costs[part] = thread_time() - began
            total += self.costs[part]
            with self.counting:
                self.left -= 1
                if not self.left:
                    self.finished.release()
        return total


def _serve(inbox: SimpleQueue[_Job | None], seconds: Vector, number: int) -> None:
    while (job := inbox.get()) is not None:
        seconds[number] += job.work(number)
        del job


class Threads(Team):
    """Threads of this process, which wait for work until this object is collected."""

    # Each part is computed as it would be by one thread, so that values are those of a serial run to the last
    # bit. Compiled code and SuperLU run at the same time; functions in Python do not.

    # Shapes: seconds (size,).

    who, separate, least = "thread", False, 2

    def __init__(self, size: int, measured: bool = False) -> None:
        super().__init__(size, measured)
        self.at_once = size
        self.seconds = np.zeros(size)
        self._costs: dict[int, list[float]] = {}
        self._inboxes: list[SimpleQueue[_Job | None]] = []

    def _share(self, kind: int, do: Callable[[int], int], count: int, rows: Any, ends: Any) -> bool:
        """See :class:`Team`; the exception of the first part that has one is raised when all have ended."""
        if not self._inboxes:
            self._inboxes = [SimpleQueue() for _ in range(self.size - 1)]
            for number, inbox in enumerate(self._inboxes, 1):
                work = inbox, self.seconds, number
                threading.Thread(target=_serve, args=work, name="dae_sdc stages", daemon=True).start()
                weakref.finalize(self, inbox.put, None)
        job = _Job(do, self._costs.get(kind, [0.0] * count), min(self.size, count))
        for inbox in self._inboxes[: count - 1]:
            inbox.put(job)
        self.seconds[0] += job.work(0)
        # A thread that was not woken in time finds nothing left to do.
        job.finished.acquire()
        self._costs[kind] = job.costs
        if job.errors:
            raise job.errors[min(job.errors)]
        return all(job.done)
