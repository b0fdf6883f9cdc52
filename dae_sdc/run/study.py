"""Base of all studies: rows that are saved as they are computed, the verb, and computed references."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dae_sdc.dae.state import Vector
from dae_sdc.errors import InputError, SolveError
from dae_sdc.options import add_options, given_options
from dae_sdc.run.processes import is_root, on_root
from dae_sdc.run.results import Result, check_target, put_down, say_written, tabulated
from dae_sdc.run.solution import Solution
from dae_sdc.run.solve import solve
from dae_sdc.sharing import bar_of, tell


@dataclass
class Study:
    """The rows of a running study, saved at its end, or as a partial result if it does not end."""

    kind: str  # Kind of the result, see :class:`~dae_sdc.run.results.Result`.
    columns: Sequence[Any]  # Names and types of its columns.
    units: Mapping[str, str]  # Units of its columns.
    out: str | Path | None  # File of the result; None to save nothing.
    comm: Any = None  # All ranks of a parallel study, of which rank 0 saves.
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    kept: int = 0  # Number of the rows that are not replaced any more.
    parameters: dict[str, Any] = field(default_factory=lambda: {"failures": [], "complete": False})

    def note(self, what: str, solution: Solution) -> None:
        """Record why a run failed, and warn; its errors are NaN in the table."""
        if not solution.success:
            failure = f"{what}: {solution.message}"
            self.parameters["failures"].append(failure)
            tell(failure)

    def leave_out(self, what: str, error: object) -> None:
        """Record a case that could not be run, and why."""
        self.parameters["left_out"].append(f"{what}: {error}")

    def add(self, rows: list[tuple[Any, ...]], last: bool = True) -> None:
        """Set the rows of a combination and save them; without ``last`` the next call replaces them."""
        self.rows[self.kept :] = rows
        self.kept = len(self.rows) if last else self.kept
        if self.out is not None and is_root(self.comm):
            put_down(self.result(), self.out, False)

    def filled(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """A row from values by column name; missing numbers are NaN, counts 0 and texts empty."""
        strange = set(row) - {name for name, _ in self.columns}
        assert not strange, strange
        blank = {"f": np.nan, "i": 0, "U": "", "?": False}
        return tuple(row.get(name, blank[kind.lstrip("<>")[0]]) for name, kind in self.columns)

    def put(self, **row: Any) -> None:
        """Add a row, see :meth:`filled`."""
        self.add([self.filled(row)])

    def result(self) -> Result:
        """The result with the rows so far."""
        return tabulated(self.kind, self.columns, self.rows, self.parameters, self.units)

    @contextmanager
    def running(self, total: int, unit: str, progress: bool | None) -> Iterator[Any]:
        """Context of a study: checks the output file first, gives a progress bar, and saves at the end."""
        with self, bar_of(total, unit, progress if is_root(self.comm) else False) as bar:
            yield bar

    def __enter__(self) -> Study:
        if self.out is not None:
            on_root(self.comm, partial(check_target, self.out))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.parameters["complete"] = kind is None
        if self.out is not None and is_root(self.comm) and (kind is None or self.rows):
            put_down(self.result(), self.out, kind is None)


# The functions ``add_arguments`` and ``main`` of the module of a verb.
Verb = tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]


def verb(task: Any, summary: Callable[[Result], str], failed: Callable[[Result], bool] | None = None) -> Verb:
    """The verb of a study, with its options, which prints a summary; by default any failed run fails it."""

    def main(args: argparse.Namespace) -> int:
        result = task(**{"progress": None, **given_options(args, task.record)})
        print(summary(result))
        say_written(args.out)
        return int(bool(result.parameters["failures"]) if failed is None else failed(result))

    return partial(add_options, record=task.record), main


LOOSER = 10.0  # Ratio of the tolerance of a second run, whose difference from a reference shows its error.
UNCERTAINTY = 3.0  # Errors up to so many of these differences are not told from the error of the reference.


@dataclass(frozen=True)
class Reference:
    """A solution to a small tolerance, and another that shows how accurate it is."""

    solution: Solution  # The reference.
    looser: Solution  # A run of ten times its tolerance.
    # Largest difference of both so far, by component group; at the times of the solutions of a study.
    differences: dict[str, float] = field(default_factory=dict)

    def states(self, times: Vector, names: tuple[str, ...], groups: Mapping[str, slice]) -> Vector:
        """States at given times, shape (K, n); notes how far the two runs are apart there."""
        if names != self.solution.names:
            raise InputError(
                f"the reference has the unknowns {', '.join(self.solution.names)}, and not "
                f"{', '.join(names)}; leave reference out"
            )
        states = self.solution(times)
        apart = np.abs(states - self.looser(times))
        for group, part in groups.items():
            self.differences[group] = max(self.differences.get(group, 0.0), float(apart[:, part].max()))
        return states

    def floor(self, group: str) -> float:
        """Error of a component group up to which it may be that of the reference."""
        return UNCERTAINTY * self.differences.get(group, 0.0)


@dataclass
class References:
    """The computed references of a study, one for each problem."""

    parameters: dict[str, Any]  # Those of the result.
    rtol: float | None  # Tolerance; None for errors against exact solutions.
    t_end: float | None
    params: Mapping[str, Any] | None
    by_problem: dict[Any, Reference] = field(default_factory=dict)

    def of(self, problem: Any) -> Reference | None:
        """The reference of a problem; None where errors are those against its exact solution."""
        if self.rtol is None:
            return None
        key = problem if isinstance(problem, str) else id(problem)
        if key not in self.by_problem:
            solutions: list[Solution] = []
            for rtol in (self.rtol, LOOSER * self.rtol):
                solutions.append(solve(problem, rtol=rtol, t_end=self.t_end, params=self.params, dense=True))
                if not solutions[-1].success:
                    raise SolveError(f"no reference with rtol={rtol:g}: {solutions[-1].message}")
            self.by_problem[key] = Reference(solutions[0], solutions[1])
        return self.by_problem[key]

    def tell(self) -> None:
        """Say in the result what the references are, and how accurate they are where they were used."""
        if self.rtol is not None:
            names = "problem", "sweeper", "rtol"
            self.parameters["reference"] = [
                {name: reference.solution.parameters[name] for name in names}
                | {"steps": reference.solution.stats["steps"], "differences": dict(reference.differences)}
                for reference in self.by_problem.values()
            ]


def sentences(references: Any) -> Iterator[str]:
    """A line for each computed reference in the parameters of a result."""
    for about in references or ():
        apart = ", ".join(f"{group} {value:.1e}" for group, value in about["differences"].items())
        yield (
            f"errors of {about['problem']} are those against a computed reference ({about['sweeper']}, "
            f"rtol={about['rtol']:g}, {about['steps']} steps), which differs from one of {LOOSER:g} rtol by: "
            f"{apart}"
        )
