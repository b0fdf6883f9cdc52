"""Jobs that are shared by worker processes, or by the ranks of an MPI communicator."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
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
    """Results of a function one by one."""
    for job in jobs:
        check()
        yield function(job)


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


@contextmanager
def _started(workers: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Worker processes, which are ended behind what is inside."""
    environment = dict.fromkeys(_THREADS, "1") | surroundings()
    processes = [
        subprocess.Popen(
            python("-c", _WORKER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        for _ in range(workers)
    ]
    try:
        yield processes
    finally:  # this also ends threads that still wait for an answer
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


def _answer(process: subprocess.Popen[bytes], message: bytes, where: str) -> Any:
    """Results of the jobs in a message, why there are no more, and the seconds that they took."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(message)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (OSError, EOFError, pickle.UnpicklingError):
        raise RemoteError(
            f"a worker process ended with code {process.wait()} at {where}; try workers=1"
        ) from None


def _by_workers(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    arrived: Callable[[int, Result], object],
) -> None:
    """Give out shares of the jobs in their order, and not far ahead of results that have not come."""
    answers: dict[Future[Any], tuple[subprocess.Popen[bytes], range]] = {}
    first, total = 0, len(jobs)
    with ThreadPoolExecutor(workers) as threads, _started(workers) as processes:
        # With how many jobs each gets next, and the function, which is sent once and kept by the process.
        idle: list[tuple[Any, int, Any]] = [(process, 1, function) for process in processes]
        while first < total or answers:
            slowest = min((numbers.start for _, numbers in answers.values()), default=first)
            while idle and first < min(total, slowest + SHARES_AHEAD * MOST_IN_A_SHARE * workers):
                process, share, unsent = idle.pop(0)
                # Towards the end shares become small, so that all workers end at the same time.
                numbers = range(first, first + min(share, -(-(total - first) // (2 * workers))))
                where = f"job {first + 1}{f' to {numbers.stop}' if len(numbers) > 1 else ''} of {total}"
                message = _packed((unsent, jobs[first : numbers.stop]))
                answers[threads.submit(_answer, process, message, where)] = process, numbers
                first = numbers.stop
            for answer in wait(answers, timeout=BETWEEN_CHECKS, return_when=FIRST_COMPLETED).done:
                process, numbers = answers.pop(answer)
                results, failure, seconds = answer.result()
                for number, result in zip(numbers, results, strict=False):
                    arrived(number, result)
                if failure is not None:
                    number = numbers[len(results)] + 1
                    raise RemoteError(f"job {number} of {total} in a worker process: {failure}")
                share = _next_share(len(numbers), seconds, SECONDS_OF_A_SHARE, MOST_IN_A_SHARE)
                idle.append((process, share, None))
            check()


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
