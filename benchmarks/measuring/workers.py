"""Processes that do runs, one line after the other, and do not outlive their time limit."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from time import monotonic, process_time
from typing import Any

from benchmarks.measuring.outcomes import CRASHED, FAILED, Finding

GRACE = 2.0  # Seconds that a process gets to end
SLOWER = 20.0  # How much longer than its time on a processor a run may take on a busy machine
STARTING = 600.0  # Seconds that a new process gets to import what it needs
READY = "ready"
Runner = Callable[[str], Finding]


def timed(run: Runner, line: str) -> Finding:
    """What came of a run, with the time it took on the processor."""
    began = process_time()
    found = run(line)
    return replace(found, seconds=process_time() - began)


def allow(seconds: float) -> None:
    """Let this process end itself when it has worked for some seconds more, where the system can do that."""
    with suppress(ImportError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        until = math.ceil(used.ru_utime + used.ru_stime + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (until, most))


def _serve(pipe: Connection, run: Runner, seconds: float) -> None:
    """Answer lines with findings until there are no more."""
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    with suppress(EOFError, OSError, KeyboardInterrupt):
        pipe.send(READY)
        while True:
            line = pipe.recv()
            allow(seconds)
            pipe.send(timed(run, line))


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    line: str | None = None
    deadline: float = 0.0
    fresh: bool = True
    group: deque[str] = field(default_factory=deque)

    @classmethod
    def started(cls, run: Runner, seconds: float) -> _Worker:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, run, seconds), daemon=True)
        process.start()
        there.close()
        return cls(process, here)

    def give(self, seconds: float, slower: float) -> None:
        """Send the next line of the group."""
        self.line = self.group.popleft()
        self.pipe.send(self.line)
        self.deadline = monotonic() + (STARTING if self.fresh else slower * seconds)

    def end(self) -> None:
        """End the process: one that has nothing to do may tidy up first."""
        with suppress(OSError):
            self.pipe.close()
        if self.line is None:
            self.process.join(GRACE)
        self.process.kill()
        self.process.join()


def grouped(lines: Sequence[str]) -> deque[deque[str]]:
    """Lines that follow one another and are about one DAE, of which a process can keep what it compiled."""
    groups: deque[deque[str]] = deque()
    key = None
    for line in lines:
        own = line.split(":")[:2]
        if own != key:
            groups.append(deque())
            key = own
        groups[-1].append(line)
    return groups


def carry_out(
    run: Runner, lines: Sequence[str], workers: int, seconds: float, slower: float = SLOWER
) -> Generator[tuple[str, Finding], None, None]:
    """Do runs and give what came of them, in the order in which they end."""
    if workers < 1:
        yield from ((line, timed(run, line)) for line in lines)
        return
    waiting = grouped(lines)
    busy: list[_Worker] = []
    idle: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else _Worker.started(run, seconds)
                worker.group = waiting.popleft()
                worker.give(seconds, slower)
                busy.append(worker)
            timeout = max(0.0, min(worker.deadline for worker in busy) - monotonic())
            ready = wait([worker.pipe for worker in busy], timeout)
            for worker in list(busy):
                line = worker.line
                assert line is not None
                if worker.pipe in ready:
                    try:
                        found = worker.pipe.recv()
                    except (EOFError, OSError):
                        worker.process.join(GRACE)
                        code = worker.process.exitcode
                        if code == -getattr(signal, "SIGXCPU", 0):
                            found = Finding(FAILED, "time limit", seconds=seconds, solves=1)
                        else:
                            found = Finding(CRASHED, f"the process ended with code {code}", solves=1)
                        worker = _renewed(worker, busy, run, seconds)
                    if found == READY:
                        worker.fresh = False
                        worker.deadline = monotonic() + slower * seconds
                        continue
                    yield line, found
                elif monotonic() > worker.deadline:
                    yield line, Finding(FAILED, "time limit", seconds=seconds, solves=1)
                    worker = _renewed(worker, busy, run, seconds)
                else:
                    continue
                if worker.group:
                    worker.give(seconds, slower)
                else:
                    worker.line = None
                    busy.remove(worker)
                    idle.append(worker)
    finally:
        for worker in (*busy, *idle):
            worker.end()


def _renewed(worker: _Worker, busy: list[_Worker], run: Runner, seconds: float) -> _Worker:
    """A new process in the place of one that is of no more use."""
    worker.end()
    other = _Worker.started(run, seconds)
    other.group = worker.group
    busy[busy.index(worker)] = other
    return other
