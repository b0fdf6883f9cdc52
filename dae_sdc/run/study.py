"""The skeleton of every study: rows that are saved as they come, with a progress bar, and a verb."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dae_sdc.errors import DAEWarning
from dae_sdc.options import add_options, given_options
from dae_sdc.run.processes import is_root, on_root
from dae_sdc.run.results import Result, check_target, command_line, put_down
from dae_sdc.run.solution import Solution


@dataclass
class Study:
    """The rows of a study while it runs, saved when it ends; beside the result if it does not end.

    Parameters
    ----------
    kind : str
        Kind of the result.
    columns : sequence
        Names and types of its columns.
    units : mapping of str to str
        Units of its columns.
    out : str, Path or None
        File to save the result to.
    comm : mpi4py.MPI.Intracomm or None
        All ranks of a parallel study, of which rank 0 saves.
    """

    kind: str
    columns: Sequence[Any]
    units: Mapping[str, str]
    out: str | Path | None
    comm: Any = None
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    begun: list[tuple[Any, ...]] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=lambda: {"failures": [], "complete": False})

    def note(self, what: str, solution: Solution) -> None:
        """Remember why a run failed, and warn of it; its errors are NaN in the table."""
        if not solution.success:
            failure = f"{what}: {solution.message}"
            self.parameters["failures"].append(failure)
            # Behind the study and the check of its arguments stands the caller.
            warnings.warn(failure, DAEWarning, stacklevel=4)

    def leave_out(self, what: str, error: object) -> None:
        """Remember what could not be measured, and why."""
        self.parameters["left_out"].append(f"{what}: {error}")

    def add(self, rows: list[tuple[Any, ...]], last: bool = True) -> None:
        """Take the rows of a combination as far as they are known, and save: a killed study leaves them.

        ``last`` says that no more will come; until then the next rows take the place of these.
        """
        self.begun = rows
        if last:
            self.rows += rows
            self.begun = []
        if self.out is not None and is_root(self.comm):
            put_down(self.result(), self.out, False)

    def filled(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """A row by the names of its columns; numbers not given are NaN, counts 0 and texts empty."""
        strange = set(row) - {name for name, _ in self.columns}
        assert not strange, strange
        blank = {"f": np.nan, "i": 0, "U": "", "?": False}
        return tuple(row.get(name, blank[kind.lstrip("<>")[0]]) for name, kind in self.columns)

    def put(self, **row: Any) -> None:
        """Add a row, see :meth:`filled`."""
        self.add([self.filled(row)])

    def result(self) -> Result:
        """The table as it stands."""
        data = np.array([*self.rows, *self.begun], dtype=list(self.columns))
        return Result(self.kind, data, self.units, self.parameters, command_line())

    @contextmanager
    def running(self, total: int, unit: str, progress: bool) -> Iterator[Any]:
        """Refuse a file that cannot be written, give a progress bar, and save at the end.

        Parameters
        ----------
        total : int
            Number of steps of the bar.
        unit : str
            What a step is.
        progress : bool
            Show the bar if standard error is a terminal.
        """
        with self, tqdm(total=total, unit=unit, disable=None if progress else True, leave=False) as bar:
            yield bar

    def __enter__(self) -> Study:
        out = self.out
        if out is not None:
            on_root(self.comm, lambda: check_target(out))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.parameters["complete"] = kind is None
        if self.out is not None and is_root(self.comm) and (kind is None or self.rows or self.begun):
            put_down(self.result(), self.out, kind is None)


Verb = tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]
"""The functions ``add_arguments`` and ``main`` of the module of a verb."""


def has_failures(result: Result) -> bool:
    """Whether a run of a study has failed."""
    return bool(result.parameters["failures"])


def verb(
    study: Any, summary: Callable[[Result], str], failed: Callable[[Result], bool] = has_failures
) -> Verb:
    """The verb of a study, which has the options of its record, and prints a summary of its result.

    Parameters
    ----------
    study : callable
        Made by :func:`dae_sdc.options.takes`; among its options are those of
        :class:`dae_sdc.options.Output`.
    summary : callable
        The result as a table of text.
    failed : callable
        Whether the exit code is 1.
    """

    def main(args: argparse.Namespace) -> int:
        result = study(**given_options(args, study.record), progress=True)
        print(summary(result))
        if args.out:
            print(f"written to {args.out}")
        return int(failed(result))

    return partial(add_options, record=study.record), main
