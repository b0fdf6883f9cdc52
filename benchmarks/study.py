"""Studies by name: a record of what runs, reports and draws each, and its options on the command line."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dae_sdc.errors import InputError
from dae_sdc.options import listed
from dae_sdc.plotting.plot import PICTURES, Picture
from dae_sdc.registry import Registry, unknown
from dae_sdc.run.results import Result
from dae_sdc.run.study import Study

PROGRAM = "python -m benchmarks"


# What reads the text of an option, by what stands in the annotation of the parameter
READERS: Sequence[tuple[str, Callable[[str], Any]]] = (
    ("Sequence[str]", listed(str, "names")),
    ("Sequence[int]", listed(int, "integers")),
    ("Sequence[float]", listed(float, "numbers")),
    ("float", float),
    ("int", int),
    ("str", str),
)


@dataclass(frozen=True)
class Option:
    """An option of the command line for a parameter of a study, which gives its type and default."""

    help: str  # What it is
    flag: str = ""  # Its name; that of the parameter with hyphens if empty
    metavar: str | None = None  # What stands for its value in the help
    # Whether it is given once for each value, instead of all values separated by commas
    repeated: bool = False
    # What reads its text, where the annotation of the parameter does not say it
    read: Callable[[str], Any] | None = None

    def add_to(self, parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
        """Give a parser the option for a parameter."""
        flag = f"--{self.flag or parameter.name.replace('_', '-')}"
        if parameter.annotation == "bool":
            parser.add_argument(flag, dest=parameter.name, action="store_true", help=self.help, default=None)
            return
        default = parameter.default
        shown = "" if default is None else f" ({_shown(default)})"
        kind = self.read or next(read for name, read in READERS if name in str(parameter.annotation))
        how: dict[str, Any] = {"action": "append"} if self.repeated else {"type": kind}
        parser.add_argument(flag, dest=parameter.name, help=self.help + shown, metavar=self.metavar, **how)


def _shown(default: Any) -> str:
    if isinstance(default, str):
        return default
    values = [default] if isinstance(default, int | float) else list(default)
    few = values if len(values) < 6 else [*values[:2], "...", values[-1]]
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in few)


# Options by the name of the parameter that they stand for; every study has those of its own parameters
OPTIONS: Mapping[str, Option] = {
    "problems": Option("names of problems, separated by commas"),
    "repetitions": Option("runs of each kind in turn"),
    "adapted": Option("problems of the other package on both sides"),
    "nodes": Option("number of collocation nodes"),
    "qdelta": Option("preconditioner Q_Delta; 'dae-sdc list qdelta' shows all"),
    "sweeper": Option("method; 'dae-sdc list sweepers' shows all"),
    "sweepers": Option("methods, separated by commas (all that take the problem)", flag="sweeper"),
    "linear_solvers": Option(
        "linear solvers, separated by commas (all that are installed)", flag="linear-solver"
    ),
    "sizes": Option("numbers of unknowns, separated by commas"),
    "accuracies": Option("errors at which to compare, separated by commas"),
    "ranks": Option("ranks of MPI to start"),
    "rtols": Option("relative tolerances, separated by commas"),
    "time_limit": Option("longest time of a run in seconds"),
    "solutions": Option("directory for the solutions of models", metavar="DIR"),
    "seed": Option("what the runs are made from, the first seed of several"),
    "kinds": Option("kinds of runs, separated by commas", flag="kind", metavar="NAMES"),
    "workers": Option("processes; 0: this one"),
    "out": Option("file for the result; a .json of the same name says how it was made", metavar="FILE.npy"),
}


def _nothing_bad(result: Result) -> bool:
    return False


@dataclass(frozen=True)
class Benchmark:
    """A study."""

    # Measures; its arguments are by name, and those in OPTIONS are options. The first line of its docstring
    # says what the study is.
    run: Callable[..., Result]
    report: Callable[[Result], str]  # The table of a result as text
    example: str = ""  # Options that make a short run
    picture: Picture | None = None  # What draws a result, under the name of the study
    # Options that other studies do not have, or explain otherwise
    options: Mapping[str, Option] = field(default_factory=dict)
    # Takes the arguments of run that say what is run, and not how, and gives a line for each run; --list
    # prints them
    plan: Callable[..., Iterable[str]] | None = None
    # Whether a result shows what must not be, for which the exit code is 1
    bad: Callable[[Result], bool] = _nothing_bad

    @property
    def about(self) -> str:
        """What the study is, without its parameters."""
        return inspect.cleandoc(self.run.__doc__ or "").partition("\n\nParameters\n")[0]

    @property
    def parameters(self) -> Iterator[tuple[inspect.Parameter, Option]]:
        """The parameters of the study that have an option."""
        options = {**OPTIONS, **self.options}
        for name, parameter in inspect.signature(self.run).parameters.items():
            if name in options:
                yield parameter, options[name]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Give a parser the options of the study."""
        for parameter, option in self.parameters:
            option.add_to(parser, parameter)
        if self.plan is not None:
            parser.add_argument(
                "--list", action="store_true", help="print the lines of the runs, and run nothing"
            )

    def main(self, args: argparse.Namespace) -> int:
        """Run the study as the command line asks, and print its table; returns the exit code."""
        given = {parameter.name: getattr(args, parameter.name) for parameter, _ in self.parameters}
        given = {name: value for name, value in given.items() if value is not None}
        if self.plan is not None and args.list:
            how = ("workers", "time_limit", "out")
            print(*self.plan(**{name: given[name] for name in given if name not in how}), sep="\n")
            return 0
        result = self.run(**given, progress=sys.stderr.isatty())
        print(self.report(result))
        if args.out:
            print(f"written to {args.out}")
        return int(self.bad(result))


STUDIES: Registry[Benchmark] = Registry("study", "benchmarks.studies")  # Every study by its name


def register(name: str, study: Benchmark) -> None:
    """Enter a study, and what draws its results, under a name."""
    STUDIES.add(name, study)
    if study.picture is not None:
        PICTURES.add(name, study.picture)


def table(study: str, columns: list[tuple[str, str]], units: Mapping[str, str], out: Any) -> Study:
    """An empty table of a study."""
    made = Study("bench", columns, units, out)
    made.parameters = {"study": study, "complete": False, "left_out": []}
    return made


def check_names(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Refuse an empty list and names that do not exist."""
    if not given:
        raise InputError(f"need at least one {what}")
    for name in given:
        if name not in known:
            raise InputError(unknown(what, name, known))


def left_out(result: Result) -> list[str]:
    """The lines of a report for what could not be measured."""
    return [f"left out: {text}" for text in result.parameters["left_out"]]
