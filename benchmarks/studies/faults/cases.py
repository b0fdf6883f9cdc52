"""Cases, the registry of their kinds, and what came of one."""

from __future__ import annotations

import io
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp

import dae_sdc
from benchmarks.measuring.runs import RAW as RAW_TEXT, Finding
from dae_sdc.errors import DAEError, InputError
from dae_sdc.registry import Registry
from dae_sdc.run.solution import Solution

PROCESS_LIMIT = 60.0  # Seconds that a process of a case may take
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
    return subprocess.Popen(command, **given)


def finish(child: subprocess.Popen[str], limit: float = PROCESS_LIMIT) -> tuple[int, str] | None:
    """Exit code and standard error of a process, None if it does not end in time; all it started is ended."""
    with child:
        try:
            _, said = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return child.returncode, said


def process(command: Sequence[str], limit: float = PROCESS_LIMIT, **options: Any) -> tuple[int, str] | None:
    return finish(start(command, **options), limit)


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


NAN, INF = float("nan"), float("inf")


def _of_itself() -> list[Any]:
    entries: list[Any] = []
    entries.append(entries)
    return entries


def _same(values: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """Values that no case can change."""
    return {name: lambda value=value: value for name, value in values.items()}  # type: ignore[misc]


# What can be changed is made anew, so that no case changes what another one gets
VALUES: Mapping[str, Callable[[], Any]] = {
    **_same({"None": None, "nan": NAN, "inf": INF, "-inf": -INF, "-1": -1, "0": 0, "0.0": 0.0, "0.5": 0.5}),
    **_same({"1": 1, "2": 2, "3": 3, "0.1": 0.1, "1e-5": 1e-5, "100": 100, "name": "simple"}),
    **_same({"method": "radau-iia-5"}),
    "function of a number": lambda: lambda u, t: u[0] - 1.0,
    "function of nan": lambda: lambda u, t: NAN,
    "list of numbers": lambda: [0.1, 0.05],
    "times": lambda: np.array([0.0, 0.1, 0.2]),
    "times that fall": lambda: [0.2, 0.1, 0.1],
    "dict of a name": lambda: {"x": 0.5},
    "dict of a parameter": lambda: {"alpha": NAN, "g": NAN},
    **_same({"1e300": 1e300, "-1e300": -1e300, "1e-300": 1e-300, "10**30": 10**30, "10**400": 10**400}),
    **_same({"True": True, "False": False, "empty text": "", "text": "text", "text of a number": "1e-3"}),
    **_same({"text of lines": "a\nb\nc", "text with a zero byte": "a\0b", "text of half a letter": "\udcff"}),
    **_same({"long text": "x" * 100_000, "bytes": b"\xff\x00", "complex": 1j}),
    "object": object,
    "function": lambda: lambda *args: None,
    "function that raises": lambda: lambda *args: 1 / 0,
    "class": lambda: int,
    "exception": lambda: ValueError("a\nb"),
    **_same({"module": math, "symbol": sp.Symbol("q")}),
    "matrix of symbols": lambda: sp.ones(2, 2) * sp.Symbol("q"),
    **_same({"nan of SymPy": sp.nan, "Fraction": Fraction(1, 3), "Decimal": Decimal("NaN")}),
    "path": lambda: Path("missing") / "file.npy",
    "directory": lambda: Path(),
    "empty list": list,
    "list": lambda: [1],
    "list of nan": lambda: [NAN, NAN, NAN],
    "list of None": lambda: [None],
    "list of texts": lambda: ["a", "b"],
    "list of lists": lambda: [[1.0], [2.0, 3.0]],
    "list of itself": _of_itself,
    "tuple": lambda: (1.0, "a"),
    "empty dict": dict,
    "dict": lambda: {"a": 1},
    "dict of numbers": lambda: {1: 2.0},
    "dict of nan": lambda: {"u1": NAN, "x": NAN},
    "set": lambda: {1.0, 2.0},
    "range": lambda: range(3),
    "generator": lambda: (i for i in range(3)),
    "array": lambda: np.ones(3),
    "empty array": lambda: np.ones(0),
    "array of shape ()": lambda: np.array(1.0),
    "array of shape (2, 3)": lambda: np.ones((2, 3)),
    "array of shape (0, 5)": lambda: np.ones((0, 5)),
    "array of nan": lambda: np.full(3, NAN),
    "array of complex": lambda: np.ones(3) * 1j,
    "array of texts": lambda: np.array(["a", "b", "c"]),
    "array of objects": lambda: np.array([object(), None, "x"], dtype=object),
    "array of dates": lambda: np.array(["2001-01-01"] * 3, dtype="datetime64[D]"),
    "record array": lambda: np.zeros(3, dtype=[("a", float)]),
    "masked array": lambda: np.ma.array(np.ones(3), mask=True),
    "nan of NumPy": lambda: np.float32(NAN),
    "bool of NumPy": lambda: np.bool_(True),
    "big integer of NumPy": lambda: np.uint64(2**64 - 1),
}

# What is no number and no row of numbers, whoever looks at it
NO_NUMBERS = frozenset(
    "nan|text|empty text|text of a number|text of lines|text with a zero byte|text of half a letter|long text"
    "|bytes|complex|object|function|function that raises|class|exception|module|symbol|matrix of symbols|path"
    "|nan of SymPy|directory|list of texts|list of itself|dict|dict of numbers|array of texts"
    "|array of objects|list of nan|array of nan|nan of NumPy|array of dates|list of None|set"
    "|Decimal".split("|")
)

# What is of no use to any option of the package
NOTHING = {*"object|exception|module|bytes|nan|complex|nan of NumPy|array of dates|Decimal".split("|")}

# Words for command lines; none is a path outside the current directory and its parent
TEXTS = (
    *("", " ", "a\nb", "\udcff", "\t", "a b", "9" * 5000, "x" * 5000, "9" * 30, "a'b\"c"),
    *"nan inf -inf -1 0 0.5 1e999 1e300 1e-300 1,2 1,,2 1e-3,1e-4 NaN,NaN 0x10 1_000 1j 1:2:3 None".split(),
    *"text \u00e9 \u03bb .. . missing/file.npy a=b a= = x=nan u1=nan -- - --- --nodes ' { {0} %s *".split(),
    *"simple pendulum radau-iia-5 LU bdf2 u1 all file.npy own.py:X model.mo text.mo a.npz a.csv".split(),
    *"a.png a.pdf .npy -o @file".split(),
)

NO_NUMBER_TEXTS = {"", " ", "nan", "text", "\u00e9", "NaN,NaN", "a=b", "--", "'", '"', "{", "%s", "LU", "*"}

# Words that look like numbers
NUMBER_TEXTS = "nan inf -inf -1 0 1 2 0.5 1e999 1e300 1e-300 -1e-300 0x10 1_000 3 100 -0.0 5e-324".split()
