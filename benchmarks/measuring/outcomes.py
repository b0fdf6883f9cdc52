"""What came of a run: done, refused, failed, wrong or crashed, and the class of its message."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dae_sdc.errors import DAEError, DAEWarning, InputError

DONE, REFUSED, FAILED, WRONG, CRASHED = "done", "refused", "failed", "WRONG", "CRASHED"
OUTCOMES = (DONE, REFUSED, FAILED, WRONG, CRASHED)
BAD = (WRONG, CRASHED)

# Text of a library under dae_sdc, in which no user finds a cause
RAW = re.compile(
    r"\b(numpy|scipy|numba|llvmlite|LAPACK|d[gs]e[a-z]{3}\d?|daxpy|offx|Traceback|object has no attribute|"
    r"unexpected keyword|positional argument|not subscriptable|index out of|out of bounds|must be same rank|"
    r"could not be broadcast|this is a defect)\b"
)


@dataclass(frozen=True)
class Finding:
    """The outcome of one run."""

    outcome: str  # One of OUTCOMES
    message: str = ""  # What the package or the judge said; empty for what is right and needs no word
    error: float = float("nan")  # Largest error in units of what is allowed; NaN where there is none
    steps: int = 0  # Steps that were taken
    solves: int = 0  # Integrations that the run consists of
    seconds: float = 0.0  # Time that it took on the processor
    warned: str = ""  # Warnings that are none of dae_sdc
    more: Mapping[str, Any] = field(default_factory=dict)  # What a study tells of it besides, by column

    @property
    def kind(self) -> str:
        """The class of the message: without its numbers and names."""
        text = re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)", "..", self.message)
        text = re.sub(r"[-+]?\b\d[\d.]*(e[-+]?\d+)?\b|\bnan\b|\binf\b", "#", text)
        text = re.sub(r"\b(x|du|u|equation |der)[#\[\]]*#\]?", "..", text)
        return " ".join(text.split())[:110]


def judged(run: Callable[[], Finding]) -> Finding:
    """What came of a run, whatever it raised."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = outcome_of(run)
    raw = [
        f"{one.category.__name__}: {one.message}"
        for one in caught
        if not issubclass(one.category, DAEWarning)
    ]
    return replace(found, warned=raw[0].splitlines()[0][:200] if raw else "")


def outcome_of(run: Callable[[], Finding]) -> Finding:
    """What came of a run, without the warnings that it let through."""
    try:
        found = run()
    except InputError as error:
        found = Finding(REFUSED, str(error), solves=1)
    except DAEError as error:
        found = Finding(FAILED, str(error), solves=1)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = next((f for f in reversed(frames) if "dae_sdc" in f.filename), frames[-1])
        place = f"{where.filename.rpartition('dae_sdc/')[2]}:{where.lineno}"
        return Finding(CRASHED, f"{type(error).__name__} at {place}: {str(error)[:300]}", solves=1)
    if found.outcome in (REFUSED, FAILED):
        if not found.message.strip():
            return replace(found, outcome=CRASHED, message="no message")
        if RAW.search(found.message):
            return replace(found, outcome=CRASHED, message=f"raw text: {found.message[:300]}")
    return found


def lines_by_message(rows: Iterable[Any], column: str = "message") -> dict[str, list[str]]:
    """The lines of rows by the class of their message, those of the class that has most first."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        lines.setdefault(Finding("", str(row[column])).kind, []).append(str(row["line"]))
    return dict(sorted(lines.items(), key=lambda entry: -len(entry[1])))


def done_of(rows: Collection[Any]) -> str:
    """How many runs of some are done."""
    done = sum(row["outcome"] == DONE for row in rows)
    return f"{done} of {len(rows)} done ({done / len(rows):.1%})"
