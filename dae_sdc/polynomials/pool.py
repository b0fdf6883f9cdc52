"""Jobs that are shared by worker processes, or by the ranks of an MPI communicator."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from operator import itemgetter
from time import perf_counter
from typing import Any, TypeVar

from dae_sdc.deadline import check, limited
from dae_sdc.errors import DAEError, InputError, RemoteError, TimeLimitError, require_count, words_of
from dae_sdc.sharing import python, surroundings

Job = TypeVar("Job")
Result = TypeVar("Result")

_WORKER = "from dae_sdc.polynomials.pool import serve; serve()"

# Jobs are sent to a worker, and given to the ranks of MPI, in shares that take about so many seconds.
SECONDS_OF_A_SHARE = 0.1
SECONDS_OF_A_ROUND = 1.0
MOST_IN_A_SHARE = 100  # Jobs that a worker gets at once.
# Shares of a worker that it is ahead of a slow job at most, before it waits for that.
SHARES_AHEAD = 4
BETWEEN_CHECKS = 0.2  # Seconds between two looks at the time while other processes work.

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


SECONDS_AT_ONCE, MOST_AT_ONCE = 0.05, 8  # Jobs that a function takes at once where it takes several.


def run_jobs(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    workers: int = 1,
    comm: Any = None,
    arrived: Callable[[int, Result], object] = lambda number, result: None,
) -> list[Result]:
    """Results of a function for many jobs, in the order of the jobs, computed by several processes."""
    results: list[Any] = [None] * len(jobs)

    def keep(number: int, result: Result) -> None:
        results[number] = result
        arrived(number, result)

    share_jobs(function, jobs, keep, workers=workers, comm=comm, in_rounds=False)
    return results


def share_jobs(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    arrived: Callable[[int, Result], object],
    *,
    workers: int = 1,
    comm: Any = None,
    in_rounds: bool = True,
) -> None:
    """Hand each result of a function for many jobs on as it comes, and keep none.

    Jobs are begun in their order, and none far beyond the first whose result has not come, so that who needs
    the results in this order has few that wait. With a communicator ``arrived`` is called on all ranks, for
    every result, behind each round.
    """
    # Worker processes are fresh interpreters: this process is not forked, and a script that calls this is not
    # run again in them, with or without ``if __name__ == "__main__"``.
    require_count("workers", workers)
    if comm is not None:
        if workers > 1:
            raise InputError("give workers or comm, not both: with comm, the ranks are the workers")
        _by_ranks(function, jobs, arrived, comm, 1 if in_rounds else len(jobs))
    elif min(workers, len(jobs)) > 1:
        _by_workers(function, jobs, min(workers, len(jobs)), arrived)
    else:
        for number, result in enumerate(_results_of(function, jobs)):
            arrived(number, result)


def _results_of(function: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
    """Results of a function one by one, or of ``several`` jobs at once where it has that."""
    several, first, share = getattr(function, "several", None), 0, 1
    while first < len(jobs):
        check()
        began, some = perf_counter(), jobs[first : first + share]
        results = several(some) if several else [function(job) for job in some]
        first, seconds = first + share, perf_counter() - began
        share = _next_share(share, seconds, SECONDS_AT_ONCE, MOST_AT_ONCE if several else 1)
        yield from results


def _next_share(share: int, seconds: float, wanted: float, most: int) -> int:
    """How many jobs a process gets next, so that they take the wanted time: twice as many at most."""
    return max(1, min(2 * share, int(share * wanted / max(seconds, 1e-9)), most))


def _by_ranks(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    arrived: Callable[[int, Result], object],
    comm: Any,
    share: int,
) -> None:
    """Rounds in which every rank does a share of the next jobs; a last one in which there is none."""
    first = 0
    error: Exception | None = None
    while True:
        mine: list[tuple[int, Result]] = []
        numbers = range(first + comm.rank, min(first + share * comm.size, len(jobs)), comm.size)
        began = perf_counter()
        try:
            if error is None:
                with limited():
                    mine = list(zip(numbers, _results_of(function, [jobs[k] for k in numbers]), strict=True))
        except Exception as raised:  # the other ranks wait, and must be told
            error = raised
        late = isinstance(error, TimeLimitError)
        failure = None if error is None else _told(error)
        gathered = comm.allgather((mine, failure, late, perf_counter() - began))
        if error is not None:
            raise error
        for rank, (_, failure, late, _) in enumerate(gathered):
            if late:
                raise TimeLimitError(failure)
            if failure is not None:
                raise RemoteError(f"rank {rank} of {comm.size}: {failure}")
        if first >= len(jobs):
            return
        try:
            for number, result in sorted((pair for part, *_ in gathered for pair in part), key=itemgetter(0)):
                arrived(number, result)
        except Exception as raised:  # such as of rank 0 alone, which writes a file
            error = raised
        first += share * comm.size
        slowest = max(seconds for *_, seconds in gathered)
        share = _next_share(share, slowest, SECONDS_OF_A_ROUND, max(1, (len(jobs) - first) // comm.size))


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, DAEError) else words_of(error)


def _packed(what: Any) -> bytes:
    try:
        return pickle.dumps(what)
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # such as a lambda
        raise InputError(
            f"other processes cannot be sent what they are to compute ({words_of(error)}); define functions "
            f"in a file, or leave workers out"
        ) from error


class _Queue:
    """Numbers of jobs, given out in their order, and not far ahead of results that have not come."""

    def __init__(self, total: int, workers: int) -> None:
        self.total, self.workers, self.next, self.ended = total, workers, 0, False
        self._ahead = SHARES_AHEAD * MOST_IN_A_SHARE * workers
        self._begun: set[int] = set()  # First numbers of the shares that are under way.
        self._changed = threading.Condition()

    def take(self, share: int) -> range:
        """The next numbers, so many at most; none where all are given out, or the work has ended."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.ended or self.next - min(self._begun, default=self.next) < self._ahead
            )
            # Towards the end shares become small, so that all workers end at the same time.
            left = self.total - self.next
            count = 0 if self.ended else min(share, -(-left // (2 * self.workers)))
            numbers = range(self.next, self.next + count)
            self.next = numbers.stop
            if count:
                self._begun.add(numbers.start)
            return numbers

    def done(self, numbers: range) -> None:
        """The results of numbers that were taken have come."""
        with self._changed:
            self._begun.remove(numbers.start)
            self._changed.notify_all()

    def end(self) -> None:
        """Give out no more."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()


def _by_workers(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    arrived: Callable[[int, Result], object],
) -> None:
    environment = dict.fromkeys(_THREADS, "1") | surroundings()
    waiting, one_at_a_time = _Queue(len(jobs), workers), threading.Lock()
    processes = [
        subprocess.Popen(
            python("-c", _WORKER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        for _ in range(workers)
    ]

    def feed(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        share = 1
        first: Callable[[Job], Result] | None = function  # Is sent once, and kept by the process.
        while numbers := waiting.take(share):
            message = _packed((first, [jobs[number] for number in numbers]))
            try:
                process.stdin.write(message)
                process.stdin.flush()
                results, failure, seconds = pickle.load(process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError):
                where = f"job {numbers[0] + 1}" + (f" to {numbers[-1] + 1}" if len(numbers) > 1 else "")
                raise RemoteError(
                    f"a worker process ended with code {process.wait()} at {where} of {len(jobs)}; "
                    "try workers=1"
                ) from None
            first, share = None, _next_share(share, seconds, SECONDS_OF_A_SHARE, MOST_IN_A_SHARE)
            with one_at_a_time:
                for number, result in zip(numbers, results, strict=False):
                    arrived(number, result)
            if failure is not None:
                number = numbers[len(results)] + 1
                raise RemoteError(f"job {number} of {len(jobs)} in a worker process: {failure}")
            waiting.done(numbers)

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
            finally:  # this also ends the threads that still wait for an answer, or for another one
                waiting.end()
                for process in processes:
                    process.kill()
    finally:
        for process in processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


def serve() -> None:
    """Loop of a worker process: read jobs from standard input, write results to standard output."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # text that a job prints must not mix with results
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends this process
    function: Any = None
    while True:
        try:
            first, jobs = pickle.load(source)
        except EOFError:
            return
        function = first or function
        results, failure, began = list[Any](), None, perf_counter()
        try:
            results.extend(_results_of(function, jobs))
        except Exception as error:
            failure = _told(error)
        pickle.dump((results, failure, perf_counter() - began), sink)
        sink.flush()
