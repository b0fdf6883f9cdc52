"""Studies of many runs that each have a line of text, which repeats the run, and an outcome."""

from __future__ import annotations

import argparse
import inspect
import math
import multiprocessing
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any

import numpy as np

import dae_sdc
from benchmarks.study import Benchmark, Table, by_name
from dae_sdc.errors import DAEError, DAEWarning, InputError
from dae_sdc.run.results import Result, check_target
from dae_sdc.sharing import bar_of

DONE, REFUSED, FAILED, WRONG, CRASHED = "done", "refused", "failed", "WRONG", "CRASHED"
OUTCOMES = (DONE, REFUSED, FAILED, WRONG, CRASHED)
BAD = (WRONG, CRASHED)

# Text of a library under dae_sdc, in which no user finds a cause
RAW = re.compile(
    r"\b(numpy|scipy|numba|llvmlite|LAPACK|d[gs]e[a-z]{3}\d?|daxpy|offx|Traceback|object has no attribute|"
    r"unexpected keyword|positional argument|not subscriptable|index out of|out of bounds|must be same rank|"
    r"could not be broadcast|this is a defect)\b"
)


@dataclass(frozen=True)
class Finding:
    outcome: str  # One of OUTCOMES
    message: str = ""  # What the package or the judge said; empty for what is right and needs no word
    error: float = float("nan")  # Largest error in units of what is allowed; NaN where there is none
    steps: int = 0  # Steps that were taken
    solves: int = 0  # Integrations that the run consists of
    seconds: float = 0.0  # Time that it took on the processor
    warned: str = ""  # Warnings that are none of dae_sdc
    more: Mapping[str, Any] = field(default_factory=dict)  # What a study tells of it besides, by column

    @property
    def kind(self) -> str:
        """The class of the message: without its numbers and names."""
        text = re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)", "..", self.message)
        text = re.sub(r"[-+]?\b\d[\d.]*(e[-+]?\d+)?\b|\bnan\b|\binf\b", "#", text)
        text = re.sub(r"\b(x|du|u|equation |der)[#\[\]]*#\]?", "..", text)
        return " ".join(text.split())[:110]


def judged(run: Callable[[], Finding]) -> Finding:
    """What came of a run, whatever it raised."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        finding = outcome_of(run)
    strange = (each for each in caught if not issubclass(each.category, DAEWarning))
    said = next((f"{each.category.__name__}: {each.message}" for each in strange), "")
    return replace(finding, warned=said.partition("\n")[0][:200])


def outcome_of(run: Callable[[], Finding]) -> Finding:
    """What came of a run, without the warnings that it let through."""
    try:
        finding = run()
    except InputError as error:
        finding = Finding(REFUSED, str(error), solves=1)
    except DAEError as error:
        finding = Finding(FAILED, str(error), solves=1)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = next((f for f in reversed(frames) if "dae_sdc" in f.filename), frames[-1])
        place = f"{where.filename.rpartition('dae_sdc/')[2]}:{where.lineno}"
        return Finding(CRASHED, f"{type(error).__name__} at {place}: {str(error)[:300]}", solves=1)
    if finding.outcome in (REFUSED, FAILED):
        if not finding.message.strip():
            return replace(finding, outcome=CRASHED, message="no message")
        if RAW.search(finding.message):
            return replace(finding, outcome=CRASHED, message=f"raw text: {finding.message[:300]}")
    return finding


def lines_by_message(rows: Iterable[Any], column: str = "message") -> dict[str, list[str]]:
    """The lines of rows by the class of their message, those of the class that has most first."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        lines.setdefault(Finding("", str(row[column])).kind, []).append(str(row["line"]))
    return dict(sorted(lines.items(), key=lambda entry: -len(entry[1])))


def done_of(rows: Collection[Any]) -> str:
    done = sum(row["outcome"] == DONE for row in rows)
    return f"{done} of {len(rows)} done ({done / len(rows):.1%})"


GRACE = 2.0  # Seconds that a process gets to end
SLOWER = 20.0  # How much longer than its time on a processor a run may take on a busy machine
STARTING = 600.0  # Seconds that a new process gets to import what it needs
READY = "ready"
Runner = Callable[[str], Finding]


def timed(run: Runner, line: str) -> Finding:
    """What came of a run, with the time it took on the processor."""
    began = process_time()
    finding = run(line)
    return replace(finding, seconds=process_time() - began)


def _serve(pipe: Connection, run: Runner, seconds: float) -> None:
    """Answer lines with findings, and end where one takes too many seconds on the processor."""
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    with suppress(EOFError, OSError, KeyboardInterrupt):
        pipe.send(READY)
        while True:
            line = pipe.recv()
            with suppress(ImportError):  # where the system has no such limits
                import resource

                used = resource.getrusage(resource.RUSAGE_SELF)
                until = math.ceil(used.ru_utime + used.ru_stime + seconds)
                resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))
            pipe.send(timed(run, line))


class _Worker:
    """A process that does lines, one after the other, until one of them takes too long or ends it."""

    def __init__(self, run: Runner, seconds: float, slower: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there, run, seconds), daemon=True)
        self.process.start()
        there.close()
        self.seconds, self.waits = seconds, [STARTING, slower * seconds]  # for READY and for a finding
        self.lost = False

    def do(self, line: str) -> Finding:
        try:
            self.pipe.send(line)
            while self.pipe.poll(self.waits[0]):
                answer: Finding = self.pipe.recv()
                if len(self.waits) == 1:
                    return answer
                self.waits.pop(0)
        except (EOFError, OSError):
            self.process.join(GRACE)
        self.lost = True
        if self.process.exitcode not in (-getattr(signal, "SIGXCPU", 0), None):
            return Finding(CRASHED, f"the process ended with code {self.process.exitcode}", solves=1)
        return Finding(FAILED, "time limit", seconds=self.seconds, solves=1)

    def end(self) -> None:
        """End the process: one that has nothing to do may tidy up first."""
        with suppress(OSError):
            self.pipe.close()
        if not self.lost:
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
    groups = [list(group) for _, group in groupby(lines, key=lambda line: line.split(":")[:2])]
    waiting = iter(groups)
    ended: SimpleQueue[tuple[str, Finding] | Exception] = SimpleQueue()
    busy: set[_Worker] = set()
    stopped = Event()

    def work() -> None:
        """Take groups with a process that this thread waits for, and with a new one where it is lost."""
        worker = None
        try:
            for line in chain.from_iterable(waiting):
                if stopped.is_set():
                    break
                if worker is None or worker.lost:
                    worker = _Worker(run, seconds, slower)
                    busy.add(worker)
                ended.put((line, worker.do(line)))
                if worker.lost:
                    worker.end()
            if worker is not None:
                worker.end()
        except Exception as error:  # the thread that waits for findings raises it
            ended.put(error)

    threads = [Thread(target=work, daemon=True) for _ in range(min(workers, len(groups)))]
    try:
        for thread in threads:
            thread.start()
        for _ in lines:
            answer = ended.get()
            if isinstance(answer, Exception):
                raise answer
            yield answer
    finally:
        stopped.set()
        for thread in threads:
            while thread.is_alive():
                for worker in list(busy):
                    worker.process.kill()
                thread.join(0.1)


class Runs(Benchmark):
    """A study whose function puts the lines of runs into its first argument, and returns parameters."""

    def __init__(
        self,
        name: str,
        measure: Callable[..., Mapping[str, Any]],
        columns: str,  # "line" and "outcome" are two of them
        *,
        # Does the run of a line; a function of a module, for other processes
        repeat: Callable[[str], Finding],
        about: Callable[[str], Mapping[str, Any]],  # What a line says of its run, by column
        bad: Sequence[str],  # Outcomes that must not be
        # What came of a run whose process may have ended before it could say so
        judged: Callable[[str, Finding], Finding] = lambda line, finding: finding,
        # How much longer than its time on a processor a run may take, on a busy machine or asleep
        slower: float = SLOWER,
        order: Callable[[Sequence[str]], Iterable[str]] = list,  # In which lines are told
        here: int = 0,  # Number of lines up to which they are run in this process
        **how: Any,
    ) -> None:
        self.repeat, self.about_line, self.judged, self.slower = repeat, about, judged, slower
        self.order, self.here, self.bad_outcomes = order, here, bad
        super().__init__(name, measure, columns, bad=lambda result: len(self.bad_rows(result)) > 0, **how)

    @property
    def arguments(self) -> list[inspect.Parameter]:
        """Those of the function, and how its runs are carried out."""
        return [*super().arguments, *by_name(self.carried_out)]

    def planned(self, arguments: Mapping[str, Any]) -> tuple[list[str], Mapping[str, Any]]:
        """The lines of the runs that are asked for, and what is asked."""
        lines: list[str] = []
        names = {argument.name for argument in by_name(self.measure)}
        return lines, self.measure(lines, **{name: arguments[name] for name in arguments if name in names})

    def result(self, arguments: Mapping[str, Any], out: str | Path | None, progress: bool) -> Result:
        if out is not None:
            check_target(out)
        result = self.carried_out(*self.planned(arguments), progress, **arguments)
        if out is not None:
            result.save(out)
        return result

    def carried_out(
        self,
        lines: Sequence[str],
        about: Mapping[str, Any],
        progress: bool,
        *,
        workers: int = 2,
        time_limit: float = 60.0,  # Seconds that a run may take on a processor
        **_: Any,
    ) -> Result:
        """Do runs; an interrupt ends them, and what is done counts."""
        rows, found, began = Table("bench", self.columns, self.units, None), {}, perf_counter()
        processes = 0 if len(lines) <= self.here else min(workers, len(lines))
        runs = carry_out(self.repeat, lines, processes, time_limit, self.slower)
        with suppress(KeyboardInterrupt), closing(runs), bar_of(len(lines), "run", progress) as bar:
            for line, ended in runs:
                found[line] = finding = self.judged(line, ended)
                if progress and finding.outcome in self.bad_outcomes:
                    text = f"{finding.outcome:8s} {line}\n         {finding.message[:200]}"
                    bar.write(text, file=sys.stderr)
                bar.update()
        names = {name for name, _ in self.columns}
        for line in self.order(lines):
            if line in found:
                own = {name: value for name, value in vars(found[line]).items() if name in names}
                own |= {"line": line, "message": found[line].message.replace("\n", " ")}
                rows.put(**own, **self.about_line(line), **found[line].more)
        rows.parameters = {"study": self.name, **about, "workers": workers, "time_limit": time_limit}
        rows.parameters |= {"elapsed": perf_counter() - began, "package": str(Path(dae_sdc.__file__).parent)}
        rows.parameters["complete"] = len(rows.rows) == len(lines)
        return rows.result()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        text = "print the lines of the runs, and run nothing"
        parser.add_argument("--list", action="store_true", help=text)

    def main(self, args: argparse.Namespace) -> int:
        if not args.list:
            return super().main(args)
        print(*self.planned(self.asked(args))[0], sep="\n")
        return 0

    def bad_rows(self, result: Result) -> Any:
        return result.data[np.isin(result.data["outcome"], self.bad_outcomes)]

    def bad_lines(self, result: Result) -> list[str]:
        bad = self.bad_rows(result)
        how = f", each repeated by python -m benchmarks {self.name} --only LINE" * bool(len(bad))
        lines = ["", f"{len(bad)} bad{how}"]
        for row in bad:
            lines += [f"{row['outcome']:8s} {row['line']}", f"         {row['message']}"]
        return lines


def runs(name: str, columns: str, **how: Any) -> Callable[[Callable[..., Mapping[str, Any]]], Runs]:
    """Decorator that makes a study of a function that puts lines of runs into its first argument."""
    return lambda measure: Runs(name, measure, columns, **how)
