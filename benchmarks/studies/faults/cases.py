"""Cases, the registry of their kinds, and what came of one."""

from __future__ import annotations

import io
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import tomllib
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp

import dae_sdc
from benchmarks.measuring.runs import RAW as RAW_TEXT, Finding
from dae_sdc.errors import DAEError, InputError
from dae_sdc.registry import Registry
from dae_sdc.run.solution import Solution

PROCESS_LIMIT = 60  # Seconds on a processor that a process of a case may take, asleep five times as many
PACKAGE = Path(dae_sdc.__file__).resolve().parents[1]


def environment(**changes: str | None) -> dict[str, str]:
    """Variables for processes that use this package; None leaves one out."""
    given = {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGE), **changes}
    return {name: value for name, value in {**os.environ, **given}.items() if value is not None}


def words(*arguments: str) -> list[str]:
    """The command line in a new process, which imports nothing from the current directory."""
    return [sys.executable, "-P", "-m", "dae_sdc", *arguments]


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """A process in a session of its own, of which standard error is kept."""
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": environment(), **options}
    given |= {"stderr": subprocess.PIPE, "start_new_session": True, "text": True, "errors": "replace"}
    child = subprocess.Popen(command, **given)
    with suppress(AttributeError, ProcessLookupError):  # Linux alone sets limits of others
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.prlimit(child.pid, resource.RLIMIT_CPU, (PROCESS_LIMIT, most))
    return child


def finish(child: subprocess.Popen[str]) -> tuple[int, str] | None:
    """Exit code and standard error of a process, None if it does not end in time; all it started is ended."""
    with child:
        try:
            _, said = child.communicate(timeout=5.0 * PROCESS_LIMIT)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return None if child.returncode == -signal.SIGXCPU else (child.returncode, said)


def process(command: Sequence[str], **options: Any) -> tuple[int, str] | None:
    return finish(start(command, **options))


DONE, TOLD = "done", "told"
RAW, LINES, HANG, NONSENSE, TORN, LOST = "RAW", "LINES", "HANG", "NONSENSE", "TORN", "LOST"
BAD = (RAW, LINES, HANG, NONSENSE, TORN, LOST)
OUTCOMES = (DONE, TOLD, *BAD)
Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """Something to be done that has a fault in it."""

    text: str  # What is done, in a line
    # Does it in the current directory, which is new and empty, and says what came of it
    run: Callable[[], Finding]


@dataclass(frozen=True)
class Kind:
    make: Callable[[Random], Case]  # Makes a case from random numbers
    share: float  # Share of the cases of a study, in units of the sum of all
    most: int = 10**9  # Largest number of cases in a study


# Every kind by the name with which its lines begin
KINDS: Registry[Kind] = Registry("kind of faults", "benchmarks.studies.faults.kinds")


def kind(name: str, share: float, most: int = 10**9) -> Callable[[Callable[[Random], Case]], None]:
    """Decorator that enters a function that makes cases as a kind of faults."""
    return lambda make: KINDS.add(name, Kind(make, share, most))


def choice(rng: Random, entries: Sequence[Any] | Mapping[str, Any]) -> Any:
    """One of several, of a mapping one of the keys."""
    listed = list(entries)
    return listed[int(rng.integers(len(listed)))]


def case_of(line: str) -> Case:
    """The case of a line; raises :class:`InputError` if there is none."""
    name, _, number = line.partition(":")
    if not (number.isascii() and number.isdigit()):
        raise InputError(f"a case is KIND:NUMBER, with KIND one of {', '.join(KINDS)}; got '{line}'")
    return KINDS[name].make(np.random.default_rng([int(number), *name.encode()]))


def repeat(line: str) -> Finding:
    """Do the case of a line in a new directory, and say what came of it."""
    case = case_of(line)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, chdir(place):
        try:
            finding = case.run()
        except Exception as error:  # one of the study itself, which must be seen
            finding = Finding(RAW, f"in the study: {type(error).__name__}: {error}")
    text = case.text.encode("unicode_escape").decode()[:300]
    return Finding(finding.outcome, f"{text} -> {finding.message}" if finding.message else text)


def called(call: Callable[[], Any], nonsense: str = "", own: tuple[type[BaseException], ...] = ()) -> Finding:
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            answer = call()
        except DAEError as error:
            # The text of a user's exception is the user's; any other comes from the package.
            return told(str(error), of_the_user=error.__cause__ is not None)
        except own as error:
            return Finding(TOLD, type(error).__name__)
        except BaseException as error:
            return raw(error)
    if isinstance(answer, Solution):
        if not answer.success:
            return told(answer.message, of_the_user=True)
        if not np.isfinite(answer.u).all():
            return Finding(NONSENSE, "success with values that are not finite")
    return accepted(nonsense)


def accepted(nonsense: str) -> Finding:
    """What comes of something that is carried out, and why it cannot be meant, if that is certain."""
    return Finding(NONSENSE, f"accepted: {nonsense}") if nonsense else Finding(DONE)


def raw(error: BaseException) -> Finding:
    """An exception that is none of the package, with its place; those of users' functions come through."""
    inside = f"{PACKAGE / 'dae_sdc'}{os.sep}"
    every = traceback.extract_tb(error.__traceback__)
    if every and Path(every[-1].filename).is_relative_to(Path(__file__).parent):
        return Finding(TOLD, f"the user's own: {type(error).__name__}")
    places = [f"{f.filename.removeprefix(inside)}:{f.lineno}" for f in every if f.filename.startswith(inside)]
    if not places:
        return Finding(TOLD, f"not by dae_sdc: {type(error).__name__}")
    return Finding(RAW, f"{type(error).__name__} at {places[-1]}: {str(error)[:200]}")


def told(text: str, of_the_user: bool = False) -> Finding:
    """A message of the package, which must be one line in its own words."""
    if not text.strip() or "\n" in text.strip():
        return Finding(LINES, f"message {text[:300]!r}")
    meant = re.sub("(that|which) numba compiles|available: compiled, numpy", "", text)
    if not of_the_user and RAW_TEXT.search(meant):
        return Finding(RAW, f"raw text: {text[:300]}")
    return Finding(TOLD, text[:300])


def command_ended(code: int, said: str, nonsense: str = "") -> Finding:
    """What came of a command with an exit code and what it wrote to standard error."""
    if code < 0:
        return Finding(RAW, f"died of signal {-code}: {said[-200:]}")
    lines = [line for line in said.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in said or "this is a defect" in said:
        return Finding(RAW, lines[-1][:300])
    if code == 0:
        return accepted(nonsense)
    messages = [line for line in lines if not line.startswith("dae-sdc: warning:")]
    if len(messages) == 1:
        return told(messages[0], of_the_user=True)
    if not messages and (lines or code == 141):
        return Finding(TOLD, lines[-1][:300] if lines else "nobody reads on")
    return Finding(LINES, f"exit code {code} with {len(messages)} lines: {said[:300]!r}")


@cache
def tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))


def of_itself() -> list[Any]:
    entries: list[Any] = []
    entries.append(entries)
    return entries


def functions_of(texts: Mapping[str, str], arguments: str = "", **names: Any) -> dict[str, Any]:
    """What Python makes of texts, anew in each call, so that no case changes what another one gets."""
    names |= {"nan": math.nan, "inf": math.inf, "np": np, "sp": sp, "math": math, "Path": Path}
    names |= {"Fraction": Fraction, "Decimal": Decimal, "of_itself": of_itself}
    # They count as functions of this study, which stands for the user.
    codes = {name: compile(f"lambda {arguments}: {text}", __file__, "eval") for name, text in texts.items()}
    return {name: eval(code, names) for name, code in codes.items()}


VALUES = functions_of(tables()["values"])
NO_NUMBERS, NOTHING = tables()["names"]["no_numbers"], tables()["names"]["nothing"]
TEXTS = ("", " ", "a\nb", "\udcff", "\t", "a b", "9" * 5000, "x" * 5000, "9" * 30, "a'b\"c")
TEXTS += tuple(tables()["words"]["texts"].split())  # Words for command lines
NO_NUMBER_TEXTS = {"", " ", "nan", "text", "\u00e9", "NaN,NaN", "a=b", "--", "'", '"', "{", "%s", "LU", "*"}
