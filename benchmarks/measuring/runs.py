"""Studies of many runs that each have a line of text, which repeats the run, and an outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tqdm import tqdm

import dae_sdc
from benchmarks.measuring.outcomes import Finding
from benchmarks.measuring.workers import SLOWER, carry_out
from dae_sdc.run.results import Result, check_target, command_line


def as_it_is(line: str, found: Finding) -> Finding:
    """What came of a run, as the run says itself."""
    return found


@dataclass(frozen=True)
class Runs:
    """What the runs of a study are, and which of them are bad."""

    study: str  # Its name
    columns: list[Any]  # Names and types of the columns, of which "line" and "outcome" are two
    repeat: Callable[[str], Finding]  # Does the run of a line; a function of a module, for other processes
    # The values of the columns from a line and what came of its run
    row: Callable[[str, Finding], tuple[Any, ...]]
    bad: Sequence[str]  # Outcomes that must not be
    # What came of a run whose process may have ended before it could say so
    judged: Callable[[str, Finding], Finding] = as_it_is
    # How much longer than its time on a processor a run may take, on a busy machine or asleep
    slower: float = SLOWER

    def carry_out(
        self,
        lines: Sequence[str],
        about: Mapping[str, Any],
        *,
        workers: int,
        time_limit: float,
        out: str | Path | None,
        progress: bool,
        order: Sequence[str] | None = None,
    ) -> Result:
        """Do the runs; an interrupt ends them, and what is done counts."""
        if out is not None:
            check_target(out)
        rows, began = [], perf_counter()
        runs = carry_out(self.repeat, lines, min(workers, len(lines)), time_limit, self.slower)
        bar = tqdm(total=len(lines), unit="run", disable=None if progress else True)
        with suppress(KeyboardInterrupt), closing(runs), bar:
            for line, ended in runs:
                found = self.judged(line, ended)
                rows.append((line, self.row(line, found)))
                if progress and found.outcome in self.bad:
                    bar.write(f"{found.outcome:8s} {line}\n         {found.message[:200]}", file=sys.stderr)
                bar.update()
        place = {line: i for i, line in enumerate(order or lines)}
        rows.sort(key=lambda row: place[row[0]])
        parameters = {
            "study": self.study,
            **about,
            **{"workers": workers, "time_limit": time_limit, "elapsed": perf_counter() - began},
            **{"package": str(Path(dae_sdc.__file__).parent), "complete": len(rows) == len(lines)},
        }
        data = np.array([row for _, row in rows], dtype=self.columns)
        result = Result("bench", data, {"seconds": "s"}, parameters, command_line())
        if out is not None:
            result.save(out)
        return result

    def any_bad(self, result: Result) -> bool:
        """Whether a result has runs that are bad."""
        return bool(np.isin(result.data["outcome"], self.bad).any())

    def bad_lines(self, result: Result) -> list[str]:
        """The lines of a report for the runs that are bad."""
        bad = result.data[np.isin(result.data["outcome"], self.bad)]
        how = f", each repeated by python -m benchmarks {self.study} --only LINE" * bool(len(bad))
        lines = ["", f"{len(bad)} bad{how}"]
        for row in bad:
            lines += [f"{row['outcome']:8s} {row['line']}", f"         {row['message']}"]
        return lines
