"""Command lines with words that nobody means, and standard streams that take nothing."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.measuring.runs import Finding
from benchmarks.studies.faults import cases
from benchmarks.studies.faults.cases import DONE, HANG, LOST, TEXTS, TOLD, Case, Random, choice, kind
from dae_sdc import cli

BASES, COMMANDS = (cases.tables()["lines"][name].strip().splitlines() for name in ("bases", "commands"))
LONG = ("accuracy", "pendulum-study")  # Verbs that take minutes without the words that stand above
STREAMS = ("read", "closed", "full", "early", "both closed")


def write_sources() -> None:
    for path, source in (("model.mo", "model"), ("own.py", "own")):
        Path(path).write_text(cases.tables()["sources"][source], encoding="utf-8")


@lru_cache
def options(verb: str) -> tuple[argparse.Action, ...]:
    entry = cli.find_verbs().get(verb)
    if entry is None:
        return ()
    parser = cli.Parser()
    importlib.import_module(entry.module).add_arguments(parser)
    return tuple(action for action in parser._actions if action.option_strings and action.dest != "help")


def mutated(rng: Random, line: list[str]) -> tuple[list[str], str]:
    """A line with one mistake, and why it cannot be meant, if that is certain."""
    text, at, way = choice(rng, TEXTS), int(rng.integers(len(line))), rng.random()
    known = options(line[0])
    if known and (way < 0.55 or line[0] in LONG):
        action = choice(rng, known)
        flag = action.option_strings[-1]
        if action.type in (float, int) and rng.random() < 0.6:
            text = choice(rng, cases.tables()["words"]["numbers"].split())
        if action.nargs == 0 and rng.random() < 0.8:
            return [*line, flag], ""
        why = f"{flag} {text!r}" if action.type in (float, int) and text in cases.NO_NUMBER_TEXTS else ""
        return [*line, f"{flag}={text}"] if text.startswith("-") else [*line, flag, text], why
    if way < 0.65:
        return line[:at] + line[at + 1 :], ""
    if way < 0.85:
        return [*line[:at], text, *line[at + 1 :]], ""
    if way < 0.92:
        return [*line[:at], text, *line[at:]], ""
    other = int(rng.integers(len(line)))
    line = list(line)
    line[at], line[other] = line[other], line[at]
    return line, ""


def in_this_process(line: list[str], nonsense: str = "") -> Finding:
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            code = cli.main(line)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException as error:
            return cases.raw(error)
    return cases.command_ended(code, said.getvalue(), nonsense)


def in_a_process(line: list[str], stream: str, nonsense: str = "") -> Finding:
    command = cases.words(*line)
    closing = {"closed": 'exec "$@" >&-', "both closed": 'exec "$@" >&- 2>&-'}.get(stream)
    if closing:
        command = ["sh", "-c", closing, "sh", *command]
    with open("/dev/full" if stream == "full" else os.devnull, "wb") as taker:
        child = cases.start(command, stdout=subprocess.PIPE if stream in ("read", "early") else taker)
    if stream == "early" and child.stdout is not None:
        child.stdout.close()
        child.stdout = None
    done = cases.finish(child)
    if done is None:
        return Finding(HANG, "no end")
    if stream == "both closed" and done[0] >= 0:
        return Finding(TOLD if done[0] else DONE)
    return cases.command_ended(*done, nonsense)


@kind("command", 25.0)
def command(rng: Random) -> Case:
    """A command line with one or two mistakes, now and then in a process of its own."""
    line, why = choice(rng, BASES).split(), ""
    alone = rng.random() < 0.04
    stream = choice(rng, STREAMS)
    for i in range(int(rng.integers(1, 3)) if not alone or rng.random() < 0.6 else 0):
        line, reason = mutated(rng, line) if line else ([choice(rng, TEXTS)], "")
        why = reason if i == 0 else ""
    line = [word for word in line if not alone or "\0" not in word]

    def run() -> Finding:
        write_sources()
        return in_a_process(line, stream, why) if alone else in_this_process(line, why)

    place = f" with standard output {stream}" if alone else ""
    return Case(f"dae-sdc {' '.join(map(repr, line))}{place}", run)


SHADOWS = cases.tables()["words"]["modules"].split()


def variables(**changes: str | None) -> dict[str, Any]:
    return {"env": cases.environment(**changes)}


def shadow(rng: Random) -> dict[str, Any]:
    name = choice(rng, SHADOWS)
    Path(f"{name}.py").write_text("raise RuntimeError('shadowed')\n", encoding="utf-8")
    return {}


def nowhere() -> str:
    """A directory that does not exist and that nobody can make, not even root."""
    Path("file").write_text("", encoding="utf-8")
    return str(Path("file").absolute() / "below")


def deep(rng: Random) -> dict[str, Any]:
    place = Path(*["d\u00e9 'x'"] * 20)
    place.mkdir(parents=True)
    return {"cwd": str(place.absolute())}


def damaged_cache(rng: Random) -> dict[str, Any]:
    """A directory of compiled code of which some files are cut, filled with other bytes, or emptied."""
    place = Path("cache").absolute()
    place.mkdir(mode=0o700)
    given = variables(NUMBA_CACHE_DIR=str(place))
    cases.process(cases.words(*COMMANDS[2].split()), **given)
    for path in sorted(place.rglob("*.*")):
        if path.is_file() and rng.random() < 0.5:
            whole = path.read_bytes()
            others = [b"", whole[: len(whole) // 2], whole[:-3], b"\x80" * 50, whole[::-1]]
            path.write_bytes(choice(rng, others))
    return given


def broken_mpi(rng: Random) -> dict[str, Any]:
    package = Path("fake").absolute() / "mpi4py"
    package.mkdir(parents=True)
    texts = "raise ImportError('no libmpi')", "raise RuntimeError('broken')", "import nothing_of_this_name"
    text = choice(rng, texts)
    (package / "__init__.py").write_text(choice(rng, ["", text]), encoding="utf-8")
    (package / "MPI.py").write_text(text, encoding="utf-8")
    return variables(PYTHONPATH=f"{package.parent}{os.pathsep}{cases.PACKAGE}")


def few_files(rng: Random) -> dict[str, Any]:
    import resource

    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))}


# What is changed, as options of a new process
CHANGES = cases.functions_of(cases.tables()["changes"], "rng", **globals())


@kind("surroundings", 3.0, most=100)
def surroundings(rng: Random) -> Case:
    """A command that works, in surroundings that should not matter to it."""
    change, line = choice(rng, CHANGES), choice(rng, COMMANDS)

    def run() -> Finding:
        write_sources()
        given = CHANGES[change](rng)
        words = line.replace("model.mo", str(Path("model.mo").absolute())).split()
        done = cases.process(cases.words(*words), **given)
        if done is None:
            return Finding(HANG, "no end")
        finding = cases.command_ended(*done)
        writes = ("run.npy" in line or "a.png" in line) and "written" in change
        if finding.outcome == TOLD and not writes:
            return Finding(LOST, f"it does not run: {finding.message}")
        return finding

    return Case(f"{line} with {change}", run)
