"""Processes that do runs, one line after the other, and do not outlive their time limit."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from multiprocessing.connection import Connection, wait
from time import monotonic, process_time

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


class _Worker:
    """A process that does the lines of a group, one after the other."""

    def __init__(self, run: Runner, seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there, run, seconds), daemon=True)
        self.process.start()
        there.close()
        self.line, self.deadline = "", 0.0  # What it does, and until when
        self.fresh, self.lost = True, False  # Whether it has done nothing yet, and is of no more use

    def give(self, line: str, seconds: float) -> None:
        self.line = line
        self.pipe.send(line)
        self.deadline = monotonic() + (STARTING if self.fresh else seconds)

    def ended(self, seconds: float) -> Finding | None:
        """What came of the line of a process that is ready or late; None where it only begins to work."""
        code = -getattr(signal, "SIGXCPU", 0)
        self.lost = True
        if self.pipe.poll():
            try:
                finding = self.pipe.recv()
                self.fresh = self.lost = False
                return None if finding == READY else finding
            except (EOFError, OSError):
                self.process.join(GRACE)
        if self.process.exitcode not in (code, None):
            return Finding(CRASHED, f"the process ended with code {self.process.exitcode}", solves=1)
        return Finding(FAILED, "time limit", seconds=seconds, solves=1)

    def end(self) -> None:
        """End the process: one that has nothing to do may tidy up first."""
        with suppress(OSError):
            self.pipe.close()
        if not self.line:
            self.process.join(GRACE)
        self.process.kill()
        self.process.join()


def carry_out(
    run: Runner, lines: Sequence[str], workers: int, seconds: float, slower: float = SLOWER
) -> Generator[tuple[str, Finding], None, None]:
    """Do runs and give what came of them, in the order in which they end."""
    if workers < 1:
        yield from ((line, timed(run, line)) for line in lines)
        return
    # Lines that follow one another and are about one DAE have one process, which keeps what it compiled.
    waiting = deque(deque(group) for _, group in groupby(lines, key=lambda line: line.split(":")[:2]))
    busy: dict[_Worker, deque[str]] = {}  # With the lines that are left of its group
    idle: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker, group = idle.pop() if idle else _Worker(run, seconds), waiting.popleft()
                worker.give(group.popleft(), slower * seconds)
                busy[worker] = group
            timeout = max(0.0, min(worker.deadline for worker in busy) - monotonic())
            ready = wait([worker.pipe for worker in busy], timeout)
            for worker, group in list(busy.items()):
                if worker.pipe not in ready and monotonic() <= worker.deadline:
                    continue
                finding = worker.ended(seconds)
                if finding is None:
                    worker.deadline = monotonic() + slower * seconds
                    continue
                yield worker.line, finding
                del busy[worker]
                if worker.lost:
                    worker.end()
                    worker = _Worker(run, seconds)
                worker.line = ""
                if group:
                    worker.give(group.popleft(), slower * seconds)
                    busy[worker] = group
                else:
                    idle.append(worker)
    finally:
        for worker in (*busy, *idle):
            worker.end()
