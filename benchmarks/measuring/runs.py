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
    """What the runs of a study are, and which of them are bad.

    Parameters
    ----------
    study : str
        Its name.
    columns : list
        Names and types of the columns, of which "line" and "outcome" are two.
    repeat : callable
        Does the run of a line; a function of a module, for other processes.
    row : callable
        The values of the columns from a line and what came of its run.
    bad : sequence of str
        Outcomes that must not be.
    judged : callable
        What came of a run whose process may have ended before it could say so.
    slower : float
        How much longer than its time on a processor a run may take, on a busy machine or asleep.
    """

    study: str
    columns: list[Any]
    repeat: Callable[[str], Finding]
    row: Callable[[str, Finding], tuple[Any, ...]]
    bad: Sequence[str]
    judged: Callable[[str, Finding], Finding] = as_it_is
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
        """Do the runs; an interrupt ends them, and what is done counts.

        Parameters
        ----------
        lines : sequence of str
            The runs.
        about : mapping
            Parameters of the result, besides those that every such study has.
        workers, time_limit : int, float
            Processes, 0 for this one, and seconds that a run may take on a processor.
        out : str or Path, optional
            File to save the result to.
        progress : bool
            Show a progress bar if standard error is a terminal, and what is bad when it is found.
        order : sequence of str, optional
            The runs in the order of the rows; as in ``lines`` if not given.

        Returns
        -------
        Result
            Of kind "bench", a row for each run.
        """
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
            "workers": workers,
            "time_limit": time_limit,
            "elapsed": perf_counter() - began,
            "package": str(Path(dae_sdc.__file__).parent),
            "complete": len(rows) == len(lines),
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
