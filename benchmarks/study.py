"""Studies by name: a record of what each asks, measures, tells and draws."""

from __future__ import annotations

import argparse
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

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
Report = Callable[[Result], Iterable[str]]

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

    help: str
    flag: str = ""  # Its name; that of the parameter with hyphens if empty
    metavar: str | None = None
    repeated: bool = False  # Whether each value is given by itself, instead of all separated by commas
    read: Callable[[str], Any] | None = None  # What reads its text, where the annotation does not say it
    check: Callable[[str, Any], object] | None = None  # What refuses a value, or each of a sequence
    what: str = ""  # What each of a sequence is called

    def require(self, name: str, value: Any) -> None:
        """Refuse what cannot be a value of the parameter of a name."""
        if self.check is None or value is None:
            return
        several = hasattr(value, "__len__")
        if several and not len(value):
            raise InputError(f"need at least one {self.what}")
        for each in value if several else [value]:
            self.check(f"the {self.what}" if several else name, each)

    def add_to(self, parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
        flag = f"--{self.flag or parameter.name.replace('_', '-')}"
        if parameter.annotation == "bool":
            parser.add_argument(flag, dest=parameter.name, action="store_true", help=self.help, default=None)
            return
        kind = self.read or next(read for name, read in READERS if name in str(parameter.annotation))
        how: dict[str, Any] = {"action": "append"} if self.repeated else {"type": kind}
        text = self.help
        if (default := parameter.default) is not None:
            values = [default] if isinstance(default, str | int | float) else list(default)
            few = values if len(values) < 6 else [*values[:2], "...", values[-1]]
            shown = (f"{value:g}" if isinstance(value, float) else str(value) for value in few)
            text += f" ({','.join(shown)})"
        parser.add_argument(flag, dest=parameter.name, help=text, metavar=self.metavar, **how)


# Options by the name of the parameter that they stand for; every study has those of its own parameters
OPTIONS: Mapping[str, Option] = {
    "problems": Option("names of problems, separated by commas"),
    "repetitions": Option("runs of each kind in turn", check=require_count),
    "adapted": Option("problems of the other package on both sides"),
    "nodes": Option("number of collocation nodes", check=require_count),
    "qdelta": Option("preconditioner Q_Delta; 'dae-sdc list qdelta' shows all"),
    "sweeper": Option("method; 'dae-sdc list sweepers' shows all"),
    "sweepers": Option("methods, separated by commas (all that take the problem)", flag="sweeper"),
    "linear_solvers": Option("linear solvers, separated by commas (all that are installed)", "linear-solver"),
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


def by_name(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


class Benchmark:
    """A study: a function that measures, and all that is known of it."""

    def __init__(
        self,
        name: str,
        measure: Callable[..., Any],  # Its arguments by name that have an option are those of the study
        columns: str,  # Those of its table, as :func:`columns_of` reads them
        example: str,  # Options that make a short run
        picture: Picture | None = None,  # What draws a result, under the name of the study
        options: Mapping[str, Option] | None = None,  # What other studies do not have, or explain otherwise
        bad: Callable[[Result], bool] = lambda result: False,  # Whether a result shows what must not be
    ) -> None:
        self.name, self.measure, self.example, self.picture, self.bad = name, measure, example, picture, bad
        self.columns, self.units = columns_of(columns)
        self.options = {**OPTIONS, **(options or {})}
        self.tell: Report = lambda result: ()
        self.run = checked()(self._run())
        STUDIES.add(name, self)
        if picture is not None:
            PICTURES.add(name, picture)

    @property
    def arguments(self) -> list[inspect.Parameter]:
        return by_name(self.measure)

    def _run(self) -> Callable[..., Result]:
        """The run of the study, whose arguments are checked as their options say."""

        def run(*, out: str | Path | None = None, progress: bool = False, **arguments: Any) -> Result:
            for name, value in arguments.items():
                if name in self.options:
                    self.options[name].require(name, value)
            return self.result(arguments, out, progress)

        run.__module__, run.__name__ = self.measure.__module__, self.measure.__name__
        run.__signature__ = inspect.Signature([*self.arguments, *by_name(run)])  # type: ignore[attr-defined]
        return run

    def __call__(self, **arguments: Any) -> Result:
        return self.run(**arguments)

    def result(self, arguments: Mapping[str, Any], out: str | Path | None, progress: bool) -> Result:
        """Let the function put rows into a table, in whose parameters the arguments stand."""
        rows = Table("bench", self.columns, self.units, out)
        rows.progress = progress
        rows.parameters = {"study": self.name, "complete": False, "left_out": []}
        defaults = {argument.name: argument.default for argument in self.arguments}
        for name, value in (defaults | dict(arguments)).items():
            if value is not None:
                several = isinstance(value, Sequence) and not isinstance(value, str)
                rows.parameters[name] = list(value) if several else value
        with rows:
            self.measure(rows, **arguments)
        return rows.result()

    def reports(self, tell: Report) -> Report:
        self.tell = tell
        return tell

    def report(self, result: Result) -> str:
        """The tables of a result as text, and what could not be measured."""
        missing = (f"left out: {text}" for text in result.parameters.get("left_out", ()))
        return "\n".join([*self.tell(result), *missing])

    @property
    def about(self) -> str:
        return inspect.cleandoc(self.measure.__doc__ or "")

    @property
    def parameters(self) -> list[tuple[inspect.Parameter, Option]]:
        every = inspect.signature(self.run).parameters.items()
        return [(parameter, self.options[name]) for name, parameter in every if name in self.options]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for parameter, option in self.parameters:
            option.add_to(parser, parameter)

    def asked(self, args: argparse.Namespace) -> dict[str, Any]:
        named = {parameter.name: getattr(args, parameter.name) for parameter, _ in self.parameters}
        return {name: value for name, value in named.items() if value is not None}

    def main(self, args: argparse.Namespace) -> int:
        """Run the study as the command line asks, and print its table; the exit code is 1 if it is bad."""
        result = self.run(**self.asked(args), progress=sys.stderr.isatty())
        print(self.report(result))
        if args.out:
            print(f"written to {args.out}")
        return int(self.bad(result))


STUDIES: Registry[Benchmark] = Registry("study", "benchmarks.studies")  # Every study by its name


def study(name: str, columns: str, **how: Any) -> Callable[[Callable[..., None]], Benchmark]:
    """Decorator that makes a study of a function that puts rows into its first argument."""
    return lambda measure: Benchmark(name, measure, columns, **how)


def columns_of(text: str) -> tuple[list[tuple[str, str]], dict[str, str]]:
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

    @property
    def data(self) -> NDArray[np.void]:
        return np.array(self.rows, dtype=list(self.columns))

    def bar(self, total: int, unit: str) -> Any:
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


class _Values(dict[str, Any]):
    """What was computed, and the values of a row, by ``key`` or ``key*factor``."""

    def __init__(self, row: Any, computed: Mapping[str, Any]) -> None:
        super().__init__(computed)
        self.row = row

    def __missing__(self, text: str) -> Any:
        key, _, factor = text.partition("*")
        value = self[key] if key in self else self.row[key]
        return float(factor) * value if factor else value


class Layout:
    """The columns of a text, given as ``title=key*factor:format``; the title may be the key, the factor 1.

    A key may be a text with several ``{key*factor:format}``.
    """

    def __init__(self, text: str, nan: str | None = None) -> None:
        self.nan, self.cells = nan, []  # nan stands for numbers that are none, if it is not None
        for cell in text.split("|"):
            name, _, form = cell.rpartition(":")
            title, _, key = name.rpartition("=")
            width = re.match(r"[<>]\d+", form)
            assert width is not None, cell
            self.cells.append((title or key.partition("*")[0], key, form, width[0]))

    def head(self) -> str:
        return " ".join(f"{title:{width}}" for title, _, _, width in self.cells)

    def line(self, row: Any, **computed: Any) -> str:
        """The line of a row, with what was computed by key in the place of what is there."""
        values, texts = _Values(row, computed), []
        for _, key, form, width in self.cells:
            value: Any = key.format_map(values) if "{" in key else values[key]
            if isinstance(value, bool | np.bool_):
                value, form = "yes" if value else "no", width
            elif self.nan is not None and isinstance(value, float) and math.isnan(value):
                value, form = self.nan, width
            texts.append(f"{value:{form}}")
        return " ".join(texts)

    def lines(self, rows: Iterable[Any]) -> list[str]:
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
