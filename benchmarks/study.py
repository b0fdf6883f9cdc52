"""Studies by name: a record of what runs, reports and draws each, and its options on the command line."""

from __future__ import annotations

import argparse
import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dae_sdc.arguments import checked
from dae_sdc.errors import DAEError, InputError, require_count, require_number
from dae_sdc.options import listed
from dae_sdc.plotting.plot import PICTURES, Picture
from dae_sdc.registry import Registry, unknown
from dae_sdc.run.results import Result
from dae_sdc.run.study import Study
from dae_sdc.sharing import bar_of

PROGRAM = "python -m benchmarks"
T = TypeVar("T")


# What reads the text of an option, by what stands in the annotation of the parameter
READERS: Sequence[tuple[str, Callable[[str], Any]]] = (
    ("Sequence[str]", listed(str, "names")),
    ("Sequence[int]", listed(int, "integers")),
    ("Sequence[float]", listed(float, "numbers")),
    ("float", float),
    ("int", int),
    ("str", str),
)


def require_positive(name: str, value: object) -> None:
    """Raise :class:`InputError` unless ``value`` is a positive, finite number."""
    if not 0.0 < require_number(name, value) < math.inf:
        raise InputError(f"{name} must be positive and finite; got {value}")


def require_below_one(name: str, value: object) -> None:
    """Raise :class:`InputError` unless ``value`` lies between 0 and 1."""
    if not 0.0 < require_number(name, value) < 1.0:
        raise InputError(f"{name} must lie between 0 and 1; got {value}")


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
    # What refuses a value of the parameter, or of each of a sequence, and what such a value is called
    check: Callable[[str, Any], object] | None = None
    what: str = ""

    def require(self, name: str, value: Any) -> None:
        """Refuse what cannot be a value of the parameter of a name."""
        if self.check is None or value is None:
            return
        if not hasattr(value, "__len__"):
            self.check(name, value)
            return
        if not len(value):
            raise InputError(f"need at least one {self.what}")
        for each in value:
            self.check(f"the {self.what}", each)

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
    "repetitions": Option("runs of each kind in turn", check=require_count),
    "adapted": Option("problems of the other package on both sides"),
    "nodes": Option("number of collocation nodes", check=require_count),
    "qdelta": Option("preconditioner Q_Delta; 'dae-sdc list qdelta' shows all"),
    "sweeper": Option("method; 'dae-sdc list sweepers' shows all"),
    "sweepers": Option("methods, separated by commas (all that take the problem)", flag="sweeper"),
    "linear_solvers": Option(
        "linear solvers, separated by commas (all that are installed)", flag="linear-solver"
    ),
    "sizes": Option(
        "numbers of unknowns, separated by commas", check=require_count, what="number of unknowns"
    ),
    "accuracies": Option("errors at which to compare, separated by commas"),
    "ranks": Option("ranks of MPI to start", check=require_count),
    "rtols": Option("relative tolerances, separated by commas", check=require_below_one, what="tolerance"),
    "time_limit": Option("longest time of a run in seconds", check=require_positive),
    "solutions": Option("directory for the solutions of models", metavar="DIR"),
    "seed": Option("what the runs are made from, the first seed of several"),
    "kinds": Option("kinds of runs, separated by commas", flag="kind", metavar="NAMES"),
    "workers": Option("processes; 0: this one"),
    "out": Option("file for the result; a .json of the same name says how it was made", metavar="FILE.npy"),
}


@dataclass(frozen=True)
class Benchmark:
    """A study."""

    # Measures; its arguments are by name, and those in OPTIONS are options. The first line of its docstring
    # says what the study is.
    run: Callable[..., Result]
    report: Callable[[Result], str]  # The table of a result as text
    example: str = ""  # Options that make a short run
    picture: Picture | None = None  # What draws a result, under the name of the study
    # Options that other studies do not have, or explain otherwise; those of what is tabulated come with it
    options: Mapping[str, Option] = field(default_factory=dict)
    # Takes the arguments of run that say what is run, and not how, and gives a line for each run; --list
    # prints them
    plan: Callable[..., Iterable[str]] | None = None
    # Whether a result shows what must not be, for which the exit code is 1
    bad: Callable[[Result], bool] = lambda result: False

    @property
    def about(self) -> str:
        """What the study is."""
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def parameters(self) -> Iterator[tuple[inspect.Parameter, Option]]:
        """The parameters of the study that have an option."""
        options = {**OPTIONS, **getattr(self.run, "options", {}), **self.options}
        for name, parameter in inspect.signature(self.run).parameters.items():
            if name in options:
                yield parameter, options[name]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Give a parser the options of the study."""
        for parameter, option in self.parameters:
            option.add_to(parser, parameter)
        if self.plan is not None:
            told = "print the lines of the runs, and run nothing"
            parser.add_argument("--list", action="store_true", help=told)

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


def register(
    name: str, run: Callable[..., Result], report: Callable[[Result], str], *how: Any, **more: Any
) -> None:
    """Enter a study, and what draws its results, under a name; the arguments are those of Benchmark."""
    study = Benchmark(run, report, *how, **more)
    STUDIES.add(name, study)
    if study.picture is not None:
        PICTURES.add(name, study.picture)


def columns(text: str) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Names with types, and units, of columns from a text of ``name:type[unit]``; floats need no type."""
    names, units = [], {}
    for word in text.split():
        name, _, unit = word.rstrip("]").partition("[")
        name, _, kind = name.partition(":")
        names.append((name, kind or "f8"))
        if unit:
            units[name] = unit
    return names, units


class Table(Study):
    """The rows of a study, which are saved as they come, with a bar that shows how far it is."""

    progress = False

    def bar(self, total: int, unit: str) -> Any:
        """Context of a bar."""
        return bar_of(total, unit, self.progress)

    def each(self, cases: Sequence[T], unit: str) -> Iterator[T]:
        """Cases, of which the bar counts those that are done."""
        with self.bar(len(cases), unit) as bar:
            for case in cases:
                yield case
                bar.update(1)

    @contextmanager
    def or_left_out(self, what: str, *others: type[Exception]) -> Iterator[None]:
        """Record a case that a DAEError or another error ends, and why, and go on."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, (DAEError, *others)):
                raise
            self.leave_out(what, error)


def tabulated(
    study: str,
    names: Sequence[tuple[str, str]],
    units: Mapping[str, str],
    options: Mapping[str, Option] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., Result]]:
    """Decorator of a study that puts rows into its first argument: it gives the result, which is saved.

    Arguments are checked as their options say, and stand in the parameters of the result.
    """
    known = {**OPTIONS, **(options or {})}

    def decorate(measure: Callable[..., None]) -> Callable[..., Result]:
        @functools.wraps(measure, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        def run(*, out: str | Path | None = None, progress: bool = False, **given: Any) -> Result:
            for name, value in given.items():
                if name in known:
                    known[name].require(name, value)
            rows = Table("bench", names, units, out)
            rows.progress = progress
            rows.parameters = {"study": study, "complete": False, "left_out": []}
            for name, value in (defaults | given).items():
                if value is not None:
                    several = isinstance(value, Sequence) and not isinstance(value, str)
                    rows.parameters[name] = list(value) if several else value
            with rows:
                measure(rows, **given)
            return rows.result()

        _, *own = inspect.signature(measure).parameters.values()
        defaults = {parameter.name: parameter.default for parameter in own}
        *also, _ = inspect.signature(run, follow_wrapped=False).parameters.values()
        run.__signature__ = inspect.Signature([*own, *also])  # type: ignore[attr-defined]
        run.options = known  # type: ignore[attr-defined]
        return checked()(run)

    return decorate


class Layout:
    """The columns of a text, given as ``title=key*factor:format``; the title may be the key, the factor 1."""

    def __init__(self, text: str, nan: str | None = None) -> None:
        self.nan, self.cells = nan, []  # nan stands for numbers that are none, if it is not None
        for cell in text.split("|"):
            name, _, form = cell.rpartition(":")
            title, _, key = name.rpartition("=")
            key, _, factor = key.partition("*")
            width = re.match(r"[<>]\d+", form)
            assert width is not None, cell
            self.cells.append((title or key, key, float(factor or 1.0), form, width[0]))

    def head(self) -> str:
        """The line of titles."""
        return " ".join(f"{title:{width}}" for title, _, _, _, width in self.cells)

    def line(self, row: Any, **computed: Any) -> str:
        """The line of a row, with what was computed by key in the place of what is there."""
        texts = []
        for _, key, factor, form, width in self.cells:
            value = computed[key] if key in computed else row[key]
            if isinstance(value, bool | np.bool_):
                texts.append(f"{'yes' if value else 'no':{width}}")
            elif self.nan is not None and isinstance(value, float) and math.isnan(value):
                texts.append(f"{self.nan:{width}}")
            else:
                texts.append(f"{value if factor == 1.0 else factor * value:{form}}")
        return " ".join(texts)

    def lines(self, rows: Iterable[Any]) -> list[str]:
        """The line of titles, and one of every row."""
        return [self.head(), *(self.line(row) for row in rows)]


def chosen(what: str, given: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The names that are given, or all; an empty list and names that do not exist are refused."""
    every = list(known)
    names = every if given is None else list(given)
    if not names:
        raise InputError(f"need at least one {what}")
    for name in names:
        if name not in every:
            raise InputError(unknown(what, name, every))
    return names


def as_text(lines: Callable[[Result], Iterable[str]]) -> Callable[[Result], str]:
    """Decorator of a report that gives lines: its text, with those for what could not be measured."""

    @functools.wraps(lines, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def report(result: Result) -> str:
        missing = (f"left out: {text}" for text in result.parameters.get("left_out", ()))
        return "\n".join([*lines(result), *missing])

    return report
