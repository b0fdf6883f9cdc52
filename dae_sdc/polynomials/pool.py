"""Jobs that are shared by worker processes, or by the ranks of an MPI communicator."""

from __future__ import annotations

import pickle
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar

from dae_sdc.deadline import check, limited
from dae_sdc.errors import DAEError, InputError, RemoteError, TimeLimitError, require_count, words_of
from dae_sdc.sharing import python, surroundings

Job = TypeVar("Job")
Result = TypeVar("Result")

_WORKER = "from dae_sdc.polynomials.pool import serve; serve()"

BETWEEN_CHECKS = 0.2  # Seconds between two looks at the time while other processes work.

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    workers: int = 1,
    comm: Any = None,
    arrived: Callable[[int, Result], object] = lambda number, result: None,
) -> list[Result]:
    """Results of a function for many jobs, in the order of the jobs, computed by several processes."""
    # Worker processes are fresh interpreters: this process is not forked, and a script that calls this is not
    # run again in them, with or without ``if __name__ == "__main__"``.
    require_count("workers", workers)
    if comm is not None:
        if workers > 1:
            raise InputError("give workers or comm, not both: with comm, the ranks are the workers")
        error: Exception | None = None
        mine: list[tuple[int, Result]] = []
        try:
            with limited():
                mine = [(number, function(jobs[number])) for number in range(comm.rank, len(jobs), comm.size)]
        except Exception as raised:  # the other ranks wait, and must be told
            error = raised
        late = isinstance(error, TimeLimitError)
        gathered = comm.allgather((mine, None if error is None else _told(error), late))
        if error is not None:
            raise error
        for rank, (_, failure, late) in enumerate(gathered):
            if late:
                raise TimeLimitError(failure)
            if failure is not None:
                raise RemoteError(f"rank {rank} of {comm.size}: {failure}")
        done = dict(pair for part, *_ in gathered for pair in part)
        return [done[number] for number in range(len(jobs))]
    if min(workers, len(jobs)) > 1:
        return _by_workers(function, jobs, min(workers, len(jobs)), arrived)
    results = []
    for number, job in enumerate(jobs):
        check()
        results.append(function(job))
        arrived(number, results[-1])
    return results


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, DAEError) else words_of(error)


def _packed(function: Callable[[Job], Result], job: Job) -> bytes:
    try:
        return pickle.dumps((function, job))
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # such as a lambda
        raise InputError(
            f"other processes cannot be sent what they are to compute ({words_of(error)}); define functions "
            f"in a file, or leave workers out"
        ) from error


def _by_workers(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    arrived: Callable[[int, Result], object],
) -> list[Result]:
    environment = dict.fromkeys(_THREADS, "1") | surroundings()
    results: list[Any] = [None] * len(jobs)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(jobs)):
        waiting.put(number)
    processes = [
        subprocess.Popen(
            python("-c", _WORKER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        for _ in range(workers)
    ]

    def feed(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        while True:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                process.stdin.write(_packed(function, jobs[number]))
                process.stdin.flush()
                good, result = pickle.load(process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError):
                raise RemoteError(
                    f"a worker process ended with code {process.wait()} at job {number + 1} of {len(jobs)}; "
                    "try workers=1"
                ) from None
            if not good:
                raise RemoteError(f"job {number + 1} of {len(jobs)} in a worker process: {result}")
            results[number] = result
            arrived(number, result)

    try:
        with ThreadPoolExecutor(workers) as threads:
            try:
                fed = [threads.submit(feed, process) for process in processes]
                while wait(fed, timeout=BETWEEN_CHECKS, return_when=FIRST_EXCEPTION).not_done:
                    if any(one.done() and one.exception() for one in fed):
                        break
                    check()
                for done in fed:
                    done.result()
            finally:  # this also ends the threads that still wait for an answer
                for process in processes:
                    process.kill()
    finally:
        for process in processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
    return results


def serve() -> None:
    """Loop of a worker process: read jobs from standard input, write results to standard output."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # text that a job prints must not mix with results
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends this process
    while True:
        try:
            function, job = pickle.load(source)
        except EOFError:
            return
        try:
            answer = True, function(job)
        except Exception as error:
            answer = False, _told(error)
        pickle.dump(answer, sink)
        sink.flush()
