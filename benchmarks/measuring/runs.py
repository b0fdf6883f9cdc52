"""Studies of many runs that each have a line of text, which repeats the run, and an outcome."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tqdm import tqdm

import dae_sdc
from benchmarks.measuring.outcomes import Finding
from benchmarks.measuring.workers import SLOWER, carry_out
from benchmarks.study import Benchmark, by_name
from dae_sdc.run.results import Result, check_target, command_line


class Runs(Benchmark):
    """A study whose function puts the lines of runs into its first argument, and returns parameters."""

    def __init__(
        self,
        name: str,
        measure: Callable[..., Mapping[str, Any]],
        columns: str,  # "line" and "outcome" are two of them
        *,
        repeat: Callable[
            [str], Finding
        ],  # Does the run of a line; a function of a module, for other processes
        row: Callable[[str, Finding], tuple[Any, ...]],  # The values of the columns
        bad: Sequence[str],  # Outcomes that must not be
        # What came of a run whose process may have ended before it could say so
        judged: Callable[[str, Finding], Finding] = lambda line, finding: finding,
        # How much longer than its time on a processor a run may take, on a busy machine or asleep
        slower: float = SLOWER,
        order: Callable[[Sequence[str]], Iterable[str]] = list,  # In which lines are told
        here: int = 0,  # Number of lines up to which they are run in this process
        **how: Any,
    ) -> None:
        self.repeat, self.row, self.judged, self.slower = repeat, row, judged, slower
        self.order, self.here, self.bad_outcomes = order, here, bad
        super().__init__(name, measure, columns, bad=self.any_bad, **how)

    @property
    def arguments(self) -> list[inspect.Parameter]:
        """Those of the function, and how its runs are carried out."""
        return [*super().arguments, *by_name(self.carried_out)]

    def planned(self, **arguments: Any) -> tuple[list[str], Mapping[str, Any]]:
        lines: list[str] = []
        return lines, self.measure(lines, **arguments)

    def result(self, arguments: Mapping[str, Any], out: str | Path | None, progress: bool) -> Result:
        if out is not None:
            check_target(out)
        of_the_runs = {argument.name for argument in by_name(self.measure)}
        lines, about = self.planned(**{name: arguments[name] for name in arguments if name in of_the_runs})
        how = {name: value for name, value in arguments.items() if name not in of_the_runs}
        result = self.carried_out(lines, about, progress, **how)
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
    ) -> Result:
        """Do runs; an interrupt ends them, and what is done counts."""
        rows, began = [], perf_counter()
        processes = 0 if len(lines) <= self.here else min(workers, len(lines))
        runs = carry_out(self.repeat, lines, processes, time_limit, self.slower)
        bar = tqdm(total=len(lines), unit="run", disable=None if progress else True)
        with suppress(KeyboardInterrupt), closing(runs), bar:
            for line, ended in runs:
                finding = self.judged(line, ended)
                rows.append((line, self.row(line, finding)))
                if progress and finding.outcome in self.bad_outcomes:
                    bar.write(
                        f"{finding.outcome:8s} {line}\n         {finding.message[:200]}", file=sys.stderr
                    )
                bar.update()
        place = {line: i for i, line in enumerate(self.order(lines))}
        rows.sort(key=lambda row: place[row[0]])
        parameters = {
            "study": self.name,
            **about,
            **{"workers": workers, "time_limit": time_limit, "elapsed": perf_counter() - began},
            **{"package": str(Path(dae_sdc.__file__).parent), "complete": len(rows) == len(lines)},
        }
        data = np.array([row for _, row in rows], dtype=self.columns)
        return Result("bench", data, {"seconds": "s"}, parameters, command_line())

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--list", action="store_true", help="print the lines of the runs, and run nothing"
        )

    def main(self, args: argparse.Namespace) -> int:
        if not args.list:
            return super().main(args)
        asked = {argument.name for argument in by_name(self.measure)}
        arguments = {name: value for name, value in self.asked(args).items() if name in asked}
        print(*self.planned(**arguments)[0], sep="\n")
        return 0

    def any_bad(self, result: Result) -> bool:
        return bool(np.isin(result.data["outcome"], self.bad_outcomes).any())

    def bad_lines(self, result: Result) -> list[str]:
        bad = result.data[np.isin(result.data["outcome"], self.bad_outcomes)]
        how = f", each repeated by python -m benchmarks {self.name} --only LINE" * bool(len(bad))
        lines = ["", f"{len(bad)} bad{how}"]
        for row in bad:
            lines += [f"{row['outcome']:8s} {row['line']}", f"         {row['message']}"]
        return lines


def runs(name: str, columns: str, **how: Any) -> Callable[[Callable[..., Mapping[str, Any]]], Runs]:
    """Decorator that makes a study of a function that puts lines of runs into its first argument."""
    return lambda measure: Runs(name, measure, columns, **how)
