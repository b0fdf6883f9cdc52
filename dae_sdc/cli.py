"""The command ``dae-sdc``: one verb a module of ``dae_sdc.run`` and ``dae_sdc.plotting``.

A module is a verb if its docstring has a line ``Example: dae-sdc <verb> ...``; its file name with hyphens is
the verb, the first line of the docstring its summary. It defines ``add_arguments(parser)`` and
``main(args) -> int``.
``dae-sdc --help`` reads the docstrings without importing anything, so that it answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO, cast

from dae_sdc.arguments import own_word
from dae_sdc.errors import DAEError, DAEWarning, InputError, words_of
from dae_sdc.imports import launched
from dae_sdc.registry import docstrings, require_name
from dae_sdc.sharing import handling

PROGRAM = "dae-sdc"
ROOMS = ("run", "plotting")

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

# Errors of pySDC that a setting causes, and those that a computation causes.
_OF_PYSDC = {
    **dict.fromkeys(("ParameterError", "ControllerError", "CollocationError"), EXIT_USAGE),
    "ConvergenceError": EXIT_FAILED,
}
_ENDINGS = {"SIGTERM": "terminated", "SIGHUP": "hung up"}  # What signals do that end the process, in words.


class Verb(NamedTuple):
    """What is known of a verb before its module is imported."""

    module: str  # Full name of the module that carries it out.
    summary: str  # First line of the docstring of the module.
    example: str  # A command line that works.
    text: str  # The whole docstring.


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that ends in a hint."""

    def __init__(self, *, program: str = PROGRAM, **options: Any) -> None:
        self.program = program
        # Options have one spelling everywhere, so no abbreviations.
        super().__init__(**{"allow_abbrev": False, **options})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in the base class, and an unknown option is answered with the nearest that exists."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known, asked = re.findall(r"--[a-z][a-z0-9-]*", self.format_help()), unknown[0].partition("=")[0]
            options = [flag.lstrip("-").replace("-", "_") for flag in known]
            own = own_word(asked.lstrip("-").replace("-", "_"), options).replace("_", "-")
            near = [f"--{own}"] if own else get_close_matches(asked, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return parsed

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # The class above takes "--" out of the words of an option, and hands on an empty list.
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected a value; got '--'")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        """Print one line on standard error and exit with code 2."""
        verb = self.prog.removeprefix(self.program).strip()
        where = f"{verb}: " if verb else ""
        _say(self.program, f"{where}{message.rstrip('.')}; see '{self.prog} --help'")
        raise SystemExit(EXIT_USAGE)


def find_verbs() -> dict[str, Verb]:
    """Every verb by its name, in alphabetical order, read from docstrings without importing a module."""
    verbs: dict[str, Verb] = {}
    for room in ROOMS:
        for stem, text in docstrings(Path(__file__).parent / room):
            name = stem.replace("_", "-")
            line = rf"^Example: ((?:mpirun -n \d+ )?{PROGRAM} {name}(?: .*)?)$"
            example = re.search(line, text, flags=re.MULTILINE)
            if example:
                verbs[name] = Verb(f"dae_sdc.{room}.{stem}", text.splitlines()[0], example[1], text)
    return dict(sorted(verbs.items()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return carry_out(PROGRAM, _dispatch, argv)


def run_script(file: str) -> int:
    """Carry out the verb of a file that Python was started with, as ``python run/solve.py``."""
    room, name = Path(file).parent.name, Path(file).stem.replace("_", "-")
    verb = find_verbs().get(name)

    def refuse(_: list[str]) -> NoReturn:
        raise InputError(f"{file} is no script; '{PROGRAM} --help' lists what can be run")

    # The verb of a function may be carried out by another room, which draws what the function returns.
    if verb is None or not (room == "run" or verb.module == f"dae_sdc.{room}.{Path(file).stem}"):
        return carry_out(PROGRAM, refuse, ())
    sys.argv[:1] = [PROGRAM, name]
    return main()


def carry_out(program: str, dispatch: Callable[[list[str]], int], argv: Sequence[str] | None) -> int:
    """Run a command so that errors, signals and standard streams that fail end it in one line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or os.environ.get("DAE_SDC_DEBUG", "0") not in ("", "0")
    with _streams(), _one_of_many(), handling(_end, *_ENDINGS):
        try:
            with warnings.catch_warnings():
                _show_own_warnings_in_one_line(program)
                try:
                    return dispatch(arguments)
                finally:
                    sys.stdout.flush()  # what cannot be written shows here and not when the interpreter ends
        except KeyboardInterrupt:
            return _fail(program, "interrupted; files of finished results are kept", EXIT_INTERRUPTED)
        except Terminated as end:
            return _fail(program, f"{end}; files of finished results are kept", end.code)
        except OutputError as error:
            with suppress(OSError, ValueError):  # nothing more is written, not even at the interpreter's end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error.__cause__, BrokenPipeError):
                return EXIT_BROKEN_PIPE  # what reads the output has enough
            return _fail(program, str(error), EXIT_FAILED)
        except Exception as error:
            if debug:
                traceback.print_exc()
            code, message = _explain(error)
            return _fail(program, message, code)


class OutputError(Exception):
    """What a command prints cannot be written."""


class _Stream:
    """A standard stream that reports its failures to a function, apart from those of files."""

    def __init__(self, stream: Any, failed: Callable[[OSError], None]) -> None:
        self._stream, self._failed = stream, failed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._failed(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)


@contextmanager
def _streams() -> Iterator[None]:
    """Standard streams that exist, as else the next open file gets their numbers; failures are reported."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)

    def refused(error: OSError) -> None:
        raise OutputError(
            f"cannot write to standard output: {error.strerror}; files of results are kept"
        ) from error

    with ExitStack() as stack:
        given = []
        for stream in (sys.stdout, sys.stderr):
            if stream is None:
                stream = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            elif isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            given.append(stream)
        stack.enter_context(redirect_stdout(cast(TextIO, _Stream(given[0], refused))))
        # Where standard error is gone, there is nowhere to report to.
        stack.enter_context(redirect_stderr(cast(TextIO, _Stream(given[1], lambda error: None))))
        yield


class Terminated(BaseException):
    """A signal has come that ends the process, as from a batch system whose time is up."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(what)
        self.code = 128 + number


def _end(number: int, _: object) -> None:
    """Turn one of :data:`_ENDINGS` into an exception, so that what is finished is saved."""
    for name in _ENDINGS.keys() & signal.Signals.__members__:
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    raise Terminated(_ENDINGS[signal.Signals(number).name], number)


@contextmanager
def _one_of_many() -> Iterator[None]:
    """Under mpirun, let rank 0 alone print."""
    if launched() == 1:
        yield
        return
    from dae_sdc.run import processes

    try:
        silent = processes.world().Get_rank() > 0
    except InputError:
        silent = False  # the verb will say so itself
    if not silent:
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _fail(program: str, message: str, code: int) -> int:
    """Say why the command failed, under mpirun once for all ranks, and return the exit code."""
    if launched() > 1:
        from dae_sdc.run import processes

        processes.fail_together(message, code, lambda text: _say(program, text, sys.__stderr__))
    else:
        _say(program, message)
    return code


def _dispatch(arguments: list[str]) -> int:
    """Split at the verb, which is the first argument that is no option, and run it."""
    at = next((i for i, text in enumerate(arguments) if not text.startswith("-")), len(arguments))
    verbs = find_verbs()
    lines = ["verbs, each with an example:"]
    for name, verb in verbs.items():
        lines += [f"  {name:<12} {verb.summary}", f"  {'':<12} {verb.example}"]
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} VERB [options]",
        description="Differential-algebraic equations by spectral deferred corrections.",
        epilog="\n".join([*lines, "", f"'{PROGRAM} VERB --help' explains one."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    add_debug(parser)
    options = parser.parse_args(arguments[:at])
    if options.version:
        from dae_sdc import __version__

        print(f"{PROGRAM} {__version__}")
        return 0
    if at == len(arguments):
        parser.error("no verb given")
    return _run_verb(arguments[at], verbs, arguments[at + 1 :])


def add_debug(parser: argparse.ArgumentParser) -> None:
    """Give ``parser`` the option that :func:`carry_out` looks for."""
    parser.add_argument("--debug", action="store_true", help="show the trace of an error")


def _run_verb(name: str, verbs: Mapping[str, Verb], arguments: list[str]) -> int:
    require_name("verb", name, verbs)
    verb = verbs[name]
    module = importlib.import_module(verb.module)
    parser = Parser(
        prog=f"{PROGRAM} {name}", description=verb.text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    add_debug(parser)
    args = parser.parse_args(arguments)
    if launched() > 1:
        from dae_sdc.run.processes import world

        if not hasattr(args, "parallel"):
            if world().Get_rank() > 0:
                return 0
        elif args.parallel is None:
            action = next(action for action in parser._actions if action.dest == "parallel")
            shared = ", ".join(action.choices or ("nodes", "steps or both"))
            raise InputError(
                f"started on {launched()} ranks; say with --parallel what they share ({shared}), "
                f"or start without mpirun"
            )
    results = sys.modules.get("dae_sdc.run.results")  # if its verb has not imported it, it writes none
    unwritten: set[str] = set() if results is None else results.UNWRITTEN
    unwritten.clear()
    with _reading(getattr(args, "libraries", None) or (), getattr(args, "reader", None)):
        return int(module.main(args)) or (EXIT_FAILED if unwritten else 0)


@contextmanager
def _reading(libraries: Sequence[str], reader: str | None) -> Iterator[None]:
    """Let files of Modelica be read with libraries by a reader, here and in processes that are started."""
    from dae_sdc.options import READER_VARIABLE

    paths = os.pathsep.join([*libraries, *filter(None, [os.environ.get("MODELICAPATH")])])
    chosen = {"MODELICAPATH": paths, READER_VARIABLE: reader or os.environ.get(READER_VARIABLE)}
    before = dict(os.environ)
    os.environ.update({name: text for name, text in chosen.items() if text})
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _explain(error: Exception) -> tuple[int, str]:
    """The exit code for an error, and what the user is told."""
    if isinstance(error, DAEError):
        return EXIT_USAGE if isinstance(error, InputError) else EXIT_FAILED, str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return EXIT_USAGE, f"{error.filename}: {error.strerror}"
    pysdc = sys.modules.get("pySDC.core.errors")  # if it was never imported, it raised nothing
    for name, code in _OF_PYSDC.items() if pysdc is not None else ():
        if isinstance(error, getattr(pysdc, name)):
            return code, str(error)
    return EXIT_FAILED, (
        f"{words_of(error)}; this is a defect in dae_sdc or in the problem; "
        f"run again with --debug to see the trace"
    )


def _show_own_warnings_in_one_line(program: str) -> None:
    """Until the filters are restored, show a :class:`DAEWarning` as one line and any other as always."""
    show_any = warnings.showwarning

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, DAEWarning):
            _say(program, f"warning: {message}")
        else:
            show_any(message, category, *place, **more)

    warnings.showwarning = show
    if not sys.warnoptions:
        warnings.simplefilter("once", DAEWarning)


def _say(program: str, message: str, stream: TextIO | None = None) -> None:
    with suppress(OSError):  # nobody can be told
        print(f"{program}: {' '.join(message.split())}", file=stream or sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
